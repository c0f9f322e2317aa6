//! The share of visits that recheck relevant sites.
//!
//! After a long stop the whole list may be due at once. Finding further sites is what a crawl is
//! for, so three quarters of the visits still go to the border. The share is one of visits and not
//! of slots, so that it also holds with a single slot.

/// One of this many visits may be a recheck while there are border sites.
const ONE_IN: usize = 4;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecheckShare {
    /// Visits since the last recheck that count towards the next. Fewer than [`ONE_IN`]: an unused
    /// share is not saved up, or a quiet month would be followed by a burst.
    left_over: usize,
}

impl RecheckShare {
    /// How many of the next visits may be rechecks.
    pub(super) fn of(self, visits: usize) -> usize {
        (self.left_over + visits) / ONE_IN
    }

    /// Notes visits, and how many of them were rechecks. That may exceed the share if there was nothing
    /// else to visit.
    pub(super) fn note(&mut self, visits: usize, rechecks: usize) {
        let left_over = (self.left_over + visits).saturating_sub(rechecks * ONE_IN);
        self.left_over = left_over.min(ONE_IN - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_visits_are_rechecks_however_many_slots_are_free() {
        for slots in [1, 2, 3, 5, 64] {
            let mut share = RecheckShare::default();
            let (mut visits, mut rechecks) = (0, 0);
            while visits < 4_000 {
                let again = share.of(slots);
                share.note(slots, again);
                visits += slots;
                rechecks += again;
                assert!(rechecks * ONE_IN <= visits, "{slots} slots: {rechecks}");
            }
            assert!(rechecks >= 999, "{slots} slots: {rechecks} of {visits}");
        }
    }

    #[test]
    fn an_unused_share_is_not_saved_up() {
        let mut share = RecheckShare::default();
        share.note(1_000_000, 0);
        assert_eq!(share.of(1), 1);
        share.note(1, 1);
        assert_eq!(share.of(3), 0);
        share.note(64, 64);
        assert_eq!(share.of(3), 0, "an excess is not carried over");
        assert_eq!(share.of(4), 1);
    }
}
