//! Customers, connected channels and endpoints that exist from the beginning of a run to its end.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::stream::{self, StreamExt, TryStreamExt};
use model::id::{CustomerId, Slot};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tests::http::{Api, try_answer};
use tests::simulator::Simulator;

use super::Pace;
use super::client::{Shared, Tenant, insist};
use super::hooks::{Hooks, SECRET, hook};
use crate::history::record::{Channel, Endpoint, Limited, Manner, Stage, Tenant as Named};
use crate::history::{LedgerRow, Stats};

/// Longest time from a scan to a connected channel, on a busy machine.
const CONNECT: Duration = Duration::from_secs(60);
/// Timeout of a request: longer than the gateway waits for a code.
const ANSWER: Duration = Duration::from_secs(13);
const PAIRING_AT_ONCE: usize = 4;
/// With more channels than this, more are paired at once, as nobody waits for the first of them.
const MANY: usize = 100;
const MANY_PAIRING_AT_ONCE: usize = 32;

/// The small bucket: its burst, and its refill per second.
const BURST: u32 = 15;
const PER_SECOND: u32 = 4;

/// Size of a bucket that never empties during a run.
const AMPLE: u32 = 1_000_000;

/// The participants of a run, with their keys.
pub struct Cast {
    pub main: Tenant,
    /// The id of its key.
    pub main_key: String,
    /// The group whose owner is its coordinator.
    pub main_home: u16,
    /// Tries to access resources of `main`.
    pub stranger: Tenant,
    /// Has a small bucket.
    pub limited: Tenant,
    pub stage: Stage,
    /// Channels that got phones later, to be connected for a while.
    pub passing: Mutex<Vec<Channel>>,
    /// Those of them that are stopped and resumed.
    pub stopped: Mutex<Vec<Channel>>,
    /// Endpoints that were created during the run, and stay.
    pub late: Mutex<Vec<Endpoint>>,
    /// Two more customers, if one of them is measured.
    pub neighbours: Option<Neighbours>,
    /// The next unused number; the one after it is unused as well.
    next_number: AtomicU64,
    /// Message ids that a 202 has promised; the end of the run waits for them.
    pub promised: Mutex<HashSet<String>>,
    /// The network's state before the run, if the cluster is not new.
    pub before: Before,
}

/// The number of a phone.
pub type Phone = String;

/// A quiet customer, whose endpoint receives events of its sends, and a loud one, with a channel each.
#[derive(Clone, Debug)]
pub struct Neighbours {
    pub quiet: Tenant,
    pub quiet_channel: Channel,
    pub loud: Tenant,
    pub loud_channel: Channel,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Before {
    pub seq: u64,
    pub stats: Stats,
}

impl Cast {
    /// Creates all participants.
    ///
    /// # Errors
    /// When a step takes too long.
    pub async fn gather(shared: &Shared, hooks: &Hooks, pace: Pace) -> anyhow::Result<Self> {
        let Pace { channels, .. } = pace;
        let simulator = shared.simulator();
        let ledger: Vec<LedgerRow> = serde_json::from_value(Value::Array(simulator.ledger().await))?;
        let before = Before {
            seq: ledger.last().map_or(0, |row| row.seq),
            stats: serde_json::from_value(simulator.stats().await)?,
        };
        let main = customer(shared, "main", AMPLE, AMPLE).await?;
        let stranger = customer(shared, "stranger", AMPLE, AMPLE).await?;
        let limited = customer(shared, "limited", BURST, PER_SECOND).await?;
        let tenants = [&main, &stranger, &limited].map(named).to_vec();

        // Numbers that no earlier workload of the same network has used.
        let first = 490_000_000_000_u64 + chrono::Utc::now().timestamp_millis() as u64 % 100_000_000 * 1_000;
        let wanted: Vec<(Tenant, u64)> = std::iter::repeat_n(main.clone(), channels)
            .chain([stranger.clone()])
            .enumerate()
            .map(|(index, tenant)| (tenant, first + 2 * index as u64))
            .collect();
        let next_number = AtomicU64::new(first + 2 * wanted.len() as u64);
        let at_once = if channels > MANY { MANY_PAIRING_AT_ONCE } else { PAIRING_AT_ONCE };
        let channels: Vec<Channel> = stream::iter(wanted)
            .map(|(tenant, number)| async move { paired(shared, &tenant, number).await })
            .buffered(at_once)
            .try_collect()
            .await?;
        let neighbours = if pace.neighbours { Some(neighbours(shared, hooks, &next_number).await?) } else { None };
        let limited_home = Limited {
            tenant: limited.name.clone(),
            burst: f64::from(BURST),
            per_second: f64::from(PER_SECOND),
            home: home(shared, &limited.customer).await?,
        };
        let main_home = home(shared, &main.customer).await?;
        let keys = insist(&api(shared, &main), Method::GET, "/v1/api-keys", &Value::Null).await?;
        let quiet = neighbours.as_ref().map(|neighbours| neighbours.quiet.name.clone());
        let stage = Stage { tenants, channels, limited: vec![limited_home], quiet, ..Stage::default() };
        let mut cast = Self {
            stage,
            main_key: text(&keys["data"][0], "id")?,
            main,
            main_home,
            stranger,
            limited,
            passing: Mutex::default(),
            stopped: Mutex::default(),
            late: Mutex::default(),
            neighbours,
            next_number,
            promised: Mutex::default(),
            before,
        };
        cast.stage.endpoints = cast.endpoints(shared, hooks).await?;
        Ok(cast)
    }

