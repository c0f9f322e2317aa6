//! Queries of readers and editors, which bypass the commit thread.
//!
//! Invariant: what has a number is shown only when it is durable, that is, when its number is
//! at most the last that was synced. What has none, and is read while a commit is under way, is
//! read again after it (`CommitQueue::read_between_commits`).

use crate::web::{SiteId, Verdict};

use super::curve::CurveRecord;
use super::engine::{Engine, Entry};
use super::keys::{self, kind};
use super::list_changes::{BlockRecord, DecisionRecord, ListingRecord};
use super::records::{self, EdgeRecord, EvidenceRecord, Phase, SiteRecord, VerdictRecord};
use super::topic_queries::verdict_place;
use super::transaction::Transaction;
use super::versions;
use super::{
    Block, CurvePoint, Decision, FeedEntry, FoundSite, JudgedSite, Recommendation, SiteBatch,
    SiteCursor, SiteDetail, SiteQuery, SortOrder, StoreError, TopicId, VerdictKind,
};

/// Verdicts scanned for one batch, however few of them match: no single query may keep the disk busy.
const SCANNED: usize = 5_000;

/// Maximum number of edges read for a site; popular ones have millions.
const EDGES_READ: usize = 10_000;

/// A view of the store up to a durable number.
pub(super) struct Reader<'e> {
    engine: &'e dyn Engine,
    records: Transaction<'e, dyn Engine>,
    durable: u64,
}

// === impl Reader ===

impl<'e> Reader<'e> {
    /// Sees numbers up to `durable`.
    pub(super) fn new(engine: &'e dyn Engine, durable: u64) -> Self {
        Self {
            engine,
            records: Transaction::new(engine),
            durable,
        }
    }

