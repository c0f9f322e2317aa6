//! The faults of plain HTTP, one for each host name. The TLS port has them too: where HTTP/2 was
//! negotiated, faults of raw bytes are replaced by their nearest counterpart.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use sitescout::telemetry::clock;

use super::answers::{Answer, FOR_EVER, Reply, Then, Wire};
use super::bodies::{
    BROTLI_BOMB, DOUBLE_BOMB, HTML_BOMB, LARGE_WINDOW, linked_page, noise, page, raw_deflate,
    scatter, zstd_bomb,
};
use super::journal::SeenRequest;

host_names! {
    /// What happens to a request. None of these hosts has a robots.txt.
    Fault {
        // === stalling ===
        /// The request is read, and nothing is written.
        NeverAnswers = "never-answers",
        /// Headers at once, then a byte of the body each 200 ms for ever.
        Drips = "drips",
        /// A status line at once, then a byte of headers each 200 ms for ever.
        DripsHeaders = "drips-headers",

        // === lengths that lie ===
        /// `Content-Length` is larger than the body, and the connection closes.
        LongLength = "long-length",
        /// `Content-Length` is half of the body, and the connection stays.
        ShortLength = "short-length",
        /// A good chunk with HTML, then one of the size `zz`.
        BrokenChunks = "broken-chunks",
        /// The connection closes in the middle of the second chunk.
        UnfinishedChunks = "unfinished-chunks",

        // === connections that break ===
        /// RST right after the request.
        Resets = "resets",
        /// RST after a tenth of the body.
        ResetsInBody = "resets-in-body",
        /// A close without a byte.
        Closes = "closes",
        /// The first request of each target is reset, later ones are answered.
        Flaky = "flaky",

        // === too much ===
        /// Header lines for ever, as fast as they are read.
        EndlessHeaders = "endless-headers",
        /// 2,000 headers.
        ManyHeaders = "many-headers",
        /// A header of 1 MiB.
        HugeHeader = "huge-header",
        /// Chunks of HTML for ever, as fast as they are read.
        EndlessBody = "endless-body",
        /// A `Content-Length` of 100 GB, and the body to it.
        EndlessLength = "endless-length",
        /// 1 GiB of HTML as gzip.
        GzipBomb = "gzip-bomb",
        /// The same as gzip in gzip.
        DoubleBomb = "double-bomb",
        /// 64 MiB as some 60 bytes of Brotli, with the largest window there is.
        BrotliBomb = "brotli-bomb",
        /// The same with a window of 1 GiB, which is no Brotli.
        LargeWindow = "brotli-large-window",
        /// A block of zstd that makes 2 GB.
        ZstdBomb = "zstd-bomb",
        /// Interim responses for ever.
        EndlessInterim = "endless-interim",
        /// A body in chunks of one byte, for ever.
        TinyChunks = "tiny-chunks",
        /// Trailers for ever.
        EndlessTrailers = "endless-trailers",
        /// A good response, and then unsolicited bytes for ever.
        TalksOn = "talks-on",

        // === not HTTP, or only just ===
        /// Noise instead of a response.
        Garbage = "garbage",
        /// HTML without a status line.
        Http09 = "http09",
        /// 100 and 103 before the 200.
        EarlyHints = "early-hints",
        /// An unrequested 101, and then silence.
        Upgrade = "upgrade",
        /// A status outside of all classes.
        Status999 = "status-999",
        /// A status line without a reason, nor the space before it.
        NoReason = "no-reason",

        // === codings that lie ===
        /// Declared as gzip, but not compressed.
        WrongEncoding = "wrong-encoding",
        /// Declared as deflate, but without the zlib frame.
        RawDeflate = "raw-deflate",
        /// Declared as UTF-8, but windows-1252.
        CharsetLies = "charset-lies",

        // === types that lie ===
        /// Declared as HTML, but a JPEG, or an ELF file at `/elf`.
        BinaryAsHtml = "binary-as-html",
        /// A PNG of 50 MB.
        Image = "image",
        /// HTML without a type.
        NoTypeHtml = "no-type-html",
        /// Noise for ever without a type.
        NoTypeBinary = "no-type-binary",

        // === redirects ===
        /// `/` goes to `/b` and back.
        RedirectLoop = "redirect-loop",
        /// Every page goes to itself.
        RedirectSelf = "redirect-self",
        /// `/` goes to `/1`, `/1` to `/2`, for ever.
        RedirectChain = "redirect-chain",
        /// To 10.0.0.1; `/loopback` to this very server by its number, `/mapped` to it by
        /// an IPv4-mapped IPv6 address.
        RedirectToPrivate = "redirect-to-private",
        /// To `file:///etc/passwd`.
        RedirectToFile = "redirect-to-file",
        /// To a page in a `data:` URL.
        RedirectToData = "redirect-to-data",
        /// A 302 without a `Location`.
        RedirectWithoutLocation = "redirect-without-location",
        /// To port 22.
        RedirectToPort = "redirect-to-port",

        // === traps ===
        /// 200 and a page that says "not found" for everything but `/`.
        Soft404 = "soft-404",
        /// 302 to `/?c=1` with a cookie, until the cookie is sent.
        CookieWall = "cookie-wall",
        /// `/cal?month=N` links to the month after it.
        Calendar = "calendar",
        /// Every link carries a session of its own.
        Sessions = "sessions",

        // === refusals ===
        /// 429 for an hour.
        Throttled429 = "throttled-429",
        /// 503 until a date in an hour.
        Throttled503 = "throttled-503",
        /// Always 500.
        Failing500 = "failing-500",
    }
}

