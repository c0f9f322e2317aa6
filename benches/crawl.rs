//! What a crawl costs for each page, compared with a client that only fetches.
//!
//! What is measured, with 64, 512 and 4,096 crawlers, each row in a separate process:
//! - `crawl`: an external crawler over a store on the disk and the live web, pauses set to
//!   zero: border, robots.txt, limits, parsing, judging, recording and syncing are at work
//! - `in memory`: the same with the store in memory, which never syncs
//! - `read`: plain hyper, one connection for each host, for the pages that `crawl` read; each is
//!   only parsed and judged
//! - `bare`: the same, and each body is only collected
//!
//! Pages per second are by wall time, CPU time is that of the process without the server, memory
//! is the peak growth of the process. `crawl` counts all fetched pages, including those of visits
//! in progress at its end.
//!
//! The server is a separate process with one thread. It generates each page of 10 KB from host
//! name and path: sixty thousand hosts, a quarter of them relevant, whose pages link to pages
//! of the same host and to other hosts, popular ones more often. Its cost is
//! shown, because it competes for the CPU with the process being measured. Hosts are mapped by
//! the settings, so DNS, address checks and TLS are left out.
//!
//! ```text
//! cargo bench --bench crawl
//! cargo bench --bench crawl -- 64 512          # other numbers of crawlers
//! ```

#![allow(clippy::print_stdout, reason = "a bench prints its measurements")]
#![allow(
    clippy::cast_precision_loss,
    reason = "rates need no more than 52 bits"
)]

mod counting;
mod serving;

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write, stdin, stdout};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use counting::{CpuClock, memory};
use http::header::{HOST, HeaderValue};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mimalloc::MiMalloc;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use serving::Server;
use sitescout::classify::{JudgedPage, KnownTerms, SiteModel};
use sitescout::config::{ResolveRule, Settings};
use sitescout::external::{CrawlMetrics, CrawlerSlots, Goals, TopicCrawl};
use sitescout::fetch::{FetchMetrics, LiveWeb};
use sitescout::parse::{self, ParseLimits, TermReader};
use sitescout::store::{CrawlStore, KeyValueStore};
use sitescout::telemetry::Metrics;
use sitescout::training::{Corpus, CorpusLimits, Labels, fit_model};
use sitescout::web::{FetchedPage, PageKind, PageUrl, ParsedPage, Transfer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const CRAWLERS: [usize; 3] = [64, 512, 4_096];

/// A crawl ends after this many pages; the visits of four thousand crawlers are a fraction.
const PAGES: u64 = 50_000;

const HOSTS: u64 = 60_000;
const START_SITES: u64 = 256;
const PAGES_OF_A_HOST: u64 = 12;
const INTRINSIC_LINKS: u64 = 6;
const TRANSVERSAL_LINKS: u64 = 6;

/// One host in this many is relevant.
const RELEVANT_EVERY: u64 = 4;

const TOPIC: &str = "sailing";
const TRAINING_HOSTS: u64 = 40;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match &arguments[..] {
        ["--serve"] => serve(),
        ["--only", side, crawlers, server, directory] => {
            let crawlers = crawlers.parse().expect("a number of crawlers");
            let server = server.parse().expect("an address");
            let figures = run(Side::named(side), crawlers, server, Path::new(directory));
            let line = serde_json::to_string(&figures).expect("numbers");
            println!("{line}");
        }
        _ => {
            let wanted = arguments
                .iter()
                .filter_map(|argument| argument.parse().ok());
            let mut crawlers: Vec<usize> = wanted.collect();
            if crawlers.is_empty() {
                crawlers.extend(CRAWLERS);
            }
            measure(&crawlers);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Crawl,
    InMemory,
    Read,
    Bare,
}

/// The measurements of one row.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Figures {
    pages: u64,
    sites: u64,
    cpu: Duration,
    wall: Duration,
    memory: usize,
}

// === impl Side ===

impl Side {
    /// `Crawl` comes first: it writes the list of pages that the others fetch.
    const ALL: [Self; 4] = [Self::Crawl, Self::InMemory, Self::Read, Self::Bare];

    fn name(self) -> &'static str {
        match self {
            Self::Crawl => "crawl",
            Self::InMemory => "in-memory",
            Self::Read => "read",
            Self::Bare => "bare",
        }
    }

    fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|side| side.name() == name);
        found.expect("the name of a side")
    }
}

