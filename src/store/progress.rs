//! The yield of a crawl: windows over its last pages, and the best pprs so far.
//!
//! One small record for each topic, written with the verdicts that change it. It cannot be recomputed
//! from the verdicts: deferred visits cost pages and leave none, and a renewed verdict replaces the old.
//!
//! Invariants: only visits to sites without a verdict count, because rechecks do not measure what it
//! costs to find more. The record takes about a kilobyte, whatever the size of the windows.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::versions::first_format;
use crate::web::ModelFingerprint;

/// The pages over which the paper averages harvest (figure 6) and pprs (figure 7).
const PAPER_WINDOWS: [u64; 2] = [1_000, 5_000];

/// A window is divided into this many stretches. Whole ones are dropped, so it holds up to one stretch
/// of pages more than its size.
const STRETCHES: u64 = 50;

/// Pages, and the verdicts they led to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The pages, however the visits ended.
    pub pages: u64,
    /// Relevant sites that the crawl found, start sites not among them.
    pub finds: u64,
    /// Relevant sites, start sites among them.
    pub relevant: u64,
    /// Irrelevant sites.
    pub irrelevant: u64,
}

/// A sliding window over the last pages of a crawl.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageWindow {
    size: u64,
    /// Oldest first.
    stretches: VecDeque<Tally>,
}

/// The yield of a crawl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    paper: [PageWindow; 2],
    /// The window for the stop condition `pprs_factor`.
    watched: PageWindow,
    /// The lowest pprs of that window while it was full.
    best: Option<f64>,
    /// The model of the verdicts in it.
    model: u64,
}

first_format!(Progress);

// === impl Tally ===

#[allow(
    clippy::cast_precision_loss,
    reason = "there are far fewer than 2^53 pages on the web"
)]
impl Tally {
    /// Pages per relevant site (paper, section 3); none while there was no find.
    #[must_use]
    pub(crate) fn pprs(&self) -> Option<f64> {
        (self.finds > 0).then(|| self.pages as f64 / self.finds as f64)
    }

    /// The website harvest rate (paper 4.2): relevant sites among the decided ones; none
    /// while there are none of either.
    #[must_use]
    pub(crate) fn harvest(&self) -> Option<f64> {
        let decided = self.relevant + self.irrelevant;
        (decided > 0).then(|| self.relevant as f64 / decided as f64)
    }

    fn add(&mut self, other: Self) {
        self.pages += other.pages;
        self.finds += other.finds;
        self.relevant += other.relevant;
        self.irrelevant += other.irrelevant;
    }
}

// === impl PageWindow ===

impl PageWindow {
    fn new(size: u64) -> Self {
        Self {
            size,
            stretches: VecDeque::new(),
        }
    }

    /// Its size in pages.
    #[must_use]
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Its sum; over all pages so far while there are fewer.
    #[must_use]
    pub fn sum(&self) -> Tally {
        let mut sum = Tally::default();
        for stretch in &self.stretches {
            sum.add(*stretch);
        }
        sum
    }

    fn is_full(&self) -> bool {
        self.sum().pages >= self.size
    }

    fn add(&mut self, visit: Tally) {
        let stretch = self.size.div_ceil(STRETCHES);
        match self.stretches.back_mut() {
            Some(last) if last.pages < stretch => last.add(visit),
            _ => self.stretches.push_back(visit),
        }
        let mut pages = self.sum().pages;
        while let Some(oldest) = self.stretches.front()
            && pages - oldest.pages >= self.size
        {
            pages -= oldest.pages;
            self.stretches.pop_front();
        }
    }
}

// === impl Progress ===

impl Progress {
    /// Nothing seen yet.
    pub(super) fn new(watched_pages: u64, model: ModelFingerprint) -> Self {
        Self {
            paper: PAPER_WINDOWS.map(PageWindow::new),
            watched: PageWindow::new(watched_pages),
            best: None,
            model: model.bits(),
        }
    }

    /// The windows of the paper's figures, of 1,000 and of 5,000 pages.
    #[must_use]
    pub fn paper_windows(&self) -> &[PageWindow; 2] {
        &self.paper
    }

