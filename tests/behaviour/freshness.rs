//! Rechecks of relevant sites: verdicts change, outages are retried, and new sites are not delayed.
//!
//! No test waits: a store is dumped, every time in it is moved back, and the dump is imported.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sitescout::config::Settings;
use sitescout::external::{CrawlMetrics, CrawlerSlots, EndReason, Goals, TopicCrawl};
use sitescout::store::{DumpLine, DumpStore, JudgedSite, KeyValueStore, ReadStore, TopicTotals};
use sitescout::telemetry::{Metrics, clock};
use sitescout::web::{UndecidedReason, Verdict};
use tokio::runtime::Runtime;

use crate::crawling::{Place, hosts, lines, text};
use crate::scripted_web::{ScriptedWeb, baking, model, mute, sailing};

const DAY: Duration = Duration::from_hours(24);

/// Moves every time in a record of a dump back.
fn move_back(record: &mut Value, by: Duration) {
    let earlier = |time: &mut Value| {
        let seconds = time.as_u64().expect("a time");
        *time = seconds.saturating_sub(by.as_secs()).into();
    };
    match record["record"].as_str() {
        Some("verdict") => earlier(&mut record["verdict"]["judged_at"]),
        Some("site") => {
            for phase in ["due", "recheck"] {
                if let Some(time) = record["site"]["phase"].get_mut(phase) {
                    earlier(time);
                }
            }
        }
        _ => {}
    }
}

/// A crawl over a web that changes from time to time.
pub(crate) struct History {
    runtime: Runtime,
    store: KeyValueStore,
    pub(crate) settings: Settings,
    goals: Goals,
    pub(crate) metrics: Metrics,
    start: &'static str,
}

/// The result of one run.
pub(crate) struct Run {
    pub(crate) shown: Vec<JudgedSite>,
    pub(crate) reason: EndReason,
    pub(crate) totals: TopicTotals,
    pub(crate) web: Arc<ScriptedWeb>,
}

impl History {
    pub(crate) fn new() -> Self {
        let mut settings = Settings::default();
        settings.external.crawlers = 1;
        Self {
            runtime: Runtime::new().expect("a runtime"),
            store: KeyValueStore::in_memory().expect("memory"),
            settings,
            goals: Goals::default(),
            metrics: Metrics::new(),
            start: "http://hub.example/",
        }
    }

    /// Crawls until there is a reason to end.
    pub(crate) fn crawl(&mut self, web: ScriptedWeb) -> Run {
        let web = Arc::new(web);
        self.metrics = Metrics::new();
        let crawl = TopicCrawl::new("sailing", model(), &self.settings);
        let crawl = crawl.expect("a fit model").with_goals(self.goals);
        let metrics = CrawlMetrics::register(&self.metrics);
        let mut shown = Vec::new();
        let (reason, totals) = self.runtime.block_on(async {
            let store = Arc::new(self.store.clone());
            let slots = CrawlerSlots::new(self.settings.external.crawlers);
            let opening = crawl.open(store, web.clone(), &metrics, &slots).await;
            let external = opening.expect("a crawler");
            let start = self.start.parse().expect("an address");
            external.start_at(vec![start]).await.expect("a start");
            let note = |verdict: &JudgedSite, _: &TopicTotals| shown.push(verdict.clone());
            let crawl = external.crawl(std::future::pending(), note);
            crawl.await.expect("an end")
        });
        Run {
            shown,
            reason,
            totals,
            web,
        }
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, time: Duration) {
        self.store = self.runtime.block_on(async {
            let mut dump = self.store.dump();
            let mut moved: Vec<DumpLine> = Vec::new();
            while let Some(line) = dump.recv().await {
                let mut record = serde_json::to_value(line.expect("a record")).expect("JSON");
                move_back(&mut record, time);
                moved.push(serde_json::from_value(record).expect("a record"));
            }
            let store = KeyValueStore::in_memory().expect("memory");
            store.load(moved).await.expect("a store");
            store
        });
    }

