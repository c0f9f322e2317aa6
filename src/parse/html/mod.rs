//! HTML without a tree: one pass that finds visible text and links.
//!
//! The tokeniser follows the WHATWG standard to the letter ([`tokens`]); a few counters instead of a
//! document tree decide what browsers would do with its tokens ([`page_reader`]).
//! `benches/agreement.py` measures the agreement with a parser that builds the tree; the results are
//! in `benches/README.md`.

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

/// The syntax of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Markup {
    Html,
    /// Self-closing tags close their elements, and CDATA is text.
    Xml,
}

/// The result of one pass.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) text: TextBuilder,
    pub(super) links: Vec<RawLink>,
    /// Further links are left out: a link of eight bytes in a body takes forty here.
    max_links: usize,
    /// The references of all links, concatenated.
    references: String,
    /// The first `<base href>`.
    pub(super) base: Option<String>,
    /// The first `<link rel=canonical>`.
    pub(super) canonical: Option<String>,
    /// Declared by `<html lang>` or a `<meta>`.
    pub(super) language: Option<Language>,
    pub(super) robots: RobotsDirectives,
    pub(super) has_scripts: bool,
}

/// An unresolved link.
#[derive(Debug)]
pub(super) struct RawLink {
    /// Its range in the document's references.
    reference: (usize, usize),
    pub(super) kind: LinkKind,
    pub(super) nofollow: bool,
    /// The range of its anchor in the text.
    pub(super) anchor: (usize, usize),
}

/// Parses a document, with at most `max_links` links.
pub(super) fn read(text: &str, markup: Markup, max_links: usize) -> Document {
    // About a third of a page is text; growing the buffer step by step would copy it twice.
    let document = Document {
        text: TextBuilder::with_capacity(text.len() / 3),
        max_links,
        ..Document::default()
    };
    tokens::read(text.as_bytes(), PageReader::new(document, markup)).into_document()
}

/// The charset label declared by a `<meta>` at the beginning of a document.
pub(super) fn prescan_charset(start: &[u8]) -> Option<String> {
    tokens::read(start, CharsetReader::default()).label
}

// === impl Document ===

impl Document {
    /// All of it as [`PagePart::Body`].
    pub(super) fn from_plain_text(text: &str) -> Self {
        let mut document = Self::default();
        for line in text.lines() {
            document.text.break_line();
            document
                .text
                .push(PagePart::Body, &mut line.as_bytes().to_vec());
        }
        document
    }

    /// The reference of a link, as written.
    pub(super) fn reference(&self, link: &RawLink) -> &str {
        &self.references[link.reference.0..link.reference.1]
    }

    /// Adds a link, unless there are too many, and returns its index.
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

    /// Adds the target of a `Refresh` header, before all links of the document.
    pub(super) fn add_refresh(&mut self, target: &str) {
        self.push_link(target, LinkKind::Refresh, false);
        self.links.rotate_right(1);
    }
}

/// Finds the first `<meta>` that declares a charset.
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

/// The URL in `5; url=page.html`, in all spellings that browsers accept (WHATWG HTML,
/// section 4.2.5.3). A refresh without one reloads the page and is not a link.
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
