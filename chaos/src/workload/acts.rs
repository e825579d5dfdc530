//! Actions of tenants and phones that a schedule triggers, beside the continuous load.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::RngExt;
use reqwest::Method;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::cast::{Cast, Phone, connect};
use super::client::{ApiRequest, Client, Shared, made, nothing};
use super::hooks::{SECRET, hook};
use super::keys::until_it_is_so;
use super::neighbours::make_noise;
use super::noise;
use super::sends::taken;
use super::sizes;
use super::threads;
use crate::history::record::{Channel, Endpoint, Manner};
use crate::history::{Answer, Op, Outcome};
use crate::schedule::fault::{Stop, TenantFault};

/// Pause between two actions of a sequence.
const BETWEEN: Duration = Duration::from_millis(300);

/// Sends in flight when their channel is stopped.
const FLOOD: usize = 24;

/// Executes these actions.
pub struct Acts {
    shared: Arc<Shared>,
    cast: Arc<Cast>,
    /// The receivers' base URL.
    receiver: String,
    /// The channel that is stopped again and again.
    stopped: Mutex<Option<Channel>>,
    /// Counts what was created, for unique names.
    made: AtomicU64,
}

/// An action that goes on until it is ended.
#[derive(Debug)]
pub struct Acting {
    ended: CancellationToken,
    clients: JoinSet<()>,
}

impl Acting {
    /// Ends the action, and waits for everything in flight.
    ///
    /// # Errors
    /// When a client panicked.
    pub async fn end(mut self) -> anyhow::Result<()> {
        self.ended.cancel();
        while let Some(ended) = self.clients.join_next().await {
            ended.context("a client panicked")?;
        }
        Ok(())
    }
}

impl Acts {
    pub(super) fn new(shared: Arc<Shared>, cast: Arc<Cast>, receiver: String) -> Self {
        Self { shared, cast, receiver, stopped: Mutex::new(None), made: AtomicU64::new(0) }
    }

    fn number(&self) -> u64 {
        self.made.fetch_add(1, Ordering::Relaxed)
    }

    /// Begins an action of tenants.
    ///
    /// # Errors
    /// When the run does not have these tenants, or something cannot be created.
    pub async fn begin(&self, what: TenantFault) -> anyhow::Result<Acting> {
        let (ended, mut clients) = (CancellationToken::new(), JoinSet::new());
        let neighbours = || self.cast.neighbours.clone().context("this run has no loud tenant");
        match what {
            TenantFault::Noise => {
                let neighbours = neighbours()?;
                noise::begin(&self.shared, &neighbours, &self.receiver, &ended, &mut clients);
                clients.spawn_on(make_noise(self.shared.clone(), neighbours, ended.clone()), threads::loud().handle());
            }
            TenantFault::Sizes => {
                let neighbours = neighbours()?;
                let client = self.shared.client(&neighbours.loud);
                let cases = sizes::cases(&neighbours.loud_channel, &self.receiver);
                clients.spawn(try_sizes(client, cases, ended.clone()));
            }
            TenantFault::Namesakes => {
                let other = self.cast.phone(&self.shared).await?;
                for channel in self.cast.channels_of(&self.cast.main) {
                    let client = self.shared.client(&self.cast.main);
                    clients.spawn(write_as_others(client, channel.clone(), other.clone(), ended.clone()));
                }
            }
            TenantFault::Notices => {
                for channel in self.cast.channels_of(&self.cast.main) {
                    let (client, number) = (self.shared.client(&self.cast.main), self.number());
                    clients.spawn(rename_group(client, channel.clone(), number, ended.clone()));
                }
            }
        }
        Ok(Acting { ended, clients })
    }

