//! The pages of a site that are known and not yet requested (paper 4.3.2).
//!
//! A link (q, p) weighs the variance of q's confidences over the classes, which for two
//! classes is (Pr\[q|t\] − 1/2)²: pages that clearly belong to either class are
//! supposed to link to others that do. The weight of a page is the mean over the pages known to link
//! to it. A [`PageOrdering`] decides which page comes next; ties go to the one found first. Frames and
//! refresh targets of a page are added before its other links.
//!
//! Invariant: no page is handed out twice, in whatever spelling it is linked. Neither the number of
//! waiting pages nor the total length of their URLs grows beyond the capacity.
//!
//! Pages are distinguished by their keys alone. Keys include the host, so a site that constructs
//! colliding keys only hides its own pages. The maps hash keys with a secret random seed, so buckets
//! cannot be filled on purpose.

use std::collections::{HashMap, HashSet};

use crate::web::{IntrinsicLink, LinkKind, PageConfidence, PageKey, PageKind, PageUrl};

use super::page_ordering::{PageOrdering, VisitPhase, WaitingPage};

/// Usual names of link pages.
const LINK_WORDS: [&str; 16] = [
    "links",
    "link",
    "weblinks",
    "linkliste",
    "resources",
    "ressourcen",
    "ressources",
    "partners",
    "partner",
    "friends",
    "freunde",
    "liens",
    "enlaces",
    "collegamenti",
    "verweise",
    "blogroll",
];

/// The longest anchor text, in bytes, that is taken for the name of a page.
const LONGEST_NAME: usize = 40;

/// Mean URL length that the capacity allows for; real ones are shorter.
const MEAN_URL_BYTES: usize = 256;

/// A page to be requested.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    /// As it was found first.
    pub(crate) url: PageUrl,
    /// Its distance from the entrance, on the shortest path known.
    pub(crate) kind: PageKind,
    /// Whether it represents the whole site: the entrance, or a refresh target of the entrance. A
    /// frame does not; it may show a counter or an advertisement.
    pub(crate) is_entrance: bool,
    /// Whether it is a frame or a refresh target of the page that names it.
    pub(crate) is_part: bool,
}

/// The pages known and not yet requested.
#[derive(Debug)]
pub(super) struct PageFrontier {
    waiting: HashMap<PageKey, FrontierPage>,
    /// Total length of the URLs of waiting pages.
    bytes: usize,
    requested: HashSet<PageKey>,
    found: usize,
    /// Maximum number of waiting pages; further finds are dropped.
    capacity: usize,
    /// Pages farther from the entrance are dropped.
    reach: PageKind,
}

#[derive(Debug)]
struct FrontierPage {
    page: Candidate,
    weights: f64,
    /// Number of pages that link to it.
    pages: u32,
    found: usize,
    is_link_page: bool,
}

// === impl PageFrontier ===

impl PageFrontier {
    pub(super) fn new(entry: &PageUrl, reach: PageKind, capacity: usize) -> Self {
        let mut frontier = Self {
            waiting: HashMap::new(),
            bytes: 0,
            requested: HashSet::new(),
            found: 0,
            capacity: capacity.max(1),
            reach,
        };
        let entrance = Candidate {
            url: entry.clone(),
            kind: PageKind::Homepage,
            is_entrance: true,
            is_part: false,
        };
        frontier.add(entry.document_key(), entrance, 0.0, false);
        frontier
    }

    /// Removes and returns the page that an ordering ranks first.
    pub(super) fn best(
        &mut self,
        ordering: &dyn PageOrdering,
        phase: VisitPhase,
    ) -> Option<Candidate> {
        let ranked = self.waiting.iter().map(|(key, waiting)| {
            let rank = ordering.rank(&waiting.as_seen_by_ordering(), phase);
            (rank, waiting.found, *key)
        });
        // `found` is unique, so the iteration order of the map does not matter.
        let best = ranked.max_by(|(one, one_found, _), (other, other_found, _)| {
            let by_preference = one.is_preferred.cmp(&other.is_preferred);
            let by_value = one.value.total_cmp(&other.value);
            let by_find = other_found.cmp(one_found);
            by_preference.then(by_value).then(by_find)
        });
        let (_, _, key) = best?;
        let page = self.remove(key)?;
        self.requested.extend([key, page.url.key()]);
        Some(page)
    }

    /// Claims the target of a redirect. False if it was requested already, unless as the page that
    /// redirects.
    pub(super) fn claim(&mut self, from: &PageUrl, target: &PageUrl) -> bool {
        let key = target.document_key();
        self.remove(key);
        let is_new = self.requested.insert(key);
        self.requested.insert(target.key());
        is_new || key == from.document_key()
    }

