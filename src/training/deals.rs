//! Which sites are learned from and which are judged, where a topic is learned from a few of its sites.
//!
//! Topics, and groups of other sites, are dealt into blocks. A topic is learned from a few groups of its
//! sites as examples, and as the other class from the background and all blocks but its own; judged
//! is the whole of its own block but for the examples: the rest of the topic, the topics beside it, and
//! the other sites of that block. None of those kinds was seen before.
//!
//! With a single block all labelled sites are judged, and only the background is learned from.
//!
//! Invariant: no site that is judged shares its group with one that was learned from.

use std::collections::{BTreeMap, BTreeSet};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256Plus;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::classify::{Class, CountedPage, ExampleSite};

use super::background::shared_pages;
use super::corpus::CorpusSite;
use super::labels::OTHER;

/// Sites, labelled and of the background, that are dealt.
#[derive(Debug, Clone)]
pub(crate) struct DealtSites<'a> {
    /// The labelled ones, then those of the background, which are only learned from.
    sites: Vec<&'a CorpusSite>,
    labelled: usize,
    /// Number of terms in the lexicon.
    terms: usize,
}

/// A division of the labelled sites into blocks.
#[derive(Debug)]
pub(crate) struct Division<'a> {
    sites: &'a DealtSites<'a>,
    of_topic: BTreeMap<&'a str, usize>,
    of_other_group: BTreeMap<u32, usize>,
    seed: u64,
}

/// What is dealt for one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deal<'a> {
    pub(crate) topic: &'a str,
    /// The block of the topic.
    pub(crate) block: usize,
    /// Places of the sites that are learned from as examples, and as the other class.
    pub(crate) examples: Vec<usize>,
    pub(crate) others: Vec<usize>,
    /// Those of the other class that are of the topic.
    pub(crate) planted: Vec<usize>,
    pub(crate) judged: Vec<usize>,
    pub(crate) seed: u64,
}

// === impl DealtSites ===

impl<'a> DealtSites<'a> {
    #[must_use]
    pub(crate) fn new(
        labelled: impl IntoIterator<Item = &'a CorpusSite>,
        background: impl IntoIterator<Item = &'a CorpusSite>,
        terms: usize,
    ) -> Self {
        let mut sites: Vec<&CorpusSite> = labelled.into_iter().collect();
        let labelled = sites.len();
        sites.extend(background);
        Self {
            sites,
            labelled,
            terms,
        }
    }

