//! Writes what was fetched into a WARC file (WARC 1.1, ISO 28500:2017).
//!
//! A recorded crawl can be judged again without further requests: `archive` reads what is written
//! here. One thread owns the file and gets its work through a short queue, so that compression
//! blocks no fetch, and a slow disk slows the crawl down instead of filling the memory.
//!
//! Each exchange becomes a `response` record and the `request` record that led to it. Both
//! have the form of HTTP/1.1, whatever the protocol was, because that is what WARC readers
//! understand; `WARC-Protocol` names the actual one.
//!
//! Invariant: the file ends with a whole record. Only a process that is killed in the
//! middle of a write leaves the last exchange truncated, and all before it is readable.

mod record;

use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use bytes::Bytes;
use http::{request, response};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tracing::error;

use crate::telemetry::clock;
use crate::web::PageUrl;
use record::{NewRecord, Packing, RecordIds, WarcType, records_of, warc_date};

/// Maximum number of exchanges waiting for the disk. Each holds a body, so the number is small.
const QUEUE_LENGTH: usize = 16;

/// A handle; clones write to the same file.
///
/// Once the last one is dropped, what is still in the queue is written too; but only
/// [`Recorder::finish`] waits for it.
#[derive(Debug, Clone)]
pub struct Recorder {
    path: Arc<Path>,
    queue: mpsc::Sender<WriteCommand>,
}

/// One request and its response, as they went over the wire.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) url: PageUrl,
    /// The server that answered; none behind a proxy.
    pub(super) address: Option<IpAddr>,
    /// When the request was sent.
    pub(super) date: SystemTime,
    /// The request without a body, with its `Host`.
    pub(super) request: request::Parts,
    /// The headers as received.
    pub(super) response: response::Parts,
    /// The body, without transfer encodings, but with its content encodings.
    pub(super) body: Bytes,
    /// Why the body is incomplete, if it is.
    pub(super) truncated: Option<Truncation>,
}

/// Why a body is incomplete; the values of `WARC-Truncated`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Truncation {
    /// Longer than our limit.
    Length,
    /// The connection broke.
    Disconnect,
    /// Anything else.
    Unspecified,
}

/// Why nothing can be recorded.
#[derive(Debug, Clone, Error)]
pub enum RecordError {
    /// The file exists. Not: a name that cannot be used at all.
    #[error(
        "{} exists, and recordings are never overwritten; give another name or move it away",
        path.display()
    )]
    Exists {
        /// The name.
        path: Arc<Path>,
    },
    /// The file cannot be created. Not: a disk that fills up later on.
    #[error(
        "cannot record to {}: {source}; give a name in a directory that exists and can be \
         written to",
        path.display()
    )]
    Create {
        /// The file.
        path: Arc<Path>,
        /// What the system says.
        source: Arc<io::Error>,
    },
    /// The file was begun, but a write failed and ended the recording.
    #[error(
        "recording to {} stopped: {source}; what it holds can be used, what was fetched after \
         that is missing",
        path.display()
    )]
    Write {
        /// The file.
        path: Arc<Path>,
        /// What the system says.
        source: Arc<io::Error>,
    },
}

/// A command to the recorder thread.
enum WriteCommand {
    Write(Box<Exchange>),
    Finish(oneshot::Sender<Result<u64, RecordError>>),
}

/// The state of the recorder thread.
struct WarcWriter {
    path: Arc<Path>,
    file: File,
    packing: Packing,
    ids: RecordIds,
    /// The serialised records of one exchange; the buffer is reused.
    wire: Vec<u8>,
    /// Where the last whole exchange ends.
    end: u64,
    exchanges: u64,
    failure: Option<RecordError>,
}

// === impl Recorder ===

