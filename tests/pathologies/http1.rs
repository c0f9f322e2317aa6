//! HTTP/1.1 by hand: reads requests, writes valid and invalid responses.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;

use super::World;
use super::answers::{Answer, DRIP, Reply, Then, Wire};
use super::journal::{InFlight, SeenRequest};

/// Larger requests end the connection.
const LARGEST_REQUEST: usize = 256 * 1024;

/// Bodies are written and counted in pieces of this size.
pub(super) const PIECE: usize = 16 * 1024;

/// A client, with TLS or without.
pub(super) trait Peer: AsyncRead + AsyncWrite + Unpin {
    fn tcp(&self) -> &TcpStream;
}

impl Peer for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Peer for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

struct Connection<P> {
    peer: P,
    /// Requests that came early.
    unread: BytesMut,
}

/// What happens to a connection after a response.
enum Afterwards {
    NextRequest,
    Close,
    Reset,
}

/// Answers request after request, until either side closes.
pub(super) async fn serve(peer: impl Peer, world: &Arc<World>, scheme: &'static str) {
    let mut connection = Connection {
        peer,
        unread: BytesMut::new(),
    };
    while let Some(request) = connection.request(scheme).await {
        let (answer, in_flight) = world.meet(&request);
        let answered = match answer {
            Answer::Reply(reply) => connection.reply(&reply, &request, &in_flight).await,
            Answer::Wire(wire) => connection.wire(wire, &in_flight).await,
        };
        drop(in_flight);
        match answered {
            Ok(Afterwards::NextRequest) if !is_last(&request) => {}
            Ok(Afterwards::NextRequest | Afterwards::Close) => {
                let _ = connection.peer.shutdown().await;
                return;
            }
            Ok(Afterwards::Reset) => {
                let _ = connection.peer.tcp().set_zero_linger();
                return;
            }
            // The client went away.
            Err(_) => return,
        }
    }
}

/// Reads until the client leaves.
pub(super) async fn until_left(peer: &mut (impl AsyncRead + Unpin)) {
    let mut ignored = [0; 1024];
    while peer.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
}

// === impl Connection ===

impl<P: Peer> Connection<P> {
    /// The next request; none when the client left or sent something else. Bodies of
    /// requests are not expected: crawlers only send GET.
    async fn request(&mut self, scheme: &'static str) -> Option<SeenRequest> {
        let end = loop {
            let end = self.unread.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                break end;
            }
            self.read().await.ok()?;
        };
        let head = self.unread.split_to(end + 4);
        parse(&String::from_utf8_lossy(&head[..end]), scheme)
    }

    async fn read(&mut self) -> io::Result<()> {
        if self.unread.len() > LARGEST_REQUEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.unread.reserve(4096);
        match self.peer.read_buf(&mut self.unread).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn reply(
        &mut self,
        reply: &Reply,
        request: &SeenRequest,
        in_flight: &InFlight,
    ) -> io::Result<Afterwards> {
        self.wait(reply.delay).await?;
        let has_body = request.method != "HEAD" && reply.has_body();
        let body = if has_body { &reply.body[..] } else { &[] };
        let head = reply.head();
        if body.len() <= PIECE {
            // In one go, as ordinary servers do.
            let whole = [&head[..], body].concat();
            self.peer.write_all(&whole).await?;
            self.peer.flush().await?;
            in_flight.sent(body.len());
        } else {
            self.peer.write_all(&head).await?;
            self.send(body, in_flight).await?;
        }
        if reply.says("Connection").is_some_and(says_close) {
            return Ok(Afterwards::Close);
        }
        Ok(Afterwards::NextRequest)
    }

    async fn wire(&mut self, wire: Wire, in_flight: &InFlight) -> io::Result<Afterwards> {
        self.peer.write_all(&wire.head).await?;
        self.send(&wire.body, in_flight).await?;
        match wire.then {
            Then::NextRequest => Ok(Afterwards::NextRequest),
            Then::Close => Ok(Afterwards::Close),
            Then::ResetAfter(moment) => {
                self.wait(moment).await?;
                Ok(Afterwards::Reset)
            }
            Then::Silence => {
                until_left(&mut self.peer).await;
                Ok(Afterwards::Close)
            }
            Then::Repeat { piece, times } => {
                for _ in 0..times {
                    self.send(&piece, in_flight).await?;
                }
                Ok(Afterwards::Close)
            }
            Then::Records(byte) => loop {
                self.send(&[byte], in_flight).await?;
            },
            Then::Drip(bytes) => loop {
                for byte in bytes {
                    self.wait(DRIP).await?;
                    self.send(&[*byte], in_flight).await?;
                }
            },
        }
    }

    async fn send(&mut self, bytes: &[u8], in_flight: &InFlight) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
            self.peer.write_all(piece).await?;
            in_flight.sent(piece.len());
        }
        self.peer.flush().await
    }

    /// Waits, and notices when the client leaves meanwhile.
    async fn wait(&mut self, duration: Duration) -> io::Result<()> {
        if duration.is_zero() {
            return Ok(());
        }
        let end = Instant::now() + duration;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => return Ok(()),
                read = self.read() => read?,
            }
        }
    }
}

// === reading a request ===

/// The client wants no further response on this connection.
fn is_last(request: &SeenRequest) -> bool {
    request.version == "HTTP/1.0" || request.header("Connection").is_some_and(says_close)
}

fn says_close(connection: &str) -> bool {
    connection.eq_ignore_ascii_case("close")
}

fn parse(head: &str, scheme: &'static str) -> Option<SeenRequest> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let version = match version {
        "HTTP/1.1" => "HTTP/1.1",
        "HTTP/1.0" => "HTTP/1.0",
        _ => return None,
    };
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let mut request = SeenRequest {
        host: String::new(),
        method: method.to_owned(),
        target: target.to_owned(),
        headers,
        version,
        scheme,
        at: Instant::now(),
    };
    request.host = request.header("Host").map(without_port).unwrap_or_default();
    Some(request)
}

/// A host as the log names it.
pub(super) fn without_port(authority: &str) -> String {
    let end = match authority.rfind(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    authority[..end].to_ascii_lowercase()
}
