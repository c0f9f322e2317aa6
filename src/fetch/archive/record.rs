//! One WARC record: a version line, named fields, a block of announced length.
//!
//! ISO 28500 in its versions 1.0 and 1.1, and the drafts before it (0.x), as warcio, wget,
//! Heritrix and Common Crawl write it.

use std::io::{self, BufRead, Read};

use crate::fetch::head::{Head, HeadError};

use super::problem::ArchiveProblemKind;
use super::stream::{ArchiveStream, Position, read_buffered};

/// Maximum length of a header; no known writer exceeds it.
const MAX_HEAD_BYTES: u64 = 64 * 1024;

/// A record whose fields have been read and whose block is next in the stream.
pub(super) struct ArchiveRecord {
    pub(super) position: Position,
    pub(super) length: u64,
    head: Head,
}

/// The block of a record; ends where the record says, whatever follows.
pub(super) struct RecordBlock<'a> {
    stream: &'a mut ArchiveStream,
    left: u64,
}

/// What kind of record it is, as far as it matters to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum RecordType {
    Response,
    Resource,
    Revisit,
    Other,
}

// === impl ArchiveRecord ===

impl ArchiveRecord {
    /// Reads the next record's fields, or nothing at the end of the archive.
    ///
    /// An error includes the position of the problem.
    pub(super) fn read(
        stream: &mut ArchiveStream,
    ) -> Result<Option<Self>, (Position, ArchiveProblemKind)> {
        let position = match skip_line_ends(stream) {
            Ok(true) => stream.position(),
            Ok(false) => return Ok(None),
            Err(error) => return Err((stream.position(), compression(&error))),
        };
        let head = match Head::read(stream, MAX_HEAD_BYTES) {
            Ok(head) => head,
            Err(error) => return Err((position, head_problem(error))),
        };
        if !is_version_line(&head.first_line) {
            return Err((position, ArchiveProblemKind::NoRecord));
        }
        let length = head.text("content-length");
        let Some(length) = length.and_then(|text| text.trim().parse().ok()) else {
            let reason = "Content-Length is missing or not a number".to_owned();
            return Err((position, ArchiveProblemKind::Header(reason)));
        };
        Ok(Some(Self {
            position,
            length,
            head,
        }))
    }

    pub(super) fn record_type(&self) -> RecordType {
        match self.head.text("warc-type").as_deref() {
            Some("response") => RecordType::Response,
            Some("resource") => RecordType::Resource,
            Some("revisit") => RecordType::Revisit,
            _ => RecordType::Other,
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<String> {
        self.head.text(name)
    }

    /// An address in a field. Old versions of wget put it into angle brackets.
    pub(super) fn address(&self, name: &str) -> Option<String> {
        let text = self.head.text(name)?;
        let text = text.trim();
        let bare = text
            .strip_prefix('<')
            .and_then(|text| text.strip_suffix('>'))
            .unwrap_or(text);
        Some(bare.to_owned())
    }

    /// Whether the block is an HTTP message.
    pub(super) fn is_http(&self) -> bool {
        self.head
            .text("content-type")
            .is_none_or(|value| value.to_ascii_lowercase().starts_with("application/http"))
    }

    pub(super) fn block<'a>(&self, stream: &'a mut ArchiveStream) -> RecordBlock<'a> {
        RecordBlock {
            stream,
            left: self.length,
        }
    }
}

/// Passes over what separates records; false at the end of the archive.
fn skip_line_ends(stream: &mut ArchiveStream) -> io::Result<bool> {
    loop {
        let bytes = stream.fill_buf()?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let ends = bytes
            .iter()
            .take_while(|byte| matches!(byte, b'\r' | b'\n'))
            .count();
        if ends == 0 {
            return Ok(true);
        }
        stream.consume(ends);
    }
}

fn is_version_line(line: &str) -> bool {
    line.strip_prefix("WARC/")
        .is_some_and(|version| version.starts_with("1.") || version.starts_with("0."))
}

pub(super) fn compression(error: &io::Error) -> ArchiveProblemKind {
    ArchiveProblemKind::Compression(match error.kind() {
        io::ErrorKind::UnexpectedEof => "it ends in the middle".to_owned(),
        _ => error.to_string(),
    })
}

fn head_problem(error: HeadError) -> ArchiveProblemKind {
    match error {
        HeadError::Read(error) => compression(&error),
        HeadError::Unfinished(head) | HeadError::TooLong(_, head)
            if !is_version_line(&head.first_line) =>
        {
            ArchiveProblemKind::NoRecord
        }
        other => ArchiveProblemKind::Header(other.to_string()),
    }
}

// === impl RecordBlock ===

impl RecordBlock<'_> {
    /// Passes over the rest.
    pub(super) fn skip(&mut self) -> io::Result<()> {
        while self.left > 0 {
            let available = self.fill_buf()?.len();
            if available == 0 {
                break;
            }
            self.consume(available);
        }
        Ok(())
    }

    /// Where the next byte lies.
    pub(super) fn position(&self) -> Position {
        self.stream.position()
    }

    /// How many announced bytes were not read.
    pub(super) fn left(&self) -> u64 {
        self.left
    }
}

impl BufRead for RecordBlock<'_> {
    /// Empty at the end of the block, and also where the next record begins too early.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.left == 0 {
            return Ok(&[]);
        }
        let limit = usize::try_from(self.left).unwrap_or(usize::MAX);
        self.stream.fill_buf()?;
        let is_next_record = self.stream.is_at_member_start();
        let bytes = self.stream.fill_buf()?;
        if is_next_record && bytes.starts_with(b"WARC/") {
            return Ok(&[]);
        }
        Ok(&bytes[..bytes.len().min(limit)])
    }

    fn consume(&mut self, amount: usize) {
        self.stream.consume(amount);
        self.left -= (amount as u64).min(self.left);
    }
}

impl Read for RecordBlock<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        read_buffered(self, out)
    }
}
