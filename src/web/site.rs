//! What counts as one site: a host, in canonical spelling.
//!
//! Two addresses are the same site if they differ only in scheme, case, a leading `www.`,
//! a trailing dot, the spelling of an international name, or a default port.
//!
//! Invariant: a `SiteId` parsed from the text of a `SiteId` is that `SiteId`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;
use url::{Host, Url};

use super::Platforms;

/// One site: a host in lower case and ASCII, without `www.`, with `:port` if unusual.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(Arc<str>);

/// Text that does not name a site.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SiteIdError {
    /// Not of the form `host` or `host:port`; a whole URL is read by `PageUrl`.
    #[error("`{text}` is not a host name: {reason}")]
    Malformed {
        /// The text as given.
        text: String,
        /// Which rule of the URL standard it breaks.
        reason: String,
    },
    /// Looks like a name, but is not valid in DNS.
    #[error("`{host}` cannot be a host: {reason}")]
    NotResolvable {
        /// The host in canonical spelling.
        host: String,
        /// Which rule of DNS it breaks.
        reason: String,
    },
}

// === impl SiteId ===

impl SiteId {
    /// The site of a URL; the scheme does not matter.
    pub(crate) fn of(url: &Url) -> Result<Self, SiteIdError> {
        let host = url.host().ok_or_else(|| SiteIdError::Malformed {
            text: url.to_string(),
            reason: "the URL has no host".to_owned(),
        })?;
        let port = url.port().filter(|port| !is_default_port(*port));
        let name = match host {
            Host::Domain(domain) => {
                let domain = resolvable(domain)?;
                without_www(domain).to_owned()
            }
            address => address.to_string(),
        };
        Ok(Self(match port {
            Some(port) => format!("{name}:{port}").into(),
            None => name.into(),
        }))
    }

    /// The canonical text: `example.org`, `example.org:8080`, `[::1]`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host without its port.
    #[must_use]
    pub(crate) fn host(&self) -> &str {
        match self.0.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => &self.0,
        }
    }

    /// The port, if it is not a default one.
    #[must_use]
    pub(crate) fn port(&self) -> Option<u16> {
        let rest = self.0.strip_prefix(self.host())?;
        rest.strip_prefix(':')?.parse().ok()
    }

    /// The site of the same host at the default ports.
    #[must_use]
    pub(crate) fn without_port(&self) -> Self {
        match self.port() {
            Some(_) => Self(self.host().into()),
            None => self.clone(),
        }
    }

    /// The domain of one owner: `example.co.uk` for `a.b.example.co.uk`.
    ///
    /// Follows the public suffix list with its private part and the built-in table of
    /// [`Platforms`], so that `alice.github.io` and `bob.wordpress.com` have different owners.
    /// IP addresses and names without a known suffix are returned whole. Use
    /// [`Platforms::domain_of`] where domains are counted: it knows the operator's platforms too.
    #[must_use]
    pub(crate) fn registrable_domain(&self) -> &str {
        Platforms::default().domain_of(self)
    }

    /// The part of the host that its owner chose: `shop.example` of `shop.example.co.uk`, `alice` of
    /// `alice.github.io`; nothing of an IP address.
    #[must_use]
    pub(crate) fn owner_chosen_name(&self) -> &str {
        let host = self.host();
        if is_address(host) {
            return "";
        }
        match self.registrable_domain().split_once('.') {
            Some((_, suffix)) => (host.strip_suffix(suffix))
                .and_then(|name| name.strip_suffix('.'))
                .unwrap_or(host),
            None => host,
        }
    }

    /// The registrable domain by the public suffix list alone.
    pub(super) fn registered_name(&self) -> &str {
        let host = self.host();
        if is_address(host) {
            return host;
        }
        addr::parse_dns_name(host)
            .ok()
            .and_then(|name| name.root())
            .unwrap_or(host)
    }
}

impl FromStr for SiteId {
    type Err = SiteIdError;

    /// Reads `host` or `host:port` in any spelling.
    fn from_str(text: &str) -> Result<Self, SiteIdError> {
        let malformed = |reason: &str| SiteIdError::Malformed {
            text: text.to_owned(),
            reason: reason.to_owned(),
        };
        let trimmed = text.trim();
        if trimmed.contains(['/', '\\', '?', '#', '@']) {
            return Err(malformed("expected `host` or `host:port` and nothing else"));
        }
        let url = Url::parse(&format!("http://{trimmed}/"))
            .map_err(|error| malformed(&error.to_string()))?;
        Self::of(&url)
    }
}

impl fmt::Display for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SiteId({})", self.0)
    }
}

/// Identity ignores the scheme, so the default ports of both schemes are dropped.
fn is_default_port(port: u16) -> bool {
    matches!(port, 80 | 443)
}

fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok()
}

