//! Where pages come from.
//!
//! [`Fetcher`] is the door to the web. Behind it stands an [`archive`], the [`live`] web or
//! anything else that implements it; crawlers cannot tell which. A process puts its own together
//! as a [`PageSource`]. This is the only room that asks the network; the generated web of `lab` only
//! answers it.
//!
//! Invariant: one call is one request and one response. Redirects are answers, not
//! something to be followed here: who counts pages must see each of them, and each hop
//! must be asked for anew.

pub(crate) mod archive;
mod body;
mod brotli;
mod error;
mod head;
mod host_guard;
pub mod live;
mod metrics;
mod recorder;
mod source;
mod zstd;

use async_trait::async_trait;

use crate::web::{FetchedPage, PageUrl};
pub use archive::{Archive, ArchiveError};
pub use error::{ErrorKind, FetchError};
pub use live::{LiveWeb, LiveWebError};
pub use metrics::FetchMetrics;
pub(crate) use recorder::{RecordError, Recorder};
pub use source::PageSource;

/// The door to the web.
#[async_trait]
pub trait Fetcher: Send + Sync {
    /// Asks for one page and returns what the server answered, whatever the status.
    ///
    /// An error means that there was no answer. Dropping the future abandons the request.
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError>;
}
