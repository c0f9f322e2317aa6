//! What the orders do to the records.
//!
//! Invariants: a site is in the border's index, in the index of due times, among the sites
//! handed out, or judged (and if it is relevant, perhaps in the index of those that are looked
//! at again), and its record says which. The sums in a site's record are those of its edges.
//! Totals are those of the records.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use crate::config::{EdgeRetention, HostLists, OldVerdicts, StoreSettings};
use crate::telemetry::clock;
use crate::web::{
    PageUrl, Platforms, SiteId, SiteReport, UndecidedReason, Verdict, shared_address,
};

use super::curve;
use super::engine::{Engine, Entry};
use super::keys;
use super::listing::{self, Cause};
use super::metrics::DroppedSites;
use super::reading;
use super::rechecks;
use super::records::{
    self, EdgeRecord, EvidenceRecord, Phase, SiteRecord, StoreRecord, TopicNumber, TopicRecord,
    VerdictRecord,
};
use super::suspects::{self, Suspects};
use super::transaction::Transaction;
use super::upkeep::{self, Upkeep};
use super::{
    BorderCaps, NewEdge, NewSite, Outcome, Progress, REJUDGED, Rank, Ranking, Recorded, Resolution,
    StoreError, Taken, TakenSite, Taking, Tally, TopicId, TopicOpening, TopicTotals,
};

type Changing<'t, 'e> = &'t mut Transaction<'e, dyn Engine>;

/// How many times in a row a site may lead to another one.
const MAX_ALIASES: usize = 5;

/// A topic that waits until nobody else is under way is waited for so long after it last asked: it
/// may have been paused since.
const WAITED_FOR: Duration = Duration::from_secs(30);

/// A store that was not used for longer forgets its oldest evidence at the start after the next.
const LONGEST_AWAY: Duration = Duration::from_hours(30 * 24);

/// With each record so many old verdicts are looked at whose evidence may be forgotten.
const LOOKED_AT_FOR_AGE: usize = 64;

/// Carries orders out. Holds nothing that is not in the records but how to rank, and how far
/// the forgetting has come.
pub(super) struct Ledger {
    topics: BTreeMap<TopicId, OpenTopic>,
    settings: StoreSettings,
    /// What is to be done before anything else.
    upkeep: VecDeque<Upkeep>,
    /// How long borders were after they were last trimmed.
    trimmed_to: BTreeMap<TopicId, u64>,
    /// Before so many pages no curve gets another point.
    next_points: BTreeMap<TopicId, u64>,
    /// Sites that were handed out when the last process ended. They are ranked when their
    /// topic is opened, by edges that came while they were away.
    returned: Vec<(TopicId, SiteId)>,
    /// When this process opened the store.
    opened: Instant,
    /// When the newest verdict was recorded before that.
    newest: Option<SystemTime>,
    /// Whether this process has handed out any site.
    has_handed_out: bool,
    /// The topic that waits for all others to be reported on, since when.
    waits_to_be_alone: Option<(TopicId, Instant)>,
    /// Sites that caps kept out of borders, or made leave them, since they were last asked for.
    dropped: DroppedSites,
}

/// What the process before has left.
pub(super) struct Left {
    /// Whether it was killed.
    pub(super) was_killed: bool,
    /// When its newest verdict was recorded.
    pub(super) newest: Option<SystemTime>,
}

/// A key of an index, and the site that it stands for.
type Place = (Vec<u8>, SiteId);

/// Where the site is that is visited before any other.
enum FirstAlone {
    Here(Place),
    /// In another topic.
    Elsewhere,
}

#[derive(Clone)]
struct OpenTopic {
    name: Arc<str>,
    ranking: Arc<dyn Ranking>,
    caps: BorderCaps,
    edges: EdgeRetention,
    recheck_after: Option<Duration>,
    hosts: Arc<HostLists>,
    platforms: Arc<Platforms>,
}

/// The weights of the edges to a site that come from one registrable domain.
#[derive(Default)]
pub(super) struct DomainSum {
    pub(super) edges: u32,
    global: f64,
    local: f64,
}

