//! Walks one site, one request at a time: chooses pages by an ordering, tries the entrances until
//! one answers, follows redirects within the site, and retries transient failures.
//!
//! Visits and training share the walker; what they make of a response is up to them. Each call of
//! [`SiteWalker::next`] makes one request, and returns its outcome and whether the next call
//! continues with the same page.
//!
//! Invariant: no page is requested again once it was answered, and a walk stays within its maximum
//! number of requests.

use crate::fetch::{ErrorKind, FetchError, Fetcher};
use crate::web::{
    Entrances, FetchedPage, IntrinsicLink, PageConfidence, PageUrl, SiteId, SiteVisit,
};

use super::page_frontier::{Candidate, PageFrontier};
use super::page_ordering::{PageOrdering, VisitPhase};

/// Maximum number of waiting pages for each request that may be made: not every link of a page with
/// ten thousand is worth keeping.
const WAITING_PER_REQUEST: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WalkerLimits {
    /// Requests for pages, answered or not.
    pub(crate) requests: usize,
    /// Retries of a page after transient failures.
    pub(crate) retries: usize,
    /// Redirects followed in a row.
    pub(crate) redirects: usize,
    /// Maximum length of a redirect target.
    pub(crate) url_bytes: usize,
}

pub(crate) struct SiteWalker<'w> {
    fetcher: &'w dyn Fetcher,
    site: SiteId,
    frontier: PageFrontier,
    entrances: Entrances,
    limits: WalkerLimits,
    requests: usize,
    /// The page of the next request: a retry, another entrance, or a redirect target.
    pending: Option<Candidate>,
    retries_left: usize,
    /// The pages that redirected to the pending one.
    chain: Vec<PageUrl>,
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum WalkStep {
    /// A response of any status that is no redirect.
    Answered {
        page: Candidate,
        fetched: FetchedPage,
    },
    /// A redirect to another page of the site.
    Redirected {
        page: Candidate,
        fetched: FetchedPage,
        target: PageUrl,
        /// The page requested next; none if the redirect is not followed.
        next: Option<PageUrl>,
    },
    /// A redirect to another site.
    LedAway {
        page: Candidate,
        fetched: FetchedPage,
        target: PageUrl,
    },
    /// There was no response.
    Unanswered {
        page: Candidate,
        error: FetchError,
        /// Whether another entrance is tried next.
        tries_on: bool,
    },
    /// The request failed, and the page is requested again next.
    Retried {
        page: Candidate,
        result: Result<FetchedPage, FetchError>,
    },
}

// === impl SiteWalker ===

impl<'w> SiteWalker<'w> {
    #[must_use]
    pub(crate) fn new(fetcher: &'w dyn Fetcher, visit: &SiteVisit, limits: WalkerLimits) -> Self {
        let capacity = limits.requests.saturating_mul(WAITING_PER_REQUEST);
        Self {
            fetcher,
            site: visit.site.clone(),
            frontier: PageFrontier::new(&visit.entry, visit.reach, capacity),
            entrances: Entrances::new(visit.fallbacks.clone()),
            limits,
            requests: 0,
            pending: None,
            retries_left: 0,
            chain: Vec::new(),
        }
    }

    /// Makes one request. Returns none if there is no further page.
    pub(crate) async fn next(
        &mut self,
        ordering: &dyn PageOrdering,
        phase: VisitPhase,
    ) -> Option<WalkStep> {
        let page = match self.pending.take() {
            Some(page) => page,
            None => self.next_page(ordering, phase)?,
        };
        let result = self.fetcher.fetch(&page.url).await;
        self.requests += 1;
        if result.is_ok() {
            self.entrances.open_at(&page.url);
        }
        if self.retries_left > 0 && self.has_requests_left() && is_worth_a_retry(&result) {
            self.retries_left -= 1;
            self.pending = Some(page.clone());
            return Some(WalkStep::Retried { page, result });
        }
        self.retries_left = self.limits.retries;
        Some(match result {
            Ok(fetched) => self.answered(page, fetched),
            Err(error) => self.unanswered(page, error),
        })
    }

    /// Whether the next request continues with the page of the last.
    #[must_use]
    pub(crate) fn is_under_way(&self) -> bool {
        self.pending.is_some()
    }

    #[must_use]
    pub(crate) fn requests(&self) -> usize {
        self.requests
    }

    pub(crate) fn add_links(
        &mut self,
        links: &[IntrinsicLink],
        confidence: PageConfidence,
        from: &Candidate,
    ) {
        self.frontier.add_links(links, confidence, from);
    }

    fn has_requests_left(&self) -> bool {
        self.requests < self.limits.requests
    }

    fn next_page(&mut self, ordering: &dyn PageOrdering, phase: VisitPhase) -> Option<Candidate> {
        let mut page = self.frontier.best(ordering, phase)?;
        page.url = self.entrances.spelled(page.url);
        self.chain.clear();
        self.retries_left = self.limits.retries;
        Some(page)
    }

    fn answered(&mut self, page: Candidate, fetched: FetchedPage) -> WalkStep {
        let Some(target) = fetched.redirect_target() else {
            return WalkStep::Answered { page, fetched };
        };
        let spelled = self.entrances.spelled(target.clone());
        if spelled.site() != self.site {
            return WalkStep::LedAway {
                page,
                fetched,
                target: spelled,
            };
        }
        self.chain.push(page.url.clone());
        let is_long = self.chain.len() > self.limits.redirects
            || spelled.as_str().len() > self.limits.url_bytes
            || !self.has_requests_left();
        let is_followed =
            !is_long && !self.chain.contains(&spelled) && self.frontier.claim(&page.url, &spelled);
        self.pending = is_followed.then(|| Candidate {
            url: spelled.clone(),
            ..page.clone()
        });
        WalkStep::Redirected {
            page,
            fetched,
            target,
            next: is_followed.then_some(spelled),
        }
    }

    fn unanswered(&mut self, page: Candidate, error: FetchError) -> WalkStep {
        let kind = error.kind;
        // These are about the site and not about the entrance, so another one would not help.
        let is_about_site = matches!(
            kind,
            ErrorKind::Deferred { .. } | ErrorKind::Disallowed | ErrorKind::Blocked
        );
        if !is_about_site && self.has_requests_left() {
            let may_answer = |entrance: &PageUrl| kind.leaves_entrance(entrance);
            let entrance = self.entrances.next_after(&page.url, may_answer);
            self.pending = entrance.map(|url| Candidate {
                url,
                ..page.clone()
            });
        }
        WalkStep::Unanswered {
            page,
            error,
            tries_on: self.is_under_way(),
        }
    }
}

/// Whether a server may respond differently in a moment.
fn is_worth_a_retry(result: &Result<FetchedPage, FetchError>) -> bool {
    match result {
        Ok(fetched) => fetched.transfer.busy_until.is_some() && !is_refused_by_gatekeeper(fetched),
        Err(error) => error.kind.is_transient(),
    }
}

/// Whether an error response is a challenge. Those of status 200 are recognised when parsed.
pub(super) fn is_refused_by_gatekeeper(fetched: &FetchedPage) -> bool {
    let is_error = fetched.status.is_client_error() || fetched.status.is_server_error();
    is_error && fetched.gatekeeper().is_some()
}
