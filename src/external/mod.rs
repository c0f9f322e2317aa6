//! The external crawler: ranks sites that were never seen, and sends internal crawlers to
//! the best (paper 4.1).
//!
//! ```text
//! border ─► best site ─► SiteVisit ─► internal crawler ─► SiteReport ─► edges ─┐
//!    ▲                                                                         ▼
//!    └───────────────────── verdicts::Ledger: one record ◄─────────────────────┘
//! ```
//!
//! Invariants:
//! - Ranks, edges and verdicts live in the store; in memory are the visits under way.
//! - With one crawler at a time the order of visits is decided by the store alone, and is
//!   the same every time.
//! - A crawl that is stopped loses nothing: what was not finished is visited again.

mod edges;
mod ordering;
mod pool;
mod progress;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::sleep;

use crate::config::{ExternalSettings, Settings};
use crate::internal::InternalCrawler;
use crate::store::{
    NewEdge, NewSite, Ranking, SiteStore, StoreError, TopicId, TopicOpening, TopicTotals,
};
use crate::verdicts::{EndedVisit, Ledger, ShownVerdict};
use crate::web::{PageUrl, Purpose, SiteVisit};
pub use edges::edges_of;
pub use ordering::{Ordering, ordering};
use pool::{Ended, Pool};
pub use progress::RecentPprs;

/// If nothing but deferred sites is left, a crawl waits for one that is due so soon.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a crawl is to reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Goals {
    /// It ends with so many finds.
    pub wanted: Option<u64>,
    /// It ends after so many pages.
    pub max_pages: Option<u64>,
}

/// Why a crawl has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// As many relevant sites as were wanted are found.
    WantedReached,
    /// There is no site left to visit; so many are deferred until later.
    BorderEmpty {
        /// The sites that are due later.
        deferred: u64,
    },
    /// Relevant sites have become too dear.
    PprsBad,
    /// As many pages as were allowed are spent.
    PagesSpent,
    /// It was stopped from outside.
    Stopped,
}

/// Crawls for one topic.
pub struct ExternalCrawler {
    store: Arc<dyn SiteStore>,
    topic: TopicId,
    ledger: Ledger,
    ordering: Arc<dyn Ordering>,
    pool: Pool,
    settings: ExternalSettings,
    goals: Goals,
    recent: RecentPprs,
}

// === impl ExternalCrawler ===

impl ExternalCrawler {
    /// Makes ready to crawl for a topic; `crawler` judges its sites, and `ordering` says
    /// which come first.
    pub async fn open(
        store: Arc<dyn SiteStore>,
        topic: &str,
        crawler: InternalCrawler,
        ordering: Arc<dyn Ordering>,
        settings: &Settings,
        goals: Goals,
    ) -> Result<Self, StoreError> {
        let external = settings.external.clone();
        let opening = TopicOpening {
            name: topic.to_owned(),
            ranking: Arc::clone(&ordering) as Arc<dyn Ranking>,
            sites_per_domain: u32::try_from(external.sites_per_domain).unwrap_or(u32::MAX),
        };
        let topic = store.open_topic(opening).await?;
        Ok(Self {
            ledger: Ledger::new(Arc::clone(&store), topic, &settings.store, &external),
            pool: Pool::new(crawler, external.crawlers),
            recent: RecentPprs::new(&external),
            settings: external,
            store,
            topic,
            ordering,
            goals,
        })
    }

    /// Takes up sites to begin with; says how many were not known yet.
    pub async fn start_at(&self, entrances: Vec<PageUrl>) -> Result<usize, StoreError> {
        let sites = entrances.into_iter().map(|entrance| NewSite {
            entrance,
            is_start: true,
        });
        self.store.enter(self.topic, sites.collect()).await
    }

