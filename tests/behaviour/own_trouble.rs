//! Local failures (network, proxy, clock) are not recorded as failures of sites.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde_json::Value;
use sitescout::config::Settings;
use sitescout::external::{CrawlMetrics, CrawlerSlots, EndReason, TopicCrawl};
use sitescout::fetch::{ErrorKind, FetchError, Fetcher};
use sitescout::store::{CrawlStore, KeyValueStore, NewSite, ReadStore};
use sitescout::telemetry::{Metrics, clock};
use sitescout::web::{
    DeferralCause, FetchedPage, PageUrl, Scheme, Transfer, Trouble, UndecidedReason, Verdict,
};
use tokio::time::{Instant, sleep};

use crate::crashes::site_name;
use crate::crawling::{Place, lines, text, topics};
use crate::daemon::Daemon;
use crate::exhaustion::LONGEST;
use crate::pathologies::{Pathologies, TlsFault};
use crate::scripted_web::{model, sailing};

const OUTAGE: Duration = Duration::from_mins(30);

// === half an hour without a network ===

/// A web of sites about sailing, some of which cannot be reached for some of the time.
struct Outage {
    began: Option<Instant>,
    /// Whether all sites are over TLS, and plain HTTP only leads there.
    is_encrypted: bool,
    /// Whether the site of this number answers at this time after the start.
    answers: fn(usize, Duration) -> bool,
    /// How requests fail otherwise, and after how long.
    failure: Failure,
    wait: Duration,
    failed: AtomicUsize,
}

#[async_trait]
impl Fetcher for Outage {
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
        if self.is_encrypted && page.scheme() == Scheme::Http {
            let target = page.as_str().replace("http:", "https:");
            return Ok(FetchedPage {
                url: page.clone(),
                status: http::StatusCode::MOVED_PERMANENTLY,
                headers: header(http::header::LOCATION, &target),
                body: Vec::new().into(),
                truncated: false,
                transfer: Transfer::default(),
            });
        }
        let number = number_of(&page.site().to_string());
        let began = self.began.expect("a beginning");
        if !(self.answers)(number, began.elapsed()) {
            self.failed.fetch_add(1, Ordering::Relaxed);
            sleep(self.wait).await;
            return Err(FetchError::new((self.failure)(page), "out of reach"));
        }
        sleep(Duration::from_secs(5)).await;
        Ok(FetchedPage {
            url: page.clone(),
            status: http::StatusCode::OK,
            headers: header(http::header::CONTENT_TYPE, "text/html"),
            body: sailing(page.as_str().len(), &["/a", "/b"]).into(),
            truncated: false,
            transfer: Transfer::default(),
        })
    }
}

fn header(name: http::HeaderName, value: &str) -> http::HeaderMap {
    [(name, value.parse().expect("a value"))]
        .into_iter()
        .collect()
}

/// The number in the name of a site.
fn number_of(site: &str) -> usize {
    let digits = site.trim_start_matches('s').split('.').next();
    digits
        .and_then(|digits| digits.parse().ok())
        .expect("a number")
}

/// How requests fail.
type Failure = fn(&PageUrl) -> ErrorKind;

struct Crawled {
    verdicts: BTreeMap<usize, Verdict>,
    /// Local failures as they were reported; none is their end.
    troubles: Vec<Option<Trouble>>,
    failed: usize,
    deferred: u64,
}

// === impl Outage ===

impl Outage {
    fn new(answers: fn(usize, Duration) -> bool, failure: Failure, seconds: u64) -> Self {
        Self {
            began: None,
            is_encrypted: false,
            answers,
            failure,
            wait: Duration::from_secs(seconds),
            failed: AtomicUsize::new(0),
        }
    }
}

