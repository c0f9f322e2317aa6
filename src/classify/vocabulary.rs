//! Feature selection and weighting: from term counts to vectors.
//!
//! Terms are chosen by the chi-square statistic over *sites*: whether a site has the term at all,
//! each class with weight one half, so that neither a large site nor the larger class dominates.
//!
//! The weight of a term on a page is (1 + ln tf) · idf. The inverse document frequency is counted in
//! sites, and in those of the page's own language: where most sites are English, every
//! German word would otherwise count as rare, and a classifier for German clubs would
//! learn to detect German. The counts of languages with few sites are shrunk towards those
//! of all sites.
//!
//! Invariant: a page gives the same vector from its [`CountedPage`], whose terms have the ids of a corpus,
//! and from its [`PageTerms`], if those are features.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::web::{Language, PageTerms};

use super::example::{CountedPage, ExampleSite, Lexicon, TermId, weighted_count};
use super::vector::{Feature, PageVector, narrow};

/// How a vocabulary is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct VocabularyLimits {
    /// Maximum number of terms; the most telling are kept.
    pub(crate) terms: usize,
    /// Minimum number of sites with the term.
    pub(crate) min_sites: u32,
}

/// Number of sites from which a language's own counts outweigh those of all sites.
const LANGUAGE_INERTIA: f64 = 5.0;

/// Languages with fewer sites use the counts of all.
const MIN_LANGUAGE_SITES: u32 = 3;

/// A vocabulary in the term ids of a corpus.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    /// By term id.
    features: Vec<Option<Feature>>,
    /// By feature.
    terms: Vec<TermId>,
    weights: TermWeights,
}

/// A vocabulary in words, part of a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Vocabulary {
    terms: Vec<Box<str>>,
    features: FxHashMap<Box<str>, Feature>,
    weights: TermWeights,
}

/// Site counts of each term, and the weights computed from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TermWeights {
    pub(super) all: SiteCounts,
    pub(super) languages: Vec<(String, SiteCounts)>,
    /// Inverse document frequencies: of all sites, then of each language.
    #[serde(skip)]
    idf: Vec<Vec<f32>>,
    #[serde(skip)]
    codes: Vec<Language>,
}

/// Number of sites, and how many of them have each term.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SiteCounts {
    pub(super) sites: u32,
    pub(super) with_term: Vec<u32>,
}

// === impl Selection ===

impl Selection {
    /// Chooses the terms that best separate the classes on these sites. `site_weights` are the
    /// weights of sites within their class.
    #[must_use]
    pub(crate) fn choose(
        lexicon: &Lexicon,
        sites: &[ExampleSite<'_>],
        site_weights: &[f64],
        limits: &VocabularyLimits,
    ) -> Self {
        let presence: Vec<Vec<TermId>> = sites.iter().map(terms_of).collect();
        let mut with_term = vec![0_u32; lexicon.len()];
        let mut share = vec![[0_f64; 2]; lexicon.len()];
        for ((site, terms), weight) in sites.iter().zip(&presence).zip(site_weights) {
            for term in terms {
                with_term[*term as usize] += 1;
                share[*term as usize][usize::from(site.is_target())] += weight;
            }
        }
        let mut ranked: Vec<(f64, TermId)> = (0..)
            .zip(with_term.iter().zip(&share))
            .filter(|(_, (sites, _))| **sites >= limits.min_sites)
            .map(|(id, (_, [other, target]))| (chi_square(*target, *other), id))
            .collect();
        ranked.sort_unstable_by(|one, other| {
            let by_rank = other.0.partial_cmp(&one.0).unwrap_or(Ordering::Equal);
            by_rank.then_with(|| lexicon.term(one.1).cmp(lexicon.term(other.1)))
        });
        ranked.truncate(limits.terms);
        let mut terms: Vec<TermId> = ranked.into_iter().map(|(_, id)| id).collect();
        terms.sort_unstable_by(|one, other| lexicon.term(*one).cmp(lexicon.term(*other)));

        let mut features = vec![None; lexicon.len()];
        for (feature, term) in (0..).zip(&terms) {
            features[*term as usize] = Some(feature);
        }
        let all = SiteCounts {
            sites: u32::try_from(sites.len()).unwrap_or(u32::MAX),
            with_term: terms.iter().map(|id| with_term[*id as usize]).collect(),
        };
        let languages = count_by_language(sites, &presence, &features, terms.len());
        Self {
            features,
            terms,
            weights: TermWeights::new(all, languages),
        }
    }

    /// A page of the corpus as a vector.
    #[must_use]
    pub(crate) fn vector(&self, page: &CountedPage) -> PageVector {
        let mut known: Vec<(Feature, f32)> = page
            .terms
            .iter()
            .filter_map(|(id, count)| Some(((*self.features.get(*id as usize)?)?, *count)))
            .collect();
        known.sort_unstable_by_key(|(feature, _)| *feature);
        self.weights.weigh(page.language, known)
    }

    /// The feature of a term of the corpus; none if it was not chosen.
    #[must_use]
    pub(crate) fn feature(&self, term: TermId) -> Option<Feature> {
        *self.features.get(term as usize)?
    }

    /// Number of chosen terms.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.terms.len()
    }

