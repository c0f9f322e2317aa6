//! Labelled sites, read: what a topic is learned from.
//!
//! Each site is walked breadth first from its homepage, as the paper does it (4.3.1), and
//! its pages become numbers. Pages that say nothing of their own are left out: errors,
//! soft 404s, near-duplicates.
//!
//! Invariant: sites stand in the order of their hosts and pages in the order of the walk,
//! however many are read at once, so that the same sites give the same numbers.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::classify::{Class, CountedPage, ExampleSite, Lexicon};
use crate::fetch::{ErrorKind, FetchError, Fetcher};
use crate::parse::{self, ParseLimits};
use crate::web::{
    Entrances, Fingerprint, IntrinsicLink, PageKey, PageKind, PageTerms, PageUrl, ParsedPage,
    SiteId, SiteVisit,
};

use super::labels::Label;

/// A walk ends after so many requests for each page wanted: dangling links have an end.
const REQUESTS_PER_PAGE: usize = 4;

/// A walk ends after so many failures in a row.
const MAX_FAILURES: usize = 4;

/// A page is asked for again so often if the server is busy.
const RETRIES: usize = 2;

/// Redirects followed in a row.
const MAX_REDIRECTS: usize = 5;

/// What bounds the reading of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkLimits {
    /// The pages of each site.
    pub pages_per_site: usize,
    /// The sites read at once.
    pub sites_at_once: usize,
    /// How pages are read.
    pub parse: ParseLimits,
}

/// Labelled sites in numbers.
#[derive(Debug, Default)]
pub struct Corpus {
    /// All terms.
    pub lexicon: Lexicon,
    /// The sites that could be read, by host.
    pub sites: Vec<CorpusSite>,
    /// Labelled sites that could not be read, by host, and why.
    pub unreachable: Vec<(SiteId, String)>,
    /// Labelled sites that answered but have no page with words, by host.
    pub empty: Vec<SiteId>,
}

/// A labelled site.
#[derive(Debug, Clone, PartialEq)]
pub struct CorpusSite {
    /// The site.
    pub site: SiteId,
    /// Its topic.
    pub topic: String,
    /// Its group, as a number.
    pub group: u32,
    /// Its pages in breadth-first order.
    pub pages: Vec<CountedPage>,
}

/// What came of a walk.
type Walk = Result<Vec<WalkedPage>, FetchError>;

/// One page of a walk.
struct WalkedPage {
    terms: PageTerms,
    kind: PageKind,
    fingerprint: Option<Fingerprint>,
}

// === impl Corpus ===

impl Corpus {
    /// Reads the labelled sites. `progress` is told after each site how many are done.
    pub async fn read(
        fetcher: Arc<dyn Fetcher>,
        labels: &[Label],
        limits: WalkLimits,
        progress: impl FnMut(usize),
    ) -> Self {
        Self::read_in_turn(&[fetcher], labels, limits, progress).await
    }

    /// Reads the labelled sites with the first fetcher, those that it could not read with the
    /// next, and so on. One that remembers whom to leave alone is of no use for asking again.
    pub async fn read_in_turn(
        fetchers: &[Arc<dyn Fetcher>],
        labels: &[Label],
        limits: WalkLimits,
        mut progress: impl FnMut(usize),
    ) -> Self {
        let mut walked: BTreeMap<usize, Walk> = BTreeMap::new();
        for fetcher in fetchers {
            let is_read = |at: &usize| matches!(walked.get(at), Some(Ok(_)));
            let unread: Vec<usize> = (0..labels.len()).filter(|at| !is_read(at)).collect();
            let seats = Arc::new(Semaphore::new(limits.sites_at_once));
            let mut walks = JoinSet::new();
            for at in unread {
                let (fetcher, seats) = (Arc::clone(fetcher), Arc::clone(&seats));
                let site = labels[at].site.clone();
                walks.spawn(async move {
                    // The semaphore is never closed.
                    let _seat = seats.acquire_owned().await;
                    (at, walk(&*fetcher, &site, limits).await)
                });
            }
            while let Some(walk) = walks.join_next().await {
                match walk {
                    Ok((at, pages)) => walked.insert(at, pages),
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                };
                progress(walked.len());
            }
        }
        Self::count(labels, walked)
    }

    fn count(labels: &[Label], walked: BTreeMap<usize, Walk>) -> Self {
        let mut corpus = Self::default();
        let mut groups: BTreeMap<&str, u32> = BTreeMap::new();
        for (label, pages) in labels.iter().zip(walked.into_values()) {
            let pages = match pages {
                Ok(pages) => pages,
                Err(error) => {
                    let unread = (label.site.clone(), error.to_string());
                    corpus.unreachable.push(unread);
                    continue;
                }
            };
            let pages: Vec<CountedPage> = pages
                .iter()
                .map(|page| {
                    corpus
                        .lexicon
                        .count(&page.terms, page.kind, page.fingerprint)
                })
                .collect();
            if pages.iter().all(|page| page.terms.is_empty()) {
                corpus.empty.push(label.site.clone());
                continue;
            }
            let next = u32::try_from(groups.len()).expect("fewer groups than sites");
            let group = *groups.entry(&label.group).or_insert(next);
            corpus.sites.push(CorpusSite {
                site: label.site.clone(),
                topic: label.topic.clone(),
                group,
                pages,
            });
        }
        corpus
    }

