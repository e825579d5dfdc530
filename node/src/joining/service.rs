//! Admits new nodes, on any node of the cluster: the directory checks the token and assigns the id, and the cluster's
//! authority, whose sealed key is in the directory, signs the certificate.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use model::format::Format;
use model::id::NodeId;
use model::msgpack;
use model::seal::Keyring;
use model::time::Timestamp;
use raft::directory::UpdateError;
use raft::directory::command::{Command, Rejection, Reply};
use raft::directory::members::{AuthorityRecord, MemberCommand, NodeState};
use raft::directory::records::NodeRecord;
use raft::transport::unauthenticated::UnauthenticatedHandler;
use shard::cluster::Cluster;
use shard::secrets::Secrets;
use tokio_util::sync::CancellationToken;

use super::audit::{JoiningNode, Written};
use super::place::MasterKeys;
use super::words::{Answer, Question, VERSION, Welcome};
use crate::cli::joining::NodeArgs;
use crate::config::{Config, HostPort, Peer, Secret, files};
use crate::pki::{Authority, Pair};

/// Timeout of the directory; shorter than the joining node's.
const PATIENCE: Duration = Duration::from_secs(15);

/// Interval between two attempts to store the authority in the directory.
const AGAIN: Duration = Duration::from_millis(100);

/// Longest zone, and longest `host:port`, that of the longest DNS name. The client is not authenticated, and the audit
/// log records its address.
const LONGEST_ZONE: usize = 255;
const LONGEST_PEER: usize = 253 + ":65535".len();

/// Handles `gateway join`.
pub struct JoinService {
    pub cluster: Arc<Cluster>,
    pub config: Config,
    pub keyring: Keyring,
    pub operator_token: Secret,
    /// Refusals already written to the audit log.
    pub written: Written,
}

#[async_trait]
impl UnauthenticatedHandler for JoinService {
    async fn answer(&self, question: Bytes, from: IpAddr) -> Bytes {
        let answer = match msgpack::from_slice::<Question>(&question) {
            Ok(question) if question.version == VERSION => match self.welcome(question, from).await {
                Ok(welcome) => Answer::Welcome(Box::new(welcome)),
                Err(reason) => Answer::Refused(reason),
            },
            _ => Answer::Refused("this release does not understand the question: join with the cluster's own".into()),
        };
        Bytes::from(msgpack::to_vec_named(&answer).expect("an answer of plain fields is always written"))
    }
}

impl JoinService {
    async fn welcome(&self, question: Question, from: IpAddr) -> Result<Welcome, String> {
        let format = self.cluster.directory().format();
        fits(question.format, format)?;
        let authority = self.authority()?;
        are_short(&question.peer, &question.zone)?;
        let peer: HostPort = question.peer.parse()?;
        if peer.is_unspecified() {
            return Err(format!("{peer} is no address that other machines reach"));
        }
        let limits = (1..=1_000).contains(&question.weight) && question.max_channels > 0;
        if !limits || question.zone.trim().is_empty() {
            return Err("the node's zone is empty, or its weight or max_channels out of bounds".to_owned());
        }
        if !question.names_zone {
            self.has_no_zones(&question.token)?;
        }
        let (now, deadline) = (Timestamp::now(), Instant::now() + PATIENCE);
        let is_unknown = self.is_unknown(&question.token, deadline).await;
        let node = NodeRecord {
            id: 0,
            storage_id: question.storage_id,
            peer: peer.to_string(),
            zone: Some(question.zone),
            weight: question.weight,
            max_channels: question.max_channels,
            registered_at: now,
            state: NodeState::Joining,
            configured_weight: question.weight,
        };
        let join = Command::Members(MemberCommand::Join { token: question.token, node });
        let directory = self.cluster.directory();
        // In a cluster with earlier releases, the state machine does not check this yet.
        let repeated = directory.read(|state| {
            let token = state.token(&question.token)?;
            (token.used_by == Some(question.storage_id)).then(|| state.may_ask_again(token, now).map(drop))
        });
        let address = peer.to_string();
        let joining = JoiningNode { from, peer: &address, storage_id: question.storage_id };
        let joined = match repeated {
            _ if is_unknown => Err(UpdateError::Rejected(Rejection::TokenUnknown)),
            Some(Err(rejection)) => Err(UpdateError::Rejected(rejection)),
            _ => directory.update(join, vec![joining.joined(now)], deadline).await,
        };
        let id = match joined {
            Ok(Reply::Node(node)) => node.id,
            Ok(_) => return Err("the directory answered with another kind of record".to_owned()),
            Err(UpdateError::Rejected(rejection)) => {
                if let Some(entry) = joining.refused(&rejection, now).filter(|entry| self.written.is_news(entry))
                    && let Err(error) = directory.update(Command::Audit, vec![entry.clone()], deadline).await
                {
                    self.written.remove(&entry);
                    tracing::warn!(%error, %from, %rejection, "a refused token could not be written to the audit log");
                }
                return Err(rejection.to_string());
            }
            Err(error @ (UpdateError::Format { .. } | UpdateError::TooLarge { .. })) => return Err(error.to_string()),
            Err(UpdateError::Unavailable) => return Err("the cluster has no leader right now; try again".to_owned()),
        };
        tracing::info!(node = id, peer = %peer, "a node is admitted");
        let Pair { certificate, key } =
            authority.issue(id, self.config.peer.certificate_life.0).map_err(|error| error.to_string())?;
        let nodes: Vec<(NodeId, String)> =
            directory.read(|state| state.nodes.values().map(|node| (node.id, node.peer.clone())).collect());
        let keys = MasterKeys::of(&self.keyring);
        Ok(Welcome {
            id,
            ca_pem: self.trusted(&authority),
            cert_pem: certificate,
            key_pem: Secret(key),
            master_key: keys.current,
            previous_master_key: keys.previous,
            operator_token: Secret(format!("{}\n", self.operator_token.0)),
            config: Secret(toml::to_string(&self.config).map_err(|error| error.to_string())?),
            nodes,
            format,
        })
    }

