//! What survives a crash: the graph of sites, the border, verdicts and their evidence.
//!
//! There are three doors: [`CrawlStore`] for crawlers, [`ReadStore`] for readers, who can take nothing,
//! and [`EditStore`] for editors and operators; and [`DumpStore`] for moving to another store. Behind
//! all of them stands one ordered map of bytes, on disk or in memory ([`KeyValueStore`]).
//!
//! # The life of a site in a topic
//!
//! | state | how it comes there | how it leaves |
//! |---|---|---|
//! | unknown | | a start site, or an edge of a judged site, makes it *known*: into the border |
//! | border | ranked by its edges, anew with each of them | `take`: claimed; or dropped by a cap |
//! | claimed | handed out by `take` to one visitor, for a time that can be renewed | `record`; or back to where it was when the process is gone, or the time is over |
//! | judged | `record` with a verdict, which gets a number | a new model: due again |
//! | recheck | judged relevant, to be looked at again after `recheck_after` | due by time: claimed |
//! | due | deferred by the site, by trouble of our own, or for a new model | due by time: claimed |
//! | dropped | the lowest ranked leave a border that is too long | unknown: it may be found again |
//!
//! `records::Phase` says which; each state but *judged* has an index in `keys`.
//!
//! # Promises
//!
//! Every store keeps these, and `tests/behaviour/stores.rs` holds it to them:
//!
//! - A report is recorded whole or not at all: verdict, evidence, edges, border, sequence.
//! - When `record` returns, what it recorded survives loss of power. So whatever is shown
//!   to a user is asked of the store, or shown after `record` has returned.
//! - A site is handed out to one visitor at a time, under a claim with a number that only grows, and
//!   `take` is durable when it returns. A claim ends with the report, with the process that holds it,
//!   or with its time. A report under a claim that has ended is answered [`Recorded::Stale`] and
//!   changes nothing.
//! - Verdicts are numbered in the order in which they were recorded, over all topics. One that
//!   changes, or is renewed by another model, gets a new number, and its old one is given up.
//!   One that is confirmed keeps its number: confidence, evidence and time are new.
//! - A verdict can be read when it is durable, and not before.
//! - A store that was begun is never begun anew: if its records are gone, it is refused.

mod claims;
mod curve;
mod directory;
mod dump;
mod edges;
mod edits;
mod engine;
mod group_commit;
mod import;
mod keys;
mod list_changes;
mod metrics;
#[cfg(test)]
mod power_loss;
mod progress;
mod rechecks;
mod records;
mod site_queries;
mod sled_engine;
mod state;
mod suspects;
mod topic_queries;
mod transaction;
mod upkeep;
mod verdicts;
mod versions;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::{Semaphore, mpsc};

use crate::config::{HostLists, OldVerdicts, StoreSettings};
use crate::telemetry::{Metrics, clock};
use crate::web::{
    ModelFingerprint, PageKind, PageUrl, Platforms, SiteId, SiteReport, StepOutcome, StopReason,
    Verdict,
};
pub(crate) use curve::CurvePoint;
pub(crate) use directory::{Block, ChangeReason, Decision, FoundSite, Heads, SiteBatch};
pub use directory::{
    DumpStore, Edit, EditStore, Edited, FeedEntry, ListChange, Opinion, ReadStore, SiteCursor,
    SiteQuery, SortOrder, VerdictKind,
};
pub use dump::DumpLine;
use engine::{Engine, MemoryEngine};
use group_commit::{Command, CommitQueue};
pub(crate) use import::Import;
pub(crate) use progress::Progress;
pub use progress::Tally;
use site_queries::Reader;
use sled_engine::SledEngine;

/// What crawlers need of a store. Verbs are few and batched, and hand nothing out that refers back.
#[async_trait]
pub trait CrawlStore: ReadStore {
    /// Makes a topic ready, with the border in the order of `ranking`.
    async fn open_topic(&self, topic: TopicOpening) -> Result<TopicId, StoreError>;

    /// Takes sites up into the border; says how many of them were not known.
    async fn enter(&self, topic: TopicId, sites: Vec<NewSite>) -> Result<usize, StoreError>;

