//! What readers and editors of the results are given: the list of each topic and its changes,
//! sites by what they are, and the decisions of people.
//!
//! Three may speak about a site, and the stronger wins: the operator, who blocks hosts; an
//! editor, who accepts or rejects a site; the machine, whose verdict is kept beside both.
//!
//! Promises, beyond those of [`CrawlStore`](super::CrawlStore):
//! - The feed of a topic holds, for each site that was ever on its list, the last change, under
//!   a number of the sequence. Whoever has read up to a number misses nothing by going on from
//!   there, for ever: a site that changes again gets a higher number.
//! - An edit is durable when it returns. A machine never undoes one.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::SystemTime;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::web::{PageUrl, SiteId, UndecidedKind, UnknownReason, parse_name};

use super::{
    CurvePoint, DumpLine, JudgedSite, Progress, SiteDetail, StoreError, TopicId, TopicTotals,
};

/// What readers ask of a store. They can take nothing and change nothing.
#[async_trait]
pub trait ReadStore: Send + Sync {
    /// All topics there are.
    async fn topics(&self) -> Result<Vec<(String, TopicId)>, StoreError>;

    /// How a topic stands.
    async fn totals(&self, topic: TopicId) -> Result<TopicTotals, StoreError>;

    /// How the crawl for a topic goes.
    async fn progress(&self, topic: TopicId) -> Result<Progress, StoreError>;

    /// Verdicts of a topic in the order of their numbers, those after `after`.
    async fn judged(
        &self,
        topic: TopicId,
        after: u64,
        most: usize,
    ) -> Result<Vec<JudgedSite>, StoreError>;

    /// Everything known about a site.
    async fn site(&self, topic: TopicId, site: &SiteId) -> Result<Option<SiteDetail>, StoreError>;

    /// Changes of a topic's list in the order of their numbers, those after `after`.
    async fn feed(
        &self,
        topic: TopicId,
        after: u64,
        most: usize,
    ) -> Result<Vec<FeedEntry>, StoreError>;

    /// How far the sequence and the lists have come.
    async fn heads(&self) -> Result<Heads, StoreError>;

    /// Waits until the list of a topic has a change after `after`.
    async fn wait_for_change(&self, topic: TopicId, after: u64) -> Result<(), StoreError>;

    /// Which store it is: another one after an import, so that a reader of a feed does not go on with
    /// numbers that mean something else.
    async fn identity(&self) -> Result<String, StoreError>;

    /// Judged sites that answer a description, a portion at a time.
    async fn find(&self, query: SiteQuery) -> Result<SiteBatch, StoreError>;

    /// Sites that no editor has decided on, those first whose decision would teach most, with
    /// how much that is, from 0 to 1.
    async fn queue(&self, topic: TopicId, most: usize)
    -> Result<Vec<(FoundSite, f64)>, StoreError>;

    /// Decisions of editors in the order of hosts, those after a host.
    async fn decisions(
        &self,
        topic: TopicId,
        after: Option<SiteId>,
        most: usize,
    ) -> Result<Vec<(SiteId, Decision)>, StoreError>;

    /// Hosts that were blocked by an edit, in order, those after a host.
    async fn blocks(
        &self,
        after: Option<SiteId>,
        most: usize,
    ) -> Result<Vec<(SiteId, Block)>, StoreError>;

    /// All of them.
    async fn all_blocks(&self) -> Result<BTreeSet<SiteId>, StoreError> {
        const PORTION: usize = 10_000;
        let mut all = BTreeSet::new();
        loop {
            let portion = self.blocks(all.last().cloned(), PORTION).await?;
            let is_last = portion.len() < PORTION;
            all.extend(portion.into_iter().map(|(site, _)| site));
            if is_last {
                return Ok(all);
            }
        }
    }

    /// The block of one host, if there is one.
    async fn block_of(&self, site: &SiteId) -> Result<Option<Block>, StoreError>;

