//! What was learned over many topics, and holds before a new one is known.
//!
//! Five examples of a topic place its scores ([`ScoreSpread`]), but say
//! little about how fast confidence grows with them, or how much several pages of a site say together.
//! That is much the same for all topics: it is learned from topics whose sites are labelled, each learned
//! from a few of them, and judged on the others.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::calibration::{HeldOutSite, ScoreSpread, TARGET_SHARE};

/// What holds for a topic before it is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct TopicPrior {
    /// Log-odds per score above the anchor, and at the anchor.
    pub(super) slope: f64,
    pub(super) base: f64,
    /// γ of the site classifier.
    pub(crate) gamma: f64,
    /// How far the sites of a topic score above the top of the others.
    pub(super) gap: f64,
    /// Strength of the prior: the curvature of its penalty.
    pub(super) strength: f64,
}

impl fmt::Display for TopicPrior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "log-odds {} at the anchor and {} per score above it, gamma {}, gap {}",
            self.base, self.slope, self.gamma, self.gap
        )
    }
}

/// A topic that was learned from some of its sites, and the scores of others.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JudgedTopic {
    /// Where the held-out scores of training lie.
    pub(crate) spread: ScoreSpread,
    /// Sites that were not learned from, of the topic and of kinds not learned from.
    pub(crate) sites: Vec<HeldOutSite>,
}

/// A sigmoid, and how badly it fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SigmoidFit {
    pub(super) slope: f64,
    pub(super) base: f64,
    /// Weighted negative log-likelihood, with the penalty of the prior.
    pub(super) loss: f64,
}

/// Strength of a learned prior, in the curvature that target sites add.
const LEARNED_STRENGTH: f64 = 3.0;

/// Number of pages after which the confidence of a site is fitted.
const LEARNED_AFTER: [usize; 4] = [1, 2, 3, 5];

// === impl TopicPrior ===

impl TopicPrior {
    /// Scores are log-odds. Weak: for classifiers of other scales, and before anything was learned.
    pub(crate) const NONE: Self = Self {
        slope: 1.0,
        base: 0.0,
        gamma: 0.8,
        gap: 0.0,
        strength: 1e-2,
    };

    /// The γ that are tried.
    pub(super) const GAMMAS: [f64; 6] = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

    /// Learns from topics, each of which has the same weight; none without any, or if scores do not
    /// tell their sites from others.
    #[must_use]
    pub(crate) fn learn(topics: &[JudgedTopic]) -> Option<Self> {
        let gaps = topics
            .iter()
            .filter_map(|topic| Some(topic.spread.targets? - topic.spread.top_others));
        let gaps: Vec<f64> = gaps.collect();
        if gaps.is_empty() {
            return None;
        }
        #[allow(clippy::cast_precision_loss, reason = "there are few topics")]
        let gap = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let fits = Self::GAMMAS.map(|gamma| {
            let points: Vec<(f64, bool, f64)> = topics
                .iter()
                .flat_map(|topic| topic.points(gap, gamma))
                .collect();
            (gamma, SigmoidFit::of(&points, &Self::NONE))
        });
        let best = fits
            .into_iter()
            .min_by(|one, other| one.1.loss.total_cmp(&other.1.loss));
        let (gamma, fit) = best?;
        // Rounded to what matters, so that machines whose logarithms differ in the last digit learn the
        // same.
        let rounded = |number: f64| (number * 1e4).round() / 1e4;
        let learned = Self {
            slope: rounded(fit.slope),
            base: rounded(fit.base),
            gamma,
            gap: rounded(gap),
            strength: LEARNED_STRENGTH,
        };
        Some(learned).filter(Self::is_sound)
    }

    /// Whether it comes from topics.
    #[must_use]
    pub(crate) fn is_learned(&self) -> bool {
        self.strength > Self::NONE.strength
    }

