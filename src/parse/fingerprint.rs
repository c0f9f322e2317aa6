//! Simhash of the visible text.
//!
//! Charikar 2002; as used on web pages by Manku, Jain and Das Sarma 2007: every feature
//! votes on each of 64 bits with the bits of its hash, and the majority wins. Features are
//! pairs of adjacent words, so that the order of words matters, and a changed word changes only
//! two features. A text of one word has that word as its feature.
//!
//! Invariant: the hash of a word never changes between versions, or stored fingerprints
//! lose their meaning.

use crate::web::{Fingerprint, PageText};

/// As many binary digits as the number of voters may have.
const DIGITS: usize = u32::BITS as usize;

/// The votes for each bit, counted for all bits at once: a digit of the 64 counts is one number, and
/// votes are added digit by digit with carries, as adders in hardware do (Harley and Seal).
///
/// A vote waits at a digit until a second one comes. Both are added to the digit, and the carry goes on
/// to the next. So a vote costs one addition on average, and the digits of [`voters`](Self::voters) tell
/// where one waits.
struct Ballot {
    digits: [u64; DIGITS],
    waiting: [u64; DIGITS],
    voters: u32,
}

/// The fingerprint of a page's visible text; none if it has no words.
pub(super) fn of(text: &PageText) -> Option<Fingerprint> {
    let mut ballot = Ballot::new();
    let mut last = None;
    for (_, run) in text.runs().filter(|(part, _)| part.is_visible()) {
        for word in word_hashes(run.as_bytes()) {
            if let Some(last) = last {
                ballot.vote(mix(last, word));
            }
            last = Some(word);
        }
    }
    if ballot.voters == 0 {
        ballot.vote(mix(0, last?));
    }
    Some(ballot.result())
}

/// A hash of each word between white space. Eight bytes are processed at once: most words are
/// shorter, and their end is then found without a branch.
fn word_hashes(text: &[u8]) -> impl Iterator<Item = u64> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while text.get(at).is_some_and(|byte| *byte <= b' ') {
            at += 1;
        }
        let mut hash = 0_u64;
        let start = at;
        // Scripts without spaces: each character is a word.
        if let Some([one, two, three]) = text.get(at..).and_then(<[u8]>::first_chunk)
            && is_unspaced(*one, *two)
        {
            at += 3;
            let character = u64::from_be_bytes([0, 0, 0, 0, 0, *one, *two, *three]);
            return Some(character.wrapping_mul(ODD));
        }
        loop {
            let eight = eight_bytes(text, at);
            let length = bytes_before_space(eight);
            let kept = eight
                & 1_u64
                    .checked_shl(8 * length)
                    .unwrap_or_default()
                    .wrapping_sub(1);
            hash = (hash.rotate_left(5) ^ kept).wrapping_mul(ODD);
            at += length as usize;
            if length < 8 {
                break;
            }
        }
        (at > start).then_some(hash ^ hash >> 32)
    })
}

/// Whether a character of Thai, Lao, Chinese or Japanese begins with these bytes of UTF-8:
/// U+0E00 to U+0EFF and U+3000 to U+9FFF, three bytes each.
fn is_unspaced(first: u8, second: u8) -> bool {
    matches!((first, second), (0xe3..=0xe9, _) | (0xe0, 0xb8..=0xbb))
}

/// Eight bytes from an offset, padded with zeros, which count as white space here.
fn eight_bytes(text: &[u8], at: usize) -> u64 {
    let rest = text.get(at..).unwrap_or_default();
    if let Some(eight) = rest.first_chunk::<8>() {
        return u64::from_le_bytes(*eight);
    }
    let mut eight = [0; 8];
    eight[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(eight)
}

/// How many of eight bytes come before the first that is a space or less. A byte below 0x21
/// borrows from its top bit when 0x21 is subtracted. Later bytes may be wrong, but are not used.
fn bytes_before_space(eight: u64) -> u32 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let below = eight.wrapping_sub(0x21 * ONES) & !eight & (0x80 * ONES);
    below.trailing_zeros() / 8
}

/// Any odd number with well-spread bits will do; this one is the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The feature of two adjacent words.
fn mix(first: u64, second: u64) -> u64 {
    let mixed = (first.rotate_left(23) ^ second).wrapping_mul(ODD);
    mixed ^ mixed >> 29
}

impl Ballot {
    fn new() -> Self {
        Self {
            digits: [0; DIGITS],
            waiting: [0; DIGITS],
            voters: 0,
        }
    }

