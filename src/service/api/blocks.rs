//! Hosts that are kept out of visits and lists, beside those of the settings.

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
use super::answers::{Json, Path, Problem, ProblemBody, Query, site};
use super::editors::checked_note;
use super::sites::limit;

/// So many blocks come at once at most.
const MOST_BLOCKS: usize = 10_000;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Blocks {
    blocks: Vec<BlockNote>,
    /// The `after` of those that follow; null at the end
    next: Option<String>,
}

/// A host that is kept out
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BlockNote {
    host: String,
    note: String,
    at: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewBlock {
    /// Why, for others to read; at most 500 characters
    #[serde(default)]
    #[schema(max_length = 500)]
    note: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct BlocksWanted {
    /// Those after this host; blocks come in the order of hosts
    after: Option<String>,
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
}

/// The hosts that were blocked here; those of the settings are not among them
#[utoipa::path(
    get,
    path = "/v1/blocks",
    tag = "editors",
    params(BlocksWanted),
    responses(
        (status = 200, body = Blocks),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn all(
    State(api): State<Arc<Api>>,
    Query(wanted): Query<BlocksWanted>,
) -> Result<Json<Blocks>, Problem> {
    let most = limit(wanted.limit, MOST_BLOCKS, MOST_BLOCKS)?;
    let after = wanted.after.as_deref().map(site).transpose()?;
    let blocks = api.store.blocks(after, most).await?;
    let last = blocks.last().filter(|_| blocks.len() == most);
    let next = last.map(|(site, _)| site.to_string());
    let blocks = blocks.into_iter();
    let blocks = blocks.map(|(site, block)| BlockNote::new(&site, block));
    let blocks = blocks.collect();
    Ok(Json(Blocks { blocks, next }))
}

/// Keep a host out of visits and lists, at once and for all topics
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
    _writer: Authorized,
    Path(host): Path<String>,
    Json(sent): Json<NewBlock>,
) -> Result<Json<BlockNote>, Problem> {
    let site = site(&host)?;
    let edit = Edit::Block {
        site: site.clone(),
        note: checked_note(sent.note)?,
    };
    api.steering.block(&site, edit).await?;
    match api.store.block_of(&site).await? {
        Some(block) => Ok(Json(BlockNote::new(&site, block))),
        None => Err(Problem::conflict(format!(
            "somebody else has just let {site} in again"
        ))),
    }
}

/// Let a host in again
#[utoipa::path(
    delete,
    path = "/v1/blocks/{host}",
    tag = "editors",
    params(("host" = String, Path, description = "The host")),
    security(("token" = [])),
    responses(
        (status = 204, description = "It is not blocked any more"),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn unblock(
    State(api): State<Arc<Api>>,
    _writer: Authorized,
    Path(host): Path<String>,
) -> Result<StatusCode, Problem> {
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
