//! Where pages come from.
//!
//! [`Fetcher`] is the door to the web. Behind it stands an [`archive`] or the [`live`] web;
//! whoever asks for pages cannot tell what is behind. This is the only room that asks the
//! network; the generated web of `lab` only answers it.
//!
//! Invariant: one call is one request and one response. Redirects are answers, not
//! something to be followed here: who counts pages must see each of them, and each hop
//! must be asked for anew.

pub mod archive;
mod body;
mod brotli;
mod error;
mod head;
pub mod live;
mod metrics;
mod recorder;
mod zstd;

use async_trait::async_trait;

use crate::web::{FetchedPage, PageUrl};
pub use archive::{Archive, ArchiveError};
pub use error::{EXPIRED_CERTIFICATE, ErrorKind, FetchError};
pub use live::{LiveWeb, LiveWebError};
pub use metrics::FetchMetrics;
pub use recorder::{RecordError, Recorder};

/// The door to the web.
#[async_trait]
pub trait Fetcher: Send + Sync {
    /// Asks for one page and returns what the server answered, whatever the status.
    ///
    /// An error means that there was no answer. Dropping the future abandons the request.
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError>;
}
