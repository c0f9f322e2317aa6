//! What can be wrong with an archive.
//!
//! Damage means that bytes are missing or cannot be trusted: an archive with damage is
//! refused unless the user asks to salvage it. Everything else is a remark: all records are
//! there, but some are of no use to us.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why an archive cannot be used.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// The file cannot be opened or read at all. Not: a file with the wrong content.
    #[error("cannot read the archive {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is something else. Not: an archive that is damaged further on.
    #[error("{} is not a WARC archive: {reason}", path.display())]
    NotAnArchive {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        reason: String,
    },
    /// Records are missing or broken.
    #[error(
        "the archive {} is damaged: {problem}; `sitescout archive` lists what can be read, and \
         `damaged = \"salvage\"` under [fetch.archive] in the settings makes use of it",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first problem met.
        problem: ArchiveProblem,
    },
}

/// Something wrong at a place of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveProblem {
    /// Bytes from the start of the file: of the record in a plain archive, of its
    /// compressed member in a gzip or zstd archive.
    pub(crate) offset: u64,
    /// What is wrong.
    pub kind: ArchiveProblemKind,
}

/// What can be wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArchiveProblemKind {
    /// Damage: the compressed data is broken or ends early.
    Compression(String),
    /// Damage: there should be a record here, but no version line is.
    NoRecord,
    /// Damage: the record's header is unfinished, too long, or lacks its length.
    Header(String),
    /// Damage: the record is shorter than its header says.
    Truncated {
        /// Bytes announced.
        announced: u64,
        /// Bytes there.
        found: u64,
    },
    /// Damage: so much is broken that no further records were looked for.
    GaveUp,
    /// Remark: a response without an HTTP status line.
    NoHttp,
    /// Remark: a page whose address cannot be one.
    Address(String),
    /// Remark: a revisit of a record that is in none of the files.
    LostRevisit(String),
    /// Remark: many records in one compressed member, which makes every look-up slow.
    OneMember,
}

impl ArchiveProblemKind {
    /// Whether bytes are missing or cannot be trusted.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Compression(_)
            | Self::NoRecord
            | Self::Header(_)
            | Self::Truncated { .. }
            | Self::GaveUp => true,
            Self::NoHttp | Self::Address(_) | Self::LostRevisit(_) | Self::OneMember => false,
        }
    }
}

impl fmt::Display for ArchiveProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.kind)
    }
}

impl fmt::Display for ArchiveProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compression(reason) => write!(f, "the compressed data is broken ({reason})"),
            Self::NoRecord => f.write_str("a record should begin here, but none does"),
            Self::Header(reason) => write!(f, "the record's header cannot be used ({reason})"),
            Self::Truncated { announced, found } => write!(
                f,
                "the record ends after {found} of the {announced} bytes it announces"
            ),
            Self::GaveUp => {
                f.write_str("too much is broken; whatever records may follow were not looked for")
            }
            Self::NoHttp => f.write_str("a response without an HTTP status line"),
            Self::Address(reason) => write!(f, "a page without a usable address ({reason})"),
            Self::LostRevisit(url) => {
                write!(f, "a revisit of a record that is not here ({url})")
            }
            Self::OneMember => f.write_str(
                "many records share one compressed member, so every look-up reads from its \
                 start; compress record by record to make them fast",
            ),
        }
    }
}
