//! Claims: handing sites out, and putting them back.
//!
//! No claim expires here. The store is locked by one process, so every claim is its own or one that the
//! process before it left, and those are put back when the store is opened. By the time of day, a clock
//! that is set forward, or a process that was suspended, would end visits that are under way.
//!
//! Invariants: a claimed site has one claim and is in no index. Claim numbers only grow, so that a
//! report under an earlier claim is recognised as stale.

use std::time::Duration;

use tokio::time::Instant;

use crate::web::{PageUrl, SiteId};

use super::engine::{Engine, Entry};
use super::keys::{self, kind};
use super::list_changes;
use super::rechecks;
use super::records::{self, ClaimRecord, Phase, SiteRecord, VerdictRecord};
use super::state::{State, site_record, topic_record};
use super::suspects::{self, Suspects};
use super::transaction::{OpenTransaction, Transaction};
use super::versions;
use super::{
    Claim, ClaimedSite, REJUDGED, Rank, StoreError, TakeRequest, Taken, TopicId, TopicTotals,
};

/// How long other topics hold back for one that waits to visit a site alone, after its last request: it
/// may have been paused since.
const MAX_WAIT_FOR_TOPIC: Duration = Duration::from_secs(30);

/// A key of an index, and its site.
type Place = (Vec<u8>, SiteId);

/// Where the site is that must be visited before any other.
enum FirstAlone {
    Here(Place),
    /// In another topic.
    Elsewhere,
}

// === impl State ===

impl State {
    pub(super) fn take(
        &mut self,
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
        taking: TakeRequest,
    ) -> Result<Taken, StoreError> {
        self.topic(topic)?;
        let suspects = Suspects::read(changes)?;
        if suspects.is_one_out_alone() || self.is_other_waiting_to_be_alone(topic) {
            return Ok(Taken::held_back());
        }
        let mut chosen = match self.first_alone(changes, &suspects, topic, &taking)? {
            Some(FirstAlone::Here(place)) => vec![place],
            Some(FirstAlone::Elsewhere) => return Ok(Taken::held_back()),
            None => choose(changes, topic, &taking)?,
        };
        let mut record = topic_record(changes, topic)?;
        let alone = |(_, site): &Place| suspects.must_be_alone(topic, site);
        let is_held_back = match chosen.iter().position(alone) {
            None => false,
            Some(0) if suspects::is_any_under_way(changes)? => {
                self.waits_to_be_alone = Some((topic, Instant::now()));
                return Ok(Taken::held_back());
            }
            Some(0) => {
                chosen.truncate(1);
                let is_first_out = !self.has_handed_out;
                suspects.send_out_alone(changes, topic, &chosen[0].1, is_first_out);
                true
            }
            // Its turn comes when those before it are reported on.
            Some(before) => {
                chosen.truncate(before);
                true
            }
        };
        self.waits_to_be_alone = None;
        self.has_handed_out |= !chosen.is_empty();
        let mut sites = Vec::with_capacity(chosen.len());
        let mut number: u64 = changes.get(keys::LAST_CLAIM)?.unwrap_or_default();
        for (key, site) in chosen {
            number += 1;
            let claim = Claim {
                topic,
                site,
                owner: self.owner,
                number,
            };
            match key.first().copied() {
                Some(kind::DUE) => record.totals.deferred -= 1,
                Some(kind::BORDER) => record.totals.border -= 1,
                _ => {}
            }
            let is_poison = suspects.is_poison(topic, &claim.site);
            sites.push(ClaimedSite {
                is_poison,
                ..hand_out(changes, claim)?
            });
            changes.remove(key);
        }
        // Nothing is written if there is nothing to take, so that polling costs no sync.
        if !sites.is_empty() {
            changes.put(keys::LAST_CLAIM.to_vec(), &number);
            record.totals.taken += sites.len() as u64;
            changes.put(keys::topic_record(topic), &record);
        }
        Ok(Taken {
            sites,
            is_held_back,
        })
    }

