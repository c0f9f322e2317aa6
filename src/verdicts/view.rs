//! Serialised form of a judged site: lists, feed, API, `crawl`, `inspect` and exports have the same
//! fields under the same names.
//!
//! Invariant: a verdict of the store is serialised here only (`classify` prints reports that were not
//! recorded, with their links). Callers add what else they know (the
//! host, the topic, an editor's decision, the change).

use std::net::IpAddr;
use std::time::SystemTime;

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::store::{Decision, EvidenceStep, JudgedSite, Recommendation, SiteDetail};
use crate::web::{PageKind, StepOutcome, StopReason, UndecidedReason};

/// Maximum number of recommending sites shown; popular sites have millions.
const MAX_RECOMMENDATIONS: usize = 200;

/// The result of visiting a site
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct JudgedSiteView {
    /// Sequence number of the verdict; in lists and feeds that of the change
    pub(crate) seq: u64,
    /// `relevant`, `irrelevant` or `undecided`
    #[schema(value_type = String, pattern = "^(relevant|irrelevant|undecided)$")]
    pub(crate) verdict: &'static str,
    /// Why the verdict is `undecided`
    pub(crate) undecided_reason: Option<&'static str>,
    /// Pr[target | pages read]
    pub(crate) confidence: f64,
    /// Pages downloaded for the verdict
    pub(crate) pages: u32,
    /// The rank by which the site was chosen
    pub(crate) rank: f64,
    /// Whether it is a start site
    pub(crate) start: bool,
    /// When the verdict was recorded, or last confirmed
    pub(crate) judged_at: String,
    /// Fingerprint of the model that judged
    pub(crate) model: String,
    /// Why reading ended
    #[schema(value_type = String)]
    pub(crate) stop_reason: StopReason,
    /// The site that this one redirects to
    pub(crate) alias_of: Option<String>,
    /// The IP address that answered
    #[schema(value_type = Option<String>)]
    pub(crate) address: Option<IpAddr>,
    /// Whether its homepage has `noindex`, and the settings mark that
    pub(crate) noindex: bool,
}

/// An editor's decision about a site
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct DecisionView {
    /// `accept` or `reject`
    pub(crate) decision: &'static str,
    /// The editor's reason
    pub(crate) note: String,
    /// When it was made
    pub(crate) at: String,
    /// Sequence number of the decision
    pub(crate) seq: u64,
}

/// Everything known about a site, and why it was judged as it was
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct SiteDetailView {
    /// The topic it was judged for
    pub(crate) topic: String,
    /// The site
    pub(crate) host: String,
    /// The fields of `JudgedSiteView`; all of them are null while the site was not visited
    #[serde(flatten, serialize_with = "fields_or_nulls")]
    #[schema(value_type = Object)]
    pub(crate) judged: Option<JudgedSiteView>,
    /// The page at which visits begin
    pub(crate) entrance: String,
    /// The editor's decision, if there is one
    pub(crate) decision: Option<DecisionView>,
    /// Whether it is on the list of the topic
    pub(crate) listed: bool,
    /// When it is rechecked
    pub(crate) recheck: Option<String>,
    /// Number of sites that recommend it
    pub(crate) edges: u32,
    /// Number of their registrable domains
    pub(crate) domains: u32,
    /// The mean global weight of its edges
    pub(crate) global: f64,
    /// The mean local weight of its edges
    pub(crate) local: f64,
    /// The pages read, in order; empty if they are not kept
    pub(crate) evidence: Vec<StepView>,
    /// The sites that recommend it, at most 200 of them
    pub(crate) recommended_by: Vec<RecommendedByView>,
    /// The sites that it recommends, not all if they are many
    pub(crate) recommends: Vec<RecommendsView>,
}

/// One request for a page and its outcome
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct StepView {
    /// The page
    pub(crate) url: String,
    /// `homepage`, `inner` or `deep`
    #[schema(value_type = String)]
    pub(crate) kind: PageKind,
    /// Such as `spoke`, `mute`, `failed, 404` or `unanswered, timeout`
    #[schema(value_type = String)]
    pub(crate) outcome: StepOutcome,
    /// The page confidence
    pub(crate) confidence: f64,
    /// The site confidence after it
    pub(crate) site_confidence: f64,
    /// Words that spoke for the topic
    pub r#for: Vec<WordView>,
    /// Words that spoke against it
    pub(crate) against: Vec<WordView>,
}

/// A word and its weight
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct WordView {
    /// The stem, as the model knows it
    pub(crate) word: String,
    /// Its contribution to the score
    pub(crate) weight: f64,
}

/// A site that recommends another
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct RecommendedByView {
    /// The site that recommends
    pub(crate) host: String,
    /// The global weight of the edge
    pub(crate) global: f64,
    /// The local weight of the edge
    pub(crate) local: f64,
    /// Number of its pages with a link
    pub(crate) pages: u32,
}

