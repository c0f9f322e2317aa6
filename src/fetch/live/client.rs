//! One request, one response, within limits.
//!
//! Invariant: whatever a server sends, an exchange on one connection ends within
//! `limits.request`, reads at most `limits.wire_bytes` of body plus a bounded overhead (`meter.rs`),
//! and decodes them to at most `body_bytes`. All running decoders together hold at most
//! [`DECODING_MEMORY`].

use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderValue,
    PROXY_AUTHORIZATION, TRANSFER_ENCODING, USER_AGENT,
};
use http::{Request, StatusCode, Uri, request, response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::config::{FetchSettings, LimitSettings};
use crate::fetch::body::{ACCEPTED_CODINGS, Body};
use crate::fetch::error::{ErrorKind, FetchError};
use crate::fetch::metrics::WaitingRequests;
use crate::fetch::recorder::{Exchange, Recorder, Truncation};
use crate::telemetry::clock;
use crate::web::{PageUrl, SiteId, looks_binary};

use super::connections::{Connection, Connections, Unsent};
use super::connector::{Connector, PROXY_AUTHENTICATION, Route};
use super::exchange_timeout::{ExchangeTimeout, Lost};
use super::meter::{Framing, Meter};
use super::names::ConnectError;
use super::robots_rules;
use super::tls::TlsSettingsError;
use crate::fetch::host_guard::HostGuard;

/// How much of the body of an error or a redirect is read: in most cases all of it, so that the
/// connection can be reused.
const ERROR_BODY_BYTES: usize = 64 << 10;

/// Number of bytes by which text is told from binary data.
const SNIFFED_BYTES: usize = 512;

/// Bodies within these limits, on the wire, decoded, and in memory of the decoder, are decoded on
/// the async thread.
const SMALL_WIRE_BYTES: usize = 64 << 10;
const SMALL_BODY_BYTES: usize = 256 << 10;
const SMALL_MEMORY: usize = 8 << 20;

/// Memory budget of all decoders, bodies not included. A decoder with the largest window takes
/// 20 MiB of it, an ordinary one about 4 MiB. When it is used up, further bodies wait until another
/// one is decoded.
const DECODING_MEMORY: usize = 32 << 20;

/// The unit of the budget: one semaphore permit.
const DECODING_UNIT: usize = 1 << 10;

/// Number of larger bodies decoded concurrently in the whole process: one per core. Meanwhile such
/// a body is in memory twice, and its buffer grows by doubling.
static DECODERS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(available_parallelism().map_or(1, usize::from)));

const ACCEPTED: &str = "text/html,application/xhtml+xml;q=0.9,text/plain;q=0.8,*/*;q=0.1";

/// The HTTP client.
#[derive(Debug)]
pub(super) struct Client {
    connector: Connector,
    guard: Arc<HostGuard>,
    connections: Arc<Connections>,
    waiting: WaitingRequests,
    recorder: Option<Recorder>,
    user_agent: HeaderValue,
    limits: LimitSettings,
    body_bytes: usize,
    /// The free part of the decoding budget, in units.
    decoding: Arc<Semaphore>,
}

/// What is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A page: only the media types of the settings are downloaded.
    Page,
    /// A robots.txt, whatever its media type.
    Robots,
}

/// A response with its decoded body.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) parts: response::Parts,
    pub(super) body: Body,
    pub(super) address: Option<IpAddr>,
    pub(super) wire_bytes: u64,
    /// Whether the body ended early, and not because of our own limits.
    pub(super) is_broken: bool,
    /// From sending the request until the last byte.
    pub(super) duration: Duration,
}

/// A response with its body still encoded.
struct Received {
    /// Present if the exchange is recorded.
    sent: Option<Box<Sent>>,
    parts: response::Parts,
    body: WireBody,
    address: Option<IpAddr>,
    duration: Duration,
}

/// A body as received.
struct WireBody {
    bytes: Bytes,
    truncated: Option<Truncation>,
}

/// A body being received. A single piece is not copied: the headers share its buffer and keep it
/// alive anyway.
#[derive(Default)]
struct Pieces {
    only: Bytes,
    several: Vec<u8>,
}

