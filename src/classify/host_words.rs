//! What the name of a host says, beside its pages.
//!
//! People name sites for what they are about, often in English where their pages are not. A host name
//! runs words together (`lionkickboxing`), so terms of the vocabulary are looked for from the left, the
//! longest first. As terms are stems, they are mostly the beginnings of words, as they must be here.

use crate::web::SiteId;

/// Shorter terms are found in names that do not mean them.
const MIN_BYTES: usize = 4;

/// Longer terms are not looked for.
const MAX_BYTES: usize = 20;

/// The terms in the name that the owner of a site chose, in order of their numbers, each once.
#[must_use]
pub(crate) fn host_words<T: Ord>(site: &SiteId, number: impl Fn(&str) -> Option<T>) -> Vec<T> {
    let pieces = site.owner_chosen_name().split('.');
    // What international names are encoded as is not words.
    let pieces = pieces.filter(|label| !label.starts_with("xn--"));
    let pieces = pieces.flat_map(|label| label.split(|letter: char| !letter.is_ascii_alphabetic()));
    let mut found = Vec::new();
    for piece in pieces {
        let mut rest = piece;
        while rest.len() >= MIN_BYTES {
            let lengths = (MIN_BYTES..=MAX_BYTES.min(rest.len())).rev();
            let longest = lengths.into_iter().find_map(|length| {
                let term = number(&rest[..length])?;
                Some((length, term))
            });
            let length = longest.map_or(1, |(length, term)| {
                found.push(term);
                length
            });
            rest = &rest[length..];
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TERMS: [&str; 7] = [
        "box",
        "kick",
        "kickbox",
        "lion",
        "skate",
        "skateboard",
        "github",
    ];

    fn words(host: &str) -> Vec<&'static str> {
        let number = |word: &str| TERMS.iter().position(|term| *term == word);
        let found = host_words(&host.parse().unwrap(), number);
        found.into_iter().map(|at| TERMS[at]).collect()
    }

    #[test]
    fn the_longest_terms_are_found_where_words_run_together() {
        assert_eq!(words("lionkickboxing.example"), ["kickbox", "lion"]);
        assert_eq!(words("my-skateboards.example"), ["skateboard"]);
        assert_eq!(words("sk8-skate.club.example"), ["skate"]);
        // Found from the left: what begins inside of a longer term is part of it.
        assert_eq!(words("kicklion-kick.example"), ["kick", "lion"]);
    }

    #[test]
    fn what_the_owner_did_not_choose_is_not_looked_at() {
        assert_eq!(words("lion.github.io"), ["lion"]);
        assert_eq!(words("www.lion.co.uk:8080"), ["lion"]);
        assert!(words("192.0.2.1").is_empty());
        assert!(words("[2001:db8::1]").is_empty());
        // `box` is too short, and the encoded label of an international name is no word.
        assert!(words("box.example").is_empty());
        assert!(words("xn--lion-0ra.example").is_empty());
    }

    proptest! {
        #[test]
        fn every_term_that_is_found_is_in_the_name(name in "[a-z]{1,12}(-?(kick|lion|skate)){0,4}") {
            for word in words(&format!("{name}.example")) {
                prop_assert!(name.contains(word));
            }
        }
    }
}