impl Recorder {
    /// Starts a new file; an existing one is never overwritten.
    ///
    /// A name that ends in `.gz` gives a compressed file, any other a plain one. The first
    /// record names the software and the user agent.
    pub(crate) fn create(path: &Path, user_agent: &str) -> Result<Self, RecordError> {
        let path: Arc<Path> = path.into();
        let file = File::create_new(&path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => RecordError::Exists {
                path: Arc::clone(&path),
            },
            _ => RecordError::create(&path, error),
        })?;
        let mut writer = WarcWriter::new(path, file);
        match writer.write_info(user_agent) {
            Ok(()) => Self::start(writer),
            Err(error) => Err(RecordError::write(&writer.path, error)),
        }
    }

    fn start(writer: WarcWriter) -> Result<Self, RecordError> {
        let path = Arc::clone(&writer.path);
        let (queue, commands) = mpsc::channel(QUEUE_LENGTH);
        thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || writer.run(commands))
            .map_err(|error| RecordError::create(&path, error))?;
        Ok(Self { path, queue })
    }

    /// Queues an exchange to be written; waits while the queue is full.
    ///
    /// After a failed write all further exchanges are dropped; `finish` returns the error.
    pub(super) async fn record(&self, exchange: Exchange) {
        // Fails only if the thread is gone, which `finish` reports.
        let _ = self
            .queue
            .send(WriteCommand::Write(Box::new(exchange)))
            .await;
    }

    /// Waits until everything queued so far, through any clone, is on disk, and returns how many
    /// exchanges the file holds. More may be recorded afterwards.
    pub(crate) async fn finish(&self) -> Result<u64, RecordError> {
        let (reply, outcome) = oneshot::channel();
        // If this fails, `reply` is dropped with it and there is no outcome.
        let _ = self.queue.send(WriteCommand::Finish(reply)).await;
        outcome.await.unwrap_or_else(|_| {
            let gone = io::Error::other("the recorder thread is gone");
            Err(RecordError::write(&self.path, gone))
        })
    }
}

// === impl RecordError ===

impl RecordError {
    fn create(path: &Arc<Path>, source: io::Error) -> Self {
        Self::Create {
            path: Arc::clone(path),
            source: Arc::new(source),
        }
    }

    fn write(path: &Arc<Path>, source: io::Error) -> Self {
        Self::Write {
            path: Arc::clone(path),
            source: Arc::new(source),
        }
    }
}

// === impl WarcWriter ===

impl WarcWriter {
    fn new(path: Arc<Path>, file: File) -> Self {
        let is_gzip = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
        Self {
            path,
            file,
            packing: if is_gzip {
                Packing::Gzip
            } else {
                Packing::Plain
            },
            ids: RecordIds::new(),
            wire: Vec::new(),
            end: 0,
            exchanges: 0,
            failure: None,
        }
    }

    /// Runs until every handle is dropped and the queue is empty.
    fn run(mut self, mut commands: mpsc::Receiver<WriteCommand>) {
        while let Some(command) = commands.blocking_recv() {
            match command {
                WriteCommand::Write(exchange) => self.write_exchange(&exchange),
                WriteCommand::Finish(reply) => {
                    // The caller may have stopped waiting.
                    let _ = reply.send(self.finish());
                }
            }
        }
        // There is no caller left; a failure is in the log.
        let _ = self.finish();
    }

    fn write_info(&mut self, user_agent: &str) -> io::Result<()> {
        let fields = format!(
            "software: sitescout/{}\r\n\
             format: WARC File Format 1.1\r\n\
             conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n\
             http-header-user-agent: {}\r\n",
            env!("CARGO_PKG_VERSION"),
            user_agent.replace(char::is_control, " "),
        );
        let info = NewRecord::new(WarcType::Info, fields.into_bytes(), &[])
            .with("WARC-Record-ID", &self.ids.draw())
            .with("WARC-Date", &warc_date(clock::now()));
        self.append(&[info])
    }

    fn write_exchange(&mut self, exchange: &Exchange) {
        if self.failure.is_some() {
            return;
        }
        let records = records_of(exchange, &mut self.ids);
        match self.append(&records) {
            Ok(()) => self.exchanges += 1,
            Err(error) => self.fail(error),
        }
    }

    fn finish(&mut self) -> Result<u64, RecordError> {
        if self.failure.is_none()
            && let Err(error) = self.file.sync_all()
        {
            self.fail(error);
        }
        self.failure.clone().map_or(Ok(self.exchanges), Err)
    }

