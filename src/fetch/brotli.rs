//! Brotli with bounded memory.
//!
//! A decoder allocates the whole window of a stream before it returns a byte. RFC 7932
//! has windows of at most 16 MiB. An extension of the reference program, which no browser
//! accepts, has windows of up to 1 GiB, and a stream of a few bytes may request one; such a
//! stream is rejected here.

use std::io::{self, Read};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

/// The largest window (RFC 7932, section 9.1).
const LARGEST_WINDOW: usize = 1 << 24;

/// What the tables of one meta-block take at most: three groups of up to 256 prefix codes, of
/// 1,080 entries of 4 bytes each, and the context maps.
const TABLES: usize = 7 << 19;

/// The most that decoding any stream takes.
pub(super) const MOST_MEMORY: usize = LARGEST_WINDOW + TABLES;

/// One stream, decoded as it is read.
pub(super) struct BrotliReader<'a> {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    rest: &'a [u8],
    is_broken: bool,
}

impl<'a> BrotliReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let alloc = StandardAlloc::default;
        Self {
            state: BrotliState::new_strict(alloc(), alloc(), alloc()),
            rest: bytes,
            is_broken: false,
        }
    }
}

impl Read for BrotliReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.is_broken {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (mut unread, mut taken) = (self.rest.len(), 0);
        let (mut room, mut written) = (out.len(), 0);
        let result = BrotliDecompressStream(
            &mut unread,
            &mut taken,
            self.rest,
            &mut room,
            &mut written,
            out,
            &mut 0,
            &mut self.state,
        );
        self.rest = &self.rest[taken..];
        match result {
            BrotliResult::ResultSuccess | BrotliResult::NeedsMoreOutput => {}
            // There is no more: the stream is cut off.
            BrotliResult::NeedsMoreInput | BrotliResult::ResultFailure => self.is_broken = true,
        }
        match written {
            0 if self.is_broken => Err(io::ErrorKind::InvalidData.into()),
            // What came before the break is good.
            written => Ok(written),
        }
    }
}

/// The most that decoding this stream takes: its window (RFC 7932, section 9.1) and tables.
/// None if this is not a stream.
pub(super) fn memory(stream: &[u8]) -> Option<usize> {
    let first = *stream.first()?;
    let bits = match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, _, _) => 16,
        (_, 0, 0) => 17,
        // The large windows.
        (_, 0, 1) => return None,
        (_, 0, low) => 8 + low,
        (_, high, _) => 17 + high,
    };
    Some((1 << bits) + TABLES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "hello" twice, with a window of 16 MiB and one of 1 GiB, neither of them in the last
    /// meta-block, so that there must be room for the whole window. Each is a meta-block of
    /// plain bytes and an empty last one; they differ in the bits for the window.
    const LARGEST: &[u8] = b"\x0f\x02\x80hello\x03";
    const TOO_LARGE: &[u8] = b"\x11\x1e\x08\x00\x02hello\x03";

    #[test]
    fn the_window_is_read_from_the_first_byte() {
        let window = |first: u8| memory(&[first]).map(|bytes| bytes - TABLES);
        for (first, wanted) in [
            (0b0000_0000, Some(1 << 16)),
            (0b0000_0001, Some(1 << 17)),
            (0b0000_0011, Some(1 << 18)),
            (0b0000_1111, Some(1 << 24)),
            (0b0010_0001, Some(1 << 10)),
            (0b0111_0001, Some(1 << 15)),
            (0b0001_0001, None),
            (0b1001_0001, None),
        ] {
            assert_eq!(window(first), wanted, "{first:08b}");
        }
        assert_eq!(memory(&[]), None);
        let all = (0..=u8::MAX).filter_map(|first| memory(&[first]));
        assert_eq!(all.max(), Some(MOST_MEMORY));
    }

    #[test]
    fn large_windows_are_no_brotli() {
        let read = |bytes: &[u8]| {
            let mut text = Vec::new();
            let end = BrotliReader::new(bytes).read_to_end(&mut text);
            (text, end.is_ok())
        };
        assert_eq!(read(LARGEST), (b"hello".to_vec(), true));
        assert_eq!(read(TOO_LARGE), (Vec::new(), false));
        // A decoder that allows large windows accepts the same bytes.
        let mut text = Vec::new();
        let mut lenient = brotli_decompressor::Decompressor::new(TOO_LARGE, 64);
        lenient.read_to_end(&mut text).unwrap();
        assert_eq!(text, b"hello");
    }

    #[test]
    fn a_stream_that_is_cut_off_is_kept_up_to_there() {
        let mut text = Vec::new();
        let end = BrotliReader::new(&LARGEST[..6]).read_to_end(&mut text);
        assert_eq!((text, end.is_err()), (b"hel".to_vec(), true));
    }
}
