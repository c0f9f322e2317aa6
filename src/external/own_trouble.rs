//! Whether a failed visit is the site's fault or our own.
//!
//! Without a network every site looks dead, and with a wrong clock no certificate is valid: a crawl
//! that believed it would lose its border within the hour. One such visit says nothing about us. So
//! reports of unreachable sites and of expired certificates are held back until the cause is known:
//!
//! | what follows | cause | the visits held |
//! |---|---|---|
//! | another site answers | the sites | recorded as they are |
//! | too many in a row, or no site is left, and the reference answers | the sites | recorded as they are |
//! | the same, and the reference fails too | ours | made again when the trouble is over |
//! | too many in a row, and there is no reference | ours | made again when the trouble is over |
//! | no site is left, and there is no reference | unknown | deferred, which counts |
//!
//! The reference is the site that answered last. Trouble that the fetcher reports by itself (a proxy
//! that is down, no sockets) needs no such test.
//!
//! While there is trouble of our own, one visit at a time is made as a probe: by turns to the
//! reference, which ends the trouble soonest, and to a site of the border or one that is held, in
//! case the reference has died meanwhile.
//!
//! Invariant: a visit that failed by trouble of our own is not counted against its site.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::{Claim, ClaimedSite};
use crate::telemetry::clock;
use crate::verdicts::Retry;
use crate::web::{NoAnswer, PageUrl, Scheme, SiteReport, StepOutcome, Trouble, UndecidedReason};

use super::pool::Ended;

/// Unreachable sites in a row after which the network is suspected. Dead sites are common, so this
/// is far more than chance brings together.
const UNREACHABLE_IN_A_ROW: usize = 16;

/// Expired certificates in a row after which the clock is suspected. They are rare.
const EXPIRED_IN_A_ROW: usize = 8;

/// Reports of the fetcher in a row after which its trouble is believed: one port that was not free
/// is not worth stopping for.
const REPORTED_IN_A_ROW: usize = 3;

/// Failures that a lost network causes.
const NETWORK_FAILURES: [NoAnswer; 4] = [
    NoAnswer::DnsFailed,
    NoAnswer::Unreachable,
    NoAnswer::ConnectTimeout,
    NoAnswer::Timeout,
];

const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// While so many visits are held, probes go to their sites and no longer to the border.
const MOST_HELD: usize = 256;

/// Sites that answered, of which one may serve as the reference.
const REFERENCES: usize = 4;

/// Visits are made again after so long whose cause was not waited for.
const SOON: Duration = Duration::from_mins(1);

/// Attributes failed visits.
#[derive(Default)]
pub(super) struct OwnTrouble {
    network: Streak<UNREACHABLE_IN_A_ROW>,
    clock: Streak<EXPIRED_IN_A_ROW>,
    /// What the fetcher reports, and in how many visits in a row.
    reported: Option<(Trouble, usize)>,
    next_probe: Option<Instant>,
    /// Whether the last probe went to the reference.
    was_reference_probed: bool,
    /// When trouble last ended. Visits that began before may have met it.
    ended: Option<Instant>,
    /// Sites that answered, the last one first.
    references: VecDeque<Reference>,
}

struct Reference {
    entrance: PageUrl,
    /// Whether it showed a valid certificate.
    is_encrypted: bool,
}

/// Visits in a row that failed in one way.
#[derive(Default)]
struct Streak<const LONG: usize> {
    held: VecDeque<Ended>,
    is_ours: bool,
}

/// A visit with the cause of its failure, if it failed.
pub(super) struct Attributed {
    pub(super) ended: Ended,
    /// How it is to be made again, if it says nothing about its site.
    pub(super) retry: Option<Retry>,
}

/// What to visit while there is trouble.
pub(super) enum Probe {
    Reference(PageUrl),
    /// A site of the border; if there is none, one that is held.
    Border,
    Held(ClaimedSite),
}

