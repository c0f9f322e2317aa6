//! Links, inside a site and between sites.
//!
//! The internal crawler follows intrinsic links; transversal links are the edges of the website
//! graph. They are two types, because no operation on the one makes sense for the other.

use super::{PageUrl, SiteId};

/// A link to a page of the same site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntrinsicLink {
    /// The target.
    pub page: PageUrl,
    /// The text of the anchor, or the alt text of its image.
    pub anchor: String,
    /// The element that made it.
    pub kind: LinkKind,
    /// `rel` has `nofollow`, `ugc` or `sponsored`, or the page has `nofollow`.
    pub nofollow: bool,
}

/// A link to a page of another site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransversalLink {
    /// The site it recommends.
    pub site: SiteId,
    /// The page of that site it leads to.
    pub page: PageUrl,
    /// The text of the anchor, or the alt text of its image.
    pub anchor: String,
    /// The element that made it.
    pub(crate) kind: LinkKind,
    /// As for intrinsic links; such a link is not an edge of the website graph.
    pub nofollow: bool,
}

/// The element that made a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkKind {
    /// `<a href>`
    Anchor,
    /// `<area href>` of an image map
    Area,
    /// `<frame src>` or `<iframe src>`: shown as part of the page
    Frame,
    /// `<meta http-equiv=refresh>` or a `Refresh` header: followed without a click
    Refresh,
    /// `<link rel=next>`: the next page of a series
    Next,
}

impl LinkKind {
    /// Whether browsers show the target as part of the page, or in its place.
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
