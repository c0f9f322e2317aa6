//! A small server of its own for those who watch: `/metrics`, `/livez`, `/readyz`.

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

/// What is watched.
#[derive(Clone)]
struct Watched {
    metrics: Metrics,
    board: Arc<StatusBoard>,
    heartbeats: Heartbeats,
}

/// What those who watch may ask for.
pub(super) fn router(metrics: Metrics, board: Arc<StatusBoard>, heartbeats: Heartbeats) -> Router {
    Router::new()
        .route("/metrics", get(figures))
        .route("/livez", get(is_alive))
        .route("/readyz", get(is_ready))
        .with_state(Watched {
            metrics,
            board,
            heartbeats,
        })
}

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, probes: Router) {
    if let Err(error) = axum::serve(listener, probes).await {
        tracing::error!(%error, "figures and probes are no longer served");
    }
}

async fn figures(State(watched): State<Watched>) -> impl IntoResponse {
    let kind = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    // To count, files are looked at.
    let rendered = spawn_blocking(move || watched.metrics.render()).await;
    match rendered {
        Ok(figures) => (StatusCode::OK, kind, figures),
        Err(broken) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            kind,
            format!("{broken}\n"),
        ),
    }
}

async fn is_alive(State(watched): State<Watched>) -> impl IntoResponse {
    let stuck = watched.heartbeats.stuck(STUCK);
    if stuck.is_empty() {
        (StatusCode::OK, "alive\n".to_owned())
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("stuck: {}\n", stuck.join(", ")),
        )
    }
}

async fn is_ready(State(watched): State<Watched>) -> impl IntoResponse {
    match watched.board.unready() {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}
