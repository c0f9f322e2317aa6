//! Whole crawls from the command line: sites are found, stored, resumed, listed and explained.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use sitescout::classify::SiteModel;
use sitescout::config::{ResolveRule, Settings, TopicDefinition};
use sitescout::external::{CrawlMetrics, CrawlerSlots, EndReason, TopicCrawl};
use sitescout::fetch::{Archive, FetchError, Fetcher};
use sitescout::store::JudgedSite;
use sitescout::store::KeyValueStore;
use sitescout::telemetry::{Metrics, grouped};
use sitescout::web::{FetchedPage, PageUrl, UndecidedReason, Verdict};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::pathologies::{Pathologies, Reply};
use crate::{fixture, without_index};

/// The fields of a judged site, the same in every output.
pub(crate) const JUDGED: [&str; 14] = [
    "host",
    "seq",
    "verdict",
    "undecided_reason",
    "confidence",
    "pages",
    "rank",
    "start",
    "judged_at",
    "model",
    "stop_reason",
    "alias_of",
    "address",
    "noindex",
];

/// A directory with the small archive and room for a store.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self {
            directory: tempfile::tempdir().expect("a directory"),
        };
        let archive = place.path("coast.warc.gz");
        fs::copy(fixture("coast.warc.gz"), archive).expect("a fixture");
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sitescout"));
        command
            .current_dir(self.directory.path())
            .args(arguments.split_whitespace());
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().expect("an end")
    }

    pub(crate) fn crawl(&self, arguments: &str) -> Output {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-models");
        let crawl = format!(
            "crawl sailing --json --models {} --web warc:coast.warc.gz {arguments}",
            models.display()
        );
        self.run(&crawl)
    }
}

