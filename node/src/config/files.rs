//! The files that a configuration names: certificates, keys, tokens, the data folder. They are read and checked at
//! start.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use api::OperatorToken;
use model::scope::Access;
use model::seal::{Keyring, MasterKey};
use model::time::Timestamp;
use raft::directory::authority::AuthorityStep;
use raft::directory::members::AuthorityRecord;
use raft::transport::tls::{self, expires_at};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;

use super::{ApiTls, Config, MediaBucket, Secret, validate};
use crate::key_files::make_private_folder;
use crate::refusal::{Refusal, ensure};

/// The DNS name that a node's certificate must contain.
pub fn node_name(id: model::id::NodeId) -> String {
    format!("node-{id}.gateway.internal")
}

/// Reads all files and probes the data folder, and leaves nothing behind. This check is stricter than the start of a
/// node: it also reports expired certificates and secret files that others can read, which must not keep a node from
/// restarting.
///
/// # Errors
/// A [`Refusal`] that names the path.
pub fn check(config: &Config) -> Result<(), Refusal> {
    operator_tokens(config, &operator_token(config)?)?;
    keyring(config)?;
    peer_identity(config)?;
    webhook_authorities(config)?;
    media_secret(config)?;
    for (section, tls) in [(API_TLS, &config.api.tls), (OPS_TLS, &config.ops.tls)] {
        if let Some(tls) = tls {
            lasts(section, &certified(section, tls)?.cert, &tls.cert_file)?;
        }
    }
    for (key, path) in secret_files(config) {
        kept_secret(key, path)?;
    }
    writable(&config.node.data_dir)
}

/// The shared operator token, from the configuration or its file.
///
/// # Errors
/// A [`Refusal`] when the file cannot be read or the token is too weak.
pub fn operator_token(config: &Config) -> Result<Secret, Refusal> {
    let (subject, token) = wanted("ops.token", config.ops.token.as_ref(), config.ops.token_file.as_deref())?;
    validate::operator_token(&subject, &token.0)?;
    Ok(token)
}

/// All tokens accepted on the operators' port: the shared one, those in the configuration, and those in its file.
///
/// # Errors
/// A [`Refusal`] when the file cannot be read, or for its first invalid line.
pub fn operator_tokens(config: &Config, shared: &Secret) -> Result<Vec<OperatorToken>, Refusal> {
    let mut tokens = vec![OperatorToken::shared(&shared.0)];
    for token in &config.ops.tokens {
        let hash = validate::operator_hash("ops.tokens", &token.sha256)?;
        tokens.push(OperatorToken::named(token.name.clone(), hash, token.role));
    }
    let Some(path) = &config.ops.tokens_file else { return Ok(tokens) };
    let text = read("ops.tokens_file", path)?;
    for (index, line) in text.lines().enumerate() {
        let subject = format!("{}:{}", named("ops.tokens_file", path), index + 1);
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, role, hash) = match words[..] {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [name, role, hash] => (name, role, hash),
            _ => {
                return Err(Refusal::new(
                    subject,
                    "is not NAME ROLE SHA256",
                    "write one operator a line, or # before it",
                ));
            }
        };
        validate::operator_name(&subject, name)?;
        let Some(access) = Access::parse(role) else {
            return Err(Refusal::new(subject, format!("\"{role}\" is not a role"), "write read or write"));
        };
        let named = OperatorToken::named(name.to_owned(), validate::operator_hash(&subject, hash)?, access);
        let is_new = tokens.iter().all(|known| known.operator.name != named.operator.name);
        ensure(is_new, subject, "names an operator twice", "give every operator a different name")?;
        tokens.push(named);
    }
    Ok(tokens)
}

/// The master key and the previous one, from the configuration or their files.
///
/// # Errors
/// A [`Refusal`] when a file cannot be read or holds no key, or when both keys are the same.
pub fn keyring(config: &Config) -> Result<Keyring, Refusal> {
    let secrets = &config.secrets;
    let (key, file) = (secrets.master_key.as_ref(), secrets.master_key_file.as_deref());
    let (subject, current) = wanted("secrets.master_key", key, file)?;
    let current = validate::master_key(&subject, &current.0)?;
    let (key, file) = (secrets.previous_master_key.as_ref(), secrets.previous_master_key_file.as_deref());
    let Some((subject, previous)) = given("secrets.previous_master_key", key, file)? else {
        return Ok(Keyring::of(current));
    };
    let previous = validate::master_key(&subject, &previous.0)?;
    let remedy = "make a new key for secrets.master_key_file (openssl rand -hex 32), or leave this one out";
    ensure(previous.id() != current.id(), subject, "is the same key as the current one", remedy)?;
    Ok(Keyring { current, previous: Some(previous) })
}

