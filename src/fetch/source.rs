//! The page source of a process, composed of a fetcher and its controls.
//!
//! A command or a daemon holds one [`PageSource`] and cannot tell what is in it: the live web, with
//! or without a recorder, archives, or any other [`Fetcher`], such as a generated web or a renderer.
//! Settings that an operator changes at run time are applied here too.
//!
//! Invariant: no request goes to a host that the lists or blocks set here forbid, whatever the
//! fetcher.

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

/// The fetcher of a process, with its host lists, pace and recorder.
pub struct PageSource {
    fetcher: Arc<dyn Fetcher>,
    guard: Arc<HostGuard>,
    /// Whether `fetcher` checks the guard itself, as the live web does again after each wait.
    is_guarded: bool,
    /// The live web, if it is or is behind `fetcher`: only there a pace can be set.
    live: Option<Arc<LiveWeb>>,
    recorder: Option<Recorder>,
}

// === impl PageSource ===

impl PageSource {
    /// The live web. With a recorder, every request and response is written to it.
    pub fn live(
        settings: &FetchSettings,
        metrics: FetchMetrics,
        recorder: Option<Recorder>,
    ) -> Result<Self, LiveWebError> {
        let live = Arc::new(LiveWeb::new(settings, metrics, recorder.clone())?);
        Ok(Self {
            fetcher: Arc::clone(&live) as Arc<dyn Fetcher>,
            guard: Arc::clone(live.guard()),
            is_guarded: true,
            live: Some(live),
            recorder,
        })
    }

    /// WARC archives, without the live web.
    pub(crate) fn archives(
        paths: &[PathBuf],
        settings: &FetchSettings,
    ) -> Result<Self, ArchiveError> {
        Ok(Self::of(Arc::new(Archive::open(paths, settings)?)))
    }

    /// Any other fetcher.
    #[must_use]
    pub fn of(fetcher: Arc<dyn Fetcher>) -> Self {
        Self {
            fetcher,
            guard: Arc::default(),
            is_guarded: false,
            live: None,
            recorder: None,
        }
    }

    /// Puts another fetcher in front, such as a renderer, which requests pages from the one it is
    /// given. Host lists, blocks, pace and recorder apply to its requests as before, and to the pages
    /// requested of it.
    #[must_use]
    pub fn behind(self, front: impl FnOnce(Arc<dyn Fetcher>) -> Arc<dyn Fetcher>) -> Self {
        let inner = Self {
            fetcher: self.fetcher,
            guard: Arc::clone(&self.guard),
            is_guarded: self.is_guarded,
            live: None,
            recorder: None,
        };
        Self {
            fetcher: front(Arc::new(inner)),
            is_guarded: false,
            ..self
        }
    }

    /// From now on, sends requests only to hosts that these lists permit, targets of redirects and
    /// of robots.txt included.
    pub fn set_host_lists(&self, lists: HostLists) {
        self.guard.set_lists(lists);
    }

    /// Replaces the blocks, which apply in addition to the lists.
    pub(crate) fn set_blocks(&self, blocks: BTreeSet<SiteId>) {
        self.guard.set_blocks(blocks);
    }

    /// Blocks or unblocks one site.
    pub fn set_block(&self, site: &SiteId, is_blocked: bool) {
        self.guard.set_block(site, is_blocked);
    }

    /// Applies `pause` and `longest_wait` of these settings from now on; the rest is unchanged. No
    /// effect unless this is the live web.
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

    /// Waits until everything recorded is on disk. Returns the number of recorded requests, or
    /// nothing without a recorder.
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
        // A fetcher with a guard counts what it refuses, so it is not checked here as well.
        if !self.is_guarded {
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use crate::fetch::ErrorKind;

    use super::*;

    /// Records which pages are requested, and has none of them.
    #[derive(Default)]
    struct EmptyWeb(Mutex<Vec<String>>);

    /// Requests a script of another host before each page.
    struct Renderer(Arc<dyn Fetcher>);

    impl EmptyWeb {
        fn take_requests(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    #[async_trait]
    impl Fetcher for EmptyWeb {
        async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
            self.0.lock().unwrap().push(page.to_string());
            Err(FetchError::new(
                ErrorKind::Malformed,
                "no response".to_owned(),
            ))
        }
    }

    #[async_trait]
    impl Fetcher for Renderer {
        async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
            let script: PageUrl = "http://script.example/".parse().unwrap();
            let _ = self.0.fetch(&script).await;
            self.0.fetch(page).await
        }
    }

    #[tokio::test]
    async fn blocks_apply_to_a_fetcher_in_front_and_to_its_own_requests() {
        let web = Arc::new(EmptyWeb::default());
        let source = PageSource::of(Arc::clone(&web) as Arc<dyn Fetcher>);
        let source = source.behind(|inner| Arc::new(Renderer(inner)));
        let page: PageUrl = "http://page.example/".parse().unwrap();
        let script: PageUrl = "http://script.example/".parse().unwrap();
        let both = [script.to_string(), page.to_string()];

        assert!(source.fetch(&page).await.is_err());
        assert_eq!(web.take_requests(), both);

        source.set_block(&script.site(), true);
        assert!(source.fetch(&page).await.is_err());
        assert_eq!(web.take_requests(), both[1..]);

        source.set_block(&page.site(), true);
        source.set_block(&script.site(), false);
        assert!(source.fetch(&page).await.is_err());
        assert!(web.take_requests().is_empty(), "nothing is rendered");
    }
}
