//! Which sites are on the list of a topic, and the changes of that list.
//!
//! Invariants: a site that was ever on a list has a listing record, and one entry among the changes, at
//! the number in that record. It is on the list if the operator has not blocked it and an editor has
//! accepted it, or, without a decision, if it was judged relevant. The queue for editors holds exactly
//! the sites that are judged relevant or irrelevant and have no decision.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::config::HostLists;
use crate::telemetry::clock;
use crate::web::{SiteId, Verdict};

use super::engine::Engine;
use super::keys;
use super::records::{self, VerdictRecord};
use super::state::next_number;
use super::transaction::{OpenTransaction, Transaction};
use super::versions::first_format;
use super::{Block, ChangeReason, Decision, ListChange, Opinion, StoreError, TopicId};

/// The state of a site on a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ListingRecord {
    /// The number of the last change.
    pub(super) seq: u64,
    pub(super) change: ListChange,
    pub(super) reason: ChangeReason,
    pub(super) at: u64,
}

/// What an editor has decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DecisionRecord {
    pub(super) opinion: Opinion,
    pub(super) note: String,
    pub(super) at: u64,
    pub(super) seq: u64,
}

/// A host that is kept out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BlockRecord {
    pub(super) note: String,
    pub(super) at: u64,
}

first_format!(ListingRecord, DecisionRecord, BlockRecord);

/// Why a list may have to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// There is a new verdict, of this number.
    Judged(u64),
    /// An editor has decided, under this number. That is a change even if the list stays the same.
    Decided(u64),
    /// A host was blocked, or is no longer.
    Blocked,
    /// The operator's host lists have changed.
    Reviewed,
    /// The topic had no list yet: it gets the one that it would have had from the beginning.
    Created,
}

/// Puts a judged site on the list, or takes it off, by block, decision and verdict. Returns the number
/// of the change, if there is one.
pub(super) fn relist(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    site: &SiteId,
    cause: Cause,
    hosts: &HostLists,
) -> Result<Option<u64>, StoreError> {
    let key = keys::verdict(topic, site);
    let verdict: Option<VerdictRecord> = changes.get(&key)?;
    let verdict = verdict.ok_or_else(|| StoreError::damaged(&key, "it is missing"))?;
    let decision: Option<DecisionRecord> = changes.get(&keys::decision(topic, site))?;
    let is_blocked = !hosts.permit(site.host()) || is_blocked(changes, site)?;
    let opinion = decision.map(|decision| decision.opinion);
    let is_listed = !is_blocked
        && match opinion {
            Some(opinion) => opinion == Opinion::Accept,
            None => verdict.verdict().is_relevant(),
        };
    let old: Option<ListingRecord> = changes.get(&keys::listing(topic, site))?;
    let was_listed = old.as_ref().is_some_and(|old| old.change.is_listed());
    if cause == Cause::Created && old.is_some() {
        return Ok(None);
    }
    let is_change = match cause {
        Cause::Decided(_) => is_listed || old.is_some() || opinion.is_some(),
        Cause::Judged(_) => is_listed || was_listed,
        Cause::Blocked | Cause::Reviewed | Cause::Created => is_listed != was_listed,
    };
    if !is_change {
        return Ok(None);
    }
    let change = match (was_listed, is_listed) {
        // An editor's acceptance is news even if the site was on the list.
        (true, true) if matches!(cause, Cause::Decided(_)) && opinion.is_some() => {
            ListChange::Added
        }
        (false, true) => ListChange::Added,
        (true, true) => ListChange::Changed,
        (_, false) if !is_blocked && opinion.is_none() && verdict.alias_of().is_some() => {
            ListChange::Alias
        }
        (_, false) => ListChange::Dropped,
    };
    let seq = match (cause, &old) {
        (Cause::Judged(seq) | Cause::Decided(seq), _) => seq,
        (Cause::Created, None) => verdict.seq(),
        // Clients of the feed may have read past the number of the verdict.
        _ => next_number(changes)?,
    };
    if let Some(old) = old {
        changes.remove(keys::list_change(topic, old.seq));
    }
    let record = ListingRecord {
        seq,
        change,
        reason: reason(&verdict, opinion, is_blocked, was_listed, cause),
        at: records::seconds(match cause {
            Cause::Created => verdict.judged_at(),
            _ => clock::now(),
        }),
    };
    changes.put(keys::listing(topic, site), &record);
    let host = site.as_str().as_bytes().to_vec();
    changes.put_raw(keys::list_change(topic, seq), host);
    Ok(Some(seq))
}

