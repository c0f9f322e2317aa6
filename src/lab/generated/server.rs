//! The generated web over HTTP, for crawlers that want a real one.
//!
//! All hosts are served at one address, told apart by the `Host` header. What goes wrong goes
//! wrong by address, so that it goes wrong the same way every time.

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

use super::{Answer, GeneratedWeb};

/// How the web behaves, beside what stands on its pages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// How long answers take; slow hosts take twenty times as long.
    pub latency: Duration,
    /// The share of pages at which something goes wrong: errors, broken lines, cut bodies,
    /// busy servers, answers that never come.
    pub faults: f64,
}

/// A server of a generated web.
pub struct WebServer {
    listener: TcpListener,
    served: Served,
}

/// What every conversation needs.
struct Served {
    web: GeneratedWeb,
    conditions: Conditions,
    listen: Box<Listen>,
}

/// Hears of every request: the host, and what is asked of it.
type Listen = dyn Fn(&str, &str) + Send + Sync;

/// What goes wrong at a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The server has an error.
    Error,
    /// It is busy for a second.
    Busy,
    /// The line breaks before the answer.
    Broken,
    /// The line breaks in the middle of the body.
    Cut,
    /// The answer never comes.
    Silent,
}

/// A body that comes whole, or breaks off in the middle.
struct PageBody {
    rest: Option<Bytes>,
    breaks_off: bool,
    /// Whether there was time to send what came before the end.
    has_paused: bool,
}

/// Ends the connection instead of answering.
#[derive(Debug, thiserror::Error)]
#[error("the line breaks here")]
struct BreakOff;

// === impl WebServer ===

impl WebServer {
    /// Listens at an address. Port 0 is any that is free.
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
                listen: Box::new(|_, _| {}),
            },
        })
    }

    /// Tells of every request as it comes: the host as it was spelled, and path and query.
    #[must_use]
    pub fn telling(mut self, listen: impl Fn(&str, &str) + Send + Sync + 'static) -> Self {
        self.served.listen = Box::new(listen);
        self
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves for ever, or until it is dropped; connections end with it.
    pub async fn serve(self) -> Infallible {
        let served = Arc::new(self.served);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(converse(stream, Arc::clone(&served)));
                    }
                    // No descriptors: whoever asks has to wait.
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
            // hyper sends when it has to wait for more, and what it has not sent when a body
            // fails it throws away.
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

async fn converse(stream: TcpStream, served: Arc<Served>) {
    // Answers are small. If this fails they are a bit later.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let served = Arc::clone(&served);
        async move { answer(&request, &served).await }
    });
    // How a conversation ends is the affair of whoever began it.
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
    let host = request
        .headers()
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    let (path, query) = (request.uri().path(), request.uri().query());
    let target = request.uri().path_and_query();
    (served.listen)(host, target.map_or(path, PathAndQuery::as_str));
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
    let Answer {
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
    /// A host has the same faults with `www.` as without, as it has the same pages. Or what
    /// becomes of a site would depend on how the first link to it happens to be spelled.
    fn fault(&self, host: &str, path: &str, query: Option<&str>, share: f64) -> Option<Fault> {
        let host = host.strip_prefix("www.").unwrap_or(host);
        let matter = format!("{host}{path}?{}", query.unwrap_or_default());
        let mut chance = self.chance(&matter, &[]);
        if !chance.is(share) {
            return None;
        }
        Some(match chance.below(20) {
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
    fn a_page_goes_wrong_under_both_names_of_its_host() {
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
