//! What was judged, and why.

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
use super::answers::{Json, Path, Problem, ProblemBody, Query, SiteLine, lines, site, wants_lines};
use super::blocks::BlockNote;

/// So many sites come at once at most.
const MOST_SITES: usize = 1_000;

/// Which sites are wanted
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Only those judged for this topic
    topic: Option<String>,
    /// `relevant`, `irrelevant` or `undecided`
    #[param(pattern = "^(relevant|irrelevant|undecided)$")]
    verdict: Option<String>,
    /// `accept`, `reject`, or `none` for those that no editor has decided on
    #[param(pattern = "^(accept|reject|none)$")]
    decision: Option<String>,
    #[param(minimum = 0, maximum = 1)]
    min_confidence: Option<f64>,
    #[param(minimum = 0, maximum = 1)]
    max_confidence: Option<f64>,
    /// Judged at that time or later, such as 2026-11-16T09:30:00Z
    since: Option<String>,
    /// Judged at that time or earlier
    until: Option<String>,
    /// Hosts that begin so; then in the order of hosts
    host: Option<String>,
    /// `oldest` verdicts first, or `newest`
    #[param(pattern = "^(oldest|newest)$")]
    order: Option<String>,
    /// So many at most
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Where to go on: `next` of the answer before
    cursor: Option<String>,
}

/// Some of the sites, and where to go on. A page may have fewer sites than asked for, or none,
/// and still not be the last
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Sites {
    sites: Vec<SiteLine>,
    next: Option<String>,
}

/// A host, and what is known about it for each topic
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Site {
    host: String,
    blocked: Option<BlockNote>,
    topics: Vec<SiteDetailView>,
}

