//! Random numbers from named streams.
//!
//! Invariant: the same seed, stream and numbers give the same draws, in any order of calls and
//! on any machine. So the web needs no state.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256Plus;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// One stream of random numbers.
pub(super) struct SeededRandom(Xoshiro256Plus);

impl SeededRandom {
    /// The stream of a name and numbers, such as those of a site and a page.
    pub(super) fn about(seed: u64, stream: &str, numbers: &[u64]) -> Self {
        let mut hash = xxh3_64_with_seed(stream.as_bytes(), seed);
        for number in numbers {
            hash = xxh3_64_with_seed(&number.to_le_bytes(), hash);
        }
        Self(Xoshiro256Plus::seed_from_u64(hash))
    }

    /// A number from 0 to below 1.
    pub(super) fn share(&mut self) -> f64 {
        self.0.r#gen()
    }

    /// True with this probability.
    pub(super) fn is(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    /// A number below `end`, which must not be zero.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0.gen_range(0..end)
    }

    /// An item of a list, which must not be empty.
    pub(super) fn pick<'a, T: ?Sized, A: AsRef<T>>(&mut self, list: &'a [A]) -> &'a T {
        let at = self.below(list.len() as u64);
        list[index(at)].as_ref()
    }

    /// An index into a list of this length; the n-th item has a probability proportional to
    /// about 1/n, as words of a language have (Zipf).
    pub(super) fn early(&mut self, length: usize) -> usize {
        let end = length as f64 + 1.0;
        let place = end.powf(self.share());
        (place as usize).clamp(1, length) - 1
    }

    /// A log-normally distributed number; `spread` is the deviation of its logarithm.
    pub(super) fn around(&mut self, median: f64, spread: f64) -> f64 {
        // Box-Muller; the argument of the logarithm is never zero.
        let radius = (-2.0 * (1.0 - self.share()).ln()).sqrt();
        let angle = std::f64::consts::TAU * self.share();
        median * (spread * radius * angle.cos()).exp()
    }
}

/// A number as an index.
pub(super) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_seed_stream_and_numbers_alone() {
        let draw =
            |seed, stream, number| SeededRandom::about(seed, stream, &[number]).below(1 << 40);
        assert_eq!(draw(1, "size", 7), draw(1, "size", 7));
        assert_ne!(draw(1, "size", 7), draw(2, "size", 7));
        assert_ne!(draw(1, "size", 7), draw(1, "name", 7));
        assert_ne!(draw(1, "size", 7), draw(1, "size", 8));
    }

    #[test]
    fn early_places_come_more_often() {
        let mut random = SeededRandom::about(1, "test", &[]);
        let mut counts = [0_u32; 100];
        for _ in 0..100_000 {
            counts[random.early(100)] += 1;
        }
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        let ratio = f64::from(counts[0]) / f64::from(counts[9]);
        assert!((5.0..20.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn sizes_lie_around_their_median() {
        let mut random = SeededRandom::about(1, "test", &[]);
        let mut sizes: Vec<f64> = (0..10_001).map(|_| random.around(30.0, 1.0)).collect();
        sizes.sort_by(f64::total_cmp);
        assert!((27.0..33.0).contains(&sizes[5_000]), "{}", sizes[5_000]);
        // One spread above the median lie 16 %.
        assert!((70.0..95.0).contains(&sizes[8_413]), "{}", sizes[8_413]);
    }
}
