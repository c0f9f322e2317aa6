//! Languages by their ISO 639 code.

use std::fmt;

/// A language: two letters of ISO 639-1 where it has such a code, else three of ISO 639-3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Language {
    letters: [u8; 3],
}

/// ISO 639-3 to ISO 639-1, for the languages that detectors and stemmers know.
const TWO_LETTER_CODES: &str = "afr af aka ak amh am ara ar aze az bel be ben bn bul bg cat ca \
    ces cs cmn zh cym cy dan da deu de ell el eng en epo eo est et eus eu fas fa fin fi fra fr \
    gle ga glg gl guj gu heb he hin hi hrv hr hun hu hye hy ind id ita it jav jv jpn ja kan kn \
    kat ka khm km kor ko lao lo lat la lav lv lit lt mal ml mar mr mkd mk mya my nep ne nld nl \
    nb no nn no nob no nno no nor no ori or pan pa pes fa pol pl por pt ron ro rus ru sin si slk sk slv sl \
    sna sn spa es srp sr swe sv tam ta tel te tgl tl tha th tuk tk tur tr ukr uk urd ur uzb uz \
    vie vi yid yi zho zh zul zu";

impl Language {
    /// English.
    pub const ENGLISH: Self = Self { letters: *b"en\0" };

    /// Reads a language tag as in `lang="de-AT"` or `Content-Language: de, en`: the first
    /// subtag of the first tag, if it looks like a language.
    #[must_use]
    pub(crate) fn from_tag(tag: &str) -> Option<Self> {
        let first = tag.split([',', ';']).next()?.trim();
        let primary = first.split(['-', '_']).next()?.as_bytes();
        if !(2..=3).contains(&primary.len()) || !primary.iter().all(u8::is_ascii_alphabetic) {
            return None;
        }
        let mut letters = [0; 3];
        for (letter, byte) in letters.iter_mut().zip(primary) {
            *letter = byte.to_ascii_lowercase();
        }
        Some(Self { letters }.in_two_letters())
    }

    /// The same language by its two-letter code, if the table has one.
    fn in_two_letters(self) -> Self {
        // Norwegian has two written forms, and one stemmer for both.
        if self.code().len() == 2 && !matches!(self.code(), "nb" | "nn") {
            return self;
        }
        let mut codes = TWO_LETTER_CODES.split_ascii_whitespace();
        while let (Some(three), Some(two)) = (codes.next(), codes.next()) {
            if three == self.code() {
                let [first, second] = two.as_bytes() else {
                    continue;
                };
                let letters = [*first, *second, 0];
                return Self { letters };
            }
        }
        self
    }

    /// The code, in lower case.
    #[must_use]
    pub(crate) fn code(&self) -> &str {
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
            ("DEU", "de"),
            ("nb-NO", "no"),
        ] {
            assert_eq!(Language::from_tag(tag).unwrap().code(), code, "{tag}");
        }
        for tag in ["", "x", "x-default", "english", "d1", "ä"] {
            assert_eq!(Language::from_tag(tag), None, "{tag}");
        }
    }
}
