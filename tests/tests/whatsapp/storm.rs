//! Owners die during sends, with and without media, to known and new peers and to groups, while phones write back:
//! nothing is lost or doubled, no message key is used twice, everybody can read everything, and nobody has to scan a QR
//! code again.
//!
//! `STORM_CHANNELS`, `STORM_SENDS` (for each channel and round), `STORM_ROUNDS` and `STORM_KNOWN` (members of each
//! group besides the channel) set the size; `STORM_RUNS` repeats it.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::http::{string, try_answer};
use tests::media::{noise, upload};
use tests::receiver::Receiver;
use tests::tenant::{CONNECT, Paired, Tenant, number, text, wait_status};
use tests::wait::{check, eventually, seconds};

use crate::{assert_clean, cluster, crypto};

/// How long everything may take to arrive after the last fault.
const HEALED: Duration = Duration::from_secs(120);

/// How long a send may be retried, whatever happens meanwhile.
const PATIENCE: Duration = Duration::from_secs(120);

/// Default number of people to whom every channel writes repeatedly.
const KNOWN: usize = 6;

/// Every fourth send goes to somebody whom no channel has written to.
const STRANGER_EVERY: usize = 4;

/// Every fifth send goes to the channel's group, whose members are all the known people.
const GROUP_EVERY: usize = 5;

/// Every sixth send is a document.
const MEDIA_EVERY: usize = 6;

/// Documents of each channel, which are sent repeatedly.
const DOCUMENTS: usize = 4;

struct Sent {
    id: String,
    channel: usize,
    to: String,
}

pub struct Storm {
    pub cluster: Cluster,
    pub tenant: Tenant,
    receiver: Receiver,
    pub channels: Vec<Paired>,
    /// The linked device of each channel after pairing.
    devices: Vec<Value>,
    known: Vec<String>,
    /// The groups of each channel, in the order of their creation; it writes to the last one.
    groups: Mutex<Vec<Vec<String>>>,
    /// The documents that each channel uploaded.
    documents: Vec<Vec<Value>>,
    strangers: Vec<String>,
    next_stranger: AtomicUsize,
    tries: AtomicUsize,
    sent: Mutex<Vec<Sent>>,
    /// Ids of messages from phones.
    written: Mutex<Vec<String>>,
    /// Those with media, and the channels that they were sent to.
    attached: Mutex<Vec<(usize, String)>>,
}

