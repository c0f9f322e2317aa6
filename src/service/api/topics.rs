//! What is crawled for, how it stands, and why.

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
use super::answers::{Json, Path, Problem, ProblemBody};

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Topics {
    topics: Vec<Topic>,
}

/// A topic and how it stands
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Topic {
    name: String,
    /// `starting`, `crawling`, `draining` or `idle`
    state: &'static str,
    /// Why it is idle
    reason: Option<&'static str>,
    /// Why nothing moves although it crawls, if that is no site's fault: `network`, `proxy`,
    /// `sockets` or `clock`
    trouble: Option<&'static str>,
    /// What to do about the trouble
    trouble_advice: Option<&'static str>,
    /// It is idle while so many sites are found
    wanted: Option<u64>,
    /// The model that judges
    model: Option<String>,
    /// Relevant sites that the crawl found
    finds: u64,
    /// Relevant sites, start sites among them
    relevant: u64,
    irrelevant: u64,
    undecided: u64,
    pages: u64,
    /// Sites that wait to be visited
    border: u64,
    /// Sites that are to be visited again at a certain time
    deferred: u64,
    /// Sites that are being visited
    in_flight: u64,
    /// Pages per relevant site
    pprs: Windows,
    /// Relevant sites among those decided
    harvest: Windows,
}

/// A rate over all pages, and over the last of them; null while there is nothing to divide by
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

/// How a crawl stood after some pages
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

/// All topics, those of the store that the settings no longer name among them
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
pub(super) async fn all(State(api): State<Arc<Api>>) -> Result<Json<Topics>, Problem> {
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
) -> Result<Json<Topic>, Problem> {
    api.topic(&topic).await.map(Json)
}

/// How the crawl for a topic went: figures 6 and 7 of the paper as data
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
) -> Result<Json<Curve>, Problem> {
    let points = match api.stored_topic(&topic).await? {
        Some(id) => api.store.curve(id).await?,
        None => Vec::new(),
    };
    let points = points.into_iter().map(Point::new).collect();
    Ok(Json(Curve { points }))
}

// === impl Api ===

impl Api {
    /// The number of a topic; none if it is planned but was never opened.
    pub(super) async fn stored_topic(&self, name: &str) -> Result<Option<TopicId>, Problem> {
        let stored = self.store.topics().await?;
        let found = stored.iter().find(|(own, _)| own == name);
        if found.is_none() && self.planned(name).is_none() {
            let mut names: Vec<&str> = stored.iter().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            return Err(Problem::not_found(format!(
                "there is no topic `{name}`; there are: {}",
                names.join(", ")
            )));
        }
        Ok(found.map(|(_, id)| *id))
    }

    /// The number of a topic that is crawled for or was.
    pub(super) async fn topic_id(&self, name: &str) -> Result<TopicId, Problem> {
        let id = self.stored_topic(name).await?;
        id.ok_or_else(|| Problem::starting(format!("the topic `{name}` is being opened")))
    }

    /// A topic as the settings have it.
    pub(super) fn planned(&self, name: &str) -> Option<PlannedTopic> {
        let state = self.state.borrow();
        let mut topics = state.plan.topics.iter();
        topics.find(|topic| topic.crawl.name() == name).cloned()
    }

    /// What a topic does, as whoever has just paused or resumed it is to see it: its loop needs a
    /// moment to follow.
    fn state(&self, name: &str) -> TopicState {
        let is_paused = self.state.borrow().paused.contains(name);
        match self.board.state(name) {
            None => TopicState::Idle(IdleReason::NotInSettings),
            Some(TopicState::Crawling) if is_paused => TopicState::Draining,
            Some(TopicState::Idle(IdleReason::Paused)) if !is_paused => TopicState::Starting,
            Some(state) => state,
        }
    }

    pub(super) async fn topic(&self, name: &str) -> Result<Topic, Problem> {
        let id = self.stored_topic(name).await?;
        let (totals, progress) = match id {
            Some(id) => {
                let totals = self.store.totals(id).await?;
                (totals, Some(self.store.progress(id).await?))
            }
            None => (TopicTotals::default(), None),
        };
        let planned = self.planned(name);
        let (state, reason) = self.state(name).names();
        let windows = |rate: fn(&Tally) -> Option<f64>| Windows {
            all: rate(&totals.tally()),
            last_5000: recent(progress.as_ref(), 5_000, rate),
            last_1000: recent(progress.as_ref(), 1_000, rate),
        };
        let trouble = self.board.trouble(name);
        let is_paused = self.state.borrow().paused.contains(name);
        let reason = if is_paused { "paused" } else { reason };
        Ok(Topic {
            name: name.to_owned(),
            state,
            reason: Some(reason).filter(|reason| *reason != "none"),
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

/// A rate over the last pages, once there are as many.
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
