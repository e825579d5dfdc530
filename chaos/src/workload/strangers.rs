//! A customer who tries what is another's, through every node, beside its own.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use serde_json::json;
use tokio::task::JoinSet;

use super::cast::Cast;
use super::client::{Asked, Client, Shared, ids_in, nothing};
use crate::history::Op;

const BETWEEN: Duration = Duration::from_millis(700);
/// Between two tries: a run of seconds is to hold each way of trying twice.
const BETWEEN_TRIES: Duration = Duration::from_millis(200);
/// How many ways there are of trying.
const WAYS: usize = 8;

pub fn begin(shared: &Arc<Shared>, cast: &Arc<Cast>, clients: &mut JoinSet<()>) {
    clients.spawn(trespass(shared.client(&cast.stranger), cast.clone()));
    for tenant in [&cast.main, &cast.stranger] {
        clients.spawn(look(shared.client(tenant)));
    }
}

async fn trespass(mut client: Client, cast: Arc<Cast>) {
    let channels: Vec<_> = cast.channels_of(&cast.main).collect();
    let endpoints: Vec<_> = cast.stage.endpoints.iter().filter(|endpoint| endpoint.tenant == cast.main.name).collect();
    for turn in 0_usize.. {
        if client.is_stopped() {
            return;
        }
        let channel = &channels[client.dice.random_range(0..channels.len())];
        let endpoint = &endpoints[client.dice.random_range(0..endpoints.len())];
        let (channel, endpoint) =
            (format!("/v1/channels/{}", channel.id), format!("/v1/webhook-endpoints/{}", endpoint.id));
        let text = json!({ "type": "text", "to": "490000000001", "text": "not mine" });
        let asked = match turn % WAYS {
            0 => Asked::get(channel),
            1 => Asked::patch(channel, json!({ "name": "Mine" })),
            2 => Asked::delete(channel),
            3 => Asked::get(format!("{channel}/messages")),
            4 => Asked::get(endpoint),
            5 => Asked::patch(endpoint, json!({ "enabled": false })),
            6 => Asked::delete(endpoint),
            _ => Asked::post(format!("{channel}/messages"), text),
        };
        let node = client.any_node();
        client.call(&node, Op::Trespass { what: asked.told() }, asked, nothing).await;
        client.pause(BETWEEN_TRIES).await;
    }
}

/// Lists of one's own.
async fn look(mut client: Client) {
    while !client.is_stopped() {
        let node = client.any_node();
        client.call(&node, Op::ListChannels, Asked::get("/v1/channels"), |body| ids_in(body, "id")).await;
        client.pause(BETWEEN).await;
        let node = client.any_node();
        let asked = Asked::get("/v1/messages?limit=50&deliveries=none");
        client.call(&node, Op::ListMessages, asked, |body| ids_in(body, "channel_id")).await;
        client.pause(BETWEEN).await;
        let node = client.any_node();
        let asked = Asked::get("/v1/webhook-endpoints");
        client.call(&node, Op::ListEndpoints, asked, |body| ids_in(body, "id")).await;
        client.pause(BETWEEN).await;
    }
}
