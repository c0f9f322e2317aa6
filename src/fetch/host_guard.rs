//! Which hosts may be asked at all: the operator's word, on every road.
//!
//! Pages, redirects, robots.txt and what its redirects lead to, other spellings, trials: all of
//! them become requests here, and each request is checked here. Whoever wants a host visited
//! may check as well and save the way; nobody has to.
//!
//! A host is what matters: every scheme, every port, with `www.` or without. Only a block by an
//! edit that names a port holds for that port alone.
//!
//! Invariant: a host that was blocked before a request was sent is not sent it, however long
//! the request waited for its turn.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::config::HostLists;
use crate::web::SiteId;

use super::error::{ErrorKind, FetchError};

/// The hosts that the operator lets be asked. It can be changed while requests wait.
#[derive(Debug, Default)]
pub(super) struct HostGuard(RwLock<Hosts>);

#[derive(Debug, Default)]
struct Hosts {
    /// The lists of the settings.
    lists: HostLists,
    /// What was blocked by edits.
    blocks: BTreeSet<SiteId>,
}

// === impl HostGuard ===

impl HostGuard {
    /// Whether a site may be asked.
    pub(super) fn check(&self, site: &SiteId) -> Result<(), FetchError> {
        if self.read().permit(site) {
            return Ok(());
        }
        let message = format!("the operator lets nobody ask {site}");
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

    // Nothing in here can be half changed.
    fn read(&self) -> RwLockReadGuard<'_, Hosts> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Hosts> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Hosts ===

impl Hosts {
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
