//! Metrics of crawls, by topic.
//!
//! Labels are topics, verdicts and windows, never a host. A rate that is not defined yet has no
//! series.

use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, exponential_buckets,
};

use crate::store::{Progress, Tally, TopicTotals};
use crate::telemetry::Metrics;
use crate::web::{SiteReport, Trouble, UndecidedReason, Verdict};

/// Values of the label `verdict`.
const VERDICTS: [&str; 3] = ["relevant", "irrelevant", "undecided"];

/// The window of all pages since the crawl began.
const ALL_PAGES: &str = "all";

/// Handles to the metrics of all topics; clones share them.
#[derive(Debug, Clone)]
pub struct CrawlMetrics {
    judged: IntCounterVec,
    panics: IntCounterVec,
    challenged: IntCounterVec,
    border: IntGaugeVec,
    deferred: IntGaugeVec,
    busy: IntGaugeVec,
    trouble: IntGaugeVec,
    duration: HistogramVec,
    pages: HistogramVec,
    rates: Rates,
}

/// Rates by topic and window.
#[derive(Debug, Clone)]
struct Rates {
    pprs: GaugeVec,
    harvest: GaugeVec,
}

/// Handles to the metrics of one topic.
#[derive(Debug)]
pub(super) struct TopicMetrics {
    judged: IntCounterVec,
    topic: String,
    panics: IntCounter,
    challenged: IntCounter,
    border: IntGauge,
    deferred: IntGauge,
    busy: IntGauge,
    trouble: IntGaugeVec,
    duration: Histogram,
    pages: Histogram,
    rates: Rates,
}

// === impl CrawlMetrics ===

