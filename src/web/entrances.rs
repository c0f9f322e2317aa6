//! The entrances of a site: https or http, with `www.` or without.
//!
//! Invariant: once one entrance has answered, no other is tried, and pages whose links name an
//! entrance that did not answer are requested at the one that did.

use super::PageUrl;

/// The entrances of one site, during one visit.
#[derive(Debug, Clone)]
pub(crate) struct Entrances {
    /// Not yet tried, in order of preference.
    left: Vec<PageUrl>,
    /// Tried without a response.
    shut: Vec<PageUrl>,
    /// The one that answered.
    open: Option<PageUrl>,
}

impl Entrances {
    /// With these entrances to fall back on.
    #[must_use]
    pub(crate) fn new(fallbacks: Vec<PageUrl>) -> Self {
        Self {
            left: fallbacks,
            shut: Vec::new(),
            open: None,
        }
    }

    /// `page` got no response: the next entrance that is worth trying, unless one has answered
    /// already.
    pub(crate) fn next_after(
        &mut self,
        page: &PageUrl,
        is_worth_trying: impl Fn(&PageUrl) -> bool,
    ) -> Option<PageUrl> {
        if self.open.is_some() {
            return None;
        }
        self.shut.push(page.clone());
        let at = self.left.iter().position(is_worth_trying)?;
        Some(self.left.remove(at))
    }

    /// `page` got a response.
    pub(crate) fn open_at(&mut self, page: &PageUrl) {
        self.open.get_or_insert_with(|| page.clone());
    }

    /// The URL to request a page of the site by.
    #[must_use]
    pub(crate) fn spelled(&self, page: PageUrl) -> PageUrl {
        let is_shut = |shut: &PageUrl| shut.shares_host(&page) && shut.scheme() == page.scheme();
        match &self.open {
            Some(open) if self.shut.iter().any(is_shut) => page.at_origin(open),
            _ => page,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> PageUrl {
        text.parse().unwrap()
    }

    #[test]
    fn pages_behind_a_shut_entrance_are_asked_for_at_the_open_one() {
        let entry = page("https://example.org/");
        let mut entrances = Entrances::new(entry.other_entrances());
        let inner = page("https://example.org/a?b");
        assert_eq!(entrances.spelled(inner.clone()), inner);
        let next = entrances.next_after(&entry, |_| true).unwrap();
        assert_eq!(next, page("http://example.org/"));
        entrances.open_at(&next);
        assert_eq!(entrances.spelled(inner), page("http://example.org/a?b"));
        let other = page("https://www.example.org/a");
        assert_eq!(entrances.spelled(other.clone()), other, "it was not tried");
        assert_eq!(entrances.next_after(&next, |_| true), None);
    }

    #[test]
    fn entrances_without_hope_are_passed_over() {
        let entry = page("https://example.org/");
        let mut entrances = Entrances::new(entry.other_entrances());
        let is_https = |page: &PageUrl| page.as_str().starts_with("https:");
        let next = entrances.next_after(&entry, is_https);
        assert_eq!(next, Some(page("https://www.example.org/")));
    }
}
