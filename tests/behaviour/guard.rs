//! Protection against SSRF: the live fetcher connects to no forbidden address, port or name.
//!
//! Links, redirects, robots.txt and name servers are controlled by others. Here they all try to lead
//! the crawler to this machine, and servers on its own addresses record every connection. Tests
//! assert what these saw, and not only which error was returned.
//!
//! Name servers and servers write into one log, so that a test sees what came first.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sitescout::config::{FetchSettings, ProxySettings, ResolveRule, Settings};
use sitescout::fetch::{ErrorKind, FetchError, FetchMetrics, Fetcher, LiveWeb, LiveWebError};
use sitescout::telemetry::Metrics;
use sitescout::web::{DeferralCause, FetchedPage, PageUrl, Trouble};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::name_server::{Answer, Family, Log, NameServer};
use crate::pathologies::{Fault, Pathologies, Reply, RobotsFault};
use crate::skips::skipped;

/// An address of this machine that tests allow, and two that they never do.
const ALLOWED: &str = "127.0.0.2";
const FORBIDDEN: &str = "127.0.0.1";
const FORBIDDEN_IPV6: &str = "::1";

/// Why some checks prove less: there is no listener where a connection must not go.
const NO_IPV6: &str = "only IPv4 is looked at, this machine has no IPv6";

// === servers on this machine ===

/// An ordinary site on each of the three addresses, all on one port. Its lines in the log
/// are `127.0.0.2 connected` and `127.0.0.2 /page`.
struct Machine {
    addresses: Vec<SocketAddr>,
    log: Log,
    /// From where tests connect themselves.
    own: Arc<Mutex<BTreeSet<SocketAddr>>>,
    acceptors: Vec<AbortHandle>,
}

impl Machine {
    async fn start(log: &Log) -> Self {
        let own = Arc::default();
        let listeners = listeners().await;
        let address = |listener: &TcpListener| listener.local_addr().expect("a bound socket");
        let addresses = listeners.iter().map(address).collect();
        let accept = |listener| {
            let accepting = accept(listener, log.clone(), Arc::clone(&own));
            tokio::spawn(accepting).abort_handle()
        };
        Self {
            addresses,
            log: log.clone(),
            acceptors: listeners.into_iter().map(accept).collect(),
            own,
        }
    }

    fn port(&self) -> u16 {
        self.addresses[0].port()
    }

    fn has_ipv6(&self) -> bool {
        self.addresses.iter().any(SocketAddr::is_ipv6)
    }

    /// A page at this port.
    fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/", self.port())
    }

    /// The log after all that has happened. Connections are taken in the order in which
    /// they were made: when one of our own was taken, none from before is left.
    async fn seen(&self) -> Vec<String> {
        for address in &self.addresses {
            let socket = if address.is_ipv4() {
                TcpSocket::new_v4()
            } else {
                TcpSocket::new_v6()
            };
            let socket = socket.expect("a socket");
            let from = SocketAddr::new(address.ip(), 0);
            socket.bind(from).expect("a free port");
            let from = socket.local_addr().expect("a bound socket");
            self.own.lock().expect("no panic in between").insert(from);
            let mut stream = socket.connect(*address).await.expect("a connection");
            let read = stream.read(&mut [0]).await;
            assert_eq!(read.expect("a close"), 0, "ours are closed at once");
        }
        self.log.lines()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for acceptor in &self.acceptors {
            acceptor.abort();
        }
    }
}

/// Sockets of one port. Machines without IPv6 have one less.
async fn listeners() -> Vec<TcpListener> {
    let has_ipv6 = TcpListener::bind((FORBIDDEN_IPV6, 0)).await.is_ok();
    'ports: loop {
        let first = TcpListener::bind((ALLOWED, 0)).await.expect("a free port");
        let port = first.local_addr().expect("a bound socket").port();
        let mut listeners = vec![first];
        let others = [(FORBIDDEN, true), (FORBIDDEN_IPV6, has_ipv6)];
        for (address, _) in others.into_iter().filter(|(_, is_there)| *is_there) {
            match TcpListener::bind((address, port)).await {
                Ok(listener) => listeners.push(listener),
                // The port is in use there.
                Err(_) => continue 'ports,
            }
        }
        return listeners;
    }
}

/// Owns the connections: they end with it.
async fn accept(listener: TcpListener, log: Log, own: Arc<Mutex<BTreeSet<SocketAddr>>>) {
    let address = listener.local_addr().expect("a bound socket").ip();
    let mut connections = JoinSet::new();
    while let Ok((stream, peer)) = listener.accept().await {
        if !own.lock().expect("no panic in between").contains(&peer) {
            log.note(format!("{address} connected"));
            connections.spawn(serve(stream, address, log.clone()));
        }
    }
}

async fn serve(stream: TcpStream, address: IpAddr, log: Log) {
    let mut stream = BufReader::new(stream);
    while let Some(head) = read_head(&mut stream).await {
        let target = head[0].split(' ').nth(1).unwrap_or_default();
        log.note(format!("{address} {target}"));
        let reply: &[u8] = match target {
            "/robots.txt" => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            _ => {
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n<p>in</p>"
            }
        };
        if stream.write_all(reply).await.is_err() {
            return;
        }
    }
}

