//! Who links to whom.
//!
//! Links of a topical site lead to its own topic with the probability that is called
//! locality, for one half of them unless told otherwise (Chakrabarti, van den Berg and Dom
//! measured such radius-one locality on the web, 1999, section 2). Within a category the
//! target is drawn by popularity, which follows a power law. Some sites are popular with
//! everybody and relevant to nobody.

use super::profile::{Oddity, Profile};
use super::seeded_random::{SeededRandom, index};
use super::words::{CATEGORIES, TOPICS, WORDS};
use super::{GeneratedWeb, category_of};

/// The first sites of each background category are linked to from everywhere.
const UNIVERSAL_PLACES: u64 = 3;

/// The sites that a site links to, the first ones from its homepage.
pub(super) fn targets(web: &GeneratedWeb, profile: &Profile) -> Vec<u64> {
    let site = profile.site;
    let mut chance = web.chance("links", &[site]);
    let number = match (profile.oddity, profile.is_hub) {
        (Oddity::Farm, _) => chance.around(60.0, 0.3),
        (_, true) => chance.around(70.0, 0.4),
        (_, false) => chance.around(9.0, 0.7),
    };
    let number = (number as usize).clamp(2, 200);
    let mut targets = Vec::with_capacity(number);
    // Competitors and repetitions are drawn again, but not for ever.
    for _ in 0..3 * number {
        if targets.len() == number {
            break;
        }
        let target = target(web, profile, &mut chance);
        if target == site || targets.contains(&target) || is_competitor(web, profile, target) {
            continue;
        }
        targets.push(target);
    }
    targets
}

fn target(web: &GeneratedWeb, profile: &Profile, chance: &mut SeededRandom) -> u64 {
    let category = profile.category;
    if profile.oddity == Oddity::Farm {
        return farm(web, chance);
    }
    let share = chance.share();
    let locality = if profile.is_hub {
        f64::midpoint(web.locality, 1.0)
    } else {
        web.locality
    };
    // What is left is shared by neighbours, by the sites everybody knows, and by the rest.
    let rest = 1.0 - locality;
    match share {
        _ if category < TOPICS && share < locality => popular(web, category, chance),
        _ if category < TOPICS && share < locality + 0.25 * rest => {
            popular(web, neighbour(category, chance), chance)
        }
        _ if share > 1.0 - 0.25 * rest => universal(chance),
        _ if category >= TOPICS && share < 0.15 => {
            let topic = match profile.guest_topic {
                Some(topic) if chance.is(0.5) => topic,
                _ => index(chance.below(TOPICS as u64)),
            };
            popular(web, topic, chance)
        }
        _ => {
            let background = (CATEGORIES.len() - TOPICS) as u64;
            let category = TOPICS + index(chance.below(background));
            popular(web, category, chance)
        }
    }
}

/// A site of a category by popularity: the k-th of them has a probability of about k^-0.6.
pub(super) fn popular(web: &GeneratedWeb, category: usize, chance: &mut SeededRandom) -> u64 {
    let slots = CATEGORIES.len() as u64;
    let places = (web.sites.saturating_sub(category as u64)).div_ceil(slots);
    let place = (places as f64 * chance.share().powf(2.5)) as u64;
    (place.min(places.saturating_sub(1)) * slots + category as u64).min(web.sites - 1)
}

/// Another topic of the same field.
fn neighbour(category: usize, chance: &mut SeededRandom) -> usize {
    let field = WORDS.categories[category].field;
    let others: Vec<usize> = (0..TOPICS)
        .filter(|other| *other != category && WORDS.categories[*other].field == field)
        .collect();
    let at = index(chance.below(others.len().max(1) as u64));
    others.get(at).copied().unwrap_or(category)
}

fn universal(chance: &mut SeededRandom) -> u64 {
    let slots = CATEGORIES.len() as u64;
    let background = slots - TOPICS as u64;
    chance.below(UNIVERSAL_PLACES) * slots + TOPICS as u64 + chance.below(background)
}

/// Another link farm near a place that is drawn.
fn farm(web: &GeneratedWeb, chance: &mut SeededRandom) -> u64 {
    let begin = chance.below(web.sites);
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
