//! Crawls that are killed repeatedly or stopped by a signal lose no verdict and repeat at most the
//! visits under way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::mem;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use sitescout::fetch::Archive;
use sitescout::lab::generated::{Conditions, GeneratedWeb, Truth, WebServer};
use tokio::runtime::Runtime;

use crate::crawling::{Place, hosts, lines, text};
use crate::pathologies::{Pathologies, Reply};
use crate::{fixture, without_index};

// === a running crawl ===

/// A process that crawls.
struct Running {
    child: Child,
    /// Receives an item for every printed verdict.
    printed: mpsc::Receiver<()>,
    verdicts: thread::JoinHandle<Vec<Value>>,
    complaints: thread::JoinHandle<String>,
}

impl Running {
    fn start(place: &Place, crawl: &str) -> Self {
        let mut command = place.command(crawl);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let output = child.stdout.take().expect("a pipe");
        let mut errors = child.stderr.take().expect("a pipe");
        let (sender, printed) = mpsc::channel();
        let verdicts = thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            // The last line may be cut by the kill; then it was not shown.
            let lines = lines.filter_map(|line| serde_json::from_str(&line).ok());
            lines
                .inspect(|_| {
                    let _ = sender.send(());
                })
                .collect()
        });
        let complaints = thread::spawn(move || {
            let mut bytes = Vec::new();
            errors.read_to_end(&mut bytes).expect("a pipe");
            text(&bytes)
        });
        Self {
            child,
            printed,
            verdicts,
            complaints,
        }
    }

    /// Waits until `verdicts` more verdicts are printed.
    fn wait_for(&self, verdicts: u64) {
        for _ in 0..verdicts {
            // A process that prints nothing for so long hangs.
            let printed = self.printed.recv_timeout(Duration::from_mins(1));
            printed.expect("a verdict before the end");
        }
    }

    /// Waits for its end; returns its verdicts, its standard error and its exit status.
    fn end(mut self) -> (Vec<Value>, String, ExitStatus) {
        let status = self.child.wait().expect("an end");
        let verdicts = self.verdicts.join().expect("no panic");
        (verdicts, self.complaints.join().expect("no panic"), status)
    }
}

/// Starts a crawl and kills it while it runs; returns what it has printed by then.
///
/// The moments are spread by a fixed rule: every fifth time at any moment from the start on,
/// else some time after a number of verdicts, times two or three. The first attempt is number one,
/// of the second kind: a store whose creation was killed is recreated, and the next start logs that.
fn kill(place: &Place, crawl: &str, attempt: u64, verdicts: u64) -> Vec<Value> {
    let mut running = Running::start(place, crawl);
    let later = match attempt % 5 {
        0 => 150,
        times => {
            running.wait_for(verdicts * (1 + times.div_ceil(2)));
            25
        }
    };
    thread::sleep(Duration::from_millis((attempt * 37) % later));
    let has_ended = running.child.try_wait().expect("a process").is_some();
    assert!(!has_ended, "attempt {attempt} came to its end");
    running.child.kill().expect("a kill");
    let (verdicts, complaints, _) = running.end();
    assert_eq!(complaints, "", "attempt {attempt}");
    verdicts
}

/// Every verdict in a store, in the order of their numbers.
fn kept(place: &Place, state: &str) -> Vec<Value> {
    let export = format!("export --topic sailing --format jsonl --all --state {state}");
    lines(&place.run(&export))
}

/// Compares the verdicts printed by all processes with those in the store.
fn assert_kept_and_shown_once(shown: &[Value], kept: &[Value]) {
    let number = |line: &Value| line["seq"].as_u64().expect("a number");
    let numbers: Vec<u64> = kept.iter().map(number).collect();
    let wanted: Vec<u64> = (1..=kept.len() as u64).collect();
    assert_eq!(numbers, wanted, "a sequence without gaps and doubles");
    let sites: BTreeSet<String> = hosts(kept).into_iter().collect();
    assert_eq!(sites.len(), kept.len(), "no site is judged twice");
    let distinct: BTreeSet<u64> = shown.iter().map(number).collect();
    assert_eq!(distinct.len(), shown.len(), "nothing is shown twice");
    let by_number: BTreeMap<u64, &Value> = kept.iter().map(|line| (number(line), line)).collect();
    for verdict in shown {
        let kept = by_number.get(&number(verdict));
        let kept = kept.expect("what was shown is kept");
        for field in ["host", "verdict", "confidence", "pages", "rank", "start"] {
            assert_eq!(kept[field], verdict[field], "{field} of {verdict}");
        }
    }
}

