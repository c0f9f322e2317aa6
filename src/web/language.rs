//! Languages by their ISO 639 code.

use std::fmt;

/// A language: two letters of ISO 639-1 where it has such a code, else three of ISO 639-3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Language {
    letters: [u8; 3],
}

impl Language {
    /// English, the language of most stop lists and stemmers.
    pub const ENGLISH: Self = Self { letters: *b"en\0" };

    /// Reads a language tag as in `lang="de-AT"` or `Content-Language: de, en`: the first
    /// subtag of the first tag, if it looks like a language.
    #[must_use]
    pub fn from_tag(tag: &str) -> Option<Self> {
        let first = tag.split([',', ';']).next()?.trim();
        let primary = first.split(['-', '_']).next()?.as_bytes();
        if !(2..=3).contains(&primary.len()) || !primary.iter().all(u8::is_ascii_alphabetic) {
            return None;
        }
        let mut letters = [0; 3];
        for (letter, byte) in letters.iter_mut().zip(primary) {
            *letter = byte.to_ascii_lowercase();
        }
        Some(Self { letters })
    }

    /// The code, in lower case.
    #[must_use]
    pub fn code(&self) -> &str {
        let length = if self.letters[2] == 0 { 2 } else { 3 };
        std::str::from_utf8(&self.letters[..length]).unwrap_or_default()
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Language({})", self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primary_subtag_names_the_language() {
        for (tag, code) in [
            ("de-AT", "de"),
            ("EN", "en"),
            ("pt_BR", "pt"),
            (" gsw-CH, de", "gsw"),
        ] {
            assert_eq!(Language::from_tag(tag).unwrap().code(), code, "{tag}");
        }
        for tag in ["", "x", "x-default", "english", "d1", "ä"] {
            assert_eq!(Language::from_tag(tag), None, "{tag}");
        }
    }
}
