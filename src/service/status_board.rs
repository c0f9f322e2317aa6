//! How all topics stand, for whoever asks: systemd, probes, figures.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus::{IntGaugeVec, Opts};

use crate::external::EndReason;
use crate::store::TopicTotals;
use crate::telemetry::{Metrics, grouped};
use crate::web::Trouble;

/// What a topic does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopicState {
    /// It is being opened.
    Starting,
    /// It visits sites.
    Crawling,
    /// It waits for the visits under way.
    Draining,
    /// It does nothing.
    Idle(IdleReason),
}

/// Why a topic does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleReason {
    /// Its crawl has ended.
    Ended(EndReason),
    LowDisk,
    Paused,
    /// It is in the store, but nobody wants it crawled for any more.
    NotInSettings,
}

/// States and totals of all topics.
pub(super) struct StatusBoard {
    gauge: IntGaugeVec,
    known: Mutex<Known>,
}

struct Known {
    topics: BTreeMap<String, KnownTopic>,
    is_stopping: bool,
}

struct KnownTopic {
    state: TopicState,
    totals: TopicTotals,
    /// Why it crawls and finds nobody, if that is our own fault.
    trouble: Option<Trouble>,
}

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
    /// Those that a topic of the settings can be in.
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

    /// State and reason, as labels.
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Starting => ("starting", "none"),
            Self::Crawling => ("crawling", "none"),
            Self::Draining => ("draining", "none"),
            Self::Idle(reason) => ("idle", reason.name()),
        }
    }
}

// === impl StatusBoard ===

impl StatusBoard {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let options = Opts::new(
            "sitescout_topic_state",
            "1 for what a topic does now, 0 for what it does not",
        );
        let gauge = IntGaugeVec::new(options, &["topic", "state", "reason"]);
        Self {
            gauge: metrics.add(gauge.expect("the name and the labels are constants")),
            known: Mutex::new(Known {
                topics: BTreeMap::new(),
                is_stopping: false,
            }),
        }
    }

    /// A topic is to be crawled for.
    pub(super) fn add(&self, topic: &str) {
        let nothing = KnownTopic {
            state: TopicState::Starting,
            totals: TopicTotals::default(),
            trouble: None,
        };
        self.lock().topics.insert(topic.to_owned(), nothing);
        self.show(topic, TopicState::Starting);
    }

    /// A topic is no longer crawled for.
    pub(super) fn remove(&self, topic: &str) {
        self.lock().topics.remove(topic);
        for state in TopicState::ALL {
            let (name, reason) = state.names();
            // It was shown, or it is gone already.
            let _ = self.gauge.remove_label_values(&[topic, name, reason]);
        }
    }

    pub(super) fn set(&self, topic: &str, state: TopicState) {
        if let Some(known) = self.lock().topics.get_mut(topic) {
            known.state = state;
        }
        self.show(topic, state);
    }

    /// What a topic does, if it is crawled for.
    pub(super) fn state(&self, topic: &str) -> Option<TopicState> {
        self.lock().topics.get(topic).map(|known| known.state)
    }

    pub(super) fn count(&self, topic: &str, totals: &TopicTotals) {
        if let Some(known) = self.lock().topics.get_mut(topic) {
            known.totals = *totals;
        }
    }

    /// What keeps a topic from going on, through no fault of any site.
    pub(super) fn set_trouble(&self, topic: &str, trouble: Option<Trouble>) {
        if let Some(known) = self.lock().topics.get_mut(topic) {
            known.trouble = trouble;
        }
    }

    /// The trouble of our own that a topic has, if any.
    pub(super) fn trouble(&self, topic: &str) -> Option<Trouble> {
        self.lock().topics.get(topic)?.trouble
    }

    /// The service is asked to end.
    pub(super) fn stop(&self) {
        self.lock().is_stopping = true;
    }

    /// Why the service is not ready, if it is not.
    pub(super) fn unready(&self) -> Option<String> {
        let known = self.lock();
        if known.is_stopping {
            return Some("stopping".to_owned());
        }
        let mut starting = known.topics.iter();
        let starting = starting.find(|(_, known)| known.state == TopicState::Starting);
        starting.map(|(topic, _)| format!("the topic {topic} is being opened"))
    }

    /// A line for `systemctl status`: "3 topics, 1,204 relevant, pprs 6.1".
    #[allow(
        clippy::cast_precision_loss,
        reason = "for people, two digits are enough"
    )]
    pub(super) fn status(&self) -> String {
        let known = self.lock();
        let topics = known.topics.values();
        let (mut relevant, mut finds, mut pages) = (0, 0, 0);
        for KnownTopic { totals, .. } in topics {
            relevant += totals.relevant;
            finds += totals.finds;
            pages += totals.pages;
        }
        let number = known.topics.len();
        let topics = if number == 1 { "topic" } else { "topics" };
        let pprs = match finds {
            0 => "no find yet".to_owned(),
            finds => format!("pprs {:.1}", pages as f64 / finds as f64),
        };
        let idle: Vec<String> = known
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
            let (name, reason) = state.names();
            let gauge = self.gauge.with_label_values(&[topic, name, reason]);
            gauge.set(i64::from(state == now));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
