//! The store over one ordered map of bytes, on disk or in memory.
//!
//! Writes go through the commit queue (`group_commit`); reads run on blocking threads.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{Semaphore, mpsc};

use crate::config::StoreSettings;
use crate::telemetry::{Metrics, clock};
use crate::web::{PageUrl, SiteId};

use super::engine::{DiskEngine, Engine, MemoryEngine};
use super::group_commit::{CommitQueue, StoreCommand};
use super::site_queries::Reader;
use super::sled_engine::SledEngine;
use super::store_directory::StoreDirectory;
use super::{
    Block, Claim, CrawlStore, CurvePoint, Decision, DumpLine, DumpStore, Edit, EditStore, Edited,
    FeedEntry, FoundSite, Heads, JudgedSite, NewSite, NextDue, Progress, ReadStore, Recorded,
    SiteBatch, SiteDetail, SiteQuery, StoreError, TakeRequest, Taken, TopicId, TopicOpening,
    TopicTotals, VisitOutcome,
};
use super::{dump, metrics, topic_queries};

/// Concurrent queries for lists and site details. Crawls read on the same blocking threads and must not
/// queue behind a thousand of them.
const BROWSERS: usize = 16;

/// Lines of a dump that are buffered ahead of the consumer.
const LINES_AHEAD: usize = 256;

/// The engine of stores on disk.
pub(super) type DefaultEngine = SledEngine;

/// A store over one ordered map of bytes. Clones share it.
#[derive(Clone)]
pub struct KeyValueStore {
    engine: Arc<dyn Engine>,
    commits: CommitQueue,
    /// Permits for queries by [`KeyValueStore::browse`].
    browsers: Arc<Semaphore>,
}

// === impl KeyValueStore ===

impl KeyValueStore {
    /// Opens the store in a directory, or creates one there.
    pub fn open(directory: &Path, settings: &StoreSettings) -> Result<Self, StoreError> {
        Self::over_disk(DefaultEngine::open(directory, settings)?, settings)
    }

    /// Whether there is a store in a directory.
    #[must_use]
    pub(crate) fn is_in(directory: &Path) -> bool {
        StoreDirectory::is_store(directory)
    }

    /// A store without a disk.
    pub fn in_memory() -> Result<Self, StoreError> {
        Self::in_memory_with(&StoreSettings::default())
    }

    /// A store without a disk, which expires its records by these settings.
    pub fn in_memory_with(settings: &StoreSettings) -> Result<Self, StoreError> {
        Self::over(Arc::new(MemoryEngine::default()), settings)
    }

    pub(super) fn over_disk<E: DiskEngine>(
        engine: E,
        settings: &StoreSettings,
    ) -> Result<Self, StoreError> {
        let engine = Arc::new(engine);
        let store = Self::over(Arc::clone(&engine) as Arc<dyn Engine>, settings)?;
        // By now the first records are synced.
        engine.mark_ready()?;
        Ok(store)
    }

    pub(super) fn over(
        engine: Arc<dyn Engine>,
        settings: &StoreSettings,
    ) -> Result<Self, StoreError> {
        let commits = CommitQueue::start(Arc::clone(&engine), settings.clone())?;
        Ok(Self {
            engine,
            commits,
            browsers: Arc::new(Semaphore::new(BROWSERS)),
        })
    }

    /// Compares the clock with the newest verdict. More than a day before it, or more than five years
    /// after, is an error: certificates would be refused, evidence deleted, and rechecks deferred by
    /// years.
    pub(crate) async fn check_clock(&self) -> Result<(), StoreError> {
        let newest = self.read(topic_queries::newest_verdict).await?;
        let now = clock::now();
        match newest.filter(|newest| !clock::is_believable(now, *newest)) {
            Some(newest) => Err(StoreError::WrongClock { now, newest }),
            None => Ok(()),
        }
    }

    /// Accepts the clock although verdicts contradict it: times later than now are corrected.
    pub(crate) async fn accept_clock(&self) -> Result<(), StoreError> {
        self.commits.submit(StoreCommand::AcceptClock).await
    }

    /// Bytes on the disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.engine.disk_bytes()
    }

    /// Registers the metrics of the store.
    ///
    /// # Panics
    /// If a store is registered already.
    pub fn register_metrics(&self, metrics: &Metrics) {
        metrics::add_size(metrics, &self.engine);
        self.commits.measure_commits(metrics::add_commits(metrics));
    }

    /// Runs a query of a reader or an editor, which sees only what is durable.
    async fn browse<T: Send + 'static>(
        &self,
        read: impl Fn(Reader<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // The semaphore is never closed. The blocking task holds the permit, because the future that
        // waits for it may be dropped.
        let permit = Arc::clone(&self.browsers).acquire_owned().await;
        let commits = self.commits.clone();
        self.read(move |engine| {
            let _permit = permit;
            commits.read_between_commits(|| read(Reader::new(engine, commits.durable())))
        })
        .await
    }

    /// Runs a query on a blocking thread: the disk may be slow.
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
            .submit(|reply| StoreCommand::OpenTopic(topic, reply))
            .await
    }

    async fn enter(&self, topic: TopicId, sites: Vec<NewSite>) -> Result<usize, StoreError> {
        self.commits
            .submit(|reply| StoreCommand::Enter(topic, sites, reply))
            .await
    }

    async fn take(&self, topic: TopicId, taking: TakeRequest) -> Result<Taken, StoreError> {
        self.commits
            .submit(|reply| StoreCommand::Take(topic, taking, reply))
            .await
    }

    async fn renew(&self, claims: Vec<Claim>) -> Result<Vec<Claim>, StoreError> {
        self.commits
            .submit(|reply| StoreCommand::Renew(claims, reply))
            .await
    }

    async fn record(&self, outcomes: Vec<VisitOutcome>) -> Result<Vec<Recorded>, StoreError> {
        self.commits
            .submit(|reply| StoreCommand::Record(outcomes, reply))
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
        limit: usize,
    ) -> Result<Vec<JudgedSite>, StoreError> {
        let durable = self.commits.durable();
        self.read(move |engine| topic_queries::judged(engine, topic, after, limit, durable))
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
        limit: usize,
    ) -> Result<Vec<FeedEntry>, StoreError> {
        self.browse(move |reader| reader.feed(topic, after, limit))
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
        limit: usize,
    ) -> Result<Vec<(FoundSite, f64)>, StoreError> {
        self.browse(move |reader| reader.queue(topic, limit)).await
    }

    async fn decisions(
        &self,
        topic: TopicId,
        after: Option<SiteId>,
        limit: usize,
    ) -> Result<Vec<(SiteId, Decision)>, StoreError> {
        self.browse(move |reader| reader.decisions(topic, after.as_ref(), limit))
            .await
    }

    async fn blocks(
        &self,
        after: Option<SiteId>,
        limit: usize,
    ) -> Result<Vec<(SiteId, Block)>, StoreError> {
        self.browse(move |reader| reader.blocks(after.as_ref(), limit))
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
        let mut heads = self.commits.heads();
        let is_over = |heads: &Heads| is_new(heads) || self.commits.failure().is_some();
        // The sender lives as long as the commit queue.
        let has_changed = heads
            .wait_for(is_over)
            .await
            .is_ok_and(|heads| is_new(&heads));
        match self.commits.failure() {
            Some(error) if !has_changed => Err(error.clone()),
            _ => Ok(()),
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
            .submit(|reply| StoreCommand::Edit(edit, reply))
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
            .submit(|reply| StoreCommand::Load(lines, reply))
            .await
    }
}

impl fmt::Debug for KeyValueStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyValueStore").finish_non_exhaustive()
    }
}
