//! The wall clock, guarded against implausible jumps.
//!
//! Certificates, deferrals, rechecks and the age of evidence all depend on the system clock, which
//! is sometimes wrong by decades: a dead battery, a virtual machine, a typing mistake. An implausible
//! jump is therefore not followed: time continues from the last trusted value by the monotonic clock.
//! Smaller steps (corrections, a machine that was suspended) are followed.
//!
//! Tests set the time in two ways, neither of which affects other tests of the process: a
//! [`TestClock`] replaces the system clock, and the amount by which a test has advanced the paused
//! time of its tokio runtime is added. Both apply to the thread of the test (and so to all tasks of a
//! `#[tokio::test]` with one thread) and to threads whose work was wrapped by [`inherited`], such as
//! the commit thread and the readers of the store.
//!
//! Invariants: nothing else reads the system clock (`clippy.toml` forbids it). [`now`] follows it
//! unless it has gone back by more than [`FURTHEST_BACK`] or ahead by more than [`FURTHEST_AHEAD`]
//! since it was last trusted.

#![allow(
    clippy::disallowed_types,
    reason = "the system clock is compared with the time of the runtime, which tests pause"
)]

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;

/// A clock that goes back further than this is wrong, or was wrong before.
pub(crate) const FURTHEST_BACK: Duration = Duration::from_hours(24);

/// A clock that jumps further ahead than this is wrong. Machines are switched off for years, rarely
/// for five.
pub(crate) const FURTHEST_AHEAD: Duration = Duration::from_hours(24 * 365 * 5);

/// A clock and the last time it was trusted.
#[derive(Debug)]
struct Clock {
    source: Source,
    trusted: Mutex<Option<Anchor>>,
}

#[derive(Debug)]
enum Source {
    System,
    /// The time that a test has set, and when.
    Test(Mutex<(SystemTime, std::time::Instant)>),
}

/// When the clock was last trusted, and its reading then.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    reading: SystemTime,
    at: std::time::Instant,
    /// Whether the clock was followed when it was last read.
    is_followed: bool,
}

static SYSTEM: Clock = Clock::new(Source::System);

thread_local! {
    /// The clock that a test has set for this thread.
    static OF_TEST: RefCell<Option<Arc<Clock>>> = const { RefCell::new(None) };
}

/// The time of day. It is logged when the system clock is no longer followed, and when it is again.
#[must_use]
pub fn now() -> SystemTime {
    loop {
        let begun = std::time::Instant::now();
        let time = of_test().map_or_else(|| SYSTEM.now(), |clock| clock.now());
        let ahead = paused_ahead();
        // In paused time, a gap between the two readings would be missing from their sum.
        if ahead.is_zero() || begun.elapsed() < Duration::from_millis(1) {
            return time + ahead;
        }
    }
}

/// Trusts the system clock again, whatever it shows, because the time followed so far is likely to
/// have been the wrong one.
pub(crate) fn trust_system() {
    of_test().map_or_else(|| SYSTEM.trust(), |clock| clock.trust());
}

/// Whether a reading of a clock is plausible, given the expected time.
#[must_use]
pub(crate) fn is_believable(reading: SystemTime, expected: SystemTime) -> bool {
    reading <= expected + FURTHEST_AHEAD && expected <= reading + FURTHEST_BACK
}

/// Wraps work for another thread so that it sees the time of this thread: its [`TestClock`] and the
/// paused time of its runtime. Outside of tests nothing changes.
pub(crate) fn inherited<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let (clock, runtime) = (of_test(), Handle::try_current().ok());
    move || {
        let _runtime = runtime.as_ref().map(Handle::enter);
        let _clock = clock.map(TestClock::enter);
        work()
    }
}

fn of_test() -> Option<Arc<Clock>> {
    // Fails while the thread is being destroyed.
    let clock = OF_TEST.try_with(|clock| clock.borrow().clone());
    clock.unwrap_or_default()
}

/// How far a test has advanced the paused time of its runtime; zero outside of tests.
fn paused_ahead() -> Duration {
    let real = std::time::Instant::now();
    let paused = tokio::time::Instant::now().into_std();
    let ahead = paused.saturating_duration_since(real);
    // Time passes between the two reads.
    if ahead < Duration::from_millis(1) {
        return Duration::ZERO;
    }
    ahead
}

/// For tests: replaces the system clock until it is dropped, on the thread that made it and on
/// threads that inherit it. It runs on from the time it was set to.
#[derive(Debug)]
#[must_use = "the system clock is used again as soon as this is dropped"]
pub struct TestClock {
    clock: Arc<Clock>,
    before: Option<Arc<Clock>>,
    /// Must be dropped on the thread that made it.
    not_send: PhantomData<*const ()>,
}

// === impl TestClock ===

