//! The content of pages, as HTML.

use std::fmt::Write;

use super::GeneratedWeb;
use super::addresses::{self, FIRST_YEAR, GUEST_PAGES, GeneratedPageKind, LIST_LENGTH};
use super::links;
use super::names;
use super::profile::{Charset, Homepage, Profile};
use super::prose::{Mixture, person};
use super::seeded_random::{SeededRandom, index};
use super::words::{Boilerplate, WORDS};

/// Share of product and news pages that are about another category than their site.
const STRAY_PAGES: f64 = 0.08;

/// Number of links to other sites on the homepage.
const LINKS_AT_HOME: usize = 2;

struct Page<'w> {
    web: &'w GeneratedWeb,
    profile: &'w Profile,
    kind: GeneratedPageKind,
    said: &'static Boilerplate,
    /// The random stream of this page.
    random: SeededRandom,
    html: String,
}

/// A page of a site.
pub(super) fn page(web: &GeneratedWeb, profile: &Profile, kind: GeneratedPageKind) -> String {
    let number = number_of(kind);
    let page = Page {
        web,
        profile,
        kind,
        said: WORDS.boilerplate(profile.language),
        random: web.random("page", &[profile.site, number]),
        html: String::with_capacity(8 << 10),
    };
    page.write()
}

/// The page of a domain that is for sale.
pub(super) fn parked(profile: &Profile) -> String {
    let said = WORDS.boilerplate(profile.language);
    format!(
        "<!doctype html><html><head><title>{0}</title></head><body><h1>{0}</h1><p>{1}</p></body>\
         </html>",
        escaped(&said.all("parked").chars().take(60).collect::<String>()),
        escaped(&said.all("parked"))
    )
}

/// The page of a 404.
pub(super) fn missing(profile: &Profile) -> String {
    let said = WORDS.boilerplate(profile.language);
    format!(
        "<!doctype html><html><head><title>404</title></head><body><h1>404</h1><p>{}</p>\
         <p><a href=\"/\">{}</a></p></body></html>",
        escaped(&said.all("missing")),
        escaped(&said.all("home"))
    )
}

/// A page of a link farm, on any of its endless subdomains.
pub(super) fn farm(web: &GeneratedWeb, profile: &Profile, below: &str, path: &str) -> String {
    let mut random = web.random(below, &[profile.site]);
    let words = [(&WORDS.farm, 0.8), (&WORDS.general, 0.2)];
    let mixture = Mixture::new(web, profile.site, profile.language, &words);
    let mut html = format!(
        "<!doctype html><html><head><title>{}</title></head><body>",
        mixture.phrase(&mut random)
    );
    let host = names::host(web, profile.site);
    for target in links::targets(web, profile) {
        let _ = write!(
            html,
            "<p>{} <a href=\"http://{}/\">{}</a></p>",
            mixture.text(12, &mut random),
            names::host(web, target),
            mixture.phrase(&mut random)
        );
    }
    // Every subdomain responds, and links to more of them.
    for _ in 0..10 {
        let name = random.below(1 << 30);
        let _ = write!(html, "<a href=\"http://n{name:x}.{host}/\">{name}</a> ");
    }
    let _ = write!(
        html,
        "<a href=\"{}x/\">more</a></body></html>",
        escaped(path)
    );
    html
}

fn number_of(kind: GeneratedPageKind) -> u64 {
    let (kind, number) = match kind {
        GeneratedPageKind::Home => (0, 0),
        GeneratedPageKind::Start => (1, 0),
        GeneratedPageKind::About => (2, 0),
        GeneratedPageKind::Contact => (3, 0),
        GeneratedPageKind::Imprint => (4, 0),
        GeneratedPageKind::Staff => (5, 0),
        GeneratedPageKind::Links => (6, 0),
        GeneratedPageKind::Calendar(number) => (7, number),
        GeneratedPageKind::ProductList(number) => (8, number),
        GeneratedPageKind::NewsList(number) => (9, number),
        GeneratedPageKind::Product(number) => (10, number),
        GeneratedPageKind::News(number) => (11, number),
        GeneratedPageKind::Guest(number) => (12, number),
    };
    kind << 32 | u64::from(number)
}

