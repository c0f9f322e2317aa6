//! Measures of the open world, with intervals.
//!
//! The independent units are topics, and within a topic groups of sites: draws repeat the same sites,
//! and sites of a group the same text. So the bootstrap draws topics with replacement, then groups
//! within each (Davison and Hinkley 1997, section 3.8), and draws of the evaluation are averaged.

use std::collections::{BTreeMap, BTreeSet};

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256Plus;
use rayon::prelude::*;

use super::OpenResult;
use crate::training::Outcome;

/// Bootstrap samples.
const SAMPLES: u64 = 1_000;

/// A verdict on a site of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Judged {
    pub(crate) group: u32,
    /// Undecided sites are ranked below all others.
    pub(crate) is_decided: bool,
    pub(crate) outcome: Outcome,
}

/// How well sites were judged and ranked.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OpenMeasures {
    /// Of the sites found relevant, how many are; 1 if none was found.
    pub precision: f64,
    /// Of the target sites, how many were found.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f_measure: f64,
    /// The mean, over target sites, of the precision among the sites ranked at least as high.
    pub average_precision: f64,
    /// F at the threshold that would have been best.
    pub best_f: f64,
    /// Pages read for a verdict.
    pub pages: f64,
    /// Of the sites found relevant, the mean confidence.
    pub confidence_of_finds: f64,
    /// 1 − Brier score / Brier score of the share of targets as the confidence of every site.
    pub brier_skill: f64,
}

/// A measure and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// As measured.
    pub value: f64,
    /// The ends of the interval.
    pub low: f64,
    /// Likewise.
    pub high: f64,
}

/// The sites found relevant with a confidence in one range.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FindsInRange {
    /// The lower end of the range; its width is 0.1.
    pub from: f64,
    /// Their number, mean over draws.
    pub finds: f64,
    /// Their mean confidence.
    pub confidence: f64,
    /// The share of them that is of the topic.
    pub share_of_targets: f64,
}

/// How well confidences of finds tell what share of them is of the topic. Most sites are easily judged
/// irrelevant, and would hide that.
#[must_use]
pub fn reliability(results: &[OpenResult]) -> Vec<FindsInRange> {
    let mut ranges = [0.5, 0.6, 0.7, 0.8, 0.9].map(|from| FindsInRange {
        from,
        ..FindsInRange::default()
    });
    for result in results {
        let finds = result.draws.iter().flatten().map(|judged| &judged.outcome);
        for find in finds.filter(|outcome| outcome.is_relevant) {
            let confidence = find.confidence.get();
            let range = ranges.iter_mut().rev();
            let Some(range) = { range }.find(|range| confidence >= range.from) else {
                continue;
            };
            #[allow(clippy::cast_precision_loss, reason = "there are few draws")]
            let weight = 1.0 / result.draws.len() as f64;
            range.finds += weight;
            range.confidence += weight * confidence;
            range.share_of_targets += weight * f64::from(u8::from(find.is_target));
        }
    }
    let ranges = ranges.into_iter().filter(|range| range.finds > 0.0);
    let ranges = ranges.map(|range| FindsInRange {
        confidence: range.confidence / range.finds,
        share_of_targets: range.share_of_targets / range.finds,
        ..range
    });
    ranges.collect()
}

// === impl OpenMeasures ===

impl OpenMeasures {
    /// Names for tables and JSON, in the order of [`Self::values`].
    pub const NAMES: [&str; 8] = [
        "precision",
        "recall",
        "f_measure",
        "average_precision",
        "best_f",
        "pages_per_site",
        "confidence_of_finds",
        "brier_skill",
    ];

    /// All measures.
    #[must_use]
    pub fn values(&self) -> [f64; 8] {
        [
            self.precision,
            self.recall,
            self.f_measure,
            self.average_precision,
            self.best_f,
            self.pages,
            self.confidence_of_finds,
            self.brier_skill,
        ]
    }

