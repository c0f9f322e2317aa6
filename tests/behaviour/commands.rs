//! The commands as a user runs them: output, errors, exit codes.

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use serde_json::Value;

use crate::fixture;
use crate::warc::{WarcBuilder, in_file};

fn sitescout(arguments: &[&str]) -> Assert {
    Command::new(env!("CARGO_BIN_EXE_sitescout"))
        .args(arguments)
        .assert()
}

fn stdout(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8")
}

fn stderr(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).expect("UTF-8")
}

/// A copy, so that no index appears among the fixtures.
fn harbour() -> (tempfile::TempDir, String) {
    let bytes = std::fs::read(fixture("harbour.warc")).expect("the fixture");
    let (directory, path) = in_file("harbour.warc", &bytes);
    (directory, path.to_string_lossy().into_owned())
}

#[test]
fn archive_lists_hosts_and_pages() {
    let (_directory, path) = harbour();
    let hosts = sitescout(&["archive", &path]).success();
    let lines = stdout(&hosts);
    assert!(
        lines.contains("        5  harbour-sailing.example\n"),
        "{lines}"
    );
    assert!(
        lines.ends_with("5 hosts, 14 pages, 16 records\n"),
        "{lines}"
    );
    assert_eq!(stderr(&hosts), "");

    let pages = stdout(
        &sitescout(&[
            "archive",
            "--pages",
            "--host",
            "www.old-frames.example",
            &path,
        ])
        .success(),
    );
    assert_eq!(pages.lines().count(), 3, "{pages}");
    assert!(
        pages.contains("200       235 text/html                http://old-frames.example/\n"),
        "{pages}"
    );

    let one = stdout(
        &sitescout(&[
            "archive",
            "--page",
            "http://harbour-sailing.example/links.html",
            &path,
        ])
        .success(),
    );
    assert!(
        one.contains("title     Links - Harbour Sailing Club\n"),
        "{one}"
    );
    assert!(
        one.contains("=> https://segelclub-moewe.example/  Segelclub Möwe\n"),
        "{one}"
    );
}

#[test]
fn json_is_one_object_a_line() {
    let (_directory, path) = harbour();
    for arguments in [
        &["archive", "--json"][..],
        &["archive", "--json", "--pages"],
        &["archive", "--json", "--read"],
        &[
            "archive",
            "--json",
            "--page",
            "http://baeckerei-lind.example/",
        ],
    ] {
        let output = stdout(&sitescout(&[arguments, &[&path]].concat()).success());
        assert!(!output.is_empty());
        for line in output.lines() {
            let value: Value = serde_json::from_str(line).expect("JSON");
            assert!(value.is_object());
        }
    }
    let read = stdout(&sitescout(&["archive", "--json", "--read", &path]).success());
    assert_eq!(read.lines().count(), 14, "each page once");
}

#[test]
fn a_damaged_archive_is_listed_with_its_problems() {
    let warc = WarcBuilder::default()
        .page("http://example.org/", "x")
        .page("http://example.org/y", "y");
    let bytes = warc.plain();
    let (_directory, path) = in_file("cut.warc", &bytes[..bytes.len() - 10]);
    let path = path.to_string_lossy().into_owned();
    let listing = sitescout(&["archive", &path]).code(65);
    let lines = stdout(&listing);
    assert!(lines.contains("        2  example.org\n"), "{lines}");
    let offset = warc.records[0].len();
    let wanted = format!(
        "damage: {path}: at byte {offset}: the record ends after 39 of the 45 bytes it announces\n"
    );
    assert!(lines.ends_with(&wanted), "{lines}");
    let page = sitescout(&["archive", "--page", "http://example.org/", &path]).code(65);
    assert!(stdout(&page).contains("status    200 OK\n"));
    let wanted = format!("sitescout: {path} is damaged at byte {offset}: ");
    assert!(stderr(&page).starts_with(&wanted), "{}", stderr(&page));
    let json = stdout(&sitescout(&["archive", "--json", &path]).code(65));
    let last: Value = serde_json::from_str(json.lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        (&last["damage"], &last["offset"]),
        (&Value::Bool(true), &offset.into())
    );
}

#[test]
fn errors_say_what_and_where_and_set_the_exit_code() {
    let (_directory, path) = in_file("page.html", b"<html>");
    let path = path.to_string_lossy().into_owned();
    let not_warc = sitescout(&["archive", &path]).code(65);
    assert_eq!(
        stderr(&not_warc),
        format!("sitescout: {path} is not a WARC archive: it holds no WARC record\n")
    );
    let missing = sitescout(&["archive", "/nonexistent.warc"]).code(1);
    let wanted = "sitescout: cannot read the archive /nonexistent.warc: No such file or directory";
    assert!(stderr(&missing).starts_with(wanted), "{}", stderr(&missing));
    let (_directory, harbour) = harbour();
    let unknown = sitescout(&["archive", "--page", "http://nobody.example/", &harbour]).code(1);
    assert_eq!(
        stderr(&unknown),
        "sitescout: there is no host nobody.example\n"
    );
    let wrong = sitescout(&["archive", "--page", "not a url", &harbour]).code(2);
    assert!(stderr(&wrong).contains("not a URL"), "{}", stderr(&wrong));
    sitescout(&["archive"]).code(2);
    sitescout(&["nonsense"]).code(2);
}

