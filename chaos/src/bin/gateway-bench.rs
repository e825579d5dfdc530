//! `gateway-bench`: measures a cluster of real processes on this machine.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use chaos::bench::plan::Plan;
use chaos::bench::suite::{self, Alone, Benchmark, Beside};
use chaos::bench::target::Target;
use chaos::bench::{report, sends, waiting};
use clap::{Args, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(
    about = "Measures a gateway cluster on this machine, beside etcd",
    after_help = "Examples:\n  \
        gateway-bench all --markdown results.md      B1 to B10, some fifty minutes\n  \
        gateway-bench all --quick                    the same in eight minutes, to see that it works\n  \
        gateway-bench b5 --trials 20                 kill -9 of an owner beside etcd's leader\n  \
        gateway-bench sends --attach DIR/dev.json    on a cluster that runs (start it with high limits)\n  \
        gateway-bench waiting --jobs 200000          sends beside 200,000 deliveries that wait"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Results as JSON on stdout, the rest on stderr
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// B1 to B10, machine first
    All(PlanArgs),
    /// B1: durable sends a second ÷ etcd's puts, 32 and 128 clients
    #[command(visible_alias = "throughput")]
    B1(PlanArgs),
    /// B2: p99 of accept at half of etcd's peak, open loop ÷ etcd's
    #[command(visible_alias = "latency")]
    B2(PlanArgs),
    /// B3: accept through a non-owner minus through the owner
    #[command(visible_alias = "forwarding")]
    B3(PlanArgs),
    /// B4: event to webhook at 500 events a second, and with a tenth of the endpoints hanging
    #[command(visible_alias = "webhooks")]
    B4(PlanArgs),
    /// B5: kill of an owner to the first 202 of its channels ÷ etcd's leader to its next put; sessions back
    #[command(visible_alias = "failover")]
    B5(PlanArgs),
    /// B6: rolling restart of three nodes under 500 sends a second
    #[command(visible_alias = "restart")]
    B6(PlanArgs),
    /// B7 and B8: memory of an idle channel, and CPU of a send, at growing numbers of channels
    #[command(visible_aliases = ["b8", "memory", "cpu"])]
    B7(PlanArgs),
    /// B9: a fourth node joins and is drained under load
    #[command(visible_alias = "join")]
    B9(PlanArgs),
    /// B10: calls admitted above the allowed, through three nodes
    #[command(visible_alias = "limiter")]
    B10(PlanArgs),
    /// Durable sends a second and what they cost
    Sends(SendsArgs),
    /// Sends a second beside deliveries that wait for receivers that are down
    Waiting(WaitingArgs),
}

#[derive(Args, Debug)]
struct PlanArgs {
    /// Short measurements: to see that everything works, not to take figures from
    #[arg(long)]
    quick: bool,
    /// Measurements of ours, each with one of etcd's beside it
    #[arg(long)]
    pairs: Option<usize>,
    /// Length of each, in seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Kills
    #[arg(long)]
    trials: Option<usize>,
    /// Idle channels of B7 and B8, from the fewest to the most
    #[arg(long, value_delimiter = ',')]
    channels: Vec<usize>,
    /// Writes the rows as a table for README
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Writes all that was seen as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl PlanArgs {
    fn plan(&self) -> anyhow::Result<Plan> {
        let whole = if self.quick { Plan::quick() } else { Plan::whole() };
        let plan = Plan {
            pairs: self.pairs.unwrap_or(whole.pairs),
            length: self.seconds.map_or(whole.length, Duration::from_secs),
            trials: self.trials.unwrap_or(whole.trials),
            sizes: if self.channels.is_empty() { whole.sizes.clone() } else { self.channels.clone() },
            ..whole
        };
        ensure!(
            plan.pairs > 0 && plan.trials > 0 && !plan.length.is_zero(),
            "--pairs, --seconds and --trials begin at 1"
        );
        ensure!(
            plan.sizes.is_sorted() && plan.sizes[0] > 0,
            "--channels go from the fewest to the most, and begin at 1"
        );
        Ok(plan)
    }
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

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let json = cli.json;
    match cli.command {
        Command::All(args) => run_suite(&suite::ALL, &args, json).await,
        Command::B1(args) => run_suite(&[Benchmark::Beside(Beside::B1)], &args, json).await,
        Command::B2(args) => run_suite(&[Benchmark::Beside(Beside::B2)], &args, json).await,
        Command::B3(args) => run_suite(&[Benchmark::Beside(Beside::B3)], &args, json).await,
        Command::B4(args) => run_suite(&[Benchmark::Beside(Beside::B4)], &args, json).await,
        Command::B5(args) => run_suite(&[Benchmark::Beside(Beside::B5)], &args, json).await,
        Command::B6(args) => run_suite(&[Benchmark::Alone(Alone::B6)], &args, json).await,
        Command::B7(args) => run_suite(&[Benchmark::Alone(Alone::B7AndB8)], &args, json).await,
        Command::B9(args) => run_suite(&[Benchmark::Alone(Alone::B9)], &args, json).await,
        Command::B10(args) => run_suite(&[Benchmark::Beside(Beside::B10)], &args, json).await,
        Command::Sends(args) => run_sends(args, json).await,
        Command::Waiting(args) => run_waiting(args, json).await,
    }
}

async fn run_suite(benchmarks: &[Benchmark], args: &PlanArgs, json: bool) -> anyhow::Result<()> {
    let plan = args.plan()?;
    let results = suite::run(benchmarks, &plan, |line| say(json, line)).await?;
    let markdown = results.markdown();
    say(json, &format!("\n{markdown}"));
    let whole = serde_json::to_string_pretty(&results)?;
    for (file, text) in [(&args.markdown, &markdown), (&args.out, &whole)] {
        if let Some(path) = file {
            std::fs::write(path, text).with_context(|| path.display().to_string())?;
        }
    }
    if json {
        println!("{whole}");
    }
    ensure!(results.failures.is_empty(), "{} of {} benchmarks failed", results.failures.len(), benchmarks.len());
    Ok(())
}

async fn run_sends(args: SendsArgs, json: bool) -> anyhow::Result<()> {
    let target = match &args.attach {
        Some(path) => Target::attach(path)?,
        None => Target::start(args.nodes).await,
    };
    say(json, &format!("pairing {} channels", args.channels));
    let channels = target.channels(args.channels, args.receipts).await?;
    let mut levels = Vec::new();
    say(json, &report::levels_heading());
    for senders in args.senders {
        let level = sends::measure(&target, &channels, senders, Duration::from_secs(args.seconds)).await?;
        say(json, &report::level(&level));
        if let Some(failure) = &level.sends.first_failure {
            say(json, &format!("         first failure: {failure}"));
        }
        levels.push(level);
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&levels)?);
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