/// The lines of a request, if one comes.
async fn read_head(stream: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => return Some(lines),
            text => lines.push(text.to_owned()),
        }
    }
}

// === the crawler ===

struct Crawler {
    live: LiveWeb,
    counted: FetchMetrics,
    metrics: Metrics,
}

impl Crawler {
    fn new(settings: &FetchSettings) -> Self {
        let metrics = Metrics::new();
        let counted = FetchMetrics::register(&metrics);
        let live = LiveWeb::new(settings, counted.clone(), None).expect("usable settings");
        Self {
            live,
            counted,
            metrics,
        }
    }

    async fn fetch(&self, address: &str) -> Result<FetchedPage, FetchError> {
        let page = address.parse::<PageUrl>().expect("the address of a page");
        self.live.fetch(&page).await
    }

    async fn status(&self, address: &str) -> u16 {
        let page = self.fetch(address).await;
        let page = page.unwrap_or_else(|error| panic!("{address}: {error}"));
        page.status.as_u16()
    }

    async fn error(&self, address: &str) -> FetchError {
        match self.fetch(address).await {
            Ok(page) => panic!("{address} answered with {}", page.status),
            Err(error) => error,
        }
    }

    async fn kind(&self, address: &str) -> ErrorKind {
        self.error(address).await.kind
    }

    /// Whether the metrics of the process contain a line.
    fn has_metric(&self, line: &str) -> bool {
        self.metrics.render().lines().any(|found| found == line)
    }
}

/// Settings with this name server, and with these ports beside those of the web. There are no
/// politeness delays, and every request makes its own connection.
fn settings(names: &NameServer, ports: &[u16]) -> FetchSettings {
    let mut settings = FetchSettings {
        contact: Some("https://crawler.example/about".to_owned()),
        dns_servers: vec![names.address()],
        ..FetchSettings::default()
    };
    settings.ports.extend(ports);
    settings.politeness.pause = Duration::ZERO;
    settings.politeness.address_interval = Duration::ZERO;
    settings.limits.idle = Duration::ZERO;
    settings
}

/// The same, where one address of this machine is allowed.
fn settings_for(machine: &Machine, names: &NameServer) -> FetchSettings {
    let allowed = format!("{ALLOWED}/32").parse().expect("a range");
    FetchSettings {
        allow_addresses: vec![allowed],
        ..settings(names, &[machine.port()])
    }
}

fn rule(host: &str, address: SocketAddr, tls: bool) -> ResolveRule {
    ResolveRule {
        host: host.to_owned(),
        address,
        tls,
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn at(addresses: &[&str]) -> Answer {
    Answer::Addresses(addresses.iter().copied().map(ip).collect(), 0)
}

/// A name server for tests in which it should get no query.
async fn unasked_names(log: &Log) -> NameServer {
    NameServer::start(log, |_| at(&[FORBIDDEN])).await
}

// === names that lead to forbidden addresses ===

/// One or more of every kind of address that is not public.
const NOT_PUBLIC: [&str; 41] = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "127.0.0.1",
    "127.0.0.2",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    // IPv4 inside of IPv6: compatible, mapped, translated.
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::7f00:1",
    // Tunnels: 6to4, Teredo, ISATAP.
    "2002:7f00:1::",
    "2001:0:7f00:1::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "2a00:1450::5efe:127.0.0.1",
    "2001:db8::1",
    "3fff::1",
    "100::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
];

/// Leads `host-7.example` to the seventh of the addresses.
async fn names_of(log: &Log, addresses: &'static [&'static str]) -> NameServer {
    NameServer::start(log, move |question| {
        let number = question.name.strip_prefix("host-");
        let number = number.and_then(|rest| rest.strip_suffix(".example"));
        let number: usize = number.and_then(|text| text.parse().ok()).expect("a number");
        at(&[addresses[number]])
    })
    .await
}

#[tokio::test]
async fn names_that_lead_to_addresses_which_are_not_public_are_refused() {
    let log = Log::default();
    let machine = Machine::start(&log).await;
    if !machine.has_ipv6() {
        skipped!(NO_IPV6);
    }
    let names = names_of(&log, &NOT_PUBLIC).await;
    let crawler = Crawler::new(&settings(&names, &[machine.port()]));
    for (number, address) in NOT_PUBLIC.iter().enumerate() {
        let error = crawler
            .error(&machine.url(&format!("host-{number}.example")))
            .await;
        assert_eq!(error.kind, ErrorKind::ForbiddenAddress, "{address}");
        let message = error.to_string();
        let said = ip(address).to_string();
        assert!(message.contains(&said), "{message}");
        assert!(message.contains("`allow_addresses`"), "{message}");
    }
    let refused = u64::try_from(NOT_PUBLIC.len()).expect("few");
    assert_eq!(crawler.counted.pages("forbidden_address"), refused);
    assert_eq!(crawler.live.connections_open(), 0);
    let seen = machine.seen().await;
    let is_question = |line: &String| line.starts_with("A ") || line.starts_with("AAAA ");
    assert!(seen.iter().all(is_question), "{seen:#?}");
}

