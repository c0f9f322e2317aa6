//! Gatekeepers: bot protection that answers with a challenge page of its own, to find out whether
//! the client is a browser.
//!
//! Such a page says nothing about the site behind it. It is recognised by a header that its
//! gatekeeper documents, or by its body. A body must have both the gatekeeper's marks, in tags or
//! scripts and not in the text, and little text. A page *about* challenges has the marks in its
//! text, or has more text.
//!
//! Marks are chosen so that only challenges have them. Many gatekeepers also put scripts into the
//! pages that they let through: `/cdn-cgi/challenge-platform/` alone, `px.js`, `tags.js` of
//! `DataDome`, `challenge.js` of AWS and a bare `_Incapsula_Resource` are no signs. Nor are pages
//! that block us for good, such as "Sorry, you have been blocked": those are ordinary responses.
//!
//! `docs/operations.md` has the same list for users; a test compares the two.

use http::HeaderMap;

use super::PageUrl;

/// Longer bodies are not challenges: the longest known ones have about 40 KB.
const MAX_BODY_BYTES: usize = 256 << 10;

/// Pages with more text are not challenges. The limit is high because `Anubis` explains itself at
/// length, and some alphabets take two bytes per letter.
pub(crate) const MAX_TEXT_BYTES: usize = 5_000;

/// Headers that only challenges have, with the values that mark them.
const HEADERS: [(&str, &[&str], &str); 4] = [
    ("cf-mitigated", &["challenge"], "Cloudflare"),
    ("x-amzn-waf-action", &["challenge", "captcha"], "AWS WAF"),
    ("x-vercel-mitigated", &["challenge"], "Vercel"),
    ("sg-captcha", &["challenge"], "SiteGround"),
];

/// Marks in lower case; all marks of a line must be present.
const MARKS: [(&str, &[&str]); 24] = [
    (
        "Cloudflare",
        &["_cf_chl_opt", "/cdn-cgi/challenge-platform/"],
    ),
    ("Cloudflare", &["challenge-form", "/cdn-cgi/l/chk_"]),
    ("Anubis", &["/.within.website/x/cmd/anubis/"]),
    ("Anubis", &["id=\"anubis_challenge\""]),
    ("go-away", &["/git/go-away/cmd/go-away/"]),
    ("Akamai", &["sec-if-cpt-container"]),
    ("Akamai", &["bm-verify", "/_sec/verify"]),
    ("AWS WAF", &["gokuprops", "awswaf"]),
    ("DataDome", &["captcha-delivery.com/", "var dd"]),
    ("DataDome", &["<iframe", "captcha-delivery.com/captcha/"]),
    ("HUMAN (PerimeterX)", &["px-captcha", "_pxappid"]),
    ("Imperva (Incapsula)", &["_incapsula_resource", "noindex"]),
    (
        "Imperva (Incapsula)",
        &["_incapsula_resource", "main-iframe"],
    ),
    ("Kasada", &["kpsdk", "/ips.js"]),
    ("Sucuri", &["sucuri_cloudproxy_js"]),
    ("DDoS-Guard", &["/.well-known/ddos-guard/js-challenge/"]),
    ("DDoS-Guard", &["/.well-known/ddos-guard/ddg-captcha-page/"]),
    ("DDoS-Guard", &["check.ddos-guard.net/"]),
    ("Vercel", &["/.well-known/vercel/security/"]),
    ("SiteGround", &["/.well-known/sgcaptcha/"]),
    ("Imunify360", &["wsidchk"]),
    ("Alibaba Cloud WAF", &["acw_sc__v2", "arg1="]),
    ("SafeLine", &["/.safeline/"]),
    ("testcookie", &["slowaes.decrypt", "document.cookie"]),
];

/// Hosts of gatekeepers to which visitors are redirected; subdomains included.
const HOSTS: [&str; 3] = [
    "validate.perfdrive.com",
    "captcha-delivery.com",
    "queue-it.net",
];

/// The gatekeeper that answered instead of the site, if one did.
#[must_use]
pub(crate) fn gatekeeper(headers: &HeaderMap, body: &[u8]) -> Option<&'static str> {
    gatekeeper_by_headers(headers).or_else(|| gatekeeper_by_body(body))
}