    pub(super) fn feed(
        &self,
        topic: TopicId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<FeedEntry>, StoreError> {
        let prefix = keys::of_topic(kind::LIST_CHANGE, topic);
        let after = keys::list_change(topic, after);
        let mut feed = Vec::new();
        for entry in self.engine.scan(&prefix, Some(&after)) {
            let (key, host) = entry?;
            let number = keys::list_number(&key);
            if feed.len() >= limit || number.is_none_or(|number| number > self.durable) {
                break;
            }
            let site = keys::host_of(&host);
            let site = site.ok_or_else(|| StoreError::damaged(&key, "it names no host"))?;
            let listing: Option<ListingRecord> = self.records.get(&keys::listing(topic, &site))?;
            // A site changed meanwhile comes later, under its new number.
            let Some(listing) = listing.filter(|listing| Some(listing.seq) == number) else {
                continue;
            };
            let verdict: Option<VerdictRecord> = self.records.get(&keys::verdict(topic, &site))?;
            let verdict = verdict.ok_or_else(|| StoreError::damaged(&key, "it has no verdict"))?;
            feed.push(FeedEntry {
                seq: listing.seq,
                change: listing.change,
                reason: listing.reason,
                at: records::time(listing.at),
                decision: self.decision(topic, &site)?,
                judged: verdict.into_judged(site),
            });
        }
        Ok(feed)
    }

    pub(super) fn find(&self, query: &SiteQuery) -> Result<SiteBatch, StoreError> {
        match &query.host_prefix {
            Some(prefix) => self.find_by_host(query, prefix),
            None => self.find_by_number(query),
        }
    }

    fn find_by_number(&self, query: &SiteQuery) -> Result<SiteBatch, StoreError> {
        let place = match query.after {
            Some(SiteCursor::Number(number)) => Some(keys::sequence(number)),
            _ => None,
        };
        let entries = match query.order {
            SortOrder::Oldest => self.engine.scan(keys::SEQUENCE, place.as_deref()),
            SortOrder::Newest => self.engine.scan_back(keys::SEQUENCE, place.as_deref()),
        };
        let mut portion = Portion::of(query);
        for entry in entries {
            let (key, value) = entry?;
            let number = keys::sequence_number(&key);
            let number = number.ok_or_else(|| StoreError::damaged(&key, "it is no number"))?;
            if number > self.durable {
                match query.order {
                    SortOrder::Oldest => break,
                    SortOrder::Newest => continue,
                }
            }
            if portion.is_full() {
                return Ok(portion.broken_off());
            }
            portion.look_at(SiteCursor::Number(number));
            let (topic, site) = verdict_place(&key, &value)?;
            if query.topic.is_some_and(|wanted| wanted != topic) {
                continue;
            }
            let verdict: Option<VerdictRecord> = self.records.get(&keys::verdict(topic, &site))?;
            // A verdict renewed meanwhile is found under its new number.
            let verdict = verdict.filter(|verdict| verdict.seq() == number);
            if let Some(verdict) = verdict {
                portion.add_if_wanted(self, topic, verdict.into_judged(site))?;
            }
        }
        Ok(portion.ended())
    }

    fn find_by_host(&self, query: &SiteQuery, prefix: &str) -> Result<SiteBatch, StoreError> {
        let (first, after) = match &query.after {
            Some(SiteCursor::Host(topic, site)) => (*topic, Some(keys::verdict(*topic, site))),
            _ => (TopicId(0), None),
        };
        let mut topics: Vec<TopicId> = match query.topic {
            Some(topic) => vec![topic],
            None => super::topic_queries::topics(self.engine)?
                .into_iter()
                .map(|(_, topic)| topic)
                .collect(),
        };
        topics.sort_unstable();
        let mut portion = Portion::of(query);
        for topic in topics.into_iter().filter(|topic| *topic >= first) {
            let mut start = keys::of_topic(kind::VERDICT, topic);
            start.extend(prefix.as_bytes());
            let after = after.as_deref().filter(|_| topic == first);
            for entry in self.engine.scan(&start, after) {
                let (key, value) = entry?;
                if portion.is_full() {
                    return Ok(portion.broken_off());
                }
                let verdict: VerdictRecord = versions::decode(&key, &value)?;
                let site = keys::last_host(&key);
                let site = site.ok_or_else(|| StoreError::damaged(&key, "it names no host"))?;
                portion.look_at(SiteCursor::Host(topic, site.clone()));
                if verdict.seq() <= self.durable {
                    portion.add_if_wanted(self, topic, verdict.into_judged(site))?;
                }
            }
        }
        Ok(portion.ended())
    }

    /// Everything known about a site.
    pub(super) fn site(
        &self,
        topic: TopicId,
        site: &SiteId,
    ) -> Result<Option<SiteDetail>, StoreError> {
        let reader = &self.records;
        let Some(known) = reader.get::<SiteRecord>(&keys::site(topic, site))? else {
            return Ok(None);
        };
        let mut recommended_by = Vec::new();
        for entry in reader.scan(&keys::edges_to(topic, site)).take(EDGES_READ) {
            let (key, value) = entry?;
            let edge: EdgeRecord = versions::decode(&key, &value)?;
            let source = keys::edge_source(&key);
            recommended_by.push(Recommendation {
                source: source.ok_or_else(|| StoreError::damaged(&key, "it names no source"))?,
                global: edge.global.into(),
                local: edge.local.into(),
                pages: edge.pages,
            });
        }
        let judged: Option<VerdictRecord> = reader.get(&keys::verdict(topic, site))?;
        let judged = judged.filter(|verdict| verdict.seq() <= self.durable);
        let evidence: Option<EvidenceRecord> = reader.get(&keys::evidence(topic, site))?;
        let evidence = evidence.filter(|_| judged.is_some());
        let key = keys::site(topic, site);
        let damaged = |_| StoreError::damaged(&key, "its entrance is no address");
        Ok(Some(SiteDetail {
            site: site.clone(),
            entrance: known.entrance.parse().map_err(damaged)?,
            standing: known.standing(),
            recommended_by,
            judged: judged.map(|record| record.into_judged(site.clone())),
            recheck: match known.phase {
                Phase::Recheck(due) => Some(records::time(due)),
                _ => None,
            },
            evidence: evidence.map(EvidenceRecord::into_evidence),
            decision: self.decision(topic, site)?,
            is_listed: self.is_listed(topic, site)?,
        }))
    }

    pub(super) fn queue(
        &self,
        topic: TopicId,
        limit: usize,
    ) -> Result<Vec<(FoundSite, f64)>, StoreError> {
        let mut queue = Vec::new();
        for entry in self
            .engine
            .scan(&keys::of_topic(kind::QUESTION, topic), None)
        {
            let (key, _) = entry?;
            if queue.len() >= limit {
                break;
            }
            let site = keys::question_host(&key);
            let site = site.ok_or_else(|| StoreError::damaged(&key, "it names no host"))?;
            let verdict: Option<VerdictRecord> = self.records.get(&keys::verdict(topic, &site))?;
            let verdict = verdict.filter(|verdict| verdict.seq() <= self.durable);
            if let Some((verdict, usefulness)) =
                verdict.and_then(|verdict| Some((verdict.clone(), verdict.usefulness()?)))
            {
                let found = FoundSite {
                    topic,
                    decision: None,
                    is_listed: self.is_listed(topic, &site)?,
                    judged: verdict.into_judged(site),
                };
                queue.push((found, usefulness));
            }
        }
        Ok(queue)
    }

    pub(super) fn decisions(
        &self,
        topic: TopicId,
        after: Option<&SiteId>,
        limit: usize,
    ) -> Result<Vec<(SiteId, Decision)>, StoreError> {
        let after = after.map(|site| keys::decision(topic, site));
        let prefix = keys::of_topic(kind::DECISION, topic);
        let entries = self.engine.scan(&prefix, after.as_deref());
        let mut decisions = Vec::new();
        for entry in entries {
            let (key, value) = entry?;
            if decisions.len() >= limit {
                break;
            }
            let site = keys::last_host(&key);
            let site = site.ok_or_else(|| StoreError::damaged(&key, "it names no host"))?;
            let record: DecisionRecord = versions::decode(&key, &value)?;
            if record.seq <= self.durable {
                decisions.push((site, record.into_decision()));
            }
        }
        Ok(decisions)
    }

    pub(super) fn blocks(
        &self,
        after: Option<&SiteId>,
        limit: usize,
    ) -> Result<Vec<(SiteId, Block)>, StoreError> {
        let after = after.map(keys::block);
        let entries = self.engine.scan(keys::BLOCKS, after.as_deref());
        let blocks = entries.take(limit).map(|entry: Result<Entry, _>| {
            let (key, value) = entry?;
            let site = keys::blocked_host(&key);
            let site = site.ok_or_else(|| StoreError::damaged(&key, "it names no host"))?;
            let record: BlockRecord = versions::decode(&key, &value)?;
            Ok((site, record.into_block()))
        });
        blocks.collect()
    }

    pub(super) fn block_of(&self, site: &SiteId) -> Result<Option<Block>, StoreError> {
        let record: Option<BlockRecord> = self.records.get(&keys::block(site))?;
        Ok(record.map(BlockRecord::into_block))
    }

    pub(super) fn identity(&self) -> Result<String, StoreError> {
        let identity: Option<u64> = self.records.get(keys::IDENTITY)?;
        Ok(format!("{:016x}", identity.unwrap_or_default()))
    }

    pub(super) fn steering(&self) -> Result<u64, StoreError> {
        let steered: Option<u64> = self.records.get(keys::STEERING)?;
        Ok(steered.unwrap_or_default())
    }

    pub(super) fn is_paused(&self, topic: TopicId) -> Result<bool, StoreError> {
        Ok(self.records.get_raw(&keys::pause(topic))?.is_some())
    }

    pub(super) fn curve(&self, topic: TopicId) -> Result<Vec<CurvePoint>, StoreError> {
        let curve: Option<CurveRecord> = self.records.get(&keys::curve(topic))?;
        Ok(curve.unwrap_or_default().into_points())
    }

    /// What an editor has decided about a site.
    pub(super) fn decision(
        &self,
        topic: TopicId,
        site: &SiteId,
    ) -> Result<Option<Decision>, StoreError> {
        let record: Option<DecisionRecord> = self.records.get(&keys::decision(topic, site))?;
        let record = record.filter(|record| record.seq <= self.durable);
        Ok(record.map(DecisionRecord::into_decision))
    }

    /// Whether a site is on the list.
    pub(super) fn is_listed(&self, topic: TopicId, site: &SiteId) -> Result<bool, StoreError> {
        let record: Option<ListingRecord> = self.records.get(&keys::listing(topic, site))?;
        let record = record.filter(|record| record.seq <= self.durable);
        Ok(record.is_some_and(|record| record.change.is_listed()))
    }
}

/// A batch of sites being collected.
struct Portion<'q> {
    query: &'q SiteQuery,
    sites: Vec<FoundSite>,
    looked_at: usize,
    last: Option<SiteCursor>,
}

