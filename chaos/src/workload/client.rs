//! A client of the gateway: one call at a time, through any node, with a timeout, and recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use tests::http::{self, Api, try_answer};
use tests::simulator::Simulator;
use tokio_util::sync::CancellationToken;

use crate::history::record::UNANSWERED;
use crate::history::{Answer, Call, Op, Outcome, Record, Recorder};
use crate::world::map::{Map, Maps, Place};

/// Timeout of a call: longer than the gateway itself waits for anything (10 s for an acceptance), shorter than a fault.
const DEADLINE: Duration = Duration::from_secs(13);

/// State that all clients of a workload share.
pub struct Shared {
    pub maps: Maps,
    pub http: reqwest::Client,
    pub recorder: Arc<Recorder>,
    /// Once this is cancelled, no call begins.
    pub stop: CancellationToken,
    pub seed: u64,
    /// The node that gets all calls that may go to any node, if it is a member.
    drawn_to: Mutex<Option<u64>>,
    clients: AtomicU32,
}

impl Shared {
    pub fn new(maps: Maps, recorder: Arc<Recorder>, seed: u64) -> Self {
        let (http, stop) = (http::client(), CancellationToken::new());
        Self { maps, http, recorder, stop, seed, drawn_to: Mutex::new(None), clients: AtomicU32::new(0) }
    }

    pub fn map(&self) -> Map {
        self.maps.borrow().clone()
    }

    pub fn draw_to(&self, node: Option<u64>) {
        *self.drawn_to.lock() = node;
    }

    pub fn simulator(&self) -> Simulator {
        self.map().simulator(&self.http)
    }

    /// A client. Its random choices depend on the run's seed and on its number among the clients.
    pub fn client(self: &Arc<Self>, tenant: &Tenant) -> Client {
        let id = self.clients.fetch_add(1, Ordering::Relaxed);
        let dice = StdRng::seed_from_u64(self.seed ^ (u64::from(id) << 32));
        Client { id, tenant: tenant.clone(), shared: self.clone(), http: self.http.clone(), dice }
    }
}

/// A customer, from its clients' view.
#[derive(Clone, Debug)]
pub struct Tenant {
    pub name: String,
    pub customer: String,
    pub key: String,
}

pub struct Client {
    pub id: u32,
    pub tenant: Tenant,
    pub shared: Arc<Shared>,
    /// Shared by all clients, except those on `threads` of their own.
    pub http: reqwest::Client,
    pub dice: StdRng,
}

/// A request, independent of client and node.
#[derive(Clone)]
pub struct ApiRequest {
    method: Method,
    path: String,
    /// As JSON.
    body: Option<String>,
}

