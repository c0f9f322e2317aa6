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
use std::sync::LazyLock;

use rustc_hash::FxHashSet;
use snowball_stemmers_rs::{Algorithm, Stemmer};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};
use unicode_script::{Script, UnicodeScript};
use unicode_segmentation::UnicodeSegmentation;

use crate::web::{Language, PagePart, ParsedPage};

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

/// Gives each term of a page, with the part of the page it stood in, in reading order.
pub fn for_each_term(page: &ParsedPage, mut visit: impl FnMut(PagePart, &str)) {
    let mut terms = Terms::of_language(page.language);
    for (part, text) in page.text.runs() {
        terms.read(text, &mut |term| visit(part, term));
    }
}

/// Makes terms of the text of one language.
struct Terms {
    stemmer: Option<Stemmer>,
    stop_list: Option<&'static StopList>,
    /// Characters in a row of a script without spaces, and where in the text they end.
    unspaced: Vec<char>,
    unspaced_end: usize,
}

impl Terms {
    fn of_language(language: Option<Language>) -> Self {
        let code = language.as_ref().map(Language::code);
        let algorithm = STEMMERS.iter().find(|(stems, _)| Some(*stems) == code);
        Self {
            stemmer: algorithm.map(|(_, algorithm)| Stemmer::create(*algorithm)),
            stop_list: code.and_then(|code| STOP_LISTS.get(code)),
            unspaced: Vec::new(),
            unspaced_end: 0,
        }
    }

    fn read(&mut self, text: &str, visit: &mut impl FnMut(&str)) {
        for (start, word) in text.unicode_word_indices() {
            if start != self.unspaced_end {
                self.end_unspaced(visit);
            }
            if !word.is_ascii() && word.starts_with(is_unspaced) {
                self.unspaced
                    .extend(word.nfkc().flat_map(char::to_lowercase));
                self.unspaced_end = start + word.len();
            } else {
                self.end_unspaced(visit);
                self.read_word(word, visit);
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

    fn end_unspaced(&mut self, visit: &mut impl FnMut(&str)) {
        self.unspaced_end = 0;
        if self.unspaced.is_empty() {
            return;
        }
        let mut term = String::new();
        for pair in self
            .unspaced
            .chunks(1)
            .take(usize::from(self.unspaced.len() == 1))
        {
            term.extend(pair);
            visit(&term);
        }
        for pair in self.unspaced.windows(2) {
            term.clear();
            term.extend(pair);
            visit(&term);
        }
        self.unspaced.clear();
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
