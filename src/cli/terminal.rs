//! What is printed. Text from the web is hostile: escape sequences in a title could move
//! the cursor or retitle the window, so no control character reaches the terminal.

use std::fmt;
use std::io::{self, Write};

use serde_json::Value;

/// Text from outside, made harmless: control characters and those that reverse the
/// direction of writing become U+FFFD.
pub(super) struct Harmless<'a>(pub(super) &'a str);

impl fmt::Display for Harmless<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clean: String = self.0.chars().map(harmless).collect();
        f.pad(&clean)
    }
}

fn harmless(c: char) -> char {
    match c {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// JSON that is as harmless on a terminal: what JSON may but need not escape is escaped.
pub(super) fn harmless_json(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().all(|c| harmless(c) == c) {
        return text;
    }
    let escape = |c: char| match harmless(c) == c {
        true => c.to_string(),
        false => format!("\\u{:04x}", u32::from(c)),
    };
    text.chars().map(escape).collect()
}

/// Tells a result.
pub(super) fn say(message: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{message}")
}

/// Says what went wrong. If even that cannot be written, the exit code still tells.
pub(super) fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_the_cursor_gets_through() {
        let hostile = "a\x1b]0;owned\x07b\r\u{202e}c\u{9b}31m";
        let shown = Harmless(hostile).to_string();
        assert_eq!(
            shown,
            "a\u{fffd}]0;owned\u{fffd}b\u{fffd}\u{fffd}c\u{fffd}31m"
        );
    }

    #[test]
    fn json_is_harmless_and_says_the_same() {
        let value = Value::from("a\x1b\u{7f}\u{9b}\u{202e}é");
        let shown = harmless_json(&value);
        assert_eq!(shown, "\"a\\u001b\\u007f\\u009b\\u202eé\"");
        let again: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(again, value);
    }
}
