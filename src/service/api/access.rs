//! Access to the API: token, host check, rate limit, timeouts, security headers.
//!
//! Invariants: the token is compared in constant time, and neither returned nor logged. Writes need
//! it; reads need it, too, unless the daemon listens on a loopback address without
//! `reads_need_token`.
//! Requests with an unknown `Host` are refused: by DNS rebinding a page in a browser could otherwise
//! reach a loopback address.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use subtle::ConstantTimeEq;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::timeout;
use utoipa::Modify;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use crate::config::ApiSettings;

use super::super::DaemonState;
use super::Api;
use super::answers::ApiProblem;

/// Timeout of a request, not counting `wait` of the feed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum `wait` of the feed.
pub(super) const MAX_FEED_WAIT: Duration = Duration::from_mins(1);

/// Size of a burst, in seconds of the permitted rate.
const BURST: u32 = 10;

/// With more addresses than this, the rate limiter drops those without recent requests.
const MAX_TRACKED_ADDRESSES: usize = 10_000;

/// Permitted lengths of a token, in characters.
const TOKEN_LENGTH: std::ops::RangeInclusive<usize> = 16..=512;

/// The bearer token of the daemon.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Why a token cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum TokenError {
    /// Short enough to guess, or too long to be a token.
    #[error(
        "the token has {0} characters; its first line must have 16 to 512, such as `openssl rand \
         -hex 32` prints"
    )]
    Length(usize),
    /// Cannot be sent in a header.
    #[error("the token has characters other than printable ASCII")]
    Characters,
}

/// The address that a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerAddress(pub(crate) SocketAddr);

/// Extractor and proof: the request carries the right token.
pub(super) struct Authorized;

/// The rules for all requests.
pub(super) struct Access {
    are_reads_open: bool,
    hosts: Vec<String>,
    limiter: Option<DefaultKeyedRateLimiter<IpAddr>>,
    state: watch::Receiver<DaemonState>,
}

/// Adds the bearer scheme to the `OpenAPI` description.
pub(super) struct TokenScheme;

// === impl Token ===

impl Token {
    /// Parses the text of a token file: its first line.
    pub(crate) fn parse(text: &str) -> Result<Self, TokenError> {
        let token = text.lines().next().unwrap_or_default().trim();
        if !TOKEN_LENGTH.contains(&token.len()) {
            return Err(TokenError::Length(token.len()));
        }
        if token.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(token.to_owned()))
        } else {
            Err(TokenError::Characters)
        }
    }

    fn matches(&self, sent: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(sent).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

// === impl Access ===

impl Access {
    pub(super) fn new(
        settings: &ApiSettings,
        is_loopback: bool,
        state: watch::Receiver<DaemonState>,
    ) -> Self {
        let rate = u32::try_from(settings.requests_per_second).unwrap_or(u32::MAX);
        let limiter = NonZeroU32::new(rate).map(|rate| {
            let burst = rate.saturating_mul(NonZeroU32::new(BURST).unwrap_or(rate));
            RateLimiter::keyed(Quota::per_second(rate).allow_burst(burst))
        });
        Self {
            are_reads_open: is_loopback && !settings.reads_need_token,
            hosts: settings.hosts.clone(),
            limiter,
            state,
        }
    }

    /// Whether a `Host` is one of the daemon's: any address, `localhost`, or one of the settings.
    fn is_own_host(&self, host: &str) -> bool {
        let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let is_equal = |own: &String| own.eq_ignore_ascii_case(host);
        is_address || host.eq_ignore_ascii_case("localhost") || self.hosts.iter().any(is_equal)
    }

    /// The time until the next permitted request, if the peer is above the rate limit.
    fn retry_after(&self, peer: IpAddr) -> Option<Duration> {
        let limiter = self.limiter.as_ref()?;
        if limiter.len() > MAX_TRACKED_ADDRESSES {
            limiter.retain_recent();
        }
        let refused = limiter.check_key(&rate_limit_key(peer)).err()?;
        Some(refused.wait_time_from(DefaultClock::default().now()))
    }
}

/// One IPv6 client has a whole /64 network at its disposal.
fn rate_limit_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// Refuses unknown hosts and requests above the rate limit.
pub(super) async fn check_host_and_rate(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    if !host_of(&request).is_some_and(|host| access.is_own_host(&host)) {
        return ApiProblem::wrong_host().into_response();
    }
    let peer = request.extensions().get::<PeerAddress>().copied();
    if let Some(wait) = peer.and_then(|PeerAddress(peer)| access.retry_after(peer.ip())) {
        return ApiProblem::too_many(wait.as_secs() + 1).into_response();
    }
    next.run(request).await
}

/// Demands the token for reads, unless they are open.
pub(super) async fn check_reader(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    if !access.are_reads_open {
        let (parts, body) = request.into_parts();
        return match check_token(&parts, &access.state) {
            Ok(Authorized) => next.run(Request::from_parts(parts, body)).await,
            Err(problem) => problem.into_response(),
        };
    }
    next.run(request).await
}

/// Limits the time of a request, against slow senders and expensive queries.
pub(super) async fn limit_time(request: Request, next: Next) -> Response {
    let limit = if request.uri().path() == super::feed::PATH {
        REQUEST_TIMEOUT + MAX_FEED_WAIT
    } else {
        REQUEST_TIMEOUT
    };
    match timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiProblem::too_slow().into_response(),
    }
}

