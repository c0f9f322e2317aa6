//! Hostile pages that are made to cost memory or CPU time: upper bounds for both.
//!
//! Memory is measured on the real program in its own process, with the servers in this one. CPU
//! time is compared with that of ordinary pages of the same length in the same run.

#![allow(clippy::print_stdout, reason = "prints the measurements")]

#[path = "pathologies/mod.rs"]
mod pathologies;

use std::collections::BTreeSet;
use std::fs;
use std::hash::BuildHasher;
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, StatusCode};
use rustc_hash::FxBuildHasher;
use sitescout::classify::Lexicon;
use sitescout::parse::TermReader;
use sitescout::parse::term_reader::MAX_SPELLINGS;
use sitescout::parse::{self, ParseLimits};
use sitescout::web::{FetchedPage, Transfer};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use pathologies::{Pathologies, Reply};

/// Hosts visited at once; the default of `external.crawlers`.
const HOSTS: usize = 64;

/// Bytes sent by each of them, uncompressed.
const PAGE_BYTES: usize = 8 << 20;

/// Length of the words on pages where all words are different.
const WORD_LETTERS: usize = 10;

/// Memory limit for all of it. The systemd unit allows twice as much.
const MOST_MEMORY: usize = 1 << 30;

/// Colliding words may take twice the time of others; ten times that is no measurement error.
const MOST_TIME: f64 = 20.0;

/// Quadratic work on a page of a megabyte takes thousands of times as long.
const MOST_TIME_OF_SHAPES: f64 = 100.0;

const LIMITS: ParseLimits = ParseLimits {
    max_links: 10_000,
    max_url_bytes: 2_048,
};

/// A hostile page.
struct Shape {
    name: &'static str,
    content_type: &'static str,
    /// A page of about the given number of bytes.
    make: fn(usize) -> Vec<u8>,
}

const HTML: &str = "text/html; charset=utf-8";

const SHAPES: [Shape; 17] = [
    shape("words", HTML, words),
    shape("links", HTML, links),
    shape("long-base", HTML, long_base),
    shape("tags", HTML, |bytes| repeated(b"<a><b>", bytes)),
    shape("parts", HTML, |bytes| repeated(b"<h1>a</h1>b", bytes)),
    shape("headings", HTML, |bytes| {
        repeated(b"<h1>a<h2>b<div>", bytes)
    }),
    shape("attributes", HTML, attributes),
    shape("one-attribute", HTML, one_attribute),
    shape("entities", HTML, |bytes| {
        repeated(b"&amp;&notin;&#x2f;&am", bytes)
    }),
    shape("title", HTML, |bytes| [b"<title>", &*words(bytes)].concat()),
    shape("han", HTML, han),
    shape("one-word", HTML, |bytes| repeated(b"a", bytes)),
    shape("one-wide-word", HTML, |bytes| {
        repeated("ﬃ".as_bytes(), bytes)
    }),
    shape("marks", HTML, marks),
    shape("wide-charset", "text/html; charset=windows-874", |bytes| {
        repeated(b"\x80\x80\x80\x80\x80\x80\x80 ", bytes)
    }),
    shape("thai", "text/html; charset=windows-874", thai),
    shape("rubbish", HTML, |bytes| {
        repeated(b"<p>\xff\xfe\xfd\xc3\x28 ", bytes)
    }),
];

const fn shape(
    name: &'static str,
    content_type: &'static str,
    make: fn(usize) -> Vec<u8>,
) -> Shape {
    Shape {
        name,
        content_type,
        make,
    }
}

fn repeated(piece: &[u8], bytes: usize) -> Vec<u8> {
    piece.iter().copied().cycle().take(bytes).collect()
}

/// A word for each number, of `letters` letters.
fn word(mut number: usize, letters: usize) -> String {
    let mut word = vec![b'a'; letters];
    for letter in word.iter_mut().rev() {
        *letter += u8::try_from(number % 26).expect("a letter");
        number /= 26;
    }
    String::from_utf8(word).expect("letters")
}

/// One piece after the other, each made from its number.
fn pieces(bytes: usize, piece: impl Fn(usize) -> String) -> Vec<u8> {
    let mut page = String::with_capacity(bytes + 100);
    for number in 0.. {
        if page.len() >= bytes {
            break;
        }
        page.push_str(&piece(number));
    }
    page.into_bytes()
}

/// All words are different.
fn words(bytes: usize) -> Vec<u8> {
    pieces(bytes, |number| format!("{} ", word(number, WORD_LETTERS)))
}