    /// Writes records with one call. From then on they are with the kernel, so the end of this
    /// process does not lose them.
    fn append(&mut self, records: &[NewRecord<'_>]) -> io::Result<()> {
        self.wire.clear();
        for record in records {
            record.pack(self.packing, &mut self.wire)?;
        }
        let written = self.file.write_all(&self.wire);
        match written {
            Ok(()) => self.end += self.wire.len() as u64,
            // On a full disk a part may have been written, and half a record is damage. If
            // truncating fails too, the first error is still the one to report.
            Err(_) => drop(self.file.set_len(self.end)),
        }
        written
    }

    fn fail(&mut self, error: io::Error) {
        error!(file = %self.path.display(), %error, "recording stopped; the crawl continues");
        self.failure = Some(RecordError::write(&self.path, error));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;
    use std::io::Read;
    use std::time::{Duration, UNIX_EPOCH};

    use flate2::Compression;
    use flate2::bufread::GzDecoder;
    use flate2::write::GzEncoder;
    use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
    use tempfile::TempDir;

    use crate::config::{DamagePolicy, FetchSettings};
    use crate::fetch::Archive;

    use super::record::digest;
    use super::*;

    const AGENT: &str = "sitescout-test (+https://example.org/bot)";

    /// A record as read from a file.
    struct Parsed {
        fields: Vec<(String, String)>,
        block: Vec<u8>,
    }

    impl Parsed {
        fn get(&self, name: &str) -> Option<&str> {
            let mut fields = self.fields.iter().filter(|(own, _)| own == name);
            let value = fields.next().map(|(_, value)| value.as_str());
            assert!(fields.next().is_none(), "{name} is there twice");
            value
        }

        fn field(&self, name: &str) -> &str {
            self.get(name).unwrap_or_else(|| panic!("no {name}"))
        }

        /// The lines of the HTTP head, and the body.
        fn http(&self) -> (Vec<&[u8]>, &[u8]) {
            let end = position(&self.block, b"\r\n\r\n").expect("an end of the head");
            let lines = self.block[..end].split(|byte| *byte == b'\n');
            let lines = lines.map(<[u8]>::trim_ascii_end).collect();
            (lines, &self.block[end + 4..])
        }

        fn http_lines(&self) -> Vec<String> {
            let text = |line: &&[u8]| String::from_utf8_lossy(line).into_owned();
            self.http().0.iter().map(text).collect()
        }
    }

    fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
        bytes.windows(wanted.len()).position(|some| some == wanted)
    }

    /// Reads plain records, strictly by the standard.
    fn parse(mut bytes: &[u8]) -> Vec<Parsed> {
        let mut records = Vec::new();
        while !bytes.is_empty() {
            let end = position(bytes, b"\r\n\r\n").expect("an end of the fields");
            let head = std::str::from_utf8(&bytes[..end]).unwrap();
            let mut lines = head.split("\r\n");
            assert_eq!(lines.next(), Some("WARC/1.1"));
            let fields: Vec<(String, String)> = lines
                .map(|line| line.split_once(": ").expect("a field"))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            let mut record = Parsed {
                fields,
                block: Vec::new(),
            };
            let length: usize = record.field("Content-Length").parse().unwrap();
            record.block = bytes[end + 4..][..length].to_vec();
            assert_eq!(
                record.field("WARC-Block-Digest"),
                digest(&[&record.block]),
                "{head}"
            );
            let rest = &bytes[end + 4 + length..];
            bytes = rest.strip_prefix(b"\r\n\r\n").expect("two line ends");
            records.push(record);
        }
        records
    }

    /// Each gzip member by itself.
    fn members(mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut members = Vec::new();
        while !bytes.is_empty() {
            let mut decoder = GzDecoder::new(bytes);
            let mut member = Vec::new();
            decoder.read_to_end(&mut member).unwrap();
            bytes = decoder.into_inner();
            members.push(member);
        }
        members
    }

    fn exchange(url: &str, headers: &[(&'static str, &[u8])], body: &'static [u8]) -> Exchange {
        let url: PageUrl = url.parse().unwrap();
        let request = Request::get(&url.as_url()[url::Position::BeforePath..])
            .header("host", url.as_url().host_str().unwrap())
            .header("user-agent", AGENT);
        let mut response = Response::builder();
        for (name, value) in headers {
            response = response.header(*name, HeaderValue::from_bytes(value).unwrap());
        }
        Exchange {
            url,
            address: Some([192, 0, 2, 7].into()),
            date: UNIX_EPOCH + Duration::new(1_794_821_400, 412_030_999),
            request: request.body(()).unwrap().into_parts().0,
            response: response.body(()).unwrap().into_parts().0,
            body: Bytes::from_static(body),
            truncated: None,
        }
    }

    fn page(body: &'static [u8]) -> Exchange {
        let type_and_charset: &[u8] = b"text/html; charset=utf-8";
        exchange(
            "https://example.org/a?b=c",
            &[("content-type", type_and_charset)],
            body,
        )
    }

    /// What a plain file holds after these exchanges.
    async fn recorded(exchanges: impl IntoIterator<Item = Exchange>) -> Vec<Parsed> {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("crawl.warc");
        let recorder = Recorder::create(&path, AGENT).unwrap();
        for exchange in exchanges {
            recorder.record(exchange).await;
        }
        recorder.finish().await.unwrap();
        parse(&fs::read(path).unwrap())
    }

    async fn response_of(exchange: Exchange) -> Parsed {
        recorded([exchange]).await.swap_remove(1)
    }

    #[tokio::test]
    async fn a_file_begins_by_saying_who_wrote_it() {
        let records = recorded([]).await;
        let [info] = records.as_slice() else {
            panic!("{} records", records.len());
        };
        assert_eq!(info.field("WARC-Type"), "warcinfo");
        assert_eq!(info.field("Content-Type"), "application/warc-fields");
        let text = String::from_utf8(info.block.clone()).unwrap();
        let software = concat!("software: sitescout/", env!("CARGO_PKG_VERSION"));
        assert!(text.starts_with(software), "{text}");
        assert!(
            text.contains("\r\nformat: WARC File Format 1.1\r\n"),
            "{text}"
        );
        assert!(text.contains("\r\nconformsTo: http://"), "{text}");
        assert!(
            text.ends_with(&format!("\r\nhttp-header-user-agent: {AGENT}\r\n")),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_user_agent_cannot_add_lines_of_its_own() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("crawl.warc");
        let recorder = Recorder::create(&path, "a\r\nrobots: none").unwrap();
        recorder.finish().await.unwrap();
        let records = parse(&fs::read(path).unwrap());
        assert!(records[0].block.ends_with(b": a  robots: none\r\n"));
    }

    #[tokio::test]
    async fn an_exchange_becomes_a_response_and_the_request_that_led_to_it() {
        let records = recorded([page(b"<p>hello")]).await;
        let [_, response, request] = records.as_slice() else {
            panic!("{} records", records.len());
        };
        for (record, kind) in [(response, "response"), (request, "request")] {
            assert_eq!(record.field("WARC-Type"), kind);
            assert_eq!(record.field("WARC-Date"), "2026-11-16T09:30:00.412030Z");
            assert_eq!(record.field("WARC-Target-URI"), "https://example.org/a?b=c");
            assert_eq!(record.field("WARC-IP-Address"), "192.0.2.7");
            assert_eq!(record.field("WARC-Protocol"), "http/1.1");
            let media_type = format!("application/http; msgtype={kind}");
            assert_eq!(record.field("Content-Type"), media_type);
        }
        assert_eq!(
            request.field("WARC-Concurrent-To"),
            response.field("WARC-Record-ID")
        );
        assert_eq!(response.get("WARC-Truncated"), None);
        assert_eq!(
            String::from_utf8_lossy(&response.block),
            "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\n\r\n<p>hello"
        );
        assert_eq!(
            String::from_utf8_lossy(&request.block),
            format!("GET /a?b=c HTTP/1.1\r\nhost: example.org\r\nuser-agent: {AGENT}\r\n\r\n")
        );
    }

    #[tokio::test]
    async fn payload_digests_are_sha1_in_base_32() {
        // FIPS 180: "abc" is a9993e36 4706816a ba3e2571 7850c26c 9cd0d89d.
        for (body, wanted) in [
            (&b"abc"[..], "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"),
            (b"", "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"),
        ] {
            let response = response_of(page(body)).await;
            assert_eq!(response.field("WARC-Payload-Digest"), wanted);
        }
    }

    #[tokio::test]
    async fn every_record_has_a_name_of_its_own() {
        let mut names = HashSet::new();
        for _ in 0..2 {
            for record in recorded((0..50).map(|_| page(b"the same"))).await {
                let name = record.field("WARC-Record-ID").to_owned();
                let uuid = name.strip_prefix("<urn:uuid:").unwrap();
                let uuid: Vec<&str> = uuid.strip_suffix('>').unwrap().split('-').collect();
                let lengths: Vec<usize> = uuid.iter().map(|part| part.len()).collect();
                assert_eq!(lengths, [8, 4, 4, 4, 12], "{name}");
                assert!(uuid[2].starts_with('4'), "{name}");
                assert!(uuid[3].starts_with(['8', '9', 'a', 'b']), "{name}");
                assert!(names.insert(name));
            }
        }
        assert_eq!(names.len(), 202);
    }

    #[tokio::test]
    async fn a_compressed_file_has_one_member_for_each_record() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("crawl.warc.GZ");
        let recorder = Recorder::create(&path, AGENT).unwrap();
        recorder.record(page(b"one")).await;
        recorder.record(page(b"two")).await;
        assert_eq!(recorder.finish().await.unwrap(), 2);
        let members = members(&fs::read(path).unwrap());
        let kinds: Vec<String> = members
            .iter()
            .map(|member| {
                let records = parse(member);
                assert_eq!(records.len(), 1);
                records[0].field("WARC-Type").to_owned()
            })
            .collect();
        assert_eq!(
            kinds,
            ["warcinfo", "response", "request", "response", "request"]
        );
    }

    #[tokio::test]
    async fn a_cut_body_says_why() {
        for (truncation, word) in [
            (Truncation::Length, "length"),
            (Truncation::Disconnect, "disconnect"),
            (Truncation::Unspecified, "unspecified"),
        ] {
            let mut cut = exchange(
                "http://example.org/",
                &[("content-length", b"1000")],
                b"<p>hel",
            );
            cut.truncated = Some(truncation);
            let response = response_of(cut).await;
            assert_eq!(response.field("WARC-Truncated"), word);
            assert_eq!(
                response.http_lines(),
                ["HTTP/1.1 200 OK", "content-length: 6"]
            );
        }
    }

    #[tokio::test]
    async fn headers_are_kept_byte_for_byte_and_in_all_their_copies() {
        let response = response_of(exchange(
            "http://example.org/",
            &[
                ("set-cookie", b"a=1"),
                ("x-name", b"M\xfcller \xff\x80"),
                ("x-empty", b""),
                ("set-cookie", b"b=2"),
            ],
            b"\r\n\r\nWARC/1.1\r\n",
        ))
        .await;
        let (mut lines, body) = response.http();
        lines.sort_unstable();
        let wanted: [&[u8]; 5] = [
            b"HTTP/1.1 200 OK",
            b"set-cookie: a=1",
            b"set-cookie: b=2",
            // The space before the empty value is cut off above.
            b"x-empty:",
            b"x-name: M\xfcller \xff\x80",
        ];
        assert_eq!(lines, wanted);
        assert_eq!(body, b"\r\n\r\nWARC/1.1\r\n");
    }

    #[tokio::test]
    async fn lengths_are_true_of_the_body_in_the_record() {
        let lengths = |headers: &[(&'static str, &[u8])]| {
            let exchange = exchange("http://example.org/", headers, b"hello");
            async {
                let mut lines = response_of(exchange).await.http_lines();
                lines.remove(0);
                lines
            }
        };
        assert!(lengths(&[]).await.is_empty());
        for headers in [
            &[("content-length", &b"5"[..])][..],
            &[("content-length", b"7")],
            &[("content-length", b"5"), ("content-length", b"7")],
            &[("content-length", b"five")],
            &[("transfer-encoding", b"chunked")],
            &[("transfer-encoding", b"chunked"), ("content-length", b"9")],
        ] {
            assert_eq!(lengths(headers).await, ["content-length: 5"], "{headers:?}");
        }
    }

    #[tokio::test]
    async fn a_content_length_of_another_body_is_kept() {
        let length: [(&str, &[u8]); 1] = [("content-length", b"5000")];
        let mut unchanged = exchange("http://example.org/", &length, b"");
        unchanged.response.status = StatusCode::NOT_MODIFIED;
        let mut head = exchange("http://example.org/", &length, b"");
        head.request.method = Method::HEAD;
        for (exchange, first) in [
            (unchanged, "HTTP/1.1 304 Not Modified"),
            (head, "HTTP/1.1 200 OK"),
        ] {
            let response = response_of(exchange).await;
            assert_eq!(response.http_lines(), [first, "content-length: 5000"]);
        }
    }

    #[tokio::test]
    async fn every_version_of_http_is_written_as_text() {
        for (version, protocol, written) in [
            (Version::HTTP_10, "http/1.0", "HTTP/1.0"),
            (Version::HTTP_11, "http/1.1", "HTTP/1.1"),
            (Version::HTTP_2, "h2", "HTTP/1.1"),
            (Version::HTTP_3, "h3", "HTTP/1.1"),
        ] {
            let mut exchange = exchange("https://[2001:db8::1]/", &[], b"");
            exchange.request.version = version;
            // As HTTP/2 wants it.
            exchange.request.uri = "https://[2001:db8::1]/".parse().unwrap();
            exchange.response.version = version;
            exchange.response.status = StatusCode::from_u16(299).unwrap();
            exchange.address = Some("2001:db8::1".parse().unwrap());
            let records = recorded([exchange]).await;
            for record in &records[1..] {
                assert_eq!(record.field("WARC-Protocol"), protocol);
                assert_eq!(record.field("WARC-IP-Address"), "2001:db8::1");
            }
            let response = &records[1].block;
            assert!(response.starts_with(format!("{written} 299 \r\n").as_bytes()));
            assert_eq!(records[2].http_lines()[0], format!("GET / {written}"));
        }
    }

    #[tokio::test]
    async fn behind_a_proxy_the_address_is_left_out() {
        let mut exchange = page(b"");
        exchange.address = None;
        assert_eq!(response_of(exchange).await.get("WARC-IP-Address"), None);
    }

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("crawl.warc.gz");
        fs::write(&path, "precious").unwrap();
        let error = Recorder::create(&path, AGENT).expect_err("it exists");
        assert!(matches!(error, RecordError::Exists { .. }), "{error}");
        assert!(error.to_string().contains("crawl.warc.gz"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_file_that_cannot_be_made_is_named() {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("file"), "").unwrap();
        for parent in ["missing", "file"] {
            let path = directory.path().join(parent).join("crawl.warc");
            let error = Recorder::create(&path, AGENT).expect_err(parent);
            assert!(matches!(error, RecordError::Create { .. }), "{error}");
            assert!(error.to_string().contains("crawl.warc"), "{error}");
        }
    }

    #[tokio::test]
    async fn after_a_failed_write_the_rest_is_dropped_and_every_finish_says_why() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("crawl.warc");
        fs::write(&path, "").unwrap();
        // Opened for reading, so that every write fails.
        let file = File::open(&path).unwrap();
        let recorder = Recorder::start(WarcWriter::new(path.as_path().into(), file)).unwrap();
        for _ in 0..3 * QUEUE_LENGTH {
            recorder.record(page(b"lost")).await;
        }
        for _ in 0..2 {
            let error = recorder.finish().await.expect_err("nothing was written");
            assert!(matches!(error, RecordError::Write { .. }), "{error}");
            assert!(error.to_string().contains("crawl.warc"), "{error}");
        }
        assert!(fs::read(&path).unwrap().is_empty());
    }

    #[tokio::test]
    async fn any_clone_can_finish_and_all_can_go_on() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("crawl.warc");
        let recorder = Recorder::create(&path, AGENT).unwrap();
        let clone = recorder.clone();
        recorder.record(page(b"one")).await;
        clone.record(page(b"two")).await;
        assert_eq!(clone.finish().await.unwrap(), 2);
        assert_eq!(parse(&fs::read(&path).unwrap()).len(), 5);
        drop(clone);
        recorder.record(page(b"three")).await;
        assert_eq!(recorder.finish().await.unwrap(), 3);
        assert_eq!(recorder.finish().await.unwrap(), 3);
        assert_eq!(parse(&fs::read(&path).unwrap()).len(), 7);
    }

    #[tokio::test]
    async fn exchanges_from_many_tasks_are_all_written() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("crawl.warc");
        let recorder = Recorder::create(&path, AGENT).unwrap();
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let recorder = recorder.clone();
                tokio::spawn(async move {
                    for _ in 0..10 {
                        recorder.record(page(b"page")).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(recorder.finish().await.unwrap(), 200);
        assert_eq!(parse(&fs::read(&path).unwrap()).len(), 401);
    }

    #[tokio::test]
    async fn what_is_in_the_queue_is_written_after_the_last_handle_is_dropped() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("crawl.warc");
        let recorder = Recorder::create(&path, AGENT).unwrap();
        for _ in 0..QUEUE_LENGTH {
            recorder.record(page(b"page")).await;
        }
        drop(recorder);
        let is_complete = || {
            let bytes = fs::read(&path).unwrap();
            let requests = bytes
                .windows(18)
                .filter(|some| some == b"WARC-Type: request");
            requests.count() == QUEUE_LENGTH && bytes.ends_with(b"\r\n\r\n\r\n\r\n")
        };
        for _ in 0..1_000 {
            if is_complete() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the queue was not written");
    }

    #[tokio::test]
    async fn the_archive_reads_what_was_recorded() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(b"<p>hello").unwrap();
        let packed = packed.finish().unwrap();
        for name in ["crawl.warc", "crawl.warc.gz"] {
            let directory = TempDir::new().unwrap();
            let path = directory.path().join(name);
            let recorder = Recorder::create(&path, AGENT).unwrap();
            let headers: [(&str, &[u8]); 2] = [
                ("content-encoding", b"gzip"),
                ("transfer-encoding", b"chunked"),
            ];
            let mut whole = exchange("https://example.org/", &headers, b"");
            whole.body = packed.clone().into();
            recorder.record(whole).await;
            let mut cut = page(b"<p>hel");
            cut.truncated = Some(Truncation::Length);
            recorder.record(cut).await;
            recorder.finish().await.unwrap();

            let archive = Archive::open(&[&path], &FetchSettings::default()).unwrap();
            assert!(archive.problems().is_empty(), "{:?}", archive.problems());
            assert_eq!(archive.records(), 5);
            let read = |url: &str| archive.read(&url.parse().unwrap()).unwrap().unwrap();
            let page = read("https://example.org/");
            assert_eq!(
                (&*page.body, page.truncated),
                (&b"<p>hello"[..], false),
                "{name}"
            );
            let page = read("https://example.org/a?b=c");
            assert_eq!(
                (&*page.body, page.truncated),
                (&b"<p>hel"[..], true),
                "{name}"
            );
        }
    }

    #[tokio::test]
    async fn a_killed_writer_loses_at_most_its_last_exchange() {
        for name in ["crawl.warc", "crawl.warc.gz"] {
            let directory = TempDir::new().unwrap();
            let path = directory.path().join(name);
            let recorder = Recorder::create(&path, AGENT).unwrap();
            recorder.record(page(b"safe")).await;
            recorder.finish().await.unwrap();
            let safe = fs::read(&path).unwrap().len();
            recorder
                .record(exchange("https://example.org/last", &[], b"cut"))
                .await;
            recorder.finish().await.unwrap();
            let whole = fs::read(&path).unwrap();
            for end in (safe + 1..whole.len()).step_by(37) {
                let cut = directory.path().join("cut");
                fs::write(&cut, &whole[..end]).unwrap();
                let mut settings = FetchSettings::default();
                settings.archive.keep_index = false;
                settings.archive.damaged = DamagePolicy::Salvage;
                let archive = Archive::open(&[&cut], &settings).unwrap();
                let url = "https://example.org/a?b=c".parse().unwrap();
                let page = archive.read(&url).unwrap().unwrap();
                assert_eq!(&*page.body, b"safe", "cut at {end} of {name}");
            }
        }
    }

    #[test]
    fn dates_have_the_form_of_the_standard() {
        for (seconds, nanoseconds, wanted) in [
            (0, 999, "1970-01-01T00:00:00.000000Z"),
            (951_782_400, 1_000, "2000-02-29T00:00:00.000001Z"),
            (1_709_251_199, 0, "2024-02-29T23:59:59.000000Z"),
        ] {
            let time = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
            assert_eq!(warc_date(time), wanted, "{seconds}");
        }
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(warc_date(before), "1970-01-01T00:00:00.000000Z");
    }
}
