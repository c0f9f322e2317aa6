//! From the tokeniser's callbacks to whole tags.
//!
//! html5gum calls back for every piece of a tag. Here the pieces are assembled, attributes only
//! where they matter, and text and tags are passed to a [`TagReader`]. Comments, document types and
//! syntax errors are ignored.

use html5gum::{Emitter, Error, State, Tokenizer};

use super::tags::{Attributes, Tag};

/// Receives the text and the tags of a document.
pub(super) trait TagReader {
    /// Text, in pieces, which may even split a character.
    fn text(&mut self, bytes: &[u8]);

    /// A start or end tag. Returns the tokeniser state for the text after it, if it is not the
    /// default.
    fn tag(&mut self, tag: &CurrentTag) -> Option<State>;

    /// The end of the document.
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

/// The tag being tokenised.
#[derive(Debug)]
pub(super) struct CurrentTag {
    pub(super) name: Vec<u8>,
    pub(super) tag: Tag,
    pub(super) is_end: bool,
    pub(super) is_self_closing: bool,
    pub(super) attributes: Attributes,
}

/// Tokenises a document and returns the reader.
pub(super) fn read<R: TagReader>(input: &[u8], reader: R) -> R {
    let mut tokenizer = Tokenizer::new_with_emitter(input, TagEmitter::new(reader));
    match tokenizer.next() {
        Some(Ok(reader)) => reader,
        // The only token is emitted at the end of the slice.
        None => unreachable!("the tokeniser ended without `emit_eof`"),
    }
}

/// Emits one token, the reader itself, at the end of the document.
struct TagEmitter<R> {
    reader: Option<R>,
    current: CurrentTag,
    /// The start tag whose end tag ends raw text.
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
        // Called after every step of the tokeniser, so it must be cheap.
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
