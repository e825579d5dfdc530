//! `gateway-bench`: measures a cluster of real processes on this machine.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use chaos::bench::etcd::promise::{self, PromiseArgs};
use chaos::bench::plan::Plan;
use chaos::bench::suite::{self, Alone, Benchmark, Beside};
use chaos::bench::target::Target;
use chaos::bench::{day, directory, report, sends, waiting};
use clap::builder::RangedU64ValueParser;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, value_parser};
use futures::FutureExt;
use gateway::console;

/// Range of lengths in seconds. With at most a day each, no sum of lengths exceeds what the clock can represent.
const SECONDS: RangeInclusive<u64> = 1..=86_400;

/// Parses a count: of channels, senders, rounds.
fn at_least(least: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..)
}

#[derive(Debug, Parser)]
#[command(
    about = "Measures a gateway cluster on this machine, and compares it with etcd",
    after_help = "Examples:\n  \
        gateway-bench all --markdown results.md      B1 to B11, some fifty minutes\n  \
        gateway-bench all --quick                    the same in eight minutes, to see that it works\n  \
        gateway-bench b5 --trials 20                 kill -9 of an owner, and of etcd's leader\n  \
        gateway-bench sends --attach DIR/dev.json    on a cluster that runs (start it with high limits)\n  \
        gateway-bench waiting --jobs 200000          sends while 200,000 deliveries wait\n  \
        gateway-bench day                            whether folders stop growing, all times scaled down\n\n\
        Exit codes: 0 measured to the end; 1 something could not be measured; 2 wrong use."
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
    /// B1 to B11, machine first
    All(PlanArgs),
    /// B1a and B1: durable sends a second ÷ the same promise on etcd, and ÷ etcd's puts, 32 and 128 clients
    #[command(visible_alias = "throughput")]
    B1(PlanArgs),
    /// B2: p99 of accept at half of the peak, open loop ÷ the same promise on etcd
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
    /// B11: CPU of a send at five nodes ÷ at three
    #[command(visible_alias = "nodes")]
    B11(PlanArgs),
    /// Durable sends a second and what they cost
    Sends(SendsArgs),
    /// What B1a and B2 measure beside: the promise of a send, made by a program of few lines on etcd
    #[command(hide = true)]
    Promise(PromiseArgs),
    /// Sends a second while deliveries wait for receivers that are down
    Waiting(WaitingArgs),
    /// Whether the nodes' folders stop growing under steady load, with all retention times scaled down
    Day(DayArgs),
    /// How much memory channels and keys take on every node, in the directory
    Directory(DirectoryArgs),
}

#[derive(Args, Debug)]
struct DirectoryArgs {
    /// Channels, and as many keys
    #[arg(long, default_value_t = 1_000_000, value_parser = at_least(1_000))]
    records: usize,
}

#[derive(Args, Debug)]
struct PlanArgs {
    /// Short measurements: to check that everything works, not for results
    #[arg(long)]
    quick: bool,
    /// How many measurements of the gateway, each paired with one of etcd
    #[arg(long, value_parser = at_least(1))]
    pairs: Option<usize>,
    /// Length of each, in seconds
    #[arg(long, value_parser = value_parser!(u64).range(SECONDS))]
    seconds: Option<u64>,
    /// How many times a leader is killed
    #[arg(long, value_parser = at_least(1))]
    trials: Option<usize>,
    /// Numbers of idle channels for B7 and B8, from the fewest to the most: at least two, since both compare them
    #[arg(long, value_delimiter = ',', value_parser = at_least(1))]
    channels: Vec<usize>,
    /// Write the results as a Markdown table
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write all results as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl PlanArgs {
    /// The plan that the arguments describe.
    ///
    /// # Errors
    /// When the sizes cannot be compared with each other.
    fn plan(&self) -> Result<Plan, String> {
        let whole = if self.quick { Plan::quick() } else { Plan::whole() };
        let sizes = &self.channels;
        if sizes.len() == 1 {
            return Err(format!(
                "--channels {} is one size, and B7 and B8 compare sizes: name two at least, such as --channels 1000,{}",
                sizes[0],
                sizes[0].max(1_000).saturating_mul(10)
            ));
        }
        if !sizes.is_sorted_by(|smaller, larger| smaller < larger) {
            return Err("--channels go from the fewest to the most, and each size comes once".to_owned());
        }
        Ok(Plan {
            pairs: self.pairs.unwrap_or(whole.pairs),
            length: self.seconds.map_or(whole.length, Duration::from_secs),
            trials: self.trials.unwrap_or(whole.trials),
            sizes: if sizes.is_empty() { whole.sizes.clone() } else { sizes.clone() },
            ..whole
        })
    }

    fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.markdown, &self.out].into_iter().flatten().map(PathBuf::as_path)
    }
}

