//! What a report does to the records of its site.

use std::net::IpAddr;

use crate::telemetry::clock;
use crate::web::{SiteId, SiteReport, UndecidedReason, Verdict, shared_address};

use super::claims::{self, put_back};
use super::edges::forget_edges;
use super::engine::Entry;
use super::keys;
use super::list_changes::{self, Cause};
use super::metrics::DroppedSites;
use super::rechecks;
use super::records::{self, EvidenceRecord, Phase, SiteRecord, VerdictRecord};
use super::state::{OpenTopic, State, next_number, progress, site_record, topic_record};
use super::suspects;
use super::transaction::OpenTransaction;
use super::versions;
use super::{Recorded, Resolution, StoreError, Tally, TopicId, TopicTotals, VisitOutcome};

// === impl State ===

impl State {
    pub(super) fn record(
        &mut self,
        changes: OpenTransaction<'_, '_>,
        outcomes: &[VisitOutcome],
    ) -> Result<Vec<Recorded>, StoreError> {
        let mut recorded = Vec::with_capacity(outcomes.len());
        for outcome in outcomes {
            let open = self.topic(outcome.claim.topic)?;
            recorded.push(open.record(changes, outcome, &mut self.dropped)?);
            self.extend_curve(changes, outcome.claim.topic)?;
            let border = topic_record(changes, outcome.claim.topic)?.totals.border;
            self.trim_border(outcome.claim.topic, border)?;
        }
        self.forget_old_evidence(changes)?;
        Ok(recorded)
    }
}

// === impl OpenTopic ===

impl OpenTopic {
    fn record(
        &self,
        changes: OpenTransaction<'_, '_>,
        outcome: &VisitOutcome,
        dropped: &mut DroppedSites,
    ) -> Result<Recorded, StoreError> {
        let VisitOutcome { claim, report, .. } = outcome;
        let (topic, site) = (claim.topic, claim.site.clone());
        let Some(held) = claims::held(changes, claim)? else {
            return Ok(Recorded::Stale);
        };
        let from = held.from;
        let mut record = topic_record(changes, topic)?;
        let mut known = site_record(changes, topic, &site)?;
        changes.remove(keys::claim(topic, &site));
        match outcome.resolution {
            Resolution::PutBack => suspects::put_back(changes, topic, &site)?,
            _ => suspects::clear(changes, topic, &site)?,
        }
        record.totals.pages += report.cost.pages as u64;
        known.entrance = report.entrance.to_string();
        let old: Option<VerdictRecord> = changes.get(&keys::verdict(topic, &site))?;
        if old.is_none() {
            let mut progress = progress(changes, topic)?;
            progress.add(tally(report, known.is_start));
            changes.put(keys::progress(topic), &progress);
        }
        let mut recorded = Recorded::Done {
            judged: None,
            sites_at_address: 0,
        };
        match outcome.resolution {
            Resolution::PutBack => {
                // It may have got edges while it was claimed.
                let rank = self.ranking.rank(&known.standing());
                known.last_rank = (rank.value, rank.tie);
                put_back(changes, topic, &site, &mut known, from, &mut record.totals)?;
            }
            Resolution::Kept => {
                known.phase = match &old {
                    Some(old) => self.phase_after(changes, topic, &site, old.verdict()),
                    None => Phase::Judged,
                };
                known.deferrals = 0;
                record.totals.taken -= 1;
            }
            Resolution::Deferred(not_before) | Resolution::PutOff(not_before) => {
                let due = records::seconds(not_before);
                known.phase = Phase::Due(due);
                let is_counted = matches!(outcome.resolution, Resolution::Deferred(_));
                known.deferrals = known.deferrals.saturating_add(is_counted.into());
                let host = site.as_str().as_bytes().to_vec();
                changes.put_raw(keys::due(topic, due, &site), host);
                record.totals.deferred += 1;
                record.totals.taken -= 1;
            }
            Resolution::Judged => {
                known.phase = self.phase_after(changes, topic, &site, report.verdict);
                known.deferrals = 0;
                record.totals.taken -= 1;
                recorded = judge(changes, outcome, old.as_ref(), &known, &mut record.totals)?;
            }
        }
        changes.put(keys::site(topic, &site), &known);
        if outcome.resolution == Resolution::Judged {
            list_changes::ask_editors(changes, topic, &site, old.as_ref())?;
            if let Some(seq) = recorded.seq() {
                list_changes::relist(changes, topic, &site, Cause::Judged(seq), &self.hosts)?;
            }
            for edge in &outcome.edges {
                self.recommend(changes, topic, &site, edge, &mut record, dropped)?;
            }
            let was = old.and_then(|old| old.alias_of());
            share_domain(
                changes,
                topic,
                self.platforms.domain_of(&site),
                was.is_some(),
                report.alias_of.is_some(),
            )?;
            if let Some(page) = &report.alias_of
                && was.as_ref() != Some(page)
            {
                let alias = (&site, known.is_start);
                self.inherit(changes, topic, alias, page, &mut record, dropped)?;
            }
            if !self.keeps_edges_to(report.verdict) {
                forget_edges(changes, topic, &site)?;
            }
        }
        changes.put(keys::topic_record(topic), &record);
        Ok(recorded)
    }

