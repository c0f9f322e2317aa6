//! From text to terms, the features of the classifier.
//!
//! Words are split at Unicode boundaries (UAX 29), normalised and lower-cased; stop words are dropped
//! and the rest stemmed by the language of the page. Scripts without spaces (Chinese, Japanese, Thai
//! and others) give overlapping pairs of characters, which work as well as words and need no
//! dictionary.
//!
//! Left out: words without a letter, and words longer than 64 bytes, which are keys and
//! digests. A page has at most [`MAX_TERMS`] different terms: the first ones in reading order.
//!
//! Invariant: the same page gives the same terms in the same order; models depend on it.
//! Apart from the terms, memory does not grow with the page.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use rustc_hash::FxHashSet;
use snowball_stemmers_rs::{Algorithm, Stemmer};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};
use unicode_script::{Script, UnicodeScript};
use unicode_segmentation::UnicodeSegmentation;

use crate::web::{Language, PagePart, PageTerms, ParsedPage, PartCounts};

use super::SeededMap;

/// Longer words are keys and digests.
const MAX_WORD_BYTES: usize = 64;

/// A longer word is too long after normalisation, too, which never makes it shorter than a quarter
/// (a mathematical bold letter has four bytes, the letter itself one). Such words are skipped
/// without normalising them.
const MAX_RAW_WORD_BYTES: usize = 8 * MAX_WORD_BYTES;

/// Maximum number of different terms of one page; further ones are not counted. They take some 8 MB.
///
/// The maximum of 23,000 pages of our corpora is 5,235.
pub const MAX_TERMS: usize = 50_000;

/// Maximum initial capacity of the map of terms.
const MAX_EXPECTED_TERMS: usize = 2_048;

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

/// Unseeded: its words are constants, so no page can make them collide.
type StopList = FxHashSet<&'static str>;

/// All stop lists, by language code.
static STOP_LISTS: LazyLock<HashMap<String, StopList>> = LazyLock::new(|| {
    let lists = stop_words::available_languages().iter().filter_map(|code| {
        let words = stop_words::lookup(*code)?;
        Some(((*code).to_owned(), words.iter().copied().collect()))
    });
    lists.collect()
});

/// Visits each term of a page, with the part of the page it begins in, in reading order.
///
/// A word may span several parts: `<a>boat</a>s` is «boats».
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

/// The terms of a page, counted by the part they begin in; at most [`MAX_TERMS`].
#[must_use]
pub fn count_terms(page: &ParsedPage) -> PageTerms {
    // A word has about eight bytes, and every second word is new.
    let expected = (page.text.len() / 16).min(MAX_EXPECTED_TERMS);
    let mut counts: SeededMap<Box<str>, PartCounts> =
        SeededMap::with_capacity_and_hasher(expected, RandomState::default());
    for_each_term(page, |part, term| {
        let at = part as usize;
        if let Some(counts) = counts.get_mut(term) {
            counts[at] = counts[at].saturating_add(1);
        } else if counts.len() < MAX_TERMS {
            let mut first = PartCounts::default();
            first[at] = 1;
            counts.insert(term.into(), first);
        }
    });
    PageTerms::new(page.language, counts)
}

/// Visits each term of a text outside of a page: an anchor, a description.
pub fn for_each_term_of(text: &str, language: Option<Language>, mut visit: impl FnMut(&str)) {
    Terms::of_language(language).read(text, &mut |_, term| visit(term));
}

/// Makes terms of text in one language.
struct Terms {
    stemmer: Option<Stemmer>,
    stop_list: Option<&'static StopList>,
    unspaced: Option<Unspaced>,
    /// A buffer for pairs of characters.
    pair: String,
}

/// A row of characters of a script without spaces. It may be as long as the page, so only its last
/// character is kept.
#[derive(Clone, Copy)]
struct Unspaced {
    /// Offsets in the text; the end is that of the characters read so far.
    start: usize,
    end: usize,
    last: Option<char>,
    /// Whether the last character is part of no pair.
    is_alone: bool,
}

impl Terms {
    fn of_language(language: Option<Language>) -> Self {
        let code = language.as_ref().map(Language::code);
        let algorithm = STEMMERS.iter().find(|(stems, _)| Some(*stems) == code);
        Self {
            stemmer: algorithm.map(|(_, algorithm)| Stemmer::create(*algorithm)),
            stop_list: code.and_then(|code| STOP_LISTS.get(code)),
            unspaced: None,
            pair: String::new(),
        }
    }

    /// Visits each term with the offset at which its word begins.
    fn read(&mut self, text: &str, visit: &mut impl FnMut(usize, &str)) {
        for (start, word) in text.unicode_word_indices() {
            if !word.is_ascii() && word.starts_with(is_unspaced) {
                self.read_unspaced(start, word, visit);
            } else {
                self.end_unspaced(visit);
                self.read_word(word, &mut |term| visit(start, term));
            }
        }
        self.end_unspaced(visit);
    }

    fn read_word(&self, word: &str, visit: &mut impl FnMut(&str)) {
        if word.len() > MAX_RAW_WORD_BYTES {
            return;
        }
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

    fn read_unspaced(&mut self, start: usize, word: &str, visit: &mut impl FnMut(usize, &str)) {
        if self.unspaced.is_some_and(|row| row.end != start) {
            self.end_unspaced(visit);
        }
        let row = self.unspaced.get_or_insert(Unspaced {
            start,
            end: start,
            last: None,
            is_alone: false,
        });
        row.end = start + word.len();
        for next in word.nfkc().flat_map(char::to_lowercase) {
            row.is_alone = row.last.is_none();
            if let Some(last) = row.last.replace(next) {
                self.pair.clear();
                self.pair.extend([last, next]);
                visit(row.start, &self.pair);
            }
        }
    }

    fn end_unspaced(&mut self, visit: &mut impl FnMut(usize, &str)) {
        let Some(row) = self.unspaced.take() else {
            return;
        };
        if let Some(alone) = row.last.filter(|_| row.is_alone) {
            visit(row.start, alone.encode_utf8(&mut [0; 4]));
        }
    }
}

/// Lower case, composed, with one kind of apostrophe.
fn normal_form(word: &str) -> Cow<'_, str> {
    if word.is_ascii() {
        return if word.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(word.to_ascii_lowercase())
        } else {
            Cow::Borrowed(word)
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