    fn from_values(values: [f64; 8]) -> Self {
        let [
            precision,
            recall,
            f_measure,
            average_precision,
            best_f,
            pages,
            confidence_of_finds,
            brier_skill,
        ] = values;
        Self {
            precision,
            recall,
            f_measure,
            average_precision,
            best_f,
            pages,
            confidence_of_finds,
            brier_skill,
        }
    }

    /// Of verdicts with weights.
    #[must_use]
    pub(crate) fn of<'a>(judged: impl Iterator<Item = (&'a Judged, f64)>) -> Self {
        let mut ranked: Vec<(f64, &Outcome, f64)> = judged
            .map(|(judged, weight)| {
                let confidence = judged.outcome.confidence.get();
                let rank = if judged.is_decided { confidence } else { 0.0 };
                (rank, &judged.outcome, weight)
            })
            .collect();
        ranked.sort_by(|one, other| other.0.total_cmp(&one.0));
        let sum = |of: &dyn Fn(&Outcome) -> f64| -> f64 {
            let terms = ranked
                .iter()
                .map(|(_, outcome, weight)| weight * of(outcome));
            terms.sum()
        };
        let is = |so: bool| f64::from(u8::from(so));
        let sites = sum(&|_| 1.0);
        let targets = sum(&|site| is(site.is_target));
        let finds = sum(&|site| is(site.is_relevant));
        let found = sum(&|site| is(site.is_relevant && site.is_target));
        let base = ratio(targets, sites, 0.0);
        let error_of = |guess: &dyn Fn(&Outcome) -> f64| {
            sum(&|site| (guess(site) - is(site.is_target)).powi(2))
        };
        let brier = error_of(&|site| site.confidence.get());
        let (average_precision, best_f) = of_ranking(&ranked, targets);
        Self {
            precision: ratio(found, finds, 1.0),
            recall: ratio(found, targets, 1.0),
            f_measure: ratio(2.0 * found, finds + targets, 1.0),
            average_precision,
            best_f,
            #[allow(clippy::cast_precision_loss, reason = "no site has 2^53 pages")]
            pages: ratio(sum(&|site| site.pages as f64), sites, 0.0),
            confidence_of_finds: ratio(
                sum(&|site| is(site.is_relevant) * site.confidence.get()),
                finds,
                1.0,
            ),
            brier_skill: 1.0 - ratio(brier, error_of(&|_| base), 1.0),
        }
    }

    /// The mean of each measure.
    #[must_use]
    pub(crate) fn mean(all: impl IntoIterator<Item = Self>) -> Self {
        let mut sums = [0.0; 8];
        let mut number = 0.0;
        for measures in all {
            for (sum, value) in sums.iter_mut().zip(measures.values()) {
                *sum += value;
            }
            number += 1.0;
        }
        Self::from_values(sums.map(|sum| ratio(sum, number, 0.0)))
    }

    /// Means over draws, then topics, each with its interval.
    #[must_use]
    pub(crate) fn with_intervals(results: &[OpenResult], seed: u64) -> [Interval; 8] {
        let mean = Self::mean(results.iter().map(OpenResult::measures)).values();
        let samples: Vec<[f64; 8]> = (0..SAMPLES)
            .into_par_iter()
            .map(|sample| {
                let mut random = Xoshiro256Plus::seed_from_u64(seed.wrapping_add(sample));
                let topics = results.iter().map(|_| results.choose(&mut random));
                let topics: Vec<&OpenResult> = topics.flatten().collect();
                let drawn = topics
                    .into_iter()
                    .map(|topic| resampled(topic, &mut random));
                Self::mean(drawn).values()
            })
            .collect();
        std::array::from_fn(|at| {
            let mut values: Vec<f64> = samples.iter().map(|sample| sample[at]).collect();
            values.sort_by(f64::total_cmp);
            let quantile = |thousandths: usize| values[(values.len() - 1) * thousandths / 1_000];
            Interval {
                value: mean[at],
                low: quantile(25),
                high: quantile(975),
            }
        })
    }
}

