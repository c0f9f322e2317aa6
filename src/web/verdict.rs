//! The judgement on a site.

use std::fmt;
use std::time::SystemTime;

use strum::{EnumDiscriminants, EnumString, IntoStaticStr, VariantArray};

use super::DeferralCause;

/// The judgement on a site.
///
/// Evaluations count undecided sites as not relevant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// On the topic.
    Relevant,
    /// Not on the topic.
    Irrelevant,
    /// Could not be judged, for this reason.
    Undecided(UndecidedReason),
}

/// Why a site could not be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumDiscriminants)]
#[strum_discriminants(name(UndecidedKind))]
#[strum_discriminants(doc = "Why a site could not be judged, without details.")]
#[strum_discriminants(derive(Hash, VariantArray, IntoStaticStr, EnumString))]
#[strum_discriminants(strum(serialize_all = "snake_case"))]
pub enum UndecidedReason {
    /// No request got a response.
    Unreachable,
    /// The server answers with errors only.
    Failing,
    /// Pages were read, but none had enough known words to be evidence.
    NothingSpoke,
    /// The site only redirects to another one, which is in the report.
    Alias,
    /// The homepage says that the domain is parked or for sale.
    Parked,
    /// Its certificate is expired, for another name, or from an untrusted issuer.
    BadCertificate,
    /// robots.txt disallows the entrance.
    Disallowed,
    /// The visit is deferred.
    Deferred {
        /// The earliest time of the next visit.
        not_before: SystemTime,
        /// What caused the deferral.
        cause: DeferralCause,
    },
    /// The operator has blocked the host.
    Blocked,
    /// The process crashed repeatedly while visiting it, so it is no longer visited.
    Poison,
    /// The maximum number of sites at its IP address has been judged.
    AddressFull,
    /// The visit was cancelled; the site is to be visited again.
    Interrupted,
    /// A gatekeeper (bot protection) answered instead of the site.
    Challenged,
    /// Its homepage has `noindex`.
    Noindex,
}

impl Verdict {
    /// The name in lists and JSON: one of these three, by contract.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Relevant => "relevant",
            Self::Irrelevant => "irrelevant",
            Self::Undecided(_) => "undecided",
        }
    }

    /// Whether the site is on the topic.
    #[must_use]
    pub fn is_relevant(self) -> bool {
        self == Self::Relevant
    }

    /// The reason, if undecided.
    #[must_use]
    pub fn undecided_reason(self) -> Option<UndecidedReason> {
        match self {
            Self::Undecided(reason) => Some(reason),
            Self::Relevant | Self::Irrelevant => None,
        }
    }
}

impl UndecidedReason {
    /// The reason without its details.
    #[must_use]
    pub(crate) fn kind(self) -> UndecidedKind {
        self.into()
    }

    /// The name in lists and JSON.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        self.kind().name()
    }
}

impl UndecidedKind {
    /// The name in lists and JSON.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecided(reason) => write!(f, "undecided ({})", reason.name()),
            decided => f.write_str(decided.name()),
        }
    }
}
