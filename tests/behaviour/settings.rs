//! Settings: the shipped file, and what is wrong with other ones.

use sitescout::config::{DamagePolicy, PageClassifierChoice, Settings};

const SHIPPED: &str = include_str!("../../config.toml");

fn problems(text: &str) -> Vec<String> {
    let error = Settings::parse(text).expect_err("problems");
    error.0.iter().map(ToString::to_string).collect()
}

#[test]
fn the_shipped_file_is_the_defaults_and_sets_every_key() {
    assert_eq!(Settings::parse(SHIPPED), Ok(Settings::default()));
    assert_eq!(Settings::keys_left_out(SHIPPED), Vec::<String>::new());
    assert_eq!(Settings::parse(""), Ok(Settings::default()));
    assert_eq!(Settings::keys_left_out("").len(), 43);
}

#[test]
fn every_key_of_the_shipped_file_has_a_comment_above_it() {
    let lines: Vec<&str> = SHIPPED.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if line.contains(" = ") && !line.starts_with('#') {
            assert!(lines[at - 1].starts_with('#'), "no comment above `{line}`");
        }
    }
}

#[test]
fn values_are_read() {
    let text = "[fetch]\nbody_bytes = 1_048_576\narchive.damaged = 'salvage'\n[parse]\nmax_url_bytes = '1 KiB'\n\
        [internal]\nlink_threshold = 7\nlink_constant = 1.5\n\
        [training]\npage_classifier = 'centroid'\nseed = 9";
    let settings = Settings::parse(text).expect("settings");
    assert_eq!(settings.fetch.body_bytes, 1 << 20);
    assert_eq!(settings.fetch.archive.damaged, DamagePolicy::Salvage);
    assert_eq!(settings.parse.max_url_bytes, 1 << 10);
    assert!((settings.internal.link_threshold - 7.0).abs() < 1e-12);
    assert!((settings.internal.link_constant - 1.5).abs() < 1e-12);
    let training = settings.training;
    assert_eq!(training.page_classifier, PageClassifierChoice::Centroid);
    assert_eq!(training.seed, 9);
    let found = problems("[internal]\nlink_constant = 0.5\nlink_threshold = 'far'\n");
    assert_eq!(
        found,
        [
            "2:17: `internal.link_constant` must be a number from 1 to 1000, not 0.5",
            "3:18: `internal.link_threshold` must be a number from 0 to 1000000, not \"far\"",
        ]
    );
}

#[test]
fn all_problems_are_told_at_once_with_their_places() {
    let text = "\
[log]
levle = \"info\"
format = \"xml\"

[fetch]
body_bytes = \"1 TiB\"
archive = 3

[parse]
max_links = -1
max_url_bytes = \"many\"

[crawl]
speed = 11
";
    assert_eq!(
        problems(text),
        [
            "2:1: unknown key `levle` in [log]; did you mean `level`?",
            "3:10: `log.format` must be one of \"auto\", \"human\", \"json\", not \"xml\"",
            "6:14: `fetch.body_bytes` must be a size from 1.0 KiB to 1.0 GiB, such as \"512 KiB\" \
             or a number of bytes, not \"1 TiB\"",
            "7:11: `fetch.archive` must be a table, not 3",
            "10:13: `parse.max_links` must be a whole number from 1 to 1000000, not -1",
            "11:17: `parse.max_url_bytes` must be a size from 16 B to 8.0 KiB, such as \"512 KiB\" \
             or a number of bytes, not \"many\"",
            "13:2: unknown key `crawl` at the top of the file; known are: log, fetch, parse, \
             internal, training",
        ]
    );
}

#[test]
fn broken_syntax_does_not_hide_other_problems() {
    let found = problems("[log]\nlevel = \nformat = 'xml'\nä = 1\n");
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("2:9: "), "{found:?}");
    assert!(found[1].starts_with("3:10: `log.format`"), "{found:?}");
    assert!(found[2].starts_with("4:1: "), "{found:?}");
}
