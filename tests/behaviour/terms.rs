//! Terms: which words of a text the classifier counts.

use proptest::prelude::*;
use sitescout::parse::words::for_each_term;
use sitescout::web::{PagePart, ParsedPage};

use crate::html;

fn terms(page: &ParsedPage) -> Vec<String> {
    let mut terms = Vec::new();
    for_each_term(page, |_, term| terms.push(term.to_owned()));
    terms
}

#[test]
fn words_are_lowered_stopped_and_stemmed_by_language() {
    let english = html(
        "<p>The sailing boats were leaving the old harbours, and they don't come back in winter.",
    );
    assert_eq!(
        terms(&english),
        [
            "sail", "boat", "leav", "old", "harbour", "come", "back", "winter"
        ]
    );
    let german =
        html("<p>Die Segelboote verließen die alten Häfen und sie kommen im Winter nicht zurück.");
    assert_eq!(
        terms(&german),
        [
            "segelboot",
            "verliess",
            "alt",
            "haf",
            "komm",
            "wint",
            "zuruck"
        ]
    );
    let russian =
        html("<p>Парусные лодки выходили из старых гаваней, и зимой они не возвращаются на озеро.");
    assert_eq!(
        terms(&russian),
        [
            "парусн",
            "лодк",
            "выход",
            "стар",
            "гаван",
            "зим",
            "возвраща",
            "озер"
        ]
    );
}

#[test]
fn one_spelling_for_composed_and_decomposed_letters() {
    let composed = terms(&html("<p lang=x>caf\u{e9} ﬁsh"));
    let decomposed = terms(&html("<p lang=x>cafe\u{301} fish"));
    assert_eq!(composed, decomposed);
}

#[test]
fn a_word_may_run_through_several_parts() {
    let page = html("<p>sailing <a href=x>boat</a>s and <b>dingh</b>ies <img alt=buoy> tar");
    let mut found = Vec::new();
    for_each_term(&page, |part, term| {
        found.push(format!("{} {term}", part.name()));
    });
    assert_eq!(
        found,
        [
            "body sailing",
            "anchor boats",
            "body and",
            "body dinghies",
            "alt buoy",
            "body tar"
        ]
    );
}

#[test]
fn scripts_without_spaces_give_pairs_of_characters() {
    let japanese = html("<meta charset=utf-8><p>港のヨット Kiel 船");
    assert_eq!(
        terms(&japanese),
        ["港の", "のヨ", "ヨッ", "ット", "kiel", "船"]
    );
    let thai = html("<meta charset=utf-8><p>เรือ");
    assert_eq!(terms(&thai), ["เร", "รื", "ือ"]);
    let korean = html("<meta charset=utf-8><p>한국어 단어");
    assert_eq!(terms(&korean), ["한국어", "단어"]);
}

#[test]
fn numbers_and_digests_are_no_terms() {
    let digest = "0123456789abcdef".repeat(5);
    let page = html(format!("<p>2026 3.14 12:30 4x4 {digest} B2B"));
    assert_eq!(terms(&page), ["4x4", "b2b"]);
}

#[test]
fn terms_know_their_part_of_the_page() {
    let page = html(
        "<title>Knots</title><meta name=keywords content=rigging><h1>Splices</h1>\
         <p>hemp <a href=/x>bowline</a> <img alt=picture>",
    );
    let mut found = Vec::new();
    for_each_term(&page, |part, term| found.push((part, term.to_owned())));
    let parts: Vec<PagePart> = found.iter().map(|(part, _)| *part).collect();
    assert_eq!(
        parts,
        [
            PagePart::Title,
            PagePart::Meta,
            PagePart::Heading,
            PagePart::Body,
            PagePart::Anchor,
            PagePart::Alt,
        ]
    );
}

proptest! {
    #[test]
    fn any_text_gives_terms_that_are_not_empty_and_not_upper_case(text in "\\PC{0,200}") {
        let page = html(format!("<meta charset=utf-8><plaintext>{text}"));
        for term in terms(&page) {
            prop_assert!(!term.is_empty());
            prop_assert!(!term.chars().any(|c| c.is_ascii_uppercase()), "{}", term);
        }
    }
}
