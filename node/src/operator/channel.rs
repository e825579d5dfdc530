//! `gateway channel`: which node holds a channel, and whether it may run.

use api::operator::channels::PlacedChannel;
use serde_json::{Value, json};

use super::Verdict;
use super::client::{Operator, told};
use super::show::{Table, cell, listed};
use crate::cli::operator::{ChannelArgs, ChannelCommand};

pub async fn run(command: ChannelCommand) -> anyhow::Result<Verdict> {
    match command {
        ChannelCommand::Where(args) => {
            let answer = Operator::new(&args.operator)?.get(&path(&args, "")).await?;
            show(&args, answer)
        }
        ChannelCommand::Disable { channel, reason } => {
            let body = reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
            let answer = Operator::new(&channel.operator)?.post(&path(&channel, "/disable"), &body).await?;
            show(&channel, answer)
        }
        ChannelCommand::Enable(args) => {
            let answer = Operator::new(&args.operator)?.post(&path(&args, "/enable"), &json!({})).await?;
            show(&args, answer)
        }
    }
}

fn path(args: &ChannelArgs, rest: &str) -> String {
    format!("/v1/admin/channels/{}{rest}", args.id)
}

fn show(args: &ChannelArgs, answer: Value) -> anyhow::Result<Verdict> {
    told(&args.operator, &path(args, ""), answer, |PlacedChannel { channel, shard, node_id, epoch, replicas }| {
        let mut table =
            Table::new(&["CHANNEL", "NAME", "STATUS", "NUMBER", "CUSTOMER", "SHARD", "NODE", "EPOCH", "REPLICAS"]);
        table.row([
            args.id.to_string(),
            channel.name,
            channel.status.to_string(),
            cell(channel.phone_number),
            channel.customer_id.to_string(),
            cell(shard),
            cell(node_id),
            cell(epoch),
            listed(replicas),
        ]);
        table.print_lists_or("");
    })
}
