//! Made-up prose with the statistics of English: which words, how often, and how many on a page.
//!
//! Frequencies follow the law of Zipf and Mandelbrot, so that most words of a page are common and
//! some were never seen before. The most common ones are those of English, for the detection of the
//! language; all others are syllables with English endings, for the stemmer.

use std::f64::consts::TAU;

use rand::Rng;
use rand::seq::SliceRandom;

/// The most common English words, the most common first.
const ENGLISH: [&str; 100] = [
    "the", "of", "and", "to", "a", "in", "is", "it", "that", "for", "was", "on", "with", "as",
    "are", "be", "this", "by", "from", "at", "you", "have", "or", "an", "not", "but", "we", "they",
    "his", "which", "all", "will", "there", "can", "our", "has", "more", "if", "their", "what",
    "one", "about", "when", "who", "your", "so", "up", "out", "said", "would", "been", "its",
    "some", "also", "other", "into", "time", "them", "than", "only", "new", "like", "these", "may",
    "do", "first", "over", "any", "now", "my", "such", "then", "two", "how", "after", "most",
    "people", "where", "many", "made", "make", "should", "because", "each", "just", "those",
    "between", "years", "through", "well", "very", "much", "before", "even", "must", "under",
    "while", "both", "work", "here",
];

/// Endings of the words that share a stem.
const ENDINGS: [&str; 12] = [
    "", "s", "ed", "ing", "er", "ers", "ly", "ation", "ness", "ment", "able", "ity",
];

const ONSETS: [&str; 22] = [
    "b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr", "pl",
    "ch", "sh", "br", "gr",
];
const VOWELS: [&str; 9] = ["a", "e", "i", "o", "u", "e", "a", "ea", "ou"];
const CODAS: [&str; 12] = ["", "", "", "n", "r", "l", "t", "s", "nd", "ck", "rt", "m"];

const VOCABULARY: usize = 30_000;

/// Added to each rank (Mandelbrot): in real texts the first few are less common than by Zipf alone.
const RANKS_BEFORE: f64 = 2.7;

/// Words of a page: their median, and the deviation of their logarithm.
const MEDIAN_WORDS: f64 = 300.0;
const DEVIATION: f64 = 0.9;
const FEWEST_WORDS: f64 = 30.0;
const MOST_WORDS: f64 = 4_000.0;

/// Number of words that belong to a topic.
const TOPIC_WORDS: usize = 400;

/// The share of the words of a page that are about its topic.
const ABOUT_THE_TOPIC: f64 = 0.15;

/// All words, the most common first.
pub(super) struct Vocabulary {
    words: Vec<String>,
    /// For each word, the share of all text that it and those before it make up.
    shares: Vec<f64>,
}

/// The words of a topic, by their places in the vocabulary.
pub(super) struct Topic {
    words: Vec<usize>,
}

// === impl Vocabulary ===

impl Vocabulary {
    pub(super) fn new(random: &mut impl Rng) -> Self {
        let mut made_up = Vec::with_capacity(VOCABULARY);
        while made_up.len() < VOCABULARY - ENGLISH.len() {
            let stem = stem(random);
            made_up.extend(ENDINGS.map(|ending| format!("{stem}{ending}")));
        }
        // Common words are short, more or less.
        made_up.sort_by_cached_key(|word| word.len() + random.gen_range(0..12));
        let mut words: Vec<String> = ENGLISH.iter().map(ToString::to_string).collect();
        words.append(&mut made_up);
        words.truncate(VOCABULARY);
        Self {
            shares: zipf(words.len()),
            words,
        }
    }

    /// A topic of words that are not common.
    pub(super) fn topic(&self, random: &mut impl Rng) -> Topic {
        let word = |_| random.gen_range(10 * ENGLISH.len()..self.words.len());
        Topic {
            words: (0..TOPIC_WORDS).map(word).collect(),
        }
    }

    /// As many words as a page has.
    pub(super) fn words_of_a_page(&self, topic: &Topic, random: &mut impl Rng) -> Vec<&str> {
        let count = length(random);
        (0..count).map(|_| self.word(topic, random)).collect()
    }

    pub(super) fn word(&self, topic: &Topic, random: &mut impl Rng) -> &str {
        let share: f64 = random.r#gen();
        let rank = self.shares.partition_point(|up_to| *up_to < share);
        let place = if random.gen_bool(ABOUT_THE_TOPIC) {
            // So the words of a topic have ranks among themselves.
            topic.words[rank % TOPIC_WORDS]
        } else {
            rank.min(self.words.len() - 1)
        };
        &self.words[place]
    }
}

/// For each rank, the share of this rank and those before it.
fn zipf(ranks: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let up_to = (1..=ranks).map(|rank| {
        sum += 1.0 / (rank as f64 + RANKS_BEFORE);
        sum
    });
    let sums: Vec<f64> = up_to.collect();
    sums.iter().map(|up_to| up_to / sum).collect()
}

/// A log-normal number of words.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between the fewest and the most words"
)]
fn length(random: &mut impl Rng) -> usize {
    // Box and Muller.
    let radius = (-2.0 * (1.0 - random.r#gen::<f64>()).ln()).sqrt();
    let normal = radius * (TAU * random.r#gen::<f64>()).cos();
    let words = MEDIAN_WORDS * (DEVIATION * normal).exp();
    words.clamp(FEWEST_WORDS, MOST_WORDS) as usize
}

fn stem(random: &mut impl Rng) -> String {
    let syllables = random.gen_range(1..=3);
    let mut syllable = |_| {
        let parts = [&ONSETS[..], &VOWELS, &CODAS];
        parts
            .map(|part| *part.choose(random).expect("sounds"))
            .concat()
    };
    (0..syllables).map(&mut syllable).collect()
}
