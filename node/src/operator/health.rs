//! `gateway status` and `gateway check`: the condition of the cluster, and whether it can lose a node now.

use api::operator::check::{CheckView, Condition, Finding};
use api::operator::status::StatusView;
use api::operator::word;
use model::id::NodeId;

use super::Verdict;
use super::client::{Operator, shown};
use super::show::{self, Table, UNKNOWN, cell};
use crate::cli::operator::OperatorArgs;
use crate::console::say;

pub async fn status(args: &OperatorArgs) -> anyhow::Result<Verdict> {
    const PATH: &str = "/v1/admin/status";
    let answer = Operator::new(args)?.get(PATH).await?;
    let status = shown(args, PATH, answer, print)?;
    Ok(Verdict::of(status.status == Condition::Operational))
}

fn print(status: &StatusView) {
    let line = |label: &str, text: String| say(format!("{label:<10}{text}"));
    line("status", word(&status.status));
    let formed =
        status.formed_at.map_or_else(|| "not formed yet".to_owned(), |at| format!("formed {} ago", show::ago(at)));
    line("cluster", format!("{}, {formed}", status.cluster_id.map_or_else(|| UNKNOWN.to_owned(), |id| id.to_string())));
    line("nodes", format!("{} of {} ready (node {} answers)", status.nodes.ready, status.nodes.total, status.node_id));
    let releases: Vec<String> =
        status.releases.iter().map(|(release, nodes)| format!("{release} on {}", named(nodes))).collect();
    line("release", format!("{}; the cluster has format {}", releases.join(", "), status.format));
    line("shards", format!("{} of {} complete, including the directory", status.shards.ready, status.shards.total));
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
    let check = shown(args, PATH, answer, |check: &CheckView| {
        findings(&check.checks);
        let (can, cannot) = ("any one node can be lost now", "not every node can be lost now");
        say(format!("\n{}: {}", word(&check.status), if check.can_lose_a_node { can } else { cannot }));
    })?;
    Ok(verdict(&check))
}

/// `Well` only if a node can be stopped now: scripts check this before they stop one.
fn verdict(check: &CheckView) -> Verdict {
    Verdict::of(check.status == Condition::Operational && check.can_lose_a_node)
}

fn findings(findings: &[Finding]) {
    let mut table = Table::new(&["LEVEL", "CHECK", "WHAT", "WHAT TO DO"]);
    for Finding { check, level, message, remedy, .. } in findings {
        table.row([level.as_str().to_owned(), check.to_string(), message.clone(), cell(remedy.as_ref())]);
    }
    table.print_or("nothing was checked");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_well_only_when_a_node_can_be_lost() {
        use Condition::{Degraded, Operational};
        let verdict = |status, can_lose_a_node| verdict(&CheckView { status, can_lose_a_node, checks: Vec::new() });
        assert_eq!(verdict(Operational, true), Verdict::Well);
        assert_eq!(verdict(Operational, false), Verdict::Degraded, "one node or two, of which none can be lost");
        assert_eq!(verdict(Degraded, true), Verdict::Degraded);
    }
}
