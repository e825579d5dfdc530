//! The first messages on a connection: node, cluster, and class of traffic of the two sides.
//!
//! The certificates have proven which nodes they are; here each names its cluster and its data folder, and may be
//! refused with a reason that both log.

use std::time::Duration;

use model::format::Format;
use model::id::NodeId;
use model::msgpack;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Class, Identity, frame};

/// Version of the frames and their encoding after the hello. Nodes of different versions refuse each other. The content
/// of the frames depends on the cluster's format.
const PROTOCOL: u16 = 1;
const MAX_HELLO: u32 = 4096;

#[derive(Debug, Error)]
pub(super) enum HelloError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("the peer's hello is damaged")]
    Damaged,
    /// The peer refuses to talk to this node.
    #[error("{0}")]
    Refused(String),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    protocol: u16,
    pub(super) node: NodeId,
    cluster_id: [u8; 16],
    storage_id: [u8; 16],
    class: u8,
    /// Highest format that the node supports. The first release does not send it.
    #[serde(default)]
    pub(super) format: Format,
    /// How long, in ms, the node keeps to a leader that it has heard. Earlier releases do not send it.
    #[serde(default)]
    election_min: Option<u64>,
}

impl Hello {
    pub(super) fn new(node: NodeId, identity: &Identity, election_min: Duration, class: Class) -> Self {
        Self {
            protocol: PROTOCOL,
            node,
            cluster_id: *identity.cluster_id.as_bytes(),
            storage_id: *identity.storage_id.as_bytes(),
            class: class as u8,
            format: Format::LATEST,
            election_min: Some(millis(election_min)),
        }
    }

    pub(super) fn identity(&self) -> Identity {
        Identity {
            cluster_id: uuid::Uuid::from_bytes(self.cluster_id),
            storage_id: uuid::Uuid::from_bytes(self.storage_id),
        }
    }

    pub(super) fn class(&self) -> Option<Class> {
        Class::ALL.into_iter().find(|class| *class as u8 == self.class)
    }

    /// Why the two sides do not match; checked before the admission check.
    pub(super) fn mismatch(&self, ours: &Identity, election_min: Duration) -> Option<String> {
        if self.protocol != PROTOCOL {
            return Some(format!("peer protocol {} does not fit {PROTOCOL}", self.protocol));
        }
        let theirs = self.identity().cluster_id;
        if theirs != ours.cluster_id {
            return Some(format!("node {} is of cluster {theirs}, not of {}", self.node, ours.cluster_id));
        }
        // An owner relies on its own timing: with a shorter one, followers elect another leader earlier.
        let (theirs, ours) = (self.election_min?, millis(election_min));
        (theirs != ours).then(|| {
            format!(
                "node {} has another cluster.timing: its shortest election takes {theirs} ms, not {ours}",
                self.node
            )
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The accepting side's answer: its own hello, or the reason of a refusal.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Welcome(Hello),
    Refused(String),
}

pub(super) async fn send<T: Serialize>(stream: &mut (impl AsyncWrite + Unpin), value: &T) -> Result<(), HelloError> {
    // With field names, so that releases skip fields that they do not know.
    let body = msgpack::to_vec_named(value).map_err(|_| HelloError::Damaged)?;
    Ok(frame::write_alone(stream, &body).await?)
}

pub(super) async fn receive<T: DeserializeOwned>(stream: &mut (impl AsyncRead + Unpin)) -> Result<T, HelloError> {
    let body = frame::read_alone(stream, MAX_HELLO).await?;
    msgpack::from_slice(&body).map_err(|_| HelloError::Damaged)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const ELECTION_MIN: Duration = Duration::from_millis(300);

    /// The hello of release 0.1.0.
    #[derive(Debug, Serialize, Deserialize)]
    struct FirstHello {
        protocol: u16,
        node: NodeId,
        cluster_id: [u8; 16],
        storage_id: [u8; 16],
        class: u8,
    }

    #[tokio::test]
    async fn the_first_release_and_this_one_understand_each_other() {
        let identity = Identity { cluster_id: uuid::Uuid::from_u128(1), storage_id: uuid::Uuid::from_u128(2) };
        let mut wire = Vec::new();
        send(&mut wire, &Hello::new(7, &identity, ELECTION_MIN, Class::Log)).await.unwrap();
        let first: FirstHello = receive(&mut wire.as_slice()).await.unwrap();
        assert_eq!((first.node, first.class), (7, Class::Log as u8));
        // The first release encodes fields by position, without names.
        let body = msgpack::to_vec(&first).unwrap();
        let said = [&(body.len() as u32).to_be_bytes()[..], &body].concat();
        let hello: Hello = receive(&mut said.as_slice()).await.unwrap();
        assert_eq!((hello.format, hello.identity()), (Format::FIRST, identity));
        assert_eq!(hello.mismatch(&identity, ELECTION_MIN), None);
    }
}
