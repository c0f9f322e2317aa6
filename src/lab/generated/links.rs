//! Which site links to which.
//!
//! A link of a topical site leads to its own topic with a probability called locality, 0.5 by
//! default (Chakrabarti, van den Berg and Dom measured such radius-one locality on the web,
//! 1999, section 2). Within a category the target is drawn by popularity, which follows a power
//! law. Some sites are linked to from everywhere and relevant to no topic.

use super::profile::{Oddity, Profile};
use super::seeded_random::{SeededRandom, index};
use super::words::{CATEGORIES, TOPICS, WORDS};
use super::{GeneratedWeb, category_of};

/// The first sites of each background category are linked to from everywhere.
const UNIVERSAL_PLACES: u64 = 3;

/// The sites that a site links to; the homepage has the first of them.
pub(super) fn targets(web: &GeneratedWeb, profile: &Profile) -> Vec<u64> {
    let site = profile.site;
    let mut random = web.random("links", &[site]);
    let number = match (profile.oddity, profile.is_hub) {
        (Oddity::Farm, _) => random.around(60.0, 0.3),
        (_, true) => random.around(70.0, 0.4),
        (_, false) => random.around(9.0, 0.7),
    };
    let number = (number as usize).clamp(2, 200);
    let mut targets = Vec::with_capacity(number);
    // Competitors and duplicates are redrawn, within limits.
    for _ in 0..3 * number {
        if targets.len() == number {
            break;
        }
        let target = target(web, profile, &mut random);
        if target == site || targets.contains(&target) || is_competitor(web, profile, target) {
            continue;
        }
        targets.push(target);
    }
    targets
}

fn target(web: &GeneratedWeb, profile: &Profile, random: &mut SeededRandom) -> u64 {
    let category = profile.category;
    if profile.oddity == Oddity::Farm {
        return farm(web, random);
    }
    let share = random.share();
    let locality = if profile.is_hub {
        f64::midpoint(web.locality, 1.0)
    } else {
        web.locality
    };
    // The rest: a quarter to neighbouring topics, a quarter to universal sites, then others.
    let rest = 1.0 - locality;
    match share {
        _ if category < TOPICS && share < locality => popular(web, category, random),
        _ if category < TOPICS && share < locality + 0.25 * rest => {
            popular(web, neighbour(category, random), random)
        }
        _ if share > 1.0 - 0.25 * rest => universal(random),
        _ if category >= TOPICS && share < 0.15 => {
            let topic = match profile.guest_topic {
                Some(topic) if random.is(0.5) => topic,
                _ => index(random.below(TOPICS as u64)),
            };
            popular(web, topic, random)
        }
        _ => {
            let background = (CATEGORIES.len() - TOPICS) as u64;
            let other = TOPICS + index(random.below(background));
            popular(web, other, random)
        }
    }
}

/// A site of a category by popularity: the k-th has a probability proportional to k^-0.6.
pub(super) fn popular(web: &GeneratedWeb, category: usize, random: &mut SeededRandom) -> u64 {
    let slots = CATEGORIES.len() as u64;
    let places = (web.sites.saturating_sub(category as u64)).div_ceil(slots);
    let place = (places as f64 * random.share().powf(2.5)) as u64;
    (place.min(places.saturating_sub(1)) * slots + category as u64).min(web.sites - 1)
}

/// Another topic of the same field.
fn neighbour(category: usize, random: &mut SeededRandom) -> usize {
    let field = WORDS.categories[category].field;
    let others: Vec<usize> = (0..TOPICS)
        .filter(|other| *other != category && WORDS.categories[*other].field == field)
        .collect();
    let at = index(random.below(others.len().max(1) as u64));
    others.get(at).copied().unwrap_or(category)
}

fn universal(random: &mut SeededRandom) -> u64 {
    let slots = CATEGORIES.len() as u64;
    let background = slots - TOPICS as u64;
    random.below(UNIVERSAL_PLACES) * slots + TOPICS as u64 + random.below(background)
}

/// Another link farm, the next one after a random site.
fn farm(web: &GeneratedWeb, random: &mut SeededRandom) -> u64 {
    let begin = random.below(web.sites);
    let numbers = (begin..web.sites).chain(0..begin).take(2_000);
    let mut farms = numbers
        .filter(|site| category_of(*site) >= TOPICS)
        .filter(|site| Profile::of(web, *site).oddity == Oddity::Farm);
    farms.next().unwrap_or(begin)
}

fn is_competitor(web: &GeneratedWeb, profile: &Profile, target: u64) -> bool {
    profile.is_commercial
        && category_of(target) == profile.category
        && Profile::of(web, target).is_commercial
}
