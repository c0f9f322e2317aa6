//! Damaged and truncated archives: refused with the offset, or salvaged on request.

use proptest::prelude::*;
use sitescout::fetch::{Archive, ArchiveError};

use crate::warc::{WarcBuilder, gzip, in_file};
use crate::{salvaging, without_index};

fn three_pages() -> WarcBuilder {
    WarcBuilder::default()
        .page("http://example.org/1", &"one ".repeat(200))
        .page("http://example.org/2", &"two ".repeat(200))
        .page("http://example.org/3", &"three ".repeat(200))
}

/// What the strict reader says, and the paths that the lenient one can read whole.
fn both(name: &str, bytes: &[u8]) -> (String, Vec<String>) {
    let (_directory, path) = in_file(name, bytes);
    let error = Archive::open(&[&path], &without_index()).expect_err("damage is refused");
    let message = error.to_string().replace(&path.display().to_string(), name);
    let Ok(archive) = Archive::open(&[&path], &salvaging()) else {
        return (message, Vec::new());
    };
    let readable = archive
        .captures()
        .filter_map(|capture| {
            let page = archive.read(&capture.expect("a capture").url).ok()??;
            (!page.truncated).then(|| page.url.path().to_owned())
        })
        .collect();
    (message, readable)
}

#[test]
fn a_truncated_plain_archive_is_refused_with_the_offset() {
    let warc = three_pages();
    let bytes = warc.plain();
    let third = bytes.len() - warc.records[2].len();
    let (message, readable) = both("a.warc", &bytes[..bytes.len() - 100]);
    assert!(
        message.starts_with(&format!(
            "the archive a.warc is damaged: at byte {third}: the record ends after 1148 of the \
             1244 bytes it announces; "
        )),
        "{message}"
    );
    assert!(
        message.contains("`sitescout archive` lists what can be read"),
        "{message}"
    );
    assert_eq!(readable, ["/1", "/2"]);
}

#[test]
fn a_truncated_gzip_archive_is_refused_with_the_offset() {
    let warc = three_pages();
    let bytes = warc.gzip();
    let third = bytes.len() - gzip(&warc.records[2]).len();
    let (message, readable) = both("a.warc.gz", &bytes[..bytes.len() - 20]);
    let wanted = format!("at byte {third}: the compressed data is broken (it ends in the middle)");
    assert!(message.contains(&wanted), "{message}");
    assert_eq!(readable, ["/1", "/2"]);
}

#[test]
fn damage_in_the_middle_loses_one_record() {
    let warc = three_pages();
    let second = gzip(&warc.records[0]).len();
    let mut bytes = warc.gzip();
    for byte in &mut bytes[second + 20..second + 40] {
        *byte ^= 0xff;
    }
    let (message, readable) = both("a.warc.gz", &bytes);
    assert!(
        message.contains(&format!("at byte {second}: ")),
        "{message}"
    );
    assert_eq!(readable, ["/1", "/3"]);

    let mut bytes = warc.plain();
    let second = warc.records[0].len();
    bytes[second..second + 4].copy_from_slice(b"warp");
    let (message, readable) = both("a.warc", &bytes);
    let wanted = format!("at byte {second}: a record should begin here, but none does");
    assert!(message.contains(&wanted), "{message}");
    assert_eq!(readable, ["/1", "/3"]);
}

#[test]
fn wrong_lengths_are_found() {
    for (length, wanted) in [
        ("99999", "the record ends after"),
        ("10", "a record should begin here, but none does"),
        ("-1", "Content-Length is missing or not a number"),
        ("", "Content-Length is missing or not a number"),
    ] {
        let mut warc = three_pages();
        let text = String::from_utf8(warc.records[1].clone()).expect("text");
        let right = "Content-Length: 844";
        assert!(text.contains(right));
        warc.records[1] = text
            .replace(right, &format!("Content-Length: {length}"))
            .into_bytes();
        for bytes in [warc.plain(), warc.gzip()] {
            let (message, readable) = both("a.warc", &bytes);
            assert!(message.contains(wanted), "{length}: {message}");
            assert!(
                readable.contains(&"/1".to_owned()),
                "{length}: {readable:?}"
            );
            assert!(
                readable.contains(&"/3".to_owned()),
                "{length}: {readable:?}"
            );
        }
    }
}

#[test]
fn what_is_no_archive_is_refused_as_such() {
    for (bytes, wanted) in [
        (&b""[..], "it is empty"),
        (b"<html>a page</html>", "it holds no WARC record"),
        (
            b"filedesc://a.arc 0.0.0.0 2001 text/plain 76\n",
            "it is an ARC file, the format before WARC",
        ),
        (&gzip(b"just a text"), "it holds no WARC record"),
        (b"\x1f\x8b\x08rubbish", "it cannot be decompressed"),
    ] {
        let (_directory, path) = in_file("a.warc", bytes);
        for settings in [without_index(), salvaging()] {
            let error = Archive::open(&[&path], &settings).expect_err("no archive");
            assert!(
                matches!(error, ArchiveError::NotAnArchive { .. }),
                "{error}"
            );
            let message = error.to_string();
            assert!(
                message.contains("a.warc is not a WARC archive: "),
                "{message}"
            );
            assert!(message.contains(wanted), "{message}");
        }
    }
}

#[test]
fn files_that_cannot_be_opened_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    for path in [
        directory.path().join("missing.warc.gz"),
        directory.path().to_owned(),
    ] {
        let error = Archive::open(&[&path], &without_index()).expect_err("nothing to open");
        assert!(matches!(error, ArchiveError::Unreadable { .. }), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()));
    }
}

