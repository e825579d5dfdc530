//! Many sends over many channels during faults of the cluster, and the proof that nothing was lost or doubled.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::http::{string, try_answer};
use tests::receiver::{Received, Receiver};
use tests::tenant::{Paired, Tenant, number, text, wait_status};
use tests::wait::{check, eventually, seconds};

/// How long everything may take to arrive after the last fault.
const HEALED: Duration = Duration::from_secs(90);
/// How long a send may be retried, whatever happens meanwhile.
const PATIENCE: Duration = Duration::from_secs(120);

/// A send that was answered 202.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub id: String,
    /// The index of its channel.
    pub channel: usize,
    pub answered: Instant,
}

/// A customer with connected channels, a receiver, and a record of everything that was promised.
pub struct Storm {
    pub cluster: Cluster,
    pub tenant: Tenant,
    pub receiver: Receiver,
    pub channels: Vec<Paired>,
    recipient: String,
    /// The linked device of each channel after pairing.
    devices: Vec<Value>,
    accepted: Mutex<Vec<Accepted>>,
    inbound: Mutex<Vec<String>>,
    /// Responses with 503, and broken connections: allowed, and printed at the end.
    refused: AtomicUsize,
    broken: AtomicUsize,
}

impl Storm {
    /// Pairs `count` channels.
    pub async fn gather(cluster: &Cluster, count: usize) -> Self {
        let tenant = Tenant::new(cluster).await;
        let receiver = Receiver::start().await;
        let channels = futures::future::join_all((0..count).map(|n| {
            let tenant = &tenant;
            async move { tenant.paired(&format!("Channel {n}")).await }
        }));
        let channels = channels.await;
        let simulator = tenant.simulator();
        let recipient = number();
        simulator.phone(&recipient, json!({})).await;
        let mut devices = Vec::new();
        for channel in &channels {
            devices.push(simulator.get_phone(&channel.number).await["devices"][0]["id"].clone());
        }
        // Created after the pairing, so that any `qr.updated` from here on is an error.
        let events = ["message.sent", "message.received", "channel.status", "qr.updated"];
        tenant.endpoint(&receiver.url("/"), &events, json!({})).await;
        Self {
            cluster: cluster.clone(),
            tenant,
            receiver,
            channels,
            recipient,
            devices,
            accepted: Mutex::default(),
            inbound: Mutex::default(),
            refused: AtomicUsize::new(0),
            broken: AtomicUsize::new(0),
        }
    }

    /// The number of accepted sends so far.
    pub fn count(&self) -> usize {
        self.accepted.lock().unwrap().len()
    }

    /// Durations from `moment` to the first accepted send of each channel.
    pub fn first_since(&self, moment: Instant) -> BTreeMap<usize, Duration> {
        let mut first = BTreeMap::new();
        for accepted in self.accepted.lock().unwrap().iter().filter(|accepted| accepted.answered > moment) {
            first.entry(accepted.channel).or_insert(accepted.answered - moment);
        }
        first
    }

    /// Sends `each` texts per channel, in order within a channel, through all nodes in turn, while phones write back.
    /// Returns when every text has been answered 202.
    pub async fn rage(&self, each: usize) {
        let senders = (0..self.channels.len()).map(|channel| async move {
            for n in 0..each {
                self.send(channel, n).await;
            }
        });
        let writers = self.channels.iter().map(|channel| async {
            let ids = self.tenant.simulator().text(&self.recipient, &channel.number, "written back", each / 2).await;
            self.inbound.lock().unwrap().extend(ids);
        });
        futures::join!(futures::future::join_all(senders), futures::future::join_all(writers));
    }

