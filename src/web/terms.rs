//! The terms of a page, counted by part.
//!
//! This is all that the classifier sees of a page: `parse` makes it, `classify` reads it.
//!
//! Invariant: terms are unique and sorted by bytes, so that sums over them are reproducible to the
//! last bit.

use super::{Language, PagePart};

/// How often a term occurs in each part of a page, in the order of [`PagePart::ALL`].
pub(crate) type PartCounts = [u32; PagePart::ALL.len()];

/// The terms of one page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageTerms {
    /// The language by which the words were stemmed.
    pub(crate) language: Option<Language>,
    terms: Vec<(Box<str>, PartCounts)>,
}

impl PageTerms {
    /// From counts in any order; those of repeated terms are added up.
    #[must_use]
    pub(crate) fn new(
        language: Option<Language>,
        counts: impl IntoIterator<Item = (Box<str>, PartCounts)>,
    ) -> Self {
        let mut terms: Vec<(Box<str>, PartCounts)> = counts.into_iter().collect();
        terms.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        terms.dedup_by(|later, first| {
            let is_same = later.0 == first.0;
            if is_same {
                for (sum, more) in first.1.iter_mut().zip(later.1) {
                    *sum = sum.saturating_add(more);
                }
            }
            is_same
        });
        Self { language, terms }
    }

    /// Each term with its counts.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &PartCounts)> {
        self.terms.iter().map(|(term, counts)| (&**term, counts))
    }

    /// The number of different terms.
    #[must_use]
    pub fn len(&self) -> usize {
        self.terms.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_stands_once_with_all_its_counts() {
        let title = [1, 0, 0, 0, 0, 0];
        let body = [0, 0, 2, 0, 0, 0];
        let counts = [
            ("boat".into(), title),
            ("anchor".into(), body),
            ("boat".into(), body),
        ];
        let terms = PageTerms::new(None, counts);
        let wanted: Vec<(&str, &PartCounts)> =
            vec![("anchor", &body), ("boat", &[1, 0, 2, 0, 0, 0])];
        assert_eq!(terms.iter().collect::<Vec<_>>(), wanted);
        assert_eq!(terms.len(), 2);
    }
}
