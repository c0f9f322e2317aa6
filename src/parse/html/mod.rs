//! HTML without a tree: one pass that finds what a browser shows and where it leads.
//!
//! The tokeniser follows the WHATWG standard to the letter ([`tokens`]); what browsers do
//! with its tokens is decided by a few counters instead of a document tree
//! ([`page_reader`]). `benches/agreement.py` measures how far that agrees with a parser that
//! builds the tree; the README has the figures.

mod page_reader;
mod tags;
mod tokens;

use html5gum::State;

use crate::web::{Language, LinkKind, PagePart, RobotsDirectives};

use super::charset;
use super::text::TextBuilder;
use page_reader::PageReader;
use tags::{Attribute, Tag};
use tokens::{CurrentTag, TagReader};

/// Which rules a document follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Markup {
    Html,
    /// Elements can close themselves, and CDATA is text.
    Xml,
}

/// What one pass found.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) text: TextBuilder,
    pub(super) links: Vec<RawLink>,
    /// Further links are left out: a link has eight bytes in a body and forty here.
    max_links: usize,
    /// What the links refer to, one after the other.
    references: String,
    /// The first `<base href>`.
    pub(super) base: Option<String>,
    /// The first `<link rel=canonical>`.
    pub(super) canonical: Option<String>,
    /// What `<html lang>` or a `<meta>` declares.
    pub(super) language: Option<Language>,
    pub(super) robots: RobotsDirectives,
    pub(super) has_scripts: bool,
}

/// A link as it is written, and where in the text its anchor stands.
#[derive(Debug)]
pub(super) struct RawLink {
    /// Where in the document's references its own stands.
    reference: (usize, usize),
    pub(super) kind: LinkKind,
    pub(super) nofollow: bool,
    pub(super) anchor: (usize, usize),
}

/// Reads a document, and the first `max_links` of its links.
pub(super) fn read(text: &str, markup: Markup, max_links: usize) -> Document {
    // About a third of a page is text; growing to it step by step would copy it twice.
    let document = Document {
        text: TextBuilder::with_capacity(text.len() / 3),
        max_links,
        ..Document::default()
    };
    tokens::read(text.as_bytes(), PageReader::new(document, markup)).into_document()
}

/// The label of the charset that a `<meta>` at the beginning of a document declares.
pub(super) fn prescan_charset(start: &[u8]) -> Option<String> {
    tokens::read(start, CharsetReader::default()).label
}

// === impl Document ===

impl Document {
    /// Plain text is one long body.
    pub(super) fn from_plain_text(text: &str) -> Self {
        let mut document = Self::default();
        for line in text.lines() {
            document.text.part_lines();
            document
                .text
                .push(PagePart::Body, &mut line.as_bytes().to_vec());
        }
        document
    }

    /// What a link refers to.
    pub(super) fn reference(&self, link: &RawLink) -> &str {
        &self.references[link.reference.0..link.reference.1]
    }

    /// Adds a link, if there is room for it, and says where in the list it stands.
    fn add_link(&mut self, reference: &str, kind: LinkKind, nofollow: bool) -> Option<usize> {
        let has_room = self.links.len() < self.max_links;
        has_room.then(|| self.push_link(reference, kind, nofollow))
    }

    fn push_link(&mut self, reference: &str, kind: LinkKind, nofollow: bool) -> usize {
        let (start, here) = (self.references.len(), self.text.mark());
        self.references.push_str(reference);
        self.links.push(RawLink {
            reference: (start, self.references.len()),
            kind,
            nofollow,
            anchor: (here, here),
        });
        self.links.len() - 1
    }

    /// Adds where a `Refresh` header leads, before everything the document itself says.
    pub(super) fn add_refresh(&mut self, target: &str) {
        self.push_link(target, LinkKind::Refresh, false);
        self.links.rotate_right(1);
    }
}

/// Looks for a `<meta>` that declares a charset, and for nothing else.
#[derive(Default)]
struct CharsetReader {
    label: Option<String>,
}

impl TagReader for CharsetReader {
    fn text(&mut self, _: &[u8]) {}

    fn tag(&mut self, tag: &CurrentTag) -> Option<State> {
        if tag.is_end {
            return None;
        }
        match tag.tag {
            Tag::Meta => {
                let attributes = &tag.attributes;
                let label = attributes.get(Attribute::Charset).or_else(|| {
                    let content = attributes.get(Attribute::Content)?;
                    let is_type = attributes.is(Attribute::HttpEquiv, "content-type");
                    is_type
                        .then(|| charset::charset_parameter(content))
                        .flatten()
                });
                let label = label.map(str::trim).filter(|label| !label.is_empty());
                self.label = label.map(str::to_owned);
                None
            }
            Tag::Script => Some(State::ScriptData),
            Tag::Hidden => Some(State::RawText),
            Tag::Title => Some(State::RcData),
            _ => None,
        }
    }

    fn is_done(&self) -> bool {
        self.label.is_some()
    }
}

/// The address in `5; url=page.html`, in all the spellings browsers accept (WHATWG HTML,
/// section 4.2.5.3). A refresh without one reloads the page itself and is no link.
pub(super) fn refresh_target(content: &str) -> Option<&str> {
    let rest = content.trim_ascii_start();
    let seconds = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if seconds.len() == rest.len() {
        return None;
    }
    let rest = seconds.trim_ascii_start();
    let rest = rest
        .strip_prefix([';', ','])
        .unwrap_or(rest)
        .trim_ascii_start();
    let mut target = rest;
    if rest
        .get(..3)
        .is_some_and(|word| word.eq_ignore_ascii_case("url"))
        && let Some(value) = rest[3..].trim_ascii_start().strip_prefix('=')
    {
        target = value.trim_ascii_start();
    }
    if let Some(quote) = target.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        target = target[1..].split(quote).next().unwrap_or_default();
    }
    let target = target.trim_ascii();
    (!target.is_empty()).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refresh_targets_are_found_in_all_spellings() {
        for (content, wanted) in [
            ("5; url=page.html", Some("page.html")),
            ("0;URL='a b.html'", Some("a b.html")),
            ("0 , Url = \"x\" trailing", Some("x")),
            ("0;page.html", Some("page.html")),
            ("1.5;url=x", Some("x")),
            ("0;url", Some("url")),
            (" 3", None),
            ("url=x", None),
            ("0;url=", None),
            ("", None),
        ] {
            assert_eq!(refresh_target(content), wanted, "{content}");
        }
    }
}
