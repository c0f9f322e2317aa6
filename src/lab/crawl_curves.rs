//! How soon sites of a topic are found, by this ordering and by others (paper 5.3).
//!
//! Half of the groups of sites are learned from; their sites may be visited, but do not
//! count as finds. Start sites are drawn from the targets among them. One crawler at a time
//! walks a web of labelled sites, and after each tenth, quarter and half of the sites that
//! can be reached it is counted how many held-out targets were visited, how many of them the
//! model judged relevant, and what all that cost in pages. The first is the merit of the
//! ordering, the second that of ordering and model.
//!
//! Beside the orderings stands an oracle: the first of them, fed with the true labels
//! instead of confidences. What it reaches is what a faultless model would make of the
//! ordering.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256Plus;
use tokio::sync::Notify;

use crate::classify::{ExampleSite, SiteModel};
use crate::config::{ExternalSettings, Settings, Strategy};
use crate::external::{
    CrawlMetrics, ExternalCrawler, Goals, Ordering, Seats, TopicCrawl, edges_of, ordering,
};
use crate::fetch::Fetcher;
use crate::internal::InternalCrawler;
use crate::parse::ParseLimits;
use crate::store::{KeyValueStore, NewEdge, Rank, Ranking, SiteStore, Standing, StoreError};
use crate::telemetry::Metrics;
use crate::training::{Corpus, fit_model, folds};
use crate::web::{PageConfidence, PageUrl, Scheme, SiteConfidence, SiteId, SiteReport};

/// After which shares of the sites that can be reached it is counted.
pub const SHARES: [f64; 3] = [0.1, 0.25, 0.5];

/// The orderings that are compared, the one that the oracle shares first.
const COMPARED: [Strategy; 6] = [
    Strategy::Combined,
    Strategy::Paper,
    Strategy::Global,
    Strategy::Local,
    Strategy::BreadthFirst,
    Strategy::Random,
];

/// An experiment on labelled sites that link to each other.
pub struct CrawlExperiment<'a> {
    /// Where the pages are.
    pub fetcher: Arc<dyn Fetcher>,
    /// The labelled sites.
    pub corpus: &'a Corpus,
    /// How pages are read.
    pub limits: ParseLimits,
    /// Everything else.
    pub settings: &'a Settings,
    /// How often start sites are drawn.
    pub draws: u64,
    /// How many start sites a draw has.
    pub start_sites: usize,
}

/// What came out for one topic.
#[derive(Debug, Clone, PartialEq)]
pub struct CrawlResult {
    /// The topic.
    pub topic: String,
    /// How often start sites were drawn.
    pub draws: u64,
    /// Sites that can be reached, on average.
    pub reachable: f64,
    /// Held-out targets among them, on average.
    pub targets: f64,
    /// One for each ordering, the oracle last.
    pub curves: Vec<CrawlCurve>,
}

/// How an ordering got on, after each of [`SHARES`], on average.
#[derive(Debug, Clone, PartialEq)]
pub struct CrawlCurve {
    /// The ordering.
    pub name: String,
    /// Held-out targets that were visited.
    pub reached: [f64; 3],
    /// Those of them that were judged relevant.
    pub found: [f64; 3],
    /// Pages that were downloaded, those of start sites left out.
    pub pages: [f64; 3],
}

/// A topic, learned from half of its groups.
struct Trained {
    model: Arc<SiteModel>,
    /// The true class of every labelled site.
    truth: Arc<BTreeMap<SiteId, bool>>,
    /// Targets that were not learned from.
    held_out: BTreeSet<SiteId>,
    /// Targets that were.
    known: Vec<SiteId>,
}

/// One visited site.
struct Visited {
    site: SiteId,
    is_relevant: bool,
    pages: usize,
}

/// Ranks as another ordering does, but knows the truth about every site it reports on.
struct Oracle {
    ordering: Arc<dyn Ordering>,
    truth: Arc<BTreeMap<SiteId, bool>>,
}

// === impl CrawlExperiment ===

