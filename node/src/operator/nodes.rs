//! `gateway nodes`: the members of the cluster.

use model::id::{NodeId, ShardId};
use model::time::Timestamp;
use serde::Deserialize;

use super::Verdict;
use super::client::{Operator, Rows, shown};
use super::show::{self, Table, cell, listed};
use crate::cli::operator::OperatorArgs;
use crate::console::say;

pub(super) const PATH: &str = "/v1/admin/nodes";

/// The state of a node that runs and is not drained.
pub(super) const READY: &str = "ready";

/// What of a row of `GET /v1/admin/nodes` is shown.
#[derive(Deserialize)]
struct Node {
    id: NodeId,
    address: String,
    version: Option<String>,
    state: String,
    /// Earlier releases do not say.
    serves: Option<bool>,
    zone: Option<String>,
    slots: u32,
    used: Option<u64>,
    channels_connected: Option<u64>,
    rss_bytes: Option<u64>,
    started_at: Option<Timestamp>,
    replicas: usize,
    owns: Option<Vec<ShardId>>,
    fsync_p99_ms: Option<f64>,
    clock_ahead_ms: Option<i64>,
    disk_free_bytes: Option<u64>,
    silence: Option<String>,
}

pub async fn run(args: &OperatorArgs) -> anyhow::Result<Verdict> {
    let answer = Operator::new(args)?.get(PATH).await?;
    let Rows { data, .. } = shown(args, PATH, answer, |nodes: &Rows<Node>| print(&nodes.data))?;
    Ok(Verdict::of(data.iter().all(Node::is_well)))
}

impl Node {
    fn is_well(&self) -> bool {
        self.state == READY && self.serves != Some(false)
    }

    /// It may have lost the others, or catch up.
    fn state_in_words(&self) -> String {
        if self.state == READY && !self.is_well() { "up, not serving".to_owned() } else { self.state.clone() }
    }
}

fn print(nodes: &[Node]) {
    let mut table = Table::new(&[
        "NODE",
        "STATE",
        "ADDRESS",
        "ZONE",
        "REPLICAS",
        "OWNS",
        "SESSIONS",
        "CONNECTED",
        "MEMORY",
        "DISK LEFT",
        "FSYNC P99",
        "CLOCK",
        "UP",
        "VERSION",
    ]);
    for node in nodes {
        table.row([
            node.id.to_string(),
            node.state_in_words(),
            node.address.clone(),
            cell(node.zone.as_ref()),
            node.replicas.to_string(),
            cell(node.owns.as_ref().map(listed)),
            cell(node.used.map(|used| format!("{used}/{}", node.slots))),
            cell(node.channels_connected),
            cell(node.rss_bytes.map(show::bytes)),
            cell(node.disk_free_bytes.map(show::bytes)),
            cell(node.fsync_p99_ms.map(|millis| format!("{millis:.1} ms"))),
            cell(node.clock_ahead_ms.map(|millis| format!("{millis:+} ms"))),
            cell(node.started_at.map(show::ago)),
            cell(node.version.as_ref()),
        ]);
    }
    table.print_or("the cluster has no members yet");
    for node in nodes {
        if let Some(silence) = &node.silence {
            say(format!("node {}: {silence}", node.id));
        }
    }
}