/// The domain without trailing dots, if it is valid in DNS (RFC 1035, section 2.3.4).
pub(super) fn resolvable(domain: &str) -> Result<&str, SiteIdError> {
    let host = domain.trim_end_matches('.');
    let broken = |reason: &str| SiteIdError::NotResolvable {
        host: domain.to_owned(),
        reason: reason.to_owned(),
    };
    if host.len() > 253 {
        return Err(broken("it is longer than 253 bytes"));
    }
    for label in host.split('.') {
        match label.len() {
            0 => return Err(broken("it has an empty label")),
            1..=63 => {}
            _ => return Err(broken("it has a label longer than 63 bytes")),
        }
    }
    Ok(host)
}

/// Strips leading `www.` labels while the rest is still a registrable name or below one:
/// `www.com` and `www.github.io` are registered names, not spellings of `com` and `github.io`.
fn without_www(mut host: &str) -> &str {
    while let Some(rest) = host.strip_prefix("www.") {
        let registered = addr::parse_dns_name(rest)
            .ok()
            .and_then(|name| name.root())
            .is_some();
        if !registered {
            break;
        }
        host = rest;
    }
    host
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn site(text: &str) -> SiteId {
        text.parse().unwrap()
    }

    #[test]
    fn spellings_of_one_site_are_one_site() {
        for (spelling, canonical) in [
            ("Example.ORG", "example.org"),
            ("www.example.org", "example.org"),
            ("WWW.Example.org.", "example.org"),
            ("www.www.example.org", "example.org"),
            ("example.org:80", "example.org"),
            ("example.org:443", "example.org"),
            ("example.org:8080", "example.org:8080"),
            ("www.example.org:8080", "example.org:8080"),
            ("www2.example.org", "www2.example.org"),
            ("müller.example", "xn--mller-kva.example"),
            ("MÜLLER.example", "xn--mller-kva.example"),
            ("xn--mller-kva.example", "xn--mller-kva.example"),
            ("例え。jp", "xn--r8jz45g.jp"),
            ("my_site.example.org", "my_site.example.org"),
            ("localhost", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("[0:0::1]:8080", "[::1]:8080"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(site(spelling).as_str(), canonical, "{spelling}");
        }
    }

    #[test]
    fn www_stays_where_it_is_the_registered_name() {
        for host in ["www.com", "www.co.uk", "www.github.io", "www.localhost"] {
            assert_eq!(site(host).as_str(), host);
        }
    }

    #[test]
    fn what_is_no_host_is_refused_with_a_reason() {
        let long_label = format!("{}.org", "a".repeat(64));
        let long_name = format!("{}org", "abcdefg.".repeat(40));
        for text in [
            "",
            ".",
            "a..b",
            ".example.org",
            "exa mple.org",
            "http://example.org",
            "example.org/path",
            "user@example.org",
            "example.org:99999",
            "[::1",
            "1.2.3.4.5",
            &long_label,
            &long_name,
        ] {
            let error = text.parse::<SiteId>().expect_err(text);
            assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn registrable_domains_follow_the_public_suffix_list() {
        for (host, domain) in [
            ("a.b.example.co.uk", "example.co.uk"),
            ("example.org:8080", "example.org"),
            ("alice.github.io", "alice.github.io"),
            ("blog.alice.github.io", "alice.github.io"),
            ("github.io", "github.io"),
            ("192.0.2.7:81", "192.0.2.7"),
            ("[2001:db8::1]:81", "[2001:db8::1]"),
            ("intranet", "intranet"),
        ] {
            assert_eq!(site(host).registrable_domain(), domain, "{host}");
        }
        assert_eq!(site("[2001:db8::1]:81").port(), Some(81));
        assert_eq!(site("[2001:db8::1]").port(), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_site_or_an_error_and_sites_are_stable(text in "\\PC{0,80}") {
            if let Ok(site) = text.parse::<SiteId>() {
                prop_assert_eq!(site.as_str().parse::<SiteId>(), Ok(site.clone()));
                let again = match site.port() {
                    Some(port) => format!("{}:{port}", site.host()),
                    None => site.host().to_owned(),
                };
                prop_assert_eq!(again, site.as_str());
            }
        }

        #[test]
        fn hosts_of_labels_are_stable(
            labels in prop::collection::vec("www|[a-z0-9_-]{1,8}|com|co|uk|github|io", 1..6),
            port in prop::option::of(1u16..),
        ) {
            let port = port.map_or_else(String::new, |port| format!(":{port}"));
            let text = format!("{}{port}", labels.join("."));
            if let Ok(site) = text.parse::<SiteId>() {
                prop_assert_eq!(site.as_str().parse::<SiteId>(), Ok(site.clone()));
                prop_assert!(site.host().ends_with(site.registrable_domain()));
            }
        }
    }
}
