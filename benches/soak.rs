//! A million pages in one process: what grows, and what is left open at the end.
//!
//! A crawl as `crawl` makes it, with the live fetcher and the store on the disk, over a
//! generated web that a process of its own serves on loopback. Pauses are zero, a
//! deferred site is visited again after a minute, a response must begin within two seconds, and
//! `pprs_factor` never ends the crawl. Some hosts are slow, and some pages fail.
//!
//! Printed after every hundredth of the pages:
//! - `judged`, `border`: sites with a verdict, and sites that wait for one
//! - `memory`: resident memory, the cache of the store included
//! - `files`, `tasks`, `threads`: open descriptors, live tasks of the runtime, threads
//! - `store`: bytes on the disk, beside what `benches/runs` predicts
//!
//! The bench fails unless
//! - the crawl ends by its number of pages, and no site stays claimed
//! - when idle connections have been closed, no more tasks and descriptors are left than there
//!   were before
//! - the store takes about what is predicted
//!
//! The growth of memory is printed for the last three quarters, in bytes for each page, each known
//! site and each byte of the store. The store keeps a table of its pages in memory, so a
//! little for each site is no leak; growth with the pages alone would be one.
//!
//! ```text
//! cargo bench --bench soak                                   # a million pages
//! cargo bench --bench soak -- --pages 20000 --sites 20000    # a minute
//! cargo bench --bench soak -- --plot soak.svg                # with a picture
//! cargo bench --bench soak -- --evidence none                # without pages and words
//! cargo bench --bench soak -- --cache-mib 16                 # with a smaller cache
//! ```
//!
//! The store is below `target` during the run.

#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(
    clippy::cast_precision_loss,
    reason = "rates need no more than 52 bits"
)]

mod counting;
mod plot;
mod serving;

use std::fs;
use std::io::{Read, Write, stdin, stdout};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::time::Duration;

use counting::{CpuClock, memory};
use mimalloc::MiMalloc;
use plot::{Curve, Panel, Plot, Stroke};
use serving::Server;
use sitescout::classify::SiteModel;
use sitescout::config::{EvidenceRetention, ResolveRule, Settings, StoreSettings};
use sitescout::external::{
    CrawlMetrics, CrawlerSlots, EndReason, Goals, Reweighted, TopicCrawl, ordering,
};
use sitescout::fetch::{FetchMetrics, LiveWeb};
use sitescout::lab::generated::{Conditions, GeneratedWeb, WebServer};
use sitescout::parse::ParseLimits;
use sitescout::store::{CrawlStore, KeyValueStore, TopicTotals};
use sitescout::telemetry::Metrics;
use sitescout::training::{Corpus, CorpusLimits, Labels, fit_model};
use sitescout::web::{PageUrl, Scheme, SiteId, SiteReport};
use tokio::runtime::{Handle, Runtime};
use tokio::time::{Instant, sleep};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const PAGES: u64 = 1_000_000;
const CRAWLERS: usize = 512;
const SITES: u64 = 400_000;

/// The seed of the web.
const SEED: u64 = 1;

const TOPIC: &str = "sailing";

/// Number of sites that the topic is learned from, and of others.
const LEARNED: (usize, usize) = (15, 90);

const CONDITIONS: Conditions = Conditions {
    latency: Duration::from_millis(2),
    faults: 0.005,
};

/// Number of samples.
const SAMPLES: u64 = 100;

/// The first part of the way, in which caches fill and pools grow.
const WARM_UP: f64 = 0.25;

/// What may be left of tasks and descriptors after the crawl: nothing is known to last.
const LASTING_TASKS: usize = 0;
const LASTING_FILES: usize = 0;

/// Idle connections are gone after their time and half of it again; the rest is for a busy
/// machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// What `benches/runs/2026-11-16-xeon-2-cores` says about a border of a million sites: bytes
/// on the disk for each site with its first edge, and for each edge that came later.
const DISK_OF_A_SITE: f64 = 1_322.0;
const DISK_OF_AN_EDGE: f64 = 894.0;

/// It does not say what a verdict takes, nor its evidence. Soaks of 50,000 pages, with and
/// without evidence, took this for each judged site beyond its edges.
const DISK_OF_A_VERDICT: f64 = 3_000.0;
const DISK_OF_EVIDENCE: f64 = 3_500.0;

/// The store may be this share of what is predicted.
const AS_PREDICTED: std::ops::RangeInclusive<f64> = 0.8..=1.25;

