//! Mutual TLS under the cluster's own CA, and the node that a certificate proves.

use std::sync::Arc;

use model::id::NodeId;
use model::time::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{PeerTls, PeersError};

/// The DNS name in a node's certificate, as its subject alternative name.
pub fn node_name(node: NodeId) -> String {
    let (before, behind) = NAME;
    format!("{before}{node}{behind}")
}

/// Prefix and suffix of the id in [`node_name`].
const NAME: (&str, &str) = ("node-", ".gateway.internal");

/// Both directions of a node's TLS.
pub(super) struct Tls {
    pub(super) acceptor: TlsAcceptor,
    pub(super) connector: TlsConnector,
}

fn fail(what: &str, error: &dyn std::fmt::Display) -> PeersError {
    PeersError::Tls(format!("{what}: {error}"))
}

fn certificates(what: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, PeersError> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().map_err(|error| fail(what, &error))
}

/// A node's certificate, its key, and the CA certificates that are sent along.
fn certified(node: NodeId, pem: &PeerTls) -> Result<CertifiedKey, PeersError> {
    let mut chain = certificates("this node's certificate", &pem.cert_pem)?;
    let own = chain.first().ok_or_else(|| PeersError::Tls("the certificate file holds no certificate".into()))?;
    if !proves(own, node) {
        return Err(PeersError::Tls(format!("this node's certificate is not for {}", node_name(node))));
    }
    // A joining node knows the authority only by its hash, so the certificate must be sent.
    chain.extend(certificates("the CA certificate", &pem.ca_pem)?);
    let key = PrivateKeyDer::from_pem_slice(pem.key_pem.as_bytes()).map_err(|error| fail("this node's key", &error))?;
    let signing = rustls::crypto::ring::default_provider().key_provider.load_private_key(key);
    let certified = CertifiedKey::new(chain, signing.map_err(|error| fail("this node's key", &error))?);
    certified.keys_match().map_err(|error| fail("this node's certificate and key", &error))?;
    Ok(certified)
}

impl Tls {
    pub(super) fn new(node: NodeId, pem: &PeerTls) -> Result<Self, PeersError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates("the CA certificate", &pem.ca_pem)? {
            roots.add(certificate).map_err(|error| fail("the CA certificate", &error))?;
        }
        if roots.is_empty() {
            return Err(PeersError::Tls("the CA file holds no certificate".into()));
        }
        let own = Arc::new(SingleCertAndKey::from(certified(node, pem)?));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(roots);
        // Clients without a certificate may only ask to join.
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|error| fail("the CA certificate", &error))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| fail("TLS 1.3", &error))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(own.clone());
        // A resumed session presents no certificate, so it could outlast the certificate's validity.
        server.send_tls13_tickets = 0;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| fail("TLS 1.3", &error))?
            .with_root_certificates(roots)
            .with_client_cert_resolver(own.clone());
        let (acceptor, connector) = (TlsAcceptor::from(Arc::new(server)), TlsConnector::from(Arc::new(client)));
        Ok(Self { acceptor, connector })
    }
}

/// When a certificate expires; `None` if it cannot be parsed.
pub fn expires_at(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(Timestamp::from_unix_seconds(certificate.validity().not_after.timestamp()))
}

/// Start of a certificate's validity, as it claims; `None` if it cannot be parsed.
pub fn begins_at(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(Timestamp::from_unix_seconds(certificate.validity().not_before.timestamp()))
}

/// The name that the certificate of the dialed node must prove.
pub(super) fn server_name(node: NodeId) -> ServerName<'static> {
    ServerName::try_from(node_name(node)).expect("letters, digits, dots and a hyphen make a DNS name")
}

/// Name for the SNI of a joining node, which does not know which node will answer.
pub(super) fn any_node() -> ServerName<'static> {
    server_name(0)
}

/// The node named in a certificate that is not verified yet.
pub(super) fn named_node(certificate: &CertificateDer<'_>) -> Option<ServerName<'static>> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let names = certificate.subject_alternative_name().ok()??;
    names.value.general_names.iter().find_map(|name| match name {
        GeneralName::DNSName(name) if name.starts_with(NAME.0) && name.ends_with(NAME.1) => {
            ServerName::try_from((*name).to_owned()).ok()
        }
        _ => None,
    })
}

/// Whether a certificate that is verified against the CA is for this node.
pub(super) fn proves(certificate: &CertificateDer<'_>, node: NodeId) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
    let wanted = node_name(node);
    names.value.general_names.iter().any(|name| matches!(name, GeneralName::DNSName(name) if *name == wanted))
}