/// Checks that results can be written to a file, since after fifty minutes it is too late to learn that they cannot.
/// What the file holds stays until there are new results.
fn check_writable(path: &Path) -> io::Result<()> {
    File::options().create(true).append(true).open(path).map(drop)
}

#[derive(Args, Debug)]
struct SendsArgs {
    /// Levels of concurrency
    #[arg(long, value_delimiter = ',', default_values_t = [1, 32, 128], value_parser = at_least(1))]
    senders: Vec<usize>,
    #[arg(long, default_value_t = 1_000, value_parser = at_least(1))]
    channels: usize,
    /// Length of each level
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u64).range(SECONDS))]
    seconds: u64,
    /// Nodes of the cluster that is started
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=9))]
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
    #[arg(long, default_value_t = 200_000, value_parser = at_least(1))]
    jobs: usize,
    #[arg(long, default_value_t = 200, value_parser = at_least(1))]
    channels: usize,
    #[arg(long, default_value_t = 32, value_parser = at_least(1))]
    senders: usize,
    /// Measurements in each phase, each paired with one at a cluster without deliveries
    #[arg(long, default_value_t = 3, value_parser = at_least(1))]
    rounds: usize,
    /// Length of each
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u64).range(SECONDS))]
    seconds: u64,
}

#[derive(Args, Debug)]
struct DayArgs {
    #[arg(long, default_value_t = 32, value_parser = at_least(1))]
    channels: usize,
    /// Sends a second
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u32).range(1..))]
    rate: u32,
    /// How many windows, at least three: the second half is compared with its beginning
    #[arg(long, default_value_t = 12, value_parser = at_least(3))]
    windows: usize,
    /// Length of each
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u64).range(SECONDS))]
    seconds: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let measured = AssertUnwindSafe(measure(Cli::parse())).catch_unwind().await;
    // The test harness panics when a step fails, and has printed the reason by then.
    measured.unwrap_or_else(|_| Err(anyhow!("it could not be measured, for the reason above")))
}

async fn measure(cli: Cli) -> anyhow::Result<()> {
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
        Command::B11(args) => run_suite(&[Benchmark::Alone(Alone::B11)], &args, json).await,
        Command::Sends(args) => run_sends(args, json).await,
        Command::Promise(args) => promise::run(args).await,
        Command::Waiting(args) => run_waiting(args, json).await,
        Command::Day(args) => run_day(args, json).await,
        Command::Directory(args) => run_directory(&args, json),
    }
}

fn run_directory(args: &DirectoryArgs, json: bool) -> anyhow::Result<()> {
    let memory = directory::measure(args.records)?;
    let directory::Memory { records, channel_bytes_each, key_bytes_each } = memory;
    let line = format!("directory: {records} channels of {channel_bytes_each} bytes, as many keys of {key_bytes_each}");
    say(json, &line);
    if json {
        console::say(serde_json::to_string_pretty(&memory)?);
    }
    Ok(())
}

async fn run_suite(benchmarks: &[Benchmark], args: &PlanArgs, json: bool) -> anyhow::Result<()> {
    let plan = args.plan().unwrap_or_else(|error| refuse(error));
    for file in args.files() {
        check_writable(file).unwrap_or_else(|error| refuse(format_args!("{}: {error}", file.display())));
    }
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
        console::say(whole);
    }
    ensure!(results.failures.is_empty(), "{} of {} benchmarks failed", results.failures.len(), benchmarks.len());
    Ok(())
}

