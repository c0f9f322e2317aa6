//! How a crawl went, from its first page to its last: the paper's figures 6 and 7 as data.
//!
//! Invariant: a curve has at most [`MOST_POINTS`] points, evenly spaced in pages, whatever the
//! length of the crawl. When there are too many, every second is dropped and the step doubles; so the record stays below seven kilobytes.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::telemetry::clock;

use super::engine::Engine;
use super::keys;
use super::progress::Progress;
use super::records;
use super::transaction::Transaction;
use super::versions::first_format;
use super::{StoreError, TopicId, TopicTotals};

/// More points than a screen is wide are of no use.
const MOST_POINTS: usize = 200;

/// The pages between two points of a young crawl.
const FIRST_STEP: u64 = 10;

/// The state of a crawl after some pages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// The pages downloaded until then.
    pub pages: u64,
    /// The finds until then.
    pub finds: u64,
    /// The relevant sites, start sites among them.
    pub(crate) relevant: u64,
    /// The irrelevant sites.
    pub irrelevant: u64,
    /// The sites that waited to be visited.
    pub border: u64,
    /// Pages per relevant site over the last 5,000 pages (figure 7); none without a find.
    pub pprs: Option<f64>,
    /// The website harvest rate over the last 1,000 pages (figure 6).
    pub harvest: Option<f64>,
    /// When it was.
    pub(crate) at: SystemTime,
}

/// A curve as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CurveRecord {
    step: u64,
    points: Vec<PointRecord>,
}

first_format!(CurveRecord);

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct PointRecord {
    pages: u64,
    finds: u64,
    relevant: u64,
    irrelevant: u64,
    border: u64,
    pprs: Option<f32>,
    harvest: Option<f32>,
    at: u64,
}

/// Adds a point if one is due; returns the number of pages at which the next is.
pub(super) fn extend(
    changes: &mut Transaction<'_, dyn Engine>,
    topic: TopicId,
    totals: &TopicTotals,
    progress: &Progress,
) -> Result<u64, StoreError> {
    let key = keys::curve(topic);
    let mut curve: CurveRecord = changes.get(&key)?.unwrap_or_default();
    if totals.pages >= curve.next_at() {
        curve.add(PointRecord::new(totals, progress));
        changes.put(key, &curve);
    }
    Ok(curve.next_at())
}

// === impl CurveRecord ===

impl CurveRecord {
    fn next_at(&self) -> u64 {
        let last = self.points.last().map_or(0, |point| point.pages);
        last + self.step
    }

    fn add(&mut self, point: PointRecord) {
        self.points.push(point);
        if self.points.len() > MOST_POINTS {
            // An odd number of them: the first and the last stay.
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.step *= 2;
        }
    }

    pub(super) fn into_points(self) -> Vec<CurvePoint> {
        let points = self.points.into_iter();
        points.map(PointRecord::into_point).collect()
    }
}

impl Default for CurveRecord {
    fn default() -> Self {
        Self {
            step: FIRST_STEP,
            points: Vec::new(),
        }
    }
}

// === impl PointRecord ===

impl PointRecord {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a curve is looked at; three digits are enough"
    )]
    fn new(totals: &TopicTotals, progress: &Progress) -> Self {
        let [short, long] = progress.paper_windows();
        Self {
            pages: totals.pages,
            finds: totals.finds,
            relevant: totals.relevant,
            irrelevant: totals.irrelevant,
            border: totals.border,
            pprs: long.sum().pprs().map(|pprs| pprs as f32),
            harvest: short.sum().harvest().map(|harvest| harvest as f32),
            at: records::seconds(clock::now()),
        }
    }

    fn into_point(self) -> CurvePoint {
        CurvePoint {
            pages: self.pages,
            finds: self.finds,
            relevant: self.relevant,
            irrelevant: self.irrelevant,
            border: self.border,
            pprs: self.pprs.map(f64::from),
            harvest: self.harvest.map(f64::from),
            at: records::time(self.at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_stays_small_and_even_however_long_the_crawl() {
        let mut curve = CurveRecord::default();
        let point = PointRecord {
            pages: 0,
            finds: 10_000_000,
            relevant: 10_000_000,
            irrelevant: 10_000_000,
            border: 10_000_000,
            pprs: Some(1.0),
            harvest: None,
            at: u64::from(u32::MAX),
        };
        for pages in 1..=1_000_000 {
            if pages >= curve.next_at() {
                curve.add(PointRecord { pages, ..point });
            }
        }
        let pages: Vec<u64> = curve.points.iter().map(|point| point.pages).collect();
        assert!((100..=MOST_POINTS).contains(&pages.len()));
        assert!(crate::store::versions::encode(&curve).len() < 7_000);
        assert!(1_000_000 - pages[pages.len() - 1] <= curve.step);
        let steps = pages.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(steps.clone().all(|step| step == curve.step), "{pages:?}");
    }
}
