//! How the operator's command line verifies the TLS certificate of the operators' port.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::{Certificate, ClientBuilder};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use crate::refusal::Refusal;

/// Which certificates are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Certificates signed by an authority of the system, for the requested name.
    #[default]
    System,
    /// Certificates signed by an authority of this file, or by one of the system.
    Authorities(PathBuf),
    /// Exactly the certificate in this file, under any name: for a node on this machine, whose certificate file can be
    /// read.
    Same(PathBuf),
}

impl Trust {
    /// Configures a client accordingly.
    ///
    /// # Errors
    /// A [`Refusal`] when a file cannot be read, or holds no certificate.
    pub fn apply(&self, client: ClientBuilder) -> anyhow::Result<ClientBuilder> {
        match self {
            Self::System => Ok(client),
            Self::Authorities(path) => {
                let refused = |problem: String| {
                    let remedy = "name a file of certificates, in PEM, that you may read";
                    Refusal::new(format!("--ca-file ({})", path.display()), problem, remedy)
                };
                let pem = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
                let authorities = Certificate::from_pem_bundle(&pem).map_err(|error| refused(error.to_string()))?;
                if authorities.is_empty() {
                    return Err(refused("holds no certificate".to_owned()).into());
                }
                Ok(client.tls_certs_merge(authorities))
            }
            Self::Same(path) => {
                let provider = Arc::new(ring::default_provider());
                let verifier = Arc::new(Same { path: path.clone(), provider: provider.clone() });
                let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
                let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
                Ok(client.tls_backend_preconfigured(config))
            }
        }
    }
}

/// Compares with the file at each handshake, so that a renewed certificate is accepted at once.
#[derive(Debug)]
struct Same {
    path: PathBuf,
    provider: Arc<CryptoProvider>,
}

/// The first certificate of a file.
fn first(path: &Path) -> Option<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path).ok()?.next()?.ok()
}

impl ServerCertVerifier for Same {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if first(&self.path).is_some_and(|expected| expected == *end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_authority_is_refused_by_its_flag() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let judged = || Trust::Authorities(path.clone()).apply(reqwest::Client::builder()).map(drop);
        let refusal = |part: &str| {
            let error = judged().unwrap_err();
            assert!(error.is::<Refusal>() && error.to_string().contains("--ca-file"), "{error}");
            assert!(error.to_string().contains(part), "{error}");
        };
        refusal("ca.pem");
        std::fs::write(&path, "no certificate").unwrap();
        refusal("holds no certificate");
        let key = rcgen::KeyPair::generate().unwrap();
        let authority = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap().self_signed(&key).unwrap();
        std::fs::write(&path, authority.pem()).unwrap();
        assert!(judged().is_ok());
    }

    #[test]
    fn the_certificate_of_the_file_is_good_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ops.pem");
        let made = || {
            let key = rcgen::KeyPair::generate().unwrap();
            rcgen::CertificateParams::new(vec!["ops.example.com".to_owned()]).unwrap().self_signed(&key).unwrap()
        };
        let (old, new) = (made(), made());
        let same = Same { path: path.clone(), provider: Arc::new(ring::default_provider()) };
        let good = |certificate: &rcgen::Certificate| {
            let name = ServerName::try_from("127.0.0.1").unwrap();
            same.verify_server_cert(certificate.der(), &[], &name, &[], UnixTime::now()).is_ok()
        };
        assert!(!good(&old), "there is no file");
        std::fs::write(&path, old.pem()).unwrap();
        assert!(good(&old) && !good(&new));
        std::fs::write(&path, new.pem()).unwrap();
        assert!(!good(&old) && good(&new), "it was renewed");
    }
}
