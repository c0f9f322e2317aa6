//! In which order the pages of a site are read.
//!
//! An ordering sees of a waiting page what the pages that link to it say, and nothing of the page
//! itself: that would have to be asked for first. A new ordering is a type here, or anywhere else,
//! and an external ordering that names it (`page_ordering` of `external::BorderOrdering`).
//!
//! Invariant: an ordering only compares. Which pages wait, and that none is read twice, is the
//! business of the frontier; of equals the one found first is read first.

use std::fmt;

use crate::web::{PageKind, PageUrl};

/// In which order the pages of a site are read.
pub trait PageOrdering: fmt::Debug + Send + Sync {
    /// The name, for tables.
    fn name(&self) -> &'static str;

    /// The rank of a page that waits: the greatest is read first.
    fn rank(&self, page: &WaitingPage<'_>, phase: VisitPhase) -> PageRank;
}

/// What is known about a page before it is asked for.
#[derive(Debug, Clone, Copy)]
pub struct WaitingPage<'f> {
    /// Its address.
    pub url: &'f PageUrl,
    /// How far from the entrance it lies, on the shortest way known.
    pub kind: PageKind,
    /// The mean, over the pages known to link to it, of the variance of their confidences
    /// (paper 4.3.2).
    pub variance: f64,
    /// The pages known to link to it.
    pub linking_pages: u32,
    /// Whether its address or an anchor says that it holds links to other sites.
    pub is_link_page: bool,
    /// Whether it is shown within the page that names it, or follows it by itself.
    pub is_part: bool,
    /// How many pages were found before it.
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

/// The place of a page: by the first of these, and of equals by the second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageRank {
    /// Whether it comes before all that are not preferred.
    pub is_preferred: bool,
    /// The greater the sooner; it must be a number.
    pub value: f64,
}

/// By the variance of the confidences of the pages that link there, before the verdict and after
/// it (paper 4.3.2 and 4.3.4).
#[derive(Debug, Clone, Copy, Default)]
pub struct ByVariance;

/// By variance until the verdict is reached; from then on pages that are named after links come
/// first. Few sites have more than one such page, and it is rarely among the first linked.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkPagesFirst;

/// As they were found, but parts of a page before what it links to.
#[derive(Debug, Clone, Copy, Default)]
pub struct BreadthFirst;

impl PageOrdering for ByVariance {
    fn name(&self) -> &'static str {
        "variance"
    }

    fn rank(&self, page: &WaitingPage<'_>, _phase: VisitPhase) -> PageRank {
        PageRank {
            is_preferred: false,
            value: page.variance,
        }
    }
}

impl PageOrdering for LinkPagesFirst {
    fn name(&self) -> &'static str {
        "link_pages_first"
    }

    fn rank(&self, page: &WaitingPage<'_>, phase: VisitPhase) -> PageRank {
        PageRank {
            is_preferred: phase == VisitPhase::AfterVerdict && page.is_link_page,
            value: page.variance,
        }
    }
}

impl PageOrdering for BreadthFirst {
    fn name(&self) -> &'static str {
        "breadth_first"
    }

    fn rank(&self, page: &WaitingPage<'_>, _phase: VisitPhase) -> PageRank {
        PageRank {
            is_preferred: page.is_part,
            value: 0.0,
        }
    }
}
