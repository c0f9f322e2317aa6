//! One pass over HTML: text by part, links as written, what the head says.
//!
//! The tokeniser follows the WHATWG standard to the letter; the tree that browsers build
//! from its tokens is replaced by a few counters. Where they stand in for the tree:
//!
//! - Raw text (`script`, `style`, `title`, `textarea` and so on) is switched on by the tag,
//!   except inside drawings, where the same names are ordinary elements.
//! - We run no scripts, so `<noscript>` is read as a browser without scripts reads it: as
//!   markup. Frames are read, so `<noframes>` is not.
//! - A `<template>` shows nothing until its end tag.
//! - An anchor ends with its end tag, with the next anchor, or with the table cell it was
//!   opened in. Two anchors in a row are two words, even if only a style sheet parts them:
//!   that is how menus are written.
//! - A heading ends with any heading's tag, or with the block that holds it.
//!
//! Invariant: no state grows with depth.

use html5gum::{Emitter, Error, State, Tokenizer};

use crate::web::{Language, LinkKind, PagePart, RobotsDirectives};

use super::tags::{Attribute, Attributes, Tag};
use super::text::TextBuilder;
use super::{PRODUCT_TOKEN, add_robots_rules, charset};

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
    /// What the links refer to, one after the other.
    references: String,
    pub(super) base: Option<String>,
    pub(super) canonical: Option<String>,
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

/// Reads a document.
pub(super) fn read(text: &str, markup: Markup) -> Document {
    let mut tokenizer = Tokenizer::new_with_emitter(text, Reader::new(markup));
    // The reader gives one token, the document, at the end of the text.
    let Some(Ok(end)) = tokenizer.next() else {
        return Document::default();
    };
    end.document
}

/// The label of the charset that a `<meta>` at the beginning of a document declares.
pub(super) fn prescan_charset(start: &[u8]) -> Option<String> {
    let mut reader = Reader::new(Markup::Html);
    reader.stops_at_charset = true;
    let Ok(end) = Tokenizer::new_with_emitter(start, reader).next()?;
    end.charset
}

/// What the reader hands over when it is done.
#[derive(Debug)]
struct End {
    document: Document,
    charset: Option<String>,
}

/// What becomes of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sink {
    Page,
    Title,
    /// The title of a drawing describes it, as an alternative text does.
    Alt,
    Nothing,
}

#[derive(Debug)]
struct OpenAnchor {
    /// Which link it makes, if it makes one.
    link: Option<usize>,
    is_in_cell: bool,
}

#[derive(Debug)]
struct Reader {
    document: Document,
    markup: Markup,
    sink: Sink,
    /// Characters since the last tag.
    characters: Vec<u8>,
    has_title: bool,
    anchor: Option<OpenAnchor>,
    /// Blocks opened inside of the open heading.
    heading: Option<u32>,
    cells: u32,
    templates: u32,
    /// Drawings and formulas, and HTML inside of them.
    foreign: u32,
    foreign_objects: u32,

    tag_name: Vec<u8>,
    tag: Tag,
    is_end_tag: bool,
    is_self_closing: bool,
    attributes: Attributes,
    last_start_tag: Vec<u8>,

    stops_at_charset: bool,
    charset: Option<String>,
    end: Option<Box<End>>,
}

// === impl Document ===

impl Document {
    /// What a link refers to.
    pub(super) fn reference(&self, link: &RawLink) -> &str {
        &self.references[link.reference.0..link.reference.1]
    }

    /// Adds a link and says where in the list it stands.
    fn add_link(&mut self, reference: &str, kind: LinkKind, nofollow: bool) -> usize {
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
        self.add_link(target, LinkKind::Refresh, false);
        self.links.rotate_right(1);
    }

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
}

// === impl Reader ===

impl Reader {
    fn new(markup: Markup) -> Self {
        Self {
            document: Document::default(),
            markup,
            sink: Sink::Page,
            characters: Vec::new(),
            has_title: false,
            anchor: None,
            heading: None,
            cells: 0,
            templates: 0,
            foreign: 0,
            foreign_objects: 0,
            tag_name: Vec::new(),
            tag: Tag::Other,
            is_end_tag: false,
            is_self_closing: false,
            attributes: Attributes::default(),
            last_start_tag: Vec::new(),
            stops_at_charset: false,
            charset: None,
            end: None,
        }
    }