    /// Adds the links of a page that was read.
    pub(super) fn add_links(
        &mut self,
        links: &[IntrinsicLink],
        confidence: PageConfidence,
        from: &Candidate,
    ) {
        let weight = link_weight(confidence);
        let mut linked = HashSet::new();
        for part in links.iter().filter(|link| link.kind.is_part()) {
            // A homepage may refresh to `/index.php`, which has the same document key.
            let document = part.page.document_key();
            let key = if self.requested.contains(&document) {
                part.page.key()
            } else {
                document
            };
            let page = Candidate {
                url: part.page.clone(),
                kind: from.kind,
                is_entrance: from.is_entrance && part.kind == LinkKind::Refresh,
                is_part: true,
            };
            if linked.insert(key) {
                self.add(key, page, weight, false);
            }
        }
        let is_followed = |link: &&IntrinsicLink| !link.kind.is_part() && !link.nofollow;
        for link in links.iter().filter(is_followed) {
            let key = link.page.document_key();
            let page = Candidate {
                url: link.page.clone(),
                kind: from.kind.next(),
                is_entrance: false,
                is_part: false,
            };
            if linked.insert(key) {
                self.add(key, page, weight, is_named_link_page(link));
            }
        }
    }

    fn add(&mut self, key: PageKey, page: Candidate, weight: f64, is_link_page: bool) {
        let is_full = self.is_full() && !self.waiting.contains_key(&key);
        if is_full || page.kind > self.reach || self.requested.contains(&key) {
            return;
        }
        let (kind, is_part) = (page.kind, page.is_part);
        let found = self.found;
        self.found += 1;
        let waiting = self.waiting.entry(key).or_insert_with(|| {
            self.bytes += page.url.as_str().len();
            FrontierPage {
                page,
                weights: 0.0,
                pages: 0,
                found,
                is_link_page,
            }
        });
        waiting.is_link_page |= is_link_page;
        waiting.weights += weight;
        waiting.pages += 1;
        waiting.page.kind = waiting.page.kind.min(kind);
        waiting.page.is_part |= is_part;
    }

    fn is_full(&self) -> bool {
        let most_bytes = self.capacity.saturating_mul(MEAN_URL_BYTES);
        self.waiting.len() >= self.capacity || self.bytes >= most_bytes
    }

    fn remove(&mut self, key: PageKey) -> Option<Candidate> {
        let page = self.waiting.remove(&key)?.page;
        self.bytes -= page.url.as_str().len();
        Some(page)
    }
}

// === impl FrontierPage ===

impl FrontierPage {
    fn as_seen_by_ordering(&self) -> WaitingPage<'_> {
        WaitingPage {
            url: &self.page.url,
            kind: self.page.kind,
            variance: self.weights / f64::from(self.pages),
            linking_pages: self.pages,
            is_link_page: self.is_link_page,
            is_part: self.page.is_part,
            found: self.found,
        }
    }
}

/// Whether the anchor text or the last path segment is a usual name of link pages.
fn is_named_link_page(link: &IntrinsicLink) -> bool {
    let is_word = |text: &str| {
        let mut words = text.split(|letter: char| !letter.is_alphabetic());
        words.any(|word| LINK_WORDS.iter().any(|own| own.eq_ignore_ascii_case(word)))
    };
    let last = link.page.path().rsplit('/').find(|part| !part.is_empty());
    // A sentence that contains the word is no name.
    let is_name = link.anchor.len() <= LONGEST_NAME;
    (is_name && is_word(&link.anchor)) || last.is_some_and(is_word)
}

/// The variance of a page's two confidences.
fn link_weight(confidence: PageConfidence) -> f64 {
    (confidence.get() - 0.5).powi(2)
}

#[cfg(test)]
mod tests {
    use super::super::page_ordering::{BreadthFirstPages, ByVariance, LinkPagesFirst};
    use super::*;

    fn page(path: &str) -> PageUrl {
        format!("http://example.org{path}").parse().unwrap()
    }

    fn links(paths: &[(&str, LinkKind)]) -> Vec<IntrinsicLink> {
        let link = |(path, kind): &(&str, LinkKind)| IntrinsicLink {
            page: page(path),
            anchor: String::new(),
            kind: *kind,
            nofollow: false,
        };
        paths.iter().map(link).collect()
    }

    fn anchors(paths: &[&str]) -> Vec<IntrinsicLink> {
        let anchors: Vec<_> = paths.iter().map(|path| (*path, LinkKind::Anchor)).collect();
        links(&anchors)
    }

    fn frontier() -> PageFrontier {
        PageFrontier::new(&page("/"), PageKind::Deep, 100)
    }

