//! When relevant sites are looked at again.
//!
//! They have an index of their own beside that of deferred sites: after a crawl that was
//! stopped for long, a million of them may be due at once, and whoever is deferred must not be
//! searched for among them.
//!
//! Invariant: a site stands in the index at the time that its record says
//! ([`Phase::Recheck`]), and nobody else does.

use std::time::{Duration, SystemTime};

use crate::web::{SiteId, Verdict};

use super::TopicId;
use super::keys;
use super::records::{self, Phase};
use super::transaction::OpenTransaction;

/// Where in its life a site is whose verdict stands, and that was last looked at then.
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
