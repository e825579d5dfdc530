//! A channel's owner in this process, the network beside it, and the state that the next owner finds.

#![allow(dead_code, reason = "each program uses its part")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use model::address::Address;
use model::id::{ChannelId, MessageId};
use model::message::{Content, Surroundings};
use model::target::TargetPolicy;
use network::driver::{
    AuthError, AuthStore, AuthWrite, EVENT_WINDOW, EndReason, InboundItem, InboundKind, Network, OpenSession, Outbound,
    Purpose, QueuedEvent, Session, SessionEvent,
};
use network::fence::Fence;
use network::operation::{Answer, Operation, Refused};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testnet::{Config, TestNet};
use tokio::sync::mpsc;
use uuid::Uuid;
use whatsapp::{Endpoint, Settings, WhatsappNetwork};

pub const CHANNEL: &str = "15550000001";
pub const FRIEND: &str = "15550000002";
pub const SOON: Duration = Duration::from_secs(30);

/// A channel's replicated state. One that is dead takes nothing more.
#[derive(Default)]
pub struct Store {
    pub rows: Mutex<BTreeMap<String, Vec<u8>>>,
    pub dead: AtomicBool,
    /// No commit ends.
    pub slow: AtomicBool,
    pub last: Mutex<Option<Instant>>,
}

impl Store {
    /// Whether nothing has been committed for longer than an append waits for others.
    pub fn is_quiet(&self) -> bool {
        self.last.lock().is_some_and(|last| last.elapsed() > Duration::from_secs(3))
    }

    /// What the next owner finds.
    pub fn inherit(&self) -> Arc<Self> {
        self.dead.store(true, Ordering::Release);
        Arc::new(Self { rows: Mutex::new(self.rows.lock().clone()), ..Self::default() })
    }
}

#[async_trait]
impl AuthStore for Store {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, AuthError> {
        Ok(self.rows.lock().get(key).cloned())
    }

    fn keys(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let rows = self.rows.lock();
        let names = rows.range(prefix.to_owned()..).map(|(name, _)| name.clone());
        let under = names.take_while(|name| name.starts_with(prefix));
        under.filter(|name| after.is_none_or(|after| name.as_str() > after)).take(limit).collect()
    }

    async fn commit(&self, batch: Vec<AuthWrite>) -> Result<(), AuthError> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        while self.slow.load(Ordering::Acquire) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        *self.last.lock() = Some(Instant::now());
        let mut rows = self.rows.lock();
        if self.dead.load(Ordering::Acquire) {
            return Err(AuthError::Fenced);
        }
        for AuthWrite { key, value } in batch {
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        }
        Ok(())
    }
}

pub struct World {
    pub net: TestNet,
    pub network: WhatsappNetwork,
    pub http: reqwest::Client,
    pub store: Arc<Store>,
    pub epoch: u64,
}

pub struct Line {
    pub session: Arc<dyn Session>,
    pub events: mpsc::Receiver<QueuedEvent>,
    pub fence: Fence,
}

impl World {
    pub async fn new() -> Self {
        let _ = tracing_subscriber::fmt().with_test_writer().with_max_level(tracing::Level::WARN).try_init();
        // As the binary does at its start.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let net = TestNet::start(Config::anywhere()).await.unwrap();
        let endpoint = Endpoint::test(&format!("ws://{}/ws/chat", net.chat_address())).unwrap();
        let targets = TargetPolicy::dev();
        let settings = Settings { threads: 1, version: None, endpoint, sessions_max: 100, targets };
        let network = WhatsappNetwork::start(settings).unwrap();
        let world = Self { net, network, http: reqwest::Client::new(), store: Arc::default(), epoch: 1 };
        for number in [CHANNEL, FRIEND] {
            world.post("/phones", json!({ "number": number })).await;
        }
        world
    }

