//! A name server on 127.0.0.1: a closure answers the queries, and a log keeps them.
//!
//! Written by hand, because a library would not send answers that lie, change or are malformed.
//!
//! Resolvers repeat a query whose answer is late, with the same ID. A repetition is answered, but
//! neither logged nor counted, so that a busy machine changes no log. IDs are random and may occur
//! twice, so it counts as a repetition only if nothing was logged since: a test that sends the same
//! query twice in a row logs something in between.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::{AbortHandle, JoinSet};

/// What happened, in order. Clones write into the same log.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

/// The running server. It stops when this is dropped.
pub(crate) struct NameServer {
    address: SocketAddr,
    tasks: [AbortHandle; 2],
}

/// A query.
pub(crate) struct Question {
    /// Without the dot at its end.
    pub(crate) name: String,
    pub(crate) family: Family,
    /// Number of earlier queries for the same.
    pub(crate) before: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    A,
    Aaaa,
}

pub(crate) enum Answer {
    /// Of these addresses those of the requested family, valid for some seconds.
    Addresses(Vec<IpAddr>, u32),
    /// The same, but too long for UDP.
    ByTcp(Vec<IpAddr>),
    /// The name is an alias of this one (CNAME).
    Alias(String),
    /// The name exists, and has no address.
    NoData,
    /// NXDOMAIN.
    NoSuchName,
    /// SERVFAIL.
    Failure,
    /// REFUSED.
    Refusal,
    /// Bytes after the ID that are no valid answer.
    Noise,
    /// Nothing.
    Silence,
}

/// What both transports share.
struct Zone {
    answer: Box<dyn Fn(&Question) -> Answer + Send + Sync>,
    log: Log,
    /// The ID of the last query, and the number of queries.
    asked: Mutex<BTreeMap<(String, Family), (u16, usize)>>,
}

// === impl Log ===

impl Log {
    pub(crate) fn note(&self, line: String) {
        self.0.lock().expect("no panic in between").push(line);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().expect("no panic in between").clone()
    }
}

// === impl NameServer ===