    /// How often pauses and blocks have changed: a process that keeps a copy of them compares it.
    async fn steering(&self) -> Result<u64, StoreError>;

    /// Whether an edit has paused a topic.
    async fn is_paused(&self, topic: TopicId) -> Result<bool, StoreError>;

    /// How a crawl went, from its beginning on.
    async fn curve(&self, topic: TopicId) -> Result<Vec<CurvePoint>, StoreError>;
}

/// What editors and operators ask of a store.
#[async_trait]
pub trait EditStore: ReadStore {
    /// Takes start sites up; says how many of them were not known. The topic must be open.
    async fn add_starts(&self, topic: TopicId, starts: Vec<PageUrl>) -> Result<usize, StoreError>;

    /// Does what a person wants. Durable when it returns.
    async fn edit(&self, edit: Edit) -> Result<Edited, StoreError>;
}

/// Moving everything from one store to another.
#[async_trait]
pub trait DumpStore: Send + Sync {
    /// Every record, in an order in which they can be read again. What is written meanwhile may be
    /// seen in part.
    fn dump(&self) -> mpsc::Receiver<Result<DumpLine, StoreError>>;

    /// Adds records that another store has dumped. Durable when it returns.
    async fn load(&self, lines: Vec<DumpLine>) -> Result<(), StoreError>;
}

/// How far a store has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heads {
    /// The last number of the sequence that is durable.
    pub last_number: u64,
    /// The number of the last durable change of each list.
    pub lists: BTreeMap<TopicId, u64>,
}

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
    /// The site, and what the machine says about it.
    pub judged: JudgedSite,
    /// What an editor says about it.
    pub(crate) decision: Option<Decision>,
}

/// What became of a site on a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListChange {
    /// It is on the list.
    Added,
    /// It still is; something about it is new.
    Changed,
    /// It is no longer on the list.
    Dropped,
    /// It is no longer on the list because it leads to another site.
    Alias,
}

/// Why a list has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum ChangeReason {
    /// The operator has blocked the host.
    Blocked,
    /// The operator has let the host in again.
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
    /// It was visited again, and nothing can be said about it any more.
    Undecided(UndecidedKind),
}

/// What an editor thinks of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The decision.
    pub opinion: Opinion,
    /// Why, in the words of the editor.
    pub(crate) note: String,
    /// When.
    pub(crate) at: SystemTime,
    /// Its number in the sequence.
    pub(crate) seq: u64,
}

/// For or against a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opinion {
    /// It belongs on the list.
    Accept,
    /// It does not.
    Reject,
}

/// A host that is kept out of everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Why, in the words of the operator.
    pub note: String,
    /// Since when.
    pub(crate) at: SystemTime,
}

/// What a person wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Accept or reject a site, or withdraw what was decided.
    Decide {
        /// For which topic.
        topic: TopicId,
        /// The site; it must have a verdict.
        site: SiteId,
        /// The decision and its note; none withdraws.
        decision: Option<(Opinion, String)>,
    },
    /// Visit a site again, before all others.
    Recheck {
        /// For which topic.
        topic: TopicId,
        /// The site; it must have been visited.
        site: SiteId,
    },
    /// Keep a host out of visits and lists.
    Block {
        /// The host.
        site: SiteId,
        /// Why.
        note: String,
    },
    /// Let a host in again.
    Unblock {
        /// The host.
        site: SiteId,
    },
    /// Stop crawling for a topic until further notice, or go on.
    Pause {
        /// The topic.
        topic: TopicId,
        /// Whether to stop.
        is_paused: bool,
    },
}

/// What came of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// It is done; a decision has this number.
    Done {
        /// The number, if it is one that has one.
        seq: Option<u64>,
    },
    /// It was so already.
    Unchanged,
    /// Nobody has heard of the site.
    Unknown,
    /// The site was not visited yet.
    NotVisited,
}

