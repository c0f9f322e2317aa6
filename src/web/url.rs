//! Canonical page addresses.
//!
//! Two spellings of one page must give one `PageUrl`, or a site looks larger than it is and
//! its pages count twice. Beyond what the WHATWG URL standard does by itself (lower-case
//! scheme and host, IDNA, dot segments, default port), the canonical form
//!
//! - has no fragment, no user name and no password,
//! - has no dot at the end of the host,
//! - decodes percent-encoded letters, digits and `-._~`, writes all other escapes in upper
//!   case, and escapes a `%` that begins no escape,
//! - has no session ids and no tracking parameters (see `parameters.rs`), no empty
//!   parameters and no empty query.
//!
//! Invariant: a `PageUrl` parsed from the text of a `PageUrl` is that `PageUrl`; it has a
//! host that is valid in DNS, is http or https, and is at most [`MAX_URL_BYTES`] long.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use url::{Host, Url};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::parameters::{is_noise, is_session_segment};
use super::site::{SiteId, SiteIdError, resolvable};

/// The longest URL we handle: what common servers accept as a request line.
pub(crate) const MAX_URL_BYTES: usize = 8 * 1024;

/// The version of the rules above, for files that hold keys. It must be increased whenever a rule
/// changes; a test notices if that is forgotten.
pub(crate) const CANONICAL_FORM: u32 = 1;

/// One page of one site, in canonical form.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageUrl(Url);

/// The identity of a page: a stable hash of the canonical form without the scheme and without
/// `www.`.
///
/// Lookups by key must compare the URL afterwards: 64-bit hashes can collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PageKey(u64);

/// The scheme of a page's URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Unencrypted.
    Http,
    /// Over TLS.
    Https,
}

