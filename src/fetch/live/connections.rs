//! Connection pool: limits open connections and keeps idle ones for reuse.
//!
//! Pools of HTTP clients limit idle connections, not open ones, and may open a second connection to
//! a host while the first is being returned. Here a connection holds a permit until it is closed,
//! and when permits run out, the connection that has been idle longest is closed to free one.
//!
//! There may be fewer descriptors than permits, since other parts use them too. Then a request
//! waits for a descriptor as it does for a permit, and it does not count against the site.
//!
//! Invariant: no more connections are open than there are permits, and no site has an idle
//! connection while another is in use, since requests to a site are made one at a time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use prometheus::IntGauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::fetch::error::FetchError;
use crate::web::{PageUrl, SiteId};

use super::meter::Meter;
use super::names::ConnectError;

/// Back-off while waiting for a descriptor: initial and maximum.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Minimum time between two warnings about missing descriptors.
const WARNING_INTERVAL: Duration = Duration::from_mins(1);

/// All connections of one fetcher.
#[derive(Debug)]
pub(super) struct Connections {
    permits: Arc<Semaphore>,
    total: usize,
    /// Requests waiting for a permit. While there are any, connections are closed, not kept.
    waiting: AtomicUsize,
    idle: Mutex<HashMap<SiteId, Idle>>,
    idle_time: Duration,
    has_reaper: AtomicBool,
    /// When the last warning about missing descriptors was logged.
    last_warning: Mutex<Option<Instant>>,
    gauge: IntGauge,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

/// The right to one open connection, to a site or to a name server; counted until dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    _permit: OwnedSemaphorePermit,
    gauge: IntGauge,
}

/// One connection, closed when it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    sender: Sender,
    tasks: Tasks,
    meter: Arc<Meter>,
    /// Boxed, because connections are moved for every page.
    peer: Box<Peer>,
}

/// The other end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    /// Scheme, host and port of the pages that can be requested.
    pub(super) origin: Box<str>,
    /// The same host and port as a `Host` header.
    pub(super) host: HeaderValue,
    /// The address of the server; none behind a proxy.
    pub(super) address: Option<IpAddr>,
    /// The address to rate-limit, if any.
    pub(super) paced_address: Option<IpAddr>,
    /// Whether the request line holds the whole URL, as for a proxy (RFC 9112, section 3.2.2).
    pub(super) wants_absolute_form: bool,
}

/// The tasks that move the bytes of a connection: HTTP/2 has one for the socket and one for
/// the requests. Each holds the permit, and all end when the connection is dropped.
#[derive(Debug, Clone)]
pub(super) struct Tasks {
    permit: Arc<ConnectionPermit>,
    running: Arc<Mutex<Vec<AbortHandle>>>,
}

/// The sending half of a connection.
#[derive(Debug)]
pub(super) enum Sender {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

/// Why there was no response.
#[derive(Debug)]
pub(super) enum Unsent {
    /// The connection was closed before the request was sent.
    Never,
    /// The server may have seen the request.
    Perhaps(hyper::Error),
}

// === impl Connections ===

impl Connections {
    pub(super) fn new(total: usize, idle_time: Duration, gauge: IntGauge) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(total)),
            total,
            waiting: AtomicUsize::new(0),
            idle: Mutex::default(),
            idle_time,
            has_reaper: AtomicBool::new(false),
            last_warning: Mutex::default(),
            gauge,
        }
    }

    /// How many connections are open.
    pub(super) fn open(&self) -> usize {
        self.total - self.permits.available_permits()
    }

    /// The idle connection to the page's origin, if there is one. An idle connection to
    /// another origin of the same site is closed.
    pub(super) fn take_idle(&self, page: &PageUrl, site: &SiteId) -> Option<Connection> {
        let Idle { connection, .. } = self.idle().remove(site)?;
        let is_same = *connection.peer.origin == *page.origin();
        (is_same && !connection.is_closed()).then_some(connection)
    }

    /// Waits for the right to open a connection.
    pub(super) async fn permit(&self) -> ConnectionPermit {
        let permits = Arc::clone(&self.permits);
        if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            return ConnectionPermit::new(permit, &self.gauge);
        }
        let _waiting = WaitingForPermit::new(&self.waiting);
        self.close_oldest();
        let permit = permits.acquire_owned().await;
        ConnectionPermit::new(permit.expect("the semaphore is never closed"), &self.gauge)
    }

    /// Retries until a descriptor is available. In between, idle connections are closed.
    pub(super) async fn with_descriptor<T, A>(
        &self,
        attempt: impl Fn() -> A,
    ) -> Result<T, FetchError>
    where
        A: Future<Output = Result<T, ConnectError>>,
    {
        let mut wait = FIRST_WAIT;
        loop {
            match attempt().await {
                Err(ConnectError::NoDescriptor) => {}
                Err(ConnectError::Failed(error)) => return Err(error),
                Ok(found) => return Ok(found),
            }
            self.warn_no_descriptor();
            self.close_oldest();
            sleep(wait).await;
            wait = (2 * wait).min(LONGEST_WAIT);
        }
    }

    /// Keeps a connection for the next request to the same origin.
    pub(super) fn give_back(self: &Arc<Self>, site: &SiteId, connection: Connection) {
        if self.idle_time.is_zero() || connection.is_closed() {
            return;
        }
        connection.meter.end();
        let idle = Idle {
            connection,
            since: Instant::now(),
        };
        {
            // `permit` counts itself as waiting before it looks for an idle connection to close,
            // so one of the two sees the other.
            let mut kept = self.idle();
            if self.waiting.load(Ordering::Acquire) > 0 {
                return;
            }
            kept.insert(site.clone(), idle);
        }
        if !self.has_reaper.swap(true, Ordering::AcqRel) {
            tokio::spawn(reap(Arc::clone(self)));
        }
    }

    fn warn_no_descriptor(&self) {
        let mut last = self
            .last_warning
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= WARNING_INTERVAL) {
            *last = Some(Instant::now());
            tracing::warn!(
                connections = self.open(),
                "too many files are open, so pages wait; raise the limit of open files"
            );
        }
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<SiteId, Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close_oldest(&self) {
        let mut idle = self.idle();
        let oldest = idle.iter().min_by_key(|(_, idle)| idle.since);
        if let Some(site) = oldest.map(|(site, _)| site.clone()) {
            idle.remove(&site);
        }
    }

    /// Closes what has been idle for too long, and returns whether any idle connection is left.
    fn close_expired(&self) -> bool {
        let mut idle = self.idle();
        idle.retain(|_, idle| {
            idle.since.elapsed() < self.idle_time && !idle.connection.is_closed()
        });
        !idle.is_empty()
    }
}

