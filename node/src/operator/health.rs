//! `gateway status` and `gateway check`: how the cluster is, and whether a node can be lost now.

use std::collections::BTreeMap;

use model::format::Format;
use model::id::NodeId;
use model::time::Timestamp;
use serde::Deserialize;

use super::Verdict;
use super::client::{Operator, shown};
use super::show::{self, Table};
use crate::cli::operator::OperatorArgs;
use crate::console::say;

/// The word for a cluster with which nothing is wrong.
const WELL: &str = "operational";

/// What of `GET /v1/admin/status` is shown.
#[derive(Deserialize)]
struct Status {
    status: String,
    cluster_id: Option<String>,
    formed_at: Option<Timestamp>,
    node_id: NodeId,
    /// Absent in what release 0.1.0 says, as are the releases.
    #[serde(default)]
    format: Format,
    #[serde(default)]
    releases: BTreeMap<String, Vec<NodeId>>,
    nodes: Counted,
    shards: Counted,
    channels: BTreeMap<String, u64>,
    customers: usize,
    webhook_endpoints: usize,
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Counted {
    ready: usize,
    total: usize,
}

#[derive(Deserialize)]
struct Finding {
    check: String,
    level: String,
    message: String,
    remedy: Option<String>,
}

/// What of `GET /v1/admin/check` is shown.
#[derive(Deserialize)]
struct Check {
    status: String,
    can_lose_a_node: bool,
    checks: Vec<Finding>,
}

pub async fn status(args: &OperatorArgs) -> anyhow::Result<Verdict> {
    const PATH: &str = "/v1/admin/status";
    let answer = Operator::new(args)?.get(PATH).await?;
    let status = shown(args, PATH, answer, print)?;
    Ok(Verdict::of(status.status == WELL))
}

fn print(status: &Status) {
    let line = |label: &str, text: String| say(format!("{label:<10}{text}"));
    line("status", status.status.clone());
    let formed =
        status.formed_at.map_or_else(|| "not formed yet".to_owned(), |at| format!("formed {} ago", show::ago(at)));
    line("cluster", format!("{}, {formed}", status.cluster_id.as_deref().unwrap_or("-")));
    line("nodes", format!("{} of {} ready (node {} answers)", status.nodes.ready, status.nodes.total, status.node_id));
    let releases: Vec<String> =
        status.releases.iter().map(|(release, nodes)| format!("{release} on {}", named(nodes))).collect();
    line("release", format!("{}; the cluster has format {}", releases.join(", "), status.format));
    line("shards", format!("{} of {} whole, the directory among them", status.shards.ready, status.shards.total));
    let channels: u64 = status.channels.values().sum();
    let by_status: Vec<String> = status
        .channels
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(status, count)| format!("{count} {status}"))
        .collect();
    let detail = if by_status.is_empty() { String::new() } else { format!(": {}", by_status.join(", ")) };
    line("channels", format!("{channels}{detail}"));
    let endpoints = if status.webhook_endpoints == 1 { "webhook endpoint" } else { "webhook endpoints" };
    line("customers", format!("{}, with {} {endpoints}", status.customers, status.webhook_endpoints));
    if !status.findings.is_empty() {
        say("");
        findings(&status.findings);
    }
}

/// `node 1` or `nodes 1, 2`.
fn named(nodes: &[NodeId]) -> String {
    let numbers: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    format!("{} {}", if nodes.len() == 1 { "node" } else { "nodes" }, numbers.join(", "))
}

pub async fn check(args: &OperatorArgs) -> anyhow::Result<Verdict> {
    const PATH: &str = "/v1/admin/check";
    let answer = Operator::new(args)?.get(PATH).await?;
    let check = shown(args, PATH, answer, |check: &Check| {
        findings(&check.checks);
        let (can, cannot) = ("any one node can be lost now", "a node cannot be lost now");
        say(format!("\n{}: {}", check.status, if check.can_lose_a_node { can } else { cannot }));
    })?;
    Ok(check.verdict())
}

impl Check {
    /// Well only when a node can be stopped now, whatever else is well: scripts ask before they stop one.
    fn verdict(&self) -> Verdict {
        Verdict::of(self.status == WELL && self.can_lose_a_node)
    }
}

fn findings(findings: &[Finding]) {
    let mut table = Table::new(&["LEVEL", "CHECK", "WHAT", "WHAT TO DO"]);
    for Finding { check, level, message, remedy } in findings {
        table.row([level.clone(), check.clone(), message.clone(), remedy.clone().unwrap_or_default()]);
    }
    table.print_or("nothing was checked");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_well_only_when_a_node_can_be_lost() {
        let verdict = |status: &str, can_lose_a_node| {
            Check { status: status.to_owned(), can_lose_a_node, checks: Vec::new() }.verdict()
        };
        assert_eq!(verdict(WELL, true), Verdict::Well);
        assert_eq!(verdict(WELL, false), Verdict::Degraded, "one node or two are operational, and none can be lost");
        assert_eq!(verdict("degraded", true), Verdict::Degraded);
    }
}
