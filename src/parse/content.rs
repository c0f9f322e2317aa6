//! The kind of a body: HTML, plain text, or other.
//!
//! `Content-Type` is trusted where browsers trust it. If it is missing or meaningless, the first bytes
//! are sniffed (WHATWG MIME Sniffing, section 7). Binary data is never taken for text.

use crate::web::{ContentKind, looks_binary};

/// How much of a body is sniffed.
const SNIFFED_BYTES: usize = 512;

/// Tags that begin HTML without a document type.
const HTML_STARTS: [&[u8]; 17] = [
    b"<!doctype html",
    b"<html",
    b"<head",
    b"<script",
    b"<iframe",
    b"<h1",
    b"<div",
    b"<font",
    b"<table",
    b"<a",
    b"<style",
    b"<title",
    b"<b",
    b"<body",
    b"<br",
    b"<p",
    b"<!--",
];

pub(super) fn kind(content_type: Option<&str>, body: &[u8]) -> ContentKind {
    let start = &body[..body.len().min(SNIFFED_BYTES)];
    let kind = match essence(content_type) {
        "text/html" | "application/xhtml+xml" => ContentKind::Html,
        "text/plain" => ContentKind::PlainText,
        "text/xml" | "application/xml" if contains_html_root(start) => ContentKind::Html,
        "" | "*/*" | "unknown/unknown" | "application/unknown" => sniff(start),
        _ => ContentKind::Other,
    };
    match kind {
        ContentKind::Html | ContentKind::PlainText if is_binary(content_type, start) => {
            ContentKind::Other
        }
        kind => kind,
    }
}

/// Whether the markup is XML, where `<script/>` is closed.
pub(super) fn is_xml(content_type: Option<&str>) -> bool {
    essence(content_type).ends_with("xml")
}

/// The media type without its parameters, empty if there is none. Of several, the last valid one
/// counts (WHATWG Fetch, section 3.4); what follows a space is a parameter without its semicolon.
fn essence(content_type: Option<&str>) -> &str {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+*".contains(&byte);
    let is_type = |essence: &&str| {
        essence.split_once('/').is_some_and(|(kind, subtype)| {
            !kind.is_empty()
                && !subtype.is_empty()
                && (kind.bytes().chain(subtype.bytes())).all(is_token)
        })
    };
    let values = content_type.unwrap_or_default().rsplit(',');
    let mut essences = values.map(|value| {
        value
            .trim()
            .split([';', ' ', '\t'])
            .next()
            .unwrap_or_default()
    });
    essences.find(is_type).unwrap_or_default()
}

fn sniff(start: &[u8]) -> ContentKind {
    let text = start
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(start)
        .trim_ascii_start();
    let is_html = HTML_STARTS.iter().any(|tag| {
        let ends = text
            .get(tag.len())
            .is_none_or(|byte| matches!(byte, b' ' | b'>' | b'\t' | b'\n' | b'\r' | b'/'));
        begins_with(text, tag) && (ends || tag.ends_with(b"--"))
    });
    let is_xml_page = begins_with(text, b"<?xml") && contains_html_root(text);
    if is_html || is_xml_page {
        ContentKind::Html
    } else {
        ContentKind::PlainText
    }
}

fn begins_with(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len())
        .is_some_and(|text| text.eq_ignore_ascii_case(start))
}

fn contains_html_root(start: &[u8]) -> bool {
    start
        .windows(5)
        .any(|bytes| bytes.eq_ignore_ascii_case(b"<html"))
}

/// UTF-16 without a byte order mark looks binary, so `Content-Type` must declare it.
fn is_binary(content_type: Option<&str>, start: &[u8]) -> bool {
    let is_utf16 = content_type.is_some_and(|content_type| content_type.contains("utf-16"));
    !is_utf16 && looks_binary(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_types_are_believed() {
        let html = b"<p>hello";
        for (content_type, wanted) in [
            ("text/html", ContentKind::Html),
            ("text/html; charset=utf-8", ContentKind::Html),
            ("application/xhtml+xml", ContentKind::Html),
            ("text/plain", ContentKind::PlainText),
            ("application/pdf", ContentKind::Other),
            ("application/json", ContentKind::Other),
            ("application/xml", ContentKind::Other),
            ("nonsense", ContentKind::Html),
            ("text/html charset=utf-8", ContentKind::Html),
            ("text/html,text/html", ContentKind::Html),
            ("application/json, text/html; charset=x", ContentKind::Html),
            ("text/ht ml/", ContentKind::Other),
        ] {
            assert_eq!(kind(Some(content_type), html), wanted, "{content_type}");
        }
        let xhtml = b"<?xml version='1.0'?>\n<html xmlns='http://www.w3.org/1999/xhtml'>";
        assert_eq!(kind(Some("application/xml"), xhtml), ContentKind::Html);
    }

    #[test]
    fn missing_types_are_sniffed() {
        for (body, wanted) in [
            (&b"  \n<!DOCTYPE HTML PUBLIC"[..], ContentKind::Html),
            (b"\xef\xbb\xbf<HTML>", ContentKind::Html),
            (b"<!-- x --><title>", ContentKind::Html),
            (b"<?xml version='1.0'?><html>", ContentKind::Html),
            (b"<abbr>", ContentKind::PlainText),
            (b"Dear all,", ContentKind::PlainText),
            (b"", ContentKind::PlainText),
            (b"\x89PNG\r\n\x1a\n", ContentKind::Other),
        ] {
            assert_eq!(kind(None, body), wanted, "{body:?}");
        }
    }

    #[test]
    fn binary_is_no_page_whatever_it_is_called() {
        let html = Some("text/html");
        assert_eq!(kind(html, b"\x00\x01\x02\x03abc"), ContentKind::Other);
        assert_eq!(kind(html, b"%PDF-1.4\n"), ContentKind::Other);
        let utf16: Vec<u8> = [0xff, 0xfe]
            .into_iter()
            .chain("<p>hello".bytes().flat_map(|b| [b, 0]))
            .collect();
        assert_eq!(kind(html, &utf16), ContentKind::Html);
        let stray = [&b"<p>one stray zero: "[..], &[0], &[b'x'; 100]].concat();
        assert_eq!(kind(html, &stray), ContentKind::Html);
    }
}
