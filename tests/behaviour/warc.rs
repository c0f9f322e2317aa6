//! Writes WARC files for tests, valid and invalid ones.

use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

/// An archive under construction: whole records, in order.
#[derive(Default)]
pub(crate) struct WarcBuilder {
    pub(crate) records: Vec<Vec<u8>>,
}

impl WarcBuilder {
    /// A record with the given fields; the length is added.
    pub(crate) fn record(mut self, fields: &[(&str, &str)], block: &[u8]) -> Self {
        self.records.push(record("WARC/1.0", fields, block));
        self
    }

    /// A response with its HTTP message.
    pub(crate) fn response(self, url: &str, http: &[u8]) -> Self {
        self.response_at("2026-01-01T00:00:00Z", url, http)
    }

    /// A response recorded at a certain time.
    pub(crate) fn response_at(self, date: &str, url: &str, http: &[u8]) -> Self {
        let fields = [
            ("WARC-Type", "response"),
            ("WARC-Date", date),
            ("WARC-Target-URI", url),
            ("Content-Type", "application/http; msgtype=response"),
        ];
        self.record(&fields, http)
    }

    /// An ordinary page.
    pub(crate) fn page(self, url: &str, body: &str) -> Self {
        let http = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{body}");
        self.response(url, http.as_bytes())
    }

    pub(crate) fn plain(&self) -> Vec<u8> {
        self.records.concat()
    }

    /// One gzip member for each record.
    pub(crate) fn gzip(&self) -> Vec<u8> {
        self.records
            .iter()
            .flat_map(|record| gzip(record))
            .collect()
    }
}

pub(crate) fn record(version: &str, fields: &[(&str, &str)], block: &[u8]) -> Vec<u8> {
    let mut record = format!("{version}\r\n").into_bytes();
    for (name, value) in fields {
        record.extend(format!("{name}: {value}\r\n").bytes());
    }
    record.extend(format!("Content-Length: {}\r\n\r\n", block.len()).bytes());
    record.extend(block);
    record.extend(b"\r\n\r\n");
    record
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Puts bytes into a file of their own; the directory goes when the test ends.
pub(crate) fn in_file(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join(name);
    std::fs::write(&path, bytes).expect("room for a file");
    (directory, path)
}