/// What a report says about network, clock and fetcher.
enum Sign {
    /// The site answered; over TLS, if so with a valid certificate.
    Answered {
        was_encrypted: bool,
    },
    /// The site failed as it would if this were wrong.
    Suspicious(Trouble),
    /// The fetcher reports that this is wrong.
    Reported(Trouble),
    None,
}

// === impl OwnTrouble ===

impl OwnTrouble {
    /// The trouble there is now.
    pub(super) fn now(&self) -> Option<Trouble> {
        let network = self.network.is_ours.then_some(Trouble::Network);
        let clock = self.clock.is_ours.then_some(Trouble::Clock);
        let believed = |(_, visits): &(Trouble, usize)| *visits >= REPORTED_IN_A_ROW;
        let reported = self.reported.filter(believed).map(|(trouble, _)| trouble);
        reported.or(network).or(clock)
    }

    /// When the next probe may be made; none without trouble.
    pub(super) fn next_probe(&self) -> Option<Instant> {
        self.now().and(self.next_probe)
    }

    /// Notes that a visit begins.
    pub(super) fn note_visit(&mut self) {
        self.next_probe = Some(Instant::now() + PROBE_INTERVAL);
        self.was_reference_probed = false;
    }

    /// What to visit next; none without trouble.
    pub(super) fn probe(&mut self) -> Option<Probe> {
        let trouble = self.now()?;
        if let Some(reference) = self.reference_for(trouble).cloned()
            && !self.was_reference_probed
        {
            self.note_visit();
            self.was_reference_probed = true;
            return Some(Probe::Reference(reference));
        }
        if self.network.held.len() + self.clock.held.len() < MOST_HELD {
            return Some(Probe::Border);
        }
        self.probe_held().map(Probe::Held)
    }

    /// A site of the visits held, to be visited again.
    pub(super) fn probe_held(&mut self) -> Option<ClaimedSite> {
        let network = self.network.held.pop_front();
        let ended = network.or_else(|| self.clock.held.pop_front());
        if ended.is_some() || !self.references.is_empty() {
            self.note_visit();
        }
        ended.map(|ended| ended.taken)
    }

    /// The reference, if it is to be visited before failures are attributed: if there are too many
    /// in a row, or if no other site is left.
    pub(super) fn reference_to_ask(&self, is_last: bool) -> Option<&PageUrl> {
        let is_asked = |is_long: bool, held: usize| is_long || (is_last && held > 0);
        let is_network = is_asked(self.network.is_long(), self.network.held.len());
        let is_clock = is_asked(self.clock.is_long(), self.clock.held.len());
        match self.now() {
            None if is_network => self.reference_for(Trouble::Network),
            None if is_clock => self.reference_for(Trouble::Clock),
            _ => None,
        }
    }

    fn reference_for(&self, trouble: Trouble) -> Option<&PageUrl> {
        let mut references = self.references.iter();
        let reference = match trouble {
            Trouble::Clock => references.find(|reference| reference.is_encrypted),
            _ => references.next(),
        };
        reference.map(|reference| &reference.entrance)
    }

    /// Takes the report on a visit to the reference. Returns the visits attributed by it.
    pub(super) fn attribute_by_reference(&mut self, report: &SiteReport) -> Vec<Attributed> {
        let before = self.now();
        let mut attributed = Vec::new();
        let mut is_told = true;
        match sign_of(report) {
            Sign::Answered { was_encrypted } => {
                self.reported = None;
                attributed.extend(self.network.end());
                if was_encrypted {
                    attributed.extend(self.clock.end());
                } else {
                    is_told = self.clock.held.is_empty();
                }
            }
            Sign::Suspicious(Trouble::Clock) => {
                attributed.extend(self.network.end());
                is_told = self.clock.declare();
            }
            Sign::Suspicious(_) => is_told = self.network.declare(),
            Sign::Reported(trouble) => self.note_reported(trouble),
            Sign::None => is_told = false,
        }
        if !is_told && self.now().is_none() {
            // Another one has to say it.
            let is_other = |reference: &Reference| reference.entrance != report.entrance;
            self.references.retain(is_other);
        }
        self.note_change(before);
        attributed
    }

