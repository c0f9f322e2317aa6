//! Records as they are stored: small, and self-contained. Each has a version ([`versions`]).
//!
//! [`versions`]: super::versions
//!
//! Invariant: no record is longer than some seven kilobytes. sled puts nodes that grow beyond
//! 128 KiB into files of their own, and when such a file cannot be written a batch may
//! survive in part.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::telemetry::clock;
use crate::web::{
    DeferralCause, ModelFingerprint, PageKind, PageStep, PageUrl, SiteId, SiteReport, StepOutcome,
    StopReason, TellingWord, UndecidedReason, Verdict,
};

use super::list_changes;
use super::versions::{VersionedRecord, first_format};
use super::{Evidence, EvidenceStep, JudgedSite, NewEdge, Rank, Standing, TopicTotals};

/// Maximum number of edges kept with the evidence; all of them are stored with their targets.
const EDGES_KEPT: usize = 100;

/// Maximum size of steps and edges in the evidence.
const STEP_BYTES: usize = 4 << 10;
const EDGE_BYTES: usize = 2 << 10;

/// Maximum length of a URL or outcome in the evidence.
const TEXT_BYTES: usize = 300;

/// Maximum number of words kept for a page, for and against each.
const WORDS_KEPT: usize = 5;

/// The store as a whole.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct StoreRecord {
    pub(super) topics: u16,
    /// The sequence number of the last verdict.
    pub(super) last_seq: u64,
    /// How many sites were ever discovered, over all topics.
    pub(super) discovered: u64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct TopicNumber(pub(super) u16);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TopicRecord {
    pub(super) name: String,
    /// The ordering by which the border is sorted.
    pub(super) ordering: String,
    pub(super) totals: TopicTotals,
}

/// A site, from its discovery on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SiteRecord {
    pub(super) discovered: u64,
    pub(super) is_start: bool,
    /// Where to enter it.
    pub(super) entrance: String,
    pub(super) edges: u32,
    pub(super) domains: u32,
    /// Sums, over the registrable domains that recommend it, of the mean weight of each; with
    /// [`Averaging::ByEdge`](super::Averaging) every site counts as a domain.
    pub(super) global: f64,
    pub(super) local: f64,
    pub(super) phase: Phase,
    /// The rank it had when it was last in the border, to put it back there.
    pub(super) last_rank: (f64, u32),
    pub(super) deferrals: u16,
}

/// The state of a site; see the table in the parent module. Aliases are the names in dumps of format 3.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// In the border, under this rank.
    #[serde(alias = "Border")]
    Border { value: f64, tie: u32 },
    /// Claimed.
    #[serde(alias = "Taken")]
    Taken,
    /// To be visited again, at this time in seconds since 1970.
    #[serde(alias = "Due")]
    Due(u64),
    #[serde(alias = "Judged")]
    Judged,
    /// Judged relevant, with a recheck at this time in seconds since 1970.
    #[serde(alias = "Recheck")]
    Recheck(u64),
}

