//! Reads the sites of a topic: what was recorded first, the rest from the web; and finds out why a site
//! cannot be an example.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use http::StatusCode;
use indicatif::ProgressBar;

use crate::fetch::{Archive, FetchError, Fetcher};
use crate::parse::{self, ParseLimits};
use crate::web::{FetchedPage, LinkKind, PageUrl, SiteId};

/// The pages of the sites of a topic.
pub(super) struct ExampleSource {
    /// What earlier runs recorded.
    pub(super) recorded: Option<Archive>,
    /// Sites that were read to the end: what is not in the recording is not there.
    pub(super) complete: BTreeSet<SiteId>,
    /// None if all sites are complete.
    pub(super) web: Option<Arc<dyn Fetcher>>,
    pub(super) limits: ParseLimits,
    pub(super) progress: ProgressBar,
    pub(super) seen: Mutex<Seen>,
}

/// What the source has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pages: usize,
    /// What the entrance of each site showed.
    entrances: BTreeMap<SiteId, Entrance>,
}

/// What the entrance of a site showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entrance {
    LeadsTo(SiteId),
    Parked,
    Challenged,
    Failed(StatusCode),
    /// A page of the site.
    Page,
}

// === impl ExampleSource ===

impl ExampleSource {
    /// Why a site that answered has no page with words.
    pub(super) fn why_empty(&self, site: &SiteId) -> Entrance {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entrances.get(site).cloned().unwrap_or(Entrance::Page)
    }

    async fn read(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
        let site = page.site();
        if let Some(archive) = &self.recorded
            && archive.has_site(&site)
        {
            if self.complete.contains(&site) {
                return archive.fetch(page).await;
            }
            // A recording is small, and its pages are read one after another.
            if let Some(found) = archive.read(page)? {
                return Ok(found);
            }
        }
        match &self.web {
            Some(web) => web.fetch(page).await,
            None => Err(FetchError::no_host(&site)),
        }
    }

    fn note(&self, site: SiteId, page: &FetchedPage) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.pages += 1;
        self.progress
            .set_message(format!("reading sites, {} pages", seen.pages));
        if seen.entrances.contains_key(&site) {
            return;
        }
        drop(seen);
        if let Some(entrance) = Entrance::of(&site, page, &self.limits) {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.entrances.insert(site, entrance);
        }
    }
}

#[async_trait]
impl Fetcher for ExampleSource {
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
        let found = self.read(page).await;
        if let Ok(found) = &found {
            self.note(page.site(), found);
        }
        found
    }
}

// === impl Entrance ===

impl Entrance {
    /// None of a redirect within the site.
    fn of(site: &SiteId, page: &FetchedPage, limits: &ParseLimits) -> Option<Self> {
        if let Some(target) = page.redirect_target() {
            let target = target.site();
            return (target != *site).then_some(Self::LeadsTo(target));
        }
        if page.gatekeeper().is_some() && !page.status.is_success() {
            return Some(Self::Challenged);
        }
        if !page.status.is_success() {
            return Some(Self::Failed(page.status));
        }
        let parsed = parse::parse(page, limits);
        let mut links = parsed.transversal_links.iter();
        let refresh = links.find(|link| link.kind == LinkKind::Refresh);
        Some(match (refresh, parsed.signs) {
            (_, signs) if signs.challenge => Self::Challenged,
            (_, signs) if signs.parked => Self::Parked,
            (Some(link), _) => Self::LeadsTo(link.site.clone()),
            _ => Self::Page,
        })
    }
}

impl fmt::Display for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeadsTo(target) => {
                write!(
                    f,
                    "leads to {target}; name that instead, if it is of the topic"
                )
            }
            Self::Parked => f.write_str("is parked: its homepage is a placeholder"),
            Self::Challenged => f.write_str(
                "shows a challenge of a gatekeeper instead of its pages; name another example",
            ),
            Self::Failed(status) => {
                write!(
                    f,
                    "answers with an error, {status}; look whether the host is right"
                )
            }
            Self::Page => {
                f.write_str("has no page with words: pictures and scripts cannot be learned from")
            }
        }
    }
}
