//! How much of a generated web is found, and how much of that is right (paper 5.3).
//!
//! On a web whose truth is known the list that a crawl makes can be held against all there
//! is: of what was found, how much is of the topic; of what is of the topic, how much was
//! found; at what cost in pages. One crawler at a time walks by each ordering, and by the
//! first of them fed with the truth. All have one model, but for an ordering that needs another
//! page classifier. Sites that were learned from may be visited, but do not count.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinSet;

use crate::config::{Settings, Strategy};
use crate::external::BorderOrdering;
use crate::web::{PageUrl, Scheme, SiteId, Verdict};

use super::TopicModels;
use super::generated::{GeneratedWeb, Truth};
use super::walk::{TRUE_LABELS, TruthOf, Walk, WalkError, draw_starts, oracle, ordering_by};

/// The orderings that are compared, the one that the oracle shares first.
const COMPARED: [Strategy; 4] = [
    Strategy::Combined,
    Strategy::Paper,
    Strategy::BreadthFirst,
    Strategy::Random,
];

/// A crawl of a generated web by each ordering.
pub(crate) struct TruthExperiment {
    /// The web.
    pub(crate) web: GeneratedWeb,
    /// The topic, one of those of the web.
    pub(crate) topic: &'static str,
    /// What was learned about it.
    pub(crate) models: Arc<TopicModels>,
    /// From which sites of the topic it was learned.
    pub(crate) targets: Vec<SiteId>,
    /// From which sites of other things.
    pub(crate) others: Vec<SiteId>,
    /// Everything else.
    pub(crate) settings: Settings,
    /// After how many pages it is counted.
    pub(crate) pages: Vec<u64>,
    /// How often start sites are drawn.
    pub(crate) draws: u64,
    /// How many start sites a draw has.
    pub(crate) start_sites: usize,
}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TruthResult {
    /// Sites of the topic that there are to find.
    pub(crate) targets: u64,
    /// One for each ordering, the oracle last.
    pub(crate) rows: Vec<TruthRow>,
}

/// How an ordering got on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TruthRow {
    /// The ordering.
    pub(crate) name: String,
    /// After each number of pages, the sums of all draws.
    pub(crate) counts: Vec<FoundSites>,
}

/// What was found so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FoundSites {
    /// How many crawls are summed up here.
    pub(crate) crawls: u64,
    /// Pages that were downloaded, those of start sites among them.
    pub(crate) pages: u64,
    /// Sites that were decided.
    pub(crate) decided: u64,
    /// Sites that were judged relevant.
    pub(crate) found: u64,
    /// Those of them that are of the topic.
    pub(crate) right: u64,
}

// === impl TruthExperiment ===

impl TruthExperiment {
    /// Crawls by all orderings and from all draws of start sites.
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

    /// What was found after each number of pages, or in the end if that comes first.
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
        self.crawls += other.crawls;
        self.pages += other.pages;
        self.decided += other.decided;
        self.found += other.found;
        self.right += other.right;
    }

    /// Of what was found, the share that is of the topic; none if nothing was.
    #[must_use]
    pub(crate) fn precision(&self) -> Option<f64> {
        share(self.right, self.found)
    }

    /// Of so many sites of the topic, the share that was found.
    #[must_use]
    pub(crate) fn recall(&self, targets: u64) -> Option<f64> {
        share(self.right, self.crawls * targets)
    }

    /// Pages for each relevant site.
    #[must_use]
    pub(crate) fn pprs(&self) -> Option<f64> {
        share(self.pages, self.found)
    }

    /// Of the sites that were decided, the share that is relevant.
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

    /// By hand: two crawls of 50 pages each, ten of twelve found are right, of 20 there are.
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
