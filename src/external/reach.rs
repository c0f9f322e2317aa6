//! Whether it is us who cannot reach anybody.
//!
//! Without a network or a name server every site looks dead, and a crawl that believes it
//! would burn its border within an hour. One dead site says nothing about us; many in a row,
//! with nobody answering in between, do.

use crate::web::{SiteReport, StepOutcome, UndecidedReason, Verdict};

/// After so many visits in a row that reached nobody, the fault is taken to be ours.
const OURS_AFTER: usize = 16;

/// What a fault of ours looks like, among the reasons for no answer.
const OF_THE_NETWORK: [&str; 3] = ["dns_failed", "unreachable", "connect_timeout"];

/// How many visits in a row have reached nobody.
#[derive(Debug, Default)]
pub(super) struct Reach {
    in_vain: usize,
}

impl Reach {
    /// Takes notice of a visit, and says whether it failed by a fault that is likely ours.
    pub(super) fn is_cut_off(&mut self, report: &SiteReport) -> bool {
        let is_unreachable = report.verdict == Verdict::Undecided(UndecidedReason::Unreachable);
        let was_network = |step: &StepOutcome| match step {
            StepOutcome::Unanswered(reason) => OF_THE_NETWORK.contains(reason),
            _ => false,
        };
        let mut outcomes = report.steps.iter().map(|step| &step.outcome);
        let reached_nobody = is_unreachable && outcomes.all(was_network);
        let was_cut_off = self.in_vain >= OURS_AFTER;
        self.in_vain = if reached_nobody { self.in_vain + 1 } else { 0 };
        let is_cut_off = self.in_vain >= OURS_AFTER;
        match (was_cut_off, is_cut_off) {
            (false, true) => tracing::error!(
                "nobody can be reached: is there a network, and a name server? Sites are put \
                 off until somebody answers"
            ),
            (true, false) => tracing::info!("somebody answers again"),
            _ => {}
        }
        is_cut_off
    }
}