    /// Hands out sites to be visited: those that were deferred and are due, some that are to
    /// be looked at again, then the best of the border. Slots that are left go to more of those
    /// that are to be looked at again. Durable when it returns.
    ///
    /// A site under which processes have died is handed out alone: not before all others are
    /// reported on, and none other until it is.
    async fn take(&self, topic: TopicId, taking: TakeRequest) -> Result<Taken, StoreError>;

    /// Gives claims more time, counted from `now`. Those that have ended are not returned, and reports
    /// under them will be stale.
    async fn renew(&self, claims: Vec<Claim>, now: SystemTime) -> Result<Vec<Claim>, StoreError>;

    /// Records what became of sites that were handed out. Durable when it returns. For each
    /// outcome, what came of it.
    async fn record(&self, outcomes: Vec<VisitOutcome>) -> Result<Vec<Recorded>, StoreError>;

    /// Addresses at which so many sites were judged, or more, as
    /// [`shared_address`](crate::web::shared_address) has them.
    async fn full_addresses(&self, topic: TopicId, sites: u32) -> Result<Vec<IpAddr>, StoreError>;

    /// When the next sites that were visited before are due.
    async fn next_due(&self, topic: TopicId) -> Result<NextDue, StoreError>;
}

/// Everything that a process needs that crawls, serves and edits.
pub trait Store: CrawlStore + EditStore {}

impl<S: CrawlStore + EditStore> Store for S {}

/// The time at which sites are due whose verdicts come from a model that the topic no longer
/// has: before any that asked to be visited later.
pub(crate) const REJUDGED: SystemTime = SystemTime::UNIX_EPOCH;

/// A claim ends after so long, unless it is renewed.
pub const CLAIM_TERM: Duration = Duration::from_mins(10);

/// The number of a topic in its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicId(u16);

/// An order to make a topic ready.
#[derive(Clone)]
pub struct TopicOpening {
    /// The topic.
    pub name: String,
    /// How its border is sorted.
    pub ranking: Arc<dyn Ranking>,
    /// How many sites may enter.
    pub caps: BorderCaps,
    /// The model that judges its sites.
    pub model: ModelFingerprint,
    /// What becomes of verdicts of other models.
    pub old_verdicts: OldVerdicts,
    /// After how long relevant sites are looked at again, if ever. It is counted from the last
    /// verdict, also for sites that were judged when this was another time.
    pub recheck_after: Option<Duration>,
    /// The pages over which it is watched whether its sites become too dear.
    pub watched_pages: u64,
    /// Who may be on its list.
    pub hosts: Arc<HostLists>,
    /// What counts as one registrable domain.
    pub platforms: Arc<Platforms>,
}

/// What bounds the border.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BorderCaps {
    /// How many sites of one registrable domain may enter.
    pub(crate) sites_per_domain: u32,
    /// How many sites may enter because sites of one registrable domain recommend them; 0: any
    /// number.
    pub(crate) sites_per_source: u32,
    /// How many sites may wait; 0: any number. With more, the lowest ranked leave, but no start
    /// site.
    pub(crate) border_sites: u64,
}

/// Which sites are to be handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakeRequest {
    /// So many at most.
    pub most: usize,
    /// So many of them to be looked at again, while there are others.
    pub rechecks: usize,
    /// Whether the border is open: else only sites that were visited before are handed out.
    pub is_border_open: bool,
    /// Who is due by now is due.
    pub now: SystemTime,
}

/// When sites that were visited before are due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextDue {
    /// The first of those that were deferred. [`REJUDGED`] if it is one whose model has changed.
    pub deferred: Option<SystemTime>,
    /// The first of those that are to be looked at again.
    pub recheck: Option<SystemTime>,
}

/// How border sites are ranked. A border that was sorted by another ranking is sorted anew
/// when its topic is opened.
pub trait Ranking: Send + Sync {
    /// Tells rankings apart.
    fn name(&self) -> &str;

    /// The place of a site in the border.
    fn rank(&self, standing: &Standing) -> Rank;

    /// How the weights of a site's edges become one. Edges that were averaged otherwise are
    /// averaged anew when their topic is opened.
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
    /// Over all edges alike (paper 4.2).
    ByEdge,
}

