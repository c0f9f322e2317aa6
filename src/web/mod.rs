//! The nouns of the web we crawl (not a web server).
//!
//! What passes a door between two rooms is made of these types, so that no room has to
//! know another one to talk to it.
//!
//! | noun | what it is | file |
//! |---|---|---|
//! | [`SiteId`] | one site: a host, `www.` folded away, a port if unusual | `site.rs` |
//! | [`PageUrl`], [`PageKey`] | one page in canonical form, and what makes two spellings one page | `url.rs` |
//! | [`IntrinsicLink`], [`TransversalLink`] | a link inside the site, a link to another site | `link.rs` |
//! | [`FetchedPage`], [`ParsedPage`] | a page as it came, a page as it was read | `page.rs` |
//! | [`PageText`], [`PagePart`] | the words of a page with the part each stood in | `text.rs` |
//! | [`Language`] | what the page is written in | `language.rs` |
//! | [`Fingerprint`] | near-duplicates have near fingerprints | `fingerprint.rs` |
//! | [`PageTerms`] | what the classifier sees of a page | `terms.rs` |
//! | [`PageConfidence`], [`SiteConfidence`] | how sure we are | `confidence.rs` |
//! | [`StopReason`], [`StepOutcome`], [`NoAnswer`] | why reading ended, what came of a request, why nobody answered | `reason.rs` |
//! | [`Verdict`] | relevant, irrelevant, or undecided and why | `verdict.rs` |
//! | [`DeferralCause`], [`Trouble`] | why a visit is put off, and what is our own fault | `deferral.rs` |
//! | [`SiteVisit`], [`SiteReport`] | what enters an internal crawler, what leaves it | `visit.rs` |
//! | [`Entrances`] | the ways into a site | `entrances.rs` |
//! | [`Platforms`] | where each name below a domain belongs to somebody else | `platforms.rs` |
//! | [`challenge`] | pages of gatekeepers before a site, and by what they are known | `challenge.rs` |
//! | [`ModelFingerprint`] | which model judged | `fingerprint.rs` |
//! | [`shared_address`] | what counts as one address | `address.rs` |
//!
//! Invariant: no input or output, no framework, no other room.

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
pub(crate) use terms::{PageTerms, PartCounts};
pub use text::PagePart;
pub(crate) use text::PageText;
pub(crate) use url::{CANONICAL_FORM, PageKey, UrlError};
pub use url::{PageUrl, Scheme};
pub(crate) use verdict::UndecidedKind;
pub use verdict::{UndecidedReason, Verdict};
pub(crate) use visit::{FoundLink, VisitCost};
pub use visit::{PageKind, PageStep, Purpose, SiteReport, SiteVisit, TellingWord, TellingWords};
