//! Hosts blocked by the operator get no request, whatever path leads there: links, redirects, frames,
//! robots.txt, or the command line.

use std::collections::BTreeMap;
use std::fs;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;
use sitescout::config::{HostLists, InternalSettings, StoreSettings};
use sitescout::fetch::Fetcher;
use sitescout::internal::{InternalCrawler, LinkPagesFirst};
use sitescout::store::{Edit, EditStore, KeyValueStore};
use sitescout::web::{SiteId, SiteVisit};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::LIMITS;
use crate::live::{Meeting, url};
use crate::pathologies::{Pathologies, Reply};
use crate::scripted_web::{model, sailing};

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/site-models");

/// Long enough for a site of its own, about sailing.
const PAGE: &str = "<title>Yacht club</title><p>sailing regatta yacht keel mast boat sail harbour \
    dinghy crew wind club race mooring tiller jib skipper</p>";

/// Hosts that lead to the blocked one, each in a different way.
const REFERRERS: [&str; 8] = [
    "robots.example",
    "robots-far.example",
    "robots-www.example",
    "redirect.example",
    "refresh.example",
    "frames.example",
    "links.example",
    "inner.example",
];

/// A web in which everything leads to `blocked.example`, and the program beside it.
struct BlockedWeb {
    web: Pathologies,
    directory: TempDir,
}

impl BlockedWeb {
    async fn serve(external: &str) -> Self {
        let web = Pathologies::start().await;
        web.script("robots.example", |target, _| match target {
            "/robots.txt" => Reply::redirect("http://blocked.example/robots.txt"),
            _ => Reply::html(PAGE),
        });
        web.script("robots-far.example", |target, _| match target {
            "/robots.txt" => Reply::redirect("http://relay.example/robots.txt"),
            _ => Reply::html(PAGE),
        });
        web.script("relay.example", |target, _| match target {
            "/robots.txt" => Reply::redirect("https://blocked.example:8443/rules.txt"),
            _ => Reply::html(PAGE),
        });
        web.script("robots-www.example", |target, _| match target {
            "/robots.txt" => Reply::redirect("http://www.blocked.example/robots.txt"),
            _ => Reply::html(PAGE),
        });
        web.script("redirect.example", |target, _| match target {
            "/robots.txt" => Reply::status(404),
            _ => Reply::redirect("http://blocked.example/"),
        });
        let head = |head: &'static str| {
            move |target: &str, _: usize| match target {
                "/robots.txt" => Reply::status(404),
                "/" => Reply::html(format!("{head}{PAGE}")),
                _ => Reply::redirect("http://blocked.example/there"),
            }
        };
        web.script(
            "refresh.example",
            head("<meta http-equiv=refresh content='0; url=http://blocked.example/'>"),
        );
        web.script(
            "frames.example",
            head("<frameset><frame src='http://blocked.example/'></frameset>"),
        );
        web.script(
            "links.example",
            head("<a href='http://blocked.example/'>a</a><a href='http://www.blocked.example/b'>b</a>"),
        );
        web.script(
            "inner.example",
            head("<a href=/away>away</a><a href=/out>out</a>"),
        );
        let directory = tempfile::tempdir().expect("a directory");
        let settings = format!(
            "[fetch]\nresolve = [{{ host = '*.example', address = '{}' }}]\n\
             [fetch.politeness]\npause = '0 s'\n[external]\n{external}\n",
            web.http()
        );
        fs::write(directory.path().join("live.toml"), settings).expect("room for settings");
        Self { web, directory }
    }

    async fn run(&self, arguments: &str) -> Output {
        let mut command = Command::cargo_bin("sitescout").expect("the program");
        command
            .current_dir(self.directory.path())
            .args(arguments.split_whitespace());
        let running = tokio::task::spawn_blocking(move || command.output());
        running.await.expect("no panic").expect("an end")
    }

    fn assert_unseen(&self) {
        for host in ["blocked.example", "www.blocked.example"] {
            assert_eq!(self.web.targets(host), [""; 0], "{host}");
            assert_eq!(self.web.hellos(host), 0, "{host}");
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What became of each host.
fn reasons(output: &Output) -> BTreeMap<String, String> {
    let lines = text(&output.stdout);
    let lines = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let reason = match line["undecided_reason"].as_str() {
            Some(reason) => reason.to_owned(),
            None => word("verdict"),
        };
        (word("host"), reason)
    });
    lines.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_host_is_never_asked_by_classify() {
    let served = BlockedWeb::serve("block = ['blocked.example']").await;
    let hosts = "blocked.example www.blocked.example blocked.example:8080 http://blocked.example/a";
    let classify = format!(
        "classify --json --config live.toml --model {MODELS}/sailing {hosts} {}",
        REFERRERS.join(" ")
    );
    let output = served.run(&classify).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    served.assert_unseen();
    let reasons = reasons(&output);
    for (host, wanted) in [
        ("blocked.example", "blocked"),
        ("blocked.example:8080", "blocked"),
        ("robots.example", "blocked"),
        ("robots-far.example", "blocked"),
        ("robots-www.example", "blocked"),
        ("redirect.example", "alias"),
        ("refresh.example", "relevant"),
        ("links.example", "relevant"),
    ] {
        assert_eq!(reasons[host], wanted, "{host}");
    }
    // A site whose robots.txt is unreachable is not read.
    assert_eq!(served.web.targets("robots.example"), ["/robots.txt"]);
    assert_eq!(served.web.targets("relay.example"), ["/robots.txt"]);
}

/// If there is an allow list, no other host gets a request.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_not_allowed_is_never_asked_either() {
    let allowed = REFERRERS.map(|host| format!("'{host}'")).join(", ");
    let served = BlockedWeb::serve(&format!("allow = [{allowed}]")).await;
    let classify = format!(
        "classify --json --config live.toml --model {MODELS}/sailing blocked.example {}",
        REFERRERS.join(" ")
    );
    let output = served.run(&classify).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    served.assert_unseen();
    assert_eq!(served.web.targets("relay.example"), [""; 0]);
    let reasons = reasons(&output);
    assert_eq!(reasons["robots-far.example"], "blocked");
    assert_eq!(reasons["links.example"], "relevant");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_host_is_never_asked_by_a_crawl_or_by_training() {
    let served =
        BlockedWeb::serve("block = ['www.blocked.example']\nrecheck_after = 'never'").await;
    let crawl = format!(
        "crawl sailing --json --config live.toml --models {MODELS} --start blocked.example {}",
        REFERRERS.join(" ")
    );
    let output = served.run(&crawl).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    served.assert_unseen();
    assert!(!served.web.targets("links.example").is_empty());
    let labels: Vec<String> = REFERRERS
        .iter()
        .chain(&["blocked.example"])
        .map(|host| format!("{host}\tsailing\n"))
        .collect();
    fs::write(served.directory.path().join("labels.tsv"), labels.concat()).expect("labels");
    let before = served.web.targets("inner.example").len();
    let train = "train sailing --labels labels.tsv --config live.toml --out out";
    let output = served.run(train).await;
    served.assert_unseen();
    assert!(
        served.web.targets("inner.example").len() > before,
        "{}",
        text(&output.stderr)
    );
}

/// What was blocked through the API is in the store, and holds for other commands on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_block_by_an_edit_holds_for_every_user_of_the_store() {
    let served = BlockedWeb::serve("recheck_after = 'never'").await;
    let state = served.directory.path().join("state");
    let store = KeyValueStore::open(&state, &StoreSettings::default()).expect("a store");
    let block = Edit::Block {
        site: site("blocked.example"),
        note: String::new(),
    };
    store.edit(block).await.expect("an edit");
    drop(store);
    let crawl = format!(
        "crawl sailing --json --config live.toml --models {MODELS} --start blocked.example {}",
        REFERRERS.join(" ")
    );
    let output = served.run(&crawl).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    served.assert_unseen();
    assert_eq!(served.web.targets("robots.example"), ["/robots.txt"]);
    let labels = "blocked.example\tsailing\nrobots.example\tsailing\ninner.example\tsailing\n";
    fs::write(served.directory.path().join("labels.tsv"), labels).expect("labels");
    let before = served.web.targets("inner.example").len();
    let train = "train sailing --labels labels.tsv --config live.toml --out out --from-decisions \
                 --state state";
    let output = served.run(train).await;
    served.assert_unseen();
    assert!(
        served.web.targets("inner.example").len() > before,
        "{}",
        text(&output.stderr)
    );
}