/// Text that is not the URL of a page.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UrlError {
    /// Not a URL by the WHATWG standard.
    #[error("not a URL: {0}")]
    Malformed(#[from] url::ParseError),
    /// A URL, but not of a page on the web (`mailto:`, `javascript:`, `ftp:`).
    #[error("`{0}:` addresses are not pages")]
    Scheme(String),
    /// The host is not that of a site.
    #[error(transparent)]
    Host(#[from] SiteIdError),
    /// Longer than common servers accept.
    #[error("{0} bytes are too long for an address (at most {MAX_URL_BYTES})")]
    TooLong(usize),
}

// === impl PageUrl ===

impl PageUrl {
    /// Brings a URL into canonical form.
    pub(crate) fn new(mut url: Url) -> Result<Self, UrlError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlError::Scheme(url.scheme().to_owned()));
        }
        drop_fragment_and_user(&mut url);
        drop_trailing_dot(&mut url)?;
        canonicalise_path(&mut url);
        canonicalise_query(&mut url);
        match url.as_str().len() {
            0..=MAX_URL_BYTES => Ok(Self(url)),
            length => Err(UrlError::TooLong(length)),
        }
    }

    /// Resolves a reference found on a page, as in `href`, against a base address.
    pub(crate) fn join(base: &Url, reference: &str) -> Result<Self, UrlError> {
        if reference.len() > MAX_URL_BYTES {
            return Err(UrlError::TooLong(reference.len()));
        }
        Self::new(base.join(reference)?)
    }

    /// [`join`](Self::join) on a page that is not UTF-8: browsers encode a query in the charset of
    /// the page that holds the link (WHATWG URL, section 4.4).
    pub(crate) fn join_encoded(
        base: &Url,
        reference: &str,
        encode: &dyn Fn(&str) -> Cow<'_, [u8]>,
    ) -> Result<Self, UrlError> {
        if reference.len() > MAX_URL_BYTES {
            return Err(UrlError::TooLong(reference.len()));
        }
        let options = Url::options()
            .base_url(Some(base))
            .encoding_override(Some(encode));
        Self::new(options.parse(reference)?)
    }

    /// The homepage of a site.
    ///
    /// # Panics
    /// Never: every `SiteId` is the host of a valid URL.
    #[must_use]
    pub fn homepage(site: &SiteId, scheme: Scheme) -> Self {
        Url::parse(&format!("{}://{site}/", scheme.name()))
            .map_err(UrlError::from)
            .and_then(Self::new)
            .expect("a site is the host of a valid URL")
    }

    /// The site this page belongs to.
    ///
    /// # Panics
    /// Never: the host was checked when the address was made.
    #[must_use]
    pub fn site(&self) -> SiteId {
        SiteId::of(&self.0).expect("the host was checked when the address was made")
    }

    /// Whether both pages have the same port and the same spelling of the host: a cheap test that
    /// they are of one site, without making a `SiteId`.
    #[must_use]
    pub(crate) fn shares_host(&self, other: &Self) -> bool {
        self.0.host_str() == other.0.host_str()
            && self.0.port_or_known_default() == other.0.port_or_known_default()
    }

    /// The page's identity, equal for `http` and `https`, with and without `www.`.
    #[must_use]
    pub(crate) fn key(&self) -> PageKey {
        // Every `www.` is dropped, also where it is the registered name: which names are
        // registered changes with the public suffix list, and keys must not.
        let mut host = self.0.host_str().unwrap_or_default();
        while let Some(rest) = host.strip_prefix("www.") {
            host = rest;
        }
        let port = self.0.port().filter(|port| !matches!(port, 80 | 443));
        let site = xxh3_64_with_seed(host.as_bytes(), u64::from(port.unwrap_or_default()));
        let page = self.0[url::Position::BeforePath..].as_bytes();
        PageKey(xxh3_64_with_seed(page, site))
    }

    /// Like [`key`](Self::key), and also equal for `/dir/` and `/dir/index.html`: they are one page
    /// to a crawler, but two to an archive, which may hold only one of them.
    #[must_use]
    pub(crate) fn document_key(&self) -> PageKey {
        let path = self.path();
        let (directory, document) = path.split_at(path.rfind('/').map_or(0, |at| at + 1));
        if self.0.query().is_some() || !is_default_document(document) {
            return self.key();
        }
        let mut url = self.0.clone();
        url.set_path(directory);
        Self(url).key()
    }

    /// Whether both URLs are the same page whatever the scheme and `www.`: as by [`PageKey`], but
    /// without the chance of a collision.
    #[must_use]
    pub(crate) fn is_same_page(&self, other: &Self) -> bool {
        self.0[url::Position::BeforePath..] == other.0[url::Position::BeforePath..]
            && self.site() == other.site()
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// As a type of the `url` crate.
    #[must_use]
    pub fn as_url(&self) -> &Url {
        &self.0
    }

    /// Http or https.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        match self.0.scheme() {
            "https" => Scheme::Https,
            _ => Scheme::Http,
        }
    }

    /// Scheme, host and port: what has a robots.txt of its own.
    #[must_use]
    pub(crate) fn origin(&self) -> &str {
        &self.0[..url::Position::BeforePath]
    }

    /// The robots.txt of the same origin (RFC 9309, section 2.3).
    #[must_use]
    pub(crate) fn robots_txt(&self) -> Self {
        self.at_root("/robots.txt")
    }

    /// The root page of the same origin.
    #[must_use]
    pub(crate) fn front_door(&self) -> Self {
        self.at_root("/")
    }

    fn at_root(&self, path: &str) -> Self {
        let mut url = self.0.clone();
        url.set_path(path);
        url.set_query(None);
        Self(url)
    }

    /// Other spellings of a site's entry URL, the likeliest first: the other scheme, then both
    /// schemes with `www.` added or removed.
    #[must_use]
    pub(crate) fn other_entrances(&self) -> Vec<Self> {
        let mut spellings = vec![self.clone()];
        spellings.extend(self.with_or_without_www());
        let both = spellings.into_iter().flat_map(|spelling| {
            let other = spelling.in_other_scheme();
            [Some(spelling), other]
        });
        both.flatten().filter(|spelling| spelling != self).collect()
    }

    /// Keeps the port, unless it is the default of the scheme.
    fn in_other_scheme(&self) -> Option<Self> {
        let other = match self.scheme() {
            Scheme::Http => "https",
            Scheme::Https => "http",
        };
        let mut url = self.0.clone();
        url.set_scheme(other).ok()?;
        Some(Self(url))
    }

    /// Subdomains get no `www.`: few of them have it.
    fn with_or_without_www(&self) -> Option<Self> {
        let Host::Domain(host) = self.0.host()? else {
            return None;
        };
        let site = self.site();
        let other = if host == site.host() {
            if site.registered_name() != host || !host.contains('.') {
                return None;
            }
            format!("www.{host}")
        } else {
            site.host().to_owned()
        };
        let mut url = self.0.clone();
        url.set_host(Some(&other)).ok()?;
        Some(Self(url))
    }

    /// Path and query: the request target.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.0[url::Position::BeforePath..]
    }

    /// The same page in another spelling of its site: scheme, host and port of `origin`.
    #[must_use]
    pub(crate) fn at_origin(&self, origin: &Self) -> Self {
        let mut url = origin.0.clone();
        url.set_path(self.0.path());
        url.set_query(self.0.query());
        Self(url)
    }

    /// The path, beginning with `/`.
    #[must_use]
    pub fn path(&self) -> &str {
        self.0.path()
    }
}