    /// Whether all numbers are finite and in range.
    #[must_use]
    pub(crate) fn is_sound(&self) -> bool {
        [self.slope, self.base, self.gap]
            .iter()
            .all(|number| number.is_finite())
            && self.slope > 0.0
            && (0.0..=1.0).contains(&self.gamma)
            && self.strength > 0.0
            && self.strength.is_finite()
    }
}

// === impl JudgedTopic ===

impl JudgedTopic {
    /// Values, classes and weights of its sites: all targets together weigh π, all others 1 − π.
    fn points(&self, gap: f64, gamma: f64) -> Vec<(f64, bool, f64)> {
        let anchor = self.spread.anchor(gap);
        let mut points = Vec::new();
        for pages in LEARNED_AFTER {
            let damped = self.sites.iter().filter_map(|site| {
                let value = site.damped(anchor, gamma, pages)?;
                Some((value, site.is_target, 1.0))
            });
            points.extend(damped);
        }
        let weight_of = |wanted: bool, share: f64| {
            let of_class = points
                .iter()
                .filter(|(_, is_target, _)| *is_target == wanted);
            let weight: f64 = of_class.map(|(_, _, weight)| weight).sum();
            share / weight.max(1.0)
        };
        let (target, other) = (
            weight_of(true, TARGET_SHARE),
            weight_of(false, 1.0 - TARGET_SHARE),
        );
        for (_, is_target, weight) in &mut points {
            *weight = if *is_target { target } else { other };
        }
        points
    }
}

// === impl SigmoidFit ===

impl SigmoidFit {
    /// Maximum a posteriori by Newton's method, of values with their class and weight. The prior keeps
    /// the slope finite where the classes do not overlap.
    pub(super) fn of(points: &[(f64, bool, f64)], prior: &TopicPrior) -> Self {
        // A prior that was learned is in units of the scores; otherwise their scale is unknown.
        let unit = if prior.is_learned() {
            1.0
        } else {
            deviation(points).max(1e-9)
        };
        let goal = (prior.slope * unit, prior.base);
        let strength = prior.strength;
        let (mut slope, mut base) = goal;
        for _ in 0..100 {
            let mut gradient = (strength * (slope - goal.0), strength * (base - goal.1));
            let mut curvature = (strength, 0.0, strength);
            for (value, is_target, weight) in points {
                let value = value / unit;
                let predicted = sigmoid(slope * value + base);
                let error = weight * (predicted - f64::from(u8::from(*is_target)));
                let bend = weight * predicted * (1.0 - predicted);
                gradient.0 += error * value;
                gradient.1 += error;
                curvature.0 += bend * value * value;
                curvature.1 += bend * value;
                curvature.2 += bend;
            }
            let determinant = curvature.0 * curvature.2 - curvature.1 * curvature.1;
            if determinant <= f64::MIN_POSITIVE {
                break;
            }
            let step = (
                (curvature.2 * gradient.0 - curvature.1 * gradient.1) / determinant,
                (curvature.0 * gradient.1 - curvature.1 * gradient.0) / determinant,
            );
            // Newton steps can be too large where the classes hardly overlap.
            let leap = step.0.abs().max(step.1.abs()).max(1.0);
            slope -= step.0 / leap;
            base -= step.1 / leap;
            if step.0.abs().max(step.1.abs()) < 1e-9 {
                break;
            }
        }
        let penalty = strength / 2.0 * ((slope - goal.0).powi(2) + (base - goal.1).powi(2));
        let losses = points.iter().map(|(value, is_target, weight)| {
            let log_odds = slope * value / unit + base;
            let for_truth = if *is_target { log_odds } else { -log_odds };
            // ln(1 + e^−x), without overflow.
            weight * ((-for_truth).max(0.0) + (-for_truth.abs()).exp().ln_1p())
        });
        Self {
            slope: slope / unit,
            base,
            loss: losses.sum::<f64>() + penalty,
        }
    }
}

/// The weight of all other sites beside targets that weigh 1, if targets are this share.
pub(super) fn odds_weight(target_share: f64) -> f64 {
    (1.0 - target_share) / target_share
}

