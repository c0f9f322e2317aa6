//! The time of day as this process believes it.
//!
//! Certificates, deferrals, rechecks and the age of evidence all depend on the system's clock, and
//! that clock is sometimes wrong by decades: a dead battery, a virtual machine, a typing mistake.
//! A jump that cannot be true is therefore not followed: from then on time goes on from where it
//! was, by the clock that only runs forward. Smaller steps (corrections, a machine that was
//! suspended) are followed as they come.
//!
//! Invariant: [`now`] follows the system's clock unless that has gone back by more than
//! [`FURTHEST_BACK`] or ahead by more than [`FURTHEST_AHEAD`] since the clock was last trusted.

#![allow(
    clippy::disallowed_types,
    reason = "the clock of the machine is compared with the time of the runtime, which tests pause"
)]

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// A clock that goes back further than this is wrong, or was.
pub const FURTHEST_BACK: Duration = Duration::from_hours(24);

/// A clock that jumps further ahead than this is wrong. Machines are switched off for years, rarely
/// for five.
pub const FURTHEST_AHEAD: Duration = Duration::from_hours(24 * 365 * 5);

/// When the clock was last trusted, and what it showed.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    told: SystemTime,
    at: std::time::Instant,
    /// Whether the clock was followed when it was last read.
    is_followed: bool,
}

static TRUSTED: Mutex<Option<Anchor>> = Mutex::new(None);

/// The time of day. The log says when the system's clock is no longer followed, and when it is
/// again.
#[must_use]
pub fn now() -> SystemTime {
    let told = SystemTime::now();
    let mut trusted = TRUSTED.lock().unwrap_or_else(PoisonError::into_inner);
    let anchor = trusted.get_or_insert_with(|| Anchor::new(told));
    let expected = anchor.told + anchor.at.elapsed();
    let is_followed = is_believable(told, expected);
    let was_followed = std::mem::replace(&mut anchor.is_followed, is_followed);
    drop(trusted);
    match (was_followed, is_followed) {
        (true, false) => tracing::error!(
            "the clock of this machine jumped by more than can be true; it is not followed until it \
             is set right or the process starts anew"
        ),
        (false, true) => tracing::info!("the clock of this machine is followed again"),
        _ => {}
    }
    let believed = if is_followed { told } else { expected };
    believed + paused_ahead()
}

/// Trusts the system's clock anew, whatever it shows: there is reason to think that the time
/// believed so far was the wrong one.
pub fn trust_system() {
    let mut trusted = TRUSTED.lock().unwrap_or_else(PoisonError::into_inner);
    *trusted = Some(Anchor::new(SystemTime::now()));
}

/// Whether a clock may show this time where that one was expected.
#[must_use]
pub fn is_believable(told: SystemTime, expected: SystemTime) -> bool {
    told <= expected + FURTHEST_AHEAD && expected <= told + FURTHEST_BACK
}

// === impl Anchor ===

impl Anchor {
    fn new(told: SystemTime) -> Self {
        Self {
            told,
            at: std::time::Instant::now(),
            is_followed: true,
        }
    }
}

/// How far a test that pauses the time of its runtime has advanced it; else nothing.
fn paused_ahead() -> Duration {
    let real = std::time::Instant::now();
    let ahead = tokio::time::Instant::now().into_std();
    let ahead = ahead.saturating_duration_since(real);
    // Both were read one after the other.
    if ahead < Duration::from_millis(1) {
        return Duration::ZERO;
    }
    ahead
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn steps_are_followed_and_impossible_jumps_are_not() {
        let noon = SystemTime::UNIX_EPOCH + 20_000 * DAY;
        assert!(is_believable(noon, noon));
        assert!(is_believable(noon - DAY, noon));
        assert!(!is_believable(noon - DAY - Duration::from_secs(1), noon));
        assert!(is_believable(noon + 5 * 365 * DAY, noon), "a cellar");
        assert!(!is_believable(noon + 20 * 365 * DAY, noon));
        assert!(!is_believable(SystemTime::UNIX_EPOCH, noon), "no battery");
    }

    #[tokio::test(start_paused = true)]
    async fn time_that_is_advanced_by_a_test_passes_here_too() {
        let before = now();
        tokio::time::advance(30 * DAY).await;
        let passed = now().duration_since(before).unwrap();
        assert!(passed > 29 * DAY && passed < 31 * DAY, "{passed:?}");
    }
}
