//! Labelled sites as numbered term counts: the training examples.
//!
//! A corpus is read once, and each term becomes an id of its [`Lexicon`]; after that a fold of a
//! cross-validation needs no hashing of words.

use std::collections::HashMap;

use crate::web::{Fingerprint, Language, PageKind, PageTerms, PartCounts};

/// The two classes of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// Sites of the topic.
    Target,
    /// All other sites.
    Other,
}

/// The number of a term in a lexicon.
pub(crate) type TermId = u32;

/// All terms of a corpus, numbered in order of first occurrence.
#[derive(Debug, Default)]
pub struct Lexicon {
    ids: HashMap<Box<str>, TermId>,
    terms: Vec<Box<str>>,
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
    /// Sites of one group share an owner, a designer or a text, and are never split across folds.
    pub(crate) group: u32,
    /// The pages to learn from, in breadth-first order.
    pub(crate) pages: &'a [CountedPage],
}

// === impl Lexicon ===

impl Lexicon {
    /// Counts the terms of a page; new terms are added to the lexicon.
    pub(crate) fn count(
        &mut self,
        terms: &PageTerms,
        kind: PageKind,
        fingerprint: Option<Fingerprint>,
    ) -> CountedPage {
        let mut counted: Vec<(TermId, f32)> = terms
            .iter()
            .map(|(term, counts)| (self.id(term), weighted_count(counts)))
            .collect();
        counted.sort_unstable_by_key(|(id, _)| *id);
        CountedPage {
            kind,
            language: terms.language,
            fingerprint,
            terms: counted,
        }
    }

    /// The term of an id.
    ///
    /// # Panics
    /// If the id is from another lexicon.
    #[must_use]
    pub(crate) fn term(&self, id: TermId) -> &str {
        &self.terms[id as usize]
    }

    /// Number of terms.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.terms.len()
    }

    fn id(&mut self, term: &str) -> TermId {
        if let Some(id) = self.ids.get(term) {
            return *id;
        }
        let id = TermId::try_from(self.terms.len()).expect("memory ends before the ids do");
        self.terms.push(term.into());
        self.ids.insert(term.into(), id);
        id
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
