//! The house rules, as tests.
//!
//! The table of rooms in `src/lib.rs` is data: it says which room may import which, and
//! every `use crate::…` in the code is checked against it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Where third-party crates may be used; all others may be used anywhere.
const CONFINED: [(&str, &[&str]); 40] = [
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("anyhow", &["cli"]),
    // Rooms with JSON output.
    ("serde_json", &["verdicts", "service", "cli"]),
    ("toml", &["config", "lab"]),
    ("tracing_subscriber", &["telemetry"]),
    ("flate2", &["fetch"]),
    ("ruzstd", &["fetch"]),
    ("brotli_decompressor", &["fetch"]),
    ("encoding_rs", &["parse"]),
    ("chardetng", &["parse"]),
    ("whatlang", &["parse"]),
    ("postcard", &["fetch", "classify", "store"]),
    ("sled", &["store"]),
    ("html5gum", &["parse"]),
    ("addr", &["web"]),
    ("linfa", &["classify"]),
    ("linfa_clustering", &["classify"]),
    ("linfa_linalg", &["classify"]),
    ("ndarray", &["classify"]),
    ("indicatif", &["cli"]),
    ("hyper", &["fetch", "lab", "service"]),
    ("hyper_util", &["fetch", "lab", "service"]),
    ("http_body_util", &["fetch"]),
    ("rustls", &["fetch"]),
    ("tokio_rustls", &["fetch"]),
    ("hickory_resolver", &["fetch"]),
    ("governor", &["fetch", "service"]),
    ("quick_cache", &["fetch"]),
    ("sha1", &["fetch"]),
    (
        "humantime",
        &["config", "store", "fetch", "verdicts", "service", "cli"],
    ),
    // Each room registers its own metrics.
    (
        "prometheus",
        &["telemetry", "store", "fetch", "external", "service"],
    ),
    ("axum", &["service"]),
    ("utoipa", &["service", "verdicts"]),
    ("utoipa_axum", &["service"]),
    ("subtle", &["service"]),
    ("sd_notify", &["service"]),
    ("rustix", &["service"]),
    ("rayon", &["classify", "training", "lab"]),
];

/// Module names without meaning.
const MEANINGLESS_NAMES: [&str; 8] = [
    "util", "utils", "common", "helpers", "manager", "types", "misc", "core",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn sources() -> Vec<(PathBuf, String)> {
    let files = files_below(&root().join("src"), "rs");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a source file");
        (path, text)
    };
    files.into_iter().map(read).collect()
}

/// The room of a file; none for `lib.rs` and `main.rs`.
fn room(path: &Path) -> Option<String> {
    let relative = path.strip_prefix(root().join("src")).expect("below src");
    let first = relative.components().next()?.as_os_str().to_str()?;
    (relative.components().count() > 1).then(|| first.to_owned())
}

/// The import table of `src/lib.rs`, in its order.
fn import_table() -> Vec<(String, BTreeSet<String>)> {
    let text = fs::read_to_string(root().join("src/lib.rs")).expect("the map");
    let mut table = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line
            .trim_start_matches("//!")
            .trim()
            .split('|')
            .map(str::trim)
            .collect();
        let ["", room, _, imports, ""] = cells.as_slice() else {
            continue;
        };
        if let Some(room) = room
            .strip_prefix("[`")
            .and_then(|room| room.strip_suffix("`]"))
        {
            let imports = imports.split_whitespace().filter(|word| *word != "-");
            table.push((room.to_owned(), imports.map(str::to_owned).collect()));
        }
    }
    table
}

/// The rooms that a source text mentions as `crate::room`, also in groups.
fn imported_rooms(text: &str) -> BTreeSet<String> {
    let code: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    let mut rooms = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        if let Some(group) = after.strip_prefix('{') {
            let group = group.split(';').next().unwrap_or_default();
            rooms.extend(
                group
                    .split([',', '{', '}'])
                    .map(first_name)
                    .filter(|name| !name.is_empty()),
            );
        } else {
            rooms.insert(first_name(after));
        }
    }
    rooms
}

fn first_name(text: &str) -> String {
    let text = text.trim_start();
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    text[..end].to_owned()
}

