//! Table 2 of the paper: the internal crawler compared with a homepage classifier and with one
//! that reads every page.
//!
//! Cross-validation by site: everything, from the vocabulary to the threshold, is learned
//! from the training sites of a fold alone, and the held-out sites are judged as in a crawl,
//! without the link phase. The three rows are one crawler with different inputs:
//!
//! | row | model | budget and threshold |
//! |---|---|---|
//! | internal | as trained | as set |
//! | homepage | trained on homepages only | until the homepage has spoken |
//! | all pages | as trained | no threshold, and no limit but one for traps |
//!
//! The homepage is what a reader sees first: pages in its frames and pages it redirects or
//! refreshes to are part of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256Plus;
use rayon::prelude::*;

use crate::classify::{ExampleSite, SiteModel, Thresholds};
use crate::config::{InternalSettings, NoindexPolicy, Settings, TrainingSettings};
use crate::fetch::Fetcher;
use crate::internal::{InternalCrawler, LinkPagesFirst};
use crate::parse::ParseLimits;
use crate::training::{Corpus, Measures, Outcome, fit_model, folds};
use crate::web::{PageKind, SiteId, SiteVisit};

/// Limit for traps: some sites are endless. Finite sites have fewer pages.
const MOST_PAGES: usize = 5_000;

/// An evaluation of site classifiers by cross-validation.
pub struct Experiment<'a> {
    /// Source of pages.
    pub fetcher: Arc<dyn Fetcher>,
    /// The labelled sites.
    pub corpus: &'a Corpus,
    /// Limits of the page parser.
    pub limits: ParseLimits,
    /// Settings of training and of the internal crawler.
    pub settings: &'a Settings,
    /// Maximum number of folds.
    pub folds: usize,
    /// Number of random seeds, each a new split into folds; results are means over them.
    pub seeds: u64,
    /// Overrides the trained threshold.
    pub p_threshold: Option<f64>,
    /// Maximum number of target sites in training, for learning curves.
    pub target_sites: Option<usize>,
}

/// The classifiers that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// The internal crawler.
    Internal,
    /// A classifier of the homepage only.
    Homepage,
    /// A classifier of every page of the site.
    AllPages,
}

/// The verdicts of one classifier.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdicts {
    /// Over all seeds together.
    pub measures: Measures,
    /// Mean over seeds, as recall and F.
    pub(crate) precision: f64,
    pub(crate) recall: f64,
    /// F measure, mean over seeds.
    pub f_measure: f64,
}

/// Result for one topic.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicResult {
    /// The topic.
    pub topic: String,
    /// All sites, of every class.
    pub(crate) sites: usize,
    /// Sites of the topic.
    pub(crate) target_sites: usize,
    pub(crate) folds: usize,
    /// Balanced error of single pages, mean over folds.
    pub(crate) p_err: f64,
    /// Mean over folds.
    pub(crate) p_threshold: f64,
    pub(crate) rows: BTreeMap<Row, Verdicts>,
    /// Sites misjudged by the internal crawler, with its confidence.
    pub(crate) mistakes: Vec<(SiteId, f64)>,
}

/// Result of one fold.
struct FoldResult {
    p_err: f64,
    p_threshold: f64,
    /// For each held-out site: its index in the corpus, and its outcome in each row.
    outcomes: Vec<(usize, Vec<(Row, Outcome)>)>,
}

// === impl Experiment ===

