//! Removes transfer and content encodings from a body.
//!
//! Headers are often wrong: archives keep `Transfer-Encoding: chunked` over a body whose chunks were
//! joined, and servers announce gzip and send plain text. What is not encoded as announced is taken
//! as it is; what breaks in the middle is kept up to there.
//!
//! Invariants: no result is longer than the limit, however small the input is. And no decoder
//! takes more memory, input and result excluded, than [`Body::working_memory`] returns, which is
//! at most 20 MiB:
//!
//! | coding | window | working memory |
//! |---|---|---|
//! | gzip, deflate | 32 KiB | 128 KiB |
//! | br | up to 16 MiB (RFC 7932); larger ones are not Brotli | the window and 3.5 MiB of tables |
//! | zstd | up to 8 MiB (RFC 9659); larger ones are refused | twice the window and 2 MiB |

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, TRANSFER_ENCODING};
use ruzstd::decoding::FrameDecoder;

use super::brotli;
use super::zstd::{self, Frame};

/// Ordinary servers use one or two; a body with more is taken as it is.
const MAX_CODINGS: usize = 4;

/// Memory of gzip and deflate: a window of 32 KiB, tables, and the buffer in between.
const DEFLATE_MEMORY: usize = 128 << 10;

/// Of results larger than this, unused capacity is freed.
const LARGE_RESULT: usize = 64 << 10;

/// A body, and whether all of it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) bytes: Bytes,
    pub(crate) truncated: bool,
}

/// The content codings that requests accept: all that are removed here.
pub(super) const ACCEPTED_CODINGS: &str = "gzip, deflate, br, zstd";

