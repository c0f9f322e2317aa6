//! What it costs to read a store of a million sites through the API, beside a handler that does
//! nothing.
//!
//! What is measured, over persistent connections, with the daemon in a separate process and its
//! topic paused:
//! - `bare`: an axum handler in a third process that sends the response of `sites of 100`
//! - `sites of 10`, `of 100`: `GET /v1/sites`, from cursors all over the sequence
//! - `feed of 100`: `GET /v1/feed`, likewise
//! - `one site`: `GET /v1/sites/{host}`, with its evidence
//! - `topics`: `GET /v1/topics`
//! - memory for each follower waiting on the feed
//!
//! Rounds of all rows alternate, so that other load on the machine affects all alike. A ratio is
//! the CPU time of the server process for a request, relative to `bare`.
//!
//! ```text
//! cargo bench --bench api                     # a million sites
//! cargo bench --bench api -- 10000            # fewer
//! ```
//!
//! The store is below `target` during the measurement.

#![allow(clippy::print_stdout, reason = "a bench prints its measurements")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "rates need no more than 52 bits"
)]

mod counting;
mod serving;

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use counting::{CpuClock, memory};
use mimalloc::MiMalloc;
use serde_json::Value;
use serving::Server;
use sitescout::config::{ExternalSettings, OldVerdicts, StoreSettings};
use sitescout::external::ordering;
use sitescout::store::{
    BorderCaps, CrawlStore, Edit, EditStore, KeyValueStore, NewSite, ReadStore, Resolution,
    TakeRequest, TopicOpening, VisitOutcome,
};
use sitescout::telemetry::clock;
use sitescout::web::{
    ModelFingerprint, PageKind, PageStep, PageUrl, SiteConfidence, SiteReport, SiteVisit,
    StepOutcome, StopReason, TellingWord, TellingWords, Verdict,
};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::Instant;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const SITES: u64 = 1_000_000;

/// One site in this many is relevant, as on the web.
const RELEVANT: u64 = 20;

/// Sites recorded at once while the store is filled.
const BATCH: usize = 1_000;

const CONNECTIONS: usize = 16;

/// An odd number, so that the median is one of them.
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(2);

const FOLLOWERS: usize = 1_000;

const TOPIC: &str = "sailing";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut sites = SITES;
    for argument in &arguments {
        match argument.as_str() {
            "--bench" => {}
            "--bare" => return serve_bare(),
            number => sites = number.parse().expect("a number of sites"),
        }
    }
    let place = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("room");
    let runtime = Runtime::new().expect("a runtime");
    let state = place.path().join("state");
    let begin = Instant::now();
    let last = runtime.block_on(fill(&state, sites));
    println!(
        "{sites} judged sites, {} of them relevant, stored in {:.0} s; {CONNECTIONS} connections, \
         medians of {ROUNDS} rounds of {} s",
        sites / RELEVANT,
        begin.elapsed().as_secs_f64(),
        ROUND.as_secs()
    );
    let daemon = Daemon::start(place.path());
    let sample = runtime.block_on(fetch(daemon.address, "/v1/sites?limit=100"));
    fs::write(place.path().join("sample"), &sample).expect("room");
    let sample = place.path().join("sample").display().to_string();
    let bare = Server::start(&["--bare", &sample]);
    let rows = rows(&daemon, &bare, last);
    println!(
        "{:<14} {:>10} {:>12} {:>8} {:>12}",
        "", "requests/s", "cpu us each", "ratio", "bytes each"
    );
    let mut measured: Vec<Vec<Cost>> = vec![Vec::new(); rows.len()];
    for _ in 0..ROUNDS {
        for (row, costs) in rows.iter().zip(&mut measured) {
            costs.push(runtime.block_on(measure(row)));
        }
    }
    let medians: Vec<Cost> = measured.into_iter().map(median).collect();
    for (row, cost) in rows.iter().zip(&medians) {
        println!(
            "{:<14} {:>10.0} {:>12.1} {:>8.2} {:>12.0}",
            row.name,
            cost.rate,
            cost.cpu_us,
            cost.cpu_us / medians[0].cpu_us,
            cost.bytes
        );
    }
    let (before, during) = runtime.block_on(follow(&daemon, last));
    println!(
        "\n{FOLLOWERS} followers wait: memory {:.1} MB before, {:.1} MB with them: {:.1} KB each",
        before as f64 / 1e6,
        during as f64 / 1e6,
        (during.saturating_sub(before)) as f64 / FOLLOWERS as f64 / 1e3
    );
}

/// Which requests go to which process.
struct Row {
    name: &'static str,
    address: SocketAddr,
    process: String,
    path: Box<dyn Fn(u64) -> String + Send + Sync>,
}

/// Mean cost of a request.
#[derive(Debug, Clone, Copy)]
struct Cost {
    rate: f64,
    cpu_us: f64,
    bytes: f64,
}

