//! Whether a failed visit is due to the site or to a local failure.
//!
//! Without a network every site looks dead, and with a wrong clock no certificate is valid: a crawl
//! that took this for the sites' state would lose its border within the hour. A single failed visit
//! does not tell the two apart. So reports of unreachable sites and of expired certificates are held
//! until the cause is known:
//!
//! | what follows | cause | the visits held |
//! |---|---|---|
//! | another site answers | the sites | recorded as they are |
//! | too many in a row, or no site is left, and the reference answers | the sites | recorded as they are |
//! | the same, and the reference fails too | local | repeated when the failure is over |
//! | too many in a row, and there is no reference | local | repeated when the failure is over |
//! | no site is left, and there is no reference | unknown | deferred, which counts |
//!
//! The reference is the site that answered last. Failures that the fetcher reports itself (a proxy
//! that is down, no sockets) need no such test.
//!
//! During a local failure, one visit at a time is made as a probe: alternately to the reference,
//! which detects the end soonest, and to a border site or one that is held, in case the reference
//! has died meanwhile.
//!
//! Invariant: a visit that failed because of a local failure is not counted against its site.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::{Claim, ClaimedSite};
use crate::telemetry::clock;
use crate::verdicts::Retry;
use crate::web::{NoAnswer, PageUrl, Scheme, SiteReport, StepOutcome, Trouble, UndecidedReason};

use super::pool::Ended;

/// Unreachable sites in a row after which the network is suspected. Dead sites are common; this many
/// in a row by chance are not.
const UNREACHABLE_IN_A_ROW: usize = 16;

/// Expired certificates in a row after which the clock is suspected. They are rare.
const EXPIRED_IN_A_ROW: usize = 8;

/// Failures reported by the fetcher in a row after which the crawl stops: a single port that was not
/// free is no reason.
const REPORTED_IN_A_ROW: usize = 3;

/// Failures that a lost network causes.
const NETWORK_FAILURES: [NoAnswer; 4] = [
    NoAnswer::DnsFailed,
    NoAnswer::Unreachable,
    NoAnswer::ConnectTimeout,
    NoAnswer::Timeout,
];

const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// While this many visits are held, probes go to their sites and no longer to the border.
const MAX_HELD: usize = 256;

/// Number of sites kept as possible references.
const MAX_REFERENCES: usize = 4;

/// Delay before a visit is repeated whose cause could not be waited for.
const POSTPONED_BY: Duration = Duration::from_mins(1);

/// Attributes failed visits to their sites or to local failures.
#[derive(Default)]
pub(super) struct OwnTrouble {
    network: Streak<UNREACHABLE_IN_A_ROW>,
    clock: Streak<EXPIRED_IN_A_ROW>,
    /// The failure reported by the fetcher, and in how many visits in a row.
    reported: Option<(Trouble, usize)>,
    next_probe: Option<Instant>,
    /// Whether the last probe went to the reference.
    was_reference_probed: bool,
    /// When the last local failure ended. Visits that began before may have met it.
    ended: Option<Instant>,
    /// Sites that answered, the most recent first.
    references: VecDeque<Reference>,
}

struct Reference {
    entrance: PageUrl,
    /// Whether it presented a valid certificate.
    is_encrypted: bool,
}

/// Visits in a row that failed in the same way.
#[derive(Default)]
struct Streak<const LONG: usize> {
    held: VecDeque<Ended>,
    is_local: bool,
}

/// A visit with the cause of its failure, if it failed.
pub(super) struct Attributed {
    pub(super) ended: Ended,
    /// How it is repeated, if the failure was not the site's.
    pub(super) retry: Option<Retry>,
}

/// What to visit during a local failure.
pub(super) enum Probe {
    Reference(PageUrl),
    /// A site of the border; if there is none, one that is held.
    Border,
    Held(ClaimedSite),
}