/// One layer over a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(strum::VariantArray))]
enum Coding {
    Chunked,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Body {
    /// Removes the encodings that the headers of an HTTP/1.x message announce.
    pub(crate) fn decode(self, headers: &HeaderMap, limit: usize) -> Self {
        let mut body = self;
        for coding in codings(headers) {
            body = body.without(coding, limit);
        }
        body
    }

    /// Maximum memory of [`Self::decode`], the body and its result excluded. Layers are removed one
    /// after the other, and only the header of the outermost can be read beforehand.
    pub(crate) fn working_memory(&self, headers: &HeaderMap) -> usize {
        let mut codings = codings(headers).into_iter();
        let outermost = codings.next().map(|coding| match coding {
            Coding::Brotli => brotli::memory(&self.bytes).unwrap_or_default(),
            Coding::Zstd => zstd::largest_window(&self.bytes).map_or(0, zstd::memory),
            coding => coding.most_memory(),
        });
        let others = codings.map(Coding::most_memory);
        outermost.into_iter().chain(others).max().unwrap_or(0)
    }

    fn without(self, coding: Coding, limit: usize) -> Self {
        let decoded = match coding {
            Coding::Chunked => return dechunk(&self.bytes).map_or(self, |body| body),
            Coding::Gzip if !self.bytes.starts_with(&[0x1f, 0x8b]) => return self,
            Coding::Zstd if !self.bytes.starts_with(&zstd::MAGIC) => return self,
            Coding::Gzip => inflate(MultiGzDecoder::new(&*self.bytes), limit),
            Coding::Deflate if is_zlib(&self.bytes) => {
                inflate(ZlibDecoder::new(&*self.bytes), limit)
            }
            Coding::Deflate => inflate(DeflateDecoder::new(&*self.bytes), limit),
            Coding::Brotli if brotli::memory(&self.bytes).is_none() => return self,
            Coding::Brotli => inflate(brotli::BrotliReader::new(&self.bytes), limit),
            Coding::Zstd => unzstd(&self.bytes, limit),
        };
        if decoded.bytes.is_empty() && decoded.truncated {
            // It is not encoded as announced.
            return self;
        }
        Self {
            truncated: decoded.truncated || self.truncated,
            ..decoded
        }
    }
}

impl Coding {
    fn named(name: &str) -> Option<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "chunked" => Some(Self::Chunked),
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "deflate" => Some(Self::Deflate),
            "br" => Some(Self::Brotli),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    fn most_memory(self) -> usize {
        match self {
            Self::Chunked => 0,
            Self::Gzip | Self::Deflate => DEFLATE_MEMORY,
            Self::Brotli => brotli::MOST_MEMORY,
            Self::Zstd => zstd::MOST_MEMORY,
        }
    }
}

/// The layers over a body, the outermost first.
fn codings(headers: &HeaderMap) -> Vec<Coding> {
    let mut all = Vec::new();
    for header in [TRANSFER_ENCODING, CONTENT_ENCODING] {
        let codings: Vec<Coding> = headers
            .get_all(header)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(Coding::named)
            .collect();
        // Each layer costs a pass over the body, and headers have room for thousands.
        if codings.len() <= MAX_CODINGS {
            all.extend(codings.into_iter().rev());
        }
    }
    all
}

/// RFC 1950, section 2.2. Servers send bare deflate under the same name.
fn is_zlib(bytes: &[u8]) -> bool {
    match bytes {
        [cmf, flags, ..] => cmf & 0x0f == 8 && (u16::from(*cmf) << 8 | u16::from(*flags)) % 31 == 0,
        _ => false,
    }
}

/// Reads up to the limit; what was read before an error is kept.
fn inflate(decoder: impl Read, limit: usize) -> Body {
    let mut bytes = Vec::new();
    let read = decoder.take(limit as u64 + 1).read_to_end(&mut bytes);
    let truncated = read.is_err() || bytes.len() > limit;
    bytes.truncate(limit);
    // It grew by doubling.
    if bytes.len() > LARGE_RESULT && bytes.capacity() - bytes.len() > bytes.len() / 4 {
        bytes.shrink_to_fit();
    }
    Body {
        bytes: bytes.into(),
        truncated,
    }
}

fn unzstd(mut input: &[u8], limit: usize) -> Body {
    let mut bytes = Vec::new();
    let mut truncated = false;
    let window = zstd::largest_window(input).unwrap_or_default();
    // One for all: there may be a frame for every nine bytes.
    let mut decoder = FrameDecoder::new();
    while !input.is_empty() && !truncated {
        let Ok(mut frame) = Frame::begin(input, decoder, window) else {
            truncated = true;
            break;
        };
        let read = (&mut frame)
            .take((limit - bytes.len()) as u64 + 1)
            .read_to_end(&mut bytes);
        truncated = read.is_err() || bytes.len() > limit;
        (input, decoder) = frame.into_parts();
    }
    bytes.truncate(limit);
    Body {
        bytes: bytes.into(),
        truncated,
    }
}

/// RFC 9112, section 7.1, or nothing if this is no chunked body.
fn dechunk(mut input: &[u8]) -> Option<Body> {
    let mut bytes = Vec::with_capacity(input.len());
    let mut is_first = true;
    loop {
        let Some((size, rest)) = chunk_size(input) else {
            return (!is_first).then_some(Body {
                bytes: bytes.into(),
                truncated: true,
            });
        };
        is_first = false;
        if size == 0 {
            return Some(Body {
                bytes: bytes.into(),
                truncated: false,
            });
        }
        let chunk = &rest[..size.min(rest.len())];
        bytes.extend_from_slice(chunk);
        if chunk.len() < size {
            return Some(Body {
                bytes: bytes.into(),
                truncated: true,
            });
        }
        input = &rest[size..];
        input = input.strip_prefix(b"\r").unwrap_or(input);
        input = input.strip_prefix(b"\n").unwrap_or(input);
    }
}

/// The size that a chunk announces, and what follows the line.
fn chunk_size(input: &[u8]) -> Option<(usize, &[u8])> {
    let end = input.iter().take(256).position(|byte| *byte == b'\n')?;
    let line = input[..end].split(|byte| *byte == b';').next()?;
    let digits = std::str::from_utf8(line.trim_ascii()).ok()?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let size = usize::from_str_radix(digits, 16).ok()?;
    Some((size, &input[end + 1..]))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use proptest::prelude::*;
    use strum::VariantArray;

    use super::*;

    const LIMIT: usize = 1 << 20;

    fn decode(headers: &[(&'static str, &'static str)], bytes: &[u8], limit: usize) -> Body {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let body = Body {
            bytes: bytes.to_vec().into(),
            truncated: false,
        };
        body.decode(&map, limit)
    }

    fn whole(bytes: &[u8]) -> Body {
        Body {
            bytes: bytes.to_vec().into(),
            truncated: false,
        }
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// "hello" in other codings, written by their reference programs.
    const BROTLI_HELLO: &[u8] = &[0x0b, 0x02, 0x80, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x03];
    const ZSTD_HELLO: &[u8] = &[
        0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x05, 0x29, 0x00, 0x00, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0xa3,
        0x6d, 0x9f, 0x88,
    ];

    #[test]
    fn every_coding_is_taken_off() {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(b"hello").unwrap();
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::fast());
        raw.write_all(b"hello").unwrap();
        for (name, bytes) in [
            ("gzip", gzip(b"hello")),
            ("X-GZIP", gzip(b"hello")),
            ("deflate", zlib.finish().unwrap()),
            ("deflate", raw.finish().unwrap()),
            ("br", BROTLI_HELLO.to_vec()),
            ("zstd", ZSTD_HELLO.to_vec()),
            ("identity", b"hello".to_vec()),
            ("gzip, gzip", gzip(&gzip(b"hello"))),
        ] {
            let body = decode(&[("content-encoding", name)], &bytes, LIMIT);
            assert_eq!(body, whole(b"hello"), "{name}");
        }
    }

    #[test]
    fn chunks_are_put_together() {
        let chunked = [("transfer-encoding", "chunked")];
        let body = decode(
            &chunked,
            b"5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\n\r\n",
            LIMIT,
        );
        assert_eq!(body, whole(b"hello world"));
        let both = [("transfer-encoding", "gzip, chunked")];
        let packed = gzip(b"hello");
        let mut bytes = format!("{:x}\r\n", packed.len()).into_bytes();
        bytes.extend(packed);
        bytes.extend(b"\r\n0\r\n\r\n");
        assert_eq!(decode(&both, &bytes, LIMIT), whole(b"hello"));
    }

    #[test]
    fn lying_headers_leave_the_body_alone() {
        for (header, name) in [
            ("transfer-encoding", "chunked"),
            ("content-encoding", "gzip"),
            ("content-encoding", "br"),
            ("content-encoding", "zstd"),
            ("content-encoding", "deflate"),
        ] {
            let plain = b"<p>plain as it can be";
            assert_eq!(
                decode(&[(header, name)], plain, LIMIT),
                whole(plain),
                "{name}"
            );
        }
    }

    #[test]
    fn broken_bodies_are_kept_up_to_the_break() {
        let body = decode(
            &[("transfer-encoding", "chunked")],
            b"5\r\nhello\r\n9\r\nwo",
            LIMIT,
        );
        assert_eq!((&*body.bytes, body.truncated), (&b"hellowo"[..], true));
        let packed = gzip(&b"hello ".repeat(1_000));
        let body = decode(
            &[("content-encoding", "gzip")],
            &packed[..packed.len() - 9],
            LIMIT,
        );
        assert!(body.truncated && body.bytes.starts_with(b"hello hello"));
    }

    #[test]
    fn a_body_under_too_many_layers_is_left_alone() {
        let mut packed = b"hello".to_vec();
        for _ in 0..MAX_CODINGS {
            packed = gzip(&packed);
        }
        let name = "gzip, gzip, gzip, gzip";
        let body = decode(&[("content-encoding", name)], &packed, LIMIT);
        assert_eq!(body, whole(b"hello"));
        let name = "gzip, gzip, gzip, gzip, gzip";
        let packed = gzip(&packed);
        let body = decode(&[("content-encoding", name)], &packed, LIMIT);
        assert_eq!(body, whole(&packed));
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = gzip(&gzip(&vec![0; 50_000_000]));
        assert!(bomb.len() < 10_000);
        let body = decode(&[("content-encoding", "gzip, gzip")], &bomb, 100_000);
        assert_eq!((body.bytes.len(), body.truncated), (100_000, true));
    }

    /// A frame that asks for a window of a gigabyte and fills it from a few bytes.
    #[test]
    fn a_zstd_frame_that_wants_too_much_memory_is_refused() {
        let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 20 << 3];
        for _ in 0..1_000 {
            // A block that repeats one byte 128 KiB times.
            bomb.extend([0x02, 0x00, 0x10, b'x']);
        }
        let body = decode(&[("content-encoding", "zstd")], &bomb, LIMIT);
        assert_eq!(body.bytes, bomb, "not a byte of it was decoded");
    }

