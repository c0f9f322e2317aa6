//! Whether a failed visit is the site's fault or our own.
//!
//! Without a network every site looks dead, and with a wrong clock no certificate is valid: a crawl
//! that believed it would lose its border within the hour. One such visit says nothing about us. So
//! reports of unreachable sites and of expired certificates are held back until the cause is known:
//!
//! | what follows | cause | the visits held |
//! |---|---|---|
//! | another site answers | the sites | recorded as they are |
//! | too many in a row, and the reference site answers | the sites | recorded as they are |
//! | too many in a row, and the reference site fails too, or there is none | ours | put off, not counted |
//!
//! The reference is the site that answered last. Trouble that the fetcher reports by itself (a proxy
//! that is down, no sockets) needs no such test.
//!
//! While there is trouble of our own, one visit at a time is made as a probe: by turns to the
//! reference, which ends the trouble soonest, and to a site of the border, in case the reference has
//! died meanwhile.
//!
//! Invariant: a visit that failed by trouble of our own is not counted against its site.

use std::time::Duration;

use tokio::time::Instant;

use crate::fetch::EXPIRED_CERTIFICATE;
use crate::telemetry::clock;
use crate::web::{PageUrl, Scheme, SiteReport, StepOutcome, Trouble, UndecidedReason};

use super::pool::Ended;

/// Unreachable sites in a row after which the network is suspected. Dead sites are common, so this is
/// far more than chance brings together.
const UNREACHABLE_IN_A_ROW: usize = 16;

/// Expired certificates in a row after which the clock is suspected. They are rare.
const EXPIRED_IN_A_ROW: usize = 8;

/// Reports of the fetcher in a row after which its trouble is believed: one port that was not free is
/// not worth stopping for.
const REPORTED_IN_A_ROW: usize = 3;

/// Labels of failures that a lost network causes.
const NETWORK_FAILURES: [&str; 4] = ["dns_failed", "unreachable", "connect_timeout", "timeout"];

const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Visits are put off for so long whose cause was not waited for.
const SOON: Duration = Duration::from_mins(1);

/// Attributes failed visits.
#[derive(Default)]
pub(super) struct OwnTrouble {
    /// Visits that failed by trouble of our own are put off for so long at least.
    come_back: Duration,
    network: Streak<UNREACHABLE_IN_A_ROW>,
    clock: Streak<EXPIRED_IN_A_ROW>,
    /// What the fetcher reports, and in how many visits in a row.
    reported: Option<(Trouble, usize)>,
    next_probe: Option<Instant>,
    /// Whether the last probe went to the reference.
    was_reference_probed: bool,
    began: Option<Instant>,
    /// When trouble last ended. Visits that began before may have met it.
    ended: Option<Instant>,
    /// The site that answered last, and the last that did so with a valid certificate.
    reference: Option<PageUrl>,
    encrypted_reference: Option<PageUrl>,
}

/// Visits in a row that failed in one way.
#[derive(Default)]
struct Streak<const MOST: usize> {
    held: Vec<Ended>,
    is_ours: bool,
}

/// A visit with the cause of its failure, if it failed.
pub(super) struct Attributed {
    pub(super) ended: Ended,
    /// After how long it is to be made again, if its site is not to blame.
    pub(super) put_off: Option<Duration>,
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
    pub(super) fn new(come_back: Duration) -> Self {
        Self {
            come_back,
            ..Self::default()
        }
    }

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

    /// The reference, if it is to be probed before too many failures in a row are attributed.
    pub(super) fn suspected_by(&self) -> Option<&PageUrl> {
        match self.now() {
            None => self.reference_for(self.network.is_long(), self.clock.is_long()),
            Some(_) => None,
        }
    }

    /// The reference, if the next probe is to go there.
    pub(super) fn reference_to_probe(&mut self) -> Option<PageUrl> {
        let reference = self.reference_for(self.network.is_ours, self.clock.is_ours);
        let reference = reference.cloned().filter(|_| !self.was_reference_probed)?;
        self.note_visit();
        self.was_reference_probed = true;
        Some(reference)
    }

    fn reference_for(&self, is_network: bool, is_clock: bool) -> Option<&PageUrl> {
        let network = self.reference.as_ref().filter(|_| is_network);
        network.or(self.encrypted_reference.as_ref().filter(|_| is_clock))
    }

    /// Takes the report on a visit to the reference. Returns the visits attributed by it.
    pub(super) fn attribute_by_reference(&mut self, report: &SiteReport) -> Vec<Attributed> {
        let before = self.now();
        let put_off = self.put_off();
        let (is_reached, is_valid) = match sign_of(report) {
            Sign::Answered { was_encrypted } => (true, was_encrypted),
            _ => (false, false),
        };
        let mut attributed = match is_reached {
            true => self.network.end(),
            false => self.network.declare(put_off),
        };
        attributed.extend(match is_valid {
            true => self.clock.end(),
            false => self.clock.declare(put_off),
        });
        self.note_change(before);
        attributed
    }

