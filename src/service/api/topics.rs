//! Topics, their state and progress.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::store::{CurvePoint, Progress, Tally, TopicId, TopicTotals};
use crate::verdicts::date;
use crate::web::Trouble;

use super::super::PlannedTopic;
use super::super::status_board::{IdleReason, TopicState};
use super::Api;
use super::answers::{ApiProblem, Json, Path, ProblemBody};

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Topics {
    topics: Vec<Topic>,
}

/// A topic, its state and its totals
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Topic {
    name: String,
    /// `starting`, `crawling`, `draining` or `idle`
    state: &'static str,
    /// Why it is idle
    reason: Option<&'static str>,
    /// The local failure that stops a crawling topic: `network`, `proxy`, `sockets` or `clock`
    trouble: Option<&'static str>,
    /// What to do about `trouble`
    trouble_advice: Option<&'static str>,
    /// The topic is idle once `finds` reaches this number
    wanted: Option<u64>,
    /// Fingerprint of the current model
    model: Option<String>,
    /// Relevant sites without start sites
    finds: u64,
    /// Relevant sites, including start sites
    relevant: u64,
    irrelevant: u64,
    undecided: u64,
    pages: u64,
    /// Sites known and not yet visited
    border: u64,
    /// Sites whose visit is deferred to a later time
    deferred: u64,
    /// Sites being visited
    in_flight: u64,
    /// Pages per relevant site
    pprs: Windows,
    /// Share of relevant sites among those decided
    harvest: Windows,
}

