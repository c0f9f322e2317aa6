//! What the servers saw: connections, handshakes, requests, and bytes sent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct SeenRequest {
    /// In lower case, without the port.
    pub(crate) host: String,
    pub(crate) method: String,
    /// As written in the request line, or `:path`.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    pub(crate) version: &'static str,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    pub(crate) at: Instant,
}

/// The log of both ports.
#[derive(Default)]
pub(super) struct Journal {
    hosts: Mutex<BTreeMap<String, Seen>>,
    open: AtomicUsize,
    accepted: AtomicUsize,
    requests: AtomicUsize,
}

/// What one host saw.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) requests: Vec<SeenRequest>,
    pub(super) hellos: usize,
    pub(super) most_at_once: usize,
    pub(super) bytes_sent: u64,
    in_flight: usize,
    /// Counted separately: benches query this too often to search the requests.
    times_asked: BTreeMap<String, usize>,
}

/// A connection; closed when dropped.
pub(super) struct OpenConnection(Arc<Journal>);

/// A request under way; answered when dropped.
pub(super) struct InFlight {
    journal: Arc<Journal>,
    host: String,
}

// === impl SeenRequest ===

impl SeenRequest {
    /// The first header of a name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

// === impl Journal ===

impl Journal {
    pub(super) fn connection(self: &Arc<Self>) -> OpenConnection {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        self.open.fetch_add(1, Ordering::SeqCst);
        OpenConnection(self.clone())
    }

    pub(super) fn hello(&self, host: &str) {
        self.change(host, |seen| seen.hellos += 1);
    }

    /// Logs a request. Returns how often its target was requested before, and the number of
    /// earlier requests to all hosts.
    pub(super) fn request(self: &Arc<Self>, request: &SeenRequest) -> (InFlight, usize, usize) {
        let before = self.change(&request.host, |seen| {
            seen.in_flight += 1;
            seen.most_at_once = seen.most_at_once.max(seen.in_flight);
            seen.requests.push(request.clone());
            let times = seen.times_asked.entry(request.target.clone()).or_default();
            *times += 1;
            *times - 1
        });
        let in_flight = InFlight {
            journal: self.clone(),
            host: request.host.clone(),
        };
        let serial = self.requests.fetch_add(1, Ordering::SeqCst);
        (in_flight, before, serial)
    }

    /// Reads the log of a host; empty, if it was never contacted.
    pub(super) fn of_host<T>(&self, host: &str, look: impl FnOnce(&Seen) -> T) -> T {
        let hosts = self.hosts.lock().expect("no panic in between");
        match hosts.get(host) {
            Some(seen) => look(seen),
            None => look(&Seen::default()),
        }
    }

    pub(super) fn hosts(&self) -> Vec<String> {
        let hosts = self.hosts.lock().expect("no panic in between");
        hosts.keys().cloned().collect()
    }

    pub(super) fn connections_open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    pub(super) fn connections_accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    fn change<T>(&self, host: &str, change: impl FnOnce(&mut Seen) -> T) -> T {
        let mut hosts = self.hosts.lock().expect("no panic in between");
        if !hosts.contains_key(host) {
            hosts.insert(host.to_owned(), Seen::default());
        }
        change(hosts.get_mut(host).expect("put there if it was missing"))
    }
}

// === impl OpenConnection, InFlight ===

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl InFlight {
    /// Counts bytes sent.
    pub(super) fn sent(&self, bytes: usize) {
        self.journal
            .change(&self.host, |seen| seen.bytes_sent += bytes as u64);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.journal.change(&self.host, |seen| seen.in_flight -= 1);
    }
}