/// A request in the form in which archives keep it: HTTP/1.1, with a `Host` header.
struct Sent {
    date: SystemTime,
    request: request::Parts,
}

/// Why an exchange on one connection gave no response.
enum Failure {
    /// The server had closed the connection before anything was sent on it: retry on a new one,
    /// without a pause.
    Stale,
    Final(FetchError),
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        Self::Final(error)
    }
}

// === impl Client ===

impl Client {
    pub(super) fn new(
        settings: &FetchSettings,
        guard: Arc<HostGuard>,
        connections: Connections,
        waiting: &WaitingRequests,
        user_agent: HeaderValue,
        recorder: Option<Recorder>,
    ) -> Result<Self, TlsSettingsError> {
        Ok(Self {
            connector: Connector::new(settings)?,
            guard,
            connections: Arc::new(connections),
            waiting: waiting.clone(),
            recorder,
            user_agent,
            limits: settings.limits.clone(),
            body_bytes: settings.body_bytes,
            decoding: Arc::new(Semaphore::new(DECODING_MEMORY / DECODING_UNIT)),
        })
    }

    pub(super) fn connections_open(&self) -> usize {
        self.connections.open()
    }

    /// Requests a page. Waiting for the address or for a permit does not count towards the
    /// timeouts.
    pub(super) async fn get(
        &self,
        page: &PageUrl,
        site: &SiteId,
        wanted: Wanted,
    ) -> Result<Answer, FetchError> {
        self.guard.check(site)?;
        let mut idle = self.connections.take_idle(page, site);
        loop {
            let is_reused = idle.is_some();
            let (connection, time_left) = match idle.take() {
                Some(connection) => {
                    let turn = self.connector.keep_pace_of(site, &connection);
                    self.waiting.wait_for(turn).await?;
                    self.guard.check(site)?;
                    (connection, self.limits.request)
                }
                // Boxed, because it is rare and would make every fetch larger.
                None => Box::pin(self.connect(page, site)).await?,
            };
            let timer = ExchangeTimeout::begin(self.limits.first_byte, time_left);
            let exchange = pin!(self.exchange(connection, page, site, wanted, &timer));
            return match timer.wait(exchange).await {
                Ok(Ok(received)) => Ok(self.keep(page, received, wanted).await),
                Ok(Err(Failure::Final(error))) => Err(error),
                Ok(Err(Failure::Stale)) if is_reused => continue,
                Ok(Err(Failure::Stale)) => Err(broken(page, "it was closed at once")),
                Err(lost) => Err(timed_out(page, lost)),
            };
        }
    }

    /// Opens a connection and returns how much time is left for the response.
    async fn connect(
        &self,
        page: &PageUrl,
        site: &SiteId,
    ) -> Result<(Connection, Duration), FetchError> {
        let route = self
            .connections
            .with_descriptor(|| self.connector.route(page, &self.connections))
            .await?;
        let turn = self.connector.keep_pace(site, &route);
        self.waiting.wait_for(turn).await?;
        self.guard.check(site)?;
        self.connections
            .with_descriptor(|| self.connect_on(page, &route))
            .await
    }

