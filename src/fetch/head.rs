//! The head of an HTTP message or of a WARC record: a first line, then named fields.
//!
//! Both formats share this grammar, and both are written by programs that bend it: bare
//! line feeds, folded lines, bytes that are no ASCII. A strict parser would lose pages that
//! every browser shows, so one lenient reader serves both.
//!
//! Invariant: reads no further than the empty line, and never more than the limit.

use std::io::{self, BufRead};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use thiserror::Error;

/// More fields than this are ignored: no page needs them.
const MAX_FIELDS: usize = 1_000;

/// A first line and the fields that follow it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    /// The first line, without its end.
    pub(crate) first_line: String,
    /// The fields; those with impossible names are left out.
    pub(crate) fields: HeaderMap,
}

/// Why no head could be read.
#[derive(Debug, Error)]
pub(crate) enum HeadError {
    /// The stream gave an error.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// More bytes than the limit and still no empty line.
    #[error("the header is longer than {0} bytes")]
    TooLong(u64, Box<Head>),
    /// The stream ended before the empty line.
    #[error("the header ends in the middle")]
    Unfinished(Box<Head>),
}

impl Head {
    /// Reads up to and including the empty line.
    pub(crate) fn read(reader: &mut impl BufRead, limit: u64) -> Result<Self, HeadError> {
        let mut head = Self::default();
        let mut left = limit;
        let mut line = Vec::new();
        // The field being read, which a folded line may yet continue.
        let mut field: Option<(HeaderName, Vec<u8>)> = None;
        let mut is_first = true;
        loop {
            line.clear();
            let read = io::Read::take(&mut *reader, left).read_until(b'\n', &mut line)?;
            left -= read as u64;
            let ended = line.last() == Some(&b'\n');
            let text = line.trim_ascii_end();
            if is_first {
                let line = String::from_utf8_lossy(text);
                line.trim_start().clone_into(&mut head.first_line);
                is_first = false;
            } else if text.is_empty() {
                head.keep(field.take());
                if ended {
                    return Ok(head);
                }
            } else if line.starts_with(b" ") || line.starts_with(b"\t") {
                if let Some((_, value)) = &mut field {
                    value.push(b' ');
                    value.extend_from_slice(text.trim_ascii_start());
                }
            } else {
                head.keep(field.take());
                field = split_field(text);
            }
            if !ended {
                head.keep(field.take());
                return Err(match left {
                    0 => HeadError::TooLong(limit, Box::new(head)),
                    _ => HeadError::Unfinished(Box::new(head)),
                });
            }
        }
    }

    /// A field as text; bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let value = self.fields.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    }

    fn keep(&mut self, field: Option<(HeaderName, Vec<u8>)>) {
        if let Some((name, value)) = field
            && self.fields.len() < MAX_FIELDS
            && let Ok(value) = HeaderValue::from_bytes(value.trim_ascii())
        {
            self.fields.append(name, value);
        }
    }
}

fn split_field(line: &[u8]) -> Option<(HeaderName, Vec<u8>)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = HeaderName::from_bytes(line[..colon].trim_ascii()).ok()?;
    Some((name, line[colon + 1..].trim_ascii_start().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, limit: u64) -> Result<Head, HeadError> {
        Head::read(&mut text.as_bytes(), limit)
    }

    #[test]
    fn bent_heads_are_read() {
        let head = read(
            "HTTP/1.0 200 OK\nContent-type : text/html\r\nbad name: x\r\nno colon\r\n\
             Set-Cookie: a\r\nset-cookie: b\r\nX-Folded: one\r\n  two\r\n\r\nbody",
            1_000,
        )
        .unwrap();
        assert_eq!(head.first_line, "HTTP/1.0 200 OK");
        assert_eq!(head.text("content-type").unwrap(), "text/html");
        assert_eq!(head.text("x-folded").unwrap(), "one two");
        assert_eq!(head.fields.get_all("set-cookie").iter().count(), 2);
        assert_eq!(head.fields.len(), 4);
    }

    #[test]
    fn the_limit_and_the_end_are_told_apart() {
        assert!(matches!(
            read("A\r\nB: c\r\n\r\n", 6),
            Err(HeadError::TooLong(6, _))
        ));
        match read("HTTP/1.1 204 None\r\nA: b", 100) {
            Err(HeadError::Unfinished(head)) => assert_eq!(head.text("a").unwrap(), "b"),
            other => panic!("{other:?}"),
        }
    }
}
