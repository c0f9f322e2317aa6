//! How a crawl goes: pages per relevant site, harvest, and when it is no longer worth while.

use std::collections::VecDeque;

use crate::config::ExternalSettings;

/// Pages per relevant site over the last pages, and the best it has been.
///
/// Invariant: the window holds the visits that make up the last so many pages, the oldest
/// only as far as it reaches into them.
#[derive(Debug, Clone)]
pub struct RecentPprs {
    window_pages: u64,
    factor: f64,
    visits: VecDeque<(u64, bool)>,
    pages: u64,
    finds: u64,
    best: Option<f64>,
}

impl RecentPprs {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(settings: &ExternalSettings) -> Self {
        Self {
            window_pages: settings.pprs_window as u64,
            factor: settings.pprs_factor,
            visits: VecDeque::new(),
            pages: 0,
            finds: 0,
            best: None,
        }
    }

    /// Adds a visit: the pages it cost, and whether it found a relevant site.
    #[allow(
        clippy::cast_precision_loss,
        reason = "windows have far fewer than 2^53 pages"
    )]
    pub fn add(&mut self, pages: u64, is_find: bool) {
        self.visits.push_back((pages, is_find));
        self.pages += pages;
        self.finds += u64::from(is_find);
        while let Some((oldest, was_find)) = self.visits.front().copied()
            && self.pages - oldest >= self.window_pages
        {
            self.visits.pop_front();
            self.pages -= oldest;
            self.finds -= u64::from(was_find);
        }
        if self.is_full()
            && let Some(now) = self.now()
        {
            self.best = Some(self.best.map_or(now, |best| best.min(now)));
        }
    }

    /// Pages per relevant site in the window; none while there was no find in it.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "windows have far fewer than 2^53 pages"
    )]
    pub fn now(&self) -> Option<f64> {
        (self.finds > 0).then(|| self.pages as f64 / self.finds as f64)
    }

    /// Whether a relevant site has become so many times dearer than it was at best.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "windows have far fewer than 2^53 pages"
    )]
    pub fn is_bad(&self) -> bool {
        let Some(best) = self.best.filter(|_| self.is_full()) else {
            return false;
        };
        // Without any find, one more page might bring the next.
        let now = self.now().unwrap_or(self.pages as f64 + 1.0);
        now > self.factor * best
    }

    fn is_full(&self) -> bool {
        self.pages >= self.window_pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pprs(window: usize, factor: f64) -> RecentPprs {
        RecentPprs::new(&ExternalSettings {
            pprs_window: window,
            pprs_factor: factor,
            ..ExternalSettings::default()
        })
    }

    /// By hand: ten visits of two pages, half of them finds, cost 4 pages for each find.
    #[test]
    fn the_window_holds_the_last_pages() {
        let mut pprs = pprs(20, 3.0);
        for at in 0..10 {
            pprs.add(2, at % 2 == 0);
        }
        assert_eq!(pprs.now(), Some(4.0));
        for _ in 0..5 {
            pprs.add(2, false);
        }
        // Of the last ten visits three were finds: at 6 and 8; and the one at 4 has left.
        assert_eq!(pprs.now(), Some(10.0));
        assert!(!pprs.is_bad(), "2.5 times the best");
        pprs.add(2, false);
        pprs.add(2, false);
        assert!(pprs.is_bad(), "one find in the window: {:?}", pprs.now());
    }

    #[test]
    fn nothing_is_bad_before_the_window_is_full_or_anything_was_found() {
        let mut pprs = pprs(100, 2.0);
        pprs.add(1, true);
        for _ in 0..48 {
            pprs.add(2, false);
        }
        assert!(!pprs.is_bad());
        let mut pprs = self::pprs(10, 2.0);
        for _ in 0..100 {
            pprs.add(2, false);
        }
        assert!(!pprs.is_bad(), "there is no best to compare with");
        assert_eq!(pprs.now(), None);
    }
}
