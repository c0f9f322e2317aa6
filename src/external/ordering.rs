//! In which order border sites are visited, and how (paper 4.2).
//!
//! An ordering ranks sites by how they are recommended, and may learn from every report. Every
//! ordering puts start sites first.
//!
//! The ordering makes all decisions in which strategies differ:
//!
//! | decision | [`BorderOrdering`] | by default | by the paper |
//! |---|---|---|---|
//! | the rank of a site | [`Ranking::rank`] | mean weight in steps, then number of edges | mean weight as it is (4.2) |
//! | the mean of its edges | [`Ranking::averaging`] | by registrable domain | over all edges alike (4.2) |
//! | the sites that a site recommends | `weigh` | [`edges_of`] | the same |
//! | the prior of a visit | `prior` | neutral | the rate of relevant sites (4.3.3) |
//! | how pages are combined | `evidence_rule` | a damped sum of log-odds | the product of odds (4.3.3) |
//! | the link threshold of a visit | `purpose` | a higher one while the border is short | always the same (4.3.4) |
//! | the order of pages | `page_ordering` | link pages first after the verdict | the same all along (4.3.4) |
//! | the page classifier | `page_classifier` | that of the model | centroids (4.3.1) |

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::config::{ExternalSettings, PageClassifierChoice, Strategy};
use crate::internal::{ByVariance, LinkPagesFirst, PageOrdering};
use crate::store::{Averaging, NewEdge, Rank, Ranking, Standing, TopicTotals};
use crate::web::{EvidenceRule, Purpose, SiteConfidence, SiteReport};

use super::edges::edges_of;

/// In which order border sites are visited, and how.
///
/// What an ordering learns from reports is lost at a restart, and affects the rank of a site when
/// the next edge to it is recorded.
pub trait BorderOrdering: Ranking {
    /// The edges of a report: which sites it recommends, and how much. Called for every report that
    /// is recorded.
    fn weigh(&self, report: &SiteReport) -> Vec<NewEdge> {
        edges_of(report)
    }

    /// How much a site is recommended, from 0 to 1, for display and for the editors' queue. Its rank may
    /// be coarser.
    fn recommendation(&self, standing: &Standing) -> f64 {
        self.rank(standing).value
    }

    /// π, the probability that a site is relevant before anything of it is read.
    fn prior(&self, _totals: &TopicTotals) -> SiteConfidence {
        SiteConfidence::NEUTRAL
    }

    /// How the evidence of the pages of a site is combined.
    fn evidence_rule(&self) -> EvidenceRule {
        EvidenceRule::Damped
    }

    /// The purpose of a visit to a site without a verdict of this model, which determines the link
    /// threshold. The border is scarce while it is shorter than `scarce_border`.
    fn purpose(&self, is_border_scarce: bool) -> Purpose {
        if is_border_scarce {
            Purpose::VerdictAndManyLinks
        } else {
            Purpose::VerdictAndLinks
        }
    }

    /// The order in which the pages of a site are read.
    fn page_ordering(&self) -> Arc<dyn PageOrdering> {
        Arc::new(LinkPagesFirst)
    }

    /// The page classifier that the model of the topic must have; none if any will do.
    fn page_classifier(&self) -> Option<PageClassifierChoice> {
        None
    }
}

/// By the mean weight of a site's edges.
///
/// Weights are rounded to a few steps: confidences of relevant sites are so close together
/// that their differences are noise, and the number of edges says more. Paper 4.2 compares
/// them unrounded.
#[derive(Debug)]
struct ByWeight {
    weights: EdgeWeights,
    /// Number of steps from 0 to 1; none to compare weights unrounded.
    steps: Option<f64>,
    name: String,
}

/// The edge weights that a site is ranked by (paper 4.2).
#[derive(Debug, Clone, Copy)]
enum EdgeWeights {
    Combined,
    Global,
    Local,
}

/// Decides as the paper does throughout.
#[derive(Debug)]
struct Paper;

/// In the order found.
#[derive(Debug)]
struct BreadthFirst;

/// At random, from a seed.
#[derive(Debug)]
struct Random {
    seed: u64,
    name: String,
}

