//! How fast pages are parsed and read, compared with the underlying libraries.
//!
//! What is measured, in CPU time of this thread, all in one run:
//! - `tokenise`: a bare html5gum pass over the bodies, every event counted, nothing kept
//! - `parse`: our parser on the same bodies: charset, text, links, language, fingerprint
//! - `terms`: terms of the parsed pages, compared with the word boundaries alone
//! - `counted terms`: the same, each distinct term counted by the part of the page it is in
//! - `gunzip`: plain decompression of the archives
//! - `index`: one pass over the archives that finds every record
//! - `read`: every page looked up and read through the index, one by one
//!
//! Corpus: `sites.warc.gz` and `webkb.warc.gz` of the directory that `SITESCOUT_CORPORA`
//! names; without it, the small archive of the tests.
//!
//! Rounds are interleaved and the best of each counts, so that a busy machine disturbs all
//! alike. Instruction counts do not depend on load at all:
//!
//! ```text
//! cargo bench --bench parse
//! cargo bench --bench parse -- --instructions
//! ```

#![allow(clippy::print_stdout, reason = "a bench prints its measurements")]
#![allow(
    clippy::cast_precision_loss,
    reason = "rates need no more than 52 bits"
)]

use std::convert::Infallible;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufReader, Read, copy, sink};
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::bufread::MultiGzDecoder;
use html5gum::Tokenizer;
use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use sitescout::config::FetchSettings;
use sitescout::fetch::Archive;
use sitescout::parse::{self, ParseLimits};
use sitescout::web::{FetchedPage, PageUrl, ParsedPage};
use unicode_segmentation::UnicodeSegmentation;

const ROUNDS: usize = 9;
/// Pages taken for counting instructions; valgrind is fifty times slower.
const SAMPLE: usize = 400;
const LIMITS: ParseLimits = ParseLimits {
    max_links: 10_000,
    max_url_bytes: 2_048,
};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let corpus = Corpus::open();
    match arguments.iter().position(|argument| argument == "--only") {
        Some(at) => run_only(&arguments[at + 1], &corpus),
        None if arguments
            .iter()
            .any(|argument| argument == "--instructions") =>
        {
            count_instructions();
        }
        None => measure(&corpus),
    }
}

struct Corpus {
    files: Vec<PathBuf>,
    archive: Archive,
    urls: Vec<PageUrl>,
}

impl Corpus {
    fn open() -> Self {
        let files = match std::env::var_os("SITESCOUT_CORPORA") {
            Some(directory) => ["sites.warc.gz", "webkb.warc.gz"]
                .map(|name| Path::new(&directory).join(name))
                .to_vec(),
            None => vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/harbour.warc")],
        };
        let archive = open(&files);
        let captures = archive
            .captures()
            .map(|capture| capture.expect("a capture"));
        let urls = captures.map(|capture| capture.url).collect();
        Self {
            files,
            archive,
            urls,
        }
    }

    fn read(&self, url: &PageUrl) -> Option<FetchedPage> {
        self.archive.read(url).expect("a readable page")
    }
}

fn open(files: &[PathBuf]) -> Archive {
    let mut settings = FetchSettings::default();
    settings.archive.keep_index = false;
    Archive::open(files, &settings).expect("the corpus can be read")
}

fn measure(corpus: &Corpus) {
    let pages: Vec<FetchedPage> = corpus
        .urls
        .iter()
        .filter_map(|url| corpus.read(url))
        .collect();
    let bytes: usize = pages.iter().map(|page| page.body.len()).sum();
    let text_bytes = parse_all(&pages);
    println!(
        "{} pages, {bytes} bytes, {text_bytes} bytes of text",
        pages.len()
    );
    println!("{:<16} {:>8} {:>8} {:>10}", "", "cpu s", "MB/s", "speed");

    let [tokenise, parse] = best_of([&|| tokenise_all(&pages), &|| parse_all(&pages)]);
    row("tokenise", tokenise, bytes, tokenise);
    row("parse", parse, bytes, tokenise);

    let parsed: Vec<ParsedPage> = pages
        .iter()
        .map(|page| parse::parse(page, &LIMITS))
        .collect();
    let [words, terms, counted] =
        best_of([&|| words_all(&parsed), &|| terms_all(&parsed), &|| {
            counted_all(&parsed)
        }]);
    row("word boundaries", words, text_bytes, words);
    row("terms", terms, text_bytes, words);
    row("counted terms", counted, text_bytes, words);

    drop((pages, parsed));
    let archive_bytes = decompress_all(&corpus.files);
    let [gunzip, index, read] = best_of([
        &|| decompress_all(&corpus.files),
        &|| open(&corpus.files).sites().count(),
        &|| read_all(corpus),
    ]);
    row("gunzip", gunzip, archive_bytes, gunzip);
    row("index", index, archive_bytes, gunzip);
    row("read", read, archive_bytes, gunzip);
}

