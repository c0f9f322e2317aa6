//! The internal crawler: samples one site until its class is sure enough (paper 4.3).
//!
//! In: one [`SiteVisit`]. Out: one [`SiteReport`]. In between, pages are read best first
//! ([`page_frontier`](self)), each is judged by the topic's model, and the evidence adds up
//! until the verdict is reached, the site is exhausted, or the budget is spent. If links
//! are wanted, reading goes on until there are enough of them.
//!
//! Invariants:
//! - Sampling never fails: a dead site is a verdict, `Undecided(Unreachable)`.
//! - A visit holds nothing but its own site; when it ends, all of it is gone.
//! - No address is asked for again once it answered, and the budget bounds all requests
//!   together, answered or not.
//! - Verdict and confidence freeze when the threshold is passed: pages that are read later
//!   for their links change neither.
//! - What a gatekeeper says is no evidence, and its links are nobody's. A site whose entrance
//!   it guards is left at once.
//!
//! # Memory
//!
//! Whatever sites send, visits take at most, all topics together:
//!
//! | what | at most |
//! |---|---|
//! | for each visit: its page, on the wire or decoded | `fetch.limits.wire_bytes` or `fetch.body_bytes`, for a moment both |
//! | for each visit: pages that wait, links to other sites | some 6 MB with the default `page_budget` |
//! | large pages that are read and judged | 256 MiB, in as many threads as there are cores ([`reading_pool`](self)) |
//! | small pages, read where they arrive | some 10 MB for each thread of the runtime |
//!
//! With the default settings, 64 visits at once stay below 1 GiB. `tests/hostile.rs` shows it.

mod page_frontier;
mod reading_pool;
mod site_sample;

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::classify::{JudgedPage, SiteModel};
use crate::config::{InternalSettings, NoindexPolicy};
use crate::fetch::{ErrorKind, FetchError, Fetcher};
use crate::parse::{self, ParseLimits};
use crate::web::{
    DeferralCause, FetchedPage, LinkKind, PageKind, PageOrder, PageUrl, ParsedPage, Purpose,
    SiteReport, SiteVisit, StepOutcome, StopReason, TransversalLink, challenge,
};
use page_frontier::{Aim, Candidate, PageFrontier};
use reading_pool::{ReadingPool, Room};
use site_sample::SiteSample;

/// Larger bodies are read in the pool, where that holds up nobody and has room. Others take a
/// millisecond and little memory, and no more of them are read at once than the runtime has threads.
const LARGE_BODY_BYTES: usize = 128 << 10;

/// So many pages may wait for each that may be read: a page of ten thousand links is not
/// worth remembering whole.
const WAITING_PER_PAGE: usize = 200;

/// Samples sites for one topic. One crawler serves any number of visits at once.
#[derive(Clone)]
pub struct InternalCrawler {
    fetcher: Arc<dyn Fetcher>,
    model: Arc<SiteModel>,
    settings: InternalSettings,
    limits: ParseLimits,
}

/// A page as it was read and judged.
struct ReadPage {
    parsed: ParsedPage,
    judged: JudgedPage,
}

impl InternalCrawler {
    /// A crawler that gets pages from `fetcher` and judges them by `model`.
    #[must_use]
    pub fn new(
        fetcher: Arc<dyn Fetcher>,
        model: Arc<SiteModel>,
        settings: InternalSettings,
        limits: ParseLimits,
    ) -> Self {
        Self {
            fetcher,
            model,
            settings,
            limits,
        }
    }

    /// The model that judges.
    #[must_use]
    pub fn model(&self) -> &Arc<SiteModel> {
        &self.model
    }

