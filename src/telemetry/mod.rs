//! What the program tells about itself: the log, and the figures that Prometheus scrapes.
//!
//! Lines go to standard error, so that standard output stays what the user asked for.

use std::io::{self, IsTerminal};

use prometheus::core::Collector;
use prometheus::{Registry, TextEncoder};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogLevel, LogSettings};

/// The figures of a process. Each room adds its own; nobody else knows their names.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// No figures yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a figure and gives it back.
    ///
    /// # Panics
    /// If there is one of that name already: names are constants, and rooms add theirs once.
    pub fn add<C: Collector + Clone + 'static>(&self, collector: C) -> C {
        let added = self.registry.register(Box::new(collector.clone()));
        added.expect("each name is registered once");
        collector
    }

    /// All figures in the text format of Prometheus.
    ///
    /// # Panics
    /// Never: figures are written into memory.
    #[must_use]
    pub fn render(&self) -> String {
        let encoded = TextEncoder::new().encode_to_string(&self.registry.gather());
        encoded.expect("figures can be written into memory")
    }
}

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