/// Crawls `sites` sites with the given number of crawlers through an outage, in paused time.
fn crawl_through((sites, crawlers): (usize, usize), mut web: Outage) -> Crawled {
    let model = model();
    let mut settings = Settings::default();
    settings.external.crawlers = crawlers;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("it works");
    runtime.block_on(async {
        web.began = Some(Instant::now());
        let web = Arc::new(web);
        let store = Arc::new(KeyValueStore::in_memory().expect("it works"));
        let slots = CrawlerSlots::new(settings.external.crawlers);
        let troubles: Arc<Mutex<Vec<Option<Trouble>>>> = Arc::default();
        let crawl = TopicCrawl::new("sailing", model, &settings).expect("a fit model");
        let metrics = CrawlMetrics::register(&Metrics::new());
        let log = Arc::clone(&troubles);
        let opening = crawl.open(store.clone(), web.clone(), &metrics, &slots);
        let external = opening.await;
        let external = external
            .expect("it works")
            .with_trouble_listener(Box::new(move |now| {
                log.lock().expect("it works").push(now);
            }));
        let (_, topic) = store.topics().await.expect("it works").remove(0);
        let new = (0..sites).map(|number| NewSite {
            entrance: format!("http://s{number}.example{number}.org/")
                .parse()
                .expect("it works"),
            is_start: false,
        });
        assert_eq!(
            store.enter(topic, new.collect()).await.expect("it works"),
            sites
        );
        let crawl = external.crawl(std::future::pending(), |_, _| {});
        let (reason, totals) = crawl.await.expect("it works");
        assert_eq!(reason, EndReason::BorderEmpty);
        let judged = store.judged(topic, 0, 2 * sites).await.expect("it works");
        Crawled {
            verdicts: judged
                .into_iter()
                .map(|judged| (number_of(&judged.site.to_string()), judged.verdict))
                .collect(),
            troubles: troubles.lock().expect("it works").clone(),
            failed: web.failed.load(Ordering::Relaxed),
            deferred: totals.deferred,
        }
    })
}

#[test]
#[allow(clippy::print_stdout, reason = "how many were lost is worth knowing")]
fn half_an_hour_without_a_network_costs_no_site_its_verdict() {
    let proxy_is_down = |_: &PageUrl| ErrorKind::Deferred {
        not_before: clock::now() + Duration::from_mins(1),
        cause: DeferralCause::OwnTrouble(Trouble::Proxy),
    };
    let outages: [(&str, usize, Failure, u64, Trouble); 5] = [
        (
            "packets lost",
            1_000,
            |_: &PageUrl| ErrorKind::ConnectTimeout,
            10,
            Trouble::Network,
        ),
        (
            "no route",
            200,
            |_: &PageUrl| ErrorKind::Unreachable,
            0,
            Trouble::Network,
        ),
        (
            "no name server",
            200,
            |_: &PageUrl| ErrorKind::DnsFailed,
            5,
            Trouble::Network,
        ),
        ("no proxy", 200, proxy_is_down, 0, Trouble::Proxy),
        // None is left in the border when the network is lost.
        (
            "last sites",
            150,
            |_: &PageUrl| ErrorKind::Unreachable,
            1,
            Trouble::Network,
        ),
    ];
    for (name, sites, failure, wait, trouble) in outages {
        let is_before_or_after = |_, since| {
            let begin = Duration::from_secs(12);
            since < begin || since >= begin + OUTAGE
        };
        let web = Outage::new(is_before_or_after, failure, wait);
        let crawled = crawl_through((sites, 64), web);
        assert_eq!(crawled.verdicts.len(), sites, "{name}");
        let lost = crawled.verdicts.values();
        let lost = lost.filter(|verdict| !verdict.is_relevant()).count();
        let failed = crawled.failed;
        println!("{name}: {lost} of {sites} sites lost, {failed} requests failed");
        assert!(lost <= sites / 50, "{name}: {lost} of {sites} lost");
        assert_eq!(crawled.troubles, [Some(trouble), None], "{name}");
        // Those under way with their retries and other entrances, sixteen in a row, and a probe
        // every few seconds: not the whole border again and again.
        assert!(failed < 3_000, "{name}: {failed}");
    }
}

/// Forty dead sites in a row are no local failure while other sites answer.
#[test]
fn dead_sites_are_dead_however_many_come_together() {
    // They take longer to fail than the others to answer.
    let web = Outage::new(
        |number, _| number < 20,
        |_: &PageUrl| ErrorKind::Unreachable,
        30,
    );
    let crawled = crawl_through((60, 64), web);
    assert_eq!(crawled.relevant(), (0..20).collect::<Vec<_>>());
    assert_eq!(crawled.unreachable(), (20..60).collect::<Vec<_>>());
    assert_eq!(crawled.troubles, [], "nothing is wrong with us");
}

/// The sites that answered, among them the one that others are compared with, die before forty dead
/// ones come up.
#[test]
fn a_reference_that_dies_does_not_stop_the_crawl() {
    let answers = |number, since| match number {
        0..20 => since < Duration::from_mins(1),
        20..60 => false,
        _ => true,
    };
    let web = Outage::new(answers, |_: &PageUrl| ErrorKind::Unreachable, 5);
    let crawled = crawl_through((80, 4), web);
    assert_eq!(crawled.verdicts.len(), 80, "all are judged in the end");
    let relevant = crawled.relevant();
    assert!((60..80).all(|number| relevant.contains(&number)));
    assert_eq!(relevant.len() + crawled.unreachable().len(), 80);
    assert_eq!(crawled.troubles.first(), Some(&Some(Trouble::Network)));
    assert_eq!(
        crawled.troubles.last(),
        Some(&None),
        "{:?}",
        crawled.troubles
    );
}

