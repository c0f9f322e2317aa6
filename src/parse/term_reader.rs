//! Counts the terms of pages; spellings are remembered between pages, within a bound.
//!
//! A [`TermReader`] remembers what it has learned about spellings, from page to page: «Boats» on an
//! English page is the term number 4,711. So a word that is remembered, as most are, costs a hash and a
//! comparison, and is not normalised, stemmed and looked up again. What is a term is decided by [`words`](super::words) alone.
//!
//! A page has at most [`MAX_SPELLINGS`] different spellings that are terms: the first ones in reading
//! order.
//!
//! Invariant: what is remembered changes no result. Memory is bounded, whatever pages are read: some
//! 5 MB for each reader between pages, by [`MAX_REMEMBERED`], and the spellings of the current page; what
//! the owner of the numbers keeps is its own. Readers are one for each thread that reads at this moment,
//! and those that wait in [`IdleReaders`]. All crawls of a process share one of these with
//! [`MAX_IDLE_READERS`], so it holds 160 MB at most, however many topics there are. The hash has a secret
//! seed, because pages choose the spellings.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::words::{Stemming, Word, for_each_word};
use crate::web::{Language, PagePart, PageTerms, ParsedPage, PartCounts, TermNumber, TermNumbers};

/// Maximum number of different spellings of terms on one page; further ones are not counted.
///
/// The maximum of 23,000 pages of our corpora is below 8,000.
pub const MAX_SPELLINGS: usize = 50_000;

/// When more spellings than this are remembered after a page, all are forgotten. A language
/// has some 30,000 in ordinary use.
const MAX_REMEMBERED: usize = 1 << 16;

/// The same for the bytes of all spellings.
const MAX_REMEMBERED_BYTES: usize = 1 << 20;

/// Longer words are remembered only if they are terms.
const MAX_REMEMBERED_NON_TERM_BYTES: usize = 64;

/// A buffer for more counts is not kept for the next page. The longest pages of our corpora need some
/// 8,000.
const MAX_IDLE_COUNTS: usize = 1 << 13;

/// How many readers wait for pages in the crawls of a process, for all topics together: those of a topic
/// that is crawled now by each of a few threads, and of others, whose readers would else begin anew.
pub(crate) const MAX_IDLE_READERS: usize = 32;

/// Length of the part of a spelling that is kept beside its meaning.
const HEAD_BYTES: usize = 8;

/// The language of pairs of characters, which are the same in all of them.
const ANY_LANGUAGE: u16 = u16::MAX;

/// Counts terms by the numbers of one owner.
#[derive(Debug)]
pub struct TermReader<N> {
    numbers: N,
    /// Indices of spellings, by their hash.
    index: HashTable<u32>,
    spellings: Vec<Spelling>,
    hasher: RandomState,
    /// The spellings, one after the other.
    texts: Vec<u8>,
    /// The languages of remembered spellings.
    languages: Vec<Option<Language>>,
    /// How many spellings are remembered from page to page.
    capacity: usize,
    /// The current page, counted from 1.
    page: u32,
    /// How many different spellings of terms the current page has.
    on_page: usize,
    /// The counts of the current page, by spelling.
    counts: Vec<(TermNumber, PartCounts)>,
}

/// A spelling in one language, in half a cache line.
#[derive(Debug, Clone, Copy)]
struct Spelling {
    /// Most words can be compared by it and their length alone.
    head: u64,
    /// Where it is in the texts.
    start: u32,
    length: u16,
    /// The index of its language.
    language: u16,
    meaning: Meaning,
    /// The last page that it was on.
    page: u32,
    /// The index of its counts, if that is the current page and the term has a number.
    counts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// A stop word, or no word at all.
    NotATerm,
    /// A term without a number.
    Unknown,
    Term(TermNumber),
}

/// Readers of terms with numbers of one kind, one for each thread that reads at the same time.
pub(crate) struct TermReaders<N> {
    numbers: Box<dyn Fn() -> N + Send + Sync>,
    pool: PoolNumber,
    idle: Arc<IdleReaders<N>>,
}

