//! Channels that are created, renamed by two clients at the same time, read and listed through all nodes, deleted, and
//! requested again. Some are connected: they send, are disabled and enabled, and are deleted while they send.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Pace;
use super::cast::{Cast, connect};
use super::client::{ApiRequest, Client, Shared, ids_in, made, nothing};
use super::keys::{AGAIN, until_it_is_so};
use super::sends::taken;
use crate::history::record::Channel;
use crate::history::{Answer, Op, Outcome};
use crate::world::map::Place;

const RENAMES: usize = 4;
const BETWEEN: Duration = Duration::from_millis(600);
const READ: Duration = Duration::from_millis(300);

/// Every third channel is connected: that makes a few pairings per minute, and two cores are busy already.
const CONNECTED: u64 = 3;

/// How long a connected channel is sent through while it is disabled, and after its deletion.
const AFTER: Duration = Duration::from_secs(2);

/// Recipient of channels that are never connected.
const NOBODY: &str = "490000000001";

pub fn begin(shared: &Arc<Shared>, cast: &Arc<Cast>, pace: Pace, clients: &mut JoinSet<()>) {
    for _ in 0..pace.lives {
        let clients_of_one = std::array::from_fn(|_| shared.client(&cast.main));
        clients.spawn(live(clients_of_one, cast.clone()));
    }
}

async fn live([mut maker, mut rival, mut one, mut other]: [Client; 4], cast: Arc<Cast>) {
    for number in 0_u64.. {
        maker.pause(AGAIN).await;
        if maker.is_stopped() {
            return;
        }
        let name = format!("Passing {}.{number}", maker.id);
        let (request, node) = (ApiRequest::post("/v1/channels", json!({ "name": name })), maker.any_node());
        let Outcome::Done(Answer::Made { id }) = maker.call(&node, Op::CreateChannel { name }, request, made).await
        else {
            continue;
        };
        // The first channel is connected, since a short run has no other.
        let channel = if number % CONNECTED == 0 { cast.phones(&maker.shared, id.clone()).await.ok() } else { None };
        let to = channel.as_ref().map_or(NOBODY, |channel| channel.recipient.as_str());
        let ended = CancellationToken::new();
        let changing = async {
            if let Some(channel) = &channel
                && is_connected(&mut maker, channel).await
            {
                switch_off_and_on(&mut maker, channel).await;
            }
            for turn in 0..RENAMES {
                maker.pause(BETWEEN).await;
                let here = maker.any_node();
                let there = rival.any_node_but(&here);
                let name = |client: &Client| format!("Passing {}.{number}, name {turn}", client.id);
                futures::join!(rename(&maker, &here, &id, name(&maker)), rename(&rival, &there, &id, name(&rival)));
            }
            // Leaves time to observe which of the last two renames won. There are no renames during the deletion: such
            // a rename might be refused as gone although it took effect.
            maker.pause(BETWEEN).await;
            let deleting = Op::DeleteChannel { channel: id.clone() };
            if until_it_is_so(&mut maker, deleting, || ApiRequest::delete(format!("/v1/channels/{id}"))).await {
                for node in maker.nodes() {
                    read(&maker, &node, &id).await;
                    send(&maker, &node, &id, to, format!("too late {id} {}", node.id)).await;
                }
                if channel.is_some() {
                    maker.pause(AFTER).await;
                }
            }
            ended.cancel();
        };
        let looking = async {
            while !ended.is_cancelled() {
                let node = other.any_node();
                other.call(&node, Op::ListChannels, ApiRequest::get("/v1/channels"), |body| ids_in(body, "id")).await;
                other.pause(3 * READ).await;
            }
        };
        let using = async {
            for turn in 0_u64.. {
                if ended.is_cancelled() {
                    break;
                }
                let node = one.any_node();
                read(&one, &node, &id).await;
                // Sends in every state of the channel, disabled and deleted included.
                if channel.is_some() {
                    send(&one, &node, &id, to, format!("passing {id} {turn}")).await;
                }
                one.pause(READ).await;
            }
        };
        futures::join!(changing, looking, using);
    }
}

/// Whether a channel is connected in the end; its phone scans its code if it waits for that.
async fn is_connected(client: &mut Client, channel: &Channel) -> bool {
    let (simulator, stop) = (client.shared.simulator(), client.shared.stop.clone());
    let connected = connect(&simulator, channel, || {
        let node = client.any_node();
        node.customer(&client.shared.http, &client.tenant.key)
    });
    stop.run_until_cancelled(connected).await.is_some_and(|connected| connected.is_ok())
}

/// Disables a connected channel, sends through every node, and enables it again.
async fn switch_off_and_on(client: &mut Client, channel: &Channel) {
    let Channel { id, recipient, .. } = channel;
    let request = |action: &str| ApiRequest::post(format!("/v1/channels/{id}/{action}"), json!({}));
    let (off, on) = (Op::DisableChannel { channel: id.clone() }, Op::EnableChannel { channel: id.clone() });
    if until_it_is_so(client, off, || request("disable")).await {
        for node in client.nodes() {
            send(client, &node, id, recipient, format!("while off {id} {}", node.id)).await;
        }
        client.pause(AFTER).await;
    }
    until_it_is_so(client, on, || request("enable")).await;
    is_connected(client, channel).await;
}

/// Gives a channel a name that it has never had.
async fn rename(client: &Client, node: &Place, id: &str, name: String) {
    let request = ApiRequest::patch(format!("/v1/channels/{id}"), json!({ "name": name }));
    client.call(node, Op::RenameChannel { channel: id.to_owned(), name }, request, nothing).await;
}

async fn read(client: &Client, node: &Place, id: &str) {
    let name = |body: &Value| Some(Answer::Channel { name: body["name"].as_str()?.to_owned() });
    let op = Op::ReadChannel { channel: id.to_owned() };
    client.call(node, op, ApiRequest::get(format!("/v1/channels/{id}")), name).await;
}

async fn send(client: &Client, node: &Place, id: &str, to: &str, text: String) {
    let body = json!({ "type": "text", "to": to, "text": text });
    let request = ApiRequest::post(format!("/v1/channels/{id}/messages"), body);
    client.call(node, Op::Send { channel: id.to_owned(), text }, request, taken).await;
}
