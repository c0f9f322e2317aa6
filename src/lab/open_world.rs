//! The open world: a topic learned from a few examples, among sites of kinds that nobody labelled.
//!
//! In table 2 of the paper the other class of training and test is of the same kinds. What a crawl meets
//! is not. Here the sites are dealt into blocks, by topic and group. A topic of one block is learned from
//! a few groups of its sites as examples, and as the other class from the background and all other
//! blocks; what is judged is the whole of its own block but for the examples: the rest of the topic, the
//! topics beside it, and the other sites dealt to that block. None of those kinds was seen before.
//!
//! With a single block all labelled sites are judged, and only the background is learned from.
//!
//! Invariant: no site shares its group with a site that was learned from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256Plus;
use rayon::prelude::*;

use super::open_measures::{Judged, OpenMeasures};
use super::table_two::crawler_of_verdicts;
use crate::classify::{Class, ExampleSite};
use crate::config::{Settings, TrainingSettings};
use crate::fetch::Fetcher;
use crate::parse::ParseLimits;
use crate::training::{Corpus, OTHER, Outcome, fit_model};
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
    /// Number of draws, each with blocks and examples of its own.
    pub draws: u64,
}

/// The verdicts on one topic, learned from a number of groups.
#[derive(Debug, Clone)]
pub struct OpenResult {
    /// The topic.
    pub topic: String,
    /// The verdicts of each draw.
    pub(crate) draws: Vec<Vec<Judged>>,
}

/// Deals sites to learn from and to judge.
#[derive(Clone, Copy)]
struct Dealer<'a> {
    corpus: &'a Corpus,
    background: &'a BTreeSet<SiteId>,
    blocks: usize,
}

/// What one draw deals.
#[derive(Debug)]
struct Deal<'a> {
    topic: &'a str,
    /// Indices of the sites learned from as examples, and as the other class.
    examples: Vec<usize>,
    others: Vec<usize>,
    judged: Vec<usize>,
    seed: u64,
}

// === impl OpenWorld ===

impl OpenWorld<'_> {
    /// Judges the topics, each learned from as many groups of sites. Topics with no more groups than that
    /// are left out.
    #[must_use]
    pub fn run(
        &self,
        topics: &[&str],
        examples: usize,
        progress: impl Fn() + Sync,
    ) -> Vec<OpenResult> {
        let first_seed = self.settings.training.seed;
        let seeds = first_seed..first_seed + self.draws.max(1);
        let dealer = self.dealer();
        let deals = seeds.flat_map(|seed| dealer.deal(topics, examples, seed));
        let deals: Vec<Deal<'_>> = deals.collect();
        let judged = deals.par_iter().map(|deal| {
            let judged = self.judge(deal);
            progress();
            (deal.topic, judged)
        });
        let mut by_topic: BTreeMap<&str, Vec<Vec<Judged>>> = BTreeMap::new();
        for (topic, judged) in judged.collect::<Vec<_>>() {
            by_topic.entry(topic).or_default().push(judged);
        }
        let results = by_topic.into_iter().map(|(topic, draws)| OpenResult {
            topic: topic.to_owned(),
            draws,
        });
        results.collect()
    }

    fn dealer(&self) -> Dealer<'_> {
        Dealer {
            corpus: self.corpus,
            background: self.background,
            blocks: self.blocks,
        }
    }

    fn judge(&self, deal: &Deal<'_>) -> Vec<Judged> {
        let example = |class| {
            move |at: &usize| {
                let site = &self.corpus.sites[*at];
                ExampleSite {
                    class,
                    group: site.group,
                    is_background: false,
                    pages: &site.pages,
                }
            }
        };
        let mut learned: Vec<(usize, ExampleSite<'_>)> = Vec::new();
        for (class, sites) in [
            (Class::Target, &deal.examples),
            (Class::Other, &deal.others),
        ] {
            learned.extend(sites.iter().map(|at| (*at, example(class)(at))));
        }
        // As a corpus orders them.
        learned.sort_unstable_by_key(|(at, _)| *at);
        let learned: Vec<ExampleSite<'_>> = learned.into_iter().map(|(_, site)| site).collect();
        let training = TrainingSettings {
            seed: deal.seed,
            ..self.settings.training
        };
        let (model, _) = fit_model(deal.topic, &self.corpus.lexicon, &learned, &training);
        let fetcher = Arc::clone(&self.fetcher);
        let crawler = crawler_of_verdicts(fetcher, model, self.settings.internal, self.limits);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime without timers or network needs nothing from the system");
        let dealer = self.dealer();
        let judge = |at: &usize| {
            let site = &self.corpus.sites[*at];
            let report = runtime.block_on(crawler.sample(SiteVisit::new(&site.site)));
            Judged {
                group: site.group,
                is_decided: !matches!(report.verdict, Verdict::Undecided(_)),
                outcome: Outcome {
                    is_relevant: report.verdict.is_relevant(),
                    confidence: report.confidence,
                    is_target: dealer.label(*at) == Some(deal.topic),
                    pages: report.cost.pages,
                },
            }
        };
        deal.judged.iter().map(judge).collect()
    }
}

