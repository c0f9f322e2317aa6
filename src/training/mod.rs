//! From labelled sites to a site model.
//!
//! [`Labels`] assign sites to topics, a [`Corpus`] holds their pages, a [`Background`] adds sites of
//! many kinds as examples of what the topic is not, and [`fit_model`] learns from all of them:
//! vocabulary and page classifier from all sites, calibration, error and threshold by cross-validation.
//!
//! Invariant: same sites, settings and random seed give the same model, byte for byte.

mod background;
mod card;
mod corpus;
mod deals;
mod fit;
mod folds;
mod known_sites;
mod labels;
mod measures;
mod prior;

pub(crate) use background::{Background, Extension};
pub(crate) use card::{Card, pages_by_language};
pub(crate) use corpus::CorpusSite;
pub use corpus::{Corpus, CorpusLimits};
pub(crate) use deals::{Deal, DealtSites};
pub(crate) use fit::Validation;
pub use fit::fit_model;
pub(crate) use fit::fit_model_from;
pub use folds::folds;
pub(crate) use known_sites::{KnownRole, KnownSite, KnownSites, Proportion, Reliability};
pub use labels::Labels;
pub(crate) use labels::{Label, LabelsError, OTHER, is_topic_name};
pub(crate) use measures::{Measures, Outcome};
pub(crate) use prior::learn_prior;
