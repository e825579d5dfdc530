//! `GET /v1/admin/figures`: the recent load of the nodes, so that charts need no monitoring system.

use model::id::NodeId;
use model::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use shard::figures::{KEPT, Point, STEP, State};

use crate::query::Query;
use crate::reply::{Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::route::{GET, Route};

/// The most points per node in a response.
const MOST_POINTS: u32 = 180;

/// The default time span of a response, in seconds.
const BY_DEFAULT: u32 = 3_600;

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/figures", show)
            .doc("get_figures", "Get the load of each node over the last hours")
            .about(
                "Each node keeps points of ten seconds for six hours in memory, and loses them when it restarts. \
                 Points older than half an hour are summarized in at most 180 longer steps.",
            )
            .query(|query| asked(query, Timestamp(0)))
            .ok::<Figures>(),
    ]
}

#[derive(Serialize, JsonSchema)]
struct Figures {
    /// Length of a step in seconds.
    step_seconds: u32,
    nodes: Vec<NodeFigures>,
}

#[derive(Serialize, JsonSchema)]
struct NodeFigures {
    node_id: NodeId,
    /// Why the node did not answer; `null` if it did.
    silence: Option<String>,
    /// Figures of each step, oldest first.
    points: Vec<FiguresPoint>,
}

/// Figures of a node over one step.
#[derive(Serialize, JsonSchema)]
struct FiguresPoint {
    /// Start of the step.
    at: Timestamp,
    /// Sends that the network accepted.
    sends: u64,
    /// Sends that ended in failure.
    sends_failed: u64,
    /// Messages received.
    inbound: u64,
    /// Attempts to deliver webhooks.
    attempts: u64,
    /// Attempts to deliver webhooks that did not succeed.
    attempts_failed: u64,
    /// Approximate median time until the network accepted a send, in milliseconds; `null` without a send.
    send_p50_ms: Option<u64>,
    /// Approximate 99th percentile of the time until the network accepted a send, in milliseconds; `null` without one.
    send_p99_ms: Option<u64>,
    /// Shards that the node owned at the end of the step.
    leads: u64,
    /// Channels connected at the end of the step.
    connected: u64,
    /// Resident memory of the process in bytes, at the end of the step.
    rss_bytes: u64,
    /// 99th percentile of the sync times of the Raft log, in milliseconds; `null` if nothing was written.
    fsync_p99_ms: Option<f64>,
}

impl From<Point> for FiguresPoint {
    fn from(point: Point) -> Self {
        let Point { at, work, state: State { leads, connected, rss_bytes, sync_p99 } } = point;
        Self {
            at,
            sends: work.sends(),
            sends_failed: work.failed,
            inbound: work.inbound,
            attempts: work.attempts,
            attempts_failed: work.attempts_failed,
            send_p50_ms: work.send_ms(0.5),
            send_p99_ms: work.send_ms(0.99),
            leads,
            connected,
            rss_bytes,
            fsync_p99_ms: sync_p99.map(|took| took.as_secs_f64() * 1000.0),
        }
    }
}

/// Reads the begin of the time span, and chooses the step.
fn asked(query: &Query<'_>, now: Timestamp) -> (Timestamp, u32) {
    let since = query.time("since");
    let seconds = since.map_or(u64::from(BY_DEFAULT), |since| now.since(since).as_secs()).min(u64::from(KEPT));
    let seconds = u32::try_from(seconds).unwrap_or(KEPT);
    (Timestamp(now.0 - i64::from(seconds) * 1000), step(seconds))
}

/// The shortest step that fits, as a multiple of the nodes' own step.
fn step(seconds: u32) -> u32 {
    seconds.div_ceil(MOST_POINTS).next_multiple_of(STEP).max(STEP)
}

async fn show(call: &mut OperatorCall) -> Outcome {
    let (since, step_seconds) = call.asked(|query| asked(query, call.now))?;
    let heard = call.cluster().figures(since, step_seconds).await;
    let view = |(node_id, said): (NodeId, Result<Vec<Point>, String>)| match said {
        Ok(points) => {
            NodeFigures { node_id, silence: None, points: points.into_iter().map(FiguresPoint::from).collect() }
        }
        Err(silence) => NodeFigures { node_id, silence: Some(silence), points: Vec::new() },
    };
    Ok(Reply::ok(&Figures { step_seconds, nodes: heard.into_iter().map(view).collect() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_far_back_it_goes_there_are_no_more_points_than_a_chart_shows() {
        assert_eq!([0, 1, 1_800, 1_801, 3_600, KEPT].map(step), [10, 10, 10, 20, 20, 120]);
        assert!((0..=KEPT).all(|seconds| seconds / step(seconds) <= MOST_POINTS));
    }
}
