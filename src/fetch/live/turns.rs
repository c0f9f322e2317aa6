//! Whose turn it is: one request at a time for each site, with a pause in between.
//!
//! A site's turn is a lock of its own, so whoever waits for a slow or shy site holds up
//! nobody else. Short waits happen here; what would take longer than a visit waits comes
//! back as `Deferred` with the time at which the site is due.
//!
//! Invariant: what is known about a site is forgotten as soon as it no longer matters, and
//! there is a bound to how many sites that may be. Memory follows the sites being visited
//! and those that asked to be left alone, not all that were seen.

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

/// How long after its time a deferred site is expected back.
const MEMORY: Duration = Duration::from_hours(1);

/// The longest that a site can ask to be left alone here. Whoever visits it knows the true
/// time from the deferral.
const LONGEST_BREAK: Duration = Duration::from_hours(24);

/// More sites than this are not remembered. To forget one costs it a robots.txt too many.
const MOST_SITES: usize = 200_000;

/// The table is looked through for forgettable sites when it has at least so many.
const FIRST_SWEEP: usize = 1_024;

/// A site that was busy so often in a row, without saying for how long, is left alone for
/// `come_back`.
const BUSY_AT_MOST: u32 = 3;

/// Failures beyond this do not lengthen the back-off any more.
const DOUBLINGS: u32 = 10;

/// Hands out turns.
#[derive(Debug)]
pub(super) struct Turns {
    /// Whoever has a turn keeps to what held when it was taken.
    settings: RwLock<Arc<PolitenessSettings>>,
    sites: Mutex<Sites>,
}

#[derive(Debug)]
struct Sites {
    by_site: HashMap<SiteId, Arc<Lock<SitePace>>>,
    sweep_at: usize,
}

/// What is remembered about a site.
#[derive(Debug, Default)]
struct SitePace {
    /// When the last request ended.
    last_request: Option<Instant>,
    /// The site asked to be left alone until then.
    not_before: Option<Instant>,
    /// A visit was put off until then because of a `Crawl-delay`. Then a page may be asked
    /// for, even if robots.txt had to be asked for again in between.
    put_off_until: Option<Instant>,
    /// Requests in a row that failed or found the site busy.
    failures: u32,
    /// Until then it matters.
    matters_until: Option<Instant>,
}

/// The right to make one request to a site.
#[derive(Debug)]
pub(super) struct Turn {
    site: SiteId,
    courtesy: OwnedMutexGuard<SitePace>,
    settings: Arc<PolitenessSettings>,
    /// The longer of the pause and the site's own `Crawl-delay`.
    pause: Duration,
    /// Whether the site may have noticed anything that is not remembered yet.
    is_used: bool,
}

/// How a request went, as far as politeness goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerReply {
    /// The site answered.
    Answered,
    /// It was busy: 429 or 503, and perhaps it said for how long.
    Busy(Option<Duration>),
    /// It failed: no answer, or another server error.
    Failed,
}

// === impl Turns ===

impl Turns {
    pub(super) fn new(settings: PolitenessSettings) -> Self {
        let sites = Sites {
            by_site: HashMap::new(),
            sweep_at: FIRST_SWEEP,
        };
        Self {
            settings: RwLock::new(Arc::new(settings)),
            sites: Mutex::new(sites),
        }
    }

    /// From now on turns are handed out by other settings.
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

    /// Waits until a request to the site may be made, or says when it will be due.
    pub(super) async fn take(
        &self,
        site: &SiteId,
        crawl_delay: Option<Duration>,
    ) -> Result<Turn, FetchError> {
        let lock = self.pace_of(site);
        let mut courtesy = lock.lock_owned().await;
        let settings = self.settings();
        let delay = crawl_delay.unwrap_or_default().min(LONGEST_BREAK);
        let pause = settings.pause.max(delay);
        let now = Instant::now();
        let is_due = courtesy.put_off_until.is_some_and(|due| due <= now);
        let gap = if is_due { settings.pause } else { pause };
        let after_pause = courtesy.last_request.map(|last| last + gap);
        let due = after_pause
            .max(courtesy.not_before)
            .filter(|due| *due > now);
        if let Some(due) = due {
            let wait = due - now;
            courtesy.remember_until(due + MEMORY);
            // A pause of the operator's own making is waited for, however long.
            if wait > settings.longest_wait.max(settings.pause) {
                let is_busy = courtesy.not_before.is_some_and(|busy| busy >= due);
                let cause = if is_busy {
                    DeferralCause::Busy
                } else {
                    DeferralCause::CrawlDelay
                };
                if !is_busy {
                    courtesy.put_off_until.get_or_insert(due);
                }
                return Err(deferred(site, wait, cause));
            }
            sleep_until(due).await;
        }
        if crawl_delay.is_some() {
            courtesy.put_off_until = None;
        }
        Ok(Turn {
            site: site.clone(),
            courtesy,
            settings,
            pause,
            is_used: true,
        })
    }

