//! From scores to confidences, learned from sites that the classifier had not seen.
//!
//! The input are scores of held-out pages from a cross-validation by site. A sigmoid fitted to them
//! maps scores to confidences (Platt: Probabilistic Outputs for Support Vector Machines, 1999). The
//! rate of scores on the wrong side is `p_err` (paper 4.3.3; the paper's table 2 prints the accuracy
//! there).
//!
//! Pages are not equally reliable. Each [`PageKind`] has its own error, shrunk towards that of all
//! pages the fewer sites it was learned from. All kinds share one sigmoid: with one for each kind
//! real sites were judged a little worse, with both random assignments of folds that were tried.
//!
//! Deviations from the paper: the error is balanced, the mean of the errors of both classes, because
//! with few target sites among many others plain accuracy is high for a classifier that never finds
//! one. And sites have equal weights, not pages.
//!
//! The weights of the classes are neither equal nor as in training, but in between ([`MIX`]): with
//! equal ones most finds for a rare topic are false; with those of training each page would count the
//! rarity of the topic again, which is a property of the corpus, not of the page.

use serde::{Deserialize, Serialize};

use crate::web::{PageConfidence, PageKind};

/// Weights of the classes, interpolated in log-odds: 0 is equal, 1 is as in training.
const MIX: f64 = 0.75;

/// Weight, in sites, of the error of all pages against that of one kind.
const INERTIA: f64 = 20.0;

/// Weight, in sites, of the prior that scores are log-odds already.
const PRIOR_TRUST: f64 = 1e-2;

/// Lower bound of errors: training sites are too few to prove a smaller one.
const MIN_ERROR: f64 = 0.02;

/// Upper bound of errors: a classifier with 1/2 has learned nothing.
const MAX_ERROR: f64 = 0.49;

/// With this error a classifier is useless.
const HOPELESS_ERROR: f64 = 0.45;

/// The score of a page by a classifier that had not seen its site.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HeldOutPage {
    pub(crate) score: f64,
    pub(crate) kind: PageKind,
    /// Whether its site is of the target class.
    pub(crate) is_target: bool,
    /// The pages of a site and kind share the weight 1.
    pub(crate) weight: f64,
}

/// Maps scores to confidences, by kind of page.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Calibration {
    kinds: [KindCalibration; 3],
    /// The balanced error of all pages together.
    p_err: f64,
}

/// The calibration of one kind of page.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct KindCalibration {
    /// Log-odds per score.
    pub(crate) slope: f64,
    /// Log-odds at score zero.
    pub(crate) offset: f64,
    /// How often the confidence is on the wrong side of 1/2, with equal weights of the classes.
    pub(crate) p_err: f64,
}

// === impl Calibration ===

impl Calibration {
    /// Takes scores for log-odds and assumes an error: for when there is nothing to learn from.
    pub(crate) const BLIND: Self = Self {
        kinds: [KindCalibration {
            slope: 1.0,
            offset: 0.0,
            p_err: 0.25,
        }; 3],
        p_err: 0.25,
    };

    /// Learns from held-out pages; [`Self::BLIND`] if a class is missing.
    #[must_use]
    pub(crate) fn fit(pages: &[HeldOutPage]) -> Self {
        let Some(sample) = Sample::new(pages) else {
            return Self::BLIND;
        };
        let sigmoid = sample.sigmoid();
        let shared_error = sample.balanced_error(sigmoid);
        let error_of = |kind: PageKind| {
            let own = pages.iter().filter(|page| page.kind == kind).copied();
            let own: Vec<HeldOutPage> = own.collect();
            let Some(own) = Sample::new(&own) else {
                return shared_error;
            };
            let pulled = own.balanced_error(sigmoid) * own.sites + shared_error * INERTIA;
            pulled / (own.sites + INERTIA)
        };
        let of_kind = |kind: PageKind| KindCalibration {
            slope: sigmoid.slope,
            offset: sigmoid.offset,
            p_err: error_of(kind).clamp(MIN_ERROR, MAX_ERROR),
        };
        Self {
            kinds: PageKind::ALL.map(of_kind),
            p_err: shared_error.clamp(MIN_ERROR, MAX_ERROR),
        }
    }

    #[must_use]
    pub(crate) fn confidence(&self, score: f64, kind: PageKind) -> PageConfidence {
        let of_kind = self.of_kind(kind);
        PageConfidence::from_log_odds(of_kind.slope * score + of_kind.offset)
    }

