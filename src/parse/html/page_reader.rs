//! What browsers do with tags, as far as it affects text and links.
//!
//! Where counters replace the tree:
//!
//! - Raw text (`script`, `style`, `title`, `textarea` and so on) is switched on by the tag.
//!   Inside drawings a `title` is an ordinary element, and self-closing tags close their elements.
//! - We run no scripts, so `<noscript>` is parsed as markup. But frames and refreshes in it are
//!   ignored: they are for tracking. Frames elsewhere are followed, so `<noframes>` is ignored.
//! - A `<template>` shows nothing until its end tag.
//! - An anchor ends with its end tag, with the next anchor, or with the table cell it was
//!   opened in. Two adjacent anchors are two words, even without white space between them: that is
//!   how menus are written.
//! - A heading ends with any heading tag, or with the block that holds it.
//!
//! Invariant: state does not grow with nesting depth, nor without limit with the number of tags: links
//! and runs of text have limits of their own.

use html5gum::State;

use crate::web::{Language, LinkKind, PagePart};

use super::super::{PRODUCT_TOKEN, add_robots_rules};
use super::tags::{Attribute, Tag, breaks_out_of_drawing};
use super::tokens::{CurrentTag, TagReader};
use super::{Document, Markup, refresh_target};

/// Builds a [`Document`] from tokens.
#[derive(Debug)]
pub(super) struct PageReader {
    document: Document,
    markup: Markup,
    sink: Sink,
    /// Characters since the last tag that matters.
    characters: Vec<u8>,
    has_title: bool,
    anchor: Option<OpenAnchor>,
    /// The number of blocks open inside the open heading.
    heading: Option<u32>,
    tables: u32,
    templates: u32,
    noscripts: u32,
    /// Open drawings and formulas (SVG, `MathML`).
    foreign: u32,
    /// HTML inside of them.
    foreign_objects: u32,
}

/// Where text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sink {
    Page,
    Title,
    /// The title of a drawing describes it, as an alt text does.
    Alt,
    Nothing,
}

#[derive(Debug)]
struct OpenAnchor {
    /// Whether it has a target; `<a name>` does not.
    is_link: bool,
    /// Its index in the document's links, if it was kept.
    link: Option<usize>,
    /// The number of tables around it.
    tables: u32,
}

impl PageReader {
    pub(super) fn new(document: Document, markup: Markup) -> Self {
        Self {
            document,
            markup,
            sink: Sink::Page,
            characters: Vec::new(),
            has_title: false,
            anchor: None,
            heading: None,
            tables: 0,
            templates: 0,
            noscripts: 0,
            foreign: 0,
            foreign_objects: 0,
        }
    }

    pub(super) fn into_document(self) -> Document {
        self.document
    }

    fn is_foreign(&self) -> bool {
        self.foreign > 0 && self.foreign_objects == 0
    }

    /// Passes the characters since the last tag on to the text.
    fn flush(&mut self) {
        if self.characters.is_empty() {
            return;
        }
        let text = &mut self.document.text;
        match self.sink {
            _ if self.templates > 0 => {}
            Sink::Page => {
                // Browsers drop zeros from the text of a page (WHATWG HTML, section 13.2.6.4.7).
                if self.characters.contains(&0) {
                    self.characters.retain(|byte| *byte != 0);
                }
                let is_link = self.anchor.as_ref().is_some_and(|anchor| anchor.is_link);
                let part = match self.heading {
                    Some(_) => PagePart::Heading,
                    None if is_link => PagePart::Anchor,
                    None => PagePart::Body,
                };
                text.push(part, &mut self.characters);
            }
            Sink::Title => text.push_aside(PagePart::Title, &self.characters),
            Sink::Alt => text.push_aside(PagePart::Alt, &self.characters),
            Sink::Nothing => {}
        }
        self.characters.clear();
    }

    fn start_tag(&mut self, tag: &CurrentTag) -> Option<State> {
        if tag.tag == Tag::Template && !self.is_foreign() {
            self.templates += 1;
        }
        if self.templates == 0 {
            self.read_start_tag(tag);
        }
        if tag.is_self_closing && self.has_cdata() {
            self.end_tag(tag);
            return None;
        }
        self.next_state(tag.tag)
    }

