//! The daemon: crawls for its topics for months, and reports its state.
//!
//! | file | what it does |
//! |---|---|
//! | `topic_loop.rs` | the loop of one topic: crawling, draining, idle |
//! | `status_board.rs` | states and totals of all topics, the status line |
//! | `steering.rs` | pauses and blocks |
//! | `probes.rs` | `/metrics`, `/livez`, `/readyz` |
//! | `systemd.rs` | ready, status, watchdog, reloading, stopping |
//! | `disk.rs` | free space on the disk |
//! | `api/` | the HTTP API |
//! | `dashboard.rs` | the dashboard's files |
//! | `server.rs` | connections to the API, and their limits |
//! | `lists.rs` | the list of each topic as a file |
//!
//! All loops follow one `DaemonState` in a watch channel, and send heartbeats. The caller reads
//! settings and topics and passes a function that reads them again at a reload.
//!
//! Invariants:
//! - A topic that does not crawl has a reason, and the reason is a label of a metric.
//! - Idle and waiting loops beat, too; a loop that does not is stuck.
//! - A reload is applied whole or not at all.

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

/// How often the status line is sent and the disk checked.
const TICK: Duration = Duration::from_secs(5);

/// A loop without a heartbeat for this time is stuck. All beat every few seconds.
const STUCK: Duration = Duration::from_secs(30);

/// What the service works on: everything that a reload reads again.
pub struct Plan {
    /// The settings, of which a reload applies some; the log names the others.
    pub settings: Settings,
    /// The topics to crawl for.
    pub topics: Vec<PlannedTopic>,
    /// The bearer token for writes through the API; without one they are refused.
    pub token: Option<Token>,
}

/// A topic with everything it needs.
#[derive(Clone)]
pub struct PlannedTopic {
    /// Name, model and goals. The topic is idle while as many sites are found as are wanted.
    pub crawl: TopicCrawl,
    /// Start sites.
    pub starts: Vec<PageUrl>,
}

/// A request from outside, such as by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Stop after the visits under way; a second time, at once.
    Stop,
    /// Read settings and topics again.
    Reload,
}

/// The daemon, before it runs.
pub struct Service {
    /// Where metrics and probes are served.
    pub listener: std::net::TcpListener,
    /// Where the API and the dashboard are served, if they are.
    pub api_listener: Option<std::net::TcpListener>,
    /// Holds everything found.
    pub store: Arc<dyn Store>,
    /// Fetches pages.
    pub pages: Arc<PageSource>,
    /// The metrics of the process.
    pub metrics: Metrics,
}

/// Reads the plan again, for a reload.
pub(crate) type ReadPlan = Arc<dyn Fn() -> Result<Plan, String> + Send + Sync>;

/// Why a service stopped or could not start.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// An address cannot be bound.
    #[error("cannot listen at {0}; set `listen` in [{1}] to a free address")]
    Listen(SocketAddr, &'static str, #[source] io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A bug.
    #[error("a loop of the service panicked")]
    Broken(#[from] JoinError),
}

struct TopicLoops<'s> {
    service: &'s Service,
    state: watch::Receiver<DaemonState>,
    slots: Arc<CrawlerSlots>,
    metrics: CrawlMetrics,
    board: Arc<StatusBoard>,
    heartbeats: Heartbeats,
    /// The topics that have a loop.
    running: BTreeSet<String>,
    loops: JoinSet<(String, Result<(), StoreError>)>,
}

/// What all loops follow.
#[derive(Clone)]
struct DaemonState {
    plan: Arc<Plan>,
    /// Incremented by every reload.
    edition: u64,
    is_disk_low: bool,
    paused: Arc<BTreeSet<String>>,
    is_stopping: bool,
}

// === impl Service ===

impl Service {
    /// Binds `listen` of a section of the settings, to fail early if the address is taken.
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

