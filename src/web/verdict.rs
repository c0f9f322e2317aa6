//! What is decided about a site.

use std::fmt;
use std::time::SystemTime;

use strum::{EnumDiscriminants, EnumString, IntoStaticStr, VariantArray};

use super::DeferralCause;

/// The judgement on a site.
///
/// Measurements count undecided sites as not relevant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A site of the topic.
    Relevant,
    /// A site of something else.
    Irrelevant,
    /// Nothing can be said about it, for this reason.
    Undecided(UndecidedReason),
}

/// Why nothing can be said about a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumDiscriminants)]
#[strum_discriminants(name(UndecidedKind))]
#[strum_discriminants(doc = "Why nothing can be said about a site, without details.")]
#[strum_discriminants(derive(Hash, VariantArray, IntoStaticStr, EnumString))]
#[strum_discriminants(strum(serialize_all = "snake_case"))]
pub enum UndecidedReason {
    /// Nobody answered.
    Unreachable,
    /// The server answers, but with nothing but errors.
    Failing,
    /// Pages were read, but none had enough known words to say anything.
    NothingSpoke,
    /// The site only leads to another one, which stands in the report.
    Alias,
    /// The homepage says that the domain is parked or for sale.
    Parked,
    /// Its certificate is expired, of another name, or signed by nobody we trust.
    BadCertificate,
    /// Robots are asked to stay away.
    Disallowed,
    /// The visit is put off until then.
    Deferred {
        /// Before this time it must not be visited.
        not_before: SystemTime,
        /// Who or what asked for it.
        cause: DeferralCause,
    },
    /// The operator has blocked the host.
    Blocked,
    /// The process has died under it again and again, so it is not visited any more.
    Poison,
    /// As many sites at its address were judged as are allowed.
    AddressFull,
    /// The visit was broken off before its end; the site is to be visited anew.
    Interrupted,
    /// A gatekeeper stands before the site and lets no robot in.
    Challenged,
    /// Its homepage asks not to be indexed.
    Noindex,
}

impl Verdict {
    /// The word for lists and JSON: the contract is these three.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Relevant => "relevant",
            Self::Irrelevant => "irrelevant",
            Self::Undecided(_) => "undecided",
        }
    }

    /// Whether the site is one of the topic.
    #[must_use]
    pub fn is_relevant(self) -> bool {
        self == Self::Relevant
    }

    /// Why nothing was decided, if so.
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
