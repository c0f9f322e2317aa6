//! Sentences about something, from patterns and words.
//!
//! A page is about a mixture of vocabularies. Each site knows only some words of its
//! category, so that two sites of one topic do not sound alike.

use super::GeneratedWeb;
use super::names::capitalised;
use super::seeded_random::SeededRandom;
use super::words::{Category, Tongue, Vocabulary, WORDS};

/// Of the words of a vocabulary a site knows this share.
const KNOWN: f64 = 0.6;

/// What a text is about.
pub(super) struct Mixture<'w> {
    web: &'w GeneratedWeb,
    site: u64,
    tongue: Tongue,
    /// Vocabularies with their shares, which add up to 1.
    parts: Vec<(&'static Vocabulary, f64)>,
}

impl<'w> Mixture<'w> {
    /// Of categories and how much each weighs.
    pub(super) fn new(
        web: &'w GeneratedWeb,
        site: u64,
        tongue: Tongue,
        parts: &[(&'static Category, f64)],
    ) -> Self {
        let total: f64 = parts.iter().map(|(_, weight)| weight).sum();
        let parts = parts
            .iter()
            .map(|(category, weight)| (category.vocabulary(tongue), weight / total));
        Self {
            web,
            site,
            tongue,
            parts: parts.collect(),
        }
    }

    /// Sentences of about so many words.
    pub(super) fn text(&self, words: usize, chance: &mut SeededRandom) -> String {
        let mut text = String::new();
        let mut count = 0;
        while count < words {
            let sentence = self.sentence(chance);
            count += sentence.split(' ').count();
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&sentence);
        }
        text
    }

    /// A heading, or the text of a link.
    pub(super) fn phrase(&self, chance: &mut SeededRandom) -> String {
        let vocabulary = self.vocabulary(chance);
        capitalised(self.known(&vocabulary.phrases, chance))
    }

    fn sentence(&self, chance: &mut SeededRandom) -> String {
        let said = WORDS.boilerplate(self.tongue);
        let mut sentence = String::new();
        let mut rest = chance.pick::<str, _>(&said.templates);
        while let Some((before, after)) = rest.split_once('{') {
            let (placeholder, after) = after.split_once('}').unwrap_or((after, ""));
            sentence.push_str(before);
            let vocabulary = self.vocabulary(chance);
            match placeholder {
                "verb" => sentence.push_str(self.known(&vocabulary.verbs, chance)),
                "adjective" => sentence.push_str(self.known(&vocabulary.adjectives, chance)),
                "phrase" => sentence.push_str(self.known(&vocabulary.phrases, chance)),
                "name" => sentence.push_str(&person(self.tongue, chance)),
                "place" => sentence.push_str(chance.pick::<str, _>(&said.places)),
                "year" => sentence.push_str(&(1950 + chance.below(76)).to_string()),
                _ => sentence.push_str(self.known(&vocabulary.nouns, chance)),
            }
            rest = after;
        }
        sentence.push_str(rest);
        capitalised(&sentence)
    }

    fn vocabulary(&self, chance: &mut SeededRandom) -> &'static Vocabulary {
        let mut share = chance.share();
        for (vocabulary, weight) in &self.parts {
            if share < *weight {
                return vocabulary;
            }
            share -= weight;
        }
        self.parts[0].0
    }

    /// A word that the site knows, the typical ones more often.
    fn known<'a>(&self, words: &'a [String], chance: &mut SeededRandom) -> &'a str {
        let mut at = chance.early(words.len());
        for _ in 0..8 {
            let mut knows = self.web.chance(&words[at], &[self.site]);
            if knows.is(KNOWN) {
                break;
            }
            at = chance.early(words.len());
        }
        &words[at]
    }
}

/// A first name and a surname.
pub(super) fn person(tongue: Tongue, chance: &mut SeededRandom) -> String {
    let people = &WORDS.boilerplate(tongue).people;
    let half = people.len() / 2;
    let first = chance.pick::<str, _>(&people[..half]);
    let last = chance.pick::<str, _>(&people[half..]);
    format!("{first} {last}")
}
