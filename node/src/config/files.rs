//! What a configuration names outside itself: certificates, keys, tokens, the data folder. Read and judged at start.

use std::path::Path;
use std::sync::Arc;

use model::seal::MasterKey;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;

use super::{ApiTls, Config, Secret, validate};
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
    webhook_authorities(config)?;
    media_secret(config)?;
    api_certificate(config)?;
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
pub fn master_key(config: &Config) -> Result<MasterKey, Refusal> {
    match (&config.secrets.master_key, &config.secrets.master_key_file) {
        (Some(key), _) => validate::master_key("secrets.master_key", &key.0),
        (None, Some(path)) => {
            let text = read("secrets.master_key_file", path)?;
            validate::master_key(&named("secrets.master_key_file", path), &text)
        }
        (None, None) => Err(Refusal::new("secrets.master_key_file", "is missing", "set it, or secrets.master_key")),
    }
}

/// The authorities that receivers' certificates may come from beside the system's, in PEM.
///
/// # Errors
/// A [`Refusal`] when the file cannot be read or holds no certificate.
pub fn webhook_authorities(config: &Config) -> Result<Option<String>, Refusal> {
    let path = config.webhooks.ca_file.as_deref();
    path.map(|path| certificates("webhooks.ca_file", path).map(|(pem, _)| pem)).transpose()
}

/// The secret key of the media bucket, from the configuration or its file; `None` without a bucket.
///
/// # Errors
/// A [`Refusal`] when the file cannot be read.
pub fn media_secret(config: &Config) -> Result<Option<Secret>, Refusal> {
    let Some(s3) = config.media.bucket() else { return Ok(None) };
    match (&s3.secret_access_key, &s3.secret_access_key_file) {
        (Some(secret), _) => Ok(Some(secret.clone())),
        (None, Some(path)) => Ok(Some(Secret(read("media.s3.secret_access_key_file", path)?.trim().to_owned()))),
        (None, None) => Ok(None),
    }
}

/// What a node shows to its peers, and by which it knows them: PEM, checked.
#[derive(Clone, Debug)]
pub struct PeerIdentity {
    pub ca_pem: String,
    pub cert_pem: String,
    pub key_pem: Secret,
}

/// Reads the peer files, and checks that they belong together and to this node.
///
/// # Errors
/// A [`Refusal`] for what cannot be read, a key of another certificate, and a certificate that has expired, that another
/// authority signed, or that names another node.
pub fn peer_identity(config: &Config) -> Result<PeerIdentity, Refusal> {
    let peer = &config.peer;
    let (ca_pem, authority) = certificates("peer.ca_file", &peer.ca_file)?;
    let (cert_pem, chain) = certificates("peer.cert_file", &peer.cert_file)?;
    let key_pem = read("peer.key_file", &peer.key_file)?;
    let key_subject = named("peer.key_file", &peer.key_file);
    belong_together(&key_subject, "peer.cert_file", &chain, &key_pem)?;

    let cert_subject = named("peer.cert_file", &peer.cert_file);
    let (Some((own, intermediates)), name) = (chain.split_first(), node_name(config.node.id)) else {
        return Err(Refusal::new(cert_subject, "is empty", "name the node's certificate"));
    };
    verify(&authority, own, intermediates, &name).map_err(|problem| {
        Refusal::new(cert_subject, problem, format!("have peer.ca_file sign a certificate for {name}"))
    })?;
    Ok(PeerIdentity { ca_pem, cert_pem, key_pem: Secret(key_pem) })
}

/// The certificate of the public port with its key; `None` when it speaks plain HTTP.
///
/// # Errors
/// A [`Refusal`] for what cannot be read, and a key of another certificate.
pub fn api_certificate(config: &Config) -> Result<Option<CertifiedKey>, Refusal> {
    config.api.tls.as_ref().map(certified).transpose()
}

/// As its files are now.
///
/// # Errors
/// As [`api_certificate`].
pub fn certified(tls: &ApiTls) -> Result<CertifiedKey, Refusal> {
    let (_, chain) = certificates("api.tls.cert_file", &tls.cert_file)?;
    let key_pem = read("api.tls.key_file", &tls.key_file)?;
    belong_together(&named("api.tls.key_file", &tls.key_file), "api.tls.cert_file", &chain, &key_pem)
}

/// A chain with the key of its first certificate, which the key named `cert_key` tells.
fn belong_together(
    subject: &str,
    cert_key: &str,
    chain: &[CertificateDer<'static>],
    key_pem: &str,
) -> Result<CertifiedKey, Refusal> {
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).map_err(|_| {
        let remedy = format!("name the key that belongs to {cert_key}");
        Refusal::new(subject, "holds no private key in PEM", remedy)
    })?;
    let signing = ring::default_provider()
        .key_provider
        .load_private_key(key)
        .map_err(|error| Refusal::new(subject, error.to_string(), "use an ECDSA P-256, Ed25519 or RSA key"))?;
    let certified = CertifiedKey::new(chain.to_vec(), signing);
    certified.keys_match().map_err(|_| {
        Refusal::new(subject, format!("is not the key of {cert_key}"), "name the pair that was made together")
    })?;
    Ok(certified)
}

/// Whether an authority's certificate proves what was signed for a node, as a peer would see it.
///
/// # Errors
/// Why not.
pub fn proves(ca_pem: &str, cert_pem: &str, id: model::id::NodeId) -> Result<(), String> {
    let parse = |pem: &str| CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
    let (authority, chain) = (parse(ca_pem), parse(cert_pem));
    let (Ok(authority), Ok(chain)) = (authority, chain) else { return Err("it is no certificate in PEM".to_owned()) };
    let (own, intermediates) = chain.split_first().ok_or("it holds no certificate")?;
    verify(&authority, own, intermediates, &node_name(id))
}

/// As a peer would verify it.
fn verify(
    authority: &[CertificateDer<'static>],
    own: &CertificateDer<'static>,
    intermediates: &[CertificateDer<'static>],
    name: &str,
) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for certificate in authority {
        roots.add(certificate.clone()).map_err(|error| format!("its authority is unusable: {error}"))?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(ring::default_provider()))
        .build()
        .map_err(|error| error.to_string())?;
    let server = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    verifier
        .verify_server_cert(own, intermediates, &server, &[], UnixTime::now())
        .map(drop)
        .map_err(|error| error.to_string())
}

fn certificates(key: &str, path: &Path) -> Result<(String, Vec<CertificateDer<'static>>), Refusal> {
    let text = read(key, path)?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match parsed {
        Ok(certificates) if !certificates.is_empty() => Ok((text, certificates)),
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
