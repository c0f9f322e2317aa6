//! Which hosts the operator permits, checked before every request.
//!
//! Pages, redirects, robots.txt and its redirects, other spellings, trials: every request passes
//! this check. Callers may check earlier to save work; they do not have to.
//!
//! The check is by host: every scheme, every port, with or without `www.`. Only a block by an edit
//! that names a port applies to that port alone.
//!
//! Invariant: a request is not sent to a host that was blocked before, however long the request
//! waited for its turn.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::config::HostLists;
use crate::web::SiteId;

use super::error::{ErrorKind, FetchError};

/// The hosts that the operator permits. It can be changed while requests wait.
#[derive(Debug, Default)]
pub(super) struct HostGuard(RwLock<GuardedHosts>);

#[derive(Debug, Default)]
struct GuardedHosts {
    /// From the settings.
    lists: HostLists,
    /// Set by edits at run time.
    blocks: BTreeSet<SiteId>,
}

// === impl HostGuard ===

impl HostGuard {
    /// An error if requests to the site are not permitted.
    pub(super) fn check(&self, site: &SiteId) -> Result<(), FetchError> {
        if self.read().permit(site) {
            return Ok(());
        }
        let message = format!("{site} is blocked by the operator");
        Err(FetchError::new(ErrorKind::Blocked, message))
    }

    pub(super) fn set_lists(&self, lists: HostLists) {
        self.write().lists = lists;
    }

    pub(super) fn set_blocks(&self, blocks: BTreeSet<SiteId>) {
        self.write().blocks = blocks;
    }

    pub(super) fn set_block(&self, site: &SiteId, is_blocked: bool) {
        let mut hosts = self.write();
        if is_blocked {
            hosts.blocks.insert(site.clone())
        } else {
            hosts.blocks.remove(site)
        };
    }

    // A poisoned lock is safe to use: every change is a single assignment or set operation.
    fn read(&self) -> RwLockReadGuard<'_, GuardedHosts> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, GuardedHosts> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl GuardedHosts ===

impl GuardedHosts {
    fn permit(&self, site: &SiteId) -> bool {
        self.lists.permit(site.host()) && !self.is_blocked(site)
    }

    fn is_blocked(&self, site: &SiteId) -> bool {
        if self.blocks.is_empty() {
            return false;
        }
        self.blocks.contains(site) || self.blocks.contains(&site.without_port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_edits_are_asked_for_every_spelling_and_port() {
        let guard = HostGuard::default();
        let permits = |url: &str| {
            let page: crate::web::PageUrl = url.parse().unwrap();
            guard.check(&page.site()).is_ok()
        };
        let site = |host: &str| host.parse::<SiteId>().unwrap();
        assert!(permits("http://any.example/"));
        let block = [
            "listed.example".to_owned(),
            "www.spelled.example".to_owned(),
        ];
        guard.set_lists(HostLists::new(&block, &[]));
        guard.set_blocks([site("edited.example"), site("port.example:81")].into());
        for (url, wanted) in [
            ("http://listed.example/a", false),
            ("https://www.listed.example/", false),
            ("http://listed.example:8080/", false),
            ("http://spelled.example/", false),
            ("http://www.spelled.example/", false),
            ("https://EDITED.example./", false),
            ("http://www.edited.example:8080/", false),
            ("http://port.example:81/", false),
            ("http://port.example/", true),
            ("http://sub.listed.example/", true),
        ] {
            assert_eq!(permits(url), wanted, "{url}");
        }
        guard.set_block(&site("edited.example"), false);
        assert!(permits("http://edited.example/"));
        guard.set_lists(HostLists::new(&[], &["*.example".to_owned()]));
        assert!(permits("http://listed.example/") && !permits("http://else.test/"));
    }
}
