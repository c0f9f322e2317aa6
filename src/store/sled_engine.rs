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
use std::io::{self, Write};
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
use super::keys;
use crate::config::StoreSettings;

/// Marks a directory as a store, with the version of its layout.
const MARK_FILE: &str = "sitescout-store";
const MARK: &str = "sitescout store 1\n";

/// Where sled's own files are.
const DATA: &str = "sled";

/// Where they are moved if their creation was interrupted.
const UNFINISHED: &str = "sled-unfinished";

/// Marks that the first record was synced.
const READY_FILE: &str = "sled-ready";

/// Where sled puts values that are too large for its log.
const BLOBS: &str = "blobs";

/// The unit in which sled fills and frees its log. It cannot be changed for an existing store.
const SEGMENT_BYTES: usize = 512 << 10;

/// How the names of snapshots end while they are written.
const HALF_A_SNAPSHOT: &str = "generating";

/// Marks that an import is under way, or was interrupted.
const IMPORT_FILE: &str = "sitescout-import";

/// Marks that a process has the store open, or was killed while it had.
const IN_USE_FILE: &str = "sitescout-in-use";

/// Time before a flush is first retried.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct SledEngine {
    db: Db,
    /// The log of sled, held open to be synced.
    log: File,
    directory: PathBuf,
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
        directory: &Path,
        settings: &StoreSettings,
        segment_bytes: usize,
    ) -> Result<Self, StoreError> {
        if fs::exists(directory.join(IMPORT_FILE)).unwrap_or_default() {
            return Err(StoreError::Unfinished(directory.to_owned()));
        }
        let engine = Self::open_any(directory, settings, segment_bytes)?;
        let is_ready = fs::exists(directory.join(READY_FILE));
        let is_ready = is_ready.map_err(|error| unusable(directory, error))?;
        if is_ready && engine.get(keys::STORE)?.is_none() {
            return Err(StoreError::Lost(directory.to_owned()));
        }
        Ok(engine)
    }

    fn open_any(
        directory: &Path,
        settings: &StoreSettings,
        segment_bytes: usize,
    ) -> Result<Self, StoreError> {
        let unusable = |source: io::Error| unusable(directory, source);
        create_directory(directory).map_err(unusable)?;
        claim_directory(directory)?;
        let data = directory.join(DATA);
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
                Ok(opened) => opened.map_err(|error| failed(directory, error)),
                Err(_) => Err(StoreError::damaged(DATA.as_bytes(), "pages are missing")),
            }
        };
        let is_ready = fs::exists(directory.join(READY_FILE)).map_err(unusable)?;
        remove_half_snapshots(&data).map_err(unusable)?;
        let db = match open() {
            Ok(db) => db,
            Err(error) if is_ready || matches!(error, StoreError::Locked(_)) => return Err(error),
            // Its creation was interrupted; nothing was acknowledged yet.
            Err(error) => {
                tracing::warn!(%error, "the creation of the store was interrupted; creating it again");
                fs::rename(&data, free_name(directory).map_err(unusable)?).map_err(unusable)?;
                open()?
            }
        };
        let in_use = directory.join(IN_USE_FILE);
        let was_killed = fs::exists(&in_use).map_err(unusable)?;
        // Failure is accepted, since a full disk can still be read: sites under way will just not be
        // suspects if this process is killed.
        let _ = File::create(&in_use);
        Ok(Self {
            db,
            log: File::open(data.join("db")).map_err(unusable)?,
            directory: directory.to_owned(),
            was_killed,
            has_failed: AtomicBool::new(false),
            synced_blobs: AtomicI64::new(-1),
            blobs_changed: Mutex::default(),
        })
    }

    /// Syncs values in files of their own, which sled does not. There are none while records keep to
    /// the length in `records`, and then no file descriptor is opened: crawls go on when none is left.
    fn sync_blobs(&self) -> io::Result<()> {
        let directory = self.directory.join(DATA).join(BLOBS);
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
    fn is_in(directory: &Path) -> bool {
        // On an error, opening it gives the better message.
        fs::exists(directory.join(MARK_FILE)).unwrap_or(true)
    }

    fn open(directory: &Path, settings: &StoreSettings) -> Result<Self, StoreError> {
        Self::open_segmented(directory, settings, SEGMENT_BYTES)
    }

    fn mark_ready(&self) -> Result<(), StoreError> {
        let unusable = |source: io::Error| unusable(&self.directory, source);
        let ready = self.directory.join(READY_FILE);
        if fs::exists(&ready).map_err(unusable)? {
            return Ok(());
        }
        // sled syncs neither its configuration nor the directories, without which files are lost.
        let data = self.directory.join(DATA);
        let conf = File::open(data.join("conf"));
        conf.and_then(|conf| conf.sync_all()).map_err(unusable)?;
        sync_directory(&data)?;
        sync_directory(&self.directory)?;
        let file = File::create(&ready).map_err(unusable)?;
        file.sync_all().map_err(unusable)?;
        sync_directory(&self.directory)
    }

    fn begin_import(directory: &Path, settings: &StoreSettings) -> Result<Self, StoreError> {
        let unusable = |source: io::Error| unusable(directory, source);
        create_directory(directory).map_err(unusable)?;
        claim_directory(directory)?;
        let file = File::create(directory.join(IMPORT_FILE)).map_err(unusable)?;
        file.sync_all().map_err(unusable)?;
        sync_directory(directory)?;
        Self::open_any(directory, settings, SEGMENT_BYTES)
    }

    fn finish_import(directory: &Path) -> Result<(), StoreError> {
        let removed = fs::remove_file(directory.join(IMPORT_FILE));
        removed.map_err(|error| unusable(directory, error))?;
        sync_directory(directory)
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
        self.noted(synced.map_err(|error| unusable(&self.directory, error)))
    }

    fn disk_bytes(&self) -> u64 {
        self.db.size_on_disk().unwrap_or_default()
    }

    fn was_killed(&self) -> bool {
        self.was_killed
    }

    fn note_end(&self) {
        // Left behind, it makes the sites under way suspects, which a visit to each clears.
        let _ = fs::remove_file(self.directory.join(IN_USE_FILE));
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

/// Marks a directory as a store, unless it holds other files.
fn claim_directory(directory: &Path) -> Result<(), StoreError> {
    let unusable = |source: io::Error| unusable(directory, source);
    let mark = directory.join(MARK_FILE);
    match fs::read_to_string(&mark) {
        Ok(found) if found == MARK => return Ok(()),
        // The process that wrote it was killed meanwhile.
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

fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    let synced = File::open(directory).and_then(|opened| opened.sync_all());
    synced.map_err(|error| unusable(directory, error))
}

fn write_mark(mark: &Path) -> io::Result<()> {
    let mut file = File::create(mark)?;
    file.write_all(MARK.as_bytes())?;
    file.sync_all()
}

/// Calls a function in another thread, and again in a further one, with doubled timeout, until one of
/// the calls returns.
fn with_retries<T: Send + 'static>(
    mut patience: Duration,
    ask: impl Fn() -> T + Clone + Send + 'static,
) -> T {
    let (sender, answer) = mpsc::channel();
    loop {
        let (sender, question) = (sender.clone(), ask.clone());
        let started = thread::Builder::new().spawn(move || {
            let answer = panic::catch_unwind(AssertUnwindSafe(&question));
            // Before the result is sent, so that what it holds is released by then.
            drop(question);
            // Another call may have been faster.
            let _ = sender.send(answer);
        });
        if started.is_err() {
            return ask();
        }
        match answer.recv_timeout(patience) {
            Ok(Ok(answer)) => return answer,
            Ok(Err(fault)) => panic::resume_unwind(fault),
            Err(_) => patience *= 2,
        }
    }
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

fn failed(directory: &Path, error: sled::Error) -> StoreError {
    match error {
        // sled reports this as text only.
        sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => {
            StoreError::Locked(directory.to_owned())
        }
        sled::Error::Io(error) => unusable(directory, as_told(error)),
        other => StoreError::damaged(DATA.as_bytes(), &other.to_string()),
    }
}

/// The error of the operating system: sled reports that of a write as text that contains its number.
fn as_told(error: io::Error) -> io::Error {
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
    fn a_failed_write_is_told_and_does_not_hang_the_end() {
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
        let ready = directory.path().join(READY_FILE);
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
        fs::write(lost.path().join(READY_FILE), "").unwrap();
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
    fn who_is_not_woken_is_asked_again() {
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
    fn a_failed_write_is_told_in_the_words_of_the_system() {
        for number in [5, 27, 28] {
            let told = io::Error::from_raw_os_error(number);
            let kept = sled::Error::from(io::Error::from_raw_os_error(number));
            let sled::Error::Io(once) = kept.clone() else {
                panic!("{kept:?}");
            };
            let sled::Error::Io(twice) = sled::Error::from(once).clone() else {
                panic!("{kept:?}");
            };
            assert_eq!(as_told(twice).to_string(), told.to_string());
        }
        let other = io::Error::other("no number");
        assert_eq!(as_told(other).to_string(), "no number");
    }
}
