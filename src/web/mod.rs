//! The nouns of the web we crawl (not a web server).
//!
//! Other modules exchange values of these types, so that they need not depend on each other.
//!
//! | noun | what it is | file |
//! |---|---|---|
//! | [`SiteId`] | one site: a host, `www.` folded away, a port if unusual | `site.rs` |
//! | [`PageUrl`], [`PageKey`] | one page in canonical form, and what makes two spellings one page | `url.rs` |
//! | [`IntrinsicLink`], [`TransversalLink`] | a link inside the site, a link to another site | `link.rs` |
//! | [`FetchedPage`], [`ParsedPage`] | a response, and what was parsed from it | `page.rs` |
//! | [`PageText`], [`PagePart`] | the words of a page, each with its part of the page | `text.rs` |
//! | [`Language`] | the language of a page | `language.rs` |
//! | [`Fingerprint`] | near-duplicates have near fingerprints | `fingerprint.rs` |
//! | [`PageTerms`] | what the classifier sees of a page | `terms.rs` |
//! | [`PageConfidence`], [`SiteConfidence`] | how sure we are | `confidence.rs` |
//! | [`StopReason`], [`StepOutcome`], [`NoAnswer`] | why reading ended, the outcome of a request, why a request got no response | `reason.rs` |
//! | [`Verdict`] | relevant, irrelevant, or undecided and why | `verdict.rs` |
//! | [`DeferralCause`], [`Trouble`] | why a visit is deferred, and which local failure caused it | `deferral.rs` |
//! | [`SiteVisit`], [`SiteReport`] | what enters an internal crawler, what leaves it | `visit.rs` |
//! | [`Entrances`] | the spellings of a site's entry page | `entrances.rs` |
//! | [`Platforms`] | domains below which each name has another owner | `platforms.rs` |
//! | [`challenge`] | bot-protection pages, and how they are recognised | `challenge.rs` |
//! | [`ModelFingerprint`] | the hash of the model that judged | `fingerprint.rs` |
//! | [`shared_address`] | which IP addresses count as one | `address.rs` |
//!
//! Invariant: no I/O, no framework, no other module of the crate.

mod address;
pub mod challenge;
mod confidence;
mod deferral;
mod entrances;
mod fingerprint;
mod language;
mod link;
mod page;
mod parameters;
mod platforms;
mod reason;
mod sanitized;
mod site;
mod terms;
mod text;
mod url;
mod verdict;
mod visit;

pub(crate) use address::shared_address;
pub use confidence::{PageConfidence, SiteConfidence};
pub use deferral::{DeferralCause, Trouble};
pub(crate) use entrances::Entrances;
pub(crate) use fingerprint::Fingerprint;
pub use fingerprint::ModelFingerprint;
pub use language::Language;
pub use link::LinkKind;
pub(crate) use link::{IntrinsicLink, TransversalLink};
pub use page::{ContentKind, FetchedPage, ParsedPage, Transfer};
pub(crate) use page::{RobotsDirectives, Signs, looks_binary};
pub use platforms::Platforms;
pub use reason::{NoAnswer, StepOutcome, StopReason};
pub(crate) use reason::{UnknownReason, parse_name};
pub(crate) use sanitized::{Sanitized, sanitized_json};
pub use site::SiteId;
pub(crate) use terms::PartCounts;
pub use terms::{PageTerms, TermNumber, TermNumbers};
pub use text::PagePart;
pub(crate) use text::PageText;
pub(crate) use url::{CANONICAL_FORM, PageKey, UrlError};
pub use url::{PageUrl, Scheme};
pub(crate) use verdict::UndecidedKind;
pub use verdict::{UndecidedReason, Verdict};
pub use visit::{
    EvidenceRule, PageKind, PageStep, Purpose, SiteReport, SiteVisit, TellingWord, TellingWords,
};
pub(crate) use visit::{FoundLink, VisitCost};
