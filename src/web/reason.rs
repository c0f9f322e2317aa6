//! Closed lists of reasons: why a visit stopped, the outcome of a request, why it got no response.
//!
//! Invariant: names are written with underscores everywhere: in metrics, in the API, in lists and in
//! stores. When names are parsed, hyphens count as underscores, because older stores and dumps hold
//! them.

use std::fmt;
use std::str::FromStr;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use strum::{EnumDiscriminants, EnumString, IntoStaticStr, VariantArray};
use thiserror::Error;

use super::PageUrl;

/// Why a request got no response. The names are labels of `pages_fetched_total{outcome}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum NoAnswer {
    /// The host does not exist in DNS.
    NoHost,
    /// Name resolution failed, so the host may or may not exist.
    DnsFailed,
    /// The connection was refused, or there is no route to the address.
    Unreachable,
    /// The connection was not established in time.
    ConnectTimeout,
    /// The TLS handshake failed for another reason than the certificate.
    TlsFailed,
    /// The certificate is for another name, or from an untrusted issuer.
    BadCertificate,
    /// The certificate is not yet or no longer valid. Many of them in a row mean that our clock is
    /// wrong.
    ExpiredCertificate,
    /// The address is private, local or reserved.
    ForbiddenAddress,
    /// The port is not among the allowed ones.
    ForbiddenPort,
    /// No contact is configured, so the live web is not crawled.
    NoContact,
    /// The operator has blocked the host.
    Blocked,
    /// robots.txt disallows the page.
    Disallowed,
    /// The site is to be visited later.
    Deferred,
    /// The response did not begin, stalled, or did not end in time.
    Timeout,
    /// The response was aborted because it came too slowly.
    TooSlow,
    /// The connection broke before any of the body arrived.
    Broken,
    /// The response is not HTTP, or has too many headers.
    Malformed,
    /// The archive has a record of the page, but it is unreadable.
    Archive,
}

/// Why an internal crawler stopped reading.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    VariantArray,
    IntoStaticStr,
    EnumString,
    Serialize,
    Deserialize,
)]
#[strum(serialize_all = "snake_case")]
#[serde(into = "&'static str", try_from = "String")]
pub enum StopReason {
    /// The site confidence passed its threshold, and the visit was not to collect links.
    Confident,
    /// After the verdict, enough links were found (`LinkRank`, paper 4.3.4).
    LinksFound,
    /// There was no further page to request.
    Exhausted,
    /// The page budget was spent.
    BudgetSpent,
    /// No request got a response.
    Unreachable,
    /// The site redirects to another one.
    Alias,
    /// The homepage is a placeholder.
    Parked,
    /// Its certificate is expired, for another name, or from an untrusted issuer.
    BadCertificate,
    /// Too many requests in a row failed.
    GivenUp,
    /// robots.txt disallows the entrance.
    Disallowed,
    /// The visit is deferred.
    Deferred,
    /// The operator has blocked the host, so nothing was requested.
    Blocked,
    /// The process crashed repeatedly while visiting it, so nothing was requested.
    Poison,
    /// The maximum number of sites at its IP address has been judged.
    AddressFull,
    /// The visit was cancelled.
    Interrupted,
    /// A gatekeeper answered instead of the site.
    Challenged,
    /// The homepage has `noindex`.
    Noindex,
}

/// The outcome of a request for a page.
#[derive(Debug, Clone, PartialEq, EnumDiscriminants, Serialize, Deserialize)]
#[strum_discriminants(name(OutcomeKind), vis(pub(self)))]
#[strum_discriminants(doc = "The outcome of a request, without details.")]
#[strum_discriminants(derive(VariantArray, IntoStaticStr, EnumString))]
#[strum_discriminants(strum(serialize_all = "snake_case"))]
#[serde(into = "String", try_from = "String")]
pub enum StepOutcome {
    /// The page spoke: it had enough known words to be evidence.
    Spoke,
    /// Too few known words to be evidence.
    Mute,
    /// A near-duplicate of a page that spoke already.
    NearDuplicate,
    /// Not a page, whatever its status says: parked, not found, an empty shell, or neither HTML
    /// nor text.
    NoPage,
    /// A redirect to this page.
    Redirect(PageUrl),
    /// Disallowed by robots.txt, so it was not requested.
    Disallowed,
    /// The server answered with an error.
    Failed(StatusCode),
    /// There was no response.
    Unanswered(NoAnswer),
    /// A gatekeeper answered with a page of its own.
    Challenged,
}

/// A text that is not the name of a reason.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{}` is not a known reason", .0.escape_debug())]
pub struct UnknownReason(pub(crate) String);

/// Parses the name of a reason, in today's spelling or in that of older stores and dumps.
pub(crate) fn parse_name<R: FromStr>(text: &str) -> Result<R, UnknownReason> {
    let name = text.replace('-', "_");
    name.parse().map_err(|_| UnknownReason(text.to_owned()))
}

// === impl NoAnswer ===

impl NoAnswer {
    /// All of them.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The name in metrics, lists and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

// === impl StopReason ===

impl StopReason {
    /// The name in lists and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl TryFrom<String> for StopReason {
    type Error = UnknownReason;

    fn try_from(name: String) -> Result<Self, UnknownReason> {
        parse_name(&name)
    }
}

// === impl StepOutcome ===

// What precedes the details of an outcome.
const REDIRECT: &str = "redirect to ";
const FAILED: &str = "failed, ";
const UNANSWERED: &str = "unanswered, ";

/// The end of a text that older stores truncated.
const CUT: char = '…';

impl StepOutcome {
    /// The name in lists and JSON, without the details.
    #[must_use]
    pub fn name(&self) -> &'static str {
        OutcomeKind::from(self).into()
    }
}

