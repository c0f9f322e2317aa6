//! Fingerprints of texts, where near-duplicates differ in few bits, and of models, which are plain
//! hashes.
//!
//! They are computed in `parse::fingerprint` and `classify::model_file`.

use std::fmt;

/// A 64-bit simhash of a page's visible text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Pages whose fingerprints differ in at most this many of 64 bits count as one
    /// (Manku, Jain, Das Sarma: Detecting Near-Duplicates for Web Crawling, 2007, section 5).
    pub(crate) const NEAR: u32 = 3;

    /// Wraps a computed simhash.
    #[must_use]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The simhash itself.
    #[must_use]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// In how many bits two fingerprints differ.
    #[must_use]
    pub(crate) fn distance(self, other: Self) -> u32 {
        (self.0 ^ other.0).count_ones()
    }

    /// Whether two pages are near-duplicates.
    #[must_use]
    pub(crate) fn is_near(self, other: Self) -> bool {
        self.distance(other) <= Self::NEAR
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A content hash of a site model: models with the same fingerprint judge alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelFingerprint(u64);

impl ModelFingerprint {
    /// Wraps a computed hash.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The hash itself, for files.
    #[must_use]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ModelFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
