//! Resolves references and merges them into links by target.
//!
//! There is one link for each target page: the first reference determines its position, the first
//! anchor with words its text, and it is `nofollow` only if all references are.
//!
//! Invariant: the number of links and the length of each are limited. A base longer than the limit is
//! ignored: a base of 1 MB times 10,000 links would take 10 GB. URLs and anchors of all links together
//! take at most about [`LINK_BYTES`]: a base of 2 KB times 10,000 links would still take 20 MB for a
//! body of 100 KB.

use std::collections::hash_map::Entry;

use encoding_rs::{Encoding, UTF_8};
use url::Url;

use crate::web::{FetchedPage, IntrinsicLink, PageKey, PageText, PageUrl, SiteId, TransversalLink};

use super::html::{Document, RawLink};
use super::{ParseLimits, SeededMap};

/// Longer anchor texts are truncated.
const MAX_ANCHOR_BYTES: usize = 256;

/// How many references are resolved for each link that may be kept.
const REFERENCES_PER_LINK: usize = 4;

/// Maximum size of the URLs and anchors of a page's links together; further links are left out. The
/// maximum in our corpora is 74 KB.
const LINK_BYTES: usize = 1 << 20;

/// The links of a page, resolved.
#[derive(Debug, Default)]
pub(super) struct Links {
    pub(super) intrinsic: Vec<IntrinsicLink>,
    pub(super) transversal: Vec<TransversalLink>,
    pub(super) canonical: Option<PageUrl>,
}

/// The link that a reference resolved to.
#[derive(Clone, Copy)]
enum Target {
    Intrinsic(usize),
    Transversal(usize),
    Nowhere,
}

struct Resolver<'a> {
    page: &'a PageUrl,
    site: SiteId,
    base: Url,
    document: &'a Document,
    text: &'a PageText,
    limits: &'a ParseLimits,
    /// URLs are compared after a lookup, so a collision only lists a link twice.
    by_page: SeededMap<PageKey, Target>,
    encoding: &'static Encoding,
    links: Links,
    /// Size of the URLs and anchors of the links so far.
    bytes: usize,
}

/// Maximum number of references resolved per page: those that resolve to nothing cost time too.
pub(super) fn followed(limits: &ParseLimits) -> usize {
    limits.max_links.saturating_mul(REFERENCES_PER_LINK)
}

/// Resolves everything a document refers to.
pub(super) fn resolve(
    page: &FetchedPage,
    document: &Document,
    text: &PageText,
    encoding: &'static Encoding,
    page_nofollow: bool,
    limits: &ParseLimits,
) -> Links {
    let base = base_of(&page.url, document, limits);
    let mut resolver = Resolver {
        page: &page.url,
        site: page.url.site(),
        document,
        text,
        limits,
        by_page: SeededMap::default(),
        encoding: encoding.output_encoding(),
        links: Links::default(),
        bytes: 0,
        base,
    };
    // Menus repeat the same references; each is resolved once.
    let mut by_reference: SeededMap<&str, Target> = SeededMap::default();
    for raw in document.links.iter().take(followed(limits)) {
        if resolver.is_full() {
            break;
        }
        match by_reference.entry(document.reference(raw)) {
            Entry::Occupied(known) => resolver.merge(*known.get(), raw, page_nofollow),
            Entry::Vacant(unknown) => {
                unknown.insert(resolver.follow(raw, page_nofollow));
            }
        }
    }
    let canonical = document.canonical.as_deref();
    resolver.links.canonical = canonical.and_then(|reference| resolver.join(reference));
    resolver.links
}

/// The first `<base href>` applies to all links, wherever it is.
fn base_of(page: &PageUrl, document: &Document, limits: &ParseLimits) -> Url {
    document
        .base
        .as_deref()
        .filter(|base| base.len() <= limits.max_url_bytes)
        .and_then(|base| page.as_url().join(base.trim_ascii()).ok())
        .filter(|base| matches!(base.scheme(), "http" | "https"))
        .unwrap_or_else(|| page.as_url().clone())
}

impl Resolver<'_> {
    fn is_full(&self) -> bool {
        let links = self.links.intrinsic.len() + self.links.transversal.len();
        links >= self.limits.max_links || self.bytes >= LINK_BYTES
    }

    fn join(&self, reference: &str) -> Option<PageUrl> {
        if reference.len() > self.limits.max_url_bytes {
            return None;
        }
        let page = if self.encoding == UTF_8 {
            PageUrl::join(&self.base, reference)
        } else {
            PageUrl::join_encoded(&self.base, reference, &|text| self.encoding.encode(text).0)
        };
        let page = page.ok()?;
        (page.as_str().len() <= self.limits.max_url_bytes).then_some(page)
    }

    /// Resolves a reference and adds it as a new link, or merges it into the link to the same page.
    fn follow(&mut self, raw: &RawLink, page_nofollow: bool) -> Target {
        let Some(page) = self.join(self.document.reference(raw)) else {
            return Target::Nowhere;
        };
        let key = page.key();
        let known = self.by_page.get(&key).copied();
        let is_same = |target: &Target| {
            let known = self.page_of(*target);
            known.is_some_and(|known| known.is_same_page(&page))
        };
        if let Some(target) = known.filter(is_same) {
            self.merge(target, raw, page_nofollow);
            return target;
        }
        let anchor = self.anchor_of(raw);
        self.bytes += page.as_str().len() + anchor.len();
        let nofollow = raw.nofollow || page_nofollow;
        let other_site = if page.shares_host(self.page) {
            None
        } else {
            Some(page.site()).filter(|site| *site != self.site)
        };
        let target = match other_site {
            None => {
                self.links.intrinsic.push(IntrinsicLink {
                    page,
                    anchor,
                    kind: raw.kind,
                    nofollow,
                });
                Target::Intrinsic(self.links.intrinsic.len() - 1)
            }
            Some(site) => {
                self.links.transversal.push(TransversalLink {
                    site,
                    page,
                    anchor,
                    kind: raw.kind,
                    nofollow,
                });
                Target::Transversal(self.links.transversal.len() - 1)
            }
        };
        self.by_page.insert(key, target);
        target
    }

    fn page_of(&self, target: Target) -> Option<&PageUrl> {
        match target {
            Target::Intrinsic(at) => Some(&self.links.intrinsic[at].page),
            Target::Transversal(at) => Some(&self.links.transversal[at].page),
            Target::Nowhere => None,
        }
    }

    /// Merges another reference into a link.
    fn merge(&mut self, target: Target, raw: &RawLink, page_nofollow: bool) {
        let (anchor, nofollow) = match target {
            Target::Intrinsic(at) => {
                let link = &mut self.links.intrinsic[at];
                (&mut link.anchor, &mut link.nofollow)
            }
            Target::Transversal(at) => {
                let link = &mut self.links.transversal[at];
                (&mut link.anchor, &mut link.nofollow)
            }
            Target::Nowhere => return,
        };
        *nofollow &= raw.nofollow || page_nofollow;
        if anchor.is_empty() {
            *anchor = anchor_text(self.text.slice(raw.anchor.0..raw.anchor.1));
        }
    }

    fn anchor_of(&self, raw: &RawLink) -> String {
        anchor_text(self.text.slice(raw.anchor.0..raw.anchor.1))
    }
}

/// The text of an anchor as one line of bounded length.
fn anchor_text(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(MAX_ANCHOR_BYTES)];
    let mut line = String::with_capacity(text.len());
    for word in text.split_ascii_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}
