//! Blocked hosts: never visited and on no list, in addition to those of the settings.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::store::{Block, Edit};
use crate::verdicts::date;
use crate::web::SiteId;

use super::Api;
use super::access::Authorized;
use super::answers::{ApiProblem, Json, Path, ProblemBody, Query, site};
use super::editors::checked_note;
use super::sites::checked_limit;

/// Maximum number of blocks per response.
const MAX_BLOCKS: usize = 10_000;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Blocks {
    blocks: Vec<BlockNote>,
    /// The `after` of the next request; null at the end
    next: Option<String>,
}

/// A blocked host
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BlockNote {
    host: String,
    note: String,
    at: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewBlock {
    /// The reason, for other people; at most 500 characters
    #[serde(default)]
    #[schema(max_length = 500)]
    note: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct BlocksParams {
    /// Return blocks after this host; they are sorted by host
    after: Option<String>,
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
}

/// Hosts blocked through the API, without those of the settings
#[utoipa::path(
    get,
    path = "/v1/blocks",
    tag = "editors",
    params(BlocksParams),
    responses(
        (status = 200, body = Blocks),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn all(
    State(api): State<Arc<Api>>,
    Query(params): Query<BlocksParams>,
) -> Result<Json<Blocks>, ApiProblem> {
    let limit = checked_limit(params.limit, MAX_BLOCKS, MAX_BLOCKS)?;
    let after = params.after.as_deref().map(site).transpose()?;
    let blocks = api.store.blocks(after, limit).await?;
    let last = blocks.last().filter(|_| blocks.len() == limit);
    let next = last.map(|(site, _)| site.to_string());
    let blocks = blocks.into_iter();
    let blocks = blocks.map(|(site, block)| BlockNote::new(&site, block));
    let blocks = blocks.collect();
    Ok(Json(Blocks { blocks, next }))
}

/// Block a host: it is no longer visited, and leaves the lists of all topics at once
#[utoipa::path(
    put,
    path = "/v1/blocks/{host}",
    tag = "editors",
    params(("host" = String, Path, description = "The host")),
    request_body = NewBlock,
    security(("token" = [])),
    responses(
        (status = 200, body = BlockNote),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn block(
    State(api): State<Arc<Api>>,
    _authorized: Authorized,
    Path(host): Path<String>,
    Json(body): Json<NewBlock>,
) -> Result<Json<BlockNote>, ApiProblem> {
    let site = site(&host)?;
    let edit = Edit::Block {
        site: site.clone(),
        note: checked_note(body.note)?,
    };
    api.steering.block(&site, edit).await?;
    match api.store.block_of(&site).await? {
        Some(block) => Ok(Json(BlockNote::new(&site, block))),
        None => Err(ApiProblem::conflict(format!(
            "another editor has just unblocked {site}"
        ))),
    }
}

/// Unblock a host
#[utoipa::path(
    delete,
    path = "/v1/blocks/{host}",
    tag = "editors",
    params(("host" = String, Path, description = "The host")),
    security(("token" = [])),
    responses(
        (status = 204, description = "The host is not blocked"),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn unblock(
    State(api): State<Arc<Api>>,
    _authorized: Authorized,
    Path(host): Path<String>,
) -> Result<StatusCode, ApiProblem> {
    let site = site(&host)?;
    let edit = Edit::Unblock { site: site.clone() };
    api.steering.block(&site, edit).await?;
    api.wake_topics();
    Ok(StatusCode::NO_CONTENT)
}

// === impl BlockNote ===

impl BlockNote {
    pub(super) fn new(site: &SiteId, block: Block) -> Self {
        Self {
            host: site.to_string(),
            note: block.note,
            at: date(block.at),
        }
    }
}
