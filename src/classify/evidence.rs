//! The site classifier: combines the confidences of the pages read so far.
//!
//! Pages of one site are not independent: they share an author, a template and a subject, and the
//! product of their odds (paper 4.3.3) makes the tenth page as loud as the first. So the sum of their
//! log-odds is damped:
//!
//! ```text
//! L = L₀ + n^−γ Σ ℓ(p);   confidence = 1 / (1 + e^−L)
//! ```
//!
//! γ between 0 (independent pages) and 1 (a mean) is learned over topics, and L₀ holds how rare a topic
//! is. The paper's rule, [`EvidenceRule::Product`], corrects each confidence by the error of the
//! page classifier and multiplies; we add log-odds, which is equivalent and cannot underflow:
//!
//! ```text
//! L₀ = ln(π / (1 − π));   Lₙ = Lₙ₋₁ + ln Pr'[pₙ|t] − ln Pr'[pₙ|o]
//! ```

use crate::web::{EvidenceRule, PageConfidence, SiteConfidence};

use super::model::Thresholds;

/// Pr'\[p|k\] = Pr\[p|k\] (1 − `p_err`) + (1 − Pr\[p|k\]) `p_err` (paper 4.3.3): the
/// confidence of a classifier that is wrong with probability `p_err`.
#[must_use]
pub(crate) fn error_corrected(confidence: PageConfidence, p_err: f64) -> f64 {
    confidence.get() * (1.0 - p_err) + confidence.complement() * p_err
}

/// How pages that are not independent are weighed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Damping {
    /// γ: the sum over n pages counts n^−γ times.
    pub(crate) gamma: f64,
    /// Log-odds before any page is read, part of the confidence of each single page.
    pub(crate) base: f64,
}

/// The evidence about a site.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SiteEvidence {
    rule: EvidenceRule,
    damping: Damping,
    /// Log-odds of the prior.
    prior: f64,
    /// Log-odds of the pages.
    sum: f64,
    speaking_pages: usize,
}

impl SiteEvidence {
    /// Evidence before any page was read.
    #[must_use]
    pub(crate) fn new(rule: EvidenceRule, damping: Damping, prior: SiteConfidence) -> Self {
        // A prior of 0 or 1 could not be changed by any page.
        let prior = prior.get().clamp(1e-6, 1.0 - 1e-6);
        Self {
            rule,
            damping,
            prior: log_odds(prior),
            sum: 0.0,
            speaking_pages: 0,
        }
    }

    /// Adds a page that spoke.
    pub(crate) fn add(&mut self, confidence: PageConfidence, p_err: f64) {
        self.sum += match self.rule {
            // With `p_err` 0, a page of confidence 0 or 1 would outweigh all others for ever.
            EvidenceRule::Product => {
                log_odds(error_corrected(confidence, p_err).clamp(1e-9, 1.0 - 1e-9))
            }
            EvidenceRule::Damped => {
                log_odds(confidence.get().clamp(1e-9, 1.0 - 1e-9)) - self.damping.base
            }
        };
        self.speaking_pages += 1;
    }

    /// L.
    fn log_odds(&self) -> f64 {
        match self.rule {
            EvidenceRule::Product => self.prior + self.sum,
            EvidenceRule::Damped if self.speaking_pages == 0 => self.prior,
            EvidenceRule::Damped => {
                let damped = self.sum * pages(self.speaking_pages).powf(-self.damping.gamma);
                self.prior + self.damping.base + damped
            }
        }
    }

    /// Pr\[target | pages that spoke\].
    #[must_use]
    pub(crate) fn confidence(&self) -> SiteConfidence {
        SiteConfidence::from_log_odds(self.log_odds())
    }

    /// Number of pages that spoke.
    #[must_use]
    pub(crate) fn speaking_pages(&self) -> usize {
        self.speaking_pages
    }

    /// Whether the pages speak for the target class.
    #[must_use]
    pub(crate) fn is_for_target(&self) -> bool {
        self.log_odds() > 0.0
    }

