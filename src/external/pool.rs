//! Internal crawlers at work: one task for each site, and no more than there are slots.
//!
//! Topics that crawl in one process share the slots evenly; who has ended, or waits for
//! deferred sites, leaves its share to the others.
//!
//! Invariant: a visit owns its memory and loses it at its end. A panic inside one becomes
//! an outcome, and the others do not notice.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, timeout_at};

use crate::internal::InternalCrawler;
use crate::store::{Claim, ClaimedSite};
use crate::web::{ModelFingerprint, PageKind, PageUrl, SiteReport, SiteVisit, UndecidedReason};

/// Slots for internal crawlers, shared by topics.
#[derive(Debug)]
pub struct CrawlerSlots {
    number: usize,
    topics: AtomicUsize,
}

/// A topic that has its share of the slots.
struct SlotShare(Arc<CrawlerSlots>);

/// A topic that does without its share for a while.
pub(super) struct LentShare(Arc<CrawlerSlots>);

/// Visits under way.
pub(super) struct Pool {
    crawler: InternalCrawler,
    share: SlotShare,
    visits: JoinSet<SiteReport>,
    /// What each visit is about, in case it cannot tell.
    orders: HashMap<Id, (ClaimedSite, SiteVisit)>,
    /// The visit to the reference site, which no order of the store is behind.
    reference: Option<Id>,
    reference_report: Option<SiteReport>,
}

/// A visit that has ended.
pub(super) struct Ended {
    pub(super) taken: ClaimedSite,
    pub(super) report: SiteReport,
    /// Whether it ended by a panic.
    pub(super) is_broken: bool,
}

// === impl CrawlerSlots ===

impl CrawlerSlots {
    /// So many slots for all topics together; each has at least one.
    #[must_use]
    pub fn new(number: usize) -> Arc<Self> {
        Arc::new(Self {
            number,
            topics: AtomicUsize::new(0),
        })
    }

    /// What one topic has.
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
            orders: HashMap::new(),
            reference: None,
            reference_report: None,
        }
    }

    /// The model that judges.
    pub(super) fn model(&self) -> ModelFingerprint {
        self.crawler.model().fingerprint()
    }

    pub(super) fn free_slots(&self) -> usize {
        self.share.0.share().saturating_sub(self.visits.len())
    }

    /// Leaves the slots to other topics until what is returned is dropped.
    pub(super) fn lend_slots(&self) -> LentShare {
        self.share.0.leave();
        LentShare(Arc::clone(&self.share.0))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.visits.is_empty()
    }

    /// Whether a visit is under way that is to renew a verdict.
    pub(super) fn is_rejudging(&self) -> bool {
        let mut orders = self.orders.values();
        orders.any(|(taken, _)| taken.verdict.is_some())
    }

    /// The claims on the sites under way.
    pub(super) fn claims(&self) -> impl Iterator<Item = Claim> {
        self.orders.values().map(|(taken, _)| taken.claim.clone())
    }

    /// How many visits are under way.
    pub(super) fn busy(&self) -> usize {
        self.visits.len()
    }

    /// Sends an internal crawler to a site.
    pub(super) fn visit(&mut self, taken: ClaimedSite, visit: SiteVisit) {
        let (crawler, order) = (self.crawler.clone(), visit.clone());
        let task = self
            .visits
            .spawn(async move { crawler.sample(order).await });
        self.orders.insert(task.id(), (taken, visit));
    }

    /// Visits the homepage of the reference site, unless that is under way.
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

    /// Reports on a site that must not be visited, for this reason.
    pub(super) fn refuse(&mut self, taken: ClaimedSite, visit: SiteVisit, reason: UndecidedReason) {
        let model = self.crawler.model().fingerprint();
        let report = SiteReport::refused(visit.clone(), reason, model);
        let task = self.visits.spawn(std::future::ready(report));
        self.orders.insert(task.id(), (taken, visit));
    }

    /// The next visit to end, with those that have ended as well; none if there are no
    /// visits.
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

    /// Waits for the visits under way, but no longer than `patience`; the rest are broken
    /// off.
    pub(super) async fn drain(&mut self, patience: Duration) -> Vec<Ended> {
        let deadline = Instant::now() + patience;
        let mut ended = Vec::new();
        while !self.visits.is_empty() {
            match timeout_at(deadline, self.next()).await {
                Ok(some) => ended.extend(some),
                Err(_) => break,
            }
        }
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
            // A probe that was broken off is made again.
            self.reference_report = visit.ok().map(|(_, report)| report);
            return None;
        }
        match visit {
            Ok((id, report)) => {
                let (taken, _) = self.orders.remove(&id)?;
                Some(Ended {
                    taken,
                    report,
                    is_broken: false,
                })
            }
            Err(failure) => {
                let (taken, visit) = self.orders.remove(&failure.id())?;
                if failure.is_panic() {
                    tracing::error!(site = %visit.site, "a visit broke off by a fault of ours");
                }
                Some(Ended {
                    taken,
                    report: SiteReport::interrupted(visit, model),
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
    fn topics_share_the_seats_and_who_is_away_leaves_its_share() {
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
        assert_eq!(slots.share(), 1, "everybody has one");
    }
}
