//! A webhook receiver: it keeps every request unchanged, and answers as the test tells it to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::signature;
use crate::wait::eventually;

/// A received request.
#[derive(Clone, Debug)]
pub struct Received {
    /// Index of the request at this receiver, from 0.
    pub index: usize,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub at: SystemTime,
    /// The status of the response; `None` if the request was left hanging or its connection was closed.
    pub answered: Option<u16>,
}

impl Received {
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn event(&self) -> String {
        self.json()["event"].as_str().unwrap_or_default().to_owned()
    }

    pub fn event_id(&self) -> String {
        self.json()["event_id"].as_str().unwrap_or_default().to_owned()
    }

    /// Asserts all that the API promises about a delivery: headers, envelope, signature. Returns `t`.
    #[track_caller]
    pub fn verify(&self, secret: &str) -> u64 {
        let body = self.json();
        assert_eq!(self.header("content-type"), "application/json");
        assert!(self.header("user-agent").starts_with("gateway-webhooks/"), "{}", self.header("user-agent"));
        assert_eq!(body["event"], self.header("x-gateway-event"));
        assert_eq!(body["event_id"], self.header("x-gateway-event-id"));
        assert_eq!(body["api_version"], "2026-04");
        let event_id = self.event_id();
        let ulid = event_id.strip_prefix("evt_").unwrap_or_else(|| panic!("event_id {event_id}"));
        let crockford = |b: u8| b.is_ascii_digit() || (b.is_ascii_uppercase() && !b"ILOU".contains(&b));
        assert!(ulid.len() == 26 && ulid.bytes().all(crockford), "event_id {event_id}");
        crate::http::uuid(&body["channel_id"]);
        crate::http::time(&body["occurred_at"]);
        assert!(body["data"].is_object(), "{body}");
        let now = self.at.duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let signed = signature::verify(secret, self.header("x-gateway-signature"), &self.body, now);
        signed.unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// How a receiver answers a request.
#[derive(Clone, Debug)]
pub enum Reply {
    Status(u16),
    /// Answers with an additional header.
    Header(u16, &'static str, String),
    /// Answers with a body.
    Body(u16, Bytes),
    /// Answers after this delay.
    Slow(Duration, u16),
    /// Never answers, and keeps the connection open.
    Hang,
    /// Closes the connection without an answer.
    Cut,
}

type Rule = Box<dyn Fn(&Received) -> Reply + Send + Sync>;

/// A running receiver. It stops when the last clone is dropped.
#[derive(Clone)]
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    _server: Arc<Server>,
}

struct Shared {
    received: Mutex<Vec<Received>>,
    rule: Mutex<Rule>,
}

struct Server(JoinHandle<()>);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Receiver {
    /// Starts a receiver on a free port of 127.0.0.1. It answers 200 until told otherwise.
    pub async fn start() -> Self {
        Self::start_at(0).await
    }

    /// Starts a receiver on this free port of 127.0.0.1.
    pub async fn start_at(port: u16) -> Self {
        Self::start_on(([127, 0, 0, 1], port).into()).await.expect("the port is free")
    }

    /// Starts a receiver on an address of this machine.
    ///
    /// # Errors
    /// If it cannot listen on the address.
    pub async fn start_on(address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let rule: Rule = Box::new(|_| Reply::Status(200));
        let shared = Arc::new(Shared { received: Mutex::default(), rule: Mutex::new(rule) });
        let server = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self { address, shared, _server: Arc::new(Server(server)) })
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sets how the receiver answers from now on.
    pub fn answer(&self, rule: impl Fn(&Received) -> Reply + Send + Sync + 'static) {
        *self.shared.rule.lock().expect("no holder panics") = Box::new(rule);
    }

    /// All requests so far.
    pub fn received(&self) -> Vec<Received> {
        self.shared.received.lock().expect("no holder panics").clone()
    }

    /// The requests to a path with an event.
    pub fn of(&self, path: &str, event: &str) -> Vec<Received> {
        let mut requests = self.received();
        requests.retain(|request| request.path == path && request.event() == event);
        requests
    }

    /// Waits for a request for which `wanted` is true.
    pub async fn wait_for(&self, what: &str, within: Duration, wanted: impl Fn(&Received) -> bool) -> Received {
        eventually(&format!("the receiver got {what}"), within, async || {
            let requests = self.received();
            let event = |request: &Received| request.headers.get("x-gateway-event").cloned();
            let seen = || requests.iter().map(event).collect::<Vec<_>>();
            requests.iter().find(|request| wanted(request)).cloned().ok_or_else(|| format!("{:?}", seen()))
        })
        .await
    }

    /// Waits for an event about a message.
    pub async fn wait_message(&self, event: &str, message_id: &str, within: Duration) -> Received {
        let what = format!("{event} of {message_id}");
        // Cheap filter: every poll looks at all bodies, few contain the id, and parsing all of them costs more.
        let names = |request: &Received| std::str::from_utf8(&request.body).is_ok_and(|body| body.contains(message_id));
        let wanted = |request: &Received| {
            names(request) && request.event() == event && request.json()["data"]["message_id"] == message_id
        };
        self.wait_for(&what, within, wanted).await
    }

    /// The event ids under which `event` reported each message, whatever the responses were.
    pub fn event_ids(&self, event: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for request in self.shared.received.lock().expect("no holder panics").iter() {
            let body = request.json();
            if let (true, Some(message)) = (body["event"] == event, body["data"]["message_id"].as_str()) {
                let event_id = body["event_id"].as_str().unwrap_or_default();
                ids.entry(message.to_owned()).or_default().insert(event_id.to_owned());
            }
        }
        ids
    }

    /// Takes the requests so far, so that counting many of them stays cheap.
    pub fn take(&self) -> Vec<Received> {
        std::mem::take(&mut *self.shared.received.lock().expect("no holder panics"))
    }

    pub fn clear(&self) {
        self.shared.received.lock().expect("no holder panics").clear();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| handle(request, shared.clone()));
            // A connection that the gateway or a `Cut` closes is no failure of the receiver.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn handle(request: Request<Incoming>, shared: Arc<Shared>) -> anyhow::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let path = head.uri.path().to_owned();
    let mut received = Received { index: 0, path, headers: head.headers, body, at: SystemTime::now(), answered: None };
    let (reply, index) = {
        let mut all = shared.received.lock().expect("no holder panics");
        received.index = all.len();
        let reply = (shared.rule.lock().expect("no holder panics"))(&received);
        received.answered = match &reply {
            Reply::Status(status) | Reply::Header(status, ..) | Reply::Body(status, _) => Some(*status),
            Reply::Slow(..) | Reply::Hang | Reply::Cut => None,
        };
        all.push(received);
        (reply, all.len() - 1)
    };
    let answer = |status: u16| {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::from_u16(status).expect("a test names a real status");
        response
    };
    match reply {
        Reply::Status(status) => Ok(answer(status)),
        Reply::Header(status, name, value) => {
            let mut response = answer(status);
            response.headers_mut().insert(name, value.parse()?);
            Ok(response)
        }
        Reply::Body(status, body) => {
            let mut response = answer(status);
            *response.body_mut() = Full::new(body);
            Ok(response)
        }
        Reply::Slow(delay, status) => {
            tokio::time::sleep(delay).await;
            if let Some(received) = shared.received.lock().expect("no holder panics").get_mut(index) {
                received.answered = Some(status);
            }
            Ok(answer(status))
        }
        Reply::Hang => std::future::pending().await,
        Reply::Cut => anyhow::bail!("cut"),
    }
}

#[cfg(test)]
mod tests {
    use reqwest::Method;
    use serde_json::json;

    use super::*;
    use crate::http::{Api, client, try_answer};

    #[tokio::test]
    async fn it_keeps_what_came_and_answers_as_told() {
        let receiver = Receiver::start().await;
        let api = Api::new(client(), &receiver.url(""), None);
        api.post("/a", json!({ "event": "x", "event_id": "evt_1", "data": { "message_id": "m" } })).await.expect(200);
        receiver.answer(|request| if request.path == "/cut" { Reply::Cut } else { Reply::Status(503) });
        api.post("/b", json!({ "event": "y" })).await.expect(503);
        assert!(try_answer(api.request(Method::POST, "/cut").body("{}")).await.is_err());
        let all = receiver.received();
        assert!(all.len() >= 3, "{all:?}");
        assert_eq!((all[0].answered, all[1].answered, all[2].answered), (Some(200), Some(503), None));
        assert_eq!(receiver.of("/a", "x").len(), 1);
        assert!(receiver.event_ids("x")["m"].contains("evt_1"));
    }
}
