//! `gateway-chaos prove`: every fault with many seeds, and every harm without a fault, as a table.

use std::collections::BTreeSet;

use clap::Args;

use super::{Ground, Harm, PROOFS, Proof};
use crate::check::Invariant;

#[derive(Debug, Args)]
pub struct ProveArgs {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Runs of each fault, and as many without one
    #[arg(long, default_value_t = 5)]
    pub runs: u64,
    /// Only faults whose names contain this
    #[arg(long)]
    pub only: Option<String>,
}

/// How often a fault was found.
struct Row {
    proof: &'static Proof,
    found: u64,
    /// Invariants that it broke besides.
    besides: BTreeSet<Invariant>,
}

/// Proves all of it and prints the table. False when a fault was never found, or a run without one does not hold.
///
/// # Errors
/// When a run does not come to its end.
pub async fn prove(args: &ProveArgs) -> anyhow::Result<bool> {
    let wanted = |proof: &&Proof| args.only.as_ref().is_none_or(|part| proof.bug.name().contains(part.as_str()));
    let harms: BTreeSet<Harm> = PROOFS.iter().filter(wanted).map(|proof| proof.harm).collect();
    let mut ground = Ground::prepare().await;
    let (mut rows, mut all_well) = (Vec::new(), true);
    for harm in harms {
        ground = ground.ready_for(harm).await?;
        for seed in args.seed..args.seed + args.runs {
            let verdict = ground.run(harm, &[], seed).await?;
            println!("{harm:?} with seed {seed}: {}", if verdict.holds() { "holds" } else { "violated" });
            if !verdict.holds() {
                all_well = false;
                println!("{verdict}");
            }
        }
        for proof in PROOFS.iter().filter(wanted).filter(|proof| proof.harm == harm) {
            let mut row = Row { proof, found: 0, besides: BTreeSet::new() };
            for seed in args.seed..args.seed + args.runs {
                let verdict = ground.run(harm, &[proof.bug], seed).await?;
                let found = verdict.violated().any(|violated| violated == proof.invariant);
                println!("{} with seed {seed}: {}", proof.bug.name(), if found { "found" } else { "missed" });
                if !found {
                    println!("{verdict}");
                }
                row.found += u64::from(found);
                row.besides.extend(verdict.violated().filter(|violated| *violated != proof.invariant));
            }
            all_well &= row.found > 0;
            rows.push(row);
        }
    }
    println!("| fault | found by | harm | found in | broke besides |\n|---|---|---|---|---|");
    for Row { proof, found, besides } in rows {
        let besides: Vec<String> = besides.iter().map(Invariant::to_string).collect();
        let (name, runs) = (proof.bug.name(), args.runs);
        println!("| `{name}` | {} | {:?} | {found} of {runs} | {} |", proof.invariant, proof.harm, besides.join(", "));
    }
    Ok(all_well)
}
