//! Statistics of sites, to compare a generated web with real ones.

use crate::fetch::Fetcher;
use crate::internal::{BreadthFirstPages, SiteWalker, VisitPhase, WalkStep, WalkerLimits};
use crate::parse::{self, ParseLimits};
use crate::web::{ContentKind, Fingerprint, PageConfidence, ParsedPage, SiteId, SiteVisit};

/// Redirects followed in a row.
const MAX_REDIRECTS: usize = 5;

/// Statistics of the sites of a web.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Likeness {
    /// Sites with at least one readable page.
    pub(crate) sites: usize,
    /// Pages per site, up to the limit.
    pub(crate) pages: Spread,
    /// Visible words per page.
    pub(crate) words: Spread,
    /// Links per page that stay on the site.
    pub(crate) intrinsic: Spread,
    /// Links per page that leave it.
    pub(crate) transversal: Spread,
    /// Share of pages that nearly duplicate another page of their site.
    pub(crate) near_duplicates: f64,
}

/// Percentiles and mean of a distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Spread {
    /// 10th percentile.
    pub(crate) low: f64,
    pub(crate) median: f64,
    /// 90th percentile.
    pub(crate) high: f64,
    pub(crate) mean: f64,
}

#[derive(Default)]
struct Gathered {
    pages: Vec<usize>,
    words: Vec<usize>,
    intrinsic: Vec<usize>,
    transversal: Vec<usize>,
    near_duplicates: usize,
}

/// Reads sites breadth first, at most `most_pages` pages of each.
pub(crate) async fn likeness(
    fetcher: &dyn Fetcher,
    sites: &[SiteId],
    most_pages: usize,
    limits: &ParseLimits,
) -> Likeness {
    let mut gathered = Gathered::default();
    for site in sites {
        gathered.add_site(&read_site(fetcher, site, most_pages, limits).await);
    }
    let pages = gathered.words.len();
    Likeness {
        sites: gathered.pages.len(),
        near_duplicates: share(gathered.near_duplicates, pages),
        pages: Spread::of(gathered.pages),
        words: Spread::of(gathered.words),
        intrinsic: Spread::of(gathered.intrinsic),
        transversal: Spread::of(gathered.transversal),
    }
}

/// The pages of a site in breadth-first order.
async fn read_site(
    fetcher: &dyn Fetcher,
    site: &SiteId,
    most_pages: usize,
    limits: &ParseLimits,
) -> Vec<ParsedPage> {
    let bounds = WalkerLimits {
        // Dangling links are no pages, and neither web is infinite.
        requests: usize::MAX,
        retries: 0,
        redirects: MAX_REDIRECTS,
        url_bytes: limits.max_url_bytes,
    };
    let mut walker = SiteWalker::new(fetcher, &SiteVisit::new(site), bounds);
    let mut pages = Vec::new();
    while pages.len() < most_pages {
        let step = walker
            .next(&BreadthFirstPages, VisitPhase::BeforeVerdict)
            .await;
        let Some(step) = step else { break };
        if let WalkStep::Answered { page, fetched } = step
            && fetched.status.is_success()
        {
            let parsed = parse::parse(&fetched, limits);
            walker.add_links(&parsed.intrinsic_links, PageConfidence::NEUTRAL, &page);
            if parsed.content == ContentKind::Html {
                pages.push(parsed);
            }
        }
    }
    pages
}

// === impl Gathered ===

impl Gathered {
    fn add_site(&mut self, pages: &[ParsedPage]) {
        if pages.is_empty() {
            return;
        }
        self.pages.push(pages.len());
        let mut known: Vec<Fingerprint> = Vec::new();
        for page in pages {
            let visible = page.text.visible();
            self.words.push(visible.split_whitespace().count());
            self.intrinsic.push(page.intrinsic_links.len());
            self.transversal.push(page.transversal_links.len());
            if let Some(own) = page.fingerprint {
                let is_repeated = known.iter().any(|other| other.is_near(own));
                self.near_duplicates += usize::from(is_repeated);
                known.push(own);
            }
        }
    }
}

// === impl Spread ===

impl Spread {
    fn of(mut numbers: Vec<usize>) -> Self {
        numbers.sort_unstable();
        let Some(last) = numbers.len().checked_sub(1) else {
            return Self::default();
        };
        let at = |tenths: usize| count(numbers[last * tenths / 10]);
        Self {
            low: at(1),
            median: at(5),
            high: at(9),
            mean: share(numbers.iter().sum(), numbers.len()),
        }
    }
}

fn share(part: usize, whole: usize) -> f64 {
    count(part) / count(whole.max(1))
}

#[allow(clippy::cast_precision_loss, reason = "no corpus has 2^53 words")]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: of 1 to 11, the second, the sixth and the tenth.
    #[test]
    fn a_spread_is_read_from_the_sorted_numbers() {
        let spread = Spread::of((1..=11).rev().collect());
        let wanted = Spread {
            low: 2.0,
            median: 6.0,
            high: 10.0,
            mean: 6.0,
        };
        assert_eq!(spread, wanted);
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