// === impl Ledger ===

impl Ledger {
    /// Begins a store, or puts one in order that was left in the middle of its work.
    pub(super) fn open(
        changes: Changing<'_, '_>,
        settings: StoreSettings,
        left: &Left,
    ) -> Result<Self, StoreError> {
        if changes.get::<StoreRecord>(keys::STORE)?.is_none() {
            changes.put(keys::STORE.to_vec(), &StoreRecord::default());
        }
        if changes.get_raw(keys::IDENTITY)?.is_none() {
            changes.put(keys::IDENTITY.to_vec(), &new_identity());
        }
        check_border(changes)?;
        let mut upkeep = VecDeque::new();
        // Stores that were begun before lists were kept, and dumps without them.
        for number in 1..=store(changes)?.topics {
            if changes
                .get_raw(&keys::listed_by(TopicId(number)))?
                .is_none()
            {
                upkeep.push_back(Upkeep::found_list(TopicId(number)));
            }
        }
        Ok(Self {
            topics: BTreeMap::new(),
            settings,
            upkeep,
            trimmed_to: BTreeMap::new(),
            next_points: BTreeMap::new(),
            returned: put_back_all(changes, left.was_killed)?,
            opened: Instant::now(),
            newest: left.newest,
            waits_to_be_alone: None,
            has_handed_out: false,
            dropped: DroppedSites::default(),
        })
    }

    /// Believes the clock, whatever the store says: times that are later are set right.
    pub(super) fn accept_clock(&mut self, changes: Changing<'_, '_>) -> Result<(), StoreError> {
        self.newest = Some(clock::now());
        let now = records::seconds(clock::now());
        changes.put(keys::NEWEST.to_vec(), &now);
        for number in 1..=store(changes)?.topics {
            let upkeep = Upkeep::accept_clock(TopicId(number), now);
            self.upkeep.extend(upkeep);
        }
        Ok(())
    }

    /// Sites that caps have dropped since this was last asked.
    pub(super) fn take_dropped(&mut self) -> DroppedSites {
        std::mem::take(&mut self.dropped)
    }

    /// Whether there is work that comes before any further order.
    pub(super) fn has_upkeep(&self) -> bool {
        !self.upkeep.is_empty()
    }

