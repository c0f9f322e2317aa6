//! A page before and after parsing.
//!
//! `FetchedPage` is one HTTP response, whatever its status: an error status is data, not a failure
//! of ours. `ParsedPage` is what a reader, and our classifier, gets from it.

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
    /// The requested page.
    pub url: PageUrl,
    /// The status of the response, errors included.
    pub status: StatusCode,
    /// All headers of the response.
    pub headers: HeaderMap,
    /// The body, transfer and content encodings decoded.
    pub body: Bytes,
    /// Whether the body is only the beginning: a limit was reached or the stream broke.
    pub truncated: bool,
    /// How it was transferred.
    pub transfer: Transfer,
}

/// How a page was transferred; all default if it came from an archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfer {
    /// The IP address that answered, if known.
    pub address: Option<IpAddr>,
    /// Bytes of the body on the wire, before content decoding.
    pub wire_bytes: u64,
    /// From sending the request to the last byte.
    pub(crate) duration: Duration,
    /// Requests for robots.txt, made for this page, that got a response.
    pub robots_requests: usize,
    /// The server was busy until this time. Earlier requests wait, or are refused.
    pub busy_until: Option<SystemTime>,
}

/// A page as a reader sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedPage {
    /// What the body is.
    pub content: ContentKind,
    /// The WHATWG name of the charset the text was decoded from.
    pub(crate) charset: &'static str,
    /// All text, each piece with its part of the page.
    pub text: PageText,
    /// The language of the text: detected, or declared where there is too little to detect.
    pub language: Option<Language>,
    /// Links inside the site, one for each page, in order of appearance.
    pub intrinsic_links: Vec<IntrinsicLink>,
    /// Links to other sites, one for each page, in order of appearance.
    pub transversal_links: Vec<TransversalLink>,
    /// The target of `<link rel=canonical>`.
    pub(crate) canonical: Option<PageUrl>,
    /// The page's own robots directives.
    pub robots: RobotsDirectives,
    /// For finding near-duplicates; `None` without words.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Signs that this is not an authored page.
    pub signs: Signs,
}

/// What the body of a response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContentKind {
    /// HTML or XHTML.
    Html,
    /// Plain text.
    PlainText,
    /// Anything else; it has no text and no links for us.
    Other,
}

/// Robots directives of a page, from `<meta name=robots>` or `X-Robots-Tag`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RobotsDirectives {
    /// `noindex`: do not list the page in results.
    pub noindex: bool,
    /// `nofollow`: do not follow its links.
    pub nofollow: bool,
}

/// Signs that a response with status 200 is not an authored page. They are conservative: only short
/// pages have them, and the caller decides what follows from them.
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
    /// Next to no text, and no link or frame to follow: a shell for scripts to fill.
    pub empty_shell: bool,
    /// A challenge page of a gatekeeper. The only sign that may appear with other statuses.
    pub(crate) challenge: bool,
}

// === impl FetchedPage ===

impl FetchedPage {
    /// The target of a redirect, if it is a page.
    #[must_use]
    pub fn redirect_target(&self) -> Option<PageUrl> {
        let is_redirect = matches!(self.status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let location = self.headers.get(LOCATION).filter(|_| is_redirect)?;
        // Servers put raw UTF-8 here, which the URL standard allows for.
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

    /// A header as text; invalid UTF-8 is replaced.
    #[must_use]
    pub(crate) fn header(&self, name: &HeaderName) -> Option<String> {
        let value = self.headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
    }
}

// === impl ParsedPage ===

impl ParsedPage {
    /// Whether this is an authored page, which may be evidence: HTML or text, and without
    /// [`Signs`] to the contrary.
    #[must_use]
    pub fn is_authored(&self) -> bool {
        let signs = self.signs;
        let has_signs = signs.parked || signs.soft_404 || signs.empty_shell || signs.challenge;
        self.content != ContentKind::Other && !has_signs
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

/// Whether more than one in 20 bytes at the beginning of a body is one that text does not contain,
/// or the body begins with the magic number of a binary format. UTF-16, which is full of zeros, is
/// text only with its byte order mark.
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
