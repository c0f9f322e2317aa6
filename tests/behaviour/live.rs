//! The live fetcher against every fault of `tests/pathologies`: the outcome, and what the servers saw.

use std::sync::Arc;
use std::time::Duration;

use sitescout::config::{FetchSettings, ResolveRule};
use sitescout::fetch::{FetchMetrics, Fetcher, PageSource};
use sitescout::telemetry::Metrics;
use sitescout::web::{NoAnswer, PageUrl};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::pathologies::{Fault, Pathologies, Reply, RobotsFault, TlsFault};

/// What a server may have written before it noticed that the client left: its buffers, and
/// those of the kernel on both sides.
const IN_FLIGHT: u64 = 4 << 20;

/// A live fetcher and a faulty web.
pub(crate) struct Meeting {
    pub(crate) web: Pathologies,
    pub(crate) live: Arc<PageSource>,
    pub(crate) metrics: FetchMetrics,
    _certificates: TempDir,
}

impl Meeting {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// All of `*.example` resolves to the faulty web, both ports; there is no pause, and limits
    /// are small, but not so small that a busy machine reaches them on good pages.
    pub(crate) async fn with(change: impl FnOnce(&mut FetchSettings)) -> Self {
        let web = Pathologies::start().await;
        let certificates = tempfile::tempdir().expect("a directory");
        let ca_file = certificates.path().join("ca.pem");
        std::fs::write(&ca_file, web.ca_pem()).expect("room for a file");
        let rule = |address, tls| ResolveRule {
            host: "*.example".to_owned(),
            address,
            tls,
        };
        let mut settings = FetchSettings {
            resolve: vec![rule(web.https(), true), rule(web.http(), false)],
            ca_file: Some(ca_file),
            contact: Some("https://crawler.example/about".to_owned()),
            body_bytes: 512 << 10,
            ..FetchSettings::default()
        };
        settings.politeness.pause = Duration::ZERO;
        settings.politeness.address_interval = Duration::ZERO;
        let limits = &mut settings.limits;
        limits.connect = Duration::from_secs(3);
        limits.first_byte = Duration::from_secs(3);
        limits.request = Duration::from_secs(8);
        limits.minimum_rate = 4 << 10;
        limits.wire_bytes = 256 << 10;
        change(&mut settings);
        let metrics = FetchMetrics::register(&Metrics::new());
        let live = PageSource::live(&settings, metrics.clone(), None).expect("usable settings");
        Self {
            web,
            live: Arc::new(live),
            metrics,
            _certificates: certificates,
        }
    }

    pub(crate) async fn outcome(&self, url: &str) -> String {
        outcome(&self.live, url).await
    }
}

pub(crate) fn url(text: &str) -> PageUrl {
    text.parse().expect("an address")
}