/// A site that is recommended
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct RecommendsView {
    /// The site
    pub(crate) host: String,
    /// The local weight of the edge
    pub(crate) local: f64,
}

/// As in `2026-11-16T09:30:00Z`.
#[must_use]
pub(crate) fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// The names of the fields of a [`JudgedSiteView`].
const JUDGED_FIELDS: [&str; 13] = [
    "seq",
    "verdict",
    "undecided_reason",
    "confidence",
    "pages",
    "rank",
    "start",
    "judged_at",
    "model",
    "stop_reason",
    "alias_of",
    "address",
    "noindex",
];

#[allow(
    clippy::ref_option,
    reason = "serde calls it with a reference to the field"
)]
fn fields_or_nulls<S: Serializer>(
    judged: &Option<JudgedSiteView>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match judged {
        Some(judged) => judged.serialize(serializer),
        None => serializer.collect_map(JUDGED_FIELDS.iter().map(|name| (name, ()))),
    }
}

// === conversions ===

impl From<&JudgedSite> for JudgedSiteView {
    fn from(judged: &JudgedSite) -> Self {
        let alias = judged.alias_of.as_ref();
        Self {
            seq: judged.seq,
            verdict: judged.verdict.name(),
            undecided_reason: judged.verdict.undecided_reason().map(UndecidedReason::name),
            confidence: judged.confidence,
            pages: judged.pages,
            rank: judged.rank,
            start: judged.is_start,
            judged_at: date(judged.judged_at),
            model: judged.model.to_string(),
            stop_reason: judged.stop_reason,
            alias_of: alias.map(|page| page.site().to_string()),
            address: judged.address,
            noindex: judged.noindex,
        }
    }
}

impl From<Decision> for DecisionView {
    fn from(decision: Decision) -> Self {
        Self {
            decision: decision.opinion.name(),
            note: decision.note,
            at: date(decision.at),
            seq: decision.seq,
        }
    }
}

impl SiteDetailView {
    #[must_use]
    pub(crate) fn new(topic: &str, detail: SiteDetail) -> Self {
        let evidence = detail.evidence.unwrap_or_default();
        let recommended_by = detail.recommended_by.into_iter().take(MAX_RECOMMENDATIONS);
        let recommends = evidence.recommends.into_iter();
        Self {
            topic: topic.to_owned(),
            host: detail.site.to_string(),
            judged: detail.judged.as_ref().map(JudgedSiteView::from),
            entrance: detail.entrance.to_string(),
            decision: detail.decision.map(DecisionView::from),
            listed: detail.is_listed,
            recheck: detail.recheck.map(date),
            edges: detail.standing.edges,
            domains: detail.standing.domains,
            global: detail.standing.global,
            local: detail.standing.local,
            evidence: evidence.steps.into_iter().map(StepView::from).collect(),
            recommended_by: recommended_by.map(RecommendedByView::from).collect(),
            recommends: recommends
                .map(|(host, local)| RecommendsView { host, local })
                .collect(),
        }
    }
}

impl From<EvidenceStep> for StepView {
    fn from(step: EvidenceStep) -> Self {
        let words = |words: Vec<(String, f32)>| {
            let words = words.into_iter();
            words
                .map(|(word, weight)| WordView {
                    word,
                    weight: weight.into(),
                })
                .collect()
        };
        Self {
            url: step.url,
            kind: step.kind,
            outcome: step.outcome,
            confidence: step.confidence,
            site_confidence: step.site_confidence,
            r#for: words(step.for_target),
            against: words(step.against),
        }
    }
}

impl From<Recommendation> for RecommendedByView {
    fn from(by: Recommendation) -> Self {
        Self {
            host: by.source.to_string(),
            global: by.global,
            local: by.local,
            pages: by.pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_site_that_was_not_visited_has_the_same_fields_and_all_are_null() {
        #[derive(Serialize)]
        struct Line {
            #[serde(flatten, serialize_with = "fields_or_nulls")]
            judged: Option<JudgedSiteView>,
        }
        let judged = JudgedSiteView {
            seq: 1,
            verdict: "relevant",
            undecided_reason: None,
            confidence: 0.9,
            pages: 3,
            rank: 0.5,
            start: false,
            judged_at: String::new(),
            model: String::new(),
            stop_reason: StopReason::Confident,
            alias_of: None,
            address: None,
            noindex: false,
        };
        let fields = |judged: Option<JudgedSiteView>| {
            let line = serde_json::to_value(Line { judged }).unwrap();
            let fields = line.as_object().unwrap().clone();
            fields.into_iter().collect::<Vec<(String, Value)>>()
        };
        let (visited, unvisited) = (fields(Some(judged)), fields(None));
        let names = |fields: &[(String, Value)]| -> Vec<String> {
            fields.iter().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(names(&visited), names(&unvisited));
        assert!(unvisited.iter().all(|(_, value)| value.is_null()));
    }
}
