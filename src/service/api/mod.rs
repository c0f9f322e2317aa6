//! The HTTP API: how results leave the daemon, and how people steer it.
//!
//! | request | answer | file |
//! |---|---|---|
//! | `GET /v1/status` | version, memory, fetches by outcome | `status.rs` |
//! | `GET /v1/topics`, `/v1/topics/{topic}` | topics, their state and why | `topics.rs` |
//! | `GET /v1/topics/{topic}/curve` | pprs and harvest over pages | `topics.rs` |
//! | `POST /v1/topics/{topic}/pause`, `…/resume`, `…/starts` | steering | `steering.rs` |
//! | `POST /v1/topics/{topic}/try` | a page against the model | `trial.rs` |
//! | `GET /v1/sites`, `/v1/sites/{host}` | sites, and why | `sites.rs` |
//! | `GET /v1/topics/{topic}/queue` | what editors had best look at | `sites.rs` |
//! | `PUT`, `DELETE /v1/topics/{topic}/sites/{host}/decision` | what editors say | `editors.rs` |
//! | `GET /v1/topics/{topic}/decisions` | what they have said | `editors.rs` |
//! | `POST /v1/topics/{topic}/sites/{host}/recheck` | another visit | `editors.rs` |
//! | `GET /v1/blocks`, `PUT`, `DELETE /v1/blocks/{host}` | hosts kept out | `blocks.rs` |
//! | `GET /v1/feed` | the changes of a list, for ever | `feed.rs` |
//! | `GET /v1/openapi.json` | all this for programs | here |
//! | `GET /metrics`, `/livez`, `/readyz` | as on the server for those who watch | `probes.rs` |
//!
//! Who may ask is in `access.rs`, what answers look like in `answers.rs`.
//!
//! Invariants:
//! - What is told is asked of the store. What has a number is durable then; the rest is read
//!   between two commits, unless commits overtake the reader.
//! - Whoever writes has shown the token. It is compared in constant time and never told.
//! - Questions have bounds in time, in records and in number, so that crawls beside them go on.

mod access;
mod answers;
mod blocks;
mod editors;
mod feed;
mod sites;
mod status;
mod steering;
mod topics;
mod trial;

use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header::CONTENT_TYPE;
use axum::middleware;
use axum::routing::get;
use tokio::sync::{Semaphore, watch};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::config::ApiSettings;
use crate::fetch::PageSource;
use crate::store::EditStore;
use crate::telemetry::Metrics;

use super::DaemonState;
use super::dashboard;
use super::status_board::StatusBoard;
use super::steering::Steering;
pub(super) use access::Peer;
pub(crate) use access::Token;
use access::{Access, TokenScheme};
use answers::Problem;

/// So many pages are tried at once.
pub(super) const TRIALS: usize = 2;

/// What answers are made of.
pub(super) struct Api {
    pub(super) store: Arc<dyn EditStore>,
    pub(super) pages: Arc<PageSource>,
    pub(super) metrics: Metrics,
    pub(super) board: Arc<StatusBoard>,
    pub(super) state: watch::Sender<DaemonState>,
    pub(super) started: SystemTime,
    /// Places for pages that are tried: they take a processor each.
    pub(super) trials: Arc<Semaphore>,
    pub(super) steering: Arc<Steering>,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "sitescout",
        description = "Finds websites of a topic. Reading is open on a loopback address; writing \
                       needs the token of the daemon as a bearer token."
    ),
    modifiers(&TokenScheme),
    components(schemas(feed::FeedLine, editors::DecidedSite)),
    tags(
        (name = "topics", description = "What is crawled for, how it stands, and why"),
        (name = "sites", description = "What was judged, and why"),
        (name = "editors", description = "What people say about sites"),
        (name = "feed", description = "The changes of a list, for directories that follow it")
    )
)]
struct Description;

/// Everything that is served: the API, the dashboard, and what `probes` has, which is read like
/// the rest.
pub(super) fn router(
    api: Api,
    settings: &ApiSettings,
    is_loopback: bool,
    probes: Router,
) -> Router {
    let api = Arc::new(api);
    let access = Arc::new(Access::new(settings, is_loopback, api.state.subscribe()));
    let (routes, description) = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(status::status))
        .routes(routes!(topics::all))
        .routes(routes!(topics::one))
        .routes(routes!(topics::curve))
        .routes(routes!(steering::pause))
        .routes(routes!(steering::resume))
        .routes(routes!(steering::add_starts))
        .routes(routes!(trial::try_page))
        .routes(routes!(sites::find))
        .routes(routes!(sites::one))
        .routes(routes!(sites::queue))
        .routes(routes!(editors::decide, editors::withdraw))
        .routes(routes!(editors::decisions))
        .routes(routes!(editors::recheck))
        .routes(routes!(blocks::all))
        .routes(routes!(blocks::block, blocks::unblock))
        .routes(routes!(feed::follow))
        .split_for_parts();
    let description = description.to_json();
    let description = description.expect("a description can be written as JSON");
    let description = ([(CONTENT_TYPE, "application/json")], description);
    routes
        .route("/v1/openapi.json", get(async move || description))
        .with_state(api)
        .merge(probes)
        .route_layer(middleware::from_fn_with_state(
            Arc::clone(&access),
            access::let_readers_in,
        ))
        .merge(dashboard::router())
        .fallback(async || Problem::not_found("there is nothing at this address".to_owned()))
        .method_not_allowed_fallback(async || Problem::wrong_method())
        .layer(DefaultBodyLimit::max(settings.body_bytes))
        .layer(middleware::from_fn(access::in_time))
        .layer(middleware::from_fn_with_state(access, access::let_in))
        .layer(middleware::map_response(access::secure))
}