/// Without this, the test above would pass if nothing could be reached at all.
#[tokio::test]
async fn the_same_addresses_are_reached_where_the_settings_allow_them() {
    const HERE: [&str; 4] = ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"];
    let log = Log::default();
    let machine = Machine::start(&log).await;
    let names = names_of(&log, &HERE).await;
    let range = |text: &str| text.parse().expect("a range");
    let crawler = Crawler::new(&FetchSettings {
        allow_addresses: vec![range("127.0.0.0/8"), range("::1/128")],
        ..settings(&names, &[machine.port()])
    });
    if !machine.has_ipv6() {
        skipped!(NO_IPV6);
    }
    for (number, address) in HERE.iter().enumerate() {
        if ip(address).is_ipv6() && !machine.has_ipv6() {
            continue;
        }
        let host = format!("host-{number}.example");
        assert_eq!(crawler.status(&machine.url(&host)).await, 200, "{address}");
        let expected = format!("{} connected", ip(address).to_canonical());
        assert!(machine.seen().await.contains(&expected), "{address}");
    }
}

#[tokio::test]
async fn another_name_for_the_name_of_this_machine_is_refused() {
    let log = Log::default();
    let machine = Machine::start(&log).await;
    let names = NameServer::start(&log, |question| match question.name.as_str() {
        "alias.example" => Answer::Alias("localhost".to_owned()),
        "far-alias.example" => Answer::Alias("inside.example".to_owned()),
        _ => at(&[FORBIDDEN]),
    })
    .await;
    let crawler = Crawler::new(&settings_for(&machine, &names));
    for host in ["alias.example", "far-alias.example"] {
        let kind = crawler.kind(&machine.url(host)).await;
        assert_eq!(kind, ErrorKind::ForbiddenAddress, "{host}");
    }
    let questions = ["A alias.example", "A far-alias.example", "A inside.example"];
    assert_eq!(machine.seen().await, questions);
}

// === addresses in links ===

#[tokio::test]
async fn no_spelling_of_an_address_in_a_link_leads_to_this_machine() {
    let log = Log::default();
    let machine = Machine::start(&log).await;
    let names = unasked_names(&log).await;
    let crawler = Crawler::new(&settings(&names, &[machine.port()]));
    for host in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.0.0.1..",
        "127.1",
        "127.0.1",
        "0x7f.1",
        "0x7f000001",
        "0X7F.0x0.0.0x1",
        "0177.0.0.1",
        "017700000001",
        "2130706433",
        "2130706433.",
        "127.0.0.2",
        "%31%32%37.0.0.1",
        "127%2e0%2e0%2e1",
        "１２７.０.０.１",
        "127。0。0。1",
        "①②⑦.⓪.⓪.①",
        "0",
        "0x0",
        "0.0.0.0",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::FFFF:7F00:0001]",
        "[::ffff:0:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "public.example@127.0.0.1",
        "public.example:80@[::1]",
        // Names, but of this machine by definition (RFC 6761, section 6.3).
        "localhost",
        "LocalHost.",
        "any.localhost",
    ] {
        let kind = crawler.kind(&machine.url(host)).await;
        assert_eq!(kind, ErrorKind::ForbiddenAddress, "{host}");
    }
    assert_eq!(machine.seen().await, [""; 0], "no connection, no question");
}

#[test]
fn what_only_looks_like_an_address_is_no_address_of_a_page() {
    for host in [
        "127.0.0.1.1",
        "127.0.0.256",
        "0x7f.0.0.0.1",
        "4294967296",
        "[::1",
        "[::1%25lo]",
        "[127.0.0.1]",
        "127.0.0.1%00",
    ] {
        let page = format!("http://{host}/").parse::<PageUrl>();
        assert!(page.is_err(), "{host} is read as {page:?}");
    }
}

// === names with several addresses ===

#[tokio::test]
async fn of_several_addresses_only_those_that_are_allowed_are_connected_to() {
    let log = Log::default();
    let machine = Machine::start(&log).await;
    let names = NameServer::start(&log, |question| match question.name.as_str() {
        "allowed-last.example" => at(&["10.0.0.1", FORBIDDEN, "127.0.0.3", ALLOWED]),
        _ => at(&[ALLOWED, FORBIDDEN]),
    })
    .await;
    let crawler = Crawler::new(&settings_for(&machine, &names));
    for host in ["allowed-first.example", "allowed-last.example"] {
        let page = crawler.fetch(&machine.url(host)).await.expect("a page");
        assert_eq!(page.transfer.address, Some(ip(ALLOWED)));
    }
    let visit = |host: &str| {
        let request = |target: &str| {
            let question = format!("A {host}");
            [question, connected(), format!("{ALLOWED} {target}")]
        };
        [request("/robots.txt"), request("/")].concat()
    };
    let both = [
        visit("allowed-first.example"),
        visit("allowed-last.example"),
    ]
    .concat();
    assert_eq!(machine.seen().await, both);
}

#[tokio::test]
async fn a_forbidden_address_is_no_way_out_when_the_allowed_one_is_dead() {
    let log = Log::default();
    let machine = Machine::start(&log).await;
    // There is no listener on the third address.
    let names = NameServer::start(&log, |_| at(&[FORBIDDEN, "127.0.0.3", FORBIDDEN])).await;
    let mut settings = settings_for(&machine, &names);
    let dead = "127.0.0.3/32".parse().expect("a range");
    settings.allow_addresses.push(dead);
    let crawler = Crawler::new(&settings);
    let kind = crawler.kind(&machine.url("dead.example")).await;
    assert_eq!(kind, ErrorKind::Unreachable);
    assert_eq!(machine.seen().await, ["A dead.example"]);
}

