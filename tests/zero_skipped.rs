//! Prints at the end of `cargo test` which checks were skipped, and their number, even if zero.
//!
//! Not a test, but a program that cargo runs after all tests because of its name, whatever the test
//! filter is. If a test fails, cargo stops there, and the number is not printed.

#[path = "skips/mod.rs"]
mod skips;

#[allow(clippy::print_stdout, reason = "printing is its purpose")]
fn main() {
    let lines = skips::TestRun::of_parent().take();
    print!("\n{}", skips::summary(&lines));
}