    /// Takes a visit that has ended. Returns the visits whose cause is known by now; the others are
    /// held.
    pub(super) fn attribute(&mut self, ended: Ended) -> Vec<Attributed> {
        let before = self.now();
        let mut attributed = Vec::new();
        match sign_of(&ended.report) {
            Sign::Answered { was_encrypted } => {
                self.reported = None;
                attributed.extend(self.network.end());
                if was_encrypted {
                    attributed.extend(self.clock.end());
                }
                self.keep_as_reference(&ended.report, was_encrypted);
                attributed.push(ended.counted());
            }
            Sign::Suspicious(_) if self.may_have_met_trouble(&ended.report) => {
                attributed.push(ended.made_again(Retry::InPlace));
            }
            Sign::Suspicious(Trouble::Clock) => self.clock.held.push_back(ended),
            Sign::Suspicious(_) => self.network.held.push_back(ended),
            Sign::Reported(trouble) => {
                self.note_reported(trouble);
                attributed.push(ended.counted());
            }
            Sign::None => attributed.push(ended.counted()),
        }
        if self.network.is_long() && self.reference_for(Trouble::Network).is_none() {
            self.network.declare();
        }
        if self.clock.is_long() && self.reference_for(Trouble::Clock).is_none() {
            self.clock.declare();
        }
        self.note_change(before);
        attributed
    }

    /// Gives the visits held as they are to be recorded when there is no other site to wait for, and
    /// no reference to ask.
    pub(super) fn release(&mut self) -> Vec<Attributed> {
        let held = self.drain_held();
        if !held.is_empty() {
            tracing::warn!(
                sites = held.len(),
                "these sites cannot be reached, and no other site has answered; is there a network? \
                 they are visited again later"
            );
        }
        let retry = |ended: Ended| ended.made_again(Retry::Deferred);
        held.into_iter().map(retry).collect()
    }

    /// Gives the visits held to be made again, because the store waits for them. In trouble it has
    /// to wait.
    pub(super) fn let_go(&mut self) -> Vec<Attributed> {
        if self.now().is_some() {
            return Vec::new();
        }
        let retry = |ended: Ended| ended.made_again(Retry::After(SOON));
        self.drain_held().into_iter().map(retry).collect()
    }

    /// Gives the visits held to be made again by the next crawl.
    pub(super) fn give_up(&mut self) -> Vec<Attributed> {
        let retry = |ended: Ended| ended.made_again(Retry::InPlace);
        self.drain_held().into_iter().map(retry).collect()
    }

    /// The claims on the sites whose visits are held.
    pub(super) fn claims(&self) -> impl Iterator<Item = Claim> {
        let held = self.network.held.iter().chain(&self.clock.held);
        held.map(|ended| ended.taken.claim.clone())
    }

    fn drain_held(&mut self) -> Vec<Ended> {
        let network = self.network.held.drain(..);
        network.chain(self.clock.held.drain(..)).collect()
    }

    fn keep_as_reference(&mut self, report: &SiteReport, is_encrypted: bool) {
        let is_put_off = matches!(
            report.verdict.undecided_reason(),
            Some(UndecidedReason::Deferred { .. })
        );
        // One that asks to be left alone for a while cannot be asked.
        if is_put_off {
            return;
        }
        self.references
            .retain(|reference| reference.entrance != report.entrance);
        self.references.truncate(REFERENCES - 1);
        self.references.push_front(Reference {
            entrance: report.entrance.clone(),
            is_encrypted,
        });
    }

    fn note_reported(&mut self, trouble: Trouble) {
        let before = self.reported.filter(|(known, _)| *known == trouble);
        self.reported = Some((trouble, before.map_or(1, |(_, visits)| visits + 1)));
    }

    /// Whether a visit began before the last trouble ended.
    fn may_have_met_trouble(&self, report: &SiteReport) -> bool {
        let began = Instant::now().checked_sub(report.cost.duration);
        let is_over = self.now().is_none();
        is_over && matches!((self.ended, began), (Some(end), Some(began)) if began < end)
    }

