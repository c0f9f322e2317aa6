//! The internal crawler: samples pages of one site until the verdict is certain enough (paper 4.3).
//!
//! In: one [`SiteVisit`]. Out: one [`SiteReport`]. In between, pages are read in the order of a
//! [`PageOrdering`], each is judged by the topic's model, and the evidence is
//! accumulated until the verdict is reached, the site is exhausted, or the budget is spent. If the
//! visit is also made for links, reading goes on until there are enough of them.
//!
//! Invariants:
//! - Sampling never fails: a dead site is a verdict, `Undecided(Unreachable)`.
//! - A visit holds state of its own site only, and frees it when it ends.
//! - No URL is requested again once it was answered, and the budget bounds all requests
//!   together, answered or not.
//! - *Irrelevant* freezes when it is sure. *Relevant* takes several pages, and each page that is read
//!   later for its links confirms or withdraws it, until the visit ends.
//! - A gatekeeper's page is no evidence, and its links are ignored. If it guards the entrance,
//!   the visit ends at once.
//!
//! # Memory
//!
//! Upper bounds for the visits of all topics together, whatever sites send:
//!
//! | what | at most |
//! |---|---|
//! | for each visit: its page, on the wire or decoded | `fetch.limits.wire_bytes` or `fetch.body_bytes`, for a moment both |
//! | for each visit: page frontier, links to other sites | some 6 MB with the default `page_budget` |
//! | large pages being parsed and judged | 256 MiB, in as many threads as there are cores ([`reading_pool`](self)) |
//! | small pages, parsed on the runtime | some 10 MB for each thread of the runtime |
//! | spellings remembered by readers of terms | some 5 MB for each thread that reads, and 160 MB for readers that wait ([`MAX_IDLE_READERS`]) |
//!
//! With the default settings, 64 visits at once stay below 1 GiB. `tests/hostile.rs` shows it.

mod page_frontier;
mod page_ordering;
mod reading_pool;
mod site_sample;
mod site_walker;

use std::sync::{Arc, LazyLock};

use crate::classify::{JudgedPage, KnownTerms, SiteModel};
use crate::config::{InternalSettings, NoindexPolicy};
use crate::fetch::{ErrorKind, Fetcher};
use crate::parse::{self, IdleReaders, MAX_IDLE_READERS, ParseLimits, TermReaders};
use crate::web::{
    DeferralCause, FetchedPage, LinkKind, PageKind, PageUrl, ParsedPage, Purpose, SiteReport,
    SiteVisit, StepOutcome, StopReason, TransversalLink, challenge,
};
pub(crate) use page_frontier::Candidate;
pub use page_ordering::{
    BreadthFirstPages, ByVariance, LinkPagesFirst, PageOrdering, PagePriority, VisitPhase,
    WaitingPage,
};
use reading_pool::{ReadingPool, Reservation};
use site_sample::SiteSample;
use site_walker::is_refused_by_gatekeeper;
pub(crate) use site_walker::{SiteWalker, WalkStep, WalkerLimits};

/// Larger bodies are parsed in the pool, which does not block the runtime and limits memory. Smaller
/// ones take about a millisecond and little memory, and at most one per runtime thread at a time.
const LARGE_BODY_BYTES: usize = 128 << 10;

/// The readers that wait for pages, of all topics: memory is that of the process.
static IDLE_READERS: LazyLock<Arc<IdleReaders<KnownTerms>>> =
    LazyLock::new(|| IdleReaders::at_most(MAX_IDLE_READERS));

/// Samples sites for one topic. One crawler serves any number of visits at once.
#[derive(Clone)]
pub struct InternalCrawler {
    fetcher: Arc<dyn Fetcher>,
    model: Arc<SiteModel>,
    term_readers: Arc<TermReaders<KnownTerms>>,
    settings: InternalSettings,
    limits: ParseLimits,
    page_ordering: Arc<dyn PageOrdering>,
}

struct ReadPage {
    parsed: ParsedPage,
    judged: JudgedPage,
}

impl InternalCrawler {
    /// A crawler that gets pages from `fetcher`, in the order of `page_ordering`, and judges them by
    /// `model`.
    #[must_use]
    pub fn new(
        fetcher: Arc<dyn Fetcher>,
        model: Arc<SiteModel>,
        settings: InternalSettings,
        limits: ParseLimits,
        page_ordering: Arc<dyn PageOrdering>,
    ) -> Self {
        let known_terms = KnownTerms::of(Arc::clone(&model));
        Self {
            fetcher,
            model,
            term_readers: Arc::new(TermReaders::new(
                move || known_terms.clone(),
                Arc::clone(&IDLE_READERS),
            )),
            settings,
            limits,
            page_ordering,
        }
    }

