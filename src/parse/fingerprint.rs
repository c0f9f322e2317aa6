//! Simhash of the visible text.
//!
//! Charikar 2002; as used on web pages by Manku, Jain and Das Sarma 2007: every feature
//! votes on each of 64 bits with the bits of its hash, and the majority wins. Features are
//! runs of three words, so that the order of words matters and a changed word changes
//! three features. Texts of fewer words have one feature.
//!
//! Invariant: the hash of a word never changes between versions, or stored fingerprints
//! lose their meaning.

use xxhash_rust::xxh3::xxh3_64;

use crate::web::{Fingerprint, PageText};

/// Spreads the eight bits of a byte over the eight bytes of a word, so that eight votes
/// are counted with one addition.
const SPREAD: [u64; 256] = spread();

/// A byte counts this many votes before it must be emptied.
const VOTES_PER_ROUND: u32 = 255;

const fn spread() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte] |= 1 << (8 * bit);
            }
            bit += 1;
        }
        byte += 1;
    }
    table
}

/// The votes for each bit.
struct Ballot {
    /// One byte for each bit, eight to a word.
    round: [u64; 8],
    in_round: u32,
    counts: [u32; 64],
    voters: u32,
}

/// The fingerprint of a page's visible text; none if it has no words.
pub(super) fn of(text: &PageText) -> Option<Fingerprint> {
    let mut ballot = Ballot::new();
    let mut last = [0_u64; 2];
    let mut words = 0_u32;
    for (_, run) in text.runs().filter(|(part, _)| part.is_visible()) {
        for word in run.split_ascii_whitespace() {
            let hash = xxh3_64(word.as_bytes());
            words += 1;
            if words >= 3 {
                ballot.vote(mix(last, hash));
            }
            last = [last[1], hash];
        }
    }
    if (1..3).contains(&words) {
        ballot.vote(mix([0, last[0]], last[1]));
    }
    ballot.result()
}

/// One feature from three words in a row.
fn mix([first, second]: [u64; 2], third: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut mixed = first.rotate_left(23) ^ second;
    mixed = mixed.wrapping_mul(ODD).rotate_left(31) ^ third;
    mixed = mixed.wrapping_mul(ODD);
    mixed ^ mixed >> 29
}

impl Ballot {
    fn new() -> Self {
        Self {
            round: [0; 8],
            in_round: 0,
            counts: [0; 64],
            voters: 0,
        }
    }

    fn vote(&mut self, hash: u64) {
        for (counts, byte) in self.round.iter_mut().zip(hash.to_le_bytes()) {
            *counts += SPREAD[usize::from(byte)];
        }
        self.voters += 1;
        self.in_round += 1;
        if self.in_round == VOTES_PER_ROUND {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        let bytes = self.round.iter().flat_map(|counts| counts.to_le_bytes());
        for (count, votes) in self.counts.iter_mut().zip(bytes) {
            *count += u32::from(votes);
        }
        self.round = [0; 8];
        self.in_round = 0;
    }

    fn result(mut self) -> Option<Fingerprint> {
        self.end_round();
        let majority = |bits: u64, (bit, count): (usize, &u32)| {
            bits | u64::from(count * 2 > self.voters) << bit
        };
        let bits = self.counts.iter().enumerate().fold(0, majority);
        (self.voters > 0).then(|| Fingerprint::from_bits(bits))
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

    /// Simhash as the paper words it, bit by bit.
    fn by_the_book(text: &str) -> u64 {
        let words: Vec<u64> = text.split_whitespace().map(|w| xxh3_64(w.as_bytes())).collect();
        let mut votes = [0_i64; 64];
        for three in words.windows(3) {
            let hash = mix([three[0], three[1]], three[2]);
            for (bit, vote) in votes.iter_mut().enumerate() {
                *vote += if hash >> bit & 1 == 1 { 1 } else { -1 };
            }
        }
        votes.iter().enumerate().fold(0, |bits, (bit, vote)| bits | u64::from(*vote > 0) << bit)
    }

    fn words(count: usize, seed: usize) -> String {
        let words: Vec<String> = (0..count).map(|n| format!("w{}", n * n % 997 + seed)).collect();
        words.join(" ")
    }

    #[test]
    fn the_fast_count_is_the_count_of_the_paper() {
        for count in [3, 100, 255, 256, 257, 2_000] {
            let text = words(count, 0);
            assert_eq!(fingerprint(&text).unwrap().bits(), by_the_book(&text), "{count}");
        }
    }

    #[test]
    fn near_texts_are_near_and_far_texts_are_far() {
        let text = words(600, 0);
        let near = text.replacen("w4 ", "w5000 ", 1);
        assert_ne!(text, near);
        let distance = |one: &str, other: &str| {
            fingerprint(one).unwrap().distance(fingerprint(other).unwrap())
        };
        assert!(distance(&text, &near) <= Fingerprint::NEAR);
        assert!(distance(&text, &words(600, 10_000)) > 15);
        let reversed: Vec<&str> = text.split(' ').rev().collect();
        assert!(distance(&text, &reversed.join(" ")) > 15);
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
