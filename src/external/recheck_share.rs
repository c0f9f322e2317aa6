//! How many visits look at relevant sites again.
//!
//! After a long stop the whole list may be due at once. To find further sites is what a crawl is
//! for, so that goes on beside it, at three quarters of its pace. The share is one of visits and
//! not of slots: so it holds with one slot, too.

/// Of so many visits, one may look at a site again while others were never seen.
const ONE_IN: usize = 4;

/// Which share of the visits has looked at sites again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecheckShare {
    /// Visits that do not yet make up for another recheck. Fewer than [`ONE_IN`]: what was not
    /// used is not saved up, or a quiet month would be followed by a rush.
    left_over: usize,
}

impl RecheckShare {
    /// How many of the next visits may be rechecks.
    pub(super) fn of(self, visits: usize) -> usize {
        (self.left_over + visits) / ONE_IN
    }

    /// Notes visits, and how many of them were rechecks; more than their share if there was
    /// nothing else to visit.
    pub(super) fn note(&mut self, visits: usize, rechecks: usize) {
        let left_over = (self.left_over + visits).saturating_sub(rechecks * ONE_IN);
        self.left_over = left_over.min(ONE_IN - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_visits_are_rechecks_however_many_seats_are_free() {
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
    fn what_was_not_used_is_not_saved_up() {
        let mut share = RecheckShare::default();
        share.note(1_000_000, 0);
        assert_eq!(share.of(1), 1);
        share.note(1, 1);
        assert_eq!(share.of(3), 0);
        share.note(64, 64);
        assert_eq!(share.of(3), 0, "nor owed");
        assert_eq!(share.of(4), 1);
    }
}
