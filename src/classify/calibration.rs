//! From scores to confidences, learned from sites that the classifier had not seen.
//!
//! Examples of a topic are scored by classifiers that were fitted without them, in up to ten folds that
//! keep groups together, and so are the other sites. From these scores come, for each topic:
//!
//! - the *anchor*: a score between those of other sites and those of the topic, from which scores are
//!   measured. It lies [`ANCHOR_SHARE`] of the way from the [`TOP_OTHERS`] quantile of the other sites to
//!   the mean of the topic's. Other sites are many, so that quantile is known well; examples are few, so
//!   only their mean is used.
//! - the sigmoid (Platt: Probabilistic Outputs for Support Vector Machines, 1999) that maps
//!   what is above the anchor to a confidence. With five examples it cannot be fitted: it is shrunk
//!   towards the one that was learned over many topics ([`TopicPrior`]).
//! - the rate of scores on the wrong side, `p_err` (paper 4.3.3; the paper's table 2 prints the accuracy
//!   there). Pages are not equally reliable: each [`PageKind`] has its own error, shrunk towards that of
//!   all pages the fewer sites it was learned from.
//!
//! What is fitted is the confidence of sites after one, two and three pages, not that of pages by
//! themselves.
//!
//! **π.** How rare a topic is on the web is not known when it is learned, and neither the share of
//! examples in training says so, nor that in an evaluation. Confidences are those of a crawl in which
//! [`TARGET_SHARE`] of the sites visited are of the topic. Crawls that follow recommendations have more of
//! them, and then confidences are too low, by the ratio of the odds: a list with a wrong site costs trust,
//! and one that misses a site does not. Where the topic is rarer, confidences are too high.
//!
//! Deviations from the paper: the error is balanced, the mean of the errors of both classes, because
//! with few target sites among many others plain accuracy is high for a classifier that never finds
//! one. And sites have equal weights, not pages.

use serde::{Deserialize, Serialize};

use crate::web::{PageConfidence, PageKind};

use super::evidence::Damping;
use super::topic_prior::{SigmoidFit, TopicPrior, odds_weight};

/// π: the share of sites of the topic among those that a crawl visits.
pub(super) const TARGET_SHARE: f64 = 0.05;

/// Without a learned prior the other sites are those that somebody chose, and so is their number. Then the
/// odds against the topic are neither equal nor as in training, but in between, interpolated in
/// log-odds: 0 is equal, 1 as in training.
const MIX: f64 = 0.75;

/// Where the anchor lies between other sites and those of the topic.
const ANCHOR_SHARE: f64 = 0.3;

/// The quantile of other sites that the anchor is measured from. Those above it may be of the topic: a
/// background has some sites of most topics, and not all of them are found out.
const TOP_OTHERS: f64 = 0.95;

/// Pages of a site that its score is the mean of: as many as confirm a site.
const SCORED_PAGES: usize = 3;

/// Number of pages after which the confidence of a site is fitted.
const FITTED_AFTER: [usize; 3] = [1, 2, 3];

/// Number of target sites from which a topic has a γ of its own.
const OWN_GAMMA_FROM: usize = 20;

/// Weight, in sites, of the error of all pages against that of one kind.
const INERTIA: f64 = 20.0;

/// Lower bound of errors: training sites are too few to prove a smaller one.
const MIN_ERROR: f64 = 0.02;

/// Upper bound of errors: a classifier with 1/2 has learned nothing.
const MAX_ERROR: f64 = 0.49;

/// With this error a classifier is useless.
const HOPELESS_ERROR: f64 = 0.45;

/// A site whose pages were scored by a classifier that had not seen it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeldOutSite {
    pub(crate) is_target: bool,
    /// What it counts beside others of its class.
    pub(crate) weight: f64,
    /// What its host name adds to the scores of its pages.
    pub(crate) host: f64,
    /// Its pages in the order read, with their scores; none for mute ones.
    pub(crate) pages: Vec<(PageKind, Option<f64>)>,
}