    /// Crawls until a [`Request::Stop`]. `read_plan` reads the plan for a reload.
    pub async fn run(
        self,
        plan: Plan,
        mut requests: mpsc::Receiver<Request>,
        read_plan: ReadPlan,
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
        let mut topic_loops = TopicLoops {
            slots: CrawlerSlots::new(state.borrow().plan.settings.external.crawlers),
            metrics: CrawlMetrics::register(&self.metrics),
            service: &self,
            state: followed,
            board: Arc::clone(&board),
            heartbeats: heartbeats.clone(),
            running: BTreeSet::new(),
            loops: JoinSet::new(),
        };
        topic_loops.start();
        let mut systemd = Systemd::find();
        let mut tick = interval(systemd.watchdog().map_or(TICK, |limit| TICK.min(limit / 4)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failure = None;
        let mut end: Option<Instant> = None;
        let mut was_asked_to_stop = false;
        loop {
            tokio::select! {
                () = sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => {
                    tracing::warn!("not all visits ended in time; they are repeated after the next start");
                    break;
                }
                ended = topic_loops.loops.join_next() => {
                    let error = match ended {
                        None => break,
                        Some(Ok((topic, Ok(())))) => {
                            topic_loops.remove(&topic);
                            continue;
                        }
                        Some(Ok((_, Err(error)))) => ServiceError::Store(error),
                        Some(Err(error)) if error.is_cancelled() => continue,
                        Some(Err(error)) => ServiceError::Broken(error),
                    };
                    failure.get_or_insert(error);
                    stop(&state, &board, &systemd);
                    end.get_or_insert(drain_deadline(&state));
                }
                Some(request) = requests.recv() => match request {
                    Request::Reload if state.borrow().is_stopping => {}
                    Request::Reload => {
                        systemd.reloading();
                        self.reload(&state, &read_plan).await;
                        topic_loops.start();
                        systemd.reloaded();
                    }
                    // The second request does not wait for visits under way.
                    Request::Stop if was_asked_to_stop => topic_loops.loops.abort_all(),
                    Request::Stop => {
                        was_asked_to_stop = true;
                        stop(&state, &board, &systemd);
                        end.get_or_insert(drain_deadline(&state));
                    }
                },
                _ = tick.tick() => {
                    check_disk(&state);
                    let stuck = heartbeats.stuck(STUCK);
                    if !stuck.is_empty() {
                        let loops = stuck.join(", ");
                        tracing::error!(loops, "a loop is stuck; the watchdog gets no heartbeat");
                    }
                    systemd.report(&board.status(), board.unready().is_none(), stuck.is_empty());
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
        let listener = listening(&self.listener, "metrics and probes are served");
        let listener = listener.map_err(|error| ServiceError::Listen(wanted, "service", error))?;
        Ok(probes::serve(listener, probes))
    }

    /// The server of the API, if it has an address.
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
            trials: Arc::new(Semaphore::new(api::MAX_TRIALS)),
            steering: Arc::clone(steering),
        };
        let routes = api::router(api, &settings, is_loopback, probes);
        Ok(Some(server::serve(listener, routes, settings.connections)))
    }

    /// Applies what can change while running, and logs what cannot.
    async fn reload(&self, state: &watch::Sender<DaemonState>, read_plan: &ReadPlan) {
        let read_plan = Arc::clone(read_plan);
        let read = tokio::task::spawn_blocking(move || read_plan()).await;
        let plan = match read.unwrap_or_else(|panic| Err(panic.to_string())) {
            Ok(plan) => plan,
            Err(error) => {
                tracing::error!(%error, "not reloaded; the old settings stay in force");
                return;
            }
        };
        let old = Arc::clone(&state.borrow().plan);
        for what in needs_restart(&old, &plan) {
            tracing::warn!("{what} has changed; this takes effect at the next start only");
        }
        let plan = with_fixed_settings(&old, plan);
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
    /// Starts a loop for every topic of the plan that has none.
    fn start(&mut self) {
        let plan = Arc::clone(&self.state.borrow().plan);
        for topic in &plan.topics {
            let name = topic.crawl.name().to_owned();
            if !self.running.insert(name.clone()) {
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

    /// Called when a loop has ended: its topic left the plan, or the service stops.
    fn remove(&mut self, topic: &str) {
        self.running.remove(topic);
        if !self.state.borrow().is_stopping {
            self.board.remove(topic);
            // A reload may have added the topic again meanwhile.
            self.start();
        }
    }
}

// === impl DaemonState ===

impl DaemonState {
    /// Why a topic must be idle whether or not it has work.
    fn idle_reason(&self, topic: &str) -> Option<IdleReason> {
        if self.paused.contains(topic) {
            return Some(IdleReason::Paused);
        }
        self.is_disk_low.then_some(IdleReason::LowDisk)
    }
}

/// Moves a listener to the runtime, and logs its address.
fn listening(listener: &std::net::TcpListener, what: &'static str) -> io::Result<TcpListener> {
    let listener = TcpListener::from_std(listener.try_clone()?)?;
    let address = listener.local_addr()?;
    tracing::info!(%address, "{what}");
    Ok(listener)
}

/// Makes all loops drain and end.
fn stop(state: &watch::Sender<DaemonState>, board: &StatusBoard, systemd: &Systemd) {
    systemd.stopping();
    board.stop();
    state.send_modify(|state| state.is_stopping = true);
}

fn drain_deadline(state: &watch::Sender<DaemonState>) -> Instant {
    latest_end(&state.borrow().plan.settings.external)
}

fn check_disk(state: &watch::Sender<DaemonState>) {
    state.send_if_modified(|state| {
        let settings = &state.plan.settings.service;
        let is_low = disk::is_low(&settings.state, settings.low_disk, state.is_disk_low);
        let has_changed = is_low != state.is_disk_low;
        state.is_disk_low = is_low;
        match (has_changed, is_low) {
            (true, true) => tracing::error!(
                state = %settings.state.display(),
                "the disk is nearly full; crawling pauses until there is free space"
            ),
            (true, false) => tracing::info!("the disk has free space again; crawling resumes"),
            (false, _) => {}
        }
        has_changed
    });
}

/// Settings that have changed but cannot be applied while running.
fn needs_restart(old: &Plan, new: &Plan) -> Vec<&'static str> {
    let (old, new) = (&old.settings, &new.settings);
    let mut fetch = new.fetch.clone();
    fetch.politeness.pause = old.fetch.politeness.pause;
    fetch.politeness.longest_wait = old.fetch.politeness.longest_wait;
    let changed = [
        (old.store != new.store, "[store]"),
        (
            old.fetch != fetch,
            "[fetch] except `pause` and `longest_wait`",
        ),
        (old.log.format != new.log.format, "the log format"),
        (old.external.crawlers != new.external.crawlers, "`crawlers`"),
        (old.service.state != new.service.state, "`state`"),
        (old.service.listen != new.service.listen, "`listen`"),
        (old.api != new.api, "[api] except the token"),
    ];
    let changed = changed.into_iter().filter(|(has_changed, _)| *has_changed);
    changed.map(|(_, what)| what).collect()
}

/// The new plan, with the old values of what cannot change while running.
fn with_fixed_settings(old: &Plan, new: Plan) -> Plan {
    let mut settings = new.settings;
    let old = &old.settings;
    let politeness = settings.fetch.politeness;
    settings.fetch = old.fetch.clone();
    settings.fetch.politeness.pause = politeness.pause;
    settings.fetch.politeness.longest_wait = politeness.longest_wait;
    settings.store = old.store.clone();
    settings.log.format = old.log.format;
    settings.external.crawlers = old.external.crawlers;
    settings.service.state.clone_from(&old.service.state);
    settings.service.listen = old.service.listen;
    settings.api = old.api.clone();
    Plan {
        settings,
        topics: new.topics,
        token: new.token,
    }
}
