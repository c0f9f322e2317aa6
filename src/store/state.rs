//! State of the commit thread beside the records: open topics, and pending upkeep.
//!
//! Invariant: totals agree with the records.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use crate::config::{EdgeRetention, HostLists, OldVerdicts, StoreSettings};
use crate::telemetry::clock;
use crate::web::{PageUrl, Platforms, SiteId};

use super::claims;
use super::curve;
use super::engine::{Engine, Entry};
use super::keys::{self, kind};
use super::metrics::DroppedSites;
use super::records::{
    self, Phase, SiteRecord, StoreRecord, TopicNumber, TopicRecord, VerdictRecord,
};
use super::topic_queries;
use super::transaction::{OpenTransaction, Transaction};
use super::upkeep::{self, Upkeep};
use super::{
    BorderCaps, NewSite, Owner, Progress, Rank, Ranking, StoreError, TopicId, TopicOpening,
    TopicTotals,
};

/// Evidence ages at most this much while a store is not in use: the rest follows at the next start.
const LONGEST_AWAY: Duration = Duration::from_hours(30 * 24);

/// Old verdicts that are checked for expired evidence with each `record`.
const LOOKED_AT_FOR_AGE: usize = 64;

/// Carries commands out. Holds nothing that must survive a restart.
pub(super) struct State {
    pub(super) topics: BTreeMap<TopicId, OpenTopic>,
    pub(super) settings: StoreSettings,
    /// Work that comes before any further command.
    pub(super) upkeep: VecDeque<Upkeep>,
    /// Identifies this process in claims.
    pub(super) owner: Owner,
    /// Lengths of borders after they were last trimmed.
    pub(super) trimmed_to: BTreeMap<TopicId, u64>,
    /// The number of pages at which each curve gets its next point.
    pub(super) next_points: BTreeMap<TopicId, u64>,
    /// Sites that were claimed when the last process ended. They are ranked again when their topic is
    /// opened, since they may have got edges while they were claimed.
    pub(super) returned: Vec<(TopicId, SiteId)>,
    /// When this process opened the store.
    pub(super) opened: Instant,
    /// When the newest verdict was recorded before that.
    pub(super) newest: Option<SystemTime>,
    /// Whether this process has handed out any site.
    pub(super) has_handed_out: bool,
    /// The topic that waits for all other visits to end, and since when.
    pub(super) waits_to_be_alone: Option<(TopicId, Instant)>,
    /// Sites that caps kept out of borders or removed, since [`State::take_dropped`].
    pub(super) dropped: DroppedSites,
}

/// What is known of the previous process.
pub(super) struct PreviousRun {
    /// Whether it was killed.
    pub(super) was_killed: bool,
    /// When its newest verdict was recorded.
    pub(super) newest: Option<SystemTime>,
}

#[derive(Clone)]
pub(super) struct OpenTopic {
    pub(super) name: Arc<str>,
    pub(super) ranking: Arc<dyn Ranking>,
    pub(super) caps: BorderCaps,
    pub(super) edges: EdgeRetention,
    pub(super) recheck_after: Option<Duration>,
    pub(super) hosts: Arc<HostLists>,
    pub(super) platforms: Arc<Platforms>,
}

// === impl State ===

impl State {
    /// Creates the first records of a store, or puts back what an earlier process had claimed.
    pub(super) fn open(
        changes: OpenTransaction<'_, '_>,
        settings: StoreSettings,
        left: &PreviousRun,
    ) -> Result<Self, StoreError> {
        if changes.get::<StoreRecord>(keys::STORE)?.is_none() {
            changes.put(keys::STORE.to_vec(), &StoreRecord::default());
        }
        if changes.get_raw(keys::IDENTITY)?.is_none() {
            changes.put(keys::IDENTITY.to_vec(), &new_identity());
        }
        check_border(changes)?;
        let mut upkeep = VecDeque::new();
        // Stores from before lists were kept, and dumps without them.
        for number in 1..=store(changes)?.topics {
            if changes
                .get_raw(&keys::listed_by(TopicId(number)))?
                .is_none()
            {
                upkeep.push_back(Upkeep::create_list(TopicId(number)));
            }
        }
        Ok(Self {
            topics: BTreeMap::new(),
            settings,
            upkeep,
            owner: Owner(new_identity()),
            trimmed_to: BTreeMap::new(),
            next_points: BTreeMap::new(),
            returned: claims::put_back_all(changes, left.was_killed)?,
            opened: Instant::now(),
            newest: left.newest,
            waits_to_be_alone: None,
            has_handed_out: false,
            dropped: DroppedSites::default(),
        })
    }

