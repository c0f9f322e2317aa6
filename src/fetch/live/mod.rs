//! The live web: polite and safe HTTP requests.
//!
//! The steps of a request, and the files they are in:
//!
//! | file | what it decides |
//! |---|---|
//! | `../host_guard.rs` | does the operator permit the host; checked again after each wait |
//! | `robots.rs`, `robots_rules.rs` | may the page be read at all |
//! | `turns.rs` | is it our turn at this site |
//! | `connections.rs` | is a connection open, may another one be opened |
//! | `names.rs`, `name_sockets.rs`, `address_guard.rs` | where is the host, and may we go there |
//! | `pace.rs` | has the pause of the address passed |
//! | `connector.rs`, `tls.rs` | connection, proxy, TLS and certificate |
//! | `client.rs`, `exchange_timeout.rs`, `meter.rs` | one request and one response, within limits |
//!
//! Invariants: what robots.txt disallows or the operator blocks is never requested, every address
//! is checked before it is connected to, and waiting for one site never blocks another.

mod address_guard;
mod client;
mod connections;
mod connector;
mod exchange_timeout;
mod meter;
mod name_sockets;
mod names;
mod pace;
mod robots;
mod robots_rules;
mod tls;
mod turns;

use std::sync::{Arc, Once};
use std::time::Duration;

use async_trait::async_trait;
use http::StatusCode;
use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use thiserror::Error;
use tokio::time::Instant;

use crate::config::{FetchSettings, PolitenessSettings};
use crate::telemetry::clock;
use crate::web::{FetchedPage, PageUrl, Transfer};

use super::Fetcher;
use super::error::{ErrorKind, FetchError};
use super::host_guard::HostGuard;
use super::metrics::FetchMetrics;
use super::recorder::Recorder;
use client::{Answer, Client, Wanted};
use connections::Connections;
use robots::{Robots, RobotsTransport};
use tls::TlsSettingsError;
use turns::{ServerReply, Turns};

/// The name of this crawler in robots.txt and in the user agent.
const PRODUCT_TOKEN: &str = env!("CARGO_PKG_NAME");

/// Descriptors reserved for other uses than connections: name servers, archives, the store. Under a
/// low limit it is half of all descriptors, but never fewer than a crawl with its store needs.
const OTHER_FILES: u64 = 512;
const LEAST_OTHER_FILES: u64 = 24;

const LONGEST_RETRY: Duration = Duration::from_hours(365 * 24);

/// The live web as a fetcher. All users of one instance share its politeness.
#[derive(Debug)]
pub struct LiveWeb {
    guard: Arc<HostGuard>,
    robots: Robots,
    turns: Turns,
    client: Client,
    metrics: FetchMetrics,
    come_back: Duration,
    /// Logged once only: most links lead to hosts that are not mapped.
    no_contact: Once,
}

/// Why the live web cannot be used at all.
#[derive(Debug, Error)]
pub enum LiveWebError {
    /// The settings name no contact.
    #[error(
        "the live web is refused without a contact: set `contact` in [fetch] of the settings to a \
         URL or a mail address by which webmasters can reach you, and pass the file with --config"
    )]
    NoContact,
    /// The certificates named in the settings cannot be used.
    #[error(transparent)]
    Certificates(#[from] TlsSettingsError),
}

// === impl LiveWeb ===

impl LiveWeb {
    /// Builds the client, and raises the limit of open files to what the settings need.
    /// With a recorder, every request and response is written to it.
    pub fn new(
        settings: &FetchSettings,
        metrics: FetchMetrics,
        recorder: Option<Recorder>,
    ) -> Result<Self, LiveWebError> {
        Self::check(settings)?;
        let user_agent = HeaderValue::from_str(&user_agent(settings));
        let user_agent = user_agent.map_err(|_| LiveWebError::NoContact)?;
        let room = room_for(settings.limits.connections);
        let connections = Connections::new(room, settings.limits.idle, metrics.connections());
        let guard: Arc<HostGuard> = Arc::default();
        Ok(Self {
            robots: Robots::new(&settings.politeness),
            turns: Turns::new(settings.politeness.clone()),
            client: Client::new(
                settings,
                Arc::clone(&guard),
                connections,
                metrics.waiting_requests(),
                user_agent,
                recorder,
            )?,
            guard,
            metrics,
            come_back: settings.politeness.come_back,
            no_contact: Once::new(),
        })
    }

    /// Whether the settings permit any request.
    pub(crate) fn check(settings: &FetchSettings) -> Result<(), LiveWebError> {
        if settings.contact.is_none() && settings.resolve.is_empty() {
            Err(LiveWebError::NoContact)
        } else {
            Ok(())
        }
    }

    /// Applies `pause` and `longest_wait` of these settings from now on; the rest is unchanged.
    pub(super) fn set_pace(&self, politeness: &PolitenessSettings) {
        self.turns
            .set_pace(politeness.pause, politeness.longest_wait);
    }

    /// The host lists and blocks; they can be changed at any time.
    pub(super) fn guard(&self) -> &Arc<HostGuard> {
        &self.guard
    }

    /// How many connections are open, idle ones included.
    #[must_use]
    pub fn connections_open(&self) -> usize {
        self.client.connections_open()
    }