    /// The same vocabulary in words.
    #[must_use]
    pub(crate) fn into_vocabulary(self, lexicon: &Lexicon) -> Vocabulary {
        let terms = self.terms.iter().map(|id| lexicon.term(*id).into());
        Vocabulary::new(terms.collect(), self.weights)
    }
}

/// The terms of a site, each once.
fn terms_of(site: &ExampleSite<'_>) -> Vec<TermId> {
    let mut terms: Vec<TermId> = site
        .pages
        .iter()
        .flat_map(|page| page.terms.iter().map(|(id, _)| *id))
        .collect();
    terms.sort_unstable();
    terms.dedup();
    terms
}

fn count_by_language(
    sites: &[ExampleSite<'_>],
    presence: &[Vec<TermId>],
    features: &[Option<Feature>],
    length: usize,
) -> Vec<(String, SiteCounts)> {
    let mut languages: Vec<(Language, SiteCounts)> = Vec::new();
    for (site, terms) in sites.iter().zip(presence) {
        let Some(language) = site.language() else {
            continue;
        };
        let known = languages.iter().position(|(known, _)| *known == language);
        let at = known.unwrap_or_else(|| {
            let none = SiteCounts {
                sites: 0,
                with_term: vec![0; length],
            };
            languages.push((language, none));
            languages.len() - 1
        });
        let counts = &mut languages[at].1;
        counts.sites += 1;
        for feature in terms.iter().filter_map(|id| features[*id as usize]) {
            counts.with_term[feature as usize] += 1;
        }
    }
    languages.retain(|(_, counts)| counts.sites >= MIN_LANGUAGE_SITES);
    languages.sort_unstable_by_key(|(language, _)| *language);
    languages
        .into_iter()
        .map(|(language, counts)| (language.code().to_owned(), counts))
        .collect()
}

/// The chi-square statistic of a term, per site: `target` and `other` are the shares of
/// each class that have it (Yang, Pedersen: A Comparative Study on Feature Selection in
/// Text Categorization, 1997, section 2.4), with both classes weighted one half.
fn chi_square(target: f64, other: f64) -> f64 {
    let both = f64::midpoint(target, other);
    let expected = both * (1.0 - both);
    if expected <= 0.0 {
        return 0.0;
    }
    (target - other).powi(2) / (4.0 * expected)
}

// === impl Vocabulary ===

impl Vocabulary {
    pub(super) fn new(terms: Vec<Box<str>>, mut weights: TermWeights) -> Self {
        weights.prepare();
        let features = terms.iter().cloned().zip(0..).collect();
        Self {
            terms,
            features,
            weights,
        }
    }

    /// The feature of a term.
    #[must_use]
    pub(crate) fn feature(&self, term: &str) -> Option<Feature> {
        self.features.get(term).copied()
    }

    /// A page, whose terms are features, as a vector.
    #[must_use]
    pub(crate) fn vector(&self, page: &PageTerms) -> PageVector {
        let known = page
            .iter()
            .map(|(term, counts)| (term, weighted_count(counts)));
        self.weights.weigh(page.language, known.collect())
    }

    /// The term of a feature.
    ///
    /// # Panics
    /// If the feature is from another vocabulary.
    #[must_use]
    pub(crate) fn term(&self, feature: Feature) -> &str {
        &self.terms[feature as usize]
    }

    /// All terms, in the order of their features.
    #[must_use]
    pub(crate) fn terms(&self) -> impl ExactSizeIterator<Item = &str> {
        self.terms.iter().map(|term| &**term)
    }

    pub(super) fn weights(&self) -> &TermWeights {
        &self.weights
    }
}

// === impl TermWeights ===

impl TermWeights {
    pub(super) fn new(all: SiteCounts, languages: Vec<(String, SiteCounts)>) -> Self {
        let mut weights = Self {
            all,
            languages,
            idf: Vec::new(),
            codes: Vec::new(),
        };
        weights.prepare();
        weights
    }

    /// Computes the frequencies from the counts.
    fn prepare(&mut self) {
        let total = f64::from(self.all.sites);
        let rate = |count: u32| f64::from(count) / total.max(1.0);
        let weight = |rate: f64| narrow(1.0 - rate.max(1.0 / (1.0 + total)).ln());
        let all = self.all.with_term.iter();
        self.idf = vec![all.clone().map(|count| weight(rate(*count))).collect()];
        for (_, counts) in &self.languages {
            let of_language = counts.with_term.iter().zip(all.clone());
            let of_language = of_language.map(|(own, count)| {
                let pulled = f64::from(*own) + LANGUAGE_INERTIA * rate(*count);
                weight(pulled / (f64::from(counts.sites) + LANGUAGE_INERTIA))
            });
            self.idf.push(of_language.collect());
        }
        let codes = self.languages.iter();
        self.codes = codes
            .filter_map(|(code, _)| Language::from_tag(code))
            .collect();
    }

    /// Whether there is a count for each term, and languages are valid.
    pub(super) fn is_sound(&self, terms: usize) -> bool {
        let mut tables =
            std::iter::once(&self.all).chain(self.languages.iter().map(|(_, own)| own));
        tables.all(|counts| counts.with_term.len() == terms)
            && (self.languages.iter()).all(|(code, _)| Language::from_tag(code).is_some())
    }

    /// The vector of counts that are sorted by feature.
    fn weigh(&self, language: Option<Language>, mut counts: Vec<(Feature, f32)>) -> PageVector {
        let known =
            language.and_then(|language| self.codes.iter().position(|own| *own == language));
        let idf = &self.idf[known.map_or(0, |at| at + 1)];
        for (feature, count) in &mut counts {
            *count = (1.0 + count.max(1.0).ln()) * idf[*feature as usize];
        }
        PageVector::normalised(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::{Class, any_site};
    use crate::web::{PageKind, TermNumber, TermNumbers};

    fn terms(
        language: &str,
        words: &[(&str, u32)],
        number: impl FnMut(&str) -> Option<TermNumber>,
    ) -> PageTerms {
        let words = words.iter();
        let words = words.map(|(word, count)| (*word, [0, 0, *count, 0, 0, 0]));
        PageTerms::of_words(Language::from_tag(language), words, number)
    }

    fn counted(language: &str, words: &[(&str, u32)], lexicon: &mut Lexicon) -> CountedPage {
        let terms = terms(language, words, |term| lexicon.number(term));
        CountedPage::new(&terms, PageKind::Homepage, None)
    }

    /// Sites of one page each: three English targets, three German others.
    const PAGES: [(&str, &[(&str, u32)]); 6] = [
        ("en", &[("sail", 1), ("the", 1), ("boat", 1)]),
        ("en", &[("sail", 2), ("the", 1)]),
        ("en", &[("sail", 1), ("the", 1), ("once", 1)]),
        ("de", &[("brot", 1), ("und", 3), ("boat", 1)]),
        ("de", &[("brot", 1), ("und", 1)]),
        ("de", &[("und", 1), ("boat", 1)]),
    ];

    fn choose(limit: usize) -> (Lexicon, Selection) {
        let mut lexicon = Lexicon::default();
        let pages = PAGES.map(|(language, words)| [counted(language, words, &mut lexicon)]);
        let sites: Vec<ExampleSite<'_>> = (0..)
            .zip(&pages)
            .map(|(at, pages)| ExampleSite {
                class: if at < 3 { Class::Target } else { Class::Other },
                site: any_site(),
                group: at,
                is_background: false,
                pages,
            })
            .collect();
        let limits = VocabularyLimits {
            terms: limit,
            min_sites: 2,
        };
        let selection = Selection::choose(&lexicon, &sites, &[1.0 / 3.0; 6], &limits);
        (lexicon, selection)
    }

    /// By hand: a term on every target site and no other has (1 − 0)² / (4 · ½ · ½) = 1; one
    /// on a third of the targets and two thirds of the others (1/3)² / (4 · ½ · ½) = 1/9.
    #[test]
    fn chi_square_by_hand() {
        assert!((chi_square(1.0, 0.0) - 1.0).abs() < 1e-12);
        assert!((chi_square(1.0 / 3.0, 2.0 / 3.0) - 1.0 / 9.0).abs() < 1e-12);
        assert!(chi_square(0.4, 0.4).abs() < 1e-12);
        assert!(chi_square(1.0, 1.0).abs() < 1e-12 && chi_square(0.0, 0.0).abs() < 1e-12);
    }

    #[test]
    fn the_most_telling_terms_are_chosen_and_lonely_ones_never() {
        let (lexicon, selection) = choose(100);
        let vocabulary = selection.into_vocabulary(&lexicon);
        let all: Vec<&str> = vocabulary.terms().collect();
        assert_eq!(all, ["boat", "brot", "sail", "the", "und"]);
        let (lexicon, selection) = choose(4);
        let vocabulary = selection.into_vocabulary(&lexicon);
        let four: Vec<&str> = vocabulary.terms().collect();
        assert_eq!(four, ["brot", "sail", "the", "und"]);
    }

    /// «und» is on 3 of 6 sites, but on 3 of 3 German ones. By hand, with inertia 5: of all
    /// sites 1 − ln(3/6) = 1.6931; of German ones 1 − ln((3 + 5 · 0.5) / (3 + 5)) = 1.3747.
    #[test]
    fn words_that_are_common_in_their_language_weigh_less() {
        let (lexicon, selection) = choose(100);
        let und = 4;
        let weights = &selection.weights;
        assert_eq!(weights.codes.len(), 2);
        assert!((weights.idf[0][und] - 1.693_147).abs() < 1e-5);
        let german = 1 + weights
            .codes
            .iter()
            .position(|own| own.code() == "de")
            .unwrap();
        assert!((weights.idf[german][und] - 1.374_693).abs() < 1e-5);
        // A language that was never seen has the weights of all sites.
        let vocabulary = selection.into_vocabulary(&lexicon);
        let words = [("und", 1), ("sail", 1)];
        let page = terms("fr", &words, |term| vocabulary.feature(term));
        let vector = vocabulary.vector(&page);
        assert!((vector.entries()[0].1 - vector.entries()[1].1).abs() < 1e-6);
    }

    /// By hand: «sail» twice in the title counts 6, and 1 + ln 6 = 2.7918; «boat» once in the
    /// body counts 1. Both are on three of six sites, so the idf cancels out.
    #[test]
    fn counts_are_weighed_by_part_and_logarithm() {
        let (lexicon, selection) = choose(100);
        let counts = [("sail", [2, 0, 0, 0, 0, 0]), ("boat", [0, 0, 1, 0, 0, 0])];
        let vocabulary = selection.into_vocabulary(&lexicon);
        let page = PageTerms::of_words(None, counts, |term| vocabulary.feature(term));
        let vector = vocabulary.vector(&page);
        let [(_, boat), (_, sail)] = vector.entries() else {
            panic!("two known terms: {vector:?}");
        };
        assert!((sail / boat - 2.791_759).abs() < 1e-4, "{sail} {boat}");
    }

    #[test]
    fn a_page_in_ids_and_in_features_is_one_vector() {
        let (mut lexicon, selection) = choose(100);
        let words = [("und", 7), ("sail", 2), ("unknown", 1), ("boat", 3)];
        let in_ids = selection.vector(&counted("de", &words, &mut lexicon));
        let vocabulary = selection.into_vocabulary(&lexicon);
        let in_features = terms("de", &words, |term| vocabulary.feature(term));
        assert_eq!(in_ids, vocabulary.vector(&in_features));
        assert_eq!(in_ids.known_terms(), 3);
    }
}