    pub async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let url = format!("http://{}{path}", self.net.control_address());
        let mut call = self.http.request(method.parse().unwrap(), url);
        if let Some(body) = body {
            call = call.header("content-type", "application/json").body(body.to_string());
        }
        let answer = call.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    pub async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.call("POST", path, Some(body)).await;
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    }

    pub async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.call("GET", path, None).await;
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    }

    pub async fn open(&mut self, purpose: Purpose) -> Line {
        self.epoch += 1;
        let fence = Fence::new(self.epoch, Instant::now() + Duration::from_secs(600));
        let (sender, events) = mpsc::channel(4 * EVENT_WINDOW);
        let open = OpenSession {
            channel: ChannelId::random(),
            node: 1,
            fence: fence.clone(),
            purpose,
            proxy: None,
            auth: Arc::clone(&self.store) as Arc<dyn AuthStore>,
            events: sender,
        };
        let session = self.network.open(open).await.unwrap();
        Line { session, events, fence }
    }

    pub async fn begin_pairing(&mut self) -> (Line, String) {
        let mut line = self.open(Purpose::Pair { device_name: "Gateway".into(), full_history: false }).await;
        match line.next().await {
            SessionEvent::Qr { raw, sequence: 1, .. } => (line, raw.into()),
            other => panic!("no QR: {other:?}"),
        }
    }

    pub async fn pair(&mut self) -> Line {
        let (mut line, raw) = self.begin_pairing().await;
        self.post(&format!("/phones/{CHANNEL}/link"), json!({ "raw": raw })).await;
        let paired = line.next().await;
        assert!(matches!(&paired, SessionEvent::Paired(who) if who.phone_number == CHANNEL), "{paired:?}");
        line.logged_in().await;
        line
    }

    /// The owner dies, and another takes its place.
    pub async fn take_over(&mut self, line: Line) -> Line {
        self.store = self.store.inherit();
        line.session.kill();
        drop(line);
        let mut line = self.open(Purpose::Login).await;
        line.logged_in().await;
        line
    }

    /// An owner writes just after something came in, and dies; the next one writes, too. The phone gets three messages.
    pub async fn write_after_something_came_in(&mut self, mut line: Line, round: usize) -> Line {
        line.send(&format!("3EB0A{round}"), "before").await;
        line.accepted(&format!("3EB0A{round}")).await;
        let write = format!("/phones/{FRIEND}/messages");
        self.post(&write, json!({ "type": "text", "to": CHANNEL, "text": "came in" })).await;
        // Its owner has it and has not said so: the network gives it to the next one, too.
        let came_in = |event: &SessionEvent| match event {
            SessionEvent::Inbound(item) => matches!(item.kind, InboundKind::Message(_)),
            _ => false,
        };
        while !came_in(&line.next().await) {}
        let id = format!("3EB0B{round}");
        line.send(&id, "in a chain that is new").await;
        while !matches!(line.next().await, SessionEvent::Accepted { id: accepted, .. } if accepted.as_str() == id) {}
        line = self.take_over(line).await;
        line.message().await;
        line.send(&format!("3EB0C{round}"), "of the next owner").await;
        line.accepted(&format!("3EB0C{round}")).await;
        line
    }

    pub async fn inbox(&self) -> Vec<String> {
        let inbox = self.get(&format!("/phones/{FRIEND}/inbox?limit=1000")).await;
        let rows = inbox["data"].as_array().unwrap().clone();
        rows.iter()
            .map(|row| row["text"].as_str().or(row["content"]["text"].as_str()).unwrap_or("").to_owned())
            .collect()
    }

    /// Nothing that the network checks was wrong.
    pub async fn assert_clean(&self) {
        let crypto = self.get("/crypto").await;
        let no = |key: &str| assert_eq!(crypto[key], json!([]), "{key} of {crypto}");
        let lists =
            ["key_reuse", "prekey_conflicts", "prekey_unknown_rows", "body_conflicts", "foreign_acks", "two_live"];
        lists.into_iter().for_each(no);
        assert_eq!(crypto["undecryptable"], json!(0), "{crypto}");
        assert_eq!(crypto["qr_pairings"], json!(1), "{crypto}");
    }
}

pub fn friend() -> Address {
    Address::parse(&format!("{FRIEND}@s.whatsapp.net")).unwrap()
}

impl Line {
    pub async fn next(&mut self) -> SessionEvent {
        match tokio::time::timeout(SOON, self.events.recv()).await {
            Ok(Some(event)) => *event,
            Ok(None) => panic!("the session ended"),
            Err(_) => panic!("nothing was reported"),
        }
    }

    /// The next event that is asked for; items on the way are acknowledged.
    pub async fn until<T>(&mut self, wanted: impl Fn(&SessionEvent) -> Option<T>) -> T {
        loop {
            let event = self.next().await;
            let found = wanted(&event);
            if let SessionEvent::Inbound(item) = &event {
                // After its end a session needs none.
                let _ = self.session.acknowledge(item.id.clone()).await;
            }
            if let Some(found) = found {
                return found;
            }
            assert!(!matches!(event, SessionEvent::Ended(_)), "{event:?}");
        }
    }

    pub async fn logged_in(&mut self) {
        self.until(|event| matches!(event, SessionEvent::LoggedIn(who) if who.phone_number == CHANNEL).then_some(()))
            .await;
    }

    pub async fn ended(&mut self) -> EndReason {
        self.until(|event| match event {
            SessionEvent::Ended(reason) => Some(reason.clone()),
            _ => None,
        })
        .await
    }

    pub async fn send(&self, id: &str, text: &str) {
        self.send_to(friend(), id, Content::Text { text: text.into() }).await;
    }

    pub async fn send_to(&self, to: Address, id: &str, content: Content) {
        let id = MessageId(id.into());
        self.session.send(Outbound { id, to, content, around: Surroundings::default() }).await.unwrap();
    }

    /// What is told until the answer comes, and the answer.
    pub async fn ask(&mut self, id: Uuid, operation: Operation) -> (Vec<SessionEvent>, Result<Answer, Refused>) {
        self.session.operate(id, operation).await.unwrap();
        let mut told = Vec::new();
        loop {
            match self.until(|event| Some(event.clone())).await {
                SessionEvent::Operated { id: answered, result } if answered == id => {
                    return (told, result.map(|answer| *answer));
                }
                event => told.push(event),
            }
        }
    }

    pub async fn accepted(&mut self, id: &str) {
        self.until(|event| match event {
            SessionEvent::Accepted { id: accepted, .. } if accepted.as_str() == id => Some(()),
            SessionEvent::Refused { id, refused } => panic!("{id}: {refused:?}"),
            _ => None,
        })
        .await;
    }

    pub async fn message(&mut self) -> (InboundItem, String) {
        self.until(|event| match event {
            SessionEvent::Inbound(item) => match &item.kind {
                InboundKind::Message(message) => match &message.content {
                    Content::Text { text } => Some(((**item).clone(), text.clone())),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
        .await
    }
}

pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