/// Which judged sites are wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteQuery {
    /// Of one topic, or of all.
    pub topic: Option<TopicId>,
    /// With this verdict.
    pub verdict: Option<VerdictKind>,
    /// With this decision, or with none.
    pub decision: Option<Option<Opinion>>,
    /// With a confidence in this range.
    pub confidence: (f64, f64),
    /// Judged not before, and not after.
    pub judged: (Option<SystemTime>, Option<SystemTime>),
    /// Whose hosts begin so. The order is then that of hosts.
    pub host_prefix: Option<String>,
    /// In which order of the sequence.
    pub order: SortOrder,
    /// Where to go on.
    pub after: Option<SiteCursor>,
    /// So many at most.
    pub most: usize,
}

/// A verdict without its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictKind {
    /// Sites of the topic.
    Relevant,
    /// Sites of something else.
    Irrelevant,
    /// Nothing can be said about them.
    Undecided,
}

/// In which order verdicts are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortOrder {
    /// The first judged first.
    Oldest,
    /// The last judged first.
    Newest,
}

/// Where a portion of sites ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteCursor {
    /// At a number of the sequence.
    Number(u64),
    /// At a host of a topic.
    Host(TopicId, SiteId),
}

/// Some of the sites that were wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteBatch {
    /// The sites, possibly none.
    pub sites: Vec<FoundSite>,
    /// Where to go on; none at the end.
    pub next: Option<SiteCursor>,
}

/// A judged site, with everything that can be said in a line.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundSite {
    /// The topic.
    pub(crate) topic: TopicId,
    /// What the machine says.
    pub judged: JudgedSite,
    /// What an editor says.
    pub(crate) decision: Option<Decision>,
    /// Whether it is on the list.
    pub(crate) is_listed: bool,
}

// === impl SiteQuery ===

impl Default for SiteQuery {
    /// All sites, the first judged first, a hundred at a time.
    fn default() -> Self {
        Self {
            topic: None,
            verdict: None,
            decision: None,
            confidence: (0.0, 1.0),
            judged: (None, None),
            host_prefix: None,
            order: SortOrder::Oldest,
            after: None,
            most: 100,
        }
    }
}

// === impl ListChange ===

impl ListChange {
    /// The word for feeds.
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
    /// The reasons without details.
    const PLAIN: [Self; 8] = [
        Self::Blocked,
        Self::Unblocked,
        Self::Accepted,
        Self::Rejected,
        Self::Withdrawn,
        Self::Judged,
        Self::JudgedAgain,
        Self::Irrelevant,
    ];

    /// The word for feeds.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Unblocked => "unblocked",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Withdrawn => "withdrawn",
            Self::Judged => "judged",
            Self::JudgedAgain => "judged_again",
            Self::Irrelevant => "irrelevant",
            Self::Undecided(kind) => kind.name(),
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

    /// `blocked` is what the operator did: a crawl does not ask a blocked host.
    fn from_str(text: &str) -> Result<Self, UnknownReason> {
        let name = text.replace('-', "_");
        let plain = Self::PLAIN.into_iter().find(|reason| reason.name() == name);
        match plain {
            Some(reason) => Ok(reason),
            None => parse_name(text).map(Self::Undecided),
        }
    }
}

// === impl Opinion ===

impl Opinion {
    /// The word for lists and JSON.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Reject => "reject",
        }
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray;

    use super::*;

    #[test]
    fn reasons_of_changes_are_read_back_in_both_spellings() {
        let undecided = UndecidedKind::VARIANTS.iter().copied();
        let undecided = undecided.filter(|kind| *kind != UndecidedKind::Blocked);
        let undecided = undecided.map(ChangeReason::Undecided);
        for reason in ChangeReason::PLAIN.into_iter().chain(undecided) {
            assert_eq!(reason.name().parse(), Ok(reason));
            assert_eq!(reason.name().replace('_', "-").parse(), Ok(reason));
        }
        assert!("".parse::<ChangeReason>().is_err());
    }
}
