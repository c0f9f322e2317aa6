//! The two doors of the house: the order that enters an internal crawler, and the report
//! that leaves it.
//!
//! Invariant: the report holds everything that anybody later asks about a visit: the
//! verdict and each step towards it, the links found, what it cost, and which model
//! judged. Nothing else leaves an internal crawler.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use super::{
    Fingerprint, ModelFingerprint, PageConfidence, PageUrl, Scheme, SiteConfidence, SiteId,
    StepOutcome, StopReason, TransversalLink, UndecidedReason, UnknownReason, Verdict, parse_name,
};

/// An order: judge this site.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteVisit {
    /// The site to judge.
    pub site: SiteId,
    /// Where to enter it: the homepage in the spelling that was found.
    pub entry: PageUrl,
    /// Other spellings of the entrance (`www.` or not, another scheme), tried in this order
    /// while nobody answers.
    pub fallbacks: Vec<PageUrl>,
    /// π, the probability that it is relevant before anything is read.
    pub prior: SiteConfidence,
    /// What the visit is for.
    pub purpose: Purpose,
    /// How far into the site it may go.
    pub reach: PageKind,
    /// A site at one of these addresses is left after its first page, because enough sites
    /// there were judged. They are such as [`shared_address`](super::shared_address) gives.
    pub full_addresses: Arc<BTreeSet<IpAddr>>,
}

/// What a visit is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Only the verdict: reading ends with it.
    Verdict,
    /// The verdict, and links to further sites, as paper 4.3.4 has it.
    VerdictAndLinks,
    /// The same, but further sites are scarce, so that more is to be read for links.
    VerdictAndManyLinks,
}

/// What an internal crawler found out about a site.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteReport {
    /// The site that was visited.
    pub site: SiteId,
    /// The judgement.
    pub verdict: Verdict,
    /// Pr\[target | pages that spoke\], frozen when the verdict was reached.
    pub confidence: SiteConfidence,
    /// Why reading ended.
    pub stop_reason: StopReason,
    /// After how many steps the verdict froze; none if the threshold was never passed.
    pub frozen_after: Option<usize>,
    /// Every request for a page, in order.
    pub steps: Vec<PageStep>,
    /// Links to other sites, one for each target page and page that holds it.
    pub transversal_links: Vec<FoundLink>,
    /// The page of another site that this one only leads to, if so.
    pub alias_of: Option<PageUrl>,
    /// Whether the homepage asks not to be indexed, and lists are to say so.
    pub noindex: bool,
    /// Where a later visit had better enter: the spelling that answered, or where it led.
    pub entrance: PageUrl,
    /// The address that answered, if there is one.
    pub address: Option<IpAddr>,
    /// Mirrors have near fingerprints; none if no page had words.
    pub fingerprint: Option<Fingerprint>,
    /// What the visit cost.
    pub cost: VisitCost,
    /// The model that judged.
    pub model: ModelFingerprint,
}

/// One request for a page and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct PageStep {
    /// The page asked for.
    pub url: PageUrl,
    /// How far from the entrance it lies.
    pub kind: PageKind,
    /// What came of it.
    pub outcome: StepOutcome,
    /// Pr\[p | target\]; 1/2 for pages that said nothing.
    pub confidence: PageConfidence,
    /// The site confidence after this step.
    pub site_confidence: SiteConfidence,
    /// The words that decided this page.
    pub telling_words: TellingWords,
    /// How many transversal links the page holds that its author vouches for.
    pub transversal_links: usize,
}

/// How far from the entrance of its site a page lies. Pages of one kind share a
/// calibration: they are about equally reliable.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    IntoStaticStr,
    EnumString,
    Serialize,
    Deserialize,
)]
#[strum(serialize_all = "snake_case")]
#[serde(into = "&'static str", try_from = "String")]
pub enum PageKind {
    /// The entrance, or what it shows in frames or leads to by itself.
    Homepage,
    /// Linked from the homepage.
    Inner,
    /// Everything further in.
    Deep,
}

/// The words that decided a page, the most telling first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TellingWords {
    /// Words that spoke for the topic.
    pub for_target: Vec<TellingWord>,
    /// Words that spoke against it.
    pub against: Vec<TellingWord>,
}

/// A word and how much it told.
#[derive(Debug, Clone, PartialEq)]
pub struct TellingWord {
    /// The term, as the classifier knows it: lower case, stemmed.
    pub term: Box<str>,
    /// Its share in the score; positive speaks for the topic.
    pub weight: f64,
}

/// A transversal link and the page that holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundLink {
    /// The link.
    pub link: TransversalLink,
    /// Which of the report's steps read the page that holds it.
    pub step: usize,
}