#[test]
fn check_config_reports_all_problems() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/config.toml");
    let fine = sitescout(&["check-config", shipped]).success();
    assert_eq!(stdout(&fine), format!("{shipped}: ok, every key is set\n"));
    let (_directory, path) = in_file("bad.toml", b"[log]\nlevel = 'loud'\n[fetch]\nbody = 1\n");
    let path = path.to_string_lossy().into_owned();
    let wanted = format!(
        "sitescout: the settings cannot be used\n\
         {path}:2:9: `log.level` must be one of \"error\", \"warn\", \"info\", \"debug\", \"trace\", not \"loud\"\n\
         {path}:4:1: unknown key `body` in [fetch]; did you mean `body_bytes`?\n"
    );
    for arguments in [
        &["check-config", &path][..],
        &["check-config", "--config", &path],
        &["--config", &path, "archive", "x.warc"],
    ] {
        let refused = sitescout(arguments).code(78);
        assert!(
            stderr(&refused).starts_with(&wanted),
            "{}",
            stderr(&refused)
        );
        assert_eq!(stdout(&refused), "");
    }
    let (_directory, path) = in_file(
        "part.toml",
        b"[log]\nlevel = 'warn'\n[parse]\nmax_links = 5\n",
    );
    let part = stdout(&sitescout(&["check-config", &path.to_string_lossy()]).success());
    let wanted = "ok, left at their defaults: log.format, store.cache_bytes, store.evidence, \
        store.evidence_age, store.edges, fetch.contact, fetch.body_bytes, fetch.resolve, ";
    assert!(part.contains(wanted), "{part}");
    assert!(part.ends_with(", api.connections\n"), "{part}");
    sitescout(&["check-config", "/nonexistent.toml"]).code(1);
    let (_directory, path) = in_file("latin.toml", b"[log]\n# \xe4\n");
    let path = path.to_string_lossy().into_owned();
    let latin = sitescout(&["check-config", &path]).code(78);
    assert!(stderr(&latin).ends_with(&format!("{path}:2: the text is not UTF-8 here\n")));
}

#[test]
fn settings_take_effect() {
    let (_directory, archive) = harbour();
    let (_other, config) = in_file(
        "c.toml",
        b"[parse]\nmax_links = 1\n[fetch.archive]\nkeep_index = false\n",
    );
    let config = config.to_string_lossy().into_owned();
    let page = "http://harbour-sailing.example/links.html";
    let output =
        stdout(&sitescout(&["--config", &config, "archive", "--page", page, &archive]).success());
    assert_eq!(
        output.lines().filter(|line| line.starts_with("->")).count(),
        1
    );
    assert!(!std::path::Path::new(&format!("{archive}.scoutindex")).exists());
    sitescout(&["archive", &archive]).success();
    assert!(std::path::Path::new(&format!("{archive}.scoutindex")).exists());
}

#[test]
fn hostile_titles_do_not_reach_the_terminal() {
    let warc =
        WarcBuilder::default().page("http://example.org/", "<title>a\x1b]0;owned\x07b</title>");
    let (_directory, path) = in_file("a.warc", &warc.plain());
    let path = path.to_string_lossy().into_owned();
    for arguments in [
        &["archive", "--read"][..],
        &["archive", "--page", "http://example.org/"],
    ] {
        let output = stdout(&sitescout(&[arguments, &[&path]].concat()).success());
        assert!(!output.contains(['\x1b', '\x07']), "{output:?}");
        assert!(output.contains("]0;owned"), "{output:?}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    use std::process::{Command, Stdio};
    let (_directory, path) = harbour();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sitescout"))
        .args(["archive", "--read", "--json", &path])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn help_shows_examples_and_exit_codes() {
    let help = stdout(&sitescout(&["--help"]).success());
    assert!(
        help.contains("Exit codes: 0 done, 1 failed, 2 wrong usage, 65 damaged input"),
        "{help}"
    );
    let help = stdout(&sitescout(&["archive", "--help"]).success());
    assert!(help.contains("Examples:\n"), "{help}");
    sitescout(&["--version"]).success();
}

/// The commands that `--help` lists below a command.
fn commands_below(command: &[String]) -> Vec<Vec<String>> {
    let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
    arguments.push("--help");
    let help = stdout(&sitescout(&arguments).success());
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    list.lines()
        .take_while(|line| !line.is_empty())
        // Descriptions that take several lines are indented further.
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(|name| [command, &[name.to_owned()]].concat())
        .collect()
}

#[test]
fn every_command_has_a_man_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("man");
    let out_name = out.to_string_lossy().into_owned();
    sitescout(&["generate", "man", "--out", &out_name]).success();
    let mut to_see = vec![Vec::new()];
    let mut expected = std::collections::BTreeSet::new();
    while let Some(command) = to_see.pop() {
        let name = [&["sitescout".to_owned()], &command[..]].concat().join("-");
        let page = std::fs::read_to_string(out.join(format!("{name}.1")))
            .unwrap_or_else(|error| panic!("no page for {name}: {error}"));
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
        expected.insert(format!("{name}.1"));
        to_see.extend(commands_below(&command));
    }
    assert!(expected.contains("sitescout-evaluate-classifier.1"));
    let export = std::fs::read_to_string(out.join("sitescout-export.1")).expect("a page");
    assert!(export.contains("\n.SH NOTES\n.nf\nExamples:\n"), "{export}");
    assert!(export.ends_with("\n.fi\n"), "{export}");
    let written = std::fs::read_dir(&out).expect("the pages");
    let written = written.map(|entry| entry.expect("a page").file_name());
    let written: std::collections::BTreeSet<String> = written
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    assert_eq!(written, expected, "a page without a command");
}

#[test]
fn shells_learn_every_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_string_lossy().into_owned();
    sitescout(&["generate", "completions", "--out", &out]).success();
    for file in ["sitescout.bash", "sitescout.fish", "_sitescout"] {
        let text = std::fs::read_to_string(directory.path().join(file)).expect("completions");
        for command in commands_below(&[]) {
            assert!(text.contains(&command[0]), "{file} lacks {command:?}");
        }
    }
}
