//! The profile of a site: category, language, size and oddities.
//!
//! Everything is computed from the number of the site. The number modulo 20 is its category,
//! so that the k-th site of a category is known without a search. The lower k, the more popular
//! the site.

use super::seeded_random::index;
use super::words::{CATEGORIES, TOPICS, WebLanguage};
use super::{GeneratedWeb, category_of};

/// Shares of sites with each [`Oddity`].
const DEAD: f64 = 0.06;
const PARKED: f64 = 0.03;
const ALIAS: f64 = 0.03;
const MIRROR: f64 = 0.02;
const FARM: f64 = 0.04;

/// Minimum and maximum number of pages of a site.
const PAGES: (u32, u32) = (3, 3_000);

/// What makes a site as a whole unusual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Oddity {
    None,
    /// It does not respond.
    Dead,
    /// It shows the placeholder of a domain for sale.
    Parked,
    /// It redirects to another site.
    Alias(u64),
    /// It serves the pages of another site.
    Mirror(u64),
    /// A link farm: spam, links to other farms, and endless subdomains.
    Farm,
}

/// Kinds of homepages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Homepage {
    Plain,
    /// A frameset.
    Frames,
    /// It redirects to another page of the site.
    Redirect,
    /// It leads to another page of the site by a meta refresh.
    Refresh,
    /// Hardly any text.
    Empty,
}

/// Kinds of URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressStyle {
    /// `/news/3.html`
    Files,
    /// `/news/3/`
    Directories,
    /// `/index.php?page=news&id=3`
    Queries,
    /// As `Queries`, with a session id that differs from page to page.
    SessionIds,
}

/// How pages are encoded, and where they declare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charset {
    Utf8,
    /// ISO 8859-1, declared in the header.
    Latin1,
    /// ISO 8859-1, declared in the page only.
    Latin1Meta,
}

/// The rules of robots.txt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RobotRules {
    None,
    /// Disallows everything.
    NoEntry,
    /// Disallows the news.
    NoNews,
    /// A crawl delay of one second.
    Slowly,
}

/// Everything about a site but its pages.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "the traits are independent")]
pub(super) struct Profile {
    pub(super) site: u64,
    /// Index into [`CATEGORIES`].
    pub(super) category: usize,
    pub(super) language: WebLanguage,
    pub(super) oddity: Oddity,
    pub(super) homepage: Homepage,
    pub(super) style: AddressStyle,
    pub(super) charset: Charset,
    pub(super) robots: RobotRules,
    /// Number of product pages.
    pub(super) products: u32,
    /// Number of news pages.
    pub(super) news: u32,
    /// It does not link to commercial sites of its own category.
    pub(super) is_commercial: bool,
    /// It has long lists of links.
    pub(super) is_hub: bool,
    /// Its calendar is a trap: endless months.
    pub(super) has_endless_calendar: bool,
    /// Its responses are delayed.
    pub(super) is_slow: bool,
    /// How much of its text is about its topic, as a factor on the usual share.
    pub(super) focus: f64,
    /// A topic of some of its pages, though not of the site.
    pub(super) guest_topic: Option<usize>,
}

impl Profile {
    pub(super) fn of(web: &GeneratedWeb, site: u64) -> Self {
        let category = category_of(site);
        let mut random = web.random("profile", &[site]);
        let oddity = oddity(web, site);
        let language = match random.share() {
            share if share < 0.62 => WebLanguage::English,
            share if share < 0.80 => WebLanguage::German,
            share if share < 0.91 => WebLanguage::French,
            _ => WebLanguage::Spanish,
        };
        let homepage = match random.share() {
            share if share < 0.02 => Homepage::Frames,
            share if share < 0.05 => Homepage::Redirect,
            share if share < 0.07 => Homepage::Refresh,
            share if share < 0.12 => Homepage::Empty,
            _ => Homepage::Plain,
        };
        let style = match random.share() {
            share if share < 0.45 => AddressStyle::Files,
            share if share < 0.75 => AddressStyle::Directories,
            share if share < 0.96 => AddressStyle::Queries,
            _ => AddressStyle::SessionIds,
        };
        let charset = match random.share() {
            share if share < 0.80 => Charset::Utf8,
            share if share < 0.92 => Charset::Latin1,
            _ => Charset::Latin1Meta,
        };
        let robots = match random.share() {
            share if share < 0.02 => RobotRules::NoEntry,
            share if share < 0.10 => RobotRules::NoNews,
            share if share < 0.12 => RobotRules::Slowly,
            _ => RobotRules::None,
        };
        let pages = random.around(14.0, 1.4) as u32;
        let items = pages.clamp(PAGES.0, PAGES.1) - PAGES.0;
        let news = (f64::from(items) * (0.2 + 0.6 * random.share())) as u32;
        let is_topical = category < TOPICS;
        let welcomes_guests = matches!(CATEGORIES[category], "university" | "newspaper" | "blog");
        let guest = index(random.below(TOPICS as u64));
        Self {
            site,
            category,
            language,
            oddity,
            homepage,
            style,
            charset,
            robots,
            products: items - news,
            news,
            is_commercial: is_topical && random.is(0.3),
            is_hub: random.is(0.04),
            has_endless_calendar: random.is(0.05),
            is_slow: random.is(0.02),
            focus: 0.45 + 0.8 * random.share(),
            guest_topic: welcomes_guests.then_some(guest),
        }
    }

    /// The topic of the site, if it has one and can be crawled.
    pub(super) fn topic(&self, web: &GeneratedWeb) -> Option<&'static str> {
        match self.oddity {
            Oddity::None => (self.category < TOPICS).then(|| CATEGORIES[self.category]),
            Oddity::Mirror(original) => Self::of(web, original).topic(web),
            Oddity::Dead | Oddity::Parked | Oddity::Alias(_) | Oddity::Farm => None,
        }
    }
}

/// Popular sites have none; they are the targets of aliases and mirrors.
fn oddity(web: &GeneratedWeb, site: u64) -> Oddity {
    let mut random = web.random("oddity", &[site]);
    let popularity_rank = site / CATEGORIES.len() as u64;
    if popularity_rank < 3 {
        return Oddity::None;
    }
    // One of the popular sites of the same category, which have no oddity.
    let other = |share: f64| {
        let place = (share * 3.0) as u64;
        place * CATEGORIES.len() as u64 + category_of(site) as u64
    };
    let share = random.share();
    let bounds = [DEAD, PARKED, ALIAS, MIRROR];
    let mut below = 0.0;
    let kind = bounds.iter().position(|bound| {
        below += bound;
        share < below
    });
    match kind {
        Some(0) => Oddity::Dead,
        Some(1) => Oddity::Parked,
        Some(2) => Oddity::Alias(other(random.share())),
        Some(3) => Oddity::Mirror(other(random.share())),
        _ if category_of(site) >= TOPICS && share > 1.0 - FARM => Oddity::Farm,
        _ => Oddity::None,
    }
}
