//! Keys that are created, used through all nodes, revoked meanwhile by two clients at the same time, and used again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Pace;
use super::cast::Cast;
use super::client::{ApiRequest, Client, Shared, made, nothing};
use crate::history::{Answer, Op, Outcome};
use crate::world::map::Place;

/// How long a key lives before it is revoked.
const LIFE: Duration = Duration::from_secs(3);
const USE: Duration = Duration::from_millis(300);
/// A change is given up after this many attempts.
pub const TRIES: usize = 8;
pub const AGAIN: Duration = Duration::from_millis(250);

pub fn begin(shared: &Arc<Shared>, cast: &Arc<Cast>, pace: Pace, clients: &mut JoinSet<()>) {
    for _ in 0..pace.lives {
        let pair = || [shared.client(&cast.main), shared.client(&cast.main)];
        let (owners, users) = (pair(), pair());
        clients.spawn(live(owners, users));
    }
}

async fn live([mut maker, mut rival]: [Client; 2], [mut one, mut other]: [Client; 2]) {
    for number in 0_u64.. {
        maker.pause(AGAIN).await;
        if maker.is_stopped() {
            return;
        }
        let name = format!("Key {number}");
        let request = ApiRequest::post("/v1/api-keys", json!({ "name": name }));
        let (node, key) = (maker.any_node(), maker.tenant.key.clone());
        let (outcome, body) = maker.call_with(&key, &node, Op::CreateKey { name }, request, made).await;
        let (Outcome::Done(Answer::Made { id }), Some(secret)) = (outcome, body["secret"].as_str()) else { continue };
        let ended = CancellationToken::new();
        let revoking = async {
            maker.pause(LIFE).await;
            // The second client is told that the key is revoked already, which is an answer to rely on as well.
            let (revoked, by_rival) = futures::join!(revoke(&mut maker, &id), revoke(&mut rival, &id));
            if revoked || by_rival {
                // At once and through every node: the answer holds for all of them.
                for node in maker.nodes() {
                    use_key(&maker, &node, &id, secret).await;
                }
            }
            maker.pause(LIFE / 3).await;
            ended.cancel();
        };
        futures::join!(
            revoking,
            keep_using(&mut one, &id, secret, &ended),
            keep_using(&mut other, &id, secret, &ended)
        );
    }
}

async fn keep_using(client: &mut Client, id: &str, secret: &str, ended: &CancellationToken) {
    while !ended.is_cancelled() {
        let node = client.any_node();
        use_key(client, &node, id, secret).await;
        client.pause(USE).await;
    }
}

async fn use_key(client: &Client, node: &Place, id: &str, secret: &str) {
    let op = Op::UseKey { key: id.to_owned() };
    client.call_with(secret, node, op, ApiRequest::get(format!("/v1/api-keys/{id}")), nothing).await;
}

async fn revoke(client: &mut Client, id: &str) -> bool {
    until_it_is_so(client, Op::RevokeKey { key: id.to_owned() }, || ApiRequest::delete(format!("/v1/api-keys/{id}")))
        .await
}

/// Requests a change from random nodes until it is done, or reported as done already. Returns whether it is.
pub async fn until_it_is_so(client: &mut Client, op: Op, request: impl Fn() -> ApiRequest) -> bool {
    for _ in 0..TRIES {
        let node = client.any_node();
        match client.call(&node, op.clone(), request(), nothing).await {
            Outcome::Done(_) => return true,
            // An earlier attempt of unknown outcome took effect, or another client was faster.
            Outcome::Refused { status: 404 | 409, .. } => return true,
            Outcome::Refused { .. } | Outcome::Unknown { .. } => client.pause(AGAIN).await,
        }
    }
    false
}