    fn is_foreign(&self) -> bool {
        self.foreign > 0 && self.foreign_objects == 0
    }

    /// Hands on the characters since the last tag.
    fn flush(&mut self) {
        if self.characters.is_empty() {
            return;
        }
        let text = &mut self.document.text;
        match self.sink {
            _ if self.templates > 0 => {}
            Sink::Page => {
                // `<a name>` marks a place; what follows is no link.
                let is_link = self
                    .anchor
                    .as_ref()
                    .is_some_and(|anchor| anchor.link.is_some());
                let part = match self.heading {
                    Some(_) => PagePart::Heading,
                    None if is_link => PagePart::Anchor,
                    None => PagePart::Body,
                };
                // Browsers drop zeros from the text of a page (WHATWG HTML, section 13.2.6.4.7).
                if self.characters.contains(&0) {
                    self.characters.retain(|byte| *byte != 0);
                }
                text.push(part, &mut self.characters);
            }
            Sink::Title => {
                text.push_aside(PagePart::Title, &String::from_utf8_lossy(&self.characters))
            }
            Sink::Alt => text.push_aside(PagePart::Alt, &String::from_utf8_lossy(&self.characters)),
            Sink::Nothing => {}
        }
        self.characters.clear();
    }

    fn start_tag(&mut self) -> Option<State> {
        if self.is_foreign() && breaks_out_of_foreign(self.tag) {
            self.foreign = 0;
        }
        if self.tag == Tag::Template && !self.is_foreign() {
            self.templates += 1;
        }
        if self.templates == 0 {
            self.read_start_tag();
        }
        if self.is_self_closing && (self.markup == Markup::Xml || self.is_foreign()) {
            self.end_tag();
            return None;
        }
        let next = self.next_state();
        if next.is_some() {
            self.last_start_tag.clone_from(&self.tag_name);
        }
        next
    }

    /// Which kind of text follows a start tag, and what becomes of it.
    fn next_state(&mut self) -> Option<State> {
        if self.is_foreign() && self.tag == Tag::Title {
            self.sink = Sink::Alt;
            return None;
        }
        self.sink = Sink::Page;
        let (state, sink) = match self.tag {
            Tag::Title if self.has_title => (State::RcData, Sink::Nothing),
            Tag::Title => (State::RcData, Sink::Title),
            Tag::Textarea => (State::RcData, Sink::Page),
            Tag::Xmp => (State::RawText, Sink::Page),
            Tag::Plaintext => (State::PlainText, Sink::Page),
            Tag::Script => (State::ScriptData, Sink::Nothing),
            Tag::Hidden | Tag::Iframe => (State::RawText, Sink::Nothing),
            _ => return None,
        };
        if self.tag == Tag::Title && self.templates == 0 {
            self.has_title = true;
        }
        self.sink = sink;
        Some(state)
    }

    fn finish(&mut self) {
        self.end = Some(Box::new(End {
            document: std::mem::take(&mut self.document),
            charset: self.charset.take(),
        }));
    }

    fn read_start_tag(&mut self) {
        match self.tag {
            Tag::A => self.open_anchor(),
            Tag::Area => {
                // The alternative text is what the reader clicks on.
                let link = self.push_link(Attribute::Href, LinkKind::Area);
                self.push_alt();
                if let Some(link) = link {
                    self.document.links[link].anchor.1 = self.document.text.mark();
                }
            }
            Tag::Frame | Tag::Iframe => {
                self.push_link(Attribute::Src, LinkKind::Frame);
            }
            Tag::Image => self.push_alt(),
            Tag::Base => {
                let href = self.attributes.get(Attribute::Href);
                if let (None, Some(href)) = (&self.document.base, href) {
                    self.document.base = Some(href.to_owned());
                }
            }
            Tag::Html => {
                let lang = self.attributes.get(Attribute::Lang);
                self.document.language = self
                    .document
                    .language
                    .or_else(|| lang.and_then(Language::from_tag));
            }
            Tag::Link => self.read_link(),
            Tag::Meta => self.read_meta(),
            Tag::Script => self.document.has_scripts = true,
            Tag::LineBreak => self.document.text.part_lines(),
            Tag::Heading => {
                self.document.text.part_lines();
                self.heading = Some(0);
            }
            Tag::Cell => {
                self.close_anchor_of_cell();
                self.cells += 1;
                self.open_block();
            }
            Tag::Block | Tag::Textarea | Tag::Xmp | Tag::Plaintext => self.open_block(),
            Tag::Foreign => self.foreign += 1,
            Tag::ForeignObject if self.foreign > 0 => self.foreign_objects += 1,
            _ => {}
        }
    }

