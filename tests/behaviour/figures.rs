//! The Prometheus metrics: their names and labels are pinned, their number stays small, and the
//! results of a crawl are shown again after a restart.
//!
//! `UPDATE_GOLDEN=1 cargo test figures` rewrites `tests/golden/figures.txt`; read the
//! difference before committing it: dashboards and alerts of users are built on these names.
//! `FIGURES_OUT=FILE` writes the metrics with their values, for `promtool check metrics < FILE`.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sitescout::classify::SiteModel;
use sitescout::config::{FetchSettings, ResolveRule, Settings, StoreSettings};
use sitescout::external::{
    CrawlMetrics, CrawlerSlots, EndReason, ExternalCrawler, Goals, TopicCrawl,
};
use sitescout::fetch::{FetchMetrics, Fetcher, LiveWeb};
use sitescout::lab::generated::{Conditions, GeneratedWeb, Truth, WebServer};
use sitescout::store::{KeyValueStore, StoreError};
use sitescout::telemetry::Metrics;
use sitescout::web::PageUrl;
use tokio::time::sleep;

const TOPICS: [&str; 2] = ["astronomy", "sailing"];

/// A process with all parts that register metrics.
struct Process {
    metrics: Metrics,
    crawl: CrawlMetrics,
    store: Arc<KeyValueStore>,
    fetcher: Arc<dyn Fetcher>,
    settings: Settings,
}

impl Process {
    async fn start(directory: &Path, web: GeneratedWeb) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let calm = Conditions {
            latency: Duration::ZERO,
            faults: 0.0,
        };
        let server = WebServer::bind(any, web, calm).await.expect("a port");
        let rule = ResolveRule {
            host: "*".to_owned(),
            address: server.address().expect("an address"),
            tls: false,
        };
        tokio::spawn(server.serve());
        let mut fetch = FetchSettings {
            resolve: vec![rule],
            ..FetchSettings::default()
        };
        fetch.politeness.pause = Duration::ZERO;
        let metrics = Metrics::of_process();
        let counted = FetchMetrics::register(&metrics);
        let fetcher = LiveWeb::new(&fetch, counted, None).expect("a fetcher");
        let store = open(directory).await;
        store.register_metrics(&metrics);
        let settings = Settings {
            fetch,
            ..Settings::default()
        };
        Self {
            crawl: CrawlMetrics::register(&metrics),
            metrics,
            store: Arc::new(store),
            fetcher: Arc::new(fetcher),
            settings,
        }
    }

    /// A crawl that ends after `wanted` finds.
    async fn crawler(&self, topic: &str, wanted: u64) -> ExternalCrawler {
        let model = format!("site-models/{topic}/site-model.bin");
        let model = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(model));
        let model = SiteModel::from_bytes(&model.expect("a file")).expect("a model");
        let fetcher = Arc::clone(&self.fetcher);
        let crawl = TopicCrawl::new(topic, Arc::new(model), &self.settings);
        let crawl = crawl.expect("a fit model").with_goals(Goals {
            wanted: Some(wanted),
            max_pages: None,
        });
        let store = Arc::clone(&self.store);
        // With one at a time the order of visits is the same every time.
        let slots = CrawlerSlots::new(1);
        let opening = crawl.open(store, fetcher, &self.crawl, &slots);
        opening.await.expect("a crawler")
    }

    /// Crawls for a topic until the given number of its sites is found; returns the judged hosts.
    async fn crawl(&self, topic: &str, web: GeneratedWeb, wanted: u64) -> BTreeSet<String> {
        let starts = starts(web, topic).take(5).collect();
        let (reason, hosts) = self.crawl_from(topic, starts, wanted).await;
        assert_eq!(reason, EndReason::WantedReached);
        hosts
    }

    async fn crawl_from(
        &self,
        topic: &str,
        starts: Vec<PageUrl>,
        wanted: u64,
    ) -> (EndReason, BTreeSet<String>) {
        let crawler = self.crawler(topic, wanted).await;
        crawler.start_at(starts).await.expect("room for sites");
        let mut hosts = BTreeSet::new();
        let crawl = crawler.crawl(std::future::pending(), |shown, _| {
            hosts.insert(shown.site.to_string());
        });
        let (reason, _) = crawl.await.expect("an end");
        (reason, hosts)
    }

    /// The lines with the rates of the crawls.
    fn rates(&self) -> Vec<String> {
        let rendered = self.metrics.render();
        let is_rate = |line: &&str| {
            line.starts_with("sitescout_pages_per_relevant_site{")
                || line.starts_with("sitescout_website_harvest_rate{")
        };
        rendered
            .lines()
            .filter(is_rate)
            .map(str::to_owned)
            .collect()
    }
}

/// Opens a store that another process may just be closing.
async fn open(directory: &Path) -> KeyValueStore {
    for _ in 0..500 {
        match KeyValueStore::open(directory, &StoreSettings::default()) {
            Err(StoreError::Locked(_)) => sleep(Duration::from_millis(20)).await,
            opened => return opened.expect("a store"),
        }
    }
    panic!("the store is never closed");
}

/// Sites on a topic.
fn starts(web: GeneratedWeb, topic: &str) -> impl Iterator<Item = PageUrl> {
    let sites = (0..2_000).map(move |number| web.site(number));
    let sites =
        sites.filter(move |(_, truth)| matches!(truth, Truth::Topic(name) if *name == topic));
    sites.map(|(host, _)| format!("http://{host}/").parse().expect("an address"))
}