    /// Crawls until there is a reason to end, and tells every verdict in order, with how the
    /// topic stands after it. Returns the reason, and how it stands at the end.
    pub async fn crawl(
        mut self,
        stop: impl Future<Output = ()>,
        mut tell: impl FnMut(&ShownVerdict, &TopicTotals),
    ) -> Result<(EndReason, TopicTotals), StoreError> {
        let mut stop = std::pin::pin!(stop);
        let mut totals = self.store.totals(self.topic).await?;
        let reason = loop {
            if let Some(reason) = self.reason_to_end(&totals) {
                break reason;
            }
            self.fill_seats(&totals).await?;
            if self.pool.is_empty() {
                let Some(wait) = self.next_due().await? else {
                    let deferred = self.store.totals(self.topic).await?.deferred;
                    break EndReason::BorderEmpty { deferred };
                };
                tokio::select! {
                    () = sleep(wait) => continue,
                    () = &mut stop => break EndReason::Stopped,
                }
            }
            tokio::select! {
                ended = self.pool.next() => totals = self.record(ended, &mut tell).await?,
                () = &mut stop => break EndReason::Stopped,
            }
        };
        let patience = match reason {
            EndReason::Stopped => self.settings.drain,
            _ => Duration::ZERO,
        };
        let rest = self.pool.drain(patience).await;
        let totals = self.record(rest, &mut tell).await?;
        Ok((reason, totals))
    }

    fn reason_to_end(&self, totals: &TopicTotals) -> Option<EndReason> {
        if self
            .goals
            .wanted
            .is_some_and(|wanted| totals.finds >= wanted)
        {
            return Some(EndReason::WantedReached);
        }
        if self
            .goals
            .max_pages
            .is_some_and(|most| totals.pages >= most)
        {
            return Some(EndReason::PagesSpent);
        }
        self.recent.is_bad().then_some(EndReason::PprsBad)
    }

    /// Sends internal crawlers to the best sites while there are seats.
    async fn fill_seats(&mut self, totals: &TopicTotals) -> Result<(), StoreError> {
        let free = self.pool.free_seats();
        if free == 0 {
            return Ok(());
        }
        let now = SystemTime::now();
        let prior = self.ordering.prior(totals);
        for taken in self.store.take(self.topic, free, now).await? {
            let visit = SiteVisit {
                prior,
                purpose: Purpose::VerdictAndLinks,
                ..SiteVisit::entering(&taken.entrance)
            };
            match self.settings.permits(taken.site.host()) {
                true => self.pool.visit(taken, visit),
                false => self.pool.refuse(taken, visit),
            }
        }
        Ok(())
    }

    /// How long until a deferred site is due, if that is soon.
    async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        let due = self.store.next_due(self.topic).await?;
        let wait = due.map(|due| due.duration_since(SystemTime::now()).unwrap_or_default());
        Ok(wait.filter(|wait| *wait <= PATIENCE))
    }

    /// Records visits that have ended, and tells the verdicts among them.
    async fn record(
        &mut self,
        ended: Vec<Ended>,
        tell: &mut impl FnMut(&ShownVerdict, &TopicTotals),
    ) -> Result<TopicTotals, StoreError> {
        if ended.is_empty() {
            return self.store.totals(self.topic).await;
        }
        let visits = ended.into_iter().map(|ended| self.weigh(ended)).collect();
        let shown = self.ledger.record(visits).await?;
        let totals = self.store.totals(self.topic).await?;
        for verdict in &shown {
            let is_find = verdict.verdict.is_relevant() && !verdict.is_start;
            self.recent.add(verdict.pages as u64, is_find);
            tell(verdict, &totals);
        }
        Ok(totals)
    }

    fn weigh(&self, ended: Ended) -> EndedVisit {
        let Ended {
            taken,
            report,
            is_broken,
        } = ended;
        let is_permitted = |edge: &NewEdge| self.permits(&edge.entrance);
        let edges = self.ordering.weigh(&report).into_iter();
        let edges = edges.filter(is_permitted).collect();
        EndedVisit {
            taken,
            report,
            edges,
            is_broken,
        }
    }

    fn permits(&self, entrance: &PageUrl) -> bool {
        self.settings.permits(entrance.site().host())
    }
}

// === impl EndReason ===

impl EndReason {
    /// A short name for lists and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WantedReached => "wanted-reached",
            Self::BorderEmpty { .. } => "border-empty",
            Self::PprsBad => "pprs-bad",
            Self::PagesSpent => "pages-spent",
            Self::Stopped => "stopped",
        }
    }
}
