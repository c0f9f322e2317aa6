//! The map on disk: sled, in one tree.
//!
//! sled 0.34 calls a batch durable that the kernel has been told to write, which is not
//! what a disk understands by it: on Linux its `flush` never syncs the file. So after each
//! flush the file is synced by us. All records stand in one tree, because batches are
//! atomic within a tree only.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sled::{Batch, Db, Mode};

use super::StoreError;
use super::engine::{Changes, Engine, Entry};
use crate::config::StoreSettings;

/// Says whose directory it is, and how it is laid out.
const MARK_FILE: &str = "sitescout-store";
const MARK: &str = "sitescout store 1\n";

/// Where sled's own files are.
const DATA: &str = "sled";

/// Where they are put aside if they were never finished.
const UNFINISHED: &str = "sled-unfinished";

/// Says that they once were.
const READY_FILE: &str = "sled-ready";

pub(super) struct SledEngine {
    db: Db,
    /// The log of sled, held open to be synced.
    log: File,
    directory: PathBuf,
}

impl SledEngine {
    pub(super) fn open(directory: &Path, settings: &StoreSettings) -> Result<Self, StoreError> {
        let unusable = |source: io::Error| unusable(directory, source);
        fs::create_dir_all(directory).map_err(unusable)?;
        claim_directory(directory)?;
        let data = directory.join(DATA);
        let ready = directory.join(READY_FILE);
        let open = || {
            let config = sled::Config::new()
                .path(&data)
                .cache_capacity(settings.cache_bytes as u64)
                .mode(Mode::HighThroughput)
                // Flushing is ours to decide.
                .flush_every_ms(None);
            config.open().map_err(|error| failed(directory, error))
        };
        let is_ready = fs::exists(&ready).map_err(unusable)?;
        let db = match open() {
            Ok(db) => db,
            Err(error) if is_ready || matches!(error, StoreError::Locked(_)) => return Err(error),
            // Whoever made it was killed before it was finished; nothing was promised yet.
            Err(error) => {
                tracing::warn!(%error, "a store that was never finished is begun anew");
                let aside = directory.join(UNFINISHED);
                if fs::exists(&aside).map_err(unusable)? {
                    fs::remove_dir_all(&aside).map_err(unusable)?;
                }
                fs::rename(&data, &aside).map_err(unusable)?;
                open()?
            }
        };
        if !is_ready {
            db.flush().map_err(|error| failed(directory, error))?;
            let file = File::create(&ready).map_err(unusable)?;
            file.sync_all().map_err(unusable)?;
        }
        let log = File::open(data.join("db")).map_err(unusable)?;
        Ok(Self {
            db,
            log,
            directory: directory.to_owned(),
        })
    }

    fn failed(&self, error: sled::Error) -> StoreError {
        failed(&self.directory, error)
    }
}

impl Engine for SledEngine {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.db.get(key).map_err(|error| self.failed(error))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a [u8],
        after: Option<&'a [u8]>,
    ) -> Box<dyn Iterator<Item = Result<Entry, StoreError>> + 'a> {
        let from = match after {
            // The least key that is greater.
            Some(after) => [after, &[0]].concat(),
            None => prefix.to_vec(),
        };
        let entries = self.db.range(from..).map(|entry| match entry {
            Ok((key, value)) => Ok((key.to_vec(), value.to_vec())),
            Err(error) => Err(self.failed(error)),
        });
        Box::new(entries.take_while(move |entry| match entry {
            Ok((key, _)) => key.starts_with(prefix),
            Err(_) => true,
        }))
    }

    fn apply(&self, changes: Changes) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        for (key, value) in changes {
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        self.db
            .apply_batch(batch)
            .map_err(|error| self.failed(error))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.db.flush().map_err(|error| self.failed(error))?;
        let synced = self.log.sync_data();
        synced.map_err(|error| unusable(&self.directory, error))
    }

    fn disk_bytes(&self) -> u64 {
        self.db.size_on_disk().unwrap_or_default()
    }
}

/// Marks a directory as ours, unless it is somebody else's.
fn claim_directory(directory: &Path) -> Result<(), StoreError> {
    let unusable = |source: io::Error| unusable(directory, source);
    let mark = directory.join(MARK_FILE);
    match fs::read_to_string(&mark) {
        Ok(found) if found == MARK => return Ok(()),
        // Whoever began to write it was killed in the middle.
        Ok(begun) if MARK.starts_with(&begun) => return write_mark(&mark).map_err(unusable),
        Ok(found) if found.starts_with("sitescout store ") => return Err(StoreError::Newer),
        Ok(_) => return Err(StoreError::Foreign(directory.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(unusable(error)),
    }
    let mut files = fs::read_dir(directory).map_err(unusable)?;
    if files.next().is_some() {
        return Err(StoreError::Foreign(directory.to_owned()));
    }
    write_mark(&mark).map_err(unusable)
}

fn write_mark(mark: &Path) -> io::Result<()> {
    let mut file = File::create(mark)?;
    file.write_all(MARK.as_bytes())?;
    file.sync_all()
}

fn unusable(directory: &Path, source: io::Error) -> StoreError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::Full(directory.to_owned())
        }
        _ => StoreError::Unusable {
            path: directory.to_owned(),
            source: source.into(),
        },
    }
}

fn failed(directory: &Path, error: sled::Error) -> StoreError {
    match error {
        // sled says so in words only.
        sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => {
            StoreError::Locked(directory.to_owned())
        }
        sled::Error::Io(error) => unusable(directory, error),
        other => StoreError::damaged(DATA.as_bytes(), &other.to_string()),
    }
}
