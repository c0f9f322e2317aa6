//! The tags and attributes that affect text and links.

/// What a tag means for text and links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    A,
    Area,
    Base,
    /// Breaks the line and closes nothing: `<br>`, `<hr>`.
    LineBreak,
    /// Begins and ends lines.
    Block,
    /// A table cell: like a block, and an anchor left open inside ends with it.
    Cell,
    Frame,
    Heading,
    Html,
    Iframe,
    /// An image or a button with an alt text.
    Image,
    /// `<image>`: an element of drawings, and elsewhere an old spelling of `<img>`.
    OldImage,
    Noscript,
    Link,
    Meta,
    /// HTML inside a drawing.
    ForeignObject,
    /// Content that browsers keep as text and do not show: `<style>`, `<noframes>`.
    Hidden,
    Plaintext,
    Script,
    /// Like a block; cells belong to the innermost one.
    Table,
    /// A drawing or formula, with parsing rules of its own.
    Foreign,
    Template,
    /// Content that browsers keep as text and show: `<textarea>`.
    Textarea,
    Title,
    Xmp,
    /// Everything inline.
    Other,
}

impl Tag {
    /// The tokeniser has lower-cased the name.
    pub(super) fn named(name: &[u8]) -> Self {
        match name {
            b"a" => Self::A,
            b"area" => Self::Area,
            b"base" => Self::Base,
            b"br" | b"hr" => Self::LineBreak,
            b"td" | b"th" | b"caption" => Self::Cell,
            b"frame" => Self::Frame,
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => Self::Heading,
            b"html" => Self::Html,
            b"iframe" => Self::Iframe,
            b"img" | b"input" => Self::Image,
            b"image" => Self::OldImage,
            b"noscript" => Self::Noscript,
            b"link" => Self::Link,
            b"meta" => Self::Meta,
            b"foreignobject" => Self::ForeignObject,
            b"style" | b"noframes" | b"noembed" => Self::Hidden,
            b"plaintext" => Self::Plaintext,
            b"script" => Self::Script,
            b"table" => Self::Table,
            b"svg" | b"math" => Self::Foreign,
            b"template" => Self::Template,
            b"textarea" => Self::Textarea,
            b"title" => Self::Title,
            b"xmp" => Self::Xmp,
            b"address" | b"article" | b"aside" | b"blockquote" | b"body" | b"button"
            | b"center" | b"dd" | b"details" | b"dialog" | b"dir" | b"div" | b"dl" | b"dt"
            | b"fieldset" | b"figcaption" | b"figure" | b"footer" | b"form" | b"frameset"
            | b"head" | b"header" | b"hgroup" | b"legend" | b"li" | b"listing" | b"main"
            | b"menu" | b"nav" | b"ol" | b"optgroup" | b"option" | b"p" | b"pre" | b"search"
            | b"section" | b"select" | b"summary" | b"tbody" | b"tfoot" | b"thead" | b"tr"
            | b"ul" => Self::Block,
            _ => Self::Other,
        }
    }

    /// Whether any attribute of the tag matters.
    pub(super) fn has_wanted_attributes(self) -> bool {
        matches!(
            self,
            Self::A
                | Self::Area
                | Self::Base
                | Self::Frame
                | Self::Html
                | Self::Iframe
                | Self::Image
                | Self::OldImage
                | Self::Link
                | Self::Meta
        )
    }
}

/// Whether a start tag ends a drawing left open (WHATWG HTML, section 13.2.6.5).
pub(super) fn breaks_out_of_drawing(name: &[u8]) -> bool {
    const NAMES: &str = " b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 \
        h6 head hr i img li listing menu meta nobr ol p pre ruby s small span strong strike sub sup \
        table tt u ul var ";
    let Ok(name) = std::str::from_utf8(name) else {
        return false;
    };
    NAMES.split_ascii_whitespace().any(|known| known == name)
}

/// The attributes that matter; the discriminant is the index in [`Attributes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attribute {
    Alt,
    Charset,
    Content,
    Href,
    HttpEquiv,
    Lang,
    Name,
    Rel,
    Src,
}

const ATTRIBUTES: usize = 9;

impl Attribute {
    fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"alt" => Self::Alt,
            b"charset" => Self::Charset,
            b"content" => Self::Content,
            b"href" => Self::Href,
            b"http-equiv" => Self::HttpEquiv,
            b"lang" | b"xml:lang" => Self::Lang,
            b"name" => Self::Name,
            b"rel" => Self::Rel,
            b"src" => Self::Src,
            _ => return None,
        })
    }
}

/// The attributes of the current tag. Buffers are reused from tag to tag.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    values: [Vec<u8>; ATTRIBUTES],
    is_set: [bool; ATTRIBUTES],
    name: Vec<u8>,
    state: Reading,
}

/// The tokeniser's position in an attribute.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Before the first attribute, or in a tag whose attributes do not matter.
    #[default]
    Nothing,
    Name,
    Value(Attribute),
    /// An attribute that does not matter, or the second of its name: the first one counts.
    Ignored,
}

impl Attributes {
    pub(super) fn clear(&mut self) {
        self.is_set = [false; ATTRIBUTES];
        self.state = Reading::Nothing;
    }

    pub(super) fn begin(&mut self) {
        self.end_name();
        self.name.clear();
        self.state = Reading::Name;
    }

    pub(super) fn push_name(&mut self, bytes: &[u8]) {
        if self.state == Reading::Name {
            self.name.extend_from_slice(bytes);
        }
    }

    pub(super) fn push_value(&mut self, bytes: &[u8]) {
        self.end_name();
        if let Reading::Value(attribute) = self.state {
            self.values[attribute as usize].extend_from_slice(bytes);
        }
    }

    /// The name is complete; an attribute without a value has an empty one.
    pub(super) fn end_name(&mut self) {
        if self.state != Reading::Name {
            return;
        }
        self.state = match Attribute::named(&self.name) {
            Some(attribute) if !self.is_set[attribute as usize] => {
                self.is_set[attribute as usize] = true;
                self.values[attribute as usize].clear();
                Reading::Value(attribute)
            }
            _ => Reading::Ignored,
        };
    }

    /// The value, if the tag has the attribute.
    pub(super) fn get(&self, attribute: Attribute) -> Option<&str> {
        if !self.is_set[attribute as usize] {
            return None;
        }
        // The document is UTF-8, and the tokeniser splits no character.
        std::str::from_utf8(&self.values[attribute as usize]).ok()
    }

    /// Whether the value has this word among its white-space-separated words, case-insensitively.
    pub(super) fn has_word(&self, attribute: Attribute, word: &str) -> bool {
        self.get(attribute).is_some_and(|value| {
            value
                .split_ascii_whitespace()
                .any(|found| found.eq_ignore_ascii_case(word))
        })
    }

    /// Whether the value is this word, case-insensitively.
    pub(super) fn is(&self, attribute: Attribute, word: &str) -> bool {
        self.get(attribute)
            .is_some_and(|value| value.trim().eq_ignore_ascii_case(word))
    }
}
