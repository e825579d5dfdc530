//! `gateway format`: what the nodes' releases understand of each other, and the end of an upgrade.

use model::format::Format;
use model::id::NodeId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Verdict;
use super::client::{Operator, as_type};
use super::show::{self, Table, cell};
use crate::cli::operator::FormatCommand;
use crate::console::say;

/// What of `GET /v1/admin/format` is shown.
#[derive(Deserialize)]
struct Shown {
    format: Format,
    highest: Option<Format>,
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: NodeId,
    version: Option<String>,
    understands: Option<Format>,
}

pub async fn run(command: FormatCommand) -> anyhow::Result<Verdict> {
    const PATH: &str = "/v1/admin/format";
    let (args, answer) = match command {
        FormatCommand::Show(args) => {
            let answer = Operator::new(&args)?.get(PATH).await?;
            (args, answer)
        }
        FormatCommand::Raise(args) => {
            let answer = Operator::new(&args)?.post(&format!("{PATH}/raise"), &json!({})).await?;
            (args, answer)
        }
    };
    if args.json {
        show::json(&answer);
    } else {
        print(PATH, answer)?;
    }
    Ok(Verdict::Well)
}

fn print(path: &str, answer: Value) -> anyhow::Result<()> {
    let shown: Shown = as_type(path, answer)?;
    let mut table = Table::new(&["NODE", "RELEASE", "UNDERSTANDS"]);
    for node in shown.nodes {
        let understands = node.understands.map(|format| format!("formats up to {format}"));
        table.row([node.id.to_string(), cell(node.version), cell(understands)]);
    }
    table.print_or("there are no nodes");
    let highest = match shown.highest {
        None => "a node does not answer".to_owned(),
        Some(highest) if highest > shown.format => {
            format!("all nodes understand {highest}: gateway format raise, once no node is to go back")
        }
        Some(_) => "no higher one is understood by all nodes".to_owned(),
    };
    say(format!("\nthe cluster has format {}; {highest}", shown.format));
    Ok(())
}
