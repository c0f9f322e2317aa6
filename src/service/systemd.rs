//! What systemd is told. Where there is none, nobody is told, and nothing else changes.
//!
//! Invariant: telling never waits. Who does not read is told again later.

use std::env;
use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use sd_notify::NotifyState;

/// The way to systemd.
pub(super) struct Systemd {
    socket: Option<UnixDatagram>,
    /// How long systemd waits for a sign of life, if it does.
    watchdog: Option<Duration>,
    /// Whether it was told that the service is ready.
    is_ready: bool,
}

// === impl Systemd ===

impl Systemd {
    /// Finds out from the environment whether anybody listens.
    pub(super) fn find() -> Self {
        let socket = connect().unwrap_or_else(|error| {
            tracing::warn!(%error, "systemd cannot be told how the service is");
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

    /// Tells how the service is, once whether it is ready, and that it lives if it does.
    pub(super) fn tell(&mut self, status: &str, is_ready: bool, is_alive: bool) {
        let mut told = vec![NotifyState::Status(status)];
        let becomes_ready = is_ready && !self.is_ready;
        if becomes_ready {
            told.push(NotifyState::Ready);
        }
        if is_alive && self.watchdog.is_some() {
            told.push(NotifyState::Watchdog);
        }
        let is_told = self.notify(&told);
        self.is_ready |= becomes_ready && is_told;
    }

    /// The settings are being read again.
    pub(super) fn reloading(&self) {
        let now = NotifyState::monotonic_usec_now();
        let states = [Some(NotifyState::Reloading), now.ok()];
        self.notify(&states.into_iter().flatten().collect::<Vec<_>>());
    }

    /// They are read.
    pub(super) fn reloaded(&self) {
        if self.is_ready {
            self.notify(&[NotifyState::Ready]);
        }
    }

    pub(super) fn stopping(&self) {
        self.notify(&[NotifyState::Stopping]);
    }

    /// Says whether it was told.
    fn notify(&self, states: &[NotifyState<'_>]) -> bool {
        let Some(socket) = &self.socket else {
            return true;
        };
        let lines: Vec<String> = states.iter().map(ToString::to_string).collect();
        socket.send(lines.join("\n").as_bytes()).is_ok()
    }
}

/// The socket that the environment names. A name that begins with `@` stands in no directory.
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
