//! HTTP/2: ordinary responses, and the faults specific to it.
//!
//! The faults of HTTP/1.1 are imitated where they have a counterpart: silence is silence,
//! what repeats or drips is an endless body, and a broken connection is a broken stream.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;

use super::World;
use super::answers::{Answer, DRIP, Reply, Then, Wire};
use super::floods::{FrameFlood, Moment};
use super::http1::{PIECE, without_port};
use super::journal::{InFlight, SeenRequest};
use super::tls::TlsFault;

pub(super) type Stream = TlsStream<TcpStream>;

/// Headers are to leave before the reset that would overtake them.
const MOMENT: Duration = Duration::from_millis(50);

pub(super) async fn serve(stream: Stream, world: &Arc<World>, fault: Option<TlsFault>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    // Streams end with their connection.
    let mut streams = JoinSet::new();
    while let Some(Ok((request, respond))) = next_request(&mut connection, &mut streams).await {
        let request = seen(&request);
        let (answer, in_flight) = world.meet(&request);
        match fault {
            Some(TlsFault::H2GoAway) => connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM),
            Some(TlsFault::H2Resets) => drop(streams.spawn(reset(respond, in_flight))),
            _ => drop(streams.spawn(respond_to(request, answer, respond, in_flight))),
        }
    }
}

async fn next_request(
    connection: &mut Connection<Stream, Bytes>,
    streams: &mut JoinSet<()>,
) -> Option<Result<(Request<RecvStream>, SendResponse<Bytes>), h2::Error>> {
    loop {
        tokio::select! {
            request = connection.accept() => return request,
            Some(_) = streams.join_next() => {}
        }
    }
}

fn seen(request: &Request<RecvStream>) -> SeenRequest {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let uri = request.uri();
    let authority = uri.authority().map(http::uri::Authority::as_str);
    let target = uri.path_and_query().map(http::uri::PathAndQuery::as_str);
    let headers = request.headers().iter();
    SeenRequest {
        host: without_port(authority.unwrap_or_default()),
        method: request.method().to_string(),
        target: target.unwrap_or_default().to_owned(),
        headers: headers
            .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
            .collect(),
        version: "HTTP/2",
        scheme: "https",
        at: Instant::now(),
    }
}

async fn reset(mut respond: SendResponse<Bytes>, _in_flight: InFlight) {
    if let Ok(mut stream) = respond.send_response(Response::new(()), false) {
        tokio::time::sleep(MOMENT).await;
        stream.send_reset(Reason::INTERNAL_ERROR);
    }
}

async fn respond_to(
    request: SeenRequest,
    answer: Answer,
    mut respond: SendResponse<Bytes>,
    in_flight: InFlight,
) {
    // Errors mean that the client went away.
    let _ = match answer {
        Answer::Reply(reply) => send_reply(reply, &request, &mut respond, &in_flight).await,
        Answer::Wire(wire) => send_wire(wire, &mut respond, &in_flight).await,
    };
}

async fn send_reply(
    reply: Reply,
    request: &SeenRequest,
    respond: &mut SendResponse<Bytes>,
    in_flight: &InFlight,
) -> Result<(), h2::Error> {
    tokio::select! {
        () = tokio::time::sleep(reply.delay) => {}
        _ = poll_fn(|context| respond.poll_reset(context)) => return Ok(()),
    }
    let response = response(reply.status, &reply.headers);
    let has_body = request.method != "HEAD" && reply.has_body() && !reply.body.is_empty();
    let mut stream = respond.send_response(response, !has_body)?;
    if has_body {
        send(&mut stream, reply.body, in_flight).await?;
        stream.send_data(Bytes::new(), true)?;
    }
    Ok(())
}

fn response(status: u16, headers: &[(String, String)]) -> Response<()> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        // Connection-specific headers are not allowed in HTTP/2.
        if !["connection", "transfer-encoding"].contains(&name.to_ascii_lowercase().as_str()) {
            response = response.header(name, value);
        }
    }
    response.body(()).expect("headers that HTTP/2 can carry")
}

async fn send_wire(
    wire: Wire,
    respond: &mut SendResponse<Bytes>,
    in_flight: &InFlight,
) -> Result<(), h2::Error> {
    let head = response(200, &wire.headers());
    match wire.then {
        Then::Silence => {
            poll_fn(|context| respond.poll_reset(context)).await?;
        }
        Then::Close | Then::ResetAfter(_) => respond.send_reset(Reason::INTERNAL_ERROR),
        Then::NextRequest => {
            let mut stream = respond.send_response(head, false)?;
            send(&mut stream, wire.body, in_flight).await?;
            stream.send_data(Bytes::new(), true)?;
        }
        Then::Repeat { piece, times } => {
            let mut stream = respond.send_response(head, false)?;
            send(&mut stream, wire.body, in_flight).await?;
            for _ in 0..times {
                send(&mut stream, piece.clone(), in_flight).await?;
            }
            stream.send_data(Bytes::new(), true)?;
        }
        Then::Records(byte) => {
            let mut stream = respond.send_response(head, false)?;
            loop {
                send(&mut stream, Bytes::from(vec![byte]), in_flight).await?;
            }
        }
        Then::Drip(bytes) => {
            let mut stream = respond.send_response(head, false)?;
            for at in (0..bytes.len()).cycle() {
                tokio::time::sleep(DRIP).await;
                send(&mut stream, Bytes::from_static(&bytes[at..=at]), in_flight).await?;
            }
        }
    }
    Ok(())
}

