//! What a visit has found out about its site so far.
//!
//! Invariant: once the evidence is final, verdict and confidence do not change; steps, links and cost
//! grow until the visit ends.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use http::StatusCode;
use tokio::time::Instant;

use crate::classify::{EvidenceStanding, JudgedPage, SiteEvidence, SiteModel};
use crate::config::InternalSettings;
use crate::fetch::FetchError;
use crate::web::{
    DeferralCause, FetchedPage, Fingerprint, FoundLink, PageConfidence, PageStep, PageUrl,
    ParsedPage, SiteConfidence, SiteReport, SiteVisit, StepOutcome, StopReason, TellingWords,
    TransversalLink, UndecidedReason, Verdict, VisitCost, shared_address,
};

use super::page_frontier::Candidate;

/// Maximum number of links to other sites in a report; real sites stay far below.
const MAX_FOUND_LINKS: usize = 10_000;

/// Maximum total length of their URLs and anchor texts.
const MAX_FOUND_BYTES: usize = 1 << 20;

pub(super) struct SiteSample {
    visit: SiteVisit,
    model: Arc<SiteModel>,
    settings: InternalSettings,
    evidence: SiteEvidence,
    /// The evidence of a verdict that nothing changes any more.
    frozen: Option<SiteEvidence>,
    /// The verdict that stands; none while more pages are needed.
    reached: Option<ReachedVerdict>,
    /// Σ linkWeight over the pages read.
    link_weights: f64,
    steps: Vec<PageStep>,
    links: Vec<FoundLink>,
    /// Total length of the URLs and anchor texts of `links`.
    link_bytes: usize,
    /// Fingerprints of the pages that spoke.
    spoken: Vec<Fingerprint>,
    /// Fingerprints of all pages with words.
    fingerprints: Vec<Fingerprint>,
    /// Whether any response was other than an error.
    was_read: bool,
    /// Whether a gatekeeper answered instead of the site.
    was_challenged: bool,
    failures_in_a_row: usize,
    /// Where a later visit should enter.
    entrance: PageUrl,
    address: Option<IpAddr>,
    alias_of: Option<PageUrl>,
    /// Until when the visit is deferred, and why.
    deferral: Option<(SystemTime, DeferralCause)>,
    noindex: bool,
    cost: VisitCost,
    started: Instant,
}

/// A verdict, and since when it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ReachedVerdict {
    is_for_target: bool,
    /// After how many steps it was reached.
    after: usize,
}

// === impl SiteSample ===

impl SiteSample {
    pub(super) fn new(visit: SiteVisit, model: Arc<SiteModel>, settings: InternalSettings) -> Self {
        Self {
            evidence: model.evidence_of(&visit.site, visit.evidence_rule, visit.prior),
            entrance: visit.entry.clone(),
            visit,
            model,
            settings,
            frozen: None,
            reached: None,
            link_weights: 0.0,
            steps: Vec::new(),
            links: Vec::new(),
            link_bytes: 0,
            spoken: Vec::new(),
            fingerprints: Vec::new(),
            was_read: false,
            was_challenged: false,
            failures_in_a_row: 0,
            address: None,
            alias_of: None,
            deferral: None,
            noindex: false,
            cost: VisitCost::default(),
            started: Instant::now(),
        }
    }

    /// Requests, answered or not, and pages that robots.txt disallows. These count too, or the
    /// visit to a site of nothing but such pages would never end.
    pub(super) fn steps(&self) -> usize {
        self.steps.len()
    }

    pub(super) fn failures_in_a_row(&self) -> usize {
        self.failures_in_a_row
    }

    /// Whether no page could be read so far.
    pub(super) fn is_unread(&self) -> bool {
        !self.was_read
    }

    /// Whether there was no response at all.
    pub(super) fn is_unreachable(&self) -> bool {
        self.cost.pages == 0
    }

    /// Whether enough sites were judged at the IP address that answered.
    pub(super) fn is_at_full_address(&self) -> bool {
        let full = &self.visit.full_addresses;
        let address = self.address.map(shared_address);
        address.is_some_and(|address| full.contains(&address))
    }

