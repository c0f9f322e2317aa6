//! From the kind of a page to its path and query, and back.

use url::form_urlencoded;

use super::names::capitalised;
use super::profile::{AddressStyle, Profile};
use super::words::WebLanguage;

/// The kinds of pages, with their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GeneratedPageKind {
    Home,
    /// Where a homepage without content leads.
    Start,
    About,
    Contact,
    Imprint,
    Staff,
    Links,
    /// A month, counted from January 2020.
    Calendar(u32),
    /// Lists of products or news; the first is 1.
    ProductList(u32),
    NewsList(u32),
    Product(u32),
    News(u32),
    /// A page about the guest topic of a site.
    Guest(u32),
}

/// Items per list of products or news.
pub(super) const LIST_LENGTH: u32 = 20;

/// Pages about the guest topic of a site.
pub(super) const GUEST_PAGES: u32 = 6;

/// Length of a finite calendar.
const MONTHS: u32 = 4;

pub(super) const FIRST_YEAR: u32 = 2020;

/// Words in URLs, by language; the last is for lists.
const PARTS: [[&str; 11]; 4] = [
    [
        "start",
        "about",
        "contact",
        "imprint",
        "people",
        "links",
        "calendar",
        "products",
        "news",
        "societies",
        "list",
    ],
    [
        "start",
        "ueber-uns",
        "kontakt",
        "impressum",
        "team",
        "links",
        "termine",
        "angebot",
        "aktuelles",
        "vereine",
        "liste",
    ],
    [
        "accueil",
        "a-propos",
        "contact",
        "mentions-legales",
        "equipe",
        "liens",
        "agenda",
        "produits",
        "actualites",
        "associations",
        "liste",
    ],
    [
        "inicio",
        "nosotros",
        "contacto",
        "aviso-legal",
        "equipo",
        "enlaces",
        "calendario",
        "productos",
        "noticias",
        "asociaciones",
        "lista",
    ],
];

/// The path and query of a page. `from` makes session ids differ from page to page.
pub(super) fn target(profile: &Profile, kind: GeneratedPageKind, from: u64) -> String {
    let (part, list, number) = match kind {
        GeneratedPageKind::Home => return "/".to_owned(),
        GeneratedPageKind::Start => (0, false, None),
        GeneratedPageKind::About => (1, false, None),
        GeneratedPageKind::Contact => (2, false, None),
        GeneratedPageKind::Imprint => (3, false, None),
        GeneratedPageKind::Staff => (4, false, None),
        GeneratedPageKind::Links => (5, false, None),
        GeneratedPageKind::Calendar(month) => (6, false, Some(month)),
        GeneratedPageKind::ProductList(number) => (7, true, Some(number)),
        GeneratedPageKind::Product(number) => (7, false, Some(number)),
        GeneratedPageKind::NewsList(number) => (8, true, Some(number)),
        GeneratedPageKind::News(number) => (8, false, Some(number)),
        GeneratedPageKind::Guest(number) => (9, false, Some(number)),
    };
    let parts = parts(profile.language);
    let (name, list_name) = (parts[part], parts[10]);
    match (profile.style, number) {
        (AddressStyle::Files, None) => format!("/{name}.html"),
        (AddressStyle::Files, Some(number)) if list => format!("/{name}/{list_name}{number}.html"),
        (AddressStyle::Files, Some(number)) => format!("/{name}/{number}.html"),
        (AddressStyle::Directories, None) => format!("/{name}/"),
        (AddressStyle::Directories, Some(number)) if list => {
            format!("/{name}/{list_name}/{number}/")
        }
        (AddressStyle::Directories, Some(number)) => format!("/{name}/{number}/"),
        (style, number) => {
            let key = if list { list_name } else { "id" };
            let number = number.map(|number| format!("&{key}={number}"));
            let session = match style {
                AddressStyle::SessionIds => format!("&sid={from:x}"),
                _ => String::new(),
            };
            format!(
                "/index.php?page={name}{}{session}",
                number.unwrap_or_default()
            )
        }
    }
}

/// The page at a path and query, if the site has it.
pub(super) fn kind_at(
    profile: &Profile,
    path: &str,
    query: Option<&str>,
) -> Option<GeneratedPageKind> {
    let kind = match profile.style {
        AddressStyle::Queries | AddressStyle::SessionIds => by_query(profile, path, query),
        AddressStyle::Files | AddressStyle::Directories => by_path(profile, path),
    }?;
    exists(profile, kind).then_some(kind)
}

pub(super) fn exists(profile: &Profile, kind: GeneratedPageKind) -> bool {
    let lists = |items: u32| items.div_ceil(LIST_LENGTH);
    match kind {
        GeneratedPageKind::Home | GeneratedPageKind::About | GeneratedPageKind::Contact => true,
        GeneratedPageKind::Start => profile.homepage != super::profile::Homepage::Plain,
        GeneratedPageKind::Imprint | GeneratedPageKind::Links => {
            profile.products + profile.news > 0
        }
        GeneratedPageKind::Staff => profile.products + profile.news > 3,
        GeneratedPageKind::Calendar(month) => {
            let is_there = profile.products + profile.news > 8;
            is_there && (profile.has_endless_calendar || month < MONTHS)
        }
        GeneratedPageKind::ProductList(number) => (1..=lists(profile.products)).contains(&number),
        GeneratedPageKind::NewsList(number) => (1..=lists(profile.news)).contains(&number),
        GeneratedPageKind::Product(number) => (1..=profile.products).contains(&number),
        GeneratedPageKind::News(number) => (1..=profile.news).contains(&number),
        GeneratedPageKind::Guest(number) => {
            profile.guest_topic.is_some() && (1..=GUEST_PAGES).contains(&number)
        }
    }
}