impl NameServer {
    /// Starts a server that writes `A site.example` and the like into the log.
    pub(crate) async fn start(
        log: &Log,
        answer: impl Fn(&Question) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let zone = Arc::new(Zone {
            answer: Box::new(answer),
            log: log.clone(),
            asked: Mutex::default(),
        });
        let (datagrams, streams) = sockets().await;
        Self {
            address: datagrams.local_addr().expect("a bound socket"),
            tasks: [
                tokio::spawn(serve_datagrams(datagrams, zone.clone())).abort_handle(),
                tokio::spawn(serve_streams(streams, zone)).abort_handle(),
            ],
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// UDP and TCP on one port.
async fn sockets() -> (UdpSocket, TcpListener) {
    loop {
        let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let datagrams = datagrams.expect("a free port");
        let address = datagrams.local_addr().expect("a bound socket");
        // The same port may be in use for TCP.
        if let Ok(streams) = TcpListener::bind(address).await {
            return (datagrams, streams);
        }
    }
}

async fn serve_datagrams(socket: UdpSocket, zone: Arc<Zone>) {
    let mut message = [0; 4096];
    while let Ok((length, peer)) = socket.recv_from(&mut message).await {
        if let Some(reply) = zone.reply(&message[..length], false) {
            // The client may have gone.
            let _ = socket.send_to(&reply, peer).await;
        }
    }
}

async fn serve_streams(listener: TcpListener, zone: Arc<Zone>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve_stream(stream, zone.clone()));
    }
}

/// Every message has its length before it (RFC 1035, section 4.2.2).
async fn serve_stream(mut stream: TcpStream, zone: Arc<Zone>) {
    while let Ok(length) = stream.read_u16().await {
        let mut message = vec![0; length.into()];
        if stream.read_exact(&mut message).await.is_err() {
            return;
        }
        if let Some(reply) = zone.reply(&message, true) {
            let length = u16::try_from(reply.len()).expect("a short reply");
            let framed = [&length.to_be_bytes()[..], &reply].concat();
            // The next read notices if the client is gone.
            let _ = stream.write_all(&framed).await;
        }
    }
}

// === impl Zone ===

/// Length of the header, and where the question begins.
const HEADER: usize = 12;

/// The TC bit: the answer was too long for UDP.
const TRUNCATED: u16 = 0x0200;

impl Zone {
    /// The reply to a message, if it is a query.
    fn reply(&self, message: &[u8], by_tcp: bool) -> Option<Vec<u8>> {
        let id = u16::from_be_bytes(*message.first_chunk()?);
        let (name, end) = read_name(message)?;
        let family = match message.get(end..end + 2)? {
            [0, 1] => Family::A,
            [0, 28] => Family::Aaaa,
            _ => return None,
        };
        let before = self.count(id, &name, family, by_tcp);
        let question = Question {
            name,
            family,
            before,
        };
        let (flags, records) = match (self.answer)(&question) {
            Answer::Addresses(addresses, ttl) => (0, address_records(&addresses, family, ttl)),
            Answer::ByTcp(_) if !by_tcp => (TRUNCATED, Vec::new()),
            Answer::ByTcp(addresses) => (0, address_records(&addresses, family, 0)),
            Answer::Alias(target) => (0, vec![record(5, 0, &written_name(&target))]),
            Answer::NoData => (0, Vec::new()),
            Answer::Failure => (2, Vec::new()),
            Answer::NoSuchName => (3, Vec::new()),
            Answer::Refusal => (5, Vec::new()),
            Answer::Noise => return Some([&message[..2], &[0xff; 40]].concat()),
            Answer::Silence => return None,
        };
        // QR, RA and RD: an answer of a recursive server to a recursive query.
        let flags: u16 = 0x8180 | flags;
        let count = u16::try_from(records.len()).expect("few records");
        let mut reply = Vec::new();
        for number in [id, flags, 1, count, 0, 0] {
            reply.extend(number.to_be_bytes());
        }
        reply.extend(&message[HEADER..end + 4]);
        reply.extend(records.concat());
        Some(reply)
    }

    /// Logs a query; returns the number of earlier ones for the same.
    fn count(&self, id: u16, name: &str, family: Family, by_tcp: bool) -> usize {
        let kind = match family {
            Family::A => "A",
            Family::Aaaa => "AAAA",
        };
        let how = if by_tcp { " by TCP" } else { "" };
        let line = format!("{kind} {name}{how}");
        let mut asked = self.asked.lock().expect("no panic in between");
        let (last, times) = asked.entry((name.to_owned(), family)).or_default();
        let is_repeated = *last == id && self.log.lines().last() == Some(&line);
        if !is_repeated {
            *last = id;
            *times += 1;
            self.log.note(line);
        }
        *times - 1
    }
}

/// The name in the query, in lower case, and where it ends.
fn read_name(message: &[u8]) -> Option<(String, usize)> {
    let mut labels = Vec::new();
    let mut at = HEADER;
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        let label = message.get(at..at + length)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += length;
    }
}

fn written_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).expect("a short label"));
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

fn address_records(addresses: &[IpAddr], family: Family, ttl: u32) -> Vec<Vec<u8>> {
    let records = addresses.iter().filter_map(|address| match address {
        IpAddr::V4(address) if family == Family::A => Some(record(1, ttl, &address.octets())),
        IpAddr::V6(address) if family == Family::Aaaa => Some(record(28, ttl, &address.octets())),
        _ => None,
    });
    records.collect()
}

/// A record of the queried name.
fn record(kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).expect("short data");
    let mut bytes = vec![0xc0, 12];
    bytes.extend(kind.to_be_bytes());
    // Class IN.
    bytes.extend([0, 1]);
    bytes.extend(ttl.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(data);
    bytes
}
