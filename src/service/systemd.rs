//! Notifications to systemd (`sd_notify`); without systemd they do nothing.
//!
//! Invariant: sending never blocks. Status, readiness and watchdog pings that the socket does not
//! take are sent again at the next tick.

use std::env;
use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use sd_notify::NotifyState;

/// The notification socket, if the process runs under systemd.
pub(super) struct Systemd {
    socket: Option<UnixDatagram>,
    /// The watchdog timeout, if the unit sets one.
    watchdog: Option<Duration>,
    /// Whether `READY=1` was sent.
    is_ready: bool,
}

// === impl Systemd ===

impl Systemd {
    /// Connects to the socket that the environment names.
    pub(super) fn find() -> Self {
        let socket = connect().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot connect to the systemd notification socket");
            None
        });
        Self {
            socket,
            watchdog: sd_notify::watchdog_enabled(),
            is_ready: false,
        }
    }

    pub(super) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Sends the status line, `READY=1` once, and the watchdog ping unless a loop is stuck.
    pub(super) fn report(&mut self, status: &str, is_ready: bool, is_alive: bool) {
        let mut messages = vec![NotifyState::Status(status)];
        let becomes_ready = is_ready && !self.is_ready;
        if becomes_ready {
            messages.push(NotifyState::Ready);
        }
        if is_alive && self.watchdog.is_some() {
            messages.push(NotifyState::Watchdog);
        }
        let is_sent = self.notify(&messages);
        self.is_ready |= becomes_ready && is_sent;
    }

    pub(super) fn reloading(&self) {
        let now = NotifyState::monotonic_usec_now();
        let states = [Some(NotifyState::Reloading), now.ok()];
        self.notify(&states.into_iter().flatten().collect::<Vec<_>>());
    }

    pub(super) fn reloaded(&self) {
        if self.is_ready {
            self.notify(&[NotifyState::Ready]);
        }
    }

    pub(super) fn stopping(&self) {
        self.notify(&[NotifyState::Stopping]);
    }

    /// Returns whether the states were sent.
    fn notify(&self, states: &[NotifyState<'_>]) -> bool {
        let Some(socket) = &self.socket else {
            return true;
        };
        let lines: Vec<String> = states.iter().map(ToString::to_string).collect();
        socket.send(lines.join("\n").as_bytes()).is_ok()
    }
}

/// Connects to `NOTIFY_SOCKET`. A name that begins with `@` is in the abstract namespace.
fn connect() -> io::Result<Option<UnixDatagram>> {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else {
        return Ok(None);
    };
    let address = match name.as_bytes().strip_prefix(b"@") {
        #[cfg(target_os = "linux")]
        Some(name) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(Some(socket))
}
