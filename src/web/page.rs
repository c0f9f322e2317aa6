//! A page before and after it is read.
//!
//! `FetchedPage` is one HTTP response, whatever its status: what the outside world answers
//! is data, not a failure. `ParsedPage` is what a reader, and our classifier, gets from it.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use http::{HeaderName, StatusCode};

use super::challenge;
use super::{Fingerprint, IntrinsicLink, Language, PagePart, PageText, PageUrl, TransversalLink};

/// One response to one request for a page.
#[derive(Debug, Clone)]
pub struct FetchedPage {
    /// The page asked for.
    pub url: PageUrl,
    /// The status the server gave.
    pub status: StatusCode,
    /// All headers of the response.
    pub headers: HeaderMap,
    /// The body, transfer and content encodings taken off.
    pub body: Bytes,
    /// Whether the body is only the beginning: a limit was reached or the stream broke.
    pub truncated: bool,
    /// How it came here.
    pub transfer: Transfer,
}

/// How a page came here. Out of an archive it came by no road.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfer {
    /// The address that answered, if it is known.
    pub address: Option<IpAddr>,
    /// Bytes of the body on the wire, content encodings still on.
    pub wire_bytes: u64,
    /// From sending the request until the last byte.
    pub(crate) duration: Duration,
    /// Answered requests for robots.txt that were made on the way.
    pub robots_requests: usize,
    /// The server was busy, and this is when it is worth asking again. Asking sooner waits,
    /// or is refused.
    pub busy_until: Option<SystemTime>,
}

/// A page as a reader sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedPage {
    /// What the body turned out to be.
    pub content: ContentKind,
    /// The WHATWG name of the charset the text was decoded from.
    pub(crate) charset: &'static str,
    /// All text, with the part of the page each piece stood in.
    pub text: PageText,
    /// The language of the text: detected, or declared where there is too little to detect.
    pub language: Option<Language>,
    /// Links inside the site, one for each page, in order of appearance.
    pub intrinsic_links: Vec<IntrinsicLink>,
    /// Links to other sites, one for each page, in order of appearance.
    pub transversal_links: Vec<TransversalLink>,
    /// The address the page calls its own, by `<link rel=canonical>`.
    pub(crate) canonical: Option<PageUrl>,
    /// What the page asks of robots.
    pub robots: RobotsDirectives,
    /// For finding near-duplicates; none without words.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Signs that the page is no page.
    pub signs: Signs,
}

/// What the body of a response turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContentKind {
    /// HTML or XHTML.
    Html,
    /// Plain text.
    PlainText,
    /// Anything else; it has no text and no links for us.
    Other,
}

/// What a page asks of robots, by `<meta name=robots>` or `X-Robots-Tag`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RobotsDirectives {
    /// `noindex`: do not show the page in results.
    pub noindex: bool,
    /// `nofollow`: do not follow its links.
    pub nofollow: bool,
}

/// Signs that a response with status 200 is not a page of its author's. Signs are cautious:
/// they speak only of short pages, and what they mean is decided by whoever reads them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "a page may have several of them at once"
)]
pub struct Signs {
    /// The domain is parked, for sale, suspended, or shows a server's default page.
    pub parked: bool,
    /// The page says that it does not exist, although the status says that it does.
    pub soft_404: bool,
    /// Next to no text, and no link or frame that leads on: a frame for scripts.
    pub empty_shell: bool,
    /// A gatekeeper put a page of its own before the site. The only sign that a page of
    /// another status may have.
    pub(crate) challenge: bool,
}

// === impl FetchedPage ===

impl FetchedPage {
    /// Where a redirecting response leads, if it leads to a page.
    #[must_use]
    pub fn redirect_target(&self) -> Option<PageUrl> {
        let is_redirect = matches!(self.status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let location = self.headers.get(LOCATION).filter(|_| is_redirect)?;
        // Servers put raw UTF-8 here; the URL standard knows what to do with it.
        let reference = String::from_utf8_lossy(location.as_bytes());
        PageUrl::join(self.url.as_url(), &reference).ok()
    }

    /// The gatekeeper that answered instead of the site, if one did.
    #[must_use]
    pub(crate) fn gatekeeper(&self) -> Option<&'static str> {
        challenge::gatekeeper(&self.headers, &self.body)
    }

    /// The `Content-Type` header in lower case, parameters included.
    #[must_use]
    pub fn content_type(&self) -> Option<String> {
        self.header(&CONTENT_TYPE)
            .map(|value| value.to_ascii_lowercase())
    }

    /// A header as text; bytes that are no UTF-8 are replaced.
    #[must_use]
    pub(crate) fn header(&self, name: &HeaderName) -> Option<String> {
        let value = self.headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
    }
}

// === impl ParsedPage ===

impl ParsedPage {
    /// Whether this is a page of its author's, which may be evidence: HTML or text, and
    /// without a sign that it is no page.
    #[must_use]
    pub fn is_authored(&self) -> bool {
        let signs = self.signs;
        let is_none = signs.parked || signs.soft_404 || signs.empty_shell || signs.challenge;
        self.content != ContentKind::Other && !is_none
    }

    /// The title as one line, empty if there is none.
    #[must_use]
    pub(crate) fn title(&self) -> String {
        self.text.line(PagePart::Title)
    }
}

// === impl ContentKind ===

impl ContentKind {
    /// A short name for lists and JSON.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::PlainText => "text",
            Self::Other => "other",
        }
    }
}

// === impl Signs ===

impl Signs {
    /// The names of the signs seen.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [
            (self.parked, "parked"),
            (self.soft_404, "soft_404"),
            (self.empty_shell, "empty_shell"),
            (self.challenge, "challenge"),
        ]
        .into_iter()
        .filter_map(|(seen, name)| seen.then_some(name))
    }
}

/// Whether the beginning of a body holds bytes that no text in a charset of the web
/// contains, and not just a stray one. UTF-16 is full of zeros; it must begin with its mark.
#[must_use]
pub(crate) fn looks_binary(start: &[u8]) -> bool {
    let is_utf16 = start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]);
    let is_control = |byte: u8| (byte < 0x09) | ((byte > 0x0d) & (byte < 0x20) & (byte != 0x1b));
    let controls: usize = start
        .iter()
        .map(|byte| usize::from(is_control(*byte)))
        .sum();
    let magic: [&[u8]; 6] = [
        b"\x89PNG",
        b"GIF8",
        b"%PDF-",
        b"\xff\xd8\xff",
        b"PK\x03\x04",
        b"\x1f\x8b",
    ];
    !is_utf16 && (controls * 20 > start.len() || magic.iter().any(|magic| start.starts_with(magic)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, location: &[u8]) -> FetchedPage {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, location.try_into().unwrap());
        FetchedPage {
            url: "http://example.org/a/b".parse().unwrap(),
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: Bytes::new(),
            truncated: false,
            transfer: Transfer::default(),
        }
    }

    #[test]
    fn redirects_lead_to_pages_only() {
        let target = |status, location| response(status, location).redirect_target();
        let url = |text: &str| Some(text.parse().unwrap());
        assert_eq!(target(301, b"../c"), url("http://example.org/c"));
        assert_eq!(target(308, b"https://x.org"), url("https://x.org/"));
        assert_eq!(
            target(302, "/ä".as_bytes()),
            url("http://example.org/%C3%A4")
        );
        assert_eq!(target(302, b"file:///etc/passwd"), None);
        assert_eq!(target(200, b"/c"), None);
        assert_eq!(target(304, b"/c"), None);
    }
}