impl FromStr for PageUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.len() > MAX_URL_BYTES {
            return Err(UrlError::TooLong(text.len()));
        }
        Self::new(Url::parse(text)?)
    }
}

impl fmt::Display for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl fmt::Debug for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageUrl({})", self.0)
    }
}

// === impl Scheme ===

impl Scheme {
    /// As in a URL.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

// === impl PageKey ===

impl PageKey {
    /// The hash itself, for files.
    #[must_use]
    pub(crate) fn get(self) -> u64 {
        self.0
    }
}

/// Whether a server serves a document of this name for its directory.
fn is_default_document(name: &str) -> bool {
    let Some((stem, extension)) = name.split_once('.') else {
        return false;
    };
    let is = |word: &str, words: &[&str]| words.iter().any(|own| own.eq_ignore_ascii_case(word));
    let extensions = [
        "html", "htm", "shtml", "xhtml", "php", "php3", "php5", "asp", "aspx", "jsp", "cgi", "cfm",
    ];
    is(stem, &["index", "default"]) && is(extension, &extensions)
}

fn drop_fragment_and_user(url: &mut Url) {
    url.set_fragment(None);
    // Both setters fail only for URLs without a host, which have neither.
    if !url.username().is_empty() {
        let _ = url.set_username("");
    }
    if url.password().is_some() {
        let _ = url.set_password(None);
    }
}

fn drop_trailing_dot(url: &mut Url) -> Result<(), UrlError> {
    if let Some(Host::Domain(domain)) = url.host() {
        let host = resolvable(domain)?;
        if host.len() != domain.len() {
            let host = host.to_owned();
            url.set_host(Some(&host))?;
        }
    }
    Ok(())
}

fn canonicalise_path(url: &mut Url) {
    let path = url.path();
    if !path.contains(['%', ';', '(']) {
        return;
    }
    // Escapes first: `%6Asessionid` is a session too, and the result must not change when parsed
    // again.
    let escaped = normalise_escapes(path);
    let segments: Vec<Cow<'_, str>> = escaped
        .split('/')
        .filter(|segment| !is_session_segment(segment))
        .map(without_path_parameters)
        .collect();
    let clean = match segments.join("/") {
        empty if empty.is_empty() => "/".to_owned(),
        clean => clean,
    };
    if clean != url.path() {
        url.set_path(&clean);
    }
}

/// Drops `;jsessionid=…` and its kind from a segment; other path parameters stay.
fn without_path_parameters(segment: &str) -> Cow<'_, str> {
    if !segment.contains(';') {
        return Cow::Borrowed(segment);
    }
    let kept: Vec<&str> = segment
        .split(';')
        .enumerate()
        .filter(|(at, part)| *at == 0 || !is_noise(part))
        .map(|(_, part)| part)
        .collect();
    Cow::Owned(kept.join(";"))
}

fn canonicalise_query(url: &mut Url) {
    let Some(query) = url.query() else { return };
    let escaped = normalise_escapes(query);
    let kept: Vec<&str> = escaped
        .split('&')
        .filter(|parameter| !parameter.is_empty() && !is_noise(parameter))
        .collect();
    let clean = (!kept.is_empty()).then(|| kept.join("&"));
    if clean.as_deref() != url.query() {
        url.set_query(clean.as_deref());
    }
}

