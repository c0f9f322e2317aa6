//! Untrusted text, made safe for terminals.
//!
//! Escape sequences in a title could move the cursor or retitle the window, and bidirectional
//! control characters can make one host look like another.

use std::fmt;

/// Displays untrusted text with control characters, bidirectional ones included, as U+FFFD.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sanitized<'a>(pub(crate) &'a str);

impl fmt::Display for Sanitized<'_> {
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

/// Equivalent JSON, on one line, in which the same characters are escaped.
#[must_use]
pub(crate) fn sanitized_json(json: String) -> String {
    if json.chars().all(|c| harmless(c) == c) {
        return json;
    }
    let escape = |c: char| {
        if harmless(c) == c {
            c.to_string()
        } else {
            format!("\\u{:04x}", u32::from(c))
        }
    };
    json.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_the_cursor_gets_through() {
        let hostile = "a\x1b]0;owned\x07b\r\u{202e}c\u{9b}31m";
        let shown = Sanitized(hostile).to_string();
        assert_eq!(
            shown,
            "a\u{fffd}]0;owned\u{fffd}b\u{fffd}\u{fffd}c\u{fffd}31m"
        );
    }

    #[test]
    fn json_is_escaped_where_it_may_be() {
        let json = "\"a\\u001b\u{7f}\u{9b}\u{202e}é\"".to_owned();
        let shown = sanitized_json(json);
        assert_eq!(shown, "\"a\\u001b\\u007f\\u009b\\u202eé\"");
    }
}
