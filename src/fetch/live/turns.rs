//! Turns: one request at a time for each site, with a pause in between.
//!
//! Each site has its own lock, so waiting for a slow or busy site blocks no other. Short waits
//! happen here; a wait longer than `longest_wait` is returned as `Deferred` with the time at which
//! the site is due.
//!
//! Invariant: the state of a site is dropped as soon as it no longer matters, and the number of
//! sites is bounded. Memory grows with the sites being visited and those that are deferred, not
//! with all that were seen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Mutex as Lock, OwnedMutexGuard};
use tokio::time::{Instant, sleep_until};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::config::PolitenessSettings;
use crate::fetch::error::{ErrorKind, FetchError};
use crate::telemetry::clock;
use crate::web::{DeferralCause, SiteId};

/// How long the state of a deferred site is kept after its due time.
const MEMORY: Duration = Duration::from_hours(1);

/// The longest deferral enforced here. The caller gets the full time from the deferral.
const LONGEST_BREAK: Duration = Duration::from_hours(24);

/// Maximum number of idle sites kept. Dropping one too early costs it one extra robots.txt request.
const MOST_SITES: usize = 200_000;

/// Minimum table size for a sweep.
const FIRST_SWEEP: usize = 1_024;

/// A site that was busy this many times in a row, without `Retry-After`, is deferred for
/// `come_back`.
const BUSY_AT_MOST: u32 = 3;

/// Failures beyond this do not lengthen the back-off any more.
const DOUBLINGS: u32 = 10;

/// Hands out turns.
#[derive(Debug)]
pub(super) struct Turns {
    /// A turn keeps the settings that applied when it was taken.
    settings: RwLock<Arc<PolitenessSettings>>,
    sites: Mutex<SitePaces>,
}

#[derive(Debug)]
struct SitePaces {
    by_site: HashMap<SiteId, Arc<Lock<SitePace>>>,
    sweep_at: usize,
}

/// The politeness state of a site.
#[derive(Debug, Default)]
struct SitePace {
    /// When the last request ended.
    last_request: Option<Instant>,
    /// Earliest next request, by `Retry-After` or back-off.
    not_before: Option<Instant>,
    /// A visit was deferred until then because of a `Crawl-delay`. From then on a page may be
    /// requested, even if robots.txt had to be requested again in between.
    deferred_until: Option<Instant>,
    /// Requests in a row that failed or found the site busy.
    failures: u32,
    /// When this state can be dropped.
    matters_until: Option<Instant>,
}

/// The right to make one request to a site.
#[derive(Debug)]
pub(super) struct Turn {
    site: SiteId,
    pace: OwnedMutexGuard<SitePace>,
    settings: Arc<PolitenessSettings>,
    /// The longer of the pause and the site's own `Crawl-delay`.
    pause: Duration,
    /// Whether the site may have seen a request that is not accounted for yet.
    is_used: bool,
}

/// The outcome of a request, as far as politeness goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerReply {
    /// The site answered.
    Answered,
    /// 429 or 503, with the `Retry-After` if there was one.
    Busy(Option<Duration>),
    /// No response, or another server error.
    Failed,
}

// === impl Turns ===

impl Turns {
    pub(super) fn new(settings: PolitenessSettings) -> Self {
        let sites = SitePaces {
            by_site: HashMap::new(),
            sweep_at: FIRST_SWEEP,
        };
        Self {
            settings: RwLock::new(Arc::new(settings)),
            sites: Mutex::new(sites),
        }
    }

    /// Applies to turns taken from now on.
    pub(super) fn set_pace(&self, pause: Duration, longest_wait: Duration) {
        let mut current = self
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(PolitenessSettings {
            pause,
            longest_wait,
            ..(**current).clone()
        });
    }

    fn settings(&self) -> Arc<PolitenessSettings> {
        let current = self.settings.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }

