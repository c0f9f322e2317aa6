//! From text to checked settings.
//!
//! [`Settings::parse`] checks every value of the text and reports all problems at once, each with
//! line and column. `Settings` need not be checked again.
//!
//! Invariant: `config.toml` in the repository sets every key to its default.

mod api;
mod external;
mod fetch;
mod problem;
mod section;
mod service;
mod topic;
mod topic_file;
mod value;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use api::ApiSettings;
pub(crate) use external::Strategy;
pub use external::{ExternalSettings, HostLists, OldVerdicts};
pub use fetch::{CertificatePolicy, DamagePolicy, FetchSettings, ProxySettings, ResolveRule};
pub(crate) use fetch::{LimitSettings, PolitenessSettings};
pub(crate) use problem::ConfigError;
use section::Section;
pub(crate) use service::{ListFormat, ServiceSettings};
pub use topic::TopicDefinition;
use value::{byte_size, choice, duration, number, optional_text, whole_number};

const DAY: Duration = Duration::from_hours(24);

/// All settings, checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// `[log]`
    pub log: LogSettings,
    /// `[store]`
    pub store: StoreSettings,
    /// `[fetch]`
    pub fetch: FetchSettings,
    /// `[parse]`
    pub parse: ParseSettings,
    /// `[internal]`
    pub internal: InternalSettings,
    /// `[external]`
    pub external: ExternalSettings,
    /// `[training]`
    pub training: TrainingSettings,
    /// `[training] background`: a background file; none for the one that comes with the program. Kept
    /// here, so that [`TrainingSettings`] can be copied.
    pub background: Option<PathBuf>,
    /// `[service]`
    pub service: ServiceSettings,
    /// `[api]`
    pub api: ApiSettings,
}

/// `[log]`: level and format of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    pub(crate) level: LogLevel,
    pub(crate) format: LogFormat,
}

/// The least severe level that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogLevel {
    /// An operator must act.
    Error,
    /// Degraded operation.
    Warn,
    /// Sites judged, and lifecycle.
    Info,
    /// Pages.
    Debug,
    /// Everything.
    Trace,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Human on a terminal, JSON elsewhere.
    Auto,
    /// Lines for people.
    Human,
    /// One JSON object a line.
    Json,
}

/// `[store]`: what is kept, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// Cache of the database.
    pub cache_bytes: usize,
    /// For which sites evidence is kept.
    pub evidence: EvidenceRetention,
    /// How long evidence is kept.
    pub evidence_age: Duration,
    /// Which edges are kept after their target was judged.
    pub edges: EdgeRetention,
}

/// For which sites evidence is kept: pages, confidences and telling words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvidenceRetention {
    /// For all.
    All,
    /// For relevant ones.
    Relevant,
    /// For none.
    None,
}

/// Which edges are kept after their target was judged. Edges to border sites are always kept,
/// because ranks are computed from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeRetention {
    /// All.
    All,
    /// Those to relevant sites.
    Relevant,
}

/// `[parse]`: how pages are parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseSettings {
    /// Maximum number of links taken from one page.
    pub max_links: usize,
    /// Links with longer URLs are dropped.
    pub max_url_bytes: usize,
}

/// `[internal]`: how one site is sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InternalSettings {
    /// Maximum number of pages requested from one site.
    pub page_budget: usize,
    /// Maximum number of redirects followed in a row.
    pub max_redirects: usize,
    /// Retries of a page when the server was busy or the connection failed.
    pub retries: usize,
    /// Number of failures in a row after which a visit ends.
    pub max_failures: usize,
    /// `l_threshold`: after the verdict, reading goes on for links until `LinkRank` reaches it (paper
    /// 4.3.4).
    pub link_threshold: f64,
    /// The same while few sites are left to visit.
    pub scarce_link_threshold: f64,
    /// c: what a page without links adds to `LinkRank` (paper 4.3.4).
    pub link_constant: f64,
    /// How to treat a site whose homepage has `noindex`.
    pub noindex: NoindexPolicy,
}

/// How to treat a site whose homepage has `noindex`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoindexPolicy {
    /// The visit ends after the homepage, undecided.
    LeaveOut,
    /// It is judged, and marked in lists.
    Mark,
    /// It is judged like any other.
    List,
}

/// `[training]`: how a topic is learned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingSettings {
    /// Maximum number of pages read of each site, breadth first.
    pub pages_per_site: usize,
    /// Maximum number of terms in a model.
    pub(crate) vocabulary: usize,
    /// Which page classifier is trained.
    pub page_classifier: PageClassifierChoice,
    /// Number of folds of the cross-validation inside training.
    pub(crate) folds: usize,
    /// Random seed.
    pub seed: u64,
}

/// Which page classifier is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageClassifierChoice {
    /// Logistic regression.
    Linear,
    /// The paper's: centroids found by k-means.
    Centroid,
}

// === impl Settings ===

impl Settings {
    /// Parses a settings file. All problems are reported at once, in the order of the text.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        section::read(text, Self::read)
    }

    /// The keys that the text of a settings file leaves at their defaults.
    #[must_use]
    pub fn keys_left_out(text: &str) -> Vec<String> {
        section::keys_left_out(text, Self::read)
    }

    fn read(top: &mut Section<'_>) -> Self {
        let default = Self::default();
        let log = top.section("log", |log| default.log.read(log));
        let store = top.section("store", |store| default.store.read(store));
        let fetch = top.section("fetch", |fetch| default.fetch.read(fetch));
        let parse = top.section("parse", |parse| default.parse.read(parse));
        let internal = top.section("internal", |internal| default.internal.read(internal));
        let external = top.section("external", |external| default.external.read(external));
        let (training, background) = top.section("training", |training| {
            let settings = default.training.read(training);
            let background = training.value("background", None, optional_text);
            (settings, background.map(PathBuf::from))
        });
        let service = top.section("service", |service| default.service.read(service));
        let api = top.section("api", |api| default.api.read(api));
        Self {
            log,
            store,
            fetch,
            parse,
            internal,
            external,
            training,
            background,
            service,
            api,
        }
    }
}

