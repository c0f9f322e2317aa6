//! A site is visited under a claim, which is renewed until the visit is recorded. If the claim is lost
//! meanwhile, the visit stops.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use sitescout::classify::SiteModel;
use sitescout::config::Settings;
use sitescout::external::{CrawlMetrics, CrawlerSlots, EndReason, ExternalCrawler, TopicCrawl};
use sitescout::fetch::{ErrorKind, FetchError, Fetcher};
use sitescout::store::{CLAIM_TERM, Claim, KeyValueStore, ReadStore, Recorded, TakeRequest};
use sitescout::telemetry::Metrics;
use sitescout::telemetry::clock::{self, TestClock};
use sitescout::web::{FetchedPage, PageUrl, SiteId, Transfer, Verdict};
use tokio::time::{Instant, sleep};

use crate::scripted_web::{model, mute};
use crate::stores::{StoreFixture, outcome};

/// More pages than are read before a lost claim is noticed.
const PAGES: usize = 100;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// Claims are renewed earlier. Paused time also goes on while the crawl waits for the store.
const NOTICED_AFTER: Duration = CLAIM_TERM;

/// Sites about nothing in particular, whose visits last for hours.
#[derive(Default)]
struct SlowWeb {
    /// Whether no site can be reached.
    is_down: bool,
    asked: Mutex<Vec<(String, Instant)>>,
}

// === impl SlowWeb ===

impl SlowWeb {
    /// When the pages of a site were requested.
    fn asked(&self, host: &str) -> Vec<Instant> {
        let asked = self.asked.lock().expect("no panic in between");
        let of_host = asked.iter().filter(|(asked, _)| asked == host);
        of_host.map(|(_, at)| *at).collect()
    }

    /// Waits for the second request to a site.
    async fn visited(&self, host: &str) {
        while self.asked(host).len() < 2 {
            sleep(Duration::from_secs(1)).await;
        }
    }
}

#[async_trait]
impl Fetcher for SlowWeb {
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
        let host = page.site().to_string();
        let asked = (host.clone(), Instant::now());
        self.asked.lock().expect("no panic in between").push(asked);
        if self.is_down {
            return Err(FetchError::new(ErrorKind::Unreachable, "no network"));
        }
        let links: Vec<String> = (0..2 * PAGES).map(|page| format!("/{page}")).collect();
        let mut links: Vec<&str> = links.iter().map(String::as_str).collect();
        if host == "short.example" {
            links.clear();
            sleep(5 * MINUTE).await;
        }
        sleep(MINUTE).await;
        let html = (
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static("text/html"),
        );
        Ok(FetchedPage {
            url: page.clone(),
            status: http::StatusCode::OK,
            headers: [html].into_iter().collect(),
            body: mute(&page.as_str().len().to_string(), &links).into(),
            truncated: false,
            transfer: Transfer::default(),
        })
    }
}

/// A crawl of the slow web, of whose claims the test can end any.
struct Crawl {
    web: Arc<SlowWeb>,
    fixture: StoreFixture,
    /// On a site that the test visits itself.
    own: Claim,
    metrics: Metrics,
}

// === impl Crawl ===

impl Crawl {
    /// One that has these sites to visit, and the crawler for it.
    async fn of(web: SlowWeb, hosts: &[&str], model: Arc<SiteModel>) -> (Self, ExternalCrawler) {
        let settings =
            format!("[internal]\npage_budget = {PAGES}\n[external]\ncrawlers = 3\ndrain = '1 h'\n");
        let settings = Settings::parse(&settings).expect("settings");
        let web = Arc::new(web);
        let store = Arc::new(KeyValueStore::in_memory().expect("memory"));
        let crawl = TopicCrawl::new("sailing", model, &settings).expect("a fit model");
        let metrics = Metrics::new();
        let registered = CrawlMetrics::register(&metrics);
        let slots = CrawlerSlots::new(settings.external.crawlers);
        let opening = crawl.open(store.clone(), web.clone(), &registered, &slots);
        let external = opening.await.expect("a crawler");
        let (_, topic) = store.topics().await.expect("topics").remove(0);
        let fixture = StoreFixture::of(store, topic);
        fixture.enter(&["own.example"], false).await;
        let mut own = fixture.take_sites(TakeRequest::any(1, clock::now())).await;
        fixture.enter(hosts, false).await;
        let crawl = Self {
            web,
            fixture,
            own: own.remove(0).claim,
            metrics,
        };
        (crawl, external)
    }

    /// Ends the claim of the crawler on a site by a report, as another visitor would. Returns when.
    async fn end_claim(&self, host: &str) -> Instant {
        let site: SiteId = host.parse().expect("a host");
        for number in self.own.number + 1..self.own.number + 99 {
            let claim = Claim {
                site: site.clone(),
                number,
                ..self.own.clone()
            };
            let ours = outcome(claim, Verdict::Irrelevant, Vec::new());
            let recorded = self.fixture.store.record(vec![ours]).await;
            if recorded.expect("a store") != [Recorded::Stale] {
                return Instant::now();
            }
        }
        panic!("no visit to {host} is under way");
    }