/// A claim on a site. Its first version was the phase alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct ClaimRecord {
    pub(super) owner: u64,
    pub(super) number: u64,
    /// Not used: claims end with their process. Earlier versions stored a time.
    pub(super) expires: u64,
    /// Where the site was before, if that was not the border.
    pub(super) from: Option<Phase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct EdgeRecord {
    pub(super) global: f32,
    pub(super) local: f32,
    /// Pages of the source that hold a link to the target.
    pub(super) pages: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct VerdictRecord {
    seq: u64,
    verdict: StoredVerdict,
    confidence: f64,
    pages: u32,
    rank: f64,
    is_start: bool,
    judged_at: u64,
    model: u64,
    stop_reason: StopReason,
    alias_of: Option<String>,
    address: Option<std::net::IpAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredVerdict {
    #[serde(alias = "Relevant")]
    Relevant,
    #[serde(alias = "Irrelevant")]
    Irrelevant,
    #[serde(alias = "Unreachable")]
    Unreachable,
    #[serde(alias = "Failing")]
    Failing,
    #[serde(alias = "NothingSpoke")]
    NothingSpoke,
    #[serde(alias = "Alias")]
    Alias,
    #[serde(alias = "Parked")]
    Parked,
    #[serde(alias = "BadCertificate")]
    BadCertificate,
    #[serde(alias = "Disallowed")]
    Disallowed,
    #[serde(alias = "Deferred")]
    Deferred(u64),
    #[serde(alias = "Interrupted")]
    Interrupted,
    #[serde(alias = "Blocked")]
    Blocked,
    #[serde(alias = "AddressFull")]
    AddressFull,
    #[serde(alias = "Challenged")]
    Challenged,
    #[serde(alias = "Noindex")]
    Noindex,
    /// A verdict on a site whose homepage has `noindex`.
    #[serde(alias = "Marked")]
    Marked { is_relevant: bool },
    #[serde(alias = "PutOff")]
    DeferredWithCause(u64, StoredCause),
    #[serde(alias = "Poison")]
    Poison,
}

/// Why a visit was deferred too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredCause {
    #[serde(alias = "CrawlDelay")]
    CrawlDelay,
    #[serde(alias = "Busy")]
    Busy,
    #[serde(alias = "RobotsUnavailable")]
    RobotsUnavailable,
    #[serde(alias = "Challenged")]
    Challenged,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct EvidenceRecord {
    steps: Vec<StepRecord>,
    recommends: Vec<(String, f32)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StepRecord {
    url: String,
    kind: PageKind,
    outcome: StepOutcome,
    confidence: f32,
    site_confidence: f32,
    for_target: Vec<(String, f32)>,
    against: Vec<(String, f32)>,
}

first_format!(
    StoreRecord,
    TopicNumber,
    TopicRecord,
    SiteRecord,
    Phase,
    EdgeRecord,
    VerdictRecord,
    EvidenceRecord,
);

pub(super) fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

pub(super) fn time(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds.min(u64::from(u32::MAX) * 64))
}

impl VersionedRecord for ClaimRecord {
    const VERSION: u8 = 2;
    type Before = Phase;

    fn upgrade(before: Phase) -> Self {
        Self {
            owner: 0,
            number: 0,
            expires: 0,
            from: Some(before),
        }
    }
}

// === impl SiteRecord ===

impl SiteRecord {
    pub(super) fn new(discovered: u64, entrance: &PageUrl, is_start: bool) -> Self {
        Self {
            discovered,
            is_start,
            entrance: entrance.to_string(),
            edges: 0,
            domains: 0,
            global: 0.0,
            local: 0.0,
            phase: Phase::Taken,
            last_rank: (0.0, 0),
            deferrals: 0,
        }
    }

    pub(super) fn standing(&self) -> Standing {
        let domains = f64::from(self.domains.max(1));
        Standing {
            discovered: self.discovered,
            is_start: self.is_start,
            edges: self.edges,
            domains: self.domains,
            global: self.global / domains,
            local: self.local / domains,
        }
    }
}

// === impl Phase ===

impl Phase {
    pub(super) fn border(rank: Rank) -> Self {
        Self::Border {
            value: rank.value,
            tie: rank.tie,
        }
    }

    /// Whether the site is judged, and no visit is under way or due to renew that.
    pub(super) fn is_judged(self) -> bool {
        matches!(self, Self::Judged | Self::Recheck(_))
    }
}

// === impl EdgeRecord ===

impl EdgeRecord {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a weight is a mean of confidences; seven digits are more than it has"
    )]
    pub(super) fn new(edge: &NewEdge) -> Self {
        Self {
            global: edge.global as f32,
            local: edge.local as f32,
            pages: edge.pages,
        }
    }
}

// === impl VerdictRecord ===

impl VerdictRecord {
    pub(super) fn new(report: &SiteReport, seq: u64, rank: f64, is_start: bool) -> Self {
        Self {
            seq,
            verdict: StoredVerdict::new(report.verdict, report.noindex),
            confidence: report.confidence.get(),
            pages: u32::try_from(report.cost.pages).unwrap_or(u32::MAX),
            rank,
            is_start,
            judged_at: seconds(clock::now()),
            model: report.model.bits(),
            stop_reason: report.stop_reason,
            alias_of: report.alias_of.as_ref().map(ToString::to_string),
            address: report.address,
        }
    }

