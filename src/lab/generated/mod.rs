//! A generated web of any size.
//!
//! Every page is computed from its URL: a million sites take as much memory as a hundred, and
//! the same random seed gives the same web, byte by byte.
//!
//! | file | content |
//! |---|---|
//! | `names.rs` | hosts of sites |
//! | `profile.rs` | properties of a site: category, language, size, oddities, traps |
//! | `links.rs` | links between sites: locality, popularity, hubs, competitors, farms |
//! | `addresses.rs` | URLs of pages |
//! | `pages.rs`, `prose.rs`, `words.rs` | content of pages, in four languages |
//! | `server.rs` | the web over HTTP, with latency and faults |
//! | `seeded_random.rs` | reproducible random numbers |
//!
//! Invariant: no state is kept between two requests.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shares and sizes are drawn, and need no more than 52 bits"
)]

mod addresses;
mod links;
mod names;
mod pages;
mod profile;
mod prose;
mod seeded_random;
mod server;
mod words;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::fetch::{FetchError, Fetcher};
use crate::training::OTHER;
use crate::web::{FetchedPage, PageUrl, SiteId, Transfer};
use addresses::GeneratedPageKind;
use profile::{Charset, Homepage, Oddity, Profile, RobotRules};
use seeded_random::SeededRandom;
pub use server::{Conditions, WebServer};
use words::{CATEGORIES, TOPICS};

/// A web whose pages are computed on request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeneratedWeb {
    sites: u64,
    seed: u64,
    /// Share of links of topical sites that lead to their own topic.
    locality: f64,
}

/// A response of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratedAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The bytes of the page, in its own charset.
    pub body: Bytes,
}

/// The true label of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// A site of this topic.
    Topic(&'static str),
    /// A site of no topic.
    Other,
    /// No site to judge: dead, parked, an alias, closed to robots, or nonexistent.
    NoSite,
}

/// Maximum number of sites.
const MOST_SITES: u64 = 1 << 36;

fn category_of(site: u64) -> usize {
    seeded_random::index(site % CATEGORIES.len() as u64)
}

// === impl GeneratedWeb ===

impl GeneratedWeb {
    /// A web of `sites` sites, at least 100; one in twenty is of each topic.
    #[must_use]
    pub fn new(sites: u64, seed: u64) -> Self {
        Self {
            sites: sites.clamp(100, MOST_SITES),
            seed,
            locality: 0.5,
        }
    }

    /// With another topical locality, from 0 to 1.
    #[must_use]
    pub(crate) fn with_locality(self, locality: f64) -> Self {
        Self {
            locality: locality.clamp(0.0, 1.0),
            ..self
        }
    }