/// Reads a master key from the file at `path`; `name` is the configuration key or flag that names the file.
///
/// # Errors
/// A [`Refusal`] when the file cannot be read or holds no key.
pub fn master_key(name: &str, path: &Path) -> Result<MasterKey, Refusal> {
    validate::master_key(&named(name, path), &read(name, path)?)
}

/// Additional authorities for receivers' certificates, in PEM.
///
/// # Errors
/// A [`Refusal`] when the file cannot be read or holds no certificate.
pub fn webhook_authorities(config: &Config) -> Result<Option<String>, Refusal> {
    let path = config.webhooks.ca_file.as_deref();
    path.map(|path| certificates("webhooks.ca_file", path).map(|(pem, _)| pem)).transpose()
}

/// The secret key of the media bucket, from the configuration or its file; `None` if media is not stored in a bucket.
///
/// # Errors
/// A [`Refusal`] when the file cannot be read.
pub fn media_secret(config: &Config) -> Result<Option<Secret>, Refusal> {
    config.media.bucket().map(bucket_secret).transpose()
}

/// The secret key of a bucket.
///
/// # Errors
/// A [`Refusal`] when it is not configured, or its file cannot be read.
pub fn bucket_secret(s3: &MediaBucket) -> Result<Secret, Refusal> {
    let (key, file) = (s3.secret_access_key.as_ref(), s3.secret_access_key_file.as_deref());
    Ok(wanted("media.s3.secret_access_key", key, file)?.1)
}

/// A node's certificate and key for connections to peers, and the authorities that it trusts: PEM, validated.
#[derive(Clone, Debug)]
pub struct PeerIdentity {
    pub ca_pem: String,
    pub cert_pem: String,
    pub key_pem: Secret,
}

/// The certificate that this node issued to itself, followed by its key, in the data folder. The certificate of the
/// configuration is only the first one.
pub const RENEWED_FILE: &str = "peer.pem";

/// The sealed authority, copied from the directory into the data folder. It is needed when no other node can be asked,
/// and because the authority may have been rotated since the configuration was written.
pub const AUTHORITY_FILE: &str = "authority.json";

/// The authority in the data folder; `None` if there is none or it cannot be read.
pub fn kept_authority(config: &Config) -> Option<AuthorityRecord> {
    serde_json::from_slice(&std::fs::read(config.node.data_dir.join(AUTHORITY_FILE)).ok()?).ok()
}

/// The trusted authorities in PEM, the one that signs first: that of the configuration's file until it has been
/// rotated, and both authorities during a rotation.
pub fn trusted(kept: Option<&AuthorityRecord>, ca_file: &str) -> String {
    let rotated = kept.filter(|kept| kept.rotated_at.is_some());
    let present = rotated.map_or(ca_file, |kept| &kept.certificate);
    let beside = match kept.and_then(|kept| kept.rotation.as_ref()).map(|rotation| &rotation.step) {
        Some(AuthorityStep::Announced { certificate, .. }) => certificate,
        Some(AuthorityStep::Overlapping { former }) => former,
        Some(AuthorityStep::Wanted) | None => return present.to_owned(),
    };
    format!("{}\n{beside}", present.trim_end())
}

/// Reads the peer files, checks that they match each other and this node, and returns the newer of two certificates:
/// the configuration's, or the one that the node issued to itself.
///
/// # Errors
/// A [`Refusal`] when a file cannot be read or the key belongs to another certificate; also, unless the node has issued
/// itself a valid one, when the certificate has expired, was signed by another authority, or names another node.
pub fn peer_identity(config: &Config) -> Result<PeerIdentity, Refusal> {
    let (given, judged) = given_identity(config)?;
    let renewed = renewed_identity(config, &given.ca_pem);
    match (judged, renewed) {
        (Ok(()), Some(renewed)) if begins_at(&renewed) > begins_at(&given) => Ok(renewed),
        (Ok(()), _) => Ok(given),
        (Err(_), Some(renewed)) => Ok(renewed),
        (Err(refusal), None) => Err(refusal),
    }
}

/// Start of the validity of an identity's certificate.
pub fn begins_at(identity: &PeerIdentity) -> Option<Timestamp> {
    tls::begins_at(&CertificateDer::from_pem_slice(identity.cert_pem.as_bytes()).ok()?)
}

/// Expiry of an identity's certificate.
pub fn lasts_until(identity: &PeerIdentity) -> Option<Timestamp> {
    tls::expires_at(&CertificateDer::from_pem_slice(identity.cert_pem.as_bytes()).ok()?)
}

