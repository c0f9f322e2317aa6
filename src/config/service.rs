//! `[service]`: what the daemon does.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::section::Section;
use super::value::{byte_size, listen_address, text, texts};

/// `[service]`: what `sitescout run` does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSettings {
    /// The topics that are crawled for, each a directory of `models`.
    pub topics: Vec<String>,
    /// Where the topics are.
    pub models: PathBuf,
    /// Where everything found is kept.
    pub state: PathBuf,
    /// Where figures and probes are served.
    pub listen: SocketAddr,
    /// With less room on the disk nothing is crawled.
    pub low_disk: usize,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            topics: Vec::new(),
            models: PathBuf::from("site-models"),
            state: PathBuf::from("state"),
            listen: SocketAddr::from(([127, 0, 0, 1], 9_464)),
            low_disk: 1 << 30,
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
        }
    }
}
