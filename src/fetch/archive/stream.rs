//! An archive file as one stream of decompressed bytes with exact positions.
//!
//! A WARC file is plain, or a chain of gzip members or zstd frames, normally one
//! for each record. The stream reads through member after member and can start at
//! any of them, so that one record is read without those before it.
//!
//! Invariant: the buffer never holds bytes of two members; that is what makes
//! [`ArchiveStream::position`] exact.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::mem;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use flate2::bufread::GzDecoder;
use ruzstd::decoding::FrameDecoder;
use serde::{Deserialize, Serialize};

use crate::fetch::zstd::{self, Frame};

const BUFFER_BYTES: usize = 32 * 1024;

pub(super) const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 0x08];
/// The skippable frame that holds a dictionary for all frames of a `.warc.zst`.
const ZSTD_DICTIONARY_MAGIC: [u8; 4] = [0x5d, 0x2a, 0x4d, 0x18];
/// A dictionary larger than this is no dictionary.
const MAX_DICTIONARY_BYTES: u64 = 16 << 20;

/// Where a record begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Position {
    /// The offset in the file of the gzip member or zstd frame; zero in a plain file.
    pub(super) member: u64,
    /// How many decompressed bytes into it.
    pub(super) inside: u64,
}

/// How an archive file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

/// An open archive file. Reads are positioned, so that any number of streams share it.
#[derive(Debug, Clone)]
pub(super) struct ArchiveSource {
    file: Arc<File>,
    pub(super) compression: Compression,
    dictionary: Option<Arc<[u8]>>,
}

/// Decompressed bytes from some position on.
pub(super) struct ArchiveStream {
    decoder: Decoder,
    dictionary: Option<Arc<[u8]>>,
    buffer: Box<[u8]>,
    unread: std::ops::Range<usize>,
    position: Position,
}

enum Decoder {
    Plain(FileReader),
    Gzip(Box<GzDecoder<FileReader>>),
    Zstd(Box<Frame<FileReader>>),
    /// After the last member, or after an error.
    Finished,
}

type FileReader = BufReader<FileAt>;

/// Reads a shared file from an offset of its own.
struct FileAt {
    file: Arc<File>,
    offset: u64,
}

// === impl Position ===

impl Position {
    /// The offset to report: bytes from the start of the file, exact in a plain one,
    /// the start of the member in a compressed one.
    pub(super) fn file_offset(self, compression: Compression) -> u64 {
        match compression {
            Compression::None => self.inside,
            Compression::Gzip | Compression::Zstd => self.member,
        }
    }
}

// === impl ArchiveSource ===

impl ArchiveSource {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let file = Arc::new(file);
        let mut magic = Vec::new();
        file_at(&file, 0).take(4).read_to_end(&mut magic)?;
        let mut source = Self {
            file,
            compression: Compression::None,
            dictionary: None,
        };
        if magic.starts_with(&GZIP_MAGIC[..2]) {
            source.compression = Compression::Gzip;
        } else if magic == zstd::MAGIC || magic == ZSTD_DICTIONARY_MAGIC {
            source.compression = Compression::Zstd;
            source.dictionary = source.read_dictionary()?;
        }
        Ok(source)
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// The bytes of the file as they are, from an offset on.
    pub(super) fn raw_from(&self, offset: u64) -> impl BufRead {
        file_at(&self.file, offset)
    }

    /// Opens the stream at a position that a stream of the same file gave.
    pub(super) fn stream_at(&self, position: Position) -> io::Result<ArchiveStream> {
        let start = match self.compression {
            Compression::None => position.inside,
            Compression::Gzip | Compression::Zstd => position.member,
        };
        let reader = file_at(&self.file, start);
        let mut stream = ArchiveStream {
            decoder: Decoder::Finished,
            dictionary: self.dictionary.clone(),
            buffer: vec![0; BUFFER_BYTES].into(),
            unread: 0..0,
            position: Position {
                member: 0,
                inside: position.inside,
            },
        };
        if self.compression == Compression::None {
            stream.decoder = Decoder::Plain(reader);
        } else {
            stream.begin_member(reader, self.compression)?;
            stream.skip(position.inside)?;
        }
        Ok(stream)
    }

    /// The dictionary of a `.warc.zst`, itself possibly compressed, if the file has one.
    fn read_dictionary(&self) -> io::Result<Option<Arc<[u8]>>> {
        let mut reader = file_at(&self.file, 0);
        let mut header = [0; 8];
        reader.read_exact(&mut header)?;
        let [a, b, c, d, length @ ..] = header;
        if [a, b, c, d] != ZSTD_DICTIONARY_MAGIC {
            return Ok(None);
        }
        let length = u64::from(u32::from_le_bytes(length));
        if length > MAX_DICTIONARY_BYTES {
            return Err(io::Error::other("the zstd dictionary is implausibly large"));
        }
        let mut bytes = Vec::new();
        reader.take(length).read_to_end(&mut bytes)?;
        if bytes.starts_with(&zstd::MAGIC) {
            let packed = mem::take(&mut bytes);
            Frame::begin(&*packed, FrameDecoder::new(), zstd::ARCHIVE_WINDOW)?
                .take(MAX_DICTIONARY_BYTES)
                .read_to_end(&mut bytes)?;
        }
        Ok(Some(bytes.into()))
    }
}

// === impl ArchiveStream ===

