//! Timeouts of one exchange: for inactivity, and in total.
//!
//! Resetting a timer at each step would cost more than most steps do. So one timer runs, and only
//! when it fires is it checked whether there was activity in the meantime.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

/// The timeouts of one exchange, from the moment the request is sent.
#[derive(Debug)]
pub(super) struct ExchangeTimeout {
    started: Instant,
    silence: Duration,
    end: Instant,
    /// In microseconds since `started`. Atomic only because futures move between threads.
    last_activity: AtomicU64,
}

/// Why the exchange timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// No activity for too long.
    Silent,
    /// The whole exchange took too long.
    Endless,
}

// === impl ExchangeTimeout ===

impl ExchangeTimeout {
    /// Starts the clock: at most `silence` without activity, and `whole` in total.
    pub(super) fn begin(silence: Duration, whole: Duration) -> Self {
        let started = Instant::now();
        Self {
            started,
            silence,
            end: started + whole,
            last_activity: AtomicU64::new(0),
        }
    }

    /// Notes activity, and returns the time since the start.
    pub(super) fn note_activity(&self) -> Duration {
        let elapsed = self.started.elapsed();
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        self.last_activity.store(micros, Ordering::Relaxed);
        elapsed
    }

    /// Waits for the exchange until it ends or times out.
    pub(super) async fn wait<T>(
        &self,
        mut exchange: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, Lost> {
        loop {
            let due = self.due();
            match timeout_at(due, exchange.as_mut()).await {
                Ok(result) => return Ok(result),
                Err(_) if due >= self.end => return Err(Lost::Endless),
                Err(_) if due >= self.due() => return Err(Lost::Silent),
                Err(_) => {}
            }
        }
    }

    fn due(&self) -> Instant {
        let last_activity = Duration::from_micros(self.last_activity.load(Ordering::Relaxed));
        self.end.min(self.started + last_activity + self.silence)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The outcome of an exchange with this activity, and its time in seconds.
    async fn exchange(steps: u32, pause: Duration) -> (Result<(), Lost>, u64) {
        let start = Instant::now();
        let timer = ExchangeTimeout::begin(20 * SECOND, 60 * SECOND);
        let exchange = pin!(async {
            for _ in 0..steps {
                sleep(pause).await;
                timer.note_activity();
            }
        });
        (timer.wait(exchange).await, start.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_prolong_it_but_not_for_ever() {
        assert_eq!(exchange(0, SECOND).await, (Ok(()), 0));
        assert_eq!(exchange(5, 11 * SECOND).await, (Ok(()), 55));
        assert_eq!(exchange(1, 21 * SECOND).await, (Err(Lost::Silent), 20));
        assert_eq!(exchange(9, 11 * SECOND).await, (Err(Lost::Endless), 60));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_the_last_sign() {
        let start = Instant::now();
        let timer = ExchangeTimeout::begin(20 * SECOND, 60 * SECOND);
        let exchange = pin!(async {
            sleep(15 * SECOND).await;
            timer.note_activity();
            std::future::pending::<()>().await;
        });
        assert_eq!(timer.wait(exchange).await, Err(Lost::Silent));
        assert_eq!(start.elapsed().as_secs(), 35);
    }
}
