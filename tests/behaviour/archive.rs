//! Archives as a source of pages: which addresses are found and which are not.

use proptest::prelude::*;
use sitescout::config::FetchSettings;
use sitescout::fetch::{Archive, ErrorKind, Fetcher};
use sitescout::web::{FetchedPage, PageUrl};

use crate::warc::{WarcBuilder, gzip, in_file, record};
use crate::{fixture, without_index};

fn open(bytes: &[u8]) -> Archive {
    let (_directory, path) = in_file("test.warc", bytes);
    Archive::open(&[path], &without_index()).expect("an archive")
}

fn url(text: &str) -> PageUrl {
    text.parse().expect("an address")
}

fn read(archive: &Archive, text: &str) -> Option<FetchedPage> {
    archive.read(&url(text)).expect("a readable archive")
}

fn body(archive: &Archive, text: &str) -> Option<String> {
    read(archive, text).map(|page| String::from_utf8_lossy(&page.body).into_owned())
}

#[tokio::test]
async fn unknown_hosts_are_unreachable_and_unknown_pages_are_404() {
    let archive = open(
        &WarcBuilder::default()
            .page("http://example.org/", "home")
            .plain(),
    );
    let door: &dyn Fetcher = &archive;
    let home = door
        .fetch(&url("http://example.org/"))
        .await
        .expect("the homepage");
    assert_eq!((home.status.as_u16(), &*home.body), (200, &b"home"[..]));
    let missing = door
        .fetch(&url("http://example.org/missing"))
        .await
        .expect("an answer");
    assert_eq!((missing.status.as_u16(), missing.body.len()), (404, 0));
    let error = door
        .fetch(&url("http://other.example/"))
        .await
        .expect_err("no such host");
    assert_eq!(error.kind, ErrorKind::NoHost);
    assert_eq!(error.to_string(), "there is no host other.example");
}

#[test]
fn the_scheme_and_www_do_not_matter() {
    let archive = open(
        &WarcBuilder::default()
            .page("http://www.example.org/a", "a")
            .gzip(),
    );
    for spelling in [
        "http://www.example.org/a",
        "https://example.org/a",
        "HTTPS://EXAMPLE.ORG:443/a#part",
        "http://example.org/x/../a?utm_source=mail",
    ] {
        assert_eq!(body(&archive, spelling).as_deref(), Some("a"), "{spelling}");
        assert_eq!(read(&archive, spelling).expect("a page").url, url(spelling));
    }
    for other in [
        "http://example.org/A",
        "http://example.org/a/",
        "http://example.org:8080/a",
    ] {
        assert_eq!(read(&archive, other).map(|page| page.url), None, "{other}");
    }
}

#[test]
fn the_newest_capture_is_served() {
    let at = |body: &str| format!("HTTP/1.1 200 OK\r\n\r\n{body}").into_bytes();
    let archive = open(
        &WarcBuilder::default()
            .response_at("2026-01-02T00:00:00Z", "http://example.org/", &at("second"))
            .response_at(
                "2026-01-03T00:00:00.5Z",
                "https://example.org/",
                &at("third"),
            )
            .response_at("2026-01-01T00:00:00Z", "http://example.org/", &at("first"))
            .plain(),
    );
    assert_eq!(
        body(&archive, "http://example.org/").as_deref(),
        Some("third")
    );
    let pages: Vec<u64> = archive.sites().map(|(_, pages)| pages).collect();
    assert_eq!((pages, archive.records()), (vec![1], 3));
}

#[test]
fn redirects_are_records_but_not_to_themselves() {
    let redirect = |to: &str| format!("HTTP/1.1 301 Moved\r\nLocation: {to}\r\n\r\n").into_bytes();
    let archive = open(
        &WarcBuilder::default()
            .page("https://www.example.org/", "home")
            .response_at(
                "2026-09-09T00:00:00Z",
                "http://example.org/",
                &redirect("https://www.example.org/"),
            )
            .response("http://example.org/old", &redirect("/new"))
            .response(
                "http://lonely.example/",
                &redirect("https://lonely.example/"),
            )
            .plain(),
    );
    assert_eq!(
        body(&archive, "http://example.org/").as_deref(),
        Some("home")
    );
    let old = read(&archive, "http://example.org/old").expect("a redirect");
    assert_eq!(old.redirect_target(), Some(url("http://example.org/new")));
    assert!(read(&archive, "http://lonely.example/").is_none());
}