fn connected() -> String {
    format!("{ALLOWED} connected")
}

// === answers that change ===

/// A name that resolves to the allowed address the given number of times, and then elsewhere.
async fn rebinding(log: &Log, times: usize, then: &'static str) -> NameServer {
    NameServer::start(log, move |question| {
        match (question.family, question.before < times) {
            (Family::A, true) => at(&[ALLOWED]),
            // A query for the other family comes only after the change.
            _ => at(&[then]),
        }
    })
    .await
}

/// The address that was checked is the one connected to: each connection has one look-up
/// before it, so that no other answer of the name server is used in between.
#[tokio::test]
async fn a_name_that_changes_its_address_is_refused_from_then_on() {
    let log = Log::default();
    let machine = Machine::start(&log).await;
    let names = rebinding(&log, 3, FORBIDDEN).await;
    let crawler = Crawler::new(&settings_for(&machine, &names));
    let page = |path: &str| machine.url("site.example") + path;
    assert_eq!(crawler.status(&page("first")).await, 200);
    assert_eq!(crawler.status(&page("second")).await, 200);
    for path in ["third", "fourth", "first"] {
        let kind = crawler.kind(&page(path)).await;
        assert_eq!(kind, ErrorKind::ForbiddenAddress, "{path}");
        log.note(format!("refused /{path}"));
    }
    let expected = [
        "A site.example",
        "127.0.0.2 connected",
        "127.0.0.2 /robots.txt",
        "A site.example",
        "127.0.0.2 connected",
        "127.0.0.2 /first",
        "A site.example",
        "127.0.0.2 connected",
        "127.0.0.2 /second",
        "A site.example",
        "refused /third",
        "A site.example",
        "refused /fourth",
        "A site.example",
        "refused /first",
    ];
    assert_eq!(machine.seen().await, expected);
}

#[tokio::test]
async fn a_name_that_changes_between_robots_txt_and_page_is_refused() {
    for then in [FORBIDDEN, FORBIDDEN_IPV6] {
        let log = Log::default();
        let machine = Machine::start(&log).await;
        if then == FORBIDDEN_IPV6 && !machine.has_ipv6() {
            skipped!(NO_IPV6);
        }
        let names = rebinding(&log, 1, then).await;
        let crawler = Crawler::new(&settings_for(&machine, &names));
        let error = crawler.error(&machine.url("site.example")).await;
        assert_eq!(error.kind, ErrorKind::ForbiddenAddress);
        assert_eq!(error.robots_requests, 1);
        let mut expected = vec![
            "A site.example",
            "127.0.0.2 connected",
            "127.0.0.2 /robots.txt",
            "A site.example",
        ];
        if then == FORBIDDEN_IPV6 {
            expected.push("AAAA site.example");
        }
        assert_eq!(machine.seen().await, expected);
    }
}

#[tokio::test]
async fn a_connection_that_is_kept_stays_where_it_was_checked() {
    let log = Log::default();
    let machine = Machine::start(&log).await;
    let names = rebinding(&log, 1, FORBIDDEN).await;
    let mut settings = settings_for(&machine, &names);
    settings.limits.idle = Duration::from_hours(1);
    let crawler = Crawler::new(&settings);
    let page = |path: &str| machine.url("site.example") + path;
    assert_eq!(crawler.status(&page("first")).await, 200);
    assert_eq!(crawler.status(&page("second")).await, 200);
    let expected = [
        "A site.example",
        "127.0.0.2 connected",
        "127.0.0.2 /robots.txt",
        "127.0.0.2 /first",
        "127.0.0.2 /second",
    ];
    assert_eq!(machine.seen().await, expected);
}

// === how long answers are kept ===

fn questions(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.starts_with("A ")).count()
}

#[tokio::test]
async fn an_answer_is_kept_as_long_as_it_says() {
    for (seconds, expected) in [(300, 1), (0, 11)] {
        let log = Log::default();
        let machine = Machine::start(&log).await;
        let answer = move |_: &_| Answer::Addresses(vec![ip(ALLOWED)], seconds);
        let names = NameServer::start(&log, answer).await;
        let crawler = Crawler::new(&settings_for(&machine, &names));
        for number in 0..10 {
            let page = format!("{}{number}", machine.url("site.example"));
            assert_eq!(crawler.status(&page).await, 200);
        }
        let seen = machine.seen().await;
        assert_eq!(questions(&seen), expected, "{seen:#?}");
        let connections = seen.iter().filter(|line| **line == connected()).count();
        assert_eq!(connections, 11, "one for each page and one for robots.txt");
    }
}

