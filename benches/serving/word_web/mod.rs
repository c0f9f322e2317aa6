//! A web of a hundred hosts for whole crawlers, whose pages have the statistics of real ones.
//!
//! Each host is a loopback address of its own (Linux has all of `127.0.0.0/8`), so that every crawler
//! reads the same URLs without a name server. All are served at one port by one thread, from memory.
//! Every page can be reached from the homepage of its host within three clicks, and has 24 links
//! within its host and two to other hosts.
//!
//! `127.1.1.1` to `127.1.1.100` are the hosts to be crawled, all of one topic. Those of `127.1.2`
//! are examples of that topic, those of `127.1.3` of others. Nothing links to examples but examples.
//!
//! At `127.0.0.1` and the same port are the [`Counts`].

mod page;
mod prose;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use page::{Content, Link};
use prose::{Topic, Vocabulary};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream as AsyncStream};

const HOSTS: u8 = 100;
const PAGES_OF_A_HOST: usize = 200;

/// Hosts of each kind of example.
const EXAMPLES: u8 = 20;
const PAGES_OF_AN_EXAMPLE: usize = 30;

/// The pages that each page leads on to; three clicks reach more than there are.
const PAGES_BELOW: usize = 8;
const LINKS_IN_NAVIGATION: usize = 6;
const OTHER_LINKS: usize = 10;
const LINKS_TO_OTHER_HOSTS: usize = 2;

const SEED: u64 = 3;

/// Which hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hosts {
    Crawled,
    ExamplesOfTheTopic,
    OtherExamples,
}

/// What the server was asked for since the counts were last taken.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Pages served.
    pub(crate) pages: u64,
    /// The same, each page once.
    pub(crate) distinct: u64,
    /// Bytes of these pages, without their headers.
    pub(crate) bytes: u64,
    /// All other requests: robots.txt, sitemaps, images.
    pub(crate) others: u64,
    /// Connections accepted.
    pub(crate) connections: u64,
    /// The most connections open at once.
    pub(crate) most_open: u64,
}

// === impl Hosts ===

impl Hosts {
    pub(crate) fn addresses(self) -> impl Iterator<Item = Ipv4Addr> {
        let (network, last) = match self {
            Self::Crawled => (1, HOSTS),
            Self::ExamplesOfTheTopic => (2, EXAMPLES),
            Self::OtherExamples => (3, EXAMPLES),
        };
        (1..=last).map(move |host| Ipv4Addr::new(127, 1, network, host))
    }

    fn pages_of_each(self) -> usize {
        match self {
            Self::Crawled => PAGES_OF_A_HOST,
            Self::ExamplesOfTheTopic | Self::OtherExamples => PAGES_OF_AN_EXAMPLE,
        }
    }

    /// All pages of these hosts.
    pub(crate) fn pages(self) -> u64 {
        (self.addresses().count() * self.pages_of_each()) as u64
    }
}

// === impl Counts ===

impl Counts {
    /// Asks the server at this address, and begins to count anew.
    pub(crate) fn take(server: SocketAddr) -> Self {
        let take = || -> io::Result<String> {
            let mut stream = TcpStream::connect(server)?;
            stream.write_all(b"GET /counts HTTP/1.1\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = take().expect("the server answers");
        let (_, counts) = answer.split_once("\r\n\r\n").expect("a response");
        serde_json::from_str(counts).expect("the counts")
    }
}

// === the server ===

/// Runs in the server process: prints the address of the counts, and exits when standard input is
/// closed.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    std::thread::spawn(move || {
        runtime.block_on(async {
            let (port, listeners) = listen().await;
            let web = Arc::new(WordWeb::new(port));
            println!("{}", SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
            io::stdout().flush().expect("a reader");
            let mut accepting = tokio::task::JoinSet::new();
            for listener in listeners {
                accepting.spawn(accept_all(listener, Arc::clone(&web)));
            }
            accepting.join_all().await;
        });
    });
    // The parent holds the other end, so this returns however the parent exits.
    let _ = io::stdin().read(&mut [0]);
}

