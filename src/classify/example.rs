//! Labelled sites as numbered term counts: the training examples.
//!
//! A corpus is read once, and each term becomes an id of its [`Lexicon`]; after that a fold of a
//! cross-validation needs no hashing of words.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::web::{
    Fingerprint, Language, PageKind, PageTerms, PartCounts, SiteId, TermNumber, TermNumbers,
};

/// The two classes of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// Sites of the topic.
    Target,
    /// All other sites.
    Other,
}

/// The number of a term in a lexicon.
pub(crate) type TermId = TermNumber;

/// All terms of a corpus, numbered in order of first occurrence.
#[derive(Debug, Default)]
pub struct Lexicon {
    /// By the hash of their terms.
    ids: HashTable<TermId>,
    /// The seed is secret, because pages choose the terms.
    hasher: RandomState,
    terms: Vec<Box<str>>,
}

/// What the terms of one lexicon are in another one.
#[derive(Debug, Default)]
pub(crate) struct Translation {
    ids: Vec<Option<TermId>>,
}

/// Weight of a word by the part of the page it is in, in the order of
/// [`crate::web::PagePart::ALL`]: title, heading, body, anchor, alt, meta.
///
/// Titles, headings and descriptions are written to say what a page is about. On real sites higher
/// weights for them helped, though by little more than the variation between random folds.
pub(crate) const PART_WEIGHTS: [f32; 6] = [3.0, 2.0, 1.0, 1.0, 1.0, 2.0];

/// The term counts of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedPage {
    /// How far from the entrance it is.
    pub kind: PageKind,
    /// The language of its stemmer.
    pub(crate) language: Option<Language>,
    /// For detecting near-duplicates.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Weighted counts, by ascending id.
    pub(crate) terms: Vec<(TermId, f32)>,
}

/// An example of a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExampleSite<'a> {
    pub(crate) class: Class,
    /// Its host.
    pub(crate) site: &'a SiteId,
    /// Sites of one group share an owner, a designer or a text, and are never split across folds.
    pub(crate) group: u32,
    /// Whether it comes from the background, which nobody labelled for this topic.
    pub(crate) is_background: bool,
    /// The pages to learn from, in breadth-first order.
    pub(crate) pages: &'a [CountedPage],
}

/// A site, for tests in which its name does not matter.
#[cfg(test)]
pub(crate) fn any_site() -> &'static SiteId {
    static SITE: std::sync::LazyLock<SiteId> =
        std::sync::LazyLock::new(|| "site.example".parse().expect("a valid host"));
    &SITE
}

// === impl Lexicon ===

impl Lexicon {
    /// The term of an id.
    ///
    /// # Panics
    /// If the id is from another lexicon.
    #[must_use]
    pub fn term(&self, id: TermId) -> &str {
        &self.terms[id as usize]
    }

    /// Number of terms.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.terms.len()
    }

    /// The id of a term; none if it does not occur in the corpus.
    #[must_use]
    pub(crate) fn get(&self, term: &str) -> Option<TermId> {
        let hash = self.hasher.hash_one(term);
        let is_it = |id: &TermId| self.term(*id) == term;
        self.ids.find(hash, is_it).copied()
    }

    fn id(&mut self, term: &str) -> TermId {
        if let Some(id) = self.get(term) {
            return id;
        }
        let id = TermId::try_from(self.terms.len()).expect("memory ends before the ids do");
        self.terms.push(term.into());
        let (hasher, terms) = (&self.hasher, &self.terms);
        let hash_of = |id: &TermId| hasher.hash_one(&*terms[*id as usize]);
        self.ids.insert_unique(hash_of(&id), id, hash_of);
        id
    }
}

impl TermNumbers for Lexicon {
    fn number(&mut self, term: &str) -> Option<TermNumber> {
        Some(self.id(term))
    }
}

// === impl Translation ===

impl Translation {
    /// The terms of a page in another lexicon. That adds new ones in the order of their bytes, so that
    /// its ids do not depend on those of the first lexicon.
    pub(crate) fn translate(
        &mut self,
        terms: &PageTerms,
        from: &Lexicon,
        into: &mut Lexicon,
    ) -> PageTerms {
        self.ids.resize(from.len(), None);
        let is_new = |id: &TermId| self.ids[*id as usize].is_none();
        let mut new: Vec<TermId> = terms.iter().map(|(id, _)| id).filter(is_new).collect();
        new.sort_unstable_by_key(|id| from.term(*id));
        for id in new {
            self.ids[id as usize] = Some(into.id(from.term(id)));
        }
        let translated = |(id, counts): (TermId, &PartCounts)| {
            let id = self.ids[id as usize]?;
            Some((id, *counts))
        };
        let mut counts = terms.iter().filter_map(translated).collect();
        PageTerms::drain(terms.language, &mut counts)
    }
}

