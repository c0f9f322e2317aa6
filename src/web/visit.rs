//! The input and output of an internal crawler: a visit and its report.
//!
//! Invariant: the report holds everything that is needed later about a visit: the verdict and each
//! step towards it, the links found, what it cost, and which model judged. An internal crawler has
//! no other output.

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

/// A request to judge a site.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteVisit {
    /// The site to judge.
    pub site: SiteId,
    /// Where to enter it: the homepage in the spelling that was found.
    pub entry: PageUrl,
    /// Other spellings of the entrance (`www.` or not, another scheme), tried in this order until
    /// one answers.
    pub fallbacks: Vec<PageUrl>,
    /// π, the prior probability that it is relevant.
    pub prior: SiteConfidence,
    /// How the evidence of its pages is combined.
    pub evidence_rule: EvidenceRule,
    /// What the visit is for.
    pub purpose: Purpose,
    /// How deep into the site it may go.
    pub reach: PageKind,
    /// IP addresses at which enough sites were judged: a site there is left after its first page.
    /// They are in the form of [`shared_address`](super::shared_address).
    pub full_addresses: Arc<BTreeSet<IpAddr>>,
}

/// How the evidence of several pages of a site is combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EvidenceRule {
    /// The sum of their log-odds, damped because pages of one site are not independent. One page can
    /// dismiss a site; to find it relevant takes several, and later pages may withdraw that.
    Damped,
    /// The product of their error-corrected odds, as if pages were independent; the verdict freezes
    /// when it is sure (paper 4.3.3).
    Product,
}

/// What a visit is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The verdict only: reading ends with it.
    Verdict,
    /// The verdict, and links to further sites (paper 4.3.4).
    VerdictAndLinks,
    /// The same, but border sites are scarce, so more pages are read for links.
    VerdictAndManyLinks,
}

/// What an internal crawler found out about a site.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteReport {
    /// The site that was visited.
    pub site: SiteId,
    /// The verdict, with the reason if undecided.
    pub verdict: Verdict,
    /// Pr\[target | pages that spoke\], unchanged by pages read after a final verdict.
    pub confidence: SiteConfidence,
    /// Why reading ended.
    pub stop_reason: StopReason,
    /// After how many steps the verdict was reached that stands; `None` if none does: pages
    /// ran out first, or it was withdrawn. One that turned into its opposite counts from there.
    pub decided_after: Option<usize>,
    /// Every request for a page, in order.
    pub steps: Vec<PageStep>,
    /// Links to other sites, one for each pair of target page and page that holds the link.
    pub transversal_links: Vec<FoundLink>,
    /// The page of another site that this one redirects to, if it is an alias.
    pub alias_of: Option<PageUrl>,
    /// Whether the homepage has `noindex`, to be marked in lists.
    pub noindex: bool,
    /// The entry page for later visits: the spelling that answered, or its redirect target.
    pub entrance: PageUrl,
    /// The IP address that answered, if any.
    pub address: Option<IpAddr>,
    /// Mirrors have near fingerprints; `None` if no page had words.
    pub fingerprint: Option<Fingerprint>,
    /// What the visit cost.
    pub cost: VisitCost,
    /// The model that judged.
    pub model: ModelFingerprint,
}

/// One request for a page and its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct PageStep {
    /// The requested page.
    pub url: PageUrl,
    /// How far it is from the entrance.
    pub kind: PageKind,
    /// The outcome.
    pub outcome: StepOutcome,
    /// Pr\[p | target\]; 1/2 for pages that did not speak.
    pub confidence: PageConfidence,
    /// The site confidence after this step.
    pub site_confidence: SiteConfidence,
    /// The words that decided this page.
    pub telling_words: TellingWords,
    /// The number of transversal links without `nofollow` on the page.
    pub transversal_links: usize,
}

/// How far a page is from the entrance of its site. Pages of one kind share a calibration: they are
/// about equally reliable.
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
    /// The entrance, its frames, and the target of its refresh.
    Homepage,
    /// Linked from the homepage.
    Inner,
    /// Everything further in.
    Deep,
}

/// The words that decided a page, the most telling first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TellingWords {
    /// Words for the topic.
    pub for_target: Vec<TellingWord>,
    /// Words against it.
    pub against: Vec<TellingWord>,
}

/// A word and its weight in the decision.
#[derive(Debug, Clone, PartialEq)]
pub struct TellingWord {
    /// The term as in the model: lower case, stemmed.
    pub term: Box<str>,
    /// Its contribution to the score; positive is for the topic.
    pub weight: f64,
}

/// A transversal link and the page that holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundLink {
    /// The link, with its target.
    pub link: TransversalLink,
    /// The index of the report's step that read the page.
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
    /// Requests without a response.
    pub unanswered: usize,
    /// Bytes of bodies on the wire; zero from an archive.
    pub wire_bytes: u64,
    /// How long it took, waiting included.
    pub(crate) duration: Duration,
}

// === impl SiteVisit ===

impl SiteVisit {
    /// A visit to a site given as a host or as a URL; that spelling is tried first.
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

    /// A visit that enters at this page: the `entrance` of an earlier report.
    #[must_use]
    pub fn entering(entrance: &PageUrl) -> Self {
        Self {
            entry: entrance.clone(),
            ..Self::at(entrance)
        }
    }

    /// A visit to the homepage of this page's site, for the verdict alone: the page's spelling of
    /// the site is tried first, then the other scheme, then with `www.` added or removed.
    #[must_use]
    pub fn at(page: &PageUrl) -> Self {
        let entry = page.front_door();
        Self {
            site: entry.site(),
            fallbacks: entry.other_entrances(),
            entry,
            prior: SiteConfidence::NEUTRAL,
            evidence_rule: EvidenceRule::Damped,
            purpose: Purpose::Verdict,
            reach: PageKind::Deep,
            full_addresses: Arc::default(),
        }
    }
}

// === impl SiteReport ===

impl SiteReport {
    /// The report of a visit that was cancelled before it could make one: nothing is known, and the
    /// site is to be visited again.
    #[must_use]
    pub fn interrupted(visit: SiteVisit, model: ModelFingerprint) -> Self {
        Self {
            site: visit.site,
            verdict: Verdict::Undecided(UndecidedReason::Interrupted),
            confidence: visit.prior,
            stop_reason: StopReason::Interrupted,
            decided_after: None,
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

    /// The report of a visit that was not made because the site is blocked or poison.
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

    /// The number of pages that spoke.
    #[must_use]
    pub fn speaking_pages(&self) -> usize {
        let spoke = |step: &&PageStep| step.outcome == StepOutcome::Spoke;
        self.steps.iter().filter(spoke).count()
    }
}

// === impl PageStep ===

impl PageStep {
    /// Whether the page spoke, or repeats one that did. Other pages are left out of local edge
    /// weights.
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
