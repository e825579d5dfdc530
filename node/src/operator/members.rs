//! `gateway token`, `drain`, `undrain` and `node`: which nodes are members, and which of them are in service.

use std::time::{Duration, Instant};

use anyhow::bail;
use api::List;
use api::operator::nodes::{LeftView, NodeView, RemovalView};
use api::operator::tokens::TokenView;
use api::operator::word;
use model::id::NodeId;
use reqwest::Method;
use serde_json::{Value, json};

use super::Verdict;
use super::client::{Operator, as_type, told};
use super::confirm::{confirm, preview};
use super::nodes::{PATH as NODES, READY};
use super::shards::leaders;
use super::show::{self, ProgressLine, bar, listed};
use crate::cli::joining::NodeArgs;
use crate::cli::members::{DrainArgs, NodeCommand, NodeRef, RemoveArgs, TokenArgs};
use crate::console::say;

/// Interval of polling progress.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long a drain may take: the leaderships of all shards are transferred one by one.
const DRAIN_PATIENCE: Duration = Duration::from_secs(300);

/// How long one replica of a leaving node may take to move: replicas can be large, and moves are throttled.
const MOVE_PATIENCE: Duration = Duration::from_secs(1800);

/// Describes what a removal does.
fn removal_in_words(RemovalView { node, left }: &RemovalView) -> String {
    let NodeView { id, address, state, replicas, owns, .. } = node;
    let led = match owns.as_deref().map_or(0, <[u16]>::len) {
        0 => String::new(),
        1 => ", 1 shard gets another leader".to_owned(),
        several => format!(", {several} shards get other leaders"),
    };
    format!(
        "node {id} ({address}, {state}) will be removed for good: its {replicas} replicas move to other nodes with room{led}\n{}",
        left_in_words(left)
    )
}

/// Describes what is left once a node has been removed.
fn left_in_words(left: &LeftView) -> String {
    let nodes = match left.nodes {
        1 => "1 node is left".to_owned(),
        several => format!("{several} nodes are left"),
    };
    let away = match left.away.len() {
        0 => String::new(),
        1 => format!(", of which node {} does not answer", listed(&left.away)),
        _ => format!(", of which nodes {} do not answer", listed(&left.away)),
    };
    let then = match left.can_lose_a_node {
        true => "any one of them can then be lost",
        false => "then none can be lost: add another one (gateway token, gateway join), or start those that are down",
    };
    format!("{nodes}{away}: {then}")
}

pub async fn token(args: &TokenArgs) -> anyhow::Result<Verdict> {
    const PATH: &str = "/v1/admin/tokens";
    let operator = Operator::new(&args.operator)?;
    let answer = operator.post(PATH, &json!({ "expires_in_seconds": args.expires.as_secs() })).await?;
    if args.operator.json {
        show::json(&answer);
        return Ok(Verdict::Well);
    }
    let TokenView { token, expires_at } = as_type(PATH, answer)?;
    say(&token);
    // The token is printed and valid even if the nodes cannot be listed.
    let nodes = nodes(&operator).await.unwrap_or_default();
    say(format!("one node can join with this token until {}; on its machine, run:", expires_at.to_iso()));
    say(format!("  {}", joining_line(&nodes)));
    say("which reads the token from standard input");
    Ok(Verdict::Well)
}

/// The command for the machine of a new node. In a cluster with zones, a new node must name its own.
fn joining_line(nodes: &[NodeView]) -> String {
    let via = nodes.iter().find(|node| node.state == READY).map_or("HOST:PORT", |node| node.address.as_str());
    let has_zones = nodes.iter().filter_map(|node| node.zone.as_deref()).any(|zone| zone != NodeArgs::ZONE);
    let zone = if has_zones { " --zone ZONE" } else { "" };
    format!("gateway join --token - --via {via} --advertise HOST:8082{zone}")
}

