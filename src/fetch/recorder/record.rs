//! WARC records: how an exchange is serialised.
//!
//! Invariant: lengths and digests are those of the bytes that follow, whatever the server
//! announced.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::BASE32;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode, Version, request};
use sha1::{Digest, Sha1};

use super::{Exchange, Truncation};

/// Compression of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    /// One member for each record, so that each can be read without those before it.
    Gzip,
}

/// Generates globally unique record IDs.
pub(super) struct RecordIds {
    /// Seeded by the system: unlike all other randomness in this program, IDs must differ from run
    /// to run.
    key: RandomState,
    given: u64,
}

/// One record before it is serialised.
pub(super) struct NewRecord<'a> {
    kind: WarcType,
    /// The named fields, each with its line end, except those derived from the rest.
    fields: String,
    /// The block in two pieces, so that no body is copied to get a head.
    head: Vec<u8>,
    body: &'a [u8],
}

/// The types of record that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WarcType {
    Info,
    Response,
    Request,
}

// === impl Truncation ===

impl Truncation {
    fn word(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Disconnect => "disconnect",
            Self::Unspecified => "unspecified",
        }
    }
}

// === impl RecordIds ===

impl RecordIds {
    pub(super) fn new() -> Self {
        Self {
            key: RandomState::new(),
            given: 0,
        }
    }

    /// The next ID: a UUID of version 4 (RFC 9562, section 5.4), as a URN in the angle
    /// brackets that WARC requires.
    pub(super) fn draw(&mut self) -> String {
        self.given += 1;
        let half = |side: u8| u128::from(self.key.hash_one((self.given, side)));
        let random = (half(0) << 64) | half(1);
        let unmarked = random & !((0xf << 76) | (0b11 << 62));
        let uuid = unmarked | (4 << 76) | (0b10 << 62);
        format!(
            "<urn:uuid:{:08x}-{:04x}-{:04x}-{:04x}-{:012x}>",
            uuid >> 96,
            (uuid >> 80) & 0xffff,
            (uuid >> 64) & 0xffff,
            (uuid >> 48) & 0xffff,
            uuid & 0xffff_ffff_ffff,
        )
    }
}

// === impl NewRecord ===

impl<'a> NewRecord<'a> {
    pub(super) fn new(kind: WarcType, head: Vec<u8>, body: &'a [u8]) -> Self {
        Self {
            kind,
            fields: String::new(),
            head,
            body,
        }
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        for part in [name, ": ", value, "\r\n"] {
            self.fields.push_str(part);
        }
        self
    }

    /// Adds the fields common to both records of an exchange.
    fn about(self, exchange: &Exchange) -> Self {
        let record = self
            .with("WARC-Date", &warc_date(exchange.date))
            .with("WARC-Target-URI", exchange.url.as_str())
            .with("WARC-Protocol", protocol(exchange.response.version));
        match exchange.address {
            Some(address) => record.with("WARC-IP-Address", &address.to_string()),
            None => record,
        }
    }

    pub(super) fn pack(&self, packing: Packing, out: &mut Vec<u8>) -> io::Result<()> {
        match packing {
            Packing::Plain => self.write(out),
            Packing::Gzip => {
                let mut member = GzEncoder::new(out, Compression::default());
                self.write(&mut member)?;
                member.finish().map(drop)
            }
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        write!(
            out,
            "WARC/1.1\r\n\
             WARC-Type: {}\r\n\
             {}\
             WARC-Block-Digest: {}\r\n\
             Content-Type: {}\r\n\
             Content-Length: {}\r\n\r\n",
            self.kind.name(),
            self.fields,
            digest(&[&self.head, self.body]),
            self.kind.content_type(),
            self.head.len() + self.body.len(),
        )?;
        out.write_all(&self.head)?;
        out.write_all(self.body)?;
        out.write_all(b"\r\n\r\n")
    }
}

// === impl WarcType ===

impl WarcType {
    fn name(self) -> &'static str {
        match self {
            Self::Info => "warcinfo",
            Self::Response => "response",
            Self::Request => "request",
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Info => "application/warc-fields",
            Self::Response => "application/http; msgtype=response",
            Self::Request => "application/http; msgtype=request",
        }
    }
}

