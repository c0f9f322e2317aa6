//! Metrics of the store: its size, the duration of commits, and the sites that caps keep out of borders.
//!
//! A process has one store, so only the last have a label for the topic.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, IntCounterVec, IntGauge, Opts, exponential_buckets};

use crate::telemetry::Metrics;

use super::engine::Engine;

const WELL_FORMED: &str = "names and buckets are constants";

/// The caps, by their names in the settings.
const SOURCE_CAP: &str = "sites_per_source";
const BORDER_CAP: &str = "border_sites";

/// Metrics that every commit updates.
#[derive(Debug, Clone)]
pub(super) struct CommitMetrics {
    pub(super) duration: Histogram,
    dropped: IntCounterVec,
}

/// Sites that caps kept out of borders or removed from them, by topic.
#[derive(Debug, Default)]
pub(super) struct DroppedSites(BTreeMap<(Arc<str>, &'static str), u64>);

/// Measures the size when metrics are scraped, since that reads the directory. A closed store has none,
/// and is not kept open for it.
struct StoreSize {
    bytes: IntGauge,
    engine: Weak<dyn Engine>,
}

/// Registers the size of a store.
pub(super) fn add_size(metrics: &Metrics, engine: &Arc<dyn Engine>) {
    let bytes = IntGauge::new(
        "sitescout_store_bytes",
        "Bytes that the store takes on the disk",
    );
    metrics.add_boxed(Box::new(StoreSize {
        bytes: bytes.expect(WELL_FORMED),
        engine: Arc::downgrade(engine),
    }));
}

/// Registers the metrics that every commit updates.
pub(super) fn add_commits(metrics: &Metrics) -> CommitMetrics {
    let seconds = exponential_buckets(0.000_5, 2.0, 14).expect(WELL_FORMED);
    let timing = HistogramOpts::new(
        "sitescout_store_commit_duration_seconds",
        "Time to write a group of commands and to sync it to the disk",
    );
    let duration = Histogram::with_opts(timing.buckets(seconds)).expect(WELL_FORMED);
    let drops = Opts::new(
        "sitescout_border_sites_dropped_total",
        "Sites that a cap kept out of the border (sites_per_source) or removed from it (border_sites)",
    );
    let dropped = IntCounterVec::new(drops, &["topic", "cap"]).expect(WELL_FORMED);
    CommitMetrics {
        duration: metrics.add(duration),
        dropped: metrics.add(dropped),
    }
}

// === impl CommitMetrics ===

impl CommitMetrics {
    /// Creates the series of a topic at 0, so that their first increase is visible.
    pub(super) fn add_topic(&self, topic: &str) {
        for cap in [SOURCE_CAP, BORDER_CAP] {
            self.dropped.with_label_values(&[topic, cap]);
        }
    }

    pub(super) fn count(&self, dropped: DroppedSites) {
        for ((topic, cap), sites) in dropped.0 {
            self.dropped
                .with_label_values(&[&*topic, cap])
                .inc_by(sites);
        }
    }
}

// === impl DroppedSites ===

impl DroppedSites {
    /// A site did not enter: the domain that recommends it has reached its limit.
    pub(super) fn count_source(&mut self, topic: &Arc<str>) {
        self.count(topic, SOURCE_CAP);
    }

    /// A site was dropped from a border that was too long.
    pub(super) fn count_border(&mut self, topic: &Arc<str>) {
        self.count(topic, BORDER_CAP);
    }

    fn count(&mut self, topic: &Arc<str>, cap: &'static str) {
        *self.0.entry((Arc::clone(topic), cap)).or_default() += 1;
    }
}

impl Collector for StoreSize {
    fn desc(&self) -> Vec<&Desc> {
        self.bytes.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(engine) = self.engine.upgrade() else {
            return Vec::new();
        };
        let bytes = i64::try_from(engine.disk_bytes());
        self.bytes.set(bytes.unwrap_or(i64::MAX));
        self.bytes.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::StoreSettings;
    use crate::store::{KeyValueStore, StoreError};

    #[test]
    fn a_store_is_measured_while_it_is_open_and_can_be_closed() {
        let directory = tempfile::tempdir().unwrap();
        let open = || KeyValueStore::open(directory.path(), &StoreSettings::default());
        let (metrics, store) = (Metrics::new(), open().unwrap());
        store.register_metrics(&metrics);
        let size = || {
            let figures = metrics.render();
            let mut sizes = figures
                .lines()
                .filter_map(|line| line.strip_prefix("sitescout_store_bytes "));
            sizes.next().map(|bytes| bytes.parse::<u64>().unwrap())
        };
        assert!(size().unwrap() > 0);
        drop(store);
        // The thread of the writer ends soon, and closes the files.
        let is_closing = || matches!(open(), Err(StoreError::Locked(_)));
        while size().is_some() || is_closing() {
            std::thread::yield_now();
        }
        assert_eq!(size(), None, "the next to open it adds its own");
    }
}