    async fn connect_on(
        &self,
        page: &PageUrl,
        route: &Route,
    ) -> Result<(Connection, Duration), ConnectError> {
        let permit = self.connections.permit().await;
        let started = Instant::now();
        let connecting = self.connector.connect(page, route, permit);
        match timeout(self.limits.request, connecting).await {
            Ok(connection) => {
                let time_left = self.limits.request.saturating_sub(started.elapsed());
                Ok((connection?, time_left))
            }
            Err(_) => Err(timed_out(page, Lost::Endless).into()),
        }
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        page: &PageUrl,
        site: &SiteId,
        wanted: Wanted,
        timer: &ExchangeTimeout,
    ) -> Result<Received, Failure> {
        let request = self.request(page, &connection)?;
        let is_recorded = self.recorder.is_some();
        let sent = is_recorded.then(|| Box::new(Sent::now(&connection, &request)));
        let response = match connection.send(request).await {
            Err(Unsent::Never) => return Err(Failure::Stale),
            Err(Unsent::Perhaps(error)) => {
                return Err(no_answer(page, connection.meter(), &error).into());
            }
            Ok(response) => response,
        };
        let (parts, incoming) = response.into_parts();
        if parts.status.is_informational() {
            let message = format!("{} sent an unsolicited protocol switch", page.site());
            return Err(FetchError::new(ErrorKind::Malformed, message).into());
        }
        // This is the response of the proxy, not of the site.
        if connection.peer().wants_absolute_form
            && parts.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
        {
            let error = self.connector.proxy_trouble(page, PROXY_AUTHENTICATION);
            return Err(error.into());
        }
        if parts.headers.len() > self.limits.headers {
            let message = format!("{} sent {} headers", page.site(), parts.headers.len());
            return Err(FetchError::new(ErrorKind::Malformed, message).into());
        }
        let address = connection.peer().address;
        let meter = connection.meter();
        let reading = self.read_body(page, &parts, incoming, wanted, timer, meter);
        let body = reading.await?;
        if body.truncated.is_none() {
            self.connections.give_back(site, connection);
        }
        Ok(Received {
            sent,
            parts,
            body,
            address,
            duration: timer.note_activity(),
        })
    }

    /// Records what was received and decodes it. This time does not count towards the timeouts.
    async fn keep(&self, page: &PageUrl, received: Received, wanted: Wanted) -> Answer {
        if self.recorder.is_some() {
            // Boxed, because it would make every fetch larger.
            Box::pin(self.record(page, &received)).await;
        }
        let Received {
            parts,
            body,
            address,
            duration,
            ..
        } = received;
        let (wire_bytes, truncated) = (body.bytes.len() as u64, body.truncated);
        let limit = self.body_limit(wanted);
        let body = self.decode(&parts.headers, body, limit).await;
        let is_broken = match truncated {
            Some(truncation) => truncation == Truncation::Disconnect,
            None => body.truncated && body.bytes.len() < limit,
        };
        Answer {
            parts: without_transfer_encoding(parts),
            body,
            address,
            wire_bytes,
            is_broken,
            duration,
        }
    }