/// A request and what the response may depend on.
pub(super) struct Requested<'a> {
    pub(super) request: &'a SeenRequest,
    /// How often the target was requested before.
    pub(super) before: usize,
    /// Earlier requests to all hosts together.
    pub(super) serial: usize,
    /// The port of plain HTTP.
    pub(super) http: SocketAddr,
}

// === impl Requested ===

impl Requested<'_> {
    pub(super) fn path(&self) -> &str {
        let target = self.request.target.as_str();
        target.split_once('?').map_or(target, |(path, _)| path)
    }

    fn query(&self, key: &str) -> Option<&str> {
        let (_, query) = self.request.target.split_once('?')?;
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .into_iter()
            .find(|(found, _)| *found == key)
            .map(|(_, value)| value)
    }

    fn html(&self) -> String {
        page(&self.request.host, &self.request.target)
    }

    /// An ordinary page.
    pub(super) fn page(&self) -> Reply {
        Reply::html(self.html())
    }

    pub(super) fn page_to(&self, links: &[&str]) -> Reply {
        Reply::html(linked_page(&self.request.host, &self.request.target, links))
    }
}

// === impl Fault ===

impl Fault {
    #[allow(clippy::too_many_lines, reason = "a table with a row for each fault")]
    pub(super) fn answer(self, requested: &Requested) -> Answer {
        let html = requested.html();
        let length = html.len();
        let reset = Then::ResetAfter(Duration::ZERO);
        let reply = match self {
            Self::NeverAnswers => return Wire::nothing(Then::Silence).into(),
            Self::Drips => {
                return Wire::html("Connection: close\r\n", "", Then::Drip(b"<p>drip</p>\n"))
                    .into();
            }
            Self::DripsHeaders => {
                let head = "HTTP/1.1 200 OK\r\n";
                return Wire::new(head, "", Then::Drip(b"X-Drip: drop\r\n")).into();
            }
            Self::LongLength => {
                let headers = format!("Content-Length: {}\r\n", length + 1000);
                return Wire::html(&headers, html, Then::Close).into();
            }
            Self::ShortLength => {
                let headers = format!("Content-Length: {}\r\n", length / 2);
                return Wire::html(&headers, html, Then::NextRequest).into();
            }
            Self::BrokenChunks => {
                let body = format!("{length:x}\r\n{html}\r\nzz\r\n{html}\r\n0\r\n\r\n");
                return Wire::html(CHUNKED, body, Then::Close).into();
            }
            Self::UnfinishedChunks => {
                let body = format!("{length:x}\r\n{html}\r\n{:x}\r\n{html}", 2 * length);
                return Wire::html(CHUNKED, body, Then::Close).into();
            }
            Self::Resets => return Wire::nothing(reset).into(),
            Self::ResetsInBody => {
                let headers = format!("Content-Length: {}\r\n", 10 * length);
                let moment = Then::ResetAfter(Duration::from_millis(100));
                return Wire::html(&headers, html, moment).into();
            }
            Self::Closes => return Wire::nothing(Then::Close).into(),
            Self::Flaky if requested.before == 0 => return Wire::nothing(reset).into(),
            Self::Flaky => requested.page(),
            Self::EndlessHeaders => {
                let piece = "X-Endless: header\r\n".repeat(500);
                return Wire::new("HTTP/1.1 200 OK\r\n", "", for_ever(piece)).into();
            }
            Self::ManyHeaders => {
                let many = |page: Reply, at| page.header(&format!("X-Header-{at}"), "value");
                (0..2000).fold(requested.page(), many)
            }
            Self::HugeHeader => requested.page().header("X-Huge", &"a".repeat(1024 * 1024)),
            Self::EndlessBody => {
                let piece = "<p>endless</p>\n".repeat(1000);
                let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
                return Wire::html(CHUNKED, "", for_ever(chunk)).into();
            }
            Self::EndlessLength => {
                let headers = "Content-Length: 100000000000\r\n";
                let piece = "<p>a long page</p>\n".repeat(1000);
                return Wire::html(headers, "", for_ever(piece)).into();
            }
            Self::GzipBomb => Reply::html(HTML_BOMB.clone()).header("Content-Encoding", "gzip"),
            Self::DoubleBomb => {
                Reply::html(DOUBLE_BOMB.clone()).header("Content-Encoding", "gzip, gzip")
            }
            Self::BrotliBomb => Reply::html(BROTLI_BOMB.clone()).header("Content-Encoding", "br"),
            Self::LargeWindow => Reply::html(LARGE_WINDOW.clone()).header("Content-Encoding", "br"),
            Self::ZstdBomb => Reply::html(zstd_bomb()).header("Content-Encoding", "zstd"),
            Self::EndlessInterim => return endless_interim().into(),
            Self::TinyChunks => {
                let chunks = "1\r\nx\r\n".repeat(1_000);
                return Wire::html(CHUNKED, "", for_ever(chunks)).into();
            }
            Self::EndlessTrailers => {
                let body = format!("{length:x}\r\n{html}\r\n0\r\n");
                let trailers = "X-Trailer: on and on\r\n".repeat(500);
                return Wire::html(CHUNKED, body, for_ever(trailers)).into();
            }
            Self::TalksOn => {
                let headers = format!("Content-Length: {length}\r\n");
                return Wire::html(&headers, html, for_ever("\r\n".repeat(5_000))).into();
            }
            Self::Garbage => return Wire::new("", noise(&[], 4096), Then::Close).into(),
            Self::Http09 => return Wire::new("", html, Then::Close).into(),
            Self::EarlyHints => {
                let interim = "HTTP/1.1 100 Continue\r\n\r\n\
                               HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n";
                let head = [interim.as_bytes(), &requested.page().head()].concat();
                return Wire::new(head, html, Then::NextRequest).into();
            }
            Self::Upgrade => {
                let head = "HTTP/1.1 101 Switching Protocols\r\n\
                            Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
                return Wire::new(head, "", Then::Silence).into();
            }
            Self::Status999 => Reply::status(999),
            Self::NoReason => {
                let head = format!(
                    "HTTP/1.1 200\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n"
                );
                return Wire::new(head, html, Then::NextRequest).into();
            }
            Self::WrongEncoding => requested.page().header("Content-Encoding", "gzip"),
            Self::RawDeflate => {
                Reply::html(raw_deflate(html.as_bytes())).header("Content-Encoding", "deflate")
            }
            Self::CharsetLies => Reply::html(
                &b"<title>Caf\xe9 \x96 \xdcbersicht</title><p>Gr\xfc\xdfe aus K\xf6ln, 5 \x80</p>"
                    [..],
            ),
            Self::BinaryAsHtml if requested.path() == "/elf" => {
                Reply::html(noise(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0", 65_536))
            }
            Self::BinaryAsHtml => {
                Reply::html(noise(b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01", 65_536))
            }
            Self::Image => return image().into(),
            Self::NoTypeHtml => Reply::bare(200, html),
            Self::NoTypeBinary => {
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
                return Wire::new(head, "", for_ever(noise(&[0], 16_384))).into();
            }
            Self::RedirectLoop if requested.path() == "/b" => Reply::redirect("/"),
            Self::RedirectLoop => Reply::redirect("/b"),
            Self::RedirectSelf => Reply::redirect(&requested.request.target),
            Self::RedirectChain => {
                let step: u64 = requested
                    .path()
                    .trim_start_matches('/')
                    .parse()
                    .unwrap_or(0);
                Reply::redirect(&format!("/{}", step + 1))
            }
            Self::RedirectToPrivate => Reply::redirect(&private_address(requested)),
            Self::RedirectToFile => Reply::redirect("file:///etc/passwd"),
            Self::RedirectToData => Reply::redirect("data:text/html,x"),
            Self::RedirectWithoutLocation => Reply::status(302),
            Self::RedirectToPort => Reply::redirect("http://page.example:22/"),
            Self::Soft404 if requested.path() == "/" => {
                requested.page_to(&["/lost", "/gone", "/moved"])
            }
            Self::Soft404 => {
                let body = "<title>Page not found</title>\
                            <h1>404</h1><p>Sorry, this page was not found.</p><a href=\"/\">Home</a>";
                Reply::html(body)
            }
            Self::CookieWall if requested.request.header("Cookie").is_some() => requested.page(),
            Self::CookieWall => Reply::redirect("/?c=1").header("Set-Cookie", "c=1; Path=/"),
            Self::Calendar => {
                let month: u64 = requested
                    .query("month")
                    .and_then(|n| n.parse().ok())
                    .unwrap_or(0);
                requested.page_to(&[&format!("/cal?month={}", month + 1)])
            }
            Self::Sessions => {
                let session = scatter(requested.serial);
                let links = [
                    format!("/s/{session:016x}/page"),
                    format!("/page;jsessionid={session:016X}"),
                ];
                requested.page_to(&[&links[0], &links[1]])
            }
            Self::Throttled429 => Reply::status(429).header("Retry-After", "3600"),
            Self::Throttled503 => Reply::status(503).header("Retry-After", &date_in_an_hour()),
            Self::Failing500 => Reply::status(500),
        };
        reply.into()
    }
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

pub(super) fn endless_interim() -> Wire {
    let piece = "HTTP/1.1 100 Continue\r\n\r\n".repeat(500);
    Wire::new("", "", for_ever(piece))
}

fn for_ever(piece: impl Into<Bytes>) -> Then {
    Then::Repeat {
        piece: piece.into(),
        times: FOR_EVER,
    }
}

/// 50 MB in pieces, of which every one begins like a PNG.
fn image() -> Wire {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 50000000\r\n\r\n";
    let piece = noise(b"\x89PNG\r\n\x1a\n", 50_000);
    let then = Then::Repeat {
        piece: piece.clone(),
        times: 999,
    };
    Wire::new(head, piece, then)
}

fn private_address(requested: &Requested) -> String {
    let port = requested.http.port();
    match requested.path() {
        "/loopback" => format!("http://127.0.0.1:{port}/"),
        "/mapped" => format!("http://[::ffff:127.0.0.1]:{port}/"),
        _ => "http://10.0.0.1/".to_owned(),
    }
}

fn date_in_an_hour() -> String {
    let now = clock::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("a clock after 1970");
    http_date(now.as_secs() + 3600)
}

/// Seconds since 1970 as HTTP writes dates.
fn http_date(seconds: u64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [(&str, u64); 12] = [
        ("Jan", 31),
        ("Feb", 28),
        ("Mar", 31),
        ("Apr", 30),
        ("May", 31),
        ("Jun", 30),
        ("Jul", 31),
        ("Aug", 31),
        ("Sep", 30),
        ("Oct", 31),
        ("Nov", 30),
        ("Dec", 31),
    ];
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };

    let days = seconds / 86_400;
    let weekday = WEEKDAYS[usize::try_from(days % 7).expect("below 7")];
    let mut day = days;
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = "Jan";
    for (name, length) in MONTHS {
        let length = length + u64::from(name == "Feb" && is_leap(year));
        month = name;
        if day < length {
            break;
        }
        day -= length;
    }
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!(
        "{weekday}, {:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT",
        day + 1
    )
}
