//! Settings: the shipped file is the default, and wrong files are refused with reasons.

use std::path::Path;
use std::time::Duration;

use sitescout::config::{CertificatePolicy, DamagePolicy, PageClassifierChoice, Settings};

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
    assert_eq!(Settings::keys_left_out("").len(), 83);
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
        [training]\npage_classifier = 'centroid'\nseed = 9\nbackground = 'own/background.bin'";
    let settings = Settings::parse(text).expect("settings");
    assert_eq!(settings.fetch.body_bytes, 1 << 20);
    assert_eq!(settings.fetch.archive.damaged, DamagePolicy::Salvage);
    assert_eq!(settings.parse.max_url_bytes, 1 << 10);
    assert!((settings.internal.link_threshold - 7.0).abs() < 1e-12);
    assert!((settings.internal.link_constant - 1.5).abs() < 1e-12);
    let training = settings.training;
    assert_eq!(training.page_classifier, PageClassifierChoice::Centroid);
    assert_eq!(training.seed, 9);
    let background = settings.background.as_deref();
    assert_eq!(background, Some(Path::new("own/background.bin")));
    let none = Settings::parse("[training]\nbackground = ''").expect("settings");
    assert_eq!(none.background, None);
    assert_eq!(
        problems("[training]\nbackground = false\n"),
        ["2:14: `training.background` must be a text, not false"]
    );
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
fn the_live_web_has_settings_with_units() {
    let text = "[fetch]
contact = 'crawl@example.org'
resolve = [
    { host = '*.Example.', address = '127.0.0.1:8080' },
    { host = 'münchen.test', address = '[::1]:8443', tls = true },
]
allow_addresses = ['10.0.0.0/8', '192.168.1.1', 'fd00::/8']
ports = [80, 8080]
dns_servers = ['9.9.9.9', '[::1]:5353']
proxy = 'http://me:p%40ss@proxy.example:3128'
ca_file = '/etc/ca.pem'
bad_certificate = 'http'
[fetch.limits]
connect = '1500 ms'
request = '2 min'
content_types = ['Text/HTML']
[fetch.politeness]
pause = '250ms'
robots_max_age = '2 h'
";
    let fetch = Settings::parse(text).expect("settings").fetch;
    assert_eq!(fetch.contact.as_deref(), Some("crawl@example.org"));
    let rules: Vec<(&str, String, bool)> = fetch
        .resolve
        .iter()
        .map(|rule| (&*rule.host, rule.address.to_string(), rule.tls))
        .collect();
    assert_eq!(
        rules,
        [
            ("*.example", "127.0.0.1:8080".to_owned(), false),
            ("xn--mnchen-3ya.test", "[::1]:8443".to_owned(), true),
        ]
    );
    let ranges: Vec<String> = fetch
        .allow_addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(ranges, ["10.0.0.0/8", "192.168.1.1/32", "fd00::/8"]);
    assert_eq!(fetch.ports, [80, 8080]);
    let servers: Vec<String> = fetch.dns_servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["9.9.9.9:53", "[::1]:5353"]);
    let proxy = fetch.proxy.expect("a proxy");
    assert_eq!((&*proxy.host, proxy.port), ("proxy.example", 3128));
    let credentials = ("me".to_owned(), "p@ss".to_owned());
    assert_eq!(proxy.credentials, Some(credentials));
    assert_eq!(fetch.bad_certificate, CertificatePolicy::Http);
    assert_eq!(fetch.limits.connect, Duration::from_millis(1_500));
    assert_eq!(fetch.limits.request, Duration::from_mins(2));
    assert_eq!(fetch.limits.content_types, ["text/html"]);
    assert_eq!(fetch.politeness.pause, Duration::from_millis(250));
    assert_eq!(fetch.politeness.robots_max_age, Duration::from_hours(2));
}

#[test]
fn wrong_settings_for_the_live_web_say_what_would_be_right() {
    for (setting, wanted) in [
        (
            "contact = 'me'",
            "a URL such as \"https://example.org/crawler\" or a mail",
        ),
        ("contact = 'https://a.org/(x)'", "a URL such as"),
        ("contact = \"a@b.org\\r\\nX: y\"", "a URL such as"),
        (
            "resolve = [{ host = '*.example' }]",
            "a list of rules such as { host",
        ),
        (
            "resolve = [{ host = 'a', address = '127.0.0.1:1', to = 1 }]",
            "a list of rules",
        ),
        (
            "resolve = [{ host = 'a.*.b', address = '127.0.0.1:1' }]",
            "a list of rules",
        ),
        ("resolve = '*.example'", "a list of rules"),
        (
            "allow_addresses = ['10.0.0.0/33']",
            "a list of addresses or ranges such as",
        ),
        ("ports = [0]", "a list of ports such as 80"),
        ("ports = [65536]", "a list of ports such as 80"),
        ("dns_servers = ['localhost']", "a list of addresses such as"),
        (
            "proxy = 'socks5://127.0.0.1:1080'",
            "the address of an HTTP proxy, such as",
        ),
        ("limits.connect = 10", "a time from 10ms to 1h, such as"),
        (
            "limits.connect = '10 years'",
            "a time from 10ms to 1h, such as",
        ),
        (
            "limits.content_types = ['html']",
            "a list of media types such as",
        ),
        (
            "politeness.robots_max_age = '2 days'",
            "a time from 1s to 1day, such as",
        ),
        ("politeness.pause = '-1 s'", "a time from 0s to 1h, such as"),
    ] {
        let found = problems(&format!("[fetch]\n{setting}\n"));
        assert_eq!(found.len(), 1, "{setting}: {found:?}");
        assert!(found[0].contains(wanted), "{setting}: {found:?}");
    }
}

#[test]
fn relevant_sites_are_rechecked_after_a_time_or_never() {
    let recheck_after = |value: &str| {
        let text = format!("[external]\nrecheck_after = {value}\n");
        Settings::parse(&text).map(|settings| settings.external.recheck_after)
    };
    let week = Duration::from_hours(24 * 7);
    assert_eq!(recheck_after("'7 days'"), Ok(Some(week)));
    assert_eq!(recheck_after("'never'"), Ok(None));
    for wrong in ["'1 min'", "'always'", "7", "''"] {
        let problems = recheck_after(wrong).expect_err("a problem").to_string();
        let wanted = "must be \"never\" or a time from 1h to ";
        assert!(problems.contains(wanted), "{wrong}: {problems}");
    }
}

#[test]
fn all_problems_are_reported_at_once_with_their_places() {
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
            "13:2: unknown key `crawl` at the top of the file; known are: log, store, fetch, parse, \
             internal, external, training, service, api",
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
