//! What the orders do to the records.
//!
//! Invariants: a site is in the border's index, in the index of due times, among the sites
//! handed out, or judged, and its record says which. The sums in a site's record are those
//! of its edges. Totals are those of the records.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use crate::config::{EdgeRetention, OldVerdicts, StoreSettings};
use crate::web::{ModelFingerprint, PageUrl, SiteId, Verdict};

use super::engine::{Engine, Entry};
use super::keys;
use super::records::{
    self, EdgeRecord, EvidenceRecord, Phase, SiteRecord, StoreRecord, TopicNumber, TopicRecord,
    VerdictRecord,
};
use super::transaction::Transaction;
use super::{
    JudgedSite, NewEdge, NewSite, Outcome, REJUDGED, Rank, Ranking, Recommendation, Recorded,
    Resolution, SiteFile, StoreError, TakenSite, TopicId, TopicOpening, TopicTotals,
};

type Changing<'t, 'e> = &'t mut Transaction<'e, dyn Engine>;

/// How many times in a row a site may lead to another one.
const MAX_ALIASES: usize = 5;

/// With each record so many old verdicts are looked at whose evidence may be forgotten.
const LOOKED_AT_FOR_AGE: usize = 64;

/// Carries orders out. Holds nothing that is not in the records but how to rank, and how far
/// the forgetting has come.
pub(super) struct Ledger {
    topics: BTreeMap<TopicId, OpenTopic>,
    settings: StoreSettings,
    /// Up to this number all evidence is younger than it may be, or gone.
    aged_until: u64,
}

#[derive(Clone)]
struct OpenTopic {
    ranking: Arc<dyn Ranking>,
    sites_per_domain: u32,
    edges: EdgeRetention,
}

/// The weights of the edges to a site that come from one registrable domain.
#[derive(Default)]
struct DomainSum {
    edges: u32,
    global: f64,
    local: f64,
}

// === impl Ledger ===

impl Ledger {
    /// Begins a store, or puts one in order that was left in the middle of its work.
    pub(super) fn open(
        changes: Changing<'_, '_>,
        settings: StoreSettings,
    ) -> Result<Self, StoreError> {
        if changes.get::<StoreRecord>(keys::STORE)?.is_none() {
            changes.put(keys::STORE.to_vec(), &StoreRecord::default());
        }
        check_border(changes)?;
        put_back_all(changes)?;
        Ok(Self {
            topics: BTreeMap::new(),
            settings,
            aged_until: 0,
        })
    }

    pub(super) fn open_topic(
        &mut self,
        changes: Changing<'_, '_>,
        topic: TopicOpening,
    ) -> Result<TopicId, StoreError> {
        let name = topic.ranking.name().to_owned();
        let open = OpenTopic {
            ranking: topic.ranking,
            sites_per_domain: topic.sites_per_domain,
            edges: self.settings.edges,
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
            number
        };
        let mut record = topic_record(changes, number)?;
        self.topics.insert(number, open.clone());
        if record.ordering != name {
            rank_all(changes, number, &*open.ranking)?;
            record.ordering = name;
            changes.put(keys::topic_record(number), &record);
        }
        match topic.old_verdicts {
            OldVerdicts::Keep => {}
            OldVerdicts::RejudgeRelevant => rejudge(changes, number, topic.model, false)?,
            OldVerdicts::RejudgeAll => rejudge(changes, number, topic.model, true)?,
        }
        Ok(number)
    }

    pub(super) fn enter(
        &self,
        changes: Changing<'_, '_>,
        topic: TopicId,
        sites: Vec<NewSite>,
    ) -> Result<usize, StoreError> {
        let open = self.topic(topic)?;
        let mut record = topic_record(changes, topic)?;
        let mut entered = 0;
        for NewSite { entrance, is_start } in sites {
            let site = entrance.site();
            match changes.get::<SiteRecord>(&keys::site(topic, &site))? {
                None => {
                    let is_in = open.discover(changes, topic, &entrance, is_start, &mut record)?;
                    entered += usize::from(is_in.is_some());
                }
                Some(mut known) if is_start && !known.is_start => {
                    known.is_start = true;
                    open.place(changes, topic, &site, known);
                }
                Some(_) => {}
            }
        }
        changes.put(keys::topic_record(topic), &record);
        Ok(entered)
    }