/// All series, without their values.
fn series(rendered: &str) -> BTreeSet<String> {
    let lines = rendered.lines().filter(|line| !line.starts_with('#'));
    let series = lines.filter_map(|line| line.rsplit_once(' '));
    series.map(|(series, _)| series.to_owned()).collect()
}

/// Metrics without what differs from run to run: values, the version, bounds of buckets.
fn outline(rendered: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in rendered.lines() {
        let line = match line.rsplit_once(' ') {
            Some((series, _)) if !line.starts_with('#') => without_bounds(series),
            _ => line.to_owned(),
        };
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}

/// Adds the series of one more metric at their sorted place.
#[cfg(unix)]
fn with_family(rendered: &str, family: &str) -> String {
    const HEAD: &str = "# HELP ";
    let families = rendered.split(HEAD).chain(family.split(HEAD));
    let families: BTreeSet<&str> = families.filter(|family| !family.is_empty()).collect();
    let families = families.iter().map(|family| format!("{HEAD}{family}"));
    families.collect()
}

fn without_bounds(series: &str) -> String {
    for label in ["le=", "version="] {
        if let Some((before, _)) = series.split_once(&format!("{label}\"")) {
            return format!("{before}{label}…}}");
        }
    }
    series.to_owned()
}

#[tokio::test]
async fn names_types_and_labels_are_those_that_users_build_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let web = GeneratedWeb::new(2_000, 1);
    let process = Process::start(directory.path(), web).await;
    for topic in TOPICS {
        process.crawl(topic, web, 1).await;
    }
    let mut rendered = process.metrics.render();
    #[cfg(unix)]
    {
        let states = tokio::task::spawn_blocking(|| crate::daemon::topic_states("sailing"));
        rendered = with_family(&rendered, &states.await.expect("no panic"));
    }
    if let Some(file) = std::env::var_os("FIGURES_OUT") {
        fs::write(file, &rendered).expect("a writable directory");
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/figures.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, outline(&rendered)).expect("a writable directory");
    }
    let wanted = fs::read_to_string(&golden).expect("an expected file");
    // Other systems report less about a process, and some have no daemon.
    if !cfg!(target_os = "linux") {
        crate::skips::skipped!("the figures of the process are not compared, only Linux has them");
    }
    let comparable = |text: &str| {
        let is_comparable = |line: &&str| {
            (cfg!(target_os = "linux") || !line.contains("process_"))
                && (cfg!(unix) || !line.contains("sitescout_topic_state"))
        };
        let lines = text.lines().filter(is_comparable).map(str::to_owned);
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(comparable(&outline(&rendered)), comparable(&wanted));
}

#[tokio::test]
async fn many_hosts_add_no_series_and_none_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let web = GeneratedWeb::new(2_000, 1);
    let process = Process::start(directory.path(), web).await;
    let few = process.crawl("sailing", web, 1).await;
    let before = series(&process.metrics.render());
    let many = process.crawl("sailing", web, 20).await;
    assert!(many.len() > 2 * few.len(), "{few:?}, {many:?}");
    let rendered = process.metrics.render();
    assert_eq!(series(&rendered), before);
    for host in few.union(&many) {
        assert!(!rendered.contains(host), "{host}");
    }
}

#[tokio::test]
async fn crawl_results_are_shown_after_a_restart_before_anything_is_visited() {
    let directory = tempfile::tempdir().expect("a directory");
    let web = GeneratedWeb::new(2_000, 1);
    let process = Process::start(directory.path(), web).await;
    let fresh = process.crawler("sailing", 0).await;
    assert_eq!(process.rates(), [""; 0], "no rates without visits");
    drop(fresh);
    process.crawl("sailing", web, 5).await;
    let rates = process.rates();
    assert_eq!(rates.len(), 6, "{rates:?}");
    drop(process);
    let process = Process::start(directory.path(), web).await;
    assert_eq!(process.rates(), [""; 0]);
    process.crawler("sailing", 0).await;
    assert_eq!(process.rates(), rates);
    let border = r#"sitescout_border_sites{topic="sailing"} 0"#;
    assert!(!process.metrics.render().contains(border));
}

#[tokio::test]
async fn a_crawl_that_ended_because_pprs_rose_goes_on_when_there_are_new_start_sites() {
    let directory = tempfile::tempdir().expect("a directory");
    let web = GeneratedWeb::new(2_000, 1);
    let starts: Vec<PageUrl> = starts(web, "sailing").take(6).collect();
    let few = starts[..3].to_vec();
    let started = async || {
        let mut process = Process::start(directory.path(), web).await;
        process.settings.external.pprs_window = 20;
        process.settings.external.pprs_factor = 1.5;
        process
    };
    let process = started().await;
    let (reason, first) = process.crawl_from("sailing", few.clone(), u64::MAX).await;
    assert_eq!(reason, EndReason::PprsBad);
    assert!(!first.is_empty());
    drop(process);
    let process = started().await;
    let (reason, again) = process.crawl_from("sailing", few, u64::MAX).await;
    assert_eq!(reason, EndReason::PprsBad);
    assert_eq!(again, BTreeSet::new(), "nothing has changed");
    let (_, more) = process.crawl_from("sailing", starts, u64::MAX).await;
    assert!(!more.is_empty());
}
