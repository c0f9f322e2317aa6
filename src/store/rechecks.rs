//! The schedule of rechecks.
//!
//! Rechecks have their own index beside that of deferred sites: after a crawl was stopped for long, a
//! million of them may be due at once, and finding deferred sites must not mean scanning them.
//!
//! Invariant: the index holds exactly the sites in [`Phase::Recheck`], at the time in their record.

use std::time::{Duration, SystemTime};

use crate::web::{SiteId, Verdict};

use super::TopicId;
use super::keys;
use super::records::{self, Phase};
use super::transaction::OpenTransaction;

/// The phase of a site with this verdict that was last visited at that time.
pub(super) fn phase_after(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    site: &SiteId,
    verdict: Verdict,
    looked_at: SystemTime,
    recheck_after: Option<Duration>,
) -> Phase {
    let Some(wait) = recheck_after.filter(|_| verdict.is_relevant()) else {
        return Phase::Judged;
    };
    let due = records::seconds(looked_at).saturating_add(wait.as_secs());
    schedule(changes, topic, site, due)
}

/// Puts a site into the index.
pub(super) fn schedule(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    site: &SiteId,
    due: u64,
) -> Phase {
    let host = site.as_str().as_bytes().to_vec();
    changes.put_raw(keys::recheck(topic, due, site), host);
    Phase::Recheck(due)
}

/// Takes a site out of the index, if it is there.
pub(super) fn cancel(
    changes: OpenTransaction<'_, '_>,
    topic: TopicId,
    site: &SiteId,
    phase: Phase,
) {
    if let Phase::Recheck(due) = phase {
        changes.remove(keys::recheck(topic, due, site));
    }
}
