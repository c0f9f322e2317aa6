//! An ordered map of bytes: the interface to what is under a store.
//!
//! Guarantees of every engine: `apply` is atomic, and seen by all later reads. What was applied before
//! `sync` returned survives loss of power, if each `apply` was followed by a `sync` before the next.
//! Keys come in the order of their bytes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use crate::config::StoreSettings;

use super::StoreError;
use super::keys;
use super::store_directory::StoreDirectory;

/// A key and its value.
pub(super) type Entry = (Vec<u8>, Vec<u8>);

/// What changes at once: values to put, and keys to remove.
pub(super) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// An ordered map of bytes.
pub(super) trait Engine: Send + Sync + 'static {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Entries whose keys begin with `prefix` and come after `after`, lazily.
    fn scan<'a>(
        &'a self,
        prefix: &'a [u8],
        after: Option<&'a [u8]>,
    ) -> Box<dyn Iterator<Item = Result<Entry, StoreError>> + 'a>;

    /// The same backwards: entries whose keys begin with `prefix` and come before `before`.
    fn scan_back<'a>(
        &'a self,
        prefix: &'a [u8],
        before: Option<&'a [u8]>,
    ) -> Box<dyn Iterator<Item = Result<Entry, StoreError>> + 'a>;

    fn apply(&self, changes: Changes) -> Result<(), StoreError>;

    fn sync(&self) -> Result<(), StoreError>;

    /// Bytes on the disk, if there is one.
    fn disk_bytes(&self) -> u64;

    /// Whether the process that had it before was killed, or the machine lost power.
    fn was_killed(&self) -> bool {
        false
    }

    /// Records that this process exits by itself, or after a failure that no site has caused.
    fn note_end(&self) {}
}

/// An engine that keeps its records in a directory.
pub(super) trait DiskEngine: Engine + Sized {
    /// Opens the records in a directory, or creates them.
    fn open_in(directory: StoreDirectory, settings: &StoreSettings) -> Result<Self, StoreError>;

    fn directory(&self) -> &StoreDirectory;

    /// Makes new files durable, as far as [`Engine::sync`] does not.
    fn sync_new_files(&self) -> Result<(), StoreError>;

    /// Opens the store in a directory, or creates one, which is not marked as ready yet.
    fn open(path: &Path, settings: &StoreSettings) -> Result<Self, StoreError> {
        open_by(path, |directory| Self::open_in(directory, settings))
    }

    /// Creates a store that cannot be opened until [`StoreDirectory::finish_import`].
    fn begin_import(path: &Path, settings: &StoreSettings) -> Result<Self, StoreError> {
        Self::open_in(StoreDirectory::begin_import(path)?, settings)
    }

    /// Marks that the first record was synced. From now on an empty store is an error.
    fn mark_ready(&self) -> Result<(), StoreError> {
        if self.directory().is_ready()? {
            return Ok(());
        }
        self.sync_new_files()?;
        self.directory().mark_ready()
    }
}

/// Opens a store by a function. One whose import was not finished is refused, and so is one that was
/// ready and has lost its records.
pub(super) fn open_by<E: DiskEngine>(
    path: &Path,
    open: impl FnOnce(StoreDirectory) -> Result<E, StoreError>,
) -> Result<E, StoreError> {
    StoreDirectory::refuse_half_import(path)?;
    let engine = open(StoreDirectory::claim(path)?)?;
    if engine.directory().is_ready()? && engine.get(keys::STORE)?.is_none() {
        return Err(StoreError::Lost(path.to_owned()));
    }
    Ok(engine)
}

/// Without a disk, for tests and for crawls that need not survive.
#[derive(Debug, Default)]
pub(super) struct MemoryEngine {
    map: RwLock<BTreeMap<Vec<u8>, Vec<u8>>>,
}

/// The least key that comes after all keys with a prefix; none if there is none.
pub(super) fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let length = prefix.iter().rposition(|byte| *byte < u8::MAX)? + 1;
    let mut end = prefix[..length].to_vec();
    end[length - 1] += 1;
    Some(end)
}

/// Entries that a scan copies at a time, so that it holds no lock between them.
const BATCH: usize = 256;

impl Engine for MemoryEngine {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        Ok(map.get(key).cloned())
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a [u8],
        after: Option<&'a [u8]>,
    ) -> Box<dyn Iterator<Item = Result<Entry, StoreError>> + 'a> {
        let mut last = after.map(<[u8]>::to_vec);
        let mut batch = Vec::new().into_iter();
        Box::new(std::iter::from_fn(move || {
            if batch.len() == 0 {
                let from = match &last {
                    Some(last) => Bound::Excluded(last.clone()),
                    None => Bound::Included(prefix.to_vec()),
                };
                let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
                let entries = map.range((from, Bound::Unbounded));
                let entries = entries.take_while(|(key, _)| key.starts_with(prefix));
                let copied: Vec<Entry> = entries
                    .take(BATCH)
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                batch = copied.into_iter();
            }
            let entry = batch.next()?;
            last = Some(entry.0.clone());
            Some(Ok(entry))
        }))
    }

    fn scan_back<'a>(
        &'a self,
        prefix: &'a [u8],
        before: Option<&'a [u8]>,
    ) -> Box<dyn Iterator<Item = Result<Entry, StoreError>> + 'a> {
        let mut end = match before {
            Some(before) => Some(before.to_vec()),
            None => end_of(prefix),
        };
        Box::new(std::iter::from_fn(move || {
            let to = match &end {
                Some(end) => Bound::Excluded(end.as_slice()),
                None => Bound::Unbounded,
            };
            let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
            let mut entries = map.range::<[u8], _>((Bound::Unbounded, to));
            let (key, value) = entries.next_back()?;
            if !key.starts_with(prefix) {
                return None;
            }
            end = Some(key.clone());
            Some(Ok((key.clone(), value.clone())))
        }))
    }

    fn apply(&self, changes: Changes) -> Result<(), StoreError> {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in changes {
            match value {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_go_both_ways_and_keep_to_their_prefix() {
        let engine = MemoryEngine::default();
        let keys: [&[u8]; 6] = [b"a", b"l1", b"l2", b"l3", b"m", b"\xff\xff"];
        let changes = keys.map(|key| (key.to_vec(), Some(Vec::new())));
        engine.apply(changes.into_iter().collect()).unwrap();
        let back = |prefix: &[u8], before: Option<&[u8]>| -> Vec<Vec<u8>> {
            let entries = engine.scan_back(prefix, before);
            entries.map(|entry| entry.unwrap().0).collect()
        };
        assert_eq!(back(b"l", None), [b"l3", b"l2", b"l1"]);
        assert_eq!(back(b"l", Some(b"l3")), [b"l2", b"l1"]);
        assert_eq!(back(b"\xff", None), [b"\xff\xff"]);
        assert!(back(b"b", None).is_empty());
    }
}