// === impl Figures ===

impl Figures {
    fn pages_per_second(&self) -> f64 {
        self.pages as f64 / self.wall.as_secs_f64()
    }

    fn each(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.pages as f64
    }
}

fn measure(crawlers: &[usize]) {
    let server = Server::start(&["--serve"]);
    let mut server_clock = CpuClock::of_process(&server.process());
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let model = train(server.address);
    fs::write(directory.path().join(MODEL_FILE), model.to_bytes()).expect("room on the disk");
    println!(
        "{HOSTS} hosts, {} bytes a page, {PAGES} pages",
        Answers::new().page(1, 0).len()
    );
    println!(
        "{:>8} {:<10} {:>7} {:>7} {:>8} {:>9} {:>7} {:>9} {:>8}",
        "crawlers", "", "pages", "sites", "pages/s", "cpu us/", "cpu", "server", "memory"
    );
    println!(
        "{:>8} {:<10} {:>7} {:>7} {:>8} {:>9} {:>7} {:>9} {:>8}",
        "", "", "", "", "", "page", "ratio", "us/page", "MB"
    );
    for &crawlers in crawlers {
        let rows = Side::ALL.map(|side| {
            let before = server_clock.now();
            let figures = in_child(side, crawlers, server.address, directory.path());
            let (server_cpu, _) = server_clock.now().since(&before);
            (side, figures, server_cpu)
        });
        let (_, bare, _) = rows[rows.len() - 1];
        for (side, figures, server_cpu) in rows {
            println!(
                "{crawlers:>8} {:<10} {:>7} {:>7} {:>8.0} {:>9.1} {:>7.2} {:>9.1} {:>8.0}",
                side.name(),
                figures.pages,
                figures.sites,
                figures.pages_per_second(),
                figures.each(figures.cpu),
                figures.each(figures.cpu) / bare.each(bare.cpu),
                figures.each(server_cpu),
                figures.memory as f64 / 1e6,
            );
        }
    }
}

/// Measures in a separate process, so that its memory is that of one crawl.
fn in_child(side: Side, crawlers: usize, server: SocketAddr, directory: &Path) -> Figures {
    let output = Command::new(std::env::current_exe().expect("a program"))
        .args(["--only", side.name()])
        .args([crawlers.to_string(), server.to_string()])
        .arg(directory)
        .stderr(Stdio::inherit())
        .output()
        .expect("a second process");
    assert!(output.status.success(), "the second process failed");
    serde_json::from_slice(&output.stdout).expect("the figures of a row")
}

const MODEL_FILE: &str = "model";

/// The pages that a crawl has read, a line for each host.
const PAGES_FILE: &str = "pages";

fn run(side: Side, crawlers: usize, server: SocketAddr, directory: &Path) -> Figures {
    raise_limit_of_files();
    let model = fs::read(directory.join(MODEL_FILE)).expect("a file");
    let model = Arc::new(SiteModel::from_bytes(&model).expect("a model"));
    match side {
        Side::Crawl | Side::InMemory => crawl(side, crawlers, server, directory, model),
        Side::Read => fetch_all(crawlers, server, directory, Some(&model)),
        Side::Bare => fetch_all(crawlers, server, directory, None),
    }
}

/// Like the runtime of the crawler.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Every connection needs a descriptor.
fn raise_limit_of_files() {
    let (_, most) = rlimit::Resource::NOFILE.get().expect("a limit");
    rlimit::Resource::NOFILE
        .set(most, most)
        .expect("as many as are allowed");
}

// === the crawl ===

fn settings(server: SocketAddr, crawlers: usize) -> Settings {
    let mut settings = Settings::default();
    settings.fetch.resolve = vec![ResolveRule {
        host: "*.example".to_owned(),
        address: server,
        tls: false,
    }];
    settings.fetch.politeness.pause = Duration::ZERO;
    settings.fetch.politeness.address_interval = Duration::ZERO;
    settings.fetch.limits.connections = settings.fetch.limits.connections.max(crawlers);
    settings.external.crawlers = crawlers;
    settings
}