    #[must_use]
    pub(crate) fn at(&self, place: usize) -> &'a CorpusSite {
        self.sites[place]
    }

    /// The label of a site; none if it is of the background.
    #[must_use]
    pub(crate) fn label(&self, place: usize) -> Option<&'a str> {
        (place < self.labelled).then(|| &*self.sites[place].topic)
    }

    /// All topics but `other`.
    #[must_use]
    pub(crate) fn topics(&self) -> BTreeSet<&'a str> {
        let labels = (0..self.labelled).filter_map(|at| self.label(at));
        labels.filter(|label| *label != OTHER).collect()
    }

    /// The groups with a site of this label, in order.
    fn groups_of(&self, label: &str) -> Vec<u32> {
        let of_label = (0..self.labelled).filter(|at| self.label(*at) == Some(label));
        let groups: BTreeSet<u32> = of_label.map(|at| self.sites[at].group).collect();
        groups.into_iter().collect()
    }

    /// Divides the labelled sites.
    #[must_use]
    pub(crate) fn divide(&'a self, blocks: usize, seed: u64) -> Division<'a> {
        let mut random = Xoshiro256Plus::seed_from_u64(seed);
        let blocks = blocks.max(1);
        let mut topics: Vec<&str> = self.topics().into_iter().collect();
        topics.shuffle(&mut random);
        let mut others = self.groups_of(OTHER);
        others.shuffle(&mut random);
        let in_turn = |at: usize| at % blocks;
        Division {
            sites: self,
            of_topic: topics.into_iter().zip((0..).map(in_turn)).collect(),
            of_other_group: others.into_iter().zip((0..).map(in_turn)).collect(),
            seed,
        }
    }

    /// Lends the examples of a deal, in the order of their places. Of other sites only those terms are
    /// known that would be known of a background.
    pub(crate) fn with_examples<T>(
        &self,
        deal: &Deal<'_>,
        learn: impl FnOnce(&[ExampleSite<'_>]) -> T,
    ) -> T {
        let others: Vec<&CorpusSite> = deal.others.iter().map(|at| self.at(*at)).collect();
        let pages = shared_pages(&others, self.terms);
        let of_others = deal.others.iter().zip(&pages);
        let of_others = of_others.map(|(at, pages)| (at, Class::Other, &**pages));
        let examples = deal.examples.iter();
        let examples = examples.map(|at| (at, Class::Target, &*self.at(*at).pages));
        let mut all: Vec<(&usize, Class, &[CountedPage])> = examples.chain(of_others).collect();
        all.sort_unstable_by_key(|(at, ..)| **at);
        let all = all.into_iter().map(|(at, class, pages)| ExampleSite {
            class,
            site: &self.at(*at).site,
            group: self.at(*at).group,
            is_background: class == Class::Other,
            pages,
        });
        learn(&all.collect::<Vec<_>>())
    }
}

// === impl Division ===

impl<'a> Division<'a> {
    /// The block of a site; none for the background.
    #[must_use]
    pub(crate) fn block_of(&self, place: usize) -> Option<usize> {
        match self.sites.label(place)? {
            OTHER => (self.of_other_group)
                .get(&self.sites.at(place).group)
                .copied(),
            topic => self.of_topic.get(topic).copied(),
        }
    }

    /// A topic learned from as many groups, with as many further groups among the other class, as in a
    /// background that nobody looked through for the topic; none if none would be left to judge.
    #[must_use]
    pub(crate) fn deal(&self, topic: &'a str, examples: usize, planted: usize) -> Option<Deal<'a>> {
        let block = *self.of_topic.get(topic)?;
        let mut groups = self.sites.groups_of(topic);
        // Every topic has its own random numbers, so that it does not matter which others there are.
        let seed = xxh3_64_with_seed(topic.as_bytes(), self.seed);
        groups.shuffle(&mut Xoshiro256Plus::seed_from_u64(seed));
        if groups.len() <= examples + planted {
            return None;
        }
        groups.truncate(examples + planted);
        let planted = groups.split_off(examples);
        let group = |at: &usize| self.sites.at(*at).group;
        let all = 0..self.sites.sites.len();
        let (own, elsewhere): (Vec<usize>, Vec<usize>) =
            all.partition(|at| self.block_of(*at) == Some(block));
        let (learned, rest): (Vec<usize>, Vec<usize>) =
            own.into_iter().partition(|at| groups.contains(&group(at)));
        let (planted, judged): (Vec<usize>, Vec<usize>) = rest
            .into_iter()
            .partition(|at| planted.contains(&group(at)));
        let known: BTreeSet<u32> = judged.iter().map(group).collect();
        let is_apart = |at: &usize| !known.contains(&group(at)) && !groups.contains(&group(at));
        let is_of_topic = |at: &usize| self.sites.label(*at) == Some(topic);
        let planted: Vec<usize> = planted.into_iter().filter(is_of_topic).collect();
        let elsewhere = elsewhere.into_iter().filter(is_apart);
        Some(Deal {
            topic,
            block,
            examples: learned.into_iter().filter(is_of_topic).collect(),
            others: elsewhere.chain(planted.iter().copied()).collect(),
            planted,
            judged,
            seed: self.seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::web::SiteId;

    /// Sites by topic and group.
    fn sites(sites: &[(usize, u32)], first: usize) -> Vec<CorpusSite> {
        const TOPICS: [&str; 4] = ["chess", "rowing", "sailing", OTHER];
        let site = |(at, (topic, group)): (usize, &(usize, u32))| {
            let site: SiteId = format!("s{at}.example").parse().unwrap();
            CorpusSite {
                site,
                topic: TOPICS[*topic].to_owned(),
                group: *group,
                pages: Vec::new(),
            }
        };
        (first..).zip(sites).map(site).collect()
    }

    proptest! {
        #[test]
        fn nothing_judged_is_of_a_group_that_was_learned_from(
            labelled in prop::collection::vec((0_usize..4, 0_u32..20), 1..60),
            background in prop::collection::vec((0_usize..4, 0_u32..20), 0..20),
            blocks in 1_usize..4,
            examples in 1_usize..4,
            planted in 0_usize..3,
            seed in any::<u64>(),
        ) {
            let (labelled, background) = (sites(&labelled, 0), sites(&background, labelled.len()));
            let dealt = DealtSites::new(&labelled, &background, 0);
            let divided = dealt.divide(blocks, seed);
            for deal in ["rowing", "sailing"].iter().filter_map(|topic| divided.deal(topic, examples, planted)) {
                let group = |at: &usize| dealt.at(*at).group;
                let is_background = |at: &usize| *at >= labelled.len();
                let learned = deal.examples.iter().chain(&deal.others);
                let learned: BTreeSet<u32> = learned.map(group).collect();
                let of_planted: BTreeSet<u32> = deal.planted.iter().map(group).collect();
                prop_assert_eq!(of_planted.len(), planted);
                let of_examples: BTreeSet<u32> = deal.examples.iter().map(group).collect();
                prop_assert_eq!(of_examples.len(), examples);
                for at in &deal.judged {
                    prop_assert!(!learned.contains(&group(at)));
                    prop_assert!(!is_background(at));
                }
                for at in &deal.examples {
                    prop_assert!(!is_background(at));
                    prop_assert_eq!(&*dealt.at(*at).topic, deal.topic);
                }
                for at in &deal.others {
                    prop_assert!(!of_examples.contains(&group(at)));
                    let is_planted = deal.planted.contains(at);
                    prop_assert_eq!(divided.block_of(*at) == Some(deal.block), is_planted);
                    prop_assert!(blocks > 1 || is_background(at) || is_planted);
                }
                if blocks == 1 {
                    let of_either = |at: &usize| of_examples.contains(&group(at)) || of_planted.contains(&group(at));
                    let apart = (0..labelled.len()).filter(|at| !of_either(at));
                    prop_assert_eq!(deal.judged, apart.collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn blocks_share_out_topics_and_other_sites() {
        let labelled: Vec<(usize, u32)> = (0..40).map(|at| (at as usize % 4, at)).collect();
        let labelled = sites(&labelled, 0);
        let dealt = DealtSites::new(&labelled, [], 0);
        let divided = dealt.divide(3, 1);
        let topics_of = |sites: &[usize]| -> BTreeSet<&str> {
            sites.iter().map(|at| &*dealt.at(*at).topic).collect()
        };
        for topic in ["chess", "rowing", "sailing"] {
            let deal = divided.deal(topic, 2, 0).unwrap();
            assert_eq!(topics_of(&deal.judged), BTreeSet::from([topic, OTHER]));
            assert_eq!(
                topics_of(&deal.others).len(),
                3,
                "the other topics, and other sites"
            );
            assert_eq!(deal.judged.len() + deal.others.len() + 2, 40);
            assert_eq!(dealt.divide(3, 1).deal(topic, 2, 0), Some(deal.clone()));
            assert_ne!(dealt.divide(3, 2).deal(topic, 2, 0), Some(deal));
        }
        assert_eq!(
            divided.deal("chess", 10, 0),
            None,
            "none would be left to judge"
        );
    }
}
