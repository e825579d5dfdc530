//! Nodes keep track of how far each other's logs were synced, so that a data folder that was restored from an older
//! copy is refused before it votes.
//!
//! The writes of a node's log are numbered for the lifetime of its folder, and a write that was synced is never lost.
//! Once a second, each node tells its peers the number it has synced, and stores theirs in a file for each peer. These
//! files are not synced, like the log's own mark: they survive the process, and at worst lag behind. A node whose log
//! has less than a peer knows of has lost votes and entries that others rely on, and stops.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use model::id::NodeId;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Inner;
use crate::codec;
use crate::fatal::Fatal;
use crate::folder::unless_missing;
use crate::log::disk::Disk;
use crate::log::mark::Mark;
use crate::machine::DIRECTORY_GROUP;
use crate::network::service;
use crate::supervise;
use crate::transport::{Class, Peers, RaftService};

/// Interval of the exchange with each peer. Losing only what was synced since the last exchange goes unnoticed.
const EVERY: Duration = Duration::from_secs(1);
/// Timeout of one exchange.
const ANSWER: Duration = Duration::from_secs(1);
/// How long a starting node waits for peers that do not answer. They may be down: without a limit, a cluster that has
/// lost a node could not start again.
const PATIENCE: Duration = Duration::from_secs(3);
/// Pause between two attempts to reach such a peer.
const AGAIN: Duration = Duration::from_millis(50);

/// How far a folder's log is known to be synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Synced {
    folder: Uuid,
    number: u64,
}

/// Message between two nodes.
#[derive(Debug, Serialize, Deserialize)]
struct Word {
    /// Position of the sender's own log.
    own: Synced,
    /// What the sender knows of the receiver's log.
    yours: Option<Synced>,
}

struct Heard {
    synced: Synced,
    mark: Mark,
}

pub(super) struct Witness {
    folder: PathBuf,
    storage_id: Uuid,
    logs: Arc<Disk>,
    heard: Mutex<HashMap<NodeId, Heard>>,
    fatal: Fatal,
}

