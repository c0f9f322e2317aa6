//! Long work after a setting has changed: re-sorting a border, making sites due whose model has changed,
//! rescheduling rechecks, reviewing a list by changed host lists, regrouping domains by changed
//! platforms; trimming a border that is too long; correcting times written by a wrong clock.
//!
//! Invariant: it is done in batches, each of them a transaction, so that a border of ten million sites
//! is never held in memory. Interrupted work restarts when its topic is opened the next time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::config::HostLists;
use crate::web::{ModelFingerprint, Platforms, SiteId};

use super::edges::{DomainSum, remove_edges_to};
use super::engine::Entry;
use super::keys::{self, kind};
use super::list_changes::{self, Cause};
use super::metrics::DroppedSites;
use super::rechecks;
use super::records::{self, EdgeRecord, Phase, SiteRecord, TopicRecord, VerdictRecord};
use super::state::{site_record, topic_record};
use super::suspects;
use super::transaction::OpenTransaction;
use super::versions;
use super::{Averaging, REJUDGED, Rank, Ranking, StoreError, TopicId};

/// Records read in one transaction.
const BATCH: usize = 10_000;

/// Work to be done before a topic is used.
pub(super) struct Upkeep {
    topic: TopicId,
    task: Task,
    /// The key of the last record that was processed.
    after: Vec<u8>,
}

enum Task {
    /// Sort the border by this ranking.
    Rank(Arc<dyn Ranking>),
    /// Make sites due whose verdicts are not of this model: all of them, or relevant ones.
    Rejudge { model: ModelFingerprint, all: bool },
    /// Recheck relevant sites this long after they were judged, or never.
    Recheck { after: Option<Duration> },
    /// Bring the list in line with verdicts, decisions and host lists.
    List { hosts: Arc<HostLists>, cause: Cause },
    /// Drop the lowest ranked while the border is longer than this.
    Trim {
        topic: Arc<str>,
        platforms: Arc<Platforms>,
        limit: u64,
    },
    /// Verdicts later than this get this time.
    DateVerdicts { now: u64 },
    /// Defer no site longer than [`LONGEST_DEFERRAL`], counted from this time.
    DateDeferrals { now: u64 },
    /// Regroup sites and edges by domain, as these platforms define it. Earlier counts are removed
    /// first.
    Group {
        platforms: Arc<Platforms>,
        ranking: Arc<dyn Ranking>,
        is_cleared: bool,
    },
}

/// A border is trimmed to one part in this many below its limit, so that not every commit is followed
/// by another trimming.
const SLACK: u64 = 64;

/// Longer deferrals, in seconds, are attributed to a wrong clock once the clock is accepted: a site that
/// did request more than a week is visited once too early.
const LONGEST_DEFERRAL: u64 = 7 * 24 * 3_600;

// === impl Upkeep ===

impl Upkeep {
    /// Marks a border as unsorted, so that interrupted work restarts under whatever ranking is next.
    pub(super) fn rank(
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
        ranking: Arc<dyn Ranking>,
    ) -> Result<Self, StoreError> {
        let mut record = topic_record(changes, topic)?;
        record.ordering.clear();
        changes.put(keys::topic_record(topic), &record);
        Ok(Self {
            topic,
            task: Task::Rank(ranking),
            after: keys::of_topic(kind::SITE, topic),
        })
    }

    /// None if sites and edges are grouped by these platforms and this ranking already. Otherwise marks
    /// them as ungrouped until it is done.
    pub(super) fn group(
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
        platforms: &Arc<Platforms>,
        ranking: &Arc<dyn Ranking>,
    ) -> Result<Option<Self>, StoreError> {
        let done: Option<u64> = changes.get(&keys::grouped_by(topic))?;
        if done == Some(grouping(platforms, ranking.averaging())) {
            return Ok(None);
        }
        changes.remove(keys::grouped_by(topic));
        Ok(Some(Self {
            topic,
            task: Task::Group {
                platforms: Arc::clone(platforms),
                ranking: Arc::clone(ranking),
                is_cleared: false,
            },
            after: keys::of_topic(kind::DOMAIN, topic),
        }))
    }

    /// None if that was done already.
    pub(super) fn rejudge(
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
        model: ModelFingerprint,
        all: bool,
    ) -> Result<Option<Self>, StoreError> {
        let done: Option<(u64, bool)> = changes.get(&keys::model(topic))?;
        let upkeep = Self {
            topic,
            task: Task::Rejudge { model, all },
            after: keys::of_topic(kind::VERDICT, topic),
        };
        Ok((done != Some((model.bits(), all))).then_some(upkeep))
    }