/// What a report indicates about network, clock and fetcher.
enum Sign {
    /// The site answered; if encrypted, with a valid certificate.
    Answered {
        was_encrypted: bool,
    },
    /// The site failed as it would during this failure.
    Suspicious(Trouble),
    /// The fetcher reports this failure.
    Reported(Trouble),
    None,
}

// === impl OwnTrouble ===

impl OwnTrouble {
    /// The current local failure.
    pub(super) fn now(&self) -> Option<Trouble> {
        let network = self.network.is_local.then_some(Trouble::Network);
        let clock = self.clock.is_local.then_some(Trouble::Clock);
        let is_confirmed = |(_, visits): &(Trouble, usize)| *visits >= REPORTED_IN_A_ROW;
        let reported = self
            .reported
            .filter(is_confirmed)
            .map(|(trouble, _)| trouble);
        reported.or(network).or(clock)
    }

    /// When the next probe may be made; none without a local failure.
    pub(super) fn next_probe(&self) -> Option<Instant> {
        self.now().and(self.next_probe)
    }

    /// Notes that a visit begins.
    pub(super) fn note_visit(&mut self) {
        self.next_probe = Some(Instant::now() + PROBE_INTERVAL);
        self.was_reference_probed = false;
    }

    /// What to visit next; none without a local failure.
    pub(super) fn probe(&mut self) -> Option<Probe> {
        let trouble = self.now()?;
        if let Some(reference) = self.reference_for(trouble).cloned()
            && !self.was_reference_probed
        {
            self.note_visit();
            self.was_reference_probed = true;
            return Some(Probe::Reference(reference));
        }
        if self.network.held.len() + self.clock.held.len() < MAX_HELD {
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

    /// The reference, if it is to be visited before failures are attributed: after too many in a row,
    /// or if no other site is left.
    pub(super) fn reference_to_probe(&self, is_last: bool) -> Option<&PageUrl> {
        let is_needed = |is_long: bool, held: usize| is_long || (is_last && held > 0);
        let is_network = is_needed(self.network.is_long(), self.network.held.len());
        let is_clock = is_needed(self.clock.is_long(), self.clock.held.len());
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

    /// Takes the report on the reference. Returns the visits attributed by it.
    pub(super) fn attribute_by_reference(&mut self, report: &SiteReport) -> Vec<Attributed> {
        let before = self.now();
        let mut attributed = Vec::new();
        let mut is_conclusive = true;
        match sign_of(report) {
            Sign::Answered { was_encrypted } => {
                self.reported = None;
                attributed.extend(self.network.end());
                if was_encrypted {
                    attributed.extend(self.clock.end());
                } else {
                    is_conclusive = self.clock.held.is_empty();
                }
            }
            Sign::Suspicious(Trouble::Clock) => {
                attributed.extend(self.network.end());
                is_conclusive = self.clock.declare();
            }
            Sign::Suspicious(_) => is_conclusive = self.network.declare(),
            Sign::Reported(trouble) => self.note_reported(trouble),
            Sign::None => is_conclusive = false,
        }
        if !is_conclusive && self.now().is_none() {
            // Another reference is needed.
            let is_other = |reference: &Reference| reference.entrance != report.entrance;
            self.references.retain(is_other);
        }
        self.note_change(before);
        attributed
    }

    /// Takes a visit that has ended. Returns the visits whose cause is known by now; the others
    /// remain held.
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
                attributed.push(ended.repeated(Retry::InPlace));
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

    /// Returns the visits held as deferred, when there is neither another site to wait for nor a
    /// reference to probe.
    pub(super) fn release(&mut self) -> Vec<Attributed> {
        let held = self.drain_held();
        if !held.is_empty() {
            tracing::warn!(
                sites = held.len(),
                "these sites cannot be reached, and no other site has answered; is there a network? \
                 they are deferred"
            );
        }
        let retry = |ended: Ended| ended.repeated(Retry::Deferred);
        held.into_iter().map(retry).collect()
    }

    /// Returns the visits held, to be repeated later, because the store waits for them. During a local
    /// failure it has to wait.
    pub(super) fn postpone(&mut self) -> Vec<Attributed> {
        if self.now().is_some() {
            return Vec::new();
        }
        let retry = |ended: Ended| ended.repeated(Retry::After(POSTPONED_BY));
        self.drain_held().into_iter().map(retry).collect()
    }

    /// Returns the visits held, to be repeated by the next crawl.
    pub(super) fn put_back(&mut self) -> Vec<Attributed> {
        let retry = |ended: Ended| ended.repeated(Retry::InPlace);
        self.drain_held().into_iter().map(retry).collect()
    }

    /// The claims on the sites whose visits are held.
    pub(super) fn claims(&self) -> impl Iterator<Item = Claim> {
        let held = self.network.held.iter().chain(&self.clock.held);
        held.map(|ended| ended.taken.claim.clone())
    }

    /// Drops the visits held whose claims do not have these numbers: their reports would be stale.
    pub(super) fn keep_only(&mut self, claims: &BTreeSet<u64>) {
        let is_kept = |ended: &Ended| claims.contains(&ended.taken.claim.number);
        self.network.held.retain(is_kept);
        self.clock.held.retain(is_kept);
    }

    fn drain_held(&mut self) -> Vec<Ended> {
        let network = self.network.held.drain(..);
        network.chain(self.clock.held.drain(..)).collect()
    }

    fn keep_as_reference(&mut self, report: &SiteReport, is_encrypted: bool) {
        let is_deferred = matches!(
            report.verdict.undecided_reason(),
            Some(UndecidedReason::Deferred { .. })
        );
        // A deferred site must not be probed.
        if is_deferred {
            return;
        }
        self.references
            .retain(|reference| reference.entrance != report.entrance);
        self.references.truncate(MAX_REFERENCES - 1);
        self.references.push_front(Reference {
            entrance: report.entrance.clone(),
            is_encrypted,
        });
    }

    fn note_reported(&mut self, trouble: Trouble) {
        let before = self.reported.filter(|(known, _)| *known == trouble);
        self.reported = Some((trouble, before.map_or(1, |(_, visits)| visits + 1)));
    }

    /// Whether a visit began before the last local failure ended.
    fn may_have_met_trouble(&self, report: &SiteReport) -> bool {
        let began = Instant::now().checked_sub(report.cost.duration);
        let is_over = self.now().is_none();
        is_over && matches!((self.ended, began), (Some(end), Some(began)) if began < end)
    }

    fn note_change(&mut self, before: Option<Trouble>) {
        if self.clock.is_local {
            // The time assumed so far is wrong, so follow the system clock once it is corrected.
            clock::trust_system();
        }
        match (before, self.now()) {
            (None, Some(trouble)) => tracing::error!(
                trouble = trouble.name(),
                "{}; crawling is paused until this is fixed, and failed visits are repeated",
                trouble.advice()
            ),
            (Some(trouble), None) => {
                self.ended = Some(Instant::now());
                tracing::info!(trouble = trouble.name(), "the local failure is over");
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

    /// Attributes the visits to a local failure. Returns whether there are any.
    fn declare(&mut self) -> bool {
        self.is_local |= !self.held.is_empty();
        self.is_local
    }

    /// There is no local failure of this kind, or no longer.
    fn end(&mut self) -> Vec<Attributed> {
        let was_local = std::mem::take(&mut self.is_local);
        let attribute = |ended: Ended| {
            if was_local {
                ended.repeated(Retry::InPlace)
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

    fn repeated(self, retry: Retry) -> Attributed {
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
        // A resolver may answer from its cache that a name does not exist.
        let may_be_lost =
            |outcome: &StepOutcome| is_lost(outcome) || failed_by(outcome, &[NoAnswer::NoHost]);
        if outcomes.clone().all(may_be_lost) && outcomes.clone().any(is_lost) {
            return Sign::Suspicious(Trouble::Network);
        }
        // A redirect to HTTPS does not depend on the clock.
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
    // A response before the connection was lost does not show that the network works now.
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
