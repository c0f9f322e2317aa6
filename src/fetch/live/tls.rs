//! TLS set-up: trusted authorities, and the faults of certificates.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use thiserror::Error;
use tokio_rustls::TlsConnector;

use crate::telemetry::clock;

/// The certificates named in the settings cannot be used.
#[derive(Debug, Error)]
#[error("the certificates in {path} (`ca_file` in [fetch]) cannot be used: {reason}")]
pub struct TlsSettingsError {
    path: PathBuf,
    reason: String,
}

/// Certificates are checked against the clock of the process: a jump of the system clock at run
/// time makes no certificate look expired.
#[derive(Debug)]
struct ProcessClock;

impl TimeProvider for ProcessClock {
    fn current_time(&self) -> Option<UnixTime> {
        let since = clock::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(UnixTime::since_unix_epoch(since))
    }
}

/// A connector that trusts the public authorities and those in `ca_file`.
pub(super) fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, TlsSettingsError> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(path) = ca_file {
        add_certificates(&mut roots, path).map_err(|reason| TlsSettingsError {
            path: path.to_owned(),
            reason,
        })?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_details(provider, Arc::new(ProcessClock))
        .with_safe_default_protocol_versions()
        .expect("ring knows the versions that are safe")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The fault of a certificate, if that is why the handshake failed, and whether it is only the
/// period of validity.
pub(super) fn certificate_fault(error: &io::Error) -> Option<(String, bool)> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    match error {
        rustls::Error::InvalidCertificate(fault) => {
            let is_out_of_date = matches!(
                fault,
                CertificateError::Expired
                    | CertificateError::ExpiredContext { .. }
                    | CertificateError::NotValidYet
                    | CertificateError::NotValidYetContext { .. }
            );
            Some((fault.to_string(), is_out_of_date))
        }
        rustls::Error::NoCertificatesPresented => Some(("there is none".to_owned(), false)),
        _ => None,
    }
}

fn add_certificates(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    let mut found = false;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
        found = true;
    }
    if found {
        Ok(())
    } else {
        Err("there is no certificate in it; PEM is expected".to_owned())
    }
}
