//! What a large border costs: taking the best site, adding an edge, memory and disk.
//!
//! What is measured, through the API of the store, each row in a process of its own:
//! - `new`: a border site that was not known, with its first edge, while the second half of
//!   the border is filled
//! - `take`: taking the best site, in batches of sixteen
//! - `edge`: recording an edge, in batches of sixteen verdicts with twenty edges each. One edge
//!   of twenty leads to a new site, so that the border keeps its size; of the others half lead
//!   to popular sites (log-uniform) and half to any. The cost of the verdicts is part of
//!   that of the edges.
//! - `sync`: a command that changes almost nothing but has to be durable. The wall time of an
//!   edge includes its share of such a wait.
//! - `disk`: bytes for each border site once filled, and for each edge added later
//! - `memory`: growth of the process, once filled and at its peak, with a cache of the configured
//!   size
//! - `open`: reopening the store
//!
//! Rows `disk` are the store that crawls use; rows `memory` are the same store over a `BTreeMap`,
//! for comparison. Bound: with the largest border, taking a site and adding an edge cost at most
//! three times the CPU that they cost with the smallest.
//!
//! The order of host names is unrelated to the order in which they are found, so sites found
//! together are not adjacent on the disk.
//!
//! ```text
//! cargo bench --bench border                              # 10 thousand and 1 million
//! cargo bench --bench border -- 10000 1000000 10000000    # half an hour, 15 GB of disk
//! cargo bench --bench border -- --cache-mib 1024 1000000
//! ```
//!
//! The store is below `target` during the measurement.

#![allow(clippy::print_stdout, reason = "a bench prints its measurements")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates need no more than 52 bits"
)]

mod counting;

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use counting::{CpuClock, Moment, memory};
use mimalloc::MiMalloc;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use sitescout::config::{ExternalSettings, OldVerdicts, StoreSettings};
use sitescout::external::ordering;
use sitescout::store::{
    BorderCaps, ClaimedSite, CrawlStore, KeyValueStore, NewEdge, NewSite, ReadStore, Resolution,
    StoreError, TakeRequest, TopicId, TopicOpening, VisitOutcome,
};
use sitescout::telemetry::clock;
use sitescout::web::{ModelFingerprint, PageUrl, SiteReport, SiteVisit, Verdict};
use tokio::runtime::Runtime;
use tokio::time::Instant;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const SIZES: [usize; 2] = [10_000, 1_000_000];

/// Beyond this the store in memory would need more memory than most machines have.
const LARGEST_IN_MEMORY: usize = 1_000_000;

/// Sites claimed, and verdicts recorded, in one call.
const BATCH_SITES: usize = 16;
const BATCHES_OF_A_BLOCK: usize = 32;
const EDGES_OF_A_SITE: usize = 20;

/// An odd number, so that the median is one of them.
const BLOCKS: usize = 9;

/// Edges of a site while the border is filled, as many as link farms have.
const EDGES_OF_A_FARM: usize = 1_000;

const SYNCS: usize = 51;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut settings = StoreSettings::default();
    let mut sizes: Vec<usize> = Vec::new();
    let mut only = None;
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value");
        match argument {
            "--cache-mib" => settings.cache_bytes = number(value()) << 20,
            "--only" => only = Some(Kind::named(value())),
            // Added by `cargo bench`.
            "--bench" => {}
            size => sizes.push(number(size)),
        }
    }
    if let Some(kind) = only {
        let figures = measure(kind, sizes[0], &settings);
        let line = serde_json::to_string(&figures).expect("numbers");
        println!("{line}");
        return;
    }
    if sizes.is_empty() {
        sizes.extend(SIZES);
    }
    println!(
        "batches of {BATCH_SITES} sites with {EDGES_OF_A_SITE} edges each; medians of {BLOCKS} \
         blocks of {BATCHES_OF_A_BLOCK} batches; cache {} MiB",
        settings.cache_bytes >> 20
    );
    println!(
        "{:<15} {:>8} {:>21} {:>21} {:>7} {:>11} {:>13} {:>6}",
        "", "new", "take", "edge", "sync", "disk bytes", "memory MB", "open"
    );
    println!(
        "{:<6} {:>8} {:>8} {:>7} {:>6} {:>6} {:>7} {:>6} {:>6} {:>7} {:>6} {:>4} {:>6} {:>6} {:>6}",
        "store",
        "border",
        "cpu us",
        "cpu us",
        "ratio",
        "us",
        "cpu us",
        "ratio",
        "us",
        "ms",
        "/site",
        "edge",
        "filled",
        "most",
        "s"
    );
    for kind in Kind::ALL {
        let mut smallest: Option<Figures> = None;
        for &size in sizes.iter().filter(|size| kind.holds(**size)) {
            let figures = in_child(kind, size, &settings);
            row(kind, size, &figures, smallest.get_or_insert(figures));
        }
    }
}

