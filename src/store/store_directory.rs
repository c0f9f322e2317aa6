//! The directory of a store on disk and its marks, the same for every engine.
//!
//! | file | meaning |
//! |---|---|
//! | `sitescout-store` | the directory is a store; holds the version of its layout |
//! | `sitescout-import` | an import is under way, or was interrupted: the store cannot be opened |
//! | `sled-ready` | the first record was synced: an empty store is an error from then on |
//! | `sitescout-in-use` | a process has the store open, or was killed while it had |
//!
//! Invariant: a mark survives loss of power when the method that sets it returns, but for
//! `sitescout-in-use`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::StoreError;

const MARK_FILE: &str = "sitescout-store";
const MARK: &str = "sitescout store 1\n";
const IMPORT_FILE: &str = "sitescout-import";
// Named before there was a choice of engines; stores have it.
const READY_FILE: &str = "sled-ready";
const IN_USE_FILE: &str = "sitescout-in-use";

/// A directory that is marked as a store.
#[derive(Debug)]
pub(super) struct StoreDirectory(PathBuf);

// === impl StoreDirectory ===

impl StoreDirectory {
    /// Whether there is a store in a directory.
    pub(super) fn is_store(path: &Path) -> bool {
        // On an error, opening it gives the better message.
        fs::exists(path.join(MARK_FILE)).unwrap_or(true)
    }

    /// Marks a directory as a store, unless it holds other files; creates it if it is missing.
    pub(super) fn claim(path: &Path) -> Result<Self, StoreError> {
        let unusable = |source: io::Error| unusable(path, source);
        create_directory(path).map_err(unusable)?;
        let mark = path.join(MARK_FILE);
        let claimed = Self(path.to_owned());
        match fs::read_to_string(&mark) {
            Ok(found) if found == MARK => return Ok(claimed),
            // The process that wrote it was killed meanwhile.
            Ok(begun) if MARK.starts_with(&begun) => {}
            Ok(found) if found.starts_with("sitescout store ") => return Err(StoreError::Newer),
            Ok(_) => return Err(StoreError::Foreign(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut files = fs::read_dir(path).map_err(unusable)?;
                if files.next().is_some() {
                    return Err(StoreError::Foreign(path.to_owned()));
                }
            }
            Err(error) => return Err(unusable(error)),
        }
        let mut file = File::create(mark).map_err(unusable)?;
        let written = file.write_all(MARK.as_bytes());
        written.and_then(|()| file.sync_all()).map_err(unusable)?;
        Ok(claimed)
    }

    /// Claims a directory for an import. The store cannot be opened until [`Self::finish_import`].
    pub(super) fn begin_import(path: &Path) -> Result<Self, StoreError> {
        let claimed = Self::claim(path)?;
        claimed.create_durably(IMPORT_FILE)?;
        Ok(claimed)
    }

    pub(super) fn finish_import(path: &Path) -> Result<(), StoreError> {
        let removed = fs::remove_file(path.join(IMPORT_FILE));
        removed.map_err(|error| unusable(path, error))?;
        sync_directory(path)
    }

    /// An error if an import into the directory was begun and not finished.
    pub(super) fn refuse_half_import(path: &Path) -> Result<(), StoreError> {
        if fs::exists(path.join(IMPORT_FILE)).unwrap_or_default() {
            return Err(StoreError::Unfinished(path.to_owned()));
        }
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn is_ready(&self) -> Result<bool, StoreError> {
        let exists = fs::exists(self.0.join(READY_FILE));
        exists.map_err(|error| self.unusable(error))
    }

    /// Marks that the first record was synced.
    pub(super) fn mark_ready(&self) -> Result<(), StoreError> {
        sync_directory(&self.0)?;
        self.create_durably(READY_FILE)
    }

    /// Marks that this process has the store open. Returns whether the one before was killed.
    pub(super) fn note_start(&self) -> Result<bool, StoreError> {
        let mark = self.0.join(IN_USE_FILE);
        let was_killed = fs::exists(&mark).map_err(|error| self.unusable(error))?;
        // Failure is accepted, since a full disk can still be read: sites under way will just not be
        // suspects if this process is killed.
        let _ = File::create(&mark);
        Ok(was_killed)
    }

    /// Removes the mark of [`Self::note_start`].
    pub(super) fn note_end(&self) {
        // Left behind, it makes the sites under way suspects, which a visit to each clears.
        let _ = fs::remove_file(self.0.join(IN_USE_FILE));
    }

    /// The error for a failed operation on its files.
    pub(super) fn unusable(&self, cause: io::Error) -> StoreError {
        unusable(&self.0, cause)
    }

    fn create_durably(&self, name: &str) -> Result<(), StoreError> {
        let file = File::create(self.0.join(name));
        let synced = file.and_then(|file| file.sync_all());
        synced.map_err(|error| self.unusable(error))?;
        sync_directory(&self.0)
    }
}

/// Makes a directory whose name survives loss of power.
fn create_directory(directory: &Path) -> io::Result<()> {
    let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let made: Vec<&Path> = directory.ancestors().take_while(missing).collect();
    fs::create_dir_all(directory)?;
    for path in made {
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

pub(super) fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    let synced = File::open(directory).and_then(|opened| opened.sync_all());
    synced.map_err(|error| unusable(directory, error))
}

fn unusable(directory: &Path, cause: io::Error) -> StoreError {
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            StoreError::Full(directory.to_owned())
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            StoreError::ReadOnly(directory.to_owned())
        }
        _ => StoreError::Unusable {
            path: directory.to_owned(),
            cause: cause.into(),
        },
    }
}
