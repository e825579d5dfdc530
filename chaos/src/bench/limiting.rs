//! B10: how many calls a bucket admits through three nodes beyond what it allows.

use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use serde_json::json;
use tests::cluster::Cluster;
use tests::tenant::Tenant;
use tokio::time::Instant;

use crate::bench::plan::{Plan, Sides};
use crate::bench::results::{Row, Section, Spread, Target};
use crate::connection::Connection;

const NUMBER: &str = "B10";

const BURST: f64 = 200.0;
const PER_SECOND: f64 = 100.0;

/// Callers at each node: enough to request many times what is allowed.
const CALLERS: usize = 8;

/// Measures B10.
///
/// # Errors
/// When a call is answered by anything but the bucket.
pub async fn measure(sides: &Sides, plan: &Plan, tell: impl Fn(&str)) -> anyhow::Result<Section> {
    let cluster = sides.target.cluster.as_ref().context("limits are set in a cluster of its own")?;
    let mut trials = Vec::new();
    for _ in 0..plan.pairs {
        let storm = storm(cluster, plan.length).await?;
        tell(&format!("{} of {} calls passed, {:.1} were allowed", storm.admitted, storm.asked, storm.allowed));
        trials.push(storm);
    }
    let above = Spread::of(trials.iter().map(|storm| (storm.admitted as f64 - storm.allowed).max(0.0).floor()));
    let part = Spread::of(trials.iter().map(|storm| storm.admitted as f64 / storm.allowed));
    let asked = Spread::of(trials.iter().map(|storm| storm.asked as f64)).median;
    let made_of = format!(
        "{asked:.0} calls to three nodes, burst {BURST}, {PER_SECOND} a second; {:.3} of the allowed passed",
        part.median
    );
    let row = Row::new(NUMBER, "calls admitted above the allowed", above, "", Target::AtMost(0.0)).note(made_of);
    let trials: Vec<_> = trials
        .iter()
        .map(|storm| json!({ "asked": storm.asked, "admitted": storm.admitted, "allowed": storm.allowed }))
        .collect();
    Ok(Section { rows: vec![row], details: json!({ NUMBER: trials }) })
}

struct Storm {
    asked: u64,
    admitted: u64,
    /// The burst, and the refill since the first call.
    allowed: f64,
}

async fn storm(cluster: &Cluster, length: Duration) -> anyhow::Result<Storm> {
    let ample = json!({ "burst": 1_000_000, "refill_per_second": 1_000_000 });
    let scarce = json!({ "burst": BURST, "refill_per_second": PER_SECOND });
    let tenant = Tenant::with(cluster, json!({ "limits": { "customer": scarce, "channel": ample } })).await;
    let nodes = cluster.dev().nodes;
    let began = Instant::now();
    let callers: Vec<_> = (0..CALLERS * nodes.len())
        .map(|n| {
            let mut connection = Connection::new(&nodes[n % nodes.len()].api, &tenant.key)?;
            anyhow::Ok(tokio::spawn(async move {
                let (mut asked, mut admitted) = (0, 0);
                while began.elapsed() < length {
                    // A cheap call: once admitted by the bucket it is refused for its body.
                    let response = connection.post("/v1/channels", Bytes::from_static(b"{}")).await?;
                    ensure!(matches!(response.status, 400 | 429), "a call was answered {}", response.status);
                    asked += 1;
                    admitted += u64::from(response.status == 400);
                }
                anyhow::Ok((asked, admitted))
            }))
        })
        .collect::<anyhow::Result<_>>()?;
    let (mut asked, mut admitted) = (0, 0);
    for caller in callers {
        let (calls, passed) = caller.await.context("a caller panicked")??;
        asked += calls;
        admitted += passed;
    }
    Ok(Storm { asked, admitted, allowed: BURST + PER_SECOND * began.elapsed().as_secs_f64() })
}
