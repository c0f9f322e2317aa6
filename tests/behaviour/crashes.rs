//! Crawls that end in the middle of their work: killed again and again, or asked to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use sitescout::fetch::Archive;
use tokio::runtime::Runtime;

use crate::crawling::{Place, hosts, lines, text};
use crate::pathologies::{Pathologies, Reply};
use crate::{fixture, without_index};

// === a crawl at work ===

/// A process that crawls.
struct Running {
    child: Child,
    /// Hears of every verdict that is printed.
    told: mpsc::Receiver<()>,
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
        let (tell, told) = mpsc::channel();
        let verdicts = thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            // The last line may be cut by the kill; then it was not shown.
            let lines = lines.filter_map(|line| serde_json::from_str(&line).ok());
            lines
                .inspect(|_| {
                    let _ = tell.send(());
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
            told,
            verdicts,
            complaints,
        }
    }

    /// Waits until so many further verdicts are printed.
    fn wait_for(&self, verdicts: u64) {
        for _ in 0..verdicts {
            // Whoever prints nothing for so long hangs.
            let told = self.told.recv_timeout(Duration::from_mins(1));
            told.expect("a verdict before the end");
        }
    }

    /// What it has printed and told when it has ended, and how it ended.
    fn end(mut self) -> (Vec<Value>, String, ExitStatus) {
        let status = self.child.wait().expect("an end");
        let verdicts = self.verdicts.join().expect("no panic");
        (verdicts, self.complaints.join().expect("no panic"), status)
    }
}

/// Starts a crawl and kills it in the middle of its work; says what it has printed by then.
///
/// The moments are spread by a fixed rule: every fifth time at any moment from the start on,
/// else some time after the second or third verdict. The first time is one of these, because
/// a store that is killed while it is made is made anew, which the next start tells.
fn kill(place: &Place, crawl: &str, attempt: u64) -> Vec<Value> {
    let mut running = Running::start(place, crawl);
    let later = match attempt % 5 {
        0 => 150,
        verdicts => {
            running.wait_for(1 + verdicts.div_ceil(2));
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

/// Holds what was shown, by however many processes, against what the store has.
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

/// What a crawl found out about each site, whenever and by whatever way it came there.
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

// === on a web of our own making ===

/// So many sites has that web.
const SITES: usize = 500;

/// Sites on loopback that lead to two others each, slow enough to be interrupted. Some are
/// about sailing, some are not.
fn serve_many() -> (Runtime, Pathologies) {
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
        let links = [2 * number + 1, 2 * number + 2].map(|next| match next < SITES {
            true => format!("<a href='http://{}/'>next</a>", site_name(next)),
            false => String::new(),
        });
        let page = format!("{}{}", texts[number % 3], links.concat());
        web.script(&site_name(number), move |target, _| match target {
            "/" => Reply::html(page.clone()).after(Duration::from_millis(20)),
            _ => Reply::status(404),
        });
    }
    (runtime, web)
}

fn site_name(number: usize) -> String {
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
        let verdicts = kill(&place, &crawl, attempt);
        fruitful += usize::from(!verdicts.is_empty());
        shown.extend(verdicts);
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

/// Stops a crawl by a signal in the middle; says what it has printed and told.
fn stopped_by(signal: &str, web: &Pathologies, place: &Place, crawl: &str) -> (Vec<Value>, String) {
    let before = homepages(web);
    let running = Running::start(place, crawl);
    running.wait_for(1);
    let pid = running.child.id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status();
    assert!(sent.expect("kill is there").success());
    let (verdicts, told, status) = running.end();
    assert_eq!(status.code(), Some(0), "{told}");
    let visited = homepages(web) - before;
    assert!(visited <= verdicts.len() + 2, "{visited} visits");
    (verdicts, told)
}

#[test]
fn a_crawl_that_is_asked_to_stop_finishes_what_it_has_begun_and_goes_on_later() {
    let (_runtime, web) = serve_many();
    let place = Place::new();
    let crawl = crawl_of(&web, &place);
    let mut seen = Vec::new();
    for signal in ["-INT", "-TERM"] {
        let (verdicts, told) = stopped_by(signal, &web, &place, &crawl);
        assert!(told.contains("ended: stopped"), "{told}");
        seen.extend(hosts(&verdicts));
        assert!(seen.len() < SITES);
    }
    seen.extend(hosts(&lines(&place.run(&crawl))));
    let distinct: BTreeSet<&String> = seen.iter().collect();
    assert_eq!((seen.len(), distinct.len()), (SITES, SITES));
    // What was begun was finished, so nobody was visited twice.
    assert_eq!(homepages(&web), SITES);
}

/// How often homepages were asked for.
fn homepages(web: &Pathologies) -> usize {
    let hosts = web.all_hosts();
    let requests = hosts.iter().flat_map(|host| web.targets(host));
    requests.filter(|target| target == "/").count()
}
