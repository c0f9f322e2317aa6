//! What politeness, robots.txt and limits cost, compared with a client that has none of them.
//!
//! What is measured, in CPU time of this process, system time included, all in one run:
//! - `bare`: plain hyper, one persistent connection for each host, every body collected
//! - `ours`: [`LiveWeb`], pauses set to zero: turns, rules, limits and counters are active, but
//!   nothing sleeps; the cost of robots.txt is included
//!
//! Both request the same pages of 12 KB with the same headers, host by host, with the same number
//! of hosts at once. Bound: a page costs `ours` at most a quarter more CPU than `bare`. The
//! second table is for information: the same pages in gzip, which only `ours` decompresses.
//!
//! The server is a separate process, so that its time is not counted here. Its responses are
//! prepared in advance; its cost is shown, because if clients had to wait for the server, pages per
//! second would be those of the server.
//!
//! Hosts are mapped by the settings, so DNS, address checks, the rate limit of each address and
//! TLS are left out.
//!
//! Rounds alternate and the median of their ratios counts, so that a busy machine disturbs
//! both alike. Instruction counts do not depend on load, but leave out system time:
//!
//! ```text
//! cargo bench --bench fetch
//! cargo bench --bench fetch -- --instructions
//! ```

#![allow(clippy::print_stdout, reason = "a bench prints its measurements")]
#![allow(
    clippy::cast_precision_loss,
    reason = "rates need no more than 52 bits"
)]

mod serving;

use std::fmt::Write as _;
use std::io::{Read, Write, stdin, stdout};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT, ACCEPT_ENCODING, HOST, HeaderValue, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mimalloc::MiMalloc;
use rand::seq::SliceRandom;
use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serving::Server;
use sitescout::config::{FetchSettings, ResolveRule};
use sitescout::fetch::live::user_agent;
use sitescout::fetch::{FetchMetrics, Fetcher, LiveWeb};
use sitescout::telemetry::Metrics;
use sitescout::web::PageUrl;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// An odd number, so that the median is one of them.
const ROUNDS: usize = 15;
const HOSTS: usize = 128;
const PAGES_OF_A_HOST: usize = 100;
/// For counting instructions; valgrind is fifty times slower.
const FEW_PAGES: usize = 5;
const MORE_PAGES: usize = 20;
const TASKS: usize = 64;
const BODY_BYTES: usize = 12 << 10;
const LINKS: usize = 20;

/// The request headers of our client, verbatim.
const ACCEPTED: &str = "text/html,application/xhtml+xml;q=0.9,text/plain;q=0.8,*/*;q=0.1";
const ACCEPTED_ENCODINGS: &str = "gzip, deflate, br, zstd";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    match arguments.iter().position(|argument| argument == "--only") {
        Some(at) => run_only(&arguments[at + 1], &arguments[at + 2]),
        None if has("--serve") => serve(),
        None if has("--instructions") => count_instructions(),
        None => measure(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Bare,
    Ours,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    Gzip,
}

/// The cost of one round.
struct Round {
    cpu: Duration,
    wall: Duration,
    server_cpu: Duration,
    fetched: Fetched,
}

/// What one round fetched.
#[derive(Debug, Default, Clone, Copy)]
struct Fetched {
    pages: usize,
    robots: usize,
}

// === impl Encoding ===

impl Encoding {
    /// The first directory of the path, by which the server distinguishes them.
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
        }
    }
}

// === impl Round ===

impl Round {
    /// In microseconds, including a share of the cost of robots.txt.
    fn cpu_per_page(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.fetched.pages as f64
    }

    fn server_cpu_per_page(&self) -> f64 {
        self.server_cpu.as_secs_f64() * 1e6 / self.fetched.pages as f64
    }

    fn pages_per_second(&self) -> f64 {
        self.fetched.pages as f64 / self.wall.as_secs_f64()
    }
}

// === impl Fetched ===

impl Fetched {
    fn and(self, other: Self) -> Self {
        Self {
            pages: self.pages + other.pages,
            robots: self.robots + other.robots,
        }
    }
}