pub(crate) fn lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let text = text(&output.stdout);
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// The same without the moments at which sites were judged, which differ from run to run.
fn undated(output: &Output) -> Vec<Value> {
    let mut lines = lines(output);
    for line in &mut lines {
        assert!(line["judged_at"].take().is_string(), "{line}");
    }
    lines
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn hosts(lines: &[Value]) -> Vec<String> {
    let hosts = lines
        .iter()
        .map(|line| line["host"].as_str().expect("a host"));
    hosts.map(str::to_owned).collect()
}

#[test]
fn a_crawl_finds_sites_in_the_same_order_every_time() {
    let place = Place::new();
    let [first, second] =
        ["one", "two"].map(|state| undated(&place.crawl(&format!("--crawlers 1 --state {state}"))));
    assert_eq!(first, second);
    assert!(first.len() > 10, "{first:?}");
    let numbers: Vec<u64> = first
        .iter()
        .filter_map(|line| line["seq"].as_u64())
        .collect();
    let wanted: Vec<u64> = (1..=first.len() as u64).collect();
    assert_eq!(numbers, wanted);
    assert_eq!(first[0]["start"], true);
    assert_eq!(first[0]["rank"], 1.0);
    let found = first.iter().filter(|line| line["start"] == false);
    let relevant = found.filter(|line| line["verdict"] == "relevant").count();
    assert!(relevant >= 8, "{relevant}");
    let ended = text(&place.crawl("--crawlers 1 --state one").stderr);
    assert!(ended.contains("no site is left to visit"), "{ended}");
    let judged = format!("{} sites judged", first.len());
    assert!(ended.contains(&judged), "{ended}");
}

#[test]
fn what_is_wanted_or_allowed_ends_the_crawl_and_it_goes_on_from_there() {
    let place = Place::new();
    let whole = hosts(&lines(&place.crawl("--crawlers 1 --state whole")));
    let first = place.crawl("--crawlers 1 --wanted 2");
    assert!(text(&first.stderr).contains("the wanted number of sites is found"));
    let mut seen = hosts(&lines(&first));
    assert!(seen.len() < whole.len());
    let next = place.crawl("--crawlers 1 --max-pages 30");
    assert!(text(&next.stderr).contains("the limit of pages is reached"));
    seen.extend(hosts(&lines(&next)));
    assert!(seen.len() < whole.len());
    seen.extend(hosts(&lines(&place.crawl("--crawlers 1"))));
    assert_eq!(seen, whole);
}

#[test]
fn many_crawlers_find_the_same_sites() {
    let place = Place::new();
    let one: BTreeSet<String> = hosts(&lines(&place.crawl("--crawlers 1 --state one")))
        .into_iter()
        .collect();
    let many: BTreeSet<String> = hosts(&lines(&place.crawl("--crawlers 64 --state many")))
        .into_iter()
        .collect();
    assert_eq!(one, many);
}

/// All strategies, as the command lists them when a name is unknown.
fn all_strategies(place: &Place) -> BTreeSet<String> {
    let refused = text(&place.crawl("--strategy none").stderr);
    let (_, listed) = refused.split_once("[possible values: ").expect("a list");
    let (names, _) = listed.split_once(']').expect("its end");
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn every_ordering_reaches_the_same_sites_in_an_order_of_its_own() {
    let place = Place::new();
    let mut found_by = BTreeMap::new();
    let mut sites = BTreeSet::new();
    let mut strategies = all_strategies(&place);
    // It needs another model, and has a test of its own.
    assert!(strategies.remove("paper"));
    for strategy in strategies {
        let crawl = format!("--crawlers 1 --strategy {strategy} --state {strategy}");
        let found = hosts(&lines(&place.crawl(&crawl)));
        sites.insert(found.iter().cloned().collect::<BTreeSet<_>>());
        found_by.insert(strategy, found);
    }
    assert_eq!(sites.len(), 1, "{found_by:?}");
    assert_ne!(found_by["combined"], found_by["breadth-first"]);
    assert_ne!(found_by["random"], found_by["breadth-first"]);
}

#[test]
fn the_strategy_of_the_paper_is_refused_without_its_page_classifier() {
    let place = Place::new();
    let refused = place.crawl("--crawlers 1 --strategy paper");
    assert_eq!(refused.status.code(), Some(78));
    let stderr = text(&refused.stderr);
    let command = "sitescout train sailing --page-classifier centroid";
    assert!(stderr.contains(&format!("`{command}`")), "{stderr}");
    assert!(!place.path("state").exists(), "nothing was touched");

    fs::copy(fixture("coast.labels.tsv"), place.path("labels.tsv")).expect("labels");
    let command = command.strip_prefix("sitescout ").expect("a command");
    let sites = "--warc coast.warc.gz --labels labels.tsv";
    let trained = place.run(&format!("{command} {sites}"));
    assert!(trained.status.success(), "{}", text(&trained.stderr));
    let crawl = |strategy: &str| {
        let crawl = place.run(&format!(
            "crawl sailing --json --web warc:coast.warc.gz --start harbour-sailing.example \
             --crawlers 1 --strategy {strategy} --state {strategy}"
        ));
        hosts(&lines(&crawl))
    };
    let (paper, combined) = (crawl("paper"), crawl("combined"));
    assert_eq!(paper[0], "harbour-sailing.example");
    let sites = |hosts: &[String]| hosts.iter().cloned().collect::<BTreeSet<_>>();
    // It is sure of relevant sites after fewer pages, and finds fewer links on them.
    let (paper, combined) = (sites(&paper), sites(&combined));
    assert!(combined.is_superset(&paper), "{paper:?} {combined:?}");
}

#[test]
fn what_was_found_is_listed_and_explained() {
    let place = Place::new();
    let found = lines(&place.crawl("--crawlers 1"));
    let relevant: Vec<String> = found
        .iter()
        .filter(|line| line["verdict"] == "relevant")
        .map(|line| line["host"].as_str().expect("a host").to_owned())
        .collect();
    let listed = text(&place.run("export --topic sailing").stdout);
    assert_eq!(listed.lines().collect::<Vec<_>>(), relevant);
    let csv = text(
        &place
            .run("export --topic sailing --format csv --min-confidence 0.98")
            .stdout,
    );
    let mut rows = csv.lines();
    assert_eq!(
        rows.next(),
        Some("seq,host,verdict,confidence,pages,start,judged_at,decision,noindex")
    );
    assert!(rows.clone().count() > 3 && rows.clone().count() < relevant.len());
    let first = rows.next().expect("a row");
    let confidence = first.strip_prefix("1,harbour-sailing.example,relevant,");
    let confidence = confidence.and_then(|rest| rest.split(',').next()?.parse().ok());
    assert!(confidence >= Some(0.98), "{first}");
    let all = lines(&place.run("export --topic sailing --format jsonl --all --since 3"));
    assert_eq!(all.len(), found.len() - 3);
    assert_eq!(all[0]["seq"], 4);
    let to_file = place.run("export --topic sailing --out list.txt");
    assert!(to_file.status.success(), "{}", text(&to_file.stderr));
    assert_eq!(
        fs::read_to_string(place.path("list.txt")).expect("a list"),
        listed
    );

    let file = lines(&place.run("inspect www.lakeside-sailing.example --json"));
    let shown = found
        .iter()
        .find(|line| line["host"] == "lakeside-sailing.example");
    let shown = shown.expect("a verdict");
    let exported = lines(&place.run("export --topic sailing --format jsonl --all"));
    let exported = exported.iter().find(|line| line["host"] == shown["host"]);
    for field in JUDGED {
        assert!(shown.get(field).is_some(), "{field}");
        assert_eq!(file[0][field], shown[field], "{field} of inspect");
        assert_eq!(
            exported.expect("a line")[field],
            shown[field],
            "{field} of export"
        );
    }
    assert_eq!(file[0]["topic"], "sailing");
    assert_eq!(shown["verdict"], "relevant");
    assert!(
        file[0]["evidence"]
            .as_array()
            .is_some_and(|pages| !pages.is_empty())
    );
    let by = &file[0]["recommended_by"][0];
    assert!(by["host"].is_string() && by["global"].is_f64() && by["local"].is_f64());
    let shown = text(
        &place
            .run("inspect lakeside-sailing.example --topic sailing")
            .stdout,
    );
    for wanted in [
        "relevant with confidence",
        "recommended by",
        "recommends",
        "for      ",
    ] {
        assert!(shown.contains(wanted), "{shown}");
    }
    let unknown = place.run("inspect nobody.example");
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("is not known"));
}

#[test]
fn a_store_that_was_exported_and_imported_goes_on_like_the_first() {
    let place = Place::new();
    place.crawl("--crawlers 1 --wanted 3 --state old");
    let exported = place.run("export --everything --state old --out dump.jsonl");
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    let imported = place.run("import dump.jsonl --state new");
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    let again = place.run("export --everything --state new").stdout;
    let dump = fs::read(place.path("dump.jsonl")).expect("a dump");
    assert_eq!(text(&again), text(&dump));
    let [old, new] =
        ["old", "new"].map(|state| undated(&place.crawl(&format!("--crawlers 1 --state {state}"))));
    assert!(old.len() > 5);
    assert_eq!(old, new);
    let refused = place.run("import dump.jsonl --state new");
    assert!(text(&refused.stderr).contains("new is there already"));
    fs::write(place.path("bad.jsonl"), "{\"record\":\"site\"}\n").expect("a file");
    let refused = place.run("import bad.jsonl --state bad");
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("bad.jsonl, line 1"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn blocked_hosts_are_not_visited_and_leave_the_results() {
    let place = Place::new();
    let found = lines(&place.crawl("--crawlers 1 --wanted 1"));
    let first = found.last().expect("a find")["host"]
        .as_str()
        .expect("a host")
        .to_owned();
    let settings = format!("[external]\nblock = ['{first}', 'bay-regatta.example']\n");
    fs::write(place.path("block.toml"), settings).expect("settings");
    let rest = lines(&place.crawl("--crawlers 1 --config block.toml"));
    let bay = rest
        .iter()
        .find(|line| line["host"] == "bay-regatta.example");
    let bay = bay.expect("it was in the border already");
    assert_eq!(
        (&bay["verdict"], &bay["pages"]),
        (&"undecided".into(), &0.into())
    );
    let listed = text(
        &place
            .run("export --topic sailing --config block.toml")
            .stdout,
    );
    assert!(
        !listed.contains(&first) && listed.lines().count() > 3,
        "{listed}"
    );
}

#[test]
fn what_cannot_be_done_is_reported() {
    let place = Place::new();
    for (arguments, code, wanted) in [
        (
            "crawl nothing --web warc:coast.warc.gz",
            1,
            "cannot read the model",
        ),
        (
            "crawl sailing --web coast.warc.gz",
            2,
            "expected warc:FILE or generated:SITES,SEED",
        ),
        (
            "export --topic sailing --state none",
            1,
            "there is no store in none",
        ),
    ] {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(wanted), "{arguments}: {stderr}");
    }
    place.crawl("--wanted 1");
    let output = place.run("export --topic rowing");
    assert!(text(&output.stderr).contains("there is no topic `rowing`; there are: sailing"));
    fs::create_dir(place.path("mine")).expect("a directory");
    fs::write(place.path("mine/letter.txt"), "dear").expect("a file");
    let output = place.crawl("--state mine");
    assert_eq!(output.status.code(), Some(65));
    assert!(text(&output.stderr).contains("holds files, but no sitescout store"));
}

#[test]
fn orderings_are_compared_on_labelled_sites() {
    let place = Place::new();
    let topic = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-models/sailing/topic.toml");
    let topic = fs::read_to_string(topic).expect("a topic");
    let topic = TopicDefinition::parse(&topic).expect("a topic");
    let label = |sites: &[Vec<String>], topic: &str| {
        let sites = sites.iter().flatten();
        sites
            .map(|site| format!("{site}\t{topic}"))
            .collect::<Vec<_>>()
    };
    let mut labels = label(&topic.target_sites, "sailing");
    labels.extend(label(&topic.other_sites, "other"));
    fs::write(place.path("labels.tsv"), labels.join("\n")).expect("labels");
    let results = lines(&place.run(
        "evaluate crawl --warc coast.warc.gz --labels labels.tsv --topic sailing --draws 2 \
         --start-sites 1 --json",
    ));
    let [result] = &results[..] else {
        panic!("one topic: {results:?}");
    };
    let curves = result["curves"].as_array().expect("curves");
    let names: Vec<&str> = curves
        .iter()
        .filter_map(|curve| curve["ordering"].as_str())
        .collect();
    let wanted = [
        "combined",
        "paper",
        "global",
        "local",
        "breadth-first",
        "random",
        "true labels",
    ];
    assert_eq!(names, wanted);
    let targets = result["targets"].as_f64().expect("a mean");
    assert!(targets >= 1.0, "{result}");
    for curve in curves {
        let mean = |name: &str, at: usize| curve[name][at].as_f64().expect("a mean");
        for at in 0..3 {
            assert!(mean("found", at) <= mean("reached", at), "{curve}");
            assert!(mean("reached", at) <= targets, "{curve}");
            assert!(at == 0 || mean("reached", at) >= mean("reached", at - 1));
        }
        assert!(mean("pages", 2) >= 1.0, "{curve}");
    }
    let output = place.run(
        "evaluate crawl --warc coast.warc.gz --labels labels.tsv --topic sailing --draws 1 \
         --start-sites 1",
    );
    let printed = text(&output.stdout);
    assert!(printed.contains("targets reached"), "{printed}");
    assert!(printed.lines().all(|line| line.len() <= 80), "{printed}");
}

#[test]
fn a_dump_that_breaks_off_is_no_store() {
    let place = Place::new();
    place.crawl("--crawlers 1");
    let dumped = place.run("export --everything");
    let dump = text(&dumped.stdout);
    let half: Vec<&str> = dump.lines().take(dump.lines().count() / 2).collect();
    fs::write(place.path("half.jsonl"), half.join("\n")).expect("a dump");
    let refused = place.run("import half.jsonl --state half");
    assert_eq!(refused.status.code(), Some(1));
    let stderr = text(&refused.stderr);
    assert!(stderr.contains("breaks off after"), "{stderr}");
    assert!(stderr.contains("holds a part only"), "{stderr}");
    let refused = place.run("export --topic sailing --state half");
    assert_eq!(refused.status.code(), Some(65));
    let stderr = text(&refused.stderr);
    assert!(
        stderr.contains("delete that directory and import again"),
        "{stderr}"
    );
    fs::create_dir(place.path("empty")).expect("a directory");
    let refused = place.run("export --topic sailing --state empty");
    assert!(text(&refused.stderr).contains("there is no store in empty"));
    let files = fs::read_dir(place.path("empty")).expect("a directory");
    assert_eq!(files.count(), 0, "looking makes nothing");
}

// === internal errors ===

/// Passes requests on, but panics at one host.
struct Faulty(Archive);

#[async_trait]
impl Fetcher for Faulty {
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
        assert_ne!(
            page.site().as_str(),
            "bay-regatta.example",
            "a fault of ours"
        );
        self.0.fetch(page).await
    }
}

/// Crawls the small archive through a fetcher, in memory, until no site is left.
fn crawl_through(
    fetcher: Arc<dyn Fetcher>,
    settings: &Settings,
    metrics: &Metrics,
) -> Vec<JudgedSite> {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-models/sailing/site-model.bin");
    let model = SiteModel::from_bytes(&fs::read(model).expect("a file")).expect("a model");
    let crawl = TopicCrawl::new("sailing", Arc::new(model), settings).expect("a fit model");
    let metrics = CrawlMetrics::register(metrics);
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let store = Arc::new(KeyValueStore::in_memory().expect("memory"));
        let slots = CrawlerSlots::new(settings.external.crawlers);
        let opening = crawl.open(store, fetcher, &metrics, &slots).await;
        let external = opening.expect("a crawler");
        let start = "https://harbour-sailing.example/".parse();
        let start = start.expect("an address");
        external.start_at(vec![start]).await.expect("a start");
        let mut verdicts = Vec::new();
        let crawl = external.crawl(std::future::pending(), |shown, _| {
            verdicts.push(shown.clone());
        });
        let (reason, totals) = crawl.await.expect("an end");
        assert_eq!(reason, EndReason::BorderEmpty);
        assert_eq!((totals.border, totals.taken), (0, 0));
        verdicts
    })
}

