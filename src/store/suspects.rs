//! Sites whose visits may have killed the process.
//!
//! A site that was under way when a process was killed may be what killed it: a page that exhausts the
//! memory, a bug that aborts. Visited again after each restart, it would do so for ever. So each site
//! left under way is a suspect. One that was under way at two such deaths in a row is visited alone; if
//! the process then dies twice during its visit, it is not visited any more.
//!
//! | deaths in a row | what follows |
//! |---|---|
//! | one with it under way | it is visited as before, from where it was |
//! | two | it is visited with nothing else under way |
//! | two more, with it alone under way | its verdict is `undecided (poison)`, without a visit |
//!
//! Of the last two, only those count in which it was the first site handed out: a process that visited
//! others before may have died of them, or have been killed by an operator who waited for a verdict. So
//! each process hands out one of these sites before any other.
//!
//! Invariants: a visit that ends, whatever its verdict, clears the suspicion. A process that exits by
//! itself, also after an error of the store, leaves no suspects.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::engine::{Engine, Entry};
use super::keys::{self, kind};
use super::transaction::{OpenTransaction, Transaction};
use super::versions::{self, first_format};
use super::{StoreError, TopicId};
use crate::web::SiteId;

/// Deaths with other sites under way after which a site is visited alone.
const DEATHS_IN_COMPANY: u32 = 2;

/// Deaths with no other site under way after which it is poison.
const DEATHS_ALONE: u32 = 2;

/// What a site is suspected of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Suspicion {
    /// Consecutive processes that died with it and others under way.
    in_company: u32,
    /// Processes that handed out no other site and died during its visit.
    alone: u32,
    /// Whether it is out alone now.
    is_out_alone: bool,
    /// Whether its process has handed out no other site before.
    is_first_out: bool,
}

first_format!(Suspicion);

/// All suspects. Nearly always there are none.
pub(super) struct Suspects(BTreeMap<(TopicId, SiteId), Suspicion>);

// === impl Suspicion ===

impl Suspicion {
    fn must_be_alone(self) -> bool {
        self.in_company >= DEATHS_IN_COMPANY && !self.is_poison()
    }

    fn is_poison(self) -> bool {
        self.alone >= DEATHS_ALONE
    }
}

// === impl Suspects ===

impl Suspects {
    pub(super) fn read(changes: &Transaction<'_, dyn Engine>) -> Result<Self, StoreError> {
        let mut suspects = BTreeMap::new();
        for entry in changes.scan(keys::SUSPECTS) {
            let (key, value) = entry?;
            let damaged = || StoreError::damaged(&key, "it names no site");
            let topic = keys::topic_in(&key).ok_or_else(damaged)?;
            let site = keys::last_host(&key).ok_or_else(damaged)?;
            suspects.insert((topic, site), versions::decode(&key, &value)?);
        }
        Ok(Self(suspects))
    }

    /// Whether one of them is being visited alone, so that no other may be.
    pub(super) fn is_one_out_alone(&self) -> bool {
        self.0.values().any(|suspicion| suspicion.is_out_alone)
    }

    /// Those that must be visited alone.
    pub(super) fn to_be_alone(&self) -> impl Iterator<Item = &(TopicId, SiteId)> {
        let alone = self
            .0
            .iter()
            .filter(|(_, suspicion)| suspicion.must_be_alone());
        alone.map(|(place, _)| place)
    }

    pub(super) fn must_be_alone(&self, topic: TopicId, site: &SiteId) -> bool {
        self.of(topic, site).must_be_alone()
    }

    /// Whether a site is not to be visited any more.
    pub(super) fn is_poison(&self, topic: TopicId, site: &SiteId) -> bool {
        self.of(topic, site).is_poison()
    }

    /// Records that a site is handed out to be visited alone.
    pub(super) fn send_out_alone(
        &self,
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
        site: &SiteId,
        is_first_out: bool,
    ) {
        let out = Suspicion {
            is_out_alone: true,
            is_first_out,
            ..self.of(topic, site)
        };
        changes.put(keys::suspect(topic, site), &out);
    }

    fn of(&self, topic: TopicId, site: &SiteId) -> Suspicion {
        // The map is empty in all but the rarest cases, and then nothing is copied.
        if self.0.is_empty() {
            return Suspicion::default();
        }
        let found = self.0.get(&(topic, site.clone()));
        found.copied().unwrap_or_default()
    }
}

/// Records that a process died with these sites under way.
pub(super) fn note_death(
    changes: OpenTransaction<'_, '_>,
    under_way: &[(TopicId, SiteId)],
) -> Result<(), StoreError> {
    if under_way.is_empty() {
        return Ok(());
    }
    let Suspects(mut suspects) = Suspects::read(changes)?;
    for (topic, site) in under_way {
        let known = suspects.remove(&(*topic, site.clone()));
        let mut suspicion = known.unwrap_or_default();
        if !suspicion.is_out_alone {
            suspicion.in_company += 1;
        } else if suspicion.is_first_out {
            suspicion.alone += 1;
        }
        suspicion.is_out_alone = false;
        changes.put(keys::suspect(*topic, site), &suspicion);
    }
    // A site that was not under way this time was not under way twice in a row.
    for ((topic, site), suspicion) in suspects {
        if suspicion.in_company < DEATHS_IN_COMPANY {
            changes.remove(keys::suspect(topic, &site));
        }
    }
    Ok(())
}

/// Clears the suspicion after a completed visit.
pub(super) fn clear(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    site: &SiteId,
) -> Result<(), StoreError> {
    let key = keys::suspect(topic, site);
    if changes.get_raw(&key)?.is_some() {
        changes.remove(key);
    }
    Ok(())
}

/// A visit was interrupted by a regular exit, which says nothing for or against the site.
pub(super) fn put_back(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    site: &SiteId,
) -> Result<(), StoreError> {
    let key = keys::suspect(topic, site);
    if let Some(suspicion) = changes.get::<Suspicion>(&key)?
        && suspicion.is_out_alone
    {
        let back = Suspicion {
            is_out_alone: false,
            ..suspicion
        };
        changes.put(key, &back);
    }
    Ok(())
}

/// Whether any site is handed out.
pub(super) fn is_any_under_way(changes: &Transaction<'_, dyn Engine>) -> Result<bool, StoreError> {
    let first: Option<Entry> = changes.scan(&[kind::CLAIM]).next().transpose()?;
    Ok(first.is_some())
}
