//! Bytes to text, language and links.
//!
//! A page walks through here in one direction: its `content` decides whether it is read at
//! all, its `charset` turns bytes into characters, the reader of `html` collects `text` and
//! `links`, and from the text come `language`, `fingerprint` and `signs`. [`words`] then
//! makes terms of it for the classifier.
//!
//! There is no document tree. A tokeniser that follows the WHATWG standard, and a handful
//! of counters for the places where the tree matters (templates, drawings, open headings
//! and anchors), find what a browser shows in one pass over the bytes.
//!
//! Invariant: any bytes give a page; same bytes, same page. Time and memory are linear in
//! the size of the body, and depth costs nothing.

mod charset;
mod content;
mod fingerprint;
mod html;
mod language;
mod links;
mod signs;
mod text;
pub mod words;

use http::HeaderName;

use crate::web::{ContentKind, FetchedPage, Language, ParsedPage, RobotsDirectives};
use html::{Document, Markup};

/// What bounds the reading of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseLimits {
    /// The most links taken from one page.
    pub max_links: usize,
    /// Links with longer addresses are dropped.
    pub max_url_bytes: usize,
}

/// The name by which pages may address us in robots directives.
const PRODUCT_TOKEN: &str = "sitescout";

/// Reads a page. Never fails: what is no page gives one without text and links.
#[must_use]
pub fn parse(page: &FetchedPage, limits: &ParseLimits) -> ParsedPage {
    let content_type = page.content_type();
    let content = content::kind(content_type.as_deref(), &page.body);
    let site = page.url.site();
    let tld = site.host().rsplit('.').next();
    let (text, charset) = match content {
        ContentKind::Other => (std::borrow::Cow::Borrowed(""), encoding_rs::UTF_8),
        _ => charset::decode(&page.body, content_type.as_deref(), content, tld),
    };
    let document = match content {
        ContentKind::Html if content::is_xml(content_type.as_deref()) => {
            html::read(&text, Markup::Xml)
        }
        ContentKind::Html => html::read(&text, Markup::Html),
        ContentKind::PlainText => Document::from_plain_text(&text),
        ContentKind::Other => Document::default(),
    };
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
/// the rules for one robot, unless it is a rule that takes a value; rules for other robots
/// are none of our business.
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
