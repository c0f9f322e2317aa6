//! The feed of a topic: the changes of its list.
//!
//! It holds, for each site that was ever on the list, the last change, under a number of the sequence.
//! A client that has read up to a number misses nothing by continuing from there, at any later time: a
//! site that changes again gets a higher number.

use std::str::FromStr;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use strum::{EnumDiscriminants, EnumString, IntoStaticStr, VariantArray};

use crate::web::{UndecidedKind, UnknownReason, parse_name};

use super::{Decision, JudgedSite};

/// A change of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedEntry {
    /// Its number.
    pub seq: u64,
    /// What has changed.
    pub change: ListChange,
    /// Why.
    pub reason: ChangeReason,
    /// When.
    pub(crate) at: SystemTime,
    /// The site and its verdict.
    pub judged: JudgedSite,
    /// The decision of an editor, if there is one.
    pub(crate) decision: Option<Decision>,
}

/// What happened to a site on a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListChange {
    /// It is on the list.
    #[serde(alias = "Added")]
    Added,
    /// It still is; something about it is new.
    #[serde(alias = "Changed")]
    Changed,
    /// It is no longer on the list.
    #[serde(alias = "Dropped")]
    Dropped,
    /// It is no longer on the list because it redirects to another site.
    #[serde(alias = "Alias")]
    Alias,
}

/// Why a list has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumDiscriminants, Serialize, Deserialize)]
#[strum_discriminants(name(ReasonKind), vis(pub(self)))]
#[strum_discriminants(doc = "Why a list has changed, without details.")]
#[strum_discriminants(derive(VariantArray, IntoStaticStr, EnumString))]
#[strum_discriminants(strum(serialize_all = "snake_case"))]
#[serde(into = "&'static str", try_from = "String")]
pub enum ChangeReason {
    /// The operator has blocked the host.
    Blocked,
    /// The operator has unblocked the host.
    Unblocked,
    /// An editor has accepted the site.
    Accepted,
    /// An editor has rejected it.
    Rejected,
    /// An editor has withdrawn a decision.
    Withdrawn,
    /// It was judged relevant.
    Judged,
    /// It was judged relevant once more.
    JudgedAgain,
    /// It was judged irrelevant.
    Irrelevant,
    /// It was visited again and is undecided now.
    Undecided(UndecidedKind),
}

// === impl ListChange ===

impl ListChange {
    /// Its spelling in feeds.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Dropped => "dropped",
            Self::Alias => "alias",
        }
    }

    /// Whether the site is on the list after it.
    #[must_use]
    pub(crate) fn is_listed(self) -> bool {
        matches!(self, Self::Added | Self::Changed)
    }
}

// === impl ChangeReason ===

impl ChangeReason {
    /// Its spelling in feeds.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Undecided(kind) => kind.name(),
            plain => ReasonKind::from(plain).into(),
        }
    }
}

impl From<ChangeReason> for &'static str {
    fn from(reason: ChangeReason) -> Self {
        reason.name()
    }
}

impl TryFrom<String> for ChangeReason {
    type Error = UnknownReason;

    fn try_from(name: String) -> Result<Self, UnknownReason> {
        name.parse()
    }
}

impl FromStr for ChangeReason {
    type Err = UnknownReason;

    /// `blocked` is the operator's block, not the undecided kind: a crawl does not visit blocked hosts.
    fn from_str(text: &str) -> Result<Self, UnknownReason> {
        match parse_name(text) {
            Ok(ReasonKind::Blocked) => Ok(Self::Blocked),
            Ok(ReasonKind::Unblocked) => Ok(Self::Unblocked),
            Ok(ReasonKind::Accepted) => Ok(Self::Accepted),
            Ok(ReasonKind::Rejected) => Ok(Self::Rejected),
            Ok(ReasonKind::Withdrawn) => Ok(Self::Withdrawn),
            Ok(ReasonKind::Judged) => Ok(Self::Judged),
            Ok(ReasonKind::JudgedAgain) => Ok(Self::JudgedAgain),
            Ok(ReasonKind::Irrelevant) => Ok(Self::Irrelevant),
            Ok(ReasonKind::Undecided) | Err(_) => parse_name(text).map(Self::Undecided),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_changes_are_read_back_in_both_spellings() {
        for kind in ReasonKind::VARIANTS {
            let reasons = match kind {
                ReasonKind::Undecided => {
                    let kinds = UndecidedKind::VARIANTS.iter().copied();
                    let kinds = kinds.filter(|kind| *kind != UndecidedKind::Blocked);
                    kinds.map(ChangeReason::Undecided).collect()
                }
                plain => {
                    let name: &str = plain.into();
                    vec![name.parse().expect("a reason without details")]
                }
            };
            for reason in reasons {
                assert_eq!(ReasonKind::from(reason), *kind);
                assert_eq!(reason.name().parse(), Ok(reason));
                assert_eq!(reason.name().replace('_', "-").parse(), Ok(reason));
            }
        }
        assert!("undecided".parse::<ChangeReason>().is_err());
        assert!("".parse::<ChangeReason>().is_err());
    }
}
