//! The live web from the command line: sites are judged, trained on, recorded and replayed.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;

use assert_cmd::Command;
use serde_json::Value;
use sitescout::fetch::Archive;
use sitescout::web::PageUrl;
use tempfile::TempDir;

use crate::pathologies::{Pathologies, Reply};
use crate::{fixture, without_index};

/// The sites of the small archive, served live.
struct Coast {
    web: Pathologies,
    directory: TempDir,
}

/// The small archive, served live.
pub(crate) async fn serve_small_archive() -> Pathologies {
    let web = Pathologies::start().await;
    let archive = Archive::open(&[fixture("coast.warc.gz")], &without_index());
    let archive = archive.expect("the small archive");
    for (site, _) in archive.sites() {
        let (archive, host) = (archive.clone(), site.to_string());
        web.script(site.as_str(), move |target, _| {
            answer(&archive, &host, target)
        });
    }
    web
}

impl Coast {
    async fn serve() -> Self {
        let web = serve_small_archive().await;
        // The archive does not have it.
        web.script("lost-marina.example", |_, _| Reply::status(404));
        let directory = tempfile::tempdir().expect("a directory");
        let coast = Self { web, directory };
        let http = coast.web.http();
        let settings = format!(
            "{}\n{}",
            resolve(http),
            "[fetch.politeness]\npause = '0 s'\n"
        );
        fs::write(coast.path("live.toml"), settings).expect("room for settings");
        coast
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the program in the directory, beside the servers.
    async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::cargo_bin("sitescout").expect("the program");
        command.current_dir(self.directory.path()).args(arguments);
        let running = tokio::task::spawn_blocking(move || command.output());
        running.await.expect("no panic").expect("an end")
    }
}

fn resolve(address: SocketAddr) -> String {
    format!("[fetch]\nresolve = [{{ host = '*.example', address = '{address}' }}]")
}

