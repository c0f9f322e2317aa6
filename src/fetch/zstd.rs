//! zstd frames with bounded memory.
//!
//! A decoder keeps the whole window of a frame before it returns a byte, and a frame may request a
//! window of any size. So the header is checked first (RFC 8878, section 3.1.1.1), and a frame that
//! requests too much is refused. The library enforces the maximum block size (section 3.1.1.2.4).

use std::io::{self, BufRead, Read};

use ruzstd::decoding::{Dictionary, FrameDecoder, StreamingDecoder};

/// The first bytes of a frame.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The largest window for content codings (RFC 9659, section 3).
const LARGEST_CONTENT_WINDOW: usize = 8 << 20;
const CONTENT_WINDOW: u64 = LARGEST_CONTENT_WINDOW as u64;

/// The largest window for archives: what the reference program accepts by default.
pub(super) const ARCHIVE_WINDOW: u64 = 128 << 20;

/// Windows up to this size are usual, and a body of several frames may go up to it after a
/// smaller one.
const USUAL_WINDOW: u64 = 2 << 20;

/// Bytes read from the library at once: it holds them in addition to the window.
const PIECE: usize = 64 << 10;

/// What it holds in addition: a block, its literals and its sequences.
const BLOCK_MEMORY: usize = 2 << 20;

/// The most that decoding a content coding takes.
pub(super) const MOST_MEMORY: usize = 2 * LARGEST_CONTENT_WINDOW + BLOCK_MEMORY;

/// The longest header a frame can have.
const MAX_HEADER_BYTES: usize = 18;

/// One frame, decoded as it is read. Its checksum, if it has one, is compared at the end.
pub(super) struct Frame<R: BufRead> {
    decoder: StreamingDecoder<R, FrameDecoder>,
    is_over: bool,
}

impl<R: BufRead> Frame<R> {
    /// Begins a frame. The decoder may hold dictionaries; the buffer of the reader must
    /// hold the header, as those of slices and files do.
    pub(super) fn begin(
        mut reader: R,
        mut decoder: FrameDecoder,
        max_window: u64,
    ) -> io::Result<Self> {
        let start = reader.fill_buf()?;
        match window_size(&start[..start.len().min(MAX_HEADER_BYTES)]) {
            None => return Err(broken("no zstd frame begins here")),
            Some(window) if window > max_window => {
                return Err(broken("the zstd window is larger than the limit"));
            }
            Some(_) => {}
        }
        decoder.set_max_window_size(max_window);
        let decoder = StreamingDecoder::new_with_decoder(reader, decoder)
            .map_err(|_| broken("the header of a zstd frame is broken"))?;
        Ok(Self {
            decoder,
            is_over: false,
        })
    }

    pub(super) fn into_inner(self) -> R {
        self.decoder.into_inner()
    }

    /// The reader, and the decoder with its memory, for the next frame.
    pub(super) fn into_parts(self) -> (R, FrameDecoder) {
        self.decoder.into_parts()
    }
}

impl<R: BufRead> Read for Frame<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = out.len().min(PIECE);
        let read = match self.decoder.read(&mut out[..most]) {
            Ok(read) => read,
            Err(_) if self.decoder.get_mut().fill_buf()?.is_empty() => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Err(_) => return Err(broken("a zstd block is broken")),
        };
        if read == 0 && !out.is_empty() && !self.is_over {
            self.is_over = true;
            let frame = &self.decoder.decoder;
            let written = frame.get_checksum_from_data();
            if written.is_some() && written != frame.get_calculated_checksum() {
                return Err(broken("the checksum of a zstd frame is wrong"));
            }
        }
        Ok(read)
    }
}

/// The largest window that a body with this start may request, or none if it is refused.
pub(super) fn largest_window(body: &[u8]) -> Option<u64> {
    let window = window_size(&body[..body.len().min(MAX_HEADER_BYTES)])?;
    (window <= CONTENT_WINDOW).then_some(window.max(USUAL_WINDOW))
}

/// The most that decoding takes with such a window. The buffer grows by doubling, and while it
/// does the old one is still there.
pub(super) fn memory(window: u64) -> usize {
    let window = window.next_power_of_two().min(CONTENT_WINDOW);
    usize::try_from(2 * window).unwrap_or(usize::MAX) + BLOCK_MEMORY
}

/// Reads a dictionary. The library trusts its length, so it gets zeros to run into; a
/// dictionary whose tables reach them is broken.
pub(super) fn dictionary(raw: &[u8]) -> io::Result<Dictionary> {
    const PADDING: usize = 4 * 1024;
    let padded = [raw, &[0; PADDING]].concat();
    let mut dictionary =
        Dictionary::decode_dict(&padded).map_err(|_| broken("the zstd dictionary is broken"))?;
    match dictionary.dict_content.len().checked_sub(PADDING) {
        Some(length) => dictionary.dict_content.truncate(length),
        None => return Err(broken("the zstd dictionary is cut off")),
    }
    Ok(dictionary)
}

/// The window size that a frame requests, or none if this is not a frame.
fn window_size(header: &[u8]) -> Option<u64> {
    let rest = header.strip_prefix(&MAGIC)?;
    let (descriptor, rest) = rest.split_first()?;
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let window = u64::from(*rest.first()?);
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * (window & 7));
    }
    // Without a window the whole content is one, and its size comes after the dictionary.
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = rest.get(dictionary_bytes..)?;
    match descriptor >> 6 {
        0 => size.first().map(|size| u64::from(*size)),
        1 => size
            .first_chunk()
            .map(|size| u64::from(u16::from_le_bytes(*size)) + 256),
        2 => size
            .first_chunk()
            .map(|size| u64::from(u32::from_le_bytes(*size))),
        _ => size.first_chunk().map(|size| u64::from_le_bytes(*size)),
    }
}

fn broken(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_dictionaries_are_refused() {
        assert!(dictionary(b"").is_err());
        assert!(dictionary(b"\x37\xa4\x30").is_err());
        for length in 0..40 {
            let cut = [
                &[0x37, 0xa4, 0x30, 0xec, 1, 0, 0, 0][..],
                &vec![0x10; length],
            ]
            .concat();
            assert!(dictionary(&cut).is_err(), "{length}");
        }
    }

    #[test]
    fn the_window_is_read_from_the_header() {
        let header = |descriptor: u8, rest: &[u8]| [&MAGIC, &[descriptor][..], rest].concat();
        for (bytes, wanted) in [
            (header(0x00, &[0x00]), Some(1 << 10)),
            (header(0x04, &[0x59]), Some((1 << 21) + (1 << 18))),
            (header(0x24, &[5]), Some(5)),
            (header(0x60, &[1, 0]), Some(257)),
            (header(0xa0, &[0, 0, 0, 1]), Some(1 << 24)),
            (header(0xe1, &[9, 0, 0, 0, 0, 1, 0, 0, 0]), Some(1 << 32)),
            (header(0xa0, &[0, 0]), None),
            (b"\x1f\x8b\x08\0\0".to_vec(), None),
        ] {
            assert_eq!(window_size(&bytes), wanted, "{bytes:x?}");
        }
    }
}
