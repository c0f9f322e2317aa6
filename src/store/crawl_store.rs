//! The interface for crawlers: topics, claims on sites to visit, and reports.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::config::{HostLists, OldVerdicts};
use crate::web::{ModelFingerprint, PageUrl, Platforms, SiteId, SiteReport, Verdict};

use super::{EditStore, JudgedSite, ReadStore, StoreError, TopicId};

/// What crawlers need of a store. Calls are few and batched, and nothing returned borrows from it.
#[async_trait]
pub trait CrawlStore: ReadStore {
    /// Opens a topic, with the border sorted by its ranking.
    async fn open_topic(&self, topic: TopicOpening) -> Result<TopicId, StoreError>;

    /// Adds sites to the border; returns how many of them were new.
    async fn enter(&self, topic: TopicId, sites: Vec<NewSite>) -> Result<usize, StoreError>;

    /// Claims sites to visit: deferred ones that are due, some rechecks, then the best of the border.
    /// Slots that are left go to more rechecks. Durable when it returns.
    ///
    /// Where several processes share a store, claims of the others that have expired, by the clock of the
    /// store, are put back first. Claims of the caller's own process are not, expired or not: that it
    /// calls shows that it lives. So in a store of one process none expires.
    ///
    /// A site during whose visits processes have died is handed out alone: after all others are
    /// reported on, and before any other.
    async fn take(&self, topic: TopicId, taking: TakeRequest) -> Result<Taken, StoreError>;

    /// Extends claims by [`CLAIM_TERM`], counted from now by the clock of the store. Those that have
    /// ended are not returned: the sites must not be visited any longer, and reports under them will be
    /// stale.
    async fn renew(&self, claims: Vec<Claim>) -> Result<Vec<Claim>, StoreError>;

    /// Records the outcomes of visits; one result for each. Durable when it returns.
    async fn record(&self, outcomes: Vec<VisitOutcome>) -> Result<Vec<Recorded>, StoreError>;

    /// Addresses at which at least `sites` sites were judged, in the form of
    /// [`shared_address`](crate::web::shared_address).
    async fn full_addresses(&self, topic: TopicId, sites: u32) -> Result<Vec<IpAddr>, StoreError>;

    /// When the next sites that were visited before are due.
    async fn next_due(&self, topic: TopicId) -> Result<NextDue, StoreError>;
}

/// What a process needs that crawls, serves and edits.
pub trait Store: CrawlStore + EditStore {}

impl<S: CrawlStore + EditStore> Store for S {}

/// The due time of sites whose verdicts come from a model that the topic no longer has: before any
/// deferred site.
pub(crate) const REJUDGED: SystemTime = SystemTime::UNIX_EPOCH;

/// How long a claim holds without renewal, against other processes.
pub const CLAIM_TERM: Duration = Duration::from_mins(10);

/// How a topic is opened.
#[derive(Clone)]
pub struct TopicOpening {
    /// Name of the topic.
    pub name: String,
    /// Sorts its border.
    pub ranking: Arc<dyn Ranking>,
    /// Limits of its border.
    pub caps: BorderCaps,
    /// The model that judges its sites.
    pub model: ModelFingerprint,
    /// What happens to verdicts of other models.
    pub old_verdicts: OldVerdicts,
    /// After how long relevant sites are rechecked, if ever; counted from the last verdict, also for
    /// sites that were judged under another setting.
    pub recheck_after: Option<Duration>,
    /// The window, in pages, over which pages per relevant site are measured.
    pub watched_pages: u64,
    /// Hosts that the operator allows or blocks on its list.
    pub hosts: Arc<HostLists>,
    /// What counts as one registrable domain.
    pub platforms: Arc<Platforms>,
}

/// Limits of a border.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BorderCaps {
    /// Maximum number of sites of one registrable domain.
    pub(crate) sites_per_domain: u32,
    /// Maximum number of sites that enter because one registrable domain recommends them; 0: no
    /// limit.
    pub(crate) sites_per_source: u32,
    /// Maximum length; 0: no limit. Beyond it the lowest ranked are dropped, but no start site.
    pub(crate) border_sites: u64,
}

/// How many sites to claim, and of which kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakeRequest {
    /// Maximum number of sites.
    pub limit: usize,
    /// Maximum number of rechecks among them, while there are others to visit.
    pub rechecks: usize,
    /// Whether sites of the border are wanted, or only those that were visited before.
    pub is_border_open: bool,
    /// The current time, by which sites are due.
    pub now: SystemTime,
}

/// When sites that were visited before are due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextDue {
    /// The first deferred site; [`REJUDGED`] if its model has changed.
    pub deferred: Option<SystemTime>,
    /// The first recheck.
    pub recheck: Option<SystemTime>,
}

/// How border sites are ranked. A border that was sorted by another ranking is re-sorted when its
/// topic is opened.
pub trait Ranking: Send + Sync {
    /// Identifies the ranking across restarts.
    fn name(&self) -> &str;

    /// The place of a site in the border.
    fn rank(&self, standing: &Standing) -> Rank;

    /// How the weights of a site's edges are averaged. If that changes, the averages are recomputed
    /// when the topic is opened.
    fn averaging(&self) -> Averaging {
        Averaging::ByDomain
    }
}

/// How the weights of a site's edges are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Averaging {
    /// First within each registrable domain, then over the domains, so that many hosts of one
    /// owner count once.
    ByDomain,
    /// Over all edges equally (paper 4.2).
    ByEdge,
}

