//! The file format of site models: a [`SealedFile`].
//!
//! The fingerprint of a model is a hash of payload and version, so that models which judge
//! differently have different fingerprints.
//!
//! Invariant: a model that was read judges without panic: lengths agree and numbers are finite.
//! The same model gives the same bytes.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::web::ModelFingerprint;

use super::calibration::Calibration;
use super::model::{PageModel, SiteModel, Thresholds};
use super::sealed_file::{BrokenSeal, SealedFile};
use super::vocabulary::{TermWeights, Vocabulary};

/// Incremented whenever an existing model would be read, or would judge, differently: also when
/// terms, weights or kinds of page change their meaning.
const VERSION: u32 = 2;

const FILE: SealedFile = SealedFile {
    magic: b"sitescout model\n",
    version: VERSION,
};

/// Why bytes are not a usable model.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ModelFileError {
    /// Not a model file.
    #[error("this is not a site model")]
    NotAModel,
    /// Written by another version of the program, not damaged.
    #[error(
        "the model has format {found}, this sitescout reads format {VERSION}; \
         train it again, or use the sitescout that made it"
    )]
    OtherVersion {
        /// The format of the file.
        found: u32,
    },
    /// Length, checksum or content is wrong.
    #[error("the model is damaged ({0}); restore or train it again")]
    Damaged(&'static str),
}

impl From<BrokenSeal> for ModelFileError {
    fn from(broken: BrokenSeal) -> Self {
        match broken {
            BrokenSeal::OtherKind => Self::NotAModel,
            BrokenSeal::OtherVersion(found) => Self::OtherVersion { found },
            BrokenSeal::Damaged(what) => Self::Damaged(what),
        }
    }
}

/// The serialised part.
#[derive(Serialize, Deserialize)]
struct Payload {
    topic: String,
    terms: Vec<Box<str>>,
    weights: TermWeights,
    pages: PageModel,
    calibration: Calibration,
    thresholds: Thresholds,
}

impl SiteModel {
    /// The content of the model file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        FILE.seal(&payload(self))
    }

    /// Reads what [`SiteModel::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelFileError> {
        let payload: Payload = postcard::from_bytes(FILE.unseal(bytes)?)
            .map_err(|_| ModelFileError::Damaged("its content makes no sense"))?;
        if payload.is_sound() {
            Ok(Self::new(
                payload.topic,
                Vocabulary::new(payload.terms, payload.weights),
                payload.pages,
                payload.calibration,
                payload.thresholds,
            ))
        } else {
            Err(ModelFileError::Damaged("its content makes no sense"))
        }
    }
}

impl Payload {
    fn is_sound(&self) -> bool {
        let features = self.terms.len();
        let ascending = self.terms.is_sorted_by(|one, other| one < other);
        ascending
            && self.weights.is_sound(features)
            && self.pages.is_sound(features)
            && self.calibration.is_sound()
            && self.thresholds.is_sound()
    }
}

pub(super) fn fingerprint(model: &SiteModel) -> ModelFingerprint {
    let hash = xxh3_64_with_seed(&payload(model), u64::from(VERSION));
    ModelFingerprint::from_bits(hash)
}

