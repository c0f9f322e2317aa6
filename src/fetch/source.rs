//! Where the pages of a process come from, put together from parts.
//!
//! A command or a daemon holds one [`PageSource`] and cannot tell what is in it: the live web, with
//! a recorder or without, archives, or any other [`Fetcher`], such as a generated web or a renderer.
//! What an operator changes while it runs goes through here too.
//!
//! Invariant: a host that the lists or blocks set here forbid is not asked, whatever the pages come
//! from.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use crate::config::{FetchSettings, HostLists, PolitenessSettings};
use crate::web::{FetchedPage, PageUrl, SiteId};

use super::Fetcher;
use super::archive::{Archive, ArchiveError};
use super::error::FetchError;
use super::host_guard::HostGuard;
use super::live::{LiveWeb, LiveWebError};
use super::metrics::FetchMetrics;
use super::recorder::{RecordError, Recorder};

/// Where pages come from.
pub struct PageSource {
    fetcher: Arc<dyn Fetcher>,
    guard: Arc<HostGuard>,
    /// The live web, if it is one of the parts: it alone has a pace.
    live: Option<Arc<LiveWeb>>,
    recorder: Option<Recorder>,
}

// === impl PageSource ===

impl PageSource {
    /// The live web. With a recorder, everything that goes over the wire is kept.
    pub fn live(
        settings: &FetchSettings,
        metrics: FetchMetrics,
        recorder: Option<Recorder>,
    ) -> Result<Self, LiveWebError> {
        let live = Arc::new(LiveWeb::new(settings, metrics, recorder.clone())?);
        Ok(Self {
            fetcher: Arc::clone(&live) as Arc<dyn Fetcher>,
            guard: Arc::clone(live.guard()),
            live: Some(live),
            recorder,
        })
    }

    /// Archives, and nothing else.
    pub(crate) fn archives(
        paths: &[PathBuf],
        settings: &FetchSettings,
    ) -> Result<Self, ArchiveError> {
        Ok(Self::of(Arc::new(Archive::open(paths, settings)?)))
    }

    /// Anything else that fetches pages.
    #[must_use]
    pub fn of(fetcher: Arc<dyn Fetcher>) -> Self {
        Self {
            fetcher,
            guard: Arc::default(),
            live: None,
            recorder: None,
        }
    }

    /// Asks only hosts that these lists let in, from now on: also where redirects and robots.txt
    /// lead.
    pub fn set_host_lists(&self, lists: HostLists) {
        self.guard.set_lists(lists);
    }

    /// Beside the lists, asks none of these from now on.
    pub(crate) fn set_blocks(&self, blocks: BTreeSet<SiteId>) {
        self.guard.set_blocks(blocks);
    }

    /// Blocks one more, or lets it be asked again.
    pub fn set_block(&self, site: &SiteId, is_blocked: bool) {
        self.guard.set_block(site, is_blocked);
    }

    /// Asks sites at another pace from now on, if there is a pace: `pause` and `longest_wait` are
    /// taken up, the rest stays as it was.
    pub(crate) fn set_pace(&self, politeness: &PolitenessSettings) {
        if let Some(live) = &self.live {
            live.set_pace(politeness);
        }
    }

    /// How many connections are open, idle ones included.
    #[must_use]
    pub fn connections_open(&self) -> usize {
        self.live.as_ref().map_or(0, |live| live.connections_open())
    }

    /// Waits until everything recorded is on the disk. Returns how many requests that are, if any
    /// were to be recorded.
    pub async fn finish(&self) -> Result<Option<u64>, RecordError> {
        match &self.recorder {
            Some(recorder) => recorder.finish().await.map(Some),
            None => Ok(None),
        }
    }
}

#[async_trait]
impl Fetcher for PageSource {
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
        // The live web asks the same guard, again after each wait, and counts what it refuses.
        if self.live.is_none() {
            self.guard.check(&page.site())?;
        }
        self.fetcher.fetch(page).await
    }
}

impl fmt::Debug for PageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageSource").finish_non_exhaustive()
    }
}
