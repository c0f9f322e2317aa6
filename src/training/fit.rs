//! From example sites to a calibrated page classifier.
//!
//! A fit weighs sites, not pages: the pages of a site share its weight, and both classes
//! weigh one half, so that neither a large site nor the larger class dominates. A
//! cross-validation by site then scores pages of sites that were not trained on;
//! from these scores come calibration, `p_err` and the proposed threshold (paper 4.3.3).

use rayon::prelude::*;

use crate::classify::{
    Calibration, CentroidClassifier, CentroidParams, CountedPage, ExampleSite, HeldOutPage,
    Lexicon, LinearClassifier, LinearParams, PageModel, PageVector, Selection, SiteEvidence,
    SiteModel, Thresholds, VocabularyLimits, WeighedPage,
};
use crate::config::{PageClassifierChoice, TrainingSettings};
use crate::web::{PageKind, SiteConfidence};

use super::folds::folds;
use super::measures::{Measures, Outcome, count};

/// Cost of a misclassified training page relative to the norm of the weights. Larger than usual,
/// because the weights of all pages sum up to the number of sites; on real sites 1 was worse and 100
/// no better.
const COST: f64 = 10.0;

/// The share of a site's weight that goes to the site as a whole.
const WHOLE_SITE: f64 = 0.5;

/// A term on a single site does not generalise.
const MIN_TERM_SITES: u32 = 2;

/// A page with fewer known terms is mute.
const MIN_KNOWN_TERMS: usize = 5;

/// Minimum number of pages that spoke before an early verdict. One is enough if its confidence is
/// high, since `p_err` is accounted for: on real sites two cost about a page more per site and were no
/// better.
const MIN_SPEAKING_PAGES: usize = 1;

/// The thresholds that training chooses from, the cheapest first.
const P_THRESHOLDS: [f64; 4] = [0.9, 0.95, 0.975, 0.99];

/// How much a higher threshold must lower the balanced Brier score for each additional page per site.
const GAIN_PER_PAGE: f64 = 0.004;

/// A page classifier with the vocabulary it was fitted on.
struct FittedPages {
    selection: Selection,
    pages: PageModel,
}

/// Scores that a site's pages got from a classifier that had not seen the site; none for
/// mute pages.
type HeldOutScores = Vec<Option<f64>>;

/// The result of cross-validation on the training sites.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// The number of folds; none if there were too few groups.
    pub(crate) folds: Option<usize>,
    /// Of the training sites, judged by models that were not trained on them.
    pub(crate) measures: Measures,
}

// === impl FittedPages ===

impl FittedPages {
    /// Fits a page classifier to the first pages of some sites.
    fn fit(lexicon: &Lexicon, sites: &[ExampleSite<'_>], settings: &TrainingSettings) -> Self {
        let sites = first_pages(sites, settings.pages_per_site);
        let targets = sites.iter().filter(|site| site.is_target()).count();
        let share = |site: &ExampleSite<'_>| {
            let others = sites.len() - targets;
            let of_class = if site.is_target() { targets } else { others };
            1.0 / count(of_class.max(1))
        };
        let shares: Vec<f64> = sites.iter().map(share).collect();
        let limits = VocabularyLimits {
            terms: settings.vocabulary,
            min_sites: MIN_TERM_SITES,
        };
        let selection = Selection::choose(lexicon, &sites, &shares, &limits);
        let mut pages = Vec::new();
        for (site, share) in sites.iter().zip(&shares) {
            let weight = share * count(sites.len()) / 2.0;
            pages.extend(weigh_pages(site, &selection, weight));
        }
        let pages = fit_classifier(&pages, selection.len(), settings);
        Self { selection, pages }
    }

    /// The score of a page; none if it is mute.
    fn score(&self, page: &CountedPage) -> Option<f64> {
        let vector = self.selection.vector(page);
        (vector.known_terms() >= MIN_KNOWN_TERMS).then(|| self.pages.score(&vector))
    }

    fn into_model(
        self,
        topic: &str,
        lexicon: &Lexicon,
        calibration: Calibration,
        p_threshold: f64,
    ) -> SiteModel {
        SiteModel::new(
            topic.to_owned(),
            self.selection.into_vocabulary(lexicon),
            self.pages,
            calibration,
            Thresholds {
                p_threshold,
                min_speaking_pages: MIN_SPEAKING_PAGES,
                min_known_terms: MIN_KNOWN_TERMS,
            },
        )
    }
}

