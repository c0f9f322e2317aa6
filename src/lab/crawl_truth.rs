//! How much of a generated web is found, and how much of that is right (paper 5.3).
//!
//! A generated web has known labels for every site, so a crawl has an exact precision and
//! recall, and a cost in pages. One crawler at a time walks by each ordering, and by an oracle:
//! the first ordering with true labels instead of confidences. All use one model, except an
//! ordering that needs another page classifier. Training sites may be visited, but do not count.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinSet;

use crate::config::{Settings, Strategy};
use crate::external::BorderOrdering;
use crate::web::{PageUrl, Scheme, SiteId, Verdict};

use super::TopicModels;
use super::generated::{GeneratedWeb, Truth};
use super::walk::{TRUE_LABELS, TruthOf, Walk, WalkError, draw_starts, oracle, ordering_by};

/// The orderings that are compared. The oracle ranks as the first.
const COMPARED: [Strategy; 4] = [
    Strategy::Combined,
    Strategy::Paper,
    Strategy::BreadthFirst,
    Strategy::Random,
];

/// A crawl of a generated web by each ordering.
pub(crate) struct TruthExperiment {
    pub(crate) web: GeneratedWeb,
    /// One of the topics of the web.
    pub(crate) topic: &'static str,
    pub(crate) models: Arc<TopicModels>,
    /// Training sites of the topic.
    pub(crate) targets: Vec<SiteId>,
    /// Training sites of other topics.
    pub(crate) others: Vec<SiteId>,
    pub(crate) settings: Settings,
    /// Numbers of pages after which to count, ascending.
    pub(crate) pages: Vec<u64>,
    /// Number of draws of start sites, each a crawl of its own.
    pub(crate) draws: u64,
    /// Start sites per draw.
    pub(crate) start_sites: usize,
}

/// Result of a [`TruthExperiment`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TruthResult {
    /// Sites of the topic in the web, without training sites.
    pub(crate) targets: u64,
    /// One for each ordering, the oracle last.
    pub(crate) rows: Vec<TruthRow>,
}

/// Result of one ordering.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TruthRow {
    pub(crate) name: String,
    /// One for each number of pages, summed over all draws.
    pub(crate) counts: Vec<FoundSites>,
}

/// Counts at one point of a crawl, or summed over crawls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FoundSites {
    /// Number of crawls in the sum.
    pub(crate) crawls: u64,
    /// Downloaded pages, including those of start sites.
    pub(crate) pages: u64,
    /// Sites judged relevant or irrelevant.
    pub(crate) decided: u64,
    /// Sites judged relevant.
    pub(crate) found: u64,
    /// Sites judged relevant that are of the topic.
    pub(crate) right: u64,
}

// === impl TruthExperiment ===

impl TruthExperiment {
    /// Crawls by every ordering from every draw of start sites.
    pub(crate) async fn run(&self) -> Result<TruthResult, WalkError> {
        let (web, topic) = (self.web, Truth::Topic(self.topic));
        let truth: TruthOf = Arc::new(move |site| web.truth(site) == topic);
        let names = COMPARED.map(|strategy| strategy.name().to_owned());
        let mut rows: Vec<TruthRow> = names
            .into_iter()
            .chain([TRUE_LABELS.to_owned()])
            .map(|name| TruthRow {
                name,
                counts: vec![FoundSites::default(); self.pages.len()],
            })
            .collect();
        let settings = &self.settings.external;
        for draw in 0..self.draws {
            let starts = draw_starts(&self.targets, self.start_sites, draw, Scheme::Http);
            let best = ordering_by(settings, COMPARED[0], draw);
            let orderings = COMPARED
                .map(|strategy| ordering_by(settings, strategy, draw))
                .into_iter()
                .chain([oracle(best, Arc::clone(&truth))]);
            let mut crawls = JoinSet::new();
            for (at, ordering) in orderings.enumerate() {
                let crawl = self.crawl(ordering, starts.clone(), Arc::clone(&truth));
                crawls.spawn(async move { (at, crawl.await) });
            }
            for (at, counts) in crawls.join_all().await {
                for (sum, count) in rows[at].counts.iter_mut().zip(counts?) {
                    sum.add(&count);
                }
            }
        }
        let learned: BTreeSet<&SiteId> = self.targets.iter().chain(&self.others).collect();
        let numbers = 0..web.sites();
        let targets = numbers.filter(|number| {
            let (host, is) = web.site(*number);
            is == topic
                && host
                    .parse::<SiteId>()
                    .is_ok_and(|site| !learned.contains(&site))
        });
        Ok(TruthResult {
            targets: targets.count() as u64,
            rows,
        })
    }

