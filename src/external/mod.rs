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
//! - Sites that are looked at again never keep those waiting that were never seen: while there
//!   are such, at most one visit in four goes to an old one.
//! - No site is blamed for trouble of our own.

mod assembly;
mod edges;
mod metrics;
mod ordering;
mod own_trouble;
mod pool;
mod recheck_share;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use strum::IntoStaticStr;
use tokio::time::{Instant, sleep};

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

/// If nothing but deferred sites is left, a crawl waits for one that is due so soon.
const PATIENCE: Duration = Duration::from_mins(1);

/// After a stop, visits are waited for as long as `drain` says, and then so long for everything
/// else. Whatever hangs longer is broken off, and done again by the next crawl.
const LONGEST_END: Duration = Duration::from_secs(3);

/// So often it is asked whether a site may be visited alone by now.
const ALONE: Duration = Duration::from_secs(1);

/// A crawl comes round so often, to look for sites that have become due.
const GLANCE: Duration = Duration::from_secs(5);

/// What a crawl is to reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Goals {
    /// It ends with so many finds.
    pub wanted: Option<u64>,
    /// It ends after so many pages.
    pub max_pages: Option<u64>,
}

/// Why a crawl has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum EndReason {
    /// As many relevant sites as were wanted are found.
    WantedReached,
    /// There is no site left to visit, but for those that are deferred until later.
    BorderEmpty,
    /// Pages per relevant site rose above `pprs_factor` times their best.
    PprsBad,
    /// As many pages as were allowed are spent.
    PagesSpent,
    /// It was stopped from outside.
    Stopped,
}

/// Crawls for one topic. [`TopicCrawl::open`] puts it together.
pub struct ExternalCrawler {
    store: Arc<dyn CrawlStore>,
    topic: TopicId,
    ledger: Ledger,
    ordering: Arc<dyn BorderOrdering>,
    pool: Pool,
    settings: ExternalSettings,
    /// Hosts that the operator lets in.
    hosts: Arc<HostLists>,
    /// Hosts that are found here are ours, however many share an address.
    mapped: Vec<ResolveRule>,
    goals: Goals,
    progress: Progress,
    metrics: TopicMetrics,
    /// Where enough sites were judged.
    full_addresses: Arc<BTreeSet<IpAddr>>,
    /// Whoever watches knows by it that the crawl comes round.
    heartbeat: Option<Arc<Heartbeat>>,
    recheck_share: RecheckShare,
    trouble: OwnTrouble,
    /// Told when trouble of our own begins, changes or ends.
    trouble_listener: Option<TroubleListener>,
    /// Whether the store keeps sites back until one of them was visited alone.
    is_held_back: bool,
    /// When claims are to be renewed.
    renew_at: SystemTime,
}

/// Hears of trouble of our own: what it is now, if there is any.
pub(crate) type TroubleListener = Box<dyn Fn(Option<Trouble>) + Send + Sync>;

// === impl ExternalCrawler ===

