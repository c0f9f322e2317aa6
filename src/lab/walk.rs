//! A crawl for the lab: one crawler at a time, over a store in memory.
//!
//! Invariant: the order of visits is that of the ordering alone, and the same every time.

use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256Plus;
use tokio::sync::Notify;

use crate::classify::SiteModel;
use crate::config::{ExternalSettings, NoindexPolicy, Settings, Strategy};
use crate::external::{
    CrawlMetrics, ExternalCrawler, Goals, Ordering, Seats, TopicCrawl, edges_of, ordering,
};
use crate::fetch::Fetcher;
use crate::internal::InternalCrawler;
use crate::parse::ParseLimits;
use crate::store::{
    KeyValueStore, NewEdge, Rank, Ranking, SiteStore, Standing, StoreError, TopicTotals,
};
use crate::telemetry::Metrics;
use crate::verdicts::ShownVerdict;
use crate::web::{PageConfidence, PageUrl, Scheme, SiteConfidence, SiteId, SiteReport};

/// What every crawl of an experiment has in common.
#[derive(Clone)]
pub(super) struct Walk {
    pub(super) fetcher: Arc<dyn Fetcher>,
    pub(super) model: Arc<SiteModel>,
    pub(super) limits: ParseLimits,
    pub(super) settings: Settings,
}

/// Whether a site is truly of the topic.
pub(super) type TruthOf = Arc<dyn Fn(&SiteId) -> bool + Send + Sync>;

/// Ranks as another ordering does, but knows the truth about every site it reports on.
struct Oracle {
    ordering: Arc<dyn Ordering>,
    truth: TruthOf,
}

/// How the ordering that knows the truth is called.
pub(super) const TRUE_LABELS: &str = "true labels";

/// An ordering of the settings with another strategy and another chance.
pub(super) fn ordering_by(
    settings: &ExternalSettings,
    strategy: Strategy,
    seed: u64,
) -> Arc<dyn Ordering> {
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
pub(super) fn oracle(ordering: Arc<dyn Ordering>, truth: TruthOf) -> Arc<dyn Ordering> {
    Arc::new(Oracle { ordering, truth })
}

// === impl Walk ===

impl Walk {
    /// Visits sites from the start sites on until nothing is left, or until whoever is told
    /// the verdicts has heard enough and says no.
    pub(super) async fn run(
        &self,
        ordering: Arc<dyn Ordering>,
        starts: Vec<PageUrl>,
        mut goes_on: impl FnMut(&ShownVerdict, &TopicTotals) -> bool,
    ) -> Result<(), StoreError> {
        let mut settings = self.settings.clone();
        // The walk is ended by whoever listens alone.
        settings.external.pprs_window = usize::MAX;
        // Labels say what a site is about, and not what it wants.
        settings.internal.noindex = NoindexPolicy::List;
        let topic = TopicCrawl {
            name: "topic".to_owned(),
            crawler: InternalCrawler::new(
                Arc::clone(&self.fetcher),
                Arc::clone(&self.model),
                settings.internal,
                self.limits,
            ),
            ordering,
            goals: Goals::default(),
            metrics: CrawlMetrics::register(&Metrics::new()),
        };
        let store: Arc<dyn SiteStore> = Arc::new(KeyValueStore::in_memory()?);
        let external = ExternalCrawler::open(store, topic, &Seats::new(1), &settings).await?;
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
}

impl Ordering for Oracle {
    fn weigh(&self, report: &SiteReport) -> Vec<NewEdge> {
        let truth = f64::from(u8::from((self.truth)(&report.site)));
        let mut report = report.clone();
        report.confidence = SiteConfidence::new(truth).unwrap_or(SiteConfidence::NEUTRAL);
        for step in &mut report.steps {
            step.confidence = PageConfidence::new(truth).unwrap_or(PageConfidence::NEUTRAL);
        }
        edges_of(&report)
    }
}
