//! The generated web over HTTP and from the command line: serving, demo, generate and evaluate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use sitescout::config::{FetchSettings, ResolveRule};
use sitescout::fetch::{FetchMetrics, Fetcher, LiveWeb};
use sitescout::lab::generated::{Conditions, GeneratedWeb, Truth, WebServer};
use sitescout::telemetry::Metrics;
use sitescout::web::PageUrl;
use tempfile::TempDir;

use crate::warc::{self, WarcBuilder};

const CALM: Conditions = Conditions {
    latency: Duration::ZERO,
    faults: 0.0,
};

/// Serves a web on loopback until the runtime ends; returns a fetcher that resolves to it.
async fn served(web: GeneratedWeb, conditions: Conditions) -> LiveWeb {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = WebServer::bind(any, web, conditions).await.expect("a port");
    let address = server.address().expect("an address");
    tokio::spawn(server.serve());
    let mut settings = FetchSettings {
        resolve: vec![ResolveRule {
            host: "*".to_owned(),
            address,
            tls: false,
        }],
        ..FetchSettings::default()
    };
    settings.politeness.pause = Duration::ZERO;
    // Long enough for a busy machine; some responses never come.
    settings.limits.first_byte = Duration::from_secs(5);
    let metrics = FetchMetrics::register(&Metrics::new());
    LiveWeb::new(&settings, metrics, None).expect("a fetcher")
}

fn home(host: &str) -> PageUrl {
    format!("http://{host}/").parse().expect("an address")
}

#[tokio::test]
async fn over_http_it_is_the_same_web() {
    let web = GeneratedWeb::new(2_000, 1);
    let live = served(web, CALM).await;
    let mut answered = 0;
    for number in 0..120 {
        let (host, truth) = web.site(number);
        let (direct, served) = (
            web.fetch(&home(&host)).await,
            live.fetch(&home(&host)).await,
        );
        match (direct, served) {
            (Ok(direct), Ok(served)) => {
                answered += 1;
                assert_eq!(direct.status, served.status, "{host}");
                assert_eq!(direct.body, served.body, "{host}");
                for (name, value) in &direct.headers {
                    assert_eq!(served.headers.get(name), Some(value), "{host}");
                }
            }
            (Err(_), Err(_)) => assert_eq!(truth, Truth::NoSite, "{host}"),
            (direct, served) => panic!("{host}: {direct:?} and {served:?}"),
        }
    }
    assert!(answered > 90, "{answered}");
}

#[tokio::test]
async fn what_goes_wrong_goes_wrong_the_same_way_every_time() {
    let web = GeneratedWeb::new(2_000, 1);
    let conditions = Conditions {
        faults: 0.5,
        ..CALM
    };
    let mut runs = Vec::new();
    for _ in 0..2 {
        let live = served(web, conditions).await;
        let mut outcomes: BTreeMap<String, String> = BTreeMap::new();
        for number in 0..60 {
            let (host, _) = web.site(number);
            let outcome = match live.fetch(&home(&host)).await {
                Ok(page) if page.truncated => "cut".to_owned(),
                Ok(page) => page.status.to_string(),
                Err(error) => error.kind.reason().name().to_owned(),
            };
            outcomes.insert(host, outcome);
        }
        runs.push(outcomes);
    }
    assert_eq!(runs[0], runs[1]);
    let kinds: BTreeSet<&str> = runs[0].values().map(String::as_str).collect();
    for kind in [
        "500 Internal Server Error",
        "503 Service Unavailable",
        "broken",
        "cut",
    ] {
        assert!(kinds.contains(kind), "{kind}: {kinds:?}");
    }
    assert!(
        runs[0]
            .values()
            .filter(|outcome| *outcome == "200 OK")
            .count()
            > 10
    );
}

fn run(directory: &TempDir, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sitescout"));
    command
        .current_dir(directory.path())
        .args(arguments.split_whitespace());
    let output = command.output().expect("an end");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {stderr}");
    output
}