#[test]
fn a_panic_in_one_visit_is_an_outcome_and_the_crawl_goes_on() {
    let archive = Archive::open(&[fixture("coast.warc.gz")], &without_index());
    let fetcher = Arc::new(Faulty(archive.expect("the small archive")));
    let metrics = Metrics::new();
    let verdicts = crawl_through(fetcher, &Settings::default(), &metrics);
    let broken = verdicts
        .iter()
        .find(|shown| shown.site.as_str() == "bay-regatta.example");
    let interrupted = Verdict::Undecided(UndecidedReason::Interrupted);
    assert_eq!(broken.map(|shown| shown.verdict), Some(interrupted));
    assert!(verdicts.len() > 8, "{verdicts:?}");
    let rendered = metrics.render();
    let undecided = verdicts
        .iter()
        .filter(|shown| shown.verdict.name() == "undecided")
        .count();
    for line in [
        "sitescout_visit_panics_total{topic=\"sailing\"} 1".to_owned(),
        format!(
            "sitescout_sites_judged_total{{topic=\"sailing\",verdict=\"undecided\"}} {undecided}"
        ),
        format!(
            "sitescout_pages_per_visit_count{{topic=\"sailing\"}} {}",
            verdicts.len()
        ),
        "sitescout_border_sites{topic=\"sailing\"} 0".to_owned(),
        "sitescout_internal_crawlers_busy{topic=\"sailing\"} 0".to_owned(),
    ] {
        assert!(
            rendered.lines().any(|metric| metric == line),
            "{line}: {rendered}"
        );
    }
}

