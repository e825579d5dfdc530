//! Seeds that every test runs first: each has found something once, or shows something rare.

/// The file that holds them: a seed, and why it is there, on each line.
const CORPUS: &str = include_str!("../../simulation-corpus.txt");

/// A seed and why it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub seed: u64,
    pub why: &'static str,
}

/// All kept seeds.
///
/// # Errors
/// The first line that is not a seed and a reason.
pub fn read() -> Result<Vec<Kept>, String> {
    let lines = CORPUS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(parse).collect()
}

fn parse(line: &'static str) -> Result<Kept, String> {
    let (seed, why) = line.split_once(' ').ok_or_else(|| format!("{line:?} has no reason"))?;
    let seed = seed.parse().map_err(|_| format!("{seed:?} is no seed"))?;
    Ok(Kept { seed, why: why.trim() })
}
