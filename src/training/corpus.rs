//! The pages of labelled sites, as term counts: the training data.
//!
//! Each site is walked breadth first from its homepage, as in the paper (4.3.1), and the terms of
//! its pages are counted. Errors, soft 404s and near-duplicates are left out.
//!
//! Invariant: sites are ordered by host and pages by the walk, however many are read at once, so
//! that the same sites give the same corpus.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::classify::{Class, CountedPage, ExampleSite, Lexicon, TermId, Translation};
use crate::fetch::{ErrorKind, FetchError, Fetcher};
use crate::internal::{
    BreadthFirstPages, Candidate, SiteWalker, VisitPhase, WalkStep, WalkerLimits,
};
use crate::parse::{self, IdleReaders, ParseLimits, TermReaders};
use crate::web::{
    FetchedPage, Fingerprint, PageConfidence, PageKind, PageTerms, ParsedPage, SiteId, SiteVisit,
    TermNumber, TermNumbers,
};

use super::background::Background;
use super::labels::{Label, OTHER};

/// Maximum number of requests for each page wanted, because of dangling links.
const REQUESTS_PER_PAGE: usize = 4;

/// Failures in a row after which a walk ends.
const MAX_FAILURES: usize = 4;

/// Retries of a page after transient failures.
const RETRIES: usize = 2;

/// Redirects followed in a row.
const MAX_REDIRECTS: usize = 5;

/// Limits for reading a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CorpusLimits {
    /// Maximum number of pages of each site.
    pub pages_per_site: usize,
    /// Number of sites read concurrently.
    pub sites_at_once: usize,
    /// Limits for parsing each page.
    pub parse: ParseLimits,
}

/// Labelled sites with the term counts of their pages, and the background that is learned from with
/// them.
#[derive(Debug, Default)]
pub struct Corpus {
    /// The terms of all pages.
    pub lexicon: Lexicon,
    /// The labelled sites that could be read, by host.
    pub sites: Vec<CorpusSite>,
    /// The sites of the background, by host; none unless one was added.
    pub(crate) background: Vec<CorpusSite>,
    /// Labelled sites that could not be read, by host, and why.
    pub unreachable: Vec<(SiteId, String)>,
    /// Labelled sites that answered but have no page with terms, by host.
    pub empty: Vec<SiteId>,
}

/// A labelled site, or one of the background.
#[derive(Debug, Clone, PartialEq)]
pub struct CorpusSite {
    pub(crate) site: SiteId,
    pub(crate) topic: String,
    pub(crate) group: u32,
    /// Its pages in breadth-first order.
    pub pages: Vec<CountedPage>,
}

type SiteWalk = Result<Vec<WalkedPage>, FetchError>;

struct WalkedPage {
    terms: PageTerms,
    /// The number of the lexicon that numbered them.
    lexicon: usize,
    kind: PageKind,
    fingerprint: Option<Fingerprint>,
}

/// One of the lexicons of the readers that work at the same time. Which pages it reads is chance, so
/// its ids go no further than this file.
struct ReadersLexicon {
    number: usize,
    lexicon: Lexicon,
}

impl TermNumbers for ReadersLexicon {
    fn number(&mut self, term: &str) -> Option<TermNumber> {
        self.lexicon.number(term)
    }
}

// === impl Corpus ===

impl Corpus {
    /// Reads the labelled sites. `progress` is called after each site with the number done.
    pub async fn read(
        fetcher: Arc<dyn Fetcher>,
        labels: &[Label],
        limits: CorpusLimits,
        progress: impl FnMut(usize),
    ) -> Self {
        Self::read_in_turn(&[fetcher], labels, limits, progress).await
    }