impl Witness {
    /// Reads the stored positions of the peers.
    ///
    /// # Errors
    /// When the folder cannot be read or created.
    pub(super) fn open(folder: PathBuf, storage_id: Uuid, logs: Arc<Disk>, fatal: Fatal) -> io::Result<Arc<Self>> {
        fs::create_dir_all(&folder)?;
        let mut heard = HashMap::new();
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let Some((node, storage)) = path.file_name().and_then(|name| parse(name.to_str()?)) else { continue };
            match Mark::open(&path) {
                Ok((mark, number)) => {
                    heard.insert(node, Heard { synced: Synced { folder: storage, number }, mark });
                }
                // A damaged file is no reason to stop: the stored positions are an additional check, not a guarantee.
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "what was heard of a peer's log is lost");
                    fs::remove_file(&path)?;
                }
            }
        }
        Ok(Arc::new(Self { folder, storage_id, logs, heard: Mutex::new(heard), fatal }))
    }

    fn word_to(&self, peer: NodeId) -> Word {
        let own = Synced { folder: self.storage_id, number: self.logs.synced() };
        Word { own, yours: self.heard.lock().get(&peer).map(|heard| heard.synced) }
    }

    /// Processes a peer's message; the error says why this node must stop.
    fn take(&self, from: NodeId, word: &Word) -> Result<(), String> {
        if let Err(error) = self.note(from, word.own) {
            tracing::warn!(%from, %error, "cannot keep what was heard of a peer's log");
        }
        let Some(known) = word.yours.filter(|known| known.folder == self.storage_id) else { return Ok(()) };
        let found = self.logs.written();
        if known.number <= found {
            return Ok(());
        }
        Err(format!(
            "the log in {} ends at write {found}, and node {from} knows that this node had synced {}: the data folder was put \
             back from an older copy, or its disk lost data; take this node out of the cluster and join it again with an \
             empty data folder",
            self.logs.path().display(),
            known.number
        ))
    }

    /// Processes a peer's message, and ends the node if it must stop.
    fn hear(&self, from: NodeId, word: &Word) {
        if let Err(reason) = self.take(from, word) {
            (self.fatal)(reason);
        }
    }

    fn note(&self, peer: NodeId, synced: Synced) -> io::Result<()> {
        let mut all = self.heard.lock();
        if let Some(heard) = all.get_mut(&peer).filter(|heard| heard.synced.folder == synced.folder) {
            if synced.number > heard.synced.number {
                heard.mark.note(synced.number)?;
                heard.synced = synced;
            }
            return Ok(());
        }
        let mut mark = Mark::create(&self.folder.join(format!("{peer}-{}", synced.folder)))?;
        mark.note(synced.number)?;
        // A node that returns under its id with another folder has abandoned the former one for good.
        if let Some(former) = all.insert(peer, Heard { synced, mark }) {
            fs::remove_file(self.folder.join(format!("{peer}-{}", former.synced.folder)))?;
        }
        Ok(())
    }

    /// Returns `None` if the peer has not answered.
    async fn exchange(self: &Arc<Self>, peers: &Peers, peer: NodeId) -> Option<()> {
        let word = codec::encode(&self.word_to(peer));
        let answer = peers.call(peer, Class::Control, service::WITNESS, word, Instant::now() + ANSWER).await;
        // A refusal is no answer: a peer that is starting listens before it serves this request.
        let answer = codec::decode(answer.ok()?).ok()?;
        self.clone().heard_from(peers, peer, answer).await;
        Some(())
    }

    /// Processes a message on a blocking thread; ends the node if it must stop.
    async fn heard_from(self: Arc<Self>, peers: &Peers, peer: NodeId, word: Word) {
        let taking = peers.runtime().spawn_blocking(move || self.hear(peer, &word));
        // A panic in the task is reported where it happens.
        let _ = taking.await;
    }

    /// Asks these nodes for what they know of this node's log, and ends the node if its log has less. Called before the
    /// node takes part in anything. Waits no longer than [`PATIENCE`] for nodes that do not answer.
    pub(super) async fn ask(self: &Arc<Self>, peers: &Peers, members: &BTreeSet<NodeId>) {
        let others = members.iter().filter(|peer| **peer != peers.node() && peers.knows_way_to(**peer));
        let asking = others.map(|peer| async move {
            while self.exchange(peers, *peer).await.is_none() {
                tokio::time::sleep(AGAIN).await;
            }
        });
        if tokio::time::timeout(PATIENCE, join_all(asking)).await.is_err() {
            tracing::info!("not all peers could be asked how far this node's log had been synced");
        }
    }

    /// Tells the peers once a second, until the host is dropped.
    pub(super) fn tell(self: Arc<Self>, host: Weak<Inner>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut ticks = supervise::ticks(EVERY);
            loop {
                ticks.tick().await;
                let Some(inner) = host.upgrade() else { return };
                let peers = inner.shared.peers.clone();
                let members = inner.core(DIRECTORY_GROUP).map(|core| core.members()).unwrap_or_default();
                drop(inner);
                let others = members.voters.union(&members.learners).filter(|peer| **peer != peers.node());
                // A peer that is down gets a later message.
                let _ = join_all(others.map(|peer| self.exchange(&peers, *peer))).await;
            }
        })
    }
}

/// Parses a file name into node and data folder.
fn parse(name: &str) -> Option<(NodeId, Uuid)> {
    let (node, folder) = name.split_once('-')?;
    Some((node.parse().ok()?, folder.parse().ok()?))
}

/// Data folders of the nodes whose positions are stored.
///
/// # Errors
/// When the folder exists and cannot be read.
pub(super) fn met(folder: &Path) -> io::Result<HashMap<NodeId, Uuid>> {
    let Some(entries) = unless_missing(fs::read_dir(folder).map(Some))? else { return Ok(HashMap::new()) };
    let names = entries.map(|entry| Ok(entry?.file_name().to_str().and_then(parse)));
    names.filter_map(Result::transpose).collect()
}

/// Answers the messages of peers.
pub(super) struct Listener {
    pub(super) witness: Arc<Witness>,
    pub(super) runtime: tokio::runtime::Handle,
}