/// Runs until there are no idle connections left, or the fetcher is dropped.
async fn reap(connections: Arc<Connections>) {
    let period = (connections.idle_time / 2).max(Duration::from_millis(10));
    let weak = Arc::downgrade(&connections);
    drop(connections);
    loop {
        sleep(period).await;
        let Some(connections) = weak.upgrade() else {
            return;
        };
        if !connections.close_expired() {
            connections.has_reaper.store(false, Ordering::Release);
            // A connection may have been returned in between, while `has_reaper` was still set.
            if connections.idle().is_empty() || connections.has_reaper.swap(true, Ordering::AcqRel)
            {
                return;
            }
        }
    }
}

/// Counts one waiting request until dropped.
struct WaitingForPermit<'a>(&'a AtomicUsize);

impl<'a> WaitingForPermit<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::AcqRel);
        Self(waiting)
    }
}

impl Drop for WaitingForPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

// === impl ConnectionPermit ===

impl ConnectionPermit {
    fn new(permit: OwnedSemaphorePermit, gauge: &IntGauge) -> Self {
        gauge.inc();
        Self {
            _permit: permit,
            gauge: gauge.clone(),
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

// === impl Tasks ===

impl Tasks {
    pub(super) fn new(permit: ConnectionPermit) -> Self {
        Self {
            permit: Arc::new(permit),
            running: Arc::default(),
        }
    }
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        let permit = Arc::clone(&self.permit);
        let task = tokio::spawn(async move {
            task.await;
            drop(permit);
        });
        let running = self.running.lock();
        running
            .unwrap_or_else(PoisonError::into_inner)
            .push(task.abort_handle());
    }
}

// === impl Connection ===

impl Connection {
    /// A connection whose `driver` moves the bytes, by itself or with other `tasks`.
    pub(super) fn new(
        sender: Sender,
        driver: impl Future<Output = hyper::Result<()>> + Send + 'static,
        tasks: Tasks,
        meter: Arc<Meter>,
        peer: Peer,
    ) -> Self {
        tasks.execute(async move {
            // The error also reaches the request that waits for a response.
            let _ = pin!(driver).await;
        });
        Self {
            sender,
            tasks,
            meter,
            peer: Box::new(peer),
        }
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    pub(super) fn speaks_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Empty<Bytes>>,
    ) -> Result<Response<Incoming>, Unsent> {
        self.meter.begin();
        let sent = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await.map_err(|_| Unsent::Never)?;
                sender.try_send_request(request).await
            }
            Sender::Http2(sender) => {
                sender.ready().await.map_err(|_| Unsent::Never)?;
                sender.try_send_request(request).await
            }
        };
        sent.map_err(|mut error| match error.take_message() {
            Some(_) => Unsent::Never,
            None => Unsent::Perhaps(error.into_error()),
        })
    }

    fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let running = self.tasks.running.lock();
        for task in running.unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }
}