    /// Reads the labelled sites with the first fetcher, those that it could not read with the
    /// next, and so on. The same fetcher would not do: it remembers back-offs.
    pub async fn read_in_turn(
        fetchers: &[Arc<dyn Fetcher>],
        labels: &[Label],
        limits: CorpusLimits,
        mut progress: impl FnMut(usize),
    ) -> Self {
        let mut walked: BTreeMap<usize, SiteWalk> = BTreeMap::new();
        let lexicons = AtomicUsize::new(0);
        let new_lexicon = move || ReadersLexicon {
            number: lexicons.fetch_add(1, Ordering::Relaxed),
            lexicon: Lexicon::default(),
        };
        // No lexicon may be lost: pages are in its numbers.
        let idle = IdleReaders::at_most(usize::MAX);
        let readers = Arc::new(TermReaders::new(new_lexicon, idle));
        for fetcher in fetchers {
            let is_read = |at: &usize| matches!(walked.get(at), Some(Ok(_)));
            let unread: Vec<usize> = (0..labels.len()).filter(|at| !is_read(at)).collect();
            let slots = Arc::new(Semaphore::new(limits.sites_at_once));
            let mut walks = JoinSet::new();
            for at in unread {
                let (fetcher, slots) = (Arc::clone(fetcher), Arc::clone(&slots));
                let readers = Arc::clone(&readers);
                let site = labels[at].site.clone();
                walks.spawn(async move {
                    // The semaphore is never closed.
                    let _slot = slots.acquire_owned().await;
                    (at, walk(&*fetcher, &site, limits, &readers).await)
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
        let mut lexicons = readers.take_numbers();
        lexicons.sort_unstable_by_key(|lexicon| lexicon.number);
        Self::from_walks(labels, walked, &lexicons)
    }

    fn from_walks(
        labels: &[Label],
        walked: BTreeMap<usize, SiteWalk>,
        lexicons: &[ReadersLexicon],
    ) -> Self {
        let mut corpus = Self::default();
        let mut translations: Vec<Translation> =
            lexicons.iter().map(|_| Translation::default()).collect();
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
            let pages = pages.iter().map(|page| {
                let from = &lexicons[page.lexicon].lexicon;
                let translation = &mut translations[page.lexicon];
                let terms = translation.translate(&page.terms, from, &mut corpus.lexicon);
                CountedPage::new(&terms, page.kind, page.fingerprint)
            });
            let pages: Vec<CountedPage> = pages.collect();
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

    /// Adds the sites of a background, which are examples of no topic.
    ///
    /// What is labelled overrides the background, also where a label is all that is known: sites that
    /// share host, group or registrable domain with a labelled one are left out. One that is of the
    /// topic and of the same owner would count against it.
    pub(crate) fn add_background(&mut self, background: &Background) {
        let labelled: Vec<SiteId> = (self.sites.iter().map(|site| &site.site))
            .chain(self.unreachable.iter().map(|(site, _)| site))
            .chain(&self.empty)
            .cloned()
            .collect();
        let owners: BTreeSet<&str> = labelled.iter().map(SiteId::registrable_domain).collect();
        let is_of_owner = |site: &SiteId| owners.contains(site.registrable_domain());
        let groups_left_out: BTreeSet<u32> = (background.sites().iter())
            .filter(|site| is_of_owner(&site.site))
            .map(|site| site.group)
            .collect();
        let next = self.sites.iter().map(|site| site.group + 1).max();
        let first_group = next.unwrap_or_default();
        // In the order of the table, so that ids do not depend on the sites that are left out.
        let terms = background.terms().iter();
        let ids: Vec<Option<TermId>> = terms.map(|term| self.lexicon.number(term)).collect();
        let mut groups: BTreeMap<u32, u32> = BTreeMap::new();
        for site in background.sites() {
            if groups_left_out.contains(&site.group) {
                continue;
            }
            let next = u32::try_from(groups.len()).expect("fewer groups than sites");
            let group = first_group + *groups.entry(site.group).or_insert(next);
            let pages = site.pages.iter().map(|page| page.renumbered(&ids));
            self.background.push(CorpusSite {
                site: site.site.clone(),
                topic: OTHER.to_owned(),
                group,
                pages: pages.collect(),
            });
        }
    }

    /// Adds a labelled site as a background knows it, in place of one that could not be read. Returns
    /// whether the background has it.
    pub(crate) fn add_labelled(&mut self, label: &Label, background: &Background) -> bool {
        let mut sites = background.sites().iter();
        let Some(known) = sites.find(|known| known.site == label.site) else {
            return false;
        };
        let terms = background.terms().iter();
        let ids: Vec<Option<TermId>> = terms.map(|term| self.lexicon.number(term)).collect();
        let pages = known.pages.iter().map(|page| page.renumbered(&ids));
        let is_of_owner = |known: &&CorpusSite| {
            known.site.registrable_domain() == label.site.registrable_domain()
        };
        let of_owner = self.sites.iter().find(is_of_owner).map(|known| known.group);
        let next = self.sites.iter().map(|known| known.group + 1).max();
        let site = CorpusSite {
            site: label.site.clone(),
            topic: label.topic.clone(),
            group: of_owner.or(next).unwrap_or_default(),
            pages: pages.collect(),
        };
        self.unreachable.retain(|(unread, _)| *unread != label.site);
        self.empty.retain(|empty| *empty != label.site);
        let place = self.sites.partition_point(|known| known.site < label.site);
        self.sites.insert(place, site);
        true
    }

    /// The hosts of [`Corpus::examples`] at these places.
    #[must_use]
    pub(crate) fn hosts_of_examples(&self, places: &[usize]) -> Vec<&str> {
        let sites: Vec<&CorpusSite> = self.sites.iter().chain(&self.background).collect();
        places.iter().map(|at| sites[*at].site.as_str()).collect()
    }

    /// The labelled sites as examples of one topic and of everything else, then the background.
    #[must_use]
    pub fn examples(&self, topic: &str) -> Vec<ExampleSite<'_>> {
        let labelled = self.sites.iter().map(|site| site.example(topic));
        let background = self.background.iter().map(|site| ExampleSite {
            class: Class::Other,
            is_background: true,
            ..site.example(topic)
        });
        labelled.chain(background).collect()
    }
}

// === impl CorpusSite ===

impl CorpusSite {
    /// A labelled site as an example.
    pub(super) fn example(&self, topic: &str) -> ExampleSite<'_> {
        let class = if self.topic == topic {
            Class::Target
        } else {
            Class::Other
        };
        ExampleSite {
            class,
            site: &self.site,
            group: self.group,
            is_background: false,
            pages: &self.pages,
        }
    }
}

/// The first pages of a site, breadth first, or why there are none.
async fn walk(
    fetcher: &dyn Fetcher,
    site: &SiteId,
    limits: CorpusLimits,
    readers: &TermReaders<ReadersLexicon>,
) -> SiteWalk {
    let bounds = WalkerLimits {
        requests: limits.pages_per_site.saturating_mul(REQUESTS_PER_PAGE),
        retries: RETRIES,
        redirects: MAX_REDIRECTS,
        url_bytes: limits.parse.max_url_bytes,
    };
    let mut walker = SiteWalker::new(fetcher, &SiteVisit::new(site), bounds);
    let mut pages: Vec<WalkedPage> = Vec::new();
    let mut was_answered = false;
    let mut last_error = None;
    let mut failures = 0;
    while pages.len() < limits.pages_per_site && walker.requests() < bounds.requests {
        let step = walker
            .next(&BreadthFirstPages, VisitPhase::BeforeVerdict)
            .await;
        let Some(step) = step else { break };
        match step {
            WalkStep::Answered { page, fetched } => {
                was_answered = true;
                let parsed = fetched.status.is_success();
                let parsed = parsed.then(|| parse::parse(&fetched, &limits.parse));
                // A gatekeeper's page is not training data, and its links are not the site's.
                let is_challenge = parsed.as_ref().is_some_and(|page| page.signs.challenge);
                if is_challenge || is_failure(&fetched) {
                    failures += 1;
                } else {
                    failures = 0;
                    if let Some(parsed) = parsed {
                        add_page(&page, &parsed, readers, &mut walker, &mut pages);
                    }
                }
            }
            WalkStep::Unanswered {
                error, tries_on, ..
            } => {
                let is_deferred = matches!(error.kind, ErrorKind::Deferred { .. });
                // A page that robots.txt disallows is no failure.
                if !tries_on && error.kind != ErrorKind::Disallowed {
                    failures += 1;
                }
                if was_answered && is_deferred {
                    tracing::warn!(%site, %error, "a labelled site could be read only in part");
                    break;
                }
                last_error = Some(error);
            }
            WalkStep::LedAway { .. } | WalkStep::Redirected { next: None, .. } => {
                was_answered = true;
                failures = 0;
            }
            WalkStep::Redirected { .. } | WalkStep::Retried { .. } => {}
        }
        if failures >= MAX_FAILURES {
            tracing::warn!(%site, "a labelled site keeps failing and could be read only in part");
            break;
        }
    }
    match last_error {
        Some(error) if !was_answered => Err(error),
        _ => Ok(pages),
    }
}

/// Whether a response is a failure of the server, or an error page of a gatekeeper.
fn is_failure(fetched: &FetchedPage) -> bool {
    fetched.status.is_server_error()
        || (!fetched.status.is_success() && fetched.gatekeeper().is_some())
}

/// Adds the links of a page, and the page unless it is a soft 404 or a near-duplicate.
fn add_page(
    page: &Candidate,
    parsed: &ParsedPage,
    readers: &TermReaders<ReadersLexicon>,
    walker: &mut SiteWalker<'_>,
    pages: &mut Vec<WalkedPage>,
) {
    if !parsed.robots.nofollow {
        walker.add_links(&parsed.intrinsic_links, PageConfidence::NEUTRAL, page);
    }
    if parsed.is_authored() && !repeats(pages, parsed.fingerprint) {
        let (lexicon, terms) =
            readers.with(|reader| (reader.numbers().number, reader.count(parsed)));
        pages.push(WalkedPage {
            terms,
            lexicon,
            kind: page.kind,
            fingerprint: parsed.fingerprint,
        });
    }
}

fn repeats(pages: &[WalkedPage], fingerprint: Option<Fingerprint>) -> bool {
    let Some(own) = fingerprint else { return false };
    let mut known = pages.iter().filter_map(|page| page.fingerprint);
    known.any(|known| known.is_near(own))
}