impl<'w> Page<'w> {
    fn write(mut self) -> String {
        let mixture = self.mixture();
        let site_title = names::title(self.web, self.profile.site, self.profile.language);
        let label = self.label(self.kind);
        let title = match self.kind {
            GeneratedPageKind::Home => site_title.clone(),
            GeneratedPageKind::Product(_)
            | GeneratedPageKind::News(_)
            | GeneratedPageKind::Guest(_) => {
                format!("{} - {site_title}", mixture.phrase(&mut self.random))
            }
            _ => format!("{label} - {site_title}"),
        };
        self.head(&title, &mixture);
        match (self.kind, self.profile.homepage) {
            (GeneratedPageKind::Home, Homepage::Frames) => {
                let (menu, start) = (
                    self.target(GeneratedPageKind::About),
                    self.target(GeneratedPageKind::Start),
                );
                self.put(&format!(
                    "<frameset cols=\"20%,80%\"><frame src=\"{menu}\"><frame src=\"{start}\">\
                     </frameset></html>"
                ));
                return self.html;
            }
            (GeneratedPageKind::Home, Homepage::Empty) => {
                let start = self.target(GeneratedPageKind::Start);
                self.put(&format!(
                    "<body><p><a href=\"{start}\"><img src=\"/logo.gif\" alt=\"{}\"></a></p>\
                     </body></html>",
                    escaped(&site_title)
                ));
                return self.html;
            }
            _ => {}
        }
        self.put(&format!(
            "<body><div class=\"top\">{}</div>",
            escaped(&site_title)
        ));
        self.menu();
        self.put(&format!("<h1>{}</h1>", escaped(&title)));
        self.body(&mixture);
        self.foot();
        self.html
    }