#[test]
fn the_import_table_names_every_room_and_opens_doors_one_way() {
    let table = import_table();
    let on_disk: BTreeSet<String> = sources()
        .iter()
        .filter_map(|(path, _)| room(path))
        .collect();
    let in_table: BTreeSet<String> = table.iter().map(|(room, _)| room.clone()).collect();
    assert_eq!(in_table, on_disk);
    let mut above = BTreeSet::new();
    for (room, imports) in &table {
        let unknown: Vec<&String> = imports.difference(&above).collect();
        assert!(
            unknown.is_empty(),
            "{room} imports {unknown:?}, which is not above it"
        );
        above.insert(room.clone());
    }
}

#[test]
fn rooms_import_only_what_the_table_allows() {
    let table: BTreeMap<String, BTreeSet<String>> = import_table().into_iter().collect();
    for (path, text) in sources() {
        let Some(room) = room(&path) else { continue };
        for imported in imported_rooms(&text) {
            let is_room = table.contains_key(&imported);
            let is_allowed = imported == room || table[&room].contains(&imported);
            assert!(
                !is_room || is_allowed,
                "{} imports {imported}",
                path.display()
            );
        }
    }
}

#[test]
fn the_table_allows_only_what_is_imported() {
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in sources() {
        if let Some(room) = room(&path) {
            imports
                .entry(room)
                .or_default()
                .extend(imported_rooms(&text));
        }
    }
    for (room, allowed) in import_table() {
        let unused: Vec<&String> = allowed.difference(&imports[&room]).collect();
        assert!(unused.is_empty(), "{room} does not import {unused:?}");
    }
}

#[test]
fn imports_are_found_in_all_spellings() {
    let text = "use crate::web::{A, B};\nuse crate::{config, fetch::Archive};\n// crate::parse\n\
                fn f() -> crate::cli::ExitCode {}\n";
    let found: Vec<String> = imported_rooms(text).into_iter().collect();
    assert_eq!(found, ["cli", "config", "fetch", "web"]);
}

#[test]
fn crates_stay_in_their_rooms() {
    for (path, text) in sources() {
        let Some(room) = room(&path) else { continue };
        for (name, rooms) in CONFINED {
            let is_used = text
                .match_indices(&format!("{name}::"))
                .any(|(at, _)| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
            assert!(
                !is_used || rooms.contains(&room.as_str()),
                "{} uses {name}",
                path.display()
            );
        }
    }
}

/// Commands, daemon and lab assemble crawls in one place, so that a strategy means the same in all.
#[test]
fn crawls_are_put_together_in_one_place() {
    // Where single sites are visited, or where the name of a strategy becomes a setting.
    let allowed: [(&str, &[&str]); 3] = [
        (
            "InternalCrawler::new(",
            &[
                "cli/classify.rs",
                "external/assembly.rs",
                "lab/table_two.rs",
            ],
        ),
        ("ExternalCrawler::open(", &["external/assembly.rs"]),
        (
            ".strategy",
            &[
                "cli/crawl.rs",
                "cli/demo.rs",
                "config/external.rs",
                "external/ordering.rs",
            ],
        ),
    ];
    for (code, wanted) in allowed {
        let src = root().join("src");
        let is_there = |(path, text): &(PathBuf, String)| {
            let mut found = text
                .match_indices(code)
                .map(|(at, _)| &text[at + code.len()..]);
            let is_there = found.any(|after| !after.starts_with(char::is_alphanumeric));
            is_there.then(|| path.strip_prefix(&src).expect("below src").to_owned())
        };
        let found: Vec<PathBuf> = sources().iter().filter_map(is_there).collect();
        let unexpected = found
            .iter()
            .filter(|file| !wanted.iter().any(|known| file.ends_with(known)));
        assert_eq!(unexpected.count(), 0, "{code} in {found:?}");
    }
    for user in ["cli/crawl.rs", "cli/demo.rs", "cli/run.rs", "lab/walk.rs"] {
        let text = fs::read_to_string(root().join("src").join(user)).expect("a source file");
        assert!(text.contains("TopicCrawl::"), "{user}");
    }
}

#[test]
fn every_file_says_what_it_is() {
    for directory in ["src", "tests", "benches"] {
        for path in files_below(&root().join(directory), "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            assert!(text.starts_with("//! "), "{} has no header", path.display());
        }
    }
}

#[test]
fn no_file_is_a_drawer() {
    for (path, _) in sources() {
        let stem = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .expect("a name");
        assert!(!MEANINGLESS_NAMES.contains(&stem), "{}", path.display());
    }
}

/// The names in back quotes of a text: `a/path.rs`, `a::Name`, `a_word`.
fn quoted(text: &str) -> Vec<&str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

#[test]
fn the_map_names_only_what_exists() {
    let map = fs::read_to_string(root().join("src/lib.rs")).expect("the map");
    let map = map.split("\n\n").next().expect("a header");
    let mut paths = Vec::new();
    let mut words = BTreeSet::new();
    for directory in ["src", "tests"] {
        for path in files_below(&root().join(directory), "rs") {
            if path.ends_with("src/lib.rs") || path.ends_with("tidy.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source file");
            let is_name = |c: char| c.is_alphanumeric() || c == '_';
            words.extend(text.split(|c| !is_name(c)).map(str::to_owned));
            paths.push(path);
        }
    }
    let names = quoted(map);
    assert!(names.len() > 50, "the table of changes is found");
    for name in names {
        let is_path = ["/", ".rs", ".toml"].iter().any(|part| name.contains(part));
        let exists = if is_path {
            let is_there = |below: &str| root().join(below).join(name).exists();
            is_there("") || is_there("src") || paths.iter().any(|path| path.ends_with(name))
        } else {
            // A flag of the command line is a word too.
            name.split(['.', ':', ' ', '-'])
                .filter(|part| !part.is_empty())
                .all(|part| words.contains(part))
        };
        assert!(exists, "src/lib.rs names `{name}`, which does not exist");
    }
}

#[test]
fn nothing_is_left_undone() {
    let forbidden = [
        "TODO",
        "FIXME",
        "XXX",
        "dbg!(",
        "todo!(",
        "unimplemented!(",
        "#[ignore",
    ];
    for directory in ["src", "benches", "tests"] {
        for path in files_below(&root().join(directory), "rs") {
            if path.ends_with("tidy.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source file");
            for word in forbidden {
                assert!(!text.contains(word), "{} contains {word}", path.display());
            }
        }
    }
}

#[test]
fn the_top_level_is_complete() {
    for name in [
        "Cargo.toml",
        "Cargo.lock",
        "src",
        "site-models",
        "config.toml",
        "deploy",
        "tests",
        "benches",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        ".ci/run",
    ] {
        assert!(root().join(name).exists(), "{name} is missing");
    }
}

#[test]
fn every_dependency_says_why() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let lines: Vec<&str> = manifest.lines().collect();
    let mut section = "";
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]") && line.contains(" = ") {
            let family = line.split(['-', ' ']).next().expect("a name");
            let is_explained = lines[at - 1].starts_with('#') || lines[at - 1].starts_with(family);
            assert!(is_explained, "no reason above `{line}`");
        }
    }
}

