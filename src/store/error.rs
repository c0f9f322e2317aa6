//! Why a store cannot be opened, read or written.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use thiserror::Error;

/// Why a store cannot be used.
#[derive(Debug, Clone, Error)]
pub enum StoreError {
    /// Another process has it open.
    #[error("the store in {} is in use by another process; stop that one first", .0.display())]
    Locked(PathBuf),
    /// The directory holds something else.
    #[error("{} holds files, but no sitescout store; choose another directory", .0.display())]
    Foreign(PathBuf),
    /// An import into it was not completed.
    #[error("an import into {} was interrupted; delete that directory and import again", .0.display())]
    Unfinished(PathBuf),
    /// A later version of sitescout wrote it.
    #[error("the store was written by a later version of sitescout; use that one")]
    Newer,
    /// A record is missing or malformed.
    #[error(
        "the store is damaged: record {key}: {reason}; restore a backup, or start a new store in \
         another directory"
    )]
    Damaged {
        /// The key, escaped.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It was in use before, and is empty now.
    #[error(
        "the store in {} was in use before, but its records are gone; restore a backup, or start a \
         new store in another directory",
        .0.display()
    )]
    Lost(PathBuf),
    /// The disk is full, or a quota or a limit for files is reached.
    #[error(
        "the disk is full: no room for the store in {}; nothing recorded is lost, so make room and \
         start again",
        .0.display()
    )]
    Full(PathBuf),
    /// The files are not writable.
    #[error(
        "the store in {} is not writable, so it cannot be opened; allow writing there, or use a \
         copy in another directory",
        .0.display()
    )]
    ReadOnly(PathBuf),
    /// The files cannot be read or written.
    #[error("cannot use the store in {}: {cause}", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        cause: Arc<io::Error>,
    },
    /// The clock is implausible, compared with the newest verdict.
    #[error(
        "the clock of this machine says {}, but the newest verdict in the store is of {}; set the \
         clock right, or if it is right start with --accept-clock",
        date(*.now), date(*.newest)
    )]
    WrongClock {
        /// The time by the clock.
        now: SystemTime,
        /// When the newest verdict was recorded.
        newest: SystemTime,
    },
    /// The commit thread has ended.
    #[error("the store was closed after a failure: {0}")]
    Closed(String),
}

// === impl StoreError ===

impl StoreError {
    pub(super) fn damaged(key: &[u8], reason: &str) -> Self {
        Self::Damaged {
            key: key.escape_ascii().to_string(),
            reason: reason.to_owned(),
        }
    }
}

/// A time for messages: to the second, in UTC.
fn date(time: SystemTime) -> humantime::Rfc3339Timestamp {
    humantime::format_rfc3339_seconds(time)
}