    /// The vocabularies of the page.
    fn mixture(&mut self) -> Mixture<'w> {
        let profile = self.profile;
        let own = &WORDS.categories[profile.category];
        let is_item = matches!(
            self.kind,
            GeneratedPageKind::Product(_) | GeneratedPageKind::News(_)
        );
        let stray = &WORDS.categories[index(self.random.below(20))];
        let subject = match (self.kind, profile.guest_topic) {
            (GeneratedPageKind::Guest(_), Some(topic)) => &WORDS.categories[topic],
            (GeneratedPageKind::News(_), Some(topic)) if self.random.is(STRAY_PAGES) => {
                &WORDS.categories[topic]
            }
            _ if is_item && self.random.is(STRAY_PAGES) => stray,
            _ => own,
        };
        let share = profile.focus
            * match self.kind {
                GeneratedPageKind::Product(_) | GeneratedPageKind::ProductList(_) => 0.42,
                GeneratedPageKind::Home
                | GeneratedPageKind::Start
                | GeneratedPageKind::Guest(_) => 0.36,
                GeneratedPageKind::About
                | GeneratedPageKind::News(_)
                | GeneratedPageKind::NewsList(_) => 0.30,
                GeneratedPageKind::Links | GeneratedPageKind::Calendar(_) => 0.20,
                GeneratedPageKind::Contact
                | GeneratedPageKind::Imprint
                | GeneratedPageKind::Staff => 0.05,
            };
        let mut parts = vec![(subject, share)];
        let field = subject.field.map(|field| &WORDS.fields[field]);
        parts.extend(field.map(|field| (field, 0.18)));
        // Every site has a second category that is mixed into all its pages.
        let mut taste = self.web.random("taste", &[profile.site]);
        let aside = &WORDS.categories[index(taste.below(20))];
        parts.push((aside, 0.10 * taste.share()));
        let left = 1.0 - parts.iter().map(|(_, share)| share).sum::<f64>();
        parts.push((&WORDS.general, left.max(0.1)));
        Mixture::new(self.web, profile.site, profile.language, &parts)
    }

    fn head(&mut self, title: &str, mixture: &Mixture<'_>) {
        let profile = self.profile;
        let mut site = self.web.random("head", &[profile.site]);
        self.put(&format!(
            "<!doctype html>\n<html lang=\"{}\">\n<head><title>{}</title>\n",
            profile.language.code(),
            escaped(title)
        ));
        let charset = match profile.charset {
            Charset::Utf8 => "utf-8",
            Charset::Latin1 | Charset::Latin1Meta => "iso-8859-1",
        };
        self.put(&format!("<meta charset=\"{charset}\">\n"));
        if site.is(0.5) {
            let text = mixture.text(15, &mut self.random);
            let text = escaped(&text);
            self.put(&format!("<meta name=\"description\" content=\"{text}\">\n"));
        }
        if self.kind == GeneratedPageKind::Home && profile.homepage == Homepage::Refresh {
            let start = self.target(GeneratedPageKind::Start);
            self.put(&format!(
                "<meta http-equiv=\"refresh\" content=\"0; url={start}\">\n"
            ));
        }
        self.put("</head>\n");
    }

    fn menu(&mut self) {
        let label = self.label(GeneratedPageKind::Product(1));
        // Some sites have short menus, some link to every product on every page.
        let manner = self.web.random("menu", &[self.profile.site]).share();
        self.put("<ul class=\"menu\">");
        if manner < 0.2
            && self.kind != GeneratedPageKind::Home
            && self.kind != GeneratedPageKind::Start
        {
            let home = self.label(GeneratedPageKind::Home);
            self.link(GeneratedPageKind::Home, &home, "li");
            self.put("</ul>\n");
            return;
        }
        for kind in [
            GeneratedPageKind::Home,
            GeneratedPageKind::About,
            GeneratedPageKind::ProductList(1),
            GeneratedPageKind::NewsList(1),
            GeneratedPageKind::Staff,
            GeneratedPageKind::Calendar(0),
            GeneratedPageKind::Links,
            GeneratedPageKind::Contact,
            GeneratedPageKind::Imprint,
        ] {
            if addresses::exists(self.profile, kind) {
                let text = self.label(kind);
                self.link(kind, &text, "li");
            }
        }
        if manner > 0.75 {
            for number in 1..=LIST_LENGTH {
                if addresses::exists(self.profile, GeneratedPageKind::Product(number)) {
                    self.link(
                        GeneratedPageKind::Product(number),
                        &format!("{label} {number}"),
                        "li",
                    );
                }
            }
        }
        self.put("</ul>\n");
    }

    fn body(&mut self, mixture: &Mixture<'_>) {
        match self.kind {
            GeneratedPageKind::Home | GeneratedPageKind::Start => {
                self.paragraphs(mixture, 140.0);
                self.latest(mixture);
                self.links_elsewhere(mixture, 0..LINKS_AT_HOME);
            }
            GeneratedPageKind::About => {
                self.paragraphs(mixture, 220.0);
                if self.profile.guest_topic.is_some() {
                    for number in 1..=GUEST_PAGES {
                        let text = mixture.phrase(&mut self.random);
                        self.link(GeneratedPageKind::Guest(number), &text, "p");
                    }
                }
            }
            GeneratedPageKind::Contact => {
                let name = person(self.profile.language, &mut self.random);
                self.put(&format!("<address>{}</address>", escaped(&name)));
                self.paragraphs(mixture, 50.0);
            }
            GeneratedPageKind::Imprint => {
                let text = [self.said.all("imprint"), self.said.all("privacy")].join(" ");
                self.put(&format!("<p>{}</p>\n", escaped(&text)));
            }
            GeneratedPageKind::Staff => {
                for _ in 0..3 + self.random.below(20) {
                    let name = person(self.profile.language, &mut self.random);
                    let text = mixture.text(8, &mut self.random);
                    self.put(&format!(
                        "<h3>{}</h3><p>{}</p>\n",
                        escaped(&name),
                        escaped(&text)
                    ));
                }
            }
            GeneratedPageKind::Links => {
                self.paragraphs(mixture, 30.0);
                self.links_elsewhere(mixture, LINKS_AT_HOME..usize::MAX);
            }
            GeneratedPageKind::Calendar(month) => self.calendar(mixture, month),
            GeneratedPageKind::ProductList(number) => {
                self.list(
                    mixture,
                    number,
                    GeneratedPageKind::Product,
                    GeneratedPageKind::ProductList,
                );
            }
            GeneratedPageKind::NewsList(number) => {
                self.list(
                    mixture,
                    number,
                    GeneratedPageKind::News,
                    GeneratedPageKind::NewsList,
                );
            }
            GeneratedPageKind::Product(number) => {
                self.paragraphs(mixture, 170.0);
                self.neighbours(mixture, number, GeneratedPageKind::Product);
            }
            GeneratedPageKind::News(number) => {
                self.paragraphs(mixture, 260.0);
                if self.random.is(0.2) {
                    let at = index(self.random.below(8));
                    self.links_elsewhere(mixture, at..at + 1);
                }
                self.neighbours(mixture, number, GeneratedPageKind::News);
            }
            GeneratedPageKind::Guest(number) => {
                self.paragraphs(mixture, 200.0);
                self.guest_links(mixture);
                self.neighbours(mixture, number, GeneratedPageKind::Guest);
            }
        }
    }

    fn paragraphs(&mut self, mixture: &Mixture<'_>, words: f64) {
        let mut left = self.random.around(1.1 * words, 1.1).clamp(10.0, 6_000.0) as usize;
        while left > 0 {
            let words = left.min(30 + index(self.random.below(60)));
            if self.random.is(0.25) {
                let heading = mixture.phrase(&mut self.random);
                self.put(&format!("<h2>{}</h2>\n", escaped(&heading)));
            }
            let text = mixture.text(words, &mut self.random);
            self.put(&format!("<p>{}</p>\n", escaped(&text)));
            left -= words;
        }
    }

    /// A few of the products and news.
    fn latest(&mut self, mixture: &Mixture<'_>) {
        for (items, kind) in [
            (
                self.profile.products,
                GeneratedPageKind::Product as fn(u32) -> GeneratedPageKind,
            ),
            (self.profile.news, GeneratedPageKind::News),
        ] {
            for number in 1..=items.min(4) {
                let text = mixture.phrase(&mut self.random);
                self.link(kind(number), &text, "p");
            }
        }
    }

    fn list(
        &mut self,
        mixture: &Mixture<'_>,
        list: u32,
        item: fn(u32) -> GeneratedPageKind,
        next: fn(u32) -> GeneratedPageKind,
    ) {
        for at in 1..=LIST_LENGTH {
            let number = (list - 1) * LIST_LENGTH + at;
            if addresses::exists(self.profile, item(number)) {
                let text = mixture.phrase(&mut self.random);
                self.link(item(number), &text, "h3");
                let text = mixture.text(12, &mut self.random);
                self.put(&format!("<p>{}</p>\n", escaped(&text)));
            }
        }
        for number in [list.saturating_sub(1), list + 1] {
            if addresses::exists(self.profile, next(number)) {
                self.link(next(number), &number.to_string(), "p");
            }
        }
    }

    fn neighbours(
        &mut self,
        mixture: &Mixture<'_>,
        number: u32,
        kind: fn(u32) -> GeneratedPageKind,
    ) {
        for number in [number.saturating_sub(1), number + 1] {
            if addresses::exists(self.profile, kind(number)) {
                let text = mixture.phrase(&mut self.random);
                self.link(kind(number), &text, "p");
            }
        }
    }

    fn calendar(&mut self, mixture: &Mixture<'_>, month: u32) {
        let (year, month_of_year) = (FIRST_YEAR + month / 12, month % 12 + 1);
        self.put(&format!("<h2>{month_of_year}/{year}</h2><table>"));
        for day in 1..=28 {
            let text = if self.random.is(0.2) {
                mixture.phrase(&mut self.random)
            } else {
                String::new()
            };
            self.put(&format!(
                "<tr><td>{day}.</td><td>{}</td></tr>",
                escaped(&text)
            ));
        }
        self.put("</table>\n");
        for month in [month.saturating_sub(1), month + 1] {
            if addresses::exists(self.profile, GeneratedPageKind::Calendar(month)) {
                let text = format!("{}/{}", month % 12 + 1, FIRST_YEAR + month / 12);
                self.link(GeneratedPageKind::Calendar(month), &text, "p");
            }
        }
    }

    /// Links to a range of the sites that this one links to.
    fn links_elsewhere(&mut self, mixture: &Mixture<'_>, some: std::ops::Range<usize>) {
        let targets = links::targets(self.web, self.profile);
        let end = some.end.min(targets.len());
        for target in targets.get(some.start.min(end)..end).unwrap_or_default() {
            self.link_elsewhere(mixture, *target);
        }
    }

    /// Links to sites of the guest topic.
    fn guest_links(&mut self, mixture: &Mixture<'_>) {
        let Some(topic) = self.profile.guest_topic else {
            return;
        };
        for _ in 0..3 {
            let target = links::popular(self.web, topic, &mut self.random);
            self.link_elsewhere(mixture, target);
        }
    }

    fn link_elsewhere(&mut self, mixture: &Mixture<'_>, target: u64) {
        let host = names::host(self.web, target);
        let other = Profile::of(self.web, target);
        let text = match self.random.below(3) {
            0 => host.clone(),
            1 => mixture.phrase(&mut self.random),
            _ => names::title(self.web, target, other.language),
        };
        let www = if self.random.is(0.5) { "www." } else { "" };
        let about = if self.random.is(0.5) {
            mixture.text(10, &mut self.random)
        } else {
            String::new()
        };
        self.put(&format!(
            "<p><a href=\"http://{www}{host}/\">{}</a> {}</p>\n",
            escaped(&text),
            escaped(&about)
        ));
    }

    /// The same on every page of the site.
    fn foot(&mut self) {
        let mut site = self.web.random("foot", &[self.profile.site]);
        if site.is(0.35) {
            let partners = links::targets(self.web, self.profile);
            let some = 1 + index(site.below(6));
            for target in partners.into_iter().take(some) {
                let (host, language) = (names::host(self.web, target), self.profile.language);
                let name = escaped(&names::title(self.web, target, language));
                self.put(&format!("<a href=\"http://{host}/\">{name}</a>\n"));
            }
        }
        let mut text = String::new();
        if site.is(0.5) {
            text.push_str(self.said.one("imprint", &mut site));
            text.push(' ');
        }
        if site.is(0.4) {
            text.push_str(&self.said.all("cookies"));
            text.push(' ');
        }
        text.push_str(&person(self.profile.language, &mut site));
        let year = FIRST_YEAR + u32::try_from(site.below(7)).unwrap_or_default();
        self.put(&format!(
            "<hr><p>{} {year}</p>\n</body></html>\n",
            escaped(&text)
        ));
    }

    fn label(&self, kind: GeneratedPageKind) -> String {
        // Labels are the same on all pages of a site.
        let mut random = self.web.random("labels", &[self.profile.site]);
        let kind = match kind {
            GeneratedPageKind::Home | GeneratedPageKind::Start => "home",
            GeneratedPageKind::About | GeneratedPageKind::Guest(_) => "about",
            GeneratedPageKind::Contact => "contact",
            GeneratedPageKind::Imprint => return addresses::imprint_label(self.profile),
            GeneratedPageKind::Staff => "staff",
            GeneratedPageKind::Links => "links",
            GeneratedPageKind::Calendar(_) => "calendar",
            GeneratedPageKind::ProductList(_) | GeneratedPageKind::Product(_) => "products",
            GeneratedPageKind::NewsList(_) | GeneratedPageKind::News(_) => "news",
        };
        self.said.one(kind, &mut random).to_owned()
    }

    fn link(&mut self, kind: GeneratedPageKind, text: &str, tag: &str) {
        let target = self.target(kind);
        self.put(&format!(
            "<{tag}><a href=\"{}\">{}</a></{tag}>\n",
            escaped(&target),
            escaped(text)
        ));
    }

    fn target(&self, kind: GeneratedPageKind) -> String {
        addresses::target(self.profile, kind, number_of(self.kind))
    }

    fn put(&mut self, html: &str) {
        self.html.push_str(html);
    }
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}
