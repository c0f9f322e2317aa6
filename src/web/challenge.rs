//! Gatekeepers: services that put a page of their own before a site, to find out whether a
//! browser asks.
//!
//! Such a page says nothing about the site behind it. It is known by a header that its
//! gatekeeper documents, or by its body. Of a body two things are wanted at once: marks of the
//! gatekeeper's machinery, in tags or scripts and not in the text, and little text. A page
//! *about* challenges has the marks in its text, or has more to say.
//!
//! Marks are chosen so that they stand on challenges only. Many gatekeepers put scripts into
//! the pages that they let through as well: `/cdn-cgi/challenge-platform/` alone, `px.js`,
//! `tags.js` of `DataDome`, `challenge.js` of AWS and a bare `_Incapsula_Resource` are no
//! signs. Nor are pages that refuse us for good, such as "Sorry, you have been blocked": they
//! are answers.
//!
//! `docs/operations.md` has the same list for people; a test compares the two.

use http::HeaderMap;

use super::PageUrl;

/// Longer bodies are no challenges: the longest that we know have some 40 KB.
const MOST_BODY_BYTES: usize = 256 << 10;

/// Pages with more text are somebody's work. `Anubis` explains itself at length, and some
/// alphabets take two bytes for a letter.
pub(crate) const MOST_SAID_BYTES: usize = 5_000;

/// Headers that stand on challenges only, with the values that say so.
const HEADERS: [(&str, &[&str], &str); 4] = [
    ("cf-mitigated", &["challenge"], "Cloudflare"),
    ("x-amzn-waf-action", &["challenge", "captcha"], "AWS WAF"),
    ("x-vercel-mitigated", &["challenge"], "Vercel"),
    ("sg-captcha", &["challenge"], "SiteGround"),
];

/// Marks in lower case; all of a line have to be there.
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

/// Hosts of gatekeepers to which visitors are sent, and everything below them.
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

/// The same by headers alone.
#[must_use]
pub(crate) fn gatekeeper_by_headers(headers: &HeaderMap) -> Option<&'static str> {
    let says = |name: &str, values: &[&str]| {
        let value = headers.get(name).map(|value| value.as_bytes().trim_ascii());
        value.is_some_and(|own| {
            let mut values = values.iter();
            values.any(|value| own.eq_ignore_ascii_case(value.as_bytes()))
        })
    };
    let mut headers = HEADERS.iter();
    let found = headers.find(|(name, values, _)| says(name, values));
    found.map(|(_, _, gatekeeper)| *gatekeeper)
}

/// The same by the body alone.
#[must_use]
pub(crate) fn gatekeeper_by_body(body: &[u8]) -> Option<&'static str> {
    if body.len() > MOST_BODY_BYTES {
        return None;
    }
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    let stand_in = |marks: &[&str], text: &str| marks.iter().all(|mark| text.contains(mark));
    // Nearly all pages have none of the marks and need not be taken apart.
    let mut candidates = MARKS
        .iter()
        .filter(|(_, marks)| stand_in(marks, &text))
        .peekable();
    candidates.peek()?;
    let page = Anatomy::of(&text);
    if page.said_bytes > MOST_SAID_BYTES {
        return None;
    }
    let found = candidates.find(|(_, marks)| stand_in(marks, &page.machinery));
    found.map(|(gatekeeper, _)| *gatekeeper)
}

/// Whether a page belongs to a gatekeeper that sends visitors there to be looked at.
#[must_use]
pub(crate) fn is_gate(page: &PageUrl) -> bool {
    let site = page.site();
    let host = site.host();
    HOSTS.iter().any(|gate| {
        let below = host.strip_suffix(gate);
        below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
    })
}

/// All gatekeepers that are known, each once.
#[must_use]
pub fn gatekeepers() -> Vec<&'static str> {
    let by_headers = HEADERS.iter().map(|(_, _, gatekeeper)| *gatekeeper);
    let by_marks = MARKS.iter().map(|(gatekeeper, _)| *gatekeeper);
    let mut all: Vec<&str> = by_headers.chain(by_marks).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// What a page does, apart from what it says.
#[derive(Default)]
struct Anatomy {
    /// Tags, and the scripts between them that run.
    machinery: String,
    /// How much text there is between the tags.
    said_bytes: usize,
}

impl Anatomy {
    /// Of HTML in lower case. A tag ends at the first `>`, which is not so in all attributes,
    /// but in those of challenges.
    fn of(html: &str) -> Self {
        let mut anatomy = Self::default();
        let mut rest = html;
        while let Some(start) = rest.find('<') {
            anatomy.hear(&rest[..start]);
            rest = &rest[start..];
            if let Some(comment) = rest.strip_prefix("<!--") {
                rest = after(comment, "-->");
                continue;
            }
            let end = rest.find('>').map_or(rest.len(), |end| end + 1);
            let (tag, behind) = rest.split_at(end);
            anatomy.machinery.push_str(tag);
            rest = match tag {
                _ if is_tag(tag, "script") => {
                    let end = behind.find("</script").unwrap_or(behind.len());
                    // Data for scripts is often the text of the page once more.
                    if !tag.contains("json") {
                        anatomy.machinery.push_str(&behind[..end]);
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
        anatomy.hear(rest);
        anatomy
    }

    fn hear(&mut self, text: &str) {
        let words = text.split_ascii_whitespace();
        self.said_bytes += words.map(|word| word.len() + 1).sum::<usize>();
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
            let words = "words ".repeat(MOST_SAID_BYTES / 6 + 1);
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
        let long = [open.as_slice(), &vec![b' '; MOST_BODY_BYTES]].concat();
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
