//! `[api]`: the HTTP API and the dashboard.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::section::Section;
use super::value::{
    boolean, byte_size, hosts, listen_address, optional, optional_text, whole_number,
};

/// `[api]`: the HTTP API and the dashboard of `sitescout run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiSettings {
    /// None: not served.
    pub(crate) listen: Option<SocketAddr>,
    /// Its first line is the token for write access.
    pub(crate) token_file: Option<PathBuf>,
    /// Whether reading needs the token on a loopback address, too.
    pub(crate) reads_need_token: bool,
    /// Accepted in the Host header, in addition to IP addresses and `localhost`.
    pub(crate) hosts: Vec<String>,
    /// Rate limit for one client address; 0: unlimited.
    pub(crate) requests_per_second: usize,
    /// Maximum size of a request body.
    pub(crate) body_bytes: usize,
    /// Maximum number of open connections.
    pub(crate) connections: usize,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 9_465))),
            token_file: None,
            reads_need_token: false,
            hosts: Vec::new(),
            requests_per_second: 200,
            body_bytes: 1 << 20,
            connections: 2_000,
        }
    }
}

impl ApiSettings {
    pub(super) fn read(&self, api: &mut Section<'_>) -> Self {
        Self {
            listen: api.value("listen", self.listen, optional(listen_address)),
            token_file: api.value("token_file", self.token_file.clone(), |value| {
                Ok(optional_text(value)?.map(PathBuf::from))
            }),
            reads_need_token: api.value("reads_need_token", self.reads_need_token, boolean),
            hosts: api.value("hosts", self.hosts.clone(), hosts),
            requests_per_second: api.value(
                "requests_per_second",
                self.requests_per_second,
                whole_number(0..=1_000_000),
            ),
            body_bytes: api.value("body_bytes", self.body_bytes, byte_size(1 << 10..=1 << 30)),
            connections: api.value("connections", self.connections, whole_number(1..=100_000)),
        }
    }
}
