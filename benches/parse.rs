//! How fast pages are read, from bytes to what a model says, compared with the underlying libraries.
//!
//! What is measured, in CPU time of this thread, all in one run:
//! - `tokenise`: a bare html5gum pass over the bodies, every event counted, nothing kept
//! - `parse`: our parser on the same bodies: charset, text, links, language, fingerprint
//! - `to verdict`: the same, then the terms counted and judged by a model
//! - `terms`, `judge`: these two alone, on pages that are parsed
//! - `word boundaries`: those of the parsed text by UAX 29, nothing else, beside `terms`
//! - `gunzip`: plain decompression of the archive
//! - `index`: one pass over the archive that finds every record
//! - `read`: every page looked up and read through the index, one by one
//!
//! Corpus: the HTML pages of `sites.warc.gz` in the directory that `SITESCOUT_CORPORA` names; without
//! it, the small archive of the tests.
//!
//! Rounds are interleaved and the best of each counts, so that a busy machine disturbs all
//! alike. The reader of terms has read the corpus before, as in a crawl, but remembers a part only.
//!
//! Instruction counts do not depend on load at all. They are counted on every n-th page, after the
//! pages beside them were read. With `--check` their ratios to `tokenise` must not exceed those written
//! here by more than a tolerance:
//!
//! ```text
//! cargo bench --bench parse
//! cargo bench --bench parse -- --instructions
//! cargo bench --bench parse -- --check
//! ```

#![allow(clippy::print_stdout, reason = "a bench prints its measurements")]
#![allow(
    clippy::cast_precision_loss,
    reason = "rates need no more than 52 bits"
)]

use std::cell::RefCell;
use std::convert::Infallible;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufReader, Read, copy, sink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;
use html5gum::Tokenizer;
use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use sitescout::classify::{KnownTerms, SiteModel};
use sitescout::config::FetchSettings;
use sitescout::fetch::Archive;
use sitescout::parse::{self, ParseLimits, TermReader};
use sitescout::web::{ContentKind, FetchedPage, PageKind, PageTerms, PageUrl, ParsedPage};
use unicode_segmentation::UnicodeSegmentation;

const ROUNDS: usize = 9;
/// Pages taken for counting instructions, and as many are read before; valgrind is fifty times slower.
const SAMPLE: usize = 600;

/// The instructions of each part for one of `tokenise`, on real websites.
const RATIOS: [(&str, f64); 3] = [("parse", 1.04), ("terms", 0.53), ("judge", 0.027)];
/// How much more than that is allowed: compilers differ a little.
const TOLERANCE: f64 = 1.10;

/// The model that judges, of `site-models/`.
const TOPIC: &str = "cs_department";

const LIMITS: ParseLimits = ParseLimits {
    max_links: 10_000,
    max_url_bytes: 2_048,
};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    if let Some(at) = arguments.iter().position(|argument| argument == "--only") {
        run_only(&arguments[at + 1], &Corpus::open());
    } else if has("--instructions") {
        count_instructions();
    } else if has("--check") {
        if std::env::var_os("SITESCOUT_CORPORA").is_none() {
            println!("skipped: bench parse: SITESCOUT_CORPORA is not set");
            return;
        }
        check(&count_instructions());
    } else {
        measure(&Corpus::open());
    }
}

struct Corpus {
    file: PathBuf,
    archive: Archive,
    urls: Vec<PageUrl>,
    model: Arc<SiteModel>,
}

type Reader = TermReader<KnownTerms>;

impl Corpus {
    fn open() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = match std::env::var_os("SITESCOUT_CORPORA") {
            Some(directory) => Path::new(&directory).join("sites.warc.gz"),
            None => root.join("tests/fixtures/harbour.warc"),
        };
        let archive = open(&file);
        let captures = archive
            .captures()
            .map(|capture| capture.expect("a capture"));
        let urls = captures.map(|capture| capture.url).collect();
        let model = root.join("site-models").join(TOPIC).join("site-model.bin");
        let model = SiteModel::from_bytes(&std::fs::read(model).expect("a model"));
        Self {
            file,
            archive,
            urls,
            model: Arc::new(model.expect("a model of this version")),
        }
    }

    fn read(&self, url: &PageUrl) -> Option<FetchedPage> {
        self.archive.read(url).expect("a readable page")
    }

    /// Every `step`-th page from the `first`, if it is HTML.
    fn pages(&self, first: usize, step: usize) -> Vec<FetchedPage> {
        let urls = self.urls.iter().skip(first).step_by(step);
        let pages = urls.filter_map(|url| self.read(url));
        pages
            .filter(|page| parse::parse(page, &LIMITS).content == ContentKind::Html)
            .collect()
    }

    fn reader(&self) -> Reader {
        TermReader::new(KnownTerms::of(Arc::clone(&self.model)))
    }
}

