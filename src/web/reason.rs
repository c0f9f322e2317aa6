//! Why: one closed list of reasons for each question about a visit, and one name for each reason.
//!
//! Invariant: a name is spelled with underscores wherever it leaves the program: in figures, in
//! the API, in lists and in stores. Where names are read, hyphens count as underscores, because
//! older stores and dumps hold them.

use std::fmt;
use std::str::FromStr;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};
use thiserror::Error;

use super::PageUrl;

/// Why there was no answer to a request. The names are labels of `pages_fetched_total{outcome}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum NoAnswer {
    /// There is no such host.
    NoHost,
    /// No name server could say whether there is one.
    DnsFailed,
    /// Nobody listens there, or the network does not lead there.
    Unreachable,
    /// The connection did not stand in time.
    ConnectTimeout,
    /// TLS could not be agreed on. Not: a bad certificate.
    TlsFailed,
    /// The certificate is of another name, or of an untrusted issuer.
    BadCertificate,
    /// The certificate is not yet or no longer valid. Many of them in a row say that our clock is
    /// wrong.
    ExpiredCertificate,
    /// The address is private, local or reserved.
    ForbiddenAddress,
    /// The port is not among those that may be connected to.
    ForbiddenPort,
    /// The settings name no contact, so the live web is refused.
    NoContact,
    /// The operator has blocked the host.
    Blocked,
    /// robots.txt asks not to read the page.
    Disallowed,
    /// The site is to be visited later.
    Deferred,
    /// The answer did not begin, or did not go on, or did not end in time.
    Timeout,
    /// The answer came so slowly that it was given up.
    TooSlow,
    /// The connection broke before there was anything to read.
    Broken,
    /// What came is no HTTP, or has too many headers.
    Malformed,
    /// The archive holds the page, but it cannot be read.
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
    /// The site confidence passed its threshold, and no links were wanted.
    Confident,
    /// After the verdict, enough links were found (`LinkRank`, paper 4.3.4).
    LinksFound,
    /// There was no further page to ask for.
    Exhausted,
    /// The page budget was spent.
    BudgetSpent,
    /// Nobody answered.
    Unreachable,
    /// The site leads to another one.
    Alias,
    /// The homepage is a placeholder.
    Parked,
    /// Its certificate is expired, of another name, or of an untrusted issuer.
    BadCertificate,
    /// Request after request failed.
    GivenUp,
    /// Robots are asked to stay away.
    Disallowed,
    /// The visit is put off.
    Deferred,
    /// The operator has blocked the host, so nothing was asked for.
    Blocked,
    /// Processes died under it again and again, so nothing was asked for.
    Poison,
    /// As many sites at its address were judged as are allowed.
    AddressFull,
    /// The visit was broken off from outside.
    Interrupted,
    /// A gatekeeper answered instead of the site.
    Challenged,
    /// The homepage asks not to be indexed.
    Noindex,
}

/// What came of a request for a page.
#[derive(Debug, Clone, PartialEq, IntoStaticStr, Serialize, Deserialize)]
#[strum(serialize_all = "snake_case")]
#[serde(into = "String", try_from = "String")]
pub enum StepOutcome {
    /// The page spoke: it is evidence.
    Spoke,
    /// Too few known words to say anything.
    Mute,
    /// It repeats a page that spoke already.
    NearDuplicate,
    /// It is no page at all, whatever its status says: parked, not found, an empty shell,
    /// or neither HTML nor text.
    NoPage,
    /// It leads elsewhere.
    Redirect(PageUrl),
    /// Robots are asked not to read it, so it was not asked for.
    Disallowed,
    /// The server answered with an error.
    Failed(StatusCode),
    /// There was no answer.
    Unanswered(NoAnswer),
    /// A gatekeeper answered with a page of its own.
    Challenged,
}

/// A text that is not the name of any reason.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{}` is no reason that is known here", .0.escape_debug())]
pub struct UnknownReason(pub(crate) String);

/// Reads the name of a reason, in the spelling of today or in that of older stores and dumps.
pub(crate) fn parse_name<R: FromStr>(text: &str) -> Result<R, UnknownReason> {
    let name = text.replace('-', "_");
    name.parse().map_err(|_| UnknownReason(text.to_owned()))
}

// === impl NoAnswer ===

impl NoAnswer {
    /// All of them.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The name in figures, lists and JSON.
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

/// What stands between an outcome and its details.
const REDIRECT: &str = "redirect to ";
const FAILED: &str = "failed, ";
const UNANSWERED: &str = "unanswered, ";

/// Ends a text that older stores have cut.
const CUT: char = '…';

impl StepOutcome {
    /// The name in lists and JSON, without the details.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

/// With its details: `redirect to URL`, `failed, 404`, `unanswered, timeout`. [`FromStr`] reads it
/// back.
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
        Ok(match text.replace('-', "_").as_str() {
            "spoke" => Self::Spoke,
            "mute" => Self::Mute,
            "near_duplicate" => Self::NearDuplicate,
            "no_page" => Self::NoPage,
            "disallowed" => Self::Disallowed,
            "challenged" => Self::Challenged,
            _ => return Err(unknown()),
        })
    }
}

/// Of an address that was cut only the site is certain.
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
            "`full moon\\n` is no reason that is known here"
        );
    }

    #[test]
    fn outcomes_are_read_back_with_their_details() {
        let page: PageUrl = "https://a.example/one-two?three=four, five"
            .parse()
            .unwrap();
        let mut outcomes = vec![
            StepOutcome::Spoke,
            StepOutcome::Mute,
            StepOutcome::NearDuplicate,
            StepOutcome::NoPage,
            StepOutcome::Redirect(page),
            StepOutcome::Disallowed,
            StepOutcome::Failed(StatusCode::NOT_FOUND),
            StepOutcome::Challenged,
        ];
        outcomes.extend(NoAnswer::ALL.iter().copied().map(StepOutcome::Unanswered));
        for outcome in outcomes {
            assert_eq!(outcome.to_string().parse(), Ok(outcome));
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
            "failed, 99",
            "failed, x",
            "unanswered, ",
            "redirect to x",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