/// The pages of a site, and the sum of them as one more page, which gets half of the weight: the
/// class of a site shows in what its pages have in common, and many single pages say little about it.
/// The gain on real sites is smaller than the variation between random folds.
fn weigh_pages(site: &ExampleSite<'_>, selection: &Selection, weight: f64) -> Vec<WeighedPage> {
    let vectors: Vec<PageVector> = site
        .pages
        .iter()
        .map(|page| selection.vector(page))
        .collect();
    let whole = PageVector::sum(&vectors);
    let each = weight * (1.0 - WHOLE_SITE) / count(vectors.len().max(1));
    let weigh = |vector, weight| WeighedPage {
        vector,
        is_target: site.is_target(),
        weight,
    };
    let mut pages: Vec<WeighedPage> = vectors
        .into_iter()
        .map(|vector| weigh(vector, each))
        .collect();
    pages.push(weigh(whole, weight * WHOLE_SITE));
    pages
}

fn fit_classifier(
    pages: &[WeighedPage],
    features: usize,
    settings: &TrainingSettings,
) -> PageModel {
    match settings.page_classifier {
        PageClassifierChoice::Linear => {
            let params = LinearParams {
                cost: COST,
                seed: settings.seed,
            };
            PageModel::Linear(LinearClassifier::fit(pages, features, &params))
        }
        PageClassifierChoice::Centroid => {
            let params = CentroidParams {
                dimensions: 64,
                target_centroids: 8,
                other_centroids: 24,
                seed: settings.seed,
            };
            PageModel::Centroid(CentroidClassifier::fit(pages, features, &params))
        }
    }
}

/// The sites with their first `pages` pages only.
fn first_pages<'a>(sites: &[ExampleSite<'a>], pages: usize) -> Vec<ExampleSite<'a>> {
    let cut = |site: &ExampleSite<'a>| ExampleSite {
        pages: &site.pages[..site.pages.len().min(pages)],
        ..*site
    };
    sites.iter().map(cut).collect()
}