    fn request(
        &self,
        page: &PageUrl,
        connection: &Connection,
    ) -> Result<Request<Empty<Bytes>>, FetchError> {
        let url = page.as_url();
        let mut request = Request::new(Empty::new());
        let peer = connection.peer();
        let is_whole = connection.speaks_http2() || peer.wants_absolute_form;
        let target = if is_whole {
            url.as_str()
        } else {
            &url[url::Position::BeforePath..]
        };
        *request.uri_mut() = Uri::try_from(target).map_err(|error| {
            let message = format!("{page} cannot be requested: {error}");
            FetchError::new(ErrorKind::Malformed, message)
        })?;
        let headers = request.headers_mut();
        if !connection.speaks_http2() {
            headers.insert(HOST, peer.host.clone());
        }
        headers.insert(USER_AGENT, self.user_agent.clone());
        headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED_CODINGS));
        if peer.wants_absolute_form
            && let Some(credentials) = self.connector.proxy_authorization()
        {
            headers.insert(PROXY_AUTHORIZATION, credentials);
        }
        Ok(request)
    }

    /// Reads as much of a body as is wanted.
    async fn read_body(
        &self,
        page: &PageUrl,
        parts: &response::Parts,
        mut incoming: Incoming,
        wanted: Wanted,
        timer: &ExchangeTimeout,
        meter: &Meter,
    ) -> Result<WireBody, FetchError> {
        let mut body = Pieces::default();
        let mut framing = Framing::default();
        let is_wanted = wanted == Wanted::Robots || self.takes(&parts.headers);
        if !is_wanted && !hyper::body::Body::is_end_stream(&incoming) {
            return Ok(body.cut(Truncation::Unspecified));
        }
        let limit = self.wire_limit(parts, wanted);
        let is_plain = !parts.headers.contains_key(CONTENT_ENCODING);
        let mut is_unknown =
            wanted == Wanted::Page && is_plain && !parts.headers.contains_key(CONTENT_TYPE);
        let started = timer.note_activity();
        while let Some(frame) = incoming.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) if body.as_slice().is_empty() => {
                    return Err(no_answer(page, meter, &error));
                }
                Err(_) if meter.is_exceeded() => return Ok(body.cut(Truncation::Length)),
                Err(_) => return Ok(body.cut(Truncation::Disconnect)),
            };
            // Trailers are not used.
            let Ok(data) = frame.into_data() else {
                continue;
            };
            meter.hand_on(data.len(), &mut framing);
            let room = limit - body.as_slice().len();
            let is_too_long = data.len() > room;
            body.push(data, room);
            if is_unknown && body.as_slice().len() >= SNIFFED_BYTES {
                is_unknown = false;
                if looks_binary(&body.as_slice()[..SNIFFED_BYTES]) {
                    return Ok(body.cut(Truncation::Unspecified));
                }
            }
            if is_too_long {
                return Ok(body.cut(Truncation::Length));
            }
            let elapsed = timer.note_activity().saturating_sub(started);
            self.check_rate(page, elapsed, body.as_slice().len())?;
        }
        Ok(body.whole())
    }

    fn wire_limit(&self, parts: &response::Parts, wanted: Wanted) -> usize {
        match wanted {
            Wanted::Robots => robots_rules::MAX_BYTES + 1,
            Wanted::Page if parts.status.is_success() => {
                let is_packed = parts.headers.contains_key(CONTENT_ENCODING);
                let most = if is_packed {
                    usize::MAX
                } else {
                    self.body_bytes
                };
                self.limits.wire_bytes.min(most)
            }
            Wanted::Page => self.limits.wire_bytes.min(ERROR_BODY_BYTES),
        }
    }

    /// Whether bodies of this type are downloaded. Without a type the body decides.
    fn takes(&self, headers: &HeaderMap) -> bool {
        let Some(announced) = headers.get(CONTENT_TYPE) else {
            return true;
        };
        let mut parts = announced.as_bytes().split(|byte| b";,".contains(byte));
        let essence = parts.next().unwrap_or_default().trim_ascii();
        let is_meaningless = !essence.contains(&b'/') || essence == b"*/*";
        let is_essence = |own: &String| own.as_bytes().eq_ignore_ascii_case(essence);
        is_meaningless || self.limits.content_types.iter().any(is_essence)
    }

    /// Enforces the minimum rate, but not at the beginning: connections start slowly.
    fn check_rate(
        &self,
        page: &PageUrl,
        elapsed: Duration,
        bytes: usize,
    ) -> Result<(), FetchError> {
        if elapsed < self.limits.first_byte / 2 {
            return Ok(());
        }
        let least = elapsed
            .as_millis()
            .saturating_mul(self.limits.minimum_rate as u128)
            / 1_000;
        if bytes as u128 >= least {
            Ok(())
        } else {
            Err(FetchError::new(
                ErrorKind::TooSlow,
                format!(
                    "{} sent {bytes} bytes in {} s",
                    page.site(),
                    elapsed.as_secs()
                ),
            ))
        }
    }

    fn body_limit(&self, wanted: Wanted) -> usize {
        match wanted {
            Wanted::Page => self.body_bytes,
            Wanted::Robots => robots_rules::MAX_BYTES + 1,
        }
    }

    /// Hands the exchange to the recorder, if there is one.
    async fn record(&self, page: &PageUrl, received: &Received) {
        let (Some(recorder), Some(sent)) = (&self.recorder, &received.sent) else {
            return;
        };
        let exchange = Exchange {
            url: page.clone(),
            address: received.address,
            date: sent.date,
            request: sent.request.clone(),
            response: received.parts.clone(),
            body: received.body.bytes.clone(),
            truncated: received.body.truncated,
        };
        recorder.record(exchange).await;
    }

    /// Removes the content encodings.
    async fn decode(&self, headers: &HeaderMap, wire: WireBody, limit: usize) -> Body {
        let body = Body {
            bytes: wire.bytes,
            truncated: wire.truncated.is_some(),
        };
        if !headers.contains_key(CONTENT_ENCODING) || body.bytes.is_empty() {
            return body;
        }
        let mut content = HeaderMap::new();
        for value in headers.get_all(CONTENT_ENCODING) {
            content.append(CONTENT_ENCODING, value.clone());
        }
        let memory = body.working_memory(&content);
        let is_small = body.bytes.len() <= SMALL_WIRE_BYTES && memory <= SMALL_MEMORY;
        let units = u32::try_from(memory.div_ceil(DECODING_UNIT)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.decoding).acquire_many_owned(units).await;
        let permit = permit.expect("the semaphore is never closed");
        // An ordinary page is decoded here. One that turns out large is decoded again on the
        // blocking pool.
        if is_small {
            let decoded = body.clone().decode(&content, limit.min(SMALL_BODY_BYTES));
            if decoded.bytes.len() < SMALL_BODY_BYTES {
                return decoded;
            }
        }
        let turn = DECODERS.acquire().await;
        let turn = turn.expect("the semaphore is never closed");
        let decoding = tokio::task::spawn_blocking(move || {
            let decoded = body.decode(&content, limit);
            drop((permit, turn));
            decoded
        });
        match decoding.await {
            Ok(body) => cut(body, limit),
            Err(failure) if failure.is_panic() => std::panic::resume_unwind(failure.into_panic()),
            // The runtime is shutting down; the result is not used.
            Err(_) => Body {
                bytes: Bytes::new(),
                truncated: true,
            },
        }
    }
}

