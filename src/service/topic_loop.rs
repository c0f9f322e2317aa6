//! The loop of one topic: crawling, draining, idle for a reason, and crawling again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::external::{CrawlMetrics, CrawlerSlots, EndReason, ExternalCrawler};
use crate::fetch::Fetcher;
use crate::store::{CrawlStore, JudgedSite, REJUDGED, StoreError, TopicId, TopicTotals};
use crate::telemetry::{Heartbeat, clock};

use super::status_board::{IdleReason, StatusBoard, TopicState};
use super::{DaemonState, PlannedTopic};

/// How often an idle topic beats and checks whether there is work again.
const IDLE_INTERVAL: Duration = Duration::from_secs(5);

/// Crawls for one topic as long as the service runs.
pub(super) struct TopicLoop {
    pub(super) name: String,
    pub(super) store: Arc<dyn CrawlStore>,
    pub(super) fetcher: Arc<dyn Fetcher>,
    pub(super) slots: Arc<CrawlerSlots>,
    pub(super) metrics: CrawlMetrics,
    pub(super) board: Arc<StatusBoard>,
    /// One for the whole life of the loop: a loop that hangs in the store is stuck, too.
    pub(super) heartbeat: Arc<Heartbeat>,
}

// === impl TopicLoop ===

impl TopicLoop {
    pub(super) async fn run(
        self,
        mut state: watch::Receiver<DaemonState>,
    ) -> Result<(), StoreError> {
        loop {
            self.heartbeat.beat();
            let now = state.borrow_and_update().clone();
            if now.is_stopping {
                return Ok(());
            }
            let mut topics = now.plan.topics.iter();
            let Some(topic) = topics.find(|topic| topic.crawl.name() == self.name) else {
                return Ok(());
            };
            if let Some(reason) = now.idle_reason(&self.name) {
                // An idle topic still takes new start sites and list settings, which is a write to
                // the store: not while the disk is full.
                if !now.is_disk_low {
                    self.open(topic).await?;
                }
                let totals = self.totals().await?;
                self.show(TopicState::Idle(reason), totals.as_ref());
                self.wait_idle(&mut state, reason).await?;
                continue;
            }
            let (reason, totals) = self.crawl(topic, &now, state.clone()).await?;
            // `PagesSpent` cannot happen: the daemon sets no limit on pages.
            if matches!(reason, EndReason::Stopped | EndReason::PagesSpent) {
                continue;
            }
            let idle = IdleReason::Ended(reason);
            tracing::info!(topic = self.name, reason = idle.name(), "idle");
            self.show(TopicState::Idle(idle), Some(&totals));
            self.wait_idle(&mut state, idle).await?;
        }
    }

    /// Opens the topic in the store with the current plan.
    async fn open(&self, topic: &PlannedTopic) -> Result<ExternalCrawler, StoreError> {
        let (store, fetcher) = (Arc::clone(&self.store), Arc::clone(&self.fetcher));
        let crawl = topic.crawl.clone();
        let opening = crawl.open(store, fetcher, &self.metrics, &self.slots);
        let external = opening.await?;
        external.start_at(topic.starts.clone()).await?;
        Ok(external)
    }

    async fn crawl(
        &self,
        topic: &PlannedTopic,
        now: &DaemonState,
        mut state: watch::Receiver<DaemonState>,
    ) -> Result<(EndReason, TopicTotals), StoreError> {
        let external = self.open(topic).await?;
        let (board, name) = (Arc::clone(&self.board), self.name.clone());
        let external = external
            .with_heartbeat(Arc::clone(&self.heartbeat))
            .with_trouble_listener(Box::new(move |trouble| board.set_trouble(&name, trouble)));
        let totals = self.totals().await?;
        self.show(TopicState::Crawling, totals.as_ref());
        let stop = async {
            let has_changed = |state: &DaemonState| {
                state.edition != now.edition
                    || state.is_stopping
                    || state.idle_reason(&self.name).is_some()
            };
            // The sender is not dropped before the loops end.
            let _ = state.wait_for(has_changed).await;
            self.show(TopicState::Draining, None);
        };
        let on_verdict = |verdict: &JudgedSite, totals: &TopicTotals| {
            tracing::info!(
                topic = self.name,
                site = %verdict.site,
                verdict = verdict.verdict.name(),
                confidence = verdict.confidence,
                pages = verdict.pages,
                seq = verdict.seq,
                "judged"
            );
            self.board.count(&self.name, totals);
        };
        let ended = external.crawl(stop, on_verdict).await;
        self.board.set_trouble(&self.name, None);
        ended
    }

    /// Beats until the state changes, or there is work to do.
    async fn wait_idle(
        &self,
        state: &mut watch::Receiver<DaemonState>,
        idle: IdleReason,
    ) -> Result<(), StoreError> {
        loop {
            self.heartbeat.beat();
            if timeout(IDLE_INTERVAL, state.changed()).await.is_ok() || self.is_due(idle).await? {
                return Ok(());
            }
        }
    }

    /// Whether a crawl that ended for this reason has work again.
    async fn is_due(&self, idle: IdleReason) -> Result<bool, StoreError> {
        let Some(topic) = self.topic_id().await? else {
            return Ok(false);
        };
        let due = self.store.next_due(topic).await?;
        let now = clock::now();
        let is_recheck_due =
            due.recheck.is_some_and(|due| due <= now) || due.deferred == Some(REJUDGED);
        Ok(match idle {
            IdleReason::Ended(EndReason::BorderEmpty) => {
                is_recheck_due || due.deferred.is_some_and(|due| due <= now)
            }
            IdleReason::Ended(_) => is_recheck_due,
            IdleReason::LowDisk | IdleReason::Paused | IdleReason::NotInSettings => false,
        })
    }

    async fn topic_id(&self) -> Result<Option<TopicId>, StoreError> {
        let topics = self.store.topics().await?;
        let own = topics.into_iter().find(|(name, _)| *name == self.name);
        Ok(own.map(|(_, topic)| topic))
    }

    /// None before the topic was first opened.
    async fn totals(&self) -> Result<Option<TopicTotals>, StoreError> {
        match self.topic_id().await? {
            Some(topic) => self.store.totals(topic).await.map(Some),
            None => Ok(None),
        }
    }

    fn show(&self, state: TopicState, totals: Option<&TopicTotals>) {
        if let Some(totals) = totals {
            self.board.count(&self.name, totals);
        }
        self.board.set(&self.name, state);
    }
}