/// Readers that are not lent, of any number of [`TermReaders`] that share a limit.
#[derive(Debug)]
pub(crate) struct IdleReaders<N> {
    max_idle: usize,
    next_pool: AtomicU64,
    /// The one returned last is at the end.
    idle: Mutex<VecDeque<(PoolNumber, TermReader<N>)>>,
}

/// Distinguishes the pools that share idle readers.
type PoolNumber = u64;

// === impl TermReader ===

impl<N: TermNumbers> TermReader<N> {
    /// A reader that remembers nothing yet.
    #[must_use]
    pub fn new(numbers: N) -> Self {
        Self {
            numbers,
            index: HashTable::new(),
            spellings: Vec::new(),
            hasher: RandomState::default(),
            texts: Vec::new(),
            languages: Vec::new(),
            capacity: MAX_REMEMBERED,
            page: 1,
            on_page: 0,
            counts: Vec::new(),
        }
    }

    /// The owner of the numbers.
    #[must_use]
    pub fn numbers(&self) -> &N {
        &self.numbers
    }

    /// The terms of a page, counted by the part that they begin in.
    #[must_use]
    pub fn count(&mut self, page: &ParsedPage) -> PageTerms {
        let language = self.index_of(page.language);
        let stemming = Stemming::of_language(page.language);
        for_each_word(page, |part, word| {
            let language = match word {
                Word::Spaced(_) => language,
                Word::Unspaced(_) => ANY_LANGUAGE,
            };
            self.add(word, language, &stemming, part);
        });
        let terms = PageTerms::drain(page.language, &mut self.counts);
        self.end_page();
        terms
    }

    /// Forgets what is too much, after each page.
    fn end_page(&mut self) {
        let remembers_too_much = self.spellings.len() > self.capacity
            || self.texts.len() > MAX_REMEMBERED_BYTES
            || self.page == u32::MAX;
        if remembers_too_much {
            // New ones, because a page of nothing but new words has made these large.
            self.index = HashTable::new();
            self.spellings = Vec::new();
            self.texts = Vec::new();
            self.languages.clear();
            self.page = 0;
        }
        if self.counts.capacity() > MAX_IDLE_COUNTS {
            self.counts = Vec::new();
        }
        self.page += 1;
        self.on_page = 0;
    }

    fn index_of(&mut self, language: Option<Language>) -> u16 {
        let known = self.languages.iter().position(|known| *known == language);
        let index = known.unwrap_or_else(|| {
            self.languages.push(language);
            self.languages.len() - 1
        });
        u16::try_from(index).expect("26^3 languages are not many")
    }

    fn add(&mut self, word: Word<'_>, language: u16, stemming: &Stemming, part: PagePart) {
        let text = word.text().as_bytes();
        let hash = hash(&self.hasher, text, language);
        let known = self.find(hash, text, language);
        let Some(known) = known.or_else(|| self.learn(hash, word, language, stemming)) else {
            return;
        };
        let spelling = &mut self.spellings[known];
        if spelling.meaning == Meaning::NotATerm {
            return;
        }
        if spelling.page != self.page {
            if self.on_page == MAX_SPELLINGS {
                return;
            }
            self.on_page += 1;
            spelling.page = self.page;
            if let Meaning::Term(number) = spelling.meaning {
                spelling.counts = offset(self.counts.len());
                self.counts.push((number, PartCounts::default()));
            }
        }
        if let Meaning::Term(_) = spelling.meaning {
            let count = &mut self.counts[spelling.counts as usize].1[part as usize];
            *count = count.saturating_add(1);
        }
    }

    fn find(&self, hash: u64, text: &[u8], language: u16) -> Option<usize> {
        let head = head(text);
        let is_same = |at: &u32| {
            let known = &self.spellings[*at as usize];
            known.head == head
                && usize::from(known.length) == text.len()
                && known.language == language
                && (text.len() <= HEAD_BYTES || self.texts[known.text()] == *text)
        };
        let at = self.index.find(hash, is_same)?;
        Some(*at as usize)
    }

