//! What a server does with a request: a well-formed reply, or arbitrary bytes.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

/// An ordinary reply.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// `Content-Length` is added, unless it is among these.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    /// Delay before the first byte.
    pub(crate) delay: Duration,
}

pub(super) enum Answer {
    Reply(Reply),
    Wire(Wire),
}

/// Raw bytes for an HTTP/1.1 connection, valid or not.
pub(super) struct Wire {
    pub(super) head: Bytes,
    pub(super) body: Bytes,
    pub(super) then: Then,
}

/// What follows the bytes.
pub(super) enum Then {
    NextRequest,
    Close,
    /// RST, after some time in which the bytes before it can arrive.
    ResetAfter(Duration),
    /// Nothing, until the client leaves.
    Silence,
    /// One piece repeatedly, as fast as it is read, and then a close.
    Repeat {
        piece: Bytes,
        times: u64,
    },
    /// One byte at a time, over and over.
    Drip(&'static [u8]),
    /// The same as fast as it is read: with TLS each byte is a record.
    Records(u8),
}

/// Interval between two dripped bytes.
pub(super) const DRIP: Duration = Duration::from_millis(200);

/// Enough repetitions to count as endless.
pub(super) const FOR_EVER: u64 = u64::MAX;

// === impl Reply ===

impl Reply {
    /// A page in UTF-8.
    pub(crate) fn html(body: impl Into<Bytes>) -> Self {
        Self::bare(200, body).header("Content-Type", "text/html; charset=utf-8")
    }

    pub(crate) fn text(body: impl Into<Bytes>) -> Self {
        Self::bare(200, body).header("Content-Type", "text/plain; charset=utf-8")
    }

    /// A status with a page that only names it.
    pub(crate) fn status(status: u16) -> Self {
        Self {
            status,
            ..Self::html(format!("<title>{status}</title><p>Status {status}.</p>"))
        }
    }

    pub(crate) fn redirect(to: &str) -> Self {
        Self::status(302).header("Location", to)
    }

    /// A reply without headers.
    pub(crate) fn bare(status: u16, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
            delay: Duration::ZERO,
        }
    }

    #[must_use]
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    pub(super) fn says(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Interim answers, 204 and 304 end with their head.
    pub(super) fn has_body(&self) -> bool {
        self.status >= 200 && self.status != 204 && self.status != 304
    }

    /// Status line and headers for HTTP/1.1.
    pub(super) fn head(&self) -> Bytes {
        let reason = StatusCode::from_u16(self.status)
            .ok()
            .and_then(|status| status.canonical_reason());
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason.unwrap_or("Other"));
        for (name, value) in &self.headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        if self.has_body() && self.says("Content-Length").is_none() {
            let length = self.body.len().to_string();
            head.extend(["Content-Length: ", &length, "\r\n"]);
        }
        head.push_str("\r\n");
        head.into()
    }
}

// === impl Answer, Wire ===

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

impl From<Wire> for Answer {
    fn from(wire: Wire) -> Self {
        Self::Wire(wire)
    }
}

impl Wire {
    /// No byte at all.
    pub(super) fn nothing(then: Then) -> Self {
        Self::new("", "", then)
    }

    pub(super) fn new(head: impl Into<Bytes>, body: impl Into<Bytes>, then: Then) -> Self {
        Self {
            head: head.into(),
            body: body.into(),
            then,
        }
    }

    /// A page with the given header lines beside its type.
    pub(super) fn html(headers: &str, body: impl Into<Bytes>, then: Then) -> Self {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n{headers}\r\n");
        Self::new(head, body, then)
    }

    /// The headers of the last head in it, for HTTP/2.
    pub(super) fn headers(&self) -> Vec<(String, String)> {
        let head = String::from_utf8_lossy(&self.head);
        let last = head.trim_end().rsplit("\r\n\r\n").next();
        let lines = last.unwrap_or_default().lines().skip(1);
        lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}
