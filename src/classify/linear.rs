//! Logistic regression on page vectors, L2-regularised.
//!
//! Solved in the dual, one page at a time (Yu, Huang, Lin: Dual coordinate descent methods
//! for logistic regression and maximum entropy models, 2011). We differ in how the
//! variable of a page is computed: it lies between 0 and the page's cost, and written as
//! cost · σ(u) the condition for the optimum becomes
//!
//! ```text
//! h(u) = u + q (cost · σ(u) − α) + margin = 0
//! ```
//!
//! whose slope is at least 1 everywhere, so that Newton's method with bisection as a safeguard
//! finds the root in a few steps and never leaves the interval.
//!
//! Why by hand: linfa's logistic regression is dense, and on vectors of 10,000 features
//! with 150 entries it takes twenty times as long for the same answer.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256Plus;
use serde::{Deserialize, Serialize};

use super::vector::{Feature, PageVector, narrow};
use super::{Aspect, PageClassifier};

/// How a linear classifier is fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LinearParams {
    /// Cost of an example of weight 1, relative to the norm of the weights.
    pub(crate) cost: f64,
    /// Random seed of the order of pages.
    pub(crate) seed: u64,
}

/// Maximum number of passes over the pages; nearly always fewer are needed.
const MAX_PASSES: usize = 60;

/// The fit has converged when no variable moves by more than this share of its range.
const TOLERANCE: f64 = 2e-3;

/// A weight for each feature, and a bias.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinearClassifier {
    pub(super) weights: Vec<f32>,
    pub(super) bias: f64,
}

/// A weighted training page.
#[derive(Debug, Clone)]
pub(crate) struct WeighedPage {
    pub(crate) vector: PageVector,
    /// Whether its site is of the target class.
    pub(crate) is_target: bool,
    /// The weights of all pages sum up to the number of sites.
    pub(crate) weight: f64,
}

impl LinearClassifier {
    /// Fits the weights by dual coordinate descent.
    #[must_use]
    pub(crate) fn fit(pages: &[WeighedPage], features: usize, params: &LinearParams) -> Self {
        let mut weights = vec![0_f64; features];
        // The bias is the weight of a feature that every page has.
        let mut bias = 0_f64;
        let mut shares = vec![0.5_f64; pages.len()];
        for (page, share) in pages.iter().zip(&shares) {
            let step = share * params.cost * page.weight * page.sign();
            add(&mut weights, &page.vector, step);
            bias += step;
        }
        let mut order: Vec<usize> = (0..pages.len()).collect();
        let mut random = Xoshiro256Plus::seed_from_u64(params.seed);
        for _ in 0..MAX_PASSES {
            order.shuffle(&mut random);
            let mut largest_move = 0_f64;
            for at in &order {
                let page = &pages[*at];
                let cost = params.cost * page.weight;
                if cost <= 0.0 {
                    continue;
                }
                let margin = page.sign() * (dot(&page.vector, &weights) + bias);
                let square = 1.0 + page.square();
                let share = optimal_share(shares[*at], cost, square, margin);
                let moved = share - shares[*at];
                largest_move = largest_move.max(moved.abs());
                shares[*at] = share;
                let step = moved * cost * page.sign();
                add(&mut weights, &page.vector, step);
                bias += step;
            }
            if largest_move < TOLERANCE {
                break;
            }
        }
        Self {
            weights: weights.into_iter().map(narrow).collect(),
            bias,
        }
    }
}

impl PageClassifier for LinearClassifier {
    fn score(&self, page: &PageVector) -> f64 {
        page.dot(&self.weights) + self.bias
    }

    fn contributions(&self, page: &PageVector) -> Vec<(Feature, f64)> {
        let contribution = |(feature, weight): &(Feature, f32)| {
            let share = f64::from(*weight) * f64::from(self.weights[*feature as usize]);
            (*feature, share)
        };
        page.entries().iter().map(contribution).collect()
    }

    fn aspects(&self) -> Vec<Aspect> {
        let weights = self.weights.iter().map(|weight| f64::from(*weight));
        let weights: Vec<(Feature, f64)> = (0..).zip(weights).collect();
        let against = weights.iter().map(|(feature, weight)| (*feature, -weight));
        vec![
            Aspect {
                title: "against the topic".to_owned(),
                features: against.collect(),
            },
            Aspect {
                title: "for the topic".to_owned(),
                features: weights,
            },
        ]
    }
}

