//! The certificates of the public and of the operators' port: read at the start, and again whenever their files have
//! changed, so that a renewal needs no restart.

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

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What a client may speak within TLS, the better one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The certificate that connections get from now on.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().clone())
    }
}

/// A certificate and the files that it is read from.
pub struct ApiCertificate {
    section: &'static str,
    files: ApiTls,
    current: Arc<Current>,
}

impl ApiCertificate {
    /// Reads the certificate that a section of the configuration names, if any.
    ///
    /// # Errors
    /// A [`Refusal`] for what cannot be read or does not belong together.
    pub fn open(section: &'static str, files: Option<&ApiTls>) -> Result<Option<Self>, Refusal> {
        let Some(files) = files.cloned() else { return Ok(None) };
        let certified = files::certified(section, &files)?;
        Ok(Some(Self { section, files, current: Arc::new(Current(RwLock::new(Arc::new(certified)))) }))
    }

    /// The key of the configuration that names the certificate.
    pub fn key(&self) -> String {
        format!("{}.cert_file", self.section)
    }

    /// What connections are shown, whenever it is asked.
    pub fn watch(&self) -> impl Fn() -> Option<CertificateDer<'static>> + Send + Sync + use<> {
        let current = self.current.clone();
        move || current.0.read().cert.first().cloned()
    }

    /// For the port; it shows whatever certificate is the current one.
    ///
    /// # Errors
    /// None in practice: the versions are those of the provider.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(self.current.clone());
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        Ok(Arc::new(config))
    }

    /// Takes up what the files say, until the stop. While they do not fit together, as between the renewal of the one and
    /// of the other, and where the new one has expired, the certificate stays what it was.
    pub async fn keep(self: Arc<Self>, stop: CancellationToken) {
        // The files may have changed since they were read for the port, which opens long after that.
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

    /// Both files; `None` for one that cannot be read.
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
