//! The open world: a topic learned from a few examples, among sites of kinds that nobody labelled.
//!
//! In table 2 of the paper the other class of training and test is of the same kinds. What a crawl meets
//! is not. Here topics are learned and judged as [`crate::training::DealtSites`] deals them: of what is
//! judged, no kind was learned from.
//!
//! What holds for topics in general, the [`TopicPrior`], is learned from the background and the labelled
//! sites of other blocks alone, so that neither a topic nor its block decides how it is judged. With a
//! single block it is learned from labelled sites beside, which are background for the topics judged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;

use super::open_measures::{Judged, OpenMeasures};
use super::table_two::crawler_of_verdicts;
use crate::classify::TopicPrior;
use crate::config::{Settings, TrainingSettings};
use crate::fetch::Fetcher;
use crate::parse::ParseLimits;
use crate::training::{Corpus, CorpusSite, Deal, DealtSites, Outcome, fit_model_from, learn_prior};
use crate::web::{SiteId, SiteVisit, Verdict};

/// An evaluation in the open world.
pub struct OpenWorld<'a> {
    /// Source of pages.
    pub fetcher: Arc<dyn Fetcher>,
    /// The labelled sites and those of the background.
    pub corpus: &'a Corpus,
    /// Sites that are the other class whatever their label says, and are never judged.
    pub background: &'a BTreeSet<SiteId>,
    /// Limits of the page parser.
    pub limits: ParseLimits,
    /// Settings of training and of the internal crawler.
    pub settings: &'a Settings,
    /// Number of blocks that topics and other sites are dealt into.
    pub blocks: usize,
    /// Number of groups of a topic that are put among the background, as nobody has looked through a
    /// background for it.
    pub planted: usize,
    /// Number of draws, each with blocks and examples of its own.
    pub draws: u64,
}

/// The verdicts on one topic, learned from a number of groups.
#[derive(Debug, Clone, Default)]
pub struct OpenResult {
    /// The topic.
    pub topic: String,
    /// The verdicts of each draw.
    pub(crate) draws: Vec<Vec<Judged>>,
    /// Sites that were learned from as the other class, in how many draws they were left out because
    /// they look like sites of the topic.
    pub(crate) suspects: BTreeMap<SiteId, usize>,
    /// Number of sites of the topic that were put among the background, over all draws, and how many of
    /// them were suspects.
    pub(crate) planted: (usize, usize),
    /// The sites that were misjudged in any draw.
    pub(crate) mistakes: BTreeMap<SiteId, Mistakes>,
}

/// How a site was judged over all draws.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Mistakes {
    /// Whether it is of the topic.
    pub is_target: bool,
    /// Number of draws in which it was judged.
    pub draws: usize,
    /// Number of draws in which the verdict was wrong.
    pub wrong: usize,
    /// Sum of the confidences in all draws.
    pub confidence: f64,
}

/// What holds for topics in general, as learned without some topics: by draw and block, or for all.
pub struct Priors {
    by_block: BTreeMap<(u64, usize), TopicPrior>,
}

/// The verdicts of one draw.
struct JudgedDeal {
    /// In the order of the deal.
    judged: Vec<Judged>,
    suspects: Vec<SiteId>,
    planted: (usize, usize),
}

// === impl OpenWorld ===