/// RFC 3986, section 6.2.2: escapes of unreserved characters are decoded, all others are
/// written in upper case. A lone `%` becomes `%25`: otherwise decoding what follows it could make
/// a new escape, and the form would not be stable.
fn normalise_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut normal = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        normal.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let byte = rest
            .get(..2)
            .filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                normal.push(char::from(byte));
                rest = &rest[2..];
            }
            Some(_) => {
                normal.push('%');
                normal.push_str(&rest[..2].to_ascii_uppercase());
                rest = &rest[2..];
            }
            None => normal.push_str("%25"),
        }
    }
    normal.push_str(rest);
    Cow::Owned(normal)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(text: &str) -> PageUrl {
        text.parse().unwrap()
    }

    #[test]
    fn a_site_has_other_entrances() {
        let others = |text: &str| {
            let page: PageUrl = text.parse().unwrap();
            let others = page.other_entrances().into_iter();
            others.map(|page| page.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            others("https://example.org/"),
            [
                "http://example.org/",
                "https://www.example.org/",
                "http://www.example.org/"
            ]
        );
        assert_eq!(
            others("http://www.example.org/"),
            [
                "https://www.example.org/",
                "http://example.org/",
                "https://example.org/"
            ]
        );
        assert_eq!(
            others("https://club.example.org/"),
            ["http://club.example.org/"]
        );
        assert_eq!(others("http://192.0.2.1/"), ["https://192.0.2.1/"]);
        assert_eq!(others("http://localhost/"), ["https://localhost/"]);
        assert_eq!(
            others("https://club.example.org:8080/"),
            ["http://club.example.org:8080/"]
        );
    }

    #[test]
    fn pages_move_between_origins_and_keep_their_place() {
        let page: PageUrl = "https://example.org/a/b?c=d".parse().unwrap();
        let origin: PageUrl = "http://www.example.org:81/x?y".parse().unwrap();
        let moved = page.at_origin(&origin);
        assert_eq!(moved.as_str(), "http://www.example.org:81/a/b?c=d");
        assert_eq!(page.robots_txt().as_str(), "https://example.org/robots.txt");
        assert_eq!(page.origin(), "https://example.org");
        assert_eq!(page.target(), "/a/b?c=d");
    }

    #[test]
    fn spellings_of_one_page_have_one_canonical_form() {
        for (spelling, canonical) in [
            ("HTTP://Example.org", "http://example.org/"),
            ("http://example.org:80/", "http://example.org/"),
            ("https://example.org:443/", "https://example.org/"),
            ("http://example.org:443/", "http://example.org:443/"),
            ("http://example.org./a", "http://example.org/a"),
            ("http://me:pw@example.org/", "http://example.org/"),
            ("http://example.org/a/./b/../c", "http://example.org/a/c"),
            ("http://example.org/a#top", "http://example.org/a"),
            (
                "http://example.org/%7euser/%c3%a4",
                "http://example.org/~user/%C3%A4",
            ),
            ("http://example.org/ä b", "http://example.org/%C3%A4%20b"),
            ("http://example.org/100%", "http://example.org/100%25"),
            ("http://example.org/%%341", "http://example.org/%2541"),
            ("http://example.org/?", "http://example.org/"),
            ("http://example.org/?&&a=1&", "http://example.org/?a=1"),
            ("http://example.org/?b=2&a=1", "http://example.org/?b=2&a=1"),
            ("http://example.org/?a=%41%2f", "http://example.org/?a=A%2F"),
            (
                "http://example.org/?utm_source=x&id=3&PHPSESSID=y",
                "http://example.org/?id=3",
            ),
            ("http://example.org/?utm%5Fsource=x", "http://example.org/"),
            (
                "http://example.org/a;jsessionid=1A2B?x=1",
                "http://example.org/a?x=1",
            ),
            (
                "http://example.org/a;v=1;jsessionid=1A2B/b",
                "http://example.org/a;v=1/b",
            ),
            (
                "http://example.org/(S(abc123))/home.aspx",
                "http://example.org/home.aspx",
            ),
            ("http://example.org/(S(abc123))", "http://example.org/"),
            ("http://müller.example/", "http://xn--mller-kva.example/"),
            ("http://[::1]:80/", "http://[::1]/"),
        ] {
            assert_eq!(page(spelling).as_str(), canonical, "{spelling}");
        }
    }

    #[test]
    fn the_key_ignores_scheme_and_www() {
        let one = page("http://www.example.org/a?b=1");
        for same in ["https://example.org/a?b=1", "http://EXAMPLE.org:80/a?b=1#c"] {
            assert_eq!(page(same).key(), one.key(), "{same}");
            assert!(page(same).is_same_page(&one), "{same}");
        }
        for other in [
            "http://example.org/a?b=2",
            "http://example.org:8080/a?b=1",
            "http://example.com/a?b=1",
            "http://example.org/A?b=1",
        ] {
            assert_ne!(page(other).key(), one.key(), "{other}");
            assert!(!page(other).is_same_page(&one), "{other}");
        }
    }

    #[test]
    fn a_directory_and_its_index_are_one_document() {
        let front = page("http://www.example.org/");
        for same in [
            "http://example.org/index.html",
            "https://example.org/Default.ASPX",
        ] {
            assert_eq!(page(same).document_key(), front.document_key(), "{same}");
            assert_ne!(page(same).key(), front.key(), "{same}");
        }
        for other in [
            "http://example.org/index.html?page=2",
            "http://example.org/index",
            "http://example.org/index.pdf",
            "http://example.org/myindex.html",
            "http://example.org/a/index.html",
        ] {
            assert_ne!(page(other).document_key(), front.document_key(), "{other}");
        }
        assert_eq!(
            page("http://example.org/a/index.php").document_key(),
            page("http://example.org/a/").document_key()
        );
    }

    /// If this fails, a rule has changed: increase `CANONICAL_FORM`.
    #[test]
    fn keys_never_change() {
        let keys = [
            "http://www.example.org/",
            "https://www.github.io:8080/a%7Eb?sid=9f86d081884c7d65&x=1&utm_source=y",
            "http://[::1]/a;jsessionid=1?pk_campaign=2&pk_id=3",
        ];
        let found = keys.map(|text| format!("{:016x}", page(text).key().get()));
        assert_eq!(
            (CANONICAL_FORM, found.join(" ").as_str()),
            (1, "a68e52975d390e1c 4195137289cade00 a17dd16427468105")
        );
    }

    #[test]
    fn what_is_no_page_is_refused_with_a_reason() {
        let long = format!("http://example.org/{}", "a".repeat(MAX_URL_BYTES));
        // Grows beyond the limit only when escaped.
        let grows = format!("http://example.org/{}", " ".repeat(MAX_URL_BYTES / 2) + "a");
        for (text, wanted) in [
            ("mailto:a@example.org", "`mailto:` addresses are not pages"),
            (
                "javascript:alert(1)",
                "`javascript:` addresses are not pages",
            ),
            ("relative/path", "not a URL: relative URL without a base"),
            ("http://", "not a URL: empty host"),
            ("http://a..b/", "`a..b` cannot be a host: "),
            (
                &long,
                "8211 bytes are too long for an address (at most 8192)",
            ),
            (
                &grows,
                "12308 bytes are too long for an address (at most 8192)",
            ),
        ] {
            let error = text.parse::<PageUrl>().expect_err(wanted).to_string();
            assert!(error.starts_with(wanted), "{error}");
        }
    }

    #[test]
    fn references_resolve_against_the_base() {
        let base = Url::parse("http://example.org/dir/page.html").unwrap();
        for (reference, target) in [
            ("../x", "http://example.org/x"),
            ("//other.org", "http://other.org/"),
            ("?q=1", "http://example.org/dir/page.html?q=1"),
            ("", "http://example.org/dir/page.html"),
            (" \n x\ty ", "http://example.org/dir/xy"),
            ("\\a\\b", "http://example.org/a/b"),
        ] {
            assert_eq!(PageUrl::join(&base, reference).unwrap().as_str(), target);
        }
    }

    #[test]
    fn the_homepage_is_the_front_door() {
        let site: SiteId = "www.example.org:8080".parse().unwrap();
        let home = PageUrl::homepage(&site, Scheme::Https);
        assert_eq!(home.as_str(), "https://example.org:8080/");
        assert_eq!(home.site(), site);
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_stable(
            host in "(www\\.)?[a-z]{1,5}\\.(org|co\\.uk)\\.?(:[0-9]{1,4})?",
            path in "[a-zA-Z0-9%/.;()=~ SAF-]{0,40}",
            query in "[a-z0-9%&=_+; -]{0,40}",
        ) {
            if let Ok(once) = format!("http://{host}/{path}?{query}").parse::<PageUrl>() {
                let twice: PageUrl = once.as_str().parse().unwrap();
                prop_assert_eq!(&twice, &once);
                prop_assert_eq!(twice.key(), once.key());
                prop_assert!(twice.is_same_page(&once));
            }
        }

        #[test]
        fn any_text_is_an_address_or_an_error(text in "\\PC{0,120}") {
            if let Ok(once) = text.parse::<PageUrl>() {
                prop_assert_eq!(once.as_str().parse::<PageUrl>(), Ok(once.clone()));
                let _ = once.site();
            }
        }
    }
}
