//! Finding the next record after damage.

use std::io::{self, BufRead, Read};

use crate::fetch::zstd;

use super::stream::{ArchiveSource, Compression, GZIP_MAGIC, Position};

/// Maximum number of positions tried in one file. Ordinary damage needs a handful; a malicious file
/// full of magic bytes would take for ever.
pub(super) const MAX_TRIES: u32 = 1_000;

impl ArchiveSource {
    /// The first place after `damaged` where a record seems to begin, if it is found before
    /// the tries are used up.
    pub(super) fn resume_after(
        &self,
        damaged: Position,
        tries: &mut u32,
    ) -> io::Result<Option<Position>> {
        let (magic, from): (&[u8], u64) = match self.compression {
            Compression::None => (b"WARC/", damaged.inside + 1),
            Compression::Gzip => (&GZIP_MAGIC, damaged.member + 1),
            Compression::Zstd => (&zstd::MAGIC, damaged.member + 1),
        };
        let mut from = from;
        while *tries > 0
            && let Some(found) = self.find(magic, from)?
        {
            *tries -= 1;
            let position = match self.compression {
                Compression::None => Position {
                    member: 0,
                    inside: found,
                },
                Compression::Gzip | Compression::Zstd => Position {
                    member: found,
                    inside: 0,
                },
            };
            if self.begins_record(position) {
                return Ok(Some(position));
            }
            from = found + 1;
        }
        Ok(None)
    }

    /// The magic bytes of a member also occur inside compressed data, and `WARC/` inside
    /// pages about archives: only what decompresses to a version line counts.
    fn begins_record(&self, position: Position) -> bool {
        let mut start = Vec::new();
        let Ok(stream) = self.stream_at(position) else {
            return false;
        };
        let read = stream.take(8).read_to_end(&mut start);
        read.is_ok()
            && matches!(
                start.as_slice(),
                [b'W', b'A', b'R', b'C', b'/', b'0'..=b'9', b'.', b'0'..=b'9']
            )
    }

    /// What a file without a single record seems to be.
    pub(super) fn what_instead(&self) -> String {
        let mut start = Vec::new();
        let origin = Position {
            member: 0,
            inside: 0,
        };
        let read = self
            .stream_at(origin)
            .and_then(|stream| stream.take(9).read_to_end(&mut start));
        match (read, start.as_slice()) {
            (Err(error), _) => format!("it cannot be decompressed ({error})"),
            (Ok(0), _) => "it is empty".to_owned(),
            (Ok(_), b"filedesc:") => "it is an ARC file, the format before WARC".to_owned(),
            (Ok(_), _) => "it holds no WARC record".to_owned(),
        }
    }

    fn find(&self, needle: &[u8], from: u64) -> io::Result<Option<u64>> {
        let mut reader = self.raw_from(from);
        let mut offset = from;
        // The end of one buffer and the start of the next may share a needle.
        let mut window: Vec<u8> = Vec::new();
        loop {
            let bytes = reader.fill_buf()?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let length = bytes.len();
            window.extend_from_slice(bytes);
            reader.consume(length);
            let found = window
                .windows(needle.len())
                .position(|bytes| bytes == needle);
            if let Some(at) = found {
                return Ok(Some(offset + at as u64));
            }
            let done = window.len().saturating_sub(needle.len() - 1);
            window.drain(..done);
            offset += done as u64;
        }
    }
}