    /// Whether a report confirms what lists show, by the same model.
    pub(super) fn is_confirmed_by(&self, report: &SiteReport, is_start: bool) -> bool {
        let are_relevant = self.verdict().is_relevant() && report.verdict.is_relevant();
        are_relevant
            && self.model() == report.model
            && self.is_start == is_start
            && self.noindex() == report.noindex
    }

    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.verdict.into()
    }

    pub(super) fn is_start(&self) -> bool {
        self.is_start
    }

    /// Whether the homepage has `noindex`, and lists are to mark that.
    pub(super) fn noindex(&self) -> bool {
        matches!(
            self.verdict,
            StoredVerdict::Noindex | StoredVerdict::Marked { .. }
        )
    }

    pub(super) fn model(&self) -> ModelFingerprint {
        ModelFingerprint::from_bits(self.model)
    }

    /// How informative an editor's decision would be; none for undecided sites.
    pub(super) fn usefulness(&self) -> Option<f64> {
        let is_decided = self.verdict().undecided_reason().is_none();
        is_decided.then(|| list_changes::usefulness(self.confidence, self.rank))
    }

    pub(super) fn address(&self) -> Option<std::net::IpAddr> {
        self.address
    }

    /// Corrects a time later than this; returns whether it was.
    pub(super) fn date_no_later_than(&mut self, now: u64) -> bool {
        let is_later = self.judged_at > now;
        self.judged_at = self.judged_at.min(now);
        is_later
    }

    pub(super) fn judged_at(&self) -> SystemTime {
        time(self.judged_at)
    }

    /// The page of another site that it only redirects to, if it is an alias.
    pub(super) fn alias_of(&self) -> Option<PageUrl> {
        self.alias_of.as_ref()?.parse().ok()
    }

    pub(super) fn into_judged(self, site: SiteId) -> JudgedSite {
        JudgedSite {
            seq: self.seq,
            noindex: self.noindex(),
            site,
            verdict: self.verdict.into(),
            confidence: self.confidence,
            pages: self.pages,
            rank: self.rank,
            is_start: self.is_start,
            judged_at: time(self.judged_at),
            model: ModelFingerprint::from_bits(self.model),
            stop_reason: self.stop_reason,
            alias_of: self.alias_of.and_then(|page| page.parse().ok()),
            address: self.address,
        }
    }
}

impl StoredVerdict {
    fn new(verdict: Verdict, noindex: bool) -> Self {
        match verdict {
            Verdict::Relevant | Verdict::Irrelevant if noindex => Self::Marked {
                is_relevant: verdict.is_relevant(),
            },
            Verdict::Relevant => Self::Relevant,
            Verdict::Irrelevant => Self::Irrelevant,
            Verdict::Undecided(reason) => match reason {
                UndecidedReason::Unreachable => Self::Unreachable,
                UndecidedReason::Failing => Self::Failing,
                UndecidedReason::NothingSpoke => Self::NothingSpoke,
                UndecidedReason::Alias => Self::Alias,
                UndecidedReason::Parked => Self::Parked,
                UndecidedReason::BadCertificate => Self::BadCertificate,
                UndecidedReason::Disallowed => Self::Disallowed,
                UndecidedReason::Deferred { not_before, cause } => {
                    Self::DeferredWithCause(seconds(not_before), StoredCause::from(cause))
                }
                UndecidedReason::Interrupted => Self::Interrupted,
                UndecidedReason::Blocked => Self::Blocked,
                UndecidedReason::Poison => Self::Poison,
                UndecidedReason::AddressFull => Self::AddressFull,
                UndecidedReason::Challenged => Self::Challenged,
                UndecidedReason::Noindex => Self::Noindex,
            },
        }
    }
}

impl From<DeferralCause> for StoredCause {
    fn from(cause: DeferralCause) -> Self {
        match cause {
            DeferralCause::CrawlDelay => Self::CrawlDelay,
            DeferralCause::RobotsUnavailable => Self::RobotsUnavailable,
            DeferralCause::Challenged => Self::Challenged,
            // No site is abandoned for the last two.
            DeferralCause::Busy | DeferralCause::CrowdedAddress | DeferralCause::OwnTrouble(_) => {
                Self::Busy
            }
        }
    }
}

impl From<StoredCause> for DeferralCause {
    fn from(cause: StoredCause) -> Self {
        match cause {
            StoredCause::CrawlDelay => Self::CrawlDelay,
            StoredCause::Busy => Self::Busy,
            StoredCause::RobotsUnavailable => Self::RobotsUnavailable,
            StoredCause::Challenged => Self::Challenged,
        }
    }
}