impl TestClock {
    /// A trusted clock that starts at this time.
    pub fn starting_at(time: SystemTime) -> Self {
        let shown = Mutex::new((time, std::time::Instant::now()));
        let clock = Clock::new(Source::Test(shown));
        clock.trust();
        Self::enter(Arc::new(clock))
    }

    /// Sets the clock, as an operator or a time server would: [`now`] follows only if that
    /// [is believable](is_believable).
    pub fn set(&self, time: SystemTime) {
        if let Source::Test(shown) = &self.clock.source {
            *locked(shown) = (time, std::time::Instant::now());
        }
    }

    fn enter(clock: Arc<Clock>) -> Self {
        let before = OF_TEST.replace(Some(Arc::clone(&clock)));
        Self {
            clock,
            before,
            not_send: PhantomData,
        }
    }
}

impl Drop for TestClock {
    fn drop(&mut self) {
        OF_TEST.set(self.before.take());
    }
}

// === impl Clock ===

impl Clock {
    const fn new(source: Source) -> Self {
        Self {
            source,
            trusted: Mutex::new(None),
        }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the only place that reads the system clock"
    )]
    fn reading(&self) -> SystemTime {
        match &self.source {
            Source::System => SystemTime::now(),
            Source::Test(shown) => {
                let (time, at) = *locked(shown);
                time + at.elapsed()
            }
        }
    }

    fn now(&self) -> SystemTime {
        let reading = self.reading();
        let mut trusted = locked(&self.trusted);
        let anchor = trusted.get_or_insert_with(|| Anchor::new(reading));
        let expected = anchor.reading + anchor.at.elapsed();
        let is_followed = is_believable(reading, expected);
        let was_followed = std::mem::replace(&mut anchor.is_followed, is_followed);
        drop(trusted);
        match (was_followed, is_followed) {
            (true, false) => tracing::error!(
                "the system clock jumped implausibly far; it is ignored until it is corrected or \
                 the process restarts"
            ),
            (false, true) => tracing::info!("the system clock is plausible again and followed"),
            _ => {}
        }
        if is_followed { reading } else { expected }
    }

    fn trust(&self) {
        let anchor = Anchor::new(self.reading());
        *locked(&self.trusted) = Some(anchor);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Anchor ===

impl Anchor {
    fn new(reading: SystemTime) -> Self {
        Self {
            reading,
            at: std::time::Instant::now(),
            is_followed: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn noon() -> SystemTime {
        SystemTime::UNIX_EPOCH + 30_000 * DAY
    }

    /// Within half a day: slow tests take seconds more, never hours.
    fn assert_about(time: SystemTime, wanted: SystemTime) {
        let is_about = time > wanted - DAY / 2 && time < wanted + DAY / 2;
        assert!(is_about, "{time:?}, wanted {wanted:?}");
    }

    #[test]
    fn steps_are_followed_and_impossible_jumps_are_not() {
        let noon = noon();
        assert!(is_believable(noon, noon));
        assert!(is_believable(noon - DAY, noon));
        assert!(!is_believable(noon - DAY - Duration::from_secs(1), noon));
        assert!(is_believable(noon + 5 * 365 * DAY, noon), "switched off");
        assert!(!is_believable(noon + 20 * 365 * DAY, noon));
        assert!(!is_believable(SystemTime::UNIX_EPOCH, noon), "no battery");
    }

    #[test]
    fn a_clock_that_jumps_is_followed_again_when_it_is_set_right_or_trusted() {
        let clock = TestClock::starting_at(noon());
        clock.set(noon() + 30 * DAY);
        assert_about(now(), noon() + 30 * DAY);
        clock.set(noon() - 2 * DAY);
        assert_about(now(), noon());
        clock.set(noon() + DAY);
        assert_about(now(), noon() + DAY);
        clock.set(SystemTime::UNIX_EPOCH);
        assert_about(now(), noon());
        trust_system();
        assert_about(now(), SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn a_clock_that_a_test_sets_is_seen_by_threads_that_inherit_it_and_by_no_others() {
        let real = now();
        let clock = TestClock::starting_at(noon());
        let inheriting = thread::spawn(inherited(now));
        assert_about(inheriting.join().unwrap(), noon());
        assert_about(thread::spawn(now).join().unwrap(), real);
        {
            let _inner = TestClock::starting_at(noon() + 9 * DAY);
            assert_about(now(), noon() + 9 * DAY);
        }
        assert_about(now(), noon());
        drop(clock);
        assert_about(now(), real);
    }

    #[tokio::test(start_paused = true)]
    async fn time_that_is_advanced_by_a_test_passes_here_too() {
        let before = now();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let inheriting = thread::spawn(inherited(move || receiver.recv().map(|()| now())));
        tokio::time::advance(30 * DAY).await;
        assert_about(now(), before + 30 * DAY);
        sender.send(()).unwrap();
        assert_about(inheriting.join().unwrap().unwrap(), before + 30 * DAY);
    }
}
