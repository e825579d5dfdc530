//! `gateway message trace`: what became of a message.

use model::id::{Epoch, NodeId, ShardId};
use model::time::Timestamp;
use serde::Deserialize;

use super::Verdict;
use super::client::{Operator, Rows, in_path, told};
use super::show::{Table, cell};
use crate::cli::operator::MessageTraceArgs;
use crate::console::say;

/// What of a row of `GET /v1/admin/messages/{message_id}/trace` is shown.
#[derive(Deserialize)]
struct Trace {
    channel_id: String,
    channel_name: String,
    customer_id: String,
    shard: ShardId,
    node_id: NodeId,
    epoch: Epoch,
    direction: String,
    #[serde(rename = "type")]
    kind: String,
    from: String,
    to: String,
    status: String,
    request_id: Option<String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    at: Timestamp,
    step: String,
    detail: String,
}

/// A message that failed, or whose webhooks do not get through, is no fault of the cluster: the verdict is that it was
/// found.
pub async fn trace(args: &MessageTraceArgs) -> anyhow::Result<Verdict> {
    let channel = args.channel.map(|channel| format!("?channel_id={channel}")).unwrap_or_default();
    let path = format!("/v1/admin/messages/{}/trace{channel}", in_path(&args.id));
    let answer = Operator::new(&args.operator)?.get(&path).await?;
    told(&args.operator, &path, answer, |Rows::<Trace> { data, .. }| {
        for (index, trace) in data.iter().enumerate() {
            if index > 0 {
                say("");
            }
            print(trace);
        }
    })?;
    Ok(Verdict::Well)
}

fn print(trace: &Trace) {
    let Trace { direction, kind, from, to, .. } = trace;
    let mut about = Table::new(&["MESSAGE", "STATUS", "CHANNEL", "CUSTOMER", "SHARD", "REQUEST"]);
    about.row([
        format!("{direction} {kind} from {from} to {to}"),
        trace.status.clone(),
        format!("{} ({})", trace.channel_id, trace.channel_name),
        trace.customer_id.clone(),
        format!("{}, owned by node {} in epoch {}", trace.shard, trace.node_id, trace.epoch),
        cell(trace.request_id.as_ref()),
    ]);
    about.print_lists_or("");
    say("");
    let mut table = Table::new(&["AT", "STEP", "WHAT"]);
    for step in &trace.steps {
        table.row([step.at.to_iso(), step.step.clone(), step.detail.clone()]);
    }
    table.print_or("nothing happened yet");
}
