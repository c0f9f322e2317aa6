//! How long an answer is waited for: between two signs of life, and in all.
//!
//! A timer for each step would cost more than most steps do. So there is one for the whole
//! exchange, and only when it fires is it asked whether there was a sign of life meanwhile.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

/// The patience with one exchange, from the moment of asking.
#[derive(Debug)]
pub(super) struct ExchangeTimeout {
    asked: Instant,
    silence: Duration,
    end: Instant,
    /// In microseconds since asking. Atomic only because futures move between threads.
    last_sign: AtomicU64,
}

/// Why it was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// There was no sign of life for too long.
    Silent,
    /// It took too long in all.
    Endless,
}

// === impl ExchangeTimeout ===

impl ExchangeTimeout {
    /// Begins to wait: for `silence` without a sign of life, and for `whole` at most.
    pub(super) fn begin(silence: Duration, whole: Duration) -> Self {
        let asked = Instant::now();
        Self {
            asked,
            silence,
            end: asked + whole,
            last_sign: AtomicU64::new(0),
        }
    }

    /// Notes a sign of life, and says how long after asking it came.
    pub(super) fn sign(&self) -> Duration {
        let elapsed = self.asked.elapsed();
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        self.last_sign.store(micros, Ordering::Relaxed);
        elapsed
    }

    /// Waits for the exchange as long as there is patience.
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
        let last_sign = Duration::from_micros(self.last_sign.load(Ordering::Relaxed));
        self.end.min(self.asked + last_sign + self.silence)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// What became of so many signs with so long between them, and after how many seconds.
    async fn exchange(signs: u32, pause: Duration) -> (Result<(), Lost>, u64) {
        let start = Instant::now();
        let patience = ExchangeTimeout::begin(20 * SECOND, 60 * SECOND);
        let exchange = pin!(async {
            for _ in 0..signs {
                sleep(pause).await;
                patience.sign();
            }
        });
        (patience.wait(exchange).await, start.elapsed().as_secs())
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
        let patience = ExchangeTimeout::begin(20 * SECOND, 60 * SECOND);
        let exchange = pin!(async {
            sleep(15 * SECOND).await;
            patience.sign();
            std::future::pending::<()>().await;
        });
        assert_eq!(patience.wait(exchange).await, Err(Lost::Silent));
        assert_eq!(start.elapsed().as_secs(), 35);
    }
}