/// The response comes first: other records refer to it.
pub(super) fn records_of<'a>(exchange: &'a Exchange, ids: &mut RecordIds) -> [NewRecord<'a>; 2] {
    let response_id = ids.draw();
    let mut response = NewRecord::new(WarcType::Response, response_head(exchange), &exchange.body)
        .with("WARC-Record-ID", &response_id)
        .about(exchange)
        .with("WARC-Payload-Digest", &digest(&[&exchange.body]));
    if let Some(truncation) = exchange.truncated {
        response = response.with("WARC-Truncated", truncation.word());
    }
    // No payload digest: a request without a body has no payload.
    let request = NewRecord::new(WarcType::Request, request_head(&exchange.request), &[])
        .with("WARC-Record-ID", &ids.draw())
        .with("WARC-Concurrent-To", &response_id)
        .about(exchange);
    [response, request]
}

fn request_head(request: &request::Parts) -> Vec<u8> {
    let target = request.uri.path_and_query();
    let target = target.map_or("/", |target| target.as_str());
    let version = written_version(request.version);
    let mut head = format!("{} {target} {version}\r\n", request.method).into_bytes();
    for (name, value) in &request.headers {
        push_field(&mut head, name.as_str(), value.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn response_head(exchange: &Exchange) -> Vec<u8> {
    let response = &exchange.response;
    let version = written_version(response.version);
    let code = response.status.as_str();
    let phrase = response.status.canonical_reason().unwrap_or_default();
    let mut head = format!("{version} {code} {phrase}\r\n").into_bytes();
    let length = corrected_length(exchange);
    for (name, value) in &response.headers {
        // The chunks were joined when the body was received, so a reader that trusts the header
        // would fail.
        let is_untrue = name == TRANSFER_ENCODING || (name == CONTENT_LENGTH && length.is_some());
        if !is_untrue {
            push_field(&mut head, name.as_str(), value.as_bytes());
        }
    }
    if let Some(length) = length {
        let length = length.to_string();
        push_field(&mut head, CONTENT_LENGTH.as_str(), length.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The correct `Content-Length`, if the received one does not match the body in the record.
fn corrected_length(exchange: &Exchange) -> Option<usize> {
    // These announce the body that another request would get (RFC 9110, section 8.6).
    let has_no_body = exchange.request.method == Method::HEAD
        || exchange.response.status == StatusCode::NOT_MODIFIED;
    let length = exchange.body.len();
    let headers = &exchange.response.headers;
    let is_untrue = headers.contains_key(TRANSFER_ENCODING) || announces_other(headers, length);
    (is_untrue && !has_no_body).then_some(length)
}

fn announces_other(headers: &HeaderMap, length: usize) -> bool {
    let length = length.to_string();
    let mut announced = headers.get_all(CONTENT_LENGTH).iter();
    announced.any(|value| value.as_bytes().trim_ascii() != length.as_bytes())
}

/// Values are written byte for byte; none can contain a line end.
fn push_field(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

/// The version in the first line. Later versions than 1.1 have no such line.
fn written_version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}

/// The value of `WARC-Protocol`: the ALPN name.
fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "http/1.0",
        Version::HTTP_2 => "h2",
        Version::HTTP_3 => "h3",
        _ => "http/1.1",
    }
}

/// The digest that WARC tools expect: SHA-1, in base 32. It detects damage and duplicates and is
/// not used for security.
pub(super) fn digest(pieces: &[&[u8]]) -> String {
    let mut hash = Sha1::new();
    for piece in pieces {
        hash.update(piece);
    }
    format!("sha1:{}", BASE32.encode(&hash.finalize()))
}

/// `2026-11-16T09:30:00.000000Z`. Times before 1970 are written as its start.
pub(super) fn warc_date(time: SystemTime) -> String {
    humantime::format_rfc3339_micros(time.max(UNIX_EPOCH)).to_string()
}
