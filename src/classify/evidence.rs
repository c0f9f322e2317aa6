//! The site classifier: combines the confidences of the pages read so far (paper 4.3.3).
//!
//! The paper multiplies probabilities and normalises; we add log-odds, which is equivalent and
//! cannot underflow:
//!
//! ```text
//! L₀ = ln(π / (1 − π));   Lₙ = Lₙ₋₁ + ln Pr'[pₙ|t] − ln Pr'[pₙ|o];   confidence = 1 / (1 + e^−Lₙ)
//! ```
//!
//! Deviation: π is neutral unless the visit sets another one. With the rate of relevant sites as
//! prior, a single mute page can decide.

use crate::web::{PageConfidence, SiteConfidence};

/// Pr'\[p|k\] = Pr\[p|k\] (1 − `p_err`) + (1 − Pr\[p|k\]) `p_err` (paper 4.3.3): the
/// confidence of a classifier that is wrong with probability `p_err`.
#[must_use]
pub(crate) fn error_corrected(confidence: PageConfidence, p_err: f64) -> f64 {
    confidence.get() * (1.0 - p_err) + confidence.complement() * p_err
}

/// The evidence about a site.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SiteEvidence {
    log_odds: f64,
    speaking_pages: usize,
}

impl SiteEvidence {
    /// Evidence before any page was read.
    #[must_use]
    pub(crate) fn new(prior: SiteConfidence) -> Self {
        // A prior of 0 or 1 could not be changed by any page.
        let prior = prior.get().clamp(1e-6, 1.0 - 1e-6);
        Self {
            log_odds: (prior / (1.0 - prior)).ln(),
            speaking_pages: 0,
        }
    }

    /// Adds a page that spoke.
    pub(crate) fn add(&mut self, confidence: PageConfidence, p_err: f64) {
        // With `p_err` 0, a page of confidence 0 or 1 would outweigh all others for ever.
        let for_target = error_corrected(confidence, p_err).clamp(1e-9, 1.0 - 1e-9);
        self.log_odds += for_target.ln() - (1.0 - for_target).ln();
        self.speaking_pages += 1;
    }

    /// Pr\[target | pages that spoke\].
    #[must_use]
    pub(crate) fn confidence(&self) -> SiteConfidence {
        SiteConfidence::from_log_odds(self.log_odds)
    }

    /// Number of pages that spoke.
    #[must_use]
    pub(crate) fn speaking_pages(&self) -> usize {
        self.speaking_pages
    }

    /// max(confidence, 1 − confidence).
    #[must_use]
    pub(crate) fn certainty(&self) -> f64 {
        let confidence = self.confidence();
        confidence.get().max(confidence.complement())
    }

    /// Whether the pages speak for the target class.
    #[must_use]
    pub(crate) fn is_for_target(&self) -> bool {
        self.log_odds > 0.0
    }
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