    /// Whether no such token was ever issued, according to a fresh copy of the directory: invented tokens are not worth
    /// a log entry. If the copy cannot be refreshed, the directory decides.
    async fn is_unknown(&self, token: &[u8; 32], deadline: Instant) -> bool {
        let directory = self.cluster.directory();
        let is_known = || directory.read(|state| state.token(token).is_some());
        !is_known() && directory.refresh(deadline).await.is_ok() && !is_known()
    }

    /// Refuses a node whose operator names no zone, if the cluster has zones: its replicas would not be spread.
    fn has_no_zones(&self, token: &[u8; 32]) -> Result<(), String> {
        let (zones, is_known) = self.cluster.directory().read(|state| {
            let zones: BTreeSet<String> = state.nodes.values().filter_map(|node| node.zone.clone()).collect();
            (zones, state.token(token).is_some())
        });
        judge_zones(&zones, is_known)
    }

    /// The authorities that a new node trusts, first the one that signed its certificate.
    fn trusted(&self, authority: &Authority) -> String {
        let kept = self.cluster.directory().read(|state| state.authority.clone());
        files::trusted(kept.as_deref(), &authority.pair.certificate)
    }

    fn authority(&self) -> Result<Authority, String> {
        let kept = self.cluster.directory().read(|state| state.authority.clone());
        let kept =
            kept.ok_or("the cluster does not have its authority's key: set peer.ca_key_file on one of its nodes")?;
        open(&kept, self.cluster.secrets())
    }
}

/// The cluster's authority, with its key decrypted.
///
/// # Errors
/// Why it cannot be decrypted here.
pub fn open(kept: &AuthorityRecord, secrets: &Secrets) -> Result<Authority, String> {
    let key = secrets.open_authority(&kept.key).map_err(|error| error.to_string())?;
    Authority::restore(Pair { certificate: kept.certificate.clone(), key }).map_err(|error| error.to_string())
}

/// Limits what a node reports about itself, which is stored and shown to operators: far below the size limit of the
/// request.
fn are_short(peer: &str, zone: &str) -> Result<(), String> {
    if peer.len() > LONGEST_PEER {
        return Err(format!("the node's address has more than {LONGEST_PEER} characters"));
    }
    if zone.len() > LONGEST_ZONE {
        return Err(format!("the node's zone has more than {LONGEST_ZONE} characters"));
    }
    Ok(())
}