    fn end_tag(&mut self) {
        self.sink = Sink::Page;
        if self.tag == Tag::Template {
            self.templates = self.templates.saturating_sub(1);
        }
        if self.templates > 0 {
            return;
        }
        match self.tag {
            Tag::A => self.close_anchor(),
            Tag::Heading => {
                self.heading = None;
                self.document.text.part_lines();
            }
            Tag::Cell => {
                self.close_anchor_of_cell();
                self.cells = self.cells.saturating_sub(1);
                self.close_block();
            }
            Tag::LineBreak => self.document.text.part_lines(),
            Tag::Block | Tag::Textarea | Tag::Xmp => self.close_block(),
            Tag::Foreign => self.foreign = self.foreign.saturating_sub(1),
            Tag::ForeignObject => self.foreign_objects = self.foreign_objects.saturating_sub(1),
            _ => {}
        }
    }

    fn open_block(&mut self) {
        self.document.text.part_lines();
        if let Some(blocks) = &mut self.heading {
            *blocks += 1;
        }
    }

    /// The end of a block that was opened before the heading also ends the heading. A stray
    /// `</p>` does not: browsers make an empty paragraph of it.
    fn close_block(&mut self) {
        self.document.text.part_lines();
        self.heading = match self.heading {
            Some(0) if self.tag_name == b"p" => Some(0),
            Some(0) | None => None,
            Some(blocks) => Some(blocks - 1),
        };
    }

    fn open_anchor(&mut self) {
        self.close_anchor();
        self.document.text.part_anchors();
        let link = self.push_link(Attribute::Href, LinkKind::Anchor);
        self.anchor = Some(OpenAnchor {
            link,
            is_in_cell: self.cells > 0,
        });
    }

    fn close_anchor(&mut self) {
        if let Some(link) = self.anchor.take().and_then(|anchor| anchor.link) {
            self.document.links[link].anchor.1 = self.document.text.mark();
        }
    }

    fn close_anchor_of_cell(&mut self) {
        if self.anchor.as_ref().is_some_and(|anchor| anchor.is_in_cell) {
            self.close_anchor();
        }
    }

    fn push_link(&mut self, attribute: Attribute, kind: LinkKind) -> Option<usize> {
        let reference = self.attributes.get(attribute)?;
        let nofollow = ["nofollow", "ugc", "sponsored"]
            .iter()
            .any(|word| self.attributes.has_word(Attribute::Rel, word));
        Some(self.document.add_link(reference, kind, nofollow))
    }

    fn push_alt(&mut self) {
        if let Some(alt) = self.attributes.get(Attribute::Alt) {
            self.document.text.push_aside(PagePart::Alt, alt);
        }
    }

    fn read_link(&mut self) {
        let Some(href) = self.attributes.get(Attribute::Href) else {
            return;
        };
        if self.attributes.has_word(Attribute::Rel, "canonical") {
            if self.document.canonical.is_none() {
                self.document.canonical = Some(href.to_owned());
            }
        } else if self.attributes.has_word(Attribute::Rel, "next") {
            self.push_link(Attribute::Href, LinkKind::Next);
        }
    }

    fn read_meta(&mut self) {
        if self.stops_at_charset {
            self.read_charset();
            return;
        }
        let attributes = &self.attributes;
        let Some(content) = attributes.get(Attribute::Content) else {
            return;
        };
        let is_named = |name| attributes.is(Attribute::Name, name);
        let is_header = |name| attributes.is(Attribute::HttpEquiv, name);
        if is_named("description") || is_named("keywords") {
            self.document.text.push_aside(PagePart::Meta, content);
        } else if is_named("robots") || is_named(PRODUCT_TOKEN) {
            add_robots_rules(&mut self.document.robots, content);
        } else if is_header("refresh") {
            if let Some(target) = refresh_target(content) {
                self.document.add_link(target, LinkKind::Refresh, false);
            }
        } else if is_header("content-language") {
            let language = Language::from_tag(content);
            self.document.language = self.document.language.or(language);
        }
    }

