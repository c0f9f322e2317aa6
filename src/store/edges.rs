//! Recommendations: edges between sites, and what they are worth together.
//!
//! Invariant: the sums in a site's record are those of its edges; averaged by domain, those of each
//! registrable domain first.

use crate::config::EdgeRetention;
use crate::web::{PageUrl, SiteId, Verdict};

use super::engine::{Engine, Entry};
use super::keys;
use super::metrics::DroppedSites;
use super::records::{EdgeRecord, SiteRecord, TopicRecord, VerdictRecord};
use super::state::{OpenTopic, site_record};
use super::transaction::{OpenTransaction, Transaction};
use super::versions;
use super::{NewEdge, StoreError, TopicId};

/// Maximum length of a chain of aliases.
const MAX_ALIASES: usize = 5;

/// The weights of the edges to a site that come from one registrable domain.
#[derive(Default)]
pub(super) struct DomainSum {
    pub(super) edges: u32,
    global: f64,
    local: f64,
}

// === impl OpenTopic ===

impl OpenTopic {
    pub(super) fn keeps_edges_to(&self, verdict: Verdict) -> bool {
        match self.edges {
            EdgeRetention::All => true,
            EdgeRetention::Relevant => verdict.is_relevant(),
        }
    }

    /// Adds a recommended site to the border, unless the registrable domain of the source has reached
    /// its limit: one page of links must not fill the border.
    fn discover_for(
        &self,
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
        source: &SiteId,
        entrance: &PageUrl,
        record: &mut TopicRecord,
        dropped: &mut DroppedSites,
    ) -> Result<Option<SiteRecord>, StoreError> {
        let key = keys::source_domain(topic, self.platforms.domain_of(source));
        let brought: u32 = changes.get(&key)?.unwrap_or_default();
        let limit = self.caps.sites_per_source;
        if limit > 0 && brought >= limit {
            dropped.count_source(&self.name);
            return Ok(None);
        }
        let found = self.discover(changes, topic, entrance, false, record)?;
        if found.is_some() {
            changes.put(key, &brought.saturating_add(1));
        }
        Ok(found)
    }

    /// The target of an edge to this page: its site, or the one of which that is an alias. None if the
    /// edge is not worth keeping.
    fn end_of_edge(
        &self,
        changes: &Transaction<'_, dyn Engine>,
        topic: TopicId,
        entrance: &PageUrl,
    ) -> Result<Option<PageUrl>, StoreError> {
        let mut entrance = entrance.clone();
        for _ in 0..MAX_ALIASES {
            let site = entrance.site();
            // Most targets were never visited, and their record is needed in any case.
            let known: Option<SiteRecord> = changes.get(&keys::site(topic, &site))?;
            if known.is_none_or(|known| !known.phase.is_judged()) {
                break;
            }
            let verdict = changes.get::<VerdictRecord>(&keys::verdict(topic, &site))?;
            let Some(verdict) = verdict else {
                break;
            };
            match verdict.alias_of() {
                Some(page) => entrance = page.front_door(),
                None if self.keeps_edges_to(verdict.verdict()) => break,
                None => return Ok(None),
            }
        }
        Ok(Some(entrance))
    }

    /// Adds an edge, or updates its weights, and re-ranks its target.
    pub(super) fn recommend(
        &self,
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
        source: &SiteId,
        edge: &NewEdge,
        record: &mut TopicRecord,
        dropped: &mut DroppedSites,
    ) -> Result<(), StoreError> {
        let Some(entrance) = self.end_of_edge(changes, topic, &edge.entrance)? else {
            return Ok(());
        };
        let target = entrance.site();
        if target == *source {
            return Ok(());
        }
        let known = changes.get::<SiteRecord>(&keys::site(topic, &target))?;
        let known = match known {
            Some(known) => Some(known),
            None => self.discover_for(changes, topic, source, &entrance, record, dropped)?,
        };
        let Some(mut known) = known else {
            return Ok(());
        };
        let domain = self.ranking.averaging().group_of(source, &self.platforms);
        let key = keys::edge(topic, &target, domain, source);
        let new = EdgeRecord::new(edge);
        let mut before = DomainSum::default();
        let mut after = DomainSum::default();
        for entry in changes.scan(&keys::edges_from(topic, &target, domain)) {
            let (other, value) = entry?;
            let old: EdgeRecord = versions::decode(&other, &value)?;
            before.add(&old);
            if other != key {
                after.add(&old);
            }
        }
        after.add(&new);
        changes.put(key, &new);
        known.edges = known.edges - before.edges + after.edges;
        known.domains += u32::from(before.edges == 0);
        let (global, local) = before.means();
        known.global -= global;
        known.local -= local;
        let (global, local) = after.means();
        known.global += global;
        known.local += local;
        self.place(changes, topic, &target, known);
        Ok(())
    }

    /// Moves the edges of an alias to the site it redirects to.
    pub(super) fn inherit(
        &self,
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
        (alias, is_start): (&SiteId, bool),
        page: &PageUrl,
        record: &mut TopicRecord,
        dropped: &mut DroppedSites,
    ) -> Result<(), StoreError> {
        let (target, entrance) = (page.site(), page.front_door());
        if target == *alias {
            return Ok(());
        }
        match changes.get::<SiteRecord>(&keys::site(topic, &target))? {
            None => {
                self.discover(changes, topic, &entrance, is_start, record)?;
            }
            Some(mut known) if is_start && !known.is_start => {
                known.is_start = true;
                self.place(changes, topic, &target, known);
            }
            Some(_) => {}
        }
        let edges: Vec<Entry> = changes
            .scan(&keys::edges_to(topic, alias))
            .collect::<Result<_, _>>()?;
        for (key, value) in edges {
            let old: EdgeRecord = versions::decode(&key, &value)?;
            let source = keys::edge_source(&key);
            let source = source.ok_or_else(|| StoreError::damaged(&key, "it names no source"))?;
            let edge = NewEdge {
                entrance: entrance.clone(),
                global: old.global.into(),
                local: old.local.into(),
                pages: old.pages,
            };
            self.recommend(changes, topic, &source, &edge, record, dropped)?;
        }
        Ok(())
    }
}

// === impl DomainSum ===

impl DomainSum {
    pub(super) fn add(&mut self, edge: &EdgeRecord) {
        self.edges += 1;
        self.global += f64::from(edge.global);
        self.local += f64::from(edge.local);
    }

    pub(super) fn means(&self) -> (f64, f64) {
        let edges = f64::from(self.edges.max(1));
        (self.global / edges, self.local / edges)
    }
}

/// Removes the edges to a site, and their sums.
pub(super) fn forget_edges(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    site: &SiteId,
) -> Result<(), StoreError> {
    remove_edges_to(changes, topic, site)?;
    let known = site_record(changes, topic, site)?;
    let known = SiteRecord {
        edges: 0,
        domains: 0,
        global: 0.0,
        local: 0.0,
        ..known
    };
    changes.put(keys::site(topic, site), &known);
    Ok(())
}

/// Removes the edges to a site whose sums are of no use any more.
pub(super) fn remove_edges_to(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    site: &SiteId,
) -> Result<(), StoreError> {
    let edges: Vec<Entry> = changes
        .scan(&keys::edges_to(topic, site))
        .collect::<Result<_, _>>()?;
    for (key, _) in edges {
        changes.remove(key);
    }
    Ok(())
}
