//! Sends that go on while something is done to the cluster, and what became of them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::http::{Api, client, string, try_answer};
use crate::simulator::Simulator;
use crate::tenant::{Paired, Tenant, text};
use crate::wait::{check, eventually};

/// How long what was taken may need to reach the network after the load has ended.
const ARRIVAL: Duration = Duration::from_secs(60);

/// What senders agree upon.
struct Plan {
    /// Where requests go, as a balancer would send them: nodes come and go.
    nodes: Mutex<Vec<Api>>,
    stop: AtomicBool,
}

/// Senders at work.
pub struct Load {
    plan: Arc<Plan>,
    tenant: (Client, String),
    senders: Vec<JoinHandle<Report>>,
}

/// What became of the sends.
#[derive(Debug, Default)]
pub struct Report {
    /// The ids of those that were taken.
    pub taken: Vec<String>,
    pub failures: Vec<String>,
    /// The longest that one send took.
    pub longest: Duration,
}

impl Load {
    /// Sends texts to a number from these channels in turn, `per_second` in all, through these nodes.
    pub fn start(tenant: &Tenant, channels: &[Paired], to: &str, nodes: &[u64], per_second: u32) -> Self {
        const SENDERS: u32 = 16;
        let plan = Arc::new(Plan { nodes: Mutex::default(), stop: AtomicBool::new(false) });
        let load = Self { plan: plan.clone(), tenant: (client(), tenant.key.clone()), senders: Vec::new() };
        load.use_nodes(tenant, nodes);
        let pause = Duration::from_secs(1) * SENDERS / per_second.max(1);
        let senders = (0..SENDERS as usize).map(|sender| {
            let (plan, to) = (plan.clone(), to.to_owned());
            // A channel is one sender's, so that its order can be told.
            let own: Vec<Paired> = channels.iter().skip(sender).step_by(SENDERS as usize).cloned().collect();
            tokio::spawn(async move {
                let mut report = Report::default();
                let mut ticks = tokio::time::interval(pause);
                ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                for number in 0_usize.. {
                    ticks.tick().await;
                    if plan.stop.load(Ordering::Acquire) || own.is_empty() {
                        break;
                    }
                    let nodes = plan.nodes.lock().expect("no holder panics").clone();
                    let api = &nodes[(number + sender) % nodes.len()];
                    let path = own[number % own.len()].path("/messages");
                    let words = text(&to, &format!("{sender}-{number}"));
                    let began = Instant::now();
                    let request = api.request(reqwest::Method::POST, &path).json(&words);
                    match try_answer(request).await {
                        Ok(answer) if answer.status == 202 => report.taken.push(string(&answer.json()["message_id"])),
                        Ok(answer) => report.failures.push(format!("{}: {}", api.base(), answer.text())),
                        Err(error) => report.failures.push(format!("{}: {error}", api.base())),
                    }
                    report.longest = report.longest.max(began.elapsed());
                }
                report
            })
        });
        let senders = senders.collect();
        Self { senders, ..load }
    }

    /// From now on requests go to these nodes.
    pub fn use_nodes(&self, tenant: &Tenant, nodes: &[u64]) {
        let (client, key) = &self.tenant;
        *self.plan.nodes.lock().expect("no holder panics") =
            nodes.iter().map(|node| tenant.cluster.api(*node, client).with_key(key)).collect();
    }

    /// Stops the senders, and gives what they did.
    pub async fn end(self) -> Report {
        self.plan.stop.store(true, Ordering::Release);
        let mut whole = Report::default();
        for sender in self.senders {
            let report = sender.await.expect("a sender does not panic");
            whole.taken.extend(report.taken);
            whole.failures.extend(report.failures);
            whole.longest = whole.longest.max(report.longest);
        }
        whole
    }
}

impl Report {
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
