//! The terms of a page, counted by part.
//!
//! This is all that the classifier sees of a page: `parse` makes it, `classify` reads it. Terms are
//! numbers here, given by a vocabulary or by the lexicon of a corpus ([`TermNumbers`]), and mean nothing
//! to any other.
//!
//! Invariant: numbers are unique and ascend, so that sums over them are reproducible to the last bit.

use super::{Language, PagePart};

/// How often a term occurs in each part of a page, in the order of [`PagePart::ALL`].
pub(crate) type PartCounts = [u32; PagePart::ALL.len()];

/// The number of a term.
pub type TermNumber = u32;

/// Gives terms their numbers.
pub trait TermNumbers {
    /// The number of a term, always the same one; none if the term does not matter.
    fn number(&mut self, term: &str) -> Option<TermNumber>;
}

/// The terms of one page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageTerms {
    /// The language by which the words were stemmed.
    pub(crate) language: Option<Language>,
    terms: Box<[(TermNumber, PartCounts)]>,
}

impl PageTerms {
    /// From counts in any order, which are drained; those of repeated terms are added up.
    #[must_use]
    pub(crate) fn drain(
        language: Option<Language>,
        counts: &mut Vec<(TermNumber, PartCounts)>,
    ) -> Self {
        // Numbers are sorted much faster than counts.
        let mut order: Vec<(TermNumber, u32)> = (0..)
            .zip(counts.iter())
            .map(|(at, (term, _))| (*term, at))
            .collect();
        order.sort_unstable();
        let mut terms: Vec<(TermNumber, PartCounts)> = Vec::with_capacity(order.len());
        for (term, at) in order {
            let (_, counts) = &counts[at as usize];
            match terms.last_mut() {
                Some((last, sums)) if *last == term => {
                    for (sum, more) in sums.iter_mut().zip(counts) {
                        *sum = sum.saturating_add(*more);
                    }
                }
                _ => terms.push((term, *counts)),
            }
        }
        counts.clear();
        let terms = terms.into();
        Self { language, terms }
    }

    /// From words and their counts, without a page.
    #[cfg(test)]
    pub(crate) fn of_words<'a>(
        language: Option<Language>,
        words: impl IntoIterator<Item = (&'a str, PartCounts)>,
        mut number: impl FnMut(&str) -> Option<TermNumber>,
    ) -> Self {
        let words = words.into_iter();
        let mut counts = words
            .filter_map(|(word, counts)| Some((number(word)?, counts)))
            .collect();
        Self::drain(language, &mut counts)
    }

    /// Each term with its counts.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (TermNumber, &PartCounts)> {
        self.terms.iter().map(|(term, counts)| (*term, counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_stands_once_with_all_its_counts() {
        let title = [1, 0, 0, 0, 0, 0];
        let body = [0, 0, 2, 0, 0, 0];
        let mut counts = vec![(7, title), (3, body), (7, body)];
        let terms = PageTerms::drain(None, &mut counts);
        let wanted: Vec<(TermNumber, &PartCounts)> = vec![(3, &body), (7, &[1, 0, 2, 0, 0, 0])];
        assert_eq!(terms.iter().collect::<Vec<_>>(), wanted);
        assert!(counts.is_empty(), "ready for the next page");
    }
}