    /// The customer of this name.
    pub fn tenant(&self, name: &str) -> &Tenant {
        [&self.stranger, &self.limited].into_iter().find(|tenant| tenant.name == name).unwrap_or(&self.main)
    }

    /// The connected channels of a customer.
    pub fn channels_of<'a>(&'a self, tenant: &'a Tenant) -> impl Iterator<Item = &'a Channel> + Clone {
        self.stage.channels.iter().filter(|channel| channel.tenant == tenant.name)
    }

    /// Gives a channel of the main customer a phone to be paired with, and a phone to write to.
    ///
    /// # Errors
    /// When the network refuses them.
    pub async fn phones(&self, shared: &Shared, id: String) -> anyhow::Result<Channel> {
        let number = self.next_number.fetch_add(2, Ordering::Relaxed);
        let channel = with_phones(shared, &self.main, id, number).await?;
        self.passing.lock().expect("no holder panics").push(channel.clone());
        Ok(channel)
    }

    /// Creates a phone that belongs to no channel.
    ///
    /// # Errors
    /// When the network refuses it.
    pub async fn phone(&self, shared: &Shared) -> anyhow::Result<Phone> {
        let number = self.next_number.fetch_add(2, Ordering::Relaxed).to_string();
        insist(shared.simulator().api(), Method::POST, "/phones", &json!({ "number": number })).await?;
        Ok(number)
    }