    /// The tokeniser state for the text after a start tag; also sets where that text goes.
    fn next_state(&mut self, tag: Tag) -> Option<State> {
        if self.is_foreign() && tag == Tag::Title {
            self.sink = Sink::Alt;
            return None;
        }
        self.sink = Sink::Page;
        let (state, sink) = match tag {
            Tag::Title if self.has_title => (State::RcData, Sink::Nothing),
            Tag::Title => (State::RcData, Sink::Title),
            Tag::Textarea => (State::RcData, Sink::Page),
            Tag::Xmp => (State::RawText, Sink::Page),
            Tag::Plaintext => (State::PlainText, Sink::Page),
            Tag::Script => (State::ScriptData, Sink::Nothing),
            Tag::Hidden | Tag::Iframe => (State::RawText, Sink::Nothing),
            _ => return None,
        };
        if tag == Tag::Title && self.templates == 0 {
            self.has_title = true;
        }
        self.sink = sink;
        Some(state)
    }

    fn read_start_tag(&mut self, tag: &CurrentTag) {
        match tag.tag {
            Tag::A => self.open_anchor(tag),
            Tag::Area => self.read_area(tag),
            Tag::Frame | Tag::Iframe if self.noscripts == 0 => {
                self.push_link(tag, Attribute::Src, LinkKind::Frame);
            }
            Tag::Image => self.push_alt(tag),
            Tag::OldImage if !self.is_foreign() => self.push_alt(tag),
            Tag::Noscript => self.noscripts += 1,
            Tag::Base => {
                let href = tag.attributes.get(Attribute::Href);
                if let (None, Some(href)) = (&self.document.base, href) {
                    self.document.base = Some(href.to_owned());
                }
            }
            Tag::Html => self.declare_language(tag.attributes.get(Attribute::Lang)),
            Tag::Link => self.read_link(tag),
            Tag::Meta => self.read_meta(tag),
            Tag::Script => self.document.has_scripts = true,
            Tag::LineBreak => self.document.text.break_line(),
            Tag::Heading => {
                self.document.text.break_line();
                self.heading = Some(0);
            }
            Tag::Cell => {
                self.close_anchor_of_cell();
                self.open_block();
            }
            Tag::Table => {
                self.tables += 1;
                self.open_block();
            }
            Tag::Block | Tag::Textarea | Tag::Xmp | Tag::Plaintext => self.open_block(),
            Tag::Foreign => self.foreign += 1,
            Tag::ForeignObject if self.foreign > 0 => self.foreign_objects += 1,
            _ => {}
        }
    }

    fn end_tag(&mut self, tag: &CurrentTag) {
        self.sink = Sink::Page;
        if tag.tag == Tag::Template {
            self.templates = self.templates.saturating_sub(1);
        }
        if self.templates > 0 {
            return;
        }
        match tag.tag {
            Tag::A => self.close_anchor(),
            Tag::Heading => {
                self.heading = None;
                self.document.text.break_line();
            }
            Tag::Cell => {
                self.close_anchor_of_cell();
                self.close_block(tag);
            }
            Tag::Table => {
                self.close_anchor_of_cell();
                self.tables = self.tables.saturating_sub(1);
                self.close_block(tag);
            }
            Tag::LineBreak => self.document.text.break_line(),
            Tag::Block | Tag::Textarea | Tag::Xmp => self.close_block(tag),
            Tag::Foreign => self.foreign = self.foreign.saturating_sub(1),
            Tag::Noscript => self.noscripts = self.noscripts.saturating_sub(1),
            Tag::ForeignObject => self.foreign_objects = self.foreign_objects.saturating_sub(1),
            _ => {}
        }
    }

    fn open_block(&mut self) {
        self.document.text.break_line();
        if let Some(blocks) = &mut self.heading {
            *blocks += 1;
        }
    }

    /// The end of a block that was opened before the heading also ends the heading. A stray
    /// `</p>` does not: browsers make an empty paragraph of it.
    fn close_block(&mut self, tag: &CurrentTag) {
        self.document.text.break_line();
        self.heading = match self.heading {
            Some(0) if tag.name == b"p" => Some(0),
            Some(0) | None => None,
            Some(blocks) => Some(blocks - 1),
        };
    }

    fn open_anchor(&mut self, tag: &CurrentTag) {
        self.close_anchor();
        self.document.text.separate_anchors();
        self.anchor = Some(OpenAnchor {
            is_link: tag.attributes.get(Attribute::Href).is_some(),
            link: self.push_link(tag, Attribute::Href, LinkKind::Anchor),
            tables: self.tables,
        });
    }