impl ExternalCrawler {
    /// Makes ready to crawl for a topic, with a share of the slots.
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
        // What is known from earlier is told before anything is visited.
        metrics.stand_at(&totals, &progress, 0);
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
            renew_at: clock::now() + CLAIM_TERM / 4,
        })
    }

    /// Beats while it crawls.
    #[must_use]
    pub(crate) fn with_heartbeat(self, heartbeat: Arc<Heartbeat>) -> Self {
        Self {
            heartbeat: Some(heartbeat),
            ..self
        }
    }

    /// Tells when trouble of our own begins, changes or ends.
    #[must_use]
    pub fn with_trouble_listener(self, listener: TroubleListener) -> Self {
        Self {
            trouble_listener: Some(listener),
            ..self
        }
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
        mut tell: impl FnMut(&JudgedSite, &TopicTotals),
    ) -> Result<(EndReason, TopicTotals), StoreError> {
        let mut stop = std::pin::pin!(stop);
        let mut totals = self.store.totals(self.topic).await?;
        // Start sites may have come since it was opened.
        self.progress = self.store.progress(self.topic).await?;
        let reason = loop {
            self.beat();
            if let Some(reason) = self.reason_to_end(&totals).await? {
                break reason;
            }
            self.renew_claims().await?;
            self.fill_slots(&totals).await?;
            self.metrics
                .stand_at(&totals, &self.progress, self.pool.busy());
            if self.pool.is_empty() {
                let Some(wait) = self.wait_for_work().await? else {
                    if let Some(reference) = self.trouble.reference_to_ask(true) {
                        self.pool.probe_reference(reference);
                        continue;
                    }
                    let held = self.trouble.release();
                    if !held.is_empty() {
                        totals = self.record(held, &mut tell).await?;
                        continue;
                    }
                    break EndReason::BorderEmpty;
                };
                let waiting = self.pool.lend_slots();
                tokio::select! {
                    () = sleep(wait.min(GLANCE)) => {}
                    () = &mut stop => break EndReason::Stopped,
                }
                drop(waiting);
                continue;
            }
            tokio::select! {
                ended = self.pool.next() => totals = self.attribute(ended, &mut tell).await?,
                // Deferred sites may be due, and other topics may have left their slots.
                () = sleep(GLANCE) => {}
                () = &mut stop => break EndReason::Stopped,
            }
        };
        let patience = match reason {
            EndReason::Stopped => self.settings.drain,
            _ => Duration::ZERO,
        };
        let rest = self.drain(patience).await;
        self.attribute(rest, &mut tell).await?;
        // The next crawl finds out what caused these failures.
        let held = self.trouble.give_up();
        let totals = self.record(held, &mut tell).await?;
        self.metrics.stand_at(&totals, &self.progress, 0);
        self.metrics.show_trouble(None);
        Ok((reason, totals))
    }

    /// Waits for the visits under way, and beats meanwhile.
    async fn drain(&mut self, patience: Duration) -> Vec<Ended> {
        let heartbeat = self.heartbeat.clone();
        let mut drained = std::pin::pin!(self.pool.drain(patience));
        loop {
            tokio::select! {
                rest = &mut drained => return rest,
                () = sleep(GLANCE) => {
                    if let Some(heartbeat) = &heartbeat {
                        heartbeat.beat();
                    }
                }
            }
        }
    }

    fn beat(&self) {
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.beat();
        }
    }

    async fn reason_to_end(&self, totals: &TopicTotals) -> Result<Option<EndReason>, StoreError> {
        if let Some(reason) = self.reason_to_rest(totals)
            && !self.pool.is_rejudging()
            && !self.has_to_rejudge().await?
        {
            return Ok(Some(reason));
        }
        let max_pages = self.goals.max_pages;
        let is_spent = max_pages.is_some_and(|most| totals.pages >= most);
        Ok(is_spent.then_some(EndReason::PagesSpent))
    }

    /// Why no site that was never seen is visited any more, if that is so. Those that were
    /// found are looked after all the same.
    fn reason_to_rest(&self, totals: &TopicTotals) -> Option<EndReason> {
        let wanted = self.goals.wanted;
        if wanted.is_some_and(|wanted| totals.finds >= wanted) {
            return Some(EndReason::WantedReached);
        }
        let has_pprs_risen = self.progress.has_pprs_risen(self.settings.pprs_factor);
        has_pprs_risen.then_some(EndReason::PprsBad)
    }

    /// Whether finds are counted that a model made which the topic no longer has, or that are
    /// to be looked at again by now: who is no longer relevant makes room for another.
    async fn has_to_rejudge(&self) -> Result<bool, StoreError> {
        let due = self.store.next_due(self.topic).await?;
        let is_due = due.recheck.is_some_and(|due| due <= clock::now());
        Ok(is_due || due.deferred == Some(REJUDGED))
    }

    /// Gives the claims on sites under way more time, before they end.
    async fn renew_claims(&mut self) -> Result<(), StoreError> {
        // By the clock of the claims, which goes on while a machine is suspended.
        let now = clock::now();
        if now < self.renew_at {
            return Ok(());
        }
        self.renew_at = now + CLAIM_TERM / 4;
        let claims: Vec<Claim> = self.pool.claims().chain(self.trouble.claims()).collect();
        if !claims.is_empty() {
            self.store.renew(claims, now).await?;
        }
        Ok(())
    }

    /// Sends internal crawlers to the best sites while there are slots.
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

    /// Visits the best sites, so many at most; says how many there were.
    async fn take_and_visit(
        &mut self,
        most: usize,
        totals: &TopicTotals,
    ) -> Result<usize, StoreError> {
        let taking = TakeRequest {
            most,
            rechecks: self.recheck_share.of(most),
            is_border_open: self.reason_to_rest(totals).is_none(),
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
        // What the same model said is to be confirmed, at the least cost. Links that stand on the
        // pages it takes are welcome, as they may be new.
        let purpose = if taken.model == Some(self.pool.model()) {
            Purpose::Verdict
        } else {
            let is_border_scarce = totals.border < self.settings.scarce_border as u64;
            self.ordering.purpose(is_border_scarce)
        };
        taken.rank = self.ordering.recommendation(&taken.standing);
        let visit = SiteVisit {
            prior: self.ordering.prior(totals),
            purpose,
            full_addresses: self.full_addresses_for(&taken),
            ..SiteVisit::entering(&taken.entrance)
        };
        self.trouble.note_visit();
        let is_permitted = self.hosts.permit(taken.site().host()) && !taken.is_blocked;
        match (is_permitted, taken.is_poison) {
            (false, _) => self.pool.refuse(taken, visit, UndecidedReason::Blocked),
            (true, true) => {
                tracing::error!(
                    site = %taken.site(),
                    "not visited any more: the process has died under it again and again"
                );
                self.pool.refuse(taken, visit, UndecidedReason::Poison);
            }
            (true, false) => self.pool.visit(taken, visit),
        }
    }

    /// How many sites may be visited now. With trouble of our own, one from time to time.
    fn free_slots(&self) -> usize {
        match self.trouble.next_probe() {
            None => self.pool.free_slots(),
            Some(due) if self.pool.is_empty() && due <= Instant::now() => 1,
            Some(_) => 0,
        }
    }

    /// At which addresses a site is not to be judged.
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

    /// How long to wait for a site to visit; none if there is none for a while.
    async fn wait_for_work(&mut self) -> Result<Option<Duration>, StoreError> {
        if self.is_held_back {
            // The store hands out no site before those held back here are reported on.
            let held = self.trouble.let_go();
            self.record(held, &mut |_, _| {}).await?;
            return Ok(Some(ALONE));
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
        tell: &mut impl FnMut(&JudgedSite, &TopicTotals),
    ) -> Result<TopicTotals, StoreError> {
        let before = self.trouble.now();
        let mut attributed = Vec::with_capacity(ended.len());
        for ended in ended {
            attributed.extend(self.trouble.attribute(ended));
        }
        if let Some(report) = self.pool.reference_report() {
            attributed.extend(self.trouble.attribute_by_reference(&report));
        }
        if let Some(reference) = self.trouble.reference_to_ask(false) {
            self.pool.probe_reference(reference);
        }
        let after = self.trouble.now();
        if before != after {
            self.metrics.show_trouble(after);
            if let Some(listener) = &self.trouble_listener {
                listener(after);
            }
        }
        self.record(attributed, tell).await
    }

    /// Records visits that have ended, and tells the verdicts among them.
    async fn record(
        &mut self,
        attributed: Vec<Attributed>,
        tell: &mut impl FnMut(&JudgedSite, &TopicTotals),
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
            tell(judged, &totals);
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
        // A visit that is made again is heard of when it has come to its end.
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

/// When a crawl that is asked to stop now has ended, whatever hangs.
#[must_use]
pub(crate) fn latest_end(settings: &ExternalSettings) -> Instant {
    Instant::now() + settings.drain + LONGEST_END
}

/// The caps of the settings, as stores count.
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
    /// The name in figures, lists and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}
