//! `gateway message trace`: what happened to a message.

use api::List;
use api::operator::trace::TraceView;
use api::operator::word;

use super::Verdict;
use super::client::{Operator, in_path, told};
use super::show::{Table, cell};
use crate::cli::operator::MessageTraceArgs;
use crate::console::say;

/// Traces a message. The verdict is about finding it: a message that failed, or whose webhooks do not get through, is
/// not a fault of the cluster.
pub async fn trace(args: &MessageTraceArgs) -> anyhow::Result<Verdict> {
    let channel = args.channel.map(|channel| format!("?channel_id={channel}")).unwrap_or_default();
    let path = format!("/v1/admin/messages/{}/trace{channel}", in_path(&args.id));
    let answer = Operator::new(&args.operator)?.get(&path).await?;
    told(&args.operator, &path, answer, |List::<TraceView> { data, .. }| {
        for (index, trace) in data.iter().enumerate() {
            if index > 0 {
                say("");
            }
            print(trace);
        }
    })
}

fn print(trace: &TraceView) {
    let TraceView { direction, kind, from, to, .. } = trace;
    let mut about = Table::new(&["MESSAGE", "STATUS", "CHANNEL", "CUSTOMER", "SHARD", "REQUEST"]);
    about.row([
        format!("{} {kind} from {from} to {to}", word(direction)),
        trace.status.as_str().to_owned(),
        format!("{} ({})", trace.channel_id, trace.channel_name),
        trace.customer_id.to_string(),
        format!("{}, owned by node {} in epoch {}", trace.shard, trace.node_id, trace.epoch),
        cell(trace.request_id.as_ref()),
    ]);
    about.print_lists_or("");
    say("");
    let mut table = Table::new(&["AT", "STEP", "WHAT"]);
    for step in &trace.steps {
        table.row([step.at.to_iso(), step.step.to_string(), step.detail.clone()]);
    }
    table.print_or("nothing happened yet");
}