/// Learns from a few sites, crawls the rest, and compares with the truth.
#[test]
fn a_topic_is_learned_and_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let truth = run(&directory, "serve-web --sites 600 --seed 3 --truth");
    let truth = String::from_utf8_lossy(&truth.stdout).into_owned();
    let truth: Vec<(&str, &str)> = truth
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let of_topic = |wanted: bool| {
        let sites = truth.iter();
        sites.filter(move |(_, topic)| (*topic == "chess") == wanted)
    };
    assert!(of_topic(true).count() > 20);
    let learned: Vec<&(&str, &str)> = of_topic(true)
        .take(8)
        .chain(of_topic(false).take(40))
        .collect();
    let labels: Vec<String> = learned
        .iter()
        .map(|(host, topic)| format!("{host}\t{topic}"))
        .collect();
    fs::write(directory.path().join("labels.tsv"), labels.join("\n")).expect("labels");
    run(
        &directory,
        "train chess --web generated:600,3 --labels labels.tsv --out models",
    );
    let start = learned[0].0;
    let crawl = format!(
        "crawl chess --json --models models --web generated:600,3 --crawlers 8 --start {start} \
         --max-pages 1500"
    );
    let crawled = run(&directory, &crawl);
    let topics: BTreeMap<&str, &str> = truth.iter().copied().collect();
    let (mut right, mut wrong, mut judged) = (0, 0, 0);
    for line in String::from_utf8_lossy(&crawled.stdout).lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        judged += 1;
        if line["verdict"] == "relevant" && line["start"] == false {
            match topics.get(line["host"].as_str().expect("a host")) {
                Some(&"chess") => right += 1,
                _ => wrong += 1,
            }
        }
    }
    assert!(right >= 12, "{right} right, {wrong} wrong of {judged}");
    assert!(
        right >= 4 * wrong,
        "{right} right, {wrong} wrong of {judged}"
    );
}

#[test]
fn the_demo_shows_what_it_found_and_how_right_it_is_and_goes_on() {
    let directory = tempfile::tempdir().expect("a directory");
    // Fewer pages and slots than by default: this build is slow.
    let settings = "[training]\npages_per_site = 8\n[external]\ncrawlers = 8\n";
    fs::write(directory.path().join("small.toml"), settings).expect("settings");
    let demo = "demo --config small.toml --sites 1000 --wanted 6 --topic chess --dir shown";
    let output = run(&directory, demo);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    for wanted in [
        "A web of 1,000 sites",
        "sites about chess and ",
        "best recommended first",
        "sites about chess, and why",
        "precision ",
        "recall ",
        "breadth-first",
        "pages per relevant site",
    ] {
        assert!(stdout.contains(wanted), "{wanted}: {stdout}");
    }
    let too_long = stdout.lines().find(|line| line.chars().count() > 80);
    assert_eq!(too_long, None);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
    let place = directory.path().join("shown/chess-1000-1");
    let list = fs::read_to_string(place.join("chess.txt")).expect("a list");
    assert!(list.lines().count() >= 6, "{list}");
    for file in [
        "state/sitescout-store",
        "crawl-1.warc.gz",
        "chess/site-model.bin",
    ] {
        assert!(place.join(file).exists(), "{file}");
    }
    let web = GeneratedWeb::new(1_000, 1);
    let right = list.lines().filter(|host| {
        let site = host.parse().expect("a host");
        web.truth(&site) == Truth::Topic("chess")
    });
    let (right, found) = (right.count(), list.lines().count());
    let counted = format!("{right} of {found} found are about chess");
    assert!(stdout.contains(&counted), "{counted}: {stdout}");
    // Many sites are visited at once: more may be found than were wanted.
    let wanted = format!("--wanted {}", found + 4);
    let more = run(&directory, &demo.replace("--wanted 6", &wanted));
    let stdout = String::from_utf8_lossy(&more.stdout).into_owned();
    assert!(!stdout.contains("Learned from"), "{stdout}");
    let longer = fs::read_to_string(place.join("chess.txt")).expect("a list");
    assert!(longer.starts_with(&list), "{longer}");
    assert!(longer.len() > list.len());
    let refused = Command::new(env!("CARGO_BIN_EXE_sitescout"))
        .args(["demo", "--topic", "golf"])
        .output()
        .expect("an end");
    assert_eq!(refused.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(stderr.contains("there are: sailing, cycling"), "{stderr}");
}

#[test]
fn the_demo_refuses_a_strategy_that_its_model_does_not_fit() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = "[external]\nstrategy = 'paper'\n";
    fs::write(directory.path().join("paper.toml"), settings).expect("settings");
    let refused = Command::new(env!("CARGO_BIN_EXE_sitescout"))
        .current_dir(&directory)
        .args(["demo", "--config", "paper.toml", "--sites", "1000"])
        .output()
        .expect("an end");
    assert_eq!(refused.status.code(), Some(78));
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    for wanted in [
        "`page_classifier` in [training]",
        "`sitescout train sailing --page-classifier centroid`",
    ] {
        assert!(stderr.contains(wanted), "{wanted}: {stderr}");
    }
    assert!(!directory.path().join("sitescout-demo").exists());
}

/// The hosts that a demo has shown while it crawled.
fn shown_as_relevant(stdout: &str) -> Vec<&str> {
    let lines = stdout.lines().filter(|line| line.starts_with("relevant "));
    let words = lines.flat_map(str::split_whitespace);
    words.filter(|word| word.ends_with(".example")).collect()
}

