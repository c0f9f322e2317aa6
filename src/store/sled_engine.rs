//! The map on disk: sled, in one tree.
//!
//! sled 0.34 calls a batch durable when it was written to the kernel: on Linux its `flush` never syncs
//! the file. So the file is synced here after each flush. All records are in one tree, because batches
//! are atomic within a tree only.
//!
//! Nor does it wait for our sync before it writes into segments of the file that it considers
//! free, because their pages have newer copies later in the file. If the disk loses those, and keeps
//! what overwrote the old ones, records are lost that were synced long ago. Within a batch nothing is
//! freed. So every batch must be synced before the next.
//!
//! After such a loss sled may open empty, without an error. So a store whose first record was
//! synced is marked from then on, and one with the mark but without the record is refused.
//!
//! After a failed write, threads that wait for it may never be woken, and dropping the last handle may
//! hang or panic. So flushes are retried until one returns, and after a failure a handle is leaked.
//! What was synced before stays consistent.
//!
//! Opening a store writes a snapshot of it. A process killed meanwhile leaves half of one, which sled
//! would take for the latest and call the store damaged: it skips unfinished ones by a name that it
//! does not give them. So they are removed first.

use std::fs::{self, File, TryLockError};
use std::io;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use sled::{Batch, Db, Mode};

use super::StoreError;
use super::engine::{Changes, DiskEngine, Engine, Entry, end_of};
use super::store_directory::{StoreDirectory, sync_directory};
use crate::config::StoreSettings;

/// Where sled's own files are.
const DATA: &str = "sled";

/// Where they are moved if their creation was interrupted.
const UNFINISHED: &str = "sled-unfinished";

/// Where sled puts values that are too large for its log.
const BLOBS: &str = "blobs";

/// The unit in which sled fills and frees its log. It cannot be changed for an existing store.
const SEGMENT_BYTES: usize = 512 << 10;

/// How the names of snapshots end while they are written.
const HALF_A_SNAPSHOT: &str = "generating";

/// Time before a flush is first retried.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct SledEngine {
    db: Db,
    /// The log of sled, held open to be synced.
    log: File,
    directory: StoreDirectory,
    was_killed: bool,
    has_failed: AtomicBool,
    /// The greatest number of a blob that was synced.
    synced_blobs: AtomicI64,
    /// Modification time of the directory of blobs when it was last scanned.
    blobs_changed: Mutex<Option<SystemTime>>,
}

impl SledEngine {
    /// Opens a store with segments of another size, for tests that cannot write many megabytes.
    pub(super) fn open_segmented(
        directory: StoreDirectory,
        settings: &StoreSettings,
        segment_bytes: usize,
    ) -> Result<Self, StoreError> {
        let unusable = |source: io::Error| directory.unusable(source);
        let data = directory.path().join(DATA);
        let open = || {
            let config = sled::Config::new()
                .path(&data)
                .cache_capacity(settings.cache_bytes as u64)
                .segment_size(segment_bytes)
                .mode(Mode::HighThroughput)
                // Flushed explicitly with each commit.
                .flush_every_ms(None);
            // If pages are missing, sled panics.
            match panic::catch_unwind(AssertUnwindSafe(|| config.open())) {
                Ok(opened) => opened.map_err(|error| failed(&directory, error)),
                Err(_) => Err(StoreError::damaged(DATA.as_bytes(), "pages are missing")),
            }
        };
        let is_ready = directory.is_ready()?;
        remove_half_snapshots(&data).map_err(unusable)?;
        let db = match open() {
            Ok(db) => db,
            Err(error) if is_ready || matches!(error, StoreError::Locked(_)) => return Err(error),
            // Its creation was interrupted; nothing was acknowledged yet.
            Err(error) => {
                tracing::warn!(%error, "the creation of the store was interrupted; creating it again");
                let aside = free_name(directory.path()).map_err(unusable)?;
                fs::rename(&data, aside).map_err(unusable)?;
                open()?
            }
        };
        let log = File::open(data.join("db")).map_err(unusable)?;
        Ok(Self {
            db,
            log,
            was_killed: directory.note_start()?,
            directory,
            has_failed: AtomicBool::new(false),
            synced_blobs: AtomicI64::new(-1),
            blobs_changed: Mutex::default(),
        })
    }