impl CrawlMetrics {
    /// Registers the metrics of crawls.
    ///
    /// # Panics
    /// If it is called twice for the same metrics.
    #[must_use]
    pub fn register(metrics: &Metrics) -> Self {
        const WELL_FORMED: &str = "names, labels and buckets are constants";
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let vec = IntCounterVec::new(Opts::new(name, help), labels);
            metrics.add(vec.expect(WELL_FORMED))
        };
        let gauges = |name: &str, help: &str| {
            let vec = IntGaugeVec::new(Opts::new(name, help), &["topic"]);
            metrics.add(vec.expect(WELL_FORMED))
        };
        let rates = |name: &str, help: &str| {
            let vec = GaugeVec::new(Opts::new(name, help), &["topic", "window"]);
            metrics.add(vec.expect(WELL_FORMED))
        };
        let histograms = |name: &str, help: &str, (start, factor, count)| {
            let buckets = exponential_buckets(start, factor, count).expect(WELL_FORMED);
            let options = HistogramOpts::new(name, help).buckets(buckets);
            let vec = HistogramVec::new(options, &["topic"]);
            metrics.add(vec.expect(WELL_FORMED))
        };
        Self {
            judged: counters(
                "sitescout_sites_judged_total",
                "Verdicts recorded since the start of the process",
                &["topic", "verdict"],
            ),
            panics: counters(
                "sitescout_visit_panics_total",
                "Visits that panicked; their sites are undecided",
                &["topic"],
            ),
            challenged: counters(
                "sitescout_visits_challenged_total",
                "Visits that ended because a gatekeeper answered instead of the site",
                &["topic"],
            ),
            border: gauges(
                "sitescout_border_sites",
                "Sites that are known and were never visited",
            ),
            deferred: gauges(
                "sitescout_deferred_sites",
                "Sites to be visited again at a scheduled time",
            ),
            busy: gauges(
                "sitescout_internal_crawlers_busy",
                "Internal crawlers that are visiting a site",
            ),
            trouble: {
                let options = Opts::new(
                    "sitescout_own_trouble",
                    "1 while a topic is paused by this local failure, 0 otherwise",
                );
                let gauges = IntGaugeVec::new(options, &["topic", "cause"]);
                metrics.add(gauges.expect(WELL_FORMED))
            },
            duration: histograms(
                "sitescout_visit_duration_seconds",
                "Time that a visit took, waiting included",
                (0.1, 2.0, 14),
            ),
            pages: histograms(
                "sitescout_pages_per_visit",
                "Pages per visit: requests that got a response",
                (1.0, 2.0, 8),
            ),
            rates: Rates {
                pprs: rates(
                    "sitescout_pages_per_relevant_site",
                    "Pages for each relevant site found, over all pages of the crawl or the last \
                     1000 or 5000; absent without a find",
                ),
                harvest: rates(
                    "sitescout_website_harvest_rate",
                    "Relevant sites among those judged relevant or irrelevant, over all pages of \
                     the crawl or the last 1000 or 5000; absent without any",
                ),
            },
        }
    }

    pub(super) fn of_topic(&self, topic: &str) -> TopicMetrics {
        let labels = &[topic];
        for verdict in VERDICTS {
            // A series that exists from the start can be watched for its first increase.
            self.judged.with_label_values(&[topic, verdict]);
        }
        let shown = TopicMetrics {
            judged: self.judged.clone(),
            topic: topic.to_owned(),
            panics: self.panics.with_label_values(labels),
            challenged: self.challenged.with_label_values(labels),
            border: self.border.with_label_values(labels),
            deferred: self.deferred.with_label_values(labels),
            busy: self.busy.with_label_values(labels),
            trouble: self.trouble.clone(),
            duration: self.duration.with_label_values(labels),
            pages: self.pages.with_label_values(labels),
            rates: self.rates.clone(),
        };
        shown.show_trouble(None);
        shown
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
        if report.verdict == Verdict::Undecided(UndecidedReason::Challenged) {
            self.challenged.inc();
        }
    }

    pub(super) fn count_verdict(&self, verdict: Verdict) {
        let labels = &[self.topic.as_str(), verdict.name()];
        self.judged.with_label_values(labels).inc();
    }

    pub(super) fn show_trouble(&self, now: Option<Trouble>) {
        for trouble in Trouble::ALL {
            let labels = &[self.topic.as_str(), trouble.name()];
            let gauge = self.trouble.with_label_values(labels);
            gauge.set(i64::from(now == Some(trouble)));
        }
    }

    pub(super) fn show_totals(&self, totals: &TopicTotals, progress: &Progress, busy: usize) {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.border.set(whole(totals.border));
        self.deferred.set(whole(totals.deferred));
        self.busy.set(whole(busy as u64));
        self.rates.show(&self.topic, ALL_PAGES, totals.tally());
        for window in progress.paper_windows() {
            let pages = window.size().to_string();
            self.rates.show(&self.topic, &pages, window.sum());
        }
    }
}

// === impl Rates ===

impl Rates {
    fn show(&self, topic: &str, window: &str, tally: Tally) {
        for (gauges, rate) in [(&self.pprs, tally.pprs()), (&self.harvest, tally.harvest())] {
            let labels = &[topic, window];
            match rate {
                Some(rate) => gauges.with_label_values(labels).set(rate),
                // An error means that there was no such series.
                None => drop(gauges.remove_label_values(labels)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undefined_rate_has_no_series() {
        let metrics = Metrics::new();
        let rates = CrawlMetrics::register(&metrics).rates;
        let shown = |tally| {
            rates.show("sailing", "1000", tally);
            let rendered = metrics.render();
            let series = rendered.lines().filter(|line| !line.starts_with('#'));
            series.map(str::to_owned).collect::<Vec<_>>()
        };
        let mut tally = Tally::default();
        assert_eq!(shown(tally), [""; 0]);
        tally.pages = 10;
        tally.irrelevant = 3;
        let harvest = r#"sitescout_website_harvest_rate{topic="sailing",window="1000"}"#;
        assert_eq!(shown(tally), [format!("{harvest} 0")]);
        tally.finds = 1;
        tally.relevant = 1;
        let pprs = r#"sitescout_pages_per_relevant_site{topic="sailing",window="1000"} 10"#;
        assert_eq!(shown(tally), [pprs.to_owned(), format!("{harvest} 0.25")]);
        assert_eq!(shown(Tally::default()), [""; 0], "the find has left");
    }
}
