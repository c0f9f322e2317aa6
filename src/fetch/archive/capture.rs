//! One page as an archive recorded it at one time.

use std::io::{self, BufRead, Read};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use xxhash_rust::xxh3::xxh3_64;

use crate::fetch::body::Body;
use crate::fetch::head::{Head, HeadError};
use crate::web::{FetchedPage, PageUrl, Transfer};

use super::record::{ArchiveRecord, RecordBlock};
use super::scan::MAX_HTTP_HEAD_BYTES;
use super::stream::Position;

/// One page as an archive recorded it at one time; the body is left in the archive.
#[derive(Debug, Clone)]
pub struct Capture {
    /// As recorded.
    pub url: PageUrl,
    /// How it was recorded.
    pub(crate) kind: CaptureKind,
    /// The status of the response; 200 for a resource, none for a revisit without one.
    pub(crate) status: Option<StatusCode>,
    /// The media type as announced.
    pub(crate) content_type: Option<String>,
    /// As `yyyymmddhhmmss`, so that later captures have larger numbers; zero if unknown.
    pub(crate) date: u64,
    /// Bytes of the record, headers and encodings included.
    pub(crate) bytes: u64,
    pub(super) position: Position,
    /// A hash of the payload's digest; zero if the record does not give one.
    pub(super) digest: u64,
    /// The key of the page that a revisit refers to: named, or its own.
    pub(super) refers_to: u64,
    /// When that was captured; zero if unknown.
    pub(super) refers_to_date: u64,
    /// A redirect that changes only scheme or `www.`, so that here it would lead to itself.
    pub(super) leads_to_itself: bool,
}

/// How a page was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum CaptureKind {
    /// A whole HTTP response.
    Response,
    /// The content alone, without HTTP.
    Resource,
    /// A note that the content is that of an earlier capture.
    Revisit,
}

impl CaptureKind {
    /// The name in the WARC standard.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Resource => "resource",
            Self::Revisit => "revisit",
        }
    }
}

impl Capture {
    pub(super) fn new(
        record: &ArchiveRecord,
        kind: CaptureKind,
        url: PageUrl,
        status: Option<StatusCode>,
        http: &Head,
    ) -> Self {
        let leads_to_itself = status.is_some_and(|status| status.is_redirection())
            && http
                .text(LOCATION.as_str())
                .and_then(|location| PageUrl::join(url.as_url(), &location).ok())
                .is_some_and(|target| target.is_same_page(&url));
        let (status, content_type) = match kind {
            CaptureKind::Resource => (Some(StatusCode::OK), record.field("content-type")),
            _ => (status, http.text("content-type")),
        };
        Self {
            kind,
            status,
            content_type,
            date: timestamp(&record.field("warc-date").unwrap_or_default()),
            bytes: record.length,
            position: record.position,
            digest: digest(record),
            refers_to: record
                .address("warc-refers-to-target-uri")
                .and_then(|address| address.parse::<PageUrl>().ok())
                .map_or_else(|| url.key(), |named| named.key())
                .get(),
            refers_to_date: timestamp(&record.field("warc-refers-to-date").unwrap_or_default()),
            leads_to_itself,
            url,
        }
    }
}

/// The status in a line like `HTTP/1.1 200 OK`; the version and the phrase may be anything.
fn http_status(line: &str) -> Option<StatusCode> {
    let mut words = line.split_ascii_whitespace();
    words.next().filter(|word| word.starts_with("HTTP/"))?;
    StatusCode::from_bytes(words.next()?.as_bytes()).ok()
}

/// A hash of the record's payload digest; zero if it has none.
fn digest(record: &ArchiveRecord) -> u64 {
    record
        .field("warc-payload-digest")
        .map_or(0, |digest| xxh3_64(digest.trim().as_bytes()))
}

/// `2026-11-16T09:30:00Z`, with any precision, as a number with fourteen digits.
fn timestamp(date: &str) -> u64 {
    let whole = date.split('.').next().unwrap_or_default();
    let mut digits: String = whole
        .chars()
        .filter(char::is_ascii_digit)
        .take(14)
        .collect();
    if digits.len() < 4 {
        return 0;
    }
    while digits.len() < 14 {
        digits.push('0');
    }
    digits.parse().unwrap_or(0)
}

