//! Hosts with faults in robots.txt. Their other pages are ordinary.

use std::fmt::Write;
use std::time::Duration;

use super::answers::{Answer, FOR_EVER, Reply, Then, Wire};
use super::bodies::{CHALLENGE, RULES_BOMB, gzip, noise, page};
use super::faults::{Requested, endless_interim};

host_names! {
    /// What happens to a request for robots.txt.
    RobotsFault {
        /// 429.
        Status429 = "robots-429",
        /// 500.
        Status500 = "robots-500",
        /// 503.
        Status503 = "robots-503",
        /// 403.
        Status403 = "robots-403",
        /// 404.
        Status404 = "robots-404",
        /// The request is read, and nothing is written.
        NeverAnswers = "robots-never-answers",
        /// RST.
        Resets = "robots-resets",
        /// Five redirects on the host, then rules against `/private`.
        FiveRedirects = "robots-redirects-5",
        /// Six of them.
        SixRedirects = "robots-redirects-6",
        /// 301 to the rules of `robots-rules.example`.
        RedirectElsewhere = "robots-redirect-elsewhere",
        /// Two files that redirect to each other.
        RedirectLoop = "robots-redirect-loop",
        /// 302 to an address in a private network.
        RedirectPrivate = "robots-redirect-private",
        /// Rules against `/private`.
        Rules = "robots-rules",
        /// Rules against everything.
        None = "robots-none",
        /// A crawl delay of 2 seconds.
        Delay2 = "robots-delay-2",
        /// A crawl delay of an hour.
        Delay3600 = "robots-delay-3600",
        /// Rules without end, as fast as they are read.
        Endless = "robots-endless",
        /// Rules against everything, after 600 KiB of comments.
        LateRule = "robots-late-rule",
        /// A page, with status 200.
        Html = "robots-html",
        /// Noise, with status 200.
        Binary = "robots-binary",
        /// Rules against `/private` behind a byte order mark.
        Bom = "robots-bom",
        /// Patterns on which backtracking matchers take years for the path that the pages link
        /// to, and at the end a rule against `/private`.
        EvilWildcards = "robots-evil-wildcards",
        /// Rules against `/private`, as gzip.
        Gzip = "robots-gzip",
        /// 1 GiB of rules against `/private`, as gzip.
        Bomb = "robots-bomb",
        /// A challenge that is known by its header alone, with status 403.
        ChallengeHeader = "robots-challenge-header",
        /// The same with status 200.
        ChallengeHeader200 = "robots-challenge-header-200",
        /// The same with a redirect.
        ChallengeHeader302 = "robots-challenge-header-302",
        /// A redirect to the host of a gatekeeper.
        ChallengeGate = "robots-challenge-gate",
        /// The page of a gatekeeper, with status 200.
        Challenge200 = "robots-challenge-200",
        /// The same with status 202.
        Challenge202 = "robots-challenge-202",
        /// The same with status 401.
        Challenge401 = "robots-challenge-401",
        /// The same with status 403.
        Challenge403 = "robots-challenge-403",
        /// The same with status 503.
        Challenge503 = "robots-challenge-503",
        /// The same with status 404.
        Challenge404 = "robots-challenge-404",
        /// Rules against `/private`, with status 202.
        Rules202 = "robots-rules-202",
        /// 401, and a page that only names it.
        Status401 = "robots-401",
        /// A page that quotes rules against everything, with status 200.
        HtmlWithRules = "robots-html-rules",
        /// Interim responses for ever.
        EndlessInterim = "robots-endless-interim",
    }
}

const RULES: &str = "User-agent: *\nDisallow: /private\n";

impl RobotsFault {
    pub(super) fn answer(self, requested: &Requested) -> Answer {
        let path = requested.path();
        if path == "/robots.txt" {
            return self.robots(&requested.request.host);
        }
        // The rest of the chains.
        let step = path
            .strip_prefix("/robots-")
            .and_then(|rest| rest.strip_suffix(".txt"));
        match (self, step) {
            (Self::FiveRedirects, Some(step)) => chain(step, 5).into(),
            (Self::SixRedirects, Some(step)) => chain(step, 6).into(),
            (Self::RedirectLoop, Some(_)) => Reply::redirect("/robots.txt").into(),
            (Self::EvilWildcards, _) => linked(requested, &evil_path()).into(),
            _ => linked(requested, "/").into(),
        }
    }