/// An outcome in a word: a status, with `cut` if the body is not whole, or an error.
pub(crate) async fn outcome(live: &PageSource, address: &str) -> String {
    match live.fetch(&url(address)).await {
        Ok(page) if page.truncated => format!("{} cut", page.status.as_u16()),
        Ok(page) => page.status.as_u16().to_string(),
        Err(error) => error.kind.reason().name().to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_has_its_outcome_and_stays_within_limits() {
    let meeting = Arc::new(Meeting::new().await);
    let mut asked = JoinSet::new();
    for fault in Fault::ALL {
        let meeting = Arc::clone(&meeting);
        asked.spawn(async move {
            let host = fault.host();
            let outcome = meeting.outcome(&format!("http://{host}/")).await;
            // Which limit a busy machine reaches first varies.
            let is_slow = *fault == Fault::TinyChunks && outcome == "too_slow";
            assert!(is_slow || outcome == wanted(*fault), "{fault:?}: {outcome}");
            let targets = meeting.web.targets(&host);
            assert_eq!(targets, ["/robots.txt", "/"], "{fault:?}: no request more");
            let sent = meeting.web.bytes_sent(&host);
            assert!(sent < (256 << 10) + IN_FLIGHT, "{fault:?}: {sent}");
        });
    }
    asked.join_all().await;
    let counted: u64 = ["2xx", "3xx", "4xx", "5xx"]
        .into_iter()
        .chain(NoAnswer::ALL.iter().map(|reason| reason.name()))
        .map(|label| meeting.metrics.pages(label))
        .sum();
    assert_eq!(
        counted,
        Fault::ALL.len() as u64,
        "every page is counted once"
    );
}

fn wanted(fault: Fault) -> &'static str {
    match fault {
        Fault::NeverAnswers | Fault::DripsHeaders => "timeout",
        Fault::Drips => "too_slow",
        Fault::Closes | Fault::Resets | Fault::Flaky => "broken",
        Fault::EndlessHeaders
        | Fault::ManyHeaders
        | Fault::HugeHeader
        | Fault::Garbage
        | Fault::Http09
        | Fault::EndlessInterim
        | Fault::Upgrade => "malformed",
        // Cut by us: at the limits, past the headers, past the sniffed bytes. Or by them:
        // what came before the break is kept, as browsers do.
        Fault::EndlessBody
        | Fault::EndlessLength
        | Fault::GzipBomb
        | Fault::DoubleBomb
        | Fault::BrotliBomb
        | Fault::TinyChunks
        | Fault::EndlessTrailers
        | Fault::Image
        | Fault::NoTypeBinary
        | Fault::LongLength
        | Fault::BrokenChunks
        | Fault::UnfinishedChunks
        | Fault::ResetsInBody => "200 cut",
        // What is no Brotli, and no zstd, is taken as it is.
        Fault::LargeWindow
        | Fault::ZstdBomb
        | Fault::TalksOn
        | Fault::ShortLength
        | Fault::EarlyHints
        | Fault::NoReason
        | Fault::WrongEncoding
        | Fault::RawDeflate
        | Fault::CharsetLies
        | Fault::BinaryAsHtml
        | Fault::NoTypeHtml
        | Fault::Soft404
        | Fault::Calendar
        | Fault::Sessions => "200",
        Fault::RedirectLoop
        | Fault::RedirectSelf
        | Fault::RedirectChain
        | Fault::RedirectToPrivate
        | Fault::RedirectToFile
        | Fault::RedirectToData
        | Fault::RedirectWithoutLocation
        | Fault::RedirectToPort
        | Fault::CookieWall => "302",
        Fault::Status999 => "999",
        Fault::Throttled429 => "429",
        Fault::Throttled503 => "503",
        Fault::Failing500 => "500",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_cut_at_the_limits() {
    let meeting = Meeting::new().await;
    for (fault, wire_bytes, body_bytes) in [
        (Fault::EndlessBody, 256 << 10, 256 << 10),
        (Fault::EndlessLength, 256 << 10, 256 << 10),
        (Fault::GzipBomb, 256 << 10, 512 << 10),
        (Fault::DoubleBomb, 3_778, 512 << 10),
        (Fault::BrotliBomb, 52, 512 << 10),
        (Fault::Image, 0, 0),
    ] {
        let page = url(&format!("http://{}/", fault.host()));
        let page = meeting.live.fetch(&page).await.expect("an answer");
        let found = (page.transfer.wire_bytes, page.body.len());
        assert_eq!(found, (wire_bytes, body_bytes), "{fault:?}");
        assert!(page.truncated, "{fault:?}");
    }
    let raw = meeting
        .live
        .fetch(&url("http://raw-deflate.example/"))
        .await;
    let raw = raw.expect("an answer");
    assert!(raw.body.starts_with(b"<!doctype html>") && !raw.truncated);
    let unknown = meeting
        .live
        .fetch(&url("http://no-type-binary.example/"))
        .await;
    let read = unknown.expect("an answer").transfer.wire_bytes;
    assert!(read < 64 << 10, "{read} bytes to see that it is no text");
}

#[tokio::test(flavor = "multi_thread")]
async fn robots_txt_of_every_kind() {
    let meeting = Arc::new(Meeting::new().await);
    let mut asked = JoinSet::new();
    for fault in RobotsFault::ALL {
        let meeting = Arc::clone(&meeting);
        asked.spawn(async move {
            let host = fault.host();
            let public = meeting.outcome(&format!("http://{host}/public")).await;
            let private = meeting.outcome(&format!("http://{host}/private")).await;
            let (wanted_public, wanted_private) = wanted_by_robots(*fault);
            assert_eq!(
                (public.as_str(), private.as_str()),
                (wanted_public, wanted_private),
                "{fault:?}"
            );
            let targets = meeting.web.targets(&host);
            for (page, outcome) in [("/public", public), ("/private", private)] {
                let requests = targets.iter().filter(|target| *target == page).count();
                let wanted = usize::from(outcome == "200");
                assert_eq!(requests, wanted, "{fault:?}: {page} in {targets:?}");
            }
            let rules = targets.iter().filter(|target| *target == "/robots.txt");
            // The loop comes by three times; the rules of one host are also those of another.
            let most = match fault {
                RobotsFault::RedirectLoop => 3,
                RobotsFault::Rules => 2,
                _ => 1,
            };
            assert!(rules.count() <= most, "{fault:?}: {targets:?}");
            let sent = meeting.web.bytes_sent(&host);
            assert!(sent < (500 << 10) + IN_FLIGHT, "{fault:?}: {sent}");
        });
    }
    asked.join_all().await;
    let hosts = meeting.web.all_hosts();
    assert!(
        !hosts
            .iter()
            .any(|host| host.starts_with("10.") || host.contains("captcha")),
        "{hosts:?}"
    );
}

fn wanted_by_robots(fault: RobotsFault) -> (&'static str, &'static str) {
    match fault {
        // RFC 9309, 2.3.1.4: unreachable is complete disallow, for now. And with a delay of
        // an hour the first page is due in an hour.
        RobotsFault::Status429
        | RobotsFault::Status500
        | RobotsFault::Status503
        | RobotsFault::NeverAnswers
        | RobotsFault::EndlessInterim
        | RobotsFault::Resets
        | RobotsFault::RedirectPrivate
        | RobotsFault::Delay3600
        // The response of a gatekeeper is not the site's.
        | RobotsFault::ChallengeHeader
        | RobotsFault::ChallengeHeader200
        | RobotsFault::ChallengeHeader302
        | RobotsFault::ChallengeGate
        | RobotsFault::Challenge200
        | RobotsFault::Challenge202
        | RobotsFault::Challenge401
        | RobotsFault::Challenge403
        | RobotsFault::Challenge503
        | RobotsFault::Rules202 => ("deferred", "deferred"),
        // 2.3.1.3: unavailable is full allow. So is what has no rules in it, or has its
        // rules beyond the 500 KiB of 2.5, or more redirects than the five of 2.3.1.2.
        RobotsFault::Status401
        | RobotsFault::Status403
        | RobotsFault::Status404
        | RobotsFault::Challenge404
        | RobotsFault::HtmlWithRules
        | RobotsFault::SixRedirects
        | RobotsFault::RedirectLoop
        | RobotsFault::LateRule
        | RobotsFault::Html
        | RobotsFault::Binary
        | RobotsFault::Endless
        | RobotsFault::Delay2 => ("200", "200"),
        RobotsFault::FiveRedirects
        | RobotsFault::RedirectElsewhere
        | RobotsFault::Rules
        | RobotsFault::Bom
        | RobotsFault::EvilWildcards
        | RobotsFault::Gzip
        | RobotsFault::Bomb => ("200", "disallowed"),
        RobotsFault::None => ("disallowed", "disallowed"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_checked_and_both_versions_of_http_spoken() {
    let meeting = Meeting::new().await;
    for fault in TlsFault::ALL {
        let host = fault.host();
        let outcome = meeting.outcome(&format!("https://{host}/")).await;
        let wanted = match fault {
            TlsFault::Expired => "expired_certificate",
            TlsFault::WrongName | TlsFault::SelfSigned | TlsFault::UnknownCa => "bad_certificate",
            TlsFault::Garbage => "tls_failed",
            TlsFault::Silent => "connect_timeout",
            TlsFault::H1Only => "200",
            TlsFault::TinyRecords => "200 cut",
            // They fail at robots.txt, without which nothing is read.
            TlsFault::H2Resets | TlsFault::H2GoAway | TlsFault::H2EndlessHeaders => "deferred",
        };
        let is_slow = *fault == TlsFault::TinyRecords && outcome == "too_slow";
        assert!(is_slow || outcome == wanted, "{fault:?}: {outcome}");
        let is_bad = matches!(
            wanted,
            "bad_certificate" | "expired_certificate" | "tls_failed"
        );
        assert!(
            !is_bad || meeting.web.requests(&host).is_empty(),
            "{fault:?}"
        );
    }
    assert_eq!(meeting.outcome("https://good.example/").await, "200");
    let versions = |host: &str| {
        let requests = meeting.web.requests(host);
        let versions = requests.iter().map(|request| request.version);
        versions.collect::<Vec<_>>()
    };
    assert_eq!(versions("good.example"), ["HTTP/2", "HTTP/2"]);
    assert_eq!(versions("h1-only.example"), ["HTTP/1.1", "HTTP/1.1"]);
    assert_eq!(
        meeting.web.hellos("good.example"),
        1,
        "one connection for both"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_headers_are_no_answer_in_either_version_of_http() {
    let meeting = Meeting::new().await;
    for (host, headers, wanted) in [
        ("some.example", 80, "200"),
        ("many.example", 120, "malformed"),
    ] {
        meeting.web.script(host, move |target, _| {
            if target == "/robots.txt" {
                Reply::status(404)
            } else {
                let names = (0..headers).map(|number| format!("x-header-{number}"));
                names.fold(Reply::html("<p>here"), |reply, name| {
                    reply.header(&name, "1")
                })
            }
        });
        for scheme in ["http", "https"] {
            let outcome = meeting.outcome(&format!("{scheme}://{host}/")).await;
            assert_eq!(outcome, wanted, "{scheme}://{host}/");
        }
    }
    let versions: Vec<&str> = meeting
        .web
        .requests("many.example")
        .iter()
        .map(|request| request.version)
        .collect();
    assert_eq!(versions, ["HTTP/1.1", "HTTP/1.1", "HTTP/2", "HTTP/2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_authority_of_the_settings_its_certificates_are_bad() {
    let meeting = Meeting::with(|settings| settings.ca_file = None).await;
    assert_eq!(
        meeting.outcome("https://good.example/").await,
        "bad_certificate"
    );
    assert!(meeting.web.requests("good.example").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_host_has_many_spellings() {
    let meeting = Meeting::new().await;
    for (address, host) in [
        ("http://MIXED.Example/", "mixed.example"),
        ("http://dot.example./", "dot.example"),
        ("http://münchen.example/", "xn--mnchen-3ya.example"),
        (
            "http://any.number.of.labels.example/",
            "any.number.of.labels.example",
        ),
        ("http://user:secret@login.example/", "login.example"),
    ] {
        assert_eq!(meeting.outcome(address).await, "200", "{address}");
        let requests = meeting.web.requests(host);
        assert_eq!(requests.len(), 2, "{address}");
        assert_eq!(requests[1].header("authorization"), None);
    }
}
