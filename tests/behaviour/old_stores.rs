//! Stores written by earlier versions can be opened as they are.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::crawling::{Place, lines, text};
use crate::fixture;

/// A store of a killed crawl of an earlier version, and the dump that the same version made of it.
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
        if entry.file_type().expect("a kind").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// What is in a dump, with every reason under the name that it has today.
fn in_names_of_today(said: &[Value]) -> Vec<Value> {
    let mut said = said.to_vec();
    for line in &mut said {
        rename(&mut line["record"]);
        match line["record"].as_str() {
            Some("store") => line["format"] = 4.into(),
            Some("site") => lower(&mut line["site"]["phase"]),
            Some("verdict") => {
                lower(&mut line["verdict"]["verdict"]);
                rename(&mut line["verdict"]["stop_reason"]);
            }
            Some("listing") => {
                lower(&mut line["listing"]["change"]);
                rename(&mut line["listing"]["reason"]);
            }
            Some("evidence") => {
                let steps = line["evidence"]["steps"].as_array_mut();
                for step in steps.expect("a list") {
                    let outcome = step["outcome"].as_str().expect("a text");
                    if !outcome.starts_with("redirect to ") {
                        rename(&mut step["outcome"]);
                    }
                }
            }
            _ => {}
        }
    }
    said
}

/// A variant of an enumeration, `NothingSpoke` or `{"Due": 1}`, as `nothing_spoke` or `{"due": 1}`.
fn lower(variant: &mut Value) {
    if let Some(fields) = variant.as_object_mut() {
        *fields = fields
            .iter()
            .map(|(name, value)| (snake_case(name), value.clone()))
            .collect();
    } else {
        *variant = snake_case(variant.as_str().expect("a name")).into();
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn rename(name: &mut Value) {
    *name = name.as_str().expect("a name").replace('-', "_").into();
}

#[test]
fn a_store_of_the_first_version_has_the_same_content() {
    let OldStore { place, said } = OldStore::of("version-1");
    let dump = place.run("export --everything --state state");
    assert!(dump.status.success(), "{}", text(&dump.stderr));
    assert_eq!(lines(&dump), in_names_of_today(&said));
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

#[test]
fn a_dump_of_the_first_version_is_read_under_the_names_that_it_has() {
    let place = Place::new();
    let kept = fixture("stores").join("version-1/dump.jsonl");
    let said = fs::read_to_string(kept).expect("a dump");
    // What other crawls of that version wrote.
    let said = said.replace(
        r#""stop_reason":"exhausted""#,
        r#""stop_reason":"links-found""#,
    );
    let said = said.replace(r#""outcome":"mute""#, r#""outcome":"near-duplicate""#);
    assert!(said.contains("source-domain") && said.contains("near-duplicate"));
    fs::write(place.path("old.jsonl"), &said).expect("a file");
    let read = place.run("import old.jsonl --state new");
    assert!(read.status.success(), "{}", text(&read.stderr));
    let said: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let dump = lines(&place.run("export --everything --state new"));
    let today = in_names_of_today(&said);
    let of_kind = |lines: &[Value], kind: &str| -> Vec<Value> {
        let lines = lines.iter().filter(|line| line["record"] == kind);
        lines.cloned().collect()
    };
    for kind in ["source_domain", "site", "verdict", "evidence", "listing"] {
        assert!(!of_kind(&today, kind).is_empty(), "{kind}");
        assert_eq!(of_kind(&dump, kind), of_kind(&today, kind));
    }
}
