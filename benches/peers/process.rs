//! A program, watched from outside from its start to its exit.

use std::fs;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

/// Time between two looks at a process.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What `/proc` counts CPU time in, on every architecture.
const TICKS_PER_SECOND: u64 = 100;

/// What a program has used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) status: ExitStatus,
    pub(crate) wall: Duration,
    /// Of all threads, and of all children that were waited for.
    pub(crate) cpu: Duration,
    /// The peak, in bytes, of the process itself.
    pub(crate) memory: u64,
}

/// Runs a program to its end, which comes by force after `longest`.
pub(crate) fn run(command: &mut Command, longest: Duration) -> Spent {
    let start = Instant::now();
    let mut process = command.spawn().expect("a program");
    let id = process.id();
    let mut memory = 0;
    while !has_exited(id) {
        memory = memory.max(peak_memory(id).unwrap_or(0));
        if start.elapsed() > longest {
            // It may exit at this moment.
            let _ = process.kill();
        }
        thread::sleep(POLL_INTERVAL);
    }
    let wall = start.elapsed();
    // Linux keeps them until the process is waited for.
    let cpu = cpu_time(id);
    Spent {
        status: process.wait().expect("a child"),
        wall,
        cpu,
        memory,
    }
}

/// CPU time of all threads of a process, ended ones too, and of all children that it waited for.
pub(crate) fn cpu_time(id: u32) -> Duration {
    let fields = stat(id);
    // After the state: user and system time, and the same of the children.
    let ticks = fields[11..15]
        .iter()
        .map(|ticks| ticks.parse::<u64>().expect("a number"));
    Duration::from_millis(ticks.sum::<u64>() * 1_000 / TICKS_PER_SECOND)
}

fn has_exited(id: u32) -> bool {
    stat(id)[0] == "Z"
}

/// The fields from the state on.
fn stat(id: u32) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).expect("Linux");
    // The name of the program before them may contain anything.
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    fields.split(' ').map(str::to_owned).collect()
}

/// None when the process has exited.
fn peak_memory(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes = line.trim().trim_end_matches(" kB");
    Some(kilobytes.parse::<u64>().expect("a number") << 10)
}