/// Cargo runs test programs by their names.
#[test]
fn skipped_checks_are_counted_after_all_tests() {
    let last = fs::read_dir(root().join("tests")).expect("a directory");
    let last = last
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file() || path.join("main.rs").exists())
        .max();
    assert_eq!(last, Some(root().join("tests/zero_skipped.rs")));
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    assert!(manifest.contains("[lib]\ndoctest = false\n"));
    // So code in the documentation would never be run.
    for (path, text) in sources() {
        let fences = text.lines().filter_map(|line| {
            let line = line.trim_start();
            let comment = line.strip_prefix("//!").or(line.strip_prefix("///"))?;
            comment.trim_start().strip_prefix("```")
        });
        for language in fences.step_by(2) {
            let is_code = language.is_empty() || language.contains("rust");
            assert!(!is_code, "{}: ```{language}", path.display());
        }
    }
}

/// A test that reads it elsewhere could pass silently where it is not set.
#[test]
fn tests_ask_for_real_websites_in_one_place() {
    let variable = "var_os(\"SITESCOUT_CORPORA\")";
    let mut found = Vec::new();
    for directory in ["src", "tests"] {
        for path in files_below(&root().join(directory), "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let is_read = text.contains("SITESCOUT_CORPORA\"") && !path.ends_with("tidy.rs");
            found.extend(is_read.then_some(path));
        }
    }
    let allowed = ["tests/behaviour/skipping.rs", "tests/skips/mod.rs"];
    assert_eq!(found, allowed.map(|file| root().join(file)));
    let text = fs::read_to_string(root().join(allowed[1])).expect("a source file");
    assert_eq!(text.matches(variable).count(), 1);
}

/// The commands a newcomer copies must be those that CI runs.
#[test]
fn the_readme_and_ci_run_the_same_tests() {
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    let ci = fs::read_to_string(root().join(".ci/run")).expect("the CI script");
    let command = "cargo test --locked";
    assert!(readme.contains(command) && ci.contains(command));
}
