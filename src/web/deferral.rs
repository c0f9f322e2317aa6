//! Why a visit is deferred, and whether that counts against the site.
//!
//! Invariant: local failures never count against a site, however often they happen.

/// Why a visit is deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeferralCause {
    /// The site's `Crawl-delay` is longer than a visit waits.
    CrawlDelay,
    /// The site sent `Retry-After`, or was busy repeatedly.
    Busy,
    /// The site's robots.txt is unavailable for now (RFC 9309, section 2.3.1.4).
    RobotsUnavailable,
    /// Too many requests to the same IP address are waiting.
    CrowdedAddress,
    /// A gatekeeper answered the request for robots.txt.
    Challenged,
    /// A local failure; nothing is wrong with the site.
    OwnTrouble(Trouble),
}

/// A local failure: on our side, not the site's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trouble {
    /// The configured proxy cannot be reached, or refuses us.
    Proxy,
    /// The system is out of ports or buffers.
    Sockets,
    /// Visit after visit gets no response: the network or the name server is down.
    Network,
    /// Certificate after certificate is not yet or no longer valid: the clock is wrong.
    Clock,
}

// === impl DeferralCause ===

impl DeferralCause {
    /// Whether the deferral counts towards `max_deferrals` of the site.
    #[must_use]
    pub(crate) fn counts_against_site(self) -> bool {
        match self {
            Self::CrawlDelay | Self::Busy | Self::RobotsUnavailable | Self::Challenged => true,
            Self::CrowdedAddress | Self::OwnTrouble(_) => false,
        }
    }

    /// The local failure, if that is the cause.
    #[must_use]
    pub(crate) fn own_trouble(self) -> Option<Trouble> {
        match self {
            Self::OwnTrouble(trouble) => Some(trouble),
            _ => None,
        }
    }
}

// === impl Trouble ===

impl Trouble {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Proxy, Self::Sockets, Self::Network, Self::Clock];

    /// The name in metrics and in the API.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Proxy => "proxy",
            Self::Sockets => "sockets",
            Self::Network => "network",
            Self::Clock => "clock",
        }
    }

    /// What is wrong, and what to do about it.
    #[must_use]
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Proxy => {
                "the proxy cannot be reached or refuses us: check `proxy` in [fetch] and the proxy"
            }
            Self::Sockets => {
                "the system has no ports or buffers left: check its limits and what else runs"
            }
            Self::Network => {
                "no site can be reached: check the network and the name server of this machine"
            }
            Self::Clock => {
                "many certificates in a row are not valid at the time of this machine: check \
                 its clock"
            }
        }
    }
}
