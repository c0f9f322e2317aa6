//! A crawl for the lab: one crawler at a time, over a store in memory.
//!
//! Invariant: the order of visits is that of the ordering alone, and the same every time.

use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256Plus;
use thiserror::Error;
use tokio::sync::Notify;

use crate::config::{ExternalSettings, NoindexPolicy, PageClassifierChoice, Settings, Strategy};
use crate::external::{
    BorderOrdering, CrawlMetrics, CrawlerSlots, TopicCrawl, UnfitModel, edges_of, ordering,
};
use crate::fetch::Fetcher;
use crate::internal::PageOrdering;
use crate::store::{
    Averaging, CrawlStore, JudgedSite, KeyValueStore, NewEdge, Rank, Ranking, Standing, StoreError,
    TopicTotals,
};
use crate::telemetry::Metrics;
use crate::web::{PageConfidence, PageUrl, Purpose, Scheme, SiteConfidence, SiteId, SiteReport};

use super::TopicModels;

/// What every crawl of an experiment has in common.
#[derive(Clone)]
pub(super) struct Walk {
    pub(super) fetcher: Arc<dyn Fetcher>,
    pub(super) models: Arc<TopicModels>,
    pub(super) settings: Settings,
}

/// Why a crawl of the lab did not come to its end.
#[derive(Debug, Error)]
pub(crate) enum WalkError {
    /// What was found could not be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no model for the ordering.
    #[error(transparent)]
    Model(#[from] UnfitModel),
}

/// Whether a site is truly of the topic.
pub(super) type TruthOf = Arc<dyn Fn(&SiteId) -> bool + Send + Sync>;

/// Ranks as another ordering does, but knows the truth about every site it reports on.
struct Oracle {
    ordering: Arc<dyn BorderOrdering>,
    truth: TruthOf,
}

/// How the ordering that knows the truth is called.
pub(super) const TRUE_LABELS: &str = "true labels";

/// An ordering of the settings with another strategy and another chance.
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

/// Start sites, drawn from those that are known.
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

/// What a faultless model would make of an ordering.
pub(super) fn oracle(ordering: Arc<dyn BorderOrdering>, truth: TruthOf) -> Arc<dyn BorderOrdering> {
    Arc::new(Oracle { ordering, truth })
}

// === impl Walk ===

impl Walk {
    /// Visits sites from the start sites on until nothing is left, or until `goes_on`, which is
    /// told every verdict, says no.
    pub(super) async fn run(
        &self,
        ordering: Arc<dyn BorderOrdering>,
        starts: Vec<PageUrl>,
        mut goes_on: impl FnMut(&JudgedSite, &TopicTotals) -> bool,
    ) -> Result<(), WalkError> {
        let mut settings = self.settings.clone();
        // Only `goes_on` ends the walk.
        settings.external.pprs_window = usize::MAX;
        // Labels say what a site is about, and not what it wants.
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

// === impl Oracle ===

impl Ranking for Oracle {
    fn name(&self) -> &'static str {
        "true-labels"
    }

    fn rank(&self, standing: &Standing) -> Rank {
        self.ordering.rank(standing)
    }

    fn averaging(&self) -> Averaging {
        self.ordering.averaging()
    }
}

impl BorderOrdering for Oracle {
    fn weigh(&self, report: &SiteReport) -> Vec<NewEdge> {
        let truth = f64::from(u8::from((self.truth)(&report.site)));
        let mut report = report.clone();
        report.confidence = SiteConfidence::new(truth).unwrap_or(SiteConfidence::NEUTRAL);
        for step in &mut report.steps {
            step.confidence = PageConfidence::new(truth).unwrap_or(PageConfidence::NEUTRAL);
        }
        edges_of(&report)
    }

    fn recommendation(&self, standing: &Standing) -> f64 {
        self.ordering.recommendation(standing)
    }

    fn prior(&self, totals: &TopicTotals) -> SiteConfidence {
        self.ordering.prior(totals)
    }

    fn purpose(&self, is_border_scarce: bool) -> Purpose {
        self.ordering.purpose(is_border_scarce)
    }

    fn page_ordering(&self) -> Arc<dyn PageOrdering> {
        self.ordering.page_ordering()
    }

    fn page_classifier(&self) -> Option<PageClassifierChoice> {
        self.ordering.page_classifier()
    }
}