    /// Waits until a request to the site may be made, or returns when it will be due.
    pub(super) async fn take(
        &self,
        site: &SiteId,
        crawl_delay: Option<Duration>,
    ) -> Result<Turn, FetchError> {
        let lock = self.pace_of(site);
        let mut pace = lock.lock_owned().await;
        let settings = self.settings();
        let delay = crawl_delay.unwrap_or_default().min(LONGEST_BREAK);
        let pause = settings.pause.max(delay);
        let now = Instant::now();
        let is_due = pace.deferred_until.is_some_and(|due| due <= now);
        let gap = if is_due { settings.pause } else { pause };
        let after_pause = pace.last_request.map(|last| last + gap);
        let due = after_pause.max(pace.not_before).filter(|due| *due > now);
        if let Some(due) = due {
            let wait = due - now;
            pace.remember_until(due + MEMORY);
            // A pause configured by the operator never defers, however long it is.
            if wait > settings.longest_wait.max(settings.pause) {
                let is_busy = pace.not_before.is_some_and(|busy| busy >= due);
                let cause = if is_busy {
                    DeferralCause::Busy
                } else {
                    DeferralCause::CrawlDelay
                };
                if !is_busy {
                    pace.deferred_until.get_or_insert(due);
                }
                return Err(deferred(site, wait, cause));
            }
            sleep_until(due).await;
        }
        if crawl_delay.is_some() {
            pace.deferred_until = None;
        }
        Ok(Turn {
            site: site.clone(),
            pace,
            settings,
            pause,
            is_used: true,
        })
    }

    fn pace_of(&self, site: &SiteId) -> Arc<Lock<SitePace>> {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pace) = sites.by_site.get(site) {
            return Arc::clone(pace);
        }
        if sites.by_site.len() >= sites.sweep_at {
            sites.sweep();
        }
        Arc::clone(sites.by_site.entry(site.clone()).or_default())
    }

    /// How many sites have state.
    #[cfg(test)]
    fn known_sites(&self) -> usize {
        self.sites.lock().unwrap().by_site.len()
    }
}

// === impl SitePaces ===

impl SitePaces {
    /// Drops what no longer matters. The next sweep comes when the table has doubled, so that the
    /// amortised cost per site is constant.
    fn sweep(&mut self) {
        let now = Instant::now();
        self.by_site.retain(|_, pace| {
            let is_in_use = Arc::strong_count(pace) > 1;
            is_in_use || pace.try_lock().map_or(true, |known| known.matters(now))
        });
        if self.by_site.len() > MOST_SITES {
            self.by_site.retain(|_, pace| Arc::strong_count(pace) > 1);
        }
        self.sweep_at = FIRST_SWEEP.max(2 * self.by_site.len());
    }
}

// === impl SitePace ===

impl SitePace {
    fn matters(&self, now: Instant) -> bool {
        self.matters_until.is_some_and(|until| until > now)
    }

    fn remember_until(&mut self, until: Instant) {
        self.matters_until = self.matters_until.max(Some(until));
    }
}

// === impl Turn ===

impl Turn {
    /// Gives the turn back: the site was never reached, so no pause is due.
    pub(super) fn unused(mut self) {
        self.is_used = false;
    }

    /// Ends the turn and updates the state of the site.
    pub(super) fn end(mut self, reply: ServerReply) {
        let now = Instant::now();
        let pace = &mut *self.pace;
        let wait = match reply {
            ServerReply::Answered => {
                pace.failures = 0;
                Duration::ZERO
            }
            ServerReply::Busy(Some(wait)) => {
                pace.failures += 1;
                wait
            }
            ServerReply::Busy(None) | ServerReply::Failed => {
                pace.failures += 1;
                let is_overloaded = reply != ServerReply::Failed && pace.failures >= BUSY_AT_MOST;
                if is_overloaded {
                    self.settings.come_back
                } else {
                    back_off(&self.site, self.pause, pace.failures).min(self.settings.longest_wait)
                }
            }
        };
        let wait = wait.min(LONGEST_BREAK);
        pace.not_before = Some(now + wait);
        // The failure count is dropped after another wait of the same length.
        pace.matters_until = Some(now + self.pause.max(2 * wait));
        pace.last_request = Some(now);
        self.is_used = false;
    }
}

/// However a turn ends, also by cancellation, a pause follows.
impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_used {
            return;
        }
        let now = Instant::now();
        self.pace.last_request = Some(now);
        self.pace.remember_until(now + self.pause);
    }
}

