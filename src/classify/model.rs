//! The trained model of one topic.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::web::{
    EvidenceRule, ModelFingerprint, PageConfidence, PageKind, PageTerms, SiteConfidence, SiteId,
    TellingWord, TellingWords, TermNumber, TermNumbers,
};

use super::calibration::Calibration;
use super::centroid::CentroidClassifier;
use super::evidence::SiteEvidence;
use super::host_words::host_words;
use super::linear::LinearClassifier;
use super::vector::{Feature, PageVector};
use super::vocabulary::Vocabulary;
use super::{Aspect, PageClassifier, model_file};

/// Maximum number of telling words, for and against, that explain a page.
const TELLING_WORDS: usize = 6;

/// What a term in a host name weighs, beside its weight on a page that has no other term. On pages of
/// some words, those that matter most weigh about as much.
const HOST_WORD_WEIGHT: f64 = 0.2;

/// The model of a topic: judges pages, and has the thresholds for verdicts.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteModel {
    topic: String,
    vocabulary: Vocabulary,
    pages: PageModel,
    calibration: Calibration,
    thresholds: Thresholds,
    fingerprint: ModelFingerprint,
}

/// Numbers the terms of a model's vocabulary by its features.
#[derive(Debug, Clone)]
pub struct KnownTerms(Arc<SiteModel>);

/// When a verdict is reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    /// The site confidence, for or against, at which a verdict is reached (paper 4.3.3).
    pub p_threshold: f64,
    /// Number of pages that must have spoken before a site is found relevant, unless it has no more:
    /// one page can dismiss a site, but single pages can be about anything.
    pub confirming_pages: usize,
    /// Number of pages that spoke after which the verdict follows the confidence, however sure.
    pub deciding_pages: usize,
    /// A page with fewer known terms is mute.
    pub min_known_terms: usize,
}

/// One of the page classifiers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum PageModel {
    /// Logistic regression.
    Linear(LinearClassifier),
    /// The paper's centroids.
    Centroid(CentroidClassifier),
}

/// A page judged by a model.
#[derive(Debug, Clone, PartialEq)]
pub enum JudgedPage {
    /// Too few known terms.
    Mute,
    /// It has a confidence.
    Spoke {
        /// Pr\[p | target\].
        confidence: PageConfidence,
        /// Error rate of confidences of this kind of page.
        p_err: f64,
        /// The words that decided.
        telling_words: TellingWords,
    },
}

// === impl SiteModel ===

impl SiteModel {
    /// Assembles a model and computes its fingerprint.
    #[must_use]
    pub(crate) fn new(
        topic: String,
        vocabulary: Vocabulary,
        pages: PageModel,
        calibration: Calibration,
        thresholds: Thresholds,
    ) -> Self {
        let mut model = Self {
            topic,
            vocabulary,
            pages,
            calibration,
            thresholds,
            fingerprint: ModelFingerprint::from_bits(0),
        };
        model.fingerprint = model_file::fingerprint(&model);
        model
    }

    /// Judges one page, whose terms are numbered by [`KnownTerms`] of this model.
    #[must_use]
    pub fn judge(&self, terms: &PageTerms, kind: PageKind) -> JudgedPage {
        let page = self.vocabulary.vector(terms);
        if page.known_terms() < self.thresholds.min_known_terms {
            return JudgedPage::Mute;
        }
        let classifier = self.pages.classifier();
        let score = classifier.score(&page);
        JudgedPage::Spoke {
            confidence: self.calibration.confidence(score),
            p_err: self.calibration.p_err_of(kind),
            telling_words: self.telling_words(&classifier.contributions(&page)),
        }
    }

    /// What a page is judged by: its features with their weights, by ascending feature.
    #[must_use]
    pub fn vector(&self, terms: &PageTerms) -> Vec<(TermNumber, f32)> {
        self.vocabulary.vector(terms).entries().to_vec()
    }

    fn telling_words(&self, contributions: &[(Feature, f64)]) -> TellingWords {
        let (for_target, against): (Vec<_>, Vec<_>) = contributions
            .iter()
            .filter(|(_, weight)| *weight != 0.0)
            .partition(|(_, weight)| *weight > 0.0);
        let most = |one: &(Feature, f64), other: &(Feature, f64)| {
            other.1.total_cmp(&one.1).then(one.0.cmp(&other.0))
        };
        TellingWords {
            for_target: self.words(first(for_target, most)),
            against: self.words(first(against, |one, other| most(other, one))),
        }
    }

    fn words(&self, contributions: Vec<(Feature, f64)>) -> Vec<TellingWord> {
        let word = |(feature, weight)| TellingWord {
            term: self.vocabulary.term(feature).into(),
            weight,
        };
        contributions.into_iter().map(word).collect()
    }

