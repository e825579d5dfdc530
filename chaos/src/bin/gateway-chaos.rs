//! `gateway-chaos`: breaks a cluster of real processes on purpose, and judges what it did.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use chaos::prove::table::{ProveArgs, prove};
use chaos::report::Report;
use chaos::run::{self, Setup};
use chaos::schedule::Schedule;
use chaos::schedule::fault::Kind;
use chaos::schedule::profile::Profile;
use chaos::world::relay;
use clap::{Args, Parser, Subcommand, ValueEnum};
use gateway::console::say;

#[derive(Debug, Parser)]
#[command(
    about = "Breaks a gateway cluster on this machine, and judges what it did",
    after_help = "Examples:\n  \
        gateway-chaos run --seed 7                          three minutes of everything that heals quickly\n  \
        gateway-chaos run --profile hour                    an hour of everything, with a seed of its own\n  \
        gateway-chaos run --only isolate,bridge --seconds 120\n  \
        gateway-chaos run --seed 7 --report runs/7          keep history, logs, report and picture there\n  \
        gateway-chaos check runs/7                          judge it again\n  \
        gateway-chaos prove --runs 20                       every fault put back, each in twenty runs\n  \
        gateway-chaos schedule --seed 7                     what a run with this seed does, and when\n\n\
        Exit codes: 0 all held; 1 something was violated; 2 wrong use, the world could not be made, or too little was broken."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a cluster, break it, judge it; needs root
    Run(RunArgs),
    /// Judge a run again that was kept
    Check {
        /// Its folder
        folder: PathBuf,
    },
    /// Show a schedule without doing it
    Schedule(RunArgs),
    /// Put faults of the product back, and show that each is found; needs root
    Prove(ProveArgs),
    /// Delays what reaches a node; a run starts these by itself
    #[command(hide = true)]
    Relay {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        node: SocketAddr,
    },
}

#[derive(Args, Debug)]
struct RunArgs {
    /// Draws the schedule and the workload [default: another one each time]
    #[arg(long)]
    seed: Option<u64>,
    #[arg(long, value_enum, default_value_t = Named::Quick, conflicts_with = "only")]
    profile: Named,
    /// Faults of these kinds alone
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Kind>,
    /// Length of the faults, instead of the profile's own
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Where all that is known of the run is kept; must not exist [default: chaos-SEED-TIME]
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Named {
    Quick,
    Hour,
}

impl RunArgs {
    fn profile(&self) -> Profile {
        let profile = match self.profile {
            _ if !self.only.is_empty() => Profile::only(&self.only),
            Named::Quick => Profile::quick(),
            Named::Hour => Profile::hour(),
        };
        match self.seconds {
            Some(seconds) => profile.lasting(Duration::from_secs(seconds)),
            None => profile,
        }
    }

    fn seed(&self) -> u64 {
        // Short enough to be typed again.
        self.seed.unwrap_or_else(|| rand::random_range(0..1_000_000))
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Schedule(args) => {
            let schedule = Schedule::of(args.seed(), &args.profile());
            say(format_args!("seed {}", schedule.seed));
            for step in &schedule.steps {
                say(format_args!(
                    "{:>7.1} s to {:>6.1} s  {}",
                    step.at.as_secs_f64(),
                    step.end().as_secs_f64(),
                    step.fault
                ));
            }
            ExitCode::SUCCESS
        }
        Command::Prove(args) => unless_interrupted(async { exit(prove(&args).await) }).await,
        Command::Run(args) => unless_interrupted(async { judged(run(&args).await) }).await,
        Command::Check { folder } => judged(run::judge_again(&folder)),
        Command::Relay { listen, node } => exit(relay::run(listen, node).await.map(|()| true)),
    }
}

/// Does it, or what Ctrl-C wants. The world is taken down before this returns.
async fn unless_interrupted(work: impl Future<Output = ExitCode>) -> ExitCode {
    let interrupted = tokio::select! {
        code = work => return code,
        interrupted = tokio::signal::ctrl_c() => interrupted,
    };
    match interrupted {
        Ok(()) => eprintln!("gateway-chaos: interrupted: nothing was judged"),
        Err(error) => eprintln!("gateway-chaos: interruptions are not heard, so it does not begin: {error}"),
    }
    // A thread that waits for room, or makes a world, is not waited for: its undertaker sees to that.
    std::process::exit(130)
}

async fn run(args: &RunArgs) -> anyhow::Result<Report> {
    let (seed, profile) = (args.seed(), args.profile());
    let named = || PathBuf::from(format!("chaos-{seed}-{}", chrono::Utc::now().format("%H%M%S")));
    let folder = args.report.clone().unwrap_or_else(named);
    say(format_args!("seed {seed}, profile {}, kept in {}", profile.name, folder.display()));
    run::run(&Setup::new(seed, profile, folder), |line| say(line)).await
}

/// Prints what was found, and says whether all held.
fn judged(report: anyhow::Result<Report>) -> ExitCode {
    exit(report.and_then(|report| {
        say(report.verdict.to_string().trim_end());
        for undone in report.undone() {
            eprintln!("not done: {undone}");
        }
        let held = report.verdict.holds();
        ensure!(!held || report.is_conclusive(), "too little was broken for this to say anything");
        Ok(held)
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