impl OpenWorld<'_> {
    /// Learns the priors of all draws.
    #[must_use]
    pub fn priors(&self, progress: impl Fn() + Sync) -> Priors {
        let sites = self.sites();
        let (background, labelled): (Vec<&CorpusSite>, Vec<&CorpusSite>) = self
            .corpus
            .sites
            .iter()
            .partition(|site| self.background.contains(&site.site));
        let terms = self.corpus.lexicon.len();
        let training = &self.settings.training;
        // Neither may share a group with a site that is judged.
        let learn =
            |judged: &BTreeSet<u32>, labelled: Vec<&CorpusSite>, background: &[&CorpusSite]| {
                let is_apart = |site: &&CorpusSite| !judged.contains(&site.group);
                let dealt = DealtSites::new(
                    labelled.into_iter().filter(is_apart),
                    background.iter().copied().filter(is_apart),
                    terms,
                );
                learn_prior(self.corpus, &dealt, training).unwrap_or(TopicPrior::NONE)
            };
        if self.blocks == 1 {
            // The same for all draws: nothing of it is dealt.
            let judged = labelled.iter().map(|site| site.group).collect();
            let prior = learn(&judged, background, &[]);
            progress();
            let draws = self.seeds().map(|seed| ((seed, 0), prior));
            return Priors {
                by_block: draws.collect(),
            };
        }
        let wanted: Vec<(u64, usize)> = self
            .seeds()
            .flat_map(|seed| (0..self.blocks).map(move |block| (seed, block)))
            .collect();
        let learned = wanted.into_par_iter().map(|(seed, block)| {
            let blocks = sites.divide(self.blocks, seed);
            let (own, elsewhere): (Vec<usize>, Vec<usize>) =
                (0..labelled.len()).partition(|at| blocks.block_of(*at) == Some(block));
            let judged = own.into_iter().map(|at| labelled[at].group).collect();
            let elsewhere = elsewhere.into_iter().map(|at| labelled[at]).collect();
            let prior = learn(&judged, elsewhere, &background);
            progress();
            ((seed, block), prior)
        });
        Priors {
            by_block: learned.collect(),
        }
    }

    /// Judges the topics, each learned from as many groups of sites. Topics with no more groups than that
    /// are left out.
    #[must_use]
    pub fn run(
        &self,
        topics: &[&str],
        examples: usize,
        priors: &Priors,
        progress: impl Fn() + Sync,
    ) -> Vec<OpenResult> {
        let sites = self.sites();
        let divided: Vec<_> = self
            .seeds()
            .map(|seed| sites.divide(self.blocks, seed))
            .collect();
        let known = sites.topics();
        let topics = topics.iter().filter_map(|topic| known.get(topic).copied());
        let topics: Vec<&str> = topics.collect();
        let mut deals: Vec<Deal<'_>> = Vec::new();
        for blocks in &divided {
            let of_draw = topics
                .iter()
                .map(|topic| blocks.deal(topic, examples, self.planted));
            deals.extend(of_draw.flatten());
        }
        let judged = deals.par_iter().map(|deal| {
            let prior = priors.by_block.get(&(deal.seed, deal.block));
            let judged = self.judge(&sites, deal, prior.unwrap_or(&TopicPrior::NONE));
            progress();
            (deal, judged)
        });
        let mut by_topic: BTreeMap<&str, OpenResult> = BTreeMap::new();
        for (deal, of_draw) in judged.collect::<Vec<_>>() {
            let result = by_topic.entry(deal.topic).or_insert_with(|| OpenResult {
                topic: deal.topic.to_owned(),
                ..OpenResult::default()
            });
            for (at, judged) in deal.judged.iter().zip(&of_draw.judged) {
                let outcome = &judged.outcome;
                let mistakes = result
                    .mistakes
                    .entry(sites.at(*at).site.clone())
                    .or_default();
                mistakes.is_target = outcome.is_target;
                mistakes.draws += 1;
                mistakes.wrong += usize::from(outcome.is_relevant != outcome.is_target);
                mistakes.confidence += outcome.confidence.get();
            }
            result.planted.0 += of_draw.planted.0;
            result.planted.1 += of_draw.planted.1;
            result.draws.push(of_draw.judged);
            for site in of_draw.suspects {
                *result.suspects.entry(site).or_default() += 1;
            }
        }
        for result in by_topic.values_mut() {
            result.mistakes.retain(|_, mistakes| mistakes.wrong > 0);
        }
        by_topic.into_values().collect()
    }

    fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.settings.training.seed;
        first..first + self.draws.max(1)
    }

    fn sites(&self) -> DealtSites<'_> {
        let is_background = |site: &&CorpusSite| self.background.contains(&site.site);
        let sites = &self.corpus.sites;
        DealtSites::new(
            sites.iter().filter(|site| !is_background(site)),
            sites.iter().filter(is_background),
            self.corpus.lexicon.len(),
        )
    }

    fn judge(&self, sites: &DealtSites<'_>, deal: &Deal<'_>, prior: &TopicPrior) -> JudgedDeal {
        let training = TrainingSettings {
            seed: deal.seed,
            ..self.settings.training
        };
        let mut learned: Vec<usize> = deal.examples.iter().chain(&deal.others).copied().collect();
        learned.sort_unstable();
        let (model, validation) = sites.with_examples(deal, |examples| {
            fit_model_from(prior, deal.topic, &self.corpus.lexicon, examples, &training)
        });
        let suspects: Vec<usize> = (validation.suspects.iter())
            .map(|at| learned[*at])
            .collect();
        let found = deal.planted.iter().filter(|at| suspects.contains(at));
        let planted = (deal.planted.len(), found.count());
        let suspects = suspects.iter().map(|at| sites.at(*at).site.clone());
        let fetcher = Arc::clone(&self.fetcher);
        let crawler = crawler_of_verdicts(fetcher, model, self.settings.internal, self.limits);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime without timers or network needs nothing from the system");
        let judge = |at: &usize| {
            let site = sites.at(*at);
            let report = runtime.block_on(crawler.sample(SiteVisit::new(&site.site)));
            Judged {
                group: site.group,
                is_decided: !matches!(report.verdict, Verdict::Undecided(_)),
                outcome: Outcome {
                    is_relevant: report.verdict.is_relevant(),
                    confidence: report.confidence,
                    is_target: sites.label(*at) == Some(deal.topic),
                    pages: report.cost.pages,
                },
            }
        };
        JudgedDeal {
            judged: deal.judged.iter().map(judge).collect(),
            suspects: suspects.collect(),
            planted,
        }
    }
}

// === impl OpenResult ===

impl OpenResult {
    /// Means over draws.
    #[must_use]
    pub fn measures(&self) -> OpenMeasures {
        OpenMeasures::mean(self.draws.iter().map(|draw| {
            let judged = draw.iter().map(|judged| (judged, 1.0));
            OpenMeasures::of(judged)
        }))
    }
}