    /// Whether no page has spoken.
    pub(super) fn is_silent(&self) -> bool {
        self.evidence.speaking_pages() == 0
    }

    /// Whether the verdict is reached. Pages that are read for links may undo that, unless it is final.
    pub(super) fn is_decided(&self) -> bool {
        self.reached.is_some()
    }

    /// Σ linkWeight / confidence(target) (paper 4.3.4): grows slowly for relevant sites, so
    /// that more links are read from them, and fast for irrelevant ones.
    pub(super) fn link_rank(&self) -> f64 {
        link_rank(self.link_weights, self.judged().confidence())
    }

    /// The entrance redirects to this page of the site.
    pub(super) fn enter_at(&mut self, page: &PageUrl) {
        self.entrance = page.clone();
    }

    pub(super) fn add_response(&mut self, fetched: &FetchedPage) {
        let transfer = &fetched.transfer;
        self.cost.pages += 1;
        self.cost.wire_bytes += transfer.wire_bytes;
        self.add_robots_requests(transfer.robots_requests);
        self.address = self.address.or(transfer.address);
        if self.cost.pages == 1 {
            self.entrance = fetched.url.clone();
        }
    }

    /// Counts the cost of a request without a response.
    pub(super) fn add_unanswered(&mut self, page: &Candidate, error: &FetchError) {
        tracing::debug!(page = %page.url, %error, "no response");
        self.add_robots_requests(error.robots_requests);
    }

    fn add_robots_requests(&mut self, requests: usize) {
        self.cost.robots_requests += requests;
    }

    /// Adds a request that returned no page.
    pub(super) fn add_failure(&mut self, page: Candidate, outcome: StepOutcome) {
        if matches!(outcome, StepOutcome::Unanswered(_)) {
            self.cost.unanswered += 1;
        }
        self.add_step(
            page,
            outcome,
            PageConfidence::NEUTRAL,
            TellingWords::default(),
            0,
        );
    }

    /// Adds a page that was read, and returns its confidence.
    pub(super) fn add_page(
        &mut self,
        page: Candidate,
        parsed: &ParsedPage,
        judged: JudgedPage,
    ) -> PageConfidence {
        let is_page = parsed.is_authored();
        let (outcome, confidence, telling_words) = match judged {
            JudgedPage::Spoke {
                confidence,
                p_err,
                telling_words,
            } if is_page => {
                let outcome = self.add_evidence(confidence, p_err, parsed.fingerprint);
                (outcome, confidence, telling_words)
            }
            _ => {
                let outcome = if is_page {
                    StepOutcome::Mute
                } else {
                    StepOutcome::NoPage
                };
                (outcome, PageConfidence::NEUTRAL, TellingWords::default())
            }
        };
        self.was_read = true;
        let mut recommended = 0;
        if is_page {
            self.fingerprints.extend(parsed.fingerprint);
            // Nofollow links are not crawled.
            let links = parsed.transversal_links.iter();
            recommended = links.filter(|link| !link.nofollow).count();
            self.link_weights += link_weight(confidence, recommended, self.settings.link_constant);
            self.add_links(&parsed.transversal_links);
        }
        self.add_step(page, outcome, confidence, telling_words, recommended);
        confidence
    }

    pub(super) fn meet_gatekeeper(&mut self) {
        self.was_challenged = true;
    }

    /// The homepage asks not to be indexed.
    pub(super) fn mark_noindex(&mut self) {
        self.noindex = true;
    }

    fn add_links(&mut self, found: &[TransversalLink]) {
        let step = self.steps.len();
        for link in found {
            if self.links.len() >= MAX_FOUND_LINKS || self.link_bytes >= MAX_FOUND_BYTES {
                return;
            }
            self.link_bytes += link.page.as_str().len() + link.anchor.len();
            let link = link.clone();
            self.links.push(FoundLink { link, step });
        }
    }