impl ApiRequest {
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: None }
    }

    pub fn post(path: impl Into<String>, body: Value) -> Self {
        Self::as_written(path, body.to_string())
    }

    /// A POST with a body that is sent as it is, including whitespace.
    pub fn as_written(path: impl Into<String>, body: String) -> Self {
        Self { method: Method::POST, path: path.into(), body: Some(body) }
    }

    pub fn patch(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::PATCH, path: path.into(), body: Some(body.to_string()) }
    }

    pub fn delete(path: impl Into<String>) -> Self {
        Self { method: Method::DELETE, path: path.into(), body: None }
    }

    /// The body as JSON.
    pub fn body(&self) -> &str {
        self.body.as_deref().unwrap_or_default()
    }

    /// For people: `GET /v1/channels`.
    pub fn told(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// Extracts from the body of a success what the checks need.
pub type Reading = fn(&Value) -> Option<Answer>;

pub fn nothing(_: &Value) -> Option<Answer> {
    Some(Answer::Nothing)
}

pub fn made(body: &Value) -> Option<Answer> {
    Some(Answer::Made { id: body["id"].as_str()?.to_owned() })
}

impl Client {
    pub fn is_stopped(&self) -> bool {
        self.shared.stop.is_cancelled()
    }

    /// A random member, as a load balancer without health checks would choose it; or the node of [`Shared::draw_to`].
    pub fn any_node(&mut self) -> Place {
        let (nodes, drawn_to) = (self.nodes(), *self.shared.drawn_to.lock());
        let chosen = self.dice.random_range(0..nodes.len());
        nodes.iter().find(|node| Some(node.id) == drawn_to).unwrap_or(&nodes[chosen]).clone()
    }

    /// A random member other than `one`, if there is another; or the node of [`Shared::draw_to`], even if it is `one`.
    pub fn any_node_but(&mut self, one: &Place) -> Place {
        let drawn_to = *self.shared.drawn_to.lock();
        let mut others = self.nodes();
        others.retain(|node| node.id != one.id);
        if drawn_to.is_some() || others.is_empty() {
            return self.any_node();
        }
        let chosen = self.dice.random_range(0..others.len());
        others.swap_remove(chosen)
    }

    pub fn nodes(&self) -> Vec<Place> {
        self.shared.map().nodes
    }

    /// Waits for about this long, or until the workload stops.
    pub async fn pause(&mut self, about: Duration) {
        let pause = about.mul_f64(self.dice.random_range(0.5..1.5));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.shared.stop.cancelled() => {}
        }
    }

    /// Sends a request to a node, and records the outcome.
    pub async fn call(&self, node: &Place, op: Op, asked: ApiRequest, read: Reading) -> Outcome {
        self.call_with(&self.tenant.key, node, op, asked, read).await.0
    }

    /// As [`Self::call`] with another key. Also returns the body of a success, for what is not recorded.
    pub async fn call_with(
        &self,
        key: &str,
        node: &Place,
        op: Op,
        asked: ApiRequest,
        read: Reading,
    ) -> (Outcome, Value) {
        let api = Api::new(self.http.clone(), &node.api, Some(key));
        let mut request = api.request(asked.method, &asked.path).timeout(DEADLINE);
        if let Some(body) = asked.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let begin = self.shared.recorder.now();
        let (outcome, body) = judge_answer(try_answer(request).await, read);
        self.record(node.id, begin, op, outcome.clone());
        (outcome, body)
    }

    /// Triggers an action of a phone, and records it as a call to the network.
    pub async fn phone(&self, op: Op, path: &str, body: Value, read: Reading) -> Outcome {
        self.phone_with(Method::POST, op, path, body, read).await
    }

    /// As [`Self::phone`] with another method.
    pub async fn phone_with(&self, method: Method, op: Op, path: &str, body: Value, read: Reading) -> Outcome {
        let simulator = self.shared.simulator();
        let request = simulator.api().request(method, path).timeout(DEADLINE).json(&body);
        let begin = self.shared.recorder.now();
        let (outcome, _) = judge_answer(try_answer(request).await, read);
        self.record(0, begin, op, outcome.clone());
        outcome
    }

    pub fn record(&self, node: u64, begin: crate::history::At, op: Op, outcome: Outcome) {
        let (client, tenant, end) = (self.id, self.tenant.name.clone(), self.shared.recorder.now());
        self.shared.recorder.write(&Record::Call(Call { client, tenant, node, begin, end, op, outcome }));
    }
}

fn judge_answer(answer: Result<http::Answer, reqwest::Error>, read: Reading) -> (Outcome, Value) {
    let unknown = |why: String| (Outcome::Unknown { why }, Value::Null);
    match answer {
        // Nothing was sent, so the call has no effect.
        Err(error) if error.is_connect() => {
            (Outcome::Refused { status: 0, code: "no_connection".to_owned() }, Value::Null)
        }
        Err(error) => unknown(if error.is_timeout() { UNANSWERED.to_owned() } else { error.to_string() }),
        Ok(answer) => {
            let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let code = body["error"]["code"].as_str().unwrap_or_default().to_owned();
            match answer.status {
                200..300 => match read(&body) {
                    Some(read) => (Outcome::Done(read), body),
                    None => unknown(format!("{} that cannot be read: {}", answer.status, answer.text())),
                },
                status @ 400..500 => (Outcome::Refused { status, code }, body),
                status => unknown(format!("{status} {code}")),
            }
        }
    }
}

/// The ids in the rows of a list.
pub fn ids_in(body: &Value, field: &str) -> Option<Answer> {
    let rows = body["data"].as_array()?;
    Some(Answer::Ids { ids: rows.iter().filter_map(|row| row[field].as_str().map(str::to_owned)).collect() })
}

/// Whether a node reports that load balancers may send it requests.
pub async fn is_ready(shared: &Shared, node: &Place, patience: Duration) -> bool {
    let operator = shared.map().operator(node, &shared.http);
    let answer = try_answer(operator.request(Method::GET, "/readyz").timeout(patience)).await;
    answer.is_ok_and(|answer| answer.status == 200)
}

/// A request of the setup, which must succeed. It is retried, as the cluster may still be forming.
pub async fn insist(api: &Api, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let start = std::time::Instant::now();
    loop {
        let request = api.request(method.clone(), path).timeout(DEADLINE).json(body);
        let last = match try_answer(request).await {
            Ok(answer) if (200..300).contains(&answer.status) => {
                return if answer.body.is_empty() {
                    Ok(Value::Null)
                } else {
                    serde_json::from_slice(&answer.body).with_context(|| format!("{method} {path}"))
                };
            }
            Ok(answer) => format!("{} {}", answer.status, answer.text()),
            Err(error) => error.to_string(),
        };
        anyhow::ensure!(start.elapsed() < PATIENCE, "{method} {path}: nothing but {last} within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