fn rows(daemon: &Daemon, bare: &Server, last: u64) -> Vec<Arc<Row>> {
    let row = |name: &'static str, path: Box<dyn Fn(u64) -> String + Send + Sync>| {
        Arc::new(Row {
            name,
            address: daemon.address,
            process: daemon.process.id().to_string(),
            path,
        })
    };
    // Places all over the sequence, in an order that defeats caches.
    let place = move |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % last;
    vec![
        Arc::new(Row {
            name: "bare",
            address: bare.address,
            process: bare.process(),
            path: Box::new(|_| "/".to_owned()),
        }),
        row(
            "sites of 10",
            Box::new(move |number| format!("/v1/sites?limit=10&cursor=n{}", place(number))),
        ),
        row(
            "sites of 100",
            Box::new(move |number| format!("/v1/sites?limit=100&cursor=n{}", place(number))),
        ),
        row(
            "feed of 100",
            Box::new(move |number| {
                let after = place(number);
                format!("/v1/feed?topic={TOPIC}&limit=100&after={after}")
            }),
        ),
        row(
            "one site",
            Box::new(move |number| format!("/v1/sites/{}", host(place(number)))),
        ),
        row("topics", Box::new(|_| "/v1/topics".to_owned())),
    ]
}

/// Sends requests over all connections for the time of a round.
async fn measure(row: &Arc<Row>) -> Cost {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let mut clock = CpuClock::of_process(&row.process);
    let start = clock.now();
    let end = Instant::now() + ROUND;
    let clients = (0..CONNECTIONS).map(|_| {
        let row = Arc::clone(row);
        tokio::spawn(async move {
            let mut connection = Connection::open(row.address).await;
            let (mut requests, mut bytes) = (0_u64, 0_u64);
            while Instant::now() < end {
                let path = (row.path)(NUMBER.fetch_add(1, Ordering::Relaxed));
                bytes += connection.get(&path).await.len() as u64;
                requests += 1;
            }
            (requests, bytes)
        })
    });
    let (mut requests, mut bytes) = (0, 0);
    for client in clients.collect::<Vec<_>>() {
        let (sent, read) = client.await.expect("a client");
        requests += sent;
        bytes += read;
    }
    let (cpu, wall) = clock.now().since(&start);
    Cost {
        rate: requests as f64 / wall.as_secs_f64(),
        cpu_us: cpu.as_secs_f64() * 1e6 / requests as f64,
        bytes: bytes as f64 / requests as f64,
    }
}

fn median(mut costs: Vec<Cost>) -> Cost {
    costs.sort_by(|one, other| one.cpu_us.total_cmp(&other.cpu_us));
    costs[costs.len() / 2]
}

/// Memory of the daemon before followers wait and while they do.
async fn follow(daemon: &Daemon, last: u64) -> (usize, usize) {
    let before = daemon.memory();
    let mut followers = Vec::new();
    for _ in 0..FOLLOWERS {
        let mut follower = Connection::open(daemon.address).await;
        let path = format!("/v1/feed?topic={TOPIC}&after={last}&wait=60");
        follower.ask(&path).await;
        followers.push(follower);
    }
    // All of them are waiting when this response arrives after their requests.
    for _ in 0..20 {
        fetch(daemon.address, "/v1/status").await;
    }
    (before, daemon.memory())
}

/// A persistent connection.
struct Connection {
    stream: tokio::io::BufReader<TcpStream>,
    address: SocketAddr,
}