fn row(name: &str, seconds: f64, bytes: usize, beside: f64) {
    let rate = bytes as f64 / seconds / 1e6;
    println!(
        "{name:<16} {seconds:>8.3} {rate:>8.1} {:>9.2}x",
        beside / seconds
    );
}

/// The least CPU time of each piece of work over interleaved rounds.
fn best_of<const N: usize>(works: [&dyn Fn() -> usize; N]) -> [f64; N] {
    let mut best = [f64::INFINITY; N];
    for _ in 0..ROUNDS {
        for (best, work) in best.iter_mut().zip(works) {
            *best = best.min(cpu_seconds(work));
        }
    }
    best
}

/// CPU seconds of this thread. Wall time on a shared machine measures other load.
fn cpu_seconds(work: impl FnOnce() -> usize) -> f64 {
    let before = cpu_nanoseconds();
    black_box(work());
    (cpu_nanoseconds() - before) as f64 / 1e9
}

fn cpu_nanoseconds() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let first = text.split(' ').next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

fn tokenise_all(pages: &[FetchedPage]) -> usize {
    pages.iter().map(|page| tokenise(&page.body)).sum()
}

fn tokenise(body: &[u8]) -> usize {
    let mut events = 0;
    let count = |event: CallbackEvent<'_>, _| -> Option<Infallible> {
        black_box(&event);
        events += 1;
        None
    };
    let mut emitter = CallbackEmitter::<_, _, ()>::new(count);
    emitter.naively_switch_states(true);
    let Ok(()) = Tokenizer::new_with_emitter(body, emitter).finish();
    events
}

/// As in a crawl, each page is dropped before the next.
fn parse_all(pages: &[FetchedPage]) -> usize {
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
        parse::words::for_each_term(page, |_, term| terms += black_box(term).len());
    }
    terms
}

fn counted_all(pages: &[ParsedPage]) -> usize {
    let counted = pages.iter().map(parse::words::count_terms);
    counted.map(|terms| black_box(terms).len()).sum()
}

fn decompress_all(files: &[PathBuf]) -> usize {
    files.iter().map(|file| decompress(file)).sum()
}

/// Plain files are only read: there is nothing to decompress.
fn decompress(path: &Path) -> usize {
    let file = BufReader::with_capacity(32 * 1024, File::open(path).expect("an archive"));
    let is_packed = path.extension().is_some_and(|extension| extension == "gz");
    let mut bytes: Box<dyn Read> = if is_packed {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let read = copy(&mut bytes, &mut sink()).expect("a readable archive");
    usize::try_from(read).expect("less than the address space")
}

fn read_all(corpus: &Corpus) -> usize {
    let pages = corpus.urls.iter().filter_map(|url| corpus.read(url));
    pages.map(|page| black_box(page).body.len()).sum()
}

/// Runs this program again under valgrind, once for each part.
fn count_instructions() {
    let program = std::env::current_exe().expect("a program");
    let count = |part: &str| {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(&program)
            .args(["--only", part])
            .output()
            .expect("valgrind is installed");
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = report.lines().find(|line| line.contains("Collected"));
        let count = line.and_then(|line| line.split(':').nth(1)?.trim().parse::<u64>().ok());
        count.expect("valgrind reports a count")
    };
    let nothing = count("nothing");
    for part in ["tokenise", "parse", "terms", "counted"] {
        println!("{part:<10} {:>15} instructions", count(part) - nothing);
    }
}

/// One part of the work, on a sample spread over the corpus, for valgrind. `terms` and
/// `counted` include the parsing before them.
fn run_only(part: &str, corpus: &Corpus) {
    let step = (corpus.urls.len() / SAMPLE).max(1);
    let urls = corpus.urls.iter().step_by(step);
    let sample: Vec<FetchedPage> = urls.filter_map(|url| corpus.read(url)).collect();
    black_box(match part {
        "tokenise" => tokenise_all(&sample),
        "parse" => parse_all(&sample),
        "terms" | "counted" => {
            let parsed: Vec<ParsedPage> = sample
                .iter()
                .map(|page| parse::parse(page, &LIMITS))
                .collect();
            match part {
                "terms" => terms_all(&parsed),
                _ => counted_all(&parsed),
            }
        }
        _ => 0,
    });
}
