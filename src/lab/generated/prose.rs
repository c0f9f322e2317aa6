//! Sentences from templates and vocabularies.
//!
//! A page mixes several vocabularies. Each site uses only some words of its category, so that
//! two sites of one topic differ.

use super::GeneratedWeb;
use super::names::capitalised;
use super::seeded_random::SeededRandom;
use super::words::{Category, WORDS, WebLanguage, WordLists};

/// Share of the words of a vocabulary that a site uses.
const KNOWN: f64 = 0.6;

/// The mixture of vocabularies that a text is drawn from.
pub(super) struct Mixture<'w> {
    web: &'w GeneratedWeb,
    site: u64,
    language: WebLanguage,
    /// Vocabularies with their shares, which sum to 1.
    parts: Vec<(&'static WordLists, f64)>,
}

impl<'w> Mixture<'w> {
    /// From categories and their weights, which need not be normalised.
    pub(super) fn new(
        web: &'w GeneratedWeb,
        site: u64,
        language: WebLanguage,
        parts: &[(&'static Category, f64)],
    ) -> Self {
        let total: f64 = parts.iter().map(|(_, weight)| weight).sum();
        let parts = parts
            .iter()
            .map(|(category, weight)| (category.vocabulary(language), weight / total));
        Self {
            web,
            site,
            language,
            parts: parts.collect(),
        }
    }

    /// Sentences of at least `words` words together.
    pub(super) fn text(&self, words: usize, random: &mut SeededRandom) -> String {
        let mut text = String::new();
        let mut count = 0;
        while count < words {
            let sentence = self.sentence(random);
            count += sentence.split(' ').count();
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&sentence);
        }
        text
    }

    /// A heading, or the text of a link.
    pub(super) fn phrase(&self, random: &mut SeededRandom) -> String {
        let vocabulary = self.vocabulary(random);
        capitalised(self.known(&vocabulary.phrases, random))
    }

    fn sentence(&self, random: &mut SeededRandom) -> String {
        let said = WORDS.boilerplate(self.language);
        let mut sentence = String::new();
        let mut rest = random.pick::<str, _>(&said.templates);
        while let Some((before, after)) = rest.split_once('{') {
            let (placeholder, after) = after.split_once('}').unwrap_or((after, ""));
            sentence.push_str(before);
            let vocabulary = self.vocabulary(random);
            match placeholder {
                "verb" => sentence.push_str(self.known(&vocabulary.verbs, random)),
                "adjective" => sentence.push_str(self.known(&vocabulary.adjectives, random)),
                "phrase" => sentence.push_str(self.known(&vocabulary.phrases, random)),
                "name" => sentence.push_str(&person(self.language, random)),
                "place" => sentence.push_str(random.pick::<str, _>(&said.places)),
                "year" => sentence.push_str(&(1950 + random.below(76)).to_string()),
                _ => sentence.push_str(self.known(&vocabulary.nouns, random)),
            }
            rest = after;
        }
        sentence.push_str(rest);
        capitalised(&sentence)
    }

    fn vocabulary(&self, random: &mut SeededRandom) -> &'static WordLists {
        let mut share = random.share();
        for (vocabulary, weight) in &self.parts {
            if share < *weight {
                return vocabulary;
            }
            share -= weight;
        }
        self.parts[0].0
    }

    /// A word that the site uses, typical ones more often.
    fn known<'a>(&self, words: &'a [String], random: &mut SeededRandom) -> &'a str {
        let mut at = random.early(words.len());
        for _ in 0..8 {
            let mut knows = self.web.random(&words[at], &[self.site]);
            if knows.is(KNOWN) {
                break;
            }
            at = random.early(words.len());
        }
        &words[at]
    }
}

/// A first name and a surname.
pub(super) fn person(language: WebLanguage, random: &mut SeededRandom) -> String {
    let people = &WORDS.boilerplate(language).people;
    let half = people.len() / 2;
    let first = random.pick::<str, _>(&people[..half]);
    let last = random.pick::<str, _>(&people[half..]);
    format!("{first} {last}")
}