fn links(bytes: usize) -> Vec<u8> {
    let link = |number| {
        let name = word(number, 5);
        match number % 2 {
            0 => format!("<a href=/{name}>{name}</a>"),
            _ => format!("<a href=//{name}.example>{name}</a>"),
        }
    };
    pieces(bytes, link)
}

/// Each link of a few bytes is an address of two kilobytes.
fn long_base(bytes: usize) -> Vec<u8> {
    let mut page = Vec::new();
    let base = "x".repeat(2_000);
    write!(page, "<base href='http://elsewhere.example/{base}/'>").expect("memory");
    page.extend(pieces(bytes, |number| format!("<a href={number:x}>y")));
    page
}

fn attributes(bytes: usize) -> Vec<u8> {
    let mut page = b"<a ".to_vec();
    page.extend(pieces(bytes, |number| format!("{}=b ", word(number, 4))));
    page.extend(b">");
    page
}

/// Zeros become replacement characters, of three bytes each.
fn one_attribute(bytes: usize) -> Vec<u8> {
    let mut page = b"<p>an ordinary beginning, long enough to be taken for text</p>".repeat(10);
    page.extend(b"<img alt='");
    page.resize(bytes, 0);
    page.extend(b"'>");
    page
}

/// Hardly any pair of characters occurs twice in the first quarter.
fn han(bytes: usize) -> Vec<u8> {
    let character = |number: usize| {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let code = 0x4e00 + u32::try_from(mixed % 20_000).expect("a character");
        char::from_u32(code).expect("a character").to_string()
    };
    let mut page = pieces(bytes / 4, character);
    page.resize(bytes, b' ');
    page
}

/// A word of one letter with as many accents as there is room for, in no order.
fn marks(bytes: usize) -> Vec<u8> {
    let marks = ['\u{301}', '\u{323}', '\u{308}', '\u{345}'];
    let mut page = "か".to_owned();
    page.extend(marks.iter().cycle().take(bytes / 2));
    page.into_bytes()
}

/// A row of letters without spaces, in a charset of one byte where UTF-8 has three. Its end is in
/// Latin letters, because nothing takes longer to read.
fn thai(bytes: usize) -> Vec<u8> {
    let letter = |number: usize| 0xa1 + u8::try_from(number * number % 45).expect("a letter");
    let mut page: Vec<u8> = (0..bytes / 8).map(letter).collect();
    page.resize(bytes, b'a');
    page
}

fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory").into()
}

// === memory ===

/// Peak memory of a process, in bytes; none if it has ended, or if the system does not report it.
fn peak_of(process: u32) -> Option<usize> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let found = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes = found.trim().trim_end_matches(" kB");
    Some(kilobytes.parse::<usize>().expect("a number") << 10)
}

/// Waits for a process to end, and returns its output and its peak memory.
fn watched(mut child: Child) -> (String, usize) {
    let mut stdout = child.stdout.take().expect("a pipe");
    let reading = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let mut peak = 0;
    let status = loop {
        peak = peak_of(child.id()).unwrap_or_default().max(peak);
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        thread::sleep(Duration::from_millis(10));
    };
    let text = reading.join().expect("a reader").expect("text");
    assert!(status.success(), "{status}: {text}");
    assert!(peak > 0, "a Linux");
    (text, peak)
}

/// Hosts that send pages of these shapes, and the settings that lead there.
struct BadWeb {
    web: Pathologies,
    hosts: Vec<String>,
    place: TempDir,
    _servers: Runtime,
}

impl BadWeb {
    fn of(shapes: &[&Shape], settings: &str) -> Self {
        let servers = Runtime::new().expect("a runtime");
        let web = servers.block_on(Pathologies::start());
        let mut hosts = Vec::new();
        for (at, shape) in shapes.iter().enumerate() {
            let page = gzip(&(shape.make)(PAGE_BYTES));
            for number in (0..HOSTS).filter(|number| number % shapes.len() == at) {
                let host = format!("{}-{number}.example", shape.name);
                let (page, content_type) = (page.clone(), shape.content_type);
                web.script(&host, move |target, _| match target {
                    "/robots.txt" => Reply::status(404),
                    _ => Reply::bare(200, page.clone())
                        .header("Content-Type", content_type)
                        .header("Content-Encoding", "gzip"),
                });
                hosts.push(host);
            }
        }
        let place = tempfile::tempdir().expect("a directory");
        let settings = format!(
            "{settings}\n[fetch]\nresolve = [{{ host = '*.example', address = '{}' }}]\n\
             [fetch.politeness]\npause = '0 s'\n",
            web.http()
        );
        fs::write(place.path().join("live.toml"), settings).expect("settings");
        Self {
            web,
            hosts,
            place,
            _servers: servers,
        }
    }