    /// Accepts the clock although verdicts contradict it: later times are corrected.
    pub(super) fn accept_clock(
        &mut self,
        changes: OpenTransaction<'_, '_>,
    ) -> Result<(), StoreError> {
        self.newest = Some(clock::now());
        let now = records::seconds(clock::now());
        changes.put(keys::NEWEST.to_vec(), &now);
        for number in 1..=store(changes)?.topics {
            let upkeep = Upkeep::accept_clock(TopicId(number), now);
            self.upkeep.extend(upkeep);
        }
        Ok(())
    }

    /// Sites that caps have dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> DroppedSites {
        std::mem::take(&mut self.dropped)
    }

    /// Whether there is work that comes before any further command.
    pub(super) fn has_upkeep(&self) -> bool {
        !self.upkeep.is_empty()
    }

    /// Does a portion of the pending upkeep.
    pub(super) fn keep_up(&mut self, changes: OpenTransaction<'_, '_>) -> Result<(), StoreError> {
        let Some(upkeep) = self.upkeep.front_mut() else {
            return Ok(());
        };
        if upkeep.work(changes, &mut self.dropped)? {
            if let Some(topic) = upkeep.trimmed_topic() {
                let border = topic_record(changes, topic)?.totals.border;
                self.trimmed_to.insert(topic, border);
            }
            self.upkeep.pop_front();
        }
        Ok(())
    }

    /// Schedules the trimming of a border that has become too long.
    pub(super) fn trim_border(&mut self, topic: TopicId, border: u64) -> Result<(), StoreError> {
        let open = self.topic(topic)?;
        let limit = open.caps.border_sites;
        // Start sites are never dropped, and may exceed the limit.
        let least = self.trimmed_to.get(&topic).copied().unwrap_or_default();
        let trims = |upkeep: &Upkeep| upkeep.trimmed_topic() == Some(topic);
        let is_known = self.upkeep.iter().any(trims);
        if limit > 0 && border > limit.max(least) && !is_known {
            let trim = Upkeep::trim(topic, open.name, open.platforms, limit);
            self.upkeep.push_back(trim);
        }
        Ok(())
    }

    pub(super) fn open_topic(
        &mut self,
        changes: OpenTransaction<'_, '_>,
        topic: TopicOpening,
    ) -> Result<TopicId, StoreError> {
        let name = topic.ranking.name().to_owned();
        let open = OpenTopic {
            name: topic.name.as_str().into(),
            ranking: topic.ranking,
            caps: topic.caps,
            edges: self.settings.edges,
            recheck_after: topic.recheck_after,
            hosts: topic.hosts,
            platforms: topic.platforms,
        };
        let number = if let Some(TopicNumber(known)) =
            changes.get::<TopicNumber>(&keys::topic(&topic.name))?
        {
            TopicId(known)
        } else {
            let mut store = store(changes)?;
            store.topics += 1;
            let number = TopicId(store.topics);
            changes.put(keys::STORE.to_vec(), &store);
            changes.put(keys::topic(&topic.name), &TopicNumber(number.0));
            let record = TopicRecord {
                name: topic.name,
                ordering: name.clone(),
                totals: TopicTotals::default(),
            };
            changes.put(keys::topic_record(number), &record);
            let grouping = upkeep::grouping(&open.platforms, open.ranking.averaging());
            changes.put(keys::grouped_by(number), &grouping);
            number
        };
        let key = keys::progress(number);
        let new = || Progress::new(topic.watched_pages, topic.model);
        let mut progress: Progress = changes.get(&key)?.unwrap_or_else(new);
        progress.go_on(topic.watched_pages, topic.model);
        if topic_record(changes, number)?.ordering != name {
            progress.restart_watch();
            let ranking = Arc::clone(&open.ranking);
            self.upkeep
                .push_back(Upkeep::rank(changes, number, ranking)?);
        }
        changes.put(key, &progress);
        self.upkeep.extend(Upkeep::group(
            changes,
            number,
            &open.platforms,
            &open.ranking,
        )?);
        let rejudge = |changes, all| Upkeep::rejudge(changes, number, topic.model, all);
        self.upkeep.extend(match topic.old_verdicts {
            OldVerdicts::RejudgeRelevant => rejudge(changes, false)?,
            OldVerdicts::RejudgeAll => rejudge(changes, true)?,
            OldVerdicts::Keep => {
                // The marker of an earlier rejudging is obsolete: verdicts of this model become old
                // when the model changes again.
                let done: Option<(u64, bool)> = changes.get(&keys::model(number))?;
                if done.is_some_and(|(model, _)| model != topic.model.bits()) {
                    changes.remove(keys::model(number));
                }
                None
            }
        });
        let recheck = Upkeep::recheck(changes, number, topic.recheck_after)?;
        self.upkeep.extend(recheck);
        let review = Upkeep::review_list(changes, number, &open.hosts)?;
        self.upkeep.extend(review);
        for (_, site) in self.returned.extract_if(.., |(topic, _)| *topic == number) {
            let known = site_record(changes, number, &site)?;
            open.place(changes, number, &site, known);
        }
        self.topics.insert(number, open);
        let border = topic_record(changes, number)?.totals.border;
        self.trim_border(number, border)?;
        Ok(number)
    }

    pub(super) fn enter(
        &mut self,
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
        sites: Vec<NewSite>,
    ) -> Result<usize, StoreError> {
        let open = self.topic(topic)?;
        let mut record = topic_record(changes, topic)?;
        let mut entered = 0;
        let mut has_new_start = false;
        for NewSite { entrance, is_start } in sites {
            let site = entrance.site();
            match changes.get::<SiteRecord>(&keys::site(topic, &site))? {
                None => {
                    let is_in = open.discover(changes, topic, &entrance, is_start, &mut record)?;
                    entered += usize::from(is_in.is_some());
                    has_new_start |= is_start;
                }
                Some(mut known) if is_start && !known.is_start => {
                    known.is_start = true;
                    open.place(changes, topic, &site, known);
                    has_new_start = true;
                }
                Some(_) => {}
            }
        }
        if has_new_start {
            let mut progress = progress(changes, topic)?;
            progress.restart_watch();
            changes.put(keys::progress(topic), &progress);
        }
        changes.put(keys::topic_record(topic), &record);
        self.trim_border(topic, record.totals.border)?;
        Ok(entered)
    }

    /// Adds a point to the curve of a topic if one is due. If the command is rejected afterwards, only
    /// that point is missing.
    pub(super) fn extend_curve(
        &mut self,
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
    ) -> Result<(), StoreError> {
        let totals = topic_record(changes, topic)?.totals;
        let next = self.next_points.entry(topic).or_default();
        if totals.pages >= *next {
            let progress = progress(changes, topic)?;
            *next = curve::extend(changes, topic, &totals, &progress)?;
        }
        Ok(())
    }

    /// The operator's host lists. They are the same for all topics of a process, so those of another
    /// topic serve for one that is not open.
    pub(super) fn hosts_of(&self, topic: TopicId) -> Arc<HostLists> {
        let open = self.topics.get(&topic);
        let open = open.or_else(|| self.topics.values().next());
        open.map(|open| Arc::clone(&open.hosts)).unwrap_or_default()
    }

    /// The time by which evidence ages. A clock that has jumped ahead since the last process, too little
    /// to be rejected, does not expire everything at once.
    fn age_clock(&self) -> SystemTime {
        let latest = self
            .newest
            .map(|newest| newest + LONGEST_AWAY + self.opened.elapsed());
        latest.map_or(clock::now(), |latest| clock::now().min(latest))
    }

    /// Verdicts are numbered in the order of time, so the oldest evidence is found by number.
    /// Those that rechecks confirm are younger than their numbers, but their evidence is renewed with
    /// them: they are skipped.
    pub(super) fn forget_old_evidence(
        &self,
        changes: OpenTransaction<'_, '_>,
    ) -> Result<(), StoreError> {
        let oldest = self.age_clock() - self.settings.evidence_age;
        let aged_until: u64 = changes.get(keys::AGED)?.unwrap_or_default();
        let after = keys::sequence(aged_until);
        let entries: Vec<Entry> = changes
            .scan_after(keys::SEQUENCE, &after)
            .take(LOOKED_AT_FOR_AGE)
            .collect::<Result<_, _>>()?;
        for (key, value) in entries {
            let (topic, site) = topic_queries::verdict_place(&key, &value)?;
            let Some(verdict) = changes.get::<VerdictRecord>(&keys::verdict(topic, &site))? else {
                break;
            };
            if verdict.judged_at() < oldest {
                changes.remove(keys::evidence(topic, &site));
            } else if !matches!(site_record(changes, topic, &site)?.phase, Phase::Recheck(_)) {
                break;
            }
            changes.put(keys::AGED.to_vec(), &verdict.seq());
        }
        Ok(())
    }

    pub(super) fn topic(&self, topic: TopicId) -> Result<OpenTopic, StoreError> {
        let open = self.topics.get(&topic).cloned();
        open.ok_or_else(|| StoreError::Closed("a topic was used before it was opened".to_owned()))
    }
}