    /// Judges one site.
    pub async fn sample(&self, visit: SiteVisit) -> SiteReport {
        let (purpose, page_order) = (visit.purpose, visit.page_order);
        let capacity = self.settings.page_budget.saturating_mul(WAITING_PER_PAGE);
        let mut frontier = PageFrontier::new(&visit.entry, visit.reach, capacity);
        let mut sample = SiteSample::new(visit, Arc::clone(&self.model), self.settings);
        let stop_reason = loop {
            if let Some(reason) = self.reason_to_stop(&sample, purpose) {
                break reason;
            }
            let aim = match page_order {
                PageOrder::LinkPagesFirst if sample.is_decided() => Aim::Links,
                PageOrder::LinkPagesFirst | PageOrder::Variance => Aim::Verdict,
            };
            let Some(page) = frontier.best(aim) else {
                break StopReason::Exhausted;
            };
            if let Some(reason) = self.follow(page, &mut frontier, &mut sample).await {
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

    /// Asks for a page, and for what it redirects to, and adds what is found to the sample.
    async fn follow(
        &self,
        mut page: Candidate,
        frontier: &mut PageFrontier,
        sample: &mut SiteSample,
    ) -> Option<StopReason> {
        let mut chain: Vec<PageUrl> = Vec::new();
        page.url = sample.entrances().spelled(page.url);
        loop {
            let fetched = match self.ask(&page, sample).await {
                Ok(fetched) => fetched,
                Err(error) => match self.without_answer(&page, &error, sample) {
                    ControlFlow::Continue(entrance) => {
                        page.url = entrance;
                        continue;
                    }
                    ControlFlow::Break(reason) => return reason,
                },
            };
            if is_refused_by_gatekeeper(&fetched) {
                return challenged(page, sample);
            }
            if let Some(not_before) = fetched.transfer.busy_until
                && sample.is_unread()
            {
                sample.add_failure(page, StepOutcome::Failed(fetched.status));
                return Some(StopReason::Deferred {
                    not_before,
                    cause: DeferralCause::Busy,
                });
            }
            let Some(target) = fetched.redirect_target() else {
                return self.take(page, fetched, frontier, sample).await;
            };
            sample.add_failure(page.clone(), StepOutcome::Redirect(target.clone()));
            let target = sample.entrances().spelled(target);
            if target.site() != *sample.site() {
                let is_alias = page.is_entrance && sample.is_silent();
                if is_alias && challenge::is_gate(&target) {
                    sample.meet_gatekeeper();
                    return Some(StopReason::Challenged);
                }
                return is_alias.then(|| sample.become_alias(target));
            }
            chain.push(page.url.clone());
            let is_long = chain.len() > self.settings.max_redirects
                || target.as_str().len() > self.limits.max_url_bytes
                || sample.steps() >= self.settings.page_budget;
            if is_long || chain.contains(&target) || !frontier.claim(&page.url, &target) {
                return None;
            }
            if page.is_entrance {
                sample.enter_at(&target);
            }
            page.url = target;
        }
    }

    /// Asks for a page, and again if that may help.
    async fn ask(
        &self,
        page: &Candidate,
        sample: &mut SiteSample,
    ) -> Result<FetchedPage, FetchError> {
        let mut retries = self.settings.retries;
        loop {
            let result = self.fetcher.fetch(&page.url).await;
            let is_last = retries == 0 || sample.steps() + 1 >= self.settings.page_budget;
            let outcome = match &result {
                Ok(fetched) => {
                    sample.add_response(fetched);
                    StepOutcome::Failed(fetched.status)
                }
                Err(error) => {
                    tracing::debug!(page = %page.url, %error, "no answer");
                    sample.add_robots_requests(error.robots_requests);
                    StepOutcome::Unanswered(error.kind.label())
                }
            };
            let may_help = match &result {
                Ok(fetched) => {
                    fetched.transfer.busy_until.is_some() && !is_refused_by_gatekeeper(fetched)
                }
                Err(error) => error.kind.is_transient(),
            };
            if is_last || !may_help {
                return result;
            }
            sample.add_failure(page.clone(), outcome);
            retries -= 1;
        }
    }

    /// What to do when a page cannot be had: try another entrance, or go on without it, or
    /// stop.
    fn without_answer(
        &self,
        page: &Candidate,
        error: &FetchError,
        sample: &mut SiteSample,
    ) -> ControlFlow<Option<StopReason>, PageUrl> {
        let kind = error.kind;
        match kind {
            ErrorKind::Deferred { not_before, cause } => {
                // A later visit would begin anew and come no further.
                let is_over = match cause {
                    DeferralCause::CrawlDelay => !sample.is_unread(),
                    _ => !sample.is_silent(),
                };
                return ControlFlow::Break(Some(match is_over {
                    true => StopReason::BudgetSpent,
                    false if cause == DeferralCause::Challenged => {
                        sample.meet_gatekeeper();
                        StopReason::Challenged
                    }
                    false => StopReason::Deferred { not_before, cause },
                }));
            }
            ErrorKind::Disallowed => {
                sample.add_failure(page.clone(), StepOutcome::Disallowed);
                let is_shut = page.is_entrance && sample.is_unread();
                return ControlFlow::Break(is_shut.then_some(StopReason::Disallowed));
            }
            _ => sample.add_failure(page.clone(), StepOutcome::Unanswered(kind.label())),
        }
        if kind == ErrorKind::Blocked {
            return ControlFlow::Break(Some(StopReason::Blocked));
        }
        if sample.steps() < self.settings.page_budget {
            let is_hopeful = |entrance: &PageUrl| kind.leaves_entrance(entrance);
            let next = sample.entrances().next_after(&page.url, is_hopeful);
            if let Some(entrance) = next {
                return ControlFlow::Continue(entrance);
            }
        }
        ControlFlow::Break(match kind {
            ErrorKind::BadCertificate { .. } if page.is_entrance && sample.is_unread() => {
                Some(StopReason::BadCertificate)
            }
            _ => sample.is_unreachable().then_some(StopReason::Unreachable),
        })
    }

    /// Reads an answered page and adds it to the sample.
    async fn take(
        &self,
        page: Candidate,
        fetched: FetchedPage,
        frontier: &mut PageFrontier,
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
        // The room is held until the page has been taken up.
        let (ReadPage { parsed, judged }, _room) = self.read(fetched, page.kind).await;
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
            && let Some(target) = leads_away(&parsed)
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
            frontier.add_links(&parsed.intrinsic_links, confidence, &page);
        }
        None
    }

    /// Parses and judges a page. What comes of it may be large; the room is to be held with it.
    async fn read(&self, fetched: FetchedPage, kind: PageKind) -> (ReadPage, Option<Room>) {
        let model = Arc::clone(&self.model);
        let limits = self.limits;
        let body_bytes = fetched.body.len();
        let read = move || {
            let parsed = parse::parse(&fetched, &limits);
            let judged = model.judge(&parse::words::count_terms(&parsed), kind);
            ReadPage { parsed, judged }
        };
        if body_bytes <= LARGE_BODY_BYTES {
            return (read(), None);
        }
        // A panic stays one, and is contained where visits are held.
        let pool = ReadingPool::shared();
        let (page, room) = pool.run(parse::room_for(body_bytes), read).await;
        (page, Some(room))
    }
}

/// Whether an error is a challenge. Answers of status 200 are looked at when they are read.
fn is_refused_by_gatekeeper(fetched: &FetchedPage) -> bool {
    let is_error = fetched.status.is_client_error() || fetched.status.is_server_error();
    is_error && fetched.gatekeeper().is_some()
}

/// A gatekeeper answered. Where it guards the entrance, everything else is behind it.
fn challenged(page: Candidate, sample: &mut SiteSample) -> Option<StopReason> {
    let is_shut = sample.is_unread();
    sample.meet_gatekeeper();
    sample.add_failure(page, StepOutcome::Challenged);
    is_shut.then_some(StopReason::Challenged)
}

/// The page of another site that a page sends its readers to, if it does.
fn leads_away(page: &ParsedPage) -> Option<PageUrl> {
    let refresh = |link: &&TransversalLink| link.kind == LinkKind::Refresh;
    let link = page.transversal_links.iter().find(refresh)?;
    Some(link.page.clone())
}