    fn program(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sitescout"));
        command
            .current_dir(self.place.path())
            .args(arguments.split_whitespace());
        command
    }

    /// Hosts whose page was requested.
    fn asked(&self) -> usize {
        let is_asked = |host: &&String| self.web.targets(host).contains(&"/".to_owned());
        self.hosts.iter().filter(is_asked).count()
    }
}

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("site-models")
}

/// Visits hosts of these shapes, all at once, and returns the peak memory of the program.
fn visit_all(shapes: &[&Shape]) -> usize {
    let web = BadWeb::of(shapes, "[internal]\npage_budget = 2");
    let child = web
        .program("classify --config live.toml --json --model")
        .arg(models().join("sailing"))
        .args(web.hosts.iter().map(|host| format!("http://{host}/")))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    let (judged, peak) = watched(child);
    assert_eq!(judged.lines().count(), HOSTS, "every site is judged");
    assert_eq!(web.asked(), HOSTS);
    peak
}

#[test]
fn distinct_words_from_many_hosts_stay_within_memory() {
    let peak = visit_all(&[&SHAPES[0]]);
    println!(
        "{HOSTS} hosts of {PAGE_BYTES} bytes of words: {} MB",
        peak >> 20
    );
    assert!(peak < MOST_MEMORY, "{peak} bytes, more than {MOST_MEMORY}");
}

#[test]
fn everything_that_a_page_can_have_much_of_stays_within_memory() {
    let shapes: Vec<&Shape> = SHAPES.iter().collect();
    let peak = visit_all(&shapes);
    println!(
        "{HOSTS} hosts of {} shapes: {} MB",
        SHAPES.len(),
        peak >> 20
    );
    assert!(peak < MOST_MEMORY, "{peak} bytes, more than {MOST_MEMORY}");
}

/// After a stop signal, pages are not parsed to their end first.
#[test]
fn a_stop_does_not_wait_for_pages_that_are_read() {
    const DRAIN: Duration = Duration::from_secs(1);
    const BESIDE: Duration = Duration::from_secs(5);
    let web = BadWeb::of(&[&SHAPES[0]], "[external]\ndrain = '1 s'");
    let mut child = web
        .program("crawl sailing --config live.toml --json --state state --crawlers 64 --models")
        .arg(models())
        .arg("--start")
        .args(&web.hosts)
        .stdout(Stdio::null())
        .spawn()
        .expect("the program");
    let patience = Instant::now() + Duration::from_mins(5);
    while web.asked() < HOSTS / 2 && Instant::now() < patience {
        thread::sleep(Duration::from_millis(20));
    }
    assert!(web.asked() >= HOSTS / 2, "{} hosts were asked", web.asked());
    let signalled = Instant::now();
    let process = child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &process]).status();
    assert!(sent.expect("kill").success());
    let status = child.wait().expect("a child");
    let took = signalled.elapsed();
    println!("stopped after {took:?}, {:?} are allowed", DRAIN + BESIDE);
    assert!(took < 10 * (DRAIN + BESIDE), "{took:?}");
    assert!(status.success(), "{status}");
}

#[test]
fn a_page_knows_a_stated_number_of_terms_the_first_ones() {
    let parsed = parse::parse(&page(HTML, words(1 << 20)), &LIMITS);
    let mut reader = TermReader::new(Lexicon::default());
    let terms = reader.count(&parsed);
    assert_eq!(terms.iter().len(), MAX_SPELLINGS);
    let known: BTreeSet<&str> = terms
        .iter()
        .map(|(term, _)| reader.numbers().term(term))
        .collect();
    for number in [0, 1, MAX_SPELLINGS - 1] {
        assert!(known.contains(&*word(number, WORD_LETTERS)), "{number}");
    }
    assert!(!known.contains(&*word(MAX_SPELLINGS, WORD_LETTERS)));
    // Known terms are still counted, wherever they occur.
    let again = [
        words(1 << 20),
        format!("{} ", word(0, WORD_LETTERS)).into_bytes(),
    ]
    .concat();
    let again = reader.count(&parse::parse(&page(HTML, again), &LIMITS));
    assert_eq!(again.iter().len(), MAX_SPELLINGS);
    let first = again.iter().next().expect("terms");
    let term = reader.numbers().term(first.0);
    assert_eq!((term, first.1.iter().sum()), (&*word(0, WORD_LETTERS), 2));
}

// === time ===

