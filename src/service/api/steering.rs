//! Pausing and resuming a topic, and adding start sites.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::web::{PageUrl, SiteVisit};

use super::Api;
use super::access::Authorized;
use super::answers::{ApiProblem, Json, Path, ProblemBody};
use super::topics::Topic;

/// Maximum number of start sites per request.
const MAX_STARTS: usize = 1_000;

/// Start sites to add
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewStarts {
    /// Hosts or URLs, at most 1,000
    #[schema(max_items = 1_000, min_items = 1)]
    sites: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AddedStarts {
    /// Sites that were not known
    new: usize,
    /// Sites that were known; those not yet visited are now visited first
    known: usize,
}

/// Pause a topic until it is resumed, even over restarts
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/pause",
    tag = "topics",
    params(("topic" = String, Path, description = "The name of the topic")),
    security(("token" = [])),
    responses(
        (status = 200, body = Topic),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn pause(
    State(api): State<Arc<Api>>,
    _authorized: Authorized,
    Path(topic): Path<String>,
) -> Result<Json<Topic>, ApiProblem> {
    api.set_paused(&topic, true).await
}

/// Resume a topic
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/resume",
    tag = "topics",
    params(("topic" = String, Path, description = "The name of the topic")),
    security(("token" = [])),
    responses(
        (status = 200, body = Topic),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn resume(
    State(api): State<Arc<Api>>,
    _authorized: Authorized,
    Path(topic): Path<String>,
) -> Result<Json<Topic>, ApiProblem> {
    api.set_paused(&topic, false).await
}

/// Add start sites to a topic
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/starts",
    tag = "topics",
    params(("topic" = String, Path, description = "The name of the topic")),
    request_body = NewStarts,
    security(("token" = [])),
    responses(
        (status = 200, body = AddedStarts),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn add_starts(
    State(api): State<Arc<Api>>,
    _authorized: Authorized,
    Path(topic): Path<String>,
    Json(NewStarts { sites }): Json<NewStarts>,
) -> Result<Json<AddedStarts>, ApiProblem> {
    if sites.is_empty() || sites.len() > MAX_STARTS {
        let message = format!("send 1 to {MAX_STARTS} sites, not {}", sites.len());
        return Err(ApiProblem::bad_request(message));
    }
    let id = api.topic_id(&topic).await?;
    api.check_planned(&topic)?;
    let entrances = sites.iter().map(|site| entrance(site));
    let entrances: Vec<PageUrl> = entrances.collect::<Result<_, _>>()?;
    let distinct: BTreeSet<_> = entrances.iter().map(PageUrl::site).collect();
    let new = api.store.add_starts(id, entrances).await?;
    api.wake_topics();
    Ok(Json(AddedStarts {
        new,
        known: distinct.len() - new,
    }))
}

fn entrance(site: &str) -> Result<PageUrl, ApiProblem> {
    let visit = SiteVisit::to(site).map_err(ApiProblem::bad_request)?;
    Ok(visit.entry)
}

// === impl Api ===

impl Api {
    async fn set_paused(&self, name: &str, is_paused: bool) -> Result<Json<Topic>, ApiProblem> {
        let topic = self.topic_id(name).await?;
        self.steering.pause(name, topic, is_paused).await?;
        self.topic(name).await.map(Json)
    }

    /// Refuses a topic that the settings do not name: its sites are not visited.
    pub(super) fn check_planned(&self, topic: &str) -> Result<(), ApiProblem> {
        match self.planned(topic) {
            Some(_) => Ok(()),
            None => Err(ApiProblem::conflict(format!(
                "the topic `{topic}` is not in the settings, so its sites are not visited"
            ))),
        }
    }

    /// Makes idle topics check for work.
    pub(super) fn wake_topics(&self) {
        self.state.send_modify(|_| {});
    }
}
