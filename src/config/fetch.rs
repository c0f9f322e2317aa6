//! `[fetch]`: where pages come from, and how the live web is requested.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::DAY;
use super::external::covers;
use super::section::Section;
use super::value::{
    addresses, boolean, byte_size, choice, contact, duration, media_types, networks, optional_text,
    ports, proxy, resolve_rules, whole_number,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

/// `[fetch]`: where pages come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchSettings {
    /// URL or mail address of the operator. Without it the live web is refused.
    pub contact: Option<String>,
    /// Maximum size of one page's body after decoding.
    pub body_bytes: usize,
    /// Hosts whose address is given here and not by DNS.
    pub resolve: Vec<ResolveRule>,
    /// Non-public addresses that connections are allowed to.
    pub allow_addresses: Vec<IpNet>,
    /// Ports that connections are allowed to.
    pub ports: Vec<u16>,
    /// Name servers to use instead of the system's.
    pub dns_servers: Vec<SocketAddr>,
    /// Maximum number of DNS responses in the cache.
    pub dns_cache: usize,
    /// A proxy for everything not covered by `resolve`.
    pub proxy: Option<ProxySettings>,
    /// Certificates to trust in addition to the web's usual root certificates.
    pub ca_file: Option<PathBuf>,
    /// How to treat a site with an invalid certificate.
    pub bad_certificate: CertificatePolicy,
    /// `[fetch.limits]`
    pub limits: LimitSettings,
    /// `[fetch.politeness]`
    pub politeness: PolitenessSettings,
    /// `[fetch.archive]`
    pub archive: ArchiveSettings,
}

/// One entry of `resolve`: the address of some hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolveRule {
    /// A host in lower case, or `*.` and a domain for all hosts below it, or `*`.
    pub host: String,
    /// Where connections to them go.
    pub address: SocketAddr,
    /// Whether the server there uses TLS.
    pub tls: bool,
}

/// `proxy`: an HTTP proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxySettings {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// User and password, if it requires them.
    pub credentials: Option<(String, String)>,
}

/// How to treat a site with an invalid certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificatePolicy {
    /// The site is not judged.
    Refuse,
    /// The site is judged by its pages over http, if it has any.
    Http,
}

/// `[fetch.limits]`: limits of one request, and of all of them together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSettings {
    /// Timeout for connecting, including TLS.
    pub connect: Duration,
    /// Timeout for the first byte of a response, and between two pieces of it.
    pub first_byte: Duration,
    /// Timeout for a whole request, without politeness waits.
    pub request: Duration,
    /// Average bytes per second below which a body is aborted.
    pub minimum_rate: usize,
    /// Maximum size of a body as received.
    pub wire_bytes: usize,
    /// Maximum size of all headers of a response together.
    pub(crate) header_bytes: usize,
    /// Maximum number of headers of a response.
    pub(crate) headers: usize,
    /// Media types whose body is downloaded.
    pub content_types: Vec<String>,
    /// Maximum number of open connections, including idle ones.
    pub connections: usize,
    /// How long an idle connection stays open.
    pub idle: Duration,
}

/// `[fetch.politeness]`: delays between requests, and robots.txt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolitenessSettings {
    /// Minimum time between two requests to one site.
    pub pause: Duration,
    /// Maximum wait within a visit; a site that requests a longer one is visited again later.
    pub longest_wait: Duration,
    /// Minimum time between two requests to one IP address, whichever sites it serves.
    pub address_interval: Duration,
    /// When to visit a site again that sent no Retry-After.
    pub come_back: Duration,
    /// How long a robots.txt is cached.
    pub robots_max_age: Duration,
    /// Memory for the cached rules of all hosts.
    pub(crate) robots_cache: usize,
}

/// `[fetch.archive]`: websites from WARC files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// Whether to keep an index file beside each archive.
    pub keep_index: bool,
    /// How to treat a damaged archive.
    pub damaged: DamagePolicy,
}

/// How to treat a damaged archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamagePolicy {
    /// Refuse it and report where the damage is.
    Refuse,
    /// Use what can be read.
    Salvage,
}

// === impl FetchSettings ===

impl FetchSettings {
    pub(super) fn read(&self, fetch: &mut Section<'_>) -> Self {
        let policies = [
            ("refuse", CertificatePolicy::Refuse),
            ("http", CertificatePolicy::Http),
        ];
        Self {
            contact: fetch.value("contact", self.contact.clone(), contact),
            body_bytes: fetch.value("body_bytes", self.body_bytes, byte_size(1 << 10..=1 << 30)),
            resolve: fetch.value("resolve", self.resolve.clone(), resolve_rules),
            allow_addresses: fetch.value("allow_addresses", self.allow_addresses.clone(), networks),
            ports: fetch.value("ports", self.ports.clone(), ports),
            dns_servers: fetch.value("dns_servers", self.dns_servers.clone(), addresses),
            dns_cache: fetch.value("dns_cache", self.dns_cache, whole_number(0..=10_000_000)),
            proxy: fetch.value("proxy", self.proxy.clone(), proxy),
            ca_file: fetch
                .value("ca_file", None, optional_text)
                .map(PathBuf::from),
            bad_certificate: fetch.value(
                "bad_certificate",
                self.bad_certificate,
                choice(&policies),
            ),
            limits: fetch.section("limits", |limits| self.limits.read(limits)),
            politeness: fetch.section("politeness", |politeness| self.politeness.read(politeness)),
            archive: fetch.section("archive", |archive| self.archive.read(archive)),
        }
    }
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            contact: None,
            body_bytes: 4 << 20,
            resolve: Vec::new(),
            allow_addresses: Vec::new(),
            ports: vec![80, 443],
            dns_servers: Vec::new(),
            dns_cache: 10_000,
            proxy: None,
            ca_file: None,
            bad_certificate: CertificatePolicy::Refuse,
            limits: LimitSettings::default(),
            politeness: PolitenessSettings::default(),
            archive: ArchiveSettings::default(),
        }
    }
}

