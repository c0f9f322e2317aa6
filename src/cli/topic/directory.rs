//! The directory of a topic: its files appear together or not at all.
//!
//! What is fetched for a topic, and what is learned from it, is written to a *draft*, a directory beside
//! that of the topic, which takes its place in the end. A run that is interrupted leaves the draft with its
//! recordings, and the next run goes on with it.
//!
//! | beside each other in the directory of models | what it is |
//! |---|---|
//! | `NAME` | the topic |
//! | `.NAME.draft` | the draft; no topic can have this name |
//! | `.NAME.before` | the topic as it was, for the moment in which the draft takes its place |

use std::fs::{self, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::cli::sources;
use crate::config::{DamagePolicy, FetchSettings};
use crate::fetch::{Archive, ArchiveError};

/// Recordings are numbered: each run writes one of its own.
const RECORDING: (&str, &str) = ("sites-", ".warc.gz");

/// Where a topic is, and where its draft is.
#[derive(Debug)]
pub(super) struct TopicDirectory {
    models: PathBuf,
    pub(super) topic: PathBuf,
    draft: PathBuf,
    before: PathBuf,
}

/// The draft of a topic, which is kept only if there is anything in it. While it exists no other process
/// works on the topic.
#[derive(Debug)]
pub(super) struct Draft<'d> {
    directory: &'d TopicDirectory,
    is_first: bool,
    /// The draft as an open directory, locked. A lock goes with its process, however that ends.
    _lock: fs::File,
}

// === impl TopicDirectory ===

impl TopicDirectory {
    /// The directory of a topic, after a replacement that was interrupted is completed or undone.
    pub(super) fn open(models: &Path, name: &str) -> anyhow::Result<Self> {
        let directory = Self {
            models: models.to_owned(),
            topic: models.join(name),
            draft: models.join(format!(".{name}.draft")),
            before: models.join(format!(".{name}.before")),
        };
        let settled = directory.settle();
        settled.with_context(|| format!("cannot restore {}", directory.topic.display()))?;
        Ok(directory)
    }

    pub(super) fn exists(&self) -> bool {
        self.topic.exists()
    }

    /// The name of a topic that was begun, from the name of its draft.
    pub(super) fn topic_of_draft(directory: &str) -> Option<&str> {
        directory.strip_prefix('.')?.strip_suffix(".draft")
    }

    /// Everything that was recorded for the topic and for its draft; none if there is nothing to read.
    ///
    /// A process that is killed may leave a recording with half a record at its end, or an empty one.
    pub(super) fn recorded(&self, settings: &FetchSettings) -> anyhow::Result<Option<Archive>> {
        let mut settings = settings.clone();
        settings.archive.keep_index = false;
        settings.archive.damaged = DamagePolicy::Salvage;
        let mut files = Vec::new();
        for (_, file) in self.recordings()? {
            match Archive::open(&[&file], &settings) {
                Ok(archive) if archive.sites().next().is_some() => files.push(file),
                Ok(_) | Err(ArchiveError::NotAnArchive { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if files.is_empty() {
            return Ok(None);
        }
        Ok(Some(Archive::open(&files, &settings)?))
    }

    /// Makes the draft, or goes on with the one that is there.
    pub(super) fn draft(&self) -> anyhow::Result<Draft<'_>> {
        let is_first = !self.models.exists();
        fs::create_dir_all(&self.draft)
            .with_context(|| format!("cannot make the directory {}", self.draft.display()))?;
        let opened = fs::File::open(&self.draft);
        let lock = opened.with_context(|| format!("cannot open {}", self.draft.display()))?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => bail!(
                "another command is working on {}: wait until it is done",
                self.topic.display()
            ),
            // Where directories cannot be locked, two commands on one topic may hinder each other.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        Ok(Draft {
            directory: self,
            is_first,
            _lock: lock,
        })
    }

    /// The recordings with their numbers, in order.
    fn recordings(&self) -> anyhow::Result<Vec<(u32, PathBuf)>> {
        let mut recordings = Vec::new();
        for directory in [&self.topic, &self.draft] {
            for path in entries(directory)? {
                let number = path.file_name().and_then(|name| {
                    let number = name.to_str()?.strip_prefix(RECORDING.0)?;
                    number.strip_suffix(RECORDING.1)?.parse().ok()
                });
                recordings.extend(number.map(|number| (number, path)));
            }
        }
        recordings.sort();
        Ok(recordings)
    }

    /// Completes or undoes a replacement that was interrupted.
    fn settle(&self) -> io::Result<()> {
        if !self.before.exists() {
            return Ok(());
        }
        let _lock = self.lock();
        self.settle_locked()
    }

    fn settle_locked(&self) -> io::Result<()> {
        if !self.before.exists() {
            return Ok(());
        }
        if !self.topic.exists() {
            return fs::rename(&self.before, &self.topic);
        }
        for old in entries(&self.before)? {
            let name = old.file_name().unwrap_or_default();
            let new = self.topic.join(name);
            if new.exists() {
                fs::remove_file(old)?;
            } else {
                fs::rename(old, new)?;
            }
        }
        fs::remove_dir(&self.before)
    }

    /// Keeps other processes from replacing topics, until the result is dropped. Where that is not
    /// possible, two commands that change one topic in the same moment may hinder each other.
    fn lock(&self) -> Option<fs::File> {
        let models = fs::File::open(&self.models).ok()?;
        models.lock().ok()?;
        Some(models)
    }
}

/// What is in a directory; nothing if there is none.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

// === impl Draft ===

impl Draft<'_> {
    /// The name of a further recording.
    pub(super) fn next_recording(&self) -> anyhow::Result<PathBuf> {
        let last = self.directory.recordings()?.last().map(|(last, _)| *last);
        let number = last.unwrap_or_default() + 1;
        let (start, end) = RECORDING;
        Ok(self.directory.draft.join(format!("{start}{number}{end}")))
    }

