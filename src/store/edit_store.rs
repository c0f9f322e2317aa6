//! The interface for editors and operators: decisions on sites, blocked hosts, pauses.
//!
//! Whether a site is on a list is decided by, strongest first: the operator, who blocks hosts; an
//! editor, who accepts or rejects a site; the verdict of the crawl, which is kept beside both and never
//! undoes an edit.

use std::time::SystemTime;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::web::{PageUrl, SiteId};

use super::{ReadStore, StoreError, TopicId};

/// What editors and operators need of a store.
#[async_trait]
pub trait EditStore: ReadStore {
    /// Adds start sites; returns how many of them were new. The topic must be open.
    async fn add_starts(&self, topic: TopicId, starts: Vec<PageUrl>) -> Result<usize, StoreError>;

    /// Carries out an edit. Durable when it returns.
    async fn edit(&self, edit: Edit) -> Result<Edited, StoreError>;
}

/// A change made by a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Accept or reject a site, or withdraw a decision.
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
    /// Remove the block of a host.
    Unblock {
        /// The host.
        site: SiteId,
    },
    /// Pause the crawl of a topic, or resume it.
    Pause {
        /// The topic.
        topic: TopicId,
        /// Whether to pause.
        is_paused: bool,
    },
}

/// The result of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// It was carried out.
    Done {
        /// The number of a decision; none for other edits.
        seq: Option<u64>,
    },
    /// Nothing to change.
    Unchanged,
    /// The store does not know the site.
    Unknown,
    /// The site was not visited yet.
    NotVisited,
}

/// An editor's decision on a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Accepted or rejected.
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
#[serde(rename_all = "snake_case")]
pub enum Opinion {
    /// It belongs on the list.
    #[serde(alias = "Accept")]
    Accept,
    /// It does not.
    #[serde(alias = "Reject")]
    Reject,
}

/// A host that is neither visited nor listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Why, in the words of the operator.
    pub note: String,
    /// Since when.
    pub(crate) at: SystemTime,
}

// === impl Opinion ===

impl Opinion {
    /// Its spelling in lists and JSON.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Reject => "reject",
        }
    }
}
