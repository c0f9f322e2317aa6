//! Bodies: ordinary pages, noise, and decompression bombs.

use std::io::Write;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compress, Compression, Crc, FlushCompress};

/// 1 GiB of HTML as gzip.
pub(super) static HTML_BOMB: LazyLock<Bytes> = LazyLock::new(|| bomb(b"<p>boom</p>\n"));

/// The same, compressed twice.
pub(super) static DOUBLE_BOMB: LazyLock<Bytes> = LazyLock::new(|| gzip(&HTML_BOMB));

/// 1 GiB of rules as gzip.
pub(super) static RULES_BOMB: LazyLock<Bytes> =
    LazyLock::new(|| bomb(b"User-agent: *\nDisallow: /private\n"));

/// A challenge page of a gatekeeper, as served by small sites.
pub(crate) const CHALLENGE: &str = "<!doctype html><html lang=en><head>\
    <title>Making sure you're not a bot!</title>\
    <meta name=robots content=\"noindex,nofollow\">\
    <script id=\"anubis_version\" type=\"application/json\">\"v1.20.0\"</script>\
    <script id=\"anubis_challenge\" type=\"application/json\">{\"rules\":{}}</script>\
    <script async type=module src=\"/.within.website/x/cmd/anubis/static/js/main.mjs\"></script>\
    </head><body><h1>Making sure you're not a bot!</h1><p>Loading...</p>\
    <p>Please wait a moment while we ensure the security of your connection.</p>\
    <a href=\"/trap\">trap</a> <a href=\"https://gate.example/\">Protected</a></body></html>";
/// 64 MiB of one letter as Brotli, with the largest window that RFC 7932 has, all of which is
/// filled.
pub(super) static BROTLI_BOMB: LazyLock<Bytes> = LazyLock::new(|| {
    // WBITS for 2^24 bytes; the alphabet of distances has 64 symbols.
    brotli_bomb(&[(0b1111, 4)], 6)
});

/// The same with a window of 1 GiB: an extension that browsers refuse.
pub(super) static LARGE_WINDOW: LazyLock<Bytes> = LazyLock::new(|| {
    // The escape of the extension, then the bits of the window; 140 distances.
    brotli_bomb(&[(0b0001_0001, 8), (30, 6)], 8)
});

/// The links of an ordinary site. They are few, so that crawls of it end.
const SITE: [&str; 6] = ["/", "/about", "/news", "/news/1", "/news/2", "/contact"];

/// An ordinary page; its words depend on the path.
pub(super) fn page(host: &str, target: &str) -> String {
    linked_page(host, target, &SITE)
}

/// A page with certain links.
pub(super) fn linked_page(host: &str, target: &str, links: &[&str]) -> String {
    let target = escape(target);
    let words = target.replace(|c: char| !c.is_alphanumeric(), " ");
    let links: Vec<String> = links
        .iter()
        .map(|to| format!("<li><a href=\"{}\">{}</a></li>\n", escape(to), escape(to)))
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><title>{target} at {}</title></head>\n\
         <body><h1>Page {target}</h1>\n\
         <p>This page of the site tells you something about {words} and little else.</p>\n\
         <ul>\n{}</ul></body></html>\n",
        escape(host),
        links.concat()
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Scatters consecutive numbers, so that they look random.
pub(super) fn scatter(number: usize) -> u64 {
    let mut bits = (number as u64).wrapping_add(1);
    for _ in 0..2 {
        bits = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits ^= bits >> 29;
    }
    bits
}

/// A signature, then bytes that do not look like text; deterministic.
pub(super) fn noise(signature: &[u8], length: usize) -> Bytes {
    let mut bytes = signature.to_vec();
    bytes.extend((0..=length / 8).flat_map(|at| scatter(at).to_le_bytes()));
    bytes.truncate(length);
    bytes.into()
}

pub(super) fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory").into()
}

/// Deflate without the zlib frame that `Content-Encoding: deflate` asks for.
pub(super) fn raw_deflate(bytes: &[u8]) -> Bytes {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory").into()
}

