//! `gateway dev`: a whole cluster on this machine, with one process per node, and either the simulated network or a
//! test network that speaks the real one's protocol.
//!
//! - [`folder`]: files of the cluster, and which of them survive; [`settings`]: the nodes' configuration files.
//! - [`process`]: starting, finding and ending processes; [`ports`]: the ports of all processes.
//! - `member`: the user of the console. [`description`]: the content of `dev.json`. `demo`: shows the main use case.

mod demo;
pub mod description;
pub mod folder;
mod member;
pub mod ports;
pub mod process;
pub mod settings;

use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use model::id::NodeId;
use nix::sys::signal::Signal;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::signal::unix::SignalKind;

use crate::caller::{Caller, text_at};
use crate::cli::{DevArgs, DevCommand, UpArgs};
use crate::config::Driver;
use crate::console::{program, say, warn};
use crate::refusal::{Refusal, ensure};
use crate::stop::StopSignals;
use description::Description;
use folder::{DemoCustomer, Folder, Plan, read_json, write_json};
use process::{Children, Role, Started};

/// A cluster on a busy machine is ready well within this time.
const START_DEADLINE: Duration = Duration::from_secs(90);

/// Timeout for asking a node whether another one was removed, before that one is started.
const ANSWER: Duration = Duration::from_secs(2);

/// How often readiness is polled.
const POLL: Duration = Duration::from_millis(50);

/// Time that a process has after SIGTERM to transfer its leaderships, close its sessions and flush its state.
const STOP_DEADLINE: Duration = Duration::from_secs(60);

/// Shorter deadline for `down` and Ctrl-C, since everything stops anyway.
const DOWN_DEADLINE: Duration = Duration::from_secs(10);

/// Words in the last log lines of a node that was removed from its cluster.
const REMOVED: [&str; 2] = ["was removed from this cluster", "is no member of this cluster"];

/// Runs the subcommand, or starts a cluster.
///
/// # Errors
/// A [`Refusal`] when the arguments are wrong; any other error when something fails.
pub async fn run(args: DevArgs) -> anyhow::Result<()> {
    match args.command {
        None => up(&args.data, &args.up).await,
        Some(DevCommand::Start { node, wait }) => start(&args.data, node, wait).await,
        Some(DevCommand::Stop { node, kill }) => stop(&args.data, node, kill).await,
        Some(DevCommand::Down) => down(&args.data).await,
    }
}

async fn up(data: &Path, args: &UpArgs) -> anyhow::Result<()> {
    refuse_when_running(data)?;
    let (folder, plan) = Folder::choose(data, args.nodes, args.base_port, args.network, args.fresh)?;
    let has_network = plan.network != Driver::Whatsapp || cfg!(feature = "testnet");
    let remedy =
        "take a build that has one, as `make run-whatsapp` makes it (cargo build --package node --features testnet)";
    ensure(has_network, "--network whatsapp", "wants a test network, and this build has none", remedy)?;
    let receiver = args.demo.then(|| ("the demo's webhook receiver".to_owned(), plan.ports().demo_receiver()));
    let nodes = plan.node_ids().flat_map(|node| plan.ports().of_node(node));
    ports::ensure_free(plan.ports().of_network(plan.network).into_iter().chain(nodes).chain(receiver))?;
    folder.establish(plan)?;

    let mut children = Children::default();
    // SIGHUP, when the terminal is closed, stops the cluster, too.
    let mut stop = StopSignals::listen_also(Some(SignalKind::hangup()))?;
    let outcome = tokio::select! {
        outcome = bring_up_and_hold(&folder, plan, args, &mut children) => outcome,
        () = stop.next() => {
            warn("\nstopping");
            stop_everything(&folder, plan).await;
            return Ok(());
        }
    };
    if outcome.is_err() {
        stop_everything(&folder, plan).await;
    }
    outcome
}

/// Starts everything. Returns when the cluster is detached; otherwise only on an error.
async fn bring_up_and_hold(folder: &Folder, plan: Plan, args: &UpArgs, children: &mut Children) -> anyhow::Result<()> {
    let started = Instant::now();
    let description = bring_up(folder, plan, args, children).await?;
    print_summary(folder, plan, &description, started.elapsed());
    let demo = match args.demo {
        true => Some(demo::show(&description, plan, args).await?),
        false => None,
    };
    if args.detach {
        if let Some(demo) = demo {
            demo.leave().await?;
        }
        say(format!("stop it with: {} dev down --data {}", program(), folder.root().display()));
        return Ok(());
    }
    print_console(folder, &description, args.demo).await;
    say("Ctrl-C stops it");
    match demo {
        None => hold(folder, plan, children).await,
        Some(mut demo) => tokio::select! {
            outcome = hold(folder, plan, children) => outcome,
            () = demo.keep_showing() => Ok(()),
        },
    }
}

