//! The binary: hands the command line to the library and ends with its exit code.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Faster than the system allocator when visits allocate and free on many threads.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    sitescout::cli::run(std::env::args_os()).into()
}