    /// All verdicts, in the order of their numbers.
    pub(crate) fn judged(&self) -> Vec<JudgedSite> {
        self.runtime.block_on(async {
            let topics = self.store.topics().await.expect("topics");
            let judged = self.store.judged(topics[0].1, 0, 1_000).await;
            judged.expect("verdicts")
        })
    }

    pub(crate) fn verdict(&self, host: &str) -> JudgedSite {
        let mut judged = self.judged().into_iter();
        let judged = judged.find(|judged| judged.site.as_str() == host);
        judged.expect("a verdict")
    }

    /// What `export` lists.
    fn listed(&self) -> Vec<String> {
        let judged = self.judged().into_iter();
        let relevant = judged.filter(|judged| judged.verdict.is_relevant());
        let mut hosts: Vec<String> = relevant.map(|judged| judged.site.to_string()).collect();
        hosts.sort();
        hosts
    }
}

impl Run {
    fn news(&self) -> Vec<(&str, Verdict)> {
        let shown = self.shown.iter();
        let mut news: Vec<(&str, Verdict)> = shown
            .map(|shown| (shown.site.as_str(), shown.verdict))
            .collect();
        news.sort_by_key(|(host, _)| *host);
        news
    }
}

/// Three pages about sailing; the first holds links.
fn site(web: ScriptedWeb, host: &str, links: &[String]) -> ScriptedWeb {
    let mut all = vec!["/a", "/b"];
    all.extend(links.iter().map(String::as_str));
    web.page(&format!("http://{host}/"), &sailing(0, &all))
        .page(&format!("http://{host}/a"), &sailing(1, &[]))
        .page(&format!("http://{host}/b"), &sailing(2, &[]))
}

/// The same about something else.
fn other_site(web: ScriptedWeb, host: &str) -> ScriptedWeb {
    web.page(&format!("http://{host}/"), &baking(0, &["/a", "/b"]))
        .page(&format!("http://{host}/a"), &baking(1, &[]))
        .page(&format!("http://{host}/b"), &baking(2, &[]))
}

/// A hub and the sites that it links to; those are left out whose pages come later.
fn web(linked: &[&str], left_out: &[&str]) -> ScriptedWeb {
    let links: Vec<String> = linked
        .iter()
        .map(|host| format!("http://{host}/"))
        .collect();
    let mut web = site(ScriptedWeb::default(), "hub.example", &links);
    for host in linked.iter().filter(|host| !left_out.contains(host)) {
        web = site(web, host, &[]);
    }
    web
}

#[test]
fn what_sites_have_become_is_found_out_when_their_time_has_come() {
    let linked = ["still.test", "parked.test", "moved.test", "drifted.test"];
    let mut history = History::new();
    let first = history.crawl(web(&linked, &[]));
    assert_eq!(first.reason, EndReason::BorderEmpty);
    assert_eq!(first.totals.deferred, 0);
    assert_eq!((first.totals.relevant, first.totals.finds), (5, 4));
    let before = history.verdict("still.test");

    history.wait(29 * DAY);
    let early = history.crawl(web(&linked, &[]));
    assert_eq!(early.web.asked(), [""; 0], "no site is due");

    history.wait(2 * DAY);
    let parked = "<title>parked.test</title><h1>This domain is for sale</h1>\
                  <p>Buy this domain name now.</p>";
    let mut later = web(&linked, &linked[1..])
        .page("http://parked.test/", parked)
        .answer(
            "http://moved.test/",
            301,
            &[("location", "http://new.test/")],
        );
    later = site(other_site(later, "drifted.test"), "new.test", &[]);
    let second = history.crawl(later);
    assert_eq!(
        second.news(),
        [
            ("drifted.test", Verdict::Irrelevant),
            ("moved.test", Verdict::Undecided(UndecidedReason::Alias)),
            ("new.test", Verdict::Relevant),
            ("parked.test", Verdict::Undecided(UndecidedReason::Parked)),
        ]
    );
    let mut numbers: Vec<u64> = second.shown.iter().map(|shown| shown.seq).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [6, 7, 8, 9]);
    assert_eq!(history.listed(), ["hub.example", "new.test", "still.test"]);
    let totals = second.totals;
    assert_eq!((totals.relevant, totals.finds), (3, 2));
    assert_eq!((totals.irrelevant, totals.undecided), (1, 2));
    assert_eq!((totals.taken, totals.deferred), (0, 0));

    // A site whose verdict is unchanged keeps its `seq`, with a new time.
    let after = history.verdict("still.test");
    assert_eq!(after.seq, before.seq);
    let age = clock::now().duration_since(after.judged_at);
    assert!(age.expect("a time that has passed") < DAY);
    assert_eq!(after.pages, 3, "no more than a verdict takes");

    history.wait(DAY);
    let third = history.crawl(web(&linked, &[]));
    assert_eq!(third.web.asked(), [""; 0], "all of them are fresh");
}