/// A handful of start sites and no network: nothing is known about them, so they are tried again.
#[test]
fn sites_are_not_given_up_at_once_if_no_site_has_ever_answered() {
    let web = Outage::new(|_, _| false, |_: &PageUrl| ErrorKind::Unreachable, 0);
    let crawled = crawl_through((5, 4), web);
    assert_eq!(crawled.verdicts, BTreeMap::new());
    assert_eq!(crawled.deferred, 5);
}

/// The last sites of a border are dead, fewer than are suspicious by their number.
#[test]
fn a_few_dead_sites_at_the_end_are_judged_while_a_reference_answers() {
    let web = Outage::new(
        |number, _| number < 8,
        |_: &PageUrl| ErrorKind::Unreachable,
        0,
    );
    let crawled = crawl_through((12, 2), web);
    assert_eq!(crawled.relevant(), (0..8).collect::<Vec<_>>());
    assert_eq!(crawled.unreachable(), (8..12).collect::<Vec<_>>());
    assert_eq!(crawled.troubles, [], "nothing is wrong with us");
}

/// The clock is wrong for half an hour, on a web as it is: plain HTTP leads to the encrypted site, and
/// not every name with `www.` exists.
#[test]
fn a_clock_that_is_set_right_costs_no_site_its_verdict() {
    let is_before_or_after = |_, since| {
        let begin = Duration::from_secs(12);
        since < begin || since >= begin + OUTAGE
    };
    let failure = |page: &PageUrl| {
        if page.as_str().contains("//www.") {
            ErrorKind::NoHost
        } else {
            ErrorKind::BadCertificate {
                http_instead: false,
                is_out_of_date: true,
            }
        }
    };
    let web = Outage {
        is_encrypted: true,
        ..Outage::new(is_before_or_after, failure, 0)
    };
    let crawled = crawl_through((200, 64), web);
    assert_eq!(crawled.relevant().len(), 200, "{:?}", crawled.verdicts);
    assert_eq!(crawled.deferred, 0);
    assert_eq!(crawled.troubles, [Some(Trouble::Clock), None]);
}

impl Crawled {
    fn relevant(&self) -> Vec<usize> {
        self.numbers(|verdict| verdict.is_relevant())
    }

    fn unreachable(&self) -> Vec<usize> {
        self.numbers(|verdict| *verdict == Verdict::Undecided(UndecidedReason::Unreachable))
    }

    /// The numbers of sites with such a verdict.
    fn numbers(&self, is_such: impl Fn(&Verdict) -> bool) -> Vec<usize> {
        let verdicts = self.verdicts.iter();
        let such = verdicts.filter(|(_, verdict)| is_such(verdict));
        such.map(|(number, _)| *number).collect()
    }
}

// === a proxy that is down ===

/// Answers every request for a page over plain HTTP, as a proxy would.
fn serve_as_proxy(listener: TcpListener) {
    let answer = |mut stream: TcpStream| {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut target = String::new();
        let mut line = String::new();
        while reader.read_line(&mut line).ok()? > 2 {
            if target.is_empty() {
                line.split(' ').nth(1)?.clone_into(&mut target);
            }
            line.clear();
        }
        let (status, body) = if target.ends_with("/robots.txt") {
            ("404 Not Found", "")
        } else {
            (
                "200 OK",
                "<p>Learn to sail a dinghy or a yacht, race in the regatta of \
                             our sailing club, and meet the crew in the harbour.",
            )
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).ok()
    };
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer(stream));
        }
    });
}

