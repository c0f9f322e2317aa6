//! Endless HTTP/2 frames, sent as fast as they are read, that never make a complete response.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::http1::PIECE;
use super::http2::{
    CONTINUATION, DATA, END_HEADERS, HEADERS, HTML, PING, PRIORITY, SETTINGS, Stream, UNKNOWN,
    WINDOW_UPDATE, frame,
};
use super::journal::InFlight;

host_names! {
    /// What follows without end. The second label of the host says when it begins: see
    /// [`Moment`]. The log has requests without their targets.
    FrameFlood {
        /// PRIORITY of the stream.
        Priority = "h2-priority",
        /// `WINDOW_UPDATE` of the connection, one byte each.
        WindowUpdate = "h2-window-update",
        /// PING, and the acknowledgements are read.
        Ping = "h2-ping",
        /// PING, and nothing is read.
        UnreadPing = "h2-ping-unread",
        /// Empty SETTINGS, and the acknowledgements are read.
        Settings = "h2-settings",
        /// The same, and nothing is read.
        UnreadSettings = "h2-settings-unread",
        /// Frames of an unknown type.
        Unknown = "h2-unknown",
        /// A page in empty DATA frames.
        EmptyData = "h2-empty-data",
        /// A page in DATA frames of one byte each.
        TinyData = "h2-tiny-data",
        /// Interim responses, of one byte each after the first.
        Interim = "h2-interim",
        /// Empty CONTINUATION frames.
        EmptyContinuation = "h2-empty-continuation",
    }
}

/// When a flood begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Instead of the response to the request for robots.txt.
    Robots,
    /// Instead of a page, after there was no robots.txt.
    Page,
    /// After a page, when no request is open.
    Idle,
}

impl Moment {
    pub(crate) const ALL: [Self; 3] = [Self::Robots, Self::Page, Self::Idle];

    /// The second label of hosts with this moment; others flood at the page.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Robots => "robots",
            Self::Page => "page",
            Self::Idle => "idle",
        }
    }

    pub(super) fn of_host(host: &str) -> Self {
        let label = host.split('.').nth(1).unwrap_or_default();
        let found = Self::ALL.into_iter().find(|one| one.name() == label);
        found.unwrap_or(Self::Page)
    }
}

impl FrameFlood {
    /// What comes once, before the flood.
    fn beginning(self, id: u32) -> Vec<u8> {
        match self {
            Self::EmptyData | Self::TinyData => frame(HEADERS, END_HEADERS, id, HTML),
            // `:status: 100`, which is number 62 from then on.
            Self::Interim => frame(HEADERS, END_HEADERS, id, b"\x48\x03100"),
            Self::EmptyContinuation => frame(HEADERS, 0, id, HTML),
            _ => Vec::new(),
        }
    }

    fn frame(self, id: u32) -> Vec<u8> {
        match self {
            Self::Priority => frame(PRIORITY, 0, id, &[0, 0, 0, 0, 16]),
            Self::WindowUpdate => frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
            Self::Ping | Self::UnreadPing => frame(PING, 0, 0, b"are you?"),
            Self::Settings | Self::UnreadSettings => frame(SETTINGS, 0, 0, &[]),
            Self::Unknown => frame(UNKNOWN, 0, 0, &[]),
            Self::EmptyData => frame(DATA, 0, id, &[]),
            Self::TinyData => frame(DATA, 0, id, b"x"),
            Self::Interim => frame(HEADERS, END_HEADERS, id, &[0xbe]),
            Self::EmptyContinuation => frame(CONTINUATION, 0, id, &[]),
        }
    }

    fn reads_answers(self) -> bool {
        !matches!(self, Self::UnreadPing | Self::UnreadSettings)
    }

    /// Writes until the client closes the connection.
    pub(super) async fn write(
        self,
        stream: Stream,
        id: u32,
        in_flight: &InFlight,
    ) -> io::Result<()> {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let frame = self.frame(id);
        let piece = frame.repeat(PIECE / frame.len());
        let writing = async {
            writer.write_all(&self.beginning(id)).await?;
            loop {
                writer.write_all(&piece).await?;
                writer.flush().await?;
                in_flight.sent(piece.len());
            }
        };
        let reading = async {
            let mut ignored = [0; 4096];
            while self.reads_answers() {
                if reader.read(&mut ignored).await? == 0 {
                    break;
                }
            }
            // The writing side notices by itself that the client left.
            std::future::pending::<io::Result<()>>().await
        };
        tokio::select! {
            written = writing => written,
            read = reading => read,
        }
    }
}