impl From<StoredVerdict> for Verdict {
    fn from(stored: StoredVerdict) -> Self {
        let reason = match stored {
            StoredVerdict::Relevant | StoredVerdict::Marked { is_relevant: true } => {
                return Self::Relevant;
            }
            StoredVerdict::Irrelevant | StoredVerdict::Marked { is_relevant: false } => {
                return Self::Irrelevant;
            }
            StoredVerdict::Unreachable => UndecidedReason::Unreachable,
            StoredVerdict::Failing => UndecidedReason::Failing,
            StoredVerdict::NothingSpoke => UndecidedReason::NothingSpoke,
            StoredVerdict::Alias => UndecidedReason::Alias,
            StoredVerdict::Parked => UndecidedReason::Parked,
            StoredVerdict::BadCertificate => UndecidedReason::BadCertificate,
            StoredVerdict::Disallowed => UndecidedReason::Disallowed,
            // Written before causes were kept.
            StoredVerdict::Deferred(seconds) => UndecidedReason::Deferred {
                not_before: time(seconds),
                cause: DeferralCause::Busy,
            },
            StoredVerdict::DeferredWithCause(seconds, cause) => UndecidedReason::Deferred {
                not_before: time(seconds),
                cause: cause.into(),
            },
            StoredVerdict::Interrupted => UndecidedReason::Interrupted,
            StoredVerdict::Blocked => UndecidedReason::Blocked,
            StoredVerdict::Poison => UndecidedReason::Poison,
            StoredVerdict::AddressFull => UndecidedReason::AddressFull,
            StoredVerdict::Challenged => UndecidedReason::Challenged,
            StoredVerdict::Noindex => UndecidedReason::Noindex,
        };
        Self::Undecided(reason)
    }
}

// === impl EvidenceRecord ===

impl EvidenceRecord {
    pub(super) fn new(report: &SiteReport, edges: &[NewEdge]) -> Self {
        let edges = edges.iter().take(EDGES_KEPT);
        let edges = edges.map(|edge| {
            let host = edge.entrance.site().to_string();
            (host, EdgeRecord::new(edge).local)
        });
        Self {
            steps: fitting(report.steps.iter().map(StepRecord::new), STEP_BYTES),
            recommends: fitting(edges, EDGE_BYTES),
        }
    }

    pub(super) fn into_evidence(self) -> Evidence {
        let steps = self.steps.into_iter().map(|step| EvidenceStep {
            url: step.url,
            kind: step.kind,
            outcome: step.outcome,
            confidence: step.confidence.into(),
            site_confidence: step.site_confidence.into(),
            for_target: step.for_target,
            against: step.against,
        });
        let recommends = self.recommends.into_iter();
        Evidence {
            steps: steps.collect(),
            recommends: recommends
                .map(|(host, local)| (host, local.into()))
                .collect(),
        }
    }
}

/// The first of them, as many as fit.
fn fitting<R: Serialize>(records: impl Iterator<Item = R>, bytes: usize) -> Vec<R> {
    let mut left = bytes;
    let fits = |record: &R| {
        let bytes = postcard::to_extend(record, vec![0]).map_or(usize::MAX, |bytes| bytes.len());
        let rest = left.checked_sub(bytes);
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    records.take_while(fits).collect()
}

/// The beginning of a text that is too long.
fn shortened(text: &str) -> String {
    if text.len() > TEXT_BYTES {
        format!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES)])
    } else {
        text.to_owned()
    }
}

