//! The daemon: crawls for its topics for months, and says how it is.
//!
//! | file | question |
//! |---|---|
//! | `topic_loop.rs` | what a topic does now, and why it does nothing |
//! | `board.rs` | how all topics stand: states, totals, the status line |
//! | `probes.rs` | `/metrics`, `/livez`, `/readyz` |
//! | `systemd.rs` | ready, status, watchdog, reloading, stopping |
//! | `disk.rs` | is there room left |
//! | `api/` | what people and programs ask, and what they may change |
//! | `dashboard.rs` | the pages that people see |
//! | `server.rs` | how long, and how many may ask |
//! | `lists.rs` | the list of each topic as a file |
//!
//! What is to be done stands in one place, the `DaemonState`; every loop follows them and beats
//! while it does. Settings and topics are read by whoever starts the service, and read again
//! by the same means when it is asked to reload.
//!
//! Invariants:
//! - A topic that does not crawl has a reason, and the reason can be read off the figures.
//! - Idle and waiting loops beat; only a loop that does not come round is stuck.
//! - A reload is taken up whole or not at all.

mod api;
mod dashboard;
mod disk;
mod lists;
mod probes;
mod server;
mod status_board;
mod steering;
mod systemd;
mod topic_loop;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::config::Settings;
use crate::external::{CrawlMetrics, CrawlerSlots, TopicCrawl, latest_end};
use crate::fetch::{Fetcher, PageSource};
use crate::store::{CrawlStore, EditStore, ReadStore, Store, StoreError};
use crate::telemetry::{self, Heartbeats, Metrics, clock};
use crate::web::PageUrl;
use api::Api;
pub(crate) use api::Token;
use status_board::{IdleReason, StatusBoard};
use steering::Steering;
use systemd::Systemd;
use topic_loop::TopicLoop;

/// The status line is renewed so often, and the disk looked at.
const TICK: Duration = Duration::from_secs(5);

/// A loop that has not come round for this time is stuck. All come round every few seconds.
const STUCK: Duration = Duration::from_secs(30);

/// What the service is to do: everything that a reload reads again.
pub struct Plan {
    /// The settings.
    pub settings: Settings,
    /// What is crawled for.
    pub topics: Vec<PlannedTopic>,
    /// What writing through the API needs; without one nobody may.
    pub token: Option<Token>,
}

/// A topic with everything it needs.
#[derive(Clone)]
pub struct PlannedTopic {
    /// What is crawled for, and how. It is idle while as many sites are found as are wanted.
    pub crawl: TopicCrawl,
    /// Where its crawl begins.
    pub starts: Vec<PageUrl>,
}

/// What is asked of the service from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// End when the visits under way have ended.
    Stop,
    /// Read settings and topics again.
    Reload,
}

/// What a service works with.
pub struct Service {
    /// Where figures and probes are served.
    pub listener: std::net::TcpListener,
    /// Where the API and the dashboard are served, if they are.
    pub api_listener: Option<std::net::TcpListener>,
    /// Where everything found is kept.
    pub store: Arc<dyn Store>,
    /// Where pages come from.
    pub pages: Arc<PageSource>,
    /// The figures of the process.
    pub metrics: Metrics,
}

/// How the plan is read anew.
pub(crate) type ReadPlan = Arc<dyn Fn() -> Result<Plan, String> + Send + Sync>;

/// Why a service could not go on.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// An address cannot be had.
    #[error("cannot listen at {0}; set `listen` in [{1}] to a free address")]
    Listen(SocketAddr, &'static str, #[source] io::Error),
    /// What was found can no longer be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A fault of ours.
    #[error("a loop of the service broke off")]
    Broken(#[from] JoinError),
}

/// The loops of all topics.
struct TopicLoops<'s> {
    service: &'s Service,
    state: watch::Receiver<DaemonState>,
    slots: Arc<CrawlerSlots>,
    metrics: CrawlMetrics,
    board: Arc<StatusBoard>,
    heartbeats: Heartbeats,
    /// The topics that have a loop.
    at_work: BTreeSet<String>,
    loops: JoinSet<(String, Result<(), StoreError>)>,
}

