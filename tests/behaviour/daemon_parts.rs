//! A daemon assembled through the library: with a fetcher of the caller's own, and with a store that
//! is written to from outside as well.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sitescout::config::Settings;
use sitescout::external::TopicCrawl;
use sitescout::fetch::{ErrorKind, FetchError, Fetcher, PageSource};
use sitescout::service::{Plan, PlannedTopic, Request, Service, ServiceError};
use sitescout::store::{Edit, EditStore, JudgedSite, KeyValueStore, ReadStore, TopicId};
use sitescout::telemetry::Metrics;
use sitescout::web::{FetchedPage, NoAnswer, PageUrl, SiteId, StepOutcome};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::scripted_web::{ScriptedWeb, model, sailing};

const LONGEST: Duration = Duration::from_mins(2);

/// A fetcher as another crate would write it, with its own error.
struct Foreign(Arc<ScriptedWeb>);

#[async_trait]
impl Fetcher for Foreign {
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
        if page.site().as_str() == "slow.example" {
            let error = FetchError::new(ErrorKind::TooSlow, "the renderer gave up");
            return Err(error.with_robots_requests(2));
        }
        self.0.fetch(page).await
    }
}

fn scripted() -> Arc<ScriptedWeb> {
    let links = [
        "/a",
        "http://slow.example/",
        "http://blocked.example/",
        "http://quay.example/",
    ];
    let web = ScriptedWeb::default()
        .page("http://hub.example/", &sailing(0, &links))
        .page("http://hub.example/a", &sailing(1, &[]))
        .page("http://quay.example/", &sailing(2, &[]))
        .page("http://blocked.example/blocked", &sailing(3, &[]))
        .page("http://blocked.example/", &sailing(3, &["/blocked"]));
    Arc::new(web)
}

fn site(host: &str) -> SiteId {
    host.parse().expect("a host")
}

/// A daemon for one topic on the scripted web.
struct Running {
    web: Arc<ScriptedWeb>,
    store: Arc<KeyValueStore>,
    pages: Arc<PageSource>,
    metrics: Metrics,
    ask: mpsc::Sender<Request>,
    service: JoinHandle<Result<(), ServiceError>>,
    _place: TempDir,
}

impl Running {
    async fn start() -> Self {
        let place = TempDir::new().expect("a directory");
        let mut settings = Settings::default();
        settings.service.state = place.path().to_owned();
        settings.external.crawlers = 1;
        let web = scripted();
        let model = spawn_blocking(model).await.expect("a model");
        let store = Arc::new(KeyValueStore::in_memory().expect("memory"));
        let block = Edit::Block {
            site: site("blocked.example"),
            note: String::new(),
        };
        store.edit(block).await.expect("an edit");
        let pages = Arc::new(PageSource::of(Arc::new(Foreign(Arc::clone(&web)))));
        let metrics = Metrics::new();
        let service = Service {
            listener: Service::listen(([127, 0, 0, 1], 0).into(), "service").expect("an address"),
            api_listener: None,
            store: Arc::clone(&store) as _,
            pages: Arc::clone(&pages),
            metrics: metrics.clone(),
        };
        let plan = Plan {
            topics: vec![PlannedTopic {
                crawl: TopicCrawl::new("sailing", model, &settings).expect("a fit model"),
                starts: vec!["http://hub.example/".parse().expect("an address")],
            }],
            settings,
            token: None,
        };
        let (ask, requests) = mpsc::channel(1);
        let again = Arc::new(|| Err("nothing is read again".to_owned()));
        Self {
            service: tokio::spawn(service.run(plan, requests, again)),
            web,
            store,
            pages,
            metrics,
            ask,
            _place: place,
        }
    }

    /// The topic and its verdicts, when all four sites are judged.
    async fn judged(&self) -> (TopicId, Vec<JudgedSite>) {
        let judged = async {
            loop {
                sleep(Duration::from_millis(20)).await;
                let topics = self.store.topics().await.expect("topics");
                let Some((_, topic)) = topics.first() else {
                    continue;
                };
                let judged = self.store.judged(*topic, 0, 9).await.expect("verdicts");
                if judged.len() == 4 {
                    return (*topic, judged);
                }
            }
        };
        timeout(LONGEST, judged).await.expect("four verdicts")
    }

    async fn stop(self) {
        self.ask.send(Request::Stop).await.expect("a service");
        let ended = timeout(LONGEST, self.service).await.expect("an end");
        ended.expect("no panic").expect("a good end");
    }
}

#[tokio::test]
async fn a_daemon_crawls_whatever_web_it_is_given() {
    let daemon = Running::start().await;
    let (topic, judged) = daemon.judged().await;
    let mut shown: Vec<(String, String)> = judged
        .iter()
        .map(|judged| (judged.site.to_string(), judged.verdict.to_string()))
        .collect();
    shown.sort();
    let shown: Vec<(&str, &str)> = shown.iter().map(|(host, say)| (&**host, &**say)).collect();
    assert_eq!(
        shown,
        [
            ("blocked.example", "undecided (blocked)"),
            ("hub.example", "relevant"),
            ("quay.example", "relevant"),
            ("slow.example", "undecided (unreachable)"),
        ]
    );
    let slow = daemon.store.site(topic, &site("slow.example")).await;
    let evidence = slow.expect("a read").expect("a site").evidence;
    let mut steps = evidence.iter().flat_map(|evidence| &evidence.steps);
    assert!(steps.all(|step| step.outcome == StepOutcome::Unanswered(NoAnswer::TooSlow)));
    let asked = daemon.web.asked();
    assert!(!asked.iter().any(|path| path == "/blocked"), "{asked:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn pauses_and_blocks_that_others_write_into_the_store_are_followed() {
    let daemon = Running::start().await;
    let (topic, _) = daemon.judged().await;
    let paused = "reason=\"paused\",state=\"idle\",topic=\"sailing\"} 1";
    assert!(!daemon.metrics.render().contains(paused));
    let page: PageUrl = "http://quay.example/".parse().expect("an address");
    assert!(daemon.pages.fetch(&page).await.is_ok());
    // Not through the API of this daemon.
    let block = Edit::Block {
        site: page.site(),
        note: String::new(),
    };
    let is_paused = true;
    for edit in [block, Edit::Pause { topic, is_paused }] {
        daemon.store.edit(edit).await.expect("an edit");
    }
    let followed = async {
        while !daemon.metrics.render().contains(paused) || daemon.pages.fetch(&page).await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONGEST, followed).await.expect("both are followed");
    for edit in [
        Edit::Unblock { site: page.site() },
        Edit::Pause {
            topic,
            is_paused: false,
        },
    ] {
        daemon.store.edit(edit).await.expect("an edit");
    }
    let followed = async {
        while daemon.metrics.render().contains(paused) || daemon.pages.fetch(&page).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONGEST, followed).await.expect("both are followed");
    daemon.stop().await;
}

#[tokio::test]
async fn a_blocked_host_is_not_asked_whatever_the_pages_come_from() {
    let web = scripted();
    let pages = PageSource::of(Arc::clone(&web) as _);
    let page: PageUrl = "http://blocked.example/".parse().expect("an address");
    pages.set_block(&page.site(), true);
    let refused = pages.fetch(&page).await.expect_err("a block");
    assert_eq!(refused.kind, ErrorKind::Blocked);
    assert_eq!(web.asked(), [""; 0]);
    pages.set_block(&page.site(), false);
    assert!(pages.fetch(&page).await.is_ok());
    assert_eq!(pages.finish().await.expect("nothing is recorded"), None);
}
