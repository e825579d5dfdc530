//! Sends that continue while something happens to the cluster, and their results.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Client;
use serde_json::json;
use tokio::task::{JoinError, JoinHandle, JoinSet};

use crate::http::{Api, client, string, try_answer};
use crate::simulator::Simulator;
use crate::tenant::{Paired, Tenant, text};
use crate::wait::{check, eventually};

/// How long accepted sends may take to reach the network after the load has ended.
const ARRIVAL: Duration = Duration::from_secs(60);

/// The most sends that wait for a response at a time. Beyond it, sends start late, which shows in their durations.
const IN_FLIGHT: usize = 2_000;

/// State that the sender shares with its handle.
struct Plan {
    /// The nodes that requests go to, in turn, as from a load balancer.
    nodes: Mutex<Vec<Api>>,
    stop: AtomicBool,
}

/// A load whose sends start at fixed times, whatever the results of earlier ones.
pub struct Load {
    plan: Arc<Plan>,
    client: Client,
    sender: JoinHandle<Report>,
}

/// The results of the sends.
#[derive(Debug, Default)]
pub struct Report {
    /// The ids of the accepted sends.
    pub taken: Vec<String>,
    pub failures: Vec<String>,
    /// The longest duration of a send, measured from its scheduled start.
    pub longest: Duration,
    /// How long the load ran.
    pub lasted: Duration,
}

impl Load {
    /// Sends texts to a number from these channels in turn, `per_second` in total, through these nodes.
    pub fn start(tenant: &Tenant, channels: &[Paired], to: &str, nodes: &[u64], per_second: u32) -> Self {
        let client = client();
        let apis = Mutex::new(apis(tenant, &client, nodes));
        let plan = Arc::new(Plan { nodes: apis, stop: AtomicBool::new(false) });
        let sender = tokio::spawn(send(plan.clone(), channels.to_vec(), to.to_owned(), per_second));
        Self { plan, client, sender }
    }

    /// Directs further requests to these nodes.
    pub fn use_nodes(&self, tenant: &Tenant, nodes: &[u64]) {
        *self.plan.nodes.lock().expect("no holder panics") = apis(tenant, &self.client, nodes);
    }

    /// Stops the load, waits for the last responses, and returns the results.
    pub async fn end(self) -> Report {
        self.plan.stop.store(true, Ordering::Release);
        self.sender.await.expect("the sender does not panic")
    }
}

fn apis(tenant: &Tenant, client: &Client, nodes: &[u64]) -> Vec<Api> {
    nodes.iter().map(|node| tenant.cluster.api(*node, client).with_key(&tenant.key)).collect()
}

/// The id of a send or its error, and its duration.
type Sent = (Result<String, String>, Duration);

async fn send(plan: Arc<Plan>, channels: Vec<Paired>, to: String, per_second: u32) -> Report {
    let mut report = Report::default();
    let began = tokio::time::Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second.max(1));
    let mut in_flight: JoinSet<Sent> = JoinSet::new();
    for number in 0_usize.. {
        let due = ticks.tick().await;
        while in_flight.len() >= IN_FLIGHT {
            report.add(in_flight.join_next().await);
        }
        while let Some(sent) = in_flight.try_join_next() {
            report.add(Some(sent));
        }
        if plan.stop.load(Ordering::Acquire) {
            break;
        }
        let api = {
            let nodes = plan.nodes.lock().expect("no holder panics");
            nodes[number % nodes.len()].clone()
        };
        let path = channels[number % channels.len()].path("/messages");
        let words = text(&to, &number.to_string());
        in_flight.spawn(async move {
            let sent = match try_answer(api.request(reqwest::Method::POST, &path).json(&words)).await {
                Ok(answer) if answer.status == 202 => Ok(string(&answer.json()["message_id"])),
                Ok(answer) => Err(format!("{}: {}", api.base(), answer.text())),
                Err(error) => Err(format!("{}: {error}", api.base())),
            };
            (sent, due.elapsed())
        });
    }
    report.lasted = began.elapsed();
    while let Some(sent) = in_flight.join_next().await {
        report.add(Some(sent));
    }
    report
}

impl Report {
    fn add(&mut self, sent: Option<Result<Sent, JoinError>>) {
        let Some(sent) = sent else { return };
        let (sent, took) = sent.expect("a send does not panic");
        self.longest = self.longest.max(took);
        match sent {
            Ok(id) => self.taken.push(id),
            Err(failure) => self.failures.push(failure),
        }
    }

    /// Sends per second.
    pub fn rate(&self) -> f64 {
        (self.taken.len() + self.failures.len()) as f64 / self.lasted.as_secs_f64()
    }

    /// Waits until the network has accepted each send exactly once, and asserts that no channel had two sessions.
    pub async fn prove(&self, simulator: &Simulator) {
        let taken: HashSet<&String> = self.taken.iter().collect();
        assert_eq!(taken.len(), self.taken.len(), "an id for each send");
        eventually("all that was taken is accepted, once each", ARRIVAL, async || {
            let ledger = simulator.ledger_by_id().await;
            let wrong: Vec<_> = taken.iter().filter(|id| ledger.get(**id).map_or(0, Vec::len) != 1).collect();
            check(wrong.is_empty(), format!("{} of {}: {wrong:?}", wrong.len(), taken.len()))
        })
        .await;
        let stats = simulator.stats().await;
        assert_eq!(stats["conflicts"], json!(0), "{stats}");
    }
}
