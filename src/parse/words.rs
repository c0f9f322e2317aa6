//! From text to terms, the features of the classifier.
//!
//! Words are split at Unicode boundaries (UAX 29), normalised and lower-cased; stop words are dropped
//! and the rest stemmed by the language of the page. Scripts without spaces (Chinese, Japanese, Thai
//! and others) give overlapping pairs of characters, which work as well as words and need no
//! dictionary.
//!
//! Left out: words without a letter, and words longer than 64 bytes, which are keys and
//! digests.
//!
//! Here is what a term is; [`term_reader`](super::term_reader) counts those of pages.
//!
//! Invariant: the same page gives the same terms in the same order; models depend on it. Memory does
//! not grow with the page.

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

/// A longer word is too long after normalisation, too, which never makes it shorter than a quarter
/// (a mathematical bold letter has four bytes, the letter itself one; with two marks of two bytes each it
/// becomes one letter of two bytes). Such words are skipped without normalising them.
const MAX_RAW_WORD_BYTES: usize = 4 * MAX_WORD_BYTES;

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

/// Visits each term of a page, with the part of the page it begins in, in reading order: what
/// [`TermReader`](super::TermReader) counts, without the limit on spellings. Tests and fuzzing compare
/// the two.
///
/// A word may span several parts: `<a>boat</a>s` is «boats».
pub fn for_each_term(page: &ParsedPage, mut visit: impl FnMut(PagePart, &str)) {
    let stemming = Stemming::of_language(page.language);
    for_each_word(page, |part, word| {
        if let Some(term) = stemming.term(word) {
            visit(part, &term);
        }
    });
}