/// Zones are named only to clients with a known token.
fn judge_zones(zones: &BTreeSet<String>, asker_is_known: bool) -> Result<(), String> {
    if zones.iter().all(|zone| zone == NodeArgs::ZONE) {
        return Ok(());
    }
    let named = match asker_is_known {
        true => format!(" ({})", zones.iter().cloned().collect::<Vec<_>>().join(", ")),
        false => String::new(),
    };
    Err(format!("the cluster has zones{named}: say with --zone in which one this machine is; the token is not used up"))
}

/// Whether a node that understands formats up to `understands` can be a member of a cluster with format `cluster`.
pub fn fits(understands: Format, cluster: Format) -> Result<(), String> {
    if understands < cluster {
        return Err(format!(
            "the cluster has format {cluster}, and the node's release understands formats up to {understands}: {}",
            cluster.remedy()
        ));
    }
    Ok(())
}

/// Stores the authority's key in the directory once the cluster is formed, unless it is there already.
pub async fn keep_authority(cluster: Arc<Cluster>, ca_pem: String, key_file: PathBuf, stop: CancellationToken) {
    let keeping = async {
        loop {
            let (is_formed, is_kept) =
                cluster.directory().read(|state| (state.cluster.is_some(), state.authority.is_some()));
            if is_kept {
                return;
            }
            if is_formed {
                match hand_over(&cluster, &ca_pem, &key_file).await {
                    Ok(()) => return,
                    Err(Kept::Later) => {}
                    Err(Kept::Never(error)) => {
                        tracing::warn!(error = format!("{error:#}"), "no node can be admitted: peer.ca_key_file");
                        return;
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    stop.run_until_cancelled(keeping).await;
}

/// Why the authority is not stored yet.
enum Kept {
    Later,
    Never(anyhow::Error),
}

async fn hand_over(cluster: &Cluster, ca_pem: &str, key_file: &PathBuf) -> Result<(), Kept> {
    let reading = || {
        let key = std::fs::read_to_string(key_file).with_context(|| key_file.display().to_string())?;
        let authority = Authority::restore(Pair { certificate: ca_pem.to_owned(), key: key.clone() })?;
        // An authority that was created elsewhere may have another name than the one written into certificates.
        let issued = authority.issue(1, Peer::CERTIFICATE_LIFE)?;
        files::proves(ca_pem, &issued.certificate, 1)
            .map_err(anyhow::Error::msg)
            .context("is not the key of an authority that gateway init has made")?;
        anyhow::Ok(key)
    };
    let key = reading().map_err(Kept::Never)?;
    let master = cluster.directory().read(|state| state.cluster.as_ref().map(|cluster| cluster.master()));
    let sealed = cluster.secrets().seal_authority(master.ok_or(Kept::Later)?, &key);
    let sealed = sealed.map_err(|error| Kept::Never(error.into()))?;
    let record = AuthorityRecord { certificate: ca_pem.to_owned(), key: sealed, rotated_at: None, rotation: None };
    let keep = Command::Members(MemberCommand::KeepAuthority(Box::new(record)));
    match cluster.directory().update(keep, Vec::new(), Instant::now() + PATIENCE).await {
        Ok(_) => Ok(()),
        Err(_) => Err(Kept::Later),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_names_no_zone_is_told_the_zones_if_it_has_a_token() {
        let judged = |zones: &[&str], known| judge_zones(&zones.iter().map(ToString::to_string).collect(), known);
        assert_eq!(judged(&["default"], true), Ok(()));
        assert_eq!(judged(&[], true), Ok(()));
        let told = judged(&["a", "b"], true);
        assert!(matches!(&told, Err(reason) if reason.contains("(a, b)") && reason.contains("--zone")), "{told:?}");
        assert!(judged(&["b", "default"], true).is_err());
        let stranger = judged(&["a", "b"], false);
        assert!(matches!(&stranger, Err(reason) if !reason.contains("a, b")), "{stranger:?}");
    }

    #[test]
    fn what_a_stranger_says_of_itself_is_short() {
        let name = "n".repeat(253);
        assert_eq!(are_short(&format!("{name}:65535"), &"z".repeat(LONGEST_ZONE)), Ok(()));
        assert!(are_short(&format!("{name}n:65535"), "z").is_err());
        assert!(are_short("node-2.lan:8082", &"z".repeat(LONGEST_ZONE + 1)).is_err());
    }
}
