//! The life of one topic: crawling, draining, idle for a reason, and crawling again.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::timeout;

use crate::external::{
    CrawlMetrics, EndReason, ExternalCrawler, Goals, Seats, TopicCrawl, ordering,
};
use crate::fetch::Fetcher;
use crate::internal::InternalCrawler;
use crate::parse::ParseLimits;
use crate::store::{SiteStore, StoreError, TopicTotals};
use crate::telemetry::{Heartbeat, Heartbeats};
use crate::verdicts::ShownVerdict;

use super::board::{Board, IdleReason, TopicState};
use super::{Orders, PlannedTopic};

/// An idle topic comes round so often.
const GLANCE: Duration = Duration::from_secs(5);

/// Crawls for one topic as long as the service runs.
pub(super) struct TopicLoop {
    pub(super) name: String,
    pub(super) store: Arc<dyn SiteStore>,
    pub(super) fetcher: Arc<dyn Fetcher>,
    pub(super) seats: Arc<Seats>,
    pub(super) metrics: CrawlMetrics,
    pub(super) board: Arc<Board>,
    pub(super) heartbeats: Heartbeats,
}

// === impl TopicLoop ===

impl TopicLoop {
    pub(super) async fn run(self, mut orders: watch::Receiver<Orders>) -> Result<(), StoreError> {
        loop {
            let now = orders.borrow_and_update().clone();
            if now.is_stopping {
                return Ok(());
            }
            let Some(topic) = now.plan.topics.iter().find(|topic| topic.name == self.name) else {
                return Ok(());
            };
            if now.is_disk_low {
                let totals = self.totals().await?;
                self.show(TopicState::Idle(IdleReason::LowDisk), totals.as_ref());
                self.rest(&mut orders, None).await;
                continue;
            }
            let (reason, totals) = self.crawl(topic, &now, orders.clone()).await?;
            let idle = match reason {
                EndReason::Stopped => continue,
                EndReason::WantedReached => IdleReason::WantedReached,
                EndReason::BorderEmpty { .. } => IdleReason::BorderEmpty,
                EndReason::PprsBad => IdleReason::PprsBad,
                EndReason::PagesSpent => IdleReason::PagesSpent,
            };
            tracing::info!(topic = self.name, reason = idle.name(), "idle");
            self.show(TopicState::Idle(idle), Some(&totals));
            let due = match idle {
                IdleReason::WantedReached | IdleReason::BorderEmpty => self.next_due().await?,
                _ => None,
            };
            self.rest(&mut orders, due).await;
        }
    }

    async fn crawl(
        &self,
        topic: &PlannedTopic,
        now: &Orders,
        mut orders: watch::Receiver<Orders>,
    ) -> Result<(EndReason, TopicTotals), StoreError> {
        let settings = &now.plan.settings;
        let limits = ParseLimits {
            max_links: settings.parse.max_links,
            max_url_bytes: settings.parse.max_url_bytes,
        };
        let crawl = TopicCrawl {
            name: self.name.clone(),
            crawler: InternalCrawler::new(
                Arc::clone(&self.fetcher),
                Arc::clone(&topic.model),
                settings.internal,
                limits,
            ),
            ordering: ordering(&settings.external),
            goals: Goals {
                wanted: topic.wanted,
                max_pages: None,
            },
            metrics: self.metrics.clone(),
        };
        let store = Arc::clone(&self.store);
        let external = ExternalCrawler::open(store, crawl, &self.seats, settings).await?;
        external.start_at(topic.starts.clone()).await?;
        let external = external.with_heartbeat(self.heartbeat());
        let totals = self.totals().await?;
        self.show(TopicState::Crawling, totals.as_ref());
        let other_orders = async {
            let other = |orders: &Orders| {
                orders.edition != now.edition || orders.is_stopping || orders.is_disk_low
            };
            // The service outlives its loops.
            let _ = orders.wait_for(other).await;
            self.show(TopicState::Draining, None);
        };
        let tell = |verdict: &ShownVerdict, totals: &TopicTotals| {
            tracing::info!(
                topic = self.name,
                site = %verdict.site,
                verdict = verdict.verdict.name(),
                confidence = verdict.confidence.get(),
                pages = verdict.pages,
                seq = verdict.seq,
                "judged"
            );
            self.board.count(&self.name, totals);
        };
        external.crawl(other_orders, tell).await
    }

    /// Beats until there are other orders, or a site is due.
    async fn rest(&self, orders: &mut watch::Receiver<Orders>, due: Option<SystemTime>) {
        let heartbeat = self.heartbeat();
        loop {
            heartbeat.beat();
            if due.is_some_and(|due| due <= SystemTime::now()) {
                return;
            }
            if timeout(GLANCE, orders.changed()).await.is_ok() {
                return;
            }
        }
    }

    fn heartbeat(&self) -> Heartbeat {
        self.heartbeats.of_loop(&format!("topic {}", self.name))
    }

    async fn next_due(&self) -> Result<Option<SystemTime>, StoreError> {
        for (name, topic) in self.store.topics().await? {
            if name == self.name {
                return self.store.next_due(topic).await;
            }
        }
        Ok(None)
    }

    /// How the topic stands; none before it was first opened.
    async fn totals(&self) -> Result<Option<TopicTotals>, StoreError> {
        for (name, topic) in self.store.topics().await? {
            if name == self.name {
                return self.store.totals(topic).await.map(Some);
            }
        }
        Ok(None)
    }

    fn show(&self, state: TopicState, totals: Option<&TopicTotals>) {
        if let Some(totals) = totals {
            self.board.count(&self.name, totals);
        }
        self.board.set(&self.name, state);
    }
}