/// Learns a topic from example sites: the page classifier from all of them, its calibration from
/// held-out scores.
#[must_use]
pub fn fit_model(
    topic: &str,
    lexicon: &Lexicon,
    sites: &[ExampleSite<'_>],
    settings: &TrainingSettings,
) -> (SiteModel, Validation) {
    let folds = folds(sites, settings.folds, settings.seed);
    let scores = match &folds {
        Some(folds) => held_out_scores(lexicon, sites, folds, settings),
        None => vec![HeldOutScores::new(); sites.len()],
    };
    let calibration = Calibration::fit(&held_out_pages(sites, &scores));
    let simulate = |p_threshold| simulate(sites, &scores, &calibration, p_threshold);
    let p_threshold = propose_threshold(sites, simulate);
    let validation = Validation {
        folds: folds.map(|folds| folds.len()),
        measures: measure(&simulate(p_threshold)),
    };
    let fitted = FittedPages::fit(lexicon, sites, settings);
    let model = fitted.into_model(topic, lexicon, calibration, p_threshold);
    (model, validation)
}

/// Scores the pages of each fold's sites with a classifier fitted to all other sites.
fn held_out_scores(
    lexicon: &Lexicon,
    sites: &[ExampleSite<'_>],
    folds: &[Vec<usize>],
    settings: &TrainingSettings,
) -> Vec<HeldOutScores> {
    let score_fold = |fold: &Vec<usize>| {
        let seen = (0..sites.len()).filter(|at| fold.binary_search(at).is_err());
        let seen: Vec<ExampleSite<'_>> = seen.map(|at| sites[at]).collect();
        let fitted = FittedPages::fit(lexicon, &seen, settings);
        let score = |at: &usize| {
            let pages = sites[*at].pages.iter().take(settings.pages_per_site);
            (*at, pages.map(|page| fitted.score(page)).collect())
        };
        fold.iter()
            .map(score)
            .collect::<Vec<(usize, HeldOutScores)>>()
    };
    let mut scores = vec![HeldOutScores::new(); sites.len()];
    for (at, of_site) in folds
        .par_iter()
        .flat_map_iter(score_fold)
        .collect::<Vec<_>>()
    {
        scores[at] = of_site;
    }
    scores
}

/// Held-out pages for the calibration: those of a site and kind share the weight 1.
fn held_out_pages(sites: &[ExampleSite<'_>], scores: &[HeldOutScores]) -> Vec<HeldOutPage> {
    let mut held_out = Vec::new();
    for (site, scores) in sites.iter().zip(scores) {
        let spoke = || {
            let pages = site.pages.iter().zip(scores);
            pages.filter_map(|(page, score)| Some((page.kind, (*score)?)))
        };
        for kind in PageKind::ALL {
            let of_kind = || spoke().filter(|(own, _)| *own == kind);
            let pages = count(of_kind().count());
            held_out.extend(of_kind().map(|(kind, score)| HeldOutPage {
                score,
                kind,
                is_target: site.is_target(),
                weight: 1.0 / pages,
            }));
        }
    }
    held_out
}

/// How sites would have been judged with a threshold, had their pages been read in
/// breadth-first order.
fn simulate(
    sites: &[ExampleSite<'_>],
    scores: &[HeldOutScores],
    calibration: &Calibration,
    p_threshold: f64,
) -> Vec<Outcome> {
    let judge = |(site, scores): (&ExampleSite<'_>, &HeldOutScores)| {
        let mut evidence = SiteEvidence::new(SiteConfidence::NEUTRAL);
        let mut read = 0;
        for (page, score) in site.pages.iter().zip(scores) {
            read += 1;
            let Some(score) = score else { continue };
            let confidence = calibration.confidence(*score, page.kind);
            evidence.add(confidence, calibration.of_kind(page.kind).p_err);
            let has_spoken = evidence.speaking_pages() >= MIN_SPEAKING_PAGES;
            if has_spoken && evidence.certainty() >= p_threshold {
                break;
            }
        }
        Outcome {
            is_relevant: evidence.is_for_target(),
            confidence: evidence.confidence(),
            is_target: site.is_target(),
            pages: read,
        }
    };
    sites.iter().zip(scores).map(judge).collect()
}

/// The cheapest threshold, unless a higher one gains more than [`GAIN_PER_PAGE`].
fn propose_threshold(sites: &[ExampleSite<'_>], simulate: impl Fn(f64) -> Vec<Outcome>) -> f64 {
    let targets = count(sites.iter().filter(|site| site.is_target()).count()).max(1.0);
    let others = (count(sites.len()) - targets).max(1.0);
    let loss = |p_threshold: f64| {
        let outcomes = simulate(p_threshold);
        let brier = outcomes.iter().map(|outcome| {
            let of_class = if outcome.is_target { targets } else { others };
            let truth = f64::from(u8::from(outcome.is_target));
            (outcome.confidence.get() - truth).powi(2) / of_class / 2.0
        });
        brier.sum::<f64>() + GAIN_PER_PAGE * measure(&outcomes).pages_per_site()
    };
    let losses = P_THRESHOLDS.map(|p_threshold| (p_threshold, loss(p_threshold)));
    let best = losses
        .into_iter()
        .min_by(|one, other| one.1.total_cmp(&other.1));
    best.map_or(P_THRESHOLDS[0], |(p_threshold, _)| p_threshold)
}

fn measure(outcomes: &[Outcome]) -> Measures {
    let mut measures = Measures::default();
    for outcome in outcomes {
        measures.add(outcome);
    }
    measures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Class;
    use crate::web::{PageTerms, TermNumbers};

    fn pages(lexicon: &mut Lexicon, words: &[&str]) -> Vec<CountedPage> {
        let kinds = [PageKind::Homepage, PageKind::Inner, PageKind::Inner];
        let count = |(text, kind): (&&str, PageKind)| {
            let words = text.split(' ').map(|word| (word, [0, 0, 1, 0, 0, 0]));
            let terms = PageTerms::of_words(None, words, |term| lexicon.number(term));
            CountedPage::new(&terms, kind, None)
        };
        words.iter().zip(kinds).map(count).collect()
    }

    fn site(pages: &[CountedPage], class: Class) -> ExampleSite<'_> {
        ExampleSite {
            class,
            group: 0,
            is_background: false,
            pages,
        }
    }

    /// By hand: a site of weight 4 with two pages gives each page 4 · ½ / 2 = 1, and itself as
    /// a whole 2.
    #[test]
    fn a_site_shares_its_weight_with_its_pages() {
        let mut lexicon = Lexicon::default();
        let pages = pages(&mut lexicon, &["sail boat", "boat crew"]);
        let one = site(&pages, Class::Target);
        let limits = VocabularyLimits {
            terms: 10,
            min_sites: 1,
        };
        let selection = Selection::choose(&lexicon, &[one], &[1.0], &limits);
        let weighed = weigh_pages(&one, &selection, 4.0);
        let weights: Vec<f64> = weighed.iter().map(|page| page.weight).collect();
        assert_eq!(weights, [1.0, 1.0, 2.0]);
        assert_eq!(weighed[2].vector.known_terms(), 3);
    }

    /// By hand: of the pages that spoke, one homepage weighs 1, two inner pages ½ each.
    #[test]
    fn pages_of_a_site_and_kind_share_the_weight_of_one() {
        let mut lexicon = Lexicon::default();
        let pages = pages(&mut lexicon, &["a", "b", "c"]);
        let sites = [site(&pages, Class::Other)];
        let held_out = held_out_pages(&sites, &[vec![Some(1.0), Some(2.0), Some(3.0)]]);
        let weights: Vec<f64> = held_out.iter().map(|page| page.weight).collect();
        assert_eq!(weights, [1.0, 0.5, 0.5]);
        let held_out = held_out_pages(&sites, &[vec![None, Some(2.0), None]]);
        assert_eq!(held_out.len(), 1);
        assert!((held_out[0].weight - 1.0).abs() < 1e-12);
    }

    /// Scores as log-odds and `p_err` 0.25, as for a blind calibration. By hand: a score of 9
    /// is a confidence of 0.99988, corrected 0.74994; one page gives 0.74994, two 0.89994,
    /// three 0.96425.
    #[test]
    fn simulated_reading_stops_at_the_threshold() {
        let mut lexicon = Lexicon::default();
        let pages = pages(&mut lexicon, &["a", "b", "c"]);
        let sites = [site(&pages, Class::Target)];
        let scores = [vec![Some(9.0); 3]];
        for (p_threshold, read, confidence) in
            [(0.7, 1, 0.749_94), (0.89, 2, 0.899_94), (0.99, 3, 0.964_25)]
        {
            let outcome = simulate(&sites, &scores, &Calibration::BLIND, p_threshold)[0];
            assert_eq!(outcome.pages, read);
            assert!(
                (outcome.confidence.get() - confidence).abs() < 2e-5,
                "{outcome:?}"
            );
            assert!(outcome.is_relevant && outcome.is_target);
        }
        let silent = simulate(&sites, &[vec![None; 3]], &Calibration::BLIND, 0.9)[0];
        assert!(!silent.is_relevant);
        assert_eq!(silent.pages, 3);
    }

    /// By hand, one target: at 0.9 it costs one page and is missed (loss 0.5 · 0.81 + 0.004),
    /// at 0.95 two pages and found (0.5 · 0.01 + 0.008), beyond that nothing is gained.
    #[test]
    fn the_cheapest_threshold_that_pays_is_proposed() {
        let outcome = |confidence: f64, pages| Outcome {
            is_relevant: confidence > 0.5,
            confidence: SiteConfidence::new(confidence).unwrap(),
            is_target: true,
            pages,
        };
        let sites = [site(&[], Class::Target)];
        let improves = |p_threshold: f64| {
            vec![match p_threshold {
                0.9 => outcome(0.1, 1),
                0.95 => outcome(0.9, 2),
                _ => outcome(0.9, 3),
            }]
        };
        assert!((propose_threshold(&sites, improves) - 0.95).abs() < 1e-12);
        let same = |_: f64| vec![outcome(0.9, 1)];
        assert!((propose_threshold(&sites, same) - 0.9).abs() < 1e-12);
    }
}
