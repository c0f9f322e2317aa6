//! Labelled sites in numbers: what every fit learns from.
//!
//! A corpus is read once, and each term becomes a number in its [`Lexicon`]; after that a
//! fold of a cross-validation costs arithmetic only, no hashing of words.

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

/// A term by its number in a lexicon.
pub(crate) type TermId = u32;

/// All terms of a corpus, numbered in the order in which they were met.
#[derive(Debug, Default)]
pub struct Lexicon {
    ids: HashMap<Box<str>, TermId>,
    terms: Vec<Box<str>>,
}

/// How much a word counts by the part of the page it stands in, in the order of
/// [`crate::web::PagePart::ALL`]: title, heading, body, anchor, alt, meta.
///
/// Titles, headings and descriptions are written to say what a page is about. On real sites
/// counting them more often helped, though by little more than dealing the folds anew does.
pub(crate) const PART_WEIGHTS: [f32; 6] = [3.0, 2.0, 1.0, 1.0, 1.0, 2.0];

/// A page in numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedPage {
    /// How far from the entrance it lies.
    pub kind: PageKind,
    /// The language by which its words were stemmed.
    pub(crate) language: Option<Language>,
    /// For telling near-duplicates.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Weighted counts, by ascending number of the term.
    pub(crate) terms: Vec<(TermId, f32)>,
}

/// A site in numbers, as an example of a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExampleSite<'a> {
    /// What it is an example of.
    pub(crate) class: Class,
    /// Sites of one group share an owner, a designer or a text; they are never torn apart.
    pub(crate) group: u32,
    /// The pages that a fit may look at, in breadth-first order.
    pub(crate) pages: &'a [CountedPage],
}

// === impl Lexicon ===

impl Lexicon {
    /// A page in the numbers of this lexicon; new terms are added to it.
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

    /// The term of a number.
    ///
    /// # Panics
    /// If the number is from another lexicon.
    #[must_use]
    pub(crate) fn term(&self, id: TermId) -> &str {
        &self.terms[id as usize]
    }

    /// How many terms there are.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.terms.len()
    }

    fn id(&mut self, term: &str) -> TermId {
        if let Some(id) = self.ids.get(term) {
            return *id;
        }
        let id = TermId::try_from(self.terms.len()).expect("memory ends before the numbers do");
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

    /// The language of most of its pages; of equals the one met first.
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

/// How often a term stands on a page, each part weighed by what it tells.
#[must_use]
pub(super) fn weighted_count(counts: &PartCounts) -> f32 {
    let weighted = counts.iter().zip(PART_WEIGHTS);
    weighted
        .map(|(count, weight)| f32::from(u16::try_from(*count).unwrap_or(u16::MAX)) * weight)
        .sum()
}
