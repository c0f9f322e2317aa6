//! Signals that stop a command or reload its settings.

use std::io;

/// SIGINT, SIGTERM and, on request, SIGHUP; Ctrl-C alone where there are no Unix signals.
pub(super) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// SIGINT or SIGTERM.
    Stop,
    /// SIGHUP: read the settings again.
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
    /// Handles SIGHUP too, which otherwise ends the process.
    pub(super) fn with_reload(self) -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            hangup: Some(signal(SignalKind::hangup())?),
            ..self
        })
    }

    #[cfg(unix)]
    /// Waits for the next signal of any kind.
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
    /// Waits for the next SIGINT or SIGTERM.
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
    /// Waits for the next Ctrl-C.
    pub(super) async fn next(&mut self) {
        // Without a handler, only its goals end the crawl.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