    fn read(kind: PageKind) -> Candidate {
        Candidate {
            url: page("/"),
            kind,
            is_entrance: kind == PageKind::Homepage,
            is_part: false,
        }
    }

    fn confidence(value: f64) -> PageConfidence {
        PageConfidence::new(value).unwrap()
    }

    fn best(frontier: &mut PageFrontier) -> Option<Candidate> {
        frontier.best(&ByVariance, VisitPhase::BeforeVerdict)
    }

    fn drain(frontier: &mut PageFrontier) -> Vec<String> {
        std::iter::from_fn(|| best(frontier))
            .map(|page| page.url.path().to_owned())
            .collect()
    }

    /// By hand: the homepage (0.9) links to a and b, a page of 0.6 to b and c. The weights
    /// are 0.16 and 0.01, so a ranks 0.16, b (0.16 + 0.01) / 2 = 0.085, c 0.01.
    #[test]
    fn ranks_are_means_of_variances() {
        let mut frontier = frontier();
        assert_eq!(best(&mut frontier).unwrap().url, page("/"));
        frontier.add_links(
            &anchors(&["/b", "/a"]),
            confidence(0.9),
            &read(PageKind::Homepage),
        );
        frontier.add_links(
            &anchors(&["/c", "/b"]),
            confidence(0.6),
            &read(PageKind::Inner),
        );
        assert_eq!(drain(&mut frontier), ["/a", "/b", "/c"]);
    }

    /// The same links, as they were found: b before a, whatever the pages say that link there.
    #[test]
    fn breadth_first_ignores_confidences() {
        let mut frontier = frontier();
        best(&mut frontier);
        let from = [
            (0.6, PageKind::Homepage, ["/b", "/a"]),
            (0.9, PageKind::Inner, ["/c", "/b"]),
        ];
        for (value, kind, paths) in from {
            frontier.add_links(&anchors(&paths), confidence(value), &read(kind));
        }
        let next = |frontier: &mut PageFrontier| {
            let page = frontier.best(&BreadthFirstPages, VisitPhase::AfterVerdict);
            page.map(|page| page.url.path().to_owned())
        };
        let paths: Vec<String> = std::iter::from_fn(|| next(&mut frontier)).collect();
        assert_eq!(paths, ["/b", "/a", "/c"]);
    }

    #[test]
    fn pages_of_links_come_first_when_links_are_wanted() {
        let read_paths = |phase| {
            let mut frontier = frontier();
            frontier.best(&LinkPagesFirst, phase);
            let mut found = anchors(&["/a", "/b", "/dir/our_links.html", "/c", "/linksys"]);
            found[1].anchor = "Friends & partners".to_owned();
            found[3].anchor =
                "a long sentence in which links stand somewhere among others".to_owned();
            frontier.add_links(&found, confidence(0.9), &read(PageKind::Homepage));
            let paths = std::iter::from_fn(|| frontier.best(&LinkPagesFirst, phase));
            paths
                .map(|page| page.url.path().to_owned())
                .collect::<Vec<_>>()
        };
        let as_found = ["/a", "/b", "/dir/our_links.html", "/c", "/linksys"];
        assert_eq!(read_paths(VisitPhase::BeforeVerdict), as_found);
        let links_first = ["/b", "/dir/our_links.html", "/a", "/c", "/linksys"];
        assert_eq!(read_paths(VisitPhase::AfterVerdict), links_first);
    }

    /// 0.1 speaks as clearly as 0.9: it is the distance from 1/2 that counts.
    #[test]
    fn pages_that_speak_against_the_topic_lead_on_as_well() {
        let mut frontier = frontier();
        best(&mut frontier);
        frontier.add_links(
            &anchors(&["/mute"]),
            PageConfidence::NEUTRAL,
            &read(PageKind::Inner),
        );
        frontier.add_links(
            &anchors(&["/against"]),
            confidence(0.1),
            &read(PageKind::Inner),
        );
        frontier.add_links(&anchors(&["/for"]), confidence(0.8), &read(PageKind::Inner));
        assert_eq!(drain(&mut frontier), ["/against", "/for", "/mute"]);
    }

    #[test]
    fn ties_go_to_the_first_found_and_frames_come_before_links() {
        let mut frontier = frontier();
        best(&mut frontier);
        let found = links(&[
            ("/z", LinkKind::Anchor),
            ("/a", LinkKind::Anchor),
            ("/frame", LinkKind::Frame),
        ]);
        frontier.add_links(&found, PageConfidence::NEUTRAL, &read(PageKind::Homepage));
        let first = best(&mut frontier).unwrap();
        assert_eq!(
            (first.url.path(), first.kind),
            ("/frame", PageKind::Homepage)
        );
        let second = best(&mut frontier).unwrap();
        assert_eq!((second.url.path(), second.kind), ("/z", PageKind::Inner));
        assert_eq!(drain(&mut frontier), ["/a"]);
    }