// === impl OpenTopic ===

impl OpenTopic {
    /// Adds a site to the border, unless its registrable domain has reached its limit.
    pub(super) fn discover(
        &self,
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
        entrance: &PageUrl,
        is_start: bool,
        record: &mut TopicRecord,
    ) -> Result<Option<SiteRecord>, StoreError> {
        let site = entrance.site();
        let domain = keys::domain(topic, self.platforms.domain_of(&site));
        let sites: u32 = changes.get(&domain)?.unwrap_or_default();
        if sites >= self.caps.sites_per_domain && !is_start {
            return Ok(None);
        }
        changes.put(domain, &(sites + 1));
        let mut store = store(changes)?;
        store.discovered += 1;
        changes.put(keys::STORE.to_vec(), &store);
        let mut found = SiteRecord::new(store.discovered, entrance, is_start);
        let rank = self.ranking.rank(&found.standing());
        found.phase = Phase::border(rank);
        let host = site.as_str().as_bytes().to_vec();
        changes.put_raw(keys::border(topic, rank, found.discovered), host);
        changes.put(keys::site(topic, &site), &found);
        record.totals.border += 1;
        Ok(Some(found))
    }

    /// Stores a site whose standing has changed, and moves it within the border.
    pub(super) fn place(
        &self,
        changes: OpenTransaction<'_, '_>,
        topic: TopicId,
        site: &SiteId,
        mut known: SiteRecord,
    ) {
        if let Phase::Border { value, tie } = known.phase {
            let old = Rank { value, tie };
            let new = self.ranking.rank(&known.standing());
            if old != new {
                let host = site.as_str().as_bytes().to_vec();
                changes.remove(keys::border(topic, old, known.discovered));
                changes.put_raw(keys::border(topic, new, known.discovered), host);
                known.phase = Phase::border(new);
            }
        }
        changes.put(keys::site(topic, site), &known);
    }
}

