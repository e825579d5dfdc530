//! `gateway-chaos prove`: every bug in up to its stated number of runs, and every fault without a bug, as a table.

use std::collections::BTreeSet;

use anyhow::ensure;
use clap::{Args, value_parser};
use gateway::console::say;

use super::{Ground, Harm, PROOFS, Proof};
use crate::check::Invariant;

#[derive(Debug, Args)]
pub struct ProveArgs {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Runs of each fault, and as many without one [default: up to the number that is stated for it, until it is found]
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    pub runs: Option<u64>,
    /// Only faults whose names contain this
    #[arg(long)]
    pub only: Option<String>,
}

impl ProveArgs {
    /// The bugs that the arguments select.
    ///
    /// # Errors
    /// When there is none.
    fn wanted(&self) -> anyhow::Result<Vec<&'static Proof>> {
        let part = self.only.as_deref().unwrap_or_default();
        let wanted: Vec<_> = PROOFS.iter().filter(|proof| proof.bug.as_str().contains(part)).collect();
        let known: Vec<_> = PROOFS.iter().map(|proof| proof.bug.as_str()).collect();
        ensure!(!wanted.is_empty(), "no fault's name contains {part:?}; there are {}", known.join(", "));
        Ok(wanted)
    }

    /// The most runs of a bug.
    fn most(&self, proof: &Proof) -> u64 {
        self.runs.unwrap_or(proof.runs)
    }

    /// The seeds of a number of runs.
    fn seeds(&self, runs: u64) -> impl Iterator<Item = u64> + use<> {
        let first = self.seed;
        (0..runs).map(move |run| first.wrapping_add(run))
    }
}

/// The results of the runs with one bug.
struct Row {
    proof: &'static Proof,
    tried: u64,
    /// The runs in which its own check found it, counted from one.
    found: Vec<u64>,
    /// Other invariants that it broke.
    besides: BTreeSet<Invariant>,
}

impl Row {
    fn new(proof: &'static Proof) -> Self {
        Self { proof, tried: 0, found: Vec::new(), besides: BTreeSet::new() }
    }

    /// Adds a run with the invariants that it broke. Returns whether the bug's own is among them.
    fn note(&mut self, violated: impl Iterator<Item = Invariant>) -> bool {
        self.tried += 1;
        let (own, besides): (Vec<_>, Vec<_>) = violated.partition(|violated| *violated == self.proof.invariant);
        self.besides.extend(besides);
        if !own.is_empty() {
            self.found.push(self.tried);
        }
        !own.is_empty()
    }

    /// Whether it was found within its stated number of runs, however many there were.
    fn is_proven(&self) -> bool {
        self.found.first().is_some_and(|run| *run <= self.proof.runs)
    }

    fn in_words(&self) -> String {
        let stated = self.proof.runs;
        let when = match self.found.first() {
            Some(first) if self.is_proven() => format!("found in run {first} of at most {stated}"),
            Some(first) => format!("**found in run {first}**, and not in the first {stated}"),
            None => format!("**not found**, stated for at most {stated}"),
        };
        format!("{when}; in {} of {}", self.found.len(), self.tried)
    }
}