    fn vote(&mut self, hash: u64) {
        let mut carry = hash;
        let mut digit = 0;
        while self.is_waiting(digit) {
            let (one, two) = (self.digits[digit], self.waiting[digit]);
            self.digits[digit] = one ^ two ^ carry;
            carry = one & two | carry & (one ^ two);
            digit += 1;
        }
        self.waiting[digit] = carry;
        self.voters += 1;
    }

    fn is_waiting(&self, digit: usize) -> bool {
        self.voters >> digit & 1 == 1
    }

    fn votes_for(&self, bit: u32) -> u64 {
        let used = 0..(u32::BITS - self.voters.leading_zeros()) as usize;
        let votes = used.map(|digit| {
            let waiting = u64::from(self.is_waiting(digit)) & self.waiting[digit] >> bit;
            ((self.digits[digit] >> bit & 1) + waiting) << digit
        });
        votes.sum()
    }

    fn result(&self) -> Fingerprint {
        let majority =
            |bits, bit| bits | u64::from(self.votes_for(bit) * 2 > self.voters.into()) << bit;
        Fingerprint::from_bits((0..u64::BITS).fold(0, majority))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::PagePart;

    fn fingerprint(text: &str) -> Option<Fingerprint> {
        let mut page = PageText::default();
        page.push(PagePart::Body, text);
        of(&page)
    }

    /// Simhash as in the paper, bit by bit.
    fn by_the_book(text: &str) -> u64 {
        let words: Vec<u64> = word_hashes(text.as_bytes()).collect();
        let mut votes = [0_i64; 64];
        for pair in words.windows(2) {
            let hash = mix(pair[0], pair[1]);
            for (bit, vote) in votes.iter_mut().enumerate() {
                *vote += if hash >> bit & 1 == 1 { 1 } else { -1 };
            }
        }
        votes
            .iter()
            .enumerate()
            .fold(0, |bits, (bit, vote)| bits | u64::from(*vote > 0) << bit)
    }

    fn words(count: usize, seed: usize) -> String {
        let words: Vec<String> = (0..count)
            .map(|n| format!("w{}", n * n % 997 + seed))
            .collect();
        words.join(" ")
    }

    #[test]
    fn the_fast_count_is_the_count_of_the_paper() {
        for count in [2, 100, 255, 256, 257, 2_000] {
            let text = words(count, 0);
            assert_eq!(
                fingerprint(&text).unwrap().bits(),
                by_the_book(&text),
                "{count}"
            );
        }
    }

    #[test]
    fn words_are_hashed_by_their_letters_alone() {
        let one = |word: &str| word_hashes(word.as_bytes()).collect::<Vec<u64>>();
        let words = [
            "a",
            "boat",
            "harbour",
            "harbours",
            "harboured",
            "Größenordnungen",
            "a234567890123456",
        ];
        let text = words.join(" ");
        let apart: Vec<u64> = words.iter().flat_map(|word| one(word)).collect();
        assert_eq!(one(&text), apart);
        assert_eq!(one(&format!(" \n{} ", words.join("\n  "))), apart);
        let distinct: std::collections::BTreeSet<u64> = apart.iter().copied().collect();
        assert_eq!(distinct.len(), words.len());
    }

    #[test]
    fn near_texts_are_near_and_far_texts_are_far() {
        let text = words(2_000, 0);
        let near = text.replacen("w4 ", "w5000 ", 1);
        assert_ne!(text, near);
        let distance = |one: &str, other: &str| {
            fingerprint(one)
                .unwrap()
                .distance(fingerprint(other).unwrap())
        };
        assert!(distance(&text, &near) <= Fingerprint::NEAR);
        assert!(distance(&text, &words(2_000, 10_000)) > 15);
        let japanese = "毎週土曜日に子供たちのためのセーリング教室があります。".repeat(40);
        let changed = japanese.replacen("土曜", "日曜", 1);
        assert!(distance(&japanese, &changed) <= Fingerprint::NEAR);
        let shuffled: Vec<String> = (0..2_000).map(|n| format!("w{}", n * 7 % 2_000)).collect();
        let ordered: Vec<String> = (0..2_000).map(|n| format!("w{n}")).collect();
        assert!(distance(&ordered.join(" "), &shuffled.join(" ")) > 15);
    }

    #[test]
    fn short_texts_have_fingerprints_and_empty_ones_none() {
        assert_eq!(fingerprint(""), None);
        assert_eq!(fingerprint(" \n"), None);
        assert_ne!(fingerprint("sailing"), fingerprint("boats"));
        assert_ne!(fingerprint("sailing boats"), fingerprint("boats sailing"));
        assert_eq!(fingerprint("sailing  boats"), fingerprint("sailing\nboats"));
    }
}
