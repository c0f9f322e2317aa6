//! Behaviour seen from outside: real files, servers on loopback, the real binary. One test binary,
//! because linking many is what makes tests slow.

// === the archive as a fetcher ===
mod archive;
mod damage;
mod other_writers;

// === the parser ===
mod golden;
mod markup;
mod terms;

// === the live web ===
mod blocks;
mod gates;
mod generated;
mod guard;
mod live;
mod manners;
mod recording;
mod visits;

// === the internal crawler ===
mod sampling;
mod scripted_web;

// === the store ===
mod directory;
mod old_stores;
mod platforms;
mod stores;
mod suspects;

// === the external crawler ===
#[cfg(unix)]
mod api;
mod claims;
mod crashes;
mod crawling;
#[cfg(unix)]
mod daemon;
#[cfg(unix)]
mod daemon_parts;
mod exhaustion;
mod figures;
mod freshness;
mod imports;
mod orderings;
#[cfg(unix)]
mod own_trouble;
#[cfg(unix)]
mod poison;

// === settings and commands ===
mod background;
mod commands;
mod open_world;
mod own_topics;
mod settings;
mod topics;

// === real websites, where available ===
mod corpora;
mod reading_path;

// === servers and files for tests ===
mod name_server;
#[path = "../pathologies/mod.rs"]
mod pathologies;
mod warc;

// === the tests themselves ===
#[cfg(unix)]
mod skipping;
#[path = "../skips/mod.rs"]
mod skips;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use sitescout::config::{DamagePolicy, FetchSettings};
use sitescout::parse::{self, ParseLimits};
use sitescout::web::{FetchedPage, ParsedPage, Transfer};

#[cfg(not(unix))]
#[test]
fn the_daemon() {
    skips::skipped!("api, daemon, daemon_parts, own_trouble, poison and skipping need Unix");
}

/// A file of `tests/fixtures`.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// Settings that leave nothing beside the archives.
fn without_index() -> FetchSettings {
    let mut settings = FetchSettings::default();
    settings.archive.keep_index = false;
    settings
}

fn salvaging() -> FetchSettings {
    let mut settings = without_index();
    settings.archive.damaged = DamagePolicy::Salvage;
    settings
}

const LIMITS: ParseLimits = ParseLimits {
    max_links: 10_000,
    max_url_bytes: 2_048,
};

/// A page of `http://example.org/dir/page.html` with these headers.
fn page(headers: &[(&'static str, &str)], body: impl AsRef<[u8]>) -> FetchedPage {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, value.parse().expect("a header value"));
    }
    FetchedPage {
        url: "http://example.org/dir/page.html"
            .parse()
            .expect("an address"),
        status: StatusCode::OK,
        headers: map,
        body: Bytes::copy_from_slice(body.as_ref()),
        truncated: false,
        transfer: Transfer::default(),
    }
}

/// HTML without any header but its type, parsed.
fn html(body: impl AsRef<[u8]>) -> ParsedPage {
    parse::parse(&page(&[("content-type", "text/html")], body), &LIMITS)
}