/// Listens at all addresses, at a port that is free at each.
async fn listen() -> (u16, Vec<TcpListener>) {
    let all = [
        Hosts::Crawled,
        Hosts::ExamplesOfTheTopic,
        Hosts::OtherExamples,
    ];
    loop {
        let counts = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let mut listeners = vec![counts.expect("a free port")];
        let port = listeners[0].local_addr().expect("a bound socket").port();
        for address in all.into_iter().flat_map(Hosts::addresses) {
            if let Ok(listener) = TcpListener::bind((address, port)).await {
                listeners.push(listener);
            }
        }
        let wanted = all.into_iter().flat_map(Hosts::addresses).count() + 1;
        if listeners.len() == wanted {
            return (port, listeners);
        }
    }
}

async fn accept_all(listener: TcpListener, web: Arc<WordWeb>) {
    let IpAddr::V4(host) = listener.local_addr().expect("a bound socket").ip() else {
        unreachable!("all addresses are of this kind");
    };
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer_all(stream, host, Arc::clone(&web)));
    }
}

async fn answer_all(stream: AsyncStream, host: Ipv4Addr, web: Arc<WordWeb>) {
    stream.set_nodelay(true).expect("a socket");
    if host == Ipv4Addr::LOCALHOST {
        return web.answer_counts(stream).await;
    }
    web.counters.open();
    // Whatever goes wrong with a connection is for the client to notice.
    let _ = web.answer_requests(stream, host).await;
    web.counters.close();
}

/// All responses, and what was asked for.
struct WordWeb {
    hosts: HashMap<Ipv4Addr, Vec<ServedPage>>,
    counters: Counters,
}

/// A page as it goes over the wire.
struct ServedPage {
    response: Vec<u8>,
    head_bytes: usize,
    is_read: AtomicBool,
}

#[derive(Default)]
struct Counters {
    pages: AtomicU64,
    bytes: AtomicU64,
    others: AtomicU64,
    connections: AtomicU64,
    open: AtomicU64,
    most_open: AtomicU64,
}

const ROBOTS: &str = "User-agent: *\nDisallow: /search\nDisallow: /account/\n";

/// The longest request that is read.
const REQUEST_BYTES: usize = 8 << 10;

// === impl WordWeb ===

impl WordWeb {
    fn new(port: u16) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let vocabulary = Vocabulary::new(&mut random);
        let the_topic = vocabulary.topic(&mut random);
        let mut hosts = HashMap::new();
        for kind in [
            Hosts::Crawled,
            Hosts::ExamplesOfTheTopic,
            Hosts::OtherExamples,
        ] {
            for host in kind.addresses() {
                let other_topic = vocabulary.topic(&mut random);
                let topic = match kind {
                    Hosts::OtherExamples => &other_topic,
                    _ => &the_topic,
                };
                let pages = pages(kind, host, port, &vocabulary, topic, &mut random);
                hosts.insert(host, pages);
            }
        }
        Self {
            hosts,
            counters: Counters::default(),
        }
    }

    async fn answer_requests(&self, mut stream: AsyncStream, host: Ipv4Addr) -> io::Result<()> {
        let mut request = [0; REQUEST_BYTES];
        let mut length = 0;
        while length < request.len() {
            match stream.read(&mut request[length..]).await? {
                0 => return Ok(()),
                read => length += read,
            }
            // A client that tries TLS first waits for an end of the connection.
            if !request[0].is_ascii_uppercase() {
                return Ok(());
            }
            if !request[..length].ends_with(b"\r\n\r\n") {
                continue;
            }
            let text = String::from_utf8_lossy(&request[..length]);
            self.answer(&text, host, &mut stream).await?;
            length = 0;
        }
        Ok(())
    }

    async fn answer(
        &self,
        request: &str,
        host: Ipv4Addr,
        stream: &mut AsyncStream,
    ) -> io::Result<()> {
        let mut words = request.split(' ');
        let (method, target) = (words.next(), words.next().unwrap_or_default());
        let page = number_of(target).and_then(|page| self.hosts[&host].get(page));
        match page {
            Some(page) if method == Some("GET") => {
                self.counters.pages.fetch_add(1, Ordering::Relaxed);
                let bytes = (page.response.len() - page.head_bytes) as u64;
                self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
                page.is_read.store(true, Ordering::Relaxed);
                stream.write_all(&page.response).await
            }
            Some(page) => {
                self.counters.others.fetch_add(1, Ordering::Relaxed);
                stream.write_all(&page.response[..page.head_bytes]).await
            }
            None => {
                self.counters.others.fetch_add(1, Ordering::Relaxed);
                let response = match target {
                    "/robots.txt" => response("200 OK", "text/plain", ROBOTS),
                    _ => response("404 Not Found", "text/plain", "There is no such page.\n"),
                };
                stream.write_all(&response).await
            }
        }
    }

    async fn answer_counts(&self, mut stream: AsyncStream) {
        let pages = self.hosts.values().flatten();
        let distinct = pages.filter(|page| page.is_read.swap(false, Ordering::Relaxed));
        let counts = Counts {
            distinct: distinct.count() as u64,
            pages: self.counters.pages.swap(0, Ordering::Relaxed),
            bytes: self.counters.bytes.swap(0, Ordering::Relaxed),
            others: self.counters.others.swap(0, Ordering::Relaxed),
            connections: self.counters.connections.swap(0, Ordering::Relaxed),
            most_open: self.counters.most_open.swap(0, Ordering::Relaxed),
        };
        let json = serde_json::to_string(&counts).expect("numbers");
        let response = response("200 OK", "application/json", &json);
        // The bench waits for it, and says so if there is none.
        let _ = stream.read(&mut [0; 512]).await;
        let _ = stream.write_all(&response).await;
    }
}

