//! Metrics of fetching.
//!
//! Labels are few and closed: status classes and kinds of errors, never a host or an
//! address.

use std::time::Duration;

use http::StatusCode;
use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, exponential_buckets,
};

use crate::telemetry::Metrics;
use crate::web::{FetchedPage, NoAnswer};

use super::error::FetchError;

/// The labels of responses, by status class.
const STATUS_LABELS: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// Handles to the metrics; clones share them.
#[derive(Debug, Clone)]
pub struct FetchMetrics {
    pages: IntCounterVec,
    /// Those of `pages` for `STATUS_LABELS`: nearly all pages count here, and a label lookup costs
    /// more than the increment.
    answers: [IntCounter; 4],
    robots: IntCounterVec,
    bytes: IntCounter,
    connections: IntGauge,
    waiting: WaitingRequests,
    duration: Histogram,
}

/// Gauge of requests that wait for politeness; clones share it.
#[derive(Debug, Clone)]
pub(super) struct WaitingRequests(IntGauge);

/// One waiting request; decrements the gauge when dropped.
struct WaitingRequest<'r>(&'r IntGauge);

// === impl FetchMetrics ===

impl FetchMetrics {
    /// Registers the metrics of this module.
    ///
    /// # Panics
    /// If called twice for the same registry.
    #[must_use]
    pub fn register(metrics: &Metrics) -> Self {
        let by_outcome = |name: &str, help: &str| {
            let counters = IntCounterVec::new(Opts::new(name, help), &["outcome"])
                .expect("the name and the label are well formed");
            let reasons = NoAnswer::ALL.iter().map(|reason| reason.name());
            for label in STATUS_LABELS.into_iter().chain(reasons) {
                // A series that exists from the start can be watched for its first increase.
                counters.with_label_values(&[label]);
            }
            metrics.add(counters)
        };
        let seconds = exponential_buckets(0.01, 2.0, 14).expect("growing buckets");
        let duration = HistogramOpts::new(
            "sitescout_fetch_duration_seconds",
            "Duration of a page request, waits for politeness included",
        );
        let pages = by_outcome(
            "sitescout_pages_fetched_total",
            "Requests for pages, by status class of the answer or kind of error",
        );
        Self {
            answers: STATUS_LABELS.map(|label| pages.with_label_values(&[label])),
            pages,
            robots: by_outcome(
                "sitescout_robots_fetched_total",
                "Requests for robots.txt, by status class of the answer or kind of error",
            ),
            bytes: metrics.add(
                IntCounter::new(
                    "sitescout_fetched_bytes_total",
                    "Bytes of page bodies taken from the wire",
                )
                .expect("a well-formed name"),
            ),
            connections: metrics.add(
                IntGauge::new(
                    "sitescout_connections_open",
                    "Open connections, idle ones included",
                )
                .expect("a well-formed name"),
            ),
            waiting: WaitingRequests(
                metrics.add(
                    IntGauge::new(
                        "sitescout_requests_waiting_for_politeness",
                        "Requests that wait for their turn at a site or an address",
                    )
                    .expect("a well-formed name"),
                ),
            ),
            duration: metrics
                .add(Histogram::with_opts(duration.buckets(seconds)).expect("well-formed buckets")),
        }
    }

    /// The number of pages with an outcome: `2xx`, `3xx`, `4xx`, `5xx`, or the label of an error.
    #[must_use]
    pub fn pages(&self, outcome: &str) -> u64 {
        let counter = self.pages.get_metric_with_label_values(&[outcome]);
        counter.map_or(0, |counter| counter.get())
    }

    pub(super) fn count_page(&self, result: &Result<FetchedPage, FetchError>, time: Duration) {
        match result {
            Ok(page) => {
                self.answers[status_class(page.status)].inc();
                self.bytes.inc_by(page.transfer.wire_bytes);
                self.duration.observe(time.as_secs_f64());
            }
            Err(error) => {
                let reason = error.kind.reason().name();
                self.pages.with_label_values(&[reason]).inc();
            }
        }
    }

    pub(super) fn count_robots(&self, result: Result<StatusCode, &FetchError>) {
        let label = match result {
            Ok(status) => STATUS_LABELS[status_class(status)],
            Err(error) => error.kind.reason().name(),
        };
        self.robots.with_label_values(&[label]).inc();
    }

    pub(super) fn connections(&self) -> IntGauge {
        self.connections.clone()
    }

    pub(super) fn waiting_requests(&self) -> &WaitingRequests {
        &self.waiting
    }
}

// === impl WaitingRequests ===

impl WaitingRequests {
    /// Counts the request as waiting until `turn` is ready or the future is dropped.
    pub(super) async fn wait_for<W: Future>(&self, turn: W) -> W::Output {
        self.0.inc();
        let _waiting = WaitingRequest(&self.0);
        turn.await
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The index into `STATUS_LABELS`. Undefined statuses count as server errors.
fn status_class(status: StatusCode) -> usize {
    match status.as_u16() {
        200..=299 => 0,
        300..=399 => 1,
        400..=499 => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::super::ErrorKind;
    use super::*;
    use crate::telemetry::clock;
    use crate::web::DeferralCause;

    #[tokio::test]
    async fn waits_are_counted_until_they_end_or_are_cancelled() {
        let counted = FetchMetrics::register(&Metrics::new());
        let room = counted.waiting_requests();
        let mut waits = Box::pin(room.wait_for(std::future::pending::<()>()));
        assert_eq!(room.0.get(), 0);
        assert!(timeout(Duration::ZERO, &mut waits).await.is_err());
        assert_eq!(room.0.get(), 1);
        assert_eq!(room.wait_for(async { room.0.get() }).await, 2);
        drop(waits);
        assert_eq!(room.0.get(), 0);
    }

    #[test]
    fn every_error_counts_under_a_label_that_is_known_from_the_start() {
        let kinds = [
            ErrorKind::NoHost,
            ErrorKind::DnsFailed,
            ErrorKind::Unreachable,
            ErrorKind::ConnectTimeout,
            ErrorKind::TlsFailed,
            ErrorKind::BadCertificate {
                http_instead: true,
                is_out_of_date: false,
            },
            ErrorKind::BadCertificate {
                http_instead: true,
                is_out_of_date: true,
            },
            ErrorKind::ForbiddenAddress,
            ErrorKind::ForbiddenPort,
            ErrorKind::NoContact,
            ErrorKind::Blocked,
            ErrorKind::Disallowed,
            ErrorKind::Deferred {
                not_before: clock::now(),
                cause: DeferralCause::Busy,
            },
            ErrorKind::Timeout,
            ErrorKind::TooSlow,
            ErrorKind::Broken,
            ErrorKind::Malformed,
            ErrorKind::Archive,
        ];
        let counted = FetchMetrics::register(&Metrics::new());
        for (kind, reason) in kinds.into_iter().zip(NoAnswer::ALL) {
            assert_eq!(kind.reason(), *reason);
            counted.count_page(&Err(FetchError::new(kind, "")), Duration::ZERO);
            assert_eq!(counted.pages(reason.name()), 1);
        }
    }
}
