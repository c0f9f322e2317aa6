//! From references as written to links by target.
//!
//! A page links to another page once, however often it says so: the first reference gives
//! the place in the order, the first anchor with words gives the text, and one that vouches
//! outweighs those that do not.
//!
//! Invariant: at most as many links as the limit, none longer than the limit, and a base
//! longer than that is no base: a megabyte of it, times ten thousand links, would be ten
//! gigabytes. Addresses and anchors of all links together have at most [`LINK_BYTES`]: a base of
//! two kilobytes, times ten thousand links, is still twenty megabytes for a body of hundred
//! kilobytes.

use std::collections::hash_map::Entry;

use encoding_rs::{Encoding, UTF_8};
use url::Url;

use crate::web::{FetchedPage, IntrinsicLink, PageKey, PageText, PageUrl, SiteId, TransversalLink};

use super::html::{Document, RawLink};
use super::{ParseLimits, SeededMap};

/// More of an anchor's text says nothing more about its target.
const MAX_ANCHOR_BYTES: usize = 256;

/// So many references are looked at for each link that may be kept.
const REFERENCES_PER_LINK: usize = 4;

/// The most that addresses and anchors of a page's links may have together; links after that are
/// left out. The most of our corpora is 74 KB.
const LINK_BYTES: usize = 1 << 20;

/// The links of a page, resolved.
#[derive(Debug, Default)]
pub(super) struct Links {
    pub(super) intrinsic: Vec<IntrinsicLink>,
    pub(super) transversal: Vec<TransversalLink>,
    pub(super) canonical: Option<PageUrl>,
}

/// Where a reference leads, as far as it was followed.
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
    /// What is found is compared, so a collision costs nothing but a link listed twice.
    by_page: SeededMap<PageKey, Target>,
    encoding: &'static Encoding,
    links: Links,
    /// What addresses and anchors of the links have so far.
    bytes: usize,
}

/// So many references of a page are looked at: those that lead nowhere cost time too.
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
    // Menus repeat the same reference all over a page; resolving it once is enough.
    let mut by_reference: SeededMap<&str, Target> = SeededMap::default();
    for raw in document.links.iter().take(followed(limits)) {
        if resolver.is_full() {
            break;
        }
        match by_reference.entry(document.reference(raw)) {
            Entry::Occupied(known) => resolver.meet_again(*known.get(), raw, page_nofollow),
            Entry::Vacant(unknown) => {
                unknown.insert(resolver.follow(raw, page_nofollow));
            }
        }
    }
    let canonical = document.canonical.as_deref();
    resolver.links.canonical = canonical.and_then(|reference| resolver.join(reference));
    resolver.links
}

/// The first `<base href>` counts for all links, wherever it stands.
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

    /// Adds the link that a reference makes, or meets it again under another spelling.
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
            self.meet_again(target, raw, page_nofollow);
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

    fn meet_again(&mut self, target: Target, raw: &RawLink, page_nofollow: bool) {
        let (known, nofollow) = match target {
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
        if known.is_empty() {
            *known = anchor_text(self.text.slice(raw.anchor.0..raw.anchor.1));
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
