//! The generated web over HTTP, for the live fetcher.
//!
//! All hosts are served at one address, as virtual hosts by the `Host` header. Faults depend on
//! the URL alone, so that they are reproducible.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, RETRY_AFTER};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{GeneratedAnswer, GeneratedWeb};

/// Latency and fault rate of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// Delay of every response; slow hosts take twenty times as long.
    pub latency: Duration,
    /// Share of pages with a fault: server errors, closed connections, cut bodies, busy
    /// servers, responses that never come.
    pub faults: f64,
}

/// An HTTP server of a generated web.
pub struct WebServer {
    listener: TcpListener,
    served: Served,
}

/// State shared by all connections.
struct Served {
    web: GeneratedWeb,
    conditions: Conditions,
    on_request: Box<OnRequest>,
}

/// Called with the host and the request target of every request.
type OnRequest = dyn Fn(&str, &str) + Send + Sync;

/// A fault of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Status 500.
    Error,
    /// Status 503 with a `Retry-After` of one second.
    Busy,
    /// The connection closes before the response.
    Broken,
    /// The connection closes in the middle of the body.
    Cut,
    /// The response never comes.
    Silent,
}

/// A body that is sent whole, or cut off in the middle.
struct PageBody {
    rest: Option<Bytes>,
    breaks_off: bool,
    /// Whether hyper had a chance to send the first half.
    has_paused: bool,
}

/// Closes the connection.
#[derive(Debug, thiserror::Error)]
#[error("the connection closes here")]
struct BreakOff;

// === impl WebServer ===

impl WebServer {
    /// Listens at an address. Port 0 takes any free port.
    pub async fn bind(
        address: SocketAddr,
        web: GeneratedWeb,
        conditions: Conditions,
    ) -> io::Result<Self> {
        Ok(Self {
            listener: TcpListener::bind(address).await?,
            served: Served {
                web,
                conditions,
                on_request: Box::new(|_, _| {}),
            },
        })
    }

    /// Calls `on_request` with every request: the host as spelled, and path and query.
    #[must_use]
    pub fn on_request(mut self, on_request: impl Fn(&str, &str) + Send + Sync + 'static) -> Self {
        self.served.on_request = Box::new(on_request);
        self
    }

    /// The address it listens at.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until dropped, which closes all connections.
    pub async fn serve(self) -> Infallible {
        let served = Arc::new(self.served);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(serve_connection(stream, Arc::clone(&served)));
                    }
                    // Out of file descriptors: clients have to wait.
                    Err(_) => sleep(Duration::from_millis(50)).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

// === impl PageBody ===

impl PageBody {
    fn new(body: &Bytes, breaks_off: bool) -> Self {
        let end = if breaks_off {
            body.len() / 2
        } else {
            body.len()
        };
        Self {
            rest: Some(body.slice(..end)),
            breaks_off,
            has_paused: false,
        }
    }
}

impl Body for PageBody {
    type Data = Bytes;
    type Error = BreakOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BreakOff>>> {
        match self.rest.take() {
            Some(body) => Poll::Ready(Some(Ok(Frame::data(body)))),
            None if !self.breaks_off => Poll::Ready(None),
            // hyper flushes when the body is pending, and discards what is not sent when the
            // body fails.
            None if !self.has_paused => {
                self.has_paused = true;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(Some(Err(BreakOff))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.rest {
            Some(body) if !self.breaks_off => SizeHint::with_exact(body.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

async fn serve_connection(stream: TcpStream, served: Arc<Served>) {
    // Responses are small. Without this they are only a bit later.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let served = Arc::clone(&served);
        async move { answer(&request, &served).await }
    });
    // Errors of a connection are the client's to handle.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    request: &Request<Incoming>,
    served: &Served,
) -> Result<Response<PageBody>, BreakOff> {
    let Served {
        web, conditions, ..
    } = served;
    let authority = request
        .headers()
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    let authority = authority.unwrap_or_default();
    let host = authority.split(':').next().unwrap_or_default();
    let (path, query) = (request.uri().path(), request.uri().query());
    let target = request.uri().path_and_query();
    (served.on_request)(host, target.map_or(path, PathAndQuery::as_str));
    let latency = if web.is_slow(host) {
        20 * conditions.latency
    } else {
        conditions.latency
    };
    sleep(latency).await;
    let fault = if path == "/robots.txt" {
        None
    } else {
        web.fault(host, path, query, conditions.faults)
    };
    match fault {
        Some(Fault::Broken) => return Err(BreakOff),
        Some(Fault::Silent) => std::future::pending().await,
        _ => {}
    }
    let Some(answer) = web.answer(host, path, query) else {
        return Err(BreakOff);
    };
    let GeneratedAnswer {
        status,
        headers,
        body,
    } = answer;
    let mut response = Response::new(PageBody::new(&body, fault == Some(Fault::Cut)));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    match fault {
        Some(Fault::Error) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        Some(Fault::Busy) => {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            let wait = HeaderValue::from_static("1");
            response.headers_mut().insert(RETRY_AFTER, wait);
        }
        _ => {}
    }
    Ok(response)
}

impl GeneratedWeb {
    /// A host has the same faults with and without `www.`, as it has the same pages. Otherwise
    /// the verdict on a site would depend on the spelling of the first link to it.
    fn fault(&self, host: &str, path: &str, query: Option<&str>, share: f64) -> Option<Fault> {
        let host = host.strip_prefix("www.").unwrap_or(host);
        let address = format!("{host}{path}?{}", query.unwrap_or_default());
        let mut random = self.random(&address, &[]);
        if !random.is(share) {
            return None;
        }
        Some(match random.below(20) {
            0..8 => Fault::Error,
            8..12 => Fault::Busy,
            12..16 => Fault::Broken,
            16..19 => Fault::Cut,
            _ => Fault::Silent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_same_fault_under_both_names_of_its_host() {
        let web = GeneratedWeb::new(1_000, 1);
        let mut faults = 0;
        for number in 0..200 {
            let (host, _) = web.site(number);
            let fault = |host: &str| web.fault(host, "/", None, 0.5);
            assert_eq!(fault(&host), fault(&format!("www.{host}")));
            faults += u32::from(fault(&host).is_some());
        }
        assert!((70..130).contains(&faults), "{faults}");
    }
}