/// Visits each word of a page, with the part of the page it begins in, in reading order.
pub(super) fn for_each_word(page: &ParsedPage, mut visit: impl FnMut(PagePart, Word<'_>)) {
    let mut words = WordSplitter::default();
    for (text, parts) in page.text.stretches() {
        let mut parts = parts.iter().peekable();
        words.read(text, &mut |start, word| {
            while parts.next_if(|(_, end)| *end <= start).is_some() {}
            if let Some((part, _)) = parts.peek() {
                visit(*part, word);
            }
        });
    }
}

/// A word as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Word<'a> {
    /// What is between two boundaries, at most [`MAX_RAW_WORD_BYTES`].
    Spaced(&'a str),
    /// A pair of characters of a script without spaces, or one alone; normalised.
    Unspaced(&'a str),
}

/// Splits text into words.
#[derive(Debug, Default)]
struct WordSplitter {
    unspaced: Option<Unspaced>,
    /// A buffer for pairs of characters.
    pair: String,
}

/// A row of characters of a script without spaces. It may be as long as the page, so only its last
/// character is kept.
#[derive(Debug, Clone, Copy)]
struct Unspaced {
    /// Offsets in the text; the end is that of the characters read so far.
    start: usize,
    end: usize,
    last: Option<char>,
    /// Whether the last character is part of no pair.
    is_alone: bool,
}

/// How the words of a language become terms.
pub(super) struct Stemming {
    stemmer: Option<Stemmer>,
    stop_list: Option<&'static StopList>,
}

// === impl Word ===

impl<'a> Word<'a> {
    pub(super) fn text(self) -> &'a str {
        match self {
            Self::Spaced(text) | Self::Unspaced(text) => text,
        }
    }
}

// === impl WordSplitter ===

impl WordSplitter {
    /// Visits each word with the offset at which it begins.
    fn read(&mut self, text: &str, visit: &mut impl FnMut(usize, Word<'_>)) {
        for (offset, segment) in segments(text) {
            if segment.is_ascii() {
                for_each_ascii_word(segment, |start, word| {
                    self.read_spaced(offset + start, word, visit);
                });
                continue;
            }
            for (start, word) in segment.unicode_word_indices() {
                let start = offset + start;
                if !word.is_ascii() && word.starts_with(is_unspaced) {
                    self.read_unspaced(start, word, visit);
                } else {
                    self.read_spaced(start, word, visit);
                }
            }
        }
        self.end_unspaced(visit);
    }

    fn read_spaced(&mut self, start: usize, word: &str, visit: &mut impl FnMut(usize, Word<'_>)) {
        self.end_unspaced(visit);
        if word.len() <= MAX_RAW_WORD_BYTES && may_have_letters(word) {
            visit(start, Word::Spaced(word));
        }
    }

    fn read_unspaced(&mut self, start: usize, word: &str, visit: &mut impl FnMut(usize, Word<'_>)) {
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
                visit(row.start, Word::Unspaced(&self.pair));
            }
        }
    }

    fn end_unspaced(&mut self, visit: &mut impl FnMut(usize, Word<'_>)) {
        let Some(row) = self.unspaced.take() else {
            return;
        };
        if let Some(alone) = row.last.filter(|_| row.is_alone) {
            visit(row.start, Word::Unspaced(alone.encode_utf8(&mut [0; 4])));
        }
    }
}

/// Visits each word of an ASCII text with its offset. Most are letters between white space, with
/// punctuation around them: for those the rules of UAX 29 are not needed.
fn for_each_ascii_word<'a>(text: &'a str, mut visit: impl FnMut(usize, &'a str)) {
    let mut next = 0;
    for piece in text.as_bytes().split(|byte| *byte <= b' ') {
        let (start, end) = (next, next + piece.len());
        next = end + 1;
        let before = piece
            .iter()
            .take_while(|byte| is_edge_punctuation(**byte))
            .count();
        let letters = &piece[before..];
        let letters = letters.iter().take_while(|byte| byte.is_ascii_alphabetic());
        let letters = letters.count();
        let behind = &piece[before + letters..];
        let start = start + before;
        if !behind.iter().all(|byte| is_edge_punctuation(*byte)) {
            for (offset, word) in text[start..end].unicode_word_indices() {
                visit(start + offset, word);
            }
        } else if letters > 0 {
            visit(start, &text[start..start + letters]);
        }
    }
}

/// Whether a byte of ASCII is a boundary at the edge of a word: all punctuation but the underscore,
/// which UAX 29 counts among the letters.
fn is_edge_punctuation(byte: u8) -> bool {
    byte.is_ascii_punctuation() && byte != b'_'
}

/// Cuts a text before white space, into segments that are ASCII and others, with their offsets. Word
/// boundaries are found much faster in ASCII, and no rule of UAX 29 reaches across the cut: white
/// space joins nothing before it but white space, and marks that follow it stay in its segment.
fn segments(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = &text[start..];
        let ascii = ascii_bytes(rest.as_bytes());
        let length = if ascii == rest.len() {
            ascii
        } else {
            let mut before = (1..ascii).rev();
            let mut behind = ascii..rest.len();
            let cut = before.find(|at| is_cut(rest, *at));
            cut.or_else(|| behind.find(|at| is_cut(rest, *at)))
                .unwrap_or(rest.len())
        };
        let found = (start, &rest[..length]);
        start += length;
        (length > 0).then_some(found)
    })
}

/// Whether there is white space at an offset that is not the first one, and none before it.
fn is_cut(text: &str, at: usize) -> bool {
    matches!(text.as_bytes()[at], b' ' | b'\n') && !text[..at].ends_with(char::is_whitespace)
}

/// How many bytes come before the first that is not ASCII. Whole blocks are compared at once.
fn ascii_bytes(bytes: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let blocks = bytes.chunks(BLOCK).take_while(|block| block.is_ascii());
    let whole = (blocks.count() * BLOCK).min(bytes.len());
    let in_block = bytes[whole..].iter().position(|byte| !byte.is_ascii());
    in_block.map_or(bytes.len(), |at| whole + at)
}

/// Whether a word may have letters once it is normalised.
fn may_have_letters(word: &str) -> bool {
    word.bytes()
        .any(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii())
}

// === impl Stemming ===

impl Stemming {
    pub(super) fn of_language(language: Option<Language>) -> Self {
        let code = language.as_ref().map(Language::code);
        let algorithm = STEMMERS.iter().find(|(stems, _)| Some(*stems) == code);
        Self {
            stemmer: algorithm.map(|(_, algorithm)| Stemmer::create(*algorithm)),
            stop_list: code.and_then(|code| STOP_LISTS.get(code)),
        }
    }

    /// The term of a word; none if it is a stop word, has no letter or is too long.
    pub(super) fn term<'a>(&self, word: Word<'a>) -> Option<Cow<'a, str>> {
        let spelling = match word {
            Word::Spaced(spelling) => spelling,
            Word::Unspaced(term) => return Some(Cow::Borrowed(term)),
        };
        let word = normal_form(spelling);
        if word.len() > MAX_WORD_BYTES || !word.contains(char::is_alphabetic) {
            return None;
        }
        if self.stop_list.is_some_and(|list| list.contains(&*word)) {
            return None;
        }
        Some(match (&self.stemmer, word) {
            (None, word) => word,
            (Some(stemmer), Cow::Borrowed(word)) => stemmer.stem(word),
            (Some(stemmer), Cow::Owned(word)) => Cow::Owned(stemmer.stem(&word).into_owned()),
        })
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<(usize, &str)> {
        let segments = segments(text);
        let words = segments.flat_map(|(offset, segment)| {
            let mut words = Vec::new();
            if segment.is_ascii() {
                for_each_ascii_word(segment, |start, word| words.push((start, word)));
            } else {
                words.extend(segment.unicode_word_indices());
            }
            words
                .into_iter()
                .map(move |(start, word)| (offset + start, word))
        });
        words.collect()
    }

    #[test]
    fn segments_are_cut_before_white_space_next_to_other_scripts() {
        let cut: Vec<&str> = segments("the old pier\nof Kiel-Förde is long é")
            .map(|(_, segment)| segment)
            .collect();
        assert_eq!(cut, ["the old pier\nof", " Kiel-Förde", " is long", " é"]);
        assert_eq!(segments("").count(), 0);
        assert_eq!(segments("all ASCII").count(), 1);
    }

    #[test]
    fn no_word_that_fits_after_normalisation_is_too_long_before() {
        let mut terms = Vec::new();
        let mut terms_of = |letter: &str, letters: usize| {
            let text = letter.repeat(letters);
            terms.clear();
            WordSplitter::default().read(&text, &mut |_, word| {
                terms.extend(Stemming::of_language(None).term(word).map(Cow::into_owned));
            });
            terms.concat()
        };
        // Both shrink to a quarter: to one byte, and to the two of «ǖ».
        for (letter, bytes) in [("\u{1d41a}", 1), ("\u{1d42e}\u{308}\u{304}", 2)] {
            let most = MAX_WORD_BYTES / bytes;
            assert_eq!(terms_of(letter, most).len(), MAX_WORD_BYTES);
            assert_eq!(terms_of(letter, most + 1), "");
        }
    }

    proptest! {
        /// Pieces that rules of UAX 29 join: marks, joiners, flags, quotes, Hebrew, Katakana.
        #[test]
        fn words_of_segments_are_those_of_the_text(
            pieces in prop::collection::vec(
                prop_oneof![
                    "[a-z0-9_.,:;' \n]{0,6}",
                    "[\\x00-\\x7f]{0,4}",
                    Just("\u{301}".to_owned()),
                    Just("\u{93e}".to_owned()),
                    Just("\u{200d}".to_owned()),
                    Just("\u{1f1e9}".to_owned()),
                    Just("\u{5d0}\"\u{5d0}".to_owned()),
                    Just("\u{2003}".to_owned()),
                    Just("é".to_owned()),
                    Just("港ヨ".to_owned()),
                    "\\PC{0,3}",
                ],
                0..20,
            ),
        ) {
            let text = pieces.concat();
            let whole: Vec<(usize, &str)> = text.unicode_word_indices().collect();
            prop_assert_eq!(words(&text), whole);
        }
    }
}
