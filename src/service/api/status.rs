//! The status of the daemon.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

use crate::verdicts::date;

use super::Api;
use super::answers::{ApiProblem, Json, ProblemBody};

/// The status of the daemon
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Status {
    version: &'static str,
    started_at: String,
    /// Whether the daemon has a token, without which it refuses writes
    writes: bool,
    /// Identity of the store; a new one after an import
    store: String,
    /// The highest sequence number so far
    last_seq: u64,
    /// Fetches since the start, by outcome
    fetches: BTreeMap<String, u64>,
    memory_bytes: u64,
    store_bytes: u64,
    /// Visits under way
    crawlers_busy: u64,
}

/// Status of the daemon
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
pub(super) async fn status(State(api): State<Arc<Api>>) -> Result<Json<Status>, ApiProblem> {
    let metrics = api.metrics.clone();
    // Some metrics read files, such as those of `/proc`.
    let values = spawn_blocking(move || {
        let sum = |name: &str| metrics.values(name, "").values().sum();
        (
            metrics.values("sitescout_pages_fetched_total", "outcome"),
            sum("process_resident_memory_bytes"),
            sum("sitescout_store_bytes"),
            sum("sitescout_internal_crawlers_busy"),
        )
    });
    let (fetches, memory_bytes, store_bytes, crawlers_busy) = values.await.unwrap_or_default();
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
