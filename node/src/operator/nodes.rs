//! `gateway nodes`: the members of the cluster.

use api::List;
use api::operator::nodes::NodeView;

use super::Verdict;
use super::client::{Operator, shown};
use super::show::{self, Column, Table, cell, listed};
use crate::cli::operator::OperatorArgs;
use crate::console::say;

pub(super) const PATH: &str = "/v1/admin/nodes";

/// State of a node that runs and is not drained.
pub(super) const READY: &str = "ready";

pub async fn run(args: &OperatorArgs) -> anyhow::Result<Verdict> {
    let answer = Operator::new(args)?.get(PATH).await?;
    let List { data, .. } = shown(args, PATH, answer, |nodes: &List<NodeView>| print(&nodes.data))?;
    Ok(Verdict::of(data.iter().all(is_well)))
}

fn is_well(node: &NodeView) -> bool {
    node.state == READY && node.serves
}

fn state(node: &NodeView) -> String {
    // A node that is up may be cut off from the others, or still catching up.
    if node.state == READY && !node.serves { "up, not serving".to_owned() } else { node.state.to_string() }
}

fn print(nodes: &[NodeView]) {
    let columns: &[Column<NodeView>] = &[
        ("NODE", |node| node.id.to_string()),
        ("STATE", state),
        ("ADDRESS", |node| node.address.clone()),
        ("ZONE", |node| cell(node.zone.as_ref())),
        ("REPLICAS", |node| node.replicas.to_string()),
        ("OWNS", |node| cell(node.owns.as_ref().map(listed))),
        ("SESSIONS", |node| cell(node.used.map(|used| format!("{used}/{}", node.slots)))),
        ("CONNECTED", |node| cell(node.channels_connected)),
        ("MEMORY", |node| cell(node.rss_bytes.map(show::bytes))),
        ("DISK LEFT", |node| cell(node.disk_free_bytes.map(show::bytes))),
        ("FSYNC P99", |node| cell(node.fsync_p99_ms.map(|millis| format!("{millis:.1} ms")))),
        ("CLOCK", |node| cell(node.clock_ahead_ms.map(|millis| format!("{millis:+} ms")))),
        ("UP", |node| cell(node.started_at.map(show::ago))),
        ("VERSION", |node| cell(node.version.as_ref())),
    ];
    Table::of(nodes, columns).print_or("the cluster has no members yet");
    for node in nodes {
        if let Some(silence) = &node.silence {
            say(format!("node {}: {silence}", node.id));
        }
    }
}
