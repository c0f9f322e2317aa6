//! The external crawler: ranks unvisited sites, and sends internal crawlers to the best (paper 4.1).
//!
//! ```text
//! border ─► best site ─► SiteVisit ─► internal crawler ─► SiteReport ─► edges ─┐
//!    ▲                                                                         ▼
//!    └───────────────────── verdicts::Ledger: one record ◄─────────────────────┘
//! ```
//!
//! Invariants:
//! - Ranks, edges and verdicts are in the store; only the visits under way are in memory.
//! - With one slot the order of visits is decided by the store alone, and is deterministic.
//! - A crawl that is stopped loses nothing: unfinished visits are repeated.
//! - A site is visited under a claim: when that is found to be lost, its visit ends without a report.
//! - Rechecks do not starve the border: while it has sites, at most one visit in four is a recheck.
//! - Local failures are not counted against sites.

mod assembly;
mod edges;
mod metrics;
mod ordering;
mod own_trouble;
mod pool;
mod recheck_share;
mod reweighted;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use strum::IntoStaticStr;
use tokio::time::{Instant, sleep, sleep_until};

use crate::config::{ExternalSettings, HostLists, ResolveRule};
use crate::internal::InternalCrawler;
use crate::store::{
    BorderCaps, CLAIM_TERM, Claim, ClaimedSite, CrawlStore, JudgedSite, NewEdge, NewSite, Progress,
    REJUDGED, Ranking, StoreError, TakeRequest, TopicId, TopicOpening, TopicTotals,
};
use crate::telemetry::{Heartbeat, clock};
use crate::verdicts::{EndedVisit, Ledger, ShownVerdict};
use crate::web::{PageUrl, Platforms, Purpose, SiteVisit, Trouble, UndecidedReason, Verdict};
pub use assembly::TopicCrawl;
pub(crate) use assembly::{UnfitModel, check_page_classifier};
pub(crate) use edges::edges_of;
pub use metrics::CrawlMetrics;
use metrics::TopicMetrics;
pub use ordering::BorderOrdering;
pub use ordering::ordering;
use own_trouble::{Attributed, OwnTrouble, Probe};
pub use pool::CrawlerSlots;
use pool::{Ended, Pool};
use recheck_share::RecheckShare;
pub use reweighted::Reweighted;

/// If only deferred sites are left, a crawl waits for the next if it is due within this time.
const PATIENCE: Duration = Duration::from_mins(1);

/// After a stop, visits get the time of the setting `drain`, and everything else this much more.
/// What takes longer is aborted, and repeated by the next crawl.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(2_500);

/// How often the store is polled for a site that has to be visited alone.
const HELD_BACK_POLL: Duration = Duration::from_secs(1);

/// How often a crawl checks for sites that have become due.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// When a crawl is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Goals {
    /// Number of finds to end with.
    pub wanted: Option<u64>,
    /// Number of pages to end after.
    pub max_pages: Option<u64>,
}

/// Why a crawl has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum EndReason {
    /// The wanted number of relevant sites is found.
    WantedReached,
    /// No site is left to visit, except deferred ones that are not due soon.
    BorderEmpty,
    /// Pages per relevant site rose above `pprs_factor` times their best.
    PprsBad,
    /// The maximum number of pages was downloaded.
    PagesSpent,
    /// The caller stopped it.
    Stopped,
}

/// Crawls for one topic. Created by [`TopicCrawl::open`].
pub struct ExternalCrawler {
    store: Arc<dyn CrawlStore>,
    topic: TopicId,
    ledger: Ledger,
    ordering: Arc<dyn BorderOrdering>,
    pool: Pool,
    settings: ExternalSettings,
    /// Blocked and allowed hosts.
    hosts: Arc<HostLists>,
    /// Hosts with a configured address are exempt from the limit of sites per address.
    mapped: Vec<ResolveRule>,
    goals: Goals,
    progress: Progress,
    metrics: TopicMetrics,
    /// IP addresses at which enough sites were judged.
    full_addresses: Arc<BTreeSet<IpAddr>>,
    /// Read by the watchdog.
    heartbeat: Option<Arc<Heartbeat>>,
    recheck_share: RecheckShare,
    trouble: OwnTrouble,
    trouble_listener: Option<TroubleListener>,
    /// Whether the store holds sites back until one of them was visited alone.
    is_held_back: bool,
    /// When claims were last renewed.
    renewed_at: SystemTime,
}