#[test]
fn a_site_that_is_out_of_order_has_three_days_to_come_back() {
    let broken = |web: ScriptedWeb| {
        web.answer("http://failing.test/", 500, &[])
            .page("http://mute.test/", &mute("x", &[]))
    };
    let linked = ["dead.test", "failing.test", "mute.test"];
    for comes_back in [true, false] {
        let mut history = History::new();
        let all = ["dead.test", "failing.test", "hub.example", "mute.test"];
        history.crawl(web(&linked, &[]));
        let before = history.judged();
        history.wait(31 * DAY);
        // Each time longer: an hour, eight, and nearly three days.
        for hours in [1, 8, 64] {
            let run = history.crawl(broken(web(&linked, &linked)));
            assert_eq!(run.news(), [], "one outage drops no site");
            assert_eq!(run.reason, EndReason::BorderEmpty);
            assert_eq!(run.totals.deferred, 3);
            assert_eq!((run.totals.relevant, run.totals.finds), (4, 3));
            assert_eq!(history.listed(), all);
            history.wait(Duration::from_mins(60 * hours - 5));
            let early = history.crawl(broken(web(&linked, &linked)));
            assert_eq!(early.web.asked(), [""; 0]);
            history.wait(Duration::from_mins(6));
        }
        if comes_back {
            let run = history.crawl(web(&linked, &[]));
            assert_eq!(run.news(), []);
            let numbers = |judged: &[JudgedSite]| -> Vec<u64> {
                judged.iter().map(|judged| judged.seq).collect()
            };
            assert_eq!(numbers(&history.judged()), numbers(&before));
            assert_eq!(run.totals.deferred, 0);
            continue;
        }
        let run = history.crawl(broken(web(&linked, &linked)));
        let undecided = Verdict::Undecided;
        assert_eq!(
            run.news(),
            [
                ("dead.test", undecided(UndecidedReason::Unreachable)),
                ("failing.test", undecided(UndecidedReason::Failing)),
                ("mute.test", undecided(UndecidedReason::NothingSpoke)),
            ]
        );
        assert_eq!(history.listed(), ["hub.example"]);
        assert_eq!((run.totals.relevant, run.totals.finds), (1, 0));
    }
}

#[test]
fn wanted_counts_sites_relevant_today_and_a_dropped_one_makes_room() {
    let linked = ["a.test", "b.test", "c.test"];
    let mut history = History::new();
    history.goals.wanted = Some(1);
    history.crawl(web(&linked, &[]));
    assert_eq!(history.listed(), ["a.test", "hub.example"]);
    let enough = history.crawl(web(&linked, &[]));
    assert_eq!(enough.reason, EndReason::WantedReached);
    assert_eq!(enough.web.asked(), [""; 0]);

    history.wait(31 * DAY);
    let unchanged = history.crawl(web(&linked, &[]));
    assert_eq!(unchanged.reason, EndReason::WantedReached);
    assert_eq!(unchanged.news(), []);
    assert_eq!(unchanged.totals.border, 2, "no other site was visited");
    assert!(!unchanged.web.asked().is_empty());

    history.wait(31 * DAY);
    let changed = history.crawl(other_site(web(&linked, &["a.test"]), "a.test"));
    assert_eq!(changed.reason, EndReason::WantedReached);
    assert_eq!(
        changed.news(),
        [
            ("a.test", Verdict::Irrelevant),
            ("b.test", Verdict::Relevant)
        ]
    );
    assert_eq!((changed.totals.finds, changed.totals.border), (1, 1));
}