/// The ordering for the settings.
#[must_use]
pub fn ordering(settings: &ExternalSettings) -> Arc<dyn BorderOrdering> {
    let by_weight = |weights| Arc::new(ByWeight::new(weights, settings));
    match settings.strategy {
        Strategy::Combined => by_weight(EdgeWeights::Combined),
        Strategy::Global => by_weight(EdgeWeights::Global),
        Strategy::Local => by_weight(EdgeWeights::Local),
        Strategy::Paper => Arc::new(Paper),
        Strategy::BreadthFirst => Arc::new(BreadthFirst),
        Strategy::Random => Arc::new(Random {
            seed: settings.seed,
            name: format!("{} from {}", settings.strategy.name(), settings.seed),
        }),
    }
}

/// The rank of start sites in every ordering.
const START: Rank = Rank {
    value: 1.0,
    tie: u32::MAX,
};

// === impl ByWeight ===

impl ByWeight {
    fn new(weights: EdgeWeights, settings: &ExternalSettings) -> Self {
        let strategy = settings.strategy.name();
        let steps = u32::try_from(settings.rank_steps).ok();
        let steps = steps.filter(|steps| *steps > 0);
        Self {
            weights,
            // The name has the number of steps, so that another number re-sorts the border.
            name: match steps {
                Some(steps) => format!("{strategy} in {steps} steps"),
                None => strategy.to_owned(),
            },
            steps: steps.map(f64::from),
        }
    }
}

impl Ranking for ByWeight {
    fn name(&self) -> &str {
        &self.name
    }

    fn rank(&self, standing: &Standing) -> Rank {
        if standing.is_start {
            return START;
        }
        let weight = self.weights.of(standing);
        Rank {
            value: match self.steps {
                Some(steps) => (weight * steps).round() / steps,
                None => weight,
            },
            tie: standing.edges,
        }
    }
}

impl BorderOrdering for ByWeight {
    fn recommendation(&self, standing: &Standing) -> f64 {
        if standing.is_start {
            START.value
        } else {
            self.weights.of(standing)
        }
    }
}

// === impl EdgeWeights ===

impl EdgeWeights {
    fn of(self, standing: &Standing) -> f64 {
        match self {
            Self::Combined => f64::midpoint(standing.global, standing.local),
            Self::Global => standing.global,
            Self::Local => standing.local,
        }
    }
}

// === impl Paper ===

impl Ranking for Paper {
    fn name(&self) -> &str {
        Strategy::Paper.name()
    }

    /// The mean of combined edge weights, which the paper advises (4.2 and 5.3). It does not
    /// define an order among equals.
    fn rank(&self, standing: &Standing) -> Rank {
        if standing.is_start {
            return START;
        }
        Rank {
            value: EdgeWeights::Combined.of(standing),
            tie: standing.edges,
        }
    }

    /// Σ weight(V, W) / |L(W)| over all sites V that link to W (paper 4.2).
    fn averaging(&self) -> Averaging {
        Averaging::ByEdge
    }
}

impl BorderOrdering for Paper {
    /// Paper 4.3.3 takes the rate of relevant sites among those judged so far. It is
    /// smoothed by one of each, and kept within bounds, because a rate near zero would
    /// decide a site before anything of it is read.
    #[allow(clippy::cast_precision_loss, reason = "no crawl judges 2^53 sites")]
    fn prior(&self, totals: &TopicTotals) -> SiteConfidence {
        let relevant = totals.relevant as f64 + 1.0;
        let rate = relevant / (relevant + totals.irrelevant as f64 + 1.0);
        SiteConfidence::new(rate.clamp(0.05, 0.95)).unwrap_or(SiteConfidence::NEUTRAL)
    }

    /// Paper 4.3.3.
    fn evidence_rule(&self) -> EvidenceRule {
        EvidenceRule::Product
    }

    /// Paper 4.3.4 has a single threshold.
    fn purpose(&self, _is_border_scarce: bool) -> Purpose {
        Purpose::VerdictAndLinks
    }