    pub(super) fn take(
        &self,
        changes: Changing<'_, '_>,
        topic: TopicId,
        most: usize,
        now: SystemTime,
    ) -> Result<Vec<TakenSite>, StoreError> {
        self.topic(topic)?;
        let mut record = topic_record(changes, topic)?;
        let mut taken = Vec::new();
        let now = records::seconds(now);
        let due: Vec<Entry> = {
            let prefix = keys::of_topic(b'd', topic);
            let entries = changes.scan(&prefix).take_while(|entry| match entry {
                Ok((key, _)) => keys::due_seconds(key).is_some_and(|seconds| seconds <= now),
                Err(_) => true,
            });
            entries.take(most).collect::<Result<_, _>>()?
        };
        let best: Vec<Entry> = {
            let prefix = keys::of_topic(b'r', topic);
            let entries = changes.scan(&prefix).take(most - due.len());
            entries.collect::<Result<_, _>>()?
        };
        record.totals.deferred -= due.len() as u64;
        record.totals.border -= best.len() as u64;
        for (key, host) in due.into_iter().chain(best) {
            let site = keys::host_of(&host);
            let site = site.ok_or_else(|| StoreError::damaged(&key, "it names no host"))?;
            taken.push(hand_out(changes, topic, site)?);
            changes.remove(key);
        }
        record.totals.taken += taken.len() as u64;
        changes.put(keys::topic_record(topic), &record);
        Ok(taken)
    }

    pub(super) fn record(
        &mut self,
        changes: Changing<'_, '_>,
        outcomes: &[Outcome],
    ) -> Result<Vec<Recorded>, StoreError> {
        let recorded = outcomes.iter().map(|outcome| {
            let open = self.topic(outcome.topic)?;
            open.record(changes, outcome)
        });
        let recorded = recorded.collect::<Result<_, _>>()?;
        self.forget_old_evidence(changes)?;
        Ok(recorded)
    }