/// The response of a live server of an archived site.
pub(crate) fn answer(archive: &Archive, host: &str, target: &str) -> Reply {
    let page: PageUrl = format!("http://{host}{target}")
        .parse()
        .expect("an address");
    match archive.read(&page).expect("a readable archive") {
        None => Reply::status(404),
        Some(page) => {
            let mut reply = Reply::bare(page.status.as_u16(), page.body.clone());
            for name in ["content-type", "location"] {
                if let Some(value) = page.headers.get(name) {
                    reply = reply.header(name, value.to_str().expect("text"));
                }
            }
            reply
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn verdicts(output: &Output) -> Vec<(String, String, String)> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let field = |site: &Value, name: &str| site[name].to_string();
    text(&output.stdout)
        .lines()
        .map(|line| {
            let site: Value = serde_json::from_str(line).expect("JSON");
            (
                field(&site, "host"),
                field(&site, "verdict"),
                field(&site, "confidence"),
            )
        })
        .collect()
}

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/site-models/sailing");

#[tokio::test(flavor = "multi_thread")]
async fn what_is_recorded_replays_to_the_same_verdicts() {
    let coast = Coast::serve().await;
    let hosts = fixture("coast.unseen.txt").to_string_lossy().into_owned();
    let classify = ["classify", "--json", "--model", MODEL, "--hosts", &hosts];
    let mut live = classify.to_vec();
    live.extend(["--config", "live.toml", "--record", "out.warc.gz"]);
    let live = coast.run(&live).await;
    let stderr = text(&live.stderr);
    assert!(stderr.contains("requests and their answers"), "{stderr}");
    let live = verdicts(&live);
    assert!(live.len() > 10 && live.iter().any(|(_, verdict, _)| verdict == "\"relevant\""));
    let seen: usize = coast
        .web
        .all_hosts()
        .iter()
        .map(|host| coast.web.requests(host).len())
        .sum();
    assert!(
        stderr.contains(&format!("recorded: {seen} requests")),
        "{seen}: {stderr}"
    );

    // For readers that are not ours; `.ci/run` has one.
    if let Some(kept) = std::env::var_os("SITESCOUT_KEEP_RECORDING") {
        fs::copy(coast.path("out.warc.gz"), kept).expect("a place for the recording");
    }
    let mut replay = classify.to_vec();
    replay.extend(["--warc", "out.warc.gz"]);
    assert_eq!(verdicts(&coast.run(&replay).await), live);
    let fixture = fixture("coast.warc.gz").to_string_lossy().into_owned();
    let mut original = classify.to_vec();
    original.extend(["--warc", &fixture]);
    assert_eq!(
        verdicts(&coast.run(&original).await),
        live,
        "as the archive it came from"
    );
}

/// Live, robots.txt keeps pages from being requested; in the recording they are missing.
#[tokio::test(flavor = "multi_thread")]
async fn sites_with_rules_replay_to_the_same_verdicts() {
    let coast = Coast::serve().await;
    let archive = Archive::open(&[fixture("coast.warc.gz")], &without_index());
    let archive = Arc::new(archive.expect("the small archive"));
    for (host, rules) in [
        (
            "lakeside-sailing.example",
            "User-agent: *\nDisallow: /\nAllow: /$\n",
        ),
        ("chess-knights.example", "User-agent: *\nDisallow: /\n"),
        (
            "river-rowing.example",
            "User-agent: sitescout\nCrawl-delay: 0.1\n",
        ),
    ] {
        let archive = Arc::clone(&archive);
        coast.web.script(host, move |target, _| match target {
            "/robots.txt" => Reply::text(rules),
            _ => answer(&archive, host, target),
        });
    }
    let mut classify = vec!["classify", "--json", "--model", MODEL];
    classify.extend([
        "lakeside-sailing.example",
        "chess-knights.example",
        "river-rowing.example",
    ]);
    let mut live = classify.clone();
    live.extend(["--config", "live.toml", "--record", "out.warc"]);
    let live = verdicts(&coast.run(&live).await);
    assert_eq!(coast.web.targets("chess-knights.example"), ["/robots.txt"]);
    classify.extend(["--warc", "out.warc"]);
    assert_eq!(verdicts(&coast.run(&classify).await), live);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_never_overwritten() {
    let coast = Coast::serve().await;
    fs::write(coast.path("out.warc"), "mine").expect("room for a file");
    let arguments = [
        "classify",
        "--config",
        "live.toml",
        "--model",
        MODEL,
        "--record",
        "out.warc",
        "for-sale.example",
    ];
    let output = coast.run(&arguments).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("out.warc exists"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(
        fs::read(coast.path("out.warc")).expect("still there"),
        b"mine"
    );
    assert!(coast.web.all_hosts().is_empty(), "no request was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn urls_and_hosts_are_judged_alike() {
    let coast = Coast::serve().await;
    let mut arguments = vec![
        "classify",
        "--json",
        "--config",
        "live.toml",
        "--model",
        MODEL,
    ];
    arguments.extend([
        "https://lakeside-sailing.example/",
        "lakeside-sailing.example",
    ]);
    let found = verdicts(&coast.run(&arguments).await);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0].1, "\"relevant\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_learned_from_the_live_web() {
    let coast = Coast::serve().await;
    let labels = fixture("coast.labels.tsv").to_string_lossy().into_owned();
    let train = ["train", "sailing", "--labels", &labels];
    let mut live = train.to_vec();
    live.extend([
        "--config",
        "live.toml",
        "--out",
        "live",
        "--record",
        "sites.warc.gz",
    ]);
    let output = coast.run(&live).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    let archive = fixture("coast.warc.gz").to_string_lossy().into_owned();
    for (warc, out) in [("sites.warc.gz", "replayed"), (&archive, "original")] {
        let mut again = train.to_vec();
        again.extend(["--warc", warc, "--out", out]);
        let output = coast.run(&again).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let model = |out: &str| {
        let path = coast.path(out).join("sailing/site-model.bin");
        fs::read(path).expect("a model")
    };
    assert_eq!(model("live"), model("replayed"));
    assert_eq!(model("live"), model("original"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_web_is_refused_without_a_contact() {
    let coast = Coast::serve().await;
    let classify = ["classify", "--model", MODEL, "example.org"];
    let output = coast.run(&classify).await;
    assert_eq!(output.status.code(), Some(78));
    let stderr = text(&output.stderr);
    for wanted in [
        "refused without a contact",
        "`contact` in [fetch]",
        "--config",
    ] {
        assert!(stderr.contains(wanted), "{stderr}");
    }
    assert_eq!(text(&output.stdout), "");
    let train = [
        "train", "sailing", "--labels", "none.tsv", "--record", "x.warc",
    ];
    fs::write(coast.path("none.tsv"), "a.org\tsailing\nb.org\tsailing\n").expect("a file");
    assert_eq!(coast.run(&train).await.status.code(), Some(78));
    assert!(!coast.path("x.warc").exists());

    // Mapped hosts need none, and others stay refused.
    let mut mapped = vec!["classify", "--model", MODEL, "--config", "live.toml"];
    mapped.extend(["example.org", "for-sale.example"]);
    let output = coast.run(&mapped).await;
    let shown = text(&output.stdout);
    assert!(shown.contains("example.org  (unreachable)"), "{shown}");
    assert!(shown.contains("for-sale.example  (parked)"), "{shown}");
    assert!(
        text(&output.stderr).contains("`contact`"),
        "{}",
        text(&output.stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_cannot_be_used_are_reported() {
    let coast = Coast::serve().await;
    for (name, content, wanted) in [
        ("missing.pem", None, "missing.pem"),
        ("empty.pem", Some(""), "there is no certificate in it"),
        (
            "bad.pem",
            Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "bad.pem",
        ),
    ] {
        if let Some(content) = content {
            fs::write(coast.path(name), content).expect("a file");
        }
        let mut settings = resolve(coast.web.http());
        let path = coast.path(name);
        write!(settings, "\nca_file = '{}'\n", path.display()).expect("memory");
        fs::write(coast.path("ca.toml"), settings).expect("settings");
        let arguments = [
            "classify",
            "--config",
            "ca.toml",
            "--model",
            MODEL,
            "a.example",
        ];
        let output = coast.run(&arguments).await;
        assert_eq!(output.status.code(), Some(78), "{name}");
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains(wanted) && stderr.contains("`ca_file`"),
            "{stderr}"
        );
    }
}