    /// A connected channel for [`Self::stop`] alone.
    ///
    /// # Errors
    /// When it cannot be created, or has not reconnected since the last stop.
    pub async fn to_be_stopped(&self) -> anyhow::Result<Channel> {
        let mut known = self.stopped.lock().await;
        let mut client = self.shared.client(&self.cast.main);
        if known.is_none() {
            let name = "Stopped".to_owned();
            let (request, node) = (ApiRequest::post("/v1/channels", json!({ "name": name })), client.any_node());
            let outcome = client.call(&node, Op::CreateChannel { name }, request, made).await;
            let Outcome::Done(Answer::Made { id }) = outcome else {
                anyhow::bail!("a channel cannot be made: {outcome:?}");
            };
            let channel = self.cast.phones(&self.shared, id).await?;
            self.cast.stopped.lock().expect("no holder panics").push(channel.clone());
            *known = Some(channel);
        }
        let channel = known.clone().expect("it is there by now");
        self.let_on(&mut client, &channel).await?;
        Ok(channel)
    }

    /// Starts `FLOOD` sends of a channel at once, each through a random node.
    pub fn flood(&self, channel: &Channel) -> JoinSet<()> {
        let mut sends = JoinSet::new();
        for _ in 0..FLOOD {
            let mut client = self.shared.client(&self.cast.main);
            let text = format!("before the stop {}", self.number());
            let body = json!({ "type": "text", "to": channel.recipient, "text": text });
            let request = ApiRequest::post(format!("/v1/channels/{}/messages", channel.id), body);
            let op = Op::Send { channel: channel.id.clone(), text };
            sends.spawn(async move {
                let node = client.any_node();
                client.call(&node, op, request, taken).await;
            });
        }
        sends
    }

    /// Stops a channel, retrying until it succeeds.
    pub async fn stop(&self, channel: &Channel, how: Stop) {
        let mut client = self.shared.client(&self.cast.main);
        let (id, request) = (channel.id.clone(), |action: &str| {
            ApiRequest::post(format!("/v1/channels/{}/{action}", channel.id), json!({}))
        });
        match how {
            Stop::Disconnect => {
                let op = Op::DisconnectChannel { channel: id };
                until_it_is_so(&mut client, op, || request("disconnect")).await;
            }
            Stop::Disable => {
                until_it_is_so(&mut client, Op::DisableChannel { channel: id }, || request("disable")).await;
            }
            Stop::Unlink => {
                let path = format!("/phones/{}/unlink", channel.number);
                client.phone(Op::UnlinkChannel { channel: id }, &path, json!({}), nothing).await;
            }
        }
    }

    /// Resumes a stopped channel, and waits until it is connected.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn resume(&self, channel: &Channel, how: Stop) -> anyhow::Result<()> {
        let mut client = self.shared.client(&self.cast.main);
        let id = channel.id.clone();
        let (action, op) = match how {
            Stop::Disable => ("enable", Op::EnableChannel { channel: id }),
            Stop::Disconnect | Stop::Unlink => ("connect", Op::ConnectChannel { channel: id }),
        };
        let request = || ApiRequest::post(format!("/v1/channels/{}/{action}", channel.id), json!({}));
        until_it_is_so(&mut client, op, request).await;
        self.let_on(&mut client, channel).await
    }

    async fn let_on(&self, client: &mut Client, channel: &Channel) -> anyhow::Result<()> {
        connect(&self.shared.simulator(), channel, || {
            let node = client.any_node();
            node.customer(&client.shared.http, &client.tenant.key)
        })
        .await
    }

    /// Creates an endpoint for one of the channels `owned` by the node `owner`, through another node.
    ///
    /// # Errors
    /// When none of them belongs to the workload, or the endpoint cannot be created.
    pub async fn endpoint_for(&self, owned: &[String], owner: u64) -> anyhow::Result<()> {
        let mut channels = self.cast.channels_of(&self.cast.main);
        let channel = channels.find(|channel| owned.contains(&channel.id)).context("the node owns no channel")?.clone();
        let client = self.shared.client(&self.cast.main);
        let node = client.nodes().into_iter().find(|node| node.id != owner).context("there is no other node")?;
        let hook = hook(Manner::Good, &format!("late/{}", self.number()));
        let events = ["message.sent", "message.received", "message.status"].map(str::to_owned).to_vec();
        let url = format!("{}{hook}", self.receiver);
        let body = json!({ "url": url, "events": events, "channel_id": channel.id, "signing_secret": SECRET });
        let request = ApiRequest::post("/v1/webhook-endpoints", body);
        let outcome = client.call(&node, Op::CreateEndpoint { hook: hook.clone() }, request, made).await;
        let since = Some(self.shared.recorder.now());
        let Outcome::Done(Answer::Made { id }) = outcome else {
            anyhow::bail!("an endpoint cannot be made: {outcome:?}");
        };
        let (tenant, channel) = (self.cast.main.name.clone(), Some(channel.id));
        let endpoint = Endpoint { id, tenant, hook, events, channel, manner: Manner::Good, since };
        self.cast.late.lock().expect("no holder panics").push(endpoint);
        Ok(())
    }
}

