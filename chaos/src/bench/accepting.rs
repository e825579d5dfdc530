//! B2: the latency of sends at half of the peak rate, in an open loop, beside the same promise on etcd at half of its
//! peak. A failed call counts as infinitely late: see [`tally`].

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::bench::caller::{Caller, Sends};
use crate::bench::closed::Loop;
use crate::bench::open::Load;
use crate::bench::plan::{Plan, Sides};
use crate::bench::results::{Row, Section, Spread, Target};
use crate::bench::tally::{self, Summary};
use crate::bench::usage;

const NUMBER: &str = "B2";

/// Clients for the measurement of the peak.
const PEAK_CLIENTS: usize = 128;

/// Connections of an open loop: more than are in use unless the server falls behind.
const CONNECTIONS: usize = 256;

const WARM_UP: Duration = Duration::from_secs(1);

const WANTED: f64 = 0.75;

#[derive(Clone, Debug, Serialize)]
struct Pair {
    sends: Summary,
    promises: Summary,
    /// The part of all cores that was busy meanwhile, with anything.
    sends_load: f64,
    promises_load: f64,
}

/// Measures B2.
///
/// # Errors
/// When either side accepts nothing.
pub async fn measure(sides: &Sides, plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    let Sides { target, channels, promises, .. } = sides;
    let ours = Loop::start(Sends::to(target, PEAK_CLIENTS, channels), plan.length).summary().await?.accepted_per_second;
    let theirs = Loop::start(promises.workers(PEAK_CLIENTS)?, plan.length).summary().await?.accepted_per_second;
    tell(&format!("peaks: {ours:.0} sends/s, {theirs:.0} promises/s on etcd"));
    let (ours, theirs) = (ours / 2.0, theirs / 2.0);

    let mut pairs = Vec::new();
    for _ in 0..plan.pairs {
        let pair = pair(sides, ours, theirs, plan.length).await?;
        tell(&format!(
            "sends at {ours:.0}/s p50 {:>6.1} ms, p99 {:>6.1} ms; promises at {theirs:.0}/s p50 {:>6.1} ms, p99 {:>6.1} ms; {}",
            pair.sends.p50_ms,
            pair.sends.p99_ms,
            pair.promises.p50_ms,
            pair.promises.p99_ms,
            tally::failed([&pair.sends].into_iter(), [&pair.promises].into_iter())
        ));
        if let Some(failure) = pair.sends.first_failure.as_ref().or(pair.promises.first_failure.as_ref()) {
            tell(&format!("first failure: {failure}"));
        }
        pairs.push(pair);
    }
    let spread = |of: &dyn Fn(&Pair) -> f64| Spread::of(pairs.iter().map(of));
    let made_of = format!(
        "p99 {:.1} and {:.1} ms, p50 {:.1} and {:.1} ms at {ours:.0} and {theirs:.0} a second, cores busy {:.0} % and {:.0} %; {}",
        spread(&|pair| pair.sends.p99_ms).median,
        spread(&|pair| pair.promises.p99_ms).median,
        spread(&|pair| pair.sends.p50_ms).median,
        spread(&|pair| pair.promises.p50_ms).median,
        spread(&|pair| pair.sends_load * 100.0).median,
        spread(&|pair| pair.promises_load * 100.0).median,
        tally::failed(pairs.iter().map(|pair| &pair.sends), pairs.iter().map(|pair| &pair.promises)),
    );
    let ratio = spread(&|pair| tally::ratio(pair.sends.p99_ms, pair.promises.p99_ms));
    let name = "p99 of accept ÷ that of promises on etcd, each at half of its own peak";
    let rows = vec![Row::new(NUMBER, name, ratio, "", Target::AtMost(WANTED)).note(made_of)];
    Ok(Section { rows, details: json!({ NUMBER: { "rates": [ours, theirs], "pairs": pairs } }) })
}

async fn pair(sides: &Sides, ours: f64, theirs: f64, length: Duration) -> anyhow::Result<Pair> {
    let Sides { target, channels, promises, .. } = sides;
    let (sends, sends_load) = open(Sends::to(target, CONNECTIONS, channels), ours, length).await?;
    let (promises, promises_load) = open(promises.workers(CONNECTIONS)?, theirs, length).await?;
    Ok(Pair { sends, promises, sends_load, promises_load })
}

/// The outcome of the calls, and the load of the machine.
async fn open<C: Caller>(callers: Vec<C>, rate: f64, length: Duration) -> anyhow::Result<(Summary, f64)> {
    let load = Load::start(callers, rate, WARM_UP);
    tokio::time::sleep(WARM_UP).await;
    let before = usage::machine()?;
    tokio::time::sleep(length).await;
    let busy = usage::machine()?.since(before).load();
    Ok((load.end().await?.summary, busy))
}