/// The same run, from a million to ten million border sites: by how much the memory of a
/// store grows for each site when its cache is full.
const MEMORY_OF_A_SITE: f64 = 349.0;

fn main() {
    let options = Options::read();
    if options.is_server {
        serve(options.sites);
    } else {
        soak(&options);
    }
}

/// What the command line asks for.
#[derive(Debug)]
struct Options {
    pages: u64,
    crawlers: usize,
    sites: u64,
    cache_bytes: usize,
    evidence: EvidenceRetention,
    plot: Option<PathBuf>,
    is_server: bool,
}

/// How things stand at one moment of the crawl.
#[derive(Debug, Clone, Copy)]
struct Sample {
    wall: Duration,
    totals: TopicTotals,
    /// Edges that were recorded.
    edges: u64,
    memory: usize,
    open: OpenThings,
    store: u64,
}

/// What a process holds open.
#[derive(Debug, Clone, Copy)]
struct OpenThings {
    files: usize,
    tasks: usize,
    threads: usize,
}

/// What has come of a crawl.
struct Soaked {
    reason: EndReason,
    totals: TopicTotals,
    before: OpenThings,
    after: OpenThings,
    samples: Vec<Sample>,
    cpu: Duration,
    wall: Duration,
}

// === impl Options ===

impl Options {
    fn read() -> Self {
        let mut options = Self {
            pages: PAGES,
            crawlers: CRAWLERS,
            sites: SITES,
            cache_bytes: StoreSettings::default().cache_bytes,
            evidence: EvidenceRetention::All,
            plot: None,
            is_server: false,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().expect("a value");
            match argument.as_str() {
                "--pages" => options.pages = value().parse().expect("a number of pages"),
                "--crawlers" => options.crawlers = value().parse().expect("a number of crawlers"),
                "--sites" => options.sites = value().parse().expect("a number of sites"),
                "--cache-mib" => {
                    let mebibytes: usize = value().parse().expect("a number of MiB");
                    options.cache_bytes = mebibytes << 20;
                }
                "--evidence" => {
                    options.evidence = match value().as_str() {
                        "all" => EvidenceRetention::All,
                        "none" => EvidenceRetention::None,
                        other => panic!("`all` or `none`, not `{other}`"),
                    }
                }
                "--plot" => options.plot = Some(value().into()),
                "--serve" => options.is_server = true,
                // `cargo bench` adds one of its own.
                "--bench" => {}
                other => panic!("unknown option `{other}`"),
            }
        }
        options
    }

    fn settings(&self, server: SocketAddr) -> Settings {
        let mut settings = Settings::default();
        settings.store.cache_bytes = self.cache_bytes;
        settings.store.evidence = self.evidence;
        let fetch = &mut settings.fetch;
        fetch.resolve = vec![ResolveRule {
            host: "*".to_owned(),
            address: server,
            tls: false,
        }];
        fetch.politeness.pause = Duration::ZERO;
        fetch.politeness.address_interval = Duration::ZERO;
        // Deferred sites are visited again before the end.
        fetch.politeness.come_back = Duration::from_mins(1);
        // Some answers never come.
        fetch.limits.first_byte = Duration::from_secs(2);
        fetch.limits.connections = fetch.limits.connections.max(self.crawlers);
        settings.external.crawlers = self.crawlers;
        // Pages per relevant site do not end the crawl.
        settings.external.pprs_factor = 1e6;
        settings
    }
}

fn soak(options: &Options) {
    let server = Server::start(&["--serve", "--sites", &options.sites.to_string()]);
    let mut server_clock = CpuClock::of_process(&server.process());
    let settings = options.settings(server.address);
    let web = GeneratedWeb::new(options.sites, SEED);
    let learned = web
        .examples(TOPIC, LEARNED.0, LEARNED.1)
        .expect("enough sites");
    let model = Arc::new(train(&learned, &settings));
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let store = KeyValueStore::open(directory.path(), &settings.store).expect("a store");
    let starts = learned.iter().filter(|(_, topic)| *topic == TOPIC);
    let starts = starts.map(|(site, _)| PageUrl::homepage(site, Scheme::Http));
    let starts = starts.collect();
    println!(
        "{} pages of {} sites, {} crawlers, cache of the store {} MiB",
        options.pages,
        options.sites,
        options.crawlers,
        settings.store.cache_bytes >> 20
    );
    let before = server_clock.now();
    let soaked = runtime().block_on(crawl(options, &settings, &store, model, starts));
    let (server_cpu, _) = server_clock.now().since(&before);
    soaked.tell(&settings, server_cpu);
    if let Some(path) = &options.plot {
        fs::write(path, soaked.plot(&settings).to_svg()).expect("a writable file");
    }
    soaked.check(&settings);
}

