//! What the program tells about itself: the log.
//!
//! Lines go to standard error, so that standard output stays what the user asked for.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogLevel, LogSettings};

/// Starts the log. Later calls change nothing: a process has one log.
pub fn start_log(settings: &LogSettings) {
    let filter = EnvFilter::builder()
        .with_default_directive(level_filter(settings.level).into())
        .from_env_lossy();
    let is_terminal = io::stderr().is_terminal();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(is_terminal);
    let is_human = match settings.format {
        LogFormat::Auto => is_terminal,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    // An error means that a log was started before, which is then the log.
    let _ = if is_human {
        log.try_init()
    } else {
        log.json().try_init()
    };
}

fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
