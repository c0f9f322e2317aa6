//! Parameters of a URL that name the visitor or the campaign, never the page.
//!
//! The rule, documented in `docs/manual.md`: a query parameter is dropped if
//!
//! 1. its name is one of [`SESSION_NAMES`] or begins with one of [`SESSION_PREFIXES`], or
//! 2. its name is one of [`AMBIGUOUS_SESSION_NAMES`] and its value looks like a token
//!    ([`is_token`]): `sid=7` may be a page, `sid=9f86d081884c7d65` is a visitor, or
//! 3. its name is one of [`TRACKING_NAMES`] or begins with one of [`TRACKING_PREFIXES`].
//!
//! Names are compared case-insensitively. In the path, `;jsessionid=…` and its kind are dropped
//! by the same names, and so is the cookieless session segment of ASP.NET, `/(S(…))/`.
//! All other parameters stay, in their order, because it may matter to the server.

/// Names that only sessions have.
const SESSION_NAMES: [&str; 12] = [
    "jsessionid",
    "phpsessid",
    "sessionid",
    "session_id",
    "sessid",
    "oscsid",
    "zenid",
    "cfid",
    "cftoken",
    "xtcsid",
    "mscssid",
    "view_state",
];

/// Some servers append a number to the name.
const SESSION_PREFIXES: [&str; 1] = ["aspsessionid"];

/// Names that sessions share with parameters of pages.
const AMBIGUOUS_SESSION_NAMES: [&str; 4] = ["sid", "s", "session", "token"];

/// Names that advertising and mailing systems append to any URL.
const TRACKING_NAMES: [&str; 29] = [
    "gclid",
    "dclid",
    "gbraid",
    "wbraid",
    "gclsrc",
    "fbclid",
    "msclkid",
    "yclid",
    "ysclid",
    "twclid",
    "ttclid",
    "li_fat_id",
    "igshid",
    "igsh",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "_ga",
    "_gl",
    "_openstat",
    "vero_id",
    "wickedid",
    "pk_campaign",
    "pk_kwd",
    "pk_keyword",
    "pk_source",
    "pk_medium",
    "pk_content",
    "pk_cid",
];

/// Families of tracking parameters.
const TRACKING_PREFIXES: [&str; 6] = ["utm_", "mtm_", "piwik_", "matomo_", "hsa_", "_hs"];

/// Whether a query or path parameter (`name=value` or `name`) does not identify the page.
pub(super) fn is_noise(parameter: &str) -> bool {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    let is = |known: &&str| name.eq_ignore_ascii_case(known);
    let begins = |known: &&str| {
        name.get(..known.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(known))
    };
    SESSION_NAMES.iter().any(&is)
        || SESSION_PREFIXES.iter().any(&begins)
        || TRACKING_NAMES.iter().any(&is)
        || TRACKING_PREFIXES.iter().any(begins)
        || (AMBIGUOUS_SESSION_NAMES.iter().any(is) && is_token(value))
}

/// At least sixteen letters and digits, digits among them, and nothing else.
fn is_token(value: &str) -> bool {
    value.len() >= 16
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && value.bytes().any(|byte| byte.is_ascii_digit())
}

/// Whether a path segment is a cookieless session of ASP.NET: `(S(…))`, also with another letter
/// (A, F, X) or several such groups, `(A(…)S(…))`.
pub(super) fn is_session_segment(segment: &str) -> bool {
    let Some(mut groups) = segment
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
    else {
        return false;
    };
    if groups.is_empty() {
        return false;
    }
    while !groups.is_empty() {
        let Some(rest) = groups
            .strip_prefix(['A', 'F', 'S', 'X'])
            .and_then(|rest| rest.strip_prefix('('))
        else {
            return false;
        };
        let Some((token, rest)) = rest.split_once(')') else {
            return false;
        };
        if token.is_empty() || token.contains('(') {
            return false;
        }
        groups = rest;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visitors_and_campaigns_are_noise() {
        for parameter in [
            "PHPSESSID=abc",
            "jsessionid",
            "ASPSESSIONIDQQRTSC=x",
            "sid=9f86d081884c7d65",
            "utm_source=mail",
            "UTM_Campaign=x",
            "fbclid=1",
            "_hsenc=x",
        ] {
            assert!(is_noise(parameter), "{parameter}");
        }
    }

    #[test]
    fn parameters_that_may_name_a_page_stay() {
        for parameter in [
            "sid=7",
            "s=sailing+boats+in+kiel",
            "token",
            "id=9f86d081884c7d65",
            "page=2",
            "utm=1",
            "",
            "=",
        ] {
            assert!(!is_noise(parameter), "{parameter}");
        }
    }

    #[test]
    fn cookieless_sessions_are_recognised() {
        for segment in ["(S(lit3py55t21z5v55vlm25s55))", "(A(x)S(y))"] {
            assert!(is_session_segment(segment), "{segment}");
        }
        for segment in ["", "()", "(S())", "S(x)", "(T(x))", "(S(x)", "(a)"] {
            assert!(!is_session_segment(segment), "{segment}");
        }
    }
}
