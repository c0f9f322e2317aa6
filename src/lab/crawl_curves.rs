//! How soon each ordering finds the sites of a topic (paper 5.3).
//!
//! Half of the groups of sites are for training; their sites may be visited, but do not
//! count as finds. Start sites are drawn from the targets among them. One crawler at a time
//! walks a web of labelled sites. After a tenth, a quarter and a half of the reachable sites
//! it counts the held-out targets visited, those of them judged relevant, and the pages
//! downloaded. The first count measures the ordering, the second ordering and model together.
//!
//! All orderings use one model, except one that needs another page classifier.
//!
//! An oracle runs beside them: the first ordering with true labels instead of confidences. It
//! shows what the ordering would reach with a perfect model.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::classify::ExampleSite;
use crate::config::{Settings, Strategy};
use crate::external::BorderOrdering;
use crate::fetch::Fetcher;
use crate::training::{Corpus, folds};
use crate::web::{PageUrl, Scheme, SiteId};

use super::TopicModels;
use super::walk::{TRUE_LABELS, TruthOf, Walk, WalkError, draw_starts, oracle, ordering_by};

/// Shares of the reachable sites after which to count.
pub(crate) const SHARES: &[f64] = &[0.1, 0.25, 0.5];

/// The orderings that are compared. The oracle ranks as the first.
const COMPARED: [Strategy; 6] = [
    Strategy::Combined,
    Strategy::Paper,
    Strategy::Global,
    Strategy::Local,
    Strategy::BreadthFirst,
    Strategy::Random,
];

/// An experiment on labelled sites that link to each other.
pub(crate) struct CrawlExperiment<'a> {
    pub(crate) fetcher: Arc<dyn Fetcher>,
    pub(crate) corpus: &'a Corpus,
    pub(crate) settings: &'a Settings,
    /// Number of draws of start sites; results are means over them.
    pub(crate) draws: u64,
    /// Start sites per draw.
    pub(crate) start_sites: usize,
}

/// Result for one topic.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CrawlResult {
    pub(crate) topic: String,
    pub(crate) draws: u64,
    /// Reachable sites, mean over draws.
    pub(crate) reachable: f64,
    /// Held-out targets among them, mean over draws.
    pub(crate) targets: f64,
    /// One for each ordering, the oracle last.
    pub(crate) curves: Vec<CrawlCurve>,
}

/// Result of one ordering.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CrawlCurve {
    pub(crate) name: String,
    /// One for each of [`SHARES`].
    pub(crate) points: Vec<CurveMeans>,
}

/// What was reached after a share of the sites, mean over draws.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CurveMeans {
    /// Held-out targets visited.
    pub(crate) reached: f64,
    /// Those of them judged relevant.
    pub(crate) found: f64,
    /// Downloaded pages, without those of start sites.
    pub(crate) pages: f64,
}

/// A topic with models trained on half of its groups.
struct Trained {
    models: Arc<TopicModels>,
    /// The true class of a labelled site.
    truth: TruthOf,
    /// Targets not in the training half.
    held_out: BTreeSet<SiteId>,
    /// Targets in the training half.
    known: Vec<SiteId>,
}

struct Visited {
    site: SiteId,
    is_relevant: bool,
    pages: usize,
}

// === impl CrawlExperiment ===

impl CrawlExperiment<'_> {
    /// Runs the experiment for a topic; none if it has too few groups.
    pub(crate) async fn run(&self, topic: &str) -> Result<Option<CrawlResult>, WalkError> {
        let Some(trained) = self.train(topic) else {
            return Ok(None);
        };
        let names = COMPARED.map(|strategy| strategy.name().to_owned());
        let mut curves: Vec<CrawlCurve> = names
            .into_iter()
            .chain([TRUE_LABELS.to_owned()])
            .map(|name| CrawlCurve {
                name,
                points: vec![CurveMeans::default(); SHARES.len()],
            })
            .collect();
        let (mut reachable, mut targets) = (0.0, 0.0);
        let settings = &self.settings.external;
        for draw in 0..self.draws {
            let starts = draw_starts(&trained.known, self.start_sites, draw, Scheme::Https);
            let breadth_first = ordering_by(settings, Strategy::BreadthFirst, draw);
            let visits = self.visit(&trained, breadth_first, &starts, usize::MAX);
            let all = visits.await?;
            let half = all.len().div_ceil(2);
            let is_target = |visit: &&Visited| trained.held_out.contains(&visit.site);
            reachable += count(all.len());
            targets += count(all.iter().filter(is_target).count());
            let orderings = COMPARED.map(|strategy| ordering_by(settings, strategy, draw));
            let best = ordering_by(settings, COMPARED[0], draw);
            let perfect = oracle(best, Arc::clone(&trained.truth));
            for (ordering, curve) in orderings.into_iter().chain([perfect]).zip(&mut curves) {
                let visited = self.visit(&trained, ordering, &starts, half).await?;
                curve.add(&visited, all.len(), &trained.held_out);
            }
        }
        let draws = count(usize::try_from(self.draws).unwrap_or(usize::MAX));
        for point in curves.iter_mut().flat_map(|curve| &mut curve.points) {
            let CurveMeans {
                reached,
                found,
                pages,
            } = point;
            for sum in [reached, found, pages] {
                *sum /= draws;
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
        let mut targets = BTreeSet::new();
        for (at, (example, site)) in examples.iter().zip(&self.corpus.sites).enumerate() {
            let is_target = example.is_target();
            targets.extend(is_target.then(|| site.site.clone()));
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
        let models = TopicModels::fit(topic, &self.corpus.lexicon, &learned, settings);
        Some(Trained {
            models: Arc::new(models),
            truth: Arc::new(move |site| targets.contains(site)),
            held_out,
            known,
        })
    }

    /// The sites that responded, in the order of visits, without start sites.
    async fn visit(
        &self,
        trained: &Trained,
        ordering: Arc<dyn BorderOrdering>,
        starts: &[PageUrl],
        limit: usize,
    ) -> Result<Vec<Visited>, WalkError> {
        let walk = Walk {
            fetcher: Arc::clone(&self.fetcher),
            models: Arc::clone(&trained.models),
            settings: self.settings.clone(),
        };
        let mut visited = Vec::new();
        let walked = walk.run(ordering, starts.to_vec(), |verdict, _| {
            if verdict.pages > 0 && !verdict.is_start && visited.len() < limit {
                visited.push(Visited {
                    site: verdict.site.clone(),
                    is_relevant: verdict.verdict.is_relevant(),
                    pages: verdict.pages as usize,
                });
            }
            visited.len() < limit
        });
        walked.await?;
        Ok(visited)
    }
}

// === impl CrawlCurve ===

impl CrawlCurve {
    fn add(&mut self, visited: &[Visited], reachable: usize, targets: &BTreeSet<SiteId>) {
        for (share, point) in SHARES.iter().zip(&mut self.points) {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of a length is a length"
            )]
            let sites = (count(reachable) * share).round() as usize;
            for visit in &visited[..sites.min(visited.len())] {
                let is_target = targets.contains(&visit.site);
                point.reached += f64::from(u8::from(is_target));
                point.found += f64::from(u8::from(is_target && visit.is_relevant));
                point.pages += count(visit.pages);
            }
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "no corpus has 2^53 sites")]
fn count(number: usize) -> f64 {
    number as f64
}