/// The label of the imprint in menus.
pub(super) fn imprint_label(profile: &Profile) -> String {
    capitalised(&parts(profile.language)[3].replace('-', " "))
}

fn parts(language: WebLanguage) -> &'static [&'static str; 11] {
    &PARTS[language as usize]
}

fn by_path(profile: &Profile, path: &str) -> Option<GeneratedPageKind> {
    let path = match profile.style {
        AddressStyle::Files => path.strip_suffix(".html").unwrap_or(path),
        _ => path,
    };
    let parts = parts(profile.language);
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    match names[..] {
        [] => Some(GeneratedPageKind::Home),
        [name] => kind_of(parts, name, false, None),
        [name, number] => {
            let (number, list) = match number.strip_prefix(parts[10]) {
                Some(number) => (number, true),
                None => (number, false),
            };
            kind_of(parts, name, list, Some(number.parse().ok()?))
        }
        [name, list, number] if list == parts[10] => {
            kind_of(parts, name, true, Some(number.parse().ok()?))
        }
        _ => None,
    }
}

fn by_query(profile: &Profile, path: &str, query: Option<&str>) -> Option<GeneratedPageKind> {
    if path == "/" {
        return Some(GeneratedPageKind::Home);
    }
    if path != "/index.php" {
        return None;
    }
    let parts = parts(profile.language);
    let (mut name, mut number, mut list) = (None, None, false);
    for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match &*key {
            "page" => name = Some(value.into_owned()),
            "id" => number = Some(value.parse().ok()?),
            key if key == parts[10] => {
                (number, list) = (Some(value.parse().ok()?), true);
            }
            _ => {}
        }
    }
    match name {
        None => Some(GeneratedPageKind::Home),
        Some(name) => kind_of(parts, &name, list, number),
    }
}

fn kind_of(
    parts: &[&str; 11],
    name: &str,
    list: bool,
    number: Option<u32>,
) -> Option<GeneratedPageKind> {
    let part = parts[..10].iter().position(|part| *part == name)?;
    Some(match (part, list, number) {
        (0, false, None) => GeneratedPageKind::Start,
        (1, false, None) => GeneratedPageKind::About,
        (2, false, None) => GeneratedPageKind::Contact,
        (3, false, None) => GeneratedPageKind::Imprint,
        (4, false, None) => GeneratedPageKind::Staff,
        (5, false, None) => GeneratedPageKind::Links,
        (6, false, Some(month)) => GeneratedPageKind::Calendar(month),
        (7, true, Some(number)) => GeneratedPageKind::ProductList(number),
        (7, false, Some(number)) => GeneratedPageKind::Product(number),
        (8, true, Some(number)) => GeneratedPageKind::NewsList(number),
        (8, false, Some(number)) => GeneratedPageKind::News(number),
        (9, false, Some(number)) => GeneratedPageKind::Guest(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::GeneratedWeb;
    use super::super::profile::Homepage;
    use super::*;

    #[test]
    fn every_page_is_found_at_its_address() {
        let web = GeneratedWeb::new(10_000, 1);
        for site in 0..200 {
            let profile = Profile {
                products: 45,
                news: 21,
                homepage: Homepage::Empty,
                guest_topic: Some(1),
                ..Profile::of(&web, site)
            };
            for kind in [
                GeneratedPageKind::Home,
                GeneratedPageKind::Start,
                GeneratedPageKind::About,
                GeneratedPageKind::Contact,
                GeneratedPageKind::Imprint,
                GeneratedPageKind::Staff,
                GeneratedPageKind::Links,
                GeneratedPageKind::Calendar(0),
                GeneratedPageKind::Calendar(MONTHS - 1),
                GeneratedPageKind::ProductList(3),
                GeneratedPageKind::NewsList(2),
                GeneratedPageKind::Product(45),
                GeneratedPageKind::News(1),
                GeneratedPageKind::Guest(GUEST_PAGES),
            ] {
                let target = target(&profile, kind, 77);
                let (path, query) = match target.split_once('?') {
                    Some((path, query)) => (path, Some(query)),
                    None => (target.as_str(), None),
                };
                assert_eq!(kind_at(&profile, path, query), Some(kind), "{target}");
            }
            for (path, query) in [
                ("/nothing.html", None),
                ("/index.php", Some("page=nothing")),
                ("/news/22.html", None),
                ("/index.php", Some("page=news&id=0")),
                ("/a/b/c/d", None),
            ] {
                assert_eq!(kind_at(&profile, path, query), None, "{path} {query:?}");
            }
        }
    }
}