    #[test]
    fn a_page_is_handed_out_once_in_whatever_spelling() {
        let mut frontier = frontier();
        best(&mut frontier);
        let found = anchors(&["/", "/index.html", "/a/", "/a/index.html", "/a/"]);
        frontier.add_links(&found, confidence(0.9), &read(PageKind::Homepage));
        assert_eq!(drain(&mut frontier), ["/a/"]);
        frontier.add_links(&found, confidence(0.9), &read(PageKind::Inner));
        assert_eq!(drain(&mut frontier), [""; 0]);
    }

    #[test]
    fn a_page_counts_once_for_each_page_that_links_to_it() {
        let mut frontier = frontier();
        best(&mut frontier);
        let twice = anchors(&["/a/", "/a/index.html", "/b"]);
        frontier.add_links(&twice, confidence(0.9), &read(PageKind::Homepage));
        frontier.add_links(&anchors(&["/a/"]), confidence(0.6), &read(PageKind::Inner));
        frontier.add_links(&anchors(&["/c"]), confidence(0.8), &read(PageKind::Inner));
        // /a/ ranks (0.16 + 0.01) / 2 = 0.085, below /c with 0.09.
        assert_eq!(drain(&mut frontier), ["/b", "/c", "/a/"]);
    }

    #[test]
    fn a_refresh_to_another_index_is_followed() {
        let mut frontier = frontier();
        let home = best(&mut frontier).unwrap();
        let found = links(&[("/index.php", LinkKind::Refresh), ("/", LinkKind::Refresh)]);
        frontier.add_links(&found, PageConfidence::NEUTRAL, &home);
        let next = best(&mut frontier).unwrap();
        assert_eq!((next.url.path(), next.is_entrance), ("/index.php", true));
        assert_eq!(drain(&mut frontier), [""; 0]);
    }

    #[test]
    fn finds_beyond_the_capacity_or_the_reach_are_dropped() {
        let mut few = PageFrontier::new(&page("/"), PageKind::Deep, 2);
        best(&mut few);
        let found = anchors(&["/a", "/b", "/c", "/a"]);
        few.add_links(&found, confidence(0.9), &read(PageKind::Homepage));
        assert_eq!(drain(&mut few), ["/a", "/b"]);
        let mut near = PageFrontier::new(&page("/"), PageKind::Homepage, 100);
        best(&mut near);
        let found = links(&[("/frame", LinkKind::Frame), ("/a", LinkKind::Anchor)]);
        near.add_links(&found, confidence(0.9), &read(PageKind::Homepage));
        assert_eq!(drain(&mut near), ["/frame"]);
    }

    #[test]
    fn long_addresses_fill_the_capacity_sooner_and_leave_it_again() {
        let mut frontier = PageFrontier::new(&page("/"), PageKind::Deep, 4);
        best(&mut frontier);
        let long = |at: usize| format!("/{at}{}", "x".repeat(2 * MEAN_URL_BYTES));
        let (first, second, third) = (long(1), long(2), long(3));
        let found = anchors(&[&first, &second, &third, "/short", &first]);
        frontier.add_links(&found, confidence(0.9), &read(PageKind::Homepage));
        assert_eq!(best(&mut frontier).unwrap().url, page(&first));
        frontier.add_links(&found, confidence(0.9), &read(PageKind::Inner));
        assert_eq!(drain(&mut frontier), [second, third]);
        assert_eq!(frontier.bytes, 0);
    }

    #[test]
    fn links_that_the_author_does_not_vouch_for_are_not_followed() {
        let mut frontier = frontier();
        best(&mut frontier);
        let mut found = anchors(&["/login", "/a"]);
        found[0].nofollow = true;
        frontier.add_links(&found, confidence(0.9), &read(PageKind::Homepage));
        assert_eq!(drain(&mut frontier), ["/a"]);
    }

    #[test]
    fn redirects_lead_to_new_pages_or_other_spellings_only() {
        let mut frontier = frontier();
        best(&mut frontier);
        frontier.add_links(
            &anchors(&["/a", "/b"]),
            confidence(0.9),
            &read(PageKind::Homepage),
        );
        assert!(frontier.claim(&page("/"), &page("/b")));
        assert!(!frontier.claim(&page("/x"), &page("/b")));
        let secure = "https://www.example.org/x".parse().unwrap();
        frontier.claim(&page("/y"), &page("/x"));
        assert!(frontier.claim(&page("/x"), &secure));
        assert_eq!(drain(&mut frontier), ["/a"]);
    }
}