    /// Does a portion of it.
    pub(super) fn keep_up(&mut self, changes: Changing<'_, '_>) -> Result<(), StoreError> {
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

    /// Lets the lowest ranked sites leave a border that has become too long.
    fn trim_border(&mut self, topic: TopicId, border: u64) -> Result<(), StoreError> {
        let open = self.topic(topic)?;
        let most = open.caps.border_sites;
        // Start sites never leave, and may be more than that.
        let least = self.trimmed_to.get(&topic).copied().unwrap_or_default();
        let trims = |upkeep: &Upkeep| upkeep.trimmed_topic() == Some(topic);
        let is_known = self.upkeep.iter().any(trims);
        if most > 0 && border > most.max(least) && !is_known {
            let trim = Upkeep::trim(topic, open.name, open.platforms, most);
            self.upkeep.push_back(trim);
        }
        Ok(())
    }

    pub(super) fn open_topic(
        &mut self,
        changes: Changing<'_, '_>,
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
        let number = if let Some(TopicNumber(number)) =
            changes.get::<TopicNumber>(&keys::topic(&topic.name))?
        {
            TopicId(number)
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
            progress.watch_anew();
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
                // Verdicts of this model are old ones when that changes again.
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
        changes: Changing<'_, '_>,
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
            progress.watch_anew();
            changes.put(keys::progress(topic), &progress);
        }
        changes.put(keys::topic_record(topic), &record);
        self.trim_border(topic, record.totals.border)?;
        Ok(entered)
    }

    pub(super) fn take(
        &mut self,
        changes: Changing<'_, '_>,
        topic: TopicId,
        taking: Taking,
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
        for (key, site) in chosen {
            match key.first() {
                Some(b'd') => record.totals.deferred -= 1,
                Some(b'r') => record.totals.border -= 1,
                _ => {}
            }
            let is_poison = suspects.is_poison(topic, &site);
            sites.push(TakenSite {
                is_poison,
                ..hand_out(changes, topic, site)?
            });
            changes.remove(key);
        }
        // Who finds nothing writes nothing, so that asking in vain costs no sync.
        if !sites.is_empty() {
            record.totals.taken += sites.len() as u64;
            changes.put(keys::topic_record(topic), &record);
        }
        Ok(Taken {
            sites,
            is_held_back,
        })
    }

    /// The site that is visited alone before anything else is handed out, if there is one. A death
    /// counts only if nothing else was handed out before: a process that always dies of a later
    /// site would never learn of which.
    fn first_alone(
        &self,
        changes: &Transaction<'_, dyn Engine>,
        suspects: &Suspects,
        topic: TopicId,
        taking: &Taking,
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
        let is_waited_for = is_elsewhere && self.opened.elapsed() < WAITED_FOR;
        Ok(is_waited_for.then_some(FirstAlone::Elsewhere))
    }

    /// Whether another topic waits until nobody is under way.
    fn is_other_waiting_to_be_alone(&self, topic: TopicId) -> bool {
        self.waits_to_be_alone
            .is_some_and(|(other, since)| other != topic && since.elapsed() < WAITED_FOR)
    }

    pub(super) fn record(
        &mut self,
        changes: Changing<'_, '_>,
        outcomes: &[Outcome],
    ) -> Result<Vec<Recorded>, StoreError> {
        let mut recorded = Vec::with_capacity(outcomes.len());
        for outcome in outcomes {
            let open = self.topic(outcome.topic)?;
            recorded.push(open.record(changes, outcome, &mut self.dropped)?);
            self.extend_curve(changes, outcome.topic)?;
            let border = topic_record(changes, outcome.topic)?.totals.border;
            self.trim_border(outcome.topic, border)?;
        }
        self.forget_old_evidence(changes)?;
        Ok(recorded)
    }

    /// Adds a point to the curve of a topic if it is time for one. Should the order be given up
    /// afterwards, a point is missing, and nothing else.
    fn extend_curve(
        &mut self,
        changes: Changing<'_, '_>,
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

    /// The lists of the operator, as they were when a topic was opened. They are those of the
    /// process, so another topic knows them too.
    pub(super) fn hosts_of(&self, topic: TopicId) -> Arc<HostLists> {
        let open = self.topics.get(&topic);
        let open = open.or_else(|| self.topics.values().next());
        open.map(|open| Arc::clone(&open.hosts)).unwrap_or_default()
    }

    /// The time by which evidence ages. A clock that has jumped ahead since the last process, by less
    /// than can be told to be wrong, does not age everything at once.
    fn age_clock(&self) -> SystemTime {
        let latest = self
            .newest
            .map(|newest| newest + LONGEST_AWAY + self.opened.elapsed());
        latest.map_or(clock::now(), |latest| clock::now().min(latest))
    }

    /// Verdicts are numbered in the order of time, so the oldest evidence is found by number.
    /// Those that are confirmed from time to time are younger than their numbers, but their
    /// evidence is renewed with them: they are passed over.
    fn forget_old_evidence(&self, changes: Changing<'_, '_>) -> Result<(), StoreError> {
        let oldest = self.age_clock() - self.settings.evidence_age;
        let aged_until: u64 = changes.get(keys::AGED)?.unwrap_or_default();
        let after = keys::sequence(aged_until);
        let entries: Vec<Entry> = changes
            .scan_after(keys::SEQUENCE, &after)
            .take(LOOKED_AT_FOR_AGE)
            .collect::<Result<_, _>>()?;
        for (key, value) in entries {
            let (topic, site) = reading::verdict_place(&key, &value)?;
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

    fn topic(&self, topic: TopicId) -> Result<OpenTopic, StoreError> {
        let open = self.topics.get(&topic).cloned();
        open.ok_or_else(|| StoreError::Closed("a topic was used before it was opened".to_owned()))
    }
}

// === impl OpenTopic ===

impl OpenTopic {
    /// Takes a site up, unless its registrable domain has its share already.
    fn discover(
        &self,
        changes: Changing<'_, '_>,
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

    /// Puts a site whose standing has changed where it belongs.
    fn place(
        &self,
        changes: Changing<'_, '_>,
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

    /// Takes a site up because another one recommends it, unless the registrable domain of that one
    /// has brought its share already: one page of links must not fill the border.
    fn discover_for(
        &self,
        changes: Changing<'_, '_>,
        topic: TopicId,
        source: &SiteId,
        entrance: &PageUrl,
        record: &mut TopicRecord,
        dropped: &mut DroppedSites,
    ) -> Result<Option<SiteRecord>, StoreError> {
        let key = keys::source_domain(topic, self.platforms.domain_of(source));
        let brought: u32 = changes.get(&key)?.unwrap_or_default();
        let most = self.caps.sites_per_source;
        if most > 0 && brought >= most {
            dropped.count_source(&self.name);
            return Ok(None);
        }
        let found = self.discover(changes, topic, entrance, false, record)?;
        if found.is_some() {
            changes.put(key, &brought.saturating_add(1));
        }
        Ok(found)
    }

    fn record(
        &self,
        changes: Changing<'_, '_>,
        outcome: &Outcome,
        dropped: &mut DroppedSites,
    ) -> Result<Recorded, StoreError> {
        let Outcome { topic, report, .. } = outcome;
        let (topic, site) = (*topic, report.site.clone());
        let mut record = topic_record(changes, topic)?;
        let mut known = site_record(changes, topic, &site)?;
        if known.phase != Phase::Taken {
            let reason = "a site was reported on that was not handed out";
            return Err(StoreError::damaged(&keys::site(topic, &site), reason));
        }
        let from = claimed_from(changes, topic, &site)?;
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
        let mut recorded = Recorded::default();
        match outcome.resolution {
            Resolution::PutBack => {
                // Edges may have come while it was away.
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
            listing::ask_editors(changes, topic, &site, old.as_ref())?;
            if let Some(seq) = recorded.seq {
                listing::relist(changes, topic, &site, Cause::Judged(seq), &self.hosts)?;
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

    /// Where in its life a site is that was looked at just now.
    fn phase_after(
        &self,
        changes: Changing<'_, '_>,
        topic: TopicId,
        site: &SiteId,
        verdict: Verdict,
    ) -> Phase {
        let now = clock::now();
        rechecks::phase_after(changes, topic, site, verdict, now, self.recheck_after)
    }

    fn keeps_edges_to(&self, verdict: Verdict) -> bool {
        match self.edges {
            EdgeRetention::All => true,
            EdgeRetention::Relevant => verdict.is_relevant(),
        }
    }

    /// Where an edge to this page ends: at its site, or at the one that the site leads to.
    /// None if the edge is not worth keeping.
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

    /// Adds an edge, or gives an old one new weights, and ranks its target anew.
    fn recommend(
        &self,
        changes: Changing<'_, '_>,
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
            let old: EdgeRecord = records::decode(&other, &value)?;
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

    /// A site that only leads to another one leaves its edges to that one.
    fn inherit(
        &self,
        changes: Changing<'_, '_>,
        topic: TopicId,
        (alias, is_start): (&SiteId, bool),
        page: &PageUrl,
        record: &mut TopicRecord,
        dropped: &mut DroppedSites,
    ) -> Result<(), StoreError> {
        let (heir, entrance) = (page.site(), page.front_door());
        if heir == *alias {
            return Ok(());
        }
        match changes.get::<SiteRecord>(&keys::site(topic, &heir))? {
            None => {
                self.discover(changes, topic, &entrance, is_start, record)?;
            }
            Some(mut known) if is_start && !known.is_start => {
                known.is_start = true;
                self.place(changes, topic, &heir, known);
            }
            Some(_) => {}
        }
        let edges: Vec<Entry> = changes
            .scan(&keys::edges_to(topic, alias))
            .collect::<Result<_, _>>()?;
        for (key, value) in edges {
            let old: EdgeRecord = records::decode(&key, &value)?;
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

/// Gives a verdict its number and adds it to the totals; one that it replaces leaves them. One
/// that says what the old one said keeps its number: nobody is to hear of it again.
fn judge(
    changes: Changing<'_, '_>,
    outcome: &Outcome,
    old: Option<&VerdictRecord>,
    known: &SiteRecord,
    totals: &mut TopicTotals,
) -> Result<Recorded, StoreError> {
    let (topic, report) = (outcome.topic, &outcome.report);
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
    changes.put(
        key,
        &VerdictRecord::new(report, seq, outcome.rank, known.is_start),
    );
    let place = (topic.0, report.site.as_str());
    changes.put(keys::sequence(seq), &place);
    changes.put(keys::NEWEST.to_vec(), &records::seconds(clock::now()));
    let evidence = keys::evidence(topic, &report.site);
    match outcome.keep_evidence {
        true => changes.put(evidence, &EvidenceRecord::new(report, &outcome.edges)),
        false => changes.remove(evidence),
    }
    let address = report.address.filter(|_| takes_room(report.verdict));
    let sites_at_address = count_at(changes, topic, address, |sites| sites.saturating_add(1))?;
    Ok(Recorded {
        seq: confirmed.is_none().then_some(seq),
        sites_at_address,
    })
}

/// Whether a site counts at its address: not if it was turned away there.
fn takes_room(verdict: Verdict) -> bool {
    verdict.undecided_reason() != Some(UndecidedReason::AddressFull)
}

/// An alias takes no share of its registrable domain.
fn share_domain(
    changes: Changing<'_, '_>,
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
    let sites = match is_alias {
        true => sites.saturating_sub(1),
        false => sites.saturating_add(1),
    };
    changes.put(domain, &sites);
    Ok(())
}

/// Changes the number of sites that were judged at an address, and says what it is now.
///
/// Older versions counted each IPv6 address for itself. What they counted in a network is put
/// together here, as soon as the network is met again.
fn count_at(
    changes: Changing<'_, '_>,
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
            sites = sites.saturating_add(records::decode(&other, &value)?);
            changes.remove(other);
        }
    }
    let sites = change(sites);
    changes.put(key, &sites);
    Ok(sites)
}

/// Forgets who recommends a site.
fn forget_edges(
    changes: Changing<'_, '_>,
    topic: TopicId,
    site: &SiteId,
) -> Result<(), StoreError> {
    let edges: Vec<Entry> = changes
        .scan(&keys::edges_to(topic, site))
        .collect::<Result<_, _>>()?;
    for (key, _) in edges {
        changes.remove(key);
    }
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

/// What a visit brought.
fn tally(report: &SiteReport, is_start: bool) -> Tally {
    let mut totals = TopicTotals {
        pages: report.cost.pages as u64,
        ..TopicTotals::default()
    };
    count(&mut totals, report.verdict, is_start, |number| *number += 1);
    totals.tally()
}

/// Sites to be handed out: those that were deferred and are due, some that are to be looked at again,
/// and the best of the border.
fn choose(
    changes: &Transaction<'_, dyn Engine>,
    topic: TopicId,
    taking: &Taking,
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
    let due = first_due(b'd', taking.most)?;
    let seats = taking.most - due.len();
    let mut again = first_due(b'c', seats)?;
    let mut best: Vec<Entry> = Vec::new();
    if taking.is_border_open {
        let prefix = keys::of_topic(b'r', topic);
        let kept = again.len().min(taking.rechecks);
        let entries = changes.scan(&prefix).take(seats - kept);
        best = entries.collect::<Result<_, _>>()?;
    }
    again.truncate(seats - best.len());
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
    taking: &Taking,
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

fn hand_out(
    changes: Changing<'_, '_>,
    topic: TopicId,
    site: SiteId,
) -> Result<TakenSite, StoreError> {
    let mut known = site_record(changes, topic, &site)?;
    let entrance = known.entrance.parse::<PageUrl>();
    let damaged = |reason: &str| StoreError::damaged(&keys::site(topic, &site), reason);
    let entrance = entrance.map_err(|_| damaged("its entrance is no address"))?;
    let claim = keys::claim(topic, &site);
    match known.phase {
        Phase::Border { value, tie } => {
            known.last_rank = (value, tie);
            changes.put_raw(claim, Vec::new());
        }
        Phase::Due(_) | Phase::Recheck(_) => changes.put(claim, &known.phase),
        Phase::Taken | Phase::Judged => return Err(damaged("it stands in two places")),
    }
    let verdict: Option<VerdictRecord> = changes.get(&keys::verdict(topic, &site))?;
    known.phase = Phase::Taken;
    changes.put(keys::site(topic, &site), &known);
    Ok(TakenSite {
        entrance,
        standing: known.standing(),
        rank: known.last_rank.0,
        deferrals: known.deferrals,
        verdict: verdict.as_ref().map(VerdictRecord::verdict),
        model: verdict.as_ref().map(VerdictRecord::model),
        is_blocked: listing::is_blocked(changes, &site)?,
        is_poison: false,
        site,
    })
}

/// Where a site was before it was handed out, if that was not the border.
fn claimed_from(
    changes: &Transaction<'_, dyn Engine>,
    topic: TopicId,
    site: &SiteId,
) -> Result<Option<Phase>, StoreError> {
    let key = keys::claim(topic, site);
    let value = changes.get_raw(&key)?.filter(|value| !value.is_empty());
    value.map(|value| records::decode(&key, &value)).transpose()
}

/// Puts a site that was handed out back into the border, at the rank it had there, or if it
/// has a verdict, among those that are due, where it was. A deferred one was due, so it need
/// not wait any longer.
fn put_back(
    changes: Changing<'_, '_>,
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

/// Sites that were handed out when the process ended go back to where they were.
fn put_back_all(
    changes: Changing<'_, '_>,
    was_killed: bool,
) -> Result<Vec<(TopicId, SiteId)>, StoreError> {
    let mut returned = Vec::new();
    let claims: Vec<Entry> = changes.scan(b"k").collect::<Result<_, _>>()?;
    for (key, _) in claims {
        let damaged = || StoreError::damaged(&key, "it names no site");
        let topic = keys::topic_in(&key).ok_or_else(damaged)?;
        let site = keys::last_host(&key).ok_or_else(damaged)?;
        let mut record = topic_record(changes, topic)?;
        let mut known = site_record(changes, topic, &site)?;
        let from = claimed_from(changes, topic, &site)?;
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

/// A number that no other store has. It is not part of a dump: a store that is read from one
/// goes its own way, and whoever followed the first is to notice.
fn new_identity() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let moment = since.unwrap_or_default().as_nanos();
    xxh3_64(format!("{moment} {}", std::process::id()).as_bytes())
}

/// The next number of the sequence.
pub(super) fn next_number(changes: Changing<'_, '_>) -> Result<u64, StoreError> {
    let mut store = store(changes)?;
    store.last_seq += 1;
    changes.put(keys::STORE.to_vec(), &store);
    Ok(store.last_seq)
}

pub(super) fn store(changes: &Transaction<'_, dyn Engine>) -> Result<StoreRecord, StoreError> {
    let record = changes.get(keys::STORE)?;
    record.ok_or_else(|| StoreError::damaged(keys::STORE, "it is missing"))
}

fn progress(changes: &Transaction<'_, dyn Engine>, topic: TopicId) -> Result<Progress, StoreError> {
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

/// Looks at the best of the first border: a damaged store shows it there soon.
fn check_border(changes: &Transaction<'_, dyn Engine>) -> Result<(), StoreError> {
    const LOOKED_AT: usize = 1_000;
    for entry in changes.scan(b"r").take(LOOKED_AT) {
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
            return Err(damaged("its site stands elsewhere"));
        }
    }
    Ok(())
}