    fn robots(self, host: &str) -> Answer {
        let reply = match self {
            Self::Status429 => Reply::status(429),
            Self::Status500 => Reply::status(500),
            Self::Status503 => Reply::status(503),
            Self::Status403 => Reply::status(403),
            Self::Status404 => Reply::status(404),
            Self::NeverAnswers => return Wire::nothing(Then::Silence).into(),
            Self::Resets => return Wire::nothing(Then::ResetAfter(Duration::ZERO)).into(),
            Self::FiveRedirects | Self::SixRedirects => Reply::redirect("/robots-1.txt"),
            Self::RedirectElsewhere => Reply {
                status: 301,
                ..Reply::redirect("http://robots-rules.example/robots.txt")
            },
            Self::RedirectLoop => Reply::redirect("/robots-loop.txt"),
            Self::RedirectPrivate => Reply::redirect("http://10.0.0.1/robots.txt"),
            Self::Rules => Reply::text(RULES),
            Self::None => Reply::text("User-agent: *\nDisallow: /\n"),
            Self::Delay2 => Reply::text("User-agent: *\nCrawl-delay: 2\n"),
            Self::Delay3600 => Reply::text("User-agent: *\nCrawl-delay: 3600\n"),
            Self::Endless => return endless().into(),
            Self::EndlessInterim => return endless_interim().into(),
            Self::LateRule => Reply::text(late_rule()),
            Self::Html => Reply::html(page(host, "/robots.txt")),
            Self::Binary => Reply::text(noise(&[0, 0xff], 4096)),
            Self::Bom => Reply::text(format!("\u{feff}{RULES}")),
            Self::EvilWildcards => Reply::text(evil_wildcards()),
            Self::Gzip => Reply::text(gzip(RULES.as_bytes())).header("Content-Encoding", "gzip"),
            Self::ChallengeHeader => Reply::status(403).header("cf-mitigated", "challenge"),
            Self::ChallengeHeader200 => Reply::text(RULES).header("cf-mitigated", "challenge"),
            Self::ChallengeHeader302 => {
                Reply::redirect("/robots-rules.txt").header("cf-mitigated", "challenge")
            }
            Self::ChallengeGate => Reply::redirect("https://geo.captcha-delivery.com/captcha/"),
            Self::Challenge200 => challenge(200),
            Self::Challenge202 => challenge(202),
            Self::Challenge401 => challenge(401),
            Self::Challenge403 => challenge(403),
            Self::Challenge503 => challenge(503),
            Self::Challenge404 => challenge(404),
            Self::Rules202 => Reply {
                status: 202,
                ..Reply::text(RULES)
            },
            Self::Status401 => Reply::status(401),
            Self::HtmlWithRules => Reply::html(
                "<!DOCTYPE html><title>robots.txt explained</title><pre>\n\
                 User-agent: *\nDisallow: /\n</pre>",
            ),
            Self::Bomb => Reply::text(RULES_BOMB.clone()).header("Content-Encoding", "gzip"),
        };
        reply.into()
    }
}

/// The response of a gatekeeper instead of the site's.
fn challenge(status: u16) -> Reply {
    Reply {
        status,
        ..Reply::html(CHALLENGE)
    }
}

/// A page that links to what the rules are about.
fn linked(requested: &Requested, link: &str) -> Reply {
    requested.page_to(&["/private", "/public", link])
}

/// A redirect to the next step, or rules at the last.
fn chain(step: &str, last: usize) -> Reply {
    match step.parse::<usize>() {
        Ok(step) if step < last => Reply::redirect(&format!("/robots-{}.txt", step + 1)),
        _ => Reply::text(RULES),
    }
}

fn endless() -> Wire {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n";
    let piece = "Disallow: /xxxxxxxxxxxxxxxxxxxxx\n".repeat(500).into();
    let times = FOR_EVER;
    Wire::new(head, "User-agent: *\n", Then::Repeat { piece, times })
}

fn late_rule() -> String {
    let line = format!("# {}\n", "nothing ".repeat(12));
    let comments = line.repeat(600 * 1024 / line.len() + 1);
    comments + "User-agent: *\nDisallow: /\n"
}

fn evil_wildcards() -> String {
    let mut rules = "User-agent: *\n".to_owned();
    for stars in 20..120 {
        writeln!(rules, "Disallow: /{}b$", "*a".repeat(stars)).expect("memory");
    }
    rules + "Disallow: /private\n"
}

fn evil_path() -> String {
    format!("/{}", "a".repeat(1500))
}