fn reason(
    verdict: &VerdictRecord,
    opinion: Option<Opinion>,
    is_blocked: bool,
    was_listed: bool,
    cause: Cause,
) -> ChangeReason {
    match (is_blocked, opinion, cause) {
        (true, ..) => ChangeReason::Blocked,
        (false, _, Cause::Blocked) => ChangeReason::Unblocked,
        (false, Some(Opinion::Accept), _) => ChangeReason::Accepted,
        (false, Some(Opinion::Reject), _) => ChangeReason::Rejected,
        (false, None, Cause::Decided(_)) => ChangeReason::Withdrawn,
        (false, None, Cause::Judged(_) | Cause::Reviewed | Cause::Created) => {
            match verdict.verdict() {
                Verdict::Relevant if was_listed => ChangeReason::JudgedAgain,
                Verdict::Relevant => ChangeReason::Judged,
                Verdict::Irrelevant => ChangeReason::Irrelevant,
                Verdict::Undecided(reason) => ChangeReason::Undecided(reason.kind()),
            }
        }
    }
}

/// In place of a fingerprint while a list is under review.
pub(super) const UNDER_REVIEW: u64 = 0;

/// A fingerprint of the operator's host lists.
pub(super) fn fingerprint(hosts: &HostLists) -> u64 {
    // Patterns contain no line feeds.
    let patterns: Vec<String> = hosts.patterns().collect();
    xxh3_64(patterns.join("\n").as_bytes()).max(UNDER_REVIEW + 1)
}

/// Whether an edit has blocked a host. A block without a port holds for all ports.
pub(super) fn is_blocked(
    changes: &Transaction<'_, dyn Engine>,
    site: &SiteId,
) -> Result<bool, StoreError> {
    let is_on = |site: &SiteId| changes.get_raw(&keys::block(site));
    Ok(is_on(site)?.is_some() || site.port().is_some() && is_on(&site.without_port())?.is_some())
}

/// Adds a site to the queue for editors, or removes it, after its verdict or decision has changed.
pub(super) fn ask_editors(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    site: &SiteId,
    old: Option<&VerdictRecord>,
) -> Result<(), StoreError> {
    if let Some(question) = old.and_then(|old| question(topic, site, old)) {
        changes.remove(question);
    }
    let verdict: Option<VerdictRecord> = changes.get(&keys::verdict(topic, site))?;
    let Some(question) = verdict.and_then(|verdict| question(topic, site, &verdict)) else {
        return Ok(());
    };
    match changes.get_raw(&keys::decision(topic, site))? {
        Some(_) => changes.remove(question),
        None => changes.put_raw(question, Vec::new()),
    }
    Ok(())
}

fn question(topic: TopicId, site: &SiteId, verdict: &VerdictRecord) -> Option<Vec<u8>> {
    let usefulness = verdict.usefulness()?;
    Some(keys::question(topic, usefulness, site))
}

/// How informative a decision on a site would be, from 0 to 1: the entropy of the mean of two estimates,
/// the confidence of the classifier and the rank by edges. It is high if both are unsure, and if they
/// disagree: a site that good sites recommend and the model rejects shows a gap in the model.
pub(super) fn usefulness(confidence: f64, rank: f64) -> f64 {
    let mean = f64::midpoint(confidence.clamp(0.0, 1.0), rank.clamp(0.0, 1.0));
    let part = |share: f64| {
        if share > 0.0 {
            -share * share.log2()
        } else {
            0.0
        }
    };
    part(mean) + part(1.0 - mean)
}

// === impl records ===

impl DecisionRecord {
    pub(super) fn into_decision(self) -> Decision {
        Decision {
            opinion: self.opinion,
            note: self.note,
            at: records::time(self.at),
            seq: self.seq,
        }
    }
}

impl BlockRecord {
    pub(super) fn into_block(self) -> Block {
        Block {
            note: self.note,
            at: records::time(self.at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: a mean of 1/2 is a full bit, of 1/4 it is 2/4 + 3/4 · log2(4/3) = 0.8113.
    #[test]
    fn unsure_and_disputed_sites_teach_most() {
        let close = |one: f64, other: f64| (one - other).abs() < 1e-4;
        assert!(close(usefulness(0.5, 0.5), 1.0));
        assert!(close(usefulness(0.05, 0.95), 1.0), "they disagree");
        assert!(close(usefulness(0.25, 0.25), 0.8113));
        assert!(close(usefulness(1.0, 1.0), 0.0));
        assert!(close(usefulness(0.0, -3.0), 0.0));
        assert!(usefulness(0.9, 0.7) > usefulness(0.95, 0.9));
    }
}
