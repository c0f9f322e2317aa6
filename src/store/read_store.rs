//! The interface for readers: totals, verdicts and their evidence, the list of each topic.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::SystemTime;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::web::{ModelFingerprint, PageKind, PageUrl, SiteId, StepOutcome, StopReason, Verdict};

use super::{
    Block, CurvePoint, Decision, FeedEntry, Opinion, Progress, Standing, StoreError, Tally,
};

/// What readers need of a store. Nothing here claims or changes anything.
#[async_trait]
pub trait ReadStore: Send + Sync {
    /// All topics, by name.
    async fn topics(&self) -> Result<Vec<(String, TopicId)>, StoreError>;

    /// The totals of a topic.
    async fn totals(&self, topic: TopicId) -> Result<TopicTotals, StoreError>;

    /// Windowed pprs and harvest rate of a topic's crawl.
    async fn progress(&self, topic: TopicId) -> Result<Progress, StoreError>;

    /// Verdicts of a topic with numbers above `after`, in order, at most `limit`.
    async fn judged(
        &self,
        topic: TopicId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<JudgedSite>, StoreError>;

    /// Everything known about a site.
    async fn site(&self, topic: TopicId, site: &SiteId) -> Result<Option<SiteDetail>, StoreError>;

    /// Changes of a topic's list with numbers above `after`, in order, at most `limit`.
    async fn feed(
        &self,
        topic: TopicId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<FeedEntry>, StoreError>;

    /// The last durable numbers of the sequence and of each list. An engine that several processes
    /// write to reads them from its records; one that is locked may keep a copy.
    async fn heads(&self) -> Result<Heads, StoreError>;

    /// Waits until the list of a topic has a change with a number above `after`. Ends with an error if
    /// the store fails meanwhile.
    async fn wait_for_change(&self, topic: TopicId, after: u64) -> Result<(), StoreError>;

    /// The identity of the store. It differs after an import, so that a client of a feed does not
    /// continue with numbers that mean something else.
    async fn identity(&self) -> Result<String, StoreError>;

    /// Judged sites that match a query, one batch at a time.
    async fn find(&self, query: SiteQuery) -> Result<SiteBatch, StoreError>;

    /// Sites that no editor has decided on, most informative first, with the usefulness of a decision
    /// from 0 to 1.
    async fn queue(
        &self,
        topic: TopicId,
        limit: usize,
    ) -> Result<Vec<(FoundSite, f64)>, StoreError>;

    /// Decisions of editors, ordered by host, after `after`.
    async fn decisions(
        &self,
        topic: TopicId,
        after: Option<SiteId>,
        limit: usize,
    ) -> Result<Vec<(SiteId, Decision)>, StoreError>;

    /// Hosts blocked by an edit, in order, after `after`.
    async fn blocks(
        &self,
        after: Option<SiteId>,
        limit: usize,
    ) -> Result<Vec<(SiteId, Block)>, StoreError>;

    /// All hosts blocked by an edit.
    async fn all_blocks(&self) -> Result<BTreeSet<SiteId>, StoreError> {
        const BATCH: usize = 10_000;
        let mut all = BTreeSet::new();
        loop {
            let batch = self.blocks(all.last().cloned(), BATCH).await?;
            let is_last = batch.len() < BATCH;
            all.extend(batch.into_iter().map(|(site, _)| site));
            if is_last {
                return Ok(all);
            }
        }
    }

    /// The block of one host, if there is one.
    async fn block_of(&self, site: &SiteId) -> Result<Option<Block>, StoreError>;

    /// A counter of changes to pauses and blocks, so that a cached copy can be checked.
    async fn steering(&self) -> Result<u64, StoreError>;

    /// Whether an edit has paused a topic.
    async fn is_paused(&self, topic: TopicId) -> Result<bool, StoreError>;

    /// The course of a crawl since its start.
    async fn curve(&self, topic: TopicId) -> Result<Vec<CurvePoint>, StoreError>;
}

/// The number of a topic in its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicId(pub(super) u16);

/// The totals of a topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicTotals {
    /// Relevant sites that the crawl found, start sites not among them.
    pub finds: u64,
    /// Relevant sites, start sites among them.
    pub relevant: u64,
    /// Irrelevant sites.
    pub irrelevant: u64,
    /// Undecided sites.
    pub undecided: u64,
    /// Pages that were downloaded, in deferred visits too.
    pub pages: u64,
    /// Sites in the border.
    pub border: u64,
    /// Sites due at a certain time, without rechecks.
    pub deferred: u64,
    /// Claimed sites.
    pub taken: u64,
}

/// The last durable numbers of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heads {
    /// The last number of the sequence that is durable.
    pub last_number: u64,
    /// The number of the last durable change of each list.
    pub lists: BTreeMap<TopicId, u64>,
}

