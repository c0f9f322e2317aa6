//! How the daemon is.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

use crate::verdicts::date;

use super::Api;
use super::answers::{Json, Problem, ProblemBody};

/// How the daemon is
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Status {
    version: &'static str,
    started_at: String,
    /// Whether there is a token, so that writing is possible
    writes: bool,
    /// Which store it is; another one after an import
    store: String,
    /// The last number of the sequence
    last_seq: u64,
    /// Requests for pages since the start, by outcome
    fetches: BTreeMap<String, u64>,
    memory_bytes: u64,
    store_bytes: u64,
    /// Visits under way
    crawlers_busy: u64,
}

/// How the daemon is
#[utoipa::path(
    get,
    path = "/v1/status",
    tag = "topics",
    responses(
        (status = 200, body = Status),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn status(State(api): State<Arc<Api>>) -> Result<Json<Status>, Problem> {
    let metrics = api.metrics.clone();
    // To count, files are looked at.
    let figures = spawn_blocking(move || {
        let sum = |name: &str| metrics.values(name, "").values().sum();
        (
            metrics.values("sitescout_pages_fetched_total", "outcome"),
            sum("process_resident_memory_bytes"),
            sum("sitescout_store_bytes"),
            sum("sitescout_internal_crawlers_busy"),
        )
    });
    let (fetches, memory_bytes, store_bytes, crawlers_busy) = figures.await.unwrap_or_default();
    let store = api.store.identity().await?;
    let heads = api.store.heads().await?;
    Ok(Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        started_at: date(api.started),
        writes: api.state.borrow().plan.token.is_some(),
        store,
        last_seq: heads.last_number,
        fetches,
        memory_bytes,
        store_bytes,
        crawlers_busy,
    }))
}