    fn assert_stopped(&self, host: &str, lost: Instant) {
        let asked = self.web.asked(host);
        let final_request = *asked.last().expect("a visit");
        let later = final_request.saturating_duration_since(lost);
        assert!(later < NOTICED_AFTER, "requested {later:?} later");
    }

    async fn verdict(&self, host: &str) -> Option<Verdict> {
        let site = host.parse().expect("a host");
        let (store, topic) = (&self.fixture.store, self.fixture.topic);
        let detail = store.site(topic, &site).await.expect("a read");
        let judged = detail.expect("a site").judged;
        judged.map(|judged| judged.verdict)
    }
}

/// Passes paused time in small steps: while the crawl waits for the store, it goes on to the next timer.
async fn pass(time: Duration) {
    for _ in 0..time.as_secs() {
        sleep(Duration::from_secs(1)).await;
    }
}

/// Runs a test in paused time.
fn in_paused_time<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(test)
}

#[test]
fn a_visit_whose_claim_is_lost_stops_without_a_report() {
    let model = model();
    for set_back in [Duration::ZERO, Duration::from_hours(12)] {
        in_paused_time(async {
            let began = SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 20_000);
            let clock = TestClock::starting_at(began);
            let hosts = ["lost.example", "kept.example"];
            let opening = Crawl::of(SlowWeb::default(), &hosts, Arc::clone(&model));
            let (crawl, external) = opening.await;
            let mut shown = Vec::new();
            let crawling = external.crawl(std::future::pending(), |judged, _| {
                shown.push(judged.site.to_string());
            });
            let losing = async {
                crawl.web.visited("lost.example").await;
                clock.set(began - set_back);
                crawl.end_claim("lost.example").await
            };
            let (ended, lost) = tokio::join!(crawling, losing);
            assert_eq!(ended.expect("an end").0, EndReason::BorderEmpty);
            crawl.assert_stopped("lost.example", lost);
            assert_eq!(crawl.web.asked("kept.example").len(), PAGES, "it goes on");
            assert_eq!(shown, ["kept.example"]);
            assert_eq!(
                crawl.verdict("lost.example").await,
                Some(Verdict::Irrelevant)
            );
            let visits = "sitescout_pages_per_visit_count{topic=\"sailing\"} 1";
            let rendered = crawl.metrics.render();
            assert!(rendered.lines().any(|line| line == visits), "{rendered}");
        });
    }
}

#[test]
fn a_crawl_that_drains_renews_its_claims_and_records_visits_as_they_end() {
    let model = model();
    in_paused_time(async {
        let hosts = ["lost.example", "kept.example", "short.example"];
        let (crawl, external) = Crawl::of(SlowWeb::default(), &hosts, model).await;
        let mut shown = Vec::new();
        let stop = crawl.web.visited("lost.example");
        let crawling = external.crawl(stop, |judged, _| {
            shown.push((judged.site.to_string(), Instant::now()));
        });
        let losing = async {
            crawl.web.visited("lost.example").await;
            pass(MINUTE).await;
            crawl.end_claim("lost.example").await
        };
        let (ended, lost) = tokio::join!(crawling, losing);
        let (reason, totals) = ended.expect("an end");
        assert_eq!(reason, EndReason::Stopped);
        crawl.assert_stopped("lost.example", lost);
        let kept = crawl.web.asked("kept.example").len();
        assert!(kept > 50, "its visit goes on for an hour: {kept}");
        assert!(kept < PAGES, "and no longer");
        let [(host, at)] = &shown[..] else {
            panic!("one verdict: {shown:?}");
        };
        assert_eq!(host, "short.example");
        assert!(*at < lost + 20 * MINUTE, "{:?} later", *at - lost);
        // The unfinished one, and that of the test.
        assert_eq!((totals.border, totals.taken), (1, 1));
    });
}

/// Such visits are held until it is known whether the network or the sites have failed.
#[test]
fn a_failed_visit_whose_claim_is_lost_is_not_repeated() {
    let model = model();
    in_paused_time(async {
        let dead: Vec<String> = (0..20).map(|at| format!("dead{at}.example")).collect();
        let mut hosts = vec!["lost.example"];
        hosts.extend(dead.iter().map(String::as_str));
        let web = SlowWeb {
            is_down: true,
            ..SlowWeb::default()
        };
        let (crawl, external) = Crawl::of(web, &hosts, model).await;
        let stop = pass(2 * HOUR);
        let crawling = external.crawl(stop, |judged, _| panic!("{} is judged", judged.site));
        let losing = async {
            pass(HOUR / 2).await;
            crawl.end_claim("lost.example").await
        };
        let (ended, lost) = tokio::join!(crawling, losing);
        assert_eq!(ended.expect("an end").0, EndReason::Stopped);
        crawl.assert_stopped("lost.example", lost);
        for host in &dead {
            let asked = crawl.web.asked(host);
            let is_probed = asked.iter().any(|at| *at > lost + NOTICED_AFTER);
            assert!(is_probed, "{host} is a probe for the network");
        }
    });
}
