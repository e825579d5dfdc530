//! `gateway-chaos`: injects faults into a cluster of real processes, and checks what it did.

#![allow(clippy::disallowed_methods, reason = "it stands outside of the product, and looks at real clocks")]

use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use chaos::mutation::Bug;
use chaos::prove::table::{ProveArgs, prove};
use chaos::report::Report;
use chaos::run;
use chaos::schedule::Plan;
use chaos::schedule::fault::Kind;
use chaos::schedule::profile::Profile;
use chaos::setup::Setup;
use chaos::world::relay;
use clap::{Args, Parser, Subcommand, ValueEnum};
use futures::FutureExt;
use futures::future::select_all;
use gateway::console::say;
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug, Parser)]
#[command(
    about = "Injects faults into a gateway cluster on this machine, and checks what it did",
    after_help = "Examples:\n  \
        gateway-chaos run --seed 7                          three minutes of faults that heal quickly\n  \
        gateway-chaos run --profile hour                    an hour of all faults, with a random seed\n  \
        gateway-chaos run --profile ownership               half an hour in which owners of 10,000 channels change\n  \
        gateway-chaos run --only isolate,bridge --seconds 120\n  \
        gateway-chaos run --seed 7 --report runs/7          write history, logs, report and picture there\n  \
        gateway-chaos run --schedule runs/7/report.json     the same faults again, even if seed 7 now gives others\n  \
        gateway-chaos run --bug ignore_fence                see what the checks say about nodes with a known bug\n  \
        gateway-chaos check runs/7                          check it again\n  \
        gateway-chaos prove --runs 20                       every known bug, each in twenty runs\n  \
        gateway-chaos schedule --seed 7                     what a run with this seed does, and when\n\n\
        Exit codes: 0 all checks passed; 1 a check failed; 2 wrong use, the cluster could not be started, or too few \
        faults were injected; 128 and its number when a signal ended it."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a cluster, inject faults, and check what it did; needs root
    Run(RunArgs),
    /// Check a kept run again
    Check {
        /// The folder of the run
        folder: PathBuf,
    },
    /// Show a schedule without running it
    Schedule {
        #[command(flatten)]
        drawn: DrawArgs,
        /// As JSON, for `run --schedule`
        #[arg(long)]
        json: bool,
    },
    /// Run the gateway with known bugs, and show that each is found; needs root
    Prove(ProveArgs),
    /// Delay the traffic to a node; a run starts this by itself
    #[command(hide = true)]
    Relay {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        node: SocketAddr,
    },
}

#[derive(Args, Debug)]
struct DrawArgs {
    /// The seed of the schedule and the workload [default: a random one]
    #[arg(long)]
    seed: Option<u64>,
    #[arg(long, value_enum, default_value_t = Named::Quick, conflicts_with = "only")]
    profile: Named,
    /// Only faults of these kinds
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Kind>,
    /// How long faults are injected, in seconds [default: the profile's own length]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
}

#[derive(Args, Debug)]
struct RunArgs {
    #[command(flatten)]
    drawn: DrawArgs,
    /// Run this schedule instead of a random one: the report.json of another run, or the output of `schedule --json`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "profile", "only", "seconds"])]
    schedule: Option<PathBuf>,
    /// Run every node with this known bug, to see that it is found; may be repeated
    #[arg(long = "bug", value_name = "NAME", value_parser = bug)]
    bugs: Vec<Bug>,
    /// The folder for the results of the run; must not exist [default: chaos-SEED-TIME]
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// A bug by the name that `prove` shows, with or without the common prefix.
fn bug(name: &str) -> Result<Bug, String> {
    let short = |bug: Bug| bug.as_str().trim_start_matches("bug::");
    let found = Bug::ALL.iter().copied().find(|bug| short(*bug) == name.trim_start_matches("bug::"));
    let known = || Bug::ALL.iter().map(|bug| short(*bug)).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("there are {}", known()))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Named {
    Quick,
    Hour,
    Ownership,
}

impl DrawArgs {
    fn profile(&self) -> Profile {
        let profile = match self.profile {
            _ if !self.only.is_empty() => Profile::only(&self.only),
            Named::Quick => Profile::quick(),
            Named::Hour => Profile::hour(),
            Named::Ownership => Profile::ownership(),
        };
        match self.seconds {
            Some(seconds) => profile.lasting(Duration::from_secs(seconds)),
            None => profile,
        }
    }