/// Exponential back-off. Sites that failed together must not be retried together, so each gets a
/// jitter of up to a half, by a hash of its name.
fn back_off(site: &SiteId, pause: Duration, failures: u32) -> Duration {
    let doubled = pause * 2_u32.pow(failures.min(DOUBLINGS));
    let hash = xxh3_64_with_seed(site.as_str().as_bytes(), u64::from(failures));
    let share = f64::from(u16::try_from(hash & 0xffff).unwrap_or_default()) / 65_536.0;
    doubled.mul_f64(1.0 + share / 2.0)
}

pub(super) fn deferred(site: &SiteId, wait: Duration, cause: DeferralCause) -> FetchError {
    // Keeps the addition within the range of the clock.
    let year = Duration::from_hours(8760);
    let not_before = clock::now() + wait.min(year);
    let why = match cause {
        DeferralCause::CrawlDelay => "its robots.txt sets a Crawl-delay",
        DeferralCause::Busy => "the site is busy",
        DeferralCause::RobotsUnavailable => "its robots.txt is unavailable",
        DeferralCause::CrowdedAddress => "too many sites share its address",
        DeferralCause::OwnTrouble(_) => "local failure",
        DeferralCause::Challenged => "a gatekeeper answered instead of the site",
    };
    let message = format!("{site} is deferred for {} s: {why}", wait.as_secs());
    FetchError::new(ErrorKind::Deferred { not_before, cause }, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn site(text: &str) -> SiteId {
        text.parse().unwrap()
    }

    fn turns() -> Arc<Turns> {
        Arc::new(Turns::new(PolitenessSettings::default()))
    }

    /// How long the turn took to come.
    async fn waited(turns: &Turns, host: &str, crawl_delay: Option<Duration>) -> (Duration, Turn) {
        let start = Instant::now();
        let turn = turns.take(&site(host), crawl_delay).await.unwrap();
        (start.elapsed(), turn)
    }

    fn kind(error: &FetchError) -> (DeferralCause, Duration) {
        match error.kind {
            ErrorKind::Deferred { not_before, cause } => {
                let wait = not_before.duration_since(clock::now()).unwrap();
                (cause, wait)
            }
            kind => panic!("{kind:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_follows_every_request() {
        let turns = turns();
        let (first, turn) = waited(&turns, "a.org", None).await;
        assert_eq!(first, Duration::ZERO);
        turn.end(ServerReply::Answered);
        assert_eq!(waited(&turns, "a.org", None).await.0, SECOND);
        // The turn was dropped, as when a visit is cancelled.
        assert_eq!(waited(&turns, "a.org", None).await.0, SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_longer_crawl_delay_wins_and_a_shorter_one_does_not() {
        let turns = turns();
        waited(&turns, "a.org", None)
            .await
            .1
            .end(ServerReply::Answered);
        let (long, turn) = waited(&turns, "a.org", Some(7 * SECOND)).await;
        assert_eq!(long, 7 * SECOND);
        turn.end(ServerReply::Answered);
        let short = Some(Duration::from_millis(10));
        assert_eq!(waited(&turns, "a.org", short).await.0, SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_crawl_delay_beyond_the_longest_wait_defers_the_visit() {
        let turns = turns();
        waited(&turns, "a.org", None)
            .await
            .1
            .end(ServerReply::Answered);
        let hour = Some(3600 * SECOND);
        let error = turns.take(&site("a.org"), hour).await.unwrap_err();
        let (cause, wait) = kind(&error);
        assert_eq!(cause, DeferralCause::CrawlDelay);
        assert!(wait > 3598 * SECOND && wait <= 3600 * SECOND, "{wait:?}");
        tokio::time::advance(3600 * SECOND).await;
        assert_eq!(waited(&turns, "a.org", hour).await.0, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_retry_after_is_waited_for_and_a_long_one_is_not() {
        let turns = turns();
        let turn = waited(&turns, "a.org", None).await.1;
        turn.end(ServerReply::Busy(Some(20 * SECOND)));
        let (wait, turn) = waited(&turns, "a.org", None).await;
        assert_eq!(wait, 20 * SECOND);
        turn.end(ServerReply::Busy(Some(600 * SECOND)));
        let error = turns.take(&site("a.org"), None).await.unwrap_err();
        assert_eq!(kind(&error).0, DeferralCause::Busy);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_lengthen_the_pause_and_an_answer_ends_that() {
        let turns = turns();
        let mut waits = Vec::new();
        for _ in 0..5 {
            let (wait, turn) = waited(&turns, "a.org", None).await;
            turn.end(ServerReply::Failed);
            waits.push(wait);
        }
        for (at, wait) in waits.iter().enumerate().skip(1) {
            let doubled = SECOND * 2_u32.pow(u32::try_from(at).unwrap());
            assert!(
                *wait >= doubled && *wait <= doubled.mul_f64(1.5),
                "{waits:?}"
            );
        }
        waited(&turns, "a.org", None)
            .await
            .1
            .end(ServerReply::Answered);
        assert_eq!(waited(&turns, "a.org", None).await.0, SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_site_that_stays_busy_is_left_alone() {
        let turns = turns();
        for _ in 0..3 {
            waited(&turns, "a.org", None)
                .await
                .1
                .end(ServerReply::Busy(None));
        }
        let error = turns.take(&site("a.org"), None).await.unwrap_err();
        let (cause, wait) = kind(&error);
        assert_eq!(cause, DeferralCause::Busy);
        assert!(wait > 3500 * SECOND, "{wait:?}");
    }

    /// The rules expire before the delay has passed, so they are requested again whenever a page is
    /// due.
    #[tokio::test(start_paused = true)]
    async fn a_delay_longer_than_rules_last_ends_all_the_same() {
        let turns = turns();
        let day = Some(86_400 * SECOND);
        waited(&turns, "a.org", None)
            .await
            .1
            .end(ServerReply::Answered);
        turns.take(&site("a.org"), day).await.unwrap_err();
        tokio::time::advance(86_400 * SECOND).await;
        waited(&turns, "a.org", None)
            .await
            .1
            .end(ServerReply::Answered);
        let (wait, turn) = waited(&turns, "a.org", day).await;
        assert_eq!(wait, SECOND);
        turn.end(ServerReply::Answered);
        let error = turns.take(&site("a.org"), day).await.unwrap_err();
        assert_eq!(kind(&error).0, DeferralCause::CrawlDelay);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_of_our_own_is_waited_for_however_long() {
        let turns = Turns::new(PolitenessSettings {
            pause: 60 * SECOND,
            ..PolitenessSettings::default()
        });
        waited(&turns, "a.org", None)
            .await
            .1
            .end(ServerReply::Answered);
        assert_eq!(waited(&turns, "a.org", None).await.0, 60 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_can_ask_for_more_time_than_there_is() {
        let turns = turns();
        let turn = waited(&turns, "a.org", None).await.1;
        turn.end(ServerReply::Busy(Some(Duration::MAX)));
        let error = turns.take(&site("a.org"), Some(Duration::MAX / 2)).await;
        assert!(matches!(
            error.unwrap_err().kind,
            ErrorKind::Deferred { .. }
        ));
    }

    #[test]
    fn sites_that_failed_together_do_not_come_back_together() {
        let wait = |host: &str| back_off(&site(host), SECOND, 3);
        let waits: std::collections::BTreeSet<Duration> = (0..100)
            .map(|number| wait(&format!("host{number}.org")))
            .collect();
        assert!(waits.len() > 90);
        assert!(
            waits
                .iter()
                .all(|wait| (8 * SECOND..=12 * SECOND).contains(wait))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_site_never_holds_another() {
        let turns = turns();
        let held = waited(&turns, "slow.org", None).await.1;
        let waiting = {
            let turns = Arc::clone(&turns);
            tokio::spawn(async move { waited(&turns, "slow.org", None).await.0 })
        };
        for number in 0..1_000 {
            let (wait, turn) = waited(&turns, &format!("{number}.org"), None).await;
            assert_eq!(wait, Duration::ZERO);
            turn.end(ServerReply::Answered);
        }
        assert!(!waiting.is_finished());
        held.end(ServerReply::Answered);
        assert!(waiting.await.unwrap() >= SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn what_no_longer_matters_is_forgotten() {
        let turns = turns();
        for number in 0..20_000 {
            let turn = waited(&turns, &format!("{number}.org"), None).await.1;
            turn.end(ServerReply::Answered);
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        // One hundred sites are within their pause at any time.
        assert!(
            turns.known_sites() <= FIRST_SWEEP + 1,
            "{}",
            turns.known_sites()
        );
    }
}
