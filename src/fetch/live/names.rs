//! From names to addresses: by the settings, else by DNS.
//!
//! Answers of name servers are kept as long as they say, at most a day, and only so many of
//! them. The addresses returned are the ones connected to: nobody looks a name up again
//! between checking its address and using it.

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

/// Who says "no such host" may be wrong for a moment: a new domain should not be dead for a
/// day.
const LONGEST_NO: Duration = Duration::from_mins(5);

const LONGEST_YES: Duration = Duration::from_hours(24);

/// Looks names up.
pub(super) struct Names {
    rules: Vec<ResolveRule>,
    servers: Vec<SocketAddr>,
    options: ResolverOpts,
    /// All tries together.
    longest: Duration,
    /// Made when it is first needed: a web of mapped hosts works without any name server.
    resolver: OnceLock<Resolver<NameSockets>>,
    sockets: NameSockets,
}

/// An address that the settings give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) address: SocketAddr,
    pub(super) tls: bool,
}

/// Why there is no way to a host.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// It was not even tried: we may not open anything more for now.
    NoDescriptor,
    Failed(FetchError),
}

// === impl ConnectError ===

impl ConnectError {
    /// Whether this is what the system says when too many files are open, ours or everybody's.
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
        // One address for each name keeps per-address politeness simple; hosts that only
        // speak IPv6 are few, and are asked for afterwards.
        options.ip_strategy = LookupIpStrategy::Ipv4Only;
        options.cache_size = settings.dns_cache as u64;
        options.positive_max_ttl = Some(LONGEST_YES);
        options.negative_max_ttl = Some(LONGEST_NO);
        options.timeout = settings.limits.connect / 2;
        Self {
            rules: settings.resolve.clone(),
            servers: settings.dns_servers.clone(),
            options,
            longest: settings.limits.connect,
            resolver: OnceLock::new(),
            sockets: NameSockets::default(),
        }
    }

    /// The address that the settings give for a page. A rule with TLS serves only https; one
    /// without serves https too where none with TLS does, so that a plain server can stand
    /// for a web of encrypted ones.
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
            // Perhaps it was another question that was refused; to ask again does no harm.
            _ if self.sockets.refusals() != refusals => ConnectError::NoDescriptor,
            error => {
                let message = format!("{host} could not be looked up: {error}");
                FetchError::new(ErrorKind::DnsFailed, message).into()
            }
        };
        let resolver = if let Some(resolver) = self.resolver.get() {
            resolver
        } else {
            // One that cannot start now may do so later.
            let started = self.start_resolver().map_err(|error| failed(&error))?;
            self.resolver.get_or_init(|| started)
        };
        // Made of labels as they are: hosts with `_` or a `-` in front exist, and hickory
        // refuses them as text. It is a whole name, so the search list of the machine stays
        // out of it.
        let labels = host.trim_end_matches('.').split('.');
        let name = Name::from_labels(labels.map(str::as_bytes));
        let name = name.map_err(|_| no_host())?;
        let asking = async {
            match resolver.lookup_ip(name.clone()).await {
                // Only who says that there is none is asked for the other family: its "no"
                // must not hide a failure.
                Err(error) if error.is_no_records_found() => {
                    let answer = resolver.lookup(name, RecordType::AAAA).await;
                    answer.map(LookupIp::from)
                }
                answer => answer,
            }
        };
        let answer = timeout(self.longest, asking).await;
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
