//! Any bytes are an archive or an error; every indexed page can be read.
#![no_main]

use std::fs;
use std::io::Write;

use libfuzzer_sys::fuzz_target;
use sitescout::config::{DamagePolicy, FetchSettings};
use sitescout::fetch::Archive;

fuzz_target!(|data: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(data).expect("room for it");
    let mut settings = FetchSettings::default();
    settings.body_bytes = 10_000;
    settings.archive.keep_index = false;
    settings.archive.damaged = DamagePolicy::Salvage;
    let Ok(archive) = Archive::open(&[file.path()], &settings) else {
        return;
    };
    let mut captures = 0;
    for capture in archive.captures() {
        let capture = capture.expect("the file is there");
        captures += 1;
        let site = capture.url.site();
        assert!(archive.sites().any(|(indexed, _)| *indexed == site));
        if let Ok(Some(page)) = archive.read(&capture.url) {
            assert!(page.body.len() <= 10_000);
        }
    }
    assert!(captures <= archive.records());
    // The strict reader accepts exactly the files in which the lenient one finds no damage.
    settings.archive.damaged = DamagePolicy::Refuse;
    let is_damaged = archive.problems().iter().any(|(_, problem)| problem.kind.is_damage());
    assert_eq!(Archive::open(&[file.path()], &settings).is_err(), is_damaged);
    fs::remove_file(file.path()).expect("it was there");
});
