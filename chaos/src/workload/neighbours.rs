//! A quiet tenant, which is measured, and the messages of a loud one while it makes noise: as many as its limits allow.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use reqwest::Method;
use serde_json::json;
use tests::http::{self, try_answer};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::cast::{Cast, Neighbours};
use super::client::{ApiRequest, Client, Shared, nothing};
use super::sends::taken;
use super::sizes;
use super::threads;
use crate::history::record::Channel;
use crate::history::{Op, Size};

/// Pause between two sends of the quiet tenant: its speed is computed from the time for which it waits.
const QUIET: Duration = Duration::from_millis(60);

/// Pause between its other calls: short enough that the seconds around a noise have several of each kind.
const BESIDE: Duration = Duration::from_millis(300);

/// The bucket of an account: its burst, and the time per token.
const BURST: usize = 60;
const AGAIN: Duration = Duration::from_secs(1);

/// Messages that a phone sends to the loud tenant at once.
const WRITTEN: usize = 64;
/// Pause between further messages that a phone sends to the loud tenant.
const WRITES: Duration = Duration::from_millis(500);

/// Lets the quiet tenant send one message after the other, and upload and open connections beside that.
pub fn begin(shared: &Arc<Shared>, cast: &Arc<Cast>, clients: &mut JoinSet<()>) {
    if let Some(neighbours) = &cast.neighbours {
        let threads = threads::quiet();
        let client = || threads.client(shared, &neighbours.quiet);
        clients.spawn_on(keep_sending(client(), neighbours.quiet_channel.clone()), threads.handle());
        clients.spawn_on(keep_uploading(client(), neighbours.quiet_channel.clone()), threads.handle());
        clients.spawn_on(keep_asking_anew(client()), threads.handle());
    }
}

async fn keep_sending(mut client: Client, channel: Channel) {
    for number in 0_u64.. {
        client.pause(QUIET).await;
        if client.is_stopped() {
            return;
        }
        let (node, text) = (client.any_node(), format!("quiet {number}"));
        let body = json!({ "type": "text", "to": channel.recipient, "text": text });
        let asked = ApiRequest::post(format!("/v1/channels/{}/messages", channel.id), body);
        client.call(&node, Op::Send { channel: channel.id.clone(), text }, asked, taken).await;
    }
}

async fn keep_uploading(mut client: Client, channel: Channel) {
    let path = format!("/v1/channels/{}/media", channel.id);
    for number in 0_u64.. {
        client.pause(BESIDE).await;
        if client.is_stopped() {
            return;
        }
        let node = client.any_node();
        client.call(&node, Op::Upload, ApiRequest::post(&*path, json!({ "file": number })), nothing).await;
    }
}

async fn keep_asking_anew(mut client: Client) {
    loop {
        client.pause(BESIDE).await;
        if client.is_stopped() {
            return;
        }
        // A new client has no open connection.
        client.http = http::client();
        let node = client.any_node();
        client.call(&node, Op::AskAnew, ApiRequest::get("/v1/account"), nothing).await;
    }
}

/// Makes noise until it is ended: a burst of the largest sends at once, one more with each new token, and a phone that
/// sends equally large messages.
pub async fn make_noise(shared: Arc<Shared>, neighbours: Neighbours, ended: CancellationToken) {
    let Neighbours { loud, loud_channel: channel, .. } = neighbours;
    let threads = threads::loud();
    let mut dice = threads.client(&shared, &loud);
    // Serialized once: doing it 60 times would take the processors.
    let largest = sizes::largest(&channel);
    let burst = join_all((0..BURST).map(|_| {
        let (client, node) = (threads.client(&shared, &loud), dice.any_node());
        let largest = largest.clone();
        async move { send_largest(&client, &node, largest).await }
    }));
    let refilled = async {
        let mut client = threads.client(&shared, &loud);
        while !ended.is_cancelled() {
            let node = client.any_node();
            send_largest(&client, &node, largest.clone()).await;
            ended.run_until_cancelled(tokio::time::sleep(AGAIN)).await;
        }
    };
    let written = async {
        let path = format!("/phones/{}/messages", channel.recipient);
        let mut body = sizes::cards(&channel.number, 20, 6 << 10);
        body["count"] = json!(WRITTEN);
        while !ended.is_cancelled() {
            let simulator = shared.simulator();
            let request = simulator.api().request(Method::POST, &path).json(&body).timeout(AGAIN * 5);
            // Messages that the network refuses are of no interest.
            let _ = try_answer(request).await;
            body["count"] = json!(1);
            ended.run_until_cancelled(tokio::time::sleep(WRITES)).await;
        }
    };
    futures::join!(burst, refilled, written);
}

async fn send_largest(client: &Client, node: &crate::world::map::Place, largest: ApiRequest) {
    let op = Op::Sized { what: "the largest contact cards".to_owned(), size: Size::Within };
    client.call(node, op, largest, taken).await;
}