impl ArchiveStream {
    /// Where the next byte lies. Exact after a call of `fill_buf`, which may have to enter
    /// the next member first.
    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// Whether the next byte is the first of its member; always false in a plain file.
    pub(super) fn is_at_member_start(&self) -> bool {
        self.position.inside == 0 && !matches!(self.decoder, Decoder::Plain(_))
    }

    /// Passes over bytes, stopping at the end; returns how many there were.
    pub(super) fn skip(&mut self, count: u64) -> io::Result<u64> {
        let mut left = count;
        while left > 0 {
            let available = self.fill_buf()?.len() as u64;
            if available == 0 {
                break;
            }
            let step = available.min(left);
            self.consume(usize::try_from(step).unwrap_or(usize::MAX));
            left -= step;
        }
        Ok(count - left)
    }

    fn begin_member(&mut self, reader: FileReader, compression: Compression) -> io::Result<bool> {
        self.decoder = Decoder::Finished;
        let mut reader = reader;
        loop {
            let bytes = reader.fill_buf()?;
            if bytes.is_empty() {
                return Ok(false);
            }
            // Tapes and some tools pad the end with zeros.
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            if zeros == 0 {
                break;
            }
            reader.consume(zeros);
        }
        self.position = Position {
            member: offset_of(&reader),
            inside: 0,
        };
        match compression {
            Compression::Gzip => self.decoder = Decoder::Gzip(Box::new(GzDecoder::new(reader))),
            _ => return self.begin_frame(reader),
        }
        Ok(true)
    }

    fn begin_frame(&mut self, mut reader: FileReader) -> io::Result<bool> {
        reader = with_full_buffer(reader);
        while skip_skippable_frame(&mut reader)? {
            reader = with_full_buffer(reader);
        }
        if reader.fill_buf()?.is_empty() {
            return Ok(false);
        }
        self.position.member = offset_of(&reader);
        let mut frames = FrameDecoder::new();
        if let Some(raw) = &self.dictionary {
            let dictionary = zstd::dictionary(raw)?;
            frames.add_dict(dictionary).map_err(io::Error::other)?;
        }
        let frame = Frame::begin(reader, frames, zstd::ARCHIVE_WINDOW)?;
        self.decoder = Decoder::Zstd(Box::new(frame));
        Ok(true)
    }

    fn next_member(&mut self) -> io::Result<bool> {
        match mem::replace(&mut self.decoder, Decoder::Finished) {
            Decoder::Plain(_) | Decoder::Finished => Ok(false),
            Decoder::Gzip(decoder) => self.begin_member(decoder.into_inner(), Compression::Gzip),
            Decoder::Zstd(decoder) => self.begin_member(decoder.into_inner(), Compression::Zstd),
        }
    }
}

impl BufRead for ArchiveStream {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.unread.is_empty() {
            let read = match &mut self.decoder {
                Decoder::Plain(reader) => reader.read(&mut self.buffer),
                Decoder::Gzip(decoder) => decoder.read(&mut self.buffer),
                Decoder::Zstd(decoder) => decoder.read(&mut self.buffer),
                Decoder::Finished => return Ok(&[]),
            };
            match read {
                Ok(0) => {
                    self.next_member()?;
                }
                Ok(length) => self.unread = 0..length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.decoder = Decoder::Finished;
                    return Err(error);
                }
            }
        }
        Ok(&self.buffer[self.unread.clone()])
    }

    fn consume(&mut self, amount: usize) {
        let amount = amount.min(self.unread.len());
        self.unread.start += amount;
        self.position.inside += amount as u64;
    }
}

impl Read for ArchiveStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        read_buffered(self, out)
    }
}

/// `Read::read` for a `BufRead`.
pub(super) fn read_buffered(reader: &mut impl BufRead, out: &mut [u8]) -> io::Result<usize> {
    let available = reader.fill_buf()?;
    let length = available.len().min(out.len());
    out[..length].copy_from_slice(&available[..length]);
    reader.consume(length);
    Ok(length)
}

// === impl FileAt ===

impl Read for FileAt {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read_at(out, self.offset)?;
        self.offset += length as u64;
        Ok(length)
    }
}

/// RFC 8878, section 3.1.2: frames that carry no content.
fn skip_skippable_frame(reader: &mut FileReader) -> io::Result<bool> {
    let mut header = [0; 8];
    let start = reader.fill_buf()?;
    if !matches!(start, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]) {
        return Ok(false);
    }
    reader.read_exact(&mut header)?;
    let [_, _, _, _, length @ ..] = header;
    let length = u64::from(u32::from_le_bytes(length));
    match io::copy(&mut reader.take(length), &mut io::sink())? {
        skipped if skipped == length => Ok(true),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn file_at(file: &Arc<File>, offset: u64) -> FileReader {
    let file = FileAt {
        file: Arc::clone(file),
        offset,
    };
    BufReader::with_capacity(BUFFER_BYTES, file)
}

/// A reader at the same place whose next buffer holds more than the header of a frame,
/// unless the file ends.
fn with_full_buffer(reader: FileReader) -> FileReader {
    match reader.buffer().len() {
        0 | 32.. => reader,
        _ => file_at(&reader.get_ref().file, offset_of(&reader)),
    }
}

/// The offset of the next byte that the reader will give.
fn offset_of(reader: &FileReader) -> u64 {
    reader.get_ref().offset - reader.buffer().len() as u64
}
