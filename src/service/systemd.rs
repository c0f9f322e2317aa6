//! What systemd is told. Where there is none, nobody is told, and nothing else changes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sd_notify::NotifyState;

use crate::telemetry::Heartbeats;

use super::board::Board;

/// Whether systemd knows that the service is ready.
static IS_READY: AtomicBool = AtomicBool::new(false);

/// How long systemd waits for a sign of life, if it does.
pub(super) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

/// Tells how the service is, and that it lives, if every loop does.
pub(super) fn tell(board: &Board, heartbeats: &Heartbeats, watchdog: Option<Duration>) {
    if board.unready().is_none() && !IS_READY.swap(true, Ordering::Relaxed) {
        ready();
    }
    notify(&[NotifyState::Status(&board.status())]);
    let Some(limit) = watchdog else { return };
    let stuck = heartbeats.stuck(limit);
    if stuck.is_empty() {
        notify(&[NotifyState::Watchdog]);
    } else {
        tracing::error!(loops = stuck.join(", "), "stuck; the watchdog is not fed");
    }
}

pub(super) fn ready() {
    notify(&[NotifyState::Ready]);
}

pub(super) fn reloading() {
    let now = NotifyState::monotonic_usec_now();
    match now {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

pub(super) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "systemd cannot be told");
    }
}