#[tokio::test]
async fn a_small_cache_forgets_and_everything_still_works() {
    for cache in [0, 2] {
        let log = Log::default();
        let machine = Machine::start(&log).await;
        let answer = |_: &_| Answer::Addresses(vec![ip(ALLOWED)], 300);
        let names = NameServer::start(&log, answer).await;
        let crawler = Crawler::new(&FetchSettings {
            dns_cache: cache,
            ..settings_for(&machine, &names)
        });
        for _ in 0..2 {
            for number in 0..20 {
                let host = format!("site-{number}.example");
                assert_eq!(crawler.status(&machine.url(&host)).await, 200);
            }
        }
        let seen = machine.seen().await;
        for number in 0..20 {
            let question = format!("A site-{number}.example");
            assert!(seen.contains(&question), "{question} in {seen:#?}");
        }
        // Three requests to each of twenty hosts, and nothing is remembered.
        assert!(cache > 0 || questions(&seen) == 60, "{seen:#?}");
    }
}

#[tokio::test]
async fn answers_that_are_too_long_for_udp_come_by_tcp() {
    let log = Log::default();
    let machine = Machine::start(&log).await;
    let names = NameServer::start(&log, |question| match question.name.as_str() {
        "site.example" => Answer::ByTcp(vec![ip(FORBIDDEN), ip(ALLOWED)]),
        _ => Answer::ByTcp(vec![ip(FORBIDDEN)]),
    })
    .await;
    let crawler = Crawler::new(&settings_for(&machine, &names));
    assert_eq!(crawler.status(&machine.url("site.example")).await, 200);
    let kind = crawler.kind(&machine.url("inside.example")).await;
    assert_eq!(kind, ErrorKind::ForbiddenAddress);
    let seen = machine.seen().await;
    assert!(
        seen.contains(&"A site.example by TCP".to_owned()),
        "{seen:#?}"
    );
    assert!(!seen.contains(&format!("{FORBIDDEN} connected")));
}

// === names without an address ===

#[tokio::test]
async fn a_name_without_an_address_is_no_host() {
    let log = Log::default();
    let names = NameServer::start(&log, |question| match question.name.as_str() {
        "no-such-name.example" => Answer::NoSuchName,
        _ => Answer::NoData,
    })
    .await;
    let crawler = Crawler::new(&settings(&names, &[]));
    for host in ["no-such-name.example", "no-data.example"] {
        let error = crawler.error(&format!("http://{host}/")).await;
        assert_eq!(error.kind, ErrorKind::NoHost, "{host}");
        assert!(!error.kind.is_transient());
        assert!(error.to_string().contains(host), "{error}");
    }
    assert_eq!(crawler.counted.pages("no_host"), 2);
}

/// Whether there is such a host is not known then, so a retry may help. That one
/// family of addresses is missing says nothing about the other.
#[tokio::test]
async fn a_name_server_that_fails_does_not_say_that_there_is_no_host() {
    let log = Log::default();
    let names = NameServer::start(&log, |question| {
        match (question.name.as_str(), question.family) {
            ("failure.example", _)
            | ("half-failure.example", Family::A)
            | ("other-half.example", Family::Aaaa) => Answer::Failure,
            ("refusal.example", _) => Answer::Refusal,
            ("noise.example", _) | ("half-noise.example", Family::A) => Answer::Noise,
            _ => Answer::NoData,
        }
    })
    .await;
    let crawler = Crawler::new(&settings(&names, &[]));
    for host in [
        "failure.example",
        "refusal.example",
        "noise.example",
        "half-failure.example",
        "half-noise.example",
        "other-half.example",
    ] {
        let error = crawler.error(&format!("http://{host}/")).await;
        assert_eq!(error.kind, ErrorKind::DnsFailed, "{host}: {error}");
        assert!(error.kind.is_transient());
    }
    assert_eq!(crawler.counted.pages("dns_failed"), 6);
}

/// The paused clock advances only while all tasks are idle, so this takes no time.
#[tokio::test(start_paused = true)]
async fn a_silent_name_server_is_waited_for_about_as_long_as_a_connection() {
    let log = Log::default();
    let names = NameServer::start(&log, |_| Answer::Silence).await;
    let settings = settings(&names, &[]);
    let crawler = Crawler::new(&settings);
    let start = Instant::now();
    let error = crawler.error("http://silent.example/").await;
    assert_eq!(error.kind, ErrorKind::DnsFailed, "{error}");
    assert!(error.kind.is_transient());
    let waited = start.elapsed();
    assert!(waited < 2 * settings.limits.connect, "{waited:?}");
}

/// Names that no registrar would sell exist below those that they do.
#[tokio::test]
async fn unusual_names_are_looked_up_as_they_are() {
    let log = Log::default();
    let machine = Machine::start(&log).await;
    let names = NameServer::start(&log, |_| at(&[ALLOWED])).await;
    let crawler = Crawler::new(&settings_for(&machine, &names));
    for (host, asked) in [
        ("under_score.example", "under_score.example"),
        ("_first.example", "_first.example"),
        ("-dash-.example", "-dash-.example"),
        ("it's.example", "it's.example"),
        ("a--b.example", "a--b.example"),
        ("Bücher.example", "xn--bcher-kva.example"),
        ("single", "single"),
    ] {
        assert_eq!(crawler.status(&machine.url(host)).await, 200, "{host}");
        let question = format!("A {asked}");
        assert!(machine.seen().await.contains(&question), "{question}");
    }
}

// === ports ===

