//! In which order the pages of a site are read.
//!
//! An ordering knows a waiting page only from the pages that link to it; the page itself has not
//! been requested yet. To add one, implement [`PageOrdering`] and return it from `page_ordering` of
//! an `external::BorderOrdering`.
//!
//! Invariant: an ordering only compares. The frontier decides which pages wait, that none is
//! read twice, and that ties go to the page found first.

use std::fmt;

use crate::web::{PageKind, PageUrl};

/// In which order the pages of a site are read.
pub trait PageOrdering: fmt::Debug + Send + Sync {
    /// The rank of a waiting page; the greatest is read first.
    fn rank(&self, page: &WaitingPage<'_>, phase: VisitPhase) -> PagePriority;
}

/// What is known about a page before it is requested.
#[derive(Debug, Clone, Copy)]
pub struct WaitingPage<'f> {
    /// As it was found first.
    pub url: &'f PageUrl,
    /// Its distance from the entrance, on the shortest path known.
    pub kind: PageKind,
    /// The mean, over the pages known to link to it, of the variance of their confidences
    /// (paper 4.3.2).
    pub variance: f64,
    /// Number of pages known to link to it.
    pub linking_pages: u32,
    /// Whether its URL or an anchor text names it as a page of links to other sites.
    pub is_link_page: bool,
    /// Whether it is a frame or a refresh target of the page that names it.
    pub is_part: bool,
    /// Number of pages found before it.
    pub found: usize,
}

/// What a visit reads for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisitPhase {
    /// For the verdict, which is not reached yet.
    BeforeVerdict,
    /// For links to other sites.
    AfterVerdict,
}

/// Compared by `is_preferred`, then by `value`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PagePriority {
    /// Preferred pages come before all others.
    pub is_preferred: bool,
    /// Greater values come first; must not be NaN.
    pub value: f64,
}

/// By the variance of the confidences of the pages that link there, before the verdict and after
/// it (paper 4.3.2 and 4.3.4).
#[derive(Debug, Clone, Copy, Default)]
pub struct ByVariance;

/// By variance until the verdict is reached; after it, link pages come first. Few sites have more
/// than one such page, and it is rarely among the first linked.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkPagesFirst;

/// In the order found, but frames and refresh targets of a page before its links.
#[derive(Debug, Clone, Copy, Default)]
pub struct BreadthFirstPages;

impl PageOrdering for ByVariance {
    fn rank(&self, page: &WaitingPage<'_>, _phase: VisitPhase) -> PagePriority {
        PagePriority {
            is_preferred: false,
            value: page.variance,
        }
    }
}

impl PageOrdering for LinkPagesFirst {
    fn rank(&self, page: &WaitingPage<'_>, phase: VisitPhase) -> PagePriority {
        PagePriority {
            is_preferred: phase == VisitPhase::AfterVerdict && page.is_link_page,
            value: page.variance,
        }
    }
}

impl PageOrdering for BreadthFirstPages {
    fn rank(&self, page: &WaitingPage<'_>, _phase: VisitPhase) -> PagePriority {
        PagePriority {
            is_preferred: page.is_part,
            value: 0.0,
        }
    }
}
