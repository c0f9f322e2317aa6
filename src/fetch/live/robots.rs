//! robots.txt: requested once per origin, cached for a day at most (RFC 9309).
//!
//! | response | meaning (section 2.3.1) |
//! |---|---|
//! | a challenge: by a header; 2xx other than 200; 401, 403, 429, 503 or HTML of status 200 with the body of one | nothing may be read for now, because a gatekeeper answered |
//! | 200 | its rules; HTML has none |
//! | 3xx | followed up to five times, to other hosts too; beyond that everything may be read |
//! | 3xx to a host that the operator blocks, or does not allow | no request is made there, and nothing of the site is read: it counts as blocked |
//! | 429, 5xx | nothing may be read for now |
//! | other 4xx | everything may be read |
//! | none or half of one, though the host can be connected to | nothing may be read for now |
//!
//! Challenges are recognised by [`crate::web::challenge`]. Gatekeepers challenge robots with any
//! status; taken for the site's own response, a 403 would allow everything.
//!
//! Invariant: a page is requested only after the rules of its own origin are known and allow it.
//! Memory for rules is bounded by weight.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use tokio::time::Instant;

use crate::config::PolitenessSettings;
use crate::fetch::body::Body;
use crate::fetch::error::{ErrorKind, FetchError};
use crate::web::{DeferralCause, PageUrl, challenge};

use super::PRODUCT_TOKEN;
use super::client::Answer;
use super::retry_after;
use super::robots_rules::RobotsRules;
use super::turns::deferred;

const MAX_REDIRECTS: usize = 5;

/// Minimum time before an unavailable robots.txt is requested again, whatever the server says.
const SHORTEST_BREAK: Duration = Duration::from_mins(1);

/// Overhead of a cache entry.
const ENTRY_BYTES: usize = 256;

/// The weight of the largest possible rules: 500 KiB of the shortest lines.
const SHARD_BYTES: usize = 4 << 20;

/// Typical weight of the rules of one origin; sets the initial capacity of the cache.
const EXPECTED_RULES_BYTES: usize = 1_024;

/// The cache of rules by origin.
#[derive(Debug)]
pub(super) struct Robots {
    cache: Cache<String, Arc<KnownRules>, RulesWeight>,
    max_age: Duration,
    come_back: Duration,
}

/// What is known about one origin.
#[derive(Debug)]
pub(super) struct KnownRules {
    /// The rules, or why they are unavailable for now.
    rules: Result<RobotsRules, DeferralCause>,
    expires: Instant,
}

/// Requests a robots.txt: one polite request.
pub(super) trait RobotsTransport: Sync {
    fn get(&self, url: &PageUrl) -> impl Future<Output = Result<Answer, FetchError>> + Send;
}

#[derive(Debug, Clone)]
struct RulesWeight;

impl Weighter<String, Arc<KnownRules>> for RulesWeight {
    fn weight(&self, origin: &String, known: &Arc<KnownRules>) -> u64 {
        let rules = known.rules.as_ref().map_or(0, RobotsRules::weight);
        (ENTRY_BYTES + origin.len() + rules) as u64
    }
}

// === impl Robots ===

