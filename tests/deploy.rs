//! The files in `deploy/` and the operations guide use the metrics that the code registers.
//!
//! An alert on a metric that does not exist never fires, and nobody notices.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Metrics that the Prometheus crate registers for every process.
const OF_EVERY_PROCESS: [&str; 5] = [
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                sources(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// The names of metrics in a text, as registered: the series of a histogram are one name.
/// Names with a colon are those of recording rules.
fn metric_names(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
        .filter(|word| word.starts_with("sitescout_") || word.starts_with("process_"))
        .map(|word| {
            let parts = ["_bucket", "_sum", "_count"];
            let name = parts.iter().find_map(|part| word.strip_suffix(part));
            name.unwrap_or(word).to_owned()
        })
        .collect()
}

fn recorded_names(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
        .filter(|word| word.starts_with("sitescout:") && word.len() > "sitescout:".len())
        .map(str::to_owned)
        .collect()
}

/// The first column of the table in the guide.
fn promised() -> BTreeSet<String> {
    let guide = read("docs/operations.md");
    let (_, table) = guide.split_once("\n## Metrics\n").expect("the table");
    let cells = table.lines().filter_map(|line| line.strip_prefix("| `"));
    cells
        .filter_map(|line| line.split('|').next())
        .flat_map(metric_names)
        .collect()
}

/// The metric names in the code: they are string literals.
fn counted() -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let texts = sources(&source)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| fs::read_to_string(path).expect("a source file"));
    let mut names = BTreeSet::new();
    for text in texts {
        let quoted = text.split('"');
        let is_name = |word: &&str| {
            (word.starts_with("sitescout_") || word.starts_with("process_"))
                && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        };
        names.extend(quoted.filter(is_name).map(str::to_owned));
    }
    names
}

/// Every query of the dashboard: panels, variables, annotations.
fn queries(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            let own = fields
                .iter()
                .filter(|(key, _)| ["expr", "definition"].contains(&key.as_str()))
                .filter_map(|(_, value)| value.as_str().map(str::to_owned));
            own.chain(fields.values().flat_map(queries)).collect()
        }
        Value::Array(values) => values.iter().flat_map(queries).collect(),
        _ => Vec::new(),
    }
}

fn dashboard() -> Value {
    serde_json::from_str(&read("deploy/grafana/sitescout.json")).expect("a dashboard in JSON")
}

/// Strips comments, which may name other things.
fn without_comments(yaml: &str) -> String {
    let lines = yaml.lines().filter(|line| !line.trim().starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_guide_lists_what_the_code_counts() {
    let counted = counted();
    let promised = promised();
    assert!(counted.contains("sitescout_pages_fetched_total"));
    let unlisted: Vec<_> = counted.difference(&promised).collect();
    assert!(
        unlisted.is_empty(),
        "not in docs/operations.md: {unlisted:?}"
    );
    let of_every_process: BTreeSet<String> = OF_EVERY_PROCESS.map(str::to_owned).into();
    let nowhere: Vec<_> = promised
        .difference(&counted)
        .filter(|name| !of_every_process.contains(*name))
        .collect();
    assert!(nowhere.is_empty(), "not registered: {nowhere:?}");
}

#[test]
fn rules_and_dashboard_query_metrics_that_exist() {
    let promised = promised();
    let rules = without_comments(&read("deploy/prometheus/rules.yml"));
    let tests = without_comments(&read("deploy/prometheus/rules.test.yml"));
    let queries = queries(&dashboard()).join("\n");
    assert!(queries.contains("sitescout_store_bytes"));
    for (place, text) in [
        ("the rules", &rules),
        ("the tests of the rules", &tests),
        ("the dashboard", &queries),
    ] {
        let unknown: Vec<_> = metric_names(text).difference(&promised).cloned().collect();
        assert!(unknown.is_empty(), "{place} ask for {unknown:?}");
    }
    let recorded: BTreeSet<String> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- record: "))
        .map(str::to_owned)
        .collect();
    let asked = recorded_names(&[rules.as_str(), &queries, &tests].concat());
    let unknown: Vec<_> = asked.difference(&recorded).collect();
    assert!(unknown.is_empty(), "no recording rule for {unknown:?}");
}

#[test]
fn every_alert_has_a_section_and_tests() {
    let rules = read("deploy/prometheus/rules.yml");
    let tests = read("deploy/prometheus/rules.test.yml");
    let guide = read("docs/operations.md");
    let after_alert = rules.split("- alert: ").skip(1);
    let mut alerts = 0;
    for rule in after_alert {
        alerts += 1;
        let name = rule.lines().next().expect("a name");
        assert!(guide.contains(&format!("\n### {name}\n")), "{name}");
        let runbook = format!("runbook: docs/operations.md#{}", name.to_lowercase());
        assert!(rule.contains(&runbook), "{name} leads elsewhere");
        assert!(rule.contains("severity: "), "{name}");
        // One that fires and one that does not.
        let tested: Vec<&str> = tests
            .split("- alertname: ")
            .skip(1)
            .filter(|test| test.lines().next() == Some(name))
            .collect();
        let fires = |test: &&&str| test.contains("exp_alerts:");
        assert!(tested.iter().any(|test| fires(&test)), "{name} never fires");
        assert!(
            !tested.iter().all(|test| fires(&test)),
            "{name} always fires"
        );
    }
    assert!(alerts >= 10, "{alerts} alerts");
    let sections = guide.matches("\n### Sitescout").count();
    assert_eq!(sections, alerts, "a section about an alert that is gone");
}

#[test]
fn the_unit_and_the_guide_agree() {
    let unit = read("deploy/sitescout.service");
    let guide = read("docs/operations.md");
    assert!(unit.contains("\nRestartPreventExitStatus=2 65 78\n"));
    for code in ["| 2 |", "| 65 |", "| 78 |"] {
        let line = guide.lines().find(|line| line.starts_with(code));
        assert!(line.expect("the code").ends_with("| stays down |"));
    }
    assert!(unit.contains("\nTimeoutStopSec=45s\n") && guide.contains("waits 45 s"));
    assert!(unit.contains("\nMemoryMax=2G\n") && guide.contains("2 GiB"));
}