/// Reads the head of the final response: `100 Continue` and `103 Early Hints` may come
/// before it (RFC 9110, section 15.2). Nothing if there is no HTTP in the block.
pub(super) fn read_http_head(
    block: &mut RecordBlock<'_>,
) -> io::Result<Option<(StatusCode, Head)>> {
    loop {
        let head = match Head::read(block, MAX_HTTP_HEAD_BYTES) {
            Ok(head) => head,
            Err(HeadError::Unfinished(head) | HeadError::TooLong(_, head)) => *head,
            Err(HeadError::Read(error)) => return Err(error),
        };
        match http_status(&head.first_line) {
            Some(status) if status.is_informational() && block.left() > 0 => {}
            Some(status) => return Ok(Some((status, head))),
            None => return Ok(None),
        }
    }
}

/// Reads the block of a response.
pub(super) fn read_response(
    record: &ArchiveRecord,
    block: &mut RecordBlock<'_>,
    url: &PageUrl,
    body_limit: usize,
) -> io::Result<Option<FetchedPage>> {
    let Some((status, head)) = read_http_head(block)? else {
        return Ok(None);
    };
    let mut body = read_body(block, body_limit).decode(&head.fields, body_limit);
    // Crawlers truncate long bodies when they record them, and mark them so.
    body.truncated |= record.field("warc-truncated").is_some();
    Ok(Some(page(url, status, head.fields, body)))
}

/// Reads the block of a resource, which is the content itself.
pub(super) fn read_resource(
    record: &ArchiveRecord,
    block: &mut RecordBlock<'_>,
    url: &PageUrl,
    body_limit: usize,
) -> FetchedPage {
    let mut headers = HeaderMap::new();
    let content_type = record.field("content-type");
    if let Some(value) = content_type.and_then(|text| HeaderValue::from_str(&text).ok()) {
        headers.insert(CONTENT_TYPE, value);
    }
    page(url, StatusCode::OK, headers, read_body(block, body_limit))
}

/// A page that the archive's site does not have.
pub(super) fn not_found(url: &PageUrl) -> FetchedPage {
    let nothing = Body {
        bytes: Bytes::new(),
        truncated: false,
    };
    page(url, StatusCode::NOT_FOUND, HeaderMap::new(), nothing)
}

fn page(url: &PageUrl, status: StatusCode, headers: HeaderMap, body: Body) -> FetchedPage {
    FetchedPage {
        url: url.clone(),
        status,
        headers,
        body: body.bytes,
        truncated: body.truncated,
        transfer: Transfer::default(),
    }
}

/// Reads up to the limit; what was read before an error is kept.
fn read_body(block: &mut RecordBlock<'_>, limit: usize) -> Body {
    let mut bytes = Vec::new();
    let read = block.take(limit as u64).read_to_end(&mut bytes);
    let is_all_read = block.left() == 0 || block.fill_buf().is_ok_and(<[u8]>::is_empty);
    Body {
        truncated: read.is_err() || !is_all_read || block.left() > 0,
        bytes: bytes.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_captures_have_larger_timestamps() {
        let dates = [
            ("", 0),
            ("never", 0),
            ("2016", 20_160_000_000_000),
            ("2016-01-11T23:24:25Z", 20_160_111_232_425),
            ("2016-01-11T23:24:25.412030Z", 20_160_111_232_425),
            ("20160111232426", 20_160_111_232_426),
        ];
        for (date, wanted) in dates {
            assert_eq!(timestamp(date), wanted, "{date}");
        }
    }

    #[test]
    fn status_lines_of_any_version_are_read() {
        for (line, wanted) in [
            ("HTTP/1.1 200 OK", Some(200)),
            ("HTTP/2 404", Some(404)),
            ("HTTP/1.0  301  Moved Permanently", Some(301)),
            ("HTTP/1.1", None),
            ("HTTP/1.1 OK", None),
            ("<html>", None),
            ("", None),
        ] {
            assert_eq!(
                http_status(line).map(|status| status.as_u16()),
                wanted,
                "{line}"
            );
        }
    }
}
