//! A faulty web on 127.0.0.1: servers that stall, lie, flood and loop, chosen by host name.
//!
//! One port speaks plain HTTP and one TLS. The first label of the host selects the fault:
//! `drips.example` drips, `expired.example` shows an expired certificate, and any other name
//! is an ordinary site. A crawler that resolves every name to these two ports meets all
//! faults at once.
//!
//! The servers keep a log of what arrives: tests judge the crawler by what servers saw,
//! not by what it reports itself.
//!
//! Faults are written as bytes by hand: a server library would correct them.
//!
//! Invariant: nothing here outlives [`Pathologies`], and no fault holds more than a few
//! megabytes, however long it goes on.

#![allow(dead_code, reason = "tests and benches each use a part of it")]

/// An enum of host names: the variants, the list of all, and the first label of each.
macro_rules! host_names {
    ($(#[$about:meta])* $kind:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $kind {
            $($(#[$doc])* $variant,)+
        }

        impl $kind {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),+];

            /// The first label of hosts that behave so.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// A host that behaves so.
            pub(crate) fn host(self) -> String {
                format!("{}.example", self.name())
            }

            pub(super) fn of_host(host: &str) -> Option<Self> {
                let label = host.split('.').next()?;
                Self::ALL.iter().copied().find(|one| one.name() == label)
            }
        }
    };
}

mod answers;
mod bodies;
mod faults;
mod floods;
mod http1;
mod http2;
mod journal;
pub(crate) mod process;
mod robots;
mod tls;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

pub(crate) use answers::Reply;
#[allow(unused_imports, reason = "not every user has gatekeepers")]
pub(crate) use bodies::CHALLENGE;
pub(crate) use faults::Fault;
#[allow(unused_imports, reason = "not every user speaks TLS")]
pub(crate) use floods::{FrameFlood, Moment};
pub(crate) use journal::SeenRequest;
pub(crate) use robots::RobotsFault;
#[allow(unused_imports, reason = "not every user speaks TLS")]
pub(crate) use tls::TlsFault;

use answers::{Answer, Then, Wire};
use faults::Requested;
use journal::{InFlight, Journal};
use tls::Certificates;

/// The running servers. They stop when this is dropped.
pub(crate) struct Pathologies {
    world: Arc<World>,
    https: SocketAddr,
    acceptors: [AbortHandle; 2],
}

/// What all connections share.
struct World {
    journal: Arc<Journal>,
    scripts: Mutex<BTreeMap<String, Arc<Script>>>,
    certificates: Certificates,
    http: SocketAddr,
}

type Script = dyn Fn(&str, usize) -> Reply + Send + Sync;

// === impl Pathologies ===

impl Pathologies {
    /// Starts the servers in the current runtime.
    pub(crate) async fn start() -> Self {
        let certificates = tokio::task::spawn_blocking(Certificates::new);
        let plain = listen();
        let secured = listen();
        let https = secured.local_addr().expect("a bound socket");
        let world = Arc::new(World {
            journal: Arc::default(),
            scripts: Mutex::default(),
            certificates: certificates.await.expect("keys"),
            http: plain.local_addr().expect("a bound socket"),
        });
        let acceptors = [
            tokio::spawn(accept(plain, world.clone(), Port::Plain)).abort_handle(),
            tokio::spawn(accept(secured, world.clone(), Port::Secured)).abort_handle(),
        ];
        Self {
            world,
            https,
            acceptors,
        }
    }

    /// The port of plain HTTP.
    pub(crate) fn http(&self) -> SocketAddr {
        self.world.http
    }

    /// The port of TLS.
    pub(crate) fn https(&self) -> SocketAddr {
        self.https
    }

    /// The authority behind the good certificates.
    pub(crate) fn ca_pem(&self) -> &str {
        self.world.certificates.ca_pem()
    }

    /// All requests to a host, robots.txt included.
    pub(crate) fn requests(&self, host: &str) -> Vec<SeenRequest> {
        self.world
            .journal
            .of_host(host, |seen| seen.requests.clone())
    }

