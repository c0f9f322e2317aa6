//! Why there was no response: one closed list, for metrics, retries and messages.

use std::time::SystemTime;

use thiserror::Error;

use super::ArchiveError;
use crate::web::{DeferralCause, NoAnswer, PageUrl, Scheme, SiteId};

/// Why there was no response. A response with an error status is not an error here.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct FetchError {
    /// The kind, on which callers decide.
    pub kind: ErrorKind,
    /// Requests for robots.txt made on the way that got a response.
    pub robots_requests: usize,
    message: String,
}

/// What went wrong, with what is needed to decide what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// There is no such host.
    NoHost,
    /// No name server gave an answer.
    DnsFailed,
    /// Connection refused, or no route to the host.
    Unreachable,
    /// The connection was not established in time.
    ConnectTimeout,
    /// The TLS handshake failed. Not: a bad certificate.
    TlsFailed,
    /// The certificate is expired, for another name, or not signed by a trusted authority.
    BadCertificate {
        /// Whether the site may be judged over http instead.
        http_instead: bool,
        /// Whether the only fault is its period of validity: not yet or no longer valid.
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
    /// robots.txt disallows the page. It was not requested.
    Disallowed,
    /// The site must not be visited before a given time. The page was not requested.
    Deferred {
        /// The earliest time of the next request.
        not_before: SystemTime,
        /// Why the visit is deferred.
        cause: DeferralCause,
    },
    /// The response did not start, continue or end in time.
    Timeout,
    /// The response came below the minimum rate and was abandoned.
    TooSlow,
    /// The connection broke before there was anything to read.
    Broken,
    /// The response is not valid HTTP, or has more headers than the limit.
    Malformed,
    /// The archive holds the page, but it cannot be read. Not: a page it does not hold.
    Archive,
}

// === impl FetchError ===

impl FetchError {
    /// An error of this kind with this message.
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

    /// robots.txt disallows a page.
    #[must_use]
    pub fn disallowed(page: &PageUrl) -> Self {
        let message = format!("robots.txt disallows {page}");
        Self::new(ErrorKind::Disallowed, message)
    }

    /// Adds requests for robots.txt that got a response.
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

    /// Whether an early retry may help. Timeouts are not retried: a server that timed out once
    /// usually does so again, and waiting is expensive.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::DnsFailed | Self::Broken)
    }

    /// Whether the host may still answer at another entrance: by the other scheme, with or without
    /// `www.`. A host that speaks HTTP, however badly, was found, and a block covers all entrances.
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

    /// Whether the page was not requested because the site is deferred.
    #[must_use]
    pub(crate) fn is_deferral(self) -> bool {
        matches!(self, Self::Deferred { .. })
    }

    /// Whether it failed before any HTTP was exchanged, on the way to the host.
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