fn measure() {
    let server = Server::start(&["--serve"]);
    let runtime = runtime();
    println!(
        "{HOSTS} hosts, {PAGES_OF_A_HOST} pages each, {TASKS} hosts at once, {} threads, {} \
         bytes a page, {} in gzip",
        runtime.metrics().num_workers(),
        page().len(),
        gzip(&page()).len()
    );
    for encoding in [Encoding::Plain, Encoding::Gzip] {
        let hosts = hosts(encoding, PAGES_OF_A_HOST);
        // The first round warms up both processes.
        for side in [Side::Bare, Side::Ours] {
            round(&runtime, &server, side, &hosts);
        }
        println!();
        println!(
            "{:<6} {:>15} {:>17} {:>17} {:>9} {:>7}",
            encoding.name(),
            "cpu us/page",
            "server us/page",
            "pages/s",
            "ours asks",
            "cpu"
        );
        println!(
            "{:<6} {:>7} {:>7} {:>9} {:>7} {:>9} {:>7} {:>9} {:>7}",
            "round", "bare", "ours", "bare", "ours", "bare", "ours", "robots", "ratio"
        );
        let mut ratios: Vec<f64> = (1..=ROUNDS)
            .map(|number| {
                let bare = round(&runtime, &server, Side::Bare, &hosts);
                let ours = round(&runtime, &server, Side::Ours, &hosts);
                row(number, &bare, &ours)
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        println!("{:<6} {:>70.2}", "median", ratios[ROUNDS / 2]);
    }
}

/// Prints a pair of rounds, and returns the ratio of CPU time per page, `ours` to `bare`.
fn row(number: usize, bare: &Round, ours: &Round) -> f64 {
    let ratio = ours.cpu_per_page() / bare.cpu_per_page();
    println!(
        "{number:<6} {:>7.1} {:>7.1} {:>9.1} {:>7.1} {:>9.0} {:>7.0} {:>9} {ratio:>7.2}",
        bare.cpu_per_page(),
        ours.cpu_per_page(),
        bare.server_cpu_per_page(),
        ours.server_cpu_per_page(),
        bare.pages_per_second(),
        ours.pages_per_second(),
        ours.fetched.robots,
    );
    ratio
}

/// Like the runtime of the crawler.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

fn round(runtime: &Runtime, server: &Server, side: Side, hosts: &Arc<Hosts>) -> Round {
    let web = (side == Side::Ours).then(|| Arc::new(live_web(server.address)));
    let hosts = Arc::clone(hosts);
    let address = server.address;
    let (cpu, server_cpu, start) = (
        cpu_time("self"),
        cpu_time(&server.process()),
        Instant::now(),
    );
    let fetched = runtime.block_on(async move {
        match web {
            Some(web) => for_all(hosts, move |pages| visit(Arc::clone(&web), pages)).await,
            None => for_all(hosts, move |pages| visit_bare(address, pages)).await,
        }
    });
    Round {
        wall: start.elapsed(),
        cpu: cpu_time("self").saturating_sub(cpu),
        server_cpu: cpu_time(&server.process()).saturating_sub(server_cpu),
        fetched,
    }
}

/// The pages to request, host by host.
type Hosts = Vec<Arc<[PageUrl]>>;

fn hosts(encoding: Encoding, pages: usize) -> Arc<Hosts> {
    let host = |host: usize| {
        let page = |page: usize| {
            let url = format!("http://host{host}.example/{}/{page}.html", encoding.name());
            url.parse().expect("a page")
        };
        (0..pages).map(page).collect()
    };
    Arc::new((0..HOSTS).map(host).collect())
}

/// Visits all hosts, `TASKS` at once.
async fn for_all<V>(
    hosts: Arc<Hosts>,
    visit: impl Fn(Arc<[PageUrl]>) -> V + Clone + Send + 'static,
) -> Fetched
where
    V: Future<Output = Fetched> + Send + 'static,
{
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (hosts, next, visit) = (Arc::clone(&hosts), Arc::clone(&next), visit.clone());
        tasks.spawn(async move {
            let mut all = Fetched::default();
            while let Some(pages) = hosts.get(next.fetch_add(1, Ordering::Relaxed)) {
                all = all.and(visit(Arc::clone(pages)).await);
            }
            all
        });
    }
    // This is the last handle of the fetcher: closing it is part of the work.
    drop(visit);
    let done = tasks.join_all().await;
    done.into_iter().fold(Fetched::default(), Fetched::and)
}

// === ours ===

fn live_web(server: SocketAddr) -> LiveWeb {
    let mut settings = FetchSettings {
        resolve: vec![ResolveRule {
            host: "*.example".to_owned(),
            address: server,
            tls: false,
        }],
        ..FetchSettings::default()
    };
    settings.politeness.pause = Duration::ZERO;
    settings.politeness.address_interval = Duration::ZERO;
    let metrics = FetchMetrics::register(&Metrics::new());
    LiveWeb::new(&settings, metrics, None).expect("settings that can be used")
}

async fn visit(web: Arc<LiveWeb>, pages: Arc<[PageUrl]>) -> Fetched {
    let mut fetched = Fetched::default();
    for page in &*pages {
        let answer = web.fetch(page).await.expect("a page");
        assert!(answer.status == StatusCode::OK && answer.body.len() == BODY_BYTES);
        fetched = fetched.and(Fetched {
            pages: 1,
            robots: answer.transfer.robots_requests,
        });
    }
    fetched
}

// === bare ===

async fn visit_bare(server: SocketAddr, pages: Arc<[PageUrl]>) -> Fetched {
    let stream = TcpStream::connect(server).await.expect("the server");
    stream.set_nodelay(true).expect("a socket");
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, driver) = handshake.expect("HTTP");
    let driver = tokio::spawn(driver);
    let host = pages[0].as_url().host_str().expect("a host");
    let host = HeaderValue::from_str(host).expect("a host");
    let agent = HeaderValue::from_str(&user_agent(&FetchSettings::default())).expect("a name");
    for page in &*pages {
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = Uri::try_from(page.target()).expect("a target");
        let headers = request.headers_mut();
        headers.insert(HOST, host.clone());
        headers.insert(USER_AGENT, agent.clone());
        headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        headers.insert(
            ACCEPT_ENCODING,
            HeaderValue::from_static(ACCEPTED_ENCODINGS),
        );
        sender.ready().await.expect("an open connection");
        let answer = sender.send_request(request).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
        let body = answer.into_body().collect().await.expect("a body");
        assert!(!body.to_bytes().is_empty());
    }
    drop(sender);
    driver.await.expect("no panic").expect("a clean end");
    Fetched {
        pages: pages.len(),
        robots: 0,
    }
}

