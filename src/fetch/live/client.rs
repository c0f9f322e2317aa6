//! One request, one response, within limits.
//!
//! Invariant: whatever a server sends, an exchange on one connection ends within
//! `limits.request`, takes at most `limits.wire_bytes` from the wire and makes at most
//! `body_bytes` of them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderValue,
    PROXY_AUTHORIZATION, TRANSFER_ENCODING, USER_AGENT,
};
use http::{Request, StatusCode, Uri, request, response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};

use crate::config::{FetchSettings, LimitSettings};
use crate::fetch::body::Body;
use crate::fetch::error::{ErrorKind, FetchError};
use crate::fetch::recorder::{Exchange, Recorder, Truncation};
use crate::web::{PageUrl, looks_binary};

use super::connections::{Connection, Connections, Unsent};
use super::connector::Connector;
use super::robots_rules;
use super::tls::TlsSettingsError;

/// So much of the body of an error or a redirect is read, which is enough to use the
/// connection again in most cases.
const ERROR_BODY_BYTES: usize = 64 << 10;

/// So many bytes tell text from other things.
const SNIFFED_BYTES: usize = 512;

/// Bodies that take at most so much on the wire, and decoded, are decoded at once.
const SMALL_WIRE_BYTES: usize = 64 << 10;
const SMALL_BODY_BYTES: usize = 256 << 10;

const ACCEPTED: &str = "text/html,application/xhtml+xml;q=0.9,text/plain;q=0.8,*/*;q=0.1";

const ACCEPTED_ENCODINGS: &str = "gzip, deflate, br, zstd";

/// Makes requests.
#[derive(Debug)]
pub(super) struct Client {
    connector: Connector,
    connections: Arc<Connections>,
    recorder: Option<Recorder>,
    user_agent: HeaderValue,
    limits: LimitSettings,
    body_bytes: usize,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A page: only the media types of the settings are downloaded.
    Page,
    /// Rules for robots, whatever they are sent as.
    Robots,
}

/// A response, read.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) parts: response::Parts,
    pub(super) body: Body,
    pub(super) address: Option<IpAddr>,
    pub(super) wire_bytes: u64,
    /// Whether the body ended before its end, and not because we wanted no more of it.
    pub(super) is_broken: bool,
    /// From sending the request until the last byte.
    pub(super) duration: Duration,
}

/// A response before its encodings are taken off.
struct Received {
    date: SystemTime,
    /// The request, if it is to be recorded.
    sent: Option<request::Parts>,
    parts: response::Parts,
    body: WireBody,
    address: Option<IpAddr>,
    duration: Duration,
}

/// A body as it came.
struct WireBody {
    bytes: Vec<u8>,
    truncated: Option<Truncation>,
}