/// Maps scores to confidences.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Calibration {
    /// The score from which others are measured.
    anchor: f64,
    /// Log-odds per score above the anchor.
    slope: f64,
    /// Log-odds of a page at the anchor.
    base: f64,
    /// γ of the site classifier.
    gamma: f64,
    /// How often the confidence of a page is on the wrong side of 1/2, with equal weights of the
    /// classes: of each kind of page, then of all.
    kind_errors: [f64; 3],
    p_err: f64,
}

/// Scores of sites of both classes, as far as they place the anchor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ScoreSpread {
    /// The quantile [`TOP_OTHERS`] of the other sites.
    pub(super) top_others: f64,
    /// The mean of the sites of the topic; none if none was held out.
    pub(super) targets: Option<f64>,
}

// === impl HeldOutSite ===

impl HeldOutSite {
    /// The scores of pages that spoke.
    pub(super) fn scores(&self) -> impl Iterator<Item = f64> {
        self.pages.iter().filter_map(|(_, score)| *score)
    }

    /// The mean score of its first pages; none if all are mute.
    #[must_use]
    pub(crate) fn score(&self) -> Option<f64> {
        let first: Vec<f64> = self.scores().take(SCORED_PAGES).collect();
        (!first.is_empty()).then(|| first.iter().sum::<f64>() / count(first.len()))
    }

    /// n^−γ times the sum of its first n scores above the anchor, for the smaller n if it has fewer, and
    /// what its host name adds.
    pub(super) fn damped(&self, anchor: f64, gamma: f64, pages: usize) -> Option<f64> {
        let above: Vec<f64> = (self.scores().take(pages))
            .map(|score| score - anchor)
            .collect();
        let sum: f64 = above.iter().sum();
        (!above.is_empty()).then(|| sum * count(above.len()).powf(-gamma) + self.host)
    }
}

// === impl ScoreSpread ===

impl ScoreSpread {
    /// None if no other site has a score.
    #[must_use]
    pub(crate) fn of(sites: &[HeldOutSite]) -> Option<Self> {
        let scores = |of_targets: bool| {
            let of_class = sites
                .iter()
                .filter(move |site| site.is_target == of_targets);
            of_class.filter_map(|site| Some((site.score()?, site.weight)))
        };
        let others: Vec<(f64, f64)> = scores(false).collect();
        let targets: Vec<f64> = scores(true).map(|(score, _)| score).collect();
        Some(Self {
            top_others: quantile(others, TOP_OTHERS)?,
            targets: (!targets.is_empty())
                .then(|| targets.iter().sum::<f64>() / count(targets.len())),
        })
    }

    /// The mean score of the sites of the topic that were held out.
    #[must_use]
    pub(crate) fn mean_of_targets(&self) -> Option<f64> {
        self.targets
    }

    /// The anchor; `gap` is assumed if no site of the topic was held out.
    pub(super) fn anchor(&self, gap: f64) -> f64 {
        // Examples that have nothing in common score below the best of the others: that must not make the
        // threshold laxer.
        let gap = self
            .targets
            .map_or(gap, |mean| mean - self.top_others)
            .max(0.0);
        self.top_others + ANCHOR_SHARE * gap
    }
}

// === impl Calibration ===

impl Calibration {
    /// Takes scores for log-odds and assumes an error: for when there is nothing to learn from.
    pub(crate) const BLIND: Self = Self {
        anchor: 0.0,
        slope: 1.0,
        base: 0.0,
        gamma: TopicPrior::NONE.gamma,
        kind_errors: [0.25; 3],
        p_err: 0.25,
    };