/// Meta-blocks of 16 MiB each, every one a letter and one copy of it to the end (RFC 7932,
/// section 9.2).
fn brotli_bomb(window: &[(u32, usize)], distance_bits: usize) -> Bytes {
    const META_BLOCK: u32 = 1 << 24;
    let mut bits = Bits::default();
    for (value, length) in window {
        bits.push(*value, *length);
    }
    for _ in 0..4 {
        // Not the last one; six nibbles of length; not plain.
        bits.push(0, 1);
        bits.push(2, 2);
        bits.push(META_BLOCK - 1, 24);
        bits.push(0, 1);
        // One type of block in each category, no direct distances, one context, one tree each.
        bits.push(0, 3 + 6 + 2 + 2);
        // Simple prefix codes of one symbol each: the letter, the command that inserts one letter
        // and copies more than 2,117, and the distance 1.
        for (symbol, length) in [(u32::from(b'x'), 8), (399, 10), (16, distance_bits)] {
            bits.push(1, 2);
            bits.push(0, 2);
            bits.push(symbol, length);
        }
        // How much is copied, and the extra bit of the distance.
        bits.push(META_BLOCK - 1 - 2_118, 24);
        bits.push(0, 1);
    }
    // The last one is empty.
    bits.push(0b11, 2);
    bits.bytes.into()
}

/// Bits in the order of Brotli: the lowest first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    length: usize,
}

impl Bits {
    fn push(&mut self, value: u32, length: usize) {
        for at in 0..length {
            if self.length.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let bit = u8::from(value >> at & 1 == 1) << (self.length % 8);
            *self.bytes.last_mut().expect("pushed above") |= bit;
            self.length += 1;
        }
    }
}

/// A frame of zstd in which one block of 60 KB expands to 2 GB, of which RFC 8878 allows 128 KiB
/// (section 3.1.1.2.4).
pub(super) fn zstd_bomb() -> Vec<u8> {
    const SEQUENCES: u16 = 30_000;
    const MATCH_OF_65539: u8 = 52;
    // A window of 8 MiB, and a plain block to copy from.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 13 << 3];
    frame.extend([8 << 3, 0, 0]);
    frame.extend(b"<p>boom ");
    // One literal, repeated; all sequences are of one kind: no literal, an offset that was used
    // before, the longest match. Each has 16 bits for how much longer.
    let [low, high] = SEQUENCES.to_le_bytes();
    let mut block = vec![1 << 3 | 1, b'x', 0x80 | high, low, 0b0101_0100];
    block.extend([0, 0, MATCH_OF_65539]);
    block.resize(block.len() + 2 * usize::from(SEQUENCES), 0);
    block.push(1);
    let header = (block.len() << 3 | 2 << 1 | 1).to_le_bytes();
    frame.extend(&header[..3]);
    frame.extend(block);
    frame
}

/// 1 GiB of a text as one gzip member.
///
/// One mebibyte is compressed once. A full flush at its end means that it refers to nothing before
/// it, so its bytes can be repeated a thousand times.
fn bomb(text: &[u8]) -> Bytes {
    const MEBIBYTE: usize = 1024 * 1024;
    const TIMES: usize = 1024;
    let block: Vec<u8> = text.iter().copied().cycle().take(MEBIBYTE).collect();

    let mut packed = Vec::with_capacity(MEBIBYTE);
    let mut compress = Compress::new(Compression::best(), false);
    compress
        .compress_vec(&block, &mut packed, FlushCompress::Full)
        .expect("a fresh compressor");

    let mut block_sum = Crc::new();
    block_sum.update(&block);
    let mut sum = Crc::new();
    for _ in 0..TIMES {
        sum.combine(&block_sum);
    }

    let mut bomb = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    bomb.extend(packed.repeat(TIMES));
    // An empty last block, the checksum, and the length.
    bomb.extend([3, 0]);
    bomb.extend(sum.sum().to_le_bytes());
    bomb.extend(sum.amount().to_le_bytes());
    bomb.into()
}
