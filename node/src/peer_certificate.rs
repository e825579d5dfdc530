//! The certificate that identifies this node to its peers. It is valid for months, and the node replaces it in time:
//! the directory holds the sealed key of the authority, which every node can open. So a stolen certificate is not valid
//! for years, and nobody has to watch an expiry date.
//!
//! The node's own certificate and its key are stored in one file in the data folder, so that a crash cannot leave one
//! without the other. A copy of the directory's sealed authority is stored beside it: when a whole cluster comes back
//! after its certificates have expired, no node can ask another for the key.
//!
//! The authority itself can be rotated (`raft::directory::authority`): each node updates its trusted authorities and
//! issues itself a certificate of the new one, and the directory's leader takes each step once all nodes are ready for
//! it.
//!
//! The directory of a cluster with an external authority has no key of it. There, the node reloads the configured
//! files, as they are replaced by the authority's operator.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use model::id::{AuditId, NodeId};
use model::seal::Keyring;
use model::time::Timestamp;
use parking_lot::RwLock;
use raft::directory::UpdateError;
use raft::directory::authority::{AuthorityCommand, AuthorityStep};
use raft::directory::command::Command;
use raft::directory::members::AuthorityRecord;
use raft::directory::records::{AuditActor, AuditEntry, AuditTarget};
use raft::supervise;
use raft::transport::{PeerTls, Peers};
use shard::cluster::Cluster;
use shard::report::{NodeReport, authority_id};
use shard::secrets::Secrets;
use tokio_util::sync::CancellationToken;

use crate::config::files::{self, AUTHORITY_FILE, PeerIdentity, RENEWED_FILE};
use crate::config::{Config, Secret};
use crate::joining::service;
use crate::key_files::write_private_durably;
use crate::pki::{Authority, BACKDATED, Pair};
use crate::refusal::Refusal;

/// Longest interval between two checks of expiry dates and files.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// How soon a change of the directory's authority is noticed, and the interval between two steps of a rotation.
const STEP_EVERY: Duration = Duration::from_secs(1);

/// Timeout for a node to report its trusted authorities, and for the directory to commit a step.
const PATIENCE: Duration = Duration::from_secs(5);

/// The identity that is shown to peers.
pub type Shown = Arc<RwLock<PeerIdentity>>;

pub fn peer_tls(identity: PeerIdentity) -> PeerTls {
    PeerTls { ca_pem: identity.ca_pem, cert_pem: identity.cert_pem, key_pem: identity.key_pem.0 }
}

/// Issues a certificate for a node whose certificate expired while the cluster was down, with the authority stored in
/// its data folder; `None` if that is not possible. Nothing is written.
pub fn rescue(config: &Config, keyring: &Keyring, refusal: &Refusal) -> Option<PeerIdentity> {
    let kept = files::kept_authority(config)?;
    let authority = service::open(&kept, &Secrets::new(keyring.clone())).ok()?;
    let (given, _) = files::given_identity(config).ok()?;
    let issued = issue(&authority, &given.ca_pem, config.node.id, config.peer.certificate_life.0).ok()?;
    tracing::warn!(%refusal, "the certificate of this node is no longer valid: it has created another one");
    Some(issued)
}

fn issue(authority: &Authority, ca_pem: &str, node: NodeId, life: Duration) -> anyhow::Result<PeerIdentity> {
    let Pair { certificate, key } = authority.issue(node, life)?;
    if let Err(problem) = files::proves(ca_pem, &certificate, node) {
        bail!("peer.ca_file is not the authority of the cluster: {problem}");
    }
    Ok(PeerIdentity { ca_pem: ca_pem.to_owned(), cert_pem: certificate, key_pem: Secret(key) })
}

/// Whether a new certificate should be issued: at half of the lifetime, which leaves as much time again to fix whatever
/// prevents it, or when the current one lives longer than configured.
fn is_due(identity: &PeerIdentity, life: Duration, now: Timestamp) -> bool {
    let left = files::lasts_until(identity).map_or(Duration::ZERO, |until| until.since(now));
    left < life / 2 || left > life + BACKDATED
}

/// Renews this node's certificate in time.
pub struct Renewal {
    pub cluster: Arc<Cluster>,
    pub peers: Arc<Peers>,
    pub config: Config,
    pub shown: Shown,
}

