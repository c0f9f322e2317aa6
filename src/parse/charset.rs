//! The charset of a body, and its decoding.
//!
//! Sources in the order of browsers (WHATWG HTML, section 13.2.3): a byte order mark, the HTTP
//! header, a `<meta>` or an XML declaration at the beginning of the document, a guess from the bytes
//! and the top-level domain. The guess is Firefox's.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use crate::web::ContentKind;

use super::html;

/// How far a `<meta>` is searched for first. The standard says 1,024, but there are pages with long
/// comments before it.
const PRESCANNED_BYTES: usize = 4096;

/// Browsers honour a later one by parsing again; so do we, if the body is not valid UTF-8.
const LATE_META_BYTES: usize = 256 * 1024;

/// More bytes do not improve the guess. Counted from the first that is not ASCII, because pages
/// begin with style sheets.
const GUESSED_BYTES: usize = 16 * 1024;

/// Decodes a body; invalid bytes become U+FFFD.
pub(super) fn decode<'a>(
    body: &'a [u8],
    content_type: Option<&str>,
    content: ContentKind,
    tld: Option<&str>,
) -> (Cow<'a, str>, &'static Encoding) {
    let (encoding, mark) = match Encoding::for_bom(body) {
        Some(found) => found,
        None => (without_mark(body, content_type, content, tld), 0),
    };
    let (text, _) = encoding.decode_without_bom_handling(&body[mark..]);
    (text, encoding)
}

fn without_mark(
    body: &[u8],
    content_type: Option<&str>,
    content: ContentKind,
    tld: Option<&str>,
) -> &'static Encoding {
    let announced = content_type
        .and_then(charset_parameter)
        .and_then(|label| Encoding::for_label(label.as_bytes()));
    let declared_within = |bytes: usize| match content {
        ContentKind::Html => declared(&body[..body.len().min(bytes)]),
        _ => None,
    };
    if let Some(encoding) = announced.or_else(|| declared_within(PRESCANNED_BYTES)) {
        return encoding;
    }
    // Other charsets are hardly ever valid UTF-8 by accident.
    if std::str::from_utf8(body).is_ok() {
        return UTF_8;
    }
    declared_within(LATE_META_BYTES).unwrap_or_else(|| guess(body, tld))
}

/// The charset that the document itself declares.
fn declared(start: &[u8]) -> Option<&'static Encoding> {
    let label = xml_declaration(start).or_else(|| {
        let may_declare = mentions_charset(start);
        may_declare.then(|| html::prescan_charset(start)).flatten()
    })?;
    let encoding = Encoding::for_label(label.as_bytes())?;
    // A declaration that could be read as ASCII is not UTF-16.
    if encoding == UTF_16BE || encoding == UTF_16LE {
        Some(UTF_8)
    } else if encoding.name() == "x-user-defined" {
        Some(WINDOWS_1252)
    } else {
        Some(encoding)
    }
}

/// Whether `charset=` occurs anywhere; pages without it need not be tokenised twice.
fn mentions_charset(start: &[u8]) -> bool {
    start.iter().enumerate().any(|(at, byte)| {
        *byte == b'=' && {
            let name = start[..at].trim_ascii_end();
            let word = name.last_chunk::<7>();
            word.is_some_and(|word| word.eq_ignore_ascii_case(b"charset"))
        }
    })
}

/// `<?xml version="1.0" encoding="iso-8859-1"?>`
fn xml_declaration(start: &[u8]) -> Option<String> {
    let rest = start.strip_prefix(b"<?xml")?;
    let end = rest.iter().position(|byte| *byte == b'>')?;
    let declaration = String::from_utf8_lossy(&rest[..end]);
    let value = declaration.split_once("encoding")?.1.trim_start();
    let value = value.strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    Some(value[1..].split(quote).next()?.trim().to_owned())
}

/// The charset in a content type, in HTTP or in `<meta http-equiv>`: `text/html;
/// charset="utf-8"`.
pub(super) fn charset_parameter(content_type: &str) -> Option<&str> {
    let lower = content_type.to_ascii_lowercase();
    let mut rest = content_type;
    loop {
        let before = content_type.len() - rest.len();
        let at = lower[before..].find("charset")?;
        rest = rest[at + "charset".len()..].trim_start();
        if let Some(value) = rest.strip_prefix('=') {
            let value = value.trim_start();
            let bare = match value.chars().next()? {
                quote @ ('"' | '\'') => value[1..].split(quote).next()?,
                _ => value.split([';', ' ', '\t', '\n', ',']).next()?,
            };
            return Some(bare.trim()).filter(|label| !label.is_empty());
        }
    }
}