    /// What can be said with this evidence.
    #[must_use]
    pub(crate) fn standing(&self, thresholds: &Thresholds) -> EvidenceStanding {
        let confidence = self.confidence();
        let certainty = confidence.get().max(confidence.complement());
        let is_certain = self.speaking_pages > 0 && certainty >= thresholds.p_threshold;
        match self.rule {
            EvidenceRule::Product if is_certain => EvidenceStanding::Final,
            EvidenceRule::Product => EvidenceStanding::Open,
            EvidenceRule::Damped if is_certain && !self.is_for_target() => EvidenceStanding::Final,
            EvidenceRule::Damped => {
                let is_confirmed = is_certain && self.speaking_pages >= thresholds.confirming_pages;
                // A mean of many pages does not become surer by one more.
                let is_enough = self.speaking_pages >= thresholds.deciding_pages;
                if is_confirmed || is_enough {
                    EvidenceStanding::Sufficient
                } else {
                    EvidenceStanding::Open
                }
            }
        }
    }
}

/// What can be said with the evidence so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EvidenceStanding {
    /// More pages are needed.
    Open,
    /// Enough for a verdict, which pages that are read anyway may still change.
    Sufficient,
    /// Enough for a verdict that nothing changes any more.
    Final,
}

fn log_odds(probability: f64) -> f64 {
    (probability / (1.0 - probability)).ln()
}

#[allow(clippy::cast_precision_loss, reason = "no site has 2^53 pages")]
fn pages(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(confidence: f64) -> PageConfidence {
        PageConfidence::new(confidence).unwrap()
    }

    /// By hand: 0.9 · 0.85 + 0.1 · 0.15 = 0.78, and of the other class 0.22.
    #[test]
    fn errors_pull_confidences_to_the_middle() {
        assert!((error_corrected(page(0.9), 0.15) - 0.78).abs() < 1e-12);
        assert!((error_corrected(page(1.0), 0.15) - 0.85).abs() < 1e-12);
        assert!((error_corrected(page(0.3), 0.5) - 0.5).abs() < 1e-12);
    }

    /// By hand, with `p_err` 0.15: pages of 0.9 and 0.7 correct to 0.78 and 0.64. With π =
    /// 1/2 the site is 0.78 · 0.64 / (0.78 · 0.64 + 0.22 · 0.36) = 0.4992 / 0.5784 = 0.86307;
    /// with π = 0.1 it is 0.04992 / (0.04992 + 0.07128) = 0.41188.
    #[test]
    fn two_pages_by_hand() {
        for (prior, wanted) in [(0.5, 0.863_070_5), (0.1, 0.411_881_2)] {
            let mut evidence = SiteEvidence::new(SiteConfidence::new(prior).unwrap());
            evidence.add(page(0.9), 0.15);
            evidence.add(page(0.7), 0.15);
            assert!((evidence.confidence().get() - wanted).abs() < 1e-6);
            assert_eq!(evidence.is_for_target(), wanted > 0.5);
            assert!((evidence.certainty() - wanted.max(1.0 - wanted)).abs() < 1e-6);
            assert_eq!(evidence.speaking_pages(), 2);
        }
    }

    proptest! {
        #[test]
        fn the_order_of_pages_does_not_matter_and_nothing_overflows(
            pages in prop::collection::vec((0.0..=1.0_f64, 0.0..0.5_f64), 0..60),
            prior in 0.0..=1.0_f64,
        ) {
            let prior = SiteConfidence::new(prior).unwrap();
            let (mut there, mut back) = (SiteEvidence::new(prior), SiteEvidence::new(prior));
            for (confidence, p_err) in &pages {
                there.add(page(*confidence), *p_err);
            }
            for (confidence, p_err) in pages.iter().rev() {
                back.add(page(*confidence), *p_err);
            }
            prop_assert!((0.0..=1.0).contains(&there.confidence().get()));
            prop_assert!((there.confidence().get() - back.confidence().get()).abs() < 1e-9);
        }
    }
}
