//! The index of an archive file: the position of each page.
//!
//! Built in one pass and saved beside the file as `FILE.scoutindex`, so that the next start
//! does not have to read the archive again. It holds hashes and offsets, no URLs: the
//! record itself names its page.
//!
//! Invariant: an index is used only with the file it was made from: size, time of change
//! and a hash of both ends must agree, and a checksum covers the index itself.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::web::{CANONICAL_FORM, SiteId};

use super::capture::{Capture, CaptureKind};
use super::problem::{ArchiveProblem, ArchiveProblemKind};
use super::scan::Scan;
use super::stream::{ArchiveSource, Compression, Position};

/// Format version; changes whenever the format after it does.
const MAGIC: &[u8; 16] = b"sitescout-index1";

/// Maximum number of problems listed by one kind of check.
pub(super) const MAX_PROBLEMS: usize = 1_000;

/// How many bytes of each end of the archive are hashed into its stamp.
const SAMPLE_BYTES: u64 = 64 * 1024;

/// What is known of one archive file without reading it again.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Index {
    stamp: Stamp,
    /// Version of the URL normalisation by which the keys were computed.
    canonical_form: u32,
    /// Every site of the archive.
    pub(super) sites: Vec<String>,
    /// One for each capture of a page, in the order of the file.
    pub(super) entries: Vec<IndexEntry>,
    /// Records of all types.
    pub(super) records: u64,
    /// Records that captured something other than a page, by scheme.
    pub(super) other_schemes: BTreeMap<String, u64>,
    pub(super) problems: Vec<ArchiveProblem>,
    /// Problems beyond those listed.
    pub(super) more_problems: u64,
    /// The first damage, listed or not.
    pub(super) first_damage: Option<ArchiveProblem>,
}

/// Where one capture lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexEntry {
    /// The `PageKey` of the page.
    pub(super) key: u64,
    /// Which of the index's sites the page belongs to.
    pub(super) site: u32,
    pub(super) position: Position,
    pub(super) date: u64,
    pub(super) digest: u64,
    /// The key of the page that a revisit refers to, and when that was captured if it says
    /// so; of no meaning otherwise.
    pub(super) refers_to: u64,
    pub(super) refers_to_date: u64,
    pub(super) is_revisit: bool,
    pub(super) leads_to_itself: bool,
}

/// What tells one archive file from another.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    size: u64,
    modified_nanos: u128,
    sample: u64,
}

// === impl Index ===

impl Index {
    /// Reads the whole archive once.
    pub(super) fn build(source: &ArchiveSource) -> io::Result<Self> {
        let mut index = Self {
            stamp: Stamp::of(source.file())?,
            canonical_form: CANONICAL_FORM,
            ..Self::default()
        };
        let mut numbers = HashMap::new();
        for scanned in Scan::new(source)? {
            let scanned = scanned?;
            index.records += u64::from(scanned.is_record);
            index.note(scanned.problem);
            if let Some(scheme) = scanned.other_scheme {
                *index.other_schemes.entry(scheme).or_default() += 1;
            }
            if let Some(capture) = scanned.capture {
                index.add(&capture, &mut numbers);
            }
        }
        index.remark_one_member(source.compression);
        Ok(index)
    }

    fn add(&mut self, capture: &Capture, numbers: &mut HashMap<SiteId, u32>) {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        let site = *numbers
            .entry(capture.url.site())
            .or_insert_with_key(|site| {
                self.sites.push(site.as_str().to_owned());
                next
            });
        self.entries.push(IndexEntry {
            key: capture.url.key().get(),
            site,
            position: capture.position,
            date: capture.date,
            digest: capture.digest,
            refers_to: capture.refers_to,
            refers_to_date: capture.refers_to_date,
            is_revisit: capture.kind == CaptureKind::Revisit,
            leads_to_itself: capture.leads_to_itself,
        });
    }

    /// A file of garbage has a problem at every byte, so the list is limited.
    fn note(&mut self, problem: Option<ArchiveProblem>) {
        let Some(problem) = problem else { return };
        if problem.kind.is_damage() && self.first_damage.is_none() {
            self.first_damage = Some(problem.clone());
        }
        match self.problems.len() {
            0..MAX_PROBLEMS => self.problems.push(problem),
            _ => self.more_problems += 1,
        }
    }

    fn remark_one_member(&mut self, compression: Compression) {
        let shared = self
            .entries
            .array_windows()
            .filter(|[one, next]| one.position.member == next.position.member)
            .count();
        if compression != Compression::None && shared * 2 > self.entries.len() {
            self.problems.push(ArchiveProblem {
                offset: 0,
                kind: ArchiveProblemKind::OneMember,
            });
        }
    }

    /// The index saved beside the archive, if it exists, is intact, and belongs to this file.
    pub(super) fn load(archive: &Path, source: &ArchiveSource) -> Option<Self> {
        let bytes = fs::read(index_path(archive)).ok()?;
        let rest = bytes.strip_prefix(MAGIC)?;
        let (checksum, body) = rest.split_first_chunk::<8>()?;
        if u64::from_le_bytes(*checksum) != xxh3_64(body) {
            return None;
        }
        let index: Self = postcard::from_bytes(body).ok()?;
        let is_current = index.canonical_form == CANONICAL_FORM
            && index.stamp == Stamp::of(source.file()).ok()?;
        is_current.then_some(index)
    }

    /// Saves the index beside the archive, atomically.
    pub(super) fn save(&self, archive: &Path) -> io::Result<()> {
        let path = index_path(archive);
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let body = postcard::to_stdvec(self).map_err(io::Error::other)?;
        // World-readable, subject to the umask: the next start may be by another user.
        let mut file = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o644))
            .tempfile_in(directory)?;
        file.write_all(MAGIC)?;
        file.write_all(&xxh3_64(&body).to_le_bytes())?;
        file.write_all(&body)?;
        file.persist(path)?;
        Ok(())
    }
}

fn index_path(archive: &Path) -> PathBuf {
    let mut name = archive.as_os_str().to_owned();
    name.push(".scoutindex");
    name.into()
}

// === impl IndexEntry ===

impl IndexEntry {
    /// Whether the record itself holds what the page shows.
    pub(super) fn is_content(&self) -> bool {
        !self.is_revisit && !self.leads_to_itself
    }
}

// === impl Stamp ===

impl Stamp {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let size = metadata.len();
        let modified_nanos = metadata
            .modified()?
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        let mut sample = Vec::new();
        for start in [0, size.saturating_sub(SAMPLE_BYTES)] {
            let mut end = vec![0; usize::try_from(SAMPLE_BYTES.min(size - start)).unwrap_or(0)];
            file.read_exact_at(&mut end, start)?;
            sample.extend(end);
        }
        Ok(Self {
            size,
            modified_nanos,
            sample: xxh3_64(&sample),
        })
    }
}
