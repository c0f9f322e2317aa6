//! Makes a store from a dump, in bounded memory.
//!
//! sled keeps a copy of each page as it was before each write, and frees a few of these copies at each
//! read. An import would only write, and fill the memory with them: so it reads back what it has
//! written.
//!
//! Invariant: until [`Import::finish`] has returned the store cannot be opened, whatever happens.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::StoreSettings;

use super::StoreError;
use super::dump::{self, DumpLine};
use super::engine::{DiskEngine, Engine};
use super::key_value_store::DefaultEngine;
use super::keys;
use super::records::StoreRecord;
use super::store_directory::StoreDirectory;
use super::transaction::Transaction;

/// Maximum cache, whatever the settings allow: a dump is in key order, so what was written is seldom
/// needed again. Only the border and the sequence of verdicts are in another order.
const MOST_CACHE: usize = 32 << 20;

/// A store that is being filled from a dump.
pub(crate) struct Import {
    engine: DefaultEngine,
    directory: PathBuf,
}

impl Import {
    /// Creates a store in a directory.
    pub(crate) fn begin(directory: &Path, settings: &StoreSettings) -> Result<Self, StoreError> {
        let settings = StoreSettings {
            cache_bytes: settings.cache_bytes.min(MOST_CACHE),
            ..settings.clone()
        };
        Ok(Self {
            engine: DefaultEngine::begin_import(directory, &settings)?,
            directory: directory.to_owned(),
        })
    }

    /// Adds records of a dump, in its order.
    pub(crate) fn load(&mut self, lines: Vec<DumpLine>) -> Result<(), StoreError> {
        let mut changes = Transaction::new(&self.engine as &dyn Engine);
        for line in lines {
            dump::load(&mut changes, line)?;
        }
        self.write(changes)
    }

    /// Marks the store as complete, so that it can be opened.
    pub(crate) fn finish(self) -> Result<(), StoreError> {
        let mut changes = Transaction::new(&self.engine as &dyn Engine);
        if changes.get_raw(keys::STORE)?.is_none() {
            changes.put(keys::STORE.to_vec(), &StoreRecord::default());
        }
        self.write(changes)?;
        self.engine.mark_ready()?;
        StoreDirectory::finish_import(&self.directory)
    }

    fn write(&self, mut changes: Transaction<'_, dyn Engine>) -> Result<(), StoreError> {
        changes.accept_command();
        let changes = changes.into_changes();
        let keys: Vec<Vec<u8>> = changes.keys().cloned().collect();
        self.engine.apply(changes)?;
        for key in &keys {
            self.engine.get(key)?;
        }
        self.engine.sync()
    }
}

impl fmt::Debug for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Import").finish_non_exhaustive()
    }
}
