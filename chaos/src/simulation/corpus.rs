//! Seeds that every test runs first: each has found a bug once, or exercises something rare.

/// The corpus file: each line is a seed and the reason why it is kept.
const CORPUS: &str = include_str!("../../simulation-corpus.txt");

/// A seed, and why it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub seed: u64,
    pub why: &'static str,
}

/// All seeds of the corpus.
///
/// # Errors
/// The first line that is not a seed and a reason.
pub fn read() -> Result<Vec<Kept>, String> {
    read_all(CORPUS)
}

fn read_all(corpus: &'static str) -> Result<Vec<Kept>, String> {
    let lines = corpus.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(parse).collect()
}

fn parse(line: &'static str) -> Result<Kept, String> {
    let (seed, why) = line.split_once(' ').ok_or_else(|| format!("{line:?} has no reason"))?;
    let seed = seed.parse().map_err(|_| format!("{seed:?} is no seed"))?;
    Ok(Kept { seed, why: why.trim() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_seed_and_why_it_is_kept() {
        let kept = read_all("# Seeds.\n\n17 two leaders at once\n4 a snapshot amid a cut\n").unwrap();
        let first = Kept { seed: 17, why: "two leaders at once" };
        assert_eq!(kept, [first, Kept { seed: 4, why: "a snapshot amid a cut" }]);
        assert!(read_all("17").unwrap_err().contains("no reason"));
        assert!(read_all("seventeen leaders").unwrap_err().contains("no seed"));
        assert!(read().is_ok(), "the corpus itself");
    }
}
