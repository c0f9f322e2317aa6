//! Signs that a response is not an authored page.
//!
//! Each sign needs both a phrase and a short page, because a page about parked domains is not one.
//! Phrases are in the languages our users crawl. The signs of challenges are in
//! [`crate::web::challenge`], because they apply to `robots.txt` too.

use crate::web::challenge::{self, MAX_TEXT_BYTES};
use crate::web::{ContentKind, FetchedPage, LinkKind, PagePart, ParsedPage, Signs};

/// Longer pages are not parked, whatever they say: about 150 words.
const SHORT_PAGE_BYTES: usize = 1_000;
/// Longer pages are not error pages. These may have a whole menu, but their headline is clear.
const MENU_PAGE_BYTES: usize = 4_000;
/// "You need to enable JavaScript to run this app", and not much more, counts as no text.
const NO_TEXT_BYTES: usize = 70;
/// Longer headlines are not those of error pages.
const HEADLINE_BYTES: usize = 80;
/// Pages with more intrinsic links are not challenges.
const MAX_CHALLENGE_LINKS: usize = 8;
/// How much of the title and visible text is searched for phrases.
const SEARCHED_BYTES: usize = 2_000;

/// Phrases of parked, expired and unfinished domains.
const PARKED_PHRASES: [&str; 43] = [
    "domain is for sale",
    "domain may be for sale",
    "domain name is for sale",
    "buy this domain",
    "this domain is parked",
    "domain is parked",
    "parked domain",
    "domain parking",
    "parked free",
    "this domain has expired",
    "domain has expired",
    "domain name has expired",
    "is available for purchase",
    "inquire about this domain",
    "make an offer on this domain",
    "related searches",
    "account suspended",
    "account has been suspended",
    "website is temporarily suspended",
    "future home of something",
    "site is under construction and coming soon",
    "welcome to nginx",
    "apache2 ubuntu default page",
    "apache2 debian default page",
    "test page for the apache http server",
    "iis windows server",
    "default web site page",
    "diese domain steht zum verkauf",
    "domain steht zum verkauf",
    "domain steht möglicherweise zum verkauf",
    "domain steht eventuell zum verkauf",
    "diese domain kaufen",
    "domain ist geparkt",
    "ce domaine est à vendre",
    "nom de domaine est à vendre",
    "domaine est peut-être à vendre",
    "acheter ce domaine",
    "este dominio está en venta",
    "este dominio esté en venta",
    "dominio puede estar en venta",
    "comprar este dominio",
    "questo dominio è in vendita",
    "домен продается",
];

/// Domains of parking companies. A link or frame to them from a short page is a sign by itself.
const PARKING_DOMAINS: [&str; 12] = [
    "sedo.com",
    "sedoparking.com",
    "parkingcrew.net",
    "bodis.com",
    "dan.com",
    "afternic.com",
    "hugedomains.com",
    "above.com",
    "parklogic.com",
    "domainmarket.com",
    "undeveloped.com",
    "buydomains.com",
];

/// Titles and headlines that are error messages only if nothing else is in them.
const WHOLE_NOT_FOUND: [&str; 4] = ["404", "not found", "nothing found", "nicht gefunden"];

/// Phrases in titles and headlines of error pages.
const NOT_FOUND_PHRASES: [&str; 23] = [
    "page not found",
    "error 404",
    "404 error",
    "404 not found",
    "page cannot be found",
    "page can't be found",
    "page can’t be found",
    "page could not be found",
    "page doesn't exist",
    "page doesn’t exist",
    "page does not exist",
    "page no longer exists",
    "seite nicht gefunden",
    "seite existiert nicht",
    "page introuvable",
    "page non trouvée",
    "página no encontrada",
    "página não encontrada",
    "pagina non trovata",
    "pagina niet gevonden",
    "sidan kunde inte hittas",
    "страница не найдена",
    "nie znaleziono strony",
];

/// The signs of a page that is parsed otherwise.
pub(super) fn of(page: &FetchedPage, parsed: &ParsedPage, has_scripts: bool) -> Signs {
    let visible = parsed.text.runs().filter(|(part, _)| part.is_visible());
    let bytes: usize = visible.map(|(_, run)| run.len()).sum();
    let challenge = is_challenge(page, parsed, bytes, has_scripts);
    if !page.status.is_success() {
        return Signs {
            challenge,
            ..Signs::default()
        };
    }
    Signs {
        challenge,
        parked: bytes <= SHORT_PAGE_BYTES && is_parked(parsed),
        soft_404: bytes <= MENU_PAGE_BYTES && is_not_found(parsed),
        empty_shell: is_empty_shell(parsed, bytes, has_scripts),
    }
}

/// A challenge has scripts or a refresh, little text and few links. Only such pages are searched for
/// marks, which takes longer than all other signs.
fn is_challenge(
    page: &FetchedPage,
    parsed: &ParsedPage,
    visible_bytes: usize,
    has_scripts: bool,
) -> bool {
    let links = &parsed.intrinsic_links;
    let may_be_challenge = parsed.content == ContentKind::Html
        && visible_bytes <= MAX_TEXT_BYTES
        && links.len() <= MAX_CHALLENGE_LINKS
        && (has_scripts || links.iter().any(|link| link.kind.is_part()));
    let by_headers = challenge::gatekeeper_by_headers(&page.headers);
    by_headers.is_some() || may_be_challenge && challenge::gatekeeper_by_body(&page.body).is_some()
}

fn is_parked(parsed: &ParsedPage) -> bool {
    let leads_to_parking = parsed.transversal_links.iter().any(|link| {
        let domain = link.site.registrable_domain();
        PARKING_DOMAINS.contains(&domain)
    });
    let mut text = parsed.title();
    text.push('\n');
    text.push_str(&parsed.text.visible());
    let text = text[..text.floor_char_boundary(SEARCHED_BYTES)].to_lowercase();
    leads_to_parking || contains_any(&text, &PARKED_PHRASES)
}

fn is_not_found(parsed: &ParsedPage) -> bool {
    let is_message = |text: &str| {
        let text = text.trim().to_lowercase();
        text.len() <= HEADLINE_BYTES
            && (WHOLE_NOT_FOUND.contains(&text.trim_end_matches(['.', '!']))
                || text.starts_with("404 ")
                || contains_any(&text, &NOT_FOUND_PHRASES))
    };
    let headline = parsed.text.part(PagePart::Heading).next();
    is_message(&parsed.title()) || headline.is_some_and(is_message)
}

/// A page for scripts to fill: hardly a word, and no link to follow. A homepage made of frames or a
/// refresh is not one.
fn is_empty_shell(parsed: &ParsedPage, visible_bytes: usize, has_scripts: bool) -> bool {
    let leads_on = parsed
        .transversal_links
        .iter()
        .any(|link| matches!(link.kind, LinkKind::Frame | LinkKind::Refresh));
    let no_text = if has_scripts { NO_TEXT_BYTES } else { 0 };
    parsed.content == ContentKind::Html
        && visible_bytes <= no_text
        && parsed.intrinsic_links.is_empty()
        && !leads_on
}

fn contains_any(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.contains(phrase))
}