// === crowded addresses ===

/// The small archive, all of it on one machine.
struct OneMachine(Archive);

#[async_trait]
impl Fetcher for OneMachine {
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
        let mut fetched = self.0.fetch(page).await?;
        fetched.transfer.address = Some("192.0.2.1".parse().expect("an address"));
        Ok(fetched)
    }
}

#[test]
fn sites_beyond_the_number_for_one_address_are_left_after_their_first_page() {
    let archive = Archive::open(&[fixture("coast.warc.gz")], &without_index());
    let fetcher = Arc::new(OneMachine(archive.expect("the small archive")));
    let mut settings = Settings::default();
    settings.external.crawlers = 1;
    settings.external.sites_per_address = 3;
    let verdicts = crawl_through(fetcher.clone(), &settings, &Metrics::new());
    let full = Verdict::Undecided(UndecidedReason::AddressFull);
    let answered: Vec<&JudgedSite> = verdicts.iter().filter(|shown| shown.pages > 0).collect();
    assert!(answered.len() > 4, "{verdicts:?}");
    for (at, shown) in answered.iter().enumerate() {
        assert_eq!(shown.verdict == full, at >= 3, "{shown:?}");
        assert!(shown.verdict != full || shown.pages == 1, "{shown:?}");
    }
    let rule = ResolveRule {
        host: "*".to_owned(),
        address: "192.0.2.1:80".parse().expect("an address"),
        tls: false,
    };
    settings.fetch.resolve = vec![rule];
    let verdicts = crawl_through(fetcher, &settings, &Metrics::new());
    assert!(
        verdicts.iter().all(|shown| shown.verdict != full),
        "mapped addresses are exempt"
    );
}

