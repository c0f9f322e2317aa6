//! Links, told apart by where they lead.
//!
//! Intrinsic links are the internal crawler's roads through a site; transversal links are
//! the edges of the website graph. They are two types, because nothing that is done with
//! the one makes sense for the other.

use super::{PageUrl, SiteId};

/// A link to a page of the same site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntrinsicLink {
    /// Where it leads.
    pub page: PageUrl,
    /// What the reader clicks on: the text of the anchor, or the alt text of its image.
    pub anchor: String,
    /// Which element made it.
    pub kind: LinkKind,
    /// The author does not vouch for it.
    pub nofollow: bool,
}

/// A link to a page of another site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransversalLink {
    /// The site it recommends.
    pub site: SiteId,
    /// The page of that site it leads to.
    pub page: PageUrl,
    /// What the reader clicks on: the text of the anchor, or the alt text of its image.
    pub anchor: String,
    /// Which element made it.
    pub(crate) kind: LinkKind,
    /// The author does not vouch for it: it is a road, but no recommendation.
    pub nofollow: bool,
}

/// Which element made a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkKind {
    /// `<a href>`
    Anchor,
    /// `<area href>` of an image map
    Area,
    /// `<frame src>` or `<iframe src>`: shown as part of the page
    Frame,
    /// `<meta http-equiv=refresh>` or a `Refresh` header: where the browser goes by itself
    Refresh,
    /// `<link rel=next>`: the next page of a series
    Next,
}

impl LinkKind {
    /// Whether what it leads to is shown as part of the page, or in its place.
    #[must_use]
    pub(crate) fn is_part(self) -> bool {
        matches!(self, Self::Frame | Self::Refresh)
    }

    /// A short name for lists and JSON.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anchor => "anchor",
            Self::Area => "area",
            Self::Frame => "frame",
            Self::Refresh => "refresh",
            Self::Next => "next",
        }
    }
}
