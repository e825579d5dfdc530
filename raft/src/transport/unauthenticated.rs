//! How a node without a certificate asks to join: one question and one answer over TLS that authenticates only the
//! cluster's side. The asking node recognises the cluster's authority by its hash in the join token.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsConnector, client};

use super::frame::{read_alone, write_alone};
use super::tls;

/// Largest question, many times what a node needs, and largest answer.
const LONGEST_QUESTION: u32 = 8 << 10;
const LONGEST_ANSWER: u32 = 64 << 10;

/// Timeout of answering a question; it includes an update of the directory.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Timeout of receiving a question; the client knows it before it connects.
const QUESTION_PATIENCE: Duration = Duration::from_secs(3);

/// Number of questions that are answered at once.
pub(super) const AT_ONCE: usize = 8;

/// Answers clients without a certificate. A question proves nothing beyond what the handler verifies in it.
#[async_trait]
pub trait UnauthenticatedHandler: Send + Sync + 'static {
    /// Answers a question that came from the address `from`.
    async fn answer(&self, question: Bytes, from: IpAddr) -> Bytes;
}

/// Why a question has no answer.
#[derive(Debug, Error)]
pub enum UnauthenticatedError {
    #[error("{0}")]
    Unreachable(String),
    /// The server cannot prove that it belongs to the cluster of the token.
    #[error("what listens there is not of the cluster that the token is for: {0}")]
    NotTheCluster(String),
}

/// SHA-256 of a cluster's CA certificate: the hash by which a joining node recognises the cluster.
///
/// # Errors
/// When the text contains no certificate.
pub fn authority_hash(ca_pem: &str) -> Result<[u8; 32], String> {
    let certificate = CertificateDer::from_pem_slice(ca_pem.as_bytes()).map_err(|error| error.to_string())?;
    Ok(Sha256::digest(&certificate).into())
}

/// Asks a node of a cluster; `address` is the `host:port` of its peer port.
///
/// # Errors
/// [`UnauthenticatedError`]; if the connection broke, the question may have been answered.
pub async fn ask(
    address: &str,
    authority: [u8; 32],
    question: &[u8],
    deadline: Instant,
) -> Result<Bytes, UnauthenticatedError> {
    let asking = async {
        let mut stream = connect(address, authority).await?;
        write_alone(&mut stream, question).await.map_err(|error| unreachable(address, &error))?;
        read_alone(&mut stream, LONGEST_ANSWER).await.map_err(|error| unreachable(address, &error))
    };
    let asked = tokio::time::timeout_at(deadline.into(), asking).await;
    asked.unwrap_or_else(|_| Err(unreachable(address, &"no answer in time")))
}

fn unreachable(address: &str, error: &dyn std::fmt::Display) -> UnauthenticatedError {
    UnauthenticatedError::Unreachable(format!("{address}: {error}"))
}

/// Connects to a node, and verifies that it belongs to the cluster of this authority.
pub(super) async fn connect(
    address: &str,
    authority: [u8; 32],
) -> Result<client::TlsStream<TcpStream>, UnauthenticatedError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let pinned = Arc::new(Pinned { authority, provider: provider.clone() });
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| unreachable(address, &error))?
        .dangerous()
        .with_custom_certificate_verifier(pinned)
        .with_no_client_auth();
    let socket = TcpStream::connect(address).await.map_err(|error| unreachable(address, &error))?;
    let connecting = TlsConnector::from(Arc::new(config)).connect(tls::any_node(), socket);
    connecting.await.map_err(|error| match error.get_ref().and_then(|e| e.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(_)) => {
            UnauthenticatedError::NotTheCluster(format!("{address}: {error}"))
        }
        _ => unreachable(address, &error),
    })
}

/// Reads the client's question.
pub(super) async fn question(stream: &mut TlsStream<TcpStream>) -> std::io::Result<Bytes> {
    tokio::time::timeout(QUESTION_PATIENCE, read_alone(stream, LONGEST_QUESTION)).await?
}

/// Answers the client's question.
pub(super) async fn answer(
    stream: &mut TlsStream<TcpStream>,
    question: Bytes,
    handler: &dyn UnauthenticatedHandler,
) -> std::io::Result<()> {
    let from = stream.get_ref().0.peer_addr()?.ip();
    write_alone(stream, &handler.answer(question, from).await).await?;
    stream.shutdown().await
}

/// Accepts servers that present this authority's certificate, and one that it has signed for a node as their own.
#[derive(Debug)]
struct Pinned {
    authority: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        shown: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let is_pinned = |certificate: &&CertificateDer<'_>| Sha256::digest(certificate)[..] == self.authority;
        let authority = shown.iter().find(is_pinned).ok_or(CertificateError::UnknownIssuer)?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone())
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let name = tls::named_node(own).ok_or(CertificateError::NotValidForName)?;
        verifier.verify_server_cert(own, &[], &name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
