//! B1: durable sends accepted a second, beside etcd's puts. What failed is not among what was accepted, on either side.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::bench::caller::{Caller, GrpcPuts, JsonPuts};
use crate::bench::closed::Loop;
use crate::bench::plan::{Plan, Sides};
use crate::bench::results::{Row, Section, Spread, Target};
use crate::bench::sends::{self, Level};
use crate::bench::tally::{self, Summary};
use crate::bench::usage;

const NUMBER: &str = "B1";

/// As etcd's own measurements have them, and four times as many.
const CLIENTS: [usize; 2] = [32, 128];

/// The step after it is 1.5.
const WANTED: f64 = 1.0;

/// One measurement and its neighbours.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    pub sends: Level,
    /// Through etcd's JSON side, over connections like those of the sends.
    pub json: Puts,
    /// Over gRPC, a connection for each client.
    pub grpc: Puts,
}

/// What etcd did.
#[derive(Clone, Debug, Serialize)]
pub struct Puts {
    #[serde(flatten)]
    pub puts: Summary,
    /// Of all members.
    pub cpu_ms_per_put: f64,
}

/// # Errors
/// When either side accepts nothing.
pub async fn measure(sides: &Sides, plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    let (mut rows, mut details) = (Vec::new(), Vec::new());
    for clients in CLIENTS {
        let mut pairs = Vec::new();
        for _ in 0..plan.pairs {
            let pair = pair(sides, clients, plan.length).await?;
            tell(&format!(
                "{clients:>4} clients: {:>6.0} sends/s, {:>6.0} puts/s as JSON, {:>6.0} puts/s over gRPC; \
                 p99 {:.0}, {:.0}, {:.0} ms; failed {}, {}, {}",
                pair.sends.sends.accepted_per_second,
                pair.json.puts.accepted_per_second,
                pair.grpc.puts.accepted_per_second,
                pair.sends.sends.p99_ms,
                pair.json.puts.p99_ms,
                pair.grpc.puts.p99_ms,
                pair.sends.sends.failed,
                pair.json.puts.failed,
                pair.grpc.puts.failed,
            ));
            pairs.push(pair);
        }
        let spread = |of: &dyn Fn(&Pair) -> f64| Spread::of(pairs.iter().map(of));
        let sent = |pair: &Pair| pair.sends.sends.accepted_per_second;
        let json = |pair: &Pair| pair.json.puts.accepted_per_second;
        let grpc = |pair: &Pair| pair.grpc.puts.accepted_per_second;
        let sends = || pairs.iter().map(|pair| &pair.sends.sends);
        let made_of = format!(
            "{:.0} sends/s and {:.0} puts/s of {} bytes; CPU of the nodes {:.2} ms a send, of etcd {:.2} ms a put; {}",
            spread(&sent).median,
            spread(&json).median,
            sides.value_bytes,
            spread(&|pair| pair.sends.cpu_ms_per_send.nodes).median,
            spread(&|pair| pair.json.cpu_ms_per_put).median,
            tally::failed(sends(), pairs.iter().map(|pair| &pair.json.puts)),
        );
        let name = format!("sends ÷ etcd's puts (JSON), {clients} clients");
        let ratio = spread(&|pair| sent(pair) / json(pair));
        rows.push(Row::new(NUMBER, name, ratio, "", Target::AtLeast(WANTED)).note(made_of));
        let name = format!("sends ÷ etcd's puts (gRPC), {clients} clients");
        let ratio = spread(&|pair| sent(pair) / grpc(pair));
        let failed = tally::failed(sends(), pairs.iter().map(|pair| &pair.grpc.puts));
        let made_of = format!("{:.0} puts/s over gRPC; {failed}", spread(&grpc).median);
        rows.push(Row::new(NUMBER, name, ratio, "", Target::None).note(made_of));
        details.push(json!({ "clients": clients, "value_bytes": sides.value_bytes, "pairs": pairs }));
    }
    Ok(Section { rows, details: json!({ NUMBER: details }) })
}

async fn pair(sides: &Sides, clients: usize, length: Duration) -> anyhow::Result<Pair> {
    let Sides { target, channels, etcd, value_bytes } = sides;
    Ok(Pair {
        sends: sends::measure(target, channels, clients, length).await?,
        json: puts(sides, JsonPuts::workers(etcd, clients, *value_bytes)?, length).await?,
        grpc: puts(sides, GrpcPuts::workers(etcd, clients, *value_bytes)?, length).await?,
    })
}

/// Puts in a closed loop, and what they cost etcd.
///
/// # Errors
/// When none is accepted.
pub async fn puts<C: Caller>(sides: &Sides, callers: Vec<C>, length: Duration) -> anyhow::Result<Puts> {
    let used = || sides.etcd.pids().into_iter().map(usage::cpu).sum::<anyhow::Result<Duration>>();
    let running = Loop::start(callers, length);
    tokio::time::sleep_until(running.start.into()).await;
    let before = used()?;
    tokio::time::sleep_until(running.end.into()).await;
    let cost = used()?.saturating_sub(before);
    let puts = running.summary().await?;
    Ok(Puts { cpu_ms_per_put: cost.as_secs_f64() * 1_000.0 / puts.accepted as f64, puts })
}
