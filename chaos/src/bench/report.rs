//! Results as tables for people.

use crate::bench::failover::{Summary, Trial};
use crate::bench::sends::Level;
use crate::bench::waiting::{Pair, Phase};

/// The heading of a table of levels.
pub fn levels_heading() -> String {
    format!(
        "{:>8} {:>10} {:>9} {:>9} {:>9} {:>8} {:>7} {:>12} {:>9} {:>9} {:>9} {:>7}",
        "senders",
        "accepted/s",
        "p50 ms",
        "p99 ms",
        "max ms",
        "queued",
        "failed",
        "fsyncs/send",
        "cpu node",
        "cpu sim",
        "cpu cli",
        "else %"
    )
}

/// A line of the table; processor times are in milliseconds per send, except for the part that other programs used.
pub fn level(level: &Level) -> String {
    let fsyncs = level.fsyncs_per_send.map_or_else(|| "-".to_owned(), |fsyncs| format!("{fsyncs:.2}"));
    format!(
        "{:>8} {:>10.0} {:>9.2} {:>9.2} {:>9.2} {:>8} {:>7} {:>12} {:>9.3} {:>9.3} {:>9.3} {:>7.0}",
        level.senders,
        level.sends.accepted_per_second,
        level.sends.p50_ms,
        level.sends.p99_ms,
        level.sends.max_ms,
        level.sends.queued,
        level.sends.failed,
        fsyncs,
        level.cpu_ms_per_send.nodes,
        level.cpu_ms_per_send.simulator,
        level.cpu_ms_per_send.client,
        level.cpu_elsewhere * 100.0,
    )
}

/// The line of a phase, with the medians of its pairs.
pub fn phase(phase: &Phase) -> String {
    let median = |of: &dyn Fn(&Pair) -> f64| {
        let mut values: Vec<f64> = phase.pairs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    format!(
        "{:>12}: {:>7} deliveries due, {:>6.0} sends/s and {:>6.0} at the twin, {:.2} of it, {:.3} and {:.3} ms of the nodes \
         each (medians); a healthy endpoint hears after {:.0} ms, p99 {:.0}; {} attempts; nodes {:?} MiB",
        phase.name,
        phase.deliveries_due,
        median(&|pair| pair.with.sends.accepted_per_second),
        median(&|pair| pair.without.sends.accepted_per_second),
        median(&|pair| pair.with.sends.accepted_per_second / pair.without.sends.accepted_per_second),
        median(&|pair| pair.with.cpu_ms_per_send.nodes),
        median(&|pair| pair.without.cpu_ms_per_send.nodes),
        phase.webhook.p50_ms,
        phase.webhook.p99_ms,
        phase.attempts,
        phase.node_mib
    )
}

/// The line of one failover.
pub fn trial(n: usize, trial: &Trial) -> String {
    format!(
        "trial {:>2}: node {} killed, {:>3} channels; first 202 after {:>5.0} ms, median {:>5.0}, last {:>5.0}; {} queued",
        n + 1,
        trial.node,
        trial.channels,
        trial.first_ms,
        trial.median_ms,
        trial.last_ms,
        trial.queued
    )
}

/// The line below all trials.
pub fn summary(summary: &Summary) -> String {
    format!(
        "{} trials, {} channels: median {:.0} ms, p99 {:.0} ms, worst {:.0} ms; whole node taken over after {:.0} ms (median)",
        summary.trials.len(),
        summary.channels,
        summary.median_ms,
        summary.p99_ms,
        summary.worst_ms,
        summary.median_of_last_ms
    )
}