#[test]
fn found_sites_are_rechecked_also_after_pprs_rose() {
    let mut linked = vec!["a.test".to_owned()];
    linked.extend((0..8).map(|at| format!("bakery{at}.test")));
    let linked: Vec<&str> = linked.iter().map(String::as_str).collect();
    let bakeries = |mut web: ScriptedWeb| {
        for host in &linked[1..] {
            web = other_site(web, host);
        }
        web
    };
    let mut history = History::new();
    history.settings.external.pprs_window = 6;
    history.settings.external.pprs_factor = 1.0;
    let first = history.crawl(bakeries(web(&linked, &linked[1..])));
    assert_eq!(first.reason, EndReason::PprsBad);
    assert_eq!(history.listed(), ["a.test", "hub.example"]);
    assert!(first.totals.border > 0);

    history.wait(31 * DAY);
    let later = other_site(bakeries(web(&linked, &linked)), "a.test");
    let second = history.crawl(later);
    assert_eq!(second.reason, EndReason::PprsBad);
    assert_eq!(second.news(), [("a.test", Verdict::Irrelevant)]);
    assert_eq!(second.totals.border, first.totals.border, "no other site");
}

#[test]
fn rechecks_neither_count_as_finds_nor_raise_pprs_nor_delay_new_sites() {
    let old: Vec<String> = (0..12).map(|at| format!("old{at}.test")).collect();
    let new: Vec<String> = (0..12).map(|at| format!("new{at}.test")).collect();
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    let new: Vec<&str> = new.iter().map(String::as_str).collect();
    let mut history = History::new();
    let first = history.crawl(web(&old, &[]));
    assert_eq!(first.totals.finds, 12);

    // All of them have changed, and the hub links to others. If rechecks counted as the cost of
    // finding, the crawl would end.
    history.settings.external.pprs_window = 10;
    history.settings.external.pprs_factor = 1.0;
    history.wait(31 * DAY);
    let mut later = web(&new, &[]);
    for host in &old {
        later = other_site(later, host);
    }
    let second = history.crawl(later);
    assert_eq!(second.reason, EndReason::BorderEmpty);
    assert_eq!(second.totals.deferred, 0);
    assert_eq!((second.totals.finds, second.totals.irrelevant), (12, 12));
    let is_find = |shown: &&JudgedSite| shown.verdict.is_relevant();
    let finds = second.shown.iter().filter(is_find).count();
    assert_eq!(finds, 12, "the new ones");
    // By hand: the hub comes first, as the oldest, and has the links; from then on three new
    // ones come for each old one.
    let last = second.shown.iter().rposition(|shown| is_find(&shown));
    let until_last = &second.shown[..=last.expect("a find")];
    let old = until_last.iter().filter(|shown| !is_find(shown)).count();
    assert!((3..=4).contains(&old), "{old} old ones among the new");
}

#[test]
fn a_blocked_host_loses_its_verdict_without_being_asked() {
    let mut history = History::new();
    history.crawl(web(&["a.test", "b.test"], &[]));
    history.wait(31 * DAY);
    history.settings.external.block = vec!["a.test".to_owned()];
    let run = history.crawl(web(&["a.test", "b.test"], &[]));
    let blocked = Verdict::Undecided(UndecidedReason::Blocked);
    assert_eq!(run.news(), [("a.test", blocked)]);
    assert_eq!(run.shown[0].pages, 0);
    assert_eq!((run.totals.relevant, run.totals.finds), (2, 1));
    assert_eq!(history.listed(), ["b.test", "hub.example"]);
}

#[test]
fn no_site_is_rechecked_if_so_set_and_all_are_when_that_changes() {
    let linked = ["a.test", "b.test"];
    let mut history = History::new();
    history.settings.external.recheck_after = None;
    history.crawl(web(&linked, &[]));
    history.wait(4_000 * DAY);
    let never = history.crawl(other_site(web(&linked, &["a.test"]), "a.test"));
    assert_eq!(never.web.asked(), [""; 0]);
    history.settings.external.recheck_after = Some(3_999 * DAY);
    let again = history.crawl(other_site(web(&linked, &["a.test"]), "a.test"));
    assert_eq!(again.news(), [("a.test", Verdict::Irrelevant)]);
}