impl CrawlExperiment<'_> {
    /// Runs the experiment for a topic; none if it has too few groups.
    pub async fn run(&self, topic: &str) -> Result<Option<CrawlResult>, StoreError> {
        let Some(trained) = self.train(topic) else {
            return Ok(None);
        };
        let names = COMPARED.map(|strategy| strategy.name().to_owned());
        let mut curves: Vec<CrawlCurve> = names
            .into_iter()
            .chain(["true labels".to_owned()])
            .map(|name| CrawlCurve {
                name,
                reached: [0.0; 3],
                found: [0.0; 3],
                pages: [0.0; 3],
            })
            .collect();
        let (mut reachable, mut targets) = (0.0, 0.0);
        for draw in 0..self.draws {
            let starts = self.draw(&trained.known, draw);
            let all = self.ordering(Strategy::BreadthFirst, draw);
            let all = self.visit(&trained, all, &starts, usize::MAX).await?;
            let half = all.len().div_ceil(2);
            let is_target = |visit: &&Visited| trained.held_out.contains(&visit.site);
            reachable += count(all.len());
            targets += count(all.iter().filter(is_target).count());
            let oracle: Arc<dyn Ordering> = Arc::new(Oracle {
                ordering: self.ordering(COMPARED[0], draw),
                truth: Arc::clone(&trained.truth),
            });
            let orderings = COMPARED.map(|strategy| self.ordering(strategy, draw));
            for (ordering, curve) in orderings.into_iter().chain([oracle]).zip(&mut curves) {
                let visited = self.visit(&trained, ordering, &starts, half).await?;
                curve.add(&visited, all.len(), &trained.held_out);
            }
        }
        let draws = count(usize::try_from(self.draws).unwrap_or(usize::MAX));
        for curve in &mut curves {
            for sums in [&mut curve.reached, &mut curve.found, &mut curve.pages] {
                *sums = sums.map(|sum| sum / draws);
            }
        }
        Ok(Some(CrawlResult {
            topic: topic.to_owned(),
            draws: self.draws,
            reachable: reachable / draws,
            targets: targets / draws,
            curves,
        }))
    }

    fn train(&self, topic: &str) -> Option<Trained> {
        let examples = self.corpus.examples(topic);
        let halves = folds(&examples, 2, self.settings.training.seed)?;
        let held: BTreeSet<usize> = halves[0].iter().copied().collect();
        let (mut learned, mut known, mut held_out) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut truth = BTreeMap::new();
        for (at, (example, site)) in examples.iter().zip(&self.corpus.sites).enumerate() {
            let is_target = example.is_target();
            truth.insert(site.site.clone(), is_target);
            match (held.contains(&at), is_target) {
                (true, true) => {
                    held_out.insert(site.site.clone());
                }
                (true, false) => {}
                (false, _) => {
                    learned.push(ExampleSite { ..*example });
                    known.extend(is_target.then(|| site.site.clone()));
                }
            }
        }
        let settings = &self.settings.training;
        let (model, _) = fit_model(topic, &self.corpus.lexicon, &learned, settings);
        Some(Trained {
            model: Arc::new(model),
            truth: Arc::new(truth),
            held_out,
            known,
        })
    }

    fn ordering(&self, strategy: Strategy, seed: u64) -> Arc<dyn Ordering> {
        ordering(&ExternalSettings {
            strategy,
            seed,
            ..self.settings.external.clone()
        })
    }

    fn draw(&self, known: &[SiteId], draw: u64) -> Vec<PageUrl> {
        let mut random = Xoshiro256Plus::seed_from_u64(draw);
        let drawn = known.choose_multiple(&mut random, self.start_sites);
        drawn
            .map(|site| PageUrl::homepage(site, Scheme::Https))
            .collect()
    }

    /// The sites that answer, in the order of visits, start sites left out.
    async fn visit(
        &self,
        trained: &Trained,
        ordering: Arc<dyn Ordering>,
        starts: &[PageUrl],
        most: usize,
    ) -> Result<Vec<Visited>, StoreError> {
        let mut settings = self.settings.clone();
        // The walk is ended by the number of sites alone.
        settings.external.pprs_window = usize::MAX;
        let crawler = InternalCrawler::new(
            Arc::clone(&self.fetcher),
            Arc::clone(&trained.model),
            settings.internal,
            self.limits,
        );
        let store: Arc<dyn SiteStore> = Arc::new(KeyValueStore::in_memory()?);
        let topic = TopicCrawl {
            name: "topic".to_owned(),
            crawler,
            ordering,
            goals: Goals::default(),
            metrics: CrawlMetrics::register(&Metrics::new()),
        };
        let external = ExternalCrawler::open(store, topic, &Seats::new(1), &settings).await?;
        external.start_at(starts.to_vec()).await?;
        let visited: Mutex<Vec<Visited>> = Mutex::default();
        let enough = Notify::new();
        let crawl = external.crawl(enough.notified(), |verdict, _| {
            let mut visited = visited.lock().unwrap_or_else(PoisonError::into_inner);
            if verdict.pages > 0 && !verdict.is_start && visited.len() < most {
                visited.push(Visited {
                    site: verdict.site.clone(),
                    is_relevant: verdict.verdict.is_relevant(),
                    pages: verdict.pages,
                });
            }
            if visited.len() >= most {
                enough.notify_one();
            }
        });
        crawl.await?;
        Ok(visited.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

// === impl CrawlCurve ===

impl CrawlCurve {
    fn add(&mut self, visited: &[Visited], reachable: usize, targets: &BTreeSet<SiteId>) {
        for (at, share) in SHARES.into_iter().enumerate() {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of a length is a length"
            )]
            let sites = (count(reachable) * share).round() as usize;
            for visit in &visited[..sites.min(visited.len())] {
                let is_target = targets.contains(&visit.site);
                self.reached[at] += f64::from(u8::from(is_target));
                self.found[at] += f64::from(u8::from(is_target && visit.is_relevant));
                self.pages[at] += count(visit.pages);
            }
        }
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
        let is_target = self.truth.get(&report.site).copied().unwrap_or_default();
        let truth = f64::from(u8::from(is_target));
        let mut report = report.clone();
        report.confidence = SiteConfidence::new(truth).unwrap_or(SiteConfidence::NEUTRAL);
        for step in &mut report.steps {
            step.confidence = PageConfidence::new(truth).unwrap_or(PageConfidence::NEUTRAL);
        }
        edges_of(&report)
    }
}

#[allow(clippy::cast_precision_loss, reason = "no corpus has 2^53 sites")]
fn count(number: usize) -> f64 {
    number as f64
}