    #[test]
    fn frames_of_zstd_follow_each_other() {
        let zstd = [("content-encoding", "zstd")];
        let twice = decode(&zstd, &[ZSTD_HELLO, ZSTD_HELLO].concat(), LIMIT);
        assert_eq!(twice, whole(b"hellohello"));
        let cut = decode(&zstd, &[ZSTD_HELLO, ZSTD_HELLO].concat(), 7);
        assert_eq!((&*cut.bytes, cut.truncated), (&b"hellohe"[..], true));
        // A plain block of one byte in a window of 2 MiB, and in one of 4 MiB.
        let plain = |window: u8| [&ZSTD_HELLO[..4], &[0, window << 3, 9, 0, 0, b'x']].concat();
        let larger = decode(&zstd, &[ZSTD_HELLO, &plain(11)].concat(), LIMIT);
        assert_eq!(larger, whole(b"hellox"));
        let too_large = decode(&zstd, &[ZSTD_HELLO, &plain(12)].concat(), LIMIT);
        assert_eq!(
            (&*too_large.bytes, too_large.truncated),
            (&b"hello"[..], true),
            "no room was asked for so much"
        );
        assert_eq!(decode(&zstd, &plain(12), LIMIT), whole(b"x"));
    }

    #[test]
    fn the_memory_of_decoders_is_known_beforehand() {
        const MIB: usize = 1 << 20;
        let memory = |codings: &'static str, bytes: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_ENCODING, codings.parse().unwrap());
            whole(bytes).working_memory(&headers)
        };
        let zstd = |window: u8| [&ZSTD_HELLO[..4], &[0, window << 3]].concat();
        for (codings, bytes, wanted) in [
            ("identity", &b""[..], 0),
            ("gzip", b"", MIB / 8),
            ("deflate, gzip", b"", MIB / 8),
            ("br", b"\x0b", 4 * MIB + 7 * MIB / 2),
            ("br", b"\x0f", 16 * MIB + 7 * MIB / 2),
            // A large window is refused before anything is taken.
            ("br", b"\x11", 0),
            // What lies beneath is not known yet.
            ("br, gzip", b"", 16 * MIB + 7 * MIB / 2),
            ("zstd, gzip", b"", 18 * MIB),
            ("zstd", ZSTD_HELLO, 6 * MIB),
            ("zstd", &zstd(13), 18 * MIB),
            ("zstd", &zstd(14), 0),
        ] {
            assert_eq!(memory(codings, bytes), wanted, "{codings} {bytes:x?}");
        }
    }

    #[test]
    fn every_coding_that_can_be_removed_is_accepted() {
        let accepted = ACCEPTED_CODINGS.split(", ").map(Coding::named);
        let removed = Coding::VARIANTS.iter().copied();
        let removed = removed.filter(|coding| *coding != Coding::Chunked);
        assert!(accepted.eq(removed.map(Some)));
    }

    proptest! {
        #[test]
        fn any_bytes_under_any_coding_give_a_body(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            magic in prop::sample::select(vec![
                &b""[..], b"\x1f\x8b\x08\0\0\0\0\0\0\0", b"\x28\xb5\x2f\xfd", b"5\r\n", b"\x78\x9c",
            ]),
            name in prop::sample::select(vec!["gzip", "deflate", "br", "zstd", "chunked"]),
        ) {
            let mut input = magic.to_vec();
            input.extend(bytes);
            let header = if name == "chunked" { "transfer-encoding" } else { "content-encoding" };
            prop_assert!(decode(&[(header, name)], &input, 1_000).bytes.len() <= 1_000);
        }

        #[test]
        fn chunks_of_any_size_give_the_body_back(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..10),
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend(format!("{:X}\r\n", chunk.len()).bytes());
                wire.extend(chunk);
                wire.extend(b"\r\n");
            }
            wire.extend(b"0\r\n\r\n");
            let body = decode(&[("transfer-encoding", "chunked")], &wire, LIMIT);
            prop_assert_eq!(body, whole(&chunks.concat()));
        }
    }
}