/// The place of a site in the border: the higher the value the earlier; of equals the
/// larger tie, then the first discovered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rank {
    /// What is compared first.
    pub value: f64,
    /// What is compared then.
    pub tie: u32,
}

/// What is known about a site that was not visited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Its number in the order of discovery.
    pub discovered: u64,
    /// Whether the crawl begins with it.
    pub is_start: bool,
    /// The sites that recommend it.
    pub edges: u32,
    /// Their registrable domains; with [`Averaging::ByEdge`] as many as there are edges.
    pub domains: u32,
    /// The mean global weight of its edges, as [`Averaging`] says.
    pub global: f64,
    /// The same for local weights.
    pub local: f64,
}

/// A site to be taken up.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSite {
    /// Where to enter it.
    pub entrance: PageUrl,
    /// Whether the crawl begins with it.
    pub is_start: bool,
}

/// What was handed out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Taken {
    /// The sites, in order.
    pub sites: Vec<ClaimedSite>,
    /// Whether there may be more, which wait because a site is visited alone, or is to be.
    pub(crate) is_held_back: bool,
}

/// The right to visit a site and to report on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The topic that it is visited for.
    pub topic: TopicId,
    /// The site.
    pub site: SiteId,
    /// The process that holds it.
    pub owner: Owner,
    /// A number that only grows, over all claims of a store (a fencing token): a site that is handed
    /// out again has a larger one.
    pub number: u64,
    /// When it ends, unless it is renewed.
    pub expires: SystemTime,
}

/// Tells processes apart that use one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(u64);

/// A site that was handed out.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedSite {
    /// The right to visit it.
    pub claim: Claim,
    /// Where to enter it.
    pub entrance: PageUrl,
    /// What was known about it.
    pub standing: Standing,
    /// The rank by which it was chosen.
    pub rank: f64,
    /// How often its visits were deferred.
    pub(crate) deferrals: u16,
    /// Its verdict, if it has one that the visit is to renew.
    pub(crate) verdict: Option<Verdict>,
    /// The model that made it.
    pub(crate) model: Option<ModelFingerprint>,
    /// Whether an edit has blocked its host, so that it must not be visited.
    pub is_blocked: bool,
    /// Whether processes have died under it again and again, so that it must not be visited.
    pub(crate) is_poison: bool,
}

/// What became of a site that was handed out.
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
    /// What is to be done with it.
    pub resolution: Resolution,
    /// Whether the evidence is worth keeping.
    pub keep_evidence: bool,
}

/// What is to be done with a site after a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// The verdict stands.
    Judged,
    /// It is to be visited again, not before that time, and that counts towards its deferrals.
    Deferred(SystemTime),
    /// It is to be visited again, not before that time, through no fault of its own.
    PutOff(SystemTime),
    /// The visit was broken off: back to where it was.
    PutBack,
    /// The verdict that it has stands.
    Kept,
}

/// What came of an outcome.
#[derive(Debug, Clone, PartialEq)]
pub enum Recorded {
    /// It was recorded.
    Done {
        /// The verdict, if it is new: not one that says what was said before.
        judged: Option<Box<JudgedSite>>,
        /// How many sites at the address of this one were judged.
        sites_at_address: u32,
    },
    /// Its claim has ended, or was never given: nothing was recorded.
    Stale,
}

/// A recommendation of another site.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEdge {
    /// Where to enter the site that is recommended.
    pub entrance: PageUrl,
    /// The confidence of the site that recommends it (paper 4.2).
    pub global: f64,
    /// The mean confidence of its pages that hold a link there (paper 4.2).
    pub local: f64,
    /// How many pages those are.
    pub pages: u32,
}

/// How a topic stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicTotals {
    /// Relevant sites that the crawl found, start sites not among them.
    pub finds: u64,
    /// Relevant sites, start sites among them.
    pub relevant: u64,
    /// Irrelevant sites.
    pub irrelevant: u64,
    /// Sites about which nothing could be said.
    pub undecided: u64,
    /// Pages that were downloaded, in deferred visits too.
    pub pages: u64,
    /// Sites that wait to be visited.
    pub border: u64,
    /// Sites that are to be visited again at a certain time.
    pub deferred: u64,
    /// Sites that were handed out.
    pub taken: u64,
}

