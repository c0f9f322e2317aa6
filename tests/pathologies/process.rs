//! CPU time and memory of this process, from `/proc`.

use std::fs;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// Name of the crawler's threads; the servers in the same process have other names.
const CRAWLER: &str = "crawler";

/// Ticks per second in `/proc`; always this value.
const TICKS: u64 = 100;

/// A runtime whose CPU time can be measured apart from that of others.
pub(crate) fn crawler_runtime() -> Runtime {
    let runtime = Builder::new_multi_thread()
        .thread_name(CRAWLER)
        .enable_all()
        .build();
    runtime.expect("a runtime")
}

/// CPU time of the crawler's threads.
pub(crate) fn crawler_cpu() -> Duration {
    let threads = fs::read_dir("/proc/self/task").expect("a Linux");
    let stats = threads.filter_map(|thread| {
        // Threads that ended meanwhile are left out.
        fs::read_to_string(thread.ok()?.path().join("stat")).ok()
    });
    let ticks = stats.filter_map(|stat| {
        let (name, fields) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
        // User and system: the fields 14 and 15 of proc(5), of which the first two are the name.
        name.ends_with(CRAWLER).then(|| ticks(11) + ticks(12))
    });
    Duration::from_millis(1_000 / TICKS * ticks.sum::<u64>())
}

/// A line of `/proc/self/status`, in bytes.
pub(crate) fn memory(line: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("a Linux");
    let found = status.lines().find_map(|text| text.strip_prefix(line));
    let kilobytes = found.expect("the line").trim().trim_end_matches(" kB");
    kilobytes.parse::<usize>().expect("a number") << 10
}

/// Resets the peak of resident memory, and returns the current value.
pub(crate) fn forget_most_memory() -> usize {
    fs::write("/proc/self/clear_refs", "5").expect("a Linux");
    memory("VmRSS:")
}