    #[must_use]
    pub(crate) fn topics() -> &'static [&'static str] {
        &CATEGORIES[..TOPICS]
    }

    /// Number of sites.
    #[must_use]
    pub fn sites(&self) -> u64 {
        self.sites
    }

    /// The host of a number, and its true label.
    #[must_use]
    pub fn site(&self, number: u64) -> (String, Truth) {
        let number = number % self.sites;
        let truth = self.truth_of(&Profile::of(self, number));
        (names::host(self, number), truth)
    }

    /// The topic of this name, if the web has it.
    #[must_use]
    pub(crate) fn topic(name: &str) -> Option<&'static str> {
        Self::topics().iter().copied().find(|topic| *topic == name)
    }

    /// The sites that can be judged, each with its label. Mirrors are left out: training on one
    /// would reveal the other.
    pub fn originals(&self) -> impl Iterator<Item = (SiteId, &'static str)> {
        let web = *self;
        (0..web.sites).filter_map(move |number| {
            let profile = Profile::of(&web, number);
            let about = match web.truth_of(&profile) {
                Truth::Topic(topic) => topic,
                Truth::Other => OTHER,
                Truth::NoSite => return None,
            };
            let is_mirror = matches!(profile.oddity, Oddity::Mirror(_));
            let site = names::host(&web, number).parse().ok()?;
            (!is_mirror).then_some((site, about))
        })
    }

    /// Labelled training sites: the first `targets` sites of the topic and the first `others`
    /// of the rest; none if there are fewer.
    #[must_use]
    pub fn examples(
        &self,
        topic: &str,
        targets: usize,
        others: usize,
    ) -> Option<Vec<(SiteId, &'static str)>> {
        let (mut own, mut rest) = (Vec::new(), Vec::new());
        for (site, about) in self.originals() {
            let (kept, limit) = if about == topic {
                (&mut own, targets)
            } else {
                (&mut rest, others)
            };
            if kept.len() < limit {
                kept.push((site, about));
            }
            if own.len() == targets && rest.len() == others {
                own.extend(rest);
                return Some(own);
            }
        }
        None
    }

    /// The true label of a site.
    #[must_use]
    pub fn truth(&self, site: &SiteId) -> Truth {
        match names::site_of(self, site.host()) {
            Some((number, "")) => self.truth_of(&Profile::of(self, number)),
            Some((number, _)) if Profile::of(self, number).oddity == Oddity::Farm => Truth::Other,
            _ => Truth::NoSite,
        }
    }

    /// The response to a request; none if the host does not exist or does not respond.
    #[must_use]
    pub fn answer(&self, host: &str, path: &str, query: Option<&str>) -> Option<GeneratedAnswer> {
        let (number, below) = names::site_of(self, host)?;
        let profile = Profile::of(self, number);
        if !below.is_empty() && profile.oddity != Oddity::Farm {
            return None;
        }
        if path == "/robots.txt" {
            return robots_txt(&profile);
        }
        match profile.oddity {
            Oddity::Dead => None,
            Oddity::Parked => Some(GeneratedAnswer::html(
                StatusCode::OK,
                &pages::parked(&profile),
                &profile,
            )),
            Oddity::Alias(other) => {
                let target = format!("http://{}/", names::host(self, other));
                Some(GeneratedAnswer::redirect(
                    StatusCode::MOVED_PERMANENTLY,
                    &target,
                ))
            }
            Oddity::Farm => {
                let html = pages::farm(self, &profile, below, path);
                Some(GeneratedAnswer::html(StatusCode::OK, &html, &profile))
            }
            Oddity::Mirror(original) => {
                Some(self.ordinary(&Profile::of(self, original), path, query))
            }
            Oddity::None => Some(self.ordinary(&profile, path, query)),
        }
    }

    fn ordinary(&self, profile: &Profile, path: &str, query: Option<&str>) -> GeneratedAnswer {
        let Some(kind) = addresses::kind_at(profile, path, query) else {
            return GeneratedAnswer::html(StatusCode::NOT_FOUND, &pages::missing(profile), profile);
        };
        if kind == GeneratedPageKind::Home && profile.homepage == Homepage::Redirect {
            let target = addresses::target(profile, GeneratedPageKind::Start, 0);
            return GeneratedAnswer::redirect(StatusCode::FOUND, &target);
        }
        GeneratedAnswer::html(StatusCode::OK, &pages::page(self, profile, kind), profile)
    }

    fn truth_of(&self, profile: &Profile) -> Truth {
        let is_closed = profile.robots == RobotRules::NoEntry;
        match profile.topic(self) {
            _ if is_closed => Truth::NoSite,
            Some(topic) => Truth::Topic(topic),
            None => match profile.oddity {
                Oddity::Dead | Oddity::Parked | Oddity::Alias(_) => Truth::NoSite,
                Oddity::None | Oddity::Mirror(_) | Oddity::Farm => Truth::Other,
            },
        }
    }

    fn random(&self, stream: &str, numbers: &[u64]) -> SeededRandom {
        SeededRandom::about(self.seed, stream, numbers)
    }

    fn is_slow(&self, host: &str) -> bool {
        let site = names::site_of(self, host);
        site.is_some_and(|(number, _)| Profile::of(self, number).is_slow)
    }

    /// Whether robots.txt allows a page.
    fn is_allowed(&self, page: &PageUrl) -> bool {
        let url = page.as_url();
        let host = url.host_str().unwrap_or_default();
        let Some((number, _)) = names::site_of(self, host) else {
            return true;
        };
        let profile = Profile::of(self, number);
        match profile.robots {
            RobotRules::NoEntry => false,
            RobotRules::NoNews => !matches!(
                addresses::kind_at(&profile, url.path(), url.query()),
                Some(GeneratedPageKind::News(_) | GeneratedPageKind::NewsList(_))
            ),
            RobotRules::None | RobotRules::Slowly => true,
        }
    }
}

