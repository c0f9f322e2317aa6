//! Decisions of editors about sites.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::store::{Edit, Edited, Opinion, TopicId};
use crate::verdicts::DecisionView;
use crate::web::SiteId;

use super::Api;
use super::access::Authorized;
use super::answers::{ApiProblem, Json, Path, ProblemBody, Query, lines, site};
use super::sites::checked_limit;

/// Maximum number of decisions per response.
const MAX_DECISIONS: usize = 10_000;

/// Maximum length of a note, in characters.
const MAX_NOTE: usize = 500;

/// The decision of an editor
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewDecision {
    decision: Choice,
    /// The reason, for other people; at most 500 characters
    #[serde(default)]
    #[schema(max_length = 500)]
    note: String,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Choice {
    Accept,
    Reject,
}

/// A decision and its site
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DecidedSite {
    topic: String,
    host: String,
    #[serde(flatten)]
    decision: DecisionView,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Rechecking {
    host: String,
    /// Whether the site is due to be visited before all others
    due: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DecisionsParams {
    /// Return decisions after this host; they are sorted by host
    after: Option<String>,
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
}

/// Accept or reject a site. The decision overrides the verdict of the model, which is kept
/// and never changes the decision
#[utoipa::path(
    put,
    path = "/v1/topics/{topic}/sites/{host}/decision",
    tag = "editors",
    params(
        ("topic" = String, Path, description = "The name of the topic"),
        ("host" = String, Path, description = "The host")
    ),
    request_body = NewDecision,
    security(("token" = [])),
    responses(
        (status = 200, body = DecidedSite),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn decide(
    State(api): State<Arc<Api>>,
    _authorized: Authorized,
    Path((topic, host)): Path<(String, String)>,
    Json(body): Json<NewDecision>,
) -> Result<Json<DecidedSite>, ApiProblem> {
    let (id, site) = api.topic_and_site(&topic, &host).await?;
    let opinion = match body.decision {
        Choice::Accept => Opinion::Accept,
        Choice::Reject => Opinion::Reject,
    };
    let decision = Some((opinion, checked_note(body.note)?));
    api.edit_site(Edit::Decide {
        topic: id,
        site: site.clone(),
        decision,
    })
    .await?;
    let detail = api.store.site(id, &site).await?;
    let Some(decision) = detail.and_then(|detail| detail.decision) else {
        let message = format!("another editor has just withdrawn the decision on {site}");
        return Err(ApiProblem::conflict(message));
    };
    Ok(Json(DecidedSite {
        topic,
        host: site.to_string(),
        decision: DecisionView::from(decision),
    }))
}

/// Withdraw a decision: the verdict of the model counts again
#[utoipa::path(
    delete,
    path = "/v1/topics/{topic}/sites/{host}/decision",
    tag = "editors",
    params(
        ("topic" = String, Path, description = "The name of the topic"),
        ("host" = String, Path, description = "The host")
    ),
    security(("token" = [])),
    responses(
        (status = 204, description = "The site has no decision"),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn withdraw(
    State(api): State<Arc<Api>>,
    _authorized: Authorized,
    Path((topic, host)): Path<(String, String)>,
) -> Result<StatusCode, ApiProblem> {
    let (topic, site) = api.topic_and_site(&topic, &host).await?;
    let decision = None;
    api.edit_site(Edit::Decide {
        topic,
        site,
        decision,
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// All decisions for a topic, one per line, sorted by host; if there are more, the header
/// `link` names the next request
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}/decisions",
    tag = "editors",
    params(("topic" = String, Path, description = "The name of the topic"), DecisionsParams),
    responses(
        (status = 200, content((String = "application/x-ndjson"))),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn decisions(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
    Query(params): Query<DecisionsParams>,
) -> Result<Response, ApiProblem> {
    let limit = checked_limit(params.limit, MAX_DECISIONS, MAX_DECISIONS)?;
    let after = params.after.as_deref().map(site).transpose()?;
    let decisions = match api.stored_topic(&topic).await? {
        Some(id) => api.store.decisions(id, after, limit).await?,
        None => Vec::new(),
    };
    let last = decisions.last().filter(|_| decisions.len() == limit);
    let next = last.map(|(site, _)| {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("after", site.as_str());
        query.append_pair("limit", &limit.to_string());
        format!("decisions?{}", query.finish())
    });
    let decided = decisions.into_iter().map(|(site, decision)| DecidedSite {
        topic: topic.clone(),
        host: site.to_string(),
        decision: DecisionView::from(decision),
    });
    Ok(lines(decided, next.as_deref()))
}

/// Visit a site again before all others
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/sites/{host}/recheck",
    tag = "editors",
    params(
        ("topic" = String, Path, description = "The name of the topic"),
        ("host" = String, Path, description = "The host")
    ),
    security(("token" = [])),
    responses(
        (status = 202, body = Rechecking),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn recheck(
    State(api): State<Arc<Api>>,
    _authorized: Authorized,
    Path((topic, host)): Path<(String, String)>,
) -> Result<(StatusCode, Json<Rechecking>), ApiProblem> {
    api.check_planned(&topic)?;
    let (topic, site) = api.topic_and_site(&topic, &host).await?;
    let host = site.to_string();
    api.edit_site(Edit::Recheck { topic, site }).await?;
    api.wake_topics();
    Ok((StatusCode::ACCEPTED, Json(Rechecking { host, due: true })))
}

/// Refuses a note that is too long.
pub(super) fn checked_note(note: String) -> Result<String, ApiProblem> {
    let length = note.chars().count();
    if length > MAX_NOTE {
        Err(ApiProblem::bad_request(format!(
            "`note` has {length} characters; at most {MAX_NOTE} are permitted"
        )))
    } else {
        Ok(note)
    }
}

// === impl Api ===

impl Api {
    async fn topic_and_site(
        &self,
        topic: &str,
        host: &str,
    ) -> Result<(TopicId, SiteId), ApiProblem> {
        Ok((self.topic_id(topic).await?, site(host)?))
    }

    /// Applies an edit to a site, which must have been visited.
    async fn edit_site(&self, edit: Edit) -> Result<(), ApiProblem> {
        match self.store.edit(edit).await? {
            Edited::Done { .. } | Edited::Unchanged => Ok(()),
            Edited::Unknown => Err(ApiProblem::not_found(
                "this site is not known; it can be added as a start site".to_owned(),
            )),
            Edited::NotVisited => Err(ApiProblem::conflict(
                "the site was not visited yet, so there is no verdict to decide on; add it as a \
                 start site to have it visited soon"
                    .to_owned(),
            )),
        }
    }
}
