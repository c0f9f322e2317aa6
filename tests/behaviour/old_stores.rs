//! Stores that earlier versions have written open as they are.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::crawling::{Place, lines, text};
use crate::fixture;

/// A store in the midst of its work, as a version has left it that was killed, and everything that
/// the same version said to be in it.
struct OldStore {
    place: Place,
    said: Vec<Value>,
}

impl OldStore {
    fn of(version: &str) -> Self {
        let place = Place::new();
        let kept = fixture("stores").join(version);
        copy(&kept.join("state"), &place.path("state"));
        // Git keeps no empty directories.
        fs::create_dir_all(place.path("state/sled/blobs")).expect("a directory");
        let said = fs::read_to_string(kept.join("dump.jsonl")).expect("a dump");
        let said = said
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        Self {
            place,
            said: said.collect(),
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a kind").is_dir() {
            true => copy(&entry.path(), &target),
            false => {
                fs::copy(entry.path(), target).expect("a copy");
            }
        }
    }
}

#[test]
fn a_store_of_the_first_version_says_what_it_always_said() {
    let OldStore { place, said } = OldStore::of("version-1");
    let dump = place.run("export --everything --state state");
    assert!(dump.status.success(), "{}", text(&dump.stderr));
    assert_eq!(lines(&dump), said);
    // Sites that were handed out when it was left wait in the border, at the rank they had.
    let waiting = said.iter().filter(|line| {
        let host = line["host"].as_str().unwrap_or_default();
        line["record"] == "site" && host.starts_with("hang-")
    });
    let waiting: Vec<&Value> = waiting.collect();
    assert_eq!(waiting.len(), 2);
    for site in waiting {
        assert!(site["site"]["phase"]["Border"].is_object(), "{site}");
    }
}

#[test]
fn a_crawl_goes_on_in_a_store_of_the_first_version() {
    let OldStore { place, said } = OldStore::of("version-1");
    let judged = |lines: &[Value]| {
        let verdicts = lines.iter().filter(|line| line["record"] == "verdict");
        verdicts.count()
    };
    let crawled = place.crawl("--crawlers 2 --state state");
    assert!(crawled.status.success(), "{}", text(&crawled.stderr));
    let after = lines(&place.run("export --everything --state state"));
    // The sites that hung are not in this archive, so they are judged unreachable.
    assert!(
        judged(&after) > judged(&said) + 1,
        "{}",
        text(&crawled.stderr)
    );
    for line in said.iter().filter(|line| line["record"] == "verdict") {
        let host = &line["host"];
        let is_same = |other: &&Value| other["record"] == "verdict" && other["host"] == *host;
        assert!(after.iter().any(|other| is_same(&other)), "{host} is lost");
    }
}
