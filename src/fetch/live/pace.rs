//! Rate limit per address: many sites may share one server. An IPv6 /64 network counts as one
//! address ([`shared_address`]).
//!
//! Sites behind one address take turns at a short interval. A request that would have to wait
//! longer than `longest_wait` is deferred, so that a crowded address does not take all permits.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use tokio::time::{Instant, sleep};

use crate::config::PolitenessSettings;
use crate::fetch::error::FetchError;
use crate::web::{DeferralCause, SiteId, shared_address};

use super::turns::deferred;

/// Number of requests between two clean-ups: governor keeps unused addresses until told to drop
/// them.
const FORGET_EVERY: usize = 4_096;

type Limiter =
    RateLimiter<IpAddr, DashMapStateStore<IpAddr>, RuntimeClock, NoOpMiddleware<Duration>>;

/// The rate limiter of all addresses.
#[derive(Debug)]
pub(super) struct AddressPace {
    /// None if the interval is zero.
    limiter: Option<Limiter>,
    interval: Duration,
    longest_wait: Duration,
    requests: AtomicUsize,
}

/// Tokio's clock, which tests can pause.
#[derive(Debug, Clone)]
struct RuntimeClock {
    start: Instant,
}

// === impl AddressPace ===

impl AddressPace {
    pub(super) fn new(settings: &PolitenessSettings) -> Self {
        let quota = Quota::with_period(settings.address_interval)
            .map(|quota| quota.allow_burst(NonZeroU32::MIN));
        let clock = RuntimeClock {
            start: Instant::now(),
        };
        Self {
            limiter: quota.map(|quota| RateLimiter::dashmap_with_clock(quota, clock)),
            interval: settings.address_interval,
            longest_wait: settings.longest_wait,
            requests: AtomicUsize::new(0),
        }
    }

    /// Waits until a request to the address may be made.
    pub(super) async fn wait(&self, address: IpAddr, site: &SiteId) -> Result<(), FetchError> {
        let Some(limiter) = &self.limiter else {
            return Ok(());
        };
        if self.requests.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
            limiter.retain_recent();
        }
        let address = shared_address(address);
        let started = Instant::now();
        let longest_wait = self.longest_wait.max(self.interval);
        while let Err(not_until) = limiter.check_key(&address) {
            let wait = not_until.wait_time_from(limiter.clock().now());
            if started.elapsed() + wait > longest_wait {
                return Err(deferred(site, longest_wait, DeferralCause::CrowdedAddress));
            }
            sleep(wait).await;
        }
        Ok(())
    }
}

// === impl RuntimeClock ===

impl Clock for RuntimeClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::JoinSet;

    use super::*;
    use crate::fetch::ErrorKind;

    fn settings() -> PolitenessSettings {
        PolitenessSettings {
            address_interval: Duration::from_millis(200),
            ..PolitenessSettings::default()
        }
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([93, 184, 216, last])
    }

    #[tokio::test(start_paused = true)]
    async fn sites_at_one_address_take_turns_and_others_do_not_wait() {
        let pace = Arc::new(AddressPace::new(&settings()));
        let start = Instant::now();
        let mut waits = JoinSet::new();
        for number in 0..20 {
            let pace = Arc::clone(&pace);
            waits.spawn(async move {
                let site = format!("{number}.org").parse().unwrap();
                pace.wait(address(number % 2), &site).await.unwrap();
                start.elapsed()
            });
        }
        let mut ends: Vec<u128> = waits
            .join_all()
            .await
            .into_iter()
            .map(|wait| (wait.as_millis() + 100) / 200)
            .collect();
        ends.sort_unstable();
        let wanted: Vec<u128> = (0..20).map(|number| number / 2).collect();
        assert_eq!(
            ends, wanted,
            "two addresses, ten requests each, in steps of 200 ms"
        );
    }

    /// One server may use any number of addresses of its network.
    #[tokio::test(start_paused = true)]
    async fn addresses_of_one_ipv6_network_take_turns() {
        let pace = AddressPace::new(&settings());
        let site: SiteId = "a.org".parse().unwrap();
        let start = Instant::now();
        let mut ends = Vec::new();
        for address in [
            "2a00:1450:4001:82f::200e",
            "2a00:1450:4001:82f:1:2:3:4",
            "2a00:1450:4001:830::200e",
            "93.184.216.34",
            "::ffff:93.184.216.34",
        ] {
            pace.wait(address.parse().unwrap(), &site).await.unwrap();
            ends.push((start.elapsed().as_millis() + 100) / 200);
        }
        assert_eq!(ends, [0, 1, 1, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowded_address_defers_requests_that_would_wait_too_long() {
        let pace = Arc::new(AddressPace::new(&settings()));
        let mut waits = JoinSet::new();
        for number in 0..300 {
            let pace = Arc::clone(&pace);
            waits.spawn(async move {
                let site = format!("{number}.org").parse().unwrap();
                pace.wait(address(1), &site).await
            });
        }
        let results = waits.join_all().await;
        let served = results.iter().filter(|result| result.is_ok()).count();
        assert!(
            (150..=152).contains(&served),
            "thirty seconds hold 150: {served}"
        );
        let deferrals = results.iter().filter_map(|result| result.as_ref().err());
        for error in deferrals {
            let cause = DeferralCause::CrowdedAddress;
            assert!(
                matches!(error.kind, ErrorKind::Deferred { cause: found, .. } if found == cause)
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_are_forgotten() {
        let pace = AddressPace::new(&settings());
        let site: SiteId = "a.org".parse().unwrap();
        for number in 0..20_000_u32 {
            let address = IpAddr::from((0x5000_0000 + number).to_be_bytes());
            pace.wait(address, &site).await.unwrap();
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let known = pace.limiter.as_ref().unwrap().len();
        assert!(known <= FORGET_EVERY + 1_000, "{known}");
    }
}
