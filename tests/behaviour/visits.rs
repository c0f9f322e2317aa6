//! Whole visits to a faulty web: the verdict, and the requests that the site got.

use std::net::TcpListener;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use sitescout::classify::SiteModel;
use sitescout::config::{CertificatePolicy, InternalSettings, ResolveRule};
use sitescout::internal::{InternalCrawler, LinkPagesFirst};
use sitescout::telemetry::clock;
use sitescout::web::{SiteReport, SiteVisit, StopReason, UndecidedReason, Verdict};
use tokio::task::JoinSet;

use crate::LIMITS;
use crate::live::{Meeting, url};
use crate::pathologies::Reply;
use crate::scripted_web::{model, mute, sailing};

/// Trained once, and not on a thread of the runtime, which training would block.
static MODEL: LazyLock<Arc<SiteModel>> = LazyLock::new(|| {
    let learning = thread::spawn(model);
    learning.join().expect("a model")
});

async fn visit(meeting: &Meeting, entry: &str) -> SiteReport {
    let settings = InternalSettings::default();
    let live = Arc::clone(&meeting.live);
    let model = Arc::clone(&MODEL);
    let pages = Arc::new(LinkPagesFirst);
    let crawler = InternalCrawler::new(live, model, settings, LIMITS, pages);
    crawler.sample(SiteVisit::at(&url(entry))).await
}

fn undecided(report: &SiteReport) -> UndecidedReason {
    let reason = report.verdict.undecided_reason();
    reason.unwrap_or_else(|| panic!("{report:?}"))
}