/// A body that was not encoded as announced is returned undecoded, so it may exceed the limit.
fn cut(body: Body, limit: usize) -> Body {
    match body.bytes.get(..limit) {
        Some(start) if start.len() < body.bytes.len() => Body {
            bytes: Bytes::copy_from_slice(start),
            truncated: true,
        },
        _ => body,
    }
}

// === impl Pieces ===

impl Pieces {
    /// Adds as much of a piece as there is room for.
    fn push(&mut self, mut piece: Bytes, room: usize) {
        piece.truncate(room);
        if self.as_slice().is_empty() {
            self.only = piece;
            return;
        }
        let first = std::mem::take(&mut self.only);
        self.several.extend_from_slice(&first);
        self.several.extend_from_slice(&piece);
    }

    fn as_slice(&self) -> &[u8] {
        if self.several.is_empty() {
            &self.only
        } else {
            &self.several
        }
    }

    fn whole(self) -> WireBody {
        let bytes = if self.several.is_empty() {
            self.only
        } else {
            self.several.into()
        };
        WireBody {
            bytes,
            truncated: None,
        }
    }

    fn cut(self, why: Truncation) -> WireBody {
        WireBody {
            truncated: Some(why),
            ..self.whole()
        }
    }
}

// === impl Sent ===

impl Sent {
    fn now(connection: &Connection, request: &Request<Empty<Bytes>>) -> Self {
        let mut request = request.clone().into_parts().0;
        let host = || connection.peer().host.clone();
        request.headers.entry(HOST).or_insert_with(host);
        request.headers.remove(PROXY_AUTHORIZATION);
        Self {
            date: clock::now(),
            request,
        }
    }
}

/// hyper has already joined the chunks.
fn without_transfer_encoding(mut parts: response::Parts) -> response::Parts {
    parts.headers.remove(TRANSFER_ENCODING);
    parts
}

fn timed_out(page: &PageUrl, lost: Lost) -> FetchError {
    let what = match lost {
        Lost::Silent => "start or continue",
        Lost::Endless => "end",
    };
    let message = format!("the response of {} did not {what} in time", page.site());
    FetchError::new(ErrorKind::Timeout, message)
}

fn broken(page: &PageUrl, why: &str) -> FetchError {
    let message = format!("the connection to {} broke: {why}", page.site());
    FetchError::new(ErrorKind::Broken, message)
}

fn no_answer(page: &PageUrl, meter: &Meter, error: &hyper::Error) -> FetchError {
    if meter.is_exceeded() {
        let message = format!(
            "{} sent more bytes than its response accounts for",
            page.site()
        );
        return FetchError::new(ErrorKind::Malformed, message);
    }
    if error.is_parse() {
        let message = format!("{} did not send valid HTTP: {error}", page.site());
        return FetchError::new(ErrorKind::Malformed, message);
    }
    broken(page, &error.to_string())
}