    /// What the model looks for: each aspect with its most telling words.
    #[must_use]
    pub(crate) fn aspects(&self, words: usize) -> Vec<(String, Vec<TellingWord>)> {
        let in_words = |aspect: Aspect| {
            let mut features = aspect.features;
            features.sort_by(|one, other| other.1.total_cmp(&one.1));
            let telling = features.into_iter().take_while(|(_, weight)| *weight > 0.0);
            let telling = telling.take(words).map(|(feature, weight)| TellingWord {
                term: self.vocabulary.term(feature).into(),
                weight,
            });
            (aspect.title, telling.collect())
        };
        let aspects = self.pages.classifier().aspects();
        aspects.into_iter().map(in_words).collect()
    }

    /// The name of the topic.
    #[must_use]
    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }

    #[must_use]
    pub(crate) fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    #[must_use]
    pub(crate) fn pages(&self) -> &PageModel {
        &self.pages
    }

    #[must_use]
    pub(crate) fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// The evidence about pages without a site, none of which is read yet.
    #[must_use]
    pub(crate) fn evidence(&self, rule: EvidenceRule, prior: SiteConfidence) -> SiteEvidence {
        SiteEvidence::new(rule, self.calibration.damping(), prior)
    }

    /// The evidence about a site of which nothing is read yet.
    #[must_use]
    pub(crate) fn evidence_of(
        &self,
        site: &SiteId,
        rule: EvidenceRule,
        prior: SiteConfidence,
    ) -> SiteEvidence {
        let words = host_words(site, |term| self.vocabulary.feature(term));
        let score = self.pages.host_score(&words);
        self.evidence(rule, prior)
            .with_host(self.calibration.host_log_odds(score))
    }

    /// When a verdict is reached.
    #[must_use]
    pub fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// The same model with other thresholds and thus another fingerprint.
    #[must_use]
    pub fn with_thresholds(self, thresholds: Thresholds) -> Self {
        Self::new(
            self.topic,
            self.vocabulary,
            self.pages,
            self.calibration,
            thresholds,
        )
    }

    /// Hash of the content.
    #[must_use]
    pub fn fingerprint(&self) -> ModelFingerprint {
        self.fingerprint
    }
}

/// The first [`TELLING_WORDS`] in an order, of which no two are equal; only these are sorted.
fn first(
    mut contributions: Vec<(Feature, f64)>,
    order: impl Fn(&(Feature, f64), &(Feature, f64)) -> Ordering,
) -> Vec<(Feature, f64)> {
    if contributions.len() > TELLING_WORDS {
        contributions.select_nth_unstable_by(TELLING_WORDS, &order);
        contributions.truncate(TELLING_WORDS);
    }
    contributions.sort_unstable_by(order);
    contributions
}

// === impl KnownTerms ===

impl KnownTerms {
    /// The terms of a model.
    #[must_use]
    pub fn of(model: Arc<SiteModel>) -> Self {
        Self(model)
    }
}

impl TermNumbers for KnownTerms {
    fn number(&mut self, term: &str) -> Option<TermNumber> {
        self.0.vocabulary.feature(term)
    }
}

// === impl Thresholds ===

impl Thresholds {
    pub(super) fn is_sound(&self) -> bool {
        (0.5..1.0).contains(&self.p_threshold)
            && self.min_known_terms > 0
            && self.confirming_pages > 0
            && self.deciding_pages > 0
    }
}

// === impl PageModel ===

impl PageModel {
    /// The classifier behind its trait.
    #[must_use]
    pub(crate) fn classifier(&self) -> &dyn PageClassifier {
        match self {
            Self::Linear(linear) => linear,
            Self::Centroid(centroid) => centroid,
        }
    }

    /// The score of a page.
    #[must_use]
    pub(crate) fn score(&self, page: &PageVector) -> f64 {
        self.classifier().score(page)
    }

    /// What the terms in a host name add to the score of a site. Only terms of the topic speak: names
    /// are short, and what they leave out says nothing. Centroids are of whole pages, and see no names.
    #[must_use]
    pub(crate) fn host_score(&self, words: &[Feature]) -> f64 {
        match self {
            Self::Linear(linear) => {
                let weights = words.iter().map(|word| linear.weights[*word as usize]);
                let speaking = weights.map(|weight| f64::from(weight.max(0.0)));
                HOST_WORD_WEIGHT * speaking.sum::<f64>()
            }
            Self::Centroid(_) => 0.0,
        }
    }

    /// The name in the settings.
    #[must_use]
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Linear(_) => "linear",
            Self::Centroid(_) => "centroid",
        }
    }

    /// Whether all tables have the right length for `features` terms, and all numbers are finite.
    pub(super) fn is_sound(&self, features: usize) -> bool {
        match self {
            Self::Linear(linear) => {
                linear.weights.len() == features
                    && linear.bias.is_finite()
                    && linear.weights.iter().all(|weight| weight.is_finite())
            }
            Self::Centroid(centroid) => centroid.is_sound(features),
        }
    }
}
