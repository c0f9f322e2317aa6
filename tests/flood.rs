//! Several hundred concurrent fetches against all faults of `tests/pathologies` at once: nothing
//! hangs, panics or exceeds its memory limit.
//!
//! In a process of its own, because it measures the memory of the process. The servers run
//! in it too, on a runtime of their own; what they hold is a few megabytes.

#[path = "pathologies/mod.rs"]
mod pathologies;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use sitescout::config::{FetchSettings, ResolveRule};
use sitescout::fetch::{FetchMetrics, Fetcher, LiveWeb};
use sitescout::telemetry::Metrics;
use sitescout::web::NoAnswer;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use pathologies::process::memory;
use pathologies::{Fault, FrameFlood, Pathologies, RobotsFault, TlsFault};

/// Hosts for each fault.
const HOSTS_PER_FAULT: usize = 6;

const WIRE_BYTES: usize = 256 << 10;
const BODY_BYTES: usize = 512 << 10;

/// The most that the process may grow by, servers included: the bodies of the hosts that fill
/// their limits, about a hundred, and what each connection holds beside, some 64 KiB.
const BOUND: usize = 256 << 20;

fn settings(web: &Pathologies, ca_file: std::path::PathBuf) -> FetchSettings {
    let rule = |address, tls| ResolveRule {
        host: "*.example".to_owned(),
        address,
        tls,
    };
    let mut settings = FetchSettings {
        resolve: vec![rule(web.https(), true), rule(web.http(), false)],
        ca_file: Some(ca_file),
        body_bytes: BODY_BYTES,
        ..FetchSettings::default()
    };
    settings.politeness.pause = Duration::from_millis(10);
    settings.limits.wire_bytes = WIRE_BYTES;
    settings.limits.connect = Duration::from_secs(3);
    settings.limits.first_byte = Duration::from_secs(3);
    settings.limits.request = Duration::from_secs(6);
    settings.limits.idle = Duration::from_millis(300);
    settings
}

fn addresses() -> Vec<String> {
    let plain = Fault::ALL.iter().map(|fault| ("http", fault.name()));
    let robots = RobotsFault::ALL.iter().map(|fault| ("http", fault.name()));
    let tls = TlsFault::ALL.iter().map(|fault| ("https", fault.name()));
    let both = Fault::ALL.iter().map(|fault| ("https", fault.name()));
    let frames = FrameFlood::ALL.iter().map(|flood| ("https", flood.name()));
    let faults = plain.chain(robots).chain(tls).chain(both).chain(frames);
    faults
        .flat_map(|(scheme, fault)| {
            let parents = 0..HOSTS_PER_FAULT;
            parents.map(move |parent| format!("{scheme}://{fault}.{scheme}{parent}.example/"))
        })
        .collect()
}

#[test]
#[allow(clippy::print_stdout, reason = "prints the measurement")]
fn everything_at_once_leaks_nothing_and_stays_within_its_memory() {
    // Connections need more files than this; the crawler has to raise the limit itself.
    let (_, most) = rlimit::Resource::NOFILE.get().expect("a limit");
    rlimit::Resource::NOFILE
        .set(256, most)
        .expect("less than before");
    let servers = Runtime::new().expect("a runtime");
    let crawler = Runtime::new().expect("a runtime");
    let web = Arc::new(servers.block_on(Pathologies::start()));
    let directory = tempfile::tempdir().expect("a directory");
    let ca_file = directory.path().join("ca.pem");
    fs::write(&ca_file, web.ca_pem()).expect("room for a file");
    let metrics = FetchMetrics::register(&Metrics::new());
    let live = LiveWeb::new(&settings(&web, ca_file), metrics.clone(), None);
    let live = Arc::new(live.expect("usable settings"));
    let files = rlimit::Resource::NOFILE.get_soft().expect("a limit");
    assert!(files >= 1_000, "{files}");
    let addresses = addresses();
    let at_once = addresses.len();
    assert!(at_once > 500, "{at_once}");
    let before = memory("VmRSS:");
    crawler.block_on(async {
        let mut fetches = JoinSet::new();
        for address in addresses {
            let live = Arc::clone(&live);
            fetches.spawn(async move {
                let page = address.parse().expect("an address");
                // The second round uses what was cached in the first.
                for _ in 0..2 {
                    let _ = live.fetch(&page).await;
                }
            });
        }
        // Propagates panics of the tasks.
        fetches.join_all().await;
        let handle = tokio::runtime::Handle::current();
        let is_quiet = || {
            let open = live.connections_open() + web.connections_open();
            open + handle.metrics().num_alive_tasks() == 0
        };
        let quiet = async {
            while !is_quiet() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let quiet = timeout(Duration::from_mins(1), quiet).await;
        quiet.expect("no connection and no task is left");
    });
    let outcomes = ["2xx", "3xx", "4xx", "5xx"];
    let reasons = NoAnswer::ALL.iter().map(|reason| reason.name());
    let labels = outcomes.into_iter().chain(reasons);
    let counted: u64 = labels.map(|label| metrics.pages(label)).sum();
    assert_eq!(
        counted,
        2 * at_once as u64,
        "every fetch ended and was counted"
    );
    for label in outcomes
        .iter()
        .chain(&["timeout", "too_slow", "broken", "malformed"])
    {
        assert!(metrics.pages(label) > 0, "nothing came of {label}");
    }
    let grown = memory("VmHWM:").saturating_sub(before);
    println!(
        "{at_once} fetches at once: {} MB at most, bound {} MB",
        grown >> 20,
        BOUND >> 20
    );
    assert!(grown < BOUND, "{grown} bytes, more than {BOUND}");
}