#[test]
fn resources_are_pages_without_http() {
    let fields = |url| {
        [
            ("WARC-Type", "resource"),
            ("WARC-Target-URI", url),
            ("Content-Type", "text/plain; charset=utf-8"),
        ]
    };
    let archive = open(
        &WarcBuilder::default()
            .record(
                &fields("http://example.org/a.txt"),
                b"HTTP/1.1 is not spoken here",
            )
            .record(&fields("dns:example.org"), b"93.184.216.34")
            .record(&fields("ftp://example.org/file"), b"no page")
            .plain(),
    );
    let page = read(&archive, "http://example.org/a.txt").expect("the resource");
    assert_eq!(page.status.as_u16(), 200);
    assert_eq!(
        page.content_type().as_deref(),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(&*page.body, b"HTTP/1.1 is not spoken here");
    assert_eq!((archive.sites().count(), archive.records()), (1, 3));
    assert_eq!(
        archive.other_schemes().collect::<Vec<_>>(),
        [("dns", 1), ("ftp", 1)]
    );
    assert!(archive.problems().is_empty());
}

#[test]
fn revisits_are_answered_with_what_they_refer_to() {
    let digest = ("WARC-Payload-Digest", "sha1:AAAA");
    let original = |url| [("WARC-Type", "response"), ("WARC-Target-URI", url), digest];
    let revisit = |url, extra| {
        let profile = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";
        [
            ("WARC-Type", "revisit"),
            ("WARC-Date", "2026-05-05T00:00:00Z"),
            ("WARC-Target-URI", url),
            ("WARC-Profile", profile),
            extra,
        ]
    };
    let http = b"HTTP/1.1 200 OK\r\n\r\noriginal";
    let first = WarcBuilder::default()
        .record(&original("http://example.org/a"), http)
        .gzip();
    let refers = ("WARC-Refers-To-Target-URI", "http://example.org/a");
    let second = WarcBuilder::default()
        .record(&revisit("http://example.org/a", digest), b"")
        .record(
            &revisit("http://example.org/by-address", refers),
            b"HTTP/1.1 200 OK\r\n\r\n",
        )
        .record(&revisit("http://example.org/by-digest", digest), b"")
        .record(
            &revisit(
                "http://example.org/lost",
                ("WARC-Payload-Digest", "sha1:BBBB"),
            ),
            b"",
        )
        .gzip();
    let (_one, first) = in_file("first.warc.gz", &first);
    let (_two, second) = in_file("second.warc.gz", &second);
    let archive = Archive::open(&[&second, &first], &without_index()).expect("two archives");
    for page in ["a", "by-address", "by-digest"] {
        let address = format!("http://example.org/{page}");
        assert_eq!(
            body(&archive, &address).as_deref(),
            Some("original"),
            "{page}"
        );
        assert_eq!(read(&archive, &address).expect("a page").url, url(&address));
    }
    assert!(read(&archive, "http://example.org/lost").is_none());
    let problems: Vec<String> = archive
        .problems()
        .iter()
        .map(|(_, p)| p.kind.to_string())
        .collect();
    assert_eq!(
        problems,
        ["a revisit of a record that is not here (http://example.org/lost)"]
    );
    assert!(!archive.problems()[0].1.kind.is_damage());
}

/// All redirects have the same empty body, so a revisit may refer to another one.
#[test]
fn a_revisit_keeps_its_own_status_and_headers() {
    let empty = ("WARC-Payload-Digest", "sha1:EMPTY");
    let record = |kind, url, date| {
        [
            ("WARC-Type", kind),
            ("WARC-Target-URI", url),
            ("WARC-Date", date),
            empty,
        ]
    };
    let one = b"HTTP/1.1 301 Moved\r\nLocation: /one\r\n\r\n";
    let two = b"HTTP/1.1 302 Found\r\nLocation: /two\r\n\r\n";
    let not_modified = b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n";
    let warc = WarcBuilder::default()
        .record(
            &record("response", "http://a.example/", "2026-01-01T00:00:00Z"),
            one,
        )
        .record(
            &record("revisit", "http://b.example/", "2026-01-02T00:00:00Z"),
            two,
        )
        .record(
            &record("revisit", "http://a.example/", "2026-01-03T00:00:00Z"),
            not_modified,
        );
    let archive = open(&warc.plain());
    let target = |text| read(&archive, text).expect("a page").redirect_target();
    assert_eq!(
        target("http://b.example/"),
        Some(url("http://b.example/two"))
    );
    assert_eq!(
        target("http://a.example/"),
        Some(url("http://a.example/one"))
    );
}

#[test]
fn a_revisit_is_answered_from_the_time_it_names() {
    let http = |body: &str| format!("HTTP/1.1 200 OK\r\n\r\n{body}").into_bytes();
    let page = "http://example.org/";
    let base = || {
        WarcBuilder::default()
            .response_at("2023-06-01T00:00:00Z", page, &http("june"))
            .response_at("2023-12-31T00:00:00Z", page, &http("december"))
            .response_at("2024-02-15T00:00:00Z", page, &http("february"))
    };
    let revisit = |date, named: &[(&'static str, &'static str)]| {
        let mut fields = vec![
            ("WARC-Type", "revisit"),
            ("WARC-Date", date),
            ("WARC-Target-URI", page),
        ];
        fields.extend(named);
        body(&open(&base().record(&fields, b"").plain()), page)
    };
    let named = [("WARC-Refers-To-Date", "2023-06-01T00:00:00Z")];
    assert_eq!(
        revisit("2025-01-01T00:00:00Z", &named).as_deref(),
        Some("june")
    );
    assert_eq!(
        revisit("2025-01-01T00:00:00Z", &[]).as_deref(),
        Some("february")
    );
    let archive = open(
        &WarcBuilder::default()
            .response_at("2024-02-15T00:00:00Z", "http://a.example/", &http("later"))
            .response_at("2023-12-31T00:00:00Z", "http://a.example/", &http("before"))
            .record(
                &[
                    ("WARC-Type", "revisit"),
                    ("WARC-Date", "2024-01-01T00:00:00Z"),
                    ("WARC-Target-URI", "http://b.example/"),
                    ("WARC-Refers-To-Target-URI", "http://a.example/"),
                ],
                b"",
            )
            .plain(),
    );
    assert_eq!(
        body(&archive, "http://b.example/").as_deref(),
        Some("before")
    );
}

#[test]
fn interim_responses_and_cut_bodies_are_understood() {
    let http = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nbody";
    let fields = [
        ("WARC-Type", "response"),
        ("WARC-Target-URI", "http://example.org/"),
        ("WARC-Truncated", "length"),
    ];
    let archive = open(&WarcBuilder::default().record(&fields, http).plain());
    let page = read(&archive, "http://example.org/").expect("a page");
    assert_eq!(
        (page.status.as_u16(), &*page.body, page.truncated),
        (200, &b"body"[..], true)
    );
}

#[test]
fn thousands_of_header_fields_are_survived() {
    let mut http = b"HTTP/1.1 200 OK\r\n".to_vec();
    for number in 0..10_000 {
        http.extend(format!("X-{number}: 1\r\n").bytes());
    }
    http.extend(b"\r\nbody");
    let archive = open(
        &WarcBuilder::default()
            .response("http://example.org/", &http)
            .plain(),
    );
    let page = read(&archive, "http://example.org/").expect("a page");
    assert_eq!((page.headers.len(), &*page.body), (1_000, &b"body"[..]));
}

#[test]
fn several_files_are_one_web() {
    let (_one, first) = in_file(
        "a.warc",
        &WarcBuilder::default()
            .page("http://a.example/", "a")
            .plain(),
    );
    let second = WarcBuilder::default()
        .page("http://b.example/", "b")
        .page("http://a.example/", "a");
    let (_two, second) = in_file("b.warc.gz", &second.gzip());
    let archive = Archive::open(&[first, second], &without_index()).expect("two archives");
    let sites: Vec<(String, u64)> = archive
        .sites()
        .map(|(site, pages)| (site.to_string(), pages))
        .collect();
    assert_eq!(
        sites,
        [("a.example".to_owned(), 1), ("b.example".to_owned(), 1)]
    );
    assert_eq!(body(&archive, "http://b.example/").as_deref(), Some("b"));
    assert_eq!(archive.captures().count(), 3);
}

#[test]
fn bodies_come_decoded_and_bounded() {
    let packed = gzip("hello ".repeat(10_000).as_bytes());
    let mut chunked =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n".to_vec();
    for chunk in packed.chunks(50) {
        chunked.extend(format!("{:x}\r\n", chunk.len()).bytes());
        chunked.extend(chunk);
        chunked.extend(b"\r\n");
    }
    chunked.extend(b"0\r\n\r\n");
    let archive = WarcBuilder::default()
        .response("http://example.org/", &chunked)
        .gzip();
    let (_directory, path) = in_file("a.warc.gz", &archive);
    let whole = Archive::open(&[&path], &without_index()).expect("an archive");
    let page = read(&whole, "http://example.org/").expect("a page");
    assert_eq!((page.body.len(), page.truncated), (60_000, false));
    let mut settings = without_index();
    settings.body_bytes = 5_000;
    let bounded = Archive::open(&[&path], &settings).expect("an archive");
    let page = read(&bounded, "http://example.org/").expect("a page");
    assert_eq!((page.body.len(), page.truncated), (5_000, true));
}

#[test]
fn the_index_is_kept_beside_the_archive_and_checked_against_it() {
    let old = WarcBuilder::default()
        .page("http://example.org/", "old")
        .gzip();
    let (_directory, path) = in_file("a.warc.gz", &old);
    let index = path.with_file_name("a.warc.gz.scoutindex");
    let open = || Archive::open(&[&path], &FetchSettings::default()).expect("an archive");
    assert_eq!(body(&open(), "http://example.org/").as_deref(), Some("old"));
    let first = std::fs::read(&index).expect("an index");
    assert_eq!(body(&open(), "http://example.org/").as_deref(), Some("old"));
    assert_eq!(std::fs::read(&index).expect("an index"), first);

    let new = WarcBuilder::default()
        .page("http://example.org/more", "x")
        .page("http://example.org/", "new");
    std::fs::write(&path, new.gzip()).expect("room");
    assert_eq!(body(&open(), "http://example.org/").as_deref(), Some("new"));
    assert_ne!(std::fs::read(&index).expect("an index"), first);

    let whole = std::fs::read(&index).expect("an index");
    for broken in [
        &b""[..],
        b"rubbish",
        &whole[..whole.len() - 1],
        &[&whole[..60], &[0xff; 9]].concat(),
    ] {
        std::fs::write(&index, broken).expect("room");
        assert_eq!(body(&open(), "http://example.org/").as_deref(), Some("new"));
        assert_eq!(
            std::fs::read(&index).expect("an index"),
            whole,
            "it was rebuilt"
        );
    }
}

#[test]
fn an_index_of_another_file_is_not_believed() {
    let bytes = WarcBuilder::default()
        .page("http://example.org/", "one")
        .gzip();
    let (_directory, path) = in_file("a.warc.gz", &bytes);
    let index = path.with_file_name("a.warc.gz.scoutindex");
    Archive::open(&[&path], &FetchSettings::default()).expect("an archive");
    let stolen = std::fs::read(&index).expect("an index");
    let other = WarcBuilder::default()
        .page("http://example.com/", "two")
        .gzip();
    std::fs::write(&path, other).expect("room");
    std::fs::write(&index, stolen).expect("room");
    let archive = Archive::open(&[&path], &FetchSettings::default()).expect("an archive");
    assert_eq!(
        body(&archive, "http://example.com/").as_deref(),
        Some("two")
    );
    assert!(read(&archive, "http://example.org/").is_none());
}

#[test]
fn nothing_is_kept_where_nothing_may_be() {
    let bytes = WarcBuilder::default()
        .page("http://example.org/", "one")
        .gzip();
    let (directory, path) = in_file("a.warc.gz", &bytes);
    Archive::open(&[&path], &without_index()).expect("an archive");
    let files = std::fs::read_dir(directory.path())
        .expect("a directory")
        .count();
    assert_eq!(files, 1);
}

#[test]
fn our_own_archive_is_read() {
    let archive = Archive::open(&[fixture("harbour.warc")], &without_index()).expect("ours");
    let sites: Vec<String> = archive
        .sites()
        .map(|(site, pages)| format!("{pages} {site}"))
        .collect();
    assert_eq!(
        sites,
        [
            "2 baeckerei-lind.example",
            "1 for-sale.example",
            "5 harbour-sailing.example",
            "3 old-frames.example",
            "3 segelclub-moewe.example",
        ]
    );
    assert!(archive.problems().is_empty());
    let home = body(&archive, "http://segelclub-moewe.example/").expect("the homepage");
    assert!(home.contains("Willkommen beim Segelclub"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However records are split into gzip members, the same pages are read.
    #[test]
    fn any_split_into_members_gives_the_same_pages(
        bodies in prop::collection::vec("[a-z\r\n]{0,60}", 1..6),
        cuts in prop::collection::vec(0_usize..2_000, 0..6),
        version in prop::sample::select(vec!["WARC/1.0", "WARC/1.1"]),
    ) {
        let mut plain = Vec::new();
        for (number, body) in bodies.iter().enumerate() {
            let url = format!("http://example.org/{number}");
            let fields = [("WARC-Type", "response"), ("WARC-Target-URI", url.as_str())];
            let http = format!("HTTP/1.1 200 OK\r\n\r\n{body}");
            plain.extend(record(version, &fields, http.as_bytes()));
        }
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < plain.len()).collect();
        cuts.sort_unstable();
        cuts.push(plain.len());
        let mut packed = Vec::new();
        let mut start = 0;
        for cut in cuts {
            packed.extend(gzip(&plain[start..cut]));
            start = cut;
        }
        for bytes in [&plain, &packed] {
            let archive = open(bytes);
            prop_assert!(archive.problems().iter().all(|(_, problem)| !problem.kind.is_damage()));
            for (number, wanted) in bodies.iter().enumerate() {
                let found = body(&archive, &format!("http://example.org/{number}"));
                prop_assert_eq!(found.as_ref(), Some(wanted));
            }
        }
    }
}