#[tokio::test]
async fn other_ports_are_refused_before_any_request() {
    let log = Log::default();
    let machine = Machine::start(&log).await;
    let names = NameServer::start(&log, |_| at(&[ALLOWED])).await;
    let mut settings = settings_for(&machine, &names);
    settings.ports = vec![80, 443];
    let crawler = Crawler::new(&settings);
    for page in [
        machine.url("site.example"),
        machine.url(ALLOWED),
        "http://site.example:22/".to_owned(),
        "http://site.example:0/".to_owned(),
        "https://site.example:8443/".to_owned(),
    ] {
        let error = crawler.error(&page).await;
        assert_eq!(error.kind, ErrorKind::ForbiddenPort, "{page}");
        assert!(error.to_string().contains("`ports`"), "{error}");
    }
    assert_eq!(crawler.counted.pages("forbidden_port"), 5);
    assert_eq!(machine.seen().await, [""; 0], "no connection, no question");
}

// === without a contact ===

#[tokio::test]
async fn without_a_contact_only_mapped_hosts_are_asked() {
    let log = Log::default();
    let machine = Machine::start(&log).await;
    let names = unasked_names(&log).await;
    let crawler = Crawler::new(&FetchSettings {
        contact: None,
        resolve: vec![rule("mapped.example", machine.addresses[0], false)],
        ..settings_for(&machine, &names)
    });
    for page in [
        machine.url("site.example"),
        machine.url(ALLOWED),
        "https://site.example/".to_owned(),
        "http://not.mapped.example/".to_owned(),
    ] {
        let error = crawler.error(&page).await;
        assert_eq!(error.kind, ErrorKind::NoContact, "{page}");
        assert!(error.to_string().contains("`contact`"), "{error}");
    }
    assert_eq!(crawler.counted.pages("no_contact"), 4);
    assert_eq!(machine.seen().await, [""; 0], "no connection, no question");
    assert_eq!(crawler.status("http://mapped.example/page").await, 200);
    let last = machine.seen().await.pop();
    assert_eq!(last.as_deref(), Some("127.0.0.2 /page"));
}

#[test]
fn without_a_contact_and_without_mapped_hosts_there_is_no_live_web() {
    let counted = FetchMetrics::register(&Metrics::new());
    let error = LiveWeb::new(&FetchSettings::default(), counted, None).expect_err("a refusal");
    assert!(matches!(error, LiveWebError::NoContact), "{error}");
    assert!(error.to_string().contains("`contact`"), "{error}");
}

// === redirects ===

/// All of `*.example` is the faulty web; other names lead to this machine.
async fn before_a_bad_web(log: &Log) -> (Pathologies, NameServer, Crawler) {
    let web = Pathologies::start().await;
    let names = unasked_names(log).await;
    let crawler = Crawler::new(&FetchSettings {
        resolve: vec![rule("*.example", web.http(), false)],
        ..settings(&names, &[web.http().port()])
    });
    (web, names, crawler)
}

#[tokio::test]
async fn a_redirect_to_a_forbidden_address_is_an_answer_but_no_way_in() {
    let log = Log::default();
    let (web, _names, crawler) = before_a_bad_web(&log).await;
    let port = web.http().port();
    let by_number = Fault::RedirectToPrivate.host();
    let by_name = "redirect-to-name.example";
    let name = format!("http://inside.test:{port}/");
    let to_name = name.clone();
    web.script(by_name, move |target, _| match target {
        "/robots.txt" => Reply::status(404),
        _ => Reply::redirect(&to_name),
    });
    for (page, target) in [
        (format!("{by_number}/"), "http://10.0.0.1/".to_owned()),
        (
            format!("{by_number}/loopback"),
            format!("http://127.0.0.1:{port}/"),
        ),
        (
            format!("{by_number}/mapped"),
            format!("http://[::ffff:7f00:1]:{port}/"),
        ),
        (format!("{by_name}/"), name),
    ] {
        let page = crawler.fetch(&format!("http://{page}")).await;
        let found = page.expect("a redirect").redirect_target();
        let found = found.expect("the address of a page");
        assert_eq!(found.as_str(), target);
        let kind = crawler.kind(&target).await;
        assert_eq!(kind, ErrorKind::ForbiddenAddress, "{target}");
    }

    // Connections are taken in the order in which they were made: after this page none
    // from before is left, and each of them had its request.
    assert_eq!(crawler.status("http://last.example/").await, 200);
    let hosts = ["last.example", by_name, &by_number];
    assert_eq!(web.all_hosts(), hosts);
    let requests: usize = hosts.iter().map(|host| web.requests(host).len()).sum();
    assert_eq!(web.connections_accepted(), requests);
}

