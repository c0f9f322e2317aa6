//! The monitoring server: `/metrics`, `/livez`, `/readyz`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

use crate::telemetry::{Heartbeats, Metrics};

use super::STUCK;
use super::status_board::StatusBoard;

#[derive(Clone)]
struct Monitored {
    metrics: Metrics,
    board: Arc<StatusBoard>,
    heartbeats: Heartbeats,
}

pub(super) fn router(metrics: Metrics, board: Arc<StatusBoard>, heartbeats: Heartbeats) -> Router {
    Router::new()
        .route("/metrics", get(render_metrics))
        .route("/livez", get(is_alive))
        .route("/readyz", get(is_ready))
        .with_state(Monitored {
            metrics,
            board,
            heartbeats,
        })
}

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, probes: Router) {
    if let Err(error) = axum::serve(listener, probes).await {
        tracing::error!(%error, "metrics and probes are no longer served");
    }
}

async fn render_metrics(State(monitored): State<Monitored>) -> impl IntoResponse {
    let kind = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    // Rendering reads files, such as those of `/proc`.
    let rendered = spawn_blocking(move || monitored.metrics.render()).await;
    match rendered {
        Ok(metrics) => (StatusCode::OK, kind, metrics),
        Err(panic) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            kind,
            format!("{panic}\n"),
        ),
    }
}

async fn is_alive(State(monitored): State<Monitored>) -> impl IntoResponse {
    let stuck = monitored.heartbeats.stuck(STUCK);
    if stuck.is_empty() {
        (StatusCode::OK, "alive\n".to_owned())
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("stuck: {}\n", stuck.join(", ")),
        )
    }
}

async fn is_ready(State(monitored): State<Monitored>) -> impl IntoResponse {
    match monitored.board.unready() {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}