fn page(content_type: &'static str, body: Vec<u8>) -> FetchedPage {
    let content_type = HeaderValue::from_static(content_type);
    FetchedPage {
        url: "http://example.org/".parse().expect("an address"),
        status: StatusCode::OK,
        headers: HeaderMap::from_iter([(http::header::CONTENT_TYPE, content_type)]),
        body: body.into(),
        truncated: false,
        transfer: Transfer::default(),
    }
}

/// CPU time of reading a page to its last term.
fn cpu_time(page: &FetchedPage) -> Duration {
    let before = cpu_nanoseconds();
    let parsed = parse::parse(page, &LIMITS);
    black_box(TermReader::new(Lexicon::default()).count(&parsed));
    Duration::from_nanos(cpu_nanoseconds() - before)
}

/// CPU time of this thread: other tests run in parallel.
fn cpu_nanoseconds() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux");
    let first = text.split(' ').next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

/// Words whose hash in `rustc_hash` does not depend on the letters from the 17th to the 24th: those
/// before make its state equal to the last eight, which are then taken from it, and what is left,
/// zero, is multiplied with the letters between.
fn colliding(number: usize) -> String {
    format!("mnjpiufvuptptyll{}xynhnahu", word(number, 8))
}

/// The same as an address that leads nowhere.
fn colliding_reference(number: usize) -> String {
    format!("mailto:rtlqmgasc{}myemdgze", word(number, 8))
}

/// As long, and nothing else.
fn ordinary(number: usize) -> String {
    format!("nnjpiufvuptptyll{}xynhnahu", word(number, 8))
}

fn ordinary_reference(number: usize) -> String {
    format!("mailto:qtlqmgasc{}myemdgze", word(number, 8))
}

/// Asserts that pages of colliding pieces take little more time than others. Small pages come
/// first, so that quadratic behaviour fails in seconds and not in hours.
fn assert_takes_no_longer(
    what: &str,
    colliding: fn(usize) -> String,
    ordinary: fn(usize) -> String,
) {
    for bytes in [256 << 10, PAGE_BYTES] {
        let page_of = |piece: fn(usize) -> String| page(HTML, pieces(bytes, piece));
        let (hostile, honest) = (page_of(colliding), page_of(ordinary));
        // Warm-up, for the tables that are built on first use.
        black_box(cpu_time(&page(HTML, words(1 << 10))));
        let honest = cpu_time(&honest);
        let hostile = cpu_time(&hostile);
        let ratio = hostile.as_secs_f64() / honest.as_secs_f64();
        println!("{what}, {bytes} bytes: {hostile:?} beside {honest:?}, {ratio:.2} times");
        assert!(ratio < MOST_TIME, "{ratio} times");
    }
}

#[test]
fn words_that_collide_take_no_longer_than_others() {
    let hashes = (0..1_000).map(|number| FxBuildHasher.hash_one(&*colliding(number)));
    let hashes: BTreeSet<u64> = hashes.collect();
    assert_eq!(hashes.len(), 1, "they would all be in one bucket");
    let hashes = (0..1_000).map(|number| FxBuildHasher.hash_one(&*ordinary(number)));
    let hashes: BTreeSet<u64> = hashes.collect();
    assert_eq!(hashes.len(), 1_000);
    let spaced: fn(usize) -> String = |number| format!("{} ", colliding(number));
    assert_takes_no_longer("words", spaced, |number| format!("{} ", ordinary(number)));
}

#[test]
fn links_that_collide_take_no_longer_than_others() {
    let hash = |number| FxBuildHasher.hash_one(&*colliding_reference(number));
    let hashes: BTreeSet<u64> = (0..1_000).map(hash).collect();
    assert_eq!(hashes.len(), 1, "they would all be in one bucket");
    assert_takes_no_longer(
        "links",
        |number| format!("<a href={}>", colliding_reference(number)),
        |number| format!("<a href={}>", ordinary_reference(number)),
    );
}

#[test]
fn no_shape_of_a_page_takes_much_longer_than_words() {
    let bytes = 1 << 20;
    black_box(cpu_time(&page(HTML, words(1 << 10))));
    let honest = cpu_time(&page(HTML, words(bytes)));
    for shape in &SHAPES {
        let took = cpu_time(&page(shape.content_type, (shape.make)(bytes)));
        let ratio = took.as_secs_f64() / honest.as_secs_f64();
        println!("{:<14} {took:>12.3?}, {ratio:.2} times", shape.name);
        assert!(ratio < MOST_TIME_OF_SHAPES, "{}: {ratio} times", shape.name);
    }
}