/// A number that no other store or process has. It is not part of a dump: an imported store diverges
/// from the original, and clients of the original's feed must notice.
fn new_identity() -> u64 {
    let since = clock::now().duration_since(SystemTime::UNIX_EPOCH);
    let moment = since.unwrap_or_default().as_nanos();
    xxh3_64(format!("{moment} {}", std::process::id()).as_bytes())
}

/// The next number of the sequence.
pub(super) fn next_number(changes: OpenTransaction<'_, '_>) -> Result<u64, StoreError> {
    let mut store = store(changes)?;
    store.last_seq += 1;
    changes.put(keys::STORE.to_vec(), &store);
    Ok(store.last_seq)
}

pub(super) fn store(changes: &Transaction<'_, dyn Engine>) -> Result<StoreRecord, StoreError> {
    let record = changes.get(keys::STORE)?;
    record.ok_or_else(|| StoreError::damaged(keys::STORE, "it is missing"))
}

pub(super) fn progress(
    changes: &Transaction<'_, dyn Engine>,
    topic: TopicId,
) -> Result<Progress, StoreError> {
    let key = keys::progress(topic);
    let progress = changes.get(&key)?;
    progress.ok_or_else(|| StoreError::damaged(&key, "it is missing"))
}

pub(super) fn topic_record(
    changes: &Transaction<'_, dyn Engine>,
    topic: TopicId,
) -> Result<TopicRecord, StoreError> {
    let key = keys::topic_record(topic);
    let record = changes.get(&key)?;
    record.ok_or_else(|| StoreError::damaged(&key, "it is missing"))
}

pub(super) fn site_record(
    changes: &Transaction<'_, dyn Engine>,
    topic: TopicId,
    site: &SiteId,
) -> Result<SiteRecord, StoreError> {
    let key = keys::site(topic, site);
    let record = changes.get(&key)?;
    record.ok_or_else(|| StoreError::damaged(&key, "it is missing"))
}

/// Checks the first entries of the border, where damage is likely to show.
fn check_border(changes: &Transaction<'_, dyn Engine>) -> Result<(), StoreError> {
    const CHECKED: usize = 1_000;
    for entry in changes.scan(&[kind::BORDER]).take(CHECKED) {
        let (key, host) = entry?;
        let damaged = |reason: &str| StoreError::damaged(&key, reason);
        let topic = keys::topic_in(&key).ok_or_else(|| damaged("it is short"))?;
        let site = keys::host_of(&host).ok_or_else(|| damaged("it names no host"))?;
        let known = site_record(changes, topic, &site)?;
        let is_here = match known.phase {
            Phase::Border { value, tie } => {
                keys::border(topic, Rank { value, tie }, known.discovered) == key
            }
            _ => false,
        };
        if !is_here {
            return Err(damaged("its site is elsewhere"));
        }
    }
    Ok(())
}