/// Called with the current local failure when one begins, changes or ends.
pub(crate) type TroubleListener = Box<dyn Fn(Option<Trouble>) + Send + Sync>;

// === impl ExternalCrawler ===

impl ExternalCrawler {
    async fn open(
        topic: TopicCrawl,
        store: Arc<dyn CrawlStore>,
        crawler: InternalCrawler,
        metrics: &CrawlMetrics,
        slots: &Arc<CrawlerSlots>,
    ) -> Result<Self, StoreError> {
        let settings = topic.settings;
        let external = settings.external.clone();
        let hosts = Arc::new(external.host_lists());
        let ordering = topic.ordering;
        let metrics = metrics.of_topic(&topic.name);
        let opening = TopicOpening {
            name: topic.name,
            ranking: Arc::clone(&ordering) as Arc<dyn Ranking>,
            caps: caps(&external),
            model: crawler.model().fingerprint(),
            old_verdicts: external.old_verdicts,
            recheck_after: external.recheck_after,
            watched_pages: external.pprs_window as u64,
            hosts: Arc::clone(&hosts),
            platforms: Arc::new(Platforms::with(&external.platforms)),
        };
        let id = store.open_topic(opening).await?;
        let full = store.full_addresses(id, external.sites_per_address());
        let full_addresses = full.await?.into_iter().collect();
        let (progress, totals) = (store.progress(id).await?, store.totals(id).await?);
        // Show the state of earlier crawls before the first visit.
        metrics.show_totals(&totals, &progress, 0);
        Ok(Self {
            ledger: Ledger::new(Arc::clone(&store), &settings),
            pool: Pool::new(crawler, slots),
            progress,
            metrics,
            mapped: settings.fetch.resolve.clone(),
            settings: external,
            hosts,
            store,
            topic: id,
            ordering,
            goals: topic.goals,
            full_addresses: Arc::new(full_addresses),
            heartbeat: None,
            recheck_share: RecheckShare::default(),
            trouble: OwnTrouble::default(),
            trouble_listener: None,
            is_held_back: false,
            renewed_at: clock::now(),
        })
    }

    #[must_use]
    pub(crate) fn with_heartbeat(self, heartbeat: Arc<Heartbeat>) -> Self {
        Self {
            heartbeat: Some(heartbeat),
            ..self
        }
    }

    /// Calls `listener` when a local failure begins, changes or ends.
    #[must_use]
    pub fn with_trouble_listener(self, listener: TroubleListener) -> Self {
        Self {
            trouble_listener: Some(listener),
            ..self
        }
    }

    /// Whether the topic is paused for daemons.
    pub(crate) async fn is_paused(&self) -> Result<bool, StoreError> {
        self.store.is_paused(self.topic).await
    }

    /// Adds start sites. Returns how many of them are new.
    pub async fn start_at(&self, entrances: Vec<PageUrl>) -> Result<usize, StoreError> {
        let sites = entrances.into_iter().map(|entrance| NewSite {
            entrance,
            is_start: true,
        });
        self.store.enter(self.topic, sites.collect()).await
    }

