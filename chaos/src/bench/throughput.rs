//! B1a: the rate of accepted durable sends, beside a program that makes the same promise on etcd. B1: beside bare puts
//! of etcd. Failed calls do not count on any side.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::bench::caller::{Caller, GrpcPuts, JsonPuts};
use crate::bench::closed::Loop;
use crate::bench::plan::{Plan, Sides, VALUE_BYTES};
use crate::bench::results::{Row, Section, Spread, Target};
use crate::bench::sends::{self, Level};
use crate::bench::tally::{self, Summary};
use crate::bench::usage;

const NUMBER: &str = "B1";

/// As in etcd's own benchmarks, and four times as many.
const CLIENTS: [usize; 2] = [32, 128];

/// Target relative to the program that makes the same promise on etcd.
const WANTED_OF_PROMISES: f64 = 1.5;

/// Target relative to bare puts.
const WANTED_OF_PUTS: f64 = 0.9;

/// Target of the processor time of a send relative to that of a put.
const WANTED_CPU: f64 = 1.2;

/// The measurements of one round.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    pub sends: Level,
    /// The same promise on etcd.
    pub promises: Puts,
    /// Through etcd's JSON gateway, over connections like those of the sends.
    pub json: Puts,
    /// Over gRPC, a connection for each client.
    pub grpc: Puts,
}

/// Writes to etcd, bare or through the program in front of it.
#[derive(Clone, Debug, Serialize)]
pub struct Puts {
    #[serde(flatten)]
    pub puts: Summary,
    /// Of all members, and of the programs in front of them.
    pub cpu_ms_per_put: f64,
}

/// Measures B1.
///
/// # Errors
/// When either side accepts nothing.
pub async fn measure(sides: &Sides, plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    let (mut rows, mut details) = (Vec::new(), Vec::new());
    for clients in CLIENTS {
        let mut pairs = Vec::new();
        for _ in 0..plan.pairs {
            let pair = pair(sides, clients, plan.length).await?;
            tell(&format!(
                "{clients:>4} clients: {:>6.0} sends/s, {:>6.0} promises/s on etcd, {:>6.0} puts/s as JSON, {:>6.0} puts/s over \
                 gRPC; p99 {:.0}, {:.0}, {:.0}, {:.0} ms; failed {}, {}, {}, {}",
                pair.sends.sends.accepted_per_second,
                pair.promises.puts.accepted_per_second,
                pair.json.puts.accepted_per_second,
                pair.grpc.puts.accepted_per_second,
                pair.sends.sends.p99_ms,
                pair.promises.puts.p99_ms,
                pair.json.puts.p99_ms,
                pair.grpc.puts.p99_ms,
                pair.sends.sends.failed,
                pair.promises.puts.failed,
                pair.json.puts.failed,
                pair.grpc.puts.failed,
            ));
            pairs.push(pair);
        }
        rows.extend(rows_of(clients, &pairs));
        details.push(json!({ "clients": clients, "value_bytes": VALUE_BYTES, "pairs": pairs }));
    }
    Ok(Section { rows, details: json!({ NUMBER: details }) })
}

fn rows_of(clients: usize, pairs: &[Pair]) -> Vec<Row> {
    let spread = |of: &dyn Fn(&Pair) -> f64| Spread::of(pairs.iter().map(of));
    let sent = |pair: &Pair| pair.sends.sends.accepted_per_second;
    let cpu = |pair: &Pair| pair.sends.cpu_ms_per_send.nodes;
    let sends = || pairs.iter().map(|pair| &pair.sends.sends);
    let beside = |number, of: &str, side: &dyn Fn(&Pair) -> &Puts, wanted| {
        let theirs = |pair: &Pair| side(pair).puts.accepted_per_second;
        let made_of = format!(
            "{:.0} and {:.0} a second; CPU of the nodes {:.2} ms a send, of theirs {:.2} ms; {}",
            spread(&sent).median,
            spread(&theirs).median,
            spread(&cpu).median,
            spread(&|pair| side(pair).cpu_ms_per_put).median,
            tally::failed(sends(), pairs.iter().map(|pair| &side(pair).puts)),
        );
        let ratio = spread(&|pair| sent(pair) / theirs(pair));
        Row::new(number, format!("sends ÷ {of}, {clients} clients"), ratio, "", wanted).note(made_of)
    };
    let promises = beside("B1a", "promises on etcd", &|pair| &pair.promises, Target::AtLeast(WANTED_OF_PROMISES));
    let json = beside(NUMBER, "etcd's puts (JSON)", &|pair| &pair.json, Target::AtLeast(WANTED_OF_PUTS));
    let grpc = beside(NUMBER, "etcd's puts (gRPC)", &|pair| &pair.grpc, Target::None);
    let cost = spread(&|pair| cpu(pair) / pair.json.cpu_ms_per_put);
    let cost = Row::new(
        NUMBER,
        format!("CPU of a send ÷ of a put (JSON), {clients} clients"),
        cost,
        "",
        Target::AtMost(WANTED_CPU),
    );
    let logged = spread(&|pair| pair.sends.log_bytes_per_send.unwrap_or(f64::NAN));
    let logged = Row::new(NUMBER, format!("log of a send, {clients} clients"), logged, "bytes", Target::AtMost(600.0));
    vec![promises, json, grpc, cost, logged]
}

async fn pair(sides: &Sides, clients: usize, length: Duration) -> anyhow::Result<Pair> {
    let Sides { target, channels, etcd, promises } = sides;
    let members = || etcd.pids();
    let programs = || [etcd.pids(), promises.pids()].concat();
    Ok(Pair {
        sends: sends::measure(target, channels, clients, length).await?,
        promises: puts(programs, promises.workers(clients)?, length).await?,
        json: puts(members, JsonPuts::workers(etcd, clients, VALUE_BYTES)?, length).await?,
        grpc: puts(members, GrpcPuts::workers(etcd, clients, VALUE_BYTES)?, length).await?,
    })
}

/// Makes puts in a closed loop, and measures the processor time of `processes`.
///
/// # Errors
/// When none is accepted.
pub async fn puts<C: Caller>(
    processes: impl Fn() -> Vec<i32>,
    callers: Vec<C>,
    length: Duration,
) -> anyhow::Result<Puts> {
    let used = || processes().into_iter().map(usage::cpu).sum::<anyhow::Result<Duration>>();
    let running = Loop::start(callers, length);
    tokio::time::sleep_until(running.start.into()).await;
    let before = used()?;
    tokio::time::sleep_until(running.end.into()).await;
    let cost = used()?.saturating_sub(before);
    let puts = running.summary().await?;
    Ok(Puts { cpu_ms_per_put: cost.as_secs_f64() * 1_000.0 / puts.accepted as f64, puts })
}
