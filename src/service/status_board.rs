//! States and totals of all topics, for systemd, probes, metrics and the API.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus::{IntGaugeVec, Opts};

use crate::external::EndReason;
use crate::store::TopicTotals;
use crate::telemetry::{Metrics, grouped};
use crate::web::Trouble;

/// What a topic is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopicState {
    /// Being opened in the store.
    Starting,
    Crawling,
    /// Waiting for the visits under way.
    Draining,
    Idle(IdleReason),
}

/// Why a topic is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleReason {
    Ended(EndReason),
    LowDisk,
    Paused,
    /// In the store, but no longer named by the settings.
    NotInSettings,
}

/// States and totals of all topics.
pub(super) struct StatusBoard {
    gauge: IntGaugeVec,
    board: Mutex<BoardState>,
}

struct BoardState {
    topics: BTreeMap<String, KnownTopic>,
    is_stopping: bool,
}

struct KnownTopic {
    state: TopicState,
    totals: TopicTotals,
    /// The local failure that keeps it from reaching any site.
    trouble: Option<Trouble>,
}

/// The label of a state that needs no reason.
const NO_REASON: &str = "none";

// === impl IdleReason ===

impl IdleReason {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ended(reason) => reason.name(),
            Self::LowDisk => "low_disk",
            Self::Paused => "paused",
            Self::NotInSettings => "not_in_settings",
        }
    }
}

// === impl TopicState ===

impl TopicState {
    /// All states that a topic of the settings can be in.
    const ALL: [Self; 8] = [
        Self::Starting,
        Self::Crawling,
        Self::Draining,
        Self::Idle(IdleReason::Ended(EndReason::WantedReached)),
        Self::Idle(IdleReason::Ended(EndReason::BorderEmpty)),
        Self::Idle(IdleReason::Ended(EndReason::PprsBad)),
        Self::Idle(IdleReason::LowDisk),
        Self::Idle(IdleReason::Paused),
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Crawling => "crawling",
            Self::Draining => "draining",
            Self::Idle(_) => "idle",
        }
    }

    /// Why it is idle.
    pub(super) fn reason(self) -> Option<&'static str> {
        match self {
            Self::Idle(reason) => Some(reason.name()),
            Self::Starting | Self::Crawling | Self::Draining => None,
        }
    }
}

// === impl StatusBoard ===

impl StatusBoard {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let options = Opts::new(
            "sitescout_topic_state",
            "1 for the current state of a topic, 0 for all others",
        );
        let gauge = IntGaugeVec::new(options, &["topic", "state", "reason"]);
        Self {
            gauge: metrics.add(gauge.expect("the name and the labels are constants")),
            board: Mutex::new(BoardState {
                topics: BTreeMap::new(),
                is_stopping: false,
            }),
        }
    }

    pub(super) fn add(&self, topic: &str) {
        let topic_at_start = KnownTopic {
            state: TopicState::Starting,
            totals: TopicTotals::default(),
            trouble: None,
        };
        self.lock().topics.insert(topic.to_owned(), topic_at_start);
        self.show(topic, TopicState::Starting);
    }

    pub(super) fn remove(&self, topic: &str) {
        self.lock().topics.remove(topic);
        for state in TopicState::ALL {
            let (name, reason) = (state.name(), state.reason().unwrap_or(NO_REASON));
            // Fails only if the series does not exist.
            let _ = self.gauge.remove_label_values(&[topic, name, reason]);
        }
    }

    pub(super) fn set(&self, topic: &str, state: TopicState) {
        if let Some(known) = self.lock().topics.get_mut(topic) {
            known.state = state;
        }
        self.show(topic, state);
    }

    /// None if the topic has no loop.
    pub(super) fn state(&self, topic: &str) -> Option<TopicState> {
        self.lock().topics.get(topic).map(|known| known.state)
    }

    pub(super) fn count(&self, topic: &str, totals: &TopicTotals) {
        if let Some(known) = self.lock().topics.get_mut(topic) {
            known.totals = *totals;
        }
    }

    /// Sets or clears the local failure that stops a topic.
    pub(super) fn set_trouble(&self, topic: &str, trouble: Option<Trouble>) {
        if let Some(known) = self.lock().topics.get_mut(topic) {
            known.trouble = trouble;
        }
    }

    pub(super) fn trouble(&self, topic: &str) -> Option<Trouble> {
        self.lock().topics.get(topic)?.trouble
    }

    pub(super) fn stop(&self) {
        self.lock().is_stopping = true;
    }

    /// Why the service is not ready, if it is not.
    pub(super) fn unready(&self) -> Option<String> {
        let board = self.lock();
        if board.is_stopping {
            return Some("stopping".to_owned());
        }
        let mut starting = board.topics.iter();
        let starting = starting.find(|(_, known)| known.state == TopicState::Starting);
        starting.map(|(topic, _)| format!("the topic {topic} is being opened"))
    }

    /// A line for `systemctl status`: "3 topics, 1,204 relevant, pprs 6.1".
    #[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
    pub(super) fn status(&self) -> String {
        let board = self.lock();
        let topics = board.topics.values();
        let (mut relevant, mut finds, mut pages) = (0, 0, 0);
        for KnownTopic { totals, .. } in topics {
            relevant += totals.relevant;
            finds += totals.finds;
            pages += totals.pages;
        }
        let number = board.topics.len();
        let topics = if number == 1 { "topic" } else { "topics" };
        let pprs = match finds {
            0 => "no find yet".to_owned(),
            finds => format!("pprs {:.1}", pages as f64 / finds as f64),
        };
        let idle: Vec<String> = board
            .topics
            .iter()
            .filter_map(|(topic, known)| match (known.state, known.trouble) {
                (TopicState::Idle(reason), _) => {
                    Some(format!("{topic} idle: {}", reason.name().replace('_', " ")))
                }
                (_, Some(trouble)) => Some(format!("{topic} waits: {}", trouble.advice())),
                _ => None,
            })
            .collect();
        let relevant = grouped(relevant);
        let mut line = format!("{number} {topics}, {relevant} relevant, {pprs}");
        for idle in idle {
            line.push_str(", ");
            line.push_str(&idle);
        }
        line
    }

    fn show(&self, topic: &str, now: TopicState) {
        for state in TopicState::ALL {
            let (name, reason) = (state.name(), state.reason().unwrap_or(NO_REASON));
            let gauge = self.gauge.with_label_values(&[topic, name, reason]);
            gauge.set(i64::from(state == now));
        }
    }

    fn lock(&self) -> MutexGuard<'_, BoardState> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
