//! The reading path gives the same results, byte for byte, however it is made faster: digests over all
//! pages of the corpora of everything that is parsed, of the terms, of their vectors, and of what the models
//! of `site-models/` say; and over whole sites, learned and judged, in [`crate::corpora`].
//!
//! Where logarithms are rounded otherwise than on the machine of the file, verdicts are compared in what
//! their last digits do not change: whether a page spoke, three digits of its confidence, and the order of
//! its telling words. Only a confidence that is all but halfway between two such numbers could differ.
//!
//! `UPDATE_GOLDEN=1` rewrites `tests/golden/reading_path.txt`. Only a change that is meant to change
//! results does that, and says so.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sitescout::classify::{JudgedPage, KnownTerms, Lexicon, SiteModel};
use sitescout::fetch::Archive;
use sitescout::parse::{self, TermReader};
use sitescout::web::{PageKind, PageTerms, ParsedPage, TellingWord};
use xxhash_rust::xxh3::Xxh3Default;

use crate::skips::{self, skipped};
use crate::{LIMITS, without_index};

/// `web.warc.gz` has the pages of `sites.warc.gz` again.
const ARCHIVES: [&str; 4] = ["sites", "webkb", "topics2", "background"];

/// One test at a time rewrites the file.
static REWRITING: Mutex<()> = Mutex::new(());

#[derive(Default)]
pub(crate) struct Digest(Xxh3Default);

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

impl Digest {
    pub(crate) fn add(&mut self, value: impl fmt::Debug) {
        writeln!(self, "{value:?}").expect("digests take everything");
    }

    pub(crate) fn text(&self) -> String {
        format!("{:016x}", self.0.digest())
    }
}

/// Digests by name.
pub(crate) type Digests = BTreeMap<String, String>;

fn golden() -> (PathBuf, Digests) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/reading_path.txt");
    let text = fs::read_to_string(&path).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let digests = lines.map(|(name, digest)| (name.to_owned(), digest.to_owned()));
    (path, digests.collect())
}

/// Compares digests with those of the file, or puts them there.
pub(crate) fn compare(found: &Digests) {
    let _alone = REWRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let (path, mut wanted) = golden();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        wanted.extend(found.clone());
        let lines: Vec<String> = wanted
            .iter()
            .map(|(name, digest)| format!("{name} {digest}\n"))
            .collect();
        fs::write(&path, lines.concat()).expect("a writable directory");
        return;
    }
    let wanted: Digests = wanted
        .into_iter()
        .filter(|(name, _)| found.contains_key(name))
        .collect();
    assert_eq!(*found, wanted);
}

/// What one model says of the pages of an archive.
#[derive(Default)]
struct Judged {
    vectors: Digest,
    verdicts: Digest,
    /// Of the verdicts, what the last digits do not change.
    rounded: Digest,
}

impl Judged {
    fn add(&mut self, model: &SiteModel, terms: &PageTerms) {
        let verdict = model.judge(terms, PageKind::Inner);
        self.vectors.add(model.vector(terms));
        self.verdicts.add(&verdict);
        self.rounded.add(match &verdict {
            JudgedPage::Mute => None,
            JudgedPage::Spoke {
                confidence,
                telling_words,
                ..
            } => {
                let names = |words: &[TellingWord]| -> Vec<Box<str>> {
                    words.iter().map(|word| word.term.clone()).collect()
                };
                let (for_target, against) = (&telling_words.for_target, &telling_words.against);
                let confidence = format!("{:.3}", confidence.get());
                Some((confidence, names(for_target), names(against)))
            }
        });
    }
}

/// Logarithms and powers as this machine computes them: the last bits differ between C libraries and
/// processors, and confidences with them.
pub(crate) fn arithmetic() -> Digests {
    let mut digest = Digest::default();
    for number in 1_u16..=10_000 {
        let (single, double) = (f32::from(number) / 7.0, f64::from(number) / 700.0);
        digest.add((single.ln(), double.ln(), (-double).exp(), double.powf(0.75)));
    }
    Digests::from([("arithmetic".to_owned(), digest.text())])
}

/// Whether confidences of the file can be compared here.
pub(crate) fn has_known_arithmetic() -> bool {
    let is_updated = std::env::var_os("UPDATE_GOLDEN").is_some();
    is_updated || golden().1.get("arithmetic") == arithmetic().get("arithmetic")
}

fn models() -> Vec<(String, Arc<SiteModel>, TermReader<KnownTerms>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-models");
    let entries = fs::read_dir(directory).expect("the models");
    let mut models: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.expect("an entry").path();
            let bytes = fs::read(path.join("site-model.bin")).ok()?;
            let name = path.file_name()?.to_str()?.to_owned();
            let model = Arc::new(SiteModel::from_bytes(&bytes).expect("a model"));
            let known_terms = KnownTerms::of(Arc::clone(&model));
            Some((name, model, TermReader::new(known_terms)))
        })
        .collect();
    models.sort_by(|one, other| one.0.cmp(&other.0));
    models
}

/// The terms of a page with their counts, by their bytes.
fn add_terms(digest: &mut Digest, reader: &mut TermReader<Lexicon>, parsed: &ParsedPage) {
    let terms = reader.count(parsed);
    let mut terms: Vec<_> = terms
        .iter()
        .map(|(term, counts)| (reader.numbers().term(term), counts))
        .collect();
    terms.sort_unstable();
    for (term, counts) in terms {
        digest.add((term, counts));
    }
}

#[test]
fn corpora_are_read_as_ever() {
    let corpora = match skips::corpora() {
        Ok(corpora) => corpora,
        Err(why) => return skipped!(why),
    };
    if cfg!(debug_assertions) {
        return skipped!("a debug build takes ten minutes");
    }
    let mut models = models();
    let mut lexicon = TermReader::new(Lexicon::default());
    assert_eq!(models.len(), 10);
    let (mut texts, mut rounded) = (Digests::new(), Digests::new());
    let mut verdicts = arithmetic();
    for name in ARCHIVES {
        let archive = corpora.join(format!("{name}.warc.gz"));
        let archive = Archive::open(&[archive], &without_index()).expect("the corpus");
        let (mut pages, mut terms) = (Digest::default(), Digest::default());
        let mut judged: Vec<Judged> = models.iter().map(|_| Judged::default()).collect();
        for capture in archive.captures() {
            let url = capture.expect("a capture").url;
            let Some(page) = archive.read(&url).expect("a readable record") else {
                continue;
            };
            let parsed = parse::parse(&page, &LIMITS);
            pages.add(&parsed);
            add_terms(&mut terms, &mut lexicon, &parsed);
            for ((_, model, reader), judged) in models.iter_mut().zip(&mut judged) {
                judged.add(model, &reader.count(&parsed));
            }
        }
        texts.insert(format!("{name} pages"), pages.text());
        texts.insert(format!("{name} terms"), terms.text());
        for ((topic, ..), judged) in models.iter().zip(&judged) {
            let of_topic = format!("{name} judged for {topic}, rounded");
            rounded.insert(of_topic, judged.rounded.text());
            verdicts.insert(format!("{name} vectors for {topic}"), judged.vectors.text());
            verdicts.insert(format!("{name} judged for {topic}"), judged.verdicts.text());
        }
    }
    compare(&texts);
    compare(&rounded);
    if !has_known_arithmetic() {
        return skipped!(
            "confidences are compared to three digits only, this machine rounds logarithms otherwise"
        );
    }
    compare(&verdicts);
}