    /// Learns from held-out sites, and from what was learned over other topics.
    #[must_use]
    pub(crate) fn fit(sites: &[HeldOutSite], prior: &TopicPrior) -> Self {
        let Some(spread) = ScoreSpread::of(sites) else {
            return Self::BLIND;
        };
        let is_scored = |site: &&HeldOutSite| site.score().is_some();
        let targets = sites.iter().filter(|site| site.is_target);
        let targets = targets.filter(is_scored).count();
        if targets == 0 && !prior.is_learned() {
            return Self::BLIND;
        }
        let anchor = spread.anchor(prior.gap);
        let gammas: &[f64] = if targets >= OWN_GAMMA_FROM {
            &TopicPrior::GAMMAS
        } else {
            &[prior.gamma]
        };
        let fits = gammas
            .iter()
            .map(|gamma| (*gamma, fitted(sites, anchor, *gamma, prior)));
        let best = fits.min_by(|one, other| one.1.loss.total_cmp(&other.1.loss));
        let (gamma, fit) = best.expect("there is at least one γ");
        // Without a positive slope the classifier learned nothing that holds on other sites, and the
        // base alone would judge all sites the same. Then every confidence is 1/2.
        let (slope, base) = if fit.slope > 0.0 {
            (fit.slope, fit.base)
        } else {
            (0.0, 0.0)
        };
        let mut calibration = Self {
            anchor,
            slope,
            base,
            gamma,
            ..Self::BLIND
        };
        if targets > 0 {
            calibration.measure_errors(sites);
        }
        calibration
    }

    fn measure_errors(&mut self, sites: &[HeldOutSite]) {
        let Some((shared, _)) = self.error(sites, None) else {
            return;
        };
        self.p_err = shared.clamp(MIN_ERROR, MAX_ERROR);
        self.kind_errors = PageKind::ALL.map(|kind| {
            let pulled = match self.error(sites, Some(kind)) {
                Some((own, weight)) => (own * weight + shared * INERTIA) / (weight + INERTIA),
                None => shared,
            };
            pulled.clamp(MIN_ERROR, MAX_ERROR)
        });
    }

    /// The balanced error of pages of one kind or of all, and the number of sites that have any; none
    /// if a class has none. Pages of a site share its weight. Exactly 1/2 counts as half wrong.
    fn error(&self, sites: &[HeldOutSite], kind: Option<PageKind>) -> Option<(f64, f64)> {
        let mut wrong = [0_f64; 2];
        let mut all = [0_f64; 2];
        for site in sites {
            let pages = site.pages.iter();
            let pages = pages.filter(|(own, _)| kind.is_none_or(|kind| *own == kind));
            let scores: Vec<f64> = pages.filter_map(|(_, score)| *score).collect();
            if scores.is_empty() {
                continue;
            }
            let misjudged = scores.iter().map(|score| {
                let confidence = self.confidence(*score).get();
                let is_tie = (confidence - 0.5).abs() < 1e-12;
                let is_wrong = (confidence > 0.5) != site.is_target;
                match (is_tie, is_wrong) {
                    (true, _) => 0.5,
                    (false, true) => 1.0,
                    (false, false) => 0.0,
                }
            });
            let class = usize::from(site.is_target);
            wrong[class] += misjudged.sum::<f64>() / count(scores.len());
            all[class] += 1.0;
        }
        let [others, targets] = all;
        let balanced = f64::midpoint(wrong[0] / others, wrong[1] / targets);
        (others > 0.0 && targets > 0.0).then_some((balanced, others + targets))
    }

    /// What a page of this score says of its site, if it is the only one.
    #[must_use]
    pub(crate) fn confidence(&self, score: f64) -> PageConfidence {
        PageConfidence::from_log_odds(self.base + self.slope * (score - self.anchor))
    }

    /// What a score of a host name adds to the log-odds of its site.
    #[must_use]
    pub(crate) fn host_log_odds(&self, score: f64) -> f64 {
        self.slope * score
    }

    /// How the evidence of several pages is combined.
    #[must_use]
    pub(crate) fn damping(&self) -> Damping {
        Damping {
            gamma: self.gamma,
            base: self.base,
        }
    }

    /// The error of one kind of page.
    #[must_use]
    pub(crate) fn p_err_of(&self, kind: PageKind) -> f64 {
        self.kind_errors[kind as usize]
    }

    /// The balanced error over pages of all kinds.
    #[must_use]
    pub(crate) fn p_err(&self) -> f64 {
        self.p_err
    }

    /// Whether confidences are no better than chance.
    #[must_use]
    pub(crate) fn knows_nothing(&self) -> bool {
        self.p_err >= HOPELESS_ERROR
    }

