//! `[service]`: settings of the daemon.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::section::Section;
use super::value::{byte_size, choice, duration, listen_address, optional_text, text, texts};

/// `[service]`: settings of `sitescout run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSettings {
    /// The topics to crawl for, each a directory in `models`.
    pub(crate) topics: Vec<String>,
    /// The directory with the topics.
    pub(crate) models: PathBuf,
    /// The directory with all results.
    pub state: PathBuf,
    /// Address of metrics and probes.
    pub(crate) listen: SocketAddr,
    /// With less free disk space than this, crawling pauses.
    pub(crate) low_disk: usize,
    /// The list of each topic as a file.
    pub(crate) lists: ListSettings,
}

/// `[service.lists]`: the list of each topic as a file, for web directories that import files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListSettings {
    /// None: no files are written.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) format: ListFormat,
    /// Time between two writes of a file whose list has changed.
    pub(crate) interval: Duration,
}

/// Format of an exported list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListFormat {
    /// One host a line.
    Txt,
    /// With a header line.
    Csv,
    /// One JSON object a line.
    Jsonl,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            topics: Vec::new(),
            models: PathBuf::from("site-models"),
            state: PathBuf::from("state"),
            listen: SocketAddr::from(([127, 0, 0, 1], 9_464)),
            low_disk: 1 << 30,
            lists: ListSettings::default(),
        }
    }
}

impl Default for ListSettings {
    fn default() -> Self {
        Self {
            directory: None,
            format: ListFormat::Txt,
            interval: Duration::from_mins(1),
        }
    }
}

impl ServiceSettings {
    pub(super) fn read(&self, service: &mut Section<'_>) -> Self {
        Self {
            topics: service.value("topics", self.topics.clone(), texts),
            models: service.value("models", self.models.clone(), |value| {
                text(value).map(PathBuf::from)
            }),
            state: service.value("state", self.state.clone(), |value| {
                text(value).map(PathBuf::from)
            }),
            listen: service.value("listen", self.listen, listen_address),
            low_disk: service.value("low_disk", self.low_disk, byte_size(0..=1 << 50)),
            lists: service.section("lists", |lists| self.lists.read(lists)),
        }
    }
}

impl ListSettings {
    fn read(&self, lists: &mut Section<'_>) -> Self {
        let formats = ListFormat::ALL.map(|format| (format.name(), format));
        Self {
            directory: lists.value("directory", self.directory.clone(), |value| {
                Ok(optional_text(value)?.map(PathBuf::from))
            }),
            format: lists.value("format", self.format, choice(&formats)),
            interval: lists.value(
                "interval",
                self.interval,
                duration(Duration::from_millis(100)..=Duration::from_hours(24)),
            ),
        }
    }
}

impl ListFormat {
    /// The default first.
    pub(crate) const ALL: [Self; 3] = [Self::Txt, Self::Csv, Self::Jsonl];

    /// The name in settings and on the command line, and the file extension.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Txt => "txt",
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
        }
    }
}
