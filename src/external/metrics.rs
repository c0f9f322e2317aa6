//! What the room counts, by topic.
//!
//! Labels are topics and verdicts, never a host.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    exponential_buckets,
};

use crate::store::TopicTotals;
use crate::telemetry::Metrics;
use crate::web::{SiteReport, Verdict};

/// The words for verdicts.
const VERDICTS: [&str; 3] = ["relevant", "irrelevant", "undecided"];

/// Handles to the figures of all topics; clones count together.
#[derive(Debug, Clone)]
pub struct CrawlMetrics {
    judged: IntCounterVec,
    panics: IntCounterVec,
    border: IntGaugeVec,
    busy: IntGaugeVec,
    duration: HistogramVec,
    pages: HistogramVec,
}

/// The figures of one topic.
#[derive(Debug)]
pub(super) struct TopicMetrics {
    judged: IntCounterVec,
    topic: String,
    panics: IntCounter,
    border: IntGauge,
    busy: IntGauge,
    duration: Histogram,
    pages: Histogram,
}

// === impl CrawlMetrics ===

impl CrawlMetrics {
    /// Adds the figures of this room to those of the process.
    ///
    /// # Panics
    /// If it is called twice for the same metrics.
    #[must_use]
    pub fn register(metrics: &Metrics) -> Self {
        const WELL_FORMED: &str = "names, labels and buckets are constants";
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let counters = IntCounterVec::new(Opts::new(name, help), labels);
            metrics.add(counters.expect(WELL_FORMED))
        };
        let gauges = |name: &str, help: &str| {
            let gauges = IntGaugeVec::new(Opts::new(name, help), &["topic"]);
            metrics.add(gauges.expect(WELL_FORMED))
        };
        let histograms = |name: &str, help: &str, (start, factor, count)| {
            let buckets = exponential_buckets(start, factor, count).expect(WELL_FORMED);
            let options = HistogramOpts::new(name, help).buckets(buckets);
            let histograms = HistogramVec::new(options, &["topic"]);
            metrics.add(histograms.expect(WELL_FORMED))
        };
        Self {
            judged: counters(
                "sitescout_sites_judged_total",
                "Verdicts recorded since the start of the process",
                &["topic", "verdict"],
            ),
            panics: counters(
                "sitescout_visit_panics_total",
                "Visits that broke off by a fault of ours; their sites are undecided",
                &["topic"],
            ),
            border: gauges("sitescout_border_sites", "Sites that wait to be visited"),
            busy: gauges(
                "sitescout_internal_crawlers_busy",
                "Internal crawlers at work",
            ),
            duration: histograms(
                "sitescout_visit_duration_seconds",
                "Time that a visit took, waiting included",
                (0.1, 2.0, 14),
            ),
            pages: histograms(
                "sitescout_pages_per_visit",
                "Pages that a visit cost",
                (1.0, 2.0, 8),
            ),
        }
    }

    pub(super) fn of_topic(&self, topic: &str) -> TopicMetrics {
        let labels = &[topic];
        for verdict in VERDICTS {
            // A series that exists from the start can be watched for its first increase.
            self.judged.with_label_values(&[topic, verdict]);
        }
        TopicMetrics {
            judged: self.judged.clone(),
            topic: topic.to_owned(),
            panics: self.panics.with_label_values(labels),
            border: self.border.with_label_values(labels),
            busy: self.busy.with_label_values(labels),
            duration: self.duration.with_label_values(labels),
            pages: self.pages.with_label_values(labels),
        }
    }
}

// === impl TopicMetrics ===

impl TopicMetrics {
    pub(super) fn count_visit(&self, report: &SiteReport, is_broken: bool) {
        self.duration.observe(report.cost.duration.as_secs_f64());
        #[allow(clippy::cast_precision_loss, reason = "a visit has a budget of pages")]
        self.pages.observe(report.cost.pages as f64);
        if is_broken {
            self.panics.inc();
        }
    }

    pub(super) fn count_verdict(&self, verdict: Verdict) {
        let labels = &[self.topic.as_str(), verdict.name()];
        self.judged.with_label_values(labels).inc();
    }

    pub(super) fn stand_at(&self, totals: &TopicTotals, busy: usize) {
        self.border
            .set(i64::try_from(totals.border).unwrap_or(i64::MAX));
        self.busy.set(i64::try_from(busy).unwrap_or(i64::MAX));
    }
}