#[test]
fn a_daemon_whose_proxy_is_down_says_so_and_goes_on_when_it_is_back() {
    let place = Place::new();
    topics(&place, &[("boats", "")]);
    let topic = place.path("models/boats/topic.toml");
    let starts = (0..12).map(|at| format!("'http://{}/'", site_name(at)));
    let starts = starts.collect::<Vec<_>>().join(", ");
    let definition = fs::read_to_string(&topic).expect("a topic");
    let (before, _) = definition.split_once("start_sites").expect("start sites");
    fs::write(&topic, format!("{before}start_sites = [{starts}]\n")).expect("a topic");
    // A port without a listener.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let proxy = listener.local_addr().expect("an address");
    drop(listener);
    let settings = format!(
        "[log]\nformat = 'json'\n\
         [fetch]\ncontact = 'https://crawler.example/'\nproxy = 'http://{proxy}'\n\
         [fetch.politeness]\npause = '0 s'\ncome_back = '1 s'\n\
         [external]\nmax_deferrals = 1\n\
         [service]\ntopics = ['boats']\nmodels = 'models'\nlisten = '127.0.0.1:0'\n\
         [api]\nlisten = '127.0.0.1:0'\n"
    );
    fs::write(place.path("daemon.toml"), settings).expect("settings");
    let daemon = Daemon::start(&place);
    let served = daemon.logs("the API is served");
    let api = served["fields"]["address"]
        .as_str()
        .expect("an address")
        .to_owned();
    daemon.logs("the proxy cannot be reached");
    daemon.shows("sitescout_own_trouble{cause=\"proxy\",topic=\"boats\"} 1");
    let shown = read_topics(&api);
    assert_eq!(shown["state"], "crawling");
    assert_eq!(shown["trouble"], "proxy");
    let advice = shown["trouble_advice"].as_str().expect("advice");
    assert!(advice.contains("`proxy` in [fetch]"), "{advice}");
    assert_eq!(shown["undecided"], 0, "no site is abandoned");
    serve_as_proxy(TcpListener::bind(proxy).expect("the same port"));
    daemon.logs("the local failure is over");
    daemon.shows("sitescout_own_trouble{cause=\"proxy\",topic=\"boats\"} 0");
    daemon.shows("sitescout_topic_state{reason=\"border_empty\",state=\"idle\",topic=\"boats\"} 1");
    let shown = read_topics(&api);
    assert_eq!(shown["trouble"], Value::Null);
    assert_eq!(shown["undecided"], 0, "{shown}");
    daemon.signal("TERM");
    assert!(daemon.end().success());
    let judged = lines(&place.run("export --topic boats --format jsonl --all --state state"));
    assert_eq!(judged.len(), 12);
}

/// What the API says about the only topic.
fn read_topics(address: &str) -> Value {
    let mut stream = TcpStream::connect(address).expect("the API");
    let request = "GET /v1/topics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let topics: Value = serde_json::from_str(body).expect("JSON");
    topics["topics"][0].clone()
}

// === a wrong clock ===

/// Sites over TLS, some of them with a certificate that ended in 2020.
fn crawl_with_certificates(place: &Place, web: &Pathologies, hosts: &[String]) -> String {
    fs::write(place.path("ca.pem"), web.ca_pem()).expect("a file");
    let settings = format!(
        "[fetch]\nca_file = 'ca.pem'\nresolve = [\
         {{ host = '*.example', address = '{}', tls = true }}]\n\
         [fetch.politeness]\npause = '0 s'\ncome_back = '1 s'\n[external]\ndrain = '0 s'\n",
        web.https()
    );
    fs::write(place.path("live.toml"), settings).expect("settings");
    topics(place, &[("boats", "")]);
    let topic = place.path("models/boats/topic.toml");
    let definition = fs::read_to_string(&topic).expect("a topic");
    let (before, _) = definition.split_once("start_sites").expect("start sites");
    let starts = hosts.iter().map(|host| format!("'{host}'"));
    let starts = starts.collect::<Vec<_>>().join(", ");
    fs::write(&topic, format!("{before}start_sites = [{starts}]\n")).expect("a topic");
    "crawl boats --json --config live.toml --crawlers 1 --models models --state state".to_owned()
}

fn expired(number: usize) -> String {
    format!("{}.s{number}.example", TlsFault::Expired.name())
}

#[test]
fn one_expired_certificate_is_the_site_s_own_fault() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let web = runtime.block_on(Pathologies::start());
    let place = Place::new();
    let hosts = [
        "good.example".to_owned(),
        expired(1),
        "fine.example".to_owned(),
        expired(2),
    ];
    let crawl = crawl_with_certificates(&place, &web, &hosts);
    let judged = lines(&place.run(&crawl));
    let undecided = judged.iter().filter(|line| line["verdict"] == "undecided");
    assert_eq!(judged.len(), 4);
    let undecided: Vec<String> = undecided.map(|line| line["host"].to_string()).collect();
    for number in [1, 2] {
        assert!(
            undecided.contains(&format!("\"{}\"", expired(number))),
            "{undecided:?}"
        );
    }
}