    /// None if rechecks are scheduled by this time already. Otherwise marks them as unscheduled until it
    /// is done.
    pub(super) fn recheck(
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
        after: Option<Duration>,
    ) -> Result<Option<Self>, StoreError> {
        let done: Option<Option<u64>> = changes.get(&keys::recheck_after(topic))?;
        if done == Some(after.map(|after| after.as_secs())) {
            return Ok(None);
        }
        changes.remove(keys::recheck_after(topic));
        Ok(Some(Self {
            topic,
            task: Task::Recheck { after },
            after: keys::of_topic(kind::VERDICT, topic),
        }))
    }

    /// Creates the list of a topic that has none, without regard to host lists.
    pub(super) fn create_list(topic: TopicId) -> Self {
        let hosts = Arc::default();
        let cause = Cause::Created;
        Self {
            topic,
            task: Task::List { hosts, cause },
            after: keys::of_topic(kind::VERDICT, topic),
        }
    }

    /// None if the list was reviewed by these host lists. Otherwise marks it as under review until it is
    /// done.
    pub(super) fn review_list(
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
        hosts: &Arc<HostLists>,
    ) -> Result<Option<Self>, StoreError> {
        let done: Option<u64> = changes.get(&keys::listed_by(topic))?;
        if done == Some(list_changes::fingerprint(hosts)) {
            return Ok(None);
        }
        changes.put(keys::listed_by(topic), &list_changes::UNDER_REVIEW);
        let (hosts, cause) = (Arc::clone(hosts), Cause::Reviewed);
        Ok(Some(Self {
            topic,
            task: Task::List { hosts, cause },
            after: keys::of_topic(kind::VERDICT, topic),
        }))
    }

    /// Drops the lowest ranked sites of a border of more than `limit` sites.
    pub(super) fn trim(
        topic: TopicId,
        name: Arc<str>,
        platforms: Arc<Platforms>,
        limit: u64,
    ) -> Self {
        Self {
            topic,
            task: Task::Trim {
                topic: name,
                platforms,
                limit,
            },
            after: Vec::new(),
        }
    }

    /// The topic, if this trims a border.
    pub(super) fn trimmed_topic(&self) -> Option<TopicId> {
        matches!(self.task, Task::Trim { .. }).then_some(self.topic)
    }

    /// Corrects the times in a topic that were written by a clock ahead of `now`.
    pub(super) fn accept_clock(topic: TopicId, now: u64) -> [Self; 2] {
        let tasks = [
            (Task::DateVerdicts { now }, kind::VERDICT),
            (Task::DateDeferrals { now }, kind::DUE),
        ];
        tasks.map(|(task, kind)| Self {
            topic,
            task,
            after: keys::of_topic(kind, topic),
        })
    }