    /// Retries a text until it is accepted. After a broken connection or a 503 it is unknown whether it was: each
    /// attempt has its own text, and only a 202 is a promise.
    async fn send(&self, channel: usize, n: usize) {
        let nodes = self.cluster.node_ids();
        let start = Instant::now();
        for attempt in 0.. {
            assert!(start.elapsed() < PATIENCE, "channel {channel}: text {n} was not accepted within {PATIENCE:?}");
            let api = self.tenant.api(nodes[(channel + n + attempt) % nodes.len()]);
            let body = text(&self.recipient, &format!("channel {channel}, text {n}, try {attempt}"));
            let request = api.request(Method::POST, &self.channels[channel].path("/messages"));
            match try_answer(request.json(&body)).await {
                Ok(answer) if answer.status == 202 => {
                    let id = string(&answer.json()["message_id"]);
                    let accepted = Accepted { id, channel, answered: Instant::now() };
                    self.accepted.lock().unwrap().push(accepted);
                    return;
                }
                Ok(answer) => {
                    assert_eq!(answer.status, 503, "no fail-over shows as anything else: {}", answer.text());
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
                Err(_) => _ = self.broken.fetch_add(1, Ordering::Relaxed),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Proves that all promises were kept.
    pub async fn prove(&self) {
        let (refused, broken) = (self.refused.load(Ordering::Relaxed), self.broken.load(Ordering::Relaxed));
        println!("{} accepted, {refused} answered 503, {broken} connections broken", self.count());
        let api = self.tenant.any();
        for channel in &self.channels {
            wait_status(&api, &channel.id, "connected", HEALED).await;
        }
        self.prove_ledger().await;
        self.prove_events().await;
        self.prove_usage().await;
        self.prove_links().await;
    }

    async fn prove_ledger(&self) {
        let simulator = self.tenant.simulator();
        let accepted = self.accepted.lock().unwrap().clone();
        let ledger = eventually("the network has every accepted send", HEALED, async || {
            let ledger = simulator.ledger_by_id().await;
            let missing: Vec<_> = accepted.iter().filter(|accepted| !ledger.contains_key(&accepted.id)).collect();
            check(missing.is_empty(), format!("{} of {} missing: {missing:?}", missing.len(), accepted.len()))
                .map(|()| ledger)
        })
        .await;
        let mut sessions: HashMap<String, usize> = HashMap::new();
        for channel in &self.channels {
            sessions.insert(channel.address(), simulator.logins(&channel.number).await.len());
        }
        for (id, rows) in &ledger {
            assert_eq!(rows.len(), 1, "{id} had its effect twice: {rows:?}");
            let copies = rows[0]["raw_copies"].as_u64().unwrap() as usize;
            let sessions = sessions[&string(&rows[0]["from"])];
            assert!(copies <= sessions, "{id} was written {copies} times in {sessions} sessions");
        }
        assert_eq!(simulator.stat("conflicts").await, 0, "{}", simulator.stats().await);
        // The network accepted a channel's sends in the order of their promises.
        let mut last: HashMap<usize, &Value> = HashMap::new();
        for accepted in &accepted {
            let row = &ledger[&accepted.id][0];
            if let Some(before) = last.insert(accepted.channel, row)
                && before["seq"].as_u64() > row["seq"].as_u64()
            {
                let channel = &self.channels[accepted.channel];
                let logins = simulator.logins(&channel.number).await;
                panic!("channel {}: what was accepted later went first: {before} {row}: {logins:?}", channel.id);
            }
        }
    }

    async fn prove_events(&self) {
        let sent: Vec<_> = self.accepted.lock().unwrap().iter().map(|accepted| accepted.id.clone()).collect();
        let inbound = self.inbound.lock().unwrap().clone();
        for (event, promised) in [("message.sent", sent), ("message.received", inbound)] {
            let seen = eventually(&format!("every {event} arrived"), HEALED, async || {
                let seen = self.receiver.event_ids(event);
                let missing: Vec<_> = promised.iter().filter(|id| !seen.contains_key(*id)).collect();
                check(missing.is_empty(), format!("{} of {} missing: {missing:?}", missing.len(), promised.len()))
                    .map(|()| seen)
            })
            .await;
            for (id, events) in &seen {
                assert_eq!(events.len(), 1, "{event} of {id} has more than one event id");
            }
            let distinct: HashSet<_> = seen.values().flatten().collect();
            assert_eq!(distinct.len(), seen.len(), "no two events share an id");
        }
    }

    /// Asserts that the reported usage is what the network and the receiver saw.
    async fn prove_usage(&self) {
        let (api, simulator) = (self.tenant.any(), self.tenant.simulator());
        let inbound = self.inbound.lock().unwrap().len() as u64;
        eventually("the usage is exact", HEALED, async || {
            let events: HashSet<_> = self.receiver.received().iter().map(Received::event_id).collect();
            let days = api.get("/v1/account/usage").await.expect(200);
            let sum = |figure: &str| {
                days["data"].as_array().into_iter().flatten().filter_map(|day| day[figure].as_u64()).sum::<u64>()
            };
            let told = [sum("sent"), sum("received"), sum("webhook_deliveries")];
            let ledger = simulator.ledger().await;
            let ours = ledger.iter().filter(|row| self.channels.iter().any(|channel| row["from"] == channel.address()));
            let seen = [ours.count() as u64, inbound, events.len() as u64];
            check(told == seen, format!("told of {told:?}, seen {seen:?}"))
        })
        .await;
    }

    async fn prove_links(&self) {
        let simulator = self.tenant.simulator();
        for (channel, device) in self.channels.iter().zip(&self.devices) {
            let phone = simulator.get_phone(&channel.number).await;
            let devices = phone["devices"].as_array().unwrap();
            assert!(devices.len() == 1 && devices[0]["id"] == *device, "the same link as before: {phone}");
            self.prove_logins(&channel.number).await;
        }
        for request in self.receiver.received() {
            let body = request.json();
            assert_ne!(body["event"], "qr.updated", "no channel needed a new QR: {body}");
            let status = &body["data"]["status"];
            let needs_link = ["qr", "pending", "logged_out", "failed", "error"].map(Value::from);
            let is_status = body["event"] == "channel.status";
            assert!(!is_status || !needs_link.contains(status), "{body}");
        }
    }

    /// At most one session at a time, and epochs never decrease.
    async fn prove_logins(&self, number: &str) {
        let logins = self.tenant.simulator().logins(number).await;
        for pair in logins.windows(2) {
            let (old, new) = (&pair[0], &pair[1]);
            assert_ne!(old["end"], "replaced", "a conflict: {old} then {new}");
            let (ended, began) = (moment(&old["ended_at"]), moment(&new["at"]));
            assert!(ended <= began, "two sessions at once: {old} then {new}");
            assert!(old["epoch"].as_u64() <= new["epoch"].as_u64(), "an epoch went back: {old} then {new}");
        }
    }

    /// The owner of a channel according to a live node. The cluster may be without one for a moment.
    pub async fn owner(&self, channel: usize) -> u64 {
        let node = self.cluster.running_node();
        self.tenant.owner(node, &self.channels[channel].id).await.node
    }

    /// The channels that a node owns.
    pub async fn owned_by(&self, node: u64) -> Vec<usize> {
        let mut owned = Vec::new();
        for channel in 0..self.channels.len() {
            if self.owner(channel).await == node {
                owned.push(channel);
            }
        }
        owned
    }

    /// Waits until `more` sends beyond `before` were accepted.
    pub async fn wait_count(&self, before: usize, more: usize) {
        eventually("the storm is under way", seconds(60), async || {
            check(self.count() >= before + more, self.count().to_string())
        })
        .await;
    }
}

/// A time of the simulator: ISO 8601, or a number that grows with time.
fn moment(value: &Value) -> i64 {
    match value {
        Value::Number(number) => number.as_i64().unwrap(),
        Value::String(text) => text.parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp_micros(),
        other => panic!("no time: {other}"),
    }
}
