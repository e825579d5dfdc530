//! `gateway channel`: the owner of a channel, whether the channel may run, and its move to another cluster.

use std::path::Path;

use anyhow::Context;
use api::operator::channels::PlacedChannel;
use bytes::Bytes;
use reqwest::RequestBuilder;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::Verdict;
use super::access::given_secret;
use super::client::{Operator, told};
use super::show::{self, Table, cell, listed};
use crate::cli::operator::{ChannelArgs, ChannelCommand};
use crate::key_files::write_atomically;
use crate::refusal::{Refusal, ensure};

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
        ChannelCommand::Export { channel, to, passphrase_file } => export(&channel, &to, &passphrase_file).await,
        ChannelCommand::Import { channel, from, passphrase_file } => import(&channel, &from, &passphrase_file).await,
    }
}

async fn export(channel: &ChannelArgs, to: &Path, passphrase_file: &Path) -> anyhow::Result<Verdict> {
    let file = to.display().to_string();
    ensure(!to.exists(), &file, "already exists", "name another file")?;
    let body = json!({ "passphrase": passphrase(passphrase_file)? });
    let operator = Operator::new(&channel.operator)?;
    let bundle = operator.exchange(&path(channel, "/export"), |request| request.json(&body)).await?;
    write_atomically(to, &bundle, 0o600).with_context(|| file.clone())?;
    let bytes = bundle.len();
    if channel.operator.json {
        show::json(&json!({ "file": file, "bytes": bytes }));
    } else {
        let size = show::bytes(bytes as u64);
        show::prose(&format!(
            "{file}: {size}. Import it into the other cluster before you let a channel with this session run anywhere."
        ));
    }
    Ok(Verdict::Well)
}

async fn import(channel: &ChannelArgs, from: &Path, passphrase_file: &Path) -> anyhow::Result<Verdict> {
    let bundle = std::fs::read(from)
        .map(Bytes::from)
        .map_err(|error| Refusal::new(from.display(), error, "name the file that gateway channel export wrote"))?;
    let passphrase = passphrase(passphrase_file)?;
    let fill = |request: RequestBuilder| {
        let request = request.header("x-passphrase", passphrase.as_str());
        request.header(CONTENT_TYPE, "application/octet-stream").body(bundle.clone())
    };
    let answer = Operator::new(&channel.operator)?.exchange(&path(channel, "/import"), fill).await?;
    show(channel, serde_json::from_slice(&answer).context("the answer to an import is no JSON")?)
}

fn passphrase(file: &Path) -> Result<String, Refusal> {
    Ok(given_secret("--passphrase", None, Some(file), None)?.unwrap_or_default())
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