fn measure(corpus: &Corpus) {
    let pages = corpus.pages(0, 1);
    let bytes: usize = pages.iter().map(|page| page.body.len()).sum();
    let text_bytes = parse_all(&pages);
    println!(
        "{} pages, {bytes} bytes, {text_bytes} bytes of text",
        pages.len()
    );
    println!("{:<16} {:>8} {:>8} {:>10}", "", "cpu s", "MB/s", "speed");

    let reader = RefCell::new(corpus.reader());
    let [tokenise, parse, to_verdict] =
        best_of([&|| tokenise_all(&pages), &|| parse_all(&pages), &|| {
            judge_bodies(&pages, &corpus.model, &mut reader.borrow_mut())
        }]);
    row("tokenise", tokenise, bytes, tokenise);
    row("parse", parse, bytes, tokenise);
    row("to verdict", to_verdict, bytes, tokenise);

    let parsed: Vec<ParsedPage> = pages
        .iter()
        .map(|page| parse::parse(page, &LIMITS))
        .collect();
    let counted = count_all(&parsed, &mut reader.borrow_mut());
    let [words, terms, judge] = best_of([
        &|| words_all(&parsed),
        &|| count_all(&parsed, &mut reader.borrow_mut()).len(),
        &|| judge_all(&counted, &corpus.model),
    ]);
    row("word boundaries", words, text_bytes, words);
    row("terms", terms, text_bytes, words);
    row("judge", judge, text_bytes, words);

    drop((pages, parsed, counted));
    let archive_bytes = decompress(&corpus.file);
    let [gunzip, index, read] = best_of([
        &|| decompress(&corpus.file),
        &|| open(&corpus.file).sites().count(),
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

fn judge_bodies(pages: &[FetchedPage], model: &SiteModel, reader: &mut Reader) -> usize {
    for page in pages {
        let terms = reader.count(&parse::parse(page, &LIMITS));
        black_box(model.judge(&terms, PageKind::Inner));
    }
    pages.len()
}

fn words_all(pages: &[ParsedPage]) -> usize {
    let runs = pages.iter().flat_map(|page| page.text.runs());
    runs.map(|(_, text)| text.unicode_words().count()).sum()
}

fn count_all(pages: &[ParsedPage], reader: &mut Reader) -> Vec<PageTerms> {
    pages.iter().map(|page| reader.count(page)).collect()
}

fn judge_all(pages: &[PageTerms], model: &SiteModel) -> usize {
    for terms in pages {
        black_box(model.judge(terms, PageKind::Inner));
    }
    pages.len()
}

fn open(file: &Path) -> Archive {
    let mut settings = FetchSettings::default();
    settings.archive.keep_index = false;
    Archive::open(&[file], &settings).expect("the corpus can be read")
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

/// Runs this program again under valgrind, once for each part, and returns the ratios to `tokenise`.
fn count_instructions() -> Vec<(&'static str, f64)> {
    let program = std::env::current_exe().expect("a program");
    let count = |part: &str| {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg("--toggle-collect=*measured_part*")
            .arg(&program)
            .args(["--only", part])
            .output()
            .expect("valgrind is installed");
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{report}");
        let line = report.lines().find(|line| line.contains("Collected"));
        let count = line.and_then(|line| line.split(':').nth(1)?.trim().parse::<u64>().ok());
        count.expect("valgrind reports a count")
    };
    let tokenise = count("tokenise");
    println!("tokenise {tokenise:>15} instructions");
    let parts = RATIOS.map(|(part, _)| {
        let instructions = count(part);
        let ratio = instructions as f64 / tokenise as f64;
        println!("{part:<8} {instructions:>15} instructions, {ratio:.3} of tokenise");
        (part, ratio)
    });
    parts.to_vec()
}

fn check(ratios: &[(&str, f64)]) {
    for ((part, ratio), (_, wanted)) in ratios.iter().zip(RATIOS) {
        let most = wanted * TOLERANCE;
        assert!(
            *ratio <= most,
            "{part} takes {ratio:.3} of `tokenise`, and {most:.3} at most is allowed"
        );
        assert!(
            *ratio >= wanted / 2.0,
            "{part} takes {ratio:.3} of `tokenise` only: nothing was counted, or {wanted} is out of date"
        );
    }
}

/// One part of the work, for valgrind.
fn run_only(part: &str, corpus: &Corpus) {
    let step = (corpus.urls.len() / SAMPLE).max(2);
    let sample = corpus.pages(0, step);
    assert!(!sample.is_empty(), "the corpus has pages");
    let mut reader = corpus.reader();
    let parse = |pages: &[FetchedPage]| -> Vec<ParsedPage> {
        let pages = pages.iter().map(|page| parse::parse(page, &LIMITS));
        pages.collect()
    };
    match part {
        "tokenise" => measured_part(|| tokenise_all(&sample)),
        "parse" => measured_part(|| parse_all(&sample)),
        "terms" => {
            count_all(&parse(&corpus.pages(1, step)), &mut reader);
            let sample = parse(&sample);
            measured_part(|| count_all(&sample, &mut reader).len());
        }
        "judge" => {
            let sample = count_all(&parse(&sample), &mut reader);
            measured_part(|| judge_all(&sample, &corpus.model));
        }
        _ => panic!("no part is called {part}"),
    }
}

/// What valgrind counts.
#[inline(never)]
fn measured_part(work: impl FnOnce() -> usize) {
    black_box(work());
}
