//! A crawl for the lab: one crawler, with a store in memory.
//!
//! Invariant: the order of visits depends on the ordering alone and is reproducible.

use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256Plus;
use thiserror::Error;
use tokio::sync::Notify;

use crate::config::{ExternalSettings, NoindexPolicy, Settings, Strategy};
use crate::external::{
    BorderOrdering, CrawlMetrics, CrawlerSlots, Reweighted, TopicCrawl, UnfitModel, edges_of,
    ordering,
};
use crate::fetch::Fetcher;
use crate::store::{CrawlStore, JudgedSite, KeyValueStore, StoreError, TopicTotals};
use crate::telemetry::Metrics;
use crate::web::{PageConfidence, PageUrl, Scheme, SiteConfidence, SiteId, SiteReport};

use super::TopicModels;

/// What every crawl of an experiment has in common.
#[derive(Clone)]
pub(super) struct Walk {
    pub(super) fetcher: Arc<dyn Fetcher>,
    pub(super) models: Arc<TopicModels>,
    pub(super) settings: Settings,
}

/// Why a crawl of the lab failed.
#[derive(Debug, Error)]
pub(crate) enum WalkError {
    /// The store in memory failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ordering needs another page classifier than the model has.
    #[error(transparent)]
    Model(#[from] UnfitModel),
}

/// The true label: whether a site is of the topic.
pub(super) type TruthOf = Arc<dyn Fn(&SiteId) -> bool + Send + Sync>;

/// Name of the oracle in results.
pub(super) const TRUE_LABELS: &str = "true labels";

/// An ordering of the settings with another strategy and another random seed.
pub(super) fn ordering_by(
    settings: &ExternalSettings,
    strategy: Strategy,
    seed: u64,
) -> Arc<dyn BorderOrdering> {
    ordering(&ExternalSettings {
        strategy,
        seed,
        ..settings.clone()
    })
}

/// Draws start sites at random from the training sites.
pub(super) fn draw_starts(
    known: &[SiteId],
    number: usize,
    seed: u64,
    scheme: Scheme,
) -> Vec<PageUrl> {
    let mut random = Xoshiro256Plus::seed_from_u64(seed);
    let drawn = known.choose_multiple(&mut random, number);
    drawn.map(|site| PageUrl::homepage(site, scheme)).collect()
}

/// An ordering as it would be with a perfect model: true labels in place of the confidences of
/// reports.
pub(super) fn oracle(ordering: Arc<dyn BorderOrdering>, truth: TruthOf) -> Arc<dyn BorderOrdering> {
    let weigh = move |report: &SiteReport| {
        let label = f64::from(u8::from(truth(&report.site)));
        let mut labelled = report.clone();
        labelled.confidence = SiteConfidence::new(label).unwrap_or(SiteConfidence::NEUTRAL);
        for step in &mut labelled.steps {
            step.confidence = PageConfidence::new(label).unwrap_or(PageConfidence::NEUTRAL);
        }
        edges_of(&labelled)
    };
    Arc::new(Reweighted::new(ordering, "true-labels", weigh))
}

// === impl Walk ===

impl Walk {
    /// Crawls from the start sites until the border is empty or `goes_on`, called with every
    /// verdict, returns false.
    pub(super) async fn run(
        &self,
        ordering: Arc<dyn BorderOrdering>,
        starts: Vec<PageUrl>,
        mut goes_on: impl FnMut(&JudgedSite, &TopicTotals) -> bool,
    ) -> Result<(), WalkError> {
        let mut settings = self.settings.clone();
        // Only `goes_on` ends the walk.
        settings.external.pprs_window = usize::MAX;
        // Labels describe topics; `noindex` must not change a verdict.
        settings.internal.noindex = NoindexPolicy::List;
        let model = self.models.of(&*ordering);
        let crawl = TopicCrawl::by(ordering, model.topic(), Arc::clone(&model), &settings)?;
        let store: Arc<dyn CrawlStore> = Arc::new(KeyValueStore::in_memory()?);
        let fetcher = Arc::clone(&self.fetcher);
        let metrics = CrawlMetrics::register(&Metrics::new());
        let opening = crawl
            .open(store, fetcher, &metrics, &CrawlerSlots::new(1))
            .await;
        let external = opening?;
        external.start_at(starts).await?;
        let enough = Notify::new();
        let crawl = external.crawl(enough.notified(), |verdict, totals| {
            if !goes_on(verdict, totals) {
                enough.notify_one();
            }
        });
        crawl.await?;
        Ok(())
    }
}