impl WeighedPage {
    fn sign(&self) -> f64 {
        if self.is_target { 1.0 } else { -1.0 }
    }

    fn square(&self) -> f64 {
        if self.vector.known_terms() > 0 {
            1.0
        } else {
            0.0
        }
    }
}

/// The root of h, as a share of the cost.
fn optimal_share(share: f64, cost: f64, square: f64, margin: f64) -> f64 {
    let alpha = share * cost;
    let (mut low, mut high) = (-margin - square * (cost - alpha), -margin + square * alpha);
    let mut u = (share / (1.0 - share)).ln().clamp(low, high);
    for _ in 0..30 {
        let sigma = 1.0 / (1.0 + (-u).exp());
        let h = u + square * (cost * sigma - alpha) + margin;
        if h.abs() < 1e-9 {
            break;
        }
        if h > 0.0 {
            high = u;
        } else {
            low = u;
        }
        let newton = u - h / (1.0 + square * cost * sigma * (1.0 - sigma));
        u = if newton > low && newton < high {
            newton
        } else {
            f64::midpoint(low, high)
        };
    }
    // At the ends the logarithm above is undefined.
    (1.0 / (1.0 + (-u).exp())).clamp(1e-12, 1.0 - 1e-12)
}

fn dot(page: &PageVector, weights: &[f64]) -> f64 {
    let products = page.entries().iter();
    products
        .map(|(feature, weight)| f64::from(*weight) * weights[*feature as usize])
        .sum()
}

fn add(weights: &mut [f64], page: &PageVector, step: f64) {
    for (feature, weight) in page.entries() {
        weights[*feature as usize] += step * f64::from(*weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(entries: &[(Feature, f32)], is_target: bool) -> WeighedPage {
        WeighedPage {
            vector: PageVector::normalised(entries.to_vec()),
            is_target,
            weight: 1.0,
        }
    }

    const PARAMS: LinearParams = LinearParams {
        cost: 10.0,
        seed: 1,
    };

    /// One feature, two pages, so that the optimum can be computed by hand. With
    /// w = a·c·x₊ − b·c·x₋ and x₊ = (1), x₋ = (0), a bias feature of 1 on both pages, and
    /// shares a, b: w = 10a, bias = 10(a − b), and at the optimum each share is
    /// σ(−margin): a = σ(−20a + 10b), b = σ(10a − 10b).
    #[test]
    fn the_optimum_satisfies_the_conditions_of_the_dual() {
        let pages = [page(&[(0, 1.0)], true), page(&[], false)];
        let fitted = LinearClassifier::fit(&pages, 1, &PARAMS);
        let a = f64::from(fitted.weights[0]) / 10.0;
        let b = a - fitted.bias / 10.0;
        let sigma = |u: f64| 1.0 / (1.0 + (-u).exp());
        assert!((a - sigma(-20.0 * a + 10.0 * b)).abs() < 5e-3, "{a} {b}");
        assert!((b - sigma(10.0 * a - 10.0 * b)).abs() < 5e-3, "{a} {b}");
    }

    #[test]
    fn words_speak_for_the_class_they_stand_in() {
        let pages = [
            page(&[(0, 1.0), (2, 1.0)], true),
            page(&[(0, 1.0), (2, 1.0)], true),
            page(&[(1, 1.0), (2, 1.0)], false),
            page(&[(1, 1.0), (2, 1.0)], false),
        ];
        let fitted = LinearClassifier::fit(&pages, 3, &PARAMS);
        assert!(fitted.weights[0] > 0.5 && fitted.weights[1] < -0.5);
        assert!(fitted.weights[2].abs() < 0.05, "{:?}", fitted.weights);
        let contributions = fitted.contributions(&pages[0].vector);
        let sum: f64 = contributions.iter().map(|(_, share)| share).sum();
        assert!((sum + fitted.bias - fitted.score(&pages[0].vector)).abs() < 1e-6);
    }

    #[test]
    fn pages_without_weight_or_words_do_no_harm() {
        let mut silent = page(&[(0, 1.0)], false);
        silent.weight = 0.0;
        let pages = [page(&[(0, 1.0)], true), silent, page(&[], false)];
        let fitted = LinearClassifier::fit(&pages, 1, &PARAMS);
        assert!(fitted.weights[0] > 0.0 && fitted.bias.is_finite());
        let nothing = LinearClassifier::fit(&[], 1, &PARAMS);
        assert!(nothing.score(&PageVector::default()).abs() < 1e-12);
    }
}
