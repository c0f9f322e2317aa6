//! A skipped check is printed and counted, and makes `.ci/run` fail unless it is listed there.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::crawling::text;
use crate::skips::{TestRun, directory, summary};

/// Of these tests, without the websites that they need.
const WITHOUT_CORPORA: [&str; 3] = [
    "skipped: behaviour::corpora::real_sites_are_judged_as_well_as_we_say: SITESCOUT_CORPORA is not set",
    "skipped: behaviour::corpora::the_webkb_pages_of_1997_are_read: SITESCOUT_CORPORA is not set",
    "skipped: behaviour::corpora::three_hundred_real_sites_are_read: SITESCOUT_CORPORA is not set",
];

/// Tests of this program, run as cargo runs them, but by this process.
fn run_tests(arguments: &[&str]) -> Output {
    let program = std::env::current_exe().expect("this program");
    let mut tests = Command::new(program);
    tests.args(arguments).env_remove("SITESCOUT_CORPORA");
    tests.output().expect("tests")
}

/// What was printed about skipped checks, in whichever order tests ended.
fn skipped_lines(printed: &[u8]) -> Vec<String> {
    let printed = text(printed);
    let lines = printed.lines().filter(|line| line.contains("skipped: "));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn skipped_checks_are_printed_though_they_pass_and_are_counted_for_their_run_alone() {
    let this_run = TestRun::of(std::process::id());
    // A process with the same ID, which has long ended.
    let old = directory().join(format!("{}-1", std::process::id()));
    fs::create_dir_all(directory()).expect("a target directory");
    fs::write(&old, "skipped: long ago: it was another run\n").expect("room");

    for threads in ["--test-threads=4", "--test-threads=1"] {
        let tests = run_tests(&["corpora::", threads]);
        assert!(tests.status.success(), "{}", text(&tests.stdout));
        assert!(text(&tests.stdout).contains("3 passed"), "they are run");
        assert_eq!(skipped_lines(&tests.stderr), WITHOUT_CORPORA);
        assert_eq!(this_run.take(), WITHOUT_CORPORA);
        assert_eq!(this_run.take(), [""; 0], "they are printed once");
    }
    assert!(!old.exists(), "runs that have ended are forgotten");

    let tests = run_tests(&["skipping::the_count"]);
    assert!(tests.status.success(), "{}", text(&tests.stdout));
    assert_eq!(this_run.take(), [""; 0], "nothing was skipped");
}

#[test]
fn the_count_is_the_last_line_whatever_it_is() {
    let line = |number: usize| WITHOUT_CORPORA[number].to_owned();
    assert_eq!(summary(&[]), "0 checks skipped\n");
    assert_eq!(
        summary(&[line(0)]),
        format!("{}\n1 check skipped\n", line(0))
    );
    assert_eq!(
        summary(&[line(0), line(1)]),
        format!("{}\n{}\n2 checks skipped\n", line(0), line(1))
    );
}

#[test]
fn ci_fails_if_a_check_is_skipped_that_is_not_named() {
    let place = tempfile::tempdir().expect("a directory");
    let judged = |log: &str, named: &[&str]| {
        let file = place.path().join("log");
        fs::write(&file, log).expect("room");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/check-skipped.sh");
        let judged = Command::new(script).arg(&file).args(named).output();
        let judged = judged.expect("bash");
        (judged.status.code(), text(&judged.stderr))
    };
    let corpora = "behaviour::corpora::a: SITESCOUT_CORPORA is not set";
    let package = "package: only root can do it";
    // The output of a test that is run alone is on the same line.
    let log = format!(
        "test a ... skipped: {corpora}\nok\n\nskipped: {corpora}\n1 check skipped\nskipped: {package}\n"
    );
    assert_eq!(judged("0 checks skipped\n", &[]), (Some(0), String::new()));
    let both = judged(&log, &[corpora, package]);
    assert_eq!(both, (Some(0), String::new()));
    let (code, output) = judged(&log, &[corpora]);
    assert_eq!(code, Some(1));
    assert_eq!(output, format!("skipped, and must not be: {package}\n"));
    // The same check for another reason, and part of a name.
    let others = ["behaviour::corpora::a: a debug build", "package", package];
    let (code, output) = judged(&log, &others);
    assert_eq!(code, Some(1));
    assert_eq!(output, format!("skipped, and must not be: {corpora}\n"));
    let (code, output) = judged("test result: ok\n", &[]);
    assert_eq!(code, Some(1), "there is no count");
    assert!(
        output.contains("cargo test has not come to its end"),
        "{output}"
    );
}