/// A verdict, as it was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedSite {
    /// Its number, over all topics.
    pub seq: u64,
    /// The site.
    pub site: SiteId,
    /// The judgement.
    pub verdict: Verdict,
    /// The site confidence.
    pub confidence: f64,
    /// The pages it cost.
    pub pages: u32,
    /// The rank by which it was chosen.
    pub(crate) rank: f64,
    /// Whether the crawl began with it.
    pub(crate) is_start: bool,
    /// When it was recorded, or last confirmed.
    pub judged_at: SystemTime,
    /// The model that judged.
    pub(crate) model: ModelFingerprint,
    /// Why reading ended.
    pub(crate) stop_reason: StopReason,
    /// The page of another site that it only leads to, if so.
    pub alias_of: Option<PageUrl>,
    /// The address that answered.
    pub(crate) address: Option<IpAddr>,
    /// Whether the homepage asks not to be indexed, and lists are to say so.
    pub noindex: bool,
}

/// Everything known about a site.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteDetail {
    /// The site.
    pub(crate) site: SiteId,
    /// Where to enter it.
    pub(crate) entrance: PageUrl,
    /// How it is recommended.
    pub standing: Standing,
    /// Who recommends it.
    pub recommended_by: Vec<Recommendation>,
    /// The verdict, if there is one.
    pub judged: Option<JudgedSite>,
    /// When it is to be looked at again, if it is relevant.
    pub(crate) recheck: Option<SystemTime>,
    /// The evidence for it, if it is kept.
    pub evidence: Option<Evidence>,
    /// What an editor has decided about it.
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
    /// Whom the site recommends, with the local weight of each edge; not all if they are
    /// many.
    pub(crate) recommends: Vec<(String, f64)>,
}

/// One request and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct EvidenceStep {
    /// The page.
    pub url: String,
    /// How far from the entrance it lies.
    pub(crate) kind: PageKind,
    /// What came of it. Of a redirect with a long address the site is kept.
    pub outcome: StepOutcome,
    /// The page confidence.
    pub(crate) confidence: f64,
    /// The site confidence after it.
    pub(crate) site_confidence: f64,
    /// Words that spoke for the topic.
    pub(crate) for_target: Vec<(String, f32)>,
    /// Words that spoke against it.
    pub(crate) against: Vec<(String, f32)>,
}

/// Why a store cannot be used.
#[derive(Debug, Clone, Error)]
pub enum StoreError {
    /// Another process has it open.
    #[error("the store in {} is in use by another process; stop that one first", .0.display())]
    Locked(PathBuf),
    /// The directory holds something else.
    #[error("{} holds files, but no store of sitescout; give another directory", .0.display())]
    Foreign(PathBuf),
    /// It was to be made from a dump, which never came to its end.
    #[error("an import into {} was broken off; delete that directory and import again", .0.display())]
    Unfinished(PathBuf),
    /// A later version of sitescout wrote it.
    #[error("the store was written by a later version of sitescout; use that one")]
    Newer,
    /// A record cannot be what was written.
    #[error(
        "the store is damaged: record {key}: {reason}; restore a backup, or start anew in another \
         directory"
    )]
    Damaged {
        /// The key, as text as far as it is one.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It was begun once, and is empty.
    #[error(
        "the store in {} was begun, but its records are gone; restore a backup, or start anew in \
         another directory",
        .0.display()
    )]
    Lost(PathBuf),
    /// The disk is full, or a quota or a limit for files is reached.
    #[error(
        "the disk is full: no room for the store in {}; nothing recorded is lost, so make room and \
         start again",
        .0.display()
    )]
    Full(PathBuf),
    /// The files may be read at most.
    #[error(
        "the store in {} cannot be written to, and so not be opened; allow writing there, or use a \
         copy in another directory",
        .0.display()
    )]
    ReadOnly(PathBuf),
    /// The files cannot be read or written.
    #[error("cannot use the store in {}: {cause}", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        cause: Arc<io::Error>,
    },
    /// The clock cannot be right, by what the verdicts say.
    #[error(
        "the clock of this machine says {}, but the newest verdict in the store is of {}; set the \
         clock right, or if it is right start with --accept-clock",
        date(*.now), date(*.newest)
    )]
    WrongClock {
        /// What the clock says.
        now: SystemTime,
        /// When the newest verdict was recorded.
        newest: SystemTime,
    },
    /// An earlier failure ended all writing.
    #[error("the store was closed after a failure: {0}")]
    Closed(String),
}