#[test]
fn many_expired_certificates_at_once_are_our_clock() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let web = runtime.block_on(Pathologies::start());
    let place = Place::new();
    let hosts: Vec<String> = (0..40).map(expired).collect();
    let crawl = crawl_with_certificates(&place, &web, &hosts);
    let mut command = place.command(&crawl);
    let mut child = command
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let begin = Instant::now();
    let complaint = errors
        .lines()
        .map_while(Result::ok)
        .find(|line| line.contains("check its clock"));
    assert!(complaint.is_some() && begin.elapsed() < LONGEST);
    let pid = child.id().to_string();
    let stopped = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(stopped.expect("a shell").success());
    let output = child.wait_with_output().expect("an end");
    assert_eq!(text(&output.stdout), "", "no site is judged");
    let kept = lines(&place.run("export --topic boats --format jsonl --all --state state"));
    assert!(kept.is_empty(), "{kept:?}");
    let visited = hosts.iter().filter(|host| web.hellos(host) > 0).count();
    assert!(
        (8..20).contains(&visited),
        "{visited} were asked before it was clear"
    );
}

/// Moves every verdict of a store by `days` days.
fn move_verdicts(place: &Place, from: &str, to: &str, days: i64) {
    let dump = text(
        &place
            .run(&format!("export --everything --state {from}"))
            .stdout,
    );
    let moved = dump.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).expect("JSON");
        if record["record"] == "verdict" {
            let at = record["verdict"]["judged_at"].as_i64().expect("a time");
            record["verdict"]["judged_at"] = (at + days * 86_400).into();
        }
        record.to_string() + "\n"
    });
    fs::write(place.path("moved.jsonl"), moved.collect::<String>()).expect("a dump");
    let imported = place.run(&format!("import moved.jsonl --state {to}"));
    assert!(imported.status.success(), "{}", text(&imported.stderr));
}

#[test]
fn a_clock_that_cannot_be_right_refuses_the_start_unless_it_is_accepted() {
    let place = Place::new();
    topics(&place, &[("sailing", "")]);
    let crawl = "crawl sailing --web warc:coast.warc.gz --json --crawlers 1 --models models";
    let begun = place.run(&format!("{crawl} --state right --max-pages 12"));
    assert!(begun.status.success(), "{}", text(&begun.stderr));
    let day = 1;
    let year = 365;
    for (state, days, is_refused) in [
        // The verdicts are dated tomorrow: the clock is behind by a day at most.
        ("tomorrow", day - 1, false),
        ("future", 20 * year, true),
        ("next-week", 7 * day, true),
        ("cellar", -4 * year, false),
        ("past", -6 * year, true),
    ] {
        move_verdicts(&place, "right", state, days);
        let started = place.run(&format!("{crawl} --state {state} --max-pages 14"));
        let stderr = text(&started.stderr);
        if !is_refused {
            assert!(started.status.success(), "{state}: {stderr}");
            let (before, after) = (evidence(&place, "right"), evidence(&place, state));
            assert!(before.is_subset(&after), "{state}: evidence was forgotten");
            continue;
        }
        assert_eq!(started.status.code(), Some(78), "{state}: {stderr}");
        assert!(stderr.contains("--accept-clock"), "{stderr}");
        assert_eq!(text(&started.stdout), "", "{state}: nothing is judged");
        // Reading is always allowed.
        let listed = place.run(&format!("export --topic sailing --all --state {state}"));
        assert!(listed.status.success());
        let accepted = place.run(&format!("{crawl} --state {state} --accept-clock"));
        assert!(accepted.status.success(), "{}", text(&accepted.stderr));
        // Once is enough.
        let again = place.run(&format!("{crawl} --state {state}"));
        assert!(again.status.success(), "{}", text(&again.stderr));
        assert_dates_are_right(&place, state);
    }
}

/// The sites whose evidence is kept.
fn evidence(place: &Place, state: &str) -> BTreeSet<String> {
    let kept = lines(&place.run(&format!("export --everything --state {state}")));
    let kept = kept.iter().filter(|line| line["record"] == "evidence");
    kept.map(|line| line["host"].to_string()).collect()
}

/// No verdict is of the future, and no recheck further away than the settings say.
fn assert_dates_are_right(place: &Place, state: &str) {
    let dump = text(
        &place
            .run(&format!("export --everything --state {state}"))
            .stdout,
    );
    let now = clock::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("a time");
    let now = now.as_secs();
    let mut rechecks = 0;
    for line in dump.lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        if let Some(at) = record["verdict"]["judged_at"].as_u64() {
            assert!(at <= now, "{line}");
        }
        if let Some(at) = record["site"]["phase"]["recheck"].as_u64() {
            rechecks += 1;
            assert!(at <= now + 31 * 86_400, "{line}");
        }
    }
    assert!(rechecks > 0, "{dump}");
}