// === the server ===

/// Prepared responses of the server.
struct Answers {
    plain: Vec<u8>,
    gzip: Vec<u8>,
    missing: Vec<u8>,
}

/// Runs in the server process: prints its address, and exits when standard input is closed.
fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let answers = Arc::new(Answers::new());
    std::thread::spawn(move || {
        runtime.block_on(async {
            let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let listener = TcpListener::bind(anywhere).await.expect("a free port");
            println!("{}", listener.local_addr().expect("a bound socket"));
            stdout().flush().expect("a reader");
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer_all(stream, Arc::clone(&answers)));
            }
        });
    });
    // The parent holds the other end, so this returns however the parent exits.
    let _ = stdin().read(&mut [0]);
}

async fn answer_all(mut stream: TcpStream, answers: Arc<Answers>) {
    stream.set_nodelay(true).expect("a socket");
    let mut request = [0; 2 << 10];
    let mut length = 0;
    loop {
        match stream.read(&mut request[length..]).await {
            Ok(0) | Err(_) => return,
            Ok(read) => length += read,
        }
        if !request[..length].ends_with(b"\r\n\r\n") {
            continue;
        }
        let answer = answers.to(&request[..length]);
        if stream.write_all(answer).await.is_err() {
            return;
        }
        length = 0;
    }
}

// === impl Answers ===