#[async_trait]
impl Fetcher for GeneratedWeb {
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
        let url = page.as_url();
        let host = url.host_str().unwrap_or_default();
        let Some(answer) = self.answer(host, url.path(), url.query()) else {
            return Err(FetchError::no_host(&page.site()));
        };
        if !self.is_allowed(page) {
            return Err(FetchError::disallowed(page));
        }
        Ok(FetchedPage {
            url: page.clone(),
            status: answer.status,
            headers: answer.headers,
            transfer: Transfer {
                wire_bytes: answer.body.len() as u64,
                ..Transfer::default()
            },
            body: answer.body,
            truncated: false,
        })
    }
}

/// The robots.txt of a site; 404 for a site without rules.
fn robots_txt(profile: &Profile) -> Option<GeneratedAnswer> {
    let rules = match profile.robots {
        RobotRules::NoEntry => "User-agent: *\nDisallow: /\n".to_owned(),
        RobotRules::NoNews => {
            let news = addresses::target(profile, GeneratedPageKind::News(1), 0);
            // The prefix that names the section; numbers, lists and session ids follow it.
            let section: String = match news.split_once('&') {
                Some((section, _)) => section.to_owned(),
                None => news.split_inclusive('/').take(2).collect(),
            };
            format!("User-agent: *\nDisallow: {section}\n")
        }
        RobotRules::Slowly => "User-agent: *\nCrawl-delay: 1\n".to_owned(),
        RobotRules::None => return Some(GeneratedAnswer::plain(StatusCode::NOT_FOUND, "")),
    };
    match profile.oddity {
        Oddity::Dead => None,
        _ => Some(GeneratedAnswer::plain(StatusCode::OK, &rules)),
    }
}

// === impl GeneratedAnswer ===

impl GeneratedAnswer {
    fn plain(status: StatusCode, text: &str) -> Self {
        Self::new(status, CONTENT_TYPE, "text/plain", text.as_bytes().to_vec())
    }

    fn redirect(status: StatusCode, target: &str) -> Self {
        Self::new(status, LOCATION, target, Vec::new())
    }

    fn html(status: StatusCode, html: &str, profile: &Profile) -> Self {
        let (content_type, body) = match profile.charset {
            Charset::Utf8 => ("text/html; charset=utf-8", html.as_bytes().to_vec()),
            Charset::Latin1 => ("text/html; charset=iso-8859-1", latin1(html)),
            Charset::Latin1Meta => ("text/html", latin1(html)),
        };
        Self::new(status, CONTENT_TYPE, content_type, body)
    }

    fn new(status: StatusCode, name: http::HeaderName, value: &str, body: Vec<u8>) -> Self {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
        Self {
            status,
            headers,
            body: body.into(),
        }
    }
}

