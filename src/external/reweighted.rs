//! An ordering that decides as another one, but for the edges of reports.

use std::sync::Arc;

use crate::config::PageClassifierChoice;
use crate::internal::PageOrdering;
use crate::store::{Averaging, NewEdge, Rank, Ranking, Standing, TopicTotals};
use crate::web::{Purpose, SiteConfidence, SiteReport};

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
