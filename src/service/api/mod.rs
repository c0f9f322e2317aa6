//! The HTTP API: reading results, and steering the daemon.
//!
//! | request | response | file |
//! |---|---|---|
//! | `GET /v1/status` | version, memory, fetches by outcome | `status.rs` |
//! | `GET /v1/topics`, `/v1/topics/{topic}` | topics, their state and its reason | `topics.rs` |
//! | `GET /v1/topics/{topic}/curve` | pprs and harvest over pages | `topics.rs` |
//! | `POST /v1/topics/{topic}/pause`, `…/resume`, `…/starts` | steering | `steering.rs` |
//! | `POST /v1/topics/{topic}/try` | judges a page, keeps nothing | `trial.rs` |
//! | `GET /v1/sites`, `/v1/sites/{host}` | sites with their evidence | `sites.rs` |
//! | `GET /v1/topics/{topic}/queue` | sites for editors to decide on | `sites.rs` |
//! | `PUT`, `DELETE /v1/topics/{topic}/sites/{host}/decision` | decisions of editors | `editors.rs` |
//! | `GET /v1/topics/{topic}/decisions` | all decisions | `editors.rs` |
//! | `POST /v1/topics/{topic}/sites/{host}/recheck` | another visit soon | `editors.rs` |
//! | `GET /v1/blocks`, `PUT`, `DELETE /v1/blocks/{host}` | blocked hosts | `blocks.rs` |
//! | `GET /v1/feed` | changes of a list, resumable | `feed.rs` |
//! | `GET /v1/openapi.json` | `OpenAPI` description | here |
//! | `GET /metrics`, `/livez`, `/readyz` | as on the monitoring server | `probes.rs` |
//!
//! Access is checked in `access.rs`; responses and errors are in `answers.rs`.
//!
//! Invariants:
//! - Results are read from the store. What has a sequence number is durable; the rest is a
//!   consistent snapshot, unless commits overtake the reader.
//! - Writes need the token. It is compared in constant time and never returned.
//! - Requests are bounded in time, records and number, so that they do not starve the crawls.

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
pub(super) use access::PeerAddress;
pub(crate) use access::Token;
use access::{Access, TokenScheme};
use answers::ApiProblem;

/// Maximum number of pages tried at the same time.
pub(super) const MAX_TRIALS: usize = 2;

/// What the handlers share.
pub(super) struct Api {
    pub(super) store: Arc<dyn EditStore>,
    pub(super) pages: Arc<PageSource>,
    pub(super) metrics: Metrics,
    pub(super) board: Arc<StatusBoard>,
    pub(super) state: watch::Sender<DaemonState>,
    pub(super) started: SystemTime,
    /// Permits for trying pages, which takes a whole core each.
    pub(super) trials: Arc<Semaphore>,
    pub(super) steering: Arc<Steering>,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "sitescout",
        description = "Finds websites of a topic. Reads need no token on a loopback address; \
                       writes need the token of the daemon as a bearer token."
    ),
    modifiers(&TokenScheme),
    components(schemas(feed::FeedLine, editors::DecidedSite)),
    tags(
        (name = "topics", description = "Topics, their state and progress"),
        (name = "sites", description = "Judged sites with their evidence"),
        (name = "editors", description = "Decisions and blocks"),
        (name = "feed", description = "Changes of a list, for directories that follow it")
    )
)]
struct Description;

/// All routes: the API, the dashboard, and `probes`, which need the token where reads do.
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
            access::check_reader,
        ))
        .merge(dashboard::router())
        .fallback(async || ApiProblem::not_found("there is nothing at this path".to_owned()))
        .method_not_allowed_fallback(async || ApiProblem::wrong_method())
        .layer(DefaultBodyLimit::max(settings.body_bytes))
        .layer(middleware::from_fn(access::limit_time))
        .layer(middleware::from_fn_with_state(
            access,
            access::check_host_and_rate,
        ))
        .layer(middleware::map_response(access::add_security_headers))
}