fn latin1(text: &str) -> Vec<u8> {
    let byte = |letter: char| u8::try_from(u32::from(letter)).unwrap_or(b'?');
    text.chars().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet, VecDeque};

    use super::*;
    use crate::parse::{self, ParseLimits};
    use crate::web::ParsedPage;

    const LIMITS: ParseLimits = ParseLimits {
        max_links: 10_000,
        max_url_bytes: 2_048,
    };

    fn fetched(web: &GeneratedWeb, page: &PageUrl) -> Option<FetchedPage> {
        let url = page.as_url();
        let answer = web.answer(url.host_str()?, url.path(), url.query())?;
        Some(FetchedPage {
            url: page.clone(),
            status: answer.status,
            headers: answer.headers,
            body: answer.body,
            truncated: false,
            transfer: Transfer::default(),
        })
    }

    fn home(host: &str) -> PageUrl {
        format!("http://{host}/").parse().unwrap()
    }

    fn read(web: &GeneratedWeb, page: &PageUrl) -> Option<ParsedPage> {
        let fetched = fetched(web, page)?;
        Some(parse::parse(&fetched, &LIMITS))
    }

    fn profiles(web: &GeneratedWeb, sites: u64) -> impl Iterator<Item = Profile> {
        (0..sites).map(|site| Profile::of(web, site))
    }

    #[test]
    fn the_same_seed_makes_the_same_web_and_size_costs_nothing() {
        for sites in [100, 1_000_000_000] {
            let (one, same) = (GeneratedWeb::new(sites, 7), GeneratedWeb::new(sites, 7));
            let other = GeneratedWeb::new(sites, 8);
            let number = sites - 41;
            assert_eq!(one.site(number), same.site(number));
            assert_ne!(one.site(number).0, other.site(number).0);
            let (host, _) = one.site(number);
            assert_eq!(one.answer(&host, "/", None), same.answer(&host, "/", None));
            assert_eq!(other.answer(&host, "/", None), None);
        }
    }

    #[test]
    fn every_link_inside_a_site_leads_to_a_page() {
        let web = GeneratedWeb::new(5_000, 1);
        let ordinary = profiles(&web, 400).filter(|profile| profile.oddity == Oddity::None);
        for profile in ordinary.take(60) {
            let host = names::host(&web, profile.site);
            let mut waiting = VecDeque::from([home(&host)]);
            let mut seen: BTreeSet<String> = BTreeSet::new();
            while let Some(page) = waiting.pop_front()
                && seen.len() < 40
            {
                if !seen.insert(page.to_string()) {
                    continue;
                }
                let fetched = fetched(&web, &page).unwrap();
                if let Some(target) = fetched.redirect_target() {
                    waiting.push_back(target);
                    continue;
                }
                assert_eq!(fetched.status, StatusCode::OK, "{page}");
                let parsed = parse::parse(&fetched, &LIMITS);
                waiting.extend(parsed.intrinsic_links.into_iter().map(|link| link.page));
            }
            let wanted = 3.min(profile.products + profile.news + 3);
            assert!(seen.len() as u32 >= wanted, "{host}: {seen:?}");
        }
    }

    #[test]
    fn one_site_in_twenty_is_of_each_topic_and_oddities_have_their_shares() {
        let web = GeneratedWeb::new(8_000, 1);
        let mut topics: BTreeMap<&str, u32> = BTreeMap::new();
        let mut oddities = [0_u32; 6];
        for profile in profiles(&web, 8_000) {
            if let Truth::Topic(topic) = web.truth_of(&profile) {
                *topics.entry(topic).or_default() += 1;
            }
            let oddity = match profile.oddity {
                Oddity::None => 0,
                Oddity::Dead => 1,
                Oddity::Parked => 2,
                Oddity::Alias(_) => 3,
                Oddity::Mirror(_) => 4,
                Oddity::Farm => 5,
            };
            oddities[oddity] += 1;
        }
        assert_eq!(topics.len(), TOPICS);
        assert!(
            topics.values().all(|sites| (300..400).contains(sites)),
            "{topics:?}"
        );
        let wanted = [6_700, 480, 240, 240, 160, 128];
        for (count, wanted) in oddities.into_iter().zip(wanted) {
            let share = f64::from(count) / f64::from(wanted);
            assert!((0.7..1.3).contains(&share), "{oddities:?}");
        }
    }

    #[test]
    fn half_of_the_links_of_topical_sites_lead_to_their_topic() {
        let web = GeneratedWeb::new(20_000, 1);
        for (locality, least, most) in [(0.5, 0.4, 0.6), (0.1, 0.05, 0.2), (0.9, 0.8, 1.0)] {
            let web = web.with_locality(locality);
            let (mut links, mut local) = (0_u32, 0_u32);
            let topical = profiles(&web, 2_000)
                .filter(|profile| profile.category < TOPICS && profile.oddity == Oddity::None);
            for profile in topical {
                for target in links::targets(&web, &profile) {
                    links += 1;
                    local += u32::from(category_of(target) == profile.category);
                    let other = Profile::of(&web, target);
                    let is_rival = category_of(target) == profile.category
                        && profile.is_commercial
                        && other.is_commercial;
                    assert!(!is_rival, "competitors do not link to each other");
                }
            }
            let share = f64::from(local) / f64::from(links);
            assert!((least..most).contains(&share), "{locality}: {share}");
        }
    }

    #[test]
    fn pages_read_as_what_they_are() {
        let web = GeneratedWeb::new(20_000, 1);
        let (mut right, mut all) = (0_u32, 0_u32);
        for profile in profiles(&web, 1_500) {
            let host = names::host(&web, profile.site);
            let page = read(&web, &home(&host));
            match profile.oddity {
                Oddity::Dead => assert!(page.is_none()),
                Oddity::Parked => assert!(page.unwrap().signs.parked, "{host}"),
                Oddity::None if profile.homepage == Homepage::Plain => {
                    let page = page.unwrap();
                    assert!(!page.signs.parked && !page.signs.soft_404, "{host}");
                    all += 1;
                    let recognised = page.language.map(|found| found.to_string());
                    right += u32::from(recognised.as_deref() == Some(profile.language.code()));
                }
                _ => {}
            }
        }
        assert!(
            right * 100 > all * 95,
            "{right} of {all} languages are recognised"
        );
    }

    #[test]
    fn traps_have_no_end() {
        let web = GeneratedWeb::new(20_000, 1);
        let endless = profiles(&web, 2_000).find(|profile| {
            profile.has_endless_calendar
                && profile.oddity == Oddity::None
                && addresses::exists(profile, GeneratedPageKind::Calendar(0))
        });
        let endless = endless.unwrap();
        assert!(addresses::exists(
            &endless,
            GeneratedPageKind::Calendar(1_000_000)
        ));
        let farm = profiles(&web, 5_000).find(|profile| profile.oddity == Oddity::Farm);
        let host = names::host(&web, farm.unwrap().site);
        let below = read(&web, &home(&format!("a.b.c.{host}"))).unwrap();
        let hosts: BTreeSet<&str> = below
            .transversal_links
            .iter()
            .map(|link| link.site.as_str())
            .filter(|site| site.ends_with(&host))
            .collect();
        assert!(hosts.len() > 5, "{hosts:?}");
        let sites = profiles(&web, 2_000);
        let session = sites
            .filter(|profile| profile.oddity == Oddity::None)
            .find(|profile| profile.style == profile::AddressStyle::SessionIds);
        let session = session.unwrap();
        let target = |from| addresses::target(&session, GeneratedPageKind::About, from);
        assert_ne!(target(1), target(2));
    }

    #[test]
    fn robots_txt_states_the_rules_obeyed_without_a_server() {
        let web = GeneratedWeb::new(20_000, 1);
        let mut styles = [0_u32; 4];
        let shy = profiles(&web, 2_000).filter(|profile| profile.robots == RobotRules::NoNews);
        for profile in shy.filter(|profile| profile.oddity == Oddity::None) {
            let (host, _) = web.site(profile.site);
            let rules = web.answer(&host, "/robots.txt", None).unwrap();
            let rules = String::from_utf8_lossy(&rules.body).into_owned();
            let (_, section) = rules.trim_end().split_once("Disallow: ").unwrap();
            for kind in [
                GeneratedPageKind::Home,
                GeneratedPageKind::About,
                GeneratedPageKind::Links,
                GeneratedPageKind::Product(1),
                GeneratedPageKind::ProductList(1),
                GeneratedPageKind::News(1),
                GeneratedPageKind::News(2),
                GeneratedPageKind::NewsList(1),
            ] {
                if !addresses::exists(&profile, kind) {
                    continue;
                }
                let target = addresses::target(&profile, kind, 7);
                let page = format!("http://{host}{target}").parse().unwrap();
                let may_be_read = !target.starts_with(section);
                assert_eq!(web.is_allowed(&page), may_be_read, "{page}: {rules}");
            }
            styles[profile.style as usize] += 1;
        }
        assert!(styles.iter().all(|sites| *sites > 0), "{styles:?}");
    }

    #[tokio::test]
    async fn robots_are_obeyed_without_a_server_too() {
        let web = GeneratedWeb::new(20_000, 1);
        let mut closed = profiles(&web, 5_000).filter(|profile| {
            profile.robots == RobotRules::NoEntry && profile.oddity == Oddity::None
        });
        let (host, truth) = web.site(closed.next().unwrap().site);
        assert_eq!(truth, Truth::NoSite);
        web.fetch(&home(&host)).await.unwrap_err();
        let rules = web.answer(&host, "/robots.txt", None).unwrap();
        assert!(String::from_utf8_lossy(&rules.body).contains("Disallow: /"));
        let none = home("nobody-at-all.example");
        web.fetch(&none).await.unwrap_err();
    }
}
