//! Name resolution: by the `resolve` rules of the settings, else by DNS.
//!
//! DNS answers are cached for their TTL, at most a day, in a cache of bounded size. The addresses
//! returned are the ones connected to: no name is resolved again between the check of its address
//! and its use.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use hickory_resolver::Resolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup_ip::LookupIp;
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::{Name, RecordType};
use tokio::time::timeout;

use crate::config::{FetchSettings, ResolveRule};
use crate::fetch::error::{ErrorKind, FetchError};
use crate::web::{PageUrl, Scheme};

use super::name_sockets::NameSockets;

/// A new domain should not stay dead for a day because it was looked up too early.
const MAX_NEGATIVE_TTL: Duration = Duration::from_mins(5);

const MAX_POSITIVE_TTL: Duration = Duration::from_hours(24);

/// Resolves host names.
pub(super) struct Names {
    rules: Vec<ResolveRule>,
    servers: Vec<SocketAddr>,
    options: ResolverOpts,
    /// For all attempts of one look-up together.
    time_limit: Duration,
    /// Built on first use: a web of mapped hosts works without any name server.
    resolver: OnceLock<Resolver<NameSockets>>,
    sockets: NameSockets,
}

/// An address from the `resolve` rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) address: SocketAddr,
    pub(super) tls: bool,
}

/// Why there is no connection to a host.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// The limit of open files is reached; nothing was tried.
    NoDescriptor,
    Failed(FetchError),
}

// === impl ConnectError ===

impl ConnectError {
    /// Whether the limit of open files is reached, of the process or of the system.
    pub(super) fn is_no_descriptor(error: &io::Error) -> bool {
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
    }
}

impl From<FetchError> for ConnectError {
    fn from(error: FetchError) -> Self {
        Self::Failed(error)
    }
}

// === impl Names ===

impl Names {
    pub(super) fn new(settings: &FetchSettings) -> Self {
        let mut options = ResolverOpts::default();
        // One address family per name keeps per-address politeness simple; hosts with IPv6 only
        // are few, and get a second query below.
        options.ip_strategy = LookupIpStrategy::Ipv4Only;
        options.cache_size = settings.dns_cache as u64;
        options.positive_max_ttl = Some(MAX_POSITIVE_TTL);
        options.negative_max_ttl = Some(MAX_NEGATIVE_TTL);
        options.timeout = settings.limits.connect / 2;
        Self {
            rules: settings.resolve.clone(),
            servers: settings.dns_servers.clone(),
            options,
            time_limit: settings.limits.connect,
            resolver: OnceLock::new(),
            sockets: NameSockets::default(),
        }
    }

    /// The address of the `resolve` rule for a page. A rule with TLS serves only https; a rule
    /// without TLS also serves https where no TLS rule does, so that one plain server can replace
    /// a web of https sites.
    pub(super) fn mapped(&self, page: &PageUrl) -> Option<Mapped> {
        let host = page.as_url().host_str()?;
        let find = |tls: bool| {
            let rule = |rule: &&ResolveRule| rule.tls == tls && rule.covers(host);
            self.rules.iter().find(rule)
        };
        let rule = match page.scheme() {
            Scheme::Https => find(true).or_else(|| find(false)),
            Scheme::Http => find(false),
        };
        rule.map(|rule| Mapped {
            address: rule.address,
            tls: rule.tls,
        })
    }

    /// All addresses of a name, in the order of the answer.
    pub(super) async fn look_up(&self, host: &str) -> Result<Vec<IpAddr>, ConnectError> {
        let no_host = || FetchError::new(ErrorKind::NoHost, format!("there is no host {host}"));
        let refusals = self.sockets.refusals();
        let failed = |error: &NetError| match error {
            error if error.is_no_records_found() => no_host().into(),
            NetError::Io(error) if ConnectError::is_no_descriptor(error) => {
                ConnectError::NoDescriptor
            }
            // Another query may have been the refused one; retrying this one does no harm.
            _ if self.sockets.refusals() != refusals => ConnectError::NoDescriptor,
            error => {
                let message = format!("{host} could not be looked up: {error}");
                FetchError::new(ErrorKind::DnsFailed, message).into()
            }
        };
        let resolver = if let Some(resolver) = self.resolver.get() {
            resolver
        } else {
            // Not stored on failure: the next look-up tries again.
            let started = self.start_resolver().map_err(|error| failed(&error))?;
            self.resolver.get_or_init(|| started)
        };
        // Built from raw labels: hosts with `_` or a leading `-` exist, and hickory does not parse
        // them from text. The name is absolute, so the search list of the machine is not used.
        let labels = host.trim_end_matches('.').split('.');
        let name = Name::from_labels(labels.map(str::as_bytes));
        let name = name.map_err(|_| no_host())?;
        let lookup = async {
            match resolver.lookup_ip(name.clone()).await {
                // AAAA only after a definite "no records": its answer must not hide a failure of
                // the first query.
                Err(error) if error.is_no_records_found() => {
                    let answer = resolver.lookup(name, RecordType::AAAA).await;
                    answer.map(LookupIp::from)
                }
                answer => answer,
            }
        };
        let answer = timeout(self.time_limit, lookup).await;
        let answer = answer.unwrap_or(Err(NetError::Timeout));
        Ok(answer.map_err(|error| failed(&error))?.iter().collect())
    }

    fn start_resolver(&self) -> Result<Resolver<NameSockets>, NetError> {
        let sockets = self.sockets.clone();
        let builder = if self.servers.is_empty() {
            Resolver::builder(sockets)?
        } else {
            let servers = self.servers.iter().map(|server| {
                let transports = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
                let transports = transports.into_iter().map(|mut transport| {
                    transport.port = server.port();
                    transport
                });
                NameServerConfig::new(server.ip(), true, transports.collect())
            });
            let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
            Resolver::builder_with_config(config, sockets)
        };
        builder.with_options(self.options.clone()).build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_with_tls_serve_https_and_others_serve_what_is_left() {
        let rule = |host: &str, port: u16, tls: bool| ResolveRule {
            host: host.to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            tls,
        };
        let names = Names::new(&FetchSettings {
            resolve: vec![
                rule("both.example", 1, true),
                rule("only-tls.example", 2, true),
                rule("*.example", 3, false),
            ],
            ..FetchSettings::default()
        });
        let found = |url: &str| {
            let mapped = names.mapped(&url.parse().unwrap());
            mapped.map(|mapped| (mapped.address.port(), mapped.tls))
        };
        assert_eq!(found("https://both.example/"), Some((1, true)));
        assert_eq!(found("http://both.example/"), Some((3, false)));
        assert_eq!(found("https://only-tls.example/"), Some((2, true)));
        assert_eq!(found("https://plain.example:444/x"), Some((3, false)));
        assert_eq!(found("http://WWW.Plain.Example./"), Some((3, false)));
        assert_eq!(found("http://example/"), None);
        assert_eq!(found("http://example.org/"), None);
    }
}