fn parse_limits(settings: &Settings) -> ParseLimits {
    ParseLimits {
        max_links: settings.parse.max_links,
        max_url_bytes: settings.parse.max_url_bytes,
    }
}

/// A model trained on hosts of the server.
fn train(server: SocketAddr) -> SiteModel {
    let settings = settings(server, 1);
    let mut labels = String::new();
    for host in 0..TRAINING_HOSTS {
        let topic = if is_relevant(host) { TOPIC } else { "other" };
        writeln!(labels, "h{host}.example\t{topic}").expect("memory takes all");
    }
    let labels = Labels::parse(&labels).expect("labels");
    let limits = CorpusLimits {
        pages_per_site: settings.training.pages_per_site,
        sites_at_once: 8,
        parse: parse_limits(&settings),
    };
    let metrics = FetchMetrics::register(&Metrics::new());
    let runtime = runtime();
    let corpus = runtime.block_on(async {
        let web = LiveWeb::new(&settings.fetch, metrics, None).expect("usable settings");
        Corpus::read(Arc::new(web), &labels.labels, limits, |_| {}).await
    });
    let examples = corpus.examples(TOPIC);
    fit_model(TOPIC, &corpus.lexicon, &examples, &settings.training).0
}

fn crawl(
    side: Side,
    crawlers: usize,
    server: SocketAddr,
    directory: &Path,
    model: Arc<SiteModel>,
) -> Figures {
    let settings = settings(server, crawlers);
    let runtime = runtime();
    let state = tempfile::tempdir_in(directory).expect("a directory");
    let before = memory("self", "VmRSS:");
    let store = match side {
        Side::InMemory => KeyValueStore::in_memory(),
        _ => KeyValueStore::open(state.path(), &settings.store),
    };
    let store: Arc<dyn CrawlStore> = Arc::new(store.expect("a store"));
    let metrics = FetchMetrics::register(&Metrics::new());
    let mut clock = CpuClock::of_process("self");
    let start = clock.now();
    let totals = runtime.block_on(async {
        let web = LiveWeb::new(&settings.fetch, metrics.clone(), None).expect("usable settings");
        let topic = TopicCrawl::new(TOPIC, model, &settings);
        let topic = topic.expect("a fit model").with_goals(Goals {
            wanted: None,
            max_pages: Some(PAGES),
        });
        let figures = CrawlMetrics::register(&Metrics::new());
        let slots = CrawlerSlots::new(crawlers);
        let opening = topic.open(Arc::clone(&store), Arc::new(web), &figures, &slots);
        let external = opening.await.expect("a crawler");
        let starts = (0..START_SITES).map(|host| address(host, 0)).collect();
        external.start_at(starts).await.expect("a store");
        let crawl = external.crawl(std::future::pending(), |_, _| {});
        crawl.await.expect("an end").1
    });
    let (cpu, wall) = clock.now().since(&start);
    let figures = Figures {
        pages: metrics.pages("2xx"),
        sites: totals.relevant + totals.irrelevant + totals.undecided,
        cpu,
        wall,
        memory: memory("self", "VmHWM:").saturating_sub(before),
    };
    assert!(
        totals.relevant > totals.undecided && totals.irrelevant > totals.undecided,
        "the model separates the sites: {totals:?}"
    );
    if side == Side::Crawl {
        let pages = runtime.block_on(pages_read(&*store));
        fs::write(directory.join(PAGES_FILE), pages).expect("room on the disk");
    }
    figures
}

/// The pages behind all verdicts, a line for each host.
async fn pages_read(store: &dyn CrawlStore) -> String {
    let topics = store.topics().await.expect("a store");
    let (_, topic) = topics[0];
    let judged = store.judged(topic, 0, usize::MAX).await.expect("a store");
    let mut lines = String::new();
    for judged in judged {
        let file = store.site(topic, &judged.site).await.expect("a store");
        let evidence = file.and_then(|file| file.evidence).expect("it is kept");
        let pages: Vec<&str> = evidence.steps.iter().map(|step| &*step.url).collect();
        writeln!(lines, "{}", pages.join(" ")).expect("memory takes all");
    }
    lines
}

