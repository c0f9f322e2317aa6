//! The TLS port: certificates made on demand, good and bad, chosen by the server name of
//! the `ClientHello`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::server::Acceptor;

use super::World;
use super::bodies::noise;
use super::floods::FrameFlood;
use super::{http1, http2};

host_names! {
    /// What happens to a handshake, or to HTTP/2 after it. Other names get a good
    /// certificate and behave as on the plain port.
    TlsFault {
        /// The certificate expired in 2020.
        Expired = "expired",
        /// The certificate is of `other.example`.
        WrongName = "wrong-name",
        /// The certificate is self-signed.
        SelfSigned = "self-signed",
        /// The certificate is of an unknown authority.
        UnknownCa = "unknown-ca",
        /// HTTP/1.1 only; all others speak HTTP/2 too.
        H1Only = "h1-only",
        /// A page without end in records of one byte, by HTTP/1.1.
        TinyRecords = "tls-tiny-records",
        /// `RST_STREAM` after the headers.
        H2Resets = "h2-resets",
        /// GOAWAY instead of a response.
        H2GoAway = "h2-goaway",
        /// CONTINUATION frames for ever. The log has the request without its target.
        H2EndlessHeaders = "h2-endless-headers",
        /// Noise in response to the `ClientHello`.
        Garbage = "tls-garbage",
        /// No response to the `ClientHello`.
        Silent = "tls-silent",
    }
}

/// The authorities, and what they signed.
pub(super) struct Certificates {
    ca_pem: String,
    ca: Issuer<'static, KeyPair>,
    stranger: Issuer<'static, KeyPair>,
    /// All servers share it: keys are slow to make.
    key: KeyPair,
    configs: Mutex<BTreeMap<String, Arc<ServerConfig>>>,
}

pub(super) async fn serve(stream: TcpStream, world: &Arc<World>) {
    // Errors here and below mean that the client went away or refused the handshake.
    let Ok(mut greeted) = LazyConfigAcceptor::new(Acceptor::default(), stream).await else {
        return;
    };
    let name = greeted
        .client_hello()
        .server_name()
        .map(str::to_ascii_lowercase);
    // A `ClientHello` names no IP addresses.
    let name = name.unwrap_or_else(|| "127.0.0.1".to_owned());
    world.journal.hello(&name);
    let fault = TlsFault::of_host(&name);
    match fault {
        Some(TlsFault::Silent) => return http1::until_left(&mut greeted.io).await,
        Some(TlsFault::Garbage) => {
            let _ = greeted.io.write_all(&noise(&[0xff], 512)).await;
            return;
        }
        _ => {}
    }
    let config = world.certificates.config(&name);
    let Ok(stream) = greeted.into_stream(config).await else {
        return;
    };
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        http1::serve(stream, world, "https").await;
    } else if fault == Some(TlsFault::H2EndlessHeaders) {
        http2::flood(stream, world, name).await;
    } else if FrameFlood::of_host(&name).is_some() {
        http2::frame_flood(stream, world, name).await;
    } else {
        http2::serve(stream, world, fault).await;
    }
}

// === impl Certificates ===

impl Certificates {
    pub(super) fn new() -> Self {
        let (ca, ca_pem) = authority("An authority");
        let (stranger, _) = authority("A stranger");
        Self {
            ca_pem,
            ca,
            stranger,
            key: KeyPair::generate().expect("a key"),
            configs: Mutex::default(),
        }
    }

    pub(super) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    fn config(&self, name: &str) -> Arc<ServerConfig> {
        let mut configs = self.configs.lock().expect("no panic in between");
        if let Some(config) = configs.get(name) {
            return config.clone();
        }
        let config = Arc::new(self.make_config(name));
        configs.insert(name.to_owned(), config.clone());
        config
    }

    fn make_config(&self, name: &str) -> ServerConfig {
        let fault = TlsFault::of_host(name);
        let named = match fault {
            Some(TlsFault::WrongName) => "other.example",
            _ => name,
        };
        let mut params = CertificateParams::new([named.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, named);
        if fault == Some(TlsFault::Expired) {
            params.not_before = rcgen::date_time_ymd(2019, 1, 1);
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        let certificate = match fault {
            Some(TlsFault::SelfSigned) => params.self_signed(&self.key),
            Some(TlsFault::UnknownCa) => params.signed_by(&self.key, &self.stranger),
            _ => params.signed_by(&self.key, &self.ca),
        };
        let chain = vec![certificate.expect("a certificate").der().clone()];
        let key = PrivatePkcs8KeyDer::from(self.key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the versions of the provider")
            .with_no_client_auth()
            .with_single_cert(chain, key.into())
            .expect("a key that fits");
        config.alpn_protocols = match fault {
            Some(TlsFault::H1Only | TlsFault::TinyRecords) => vec![b"http/1.1".to_vec()],
            _ => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        config
    }
}

/// A certificate authority, and its certificate for clients that trust it.
fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let key = KeyPair::generate().expect("a key");
    let pem = params.self_signed(&key).expect("a certificate").pem();
    (Issuer::new(params, key), pem)
}
