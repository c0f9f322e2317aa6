//! Sites behind bot protection (gatekeepers), and sites that ask not to be indexed: their verdicts
//! live, from an archive and in a crawl.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use sitescout::classify::SiteModel;
use sitescout::config::{InternalSettings, NoindexPolicy};
use sitescout::fetch::{Archive, Fetcher};
use sitescout::internal::{InternalCrawler, LinkPagesFirst};
use sitescout::parse;
use sitescout::web::{SiteReport, SiteVisit, Verdict, challenge};

use tempfile::TempDir;

use crate::freshness::History;
use crate::live::{Meeting, url};
use crate::pathologies::{CHALLENGE, Reply};
use crate::scripted_web::{ScriptedWeb, model, mute, sailing};
use crate::warc::{WarcBuilder, in_file};
use crate::{LIMITS, page, without_index};

/// Trained once, and not on a thread of the runtime, which training would block.
static MODEL: LazyLock<Arc<SiteModel>> = LazyLock::new(|| {
    let learning = thread::spawn(model);
    learning.join().expect("a model")
});

/// A name, headers and a body.
type Challenge = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
);

/// Challenges of gatekeepers: marked by a header, or by the content of the page.
const CHALLENGES: [Challenge; 9] = [
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
    let model = Arc::clone(&MODEL);
    let pages = Arc::new(LinkPagesFirst);
    let crawler = InternalCrawler::new(fetcher, model, settings, LIMITS, pages);
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
            // Neither retried nor followed.
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

    // A mute page is followed, also past a gate; a visit that met only gates reports that.
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

/// Refusals are ordinary responses, and so are pages that mention gatekeepers.
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
async fn a_site_that_redirects_to_a_gatekeeper_has_not_moved() {
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

/// The metric of visits that met a gatekeeper.
fn challenged(history: &History) -> String {
    let metrics = history.metrics.render();
    let mut lines = metrics.lines();
    let own = lines.find(|line| line.starts_with("sitescout_visits_challenged_total{"));
    own.expect("a metric").to_owned()
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
        let metric = r#"sitescout_visits_challenged_total{topic="sailing"} 1"#;
        assert_eq!(challenged(&history), metric);
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

    // A site that admits the crawler before that is judged as any other.
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

// === sites that ask not to be indexed ===

/// A page of a site about sailing.
fn club(name: &str, head: &str, links: &[&str]) -> String {
    let links: Vec<String> = links
        .iter()
        .map(|to| format!("<a href='{to}'>{to}</a> "))
        .collect();
    format!(
        "<title>{name} yacht club</title>{head}<p>sailing regatta yacht keel mast boat sail harbour \
         dinghy crew wind club race mooring tiller jib skipper at {name}</p>{}",
        links.concat()
    )
}

/// A web of sites that ask in various ways, and the program beside it.
struct Shy {
    directory: TempDir,
}

impl Shy {
    fn new(internal: &str) -> Self {
        let others = ["header", "meta", "ours", "none", "theirs", "inner", "lost"];
        let others: Vec<String> = others
            .iter()
            .map(|name| format!("https://{name}.example/"))
            .collect();
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let with_header = |url: &str, header: &str, body: &str| {
            let http = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Robots-Tag: {header}\r\n\r\n{body}"
            );
            (url.to_owned(), http.into_bytes())
        };
        let meta = |name: &str| format!("<meta name={name} content='NOINDEX'>");
        let archive = WarcBuilder::default()
            .page("https://hub.example/", &club("hub", "", &others))
            .page(
                "https://meta.example/",
                &club("meta", &meta("robots"), &["https://beyond.example/"]),
            )
            .page(
                "https://ours.example/",
                &club("ours", &meta("sitescout"), &[]),
            )
            .page("https://beyond.example/", &club("beyond", "", &[]))
            .page("https://hidden.example/", &club("hidden", "", &[]))
            .page("https://inner.example/", &club("inner", "", &["/a"]))
            .page(
                "https://inner.example/a",
                &club("deep", &meta("robots"), &[]),
            )
            .page(
                "https://lost.example/",
                &format!("<title>404 not found</title>{}", meta("robots")),
            );
        let headers = [
            with_header(
                "https://header.example/",
                "noindex",
                &club("header", "", &[]),
            ),
            with_header(
                "https://none.example/",
                "none",
                &club("none", "", &["https://hidden.example/"]),
            ),
            with_header(
                "https://theirs.example/",
                "otherbot: noindex",
                &club("theirs", "", &[]),
            ),
        ];
        let archive = headers
            .iter()
            .fold(archive, |archive, (url, http)| archive.response(url, http));
        let directory = tempfile::tempdir().expect("a directory");
        let shy = Self { directory };
        fs::write(shy.path("web.warc"), archive.plain()).expect("room");
        let settings = format!("[internal]\n{internal}\n[external]\ncrawlers = 1\n");
        fs::write(shy.path("c.toml"), settings).expect("room");
        shy
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, arguments: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sitescout"));
        command
            .current_dir(self.directory.path())
            .args(["--config", "c.toml"])
            .args(arguments.split_whitespace());
        let output = command.output().expect("an end");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments}: {stderr}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The verdict of each host, and whether it is marked.
    fn said(&self, arguments: &str) -> BTreeMap<String, (String, bool)> {
        let lines = self.run(arguments);
        let lines = lines.lines().map(|line| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let host = line["host"].as_str().expect("a host").to_owned();
            let verdict = match line["undecided_reason"].as_str() {
                Some(reason) => reason.to_owned(),
                None => line["verdict"].as_str().expect("a verdict").to_owned(),
            };
            (host, (verdict, line["noindex"] == true))
        });
        lines.collect()
    }
}

const SHY: [&str; 4] = [
    "header.example",
    "meta.example",
    "ours.example",
    "none.example",
];

/// With the default, with each value, in every output.
#[test]
fn sites_that_ask_not_to_be_indexed_are_left_out_marked_or_listed() {
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/site-models");
    for (setting, verdict, is_marked) in [
        ("", "noindex", true),
        ("noindex = 'leave-out'", "noindex", true),
        ("noindex = 'mark'", "relevant", true),
        ("noindex = 'list'", "relevant", false),
    ] {
        let shy = Shy::new(setting);
        let hosts = "theirs.example inner.example lost.example";
        let classified = shy.said(&format!(
            "classify --json --warc web.warc --model {models}/sailing {} {hosts}",
            SHY.join(" ")
        ));
        shy.run(&format!(
            "crawl sailing --models {models} --web warc:web.warc --start hub.example"
        ));
        let judged = shy.said("export --topic sailing --all --format jsonl");
        let listed = shy.said("export --topic sailing --format jsonl");
        let csv = shy.run("export --topic sailing --format csv");
        for host in SHY {
            let wanted = (verdict.to_owned(), is_marked);
            assert_eq!(classified[host], wanted, "{setting} {host}");
            assert_eq!(judged[host], wanted, "{setting} {host}");
            let is_listed = verdict == "relevant";
            assert_eq!(listed.contains_key(host), is_listed, "{setting} {host}");
            let line = csv.lines().find(|line| line.contains(host));
            assert_eq!(line.is_some(), is_listed);
            let ends = line.is_none_or(|line| line.ends_with(&format!(",{is_marked}")));
            assert!(ends, "{line:?}");
            let inspected = shy.run(&format!("inspect {host}"));
            let is_mentioned = inspected.contains("asks not to be indexed");
            assert_eq!(is_mentioned, is_marked, "{inspected}");
        }
        for host in [
            "hub.example",
            "theirs.example",
            "inner.example",
            "beyond.example",
        ] {
            // Links of a page that asks not to be indexed are followed.
            assert_eq!(
                listed[host],
                ("relevant".to_owned(), false),
                "{setting} {host}"
            );
        }
        assert_eq!(
            classified["lost.example"],
            ("nothing_spoke".to_owned(), false)
        );
        assert!(!judged.contains_key("hidden.example"), "nofollow holds");
    }
}

/// A site that asks later leaves the list with the reason, and a marked one gets a new entry.
#[test]
fn a_site_that_asks_later_leaves_the_list() {
    let web = |head: &str| {
        ScriptedWeb::default()
            .page(
                "http://hub.example/",
                &sailing(0, &["/a", "https://club.example/"]),
            )
            .page("http://hub.example/a", &sailing(3, &[]))
            .page(
                "http://club.example/",
                &format!("{head}{}", sailing(2, &["/a"])),
            )
            .page("http://club.example/a", &sailing(5, &[]))
    };
    let asking = "<meta name=robots content=noindex>";
    for (policy, verdict) in [
        (NoindexPolicy::LeaveOut, "undecided (noindex)"),
        (NoindexPolicy::Mark, "relevant"),
    ] {
        let mut history = History::new();
        history.settings.internal.noindex = policy;
        history.crawl(web(""));
        let before = history.verdict("club.example");
        assert_eq!((before.verdict, before.noindex), (Verdict::Relevant, false));
        history.wait(40 * DAY);
        history.crawl(web(asking));
        let after = history.verdict("club.example");
        assert_eq!(after.verdict.to_string(), verdict);
        assert!(after.noindex && after.seq > before.seq, "it is news");
        history.wait(40 * DAY);
        history.crawl(web(asking));
        assert_eq!(history.verdict("club.example").seq, after.seq, "it is none");
    }
}
