//! The text of a page, each piece with its part of the page.
//!
//! One buffer holds everything in reading order and runs mark the parts, so that the text is stored
//! only once.
//!
//! Invariant: runs follow each other without gap or overlap and cover the buffer; no two
//! neighbouring runs are of the same part.

use std::ops::Range;

/// The part of a page that a piece of text is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PagePart {
    /// `<title>`
    Title,
    /// `<h1>` to `<h6>`
    Heading,
    /// Everything else that a reader sees.
    Body,
    /// The text of links.
    Anchor,
    /// Alt texts of images, and titles of SVG drawings.
    Alt,
    /// `<meta name=description>` and `<meta name=keywords>`
    Meta,
}

impl PagePart {
    /// All parts, in the order of their declaration.
    pub(crate) const ALL: [Self; 6] = [
        Self::Title,
        Self::Heading,
        Self::Body,
        Self::Anchor,
        Self::Alt,
        Self::Meta,
    ];

    /// Whether a browser shows this part in its window.
    #[must_use]
    pub(crate) fn is_visible(self) -> bool {
        matches!(self, Self::Heading | Self::Body | Self::Anchor)
    }

    /// A short name for lists and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Heading => "heading",
            Self::Body => "body",
            Self::Anchor => "anchor",
            Self::Alt => "alt",
            Self::Meta => "meta",
        }
    }
}

/// The text of a page: whitespace collapsed, blocks separated by line feeds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageText {
    buffer: String,
    /// The part of each run and where in the buffer it ends.
    runs: Vec<(PagePart, usize)>,
}

impl PageText {
    /// From UTF-8, and for each run its part and its end. Empty if the bytes are not UTF-8, or if
    /// the runs do not cover them.
    #[must_use]
    pub(crate) fn from_runs(buffer: Vec<u8>, runs: Vec<(PagePart, usize)>) -> Self {
        let buffer = String::from_utf8(buffer).unwrap_or_default();
        let is_whole = runs.last().map_or(0, |run| run.1) == buffer.len();
        if is_whole {
            Self { buffer, runs }
        } else {
            Self::default()
        }
    }

    /// Appends text that belongs to a part; a run of the same part is continued.
    #[cfg(test)]
    pub(crate) fn push(&mut self, part: PagePart, text: &str) {
        if text.is_empty() {
            return;
        }
        self.buffer.push_str(text);
        let end = self.buffer.len();
        match self.runs.last_mut() {
            Some(run) if run.0 == part => run.1 = end,
            _ => self.runs.push((part, end)),
        }
    }

    /// Everything in reading order, each piece with its part.
    pub fn runs(&self) -> impl Iterator<Item = (PagePart, &str)> {
        self.ranges()
            .map(|(part, range)| (part, &self.buffer[range]))
    }

    /// Stretches of uninterrupted text: the visible text between two pieces that are not visible,
    /// or one such piece. Each with its parts and where in the stretch they end.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = (&str, Vec<(PagePart, usize)>)> {
        let mut start = 0;
        let continues = |one: &(PagePart, usize), next: &(PagePart, usize)| {
            one.0.is_visible() && next.0.is_visible()
        };
        self.runs.chunk_by(continues).map(move |runs| {
            let from = start;
            start = runs.last().map_or(from, |run| run.1);
            let parts = runs.iter().map(|(part, end)| (*part, end - from)).collect();
            (&self.buffer[from..start], parts)
        })
    }

    /// The pieces of one part.
    pub(crate) fn part(&self, part: PagePart) -> impl Iterator<Item = &str> {
        self.runs()
            .filter(move |run| run.0 == part)
            .map(|run| run.1)
    }

    /// One part as a single line.
    #[must_use]
    pub fn line(&self, part: PagePart) -> String {
        let mut line = String::new();
        for word in self.part(part).flat_map(str::split_whitespace) {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        line
    }

    /// What a browser shows in its window, in reading order.
    #[must_use]
    pub fn visible(&self) -> String {
        let mut visible = String::with_capacity(self.buffer.len());
        for (part, text) in self.runs() {
            if part.is_visible() {
                visible.push_str(text);
            }
        }
        visible
    }

    /// Bytes of text over all parts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether the page has no text at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// A range of the buffer, whatever the parts; empty if it splits a character.
    #[must_use]
    pub(crate) fn slice(&self, range: Range<usize>) -> &str {
        self.buffer.get(range).unwrap_or_default()
    }

    fn ranges(&self) -> impl Iterator<Item = (PagePart, Range<usize>)> {
        let mut start = 0;
        self.runs.iter().map(move |&(part, end)| {
            let range = start..end;
            start = end;
            (part, range)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart_and_stay_in_order() {
        let mut text = PageText::default();
        text.push(PagePart::Title, "Sailing");
        text.push(PagePart::Body, "We ");
        text.push(PagePart::Body, "sail to ");
        text.push(PagePart::Anchor, "Kiel");
        text.push(PagePart::Alt, "a boat");
        text.push(PagePart::Body, "\nevery day");
        assert_eq!(text.visible(), "We sail to Kiel\nevery day");
        assert_eq!(text.line(PagePart::Body), "We sail to every day");
        assert_eq!(text.part(PagePart::Alt).collect::<Vec<_>>(), ["a boat"]);
        assert_eq!(text.runs().count(), 5);
    }
}