/// As the crawler has it.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

fn parse_limits(settings: &Settings) -> ParseLimits {
    ParseLimits {
        max_links: settings.parse.max_links,
        max_url_bytes: settings.parse.max_url_bytes,
    }
}

fn train(learned: &[(SiteId, &str)], settings: &Settings) -> SiteModel {
    let labels = Labels::of(learned.iter().cloned());
    let limits = CorpusLimits {
        pages_per_site: settings.training.pages_per_site,
        sites_at_once: 8,
        parse: parse_limits(settings),
    };
    let metrics = FetchMetrics::register(&Metrics::new());
    let corpus = runtime().block_on(async {
        let web = LiveWeb::new(&settings.fetch, metrics, None).expect("usable settings");
        Corpus::read(Arc::new(web), &labels.labels, limits, |_| {}).await
    });
    let examples = corpus.examples(TOPIC);
    fit_model(TOPIC, &corpus.lexicon, &examples, &settings.training).0
}

async fn crawl(
    options: &Options,
    settings: &Settings,
    store: &KeyValueStore,
    model: Arc<SiteModel>,
    starts: Vec<PageUrl>,
) -> Soaked {
    let before = OpenThings::now();
    let metrics = FetchMetrics::register(&Metrics::new());
    let web = LiveWeb::new(&settings.fetch, metrics, None).expect("usable settings");
    let web = Arc::new(web);
    let edges = Arc::new(AtomicU64::new(0));
    let by_settings = ordering(&settings.external);
    let name = by_settings.name().to_owned();
    let counting = Reweighted::new(Arc::clone(&by_settings), &name, {
        let edges = Arc::clone(&edges);
        move |report: &SiteReport| {
            let weighed = by_settings.weigh(report);
            edges.fetch_add(weighed.len() as u64, Memory::Relaxed);
            weighed
        }
    });
    let topic = TopicCrawl::by(Arc::new(counting), TOPIC, model, settings);
    let topic = topic.expect("a fit model").with_goals(Goals {
        wanted: None,
        max_pages: Some(options.pages),
    });
    let figures = CrawlMetrics::register(&Metrics::new());
    let slots = CrawlerSlots::new(options.crawlers);
    let kept: Arc<dyn CrawlStore> = Arc::new(store.clone());
    let opening = topic.open(kept, Arc::clone(&web) as _, &figures, &slots);
    let external = opening.await.expect("a crawler");
    external.start_at(starts).await.expect("a store");
    let mut clock = CpuClock::of_process("self");
    let start = clock.now();
    let begun = Instant::now();
    let mut samples: Vec<Sample> = Vec::new();
    Sample::tell_head();
    let crawl = external.crawl(std::future::pending(), |_, totals| {
        let taken = samples.len() as u64;
        if totals.pages * SAMPLES >= (taken + 1) * options.pages && taken < SAMPLES {
            let recorded = edges.load(Memory::Relaxed);
            let sample = Sample::now(begun, *totals, recorded, store);
            sample.tell(settings);
            samples.push(sample);
        }
    });
    let (reason, totals) = crawl.await.expect("an end");
    let (cpu, wall) = clock.now().since(&start);
    let after = OpenThings::when_drained(&before, &web, settings.fetch.limits.idle).await;
    Soaked {
        reason,
        totals,
        before,
        after,
        samples,
        cpu,
        wall,
    }
}

// === impl Sample ===

impl Sample {
    fn now(begun: Instant, totals: TopicTotals, edges: u64, store: &KeyValueStore) -> Self {
        Self {
            wall: begun.elapsed(),
            totals,
            edges,
            memory: memory("self", "VmRSS:"),
            open: OpenThings::now(),
            store: store.disk_bytes(),
        }
    }

    fn judged(&self) -> u64 {
        let TopicTotals {
            relevant,
            irrelevant,
            undecided,
            ..
        } = self.totals;
        relevant + irrelevant + undecided
    }

    /// All sites that the store has a record of.
    fn known(&self) -> u64 {
        let TopicTotals {
            border,
            deferred,
            taken,
            ..
        } = self.totals;
        self.judged() + border + deferred + taken
    }

