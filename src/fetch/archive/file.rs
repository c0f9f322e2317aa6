//! One file of an archive, and its errors, which all name it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tracing::{debug, warn};

use super::index::{Index, IndexEntry};
use super::problem::{ArchiveError, ArchiveProblem, ArchiveProblemKind};
use super::record::ArchiveRecord;
use super::stream::{ArchiveSource, ArchiveStream};

/// An open archive file.
#[derive(Debug)]
pub(super) struct ArchiveFile {
    pub(super) path: PathBuf,
    pub(super) source: ArchiveSource,
}

impl ArchiveFile {
    pub(super) fn open(path: &Path) -> Result<Self, ArchiveError> {
        let unreadable = |source| ArchiveError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.is_dir() {
            return Err(unreadable(io::ErrorKind::IsADirectory.into()));
        }
        Ok(Self {
            path: path.to_owned(),
            source: ArchiveSource::new(file).map_err(unreadable)?,
        })
    }

    pub(super) fn index(&self, keep: bool) -> Result<Index, ArchiveError> {
        let path = self.path.display();
        if keep && let Some(index) = Index::load(&self.path, &self.source) {
            debug!(archive = %path, pages = index.entries.len(), "index loaded");
            return Ok(index);
        }
        let index = Index::build(&self.source).map_err(|error| self.unreadable(error))?;
        debug!(archive = %path, records = index.records, pages = index.entries.len(), "archive indexed");
        if keep
            && index.records > 0
            && let Err(error) = index.save(&self.path)
        {
            warn!(archive = %path, %error, "the index cannot be kept, so every start reads the whole archive");
        }
        Ok(index)
    }

    pub(super) fn unreadable(&self, source: io::Error) -> ArchiveError {
        ArchiveError::Unreadable {
            path: self.path.clone(),
            source,
        }
    }

    pub(super) fn changed(&self) -> ArchiveError {
        self.unreadable(io::Error::other(
            "it was changed while in use, or its .scoutindex is of another file; delete the \
             index and start again",
        ))
    }

    pub(super) fn damaged(&self, entry: &IndexEntry, kind: ArchiveProblemKind) -> ArchiveError {
        ArchiveError::Damaged {
            path: self.path.clone(),
            problem: self.problem(entry, kind),
        }
    }

    pub(super) fn problem(&self, entry: &IndexEntry, kind: ArchiveProblemKind) -> ArchiveProblem {
        ArchiveProblem {
            offset: entry.position.file_offset(self.source.compression),
            kind,
        }
    }

    /// A record that the index knows, and the stream in which its block comes next.
    pub(super) fn record_at(
        &self,
        entry: &IndexEntry,
    ) -> Result<(ArchiveRecord, ArchiveStream), ArchiveError> {
        let stream = self.source.stream_at(entry.position);
        let mut stream = stream.map_err(|error| self.unreadable(error))?;
        match ArchiveRecord::read(&mut stream) {
            Ok(Some(record)) => Ok((record, stream)),
            Ok(None) => Err(self.changed()),
            Err((_, kind)) => Err(self.damaged(entry, kind)),
        }
    }

    pub(super) fn not_an_archive(&self) -> ArchiveError {
        ArchiveError::NotAnArchive {
            path: self.path.clone(),
            reason: self.source.what_instead(),
        }
    }
}