impl Renewal {
    /// Checks the expiry dates until `stop` is cancelled.
    pub async fn keep(self, stop: CancellationToken) {
        metrics::describe_counter!(
            "gateway_peer_certificate_renewals_total",
            "Certificates by which other nodes know this one that took the place of an earlier one."
        );
        metrics::describe_gauge!(
            "gateway_peer_certificate_seconds_left",
            metrics::Unit::Seconds,
            "Until the certificate by which other nodes know this one expires."
        );
        metrics::counter!("gateway_peer_certificate_renewals_total").increment(0);
        let mut kept = None;
        let mut told = None;
        let look_every = LOOK_EVERY.min(self.config.peer.certificate_life.0 / 12);
        let mut looked_at: Option<Instant> = None;
        loop {
            let authority = self.cluster.directory().read(|state| state.authority.clone());
            let looked = match looked_at.is_some_and(|at| at.elapsed() < look_every) && authority == kept {
                true => Ok(()),
                false => {
                    looked_at = Some(Instant::now());
                    self.look(authority.clone(), &mut kept).await
                }
            };
            let stepped = match looked {
                Ok(()) => self.rotate(authority).await,
                Err(error) => Err(error),
            };
            if let Err(error) = stepped {
                // Logged once per reason: without an operator, a failure can last for days.
                let error = format!("{error:#}");
                if told.as_ref() != Some(&error) {
                    tracing::error!(error, "this node's certificate, or the nodes' authority, could not be renewed");
                }
                told = Some(error);
            }
            let left = files::lasts_until(&self.shown.read()).map_or(0, |until| until.0 - Timestamp::now().0);
            metrics::gauge!("gateway_peer_certificate_seconds_left").set(left as f64 / 1000.0);
            let pause = STEP_EVERY.min(look_every);
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    async fn look(
        &self,
        authority: Option<Arc<AuthorityRecord>>,
        kept: &mut Option<Arc<AuthorityRecord>>,
    ) -> anyhow::Result<()> {
        if let Some(authority) = authority.as_ref().filter(|authority| kept.as_ref() != Some(*authority)) {
            let text = serde_json::to_string(&**authority).context("writing the sealed authority")?;
            write(self.config.node.data_dir.join(AUTHORITY_FILE), text).await?;
            *kept = Some(authority.clone());
        }
        self.take_up_given().await?;
        let (shown, life) = (self.shown.read().clone(), self.config.peer.certificate_life.0);
        let is_due = |authority: &Arc<AuthorityRecord>| {
            let is_of_another = authority.rotated_at.is_some()
                && files::proves(&authority.certificate, &shown.cert_pem, self.config.node.id).is_err();
            is_of_another || is_due(&shown, life, Timestamp::now())
        };
        let Some(authority) = authority.filter(is_due) else { return Ok(()) };
        let authority = service::open(&authority, self.cluster.secrets()).map_err(anyhow::Error::msg)?;
        let made = issue(&authority, &shown.ca_pem, self.config.node.id, life)?;
        // Written to disk first: the previous certificate may have expired when the node starts again.
        let text = format!("{}{}", made.cert_pem, made.key_pem.0);
        write(self.config.node.data_dir.join(RENEWED_FILE), text).await?;
        self.show(made)
    }

    /// Updates the trusted authorities, and takes the certificate of the configuration's files if it is newer and valid
    /// for this node.
    async fn take_up_given(&self) -> anyhow::Result<()> {
        let config = self.config.clone();
        let given = supervise::on_thread(move || files::given_identity(&config)).await?;
        // Files that do not match are being replaced right now.
        let Ok((given, judged)) = given else { return Ok(()) };
        let shown = self.shown.read().clone();
        if shown.ca_pem != given.ca_pem {
            let trusting = PeerIdentity { ca_pem: given.ca_pem.clone(), ..shown.clone() };
            self.peers.renew_certificate(&peer_tls(trusting.clone()))?;
            *self.shown.write() = trusting;
            tracing::info!("other nodes are now checked with another set of authorities");
        }
        let is_later = files::begins_at(&given) > files::begins_at(&shown);
        if judged.is_ok() && is_later { self.show(given) } else { Ok(()) }
    }

    /// On the directory's leader: takes the next step of an authority rotation, once all nodes are ready for it.
    async fn rotate(&self, authority: Option<Arc<AuthorityRecord>>) -> anyhow::Result<()> {
        let directory = self.cluster.directory();
        let leads = directory.group().leadership().borrow().ready_epoch.is_some();
        let Some(authority) = authority.filter(|_| leads) else { return Ok(()) };
        let Some(rotation) = &authority.rotation else { return Ok(()) };
        let mut audit = Vec::new();
        let command = match &rotation.step {
            AuthorityStep::Wanted => {
                let master = directory.read(|state| state.cluster.as_ref().map(|cluster| cluster.master()));
                let made = Authority::create()?.pair;
                let key = self.cluster.secrets().seal_authority(master.context("there is no cluster")?, &made.key)?;
                AuthorityCommand::Announce { certificate: made.certificate, key }
            }
            AuthorityStep::Announced { certificate, .. } => {
                let next = id_of(certificate)?;
                match self.all_nodes(|report| report.trusts(&next)).await {
                    Some(trusting) => AuthorityCommand::TakeOver { trusting },
                    None => return Ok(()),
                }
            }
            AuthorityStep::Overlapping { .. } => {
                let present = id_of(&authority.certificate)?;
                audit.push(rotated(&present));
                match self.all_nodes(|report| report.is_signed_by(&present)).await {
                    Some(renewed) => AuthorityCommand::DropFormer { renewed },
                    None => return Ok(()),
                }
            }
        };
        match directory.update(Command::Authority(command), audit, Instant::now() + PATIENCE).await {
            // The state has changed meanwhile; the next check sees the new one.
            Ok(_) | Err(UpdateError::Rejected(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// All members, if every one of them reports that it is ready.
    async fn all_nodes(&self, is_ready: impl Fn(&NodeReport) -> bool) -> Option<Vec<NodeId>> {
        let survey = self.cluster.survey(PATIENCE).await;
        survey
            .into_iter()
            .map(|(node, heard)| heard.is_ok_and(|heard| is_ready(&heard.report)).then_some(node))
            .collect()
    }

    fn show(&self, identity: PeerIdentity) -> anyhow::Result<()> {
        let until = files::lasts_until(&identity).map(|until| until.to_iso()).unwrap_or_default();
        self.peers.renew_certificate(&peer_tls(identity.clone()))?;
        *self.shown.write() = identity;
        metrics::counter!("gateway_peer_certificate_renewals_total").increment(1);
        tracing::info!(until, "this node shows the other nodes a new certificate");
        Ok(())
    }
}

/// The authorities that an identity trusts for its peers, each with its id.
pub fn trusted_authorities(identity: &PeerIdentity) -> Vec<(String, String)> {
    let each = identity.ca_pem.split_inclusive("-----END CERTIFICATE-----");
    each.filter_map(|pem| Some((pem.to_owned(), id_of(pem).ok()?))).collect()
}

fn id_of(ca_pem: &str) -> anyhow::Result<String> {
    authority_id(ca_pem).map_err(anyhow::Error::msg)
}

/// Audit entry for a rotation of the authority.
fn rotated(authority: &str) -> AuditEntry {
    let target = AuditTarget::new("authority", authority, "authority of the cluster's nodes");
    let (id, actor) = (AuditId::new(), AuditActor::of_kind("system"));
    AuditEntry::done(id, "secrets.authority_rotated", actor, target, Timestamp::now())
}

async fn write(path: PathBuf, text: String) -> anyhow::Result<()> {
    supervise::on_thread(move || write_private_durably(&path, &text)).await?
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::config::{EXAMPLE, Peer, load};
    use crate::key_files::write_private;
    use model::seal::MasterKey;
    use std::path::Path;
    use std::time::Instant;
    use tempfile::TempDir;

    const LIFE: Duration = Peer::CERTIFICATE_LIFE;
    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn keyring() -> Keyring {
        Keyring::of(MasterKey::new([7; 32]))
    }

    /// A node with these files in its configuration.
    fn node(authority: &Authority, given: &Pair) -> (TempDir, Config) {
        let folder = tempfile::tempdir().unwrap();
        let mut config = load::parse(EXAMPLE, "example").unwrap();
        config.node.data_dir = folder.path().join("data");
        std::fs::create_dir(&config.node.data_dir).unwrap();
        let write = |name: &str, text: &str| {
            write_private(&folder.path().join(name), text).unwrap();
            folder.path().join(name)
        };
        config.peer.ca_file = write("ca.pem", &authority.pair.certificate);
        config.peer.cert_file = write("node.pem", &given.certificate);
        config.peer.key_file = write("node.key", &given.key);
        (folder, config)
    }

    fn keep(folder: &Path, pair: &Pair) {
        write_private(&folder.join(RENEWED_FILE), &format!("{}{}", pair.certificate, pair.key)).unwrap();
    }

    #[test]
    fn another_one_is_made_at_half_of_its_life_and_for_one_that_lives_too_long() {
        let authority = Authority::create().unwrap();
        let ca = &authority.pair.certificate;
        let now = Timestamp::now();
        let half = now.plus(LIFE / 2);
        let made = issue(&authority, ca, 1, LIFE).unwrap();
        assert!(!is_due(&made, LIFE, now) && !is_due(&made, LIFE, Timestamp(half.0 - 60_000)));
        assert!(is_due(&made, LIFE, half.plus(DAY)) && is_due(&made, LIFE, now.plus(2 * LIFE)));
        assert!(is_due(&issue(&authority, ca, 1, 40 * LIFE).unwrap(), LIFE, now));
    }

    #[test]
    fn the_one_that_was_made_last_is_shown_and_one_that_proves_nothing_is_none() {
        let (authority, other) = (Authority::create().unwrap(), Authority::create().unwrap());
        let given = authority.issue(1, LIFE).unwrap();
        let (_folder, config) = node(&authority, &given);
        let shown = || files::peer_identity(&config).unwrap().cert_pem;
        assert_eq!(shown(), given.certificate);
        // Certificates of another authority and of another node, and half a file.
        for wrong in [other.issue(1, LIFE).unwrap(), authority.issue(2, LIFE).unwrap()] {
            keep(&config.node.data_dir, &wrong);
            assert_eq!(shown(), given.certificate);
        }
        write_private(&config.node.data_dir.join(RENEWED_FILE), &given.certificate).unwrap();
        assert_eq!(shown(), given.certificate);
    }

    #[test]
    fn a_node_whose_certificate_has_expired_starts_with_the_one_that_it_made_or_makes_one() {
        let authority = Authority::create().unwrap();
        let expired = authority.issue(1, Duration::ZERO).unwrap();
        let (_folder, config) = node(&authority, &expired);
        // A certificate without lifetime is valid until the end of the second in which it was issued.
        let deadline = Instant::now() + Duration::from_secs(5);
        let refusal = loop {
            match files::peer_identity(&config) {
                Ok(_) => assert!(Instant::now() < deadline, "it does not expire"),
                Err(refusal) => break refusal,
            }
        };
        assert!(refusal.subject.contains("peer.cert_file"), "{refusal}");
        assert!(rescue(&config, &keyring(), &refusal).is_none(), "nothing is kept that could sign");

        let key = Secrets::new(keyring()).seal_authority(MasterKey::new([7; 32]).id(), &authority.pair.key).unwrap();
        let certificate = authority.pair.certificate.clone();
        let record = AuthorityRecord { certificate, key, rotated_at: None, rotation: None };
        let text = serde_json::to_string(&record).unwrap();
        write_private(&config.node.data_dir.join(AUTHORITY_FILE), &text).unwrap();
        assert!(!text.contains("PRIVATE"), "it is sealed");
        assert!(rescue(&config, &Keyring::of(MasterKey::new([8; 32])), &refusal).is_none(), "another master key");
        let rescued = rescue(&config, &keyring(), &refusal).unwrap();
        files::proves(&authority.pair.certificate, &rescued.cert_pem, 1).unwrap();

        let renewed = authority.issue(1, LIFE).unwrap();
        keep(&config.node.data_dir, &renewed);
        assert!(files::peer_identity(&config).unwrap().cert_pem == renewed.certificate);
    }
}