// === a border that is too long ===

/// The border after a crawl of one hub page that links to the given number of sites.
fn border_after_hub(place: &Place, links: usize, settings: &str) -> (String, Vec<String>) {
    let runtime = Runtime::new().expect("a runtime");
    let web = runtime.block_on(Pathologies::start());
    let page = (0..links).map(|number| format!("<a href='http://far-{number}.example/'>far</a>"));
    let page = page.collect::<Vec<_>>().join(" ");
    web.script("hub.example", move |target, _| match target {
        "/robots.txt" => Reply::status(404),
        _ => Reply::html(page.clone()),
    });
    let settings = format!(
        "[fetch]\nresolve = [{{ host = '*.example', address = '{}' }}]\n[external]\n{settings}",
        web.http()
    );
    fs::write(place.path("hub.toml"), settings).expect("settings");
    topics(place, &[("hubs", "")]);
    let topic = "name = 'hubs'\nstart_sites = ['hub.example', 'last.example']\n";
    fs::write(place.path("models/hubs/topic.toml"), topic).expect("a topic");
    let state = tempfile::tempdir_in(place.path("")).expect("a directory");
    let state = state.path().join("state");
    let crawl = format!(
        "crawl hubs --config hub.toml --crawlers 1 --models models --max-pages 1 --state {}",
        state.display()
    );
    let crawled = place.run(&crawl);
    let dump = place.run(&format!("export --everything --state {}", state.display()));
    let waiting = text(&dump.stdout);
    let waiting = waiting.lines().filter_map(|line| {
        let record: Value = serde_json::from_str(line).expect("JSON");
        let is_waiting = record["site"]["phase"]["border"].is_object();
        is_waiting.then(|| record["host"].as_str().expect("a host").to_owned())
    });
    (text(&crawled.stderr), waiting.collect())
}