/// Why an exchange on one connection gave nothing.
enum Failure {
    /// The server had closed the connection before anything was sent on it: another one
    /// may do, and no pause is due in between.
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
        connections: Connections,
        user_agent: HeaderValue,
        recorder: Option<Recorder>,
    ) -> Result<Self, TlsSettingsError> {
        Ok(Self {
            connector: Connector::new(settings)?,
            connections: Arc::new(connections),
            recorder,
            user_agent,
            limits: settings.limits.clone(),
            body_bytes: settings.body_bytes,
        })
    }

    pub(super) fn connections_open(&self) -> usize {
        self.connections.open()
    }

    /// Asks for a page. Waiting for the address or for a seat is not counted against the
    /// server.
    pub(super) async fn get(&self, page: &PageUrl, wanted: Wanted) -> Result<Answer, FetchError> {
        if let Some(connection) = self.connections.take_idle(page) {
            self.connector.keep_pace_of(page, &connection).await?;
            match self.in_time(page, self.ask(connection, page, wanted)).await {
                Ok(received) => return Ok(self.keep(page, received, wanted).await),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Stale) => {}
            }
        }
        let route = self.connector.route(page).await?;
        self.connector.keep_pace(page, &route).await?;
        let seat = self.connections.seat().await;
        let asking = async {
            let connection = self.connector.connect(page, route, seat).await?;
            self.ask(connection, page, wanted).await
        };
        match self.in_time(page, asking).await {
            Ok(received) => Ok(self.keep(page, received, wanted).await),
            Err(Failure::Final(error)) => Err(error),
            Err(Failure::Stale) => Err(broken(page, "it was closed at once")),
        }
    }

    async fn in_time(
        &self,
        page: &PageUrl,
        exchange: impl Future<Output = Result<Received, Failure>>,
    ) -> Result<Received, Failure> {
        match timeout(self.limits.request, exchange).await {
            Ok(result) => result,
            Err(_) => Err(timed_out(page, "end").into()),
        }
    }

    async fn ask(
        &self,
        mut connection: Connection,
        page: &PageUrl,
        wanted: Wanted,
    ) -> Result<Received, Failure> {
        let (date, started) = (SystemTime::now(), Instant::now());
        let request = self.request(page, &connection)?;
        let sent = self.recorder.is_some().then(|| as_recorded(page, &request));
        let answered = timeout(self.limits.first_byte, connection.send(request)).await;
        let response = match answered {
            Err(_) => return Err(timed_out(page, "begin").into()),
            Ok(Err(Unsent::Never)) => return Err(Failure::Stale),
            Ok(Err(Unsent::Perhaps(error))) => return Err(no_answer(page, &error).into()),
            Ok(Ok(response)) => response,
        };
        let (parts, incoming) = response.into_parts();
        if parts.status.is_informational() {
            let message = format!("{} switched protocols unasked", page.site());
            return Err(FetchError::new(ErrorKind::Malformed, message).into());
        }
        // The proxy says so, and not the site.
        if connection.wants_absolute_form()
            && parts.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
        {
            let (site, status) = (page.site(), parts.status);
            let message = format!("the proxy does not lead to {site}: {status}");
            return Err(FetchError::new(ErrorKind::Unreachable, message).into());
        }
        if parts.headers.len() > self.limits.headers {
            let message = format!("{} sends {} headers", page.site(), parts.headers.len());
            return Err(FetchError::new(ErrorKind::Malformed, message).into());
        }
        let address = connection.address();
        let body = self.read_body(page, &parts, incoming, wanted).await?;
        if body.truncated.is_none() {
            self.connections.give_back(page, connection);
        }
        Ok(Received {
            date,
            sent,
            parts,
            body,
            address,
            duration: started.elapsed(),
        })
    }

    /// Records what was received and takes its encodings off. The server is not blamed for
    /// the time that this takes.
    async fn keep(&self, page: &PageUrl, received: Received, wanted: Wanted) -> Answer {
        self.record(page, &received).await;
        let Received {
            parts,
            body,
            address,
            duration,
            ..
        } = received;
        let (wire_bytes, truncated) = (body.bytes.len() as u64, body.truncated);
        let limit = self.body_limit(wanted);
        let body = decode(&parts.headers, body, limit).await;
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
        let is_whole = connection.speaks_http2() || connection.wants_absolute_form();
        let target = match is_whole {
            true => url.as_str(),
            false => &url[url::Position::BeforePath..],
        };
        *request.uri_mut() = Uri::try_from(target).map_err(|error| {
            let message = format!("{page} cannot be asked for: {error}");
            FetchError::new(ErrorKind::Malformed, message)
        })?;
        let headers = request.headers_mut();
        if !connection.speaks_http2() {
            headers.insert(HOST, host_header(page));
        }
        headers.insert(USER_AGENT, self.user_agent.clone());
        headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        headers.insert(
            ACCEPT_ENCODING,
            HeaderValue::from_static(ACCEPTED_ENCODINGS),
        );
        if connection.wants_absolute_form()
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
    ) -> Result<WireBody, FetchError> {
        let mut body = WireBody {
            bytes: Vec::new(),
            truncated: None,
        };
        let is_wanted = wanted == Wanted::Robots || self.takes(&parts.headers);
        if !is_wanted && !hyper::body::Body::is_end_stream(&incoming) {
            body.truncated = Some(Truncation::Unspecified);
            return Ok(body);
        }
        let limit = self.wire_limit(parts, wanted);
        let is_plain = !parts.headers.contains_key(CONTENT_ENCODING);
        let mut is_unknown =
            wanted == Wanted::Page && is_plain && !parts.headers.contains_key(CONTENT_TYPE);
        let started = Instant::now();
        loop {
            let frame = match timeout(self.limits.first_byte, incoming.frame()).await {
                Err(_) => return Err(timed_out(page, "go on")),
                Ok(None) => return Ok(body),
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) if body.bytes.is_empty() => {
                    return Err(no_answer(page, &error));
                }
                Ok(Some(Err(_))) => {
                    body.truncated = Some(Truncation::Disconnect);
                    return Ok(body);
                }
            };
            // Trailers say nothing that matters here.
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let room = limit - body.bytes.len();
            body.bytes.extend_from_slice(&data[..data.len().min(room)]);
            if is_unknown && body.bytes.len() >= SNIFFED_BYTES {
                is_unknown = false;
                if looks_binary(&body.bytes[..SNIFFED_BYTES]) {
                    body.truncated = Some(Truncation::Unspecified);
                    return Ok(body);
                }
            }
            if data.len() > room {
                body.truncated = Some(Truncation::Length);
                return Ok(body);
            }
            self.check_rate(page, started.elapsed(), body.bytes.len())?;
        }
    }

    fn wire_limit(&self, parts: &response::Parts, wanted: Wanted) -> usize {
        match wanted {
            Wanted::Robots => robots_rules::MAX_BYTES + 1,
            Wanted::Page if parts.status.is_success() => self.limits.wire_bytes,
            Wanted::Page => self.limits.wire_bytes.min(ERROR_BODY_BYTES),
        }
    }

    /// Whether bodies of this type are downloaded. A missing type is decided by the body.
    fn takes(&self, headers: &HeaderMap) -> bool {
        let Some(announced) = headers.get(CONTENT_TYPE) else {
            return true;
        };
        let announced = String::from_utf8_lossy(announced.as_bytes()).to_ascii_lowercase();
        let essence = announced
            .split([';', ','])
            .next()
            .unwrap_or_default()
            .trim();
        let is_meaningless = !essence.contains('/') || essence == "*/*";
        is_meaningless || self.limits.content_types.iter().any(|own| own == essence)
    }

    /// Nobody is judged by the beginning: connections start slowly.
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
        match bytes as u128 >= least {
            true => Ok(()),
            false => Err(FetchError::new(
                ErrorKind::TooSlow,
                format!(
                    "{} sent {bytes} bytes in {} s",
                    page.site(),
                    elapsed.as_secs()
                ),
            )),
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
        let (Some(recorder), Some(request)) = (&self.recorder, &received.sent) else {
            return;
        };
        let exchange = Exchange {
            url: page.clone(),
            address: received.address,
            date: received.date,
            request: request.clone(),
            response: received.parts.clone(),
            body: Bytes::copy_from_slice(&received.body.bytes),
            truncated: received.body.truncated,
        };
        recorder.record(exchange).await;
    }
}

