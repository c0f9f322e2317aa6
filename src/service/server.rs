//! Connections to the API: bounded in number, time and memory.
//!
//! Invariant: a client that sends or reads slowly holds one permit, for at most [`LIFETIME`] and
//! [`LAST_RESPONSE`].

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

use super::api::PeerAddress;

/// The head of a request must arrive within this time, counted from the end of the one before.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// After this time a connection takes no further request.
const LIFETIME: Duration = Duration::from_mins(3);

/// Time to finish and send the last response after [`LIFETIME`].
const LAST_RESPONSE: Duration = Duration::from_secs(100);

/// Maximum size of the head of a request.
const HEAD_BYTES: usize = 32 << 10;

/// Serves until it is dropped, which closes all connections.
pub(super) async fn serve(listener: TcpListener, routes: Router, max_connections: usize) {
    let permits = Arc::new(Semaphore::new(max_connections));
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, peer)) => {
                let routes = routes.clone();
                connections.spawn(async move {
                    serve_connection(stream, peer, routes).await;
                    drop(permit);
                });
            }
            // Out of file descriptors: clients wait in the backlog.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(stream: TcpStream, peer: SocketAddr, routes: Router) {
    // Responses are small; if this fails they are only a bit later.
    let _ = stream.set_nodelay(true);
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(PeerAddress(peer));
        routes.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // Errors of a connection concern the client only.
    if timeout(LIFETIME, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_RESPONSE, connection).await;
    }
}
