//! Messages between a new node and the cluster. They travel over TLS, which authenticates the cluster; the token
//! authenticates the new node.

use model::format::Format;
use model::id::NodeId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::config::Secret;

/// Version of both messages.
pub const VERSION: u8 = 1;

/// A new node's request.
#[derive(Debug, Serialize, Deserialize)]
pub struct Question {
    pub version: u8,
    /// Hash of the node's token.
    pub token: [u8; 32],
    /// Storage id of the node's data folder: the same folder may ask again.
    pub storage_id: Uuid,
    /// `host:port` at which the other nodes will reach the new one.
    pub peer: String,
    pub zone: String,
    /// Whether the operator has named the zone; release 0.2.0 does not send this.
    #[serde(default = "yes")]
    pub names_zone: bool,
    pub weight: u32,
    pub max_channels: u32,
    /// The highest format that the node understands; release 0.1.0 does not send this.
    #[serde(default)]
    pub format: Format,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    Welcome(Box<Welcome>),
    /// The reason, for people.
    Refused(String),
}

/// Everything that a new node needs.
#[derive(Debug, Serialize, Deserialize)]
pub struct Welcome {
    pub id: NodeId,
    pub ca_pem: String,
    pub cert_pem: String,
    pub key_pem: Secret,
    /// The master key, in hex.
    pub master_key: Secret,
    /// The previous master key, while the operator replaces it.
    #[serde(default)]
    pub previous_master_key: Option<Secret>,
    pub operator_token: Secret,
    /// The answering node's configuration (TOML), from which the new node takes the settings of the whole cluster.
    pub config: Secret,
    /// Members of the cluster, with their `host:port`.
    pub nodes: Vec<(NodeId, String)>,
    /// Format of the cluster; release 0.1.0 does not send this.
    #[serde(default)]
    pub format: Format,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::msgpack;

    use super::*;

    #[test]
    fn what_is_said_is_understood_and_secrets_do_not_show() {
        let question = Question {
            version: VERSION,
            token: [3; 32],
            storage_id: Uuid::from_u128(1),
            peer: "node-2.lan:8082".to_owned(),
            zone: "b".to_owned(),
            names_zone: false,
            weight: 1,
            max_channels: 10,
            format: Format::LATEST,
        };
        let said = msgpack::to_vec_named(&question).unwrap();
        let understood = msgpack::from_slice::<Question>(&said).unwrap();
        assert_eq!((understood.peer, understood.names_zone), (question.peer, false));
        let welcome = Welcome {
            id: 2,
            ca_pem: String::new(),
            cert_pem: String::new(),
            key_pem: Secret("sesame".to_owned()),
            master_key: Secret("sesame".to_owned()),
            previous_master_key: Some(Secret("sesame".to_owned())),
            operator_token: Secret("sesame".to_owned()),
            config: Secret("sesame".to_owned()),
            nodes: vec![(1, "node-1.lan:8082".to_owned())],
            format: Format::LATEST,
        };
        let said = msgpack::to_vec_named(&Answer::Welcome(Box::new(welcome))).unwrap();
        let understood: Answer = msgpack::from_slice(&said).unwrap();
        assert!(!format!("{understood:?}").contains("sesame"));
    }
}