/// The certificate that the node issued to itself, if the trusted authorities still verify it.
fn renewed_identity(config: &Config, ca_pem: &str) -> Option<PeerIdentity> {
    let pem = std::fs::read_to_string(config.node.data_dir.join(RENEWED_FILE)).ok()?;
    let (cert_pem, key_pem) = pem.split_at(pem.find("-----BEGIN PRIVATE KEY-----")?);
    let chain = CertificateDer::pem_slice_iter(cert_pem.as_bytes()).collect::<Result<Vec<_>, _>>().ok()?;
    belong_together(RENEWED_FILE, RENEWED_FILE, &chain, key_pem).ok()?;
    proves(ca_pem, cert_pem, config.node.id).ok()?;
    Some(PeerIdentity { ca_pem: ca_pem.to_owned(), cert_pem: cert_pem.to_owned(), key_pem: Secret(key_pem.to_owned()) })
}

/// The identity of the configuration's files, and whether it is valid for this node.
///
/// # Errors
/// A [`Refusal`] when a file cannot be read or the key belongs to another certificate.
pub fn given_identity(config: &Config) -> Result<(PeerIdentity, Result<(), Refusal>), Refusal> {
    let peer = &config.peer;
    let (ca_file, authority) = certificates("peer.ca_file", &peer.ca_file)?;
    let ca_pem = trusted(kept_authority(config).as_ref(), &ca_file);
    let authority = CertificateDer::pem_slice_iter(ca_pem.as_bytes()).collect::<Result<_, _>>().unwrap_or(authority);
    let (cert_pem, chain) = certificates("peer.cert_file", &peer.cert_file)?;
    let key_pem = read("peer.key_file", &peer.key_file)?;
    let key_subject = named("peer.key_file", &peer.key_file);
    belong_together(&key_subject, "peer.cert_file", &chain, &key_pem)?;

    let cert_subject = named("peer.cert_file", &peer.cert_file);
    let (Some((own, intermediates)), name) = (chain.split_first(), node_name(config.node.id)) else {
        return Err(Refusal::new(cert_subject, "is empty", "name the node's certificate"));
    };
    let judged = verify(&authority, own, intermediates, &name).map_err(|problem| {
        Refusal::new(cert_subject, problem, format!("have peer.ca_file sign a certificate for {name}"))
    });
    Ok((PeerIdentity { ca_pem, cert_pem, key_pem: Secret(key_pem) }, judged))
}

/// Configuration sections with the certificates of the ports.
pub const API_TLS: &str = "api.tls";
pub const OPS_TLS: &str = "ops.tls";

/// Reads the certificate and key of a port from the files of its section.
///
/// # Errors
/// A [`Refusal`] when a file cannot be read or the key belongs to another certificate.
pub fn certified(section: &str, tls: &ApiTls) -> Result<CertifiedKey, Refusal> {
    let [cert_key, key_key] = ["cert_file", "key_file"].map(|key| format!("{section}.{key}"));
    let (_, chain) = certificates(&cert_key, &tls.cert_file)?;
    let key_pem = read(&key_key, &tls.key_file)?;
    belong_together(&named(&key_key, &tls.key_file), &cert_key, &chain, &key_pem)
}

/// Like [`certified`], for a replacement: the current certificate may still be valid, so an expired one is refused.
///
/// # Errors
/// As [`certified`], and when the certificate has expired.
pub fn renewed(section: &str, tls: &ApiTls) -> Result<CertifiedKey, Refusal> {
    let certified = certified(section, tls)?;
    // Only the leaf must be valid: clients may know another path from it to an authority.
    lasts(section, certified.cert.get(..1).unwrap_or_default(), &tls.cert_file)?;
    Ok(certified)
}

/// Checks that the private key belongs to the first certificate of `chain`; `cert_key` names the certificate in the
/// refusal.
fn belong_together(
    subject: &str,
    cert_key: &str,
    chain: &[CertificateDer<'static>],
    key_pem: &str,
) -> Result<CertifiedKey, Refusal> {
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).map_err(|_| {
        let remedy = format!("name the key that belongs to {cert_key}");
        Refusal::new(subject, "holds no PEM private key", remedy)
    })?;
    let signing = ring::default_provider()
        .key_provider
        .load_private_key(key)
        .map_err(|error| Refusal::new(subject, error, "use an ECDSA P-256, Ed25519 or RSA key"))?;
    let certified = CertifiedKey::new(chain.to_vec(), signing);
    certified.keys_match().map_err(|_| {
        Refusal::new(subject, format!("is not the key of {cert_key}"), "name the pair that was made together")
    })?;
    Ok(certified)
}