    /// Remembers a new spelling; none if there is no room, because the page has too many.
    fn learn(
        &mut self,
        hash: u64,
        word: Word<'_>,
        language: u16,
        stemming: &Stemming,
    ) -> Option<usize> {
        if self.on_page == MAX_SPELLINGS {
            return None;
        }
        let meaning = match stemming.term(word) {
            Some(term) => {
                let number = self.numbers.number(&term);
                number.map_or(Meaning::Unknown, Meaning::Term)
            }
            // A page may have any number of words that are no terms, and long ones.
            None if self.spellings.len() >= self.capacity => return None,
            None if word.text().len() > MAX_REMEMBERED_NON_TERM_BYTES => return None,
            None => Meaning::NotATerm,
        };
        let at = self.spellings.len();
        let text = word.text().as_bytes();
        self.spellings.push(Spelling {
            head: head(text),
            start: offset(self.texts.len()),
            length: u16::try_from(text.len()).expect("longer words are left out"),
            language,
            meaning,
            page: 0,
            counts: 0,
        });
        self.texts.extend_from_slice(text);
        let (hasher, spellings, texts) = (&self.hasher, &self.spellings, &self.texts);
        let hash_of = |at: &u32| {
            let known = &spellings[*at as usize];
            self::hash(hasher, &texts[known.text()], known.language)
        };
        self.index.insert_unique(hash, offset(at), hash_of);
        Some(at)
    }
}

fn hash(hasher: &RandomState, text: &[u8], language: u16) -> u64 {
    let mut hash = hasher.build_hasher();
    hash.write(text);
    // Few languages share a spelling, so this need not be as good as the hash itself.
    hash.finish() ^ u64::from(language)
}

/// The first bytes of a text. Of shorter ones each byte is in it, and texts of the same length have the
/// same one only if they are equal.
fn head(text: &[u8]) -> u64 {
    let first = |at: usize| Some(*text.get(at..)?.first_chunk::<4>()?);
    let whole = text.first_chunk::<HEAD_BYTES>();
    if let Some(whole) = whole {
        return u64::from_le_bytes(*whole);
    }
    if let (Some(low), Some(high)) = (first(0), first(text.len().wrapping_sub(4))) {
        let [low, high] = [low, high].map(|half| u64::from(u32::from_le_bytes(half)));
        return low | high << u32::BITS;
    }
    text.iter()
        .fold(0, |head, byte| head << u8::BITS | u64::from(*byte))
}

/// Counts and offsets of spellings fit: what a page adds and what is remembered are both bounded.
fn offset(number: usize) -> u32 {
    u32::try_from(number).expect("the texts of spellings are bounded")
}

// === impl Spelling ===

impl Spelling {
    fn text(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + usize::from(self.length)
    }
}

// === impl TermReaders ===

impl<N: TermNumbers> TermReaders<N> {
    /// No reader yet; `numbers` gives each new one its numbers.
    pub(crate) fn new(
        numbers: impl Fn() -> N + Send + Sync + 'static,
        idle: Arc<IdleReaders<N>>,
    ) -> Self {
        Self {
            numbers: Box::new(numbers),
            pool: idle.next_pool.fetch_add(1, Ordering::Relaxed),
            idle,
        }
    }

    /// Lends an idle reader, or a new one.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut TermReader<N>) -> T) -> T {
        let idle = self.idle.take(self.pool);
        let mut reader = idle.unwrap_or_else(|| TermReader::new((self.numbers)()));
        let done = work(&mut reader);
        self.idle.put(self.pool, reader);
        done
    }

    /// Ends all readers, none of which may be lent, and returns what gave them their numbers.
    pub(crate) fn take_numbers(&self) -> Vec<N> {
        let readers = self.idle.take_all(self.pool).into_iter();
        readers.map(|reader| reader.numbers).collect()
    }
}

impl<N> Drop for TermReaders<N> {
    /// Its idle readers would wait for pages that never come.
    fn drop(&mut self) {
        self.idle.take_all(self.pool);
    }
}

impl<N> fmt::Debug for TermReaders<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TermReaders").finish_non_exhaustive()
    }
}

// === impl IdleReaders ===