    /// Takes a visit that has ended. Returns the visits whose cause is known by now; the others are
    /// held.
    pub(super) fn attribute(&mut self, ended: Ended) -> Vec<Attributed> {
        let before = self.now();
        let put_off = self.put_off();
        let mut attributed = Vec::new();
        match sign_of(&ended.report) {
            Sign::Answered { was_encrypted } => {
                self.reported = None;
                attributed.extend(self.network.end());
                self.reference = Some(ended.report.entrance.clone());
                if was_encrypted {
                    attributed.extend(self.clock.end());
                    self.encrypted_reference.clone_from(&self.reference);
                }
                attributed.push(ended.by_its_site());
            }
            Sign::Suspicious(_) if self.may_have_met_trouble(&ended.report) => {
                attributed.push(ended.not_by_its_site(put_off));
            }
            Sign::Suspicious(Trouble::Clock) => self.clock.held.push(ended),
            Sign::Suspicious(_) => self.network.held.push(ended),
            Sign::Reported(trouble) => {
                let before = self.reported.filter(|(known, _)| *known == trouble);
                self.reported = Some((trouble, before.map_or(1, |(_, visits)| visits + 1)));
                attributed.push(ended.not_by_its_site(put_off));
            }
            Sign::None => attributed.push(ended.by_its_site()),
        }
        if self.reference.is_none() || self.network.is_ours {
            attributed.extend(self.network.declare(put_off));
        }
        if self.encrypted_reference.is_none() || self.clock.is_ours {
            attributed.extend(self.clock.declare(put_off));
        }
        self.note_change(before);
        attributed
    }

    /// Gives the visits held back as they are: there is no other site to wait for.
    pub(super) fn release(&mut self) -> Vec<Attributed> {
        let held = self.network.held.drain(..).chain(self.clock.held.drain(..));
        held.map(Ended::by_its_site).collect()
    }

    /// Gives the visits held back to be made again: their cause cannot be waited for.
    pub(super) fn give_up(&mut self) -> Vec<Attributed> {
        let put_off = self.come_back.min(SOON);
        let held = self.network.held.drain(..).chain(self.clock.held.drain(..));
        held.map(|ended| ended.not_by_its_site(put_off)).collect()
    }

    /// How long visits are put off that failed by trouble of our own. The longer it lasts, the
    /// longer: else the same few sites would be probed by turns, and one that answers would never
    /// be reached.
    fn put_off(&self) -> Duration {
        let lasts = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        self.come_back.max(lasts)
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
        let after = self.now();
        match (before, after) {
            (None, Some(trouble)) => {
                self.began = Some(Instant::now());
                tracing::error!(
                    trouble = trouble.name(),
                    "{}; sites are put off until then, and none is blamed",
                    trouble.advice()
                );
            }
            (Some(trouble), None) => {
                self.began = None;
                self.ended = Some(Instant::now());
                tracing::info!(trouble = trouble.name(), "the trouble is over");
            }
            _ => {}
        }
    }
}

// === impl Streak ===

impl<const MOST: usize> Streak<MOST> {
    fn is_long(&self) -> bool {
        self.held.len() >= MOST
    }

    /// Attributes the visits to trouble of our own, if they are enough to say so.
    fn declare(&mut self, put_off: Duration) -> Vec<Attributed> {
        self.is_ours |= self.is_long();
        if !self.is_ours {
            return Vec::new();
        }
        let held = self.held.drain(..);
        held.map(|ended| ended.not_by_its_site(put_off)).collect()
    }

    /// Attributes the visits to their sites: nothing is wrong with us.
    fn end(&mut self) -> Vec<Attributed> {
        self.is_ours = false;
        self.held.drain(..).map(Ended::by_its_site).collect()
    }
}

// === impl Ended ===

impl Ended {
    fn by_its_site(self) -> Attributed {
        Attributed {
            ended: self,
            put_off: None,
        }
    }

    fn not_by_its_site(self, put_off: Duration) -> Attributed {
        Attributed {
            ended: self,
            put_off: Some(put_off),
        }
    }
}

fn sign_of(report: &SiteReport) -> Sign {
    let all_failed_by = |labels: &[&str]| {
        let mut outcomes = report.steps.iter().map(|step| &step.outcome);
        let is_one = |outcome: &StepOutcome| match outcome {
            StepOutcome::Unanswered(label) => labels.contains(label),
            _ => false,
        };
        !report.steps.is_empty() && outcomes.all(is_one)
    };
    match report.verdict.undecided_reason() {
        Some(UndecidedReason::Deferred { cause, .. }) if cause.own_trouble().is_some() => {
            return cause.own_trouble().map_or(Sign::None, Sign::Reported);
        }
        Some(UndecidedReason::Unreachable) if all_failed_by(&NETWORK_FAILURES) => {
            return Sign::Suspicious(Trouble::Network);
        }
        Some(UndecidedReason::BadCertificate) if all_failed_by(&[EXPIRED_CERTIFICATE]) => {
            return Sign::Suspicious(Trouble::Clock);
        }
        _ => {}
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