#[test]
fn records_of_no_use_are_remarks_and_not_damage() {
    let warc = three_pages()
        .response("http://example.org/raw", b"<html>no status line")
        .response("http://exa mple.org/", b"HTTP/1.1 200 OK\r\n\r\n")
        .record(&[("WARC-Type", "response")], b"HTTP/1.1 200 OK\r\n\r\n")
        .record(
            &[("WARC-Type", "metadata"), ("WARC-Target-URI", "x:y")],
            b"seen",
        );
    let (_directory, path) = in_file("a.warc", &warc.plain());
    let archive = Archive::open(&[&path], &without_index()).expect("an archive");
    let remarks: Vec<String> = archive
        .problems()
        .iter()
        .map(|(_, problem)| problem.kind.to_string())
        .collect();
    assert_eq!(
        remarks,
        [
            "a response without an HTTP status line",
            "a page without a usable address (not a URL: invalid international domain name)",
            "a page without a usable address (WARC-Target-URI is missing)",
        ]
    );
    assert_eq!((archive.captures().count(), archive.records()), (3, 7));
}

#[test]
fn damage_behind_a_thousand_remarks_is_still_damage() {
    let mut warc = WarcBuilder::default().page("http://example.org/", "x");
    for _ in 0..1_001 {
        warc = warc.response("http://example.org/raw", b"no status line");
    }
    let bytes = warc.page("http://example.org/last", "y").plain();
    let (message, readable) = both("a.warc", &bytes[..bytes.len() - 10]);
    assert!(message.contains("the record ends after"), "{message}");
    assert_eq!(readable, ["/"]);
    let (_directory, path) = in_file("a.warc", &bytes[..bytes.len() - 10]);
    let archive = Archive::open(&[path], &salvaging()).expect("something is readable");
    assert_eq!(
        (archive.problems().len(), archive.more_problems()),
        (1_000, 2)
    );
    assert!(archive.first_damage().is_some());
}

/// Found by fuzzing: a dictionary of no bytes.
#[test]
fn a_zstd_archive_with_a_broken_dictionary_is_refused_as_such() {
    let (_directory, path) = in_file(
        "a.warc.zst",
        b"\x5d\x2a\x4d\x18\0\0\0\0\x28\xb5\x2f\xfd\0\0",
    );
    let error = Archive::open(&[path], &salvaging()).expect_err("no archive");
    assert!(
        error.to_string().contains("the zstd dictionary is broken"),
        "{error}"
    );
}

#[test]
fn a_flipped_byte_in_a_zstd_archive_is_damage() {
    let mut bytes = std::fs::read(crate::fixture("wget.warc.zst")).expect("the fixture");
    // Somewhere in the text of a record, where only the checksum detects it.
    let at = bytes.len() / 2;
    bytes[at] ^= 0x01;
    let (message, _) = both("a.warc.zst", &bytes);
    assert!(
        message.contains("the compressed data is broken ("),
        "{message}"
    );
}

/// Each of these looks like the beginning of a record or a member and is none.
#[test]
fn files_of_nothing_but_beginnings_are_given_up() {
    let good = three_pages();
    for (start, beginnings) in [
        (good.gzip(), b"\x1f\x8b\x08".repeat(20_000)),
        (good.plain(), b"WARC/1.0\r\n".repeat(20_000)),
        (
            good.plain(),
            b"WARC/1.0\r\nContent-Length: 99999999999\r\n\r\n".repeat(20_000),
        ),
    ] {
        let (_directory, path) = in_file("a.warc", &[start, beginnings].concat());
        let archive = Archive::open(&[path], &salvaging()).expect("three pages");
        assert!(archive.captures().count() >= 3);
        let last = &archive.problems().last().expect("a problem").1;
        assert!(last.kind.is_damage());
    }
}

#[test]
fn one_big_member_is_remarked_and_read() {
    let bytes = gzip(&three_pages().plain());
    let (_directory, path) = in_file("a.warc.gz", &bytes);
    let archive = Archive::open(&[&path], &without_index()).expect("an archive");
    let page = archive.read(&"http://example.org/3".parse().expect("an address"));
    assert!(
        page.expect("readable")
            .expect("there")
            .body
            .starts_with(b"three three")
    );
    assert!(
        archive.problems()[0]
            .1
            .to_string()
            .contains("many records share one compressed member")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Cutting and flipping never panics, and never makes a page out of nothing.
    #[test]
    fn any_damage_is_survived(
        cut in 0_usize..4_000,
        flips in prop::collection::vec((0_usize..4_000, any::<u8>()), 0..5),
        packed: bool,
    ) {
        let mut bytes = if packed { three_pages().gzip() } else { three_pages().plain() };
        bytes.truncate(cut);
        for (at, mask) in flips {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= mask;
            }
        }
        let (_directory, path) = in_file("a.warc", &bytes);
        let _ = Archive::open(&[&path], &without_index());
        if let Ok(archive) = Archive::open(&[&path], &salvaging()) {
            for capture in archive.captures() {
                let capture = capture.expect("a readable file");
                let _ = archive.read(&capture.url);
            }
            prop_assert!(archive.captures().count() <= 3);
        }
    }

    #[test]
    fn any_bytes_are_an_archive_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..500),
        start in prop::sample::select(vec![&b""[..], b"WARC/1.0\r\n", b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"\x5d\x2a\x4d\x18"]),
    ) {
        let (_directory, path) = in_file("a.warc", &[start, &bytes].concat());
        let _ = Archive::open(&[&path], &salvaging());
    }
}