// === impl CountedPage ===

impl CountedPage {
    /// A page whose terms are numbered by the lexicon of the corpus.
    #[must_use]
    pub(crate) fn new(terms: &PageTerms, kind: PageKind, fingerprint: Option<Fingerprint>) -> Self {
        let counted = terms
            .iter()
            .map(|(id, counts)| (id, weighted_count(counts)));
        Self {
            kind,
            language: terms.language,
            fingerprint,
            terms: counted.collect(),
        }
    }

    /// The same page in other ids; terms without one are left out.
    #[must_use]
    pub(crate) fn renumbered(&self, ids: &[Option<TermId>]) -> Self {
        let terms = self.terms.iter();
        let mut terms: Vec<(TermId, f32)> = terms
            .filter_map(|(id, count)| Some((ids[*id as usize]?, *count)))
            .collect();
        terms.sort_unstable_by_key(|(id, _)| *id);
        Self { terms, ..*self }
    }
}

// === impl ExampleSite ===

impl ExampleSite<'_> {
    /// Whether the site is one of the topic.
    #[must_use]
    pub(crate) fn is_target(&self) -> bool {
        self.class == Class::Target
    }

    /// The most frequent language of its pages; of equals the one that occurs first.
    #[must_use]
    pub(crate) fn language(&self) -> Option<Language> {
        let mut tally: Vec<(Language, usize)> = Vec::new();
        for language in self.pages.iter().filter_map(|page| page.language) {
            match tally.iter_mut().find(|(known, _)| *known == language) {
                Some((_, pages)) => *pages += 1,
                None => tally.push((language, 1)),
            }
        }
        let most = tally.iter().map(|(_, pages)| *pages).max()?;
        let found = tally.iter().find(|(_, pages)| *pages == most);
        found.map(|(language, _)| *language)
    }
}

/// How often a term occurs on a page, weighted by [`PART_WEIGHTS`].
#[must_use]
pub(super) fn weighted_count(counts: &PartCounts) -> f32 {
    let weighted = counts.iter().zip(PART_WEIGHTS);
    weighted
        .map(|(count, weight)| f32::from(u16::try_from(*count).unwrap_or(u16::MAX)) * weight)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: [&[&str]; 4] = [
        &["tide", "boat", "mast"],
        &["boat", "anchor"],
        &["mast", "zinc", "anchor"],
        &["oar"],
    ];

    fn terms(words: &[&str], lexicon: &mut Lexicon) -> PageTerms {
        let words = words.iter().map(|word| (*word, [0, 0, 1, 0, 0, 0]));
        PageTerms::of_words(None, words, |term| lexicon.number(term))
    }

    /// Pages read by several readers, each of which knows other terms already.
    fn corpus(
        readers: &mut [Lexicon],
        reader_of: impl Fn(usize) -> usize,
    ) -> (Lexicon, Vec<CountedPage>) {
        let mut into = Lexicon::default();
        let mut translations: Vec<Translation> =
            readers.iter().map(|_| Translation::default()).collect();
        let pages = PAGES.iter().enumerate().map(|(at, words)| {
            let reader = reader_of(at);
            let terms = terms(words, &mut readers[reader]);
            let terms = translations[reader].translate(&terms, &readers[reader], &mut into);
            CountedPage::new(&terms, PageKind::Inner, None)
        });
        let pages = pages.collect();
        (into, pages)
    }

    #[test]
    fn a_corpus_does_not_depend_on_which_reader_has_read_a_page() {
        let (one, pages) = corpus(&mut [Lexicon::default()], |_| 0);
        let mut readers = [Lexicon::default(), Lexicon::default()];
        for known in ["oar", "zinc", "boat"] {
            readers[1].number(known);
        }
        let (several, same_pages) = corpus(&mut readers, |at| at % 2);
        assert_eq!(pages, same_pages);
        assert_eq!(one.terms, several.terms);
        let words: Vec<&str> = one.terms.iter().map(|term| &**term).collect();
        assert_eq!(words, ["boat", "mast", "tide", "anchor", "zinc", "oar"]);
    }
}