    /// Crawls until there is a reason to end. Calls `on_verdict` for each verdict, in order, with the
    /// totals of the topic after it. Returns the reason and the final totals.
    ///
    /// If it is dropped before its end, sites under way stay claimed until the store is opened again; to
    /// go on with the store, let `stop` end it.
    pub async fn crawl(
        mut self,
        stop: impl Future<Output = ()>,
        mut on_verdict: impl FnMut(&JudgedSite, &TopicTotals),
    ) -> Result<(EndReason, TopicTotals), StoreError> {
        let mut stop = std::pin::pin!(stop);
        let mut totals = self.store.totals(self.topic).await?;
        // Start sites may have been added since it was opened.
        self.progress = self.store.progress(self.topic).await?;
        let reason = loop {
            self.beat();
            if let Some(reason) = self.reason_to_end(&totals).await? {
                break reason;
            }
            self.renew_claims().await?;
            self.fill_slots(&totals).await?;
            self.metrics
                .show_totals(&totals, &self.progress, self.pool.busy());
            if self.pool.is_empty() {
                let Some(wait) = self.wait_for_work().await? else {
                    if let Some(reference) = self.trouble.reference_to_probe(true) {
                        self.pool.probe_reference(reference);
                        continue;
                    }
                    let held = self.trouble.release();
                    if !held.is_empty() {
                        totals = self.record(held, &mut on_verdict).await?;
                        continue;
                    }
                    break EndReason::BorderEmpty;
                };
                let waiting = self.pool.lend_slots();
                tokio::select! {
                    () = sleep(wait.min(POLL_INTERVAL)) => {}
                    () = &mut stop => break EndReason::Stopped,
                }
                drop(waiting);
                continue;
            }
            tokio::select! {
                ended = self.pool.next() => {
                    totals = self.attribute(ended, &mut on_verdict).await?;
                    // Only here: a crawl that drains begins no visit.
                    if let Some(reference) = self.trouble.reference_to_probe(false) {
                        self.pool.probe_reference(reference);
                    }
                }
                // Deferred sites may be due, and other topics may have freed their slots.
                () = sleep(POLL_INTERVAL) => {}
                () = &mut stop => break EndReason::Stopped,
            }
        };
        let patience = match reason {
            EndReason::Stopped => self.settings.drain,
            _ => Duration::ZERO,
        };
        self.drain(patience, &mut on_verdict).await?;
        // The cause of these failures is left to the next crawl.
        let held = self.trouble.put_back();
        let totals = self.record(held, &mut on_verdict).await?;
        self.metrics.show_totals(&totals, &self.progress, 0);
        self.metrics.show_trouble(None);
        Ok((reason, totals))
    }

    /// Waits for the visits under way, at most for `patience`, and records them as they end; the rest are
    /// aborted.
    async fn drain(
        &mut self,
        patience: Duration,
        on_verdict: &mut impl FnMut(&JudgedSite, &TopicTotals),
    ) -> Result<(), StoreError> {
        let deadline = Instant::now() + patience;
        while !self.pool.is_empty() {
            self.beat();
            self.renew_claims().await?;
            tokio::select! {
                biased;
                ended = self.pool.next() => {
                    self.attribute(ended, on_verdict).await?;
                }
                () = sleep_until(deadline) => break,
                () = sleep(POLL_INTERVAL) => {}
            }
        }
        let rest = self.pool.abort().await;
        self.attribute(rest, on_verdict).await?;
        Ok(())
    }

