//! Whether a failure is the site's or our own.
//!
//! Without a network every site looks dead, and with a wrong clock no certificate is valid: a crawl
//! that believes it would lose its border within the hour. One such site says nothing about us;
//! many in a row, with nobody in between who disproves it, do. So visits that ended in vain are held
//! until it is clear whose fault it was: the first site that answers shows that it was theirs. After
//! too many in a row a witness is asked, the site that answered last: if it is out of reach as well,
//! or if nobody ever answered, the trouble is ours. Trouble that is told by the fetcher (a proxy that
//! is down, no sockets) needs no witness.
//!
//! While there is trouble of our own, one visit at a time goes on as a probe, to the witness if there
//! is one.
//!
//! Invariant: of visits that failed by trouble of our own, none is counted against its site.

use std::time::Duration;

use tokio::time::Instant;

use crate::fetch::EXPIRED_CERTIFICATE;
use crate::telemetry::clock;
use crate::web::{PageUrl, Scheme, SiteReport, StepOutcome, Trouble, UndecidedReason, Verdict};

use super::pool::Ended;

/// After so many visits in a row that reached nobody, the fault is taken to be ours. Dead sites are
/// common, so this is far more than chance brings together.
const UNREACHABLE_IN_A_ROW: usize = 16;

/// The same for certificates that are not yet or no longer valid, which are rare.
const EXPIRED_IN_A_ROW: usize = 8;

/// Trouble that the fetcher tells need not be guessed, but one port that was not free is not worth
/// stopping for.
const TOLD_IN_A_ROW: usize = 3;

/// What a lost network looks like, among the reasons for no answer.
const OF_THE_NETWORK: [&str; 4] = ["dns_failed", "unreachable", "connect_timeout", "timeout"];

/// The time between two probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// What is wrong with us, as far as the visits show it.
#[derive(Default)]
pub(super) struct OwnTrouble {
    network: Streak<UNREACHABLE_IN_A_ROW>,
    clock: Streak<EXPIRED_IN_A_ROW>,
    /// What the fetcher says, and how many visits in a row it has said so.
    told: Option<(Trouble, usize)>,
    next_probe: Option<Instant>,
    /// When trouble was last over. Visits that began before may have met it.
    over: Option<Instant>,
    /// Where somebody answered last, and where somebody did with a valid certificate.
    witness: Option<PageUrl>,
    encrypted_witness: Option<PageUrl>,
}

/// Visits that ended in vain in one way, one after the other.
#[derive(Default)]
struct Streak<const MOST: usize> {
    held: Vec<Ended>,
    is_ours: bool,
}

/// A visit, and whose fault it was that it brought nothing.
pub(super) struct Attributed {
    pub(super) ended: Ended,
    /// Set if it was ours.
    pub(super) trouble: Option<Trouble>,
}

/// What a visit says about us.
enum Sign {
    /// Somebody answered; with a valid certificate, if there was one.
    Answered {
        was_encrypted: bool,
    },
    InVain(Trouble),
    Told(Trouble),
    None,
}

// === impl OwnTrouble ===

impl OwnTrouble {
    /// What is wrong now, if anything is.
    pub(super) fn now(&self) -> Option<Trouble> {
        let network = self.network.is_ours.then_some(Trouble::Network);
        let clock = self.clock.is_ours.then_some(Trouble::Clock);
        let told = self.told.filter(|(_, visits)| *visits >= TOLD_IN_A_ROW);
        told.map(|(trouble, _)| trouble).or(network).or(clock)
    }

    /// When the next probe may be sent, if visits are to be no more than probes.
    pub(super) fn next_probe(&self) -> Option<Instant> {
        self.now().and(self.next_probe)
    }

    /// A visit is sent out.
    pub(super) fn note_visit(&mut self) {
        self.next_probe = Some(Instant::now() + PROBE_INTERVAL);
    }

    /// Whom to ask whether the trouble is ours. None if that is clear, or if nobody is known to ask.
    pub(super) fn witness(&self) -> Option<&PageUrl> {
        let is_network = self.network.is_long() || self.network.is_ours;
        let is_clock = self.clock.is_long() || self.clock.is_ours;
        let network = self.witness.as_ref().filter(|_| is_network);
        network.or(self.encrypted_witness.as_ref().filter(|_| is_clock))
    }

    /// Decides by what became of a visit to the witness.
    pub(super) fn hear(&mut self, report: &SiteReport) -> Vec<Attributed> {
        let before = self.now();
        let mut clear = Vec::new();
        let (is_there, is_valid) = match sign_of(report) {
            Sign::Answered { was_encrypted } => (true, was_encrypted),
            _ => (false, false),
        };
        clear.extend(match is_there {
            true => self.network.end(),
            false => self.network.declare(Trouble::Network),
        });
        clear.extend(match is_valid {
            true => self.clock.end(),
            false => self.clock.declare(Trouble::Clock),
        });
        self.note_change(before);
        clear
    }

    /// Without a witness too many visits in vain speak for themselves.
    pub(super) fn decide_alone(&mut self) -> Vec<Attributed> {
        let before = self.now();
        let mut clear = Vec::new();
        if self.witness.is_none() {
            clear.extend(self.network.declare(Trouble::Network));
        }
        if self.encrypted_witness.is_none() {
            clear.extend(self.clock.declare(Trouble::Clock));
        }
        self.note_change(before);
        clear
    }

