//! The feed: changes of a list, for directories that follow it.
//!
//! Invariant: a client that resumes after the last sequence number it has read misses nothing,
//! however long it was away. The numbers are only valid in one store: a request that names another
//! store, or a number that this one has not reached, gets 409.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};

use crate::store::{FeedEntry, StoreError, TopicId};
use crate::verdicts::{JudgedSiteView, date};

use super::Api;
use super::access::MAX_FEED_WAIT;
use super::answers::{ApiProblem, ProblemBody, Query, lines};
use super::sites::checked_limit;

pub(super) const PATH: &str = "/v1/feed";

/// The header with the identity of the store.
const STORE: HeaderName = HeaderName::from_static("sitescout-store");

/// Maximum number of changes per response.
const MAX_CHANGES: usize = 10_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FeedParams {
    /// The name of the topic
    topic: String,
    /// Return changes with higher sequence numbers; 0 for all
    after: Option<u64>,
    /// The store of that number, from the header `sitescout-store`; if it is not this one, the
    /// response is 409 `other-store`
    store: Option<String>,
    /// Seconds to wait for a change if there is none
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
    /// Time of the change
    at: String,
    /// The decision of an editor: `accept` or `reject`
    decision: Option<&'static str>,
}

/// The changes of a list, one per line, sorted by sequence number. Only the last change of
/// each site is kept; resume at any time with the last number read
#[utoipa::path(
    get,
    path = "/v1/feed",
    tag = "feed",
    params(FeedParams),
    responses(
        (
            status = 200,
            content((String = "application/x-ndjson")),
            headers(("sitescout-store" = String, description = "Identity of the store"))
        ),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn follow(
    State(api): State<Arc<Api>>,
    Query(params): Query<FeedParams>,
) -> Result<Response, ApiProblem> {
    let after = params.after.unwrap_or_default();
    let limit = checked_limit(params.limit, 1_000, MAX_CHANGES)?;
    let wait = Duration::from_secs(params.wait.unwrap_or_default());
    if wait > MAX_FEED_WAIT {
        let message = format!("`wait` must be from 0 to {}", MAX_FEED_WAIT.as_secs());
        return Err(ApiProblem::bad_request(message));
    }
    let topic = api.topic_id(&params.topic).await?;
    let store = api.store.identity().await?;
    let is_other = params.store.is_some_and(|followed| followed != store);
    if is_other || after > api.store.heads().await?.last_number {
        return Err(ApiProblem::other_store(format!(
            "the number {after} is of another store: this one may have been restored from a \
             backup; begin again with `after=0`, and remove the sites that are not sent again"
        )));
    }
    let mut changes = api.store.feed(topic, after, limit).await?;
    let shall_wait = changes.is_empty() && !wait.is_zero();
    if shall_wait && let Ok(woken) = timeout(wait, api.wait_for_change(topic, after)).await {
        woken?;
        changes = api.store.feed(topic, after, limit).await?;
    }
    let changes = changes
        .into_iter()
        .map(|entry| FeedLine::new(&params.topic, entry));
    let mut response = lines(changes, None);
    if let Ok(store) = HeaderValue::from_str(&store) {
        response.headers_mut().insert(STORE, store);
    }
    Ok(response)
}

// === impl Api ===

impl Api {
    /// Waits until a list has changed since `after`, or the daemon stops.
    async fn wait_for_change(&self, topic: TopicId, after: u64) -> Result<(), StoreError> {
        let mut state = self.state.subscribe();
        tokio::select! {
            changed = self.store.wait_for_change(topic, after) => changed,
            _ = state.wait_for(|state| state.is_stopping) => Ok(()),
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