impl StepRecord {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "three digits are shown, seven are kept"
    )]
    fn new(step: &PageStep) -> Self {
        let words = |words: &[TellingWord]| {
            let words = words.iter().take(WORDS_KEPT);
            words
                .map(|word| (word.term.to_string(), word.weight as f32))
                .collect()
        };
        let outcome = match &step.outcome {
            // Of a long URL only the site is kept: the stored text must be a valid URL.
            StepOutcome::Redirect(target) if target.as_str().len() > TEXT_BYTES => {
                StepOutcome::Redirect(target.front_door())
            }
            outcome => outcome.clone(),
        };
        Self {
            url: shortened(step.url.as_str()),
            kind: step.kind,
            outcome,
            confidence: step.confidence.get() as f32,
            site_confidence: step.site_confidence.get() as f32,
            for_target: words(&step.telling_words.for_target),
            against: words(&step.telling_words.against),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreError;
    use crate::store::versions::{decode, encode};
    use crate::web::{PageConfidence, SiteConfidence, SiteVisit, TellingWords};

    /// The bytes of the first version: a claim was the phase that the site had before.
    #[test]
    fn claims_of_the_first_version_are_read() {
        for (bytes, from) in [
            (&[1, 2, 7][..], Phase::Due(7)),
            (&[1, 4, 0x80, 2], Phase::Recheck(256)),
        ] {
            let read: ClaimRecord = decode(b"c", bytes).unwrap();
            assert_eq!(read.from, Some(from));
            assert_eq!((read.owner, read.number, read.expires), (0, 0, 0));
            let again: ClaimRecord = decode(b"c", &encode(&read)).unwrap();
            assert_eq!(again.from, Some(from));
        }
    }

    /// Verdicts of stores that exist: the numbers of variants are part of the form.
    #[test]
    fn verdicts_of_before_are_read() {
        let record = |verdict: &[u8]| {
            let mut bytes = vec![1, 7];
            bytes.extend(verdict);
            bytes.extend(0.75_f64.to_le_bytes());
            bytes.push(3);
            bytes.extend(0.5_f64.to_le_bytes());
            bytes.extend([1, 100, 42]);
            bytes.extend(b"\x0blinks_found\x00\x00");
            bytes
        };
        for (verdict, word, noindex) in [
            (&[0][..], "relevant", false),
            (&[1], "irrelevant", false),
            (&[9, 5], "undecided (deferred)", false),
            (&[12], "undecided (address_full)", false),
            (&[13], "undecided (challenged)", false),
            (&[14], "undecided (noindex)", true),
            (&[15, 1], "relevant", true),
            (&[15, 0], "irrelevant", true),
        ] {
            let bytes = record(verdict);
            let read: VerdictRecord = decode(b"v", &bytes).unwrap();
            assert_eq!(encode(&read), bytes);
            let judged = read.into_judged("a.example".parse().unwrap());
            assert_eq!((judged.seq, judged.pages, judged.is_start), (7, 3, true));
            assert_eq!(judged.stop_reason, StopReason::LinksFound);
            assert_eq!(judged.verdict.to_string(), word);
            assert_eq!(judged.noindex, noindex, "{word}");
        }
        let name = b"links_found";
        let mut hyphened = record(&[0]);
        let at = hyphened.windows(name.len()).position(|part| part == name);
        hyphened[at.unwrap() + 5] = b'-';
        let read: VerdictRecord = decode(b"v", &hyphened).unwrap();
        assert_eq!(read.stop_reason, StopReason::LinksFound);
        hyphened[at.unwrap()] = b'x';
        let unknown = decode::<VerdictRecord>(b"v", &hyphened);
        assert!(
            matches!(unknown, Err(StoreError::Damaged { .. })),
            "{unknown:?}"
        );
        let later = decode::<VerdictRecord>(b"v", &record(&[99]));
        assert!(
            matches!(later, Err(StoreError::Damaged { .. })),
            "{later:?}"
        );
    }

    #[test]
    fn evidence_stays_small_whatever_a_site_does() {
        let page: PageUrl = format!("https://a.example/{}", "x".repeat(2_000))
            .parse()
            .unwrap();
        let word = TellingWord {
            term: "ü".repeat(30).into(),
            weight: 1.0,
        };
        let step = PageStep {
            url: page.clone(),
            kind: PageKind::Inner,
            outcome: StepOutcome::Redirect(page.clone()),
            confidence: PageConfidence::NEUTRAL,
            site_confidence: SiteConfidence::NEUTRAL,
            telling_words: TellingWords {
                for_target: vec![word.clone(); 50],
                against: vec![word; 50],
            },
            transversal_links: 0,
        };
        let host = ["y".repeat(60), "z".repeat(60), "example".to_owned()].join(".");
        let edge = NewEdge {
            entrance: format!("https://{host}/").parse().unwrap(),
            global: 0.5,
            local: 0.5,
            pages: 1,
        };
        let visit = SiteVisit::at(&page);
        let report = SiteReport {
            steps: vec![step; 1_000],
            ..SiteReport::interrupted(visit, ModelFingerprint::from_bits(1))
        };
        let record = EvidenceRecord::new(&report, &vec![edge; 1_000]);
        let bytes = encode(&record).len();
        assert!((3_000..7_000).contains(&bytes), "{bytes}");
        assert!(record.steps.len() > 2 && record.recommends.len() > 5);
        assert!(record.steps[0].url.ends_with('…'));
    }
}
