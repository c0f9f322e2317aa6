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

pub(crate) use card::Card;
pub use corpus::{Corpus, WalkLimits};
pub use fit::fit_model;
pub use folds::folds;
pub use labels::Labels;
pub(crate) use labels::{LabelsError, OTHER};
pub(crate) use measures::{Measures, Outcome};
