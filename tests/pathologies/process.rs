//! What this process takes, as the system tells it.

use std::fs;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// Threads of this name are those of the crawler, and not of the servers beside it.
const CRAWLER: &str = "crawler";

/// The ticks of a second in `/proc`, which are always these.
const TICKS: u64 = 100;

/// A runtime whose time can be told from that of others.
pub(crate) fn crawler_runtime() -> Runtime {
    let runtime = Builder::new_multi_thread()
        .thread_name(CRAWLER)
        .enable_all()
        .build();
    runtime.expect("a runtime")
}

/// The time that the threads of the crawler have taken.
pub(crate) fn crawler_cpu() -> Duration {
    let threads = fs::read_dir("/proc/self/task").expect("a Linux");
    let stats = threads.filter_map(|thread| {
        // A thread that ended meanwhile is none.
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

/// Begins anew with the most memory that was ever taken, and says how much is taken now.
pub(crate) fn forget_most_memory() -> usize {
    fs::write("/proc/self/clear_refs", "5").expect("a Linux");
    memory("VmRSS:")
}
