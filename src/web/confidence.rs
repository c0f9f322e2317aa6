//! Confidences as newtypes, so that a page's is never taken for a site's.
//!
//! Invariant: the number inside is finite and lies in [0, 1].

use std::fmt;

use thiserror::Error;

/// A number that is not a probability.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("{0} is not a confidence: it must lie between 0 and 1")]
pub struct ConfidenceError(pub(crate) f64);

macro_rules! confidence {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
        pub struct $name(f64);

        impl $name {
            /// No evidence for either class.
            pub const NEUTRAL: Self = Self(0.5);

            /// Accepts numbers from 0 to 1; everything else, NaN included, is an error.
            pub fn new(value: f64) -> Result<Self, ConfidenceError> {
                if (0.0..=1.0).contains(&value) {
                    Ok(Self(value))
                } else {
                    Err(ConfidenceError(value))
                }
            }

            /// From log-odds: 1 / (1 + e^−x). NaN, which no sum of finite evidence gives, is
            /// neutral.
            #[must_use]
            pub(crate) fn from_log_odds(log_odds: f64) -> Self {
                if log_odds.is_nan() {
                    Self::NEUTRAL
                } else {
                    Self(1.0 / (1.0 + (-log_odds).exp()))
                }
            }

            /// The probability of the target class.
            #[must_use]
            pub fn get(self) -> f64 {
                self.0
            }

            /// The probability of the other class.
            #[must_use]
            pub fn complement(self) -> f64 {
                1.0 - self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:.3}", self.0)
            }
        }
    };
}

confidence! {
    /// Pr\[p | target\]: the page classifier's estimate for one page.
    PageConfidence
}

confidence! {
    /// Pr\[target | sampled pages\]: the site classifier's estimate for a site.
    SiteConfidence
}

impl PageConfidence {
    /// ln(p / (1 − p)); infinite at 0 and 1.
    #[must_use]
    pub(crate) fn log_odds(self) -> f64 {
        self.0.ln() - self.complement().ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_probabilities_are_confidences() {
        for good in [0.0, 0.5, 1.0] {
            assert_eq!(PageConfidence::new(good).map(PageConfidence::get), Ok(good));
        }
        for bad in [-f64::EPSILON, 1.0 + f64::EPSILON, f64::INFINITY] {
            assert_eq!(SiteConfidence::new(bad), Err(ConfidenceError(bad)));
        }
        assert!(SiteConfidence::new(f64::NAN).is_err());
    }

    #[test]
    fn log_odds_and_back() {
        assert_eq!(SiteConfidence::from_log_odds(0.0), SiteConfidence::NEUTRAL);
        let nine_to_one = PageConfidence::from_log_odds(9_f64.ln());
        assert!((nine_to_one.get() - 0.9).abs() < 1e-12);
        assert!((nine_to_one.log_odds() - 9_f64.ln()).abs() < 1e-12);
        assert_eq!(
            SiteConfidence::from_log_odds(f64::INFINITY),
            SiteConfidence(1.0)
        );
        assert_eq!(
            PageConfidence::from_log_odds(f64::NAN),
            PageConfidence::NEUTRAL
        );
    }

    #[test]
    fn the_classes_share_the_probability() {
        let confidence = SiteConfidence::new(0.25).unwrap();
        assert_eq!(
            SiteConfidence::new(confidence.complement()),
            SiteConfidence::new(0.75)
        );
        assert_eq!(confidence.to_string(), "0.250");
    }
}