    /// Does a batch; returns whether it was the last.
    pub(super) fn work(
        &mut self,
        changes: OpenTransaction<'_, '_>,
        dropped: &mut DroppedSites,
    ) -> Result<bool, StoreError> {
        let topic = self.topic;
        let kind = match &self.task {
            Task::Group {
                is_cleared: false, ..
            } => kind::DOMAIN,
            Task::Rank(_) | Task::Group { .. } => kind::SITE,
            Task::Rejudge { .. }
            | Task::Recheck { .. }
            | Task::List { .. }
            | Task::DateVerdicts { .. } => kind::VERDICT,
            Task::DateDeferrals { .. } => kind::DUE,
            Task::Trim {
                topic: name,
                platforms,
                limit,
            } => {
                let last = trim(changes, topic, platforms, *limit, &self.after, || {
                    dropped.count_border(name);
                })?;
                self.after = last.unwrap_or_default();
                return Ok(self.after.is_empty());
            }
        };
        let prefix = keys::of_topic(kind, topic);
        let batch: Vec<Entry> = changes
            .scan_after(&prefix, &self.after)
            .take(BATCH)
            .collect::<Result<_, _>>()?;
        let mut record = topic_record(changes, topic)?;
        for (key, value) in &batch {
            match &self.task {
                Task::Rank(ranking) => rank(changes, topic, &**ranking, key, value)?,
                Task::Rejudge { model, all } => {
                    let verdict: VerdictRecord = versions::decode(key, value)?;
                    let is_old = verdict.model() != *model;
                    if is_old && (*all || verdict.verdict().is_relevant()) {
                        record.totals.deferred += u64::from(make_due(changes, topic, key)?);
                    }
                }
                Task::Recheck { after } => {
                    let verdict: VerdictRecord = versions::decode(key, value)?;
                    if verdict.verdict().is_relevant() {
                        reschedule(changes, topic, key, &verdict, *after)?;
                    }
                }
                Task::List { hosts, cause } => {
                    let site = keys::last_host(key);
                    let site = site.ok_or_else(|| StoreError::damaged(key, "it names no site"))?;
                    list_changes::relist(changes, topic, &site, *cause, hosts)?;
                    list_changes::ask_editors(changes, topic, &site, None)?;
                }
                Task::DateVerdicts { now } => {
                    let mut verdict: VerdictRecord = versions::decode(key, value)?;
                    if verdict.date_no_later_than(*now) {
                        changes.put(key.clone(), &verdict);
                    }
                }
                Task::DateDeferrals { now } => date_deferral(changes, topic, key, *now)?,
                Task::Trim { .. } => {}
                Task::Group {
                    is_cleared: false, ..
                } => changes.remove(key.clone()),
                Task::Group {
                    platforms, ranking, ..
                } => group(changes, topic, platforms, &**ranking, key, value)?,
            }
        }
        let mut is_last = batch.len() < BATCH;
        if let Some((key, _)) = batch.into_iter().next_back() {
            self.after = key;
        }
        if let Task::Group { is_cleared, .. } = &mut self.task
            && is_last
            && !*is_cleared
        {
            *is_cleared = true;
            self.after = keys::of_topic(kind::SITE, topic);
            is_last = false;
        }
        if is_last {
            self.finish(changes, &mut record);
        }
        changes.put(keys::topic_record(topic), &record);
        Ok(is_last)
    }

    /// Marks the work as done.
    fn finish(&self, changes: OpenTransaction<'_, '_>, record: &mut TopicRecord) {
        let topic = self.topic;
        match &self.task {
            Task::Rank(ranking) => ranking.name().clone_into(&mut record.ordering),
            Task::Rejudge { model, all } => {
                changes.put(keys::model(topic), &(model.bits(), *all));
            }
            Task::Recheck { after } => {
                let seconds = after.map(|after| after.as_secs());
                changes.put(keys::recheck_after(topic), &seconds);
                // Expiry skipped evidence that no recheck will renew now: start it again.
                if after.is_none() {
                    changes.remove(keys::AGED.to_vec());
                }
            }
            Task::List { hosts, .. } => {
                changes.put(keys::listed_by(topic), &list_changes::fingerprint(hosts));
            }
            // Rechecks depend on the dates of verdicts: reschedule them.
            Task::DateVerdicts { .. } => changes.remove(keys::recheck_after(topic)),
            Task::DateDeferrals { .. } | Task::Trim { .. } => {}
            Task::Group {
                platforms, ranking, ..
            } => {
                let grouping = grouping(platforms, ranking.averaging());
                changes.put(keys::grouped_by(topic), &grouping);
            }
        }
    }
}

/// Moves a site to its place by a ranking.
fn rank(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    ranking: &dyn Ranking,
    key: &[u8],
    value: &[u8],
) -> Result<(), StoreError> {
    let known: SiteRecord = versions::decode(key, value)?;
    put_ranked(changes, topic, ranking, key, known);
    Ok(())
}

fn put_ranked(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    ranking: &dyn Ranking,
    key: &[u8],
    mut known: SiteRecord,
) {
    let new = ranking.rank(&known.standing());
    known.last_rank = (new.value, new.tie);
    if let Phase::Border { value, tie } = known.phase {
        let host = key.get(3..).unwrap_or_default().to_vec();
        changes.remove(keys::border(topic, Rank { value, tie }, known.discovered));
        changes.put_raw(keys::border(topic, new, known.discovered), host);
        known.phase = Phase::border(new);
    }
    changes.put(key.to_vec(), &known);
}

/// A fingerprint of how sites and edges are grouped.
pub(super) fn grouping(platforms: &Platforms, averaging: Averaging) -> u64 {
    let mut suffixes: Vec<&str> = platforms.suffixes().collect();
    if averaging == Averaging::ByEdge {
        suffixes.push("by edge");
    }
    // Domains contain no line feeds.
    xxh3_64(suffixes.join("\n").as_bytes())
}