    /// Paper 4.3.4 goes on after the verdict "by employing the mentioned internal crawling
    /// strategy".
    fn page_ordering(&self) -> Arc<dyn PageOrdering> {
        Arc::new(ByVariance)
    }

    /// Paper 4.3.1.
    fn page_classifier(&self) -> Option<PageClassifierChoice> {
        Some(PageClassifierChoice::Centroid)
    }
}

// === impl BreadthFirst ===

impl Ranking for BreadthFirst {
    fn name(&self) -> &str {
        Strategy::BreadthFirst.name()
    }

    fn rank(&self, standing: &Standing) -> Rank {
        if standing.is_start {
            START
        } else {
            Rank { value: 0.0, tie: 0 }
        }
    }
}

impl BorderOrdering for BreadthFirst {}

// === impl Random ===

impl Ranking for Random {
    fn name(&self) -> &str {
        &self.name
    }

    #[allow(clippy::cast_precision_loss, reason = "52 random bits are enough")]
    fn rank(&self, standing: &Standing) -> Rank {
        if standing.is_start {
            return START;
        }
        let hash = xxh3_64_with_seed(&standing.discovered.to_be_bytes(), self.seed);
        let value = (hash >> 12) as f64 / (1_u64 << 52) as f64;
        Rank { value, tie: 0 }
    }
}

