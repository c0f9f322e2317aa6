//! Where pages come from.
//!
//! Everything that reads pages does so through [`Fetcher`], implemented by an [`archive`], the
//! [`live`] web or anything else; crawlers cannot tell which. A process builds its own as a
//! [`PageSource`]. This is the only module that sends requests to the network; the generated web of
//! `lab` only serves them.
//!
//! Invariant: one call is one page and one response. Redirects are returned, not followed: the
//! page budget must count each of them, and each hop needs its own permission and its own turn.

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

/// Fetches pages.
#[async_trait]
pub trait Fetcher: Send + Sync {
    /// Requests one page and returns the response, whatever its status.
    ///
    /// An error means that there was no response. Dropping the future abandons the request.
    ///
    /// Nothing around a fetcher limits it. So it ends every request in time, whatever the other side
    /// does, and cuts bodies at `fetch.body_bytes`. The body is decoded, and its charset is the one
    /// that the headers or the document declare. Redirects are returned, not followed. `transfer` says
    /// what the response cost, and from which address it came.
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError>;
}
