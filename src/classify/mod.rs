//! The classifiers: from words to page confidences, from pages to site confidences.
//!
//! A [`Vocabulary`](vocabulary::Vocabulary) turns the terms of a page into a [`PageVector`], a
//! [`PageClassifier`] scores the vector, the [`Calibration`] turns the score into a
//! [`crate::web::PageConfidence`], and [`SiteEvidence`] combines the confidences of a site's pages.
//! All of this together, learned for one topic, is a [`SiteModel`].
//!
//! | file | contents | paper |
//! |---|---|---|
//! | `example.rs` | training examples | 4.3.1 |
//! | `vocabulary.rs`, `vector.rs` | feature selection and weights | 4.3.1 |
//! | `centroid.rs` | the paper's page classifier | 4.3.1 |
//! | `linear.rs` | our page classifier, logistic regression | - |
//! | `calibration.rs` | from scores to confidences and error rates | 4.3.3 |
//! | `topic_prior.rs` | what was learned over many topics | - |
//! | `host_words.rs` | terms in the name of a host | - |
//! | `evidence.rs` | the site classifier | 4.3.3 |
//! | `model.rs`, `model_file.rs` | the trained model and its file | - |
//! | `background_file.rs` | the file of a background: sites of many kinds, as counts of terms | - |
//! | `sealed_file.rs` | the frame of both files: kind, version, checksum | - |
//!
//! Invariant: deterministic. Same pages and random seed give the same numbers, the same model gives
//! the same verdict. No I/O; files are bytes here.

mod background_file;
mod calibration;
mod centroid;
mod evidence;
mod example;
mod host_words;
mod linear;
mod model;
mod model_file;
mod sealed_file;
mod topic_prior;
mod vector;
mod vocabulary;

pub(crate) use background_file::{BackgroundFileError, CountedSite, CountedSites};
pub(crate) use calibration::{Calibration, HeldOutSite, ScoreSpread};
pub(crate) use centroid::{CentroidClassifier, CentroidParams};
pub(crate) use evidence::{EvidenceStanding, SiteEvidence};
pub use example::Lexicon;
#[cfg(test)]
pub(crate) use example::any_site;
pub(crate) use example::{Class, CountedPage, ExampleSite, TermId, Translation};
pub(crate) use host_words::host_words;
pub(crate) use linear::{LinearClassifier, LinearParams, WeighedPage};
pub(crate) use model::PageModel;
pub use model::{JudgedPage, KnownTerms, SiteModel, Thresholds};
pub(crate) use model_file::ModelFileError;
pub(crate) use topic_prior::{JudgedTopic, TopicPrior};
pub(crate) use vector::{Feature, PageVector};
pub(crate) use vocabulary::{Selection, VocabularyLimits};

/// Scores pages for a topic.
pub(crate) trait PageClassifier {
    /// Uncalibrated log-odds for the target class; the [`Calibration`] turns them into a confidence.
    fn score(&self, page: &PageVector) -> f64;

    /// Contribution of each feature of a page to its score: positive for, negative against the
    /// target class.
    fn contributions(&self, page: &PageVector) -> Vec<(Feature, f64)>;

    /// What the classifier looks for, by feature; several aspects if its classes consist of many
    /// kinds of page.
    fn aspects(&self) -> Vec<Aspect>;
}

/// One thing a classifier looks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Aspect {
    /// A line for the model card.
    pub(crate) title: String,
    /// The weight of each feature; larger is more telling.
    pub(crate) features: Vec<(Feature, f64)>,
}
