//! `gateway-sim`: runs the gateway's core on simulated time, one run per seed; see `chaos::simulation`.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chaos::simulation::corpus::{self, Kept};
use chaos::simulation::costs::{self, Costs};
use chaos::simulation::{Bug, Counts, Outcome, run};
use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand};
use gateway::console::say;
use parking_lot::Mutex;

/// The most failed seeds listed at the end; with a bug put back there may be as many as there are seeds.
const SHOWN: usize = 100;

/// Sizes of the clusters whose sends are counted, and the length of the measurement in virtual time.
const SIZES: [usize; 3] = [3, 5, 9];
const MEASURED: Duration = Duration::from_secs(10);

/// Runs the gateway's core on simulated time. The same seed always gives the same run.
#[derive(Parser)]
#[command(after_help = "Exit codes: 0 all checks passed; 1 a check failed; 2 wrong use, or there is nothing to run.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run many seeds, or one, and list those in which a check fails. Exit code 1 if there are any.
    #[command(after_help = "Examples:\n  gateway-sim run --seeds 0..5000\n  gateway-sim run --seed 17 --trace")]
    Run(Run),
    /// Run the seeds that are kept in chaos/simulation-corpus.txt.
    Corpus,
    /// Count what a send costs clusters of 3, 5 and 9 nodes: messages, syncs, applied entries.
    Costs,
}

#[derive(Args)]
struct Run {
    /// The range of seeds; the last is not included.
    #[arg(long, value_parser = range, default_value = "0..1000", conflicts_with = "seed")]
    seeds: Range<u64>,
    /// One seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Print everything that happens, with its virtual time.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Run with this known bug, to see that it is found.
    #[arg(long, value_enum)]
    bug: Option<Bug>,
    /// How many seeds run at once; by default one per CPU.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_024))]
    threads: Option<usize>,
}

fn range(text: &str) -> Result<Range<u64>> {
    let (from, to) = text.split_once("..").context("write it as 0..5000")?;
    let range = from.parse()?..to.parse()?;
    ensure!(!range.is_empty(), "there is no seed in {text}");
    Ok(range)
}

fn main() -> ExitCode {
    let failed = match Arguments::parse().command {
        Command::Run(run) => match run.seed {
            Some(seed) => one(seed, run.bug, run.trace),
            None => many(run.seeds, run.bug, run.threads),
        },
        Command::Costs => costs(),
        Command::Corpus => match kept(corpus::read()) {
            Ok(seeds) => many(seeds.into_iter(), None, None),
            Err(error) => {
                eprintln!("gateway-sim: {error:#}");
                return ExitCode::from(2);
            }
        },
    };
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The seeds of the corpus.
///
/// # Errors
/// When it cannot be read, or is empty: success without a run would mean nothing.
fn kept(corpus: Result<Vec<Kept>, String>) -> Result<Vec<u64>> {
    let seeds: Vec<u64> = corpus.map_err(anyhow::Error::msg)?.iter().map(|kept| kept.seed).collect();
    ensure!(!seeds.is_empty(), "chaos/simulation-corpus.txt holds no seed, so nothing was run");
    Ok(seeds)
}

/// Prints the cost of a send as a table in Markdown. Returns whether a measurement failed.
fn costs() -> bool {
    say(
        "| nodes | sends a second | messages a send | syncs a send | entries applied a send | messages a second without sends |",
    );
    say("|---|---|---|---|---|---|");
    let mut failed = false;
    for nodes in SIZES {
        match costs::measure(nodes, MEASURED) {
            Ok(Costs { nodes, idle_messages, sends_per_second, messages, syncs, applied }) => say(format_args!(
                "| {nodes} | {sends_per_second:.0} | {messages:.2} | {syncs:.2} | {applied:.2} | {idle_messages:.0} |"
            )),
            Err(error) => {
                eprintln!("gateway-sim: {error}");
                failed = true;
            }
        }
    }
    failed
}

fn one(seed: u64, bug: Option<Bug>, traced: bool) -> bool {
    let outcome = run(seed, bug, traced);
    outcome.lines.iter().for_each(say);
    say(format_args!("seed {seed}: hash {:016x}, {:?}", outcome.hash, outcome.counts));
    show(&outcome);
    !outcome.held()
}

fn show(outcome: &Outcome) {
    for violation in &outcome.violations {
        say(format_args!("seed {}: {violation}", outcome.seed));
    }
}

fn many(seeds: impl Iterator<Item = u64> + Send, bug: Option<Bug>, threads: Option<usize>) -> bool {
    let began = Instant::now();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // Drawn one at a time: a range may be too long for a list.
    let seeds = Mutex::new(seeds);
    let next = || seeds.lock().next();
    let totals = Mutex::new(Totals::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.unwrap_or(processors) {
            scope.spawn(|| {
                while let Some(seed) = next() {
                    let outcome = run(seed, bug, false);
                    show(&outcome);
                    totals.lock().add(&outcome);
                }
            });
        }
    });
    let Totals { seeds, counts, failed, first } = totals.into_inner();
    say(format_args!("{seeds} seeds in {:.1?}: {counts:?}", began.elapsed()));
    if failed == 0 {
        say("all held");
    } else {
        let more = if failed > first.len() as u64 { ", and more" } else { "" };
        say(format_args!("not held in {failed}: {first:?}{more}; look with gateway-sim run --seed N --trace"));
        say("once it is mended, keep each with its reason in chaos/simulation-corpus.txt");
    }
    failed > 0
}

/// The results of many seeds.
#[derive(Default)]
struct Totals {
    seeds: u64,
    counts: Counts,
    /// The number of failed seeds, and the smallest [`SHOWN`] of them.
    failed: u64,
    first: BTreeSet<u64>,
}

impl Totals {
    fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.counts += outcome.counts;
        if !outcome.held() {
            self.failed += 1;
            self.first.insert(outcome.seed);
            if self.first.len() > SHOWN {
                self.first.pop_last();
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_names_no_run_is_refused() {
        for line in ["run --seeds 5..5", "run --seeds 5", "run --seeds 9..1", "run --trace", "run --threads 0"] {
            let refused = Arguments::try_parse_from(["gateway-sim"].into_iter().chain(line.split(' '))).err().unwrap();
            assert_eq!(refused.exit_code(), 2, "{line}: {refused}");
        }
    }

    #[test]
    fn of_many_failures_the_smallest_seeds_are_kept() {
        let mut totals = Totals::default();
        for seed in (0..2 * SHOWN as u64).rev() {
            let violations = vec!["something".to_owned()];
            totals.add(&Outcome { seed, violations, counts: Counts::default(), hash: 0, lines: Vec::new() });
        }
        totals.add(&Outcome { seed: 0, violations: Vec::new(), counts: Counts::default(), hash: 0, lines: Vec::new() });
        assert_eq!((totals.seeds, totals.failed), (2 * SHOWN as u64 + 1, 2 * SHOWN as u64));
        assert!(totals.first.into_iter().eq(0..SHOWN as u64));
    }

    #[test]
    fn a_corpus_without_a_seed_shows_nothing() {
        assert!(kept(Ok(Vec::new())).is_err());
        assert!(kept(Err("a line is wrong".to_owned())).is_err());
        assert_eq!(kept(Ok(vec![Kept { seed: 7, why: "a reason" }])).unwrap(), [7]);
    }
}
