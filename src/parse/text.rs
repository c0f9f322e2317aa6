//! Builds the text of a page during parsing.
//!
//! White space is collapsed as in browsers: text around inline elements is joined, blocks and line
//! breaks separate it.
//!
//! Invariant: at most [`MAX_RUNS`] runs, which bounds the table of them for hostile pages.

use crate::web::{PagePart, PageText};

/// Maximum number of runs, each of another part than the one before; text that would begin one more
/// is left out. A page that changes its part with every letter would need three times its size for
/// the table alone. The maximum in our corpora is 3,916.
const MAX_RUNS: usize = 100_000;

/// Collects text in reading order.
#[derive(Debug, Default)]
pub(super) struct TextBuilder {
    /// UTF-8, checked once at the end.
    buffer: Vec<u8>,
    /// The part of each run and where in the buffer it ends.
    runs: Vec<(PagePart, usize)>,
    pending: Separator,
    /// Whether anything visible was written; before that there is no separator.
    has_visible: bool,
    scratch: Vec<u8>,
}

/// The separator due before the next visible word.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Separator {
    #[default]
    Nothing,
    Space,
    Break,
}

impl TextBuilder {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self {
            buffer: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// Text in the flow of the page, as UTF-8. The buffer is overwritten, so that collapsing its
    /// white space needs no copy.
    pub(super) fn push(&mut self, part: PagePart, buffer: &mut [u8]) {
        let is_word = |byte: &u8| *byte > b' ';
        let Some(start) = buffer.iter().position(is_word) else {
            if !buffer.is_empty() {
                self.pending = self.pending.max(Separator::Space);
            }
            return;
        };
        let end = buffer
            .iter()
            .rposition(is_word)
            .map_or(start, |last| last + 1);
        let (starts_apart, ends_apart) = (start > 0, end < buffer.len());
        let words = collapse(&mut buffer[start..end]);
        if starts_apart || words.starts_with(b" ") {
            self.pending = self.pending.max(Separator::Space);
        }
        let bare = words.trim_ascii();
        if bare.is_empty() || self.is_full(part) {
            return;
        }
        if self.has_visible {
            match self.pending {
                Separator::Nothing => {}
                Separator::Space => self.buffer.push(b' '),
                Separator::Break => self.buffer.push(b'\n'),
            }
        }
        self.buffer.extend_from_slice(bare);
        self.end_run(part);
        self.has_visible = true;
        self.pending = if ends_apart || words.ends_with(b" ") {
            Separator::Space
        } else {
            Separator::Nothing
        };
    }

    /// A block begins or ends, or a line breaks.
    pub(super) fn break_line(&mut self) {
        self.pending = Separator::Break;
    }

    /// An anchor begins; it is not joined to one that has just ended.
    pub(super) fn separate_anchors(&mut self) {
        if self.last_part() == Some(PagePart::Anchor) {
            self.pending = self.pending.max(Separator::Space);
        }
    }

    /// Text outside the flow: titles, alt texts, descriptions.
    pub(super) fn push_aside(&mut self, part: PagePart, text: &[u8]) {
        self.scratch.clear();
        self.scratch.extend_from_slice(text);
        let is_continued = self.last_part() == Some(part);
        let is_full = self.is_full(part);
        let bare = collapse(&mut self.scratch).trim_ascii();
        if bare.is_empty() || is_full {
            return;
        }
        if is_continued {
            self.buffer.push(b'\n');
        }
        self.buffer.extend_from_slice(bare);
        self.end_run(part);
    }

    /// The current end of the text.
    pub(super) fn mark(&self) -> usize {
        self.buffer.len()
    }

    pub(super) fn finish(self) -> PageText {
        PageText::from_runs(self.buffer, self.runs)
    }

    /// Assigns what was written since the last run to a part; a run of the same part is extended.
    fn end_run(&mut self, part: PagePart) {
        let end = self.buffer.len();
        match self.runs.last_mut() {
            Some(run) if run.0 == part => run.1 = end,
            _ => self.runs.push((part, end)),
        }
    }

    /// Whether text of this part would exceed [`MAX_RUNS`].
    fn is_full(&self, part: PagePart) -> bool {
        self.runs.len() >= MAX_RUNS && self.last_part() != Some(part)
    }

    fn last_part(&self) -> Option<PagePart> {
        self.runs.last().map(|run| run.0)
    }
}

/// Collapses white space in place. Control characters count as white space, and so does the no-break
/// space, since pages use it for layout.
///
/// The passes are simple so that the compiler vectorises them; most texts need only the first two.
fn collapse(text: &mut [u8]) -> &[u8] {
    for byte in text.iter_mut() {
        *byte = (*byte).max(b' ');
    }
    if text.contains(&0xc2) {
        for at in 1..text.len() {
            if text[at - 1] == 0xc2 && text[at] == 0xa0 {
                text[at - 1] = b' ';
                text[at] = b' ';
            }
        }
    }
    let has_runs = text
        .iter()
        .zip(text.iter().skip(1))
        .fold(false, |found, (one, next)| {
            found | ((*one == b' ') & (*next == b' '))
        });
    let length = if has_runs {
        drop_repeated_spaces(text)
    } else {
        text.len()
    };
    &text[..length]
}

/// Returns the new length. Branch-free, because the ends of words are unpredictable.
fn drop_repeated_spaces(text: &mut [u8]) -> usize {
    let mut length = 0;
    let mut was_space = false;
    for at in 0..text.len() {
        let byte = text[at];
        let is_space = byte == b' ';
        text[length] = byte;
        length += usize::from(!(is_space & was_space));
        was_space = is_space;
    }
    length
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn inline_joins_and_blocks_part() {
        let mut text = TextBuilder::default();
        text.break_line();
        let push = |text: &mut TextBuilder, part, words: &str| {
            text.push(part, &mut words.as_bytes().to_vec());
        };
        push(&mut text, PagePart::Heading, "  Our\n boats ");
        text.break_line();
        push(&mut text, PagePart::Body, "blue");
        push(&mut text, PagePart::Anchor, "berry");
        push(&mut text, PagePart::Body, "\u{a0} and ");
        text.push_aside(PagePart::Alt, b" a \n boat ");
        text.push_aside(PagePart::Alt, b"a ship");
        push(&mut text, PagePart::Body, " red.");
        let text = text.finish();
        assert_eq!(text.visible(), "Our boats\nblueberry and red.");
        assert_eq!(
            text.part(PagePart::Alt).collect::<Vec<_>>(),
            ["a boat\na ship"]
        );
    }

    proptest! {
        #[test]
        fn white_space_collapses_however_the_text_is_torn(
            pieces in prop::collection::vec("[a-zß \u{a0}\n\t]{0,8}", 0..8),
        ) {
            let mut text = TextBuilder::default();
            for piece in &pieces {
                text.push(PagePart::Body, &mut piece.as_bytes().to_vec());
            }
            let whole = pieces.concat();
            let words: Vec<&str> = whole.split_whitespace().collect();
            prop_assert_eq!(text.finish().visible(), words.join(" "));
        }
    }
}
