//! `gateway format`: shows which formats the nodes' releases support, and finishes an upgrade.

use api::operator::format::FormatView;
use model::format::Format;
use serde_json::{Value, json};

use super::Verdict;
use super::client::{Operator, told};
use super::confirm::{confirm, preview};
use super::show::{Table, cell};
use crate::cli::operator::{FormatCommand, OperatorArgs};
use crate::console::say;
use crate::refusal::Refusal;

const PATH: &str = "/v1/admin/format";

pub async fn run(command: FormatCommand) -> anyhow::Result<Verdict> {
    match command {
        FormatCommand::Show(args) => {
            let answer = Operator::new(&args)?.get(PATH).await?;
            show(&args, answer)
        }
        FormatCommand::Raise { confirm: yes, operator: args } => {
            let operator = Operator::new(&args)?;
            let FormatView { format, highest, .. } = operator.read(PATH).await?;
            match highest {
                Some(highest) if highest > format => {
                    let words = format!(
                        "the cluster goes from format {format} to {highest}; from then on no node can go back to a release \
                         that does not understand it"
                    );
                    preview(&yes, args.json, &words);
                    confirm(&yes, "gateway format raise")?;
                }
                // If the format cannot be raised, there is nothing to confirm. With `--yes`, the cluster answers why.
                _ if !yes.yes => {
                    let problem = format!("the cluster has format {format}; {}", highest_in_words(format, highest));
                    let remedy = "nothing was changed; see gateway format show";
                    return Err(Refusal::new("gateway format raise", problem, remedy).into());
                }
                _ => {}
            }
            let answer = operator.post(&format!("{PATH}/raise"), &json!({})).await?;
            show(&args, answer)
        }
    }
}

fn show(args: &OperatorArgs, answer: Value) -> anyhow::Result<Verdict> {
    told(args, PATH, answer, |FormatView { format, highest, nodes }| {
        let mut table = Table::new(&["NODE", "RELEASE", "UNDERSTANDS"]);
        for node in nodes {
            let understands = node.understands.map(|format| format!("formats up to {format}"));
            table.row([node.id.to_string(), cell(node.version), cell(understands)]);
        }
        table.print_or("there are no nodes");
        say(format!("\nthe cluster has format {format}; {}", highest_in_words(format, highest)));
    })
}

fn highest_in_words(format: Format, highest: Option<Format>) -> String {
    match highest {
        None => "a node does not answer".to_owned(),
        Some(highest) if highest > format => {
            format!("all nodes understand {highest}: use gateway format raise once no node will go back")
        }
        Some(_) => "no higher one is understood by all nodes".to_owned(),
    }
}
