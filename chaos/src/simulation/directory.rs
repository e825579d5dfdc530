//! A node's requests to the directory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::id::ChannelId;
use raft::directory::command::{Command, Proposal, Rejection, Reply};
use raft::directory::simulated;
use raft::simulation::{Life, clock};

use super::bug::Bug;
use super::scene::{DIRECTORY, Scene};

/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(25);

/// Timeout of one attempt.
const TRY_PATIENCE: Duration = Duration::from_secs(2);

/// Encodes a command as a proposal with an id of its own.
pub fn proposal(scene: &Scene, command: Command) -> Bytes {
    let proposal = Proposal { id: scene.uuid(), ..Proposal::new(command, scene.now(), Vec::new()) };
    simulated::encode(&proposal)
}

/// Commits a proposal through the leader, retrying the same proposal while the outcome is unknown. Returns `None` when
/// `patience` runs out first.
pub async fn propose(
    scene: &Arc<Scene>,
    life: Life,
    proposal: Bytes,
    patience: Duration,
) -> Option<Result<Reply, Rejection>> {
    let deadline = clock::now() + patience;
    let group = scene.group(life, DIRECTORY);
    while clock::now() < deadline && scene.lives(life) {
        if let Some(leader) = group.leadership().leader {
            let (held, proposal) = (scene.clone(), proposal.clone());
            let asked = scene.world.router().call(life, leader, TRY_PATIENCE, move |there| {
                let (group, proposal) = (held.group(there, DIRECTORY), proposal.clone());
                async move { group.propose(proposal, TRY_PATIENCE).await.ok() }
            });
            if let Ok(answer) = asked.await
                && let Some((index, outcome)) = simulated::answer(&answer)
            {
                // The node's own copy must show a change before the node answers for it.
                let _ = group.wait_applied(index, deadline - clock::now()).await;
                return Some(outcome);
            }
        }
        clock::sleep(RETRY_PAUSE).await;
    }
    None
}

/// Proposes a change. Returns whether it is in effect.
pub async fn update(scene: &Arc<Scene>, life: Life, command: Command, patience: Duration) -> bool {
    let proposal = proposal(scene, command);
    propose(scene, life, proposal, patience).await.is_some_and(|outcome| outcome.is_ok())
}

/// The value of a channel's name in a linearizable read at a node; `None` when no leader answers.
pub async fn read(scene: &Arc<Scene>, life: Life, channel: ChannelId, patience: Duration) -> Option<u64> {
    if scene.bug != Some(Bug::StaleRead) {
        scene.group(life, DIRECTORY).linearizable(patience).await.ok()?;
    }
    let name = scene.copy(life).read(|state| state.channel(channel).map(|record| record.name.clone()))?;
    name.parse().ok().filter(|_| scene.lives(life))
}
