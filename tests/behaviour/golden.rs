//! Golden files: the output of `sitescout archive --read --json` for hand-written pages.
//!
//! `UPDATE_GOLDEN=1 cargo test golden` rewrites the expected files; read the difference
//! before committing it.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

use crate::warc::{WarcBuilder, in_file};

fn pages() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pages");
    let mut pages: Vec<PathBuf> = fs::read_dir(directory)
        .expect("golden pages")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "html")
        })
        .collect();
    pages.sort();
    pages
}

fn response(path: &Path) -> Vec<u8> {
    let content_type = match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("xhtml") => "application/xhtml+xml",
        _ => "text/html",
    };
    let mut http = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n").into_bytes();
    http.extend(fs::read(path).expect("a golden page"));
    http
}

#[test]
fn golden_pages_are_read_as_expected() {
    let pages = pages();
    assert!(pages.len() >= 11);
    let mut warc = WarcBuilder::default();
    for path in &pages {
        let name = path.file_name().expect("a name").to_string_lossy();
        warc = warc.response(&format!("http://example.org/{name}"), &response(path));
    }
    let (_directory, archive) = in_file("golden.warc", &warc.plain());
    let output = Command::new(env!("CARGO_BIN_EXE_sitescout"))
        .args(["archive", "--read", "--json"])
        .arg(&archive)
        .assert()
        .success();
    let lines = String::from_utf8(output.get_output().stdout.clone()).expect("UTF-8");
    assert_eq!(lines.lines().count(), pages.len());
    for (path, line) in pages.iter().zip(lines.lines()) {
        let found: Value = serde_json::from_str(line).expect("JSON");
        let golden = path.with_extension("json");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let text = serde_json::to_string_pretty(&found).expect("JSON") + "\n";
            fs::write(&golden, text).expect("a writable directory");
        }
        let wanted = fs::read_to_string(&golden).expect("an expected file");
        let wanted: Value = serde_json::from_str(&wanted).expect("JSON");
        assert_eq!(found, wanted, "{}", path.display());
    }
}