// === fetching alone ===

/// Fetches the pages that a crawl has read, with `at_once` hosts in parallel; parses and judges them
/// if there is a model.
fn fetch_all(
    at_once: usize,
    server: SocketAddr,
    directory: &Path,
    model: Option<&Arc<SiteModel>>,
) -> Figures {
    let pages = fs::read_to_string(directory.join(PAGES_FILE)).expect("a crawl before");
    let page = |page: &str| page.parse().expect("an address");
    let host = |line: &str| line.split(' ').map(page).collect();
    let hosts: Vec<Vec<PageUrl>> = pages.lines().map(host).collect();
    let hosts = Arc::new(hosts);
    let limits = parse_limits(&settings(server, at_once));
    let runtime = runtime();
    let before = memory("self", "VmRSS:");
    let mut clock = CpuClock::of_process("self");
    let start = clock.now();
    let fetched = runtime.block_on(async {
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..at_once {
            let (hosts, next, model) = (Arc::clone(&hosts), Arc::clone(&next), model.cloned());
            tasks.spawn(async move {
                let mut fetched = 0;
                while let Some(pages) = hosts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    fetched += visit_bare(server, pages, model.as_ref(), &limits).await;
                }
                fetched
            });
        }
        tasks.join_all().await.into_iter().sum()
    });
    let (cpu, wall) = clock.now().since(&start);
    Figures {
        pages: fetched,
        sites: hosts.len() as u64,
        cpu,
        wall,
        memory: memory("self", "VmHWM:").saturating_sub(before),
    }
}

async fn visit_bare(
    server: SocketAddr,
    pages: &[PageUrl],
    model: Option<&Arc<SiteModel>>,
    limits: &ParseLimits,
) -> u64 {
    let stream = TcpStream::connect(server).await.expect("the server");
    stream.set_nodelay(true).expect("a socket");
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, driver) = handshake.expect("HTTP");
    let driver = tokio::spawn(driver);
    let host = pages[0].as_url().host_str().expect("a host");
    let host = HeaderValue::from_str(host).expect("a host");
    for page in pages {
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = Uri::try_from(page.target()).expect("a target");
        request.headers_mut().insert(HOST, host.clone());
        sender.ready().await.expect("an open connection");
        let answer = sender.send_request(request).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
        let (head, body) = answer.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        assert!(!body.is_empty());
        if let Some(model) = model {
            let fetched = FetchedPage {
                url: page.clone(),
                status: head.status,
                headers: head.headers,
                body,
                truncated: false,
                transfer: Transfer::default(),
            };
            let parsed = parse::parse(&fetched, limits);
            std::hint::black_box(judge(model, &parsed));
        }
    }
    drop(sender);
    driver.await.expect("no panic").expect("a clean end");
    pages.len() as u64
}

thread_local! {
    /// A reader for each thread, as in a crawl.
    static READER: RefCell<Option<TermReader<KnownTerms>>> = const { RefCell::new(None) };
}

fn judge(model: &Arc<SiteModel>, parsed: &ParsedPage) -> JudgedPage {
    READER.with_borrow_mut(|reader| {
        let new = || TermReader::new(KnownTerms::of(Arc::clone(model)));
        let terms = reader.get_or_insert_with(new).count(parsed);
        model.judge(&terms, PageKind::Inner)
    })
}

// === the server ===

/// Texts that the pages are built from.
struct Answers {
    relevant: Vec<String>,
    other: Vec<String>,
}

/// Runs in the server process: prints its address, and exits when standard input is closed.
fn serve() {
    raise_limit_of_files();
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
        let answer = answers.to(&String::from_utf8_lossy(&request[..length]));
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        length = 0;
    }
}

// === impl Answers ===

