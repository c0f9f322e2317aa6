//! Which sites a site recommends, and how much (paper 4.2).
//!
//! One edge leads from the site to each site that it links to. Its global weight is the
//! confidence of the site, its local weight the mean confidence of the pages that have a
//! link there. Nofollow links make no edge.

use std::collections::BTreeMap;

use crate::store::NewEdge;
use crate::web::{PageStep, PageUrl, SiteId, SiteReport};

/// The links that make up one edge.
struct LinksToSite<'a> {
    /// Target of the first link.
    entrance: &'a PageUrl,
    /// Index of the first link in the report.
    first: usize,
    /// Indices of the steps with a link.
    steps: Vec<usize>,
}

/// The edges of a report, in the order in which their targets were found.
#[must_use]
pub(crate) fn edges_of(report: &SiteReport) -> Vec<NewEdge> {
    let mut by_target: BTreeMap<&SiteId, LinksToSite<'_>> = BTreeMap::new();
    for (at, found) in report.transversal_links.iter().enumerate() {
        if found.link.nofollow {
            continue;
        }
        let links = by_target
            .entry(&found.link.site)
            .or_insert_with(|| LinksToSite {
                entrance: &found.link.page,
                first: at,
                steps: Vec::new(),
            });
        if links.steps.last() != Some(&found.step) {
            links.steps.push(found.step);
        }
    }
    let mut links: Vec<LinksToSite<'_>> = by_target.into_values().collect();
    links.sort_by_key(|links| links.first);
    let global = report.confidence.get();
    let edge = |links: LinksToSite<'_>| {
        let steps = links
            .steps
            .iter()
            .filter_map(|step| report.steps.get(*step));
        NewEdge {
            entrance: links.entrance.front_door(),
            global,
            local: mean_confidence(steps).unwrap_or(global),
            pages: u32::try_from(links.steps.len()).unwrap_or(u32::MAX),
        }
    };
    links.into_iter().map(edge).collect()
}

/// Mean over the pages with an opinion; none if there are none. The confidence of a mute page says
/// nothing about its links, so an edge from mute pages alone has the confidence of the site.
fn mean_confidence<'a>(steps: impl Iterator<Item = &'a PageStep>) -> Option<f64> {
    let (mut sum, mut pages) = (0.0, 0_u32);
    for step in steps.filter(|step| step.has_opinion()) {
        sum += step.confidence.get();
        pages += 1;
    }
    (pages > 0).then(|| sum / f64::from(pages))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::{
        FoundLink, LinkKind, ModelFingerprint, PageConfidence, PageKind, SiteConfidence, SiteVisit,
        StepOutcome, TellingWords, TransversalLink,
    };

    fn page(text: &str) -> PageUrl {
        text.parse().unwrap()
    }

    fn step(path: &str, confidence: f64, outcome: StepOutcome) -> PageStep {
        PageStep {
            url: page(&format!("https://w.example{path}")),
            kind: PageKind::Inner,
            outcome,
            confidence: PageConfidence::new(confidence).unwrap(),
            site_confidence: SiteConfidence::NEUTRAL,
            telling_words: TellingWords::default(),
            transversal_links: 1,
        }
    }

    fn link(url: &str, step: usize, nofollow: bool) -> FoundLink {
        let page = page(url);
        FoundLink {
            link: TransversalLink {
                site: page.site(),
                page,
                anchor: String::new(),
                kind: LinkKind::Anchor,
                nofollow,
            },
            step,
        }
    }

    fn report(confidence: f64, steps: Vec<PageStep>, links: Vec<FoundLink>) -> SiteReport {
        let visit = SiteVisit::at(&page("https://w.example/"));
        SiteReport {
            confidence: SiteConfidence::new(confidence).unwrap(),
            steps,
            transversal_links: links,
            ..SiteReport::interrupted(visit, ModelFingerprint::from_bits(1))
        }
    }

    /// Figure 3 of the paper: W has confidence 0.6, and two of its pages, with 0.9 and 0.5,
    /// refer to pages of U.
    #[test]
    fn figure_three() {
        let steps = vec![
            step("/a", 0.9, StepOutcome::Spoke),
            step("/b", 0.5, StepOutcome::Spoke),
        ];
        let links = vec![
            link("https://u.example/1", 0, false),
            link("https://u.example/2", 0, false),
            link("https://u.example/1", 1, false),
        ];
        let edges = edges_of(&report(0.6, steps, links));
        let [edge] = &edges[..] else {
            panic!("one edge: {edges:?}");
        };
        assert!((edge.global - 0.6).abs() < 1e-12);
        assert!((edge.local - 0.7).abs() < 1e-12);
        assert_eq!(
            (edge.pages, &edge.entrance),
            (2, &page("https://u.example/"))
        );
    }

    #[test]
    fn mute_pages_are_left_out_and_alone_weigh_as_their_site() {
        let steps = vec![
            step("/a", 0.9, StepOutcome::Spoke),
            step("/b", 0.5, StepOutcome::Mute),
        ];
        let links = vec![
            link("https://both.example/", 0, false),
            link("https://both.example/", 1, false),
            link("https://mute.example/", 1, false),
        ];
        let edges = edges_of(&report(0.8, steps, links));
        let local: Vec<f64> = edges.iter().map(|edge| edge.local).collect();
        assert!((local[0] - 0.9).abs() < 1e-12);
        assert!((local[1] - 0.8).abs() < 1e-12);
    }

    #[test]
    fn nofollow_links_are_no_edges_and_edges_are_in_the_order_found() {
        let steps = vec![step("/", 0.9, StepOutcome::Spoke)];
        let links = vec![
            link("http://www.z.example/deep", 0, false),
            link("https://spam.example/", 0, true),
            link("https://a.example/", 0, false),
        ];
        let edges = edges_of(&report(0.8, steps, links));
        let entrances: Vec<&str> = edges.iter().map(|edge| edge.entrance.as_str()).collect();
        assert_eq!(entrances, ["http://www.z.example/", "https://a.example/"]);
    }
}
