//! The single exit for outcomes.
//!
//! Whatever became of a visit leaves through the [`Ledger`], which makes one atomic record
//! of it. What comes back is durable, and only that may be shown.
//!
//! Who follows the results reads the [`List`] of a topic.
//!
//! Invariant: a verdict is shown at most once, and not before it is on the disk.

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

/// A site that has a verdict and is out of order is tried again after so many times as long
/// each time: with the defaults after an hour, eight hours, and nearly three days.
const LONGER_EACH_TIME: u32 = 8;

/// Records outcomes of one topic.
#[derive(Clone)]
pub(crate) struct Ledger {
    store: Arc<dyn CrawlStore>,
    evidence: EvidenceRetention,
    max_deferrals: usize,
    sites_per_address: u32,
    come_back: Duration,
}

/// A visit that has ended, one way or another.
#[derive(Debug)]
pub(crate) struct EndedVisit {
    /// The site, as it was handed out.
    pub(crate) taken: ClaimedSite,
    /// What the visit found.
    pub(crate) report: SiteReport,
    /// Whom the site recommends.
    pub(crate) edges: Vec<NewEdge>,
    /// Whether the visit failed by a fault of our own, so that it had better not be
    /// repeated.
    pub(crate) is_broken: bool,
    /// How the visit is to be made again, if it says nothing about its site.
    pub(crate) retry: Option<Retry>,
}

/// How a visit is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// In its turn, as if it had never been made.
    InPlace,
    /// After this time at the earliest.
    After(Duration),
    /// As one that was deferred: the site may be at fault, and is given up in the end.
    Deferred,
}

/// A verdict that is durable and may be shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShownVerdict {
    /// The site and its verdict, as they were recorded.
    pub(crate) judged: JudgedSite,
    /// The address that answered, as [`shared_address`] has it, if enough sites there were
    /// judged by now.
    pub(crate) full_address: Option<IpAddr>,
}

impl Ledger {
    /// A ledger for one topic of a store.
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
                    "a report came too late: the site was handed out again meanwhile"
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
            // However often: nothing is wrong with the site.
            UndecidedReason::Deferred { not_before, cause } if !cause.counts_against_site() => {
                Resolution::PutOff(not_before)
            }
            _ if visit.retry == Some(Retry::InPlace) => Resolution::PutBack,
            _ if let Some(Retry::After(time)) = visit.retry => {
                Resolution::PutOff(clock::now() + time)
            }
            _ if visit.retry == Some(Retry::Deferred) && may_defer => {
                Resolution::Deferred(self.later_each_time(deferrals))
            }
            UndecidedReason::Deferred { not_before, .. } if may_defer => {
                Resolution::Deferred(not_before)
            }
            // What was known about a site is not given up because it is out of order today, or
            // because it shows a sign that says so and nothing else.
            UndecidedReason::Unreachable
            | UndecidedReason::Failing
            | UndecidedReason::BadCertificate
            | UndecidedReason::NothingSpoke
                if was_decided && may_defer =>
            {
                Resolution::Deferred(self.later_each_time(deferrals))
            }
            // It may let us in another time, and what it is does not depend on that.
            UndecidedReason::Challenged if may_defer => {
                Resolution::Deferred(self.later_each_time(deferrals))
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

    /// When a site comes back that was deferred so often.
    fn later_each_time(&self, deferrals: u16) -> SystemTime {
        let growth = LONGER_EACH_TIME.saturating_pow(deferrals.into());
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