/// Reports processes that end by themselves or by `gateway dev stop`; the others keep running.
async fn hold(folder: &Folder, plan: Plan, children: &mut Children) -> anyhow::Result<()> {
    loop {
        tokio::time::sleep(POLL).await;
        if let Some((ended, status)) = children.take_ended()? {
            let role = ended.role;
            let left =
                plan.node_ids().filter(|node| process::running(Role::Node(*node), folder, plan).is_some()).count();
            say(format!("{role} ended ({status}); {left} of {} nodes run", plan.nodes));
            if was_removed(folder, &ended, status) {
                say(format!("{role} was removed from the cluster, and its id is never used again"));
            } else if let Role::Node(node) = role {
                say(format!("start it again with: {} dev start {node} --data {}", program(), folder.root().display()));
            }
        }
    }
}

/// Whether a process ended because its node was removed from the cluster.
fn was_removed(folder: &Folder, ended: &Started, status: ExitStatus) -> bool {
    status.code() == Some(i32::from(Refusal::EXIT_CODE)) && {
        let said = ended.log_tail(folder);
        REMOVED.iter().any(|words| said.contains(words))
    }
}

async fn bring_up(folder: &Folder, plan: Plan, args: &UpArgs, children: &mut Children) -> anyhow::Result<Description> {
    // Tests take this file as a sign of readiness, so the one of an earlier run is removed.
    let _ = std::fs::remove_file(folder.description_file());
    settings::write_all(folder, plan, args)?;
    let simulator = Caller::new(format!("http://{}", plan.ports().network_control()), None)?;
    let token = folder.operator_token()?;
    let (first, trust) = folder.operators_port(plan, 1);
    let operator = Caller::trusting(first, Some(&token), &trust)?;

    for role in Role::all(plan) {
        children.add(process::spawn(role, folder, plan, args.qr_time_scale)?);
    }
    wait_for(folder, children, Role::of_network(plan), &simulator, "/healthz").await?;
    let mut nodes = Vec::new();
    for node in plan.node_ids() {
        let ops = operator.at(folder.operators_port(plan, node).0);
        match wait_for(folder, children, Role::Node(node), &ops, "/readyz").await? {
            Awaited::Answers => nodes.push(node),
            Awaited::Removed => warn(format!("node {node} was removed from the cluster, and stays away")),
        }
    }
    let first = *nodes.first().context("no node of the cluster is left")?;
    let customer = demo_customer(folder, &operator.at(folder.operators_port(plan, first).0)).await?;
    let _lock = folder.lock()?;
    let description = Description::compose(folder, plan, &nodes, &customer)?;
    description.write(folder)?;
    Ok(description)
}

/// How a wait for a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Answers,
    /// The node was removed from the cluster, and will never answer.
    Removed,
}