    /// Whether all numbers are finite and in range.
    pub(super) fn is_sound(&self) -> bool {
        let is_error = |error: &f64| (0.0..0.5).contains(error);
        [self.anchor, self.slope, self.base]
            .iter()
            .all(|number| number.is_finite())
            && (0.0..=1.0).contains(&self.gamma)
            && self.kind_errors.iter().all(is_error)
            && is_error(&self.p_err)
    }
}

/// The sigmoid of a topic, shrunk towards the prior. Targets weigh one each, so that more of them
/// outweigh the prior, and other sites together as π says, or [`MIX`] without a learned prior.
fn fitted(sites: &[HeldOutSite], anchor: f64, gamma: f64, prior: &TopicPrior) -> SigmoidFit {
    let mut points = Vec::new();
    for pages in FITTED_AFTER {
        let damped = sites.iter().filter_map(|site| {
            let value = site.damped(anchor, gamma, pages)?;
            Some((value, site.is_target, site.weight))
        });
        points.extend(damped);
    }
    let passes = count(FITTED_AFTER.len());
    let of_class = |wanted: bool| {
        let of_class = points
            .iter()
            .filter(|(_, is_target, _)| *is_target == wanted);
        of_class.map(|(_, _, weight)| weight).sum::<f64>() / passes
    };
    let (targets, others) = (of_class(true), of_class(false));
    let odds = if prior.is_learned() {
        odds_weight(TARGET_SHARE)
    } else {
        let sites = |wanted: bool| {
            let of_class = sites.iter().filter(|site| site.is_target == wanted);
            count(of_class.count()).max(1.0)
        };
        (sites(false) / sites(true)).powf(MIX)
    };
    let weight_of_others = odds * targets / others.max(1.0);
    let points = points.into_iter().map(|(value, is_target, weight)| {
        let of_class = if is_target { 1.0 } else { weight_of_others };
        (value, is_target, weight * of_class / passes)
    });
    SigmoidFit::of(&points.collect::<Vec<_>>(), prior)
}

/// The value below which a share of the weight lies, interpolated between the middles of the weights.
fn quantile(mut weighed: Vec<(f64, f64)>, share: f64) -> Option<f64> {
    weighed.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (first, last) = (*weighed.first()?, *weighed.last()?);
    let total: f64 = weighed.iter().map(|(_, weight)| weight).sum();
    // The first and the last value are the quantiles 0 and 1.
    let (from, to) = (first.1 / 2.0, total - last.1 / 2.0);
    let place = from + share * (to - from);
    let mut before = 0.0;
    let mut below = (from, first.0);
    for (value, weight) in weighed {
        let middle = before + weight / 2.0;
        if middle >= place {
            let step = middle - below.0;
            let part = if step > 0.0 {
                (place - below.0) / step
            } else {
                0.0
            };
            return Some(below.1 + part * (value - below.1));
        }
        before += weight;
        below = (middle, value);
    }
    Some(last.0)
}

