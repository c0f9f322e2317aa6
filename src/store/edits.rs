//! What an edit changes.
//!
//! Invariant: an edit is a transaction like any other command; it is stored apart from the verdicts of
//! the crawl, and changes none of them.

use crate::config::HostLists;
use crate::telemetry::clock;
use crate::web::{SiteId, UndecidedReason};

use super::engine::Entry;
use super::keys;
use super::list_changes::{self, BlockRecord, Cause, DecisionRecord};
use super::records::{self, Phase, SiteRecord, VerdictRecord};
use super::state::{State, next_number, store, topic_record};
use super::transaction::OpenTransaction;
use super::upkeep::make_due;
use super::versions;
use super::{Edit, Edited, Opinion, REJUDGED, StoreError, TopicId};

/// Maximum length of a note in bytes, so that no record is too long.
const NOTE_BYTES: usize = 2_000;

impl State {
    pub(super) fn edit(
        &self,
        changes: OpenTransaction<'_, '_>,
        edit: Edit,
    ) -> Result<Edited, StoreError> {
        let is_steering = matches!(
            edit,
            Edit::Block { .. } | Edit::Unblock { .. } | Edit::Pause { .. }
        );
        let edited = self.apply(changes, edit)?;
        if is_steering && edited != Edited::Unchanged {
            let steered: Option<u64> = changes.get(keys::STEERING)?;
            changes.put(keys::STEERING.to_vec(), &(steered.unwrap_or_default() + 1));
        }
        Ok(edited)
    }

    fn apply(&self, changes: OpenTransaction<'_, '_>, edit: Edit) -> Result<Edited, StoreError> {
        match edit {
            Edit::Decide {
                topic,
                site,
                decision,
            } => decide(changes, topic, &site, decision, &self.hosts_of(topic)),
            Edit::Recheck { topic, site } => recheck(changes, topic, &site),
            Edit::Block { site, note } => self.block(changes, &site, Some(note)),
            Edit::Unblock { site } => self.block(changes, &site, None),
            Edit::Pause { topic, is_paused } => {
                topic_record(changes, topic)?;
                let was_paused = changes.get_raw(&keys::pause(topic))?.is_some();
                if is_paused {
                    changes.put_raw(keys::pause(topic), Vec::new());
                } else {
                    changes.remove(keys::pause(topic));
                }
                Ok(done_unless(was_paused == is_paused))
            }
        }
    }

    /// Blocks or unblocks a host for all topics.
    fn block(
        &self,
        changes: OpenTransaction<'_, '_>,
        site: &SiteId,
        note: Option<String>,
    ) -> Result<Edited, StoreError> {
        let old: Option<BlockRecord> = changes.get(&keys::block(site))?;
        let is_same = match (&old, &note) {
            (Some(old), Some(note)) => old.note == *note,
            (None, None) => true,
            _ => false,
        };
        if is_same {
            return Ok(Edited::Unchanged);
        }
        let is_blocked = note.is_some();
        match note {
            Some(note) => {
                let record = BlockRecord {
                    note: shortened(note),
                    at: now(),
                };
                changes.put(keys::block(site), &record);
            }
            None => changes.remove(keys::block(site)),
        }
        for number in 1..=store(changes)?.topics {
            let topic = TopicId(number);
            for (key, value) in judged_at_host(changes, topic, site)? {
                let verdict: VerdictRecord = versions::decode(&key, &value)?;
                let own = keys::last_host(&key);
                let own = own.ok_or_else(|| StoreError::damaged(&key, "it names no site"))?;
                list_changes::relist(changes, topic, &own, Cause::Blocked, &self.hosts_of(topic))?;
                let was_refused = verdict.verdict().undecided_reason();
                if !is_blocked && was_refused == Some(UndecidedReason::Blocked) {
                    recheck(changes, topic, &own)?;
                }
            }
        }
        Ok(Edited::Done { seq: None })
    }
}

/// The verdicts on a site, and on those at other ports of its host if it names no port.
fn judged_at_host(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    site: &SiteId,
) -> Result<Vec<Entry>, StoreError> {
    let key = keys::verdict(topic, site);
    let own = changes.get_raw(&key)?;
    let mut judged: Vec<Entry> = own.map(|value| (key.clone(), value)).into_iter().collect();
    if site.port().is_none() {
        let ports = [key.as_slice(), b":"].concat();
        for entry in changes.scan(&ports) {
            judged.push(entry?);
        }
    }
    Ok(judged)
}

fn decide(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    site: &SiteId,
    decision: Option<(Opinion, String)>,
    hosts: &HostLists,
) -> Result<Edited, StoreError> {
    let verdict: Option<VerdictRecord> = changes.get(&keys::verdict(topic, site))?;
    if verdict.is_none() {
        let known: Option<SiteRecord> = changes.get(&keys::site(topic, site))?;
        return Ok(match known {
            Some(_) => Edited::NotVisited,
            None => Edited::Unknown,
        });
    }
    let key = keys::decision(topic, site);
    let old: Option<DecisionRecord> = changes.get(&key)?;
    let decision = decision.map(|(opinion, note)| (opinion, shortened(note)));
    let is_same = match (&old, &decision) {
        (Some(old), Some((opinion, note))) => old.opinion == *opinion && old.note == *note,
        (None, None) => true,
        _ => false,
    };
    if is_same {
        return Ok(Edited::Unchanged);
    }
    let seq = next_number(changes)?;
    match decision {
        Some((opinion, note)) => {
            let at = now();
            let record = DecisionRecord {
                opinion,
                note,
                at,
                seq,
            };
            changes.put(key, &record);
        }
        None => changes.remove(key),
    }
    list_changes::relist(changes, topic, site, Cause::Decided(seq), hosts)?;
    list_changes::ask_editors(changes, topic, site, None)?;
    Ok(Edited::Done { seq: Some(seq) })
}

/// Makes a site that was visited before due at once.
fn recheck(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    site: &SiteId,
) -> Result<Edited, StoreError> {
    let known: Option<SiteRecord> = changes.get(&keys::site(topic, site))?;
    let Some(mut known) = known else {
        return Ok(Edited::Unknown);
    };
    let first = records::seconds(REJUDGED);
    match known.phase {
        Phase::Border { .. } => Ok(Edited::NotVisited),
        // It is being visited.
        Phase::Taken => Ok(Edited::Unchanged),
        Phase::Due(due) if due == first => Ok(Edited::Unchanged),
        Phase::Due(due) => {
            let host = site.as_str().as_bytes().to_vec();
            changes.remove(keys::due(topic, due, site));
            changes.put_raw(keys::due(topic, first, site), host);
            known.phase = Phase::Due(first);
            changes.put(keys::site(topic, site), &known);
            Ok(Edited::Done { seq: None })
        }
        Phase::Judged | Phase::Recheck(_) => {
            let is_due = make_due(changes, topic, &keys::verdict(topic, site))?;
            let mut record = topic_record(changes, topic)?;
            record.totals.deferred += u64::from(is_due);
            changes.put(keys::topic_record(topic), &record);
            Ok(done_unless(!is_due))
        }
    }
}

fn done_unless(is_unchanged: bool) -> Edited {
    if is_unchanged {
        Edited::Unchanged
    } else {
        Edited::Done { seq: None }
    }
}

fn now() -> u64 {
    records::seconds(clock::now())
}

fn shortened(mut note: String) -> String {
    note.truncate(note.floor_char_boundary(NOTE_BYTES));
    note
}
