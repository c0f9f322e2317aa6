//! From example sites to a calibrated page classifier.
//!
//! A fit weighs sites, not pages: the pages of a site share its weight, and both classes
//! weigh one half, so that neither a large site nor the larger class dominates. A
//! cross-validation by site then scores pages of sites that were not trained on;
//! from these scores come calibration, `p_err` and the proposed threshold (paper 4.3.3).
//!
//! Nobody has looked at the sites of the background for this topic: those that are of it after all
//! would teach the model to overlook it. A site of the background that scores like the examples of the
//! topic, by a classifier that had not seen it, is *suspect*: it is left out, and everything is learned
//! again.

use rayon::prelude::*;

use crate::classify::{
    Calibration, CentroidClassifier, CentroidParams, CountedPage, EvidenceStanding, ExampleSite,
    HeldOutSite, Lexicon, LinearClassifier, LinearParams, PageModel, PageVector, ScoreSpread,
    Selection, SiteEvidence, SiteModel, Thresholds, TopicPrior, VocabularyLimits, WeighedPage,
    host_words,
};
use crate::config::{PageClassifierChoice, TrainingSettings};
use crate::web::{EvidenceRule, SiteConfidence};

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

/// Number of pages that must have spoken before a site is found relevant.
const CONFIRMING_PAGES: usize = 3;

/// Number of pages that spoke after which the verdict follows the confidence.
const DECIDING_PAGES: usize = 6;

/// The share of the background that may be suspect. If more were left out, the last ones found are not: the
/// examples then have little in common, and everything looks like them.
const MAX_SUSPECT_SHARE: f64 = 0.1;

/// The number of suspects that a small background may have all the same.
const ALLOWED_SUSPECTS: f64 = 20.0;

/// Weight of a site that a person called other, beside one of the background.
const LABELLED_WEIGHT: f64 = 3.0;

/// The thresholds that training chooses from, the cheapest first.
const P_THRESHOLDS: [f64; 4] = [0.9, 0.95, 0.975, 0.99];

/// How much a higher threshold must lower the balanced Brier score for each additional page per site.
const GAIN_PER_PAGE: f64 = 0.004;

/// A page classifier with the vocabulary it was fitted on.
struct FittedPages {
    selection: Selection,
    pages: PageModel,
}

/// What was learned from example sites, with the scores of each by a classifier that had not seen it.
pub(super) struct LearnedPages {
    fitted: FittedPages,
    /// None if there were too few groups to hold any out.
    folds: Option<usize>,
    held_out: Vec<HeldOutSite>,
}

/// The result of cross-validation on the training sites.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// The number of folds; none if there were too few groups.
    pub(crate) folds: Option<usize>,
    /// Of the training sites, judged by models that were not trained on them.
    pub(crate) measures: Measures,
    /// Sites of the background that look like sites of the topic and were left out, as indices of the
    /// examples.
    pub(crate) suspects: Vec<usize>,
    /// The verdicts that `measures` are of: one for each example that is no suspect, in their order; none
    /// if none was held out.
    pub(crate) outcomes: Vec<Outcome>,
}

// === impl FittedPages ===

impl FittedPages {
    /// Fits a page classifier to the first pages of some sites.
    fn fit(lexicon: &Lexicon, sites: &[ExampleSite<'_>], settings: &TrainingSettings) -> Self {
        let sites = first_pages(sites, settings.pages_per_site);
        let mut classes = [0.0; 2];
        for site in &sites {
            classes[usize::from(site.is_target())] += weight_in_class(site);
        }
        let share =
            |site: &ExampleSite<'_>| weight_in_class(site) / classes[usize::from(site.is_target())];
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

    /// The scores of the first pages of a site, which was not learned from.
    fn held_out(&self, lexicon: &Lexicon, site: &ExampleSite<'_>, pages: usize) -> HeldOutSite {
        let pages = site.pages.iter().take(pages);
        let feature = |term: &str| self.selection.feature(lexicon.get(term)?);
        HeldOutSite {
            is_target: site.is_target(),
            weight: weight_in_class(site),
            host: self.pages.host_score(&host_words(site.site, feature)),
            pages: pages.map(|page| (page.kind, self.score(page))).collect(),
        }
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
                ..THRESHOLDS
            },
        )
    }
}

/// The thresholds of a model, but for the one that training proposes.
const THRESHOLDS: Thresholds = Thresholds {
    p_threshold: P_THRESHOLDS[0],
    confirming_pages: CONFIRMING_PAGES,
    deciding_pages: DECIDING_PAGES,
    min_known_terms: MIN_KNOWN_TERMS,
};

