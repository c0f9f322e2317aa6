//! Opens the connection on which a page is requested.
//!
//! Invariant: a name is resolved once, and the addresses that were checked are the ones connected
//! to. Redirects and robots.txt take the same path; there is no other.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use http::{Method, Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Host;

use crate::config::{CertificatePolicy, FetchSettings, LimitSettings, ProxySettings};
use crate::fetch::error::{ErrorKind, FetchError};
use crate::web::{DeferralCause, PageUrl, Scheme, SiteId, Trouble};

use super::address_guard::AddressGuard;
use super::connections::{Connection, ConnectionPermit, Connections, Peer, Sender, Tasks};
use super::meter::{Meter, Metered, UNREAD_WINDOW};
use super::names::{ConnectError, Mapped, Names};
use super::pace::AddressPace;
use super::tls;
use super::turns::deferred;

/// Maximum number of addresses tried for one name.
const ADDRESSES_TRIED: usize = 3;

/// Maximum deferral after a local failure; `come_back` if that is shorter.
const OWN_TROUBLE: Duration = Duration::from_mins(1);

/// Message for status 407.
pub(super) const PROXY_AUTHENTICATION: &str = "it requires authentication";

/// Opens connections.
pub(super) struct Connector {
    names: Names,
    guard: AddressGuard,
    pace: AddressPace,
    tls: TlsConnector,
    ports: Vec<u16>,
    proxy: Option<ProxySettings>,
    has_contact: bool,
    come_back: Duration,
    bad_certificate: CertificatePolicy,
    limits: LimitSettings,
}

/// Where to connect, decided before anything is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    /// The addresses to try, in this order.
    addresses: Vec<SocketAddr>,
    tls: bool,
    /// Whether these are the addresses of a proxy.
    by_proxy: bool,
    /// Whether the rate limit per address applies.
    is_paced: bool,
}

trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

// === impl Connector ===

impl Connector {
    pub(super) fn new(settings: &FetchSettings) -> Result<Self, tls::TlsSettingsError> {
        Ok(Self {
            names: Names::new(settings),
            guard: AddressGuard::new(settings.allow_addresses.clone()),
            pace: AddressPace::new(&settings.politeness),
            tls: tls::connector(settings.ca_file.as_deref())?,
            ports: settings.ports.clone(),
            proxy: settings.proxy.clone(),
            has_contact: settings.contact.is_some(),
            come_back: settings.politeness.come_back.min(OWN_TROUBLE),
            bad_certificate: settings.bad_certificate,
            limits: settings.limits.clone(),
        })
    }

