//! `gateway-bench`: measures a cluster of real processes on this machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chaos::bench::target::Target;
use chaos::bench::{failover, report, sends, waiting};
use clap::{Args, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(
    about = "Measures a gateway cluster on this machine",
    after_help = "Examples:\n  \
        gateway-bench sends                          1, 32 and 128 senders over 1,000 channels, 10 s each\n  \
        gateway-bench sends --attach DIR/dev.json    on a cluster that runs (start it with high limits)\n  \
        gateway-bench failover --trials 20           kill -9 of an owner to the first 202 of its channels\n  \
        gateway-bench waiting --jobs 200000          sends beside 200,000 deliveries that wait"
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Results as JSON on stdout, the rest on stderr
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Durable sends a second (default)
    Sends(SendsArgs),
    /// Time to the first accepted send after an owner was killed
    Failover(FailoverArgs),
    /// Sends a second beside deliveries that wait for receivers that are down
    Waiting(WaitingArgs),
}

#[derive(Args, Debug)]
struct SendsArgs {
    /// Levels of concurrency
    #[arg(long, value_delimiter = ',', default_values_t = [1, 32, 128])]
    senders: Vec<usize>,
    #[arg(long, default_value_t = 1_000)]
    channels: usize,
    /// Length of each level
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Nodes of the cluster that is started
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Measure the cluster of this dev.json instead of starting one
    #[arg(long, value_name = "FILE")]
    attach: Option<PathBuf>,
    /// Recipients are online: each send brings a receipt back
    #[arg(long)]
    receipts: bool,
}

#[derive(Args, Debug)]
struct FailoverArgs {
    #[arg(long, default_value_t = 20)]
    trials: usize,
    #[arg(long, default_value_t = 60)]
    channels: usize,
}

#[derive(Args, Debug)]
struct WaitingArgs {
    /// Deliveries that wait
    #[arg(long, default_value_t = 200_000)]
    jobs: usize,
    #[arg(long, default_value_t = 200)]
    channels: usize,
    #[arg(long, default_value_t = 32)]
    senders: usize,
    /// Measurements in each phase, each with a twin at a cluster without deliveries
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Length of each
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

impl Default for SendsArgs {
    fn default() -> Self {
        Self { senders: vec![1, 32, 128], channels: 1_000, seconds: 10, nodes: 3, attach: None, receipts: false }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    match cli.command.unwrap_or_else(|| Command::Sends(SendsArgs::default())) {
        Command::Sends(args) => run_sends(args, cli.json).await,
        Command::Failover(args) => run_failover(args, cli.json).await,
        Command::Waiting(args) => run_waiting(args, cli.json).await,
    }
}

async fn run_sends(args: SendsArgs, json: bool) -> anyhow::Result<()> {
    let target = match &args.attach {
        Some(path) => Target::attach(path)?,
        None => Target::start(args.nodes).await,
    };
    say(json, &format!("pairing {} channels", args.channels));
    let channels = Arc::new(target.channels(args.channels, args.receipts).await?);
    let mut levels = Vec::new();
    say(json, &report::levels_heading());
    for senders in args.senders {
        let level = sends::measure(&target, &channels, senders, Duration::from_secs(args.seconds)).await?;
        say(json, &report::level(&level));
        if let Some(failure) = &level.first_failure {
            say(json, &format!("         first failure: {failure}"));
        }
        levels.push(level);
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&levels)?);
    }
    Ok(())
}

async fn run_failover(args: FailoverArgs, json: bool) -> anyhow::Result<()> {
    let target = Target::start(3).await;
    say(json, &format!("pairing {} channels", args.channels));
    let channels = target.channels(args.channels, false).await?;
    let print = |n: usize, trial: &failover::Trial| say(json, &report::trial(n, trial));
    let summary = failover::measure(&target, &channels, args.trials, print).await?;
    say(json, &report::summary(&summary));
    if json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    }
    Ok(())
}

async fn run_waiting(args: WaitingArgs, json: bool) -> anyhow::Result<()> {
    let target = Target::start(3).await;
    let twin = Target::start(3).await;
    let WaitingArgs { jobs, channels, senders, rounds, seconds } = args;
    let plan = waiting::Plan { jobs, channels, senders, rounds, length: Duration::from_secs(seconds) };
    say(json, &report::levels_heading());
    let phases = waiting::measure(&target, &twin, plan, |line| say(json, line)).await?;
    for phase in &phases {
        say(json, &report::phase(phase));
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&phases)?);
    }
    Ok(())
}

/// For people: on stdout, unless that is to be read by a program.
fn say(json: bool, line: &str) {
    if json {
        eprintln!("{line}");
    } else {
        println!("{line}");
    }
}