    fn pace_of(&self, site: &SiteId) -> Arc<Lock<SitePace>> {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(courtesy) = sites.by_site.get(site) {
            return Arc::clone(courtesy);
        }
        if sites.by_site.len() >= sites.sweep_at {
            sites.sweep();
        }
        Arc::clone(sites.by_site.entry(site.clone()).or_default())
    }

    /// How many sites something is known about.
    #[cfg(test)]
    fn known_sites(&self) -> usize {
        self.sites.lock().unwrap().by_site.len()
    }
}

// === impl Sites ===

impl Sites {
    /// Forgets what no longer matters. The next sweep comes when the table has doubled, so
    /// that each site pays for looking at two.
    fn sweep(&mut self) {
        let now = Instant::now();
        self.by_site.retain(|_, courtesy| {
            let is_in_use = Arc::strong_count(courtesy) > 1;
            is_in_use || courtesy.try_lock().map_or(true, |known| known.matters(now))
        });
        if self.by_site.len() > MOST_SITES {
            self.by_site
                .retain(|_, courtesy| Arc::strong_count(courtesy) > 1);
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

    /// Ends the turn and remembers how it went.
    pub(super) fn end(mut self, reception: ServerReply) {
        let now = Instant::now();
        let courtesy = &mut *self.courtesy;
        let wait = match reception {
            ServerReply::Answered => {
                courtesy.failures = 0;
                Duration::ZERO
            }
            ServerReply::Busy(Some(wait)) => {
                courtesy.failures += 1;
                wait
            }
            ServerReply::Busy(None) | ServerReply::Failed => {
                courtesy.failures += 1;
                let is_tired =
                    reception != ServerReply::Failed && courtesy.failures >= BUSY_AT_MOST;
                if is_tired {
                    self.settings.come_back
                } else {
                    back_off(&self.site, self.pause, courtesy.failures)
                        .min(self.settings.longest_wait)
                }
            }
        };
        let wait = wait.min(LONGEST_BREAK);
        courtesy.not_before = Some(now + wait);
        // Failures are forgiven when the site has been left alone for as long again.
        courtesy.matters_until = Some(now + self.pause.max(2 * wait));
        courtesy.last_request = Some(now);
        self.is_used = false;
    }
}

/// However a turn ends, also when nobody waits for the answer any more, a pause follows.
impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_used {
            return;
        }
        let now = Instant::now();
        self.courtesy.last_request = Some(now);
        self.courtesy.remember_until(now + self.pause);
    }
}

/// Doubles with each failure. Sites that failed together must not come back together, so
/// each stretches its wait by a share of its own, up to a half.
fn back_off(site: &SiteId, pause: Duration, failures: u32) -> Duration {
    let doubled = pause * 2_u32.pow(failures.min(DOUBLINGS));
    let hash = xxh3_64_with_seed(site.as_str().as_bytes(), u64::from(failures));
    let share = f64::from(u16::try_from(hash & 0xffff).unwrap_or_default()) / 65_536.0;
    doubled.mul_f64(1.0 + share / 2.0)
}

pub(super) fn deferred(site: &SiteId, wait: Duration, cause: DeferralCause) -> FetchError {
    // A time beyond what the clock can say is as good as a year.
    let year = Duration::from_hours(8760);
    let not_before = clock::now() + wait.min(year);
    let why = match cause {
        DeferralCause::CrawlDelay => "its Crawl-delay",
        DeferralCause::Busy => "the site, which is busy,",
        DeferralCause::RobotsUnavailable => "robots.txt, which cannot be had,",
        DeferralCause::CrowdedAddress => "the address, which many sites share,",
        DeferralCause::OwnTrouble(_) => "trouble of our own",
        DeferralCause::Challenged => "a gatekeeper before the site",
    };
    let message = format!("{site} is due in {} s: {why} asks for it", wait.as_secs());
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

    /// How long a turn had to be waited for.
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
        // The turn was dropped, as when a visit is broken off.
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

    /// Its rules are believed for less time than its delay takes, so that they are asked for
    /// again whenever a page is due.
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