    /// The calibration of one kind of page.
    #[must_use]
    pub(crate) fn of_kind(&self, kind: PageKind) -> &KindCalibration {
        &self.kinds[kind as usize]
    }

    /// Whether confidences are no better than chance.
    #[must_use]
    pub(crate) fn knows_nothing(&self) -> bool {
        self.p_err >= HOPELESS_ERROR
    }

    /// Whether all numbers are finite and in range.
    pub(super) fn is_sound(&self) -> bool {
        let is_error = |error: f64| (0.0..0.5).contains(&error);
        let is_sound = |kind: &KindCalibration| {
            kind.slope.is_finite() && kind.offset.is_finite() && is_error(kind.p_err)
        };
        self.kinds.iter().all(is_sound) && is_error(self.p_err)
    }

    /// The balanced error over pages of all kinds.
    #[must_use]
    pub(crate) fn p_err(&self) -> f64 {
        self.p_err
    }
}

/// Confidence as a function of the score.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sigmoid {
    slope: f64,
    offset: f64,
}

impl Sigmoid {
    const IDENTITY: Self = Self {
        slope: 1.0,
        offset: 0.0,
    };

    /// Confidence 1/2 for every score.
    const INDIFFERENT: Self = Self {
        slope: 0.0,
        offset: 0.0,
    };

    fn at(self, score: f64) -> f64 {
        1.0 / (1.0 + (-(self.slope * score + self.offset)).exp())
    }
}

/// Held-out pages of both classes, weighted by [`MIX`].
struct Sample<'a> {
    pages: &'a [HeldOutPage],
    /// Factors for the weights of other and target pages.
    factors: [f64; 2],
    sites: f64,
}

impl<'a> Sample<'a> {
    /// None if a class is missing.
    fn new(pages: &'a [HeldOutPage]) -> Option<Self> {
        let mut classes = [0_f64; 2];
        for page in pages {
            classes[usize::from(page.is_target)] += page.weight;
        }
        let [other, target] = classes;
        if other <= 0.0 || target <= 0.0 {
            return None;
        }
        let sites = other + target;
        let target_share = 1.0 / (1.0 + (other / target).powf(MIX));
        Some(Self {
            pages,
            factors: [
                sites * (1.0 - target_share) / other,
                sites * target_share / target,
            ],
            sites,
        })
    }

    fn weight_of(&self, page: &HeldOutPage) -> f64 {
        page.weight * self.factors[usize::from(page.is_target)]
    }

