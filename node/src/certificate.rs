//! The certificates of the public port and of the operators' port: loaded at the start, and reloaded whenever their
//! files change, so that a renewal needs no restart.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use raft::supervise;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

use crate::config::{ApiTls, files};
use crate::refusal::Refusal;

/// How often the files are checked.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Protocols offered by ALPN, in order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The certificate for new connections.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().clone())
    }
}

/// A certificate, and the files that it is loaded from.
pub struct ApiCertificate {
    section: &'static str,
    files: ApiTls,
    current: Arc<Current>,
}

impl ApiCertificate {
    /// Loads the certificate that a section of the configuration names, if any.
    ///
    /// # Errors
    /// A [`Refusal`] when a file cannot be read, or certificate and key do not match.
    pub fn open(section: &'static str, files: Option<&ApiTls>) -> Result<Option<Self>, Refusal> {
        let Some(files) = files.cloned() else { return Ok(None) };
        let certified = files::certified(section, &files)?;
        Ok(Some(Self { section, files, current: Arc::new(Current(RwLock::new(Arc::new(certified)))) }))
    }

    /// The configuration key that names the certificate.
    pub fn key(&self) -> String {
        format!("{}.cert_file", self.section)
    }

    /// Returns a function that reports the current certificate.
    pub fn watch(&self) -> impl Fn() -> Option<CertificateDer<'static>> + Send + Sync + use<> {
        let current = self.current.clone();
        move || current.0.read().cert.first().cloned()
    }

    /// The TLS configuration of the port; it always serves the current certificate.
    ///
    /// # Errors
    /// None in practice: the provider supports the default versions.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(self.current.clone());
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        Ok(Arc::new(config))
    }

    /// Reloads the files when they change, until `stop` is cancelled. The current certificate stays in use while the
    /// files do not match, for example between the renewals of the two, and when the new one has expired.
    pub async fn keep(self: Arc<Self>, stop: CancellationToken) {
        // The files may have changed between their first reading and the start of this task.
        let mut seen: [Option<Vec<u8>>; 2] = [None, None];
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let now = self.contents().await;
            if now == seen {
                continue;
            }
            seen = now;
            let (section, files) = (self.section, self.files.clone());
            match supervise::on_thread(move || files::renewed(section, &files)).await {
                Ok(Ok(certified)) if certified.cert == self.current.0.read().cert => {}
                Ok(Ok(certified)) => {
                    *self.current.0.write() = Arc::new(certified);
                    tracing::info!(file = %self.files.cert_file.display(), "a new certificate is in use");
                }
                Ok(Err(refusal)) => {
                    tracing::warn!(%refusal, "the new certificate is not used: the former one stays in use")
                }
                Err(error) => tracing::error!(%error, "reading a certificate ended abnormally"),
            }
        }
    }

    /// The contents of both files; `None` for a file that cannot be read.
    async fn contents(&self) -> [Option<Vec<u8>>; 2] {
        [tokio::fs::read(&self.files.cert_file).await.ok(), tokio::fs::read(&self.files.key_file).await.ok()]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::pki::Authority;

    #[tokio::test]
    async fn a_certificate_that_is_renewed_while_the_node_starts_is_taken_up() {
        let folder = tempfile::tempdir().unwrap();
        let tls = ApiTls { cert_file: folder.path().join("api.pem"), key_file: folder.path().join("api.key") };
        let authority = Authority::create().unwrap();
        let write = || {
            let made = authority.issue(1, Duration::from_secs(3600)).unwrap();
            std::fs::write(&tls.cert_file, made.certificate).unwrap();
            std::fs::write(&tls.key_file, made.key).unwrap();
        };
        write();
        let certificate = Arc::new(ApiCertificate::open(files::API_TLS, Some(&tls)).unwrap().unwrap());
        let shown = certificate.watch();
        let before = shown();
        write();
        let taken_up = async {
            while shown() == before {
                tokio::task::yield_now().await;
            }
        };
        let first = async {
            tokio::select! {
                () = certificate.keep(CancellationToken::new()) => panic!("the files are not looked at any more"),
                () = taken_up => {}
            }
        };
        tokio::time::timeout(Duration::from_secs(10), first).await.unwrap();
    }
}