/// The place of a site in the border: higher values first, then larger ties, then the first
/// discovered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rank {
    /// From 0 to 1; start sites have 1 and the largest tie. Compared first.
    pub value: f64,
    /// Compared if values are equal.
    pub tie: u32,
}

/// What edges say about a site, visited or not: the input of a [`Ranking`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Its number in the order of discovery.
    pub discovered: u64,
    /// Whether it is a start site.
    pub is_start: bool,
    /// Number of sites that recommend it.
    pub edges: u32,
    /// Number of their registrable domains; with [`Averaging::ByEdge`] equal to `edges`.
    pub domains: u32,
    /// The mean global weight of its edges, by its [`Averaging`].
    pub global: f64,
    /// The same for local weights.
    pub local: f64,
}

/// A site to add to the border.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSite {
    /// Where to enter it.
    pub entrance: PageUrl,
    /// Whether it is a start site.
    pub is_start: bool,
}

/// The sites that `take` has claimed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Taken {
    /// Best first.
    pub sites: Vec<ClaimedSite>,
    /// Whether there may be more, which wait because a site must be visited alone.
    pub(crate) is_held_back: bool,
}

/// The right to visit a site and to report on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The topic it is visited for.
    pub topic: TopicId,
    /// The site to visit.
    pub site: SiteId,
    /// The process that holds it.
    pub owner: Owner,
    /// A fencing token: grows over all claims of a store, so that a later claim on the same site has
    /// a larger one.
    pub number: u64,
}

/// Identifies a process that uses the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(pub(super) u64);

/// A claimed site.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedSite {
    /// The right to visit it.
    pub claim: Claim,
    /// Where to enter it.
    pub entrance: PageUrl,
    /// Its edges when it was claimed.
    pub standing: Standing,
    /// The rank by which it was chosen.
    pub rank: f64,
    /// How often its visits were deferred.
    pub(crate) deferrals: u16,
    /// Its verdict, if it has one that the visit is to renew.
    pub(crate) verdict: Option<Verdict>,
    /// The model behind that verdict.
    pub(crate) model: Option<ModelFingerprint>,
    /// Whether an edit has blocked its host, so that it must not be visited.
    pub is_blocked: bool,
    /// Whether processes died repeatedly while visiting it, so that it must not be visited.
    pub is_poison: bool,
}

/// The outcome of a visit to a claimed site.
#[derive(Debug, Clone)]
pub struct VisitOutcome {
    /// The claim under which it was visited.
    pub claim: Claim,
    /// What the visit found.
    pub report: SiteReport,
    /// The sites that it recommends.
    pub edges: Vec<NewEdge>,
    /// The rank by which it was chosen.
    pub rank: f64,
    /// What happens to the site next.
    pub resolution: Resolution,
    /// Whether the evidence is worth keeping.
    pub keep_evidence: bool,
}

/// What happens to a site after a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// The verdict of the report is recorded.
    Judged,
    /// Visit again, not before that time; counts towards its deferrals.
    Deferred(SystemTime),
    /// Visit again, not before that time; does not count, since the site did not cause it.
    PutOff(SystemTime),
    /// The visit was interrupted: back to where the site was.
    PutBack,
    /// The previous verdict is kept.
    Kept,
}

/// The result of recording an outcome.
#[derive(Debug, Clone, PartialEq)]
pub enum Recorded {
    /// It was recorded.
    Done {
        /// The verdict, unless it only confirms the previous one.
        judged: Option<Box<JudgedSite>>,
        /// Number of sites judged at the address of this one.
        sites_at_address: u32,
    },
    /// Its claim has ended, or never existed: nothing was recorded.
    Stale,
}

/// A recommendation of another site.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEdge {
    /// Where to enter the recommended site.
    pub entrance: PageUrl,
    /// The confidence of the site that recommends it (paper 4.2).
    pub global: f64,
    /// The mean confidence of its pages that hold a link there (paper 4.2).
    pub local: f64,
    /// How many pages those are.
    pub pages: u32,
}

// === impl BorderCaps ===

impl BorderCaps {
    /// No limit but the one per registrable domain.
    #[must_use]
    pub fn per_domain(sites: u32) -> Self {
        Self {
            sites_per_domain: sites,
            sites_per_source: 0,
            border_sites: 0,
        }
    }
}

// === impl TakeRequest ===

impl TakeRequest {
    /// At most `limit` sites, of any kind.
    #[must_use]
    pub fn any(limit: usize, now: SystemTime) -> Self {
        Self {
            limit,
            rechecks: limit,
            is_border_open: true,
            now,
        }
    }
}

// === impl Taken ===

impl Taken {
    /// No site now; try again later.
    pub(super) fn held_back() -> Self {
        Self {
            sites: Vec::new(),
            is_held_back: true,
        }
    }
}

// === impl ClaimedSite ===

impl ClaimedSite {
    /// The site claimed.
    #[must_use]
    pub fn site(&self) -> &SiteId {
        &self.claim.site
    }
}

// === impl Recorded ===

impl Recorded {
    /// The number of the verdict, if it is new.
    #[must_use]
    pub fn seq(&self) -> Option<u64> {
        match self {
            Self::Done { judged, .. } => judged.as_ref().map(|judged| judged.seq),
            Self::Stale => None,
        }
    }
}