    /// The entrance leads to another site.
    pub(super) fn become_alias(&mut self, page: PageUrl) -> StopReason {
        self.alias_of = Some(page);
        StopReason::Alias
    }

    /// The site is to be visited later.
    pub(super) fn defer(&mut self, not_before: SystemTime, cause: DeferralCause) -> StopReason {
        self.deferral = Some((not_before, cause));
        StopReason::Deferred
    }

    /// Ends the visit.
    pub(super) fn into_report(mut self, stop_reason: StopReason) -> SiteReport {
        let judged = self.judged();
        let verdict = match stop_reason {
            StopReason::Unreachable => Verdict::Undecided(UndecidedReason::Unreachable),
            StopReason::Alias => Verdict::Undecided(UndecidedReason::Alias),
            StopReason::Parked => Verdict::Undecided(UndecidedReason::Parked),
            StopReason::AddressFull => Verdict::Undecided(UndecidedReason::AddressFull),
            StopReason::Noindex => Verdict::Undecided(UndecidedReason::Noindex),
            StopReason::Blocked => Verdict::Undecided(UndecidedReason::Blocked),
            StopReason::BadCertificate => Verdict::Undecided(UndecidedReason::BadCertificate),
            StopReason::Disallowed if self.is_silent() => {
                Verdict::Undecided(UndecidedReason::Disallowed)
            }
            _ if !self.is_decided()
                && let Some((not_before, cause)) = self.deferral =>
            {
                Verdict::Undecided(UndecidedReason::Deferred { not_before, cause })
            }
            StopReason::Interrupted if !self.is_decided() => {
                Verdict::Undecided(UndecidedReason::Interrupted)
            }
            _ if self.is_silent() && self.was_challenged => {
                Verdict::Undecided(UndecidedReason::Challenged)
            }
            _ if self.is_silent() && !self.was_read => Verdict::Undecided(UndecidedReason::Failing),
            _ if self.is_silent() => Verdict::Undecided(UndecidedReason::NothingSpoke),
            _ if judged.is_for_target() => Verdict::Relevant,
            _ => Verdict::Irrelevant,
        };
        self.cost.duration = self.started.elapsed();
        let report = SiteReport {
            verdict,
            confidence: judged.confidence(),
            stop_reason,
            decided_after: self.reached.map(|reached| reached.after),
            steps: self.steps,
            transversal_links: self.links,
            alias_of: self.alias_of,
            noindex: self.noindex,
            entrance: self.entrance,
            address: self.address,
            fingerprint: majority(&self.fingerprints),
            cost: self.cost,
            model: self.model.fingerprint(),
            site: self.visit.site,
        };
        tracing::debug!(
            site = %report.site,
            verdict = %report.verdict,
            confidence = %report.confidence,
            pages = report.cost.pages,
            stop_reason = report.stop_reason.name(),
            "site judged"
        );
        report
    }

    /// The evidence so far, unless that of a final verdict counts.
    fn judged(&self) -> SiteEvidence {
        self.frozen.unwrap_or(self.evidence)
    }

    /// Near-duplicates count once: templates and mirrored pages are not further evidence.
    fn add_evidence(
        &mut self,
        confidence: PageConfidence,
        p_err: f64,
        fingerprint: Option<Fingerprint>,
    ) -> StepOutcome {
        let mut known = self.spoken.iter();
        if fingerprint.is_some_and(|own| known.any(|known| known.is_near(own))) {
            return StepOutcome::NearDuplicate;
        }
        self.evidence.add(confidence, p_err);
        self.spoken.extend(fingerprint);
        StepOutcome::Spoke
    }