    /// The site to visit alone before anything else is handed out, if there is one. A death counts
    /// only if nothing else was handed out before; otherwise a process that always dies of a later
    /// site would never find out which.
    fn first_alone(
        &self,
        changes: &Transaction<'_, dyn Engine>,
        suspects: &Suspects,
        topic: TopicId,
        taking: &TakeRequest,
    ) -> Result<Option<FirstAlone>, StoreError> {
        if self.has_handed_out {
            return Ok(None);
        }
        let mut is_elsewhere = false;
        for (of, site) in suspects.to_be_alone() {
            if *of != topic {
                is_elsewhere = true;
            } else if let Some(place) = place_of(changes, topic, site, taking)? {
                return Ok(Some(FirstAlone::Here(place)));
            }
        }
        // The other topic may be paused, or never be opened.
        let is_waited_for = is_elsewhere && self.opened.elapsed() < MAX_WAIT_FOR_TOPIC;
        Ok(is_waited_for.then_some(FirstAlone::Elsewhere))
    }

    /// Whether another topic waits until no site is being visited.
    fn is_other_waiting_to_be_alone(&self, topic: TopicId) -> bool {
        self.waits_to_be_alone
            .is_some_and(|(other, since)| other != topic && since.elapsed() < MAX_WAIT_FOR_TOPIC)
    }
}

/// Those of the claims that have not ended. There is nothing to extend, since none expires.
pub(super) fn renew(
    changes: &Transaction<'_, dyn Engine>,
    claims: Vec<Claim>,
) -> Result<Vec<Claim>, StoreError> {
    let mut renewed = Vec::with_capacity(claims.len());
    for claim in claims {
        if held(changes, &claim)?.is_some() {
            renewed.push(claim);
        }
    }
    Ok(renewed)
}

/// Sites to hand out: deferred ones that are due, some rechecks, and the best of the border.
fn choose(
    changes: &Transaction<'_, dyn Engine>,
    topic: TopicId,
    taking: &TakeRequest,
) -> Result<Vec<Place>, StoreError> {
    let now = records::seconds(taking.now);
    let first_due = |kind: u8, most: usize| {
        let prefix = keys::of_topic(kind, topic);
        let entries = changes.scan(&prefix).take_while(|entry| match entry {
            Ok((key, _)) => keys::due_seconds(key).is_some_and(|seconds| seconds <= now),
            Err(_) => true,
        });
        entries
            .take(most)
            .collect::<Result<Vec<Entry>, StoreError>>()
    };
    let due = first_due(kind::DUE, taking.limit)?;
    let slots = taking.limit - due.len();
    let mut again = first_due(kind::RECHECK, slots)?;
    let mut best: Vec<Entry> = Vec::new();
    if taking.is_border_open {
        let prefix = keys::of_topic(kind::BORDER, topic);
        let kept = again.len().min(taking.rechecks);
        let entries = changes.scan(&prefix).take(slots - kept);
        best = entries.collect::<Result<_, _>>()?;
    }
    again.truncate(slots - best.len());
    let mut chosen = Vec::with_capacity(due.len() + again.len() + best.len());
    for (key, host) in due.into_iter().chain(again).chain(best) {
        let site = keys::host_of(&host);
        let site = site.ok_or_else(|| StoreError::damaged(&key, "it names no host"))?;
        chosen.push((key, site));
    }
    Ok(chosen)
}

/// Where a site waits, if it may be handed out now.
fn place_of(
    changes: &Transaction<'_, dyn Engine>,
    topic: TopicId,
    site: &SiteId,
    taking: &TakeRequest,
) -> Result<Option<Place>, StoreError> {
    let now = records::seconds(taking.now);
    let known = site_record(changes, topic, site)?;
    let key = match known.phase {
        Phase::Border { value, tie } if taking.is_border_open => {
            keys::border(topic, Rank { value, tie }, known.discovered)
        }
        Phase::Due(due) if due <= now => keys::due(topic, due, site),
        Phase::Recheck(due) if due <= now => keys::recheck(topic, due, site),
        _ => return Ok(None),
    };
    Ok(Some((key, site.clone())))
}