/// Sends as the client's window allows, so that nothing piles up here.
async fn send(
    stream: &mut SendStream<Bytes>,
    mut bytes: Bytes,
    in_flight: &InFlight,
) -> Result<(), h2::Error> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len().min(PIECE));
        let room = poll_fn(|context| stream.poll_capacity(context)).await;
        let room = room.ok_or(Reason::CANCEL)??;
        let piece = bytes.split_to(room.min(bytes.len()));
        in_flight.sent(piece.len());
        stream.send_data(piece, false)?;
    }
    Ok(())
}

/// Answers the first request with a block of headers that goes on in CONTINUATION frames
/// for ever. Written as bytes, because a library would not do it; the request is not read,
/// its host is the one of the handshake.
pub(super) async fn flood(mut stream: Stream, world: &Arc<World>, host: String) {
    let request = SeenRequest {
        host,
        method: String::new(),
        target: String::new(),
        headers: Vec::new(),
        version: "HTTP/2",
        scheme: "https",
        at: Instant::now(),
    };
    // Errors mean that the client went away.
    if read_preface(&mut stream).await.is_err() {
        return;
    }
    let Ok(asking) = read_until_headers(&mut stream).await else {
        return;
    };
    let (_, in_flight) = world.meet(&request);
    let _ = write_flood(&mut stream, asking, &in_flight).await;
}

/// Answers like an ordinary server until the given moment, and floods from then on. The
/// first request is for robots.txt, the second one for a page.
pub(super) async fn frame_flood(stream: Stream, world: &Arc<World>, host: String) {
    // Errors mean that the client went away.
    let _ = try_frame_flood(stream, world, host).await;
}

async fn try_frame_flood(mut stream: Stream, world: &Arc<World>, host: String) -> io::Result<()> {
    let flood = FrameFlood::of_host(&host).expect("such a host");
    let moment = Moment::of_host(&host);
    read_preface(&mut stream).await?;
    loop {
        let id = read_until_headers(&mut stream).await?;
        let request = SeenRequest {
            host: host.clone(),
            method: String::new(),
            target: String::new(),
            headers: Vec::new(),
            version: "HTTP/2",
            scheme: "https",
            at: Instant::now(),
        };
        let (in_flight, before, _) = world.journal.request(&request);
        if (moment == Moment::Robots && before == 0) || (moment == Moment::Page && before > 0) {
            return flood.write(stream, id, &in_flight).await;
        }
        if before == 0 {
            // 0x8d is `:status: 404`.
            let headers = frame(HEADERS, END_HEADERS | END_STREAM, id, &[0x8d]);
            stream.write_all(&headers).await?;
            stream.flush().await?;
            continue;
        }
        stream
            .write_all(&frame(HEADERS, END_HEADERS, id, HTML))
            .await?;
        stream
            .write_all(&frame(DATA, END_STREAM, id, b"<p>here"))
            .await?;
        stream.flush().await?;
        if moment == Moment::Idle {
            return flood.write(stream, id, &in_flight).await;
        }
    }
}

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
pub(super) const UNKNOWN: u8 = 0xfa;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// `:status: 200` and `content-type: text/html`.
pub(super) const HTML: &[u8] = b"\x88\x0f\x10\x09text/html";

/// Exchanges settings.
async fn read_preface(stream: &mut Stream) -> io::Result<()> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    stream.flush().await
}

/// The stream number of the request.
async fn read_until_headers(stream: &mut Stream) -> io::Result<u32> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let [high, middle, low, kind, flags, id @ ..] = head;
        let length = u64::from(u32::from_be_bytes([0, high, middle, low]));
        tokio::io::copy(&mut (&mut *stream).take(length), &mut tokio::io::sink()).await?;
        match kind {
            HEADERS => return Ok(u32::from_be_bytes(id)),
            SETTINGS if flags == 0 => {
                stream.write_all(&frame(SETTINGS, 1, 0, &[])).await?;
            }
            _ => {}
        }
    }
}

async fn write_flood(stream: &mut Stream, id: u32, in_flight: &InFlight) -> io::Result<()> {
    // 0x88 is `:status: 200`; no END_HEADERS anywhere.
    stream.write_all(&frame(HEADERS, 0, id, &[0x88])).await?;
    // A literal that is not indexed: `x-flood: aaaa…`, 100 bytes.
    let header = [&b"\0\x07x-flood\x64"[..], &[b'a'; 100]].concat();
    let more = frame(CONTINUATION, 0, id, &header.repeat(140));
    loop {
        stream.write_all(&more).await?;
        stream.flush().await?;
        in_flight.sent(more.len());
    }
}

pub(super) fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame");
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(id.to_be_bytes());
    frame.extend(payload);
    frame
}
