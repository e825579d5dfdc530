//! `gateway layout` and `gateway shard`: shows where the shards are placed, and moves them.

use std::time::{Duration, Instant};

use anyhow::bail;
use api::operator::layout::{BurdenView, ChangeView, Cost, LayoutView, Moved, PlanView, ShardView};
use model::id::{NodeId, ShardId};
use raft::directory::layout::MoveState;
use serde_json::json;

use super::Verdict;
use super::client::{Operator, as_type, told};
use super::confirm::{confirm, preview};
use super::shards::leaders;
use super::show::{self, Column, ProgressLine, Table, bar, listed};
use crate::cli::members::{ApplyArgs, LayoutCommand, ShardCommand};
use crate::cli::operator::OperatorArgs;
use crate::console::say;
use crate::refusal::Refusal;

const PATH: &str = "/v1/admin/layout";

/// Interval of polling the progress of moves.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long the leadership of a shard may take to follow its new placement.
const LEADERSHIP_PATIENCE: Duration = Duration::from_secs(60);

/// State of a change in progress.
const RUNS: &str = "running";

/// Printed when a plan has no moves.
const WELL_PLACED: &str = "every shard is already where it should be";

pub async fn run(command: LayoutCommand) -> anyhow::Result<Verdict> {
    match command {
        LayoutCommand::Show(args) => {
            let answer = Operator::new(&args)?.get(PATH).await?;
            told(&args, PATH, answer, print)
        }
        LayoutCommand::Plan(args) => plan(&args).await,
        LayoutCommand::Apply(args) => apply(&args).await,
        LayoutCommand::Watch(args) => follow(&Operator::new(&args)?, Tells::of(&args)).await,
        LayoutCommand::Cancel(args) => {
            let answer = Operator::new(&args)?.post("/v1/admin/layout/cancel", &json!({})).await?;
            told(&args, PATH, answer, |change: ChangeView| {
                say(format!("{} moves are cancelled, {} are being finished", change.cancelled, change.running));
            })
        }
    }
}

pub async fn shard(command: ShardCommand) -> anyhow::Result<Verdict> {
    let ShardCommand::Move { shard, to, wait, operator: args } = command;
    let operator = Operator::new(&args)?;
    let path = format!("/v1/admin/shards/{shard}/move");
    let answer = operator.post(&path, &json!({ "node_id": to })).await?;
    told(&args, &path, answer, |Moved { shard, from, to }| {
        show::prose(&format!(
            "shard {shard} moves from node {from} to node {to}; the next gateway layout apply may move it back"
        ));
    })?;
    if !wait {
        return Ok(Verdict::Well);
    }
    // The new placement is not enough: leadership is transferred after it.
    let placed = follow(&operator, if args.json { Tells::Nothing } else { Tells::Progress }).await?;
    if placed == Verdict::Well {
        led_from(&operator, shard, to).await?;
    }
    if !args.json {
        say(match placed {
            Verdict::Well => format!("node {to} leads shard {shard}"),
            Verdict::Degraded => format!("the move of shard {shard} was given up: see gateway layout show"),
        });
    }
    Ok(placed)
}