    /// The counts after each number of pages, or those at the end of the crawl if it ends earlier.
    fn crawl(
        &self,
        ordering: Arc<dyn BorderOrdering>,
        starts: Vec<PageUrl>,
        truth: TruthOf,
    ) -> impl Future<Output = Result<Vec<FoundSites>, WalkError>> + Send + use<> {
        let walk = Walk {
            fetcher: Arc::new(self.web),
            models: Arc::clone(&self.models),
            settings: self.settings.clone(),
        };
        let learned: BTreeSet<SiteId> = self.targets.iter().chain(&self.others).cloned().collect();
        let marks = self.pages.clone();
        async move {
            let mut counts = Vec::new();
            let mut now = FoundSites {
                crawls: 1,
                ..FoundSites::default()
            };
            let walked = walk.run(ordering, starts, |verdict, totals| {
                now.pages = totals.pages;
                if !learned.contains(&verdict.site) && counts.len() < marks.len() {
                    let is_undecided = matches!(verdict.verdict, Verdict::Undecided { .. });
                    now.decided += u64::from(!is_undecided);
                    if verdict.verdict.is_relevant() {
                        now.found += 1;
                        now.right += u64::from(truth(&verdict.site));
                    }
                }
                while marks
                    .get(counts.len())
                    .is_some_and(|mark| now.pages >= *mark)
                {
                    counts.push(now);
                }
                counts.len() < marks.len()
            });
            walked.await?;
            counts.resize(marks.len(), now);
            Ok(counts)
        }
    }
}

// === impl FoundSites ===

impl FoundSites {
    fn add(&mut self, other: &Self) {
        let Self {
            crawls,
            pages,
            decided,
            found,
            right,
        } = other;
        self.crawls += crawls;
        self.pages += pages;
        self.decided += decided;
        self.found += found;
        self.right += right;
    }

    /// Share of the sites found that are of the topic; none if nothing was found.
    #[must_use]
    pub(crate) fn precision(&self) -> Option<f64> {
        share(self.right, self.found)
    }

    /// Share of `targets` sites of the topic that was found.
    #[must_use]
    pub(crate) fn recall(&self, targets: u64) -> Option<f64> {
        share(self.right, self.crawls * targets)
    }

    /// Pages per relevant site.
    #[must_use]
    pub(crate) fn pprs(&self) -> Option<f64> {
        share(self.pages, self.found)
    }

    /// Share of the decided sites that is relevant.
    #[must_use]
    pub(crate) fn harvest(&self) -> Option<f64> {
        share(self.found, self.decided)
    }
}

#[allow(clippy::cast_precision_loss, reason = "no crawl has 2^53 pages")]
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: two crawls of 50 pages each find twelve sites; ten are right, of 20 per crawl.
    #[test]
    fn shares_are_those_of_all_crawls_together() {
        let mut sum = FoundSites::default();
        for found in [8, 4] {
            sum.add(&FoundSites {
                crawls: 1,
                pages: 50,
                decided: 15,
                found,
                right: 5,
            });
        }
        assert_eq!(sum.precision(), Some(10.0 / 12.0));
        assert_eq!(sum.recall(20), Some(0.25));
        assert_eq!(sum.pprs(), Some(100.0 / 12.0));
        assert_eq!(sum.harvest(), Some(0.4));
        assert_eq!(FoundSites::default().precision(), None);
    }
}