impl Robots {
    pub(super) fn new(settings: &PolitenessSettings) -> Self {
        let bytes = settings.robots_cache;
        // A rule set that does not fit into its shard would be requested before every page.
        let options = OptionsBuilder::new()
            .estimated_items_capacity(bytes / EXPECTED_RULES_BYTES)
            .weight_capacity(bytes as u64)
            .shards((bytes / SHARD_BYTES).clamp(1, 64))
            .build()
            .expect("both capacities are given");
        Self {
            cache: Cache::with_options(
                options,
                RulesWeight,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            max_age: settings.robots_max_age,
            come_back: settings.come_back,
        }
    }

    /// The rules for a page, and the number of requests for them that got a response.
    pub(super) async fn rules_for(
        &self,
        page: &PageUrl,
        transport: &impl RobotsTransport,
    ) -> Result<(Arc<KnownRules>, usize), FetchError> {
        match self.cache.get(page.origin()) {
            Some(known) if known.expires > Instant::now() => Ok((known, 0)),
            // Boxed, because it is rare and would make every fetch larger.
            _ => Box::pin(self.renew(page, transport)).await,
        }
    }

    /// While one task requests the rules of an origin, others wait for them.
    async fn renew(
        &self,
        page: &PageUrl,
        transport: &impl RobotsTransport,
    ) -> Result<(Arc<KnownRules>, usize), FetchError> {
        let origin = page.origin();
        loop {
            match self.cache.get_value_or_guard_async(origin).await {
                Ok(known) if known.expires > Instant::now() => return Ok((known, 0)),
                Ok(_) => {
                    let is_old = |known: &Arc<KnownRules>| known.expires <= Instant::now();
                    self.cache.remove_if(origin, is_old);
                }
                Err(place) => {
                    let (known, requests) = self.load(page, transport).await?;
                    let known = Arc::new(known);
                    // Fails only if the entry was replaced in the meantime.
                    let _ = place.insert(Arc::clone(&known));
                    return Ok((known, requests));
                }
            }
        }
    }

    async fn load(
        &self,
        page: &PageUrl,
        transport: &impl RobotsTransport,
    ) -> Result<(KnownRules, usize), FetchError> {
        let mut url = page.robots_txt();
        for requests in 0..=MAX_REDIRECTS {
            let answer = match transport.get(&url).await {
                Ok(answer) => answer,
                // The host itself cannot be reached, so neither can the page.
                Err(error) if requests == 0 && error.kind.is_before_http() => return Err(error),
                // Without its rules nothing is read. This is not cached, because the operator may
                // lift the block.
                Err(error) if error.kind == ErrorKind::Blocked => {
                    let (site, host) = (page.site(), url.site());
                    let message = format!(
                        "robots.txt of {site} redirects to {host}, which the operator blocks"
                    );
                    let error = FetchError::new(ErrorKind::Blocked, message);
                    return Err(error.with_robots_requests(requests));
                }
                // It was not requested, so there is nothing to cache.
                Err(error) if error.kind.is_deferral() => {
                    return Err(error.with_robots_requests(requests));
                }
                Err(error) => {
                    tracing::debug!(%url, %error, "robots.txt is unavailable");
                    return Ok((self.unavailable(None), requests));
                }
            };
            let requests = requests + 1;
            let status = answer.parts.status;
            if let Some(gatekeeper) = gatekeeper(status, &answer) {
                tracing::debug!(%url, gatekeeper, "a challenge instead of robots.txt");
                return Ok((self.challenged(&answer), requests));
            }
            match redirect_target(&url, &answer).filter(|_| status.is_redirection()) {
                Some(target) if challenge::is_gate(&target) => {
                    tracing::debug!(%url, %target, "a challenge instead of robots.txt");
                    return Ok((self.challenged(&answer), requests));
                }
                Some(target) => url = target,
                None => return Ok((self.read(status, &answer), requests)),
            }
        }
        Ok((self.found(RobotsRules::allow_all()), MAX_REDIRECTS + 1))
    }

    fn read(&self, status: StatusCode, answer: &Answer) -> KnownRules {
        match status {
            // The part received may allow what the rest disallows.
            status if status.is_success() && answer.is_broken => self.unavailable(None),
            StatusCode::TOO_MANY_REQUESTS => self.unavailable(retry_after(&answer.parts.headers)),
            status if status.is_server_error() => {
                self.unavailable(retry_after(&answer.parts.headers))
            }
            status if status.is_success() && !is_html(&answer.body) => {
                let text = whole_lines(&answer.body);
                self.found(RobotsRules::parse(text, PRODUCT_TOKEN))
            }
            _ => self.found(RobotsRules::allow_all()),
        }
    }

    fn found(&self, rules: RobotsRules) -> KnownRules {
        KnownRules {
            rules: Ok(rules),
            expires: Instant::now() + self.max_age,
        }
    }

    fn unavailable(&self, retry_after: Option<Duration>) -> KnownRules {
        self.later(retry_after, DeferralCause::RobotsUnavailable)
    }

    fn challenged(&self, answer: &Answer) -> KnownRules {
        let wait = retry_after(&answer.parts.headers);
        self.later(wait, DeferralCause::Challenged)
    }

    fn later(&self, retry_after: Option<Duration>, cause: DeferralCause) -> KnownRules {
        let wait = retry_after.unwrap_or(self.come_back).max(SHORTEST_BREAK);
        let day = Duration::from_hours(24);
        KnownRules {
            rules: Err(cause),
            expires: Instant::now() + wait.min(day),
        }
    }
}

// === impl KnownRules ===

impl KnownRules {
    /// The rules, or a deferral until they are requested again.
    pub(super) fn rules(&self, page: &PageUrl) -> Result<&RobotsRules, FetchError> {
        self.rules.as_ref().map_err(|cause| {
            let wait = self.expires.saturating_duration_since(Instant::now());
            deferred(&page.site(), wait, *cause)
        })
    }
}

/// The gatekeeper that answered instead of the site, if one did. A site has no reason to serve
/// robots.txt with a 2xx other than 200; some gatekeepers do.
fn gatekeeper(status: StatusCode, answer: &Answer) -> Option<&'static str> {
    let by_headers = challenge::gatekeeper_by_headers(&answer.parts.headers);
    let by_body = || match status.as_u16() {
        200 if !is_html(&answer.body) => None,
        200 | 401 | 403 | 429 | 503 => challenge::gatekeeper_by_body(&answer.body.bytes),
        201..=299 => Some("unknown"),
        _ => None,
    };
    by_headers.or_else(by_body)
}

