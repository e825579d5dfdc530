//! A customer that tries to access another's resources through every node, beside its own.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::cast::Cast;
use super::client::{ApiRequest, Client, Reading, Shared, ids_in, nothing};
use crate::history::{Answer, Op, Outcome};
use crate::world::map::Place;

const BETWEEN: Duration = Duration::from_millis(700);
/// Short enough that a run of seconds tries each way once.
const BETWEEN_TRIES: Duration = Duration::from_millis(200);
/// Timeout for opening a stream.
const OPEN: Duration = Duration::from_secs(10);

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
        let mut ways = ways(&channel.id, &endpoint.id, &cast.main_key);
        let (way, node) = (turn % (ways.len() + 1), client.any_node());
        if way < ways.len() {
            let (asked, read) = ways.swap_remove(way);
            client.call(&node, Op::Trespass { what: asked.told() }, asked, read).await;
        } else {
            listen(&client, &node, &channel.id).await;
        }
        client.pause(BETWEEN_TRIES).await;
    }
}

/// The ways that have a finite response: paths, queries and bodies that name another's resource, which must look
/// missing; and filters that name one, which must give an empty list.
fn ways(channel: &str, endpoint: &str, key: &str) -> Vec<(ApiRequest, Reading)> {
    let at = |rest: &str| format!("/v1/channels/{channel}{rest}");
    let hook = |rest: &str| format!("/v1/webhook-endpoints/{endpoint}{rest}");
    let key = || format!("/v1/api-keys/{key}");
    let text = json!({ "type": "text", "to": "490000000001", "text": "not mine" });
    let heard = json!({ "url": "https://example.com/", "events": ["message.sent"], "channel_id": channel });
    let missing = [
        ApiRequest::get(at("")),
        ApiRequest::patch(at(""), json!({ "name": "Mine" })),
        ApiRequest::delete(at("")),
        ApiRequest::get(at("/messages")),
        ApiRequest::get(hook("")),
        ApiRequest::patch(hook(""), json!({ "enabled": false })),
        ApiRequest::delete(hook("")),
        ApiRequest::post(at("/messages"), text),
        ApiRequest::get(at("/qr")),
        ApiRequest::get(at("/status-history")),
        ApiRequest::get(at("/settings")),
        ApiRequest::patch(at("/settings"), json!({ "reject_calls": true })),
        ApiRequest::get(at("/media")),
        ApiRequest::get(at("/chats")),
        ApiRequest::post(at("/disable"), json!({})),
        ApiRequest::post(at("/logout"), json!({})),
        ApiRequest::get(format!("/v1/messages?channel_id={channel}")),
        ApiRequest::get(format!("/v1/limits?channel_id={channel}")),
        ApiRequest::get(hook("/deliveries")),
        ApiRequest::get(hook("/stats")),
        ApiRequest::get(hook("/signing-secret")),
        ApiRequest::post("/v1/webhook-endpoints", heard),
        ApiRequest::get(key()),
        ApiRequest::patch(key(), json!({ "name": "Mine" })),
        ApiRequest::delete(key()),
        ApiRequest::post("/v1/api-keys", json!({ "name": "Mine", "channel_id": channel })),
    ];
    let narrowed = [
        ApiRequest::get(format!("/v1/webhook-deliveries?channel_id={channel}")),
        ApiRequest::get(format!("/v1/webhook-deliveries?endpoint_id={endpoint}")),
    ];
    let missing = missing.into_iter().map(|asked| (asked, nothing as Reading));
    missing.chain(narrowed.into_iter().map(|asked| (asked, listed as Reading))).collect()
}

fn listed(body: &Value) -> Option<Answer> {
    ids_in(body, "id")
}

/// Requests the event stream of another's channel. Only the head of the response is read, since a stream has no end.
async fn listen(client: &Client, node: &Place, channel: &str) {
    let path = format!("/v1/events?channel_id={channel}");
    let api = node.customer(&client.shared.http, &client.tenant.key);
    let begin = client.shared.recorder.now();
    let answer = api.request(Method::GET, &path).timeout(OPEN).send().await;
    let outcome = match answer.map(|answer| answer.status().as_u16()) {
        Ok(200..300) => Outcome::Done(Answer::Nothing),
        Ok(status @ 400..500) => Outcome::Refused { status, code: String::new() },
        Ok(status) => Outcome::Unknown { why: status.to_string() },
        Err(error) => Outcome::Unknown { why: error.to_string() },
    };
    client.record(node.id, begin, Op::Trespass { what: format!("GET {path}") }, outcome);
}

/// Lists the customer's own resources.
async fn look(mut client: Client) {
    while !client.is_stopped() {
        let node = client.any_node();
        client.call(&node, Op::ListChannels, ApiRequest::get("/v1/channels"), |body| ids_in(body, "id")).await;
        client.pause(BETWEEN).await;
        let node = client.any_node();
        let asked = ApiRequest::get("/v1/messages?limit=50&deliveries=none");
        client.call(&node, Op::ListMessages, asked, |body| ids_in(body, "channel_id")).await;
        client.pause(BETWEEN).await;
        let node = client.any_node();
        let asked = ApiRequest::get("/v1/webhook-endpoints");
        client.call(&node, Op::ListEndpoints, asked, |body| ids_in(body, "id")).await;
        client.pause(BETWEEN).await;
    }
}
