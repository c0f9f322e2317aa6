//! How fast pages are read, beside the machinery they are read with.
//!
//! What is measured, in CPU time of this thread, all in one run:
//! - `tokenise`: a bare html5gum pass over the bodies, every event counted, nothing kept
//! - `parse`: our parser on the same bodies: charset, text, links, language, fingerprint
//! - `terms`: terms of the parsed pages, and beside it the word boundaries alone
//! - `gunzip`: plain decompression of the archive
//! - `index`: one pass over the archive that finds every record
//! - `read`: every page looked up and read through the index
//!
//! Corpus: the archives named in `SITESCOUT_CORPORA` (a directory with `sites.warc.gz` and
//! `webkb.warc.gz`); without it, the small archive of the tests, many times over.
//!
//! Rounds are interleaved and the best of each counts, so that a busy machine disturbs all
//! alike. `cargo bench --bench parse -- --instructions` counts instructions under valgrind
//! instead, on a sample: those do not depend on the machine's mood.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::bufread::MultiGzDecoder;
use html5gum::Tokenizer;
use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use sitescout::config::{DamagePolicy, FetchSettings};
use sitescout::fetch::Archive;
use sitescout::parse::{self, ParseLimits};
use sitescout::web::{FetchedPage, ParsedPage};
use unicode_segmentation::UnicodeSegmentation;

const ROUNDS: usize = 5;
/// Pages taken for counting instructions; valgrind is fifty times slower.
const SAMPLE: usize = 400;
const LIMITS: ParseLimits = ParseLimits {
    max_links: 10_000,
    max_url_bytes: 2_048,
};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let archives = archives();
    match arguments.iter().position(|argument| argument == "--only") {
        Some(at) => run_only(&arguments[at + 1], &archives),
        None if arguments
            .iter()
            .any(|argument| argument == "--instructions") =>
        {
            count_instructions();
        }
        None => measure(&archives),
    }
}

fn archives() -> Vec<PathBuf> {
    match std::env::var_os("SITESCOUT_CORPORA") {
        Some(directory) => ["sites.warc.gz", "webkb.warc.gz"]
            .iter()
            .map(|name| Path::new(&directory).join(name))
            .collect(),
        None => vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/harbour.warc.gz")],
    }
}

fn settings() -> FetchSettings {
    let mut settings = FetchSettings::default();
    settings.archive.keep_index = false;
    settings.archive.damaged = DamagePolicy::Refuse;
    settings
}

fn pages(archives: &[PathBuf]) -> Vec<FetchedPage> {
    let archive = Archive::open(archives, &settings()).expect("the corpus can be read");
    let captures = archive
        .captures()
        .map(|capture| capture.expect("a capture").url);
    captures
        .filter_map(|url| archive.read(&url).expect("a page"))
        .collect()
}

fn measure(archives: &[PathBuf]) {
    let pages = pages(archives);
    let bytes: usize = pages.iter().map(|page| page.body.len()).sum();
    let text_bytes = parse_and_drop_all(&pages);
    let archive_bytes: u64 = archives.iter().map(|path| gunzip(path)).sum();
    println!(
        "{} pages, {} bytes, {} bytes of text",
        pages.len(),
        bytes,
        text_bytes
    );

    let [tokenise, parse] = best_of([&|| tokenise_all(&pages), &|| parse_and_drop_all(&pages)]);
    let parsed = parse_all(&pages);
    let [words, terms] = best_of([&|| words_all(&parsed), &|| terms_all(&parsed)]);
    drop((pages, parsed));
    let [gunzip, index, index_and_read] = best_of([
        &|| archives.iter().map(|path| gunzip(path)).sum::<u64>() as usize,
        &|| index(archives),
        &|| read_all(archives),
    ]);
    let read = index_and_read - index;
    let table = [
        ("tokenise", tokenise, bytes as f64, tokenise),
        ("parse", parse, bytes as f64, tokenise),
        ("word boundaries", words, text_bytes as f64, words),
        ("terms", terms, text_bytes as f64, words),
        ("gunzip", gunzip, archive_bytes as f64, gunzip),
        ("index", index, archive_bytes as f64, gunzip),
        ("read", read, archive_bytes as f64, gunzip),
    ];
    println!("{:<16} {:>8} {:>8} {:>10}", "", "cpu s", "MB/s", "speed vs");
    for (name, seconds, bytes, beside) in table {
        let rate = bytes / seconds / 1e6;
        println!(
            "{name:<16} {seconds:>8.3} {rate:>8.1} {:>9.2}x",
            beside / seconds
        );
    }
}

