//! The visits under way: one task for each site, and no more than there are slots.
//!
//! Topics that crawl in one process share the slots evenly; a topic that has ended, or waits for
//! deferred sites, leaves its share to the others.
//!
//! Invariant: a visit owns its memory and frees it at its end. A panic in a visit becomes an outcome
//! and does not affect the others.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::{AbortHandle, Id, JoinSet};

use crate::internal::InternalCrawler;
use crate::store::{Claim, ClaimedSite};
use crate::web::{ModelFingerprint, PageKind, PageUrl, SiteReport, SiteVisit, UndecidedReason};

/// Slots for internal crawlers, shared by topics.
#[derive(Debug)]
pub struct CrawlerSlots {
    number: usize,
    topics: AtomicUsize,
}

/// The share of one topic; returned when dropped.
struct SlotShare(Arc<CrawlerSlots>);

/// A share that is lent to other topics until dropped.
pub(super) struct LentShare(Arc<CrawlerSlots>);

pub(super) struct Pool {
    crawler: InternalCrawler,
    share: SlotShare,
    visits: JoinSet<SiteReport>,
    /// What each task visits.
    under_way: HashMap<Id, UnderWay>,
    /// The visit to the reference site, which has no claim.
    reference: Option<Id>,
    reference_report: Option<SiteReport>,
}

/// A visit that has not ended.
struct UnderWay {
    taken: ClaimedSite,
    /// For a report, in case the task panics or is aborted.
    visit: SiteVisit,
    task: AbortHandle,
}

/// A visit that has ended.
pub(super) struct Ended {
    pub(super) taken: ClaimedSite,
    pub(super) report: SiteReport,
    /// Whether it panicked.
    pub(super) is_broken: bool,
}

// === impl CrawlerSlots ===

impl CrawlerSlots {
    /// `number` slots for all topics together; each topic has at least one.
    #[must_use]
    pub fn new(number: usize) -> Arc<Self> {
        Arc::new(Self {
            number,
            topics: AtomicUsize::new(0),
        })
    }

    /// The number of slots of one topic.
    fn share(&self) -> usize {
        let topics = self.topics.load(Ordering::Relaxed).max(1);
        (self.number / topics).max(1)
    }

    fn join(&self) {
        self.topics.fetch_add(1, Ordering::Relaxed);
    }