    fn note_change(&mut self, before: Option<Trouble>) {
        if self.clock.is_ours {
            // The time believed so far is wrong, so a correction of the clock is to be followed.
            clock::trust_system();
        }
        match (before, self.now()) {
            (None, Some(trouble)) => tracing::error!(
                trouble = trouble.name(),
                "{}; sites are put off until then, and none is blamed",
                trouble.advice()
            ),
            (Some(trouble), None) => {
                self.ended = Some(Instant::now());
                tracing::info!(trouble = trouble.name(), "the trouble is over");
            }
            _ => {}
        }
    }
}

// === impl Streak ===

impl<const LONG: usize> Streak<LONG> {
    fn is_long(&self) -> bool {
        self.held.len() >= LONG
    }

    /// Attributes the visits to trouble of our own; says whether there are any.
    fn declare(&mut self) -> bool {
        self.is_ours |= !self.held.is_empty();
        self.is_ours
    }

    /// Nothing of this kind is wrong with us, or no longer.
    fn end(&mut self) -> Vec<Attributed> {
        let was_ours = std::mem::take(&mut self.is_ours);
        let attribute = |ended: Ended| {
            if was_ours {
                ended.made_again(Retry::InPlace)
            } else {
                ended.counted()
            }
        };
        self.held.drain(..).map(attribute).collect()
    }
}

// === impl Ended ===

impl Ended {
    fn counted(self) -> Attributed {
        Attributed {
            ended: self,
            retry: None,
        }
    }

    fn made_again(self, retry: Retry) -> Attributed {
        Attributed {
            ended: self,
            retry: Some(retry),
        }
    }
}

fn sign_of(report: &SiteReport) -> Sign {
    let reason = report.verdict.undecided_reason();
    if let Some(UndecidedReason::Deferred { cause, .. }) = reason
        && let Some(trouble) = cause.own_trouble()
    {
        return Sign::Reported(trouble);
    }
    let is_failure = matches!(
        reason,
        Some(
            UndecidedReason::Unreachable
                | UndecidedReason::Failing
                | UndecidedReason::BadCertificate
        )
    );
    let outcomes = report.steps.iter().map(|step| &step.outcome);
    if is_failure {
        let failed_by = |outcome: &StepOutcome, reasons: &[NoAnswer]| match outcome {
            StepOutcome::Unanswered(reason) => reasons.contains(reason),
            _ => false,
        };
        let is_lost = |outcome: &StepOutcome| failed_by(outcome, &NETWORK_FAILURES);
        // A name server may know without a network that a name does not exist.
        let may_be_lost =
            |outcome: &StepOutcome| is_lost(outcome) || failed_by(outcome, &[NoAnswer::NoHost]);
        if outcomes.clone().all(may_be_lost) && outcomes.clone().any(is_lost) {
            return Sign::Suspicious(Trouble::Network);
        }
        // A redirect to the encrypted site is an answer that no clock spoils.
        let is_no_page = |outcome: &StepOutcome| {
            matches!(
                outcome,
                StepOutcome::Unanswered(_) | StepOutcome::Redirect(_)
            )
        };
        let is_expired =
            |outcome: &StepOutcome| failed_by(outcome, &[NoAnswer::ExpiredCertificate]);
        if outcomes.clone().all(is_no_page) && outcomes.clone().any(is_expired) {
            return Sign::Suspicious(Trouble::Clock);
        }
    }
    // An answer before the connection was lost says nothing about the network as it is now.
    match report.steps.last() {
        Some(step) if is_answer(&step.outcome) => Sign::Answered {
            was_encrypted: step.url.scheme() == Scheme::Https,
        },
        _ => Sign::None,
    }
}

fn is_answer(outcome: &StepOutcome) -> bool {
    !matches!(
        outcome,
        StepOutcome::Unanswered(_) | StepOutcome::Disallowed
    )
}