#[tokio::test]
async fn a_robots_txt_that_leads_to_a_forbidden_address_defers_the_site() {
    let log = Log::default();
    let (web, _names, crawler) = before_a_bad_web(&log).await;
    let port = web.http().port();
    let targets = [
        format!("http://127.0.0.1:{port}/robots.txt"),
        format!("http://[::ffff:127.0.0.1]:{port}/robots.txt"),
        format!("http://inside.test:{port}/robots.txt"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
    ];
    let mut hosts = vec![RobotsFault::RedirectPrivate.host()];
    for (number, target) in targets.into_iter().enumerate() {
        let host = format!("robots-{number}.example");
        web.script(&host, move |_, _| Reply::redirect(&target));
        hosts.push(host);
    }
    for host in &hosts {
        let error = crawler.error(&format!("http://{host}/page")).await;
        assert!(is_deferred(error.kind), "{host}: {error}");
        assert_eq!(error.robots_requests, 1, "{host}");
        assert_eq!(web.targets(host), ["/robots.txt"], "the page was not read");
    }
    let line = "sitescout_robots_fetched_total{outcome=\"forbidden_address\"} 5";
    assert!(crawler.has_metric(line), "{}", crawler.metrics.render());
    assert_eq!(crawler.counted.pages("deferred"), 5);

    // As above: one request on each connection, and none without.
    assert_eq!(crawler.status("http://last.example/").await, 200);
    assert_eq!(web.connections_accepted(), hosts.len() + 2);
    hosts.push("last.example".to_owned());
    hosts.sort();
    assert_eq!(web.all_hosts(), hosts);
}

fn is_deferred(kind: ErrorKind) -> bool {
    let cause = DeferralCause::RobotsUnavailable;
    matches!(kind, ErrorKind::Deferred { cause: found, .. } if found == cause)
}

// === by proxy ===

/// A proxy in front of a faulty web. Its lines in the log are `GET http://site.test/page` and
/// `CONNECT site.test:443`, with the credentials after them.
struct Proxy {
    address: SocketAddr,
    acceptor: AbortHandle,
}

#[derive(Clone, Copy)]
enum Temper {
    LeadsTo { http: SocketAddr, https: SocketAddr },
    Refuses,
}

impl Proxy {
    async fn start(log: &Log, temper: Temper) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let log = log.clone();
        let accepting = async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(pass_on(stream, log.clone(), temper));
            }
        };
        Self {
            address,
            acceptor: tokio::spawn(accepting).abort_handle(),
        }
    }

    fn before(web: &Pathologies) -> Temper {
        Temper::LeadsTo {
            http: web.http(),
            https: web.https(),
        }
    }

    /// As a user would write it into the settings.
    fn settings(&self, user: &str) -> ProxySettings {
        let text = format!("[fetch]\nproxy = 'http://{user}{}'", self.address);
        let settings = Settings::parse(&text).expect("settings");
        settings.fetch.proxy.expect("a proxy")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

/// One request, and then bytes in both directions.
async fn pass_on(stream: TcpStream, log: Log, temper: Temper) {
    let mut stream = BufReader::new(stream);
    let Some(mut head) = read_head(&mut stream).await else {
        log.note("a connection without a request".to_owned());
        return;
    };
    let is_for_proxy = |line: &String| line.to_ascii_lowercase().starts_with("proxy-");
    let credentials = head.iter().find(|line| is_for_proxy(line));
    let credentials = credentials.and_then(|line| line.split_once(": "));
    let credentials = credentials.map_or("nobody", |(_, value)| value);
    let (method, target) = {
        let mut words = head[0].split(' ').map(str::to_owned);
        let mut next = || words.next().unwrap_or_default();
        (next(), next())
    };
    log.note(format!("{method} {target} as {credentials}"));
    let is_tunnel = method == "CONNECT";
    let reply = match temper {
        Temper::Refuses => {
            "HTTP/1.1 407 Proxy Authentication Required\r\n\
             Proxy-Authenticate: Basic realm=\"proxy\"\r\nContent-Length: 0\r\n\r\n"
        }
        Temper::LeadsTo { .. } if is_tunnel => "HTTP/1.1 200 Connection established\r\n\r\n",
        Temper::LeadsTo { .. } => "",
    };
    if stream.write_all(reply.as_bytes()).await.is_err() {
        return;
    }
    let Temper::LeadsTo { http, https } = temper else {
        return;
    };
    let address = if is_tunnel { https } else { http };
    let mut origin = TcpStream::connect(address).await.expect("a bad web");
    if !is_tunnel {
        let after_host = target.splitn(4, '/').nth(3).unwrap_or_default();
        head[0] = format!("{method} /{after_host} HTTP/1.1");
        head.retain(|line| !is_for_proxy(line));
        let head = head.join("\r\n") + "\r\n\r\n";
        let sent = origin.write_all(head.as_bytes()).await;
        sent.expect("a server that reads");
    }
    // Either side may go away at any time.
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut origin).await;
}

