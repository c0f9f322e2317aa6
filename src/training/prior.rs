//! Learns what holds for topics in general, from labelled topics.
//!
//! Each topic is learned again and again from a few of its sites, and its other sites are scored. How
//! confidence must grow with these scores is the prior of further topics.

use rayon::prelude::*;

use crate::classify::{HeldOutSite, JudgedTopic, TopicPrior};
use crate::config::{PageClassifierChoice, TrainingSettings};

use super::corpus::Corpus;
use super::deals::{Deal, DealtSites};
use super::fit::learn_without_suspects;

/// Numbers of groups that topics are learned from, in turn.
const EXAMPLES: [usize; 3] = [3, 5, 8];

/// Number of draws of blocks and examples; twice each number of examples.
const DRAWS: u64 = 6;

/// Blocks that topics and other sites are dealt into.
const BLOCKS: usize = 2;

/// Pages of a site that are scored.
const PAGES_PER_JUDGED_SITE: usize = 5;

/// Learns from the topics among these sites; none if none has enough groups.
#[must_use]
pub(crate) fn learn_prior(
    corpus: &Corpus,
    sites: &DealtSites<'_>,
    settings: &TrainingSettings,
) -> Option<TopicPrior> {
    let divided: Vec<_> = (0..DRAWS)
        .map(|draw| sites.divide(BLOCKS, settings.seed + draw))
        .collect();
    let mut deals: Vec<Deal<'_>> = Vec::new();
    for (blocks, examples) in divided.iter().zip(EXAMPLES.into_iter().cycle()) {
        let topics = sites.topics().into_iter();
        deals.extend(topics.filter_map(|topic| blocks.deal(topic, examples, 0)));
    }
    let judged = deals
        .par_iter()
        .filter_map(|deal| judge(corpus, sites, deal, settings));
    TopicPrior::learn(&judged.collect::<Vec<_>>())
}

fn judge(
    corpus: &Corpus,
    sites: &DealtSites<'_>,
    deal: &Deal<'_>,
    settings: &TrainingSettings,
) -> Option<JudgedTopic> {
    let settings = TrainingSettings {
        seed: deal.seed,
        // The prior is for scores of this one.
        page_classifier: PageClassifierChoice::Linear,
        ..*settings
    };
    let (learned, _) = sites.with_examples(deal, |examples| {
        learn_without_suspects(&corpus.lexicon, examples, &settings)
    });
    let score = |at: &usize| HeldOutSite {
        is_target: sites.label(*at) == Some(deal.topic),
        ..learned.score(
            &corpus.lexicon,
            &sites.at(*at).example(deal.topic),
            PAGES_PER_JUDGED_SITE,
        )
    };
    Some(JudgedTopic {
        spread: learned.spread()?,
        sites: deal.judged.iter().map(score).collect(),
    })
}