// === impl LogSettings ===

impl LogSettings {
    fn read(&self, log: &mut Section<'_>) -> Self {
        let levels = [
            ("error", LogLevel::Error),
            ("warn", LogLevel::Warn),
            ("info", LogLevel::Info),
            ("debug", LogLevel::Debug),
            ("trace", LogLevel::Trace),
        ];
        let formats = [
            ("auto", LogFormat::Auto),
            ("human", LogFormat::Human),
            ("json", LogFormat::Json),
        ];
        Self {
            level: log.value("level", self.level, choice(&levels)),
            format: log.value("format", self.format, choice(&formats)),
        }
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            level: LogLevel::Info,
            format: LogFormat::Auto,
        }
    }
}

// === impl StoreSettings ===

impl StoreSettings {
    fn read(&self, store: &mut Section<'_>) -> Self {
        let retentions = [
            ("all", EvidenceRetention::All),
            ("relevant", EvidenceRetention::Relevant),
            ("none", EvidenceRetention::None),
        ];
        let edges = [
            ("all", EdgeRetention::All),
            ("relevant", EdgeRetention::Relevant),
        ];
        Self {
            cache_bytes: store.value(
                "cache_bytes",
                self.cache_bytes,
                byte_size(1 << 20..=1 << 40),
            ),
            evidence: store.value("evidence", self.evidence, choice(&retentions)),
            evidence_age: store.value(
                "evidence_age",
                self.evidence_age,
                duration(DAY..=36_500 * DAY),
            ),
            edges: store.value("edges", self.edges, choice(&edges)),
        }
    }
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            cache_bytes: 128 << 20,
            evidence: EvidenceRetention::All,
            evidence_age: 365 * DAY,
            edges: EdgeRetention::All,
        }
    }
}

// === impl ParseSettings ===

impl ParseSettings {
    fn read(&self, parse: &mut Section<'_>) -> Self {
        Self {
            max_links: parse.value("max_links", self.max_links, whole_number(1..=1_000_000)),
            max_url_bytes: parse.value(
                "max_url_bytes",
                self.max_url_bytes,
                byte_size(16..=8 << 10),
            ),
        }
    }
}

impl Default for ParseSettings {
    fn default() -> Self {
        Self {
            max_links: 10_000,
            max_url_bytes: 2 << 10,
        }
    }
}

// === impl InternalSettings ===

impl InternalSettings {
    fn read(&self, internal: &mut Section<'_>) -> Self {
        let policies = [
            ("leave-out", NoindexPolicy::LeaveOut),
            ("mark", NoindexPolicy::Mark),
            ("list", NoindexPolicy::List),
        ];
        Self {
            page_budget: internal.value("page_budget", self.page_budget, whole_number(1..=10_000)),
            max_redirects: internal.value(
                "max_redirects",
                self.max_redirects,
                whole_number(0..=50),
            ),
            retries: internal.value("retries", self.retries, whole_number(0..=10)),
            max_failures: internal.value("max_failures", self.max_failures, whole_number(1..=100)),
            link_threshold: internal.value(
                "link_threshold",
                self.link_threshold,
                number(0.0..=1e6),
            ),
            scarce_link_threshold: internal.value(
                "scarce_link_threshold",
                self.scarce_link_threshold,
                number(0.0..=1e6),
            ),
            link_constant: internal.value("link_constant", self.link_constant, number(1.0..=1e3)),
            noindex: internal.value("noindex", self.noindex, choice(&policies)),
        }
    }
}

impl Default for InternalSettings {
    fn default() -> Self {
        Self {
            page_budget: 15,
            max_redirects: 5,
            retries: 2,
            max_failures: 4,
            link_threshold: 20.0,
            scarce_link_threshold: 60.0,
            link_constant: 1.0,
            noindex: NoindexPolicy::LeaveOut,
        }
    }
}

// === impl TrainingSettings ===

impl TrainingSettings {
    fn read(&self, training: &mut Section<'_>) -> Self {
        let choices = PageClassifierChoice::ALL.map(|choice| (choice.name(), choice));
        let seed = usize::try_from(self.seed).unwrap_or_default();
        Self {
            pages_per_site: training.value(
                "pages_per_site",
                self.pages_per_site,
                whole_number(1..=10_000),
            ),
            vocabulary: training.value("vocabulary", self.vocabulary, whole_number(10..=1_000_000)),
            page_classifier: training.value(
                "page_classifier",
                self.page_classifier,
                choice(&choices),
            ),
            folds: training.value("folds", self.folds, whole_number(2..=100)),
            seed: training.value("seed", seed, whole_number(0..=u32::MAX as usize)) as u64,
        }
    }
}

impl Default for TrainingSettings {
    fn default() -> Self {
        Self {
            pages_per_site: 25,
            vocabulary: 10_000,
            page_classifier: PageClassifierChoice::Linear,
            folds: 10,
            seed: 1,
        }
    }
}

// === impl PageClassifierChoice ===

impl PageClassifierChoice {
    /// The default first.
    pub(crate) const ALL: [Self; 2] = [Self::Linear, Self::Centroid];

    /// The name in settings and on the command line.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Centroid => "centroid",
        }
    }
}