/// Printed verdicts can be listed and explained, although the store was not closed.
fn assert_readable(place: &Place, state: &str, shown: &[Value]) {
    let listed = kept(place, state);
    assert_kept_and_shown_once(shown, &listed);
    let last = shown.last().expect("a verdict");
    let host = last["host"].as_str().expect("a host");
    let inspected = lines(&place.run(&format!("inspect {host} --json --state {state}")));
    let [known] = &inspected[..] else {
        panic!("one object: {inspected:?}");
    };
    assert_eq!(known["host"], host);
    for field in ["seq", "verdict", "confidence", "pages"] {
        assert_eq!(known[field], last[field], "{field} of {known}");
    }
    let pages = known["evidence"].as_array().expect("pages");
    assert_eq!(Some(pages.len() as u64), last["pages"].as_u64(), "{known}");
    // Reading only: visits under way are not lost by it.
    assert_eq!(kept(place, state), listed);
}

/// The result for each site, without what depends on when and from where it was visited.
fn outcomes(kept: &[Value]) -> BTreeMap<String, [&Value; 6]> {
    let outcomes = kept.iter().map(|line| {
        [
            &line["verdict"],
            &line["undecided_reason"],
            &line["confidence"],
            &line["pages"],
            &line["stop_reason"],
            &line["alias_of"],
        ]
    });
    hosts(kept).into_iter().zip(outcomes).collect()
}

/// Puts the model of the small archive into the place.
fn bring_model(place: &Place) {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-models/sailing/site-model.bin");
    let directory = place.path("models/sailing");
    fs::create_dir_all(&directory).expect("a directory");
    fs::copy(model, directory.join("site-model.bin")).expect("a model");
}

// === on a small synthetic web ===

/// Number of sites of that web.
const SITES: usize = 500;

/// Sites on loopback that lead to two others each, slow enough to be interrupted. Some are
/// about sailing, some are not.
pub(crate) fn serve_many() -> (Runtime, Pathologies) {
    let runtime = Runtime::new().expect("a runtime");
    let web = runtime.block_on(Pathologies::start());
    let archive = Archive::open(&[fixture("coast.warc.gz")], &without_index());
    let archive = archive.expect("the small archive");
    let home = |host: &str| {
        let page = format!("http://{host}/").parse().expect("an address");
        let page = archive.read(&page).expect("an archive").expect("a page");
        // Links of its own would lead out of this web.
        text(&page.body).replace("<a ", "<b ")
    };
    let texts = [
        home("harbour-sailing.example"),
        home("gulls-dinghy.example"),
        home("bakery-krume.example"),
    ];
    for number in 0..SITES {
        let links = [2 * number + 1, 2 * number + 2].map(|next| {
            if next < SITES {
                format!("<a href='http://{}/'>next</a>", site_name(next))
            } else {
                String::new()
            }
        });
        let page = format!("{}{}", texts[number % 3], links.concat());
        web.script(&site_name(number), move |target, _| match target {
            "/" => Reply::html(page.clone()).after(Duration::from_millis(20)),
            _ => Reply::status(404),
        });
    }
    (runtime, web)
}

pub(crate) fn site_name(number: usize) -> String {
    format!("harbour-{number}.example")
}

/// A crawl of that web by two crawlers, with its settings beside it.
fn crawl_of(web: &Pathologies, place: &Place) -> String {
    let settings = format!(
        "[log]\nlevel = 'warn'\n\
         [fetch]\nresolve = [{{ host = '*.example', address = '{}' }}]\n\
         [fetch.politeness]\npause = '0 s'\n",
        web.http()
    );
    fs::write(place.path("live.toml"), settings).expect("settings");
    bring_model(place);
    format!(
        "crawl sailing --json --config live.toml --crawlers 2 --models models --start {}",
        site_name(0)
    )
}

