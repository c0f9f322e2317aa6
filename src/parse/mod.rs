//! Parses a response into text, language and links.
//!
//! The steps: `content` decides whether the body is parsed at all, `charset` decodes it, `html`
//! collects `text` and `links`, and `language`, `fingerprint` and `signs` are derived from the text.
//! A [`TermReader`] then counts its terms for the classifier.
//!
//! There is no document tree. A tokeniser that follows the WHATWG standard, and a handful
//! of counters for the places where the tree matters (templates, drawings, open headings
//! and anchors), find what a browser shows in one pass over the bytes.
//!
//! Invariant: parsing never fails and is deterministic. Time is linear in the size of the body,
//! whatever the words and links are, and nesting depth costs nothing.
//!
//! # Memory
//!
//! Parsing a body of `B` bytes takes at most [`PAGE_FACTOR`]` * B + `[`PAGE_BYTES`], the body
//! included, until its terms are counted:
//!
//! | what | at most |
//! |---|---|
//! | the body | `B` |
//! | its characters in UTF-8 | `3 B` in a single-byte charset, nothing if it is UTF-8 |
//! | characters since the last tag, and the text, which both grow by doubling | three times that each |
//! | runs, raw links, links, terms | `MAX_RUNS`, `followed`, `LINK_BYTES`, [`term_reader::MAX_SPELLINGS`]: [`PAGE_BYTES`] together |
//!
//! Callers that parse many pages at once reserve that much beforehand ([`room_for`]).

mod charset;
mod content;
mod fingerprint;
mod html;
mod language;
mod links;
mod signs;
pub mod term_reader;
mod text;
pub mod words;

use std::collections::HashMap;

use http::HeaderName;

use crate::web::{ContentKind, FetchedPage, Language, ParsedPage, RobotsDirectives};
use html::{Document, Markup};
pub use term_reader::TermReader;
pub(crate) use term_reader::{IdleReaders, MAX_IDLE_READERS, TermReaders};

/// Limits on what is taken from a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseLimits {
    /// Maximum number of links taken from one page.
    pub max_links: usize,
    /// Links with longer URLs are dropped.
    pub max_url_bytes: usize,
}

/// Memory for parsing a page, as a multiple of its body.
pub(crate) const PAGE_FACTOR: usize = 16;

/// Memory for parsing a page in addition to that: everything with a limit of its own. Holds for the
/// default of `max_links`.
pub(crate) const PAGE_BYTES: usize = 16 << 20;

/// Maximum memory for parsing a body of this size.
#[must_use]
pub(crate) const fn room_for(body_bytes: usize) -> usize {
    PAGE_BYTES.saturating_add(body_bytes.saturating_mul(PAGE_FACTOR))
}

/// A map with untrusted keys. It is randomly seeded: with a predictable hash, a page could make all
/// its keys collide. Its iteration order must not affect results.
type SeededMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Our name in robots directives of pages.
const PRODUCT_TOKEN: &str = "sitescout";

/// Parses a page. Never fails: other content gives a page without text and links.
#[must_use]
pub fn parse(page: &FetchedPage, limits: &ParseLimits) -> ParsedPage {
    let content_type = page.content_type();
    let content = content::kind(content_type.as_deref(), &page.body);
    if content == ContentKind::Other {
        let nothing = Document::default();
        return finish(page, limits, content, encoding_rs::UTF_8, nothing);
    }
    let site = page.url.site();
    let tld = site.host().rsplit('.').next();
    let (text, charset) = charset::decode(&page.body, content_type.as_deref(), content, tld);
    let markup = if content::is_xml(content_type.as_deref()) {
        Markup::Xml
    } else {
        Markup::Html
    };
    let document = match content {
        ContentKind::PlainText => Document::from_plain_text(&text),
        _ => html::read(&text, markup, links::followed(limits)),
    };
    // It may be three times the size of the body.
    drop(text);
    finish(page, limits, content, charset, document)
}

fn finish(
    page: &FetchedPage,
    limits: &ParseLimits,
    content: ContentKind,
    charset: &'static encoding_rs::Encoding,
    mut document: Document,
) -> ParsedPage {
    let header_robots = header_robots(page);
    let robots = RobotsDirectives {
        noindex: document.robots.noindex || header_robots.noindex,
        nofollow: document.robots.nofollow || header_robots.nofollow,
    };
    let refresh = page.header(&http::header::REFRESH);
    if let Some(target) = refresh.as_deref().and_then(html::refresh_target) {
        document.add_refresh(target);
    }
    let text = std::mem::take(&mut document.text).finish();
    let found = links::resolve(page, &document, &text, charset, robots.nofollow, limits);
    let declared = document.language.or_else(|| {
        let header = page.header(&http::header::CONTENT_LANGUAGE)?;
        Language::from_tag(&header)
    });
    let mut parsed = ParsedPage {
        content,
        charset: charset.name(),
        language: language::of(&text, declared),
        fingerprint: fingerprint::of(&text),
        text,
        intrinsic_links: found.intrinsic,
        transversal_links: found.transversal,
        canonical: found.canonical,
        robots,
        signs: crate::web::Signs::default(),
    };
    parsed.signs = signs::of(page, &parsed, document.has_scripts);
    parsed
}

/// `X-Robots-Tag: noindex`, `X-Robots-Tag: sitescout: nofollow`. A name with a colon opens
/// the rules for one robot, unless it is a rule that takes a value; rules for other robots are
/// ignored.
fn header_robots(page: &FetchedPage) -> RobotsDirectives {
    const RULES_WITH_VALUES: [&str; 4] = [
        "max-snippet",
        "max-image-preview",
        "max-video-preview",
        "unavailable_after",
    ];
    let name = HeaderName::from_static("x-robots-tag");
    let mut robots = RobotsDirectives::default();
    for value in page.headers.get_all(name) {
        let value = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
        let mut is_for_us = true;
        for rule in value.split(',') {
            let rule = match rule.split_once(':') {
                Some((name, _)) if RULES_WITH_VALUES.contains(&name.trim()) => continue,
                Some((agent, rule)) => {
                    is_for_us = agent.trim() == PRODUCT_TOKEN;
                    rule
                }
                None => rule,
            };
            if is_for_us {
                add_robots_rules(&mut robots, rule);
            }
        }
    }
    robots
}

/// Adds a list of rules such as `noindex, nofollow`.
fn add_robots_rules(robots: &mut RobotsDirectives, rules: &str) {
    for rule in rules.split([',', ' ']) {
        match rule.trim().to_ascii_lowercase().as_str() {
            "noindex" => robots.noindex = true,
            "nofollow" => robots.nofollow = true,
            "none" => {
                robots.noindex = true;
                robots.nofollow = true;
            }
            _ => {}
        }
    }
}