/// [`gatekeeper`] by headers alone.
#[must_use]
pub(crate) fn gatekeeper_by_headers(headers: &HeaderMap) -> Option<&'static str> {
    let has_header = |name: &str, marks: &[&str]| {
        let value = headers.get(name).map(|value| value.as_bytes().trim_ascii());
        value.is_some_and(|value| {
            let mut marks = marks.iter();
            marks.any(|mark| value.eq_ignore_ascii_case(mark.as_bytes()))
        })
    };
    let mut known = HEADERS.iter();
    let found = known.find(|(name, marks, _)| has_header(name, marks));
    found.map(|(_, _, gatekeeper)| *gatekeeper)
}

/// [`gatekeeper`] by the body alone.
#[must_use]
pub(crate) fn gatekeeper_by_body(body: &[u8]) -> Option<&'static str> {
    if body.len() > MAX_BODY_BYTES {
        return None;
    }
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    let are_in = |marks: &[&str], text: &str| marks.iter().all(|mark| text.contains(mark));
    // Nearly all pages have none of the marks and need not be tokenised.
    let mut candidates = MARKS
        .iter()
        .filter(|(_, marks)| are_in(marks, &text))
        .peekable();
    candidates.peek()?;
    let page = Anatomy::of(&text);
    if page.text_bytes > MAX_TEXT_BYTES {
        return None;
    }
    let found = candidates.find(|(_, marks)| are_in(marks, &page.markup));
    found.map(|(gatekeeper, _)| *gatekeeper)
}

/// Whether a page is on a host to which a gatekeeper redirects visitors for a check.
#[must_use]
pub(crate) fn is_gate(page: &PageUrl) -> bool {
    let site = page.site();
    let host = site.host();
    HOSTS.iter().any(|gate| {
        let below = host.strip_suffix(gate);
        below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
    })
}

/// All known gatekeepers, each once.
#[must_use]
pub fn gatekeepers() -> Vec<&'static str> {
    let by_headers = HEADERS.iter().map(|(_, _, gatekeeper)| *gatekeeper);
    let by_marks = MARKS.iter().map(|(gatekeeper, _)| *gatekeeper);
    let mut all: Vec<&str> = by_headers.chain(by_marks).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// A page split into markup and text.
#[derive(Default)]
struct Anatomy {
    /// Tags, and executable scripts.
    markup: String,
    /// Bytes of text between the tags.
    text_bytes: usize,
}

impl Anatomy {
    /// Of HTML in lower case. A tag ends at the first `>`: wrong for some attributes, but not for
    /// those of challenges.
    fn of(html: &str) -> Self {
        let mut anatomy = Self::default();
        let mut rest = html;
        while let Some(start) = rest.find('<') {
            anatomy.count_text(&rest[..start]);
            rest = &rest[start..];
            if let Some(comment) = rest.strip_prefix("<!--") {
                rest = after(comment, "-->");
                continue;
            }
            let end = rest.find('>').map_or(rest.len(), |end| end + 1);
            let (tag, behind) = rest.split_at(end);
            anatomy.markup.push_str(tag);
            rest = match tag {
                _ if is_tag(tag, "script") => {
                    let end = behind.find("</script").unwrap_or(behind.len());
                    // JSON data often repeats the text of the page.
                    if !tag.contains("json") {
                        anatomy.markup.push_str(&behind[..end]);
                    }
                    &behind[end..]
                }
                _ if is_tag(tag, "style") => {
                    let end = behind.find("</style").unwrap_or(behind.len());
                    &behind[end..]
                }
                _ => behind,
            };
        }
        anatomy.count_text(rest);
        anatomy
    }

    fn count_text(&mut self, text: &str) {
        let words = text.split_ascii_whitespace();
        self.text_bytes += words.map(|word| word.len() + 1).sum::<usize>();
    }
}

fn is_tag(tag: &str, name: &str) -> bool {
    let rest = tag.strip_prefix('<').and_then(|tag| tag.strip_prefix(name));
    rest.is_some_and(|rest| rest.starts_with(|c: char| c == '>' || c == '/' || c.is_whitespace()))
}

