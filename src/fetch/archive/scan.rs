//! One pass over an archive file, record by record.
//!
//! Damage does not end the pass: it is reported, and the pass goes on where the next
//! record seems to begin. The caller decides whether that is good enough.

use std::io;

use crate::web::{PageUrl, UrlError};

use super::capture::{Capture, CaptureKind, read_http_head};
use super::problem::{ArchiveProblem, ArchiveProblemKind};
use super::record::{ArchiveRecord, RecordBlock, RecordType, compression};
use super::salvage::MAX_TRIES;
use super::stream::{ArchiveSource, ArchiveStream, Compression, Position};

/// Maximum length of HTTP headers. Anything beyond counts as body.
pub(super) const MAX_HTTP_HEAD_BYTES: u64 = 256 * 1024;

/// A pass over one file.
pub(super) struct Scan<'a> {
    source: &'a ArchiveSource,
    /// None after the end.
    stream: Option<ArchiveStream>,
    /// How many more places may be tried after damage.
    tries: u32,
    /// Still to be reported: the tries are used up.
    gave_up: Option<ArchiveProblem>,
}

/// What one step of the pass found.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// The record, if it is of a page.
    pub(super) capture: Option<Capture>,
    /// Whether there was a record of any type.
    pub(super) is_record: bool,
    /// The scheme of a record that captured something other than a page: `ftp`, `dns`.
    pub(super) other_scheme: Option<String>,
    /// What is wrong here.
    pub(super) problem: Option<ArchiveProblem>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(source: &'a ArchiveSource) -> io::Result<Self> {
        let start = Position {
            member: 0,
            inside: 0,
        };
        let stream = match source.stream_at(start) {
            Ok(stream) => Some(stream),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            source,
            stream,
            tries: MAX_TRIES,
            gave_up: None,
        })
    }

    fn resume_after(&mut self, damaged: Position) -> io::Result<()> {
        let found = self.source.resume_after(damaged, &mut self.tries)?;
        self.stream = match found {
            Some(position) => Some(self.source.stream_at(position)?),
            None => None,
        };
        if self.tries == 0 && self.stream.is_none() {
            self.gave_up = Some(self.problem(damaged, ArchiveProblemKind::GaveUp));
        }
        Ok(())
    }

    fn problem(&self, position: Position, kind: ArchiveProblemKind) -> ArchiveProblem {
        ArchiveProblem {
            offset: position.file_offset(self.source.compression),
            kind,
        }
    }

    fn step(&mut self) -> io::Result<Option<Scanned>> {
        let Some(stream) = &mut self.stream else {
            return Ok(self.gave_up.take().map(|problem| Scanned {
                problem: Some(problem),
                ..Scanned::default()
            }));
        };
        let record = match ArchiveRecord::read(stream) {
            Ok(Some(record)) => record,
            Ok(None) => {
                self.stream = None;
                return Ok(None);
            }
            Err((position, kind)) => {
                let problem = self.problem(position, kind);
                self.resume_after(position)?;
                return Ok(Some(Scanned {
                    problem: Some(problem),
                    ..Scanned::default()
                }));
            }
        };
        let mut block = record.block(stream);
        let mut scanned = Scanned {
            is_record: true,
            ..Scanned::default()
        };
        let remark = read_capture(&record, &mut block, &mut scanned).err();
        let damage = match pass_over(self.source, &mut block) {
            Err(error) => Some(compression(&error)),
            Ok(0) => None,
            Ok(missing) => Some(ArchiveProblemKind::Truncated {
                announced: record.length,
                found: record.length - missing,
            }),
        };
        let is_damaged = damage.is_some();
        scanned.problem = damage
            .or(remark)
            .map(|kind| self.problem(record.position, kind));
        if is_damaged {
            self.resume_after(record.position)?;
        }
        Ok(Some(scanned))
    }
}

impl Iterator for Scan<'_> {
    type Item = io::Result<Scanned>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// Skips the rest of a block and returns how many announced bytes are missing. Where a plain file is
/// too short nothing is skipped, or wrong lengths would make the pass read the file again and again.
fn pass_over(source: &ArchiveSource, block: &mut RecordBlock<'_>) -> io::Result<u64> {
    if source.compression == Compression::None {
        let there = source.size()?.saturating_sub(block.position().inside);
        if block.left() > there {
            return Ok(block.left() - there);
        }
    }
    block.skip()?;
    Ok(block.left())
}

/// Returns what the record captured, if anything, or why it cannot be used.
fn read_capture(
    record: &ArchiveRecord,
    block: &mut RecordBlock<'_>,
    scanned: &mut Scanned,
) -> Result<(), ArchiveProblemKind> {
    let kind = match record.record_type() {
        RecordType::Response => CaptureKind::Response,
        RecordType::Resource => CaptureKind::Resource,
        RecordType::Revisit => CaptureKind::Revisit,
        RecordType::Other => return Ok(()),
    };
    let address = record
        .address("warc-target-uri")
        .ok_or_else(|| ArchiveProblemKind::Address("WARC-Target-URI is missing".to_owned()))?;
    let url: PageUrl = match address.parse() {
        Ok(url) => url,
        Err(UrlError::Scheme(scheme)) => {
            scanned.other_scheme = Some(scheme);
            return Ok(());
        }
        Err(error) => return Err(ArchiveProblemKind::Address(error.to_string())),
    };
    let has_http = record.is_http() && kind != CaptureKind::Resource;
    // A block that cannot be read is reported when it is skipped.
    let http = if has_http {
        read_http_head(block).unwrap_or_default()
    } else {
        None
    };
    if kind == CaptureKind::Response && http.is_none() {
        return Err(ArchiveProblemKind::NoHttp);
    }
    let (status, head) = http.unzip();
    let head = head.unwrap_or_default();
    scanned.capture = Some(Capture::new(record, kind, url, status, &head));
    Ok(())
}
