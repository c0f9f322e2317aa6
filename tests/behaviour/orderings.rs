//! A crawl uses every answer of its ordering: one of our own, whose answers are those of no
//! strategy, crawls a scripted web.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use sitescout::config::{ExternalSettings, PageClassifierChoice, Settings};
use sitescout::external::{
    BorderOrdering, CrawlMetrics, CrawlerSlots, EndReason, TopicCrawl, ordering,
};
use sitescout::internal::{PageOrdering, PagePriority, VisitPhase, WaitingPage};
use sitescout::store::{
    Averaging, DumpStore, JudgedSite, KeyValueStore, NewEdge, Rank, Ranking, ReadStore, Standing,
    TopicTotals,
};
use sitescout::telemetry::Metrics;
use sitescout::web::{EvidenceRule, Purpose, SiteConfidence, SiteReport};
use tokio::runtime::Runtime;

use crate::scripted_web::{ScriptedWeb, model, mute, sailing};

/// Answers as no strategy does. Every test names the answer that it is about.
struct Odd {
    page_classifier: Option<PageClassifierChoice>,
}

/// Frames and links alike in the reverse of the order found.
#[derive(Debug)]
struct LastFound;

/// What a crawl did with one site.
struct Visited {
    judged: JudgedSite,
    /// The rank in the list of verdicts.
    rank: f64,
    /// The pages requested, in order.
    paths: Vec<String>,
}

#[deny(
    clippy::missing_trait_methods,
    reason = "a decision left to its default would not be tested"
)]
impl Ranking for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }

    /// By the number of recommending domains; among equals the first discovered.
    fn rank(&self, standing: &Standing) -> Rank {
        Rank {
            value: f64::from(standing.domains) / 10.0,
            tie: 0,
        }
    }

    fn averaging(&self) -> Averaging {
        Averaging::ByEdge
    }
}

#[deny(
    clippy::missing_trait_methods,
    reason = "a decision left to its default would not be tested"
)]
impl BorderOrdering for Odd {
    fn weigh(&self, report: &SiteReport) -> Vec<NewEdge> {
        let mut edges = ordering(&ExternalSettings::default()).weigh(report);
        edges.retain(|edge| edge.entrance.site().as_str() != "unwanted.example");
        edges
    }

    fn recommendation(&self, standing: &Standing) -> f64 {
        0.125 + f64::from(standing.edges) / 4.0
    }

    fn prior(&self, totals: &TopicTotals) -> SiteConfidence {
        let prior = if totals.relevant > 0 { 0.6 } else { 0.4 };
        SiteConfidence::new(prior).expect("a probability")
    }

    fn evidence_rule(&self) -> EvidenceRule {
        EvidenceRule::Product
    }

    /// The reverse of what strategies answer: no links while the border is short.
    fn purpose(&self, is_border_scarce: bool) -> Purpose {
        if is_border_scarce {
            Purpose::Verdict
        } else {
            Purpose::VerdictAndManyLinks
        }
    }

    fn page_ordering(&self) -> Arc<dyn PageOrdering> {
        Arc::new(LastFound)
    }

    fn page_classifier(&self) -> Option<PageClassifierChoice> {
        self.page_classifier
    }
}

impl PageOrdering for LastFound {
    #[allow(clippy::cast_precision_loss, reason = "no test finds 2^53 pages")]
    fn rank(&self, page: &WaitingPage<'_>, _: VisitPhase) -> PagePriority {
        PagePriority {
            is_preferred: false,
            value: page.found as f64,
        }
    }
}

/// Four pages about sailing; the first holds the links. Two of them are enough for a verdict by the
/// product of their odds.
fn site(web: ScriptedWeb, host: &str, links: &[&str]) -> ScriptedWeb {
    let links = [&["/a", "/b", "/c"], links].concat();
    web.page(&format!("http://{host}/"), &sailing(0, &links))
        .page(&format!("http://{host}/a"), &sailing(3, &[]))
        .page(&format!("http://{host}/b"), &sailing(4, &[]))
        .page(&format!("http://{host}/c"), &sailing(5, &[]))
}

/// East and west are of one registrable domain, and both recommend the last to be discovered.
fn web() -> ScriptedWeb {
    let hub = [
        "http://mute.example/",
        "http://east.club.example/",
        "http://west.club.example/",
    ];
    let east = [
        "http://unwanted.example/",
        "http://once.example/",
        "http://twice.example/",
    ];
    let web = ScriptedWeb::default().page("http://mute.example/", &mute("x", &[]));
    let web = site(web, "hub.example", &hub);
    let web = site(web, "east.club.example", &east);
    let web = site(web, "west.club.example", &["http://twice.example/"]);
    let web = site(web, "once.example", &[]);
    let web = site(web, "twice.example", &[]);
    site(web, "unwanted.example", &[])
}

fn settings() -> Settings {
    let text = "external.crawlers = 1\nexternal.scarce_border = 2\n";
    Settings::parse(text).expect("settings")
}