/// So many readers of lists and files of sites are served at once. Crawls read beside them, on the
/// same threads, and must not wait for a thousand of them.
const BROWSERS: usize = 16;

/// So many lines of a dump are read ahead.
const LINES_AHEAD: usize = 256;

/// A store over one ordered map of bytes. Clones share it.
#[derive(Clone)]
pub struct KeyValueStore {
    engine: Arc<dyn Engine>,
    commits: CommitQueue,
    /// Places for readers of lists and files of sites, however many there are.
    browsers: Arc<Semaphore>,
}

// === impl KeyValueStore ===

impl KeyValueStore {
    /// Opens the store in a directory, or starts one there.
    pub fn open(directory: &Path, settings: &StoreSettings) -> Result<Self, StoreError> {
        Self::over_disk(SledEngine::open(directory, settings)?, settings)
    }

    /// Whether there is a store in a directory.
    #[must_use]
    pub(crate) fn is_in(directory: &Path) -> bool {
        SledEngine::is_in(directory)
    }

    /// A store that is gone when it is dropped.
    pub fn in_memory() -> Result<Self, StoreError> {
        Self::over(Arc::new(MemoryEngine::default()), &StoreSettings::default())
    }

    fn over_disk(engine: SledEngine, settings: &StoreSettings) -> Result<Self, StoreError> {
        let engine = Arc::new(engine);
        let store = Self::over(Arc::clone(&engine) as Arc<dyn Engine>, settings)?;
        // The first records are there and were synced.
        engine.mark_ready()?;
        Ok(store)
    }

    fn over(engine: Arc<dyn Engine>, settings: &StoreSettings) -> Result<Self, StoreError> {
        let commits = CommitQueue::start(Arc::clone(&engine), settings.clone())?;
        Ok(Self {
            engine,
            commits,
            browsers: Arc::new(Semaphore::new(BROWSERS)),
        })
    }

    /// Compares the clock of this machine with the newest verdict. One that is more than a day
    /// before it, or more than five years after, is an error: certificates would be refused,
    /// evidence forgotten, and rechecks put off by years.
    pub(crate) async fn check_clock(&self) -> Result<(), StoreError> {
        let newest = self.read(topic_queries::newest_verdict).await?;
        let now = clock::now();
        match newest.filter(|newest| !clock::is_believable(now, *newest)) {
            Some(newest) => Err(StoreError::WrongClock { now, newest }),
            None => Ok(()),
        }
    }

    /// Believes the clock of this machine, whatever the verdicts say: times that are later than now
    /// are set right.
    pub(crate) async fn accept_clock(&self) -> Result<(), StoreError> {
        self.commits.submit(Command::AcceptClock).await
    }

    /// Bytes on the disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.engine.disk_bytes()
    }

    /// Adds the figures of this room to those of the process.
    ///
    /// # Panics
    /// If the metrics have those of a store already.
    pub fn register_metrics(&self, metrics: &Metrics) {
        metrics::add_size(metrics, &self.engine);
        self.commits.measure_commits(metrics::add_commits(metrics));
    }

    /// Reads what is durable by now.
    async fn browse<T: Send + 'static>(
        &self,
        read: impl Fn(Reader<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // It is never closed. The place is held by whoever reads, not by whoever waits for it and
        // may have gone away.
        let place = Arc::clone(&self.browsers).acquire_owned().await;
        let commits = self.commits.clone();
        self.read(move |engine| {
            let _place = place;
            commits.read_between_commits(|| read(Reader::new(engine, commits.durable())))
        })
        .await
    }

    /// Reads off the runtime: the disk may take its time.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Engine) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let engine = Arc::clone(&self.engine);
        match tokio::task::spawn_blocking(clock::inherited(move || read(&*engine))).await {
            Ok(result) => result,
            Err(failure) if failure.is_panic() => std::panic::resume_unwind(failure.into_panic()),
            Err(_) => Err(StoreError::Closed(
                "the runtime is shutting down".to_owned(),
            )),
        }
    }
}

