//! Random numbers that depend on nothing but what it is about.
//!
//! Invariant: the same web, the same matter and the same numbers give the same draws, in any
//! order and on any machine. So nothing of the web has to be remembered.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256Plus;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Draws about one matter.
pub(super) struct SeededRandom(Xoshiro256Plus);

impl SeededRandom {
    /// Draws about a matter, which has a name and numbers: which site, which page.
    pub(super) fn about(seed: u64, matter: &str, numbers: &[u64]) -> Self {
        let mut hash = xxh3_64_with_seed(matter.as_bytes(), seed);
        for number in numbers {
            hash = xxh3_64_with_seed(&number.to_le_bytes(), hash);
        }
        Self(Xoshiro256Plus::seed_from_u64(hash))
    }

    /// A number from 0 to 1.
    pub(super) fn share(&mut self) -> f64 {
        self.0.r#gen()
    }

    /// Whether something of this probability happens.
    pub(super) fn is(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    /// A number below `end`, which must not be zero.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0.gen_range(0..end)
    }

    /// One of a list that is not empty.
    pub(super) fn pick<'a, T: ?Sized, A: AsRef<T>>(&mut self, list: &'a [A]) -> &'a T {
        let at = self.below(list.len() as u64);
        list[index(at)].as_ref()
    }

    /// A place in a list of this length, the first more often: the n-th has a probability of
    /// about 1/n, as words of a language have (Zipf).
    pub(super) fn early(&mut self, length: usize) -> usize {
        let end = length as f64 + 1.0;
        let place = end.powf(self.share());
        (place as usize).clamp(1, length) - 1
    }

    /// A number whose logarithm is normally distributed around that of `median`, as sizes
    /// in nature are.
    pub(super) fn around(&mut self, median: f64, spread: f64) -> f64 {
        // Box and Muller; the first share is never zero.
        let radius = (-2.0 * (1.0 - self.share()).ln()).sqrt();
        let angle = std::f64::consts::TAU * self.share();
        median * (spread * radius * angle.cos()).exp()
    }
}

/// Numbers of pages and words fit into memory.
pub(super) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_the_matter_alone() {
        let draw =
            |seed, matter, number| SeededRandom::about(seed, matter, &[number]).below(1 << 40);
        assert_eq!(draw(1, "size", 7), draw(1, "size", 7));
        assert_ne!(draw(1, "size", 7), draw(2, "size", 7));
        assert_ne!(draw(1, "size", 7), draw(1, "name", 7));
        assert_ne!(draw(1, "size", 7), draw(1, "size", 8));
    }

    #[test]
    fn early_places_come_more_often() {
        let mut chance = SeededRandom::about(1, "test", &[]);
        let mut counts = [0_u32; 100];
        for _ in 0..100_000 {
            counts[chance.early(100)] += 1;
        }
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        let ratio = f64::from(counts[0]) / f64::from(counts[9]);
        assert!((5.0..20.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn sizes_lie_around_their_median() {
        let mut chance = SeededRandom::about(1, "test", &[]);
        let mut sizes: Vec<f64> = (0..10_001).map(|_| chance.around(30.0, 1.0)).collect();
        sizes.sort_by(f64::total_cmp);
        assert!((27.0..33.0).contains(&sizes[5_000]), "{}", sizes[5_000]);
        // One spread above the median lie 16 %.
        assert!((70.0..95.0).contains(&sizes[8_413]), "{}", sizes[8_413]);
    }
}
