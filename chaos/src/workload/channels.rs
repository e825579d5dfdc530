//! Channels are made, renamed, read and listed through all nodes, deleted, and asked for again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Pace;
use super::cast::Cast;
use super::client::{Asked, Client, Shared, ids_in, made, nothing};
use super::keys::{AGAIN, until_it_is_so};
use super::sends::taken;
use crate::history::{Answer, Op, Outcome};
use crate::world::map::Place;

const RENAMES: usize = 4;
const BETWEEN: Duration = Duration::from_millis(600);
const READ: Duration = Duration::from_millis(300);

pub fn begin(shared: &Arc<Shared>, cast: &Arc<Cast>, pace: Pace, clients: &mut JoinSet<()>) {
    for _ in 0..pace.lives {
        clients.spawn(live(shared.client(&cast.main), [shared.client(&cast.main), shared.client(&cast.main)]));
    }
}

async fn live(mut maker: Client, [mut one, mut other]: [Client; 2]) {
    for number in 0_u64.. {
        maker.pause(AGAIN).await;
        if maker.is_stopped() {
            return;
        }
        let name = format!("Passing {}.{number}", maker.id);
        let (asked, node) = (Asked::post("/v1/channels", json!({ "name": name })), maker.any_node());
        let Outcome::Done(Answer::Made { id }) = maker.call(&node, Op::CreateChannel { name }, asked, made).await
        else {
            continue;
        };
        let ended = CancellationToken::new();
        let changing = async {
            for rename in 0..RENAMES {
                maker.pause(BETWEEN).await;
                let (name, node) = (format!("Passing {}.{number}, name {rename}", maker.id), maker.any_node());
                let asked = Asked::patch(format!("/v1/channels/{id}"), json!({ "name": name }));
                maker.call(&node, Op::RenameChannel { channel: id.clone(), name }, asked, nothing).await;
            }
            let deleting = Op::DeleteChannel { channel: id.clone() };
            if until_it_is_so(&mut maker, deleting, || Asked::delete(format!("/v1/channels/{id}"))).await {
                for node in maker.nodes() {
                    read(&maker, &node, &id).await;
                    send(&maker, &node, &id, format!("too late {id} {}", node.id)).await;
                }
            }
            ended.cancel();
        };
        let looking = async {
            while !ended.is_cancelled() {
                let node = other.any_node();
                other.call(&node, Op::ListChannels, Asked::get("/v1/channels"), |body| ids_in(body, "id")).await;
                other.pause(3 * READ).await;
            }
        };
        futures::join!(changing, looking, async {
            while !ended.is_cancelled() {
                let node = one.any_node();
                read(&one, &node, &id).await;
                one.pause(READ).await;
            }
        });
    }
}

async fn read(client: &Client, node: &Place, id: &str) {
    let name = |body: &Value| Some(Answer::Channel { name: body["name"].as_str()?.to_owned() });
    let op = Op::ReadChannel { channel: id.to_owned() };
    client.call(node, op, Asked::get(format!("/v1/channels/{id}")), name).await;
}

async fn send(client: &Client, node: &Place, id: &str, text: String) {
    let asked = Asked::post(
        format!("/v1/channels/{id}/messages"),
        json!({ "type": "text", "to": "490000000001", "text": text }),
    );
    client.call(node, Op::Send { channel: id.to_owned(), text }, asked, taken).await;
}
