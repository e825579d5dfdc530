//! `gateway shards`: the Raft groups of the cluster.

use std::collections::BTreeMap;

use api::List;
use api::operator::shards::{ReplicaView, ShardView};
use api::operator::word;
use model::id::{NodeId, ShardId};
use shard::assessment::{GroupState, ReplicaState};

use super::Verdict;
use super::client::{Operator, shown};
use super::show::{Column, Table, cell};
use crate::cli::operator::OperatorArgs;

const PATH: &str = "/v1/admin/shards";

/// The leader of each group, for callers that wait for a change.
pub async fn leaders(operator: &Operator) -> anyhow::Result<BTreeMap<ShardId, Option<NodeId>>> {
    let List::<ShardView> { data, .. } = operator.read_patiently(PATH).await?;
    Ok(data.into_iter().map(|group| (group.id, group.leader)).collect())
}

pub async fn run(args: &OperatorArgs) -> anyhow::Result<Verdict> {
    let answer = Operator::new(args)?.get(PATH).await?;
    let List { data, .. } = shown(args, PATH, answer, |shards: &List<ShardView>| print(&shards.data))?;
    Ok(Verdict::of(data.iter().all(|shard| shard.state == GroupState::Ok)))
}

fn print(shards: &[ShardView]) {
    let columns: &[Column<ShardView>] = &[
        ("SHARD", |shard| if shard.kind == "shard" { shard.id.to_string() } else { shard.kind.to_string() }),
        ("STATE", |shard| word(&shard.state)),
        ("LEADER", |shard| cell(shard.leader)),
        ("WANTED", |shard| cell(shard.wanted_leader)),
        ("TERM", |shard| shard.term.to_string()),
        ("CAN LOSE", |shard| shard.can_lose.to_string()),
        ("CHANNELS", |shard| shard.channels.to_string()),
        ("REPLICAS", |shard| shard.replicas.iter().map(replica_shown).collect::<Vec<_>>().join(" ")),
    ];
    Table::of(shards, columns).print_or("the cluster is not formed yet");
}

/// The node and what is unusual about its replica: `1`, `2(learner)`, `3(behind 5000)`.
fn replica_shown(ReplicaView { node_id, role, state, lag, .. }: &ReplicaView) -> String {
    let mut notes = Vec::new();
    if role != "voter" {
        notes.push(role.to_string());
    }
    match (state, lag) {
        (ReplicaState::Ok, _) => {}
        (state, Some(lag)) => notes.push(format!("{} {lag}", word(state))),
        (state, None) => notes.push(word(state)),
    }
    if notes.is_empty() { node_id.to_string() } else { format!("{node_id}({})", notes.join(", ")) }
}
