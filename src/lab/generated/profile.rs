//! What a site is like: its category, its language, its size, and what is odd about it.
//!
//! Everything follows from the number of the site. Slots give the category: every twentieth
//! site is of the same one, so that the k-th site of a category can be named without
//! looking for it. The lower k, the more popular the site.

use super::seeded_random::index;
use super::words::{CATEGORIES, TOPICS, Tongue};
use super::{GeneratedWeb, category_of};

/// Shares of sites that are no sites of their own, or hard to visit.
const DEAD: f64 = 0.06;
const PARKED: f64 = 0.03;
const ALIAS: f64 = 0.03;
const MIRROR: f64 = 0.02;
const FARM: f64 = 0.04;

/// The fewest and the most pages of a site.
const PAGES: (u32, u32) = (3, 3_000);

/// What is odd about a site as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Oddity {
    /// Nothing.
    None,
    /// Nobody answers.
    Dead,
    /// A placeholder.
    Parked,
    /// It redirects to another site.
    Alias(u64),
    /// It shows the pages of another site.
    Mirror(u64),
    /// A link farm: spam, links to other farms, and endless hosts below its own.
    Farm,
}

/// What is odd about a homepage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Homepage {
    Plain,
    /// Nothing but frames.
    Frames,
    /// It redirects to another page of the site.
    Redirect,
    /// It refreshes to another page of the site.
    Refresh,
    /// Hardly any text.
    Empty,
}

/// How addresses look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressStyle {
    /// `/news/3.html`
    Files,
    /// `/news/3/`
    Directories,
    /// `/index.php?page=news&id=3`
    Queries,
    /// The same, with a number that is new on every page.
    SessionIds,
}

/// In which bytes pages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charset {
    Utf8,
    /// ISO 8859-1, as the header says.
    Latin1,
    /// ISO 8859-1, as the page says.
    Latin1Meta,
}

/// What robots are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RobotRules {
    None,
    /// Stay away.
    NoEntry,
    /// Leave the news alone.
    NoNews,
    /// A second between two requests.
    Slowly,
}

/// What a site is like.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a trait of its own")]
pub(super) struct Profile {
    pub(super) site: u64,
    /// Its slot: an index into the categories.
    pub(super) category: usize,
    pub(super) tongue: Tongue,
    pub(super) oddity: Oddity,
    pub(super) homepage: Homepage,
    pub(super) style: AddressStyle,
    pub(super) charset: Charset,
    pub(super) robots: RobotRules,
    /// How many products and news it has.
    pub(super) products: u32,
    pub(super) news: u32,
    /// It sells something, and does not link to its competitors.
    pub(super) is_commercial: bool,
    /// It has long lists of links.
    pub(super) is_hub: bool,
    /// Its calendar has no end.
    pub(super) has_endless_calendar: bool,
    /// It answers late.
    pub(super) is_slow: bool,
    /// How much of its text is about its topic, beside others of the category.
    pub(super) focus: f64,
    /// A topic that some pages are about although the site is not.
    pub(super) guest_topic: Option<usize>,
}

impl Profile {
    pub(super) fn of(web: &GeneratedWeb, site: u64) -> Self {
        let category = category_of(site);
        let mut chance = web.chance("profile", &[site]);
        let oddity = oddity(web, site);
        let tongue = match chance.share() {
            share if share < 0.62 => Tongue::English,
            share if share < 0.80 => Tongue::German,
            share if share < 0.91 => Tongue::French,
            _ => Tongue::Spanish,
        };
        let homepage = match chance.share() {
            share if share < 0.02 => Homepage::Frames,
            share if share < 0.05 => Homepage::Redirect,
            share if share < 0.07 => Homepage::Refresh,
            share if share < 0.12 => Homepage::Empty,
            _ => Homepage::Plain,
        };
        let style = match chance.share() {
            share if share < 0.45 => AddressStyle::Files,
            share if share < 0.75 => AddressStyle::Directories,
            share if share < 0.96 => AddressStyle::Queries,
            _ => AddressStyle::SessionIds,
        };
        let charset = match chance.share() {
            share if share < 0.80 => Charset::Utf8,
            share if share < 0.92 => Charset::Latin1,
            _ => Charset::Latin1Meta,
        };
        let robots = match chance.share() {
            share if share < 0.02 => RobotRules::NoEntry,
            share if share < 0.10 => RobotRules::NoNews,
            share if share < 0.12 => RobotRules::Slowly,
            _ => RobotRules::None,
        };
        let pages = chance.around(14.0, 1.4) as u32;
        let items = pages.clamp(PAGES.0, PAGES.1) - PAGES.0;
        let news = (f64::from(items) * (0.2 + 0.6 * chance.share())) as u32;
        let is_topical = category < TOPICS;
        let welcomes_guests = matches!(CATEGORIES[category], "university" | "newspaper" | "blog");
        let guest = index(chance.below(TOPICS as u64));
        Self {
            site,
            category,
            tongue,
            oddity,
            homepage,
            style,
            charset,
            robots,
            products: items - news,
            news,
            is_commercial: is_topical && chance.is(0.3),
            is_hub: chance.is(0.04),
            has_endless_calendar: chance.is(0.05),
            is_slow: chance.is(0.02),
            focus: 0.45 + 0.8 * chance.share(),
            guest_topic: welcomes_guests.then_some(guest),
        }
    }

    /// The topic of the site, if it is one that anybody could look for.
    pub(super) fn topic(&self, web: &GeneratedWeb) -> Option<&'static str> {
        match self.oddity {
            Oddity::None => (self.category < TOPICS).then(|| CATEGORIES[self.category]),
            Oddity::Mirror(original) => Self::of(web, original).topic(web),
            Oddity::Dead | Oddity::Parked | Oddity::Alias(_) | Oddity::Farm => None,
        }
    }
}

/// Of popular sites nothing is odd.
fn oddity(web: &GeneratedWeb, site: u64) -> Oddity {
    let mut chance = web.chance("oddity", &[site]);
    let place = site / CATEGORIES.len() as u64;
    if place < 3 {
        return Oddity::None;
    }
    // Another site of the same category, which is none of these.
    let other = |share: f64| {
        let place = (share * 3.0) as u64;
        place * CATEGORIES.len() as u64 + category_of(site) as u64
    };
    let share = chance.share();
    let bounds = [DEAD, PARKED, ALIAS, MIRROR];
    let mut below = 0.0;
    let kind = bounds.iter().position(|bound| {
        below += bound;
        share < below
    });
    match kind {
        Some(0) => Oddity::Dead,
        Some(1) => Oddity::Parked,
        Some(2) => Oddity::Alias(other(chance.share())),
        Some(3) => Oddity::Mirror(other(chance.share())),
        _ if category_of(site) >= TOPICS && share > 1.0 - FARM => Oddity::Farm,
        _ => Oddity::None,
    }
}
