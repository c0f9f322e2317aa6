//! Which page of the site is read next (paper 4.3.2).
//!
//! A link (q, p) weighs the variance of q's confidences over the classes, which for two
//! classes is (Pr\[q|t\] − 1/2)²: pages that speak clearly, for whichever class, are
//! supposed to link to others that do. The rank of a page is the mean weight of the known
//! links to it; best first, and of equals the one found first. What a page shows in frames
//! or leads to by itself comes before its other links.
//!
//! Invariant: no page is handed out twice, in whatever spelling it is linked.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::web::{IntrinsicLink, LinkKind, PageConfidence, PageKey, PageKind, PageUrl};

/// A page to be asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    /// Its address, as it was found first.
    pub(super) url: PageUrl,
    /// How far from the entrance it lies, on the shortest way known.
    pub(super) kind: PageKind,
}

/// The pages known and not yet asked for.
#[derive(Debug)]
pub(super) struct PageFrontier {
    waiting: FxHashMap<PageKey, Waiting>,
    asked: FxHashSet<PageKey>,
    found: usize,
}

#[derive(Debug)]
struct Waiting {
    page: Candidate,
    weights: f64,
    links: u32,
    found: usize,
}

// === impl PageFrontier ===

impl PageFrontier {
    /// Begins at the entrance.
    pub(super) fn new(entry: &PageUrl) -> Self {
        let mut frontier = Self {
            waiting: FxHashMap::default(),
            asked: FxHashSet::default(),
            found: 0,
        };
        frontier.add_link(entry, 0.0, PageKind::Homepage);
        frontier
    }

    /// Takes the best page out.
    pub(super) fn best(&mut self) -> Option<Candidate> {
        let ranked = self
            .waiting
            .iter()
            .map(|(key, page)| (page.rank(), page.found, *key));
        // The number of its finding is unique, so the order of the map decides nothing.
        let best = ranked.max_by(|one, other| {
            let by_rank = one.0.total_cmp(&other.0);
            by_rank.then_with(|| other.1.cmp(&one.1))
        });
        let (_, _, key) = best?;
        self.asked.insert(key);
        self.waiting.remove(&key).map(|waiting| waiting.page)
    }

    /// Whether a redirect may be followed: its target was not asked for, or is another
    /// spelling of the very page that redirects.
    pub(super) fn may_ask(&mut self, from: &PageUrl, target: &PageUrl) -> bool {
        let key = target.document_key();
        self.waiting.remove(&key);
        let is_new = self.asked.insert(key);
        is_new || key == from.document_key()
    }

    /// Adds the links of a page that was read.
    pub(super) fn add_links(
        &mut self,
        links: &[IntrinsicLink],
        confidence: PageConfidence,
        kind: PageKind,
    ) {
        let weight = link_weight(confidence);
        let is_part =
            |link: &&IntrinsicLink| matches!(link.kind, LinkKind::Frame | LinkKind::Refresh);
        for part in links.iter().filter(is_part) {
            self.add_link(&part.page, weight, kind);
        }
        for link in links.iter().filter(|link| !is_part(link) && !link.nofollow) {
            self.add_link(&link.page, weight, kind.next());
        }
    }

    fn add_link(&mut self, page: &PageUrl, weight: f64, kind: PageKind) {
        let key = page.document_key();
        if self.asked.contains(&key) {
            return;
        }
        let found = self.found;
        let waiting = self.waiting.entry(key).or_insert_with(|| Waiting {
            page: Candidate {
                url: page.clone(),
                kind,
            },
            weights: 0.0,
            links: 0,
            found,
        });
        waiting.weights += weight;
        waiting.links += 1;
        waiting.page.kind = waiting.page.kind.min(kind);
        self.found += 1;
    }
}

// === impl Waiting ===

impl Waiting {
    fn rank(&self) -> f64 {
        self.weights / f64::from(self.links)
    }
}

/// The variance of a page's two confidences.
fn link_weight(confidence: PageConfidence) -> f64 {
    (confidence.get() - 0.5).powi(2)
}

#[cfg(test)]
mod tests {
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

    fn confidence(value: f64) -> PageConfidence {
        PageConfidence::new(value).unwrap()
    }

