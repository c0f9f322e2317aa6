//! Websites from WARC archives.
//!
//! How a page is read: one pass over each file ([`scan`](self)) finds the records
//! that captured pages and builds an index, which is saved beside the file. A look-up goes
//! from the page's key through the index to one record, decompresses that record alone,
//! removes the HTTP encodings and returns a `FetchedPage`.
//!
//! Rules: the scheme and `www.` do not matter in look-ups. Of several captures the newest
//! is served. A redirect that only changes scheme or `www.` is left out, since here it
//! would lead to itself. For a revisit, the record it refers to is served. A host that no
//! record mentions is unreachable; a page that a known host lacks is a 404.
//!
//! Invariant: an archive is never loaded into memory. Resident are 72 bytes for each capture, the
//! names of the sites, and what is being read.

mod capture;
mod file;
mod index;
mod problem;
mod record;
mod salvage;
mod scan;
mod stream;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use http::StatusCode;

use crate::config::{DamagePolicy, FetchSettings};
use crate::web::{FetchedPage, PageUrl, SiteId};

use super::{FetchError, Fetcher};
pub(crate) use capture::Capture;
use capture::{not_found, read_http_head, read_resource, read_response};
use file::ArchiveFile;
use index::{IndexEntry, MAX_PROBLEMS};
pub use problem::ArchiveError;
pub(crate) use problem::{ArchiveProblem, ArchiveProblemKind};
use record::RecordType;
use scan::Scan;

/// One or more WARC files, as one web. Clones share the files.
#[derive(Debug, Clone)]
pub struct Archive {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    files: Vec<ArchiveFile>,
    /// Sorted by key; captures of one page in the order in which they are to be tried.
    captures: Vec<(IndexEntry, u32)>,
    /// For revisits: where in `captures` a payload digest was seen first.
    by_digest: HashMap<u64, usize>,
    /// Pages of each site; a page counts once, however often it was captured.
    sites: BTreeMap<SiteId, u64>,
    records: u64,
    other_schemes: BTreeMap<String, u64>,
    problems: Vec<(PathBuf, ArchiveProblem)>,
    more_problems: u64,
    first_damage: Option<(PathBuf, ArchiveProblem)>,
    body_limit: usize,
}

/// As documented above.
const _: () = assert!(size_of::<(IndexEntry, u32)>() == 72);

// === impl Archive ===

impl Archive {
    /// Opens archives, reading each once if it has no saved index.
    pub fn open(
        paths: &[impl AsRef<Path>],
        settings: &FetchSettings,
    ) -> Result<Self, ArchiveError> {
        let mut inner = Inner {
            files: Vec::new(),
            captures: Vec::new(),
            by_digest: HashMap::new(),
            sites: BTreeMap::new(),
            records: 0,
            other_schemes: BTreeMap::new(),
            problems: Vec::new(),
            more_problems: 0,
            first_damage: None,
            body_limit: settings.body_bytes,
        };
        let mut sites = Vec::new();
        for path in paths {
            sites.push(inner.add(path.as_ref(), settings)?);
        }
        inner.captures.sort_by_key(|(entry, file)| {
            let newest_first = std::cmp::Reverse((entry.date, *file, entry.position));
            (entry.key, entry.leads_to_itself, newest_first)
        });
        inner.count_pages(&sites);
        inner.index_digests();
        inner.remark_lost_revisits();
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// All sites, with the number of pages of each.
    pub fn sites(&self) -> impl Iterator<Item = (&SiteId, u64)> {
        self.inner.sites.iter().map(|(site, pages)| (site, *pages))
    }

    /// How many records the files hold, of all types.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.inner.records
    }

    /// How many records captured something which is no page, by scheme: `ftp`, `dns`.
    pub fn other_schemes(&self) -> impl Iterator<Item = (&str, u64)> {
        let schemes = self.inner.other_schemes.iter();
        schemes.map(|(scheme, records)| (scheme.as_str(), *records))
    }

    /// The first damage of the first damaged file; it may be beyond the problems listed.
    #[must_use]
    pub fn first_damage(&self) -> Option<(&Path, &ArchiveProblem)> {
        let (path, problem) = self.inner.first_damage.as_ref()?;
        Some((path, problem))
    }

    /// How many problems there are beyond those listed.
    #[must_use]
    pub fn more_problems(&self) -> u64 {
        self.inner.more_problems
    }