// === impl Dealer ===

impl<'a> Dealer<'a> {
    fn deal<'t>(self, topics: &[&'t str], examples: usize, seed: u64) -> Vec<Deal<'t>> {
        let mut random = Xoshiro256Plus::seed_from_u64(seed);
        let blocks = self.blocks.max(1);
        let labelled: BTreeSet<&str> = (0..self.corpus.sites.len())
            .filter_map(|at| self.label(at))
            .filter(|label| *label != OTHER)
            .collect();
        let mut labelled: Vec<&str> = labelled.into_iter().collect();
        labelled.shuffle(&mut random);
        let block_of_topic: BTreeMap<&str, usize> = (0..)
            .zip(&labelled)
            .map(|(at, topic)| (*topic, at % blocks))
            .collect();
        let mut other_groups = self.groups_of(OTHER);
        other_groups.shuffle(&mut random);
        let block_of_group: BTreeMap<u32, usize> = (0..)
            .zip(&other_groups)
            .map(|(at, group)| (*group, at % blocks))
            .collect();
        let block_of = |at: usize| match self.label(at)? {
            OTHER => block_of_group.get(&self.group(at)).copied(),
            topic => block_of_topic.get(topic).copied(),
        };
        let mut deals = Vec::new();
        for topic in topics {
            let mut groups = self.groups_of(topic);
            groups.shuffle(&mut random);
            if groups.len() <= examples {
                continue;
            }
            groups.truncate(examples);
            let block = block_of_topic.get(topic);
            let all = 0..self.corpus.sites.len();
            let (own, elsewhere): (Vec<usize>, Vec<usize>) =
                all.partition(|at| block_of(*at).as_ref() == block);
            let (learned, judged): (Vec<usize>, Vec<usize>) = own
                .into_iter()
                .partition(|at| groups.contains(&self.group(*at)));
            let known: BTreeSet<u32> = judged.iter().map(|at| self.group(*at)).collect();
            let is_apart = |at: &usize| {
                let group = self.group(*at);
                !known.contains(&group) && !groups.contains(&group)
            };
            deals.push(Deal {
                topic,
                examples: learned
                    .into_iter()
                    .filter(|at| self.label(*at) == Some(topic))
                    .collect(),
                others: elsewhere.into_iter().filter(is_apart).collect(),
                judged,
                seed,
            });
        }
        deals
    }

    /// The topic of a labelled site; none if it is of the background.
    fn label(self, at: usize) -> Option<&'a str> {
        let site = &self.corpus.sites[at];
        (!self.background.contains(&site.site)).then_some(&*site.topic)
    }

    fn group(self, at: usize) -> u32 {
        self.corpus.sites[at].group
    }

    /// The groups with a site of this label, in order.
    fn groups_of(self, label: &str) -> Vec<u32> {
        let sites = 0..self.corpus.sites.len();
        let of_label = sites.filter(|at| self.label(*at) == Some(label));
        let groups: BTreeSet<u32> = of_label.map(|at| self.group(at)).collect();
        groups.into_iter().collect()
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::training::CorpusSite;

    /// Sites by topic, group, and whether they are of the background.
    fn corpus(sites: &[(usize, u32, bool)]) -> (Corpus, BTreeSet<SiteId>) {
        const TOPICS: [&str; 4] = ["chess", "rowing", "sailing", OTHER];
        let mut corpus = Corpus::default();
        let mut background = BTreeSet::new();
        for (at, (topic, group, is_background)) in sites.iter().enumerate() {
            let site: SiteId = format!("s{at}.example").parse().unwrap();
            if *is_background {
                background.insert(site.clone());
            }
            corpus.sites.push(CorpusSite {
                site,
                topic: TOPICS[*topic].to_owned(),
                group: *group,
                pages: Vec::new(),
            });
        }
        (corpus, background)
    }

    proptest! {
        #[test]
        fn nothing_judged_is_of_a_group_that_was_learned_from(
            sites in prop::collection::vec((0_usize..4, 0_u32..20, any::<bool>()), 1..60),
            blocks in 1_usize..4,
            examples in 1_usize..4,
            seed in any::<u64>(),
        ) {
            let (corpus, background) = corpus(&sites);
            let dealer = Dealer { corpus: &corpus, background: &background, blocks };
            for deal in dealer.deal(&["rowing", "sailing"], examples, seed) {
                let group = |at: &usize| corpus.sites[*at].group;
                let is_background = |at: &usize| background.contains(&corpus.sites[*at].site);
                let learned = deal.examples.iter().chain(&deal.others);
                let learned: BTreeSet<u32> = learned.map(group).collect();
                let of_examples: BTreeSet<u32> = deal.examples.iter().map(group).collect();
                prop_assert_eq!(of_examples.len(), examples);
                for at in &deal.judged {
                    prop_assert!(!learned.contains(&group(at)));
                    prop_assert!(!is_background(at));
                }
                for at in &deal.examples {
                    prop_assert!(!is_background(at));
                    prop_assert_eq!(&*corpus.sites[*at].topic, deal.topic);
                }
                for at in &deal.others {
                    prop_assert!(!of_examples.contains(&group(at)));
                    let is_of_topic = corpus.sites[*at].topic == deal.topic;
                    prop_assert!(is_background(at) || !is_of_topic);
                    prop_assert!(blocks > 1 || is_background(at));
                }
                if blocks == 1 {
                    let apart = (0..sites.len())
                        .filter(|at| !is_background(at) && !of_examples.contains(&group(at)));
                    prop_assert_eq!(deal.judged, apart.collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn blocks_share_out_topics_and_other_sites() {
        let sites: Vec<(usize, u32, bool)> =
            (0..40).map(|at| (at as usize % 4, at, false)).collect();
        let (corpus, background) = corpus(&sites);
        let dealer = Dealer {
            corpus: &corpus,
            background: &background,
            blocks: 3,
        };
        let deals = dealer.deal(&["chess", "rowing", "sailing"], 2, 1);
        let topics_of = |sites: &[usize]| -> BTreeSet<&str> {
            sites.iter().map(|at| &*corpus.sites[*at].topic).collect()
        };
        for deal in &deals {
            assert_eq!(topics_of(&deal.judged), BTreeSet::from([deal.topic, OTHER]));
            assert_eq!(
                topics_of(&deal.others).len(),
                3,
                "the other topics, and other sites"
            );
            assert_eq!(deal.judged.len() + deal.others.len() + 2, 40);
        }
        let again = dealer.deal(&["chess", "rowing", "sailing"], 2, 1);
        assert_eq!(format!("{deals:?}"), format!("{again:?}"));
        let other_seed = dealer.deal(&["chess", "rowing", "sailing"], 2, 2);
        assert_ne!(format!("{deals:?}"), format!("{other_seed:?}"));
        assert!(
            dealer.deal(&["chess"], 10, 1).is_empty(),
            "none would be left to judge"
        );
    }
}
