//! The frame of the files of models and backgrounds.
//!
//! ```text
//! magic                 16 bytes, which name the kind of file
//! version               u32, little endian
//! length of the payload u64, little endian
//! payload               postcard
//! xxh3 of the payload   u64, little endian
//! ```
//!
//! The checksum detects accidents, not forgery: the reader of the payload checks that it makes sense.

use xxhash_rust::xxh3::xxh3_64;

const MAGIC_BYTES: usize = 16;

/// A kind of file, in one version.
pub(super) struct SealedFile {
    pub(super) magic: &'static [u8; MAGIC_BYTES],
    pub(super) version: u32,
}

/// Why there is no payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BrokenSeal {
    /// Another kind of file.
    OtherKind,
    /// The version of the file, which is not damaged.
    OtherVersion(u32),
    /// What is wrong.
    Damaged(&'static str),
}

const ENDS_IN_HEADER: BrokenSeal = BrokenSeal::Damaged("it ends in its header");

// === impl SealedFile ===

impl SealedFile {
    /// The content of a file with this payload.
    #[must_use]
    pub(super) fn seal(&self, payload: &[u8]) -> Vec<u8> {
        [
            &self.magic[..],
            &self.version.to_le_bytes(),
            &(payload.len() as u64).to_le_bytes(),
            payload,
            &xxh3_64(payload).to_le_bytes(),
        ]
        .concat()
    }

    /// The payload of a file.
    pub(super) fn unseal<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], BrokenSeal> {
        let rest = bytes.strip_prefix(self.magic);
        let (version, rest) = rest
            .ok_or(BrokenSeal::OtherKind)?
            .split_first_chunk()
            .ok_or(ENDS_IN_HEADER)?;
        let version = u32::from_le_bytes(*version);
        if version != self.version {
            return Err(BrokenSeal::OtherVersion(version));
        }
        let (length, rest) = rest.split_first_chunk().ok_or(ENDS_IN_HEADER)?;
        let (payload, checksum) = rest
            .split_last_chunk()
            .filter(|(payload, _)| payload.len() as u64 == u64::from_le_bytes(*length))
            .ok_or(BrokenSeal::Damaged("its length is wrong"))?;
        if xxh3_64(payload) != u64::from_le_bytes(*checksum) {
            return Err(BrokenSeal::Damaged("its checksum is wrong"));
        }
        Ok(payload)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    const FILE: SealedFile = SealedFile {
        magic: b"sitescout tests\n",
        version: 7,
    };

    /// Files of earlier releases are read by this layout.
    #[test]
    fn the_layout_by_hand() {
        let sealed = FILE.seal(b"ab");
        let (header, rest) = sealed.split_at(MAGIC_BYTES);
        assert_eq!(header, FILE.magic);
        assert_eq!(rest[..12], [7, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(rest[12..14], *b"ab");
        assert_eq!(rest[14..], xxh3_64(b"ab").to_le_bytes());
    }

    #[test]
    fn other_files_and_versions_are_not_damage() {
        let mut sealed = FILE.seal(b"ab");
        sealed[MAGIC_BYTES] = 9;
        assert_eq!(FILE.unseal(&sealed), Err(BrokenSeal::OtherVersion(9)));
        assert_eq!(FILE.unseal(b"<html>"), Err(BrokenSeal::OtherKind));
        assert_eq!(FILE.unseal(&sealed[..18]), Err(ENDS_IN_HEADER));
        assert_eq!(FILE.unseal(&FILE.seal(b"ab")[..25]), Err(ENDS_IN_HEADER));
    }

    proptest! {
        #[test]
        fn damage_is_never_taken_for_another_payload(
            payload in prop::collection::vec(any::<u8>(), 0..60),
            at in any::<Index>(),
            bit in 0_u32..8,
        ) {
            let sealed = FILE.seal(&payload);
            prop_assert_eq!(FILE.unseal(&sealed), Ok(&payload[..]));
            let cut = &sealed[..at.index(sealed.len())];
            prop_assert!(FILE.unseal(cut).is_err());
            let mut flipped = sealed.clone();
            flipped[at.index(sealed.len())] ^= 1 << bit;
            prop_assert!(FILE.unseal(&flipped).is_err());
            let longer = [&sealed[..], &[0]].concat();
            prop_assert!(FILE.unseal(&longer).is_err());
        }
    }
}