/// The measures of a topic whose groups of sites are drawn with replacement. Groups of the topic and
/// others are drawn apart, so that there are always some of both.
fn resampled(topic: &OpenResult, random: &mut impl Rng) -> OpenMeasures {
    let judged = || topic.draws.iter().flatten();
    let of_topic = judged().filter(|judged| judged.outcome.is_target);
    let of_topic: BTreeSet<u32> = of_topic.map(|judged| judged.group).collect();
    let others = judged().map(|judged| judged.group);
    let others: BTreeSet<u32> = others.filter(|group| !of_topic.contains(group)).collect();
    let mut weights: BTreeMap<u32, f64> = BTreeMap::new();
    for groups in [of_topic, others] {
        let groups: Vec<u32> = groups.into_iter().collect();
        for group in groups.iter().filter_map(|_| groups.choose(random)) {
            *weights.entry(*group).or_default() += 1.0;
        }
    }
    let draws = topic.draws.iter().map(|draw| {
        let weigh = |judged: &Judged| weights.get(&judged.group).copied().unwrap_or_default();
        draw.iter().map(move |judged| (judged, weigh(judged)))
    });
    // A draw may be left without a site of the topic, and then says nothing.
    let has_targets = |draw: &Vec<(&Judged, f64)>| {
        draw.iter()
            .any(|(judged, weight)| judged.outcome.is_target && *weight > 0.0)
    };
    let draws = draws.map(Iterator::collect::<Vec<_>>).filter(has_targets);
    OpenMeasures::mean(draws.map(|draw| OpenMeasures::of(draw.into_iter())))
}

/// Average precision and the best F of sites in descending order. Sites of the same rank come together:
/// no threshold parts them.
fn of_ranking(ranked: &[(f64, &Outcome, f64)], targets: f64) -> (f64, f64) {
    let (mut sites, mut found) = (0.0, 0.0);
    let (mut average_precision, mut best_f) = (0.0, 0.0_f64);
    for equals in ranked.chunk_by(|one, other| one.0.total_cmp(&other.0).is_eq()) {
        let before = found;
        for (_, outcome, weight) in equals {
            sites += weight;
            found += f64::from(u8::from(outcome.is_target)) * weight;
        }
        average_precision += ratio(found, sites, 0.0) * ratio(found - before, targets, 0.0);
        best_f = best_f.max(ratio(2.0 * found, sites + targets, 0.0));
    }
    (average_precision, best_f)
}

