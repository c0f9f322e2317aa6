//! Puts the text of a page together as it is read.
//!
//! White space is collapsed as browsers do it: inline elements join what stands at their
//! edges, blocks and line breaks part it.

use crate::web::{PagePart, PageText};

/// Collects text in reading order.
#[derive(Debug, Default)]
pub(super) struct TextBuilder {
    text: PageText,
    pending: Separator,
    /// Whether anything visible was written, so that no separator comes first.
    has_visible: bool,
    scratch: Vec<u8>,
}

/// What must be written before the next visible word.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Separator {
    #[default]
    Nothing,
    Space,
    Break,
}

impl TextBuilder {
    /// Text in the flow of the page. The buffer is used up, so that collapsing its white
    /// space needs no copy; its bytes are UTF-8.
    pub(super) fn push(&mut self, part: PagePart, buffer: &mut Vec<u8>) {
        collapse(buffer);
        let words = as_text(buffer);
        if words.starts_with(' ') {
            self.pending = self.pending.max(Separator::Space);
        }
        let bare = words.trim_matches(' ');
        if bare.is_empty() {
            return;
        }
        if self.has_visible {
            match self.pending {
                Separator::Nothing => {}
                Separator::Space => self.text.push(part, " "),
                Separator::Break => self.text.push(part, "\n"),
            }
        }
        self.text.push(part, bare);
        self.has_visible = true;
        self.pending = match words.ends_with(' ') {
            true => Separator::Space,
            false => Separator::Nothing,
        };
    }

    /// A block begins or ends, or a line breaks.
    pub(super) fn part_lines(&mut self) {
        self.pending = Separator::Break;
    }

    /// Text beside the flow: titles, alternative texts, descriptions.
    pub(super) fn push_aside(&mut self, part: PagePart, text: &str) {
        self.scratch.clear();
        self.scratch.extend_from_slice(text.as_bytes());
        collapse(&mut self.scratch);
        let bare = as_text(&self.scratch).trim_matches(' ');
        if !bare.is_empty() && self.text.last_part() == Some(part) {
            self.text.push(part, "\n");
        }
        self.text.push(part, bare);
    }

    /// How far the text goes by now.
    pub(super) fn mark(&self) -> usize {
        self.text.len()
    }

    /// What was written between two marks, as it stands.
    pub(super) fn between(&self, from: usize, to: usize) -> &str {
        self.text.slice(from..to)
    }

    pub(super) fn finish(self) -> PageText {
        self.text
    }
}

const IS_SPACE: [bool; 256] = {
    let mut table = [false; 256];
    let spaces = [b' ', b'\n', b'\t', b'\r', b'\x0c'];
    let mut at = 0;
    while at < spaces.len() {
        table[spaces[at] as usize] = true;
        at += 1;
    }
    table
};

/// Makes one space of every run of white space, in place. The no-break space counts, since
/// pages use it for layout. Written without branches: where words end is what a processor
/// cannot predict, and pages are made of words.
fn collapse(text: &mut Vec<u8>) {
    if text.contains(&0xc2) {
        for at in 1..text.len() {
            if text[at - 1] == 0xc2 && text[at] == 0xa0 {
                text[at - 1] = b' ';
                text[at] = b' ';
            }
        }
    }
    let mut length = 0;
    let mut was_space = false;
    for at in 0..text.len() {
        let byte = text[at];
        let is_space = IS_SPACE[usize::from(byte)];
        text[length] = if is_space { b' ' } else { byte };
        length += usize::from(!(is_space && was_space));
        was_space = is_space;
    }
    text.truncate(length);
}

/// Characters come whole from a text that was UTF-8; the other case cannot happen.
fn as_text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn inline_joins_and_blocks_part() {
        let mut text = TextBuilder::default();
        text.part_lines();
        let push = |text: &mut TextBuilder, part, words: &str| {
            text.push(part, &mut words.as_bytes().to_vec());
        };
        push(&mut text, PagePart::Heading, "  Our\n boats ");
        text.part_lines();
        push(&mut text, PagePart::Body, "blue");
        push(&mut text, PagePart::Anchor, "berry");
        push(&mut text, PagePart::Body, "\u{a0} and ");
        text.push_aside(PagePart::Alt, " a \n boat ");
        text.push_aside(PagePart::Alt, "a ship");
        push(&mut text, PagePart::Body, " red.");
        let text = text.finish();
        assert_eq!(text.visible(), "Our boats\nblueberry and red.");
        assert_eq!(text.part(PagePart::Alt).collect::<Vec<_>>(), ["a boat\na ship"]);
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
