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

pub use crawl_curves::{CrawlCurve, CrawlExperiment, CrawlResult, CurveMeans, SHARES};
pub use crawl_truth::{FoundSites, TruthExperiment, TruthResult, TruthRow};
pub use likeness::{Likeness, Spread, likeness};
pub use table_two::{Experiment, Row, TopicResult, Verdicts};
pub use topic_models::TopicModels;
pub use walk::WalkError;
