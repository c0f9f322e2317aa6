#![doc = "stub"]
#![forbid(unsafe_code)]
pub mod web;
pub mod config;
pub mod telemetry;
pub mod fetch;
pub mod parse;
pub mod cli { pub fn run(_: std::env::ArgsOs) -> std::process::ExitCode { todo!() } }
