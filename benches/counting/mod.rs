//! CPU time and memory of a process, as Linux counts them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

/// CPU time of all threads of a process, including those that have ended.
///
/// The last reading of each thread is kept: its time between that and its end is lost. Threads
/// that end during a measurement were idle for a while before.
#[derive(Debug)]
pub(crate) struct CpuClock {
    threads: PathBuf,
    nanoseconds: HashMap<OsString, u64>,
}

/// A moment, in CPU time and wall time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    cpu: Duration,
    wall: Instant,
}

// === impl CpuClock ===

impl CpuClock {
    /// The clock of a process by its id, or of `self`.
    pub(crate) fn of_process(process: &str) -> Self {
        Self {
            threads: PathBuf::from(format!("/proc/{process}/task")),
            nanoseconds: HashMap::new(),
        }
    }

    pub(crate) fn now(&mut self) -> Moment {
        for thread in fs::read_dir(&self.threads).expect("Linux") {
            let thread = thread.expect("a thread");
            // The thread may have ended meanwhile.
            let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else {
                continue;
            };
            let first = text.split(' ').next().expect("three numbers");
            let nanoseconds = first.parse().expect("nanoseconds");
            self.nanoseconds.insert(thread.file_name(), nanoseconds);
        }
        Moment {
            cpu: Duration::from_nanos(self.nanoseconds.values().sum()),
            wall: Instant::now(),
        }
    }
}

// === impl Moment ===

impl Moment {
    /// CPU time and wall time since an earlier moment.
    pub(crate) fn since(&self, earlier: &Self) -> (Duration, Duration) {
        let cpu = self.cpu.saturating_sub(earlier.cpu);
        (cpu, self.wall - earlier.wall)
    }
}

/// A line of the status of a process, in bytes: `VmRSS:` is its memory, `VmHWM:` the most it
/// ever had. `self` is this process.
pub(crate) fn memory(process: &str, line: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("Linux");
    let found = status.lines().find_map(|text| text.strip_prefix(line));
    let kilobytes = found.expect("the line").trim().trim_end_matches(" kB");
    kilobytes.parse::<usize>().expect("a number") << 10
}
