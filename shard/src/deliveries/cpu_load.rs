//! How busy the processors are, as the kernel counts it.

use std::fs;

/// Parts of the processors' time: above the first, work that can wait should wait; below the second, there may be more.
const FULL: f64 = 0.85;
const SPARE: f64 = 0.70;

/// How busy the processors were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    Full,
    Enough,
    Spare,
}

/// Measures the load between one call and the next.
pub struct CpuLoad {
    /// The cores that this process may use, which may be fewer than the machine has.
    cores: u64,
    last: Option<Counted>,
}

/// Times since the machine or the process started, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    /// Number of the machine's cores.
    cores: u64,
    /// All time of all cores.
    whole: u64,
    /// Time that was neither idle nor of niced processes.
    busy: u64,
    /// Time of this process.
    own: u64,
}

impl CpuLoad {
    pub fn new(cores: usize) -> Self {
        Self { cores: cores.max(1) as u64, last: None }
    }

    /// How busy the processors were since the last call. `None` on the first call, or if the kernel does not tell.
    pub fn measure(&mut self) -> Option<Busy> {
        let counted = read()?;
        let last = self.last.replace(counted)?;
        counted.since(last, self.cores)
    }
}

impl Counted {
    fn since(self, earlier: Self, allowed_cores: u64) -> Option<Busy> {
        let whole = self.whole.checked_sub(earlier.whole).filter(|whole| *whole > 0)? as f64;
        let machine = self.busy.saturating_sub(earlier.busy) as f64 / whole;
        // A container may be given less than the machine, so this process's use of its own share counts as well.
        let allowed = whole * allowed_cores as f64 / self.cores.max(1) as f64;
        let own = self.own.saturating_sub(earlier.own) as f64 / allowed;
        Some(match machine.max(own) {
            part if part >= FULL => Busy::Full,
            part if part < SPARE => Busy::Spare,
            _ => Busy::Enough,
        })
    }
}

fn read() -> Option<Counted> {
    parse(&fs::read_to_string("/proc/stat").ok()?, &fs::read_to_string("/proc/self/stat").ok()?)
}

/// Parses `/proc/stat`, with a line `cpu` of the sums and one for each core, and `/proc/self/stat`, where user and
/// system time are the 12th and 13th field after the name in parentheses.
fn parse(stat: &str, own: &str) -> Option<Counted> {
    let mut lines = stat.lines().filter_map(|line| line.strip_prefix("cpu"));
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in user already.
    let sums: Vec<u64> = lines.next()?.split_whitespace().filter_map(|field| field.parse().ok()).take(8).collect();
    let [user, _, system, _, _, irq, softirq, steal] = sums[..] else { return None };
    let (_, own) = own.rsplit_once(')')?;
    let mut own = own.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    Some(Counted {
        cores: lines.count() as u64,
        whole: sums.iter().sum(),
        busy: user + system + irq + softirq + steal,
        own: own.next()? + own.next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_figures_are_read() {
        let stat =
            "cpu  100 20 30 400 5 6 7 8 0 0\ncpu0 50 10 15 200 2 3 3 4 0 0\ncpu1 50 10 15 200 3 3 4 4 0 0\nintr 1 2";
        let own = "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14";
        assert_eq!(parse(stat, own), Some(Counted { cores: 2, whole: 576, busy: 151, own: 23 }));
        assert_eq!(parse("cpu  1 2 3", own), None);
        assert!(read().is_some(), "this machine tells");
    }

    #[test]
    fn a_machine_is_full_when_its_cores_are_or_when_the_part_that_is_ours_is() {
        let at = |whole, busy, own| Counted { cores: 4, whole, busy, own };
        let busy = |now: Counted| now.since(at(1_000, 500, 100), 2);
        assert_eq!(busy(at(1_400, 890, 110)), Some(Busy::Full));
        assert_eq!(busy(at(1_400, 810, 110)), Some(Busy::Enough));
        assert_eq!(busy(at(1_400, 600, 110)), Some(Busy::Spare));
        assert_eq!(busy(at(1_400, 700, 290)), Some(Busy::Full), "two of its four cores are all that it has");
        assert_eq!(busy(at(1_000, 500, 100)), None, "no time has passed");
    }
}