/// Kills the crawl at some moment, again and again, and then lets it get to its end.
#[test]
fn a_crawl_that_is_killed_fifty_times_loses_nothing_and_shows_nothing_twice() {
    let (_runtime, web) = serve_many();
    let place = Place::new();
    let crawl = crawl_of(&web, &place);
    lines(&place.run(&format!("{crawl} --state whole")));
    let whole = kept(&place, "whole");
    assert_eq!(whole.len(), SITES);
    let visits_before: usize = homepages(&web);

    let crawl = format!("{crawl} --state killed");
    let mut shown: Vec<Value> = Vec::new();
    let mut fruitful = 0_usize;
    for attempt in 1..=50 {
        let verdicts = kill(&place, &crawl, attempt, 1);
        fruitful += usize::from(!verdicts.is_empty());
        shown.extend(verdicts);
        if attempt == 7 {
            assert_readable(&place, "killed", &shown);
        }
    }
    assert!(
        fruitful >= 40,
        "{fruitful} of fifty were killed in the middle"
    );
    let rest = lines(&place.run(&crawl));
    assert!(!rest.is_empty(), "all kills came before the end");
    shown.extend(rest);
    let killed = kept(&place, "killed");
    assert_kept_and_shown_once(&shown, &killed);
    assert_eq!(outcomes(&killed), outcomes(&whole));
    // Two crawlers: each kill costs at most two visits.
    let visits = homepages(&web) - visits_before;
    assert!(
        (SITES..=SITES + 2 * 50).contains(&visits),
        "{visits} visits"
    );
}

/// Stops a running crawl by a signal; returns its verdicts and its standard error.
fn stopped_by(signal: &str, web: &Pathologies, place: &Place, crawl: &str) -> (Vec<Value>, String) {
    let before = homepages(web);
    let running = Running::start(place, crawl);
    running.wait_for(1);
    let pid = running.child.id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status();
    assert!(sent.expect("kill is there").success());
    let (verdicts, stderr, status) = running.end();
    assert_eq!(status.code(), Some(0), "{stderr}");
    let visited = homepages(web) - before;
    assert!(visited <= verdicts.len() + 2, "{visited} visits");
    (verdicts, stderr)
}

#[test]
fn a_crawl_that_is_asked_to_stop_finishes_what_it_has_begun_and_goes_on_later() {
    let (_runtime, web) = serve_many();
    let place = Place::new();
    let crawl = crawl_of(&web, &place);
    let mut seen = Vec::new();
    for signal in ["-INT", "-TERM"] {
        let (verdicts, stderr) = stopped_by(signal, &web, &place, &crawl);
        assert!(stderr.contains("stopping: visits under way"), "{stderr}");
        assert!(stderr.contains("ended: stopped"), "{stderr}");
        seen.extend(hosts(&verdicts));
        assert!(seen.len() < SITES);
    }
    seen.extend(hosts(&lines(&place.run(&crawl))));
    let distinct: BTreeSet<&String> = seen.iter().collect();
    assert_eq!((seen.len(), distinct.len()), (SITES, SITES));
    // Visits under way were finished, so no site was visited twice.
    assert_eq!(homepages(&web), SITES);
}

/// Number of requests for homepages.
fn homepages(web: &Pathologies) -> usize {
    let hosts = web.all_hosts();
    let requests = hosts.iter().flat_map(|host| web.targets(host));
    requests.filter(|target| target == "/").count()
}

// === on a generated web with many faults ===

/// How often the crawl of that web is killed.
const KILLS: u64 = 50;

/// How many sites it has, and from which seed: far more than are judged until the last kill.
/// A few responses never come, each on a different site: together they cost `first_byte` once.
const SITES_AND_SEED: (u64, u64) = (600, 1);

const ROUGH: Conditions = Conditions {
    latency: Duration::from_millis(10),
    faults: 0.04,
};

/// Requests to a server: hosts without `www.`, with path and query.
#[derive(Clone, Default)]
struct Requests(Arc<Mutex<Vec<(String, String)>>>);

/// One of the processes that crawl, one after the other.
struct Run {
    shown: Vec<Value>,
    asked: Vec<(String, String)>,
}

// === impl Requests ===

impl Requests {
    fn add(&self, host: &str, target: &str) {
        let host = host.strip_prefix("www.").unwrap_or(host);
        let request = (host.to_owned(), target.to_owned());
        self.0.lock().expect("no panic").push(request);
    }