/// Whether a body is an HTML page.
fn is_html(body: &Body) -> bool {
    let text = body.bytes.strip_prefix(b"\xef\xbb\xbf");
    let text = text.unwrap_or(&body.bytes).trim_ascii_start();
    let begins = |tag: &[u8]| {
        let start = text.get(..tag.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(tag))
    };
    begins(b"<!doctype html") || begins(b"<html")
}

/// Drops a truncated last line, which might disallow more than intended.
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::Response;
    use tokio::task::JoinSet;
    use tokio::time::{advance, sleep};

    use super::*;
    use crate::telemetry::clock;

    const HOUR: Duration = Duration::from_hours(1);

    /// Serves one status and one text, and counts requests.
    struct Server {
        answer: Mutex<(u16, &'static str)>,
        retry_after: Option<&'static str>,
        requests: AtomicUsize,
    }

    impl Server {
        fn new(status: u16, text: &'static str) -> Self {
            Self {
                answer: Mutex::new((status, text)),
                retry_after: None,
                requests: AtomicUsize::new(0),
            }
        }

        fn requests(&self) -> usize {
            self.requests.load(Ordering::Relaxed)
        }
    }

    impl RobotsTransport for Server {
        async fn get(&self, url: &PageUrl) -> Result<Answer, FetchError> {
            assert_eq!(url.path(), "/robots.txt");
            self.requests.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(50)).await;
            let (status, text) = *self.answer.lock().unwrap();
            let mut response = Response::builder().status(status);
            if let Some(wait) = self.retry_after {
                response = response.header("retry-after", wait);
            }
            Ok(Answer {
                parts: response.body(()).unwrap().into_parts().0,
                body: Body {
                    bytes: text.into(),
                    truncated: false,
                },
                address: None,
                wire_bytes: 0,
                is_broken: false,
                duration: Duration::ZERO,
            })
        }
    }

    fn robots() -> Robots {
        Robots::new(&PolitenessSettings::default())
    }

    fn page(text: &str) -> PageUrl {
        text.parse().unwrap()
    }

    /// Whether a page may be read; the error is the deferral in seconds.
    async fn may_read(robots: &Robots, server: &Server, url: &str) -> Result<bool, u64> {
        let page = page(url);
        let (known, _) = robots.rules_for(&page, server).await.unwrap();
        match known.rules(&page) {
            Ok(rules) => Ok(rules.allows(page.target())),
            Err(error) => match error.kind {
                ErrorKind::Deferred { not_before, .. } => {
                    let wait = not_before.duration_since(clock::now()).unwrap();
                    // The time of day is read twice, and paused time is not exact to the second.
                    Err((wait + Duration::from_millis(500)).as_secs())
                }
                kind => panic!("{kind:?}"),
            },
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rules_are_believed_for_a_day() {
        let robots = robots();
        let server = Server::new(200, "User-agent: *\nDisallow: /a");
        assert_eq!(
            may_read(&robots, &server, "http://x.org/a").await,
            Ok(false)
        );
        *server.answer.lock().unwrap() = (200, "");
        advance(Duration::from_secs(86_399)).await;
        assert_eq!(
            may_read(&robots, &server, "http://x.org/a").await,
            Ok(false)
        );
        assert_eq!(server.requests(), 1);
        advance(Duration::from_secs(2)).await;
        assert_eq!(may_read(&robots, &server, "http://x.org/a").await, Ok(true));
        assert_eq!(server.requests(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn every_origin_has_rules_of_its_own() {
        let robots = robots();
        let server = Server::new(404, "");
        for origin in [
            "http://x.org/",
            "https://x.org/",
            "http://www.x.org/",
            "http://x.org:81/",
        ] {
            assert_eq!(may_read(&robots, &server, origin).await, Ok(true));
        }
        assert_eq!(server.requests(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_ends_when_it_was_said_to() {
        let robots = robots();
        let server = Server::new(503, "");
        assert_eq!(may_read(&robots, &server, "http://x.org/").await, Err(3600));
        assert_eq!(
            may_read(&robots, &server, "http://x.org/b").await,
            Err(3600)
        );
        assert_eq!(server.requests(), 1, "not again and again");
        *server.answer.lock().unwrap() = (200, "");
        advance(HOUR).await;
        assert_eq!(may_read(&robots, &server, "http://x.org/").await, Ok(true));

        for (retry_after, wait) in [("7200", 7_200), ("1", 60), ("9999999", 86_400)] {
            let mut server = Server::new(429, "");
            server.retry_after = Some(retry_after);
            let origin = format!("http://{retry_after}.org/");
            assert_eq!(may_read(&robots, &server, &origin).await, Err(wait));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_lookups_of_the_same_rules_send_one_request() {
        let (robots, server) = (Arc::new(robots()), Arc::new(Server::new(404, "")));
        let mut readers = JoinSet::new();
        for number in 0..50 {
            let (robots, server) = (Arc::clone(&robots), Arc::clone(&server));
            readers.spawn(async move {
                let page = format!("http://x.org/{number}");
                may_read(&robots, &server, &page).await
            });
        }
        assert!(readers.join_all().await.iter().all(|may| *may == Ok(true)));
        assert_eq!(server.requests(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_however_many_hosts_there_are() {
        let bytes = 1 << 20;
        let robots = Robots::new(&PolitenessSettings {
            robots_cache: bytes,
            ..PolitenessSettings::default()
        });
        let server = Server::new(200, "User-agent: *\nDisallow: /some/long/path/of/a/site");
        for number in 0..5_000 {
            let page = format!("http://host{number}.org/");
            assert_eq!(may_read(&robots, &server, &page).await, Ok(true));
        }
        assert!(
            robots.cache.weight() <= bytes as u64,
            "{}",
            robots.cache.weight()
        );
        assert!(robots.cache.len() > 100);
    }
}
