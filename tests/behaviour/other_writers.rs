//! Archives written by other programs are read: wget, warcio, Common Crawl.

use sitescout::fetch::Archive;
use sitescout::web::PageUrl;

use crate::warc::{WarcBuilder, in_file};
use crate::{fixture, without_index};

fn url(path: &str) -> PageUrl {
    format!("http://localhost:8123{path}")
        .parse()
        .expect("an address")
}

/// The site that the fixtures recorded, whole and decoded.
fn assert_lighthouse(archive: &Archive) {
    for (path, wanted) in [
        ("/", "We keep three lights on the coast."),
        ("/lamps.html", "The lamp turns once in ten seconds."),
        ("/fog.html", "Two blasts every minute."),
    ] {
        let page = archive.read(&url(path)).expect("readable").expect("there");
        let body = String::from_utf8(page.body.to_vec()).expect("text");
        assert!(
            body.starts_with('<') && body.contains(wanted),
            "{path}: {body}"
        );
        assert!(!page.truncated);
    }
    let old = archive
        .read(&url("/old"))
        .expect("readable")
        .expect("there");
    assert_eq!(old.redirect_target(), Some(url("/lamps.html")));
}

#[test]
fn archives_of_wget_and_warcio_are_read() {
    for name in [
        "wget.warc.gz",
        "warcio.warc.gz",
        "wget.warc.zst",
        "wget-dict.warc.zst",
    ] {
        let archive = Archive::open(&[fixture(name)], &without_index()).expect(name);
        assert!(
            archive.problems().is_empty(),
            "{name}: {:?}",
            archive.problems()
        );
        assert_lighthouse(&archive);
    }
}

#[test]
fn revisits_of_wget_are_answered_from_the_first_archive() {
    let files = [fixture("wget-dedup.warc.gz"), fixture("wget.warc.gz")];
    let archive = Archive::open(&files, &without_index()).expect("two archives");
    assert!(archive.problems().is_empty(), "{:?}", archive.problems());
    assert_lighthouse(&archive);

    let alone = Archive::open(&files[..1], &without_index()).expect("an archive");
    assert_eq!(alone.problems().len(), 6);
    assert!(alone.read(&url("/")).expect("readable").is_none());
}

/// Common Crawl stores bodies decoded and renames the headers that no longer hold; every
/// response comes between its request and its metadata.
#[test]
fn archives_in_the_manner_of_common_crawl_are_read() {
    let http = "HTTP/1.1 200 OK\r\nX-Crawler-Transfer-Encoding: chunked\r\nX-Crawler-Content-Encoding: gzip\r\n\
                Content-Type: text/html; charset=UTF-8\r\nX-Crawler-Content-Length: 113\r\nContent-Length: 23\r\n\r\n\
                <p>The tide is out.</p>";
    let target = ("WARC-Target-URI", "https://harbour.example/tide");
    let date = ("WARC-Date", "2026-02-03T04:05:06Z");
    let warc = WarcBuilder::default()
        .record(
            &[
                ("WARC-Type", "warcinfo"),
                date,
                ("WARC-Filename", "x-00001.warc.gz"),
            ],
            b"isPartOf: a crawl\r\nformat: WARC File Format 1.1\r\n",
        )
        .record(
            &[
                ("WARC-Type", "request"),
                date,
                target,
                ("Content-Type", "application/http; msgtype=request"),
            ],
            b"GET /tide HTTP/1.1\r\nHost: harbour.example\r\n\r\n",
        )
        .record(
            &[
                ("WARC-Type", "response"),
                date,
                target,
                (
                    "WARC-Record-ID",
                    "<urn:uuid:00000000-0000-0000-0000-000000000001>",
                ),
                ("Content-Type", "application/http; msgtype=response"),
                (
                    "WARC-Concurrent-To",
                    "<urn:uuid:00000000-0000-0000-0000-000000000002>",
                ),
                ("WARC-IP-Address", "192.0.2.1"),
                (
                    "WARC-Payload-Digest",
                    "sha1:7NWQGDRJF2CV3Y5Z3VEZQ5QGYTYNJXWY",
                ),
                ("WARC-Block-Digest", "sha1:RJP6XAH2ZRBT5VV5PN5XHFUCVSOUBHYH"),
                ("WARC-Identified-Payload-Type", "text/html"),
            ],
            http.as_bytes(),
        )
        .record(
            &[
                ("WARC-Type", "metadata"),
                date,
                target,
                ("Content-Type", "application/warc-fields"),
            ],
            b"fetchTimeMs: 73\r\ncharset-detected: UTF-8\r\n",
        );
    let (_directory, path) = in_file("x-00001.warc.gz", &warc.gzip());
    let archive = Archive::open(&[path], &without_index()).expect("an archive");
    assert!(archive.problems().is_empty());
    assert_eq!((archive.records(), archive.captures().count()), (4, 1));
    let url: PageUrl = "http://www.harbour.example/tide"
        .parse()
        .expect("an address");
    let page = archive.read(&url).expect("readable").expect("there");
    assert_eq!(&*page.body, b"<p>The tide is out.</p>");
}