    fn read_charset(&mut self) {
        let attributes = &self.attributes;
        let label = attributes.get(Attribute::Charset).or_else(|| {
            let content = attributes.get(Attribute::Content)?;
            let is_type = attributes.is(Attribute::HttpEquiv, "content-type");
            is_type
                .then(|| charset::charset_parameter(content))
                .flatten()
        });
        if let Some(label) = label.map(str::trim).filter(|label| !label.is_empty()) {
            self.charset = Some(label.to_owned());
            self.finish();
        }
    }
}

/// Tags that end a drawing left open (WHATWG HTML, section 13.2.6.5), as far as we know them.
fn breaks_out_of_foreign(tag: Tag) -> bool {
    matches!(
        tag,
        Tag::Block | Tag::Heading | Tag::LineBreak | Tag::Image | Tag::Meta
    )
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

/// The tokeniser calls these; most of the time nothing needs to be done.
impl Emitter for Reader {
    type Token = Box<End>;

    fn set_last_start_tag(&mut self, last_start_tag: Option<&[u8]>) {
        self.last_start_tag.clear();
        self.last_start_tag
            .extend_from_slice(last_start_tag.unwrap_or_default());
    }

    fn emit_eof(&mut self) {
        self.flush();
        self.close_anchor();
        self.finish();
    }

    fn emit_error(&mut self, _: Error) {}

    #[inline]
    fn should_emit_errors(&mut self) -> bool {
        false
    }

    #[inline]
    fn pop_token(&mut self) -> Option<Box<End>> {
        // Asked after every step of the tokeniser: taking nothing would still write.
        match self.end {
            None => None,
            Some(_) => self.end.take(),
        }
    }

    #[inline]
    fn emit_string(&mut self, characters: &[u8]) {
        if self.sink != Sink::Nothing {
            self.characters.extend_from_slice(characters);
        }
    }

    fn init_start_tag(&mut self) {
        self.tag_name.clear();
        self.attributes.clear();
        self.is_end_tag = false;
        self.is_self_closing = false;
    }

    fn init_end_tag(&mut self) {
        self.tag_name.clear();
        self.attributes.clear();
        self.is_end_tag = true;
        self.is_self_closing = false;
    }

    fn init_comment(&mut self) {}

    fn emit_current_tag(&mut self) -> Option<State> {
        self.attributes.end_name();
        self.tag = Tag::named(&self.tag_name);
        if self.tag == Tag::Other {
            // Inline tags change nothing, not even the word they stand in.
            if self.sink != Sink::Page {
                self.flush();
                self.sink = Sink::Page;
            }
            return None;
        }
        self.flush();
        if self.is_end_tag {
            self.end_tag();
            return None;
        }
        self.start_tag()
    }

    fn emit_current_comment(&mut self) {}

    fn emit_current_doctype(&mut self) {}

    fn set_self_closing(&mut self) {
        self.is_self_closing = true;
    }

    fn set_force_quirks(&mut self) {}

    fn push_tag_name(&mut self, name: &[u8]) {
        self.tag_name.extend_from_slice(name);
    }

    fn push_comment(&mut self, _: &[u8]) {}

    fn push_doctype_name(&mut self, _: &[u8]) {}

    fn init_doctype(&mut self) {}

    fn init_attribute(&mut self) {
        if !self.is_end_tag && Tag::named(&self.tag_name).has_wanted_attributes() {
            self.attributes.begin();
        }
    }

    fn push_attribute_name(&mut self, name: &[u8]) {
        self.attributes.push_name(name);
    }

    fn push_attribute_value(&mut self, value: &[u8]) {
        self.attributes.push_value(value);
    }

    fn set_doctype_public_identifier(&mut self, _: &[u8]) {}

    fn set_doctype_system_identifier(&mut self, _: &[u8]) {}

    fn push_doctype_public_identifier(&mut self, _: &[u8]) {}

    fn push_doctype_system_identifier(&mut self, _: &[u8]) {}

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        self.is_end_tag && !self.tag_name.is_empty() && self.tag_name == self.last_start_tag
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&mut self) -> bool {
        self.markup == Markup::Xml || self.is_foreign()
    }
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
