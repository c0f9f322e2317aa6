//! Websites out of WARC archives: the web as somebody recorded it.
//!
//! The life of a page in here: one pass over each file ([`scan`](self)) finds the records
//! that captured pages and builds an index, which is kept beside the file. A look-up goes
//! from the page's key through the index to one record, decompresses that record alone,
//! takes off the HTTP encodings and hands back a `FetchedPage`.
//!
//! Rules: the scheme and `www.` do not matter in look-ups. Of several captures the newest
//! is served. A redirect that only changes scheme or `www.` is left out, since here it
//! would lead to itself. A revisit is answered with the record it refers to. A host that no
//! record mentions is unreachable; a page that a known host lacks is a 404.
//!
//! Invariant: an archive is never in memory. Resident are 64 bytes for each capture, the
//! names of the sites, and what is being read.

mod capture;
mod file;
mod index;
mod problem;
mod record;
mod salvage;
mod scan;
mod stream;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use crate::config::{DamagePolicy, FetchSettings};
use crate::web::{FetchedPage, PageUrl, SiteId};

use super::{FetchError, Fetcher};
pub use capture::{Capture, CaptureKind};
use capture::{not_found, read_resource, read_response, timestamp};
use file::ArchiveFile;
use index::Entry;
pub use problem::{ArchiveError, Problem, ProblemKind};
use record::{Record, RecordType};
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
    captures: Vec<(Entry, u32)>,
    /// Pages of each site; a page counts once, however often it was captured.
    sites: BTreeMap<SiteId, u64>,
    records: u64,
    other_schemes: BTreeMap<String, u64>,
    problems: Vec<(PathBuf, Problem)>,
    more_problems: u64,
    body_limit: usize,
}

// === impl Archive ===

