//! A site that crashes the process is not visited at every start for ever.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;

use crate::crawling::{Place, lines, text, topics};
use crate::exhaustion::LONGEST;
use crate::pathologies::{Pathologies, Reply};

const POISON: &str = "poison.example";

/// Others that are visited beside it.
const OTHERS: usize = 12;

fn other(number: usize) -> String {
    format!("other-{number}.example")
}

/// A web with a site whose homepage kills the crawler when requested, while it is deadly.
struct Web {
    _runtime: Runtime,
    served: Pathologies,
    /// Receives an item when the deadly page is requested.
    deadly: Receiver<()>,
    is_deadly: Arc<Mutex<bool>>,
    /// The hosts whose homepage was requested, in order.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Web {
    fn serve() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let served = runtime.block_on(Pathologies::start());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let is_deadly = Arc::new(Mutex::new(true));
        let (kill, deadly) = mpsc::channel();
        let page = "<p>Learn to sail a dinghy or a yacht, race in the regatta of our sailing club, \
                    and meet the crew in the harbour.";
        let note = |host: &str| {
            let (asked, host) = (Arc::clone(&asked), host.to_owned());
            move || {
                asked
                    .lock()
                    .expect("no panic in between")
                    .push(host.clone());
            }
        };
        for host in (0..OTHERS).map(other) {
            let note = note(&host);
            served.script(&host, move |target, _| {
                if target == "/robots.txt" {
                    return Reply::status(404);
                }
                note();
                Reply::html(page).after(Duration::from_millis(200))
            });
        }
        let note = note(POISON);
        let (kill, deadliness) = (Mutex::new(kill), Arc::clone(&is_deadly));
        served.script(POISON, move |target, _| {
            if target == "/robots.txt" {
                return Reply::status(404);
            }
            note();
            if !*deadliness.lock().expect("no panic in between") {
                return Reply::html(page);
            }
            let kill = kill.lock().expect("no panic in between");
            kill.send(()).expect("a test that waits");
            Reply::html(page).after(Duration::from_hours(1))
        });
        Self {
            _runtime: runtime,
            served,
            deadly,
            is_deadly,
            asked,
        }
    }

    /// The hosts requested since the last call.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().expect("no panic in between"))
    }
}

/// Settings and a topic that begins with the deadly site and the others.
fn crawl_of(web: &Web, place: &Place) -> String {
    let settings = format!(
        "[log]\nlevel = 'error'\n\
         [fetch]\nresolve = [{{ host = '*.example', address = '{}' }}]\n\
         [fetch.politeness]\npause = '0 s'\n",
        web.served.http()
    );
    fs::write(place.path("live.toml"), settings).expect("settings");
    topics(place, &[("boats", "")]);
    let others = (0..OTHERS).map(|at| format!("'{}'", other(at)));
    let others = others.collect::<Vec<_>>().join(", ");
    let topic = format!("name = 'boats'\nstart_sites = ['{POISON}', {others}]\n");
    fs::write(place.path("models/boats/topic.toml"), topic).expect("a topic");
    "crawl boats --json --config live.toml --crawlers 3 --models models --state state".to_owned()
}

/// Crawls until the deadly page is requested, and kills the process then. Returns the hosts that were
/// judged, and those requested.
fn kill_once(web: &Web, place: &Place, crawl: &str) -> (BTreeSet<String>, Vec<String>) {
    let mut command = place.command(crawl);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child: Child = child.expect("a process");
    web.deadly
        .recv_timeout(LONGEST)
        .expect("the deadly page is asked for");
    // Time enough for requests to others, if any are under way.
    thread::sleep(Duration::from_millis(500));
    child.kill().expect("a kill");
    let output = child.wait_with_output().expect("an end");
    let judged = text(&output.stdout);
    let judged = judged.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["host"].as_str().expect("a host").to_owned()
    });
    (judged.collect(), web.asked())
}

fn verdict_on(place: &Place, host: &str) -> Value {
    let shown = place.run(&format!(
        "inspect {host} --topic boats --state state --json"
    ));
    serde_json::from_str(&text(&shown.stdout)).expect("JSON")
}

#[test]
fn a_site_that_kills_is_visited_alone_and_then_no_more() {
    let web = Web::serve();
    let place = Place::new();
    let crawl = crawl_of(&web, &place);
    for death in 1..=2 {
        let (_, asked) = kill_once(&web, &place, &crawl);
        assert!(asked.contains(&POISON.to_owned()), "death {death}");
        assert!(
            asked.len() > 1,
            "death {death}: others were under way: {asked:?}"
        );
    }
    for death in 3..=4 {
        let (judged, asked) = kill_once(&web, &place, &crawl);
        assert_eq!(
            asked.last().map(String::as_str),
            Some(POISON),
            "death {death}: {asked:?}"
        );
        for host in asked.iter().filter(|host| *host != POISON) {
            assert!(
                judged.contains(host),
                "death {death}: {host} was under way beside it"
            );
        }
    }
    let rest = place.run(&crawl);
    assert!(rest.status.success(), "{}", text(&rest.stderr));
    assert!(
        !web.asked().contains(&POISON.to_owned()),
        "it is left alone"
    );
    let kept = lines(&place.run("export --topic boats --format jsonl --all --state state"));
    assert_eq!(kept.len(), OTHERS + 1, "every site has a verdict");
    for line in &kept {
        let is_poison = line["host"] == POISON;
        assert_eq!(line["verdict"] == "undecided", is_poison, "{line}");
    }
    let poison = verdict_on(&place, POISON).to_string();
    assert!(poison.contains("\"poison\""), "{poison}");
}

#[test]
fn a_site_that_answers_at_last_is_no_suspect_any_more() {
    let web = Web::serve();
    let place = Place::new();
    let crawl = crawl_of(&web, &place);
    for _ in 1..=3 {
        kill_once(&web, &place, &crawl);
    }
    *web.is_deadly.lock().expect("no panic in between") = false;
    let rest = place.run(&crawl);
    assert!(rest.status.success(), "{}", text(&rest.stderr));
    let kept = lines(&place.run("export --topic boats --format jsonl --all --state state"));
    let poison = kept
        .iter()
        .find(|line| line["host"] == POISON)
        .expect("a verdict");
    assert_eq!(poison["verdict"], "relevant", "it was judged by its page");
    assert_eq!(kept.len(), OTHERS + 1);
}