    /// Bytes of the store, if all was as it was measured.
    fn predicted_store(&self, settings: &Settings) -> f64 {
        let verdict = match settings.store.evidence {
            EvidenceRetention::None => DISK_OF_A_VERDICT,
            _ => DISK_OF_A_VERDICT + DISK_OF_EVIDENCE,
        };
        let further_edges = self.edges.saturating_sub(self.known());
        self.known() as f64 * DISK_OF_A_SITE
            + further_edges as f64 * DISK_OF_AN_EDGE
            + self.judged() as f64 * verdict
    }

    fn tell_head() {
        println!(
            "{:>8} {:>6} {:>8} {:>8} {:>8} {:>9} {:>7} {:>5} {:>5} {:>7} {:>7} {:>9}",
            "pages",
            "s",
            "judged",
            "deferred",
            "border",
            "edges",
            "memory",
            "files",
            "tasks",
            "threads",
            "store",
            "predicted"
        );
        println!("{:>63} {:>27} {:>9}", "MB", "MB", "MB");
    }

    fn tell(&self, settings: &Settings) {
        println!(
            "{:>8} {:>6.0} {:>8} {:>8} {:>8} {:>9} {:>7.0} {:>5} {:>5} {:>7} {:>7.0} {:>9.0}",
            self.totals.pages,
            self.wall.as_secs_f64(),
            self.judged(),
            self.totals.deferred,
            self.totals.border,
            self.edges,
            self.memory as f64 / 1e6,
            self.open.files,
            self.open.tasks,
            self.open.threads,
            self.store as f64 / 1e6,
            self.predicted_store(settings) / 1e6,
        );
    }
}

// === impl OpenThings ===

impl OpenThings {
    fn now() -> Self {
        let entries = |directory: &str| fs::read_dir(directory).expect("Linux").count();
        Self {
            // To look at them opens one more.
            files: entries("/proc/self/fd") - 1,
            tasks: Handle::current().metrics().num_alive_tasks(),
            threads: entries("/proc/self/task"),
        }
    }