#[test]
fn one_hub_adds_no_more_sites_than_its_share() {
    let place = Place::new();
    for (settings, wanted) in [
        ("", 500),
        ("sites_per_source = 7", 7),
        ("sites_per_source = 0", 2_000),
    ] {
        let (stderr, waiting) = border_after_hub(&place, 2_000, settings);
        // The other start site waits, too.
        assert_eq!(waiting.len(), wanted + 1, "{settings}: {stderr}");
        assert!(waiting.contains(&"last.example".to_owned()));
        // The first on the page, not any.
        assert!(waiting.contains(&"far-0.example".to_owned()));
        assert!(
            stderr.contains(&format!("border {}", grouped(wanted as u64 + 1))),
            "{stderr}"
        );
    }
}

#[test]
fn a_border_that_is_too_long_loses_its_lowest_but_no_start_site() {
    let place = Place::new();
    for (most, wanted) in [(20, 20), (1, 1), (0, 301)] {
        let settings = format!("border_sites = {most}");
        let (stderr, waiting) = border_after_hub(&place, 300, &settings);
        assert_eq!(waiting.len(), wanted, "{settings}: {stderr}");
        assert!(waiting.contains(&"last.example".to_owned()), "{waiting:?}");
    }
}

// === topics ===

/// Makes topics from the existing one: the same model, with other settings.
pub(crate) fn topics(place: &Place, topics: &[(&str, &str)]) {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-models/sailing/site-model.bin");
    for (name, wishes) in topics {
        let directory = place.path("models").join(name);
        fs::create_dir_all(&directory).expect("a directory");
        fs::copy(&model, directory.join("site-model.bin")).expect("a model");
        let topic =
            format!("name = '{name}'\nstart_sites = ['harbour-sailing.example']\n{wishes}\n");
        fs::write(directory.join("topic.toml"), topic).expect("a topic");
    }
}

