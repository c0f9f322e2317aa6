//! Any bytes under any content type give a page, and its invariants hold.
#![no_main]

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use libfuzzer_sys::fuzz_target;
use sitescout::classify::Lexicon;
use sitescout::parse::{self, ParseLimits, TermReader};
use sitescout::web::{FetchedPage, Transfer};

const CONTENT_TYPES: [&str; 6] = [
    "text/html",
    "text/html; charset=utf-8",
    "text/html; charset=shift_jis",
    "application/xhtml+xml",
    "text/plain",
    "",
];

fuzz_target!(|data: &[u8]| {
    let Some((choice, body)) = data.split_first() else {
        return;
    };
    let mut headers = HeaderMap::new();
    let content_type = CONTENT_TYPES[usize::from(*choice) % CONTENT_TYPES.len()];
    headers.insert("content-type", HeaderValue::from_static(content_type));
    let page = FetchedPage {
        url: "http://www.example.org/dir/page.html".parse().expect("an address"),
        status: StatusCode::OK,
        headers,
        body: Bytes::copy_from_slice(body),
        truncated: false,
        transfer: Transfer::default(),
    };
    let limits = ParseLimits {
        max_links: 50,
        max_url_bytes: 500,
    };
    let parsed = parse::parse(&page, &limits);
    assert_eq!(parsed, parse::parse(&page, &limits));
    assert!(parsed.intrinsic_links.len() + parsed.transversal_links.len() <= 50);
    let site = page.url.site();
    for link in &parsed.intrinsic_links {
        assert_eq!(link.page.site(), site);
        assert!(link.page.as_str().len() <= 500);
    }
    for link in &parsed.transversal_links {
        assert_ne!(link.site, site);
        assert_eq!(link.page.as_str().parse().as_ref(), Ok(&link.page));
    }
    // A byte of any charset becomes at most three of UTF-8, and an entity is never shorter
    // than its character.
    assert!(parsed.text.len() <= 3 * body.len() + 100);
    let mut reference: BTreeMap<String, u32> = BTreeMap::new();
    parse::words::for_each_term(&parsed, |_, term| {
        assert!(!term.is_empty());
        *reference.entry(term.to_owned()).or_default() += 1;
    });
    let mut reader = TermReader::new(Lexicon::default());
    for _ in 0..2 {
        let terms = reader.count(&parsed);
        let counted = terms.iter().map(|(term, counts)| {
            (reader.numbers().term(term).to_owned(), counts.iter().sum())
        });
        assert_eq!(counted.collect::<BTreeMap<String, u32>>(), reference);
    }
});
