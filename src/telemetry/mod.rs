//! The log, the metrics that Prometheus scrapes, heartbeats, and the clock.
//!
//! The log goes to standard error, so that standard output has only results.

pub mod clock;
mod heartbeats;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use prometheus::core::Collector;
#[cfg(target_os = "linux")]
use prometheus::process_collector::ProcessCollector;
use prometheus::{IntGauge, Opts, Registry, TextEncoder};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry as Subscribers, fmt, reload};

use crate::config::{LogFormat, LogLevel, LogSettings};
pub(crate) use heartbeats::{Heartbeat, Heartbeats};

/// The metrics of a process. Each module registers its own.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// Without metrics.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With the metrics of any process: its version and, on Linux, its memory, descriptors, CPU time
    /// and start time.
    ///
    /// # Panics
    /// Never: the names are constants.
    #[must_use]
    pub fn of_process() -> Self {
        let metrics = Self::new();
        let build = Opts::new("sitescout_build_info", "1, for the version that is running")
            .const_label("version", env!("CARGO_PKG_VERSION"));
        let build = IntGauge::with_opts(build).expect("a well-formed name");
        metrics.add(build).set(1);
        #[cfg(target_os = "linux")]
        metrics.add_boxed(Box::new(ProcessCollector::for_self()));
        metrics
    }

    /// Registers a metric and returns it.
    ///
    /// # Panics
    /// If the name is registered already: names are constants, and each is registered once.
    pub(crate) fn add<C: Collector + Clone + 'static>(&self, collector: C) -> C {
        self.add_boxed(Box::new(collector.clone()));
        collector
    }

    /// Registers a collector that computes its values when scraped.
    ///
    /// # Panics
    /// If the name is registered already.
    pub(crate) fn add_boxed(&self, collector: Box<dyn Collector>) {
        let added = self.registry.register(collector);
        added.expect("each name is registered once");
    }

    /// The values of a metric by one of its labels, summed over the others; empty if there is no
    /// such metric.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts are whole and not negative"
    )]
    pub(crate) fn values(&self, name: &str, label: &str) -> BTreeMap<String, u64> {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let mut values = BTreeMap::new();
        for metric in family.iter().flat_map(|family| family.get_metric()) {
            let own = metric.get_label().iter().find(|own| own.name() == label);
            let key = own.map_or("", |own| own.value()).to_owned();
            let value = metric.get_counter().get_value() + metric.get_gauge().get_value();
            *values.entry(key).or_default() += value as u64;
        }
        values
    }

    /// All metrics in the text format of Prometheus.
    ///
    /// # Panics
    /// Never: writing into memory cannot fail.
    #[must_use]
    pub fn render(&self) -> String {
        let encoded = TextEncoder::new().encode_to_string(&self.registry.gather());
        encoded.expect("writing into memory cannot fail")
    }
}

/// The log's filter, which can be changed at run time.
static FILTER: OnceLock<reload::Handle<EnvFilter, Subscribers>> = OnceLock::new();

/// Starts the log. Later calls change nothing: a process has one log.
pub(crate) fn start_log(settings: &LogSettings) {
    let (filter, handle) = reload::Layer::new(filter(settings.level));
    let is_terminal = io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(is_terminal);
    let lines = match settings.format {
        LogFormat::Auto if is_terminal => lines.boxed(),
        LogFormat::Human => lines.boxed(),
        LogFormat::Auto | LogFormat::Json => lines.json().boxed(),
    };
    let log = tracing_subscriber::registry().with(lines.with_filter(filter));
    // An error means that a log was started before; that one stays.
    if log.try_init().is_ok() {
        let _ = FILTER.set(handle);
    }
}

/// Changes the log level at run time. `RUST_LOG` takes precedence.
pub(crate) fn set_log_level(level: LogLevel) {
    if let Some(handle) = FILTER.get() {
        // It fails only if the log is gone, and then there is nowhere to report it.
        let _ = handle.reload(filter(level));
    }
}

fn filter(level: LogLevel) -> EnvFilter {
    EnvFilter::builder()
        .with_default_directive(level_filter(level).into())
        .from_env_lossy()
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

/// A number with its digits in groups of three.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        for (number, wanted) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), wanted);
        }
    }
}