/// A verdict, as it was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedSite {
    /// Its number, over all topics.
    pub seq: u64,
    /// The site judged.
    pub site: SiteId,
    /// The verdict.
    pub verdict: Verdict,
    /// The site confidence.
    pub confidence: f64,
    /// Pages downloaded for it.
    pub pages: u32,
    /// The rank by which it was chosen.
    pub(crate) rank: f64,
    /// Whether it is a start site.
    pub(crate) is_start: bool,
    /// When it was recorded, or last confirmed.
    pub judged_at: SystemTime,
    /// The model that judged.
    pub(crate) model: ModelFingerprint,
    /// Why the visit ended.
    pub(crate) stop_reason: StopReason,
    /// The page of another site that it only redirects to, if it is an alias.
    pub alias_of: Option<PageUrl>,
    /// The IP address that responded.
    pub(crate) address: Option<IpAddr>,
    /// Whether the homepage has `noindex`, and lists are to mark that.
    pub noindex: bool,
}

/// A query for judged sites.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteQuery {
    /// Of one topic, or of all.
    pub topic: Option<TopicId>,
    /// With this verdict.
    pub verdict: Option<VerdictKind>,
    /// With this decision, or with none.
    pub decision: Option<Option<Opinion>>,
    /// With a confidence in this range.
    pub confidence: (f64, f64),
    /// Judged not before, and not after.
    pub judged: (Option<SystemTime>, Option<SystemTime>),
    /// With hosts that begin with this. Results are then ordered by host.
    pub host_prefix: Option<String>,
    /// The order of results.
    pub order: SortOrder,
    /// Where the last batch ended.
    pub after: Option<SiteCursor>,
    /// Maximum number of results.
    pub limit: usize,
}

/// A verdict without its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictKind {
    /// Sites of the topic.
    Relevant,
    /// Sites of something else.
    Irrelevant,
    /// Sites that could not be judged.
    Undecided,
}

/// The order in which verdicts are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortOrder {
    /// The first judged first.
    Oldest,
    /// The last judged first.
    Newest,
}

/// Where a batch of sites ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteCursor {
    /// At a number of the sequence.
    Number(u64),
    /// At a host of a topic.
    Host(TopicId, SiteId),
}

/// Some of the sites that match a query.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteBatch {
    /// Possibly empty, although more follow.
    pub sites: Vec<FoundSite>,
    /// Where to continue; none at the end.
    pub next: Option<SiteCursor>,
}

/// A judged site, as one row of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundSite {
    pub(crate) topic: TopicId,
    /// The verdict of the crawl.
    pub judged: JudgedSite,
    /// The decision of an editor, if there is one.
    pub(crate) decision: Option<Decision>,
    /// Whether it is on the list.
    pub(crate) is_listed: bool,
}

/// Everything known about a site.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteDetail {
    pub(crate) site: SiteId,
    /// Where to enter it.
    pub(crate) entrance: PageUrl,
    /// Totals of its edges.
    pub standing: Standing,
    /// Its edges; not all if they are many.
    pub recommended_by: Vec<Recommendation>,
    /// The verdict, if there is one.
    pub judged: Option<JudgedSite>,
    /// When it is rechecked, if it is relevant.
    pub(crate) recheck: Option<SystemTime>,
    /// The evidence for the verdict, if it is kept.
    pub evidence: Option<Evidence>,
    /// The decision of an editor, if there is one.
    pub decision: Option<Decision>,
    /// Whether it is on the list.
    pub is_listed: bool,
}

/// An edge, as it was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// The site that recommends.
    pub source: SiteId,
    /// Its confidence.
    pub(crate) global: f64,
    /// The mean confidence of its pages that hold a link.
    pub(crate) local: f64,
    /// How many pages those are.
    pub(crate) pages: u32,
}

/// The pages behind a verdict, in the order of reading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// One for each request.
    pub steps: Vec<EvidenceStep>,
    /// The sites that it recommends, with the local weight of each edge; not all if they are many.
    pub(crate) recommends: Vec<(String, f64)>,
}

/// One request and its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct EvidenceStep {
    /// The page requested.
    pub url: String,
    /// Its distance from the entrance.
    pub(crate) kind: PageKind,
    /// The outcome. Of a redirect with a long URL only the site is kept.
    pub outcome: StepOutcome,
    /// The page confidence.
    pub(crate) confidence: f64,
    /// The site confidence after it.
    pub(crate) site_confidence: f64,
    /// Words in favour of the topic, with their weights.
    pub(crate) for_target: Vec<(String, f32)>,
    /// Words against it.
    pub(crate) against: Vec<(String, f32)>,
}

// === impl TopicId ===

impl TopicId {
    /// The number in keys and dumps.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// The topic of a number; it need not exist.
    #[must_use]
    pub(crate) fn from_number(number: u16) -> Self {
        Self(number)
    }
}

// === impl TopicTotals ===

impl TopicTotals {
    /// The totals that count for pprs and harvest rate.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally {
            pages: self.pages,
            finds: self.finds,
            relevant: self.relevant,
            irrelevant: self.irrelevant,
        }
    }
}

// === impl SiteQuery ===

impl Default for SiteQuery {
    /// All sites, the first judged first, a hundred at a time.
    fn default() -> Self {
        Self {
            topic: None,
            verdict: None,
            decision: None,
            confidence: (0.0, 1.0),
            judged: (None, None),
            host_prefix: None,
            order: SortOrder::Oldest,
            after: None,
            limit: 100,
        }
    }
}
