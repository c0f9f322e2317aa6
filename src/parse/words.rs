//! From text to terms, which the classifier counts.
//!
//! Words by the boundaries of Unicode (UAX 29), in one normal form and lower case; stop
//! words left out and the rest stemmed by the language of the page. Scripts without spaces
//! (Chinese, Japanese, Thai and their kind) give overlapping pairs of characters, which
//! serve as well as words and need no dictionary.
//!
//! Left out: words without a letter, and words longer than 64 bytes, which are keys and
//! digests.
//!
//! Invariant: the same page gives the same terms in the same order; models depend on it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use rustc_hash::{FxHashMap, FxHashSet};
use snowball_stemmers_rs::{Algorithm, Stemmer};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};
use unicode_script::{Script, UnicodeScript};
use unicode_segmentation::UnicodeSegmentation;

use crate::web::{Language, PagePart, PageTerms, ParsedPage, PartCounts};

/// Longer words are keys and digests.
const MAX_WORD_BYTES: usize = 64;

/// The stemmers and the languages they stem.
const STEMMERS: [(&str, Algorithm); 33] = [
    ("ar", Algorithm::Arabic),
    ("ca", Algorithm::Catalan),
    ("cs", Algorithm::Czech),
    ("da", Algorithm::Danish),
    ("de", Algorithm::German),
    ("el", Algorithm::Greek),
    ("en", Algorithm::English),
    ("eo", Algorithm::Esperanto),
    ("es", Algorithm::Spanish),
    ("et", Algorithm::Estonian),
    ("eu", Algorithm::Basque),
    ("fa", Algorithm::Persian),
    ("fi", Algorithm::Finnish),
    ("fr", Algorithm::French),
    ("ga", Algorithm::Irish),
    ("hi", Algorithm::Hindi),
    ("hu", Algorithm::Hungarian),
    ("hy", Algorithm::Armenian),
    ("id", Algorithm::Indonesian),
    ("it", Algorithm::Italian),
    ("lt", Algorithm::Lithuanian),
    ("ne", Algorithm::Nepali),
    ("nl", Algorithm::Dutch),
    ("no", Algorithm::Norwegian),
    ("pl", Algorithm::Polish),
    ("pt", Algorithm::Portuguese),
    ("ro", Algorithm::Romanian),
    ("ru", Algorithm::Russian),
    ("sr", Algorithm::Serbian),
    ("sv", Algorithm::Swedish),
    ("ta", Algorithm::Tamil),
    ("tr", Algorithm::Turkish),
    ("uk", Algorithm::Ukrainian),
];

type StopList = FxHashSet<&'static str>;

/// Every stop list there is, by the code of its language.
static STOP_LISTS: LazyLock<HashMap<String, StopList>> = LazyLock::new(|| {
    let lists = stop_words::available_languages().iter().filter_map(|code| {
        let words = stop_words::lookup(*code)?;
        Some(((*code).to_owned(), words.iter().copied().collect()))
    });
    lists.collect()
});

/// Gives each term of a page, with the part of the page it began in, in reading order.
///
/// A word may run through several parts: in `<a>boat</a>s` it is «boats».
pub fn for_each_term(page: &ParsedPage, mut visit: impl FnMut(PagePart, &str)) {
    let mut terms = Terms::of_language(page.language);
    for (text, parts) in page.text.stretches() {
        let mut parts = parts.iter().peekable();
        terms.read(text, &mut |start, term| {
            while parts.next_if(|(_, end)| *end <= start).is_some() {}
            if let Some((part, _)) = parts.peek() {
                visit(*part, term);
            }
        });
    }
}

