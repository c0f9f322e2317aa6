//! Sites that a gatekeeper guards, and sites that ask not to be listed: what becomes of them,
//! live, out of an archive and in a crawl.

use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use sitescout::classify::SiteModel;
use sitescout::config::InternalSettings;
use sitescout::fetch::{Archive, Fetcher};
use sitescout::internal::InternalCrawler;
use sitescout::parse;
use sitescout::web::{SiteReport, SiteVisit, Verdict, challenge};

use crate::freshness::History;
use crate::live::{Meeting, url};
use crate::pathologies::{CHALLENGE, Reply};
use crate::scripted_web::{ScriptedWeb, model, mute, sailing};
use crate::warc::{WarcBuilder, in_file};
use crate::{LIMITS, page, without_index};

/// Learned once, and not on a thread of the runtime, which learning would block.
static MODEL: LazyLock<Arc<SiteModel>> = LazyLock::new(|| {
    let learning = thread::spawn(model);
    learning.join().expect("a model")
});

/// Challenges as gatekeepers make them: a header, or what stands on the page.
const CHALLENGES: [(&str, &[(&str, &str)], &str); 9] = [
    ("anubis", &[], CHALLENGE),
    (
        "cloudflare-header",
        &[("cf-mitigated", "challenge")],
        "<title>One moment</title><p>Checking.</p>",
    ),
    (
        "cloudflare-body",
        &[],
        "<!DOCTYPE html><title>Just a moment...</title><noscript>Enable JavaScript and cookies \
         to continue</noscript><script>(function(){window._cf_chl_opt={cvId:'3'};var a=document\
         .createElement('script');a.src='/cdn-cgi/challenge-platform/h/g/orchestrate';})()</script>",
    ),
    ("aws", &[("x-amzn-waf-action", "challenge")], ""),
    (
        "datadome",
        &[("x-datadome", "protected")],
        "<html><head><title>club.example</title></head><body><script data-cfasync=false>\
         var dd={'rt':'c','host':'geo.captcha-delivery.com'}</script>\
         <script src='https://ct.captcha-delivery.com/c.js'></script></body></html>",
    ),
    (
        "human",
        &[],
        "<title>Access to this page has been denied</title><div id=px-captcha></div>\
         <script>window._pxAppId='PX1';</script>",
    ),
    (
        "imperva",
        &[],
        "<html><head><META NAME=\"ROBOTS\" CONTENT=\"NOINDEX, NOFOLLOW\">\
         <script src=\"/_Incapsula_Resource?SWJIYLWA=5\"></script></head><body></body></html>",
    ),
    (
        "sucuri",
        &[],
        "<html><title>You are being redirected...</title><noscript>Javascript is required.\
         </noscript><script>var s={},u,c,sucuri_cloudproxy_js='';</script></html>",
    ),
    (
        "siteground",
        &[("sg-captcha", "challenge")],
        "<html><head><meta http-equiv=\"refresh\" \
         content=\"0;/.well-known/sgcaptcha/?r=%2F\"></head></html>",
    ),
];

const STATUSES: [u16; 6] = [200, 202, 401, 403, 429, 503];

async fn visit(fetcher: Arc<dyn Fetcher>, entry: &str, settings: InternalSettings) -> SiteReport {
    let crawler = InternalCrawler::new(fetcher, Arc::clone(&MODEL), settings, LIMITS);
    crawler.sample(SiteVisit::at(&url(entry))).await
}

fn outcomes(report: &SiteReport) -> Vec<&str> {
    report
        .steps
        .iter()
        .map(|step| step.outcome.name())
        .collect()
}