impl Averaging {
    /// The group in which an edge is averaged before groups are.
    pub(super) fn group_of<'s>(self, source: &'s SiteId, platforms: &Platforms) -> &'s str {
        match self {
            Self::ByDomain => platforms.domain_of(source),
            Self::ByEdge => source.as_str(),
        }
    }
}

/// Counts a site for its domain, and its edges by the domains of their sources.
fn group(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    platforms: &Platforms,
    ranking: &dyn Ranking,
    key: &[u8],
    value: &[u8],
) -> Result<(), StoreError> {
    let damaged = |key: &[u8]| StoreError::damaged(key, "it names no site");
    let site = keys::last_host(key).ok_or_else(|| damaged(key))?;
    let mut known: SiteRecord = versions::decode(key, value)?;
    // An alias does not count for its domain.
    let mut is_alias = false;
    if !matches!(known.phase, Phase::Border { .. }) {
        let verdict: Option<VerdictRecord> = changes.get(&keys::verdict(topic, &site))?;
        is_alias = verdict.is_some_and(|verdict| verdict.alias_of().is_some());
    }
    if !is_alias {
        let domain = keys::domain(topic, platforms.domain_of(&site));
        let sites: u32 = changes.get(&domain)?.unwrap_or_default();
        changes.put(domain, &sites.saturating_add(1));
    }
    let edges: Vec<Entry> = changes
        .scan(&keys::edges_to(topic, &site))
        .collect::<Result<_, _>>()?;
    let mut sums: BTreeMap<String, DomainSum> = BTreeMap::new();
    let mut has_moved = false;
    for (old, value) in edges {
        let source = keys::edge_source(&old).ok_or_else(|| damaged(&old))?;
        let domain = ranking.averaging().group_of(&source, platforms);
        let edge: EdgeRecord = versions::decode(&old, &value)?;
        sums.entry(domain.to_owned()).or_default().add(&edge);
        let new = keys::edge(topic, &site, domain, &source);
        if new != old {
            has_moved = true;
            changes.remove(old);
            changes.put_raw(new, value);
        }
    }
    // If no edge moves, the sums are kept to the last bit.
    if has_moved || sums.len() != known.domains as usize {
        known.edges = sums.values().map(|sum| sum.edges).sum();
        known.domains = u32::try_from(sums.len()).unwrap_or(u32::MAX);
        (known.global, known.local) = sums.values().fold((0.0, 0.0), |(global, local), sum| {
            let means = sum.means();
            (global + means.0, local + means.1)
        });
        put_ranked(changes, topic, ranking, key, known);
    }
    Ok(())
}

/// Drops the lowest ranked of a border, starting before the key `before` if there is one; start sites
/// stay. Returns the last key read, if there is more to do.
fn trim(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    platforms: &Platforms,
    limit: u64,
    before: &[u8],
    mut count: impl FnMut(),
) -> Result<Option<Vec<u8>>, StoreError> {
    let mut record = topic_record(changes, topic)?;
    let wanted = limit - limit / SLACK;
    let prefix = keys::of_topic(kind::BORDER, topic);
    let before = Some(before).filter(|key| !key.is_empty());
    let lowest: Vec<Entry> = changes
        .scan_back_applied(&prefix, before)
        .take(BATCH)
        .collect::<Result<_, _>>()?;
    let is_last = lowest.len() < BATCH;
    let mut looked_at = None;
    for (key, host) in lowest {
        if record.totals.border <= wanted {
            looked_at = None;
            break;
        }
        let site = keys::host_of(&host);
        let site = site.ok_or_else(|| StoreError::damaged(&key, "it names no host"))?;
        if !site_record(changes, topic, &site)?.is_start {
            forget_site(changes, topic, &site, platforms.domain_of(&site))?;
            changes.remove(key.clone());
            record.totals.border -= 1;
            count();
        }
        looked_at = Some(key);
    }
    changes.put(keys::topic_record(topic), &record);
    Ok(looked_at.filter(|_| !is_last))
}

/// Deletes a site that was never visited; it may be found again.
fn forget_site(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    site: &SiteId,
    domain: &str,
) -> Result<(), StoreError> {
    remove_edges_to(changes, topic, site)?;
    let domain = keys::domain(topic, domain);
    let sites: u32 = changes.get(&domain)?.unwrap_or_default();
    match sites {
        0 | 1 => changes.remove(domain),
        sites => changes.put(domain, &(sites - 1)),
    }
    suspects::clear(changes, topic, site)?;
    changes.remove(keys::site(topic, site));
    Ok(())
}