fn hand_out(changes: OpenTransaction<'_, '_>, claim: Claim) -> Result<ClaimedSite, StoreError> {
    let (topic, site) = (claim.topic, &claim.site);
    let mut known = site_record(changes, topic, site)?;
    let entrance = known.entrance.parse::<PageUrl>();
    let damaged = |reason: &str| StoreError::damaged(&keys::site(topic, site), reason);
    let entrance = entrance.map_err(|_| damaged("its entrance is no address"))?;
    let from = match known.phase {
        Phase::Border { value, tie } => {
            known.last_rank = (value, tie);
            None
        }
        Phase::Due(_) | Phase::Recheck(_) => Some(known.phase),
        Phase::Taken | Phase::Judged => return Err(damaged("it is in two indexes")),
    };
    let record = ClaimRecord {
        owner: claim.owner.0,
        number: claim.number,
        expires: 0,
        from,
    };
    changes.put(keys::claim(topic, site), &record);
    let verdict: Option<VerdictRecord> = changes.get(&keys::verdict(topic, site))?;
    known.phase = Phase::Taken;
    changes.put(keys::site(topic, site), &known);
    Ok(ClaimedSite {
        entrance,
        standing: known.standing(),
        rank: known.last_rank.0,
        deferrals: known.deferrals,
        verdict: verdict.as_ref().map(VerdictRecord::verdict),
        model: verdict.as_ref().map(VerdictRecord::model),
        is_blocked: list_changes::is_blocked(changes, site)?,
        is_poison: false,
        claim,
    })
}

/// The record of a claim, unless it has ended.
pub(super) fn held(
    changes: &Transaction<'_, dyn Engine>,
    claim: &Claim,
) -> Result<Option<ClaimRecord>, StoreError> {
    let key = keys::claim(claim.topic, &claim.site);
    let record = match changes.get_raw(&key)? {
        Some(value) => read_claim(&key, &value)?,
        None => return Ok(None),
    };
    let is_held = (record.owner, record.number) == (claim.owner.0, claim.number);
    Ok(is_held.then_some(record))
}

fn read_claim(key: &[u8], value: &[u8]) -> Result<ClaimRecord, StoreError> {
    // The first version stored nothing for sites of the border.
    if value.is_empty() {
        Ok(ClaimRecord {
            owner: 0,
            number: 0,
            expires: 0,
            from: None,
        })
    } else {
        versions::decode(key, value)
    }
}

/// The topic and the site in the key of a claim.
fn place_in(key: &[u8]) -> Result<(TopicId, SiteId), StoreError> {
    let place = keys::topic_in(key).zip(keys::last_host(key));
    place.ok_or_else(|| StoreError::damaged(key, "it names no site"))
}

/// Puts a claimed site back into the border, at the rank it had there, or if it has a verdict, into the
/// index where it was. A deferred one was due, so it need not wait any longer.
pub(super) fn put_back(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    site: &SiteId,
    known: &mut SiteRecord,
    from: Option<Phase>,
    totals: &mut TopicTotals,
) -> Result<(), StoreError> {
    let host = site.as_str().as_bytes().to_vec();
    let verdict: Option<VerdictRecord> = changes.get(&keys::verdict(topic, site))?;
    if verdict.is_none() {
        let (value, tie) = known.last_rank;
        let rank = Rank { value, tie };
        known.phase = Phase::border(rank);
        changes.put_raw(keys::border(topic, rank, known.discovered), host);
        totals.border += 1;
    } else if let Some(Phase::Recheck(due)) = from {
        known.phase = rechecks::schedule(changes, topic, site, due);
    } else {
        let due = match from {
            Some(Phase::Due(due)) => due,
            _ => records::seconds(REJUDGED),
        };
        known.phase = Phase::Due(due);
        changes.put_raw(keys::due(topic, due, site), host);
        totals.deferred += 1;
    }
    changes.put(keys::site(topic, site), known);
    totals.taken -= 1;
    Ok(())
}

/// Puts all claimed sites back: the process that held them is gone, as this one has the store locked.
pub(super) fn put_back_all(
    changes: OpenTransaction<'_, '_>,
    was_killed: bool,
) -> Result<Vec<(TopicId, SiteId)>, StoreError> {
    let mut returned = Vec::new();
    let claims: Vec<Entry> = changes.scan(&[kind::CLAIM]).collect::<Result<_, _>>()?;
    for (key, value) in claims {
        let (topic, site) = place_in(&key)?;
        let mut record = topic_record(changes, topic)?;
        let mut known = site_record(changes, topic, &site)?;
        let from = read_claim(&key, &value)?.from;
        put_back(changes, topic, &site, &mut known, from, &mut record.totals)?;
        changes.put(keys::topic_record(topic), &record);
        changes.remove(key);
        returned.push((topic, site));
    }
    if was_killed {
        suspects::note_death(changes, &returned)?;
    }
    Ok(returned)
}
