//! The single exit for outcomes of visits.
//!
//! Every outcome is recorded atomically by the [`Ledger`]. It returns the durable verdicts, and only
//! those may be shown.
//!
//! [`List`] exports the results of a topic.
//!
//! Invariant: a verdict is shown at most once, and not before it is on disk.

mod list;
mod view;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::config::{EvidenceRetention, Settings};
use crate::store::{
    ClaimedSite, CrawlStore, JudgedSite, NewEdge, Recorded, Resolution, StoreError, VisitOutcome,
};
use crate::telemetry::clock;
use crate::web::{SiteId, SiteReport, UndecidedReason, Verdict, shared_address};
pub(crate) use list::{List, ListError, beside, put_in_place};
pub(crate) use view::{DecisionView, JudgedSiteView, SiteDetailView, WordView, date};

/// Back-off factor for repeated visits: with the defaults after an hour, eight hours, and nearly
/// three days.
const BACK_OFF_FACTOR: u32 = 8;

/// Records outcomes of one topic.
#[derive(Clone)]
pub(crate) struct Ledger {
    store: Arc<dyn CrawlStore>,
    evidence: EvidenceRetention,
    max_deferrals: usize,
    sites_per_address: u32,
    come_back: Duration,
}

/// A visit that has ended, with or without a verdict.
#[derive(Debug)]
pub(crate) struct EndedVisit {
    pub(crate) taken: ClaimedSite,
    pub(crate) report: SiteReport,
    /// The sites that it recommends.
    pub(crate) edges: Vec<NewEdge>,
    /// Whether the visit panicked, so that it should not be repeated.
    pub(crate) is_broken: bool,
    /// How the visit is repeated, if its failure was not the site's.
    pub(crate) retry: Option<Retry>,
}

/// How a visit is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// At its rank, as if it had not been made.
    InPlace,
    /// After this time at the earliest.
    After(Duration),
    /// As a deferral that counts: the site may be the cause, and is judged undecided in the end.
    Deferred,
}

/// A verdict that is durable and may be shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShownVerdict {
    pub(crate) judged: JudgedSite,
    /// The [`shared_address`] that answered, if enough sites were judged there by now.
    pub(crate) full_address: Option<IpAddr>,
}

impl Ledger {
    #[must_use]
    pub(crate) fn new(store: Arc<dyn CrawlStore>, settings: &Settings) -> Self {
        Self {
            store,
            evidence: settings.store.evidence,
            max_deferrals: settings.external.max_deferrals,
            sites_per_address: settings.external.sites_per_address(),
            come_back: settings.fetch.politeness.come_back,
        }
    }

    /// Records visits, all of them or none, and returns the verdicts among them.
    pub(crate) async fn record(
        &self,
        visits: Vec<EndedVisit>,
    ) -> Result<Vec<ShownVerdict>, StoreError> {
        let outcomes = visits.into_iter().map(|visit| VisitOutcome {
            rank: visit.taken.rank,
            resolution: self.resolution(&visit),
            keep_evidence: self.keeps_evidence(visit.report.verdict),
            claim: visit.taken.claim,
            edges: visit.edges,
            report: visit.report,
        });
        let outcomes: Vec<VisitOutcome> = outcomes.collect();
        let sites: Vec<SiteId> = outcomes
            .iter()
            .map(|outcome| outcome.report.site.clone())
            .collect();
        let recorded = self.store.record(outcomes).await?;
        let shown = sites.into_iter().zip(recorded);
        let shown = shown.filter_map(|(site, recorded)| match recorded {
            Recorded::Stale => {
                tracing::warn!(
                    %site,
                    "a report came too late: the claim on the site had expired"
                );
                None
            }
            Recorded::Done {
                judged,
                sites_at_address,
            } => {
                let judged = *judged?;
                let address = judged.address.map(shared_address);
                Some(ShownVerdict {
                    full_address: address.filter(|_| sites_at_address >= self.sites_per_address),
                    judged,
                })
            }
        });
        Ok(shown.collect())
    }

    fn resolution(&self, visit: &EndedVisit) -> Resolution {
        let deferrals = visit.taken.deferrals;
        let may_defer = usize::from(deferrals) < self.max_deferrals;
        let Verdict::Undecided(reason) = visit.report.verdict else {
            return Resolution::Judged;
        };
        let was_decided = matches!(
            visit.taken.verdict,
            Some(Verdict::Relevant | Verdict::Irrelevant)
        );
        match reason {
            UndecidedReason::Interrupted if !visit.is_broken => Resolution::PutBack,
            // Any number of times: the site is not the cause.
            UndecidedReason::Deferred { not_before, cause } if !cause.counts_against_site() => {
                Resolution::PutOff(not_before)
            }
            _ if visit.retry == Some(Retry::InPlace) => Resolution::PutBack,
            _ if let Some(Retry::After(time)) = visit.retry => {
                Resolution::PutOff(clock::now() + time)
            }
            _ if visit.retry == Some(Retry::Deferred) && may_defer => {
                Resolution::Deferred(self.back_off(deferrals))
            }
            UndecidedReason::Deferred { not_before, .. } if may_defer => {
                Resolution::Deferred(not_before)
            }
            // A verdict is not dropped because the site is down today, or shows nothing but a notice
            // that it is.
            UndecidedReason::Unreachable
            | UndecidedReason::Failing
            | UndecidedReason::BadCertificate
            | UndecidedReason::NothingSpoke
                if was_decided && may_defer =>
            {
                Resolution::Deferred(self.back_off(deferrals))
            }
            // It may admit us later, and its class does not depend on that.
            UndecidedReason::Challenged if may_defer => {
                Resolution::Deferred(self.back_off(deferrals))
            }
            UndecidedReason::Interrupted
            | UndecidedReason::Deferred { .. }
            | UndecidedReason::Challenged
                if was_decided =>
            {
                Resolution::Kept
            }
            _ => Resolution::Judged,
        }
    }

    /// When to visit a site next that was deferred this many times.
    fn back_off(&self, deferrals: u16) -> SystemTime {
        let growth = BACK_OFF_FACTOR.saturating_pow(deferrals.into());
        clock::now() + self.come_back.saturating_mul(growth)
    }

    fn keeps_evidence(&self, verdict: Verdict) -> bool {
        match self.evidence {
            EvidenceRetention::All => true,
            EvidenceRetention::Relevant => verdict.is_relevant(),
            EvidenceRetention::None => false,
        }
    }
}