/// Takes the content encodings off.
async fn decode(headers: &HeaderMap, wire: WireBody, limit: usize) -> Body {
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
    // An honest page is decoded at once. What turns out large is decoded again where the
    // time that takes holds up nobody.
    if body.bytes.len() <= SMALL_WIRE_BYTES {
        let decoded = body.clone().decode(&content, limit.min(SMALL_BODY_BYTES));
        if decoded.bytes.len() < SMALL_BODY_BYTES {
            return decoded;
        }
    }
    match tokio::task::spawn_blocking(move || body.decode(&content, limit)).await {
        Ok(body) => body,
        Err(failure) if failure.is_panic() => std::panic::resume_unwind(failure.into_panic()),
        // The runtime is shutting down; nobody will look at the answer.
        Err(_) => Body {
            bytes: Vec::new(),
            truncated: true,
        },
    }
}

/// The request as an archive keeps it: in the form of HTTP/1.1, which has a `Host`.
fn as_recorded(page: &PageUrl, request: &Request<Empty<Bytes>>) -> request::Parts {
    let mut parts = request.clone().into_parts().0;
    parts
        .headers
        .entry(HOST)
        .or_insert_with(|| host_header(page));
    parts.headers.remove(PROXY_AUTHORIZATION);
    parts
}

fn host_header(page: &PageUrl) -> HeaderValue {
    let url = page.as_url();
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    HeaderValue::from_str(host).expect("hosts are ASCII")
}

/// hyper has put the chunks together.
fn without_transfer_encoding(mut parts: response::Parts) -> response::Parts {
    parts.headers.remove(TRANSFER_ENCODING);
    parts
}

fn timed_out(page: &PageUrl, what: &str) -> FetchError {
    let message = format!("the answer of {} did not {what} in time", page.site());
    FetchError::new(ErrorKind::Timeout, message)
}

fn broken(page: &PageUrl, why: &str) -> FetchError {
    let message = format!("the connection to {} broke: {why}", page.site());
    FetchError::new(ErrorKind::Broken, message)
}

fn no_answer(page: &PageUrl, error: &hyper::Error) -> FetchError {
    if error.is_parse() {
        let message = format!("what {} sends is no HTTP: {error}", page.site());
        return FetchError::new(ErrorKind::Malformed, message);
    }
    broken(page, &error.to_string())
}
