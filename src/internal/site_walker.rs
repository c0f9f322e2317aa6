//! Walks one site, request by request: the pages that an ordering puts first, by the entrance that
//! answers, along redirects within the site, asking again where that may help.
//!
//! Visits and training walk alike; what they make of an answer is their own business. Each call of
//! [`SiteWalker::next`] makes one request, and says what became of it and whether the next call
//! goes on with the same page.
//!
//! Invariant: no page is asked for again once it answered, and a walk makes no more requests than
//! it may.

use crate::fetch::{ErrorKind, FetchError, Fetcher};
use crate::web::{
    Entrances, FetchedPage, IntrinsicLink, PageConfidence, PageUrl, SiteId, SiteVisit,
};

use super::page_frontier::{Candidate, PageFrontier};
use super::page_ordering::{PageOrdering, VisitPhase};

/// So many pages may wait for each request that may be made: a page of ten thousand links is not
/// worth remembering whole.
const WAITING_PER_REQUEST: usize = 200;

/// What bounds a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WalkerLimits {
    /// Requests for pages, answered or not.
    pub(crate) requests: usize,
    /// How often a page is asked for again if that may help.
    pub(crate) retries: usize,
    /// Redirects that are followed in a row.
    pub(crate) redirects: usize,
    /// The longest address that a redirect may lead to.
    pub(crate) url_bytes: usize,
}

/// A walk through one site.
pub(crate) struct SiteWalker<'w> {
    fetcher: &'w dyn Fetcher,
    site: SiteId,
    frontier: PageFrontier,
    entrances: Entrances,
    limits: WalkerLimits,
    requests: usize,
    /// The page that the next request goes on with: again, at another entrance, or where it led.
    pending: Option<Candidate>,
    retries_left: usize,
    /// The pages that have led to the pending one by redirects.
    chain: Vec<PageUrl>,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum WalkStep {
    /// The site gave an answer, whatever its status.
    Answered {
        /// The page asked for.
        page: Candidate,
        /// The answer.
        fetched: FetchedPage,
    },
    /// It leads to another page of the site.
    Redirected {
        /// The page asked for.
        page: Candidate,
        /// The answer.
        fetched: FetchedPage,
        /// Where it leads.
        target: PageUrl,
        /// The page that is asked for next; none if this way is not followed any further.
        next: Option<PageUrl>,
    },
    /// It leads to another site.
    LedAway {
        /// The page asked for.
        page: Candidate,
        /// The answer.
        fetched: FetchedPage,
        /// Where it leads.
        target: PageUrl,
    },
    /// There was no answer.
    Unanswered {
        /// The page asked for.
        page: Candidate,
        /// Why.
        error: FetchError,
        /// Whether another entrance is tried next.
        tries_on: bool,
    },
    /// The page is asked for again next.
    Retried {
        /// The page asked for.
        page: Candidate,
        /// What came of it this time.
        result: Result<FetchedPage, FetchError>,
    },
}

// === impl SiteWalker ===

impl<'w> SiteWalker<'w> {
    /// Makes ready to walk the site of a visit from its entrance, as far in as it reaches.
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

    /// Makes one request; none if there is no further page.
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
        if self.retries_left > 0 && self.has_requests_left() && may_help_to_ask_again(&result) {
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

    /// Whether the next request goes on with the page of the last.
    #[must_use]
    pub(crate) fn is_under_way(&self) -> bool {
        self.pending.is_some()
    }

    /// How many requests were made.
    #[must_use]
    pub(crate) fn requests(&self) -> usize {
        self.requests
    }

    /// Takes up the links of a page that was read.
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
        // These say how the site is to be treated, and not that its entrance is shut.
        let is_answer = matches!(
            kind,
            ErrorKind::Deferred { .. } | ErrorKind::Disallowed | ErrorKind::Blocked
        );
        if !is_answer && self.has_requests_left() {
            let is_hopeful = |entrance: &PageUrl| kind.leaves_entrance(entrance);
            let entrance = self.entrances.next_after(&page.url, is_hopeful);
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

/// Whether a server may give another answer in a moment.
fn may_help_to_ask_again(result: &Result<FetchedPage, FetchError>) -> bool {
    match result {
        Ok(fetched) => fetched.transfer.busy_until.is_some() && !is_refused_by_gatekeeper(fetched),
        Err(error) => error.kind.is_transient(),
    }
}

/// Whether an error is a challenge. Answers of status 200 are looked at when they are read.
pub(super) fn is_refused_by_gatekeeper(fetched: &FetchedPage) -> bool {
    let is_error = fetched.status.is_client_error() || fetched.status.is_server_error();
    is_error && fetched.gatekeeper().is_some()
}