/// What a site weighs beside others of its class.
fn weight_in_class(site: &ExampleSite<'_>) -> f64 {
    if site.is_target() || site.is_background {
        1.0
    } else {
        LABELLED_WEIGHT
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

/// Learns a topic from example sites, with nothing known of other topics.
#[must_use]
pub fn fit_model(
    topic: &str,
    lexicon: &Lexicon,
    sites: &[ExampleSite<'_>],
    settings: &TrainingSettings,
) -> (SiteModel, Validation) {
    fit_model_from(&TopicPrior::NONE, topic, lexicon, sites, settings)
}

/// Learns a topic from example sites: the page classifier from all of them, its calibration from
/// held-out scores and from what was learned over other topics.
#[must_use]
pub(crate) fn fit_model_from(
    prior: &TopicPrior,
    topic: &str,
    lexicon: &Lexicon,
    sites: &[ExampleSite<'_>],
    settings: &TrainingSettings,
) -> (SiteModel, Validation) {
    let (learned, suspects) = learn_without_suspects(lexicon, sites, settings);
    let calibration = Calibration::fit(&learned.held_out, prior_for(prior, settings));
    let simulate = |p_threshold| simulate(&learned.held_out, &calibration, p_threshold);
    let p_threshold = propose_threshold(&learned.held_out, simulate);
    let outcomes = simulate(p_threshold);
    let validation = Validation {
        folds: learned.folds,
        measures: measure(&outcomes),
        suspects,
        outcomes,
    };
    let model = learned
        .fitted
        .into_model(topic, lexicon, calibration, p_threshold);
    (model, validation)
}

/// The prior, if it is one for scores of this page classifier.
fn prior_for<'a>(prior: &'a TopicPrior, settings: &TrainingSettings) -> &'a TopicPrior {
    match settings.page_classifier {
        PageClassifierChoice::Linear => prior,
        PageClassifierChoice::Centroid => &TopicPrior::NONE,
    }
}

/// Learns from all sites but the suspects, which are returned as indices. Without the first ones, others
/// may come to light.
pub(super) fn learn_without_suspects(
    lexicon: &Lexicon,
    sites: &[ExampleSite<'_>],
    settings: &TrainingSettings,
) -> (LearnedPages, Vec<usize>) {
    let mut rest: Vec<usize> = (0..sites.len()).collect();
    let mut suspects: Vec<usize> = Vec::new();
    let background = sites.iter().filter(|site| site.is_background).count();
    let limit = (MAX_SUSPECT_SHARE * count(background)).max(ALLOWED_SUSPECTS);
    loop {
        let kept: Vec<ExampleSite<'_>> = rest.iter().map(|at| sites[*at]).collect();
        let learned = LearnedPages::learn(lexicon, &kept, settings);
        let found = learned.suspects(&kept);
        if found.is_empty() || count(suspects.len() + found.len()) > limit {
            suspects.sort_unstable();
            return (learned, suspects);
        }
        suspects.extend(found.iter().map(|at| rest[*at]));
        rest.retain(|at| !suspects.contains(at));
    }
}

// === impl LearnedPages ===

impl LearnedPages {
    fn learn(lexicon: &Lexicon, sites: &[ExampleSite<'_>], settings: &TrainingSettings) -> Self {
        let folds = folds(sites, settings.folds, settings.seed);
        let held_out = match &folds {
            Some(folds) => held_out_sites(lexicon, sites, folds, settings),
            None => Vec::new(),
        };
        Self {
            fitted: FittedPages::fit(lexicon, sites, settings),
            folds: folds.map(|folds| folds.len()),
            held_out,
        }
    }

    /// Sites of the background that score, by their pages and their host name, at least like the pages of the
    /// mean example that was left out.
    fn suspects(&self, sites: &[ExampleSite<'_>]) -> Vec<usize> {
        let Some(mean) = self.spread().and_then(|spread| spread.mean_of_targets()) else {
            return Vec::new();
        };
        let is_suspect = |at: &usize| {
            let site = &self.held_out[*at];
            let reaches = |score: f64| score + site.host >= mean;
            sites[*at].is_background && site.score().is_some_and(reaches)
        };
        (0..self.held_out.len()).filter(is_suspect).collect()
    }

    /// Where the held-out scores lie.
    pub(super) fn spread(&self) -> Option<ScoreSpread> {
        ScoreSpread::of(&self.held_out)
    }

    /// The scores of the first pages of sites that were not learned from.
    pub(super) fn score(
        &self,
        lexicon: &Lexicon,
        site: &ExampleSite<'_>,
        pages: usize,
    ) -> HeldOutSite {
        self.fitted.held_out(lexicon, site, pages)
    }
}

/// Scores the pages of each fold's sites with a classifier fitted to all other sites.
fn held_out_sites(
    lexicon: &Lexicon,
    sites: &[ExampleSite<'_>],
    folds: &[Vec<usize>],
    settings: &TrainingSettings,
) -> Vec<HeldOutSite> {
    let score_fold = |fold: &Vec<usize>| {
        let seen = (0..sites.len()).filter(|at| fold.binary_search(at).is_err());
        let seen: Vec<ExampleSite<'_>> = seen.map(|at| sites[at]).collect();
        let fitted = FittedPages::fit(lexicon, &seen, settings);
        let score = |at: &usize| {
            let site = &sites[*at];
            (*at, fitted.held_out(lexicon, site, settings.pages_per_site))
        };
        fold.iter()
            .map(score)
            .collect::<Vec<(usize, HeldOutSite)>>()
    };
    let mut held_out: Vec<(usize, HeldOutSite)> =
        folds.par_iter().flat_map_iter(score_fold).collect();
    held_out.sort_unstable_by_key(|(at, _)| *at);
    held_out.into_iter().map(|(_, site)| site).collect()
}

/// How sites would have been judged with a threshold, had their pages been read in
/// breadth-first order.
fn simulate(sites: &[HeldOutSite], calibration: &Calibration, p_threshold: f64) -> Vec<Outcome> {
    let thresholds = Thresholds {
        p_threshold,
        ..THRESHOLDS
    };
    let judge = |site: &HeldOutSite| {
        let neutral = SiteConfidence::NEUTRAL;
        let mut evidence = SiteEvidence::new(EvidenceRule::Damped, calibration.damping(), neutral)
            .with_host(calibration.host_log_odds(site.host));
        let mut read = 0;
        for (kind, score) in &site.pages {
            read += 1;
            let Some(score) = score else { continue };
            evidence.add(calibration.confidence(*score), calibration.p_err_of(*kind));
            if evidence.standing(&thresholds) != EvidenceStanding::Open {
                break;
            }
        }
        Outcome {
            is_relevant: evidence.is_for_target(),
            confidence: evidence.confidence(),
            is_target: site.is_target,
            pages: read,
        }
    };
    sites.iter().map(judge).collect()
}

/// The cheapest threshold, unless a higher one gains more than [`GAIN_PER_PAGE`].
fn propose_threshold(sites: &[HeldOutSite], simulate: impl Fn(f64) -> Vec<Outcome>) -> f64 {
    let targets = count(sites.iter().filter(|site| site.is_target).count()).max(1.0);
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
    use crate::classify::{Class, any_site};
    use crate::web::{PageKind, PageTerms, TermNumbers};

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
            site: any_site(),
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

    fn held_out(scores: &[Option<f64>], is_target: bool) -> HeldOutSite {
        let page = |score: &Option<f64>| (PageKind::Inner, *score);
        HeldOutSite {
            is_target,
            weight: 1.0,
            host: 0.0,
            pages: scores.iter().map(page).collect(),
        }
    }

    /// Scores as log-odds and γ = 0.8, as for a blind calibration. By hand: three pages of 2 give
    /// 3^0.2 · 2 = 2.49146, a confidence of 0.92354; four give 4^0.2 · 2 = 2.63902, 0.93332. One page of
    /// −3 gives 0.04743.
    #[test]
    fn simulated_reading_stops_at_the_threshold() {
        let judge =
            |site: HeldOutSite, p_threshold| simulate(&[site], &Calibration::BLIND, p_threshold)[0];
        for (score, p_threshold, read, confidence) in [
            (2.0, 0.9, 3, 0.923_54),
            (2.0, 0.99, 4, 0.933_32),
            (-3.0, 0.9, 1, 0.047_43),
        ] {
            let outcome = judge(held_out(&[Some(score); 4], true), p_threshold);
            assert_eq!(outcome.pages, read);
            assert!(
                (outcome.confidence.get() - confidence).abs() < 2e-5,
                "{outcome:?}"
            );
            assert_eq!(outcome.is_relevant, score > 0.0);
            assert!(outcome.is_target);
        }
        let silent = judge(held_out(&[None; 3], true), 0.9);
        assert!(!silent.is_relevant);
        assert_eq!(silent.pages, 3);
        let unsure = judge(held_out(&[Some(0.1); DECIDING_PAGES + 4], true), 0.99);
        assert_eq!(unsure.pages, DECIDING_PAGES);
        assert!(unsure.is_relevant);
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
        let sites = [held_out(&[], true)];
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

    const SAILING: &str = "sail boat regatta crew wind keel jib mast";
    const BAKING: &str = "bread oven flour cake dough loaf yeast crust";
    const CHESS: &str = "pawn rook knight bishop castle mate queen king";

    /// Pages of sites that have all words of some topics, in the parts that are given.
    struct Written {
        lexicon: Lexicon,
        /// Pages, class, and whether the site is of the background.
        sites: Vec<(Vec<CountedPage>, Class, bool)>,
    }

    impl Written {
        fn new() -> Self {
            Self {
                lexicon: Lexicon::default(),
                sites: Vec::new(),
            }
        }

        /// A number of sites of one page.
        fn add(mut self, number: usize, words: &str, class: Class, is_background: bool) -> Self {
            for _ in 0..number {
                let pages = pages(&mut self.lexicon, &[words]);
                self.sites.push((pages, class, is_background));
            }
            self
        }

        /// Each site is a group of its own.
        fn examples(&self) -> Vec<ExampleSite<'_>> {
            let mut examples = Vec::new();
            for ((pages, class, is_background), group) in self.sites.iter().zip(0..) {
                examples.push(ExampleSite {
                    class: *class,
                    site: any_site(),
                    group,
                    is_background: *is_background,
                    pages,
                });
            }
            examples
        }
    }

    /// Five examples with six words of the topic, twenty sites of the background with others, and one
    /// site with all words of the topic: that is the last.
    fn with_one_more_of_the_topic(class: Class, is_background: bool) -> Written {
        let some: Vec<&str> = SAILING.split(' ').take(6).collect();
        Written::new()
            .add(5, &some.join(" "), Class::Target, false)
            .add(10, BAKING, Class::Other, true)
            .add(10, CHESS, Class::Other, true)
            .add(1, SAILING, class, is_background)
    }

    fn fit(written: &Written, sites: &[ExampleSite<'_>]) -> (SiteModel, Validation) {
        let settings = TrainingSettings::default();
        fit_model("sailing", &written.lexicon, sites, &settings)
    }

    /// What is learned then is what would have been learned without it.
    #[test]
    fn a_site_of_the_background_that_is_of_the_topic_is_found_and_left_out() {
        let written = with_one_more_of_the_topic(Class::Other, true);
        let examples = written.examples();
        let (model, validation) = fit(&written, &examples);
        assert_eq!(validation.suspects, [25]);
        let (without, of_rest) = fit(&written, &examples[..25]);
        assert_eq!(of_rest.suspects, Vec::<usize>::new());
        assert_eq!(model, without);
        assert_eq!(model.to_bytes(), without.to_bytes());
        assert_eq!(validation.measures, of_rest.measures);
    }

    /// A person has looked at it; nor is an example of the topic a suspect.
    #[test]
    fn a_labelled_site_is_never_suspect() {
        for class in [Class::Other, Class::Target] {
            let written = with_one_more_of_the_topic(class, false);
            let (_, validation) = fit(&written, &written.examples());
            assert_eq!(validation.suspects, Vec::<usize>::new());
        }
    }

    /// Without groups to hold out, nothing is known to be of the topic.
    #[test]
    fn without_held_out_scores_nothing_is_suspect() {
        let written = Written::new().add(1, SAILING, Class::Target, false).add(
            3,
            SAILING,
            Class::Other,
            true,
        );
        let (_, validation) = fit(&written, &written.examples());
        assert_eq!((validation.folds, validation.suspects), (None, Vec::new()));
    }

    #[test]
    fn a_labelled_other_site_weighs_three_times_one_of_the_background() {
        let weight = |class, is_background| {
            weight_in_class(&ExampleSite {
                is_background,
                ..site(&[], class)
            })
        };
        let of_background = weight(Class::Other, true);
        assert!((weight(Class::Other, false) - 3.0 * of_background).abs() < 1e-12);
        assert!((weight(Class::Target, false) - of_background).abs() < 1e-12);
        // As many sites of either kind: the words of the labelled ones count more against a page.
        let written = Written::new()
            .add(5, SAILING, Class::Target, false)
            .add(5, BAKING, Class::Other, false)
            .add(5, CHESS, Class::Other, true);
        let examples = written.examples();
        let settings = TrainingSettings::default();
        let fitted = FittedPages::fit(&written.lexicon, &examples, &settings);
        let score = |at: usize| fitted.score(&examples[at].pages[0]).unwrap();
        let (of_topic, labelled, of_background) = (score(0), score(5), score(10));
        assert!(labelled < of_background && of_background < of_topic);
    }
}
