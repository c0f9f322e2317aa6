//! Judged sites, their evidence, and the queue of the editors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::store::{Opinion, SiteCursor, SiteQuery, SortOrder, TopicId, VerdictKind};
use crate::verdicts::SiteDetailView;

use super::Api;
use super::answers::{
    ApiProblem, Json, Path, ProblemBody, Query, SiteLine, lines, site, wants_lines,
};
use super::blocks::BlockNote;

/// Maximum number of sites per response.
const MAX_SITES: usize = 1_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SitesParams {
    /// Only sites judged for this topic
    topic: Option<String>,
    /// `relevant`, `irrelevant` or `undecided`
    #[param(pattern = "^(relevant|irrelevant|undecided)$")]
    verdict: Option<String>,
    /// `accept`, `reject`, or `none` for sites without a decision
    #[param(pattern = "^(accept|reject|none)$")]
    decision: Option<String>,
    #[param(minimum = 0, maximum = 1)]
    min_confidence: Option<f64>,
    #[param(minimum = 0, maximum = 1)]
    max_confidence: Option<f64>,
    /// Judged at this time or later, such as 2026-11-16T09:30:00Z
    since: Option<String>,
    /// Judged at this time or earlier
    until: Option<String>,
    /// Prefix of the host; the sites are then sorted by host
    host: Option<String>,
    /// `oldest` verdicts first, or `newest`
    #[param(pattern = "^(oldest|newest)$")]
    order: Option<String>,
    /// Maximum number of sites
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next` of the previous response
    cursor: Option<String>,
}

/// A batch of sites, and the cursor of the next. A batch may have fewer sites than `limit`, or
/// none, and still not be the last
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Sites {
    sites: Vec<SiteLine>,
    next: Option<String>,
}

/// A host, and its details for each topic
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Site {
    host: String,
    blocked: Option<BlockNote>,
    topics: Vec<SiteDetailView>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct QueueParams {
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Queue {
    sites: Vec<Question>,
}

/// A site without a decision
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Question {
    #[serde(flatten)]
    site: SiteLine,
    /// How much a decision would teach the model, from 0 to 1
    teaches: f64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SiteParams {
    /// Only for this topic
    topic: Option<String>,
}

/// Judged sites by filters; one JSON object per line with `accept: application/x-ndjson`
#[utoipa::path(
    get,
    path = "/v1/sites",
    tag = "sites",
    params(SitesParams),
    responses(
        (status = 200, content((Sites = "application/json"), (String = "application/x-ndjson"))),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn find(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    Query(params): Query<SitesParams>,
) -> Result<Response, ApiProblem> {
    let names: BTreeMap<TopicId, String> = api
        .store
        .topics()
        .await?
        .into_iter()
        .map(|(name, id)| (id, name))
        .collect();
    let topic = match &params.topic {
        Some(name) => Some(api.topic_id(name).await?),
        None => None,
    };
    let query = params.query(topic)?;
    let batch = api.store.find(query).await?;
    let next = batch.next.as_ref().map(cursor_text);
    let nameless = String::new();
    let sites = batch.sites.into_iter().map(|found| {
        let name = names.get(&found.topic).unwrap_or(&nameless);
        SiteLine::new(name, found)
    });
    if wants_lines(&headers) {
        let next = next.map(|next| params.link(&next));
        return Ok(lines(sites, next.as_deref()));
    }
    let sites = sites.collect();
    Ok(Json(Sites { sites, next }).into_response())
}

/// Everything known about a host, with the evidence of its verdicts
#[utoipa::path(
    get,
    path = "/v1/sites/{host}",
    tag = "sites",
    params(("host" = String, Path, description = "The host"), SiteParams),
    responses(
        (status = 200, body = Site),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    Path(host): Path<String>,
    Query(params): Query<SiteParams>,
) -> Result<Json<Site>, ApiProblem> {
    let site = site(&host)?;
    if let Some(topic) = &params.topic {
        api.stored_topic(topic).await?;
    }
    let mut topics = Vec::new();
    for (name, id) in api.store.topics().await? {
        if params.topic.as_ref().is_some_and(|topic| *topic != name) {
            continue;
        }
        if let Some(detail) = api.store.site(id, &site).await? {
            topics.push(SiteDetailView::new(&name, detail));
        }
    }
    let block = api.store.block_of(&site).await?;
    if topics.is_empty() && block.is_none() {
        return Err(ApiProblem::not_found(format!("{site} is not known")));
    }
    Ok(Json(Site {
        host: site.to_string(),
        blocked: block.map(|block| BlockNote::new(&site, block)),
        topics,
    }))
}

/// Sites for editors to decide on, those that would teach the model most first
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}/queue",
    tag = "editors",
    params(("topic" = String, Path, description = "The name of the topic"), QueueParams),
    responses(
        (status = 200, body = Queue),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn queue(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
    Query(params): Query<QueueParams>,
) -> Result<Json<Queue>, ApiProblem> {
    let limit = checked_limit(params.limit, 20, MAX_SITES)?;
    let queue = match api.stored_topic(&topic).await? {
        Some(id) => api.store.queue(id, limit).await?,
        None => Vec::new(),
    };
    let sites = queue.into_iter().map(|(found, teaches)| Question {
        site: SiteLine::new(&topic, found),
        teaches,
    });
    let sites = sites.collect();
    Ok(Json(Queue { sites }))
}

/// Checks the parameter `limit`.
pub(super) fn checked_limit(
    sent: Option<usize>,
    usual: usize,
    max: usize,
) -> Result<usize, ApiProblem> {
    match sent.unwrap_or(usual) {
        number if (1..=max).contains(&number) => Ok(number),
        number => Err(ApiProblem::bad_request(format!(
            "`limit` is {number}; it must be from 1 to {max}"
        ))),
    }
}

// === impl SitesParams ===

impl SitesParams {
    fn query(&self, topic: Option<TopicId>) -> Result<SiteQuery, ApiProblem> {
        let share = |name: &str, share: Option<f64>, usual: f64| {
            let share = share.unwrap_or(usual);
            if (0.0..=1.0).contains(&share) {
                Ok(share)
            } else {
                Err(ApiProblem::bad_request(format!(
                    "`{name}` must be from 0 to 1"
                )))
            }
        };
        Ok(SiteQuery {
            topic,
            verdict: choice(
                "verdict",
                self.verdict.as_deref(),
                &[
                    ("relevant", VerdictKind::Relevant),
                    ("irrelevant", VerdictKind::Irrelevant),
                    ("undecided", VerdictKind::Undecided),
                ],
            )?,
            decision: choice(
                "decision",
                self.decision.as_deref(),
                &[
                    ("accept", Some(Opinion::Accept)),
                    ("reject", Some(Opinion::Reject)),
                    ("none", None),
                ],
            )?,
            confidence: (
                share("min_confidence", self.min_confidence, 0.0)?,
                share("max_confidence", self.max_confidence, 1.0)?,
            ),
            judged: (
                time("since", self.since.as_deref())?,
                time("until", self.until.as_deref())?,
            ),
            host_prefix: self.host.as_ref().map(|host| host.to_ascii_lowercase()),
            order: choice(
                "order",
                self.order.as_deref(),
                &[("oldest", SortOrder::Oldest), ("newest", SortOrder::Newest)],
            )?
            .unwrap_or(SortOrder::Oldest),
            after: self.cursor()?,
            limit: checked_limit(self.limit, 100, MAX_SITES)?,
        })
    }

    fn cursor(&self) -> Result<Option<SiteCursor>, ApiProblem> {
        let cursor = self.cursor.as_deref().map(parse_cursor).transpose()?;
        let fits = match &cursor {
            None => true,
            Some(SiteCursor::Host(..)) => self.host.is_some(),
            Some(SiteCursor::Number(_)) => self.host.is_none(),
        };
        if fits {
            Ok(cursor)
        } else {
            Err(ApiProblem::bad_request(
                "`cursor` is of another query: with `host` sites are sorted differently".to_owned(),
            ))
        }
    }

    /// The path of the next batch.
    fn link(&self, cursor: &str) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let limit = self.limit.map(|limit| limit.to_string());
        let lowest = self.min_confidence.map(|share| share.to_string());
        let highest = self.max_confidence.map(|share| share.to_string());
        for (name, value) in [
            ("topic", &self.topic),
            ("verdict", &self.verdict),
            ("decision", &self.decision),
            ("min_confidence", &lowest),
            ("max_confidence", &highest),
            ("since", &self.since),
            ("until", &self.until),
            ("host", &self.host),
            ("order", &self.order),
            ("limit", &limit),
        ] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.append_pair("cursor", cursor);
        format!("/v1/sites?{}", query.finish())
    }
}

fn choice<T: Copy>(
    name: &str,
    sent: Option<&str>,
    choices: &[(&str, T)],
) -> Result<Option<T>, ApiProblem> {
    let Some(sent) = sent else {
        return Ok(None);
    };
    let found = choices.iter().find(|(word, _)| *word == sent);
    let found = found.map(|(_, choice)| Some(*choice));
    found.ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let words = words.join(", ");
        ApiProblem::bad_request(format!("`{name}` must be one of {words}"))
    })
}

fn time(name: &str, sent: Option<&str>) -> Result<Option<SystemTime>, ApiProblem> {
    let Some(sent) = sent else {
        return Ok(None);
    };
    let time = humantime::parse_rfc3339(sent);
    time.map(Some).map_err(|_| {
        ApiProblem::bad_request(format!(
            "`{name}` must be a time such as 2026-11-16T09:30:00Z"
        ))
    })
}

/// The opaque form of a cursor.
fn cursor_text(cursor: &SiteCursor) -> String {
    match cursor {
        SiteCursor::Number(number) => format!("n{number}"),
        SiteCursor::Host(topic, site) => format!("h{}.{site}", topic.number()),
    }
}

fn parse_cursor(cursor: &str) -> Result<SiteCursor, ApiProblem> {
    let number = |text: &str| text.parse().ok().map(SiteCursor::Number);
    let host = |text: &str| {
        let (topic, host) = text.split_once('.')?;
        let topic = TopicId::from_number(topic.parse().ok()?);
        Some(SiteCursor::Host(topic, host.parse().ok()?))
    };
    let parsed = match cursor.split_at_checked(1) {
        Some(("n", rest)) => number(rest),
        Some(("h", rest)) => host(rest),
        _ => None,
    };
    parsed.ok_or_else(|| {
        let message = "`cursor` is not the `next` of an earlier response";
        ApiProblem::bad_request(message.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_lead_to_where_they_came_from() {
        let host = SiteCursor::Host(TopicId::from_number(3), "a.b.example:81".parse().unwrap());
        for there in [SiteCursor::Number(17), host] {
            assert_eq!(parse_cursor(&cursor_text(&there)).unwrap(), there);
        }
        for wrong in [
            "",
            "17",
            "n",
            "nx",
            "n-1",
            "h",
            "h3",
            "h3.",
            "hx.a.example",
            "é1",
        ] {
            assert!(parse_cursor(wrong).is_err(), "{wrong}");
        }
    }
}
