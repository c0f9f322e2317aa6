//! Offline evaluation: how good is what we do, beside something else?
//!
//! Invariant: the lab runs the same crawlers as everybody. Only what they are given is
//! chosen here: models, settings, where pages come from.

mod crawl_curves;
mod crawl_truth;
pub mod generated;
mod likeness;
mod table_two;
mod topic_models;
mod walk;

pub(crate) use crawl_curves::{CrawlExperiment, CrawlResult, CurveMeans, SHARES};
pub(crate) use crawl_truth::{FoundSites, TruthExperiment, TruthResult};
pub(crate) use likeness::{Likeness, Spread, likeness};
pub(crate) use table_two::Verdicts;
pub use table_two::{Experiment, Row, TopicResult};
pub(crate) use topic_models::TopicModels;
