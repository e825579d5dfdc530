//! `gateway shards`: the Raft groups of the cluster.

use std::collections::BTreeMap;

use model::id::{NodeId, ShardId};
use serde::Deserialize;

use super::Verdict;
use super::client::{Operator, Rows, shown};
use super::show::{Table, cell};
use crate::cli::operator::OperatorArgs;

const PATH: &str = "/v1/admin/shards";

/// What of a row of `GET /v1/admin/shards` is shown.
#[derive(Deserialize)]
struct Shard {
    id: ShardId,
    kind: String,
    state: String,
    leader: Option<NodeId>,
    wanted_leader: Option<NodeId>,
    term: u64,
    can_lose: usize,
    channels: usize,
    replicas: Vec<Replica>,
}

#[derive(Deserialize)]
struct Replica {
    node_id: NodeId,
    role: String,
    state: String,
    lag: Option<u64>,
}

/// Who leads each group, for whoever waits until that changes.
pub async fn leaders(operator: &Operator) -> anyhow::Result<BTreeMap<ShardId, Option<NodeId>>> {
    let Rows::<Shard> { data, .. } = operator.read_patiently(PATH).await?;
    Ok(data.into_iter().map(|group| (group.id, group.leader)).collect())
}

pub async fn run(args: &OperatorArgs) -> anyhow::Result<Verdict> {
    let answer = Operator::new(args)?.get(PATH).await?;
    let Rows { data, .. } = shown(args, PATH, answer, |shards: &Rows<Shard>| print(&shards.data))?;
    Ok(Verdict::of(data.iter().all(|shard| shard.state == "ok")))
}

fn print(shards: &[Shard]) {
    let mut table = Table::new(&["SHARD", "STATE", "LEADER", "WANTED", "TERM", "CAN LOSE", "CHANNELS", "REPLICAS"]);
    for shard in shards {
        let replicas: Vec<String> = shard.replicas.iter().map(Replica::shown).collect();
        table.row([
            if shard.kind == "shard" { shard.id.to_string() } else { shard.kind.clone() },
            shard.state.clone(),
            cell(shard.leader),
            cell(shard.wanted_leader),
            shard.term.to_string(),
            shard.can_lose.to_string(),
            shard.channels.to_string(),
            replicas.join(" "),
        ]);
    }
    table.print_or("the cluster is not formed yet");
}

impl Replica {
    /// The node, and what is unusual about its replica: `1`, `2(learner)`, `3(behind 5000)`.
    fn shown(&self) -> String {
        let mut notes = Vec::new();
        if self.role != "voter" {
            notes.push(self.role.clone());
        }
        match (self.state.as_str(), self.lag) {
            ("ok", _) => {}
            (state, Some(lag)) => notes.push(format!("{state} {lag}")),
            (state, None) => notes.push(state.to_owned()),
        }
        if notes.is_empty() { self.node_id.to_string() } else { format!("{}({})", self.node_id, notes.join(", ")) }
    }
}