    /// The targets requested from a host, in order.
    pub(crate) fn targets(&self, host: &str) -> Vec<String> {
        let targets = |request: SeenRequest| request.target;
        self.requests(host).into_iter().map(targets).collect()
    }

    /// The hosts named in any request or handshake, sorted.
    pub(crate) fn all_hosts(&self) -> Vec<String> {
        self.world.journal.hosts()
    }

    /// How often a handshake named the host, successful or not.
    pub(crate) fn hellos(&self, host: &str) -> usize {
        self.world.journal.of_host(host, |seen| seen.hellos)
    }

    /// Connections accepted and not yet closed, on both ports.
    pub(crate) fn connections_open(&self) -> usize {
        self.world.journal.connections_open()
    }

    pub(crate) fn connections_accepted(&self) -> usize {
        self.world.journal.connections_accepted()
    }

    /// The highest number of requests of a host under way at the same time.
    pub(crate) fn most_at_once(&self, host: &str) -> usize {
        self.world.journal.of_host(host, |seen| seen.most_at_once)
    }

    /// Bytes of bodies, and of heads without end, that the system took before the peer went
    /// away. Buffers on both sides can hold some of them unread.
    pub(crate) fn bytes_sent(&self, host: &str) -> u64 {
        self.world.journal.of_host(host, |seen| seen.bytes_sent)
    }

    /// Lets a closure answer for a host, robots.txt included, on both ports. It is given
    /// the target and how often that was requested before.
    pub(crate) fn script(
        &self,
        host: &str,
        reply: impl Fn(&str, usize) -> Reply + Send + Sync + 'static,
    ) {
        let mut scripts = self.world.scripts.lock().expect("no panic in between");
        scripts.insert(host.to_owned(), Arc::new(reply));
    }
}

impl Drop for Pathologies {
    fn drop(&mut self) {
        for acceptor in &self.acceptors {
            acceptor.abort();
        }
    }
}

// === impl World ===

impl World {
    /// Logs a request and finds its response; it is in flight until the guard is dropped.
    fn meet(&self, request: &SeenRequest) -> (Answer, InFlight) {
        let (in_flight, before, serial) = self.journal.request(request);
        let script = {
            let scripts = self.scripts.lock().expect("no panic in between");
            scripts.get(&request.host).cloned()
        };
        if let Some(script) = script {
            let reply = script(&request.target, before);
            return (Answer::Reply(reply), in_flight);
        }
        let requested = Requested {
            request,
            before,
            serial,
            http: self.http,
        };
        (answer(&requested), in_flight)
    }
}

fn answer(requested: &Requested) -> Answer {
    let host = &requested.request.host;
    if let Some(fault) = RobotsFault::of_host(host) {
        return fault.answer(requested);
    }
    if requested.path() == "/robots.txt" {
        return Reply::status(404).into();
    }
    if TlsFault::of_host(host) == Some(TlsFault::TinyRecords) {
        return Wire::html("Connection: close\r\n", "", Then::Records(b'x')).into();
    }
    match Fault::of_host(host) {
        Some(fault) => fault.answer(requested),
        None => requested.page().into(),
    }
}

// === the two ports ===

#[derive(Clone, Copy)]
enum Port {
    Plain,
    Secured,
}

/// What the system buffers for a connection. Small, so that `bytes_sent` stays near to what
/// was read.
const SEND_BUFFER: u32 = 64 * 1024;

fn listen() -> TcpListener {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket
        .set_send_buffer_size(SEND_BUFFER)
        .expect("a small buffer");
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(anywhere).expect("a free port");
    socket.listen(1024).expect("a listening socket")
}

/// Owns the connections of a port: they end with it.
async fn accept(listener: TcpListener, world: Arc<World>, port: Port) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    // Too many open files: some connections have to end first.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                connections.spawn(serve(stream, world.clone(), port));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, world: Arc<World>, port: Port) {
    let _open = world.journal.connection();
    // Dripped bytes must be sent one by one.
    let _ = stream.set_nodelay(true);
    match port {
        Port::Plain => http1::serve(stream, &world, "http").await,
        Port::Secured => tls::serve(stream, &world).await,
    }
}