    fn leave(&self) {
        self.topics.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for SlotShare {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Drop for LentShare {
    fn drop(&mut self) {
        self.0.join();
    }
}

// === impl Pool ===

impl Pool {
    pub(super) fn new(crawler: InternalCrawler, slots: &Arc<CrawlerSlots>) -> Self {
        slots.join();
        Self {
            crawler,
            share: SlotShare(Arc::clone(slots)),
            visits: JoinSet::new(),
            under_way: HashMap::new(),
            reference: None,
            reference_report: None,
        }
    }

    pub(super) fn model(&self) -> ModelFingerprint {
        self.crawler.model().fingerprint()
    }

    pub(super) fn free_slots(&self) -> usize {
        self.share.0.share().saturating_sub(self.visits.len())
    }

    /// Leaves the slots to other topics until the returned share is dropped.
    pub(super) fn lend_slots(&self) -> LentShare {
        self.share.0.leave();
        LentShare(Arc::clone(&self.share.0))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.visits.is_empty()
    }

    /// Whether a visit to a site that has a verdict is under way.
    pub(super) fn is_rejudging(&self) -> bool {
        let mut visits = self.under_way.values();
        visits.any(|visit| visit.taken.verdict.is_some())
    }

    /// The claims on the sites under way.
    pub(super) fn claims(&self) -> impl Iterator<Item = Claim> {
        self.under_way
            .values()
            .map(|visit| visit.taken.claim.clone())
    }

    /// Aborts the visits whose claims do not have these numbers. They leave no report.
    pub(super) fn keep_only(&mut self, claims: &BTreeSet<u64>) {
        self.under_way.retain(|_, visit| {
            let is_kept = claims.contains(&visit.taken.claim.number);
            if !is_kept {
                visit.task.abort();
            }
            is_kept
        });
    }

    pub(super) fn busy(&self) -> usize {
        self.visits.len()
    }

    /// Sends an internal crawler to a site.
    pub(super) fn visit(&mut self, taken: ClaimedSite, visit: SiteVisit) {
        let (crawler, sampled) = (self.crawler.clone(), visit.clone());
        let task = self
            .visits
            .spawn(async move { crawler.sample(sampled).await });
        self.note(taken, visit, task);
    }

    /// Visits the homepage of the reference site, unless such a visit is under way.
    pub(super) fn probe_reference(&mut self, reference: &PageUrl) {
        if self.reference.is_some() {
            return;
        }
        let crawler = self.crawler.clone();
        let visit = SiteVisit {
            reach: PageKind::Homepage,
            ..SiteVisit::entering(reference)
        };
        let task = self
            .visits
            .spawn(async move { crawler.sample(visit).await });
        self.reference = Some(task.id());
    }

    /// The report on the reference site, once after each probe.
    pub(super) fn reference_report(&mut self) -> Option<SiteReport> {
        self.reference_report.take()
    }

    /// Reports a site as undecided without visiting it.
    pub(super) fn refuse(&mut self, taken: ClaimedSite, visit: SiteVisit, reason: UndecidedReason) {
        let model = self.crawler.model().fingerprint();
        let report = SiteReport::refused(visit.clone(), reason, model);
        let task = self.visits.spawn(std::future::ready(report));
        self.note(taken, visit, task);
    }

    fn note(&mut self, taken: ClaimedSite, visit: SiteVisit, task: AbortHandle) {
        let visit = UnderWay { taken, visit, task };
        self.under_way.insert(visit.task.id(), visit);
    }

    /// Waits for a visit to end. Returns all that have ended; none if there are no visits.
    pub(super) async fn next(&mut self) -> Vec<Ended> {
        let mut ended: Vec<Ended> = Vec::new();
        let first = self.visits.join_next_with_id().await;
        let mut next = first;
        while let Some(visit) = next {
            ended.extend(self.ended(visit));
            next = self.visits.try_join_next_with_id();
        }
        ended
    }

    /// Aborts the visits under way. Returns all of them.
    pub(super) async fn abort(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        self.visits.abort_all();
        while let Some(visit) = self.visits.join_next_with_id().await {
            ended.extend(self.ended(visit));
        }
        ended
    }

    fn ended(&mut self, visit: Result<(Id, SiteReport), tokio::task::JoinError>) -> Option<Ended> {
        let model = self.crawler.model().fingerprint();
        let id = match &visit {
            Ok((id, _)) => *id,
            Err(failure) => failure.id(),
        };
        if self.reference == Some(id) {
            self.reference = None;
            // A probe that was aborted is repeated.
            self.reference_report = visit.ok().map(|(_, report)| report);
            return None;
        }
        // It is gone if its claim has ended.
        let UnderWay {
            taken, visit: sent, ..
        } = self.under_way.remove(&id)?;
        match visit {
            Ok((_, report)) => Some(Ended {
                taken,
                report,
                is_broken: false,
            }),
            Err(failure) => {
                if failure.is_panic() {
                    tracing::error!(site = %sent.site, "a visit panicked; its site is undecided");
                }
                Some(Ended {
                    taken,
                    report: SiteReport::interrupted(sent, model),
                    is_broken: failure.is_panic(),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_share_the_slots_and_leave_their_share_while_waiting() {
        let slots = CrawlerSlots::new(7);
        slots.join();
        assert_eq!(slots.share(), 7);
        slots.join();
        slots.join();
        assert_eq!(slots.share(), 2);
        let second = SlotShare(Arc::clone(&slots));
        second.0.leave();
        let away = LentShare(Arc::clone(&slots));
        assert_eq!(slots.share(), 3);
        drop(away);
        assert_eq!(slots.share(), 2);
        drop(second);
        assert_eq!(slots.share(), 3);
        for _ in 0..100 {
            slots.join();
        }
        assert_eq!(slots.share(), 1, "each topic has one");
    }
}