impl Experiment<'_> {
    /// Evaluates one topic; none if it has too few groups of sites to hold any out.
    #[must_use]
    pub fn run(&self, topic: &str) -> Option<TopicResult> {
        let examples = self.corpus.examples(topic);
        let mut result = TopicResult {
            topic: topic.to_owned(),
            sites: examples.len(),
            target_sites: examples.iter().filter(|site| site.is_target()).count(),
            folds: 0,
            p_err: 0.0,
            p_threshold: 0.0,
            rows: BTreeMap::new(),
            mistakes: Vec::new(),
        };
        let mut fold_results = 0.0;
        let first_seed = self.settings.training.seed;
        for seed in first_seed..first_seed + self.seeds.max(1) {
            let folds = folds(&examples, self.folds, seed)?;
            result.folds = folds.len();
            let tested: Vec<FoldResult> = folds
                .par_iter()
                .map(|fold| self.run_fold(topic, &examples, fold, seed))
                .collect();
            let mut of_seed: BTreeMap<Row, Measures> = BTreeMap::new();
            for fold in tested {
                fold_results += 1.0;
                result.p_err += fold.p_err;
                result.p_threshold += fold.p_threshold;
                for (at, outcomes) in fold.outcomes {
                    for (row, outcome) in outcomes {
                        of_seed.entry(row).or_default().add(&outcome);
                        if row == Row::Internal && outcome.is_relevant != outcome.is_target {
                            let site = self.corpus.sites[at].site.clone();
                            result.mistakes.push((site, outcome.confidence.get()));
                        }
                    }
                }
            }
            for (row, measures) in of_seed {
                result.rows.entry(row).or_default().add(&measures);
            }
        }
        result.p_err /= fold_results;
        result.p_threshold /= fold_results;
        for row in result.rows.values_mut() {
            row.divide(self.seeds.max(1));
        }
        Some(result)
    }

    fn run_fold(
        &self,
        topic: &str,
        examples: &[ExampleSite<'_>],
        fold: &[usize],
        seed: u64,
    ) -> FoldResult {
        let indexes: Vec<usize> = (0..examples.len())
            .filter(|at| !fold.contains(at))
            .collect();
        let indexes = self.fewer_targets(examples, indexes, seed);
        let learned: Vec<ExampleSite<'_>> = indexes.into_iter().map(|at| examples[at]).collect();
        let training = TrainingSettings {
            seed,
            ..self.settings.training
        };
        let train = |sites: &[ExampleSite<'_>]| {
            let (model, _) = fit_model(topic, &self.corpus.lexicon, sites, &training);
            let thresholds = Thresholds {
                p_threshold: self.p_threshold.unwrap_or(model.thresholds().p_threshold),
                ..*model.thresholds()
            };
            model.with_thresholds(thresholds)
        };
        let model = train(&learned);
        let homepages: Vec<ExampleSite<'_>> = learned.iter().map(homepage_of).collect();
        let homepage_model = train(&homepages);
        let (p_err, p_threshold) = (model.calibration().p_err(), model.thresholds().p_threshold);
        let one_page = Thresholds {
            p_threshold: 0.5,
            confirming_pages: 1,
            ..*model.thresholds()
        };
        let every_page = Thresholds {
            p_threshold: f64::INFINITY,
            deciding_pages: usize::MAX,
            ..*model.thresholds()
        };
        let no_budget = InternalSettings {
            page_budget: MOST_PAGES,
            ..self.settings.internal
        };
        let internal = self.settings.internal;
        let rows = [
            (
                Row::Internal,
                self.crawler(model.clone(), internal),
                PageKind::Deep,
            ),
            (
                Row::Homepage,
                self.crawler(homepage_model.with_thresholds(one_page), internal),
                PageKind::Homepage,
            ),
            (
                Row::AllPages,
                self.crawler(model.with_thresholds(every_page), no_budget),
                PageKind::Deep,
            ),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime without timers or network needs nothing from the system");
        let test = |at: &usize| {
            let site = &self.corpus.sites[*at].site;
            let is_target = examples[*at].is_target();
            let outcomes = rows.iter().map(|(row, crawler, reach)| {
                let visit = SiteVisit {
                    reach: *reach,
                    ..SiteVisit::new(site)
                };
                let report = runtime.block_on(crawler.sample(visit));
                let outcome = Outcome {
                    is_relevant: report.verdict.is_relevant(),
                    confidence: report.confidence,
                    is_target,
                    pages: report.cost.pages,
                };
                (*row, outcome)
            });
            (*at, outcomes.collect())
        };
        FoldResult {
            p_err,
            p_threshold,
            outcomes: fold.iter().map(test).collect(),
        }
    }

    /// Keeps at most `target_sites` target sites in training, drawn at random.
    fn fewer_targets(
        &self,
        examples: &[ExampleSite<'_>],
        learned: Vec<usize>,
        seed: u64,
    ) -> Vec<usize> {
        let Some(wanted) = self.target_sites else {
            return learned;
        };
        let (mut targets, others): (Vec<usize>, Vec<usize>) = learned
            .into_iter()
            .partition(|at| examples[*at].is_target());
        targets.shuffle(&mut Xoshiro256Plus::seed_from_u64(seed));
        targets.truncate(wanted);
        targets.extend(others);
        targets.sort_unstable();
        targets
    }

    fn crawler(&self, model: SiteModel, internal: InternalSettings) -> InternalCrawler {
        crawler_of_verdicts(Arc::clone(&self.fetcher), model, internal, self.limits)
    }
}

/// An internal crawler as by default, for sites whose class is known.
pub(super) fn crawler_of_verdicts(
    fetcher: Arc<dyn Fetcher>,
    model: SiteModel,
    internal: InternalSettings,
    limits: ParseLimits,
) -> InternalCrawler {
    // Labels describe topics; `noindex` must not change a verdict.
    let internal = InternalSettings {
        noindex: NoindexPolicy::List,
        ..internal
    };
    InternalCrawler::new(
        fetcher,
        Arc::new(model),
        internal,
        limits,
        // Before the verdict all page orderings but breadth-first agree.
        Arc::new(LinkPagesFirst),
    )
}

/// The site reduced to the pages that make up its homepage.
fn homepage_of<'a>(site: &ExampleSite<'a>) -> ExampleSite<'a> {
    let pages = site.pages.iter();
    let homepage = pages
        .take_while(|page| page.kind == PageKind::Homepage)
        .count();
    ExampleSite {
        pages: &site.pages[..homepage],
        ..*site
    }
}