fn sigmoid(log_odds: f64) -> f64 {
    1.0 / (1.0 + (-log_odds).exp())
}

fn deviation(points: &[(f64, bool, f64)]) -> f64 {
    let total: f64 = points.iter().map(|(_, _, weight)| weight).sum();
    let mean: f64 = points.iter().map(|(value, _, weight)| value * weight).sum();
    let mean = mean / total;
    let squares = points
        .iter()
        .map(|(value, _, weight)| weight * (value - mean).powi(2));
    (squares.sum::<f64>() / total).sqrt()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::web::PageKind;

    /// The sigmoid and the damping that synthetic topics are drawn from.
    #[derive(Clone, Copy)]
    struct Truth {
        slope: f64,
        base: f64,
        gamma: f64,
    }

    const TRUTH: Truth = Truth {
        slope: 2.0,
        base: -0.5,
        gamma: 0.7,
    };

    /// A topic of 25 · `sites` sites whose damped sums x are spread evenly over −3 to 3, after any number
    /// of pages: page k scores x (k^γ − (k − 1)^γ) above the anchor. Of the sites at x the share
    /// σ(slope · x + base) is of the topic.
    fn topic(truth: Truth, top_others: f64, gap: f64, sites: u32) -> JudgedTopic {
        let spread = ScoreSpread {
            top_others,
            targets: Some(top_others + gap),
        };
        let anchor = spread.anchor(0.0);
        let mut judged = Vec::new();
        for step in 0..25 {
            let x = -3.0 + f64::from(step) / 4.0;
            let share = sigmoid(truth.slope * x + truth.base);
            let score = |k: f64| x * (k.powf(truth.gamma) - (k - 1.0).powf(truth.gamma)) + anchor;
            let pages = [1.0, 2.0, 3.0, 4.0, 5.0].map(|k| (PageKind::Inner, Some(score(k))));
            judged.extend((0..sites).map(|at| HeldOutSite {
                is_target: f64::from(at) + 0.5 < share * f64::from(sites),
                weight: 1.0,
                host: 0.0,
                pages: pages.to_vec(),
            }));
        }
        JudgedTopic {
            spread,
            sites: judged,
        }
    }

    /// Classes are weighed so that sites of the topic are π of all, which moves the base by the ratio of
    /// the odds of π and of the share drawn. The weak prior that regularises leaves some per cent.
    #[test]
    fn what_topics_were_drawn_from_is_recovered() {
        let places = (0..30).map(f64::from);
        let topics = places.map(|at| topic(TRUTH, at / 10.0, 1.0 + at % 3.0, 40));
        let topics: Vec<JudgedTopic> = topics.collect();
        let learned = TopicPrior::learn(&topics).unwrap();
        let targets = topics[0].sites.iter().filter(|site| site.is_target).count();
        let targets = f64::from(u32::try_from(targets).unwrap());
        let drawn = (1000.0 - targets) / targets;
        let base = TRUTH.base + (drawn / odds_weight(TARGET_SHARE)).ln();
        assert!((learned.gamma - TRUTH.gamma).abs() < 1e-12, "{learned:?}");
        assert!(
            (learned.slope / TRUTH.slope - 1.0).abs() < 0.06,
            "{learned:?}"
        );
        assert!((learned.base - base).abs() < 0.15, "{learned:?} {base}");
        assert!((learned.gap - 2.0).abs() < 1e-12);
        assert!(learned.is_learned() && learned.is_sound());
        assert!(!TopicPrior::NONE.is_learned() && TopicPrior::NONE.is_sound());
    }

    #[test]
    fn each_topic_counts_the_same_whatever_its_number_of_sites() {
        let steep = topic(TRUTH, 0.0, 2.0, 40);
        let flat = Truth {
            slope: 0.5,
            ..TRUTH
        };
        let flat = topic(flat, 1.0, 2.0, 40);
        let mut large = flat.clone();
        large.sites.extend(flat.sites.iter().cloned());
        let learn = |topics: &[&JudgedTopic]| {
            let topics: Vec<JudgedTopic> = topics.iter().copied().cloned().collect();
            TopicPrior::learn(&topics).unwrap()
        };
        let is_same = |one: TopicPrior, other: TopicPrior| {
            (one.slope - other.slope).abs() < 2e-4 && (one.base - other.base).abs() < 2e-4
        };
        let once = learn(&[&steep, &flat]);
        assert!(is_same(once, learn(&[&steep, &large])));
        assert!(is_same(once, learn(&[&flat, &steep])));
        // A second topic of that kind does count.
        assert!(!is_same(once, learn(&[&steep, &flat, &flat])));
    }

    #[test]
    fn nothing_is_learned_from_nothing_or_from_scores_that_mislead() {
        assert_eq!(TopicPrior::learn(&[]), None);
        let mut unplaced = topic(TRUTH, 0.0, 2.0, 4);
        unplaced.spread.targets = None;
        assert_eq!(TopicPrior::learn(&[unplaced]), None);
        let opposite = Truth {
            slope: -2.0,
            ..TRUTH
        };
        assert_eq!(TopicPrior::learn(&[topic(opposite, 0.0, 2.0, 4)]), None);
    }

    /// By hand: at −1 one of four is of the topic, at +1 three of four: the log-odds are ±ln 3.
    #[test]
    fn a_sigmoid_through_two_points_by_hand() {
        let points = [
            (-1.0, true, 1000.0),
            (-1.0, false, 3000.0),
            (1.0, true, 3000.0),
            (1.0, false, 1000.0),
        ];
        let fit = SigmoidFit::of(&points, &TopicPrior::NONE);
        assert!((fit.slope - 3_f64.ln()).abs() < 1e-4);
        assert!(fit.base.abs() < 1e-4);
        // 8000 times the entropy of one in four, in nats.
        let entropy = -(0.25 * 0.25_f64.ln() + 0.75 * 0.75_f64.ln());
        assert!((fit.loss - 8000.0 * entropy).abs() < 0.1);
    }

    /// Without points the prior is all there is.
    #[test]
    fn without_points_the_sigmoid_is_that_of_the_prior() {
        let prior = TopicPrior {
            slope: 3.0,
            base: -2.0,
            strength: 7.0,
            ..TopicPrior::NONE
        };
        let fit = SigmoidFit::of(&[], &prior);
        assert_eq!((fit.slope, fit.base, fit.loss), (3.0, -2.0, 0.0));
    }

    proptest! {
        /// Also where the classes do not overlap, where likelihood alone would have no maximum.
        #[test]
        fn sigmoids_are_finite_and_at_the_minimum(
            points in prop::collection::vec(
                (-5.0..5.0_f64, any::<bool>(), 0.01..5.0_f64), 2..40,
            ),
            is_learned in any::<bool>(),
        ) {
            prop_assume!(deviation(&points) > 0.5);
            let learned = TopicPrior { base: -1.0, strength: 10.0, ..TopicPrior::NONE };
            let prior = if is_learned { learned } else { TopicPrior::NONE };
            let fit = SigmoidFit::of(&points, &prior);
            prop_assert!(fit.slope.is_finite() && fit.base.is_finite() && fit.loss.is_finite());
            // The gradient, in units of the deviation unless the prior was learned, vanishes.
            let unit = if is_learned { 1.0 } else { deviation(&points).max(1e-9) };
            let mut gradient = (
                prior.strength * (fit.slope - prior.slope) * unit,
                prior.strength * (fit.base - prior.base),
            );
            for (value, is_target, weight) in &points {
                let predicted = sigmoid(fit.slope * value + fit.base);
                let error = weight * (predicted - f64::from(u8::from(*is_target)));
                gradient.0 += error * value / unit;
                gradient.1 += error;
            }
            prop_assert!(gradient.0.abs() < 1e-5 && gradient.1.abs() < 1e-5, "{gradient:?}");
        }
    }
}