/// With its details: `redirect to URL`, `failed, 404`, `unanswered, timeout`. [`FromStr`] parses it.
impl fmt::Display for StepOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redirect(target) => write!(f, "{REDIRECT}{target}"),
            Self::Failed(status) => write!(f, "{FAILED}{}", status.as_u16()),
            Self::Unanswered(why) => write!(f, "{UNANSWERED}{}", why.name()),
            other => f.write_str(other.name()),
        }
    }
}

impl From<StepOutcome> for String {
    fn from(outcome: StepOutcome) -> Self {
        outcome.to_string()
    }
}

impl TryFrom<String> for StepOutcome {
    type Error = UnknownReason;

    fn try_from(text: String) -> Result<Self, UnknownReason> {
        text.parse()
    }
}

impl FromStr for StepOutcome {
    type Err = UnknownReason;

    fn from_str(text: &str) -> Result<Self, UnknownReason> {
        let unknown = || UnknownReason(text.to_owned());
        if let Some(target) = text.strip_prefix(REDIRECT) {
            return redirect(target).ok_or_else(unknown);
        }
        if let Some(status) = text.strip_prefix(FAILED) {
            let status = StatusCode::from_str(status);
            return status.map(Self::Failed).map_err(|_| unknown());
        }
        if let Some(why) = text.strip_prefix(UNANSWERED) {
            return parse_name(why).map(Self::Unanswered);
        }
        match parse_name(text)? {
            OutcomeKind::Spoke => Ok(Self::Spoke),
            OutcomeKind::Mute => Ok(Self::Mute),
            OutcomeKind::NearDuplicate => Ok(Self::NearDuplicate),
            OutcomeKind::NoPage => Ok(Self::NoPage),
            OutcomeKind::Disallowed => Ok(Self::Disallowed),
            OutcomeKind::Challenged => Ok(Self::Challenged),
            // Their details are missing.
            OutcomeKind::Redirect | OutcomeKind::Failed | OutcomeKind::Unanswered => Err(unknown()),
        }
    }
}

/// Of a truncated URL only the site is certain.
fn redirect(target: &str) -> Option<StepOutcome> {
    let page: PageUrl = match target.strip_suffix(CUT) {
        Some(cut) => cut.parse::<PageUrl>().ok()?.front_door(),
        None => target.parse().ok()?,
    };
    Some(StepOutcome::Redirect(page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_read_back_in_both_spellings() {
        for reason in NoAnswer::ALL {
            let name = reason.name();
            assert_eq!(parse_name(name), Ok(*reason));
            assert_eq!(parse_name(&name.replace('_', "-")), Ok(*reason));
            assert!(!name.contains('-'), "{name}");
        }
        for reason in StopReason::VARIANTS {
            let name = reason.name();
            assert_eq!(parse_name(name), Ok(*reason));
            assert_eq!(parse_name(&name.replace('_', "-")), Ok(*reason));
            assert!(!name.contains('-'), "{name}");
        }
        let unknown: Result<StopReason, _> = parse_name("full moon\n");
        assert_eq!(
            unknown.unwrap_err().to_string(),
            "`full moon\\n` is not a known reason"
        );
    }

    #[test]
    fn outcomes_are_read_back_with_their_details() {
        let page: PageUrl = "https://a.example/one-two?three=four, five"
            .parse()
            .unwrap();
        for kind in OutcomeKind::VARIANTS {
            let outcomes = match kind {
                OutcomeKind::Spoke => vec![StepOutcome::Spoke],
                OutcomeKind::Mute => vec![StepOutcome::Mute],
                OutcomeKind::NearDuplicate => vec![StepOutcome::NearDuplicate],
                OutcomeKind::NoPage => vec![StepOutcome::NoPage],
                OutcomeKind::Redirect => vec![StepOutcome::Redirect(page.clone())],
                OutcomeKind::Disallowed => vec![StepOutcome::Disallowed],
                OutcomeKind::Failed => vec![StepOutcome::Failed(StatusCode::NOT_FOUND)],
                OutcomeKind::Unanswered => {
                    let reasons = NoAnswer::ALL.iter().copied();
                    reasons.map(StepOutcome::Unanswered).collect()
                }
                OutcomeKind::Challenged => vec![StepOutcome::Challenged],
            };
            for outcome in outcomes {
                assert_eq!(OutcomeKind::from(&outcome), *kind);
                assert_eq!(outcome.to_string().parse(), Ok(outcome));
            }
        }
    }

    #[test]
    fn outcomes_of_older_stores_are_read() {
        let read = |text: &str| text.parse::<StepOutcome>();
        assert_eq!(read("near-duplicate"), Ok(StepOutcome::NearDuplicate));
        assert_eq!(read("no-page"), Ok(StepOutcome::NoPage));
        assert_eq!(
            read("unanswered, connect_timeout"),
            Ok(StepOutcome::Unanswered(NoAnswer::ConnectTimeout))
        );
        let site = "https://a.example/".parse().unwrap();
        assert_eq!(
            read("redirect to https://a.example/xxxxx…"),
            Ok(StepOutcome::Redirect(site))
        );
        for wrong in [
            "",
            "spoken",
            "failed",
            "failed, 99",
            "failed, x",
            "unanswered",
            "unanswered, ",
            "redirect",
            "redirect to x",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