    /// Verdicts are numbered in the order of time, so the oldest evidence is found by number.
    fn forget_old_evidence(&mut self, changes: Changing<'_, '_>) -> Result<(), StoreError> {
        let oldest = SystemTime::now() - self.settings.evidence_age;
        let after = keys::sequence(self.aged_until);
        let entries: Vec<Entry> = changes
            .scan_after(keys::SEQUENCE, &after)
            .take(LOOKED_AT_FOR_AGE)
            .collect::<Result<_, _>>()?;
        for (key, value) in entries {
            let (topic, site) = verdict_place(&key, &value)?;
            let verdict: Option<VerdictRecord> = changes.get(&keys::verdict(topic, &site))?;
            let Some(verdict) = verdict.filter(|verdict| verdict.judged_at() < oldest) else {
                break;
            };
            changes.remove(keys::evidence(topic, &site));
            self.aged_until = verdict.seq();
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
        let domain = keys::domain(topic, site.registrable_domain());
        let sites: u32 = changes.get(&domain)?.unwrap_or_default();
        if sites >= self.sites_per_domain && !is_start {
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

    fn record(&self, changes: Changing<'_, '_>, outcome: &Outcome) -> Result<Recorded, StoreError> {
        let Outcome { topic, report, .. } = outcome;
        let (topic, site) = (*topic, report.site.clone());
        let mut record = topic_record(changes, topic)?;
        let mut known = site_record(changes, topic, &site)?;
        if known.phase != Phase::Taken {
            let reason = "a site was reported on that was not handed out";
            return Err(StoreError::damaged(&keys::site(topic, &site), reason));
        }
        changes.remove(keys::claim(topic, &site));
        record.totals.pages += report.cost.pages as u64;
        known.entrance = report.entrance.to_string();
        let mut recorded = Recorded::default();
        match outcome.resolution {
            Resolution::PutBack => {
                // Edges may have come while it was away.
                let rank = self.ranking.rank(&known.standing());
                known.last_rank = (rank.value, rank.tie);
                put_back(changes, topic, &site, &mut known, &mut record.totals);
            }
            Resolution::Deferred(not_before) => {
                let due = records::seconds(not_before);
                known.phase = Phase::Due(due);
                known.deferrals = known.deferrals.saturating_add(1);
                let host = site.as_str().as_bytes().to_vec();
                changes.put_raw(keys::due(topic, due, &site), host);
                record.totals.deferred += 1;
                record.totals.taken -= 1;
            }
            Resolution::Judged => {
                known.phase = Phase::Judged;
                known.deferrals = 0;
                record.totals.taken -= 1;
                recorded = judge(changes, outcome, &known, &mut record.totals)?;
            }
        }
        changes.put(keys::site(topic, &site), &known);
        if recorded.seq.is_some() {
            for edge in &outcome.edges {
                self.recommend(changes, topic, &site, edge, &mut record)?;
            }
            if let Some(page) = &report.alias_of {
                self.inherit(changes, topic, &site, page, known.is_start, &mut record)?;
            }
            if !self.keeps_edges_to(report.verdict) {
                forget_edges(changes, topic, &site)?;
            }
        }
        changes.put(keys::topic_record(topic), &record);
        Ok(recorded)
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
            let key = keys::verdict(topic, &entrance.site());
            let Some(verdict) = changes.get::<VerdictRecord>(&key)? else {
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
            None => self.discover(changes, topic, &entrance, false, record)?,
        };
        let Some(mut known) = known else {
            return Ok(());
        };
        let domain = source.registrable_domain();
        let key = keys::edge(topic, &target, source);
        let before = domain_sum(changes, topic, &target, domain)?;
        changes.put(key, &EdgeRecord::new(edge));
        let after = domain_sum(changes, topic, &target, domain)?;
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
        alias: &SiteId,
        page: &PageUrl,
        is_start: bool,
        record: &mut TopicRecord,
    ) -> Result<(), StoreError> {
        let (heir, entrance) = (page.site(), page.front_door());
        if heir == *alias {
            return Ok(());
        }
        let domain = keys::domain(topic, alias.registrable_domain());
        let sites: u32 = changes.get(&domain)?.unwrap_or_default();
        changes.put(domain, &sites.saturating_sub(1));
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
            self.recommend(changes, topic, &source, &edge, record)?;
        }
        Ok(())
    }
}

// === impl DomainSum ===

impl DomainSum {
    fn means(&self) -> (f64, f64) {
        let edges = f64::from(self.edges.max(1));
        (self.global / edges, self.local / edges)
    }
}

fn domain_sum(
    changes: &Transaction<'_, dyn Engine>,
    topic: TopicId,
    target: &SiteId,
    domain: &str,
) -> Result<DomainSum, StoreError> {
    let mut sum = DomainSum::default();
    for entry in changes.scan(&keys::edges_from(topic, target, domain)) {
        let (key, value) = entry?;
        let edge: EdgeRecord = records::decode(&key, &value)?;
        sum.edges += 1;
        sum.global += f64::from(edge.global);
        sum.local += f64::from(edge.local);
    }
    Ok(sum)
}

/// Gives a verdict its number and adds it to the totals; one that it replaces leaves them.
fn judge(
    changes: Changing<'_, '_>,
    outcome: &Outcome,
    known: &SiteRecord,
    totals: &mut TopicTotals,
) -> Result<Recorded, StoreError> {
    let (topic, report) = (outcome.topic, &outcome.report);
    let mut store = store(changes)?;
    store.last_seq += 1;
    let seq = store.last_seq;
    changes.put(keys::STORE.to_vec(), &store);
    let key = keys::verdict(topic, &report.site);
    if let Some(old) = changes.get::<VerdictRecord>(&key)? {
        count(totals, old.verdict(), old.is_start(), |number| *number -= 1);
        changes.remove(keys::sequence(old.seq()));
        count_at(changes, topic, old.address(), |sites| {
            sites.saturating_sub(1)
        })?;
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
    let evidence = keys::evidence(topic, &report.site);
    match outcome.keep_evidence {
        true => changes.put(evidence, &EvidenceRecord::new(report, &outcome.edges)),
        false => changes.remove(evidence),
    }
    let sites_at_address = count_at(changes, topic, report.address, |sites| {
        sites.saturating_add(1)
    })?;
    Ok(Recorded {
        seq: Some(seq),
        sites_at_address,
    })
}

/// Changes the number of sites that were judged at an address, and says what it is now.
fn count_at(
    changes: Changing<'_, '_>,
    topic: TopicId,
    address: Option<IpAddr>,
    change: impl Fn(u32) -> u32,
) -> Result<u32, StoreError> {
    let Some(address) = address else {
        return Ok(0);
    };
    let key = keys::address(topic, address);
    let sites = change(changes.get(&key)?.unwrap_or_default());
    changes.put(key, &sites);
    Ok(sites)
}

/// Makes sites due whose verdicts another model has made: all of them, or relevant ones.
fn rejudge(
    changes: Changing<'_, '_>,
    topic: TopicId,
    model: ModelFingerprint,
    all: bool,
) -> Result<(), StoreError> {
    let key = keys::model(topic);
    let wish = (model.bits(), all);
    if changes.get::<(u64, bool)>(&key)? == Some(wish) {
        return Ok(());
    }
    changes.put(key, &wish);
    let verdicts: Vec<Entry> = changes
        .scan(&keys::of_topic(b'v', topic))
        .collect::<Result<_, _>>()?;
    let mut record = topic_record(changes, topic)?;
    for (key, value) in verdicts {
        let verdict: VerdictRecord = records::decode(&key, &value)?;
        if verdict.model() == model || !(all || verdict.verdict().is_relevant()) {
            continue;
        }
        let site = keys::last_host(&key);
        let site = site.ok_or_else(|| StoreError::damaged(&key, "it names no site"))?;
        let mut known = site_record(changes, topic, &site)?;
        if known.phase != Phase::Judged {
            continue;
        }
        let due = records::seconds(REJUDGED);
        known.phase = Phase::Due(due);
        let host = site.as_str().as_bytes().to_vec();
        changes.put_raw(keys::due(topic, due, &site), host);
        changes.put(keys::site(topic, &site), &known);
        record.totals.deferred += 1;
    }
    changes.put(keys::topic_record(topic), &record);
    Ok(())
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

fn hand_out(
    changes: Changing<'_, '_>,
    topic: TopicId,
    site: SiteId,
) -> Result<TakenSite, StoreError> {
    let mut known = site_record(changes, topic, &site)?;
    let entrance = known.entrance.parse::<PageUrl>();
    let damaged = |reason: &str| StoreError::damaged(&keys::site(topic, &site), reason);
    let entrance = entrance.map_err(|_| damaged("its entrance is no address"))?;
    match known.phase {
        Phase::Border { value, tie } => known.last_rank = (value, tie),
        Phase::Due(_) => {}
        Phase::Taken | Phase::Judged => return Err(damaged("it stands in two places")),
    }
    let verdict: Option<VerdictRecord> = changes.get(&keys::verdict(topic, &site))?;
    changes.put_raw(keys::claim(topic, &site), Vec::new());
    known.phase = Phase::Taken;
    changes.put(keys::site(topic, &site), &known);
    Ok(TakenSite {
        entrance,
        standing: known.standing(),
        rank: known.last_rank.0,
        deferrals: known.deferrals,
        is_judged: verdict.is_some(),
        site,
    })
}

/// Puts a site that was handed out back into the border, at the rank it had there. A
/// deferred one was due, so it need not wait any longer.
fn put_back(
    changes: Changing<'_, '_>,
    topic: TopicId,
    site: &SiteId,
    known: &mut SiteRecord,
    totals: &mut TopicTotals,
) {
    let host = site.as_str().as_bytes().to_vec();
    let (value, tie) = known.last_rank;
    let rank = Rank { value, tie };
    known.phase = Phase::border(rank);
    changes.put_raw(keys::border(topic, rank, known.discovered), host);
    changes.put(keys::site(topic, site), known);
    totals.border += 1;
    totals.taken -= 1;
}

/// Sites that were handed out when the process ended go back to where they were.
fn put_back_all(changes: Changing<'_, '_>) -> Result<(), StoreError> {
    let claims: Vec<Entry> = changes.scan(b"k").collect::<Result<_, _>>()?;
    for (key, _) in claims {
        let damaged = || StoreError::damaged(&key, "it names no site");
        let topic = key.get(1..3).and_then(|bytes| bytes.try_into().ok());
        let topic = TopicId(u16::from_be_bytes(topic.ok_or_else(damaged)?));
        let site = keys::last_host(&key).ok_or_else(damaged)?;
        let mut record = topic_record(changes, topic)?;
        let mut known = site_record(changes, topic, &site)?;
        put_back(changes, topic, &site, &mut known, &mut record.totals);
        changes.put(keys::topic_record(topic), &record);
        changes.remove(key);
    }
    Ok(())
}

/// Sorts a whole border anew.
fn rank_all(
    changes: Changing<'_, '_>,
    topic: TopicId,
    ranking: &dyn Ranking,
) -> Result<(), StoreError> {
    let border: Vec<Entry> = changes
        .scan(&keys::of_topic(b'r', topic))
        .collect::<Result<_, _>>()?;
    for (key, host) in border {
        let site = keys::host_of(&host);
        let site = site.ok_or_else(|| StoreError::damaged(&key, "it names no host"))?;
        let mut known = site_record(changes, topic, &site)?;
        let rank = ranking.rank(&known.standing());
        changes.remove(key);
        known.phase = Phase::border(rank);
        changes.put_raw(keys::border(topic, rank, known.discovered), host);
        changes.put(keys::site(topic, &site), &known);
    }
    Ok(())
}

fn store(changes: &Transaction<'_, dyn Engine>) -> Result<StoreRecord, StoreError> {
    let record = changes.get(keys::STORE)?;
    record.ok_or_else(|| StoreError::damaged(keys::STORE, "it is missing"))
}

fn topic_record(
    changes: &Transaction<'_, dyn Engine>,
    topic: TopicId,
) -> Result<TopicRecord, StoreError> {
    let key = keys::topic_record(topic);
    let record = changes.get(&key)?;
    record.ok_or_else(|| StoreError::damaged(&key, "it is missing"))
}

fn site_record(
    changes: &Transaction<'_, dyn Engine>,
    topic: TopicId,
    site: &SiteId,
) -> Result<SiteRecord, StoreError> {
    let key = keys::site(topic, site);
    let record = changes.get(&key)?;
    record.ok_or_else(|| StoreError::damaged(&key, "it is missing"))
}

/// Looks at the best of each border: a damaged store shows it there soon.
fn check_border(changes: &Transaction<'_, dyn Engine>) -> Result<(), StoreError> {
    const LOOKED_AT: usize = 1_000;
    for entry in changes.scan(b"r").take(LOOKED_AT) {
        let (key, host) = entry?;
        let damaged = |reason: &str| StoreError::damaged(&key, reason);
        let topic = key.get(1..3).and_then(|bytes| bytes.try_into().ok());
        let topic = TopicId(u16::from_be_bytes(
            topic.ok_or_else(|| damaged("it is short"))?,
        ));
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

// === reading ===

pub(super) fn topics(engine: &dyn Engine) -> Result<Vec<(String, TopicId)>, StoreError> {
    let topics = engine.scan(keys::TOPICS, None).map(|entry| {
        let (key, value) = entry?;
        let TopicNumber(number) = records::decode(&key, &value)?;
        let name = String::from_utf8_lossy(&key[1..]).into_owned();
        Ok((name, TopicId(number)))
    });
    topics.collect()
}

pub(super) fn totals(engine: &dyn Engine, topic: TopicId) -> Result<TopicTotals, StoreError> {
    let record = topic_record(&Transaction::new(engine), topic)?;
    Ok(record.totals)
}

pub(super) fn full_addresses(
    engine: &dyn Engine,
    topic: TopicId,
    sites: u32,
) -> Result<Vec<IpAddr>, StoreError> {
    let mut full = Vec::new();
    for entry in engine.scan(&keys::of_topic(b'i', topic), None) {
        let (key, value) = entry?;
        if records::decode::<u32>(&key, &value)? >= sites {
            let address = keys::address_of(&key);
            full.push(address.ok_or_else(|| StoreError::damaged(&key, "it names no address"))?);
        }
    }
    Ok(full)
}

pub(super) fn next_due(
    engine: &dyn Engine,
    topic: TopicId,
) -> Result<Option<SystemTime>, StoreError> {
    let prefix = keys::of_topic(b'd', topic);
    let first = engine.scan(&prefix, None).next().transpose()?;
    let seconds = first.and_then(|(key, _)| keys::due_seconds(&key));
    Ok(seconds.map(records::time))
}

pub(super) fn judged(
    engine: &dyn Engine,
    topic: TopicId,
    after: u64,
    most: usize,
) -> Result<Vec<JudgedSite>, StoreError> {
    let reader = Transaction::new(engine);
    let mut found = Vec::new();
    let after = keys::sequence(after);
    for entry in engine.scan(keys::SEQUENCE, Some(&after)) {
        if found.len() >= most {
            break;
        }
        let (key, value) = entry?;
        let (of, site) = verdict_place(&key, &value)?;
        if of != topic {
            continue;
        }
        let record: Option<VerdictRecord> = reader.get(&keys::verdict(topic, &site))?;
        let record = record.ok_or_else(|| StoreError::damaged(&key, NO_VERDICT))?;
        found.push(record.into_judged(site));
    }
    Ok(found)
}

const NO_VERDICT: &str = "it leads to no verdict";

/// Whose verdict has a number.
fn verdict_place(key: &[u8], value: &[u8]) -> Result<(TopicId, SiteId), StoreError> {
    let (number, host): (u16, String) = records::decode(key, value)?;
    let site = host.parse();
    let site = site.map_err(|_| StoreError::damaged(key, NO_VERDICT))?;
    Ok((TopicId(number), site))
}

pub(super) fn site(
    engine: &dyn Engine,
    topic: TopicId,
    site: &SiteId,
) -> Result<Option<SiteFile>, StoreError> {
    let reader = Transaction::new(engine);
    let Some(known) = reader.get::<SiteRecord>(&keys::site(topic, site))? else {
        return Ok(None);
    };
    let mut recommended_by = Vec::new();
    for entry in reader.scan(&keys::edges_to(topic, site)) {
        let (key, value) = entry?;
        let edge: EdgeRecord = records::decode(&key, &value)?;
        let source = keys::edge_source(&key);
        recommended_by.push(Recommendation {
            source: source.ok_or_else(|| StoreError::damaged(&key, "it names no source"))?,
            global: edge.global.into(),
            local: edge.local.into(),
            pages: edge.pages,
        });
    }
    let judged: Option<VerdictRecord> = reader.get(&keys::verdict(topic, site))?;
    let evidence: Option<EvidenceRecord> = reader.get(&keys::evidence(topic, site))?;
    let damaged = |_| StoreError::damaged(&keys::site(topic, site), "its entrance is no address");
    Ok(Some(SiteFile {
        site: site.clone(),
        entrance: known.entrance.parse().map_err(damaged)?,
        standing: known.standing(),
        recommended_by,
        judged: judged.map(|record| record.into_judged(site.clone())),
        evidence: evidence.map(EvidenceRecord::into_evidence),
    }))
}