/// Starts a demo, sends an interrupt when it has found something, and returns its output.
fn interrupted(directory: &TempDir, arguments: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sitescout"));
    let command = command
        .current_dir(directory.path())
        .args(arguments.split_whitespace())
        .stdout(Stdio::piped());
    let mut demo = command.spawn().expect("a process");
    let mut output = BufReader::new(demo.stdout.take().expect("a pipe"));
    let mut stdout = String::new();
    while shown_as_relevant(&stdout).is_empty() {
        let read = output.read_line(&mut stdout).expect("a pipe");
        assert!(read > 0, "it ended before it had found anything: {stdout}");
    }
    let process = demo.id().to_string();
    let sent = Command::new("kill").args(["-INT", &process]).status();
    assert!(sent.expect("kill is there").success());
    output.read_to_string(&mut stdout).expect("a pipe");
    assert_eq!(demo.wait().expect("an end").code(), Some(0), "{stdout}");
    stdout
}

#[test]
fn the_demo_goes_on_after_ctrl_c_and_says_when_there_was_less_to_find_than_was_wanted() {
    let directory = tempfile::tempdir().expect("a directory");
    // All of it is crawled, in a slow build; so few pages are read, and busy sites are not retried.
    let settings = "[training]\npages_per_site = 4\n[internal]\npage_budget = 3\n\
                    [external]\nsites_per_domain = 1\nmax_deferrals = 0\n";
    fs::write(directory.path().join("small.toml"), settings).expect("settings");
    let demo = "demo --config small.toml --sites 500 --wanted 1000 --topic chess --dir shown";
    let first = interrupted(&directory, demo);
    assert!(first.contains("Learned from"), "{first}");
    assert!(
        first.ends_with("Stopped. The same command goes on from here.\n"),
        "{first}"
    );
    assert!(!first.contains("and why"), "{first}");
    let stdout = String::from_utf8_lossy(&run(&directory, demo).stdout).into_owned();
    assert!(!stdout.contains("Learned from"), "{stdout}");
    let (before, after) = (shown_as_relevant(&first), shown_as_relevant(&stdout));
    let twice = before.iter().find(|host| after.contains(host));
    assert_eq!(twice, None);
    let (_, ended) = stdout
        .split_once("It ended before 1,000 were found:\n")
        .expect("a word about it");
    let why = ended.lines().next().expect("a reason");
    assert!(
        why.starts_with("no site is left") || why.starts_with("pages per relevant site rose above"),
        "{why}"
    );
    // Sites that were learned from are not found; others of them may be taken for finds.
    let web = GeneratedWeb::new(500, 1);
    let learned = web.examples("chess", 15, 90).expect("enough sites");
    let list = directory.path().join("shown/chess-500-1/chess.txt");
    let list = fs::read_to_string(list).expect("a list");
    for (site, about) in &learned {
        let is_listed = list.lines().any(|host| host == site.as_str());
        assert!(!(is_listed && *about == "chess"), "{site}");
    }
    let exported = run(
        &directory,
        "export --topic chess --format jsonl --all --state shown/chess-500-1/state",
    );
    let exported = String::from_utf8_lossy(&exported.stdout).into_owned();
    let mut finds: Vec<String> = Vec::new();
    for line in exported.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        if line["verdict"] == "relevant" && line["start"] == false {
            finds.push(line["host"].as_str().expect("a host").to_owned());
        }
    }
    assert_eq!(list.lines().collect::<Vec<_>>(), finds);
    let starts: Vec<&str> = learned.iter().map(|(site, _)| site.as_str()).collect();
    let missing = before
        .iter()
        .find(|host| !starts.contains(host) && !finds.iter().any(|find| find == *host));
    assert_eq!(missing, None, "what the first run found");
}