// === impl ResolveRule ===

impl ResolveRule {
    /// Whether the rule matches a host, which must be in lower case. A rule for a host matches its
    /// `www.` too.
    #[must_use]
    pub(crate) fn covers(&self, host: &str) -> bool {
        covers(&self.host, host)
    }
}

// === impl ProxySettings ===

impl ProxySettings {
    /// The address, if `host` is one and not a name.
    #[must_use]
    pub(crate) fn address(&self) -> Option<IpAddr> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        host.parse().ok()
    }
}

/// Without credentials, to keep them out of logs.
impl fmt::Debug for ProxySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxySettings")
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

// === impl LimitSettings ===

impl LimitSettings {
    fn read(&self, limits: &mut Section<'_>) -> Self {
        let shortest = Duration::from_millis(10);
        Self {
            connect: limits.value("connect", self.connect, duration(shortest..=HOUR)),
            first_byte: limits.value("first_byte", self.first_byte, duration(shortest..=HOUR)),
            request: limits.value("request", self.request, duration(shortest..=DAY)),
            minimum_rate: limits.value("minimum_rate", self.minimum_rate, byte_size(0..=1 << 30)),
            wire_bytes: limits.value("wire_bytes", self.wire_bytes, byte_size(1 << 10..=1 << 30)),
            header_bytes: limits.value(
                "header_bytes",
                self.header_bytes,
                byte_size(8 << 10..=16 << 20),
            ),
            headers: limits.value("headers", self.headers, whole_number(10..=10_000)),
            content_types: limits.value("content_types", self.content_types.clone(), media_types),
            connections: limits.value("connections", self.connections, whole_number(1..=1_000_000)),
            idle: limits.value("idle", self.idle, duration(Duration::ZERO..=HOUR)),
        }
    }
}

impl Default for LimitSettings {
    fn default() -> Self {
        let types = ["text/html", "application/xhtml+xml", "text/plain"];
        Self {
            connect: 10 * SECOND,
            first_byte: 20 * SECOND,
            request: 60 * SECOND,
            minimum_rate: 512,
            wire_bytes: 4 << 20,
            header_bytes: 64 << 10,
            headers: 100,
            content_types: types.map(str::to_owned).to_vec(),
            connections: 1_000,
            idle: 10 * SECOND,
        }
    }
}

// === impl PolitenessSettings ===

impl PolitenessSettings {
    fn read(&self, politeness: &mut Section<'_>) -> Self {
        let any = || duration(Duration::ZERO..=HOUR);
        Self {
            pause: politeness.value("pause", self.pause, any()),
            longest_wait: politeness.value("longest_wait", self.longest_wait, any()),
            address_interval: politeness.value("address_interval", self.address_interval, any()),
            come_back: politeness.value("come_back", self.come_back, duration(SECOND..=30 * DAY)),
            robots_max_age: politeness.value(
                "robots_max_age",
                self.robots_max_age,
                duration(SECOND..=DAY),
            ),
            robots_cache: politeness.value(
                "robots_cache",
                self.robots_cache,
                byte_size(1 << 20..=64 << 30),
            ),
        }
    }
}

impl Default for PolitenessSettings {
    fn default() -> Self {
        Self {
            pause: SECOND,
            longest_wait: 30 * SECOND,
            address_interval: Duration::from_millis(200),
            come_back: HOUR,
            robots_max_age: DAY,
            robots_cache: 32 << 20,
        }
    }
}

// === impl ArchiveSettings ===

impl ArchiveSettings {
    fn read(&self, archive: &mut Section<'_>) -> Self {
        let policies = [
            ("refuse", DamagePolicy::Refuse),
            ("salvage", DamagePolicy::Salvage),
        ];
        Self {
            keep_index: archive.value("keep_index", self.keep_index, boolean),
            damaged: archive.value("damaged", self.damaged, choice(&policies)),
        }
    }
}

impl Default for ArchiveSettings {
    fn default() -> Self {
        Self {
            keep_index: true,
            damaged: DamagePolicy::Refuse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_cover_hosts_and_what_is_below_domains() {
        let covers = |pattern: &str, host: &str| {
            let rule = ResolveRule {
                host: pattern.to_owned(),
                address: "127.0.0.1:80".parse().unwrap(),
                tls: false,
            };
            rule.covers(host)
        };
        assert!(covers("a.example", "a.example"));
        assert!(covers("a.example", "www.a.example"));
        assert!(!covers("a.example", "b.a.example"));
        assert!(!covers("a.example", "ba.example"));
        assert!(covers("*.example", "a.example"));
        assert!(covers("*.example", "b.a.example"));
        assert!(!covers("*.example", "example"));
        assert!(!covers("*.example", ".example"));
        assert!(!covers("*.example", "aexample"));
        assert!(covers("*", "anything.org"));
    }
}