impl Archive {
    /// Opens archives, reading each once if no index of it is kept.
    pub fn open(
        paths: &[impl AsRef<Path>],
        settings: &FetchSettings,
    ) -> Result<Self, ArchiveError> {
        let mut inner = Inner {
            files: Vec::new(),
            captures: Vec::new(),
            sites: BTreeMap::new(),
            records: 0,
            other_schemes: BTreeMap::new(),
            problems: Vec::new(),
            more_problems: 0,
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

    /// How many problems there are beyond those listed.
    #[must_use]
    pub fn more_problems(&self) -> u64 {
        self.inner.more_problems
    }

    /// What is wrong, file by file; of a file of rubbish only the first thousand problems.
    #[must_use]
    pub fn problems(&self) -> &[(PathBuf, Problem)] {
        &self.inner.problems
    }

    /// Reads through all files again and gives every capture of a page, in the order of the
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
        for (entry, file) in self.inner.captures_of(url.key().get()) {
            if entry.leads_to_itself {
                break;
            }
            if let Some(page) = self.inner.read_capture(*file, entry, url)? {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// Whether any record is of this site.
    #[must_use]
    pub fn has_site(&self, site: &SiteId) -> bool {
        self.inner.sites.contains_key(site)
    }
}

#[async_trait]
impl Fetcher for Archive {
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
        let site = page.site();
        if !self.has_site(&site) {
            return Err(FetchError::Unreachable(site));
        }
        let (archive, url) = (self.clone(), page.clone());
        // Disk and decompression may take long enough to hold up other visits.
        let reading = tokio::task::spawn_blocking(move || archive.read(&url));
        match reading.await {
            Ok(found) => Ok(found?.unwrap_or_else(|| not_found(page))),
            Err(failure) if failure.is_panic() => std::panic::resume_unwind(failure.into_panic()),
            // The runtime is shutting down; nobody will look at the answer.
            Err(_) => Err(FetchError::Unreachable(site)),
        }
    }
}

// === impl Inner ===

impl Inner {
    /// Adds a file and returns the sites it numbers.
    fn add(&mut self, path: &Path, settings: &FetchSettings) -> Result<Vec<SiteId>, ArchiveError> {
        let file = ArchiveFile::open(path)?;
        let index = file.index(settings.archive.keep_index)?;
        let damage = index
            .problems
            .iter()
            .find(|problem| problem.kind.is_damage());
        if index.records == 0 {
            return Err(file.not_an_archive());
        }
        if let Some(problem) = damage
            && settings.archive.damaged == DamagePolicy::Refuse
        {
            return Err(ArchiveError::Damaged {
                path: path.to_owned(),
                problem: problem.clone(),
            });
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

    /// Counts each page once; captures of one page stand together by now.
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

    fn captures_of(&self, key: u64) -> &[(Entry, u32)] {
        let start = self.captures.partition_point(|(entry, _)| entry.key < key);
        let end = self.captures.partition_point(|(entry, _)| entry.key <= key);
        &self.captures[start..end]
    }

    /// The page of one capture, or nothing if the capture is of another page with the same
    /// key, or a revisit of something that is not here.
    fn read_capture(
        &self,
        file: u32,
        entry: &Entry,
        url: &PageUrl,
    ) -> Result<Option<FetchedPage>, ArchiveError> {
        let file = &self.files[file as usize];
        let mut stream = file
            .source
            .stream_at(entry.position)
            .map_err(|error| file.unreadable(error))?;
        let record = match Record::read(&mut stream) {
            Ok(Some(record)) => record,
            Ok(None) => return Err(file.changed()),
            Err((_, kind)) => return Err(file.damaged(entry, kind)),
        };
        let recorded = record.address("warc-target-uri").unwrap_or_default();
        match recorded.parse::<PageUrl>() {
            Ok(recorded) if recorded.is_same_page(url) => {}
            Ok(recorded) if recorded.key().get() == entry.key => return Ok(None),
            _ => return Err(file.changed()),
        }
        let mut block = record.block(&mut stream);
        match record.record_type() {
            RecordType::Response => read_response(&mut block, url, self.body_limit)
                .map_err(|error| file.damaged(entry, record::compression(&error))),
            RecordType::Resource => Ok(Some(read_resource(
                &record,
                &mut block,
                url,
                self.body_limit,
            ))),
            RecordType::Revisit => match self.original_of(&record, entry) {
                Some((original, number, original_url)) => {
                    let page = self.read_capture(number, &original, &original_url)?;
                    Ok(page.map(|page| FetchedPage {
                        url: url.clone(),
                        ..page
                    }))
                }
                None => Ok(None),
            },
            RecordType::Other => Err(file.changed()),
        }
    }

    /// The capture that a revisit refers to: of the page it names, at the time it names if
    /// possible; else any with the same payload digest.
    fn original_of(&self, revisit: &Record, entry: &Entry) -> Option<(Entry, u32, PageUrl)> {
        let named = revisit.address("warc-refers-to-target-uri");
        let own = revisit.address("warc-target-uri");
        let url: PageUrl = named.or(own)?.parse().ok()?;
        let date = timestamp(&revisit.field("warc-refers-to-date").unwrap_or_default());
        let originals = |(entry, _): &&(Entry, u32)| !entry.is_revisit && !entry.leads_to_itself;
        let of_page = self
            .captures_of(url.key().get())
            .iter()
            .filter(originals)
            .filter(|(other, _)| {
                entry.digest == 0 || other.digest == 0 || other.digest == entry.digest
            })
            .min_by_key(|(other, _)| other.date.abs_diff(date));
        if let Some((original, file)) = of_page {
            return Some((*original, *file, url));
        }
        let of_digest = self
            .captures
            .iter()
            .filter(originals)
            .find(|(other, _)| entry.digest != 0 && other.digest == entry.digest)?;
        let (original, file) = *of_digest;
        Some((original, file, self.address_of(file, &original)?))
    }

    fn address_of(&self, file: u32, entry: &Entry) -> Option<PageUrl> {
        let mut stream = self.files[file as usize]
            .source
            .stream_at(entry.position)
            .ok()?;
        let record = Record::read(&mut stream).ok()??;
        record.address("warc-target-uri")?.parse().ok()
    }

    fn remark_lost_revisits(&mut self) {
        let mut lost: Vec<(PathBuf, Problem)> = Vec::new();
        for (entry, number) in self.captures.iter().filter(|(entry, _)| entry.is_revisit) {
            let file = &self.files[*number as usize];
            let Ok(mut stream) = file.source.stream_at(entry.position) else {
                continue;
            };
            let Ok(Some(record)) = Record::read(&mut stream) else {
                continue;
            };
            if self.original_of(&record, entry).is_none() {
                let url = record.address("warc-target-uri").unwrap_or_default();
                let problem = Problem {
                    offset: entry.position.file_offset(file.source.compression),
                    kind: ProblemKind::LostRevisit(url),
                };
                lost.push((file.path.clone(), problem));
            }
        }
        lost.sort_by(|(one, first), (other, second)| {
            (one, first.offset).cmp(&(other, second.offset))
        });
        self.problems.append(&mut lost);
    }
}