impl Answers {
    fn new() -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let shared = made_up_words(&mut random, 1_500);
        let mut texts = || {
            let words = made_up_words(&mut random, 150);
            (0..TEXTS)
                .map(|_| text(&mut random, &words, &shared))
                .collect()
        };
        Self {
            relevant: texts(),
            other: texts(),
        }
    }

    fn to(&self, request: &str) -> String {
        let target = request.split(' ').nth(1).unwrap_or_default();
        let host = request.split("ost: h").nth(1);
        let host = host.and_then(|host| host.split('.').next()?.parse().ok());
        let page = match target {
            "/" => Some(0),
            _ => target.strip_prefix("/p").and_then(|page| page.parse().ok()),
        };
        let (Some(host), Some(page)) = (host, page) else {
            return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned();
        };
        let body = self.page(host, page);
        format!(
            "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: keep-alive\r\n\r\n{body}",
            body.len()
        )
    }

    fn page(&self, host: u64, page: u64) -> String {
        let texts = if is_relevant(host) {
            &self.relevant
        } else {
            &self.other
        };
        let chosen = usize::try_from((host * 31 + page) % TEXTS).expect("a small number");
        let text = &texts[chosen];
        let mut html = String::with_capacity(text.len() + 2_048);
        html.push_str("<!DOCTYPE html><html lang=\"en\"><head><title>");
        html.push_str(&text[..40]);
        html.push_str("</title></head><body><nav>");
        for link in 1..=INTRINSIC_LINKS {
            let to = (page + link) % PAGES_OF_A_HOST;
            let written = writeln!(html, "<a href=\"/p{to}\">part {to}</a>");
            written.expect("memory takes all");
        }
        html.push_str("</nav><main><p>");
        html.push_str(text);
        html.push_str("</p><ul>");
        for link in 0..TRANSVERSAL_LINKS {
            let to = linked(host, page * TRANSVERSAL_LINKS + link);
            let to = address(to, 0);
            let written = writeln!(html, "<li><a href=\"{to}\">our friends</a></li>");
            written.expect("memory takes all");
        }
        html.push_str("</ul></main></body></html>");
        html
    }
}

/// Number of texts for each topic; each page contains one of them.
const TEXTS: u64 = 64;

const TEXT_BYTES: usize = 9 << 10;

/// Common English words, for the language detection.
const ENGLISH: [&str; 20] = [
    "the", "of", "and", "to", "in", "is", "you", "that", "it", "for", "was", "on", "are", "with",
    "they", "this", "have", "from", "our", "which",
];

fn is_relevant(host: u64) -> bool {
    host.is_multiple_of(RELEVANT_EVERY)
}

/// A host that another one links to: popular ones more often, and every second link of a
/// relevant host leads to a relevant one.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of the hosts"
)]
fn linked(host: u64, link: u64) -> u64 {
    let lot = xxh3_64_with_seed(&host.to_be_bytes(), link);
    let share = (lot >> 11) as f64 / (1_u64 << 53) as f64;
    let to = (share * share * HOSTS as f64) as u64;
    if is_relevant(host) && link.is_multiple_of(2) {
        to - to % RELEVANT_EVERY
    } else {
        to
    }
}

fn address(host: u64, page: u64) -> PageUrl {
    let path = match page {
        0 => String::new(),
        page => format!("p{page}"),
    };
    let address = format!("http://h{host}.example/{path}");
    address.parse().expect("an address")
}

fn made_up_words(random: &mut impl Rng, count: usize) -> Vec<String> {
    let letters = b"eeeeettttaaaooiinnsshhrrdlucmfwygpbv";
    let mut word = || {
        let length = random.gen_range(3..10);
        let letter = |_| char::from(*letters.choose(random).expect("letters"));
        (0..length).map(letter).collect()
    };
    (0..count).map(|_| word()).collect()
}

/// Prose of which a fifth is about the topic.
fn text(random: &mut impl Rng, topic: &[String], shared: &[String]) -> String {
    let mut text = String::with_capacity(TEXT_BYTES + 16);
    while text.len() < TEXT_BYTES {
        let word = match random.gen_range(0..10) {
            0..4 => *ENGLISH.choose(random).expect("words"),
            4..8 => shared.choose(random).expect("words"),
            _ => topic.choose(random).expect("words"),
        };
        text.push_str(word);
        text.push_str(if random.gen_range(0..12) == 0 {
            ". "
        } else {
            " "
        });
    }
    text
}