    /// The sites as examples of one topic and of everything else.
    #[must_use]
    pub fn examples(&self, topic: &str) -> Vec<ExampleSite<'_>> {
        let class = |site: &CorpusSite| match site.topic == topic {
            true => Class::Target,
            false => Class::Other,
        };
        let examples = self.sites.iter().map(|site| ExampleSite {
            class: class(site),
            group: site.group,
            pages: &site.pages,
        });
        examples.collect()
    }
}

/// The first pages of a site, breadth first, or why there are none.
async fn walk(fetcher: &dyn Fetcher, site: &SiteId, limits: WalkLimits) -> Walk {
    let SiteVisit {
        entry, fallbacks, ..
    } = SiteVisit::new(site);
    let mut known = HashSet::from([entry.document_key()]);
    let mut entrances = Entrances::new(fallbacks);
    let mut queue = VecDeque::from([(entry, PageKind::Homepage)]);
    let mut pages: Vec<WalkedPage> = Vec::new();
    let mut requests = limits.pages_per_site.saturating_mul(REQUESTS_PER_PAGE);
    let mut answered = false;
    let mut failures = 0;
    while let Some((url, kind)) = queue.pop_front() {
        if pages.len() >= limits.pages_per_site || requests == 0 {
            break;
        }
        let url = entrances.spelled(url);
        let parsed = match read(fetcher, &url, site, &limits.parse, &mut requests).await {
            Ok(Found::Page(parsed)) => {
                failures = 0;
                Some(parsed)
            }
            Ok(Found::Nothing) => {
                failures = 0;
                None
            }
            Ok(Found::Failure) => {
                failures += 1;
                None
            }
            Err(error) if !answered => {
                let is_hopeful = |entrance: &PageUrl| error.kind.leaves_entrance(entrance);
                let Some(entrance) = entrances.next_after(&url, is_hopeful) else {
                    return Err(error);
                };
                queue.push_front((entrance, PageKind::Homepage));
                continue;
            }
            // Whom robots.txt keeps away has not failed.
            Err(error) if error.kind == ErrorKind::Disallowed => None,
            Err(error) => {
                failures += 1;
                if matches!(error.kind, ErrorKind::Deferred { .. }) {
                    tracing::warn!(%site, %error, "a labelled site is read in part only");
                    break;
                }
                None
            }
        };
        if failures >= MAX_FAILURES {
            tracing::warn!(%site, "a labelled site keeps failing and is read in part only");
            break;
        }
        answered = true;
        entrances.open_at(&url);
        let Some(parsed) = parsed else { continue };
        if !parsed.robots.nofollow {
            queue_links(&mut queue, &mut known, &parsed.intrinsic_links, kind);
        }
        if parsed.is_authored() && !repeats(&pages, parsed.fingerprint) {
            pages.push(WalkedPage {
                terms: parse::words::count_terms(&parsed),
                kind,
                fingerprint: parsed.fingerprint,
            });
        }
    }
    Ok(pages)
}

/// Parts of the page come before what it links to, as the internal crawler has it.
fn queue_links(
    queue: &mut VecDeque<(PageUrl, PageKind)>,
    known: &mut HashSet<PageKey>,
    links: &[IntrinsicLink],
    kind: PageKind,
) {
    let parts = links.iter().filter(|link| link.kind.is_part());
    // By their own address: a homepage may well send its readers to `/index.php`.
    let mut is_new = |part: &&IntrinsicLink| {
        let document = known.insert(part.page.document_key());
        known.insert(part.page.key()) || document
    };
    let parts: Vec<&IntrinsicLink> = parts.filter(&mut is_new).collect();
    for part in parts.into_iter().rev() {
        queue.push_front((part.page.clone(), kind));
    }
    let roads = links
        .iter()
        .filter(|link| !link.kind.is_part() && !link.nofollow);
    for road in roads {
        if known.insert(road.page.document_key()) {
            queue.push_back((road.page.clone(), kind.next()));
        }
    }
}

/// What an address turned out to be.
enum Found {
    Page(Box<ParsedPage>),
    /// No page of the site.
    Nothing,
    /// The server's own fault.
    Failure,
}

/// Asks for a page and what it redirects to within the site, again if the server is busy.
async fn read(
    fetcher: &dyn Fetcher,
    url: &PageUrl,
    site: &SiteId,
    limits: &ParseLimits,
    requests: &mut usize,
) -> Result<Found, FetchError> {
    let mut url = url.clone();
    let mut retries = RETRIES;
    for _ in 0..=MAX_REDIRECTS + RETRIES {
        *requests = requests.saturating_sub(1);
        let answer = fetcher.fetch(&url).await?;
        match answer.redirect_target() {
            Some(target) if target.site() == *site => url = target,
            None if answer.status.is_success() => {
                let parsed = parse::parse(&answer, limits);
                // What a gatekeeper says teaches nothing, and its links are not the site's.
                return Ok(match parsed.signs.challenge {
                    true => Found::Failure,
                    false => Found::Page(Box::new(parsed)),
                });
            }
            None if answer.gatekeeper().is_some() => return Ok(Found::Failure),
            None if answer.transfer.busy_until.is_some() && retries > 0 => retries -= 1,
            None if answer.status.is_server_error() => return Ok(Found::Failure),
            _ => return Ok(Found::Nothing),
        }
    }
    Ok(Found::Nothing)
}

fn repeats(pages: &[WalkedPage], fingerprint: Option<Fingerprint>) -> bool {
    let Some(own) = fingerprint else { return false };
    let mut known = pages.iter().filter_map(|page| page.fingerprint);
    known.any(|known| known.is_near(own))
}
