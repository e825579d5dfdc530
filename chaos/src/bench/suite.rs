//! The benchmarks by number, and a run of several of them.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use crate::bench::machine::Facts;
use crate::bench::plan::{Plan, Sides};
use crate::bench::results::{Results, Section, table};
use crate::bench::{
    accepting, failover, forwarding, growing, hearing, idle, joining, limiting, moving, restarting, returning,
    throughput,
};

/// A benchmark.
#[derive(Clone, Copy, Debug)]
pub enum Benchmark {
    /// Benchmarks that share a cluster and etcd.
    Beside(Beside),
    /// Benchmarks with clusters of their own; nothing else runs meanwhile.
    Alone(Alone),
}

/// Benchmarks that share a cluster and etcd.
#[derive(Clone, Copy, Debug)]
pub enum Beside {
    B1,
    B2,
    B3,
    B4,
    B5,
    B10,
}

/// Benchmarks with clusters of their own.
#[derive(Clone, Copy, Debug)]
pub enum Alone {
    B6,
    /// Measured together, as both need a growing cluster.
    B7AndB8,
    B9,
    B11,
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beside(benchmark) => write!(f, "{benchmark:?}"),
            Self::Alone(Alone::B7AndB8) => f.write_str("B7 and B8"),
            Self::Alone(benchmark) => write!(f, "{benchmark:?}"),
        }
    }
}

/// All benchmarks: first those that share a cluster, of which the one that kills nodes comes last.
pub const ALL: [Benchmark; 10] = [
    Benchmark::Beside(Beside::B1),
    Benchmark::Beside(Beside::B2),
    Benchmark::Beside(Beside::B3),
    Benchmark::Beside(Beside::B10),
    Benchmark::Beside(Beside::B4),
    Benchmark::Beside(Beside::B5),
    Benchmark::Alone(Alone::B6),
    Benchmark::Alone(Alone::B9),
    Benchmark::Alone(Alone::B11),
    Benchmark::Alone(Alone::B7AndB8),
];

/// Runs benchmarks one after the other, and shows the rows of each when it ends. A failure of one does not keep the
/// others from running.
///
/// # Errors
/// When the facts of the machine cannot be read.
pub async fn run(benchmarks: &[Benchmark], plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Results> {
    let machine = Facts::now()?;
    tell(&machine.lines());
    let mut shared = None;
    let (mut sections, mut failures) = (Vec::new(), Vec::new());
    for benchmark in benchmarks {
        tell(&format!("\n{benchmark}"));
        let measuring = async {
            match benchmark {
                Benchmark::Beside(benchmark) => with_sides(*benchmark, &mut shared, plan, &tell).await,
                Benchmark::Alone(benchmark) => {
                    shared = None;
                    alone(*benchmark, plan, &tell).await
                }
            }
        };
        // The test harness panics when a step fails.
        let outcome = AssertUnwindSafe(measuring).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|panic| Err(anyhow::anyhow!("{}", words(panic.as_ref()))));
        match outcome {
            Ok(section) => {
                tell(&table(&section.rows));
                sections.push(section);
            }
            Err(error) => {
                // The shared cluster may be broken, and is started again for the next benchmark.
                shared = None;
                let failure = format!("{benchmark}: {error:#}");
                tell(&failure);
                failures.push(failure);
            }
        }
    }
    Ok(Results { machine, quick: plan.quick, sections, failures })
}

/// The message of a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref().copied()).unwrap_or("a step panicked")
}

async fn with_sides(
    benchmark: Beside,
    shared: &mut Option<Sides>,
    plan: &Plan,
    tell: &impl Fn(&str),
) -> anyhow::Result<Section> {
    let sides = match shared {
        Some(sides) => sides,
        empty => empty.insert(Sides::start(plan, tell).await?),
    };
    match benchmark {
        Beside::B1 => throughput::measure(sides, plan, tell).await,
        Beside::B2 => accepting::measure(sides, plan, tell).await,
        Beside::B3 => forwarding::measure(sides, plan, tell).await,
        Beside::B4 => hearing::measure(sides, plan, tell).await,
        Beside::B5 => {
            let takeover = failover::section(sides, plan, tell).await?;
            // Before the sessions' benchmark fills the cluster with channels.
            let moves = moving::measure(&sides.target, &sides.channels, plan, tell).await?;
            let sessions = returning::measure(&sides.target, plan, tell).await?;
            Ok(takeover.and(moves).and(sessions))
        }
        Beside::B10 => limiting::measure(sides, plan, tell).await,
    }
}

async fn alone(benchmark: Alone, plan: &Plan, tell: &impl Fn(&str)) -> anyhow::Result<Section> {
    match benchmark {
        Alone::B6 => restarting::measure(plan, tell).await,
        Alone::B7AndB8 => idle::measure(plan, tell).await,
        Alone::B9 => joining::measure(plan, tell).await,
        Alone::B11 => growing::measure(plan, tell).await,
    }
}
