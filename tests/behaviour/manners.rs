//! Politeness of the live fetcher: identification, rate and number of connections, judged by what
//! the servers saw.

use std::sync::Arc;
use std::time::Duration;

use sitescout::fetch::{ErrorKind, Fetcher};
use sitescout::telemetry::clock;
use sitescout::web::DeferralCause;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::live::{Meeting, url};
use crate::pathologies::Reply;

const SECOND: Duration = Duration::from_secs(1);

/// The waits between requests to a host, as the server saw them.
fn gaps(meeting: &Meeting, host: &str) -> Vec<Duration> {
    let requests = meeting.web.requests(host);
    let times: Vec<Instant> = requests.iter().map(|request| request.at).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_name_the_crawler_and_carry_no_cookies_or_referrer() {
    let meeting = Meeting::new().await;
    for path in ["/", "/?c=1", "/again"] {
        let page = format!("http://cookie-wall.example{path}");
        assert_eq!(meeting.outcome(&page).await, "302");
    }
    let requests = meeting.web.requests("cookie-wall.example");
    assert_eq!(requests.len(), 4, "robots.txt and three pages");
    for request in requests {
        assert_eq!(request.method, "GET");
        let version = env!("CARGO_PKG_VERSION");
        let wanted = format!("sitescout/{version} (+https://crawler.example/about)");
        assert_eq!(request.header("user-agent"), Some(wanted.as_str()));
        assert_eq!(request.header("host"), Some("cookie-wall.example"));
        let names: Vec<&str> = request.headers.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names.len(), 4, "{names:?}");
        for absent in [
            "cookie",
            "referer",
            "authorization",
            "from",
            "if-none-match",
        ] {
            assert_eq!(request.header(absent), None);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_at_a_time_with_a_pause_in_between() {
    let pause = Duration::from_millis(150);
    let meeting = Meeting::with(|settings| settings.politeness.pause = pause).await;
    let meeting = Arc::new(meeting);
    let mut asked = JoinSet::new();
    for number in 0..8 {
        let meeting = Arc::clone(&meeting);
        // Two spellings of one site, over both schemes, share its rate limit.
        let scheme = ["http", "https"][number % 2];
        let www = ["", "www."][number / 2 % 2];
        asked.spawn(async move {
            let page = format!("{scheme}://{www}busy-place.example/{number}");
            meeting.outcome(&page).await
        });
    }
    assert!(
        asked
            .join_all()
            .await
            .iter()
            .all(|outcome| outcome == "200")
    );
    let mut requests = meeting.web.requests("busy-place.example");
    requests.extend(meeting.web.requests("www.busy-place.example"));
    requests.sort_by_key(|request| request.at);
    assert_eq!(requests.len(), 12, "eight pages, and rules of four origins");
    for pair in requests.windows(2) {
        let gap = pair[1].at - pair[0].at;
        assert!(gap >= pause, "{gap:?} between {pair:?}");
    }
    assert_eq!(meeting.web.most_at_once("busy-place.example"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn crawl_delay_is_kept() {
    let meeting = Meeting::new().await;
    for path in ["/a", "/b"] {
        let page = format!("http://robots-delay-2.example{path}");
        assert_eq!(meeting.outcome(&page).await, "200");
    }
    let gaps = gaps(&meeting, "robots-delay-2.example");
    assert_eq!(gaps.len(), 2);
    assert!(gaps.iter().all(|gap| *gap >= 2 * SECOND), "{gaps:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawl_delay_beyond_the_longest_wait_is_scheduled_and_not_dropped() {
    let meeting = Meeting::with(|settings| {
        settings.politeness.longest_wait = Duration::from_millis(500);
    })
    .await;
    let page = url("http://robots-delay-2.example/a");
    let error = meeting.live.fetch(&page).await.expect_err("not yet");
    let ErrorKind::Deferred { not_before, cause } = error.kind else {
        panic!("{error}");
    };
    assert_eq!(cause, DeferralCause::CrawlDelay);
    assert_eq!(error.robots_requests, 1);
    let wait = not_before.duration_since(clock::now());
    let wait = wait.expect("later");
    assert!(wait <= 2 * SECOND);
    assert_eq!(
        meeting.web.targets("robots-delay-2.example"),
        ["/robots.txt"]
    );
    sleep(wait + Duration::from_millis(10)).await;
    meeting.live.fetch(&page).await.expect("it is due");
    assert_eq!(
        meeting.web.targets("robots-delay-2.example"),
        ["/robots.txt", "/a"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_is_obeyed() {
    let meeting = Meeting::new().await;
    for host in ["throttled-429.example", "throttled-503.example"] {
        let page = url(&format!("http://{host}/"));
        let busy = meeting.live.fetch(&page).await.expect("an answer");
        assert!(busy.transfer.busy_until.is_some());
        for _ in 0..3 {
            let error = meeting.live.fetch(&page).await.expect_err("deferred");
            let ErrorKind::Deferred { not_before, cause } = error.kind else {
                panic!("{error}");
            };
            assert_eq!(cause, DeferralCause::Busy);
            let wait = not_before.duration_since(clock::now());
            let wait = wait.expect("later").as_secs();
            assert!((3_500..=3_600).contains(&wait), "{wait}");
        }
        assert_eq!(meeting.web.targets(host), ["/robots.txt", "/"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_retry_after_is_waited_for() {
    let meeting = Meeting::new().await;
    meeting
        .web
        .script("moment.example", |target, before| match (target, before) {
            ("/robots.txt", _) => Reply::status(404),
            (_, 0) => Reply::status(503).header("Retry-After", "1"),
            _ => Reply::html("<p>here you are"),
        });
    assert_eq!(meeting.outcome("http://moment.example/").await, "503");
    assert_eq!(meeting.outcome("http://moment.example/").await, "200");
    let gaps = gaps(&meeting, "moment.example");
    assert!(gaps[1] >= SECOND, "{gaps:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn robots_that_cannot_be_had_are_not_asked_for_again_and_again() {
    let meeting = Meeting::new().await;
    for host in ["robots-503.example", "robots-resets.example"] {
        for path in ["/", "/a", "/b"] {
            let page = url(&format!("http://{host}{path}"));
            let error = meeting.live.fetch(&page).await.expect_err("deferred");
            let cause = DeferralCause::RobotsUnavailable;
            let is_due_later =
                matches!(error.kind, ErrorKind::Deferred { cause: found, .. } if found == cause);
            assert!(is_due_later, "{error}");
        }
        assert_eq!(meeting.web.targets(host), ["/robots.txt"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_host_holds_up_no_other_host() {
    let meeting = Arc::new(Meeting::new().await);
    let slow = {
        let meeting = Arc::clone(&meeting);
        tokio::spawn(async move { meeting.outcome("http://never-answers.example/").await })
    };
    let mut others = JoinSet::new();
    for number in 0..100 {
        let meeting = Arc::clone(&meeting);
        others.spawn(async move {
            let page = format!("http://host-{number}.example/");
            meeting.outcome(&page).await
        });
    }
    let others = others.join_all().await;
    assert!(!slow.is_finished(), "they came while it was waited for");
    assert!(others.iter().all(|outcome| outcome == "200"), "{others:?}");
    assert_eq!(slow.await.expect("no panic"), "timeout");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_used_again_bounded_and_closed_when_idle() {
    let meeting = Meeting::with(|settings| {
        settings.limits.connections = 8;
        settings.limits.idle = Duration::from_secs(2);
    })
    .await;
    let meeting = Arc::new(meeting);
    let mut asked = JoinSet::new();
    for number in 0..60 {
        let meeting = Arc::clone(&meeting);
        asked.spawn(async move {
            let page = format!("http://host-{number}.example/");
            let outcome = meeting.outcome(&page).await;
            (outcome, meeting.live.connections_open())
        });
    }
    for (outcome, open) in asked.join_all().await {
        assert_eq!(outcome, "200");
        assert!(open <= 8, "{open}");
    }
    for number in 0..5 {
        let page = format!("http://again.example/{number}");
        assert_eq!(meeting.outcome(&page).await, "200");
    }
    let before = meeting.web.connections_accepted();
    assert_eq!(meeting.outcome("http://again.example/last").await, "200");
    assert_eq!(meeting.web.connections_accepted(), before, "the same one");
    until(|| meeting.live.connections_open() == 0).await;
    until(|| meeting.web.connections_open() == 0).await;
}

/// Waits until a condition holds.
async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_mins(1), waiting)
        .await
        .expect("it comes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_that_is_broken_off_leaves_nothing_but_its_pause() {
    let pause = Duration::from_millis(300);
    let meeting = Meeting::with(|settings| settings.politeness.pause = pause).await;
    let page = url("http://drips.example/");
    let fetch = timeout(SECOND, meeting.live.fetch(&page)).await;
    assert!(fetch.is_err(), "it drips");
    until(|| meeting.live.connections_open() == 0).await;
    let again = timeout(SECOND, meeting.live.fetch(&page)).await;
    assert!(again.is_err(), "it drips");
    let gaps = gaps(&meeting, "drips.example");
    assert!(gaps.iter().all(|gap| *gap >= pause), "{gaps:?}");
}