fn row(kind: Kind, size: usize, figures: &Figures, smallest: &Figures) {
    println!(
        "{:<6} {size:>8} {:>8.1} {:>7.1} {:>6.2} {:>6.1} {:>7.1} {:>6.2} {:>6.1} {:>7.2} {:>6.0} \
         {:>4.0} {:>6.0} {:>6.0} {:>6.2}",
        kind.name(),
        figures.new.cpu,
        figures.take.cpu,
        figures.take.cpu / smallest.take.cpu,
        figures.take.wall,
        figures.edge.cpu,
        figures.edge.cpu / smallest.edge.cpu,
        figures.edge.wall,
        figures.sync_ms,
        figures.disk_of_a_site,
        figures.disk_of_an_edge,
        figures.filled_mb,
        figures.most_mb,
        figures.open_s,
    );
}

/// The engine of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Disk,
    Memory,
}

/// The measurements of one row.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Figures {
    new: Cost,
    take: Cost,
    edge: Cost,
    sync_ms: f64,
    disk_of_a_site: f64,
    disk_of_an_edge: f64,
    filled_mb: f64,
    most_mb: f64,
    open_s: f64,
}

/// Mean cost of one operation, in microseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Cost {
    cpu: f64,
    wall: f64,
}

// === impl Kind ===

impl Kind {
    const ALL: [Self; 2] = [Self::Disk, Self::Memory];

    fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Memory => "memory",
        }
    }

    fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.expect("`disk` or `memory`")
    }

    fn holds(self, size: usize) -> bool {
        self == Self::Disk || size <= LARGEST_IN_MEMORY
    }

    fn open(self, directory: &Path, settings: &StoreSettings) -> Result<KeyValueStore, StoreError> {
        match self {
            Self::Disk => KeyValueStore::open(directory, settings),
            Self::Memory => KeyValueStore::in_memory(),
        }
    }
}

/// Measures in a separate process, so that its memory is that of one store.
fn in_child(kind: Kind, size: usize, settings: &StoreSettings) -> Figures {
    let output = Command::new(std::env::current_exe().expect("a program"))
        .args(["--only", kind.name(), &size.to_string()])
        .args(["--cache-mib", &(settings.cache_bytes >> 20).to_string()])
        .stderr(Stdio::inherit())
        .output()
        .expect("a second process");
    assert!(output.status.success(), "the second process failed");
    serde_json::from_slice(&output.stdout).expect("the figures of a row")
}

fn measure(kind: Kind, size: usize, settings: &StoreSettings) -> Figures {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let before = memory("self", "VmRSS:");
    let mut crawl = Crawl::start(kind.open(directory.path(), settings).expect("a store"));
    let new = crawl.fill(size);
    let filled = crawl.store.disk_bytes();
    let filled_mb = megabytes(memory("self", "VmRSS:").saturating_sub(before));
    // The first block warms up.
    let blocks: Vec<(Cost, Cost)> = (0..=BLOCKS).map(|_| crawl.block()).skip(1).collect();
    let grown = crawl.store.disk_bytes().saturating_sub(filled);
    let edges = (BLOCKS + 1) * BATCHES_OF_A_BLOCK * BATCH_SITES * EDGES_OF_A_SITE;
    let sync_ms = crawl.sync_ms();
    let most_mb = megabytes(memory("self", "VmHWM:").saturating_sub(before));
    drop(crawl);
    Figures {
        new,
        take: Cost::median(blocks.iter().map(|(take, _)| *take)),
        edge: Cost::median(blocks.iter().map(|(_, edge)| *edge)),
        sync_ms,
        disk_of_a_site: filled as f64 / size as f64,
        disk_of_an_edge: grown as f64 / edges as f64,
        filled_mb,
        most_mb,
        open_s: open_again(kind, directory.path(), settings).as_secs_f64(),
    }
}