    fn add_step(
        &mut self,
        page: Candidate,
        outcome: StepOutcome,
        confidence: PageConfidence,
        telling_words: TellingWords,
        transversal_links: usize,
    ) {
        self.failures_in_a_row = match &outcome {
            StepOutcome::Unanswered(_) | StepOutcome::Challenged => self.failures_in_a_row + 1,
            StepOutcome::Failed(status) if is_failure(*status) => self.failures_in_a_row + 1,
            StepOutcome::Disallowed => self.failures_in_a_row,
            _ => 0,
        };
        let site_confidence: SiteConfidence = self.judged().confidence();
        self.steps.push(PageStep {
            url: page.url,
            kind: page.kind,
            outcome,
            confidence,
            site_confidence,
            telling_words,
            transversal_links,
        });
        if self.frozen.is_some() {
            return;
        }
        let standing = self.evidence.standing(self.model.thresholds());
        if standing == EvidenceStanding::Final {
            self.frozen = Some(self.evidence);
        }
        let is_for_target = self.evidence.is_for_target();
        self.reached = match standing {
            EvidenceStanding::Open => None,
            EvidenceStanding::Sufficient | EvidenceStanding::Final => {
                let unchanged = self
                    .reached
                    .filter(|old| old.is_for_target == is_for_target);
                Some(unchanged.unwrap_or(ReachedVerdict {
                    is_for_target,
                    after: self.steps.len(),
                }))
            }
        };
    }
}

/// Whether a status reports a failure of the server rather than of the request.
fn is_failure(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// linkWeight(p) = Pr\[p|target\] · |transversal links of p| + c (paper 4.3.4).
#[allow(clippy::cast_precision_loss, reason = "no page has 2^53 links")]
fn link_weight(confidence: PageConfidence, transversal_links: usize, constant: f64) -> f64 {
    confidence.get() * transversal_links as f64 + constant
}

fn link_rank(link_weights: f64, confidence: SiteConfidence) -> f64 {
    // Infinite if the site is certainly irrelevant, which is above any threshold.
    link_weights / confidence.get()
}

/// The fingerprint of a site: the bitwise majority of its pages. Ties go to the first page.
fn majority(fingerprints: &[Fingerprint]) -> Option<Fingerprint> {
    let first = fingerprints.first()?;
    let mut bits = 0_u64;
    for at in 0..u64::BITS {
        let set = fingerprints
            .iter()
            .filter(|fingerprint| fingerprint.bits() >> at & 1 == 1)
            .count();
        let is_set = match (2 * set).cmp(&fingerprints.len()) {
            std::cmp::Ordering::Greater => 1,
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => first.bits() >> at & 1,
        };
        bits |= is_set << at;
    }
    Some(Fingerprint::from_bits(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, c = 1: pages of 0.8 with ten links and of 0.5 with two weigh 9 and 2; a
    /// relevant site of 0.9 has `LinkRank` 11 / 0.9 = 12.2, an irrelevant one of 0.05 has 220.
    #[test]
    fn link_rank_grows_slowly_for_relevant_sites() {
        let page = |confidence| PageConfidence::new(confidence).unwrap();
        let site = |confidence| SiteConfidence::new(confidence).unwrap();
        let weights = link_weight(page(0.8), 10, 1.0) + link_weight(page(0.5), 2, 1.0);
        assert!((weights - 11.0).abs() < 1e-12);
        assert!((link_rank(weights, site(0.9)) - 12.222_222).abs() < 1e-6);
        assert!((link_rank(weights, site(0.05)) - 220.0).abs() < 1e-9);
        assert!(link_rank(weights, site(0.0)).is_infinite());
    }

    #[test]
    fn a_site_has_the_bits_that_most_of_its_pages_have() {
        let prints = |bits: &[u64]| {
            bits.iter()
                .map(|bits| Fingerprint::from_bits(*bits))
                .collect::<Vec<_>>()
        };
        assert_eq!(majority(&[]), None);
        assert_eq!(
            majority(&prints(&[0b1100])),
            Some(Fingerprint::from_bits(0b1100))
        );
        assert_eq!(
            majority(&prints(&[0b1100, 0b1010, 0b1001])),
            Some(Fingerprint::from_bits(0b1000))
        );
        assert_eq!(
            majority(&prints(&[0b10, 0b01])),
            Some(Fingerprint::from_bits(0b10))
        );
    }
}