    /// Whether pages per relevant site rose above `factor` times their best.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "there are far fewer than 2^53 pages on the web"
    )]
    pub fn has_pprs_risen(&self, factor: f64) -> bool {
        let Some(best) = self.best.filter(|_| self.watched.is_full()) else {
            return false;
        };
        let sum = self.watched.sum();
        // Without any find, one more page might bring the next.
        let now = sum.pprs().unwrap_or(sum.pages as f64 + 1.0);
        now > factor * best
    }

    /// Resumes with the current window size and model.
    pub(super) fn go_on(&mut self, watched_pages: u64, model: ModelFingerprint) {
        if self.model != model.bits() {
            self.restart_watch();
            self.model = model.bits();
        }
        if self.watched.size != watched_pages {
            let stretches = std::mem::take(&mut self.watched.stretches);
            self.watched.size = watched_pages;
            // The best of a short window is not comparable with a longer one.
            self.best = None;
            for stretch in stretches {
                self.watch(stretch);
            }
        }
    }

    /// Clears the window, after a change that may lower the pprs.
    pub(super) fn restart_watch(&mut self) {
        self.watched.stretches.clear();
        self.best = None;
    }

    pub(super) fn add(&mut self, visit: Tally) {
        for window in &mut self.paper {
            window.add(visit);
        }
        self.watch(visit);
    }

    fn watch(&mut self, visit: Tally) {
        self.watched.add(visit);
        if self.watched.is_full()
            && let Some(now) = self.watched.sum().pprs()
        {
            self.best = Some(self.best.map_or(now, |best| best.min(now)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::versions;

    const MODEL: ModelFingerprint = ModelFingerprint::from_bits(1);

    fn visit(pages: u64, is_find: bool) -> Tally {
        Tally {
            pages,
            finds: is_find.into(),
            relevant: is_find.into(),
            irrelevant: (!is_find).into(),
        }
    }

    fn pprs(progress: &Progress) -> Option<f64> {
        progress.watched.sum().pprs()
    }

    /// By hand: ten visits of two pages, half of them finds, cost 4 pages for each find.
    #[test]
    fn the_window_holds_the_last_pages() {
        let mut progress = Progress::new(20, MODEL);
        for at in 0..10 {
            progress.add(visit(2, at % 2 == 0));
        }
        assert_eq!(pprs(&progress), Some(4.0));
        for _ in 0..5 {
            progress.add(visit(2, false));
        }
        // Of the last ten visits three were finds: at 6 and 8; and the one at 4 has left.
        assert_eq!(pprs(&progress), Some(10.0));
        assert!(!progress.has_pprs_risen(3.0), "2.5 times the best");
        progress.add(visit(2, false));
        progress.add(visit(2, false));
        assert!(
            progress.has_pprs_risen(3.0),
            "one find: {:?}",
            pprs(&progress)
        );
    }

    #[test]
    fn pprs_is_not_bad_before_the_window_is_full_or_anything_was_found() {
        let mut progress = Progress::new(100, MODEL);
        progress.add(visit(1, true));
        for _ in 0..48 {
            progress.add(visit(2, false));
        }
        assert!(!progress.has_pprs_risen(2.0));
        let mut progress = Progress::new(10, MODEL);
        for _ in 0..100 {
            progress.add(visit(2, false));
        }
        assert!(!progress.has_pprs_risen(2.0), "no best to compare with");
        assert_eq!(pprs(&progress), None);
        assert_eq!(progress.watched.sum().harvest(), Some(0.0));
        assert_eq!(Tally::default().harvest(), None);
    }

    /// Visits of one to seven pages, and some of none.
    #[test]
    fn long_windows_are_right_to_a_fiftieth_and_their_record_stays_small() {
        let mut progress = Progress::new(u64::MAX, MODEL);
        let mut visits = Vec::new();
        for number in 0_u64..30_000 {
            let visit = visit(number * number % 8, number % 5 == 0);
            visits.push(visit);
            progress.add(visit);
        }
        for window in &progress.paper {
            let mut last = Tally::default();
            for visit in visits.iter().rev() {
                if last.pages < window.size {
                    last.add(*visit);
                }
            }
            let sum = window.sum();
            let longest = window.size + window.size / STRETCHES + 7;
            assert!((window.size..=longest).contains(&sum.pages), "{sum:?}");
            let (sum, exact) = (sum.harvest().unwrap(), last.harvest().unwrap());
            assert!((sum - exact).abs() < 0.02, "{sum} for {exact}");
        }
        let mut all = Tally::default();
        for visit in &visits {
            all.add(*visit);
        }
        assert_eq!(pprs(&progress), all.pprs());
        let bytes = versions::encode(&progress).len();
        assert!(bytes < 1_000, "{bytes}");
    }

    #[test]
    fn another_model_or_window_is_measured_anew() {
        let mut risen = Progress::new(10, MODEL);
        risen.add(visit(10, true));
        risen.add(visit(10, false));
        assert!(risen.has_pprs_risen(1.0));
        let mut same = risen.clone();
        same.go_on(10, MODEL);
        assert_eq!(same, risen);
        let mut other_model = risen.clone();
        other_model.go_on(10, ModelFingerprint::from_bits(2));
        assert!(!other_model.has_pprs_risen(1.0));
        assert_eq!(
            other_model.paper, risen.paper,
            "figures are about all models"
        );
        let mut longer = risen.clone();
        longer.go_on(20, MODEL);
        assert!(!longer.has_pprs_risen(1.0), "it is not full");
        longer.add(visit(10, true));
        assert_eq!(pprs(&longer), Some(20.0), "what was known counts");
        let mut shorter = risen.clone();
        shorter.go_on(5, MODEL);
        assert!(!shorter.has_pprs_risen(1.0), "it never had a find");
    }
}
