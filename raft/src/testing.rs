//! Helpers of this crate's tests: certificates, and peers on loopback.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use model::id::NodeId;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use uuid::Uuid;

use crate::transport::admission::{Admission, Port};
use crate::transport::tls::node_name;
use crate::transport::{Identity, PeerTls, PeersConfig};

/// A test's certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn issue(&self, node: NodeId) -> PeerTls {
        self.issue_until(node, 4096)
    }

    /// A certificate that expires at the beginning of `year`.
    pub(crate) fn issue_until(&self, node: NodeId, year: i32) -> PeerTls {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![node_name(node)]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        PeerTls { ca_pem: self.0.pem(), cert_pem: certificate.pem(), key_pem: key.serialize_pem() }
    }
}

/// Configuration of a node on a free loopback port; it knows no addresses and admits all nodes of its cluster.
pub(crate) fn peers_config(authority: &Authority, node: NodeId) -> PeersConfig {
    PeersConfig {
        node,
        listen: ([127, 0, 0, 1], 0).into(),
        identity: Identity { cluster_id: Uuid::from_u128(1), storage_id: Uuid::from_u128(u128::from(node)) },
        tls: authority.issue(node),
        lookup: Arc::new(|_| None),
        admit: Arc::new(|_, _, _, _| Ok(())),
        threads: 2,
        port: Port::new("peer", Admission::default()),
        election_min: Duration::from_millis(300),
    }
}
