//! The binary: hands the command line to the library and ends with its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    sitescout::cli::run(std::env::args_os()).into()
}