/// Waits until one process answers; fails when any process ends, unless its node was removed.
async fn wait_for(
    folder: &Folder,
    children: &mut Children,
    awaited: Role,
    caller: &Caller,
    path: &str,
) -> anyhow::Result<Awaited> {
    let deadline = Instant::now() + START_DEADLINE;
    while !caller.is_ok(path).await {
        if let Some((ended, status)) = children.take_ended()? {
            if was_removed(folder, &ended, status) {
                children.removed.push(ended.role);
                continue;
            }
            bail!("{} ended while it started ({status}):{}", ended.role, ended.log_tail(folder));
        }
        if children.removed.contains(&awaited) {
            return Ok(Awaited::Removed);
        }
        if Instant::now() >= deadline {
            let answer = match caller.call(Method::GET, path, None).await {
                Ok((status, body)) => format!("{status}: {body}"),
                Err(error) => format!("{error:#}"),
            };
            let log = children.get(awaited).map(|started| started.log_tail(folder)).unwrap_or_default();
            bail!("{awaited} does not answer {path} within {START_DEADLINE:?} ({answer}):{log}");
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(Awaited::Answers)
}

/// The demo customer: that of an earlier run if it still exists, else a new one with an unrestricted key.
async fn demo_customer(folder: &Folder, operator: &Caller) -> anyhow::Result<DemoCustomer> {
    let file = folder.customer_file();
    if let Some(customer) = read_json::<DemoCustomer>(&file).with_context(|| file.display().to_string())? {
        let path = format!("/v1/admin/customers/{}", customer.customer_id);
        match operator.call(Method::GET, &path, None).await? {
            (StatusCode::OK, _) => return Ok(customer),
            (StatusCode::NOT_FOUND, _) => {}
            (status, answer) => bail!("GET {path} answered {status}: {answer}"),
        }
    }
    let body = json!({ "name": "Demo", "plan": { "name": "demo", "channel_limit": null } });
    let answer = operator.post("/v1/admin/customers", &body).await.context("creating the demo customer")?;
    let customer = DemoCustomer {
        customer_id: text_at(&answer, "/id")?.to_owned(),
        api_key: text_at(&answer, "/api_key/secret")?.to_owned(),
    };
    write_json(&file, &customer)?;
    Ok(customer)
}

fn print_summary(folder: &Folder, plan: Plan, description: &Description, took: Duration) {
    say(format!("cluster of {} ready in {:.1} s", description.nodes.len(), took.as_secs_f64()));
    for node in &description.nodes {
        say(format!("  node {}     {}   operators {}", node.id, node.api, node.ops));
    }
    let network = match plan.network {
        Driver::Simulated => "simulator",
        Driver::Whatsapp => "network  ",
    };
    say(format!("  {network}  {}", description.simulator));
    say(format!("  API key    {}", description.api_key));
    say(format!("  details    {}", folder.description_file().display()));
    say(format!("  logs       {}", folder.root().join("node-*.log").display()));
}

/// Prints the console's address last, where people look. After a demo, it is the page on which a person pairs a number.
async fn print_console(folder: &Folder, description: &Description, after_demo: bool) {
    let Some(first) = description.nodes.first() else { return };
    let link = async {
        let page = if after_demo { member::pairing_page(description).await? } else { String::new() };
        anyhow::Ok((member::sign_in_link(folder, description, &page).await?, !page.is_empty()))
    };
    match link.await {
        Ok((link, pairs)) => {
            let what = if pairs { "Pair a number in the console" } else { "The console, signed in" };
            say(format!("\n{what}; the link works once, in a browser on this machine:"));
            say(format!("  {link}"));
            let (email, file) = (member::EMAIL, folder.member_file());
            say(format!("Later sign in at {}/console as {email}, with the password in {}", first.api, file.display()));
        }
        // The cluster works without the link.
        Err(error) => warn(format!("no link to the console: {error:#}")),
    }
    let token = folder.operator_token_file();
    say(format!("For operators: {}/console, with the token in {}\n", first.ops, token.display()));
}

fn refuse_when_running(data: &Path) -> Result<(), Refusal> {
    let Ok((folder, plan)) = Folder::existing(data) else { return Ok(()) };
    for role in Role::all(plan) {
        if let Some(pid) = process::running(role, &folder, plan) {
            let problem = format!("its cluster is already running ({role} is process {pid})");
            let remedy = format!("stop it with: {} dev down --data {}", program(), data.display());
            return Err(Refusal::new(data.display(), problem, remedy));
        }
    }
    Ok(())
}

async fn start(data: &Path, node: NodeId, wait: bool) -> anyhow::Result<()> {
    let (folder, plan) = Folder::existing(data)?;
    let role = known(plan, node)?;
    if let Some(pid) = process::running(role, &folder, plan) {
        return Err(Refusal::new(role, format!("is already running as process {pid}"), "stop it first").into());
    }
    if is_removed(&folder, plan, node).await {
        return Err(removed(role).into());
    }
    // A node that was killed just now may still hold its ports.
    process::wait_gone(role, &folder, plan, STOP_DEADLINE).await;
    ports::ensure_free(plan.ports().of_node(node))?;
    let mut children = Children::default();
    let started = process::spawn(role, &folder, plan, 1.0)?;
    let pid = started.pid();
    children.add(started);
    Description::note_pid(&folder, node, pid)?;
    let (base, trust) = folder.operators_port(plan, node);
    let ops = Caller::trusting(base, None, &trust)?;
    for path in ["/healthz", "/readyz"].into_iter().take(if wait { 2 } else { 1 }) {
        if wait_for(&folder, &mut children, role, &ops, path).await? == Awaited::Removed {
            return Err(removed(role).into());
        }
    }
    say(format!("{role} is {} as process {pid}", if wait { "ready" } else { "up" }));
    Ok(())
}

/// Whether the other nodes say that a node was removed from the cluster; `false` if none of them answers.
async fn is_removed(folder: &Folder, plan: Plan, node: NodeId) -> bool {
    let Ok(token) = folder.operator_token() else { return false };
    for other in plan.node_ids().filter(|other| *other != node) {
        let (base, trust) = folder.operators_port(plan, other);
        let Ok(operator) = Caller::trusting(base, Some(&token), &trust) else { continue };
        let ask = async |path| match tokio::time::timeout(ANSWER, operator.call(Method::GET, path, None)).await {
            Ok(Ok((StatusCode::OK, answer))) => Some(answer),
            _ => None,
        };
        let (Some(layout), Some(nodes)) = (ask("/v1/admin/layout").await, ask("/v1/admin/nodes").await) else {
            continue;
        };
        // All nodes of this folder register before their cluster is formed.
        let is_formed = layout["shards"].as_array().is_some_and(|shards| !shards.is_empty());
        let is_listed = nodes["data"].as_array().is_some_and(|rows| rows.iter().any(|row| row["id"] == node));
        return is_formed && !is_listed;
    }
    false
}

fn removed(role: Role) -> Refusal {
    let remedy = "add another one (gateway token, gateway join), or start again with gateway dev --fresh";
    Refusal::new(role, "was removed from this cluster, and its id is never used again", remedy)
}

async fn stop(data: &Path, node: NodeId, kill: bool) -> anyhow::Result<()> {
    let (folder, plan) = Folder::existing(data)?;
    let role = known(plan, node)?;
    let how = if kill { Signal::SIGKILL } else { Signal::SIGTERM };
    if !process::signal(role, &folder, plan, how)? {
        say(format!("{role} does not run"));
        return Ok(());
    }
    if !process::wait_gone(role, &folder, plan, STOP_DEADLINE).await {
        bail!("{role} still runs {STOP_DEADLINE:?} after {how}; --kill ends it at once");
    }
    say(format!("{role} stopped"));
    Ok(())
}

async fn down(data: &Path) -> anyhow::Result<()> {
    let (folder, plan) = Folder::existing(data)?;
    stop_everything(&folder, plan).await;
    say("stopped");
    Ok(())
}

fn known(plan: Plan, node: NodeId) -> Result<Role, Refusal> {
    let is_known = plan.node_ids().any(|id| id == node);
    let remedy = format!("name one of 1 to {}", plan.nodes);
    ensure(is_known, format!("node {node}"), "is not of this cluster", remedy)?;
    Ok(Role::Node(node))
}

/// Stops all nodes together, so that none sees another one fail; then the network.
async fn stop_everything(folder: &Folder, plan: Plan) {
    let nodes: Vec<Role> = plan.node_ids().map(Role::Node).collect();
    stop_together(folder, plan, &nodes).await;
    stop_together(folder, plan, &[Role::of_network(plan)]).await;
}

/// Sends SIGTERM, and SIGKILL after [`DOWN_DEADLINE`]. Reports processes that must not be signaled, and leaves them
/// running.
async fn stop_together(folder: &Folder, plan: Plan, roles: &[Role]) {
    let send = |role: Role, what: Signal| {
        if let Err(error) = process::signal(role, folder, plan, what) {
            warn(format!("{error:#}"));
        }
    };
    for role in roles {
        send(*role, Signal::SIGTERM);
        // A stopped process handles SIGTERM only after SIGCONT.
        send(*role, Signal::SIGCONT);
    }
    let deadline = Instant::now() + DOWN_DEADLINE;
    for role in roles {
        let left = deadline.saturating_duration_since(Instant::now());
        if !process::wait_gone(*role, folder, plan, left).await {
            warn(format!("{role} did not end within {DOWN_DEADLINE:?}; killing it"));
            send(*role, Signal::SIGKILL);
            process::wait_gone(*role, folder, plan, DOWN_DEADLINE).await;
        }
    }
}
