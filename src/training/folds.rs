//! Cross-validation by site: assigns sites to folds.
//!
//! Groups stay together: years of one conference or sites of one designer share text, and
//! splitting them across folds overestimates the classifier. Target groups are assigned first,
//! so that every fold tests some; there are never more folds than target groups.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256Plus;

use crate::classify::ExampleSite;

/// Assigns sites to at most `max_folds` folds; each is a list of indices into `sites`.
///
/// None if a class has too few groups: the training sites of each fold must include both classes.
#[must_use]
pub fn folds(sites: &[ExampleSite<'_>], max_folds: usize, seed: u64) -> Option<Vec<Vec<usize>>> {
    let (mut target, mut other) = groups(sites);
    let count = max_folds.min(target.len());
    if count < 2 || other.len() < 2 {
        return None;
    }
    let mut random = Xoshiro256Plus::seed_from_u64(seed);
    let mut folds = vec![Vec::new(); count];
    for groups in [&mut target, &mut other] {
        groups.shuffle(&mut random);
        // The largest first, each to the fold with the fewest sites of its class; a stable sort, so
        // that groups of equal size stay in random order.
        groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
        let mut assigned = vec![0; count];
        for group in groups.iter() {
            let fold = (0..count)
                .min_by_key(|fold| assigned[*fold])
                .unwrap_or_default();
            assigned[fold] += group.len();
            folds[fold].extend(group);
        }
    }
    for fold in &mut folds {
        fold.sort_unstable();
    }
    Some(folds)
}

/// Groups with a target site, and groups without, as indices into `sites`.
fn groups(sites: &[ExampleSite<'_>]) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
    let mut by_group: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, site) in sites.iter().enumerate() {
        by_group.entry(site.group).or_default().push(at);
    }
    let has_target = |group: &Vec<usize>| group.iter().any(|at| sites[*at].is_target());
    by_group.into_values().partition(has_target)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::classify::{Class, any_site};

    fn site(is_target: bool, group: u32) -> ExampleSite<'static> {
        ExampleSite {
            class: if is_target {
                Class::Target
            } else {
                Class::Other
            },
            site: any_site(),
            group,
            is_background: false,
            pages: &[],
        }
    }

    #[test]
    fn too_few_groups_cannot_be_folded() {
        let one = [site(true, 1), site(true, 1), site(false, 2), site(false, 3)];
        assert_eq!(folds(&one, 10, 1), None);
        assert_eq!(folds(&[], 10, 1), None);
    }

    proptest! {
        #[test]
        fn every_site_is_tested_once_with_its_group_and_every_fold_tests_targets(
            labels in prop::collection::vec((any::<bool>(), 0_u32..12), 4..60),
            max_folds in 2_usize..12,
            seed in any::<u64>(),
        ) {
            let sites: Vec<ExampleSite<'_>> =
                labels.iter().map(|(target, group)| site(*target, *group)).collect();
            let Some(folds) = folds(&sites, max_folds, seed) else { return Ok(()) };
            prop_assert!(folds.len() <= max_folds);
            let mut all: Vec<usize> = folds.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..sites.len()).collect::<Vec<_>>());
            for fold in &folds {
                prop_assert!(fold.iter().any(|at| sites[*at].is_target()));
                for at in fold {
                    let group = sites[*at].group;
                    let elsewhere = folds.iter().filter(|other| *other != fold);
                    prop_assert!(
                        !elsewhere.flatten().any(|other| sites[*other].group == group)
                    );
                }
            }
        }
    }
}