/// A rate over all pages and over the last 5,000 and 1,000; null while it is not defined
#[derive(Debug, Serialize, ToSchema)]
struct Windows {
    all: Option<f64>,
    last_5000: Option<f64>,
    last_1000: Option<f64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Curve {
    points: Vec<Point>,
}

/// Progress of a crawl after a number of pages
#[derive(Debug, Serialize, ToSchema)]
struct Point {
    pages: u64,
    finds: u64,
    relevant: u64,
    irrelevant: u64,
    border: u64,
    /// Pages per relevant site over the last 5,000 pages
    pprs_5000: Option<f64>,
    /// The harvest rate over the last 1,000 pages
    harvest_1000: Option<f64>,
    at: String,
}

/// All topics, including those in the store that the settings no longer name
#[utoipa::path(
    get,
    path = "/v1/topics",
    tag = "topics",
    responses(
        (status = 200, body = Topics),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn all(State(api): State<Arc<Api>>) -> Result<Json<Topics>, ApiProblem> {
    let stored = api.store.topics().await?;
    let plan = Arc::clone(&api.state.borrow().plan);
    let planned = plan
        .topics
        .iter()
        .map(|topic| topic.crawl.name().to_owned());
    let mut names: Vec<String> = planned
        .chain(stored.into_iter().map(|(name, _)| name))
        .collect();
    names.sort();
    names.dedup();
    let mut topics = Vec::with_capacity(names.len());
    for name in names {
        topics.push(api.topic(&name).await?);
    }
    Ok(Json(Topics { topics }))
}

/// One topic
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}",
    tag = "topics",
    params(("topic" = String, Path, description = "The name of the topic")),
    responses(
        (status = 200, body = Topic),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
) -> Result<Json<Topic>, ApiProblem> {
    api.topic(&topic).await.map(Json)
}

/// Progress of the crawl for a topic: figures 6 and 7 of the paper as data
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}/curve",
    tag = "topics",
    params(("topic" = String, Path, description = "The name of the topic")),
    responses(
        (status = 200, body = Curve),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn curve(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
) -> Result<Json<Curve>, ApiProblem> {
    let points = match api.stored_topic(&topic).await? {
        Some(id) => api.store.curve(id).await?,
        None => Vec::new(),
    };
    let points = points.into_iter().map(Point::new).collect();
    Ok(Json(Curve { points }))
}

// === impl Api ===

impl Api {
    /// None if the topic is in the settings but was never opened.
    pub(super) async fn stored_topic(&self, name: &str) -> Result<Option<TopicId>, ApiProblem> {
        let stored = self.store.topics().await?;
        let found = stored.iter().find(|(own, _)| own == name);
        if found.is_none() && self.planned(name).is_none() {
            let mut names: Vec<&str> = stored.iter().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            return Err(ApiProblem::not_found(format!(
                "there is no topic `{name}`; there are: {}",
                names.join(", ")
            )));
        }
        Ok(found.map(|(_, id)| *id))
    }

    /// The id of a topic that has been opened, now or earlier.
    pub(super) async fn topic_id(&self, name: &str) -> Result<TopicId, ApiProblem> {
        let id = self.stored_topic(name).await?;
        id.ok_or_else(|| ApiProblem::starting(format!("the topic `{name}` is being opened")))
    }

    /// None if the topic is not in the settings.
    pub(super) fn planned(&self, name: &str) -> Option<PlannedTopic> {
        let state = self.state.borrow();
        let mut topics = state.plan.topics.iter();
        topics.find(|topic| topic.crawl.name() == name).cloned()
    }

    /// The state of a topic, in which a pause or resume shows at once: its loop follows a moment
    /// later.
    fn state(&self, name: &str) -> TopicState {
        let is_paused = self.state.borrow().paused.contains(name);
        match self.board.state(name) {
            None => TopicState::Idle(IdleReason::NotInSettings),
            Some(TopicState::Crawling) if is_paused => TopicState::Draining,
            Some(TopicState::Idle(IdleReason::Paused)) if !is_paused => TopicState::Starting,
            Some(state) => state,
        }
    }

    pub(super) async fn topic(&self, name: &str) -> Result<Topic, ApiProblem> {
        let id = self.stored_topic(name).await?;
        let (totals, progress) = match id {
            Some(id) => {
                let totals = self.store.totals(id).await?;
                (totals, Some(self.store.progress(id).await?))
            }
            None => (TopicTotals::default(), None),
        };
        let planned = self.planned(name);
        let state = self.state(name);
        let windows = |rate: fn(&Tally) -> Option<f64>| Windows {
            all: rate(&totals.tally()),
            last_5000: recent(progress.as_ref(), 5_000, rate),
            last_1000: recent(progress.as_ref(), 1_000, rate),
        };
        let trouble = self.board.trouble(name);
        let is_paused = self.state.borrow().paused.contains(name);
        let reason = if is_paused {
            Some("paused")
        } else {
            state.reason()
        };
        Ok(Topic {
            name: name.to_owned(),
            state: state.name(),
            reason,
            trouble: trouble.map(Trouble::name),
            trouble_advice: trouble.map(Trouble::advice),
            wanted: planned
                .as_ref()
                .and_then(|topic| topic.crawl.goals().wanted),
            model: planned.map(|topic| topic.crawl.model().fingerprint().to_string()),
            finds: totals.finds,
            relevant: totals.relevant,
            irrelevant: totals.irrelevant,
            undecided: totals.undecided,
            pages: totals.pages,
            border: totals.border,
            deferred: totals.deferred,
            in_flight: totals.taken,
            pprs: windows(Tally::pprs),
            harvest: windows(Tally::harvest),
        })
    }
}

/// The rate over the last `pages` pages; none before there are as many.
fn recent(progress: Option<&Progress>, pages: u64, rate: fn(&Tally) -> Option<f64>) -> Option<f64> {
    let mut windows = progress?.paper_windows().iter();
    let window = windows.find(|window| window.size() == pages)?;
    rate(&window.sum())
}

// === impl Point ===

impl Point {
    fn new(point: CurvePoint) -> Self {
        Self {
            pages: point.pages,
            finds: point.finds,
            relevant: point.relevant,
            irrelevant: point.irrelevant,
            border: point.border,
            pprs_5000: point.pprs,
            harvest_1000: point.harvest,
            at: date(point.at),
        }
    }
}
