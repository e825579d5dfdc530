//! Sends in order on each channel, with the retries of a good client; phones reply and read.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tests::tenant::address;
use tokio::task::JoinSet;

use super::Pace;
use super::cast::Cast;
use super::client::{ApiRequest, Client, Shared, nothing};
use crate::history::record::Channel;
use crate::history::{Answer, Op, Outcome};
use crate::world::map::Place;

/// Attempts after which a send is given up; the next one has another number.
const TRIES: usize = 12;
const AGAIN: Duration = Duration::from_millis(150);

pub fn begin(shared: &Arc<Shared>, cast: &Arc<Cast>, pace: Pace, clients: &mut JoinSet<()>) {
    let channels = cast.stage.channels.len() as f64;
    let (between, inbound) =
        (Duration::from_secs_f64(channels / pace.sends), Duration::from_secs_f64(channels / pace.inbound));
    for (index, channel) in cast.stage.channels.iter().enumerate() {
        let tenant = cast.tenant(&channel.tenant);
        let (sender, phone) = (shared.client(tenant), shared.client(tenant));
        clients.spawn(send_in_order(sender, cast.clone(), channel.clone(), index, between));
        clients.spawn(write_back(phone, channel.clone(), index, inbound));
    }
}

async fn send_in_order(mut client: Client, cast: Arc<Cast>, channel: Channel, index: usize, between: Duration) {
    for number in 0_u64.. {
        client.pause(between).await;
        for again in 0..TRIES {
            if client.is_stopped() {
                return;
            }
            let node = client.any_node();
            match send(&client, &cast, &node, &channel, format!("{index}:{number}:{again}")).await {
                Outcome::Done(_) => break,
                // Refused for its contents: a retry would fail again.
                Outcome::Refused { status: 400..=428, .. } => break,
                Outcome::Refused { .. } | Outcome::Unknown { .. } => client.pause(AGAIN).await,
            }
        }
    }
}

/// Sends one text through one node, and remembers the promised message id.
pub async fn send(client: &Client, cast: &Cast, node: &Place, channel: &Channel, text: String) -> Outcome {
    let body = json!({ "type": "text", "to": channel.recipient, "text": text });
    let request = ApiRequest::post(format!("/v1/channels/{}/messages", channel.id), body);
    let outcome = client.call(node, Op::Send { channel: channel.id.clone(), text }, request, taken).await;
    if let Outcome::Done(Answer::Taken { message, .. }) = &outcome {
        cast.promised.lock().expect("no holder panics").insert(message.clone());
    }
    outcome
}

pub fn taken(body: &Value) -> Option<Answer> {
    let message = body["message_id"].as_str()?.to_owned();
    Some(Answer::Taken { message, queued: body["status"] == "queued" })
}

/// The phone that the channel writes to sends messages to it, and now and then reads what it received.
async fn write_back(mut client: Client, channel: Channel, index: usize, between: Duration) {
    for number in 0_u64.. {
        client.pause(between).await;
        if client.is_stopped() {
            return;
        }
        let text = format!("back {index}:{number}");
        let body = json!({ "type": "text", "to": channel.number, "text": text });
        let op = Op::Inbound { channel: channel.id.clone(), text };
        let path = format!("/phones/{}/messages", channel.recipient);
        client.phone(op, &path, body, |body| Some(Answer::Made { id: body["ids"][0].as_str()?.to_owned() })).await;
        if number % 4 == 3 {
            let op = Op::OpenChat { channel: channel.id.clone() };
            let path = format!("/phones/{}/open-chat", channel.recipient);
            client.phone(op, &path, json!({ "with": address(&channel.number) }), nothing).await;
        }
    }
}
