//! Limits on the bytes a connection receives, per exchange and in between.
//!
//! Bodies have their limit, but a server can send endless data that is not body: interim responses,
//! meaningless frames, chunks and records of one byte. So every byte from the network is counted,
//! below TLS, and has to be accounted for: by the head of a response, by the body that was passed
//! on, or by a share of that for framing. A connection that receives more is closed.
//!
//! Invariant: an exchange whose body ends at `wire_bytes` receives at most
//! `wire_bytes + header_bytes + 960 KiB`, of which at most `header_bytes + 896 KiB` are not body.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How much a server may send ahead of the reader: the window of an HTTP/2 connection.
pub(super) const UNREAD_WINDOW: u32 = 256 << 10;

/// The same for connections without windows: read-ahead of buffers, encrypted or not.
const READ_AHEAD: u64 = 64 << 10;

/// Before the first request: TLS, with certificates of up to 64 KiB, and the settings of HTTP/2, or
/// the tunnel through a proxy.
const HANDSHAKE: u64 = 256 << 10;

/// Between exchanges: HTTP/2 settings and pings, TLS session tickets.
const BETWEEN: u64 = 16 << 10;

/// Allowance for framing: this fraction of the body, up to a maximum. TLS records have 22 bytes of
/// it, HTTP/2 frames 9, chunks about 6.
const FRAMING_SHARE: u64 = 8;
const MOST_FRAMING: u64 = 576 << 10;

/// Counts what one connection receives. The stream counts, the exchange raises the limit.
#[derive(Debug)]
pub(super) struct Meter {
    received: AtomicU64,
    limit: AtomicU64,
    is_exceeded: AtomicBool,
    /// What an exchange may receive in addition to its body and the framing.
    base: u64,
}

/// The framing allowance that one exchange has got so far.
#[derive(Debug, Default)]
pub(super) struct Framing(u64);

/// A stream whose received bytes are counted.
#[derive(Debug)]
pub(super) struct Metered {
    stream: TcpStream,
    meter: Arc<Meter>,
}

// === impl Meter ===

impl Meter {
    /// For a new connection, before its handshake.
    pub(super) fn new(header_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            received: AtomicU64::new(0),
            limit: AtomicU64::new(HANDSHAKE),
            is_exceeded: AtomicBool::new(false),
            base: header_bytes as u64 + u64::from(UNREAD_WINDOW) + READ_AHEAD,
        })
    }

    /// A request is about to be sent.
    pub(super) fn begin(&self) {
        self.allow_from_now(self.base);
    }

    /// The response has been read; no request is in flight.
    pub(super) fn end(&self) {
        self.allow_from_now(BETWEEN);
    }

    /// A piece of a body was passed on to the reader.
    pub(super) fn hand_on(&self, bytes: usize, framing: &mut Framing) {
        let bytes = bytes as u64;
        let share = (bytes / FRAMING_SHARE).min(MOST_FRAMING - framing.0);
        framing.0 += share;
        // There is no other writer during an exchange.
        let limit = self.limit.load(Ordering::Relaxed);
        self.limit.store(limit + bytes + share, Ordering::Relaxed);
    }

    /// Whether the connection was closed because it received too much.
    pub(super) fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }

    fn allow_from_now(&self, bytes: u64) {
        let received = self.received.load(Ordering::Relaxed);
        self.limit.store(received + bytes, Ordering::Relaxed);
    }

    /// Counts received bytes, and returns whether they are within the limit.
    fn receive(&self, bytes: usize) -> bool {
        // There is no other writer.
        let received = self.received.load(Ordering::Relaxed) + bytes as u64;
        self.received.store(received, Ordering::Relaxed);
        received <= self.limit.load(Ordering::Relaxed)
    }
}

// === impl Metered ===

impl Metered {
    pub(super) fn new(stream: TcpStream, meter: Arc<Meter>) -> Self {
        Self { stream, meter }
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        if bytes > 0 && !self.meter.receive(bytes) {
            self.meter.is_exceeded.store(true, Ordering::Relaxed);
        }
        if self.meter.is_exceeded() {
            Poll::Ready(Err(io::Error::other(
                "received more bytes than the response accounts for",
            )))
        } else {
            read
        }
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const HEADER_BYTES: usize = 64 << 10;

    /// How many bytes are accepted, in pieces of this size.
    fn until_exceeded(meter: &Meter, piece: usize) -> u64 {
        let mut received = 0;
        while meter.receive(piece) {
            received += piece as u64;
        }
        received
    }

    #[test]
    fn what_is_no_body_is_bounded_before_within_and_between_exchanges() {
        let meter = Meter::new(HEADER_BYTES);
        assert_eq!(until_exceeded(&meter, 1), 256 * KIB);
        meter.begin();
        assert_eq!(until_exceeded(&meter, 1), 384 * KIB);
        meter.end();
        assert_eq!(until_exceeded(&meter, 1), 16 * KIB);
        meter.begin();
        assert_eq!(until_exceeded(&meter, 1), 384 * KIB);
    }

    /// An exchange with a body in pieces of this size, and this much framing for each.
    fn exchange(piece: usize, framing_bytes: usize, wire_bytes: usize) -> (usize, u64) {
        let meter = Meter::new(HEADER_BYTES);
        meter.begin();
        let (mut framing, mut body) = (Framing::default(), 0);
        while body < wire_bytes && meter.receive(piece + framing_bytes) {
            meter.hand_on(piece, &mut framing);
            body += piece;
        }
        (body, meter.received.load(Ordering::Relaxed) - body as u64)
    }

    #[test]
    fn honest_framing_is_allowed_and_endless_framing_is_not() {
        let wire_bytes = 4 << 20;
        for (piece, framing_bytes) in [
            // TLS records with one HTTP/2 frame each, large and small.
            (16 << 10, 22 + 9),
            (1_400, 22 + 9),
            // A chunk for each line of a page.
            (60, 6),
        ] {
            let (body, _) = exchange(piece, framing_bytes, wire_bytes);
            assert!(body >= wire_bytes, "{piece}: {body}");
        }
        for (piece, framing_bytes) in [(1, 5), (1, 22), (0, 9), (8, 100), (64 << 10, 64 << 10)] {
            let (body, other) = exchange(piece, framing_bytes, wire_bytes);
            assert!(body < wire_bytes, "{piece}: {body}");
            // The piece that exceeds the limit is read and discarded.
            let most = 960 * KIB + (piece + framing_bytes) as u64;
            assert!(other <= most, "{piece} and {framing_bytes}: {other}");
        }
    }

    #[test]
    fn a_body_that_is_all_framing_after_a_long_one_ends_within_a_mebibyte() {
        let meter = Meter::new(HEADER_BYTES);
        meter.begin();
        let mut framing = Framing::default();
        for _ in 0..1024 {
            assert!(meter.receive(64 << 10));
            meter.hand_on(64 << 10, &mut framing);
        }
        assert_eq!(until_exceeded(&meter, 1), (384 + 576) * KIB);
    }
}