    /// Decides where to connect for a page, and refuses forbidden ports and addresses. A DNS query
    /// takes a permit.
    pub(super) async fn route(
        &self,
        page: &PageUrl,
        connections: &Connections,
    ) -> Result<Route, ConnectError> {
        if let Some(Mapped { address, tls }) = self.names.mapped(page) {
            return Ok(Route {
                addresses: vec![address],
                tls,
                by_proxy: false,
                is_paced: false,
            });
        }
        let site = page.site();
        if !self.has_contact {
            let message = format!(
                "{site} was not requested: the live web is refused without a contact; set \
                 `contact` in [fetch] to a URL or a mail address"
            );
            return Err(FetchError::new(ErrorKind::NoContact, message).into());
        }
        let url = page.as_url();
        let port = url.port_or_known_default().unwrap_or_default();
        if !self.ports.contains(&port) {
            let message = format!("port {port} of {site} is not among the `ports` of [fetch]");
            return Err(FetchError::new(ErrorKind::ForbiddenPort, message).into());
        }
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::from(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::from(address)),
            Some(Host::Domain(_)) | None => None,
        };
        let tls = page.scheme() == Scheme::Https;
        if let Some(proxy) = &self.proxy {
            let _ = self.permitted(page, literal.as_slice())?;
            return Ok(Route {
                addresses: self.proxy_addresses(proxy, connections).await?,
                tls,
                by_proxy: true,
                is_paced: false,
            });
        }
        let found = if let Some(address) = literal {
            vec![address]
        } else {
            let host = url.host_str().unwrap_or_default();
            self.look_up(host, connections).await?
        };
        let permitted = self.permitted(page, &found)?;
        let with_port = permitted.map(|address| SocketAddr::new(address, port));
        Ok(Route {
            addresses: with_port.take(ADDRESSES_TRIED).collect(),
            tls,
            by_proxy: false,
            is_paced: true,
        })
    }

    /// Waits for the rate limit of the route's first address.
    pub(super) async fn keep_pace(&self, site: &SiteId, route: &Route) -> Result<(), FetchError> {
        match route.addresses.first() {
            Some(address) if route.is_paced => self.pace.wait(address.ip(), site).await,
            _ => Ok(()),
        }
    }

    /// The same for an open connection.
    pub(super) async fn keep_pace_of(
        &self,
        site: &SiteId,
        connection: &Connection,
    ) -> Result<(), FetchError> {
        match connection.peer().paced_address {
            Some(address) => self.pace.wait(address, site).await,
            None => Ok(()),
        }
    }

    /// Connects. The permit is held until the connection is closed.
    pub(super) async fn connect(
        &self,
        page: &PageUrl,
        route: &Route,
        permit: ConnectionPermit,
    ) -> Result<Connection, ConnectError> {
        let connecting = self.connect_to_any(page, route, permit);
        match timeout(self.limits.connect, connecting).await {
            Ok(connection) => connection,
            Err(_) => Err(connect_timeout(page).into()),
        }
    }

    /// The addresses that may be connected to; an error if there are none.
    fn permitted<'a>(
        &self,
        page: &PageUrl,
        addresses: &'a [IpAddr],
    ) -> Result<impl Iterator<Item = IpAddr> + use<'a, '_>, FetchError> {
        let refused = addresses
            .iter()
            .find(|address| !self.guard.permits(**address));
        let has_any = addresses.iter().any(|address| self.guard.permits(*address));
        if let Some(refused) = refused.filter(|_| !has_any) {
            let message = format!(
                "{} is at {refused}, which is not a public address; `allow_addresses` in [fetch] \
                 can allow it",
                page.site()
            );
            return Err(FetchError::new(ErrorKind::ForbiddenAddress, message));
        }
        let addresses = addresses.iter().copied();
        Ok(addresses.filter(|address| self.guard.permits(*address)))
    }

    /// Not checked: the proxy was chosen by the operator, so it may have any address.
    async fn proxy_addresses(
        &self,
        proxy: &ProxySettings,
        connections: &Connections,
    ) -> Result<Vec<SocketAddr>, ConnectError> {
        let found = match proxy.address() {
            Some(address) => vec![address],
            None => self.look_up(&proxy.host, connections).await?,
        };
        let with_port = found.into_iter().map(|ip| SocketAddr::new(ip, proxy.port));
        Ok(with_port.collect())
    }

    /// A DNS query takes a socket as well, so it waits for a permit.
    async fn look_up(
        &self,
        host: &str,
        connections: &Connections,
    ) -> Result<Vec<IpAddr>, ConnectError> {
        let _permit = connections.permit().await;
        self.names.look_up(host).await
    }

    async fn connect_to_any(
        &self,
        page: &PageUrl,
        route: &Route,
        permit: ConnectionPermit,
    ) -> Result<Connection, ConnectError> {
        let mut failure = None;
        // One unresponsive address must not take the time of the others.
        let tries = u32::try_from(route.addresses.len()).unwrap_or(1).max(1);
        let share = self.limits.connect / tries;
        for address in &route.addresses {
            let connected = timeout(share, TcpStream::connect(address)).await;
            match connected.unwrap_or(Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) => {
                    // Only an optimisation, so a failure is ignored.
                    let _ = stream.set_nodelay(true);
                    let negotiation = self.negotiate(page, route, stream, address.ip(), permit);
                    return Ok(negotiation.await?);
                }
                Err(error) if ConnectError::is_no_descriptor(&error) => {
                    return Err(ConnectError::NoDescriptor);
                }
                Err(error) => failure = Some(error),
            }
        }
        if route.by_proxy {
            let why = failure.map_or_else(String::new, |error| error.to_string());
            return Err(self.proxy_trouble(page, &why).into());
        }
        let is_timeout = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        if failure.as_ref().is_some_and(is_timeout) {
            return Err(connect_timeout(page).into());
        }
        let trouble = failure.as_ref().and_then(own_trouble);
        if let Some((error, trouble)) = failure.as_ref().zip(trouble) {
            tracing::warn!(%error, "cannot open a connection");
            return Err(self.own_trouble(page, trouble).into());
        }
        let why = failure.map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
        let message = format!("{} cannot be reached: {why}", page.site());
        Err(FetchError::new(ErrorKind::Unreachable, message).into())
    }

    /// Sets up the tunnel and TLS where needed, then HTTP/1.1 or HTTP/2.
    async fn negotiate(
        &self,
        page: &PageUrl,
        route: &Route,
        stream: TcpStream,
        address: IpAddr,
        permit: ConnectionPermit,
    ) -> Result<Connection, FetchError> {
        let meter = Meter::new(self.limits.header_bytes);
        let stream = Metered::new(stream, Arc::clone(&meter));
        let stream: Box<dyn ByteStream> = if route.by_proxy && route.tls {
            Box::new(self.tunnel(page, stream).await?)
        } else {
            Box::new(stream)
        };
        let (stream, speaks_http2): (Box<dyn ByteStream>, bool) = if route.tls {
            let stream = self.encrypt(page, stream).await?;
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            (Box::new(stream), is_http2)
        } else {
            (stream, false)
        };
        let stream = TokioIo::new(stream);
        let not_http = |error: hyper::Error| {
            let message = format!("{} does not speak HTTP: {error}", page.site());
            FetchError::new(ErrorKind::Malformed, message)
        };
        let tasks = Tasks::new(permit);
        let peer = Peer {
            origin: page.origin().into(),
            host: host_header(page),
            address: (!route.by_proxy).then_some(address),
            paced_address: route.is_paced.then_some(address),
            wants_absolute_form: route.by_proxy && !route.tls,
        };
        Ok(if speaks_http2 {
            let handshake = self.http2(tasks.clone()).handshake(stream).await;
            let (sender, driver) = handshake.map_err(not_http)?;
            Connection::new(Sender::Http2(sender), driver, tasks, meter, peer)
        } else {
            let handshake = self.http1().handshake(stream).await;
            let (sender, driver) = handshake.map_err(not_http)?;
            Connection::new(Sender::Http1(sender), driver, tasks, meter, peer)
        })
    }

    fn http1(&self) -> http1::Builder {
        let mut builder = http1::Builder::new();
        builder
            .max_headers(self.limits.headers)
            .max_header_size(self.limits.header_bytes)
            // As lenient as browsers.
            .ignore_invalid_headers_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .allow_spaces_after_header_name_in_responses(true)
            .max_buf_size(self.limits.header_bytes.max(64 << 10));
        builder
    }

    fn http2(&self, tasks: Tasks) -> http2::Builder<Tasks> {
        let header_bytes = u32::try_from(self.limits.header_bytes).unwrap_or(u32::MAX);
        let mut builder = http2::Builder::new(tasks);
        builder
            .timer(TokioTimer::new())
            .max_header_list_size(header_bytes)
            .initial_stream_window_size(UNREAD_WINDOW)
            .initial_connection_window_size(UNREAD_WINDOW);
        builder
    }

    async fn encrypt(
        &self,
        page: &PageUrl,
        stream: Box<dyn ByteStream>,
    ) -> Result<tokio_rustls::client::TlsStream<Box<dyn ByteStream>>, FetchError> {
        let host = page.as_url().host_str().unwrap_or_default();
        let name = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let failed = |why: &dyn std::fmt::Display| {
            let message = format!("TLS with {} failed: {why}", page.site());
            FetchError::new(ErrorKind::TlsFailed, message)
        };
        let name = ServerName::try_from(name).map_err(|error| failed(&error))?;
        let connected = self.tls.connect(name, stream).await;
        connected.map_err(|error| match tls::certificate_fault(&error) {
            Some((fault, is_out_of_date)) => {
                let kind = ErrorKind::BadCertificate {
                    http_instead: self.bad_certificate == CertificatePolicy::Http,
                    is_out_of_date,
                };
                let message = format!("the certificate of {} is bad: {fault}", page.site());
                FetchError::new(kind, message)
            }
            None => failed(&error),
        })
    }

    /// Opens a tunnel through the proxy with `CONNECT` (RFC 9110, section 9.3.6).
    async fn tunnel(
        &self,
        page: &PageUrl,
        stream: Metered,
    ) -> Result<TokioIo<hyper::upgrade::Upgraded>, FetchError> {
        let failed = |why: &dyn std::fmt::Display| {
            let message = format!("the proxy cannot reach {}: {why}", page.site());
            FetchError::new(ErrorKind::Unreachable, message)
        };
        let (mut sender, driver) = self
            .http1()
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failed(&error))?;
        tokio::spawn(driver.with_upgrades());
        let url = page.as_url();
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let target = format!("{host}:{port}");
        let mut request = Request::builder()
            .method(Method::CONNECT)
            .uri(&target)
            .header(HOST, &target);
        if let Some(credentials) = self.proxy_authorization() {
            request = request.header(PROXY_AUTHORIZATION, credentials);
        }
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|error| failed(&error))?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| failed(&error))?;
        match response.status() {
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                return Err(self.proxy_trouble(page, PROXY_AUTHENTICATION));
            }
            status if !status.is_success() => return Err(failed(&status)),
            _ => {}
        }
        let upgraded = hyper::upgrade::on(response).await;
        Ok(TokioIo::new(upgraded.map_err(|error| failed(&error))?))
    }

    /// The proxy cannot be reached, or refuses all our requests.
    pub(super) fn proxy_trouble(&self, page: &PageUrl, why: &str) -> FetchError {
        tracing::warn!(why, "cannot connect through the proxy");
        self.own_trouble(page, Trouble::Proxy)
    }

    /// Defers the site because of a local failure.
    fn own_trouble(&self, page: &PageUrl, trouble: Trouble) -> FetchError {
        let cause = DeferralCause::OwnTrouble(trouble);
        deferred(&page.site(), self.come_back, cause)
    }

    /// The `Proxy-Authorization` header, if the settings give credentials.
    pub(super) fn proxy_authorization(&self) -> Option<HeaderValue> {
        let (user, password) = self.proxy.as_ref()?.credentials.as_ref()?;
        let plain = format!("{user}:{password}");
        let encoded = data_encoding::BASE64.encode(plain.as_bytes());
        let mut value = HeaderValue::from_str(&format!("Basic {encoded}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// The local failure behind a connection error, if it is one.
fn own_trouble(error: &io::Error) -> Option<Trouble> {
    const ENOBUFS: i32 = 105;
    match error.kind() {
        io::ErrorKind::NetworkDown => Some(Trouble::Network),
        io::ErrorKind::AddrNotAvailable => Some(Trouble::Sockets),
        _ => (error.raw_os_error() == Some(ENOBUFS)).then_some(Trouble::Sockets),
    }
}

fn host_header(page: &PageUrl) -> HeaderValue {
    let url = page.as_url();
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    HeaderValue::from_str(host).expect("hosts are ASCII")
}

fn connect_timeout(page: &PageUrl) -> FetchError {
    let message = format!("{} did not accept the connection in time", page.site());
    FetchError::new(ErrorKind::ConnectTimeout, message)
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}