#[async_trait]
impl CrawlStore for KeyValueStore {
    async fn open_topic(&self, topic: TopicOpening) -> Result<TopicId, StoreError> {
        self.commits
            .submit(|reply| Command::OpenTopic(topic, reply))
            .await
    }

    async fn enter(&self, topic: TopicId, sites: Vec<NewSite>) -> Result<usize, StoreError> {
        self.commits
            .submit(|reply| Command::Enter(topic, sites, reply))
            .await
    }

    async fn take(&self, topic: TopicId, taking: TakeRequest) -> Result<Taken, StoreError> {
        self.commits
            .submit(|reply| Command::Take(topic, taking, reply))
            .await
    }

    async fn renew(&self, claims: Vec<Claim>, now: SystemTime) -> Result<Vec<Claim>, StoreError> {
        self.commits
            .submit(|reply| Command::Renew(claims, now, reply))
            .await
    }

    async fn record(&self, outcomes: Vec<VisitOutcome>) -> Result<Vec<Recorded>, StoreError> {
        self.commits
            .submit(|reply| Command::Record(outcomes, reply))
            .await
    }

    async fn full_addresses(&self, topic: TopicId, sites: u32) -> Result<Vec<IpAddr>, StoreError> {
        self.read(move |engine| topic_queries::full_addresses(engine, topic, sites))
            .await
    }

    async fn next_due(&self, topic: TopicId) -> Result<NextDue, StoreError> {
        self.read(move |engine| topic_queries::next_due(engine, topic))
            .await
    }
}

#[async_trait]
impl ReadStore for KeyValueStore {
    async fn progress(&self, topic: TopicId) -> Result<Progress, StoreError> {
        self.read(move |engine| topic_queries::progress(engine, topic))
            .await
    }

    async fn topics(&self) -> Result<Vec<(String, TopicId)>, StoreError> {
        self.read(topic_queries::topics).await
    }

    async fn totals(&self, topic: TopicId) -> Result<TopicTotals, StoreError> {
        self.read(move |engine| topic_queries::totals(engine, topic))
            .await
    }

    async fn judged(
        &self,
        topic: TopicId,
        after: u64,
        most: usize,
    ) -> Result<Vec<JudgedSite>, StoreError> {
        let durable = self.commits.durable();
        self.read(move |engine| topic_queries::judged(engine, topic, after, most, durable))
            .await
    }

    async fn site(&self, topic: TopicId, site: &SiteId) -> Result<Option<SiteDetail>, StoreError> {
        let site = site.clone();
        self.browse(move |reader| reader.site(topic, &site)).await
    }

    async fn feed(
        &self,
        topic: TopicId,
        after: u64,
        most: usize,
    ) -> Result<Vec<FeedEntry>, StoreError> {
        self.browse(move |reader| reader.feed(topic, after, most))
            .await
    }

    async fn identity(&self) -> Result<String, StoreError> {
        self.browse(|reader| reader.identity()).await
    }

    async fn find(&self, query: SiteQuery) -> Result<SiteBatch, StoreError> {
        self.browse(move |reader| reader.find(&query)).await
    }

    async fn queue(
        &self,
        topic: TopicId,
        most: usize,
    ) -> Result<Vec<(FoundSite, f64)>, StoreError> {
        self.browse(move |reader| reader.queue(topic, most)).await
    }

    async fn decisions(
        &self,
        topic: TopicId,
        after: Option<SiteId>,
        most: usize,
    ) -> Result<Vec<(SiteId, Decision)>, StoreError> {
        self.browse(move |reader| reader.decisions(topic, after.as_ref(), most))
            .await
    }

    async fn blocks(
        &self,
        after: Option<SiteId>,
        most: usize,
    ) -> Result<Vec<(SiteId, Block)>, StoreError> {
        self.browse(move |reader| reader.blocks(after.as_ref(), most))
            .await
    }

    async fn block_of(&self, site: &SiteId) -> Result<Option<Block>, StoreError> {
        let site = site.clone();
        self.browse(move |reader| reader.block_of(&site)).await
    }