fn site(host: &str) -> SiteId {
    host.parse().expect("a host")
}

/// A block during a visit ends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_visit_under_way_ends_with_the_block() {
    let meeting = Meeting::new().await;
    let model = tokio::task::spawn_blocking(model).await.expect("a model");
    let live = Arc::clone(&meeting.live);
    meeting.web.script("club.example", move |target, _| {
        if target == "/" {
            live.set_block(&site("club.example"), true);
        }
        match target {
            "/robots.txt" => Reply::status(404),
            "/" => Reply::html(sailing(0, &["/a", "/b", "https://www.club.example/c"])),
            _ => Reply::html(sailing(3, &[])),
        }
    });
    let fetcher = Arc::clone(&meeting.live) as Arc<dyn Fetcher>;
    let settings = InternalSettings::default();
    let pages = Arc::new(LinkPagesFirst);
    let crawler = InternalCrawler::new(fetcher, model, settings, LIMITS, pages);
    let visit = SiteVisit::at(&url("http://club.example/"));
    let report = crawler.sample(visit.clone()).await;
    assert_eq!(report.verdict.to_string(), "undecided (blocked)");
    assert_eq!(meeting.web.targets("club.example"), ["/robots.txt", "/"]);
    assert_eq!(meeting.web.requests("www.club.example").len(), 0);
    meeting.live.set_block(&site("club.example"), false);
    meeting
        .web
        .script("club.example", |target, _| match target {
            "/robots.txt" => Reply::status(404),
            "/" => Reply::html(sailing(0, &["/a"])),
            _ => Reply::html(sailing(3, &[])),
        });
    let report = crawler.sample(visit).await;
    assert_eq!(report.verdict.to_string(), "relevant");
}

/// A request that waits for its turn when the host is blocked is not sent afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_waits_is_not_sent_after_the_block() {
    let pause = Duration::from_secs(5);
    let meeting = Meeting::with(|settings| settings.politeness.pause = pause).await;
    meeting
        .web
        .script("slow.example", |target, _| match target {
            "/robots.txt" => Reply::status(404),
            _ => Reply::html(PAGE),
        });
    let live = Arc::clone(&meeting.live);
    // robots.txt is requested first, so that the page has to wait.
    let waiting = tokio::spawn(async move { live.fetch(&url("http://slow.example/")).await });
    while meeting.web.targets("slow.example").is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    let block = ["slow.example".to_owned()];
    meeting.live.set_host_lists(HostLists::new(&block, &[]));
    let error = waiting.await.expect("no panic").expect_err("a block");
    assert_eq!(error.kind.reason().name(), "blocked");
    assert_eq!(meeting.web.targets("slow.example"), ["/robots.txt"]);
}