    fn drain(frontier: &mut PageFrontier) -> Vec<String> {
        std::iter::from_fn(|| frontier.best())
            .map(|page| page.url.path().to_owned())
            .collect()
    }

    /// By hand: the homepage (0.9) links to a and b, a page of 0.6 to b and c. The weights
    /// are 0.16 and 0.01, so a ranks 0.16, b (0.16 + 0.01) / 2 = 0.085, c 0.01.
    #[test]
    fn ranks_are_means_of_variances() {
        let mut frontier = PageFrontier::new(&page("/"));
        assert_eq!(frontier.best().unwrap().url, page("/"));
        frontier.add_links(&anchors(&["/b", "/a"]), confidence(0.9), PageKind::Homepage);
        frontier.add_links(&anchors(&["/c", "/b"]), confidence(0.6), PageKind::Inner);
        assert_eq!(drain(&mut frontier), ["/a", "/b", "/c"]);
    }

    /// 0.1 speaks as clearly as 0.9: it is the distance from 1/2 that counts.
    #[test]
    fn pages_that_speak_against_the_topic_lead_on_as_well() {
        let mut frontier = PageFrontier::new(&page("/"));
        frontier.best();
        frontier.add_links(
            &anchors(&["/mute"]),
            PageConfidence::NEUTRAL,
            PageKind::Inner,
        );
        frontier.add_links(&anchors(&["/against"]), confidence(0.1), PageKind::Inner);
        frontier.add_links(&anchors(&["/for"]), confidence(0.8), PageKind::Inner);
        assert_eq!(drain(&mut frontier), ["/against", "/for", "/mute"]);
    }

    #[test]
    fn ties_go_to_the_first_found_and_frames_come_before_links() {
        let mut frontier = PageFrontier::new(&page("/"));
        frontier.best();
        let found = links(&[
            ("/z", LinkKind::Anchor),
            ("/a", LinkKind::Anchor),
            ("/frame", LinkKind::Frame),
        ]);
        frontier.add_links(&found, PageConfidence::NEUTRAL, PageKind::Homepage);
        let first = frontier.best().unwrap();
        assert_eq!(
            (first.url.path(), first.kind),
            ("/frame", PageKind::Homepage)
        );
        let second = frontier.best().unwrap();
        assert_eq!((second.url.path(), second.kind), ("/z", PageKind::Inner));
        assert_eq!(drain(&mut frontier), ["/a"]);
    }

    #[test]
    fn a_page_is_handed_out_once_in_whatever_spelling() {
        let mut frontier = PageFrontier::new(&page("/"));
        frontier.best();
        let found = anchors(&["/", "/index.html", "/a/", "/a/index.html", "/a/"]);
        frontier.add_links(&found, confidence(0.9), PageKind::Homepage);
        assert_eq!(drain(&mut frontier), ["/a/"]);
        frontier.add_links(&found, confidence(0.9), PageKind::Inner);
        assert_eq!(drain(&mut frontier), [""; 0]);
    }

    #[test]
    fn links_that_the_author_does_not_vouch_for_are_not_followed() {
        let mut frontier = PageFrontier::new(&page("/"));
        frontier.best();
        let mut found = anchors(&["/login", "/a"]);
        found[0].nofollow = true;
        frontier.add_links(&found, confidence(0.9), PageKind::Homepage);
        assert_eq!(drain(&mut frontier), ["/a"]);
    }

    #[test]
    fn redirects_lead_to_new_pages_or_other_spellings_only() {
        let mut frontier = PageFrontier::new(&page("/"));
        frontier.best();
        frontier.add_links(&anchors(&["/a", "/b"]), confidence(0.9), PageKind::Homepage);
        assert!(frontier.may_ask(&page("/"), &page("/b")));
        assert!(!frontier.may_ask(&page("/x"), &page("/b")));
        let secure = "https://www.example.org/x".parse().unwrap();
        frontier.may_ask(&page("/y"), &page("/x"));
        assert!(frontier.may_ask(&page("/x"), &secure));
        assert_eq!(drain(&mut frontier), ["/a"]);
    }
}