/// Retries, because a store is closed a moment after its last handle is dropped.
fn open_again(kind: Kind, directory: &Path, settings: &StoreSettings) -> Duration {
    loop {
        let start = Instant::now();
        match kind.open(directory, settings) {
            Ok(_) => return start.elapsed(),
            Err(StoreError::Locked(_)) => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Calls of an external crawler to its store, without a web.
struct Crawl {
    runtime: Runtime,
    store: KeyValueStore,
    topic: TopicId,
    random: Xoshiro256PlusPlus,
    clock: CpuClock,
    /// Number of sites found, including the start site.
    found: u64,
}

// === impl Crawl ===

impl Crawl {
    fn start(store: KeyValueStore) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let opening = TopicOpening {
            name: "topic".to_owned(),
            ranking: ordering(&ExternalSettings::default()),
            caps: BorderCaps::per_domain(u32::MAX),
            model: ModelFingerprint::from_bits(1),
            old_verdicts: OldVerdicts::Keep,
            recheck_after: ExternalSettings::default().recheck_after,
            watched_pages: 5_000,
            hosts: Arc::default(),
            platforms: Arc::default(),
        };
        let topic = runtime
            .block_on(store.open_topic(opening))
            .expect("a topic");
        let start = NewSite {
            entrance: entrance(0),
            is_start: true,
        };
        let entering = store.enter(topic, vec![start]);
        assert_eq!(runtime.block_on(entering).expect("a store"), 1);
        Self {
            runtime,
            store,
            topic,
            random: Xoshiro256PlusPlus::seed_from_u64(1),
            clock: CpuClock::of_process("self"),
            found: 1,
        }
    }

    /// Finds sites until the border has `size`; returns the cost of one of the second half.
    fn fill(&mut self, size: usize) -> Cost {
        let farms_at_once = (size / EDGES_OF_A_FARM / 20).clamp(1, BATCH_SITES);
        let mut half = None;
        loop {
            let totals = self.runtime.block_on(self.store.totals(self.topic));
            let border = totals.expect("a store").border as usize;
            if border >= size {
                break;
            }
            if half.is_none() && border >= size / 2 {
                half = Some((self.found, self.clock.now()));
            }
            let farms = self.take(farms_at_once);
            let mut missing = size - border + farms.len();
            let mut outcomes = Vec::new();
            for farm in farms {
                let edges = missing.min(EDGES_OF_A_FARM);
                missing -= edges;
                let edges = (0..edges).map(|_| self.edge_to_new()).collect();
                outcomes.push(Self::outcome(&farm, edges));
            }
            self.record(outcomes);
        }
        let (found, start) = half.expect("one batch is less than half of the border");
        let end = self.clock.now();
        Cost::of((self.found - found) as usize, &start, &end)
    }

    /// Takes and records sites as a crawl does; returns the costs of taking a site and of adding
    /// an edge.
    fn block(&mut self) -> (Cost, Cost) {
        let sites = BATCHES_OF_A_BLOCK * BATCH_SITES;
        let start = self.clock.now();
        let taken: Vec<Vec<ClaimedSite>> = (0..BATCHES_OF_A_BLOCK)
            .map(|_| self.take(BATCH_SITES))
            .collect();
        let end = self.clock.now();
        let take = Cost::of(sites, &start, &end);
        let mut batches = Vec::new();
        for taken in taken {
            let mut outcomes = Vec::new();
            for site in taken {
                let mut edges = vec![self.edge_to_new()];
                edges.extend((1..EDGES_OF_A_SITE).map(|_| self.edge_to_known()));
                outcomes.push(Self::outcome(&site, edges));
            }
            batches.push(outcomes);
        }
        let start = self.clock.now();
        for outcomes in batches {
            self.record(outcomes);
        }
        let end = self.clock.now();
        (take, Cost::of(sites * EDGES_OF_A_SITE, &start, &end))
    }

    /// The median wait for a command that changes almost nothing.
    fn sync_ms(&self) -> f64 {
        let sync = || {
            let start = Instant::now();
            let entering = self.store.enter(self.topic, Vec::new());
            self.runtime.block_on(entering).expect("a store");
            start.elapsed().as_secs_f64() * 1e3
        };
        median((0..SYNCS).map(|_| sync()).collect())
    }

    fn take(&self, limit: usize) -> Vec<ClaimedSite> {
        let taking = self
            .store
            .take(self.topic, TakeRequest::any(limit, clock::now()));
        self.runtime.block_on(taking).expect("a store").sites
    }

    fn record(&self, outcomes: Vec<VisitOutcome>) {
        let recording = self.store.record(outcomes);
        let recorded = self.runtime.block_on(recording).expect("a store");
        assert!(
            recorded.iter().all(|one| one.seq().is_some()),
            "all were judged"
        );
    }

    fn outcome(taken: &ClaimedSite, edges: Vec<NewEdge>) -> VisitOutcome {
        let visit = SiteVisit::at(&taken.entrance);
        let model = ModelFingerprint::from_bits(1);
        VisitOutcome {
            claim: taken.claim.clone(),
            report: SiteReport {
                verdict: Verdict::Relevant,
                ..SiteReport::interrupted(visit, model)
            },
            edges,
            rank: taken.rank,
            resolution: Resolution::Judged,
            keep_evidence: false,
        }
    }

    fn edge_to_new(&mut self) -> NewEdge {
        self.found += 1;
        self.edge_to(self.found - 1)
    }

    /// Half of them lead to popular sites, of which there are few; half to any.
    fn edge_to_known(&mut self) -> NewEdge {
        let found = self.found as f64;
        let share = self.random.r#gen::<f64>();
        let number = if self.random.r#gen::<bool>() {
            found.powf(share)
        } else {
            found * share
        };
        self.edge_to((number as u64).min(self.found - 1))
    }

    fn edge_to(&mut self, number: u64) -> NewEdge {
        NewEdge {
            entrance: entrance(number),
            global: self.random.gen_range(0.5..1.0),
            local: self.random.gen_range(0.0..1.0),
            pages: self.random.gen_range(1..4),
        }
    }
}

/// The entrance of the site of a number. Consecutive numbers give names that are far apart.
fn entrance(number: u64) -> PageUrl {
    const SYLLABLES: [&str; 16] = [
        "ba", "cor", "del", "fi", "gar", "hol", "ju", "ka", "lin", "mo", "ner", "po", "sal", "tor",
        "vi", "zen",
    ];
    const ENDINGS: [&str; 8] = ["com", "com", "com", "org", "net", "de", "co.uk", "info"];
    // The factor is odd, so that no two numbers below 2^28 have the same 28 bits.
    let mixed = (number as u32).wrapping_mul(0x9E37_79B1);
    let mut rest = (mixed << 4).reverse_bits();
    let mut name = String::from("https://");
    for _ in 0..7 {
        name.push_str(SYLLABLES[(rest % 16) as usize]);
        rest /= 16;
    }
    let ending = ENDINGS[(number % 8) as usize];
    write!(name, ".{ending}/").expect("memory takes all");
    name.parse().expect("an address")
}

// === impl Cost ===

impl Cost {
    /// The mean cost of `operations` between two moments.
    fn of(operations: usize, start: &Moment, end: &Moment) -> Self {
        let (cpu, wall) = end.since(start);
        let each = |duration: Duration| duration.as_secs_f64() * 1e6 / operations as f64;
        Self {
            cpu: each(cpu),
            wall: each(wall),
        }
    }

    fn median(costs: impl Iterator<Item = Self> + Clone) -> Self {
        Self {
            cpu: median(costs.clone().map(|cost| cost.cpu).collect()),
            wall: median(costs.map(|cost| cost.wall).collect()),
        }
    }
}

fn number(text: &str) -> usize {
    text.parse().expect("a whole number")
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}
