//! An ordering that decides as another one, but for the edges of reports.

use std::sync::Arc;

use crate::config::PageClassifierChoice;
use crate::internal::PageOrdering;
use crate::store::{Averaging, NewEdge, Rank, Ranking, Standing, TopicTotals};
use crate::web::{EvidenceRule, Purpose, SiteConfidence, SiteReport};

use super::BorderOrdering;

/// Another ordering, with edges from a function, for experiments.
pub struct Reweighted<F> {
    ordering: Arc<dyn BorderOrdering>,
    name: String,
    weigh: F,
}

// === impl Reweighted ===

impl<F> Reweighted<F>
where
    F: Fn(&SiteReport) -> Vec<NewEdge> + Send + Sync + 'static,
{
    /// `name` identifies the order of the border, see [`Ranking::name`].
    pub fn new(ordering: Arc<dyn BorderOrdering>, name: &str, weigh: F) -> Self {
        Self {
            ordering,
            name: name.to_owned(),
            weigh,
        }
    }
}

#[deny(
    clippy::missing_trait_methods,
    reason = "a decision left to its default would be another than that of the ordering"
)]
impl<F> Ranking for Reweighted<F>
where
    F: Fn(&SiteReport) -> Vec<NewEdge> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn rank(&self, standing: &Standing) -> Rank {
        self.ordering.rank(standing)
    }

    fn averaging(&self) -> Averaging {
        self.ordering.averaging()
    }
}

#[deny(
    clippy::missing_trait_methods,
    reason = "a decision left to its default would be another than that of the ordering"
)]
impl<F> BorderOrdering for Reweighted<F>
where
    F: Fn(&SiteReport) -> Vec<NewEdge> + Send + Sync + 'static,
{
    fn weigh(&self, report: &SiteReport) -> Vec<NewEdge> {
        (self.weigh)(report)
    }

    fn recommendation(&self, standing: &Standing) -> f64 {
        self.ordering.recommendation(standing)
    }

    fn prior(&self, totals: &TopicTotals) -> SiteConfidence {
        self.ordering.prior(totals)
    }

    fn evidence_rule(&self) -> EvidenceRule {
        self.ordering.evidence_rule()
    }

    fn purpose(&self, is_border_scarce: bool) -> Purpose {
        self.ordering.purpose(is_border_scarce)
    }

    fn page_ordering(&self) -> Arc<dyn PageOrdering> {
        self.ordering.page_ordering()
    }

    fn page_classifier(&self) -> Option<PageClassifierChoice> {
        self.ordering.page_classifier()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ordering;
    use super::*;
    use crate::config::{ExternalSettings, Strategy};
    use crate::web::{ModelFingerprint, PageUrl, SiteVisit};

    fn standing(is_start: bool) -> Standing {
        Standing {
            discovered: 7,
            is_start,
            edges: 3,
            domains: 2,
            global: 0.61,
            local: 0.7,
        }
    }

    #[test]
    fn every_decision_but_the_edges_is_that_of_the_ordering() {
        let totals = TopicTotals {
            relevant: 3,
            irrelevant: 5,
            ..TopicTotals::default()
        };
        let entrance: PageUrl = "https://b.example/".parse().unwrap();
        let edge = NewEdge {
            entrance: entrance.clone(),
            global: 0.25,
            local: 0.75,
            pages: 1,
        };
        let model = ModelFingerprint::from_bits(7);
        let report = SiteReport::interrupted(SiteVisit::at(&entrance), model);
        for strategy in Strategy::ALL {
            let own = ordering(&ExternalSettings {
                strategy,
                rank_steps: 2,
                ..ExternalSettings::default()
            });
            let edges = vec![edge.clone()];
            let weigh = move |_: &SiteReport| edges.clone();
            let reweighted = Reweighted::new(Arc::clone(&own), "weighed anew", weigh);
            assert_eq!(reweighted.name(), "weighed anew");
            assert_eq!(reweighted.weigh(&report), std::slice::from_ref(&edge));

            assert_eq!(reweighted.averaging(), own.averaging());
            assert_eq!(reweighted.prior(&totals), own.prior(&totals));
            assert_eq!(reweighted.evidence_rule(), own.evidence_rule());
            assert_eq!(reweighted.page_classifier(), own.page_classifier());
            let pages = format!("{:?}", reweighted.page_ordering());
            assert_eq!(pages, format!("{:?}", own.page_ordering()));
            for is_scarce in [false, true] {
                assert_eq!(reweighted.purpose(is_scarce), own.purpose(is_scarce));
            }
            for standing in [standing(false), standing(true)] {
                assert_eq!(reweighted.rank(&standing), own.rank(&standing));
                let recommendation = reweighted.recommendation(&standing);
                let wanted = own.recommendation(&standing);
                assert_eq!(recommendation.to_bits(), wanted.to_bits());
            }
        }
    }
}
