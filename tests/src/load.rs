//! Sends that go on while something is done to the cluster, and what became of them.

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

/// How long what was taken may need to reach the network after the load has ended.
const ARRIVAL: Duration = Duration::from_secs(60);

/// Sends whose answers are waited for at the same time: beyond that the next ones start late, which shows in their times.
const IN_FLIGHT: usize = 2_000;

/// What senders agree upon.
struct Plan {
    /// Where requests go, as a balancer would send them: nodes come and go.
    nodes: Mutex<Vec<Api>>,
    stop: AtomicBool,
}

/// Sends that start at their time, whatever became of those before them.
pub struct Load {
    plan: Arc<Plan>,
    client: Client,
    sender: JoinHandle<Report>,
}

/// What became of the sends.
#[derive(Debug, Default)]
pub struct Report {
    /// The ids of those that were taken.
    pub taken: Vec<String>,
    pub failures: Vec<String>,
    /// The longest that one send took, from the moment when it should have started.
    pub longest: Duration,
    /// How long sends were made.
    pub lasted: Duration,
}

impl Load {
    /// Sends texts to a number from these channels in turn, `per_second` in all, through these nodes.
    pub fn start(tenant: &Tenant, channels: &[Paired], to: &str, nodes: &[u64], per_second: u32) -> Self {
        let client = client();
        let apis = Mutex::new(apis(tenant, &client, nodes));
        let plan = Arc::new(Plan { nodes: apis, stop: AtomicBool::new(false) });
        let sender = tokio::spawn(send(plan.clone(), channels.to_vec(), to.to_owned(), per_second));
        Self { plan, client, sender }
    }

    /// From now on requests go to these nodes.
    pub fn use_nodes(&self, tenant: &Tenant, nodes: &[u64]) {
        *self.plan.nodes.lock().expect("no holder panics") = apis(tenant, &self.client, nodes);
    }

    /// Stops the sends, waits for the last answers, and says what became of them.
    pub async fn end(self) -> Report {
        self.plan.stop.store(true, Ordering::Release);
        self.sender.await.expect("the sender does not panic")
    }
}

fn apis(tenant: &Tenant, client: &Client, nodes: &[u64]) -> Vec<Api> {
    nodes.iter().map(|node| tenant.cluster.api(*node, client).with_key(&tenant.key)).collect()
}

/// A send's id, or what was answered instead, and how long that took.
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

    /// Sends a second that were made.
    pub fn rate(&self) -> f64 {
        (self.taken.len() + self.failures.len()) as f64 / self.lasted.as_secs_f64()
    }

    /// Waits until the network has accepted all that was taken, and sees to it that it was once each, and that no
    /// session met another.
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
