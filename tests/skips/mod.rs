//! Prints and counts checks that are skipped because something they need is missing on this machine.
//!
//! `skipped!` prints `skipped: NAME: why` past the harness, which hides the output of tests that
//! pass, and appends the line to a file in `target/tmp`. `tests/zero_skipped.rs`, which cargo runs
//! last, prints that file and the number of its lines.
//!
//! Invariant: one file for each `cargo test`. All its test programs are children of the same process,
//! and the file is named after it: by its process ID and, because IDs are reused, by its start time.
//! A `runner` in the settings of cargo would be a process in between; there is none.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "test targets each use a part of it"
)]

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Reports that the test around it skips a check, wholly or in part, and why. To be called once in a
/// test.
macro_rules! skipped {
    ($why:expr) => {{
        fn here() {}
        $crate::skips::skip(std::any::type_name_of_val(&here), $why);
    }};
}
pub(crate) use skipped;

/// The directory of real websites, or why checks that need it are skipped.
pub(crate) fn corpora() -> Result<PathBuf, &'static str> {
    let directory = std::env::var_os("SITESCOUT_CORPORA");
    let directory = directory.ok_or("SITESCOUT_CORPORA is not set")?;
    Ok(PathBuf::from(directory))
}

/// What `skipped!` does, with the path of a function inside the test.
pub(crate) fn skip(inside: &str, why: &str) {
    let test = inside.strip_suffix("::here").unwrap_or(inside);
    let line = format!("skipped: {}: {why}\n", test.replace("::{{closure}}", ""));
    // Not by `eprint!`, which the harness captures; and in one piece, because tests run in parallel.
    let printed = io::stderr().write_all(line.as_bytes());
    printed.expect("an open standard error");
    TestRun::of_parent().add(&line);
}

/// The skipped checks of one run of the test command.
pub(crate) struct TestRun {
    file: PathBuf,
}

// === impl TestRun ===

impl TestRun {
    /// The run that this program belongs to.
    pub(crate) fn of_parent() -> Self {
        #[cfg(unix)]
        let parent = std::os::unix::process::parent_id();
        // Two runs at the same time share their process ID there.
        #[cfg(not(unix))]
        let parent = 0;
        Self::of(parent)
    }

    /// The run whose test programs were started by this process.
    pub(crate) fn of(process: u32) -> Self {
        let started = started(process).unwrap_or_default();
        Self {
            file: directory().join(format!("{process}-{started}")),
        }
    }

    fn add(&self, line: &str) {
        fs::create_dir_all(directory()).expect("a target directory");
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.file);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("room in the target directory");
    }

    /// Its lines. Deletes them, and those of runs that ended without printing theirs.
    pub(crate) fn take(&self) -> Vec<String> {
        let text = match fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => panic!("{}: {error}", self.file.display()),
        };
        if !text.is_empty() {
            fs::remove_file(&self.file).expect("a file of ours");
        }
        forget_ended_runs();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

/// The last lines of the test command's output.
pub(crate) fn summary(lines: &[String]) -> String {
    let checks = if lines.len() == 1 { "check" } else { "checks" };
    let count = format!("{} {checks} skipped\n", lines.len());
    let mut report = lines.to_vec();
    report.push(count);
    report.join("\n")
}

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("skipped")
}

fn forget_ended_runs() {
    let Ok(files) = fs::read_dir(directory()) else {
        return;
    };
    for file in files.flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let run = name.split_once('-');
        let runs_on = run.is_some_and(|(process, when)| {
            let process = process.parse().ok();
            process.and_then(started).is_some_and(|begin| begin == when)
        });
        if !runs_on {
            // Another run may have been faster.
            let _ = fs::remove_file(file.path());
        }
    }
}

/// Start time of a process, in an unspecified unit; none if there is no such process.
fn started(process: u32) -> Option<String> {
    if cfg!(target_os = "linux") {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // Field 22 of proc(5), of which the first two end with the name of the program.
        let (_, fields) = stat.rsplit_once(") ")?;
        return fields.split(' ').nth(19).map(str::to_owned);
    }
    let mut ps = std::process::Command::new("ps");
    let output = ps
        .args(["-o", "lstart=", "-p", &process.to_string()])
        .output();
    let output = String::from_utf8(output.ok()?.stdout).ok()?;
    let begin: String = output.chars().filter(char::is_ascii_alphanumeric).collect();
    Some(begin).filter(|begin| !begin.is_empty())
}