async fn run_sends(args: SendsArgs, json: bool) -> anyhow::Result<()> {
    let target = match &args.attach {
        Some(path) => Target::attach(path).unwrap_or_else(|error| refuse(format_args!("{error:#}"))),
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
        console::say(serde_json::to_string_pretty(&levels)?);
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
        console::say(serde_json::to_string_pretty(&phases)?);
    }
    Ok(())
}

async fn run_day(args: DayArgs, json: bool) -> anyhow::Result<()> {
    let DayArgs { channels, rate, windows, seconds } = args;
    let plan = day::Plan { channels, sends_per_second: rate, windows, length: Duration::from_secs(seconds) };
    say(json, "accepted    log MiB  state MiB    all MiB");
    let tell = |window: &day::Window| {
        let day::Sizes { log_mib, state_mib, all_mib } = window.largest;
        say(json, &format!("{:>8} {log_mib:>10.1} {state_mib:>10.1} {all_mib:>10.1}", window.accepted));
    };
    let day = day::measure(plan, tell).await?;
    let (most, bound) = day.bound()?;
    say(json, &format!("the second half took {most:.1} MiB at most, and may take {bound:.1}"));
    if json {
        console::say(serde_json::to_string_pretty(&day)?);
    }
    ensure!(most <= bound, "the folders grow");
    Ok(())
}

/// Ends the program like a wrong argument: with a message, the usage, and exit code 2.
fn refuse(why: impl fmt::Display) -> ! {
    Cli::command().error(ErrorKind::ValueValidation, why).exit()
}

/// Prints a line for people: on stdout, unless that holds JSON.
fn say(json: bool, line: &str) {
    if json {
        eprintln!("{line}");
    } else {
        console::say(line);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn plan_of(line: &str) -> Result<Plan, String> {
        match Cli::try_parse_from(line.split(' ')).unwrap().command {
            Command::B7(args) => args.plan(),
            other => panic!("{other:?} has no plan"),
        }
    }

    #[test]
    fn what_could_never_be_measured_is_refused_before_anything_starts() {
        for line in [
            "all --pairs 0",
            "all --trials 0",
            "all --seconds 0",
            "b7 --channels 0,1000",
            "sends --channels 0",
            "sends --senders 0",
            "sends --senders 1,0",
            "sends --seconds 0",
            "sends --seconds 18446744073709551615",
            "sends --nodes 0",
            "sends --nodes 10",
            "waiting --jobs 0",
            "waiting --channels 0",
            "waiting --senders 0",
            "waiting --rounds 0",
            "waiting --seconds 0",
            "day --channels 0",
            "day --rate 0",
            "day --windows 2",
            "day --seconds 0",
        ] {
            let refused = Cli::try_parse_from(["gateway-bench"].into_iter().chain(line.split(' '))).unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{line}: {refused}");
        }
    }

    #[test]
    fn sizes_are_compared_so_there_are_two_at_least_and_they_grow() {
        let refused = plan_of("gateway-bench b7 --channels 20000").unwrap_err();
        assert!(refused.contains("two at least"), "{refused}");
        assert!(plan_of("gateway-bench b7 --channels 2000,1000").is_err());
        assert!(plan_of("gateway-bench b7 --channels 1000,1000").is_err());
        assert_eq!(plan_of("gateway-bench b7 --channels 1000,2000").unwrap().sizes, [1_000, 2_000]);
        assert_eq!(plan_of("gateway-bench b7").unwrap().sizes, [1_000, 10_000, 100_000]);
    }

    #[test]
    fn a_file_for_results_is_tried_first_and_keeps_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_writable(folder.path()).is_err(), "a folder is no file");
        assert!(check_writable(&folder.path().join("missing/results.md")).is_err());
        let file = folder.path().join("results.md");
        check_writable(&file).unwrap();
        std::fs::write(&file, "earlier results").unwrap();
        check_writable(&file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "earlier results");
    }
}