    /// When idle connections have been closed, or should have been.
    async fn when_drained(before: &Self, web: &LiveWeb, idle: Duration) -> Self {
        let start = Instant::now();
        loop {
            let now = Self::now();
            let is_drained = now.exceeds(before).is_none() && web.connections_open() == 0;
            if is_drained || start.elapsed() > 2 * idle + PATIENCE {
                return now;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// What there is more of than there was before.
    fn exceeds(&self, before: &Self) -> Option<&'static str> {
        match self {
            _ if self.tasks > before.tasks + LASTING_TASKS => Some("tasks"),
            _ if self.files > before.files + LASTING_FILES => Some("descriptors"),
            _ => None,
        }
    }
}

// === impl Soaked ===

impl Soaked {
    fn tell(&self, settings: &Settings, server_cpu: Duration) {
        let totals = &self.totals;
        println!(
            "\n{} after {} pages in {:.0} s: {:.0} pages/s, {:.0} us of CPU a page, {:.0} of the \
             server's",
            self.reason.name(),
            totals.pages,
            self.wall.as_secs_f64(),
            totals.pages as f64 / self.wall.as_secs_f64(),
            self.each_page(self.cpu),
            self.each_page(server_cpu),
        );
        println!(
            "relevant {}, irrelevant {}, undecided {}, deferred {}, border {}, still claimed {}",
            totals.relevant,
            totals.irrelevant,
            totals.undecided,
            totals.deferred,
            totals.border,
            totals.taken
        );
        for (when, open) in [("before", &self.before), ("after", &self.after)] {
            println!(
                "{when:<7} {:>4} files {:>4} tasks {:>4} threads",
                open.files, open.tasks, open.threads
            );
        }
        self.tell_growth(settings);
    }

    fn tell_growth(&self, settings: &Settings) {
        let late = self.late();
        let (Some(first), Some(last)) = (late.first(), late.last()) else {
            return;
        };
        let growth = |along: fn(&Sample) -> f64| slope(late, along, |at| at.memory as f64);
        println!(
            "memory: {:.0} MB after the warm-up, {:.0} at the end",
            first.memory as f64 / 1e6,
            last.memory as f64 / 1e6,
        );
        println!(
            "        {:.0} bytes more for each page, {:.0} for each known site, {:.3} for each byte \
             of the store",
            growth(|at| at.totals.pages as f64),
            growth(|at| at.known() as f64),
            growth(|at| at.store as f64),
        );
        println!(
            "        a store alone, its cache full, takes {MEMORY_OF_A_SITE} for each border site"
        );
        println!(
            "store:  {:.0} MB at the end, {:.0} predicted: {:.2} of it",
            last.store as f64 / 1e6,
            last.predicted_store(settings) / 1e6,
            last.store as f64 / last.predicted_store(settings),
        );
    }

    fn each_page(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.totals.pages as f64
    }

    /// The samples after the warm-up.
    fn late(&self) -> &[Sample] {
        let end = self.totals.pages as f64;
        let is_early = |at: &Sample| (at.totals.pages as f64) < WARM_UP * end;
        &self.samples[self.samples.partition_point(is_early)..]
    }

    /// What memory would be if after the warm-up nothing had grown but the store by its sites.
    fn expected_memory(&self, at: &Sample) -> f64 {
        let Some(first) = self.late().first() else {
            return at.memory as f64;
        };
        let more_sites = at.known() as f64 - first.known() as f64;
        first.memory as f64 + MEMORY_OF_A_SITE * more_sites
    }

    fn plot(&self, settings: &Settings) -> Plot {
        let curve = |name, stroke, of: &dyn Fn(&Sample) -> f64| Curve {
            name,
            stroke,
            points: self
                .samples
                .iter()
                .map(|at| (at.totals.pages as f64, of(at)))
                .collect(),
        };
        let solid = |name, of: &dyn Fn(&Sample) -> f64| curve(name, Stroke::Solid, of);
        let dashed = |name, of: &dyn Fn(&Sample) -> f64| curve(name, Stroke::Dashed, of);
        Plot {
            along: "pages",
            panels: vec![
                Panel {
                    title: "memory, MB",
                    curves: vec![
                        dashed("by known sites", &|at| self.expected_memory(at) / 1e6),
                        solid("resident", &|at| at.memory as f64 / 1e6),
                    ],
                },
                Panel {
                    title: "sites",
                    curves: vec![
                        dashed("known", &|at| at.known() as f64),
                        solid("border", &|at| at.totals.border as f64),
                    ],
                },
                Panel {
                    title: "store, MB",
                    curves: vec![
                        dashed("predicted", &|at| at.predicted_store(settings) / 1e6),
                        solid("on the disk", &|at| at.store as f64 / 1e6),
                    ],
                },
                Panel {
                    title: "open",
                    curves: vec![
                        dashed("tasks", &|at| at.open.tasks as f64),
                        solid("descriptors", &|at| at.open.files as f64),
                    ],
                },
            ],
        }
    }

    fn check(&self, settings: &Settings) {
        assert_eq!(self.reason, EndReason::PagesSpent, "the web is too small");
        assert_eq!(self.totals.taken, 0, "sites are still claimed");
        let leak = self.after.exceeds(&self.before);
        assert!(
            leak.is_none(),
            "there are {} left over",
            leak.unwrap_or_default()
        );
        let last = self.samples.last().expect("samples");
        let share = last.store as f64 / last.predicted_store(settings);
        assert!(
            AS_PREDICTED.contains(&share),
            "the store is {share:.2} of what was predicted"
        );
    }
}

/// By least squares.
fn slope(samples: &[Sample], along: impl Fn(&Sample) -> f64, up: impl Fn(&Sample) -> f64) -> f64 {
    let number = samples.len() as f64;
    let mean = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / number;
    let (middle, height) = (mean(&along), mean(&up));
    let covariance = mean(&|at| (along(at) - middle) * (up(at) - height));
    let variance = mean(&|at| (along(at) - middle).powi(2));
    covariance / variance
}

// === the server ===

/// Runs in the process of the server: prints its address, and ends when its input is closed.
fn serve(sites: u64) {
    let (_, most) = rlimit::Resource::NOFILE.get().expect("a limit");
    let raised = rlimit::Resource::NOFILE.set(most, most);
    raised.expect("as many as are allowed");
    let runtime = runtime();
    runtime.spawn(async move {
        let web = GeneratedWeb::new(sites, SEED);
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = WebServer::bind(anywhere, web, CONDITIONS).await;
        let server = server.expect("a free port");
        println!("{}", server.address().expect("a bound socket"));
        stdout().flush().expect("a reader");
        server.serve().await
    });
    // The parent holds the other end, whichever way it goes.
    let _ = stdin().read(&mut [0]);
}
