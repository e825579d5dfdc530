//! What a configuration names outside itself: certificates, keys, tokens, the data folder. Read and judged at start.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use super::{Config, Secret, validate};
use crate::refusal::Refusal;

/// The name that a node's certificate must carry.
pub fn node_name(id: model::id::NodeId) -> String {
    format!("node-{id}.gateway.internal")
}

/// Reads all files and probes the data folder, and keeps nothing.
///
/// # Errors
/// A [`Refusal`] that names the path.
pub fn check(config: &Config) -> Result<(), Refusal> {
    operator_token(config)?;
    master_key(config)?;
    peer_identity(config)?;
    if let Some(path) = &config.webhooks.ca_file {
        certificates("webhooks.ca_file", path)?;
    }
    writable(&config.node.data_dir)
}

/// The operator token, from the configuration or its file.
///
/// # Errors
/// A [`Refusal`] when the file cannot be read or the token is too weak.
pub fn operator_token(config: &Config) -> Result<Secret, Refusal> {
    match (&config.ops.token, &config.ops.token_file) {
        (Some(token), _) => Ok(token.clone()),
        (None, Some(path)) => {
            let token = read("ops.token_file", path)?.trim().to_owned();
            validate::operator_token(&named("ops.token_file", path), &token)?;
            Ok(Secret(token))
        }
        (None, None) => Err(Refusal::new("ops.token_file", "is missing", "set it, or ops.token")),
    }
}

/// The master key, from the configuration or its file.
///
/// # Errors
/// A [`Refusal`] when the file cannot be read or holds no key.
pub fn master_key(config: &Config) -> Result<[u8; 32], Refusal> {
    match (&config.secrets.master_key, &config.secrets.master_key_file) {
        (Some(key), _) => validate::master_key("secrets.master_key", &key.0),
        (None, Some(path)) => {
            let text = read("secrets.master_key_file", path)?;
            validate::master_key(&named("secrets.master_key_file", path), &text)
        }
        (None, None) => Err(Refusal::new("secrets.master_key_file", "is missing", "set it, or secrets.master_key")),
    }
}

/// What a node shows to its peers, and by which it knows them.
#[derive(Debug)]
pub struct PeerIdentity {
    pub authority: Vec<CertificateDer<'static>>,
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

/// Reads the peer files, and checks that they belong together and to this node.
///
/// # Errors
/// A [`Refusal`] for what cannot be read, a key of another certificate, and a certificate that has expired, that another
/// authority signed, or that names another node.
pub fn peer_identity(config: &Config) -> Result<PeerIdentity, Refusal> {
    let authority = certificates("peer.ca_file", &config.peer.ca_file)?;
    let chain = certificates("peer.cert_file", &config.peer.cert_file)?;
    let key_subject = named("peer.key_file", &config.peer.key_file);
    let key =
        PrivateKeyDer::from_pem_slice(read("peer.key_file", &config.peer.key_file)?.as_bytes()).map_err(|_| {
            Refusal::new(&key_subject, "holds no private key in PEM", "name the key that belongs to peer.cert_file")
        })?;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let signing = provider
        .key_provider
        .load_private_key(key.clone_key())
        .map_err(|error| Refusal::new(&key_subject, error.to_string(), "use an ECDSA P-256, Ed25519 or RSA key"))?;
    let certified = rustls::sign::CertifiedKey::new(chain.clone(), signing);
    if certified.keys_match().is_err() {
        return Err(Refusal::new(
            key_subject,
            "is not the key of peer.cert_file",
            "name the pair that was made together",
        ));
    }

    let mut roots = RootCertStore::empty();
    for certificate in &authority {
        roots.add(certificate.clone()).map_err(|error| {
            Refusal::new(named("peer.ca_file", &config.peer.ca_file), error.to_string(), "name the cluster's authority")
        })?;
    }
    let name = node_name(config.node.id);
    let verdict = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| error.to_string())
        .and_then(|verifier| {
            let server = ServerName::try_from(name.clone()).map_err(|error| error.to_string())?;
            let (own, intermediates) = chain.split_first().ok_or("is empty")?;
            verifier
                .verify_server_cert(own, intermediates, &server, &[], UnixTime::now())
                .map(drop)
                .map_err(|error| error.to_string())
        });
    verdict.map_err(|problem| {
        let remedy = format!("have peer.ca_file sign a certificate for {name}");
        Refusal::new(named("peer.cert_file", &config.peer.cert_file), problem, remedy)
    })?;
    Ok(PeerIdentity { authority, chain, key })
}

fn certificates(key: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Refusal> {
    let text = read(key, path)?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match parsed {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(Refusal::new(named(key, path), "holds no certificate in PEM", "name a PEM file with certificates")),
    }
}

fn read(key: &str, path: &Path) -> Result<String, Refusal> {
    std::fs::read_to_string(path)
        .map_err(|error| Refusal::new(named(key, path), error.to_string(), "name a file that this process may read"))
}

fn named(key: &str, path: &Path) -> String {
    format!("{key} ({})", path.display())
}

/// Makes the data folder where it is missing, and writes a probe.
fn writable(folder: &Path) -> Result<(), Refusal> {
    let refuse = |error: std::io::Error| {
        Refusal::new(named("node.data_dir", folder), error.to_string(), "name a folder that this process may write")
    };
    std::fs::create_dir_all(folder).map_err(refuse)?;
    let probe = folder.join(".probe");
    std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe)).map_err(refuse)
}