/// What a visit cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VisitCost {
    /// Requests for pages that got a response: errors, redirect hops and repetitions
    /// included, robots.txt not.
    pub pages: usize,
    /// Requests for robots.txt that got a response.
    pub robots_requests: usize,
    /// Requests that nobody answered.
    pub unanswered: usize,
    /// Bytes of bodies on the wire; zero out of an archive.
    pub wire_bytes: u64,
    /// Bytes of bodies, decoded.
    pub(crate) body_bytes: u64,
    /// How long it took, waiting included.
    pub(crate) duration: Duration,
}

// === impl SiteVisit ===

impl SiteVisit {
    /// A visit to a site that is given as a host or as a URL, in the spelling given. The error
    /// says what is wrong with it.
    pub(crate) fn to(host: &str) -> Result<Self, String> {
        if host.contains("://") {
            let page = host.parse::<PageUrl>();
            let page = page.map_err(|error| format!("`{host}`: {error}"))?;
            return Ok(Self::at(&page));
        }
        let site = host.parse::<SiteId>().map_err(|error| error.to_string())?;
        let spelled = format!("https://{host}/").parse::<PageUrl>();
        Ok(spelled.map_or_else(|_| Self::new(&site), |page| Self::at(&page)))
    }

    /// A visit to the homepage with nothing known in advance, for the verdict alone.
    #[must_use]
    pub(crate) fn new(site: &SiteId) -> Self {
        Self::at(&PageUrl::homepage(site, Scheme::Https))
    }

    /// A visit that enters at a certain page, as an earlier one has advised.
    #[must_use]
    pub fn entering(entrance: &PageUrl) -> Self {
        Self {
            entry: entrance.clone(),
            ..Self::at(entrance)
        }
    }

    /// The same for a site that was found by the address of this page: its spelling of the
    /// site is tried first, then the other scheme, then with `www.` or without.
    #[must_use]
    pub fn at(page: &PageUrl) -> Self {
        let entry = page.front_door();
        Self {
            site: entry.site(),
            fallbacks: entry.other_entrances(),
            entry,
            prior: SiteConfidence::NEUTRAL,
            purpose: Purpose::Verdict,
            reach: PageKind::Deep,
            full_addresses: Arc::default(),
        }
    }
}

// === impl SiteReport ===

impl SiteReport {
    /// The report of a visit that was broken off before it could make one: nothing is known,
    /// and the site is to be visited anew.
    #[must_use]
    pub fn interrupted(visit: SiteVisit, model: ModelFingerprint) -> Self {
        Self {
            site: visit.site,
            verdict: Verdict::Undecided(UndecidedReason::Interrupted),
            confidence: visit.prior,
            stop_reason: StopReason::Interrupted,
            frozen_after: None,
            steps: Vec::new(),
            transversal_links: Vec::new(),
            alias_of: None,
            noindex: false,
            entrance: visit.entry,
            address: None,
            fingerprint: None,
            cost: VisitCost::default(),
            model,
        }
    }

    /// The report of a visit that was not made, for this reason.
    #[must_use]
    pub(crate) fn refused(
        visit: SiteVisit,
        reason: UndecidedReason,
        model: ModelFingerprint,
    ) -> Self {
        let stop_reason = match reason {
            UndecidedReason::Poison => StopReason::Poison,
            _ => StopReason::Blocked,
        };
        Self {
            verdict: Verdict::Undecided(reason),
            stop_reason,
            ..Self::interrupted(visit, model)
        }
    }

    /// How many pages spoke.
    #[must_use]
    pub fn speaking_pages(&self) -> usize {
        let spoke = |step: &&PageStep| step.outcome == StepOutcome::Spoke;
        self.steps.iter().filter(spoke).count()
    }
}

// === impl PageStep ===

impl PageStep {
    /// Whether the page had its say: it spoke, or repeated what was said already. Pages
    /// that did not are left out of local edge weights.
    #[must_use]
    pub(crate) fn has_opinion(&self) -> bool {
        matches!(
            self.outcome,
            StepOutcome::Spoke | StepOutcome::NearDuplicate
        )
    }
}

// === impl PageKind ===

impl TryFrom<String> for PageKind {
    type Error = UnknownReason;

    fn try_from(name: String) -> Result<Self, UnknownReason> {
        parse_name(&name)
    }
}

impl PageKind {
    /// All kinds, from the entrance inwards.
    pub(crate) const ALL: [Self; 3] = [Self::Homepage, Self::Inner, Self::Deep];

    /// A short name for lists and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The kind of a page that one of this kind links to.
    #[must_use]
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Homepage => Self::Inner,
            Self::Inner | Self::Deep => Self::Deep,
        }
    }
}
