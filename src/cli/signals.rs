//! How the user and the system ask a command to stop.

use std::io;

/// Ctrl-C, and the wish of whoever started the process that it ends.
pub(super) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    /// Listens from now on.
    pub(super) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    #[cfg(unix)]
    /// The next of them.
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
