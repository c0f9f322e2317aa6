//! What the room counts: the bytes that a store takes, and the time of its commits.
//!
//! There is one store in a process, so there are no labels.

use std::sync::{Arc, Weak};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, IntGauge, exponential_buckets};

use crate::telemetry::Metrics;

use super::engine::Engine;

const WELL_FORMED: &str = "names and buckets are constants";

/// Asks for the size when it is wanted: that looks at files. A store that was closed has none,
/// and is not kept open for the sake of it.
struct StoreSize {
    bytes: IntGauge,
    engine: Weak<dyn Engine>,
}

/// Adds the size of a store.
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

/// Adds the time of commits.
pub(super) fn add_commits(metrics: &Metrics) -> Histogram {
    let seconds = exponential_buckets(0.000_5, 2.0, 14).expect(WELL_FORMED);
    let options = HistogramOpts::new(
        "sitescout_store_commit_duration_seconds",
        "Time to write a group of orders and to sync it to the disk",
    );
    metrics.add(Histogram::with_opts(options.buckets(seconds)).expect(WELL_FORMED))
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
        store.add_figures_to(&metrics);
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
        assert_eq!(size(), None, "whoever opens it again adds its own");
    }
}
