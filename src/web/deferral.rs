//! Why a visit is put off, and whether the site is to blame for it.
//!
//! Invariant: what is our own trouble counts against no site, however often it happens.

/// Why a site is to be visited later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeferralCause {
    /// Its `Crawl-delay` is longer than a visit waits.
    CrawlDelay,
    /// It said so by `Retry-After`, or was busy again and again.
    Busy,
    /// Its robots.txt cannot be had for now (RFC 9309, section 2.3.1.4).
    RobotsUnavailable,
    /// Others at the same address are waiting, too many of them.
    CrowdedAddress,
    /// A gatekeeper answered instead of its robots.txt.
    Challenged,
    /// Nothing is wrong with the site.
    OwnTrouble(Trouble),
}

/// What is wrong on our side of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trouble {
    /// The proxy of the settings cannot be reached, or does not let us through.
    Proxy,
    /// The system is out of ports or buffers.
    Sockets,
    /// Visit after visit reaches nobody: the network or the name server is gone.
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

    /// What is wrong with us, if that is the cause.
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
    /// All kinds.
    pub(crate) const ALL: [Self; 4] = [Self::Proxy, Self::Sockets, Self::Network, Self::Clock];

    /// The label in figures and in the API.
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
                "nobody can be reached: check the network and the name server of this machine"
            }
            Self::Clock => {
                "certificate after certificate is not valid at the time of this machine: check \
                 its clock"
            }
        }
    }
}