impl Answers {
    fn new() -> Self {
        let page = page();
        let gzipped = gzip(&page);
        Self {
            plain: ok("", &page),
            gzip: ok("Content-Encoding: gzip\r\n", &gzipped),
            missing: b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
        }
    }

    fn to(&self, request: &[u8]) -> &[u8] {
        match request {
            [b'G', b'E', b'T', b' ', b'/', b'p', ..] => &self.plain,
            [b'G', b'E', b'T', b' ', b'/', b'g', ..] => &self.gzip,
            _ => &self.missing,
        }
    }
}

/// A response with the headers that an ordinary server sends.
fn ok(header: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Mon, 16 Nov 2026 12:00:00 GMT\r\n\
         Content-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: keep-alive\r\nVary: Accept-Encoding\r\n{header}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A page of 12 KB with twenty links between words that gzip compresses as well as prose.
fn page() -> Vec<u8> {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(12);
    let letters = b"eeeeettttaaaooiinnsshhrrdlucmfwygpbv";
    let words: Vec<String> = (0..600)
        .map(|_| {
            let length = 2 + chance.next_u32() % 8;
            let letter = |_| char::from(*letters.choose(&mut chance).expect("letters"));
            (0..length).map(letter).collect()
        })
        .collect();
    let mut page = String::from("<!DOCTYPE html><html><head><title>A page</title></head><body>");
    for link in 0..LINKS {
        let paragraph_end = BODY_BYTES * (link + 1) / (LINKS + 1);
        page.push_str("<p>");
        while page.len() < paragraph_end {
            let word = words.choose(&mut chance).expect("words");
            page.push_str(word);
            page.push(' ');
        }
        let written = writeln!(page, "<a href=\"/plain/{link}.html\">{link}</a></p>");
        written.expect("memory takes all");
    }
    let end = "</body></html>";
    let filling = BODY_BYTES - page.len() - end.len();
    page.extend(std::iter::repeat_n("\n", filling));
    page.push_str(end);
    page.into_bytes()
}

fn gzip(page: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(page).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

// === counting ===

/// CPU time of all threads of a process; they live as long as it does.
fn cpu_time(process: &str) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("Linux");
    let nanoseconds = threads.map(|thread| {
        let path = thread.expect("a thread").path().join("schedstat");
        let text = std::fs::read_to_string(path).expect("Linux");
        let first = text.split(' ').next().expect("three numbers");
        first.parse::<u64>().expect("nanoseconds")
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// Runs each side under valgrind with few and with more pages, and prints the difference per page; connections and robots.txt cost the same in both runs.
fn count_instructions() {
    let program = std::env::current_exe().expect("a program");
    let count = |part: &str, pages: usize| {
        let output = Command::new("valgrind")
            // A `rep movsb` would be counted as one instruction for each byte.
            .env(
                "GLIBC_TUNABLES",
                "glibc.cpu.x86_rep_movsb_threshold=1073741824",
            )
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(&program)
            .args(["--only", part, &pages.to_string()])
            .output()
            .expect("valgrind is installed");
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = report.lines().find(|line| line.contains("Collected"));
        let count = line.and_then(|line| line.split(':').nth(1)?.trim().parse::<u64>().ok());
        count.expect("valgrind reports a count")
    };
    let of_more = |part: &str| count(part, FEW_PAGES + MORE_PAGES) - count(part, FEW_PAGES);
    let nothing = of_more("nothing");
    for side in ["bare", "ours"] {
        let of_a_page = (of_more(side) - nothing) / (HOSTS * MORE_PAGES) as u64;
        println!("{side:<6} {of_a_page:>8} instructions a page");
    }
}

/// One round of one side, or the addresses alone, for valgrind.
fn run_only(part: &str, pages: &str) {
    let pages = pages.parse().expect("how many pages of a host");
    let hosts = hosts(Encoding::Plain, pages);
    let side = match part {
        "bare" => Side::Bare,
        "ours" => Side::Ours,
        _ => return,
    };
    round(&runtime(), &Server::start(&["--serve"]), side, &hosts);
}