/// Tries one size after the other, and deletes endpoints that this creates.
async fn try_sizes(mut client: Client, cases: Vec<sizes::Case>, ended: CancellationToken) {
    let key = client.tenant.key.clone();
    for sizes::Case { what, size, request, read, is_endpoint } in cases {
        if ended.is_cancelled() || client.is_stopped() {
            return;
        }
        let node = client.any_node();
        let (_, body) = client.call_with(&key, &node, Op::Sized { what, size }, request, read).await;
        if let Some(id) = body["id"].as_str().filter(|_| is_endpoint) {
            let (op, node) = (Op::DeleteEndpoint { endpoint: id.to_owned() }, client.any_node());
            client.call(&node, op, ApiRequest::delete(format!("/v1/webhook-endpoints/{id}")), nothing).await;
        }
    }
}

/// Two phones write to a channel under the same id, one after the other.
async fn write_as_others(mut client: Client, channel: Channel, other: Phone, ended: CancellationToken) {
    while !ended.is_cancelled() && !client.is_stopped() {
        let id = format!("3EB0{:036X}", client.dice.random::<u128>());
        let mut phones = [&other, &channel.recipient];
        if client.dice.random() {
            phones.reverse();
        }
        for phone in phones {
            let op = Op::InboundAs { channel: channel.id.clone(), from: phone.clone(), id: id.clone() };
            let body =
                json!({ "type": "text", "to": channel.number, "text": format!("{phone} as {id}"), "message_id": id });
            client.phone(op, &format!("/phones/{phone}/messages"), body, nothing).await;
            client.pause(BETWEEN).await;
        }
        client.pause(4 * BETWEEN).await;
    }
}

/// A phone creates a group with a channel, and renames it again and again.
async fn rename_group(mut client: Client, channel: Channel, number: u64, ended: CancellationToken) {
    let phone = &channel.recipient;
    let path = format!("/phones/{phone}/groups");
    let body = json!({ "subject": format!("Group {number}"), "participants": [channel.number] });
    let op = Op::Notice { channel: channel.id.clone(), says: format!("Group {number}") };
    let Outcome::Done(Answer::Made { id }) = client.phone(op, &path, body, made).await else { return };
    let path = format!("{path}/{}/subject", id.replace('@', "%40"));
    for turn in 0_u64.. {
        client.pause(BETWEEN).await;
        if ended.is_cancelled() || client.is_stopped() {
            return;
        }
        let says = format!("Group {number}, name {turn}");
        let op = Op::Notice { channel: channel.id.clone(), says: says.clone() };
        client.phone_with(Method::PUT, op, &path, json!({ "subject": says }), nothing).await;
    }
}

/// Waits for sends in flight.
///
/// # Errors
/// When a client panicked.
pub async fn all(mut sends: JoinSet<()>) -> anyhow::Result<()> {
    while let Some(ended) = sends.join_next().await {
        ensure!(ended.is_ok(), "a client panicked");
    }
    Ok(())
}