impl Connection {
    async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a server");
        stream.set_nodelay(true).expect("an option");
        Self {
            stream: tokio::io::BufReader::new(stream),
            address,
        }
    }

    async fn ask(&mut self, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.address);
        let sent = self.stream.write_all(request.as_bytes()).await;
        sent.expect("a request");
    }

    async fn get(&mut self, path: &str) -> Vec<u8> {
        self.ask(path).await;
        let (mut length, mut line) = (0, String::new());
        let mut is_first = true;
        loop {
            line.clear();
            self.stream.read_line(&mut line).await.expect("a head");
            if std::mem::take(&mut is_first) {
                assert!(line.contains(" 200 "), "{path}: {line}");
            }
            if line == "\r\n" {
                break;
            }
            if let Some(text) = line.strip_prefix("content-length: ") {
                length = text.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.expect("a body");
        body
    }
}

async fn fetch(address: SocketAddr, path: &str) -> Vec<u8> {
    Connection::open(address).await.get(path).await
}

/// The daemon in a separate process.
struct Daemon {
    process: Child,
    address: SocketAddr,
}

impl Daemon {
    /// Starts on an existing store.
    fn start(place: &Path) -> Self {
        let settings = format!(
            "[log]\nformat = 'json'\n\
             [fetch]\nresolve = [{{ host = '*', address = '127.0.0.1:9' }}]\n\
             [service]\ntopics = ['{TOPIC}']\nmodels = '{}/site-models'\nstate = '{}'\n\
             listen = '127.0.0.1:0'\nlow_disk = 0\n\
             [api]\nlisten = '127.0.0.1:0'\nrequests_per_second = 0\n",
            env!("CARGO_MANIFEST_DIR"),
            place.join("state").display()
        );
        let file = place.join("daemon.toml");
        fs::write(&file, settings).expect("room");
        loop {
            let mut process = Command::new(env!("CARGO_BIN_EXE_sitescout"))
                .args(["run", "--config"])
                .arg(&file)
                .stderr(Stdio::piped())
                .spawn()
                .expect("a process");
            let mut log = BufReader::new(process.stderr.take().expect("it is piped"));
            if let Some(address) = api_address(&mut log) {
                // The rest is discarded, but the pipe must be drained.
                std::thread::spawn(move || io::copy(&mut log, &mut io::sink()));
                return Self { process, address };
            }
            let _ = process.wait();
        }
    }

    fn memory(&self) -> usize {
        memory(&self.process.id().to_string(), "VmRSS:")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The address of the API, from the log; none if the store is still being closed after the filling.
fn api_address(log: &mut impl BufRead) -> Option<SocketAddr> {
    loop {
        let mut line = String::new();
        log.read_line(&mut line).expect("a line");
        if line.contains("in use by another process") {
            return None;
        }
        let entry: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("unexpected line of the daemon: {line} ({error})"));
        if entry["fields"]["message"] == "the API is served" {
            let address = entry["fields"]["address"].as_str().expect("an address");
            return Some(address.parse().expect("an address"));
        }
    }
}

/// Responds to every request with the bytes of a file, until standard input ends.
fn serve_bare() {
    let file = std::env::args().nth(2).expect("a file");
    let body: &'static [u8] = fs::read(file).expect("a file").leak();
    let runtime = Runtime::new().expect("a runtime");
    runtime.spawn(async move {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = tokio::net::TcpListener::bind(any).await.expect("a port");
        println!("{}", listener.local_addr().expect("an address"));
        let handler = get(async move || ([(CONTENT_TYPE, "application/json")], body));
        let served = axum::serve(listener, Router::new().route("/", handler)).await;
        served.expect("a server");
    });
    let _ = io::stdin().read(&mut [0]);
}

fn host(number: u64) -> String {
    // The order of names is unrelated to the order of finding.
    format!(
        "h{:016x}.example",
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    )
}

/// Judges `sites` sites, pauses the topic, and returns the last sequence number.
async fn fill(state: &Path, sites: u64) -> u64 {
    let store = KeyValueStore::open(state, &StoreSettings::default()).expect("a store");
    let model = ModelFingerprint::from_bits(1);
    let opening = TopicOpening {
        name: TOPIC.to_owned(),
        ranking: ordering(&ExternalSettings::default()),
        caps: BorderCaps::per_domain(u32::MAX),
        model,
        old_verdicts: OldVerdicts::Keep,
        recheck_after: ExternalSettings::default().recheck_after,
        watched_pages: 5_000,
        hosts: Arc::default(),
        platforms: Arc::default(),
    };
    let topic = store.open_topic(opening).await.expect("a topic");
    let mut number = 0;
    while number < sites {
        let batch = BATCH.min((sites - number) as usize);
        let entrances = (0..batch as u64).map(|at| NewSite {
            entrance: entrance(number + at),
            is_start: false,
        });
        let entered = store.enter(topic, entrances.collect()).await;
        assert_eq!(entered.expect("a store"), batch);
        let taking = TakeRequest::any(batch, clock::now());
        let taken = store.take(topic, taking).await.expect("sites");
        let outcomes = taken.sites.iter().map(|taken| {
            number += 1;
            VisitOutcome {
                claim: taken.claim.clone(),
                report: report(&taken.entrance, number.is_multiple_of(RELEVANT), model),
                edges: Vec::new(),
                rank: 0.5,
                resolution: Resolution::Judged,
                keep_evidence: true,
            }
        });
        let recorded = store.record(outcomes.collect()).await;
        recorded.expect("room for verdicts");
    }
    let is_paused = true;
    let paused = store.edit(Edit::Pause { topic, is_paused }).await;
    paused.expect("a store");
    store.heads().await.expect("a store").last_number
}

fn entrance(number: u64) -> PageUrl {
    let entrance = format!("https://{}/", host(number));
    entrance.parse().expect("an address")
}

/// Two pages with some words, as most visits have.
fn report(entrance: &PageUrl, is_relevant: bool, model: ModelFingerprint) -> SiteReport {
    let word = |term: &str| TellingWord {
        term: term.into(),
        weight: 0.5,
    };
    let step = PageStep {
        url: entrance.clone(),
        kind: PageKind::Homepage,
        outcome: StepOutcome::Spoke,
        confidence: sitescout::web::PageConfidence::NEUTRAL,
        site_confidence: SiteConfidence::NEUTRAL,
        telling_words: TellingWords {
            for_target: ["sail", "harbour", "regatta", "keel", "crew"]
                .map(word)
                .into(),
            against: ["bread", "court", "telescope"].map(word).into(),
        },
        transversal_links: 3,
    };
    let verdict = if is_relevant {
        Verdict::Relevant
    } else {
        Verdict::Irrelevant
    };
    let mut report = SiteReport {
        verdict,
        stop_reason: StopReason::Confident,
        steps: vec![step; 2],
        ..SiteReport::interrupted(SiteVisit::entering(entrance), model)
    };
    report.cost.pages = 2;
    report
}
