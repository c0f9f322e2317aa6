//! Where pages come from.
//!
//! [`Fetcher`] is the door to the web. Behind it stands an [`archive`]; whoever asks for
//! pages cannot tell what is behind.
//!
//! Invariant: one call is one request and one response. Redirects are answers, not
//! something to be followed here: who counts pages must see each of them, and each hop
//! must be asked for anew.

pub mod archive;
mod body;
mod head;
mod zstd;

use async_trait::async_trait;
use thiserror::Error;

use crate::web::{FetchedPage, PageUrl, SiteId};
pub use archive::{Archive, ArchiveError};

/// The door to the web.
#[async_trait]
pub trait Fetcher: Send + Sync {
    /// Asks for one page and returns what the server answered, whatever the status.
    ///
    /// An error means that there was no answer. Dropping the future abandons the request.
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError>;
}

/// Why there was no answer. An answer with an error status is none of these.
#[derive(Debug, Error)]
pub enum FetchError {
    /// No such host, or nobody listens there. Not: a page the host does not have.
    #[error("{0} cannot be reached")]
    Unreachable(SiteId),
    /// The archive holds the page, but it cannot be read. Not: a page it does not hold.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}
