//! From the tokeniser's calls to whole tags.
//!
//! html5gum calls back for every piece of a tag as it meets it. Here the pieces are put
//! together, attributes only where they matter, and a [`TagReader`] gets text and tags.
//! Comments, document types and syntax errors are nobody's business.

use html5gum::{Emitter, Error, State, Tokenizer};

use super::tags::{Attributes, Tag};

/// Whoever reads a document, text by text and tag by tag.
pub(super) trait TagReader {
    /// Characters. They come in pieces, which may even split a character.
    fn text(&mut self, bytes: &[u8]);

    /// A start or end tag. Returns the state that the text after it is to be read in, if
    /// it is not ordinary.
    fn tag(&mut self, tag: &CurrentTag) -> Option<State>;

    /// The document is over.
    fn end(&mut self) {}

    /// Whether CDATA is text here, as in XML and in drawings.
    fn has_cdata(&self) -> bool {
        false
    }

    /// Whether the rest of the document does not matter.
    fn is_done(&self) -> bool {
        false
    }
}

/// A tag as far as it has been read.
#[derive(Debug)]
pub(super) struct CurrentTag {
    pub(super) name: Vec<u8>,
    pub(super) tag: Tag,
    pub(super) is_end: bool,
    pub(super) is_self_closing: bool,
    pub(super) attributes: Attributes,
}

/// Reads a document and gives the reader back.
pub(super) fn read<R: TagReader>(input: &[u8], reader: R) -> R {
    let mut tokenizer = Tokenizer::new_with_emitter(input, TagEmitter::new(reader));
    match tokenizer.next() {
        Some(Ok(reader)) => reader,
        // The one token there is comes at the end, and a slice has an end.
        None => unreachable!("the tokeniser ended without telling its emitter"),
    }
}

/// Gives one token, the reader itself, when there is nothing left to read.
struct TagEmitter<R> {
    reader: Option<R>,
    current: CurrentTag,
    /// The start tag that raw text must be ended by.
    last_start_tag: Vec<u8>,
    is_over: bool,
    /// Whether the name of the current tag has been looked up.
    is_named: bool,
}

impl<R: TagReader> TagEmitter<R> {
    fn new(reader: R) -> Self {
        let current = CurrentTag {
            name: Vec::new(),
            tag: Tag::Other,
            is_end: false,
            is_self_closing: false,
            attributes: Attributes::default(),
        };
        Self {
            reader: Some(reader),
            current,
            last_start_tag: Vec::new(),
            is_over: false,
            is_named: false,
        }
    }

    /// The name is complete when the first attribute or the end of the tag comes.
    fn look_up_name(&mut self) {
        if !self.is_named {
            self.current.tag = Tag::named(&self.current.name);
            self.is_named = true;
        }
    }

    fn begin_tag(&mut self, is_end: bool) {
        self.is_named = false;
        self.current.name.clear();
        self.current.attributes.clear();
        self.current.is_end = is_end;
        self.current.is_self_closing = false;
    }
}

impl<R: TagReader> Emitter for TagEmitter<R> {
    type Token = R;

    fn set_last_start_tag(&mut self, last_start_tag: Option<&[u8]>) {
        self.last_start_tag.clear();
        self.last_start_tag
            .extend_from_slice(last_start_tag.unwrap_or_default());
    }

    fn emit_eof(&mut self) {
        if let Some(reader) = &mut self.reader {
            reader.end();
        }
        self.is_over = true;
    }

    fn emit_error(&mut self, _: Error) {}

    #[inline]
    fn should_emit_errors(&mut self) -> bool {
        false
    }

    #[inline]
    fn pop_token(&mut self) -> Option<R> {
        // Asked after every step of the tokeniser, so it must cost nothing.
        if self.is_over {
            return self.reader.take();
        }
        None
    }

    #[inline]
    fn emit_string(&mut self, characters: &[u8]) {
        if let Some(reader) = &mut self.reader {
            reader.text(characters);
        }
    }

    fn init_start_tag(&mut self) {
        self.begin_tag(false);
    }

    fn init_end_tag(&mut self) {
        self.begin_tag(true);
    }

    fn init_comment(&mut self) {}

    fn emit_current_tag(&mut self) -> Option<State> {
        self.current.attributes.end_name();
        self.look_up_name();
        let reader = self.reader.as_mut()?;
        let state = reader.tag(&self.current);
        self.is_over = reader.is_done();
        if state.is_some() {
            self.last_start_tag.clone_from(&self.current.name);
        }
        state
    }

    fn emit_current_comment(&mut self) {}

    fn emit_current_doctype(&mut self) {}

    fn set_self_closing(&mut self) {
        self.current.is_self_closing = true;
    }

    fn set_force_quirks(&mut self) {}

    fn push_tag_name(&mut self, name: &[u8]) {
        self.current.name.extend_from_slice(name);
    }

    fn push_comment(&mut self, _: &[u8]) {}

    fn push_doctype_name(&mut self, _: &[u8]) {}

    fn init_doctype(&mut self) {}

    fn init_attribute(&mut self) {
        self.look_up_name();
        if !self.current.is_end && self.current.tag.has_wanted_attributes() {
            self.current.attributes.begin();
        }
    }

    fn push_attribute_name(&mut self, name: &[u8]) {
        self.current.attributes.push_name(name);
    }

    fn push_attribute_value(&mut self, value: &[u8]) {
        self.current.attributes.push_value(value);
    }

    fn set_doctype_public_identifier(&mut self, _: &[u8]) {}

    fn set_doctype_system_identifier(&mut self, _: &[u8]) {}

    fn push_doctype_public_identifier(&mut self, _: &[u8]) {}

    fn push_doctype_system_identifier(&mut self, _: &[u8]) {}

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        self.current.is_end
            && !self.current.name.is_empty()
            && self.current.name == self.last_start_tag
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&mut self) -> bool {
        self.reader.as_ref().is_some_and(TagReader::has_cdata)
    }
}