    #[must_use]
    pub(crate) fn model(&self) -> &Arc<SiteModel> {
        &self.model
    }

    /// Visits one site.
    pub async fn sample(&self, visit: SiteVisit) -> SiteReport {
        let purpose = visit.purpose;
        let limits = WalkerLimits {
            requests: self.settings.page_budget,
            retries: self.settings.retries,
            redirects: self.settings.max_redirects,
            url_bytes: self.limits.max_url_bytes,
        };
        let mut walker = SiteWalker::new(&*self.fetcher, &visit, limits);
        let mut sample = SiteSample::new(visit, Arc::clone(&self.model), self.settings);
        let stop_reason = loop {
            if !walker.is_under_way()
                && let Some(reason) = self.reason_to_stop(&sample, purpose)
            {
                break reason;
            }
            let phase = if sample.is_decided() {
                VisitPhase::AfterVerdict
            } else {
                VisitPhase::BeforeVerdict
            };
            let Some(step) = walker.next(&*self.page_ordering, phase).await else {
                break StopReason::Exhausted;
            };
            if let Some(reason) = self.add_outcome(step, &mut walker, &mut sample).await {
                break reason;
            }
        };
        sample.into_report(stop_reason)
    }

    /// The stopping rule (paper 4.3.3 and 4.3.4).
    fn reason_to_stop(&self, sample: &SiteSample, purpose: Purpose) -> Option<StopReason> {
        if sample.is_decided() {
            let threshold = match purpose {
                Purpose::Verdict => return Some(StopReason::Confident),
                Purpose::VerdictAndLinks => self.settings.link_threshold,
                Purpose::VerdictAndManyLinks => self.settings.scarce_link_threshold,
            };
            if sample.link_rank() >= threshold {
                return Some(StopReason::LinksFound);
            }
        }
        if sample.failures_in_a_row() >= self.settings.max_failures {
            return Some(StopReason::GivenUp);
        }
        (sample.steps() >= self.settings.page_budget).then_some(StopReason::BudgetSpent)
    }

    /// Adds the outcome of a request to the sample. Returns a reason to stop, if it is one.
    async fn add_outcome(
        &self,
        step: WalkStep,
        walker: &mut SiteWalker<'_>,
        sample: &mut SiteSample,
    ) -> Option<StopReason> {
        match step {
            WalkStep::Retried { page, result } => {
                let outcome = match &result {
                    Ok(fetched) => {
                        sample.add_response(fetched);
                        StepOutcome::Failed(fetched.status)
                    }
                    Err(error) => {
                        sample.add_unanswered(&page, error);
                        StepOutcome::Unanswered(error.kind.reason())
                    }
                };
                sample.add_failure(page, outcome);
                None
            }
            WalkStep::Redirected {
                page,
                fetched,
                target,
                next,
            } => {
                sample.add_response(&fetched);
                if let Some(next) = next.filter(|_| page.is_entrance) {
                    sample.enter_at(&next);
                }
                sample.add_failure(page, StepOutcome::Redirect(target));
                None
            }
            WalkStep::LedAway {
                page,
                fetched,
                target,
            } => {
                sample.add_response(&fetched);
                let is_alias = page.is_entrance && sample.is_silent();
                sample.add_failure(page, StepOutcome::Redirect(target.clone()));
                if is_alias && challenge::is_gate(&target) {
                    sample.meet_gatekeeper();
                    return Some(StopReason::Challenged);
                }
                is_alias.then(|| sample.become_alias(target))
            }
            WalkStep::Unanswered {
                page,
                error,
                tries_on,
            } => {
                sample.add_unanswered(&page, &error);
                add_unanswered(page, error.kind, tries_on, sample)
            }
            WalkStep::Answered { page, fetched } => {
                sample.add_response(&fetched);
                if is_refused_by_gatekeeper(&fetched) {
                    return challenged(page, sample);
                }
                if let Some(not_before) = fetched.transfer.busy_until
                    && sample.is_unread()
                {
                    sample.add_failure(page, StepOutcome::Failed(fetched.status));
                    return Some(sample.defer(not_before, DeferralCause::Busy));
                }
                self.add_answered(page, fetched, walker, sample).await
            }
        }
    }

