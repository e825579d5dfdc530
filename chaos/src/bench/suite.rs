//! The benchmarks by number, and a run of several of them.

use clap::ValueEnum;

use crate::bench::machine::Facts;
use crate::bench::plan::{Plan, Sides};
use crate::bench::results::{Results, Section, table};
use crate::bench::{accepting, failover, forwarding, limiting, throughput};

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Benchmark {
    B1,
    B2,
    B3,
    B10,
    B5,
}

impl Benchmark {
    /// All, in the order in which they disturb each other least.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }
}

/// Runs benchmarks one after the other, and shows the rows of each when it ends.
///
/// # Errors
/// When one could not be taken to its end.
pub async fn run(benchmarks: &[Benchmark], plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Results> {
    let machine = Facts::now()?;
    tell(&machine.lines());
    let mut sides = None;
    let mut sections = Vec::new();
    for benchmark in benchmarks {
        tell(&format!("\n{benchmark:?}"));
        let sides = match &mut sides {
            Some(sides) => sides,
            empty => empty.insert(Sides::start(plan, &tell).await?),
        };
        let section: Section = match benchmark {
            Benchmark::B1 => throughput::measure(sides, plan, &tell).await?,
            Benchmark::B2 => accepting::measure(sides, plan, &tell).await?,
            Benchmark::B3 => forwarding::measure(sides, plan, &tell).await?,
            Benchmark::B10 => limiting::measure(sides, plan, &tell).await?,
            Benchmark::B5 => failover::section(sides, plan, &tell).await?,
        };
        tell(&table(&section.rows));
        sections.push(section);
    }
    Ok(Results { machine, quick: plan.quick, sections })
}