    /// Syncs values in files of their own, which sled does not. There are none while records keep to
    /// the length in `records`, and then no file descriptor is opened: crawls go on when none is left.
    fn sync_blobs(&self) -> io::Result<()> {
        let directory = self.directory.path().join(DATA).join(BLOBS);
        let synced = self.synced_blobs.load(Ordering::Relaxed);
        let changed = Some(fs::metadata(&directory)?.modified()?);
        let known = self.blobs_changed.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        if synced < 0 && *known == changed {
            return Ok(());
        }
        *known = changed;
        let mut last = synced;
        for file in fs::read_dir(&directory)? {
            let file = file?;
            let number = file.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(number) = number.filter(|number| *number > synced) else {
                continue;
            };
            match File::open(file.path()) {
                Ok(blob) => blob.sync_all()?,
                // sled has no use for it any more.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            last = last.max(number);
        }
        if last > synced {
            File::open(&directory)?.sync_all()?;
            self.synced_blobs.store(last, Ordering::Relaxed);
        }
        Ok(())
    }

    fn failed(&self, error: sled::Error) -> StoreError {
        failed(&self.directory, error)
    }

    /// Remembers a failed write.
    fn noted<T>(&self, written: Result<T, StoreError>) -> Result<T, StoreError> {
        if written.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        written
    }
}

impl Drop for SledEngine {
    fn drop(&mut self) {
        self.note_end();
        if *self.has_failed.get_mut() {
            mem::forget(self.db.clone());
        }
    }
}

impl DiskEngine for SledEngine {
    fn open_in(directory: StoreDirectory, settings: &StoreSettings) -> Result<Self, StoreError> {
        Self::open_segmented(directory, settings, SEGMENT_BYTES)
    }

    fn directory(&self) -> &StoreDirectory {
        &self.directory
    }

