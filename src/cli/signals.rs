//! How the user and the system ask a command to stop.

use std::io;

/// Ctrl-C, and the wishes of whoever started the process.
pub(super) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

/// What is wished.
#[cfg(unix)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// That the process ends.
    Stop,
    /// That it reads its settings again.
    Reload,
}

impl Signals {
    #[cfg(unix)]
    /// Listens from now on.
    pub(super) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: None,
        })
    }

    #[cfg(unix)]
    /// Listens for the wish to read settings again, too. Without this it would end the process.
    pub(super) fn with_reload(self) -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            hangup: Some(signal(SignalKind::hangup())?),
            ..self
        })
    }

    #[cfg(unix)]
    /// The next wish, of whichever kind.
    pub(super) async fn next_of_all(&mut self) -> Signal {
        let Some(hangup) = &mut self.hangup else {
            self.next().await;
            return Signal::Stop;
        };
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.terminate.recv() => Signal::Stop,
            _ = hangup.recv() => Signal::Reload,
        }
    }

    #[cfg(unix)]
    /// The next wish that the process ends.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    /// Listens from now on.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    /// The next of them.
    pub(super) async fn next(&mut self) {
        // Without a way to be told, the crawl is ended by its goals alone.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