// === impl Portion ===

impl<'q> Portion<'q> {
    fn of(query: &'q SiteQuery) -> Self {
        Self {
            query,
            sites: Vec::new(),
            looked_at: 0,
            last: None,
        }
    }

    fn is_full(&self) -> bool {
        self.sites.len() >= self.query.limit || self.looked_at >= SCANNED
    }

    fn look_at(&mut self, place: SiteCursor) {
        self.looked_at += 1;
        self.last = Some(place);
    }

    /// Adds a site if it matches. Conditions that need another read come last.
    fn add_if_wanted(
        &mut self,
        reader: &Reader<'_>,
        topic: TopicId,
        judged: JudgedSite,
    ) -> Result<(), StoreError> {
        if !self.query.wants(&judged) {
            return Ok(());
        }
        let decision = reader.decision(topic, &judged.site)?;
        let opinion = decision.as_ref().map(|decision| decision.opinion);
        if self.query.decision.is_none_or(|wanted| wanted == opinion) {
            self.sites.push(FoundSite {
                topic,
                is_listed: reader.is_listed(topic, &judged.site)?,
                judged,
                decision,
            });
        }
        Ok(())
    }

    /// The batch, with a cursor: there may be more.
    fn broken_off(self) -> SiteBatch {
        SiteBatch {
            sites: self.sites,
            next: self.last,
        }
    }

    /// The last batch.
    fn ended(self) -> SiteBatch {
        SiteBatch {
            sites: self.sites,
            next: None,
        }
    }
}

// === impl SiteQuery ===

impl SiteQuery {
    /// Whether a verdict matches.
    fn wants(&self, judged: &JudgedSite) -> bool {
        let kind = match judged.verdict {
            Verdict::Relevant => VerdictKind::Relevant,
            Verdict::Irrelevant => VerdictKind::Irrelevant,
            Verdict::Undecided(_) => VerdictKind::Undecided,
        };
        let (lowest, highest) = self.confidence;
        let (since, until) = self.judged;
        self.verdict.is_none_or(|wanted| wanted == kind)
            && (lowest..=highest).contains(&judged.confidence)
            && since.is_none_or(|since| judged.judged_at >= since)
            && until.is_none_or(|until| judged.judged_at <= until)
    }
}
