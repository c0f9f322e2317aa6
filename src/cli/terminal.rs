//! Output to the terminal. Text from the web is hostile: escape sequences in a title could
//! move the cursor or retitle the window, so no control character reaches the terminal.

use std::io::{self, Write};

use serde_json::Value;

use crate::web;
pub(super) use crate::web::Sanitized;

/// JSON without control characters.
pub(super) fn sanitized_json(value: &Value) -> String {
    web::sanitized_json(value.to_string())
}

/// Prints a result to standard output.
pub(super) fn say(message: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{message}")
}

/// Prints a message to standard error. If that fails, the exit code still reports the outcome.
pub(super) fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_harmless_and_says_the_same() {
        let value = Value::from("a\x1b\u{7f}\u{9b}\u{202e}é");
        let shown = sanitized_json(&value);
        assert_eq!(shown, "\"a\\u001b\\u007f\\u009b\\u202eé\"");
        let again: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(again, value);
    }
}