#[test]
fn several_topics_are_crawled_for_at_once_each_with_its_own_settings() {
    let place = Place::new();
    topics(&place, &[("boats", ""), ("few", "wanted = 2")]);
    let web = "--json --models models --web warc:coast.warc.gz --crawlers 2";
    let alone = lines(&place.run(&format!("crawl boats {web} --state alone")));
    let output = place.run(&format!("crawl boats few {web} --state both"));
    let both = lines(&output);
    let of = |topic: &str| {
        let lines = both.iter().filter(|line| line["topic"] == topic);
        lines.cloned().collect::<Vec<_>>()
    };
    let sorted = |lines: &[Value]| hosts(lines).into_iter().collect::<BTreeSet<_>>();
    assert_eq!(sorted(&of("boats")), sorted(&alone));
    let is_find = |line: &&Value| line["verdict"] == "relevant" && line["start"] == false;
    let few = of("few");
    assert_eq!(few.iter().filter(is_find).count(), 2, "{few:?}");
    let numbers: BTreeSet<u64> = both
        .iter()
        .filter_map(|line| line["seq"].as_u64())
        .collect();
    assert_eq!(
        numbers,
        (1..=both.len() as u64).collect(),
        "one sequence over all topics"
    );
    let stderr = text(&output.stderr);
    assert!(stderr.contains("boats: ended: no site is left"), "{stderr}");
    assert!(
        stderr.contains("few: ended: the wanted number of sites is found"),
        "{stderr}"
    );
    for topic in ["boats", "few"] {
        let listed = place.run(&format!("export --topic {topic} --state both"));
        let listed = text(&listed.stdout).lines().count();
        let relevant = of(topic);
        let relevant = relevant.iter().filter(|line| line["verdict"] == "relevant");
        assert_eq!(listed, relevant.count());
    }
    let refused = place.run(&format!("crawl boats few {web} --start a.example"));
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("--start goes with one topic"));
}

