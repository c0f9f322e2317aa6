//! robots.txt: asked for once, believed for a day at most (RFC 9309).
//!
//! | what came | what it means (section 2.3.1) |
//! |---|---|
//! | 2xx | its rules |
//! | 3xx | followed up to five times, to other hosts too; more is as if there were none |
//! | 429, 5xx | nothing may be read for now |
//! | other 4xx | everything may be read |
//! | no answer, though the host can be connected to | nothing may be read for now |
//!
//! Invariant: a page is asked for only after the rules of its own origin are known and
//! allow it. Memory for rules is bounded by weight.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::time::Instant;

use crate::config::PolitenessSettings;
use crate::fetch::body::Body;
use crate::fetch::error::{DeferralCause, FetchError};
use crate::web::PageUrl;

use super::PRODUCT_TOKEN;
use super::client::Answer;
use super::retry_after;
use super::robots_rules::RobotsRules;
use super::turns::deferred;

const MAX_REDIRECTS: usize = 5;

/// Rules that cannot be had are not asked for again sooner, whatever the server says.
const SHORTEST_BREAK: Duration = Duration::from_mins(1);

/// What an entry takes beside its rules.
const ENTRY_BYTES: usize = 256;

/// The number of sites for which the cache is laid out; it may hold more.
const EXPECTED_RULES_BYTES: usize = 1_024;

/// The rules of all origins that were asked lately.
#[derive(Debug)]
pub(super) struct Robots {
    cache: Cache<String, Arc<Known>, ByWeight>,
    max_age: Duration,
    come_back: Duration,
}

/// What is known about one origin.
#[derive(Debug)]
pub(super) struct Known {
    /// None if they cannot be had for now.
    rules: Option<RobotsRules>,
    expires: Instant,
}

/// How robots.txt is asked for: one polite request.
pub(super) trait Road: Sync {
    fn ask(&self, url: &PageUrl) -> impl Future<Output = Result<Answer, FetchError>> + Send;
}

#[derive(Debug, Clone)]
struct ByWeight;

impl Weighter<String, Arc<Known>> for ByWeight {
    fn weight(&self, origin: &String, known: &Arc<Known>) -> u64 {
        let rules = known.rules.as_ref().map_or(0, RobotsRules::weight);
        (ENTRY_BYTES + origin.len() + rules) as u64
    }
}

// === impl Robots ===

impl Robots {
    pub(super) fn new(settings: &PolitenessSettings) -> Self {
        let bytes = settings.robots_cache;
        Self {
            cache: Cache::with_weighter(bytes / EXPECTED_RULES_BYTES, bytes as u64, ByWeight),
            max_age: settings.robots_max_age,
            come_back: settings.come_back,
        }
    }

    /// The rules for a page, and how many requests were answered to get them. While one task asks for the rules of an origin, others wait for them.
    pub(super) async fn rules_for(
        &self,
        page: &PageUrl,
        road: &impl Road,
    ) -> Result<(Arc<Known>, usize), FetchError> {
        let origin = page.origin();
        loop {
            match self.cache.get_value_or_guard_async(origin).await {
                Ok(known) if known.expires > Instant::now() => return Ok((known, 0)),
                Ok(_) => {
                    let is_old = |known: &Arc<Known>| known.expires <= Instant::now();
                    self.cache.remove_if(origin, is_old);
                }
                Err(place) => {
                    let (known, requests) = self.load(page, road).await?;
                    let known = Arc::new(known);
                    // Refused only if the place was given to somebody else meanwhile.
                    let _ = place.insert(Arc::clone(&known));
                    return Ok((known, requests));
                }
            }
        }
    }

    async fn load(&self, page: &PageUrl, road: &impl Road) -> Result<(Known, usize), FetchError> {
        let mut url = page.robots_txt();
        for requests in 0..=MAX_REDIRECTS {
            let answer = match road.ask(&url).await {
                Ok(answer) => answer,
                // The host itself is out of reach, and so is the page.
                Err(error) if requests == 0 && error.kind.is_before_http() => return Err(error),
                Err(error) => {
                    tracing::debug!(%url, %error, "no robots.txt for now");
                    return Ok((self.unavailable(None), requests));
                }
            };
            let requests = requests + 1;
            let status = answer.parts.status;
            if status.is_redirection()
                && let Some(target) = redirect_target(&url, &answer)
            {
                url = target;
                continue;
            }
            return Ok((self.read(status, &answer), requests));
        }
        Ok((self.found(RobotsRules::allow_all()), MAX_REDIRECTS + 1))
    }

    fn read(&self, status: StatusCode, answer: &Answer) -> Known {
        match status {
            StatusCode::TOO_MANY_REQUESTS => self.unavailable(retry_after(&answer.parts.headers)),
            status if status.is_server_error() => {
                self.unavailable(retry_after(&answer.parts.headers))
            }
            status if status.is_success() => {
                let text = whole_lines(&answer.body);
                self.found(RobotsRules::parse(text, PRODUCT_TOKEN))
            }
            _ => self.found(RobotsRules::allow_all()),
        }
    }

    fn found(&self, rules: RobotsRules) -> Known {
        Known {
            rules: Some(rules),
            expires: Instant::now() + self.max_age,
        }
    }

    fn unavailable(&self, retry_after: Option<Duration>) -> Known {
        let wait = retry_after.unwrap_or(self.come_back).max(SHORTEST_BREAK);
        let day = Duration::from_hours(24);
        Known {
            rules: None,
            expires: Instant::now() + wait.min(day),
        }
    }
}

// === impl Known ===

impl Known {
    /// The rules, or the time at which to ask for them again.
    pub(super) fn rules(&self, page: &PageUrl) -> Result<&RobotsRules, FetchError> {
        let wait = self.expires.saturating_duration_since(Instant::now());
        let cause = DeferralCause::RobotsUnavailable;
        let rules = self.rules.as_ref();
        rules.ok_or_else(|| deferred(&page.site(), wait, cause))
    }
}

/// A line that was cut may forbid more than it was meant to.
fn whole_lines(body: &Body) -> &[u8] {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    match body.bytes.iter().rposition(is_end) {
        Some(end) if body.truncated => &body.bytes[..end],
        None if body.truncated => &[],
        _ => &body.bytes,
    }
}

fn redirect_target(url: &PageUrl, answer: &Answer) -> Option<PageUrl> {
    let location = answer.parts.headers.get(http::header::LOCATION)?;
    let reference = String::from_utf8_lossy(location.as_bytes());
    PageUrl::join(url.as_url(), &reference).ok()
}