    fn close_anchor(&mut self) {
        if let Some(link) = self.anchor.take().and_then(|anchor| anchor.link) {
            self.document.links[link].anchor.1 = self.document.text.mark();
        }
    }

    fn close_anchor_of_cell(&mut self) {
        // An anchor around a whole table continues through its cells.
        let is_of_this_table =
            |anchor: &OpenAnchor| anchor.tables > 0 && anchor.tables == self.tables;
        if self.anchor.as_ref().is_some_and(is_of_this_table) {
            self.close_anchor();
        }
    }

    fn push_link(&mut self, tag: &CurrentTag, to: Attribute, kind: LinkKind) -> Option<usize> {
        let reference = tag.attributes.get(to)?;
        let nofollow = ["nofollow", "ugc", "sponsored"]
            .iter()
            .any(|word| tag.attributes.has_word(Attribute::Rel, word));
        self.document.add_link(reference, kind, nofollow)
    }

    fn push_alt(&mut self, tag: &CurrentTag) {
        if let Some(alt) = tag.attributes.get(Attribute::Alt) {
            self.document.text.push_aside(PagePart::Alt, alt.as_bytes());
        }
    }

    fn read_area(&mut self, tag: &CurrentTag) {
        let link = self.push_link(tag, Attribute::Href, LinkKind::Area);
        // The alt text is the anchor text.
        self.push_alt(tag);
        if let Some(link) = link {
            self.document.links[link].anchor.1 = self.document.text.mark();
        }
    }

    fn read_link(&mut self, tag: &CurrentTag) {
        let Some(href) = tag.attributes.get(Attribute::Href) else {
            return;
        };
        if tag.attributes.has_word(Attribute::Rel, "canonical") {
            if self.document.canonical.is_none() {
                self.document.canonical = Some(href.to_owned());
            }
        } else if tag.attributes.has_word(Attribute::Rel, "next") {
            self.push_link(tag, Attribute::Href, LinkKind::Next);
        }
    }

    fn read_meta(&mut self, tag: &CurrentTag) {
        let Some(content) = tag.attributes.get(Attribute::Content) else {
            return;
        };
        let is_named = |name| tag.attributes.is(Attribute::Name, name);
        let is_header = |name| tag.attributes.is(Attribute::HttpEquiv, name);
        if is_named("description") || is_named("keywords") {
            self.document
                .text
                .push_aside(PagePart::Meta, content.as_bytes());
        } else if is_named("robots") || is_named(PRODUCT_TOKEN) {
            add_robots_rules(&mut self.document.robots, content);
        } else if is_header("refresh") && self.noscripts == 0 {
            if let Some(target) = refresh_target(content) {
                self.document.add_link(target, LinkKind::Refresh, false);
            }
        } else if is_header("content-language") {
            self.declare_language(Some(content));
        }
    }

    /// The first declaration counts.
    fn declare_language(&mut self, tag: Option<&str>) {
        let language = &mut self.document.language;
        *language = language.or_else(|| tag.and_then(Language::from_tag));
    }
}

impl TagReader for PageReader {
    #[inline]
    fn text(&mut self, bytes: &[u8]) {
        if self.sink != Sink::Nothing {
            self.characters.extend_from_slice(bytes);
        }
    }

    fn tag(&mut self, tag: &CurrentTag) -> Option<State> {
        if self.is_foreign() {
            // The title of a drawing may have elements in it; they are part of the title.
            if self.sink == Sink::Alt && tag.tag != Tag::Title {
                return None;
            }
            let is_paragraph_end = tag.is_end && tag.name == b"p";
            if is_paragraph_end || (!tag.is_end && breaks_out_of_drawing(&tag.name)) {
                self.foreign = 0;
            }
        }
        // Inline tags change nothing, not even the word they are in.
        if tag.tag == Tag::Other {
            return None;
        }
        self.flush();
        if tag.is_end {
            self.end_tag(tag);
            return None;
        }
        self.start_tag(tag)
    }

    fn end(&mut self) {
        self.flush();
        self.close_anchor();
    }

    fn has_cdata(&self) -> bool {
        self.markup == Markup::Xml || self.is_foreign()
    }
}