fn after<'t>(text: &'t str, end: &str) -> &'t str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            http::HeaderName::from_static(name),
            http::HeaderValue::from_static(value),
        )])
    }

    #[test]
    fn headers_count_only_with_the_values_that_say_so() {
        for (name, value, wanted) in [
            ("cf-mitigated", "challenge", Some("Cloudflare")),
            ("cf-mitigated", " Challenge ", Some("Cloudflare")),
            ("cf-mitigated", "block", None),
            ("x-amzn-waf-action", "captcha", Some("AWS WAF")),
            ("x-vercel-mitigated", "deny", None),
            ("x-vercel-mitigated", "challenge", Some("Vercel")),
            ("sg-captcha", "challenge", Some("SiteGround")),
            ("x-datadome", "protected", None),
            ("server", "ddos-guard", None),
        ] {
            let found = gatekeeper_by_headers(&headers(name, value));
            assert_eq!(found, wanted, "{name}: {value}");
        }
    }

    #[test]
    fn every_line_of_marks_is_a_sign_in_scripts_and_none_in_text() {
        for (gatekeeper, marks) in MARKS {
            let tag = marks.join(" ").replace("<iframe", "");
            let script = format!("<title>Wait</title><iframe></iframe><script>{tag}</script>");
            let found = gatekeeper_by_body(script.as_bytes());
            assert_eq!(found, Some(gatekeeper), "{marks:?}");
            let said = format!("<title>Wait</title><iframe></iframe><p>{tag}</p>");
            assert_eq!(gatekeeper_by_body(said.as_bytes()), None, "{marks:?}");
            let data = format!("<iframe></iframe><script type='application/json'>{tag}</script>");
            assert_eq!(gatekeeper_by_body(data.as_bytes()), None, "{marks:?}");
            let words = "words ".repeat(MAX_TEXT_BYTES / 6 + 1);
            let long = format!("{script}<p>{words}</p>");
            assert_eq!(gatekeeper_by_body(long.as_bytes()), None, "{marks:?}");
            let hidden = format!("<iframe></iframe><!-- <script>{tag}</script> -->");
            assert_eq!(gatekeeper_by_body(hidden.as_bytes()), None, "{marks:?}");
        }
    }

    #[test]
    fn scripts_of_gatekeepers_on_ordinary_pages_are_no_signs() {
        for script in [
            "<script src=/cdn-cgi/challenge-platform/scripts/jsd/main.js></script>",
            "<script src=https://challenges.cloudflare.com/turnstile/v0/api.js></script>",
            "<script>window._pxAppId='PX1'</script><script src=/px1/init.js></script>",
            "<script src=https://js.datadome.co/tags.js></script>",
            "<script src=/_Incapsula_Resource?SWJIYLWA=1></script>",
            "<script src=https://1.token.awswaf.com/1/challenge.js></script>",
            "<a href=https://anubis.techaro.lol/>Protected</a>",
        ] {
            assert_eq!(gatekeeper_by_body(script.as_bytes()), None, "{script}");
        }
    }

    #[test]
    fn what_is_broken_is_read_to_its_end() {
        for body in [
            "",
            "<",
            "<script",
            "<script>",
            "<!--",
            "<style>",
            "<script>gokuProps awswaf",
            "\u{fffd}<scr",
        ] {
            let _ = gatekeeper_by_body(body.as_bytes());
        }
        let open = b"<script>var sucuri_cloudproxy_js=''\xff\xfe";
        assert_eq!(gatekeeper_by_body(open), Some("Sucuri"));
        let long = [open.as_slice(), &vec![b' '; MAX_BODY_BYTES]].concat();
        assert_eq!(gatekeeper_by_body(&long), None);
    }

    #[test]
    fn visitors_are_sent_to_gates() {
        let is_gate = |url: &str| is_gate(&url.parse().unwrap());
        assert!(is_gate("https://validate.perfdrive.com/?ssa=1"));
        assert!(is_gate("https://geo.captcha-delivery.com/captcha/"));
        assert!(!is_gate("https://notqueue-it.net/"));
        assert!(!is_gate("https://perfdrive.com/"));
    }
}