    fn beat(&self) {
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.beat();
        }
    }

    async fn reason_to_end(&self, totals: &TopicTotals) -> Result<Option<EndReason>, StoreError> {
        if let Some(reason) = self.reason_to_close_border(totals)
            && !self.pool.is_rejudging()
            && !self.has_to_rejudge().await?
        {
            return Ok(Some(reason));
        }
        let max_pages = self.goals.max_pages;
        let is_spent = max_pages.is_some_and(|most| totals.pages >= most);
        Ok(is_spent.then_some(EndReason::PagesSpent))
    }

    /// Why the border is no longer visited, if so. Finds are rechecked nevertheless.
    fn reason_to_close_border(&self, totals: &TopicTotals) -> Option<EndReason> {
        let wanted = self.goals.wanted;
        if wanted.is_some_and(|wanted| totals.finds >= wanted) {
            return Some(EndReason::WantedReached);
        }
        let has_pprs_risen = self.progress.has_pprs_risen(self.settings.pprs_factor);
        has_pprs_risen.then_some(EndReason::PprsBad)
    }

    /// Whether any find was judged by an earlier model, or is due for a recheck: the count of finds
    /// may go down.
    async fn has_to_rejudge(&self) -> Result<bool, StoreError> {
        let due = self.store.next_due(self.topic).await?;
        let is_due = due.recheck.is_some_and(|due| due <= clock::now());
        Ok(is_due || due.deferred == Some(REJUDGED))
    }

    /// Renews the claims on sites under way before they expire, and ends the visits of those that are
    /// lost: another process may be visiting these sites now.
    async fn renew_claims(&mut self) -> Result<(), StoreError> {
        // By the time of day, which advances while the machine is suspended. If it was set back, it does
        // not show how long ago the last renewal was.
        let now = clock::now();
        let since = now.duration_since(self.renewed_at);
        if since.is_ok_and(|since| since < CLAIM_TERM / 4) {
            return Ok(());
        }
        self.renewed_at = now;
        let claims: Vec<Claim> = self.pool.claims().chain(self.trouble.claims()).collect();
        if claims.is_empty() {
            return Ok(());
        }
        let renewed = self.store.renew(claims.clone()).await?;
        let held: BTreeSet<u64> = renewed.iter().map(|claim| claim.number).collect();
        for lost in claims.iter().filter(|claim| !held.contains(&claim.number)) {
            tracing::warn!(site = %lost.site, "its visit is stopped: the claim on the site has ended");
        }
        self.pool.keep_only(&held);
        self.trouble.keep_only(&held);
        Ok(())
    }

    /// Sends internal crawlers to the best sites while there are free slots.
    async fn fill_slots(&mut self, totals: &TopicTotals) -> Result<(), StoreError> {
        let free = self.free_slots();
        if free == 0 {
            return Ok(());
        }
        match self.trouble.probe() {
            None => {
                self.take_and_visit(free, totals).await?;
            }
            Some(Probe::Reference(reference)) => self.pool.probe_reference(&reference),
            Some(Probe::Held(taken)) => self.visit(taken, totals),
            Some(Probe::Border) => {
                if self.take_and_visit(free, totals).await? == 0
                    && let Some(taken) = self.trouble.probe_held()
                {
                    self.visit(taken, totals);
                }
            }
        }
        Ok(())
    }

    /// Visits the best sites, at most `limit`. Returns how many there were.
    async fn take_and_visit(
        &mut self,
        limit: usize,
        totals: &TopicTotals,
    ) -> Result<usize, StoreError> {
        let taking = TakeRequest {
            limit,
            rechecks: self.recheck_share.of(limit),
            is_border_open: self.reason_to_close_border(totals).is_none(),
            now: clock::now(),
        };
        let taken = self.store.take(self.topic, taking).await?;
        self.is_held_back = taken.is_held_back;
        let sites = taken.sites;
        let known = sites.iter().filter(|taken| taken.verdict.is_some());
        self.recheck_share.note(sites.len(), known.count());
        let number = sites.len();
        for taken in sites {
            self.visit(taken, totals);
        }
        Ok(number)
    }

    /// Sends an internal crawler to a site, unless it must not be visited.
    fn visit(&mut self, mut taken: ClaimedSite, totals: &TopicTotals) {
        // A verdict of the same model is confirmed at the least cost. Links on the pages read for it
        // are used, as they may be new.
        let purpose = if taken.model == Some(self.pool.model()) {
            Purpose::Verdict
        } else {
            let is_border_scarce = totals.border < self.settings.scarce_border as u64;
            self.ordering.purpose(is_border_scarce)
        };
        taken.rank = self.ordering.recommendation(&taken.standing);
        let visit = SiteVisit {
            prior: self.ordering.prior(totals),
            evidence_rule: self.ordering.evidence_rule(),
            purpose,
            full_addresses: self.full_addresses_for(&taken),
            ..SiteVisit::entering(&taken.entrance)
        };
        self.trouble.note_visit();
        let is_permitted = self.hosts.permit(taken.site().host()) && !taken.is_blocked;
        if !is_permitted {
            self.pool.refuse(taken, visit, UndecidedReason::Blocked);
        } else if taken.is_poison {
            tracing::error!(
                site = %taken.site(),
                "not visited any more: the process crashed during its visits repeatedly"
            );
            self.pool.refuse(taken, visit, UndecidedReason::Poison);
        } else {
            self.pool.visit(taken, visit);
        }
    }

    /// How many sites may be visited now; during a local failure one probe at a time.
    fn free_slots(&self) -> usize {
        match self.trouble.next_probe() {
            None => self.pool.free_slots(),
            Some(due) if self.pool.is_empty() && due <= Instant::now() => 1,
            Some(_) => 0,
        }
    }

    /// The IP addresses at which a site is not judged.
    fn full_addresses_for(&self, taken: &ClaimedSite) -> Arc<BTreeSet<IpAddr>> {
        let host = taken.site().host();
        let is_mapped = self.mapped.iter().any(|rule| rule.covers(host));
        let was_decided = matches!(taken.verdict, Some(Verdict::Relevant | Verdict::Irrelevant));
        if taken.standing.is_start || was_decided || is_mapped {
            Arc::default()
        } else {
            Arc::clone(&self.full_addresses)
        }
    }

    /// How long to wait for a site to visit; none if no site is due soon.
    async fn wait_for_work(&mut self) -> Result<Option<Duration>, StoreError> {
        if self.is_held_back {
            // The store hands out no site before the visits held here are recorded.
            let held = self.trouble.postpone();
            self.record(held, &mut |_, _| {}).await?;
            return Ok(Some(HELD_BACK_POLL));
        }
        let now = Instant::now();
        if let Some(due) = self.trouble.next_probe().filter(|due| *due > now) {
            return Ok(Some(due - now));
        }
        self.next_due().await
    }

    /// How long until a deferred site is due, if that is soon.
    async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        let due = self.store.next_due(self.topic).await?;
        let wait = due
            .deferred
            .map(|due| due.duration_since(clock::now()).unwrap_or_default());
        Ok(wait.filter(|wait| *wait <= PATIENCE))
    }

    /// Records visits that have ended, as far as the cause of their failure is known.
    async fn attribute(
        &mut self,
        ended: Vec<Ended>,
        on_verdict: &mut impl FnMut(&JudgedSite, &TopicTotals),
    ) -> Result<TopicTotals, StoreError> {
        let before = self.trouble.now();
        let mut attributed = Vec::with_capacity(ended.len());
        for ended in ended {
            attributed.extend(self.trouble.attribute(ended));
        }
        if let Some(report) = self.pool.reference_report() {
            attributed.extend(self.trouble.attribute_by_reference(&report));
        }
        let after = self.trouble.now();
        if before != after {
            self.metrics.show_trouble(after);
            if let Some(listener) = &self.trouble_listener {
                listener(after);
            }
        }
        self.record(attributed, on_verdict).await
    }

    /// Records visits that have ended, and calls `on_verdict` for the verdicts among them.
    async fn record(
        &mut self,
        attributed: Vec<Attributed>,
        on_verdict: &mut impl FnMut(&JudgedSite, &TopicTotals),
    ) -> Result<TopicTotals, StoreError> {
        if attributed.is_empty() {
            return self.store.totals(self.topic).await;
        }
        let visits = attributed.into_iter().map(|visit| self.weigh(visit));
        let visits = visits.collect();
        let shown = self.ledger.record(visits).await?;
        let totals = self.store.totals(self.topic).await?;
        self.progress = self.store.progress(self.topic).await?;
        for ShownVerdict {
            judged,
            full_address,
        } in &shown
        {
            self.metrics.count_verdict(judged.verdict);
            if let Some(address) = *full_address
                && !self.full_addresses.contains(&address)
            {
                Arc::make_mut(&mut self.full_addresses).insert(address);
            }
            on_verdict(judged, &totals);
        }
        Ok(totals)
    }

    fn weigh(&self, Attributed { ended, retry }: Attributed) -> EndedVisit {
        let Ended {
            taken,
            report,
            is_broken,
        } = ended;
        self.metrics.count_visit(&report, is_broken);
        let is_permitted = |edge: &NewEdge| self.permits(&edge.entrance);
        let is_passing = matches!(
            report.verdict.undecided_reason(),
            Some(UndecidedReason::Interrupted | UndecidedReason::Deferred { .. })
        );
        // A visit that is repeated is weighed once it is complete.
        let edges = if is_passing {
            Vec::new()
        } else {
            self.ordering.weigh(&report)
        };
        let edges = edges.into_iter().filter(is_permitted).collect();
        EndedVisit {
            taken,
            report,
            edges,
            is_broken,
            retry,
        }
    }

    fn permits(&self, entrance: &PageUrl) -> bool {
        self.hosts.permit(entrance.site().host())
    }
}

/// When a crawl that is stopped now has ended at the latest.
#[must_use]
pub(crate) fn latest_end(settings: &ExternalSettings) -> Instant {
    Instant::now() + settings.drain + SHUTDOWN_GRACE
}

fn caps(settings: &ExternalSettings) -> BorderCaps {
    let counted = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    BorderCaps {
        sites_per_domain: counted(settings.sites_per_domain),
        sites_per_source: counted(settings.sites_per_source),
        border_sites: settings.border_sites as u64,
    }
}

// === impl EndReason ===

impl EndReason {
    /// The name in metrics, lists and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}
