//! The site classifier: combines the confidences of the pages read so far.
//!
//! Pages of one site are not independent: they share an author, a template and a subject, and the
//! product of their odds (paper 4.3.3) counts the tenth page as much as the first. So the sum of their
//! log-odds is damped:
//!
//! ```text
//! L = L₀ + n^−γ Σ ℓ(p);   confidence = 1 / (1 + e^−L)
//! ```
//!
//! γ between 0 (independent pages) and 1 (a mean) is learned over topics, and L₀ holds how rare a topic
//! is, and what the name of the host says; ℓ is without that rarity, so that it counts once and not for
//! each page. The paper's rule, [`EvidenceRule::Product`], corrects each confidence by the error of the
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
    /// Log-odds of the words in the host name.
    host: f64,
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
            host: 0.0,
            sum: 0.0,
            speaking_pages: 0,
        }
    }

    /// The same evidence with log-odds for the name of the host. The paper's rule knows pages alone.
    #[must_use]
    pub(crate) fn with_host(self, log_odds: f64) -> Self {
        match self.rule {
            EvidenceRule::Product => self,
            EvidenceRule::Damped => Self {
                host: log_odds,
                ..self
            },
        }
    }

    /// Adds a page that spoke.
    pub(crate) fn add(&mut self, confidence: PageConfidence, p_err: f64) {
        let above_base = log_odds(bounded(confidence.get())) - self.damping.base;
        self.sum += match self.rule {
            EvidenceRule::Product => {
                let confidence = PageConfidence::from_log_odds(above_base);
                log_odds(bounded(error_corrected(confidence, p_err)))
            }
            EvidenceRule::Damped => above_base,
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
                self.prior + self.damping.base + self.host + damped
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

/// A page of confidence 0 or 1 would outweigh all others for ever.
fn bounded(probability: f64) -> f64 {
    probability.clamp(1e-9, 1.0 - 1e-9)
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

    const UNDAMPED: Damping = Damping {
        gamma: 0.0,
        base: 0.0,
    };

    const THRESHOLDS: Thresholds = Thresholds {
        p_threshold: 0.9,
        confirming_pages: 3,
        deciding_pages: 6,
        min_known_terms: 1,
    };

    fn page(confidence: f64) -> PageConfidence {
        PageConfidence::new(confidence).unwrap()
    }

    fn product(prior: f64) -> SiteEvidence {
        let prior = SiteConfidence::new(prior).unwrap();
        SiteEvidence::new(EvidenceRule::Product, UNDAMPED, prior)
    }

    fn damped(gamma: f64, base: f64) -> SiteEvidence {
        let damping = Damping { gamma, base };
        SiteEvidence::new(EvidenceRule::Damped, damping, SiteConfidence::NEUTRAL)
    }

    /// Adds pages of this confidence without errors.
    fn read(mut evidence: SiteEvidence, pages: &[f64]) -> SiteEvidence {
        for confidence in pages {
            evidence.add(page(*confidence), 0.0);
        }
        evidence
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
    fn the_product_of_two_pages_by_hand() {
        for (prior, wanted) in [(0.5, 0.863_070_5), (0.1, 0.411_881_2)] {
            let mut evidence = product(prior);
            evidence.add(page(0.9), 0.15);
            evidence.add(page(0.7), 0.15);
            assert!((evidence.confidence().get() - wanted).abs() < 1e-6);
            assert_eq!(evidence.is_for_target(), wanted > 0.5);
            assert_eq!(evidence.speaking_pages(), 2);
        }
    }

    /// By hand: a confidence of 0.9 is ln 9 = 2.19722, one of 0.8 is ln 4 = 1.38629. A base of −1 is
    /// part of each page and counts once: above it the pages are 3.19722 and 2.38629, together
    /// 5.58352. With γ = 1/2 L = −1 + 5.58352 / √2 = 2.94814, and the confidence
    /// 1 / (1 + e^−2.94814) = 0.95018.
    #[test]
    fn the_damped_sum_of_two_pages_by_hand() {
        let evidence = read(damped(0.5, -1.0), &[0.9, 0.8]);
        assert!((evidence.confidence().get() - 0.950_18).abs() < 1e-5);
        assert!(evidence.is_for_target());
        assert_eq!(evidence.speaking_pages(), 2);
    }

    /// By hand: above a base of −ln 9 a page of 0.5 has the odds 9, a confidence of 0.9, which an error of 0.1
    /// corrects to 0.82. Two of them have the odds (0.82 / 0.18)², a confidence of 0.95402.
    #[test]
    fn the_product_does_not_count_the_base_for_each_page() {
        let damping = Damping {
            gamma: 0.8,
            base: -(9_f64.ln()),
        };
        let mut evidence =
            SiteEvidence::new(EvidenceRule::Product, damping, SiteConfidence::NEUTRAL);
        evidence.add(page(0.5), 0.1);
        evidence.add(page(0.5), 0.1);
        assert!((evidence.confidence().get() - 0.954_02).abs() < 1e-5);
    }

    /// By hand, with γ = 0.8: three pages of ln 4 = 1.38629 give 3^0.2 · 1.38629 = 1.24573 · 1.38629 =
    /// 1.72695, a confidence of 0.84902; the product of their odds would be 64, a confidence of 0.98462.
    #[test]
    fn three_pages_say_less_than_three_times_as_much() {
        let evidence = read(damped(0.8, 0.0), &[0.8; 3]);
        assert!((evidence.confidence().get() - 0.849_02).abs() < 1e-5);
        let evidence = read(product(0.5), &[0.8; 3]);
        assert!((evidence.confidence().get() - 64.0 / 65.0).abs() < 1e-9);
    }

    /// Whatever γ and base are, a single page is what calibration said of it.
    #[test]
    fn a_single_page_has_its_own_confidence() {
        for (gamma, base) in [(0.0, 0.0), (0.5, -2.0), (1.0, 3.0)] {
            let evidence = read(damped(gamma, base), &[0.7]);
            assert!((evidence.confidence().get() - 0.7).abs() < 1e-9);
        }
    }

    /// By hand: a prior of 0.2 has the odds 1/4, a page of 0.9 the odds 9: together 9/4, a confidence of
    /// 9/13. Before any page is read the base says nothing: the confidence is the prior.
    #[test]
    fn the_prior_multiplies_the_odds() {
        let damping = Damping {
            gamma: 0.8,
            base: -1.0,
        };
        let prior = SiteConfidence::new(0.2).unwrap();
        let evidence = SiteEvidence::new(EvidenceRule::Damped, damping, prior);
        assert!((evidence.confidence().get() - 0.2).abs() < 1e-9);
        assert!((read(evidence, &[0.9]).confidence().get() - 9.0 / 13.0).abs() < 1e-9);
    }

    /// By hand: a page of 0.2 has the odds 1/4, a host name with log-odds of ln 8 multiplies them by 8. It says
    /// nothing before a page does, and nothing to the paper's rule.
    #[test]
    fn the_name_of_the_host_counts_once_beside_the_pages() {
        let named = damped(0.8, -1.0).with_host(8_f64.ln());
        assert!((read(named, &[0.2]).confidence().get() - 2.0 / 3.0).abs() < 1e-9);
        assert!((named.confidence().get() - 0.5).abs() < 1e-12);
        assert_eq!(named.standing(&THRESHOLDS), EvidenceStanding::Open);
        let product = product(0.5);
        assert_eq!(product.with_host(8.0), product);
    }

    /// With a mean of log-odds, γ = 1, pages of one confidence never say more than one of them.
    #[test]
    fn a_mean_of_equal_pages_is_one_of_them() {
        let evidence = read(damped(1.0, -1.5), &[0.8; 40]);
        assert!((evidence.confidence().get() - 0.8).abs() < 1e-9);
    }

    /// The threshold is 0.9. By hand, with γ = 0.8: three pages of 0.7 are 3^0.2 · ln(7/3) = 1.0555, a
    /// confidence of 0.742, and not sure. Pages of 0 and 1 are ±ln(10^9 − 1): one for and three against
    /// sum up to −2 of them.
    #[test]
    fn one_page_dismisses_and_three_confirm() {
        let standing = |pages: &[f64]| read(damped(0.8, 0.0), pages).standing(&THRESHOLDS);
        assert_eq!(standing(&[]), EvidenceStanding::Open);
        assert_eq!(standing(&[0.05]), EvidenceStanding::Final);
        assert_eq!(standing(&[0.2]), EvidenceStanding::Open);
        assert_eq!(standing(&[1.0]), EvidenceStanding::Open);
        assert_eq!(standing(&[1.0; 2]), EvidenceStanding::Open);
        assert_eq!(standing(&[1.0; 3]), EvidenceStanding::Sufficient);
        assert_eq!(standing(&[0.7; 3]), EvidenceStanding::Open);
        // Pages for the topic first, and then against it: it is dismissed all the same.
        assert_eq!(standing(&[1.0, 0.0, 0.0, 0.0]), EvidenceStanding::Final);
        // A site is not dismissed because its prior is small.
        let prior = SiteConfidence::new(1e-6).unwrap();
        let unread = SiteEvidence::new(EvidenceRule::Damped, UNDAMPED, prior);
        assert_eq!(unread.standing(&THRESHOLDS), EvidenceStanding::Open);
    }

    #[test]
    fn evidence_that_stays_unsure_is_enough_after_many_pages() {
        for unsure in [0.4, 0.5, 0.6] {
            let standing =
                |pages| read(damped(1.0, 0.0), &vec![unsure; pages]).standing(&THRESHOLDS);
            assert_eq!(standing(5), EvidenceStanding::Open, "{unsure}");
            assert_eq!(standing(6), EvidenceStanding::Sufficient, "{unsure}");
            assert_eq!(standing(60), EvidenceStanding::Sufficient, "{unsure}");
        }
    }

    /// The paper's rule asks for certainty alone, and what it decided is final.
    #[test]
    fn the_product_is_final_both_ways_once_it_is_sure() {
        let standing = |pages: &[f64]| read(product(0.5), pages).standing(&THRESHOLDS);
        assert_eq!(standing(&[]), EvidenceStanding::Open);
        assert_eq!(standing(&[0.95]), EvidenceStanding::Final);
        assert_eq!(standing(&[0.05]), EvidenceStanding::Final);
        assert_eq!(standing(&[0.8]), EvidenceStanding::Open);
        assert_eq!(standing(&[0.5; 60]), EvidenceStanding::Open);
        assert_eq!(product(0.99).standing(&THRESHOLDS), EvidenceStanding::Open);
    }

    proptest! {
        #[test]
        fn the_order_of_pages_does_not_matter_and_nothing_overflows(
            pages in prop::collection::vec((0.0..=1.0_f64, 0.0..0.5_f64), 0..60),
            prior in 0.0..=1.0_f64,
            gamma in 0.0..=1.0_f64,
            base in -50.0..50.0_f64,
            rule in prop::sample::select(vec![EvidenceRule::Damped, EvidenceRule::Product]),
        ) {
            let prior = SiteConfidence::new(prior).unwrap();
            let unread = SiteEvidence::new(rule, Damping { gamma, base }, prior);
            let (mut there, mut back) = (unread, unread);
            for (confidence, p_err) in &pages {
                there.add(page(*confidence), *p_err);
            }
            for (confidence, p_err) in pages.iter().rev() {
                back.add(page(*confidence), *p_err);
            }
            prop_assert!((0.0..=1.0).contains(&there.confidence().get()));
            prop_assert!((there.confidence().get() - back.confidence().get()).abs() < 1e-9);
            prop_assert_eq!(there.speaking_pages(), pages.len());
        }

        #[test]
        fn without_damping_and_errors_both_rules_are_the_same(
            pages in prop::collection::vec(0.0..=1.0_f64, 0..60),
            prior in 0.0..=1.0_f64,
        ) {
            let prior = SiteConfidence::new(prior).unwrap();
            let unread = |rule| SiteEvidence::new(rule, UNDAMPED, prior);
            let damped = read(unread(EvidenceRule::Damped), &pages).confidence().get();
            let product = read(unread(EvidenceRule::Product), &pages).confidence().get();
            prop_assert!((damped - product).abs() < 1e-9);
        }
    }
}
