//! Certificates for connections between nodes: an authority of this cluster only, and one certificate per node.

use std::time::Duration;

use chrono::Datelike;
use model::id::NodeId;
use model::time::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::config::files::node_name;

/// Lifetime of the authority: long, because only an operator rotates it.
const AUTHORITY_YEARS: i32 = 10;

/// How far in the past a certificate's validity begins, to allow for clock skew.
pub const BACKDATED: Duration = Duration::from_secs(24 * 3600);

/// A certificate and its private key, in PEM.
#[derive(Clone)]
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

/// A cluster's authority with its key.
pub struct Authority {
    pub pair: Pair,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates a new authority.
    ///
    /// # Errors
    /// The system provides no randomness.
    pub fn create() -> Result<Self, rcgen::Error> {
        let (params, key) = (authority_params(), KeyPair::generate()?);
        let pair = Pair { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() };
        Ok(Self { pair, issuer: Issuer::new(params, key) })
    }

    /// Loads an existing authority from its certificate and key.
    ///
    /// # Errors
    /// The key is not valid PEM.
    pub fn restore(pair: Pair) -> Result<Self, rcgen::Error> {
        let key = KeyPair::from_pem(&pair.key)?;
        Ok(Self { pair, issuer: Issuer::new(authority_params(), key) })
    }

    /// Issues a certificate for a node, valid for `life` from now. It is good for both directions: a node is client and
    /// server.
    ///
    /// # Errors
    /// The system provides no randomness.
    pub fn issue(&self, node: NodeId, life: Duration) -> Result<Pair, rcgen::Error> {
        let name = node_name(node);
        let mut params = CertificateParams::new(vec![name.clone()])?;
        let now =
            rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(Timestamp::now().unix_seconds().unsigned_abs());
        (params.not_before, params.not_after) = (now - BACKDATED, now + life);
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        Ok(Pair { certificate: params.signed_by(&key, &self.issuer)?.pem(), key: key.serialize_pem() })
    }
}

/// Always the same names and usages: an issuer derives what it writes into certificates from them and from the key.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    live_for_years(&mut params);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.distinguished_name.push(DnType::CommonName, "gateway cluster authority");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Validity of [`AUTHORITY_YEARS`] years from the first day of last month, so that a clock that lags a little accepts
/// it.
fn live_for_years(params: &mut CertificateParams) {
    let now = chrono::DateTime::UNIX_EPOCH + chrono::TimeDelta::milliseconds(Timestamp::now().0);
    let start = now - chrono::Days::new(31);
    let month = u8::try_from(start.month()).expect("a month is 1 to 12");
    params.not_before = rcgen::date_time_ymd(start.year(), month, 1);
    params.not_after = rcgen::date_time_ymd(start.year() + AUTHORITY_YEARS, month, 1);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::io::{Read, Write};
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::server::WebPkiClientVerifier;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

    use super::*;

    const LIFE: Duration = crate::config::Peer::CERTIFICATE_LIFE;

    fn roots(authority: &Authority) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pair.certificate.as_bytes()).unwrap()).unwrap();
        Arc::new(roots)
    }

    fn identity(pair: &Pair) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
        (vec![certificate], PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap())
    }

    /// Handshakes in memory: `caller` connects to `callee`, and expects the name of node `called`.
    fn handshake(trusted: &Authority, caller: &Pair, callee: &Pair, called: NodeId) -> Result<(), String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (chain, key) = identity(caller);
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots(trusted))
            .with_client_auth_cert(chain, key)
            .unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots(trusted), provider.clone()).build().unwrap();
        let (chain, key) = identity(callee);
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .unwrap();
        let mut client = ClientConnection::new(Arc::new(client), node_name(called).try_into().unwrap()).unwrap();
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();

        client.writer().write_all(b"hello").unwrap();
        for _ in 0..8 {
            let mut wire = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut wire).unwrap();
            }
            server.read_tls(&mut wire.as_slice()).unwrap();
            server.process_new_packets().map_err(|error| format!("server: {error}"))?;
            let mut wire = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut wire).unwrap();
            }
            client.read_tls(&mut wire.as_slice()).unwrap();
            client.process_new_packets().map_err(|error| format!("client: {error}"))?;
        }
        let mut heard = [0; 5];
        server.reader().read_exact(&mut heard).map_err(|error| error.to_string())?;
        if &heard == b"hello" { Ok(()) } else { Err(format!("{heard:?}")) }
    }

    #[test]
    fn nodes_of_one_authority_shake_hands_under_their_names() {
        let authority = Authority::create().unwrap();
        let (one, two) = (authority.issue(1, LIFE).unwrap(), authority.issue(2, LIFE).unwrap());
        handshake(&authority, &one, &two, 2).unwrap();
        let wrong_name = handshake(&authority, &one, &two, 3).unwrap_err();
        assert!(wrong_name.contains("NotValidForName") || wrong_name.contains("not valid for name"), "{wrong_name}");
    }

    #[test]
    fn a_certificate_lives_for_months_and_not_as_long_as_its_authority() {
        let issued = Authority::create().unwrap().issue(1, LIFE).unwrap();
        let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
        let until = raft::transport::tls::expires_at(&certificate).unwrap();
        let (from, now) = (raft::transport::tls::begins_at(&certificate).unwrap(), Timestamp::now());
        let minute = Duration::from_secs(60);
        assert!(until <= now.plus(LIFE) && until.plus(minute) > now.plus(LIFE), "{until}");
        assert!(from.plus(BACKDATED) <= now && from.plus(BACKDATED + minute) > now, "{from}");
    }

    #[test]
    fn a_restored_authority_issues_what_the_first_would_have() {
        let authority = Authority::create().unwrap();
        let again = Authority::restore(authority.pair.clone()).unwrap();
        handshake(&authority, &authority.issue(1, LIFE).unwrap(), &again.issue(2, LIFE).unwrap(), 2).unwrap();
    }

    #[test]
    fn a_node_of_another_authority_is_refused_in_both_directions() {
        let (authority, foreign) = (Authority::create().unwrap(), Authority::create().unwrap());
        let (own, stranger) = (authority.issue(1, LIFE).unwrap(), foreign.issue(2, LIFE).unwrap());
        assert!(handshake(&authority, &own, &stranger, 2).unwrap_err().starts_with("client"));
        assert!(handshake(&authority, &stranger, &own, 1).unwrap_err().starts_with("server"));
    }
}