    /// Checks robots.txt, then requests the page.
    async fn read(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
        let (known, robots_requests) = self.robots.rules_for(page, self).await?;
        let counted = |error: FetchError| error.with_robots_requests(robots_requests);
        let rules = known.rules(page).map_err(counted)?;
        if !rules.allows(page.target()) {
            return Err(counted(FetchError::disallowed(page)));
        }
        let answer = self.exchange(page, rules.crawl_delay(), Wanted::Page).await;
        Ok(self.fetched(page, answer.map_err(counted)?, robots_requests))
    }

    /// Waits for the site's turn and makes one request.
    async fn exchange(
        &self,
        url: &PageUrl,
        crawl_delay: Option<Duration>,
        wanted: Wanted,
    ) -> Result<Answer, FetchError> {
        let site = url.site();
        self.guard.check(&site)?;
        let next_turn = self.turns.take(&site, crawl_delay);
        let turn = self.metrics.waiting_requests().wait_for(next_turn).await?;
        let answer = self.client.get(url, &site, wanted).await;
        match &answer {
            Ok(answer) => turn.end(server_reply(&answer.parts)),
            Err(error) if error.kind.is_before_http() || error.kind.is_deferral() => turn.unused(),
            Err(_) => turn.end(ServerReply::Failed),
        }
        answer
    }

    /// The page, with the time of the next visit if the server was too busy to serve it.
    fn fetched(&self, page: &PageUrl, answer: Answer, robots_requests: usize) -> FetchedPage {
        let busy_until = is_busy(answer.parts.status).then(|| {
            let wait = retry_after(&answer.parts.headers).unwrap_or(self.come_back);
            clock::now() + wait
        });
        FetchedPage {
            url: page.clone(),
            status: answer.parts.status,
            headers: answer.parts.headers,
            body: answer.body.bytes,
            truncated: answer.body.truncated,
            transfer: Transfer {
                address: answer.address,
                wire_bytes: answer.wire_bytes,
                duration: answer.duration,
                robots_requests,
                busy_until,
            },
        }
    }
}

impl RobotsTransport for LiveWeb {
    async fn get(&self, url: &PageUrl) -> Result<Answer, FetchError> {
        let answer = self.exchange(url, None, Wanted::Robots).await;
        let status = answer.as_ref().map(|answer| answer.parts.status);
        self.metrics.count_robots(status);
        answer
    }
}

#[async_trait]
impl Fetcher for LiveWeb {
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
        let started = Instant::now();
        let result = self.read(page).await;
        if let Err(error) = &result
            && error.kind == ErrorKind::NoContact
        {
            self.no_contact.call_once(|| tracing::warn!(%error));
        }
        self.metrics.count_page(&result, started.elapsed());
        result
    }
}

/// The `User-Agent` header: `sitescout/VERSION (+contact)`.
#[must_use]
pub fn user_agent(settings: &FetchSettings) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match &settings.contact {
        Some(contact) => format!("{PRODUCT_TOKEN}/{version} (+{contact})"),
        None => format!("{PRODUCT_TOKEN}/{version}"),
    }
}

/// Raises the limit of open files and returns how many connections fit under it.
fn room_for(connections: usize) -> usize {
    let wanted = connections as u64 + OTHER_FILES;
    let limit = match rlimit::increase_nofile_limit(wanted) {
        Ok(limit) => limit,
        Err(error) => {
            tracing::warn!(%error, "cannot read the limit of open files");
            return connections;
        }
    };
    if limit >= wanted {
        return connections;
    }
    let others = (limit / 2).clamp(LEAST_OTHER_FILES, OTHER_FILES);
    let room = limit.saturating_sub(others).max(1);
    tracing::warn!(
        limit,
        connections = room,
        "fewer connections than the settings allow: raise the limit of open files"
    );
    usize::try_from(room).unwrap_or(connections)
}

/// The response as politeness sees it.
fn server_reply(parts: &http::response::Parts) -> ServerReply {
    match parts.status {
        status if is_busy(status) => ServerReply::Busy(retry_after(&parts.headers)),
        status if status.is_server_error() => ServerReply::Failed,
        _ => ServerReply::Answered,
    }
}

fn is_busy(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    )
}

/// RFC 9110, section 10.2.3: seconds or a date. A date in the past means now; more than a year is
/// cut to a year.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = value.parse().ok().map(Duration::from_secs);
    let by_date = || {
        let date = httpdate::parse_http_date(value).ok()?;
        Some(date.duration_since(clock::now()).unwrap_or_default())
    };
    let wait = seconds.or_else(by_date)?;
    Some(wait.min(LONGEST_RETRY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let parsed = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(parsed("120"), Some(Duration::from_mins(2)));
        assert_eq!(parsed(" 0 "), Some(Duration::ZERO));
        assert_eq!(
            parsed("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(Duration::ZERO)
        );
        let later = clock::now() + Duration::from_mins(10);
        let wait = parsed(&httpdate::fmt_http_date(later)).unwrap();
        assert!(wait > Duration::from_secs(590) && wait <= Duration::from_mins(10));
        assert_eq!(parsed("soon"), None);
        assert_eq!(parsed("-5"), None);
        assert_eq!(parsed("99999999999999999999"), None);
        assert_eq!(parsed("18446744073709551615"), Some(LONGEST_RETRY));
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn we_say_who_we_are() {
        let mut settings = FetchSettings::default();
        assert_eq!(user_agent(&settings), "sitescout/0.1.0");
        settings.contact = Some("https://example.org/bot".to_owned());
        assert_eq!(
            user_agent(&settings),
            "sitescout/0.1.0 (+https://example.org/bot)"
        );
    }
}