fn ratio(part: f64, whole: f64, of_nothing: f64) -> f64 {
    if whole > 0.0 {
        part / whole
    } else {
        of_nothing
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::web::SiteConfidence;

    fn judged(confidence: f64, is_target: bool) -> Judged {
        Judged {
            group: 0,
            is_decided: true,
            outcome: Outcome {
                is_relevant: confidence > 0.5,
                confidence: SiteConfidence::new(confidence).unwrap(),
                is_target,
                pages: 2,
            },
        }
    }

    fn measures(judged: &[Judged]) -> OpenMeasures {
        OpenMeasures::of(judged.iter().map(|judged| (judged, 1.0)))
    }

    /// By hand: ranked + − + −, three found, two of them right. Average precision (1 + 2/3) / 2; the
    /// best F is at the third, 2 · 2 / (3 + 2).
    #[test]
    fn measures_by_hand() {
        let sites = [
            judged(0.9, true),
            judged(0.8, false),
            judged(0.7, true),
            judged(0.1, false),
        ];
        let measures = measures(&sites);
        assert!((measures.precision - 2.0 / 3.0).abs() < 1e-12);
        assert!((measures.recall - 1.0).abs() < 1e-12);
        assert!((measures.f_measure - 0.8).abs() < 1e-12);
        assert!((measures.average_precision - 5.0 / 6.0).abs() < 1e-12);
        assert!((measures.best_f - 0.8).abs() < 1e-12);
        assert!((measures.pages - 2.0).abs() < 1e-12);
        assert!((measures.confidence_of_finds - 0.8).abs() < 1e-12);
        // Squared errors 0.01 + 0.64 + 0.09 + 0.01 = 0.75; of one half for all 4 · 0.25.
        assert!((measures.brier_skill - 0.25).abs() < 1e-12);
    }

    /// No order among equals may make a ranking look better: by hand 1/2 for both targets.
    #[test]
    fn sites_of_the_same_confidence_are_ranked_together() {
        for truth in [[true, false], [false, true]] {
            let sites = truth.map(|is_target| judged(0.9, is_target));
            assert!((measures(&sites).average_precision - 0.5).abs() < 1e-12);
        }
    }

    #[test]
    fn what_is_undecided_is_ranked_last() {
        let undecided = Judged {
            is_decided: false,
            ..judged(0.5, true)
        };
        let sites = [undecided, judged(0.2, false)];
        assert!((measures(&sites).average_precision - 0.5).abs() < 1e-12);
    }

    #[test]
    fn intervals_hold_the_mean_and_widen_with_differences_between_topics() {
        let topic = |name: &str, is_right: bool| OpenResult {
            topic: name.to_owned(),
            draws: vec![
                (0..20)
                    .map(|group| Judged {
                        group,
                        ..judged(if (group < 10) == is_right { 0.9 } else { 0.1 }, group < 10)
                    })
                    .collect(),
            ],
            ..OpenResult::default()
        };
        let same = [topic("a", true), topic("b", true)];
        let [precision, ..] = OpenMeasures::with_intervals(&same, 1);
        assert!(
            precision.low > 0.999 && precision.high > 0.999,
            "{precision:?}"
        );
        let different = [topic("a", true), topic("b", false)];
        let [precision, ..] = OpenMeasures::with_intervals(&different, 1);
        assert!((precision.value - 0.5).abs() < 1e-12);
        assert!(
            precision.low < 0.001 && precision.high > 0.999,
            "{precision:?}"
        );
    }

    /// By hand: finds of 0.95 (right), 0.91 (wrong) and 0.62 (right) in the first of two draws, one of
    /// 0.97 (right) in the second. From 0.9: 3 / 2 finds, of which two thirds are right.
    #[test]
    fn finds_are_counted_by_their_confidence() {
        let draw = |sites: &[(f64, bool)]| {
            let sites = sites.iter();
            sites
                .map(|(confidence, is_target)| judged(*confidence, *is_target))
                .collect::<Vec<_>>()
        };
        let result = OpenResult {
            topic: "a".to_owned(),
            draws: vec![
                draw(&[(0.95, true), (0.91, false), (0.62, true), (0.3, true)]),
                draw(&[(0.97, true)]),
            ],
            ..OpenResult::default()
        };
        let ranges = reliability(&[result]);
        let froms: Vec<f64> = ranges.iter().map(|range| range.from).collect();
        assert_eq!(froms, [0.6, 0.9]);
        assert!((ranges[0].finds - 0.5).abs() < 1e-12);
        assert!((ranges[1].finds - 1.5).abs() < 1e-12);
        assert!((ranges[1].share_of_targets - 2.0 / 3.0).abs() < 1e-12);
        assert!((ranges[1].confidence - 2.83 / 3.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn measures_are_shares_and_the_best_f_is_best(
            sites in prop::collection::vec((0_u8..=20, any::<bool>()), 1..40),
        ) {
            let sites: Vec<Judged> = sites
                .into_iter()
                .map(|(confidence, is_target)| judged(f64::from(confidence) / 20.0, is_target))
                .collect();
            let measures = measures(&sites);
            for value in &measures.values()[..5] {
                prop_assert!((0.0..=1.0 + 1e-12).contains(value));
            }
            let has_targets = sites.iter().any(|site| site.outcome.is_target);
            prop_assert!(!has_targets || measures.best_f + 1e-12 >= measures.f_measure);
        }
    }
}