/// The least CPU time of each piece of work over interleaved rounds.
fn best_of<const N: usize>(works: [&dyn Fn() -> usize; N]) -> [f64; N] {
    let mut best = [f64::INFINITY; N];
    for _ in 0..ROUNDS {
        for (best, work) in best.iter_mut().zip(works) {
            *best = best.min(seconds(work));
        }
    }
    best
}

fn tokenise_all(pages: &[FetchedPage]) -> usize {
    pages.iter().map(|page| tokenise(&page.body)).sum()
}

fn tokenise(body: &[u8]) -> usize {
    let mut events = 0;
    let count = |event: CallbackEvent<'_>, _| -> Option<std::convert::Infallible> {
        black_box(&event);
        events += 1;
        None
    };
    let mut emitter = CallbackEmitter::<_, _, ()>::new(count);
    emitter.naively_switch_states(true);
    let Ok(()) = Tokenizer::new_with_emitter(body, emitter).finish();
    events
}

fn parse_all(pages: &[FetchedPage]) -> Vec<ParsedPage> {
    pages
        .iter()
        .map(|page| parse::parse(page, &LIMITS))
        .collect()
}

/// As a crawler does: each page is gone before the next.
fn parse_and_drop_all(pages: &[FetchedPage]) -> usize {
    let parsed = pages.iter().map(|page| parse::parse(page, &LIMITS));
    parsed.map(|page| black_box(page).text.len()).sum()
}

fn words_all(pages: &[ParsedPage]) -> usize {
    let runs = pages.iter().flat_map(|page| page.text.runs());
    runs.map(|(_, text)| text.unicode_words().count()).sum()
}

fn terms_all(pages: &[ParsedPage]) -> usize {
    let mut terms = 0;
    for page in pages {
        parse::words::for_each_term(page, |_, term| terms += usize::from(!term.is_empty()));
    }
    terms
}

fn gunzip(path: &Path) -> u64 {
    let file = BufReader::new(File::open(path).expect("an archive"));
    let mut decoder = MultiGzDecoder::new(file);
    let mut buffer = vec![0; 32 * 1024];
    let mut bytes = 0;
    loop {
        match decoder.read(&mut buffer).expect("gzip") {
            0 => return bytes,
            read => bytes += read as u64,
        }
    }
}

fn index(archives: &[PathBuf]) -> usize {
    let archive = Archive::open(archives, &settings()).expect("the corpus can be read");
    archive.sites().count()
}

fn read_all(archives: &[PathBuf]) -> usize {
    let archive = Archive::open(archives, &settings()).expect("the corpus can be read");
    let captures = archive
        .captures()
        .map(|capture| capture.expect("a capture").url);
    let pages = captures.filter_map(|url| archive.read(&url).expect("a page"));
    pages.map(|page| black_box(page).body.len()).sum()
}

/// CPU seconds of this thread. Wall-clock time on a shared machine measures the neighbours.
fn seconds<T>(work: impl FnOnce() -> T) -> f64 {
    let before = cpu_nanoseconds();
    black_box(work());
    (cpu_nanoseconds() - before) as f64 / 1e9
}

fn cpu_nanoseconds() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let first = text.split(' ').next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

/// Runs this program again under valgrind, once for each part.
fn count_instructions() {
    let program = std::env::current_exe().expect("a program");
    let mut base = 0;
    for part in ["nothing", "tokenise", "parse", "terms"] {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(&program)
            .args(["--only", part])
            .output()
            .expect("valgrind is installed");
        let report = String::from_utf8_lossy(&output.stderr);
        let line = report.lines().find(|line| line.contains("Collected"));
        let count = line.and_then(|line| line.split(':').nth(1)?.trim().parse::<u64>().ok());
        let count = count.expect("valgrind reports a count");
        if part == "nothing" {
            base = count;
        } else {
            println!("{part:<10} {:>15} instructions", count - base);
        }
    }
}

/// One part of the work, on a sample spread over the corpus, for valgrind.
fn run_only(part: &str, archives: &[PathBuf]) {
    let archive = Archive::open(archives, &settings()).expect("the corpus can be read");
    let step = (usize::try_from(archive.records()).expect("a count") / SAMPLE).max(1);
    let urls = archive
        .captures()
        .step_by(step)
        .map(|capture| capture.expect("a capture").url);
    let sample: Vec<FetchedPage> = urls
        .filter_map(|url| archive.read(&url).expect("a page"))
        .collect();
    match part {
        "tokenise" => drop(black_box(tokenise_all(&sample))),
        "parse" => drop(black_box(parse_and_drop_all(&sample))),
        "profile-t" => (0..10).for_each(|_| drop(black_box(tokenise_all(&sample)))),
        "profile" => (0..10).for_each(|_| drop(black_box(parse_and_drop_all(&sample)))),
        "terms" => drop(black_box(terms_all(&parse_all(&sample)))),
        _ => {}
    }
}