pub async fn drain(args: &DrainArgs) -> anyhow::Result<Verdict> {
    let DrainArgs { node: args, force } = args;
    let (operator, node) = (Operator::new(&args.operator)?, args.node);
    let answer = operator.post(&format!("/v1/admin/nodes/{node}/drain"), &json!({ "force": force })).await?;
    if args.wait {
        until_it_owns_nothing(&operator, args).await?;
    }
    let done = if args.wait { "owns nothing any more" } else { "is being drained" };
    told(&args.operator, NODES, answer, |_: Value| say(format!("node {node} {done}")))
}

/// Waits for the end of a drain, and shows its progress.
async fn until_it_owns_nothing(operator: &Operator, args: &NodeRef) -> anyhow::Result<()> {
    let (node, deadline) = (args.node, Instant::now() + DRAIN_PATIENCE);
    let (mut owned_at_first, mut line) = (None, ProgressLine::begin(!args.operator.json));
    loop {
        let left = owned(operator, node).await?;
        let whole = *owned_at_first.get_or_insert(left);
        if whole > 0 {
            line.tell(drain_in_words(node, left, whole), whole.saturating_sub(left), whole);
        }
        if left == 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("node {node} still owns shards after {DRAIN_PATIENCE:?}: see gateway shards");
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// One line: a bar, and how many shards the node still owns.
fn drain_in_words(node: NodeId, left: usize, whole: usize) -> String {
    format!("{} node {node} owns {left} of {whole} shards", bar(whole.saturating_sub(left), whole))
}

pub async fn undrain(args: &NodeRef) -> anyhow::Result<Verdict> {
    let (operator, node) = (Operator::new(&args.operator)?, args.node);
    let answer = operator.post(&format!("/v1/admin/nodes/{node}/undrain"), &json!({})).await?;
    let deadline = Instant::now() + DRAIN_PATIENCE;
    while args.wait
        && let Some(row) = one(&operator, node).await?.filter(|row| row.state != READY)
    {
        if Instant::now() > deadline {
            bail!("node {node} is {} after {DRAIN_PATIENCE:?}: see gateway nodes", row.state);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    told(&args.operator, NODES, answer, |_: Value| say(format!("node {node} can lead shards again")))
}

pub async fn node(command: NodeCommand) -> anyhow::Result<Verdict> {
    match command {
        NodeCommand::Remove(args) => remove(&args).await,
        NodeCommand::Weigh { node, weight, operator: args } => {
            let operator = Operator::new(&args)?;
            let path = format!("/v1/admin/nodes/{node}");
            let answer = operator.change(Method::PATCH, &path, Some(&json!({ "weight": weight }))).await?;
            told(&args, &path, answer, |NodeView { weight, .. }| {
                say(format!("node {node} has the weight {weight}; see gateway layout plan"));
            })
        }
    }
}

async fn remove(args: &RemoveArgs) -> anyhow::Result<Verdict> {
    let RemoveArgs { node: args, force, confirm: yes } = args;
    let (operator, node) = (Operator::new(&args.operator)?, args.node);
    let path = format!("/v1/admin/nodes/{node}");
    let removal = operator.read(&format!("{path}/removal?force={force}")).await?;
    preview(yes, args.operator.json, &removal_in_words(&removal));
    confirm(yes, &format!("gateway node remove {node}"))?;
    let answer = operator.change(Method::DELETE, &format!("{path}?force={force}"), None).await?;
    if args.wait {
        until_it_is_gone(&operator, args).await?;
    }
    let done = if args.wait { "is removed" } else { "is leaving; it is removed when nothing is placed on it any more" };
    told(&args.operator, NODES, answer, |_: Value| say(format!("node {node} {done}")))
}

/// Waits for the end of a removal, and shows its progress.
async fn until_it_is_gone(operator: &Operator, args: &NodeRef) -> anyhow::Result<()> {
    let (node, mut left, mut moved_at) = (args.node, usize::MAX, Instant::now());
    let (mut placed_at_first, mut line) = (None, ProgressLine::begin(!args.operator.json));
    while let Some(row) = one(operator, node).await? {
        let whole = *placed_at_first.get_or_insert(row.replicas);
        let step = format!("node {node} is {}, {} replicas left", word(&row.member), row.replicas);
        line.tell(step, whole.saturating_sub(row.replicas), whole);
        if row.replicas != left {
            moved_at = Instant::now();
        }
        if moved_at.elapsed() > MOVE_PATIENCE {
            bail!(
                "node {node} still has {} replicas after {MOVE_PATIENCE:?}: see gateway layout show; it leaves as soon as they \
                 have moved",
                row.replicas
            );
        }
        left = row.replicas;
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

async fn nodes(operator: &Operator) -> anyhow::Result<Vec<NodeView>> {
    Ok(operator.read::<List<NodeView>>(NODES).await?.data)
}

async fn one(operator: &Operator, id: NodeId) -> anyhow::Result<Option<NodeView>> {
    let List::<NodeView> { data, .. } = operator.read_patiently(NODES).await?;
    Ok(data.into_iter().find(|node| node.id == id))
}

/// How many shards a node owns, by its own report, or by those of the other nodes if it does not answer.
async fn owned(operator: &Operator, id: NodeId) -> anyhow::Result<usize> {
    match one(operator, id).await? {
        None => Ok(0),
        Some(NodeView { owns: Some(owns), .. }) => Ok(owns.len()),
        Some(NodeView { owns: None, .. }) => {
            Ok(leaders(operator).await?.values().filter(|leader| **leader == Some(id)).count())
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::time::Timestamp;

    use super::*;

    fn node_3() -> Value {
        json!({
            "id": 3, "address": "node-3:8082", "state": "ready", "member": "active", "replicas": 16, "weight": 1,
            "votes": true, "slots": 1000, "leads": 2, "owns": [1, 4], "registered_at": Timestamp(0),
        })
    }

    #[test]
    fn a_new_machine_is_told_of_a_node_that_runs_and_of_zones() {
        let line = |change: Value| {
            let mut node = node_3();
            node.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            joining_line(&[serde_json::from_value(node).unwrap()])
        };
        assert!(line(json!({ "zone": "a" })).ends_with("--via node-3:8082 --advertise HOST:8082 --zone ZONE"));
        assert!(line(json!({ "zone": "default" })).ends_with("HOST:8082"));
        assert!(line(json!({ "state": "down" })).contains("--via HOST:PORT"));
    }

    #[test]
    fn a_removal_is_said_before_it_is_done() {
        let mut answer = node_3();
        answer["left"] = json!({ "nodes": 2, "away": [], "can_lose_a_node": false });
        let words = removal_in_words(&serde_json::from_value(answer).unwrap());
        for part in ["node 3 (node-3:8082, ready)", "its 16 replicas", "2 shards get other leaders", "2 nodes are left"]
        {
            assert!(words.contains(part), "{part}: {words}");
        }
    }

    #[test]
    fn a_drain_says_how_far_it_is() {
        assert_eq!(
            drain_in_words(2, 1, 3),
            format!("[{}{}] node 2 owns 1 of 3 shards", "#".repeat(20), ".".repeat(10))
        );
        // A node may own more shards than at first, if it was given another one meanwhile.
        assert!(drain_in_words(2, 4, 3).starts_with("[..."));
    }

    #[test]
    fn what_is_left_is_said_with_who_is_away_and_whether_one_can_be_lost() {
        let words = |nodes, away: &[NodeId], can_lose_a_node| {
            left_in_words(&LeftView { nodes, away: away.iter().copied().collect(), can_lose_a_node })
        };
        assert_eq!(words(3, &[], true), "3 nodes are left: any one of them can then be lost");
        assert!(words(1, &[], false).starts_with("1 node is left: then none can be lost"));
        let away = words(4, &[13], false);
        assert!(away.starts_with("4 nodes are left, of which node 13 does not answer: then none"), "{away}");
        assert!(words(5, &[2, 3], false).contains("of which nodes 2,3 do not answer"));
    }
}
