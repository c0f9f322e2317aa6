//! Pure mathematics: from words to page confidences, from pages to site confidences.
//!
//! A page passes through in one direction. A [`Vocabulary`](vocabulary::Vocabulary) turns its
//! terms into a [`PageVector`], a [`PageClassifier`] gives the vector a score, the [`Calibration`]
//! turns the score into a [`crate::web::PageConfidence`], and [`SiteEvidence`] adds it to what is
//! known about the site. All of this together, learned for one topic, is a [`SiteModel`].
//!
//! | file | question | paper |
//! |---|---|---|
//! | `example.rs` | what do we learn from? | 4.3.1 |
//! | `vocabulary.rs`, `vector.rs` | which words count, and how much? | 4.3.1 |
//! | `centroid.rs` | is this a page of the topic? As the paper answers it. | 4.3.1 |
//! | `linear.rs` | the same, as we answer it | - |
//! | `calibration.rs` | what is a score worth? How often is it wrong? | 4.3.3 |
//! | `evidence.rs` | what do the pages say about the site? | 4.3.3 |
//! | `model.rs`, `model_file.rs` | what was learned, and how is it kept? | - |
//!
//! Invariant: deterministic. Same pages, same seed, same numbers; same model, same verdict.
//! No input, no output; the model file is bytes here.

mod calibration;
mod centroid;
mod evidence;
mod example;
mod linear;
mod model;
mod model_file;
mod vector;
mod vocabulary;

pub(crate) use calibration::{Calibration, HeldOutPage};
pub(crate) use centroid::{CentroidClassifier, CentroidParams};
pub(crate) use evidence::SiteEvidence;
pub(crate) use example::{Class, CountedPage, ExampleSite, Lexicon};
pub(crate) use linear::{LinearClassifier, LinearParams, WeighedPage};
pub(crate) use model::{JudgedPage, PageModel};
pub use model::{SiteModel, Thresholds};
pub(crate) use model_file::ModelFileError;
pub(crate) use vector::{Feature, PageVector};
pub(crate) use vocabulary::{Selection, VocabularyLimits};

/// Is this a page of the topic?
pub(crate) trait PageClassifier {
    /// Log-odds for the target class: above zero speaks for it. What a number is worth is
    /// for the [`Calibration`] to say.
    fn score(&self, page: &PageVector) -> f64;

    /// How much each feature of a page spoke for (positive) or against (negative) the
    /// target class.
    fn contributions(&self, page: &PageVector) -> Vec<(Feature, f64)>;

    /// What the classifier looks for, in the words of its features; several aspects if it
    /// sees its classes as many kinds of page.
    fn aspects(&self) -> Vec<Aspect>;
}

/// One thing a classifier looks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Aspect {
    /// A line for the model card.
    pub(crate) title: String,
    /// How much each feature tells; the larger the more.
    pub(crate) features: Vec<(Feature, f64)>,
}