#[tokio::test]
async fn pages_are_asked_for_through_the_proxy_and_names_are_left_to_it() {
    let log = Log::default();
    let web = Pathologies::start().await;
    let proxy = Proxy::start(&log, Proxy::before(&web)).await;
    let names = unasked_names(&log).await;
    let certificates = tempfile::tempdir().expect("a directory");
    let ca_file = certificates.path().join("ca.pem");
    std::fs::write(&ca_file, web.ca_pem()).expect("room for a file");
    let crawler = Crawler::new(&FetchSettings {
        proxy: Some(proxy.settings("user:pass%3a@")),
        ca_file: Some(ca_file),
        resolve: vec![rule("mapped.example", web.http(), false)],
        ..settings(&names, &[])
    });
    let plain = crawler.fetch("http://plain.test/page?a=b").await;
    let plain = plain.expect("a page by the proxy");
    assert_eq!(plain.status.as_u16(), 200);
    assert_eq!(plain.transfer.address, None, "the proxy hides the address");
    assert_eq!(crawler.status("https://secure.test/page").await, 200);
    assert_eq!(crawler.status("http://mapped.example/page").await, 200);
    let expected = [
        "GET http://plain.test/robots.txt as Basic dXNlcjpwYXNzOg==",
        "GET http://plain.test/page?a=b as Basic dXNlcjpwYXNzOg==",
        "CONNECT secure.test:443 as Basic dXNlcjpwYXNzOg==",
        "CONNECT secure.test:443 as Basic dXNlcjpwYXNzOg==",
    ];
    assert_eq!(
        log.lines(),
        expected,
        "no question, and no way by the proxy"
    );

    for (host, scheme, page) in [
        ("plain.test", "http", "/page?a=b"),
        ("secure.test", "https", "/page"),
        ("mapped.example", "http", "/page"),
    ] {
        assert_eq!(web.targets(host), ["/robots.txt", page]);
        for request in web.requests(host) {
            assert_eq!(request.scheme, scheme);
            assert_eq!(request.header("Proxy-Authorization"), None, "{host}");
        }
    }
}

#[tokio::test]
async fn a_proxy_without_a_user_is_sent_no_credentials() {
    let log = Log::default();
    let web = Pathologies::start().await;
    let proxy = Proxy::start(&log, Proxy::before(&web)).await;
    // The only name that is resolved is that of the proxy, which may have any address.
    let names = unasked_names(&log).await;
    let crawler = Crawler::new(&FetchSettings {
        proxy: Some(ProxySettings {
            host: "proxy.test".to_owned(),
            ..proxy.settings("")
        }),
        ..settings(&names, &[])
    });
    assert_eq!(crawler.status("http://plain.test/page").await, 200);
    let expected = [
        "A proxy.test",
        "GET http://plain.test/robots.txt as nobody",
        "A proxy.test",
        "GET http://plain.test/page as nobody",
    ];
    assert_eq!(log.lines(), expected);
}

#[tokio::test]
async fn a_proxy_is_not_asked_for_forbidden_addresses_and_ports() {
    let log = Log::default();
    let web = Pathologies::start().await;
    let proxy = Proxy::start(&log, Proxy::before(&web)).await;
    let names = unasked_names(&log).await;
    let crawler = Crawler::new(&FetchSettings {
        proxy: Some(proxy.settings("")),
        ..settings(&names, &[])
    });
    for host in [
        "127.0.0.1",
        "2130706433",
        "10.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "[fd00:ec2::254]",
    ] {
        for scheme in ["http", "https"] {
            let kind = crawler.kind(&format!("{scheme}://{host}/")).await;
            assert_eq!(kind, ErrorKind::ForbiddenAddress, "{scheme}://{host}");
        }
    }
    let kind = crawler.kind("http://site.test:22/").await;
    assert_eq!(kind, ErrorKind::ForbiddenPort);
    // Connections are taken in order, so the log would show what came before these.
    assert_eq!(crawler.status("http://8.8.8.8/").await, 200);
    let expected = [
        "GET http://8.8.8.8/robots.txt as nobody",
        "GET http://8.8.8.8/ as nobody",
    ];
    assert_eq!(log.lines(), expected);
}

/// Otherwise the refusal of the proxy would be taken for that of the site: for a robots.txt
/// that is missing, and for a page that is.
#[tokio::test]
async fn a_proxy_that_refuses_us_leads_nowhere() {
    let log = Log::default();
    let proxy = Proxy::start(&log, Temper::Refuses).await;
    let names = unasked_names(&log).await;
    let crawler = Crawler::new(&FetchSettings {
        proxy: Some(proxy.settings("user:wrong@")),
        ..settings(&names, &[])
    });
    for page in ["https://secure.test/", "http://plain.test/"] {
        let error = crawler.error(page).await;
        // It refuses every request, so no site is to blame.
        let trouble = DeferralCause::OwnTrouble(Trouble::Proxy);
        let is_ours = matches!(error.kind, ErrorKind::Deferred { cause, .. } if cause == trouble);
        assert!(is_ours, "{page}: {error}");
    }
    let expected = [
        "CONNECT secure.test:443 as Basic dXNlcjp3cm9uZw==",
        "GET http://plain.test/robots.txt as Basic dXNlcjp3cm9uZw==",
    ];
    assert_eq!(log.lines(), expected);
}

// === many sites, one address ===

#[tokio::test]
async fn sites_that_share_an_address_share_its_pace() {
    let log = Log::default();
    let machine = Machine::start(&log).await;
    let names = NameServer::start(&log, |_| at(&[ALLOWED])).await;
    let mut settings = settings_for(&machine, &names);
    let interval = Duration::from_millis(50);
    settings.politeness.address_interval = interval;
    let crawler = Arc::new(Crawler::new(&settings));
    let started = Instant::now();
    let mut sites = JoinSet::new();
    for number in 0..5 {
        let crawler = Arc::clone(&crawler);
        let page = machine.url(&format!("site-{number}.example"));
        sites.spawn(async move { crawler.status(&page).await });
    }
    assert_eq!(sites.join_all().await, [200; 5]);
    // Ten requests have nine intervals between them.
    let elapsed = started.elapsed();
    assert!(elapsed >= 9 * interval, "{elapsed:?}");
}
