//! Servers that send frames or headers without end instead of a response: how soon the connection
//! is cut, and what it costs.
//!
//! In a process of its own, because it measures memory and time of the process. The servers run
//! in it too, on a runtime of their own, whose time is not counted.

#[path = "pathologies/mod.rs"]
mod pathologies;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sitescout::config::{FetchSettings, ResolveRule};
use sitescout::fetch::{FetchMetrics, Fetcher, LiveWeb};
use sitescout::telemetry::Metrics;
use sitescout::web::PageUrl;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use pathologies::process::{crawler_cpu, crawler_runtime, forget_most_memory, memory};
use pathologies::{Fault, FrameFlood, Moment, Pathologies, RobotsFault, TlsFault};

const WIRE_BYTES: u64 = 4 << 20;

/// What may be read beside a body.
const BESIDE: u64 = 1 << 20;

/// What a server may have written that is never read: its buffers, and those of the kernel on
/// both sides.
const IN_FLIGHT: u64 = 4 << 20;

/// Ten times what a flood may take.
const MOST_CPU: Duration = Duration::from_secs(10);

/// What the process may grow by, servers included.
const MOST_MEMORY: usize = 64 << 20;

/// Far more than any flood takes here, and less than `limits.request`: none ends by the clock.
const LONGEST: Duration = Duration::from_secs(50);

fn settings(web: &Pathologies, ca_file: PathBuf) -> FetchSettings {
    let rule = |address, tls| ResolveRule {
        host: "*.example".to_owned(),
        address,
        tls,
    };
    let mut settings = FetchSettings {
        resolve: vec![rule(web.https(), true), rule(web.http(), false)],
        ca_file: Some(ca_file),
        ..FetchSettings::default()
    };
    settings.politeness.pause = Duration::ZERO;
    // Connections must end because of what they receive, not because of their age.
    settings.limits.idle = Duration::from_mins(5);
    assert_eq!(settings.limits.wire_bytes as u64, WIRE_BYTES);
    settings
}

/// Full URLs and their outcomes.
fn floods() -> Vec<(String, &'static str)> {
    let mut floods = vec![
        (Fault::EndlessInterim, "malformed"),
        (Fault::TinyChunks, "200 cut"),
        (Fault::EndlessTrailers, "200 cut"),
        (Fault::TalksOn, "200"),
    ]
    .into_iter()
    .map(|(fault, outcome)| (format!("http://{}/", fault.host()), outcome))
    .collect::<Vec<_>>();
    let robots = RobotsFault::EndlessInterim.host();
    floods.push((format!("http://{robots}/"), "deferred"));
    let records = TlsFault::TinyRecords.host();
    floods.push((format!("https://{records}/"), "200 cut"));
    for flood in FrameFlood::ALL {
        for moment in Moment::ALL {
            let host = format!("{}.{}.example", flood.name(), moment.name());
            let outcome = match (moment, flood) {
                (Moment::Idle, _) => "200",
                (Moment::Robots, _) => "deferred",
                (Moment::Page, FrameFlood::TinyData) => "200 cut",
                // The HTTP/2 library counts these itself.
                (Moment::Page, FrameFlood::EmptyData | FrameFlood::EmptyContinuation) => "broken",
                (Moment::Page, _) => "malformed",
            };
            floods.push((format!("https://{host}/"), outcome));
        }
    }
    floods
}

async fn outcome(live: &LiveWeb, page: &PageUrl) -> String {
    match live.fetch(page).await {
        Ok(page) if page.truncated => format!("{} cut", page.status.as_u16()),
        Ok(page) => page.status.as_u16().to_string(),
        Err(error) => error.kind.reason().name().to_owned(),
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "prints the measurements")]
fn every_flood_ends_within_its_bytes_and_its_time() {
    let servers = Runtime::new().expect("a runtime");
    let crawler = crawler_runtime();
    let web = Arc::new(servers.block_on(Pathologies::start()));
    let directory = tempfile::tempdir().expect("a directory");
    let ca_file = directory.path().join("ca.pem");
    fs::write(&ca_file, web.ca_pem()).expect("room for a file");
    let metrics = FetchMetrics::register(&Metrics::new());
    let live = LiveWeb::new(&settings(&web, ca_file), metrics, None).expect("usable settings");
    let live = Arc::new(live);
    println!("{:>9} {:>7} {:>6}", "KiB sent", "CPU ms", "MB");
    for (page, wanted) in floods() {
        let page: PageUrl = page.parse().expect("an address");
        let site = page.site().to_string();
        let before = forget_most_memory();
        let cpu_before = crawler_cpu();
        let (live, web) = (Arc::clone(&live), Arc::clone(&web));
        // In a task, so that the time is that of the threads that are counted.
        let meeting = crawler.spawn(async move {
            let found = timeout(LONGEST, outcome(&live, &page)).await;
            let found = found.expect("an end before that of the clock");
            // Floods on an idle connection are cut off as well.
            let is_left = async {
                while web.connections_open() > 0 {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(LONGEST, is_left).await.expect("the flood ends");
            (
                found,
                web.bytes_sent(page.as_url().host_str().expect("a host")),
            )
        });
        let (found, sent) = crawler.block_on(meeting).expect("no panic");
        let cpu = crawler_cpu().saturating_sub(cpu_before);
        let grown = memory("VmHWM:").saturating_sub(before);
        let kilobytes = sent >> 10;
        println!(
            "{kilobytes:>9} {:>7} {:>6}  {site}: {found}",
            cpu.as_millis(),
            grown >> 20
        );
        // Over HTTP/2, a flood that begins right after the head of a response may overtake it.
        let is_idle = site.contains(&format!(".{}.", Moment::Idle.name()));
        let comes_after_head = is_idle || site.starts_with(FrameFlood::TinyData.name());
        let is_overtaken = comes_after_head && ["broken", "malformed"].contains(&found.as_str());
        assert!(is_overtaken || found == wanted, "{site}: {found}");
        let most = WIRE_BYTES + BESIDE + IN_FLIGHT;
        assert!(sent < most, "{site}: {sent} bytes, more than {most}");
        assert!(cpu < MOST_CPU, "{site}: {cpu:?}");
        assert!(grown < MOST_MEMORY, "{site}: {grown} bytes");
    }
}