/// The terms of a page, counted by the part they began in.
#[must_use]
pub fn count_terms(page: &ParsedPage) -> PageTerms {
    let mut counts: FxHashMap<Box<str>, PartCounts> = FxHashMap::default();
    for_each_term(page, |part, term| {
        let at = part as usize;
        if let Some(counts) = counts.get_mut(term) {
            counts[at] = counts[at].saturating_add(1);
        } else {
            let mut first = PartCounts::default();
            first[at] = 1;
            counts.insert(term.into(), first);
        }
    });
    PageTerms::new(page.language, counts)
}

/// Gives each term of a text that stands by itself: an anchor, a description.
pub fn for_each_term_of(text: &str, language: Option<Language>, mut visit: impl FnMut(&str)) {
    Terms::of_language(language).read(text, &mut |_, term| visit(term));
}

/// Makes terms of the text of one language.
struct Terms {
    stemmer: Option<Stemmer>,
    stop_list: Option<&'static StopList>,
    /// Characters in a row of a script without spaces, and where in the text they stand.
    unspaced: Vec<char>,
    unspaced_at: Range<usize>,
}

impl Terms {
    fn of_language(language: Option<Language>) -> Self {
        let code = language.as_ref().map(Language::code);
        let algorithm = STEMMERS.iter().find(|(stems, _)| Some(*stems) == code);
        Self {
            stemmer: algorithm.map(|(_, algorithm)| Stemmer::create(*algorithm)),
            stop_list: code.and_then(|code| STOP_LISTS.get(code)),
            unspaced: Vec::new(),
            unspaced_at: 0..0,
        }
    }

    /// Visits each term with the place where its word begins.
    fn read(&mut self, text: &str, visit: &mut impl FnMut(usize, &str)) {
        for (start, word) in text.unicode_word_indices() {
            if start != self.unspaced_at.end {
                self.end_unspaced(visit);
            }
            if !word.is_ascii() && word.starts_with(is_unspaced) {
                if self.unspaced.is_empty() {
                    self.unspaced_at.start = start;
                }
                self.unspaced
                    .extend(word.nfkc().flat_map(char::to_lowercase));
                self.unspaced_at.end = start + word.len();
            } else {
                self.end_unspaced(visit);
                self.read_word(word, &mut |term| visit(start, term));
            }
        }
        self.end_unspaced(visit);
    }

    fn read_word(&self, word: &str, visit: &mut impl FnMut(&str)) {
        let word = normal_form(word);
        if word.len() > MAX_WORD_BYTES || !word.contains(char::is_alphabetic) {
            return;
        }
        if self.stop_list.is_some_and(|list| list.contains(&*word)) {
            return;
        }
        match &self.stemmer {
            Some(stemmer) => visit(&stemmer.stem(&word)),
            None => visit(&word),
        }
    }

    fn end_unspaced(&mut self, visit: &mut impl FnMut(usize, &str)) {
        let start = self.unspaced_at.start;
        let mut term = String::new();
        if let [alone] = self.unspaced.as_slice() {
            term.push(*alone);
            visit(start, &term);
        }
        for pair in self.unspaced.windows(2) {
            term.clear();
            term.extend(pair);
            visit(start, &term);
        }
        self.unspaced.clear();
        self.unspaced_at = 0..0;
    }
}

/// Lower case, composed, with one kind of apostrophe.
fn normal_form(word: &str) -> Cow<'_, str> {
    if word.is_ascii() {
        return match word.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(word.to_ascii_lowercase()),
            false => Cow::Borrowed(word),
        };
    }
    let word = word.replace('\u{2019}', "'");
    let word = match is_nfkc_quick(word.chars()) {
        IsNormalized::Yes => word,
        _ => word.nfkc().collect(),
    };
    Cow::Owned(word.to_lowercase())
}

/// Scripts in which words are not separated.
fn is_unspaced(c: char) -> bool {
    matches!(
        c.script(),
        Script::Han
            | Script::Hiragana
            | Script::Katakana
            | Script::Bopomofo
            | Script::Thai
            | Script::Lao
            | Script::Khmer
            | Script::Myanmar
            | Script::Tibetan
    )
}
