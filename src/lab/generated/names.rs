//! From the number of a site to its host, and back.
//!
//! A host is made of two words and a code, `harbour-lantern-4k2.example`. The code is the
//! number of the site, shuffled; the words follow from it, and a host with other words does not
//! exist.

use super::seeded_random::SeededRandom;
use super::words::{TOPICS, WORDS, WebLanguage};
use super::{GeneratedWeb, category_of};

/// Top-level domain of all sites, reserved by RFC 2606.
const TOP: &str = ".example";

/// Odd, so that multiplication by it permutes the numbers of any fixed number of bits.
const SHUFFLE: u64 = 0x9E37_79B1;

pub(super) fn host(web: &GeneratedWeb, site: u64) -> String {
    let code = base36(shuffled(web, site));
    let mut random = web.random("name", &[site]);
    let mut word = |probability: f64| {
        let category = if random.is(probability) {
            &WORDS.categories[category_of(site)]
        } else {
            &WORDS.general
        };
        let nouns = &category.vocabulary(WebLanguage::English).nouns;
        loop {
            let noun = &nouns[random.early(nouns.len())];
            if noun.is_ascii() {
                return noun.as_str();
            }
        }
    };
    // Host names often contain a word of the category, but not always.
    let probability = if category_of(site) < TOPICS { 0.4 } else { 0.3 };
    format!("{}-{}-{code}{TOP}", word(probability), word(probability))
}

/// The site of a host and the subdomain, which may be empty: `a.b` in
/// `a.b.harbour-lantern-4k2.example`.
pub(super) fn site_of<'h>(web: &GeneratedWeb, host: &'h str) -> Option<(u64, &'h str)> {
    let host = host.strip_prefix("www.").unwrap_or(host);
    let name = host.strip_suffix(TOP)?;
    let (below, name) = name.rsplit_once('.').unwrap_or(("", name));
    let (_, code) = name.rsplit_once('-')?;
    let site = unshuffled(web, u64::from_str_radix(code, 36).ok()?)?;
    let is_it = self::host(web, site).strip_suffix(TOP) == Some(name);
    is_it.then_some((site, below))
}

/// Number of bits of a code.
fn bits(web: &GeneratedWeb) -> u32 {
    (u64::BITS - web.sites.leading_zeros()).max(16)
}

fn mask(web: &GeneratedWeb) -> u64 {
    (1 << bits(web)) - 1
}

fn shuffled(web: &GeneratedWeb, site: u64) -> u64 {
    (site ^ web.seed).wrapping_mul(SHUFFLE) & mask(web)
}

fn unshuffled(web: &GeneratedWeb, code: u64) -> Option<u64> {
    let site = (code.wrapping_mul(inverse(SHUFFLE)) ^ web.seed) & mask(web);
    (code <= mask(web) && site < web.sites).then_some(site)
}

/// The multiplicative inverse of an odd number modulo 2^64 (Newton's method: each round
/// doubles the correct bits).
fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    for _ in 0..6 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse
}

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        let digit = u32::try_from(number % 36).unwrap_or_default();
        digits.extend(char::from_digit(digit, 36));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

pub(super) fn title(web: &GeneratedWeb, site: u64, language: WebLanguage) -> String {
    let mut random: SeededRandom = web.random("title", &[site]);
    let said = WORDS.boilerplate(language);
    let nouns = |category: &super::words::Category, random: &mut SeededRandom| {
        let nouns = &category.vocabulary(language).nouns;
        capitalised(&nouns[random.early(nouns.len())])
    };
    let category = &WORDS.categories[category_of(site)];
    let place = random.pick::<str, _>(&said.places).to_owned();
    match random.below(4) {
        0 => format!("{} {place}", nouns(category, &mut random)),
        1 => format!(
            "{} {}",
            nouns(category, &mut random),
            nouns(&WORDS.general, &mut random)
        ),
        2 => format!("{place} {}", nouns(&WORDS.general, &mut random)),
        _ => {
            let surname = random.pick::<str, _>(&said.people).to_owned();
            format!("{} {surname}", nouns(category, &mut random))
        }
    }
}

/// With the first letter in upper case.
pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn hosts_are_unique_and_lead_back() {
        for seed in [0, 1, u64::MAX] {
            for sites in [100, 20_000, 1_000_000_000] {
                let web = GeneratedWeb::new(sites, seed);
                let numbers = (0..100).chain(sites.saturating_sub(100)..sites);
                let mut seen = BTreeSet::new();
                for site in numbers.collect::<BTreeSet<_>>() {
                    let host = host(&web, site);
                    assert_eq!(site_of(&web, &host), Some((site, "")), "{host}");
                    let below = format!("x.y.{host}");
                    assert_eq!(site_of(&web, &below), Some((site, "x.y")));
                    assert!(seen.insert(host));
                }
            }
        }
    }

    #[test]
    fn other_hosts_do_not_exist() {
        let web = GeneratedWeb::new(1_000, 1);
        let host = host(&web, 7);
        let (_, rest) = host.split_once('-').unwrap();
        for other in [
            "example".to_owned(),
            "plain.example".to_owned(),
            format!("wrong-{rest}"),
            host.replace(".example", ".test"),
            "a-b-zzzzzzzzzzzzzzzzzzzz.example".to_owned(),
            "a-b-ü.example".to_owned(),
        ] {
            assert_eq!(site_of(&web, &other), None, "{other}");
        }
    }
}