/// A site of sailing pages, the same on both ports.
fn sailing_site(meeting: &Meeting, host: &str) {
    meeting.web.script(host, |target, _| match target {
        "/robots.txt" => Reply::status(404),
        "/" => Reply::html(sailing(0, &["/a", "/b", "/c"])),
        "/a" => Reply::html(sailing(3, &[])),
        "/b" => Reply::html(sailing(4, &[])),
        _ => Reply::html(sailing(5, &[])),
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_site_is_judged_and_its_cost_is_reported() {
    let meeting = Meeting::new().await;
    sailing_site(&meeting, "club.example");
    let report = visit(&meeting, "https://club.example/").await;
    assert_eq!(report.verdict, Verdict::Relevant);
    assert_eq!(report.stop_reason, StopReason::Confident);
    let targets = meeting.web.targets("club.example");
    assert_eq!(targets, ["/robots.txt", "/", "/a", "/b"]);
    assert_eq!(report.cost.pages, 3);
    assert_eq!(report.cost.robots_requests, 1);
    assert!(report.cost.wire_bytes > 0);
    assert_eq!(report.address, Some(meeting.web.https().ip()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_robots_txt_forbids_is_never_asked_for() {
    let meeting = Meeting::new().await;
    let report = visit(&meeting, "http://robots-none.example/").await;
    assert_eq!(undecided(&report), UndecidedReason::Disallowed);
    assert_eq!(report.stop_reason, StopReason::Disallowed);
    assert_eq!((report.cost.pages, report.cost.robots_requests), (0, 1));
    assert_eq!(meeting.web.targets("robots-none.example"), ["/robots.txt"]);

    meeting
        .web
        .script("fenced.example", |target, _| match target {
            "/robots.txt" => Reply::text("User-agent: *\nDisallow: /a\n"),
            "/" => Reply::html(sailing(0, &["/a", "/a/b", "/c"])),
            _ => Reply::html(sailing(3, &[])),
        });
    let report = visit(&meeting, "http://fenced.example/").await;
    assert_eq!(report.verdict, Verdict::Relevant);
    let targets = meeting.web.targets("fenced.example");
    assert_eq!(targets, ["/robots.txt", "/", "/c"]);
}

/// `Crawl-delay`, a robots.txt that cannot be had, and `Disallow: /`: crawlers are measured by
/// these, on two hosts of six pages each.
#[tokio::test(flavor = "multi_thread")]
async fn crawl_delay_outages_and_disallow_are_all_obeyed() {
    let meeting = Arc::new(Meeting::new().await);
    let cases = [
        ("delay", 200, "User-agent: *\nCrawl-delay: 1\n", 6),
        ("outage", 503, "", 0),
        ("closed", 200, "User-agent: *\nDisallow: /\n", 0),
    ];
    let mut visits = JoinSet::new();
    for (name, status, rules, pages) in cases {
        for number in 0..2 {
            let host = format!("{name}{number}.example");
            meeting.web.script(&host, move |target, _| match target {
                "/robots.txt" if status == 200 => Reply::text(rules),
                "/robots.txt" => Reply::status(status),
                "/" => Reply::html(mute("home", &["/1", "/2", "/3", "/4", "/5"])),
                page => Reply::html(mute(&page[1..], &[])),
            });
            let meeting = Arc::clone(&meeting);
            visits.spawn(async move {
                visit(&meeting, &format!("http://{host}/")).await;
                let requests = meeting.web.requests(&host);
                assert_eq!(requests.len(), 1 + pages, "{host}");
                for pair in requests.windows(2) {
                    let gap = pair[1].at - pair[0].at;
                    assert!(gap >= Duration::from_secs(1), "{host}: {gap:?}");
                }
            });
        }
    }
    visits.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_ask_not_to_be_followed_are_not() {
    let meeting = Meeting::new().await;
    for (host, header) in [
        ("nofollow.example", "nofollow"),
        ("none.example", "none"),
        ("ours.example", "sitescout: nofollow"),
    ] {
        meeting.web.script(host, move |target, _| match target {
            "/robots.txt" => Reply::status(404),
            "/" => Reply::html(sailing(0, &["/a"])).header("X-Robots-Tag", header),
            _ => Reply::html(sailing(3, &[])),
        });
        visit(&meeting, &format!("http://{host}/")).await;
        assert_eq!(meeting.web.targets(host), ["/robots.txt", "/"], "{host}");
    }
    meeting
        .web
        .script("meta.example", |target, _| match target {
            "/robots.txt" => Reply::status(404),
            "/" => {
                let page = sailing(0, &["/a"]);
                Reply::html(format!("<meta name=robots content=NONE>{page}"))
            }
            _ => Reply::html(sailing(3, &[])),
        });
    visit(&meeting, "http://meta.example/").await;
    assert_eq!(meeting.web.targets("meta.example"), ["/robots.txt", "/"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_wants_to_be_left_alone_is_due_later() {
    let meeting = Meeting::new().await;
    for (host, requests) in [
        ("throttled-429.example", 2),
        ("throttled-503.example", 2),
        ("robots-503.example", 1),
        ("robots-429.example", 1),
        ("robots-never-answers.example", 1),
        ("robots-delay-3600.example", 1),
    ] {
        let report = visit(&meeting, &format!("http://{host}/")).await;
        let UndecidedReason::Deferred { not_before, .. } = undecided(&report) else {
            panic!("{report:?}");
        };
        let wait = not_before.duration_since(clock::now());
        let wait = wait.expect("later").as_secs();
        assert!((3_500..=3_600).contains(&wait), "{host}: {wait}");
        assert_eq!(meeting.web.requests(host).len(), requests, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_keeps_failing_is_given_up() {
    let meeting = Meeting::new().await;
    meeting
        .web
        .script("broken.example", |target, _| match target {
            "/robots.txt" => Reply::status(404),
            "/" => {
                let links: Vec<String> = (0..20).map(|number| format!("/{number}")).collect();
                let links: Vec<&str> = links.iter().map(String::as_str).collect();
                Reply::html(format!("<p>come in{}", sailing_links(&links)))
            }
            _ => Reply::status(500),
        });
    let report = visit(&meeting, "http://broken.example/").await;
    assert_eq!(report.stop_reason, StopReason::GivenUp);
    let requests = meeting.web.targets("broken.example").len();
    assert_eq!(requests, 2 + InternalSettings::default().max_failures);

    let report = visit(&meeting, "http://failing-500.example/").await;
    assert_eq!(undecided(&report), UndecidedReason::Failing);
    let report = visit(&meeting, "http://never-answers.example/").await;
    assert_eq!(undecided(&report), UndecidedReason::Unreachable);
    let targets = meeting.web.targets("never-answers.example");
    assert_eq!(
        targets,
        ["/robots.txt", "/"],
        "it is not worth waiting twice"
    );
}

fn sailing_links(links: &[&str]) -> String {
    let links = links.iter().map(|link| format!("<a href={link}>x</a>"));
    links.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_stays_busy_is_due_later_although_it_names_no_time() {
    let meeting = Meeting::new().await;
    meeting
        .web
        .script("crowded.example", |target, _| match target {
            "/robots.txt" => Reply::status(404),
            _ => Reply::status(429),
        });
    let report = visit(&meeting, "http://crowded.example/").await;
    let UndecidedReason::Deferred { not_before, .. } = undecided(&report) else {
        panic!("{report:?}");
    };
    let wait = not_before.duration_since(clock::now());
    assert!(wait.expect("later") > Duration::from_mins(50));
    let tries = 1 + InternalSettings::default().retries;
    assert_eq!(meeting.web.targets("crowded.example").len(), 1 + tries);
    assert_eq!(report.cost.pages, tries);
}

/// An overlong `Retry-After` is obeyed as far as times go, and stops no other visit.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_beyond_all_time_is_a_wait_like_any_other() {
    let meeting = Meeting::new().await;
    for (host, target) in [("page", "/"), ("rules", "/robots.txt")] {
        let host = format!("{host}-for-ever.example");
        meeting.web.script(&host, move |asked, _| match asked {
            asked if asked == target => {
                Reply::status(503).header("Retry-After", "18446744073709551615")
            }
            _ => Reply::status(404),
        });
        let report = visit(&meeting, &format!("http://{host}/")).await;
        let reason = undecided(&report);
        assert!(
            matches!(reason, UndecidedReason::Deferred { .. }),
            "{reason:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_robots_txt_allows_nothing() {
    let meeting = Meeting::new().await;
    let rules = "User-agent: *\nDisallow: /private\n";
    meeting
        .web
        .script("half.example", move |target, _| match target {
            "/robots.txt" => Reply::text(rules).header("Content-Length", "5000"),
            _ => Reply::html(sailing(0, &[])),
        });
    let packed = crate::warc::gzip(rules.repeat(100).as_bytes());
    meeting
        .web
        .script("half-packed.example", move |target, _| match target {
            "/robots.txt" => {
                let half = packed[..packed.len() - 12].to_vec();
                Reply::bare(200, half).header("Content-Encoding", "gzip")
            }
            _ => Reply::html(sailing(0, &[])),
        });
    for host in ["half.example", "half-packed.example"] {
        let report = visit(&meeting, &format!("http://{host}/")).await;
        let reason = undecided(&report);
        assert!(
            matches!(reason, UndecidedReason::Deferred { .. }),
            "{host}: {reason:?}"
        );
        assert_eq!(meeting.web.targets(host), ["/robots.txt"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_line_is_tried_again() {
    let meeting = Meeting::new().await;
    let report = visit(&meeting, "http://flaky.example/").await;
    let outcomes: Vec<&str> = report
        .steps
        .iter()
        .map(|step| step.outcome.name())
        .collect();
    assert_eq!(outcomes[..2], ["unanswered", "mute"], "{report:?}");
    assert_eq!(
        meeting.web.targets("flaky.example")[..3],
        ["/robots.txt", "/", "/"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_end_and_escapes_lead_nowhere() {
    let meeting = Meeting::new().await;
    let report = visit(&meeting, "http://redirect-chain.example/").await;
    let hops = InternalSettings::default().max_redirects + 1;
    assert_eq!(report.cost.pages, hops);
    assert_eq!(report.entrance, url("http://redirect-chain.example/5"));
    for host in [
        "redirect-loop",
        "redirect-self",
        "redirect-to-file",
        "redirect-to-data",
    ] {
        let report = visit(&meeting, &format!("http://{host}.example/")).await;
        assert!(report.cost.pages <= 3, "{host}: {report:?}");
        assert!(report.verdict.undecided_reason().is_some(), "{host}");
    }
    let report = visit(&meeting, "http://redirect-to-private.example/").await;
    assert_eq!(undecided(&report), UndecidedReason::Alias);
    assert_eq!(report.alias_of, Some(url("http://10.0.0.1/")));
    // A visit to the alias is refused before any request.
    let report = visit(&meeting, "http://10.0.0.1/").await;
    assert_eq!(undecided(&report), UndecidedReason::Unreachable);
    assert_eq!(report.cost.pages + report.cost.robots_requests, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn traps_cost_no_more_than_the_budget() {
    let meeting = Meeting::new().await;
    let budget = InternalSettings::default().page_budget;
    for host in ["calendar.example", "sessions.example", "soft-404.example"] {
        let report = visit(&meeting, &format!("http://{host}/")).await;
        let pages = meeting.web.targets(host).len() - 1;
        assert!(pages <= budget, "{host}: {pages}");
        assert_eq!(pages, report.cost.pages, "{host}");
    }
    let sessions = meeting.web.targets("sessions.example");
    let ids = sessions
        .iter()
        .filter(|target| target.contains("jsessionid"));
    assert_eq!(ids.count(), 0, "{sessions:?}");
    let report = visit(&meeting, "http://cookie-wall.example/").await;
    assert!(report.cost.pages <= 2, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_https_is_read_by_http_and_that_is_remembered() {
    // There is no listener on a port that was just released.
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = closed.local_addr().expect("an address");
    let meeting = Meeting::with(|settings| {
        let rule = ResolveRule {
            host: "old.example".to_owned(),
            address: closed,
            tls: true,
        };
        settings.resolve.insert(0, rule);
    })
    .await;
    meeting.web.script("old.example", |target, _| match target {
        "/robots.txt" => Reply::status(404),
        "/" => Reply::html(sailing(
            0,
            &["https://old.example/a", "https://old.example/b"],
        )),
        "/a" => Reply::html(sailing(3, &[])),
        _ => Reply::html(sailing(4, &[])),
    });
    let report = visit(&meeting, "https://old.example/").await;
    assert_eq!(report.verdict, Verdict::Relevant, "{report:?}");
    assert_eq!(report.cost.unanswered, 1, "https was tried once");
    let urls: Vec<&str> = report.steps.iter().map(|step| step.url.as_str()).collect();
    assert_eq!(
        urls,
        [
            "https://old.example/",
            "http://old.example/",
            "http://old.example/a",
            "http://old.example/b"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_certificate_is_an_outcome_of_its_own() {
    for (policy, wanted) in [
        (
            CertificatePolicy::Refuse,
            Verdict::Undecided(UndecidedReason::BadCertificate),
        ),
        (CertificatePolicy::Http, Verdict::Relevant),
    ] {
        let meeting = Meeting::with(|settings| settings.bad_certificate = policy).await;
        sailing_site(&meeting, "expired.club.example");
        let report = visit(&meeting, "https://expired.club.example/").await;
        assert_eq!(report.verdict, wanted);
        let schemes = meeting.web.requests("expired.club.example");
        assert!(schemes.iter().all(|request| request.scheme == "http"));
        assert_eq!(schemes.is_empty(), policy == CertificatePolicy::Refuse);
    }
}

/// A certificate for `www.` alone is a common mistake, and the site is there.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_bad_certificate_other_names_are_tried_by_https() {
    let meeting = Meeting::new().await;
    sailing_site(&meeting, "www.wrong-name.example");
    let report = visit(&meeting, "https://wrong-name.example/").await;
    assert_eq!(report.verdict, Verdict::Relevant);
    assert_eq!(report.entrance, url("https://www.wrong-name.example/"));
    assert!(meeting.web.requests("wrong-name.example").is_empty());
    let requests = meeting.web.requests("www.wrong-name.example");
    assert!(requests.iter().all(|request| request.scheme == "https"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_at_one_page_an_hour_is_judged_by_that_page() {
    let meeting = Meeting::with(|settings| {
        settings.politeness.longest_wait = Duration::from_millis(500);
    })
    .await;
    meeting
        .web
        .script("patient.example", |target, _| match target {
            "/robots.txt" => Reply::text("User-agent: *\nCrawl-delay: 2\n"),
            "/" => Reply::html(sailing(0, &["/a", "/b"])),
            _ => Reply::html(sailing(3, &[])),
        });
    let report = visit(&meeting, "http://patient.example/").await;
    assert!(matches!(
        undecided(&report),
        UndecidedReason::Deferred { .. }
    ));
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let report = visit(&meeting, "http://patient.example/").await;
    assert_eq!(report.verdict, Verdict::Relevant);
    assert_eq!(report.stop_reason, StopReason::BudgetSpent);
    assert_eq!(meeting.web.targets("patient.example"), ["/robots.txt", "/"]);
}