// === impl Counters ===

impl Counters {
    fn open(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_open.fetch_max(open, Ordering::Relaxed);
    }

    fn close(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The responses of one host, page by page.
fn pages(
    kind: Hosts,
    host: Ipv4Addr,
    port: u16,
    vocabulary: &Vocabulary,
    topic: &Topic,
    random: &mut impl Rng,
) -> Vec<ServedPage> {
    let count = kind.pages_of_each();
    let titles: Vec<String> = (0..count)
        .map(|_| page::name(vocabulary, topic, random))
        .collect();
    let link = |to: usize| Link {
        address: path(to),
        anchor: titles[to].clone(),
    };
    let navigation: Vec<Link> = (0..LINKS_IN_NAVIGATION).map(link).collect();
    let mut page = |number: usize| {
        let below = (1..=PAGES_BELOW).map(|below| number * PAGES_BELOW + below);
        let mut related: Vec<usize> = below.filter(|below| *below < count).collect();
        // A page with none below it has as many links.
        related.resize_with(PAGES_BELOW, || random.gen_range(0..count));
        let mut inline: Vec<Link> = (0..OTHER_LINKS)
            .map(|_| link(random.gen_range(0..count)))
            .collect();
        for _ in 0..LINKS_TO_OTHER_HOSTS {
            inline.push(link_to_other_host(kind, host, port, random));
        }
        let content = Content {
            title: titles[number].clone(),
            words: vocabulary.words_of_a_page(topic, random),
            navigation: &navigation,
            inline,
            related: related.into_iter().map(link).collect(),
        };
        let body = content.to_html(random);
        let response = response("200 OK", "text/html; charset=utf-8", &body);
        ServedPage {
            head_bytes: response.len() - body.len(),
            response,
            is_read: AtomicBool::new(false),
        }
    };
    (0..count).map(&mut page).collect()
}

fn link_to_other_host(kind: Hosts, host: Ipv4Addr, port: u16, random: &mut impl Rng) -> Link {
    let [_, _, _, own] = host.octets();
    let others: Vec<Ipv4Addr> = kind.addresses().filter(|other| *other != host).collect();
    let other = others[random.gen_range(0..others.len())];
    let page = path(random.gen_range(0..kind.pages_of_each()));
    Link {
        address: format!("http://{other}:{port}{page}"),
        anchor: format!("friends of number {own}"),
    }
}

fn path(page: usize) -> String {
    match page {
        0 => "/".to_owned(),
        page => format!("/pages/{page}.html"),
    }
}

/// The page at a path.
fn number_of(path: &str) -> Option<usize> {
    if path == "/" {
        return Some(0);
    }
    let number = path.strip_prefix("/pages/")?.strip_suffix(".html")?;
    number.parse().ok()
}

/// A response with the headers that an ordinary server sends.
fn response(status: &str, media_type: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nServer: nginx\r\nDate: Mon, 16 Nov 2026 12:00:00 GMT\r\n\
         Content-Type: {media_type}\r\nContent-Length: {}\r\nConnection: keep-alive\r\n\
         Vary: Accept-Encoding\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}
