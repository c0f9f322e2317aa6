//! `[fetch]`: where pages come from, and how the live web is asked for them.

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
    /// Who is behind the crawler: a URL or a mail address. Without it the live web is
    /// refused.
    pub contact: Option<String>,
    /// The longest body kept of one page, decoded.
    pub body_bytes: usize,
    /// Hosts whose address is given here instead of by DNS.
    pub resolve: Vec<ResolveRule>,
    /// Addresses that may be connected to although they are not public.
    pub allow_addresses: Vec<IpNet>,
    /// The ports that may be connected to.
    pub ports: Vec<u16>,
    /// Name servers to ask instead of those of the system.
    pub dns_servers: Vec<SocketAddr>,
    /// How many answers of name servers are kept, each as long as it says.
    pub dns_cache: usize,
    /// A proxy for everything that is not mapped by `resolve`.
    pub proxy: Option<ProxySettings>,
    /// Certificates to trust beside those of the web.
    pub ca_file: Option<PathBuf>,
    /// What happens to a site whose certificate is bad.
    pub bad_certificate: CertificatePolicy,
    /// `[fetch.limits]`
    pub limits: LimitSettings,
    /// `[fetch.politeness]`
    pub politeness: PolitenessSettings,
    /// `[fetch.archive]`
    pub archive: ArchiveSettings,
}

/// One entry of `resolve`: these hosts are found at this address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolveRule {
    /// A host in lower case, or `*.` and a domain for all hosts below it, or `*`.
    pub host: String,
    /// Where they are.
    pub address: SocketAddr,
    /// Whether TLS is spoken there.
    pub tls: bool,
}

/// `proxy`: an HTTP proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxySettings {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// User and password, if it wants them.
    pub credentials: Option<(String, String)>,
}

/// What to do with a site whose certificate is bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificatePolicy {
    /// The site is not judged.
    Refuse,
    /// The site is judged by what it says over http, if it does.
    Http,
}

/// `[fetch.limits]`: what one request, and all of them together, may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSettings {
    /// Until a connection stands, TLS included.
    pub connect: Duration,
    /// Until the first byte of an answer, and between two bytes of it.
    pub first_byte: Duration,
    /// From asking until the last byte.
    pub request: Duration,
    /// Bytes per second below which a body is given up.
    pub minimum_rate: usize,
    /// The longest body taken from the wire.
    pub wire_bytes: usize,
    /// All headers of an answer together.
    pub(crate) header_bytes: usize,
    /// The headers of an answer.
    pub(crate) headers: usize,
    /// Media types of which the body is downloaded.
    pub content_types: Vec<String>,
    /// Connections open at once, idle ones included.
    pub connections: usize,
    /// How long a connection that nobody uses stays open.
    pub idle: Duration,
}

/// `[fetch.politeness]`: how hosts are spared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolitenessSettings {
    /// Between two requests to one site.
    pub pause: Duration,
    /// The longest wait inside a visit; who asks for more is visited again later.
    pub longest_wait: Duration,
    /// Between two requests to one address, whichever sites it serves.
    pub address_interval: Duration,
    /// When to come back if robots.txt cannot be had and no time was named.
    pub come_back: Duration,
    /// How long a robots.txt is believed.
    pub robots_max_age: Duration,
    /// What the rules of all hosts may take in memory together.
    pub(crate) robots_cache: usize,
}

/// `[fetch.archive]`: websites out of WARC files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// Whether an index is kept beside each archive.
    pub keep_index: bool,
    /// What happens to a damaged archive.
    pub damaged: DamagePolicy,
}

/// What to do with a damaged archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamagePolicy {
    /// Refuse it and say where the damage is.
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
    /// Whether the rule speaks of a host, which must be in lower case. A rule for a site
    /// speaks of its `www.` too.
    #[must_use]
    pub(crate) fn covers(&self, host: &str) -> bool {
        covers(&self.host, host)
    }
}

// === impl ProxySettings ===

impl ProxySettings {
    /// The address, if the proxy is given by one.
    #[must_use]
    pub(crate) fn address(&self) -> Option<IpAddr> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        host.parse().ok()
    }
}

/// Passwords stay out of logs.
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
        let hundredth = Duration::from_millis(10);
        Self {
            connect: limits.value("connect", self.connect, duration(hundredth..=HOUR)),
            first_byte: limits.value("first_byte", self.first_byte, duration(hundredth..=HOUR)),
            request: limits.value("request", self.request, duration(hundredth..=DAY)),
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
