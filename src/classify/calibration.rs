//! From scores to confidences, learned from sites that the classifier had not seen.
//!
//! Examples of a topic are scored by classifiers that were fitted without them, each group left out in
//! turn, and so are the other sites. From these scores come, for each topic:
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
//! [`TARGET_SHARE`] of the sites visited are of the topic; crawls that follow recommendations are about
//! there. Where the topic is rarer, confidences are too high, by the ratio of the odds.
//!
//! Deviations from the paper: the error is balanced, the mean of the errors of both classes, because
//! with few target sites among many others plain accuracy is high for a classifier that never finds
//! one. And sites have equal weights, not pages.

use serde::{Deserialize, Serialize};

use crate::web::{PageConfidence, PageKind};

use super::evidence::Damping;
use super::topic_prior::{SigmoidFit, TopicPrior, odds_weight};

/// π: the share of sites of the topic among those that a crawl visits.
pub(super) const TARGET_SHARE: f64 = 0.1;

/// Where the anchor lies between other sites and those of the topic.
const ANCHOR_SHARE: f64 = 0.3;

/// The quantile of other sites that the anchor is measured from. The few above it may be of the topic.
const TOP_OTHERS: f64 = 0.98;

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
pub(crate) struct Spread {
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

    /// n^−γ times the sum of its first n scores above the anchor, for the smaller n if it has fewer.
    pub(super) fn damped(&self, anchor: f64, gamma: f64, pages: usize) -> Option<f64> {
        let above: Vec<f64> = (self.scores().take(pages))
            .map(|score| score - anchor)
            .collect();
        let sum: f64 = above.iter().sum();
        (!above.is_empty()).then(|| sum * count(above.len()).powf(-gamma))
    }
}

// === impl Spread ===

impl Spread {
    /// None if no other site has a score.
    #[must_use]
    pub(crate) fn of(sites: &[HeldOutSite]) -> Option<Self> {
        let scores = |of_targets: bool| {
            let of_class = sites
                .iter()
                .filter(move |site| site.is_target == of_targets);
            of_class.filter_map(HeldOutSite::score)
        };
        let mut others: Vec<f64> = scores(false).collect();
        others.sort_by(f64::total_cmp);
        let targets: Vec<f64> = scores(true).collect();
        Some(Self {
            top_others: quantile(&others, TOP_OTHERS)?,
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
        let gap = self.targets.map_or(gap, |mean| mean - self.top_others);
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
        let Some(spread) = Spread::of(sites) else {
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
/// outweigh the prior, and other sites together as π says.
fn fitted(sites: &[HeldOutSite], anchor: f64, gamma: f64, prior: &TopicPrior) -> SigmoidFit {
    let mut points = Vec::new();
    for pages in FITTED_AFTER {
        let damped = sites.iter().filter_map(|site| {
            let value = site.damped(anchor, gamma, pages)?;
            Some((value, site.is_target))
        });
        points.extend(damped);
    }
    let passes = count(FITTED_AFTER.len());
    let of_class = |wanted: bool| {
        let of_class = points.iter().filter(|(_, is_target)| *is_target == wanted);
        count(of_class.count()) / passes
    };
    let (targets, others) = (of_class(true), of_class(false));
    let weight_of_others = odds_weight(TARGET_SHARE) * targets / others.max(1.0);
    let points = points.into_iter().map(|(value, is_target)| {
        let weight = if is_target { 1.0 } else { weight_of_others };
        (value, is_target, weight / passes)
    });
    SigmoidFit::of(&points.collect::<Vec<_>>(), prior)
}

/// The value below which a share of the sorted ones lies, interpolated.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share * count(last);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the length"
    )]
    let below = (place.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let part = place - count(below);
    Some(sorted[below] + part * (sorted[above] - sorted[below]))
}

#[allow(
    clippy::cast_precision_loss,
    reason = "there are fewer than 2^53 sites"
)]
fn count(number: usize) -> f64 {
    number as f64
}