/// What every loop is to do.
#[derive(Clone)]
struct DaemonState {
    plan: Arc<Plan>,
    /// Grows with every reload.
    edition: u64,
    is_disk_low: bool,
    /// The topics that somebody has paused.
    paused: Arc<BTreeSet<String>>,
    is_stopping: bool,
}

// === impl Service ===

impl Service {
    /// Takes an address of a section of the settings, before anything else is touched.
    pub fn listen(
        address: SocketAddr,
        section: &'static str,
    ) -> Result<std::net::TcpListener, ServiceError> {
        let listen = || {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        listen().map_err(|error| ServiceError::Listen(address, section, error))
    }

    /// Crawls until it is asked to stop. `again` reads the plan anew.
    pub async fn run(
        self,
        plan: Plan,
        mut requests: mpsc::Receiver<Request>,
        again: ReadPlan,
    ) -> Result<(), ServiceError> {
        self.pages
            .set_host_lists(plan.settings.external.host_lists());
        self.pages.set_blocks(self.store.all_blocks().await?);
        let heartbeats = Heartbeats::default();
        let board = Arc::new(StatusBoard::new(&self.metrics));
        let mut servers = JoinSet::new();
        let probes = probes::router(self.metrics.clone(), Arc::clone(&board), heartbeats.clone());
        servers.spawn(self.probes(&plan, probes.clone())?);
        let settings = &plan.settings.service;
        let (state, followed) = watch::channel(DaemonState {
            is_disk_low: disk::is_low(&settings.state, settings.low_disk, false),
            plan: Arc::new(plan),
            edition: 0,
            paused: Arc::new(steering::paused(&*self.store).await?),
            is_stopping: false,
        });
        let steering = Arc::new(Steering::new(
            Arc::clone(&self.store) as Arc<dyn EditStore>,
            Arc::clone(&self.pages),
            state.clone(),
        ));
        servers.spawn(Arc::clone(&steering).follow());
        if let Some(api) = self.api(&state, &board, &steering, probes)? {
            servers.spawn(api);
        }
        servers.spawn(lists::keep(
            Arc::clone(&self.store) as Arc<dyn ReadStore>,
            followed.clone(),
        ));
        let mut crew = TopicLoops {
            slots: CrawlerSlots::new(state.borrow().plan.settings.external.crawlers),
            metrics: CrawlMetrics::register(&self.metrics),
            service: &self,
            state: followed,
            board: Arc::clone(&board),
            heartbeats: heartbeats.clone(),
            at_work: BTreeSet::new(),
            loops: JoinSet::new(),
        };
        crew.begin();
        let mut systemd = Systemd::find();
        let mut tick = interval(systemd.watchdog().map_or(TICK, |limit| TICK.min(limit / 4)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failure = None;
        let mut end: Option<Instant> = None;
        let mut was_asked_to_stop = false;
        loop {
            tokio::select! {
                () = sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => {
                    tracing::warn!("not everything ended in time; it is done again after the next start");
                    break;
                }
                ended = crew.loops.join_next() => {
                    let error = match ended {
                        None => break,
                        Some(Ok((topic, Ok(())))) => {
                            crew.part_with(&topic);
                            continue;
                        }
                        Some(Ok((_, Err(error)))) => ServiceError::Store(error),
                        Some(Err(broken)) if broken.is_cancelled() => continue,
                        Some(Err(broken)) => ServiceError::Broken(broken),
                    };
                    failure.get_or_insert(error);
                    stop(&state, &board, &systemd);
                    end.get_or_insert(end_of(&state));
                }
                Some(request) = requests.recv() => match request {
                    Request::Reload if state.borrow().is_stopping => {}
                    Request::Reload => {
                        systemd.reloading();
                        self.reload(&state, &again).await;
                        crew.begin();
                        systemd.reloaded();
                    }
                    // Who asks twice does not want to wait for visits under way.
                    Request::Stop if was_asked_to_stop => crew.loops.abort_all(),
                    Request::Stop => {
                        was_asked_to_stop = true;
                        stop(&state, &board, &systemd);
                        end.get_or_insert(end_of(&state));
                    }
                },
                _ = tick.tick() => {
                    watch_disk(&state);
                    let stuck = heartbeats.stuck(STUCK);
                    if !stuck.is_empty() {
                        let loops = stuck.join(", ");
                        tracing::error!(loops, "stuck; the watchdog is not fed");
                    }
                    systemd.tell(&board.status(), board.unready().is_none(), stuck.is_empty());
                }
            }
        }
        servers.shutdown().await;
        failure.map_or(Ok(()), Err)
    }

    fn probes(
        &self,
        plan: &Plan,
        probes: Router,
    ) -> Result<impl Future<Output = ()> + use<>, ServiceError> {
        let wanted = plan.settings.service.listen;
        let listener = listening(&self.listener, "figures and probes are served");
        let listener = listener.map_err(|error| ServiceError::Listen(wanted, "service", error))?;
        Ok(probes::serve(listener, probes))
    }

    /// The server of the API, if there is to be one.
    fn api(
        &self,
        state: &watch::Sender<DaemonState>,
        board: &Arc<StatusBoard>,
        steering: &Arc<Steering>,
        probes: Router,
    ) -> Result<Option<impl Future<Output = ()> + use<>>, ServiceError> {
        let Some(listener) = &self.api_listener else {
            return Ok(None);
        };
        let settings = state.borrow().plan.settings.api.clone();
        let served = || {
            let listener = listening(listener, "the API is served")?;
            let is_loopback = listener.local_addr()?.ip().to_canonical().is_loopback();
            Ok((listener, is_loopback))
        };
        let (listener, is_loopback) = served().map_err(|error| {
            let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
            ServiceError::Listen(settings.listen.unwrap_or(unknown), "api", error)
        })?;
        let api = Api {
            store: Arc::clone(&self.store) as Arc<dyn EditStore>,
            pages: Arc::clone(&self.pages),
            metrics: self.metrics.clone(),
            board: Arc::clone(board),
            state: state.clone(),
            started: clock::now(),
            trials: Arc::new(Semaphore::new(api::TRIALS)),
            steering: Arc::clone(steering),
        };
        let routes = api::router(api, &settings, is_loopback, probes);
        Ok(Some(server::serve(listener, routes, settings.connections)))
    }

    /// Takes up what can be changed while running, and says what cannot.
    async fn reload(&self, state: &watch::Sender<DaemonState>, again: &ReadPlan) {
        let again = Arc::clone(again);
        let read = tokio::task::spawn_blocking(move || again()).await;
        let plan = match read.unwrap_or_else(|broken| Err(broken.to_string())) {
            Ok(plan) => plan,
            Err(error) => {
                tracing::error!(%error, "not reloaded; everything stays as it was");
                return;
            }
        };
        let old = Arc::clone(&state.borrow().plan);
        for what in needs_restart(&old, &plan) {
            tracing::warn!("{what} has changed, and is taken up at the next start only");
        }
        let plan = kept_to(&old, plan);
        telemetry::set_log_level(plan.settings.log.level);
        self.pages.set_pace(&plan.settings.fetch.politeness);
        self.pages
            .set_host_lists(plan.settings.external.host_lists());
        state.send_modify(|state| {
            state.plan = Arc::new(plan);
            state.edition += 1;
        });
        tracing::info!("reloaded");
    }
}

// === impl TopicLoops ===

impl TopicLoops<'_> {
    /// Begins a loop for every topic of the plan that has none.
    fn begin(&mut self) {
        let plan = Arc::clone(&self.state.borrow().plan);
        for topic in &plan.topics {
            let name = topic.crawl.name().to_owned();
            if !self.at_work.insert(name.clone()) {
                continue;
            }
            self.board.add(&name);
            let topic_loop = TopicLoop {
                name: name.clone(),
                store: Arc::clone(&self.service.store) as Arc<dyn CrawlStore>,
                fetcher: Arc::clone(&self.service.pages) as Arc<dyn Fetcher>,
                slots: Arc::clone(&self.slots),
                metrics: self.metrics.clone(),
                board: Arc::clone(&self.board),
                heartbeat: Arc::new(self.heartbeats.of_loop(&format!("topic {name}"))),
            };
            let run = topic_loop.run(self.state.clone());
            self.loops.spawn(async move { (name, run.await) });
        }
    }

    /// A loop has ended because its topic is no longer in the plan, or because all are to end.
    fn part_with(&mut self, topic: &str) {
        self.at_work.remove(topic);
        if !self.state.borrow().is_stopping {
            self.board.remove(topic);
            // It may be wanted again since.
            self.begin();
        }
    }
}

// === impl DaemonState ===

impl DaemonState {
    /// Why a topic is not crawled for at present, whatever it would find.
    fn reason_to_rest(&self, topic: &str) -> Option<IdleReason> {
        if self.paused.contains(topic) {
            return Some(IdleReason::Paused);
        }
        self.is_disk_low.then_some(IdleReason::LowDisk)
    }
}

/// A listener on the runtime; the log says where it is.
fn listening(listener: &std::net::TcpListener, what: &'static str) -> io::Result<TcpListener> {
    let listener = TcpListener::from_std(listener.try_clone()?)?;
    let address = listener.local_addr()?;
    tracing::info!(%address, "{what}");
    Ok(listener)
}

/// Tells all loops to end.
fn stop(state: &watch::Sender<DaemonState>, board: &StatusBoard, systemd: &Systemd) {
    systemd.stopping();
    board.stop();
    state.send_modify(|state| state.is_stopping = true);
}

fn end_of(state: &watch::Sender<DaemonState>) -> Instant {
    latest_end(&state.borrow().plan.settings.external)
}

fn watch_disk(state: &watch::Sender<DaemonState>) {
    state.send_if_modified(|state| {
        let settings = &state.plan.settings.service;
        let is_low = disk::is_low(&settings.state, settings.low_disk, state.is_disk_low);
        let has_changed = is_low != state.is_disk_low;
        state.is_disk_low = is_low;
        match (has_changed, is_low) {
            (true, true) => tracing::error!(
                state = %settings.state.display(),
                "the disk is nearly full; crawling pauses until there is room"
            ),
            (true, false) => tracing::info!("there is room on the disk again; crawling goes on"),
            (false, _) => {}
        }
        has_changed
    });
}

/// What has changed but cannot be taken up while running.
fn needs_restart(old: &Plan, new: &Plan) -> Vec<&'static str> {
    let (one, other) = (&old.settings, &new.settings);
    let mut fetch = other.fetch.clone();
    fetch.politeness.pause = one.fetch.politeness.pause;
    fetch.politeness.longest_wait = one.fetch.politeness.longest_wait;
    let changed = [
        (one.store != other.store, "[store]"),
        (
            one.fetch != fetch,
            "[fetch], beside `pause` and `longest_wait`,",
        ),
        (one.log.format != other.log.format, "the format of the log"),
        (
            one.external.crawlers != other.external.crawlers,
            "`crawlers`",
        ),
        (one.service.state != other.service.state, "`state`"),
        (one.service.listen != other.service.listen, "`listen`"),
        (one.api != other.api, "[api], beside the token,"),
    ];
    let changed = changed.into_iter().filter(|(has_changed, _)| *has_changed);
    changed.map(|(_, what)| what).collect()
}

/// The new plan, with what cannot be changed as it is.
fn kept_to(old: &Plan, new: Plan) -> Plan {
    let mut settings = new.settings;
    let kept = &old.settings;
    let politeness = settings.fetch.politeness;
    settings.fetch = kept.fetch.clone();
    settings.fetch.politeness.pause = politeness.pause;
    settings.fetch.politeness.longest_wait = politeness.longest_wait;
    settings.store = kept.store.clone();
    settings.log.format = kept.log.format;
    settings.external.crawlers = kept.external.crawlers;
    settings.service.state.clone_from(&kept.service.state);
    settings.service.listen = kept.service.listen;
    settings.api = kept.api.clone();
    Plan {
        settings,
        topics: new.topics,
        token: new.token,
    }
}