    /// Maximum likelihood by Newton's method, with a weak prior for the classifier's own scale, so
    /// that the slope is finite if the classes do not overlap. Scores are in units of their standard
    /// deviation.
    fn sigmoid(&self) -> Sigmoid {
        let unit = self.spread().max(1e-9);
        let trust = PRIOR_TRUST;
        let goal = (Sigmoid::IDENTITY.slope * unit, Sigmoid::IDENTITY.offset);
        let (mut slope, mut offset) = goal;
        for _ in 0..100 {
            let mut gradient = (trust * (slope - goal.0), trust * (offset - goal.1));
            let mut curvature = (trust, 0.0, trust);
            for page in self.pages {
                let weight = self.weight_of(page);
                let score = page.score / unit;
                let predicted = Sigmoid { slope, offset }.at(score);
                let error = weight * (predicted - f64::from(u8::from(page.is_target)));
                let bend = weight * predicted * (1.0 - predicted);
                gradient.0 += error * score;
                gradient.1 += error;
                curvature.0 += bend * score * score;
                curvature.1 += bend * score;
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
            offset -= step.1 / leap;
            if step.0.abs().max(step.1.abs()) < 1e-9 {
                break;
            }
        }
        // Without a positive slope the classifier learned nothing that holds on other sites, and the
        // offset alone would judge all sites the same. Then every confidence is 1/2.
        if slope > 0.0 {
            Sigmoid {
                slope: slope / unit,
                offset,
            }
        } else {
            Sigmoid::INDIFFERENT
        }
    }

    /// The mean of the errors of both classes. Exactly 1/2 counts as half wrong.
    fn balanced_error(&self, sigmoid: Sigmoid) -> f64 {
        let mut wrong = [0_f64; 2];
        let mut all = [0_f64; 2];
        for page in self.pages {
            let class = usize::from(page.is_target);
            let confidence = sigmoid.at(page.score);
            all[class] += page.weight;
            let is_tie = (confidence - 0.5).abs() < 1e-12;
            let is_wrong = (confidence > 0.5) != page.is_target;
            wrong[class] += match (is_tie, is_wrong) {
                (true, _) => page.weight / 2.0,
                (false, true) => page.weight,
                (false, false) => 0.0,
            };
        }
        f64::midpoint(wrong[0] / all[0], wrong[1] / all[1])
    }

    fn spread(&self) -> f64 {
        let weighted = |value: &dyn Fn(&HeldOutPage) -> f64| {
            let sum: f64 = self
                .pages
                .iter()
                .map(|page| page.weight * value(page))
                .sum();
            sum / self.sites
        };
        let mean = weighted(&|page| page.score);
        weighted(&|page| (page.score - mean).powi(2)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_out(score: f64, is_target: bool) -> HeldOutPage {
        HeldOutPage {
            score,
            kind: PageKind::Homepage,
            is_target,
            weight: 1.0,
        }
    }

    /// Two scores only, so that the sigmoid must pass through what was seen: at −1 one of
    /// four is target, at +1 three of four. ln(1/3) = −1.0986 = −slope, so slope 1.0986 and
    /// offset 0; of each class one in four is on the wrong side.
    #[test]
    fn the_sigmoid_passes_through_what_was_seen() {
        let seen = [(-1.0, false), (1.0, true)];
        let mut pages = Vec::new();
        for (score, is_target) in seen {
            pages.extend(std::iter::repeat_n(held_out(score, is_target), 3000));
            pages.extend(std::iter::repeat_n(held_out(score, !is_target), 1000));
        }
        let calibration = Calibration::fit(&pages);
        let home = calibration.of_kind(PageKind::Homepage);
        assert!((home.slope - 3_f64.ln()).abs() < 1e-3, "{home:?}");
        assert!(home.offset.abs() < 1e-3, "{home:?}");
        assert!((home.p_err - 0.25).abs() < 1e-3, "{home:?}");
        let confidence = calibration.confidence(1.0, PageKind::Homepage);
        assert!((confidence.get() - 0.75).abs() < 1e-3);
        // Kinds that were never seen have the error of all pages.
        assert!((calibration.of_kind(PageKind::Deep).p_err - 0.25).abs() < 1e-3);
    }

    /// Nine others, one target: the others are never wrong, the target always. Plain
    /// accuracy would be 0.9.
    #[test]
    fn the_error_is_balanced() {
        let mut pages = vec![held_out(-1.0, false); 9];
        pages.push(held_out(-1.0, true));
        let calibration = Calibration::fit(&pages);
        assert!((calibration.p_err() - MAX_ERROR).abs() < 1e-9);
    }

    #[test]
    fn kinds_that_are_less_reliable_have_larger_errors() {
        let mut pages = Vec::new();
        for at in 0..100 {
            let is_target = at % 2 == 0;
            let right = if is_target { 1.0 } else { -1.0 };
            pages.push(held_out(right, is_target));
            let often = if at % 10 < 4 { -right } else { right };
            pages.push(HeldOutPage {
                kind: PageKind::Deep,
                ..held_out(often, is_target)
            });
        }
        let calibration = Calibration::fit(&pages);
        let home = calibration.of_kind(PageKind::Homepage).p_err;
        let deep = calibration.of_kind(PageKind::Deep).p_err;
        assert!(home < 0.1 && deep > 0.3, "{home} {deep}");
    }

    #[test]
    fn a_classifier_that_learned_the_opposite_is_not_believed() {
        let mut pages = vec![held_out(-1.0, true); 3];
        pages.extend(vec![held_out(1.0, false); 20]);
        pages.extend([held_out(0.5, true), held_out(-0.5, false)]);
        let calibration = Calibration::fit(&pages);
        for score in [-9.0, 0.0, 9.0] {
            let confidence = calibration.confidence(score, PageKind::Inner).get();
            assert!((confidence - 0.5).abs() < 1e-12, "{confidence}");
        }
        assert!(calibration.knows_nothing());
    }

    #[test]
    fn without_both_classes_nothing_is_learned() {
        assert_eq!(Calibration::fit(&[]), Calibration::BLIND);
        assert_eq!(Calibration::fit(&[held_out(3.0, true)]), Calibration::BLIND);
        // All scores equal: nothing to learn, but no division by zero either.
        let calibration = Calibration::fit(&[held_out(2.0, true), held_out(2.0, false)]);
        let confidence = calibration.confidence(2.0, PageKind::Inner);
        assert!((0.0..=1.0).contains(&confidence.get()));
    }
}