/// Makes a site due that is deferred by more than [`LONGEST_DEFERRAL`].
fn date_deferral(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    key: &[u8],
    now: u64,
) -> Result<(), StoreError> {
    let damaged = || StoreError::damaged(key, "it names no time and no site");
    let due = keys::due_seconds(key).ok_or_else(damaged)?;
    if due <= now.saturating_add(LONGEST_DEFERRAL) {
        return Ok(());
    }
    let site = key.get(11..).and_then(keys::host_of).ok_or_else(damaged)?;
    let mut known = site_record(changes, topic, &site)?;
    known.phase = Phase::Due(now);
    let host = site.as_str().as_bytes().to_vec();
    changes.remove(key.to_vec());
    changes.put_raw(keys::due(topic, now, &site), host);
    changes.put(keys::site(topic, &site), &known);
    Ok(())
}

/// Makes a judged site due; returns whether it was one.
pub(super) fn make_due(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    verdict: &[u8],
) -> Result<bool, StoreError> {
    let site = keys::last_host(verdict);
    let site = site.ok_or_else(|| StoreError::damaged(verdict, "it names no site"))?;
    let mut known = site_record(changes, topic, &site)?;
    if !known.phase.is_judged() {
        return Ok(false);
    }
    rechecks::cancel(changes, topic, &site, known.phase);
    let due = records::seconds(REJUDGED);
    known.phase = Phase::Due(due);
    let host = site.as_str().as_bytes().to_vec();
    changes.put_raw(keys::due(topic, due, &site), host);
    changes.put(keys::site(topic, &site), &known);
    Ok(true)
}

/// Changes the recheck time of a relevant site.
fn reschedule(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    key: &[u8],
    verdict: &VerdictRecord,
    after: Option<Duration>,
) -> Result<(), StoreError> {
    let site = keys::last_host(key);
    let site = site.ok_or_else(|| StoreError::damaged(key, "it names no site"))?;
    let mut known = site_record(changes, topic, &site)?;
    if known.phase.is_judged() {
        let (judged, at) = (verdict.verdict(), verdict.judged_at());
        rechecks::cancel(changes, topic, &site, known.phase);
        known.phase = rechecks::phase_after(changes, topic, &site, judged, at, after);
        changes.put(keys::site(topic, &site), &known);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OldVerdicts;
    use crate::store::{
        BorderCaps, CrawlStore, KeyValueStore, NewSite, Standing, TakeRequest, TopicOpening,
    };
    use crate::telemetry::clock;

    /// In the order of discovery, or against it.
    struct Found {
        is_reversed: bool,
    }

    impl Ranking for Found {
        fn name(&self) -> &str {
            if self.is_reversed {
                "last-come"
            } else {
                "first-come"
            }
        }

        fn rank(&self, standing: &Standing) -> Rank {
            let tie = u32::try_from(standing.discovered).unwrap();
            Rank {
                value: 0.0,
                tie: if self.is_reversed { tie } else { 0 },
            }
        }
    }

    fn opening(is_reversed: bool) -> TopicOpening {
        TopicOpening {
            name: "topic".to_owned(),
            ranking: Arc::new(Found { is_reversed }),
            caps: BorderCaps::per_domain(u32::MAX),
            model: ModelFingerprint::from_bits(1),
            old_verdicts: OldVerdicts::Keep,
            recheck_after: None,
            watched_pages: 5_000,
            hosts: Arc::default(),
            platforms: Arc::default(),
        }
    }

    #[tokio::test]
    async fn a_border_of_several_portions_is_sorted_to_its_end() {
        let sites = 2 * BATCH + 7;
        let store = KeyValueStore::in_memory().unwrap();
        let topic = store.open_topic(opening(false)).await.unwrap();
        let entrances = (1..=sites).map(|number| NewSite {
            entrance: format!("https://h{number}.example/").parse().unwrap(),
            is_start: false,
        });
        store.enter(topic, entrances.collect()).await.unwrap();
        store.open_topic(opening(true)).await.unwrap();
        let taking = TakeRequest::any(sites, clock::now());
        let taken = store.take(topic, taking).await.unwrap().sites;
        let hosts = taken.iter().map(|taken| taken.site().to_string());
        let wanted = (1..=sites).rev().map(|number| format!("h{number}.example"));
        assert!(hosts.eq(wanted));
    }
}
