//! From labelled sites to a site model.
//!
//! [`Labels`] assign sites to topics, a [`Corpus`] holds their pages, and [`fit_model`] learns from
//! it: vocabulary and page classifier from all sites, calibration, error and threshold by
//! cross-validation.
//!
//! Invariant: same sites, settings and random seed give the same model, byte for byte.

mod card;
mod corpus;
mod fit;
mod folds;
mod labels;
mod measures;

pub(crate) use card::Card;
#[cfg(test)]
pub(crate) use corpus::CorpusSite;
pub use corpus::{Corpus, CorpusLimits};
pub use fit::fit_model;
pub use folds::folds;
pub use labels::Labels;
pub(crate) use labels::{LabelsError, OTHER};
pub(crate) use measures::{Measures, Outcome};