impl RaftService for Listener {
    fn handle(&self, from: NodeId, _class: Class, body: Bytes) -> BoxFuture<'static, Bytes> {
        let witness = self.witness.clone();
        let taken = self.runtime.spawn_blocking(move || {
            let answer = codec::encode(&witness.word_to(from));
            match codec::decode(body).map_err(|error| error.to_string()) {
                Ok(word) => witness.hear(from, &word),
                Err(error) => tracing::warn!(%from, error, "a peer's word on its log is damaged"),
            }
            answer
        });
        async move { taken.await.unwrap_or_default() }.boxed()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::folder::USUAL_BUFFER;
    use crate::testing::{Authority, peers_config};
    use crate::transport::{Lookup, PeersConfig};

    const OWN: Uuid = Uuid::from_u128(1);
    const PEER: Uuid = Uuid::from_u128(2);

    fn open(path: &Path) -> Arc<Witness> {
        let fatal: Fatal = Arc::new(|reason| panic!("{reason}"));
        let logs = Disk::open(&path.join("raft"), USUAL_BUFFER, fatal.clone()).unwrap();
        Witness::open(path.join("heard"), OWN, logs, fatal).unwrap()
    }

    fn word(own: u64, yours: Option<Synced>) -> Word {
        Word { own: Synced { folder: PEER, number: own }, yours }
    }

    #[test]
    fn the_most_that_was_heard_of_a_folder_is_told_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let witness = open(folder.path());
        assert_eq!(witness.word_to(2).yours, None);
        for number in [7, 9, 8] {
            witness.take(2, &word(number, None)).unwrap();
        }
        drop(witness);
        let witness = open(folder.path());
        assert_eq!(witness.word_to(2).yours, Some(Synced { folder: PEER, number: 9 }));
        assert_eq!(witness.word_to(3).yours, None);
        // The peer's disk was replaced: its folder has another id.
        let another = Word { own: Synced { folder: Uuid::from_u128(3), number: 1 }, yours: None };
        witness.take(2, &another).unwrap();
        drop(witness);
        assert_eq!(open(folder.path()).word_to(2).yours, Some(another.own));
        assert_eq!(met(&folder.path().join("heard")).unwrap(), HashMap::from([(2, Uuid::from_u128(3))]));
        assert!(met(&folder.path().join("nowhere")).unwrap().is_empty());
    }

    #[test]
    fn a_log_that_has_less_than_a_peer_has_heard_of_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let witness = open(folder.path());
        let own = |number| Some(Synced { folder: OWN, number });
        witness.take(2, &word(1, own(witness.logs.written()))).unwrap();
        // A position of another folder says nothing about this one.
        witness.take(2, &word(1, Some(Synced { folder: PEER, number: 1000 }))).unwrap();
        let refused = witness.take(2, &word(1, own(1000))).unwrap_err();
        assert!(refused.contains("older copy") && refused.contains("write 0"), "{refused}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_peer_that_listens_and_does_not_know_the_question_yet_has_not_answered() {
        let authority = Authority::new();
        let two = Peers::start(peers_config(&authority, 2)).await.unwrap();
        let address = two.local_addr().to_string();
        let lookup: Lookup = Arc::new(move |node| (node == 2).then(|| address.clone()));
        let one = Peers::start(PeersConfig { lookup, ..peers_config(&authority, 1) }).await.unwrap();
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [witness, other] = [0, 1].map(|place: usize| open(folders[place].path()));
        assert!(witness.exchange(&one, 2).await.is_none());
        let listener = Listener { witness: other, runtime: two.runtime().clone() };
        two.serve_raft(service::WITNESS, Arc::new(listener));
        assert!(witness.exchange(&one, 2).await.is_some());
        one.shutdown().await;
        two.shutdown().await;
    }

    #[test]
    fn what_was_heard_and_cannot_be_read_is_heard_anew() {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path()).take(2, &word(7, None)).unwrap();
        fs::write(folder.path().join("heard").join(format!("2-{PEER}")), [0xff; 2000]).unwrap();
        let witness = open(folder.path());
        assert_eq!(witness.word_to(2).yours, None);
        witness.take(2, &word(8, None)).unwrap();
        assert_eq!(witness.word_to(2).yours, Some(Synced { folder: PEER, number: 8 }));
    }
}