/// Proves everything selected and prints the table. Returns false when a bug was not found within its stated number of
/// runs, or a run without a bug did not hold.
///
/// # Errors
/// When no bug matches, a fault is not possible here, or a run does not complete.
pub async fn prove(args: &ProveArgs) -> anyhow::Result<bool> {
    let wanted = args.wanted()?;
    let harms: BTreeSet<Harm> = wanted.iter().map(|proof| proof.harm).collect();
    harms.iter().try_for_each(|harm| Ground::look_for(*harm))?;
    let mut ground = Ground::prepare().await;
    let (mut rows, mut all_well) = (Vec::new(), true);
    for harm in harms {
        let proofs = || wanted.iter().copied().filter(move |proof| proof.harm == harm);
        ground = ground.ready_for(harm).await?;
        for seed in args.seeds(proofs().map(|proof| args.most(proof)).max().unwrap_or_default()) {
            let verdict = ground.run(harm, &[], seed).await?;
            say(format_args!("{harm:?} with seed {seed}: {}", if verdict.holds() { "holds" } else { "violated" }));
            if !verdict.holds() {
                all_well = false;
                say(verdict);
            }
        }
        for proof in proofs() {
            let mut row = Row::new(proof);
            for seed in args.seeds(args.most(proof)) {
                // Damage that a bug has done to a replica stays, so the next run may need a fresh cluster.
                ground = ground.ready_for(harm).await?;
                let verdict = ground.run(harm, &[proof.bug], seed).await?;
                let found = row.note(verdict.violated());
                say(format_args!("{} with seed {seed}: {}", proof.bug, if found { "found" } else { "missed" }));
                if !found {
                    say(verdict);
                }
                // Without `--runs` the first find is enough. More runs show how often the bug is found.
                if found && args.runs.is_none() {
                    break;
                }
            }
            say(format_args!("{}: {}", proof.bug.as_str(), row.in_words()));
            all_well &= row.is_proven();
            rows.push(row);
        }
    }
    say("| fault | found by | harm | found | broke besides |\n|---|---|---|---|---|");
    for row in &rows {
        let besides: Vec<String> = row.besides.iter().map(Invariant::to_string).collect();
        let (name, proof) = (row.proof.bug.as_str(), row.proof);
        let (found, besides) = (row.in_words(), besides.join(", "));
        say(format_args!("| `{name}` | {} | {:?} | {found} | {besides} |", proof.invariant, proof.harm));
    }
    Ok(all_well)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crate::mutation::Bug;
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: ProveArgs,
    }

    fn args(line: &str) -> Result<ProveArgs, clap::Error> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.args)
    }

    /// A bug that must be found within three runs.
    fn proof() -> &'static Proof {
        const { &Proof { bug: Bug::ReverseOutbox, invariant: Invariant::I4, harm: Harm::NoNetwork, runs: 3 } }
    }

    /// The row of runs that find the bug or not, ended where `prove` ends them.
    fn row(line: &str, runs: &[bool]) -> Row {
        let args = args(line).unwrap();
        let mut row = Row::new(proof());
        for (_, found) in args.seeds(args.most(proof())).zip(runs) {
            let violated = [Some(Invariant::I10), found.then_some(proof().invariant)];
            if row.note(violated.into_iter().flatten()) && args.runs.is_none() {
                break;
            }
        }
        row
    }

    #[test]
    fn a_fault_is_proven_when_it_is_found_within_its_stated_number_of_runs() {
        let table: [(&str, &[bool], bool, &str); 7] = [
            ("prove", &[true, true, true], true, "found in run 1 of at most 3; in 1 of 1"),
            ("prove", &[false, true], true, "found in run 2 of at most 3; in 1 of 2"),
            ("prove", &[false, false, true], true, "found in run 3 of at most 3; in 1 of 3"),
            ("prove", &[false, false, false, true], false, "**not found**, stated for at most 3; in 0 of 3"),
            ("prove --runs 4", &[false, true, true, false], true, "found in run 2 of at most 3; in 2 of 4"),
            (
                "prove --runs 4",
                &[false, false, false, true],
                false,
                "**found in run 4**, and not in the first 3; in 1 of 4",
            ),
            ("prove --runs 1", &[false, true], false, "**not found**, stated for at most 3; in 0 of 1"),
        ];
        for (line, runs, is_proven, words) in table {
            let row = row(line, runs);
            assert_eq!((row.is_proven(), row.in_words().as_str()), (is_proven, words), "{line}: {runs:?}");
            assert_eq!(row.besides, BTreeSet::from([Invariant::I10]));
        }
    }

    #[test]
    fn a_name_that_no_fault_has_is_refused_with_those_that_there_are() {
        assert_eq!(args("prove").unwrap().wanted().unwrap().len(), PROOFS.len());
        let one = proof().bug.as_str();
        assert_eq!(args(&format!("prove --only {one}")).unwrap().wanted().unwrap()[0].bug.as_str(), one);
        let refused = args("prove --only nonsense").unwrap().wanted().unwrap_err().to_string();
        assert!(PROOFS.iter().all(|proof| refused.contains(proof.bug.as_str())), "{refused}");
    }

    #[test]
    fn there_is_one_run_at_least() {
        assert_eq!(args("prove --runs 0").unwrap_err().exit_code(), 2);
        assert_eq!(args("prove --runs 1").unwrap().most(proof()), 1);
    }
}
