//! Endpoints that are created, moved by one client and disabled and enabled by another at the same time, read through
//! all nodes, deleted, and requested again, while there are events for them. Some stay disabled for a while.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Pace;
use super::cast::Cast;
use super::client::{ApiRequest, Client, Shared, ids_in, made, nothing};
use super::hooks::{Hooks, SECRET, passing};
use super::keys::{AGAIN, until_it_is_so};
use crate::history::{Answer, Op, Outcome};
use crate::world::map::Place;

const CHANGES: usize = 4;
/// About as long as deliveries are in flight after an endpoint was disabled.
const BETWEEN: Duration = Duration::from_millis(4500);
/// Every second endpoint stays disabled after this change, for this long: during faults an attempt may take half a
/// minute to arrive, and what arrives later was begun too late.
const RESTS_AFTER: usize = 2;
const REST: Duration = Duration::from_secs(40);
const READ: Duration = Duration::from_millis(300);

pub fn begin(shared: &Arc<Shared>, cast: &Arc<Cast>, hooks: &Hooks, pace: Pace, clients: &mut JoinSet<()>) {
    for channel in cast.channels_of(&cast.main).cycle().take(pace.lives) {
        let clients_of_one = std::array::from_fn(|_| shared.client(&cast.main));
        clients.spawn(live(clients_of_one, channel.id.clone(), hooks.url("")));
    }
}

async fn live([mut maker, mut rival, mut reader, mut lister]: [Client; 4], channel: String, receiver: String) {
    for number in 0_u64.. {
        maker.pause(AGAIN).await;
        if maker.is_stopped() {
            return;
        }
        let id = maker.id;
        let version = |version: usize| passing(&format!("{id}/{number}/{version}"));
        let (hook, node) = (version(0), maker.any_node());
        let body = json!({
            "url": format!("{receiver}{hook}"),
            "events": ["message.sent"],
            "channel_id": channel,
            "signing_secret": SECRET,
        });
        let request = ApiRequest::post("/v1/webhook-endpoints", body);
        let Outcome::Done(Answer::Made { id }) = maker.call(&node, Op::CreateEndpoint { hook }, request, made).await
        else {
            continue;
        };
        let hooks: Vec<_> = (1..=CHANGES).map(|change| [version(2 * change - 1), version(2 * change)]).collect();
        let ended = CancellationToken::new();
        let changing = async {
            for (change, [hook, rivals_hook]) in hooks.into_iter().enumerate() {
                maker.pause(BETWEEN).await;
                // One client disables and enables, the other moves the endpoint: both changes must persist. Only in the
                // last round do both do both: it leaves unknown whether the endpoint is disabled, and proves nothing
                // later.
                let is_last = change + 1 == CHANGES;
                let mine = Changed { hook: is_last.then_some(hook), enabled: Some(change % 2 == 1) };
                let rivals = Changed { hook: Some(rivals_hook), enabled: is_last.then_some(false) };
                let here = maker.any_node();
                let there = rival.any_node_but(&here);
                futures::join!(
                    alter(&maker, &here, &id, &receiver, mine),
                    alter(&rival, &there, &id, &receiver, rivals),
                );
                if change == RESTS_AFTER && number % 2 == 0 {
                    maker.shared.stop.run_until_cancelled(tokio::time::sleep(REST)).await;
                }
            }
            // Leaves time to observe which of the last two changes won.
            maker.pause(3 * READ).await;
            let deleting = Op::DeleteEndpoint { endpoint: id.clone() };
            if until_it_is_so(&mut maker, deleting, || ApiRequest::delete(format!("/v1/webhook-endpoints/{id}"))).await
            {
                for node in maker.nodes() {
                    read(&maker, &node, &id).await;
                }
            }
            ended.cancel();
        };
        let reading = async {
            while !ended.is_cancelled() {
                let node = reader.any_node();
                read(&reader, &node, &id).await;
                reader.pause(READ).await;
            }
        };
        let listing = async {
            while !ended.is_cancelled() {
                let node = lister.any_node();
                let request = ApiRequest::get("/v1/webhook-endpoints");
                lister.call(&node, Op::ListEndpoints, request, |body| ids_in(body, "id")).await;
                lister.pause(3 * READ).await;
            }
        };
        futures::join!(changing, reading, listing);
    }
}

/// A change of an endpoint. Fields that are `None` stay unchanged.
struct Changed {
    /// Another path at its receiver.
    hook: Option<String>,
    enabled: Option<bool>,
}

async fn alter(client: &Client, node: &Place, id: &str, receiver: &str, Changed { hook, enabled }: Changed) {
    let mut body = Map::new();
    body.extend(hook.as_ref().map(|hook| ("url".to_owned(), json!(format!("{receiver}{hook}")))));
    body.extend(enabled.map(|enabled| ("enabled".to_owned(), json!(enabled))));
    let op = Op::ChangeEndpoint { endpoint: id.to_owned(), hook, enabled };
    client.call(node, op, ApiRequest::patch(format!("/v1/webhook-endpoints/{id}"), body.into()), nothing).await;
}

async fn read(client: &Client, node: &Place, id: &str) {
    let op = Op::ReadEndpoint { endpoint: id.to_owned() };
    client.call(node, op, ApiRequest::get(format!("/v1/webhook-endpoints/{id}")), shown).await;
}

fn shown(body: &Value) -> Option<Answer> {
    // The part before the path is the receiver's own address.
    let path = body["url"].as_str()?.splitn(4, '/').nth(3)?;
    Some(Answer::Endpoint { hook: format!("/{path}"), enabled: body["enabled"].as_bool()? })
}