// === impl TopicResult ===

impl TopicResult {
    /// The verdicts of one classifier.
    ///
    /// # Panics
    /// If nothing was judged.
    #[must_use]
    pub fn row(&self, row: Row) -> &Verdicts {
        let verdicts = self.rows.get(&row);
        verdicts.expect("a result has every row")
    }

    /// The unweighted mean over topics; none without topics.
    #[must_use]
    pub fn mean(results: &[Self]) -> Option<Self> {
        let first = results.first()?;
        let mut mean = Self {
            topic: "mean".to_owned(),
            sites: first.sites,
            target_sites: 0,
            folds: 0,
            p_err: 0.0,
            p_threshold: 0.0,
            rows: BTreeMap::new(),
            mistakes: Vec::new(),
        };
        for result in results {
            mean.target_sites += result.target_sites;
            mean.folds = mean.folds.max(result.folds);
            mean.p_err += result.p_err;
            mean.p_threshold += result.p_threshold;
            for (row, verdicts) in &result.rows {
                let sum = mean.rows.entry(*row).or_default();
                sum.measures.merge(&verdicts.measures);
                sum.precision += verdicts.precision;
                sum.recall += verdicts.recall;
                sum.f_measure += verdicts.f_measure;
            }
        }
        let topics = f64::from(u32::try_from(results.len()).unwrap_or(u32::MAX));
        mean.target_sites /= results.len();
        mean.p_err /= topics;
        mean.p_threshold /= topics;
        for row in mean.rows.values_mut() {
            row.divide(results.len() as u64);
        }
        Some(mean)
    }
}

// === impl Verdicts ===

impl Verdicts {
    fn add(&mut self, measures: &Measures) {
        self.measures.merge(measures);
        self.precision += measures.precision();
        self.recall += measures.recall();
        self.f_measure += measures.f_measure();
    }

    fn divide(&mut self, by: u64) {
        let by = f64::from(u32::try_from(by).unwrap_or(u32::MAX));
        self.precision /= by;
        self.recall /= by;
        self.f_measure /= by;
    }
}

// === impl Row ===

impl Row {
    /// All rows, in the order of the table.
    pub(crate) const ALL: &[Self] = &[Self::Internal, Self::Homepage, Self::AllPages];

    /// The name for tables and JSON.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::Homepage => "homepage",
            Self::AllPages => "all_pages",
        }
    }
}