impl<N> IdleReaders<N> {
    /// Of more than `max_idle`, the reader that was not used for longest is dropped, and its numbers with
    /// it.
    pub(crate) fn at_most(max_idle: usize) -> Arc<Self> {
        Arc::new(Self {
            max_idle,
            next_pool: AtomicU64::new(0),
            idle: Mutex::default(),
        })
    }

    /// The reader of a pool that was used last.
    fn take(&self, pool: PoolNumber) -> Option<TermReader<N>> {
        let mut idle = self.idle();
        let at = idle.iter().rposition(|(owner, _)| *owner == pool)?;
        idle.remove(at).map(|(_, reader)| reader)
    }

    fn take_all(&self, pool: PoolNumber) -> Vec<TermReader<N>> {
        let mut idle = self.idle();
        let (own, others): (VecDeque<_>, VecDeque<_>) =
            idle.drain(..).partition(|(owner, _)| *owner == pool);
        *idle = others;
        own.into_iter().map(|(_, reader)| reader).collect()
    }

    fn put(&self, pool: PoolNumber, reader: TermReader<N>) {
        let mut idle = self.idle();
        idle.push_back((pool, reader));
        let surplus = (idle.len() > self.max_idle)
            .then(|| idle.pop_front())
            .flatten();
        // Megabytes are freed while others use the readers that are left.
        drop(idle);
        drop(surplus);
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<(PoolNumber, TermReader<N>)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use http::{HeaderMap, StatusCode};
    use proptest::prelude::*;

    use super::*;
    use crate::parse::words::for_each_term;
    use crate::parse::{ParseLimits, parse};
    use crate::web::{FetchedPage, Transfer};

    /// Numbers the terms that begin with a letter of the first half of the alphabet, or with none.
    #[derive(Default)]
    struct FirstHalf(Vec<String>);

    impl TermNumbers for FirstHalf {
        fn number(&mut self, term: &str) -> Option<TermNumber> {
            if term.starts_with(|letter: char| ('n'..='z').contains(&letter)) {
                return None;
            }
            let known = self.0.iter().position(|known| known == term);
            let number = known.unwrap_or_else(|| {
                self.0.push(term.to_owned());
                self.0.len() - 1
            });
            Some(TermNumber::try_from(number).unwrap())
        }
    }

    /// Gives a new number each time.
    #[derive(Default)]
    struct Counter(TermNumber);

    impl TermNumbers for Counter {
        fn number(&mut self, _: &str) -> Option<TermNumber> {
            self.0 += 1;
            Some(self.0)
        }
    }

    fn page(html: &str) -> ParsedPage {
        let headers = [(
            http::header::CONTENT_TYPE,
            "text/html; charset=utf-8".parse().unwrap(),
        )];
        let page = FetchedPage {
            url: "http://example.org/".parse().unwrap(),
            status: StatusCode::OK,
            headers: HeaderMap::from_iter(headers),
            body: html.to_owned().into(),
            truncated: false,
            transfer: Transfer::default(),
        };
        let limits = ParseLimits {
            max_links: 100,
            max_url_bytes: 2_048,
        };
        parse(&page, &limits)
    }

    /// The counts of a reader, in words.
    fn counted(
        reader: &mut TermReader<FirstHalf>,
        page: &ParsedPage,
    ) -> BTreeMap<String, PartCounts> {
        let terms = reader.count(page);
        let words = &reader.numbers().0;
        let terms = terms.iter();
        terms
            .map(|(term, counts)| (words[term as usize].clone(), *counts))
            .collect()
    }

    /// The same, word by word.
    fn by_the_book(page: &ParsedPage) -> BTreeMap<String, PartCounts> {
        let mut counts: BTreeMap<String, PartCounts> = BTreeMap::new();
        for_each_term(page, |part, term| {
            if FirstHalf::default().number(term).is_some() {
                counts.entry(term.to_owned()).or_default()[part as usize] += 1;
            }
        });
        counts
    }

    #[test]
    fn a_page_has_a_stated_number_of_spellings_and_others_are_neither_counted_nor_remembered() {
        let word = |number: usize| {
            let letter =
                |at: u32| char::from(b'a' + u8::try_from(number / 13_usize.pow(at) % 13).unwrap());
            (0..6).map(letter).collect::<String>()
        };
        let html = |from: usize| {
            let text: Vec<String> = (from..from + MAX_SPELLINGS + 100).map(word).collect();
            format!(
                "<html lang=x><plaintext>{} 17 {}",
                text.join(" "),
                word(from)
            )
        };
        let mut reader = TermReader::new(Counter::default());
        let terms = reader.count(&page(&html(0)));
        assert_eq!(terms.iter().len(), MAX_SPELLINGS);
        assert_eq!(reader.counts.capacity(), 0, "counts are of one page");
        assert!(reader.spellings.len() <= MAX_REMEMBERED);
        let _ = reader.count(&page(&html(2 * MAX_SPELLINGS)));
        let kept = (reader.spellings.capacity(), reader.counts.capacity());
        assert_eq!(kept, (0, 0), "all is forgotten where it becomes too much");
        let first = terms.iter().next().unwrap();
        assert_eq!(
            first.1.iter().sum::<u32>(),
            2,
            "known ones are still counted"
        );
        let _ = reader.count(&page("<plaintext>boat"));
        assert_eq!(reader.spellings.len(), 1);
    }

    #[test]
    fn idle_readers_are_limited_for_all_pools_and_the_one_used_last_is_kept() {
        let idle = IdleReaders::at_most(2);
        let pool = || TermReaders::new(Counter::default, Arc::clone(&idle));
        let read = |pool: &TermReaders<Counter>| {
            pool.with(|reader| {
                let _ = reader.count(&page("<plaintext>boat"));
                reader.numbers().0
            })
        };
        let [one, other, third] = [(); 3].map(|()| pool());
        let owners = || -> Vec<PoolNumber> { idle.idle().iter().map(|(pool, _)| *pool).collect() };
        // Three threads at the same time.
        one.with(|_| one.with(|_| one.with(|_| ())));
        assert_eq!(owners(), [one.pool, one.pool]);
        assert_eq!([read(&one), read(&one)], [1, 1], "the same one again");
        assert_eq!([read(&other), read(&other)], [1, 1]);
        assert_eq!(owners(), [one.pool, other.pool]);
        assert_eq!(read(&one), 1, "it was used last of its pool, and is kept");
        read(&third);
        assert_eq!(owners(), [one.pool, third.pool]);
        drop(one);
        assert_eq!(owners(), [third.pool], "a pool leaves no readers behind");
        assert_eq!(third.take_numbers().len(), 1);
        assert!(owners().is_empty());
    }

    proptest! {
        #[test]
        fn short_texts_of_one_length_are_equal_if_their_heads_are(
            one in "[ab\\x00]{0,8}",
            other in "[ab\\x00]{0,8}",
        ) {
            let (one, other) = (one.as_bytes(), other.as_bytes());
            let is_same = one.len() == other.len() && head(one) == head(other);
            prop_assert_eq!(is_same, one == other);
        }

        #[test]
        fn what_is_remembered_changes_no_count(
            texts in prop::collection::vec(
                (
                    prop::sample::select(vec!["en", "de", "fr", "ja", "xx"]),
                    prop::collection::vec(
                        prop_oneof![
                            "[A-Ca-c]{1,3}",
                            Just("The".to_owned()),
                            Just("boats".to_owned()),
                            Just("Boat".to_owned()),
                            Just("h\u{e4}fen".to_owned()),
                            Just("\u{6e2f}\u{30e8}\u{30c3}".to_owned()),
                            Just("17".to_owned()),
                        ],
                        0..30,
                    ),
                ),
                1..12,
            ),
            capacity in 0_usize..20,
        ) {
            let mut reader = TermReader::new(FirstHalf::default());
            reader.capacity = capacity;
            for (language, words) in texts {
                let html = format!("<html lang={language}><h1>cab</h1><p>{}", words.join(" "));
                let page = page(&html);
                prop_assert_eq!(counted(&mut reader, &page), by_the_book(&page));
            }
        }
    }
}
