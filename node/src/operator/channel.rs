//! `gateway channel`: which node holds a channel, and whether it may run.

use model::id::{Epoch, NodeId, ShardId};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Verdict;
use super::client::{Operator, as_type};
use super::show::{self, Table, cell, listed};
use crate::cli::operator::{ChannelArgs, ChannelCommand};

/// What of a channel's answer is shown; it is the same whatever was asked.
#[derive(Deserialize)]
struct Channel {
    name: String,
    status: String,
    phone_number: Option<String>,
    customer_id: Option<Uuid>,
    shard: Option<ShardId>,
    node_id: Option<NodeId>,
    epoch: Option<Epoch>,
    #[serde(default)]
    replicas: Vec<NodeId>,
}

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
    if args.operator.json {
        show::json(&answer);
        return Ok(Verdict::Well);
    }
    let channel: Channel = as_type(&path(args, ""), answer)?;
    let mut table =
        Table::new(&["CHANNEL", "NAME", "STATUS", "NUMBER", "CUSTOMER", "SHARD", "NODE", "EPOCH", "REPLICAS"]);
    table.row([
        args.id.to_string(),
        channel.name,
        channel.status,
        cell(channel.phone_number),
        cell(channel.customer_id),
        cell(channel.shard),
        cell(channel.node_id),
        cell(channel.epoch),
        listed(channel.replicas),
    ]);
    table.print_lists_or("");
    Ok(Verdict::Well)
}