pub fn setting(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

/// Creates a group of a channel and all known people, by one of these.
async fn group(tenant: &Tenant, channel: &Paired, known: &[String]) -> String {
    let network = tenant.simulator();
    let mut members = known.to_vec();
    members.push(channel.number.clone());
    let made = json!({ "subject": "All", "participants": members });
    let made = network.api().post(&format!("/phones/{}/groups", known[0]), made).await.expect(201);
    let id = string(&made["id"]);
    let api = tenant.any();
    eventually("the channel hears of its group", CONNECT, async || {
        let shown = api.get(&channel.path(&format!("/groups/{id}"))).await;
        check(shown.status == 200, shown.text())
    })
    .await;
    id
}

async fn documents(tenant: &Tenant, channel: &Paired) -> Vec<Value> {
    let mut stored = Vec::new();
    for seed in 0..DOCUMENTS {
        let kept = upload(&tenant.any(), &channel.id, "application/pdf", noise(30_000, seed as u64)).await;
        stored.push(kept["url"].clone());
    }
    stored
}

impl Storm {
    pub async fn gather(cluster: &Cluster, channels: usize, sends: usize) -> Self {
        let tenant = Tenant::new(cluster).await;
        let receiver = Receiver::start().await;
        let network = tenant.simulator();
        let paired = futures::future::join_all((0..channels).map(|n| {
            let tenant = &tenant;
            async move { tenant.paired(&format!("Channel {n}")).await }
        }))
        .await;
        let mut devices = Vec::new();
        for channel in &paired {
            devices.push(network.get_phone(&channel.number).await["devices"][0]["id"].clone());
        }
        let mut known = Vec::new();
        for _ in 0..setting("STORM_KNOWN", KNOWN) {
            let person = number();
            network.phone(&person, json!({})).await;
            known.push(person);
        }
        let groups = futures::future::join_all(paired.iter().map(|channel| group(&tenant, channel, &known))).await;
        let documents = futures::future::join_all(paired.iter().map(|channel| documents(&tenant, channel))).await;
        // Each retry of a send uses another stranger.
        let count = 2 * channels * sends / STRANGER_EVERY + 1_000;
        let first = 392_000_000_000_u64 + rand::random_range(0..1_000_000) * 100_000;
        for part in (0..count).step_by(1_000) {
            network.phones(&(first + part as u64).to_string(), 1_000).await;
        }
        let strangers = (0..count as u64).map(|n| (first + n).to_string()).collect();
        let events = ["message.sent", "message.received", "channel.status", "qr.updated"];
        tenant.endpoint(&receiver.url("/"), &events, json!({})).await;
        Self {
            cluster: cluster.clone(),
            tenant,
            receiver,
            channels: paired,
            devices,
            known,
            groups: Mutex::new(groups.into_iter().map(|group| vec![group]).collect()),
            documents,
            strangers,
            next_stranger: AtomicUsize::new(0),
            tries: AtomicUsize::new(0),
            sent: Mutex::default(),
            written: Mutex::default(),
            attached: Mutex::default(),
        }
    }

    fn count(&self) -> usize {
        self.sent.lock().unwrap().len()
    }

    fn group_of(&self, channel: usize) -> String {
        self.groups.lock().unwrap()[channel].last().unwrap().clone()
    }

    /// Lets a channel write to a new group from now on, whose members have not got a key.
    pub async fn regroup(&self, channel: usize) {
        let made = group(&self.tenant, &self.channels[channel], &self.known).await;
        self.groups.lock().unwrap()[channel].push(made);
    }

    fn stranger(&self) -> &String {
        &self.strangers[self.next_stranger.fetch_add(1, Ordering::Relaxed) % self.strangers.len()]
    }

    /// A stranger writes to a channel for the first time, with the prekeys that the network has of it.
    pub async fn meet(&self, channel: usize) {
        let network = self.tenant.simulator();
        let ids = network.text(self.stranger(), &self.channels[channel].number, "who is there?", 1).await;
        self.written.lock().unwrap().extend(ids);
    }

    /// Each channel sends `each` texts, in order, through all nodes in turn, while people write back.
    pub async fn rage(&self, each: usize) {
        let senders = (0..self.channels.len()).map(|channel| async move {
            for n in 0..each {
                self.send(channel, n).await;
            }
        });
        let network = self.tenant.simulator();
        let writers = self.channels.iter().enumerate().map(|(index, channel)| {
            let (network, known) = (&network, &self.known);
            async move {
                for n in 0..each.div_ceil(2) {
                    let author = &known[(index + n) % known.len()];
                    let ids = network.text(author, &channel.number, "written back", 2).await;
                    self.written.lock().unwrap().extend(ids);
                    let words = format!("try {}", self.tries.fetch_add(1, Ordering::Relaxed));
                    let ids = network.text(author, &self.group_of(index), &words, 1).await;
                    self.written.lock().unwrap().extend(ids);
                    if n % MEDIA_EVERY == 0 {
                        let body = json!({ "type": "image", "to": channel.number, "media": { "size": 20_000 } });
                        let wrote = network.api().post(&format!("/phones/{author}/messages"), body).await.expect(201);
                        let id = string(&wrote["ids"][0]);
                        self.attached.lock().unwrap().push((index, id.clone()));
                        self.written.lock().unwrap().push(id);
                    }
                }
            }
        });
        futures::join!(futures::future::join_all(senders), futures::future::join_all(writers));
    }

    /// Retries a message until it is accepted. A broken connection or a 503 says nothing: only a 202 is a promise.
    async fn send(&self, channel: usize, n: usize) {
        let (nodes, start) = (self.cluster.node_ids(), Instant::now());
        let group = self.group_of(channel);
        for attempt in 0.. {
            assert!(start.elapsed() < PATIENCE, "channel {channel}: text {n} was not taken within {PATIENCE:?}");
            let to = if n % GROUP_EVERY == GROUP_EVERY - 1 {
                &group
            } else if n % STRANGER_EVERY == STRANGER_EVERY - 1 {
                self.stranger()
            } else {
                &self.known[(channel + n) % self.known.len()]
            };
            let api = self.tenant.api(nodes[(channel + n + attempt) % nodes.len()]);
            // Each attempt has its own text, so a text that occurs twice was doubled.
            let tries = self.tries.fetch_add(1, Ordering::Relaxed);
            let mut words = text(to, &format!("try {tries}"));
            if n % MEDIA_EVERY == 1 {
                let document = &self.documents[channel][tries % DOCUMENTS];
                words = json!({
                    "type": "document", "to": to, "media_url": document, "mime_type": "application/pdf", "filename": "a.pdf",
                    "caption": format!("try {tries}"),
                });
            }
            let request = api.request(Method::POST, &self.channels[channel].path("/messages"));
            match try_answer(request.json(&words)).await {
                Ok(answer) if answer.status == 202 => {
                    let id = string(&answer.json()["message_id"]);
                    self.sent.lock().unwrap().push(Sent { id, channel, to: to.clone() });
                    return;
                }
                Ok(answer) => {
                    assert_eq!(answer.status, 503, "no fail-over shows as anything else: {}", answer.text());
                }
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn owner(&self, channel: usize) -> u64 {
        self.tenant.owner(self.cluster.running_node(), &self.channels[channel % self.channels.len()].id).await.node
    }

    async fn wait_under_way(&self, before: usize, more: usize) {
        eventually("the storm is under way", seconds(90), async || {
            check(self.count() >= before + more, self.count().to_string())
        })
        .await;
    }

    pub async fn prove(&self) {
        let api = self.tenant.any();
        for channel in &self.channels {
            wait_status(&api, &channel.id, "connected", HEALED).await;
        }
        self.prove_ledger().await;
        self.prove_inboxes().await;
        self.prove_events().await;
        self.prove_media().await;
        self.prove_links().await;
        let network = self.tenant.simulator();
        assert_clean(&network, self.channels.len()).await;
        let (found, stats) = (crypto(&network).await, network.stats().await);
        println!(
            "{} sent, {} written back; retry receipts {}, wire repeats {}, largest gap {}, duplicates dropped {}",
            self.count(),
            self.written.lock().unwrap().len(),
            found["retry_receipts"],
            found["wire_repeats"],
            found["session_gaps_max"],
            stats["duplicates_dropped"],
        );
    }

    /// The network has everything that was promised exactly once, in the order of each channel's promises.
    async fn prove_ledger(&self) {
        let network = self.tenant.simulator();
        let ledger = eventually("the network has every send that was taken", HEALED, async || {
            let ledger = network.ledger_by_id().await;
            let sent = self.sent.lock().unwrap();
            let missing: Vec<_> =
                sent.iter().filter(|sent| !ledger.contains_key(&sent.id)).map(|sent| &sent.id).collect();
            check(missing.is_empty(), format!("{} of {} missing: {missing:?}", missing.len(), sent.len()))
                .map(|()| ledger)
        })
        .await;
        for (id, rows) in &ledger {
            assert_eq!(rows.len(), 1, "{id} had its effect twice: {rows:?}");
        }
        let mut last: HashMap<usize, u64> = HashMap::new();
        for sent in self.sent.lock().unwrap().iter() {
            let seq = ledger[&sent.id][0]["seq"].as_u64().unwrap();
            let before = last.insert(sent.channel, seq);
            assert!(before < Some(seq), "channel {}: {} went before what was promised earlier", sent.channel, sent.id);
        }
        assert_eq!(network.stat("conflicts").await, 0, "{}", network.stats().await);
    }

    /// Everybody could read every message to them, exactly once.
    async fn prove_inboxes(&self) {
        let network = self.tenant.simulator();
        let groups: HashSet<String> = self.groups.lock().unwrap().iter().flatten().cloned().collect();
        let mut expected: HashMap<String, HashSet<String>> = HashMap::new();
        for sent in self.sent.lock().unwrap().iter() {
            let is_group = groups.contains(&sent.to);
            let readers = if is_group { &self.known[..] } else { std::slice::from_ref(&sent.to) };
            for reader in readers {
                expected.entry(reader.clone()).or_default().insert(sent.id.clone());
            }
        }
        for (person, ids) in &expected {
            let inbox = eventually(&format!("{person} has read all of it"), HEALED, async || {
                let inbox = network.inbox(person).await;
                let read: HashSet<String> = inbox.iter().map(|row| string(&row["id"])).collect();
                let missing: Vec<_> = ids.difference(&read).collect();
                check(missing.is_empty(), format!("{missing:?}")).map(|()| inbox)
            })
            .await;
            let mut seen = HashSet::new();
            for row in &inbox {
                assert_eq!(row["copies"], 1, "{row}");
                let says = if row["type"] == "document" { &row["caption"] } else { &row["text"] };
                assert!(seen.insert(string(says)), "said twice: {row}");
                assert!(row["media"].is_null() || row["media"]["intact"] == true, "it does not open: {row}");
            }
        }
    }

    async fn prove_events(&self) {
        let sent: Vec<String> = self.sent.lock().unwrap().iter().map(|sent| sent.id.clone()).collect();
        let written = self.written.lock().unwrap().clone();
        for (event, promised) in [("message.sent", sent), ("message.received", written)] {
            let seen = eventually(&format!("every {event} came"), HEALED, async || {
                let seen = self.receiver.event_ids(event);
                let missing: Vec<_> = promised.iter().filter(|id| !seen.contains_key(*id)).collect();
                check(missing.is_empty(), format!("{} of {} missing: {missing:?}", missing.len(), promised.len()))
                    .map(|()| seen)
            })
            .await;
            for (id, events) in &seen {
                assert_eq!(events.len(), 1, "{event} of {id} was made more than once: {:#?}", self.told(event, id));
            }
        }
    }

    /// Received messages with media have their media.
    async fn prove_media(&self) {
        let attached = self.attached.lock().unwrap().clone();
        for (channel, id) in attached {
            let path = self.channels[channel].path(&format!("/messages?message_id={id}"));
            eventually(&format!("the media of {id} is here"), HEALED, async || {
                let rows = self.tenant.any().get(&path).await.expect(200);
                check(rows["data"][0]["media"]["state"] == "ready", rows.to_string())
            })
            .await;
        }
    }

    /// All events about a message.
    fn told(&self, event: &str, id: &str) -> Vec<Value> {
        let all = self.receiver.received().into_iter().map(|request| request.json());
        all.filter(|body| body["event"] == event && body["data"]["message_id"] == id).collect()
    }

    async fn prove_links(&self) {
        let network = self.tenant.simulator();
        for (channel, device) in self.channels.iter().zip(&self.devices) {
            let phone = network.get_phone(&channel.number).await;
            let devices = phone["devices"].as_array().unwrap();
            assert!(devices.len() == 1 && devices[0]["id"] == *device, "the same link as before: {phone}");
            let logins = network.logins(&channel.number).await;
            for pair in logins.windows(2) {
                assert!(pair[0]["epoch"].as_u64() <= pair[1]["epoch"].as_u64(), "an epoch went back: {pair:?}");
            }
        }
        for request in self.receiver.received() {
            let body = request.json();
            assert_ne!(body["event"], "qr.updated", "no channel needs a new QR: {body}");
            let needs_link = ["qr", "pending", "logged_out", "failed", "error"].map(Value::from);
            assert!(body["event"] != "channel.status" || !needs_link.contains(&body["data"]["status"]), "{body}");
        }
    }
}

/// Owners are killed, then all nodes at once; then one is paused for ten seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_that_are_killed_amid_sends_lose_and_double_nothing_and_use_no_key_twice() {
    let (channels, each) = (setting("STORM_CHANNELS", 12), setting("STORM_SENDS", 12));
    let (rounds, runs) = (setting("STORM_ROUNDS", 5), setting("STORM_RUNS", 1));
    for run in 1..=runs {
        let began = Instant::now();
        let cluster = cluster(3).await;
        let storm = Storm::gather(&cluster, channels, each * (rounds + 2)).await;
        let nodes = cluster.node_ids();
        let half = channels * each / 3;
        for round in 0..rounds {
            let victim = storm.owner(round * 5).await;
            let before = storm.count();
            let strike = async {
                storm.wait_under_way(before, half).await;
                cluster.kill(victim);
            };
            futures::join!(storm.rage(each), strike);
            cluster.restart(&[victim]).await;
        }
        let before = storm.count();
        let strike = async {
            storm.wait_under_way(before, half).await;
            cluster.kill_all(&nodes);
            cluster.restart(&nodes).await;
        };
        futures::join!(storm.rage(each), strike);
        let (before, victim) = (storm.count(), storm.owner(0).await);
        let strike = async {
            storm.wait_under_way(before, half).await;
            cluster.pause(victim);
            // The duration of the fault, not a wait for a condition.
            tokio::time::sleep(seconds(10)).await;
            cluster.resume(victim);
        };
        futures::join!(storm.rage(each), strike);
        storm.prove().await;
        println!("run {run} of {runs}: {:.0} s", began.elapsed().as_secs_f64());
    }
}
