//! Heartbeats of long-running loops, read by the watchdog.
//!
//! A loop beats in every iteration, also while it waits on purpose. One that has not beaten for too
//! long is stuck, and is reported by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The heartbeats of all loops of a process; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heartbeats {
    loops: Arc<Mutex<BTreeMap<String, Instant>>>,
}

/// The heartbeat of one loop. Dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    name: String,
    all: Heartbeats,
}

// === impl Heartbeats ===

impl Heartbeats {
    /// Watches a loop from now on.
    #[must_use]
    pub(crate) fn of_loop(&self, name: &str) -> Heartbeat {
        let heartbeat = Heartbeat {
            name: name.to_owned(),
            all: self.clone(),
        };
        heartbeat.beat();
        heartbeat
    }

    /// The names of the loops whose last beat is longer ago than the limit.
    #[must_use]
    pub(crate) fn stuck(&self, limit: Duration) -> Vec<String> {
        let now = Instant::now();
        let loops = self.lock();
        let stuck = loops.iter().filter(|(_, last)| now - **last > limit);
        stuck.map(|(name, _)| name.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.loops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Heartbeat ===

impl Heartbeat {
    /// Records an iteration of the loop.
    pub(crate) fn beat(&self) {
        self.all.lock().insert(self.name.clone(), Instant::now());
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.all.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_does_not_come_round_is_named() {
        let all = Heartbeats::default();
        let (one, other) = (all.of_loop("one"), all.of_loop("other"));
        let limit = Duration::from_secs(10);
        tokio::time::advance(Duration::from_secs(8)).await;
        one.beat();
        assert!(all.stuck(limit).is_empty());
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(all.stuck(limit), ["other"]);
        drop(other);
        assert!(all.stuck(limit).is_empty(), "it has ended");
    }
}