impl BorderOrdering for Random {}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(global: f64, local: f64) -> Standing {
        Standing {
            discovered: 1,
            is_start: false,
            edges: 1,
            domains: 1,
            global,
            local,
        }
    }

    fn by(strategy: Strategy) -> Arc<dyn BorderOrdering> {
        ordering(&ExternalSettings {
            strategy,
            ..ExternalSettings::default()
        })
    }

    /// Figure 3 of the paper: one edge of global weight 0.6 and local weight 0.7.
    #[test]
    fn figure_three() {
        let rank = |strategy| by(strategy).recommendation(&standing(0.6, 0.7));
        assert!((rank(Strategy::Global) - 0.6).abs() < 1e-12);
        assert!((rank(Strategy::Local) - 0.7).abs() < 1e-12);
        assert!((rank(Strategy::Combined) - 0.65).abs() < 1e-12);
        assert!((rank(Strategy::Paper) - 0.65).abs() < 1e-12);
        let rank = by(Strategy::Paper).rank(&standing(0.6, 0.7));
        assert!((rank.value - 0.65).abs() < 1e-12);
    }

    #[test]
    fn where_weights_are_about_equal_the_number_of_edges_decides() {
        let rank = |strategy, weight, edges| {
            let standing = Standing {
                edges,
                ..standing(weight, weight)
            };
            let rank = by(strategy).rank(&standing);
            (rank.value, rank.tie)
        };
        let combined = |weight, edges| rank(Strategy::Combined, weight, edges);
        assert!(combined(0.90, 3) > combined(0.99, 1));
        assert!(combined(0.99, 1) > combined(0.80, 9));
        assert!(combined(0.50, 1) > combined(0.40, 9));
        let paper = |weight, edges| rank(Strategy::Paper, weight, edges);
        assert!(paper(0.99, 1) > paper(0.98, 9));
        assert!(paper(0.99, 2) > paper(0.99, 1));
    }

    #[test]
    fn other_steps_are_another_ranking() {
        let name = |rank_steps| {
            let settings = ExternalSettings {
                rank_steps,
                ..ExternalSettings::default()
            };
            ordering(&settings).name().to_owned()
        };
        assert_eq!(name(0), "combined");
        assert_eq!(name(7), "combined in 7 steps");
    }

    #[test]
    fn start_sites_come_first_whatever_the_ordering() {
        for strategy in Strategy::ALL {
            let ordering = by(strategy);
            let start = Standing {
                is_start: true,
                ..standing(0.0, 0.0)
            };
            let best = Standing {
                discovered: u64::MAX,
                ..standing(1.0, 1.0)
            };
            let (start, best) = (ordering.rank(&start), ordering.rank(&best));
            assert!(
                (start.value, start.tie) > (best.value, best.tie),
                "{strategy:?}"
            );
        }
    }

    #[test]
    fn the_paper_ranks_by_weights_as_they_are_whatever_the_steps() {
        let settings = ExternalSettings {
            strategy: Strategy::Paper,
            rank_steps: 2,
            ..ExternalSettings::default()
        };
        let rank = ordering(&settings).rank(&standing(0.61, 0.70));
        assert!((rank.value - 0.655).abs() < 1e-12);
    }

    #[test]
    fn the_paper_averages_over_edges_and_all_others_by_domain() {
        for strategy in Strategy::ALL {
            let wanted = match strategy {
                Strategy::Paper => Averaging::ByEdge,
                _ => Averaging::ByDomain,
            };
            assert_eq!(by(strategy).averaging(), wanted, "{strategy:?}");
        }
    }

    #[test]
    fn the_paper_has_one_link_threshold_and_all_others_two() {
        for strategy in Strategy::ALL {
            let purposes = [false, true].map(|is_scarce| by(strategy).purpose(is_scarce));
            let scarce = match strategy {
                Strategy::Paper => Purpose::VerdictAndLinks,
                _ => Purpose::VerdictAndManyLinks,
            };
            assert_eq!(purposes, [Purpose::VerdictAndLinks, scarce], "{strategy:?}");
        }
    }

    #[test]
    fn the_paper_never_reads_pages_of_links_first_and_all_others_do() {
        for strategy in Strategy::ALL {
            let wanted = match strategy {
                Strategy::Paper => format!("{ByVariance:?}"),
                _ => format!("{LinkPagesFirst:?}"),
            };
            let found = format!("{:?}", by(strategy).page_ordering());
            assert_eq!(found, wanted, "{strategy:?}");
        }
    }

    #[test]
    fn the_paper_needs_centroids_and_all_others_take_any_page_classifier() {
        for strategy in Strategy::ALL {
            let wanted = match strategy {
                Strategy::Paper => Some(PageClassifierChoice::Centroid),
                _ => None,
            };
            assert_eq!(by(strategy).page_classifier(), wanted, "{strategy:?}");
        }
    }

    #[test]
    fn the_paper_multiplies_odds_and_all_others_damp_their_sum() {
        for strategy in Strategy::ALL {
            let wanted = match strategy {
                Strategy::Paper => EvidenceRule::Product,
                _ => EvidenceRule::Damped,
            };
            assert_eq!(by(strategy).evidence_rule(), wanted, "{strategy:?}");
        }
    }

    #[test]
    fn the_prior_of_the_paper_is_the_smoothed_rate_within_bounds() {
        let totals = |relevant, irrelevant| TopicTotals {
            relevant,
            irrelevant,
            ..TopicTotals::default()
        };
        let prior = |strategy, totals: TopicTotals| by(strategy).prior(&totals).get();
        let close = |one: f64, other: f64| (one - other).abs() < 1e-12;
        assert!(close(prior(Strategy::Paper, totals(0, 0)), 0.5));
        assert!(close(prior(Strategy::Paper, totals(3, 5)), 0.4));
        assert!(close(prior(Strategy::Paper, totals(0, 1_000)), 0.05));
        assert!(close(prior(Strategy::Paper, totals(1_000, 0)), 0.95));
        assert!(close(prior(Strategy::Combined, totals(0, 1_000)), 0.5));
    }

    #[test]
    fn random_ranks_depend_on_the_seed() {
        let rank = |seed, discovered| {
            let standing = Standing {
                discovered,
                ..standing(0.0, 0.0)
            };
            let settings = ExternalSettings {
                strategy: Strategy::Random,
                seed,
                ..ExternalSettings::default()
            };
            ordering(&settings).rank(&standing).value
        };
        assert!(rank(1, 1).to_bits() == rank(1, 1).to_bits());
        assert!((rank(1, 1) - rank(2, 1)).abs() > 1e-9);
        let ranks: Vec<f64> = (0..1_000).map(|discovered| rank(7, discovered)).collect();
        assert!(ranks.iter().all(|rank| (0.0..1.0).contains(rank)));
        let mean = ranks.iter().sum::<f64>() / 1_000.0;
        assert!((mean - 0.5).abs() < 0.05, "{mean}");
    }
}