#[allow(
    clippy::cast_precision_loss,
    reason = "there are fewer than 2^53 sites"
)]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256Plus;

    use super::*;

    /// A strong prior of its own.
    const LEARNED: TopicPrior = TopicPrior {
        slope: 3.0,
        base: -1.0,
        gamma: 0.65,
        gap: 2.0,
        strength: 100.0,
    };

    fn home(scores: &[f64], is_target: bool) -> HeldOutSite {
        let page = |score: &f64| (PageKind::Homepage, Some(*score));
        HeldOutSite {
            is_target,
            weight: 1.0,
            host: 0.0,
            pages: scores.iter().map(page).collect(),
        }
    }

    fn mute(is_target: bool) -> HeldOutSite {
        HeldOutSite {
            is_target,
            weight: 1.0,
            host: 0.0,
            pages: vec![(PageKind::Homepage, None)],
        }
    }

    fn repeated(site: &HeldOutSite, times: usize) -> impl Iterator<Item = HeldOutSite> {
        std::iter::repeat_n(site.clone(), times)
    }

    /// At +1 three of four sites of the topic and one of a hundred others, at −1 the rest.
    fn overlapping(times: usize) -> Vec<HeldOutSite> {
        let mut sites = Vec::new();
        sites.extend(repeated(&home(&[1.0], true), 3 * times));
        sites.extend(repeated(&home(&[-1.0], true), times));
        sites.extend(repeated(&home(&[1.0], false), times));
        sites.extend(repeated(&home(&[-1.0], false), 99 * times));
        sites
    }

    fn sigmoid(log_odds: f64) -> f64 {
        1.0 / (1.0 + (-log_odds).exp())
    }

    /// By hand: the mean of 3 and 6 is 4.5; a fourth page that speaks is not looked at.
    #[test]
    fn the_score_of_a_site_is_the_mean_of_its_first_pages_that_speak() {
        let page = |score| (PageKind::Inner, score);
        let scores = [None, Some(3.0), None, Some(6.0)];
        let mut site = HeldOutSite {
            is_target: true,
            weight: 1.0,
            host: 0.0,
            pages: scores.map(page).to_vec(),
        };
        assert_eq!(site.score(), Some(4.5));
        site.pages.extend([page(Some(0.0)), page(Some(1000.0))]);
        assert_eq!(site.score(), Some(3.0));
        assert_eq!(mute(true).score(), None);
    }

    /// By hand, above an anchor of 1 and with γ = 1/2: (2 + 4) / √2 = 4.24264 after two pages, and
    /// (2 + 4 + 6) / √3 = 6.92820 after all three.
    #[test]
    fn scores_above_the_anchor_are_summed_and_damped() {
        let site = home(&[3.0, 5.0, 7.0], true);
        let damped = |pages| site.damped(1.0, 0.5, pages).unwrap();
        assert!((damped(1) - 2.0).abs() < 1e-12);
        assert!((damped(2) - 4.242_641).abs() < 1e-6);
        assert!((damped(3) - 6.928_203).abs() < 1e-6);
        assert!((damped(9) - damped(3)).abs() < 1e-12);
        assert_eq!(mute(false).damped(1.0, 0.5, 3), None);
        // The name of the host counts once, whatever the number of pages.
        let named = HeldOutSite { host: 0.5, ..site };
        assert!((named.damped(1.0, 0.5, 2).unwrap() - 4.742_641).abs() < 1e-6);
        assert_eq!(named.score(), Some(5.0));
    }

    /// By hand: of 51 other sites at 0.0, 0.1 … 5.0 the quantile 0.95 is 47.5 steps up, 4.75. The sites
    /// of the topic are at 6 and 7.5, in the mean at 6.75, which is 2 above. Mute sites do not count.
    #[test]
    fn the_anchor_lies_between_the_best_others_and_the_mean_of_the_topic() {
        let mut sites: Vec<HeldOutSite> = (0..=50)
            .map(|at| home(&[f64::from(at) / 10.0], false))
            .collect();
        let others_only = ScoreSpread::of(&sites).unwrap();
        sites.extend([home(&[6.0], true), home(&[7.5], true)]);
        sites.extend([mute(true), mute(false)]);
        let spread = ScoreSpread::of(&sites).unwrap();
        assert!((spread.top_others - 4.75).abs() < 1e-9);
        assert!((spread.mean_of_targets().unwrap() - 6.75).abs() < 1e-9);
        assert!((spread.anchor(100.0) - (4.75 + ANCHOR_SHARE * 2.0)).abs() < 1e-9);
        // Without sites of the topic, the gap of other topics stands in.
        assert_eq!(others_only.mean_of_targets(), None);
        assert!((others_only.anchor(3.0) - (4.75 + ANCHOR_SHARE * 3.0)).abs() < 1e-9);
        assert_eq!(ScoreSpread::of(&[home(&[1.0], true), mute(false)]), None);
        // Sites of the topic at 1 are among the others: the anchor is not drawn down to them.
        let mut unlike: Vec<HeldOutSite> = sites
            .iter()
            .filter(|site| !site.is_target)
            .cloned()
            .collect();
        unlike.extend([home(&[1.0], true), home(&[1.0], true)]);
        let spread = ScoreSpread::of(&unlike).unwrap();
        assert!((spread.anchor(100.0) - 4.75).abs() < 1e-9);
    }

    /// By hand: 0.98 of the way along two values, and along five (3.92 steps). A value of weight 3 counts as
    /// three: of 0, 10, 10, 10, 20 the middle of the tens is at half, and a quarter is half a step below.
    #[test]
    fn quantiles_are_interpolated() {
        assert_eq!(quantile(Vec::new(), 0.98), None);
        assert_eq!(quantile(vec![(7.0, 1.0)], 0.98), Some(7.0));
        assert!((quantile(vec![(1.0, 1.0), (0.0, 1.0)], 0.98).unwrap() - 0.98).abs() < 1e-12);
        let five = [0.0, 0.0, 0.0, 10.0, 20.0]
            .map(|value| (value, 1.0))
            .to_vec();
        assert!((quantile(five, 0.98).unwrap() - 19.2).abs() < 1e-9);
        let weighed = || vec![(0.0, 1.0), (10.0, 3.0), (20.0, 1.0)];
        assert_eq!(quantile(weighed(), 0.5), Some(10.0));
        assert!((quantile(weighed(), 0.25).unwrap() - 5.0).abs() < 1e-9);
    }

    /// Two scores only, so that the sigmoid must pass through what was seen. Other sites are 25 times as
    /// many; in between of that and equal are odds of 25^3/4 = 11.18 against the topic. So those at +1 are
    /// 3/4 to 11.18 · 1/100, at −1 1/4 to 11.18 · 99/100. Of the topic
    /// one in four is on the wrong side of 1/2, of others one in a hundred: balanced 0.13.
    #[test]
    fn the_sigmoid_passes_through_what_was_seen() {
        let calibration = Calibration::fit(&overlapping(1000), &TopicPrior::NONE);
        let confidence = |score| calibration.confidence(score).get();
        let odds = |target: f64, other: f64| target / other / 11.180_34;
        for (score, odds) in [(1.0, odds(0.75, 0.01)), (-1.0, odds(0.25, 0.99))] {
            let wanted = odds / (1.0 + odds);
            assert!(
                (confidence(score) - wanted).abs() < 1e-3,
                "{score}: {} {wanted}",
                confidence(score)
            );
        }
        assert!((calibration.p_err() - 0.13).abs() < 1e-9);
        assert!(!calibration.knows_nothing());
        assert!(calibration.is_sound());
        // Kinds that were never seen have the error of all pages.
        let deep = calibration.p_err_of(PageKind::Deep);
        assert!((deep - calibration.p_err()).abs() < 1e-12);
    }

    /// The evidence of a page at the anchor is the base, and more of them say the same.
    #[test]
    fn pages_at_the_anchor_add_nothing_to_the_first() {
        let calibration = Calibration::fit(&overlapping(10), &LEARNED);
        let at_anchor = calibration.confidence(calibration.anchor);
        assert!((at_anchor.get() - sigmoid(calibration.base)).abs() < 1e-12);
        let Damping { gamma, base } = calibration.damping();
        assert!((gamma - calibration.gamma).abs() < 1e-12);
        assert!((base - calibration.base).abs() < 1e-12);
    }

    #[test]
    fn a_strong_prior_wins_with_few_sites_and_loses_with_many() {
        let prior = TopicPrior {
            slope: 0.3,
            ..LEARNED
        };
        let anchor = ScoreSpread::of(&overlapping(1)).unwrap().anchor(0.0);
        let of_prior = sigmoid(prior.base + prior.slope * (1.0 - anchor));
        let of_many = |prior: &_| Calibration::fit(&overlapping(5000), prior).confidence(1.0);
        let weak = TopicPrior {
            strength: 0.02,
            ..prior
        };
        let seen = of_many(&weak).get();
        assert!((of_prior - seen).abs() > 0.1, "{of_prior} {seen}");
        let few = Calibration::fit(&overlapping(1), &prior).confidence(1.0);
        let (to_prior, to_seen) = ((few.get() - of_prior).abs(), (few.get() - seen).abs());
        assert!(to_prior < to_seen / 2.0, "{few:?} {of_prior} {seen}");
        let many = of_many(&prior).get();
        assert!((many - seen).abs() < 0.02, "{many} {seen}");
    }

    /// However many other sites there are beside a few examples, the prior keeps its weight.
    #[test]
    fn many_other_sites_do_not_outweigh_the_prior() {
        let fit = |others| {
            let mut sites = vec![home(&[1.0], true); 3];
            sites.extend(repeated(&home(&[-1.0], false), others));
            Calibration::fit(&sites, &LEARNED)
        };
        let (few, many) = (fit(50), fit(5000));
        assert!((few.slope - many.slope).abs() < 1e-6);
        assert!((few.base - many.base).abs() < 1e-6);
    }

    /// Nine others, one target: the others are never wrong, the target always. Plain
    /// accuracy would be 0.9.
    #[test]
    fn the_error_is_balanced() {
        let mut sites = vec![home(&[-1.0], false); 9];
        sites.push(home(&[-1.0], true));
        let calibration = Calibration::fit(&sites, &TopicPrior::NONE);
        assert!((calibration.p_err() - MAX_ERROR).abs() < 1e-9);
    }

    /// By hand: a site of the topic has one of four pages on the wrong side, another none: 1/8. One of
    /// two others has its only page there: 1/2. Pages would give 1/5 and 1/2. Balanced 0.3125.
    #[test]
    fn pages_of_a_site_share_its_weight() {
        let calibration = Calibration {
            slope: 1.0,
            ..Calibration::BLIND
        };
        let sites = [
            home(&[1.0, 1.0, -1.0, 1.0], true),
            home(&[1.0], true),
            home(&[1.0], false),
            home(&[-1.0], false),
            mute(false),
        ];
        let (error, weight) = calibration.error(&sites, None).unwrap();
        assert!((error - 0.3125).abs() < 1e-12);
        assert!((weight - 4.0).abs() < 1e-12);
        assert_eq!(calibration.error(&sites, Some(PageKind::Deep)), None);
        // A page of exactly 1/2 is half wrong.
        let ties = [home(&[0.0], true), home(&[-1.0], false)];
        assert_eq!(calibration.error(&ties, None), Some((0.25, 2.0)));
    }

    /// By hand: the homepages of 100 sites are right, two of five deep pages are not: 0.2 for all pages. Of
    /// homepages (0 · 100 + 0.2 · 20) / 120 = 0.0333, of deep pages (0.4 · 100 + 4) / 120 = 0.3667.
    #[test]
    fn kinds_that_are_less_reliable_have_larger_errors() {
        let site = |at: usize| {
            let is_target = at.is_multiple_of(2);
            let right = if is_target { 1.0 } else { -1.0 };
            let often = if at % 10 < 4 { -right } else { right };
            let pages = [(PageKind::Homepage, right), (PageKind::Deep, often)];
            HeldOutSite {
                is_target,
                weight: 1.0,
                host: 0.0,
                pages: pages.map(|(kind, score)| (kind, Some(score))).to_vec(),
            }
        };
        let sites: Vec<HeldOutSite> = (0..100).map(site).collect();
        let calibration = Calibration::fit(&sites, &TopicPrior::NONE);
        let error = |kind| calibration.p_err_of(kind);
        assert!((calibration.p_err() - 0.2).abs() < 1e-9);
        assert!((error(PageKind::Homepage) - 4.0 / 120.0).abs() < 1e-9);
        assert!((error(PageKind::Deep) - 44.0 / 120.0).abs() < 1e-9);
        assert!((error(PageKind::Inner) - 0.2).abs() < 1e-9);
    }

    /// Nor do many pages of a site add up to anything.
    #[test]
    fn a_classifier_that_learned_the_opposite_is_not_believed() {
        let mut sites = vec![home(&[-1.0], true); 3];
        sites.extend(repeated(&home(&[1.0], false), 20));
        sites.extend([home(&[0.5], true), home(&[-0.5], false)]);
        let calibration = Calibration::fit(&sites, &TopicPrior::NONE);
        for score in [-9.0, 0.0, 9.0] {
            let confidence = calibration.confidence(score).get();
            assert!((confidence - 0.5).abs() < 1e-12, "{confidence}");
        }
        assert!(calibration.damping().base.abs() < 1e-12);
        assert!(calibration.knows_nothing());
        assert!(calibration.is_sound());
    }

    #[test]
    fn without_both_classes_nothing_is_learned() {
        let fit = |sites: &[HeldOutSite]| Calibration::fit(sites, &TopicPrior::NONE);
        assert_eq!(fit(&[]), Calibration::BLIND);
        assert_eq!(fit(&[home(&[3.0], true)]), Calibration::BLIND);
        assert_eq!(fit(&[home(&[3.0], false)]), Calibration::BLIND);
        assert_eq!(fit(&[home(&[3.0], false), mute(true)]), Calibration::BLIND);
        // All scores equal: nothing to learn, but no division by zero either.
        let calibration = fit(&[home(&[2.0], true), home(&[2.0], false)]);
        let confidence = calibration.confidence(2.0);
        assert!((0.0..=1.0).contains(&confidence.get()));
        assert!(calibration.is_sound());
    }

    /// Others at 0, so that the anchor is the learned gap's share above it; slope, base and γ are the
    /// learned ones, and the error stays unknown.
    #[test]
    fn without_examples_held_out_the_learned_prior_places_the_sigmoid() {
        let mut sites = vec![home(&[0.0], false); 10];
        sites.push(mute(true));
        let calibration = Calibration::fit(&sites, &LEARNED);
        let anchor = ANCHOR_SHARE * LEARNED.gap;
        for score in [-1.0, 0.0, 1.0, 2.0] {
            let wanted = sigmoid(LEARNED.base + LEARNED.slope * (score - anchor));
            assert!((calibration.confidence(score).get() - wanted).abs() < 1e-9);
        }
        assert!((calibration.damping().gamma - LEARNED.gamma).abs() < 1e-12);
        assert!((calibration.p_err() - Calibration::BLIND.p_err()).abs() < 1e-12);
        // Without other sites, nothing places it.
        assert_eq!(
            Calibration::fit(&[home(&[1.0], true)], &LEARNED),
            Calibration::BLIND
        );
    }

    /// Pages of a site that all say the same are a mean; pages that are independent of each other count
    /// as fully as may be.
    #[test]
    fn a_topic_of_many_sites_has_a_gamma_of_its_own() {
        let mut random = Xoshiro256Plus::seed_from_u64(1);
        let mut noise = || (0..6).map(|_| random.gen_range(-1.0..1.0)).sum::<f64>();
        let mut sites = |targets: usize, is_repeating: bool| -> Vec<HeldOutSite> {
            let mut sites = Vec::new();
            for at in 0..10 * targets {
                let is_target = at < targets;
                let middle = if is_target { 1.0 } else { -1.0 };
                let scores = if is_repeating {
                    [middle + noise(); 3]
                } else {
                    [(); 3].map(|()| middle + noise())
                };
                sites.push(home(&scores, is_target));
            }
            sites
        };
        let gamma = |sites: &[HeldOutSite]| Calibration::fit(sites, &LEARNED).damping().gamma;
        let few = sites(OWN_GAMMA_FROM - 1, true);
        assert!((gamma(&few) - LEARNED.gamma).abs() < 1e-12);
        let [least, .., most] = TopicPrior::GAMMAS;
        assert!((gamma(&sites(100 * OWN_GAMMA_FROM, true)) - most).abs() < 1e-12);
        assert!((gamma(&sites(100 * OWN_GAMMA_FROM, false)) - least).abs() < 1e-12);
        assert!(TopicPrior::GAMMAS.contains(&gamma(&sites(OWN_GAMMA_FROM, true))));
    }
}
