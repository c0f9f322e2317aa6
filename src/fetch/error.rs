//! Why there was no answer: one closed list, for metrics, for retries and for people.

use std::time::SystemTime;

use thiserror::Error;

use super::ArchiveError;
use crate::web::{DeferralCause, NoAnswer, PageUrl, Scheme, SiteId};

/// Why there was no answer. An answer with an error status is none of these.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct FetchError {
    /// What went wrong, as far as anybody decides by it.
    pub kind: ErrorKind,
    /// Answered requests for robots.txt that were made on the way.
    pub robots_requests: usize,
    message: String,
}

/// What went wrong, with what is needed to decide what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// There is no such host.
    NoHost,
    /// No name server could say whether there is one.
    DnsFailed,
    /// Nobody listens there, or the network does not lead there.
    Unreachable,
    /// The connection did not stand in time.
    ConnectTimeout,
    /// TLS could not be agreed on. Not: a bad certificate.
    TlsFailed,
    /// The certificate is expired, of another name, or signed by nobody we trust.
    BadCertificate {
        /// Whether the site may be judged over http instead.
        http_instead: bool,
        /// Whether all that is wrong is the time: it is not yet or no longer valid.
        is_out_of_date: bool,
    },
    /// The address is private, local or reserved.
    ForbiddenAddress,
    /// The port is not among those that may be connected to.
    ForbiddenPort,
    /// The settings name no contact, so the live web is refused.
    NoContact,
    /// The operator has blocked the host, or the one that its robots.txt leads to.
    Blocked,
    /// robots.txt asks not to read this page. It was not asked for.
    Disallowed,
    /// The site wants to be left alone until then. The page was not asked for.
    Deferred {
        /// Before this time it must not be visited.
        not_before: SystemTime,
        /// What it was that asked for it.
        cause: DeferralCause,
    },
    /// The answer did not begin, or did not go on, or did not end in time.
    Timeout,
    /// The answer came so slowly that it was given up.
    TooSlow,
    /// The connection broke before there was anything to read.
    Broken,
    /// What came is no HTTP, or has more headers than anybody needs.
    Malformed,
    /// The archive holds the page, but it cannot be read. Not: a page it does not hold.
    Archive,
}

// === impl FetchError ===

impl FetchError {
    /// No answer, for this reason, which is told in these words.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            robots_requests: 0,
            message: message.into(),
        }
    }

    /// No host of this name.
    #[must_use]
    pub fn no_host(site: &SiteId) -> Self {
        Self::new(ErrorKind::NoHost, format!("there is no host {site}"))
    }

    /// robots.txt asks not to read a page.
    #[must_use]
    pub fn disallowed(page: &PageUrl) -> Self {
        let message = format!("robots.txt asks not to read {page}");
        Self::new(ErrorKind::Disallowed, message)
    }

    /// The same, after so many more answered requests for robots.txt.
    #[must_use]
    pub fn with_robots_requests(mut self, requests: usize) -> Self {
        self.robots_requests += requests;
        self
    }
}

impl From<ArchiveError> for FetchError {
    fn from(error: ArchiveError) -> Self {
        Self::new(ErrorKind::Archive, error.to_string())
    }
}

// === impl ErrorKind ===

impl ErrorKind {
    /// The reason without its details.
    #[must_use]
    pub fn reason(self) -> NoAnswer {
        match self {
            Self::NoHost => NoAnswer::NoHost,
            Self::DnsFailed => NoAnswer::DnsFailed,
            Self::Unreachable => NoAnswer::Unreachable,
            Self::ConnectTimeout => NoAnswer::ConnectTimeout,
            Self::TlsFailed => NoAnswer::TlsFailed,
            Self::BadCertificate {
                is_out_of_date: true,
                ..
            } => NoAnswer::ExpiredCertificate,
            Self::BadCertificate { .. } => NoAnswer::BadCertificate,
            Self::ForbiddenAddress => NoAnswer::ForbiddenAddress,
            Self::ForbiddenPort => NoAnswer::ForbiddenPort,
            Self::NoContact => NoAnswer::NoContact,
            Self::Blocked => NoAnswer::Blocked,
            Self::Disallowed => NoAnswer::Disallowed,
            Self::Deferred { .. } => NoAnswer::Deferred,
            Self::Timeout => NoAnswer::Timeout,
            Self::TooSlow => NoAnswer::TooSlow,
            Self::Broken => NoAnswer::Broken,
            Self::Malformed => NoAnswer::Malformed,
            Self::Archive => NoAnswer::Archive,
        }
    }

    /// Whether asking again soon may help. A server that kept us waiting once will do so
    /// again, and waiting is dear.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::DnsFailed | Self::Broken)
    }

    /// Whether the host may still answer at another entrance: by the other scheme, with
    /// `www.` or without. Who speaks HTTP, however badly, was found, and who is blocked is so by
    /// all names.
    #[must_use]
    pub(crate) fn leaves_entrance(self, entrance: &PageUrl) -> bool {
        match self {
            Self::BadCertificate {
                http_instead: false,
                ..
            } => entrance.scheme() == Scheme::Https,
            Self::Blocked => false,
            kind => kind.is_before_http(),
        }
    }

    /// Whether the page was not asked for because it is not the time.
    #[must_use]
    pub(crate) fn is_deferral(self) -> bool {
        matches!(self, Self::Deferred { .. })
    }

    /// Whether no byte of HTTP was spoken: what failed is the way to the host.
    #[must_use]
    pub(crate) fn is_before_http(self) -> bool {
        matches!(
            self,
            Self::NoHost
                | Self::DnsFailed
                | Self::Unreachable
                | Self::ConnectTimeout
                | Self::TlsFailed
                | Self::BadCertificate { .. }
                | Self::ForbiddenAddress
                | Self::ForbiddenPort
                | Self::NoContact
                | Self::Blocked
        )
    }
}