    fn note_change(&mut self, before: Option<Trouble>) {
        if self.clock.is_ours {
            // The time believed so far is wrong; whoever sets the clock right is to be believed.
            clock::trust_system();
        }
        if before.is_some() && self.now().is_none() {
            self.over = Some(Instant::now());
        }
        tell_change(before, self.now());
    }

    /// Takes a visit that has ended. Returns those that are clear by now; the others are held.
    pub(super) fn attribute(&mut self, ended: Ended) -> Vec<Attributed> {
        let before = self.now();
        let mut clear = Vec::new();
        match sign_of(&ended.report) {
            Sign::Answered { was_encrypted } => {
                self.told = None;
                clear.extend(self.network.end());
                self.witness = Some(ended.report.entrance.clone());
                if was_encrypted {
                    clear.extend(self.clock.end());
                    self.encrypted_witness.clone_from(&self.witness);
                }
                clear.push(ended.by_its_site());
            }
            Sign::InVain(trouble) if self.may_have_met(&ended.report) => {
                clear.push(ended.by_us(trouble));
            }
            Sign::InVain(trouble) => clear.extend(match trouble {
                Trouble::Clock => self.clock.add(ended, trouble),
                _ => self.network.add(ended, trouble),
            }),
            Sign::Told(trouble) => {
                let before = self.told.filter(|(told, _)| *told == trouble);
                self.told = Some((trouble, before.map_or(1, |(_, visits)| visits + 1)));
                clear.push(ended.by_us(trouble));
            }
            Sign::None => clear.push(ended.by_its_site()),
        }
        self.note_change(before);
        clear
    }

    /// Whether a visit began before trouble was over that is no more.
    fn may_have_met(&self, report: &SiteReport) -> bool {
        let began = Instant::now().checked_sub(report.cost.duration);
        self.now().is_none()
            && self
                .over
                .zip(began)
                .is_some_and(|(over, began)| began < over)
    }

    /// Nobody else is left who could show whose fault it was: the sites are taken to be dead.
    pub(super) fn release(&mut self) -> Vec<Attributed> {
        let held = self.network.held.drain(..).chain(self.clock.held.drain(..));
        held.map(Ended::by_its_site).collect()
    }

    /// It cannot be waited for: the visits are to be made again.
    pub(super) fn give_up(&mut self) -> Vec<Attributed> {
        let network = self.network.held.drain(..);
        let network = network.map(|ended| ended.by_us(Trouble::Network));
        let clock = self.clock.held.drain(..);
        let clock = clock.map(|ended| ended.by_us(Trouble::Clock));
        network.chain(clock).collect()
    }
}

// === impl Streak ===

impl<const MOST: usize> Streak<MOST> {
    /// Another visit in vain.
    fn add(&mut self, ended: Ended, trouble: Trouble) -> Vec<Attributed> {
        self.held.push(ended);
        match self.is_ours {
            true => self.declare(trouble),
            false => Vec::new(),
        }
    }

    /// Whether so many ended in vain that somebody has to be asked.
    fn is_long(&self) -> bool {
        self.held.len() >= MOST
    }

    /// It is ours, if enough visits say so.
    fn declare(&mut self, trouble: Trouble) -> Vec<Attributed> {
        self.is_ours |= self.is_long();
        if !self.is_ours {
            return Vec::new();
        }
        let held = self.held.drain(..);
        held.map(|held| held.by_us(trouble)).collect()
    }

    /// Somebody has shown that nothing is wrong with us.
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
            trouble: None,
        }
    }

    fn by_us(self, trouble: Trouble) -> Attributed {
        Attributed {
            ended: self,
            trouble: Some(trouble),
        }
    }
}

fn sign_of(report: &SiteReport) -> Sign {
    if let Verdict::Undecided(UndecidedReason::Deferred { cause, .. }) = report.verdict
        && let Some(trouble) = cause.own_trouble()
    {
        return Sign::Told(trouble);
    }
    let unanswered = |outcome: &StepOutcome| match outcome {
        StepOutcome::Unanswered(reason) => Some(*reason),
        _ => None,
    };
    let all_are = |reasons: &[&str]| {
        let outcomes = report.steps.iter().map(|step| unanswered(&step.outcome));
        let mut reasons = outcomes.map(|found| found.is_some_and(|found| reasons.contains(&found)));
        !report.steps.is_empty() && reasons.all(|is_one| is_one)
    };
    match report.verdict {
        Verdict::Undecided(UndecidedReason::Unreachable) if all_are(&OF_THE_NETWORK) => {
            return Sign::InVain(Trouble::Network);
        }
        Verdict::Undecided(UndecidedReason::BadCertificate) if all_are(&[EXPIRED_CERTIFICATE]) => {
            return Sign::InVain(Trouble::Clock);
        }
        _ => {}
    }
    // What a site answered before the line broke says nothing about the line as it is now.
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

fn tell_change(before: Option<Trouble>, after: Option<Trouble>) {
    match (before, after) {
        (None, Some(trouble)) => tracing::error!(
            trouble = trouble.name(),
            "{}; sites are put off until then, and none is blamed",
            trouble.advice()
        ),
        (Some(trouble), None) => {
            tracing::info!(trouble = trouble.name(), "the trouble is over");
        }
        _ => {}
    }
}
