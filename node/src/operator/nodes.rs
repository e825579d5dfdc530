//! `gateway nodes`: the members of the cluster.

use api::List;
use api::operator::nodes::NodeView;

use super::Verdict;
use super::client::{Operator, shown};
use super::show::{self, Table, cell, listed};
use crate::cli::operator::OperatorArgs;
use crate::console::say;

pub(super) const PATH: &str = "/v1/admin/nodes";

/// The state of a node that runs and is not drained.
pub(super) const READY: &str = "ready";

pub async fn run(args: &OperatorArgs) -> anyhow::Result<Verdict> {
    let answer = Operator::new(args)?.get(PATH).await?;
    let List { data, .. } = shown(args, PATH, answer, |nodes: &List<NodeView>| print(&nodes.data))?;
    Ok(Verdict::of(data.iter().all(is_well)))
}

fn is_well(node: &NodeView) -> bool {
    node.state == READY && node.serves
}

fn print(nodes: &[NodeView]) {
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
        // It may have lost the others, or catch up.
        let is_up_only = node.state == READY && !node.serves;
        table.row([
            node.id.to_string(),
            if is_up_only { "up, not serving".to_owned() } else { node.state.to_string() },
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
