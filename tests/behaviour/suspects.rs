//! The contract of `CrawlStore` for sites during whose visits the process was killed, checked on every
//! store that outlives its process. `poison.rs` kills the real program.

use std::sync::Arc;

use sitescout::store::{BorderCaps, ClaimedSite, TakeRequest, TopicOpening};
use sitescout::telemetry::clock;
use sitescout::web::{UndecidedReason, Verdict};

use crate::stores::{FirstCome, Place, StoreFixture, durable_places, opening};

/// A process that has opened two topics of a store.
struct Process {
    many: StoreFixture,
    deadly: StoreFixture,
}

// === impl Process ===

impl Process {
    async fn start(place: &Place) -> Self {
        let store = place.open().await;
        let open = async |name: &str| {
            let opening = TopicOpening {
                name: name.to_owned(),
                caps: BorderCaps::per_domain(u32::MAX),
                recheck_after: None,
                ..opening(FirstCome)
            };
            let topic = store.open_topic(opening).await.expect("a topic");
            StoreFixture::of(Arc::clone(&store), topic)
        };
        Self {
            many: open("many").await,
            deadly: open("deadly").await,
        }
    }

    async fn kill(self, place: &Place) {
        drop(self.many);
        place.kill(self.deadly.store).await;
    }
}

async fn take(topic: &StoreFixture, most: usize) -> Vec<ClaimedSite> {
    topic.take_sites(TakeRequest::any(most, clock::now())).await
}

/// The hosts that are handed out, and whether they are poison.
async fn take_hosts(topic: &StoreFixture, most: usize) -> Vec<(String, bool)> {
    let sites = take(topic, most).await.into_iter();
    sites
        .map(|taken| (taken.site().to_string(), taken.is_poison))
        .collect()
}

#[tokio::test]
async fn a_site_that_kills_is_found_beside_another_topic_that_always_has_work() {
    for place in durable_places() {
        let first = Process::start(&place).await;
        let harmless = ["a.example", "b.example", "c.example", "d.example"];
        first.many.enter(&harmless, false).await;
        first.deadly.enter(&["x.example"], false).await;
        drop(first);
        for _ in 1..=2 {
            let process = Process::start(&place).await;
            assert_eq!(take(&process.many, 2).await.len(), 2);
            assert_eq!(take(&process.deadly, 2).await.len(), 1);
            process.kill(&place).await;
        }
        // All three are suspects. Those that end are cleared, each after a visit alone.
        let process = Process::start(&place).await;
        for host in ["a.example", "b.example"] {
            assert_eq!(
                take_hosts(&process.many, 2).await,
                [(host.to_owned(), false)]
            );
            assert_eq!(take(&process.deadly, 2).await, []);
            let parked = Verdict::Undecided(UndecidedReason::Parked);
            process.many.judge(host, parked, Vec::new()).await;
        }
        assert_eq!(take(&process.deadly, 2).await.len(), 1);
        process.kill(&place).await;
        for death in 1..=2 {
            let process = Process::start(&place).await;
            let taken = take(&process.many, 2).await;
            assert_eq!(taken, [], "death {death}: the suspect comes first");
            let taken = take_hosts(&process.deadly, 2).await;
            assert_eq!(taken, [("x.example".to_owned(), false)], "death {death}");
            process.kill(&place).await;
        }
        let process = Process::start(&place).await;
        assert_eq!(take(&process.many, 2).await.len(), 2);
        let taken = take_hosts(&process.deadly, 2).await;
        assert_eq!(taken, [("x.example".to_owned(), true)]);
    }
}

#[tokio::test]
async fn a_process_that_ends_by_itself_leaves_no_suspects() {
    for place in durable_places() {
        let first = Process::start(&place).await;
        let hosts = ["a.example", "b.example"];
        first.many.enter(&hosts, false).await;
        drop(first);
        for _ in 1..=5 {
            let process = Process::start(&place).await;
            let taken = take_hosts(&process.many, 9).await;
            assert_eq!(taken, hosts.map(|host| (host.to_owned(), false)));
        }
    }
}