#[test]
fn another_threshold_is_another_model_and_old_verdicts_are_rejudged_if_so_set() {
    let place = Place::new();
    topics(&place, &[("boats", "")]);
    let crawl = "crawl boats --json --models models --web warc:coast.warc.gz --crawlers 1";
    let first = lines(&place.run(crawl));
    topics(&place, &[("boats", "p_threshold = 0.9999")]);
    assert_eq!(lines(&place.run(crawl)), [Value::Null; 0]);
    fs::write(
        place.path("rejudge.toml"),
        "[external]\nold_verdicts = 'rejudge-all'\n",
    )
    .expect("settings");
    // Many crawlers, so that some are at work when enough sites are found.
    let rejudge = format!("{crawl} --config rejudge.toml --wanted 1")
        .replace("--crawlers 1", "--crawlers 64");
    let second = lines(&place.run(&rejudge));
    let sorted = |lines: &[Value]| hosts(lines).into_iter().collect::<BTreeSet<_>>();
    assert_eq!(sorted(&first), sorted(&second));
    let numbers: BTreeSet<u64> = second
        .iter()
        .filter_map(|line| line["seq"].as_u64())
        .collect();
    let (begin, end) = (first.len() as u64 + 1, 2 * first.len() as u64);
    assert_eq!(numbers, (begin..=end).collect());
    let pages = |lines: &[Value]| {
        let pages = lines.iter().filter_map(|line| line["pages"].as_u64());
        pages.sum::<u64>()
    };
    assert!(
        pages(&second) > pages(&first),
        "a higher one takes more reading"
    );
    let all = place.run("export --topic boats --format jsonl --all");
    assert_eq!(text(&all.stdout).lines().count(), first.len(), "none twice");
    assert_eq!(
        lines(&place.run(&rejudge)),
        [Value::Null; 0],
        "once is enough"
    );
}

#[test]
fn what_was_found_is_not_lost_when_the_network_fails() {
    let place = Place::new();
    topics(&place, &[("boats", "")]);
    let crawl = "crawl boats --json --models models --crawlers 4";
    lines(&place.run(&format!("{crawl} --web warc:coast.warc.gz")));
    let listed = || text(&place.run("export --topic boats").stdout);
    let before = listed();
    assert!(before.lines().count() > 5);
    topics(&place, &[("boats", "p_threshold = 0.9999")]);
    // No server listens there.
    let settings = "[fetch]\nresolve = [{ host = '*', address = '127.0.0.1:9' }]\n\
                    [external]\nold_verdicts = 'rejudge-relevant'\n";
    fs::write(place.path("dead.toml"), settings).expect("settings");
    let ended = place.run(&format!("{crawl} --config dead.toml"));
    assert_eq!(
        lines(&ended),
        [Value::Null; 0],
        "no verdict without an answer"
    );
    assert_eq!(listed(), before);
    let stderr = text(&ended.stderr);
    assert!(stderr.contains("are to be visited later"), "{stderr}");
}

#[test]
fn a_topic_paused_for_daemons_is_crawled_and_the_user_is_told() {
    let place = Place::new();
    let first = place.crawl("--crawlers 1 --wanted 1");
    let note = "sailing is paused for daemons";
    assert!(!text(&first.stderr).contains(note));
    // A pause is set through the API of a daemon; a dump has it as a line of its own.
    let dump = place.run("export --everything");
    let mut dump: Vec<String> = text(&dump.stdout).lines().map(str::to_owned).collect();
    dump.pop();
    dump.push(r#"{"record":"paused","topic":1}"#.to_owned());
    dump.push(format!(r#"{{"record":"end","records":{}}}"#, dump.len()));
    fs::write(place.path("paused.jsonl"), dump.join("\n")).expect("a file");
    let imported = place.run("import paused.jsonl --state paused");
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    let paused = place.crawl("--crawlers 1 --state paused");
    assert!(
        text(&paused.stderr).contains(note),
        "{}",
        text(&paused.stderr)
    );
    assert!(!lines(&paused).is_empty());
}