/// Sets security headers on every response. The API serves no documents, so its policy permits
/// nothing; the dashboard has set its own before.
pub(super) async fn add_security_headers(mut response: Response) -> Response {
    const OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
    const RESOURCE: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
    let headers = response.headers_mut();
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (OPENER, "same-origin"),
        (RESOURCE, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(policy);
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(CACHE_CONTROL).or_insert(no_store);
    response
}

/// The host of the request target or the `Host` header, without the port.
fn host_of(request: &Request) -> Option<String> {
    if let Some(host) = request.uri().host() {
        return Some(host.to_owned());
    }
    let host = request.headers().get(HOST)?.to_str().ok()?;
    Some(host.parse::<Authority>().ok()?.host().to_owned())
}

fn check_token(
    parts: &Parts,
    state: &watch::Receiver<DaemonState>,
) -> Result<Authorized, ApiProblem> {
    let plan = Arc::clone(&state.borrow().plan);
    let Some(token) = &plan.token else {
        return Err(ApiProblem::forbidden(
            "the daemon has no token, so it refuses this: name a file as `token_file` in [api]",
        ));
    };
    let header = parts.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let Some(header) = header else {
        return Err(ApiProblem::unauthorized(
            "this needs the token of the daemon: send the header `authorization: Bearer TOKEN`",
        ));
    };
    let (scheme, sent) = header.split_at_checked(7).unwrap_or_default();
    if scheme.eq_ignore_ascii_case(b"bearer ") && token.matches(sent.trim_ascii()) {
        return Ok(Authorized);
    }
    let peer = parts.extensions.get::<PeerAddress>();
    tracing::warn!(
        peer = %peer.map_or("unknown".to_owned(), |PeerAddress(peer)| peer.to_string()),
        path = parts.uri.path(),
        "request with a wrong token"
    );
    Err(ApiProblem::unauthorized(
        "this is not the token of the daemon",
    ))
}

impl FromRequestParts<Arc<Api>> for Authorized {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiProblem> {
        check_token(parts, &api.state.subscribe())
    }
}

// === impl TokenScheme ===

impl Modify for TokenScheme {
    fn modify(&self, document: &mut Document) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(bearer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_first_line_and_is_not_shown() {
        let token = Token::parse("0123456789abcdef\nanything\n").unwrap();
        assert!(token.matches(b"0123456789abcdef"));
        for other in [
            "",
            "0123456789abcdeF",
            "0123456789abcdef0",
            "0123456789abcde",
        ] {
            assert!(!token.matches(other.as_bytes()), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert_eq!(Token::parse("short\n"), Err(TokenError::Length(5)));
        assert_eq!(Token::parse(""), Err(TokenError::Length(0)));
        let spaced = Token::parse("0123456789 abcdef");
        assert_eq!(spaced, Err(TokenError::Characters));
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one() {
        let one = |text: &str| rate_limit_key(text.parse().unwrap());
        assert_eq!(one("2001:db8:1:2:3::4"), one("2001:db8:1:2:ffff::1"));
        assert_ne!(one("2001:db8:1:2::1"), one("2001:db8:1:3::1"));
        assert_eq!(one("::ffff:192.0.2.1"), one("192.0.2.1"));
        assert_ne!(one("192.0.2.1"), one("192.0.2.2"));
    }
}