    /// The phase of a site that was visited just now.
    fn phase_after(
        &self,
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
        site: &SiteId,
        verdict: Verdict,
    ) -> Phase {
        let now = clock::now();
        rechecks::phase_after(changes, topic, site, verdict, now, self.recheck_after)
    }
}

/// Numbers a verdict and adds it to the totals, in place of the one it replaces. One that confirms the
/// old one keeps its number, and is not returned as new.
fn judge(
    changes: OpenTransaction<'_, '_>,
    outcome: &VisitOutcome,
    old: Option<&VerdictRecord>,
    known: &SiteRecord,
    totals: &mut TopicTotals,
) -> Result<Recorded, StoreError> {
    let (topic, report) = (outcome.claim.topic, &outcome.report);
    let confirmed = old.filter(|old| old.is_confirmed_by(report, known.is_start));
    let seq = match confirmed {
        Some(old) => old.seq(),
        None => next_number(changes)?,
    };
    let key = keys::verdict(topic, &report.site);
    if let Some(old) = old {
        count(totals, old.verdict(), old.is_start(), |number| *number -= 1);
        changes.remove(keys::sequence(old.seq()));
        let address = old.address().filter(|_| takes_room(old.verdict()));
        count_at(changes, topic, address, |sites| sites.saturating_sub(1))?;
    }
    count(totals, report.verdict, known.is_start, |number| {
        *number += 1;
    });
    let verdict = VerdictRecord::new(report, seq, outcome.rank, known.is_start);
    changes.put(key, &verdict);
    let place = (topic.0, report.site.to_string());
    changes.put(keys::sequence(seq), &place);
    changes.put(keys::NEWEST.to_vec(), &records::seconds(clock::now()));
    let evidence = keys::evidence(topic, &report.site);
    if outcome.keep_evidence {
        changes.put(evidence, &EvidenceRecord::new(report, &outcome.edges));
    } else {
        changes.remove(evidence);
    }
    let address = report.address.filter(|_| takes_room(report.verdict));
    let sites_at_address = count_at(changes, topic, address, |sites| sites.saturating_add(1))?;
    Ok(Recorded::Done {
        judged: confirmed
            .is_none()
            .then(|| Box::new(verdict.into_judged(report.site.clone()))),
        sites_at_address,
    })
}

/// Whether a site counts at its address: not if the address was full.
fn takes_room(verdict: Verdict) -> bool {
    verdict.undecided_reason() != Some(UndecidedReason::AddressFull)
}

/// An alias does not count for its registrable domain.
fn share_domain(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    domain: &str,
    was_alias: bool,
    is_alias: bool,
) -> Result<(), StoreError> {
    if was_alias == is_alias {
        return Ok(());
    }
    let domain = keys::domain(topic, domain);
    let sites: u32 = changes.get(&domain)?.unwrap_or_default();
    let sites = if is_alias {
        sites.saturating_sub(1)
    } else {
        sites.saturating_add(1)
    };
    changes.put(domain, &sites);
    Ok(())
}

/// Changes the number of sites judged at an address, and returns the new number.
///
/// Older versions counted each IPv6 address separately. Their counts are merged here when the network
/// is seen again.
fn count_at(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    address: Option<IpAddr>,
    change: impl Fn(u32) -> u32,
) -> Result<u32, StoreError> {
    let Some(address) = address else {
        return Ok(0);
    };
    let address = shared_address(address);
    let key = keys::address(topic, address);
    let mut sites: u32 = changes.get(&key)?.unwrap_or_default();
    if let IpAddr::V6(network) = address {
        let counted: Vec<Entry> = changes
            .scan(&keys::addresses_in(topic, network))
            .collect::<Result<_, _>>()?;
        for (other, value) in counted.into_iter().filter(|(other, _)| *other != key) {
            sites = sites.saturating_add(versions::decode(&other, &value)?);
            changes.remove(other);
        }
    }
    let sites = change(sites);
    changes.put(key, &sites);
    Ok(sites)
}

fn count(totals: &mut TopicTotals, verdict: Verdict, is_start: bool, change: impl Fn(&mut u64)) {
    match verdict {
        Verdict::Relevant => {
            change(&mut totals.relevant);
            if !is_start {
                change(&mut totals.finds);
            }
        }
        Verdict::Irrelevant => change(&mut totals.irrelevant),
        Verdict::Undecided(_) => change(&mut totals.undecided),
    }
}

/// What a visit adds to the windows of the crawl.
fn tally(report: &SiteReport, is_start: bool) -> Tally {
    let mut totals = TopicTotals {
        pages: report.cost.pages as u64,
        ..TopicTotals::default()
    };
    count(&mut totals, report.verdict, is_start, |number| *number += 1);
    totals.tally()
}