fn guess(body: &[u8], tld: Option<&str>) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    let ascii = body.iter().take_while(|byte| byte.is_ascii()).count();
    // Some bytes before it, because the detector looks at neighbours.
    let rest = &body[ascii.saturating_sub(64)..];
    let sample = &rest[..rest.len().min(GUESSED_BYTES)];
    detector.feed(sample, sample.len() == rest.len());
    let is_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let tld = tld
        .filter(|tld| tld.bytes().all(is_label))
        .map(str::as_bytes);
    detector.guess(tld, Utf8Detection::Deny)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: &[u8], content_type: &str) -> (String, &'static str) {
        let (text, encoding) = decode(body, Some(content_type), ContentKind::Html, Some("de"));
        (text.into_owned(), encoding.name())
    }

    #[test]
    fn the_order_is_mark_header_meta_guess() {
        let utf8 = "text/html; charset=utf-8";
        let all = b"\xff\xfe\xe4\x00";
        assert_eq!(text(all, utf8), ("ä".to_owned(), "UTF-16LE"));
        let meta = b"<meta charset=iso-8859-5>\xe4";
        assert_eq!(
            text(meta, "text/html; charset=windows-1252").0,
            "<meta charset=iso-8859-5>ä"
        );
        assert_eq!(text(meta, "text/html").1, "ISO-8859-5");
        let guessed = "Größe und Schönheit für alle Vögel".to_owned();
        let bytes: Vec<u8> = guessed
            .chars()
            .map(|c| u8::try_from(u32::from(c)).unwrap())
            .collect();
        assert_eq!(text(&bytes, "text/html"), (guessed, "windows-1252"));
        assert_eq!(
            text("Größe".as_bytes(), "text/html"),
            ("Größe".to_owned(), "UTF-8")
        );
    }

    #[test]
    fn a_long_style_sheet_does_not_hide_the_charset() {
        let style = format!("<style>{}</style>", "p { color: red } ".repeat(2_000));
        let words = b"Gr\xf6\xdfe und Sch\xf6nheit f\xfcr alle V\xf6gel";
        let guessed = [style.as_bytes(), words].concat();
        assert!(
            text(&guessed, "text/html")
                .0
                .ends_with("Größe und Schönheit für alle Vögel")
        );
        let late = [style.as_bytes(), b"<meta charset=windows-1251>\xe4"].concat();
        assert_eq!(text(&late, "text/html").1, "windows-1251");
    }

    #[test]
    fn declarations_are_found() {
        for start in [
            "<html><head><meta charset='windows-1251'>",
            "<meta http-equiv=Content-Type content='text/html; charset=windows-1251'>",
            "<META CONTENT=\"text/html;charset=windows-1251\" HTTP-EQUIV=content-type>",
            "<?xml version=\"1.0\" encoding=\"windows-1251\"?><html>",
            "<!-- <meta charset=utf-8> --><meta charset=\"windows-1251\">",
            "<script>'<meta charset=utf-8>'</script><meta charset=windows-1251>",
        ] {
            let found = declared(start.as_bytes()).map(Encoding::name);
            assert_eq!(found, Some("windows-1251"), "{start}");
        }
        assert_eq!(
            declared(b"<meta charset=utf-16>").map(Encoding::name),
            Some("UTF-8")
        );
        for nothing in [
            "<meta charset=nonsense>",
            "<meta name=charset content=utf-8>",
            "",
        ] {
            assert_eq!(declared(nothing.as_bytes()), None, "{nothing}");
        }
    }

    #[test]
    fn charset_parameters_are_read() {
        for (content_type, wanted) in [
            ("text/html; charset=utf-8", Some("utf-8")),
            ("text/html;CHARSET = \"Latin1\" ; x", Some("Latin1")),
            ("text/html; charset='x'", Some("x")),
            ("text/html; charset", None),
            ("text/html; charset=", None),
            ("charset charset=a", Some("a")),
            ("ÄÄcharset=b", Some("b")),
        ] {
            assert_eq!(charset_parameter(content_type), wanted, "{content_type}");
        }
    }
}