#[test]
fn evidence_of_a_rechecked_site_is_as_old_as_the_last_recheck() {
    let linked = ["a.test", "bakery.test"];
    let at_first = || other_site(web(&linked, &["bakery.test"]), "bakery.test");
    let mut history = History::new();
    let has_evidence = |history: &History, host: &str| {
        let site = host.parse().expect("a host");
        history.runtime.block_on(async {
            let topics = history.store.topics().await.expect("topics");
            let file = history.store.site(topics[0].1, &site).await;
            file.expect("a read").expect("a file").evidence.is_some()
        })
    };
    history.crawl(at_first());
    history.wait(366 * DAY);
    history.crawl(at_first());
    assert!(has_evidence(&history, "a.test"));
    assert!(!has_evidence(&history, "bakery.test"), "it is too old");
    // There is no recheck to renew it.
    history.settings.external.recheck_after = None;
    history.wait(366 * DAY);
    history.start = "http://c.test/";
    history.crawl(site(ScriptedWeb::default(), "c.test", &[]));
    assert!(!has_evidence(&history, "a.test"));
    assert!(has_evidence(&history, "c.test"));
}

// === from the command line ===

#[test]
fn an_unchanged_site_prints_no_line_and_a_dropped_one_prints_one() {
    let place = Place::new();
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/site-models");
    let crawl = format!("crawl sailing --json --models {models} --web warc:coast.warc.gz");
    let first = lines(&place.run(&format!("{crawl} --state first")));
    let export = |state: &str, arguments: &str| {
        let export = format!("export --topic sailing --state {state} {arguments}");
        let output = place.run(&export);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let dump = place.run("export --everything --state first");
    let dump = lines(&dump).into_iter().map(|mut record| {
        move_back(&mut record, 31 * DAY);
        record.to_string()
    });
    let dump: Vec<String> = dump.collect();
    std::fs::write(place.path("old.jsonl"), dump.join("\n")).expect("a dump");
    let imported = place.run("import old.jsonl --state old");
    assert!(imported.status.success(), "{}", text(&imported.stderr));

    let hub = first[0]["host"].as_str().expect("a host");
    let gone = first
        .iter()
        .find(|line| line["verdict"] == "relevant" && line["host"] != hub);
    let gone = gone.expect("a find")["host"].as_str().expect("a host");
    let settings = format!("[external]\nblock = ['{gone}']\n");
    std::fs::write(place.path("block.toml"), settings).expect("settings");
    let list = export("old", "");
    let output = place.run(&format!("{crawl} --config block.toml --state old"));
    let second = lines(&output);
    assert_eq!(hosts(&second), [gone], "{second:?}");
    assert_eq!(second[0]["verdict"], "undecided");
    // The block took it off the list before, under a number of its own.
    assert_eq!(second[0]["seq"], first.len() as u64 + 2);
    // Without the block, so that it is the verdict that keeps it out.
    let without: Vec<&str> = list.lines().filter(|host| *host != gone).collect();
    assert_eq!(export("old", "").lines().collect::<Vec<_>>(), without);
    let news = export("old", &format!("--all --since {}", first.len()));
    assert_eq!(news.lines().collect::<Vec<_>>(), [gone]);
    let again = lines(&place.run(&format!("{crawl} --state old")));
    assert_eq!(again, [Value::Null; 0], "all of them are fresh");

    let inspect = |state: &str, host: &str| {
        let file = lines(&place.run(&format!("inspect {host} --json --state {state}")));
        file[0]["recheck"].clone()
    };
    assert!(inspect("first", gone).is_string());
    assert_eq!(
        inspect("old", gone),
        Value::Null,
        "it is no longer relevant"
    );
    let shown = text(&place.run(&format!("inspect {hub} --state old")).stdout);
    assert!(shown.contains("to be rechecked: "), "{shown}");
}
