//! Bodies of some fifty bytes whose decoders need the largest window, from many hosts at once: the
//! memory for decoders stays limited.
//!
//! In a process of its own, because it measures the memory of the process. The servers run in it
//! too, on a runtime of their own.

#[path = "pathologies/mod.rs"]
mod pathologies;

use std::sync::Arc;
use std::time::Duration;

use sitescout::config::{FetchSettings, ResolveRule};
use sitescout::fetch::{FetchMetrics, Fetcher, LiveWeb};
use sitescout::telemetry::Metrics;
use sitescout::web::{FetchedPage, PageUrl};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use pathologies::process::{crawler_runtime, forget_most_memory, memory};
use pathologies::{Fault, Pathologies};

/// Hosts that respond at once.
const HOSTS: usize = 64;

/// Bodies are kept to the end of the test, so they are short: what is measured are decoders.
const BODY_BYTES: usize = 64 << 10;

/// The most that the process may grow by, servers, bodies and all.
const BOUND: usize = 64 << 20;

fn settings(web: &Pathologies) -> FetchSettings {
    let rule = ResolveRule {
        host: "*.example".to_owned(),
        address: web.http(),
        tls: false,
    };
    let mut settings = FetchSettings {
        resolve: vec![rule],
        body_bytes: BODY_BYTES,
        ..FetchSettings::default()
    };
    settings.politeness.pause = Duration::ZERO;
    settings
}

/// Requests the same page from many hosts at once.
fn fetch_all(crawler: &Runtime, live: &Arc<LiveWeb>, fault: Fault) -> Vec<FetchedPage> {
    crawler.block_on(async {
        let mut fetches = JoinSet::new();
        for host in 0..HOSTS {
            let live = Arc::clone(live);
            let page = format!("http://{}.host{host}.example/", fault.name());
            let page: PageUrl = page.parse().expect("an address");
            fetches.spawn(async move { live.fetch(&page).await.expect("an answer") });
        }
        fetches.join_all().await
    })
}

#[test]
#[allow(clippy::print_stdout, reason = "prints the measurements")]
fn the_windows_of_many_hosts_share_little_memory() {
    let servers = Runtime::new().expect("a runtime");
    let crawler = crawler_runtime();
    let web = servers.block_on(Pathologies::start());
    let metrics = FetchMetrics::register(&Metrics::new());
    let live = LiveWeb::new(&settings(&web), metrics, None).expect("usable settings");
    let live = Arc::new(live);
    // Baseline: the memory that any fetch takes.
    drop(fetch_all(&crawler, &live, Fault::NoReason));
    for (fault, cut_at) in [
        (Fault::LargeWindow, None),
        (Fault::BrotliBomb, Some(BODY_BYTES)),
        (Fault::ZstdBomb, None),
    ] {
        let before = forget_most_memory();
        let pages = fetch_all(&crawler, &live, fault);
        let grown = memory("VmHWM:").saturating_sub(before);
        println!(
            "{fault:?}: {HOSTS} hosts at once took {} MB, bound {} MB",
            grown >> 20,
            BOUND >> 20
        );
        assert!(grown < BOUND, "{fault:?}: {grown} bytes, more than {BOUND}");
        for page in &pages {
            match cut_at {
                Some(limit) => {
                    assert_eq!(page.body.len(), limit, "{fault:?}");
                    assert!(page.truncated && page.body.iter().all(|byte| *byte == b'x'));
                }
                // It is not what its header declares, and is kept as it is.
                None => assert_eq!(page.body.len() as u64, page.transfer.wire_bytes),
            }
        }
    }
}