    fn seed(&self) -> u64 {
        // Short enough to be typed.
        self.seed.unwrap_or_else(|| rand::random_range(0..1_000_000))
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Schedule { drawn, json } => exit(show(&Plan::of(drawn.seed(), &drawn.profile()), json).map(|()| true)),
        Command::Prove(args) => Box::pin(unless_interrupted(async { exit(caught(prove(&args)).await) })).await,
        Command::Run(args) => Box::pin(unless_interrupted(async { judged(caught(run(&args)).await) })).await,
        Command::Check { folder } => judged(run::judge_again(&folder)),
        Command::Relay { listen, node } => exit(relay::run(listen, node).await.map(|()| true)),
    }
}

fn show(plan: &Plan, json: bool) -> anyhow::Result<()> {
    if json {
        say(serde_json::to_string_pretty(plan)?);
        return Ok(());
    }
    say(format_args!("seed {}", plan.schedule.seed));
    for step in &plan.schedule.steps {
        let (from, to) = (step.at.as_secs_f64(), step.end().as_secs_f64());
        say(format_args!("{from:>7.1} s to {to:>6.1} s  {}", step.fault));
    }
    Ok(())
}

/// Runs `work` unless it is interrupted. The world is removed before this returns.
async fn unless_interrupted(work: impl Future<Output = ExitCode>) -> ExitCode {
    let interrupted = tokio::select! {
        // Signals must be handled before the work begins.
        biased;
        interrupted = interruption() => interrupted,
        code = work => return code,
    };
    let code = match interrupted {
        Ok(signal) => {
            eprintln!("gateway-chaos: interrupted: nothing was judged");
            128 + signal
        }
        Err(error) => {
            eprintln!("gateway-chaos: interruptions are not heard, so it does not begin: {error}");
            2
        }
    };
    // Threads that wait for room, set up a world or check a run are not joined: the world's undertaker cleans up.
    std::process::exit(code)
}

/// Waits for Ctrl-C, or for the end of a supervisor or terminal. Returns the number of the signal.
async fn interruption() -> io::Result<i32> {
    let mut kinds = vec![SignalKind::interrupt(), SignalKind::terminate()];
    if !outlives_terminals() {
        kinds.push(SignalKind::hangup());
    }
    let heard = kinds.into_iter().map(|kind| signal(kind).map(|heard| (kind.as_raw_value(), heard)));
    let mut heard: Vec<(i32, Signal)> = heard.collect::<io::Result<_>>()?;
    let waiting = heard.iter_mut().map(|(number, signal)| signal.recv().map(move |_| *number).boxed());
    Ok(select_all(waiting).await.0)
}

/// Whether the program was started by nohup or the like, and so must ignore the end of its terminal.
fn outlives_terminals() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok()).unwrap_or_default();
    let hangup = 1_u64 << (SignalKind::hangup().as_raw_value() - 1);
    ignored & hangup != 0
}

/// Turns a panic into an error: the test harness panics when a step fails, and has printed the reason by then.
async fn caught<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.unwrap_or_else(|_| Err(anyhow!("it came to no end, for the reason above")))
}

async fn run(args: &RunArgs) -> anyhow::Result<Report> {
    let folder = |seed: u64| {
        let named = || PathBuf::from(format!("chaos-{seed}-{}", chrono::Utc::now().format("%H%M%S")));
        args.report.clone().unwrap_or_else(named)
    };
    let mut setup = match &args.schedule {
        Some(file) => {
            let plan = Plan::load(file)?;
            let folder = folder(plan.schedule.seed);
            Setup::played(plan, file, folder)
        }
        None => {
            let seed = args.drawn.seed();
            Setup::new(seed, args.drawn.profile(), folder(seed))
        }
    };
    setup.bugs.clone_from(&args.bugs);
    let Setup { schedule, profile, folder, .. } = &setup;
    say(format_args!("seed {}, profile {}, kept in {}", schedule.seed, profile.name, folder.display()));
    for bug in &setup.bugs {
        say(format_args!("put back in every node: {}", bug.as_str()));
    }
    run::run(&setup, |line| say(line)).await
}

/// Prints the results, and returns whether everything held.
fn judged(report: anyhow::Result<Report>) -> ExitCode {
    exit(report.and_then(|report| {
        say(report.verdict.to_string().trim_end());
        for undone in report.undone() {
            eprintln!("not done: {undone}");
        }
        let held = report.verdict.holds();
        match report.doubt().filter(|_| held) {
            Some(doubt) => bail!("too little was broken for this to say anything: {doubt}"),
            None => Ok(held),
        }
    }))
}

fn exit(held: anyhow::Result<bool>) -> ExitCode {
    match held {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("gateway-chaos: {error:#}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn args(line: &str) -> Result<RunArgs, clap::Error> {
        match Cli::try_parse_from(line.split(' '))?.command {
            Command::Run(args) => Ok(args),
            other => panic!("{other:?} is no run"),
        }
    }

    #[test]
    fn a_bug_goes_by_the_name_that_prove_shows_for_it() {
        let bugs = args("gateway-chaos run --bug bug::ignore_fence --bug skip_fsync").unwrap().bugs;
        assert_eq!(bugs, [Bug::IgnoreFence, Bug::SkipFsync]);
        assert!(Bug::ALL.iter().all(|known| bug(known.as_str()) == Ok(*known)));
        let refused = args("gateway-chaos run --bug nonsense").unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        assert!(refused.to_string().contains("there are answer_before_commit, "), "{refused}");
    }

    #[test]
    fn a_schedule_from_a_file_leaves_nothing_to_be_drawn() {
        for more in ["", " --bug skip_fsync", " --report runs/8"] {
            assert!(args(&format!("gateway-chaos run --schedule runs/7/report.json{more}")).is_ok(), "{more}");
        }
        for drawn in ["--seed 7", "--profile hour", "--only kill", "--seconds 9"] {
            let refused = args(&format!("gateway-chaos run --schedule runs/7/report.json {drawn}")).unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{drawn}: {refused}");
        }
    }

    #[tokio::test]
    async fn a_step_that_panics_is_an_error() {
        async fn step(holds: bool) -> anyhow::Result<()> {
            assert!(holds, "a step failed");
            Ok(())
        }
        assert!(caught(step(true)).await.is_ok() && caught(step(false)).await.is_err());
    }
}