/// Checks that a node's certificate is valid for it under an authority, as a peer would.
///
/// # Errors
/// The reason, if it is not.
pub fn proves(ca_pem: &str, cert_pem: &str, id: model::id::NodeId) -> Result<(), String> {
    let parse = |pem: &str| CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
    let (authority, chain) = (parse(ca_pem), parse(cert_pem));
    let (Ok(authority), Ok(chain)) = (authority, chain) else { return Err("it is not a PEM certificate".to_owned()) };
    let (own, intermediates) = chain.split_first().ok_or("it holds no certificate")?;
    verify(&authority, own, intermediates, &node_name(id))
}

/// Verifies a certificate as a peer does.
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
        _ => Err(Refusal::new(named(key, path), "holds no PEM certificate", "name a PEM file with certificates")),
    }
}

/// A secret from the configuration, or from the file that it names, together with its source.
fn given(key: &str, secret: Option<&Secret>, file: Option<&Path>) -> Result<Option<(String, Secret)>, Refusal> {
    let in_file = format!("{key}_file");
    Ok(match (secret, file) {
        (Some(secret), _) => Some((key.to_owned(), secret.clone())),
        (None, Some(path)) => Some((named(&in_file, path), Secret(read(&in_file, path)?.trim().to_owned()))),
        (None, None) => None,
    })
}

fn wanted(key: &str, secret: Option<&Secret>, file: Option<&Path>) -> Result<(String, Secret), Refusal> {
    let missing = || Refusal::new(format!("{key}_file"), "is missing", format!("set it, or {key}"));
    given(key, secret, file)?.ok_or_else(missing)
}

fn read(key: &str, path: &Path) -> Result<String, Refusal> {
    std::fs::read_to_string(path)
        .map_err(|error| Refusal::new(named(key, path), error, "name a file that this process may read"))
}

fn named(key: &str, path: &Path) -> String {
    format!("{key} ({})", path.display())
}

/// Checks that no certificate of a port's chain has expired.
fn lasts(section: &str, chain: &[CertificateDer<'static>], path: &Path) -> Result<(), Refusal> {
    let until = chain.iter().filter_map(expires_at).min();
    match until.filter(|until| *until <= Timestamp::now()) {
        Some(until) => {
            let problem = format!("expired at {until}");
            let subject = named(&format!("{section}.cert_file"), path);
            Err(Refusal::new(subject, problem, "renew it; no client accepts it"))
        }
        None => Ok(()),
    }
}

/// Files that only the node should be able to read.
fn secret_files(config: &Config) -> impl Iterator<Item = (&'static str, &Path)> {
    let s3 = config.media.bucket().and_then(|s3| s3.secret_access_key_file.as_deref());
    let named = [
        ("ops.token_file", config.ops.token_file.as_deref()),
        ("secrets.master_key_file", config.secrets.master_key_file.as_deref()),
        ("secrets.previous_master_key_file", config.secrets.previous_master_key_file.as_deref()),
        ("peer.key_file", Some(config.peer.key_file.as_path())),
        ("peer.ca_key_file", config.peer.ca_key_file.as_deref()),
        ("api.tls.key_file", config.api.tls.as_ref().map(|tls| tls.key_file.as_path())),
        ("ops.tls.key_file", config.ops.tls.as_ref().map(|tls| tls.key_file.as_path())),
        ("media.s3.secret_access_key_file", s3),
    ];
    named.into_iter().filter_map(|(key, path)| path.map(|path| (key, path)))
}

/// Group access is allowed, since containers often get their files through a group; access for others is not. The
/// authority's key may be missing: it is not needed after the first start.
fn kept_secret(key: &str, path: &Path) -> Result<(), Refusal> {
    const OTHERS: u32 = 0o007;
    let mode = match std::fs::metadata(path) {
        Ok(metadata) => metadata.permissions().mode() & 0o777,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(Refusal::new(named(key, path), error, "name a file that this process may read"));
        }
    };
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let problem = format!("is open to every user of the machine (mode {mode:04o})");
    Err(Refusal::new(named(key, path), problem, format!("close it: chmod o= {}", path.display())))
}

/// Writes a probe into the data folder. A missing folder is created for the probe and removed afterwards.
fn writable(folder: &Path) -> Result<(), Refusal> {
    let missing = folder.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
    let missing: Vec<&Path> = missing.collect();
    let probe = folder.join(".probe");
    let written = make_private_folder(folder)
        .and_then(|()| std::fs::write(&probe, b""))
        .and_then(|()| std::fs::remove_file(&probe));
    // Deepest folder first; folders that could not be created are skipped.
    let removed = missing.into_iter().try_for_each(|path| match std::fs::remove_dir(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    });
    written.and(removed).map_err(|error| {
        let remedy = "name a folder that this process may write, or make it for the user that runs the node";
        Refusal::new(named("node.data_dir", folder), error, remedy)
    })
}