    /// Whether anything was recorded, in this run or an earlier one.
    pub(super) fn has_recordings(&self) -> bool {
        let draft = &self.directory.draft;
        entries(draft).is_ok_and(|entries| !entries.is_empty())
    }

    /// Writes the files and puts the draft in the place of the topic, whose other files it inherits.
    pub(super) fn complete(self, files: &[(&str, &[u8])]) -> anyhow::Result<()> {
        let directory = self.directory;
        for (name, bytes) in files {
            sources::write_whole(&directory.draft.join(name), bytes)?;
        }
        let replace = || {
            sync_directory(&directory.draft)?;
            let _lock = directory.lock();
            if directory.topic.exists() {
                fs::rename(&directory.topic, &directory.before)?;
            }
            fs::rename(&directory.draft, &directory.topic)?;
            sync_directory(&directory.models)?;
            directory.settle_locked()
        };
        replace().with_context(|| format!("cannot write {}", directory.topic.display()))
    }
}

impl Drop for Draft<'_> {
    /// Both are removed only if they are empty.
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory.draft);
        if self.is_first {
            let _ = fs::remove_dir(&self.directory.models);
        }
    }
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, name: &str, content: &str) {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join(name), content).unwrap();
    }

    fn read(directory: &TopicDirectory, name: &str) -> Option<String> {
        fs::read_to_string(directory.topic.join(name)).ok()
    }

    fn names(directory: &Path) -> Vec<PathBuf> {
        let mut names = entries(directory).unwrap();
        names.sort();
        names
    }

    #[test]
    fn a_draft_takes_the_place_of_a_topic_and_inherits_its_other_files() {
        let models = tempfile::tempdir().unwrap();
        let directory = TopicDirectory::open(models.path(), "x").unwrap();
        write(&directory.topic, "notes.txt", "mine");
        write(&directory.topic, "card.md", "old");
        fs::create_dir(directory.topic.join("more")).unwrap();
        let draft = directory.draft().unwrap();
        draft.complete(&[("card.md", b"new")]).unwrap();
        assert_eq!(read(&directory, "notes.txt").as_deref(), Some("mine"));
        assert_eq!(read(&directory, "card.md").as_deref(), Some("new"));
        assert!(directory.topic.join("more").is_dir());
        assert_eq!(names(models.path()), [directory.topic]);
    }

    #[test]
    fn an_interrupted_replacement_is_completed_or_undone() {
        let models = tempfile::tempdir().unwrap();
        let open = || TopicDirectory::open(models.path(), "x").unwrap();
        let directory = open();
        write(&directory.before, "card.md", "old");
        write(&directory.before, "notes.txt", "mine");
        write(&directory.draft, "card.md", "new");
        // Before the draft took its place.
        assert_eq!(read(&open(), "card.md").as_deref(), Some("old"));
        // And after it had.
        fs::rename(&directory.topic, &directory.before).unwrap();
        fs::rename(&directory.draft, &directory.topic).unwrap();
        assert_eq!(read(&open(), "card.md").as_deref(), Some("new"));
        assert_eq!(read(&directory, "notes.txt").as_deref(), Some("mine"));
        assert_eq!(names(models.path()), [directory.topic]);
    }

    #[test]
    fn a_topic_is_worked_on_by_one_command_at_a_time() {
        let models = tempfile::tempdir().unwrap();
        let directory = TopicDirectory::open(models.path(), "x").unwrap();
        let draft = directory.draft().unwrap();
        let refused = directory.draft().unwrap_err().to_string();
        assert!(
            refused.contains("another command is working on"),
            "{refused}"
        );
        draft.complete(&[("card.md", b"new")]).unwrap();
        assert_eq!(read(&directory, "card.md").as_deref(), Some("new"));
        drop(directory.draft().unwrap());
        assert_eq!(names(models.path()), [directory.topic]);
    }

    #[test]
    fn a_draft_without_content_leaves_no_trace() {
        let place = tempfile::tempdir().unwrap();
        let models = place.path().join("site-models");
        let directory = TopicDirectory::open(&models, "x").unwrap();
        drop(directory.draft().unwrap());
        assert!(!models.exists());
        let draft = directory.draft().unwrap();
        let first = draft.next_recording().unwrap();
        assert!(first.ends_with("sites-1.warc.gz"));
        fs::write(first, "").unwrap();
        assert!(draft.next_recording().unwrap().ends_with("sites-2.warc.gz"));
        drop(draft);
        assert!(directory.draft.exists(), "it has a recording");
        assert!(
            directory
                .recorded(&FetchSettings::default())
                .unwrap()
                .is_none()
        );
    }
}