    /// Those since the last call.
    fn take(&self) -> Vec<(String, String)> {
        mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

// === impl Run ===

impl Run {
    fn asked_sites(&self) -> BTreeSet<&str> {
        self.asked.iter().map(|(host, _)| host.as_str()).collect()
    }
}

/// Serves the web on loopback for as long as the runtime lives.
fn serve_rough(runtime: &Runtime, web: GeneratedWeb) -> (SocketAddr, Requests) {
    let requests = Requests::default();
    let log = requests.clone();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = runtime.block_on(WebServer::bind(any, web, ROUGH));
    let server = server.expect("a port");
    let server = server.on_request(move |host, target| log.add(host, target));
    let address = server.address().expect("an address");
    runtime.spawn(server.serve());
    (address, requests)
}

/// A crawl by many crawlers of what is served there; settings and state have this name.
///
/// The result for a site must not depend on when it is visited and after which others. So no time
/// limit is one that a busy machine reaches, and how much is read does not depend on how many
/// sites are left. Of a link farm fewer hosts are taken up than its first page names, so that
/// it is that page which says which. The pages of all sites are fewer than `pprs_window`.
fn rough_crawl(place: &Place, name: &str, address: SocketAddr, start: &str) -> String {
    let settings = format!(
        "[log]\nlevel = 'warn'\n\
         [fetch]\nresolve = [{{ host = '*.example', address = '{address}' }}]\n\
         [fetch.limits]\nfirst_byte = '10 s'\nminimum_rate = 0\n\
         [fetch.politeness]\npause = '0 s'\n\
         [internal]\npage_budget = 5\n\
         [external]\nscarce_border = 0\nsites_per_domain = 3\n"
    );
    fs::write(place.path(&format!("{name}.toml")), settings).expect("settings");
    format!(
        "crawl sailing --json --config {name}.toml --state {name} --crawlers 16 --models models \
         --start {start}"
    )
}

/// The end of a crawl that was not interrupted.
fn ending(crawled: &Output) -> String {
    let stderr = text(&crawled.stderr);
    let (_, ending) = stderr.split_once("ended: ").expect("an end");
    assert!(ending.starts_with("no site is left to visit"), "{stderr}");
    assert_eq!(
        stderr.lines().count(),
        2,
        "a summary and no complaint: {stderr}"
    );
    ending.to_owned()
}

/// Asserts that the faults of that web occurred in this crawl.
fn assert_rough(place: &Place, state: &str) {
    let dump = place.run(&format!("export --everything --state {state}"));
    let dump = text(&dump.stdout);
    for outcome in [
        "failed, 500",
        "failed, 503",
        "unanswered, broken",
        "unanswered, timeout",
    ] {
        assert!(dump.contains(outcome), "{outcome}");
    }
}

/// Each process visits the sites it judges from their first page, and no judged site is visited
/// again.
fn assert_visited_where_judged(runs: &[Run]) {
    let mut judged: BTreeSet<String> = BTreeSet::new();
    for run in runs {
        let asked = run.asked_sites();
        let again = asked.iter().find(|host| judged.contains(**host));
        assert_eq!(again, None, "it is judged already");
        for host in hosts(&run.shown) {
            assert!(asked.contains(host.as_str()), "{host}");
            judged.insert(host);
        }
    }
}

/// How many of the runs have shown verdicts, and were in the middle of visits that a later one
/// had to make again.
fn broken_off(runs: &[Run]) -> usize {
    let is_broken_off = |at: &usize| {
        let asked = runs[*at].asked_sites();
        let mut later = runs[at + 1..].iter().flat_map(|run| hosts(&run.shown));
        !runs[*at].shown.is_empty() && later.any(|host| asked.contains(host.as_str()))
    };
    (0..runs.len()).filter(is_broken_off).count()
}

/// Nothing disallowed by robots.txt was requested, and something was disallowed.
fn assert_obedient<'r>(
    web: &GeneratedWeb,
    asked: impl IntoIterator<Item = &'r (String, String)>,
    kept: &[Value],
) {
    let is_allowed = |host: &str, target: &str| {
        let rules = web.answer(host, "/robots.txt", None);
        // An unreachable robots.txt allows nothing.
        let rules = rules.map_or_else(|| "Disallow: /".to_owned(), |rules| text(&rules.body));
        let mut rules = rules
            .lines()
            .filter_map(|line| line.strip_prefix("Disallow: "));
        !rules.any(|rule| target.starts_with(rule))
    };
    for (host, target) in asked {
        assert!(
            target == "/robots.txt" || is_allowed(host, target),
            "{host}{target}"
        );
    }
    let closed = kept.iter().zip(hosts(kept));
    let closed = closed.filter(|(_, host)| !is_allowed(host, "/"));
    let closed: Vec<&Value> = closed.map(|(line, _)| &line["undecided_reason"]).collect();
    assert!(!closed.is_empty());
    assert!(closed.iter().all(|reason| *reason == "disallowed"));
}

/// The files of a store. How many snapshots it has made is not the same each time.
fn files_of(place: &Place, state: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for directory in [place.path(state), place.path(state).join("sled")] {
        for entry in fs::read_dir(directory).expect("a directory") {
            let name = entry.expect("an entry").file_name();
            let name = name.into_string().expect("a name");
            let number = name.strip_prefix("snap.").unwrap_or_default();
            let is_snapshot = u64::from_str_radix(number, 16).is_ok();
            if !is_snapshot {
                names.insert(name);
            }
        }
    }
    names
}

#[test]
fn a_crawl_of_a_rough_web_finds_the_same_however_often_it_is_killed() {
    let (sites, seed) = SITES_AND_SEED;
    let web = GeneratedWeb::new(sites, seed);
    let mut sites = (0..web.sites()).map(|number| web.site(number));
    let start = sites.find(|(_, truth)| *truth == Truth::Topic("sailing"));
    let (start, _) = start.expect("a site of the topic");
    let runtime = Runtime::new().expect("a runtime");
    let place = Place::new();
    bring_model(&place);
    let (address, asked_by_whole) = serve_rough(&runtime, web);
    let whole = rough_crawl(&place, "whole", address, &start);
    let (address, asked) = serve_rough(&runtime, web);
    let crawl = rough_crawl(&place, "killed", address, &start);

    let mut runs: Vec<Run> = Vec::new();
    let mut run = |shown| {
        let asked = asked.take();
        runs.push(Run { shown, asked });
    };
    let (whole, last) = thread::scope(|scope| {
        // Both are idle most of the time, so they run in parallel.
        let whole = scope.spawn(|| place.run(&whole));
        for attempt in 1..=KILLS {
            run(kill(&place, &crawl, attempt, 1));
        }
        let last = place.run(&crawl);
        run(lines(&last));
        (whole.join().expect("no panic"), last)
    });
    let broken_off = broken_off(&runs);
    assert!(broken_off as u64 > KILLS / 2, "{broken_off} of {KILLS}");
    assert_visited_where_judged(&runs);
    assert_rough(&place, "killed");

    let shown: Vec<Value> = runs.iter().flat_map(|run| run.shown.clone()).collect();
    let (kept_whole, kept_killed) = (kept(&place, "whole"), kept(&place, "killed"));
    assert_eq!(lines(&whole).len(), kept_whole.len());
    assert_kept_and_shown_once(&shown, &kept_killed);
    assert_eq!(outcomes(&kept_killed), outcomes(&kept_whole));
    assert_eq!(ending(&last), ending(&whole));
    let relevant = kept_killed
        .iter()
        .filter(|line| line["verdict"] == "relevant");
    assert!(relevant.count() > 3, "{kept_killed:?}");

    let asked_by_whole = asked_by_whole.take();
    let all_asked = runs.iter().flat_map(|run| &run.asked);
    assert_obedient(&web, all_asked.chain(&asked_by_whole), &kept_killed);

    assert_eq!(files_of(&place, "killed"), files_of(&place, "whole"));
    let again = place.run(&crawl);
    assert_eq!(lines(&again), [Value::Null; 0]);
    assert_eq!(ending(&again), ending(&last));
    assert_eq!(asked.take(), [], "nothing is left to ask for");
}

// === after a power cut ===

/// Where the disk has lost the beginning of its file, sled opens it as an empty one and says
/// nothing. What a power cut leaves otherwise is shown in `src/store/power_loss.rs`.
#[test]
fn a_store_whose_records_are_gone_is_refused_and_not_recreated() {
    let place = Place::new();
    place.crawl("--crawlers 1 --wanted 3 --state lost");
    let data = place.path("lost/sled");
    for file in fs::read_dir(&data).expect("a store") {
        let path = file.expect("a file").path();
        if path.is_file() && !path.ends_with("conf") {
            fs::remove_file(path).expect("a file");
        }
    }
    let refused = [
        place.run("export --topic sailing --format jsonl --all --state lost"),
        place.run("export --everything --state lost"),
        place.run("inspect harbour-sailing.example --state lost"),
        place.crawl("--crawlers 1 --state lost"),
        // The failed opening changes nothing.
        place.run("export --topic sailing --format jsonl --all --state lost"),
    ];
    for refused in refused {
        let stderr = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(65), "{stderr}");
        for wanted in [
            "the store in lost",
            "its records are gone",
            "restore a backup",
        ] {
            assert!(stderr.contains(wanted), "{stderr}");
        }
        assert_eq!(text(&refused.stdout), "");
    }
    assert!(!place.path("lost/sled-unfinished-1").exists());
}