    fn sync_new_files(&self) -> Result<(), StoreError> {
        // sled syncs neither its configuration nor its directory, without which files are lost.
        let data = self.directory.path().join(DATA);
        let conf = File::open(data.join("conf"));
        let synced = conf.and_then(|conf| conf.sync_all());
        synced.map_err(|error| self.directory.unusable(error))?;
        sync_directory(&data)
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

    fn scan_back<'a>(
        &'a self,
        prefix: &'a [u8],
        before: Option<&'a [u8]>,
    ) -> Box<dyn Iterator<Item = Result<Entry, StoreError>> + 'a> {
        let end = match before {
            Some(before) => Some(before.to_vec()),
            None => end_of(prefix),
        };
        let entries = match end {
            Some(end) => self.db.range(prefix.to_vec()..end),
            None => self.db.range(prefix.to_vec()..),
        };
        Box::new(entries.rev().map(|entry| match entry {
            Ok((key, value)) => Ok((key.to_vec(), value.to_vec())),
            Err(error) => Err(self.failed(error)),
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
        let applied = self.db.apply_batch(batch);
        self.noted(applied.map_err(|error| self.failed(error)))
    }

    fn sync(&self) -> Result<(), StoreError> {
        let db = self.db.clone();
        let flushed = with_retries(FLUSH_TIMEOUT, move || db.flush());
        self.noted(flushed.map_err(|error| self.failed(error)))?;
        // Before the log that refers to them.
        let synced = self.sync_blobs().and_then(|()| self.log.sync_data());
        self.noted(synced.map_err(|error| self.directory.unusable(error)))
    }

    fn disk_bytes(&self) -> u64 {
        self.db.size_on_disk().unwrap_or_default()
    }

    fn was_killed(&self) -> bool {
        self.was_killed
    }

    fn note_end(&self) {
        self.directory.note_end();
    }
}

/// Removes unfinished snapshots, unless another process has the store open.
fn remove_half_snapshots(data: &Path) -> io::Result<()> {
    let files = match fs::read_dir(data) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        files => files?,
    };
    let mut halves = Vec::new();
    for file in files {
        let path = file?.path();
        if path.extension().is_some_and(|end| end == HALF_A_SNAPSHOT) {
            halves.push(path);
        }
    }
    if halves.is_empty() {
        return Ok(());
    }
    // The lock that sled takes, until it takes it itself.
    let log = data.join("db");
    let log = File::options().read(true).write(true).open(log)?;
    match log.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    for half in halves {
        match fs::remove_file(half) {
            // It was finished before the lock was free.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(())
}

/// An unused name, so that nothing is overwritten.
fn free_name(directory: &Path) -> io::Result<PathBuf> {
    for number in 1_u32.. {
        let name = directory.join(format!("{UNFINISHED}-{number}"));
        if !fs::exists(&name)? {
            return Ok(name);
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Calls a function in another thread, and again in a further one, with doubled timeout, until one of
/// the calls returns.
fn with_retries<T: Send + 'static>(
    mut timeout: Duration,
    call: impl Fn() -> T + Clone + Send + 'static,
) -> T {
    let (results, result) = mpsc::channel();
    loop {
        let (sender, attempt) = (results.clone(), call.clone());
        let started = thread::Builder::new().spawn(move || {
            let returned = panic::catch_unwind(AssertUnwindSafe(&attempt));
            // Before the result is sent, so that what it holds is released by then.
            drop(attempt);
            // Another call may have been faster.
            let _ = sender.send(returned);
        });
        if started.is_err() {
            return call();
        }
        match result.recv_timeout(timeout) {
            Ok(Ok(returned)) => return returned,
            Ok(Err(fault)) => panic::resume_unwind(fault),
            Err(_) => timeout *= 2,
        }
    }
}

fn failed(directory: &StoreDirectory, error: sled::Error) -> StoreError {
    match error {
        // sled reports this as text only.
        sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => {
            StoreError::Locked(directory.path().to_owned())
        }
        sled::Error::Io(error) => directory.unusable(system_error(error)),
        other => StoreError::damaged(DATA.as_bytes(), &other.to_string()),
    }
}

/// The error of the operating system: sled reports that of a write as text that contains its number.
fn system_error(error: io::Error) -> io::Error {
    let text = error.to_string();
    let number = text.split_once("code: ").and_then(|(_, rest)| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    });
    number.map_or(error, io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Condvar};

    use super::*;
    use crate::store::KeyValueStore;

    /// Against hanging; what is waited for takes a moment.
    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn a_failed_write_is_reported_and_does_not_block_shutdown() {
        let directory = tempfile::tempdir().unwrap();
        let engine = SledEngine::open(directory.path(), &StoreSettings::default()).unwrap();
        // Values as large as this one get files of their own.
        fs::remove_dir(directory.path().join(DATA).join("blobs")).unwrap();
        let large = (b"large".to_vec(), Some(vec![0; 1 << 20]));
        let refused = engine.apply(Changes::from([large]));
        assert!(matches!(refused, Err(StoreError::Unusable { .. })));
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || {
            drop(engine);
            sender.send(())
        });
        assert_eq!(ended.recv_timeout(LONG), Ok(()));
    }

    #[test]
    fn values_with_files_of_their_own_are_synced_with_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let engine = SledEngine::open(directory.path(), &StoreSettings::default()).unwrap();
        let blobs = || {
            let files = fs::read_dir(directory.path().join(DATA).join(BLOBS)).unwrap();
            let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
            names.map(|name| name.parse::<i64>().unwrap()).max()
        };
        engine.sync().unwrap();
        assert_eq!(engine.synced_blobs.load(Ordering::Relaxed), -1);
        for key in [b"one".to_vec(), b"two".to_vec()] {
            let large = (key, Some(vec![0; 1 << 20]));
            engine.apply(Changes::from([large])).unwrap();
            engine.sync().unwrap();
            assert_eq!(blobs(), Some(engine.synced_blobs.load(Ordering::Relaxed)));
        }
    }

    #[test]
    fn a_store_is_marked_after_its_first_sync_and_then_never_begun_anew() {
        let directory = tempfile::tempdir().unwrap();
        let ready = directory.path().join("sled-ready");
        let settings = StoreSettings::default();
        let open = |directory: &Path| loop {
            match KeyValueStore::open(directory, &settings) {
                // The one before is being closed by its threads.
                Err(StoreError::Locked(_)) => thread::yield_now(),
                opened => return opened.map(drop),
            }
        };
        // Creation may be interrupted before there is a record.
        drop(SledEngine::open(directory.path(), &settings).unwrap());
        assert!(!ready.exists());
        open(directory.path()).unwrap();
        assert!(ready.exists());
        open(directory.path()).unwrap();
        let lost = tempfile::tempdir().unwrap();
        drop(SledEngine::open(lost.path(), &settings).unwrap());
        fs::write(lost.path().join("sled-ready"), "").unwrap();
        let files = || fs::read_dir(lost.path()).unwrap().count();
        let before = files();
        for _ in 0..2 {
            let refused = open(lost.path());
            assert!(matches!(refused, Err(StoreError::Lost(_))), "{refused:?}");
        }
        assert_eq!(files(), before);
    }

    #[test]
    fn half_a_snapshot_does_not_stop_the_next_start() {
        let directory = tempfile::tempdir().unwrap();
        let open = || SledEngine::open(directory.path(), &StoreSettings::default());
        let engine = open().unwrap();
        let record = (b"key".to_vec(), Some(b"value".to_vec()));
        engine.apply(Changes::from([record])).unwrap();
        engine.sync().unwrap();
        drop(engine);
        let data = directory.path().join(DATA);
        let half = data.join("snap.7FFFFFFFFFFFFFFF.generating");
        fs::write(&half, "half").unwrap();
        let engine = open().unwrap();
        assert_eq!(engine.get(b"key").unwrap(), Some(b"value".to_vec()));
        assert!(!half.exists());
        // Now a process has the store open that may be writing one.
        fs::write(&half, "half").unwrap();
        assert!(matches!(open(), Err(StoreError::Locked(_))));
        assert!(half.exists());
    }

    #[test]
    fn a_missed_wake_up_is_made_up_for() {
        let calls: Arc<(Mutex<u32>, Condvar)> = Arc::default();
        let (sender, answer) = mpsc::channel();
        thread::spawn(move || {
            let answer = with_retries(Duration::from_millis(1), move || {
                let mut called = calls.0.lock().unwrap();
                *called += 1;
                calls.1.notify_all();
                // The first sleeps until the third has come.
                drop(calls.1.wait_while(called, |called| *called < 3).unwrap());
                "an answer"
            });
            sender.send(answer)
        });
        assert_eq!(answer.recv_timeout(LONG), Ok("an answer"));
    }

    #[test]
    fn a_failed_write_is_reported_with_the_message_of_the_system() {
        for number in [5, 27, 28] {
            let told = io::Error::from_raw_os_error(number);
            let kept = sled::Error::from(io::Error::from_raw_os_error(number));
            let sled::Error::Io(once) = kept.clone() else {
                panic!("{kept:?}");
            };
            let sled::Error::Io(twice) = sled::Error::from(once).clone() else {
                panic!("{kept:?}");
            };
            assert_eq!(system_error(twice).to_string(), told.to_string());
        }
        let other = io::Error::other("no number");
        assert_eq!(system_error(other).to_string(), "no number");
    }
}
