//! Conversations with those who ask the API: bounded in number, in time and in memory.
//!
//! Invariant: whoever sends or reads slowly holds one place, and not for ever.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::api::Peer;

/// A request has to begin within this time, and its head has to be there.
const HEAD: Duration = Duration::from_secs(15);

/// A conversation ends after this time, when the answer under way is given.
const LIFE: Duration = Duration::from_mins(3);

/// Whoever has not read its last answer by then does not want it.
const FAREWELL: Duration = Duration::from_secs(100);

/// The longest head of a request.
const HEAD_BYTES: usize = 32 << 10;

/// Serves until it is dropped; conversations end with it.
pub(super) async fn serve(listener: TcpListener, routes: Router, connections: usize) {
    let places = Arc::new(Semaphore::new(connections));
    let mut conversations = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = conversations.join_next() => continue,
        };
        match accepted {
            Ok((stream, peer)) => {
                let routes = routes.clone();
                conversations.spawn(async move {
                    converse(stream, peer, routes).await;
                    drop(place);
                });
            }
            // No descriptors: whoever asks has to wait.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
        while conversations.try_join_next().is_some() {}
    }
}

async fn converse(stream: TcpStream, peer: SocketAddr, routes: Router) {
    // Answers are small. If this fails they are a bit later.
    let _ = stream.set_nodelay(true);
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        routes.call(request)
    });
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut conversation = std::pin::pin!(conversation);
    // How it ends is the affair of whoever began it.
    if timeout(LIFE, conversation.as_mut()).await.is_err() {
        conversation.as_mut().graceful_shutdown();
        let _ = timeout(FAREWELL, conversation).await;
    }
}