/// Waits until a shard is led by a node.
async fn led_from(operator: &Operator, shard: ShardId, node: NodeId) -> anyhow::Result<()> {
    let deadline = Instant::now() + LEADERSHIP_PATIENCE;
    loop {
        let leader = leaders(operator).await?.get(&shard).copied().flatten();
        if leader == Some(node) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let leads = leader.map_or_else(|| "nobody leads".to_owned(), |leader| format!("node {leader} still leads"));
            bail!(
                "{leads} shard {shard}, {LEADERSHIP_PATIENCE:?} after it was given to node {node}: see gateway shards"
            );
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn print(LayoutView { shards, change }: LayoutView) {
    let columns: &[Column<ShardView>] = &[
        ("SHARD", |shard| shard.shard.to_string()),
        ("REPLICAS", |shard| listed(&shard.replicas)),
        ("LEADER", |shard| shard.leader.to_string()),
        ("CHANNELS", |shard| shard.channels.to_string()),
        ("STATE", |shard| if shard.settled { "settled" } else { "moving" }.to_owned()),
    ];
    Table::of(&shards, columns).print_or("the cluster is not formed yet");
    if let Some(change) = &change {
        let by = if change.automatic { "by the cluster itself" } else { "by an operator" };
        say(format!(
            "change {}, {by}: {} ({} of {} moves done)",
            change.number, change.state, change.done, change.total
        ));
    }
}

async fn plan(args: &OperatorArgs) -> anyhow::Result<Verdict> {
    let path = "/v1/admin/layout/plan";
    let operator = Operator::new(args)?;
    let answer = operator.post(path, &json!({})).await?;
    if args.json {
        show::json(&answer);
        return Ok(Verdict::Well);
    }
    let plan: PlanView = as_type(path, answer)?;
    show_plan(&operator, &plan).await?;
    if !plan.moves.is_empty() {
        say(format!("start it with gateway layout apply --number {}", plan.number));
    }
    Ok(Verdict::Well)
}

/// Prints the moves of a plan, the resulting load of the nodes, and the cost.
async fn show_plan(operator: &Operator, plan: &PlanView) -> anyhow::Result<()> {
    let mut table = Table::new(&["SHARD", "FROM", "TO", "LEADER"]);
    for each in &plan.moves {
        table.row([each.shard.to_string(), listed(&each.from), listed(&each.to), each.leader.to_string()]);
    }
    let change = running(operator).await?;
    table.print_or(if change.is_some() { "nothing needs to move besides what is moving already" } else { WELL_PLACED });
    if let Some(change) = change {
        say(format!("change {} is in progress: follow it with gateway layout watch", change.number));
    }
    let columns: &[Column<BurdenView>] = &[
        ("NODE", |node| node.node_id.to_string()),
        ("LEADS", |node| node.leads.to_string()),
        ("LEADS AFTER", |node| node.leads_after.to_string()),
        ("LOAD", |node| format!("{:.1}", node.load)),
        ("LOAD AFTER", |node| format!("{:.1}", node.load_after)),
    ];
    if !plan.nodes.is_empty() {
        say("");
        Table::of(&plan.nodes, columns).print_or("");
    }
    if !plan.moves.is_empty() {
        show::prose(&cost_in_words(plan));
    }
    Ok(())
}

fn cost_in_words(plan: &PlanView) -> String {
    let Cost { replicas, leads, channels } = plan.cost;
    format!("{replicas} replicas will be copied; {leads} shards with {channels} channels will get another leader")
}

async fn apply(args: &ApplyArgs) -> anyhow::Result<Verdict> {
    const PLAN: &str = "/v1/admin/layout/plan";
    let operator = Operator::new(&args.operator)?;
    // A change that runs already, begun by an interrupted `apply` or by the cluster itself, has to end first.
    if let Some(change) = running(&operator).await?
        && args.number.is_none()
        && !args.detach
    {
        if !args.operator.json {
            say(format!("change {} is in progress and continues", change.number));
        }
        follow(&operator, if args.operator.json { Tells::Nothing } else { Tells::Progress }).await?;
    }
    let planned = operator.post(PLAN, &json!({})).await?;
    // Having nothing to do is a success for scripts that apply a plan until nothing is left.
    let plan: PlanView = as_type(PLAN, planned.clone())?;
    if let Some(number) = args.number.filter(|number| *number != plan.number) {
        let problem = format!("the layout has changed since; the current plan has the number {}", plan.number);
        return Err(Refusal::new(format!("--number {number}"), problem, "see gateway layout plan again").into());
    }
    if plan.moves.is_empty() {
        if args.operator.json {
            show::json(&planned);
        } else {
            say(WELL_PLACED);
        }
        return Ok(Verdict::Well);
    }
    match args.operator.json {
        false => show_plan(&operator, &plan).await?,
        true => preview(&args.confirm, true, &cost_in_words(&plan)),
    }
    confirm(&args.confirm, "gateway layout apply")?;
    let mut body = json!({ "at_once": args.at_once });
    // An operator who confirmed wants the plan that was shown, not one that was made since.
    if args.number.is_some() || !args.confirm.yes {
        body["number"] = json!(plan.number);
    }
    let answer = operator.post("/v1/admin/layout/apply", &body).await?;
    if args.detach {
        if args.operator.json {
            show::json(&answer);
        }
        return Ok(Verdict::Well);
    }
    follow(&operator, Tells::of(&args.operator)).await
}

/// The change in progress.
async fn running(operator: &Operator) -> anyhow::Result<Option<ChangeView>> {
    let LayoutView { change, .. } = operator.read(PATH).await?;
    Ok(change.filter(|change| change.state == RUNS))
}

/// What is printed about a change while it runs and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tells {
    /// Its progress.
    Progress,
    /// Its result, as JSON.
    End,
    Nothing,
}

impl Tells {
    fn of(args: &OperatorArgs) -> Self {
        if args.json { Self::End } else { Self::Progress }
    }
}

/// Waits until the change has ended; `Well` if every move was done.
async fn follow(operator: &Operator, tells: Tells) -> anyhow::Result<Verdict> {
    let mut shown = ProgressLine::begin(tells == Tells::Progress);
    loop {
        let answer = operator.get_patiently(PATH).await?;
        let LayoutView { change, .. } = as_type(PATH, answer.clone())?;
        let over = change.as_ref().is_none_or(|change| change.state != RUNS);
        if over && tells == Tells::End {
            show::json(&answer["change"]);
        }
        let Some(change) = change else {
            if tells == Tells::Progress {
                say("the layout has never been changed");
            }
            return Ok(Verdict::Well);
        };
        shown.tell(progress(&change), change.done + change.cancelled, change.total);
        if over {
            return Ok(Verdict::of(change.done == change.total));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// One line: a bar, the number of ended moves, and the moves in progress.
fn progress(change: &ChangeView) -> String {
    let over = change.done + change.cancelled;
    let running = change.moves.iter().filter(|each| each.state == MoveState::Running);
    let running: Vec<String> =
        running.map(|each| format!("{}: {} -> {}", each.shard, listed(&each.from), listed(&each.to))).collect();
    let what = if running.is_empty() { change.state.to_string() } else { running.join("; ") };
    format!("{} {over}/{} {what}", bar(over, change.total), change.total)
}

#[cfg(test)]
mod tests {
    use api::operator::layout::MoveView;
    use model::time::Timestamp;

    use super::*;

    #[test]
    fn a_bar_fills_with_what_is_over() {
        let each = |shard, state| MoveView {
            shard,
            from: vec![1],
            to: vec![1, 2],
            leader: 1,
            state,
            began_at: None,
            ended_at: None,
            copied_bytes: None,
            to_copy_bytes: None,
        };
        let change = |state: &'static str, done, moves: Vec<MoveView>| ChangeView {
            number: 1,
            state: state.into(),
            automatic: false,
            at_once: 1,
            began_at: Timestamp(0),
            ended_at: None,
            total: moves.len(),
            waiting: 0,
            running: 1,
            done,
            cancelled: 0,
            moves,
        };
        let half = change(RUNS, 1, vec![each(4, MoveState::Done), each(7, MoveState::Running)]);
        assert_eq!(progress(&half), format!("[{}{}] 1/2 7: 1 -> 1,2", "#".repeat(15), ".".repeat(15)));
        assert_eq!(progress(&change("done", 0, Vec::new())), format!("[{}] 0/0 done", "#".repeat(30)));
    }
}
