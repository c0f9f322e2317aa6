//! What survives a crash: the graph of sites, the border, verdicts and their evidence.
//!
//! The interfaces are [`CrawlStore`] for crawlers, [`ReadStore`] for readers, who can neither claim nor
//! change anything, [`EditStore`] for editors and operators, and [`DumpStore`] for moving to another
//! store. All are implemented by [`KeyValueStore`] over one ordered map of bytes, on disk or in memory.
//!
//! # The life of a site in a topic
//!
//! | state | how a site enters it | how it leaves |
//! |---|---|---|
//! | unknown | | a start site, or an edge of a judged site, makes it *known*: into the border |
//! | border | ranked by its edges, again with each new one | `take`: claimed; or dropped by a cap |
//! | claimed | handed out by `take` to one visitor | `record`; or back to where it was when its process ends or, in a shared store, loses the claim |
//! | judged | `record` with a verdict, which gets a number | a new model: due again |
//! | recheck | judged relevant, to be rechecked after `recheck_after` | due by time: claimed |
//! | due | deferred by the site, by a local failure, or for a new model | due by time: claimed |
//! | dropped | the lowest ranked leave a border that is too long | unknown: it may be found again |
//!
//! `records::Phase` holds the state; each state but *judged* has an index in `keys`.
//!
//! # Guarantees
//!
//! Every store keeps these; `tests/behaviour/stores.rs` checks them:
//!
//! - A report is recorded whole or not at all: verdict, evidence, edges, border, sequence.
//! - When `record` returns, what it recorded survives loss of power. So anything shown to a user is
//!   read from the store, or shown after `record` has returned.
//! - A site is claimed by one visitor at a time, under a claim with a number that only grows, and
//!   `take` is durable when it returns. A claim ends with the report or with the process that holds it.
//!   A report under a claim that has ended gets [`Recorded::Stale`] and changes nothing.
//! - Where several processes share a store, it cannot know which of them live. There a claim expires
//!   [`CLAIM_TERM`] after it was made or renewed, by the clock of the store, and the next `take` of
//!   *another* process ends it; until then it can be renewed. So a process that was suspended for longer
//!   may lose its claims, and must stop those visits. No `take` ends a claim of its own process, whatever
//!   the clocks show: a store of one process, as all are now, has no expiry.
//! - Verdicts are numbered in the order in which they were recorded, over all topics. One that
//!   changes, or is renewed by another model, gets a new number, and its old one is removed.
//!   One that is confirmed keeps its number: confidence, evidence and time are new.
//! - A verdict can be read when it is durable, and not before.
//! - An edit is durable when it returns, and no verdict of a crawl undoes it.
//! - A store is created once: if its records are gone later, opening it is an error.
//!
//! # Where to change what
//!
//! | to change | open |
//! |---|---|
//! | the interfaces and their types | `crawl_store`, `read_store`, `feed`, `edit_store`, `dump`, `error` |
//! | how a command becomes durable | `key_value_store`, `group_commit`, `transaction` |
//! | the engine: an ordered map on disk | `engine` (`DiskEngine`), `sled_engine`; `key_value_store::DefaultEngine` names it; `store_directory` for the marks of a directory |
//! | how a store or a topic is opened, how sites are discovered | `state`; `upkeep` for long work |
//! | which sites are visited next | `claims`, `rechecks`; `suspects` for sites that crash the process |
//! | what a report changes | `verdicts`, `edges`; `progress` and `curve` for pprs and harvest rate |
//! | what an edit changes, what is on a list | `edits`, `list_changes` |
//! | queries | `topic_queries` for crawls, `site_queries` for readers and editors |
//! | the layout on disk | `keys`, `records`; `versions` for older records |
//! | dumps | `dump` to write, `import` to read |
//! | metrics | `metrics` |
//! | the simulation of power cuts | `power_loss` (tests only) |

mod claims;
mod crawl_store;
mod curve;
mod dump;
mod edges;
mod edit_store;
mod edits;
mod engine;
mod error;
mod feed;
mod group_commit;
mod import;
mod key_value_store;
mod keys;
mod list_changes;
mod metrics;
#[cfg(test)]
mod power_loss;
mod progress;
mod read_store;
mod rechecks;
mod records;
mod site_queries;
mod sled_engine;
mod state;
mod store_directory;
mod suspects;
mod topic_queries;
mod transaction;
mod upkeep;
mod verdicts;
mod versions;

pub(crate) use crawl_store::REJUDGED;
pub use crawl_store::{
    Averaging, BorderCaps, CLAIM_TERM, Claim, ClaimedSite, CrawlStore, NewEdge, NewSite, NextDue,
    Owner, Rank, Ranking, Recorded, Resolution, Standing, Store, TakeRequest, Taken, TopicOpening,
    VisitOutcome,
};
pub(crate) use curve::CurvePoint;
pub use dump::{DumpLine, DumpStore};
pub(crate) use edit_store::{Block, Decision};
pub use edit_store::{Edit, EditStore, Edited, Opinion};
pub use error::StoreError;
pub(crate) use feed::ChangeReason;
pub use feed::{FeedEntry, ListChange};
pub(crate) use import::Import;
pub use key_value_store::KeyValueStore;
pub(crate) use progress::Progress;
pub use progress::Tally;
pub use read_store::{
    Evidence, EvidenceStep, JudgedSite, ReadStore, Recommendation, SiteCursor, SiteDetail,
    SiteQuery, SortOrder, TopicId, TopicTotals, VerdictKind,
};
pub(crate) use read_store::{FoundSite, Heads, SiteBatch};
