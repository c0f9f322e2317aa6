//! From labelled sites to a site model.
//!
//! [`Labels`] say which site is an example of what, a [`Corpus`] reads the sites, and
//! [`fit_model`] learns from them: vocabulary and page classifier from all sites,
//! calibration, error and threshold from a cross-validation among them.
//!
//! Invariant: same sites, same settings, same seed: same model, byte by byte.

mod card;
mod corpus;
mod fit;
mod folds;
mod labels;
mod measures;

pub use card::Card;
pub use corpus::{Corpus, CorpusSite, WalkLimits};
pub use fit::{Validation, fit_model};
pub use folds::folds;
pub use labels::{Label, Labels, LabelsError, OTHER, is_topic_name};
pub use measures::{Bin, Measures, Outcome};
