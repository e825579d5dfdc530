//! B2: how long a send takes to be accepted at half of etcd's peak, in an open loop, beside etcd's puts at the same rate.
//! A send or a put that fails counts as infinitely late: see [`tally`].

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::bench::caller::{Caller, JsonPuts, Sends};
use crate::bench::closed::Loop;
use crate::bench::open::Load;
use crate::bench::plan::{Plan, Sides};
use crate::bench::results::{Row, Section, Spread, Target};
use crate::bench::tally::{self, Summary};
use crate::bench::usage;

const NUMBER: &str = "B2";

/// Clients at the peak.
const PEAK_CLIENTS: usize = 128;

/// Connections of an open loop: more than are under way unless the server falls behind.
const CONNECTIONS: usize = 256;

const WARM_UP: Duration = Duration::from_secs(1);

const WANTED: f64 = 0.75;

#[derive(Clone, Debug, Serialize)]
struct Pair {
    sends: Summary,
    puts: Summary,
    /// The part of all cores that was busy meanwhile, with whatever it was.
    sends_load: f64,
    puts_load: f64,
}

/// # Errors
/// When either side accepts nothing.
pub async fn measure(sides: &Sides, plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    let Sides { target, channels, etcd, value_bytes } = sides;
    let theirs = JsonPuts::workers(etcd, PEAK_CLIENTS, *value_bytes)?;
    let theirs = Loop::start(theirs, plan.length).summary().await?.accepted_per_second;
    let ours = Loop::start(Sends::to(target, PEAK_CLIENTS, channels), plan.length).summary().await?.accepted_per_second;
    tell(&format!("peaks: {ours:.0} sends/s, {theirs:.0} puts/s"));

    let (mut rows, mut details) = (Vec::new(), Vec::new());
    for (peak, of, target) in [(theirs, "etcd's", Target::AtMost(WANTED)), (ours, "our", Target::None)] {
        let rate = peak / 2.0;
        let pairs = pairs(sides, plan, rate, &tell).await?;
        let spread = |of: &dyn Fn(&Pair) -> f64| Spread::of(pairs.iter().map(of));
        let made_of = format!(
            "p99 {:.1} and {:.1} ms, p50 {:.1} and {:.1} ms, cores busy {:.0} % and {:.0} %; {:.0} sends/s were accepted; {}",
            spread(&|pair| pair.sends.p99_ms).median,
            spread(&|pair| pair.puts.p99_ms).median,
            spread(&|pair| pair.sends.p50_ms).median,
            spread(&|pair| pair.puts.p50_ms).median,
            spread(&|pair| pair.sends_load * 100.0).median,
            spread(&|pair| pair.puts_load * 100.0).median,
            spread(&|pair| pair.sends.accepted_per_second).median,
            tally::failed(pairs.iter().map(|pair| &pair.sends), pairs.iter().map(|pair| &pair.puts)),
        );
        let name = format!("p99 of accept ÷ etcd's, at half of {of} peak ({rate:.0}/s, open loop)");
        let ratio = spread(&|pair| tally::ratio(pair.sends.p99_ms, pair.puts.p99_ms));
        rows.push(Row::new(NUMBER, name, ratio, "", target).note(made_of));
        details.push(json!({ "rate": rate, "of": of, "pairs": pairs }));
    }
    Ok(Section { rows, details: json!({ NUMBER: details }) })
}

async fn pairs(sides: &Sides, plan: &Plan, rate: f64, tell: &impl Fn(&str)) -> anyhow::Result<Vec<Pair>> {
    let Sides { target, channels, etcd, value_bytes } = sides;
    let mut pairs = Vec::new();
    for _ in 0..plan.pairs {
        let (sends, sends_load) = open(Sends::to(target, CONNECTIONS, channels), rate, plan.length).await?;
        let (puts, puts_load) = open(JsonPuts::workers(etcd, CONNECTIONS, *value_bytes)?, rate, plan.length).await?;
        tell(&format!(
            "{rate:>6.0}/s: sends p50 {:>6.1} ms, p99 {:>6.1} ms; puts p50 {:>6.1} ms, p99 {:>6.1} ms; {}",
            sends.p50_ms,
            sends.p99_ms,
            puts.p50_ms,
            puts.p99_ms,
            tally::failed([&sends].into_iter(), [&puts].into_iter())
        ));
        if let Some(failure) = sends.first_failure.as_ref().or(puts.first_failure.as_ref()) {
            tell(&format!("first failure: {failure}"));
        }
        pairs.push(Pair { sends, puts, sends_load, puts_load });
    }
    Ok(pairs)
}

/// What became of the calls, and how busy the machine was.
async fn open<C: Caller>(callers: Vec<C>, rate: f64, length: Duration) -> anyhow::Result<(Summary, f64)> {
    let load = Load::start(callers, rate, WARM_UP);
    tokio::time::sleep(WARM_UP).await;
    let before = usage::machine()?;
    tokio::time::sleep(length).await;
    let busy = usage::machine()?.since(before).load();
    Ok((load.end().await?.summary, busy))
}
