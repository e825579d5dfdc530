//! `gateway-sim`: runs the gateway's core on simulated time, one seed a run; see `chaos::simulation`.

use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use chaos::simulation::{Bug, Counts, Outcome, corpus, run};
use clap::{Args, Parser, Subcommand};
use parking_lot::Mutex;

/// The gateway's core on simulated time: a seed is a run, and the same run whenever it is made again.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run many seeds, or one, and name those in which something does not hold. Exit code 1 when there are any.
    #[command(after_help = "Examples:\n  gateway-sim run --seeds 0..5000\n  gateway-sim run --seed 17 --trace")]
    Run(Run),
    /// Run the seeds that are kept in chaos/simulation-corpus.txt.
    Corpus,
}

#[derive(Args)]
struct Run {
    /// Seeds, from and to, without the last.
    #[arg(long, value_parser = range, default_value = "0..1000", conflicts_with = "seed")]
    seeds: Range<u64>,
    /// One seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Print all that happens, with its virtual time.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Put a bug back, to see that it is found.
    #[arg(long, value_enum)]
    bug: Option<Bug>,
    /// How many seeds run at once; as many as there are processors unless given.
    #[arg(long)]
    threads: Option<usize>,
}

fn range(text: &str) -> Result<Range<u64>> {
    let (from, to) = text.split_once("..").context("write it as 0..5000")?;
    let range = from.parse()?..to.parse()?;
    ensure!(!range.is_empty(), "there is no seed in {text}");
    Ok(range)
}

fn main() -> Result<ExitCode> {
    let failed = match Arguments::parse().command {
        Command::Run(run) => match run.seed {
            Some(seed) => one(seed, run.bug, run.trace),
            None => many(run.seeds.collect(), run.bug, run.threads),
        },
        Command::Corpus => {
            let kept = corpus::read().map_err(anyhow::Error::msg)?;
            many(kept.iter().map(|kept| kept.seed).collect(), None, None)
        }
    };
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn one(seed: u64, bug: Option<Bug>, traced: bool) -> bool {
    let outcome = run(seed, bug, traced);
    outcome.lines.iter().for_each(|line| println!("{line}"));
    println!("seed {seed}: hash {:016x}, {:?}", outcome.hash, outcome.counts);
    show(&outcome);
    !outcome.held()
}

fn show(outcome: &Outcome) {
    for violation in &outcome.violations {
        println!("seed {}: {violation}", outcome.seed);
    }
}

fn many(seeds: Vec<u64>, bug: Option<Bug>, threads: Option<usize>) -> bool {
    let began = Instant::now();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(0);
    let totals = Mutex::new((Counts::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads.unwrap_or(processors).max(1) {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let outcome = run(*seed, bug, false);
                    show(&outcome);
                    let mut totals = totals.lock();
                    totals.0 += outcome.counts;
                    if !outcome.held() {
                        totals.1.push(*seed);
                    }
                }
            });
        }
    });
    let (counts, mut failed) = totals.into_inner();
    failed.sort_unstable();
    println!("{} seeds in {:.1?}: {counts:?}", seeds.len(), began.elapsed());
    if failed.is_empty() {
        println!("all held");
    } else {
        println!("not held in {}: {failed:?}; look with gateway-sim run --seed N --trace", failed.len());
    }
    !failed.is_empty()
}
