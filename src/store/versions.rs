//! How records become bytes, and how those of older versions are read.
//!
//! Each record begins with the version of its format. A record with a new format names the previous one
//! and the step from that one to its own ([`VersionedRecord::upgrade`]), so that a record of any
//! earlier version is read through a chain of such steps. It is written in its latest format the
//! next time that it changes.
//!
//! Invariant: every older version can be read, and a later version is an error.

use std::net::IpAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::StoreError;

/// A record in its latest format.
pub(super) trait VersionedRecord: Serialize + DeserializeOwned {
    /// The version of this format.
    const VERSION: u8;

    /// The previous format; [`NoRecord`] if this is the first.
    type Before: VersionedRecord;

    /// Converts from the previous format.
    fn upgrade(before: Self::Before) -> Self;
}

/// The predecessor of the first format.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum NoRecord {}

impl VersionedRecord for NoRecord {
    const VERSION: u8 = 0;
    type Before = Self;

    fn upgrade(before: Self) -> Self {
        before
    }
}

/// For records that have had one format only.
macro_rules! first_format {
    ($($record:ty),+ $(,)?) => {$(
        impl $crate::store::versions::VersionedRecord for $record {
            const VERSION: u8 = 1;
            type Before = $crate::store::versions::NoRecord;

            fn upgrade(before: Self::Before) -> Self {
                match before {}
            }
        }
    )+};
}
pub(super) use first_format;

first_format!(u32, u64, Option<u64>, (u64, bool), (u16, String), IpAddr);

/// A record as bytes.
pub(super) fn encode<R: VersionedRecord>(record: &R) -> Vec<u8> {
    let bytes = postcard::to_extend(record, vec![R::VERSION]);
    bytes.expect("records can be written into memory")
}

/// A record of this version or of an earlier one.
pub(super) fn decode<R: VersionedRecord>(key: &[u8], bytes: &[u8]) -> Result<R, StoreError> {
    match bytes.split_first() {
        Some((version, rest)) if *version == R::VERSION => {
            postcard::from_bytes(rest).map_err(|error| StoreError::damaged(key, &in_words(&error)))
        }
        Some((version, _)) if *version > R::VERSION => Err(StoreError::Newer),
        Some(_) if R::VERSION > 0 => decode::<R::Before>(key, bytes).map(R::upgrade),
        _ => Err(StoreError::damaged(key, "its version is unknown")),
    }
}

/// What is wrong with a record. Enumerations grow without a new version of their record.
fn in_words(error: &postcard::Error) -> String {
    match error {
        postcard::Error::SerdeDeCustom => {
            "it has a value that this version of sitescout does not know, which a later one may have \
             written"
                .to_owned()
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct First(u16);

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Second {
        number: u32,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Third {
        number: u32,
        name: String,
    }

    first_format!(First);

    impl VersionedRecord for Second {
        const VERSION: u8 = 2;
        type Before = First;

        fn upgrade(First(number): First) -> Self {
            Self {
                number: number.into(),
            }
        }
    }

    impl VersionedRecord for Third {
        const VERSION: u8 = 3;
        type Before = Second;

        fn upgrade(before: Second) -> Self {
            Self {
                number: before.number,
                name: "none".to_owned(),
            }
        }
    }

    #[test]
    fn records_of_every_earlier_version_are_read_and_later_ones_are_refused() {
        let upgraded = Third {
            number: 7,
            name: "none".to_owned(),
        };
        assert_eq!(decode::<Third>(b"k", &encode(&First(7))).unwrap(), upgraded);
        let second = Second { number: 7 };
        assert_eq!(decode::<Third>(b"k", &encode(&second)).unwrap(), upgraded);
        assert_eq!(decode::<Third>(b"k", &encode(&upgraded)).unwrap(), upgraded);
        let later = decode::<Second>(b"k", &encode(&upgraded));
        assert!(matches!(later, Err(StoreError::Newer)));
        for bytes in [&b""[..], &[0], &[0, 1], &[1], &[2]] {
            let damaged = decode::<Third>(b"k", bytes);
            assert!(
                matches!(damaged, Err(StoreError::Damaged { .. })),
                "{bytes:?}"
            );
        }
    }
}