/// The words that people see.
fn verdict(report: &SiteReport) -> (String, &'static str) {
    (report.verdict.to_string(), report.stop_reason.name())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_at_the_entrance_is_no_evidence_whatever_its_status() {
    let meeting = Meeting::new().await;
    for (name, headers, body) in CHALLENGES {
        for status in STATUSES {
            let host = format!("{name}-{status}.example");
            meeting.web.script(&host, move |target, _| match target {
                "/robots.txt" => Reply::status(404),
                "/" => {
                    let reply = Reply {
                        status,
                        ..Reply::html(body)
                    };
                    let headers = headers.iter();
                    headers.fold(reply, |reply, (name, value)| reply.header(name, value))
                }
                _ => Reply::html(sailing(0, &[])),
            });
            let live = Arc::clone(&meeting.live) as Arc<dyn Fetcher>;
            let report = visit(
                live,
                &format!("http://{host}/"),
                InternalSettings::default(),
            )
            .await;
            let wanted = ("undecided (challenged)".to_owned(), "challenged");
            assert_eq!(verdict(&report), wanted, "{host}");
            assert_eq!(outcomes(&report), ["challenged"], "{host}");
            assert!(report.transversal_links.is_empty(), "{host}");
            assert!(report.alias_of.is_none(), "{host}");
            // Neither asked again nor followed.
            assert_eq!(meeting.web.targets(&host), ["/robots.txt", "/"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_of_challenges_is_judged_as_they_were() {
    let mut archive = WarcBuilder::default();
    for (name, headers, body) in CHALLENGES {
        for status in STATUSES {
            let headers = headers.iter();
            let headers: Vec<String> = headers
                .map(|(name, value)| format!("{name}: {value}\r\n"))
                .collect();
            let http = format!(
                "HTTP/1.1 {status} Whatever\r\nContent-Type: text/html\r\n{}\r\n{body}",
                headers.concat()
            );
            let url = format!("http://{name}-{status}.example/");
            archive = archive.response(&url, http.as_bytes());
        }
    }
    let (_directory, file) = in_file("gates.warc", &archive.plain());
    let archive = Archive::open(&[file], &without_index()).expect("an archive");
    for (name, ..) in CHALLENGES {
        for status in STATUSES {
            let entry = format!("http://{name}-{status}.example/");
            let archive = Arc::new(archive.clone());
            let report = visit(archive, &entry, InternalSettings::default()).await;
            let wanted = ("undecided (challenged)".to_owned(), "challenged");
            assert_eq!(verdict(&report), wanted, "{entry}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_instead_of_robots_txt_is_the_reason_and_no_page_is_asked_for() {
    let meeting = Meeting::new().await;
    for fault in ["header", "header-200", "200", "202", "401", "403", "503"] {
        let host = format!("robots-challenge-{fault}.example");
        let live = Arc::clone(&meeting.live) as Arc<dyn Fetcher>;
        let report = visit(
            live,
            &format!("http://{host}/"),
            InternalSettings::default(),
        )
        .await;
        let wanted = ("undecided (challenged)".to_owned(), "challenged");
        assert_eq!(verdict(&report), wanted, "{host}");
        assert_eq!(meeting.web.targets(&host), ["/robots.txt"], "{host}");
    }
    // Other outages keep their own reason.
    let live = Arc::clone(&meeting.live) as Arc<dyn Fetcher>;
    let entry = "http://robots-503.example/";
    let report = visit(live, entry, InternalSettings::default()).await;
    assert_eq!(report.stop_reason.name(), "deferred");
}

#[tokio::test]
async fn a_challenge_among_pages_is_only_a_page_without_evidence() {
    let web = ScriptedWeb::default()
        .page("http://club.example/", &sailing(0, &["/gate", "/a"]))
        .page("http://club.example/gate", CHALLENGE)
        .page("http://club.example/a", &sailing(3, &[]));
    let web = Arc::new(web);
    let report = visit(
        web.clone(),
        "http://club.example/",
        InternalSettings::default(),
    )
    .await;
    assert_eq!(report.verdict, Verdict::Relevant);
    assert!(!web.asked().contains(&"/trap".to_owned()));
    assert!(report.transversal_links.is_empty());

    // A page that says nothing leads on, also past a gate; and who found only gates says so.
    let web = ScriptedWeb::default()
        .page(
            "http://mute.example/",
            &mute("home", &["/gate", "/a", "/b"]),
        )
        .page_with("http://mute.example/gate", 503, &[], CHALLENGE)
        .page("http://mute.example/a", &sailing(0, &[]))
        .page("http://mute.example/b", &sailing(3, &[]));
    let report = visit(
        Arc::new(web),
        "http://mute.example/",
        InternalSettings::default(),
    )
    .await;
    assert_eq!(report.verdict, Verdict::Relevant);
    let web = ScriptedWeb::default()
        .page("http://only.example/", &mute("home", &["/gate"]))
        .page_with("http://only.example/gate", 403, &[], CHALLENGE);
    let report = visit(
        Arc::new(web),
        "http://only.example/",
        InternalSettings::default(),
    )
    .await;
    assert_eq!(report.verdict.to_string(), "undecided (challenged)");
}

/// Refusals are answers, and so are pages that happen to speak of gatekeepers.
#[tokio::test]
async fn what_is_no_challenge_is_not_taken_for_one() {
    let about = "<title>Just a moment... what Cloudflare does to harbours</title><h1>Making sure \
        you're not a bot!</h1><p>Their page has a script with <code>_cf_chl_opt</code> and \
        <code>/cdn-cgi/challenge-platform/</code>, and Anubis has \
        <code>/.within.website/x/cmd/anubis/</code>; others have sucuri_cloudproxy_js.</p>\
        <script src=/cdn-cgi/challenge-platform/scripts/jsd/main.js></script>";
    let parsed = parse::parse(&page(&[("content-type", "text/html")], about), &LIMITS);
    assert!(parsed.signs.names().next().is_none());
    assert!(parsed.is_authored());
    let blocked = "<title>Attention Required! | Cloudflare</title><h1>Sorry, you have been \
        blocked</h1><p>You are unable to access club.example</p>";
    let web = ScriptedWeb::default().page_with("http://club.example/", 403, &[], blocked);
    let report = visit(
        Arc::new(web),
        "http://club.example/",
        InternalSettings::default(),
    )
    .await;
    assert_eq!(report.verdict.to_string(), "undecided (failing)");
    for status in [401, 403, 429, 503] {
        let web = ScriptedWeb::default().page_with("http://club.example/", status, &[], about);
        let report = visit(
            Arc::new(web),
            "http://club.example/",
            InternalSettings::default(),
        );
        let report = report.await;
        assert_ne!(report.stop_reason.name(), "challenged", "{status}");
    }
}

/// A site that redirects its visitors to a gatekeeper is not an alias of it.
#[tokio::test]
async fn whoever_is_sent_to_a_gatekeeper_has_not_moved() {
    let gate = "https://validate.perfdrive.com/?ssa=1";
    let web = ScriptedWeb::default().answer("http://club.example/", 302, &[("location", gate)]);
    let report = visit(
        Arc::new(web),
        "http://club.example/",
        InternalSettings::default(),
    )
    .await;
    assert_eq!(report.verdict.to_string(), "undecided (challenged)");
    assert_eq!(report.alias_of, None);
}

/// Operators look there.
#[test]
fn the_guide_names_every_gatekeeper() {
    let guide = include_str!("../../docs/operations.md");
    for gatekeeper in challenge::gatekeepers() {
        assert!(
            guide.contains(&format!("\n| {gatekeeper} | ")),
            "{gatekeeper}"
        );
    }
}

const DAY: Duration = Duration::from_hours(24);

/// What a crawl says of visits that met a gatekeeper.
fn challenged(history: &History) -> String {
    let figures = history.metrics.render();
    let mut lines = figures.lines();
    let own = lines.find(|line| line.starts_with("sitescout_visits_challenged_total{"));
    own.expect("a figure").to_owned()
}

#[test]
fn a_guarded_site_is_visited_again_until_it_is_given_up_with_the_reason() {
    let web = || {
        ScriptedWeb::default()
            .page(
                "http://hub.example/",
                &sailing(0, &["/a", "https://guarded.example/"]),
            )
            .page("http://hub.example/a", &sailing(3, &[]))
            .page_with("http://guarded.example/", 403, &[], CHALLENGE)
    };
    let mut history = History::new();
    let tries = history.settings.external.max_deferrals;
    for _ in 0..tries {
        let run = history.crawl(web());
        let mut judged = run.shown.iter().map(|shown| shown.site.to_string());
        assert!(
            judged.all(|host| host == "hub.example"),
            "nothing is known yet"
        );
        assert_eq!(run.totals.deferred, 1);
        let figure = r#"sitescout_visits_challenged_total{topic="sailing"} 1"#;
        assert_eq!(challenged(&history), figure);
        // Not before its time.
        let run = history.crawl(web());
        assert!(
            !run.web.asked().iter().any(|path| path == "/"),
            "{:?}",
            run.web.asked()
        );
        history.wait(4 * DAY);
    }
    let run = history.crawl(web());
    assert_eq!(run.totals.deferred, 0);
    let verdict = history.verdict("guarded.example").verdict;
    assert_eq!(verdict.to_string(), "undecided (challenged)");

    // One that lets us in before that is judged as any other.
    let mut history = History::new();
    history.crawl(web());
    history.wait(DAY);
    let open = web()
        .page("http://guarded.example/", &sailing(0, &["/a"]))
        .page("http://guarded.example/a", &sailing(5, &[]));
    history.crawl(open);
    assert_eq!(
        history.verdict("guarded.example").verdict,
        Verdict::Relevant
    );
}

#[test]
fn a_site_that_was_judged_keeps_its_verdict_behind_a_gate() {
    let hub = |web: ScriptedWeb| {
        web.page(
            "http://hub.example/",
            &sailing(0, &["/a", "https://club.example/"]),
        )
        .page("http://hub.example/a", &sailing(3, &[]))
    };
    let open = hub(ScriptedWeb::default())
        .page("http://club.example/", &sailing(2, &["/a"]))
        .page("http://club.example/a", &sailing(5, &[]));
    let guarded =
        || hub(ScriptedWeb::default()).page_with("http://club.example/", 503, &[], CHALLENGE);
    let mut history = History::new();
    history.crawl(open);
    let before = history.verdict("club.example");
    assert_eq!(before.verdict, Verdict::Relevant);
    for _ in 0..6 {
        history.wait(40 * DAY);
        history.crawl(guarded());
        let now = history.verdict("club.example");
        assert_eq!((now.verdict, now.seq), (before.verdict, before.seq));
    }
}