fn payload(model: &SiteModel) -> Vec<u8> {
    let payload = Payload {
        topic: model.topic().to_owned(),
        terms: model.vocabulary().terms().map(Box::from).collect(),
        weights: model.vocabulary().weights().clone(),
        pages: model.pages().clone(),
        calibration: *model.calibration(),
        thresholds: *model.thresholds(),
    };
    postcard::to_stdvec(&payload).expect("plain numbers and texts can be written to memory")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::classify::vocabulary::SiteCounts;
    use crate::classify::{
        CentroidClassifier, CentroidParams, LinearClassifier, LinearParams, PageVector, WeighedPage,
    };
    use crate::web::{Language, PageKind, PageTerms};

    fn model(is_linear: bool) -> SiteModel {
        let page = |feature, is_target| WeighedPage {
            vector: PageVector::normalised(vec![(feature, 1.0)]),
            is_target,
            weight: 1.0,
        };
        let pages = [page(0, false), page(1, true)];
        let pages = if is_linear {
            PageModel::Linear(LinearClassifier::fit(
                &pages,
                2,
                &LinearParams { cost: 1.0, seed: 1 },
            ))
        } else {
            PageModel::Centroid(CentroidClassifier::fit(
                &pages,
                2,
                &CentroidParams {
                    dimensions: 2,
                    target_centroids: 1,
                    other_centroids: 1,
                    seed: 1,
                },
            ))
        };
        let counts = |sites| SiteCounts {
            sites,
            with_term: vec![1, 2],
        };
        let weights = TermWeights::new(counts(4), vec![("en".to_owned(), counts(3))]);
        let terms = vec!["boat".into(), "sail".into()];
        SiteModel::new(
            "sailing".to_owned(),
            Vocabulary::new(terms, weights),
            pages,
            Calibration::BLIND,
            Thresholds {
                p_threshold: 0.9,
                confirming_pages: 3,
                deciding_pages: 6,
                min_known_terms: 1,
            },
        )
    }

    #[test]
    fn what_is_written_can_be_read() {
        for is_linear in [true, false] {
            let model = model(is_linear);
            let bytes = model.to_bytes();
            let again = SiteModel::from_bytes(&bytes).unwrap();
            assert_eq!(again, model);
            assert_eq!(again.fingerprint(), model.fingerprint());
            assert_eq!(again.to_bytes(), bytes);
        }
    }

    #[test]
    fn thresholds_belong_to_the_fingerprint() {
        let model = model(true);
        let thresholds = Thresholds {
            p_threshold: 0.95,
            ..*model.thresholds()
        };
        let other = model.clone().with_thresholds(thresholds);
        assert_ne!(other.fingerprint(), model.fingerprint());
    }

    /// Without terms any number of dimensions fits an empty table.
    #[test]
    fn a_model_of_no_terms_and_endless_dimensions_is_refused() {
        let model = model(true);
        let forged = Payload {
            topic: "x".to_owned(),
            terms: Vec::new(),
            weights: TermWeights::new(
                SiteCounts {
                    sites: 1,
                    with_term: Vec::new(),
                },
                Vec::new(),
            ),
            pages: PageModel::Centroid(CentroidClassifier {
                dimensions: 1 << 61,
                projection: Vec::new(),
                target: Vec::new(),
                other: Vec::new(),
            }),
            calibration: *model.calibration(),
            thresholds: *model.thresholds(),
        };
        let payload = postcard::to_stdvec(&forged).unwrap();
        let refused = SiteModel::from_bytes(&FILE.seal(&payload));
        assert_eq!(
            refused,
            Err(ModelFileError::Damaged("its content makes no sense"))
        );
    }

    proptest! {
        /// A checksum detects accidents, not forgery: any payload with a valid one is refused or
        /// judges without panic.
        #[test]
        fn a_forged_model_is_refused_or_judges(
            is_linear in any::<bool>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let mut payload = payload(&model(is_linear));
            for (at, byte) in changes {
                let at = at.index(payload.len());
                payload[at] = byte;
            }
            if let Ok(model) = SiteModel::from_bytes(&FILE.seal(&payload)) {
                let words = [("boat", [1; 6]), ("sail", [1; 6])];
                let feature = |term: &str| model.vocabulary().feature(term);
                let page = PageTerms::of_words(Some(Language::ENGLISH), words, feature);
                let _ = model.judge(&page, PageKind::Homepage);
                let _ = model.aspects(5);
            }
        }

        #[test]
        fn any_bytes_are_a_model_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = SiteModel::from_bytes(&bytes);
            let _ = SiteModel::from_bytes(&FILE.seal(&bytes));
        }
    }
}