    /// The problems, file by file; at most a thousand of one file.
    #[must_use]
    pub fn problems(&self) -> &[(PathBuf, ArchiveProblem)] {
        &self.inner.problems
    }

    /// Reads through all files again and yields every capture of a page, in the order of the
    /// files; unreadable ones are left out.
    pub fn captures(&self) -> impl Iterator<Item = Result<Capture, ArchiveError>> {
        self.inner.files.iter().flat_map(|file| {
            let unreadable = |source| file.unreadable(source);
            let scan = Scan::new(&file.source).map_err(unreadable);
            let (scan, error) = match scan {
                Ok(scan) => (Some(scan), None),
                Err(error) => (None, Some(Err(error))),
            };
            let captures = scan
                .into_iter()
                .flatten()
                .filter_map(move |scanned| match scanned {
                    Ok(scanned) => scanned.capture.map(Ok),
                    Err(source) => Some(Err(unreadable(source))),
                });
            captures.chain(error)
        })
    }

    /// The page as it was captured last, or nothing if the archive does not hold it.
    pub fn read(&self, url: &PageUrl) -> Result<Option<FetchedPage>, ArchiveError> {
        for capture in self.inner.captures_of(url.key().get()) {
            if capture.0.leads_to_itself {
                break;
            }
            if let Some(page) = self.inner.read_capture(capture, url)? {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// Whether any record is of this site.
    #[must_use]
    pub(crate) fn has_site(&self, site: &SiteId) -> bool {
        self.inner.sites.contains_key(site)
    }
}

#[async_trait]
impl Fetcher for Archive {
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
        let site = page.site();
        if !self.has_site(&site) {
            return Err(FetchError::no_host(&site));
        }
        let (archive, url) = (self.clone(), page.clone());
        // Disk and decompression may take long enough to block other visits.
        let reading = tokio::task::spawn_blocking(move || archive.read(&url));
        match reading.await {
            Ok(found) => Ok(found?.unwrap_or_else(|| not_found(page))),
            Err(failure) if failure.is_panic() => std::panic::resume_unwind(failure.into_panic()),
            // The runtime is shutting down; the result is not used.
            Err(_) => Err(FetchError::no_host(&site)),
        }
    }
}

// === impl Inner ===

impl Inner {
    /// Adds a file and returns the sites it numbers.
    fn add(&mut self, path: &Path, settings: &FetchSettings) -> Result<Vec<SiteId>, ArchiveError> {
        let file = ArchiveFile::open(path)?;
        let index = file.index(settings.archive.keep_index)?;
        if index.records == 0 {
            return Err(file.not_an_archive());
        }
        if let Some(problem) = index.first_damage {
            if settings.archive.damaged == DamagePolicy::Refuse {
                return Err(ArchiveError::Damaged {
                    path: path.to_owned(),
                    problem,
                });
            }
            self.first_damage.get_or_insert((path.to_owned(), problem));
        }
        let number = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        self.captures
            .extend(index.entries.into_iter().map(|entry| (entry, number)));
        let sites: Result<Vec<SiteId>, _> = index.sites.iter().map(|site| site.parse()).collect();
        let sites = sites.map_err(|_| file.changed())?;
        self.records += index.records;
        self.more_problems += index.more_problems;
        for (scheme, records) in index.other_schemes {
            *self.other_schemes.entry(scheme).or_default() += records;
        }
        let problems = index.problems.into_iter();
        self.problems
            .extend(problems.map(|problem| (path.to_owned(), problem)));
        self.files.push(file);
        Ok(sites)
    }

    /// Counts each page once; the captures are sorted, so those of one page are adjacent.
    fn count_pages(&mut self, sites: &[Vec<SiteId>]) {
        for same_page in self
            .captures
            .chunk_by(|(one, _), (next, _)| one.key == next.key)
        {
            let (entry, file) = same_page[0];
            if let Some(site) = sites[file as usize].get(entry.site as usize) {
                *self.sites.entry(site.clone()).or_default() += 1;
            }
        }
    }

    fn captures_of(&self, key: u64) -> &[(IndexEntry, u32)] {
        let start = self.captures.partition_point(|(entry, _)| entry.key < key);
        let end = self.captures.partition_point(|(entry, _)| entry.key <= key);
        &self.captures[start..end]
    }

    /// The page of one capture, or nothing if the capture is of another page with the same
    /// key, or a revisit of something that is not here.
    fn read_capture(
        &self,
        (entry, file): &(IndexEntry, u32),
        url: &PageUrl,
    ) -> Result<Option<FetchedPage>, ArchiveError> {
        if entry.is_revisit {
            return self.read_revisit((entry, *file), url);
        }
        let file = &self.files[*file as usize];
        let (record, mut stream) = file.record_at(entry)?;
        let recorded = record.address("warc-target-uri").unwrap_or_default();
        match recorded.parse::<PageUrl>() {
            Ok(recorded) if recorded.key().get() != entry.key => return Err(file.changed()),
            Ok(recorded) if entry.key == url.key().get() && !recorded.is_same_page(url) => {
                return Ok(None);
            }
            Ok(_) => {}
            Err(_) => return Err(file.changed()),
        }
        let mut block = record.block(&mut stream);
        match record.record_type() {
            RecordType::Response => read_response(&record, &mut block, url, self.body_limit)
                .map_err(|error| file.damaged(entry, record::compression(&error))),
            RecordType::Resource => {
                let page = read_resource(&record, &mut block, url, self.body_limit);
                Ok(Some(page))
            }
            RecordType::Revisit | RecordType::Other => Err(file.changed()),
        }
    }

    /// The content of the original under the status and headers of the revisit, which may
    /// be another redirect with the same empty body. A revisit with
    /// status 304 gets those of the original.
    fn read_revisit(
        &self,
        (entry, file): (&IndexEntry, u32),
        url: &PageUrl,
    ) -> Result<Option<FetchedPage>, ArchiveError> {
        let Some(original) = self.original_of(entry) else {
            return Ok(None);
        };
        let page = self.read_capture(original, url)?;
        let file = &self.files[file as usize];
        let (record, mut stream) = file.record_at(entry)?;
        let head = read_http_head(&mut record.block(&mut stream))
            .map_err(|error| file.damaged(entry, record::compression(&error)))?;
        Ok(match (page, head) {
            (Some(page), Some((status, head))) if status != StatusCode::NOT_MODIFIED => {
                Some(FetchedPage {
                    status,
                    headers: head.fields,
                    ..page
                })
            }
            (page, _) => page,
        })
    }

    /// The capture that a revisit refers to: of the page and time it names; else the latest
    /// of that page before it, or the first after; else any with the same payload digest.
    fn original_of(&self, revisit: &IndexEntry) -> Option<&(IndexEntry, u32)> {
        let is_same_payload = |other: &IndexEntry| {
            revisit.digest == 0 || other.digest == 0 || other.digest == revisit.digest
        };
        // The newest comes first.
        let mut of_page = self
            .captures_of(revisit.refers_to)
            .iter()
            .filter(|(other, _)| other.is_content() && is_same_payload(other));
        let named = of_page
            .clone()
            .find(|(other, _)| other.date == revisit.refers_to_date);
        let before = of_page
            .clone()
            .find(|(other, _)| other.date <= revisit.date);
        named
            .or(before)
            .or_else(|| of_page.next_back())
            .or_else(|| {
                let at = self.by_digest.get(&revisit.digest)?;
                self.captures.get(*at)
            })
    }

    /// Only revisits need digests, and most archives have none.
    fn index_digests(&mut self) {
        if !self.captures.iter().any(|(entry, _)| entry.is_revisit) {
            return;
        }
        for (at, (entry, _)) in self.captures.iter().enumerate() {
            if entry.digest != 0 && entry.is_content() {
                self.by_digest.entry(entry.digest).or_insert(at);
            }
        }
    }

    fn remark_lost_revisits(&mut self) {
        let is_lost =
            |(entry, _): &&(IndexEntry, u32)| entry.is_revisit && self.original_of(entry).is_none();
        let mut lost: Vec<(IndexEntry, u32)> =
            self.captures.iter().filter(is_lost).copied().collect();
        lost.sort_by_key(|(entry, file)| (*file, entry.position));
        for (at, (entry, file)) in lost.iter().enumerate() {
            if at == MAX_PROBLEMS {
                self.more_problems += (lost.len() - at) as u64;
                break;
            }
            let file = &self.files[*file as usize];
            let record = file.record_at(entry).ok();
            let url = record.and_then(|(record, _)| record.address("warc-target-uri"));
            let kind = ArchiveProblemKind::LostRevisit(url.unwrap_or_default());
            self.problems
                .push((file.path.clone(), file.problem(entry, kind)));
        }
    }
}