    /// Parses and judges a response and adds it to the sample.
    async fn add_answered(
        &self,
        page: Candidate,
        fetched: FetchedPage,
        walker: &mut SiteWalker<'_>,
        sample: &mut SiteSample,
    ) -> Option<StopReason> {
        if page.is_entrance && sample.is_at_full_address() {
            sample.add_failure(page, StepOutcome::NoPage);
            return Some(StopReason::AddressFull);
        }
        if !fetched.status.is_success() {
            sample.add_failure(page, StepOutcome::Failed(fetched.status));
            return None;
        }
        // The reservation is held until the page is dropped.
        let (ReadPage { parsed, judged }, _reservation) = self.read(fetched, page.kind).await;
        if parsed.signs.challenge {
            return challenged(page, sample);
        }
        if parsed.signs.parked && page.is_entrance && sample.is_silent() {
            sample.add_failure(page, StepOutcome::NoPage);
            return Some(StopReason::Parked);
        }
        let confidence = sample.add_page(page.clone(), &parsed, judged);
        if page.is_entrance
            && sample.is_silent()
            && let Some(target) = refresh_target(&parsed)
        {
            return Some(sample.become_alias(target));
        }
        if page.is_entrance && parsed.robots.noindex && parsed.is_authored() {
            match self.settings.noindex {
                NoindexPolicy::LeaveOut => {
                    sample.mark_noindex();
                    return Some(StopReason::Noindex);
                }
                NoindexPolicy::Mark => sample.mark_noindex(),
                NoindexPolicy::List => {}
            }
        }
        if !parsed.robots.nofollow {
            walker.add_links(&parsed.intrinsic_links, confidence, &page);
        }
        None
    }

    /// Parses and judges a page. The result may be large: keep the reservation for as long as it.
    async fn read(&self, fetched: FetchedPage, kind: PageKind) -> (ReadPage, Option<Reservation>) {
        let (model, readers) = (Arc::clone(&self.model), Arc::clone(&self.term_readers));
        let limits = self.limits;
        let body_bytes = fetched.body.len();
        let read = move || {
            let parsed = parse::parse(&fetched, &limits);
            let terms = readers.with(|reader| reader.count(&parsed));
            let judged = model.judge(&terms, kind);
            ReadPage { parsed, judged }
        };
        if body_bytes <= LARGE_BODY_BYTES {
            return (read(), None);
        }
        // A panic is propagated; the pool of visits contains it.
        let pool = ReadingPool::shared();
        let (page, reservation) = pool.run(parse::room_for(body_bytes), read).await;
        (page, Some(reservation))
    }
}

/// Adds a request without a response to the sample. Returns a reason to stop, if it is one.
fn add_unanswered(
    page: Candidate,
    kind: ErrorKind,
    tries_on: bool,
    sample: &mut SiteSample,
) -> Option<StopReason> {
    let is_entrance = page.is_entrance;
    match kind {
        ErrorKind::Deferred { not_before, cause } => {
            // A later visit would start from scratch and get no further.
            let is_over = match cause {
                DeferralCause::CrawlDelay => !sample.is_unread(),
                _ => !sample.is_silent(),
            };
            return Some(if is_over {
                StopReason::BudgetSpent
            } else if cause == DeferralCause::Challenged {
                sample.meet_gatekeeper();
                StopReason::Challenged
            } else {
                sample.defer(not_before, cause)
            });
        }
        ErrorKind::Disallowed => {
            sample.add_failure(page, StepOutcome::Disallowed);
            let is_shut = is_entrance && sample.is_unread();
            return is_shut.then_some(StopReason::Disallowed);
        }
        _ => sample.add_failure(page, StepOutcome::Unanswered(kind.reason())),
    }
    match kind {
        ErrorKind::Blocked => Some(StopReason::Blocked),
        _ if tries_on => None,
        ErrorKind::BadCertificate { .. } if is_entrance && sample.is_unread() => {
            Some(StopReason::BadCertificate)
        }
        _ => sample.is_unreachable().then_some(StopReason::Unreachable),
    }
}

/// A gatekeeper answered. If it guards the entrance, the rest of the site is behind it.
fn challenged(page: Candidate, sample: &mut SiteSample) -> Option<StopReason> {
    let is_shut = sample.is_unread();
    sample.meet_gatekeeper();
    sample.add_failure(page, StepOutcome::Challenged);
    is_shut.then_some(StopReason::Challenged)
}

/// The page of another site that a page refreshes to, if it does.
fn refresh_target(page: &ParsedPage) -> Option<PageUrl> {
    let refresh = |link: &&TransversalLink| link.kind == LinkKind::Refresh;
    let link = page.transversal_links.iter().find(refresh)?;
    Some(link.page.clone())
}
