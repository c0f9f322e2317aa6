//! Reads that see what was written but is not applied yet.
//!
//! Invariant: nothing reaches the engine before the whole transaction does, and an abandoned one
//! leaves no trace.

use std::iter::Peekable;
use std::ops::Bound;

use super::StoreError;
use super::engine::{Changes, Engine, Entry};
use super::versions::{self, VersionedRecord};

/// Changes that are not applied yet, over an engine.
pub(super) struct Transaction<'e, E: ?Sized> {
    engine: &'e E,
    /// Changes of earlier commands in the same batch.
    changes: Changes,
    /// Changes of the current command.
    command: Changes,
}

/// A transaction over whichever engine the store has.
pub(super) type OpenTransaction<'t, 'e> = &'t mut Transaction<'e, dyn Engine>;

impl<'e, E: Engine + ?Sized> Transaction<'e, E> {
    pub(super) fn new(engine: &'e E) -> Self {
        Self {
            engine,
            changes: Changes::new(),
            command: Changes::new(),
        }
    }

    /// Adds the changes of the command to the batch.
    pub(super) fn accept_command(&mut self) {
        self.changes.append(&mut self.command);
    }

    /// Discards the changes of the command.
    pub(super) fn reject_command(&mut self) {
        self.command.clear();
    }

    pub(super) fn into_changes(self) -> Changes {
        self.changes
    }

    pub(super) fn put<R: VersionedRecord>(&mut self, key: Vec<u8>, record: &R) {
        self.command.insert(key, Some(versions::encode(record)));
    }

    pub(super) fn put_raw(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.command.insert(key, Some(value));
    }

    pub(super) fn remove(&mut self, key: Vec<u8>) {
        self.command.insert(key, None);
    }

    pub(super) fn get<R: VersionedRecord>(&self, key: &[u8]) -> Result<Option<R>, StoreError> {
        let found = self.get_raw(key)?;
        found.map(|value| versions::decode(key, &value)).transpose()
    }

    pub(super) fn get_raw(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.command.get(key).or_else(|| self.changes.get(key)) {
            Some(changed) => Ok(changed.clone()),
            None => self.engine.get(key),
        }
    }

    /// Entries whose keys begin with `prefix`, in order.
    pub(super) fn scan<'a>(
        &'a self,
        prefix: &'a [u8],
    ) -> impl Iterator<Item = Result<Entry, StoreError>> + 'a {
        self.scan_from(prefix, None)
    }

    /// Those of them that come after a key.
    pub(super) fn scan_after<'a>(
        &'a self,
        prefix: &'a [u8],
        after: &'a [u8],
    ) -> impl Iterator<Item = Result<Entry, StoreError>> + 'a {
        self.scan_from(prefix, Some(after))
    }

    /// Entries whose keys begin with `prefix` and come before `before`, the last first, as they were
    /// when the transaction began.
    pub(super) fn scan_back_applied<'a>(
        &'a self,
        prefix: &'a [u8],
        before: Option<&'a [u8]>,
    ) -> impl Iterator<Item = Result<Entry, StoreError>> + 'a {
        self.engine.scan_back(prefix, before)
    }

    fn scan_from<'a>(
        &'a self,
        prefix: &'a [u8],
        after: Option<&'a [u8]>,
    ) -> impl Iterator<Item = Result<Entry, StoreError>> + 'a {
        let changed = move |changes: &'a Changes| {
            let from = match after {
                Some(after) => Bound::Excluded(after.to_vec()),
                None => Bound::Included(prefix.to_vec()),
            };
            let entries = changes.range((from, Bound::Unbounded));
            let entries = entries.take_while(move |(key, _)| key.starts_with(prefix));
            entries.map(|(key, value)| (key.clone(), value.clone()))
        };
        let applied = self.engine.scan(prefix, after).map(|entry| {
            let (key, value) = entry?;
            Ok((key, Some(value)))
        });
        let group = Overlay::new(applied, changed(&self.changes));
        let order = Overlay::new(group, changed(&self.command));
        order.filter_map(|entry| match entry {
            Ok((key, Some(value))) => Some(Ok((key, value))),
            Ok((_, None)) => None,
            Err(error) => Some(Err(error)),
        })
    }
}

/// A value, or that it was removed.
type Slot = (Vec<u8>, Option<Vec<u8>>);

/// Merges two ordered sequences; for equal keys, `above` wins.
struct Overlay<B: Iterator, A: Iterator> {
    below: Peekable<B>,
    above: Peekable<A>,
}

impl<B, A> Overlay<B, A>
where
    B: Iterator<Item = Result<Slot, StoreError>>,
    A: Iterator<Item = Slot>,
{
    fn new(below: B, above: A) -> Self {
        Self {
            below: below.peekable(),
            above: above.peekable(),
        }
    }
}

impl<B, A> Iterator for Overlay<B, A>
where
    B: Iterator<Item = Result<Slot, StoreError>>,
    A: Iterator<Item = Slot>,
{
    type Item = Result<Slot, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        match (self.below.peek(), self.above.peek()) {
            (Some(Ok((below, _))), Some((above, _))) if above <= below => {
                if above == below {
                    self.below.next();
                }
                self.above.next().map(Ok)
            }
            (None, Some(_)) => self.above.next().map(Ok),
            _ => self.below.next(),
        }
    }
}