/// The sites in the order of their visits. Crawled once for all tests.
static CRAWLED: LazyLock<Vec<Visited>> = LazyLock::new(|| {
    let odd = Odd {
        page_classifier: None,
    };
    let crawl = TopicCrawl::by(Arc::new(odd), "sailing", model(), &settings());
    let crawl = crawl.expect("a fit model");
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let store = Arc::new(KeyValueStore::in_memory().expect("memory"));
        let metrics = CrawlMetrics::register(&Metrics::new());
        let slots = CrawlerSlots::new(1);
        let opening = crawl.open(store.clone(), Arc::new(web()), &metrics, &slots);
        let external = opening.await.expect("a crawler");
        let start = "http://hub.example/".parse().expect("an address");
        external.start_at(vec![start]).await.expect("a start");
        let crawl = external.crawl(std::future::pending(), |_, _| {});
        let (reason, _) = crawl.await.expect("an end");
        assert_eq!(reason, EndReason::BorderEmpty);
        visited(&store).await
    })
});

async fn visited(store: &KeyValueStore) -> Vec<Visited> {
    let topic = store.topics().await.expect("topics")[0].1;
    let ranks = ranks(store).await;
    let mut visited = Vec::new();
    for judged in store.judged(topic, 0, 99).await.expect("verdicts") {
        let detail = store.site(topic, &judged.site).await.expect("a read");
        let evidence = detail.expect("a site").evidence.expect("evidence");
        let path = |url: &str| {
            let url = url::Url::parse(url).expect("an address");
            url.path().to_owned()
        };
        visited.push(Visited {
            rank: ranks[judged.site.as_str()],
            paths: evidence.steps.iter().map(|step| path(&step.url)).collect(),
            judged,
        });
    }
    visited
}

/// The ranks by which sites were chosen, from a dump.
async fn ranks(store: &KeyValueStore) -> BTreeMap<String, f64> {
    let mut dump = store.dump();
    let mut ranks = BTreeMap::new();
    while let Some(line) = dump.recv().await {
        let record = serde_json::to_value(line.expect("a record")).expect("JSON");
        if record["record"] == "verdict" {
            let host = record["host"].as_str().expect("a host").to_owned();
            ranks.insert(host, record["verdict"]["rank"].as_f64().expect("a rank"));
        }
    }
    ranks
}

fn visit(host: &str) -> &'static Visited {
    let mut visited = CRAWLED.iter();
    let visit = visited.find(|visited| visited.judged.site.as_str() == host);
    visit.unwrap_or_else(|| panic!("{host} was not visited"))
}

/// `rank` and `averaging`: by domain, twice.example would be recommended by one, as once.example is,
/// which was discovered first. `weigh`: the site without an edge is not visited.
#[test]
fn sites_are_visited_in_the_order_of_the_ordering_and_by_its_edges_alone() {
    let hosts: Vec<&str> = CRAWLED
        .iter()
        .map(|visited| visited.judged.site.as_str())
        .collect();
    assert_eq!(
        hosts,
        [
            "hub.example",
            "mute.example",
            "east.club.example",
            "west.club.example",
            "twice.example",
            "once.example",
        ]
    );
}

#[test]
fn the_recommendation_of_the_ordering_is_the_rank_in_the_list() {
    for (host, rank) in [
        ("hub.example", 0.125),
        ("once.example", 0.375),
        ("twice.example", 0.625),
    ] {
        let listed = visit(host).rank;
        assert!((listed - rank).abs() < 1e-6, "{host}: {listed}");
    }
}

/// A site whose pages are mute keeps the confidence that it was visited with.
#[test]
fn the_prior_of_the_ordering_is_the_confidence_before_anything_is_read() {
    let confidence = visit("mute.example").judged.confidence;
    assert!((confidence - 0.6).abs() < 1e-6, "{confidence}");
}

/// The first and the last site are visited while the border is shorter than two sites.
#[test]
fn the_purpose_of_the_ordering_decides_how_many_pages_are_read() {
    for (host, pages) in [
        ("hub.example", 2),
        ("east.club.example", 4),
        ("west.club.example", 4),
        ("twice.example", 4),
        ("once.example", 2),
    ] {
        assert_eq!(visit(host).paths.len(), pages, "{host}");
        assert!(visit(host).judged.verdict.is_relevant(), "{host}");
    }
}

/// By the damped sum, which is the default, it would be three pages: one of them more.
#[test]
fn pages_are_combined_by_the_rule_of_the_ordering() {
    let hub = &visit("hub.example").judged;
    assert_eq!((hub.pages, hub.verdict.is_relevant()), (2, true));
}

#[test]
fn pages_are_read_in_the_page_ordering_of_the_ordering() {
    assert_eq!(visit("hub.example").paths, ["/", "/c"]);
    let twice = &visit("twice.example").paths;
    assert_eq!(*twice, ["/", "/c", "/b", "/a"]);
}

#[test]
fn a_model_without_the_page_classifier_of_the_ordering_is_refused() {
    let crawl_by = |page_classifier| {
        let odd = Arc::new(Odd { page_classifier });
        TopicCrawl::by(odd, "sailing", model(), &settings()).map(|_| ())
    };
    assert_eq!(crawl_by(Some(PageClassifierChoice::Linear)), Ok(()));
    let refused = crawl_by(Some(PageClassifierChoice::Centroid));
    let refused = refused.expect_err("another page classifier").to_string();
    assert!(refused.starts_with("the strategy `odd` needs"), "{refused}");
}