#[test]
fn orderings_are_held_against_the_truth() {
    let directory = tempfile::tempdir().expect("a directory");
    // One model is learned for `paper` and one for all others, which takes long in this build.
    let settings = "[training]\npages_per_site = 8\nfolds = 3\n";
    fs::write(directory.path().join("small.toml"), settings).expect("settings");
    let evaluate = "evaluate --config small.toml generated --generated 800,1 --topic chess \
                    --pages 400 40 --target-sites 12 --other-sites 60 --json";
    let output = run(&directory, evaluate);
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let web = GeneratedWeb::new(800, 1);
    let chess = web.originals().filter(|(_, about)| *about == "chess");
    let mirrors = result["targets"].as_u64().expect("a number") + 12 - chess.count() as u64;
    assert!(mirrors <= 4, "{result}");
    let rows = result["rows"].as_array().expect("rows");
    let names: Vec<&Value> = rows.iter().map(|row| &row["ordering"]).collect();
    assert_eq!(
        names,
        [
            "combined",
            "paper",
            "breadth-first",
            "random",
            "true labels"
        ]
    );
    for row in rows {
        let after = row["after"].as_array().expect("counts");
        for (found, pages) in after.iter().zip([40, 400]) {
            let number = |name: &str| found[name].as_u64().expect("a number");
            assert_eq!(number("crawls"), 1);
            // A crawl is counted after the visit that passes the mark.
            assert!((pages..pages + 16).contains(&number("pages")));
            assert!(number("right") <= number("found"));
            assert!(number("found") <= number("decided"));
        }
    }
    let found = |name: &str| {
        let row = rows.iter().find(|row| row["ordering"] == name);
        row.expect("a row")["after"][1]["right"].as_u64()
    };
    assert!(found("true labels") > found("random"), "{result}");
    let table = evaluate.replace("400 40", "40").replace(" --json", "");
    let table = run(&directory, &table).stdout;
    let table = String::from_utf8_lossy(&table).into_owned();
    let pages = rows[0]["after"][0]["pages"].to_string();
    let row = table.lines().find(|line| line.contains("combined"));
    let printed = row.expect("a row").split_whitespace().nth(1);
    assert_eq!(printed, Some(pages.as_str()), "{table}");
    let too_long = table.lines().find(|line| line.chars().count() > 80);
    assert_eq!(too_long, None);
    for (wrong, why) in [
        ("--generated 800", "SITES,SEED"),
        ("--generated 800,1,2", "a share from 0 to 1"),
        ("--topic golf", "there are: sailing"),
        ("--target-sites 6000", "too small"),
        ("--start-sites 16", "at most 15"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sitescout"));
        let words = wrong.split(' ');
        let refused = command.args(["evaluate", "generated"]).args(words).output();
        let refused = refused.expect("an end");
        assert!(!refused.status.success(), "{wrong}");
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(stderr.contains(why), "{wrong}: {stderr}");
    }
}

#[test]
fn it_is_held_against_real_sites() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::copy(
        crate::fixture("coast.warc.gz"),
        directory.path().join("coast.warc.gz"),
    )
    .expect("a fixture");
    let labels = "harbour-sailing.example\tsailing\nbakery-krume.example\tother\n";
    fs::write(directory.path().join("labels.tsv"), labels).expect("labels");
    let output = run(
        &directory,
        "evaluate likeness --warc coast.warc.gz --labels labels.tsv --generated 300,1 --pages 5",
    );
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    for row in [
        "pages per site",
        "words per page",
        "links inside the site",
        "links to other sites",
        "near-duplicate pages",
    ] {
        assert!(table.contains(row), "{row}: {table}");
    }
    // Two sites are too few to hold any out.
    let unknown = table
        .lines()
        .filter(|line| line.starts_with("F of ") && line.contains(" -"));
    assert_eq!(unknown.count(), 3, "{table}");
    let sites = table.lines().find(|line| line.starts_with("sites"));
    let counts: Vec<&str> = sites.expect("a row").split_whitespace().collect();
    assert_eq!(counts, ["sites", "2", "2"]);
}

/// Whatever spelling a page is linked by, it is one page, as for a crawl.
#[test]
fn pages_of_real_sites_are_counted_once() {
    let mut archive = WarcBuilder::default();
    let mut labels = String::new();
    for (host, topic) in [("one.example", "sailing"), ("two.example", "other")] {
        let home = "<p>home</p><a href=/index.html>1</a><a href=/a>2</a><a href=/gone>3</a>";
        let inner = format!("<p>inner</p><a href=https://www.{host}/a>4</a><a href=/>5</a>");
        archive = archive
            .page(&format!("http://{host}/"), home)
            .page(&format!("http://{host}/index.html"), home)
            .page(&format!("http://{host}/a"), &inner);
        labels.extend([host, "\t", topic, "\n"]);
    }
    let (directory, _) = warc::in_file("sites.warc.gz", &archive.gzip());
    fs::write(directory.path().join("labels.tsv"), labels).expect("labels");
    let output = run(
        &directory,
        "evaluate likeness --warc sites.warc.gz --labels labels.tsv --generated 300,1 --pages 5",
    );
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = |name: &str| -> Vec<&str> {
        let row = table.lines().find_map(|line| line.strip_prefix(name));
        row.expect("a row").split_whitespace().collect()
    };
    assert_eq!(row("pages per site")[..4], ["2", "2", "2", "2.0"]);
    assert_eq!(row("near-duplicate pages")[0], "0.000");
}
