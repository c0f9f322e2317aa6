//! Offline evaluation: classifiers and orderings compared with baselines.
//!
//! Invariant: the lab runs the production crawlers. It chooses only their inputs: models,
//! settings and the source of pages.

mod crawl_curves;
mod crawl_truth;
pub mod generated;
mod likeness;
mod open_measures;
mod open_world;
mod table_two;
mod topic_models;
mod walk;

pub(crate) use crawl_curves::{CrawlExperiment, CrawlResult, CurveMeans, SHARES};
pub(crate) use crawl_truth::{FoundSites, TruthExperiment, TruthResult};
pub(crate) use likeness::{Likeness, Spread, likeness};
pub use open_measures::{FindsInRange, Interval, OpenMeasures, reliability};
pub use open_world::{Mistakes, OpenResult, OpenWorld, Priors};
pub(crate) use table_two::Verdicts;
pub use table_two::{Experiment, Row, TopicResult};
pub(crate) use topic_models::TopicModels;