    async fn steering(&self) -> Result<u64, StoreError> {
        self.browse(|reader| reader.steering()).await
    }

    async fn is_paused(&self, topic: TopicId) -> Result<bool, StoreError> {
        self.browse(move |reader| reader.is_paused(topic)).await
    }

    async fn curve(&self, topic: TopicId) -> Result<Vec<CurvePoint>, StoreError> {
        self.browse(move |reader| reader.curve(topic)).await
    }

    async fn heads(&self) -> Result<Heads, StoreError> {
        Ok(self.commits.heads().borrow().clone())
    }

    async fn wait_for_change(&self, topic: TopicId, after: u64) -> Result<(), StoreError> {
        let is_new = |heads: &Heads| heads.lists.get(&topic).is_some_and(|last| *last > after);
        match self.commits.heads().wait_for(is_new).await {
            Ok(_) => Ok(()),
            Err(_) => Err(StoreError::Closed("its thread has ended".to_owned())),
        }
    }
}

#[async_trait]
impl EditStore for KeyValueStore {
    async fn add_starts(&self, topic: TopicId, starts: Vec<PageUrl>) -> Result<usize, StoreError> {
        let new = starts.into_iter().map(|entrance| NewSite {
            entrance,
            is_start: true,
        });
        self.enter(topic, new.collect()).await
    }

    async fn edit(&self, edit: Edit) -> Result<Edited, StoreError> {
        self.commits
            .submit(|reply| Command::Edit(edit, reply))
            .await
    }
}

#[async_trait]
impl DumpStore for KeyValueStore {
    fn dump(&self) -> mpsc::Receiver<Result<DumpLine, StoreError>> {
        let (sender, lines) = mpsc::channel(LINES_AHEAD);
        let engine = Arc::clone(&self.engine);
        std::thread::spawn(move || {
            dump::dump(&*engine, |line| sender.blocking_send(line).is_ok());
        });
        lines
    }

    async fn load(&self, lines: Vec<DumpLine>) -> Result<(), StoreError> {
        self.commits
            .submit(|reply| Command::Load(lines, reply))
            .await
    }
}

impl fmt::Debug for KeyValueStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyValueStore").finish_non_exhaustive()
    }
}

// === impl TopicId ===

impl TopicId {
    /// The number by itself.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// The topic of a number, if there is one.
    #[must_use]
    pub(crate) fn from_number(number: u16) -> Self {
        Self(number)
    }
}

// === impl ClaimedSite ===

impl ClaimedSite {
    /// The site.
    #[must_use]
    pub fn site(&self) -> &SiteId {
        &self.claim.site
    }
}

// === impl Recorded ===

impl Recorded {
    /// The number of the verdict, if there is a new one.
    #[must_use]
    pub fn seq(&self) -> Option<u64> {
        match self {
            Self::Done { judged, .. } => judged.as_ref().map(|judged| judged.seq),
            Self::Stale => None,
        }
    }
}

// === impl Taken ===

impl Taken {
    /// Nothing now; perhaps later.
    fn held_back() -> Self {
        Self {
            sites: Vec::new(),
            is_held_back: true,
        }
    }
}

// === impl TakeRequest ===

impl TakeRequest {
    /// Sites of any kind, as many as there are slots.
    #[must_use]
    pub fn any(most: usize, now: SystemTime) -> Self {
        Self {
            most,
            rechecks: most,
            is_border_open: true,
            now,
        }
    }
}

// === impl BorderCaps ===

impl BorderCaps {
    /// None but this one.
    #[must_use]
    pub fn per_domain(sites: u32) -> Self {
        Self {
            sites_per_domain: sites,
            sites_per_source: 0,
            border_sites: 0,
        }
    }
}

// === impl TopicTotals ===

impl TopicTotals {
    /// What all pages brought.
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

// === impl StoreError ===

/// A time for people: to the second, in UTC.
fn date(time: SystemTime) -> humantime::Rfc3339Timestamp {
    humantime::format_rfc3339_seconds(time)
}

impl StoreError {
    fn damaged(key: &[u8], reason: &str) -> Self {
        Self::Damaged {
            key: key.escape_ascii().to_string(),
            reason: reason.to_owned(),
        }
    }
}
