//! Calls against a small bucket, more than it admits, through all nodes.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::Pace;
use super::cast::Cast;
use super::client::{ApiRequest, Client, Shared, nothing};
use crate::history::Op;

const CLIENTS: u32 = 3;

pub fn begin(shared: &Arc<Shared>, cast: &Arc<Cast>, pace: Pace, clients: &mut JoinSet<()>) {
    let between = Duration::from_secs_f64(f64::from(CLIENTS) / pace.draws);
    for _ in 0..CLIENTS {
        clients.spawn(draw(shared.client(&cast.limited), between));
    }
}

/// Ignores `Retry-After`: the bucket must hold against clients that do.
async fn draw(mut client: Client, between: Duration) {
    while !client.is_stopped() {
        let node = client.any_node();
        client.call(&node, Op::Draw, ApiRequest::get("/v1/webhook-endpoints"), nothing).await;
        client.pause(between).await;
    }
}