/// Which topic, and how many sites
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct QueueWanted {
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Queue {
    sites: Vec<Question>,
}

/// A site that no editor has decided on
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
pub(super) struct OneWanted {
    /// Only for this topic
    topic: Option<String>,
}

/// Judged sites by what they are; one JSON object a line with `accept: application/x-ndjson`
#[utoipa::path(
    get,
    path = "/v1/sites",
    tag = "sites",
    params(Wanted),
    responses(
        (status = 200, content((Sites = "application/json"), (String = "application/x-ndjson"))),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn find(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Problem> {
    let names: BTreeMap<TopicId, String> = api
        .store
        .topics()
        .await?
        .into_iter()
        .map(|(name, id)| (id, name))
        .collect();
    let topic = match &wanted.topic {
        Some(name) => Some(api.topic_id(name).await?),
        None => None,
    };
    let query = wanted.query(topic)?;
    let portion = api.store.find(query).await?;
    let next = portion.next.as_ref().map(cursor);
    let nameless = String::new();
    let sites = portion.sites.into_iter().map(|found| {
        let name = names.get(&found.topic).unwrap_or(&nameless);
        SiteLine::new(name, found)
    });
    if wants_lines(&headers) {
        let next = next.map(|next| wanted.link(&next));
        return Ok(lines(sites, next.as_deref()));
    }
    let sites = sites.collect();
    Ok(Json(Sites { sites, next }).into_response())
}

/// Everything known about a host, and why
#[utoipa::path(
    get,
    path = "/v1/sites/{host}",
    tag = "sites",
    params(("host" = String, Path, description = "The host"), OneWanted),
    responses(
        (status = 200, body = Site),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    Path(host): Path<String>,
    Query(wanted): Query<OneWanted>,
) -> Result<Json<Site>, Problem> {
    let site = site(&host)?;
    if let Some(topic) = &wanted.topic {
        api.stored_topic(topic).await?;
    }
    let mut topics = Vec::new();
    for (name, id) in api.store.topics().await? {
        if wanted.topic.as_ref().is_some_and(|topic| *topic != name) {
            continue;
        }
        if let Some(file) = api.store.site(id, &site).await? {
            topics.push(SiteDetailView::new(&name, file));
        }
    }
    let block = api.store.block_of(&site).await?;
    if topics.is_empty() && block.is_none() {
        return Err(Problem::not_found(format!("{site} was never heard of")));
    }
    Ok(Json(Site {
        host: site.to_string(),
        blocked: block.map(|block| BlockNote::new(&site, block)),
        topics,
    }))
}

/// Sites for editors to decide on, those first that would teach the model most
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}/queue",
    tag = "editors",
    params(("topic" = String, Path, description = "The name of the topic"), QueueWanted),
    responses(
        (status = 200, body = Queue),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn queue(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
    Query(wanted): Query<QueueWanted>,
) -> Result<Json<Queue>, Problem> {
    let most = limit(wanted.limit, 20, MOST_SITES)?;
    let queue = match api.stored_topic(&topic).await? {
        Some(id) => api.store.queue(id, most).await?,
        None => Vec::new(),
    };
    let sites = queue.into_iter().map(|(found, teaches)| Question {
        site: SiteLine::new(&topic, found),
        teaches,
    });
    let sites = sites.collect();
    Ok(Json(Queue { sites }))
}

/// A number of things within bounds.
pub(super) fn limit(asked: Option<usize>, usual: usize, most: usize) -> Result<usize, Problem> {
    match asked.unwrap_or(usual) {
        number if (1..=most).contains(&number) => Ok(number),
        number => Err(Problem::bad_request(format!(
            "`limit` is {number}; it must be from 1 to {most}"
        ))),
    }
}

// === impl Wanted ===

impl Wanted {
    fn query(&self, topic: Option<TopicId>) -> Result<SiteQuery, Problem> {
        let share = |name: &str, share: Option<f64>, usual: f64| {
            let share = share.unwrap_or(usual);
            if (0.0..=1.0).contains(&share) {
                Ok(share)
            } else {
                Err(Problem::bad_request(format!(
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
            after: self.place()?,
            most: limit(self.limit, 100, MOST_SITES)?,
        })
    }

    fn place(&self) -> Result<Option<SiteCursor>, Problem> {
        let place = self.cursor.as_deref().map(place).transpose()?;
        let fits = match &place {
            None => true,
            Some(SiteCursor::Host(..)) => self.host.is_some(),
            Some(SiteCursor::Number(_)) => self.host.is_none(),
        };
        if fits {
            Ok(place)
        } else {
            Err(Problem::bad_request(
                "`cursor` belongs to another question: with `host` sites come in another order"
                    .to_owned(),
            ))
        }
    }

    /// The address of the sites that follow.
    fn link(&self, cursor: &str) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let limit = self.limit.map(|limit| limit.to_string());
        let least = self.min_confidence.map(|share| share.to_string());
        let most = self.max_confidence.map(|share| share.to_string());
        for (name, value) in [
            ("topic", &self.topic),
            ("verdict", &self.verdict),
            ("decision", &self.decision),
            ("min_confidence", &least),
            ("max_confidence", &most),
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
    asked: Option<&str>,
    choices: &[(&str, T)],
) -> Result<Option<T>, Problem> {
    let Some(asked) = asked else {
        return Ok(None);
    };
    let found = choices.iter().find(|(word, _)| *word == asked);
    let found = found.map(|(_, choice)| Some(*choice));
    found.ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let words = words.join(", ");
        Problem::bad_request(format!("`{name}` must be one of {words}"))
    })
}

fn time(name: &str, asked: Option<&str>) -> Result<Option<SystemTime>, Problem> {
    let Some(asked) = asked else {
        return Ok(None);
    };
    let time = humantime::parse_rfc3339(asked);
    time.map(Some).map_err(|_| {
        Problem::bad_request(format!(
            "`{name}` must be a time such as 2026-11-16T09:30:00Z"
        ))
    })
}

/// Where to go on, as a word that says nothing to others.
fn cursor(place: &SiteCursor) -> String {
    match place {
        SiteCursor::Number(number) => format!("n{number}"),
        SiteCursor::Host(topic, site) => format!("h{}.{site}", topic.number()),
    }
}

fn place(cursor: &str) -> Result<SiteCursor, Problem> {
    let number = |text: &str| text.parse().ok().map(SiteCursor::Number);
    let host = |text: &str| {
        let (topic, host) = text.split_once('.')?;
        let topic = TopicId::from_number(topic.parse().ok()?);
        Some(SiteCursor::Host(topic, host.parse().ok()?))
    };
    let place = match cursor.split_at_checked(1) {
        Some(("n", rest)) => number(rest),
        Some(("h", rest)) => host(rest),
        _ => None,
    };
    place.ok_or_else(|| {
        let message = "`cursor` is not one that an earlier answer gave as `next`";
        Problem::bad_request(message.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_lead_to_where_they_came_from() {
        let host = SiteCursor::Host(TopicId::from_number(3), "a.b.example:81".parse().unwrap());
        for there in [SiteCursor::Number(17), host] {
            assert_eq!(place(&cursor(&there)).unwrap(), there);
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
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }
}