    /// Good and flaky endpoints receive all events. The others receive those of one channel's sends, which is enough to
    /// keep their circuit breakers busy.
    async fn endpoints(&self, shared: &Shared, hooks: &Hooks) -> anyhow::Result<Vec<Endpoint>> {
        let everything = ["message.sent", "message.received", "message.status"];
        let one = self.channels_of(&self.main).next().map(|channel| channel.id.clone());
        let mut endpoints = Vec::new();
        for (tenant, manner) in [
            (&self.main, Manner::Good),
            (&self.main, Manner::Flaky),
            (&self.main, Manner::Slow),
            (&self.main, Manner::Broken),
            (&self.main, Manner::Hangs),
            (&self.main, Manner::Cuts),
            (&self.main, Manner::Gone),
            (&self.main, Manner::Redirects),
            (&self.stranger, Manner::Good),
        ] {
            let all = matches!(manner, Manner::Good | Manner::Flaky);
            let events = if all { everything.to_vec() } else { vec!["message.sent"] };
            let channel = if all { None } else { one.clone() };
            let hook = hook(manner, &tenant.name);
            let mut body = json!({ "url": hooks.url(&hook), "events": events, "signing_secret": SECRET });
            if let Some(channel) = &channel {
                body["channel_id"] = json!(channel);
            }
            let api = api(shared, tenant);
            let made = insist(&api, Method::POST, "/v1/webhook-endpoints", &body).await?;
            let id = text(&made, "id")?;
            let events = events.into_iter().map(str::to_owned).collect();
            let tenant = tenant.name.clone();
            endpoints.push(Endpoint { id, tenant, hook, events, channel, manner, since: None });
        }
        Ok(endpoints)
    }
}

/// A client of a customer at the first node.
pub fn api(shared: &Shared, tenant: &Tenant) -> Api {
    let map = shared.map();
    map.nodes[0].customer(&shared.http, &tenant.key)
}

async fn customer(shared: &Shared, name: &str, burst: u32, per_second: u32) -> anyhow::Result<Tenant> {
    let bucket = |burst: u32, per_second: u32| json!({ "burst": burst, "refill_per_second": per_second });
    let limits = json!({ "customer": bucket(burst, per_second), "channel": bucket(AMPLE, AMPLE) });
    let map = shared.map();
    let operator = map.operator(&map.nodes[0], &shared.http);
    let made =
        insist(&operator, Method::POST, "/v1/admin/customers", &json!({ "name": name, "limits": limits })).await?;
    Ok(Tenant { name: name.to_owned(), customer: text(&made, "id")?, key: text(&made["api_key"], "secret")? })
}

async fn neighbours(shared: &Shared, hooks: &Hooks, next_number: &AtomicU64) -> anyhow::Result<Neighbours> {
    let number = || next_number.fetch_add(2, Ordering::Relaxed);
    let quiet = customer(shared, "quiet", AMPLE, AMPLE).await?;
    let loud = customer(shared, "loud", AMPLE, AMPLE).await?;
    let quiet_channel = paired(shared, &quiet, number()).await?;
    let loud_channel = paired(shared, &loud, number()).await?;
    let url = hooks.url(&hook(Manner::Good, &quiet.name));
    let hears = json!({ "url": url, "events": ["message.sent"], "signing_secret": SECRET });
    insist(&api(shared, &quiet), Method::POST, "/v1/webhook-endpoints", &hears).await?;
    Ok(Neighbours { quiet, quiet_channel, loud, loud_channel })
}

fn named(tenant: &Tenant) -> Named {
    Named { name: tenant.name.clone(), customer: tenant.customer.clone() }
}

/// Creates a channel, and has a phone scan its code, until it is connected.
async fn paired(shared: &Shared, tenant: &Tenant, number: u64) -> anyhow::Result<Channel> {
    let body = json!({ "name": format!("Channel {number}") });
    let made = insist(&api(shared, tenant), Method::POST, "/v1/channels", &body).await?;
    let channel = with_phones(shared, tenant, text(&made, "id")?, number).await?;
    connect(&shared.simulator(), &channel, || api(shared, tenant)).await?;
    Ok(channel)
}

/// Gives a channel a phone with this number. It writes to the following number.
async fn with_phones(shared: &Shared, tenant: &Tenant, id: String, number: u64) -> anyhow::Result<Channel> {
    let (number, recipient) = (number.to_string(), (number + 1).to_string());
    for phone in [&number, &recipient] {
        insist(shared.simulator().api(), Method::POST, "/phones", &json!({ "number": phone })).await?;
    }
    Ok(Channel { id, tenant: tenant.name.clone(), number, recipient })
}

/// Waits until a channel is connected, and has its phone scan a code whenever one is needed. `api` chooses the node for
/// each attempt.
///
/// # Errors
/// When it is not connected within a minute.
pub async fn connect(simulator: &Simulator, channel: &Channel, mut api: impl FnMut() -> Api) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let last = match come_nearer(simulator, channel, &api()).await {
            Ok(true) => return Ok(()),
            Ok(false) => "its code was scanned".to_owned(),
            Err(why) => why,
        };
        anyhow::ensure!(start.elapsed() < CONNECT, "{} is not connected after {CONNECT:?}: {last}", channel.number);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Whether a channel is connected. If it waits for a scan, its phone scans the code.
async fn come_nearer(simulator: &Simulator, channel: &Channel, api: &Api) -> Result<bool, String> {
    let Channel { id, number, .. } = channel;
    let seen = told(api.request(Method::GET, &format!("/v1/channels/{id}"))).await?;
    match seen["status"].as_str() {
        Some("connected") => Ok(true),
        // The code expires if its session ends meanwhile; the next attempt gets another one.
        Some("pending" | "qr") => {
            let code = told(api.request(Method::GET, &format!("/v1/channels/{id}/qr?format=raw"))).await?;
            let scan = simulator.api().request(Method::POST, &format!("/phones/{number}/link"));
            told(scan.json(&json!({ "raw": code["raw"] }))).await?;
            Ok(false)
        }
        _ => Err(seen["status"].to_string()),
    }
}

/// The body of a response with status 200.
async fn told(request: RequestBuilder) -> Result<Value, String> {
    match try_answer(request.timeout(ANSWER)).await {
        Ok(answer) if answer.status == 200 => serde_json::from_slice(&answer.body).map_err(|error| error.to_string()),
        Ok(answer) => Err(answer.text()),
        Err(error) => Err(error.to_string()),
    }
}

/// The group whose owner is a customer's coordinator: slots are assigned to shards in turn.
async fn home(shared: &Shared, customer: &str) -> anyhow::Result<u16> {
    let map = shared.map();
    let operator = map.operator(&map.nodes[0], &shared.http);
    let groups = insist(&operator, Method::GET, "/v1/admin/shards", &Value::Null).await?;
    let rows = groups["data"].as_array().context("a list of shards")?;
    let shards = rows.iter().filter(|row| row["kind"] == "shard").count();
    let customer: CustomerId = serde_json::from_value(json!(customer))?;
    Ok(Slot::of_customer(customer).0 % u16::try_from(shards)?.max(1) + 1)
}

fn text(body: &Value, field: &str) -> anyhow::Result<String> {
    body[field].as_str().map(str::to_owned).with_context(|| format!("no {field} in {body}"))
}
