//! The changes of a list, for directories that follow it.
//!
//! Invariant: whoever asks with the last number that it was told misses nothing, however long
//! it was away. Numbers mean nothing in another store: whoever names the store that it followed,
//! or comes with a number that this one never gave, is refused rather than misled.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};

use crate::store::{FeedEntry, TopicId};
use crate::verdicts::{JudgedSiteView, date};

use super::Api;
use super::access::LONGEST_WAIT;
use super::answers::{Problem, ProblemBody, Query, lines};
use super::sites::limit;

/// Where it is asked for.
pub(super) const PATH: &str = "/v1/feed";

/// The header that names the store.
const STORE: HeaderName = HeaderName::from_static("sitescout-store");

/// So many changes come at once at most.
const MOST_CHANGES: usize = 10_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FeedWanted {
    /// The name of the topic
    topic: String,
    /// Changes with higher numbers; 0 for all
    after: Option<u64>,
    /// The store that gave the number, as the header `sitescout-store` named it. If it is another
    /// one by now, 409 `other-store`
    store: Option<String>,
    /// If there are none, wait so many seconds for one
    #[param(minimum = 0, maximum = 60)]
    wait: Option<u64>,
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
}

/// A change of a list
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FeedLine {
    topic: String,
    host: String,
    #[serde(flatten)]
    judged: JudgedSiteView,
    /// `added` and `changed`: it is on the list; `dropped` and `alias`: it is not
    change: &'static str,
    reason: &'static str,
    /// When it changed
    at: String,
    /// What an editor says about it
    decision: Option<&'static str>,
}

/// The changes of a list in the order of their numbers, one a line. For each site the last
/// change is told; resumable for ever by the last number read
#[utoipa::path(
    get,
    path = "/v1/feed",
    tag = "feed",
    params(FeedWanted),
    responses(
        (
            status = 200,
            content((String = "application/x-ndjson")),
            headers(("sitescout-store" = String, description = "Which store it is"))
        ),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn follow(
    State(api): State<Arc<Api>>,
    Query(wanted): Query<FeedWanted>,
) -> Result<Response, Problem> {
    let after = wanted.after.unwrap_or_default();
    let most = limit(wanted.limit, 1_000, MOST_CHANGES)?;
    let wait = Duration::from_secs(wanted.wait.unwrap_or_default());
    if wait > LONGEST_WAIT {
        let message = format!("`wait` must be from 0 to {}", LONGEST_WAIT.as_secs());
        return Err(Problem::bad_request(message));
    }
    let topic = api.topic_id(&wanted.topic).await?;
    let store = api.store.identity().await?;
    let is_other = wanted.store.is_some_and(|followed| followed != store);
    if is_other || after > api.store.heads().await?.last_number {
        return Err(Problem::other_store(format!(
            "this store is not the one that gave {after}: it may have been restored from a \
             backup; begin again with `after=0`, and drop what does not come"
        )));
    }
    let mut changes = api.store.feed(topic, after, most).await?;
    let is_worth_waiting = changes.is_empty() && !wait.is_zero();
    if is_worth_waiting && timeout(wait, api.news(topic, after)).await.is_ok() {
        changes = api.store.feed(topic, after, most).await?;
    }
    let changes = changes
        .into_iter()
        .map(|entry| FeedLine::new(&wanted.topic, entry));
    let mut response = lines(changes, None);
    if let Ok(store) = HeaderValue::from_str(&store) {
        response.headers_mut().insert(STORE, store);
    }
    Ok(response)
}

// === impl Api ===

impl Api {
    /// Waits until a list has changed since a number, or the daemon ends.
    async fn news(&self, topic: TopicId, after: u64) {
        let mut state = self.state.subscribe();
        tokio::select! {
            _ = self.store.wait_for_change(topic, after) => {}
            _ = state.wait_for(|state| state.is_stopping) => {}
        }
    }
}

// === impl FeedLine ===

impl FeedLine {
    fn new(topic: &str, entry: FeedEntry) -> Self {
        let judged = JudgedSiteView::from(&entry.judged);
        Self {
            topic: topic.to_owned(),
            host: entry.judged.site.to_string(),
            judged: JudgedSiteView {
                seq: entry.seq,
                ..judged
            },
            change: entry.change.name(),
            reason: entry.reason.name(),
            at: date(entry.at),
            decision: entry.decision.map(|decision| decision.opinion.name()),
        }
    }
}
