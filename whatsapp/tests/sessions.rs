//! Sessions against a network on loopback that speaks the true protocol: pairing, log-in, text both ways, and what the owner's
//! death leaves.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use model::address::Address;
use model::id::{ChannelId, MessageId};
use model::message::{Content, Surroundings};
use network::driver::{
    AuthError, AuthStore, AuthWrite, EVENT_WINDOW, EndReason, InboundItem, InboundKind, Network, OpenSession, Outbound,
    Purpose, ReceiptStatus, Session, SessionEvent,
};
use network::fence::Fence;
use network::operation::RefusedKind;
use parking_lot::Mutex;
use serde_json::{Value, json};
use testnet::{Config, TestNet};
use tokio::sync::mpsc;
use whatsapp::{Endpoint, Settings, VERSION, WhatsappNetwork};

const CHANNEL: &str = "15550000001";
const FRIEND: &str = "15550000002";
const SOON: Duration = Duration::from_secs(30);

/// A channel's replicated state. One that is dead takes nothing more.
#[derive(Default)]
struct Store {
    rows: Mutex<BTreeMap<String, Vec<u8>>>,
    dead: AtomicBool,
}

impl Store {
    /// What the next owner finds.
    fn inherit(&self) -> Arc<Self> {
        self.dead.store(true, Ordering::Release);
        Arc::new(Self { rows: Mutex::new(self.rows.lock().clone()), dead: AtomicBool::new(false) })
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

struct World {
    net: TestNet,
    network: WhatsappNetwork,
    http: reqwest::Client,
    store: Arc<Store>,
    epoch: u64,
}

struct Line {
    session: Arc<dyn Session>,
    events: mpsc::Receiver<SessionEvent>,
    fence: Fence,
}

impl World {
    async fn new() -> Self {
        let _ = tracing_subscriber::fmt().with_test_writer().with_max_level(tracing::Level::WARN).try_init();
        // As the binary does at its start.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let net = TestNet::start(Config::anywhere()).await.unwrap();
        let endpoint = Endpoint::test(&format!("ws://{}/ws/chat", net.chat_address())).unwrap();
        let settings = Settings { threads: 1, version: VERSION, endpoint, sessions_max: 100 };
        let network = WhatsappNetwork::start(settings).unwrap();
        let world = Self { net, network, http: reqwest::Client::new(), store: Arc::default(), epoch: 1 };
        for number in [CHANNEL, FRIEND] {
            world.post("/phones", json!({ "number": number })).await;
        }
        world
    }

    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
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

    async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.call("POST", path, Some(body)).await;
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    }

    async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.call("GET", path, None).await;
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    }

    async fn open(&mut self, purpose: Purpose) -> Line {
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

    async fn begin_pairing(&mut self) -> (Line, String) {
        let mut line = self.open(Purpose::Pair { device_name: "Gateway".into(), full_history: false }).await;
        match line.next().await {
            SessionEvent::Qr { raw, sequence: 1, .. } => (line, raw.into()),
            other => panic!("no QR: {other:?}"),
        }
    }

    async fn pair(&mut self) -> Line {
        let (mut line, raw) = self.begin_pairing().await;
        self.post(&format!("/phones/{CHANNEL}/link"), json!({ "raw": raw })).await;
        let paired = line.next().await;
        assert!(matches!(&paired, SessionEvent::Paired(who) if who.phone_number == CHANNEL), "{paired:?}");
        line.logged_in().await;
        line
    }

    /// The owner dies, and another takes its place.
    async fn take_over(&mut self, line: Line) -> Line {
        self.store = self.store.inherit();
        line.session.kill();
        drop(line);
        let mut line = self.open(Purpose::Login).await;
        line.logged_in().await;
        line
    }

    async fn inbox(&self) -> Vec<String> {
        let inbox = self.get(&format!("/phones/{FRIEND}/inbox?limit=1000")).await;
        let rows = inbox["data"].as_array().unwrap().clone();
        rows.iter()
            .map(|row| row["text"].as_str().or(row["content"]["text"].as_str()).unwrap_or("").to_owned())
            .collect()
    }

    /// Nothing that the network checks was wrong.
    async fn assert_clean(&self) {
        let crypto = self.get("/crypto").await;
        let no = |key: &str| assert_eq!(crypto[key], json!([]), "{key} of {crypto}");
        ["key_reuse", "prekey_conflicts", "body_conflicts", "foreign_acks", "two_live"].into_iter().for_each(no);
        assert_eq!(crypto["undecryptable"], json!(0), "{crypto}");
        assert_eq!(crypto["qr_pairings"], json!(1), "{crypto}");
    }
}

fn friend() -> Address {
    Address::parse(&format!("{FRIEND}@s.whatsapp.net")).unwrap()
}

impl Line {
    async fn next(&mut self) -> SessionEvent {
        match tokio::time::timeout(SOON, self.events.recv()).await {
            Ok(Some(event)) => event,
            Ok(None) => panic!("the session ended"),
            Err(_) => panic!("nothing was reported"),
        }
    }

    /// The next event that is asked for; items on the way are acknowledged.
    async fn until<T>(&mut self, wanted: impl Fn(&SessionEvent) -> Option<T>) -> T {
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

    async fn logged_in(&mut self) {
        self.until(|event| matches!(event, SessionEvent::LoggedIn(who) if who.phone_number == CHANNEL).then_some(()))
            .await;
    }

    async fn ended(&mut self) -> EndReason {
        self.until(|event| match event {
            SessionEvent::Ended(reason) => Some(reason.clone()),
            _ => None,
        })
        .await
    }

    async fn send(&self, id: &str, text: &str) {
        self.send_to(friend(), id, Content::Text { text: text.into() }).await;
    }

    async fn send_to(&self, to: Address, id: &str, content: Content) {
        let id = MessageId(id.into());
        self.session.send(Outbound { id, to, content, around: Surroundings::default() }).await.unwrap();
    }

    async fn accepted(&mut self, id: &str) {
        self.until(|event| match event {
            SessionEvent::Accepted { id: accepted, .. } if accepted.as_str() == id => Some(()),
            SessionEvent::Refused { id, refused } => panic!("{id}: {refused:?}"),
            _ => None,
        })
        .await;
    }

    async fn message(&mut self) -> (InboundItem, String) {
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

async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_pairs_by_qr_writes_is_read_and_logs_in_again_without_another() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    line.send("3EB0A1", "hello").await;
    // The receipt may overtake the network's acknowledgement.
    let (mut is_accepted, mut is_delivered) = (false, false);
    while !(is_accepted && is_delivered) {
        match line.until(|event| Some(event.clone())).await {
            SessionEvent::Accepted { id, .. } => is_accepted |= id.as_str() == "3EB0A1",
            SessionEvent::Inbound(item) => {
                if let InboundKind::Receipt(receipt) = &item.kind {
                    assert_eq!(receipt.message_id.as_str(), "3EB0A1");
                    is_delivered |= receipt.status == ReceiptStatus::Delivered;
                }
            }
            _ => {}
        }
    }
    until("the phone reads it", async || (world.inbox().await == ["hello"]).then_some(())).await;
    line.session.drain().await;
    let mut line = world.open(Purpose::Login).await;
    line.logged_in().await;
    line.send("3EB0A2", "again").await;
    line.accepted("3EB0A2").await;
    until("the phone reads both", async || (world.inbox().await == ["hello", "again"]).then_some(())).await;
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_phone_writes_comes_once_and_in_order_and_is_kept_until_it_is_acknowledged() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    for n in 0..3 {
        let body = json!({ "type": "text", "to": CHANNEL, "text": format!("to you {n}") });
        world.post(&format!("/phones/{FRIEND}/messages"), body).await;
    }
    for n in 0..3 {
        let (item, text) = line.message().await;
        assert_eq!(text, format!("to you {n}"), "{item:?}");
    }
    // One that no owner acknowledges comes again to the next.
    let body = json!({ "type": "text", "to": CHANNEL, "text": "unheard" });
    world.post(&format!("/phones/{FRIEND}/messages"), body).await;
    loop {
        if let SessionEvent::Inbound(item) = line.next().await
            && matches!(item.kind, InboundKind::Message(_))
        {
            break;
        }
    }
    let mut line = world.take_over(line).await;
    // What was acknowledged so late that the network did not hear of it comes again, too: the state machine knows it.
    let mut heard = line.message().await.1;
    while heard.starts_with("to you ") {
        heard = line.message().await.1;
    }
    assert_eq!(heard, "unheard");
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_dies_at_any_moment_loses_and_doubles_nothing_and_no_key_is_used_twice() {
    const KILLS: usize = 12;
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let mut sent = Vec::new();
    for kill in 0..KILLS {
        let mut open: Vec<String> = Vec::new();
        for n in 0..5 {
            let id = format!("3EB0{kill:02}{n:02}");
            line.send(&id, &id).await;
            open.push(id);
        }
        sent.extend(open.iter().cloned());
        // Now here, now there in the middle of it.
        tokio::time::sleep(Duration::from_millis(7 * kill as u64)).await;
        line = world.take_over(line).await;
        for id in &open {
            // As the outbox does: what was not accepted goes out again, under its id.
            line.send(id, id).await;
        }
        let mut left: HashSet<&str> = open.iter().map(String::as_str).collect();
        while !left.is_empty() {
            let id = line
                .until(|event| match event {
                    SessionEvent::Accepted { id, .. } => Some(id.clone()),
                    _ => None,
                })
                .await;
            left.remove(id.as_str());
        }
    }
    until("the phone has all of it", async || (world.inbox().await.len() >= sent.len()).then_some(())).await;
    assert_eq!(world.inbox().await, sent, "each once, and in order");
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pairing_that_is_not_stored_is_not_answered() {
    let mut world = World::new().await;
    let (mut line, raw) = world.begin_pairing().await;
    world.store.dead.store(true, Ordering::Release);
    let (status, _) = world.call("POST", &format!("/phones/{CHANNEL}/link"), Some(json!({ "raw": raw }))).await;
    assert_eq!(status, 400, "the phone shows a failed link");
    assert_eq!(line.ended().await, EndReason::Fenced);
    world.store = world.store.inherit();
    assert!(world.store.rows.lock().is_empty());
    let mut line = world.pair().await;
    line.send("3EB0A1", "hello").await;
    line.accepted("3EB0A1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_whose_right_has_passed_says_nothing_more() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    // The pairing's own connection may have had some, after the network ended it.
    let before = world.get("/stats").await["late_writes"].clone();
    line.fence.revoke();
    assert_eq!(line.ended().await, EndReason::Fenced);
    assert!(
        line.session
            .send(Outbound {
                id: MessageId("3EB0A1".into()),
                to: friend(),
                content: Content::Text { text: "late".into() },
                around: Surroundings::default(),
            })
            .await
            .is_err()
    );
    assert_eq!(world.get("/stats").await["late_writes"], before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_network_s_last_words_are_understood() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    world.post(&format!("/phones/{CHANNEL}/replace"), json!({})).await;
    assert_eq!(line.ended().await, EndReason::Replaced);
    for (reason, wanted) in
        [(405, EndReason::ClientOutdated), (403, EndReason::Banned { until: None }), (406, EndReason::Invalidated)]
    {
        world.post(&format!("/devices/{CHANNEL}/1/failure"), json!({ "reason": reason })).await;
        let mut line = world.open(Purpose::Login).await;
        assert_eq!(line.ended().await, wanted, "{reason}");
    }
    world.post(&format!("/devices/{CHANNEL}/1/failure"), json!({ "reason": 503 })).await;
    let mut line = world.open(Purpose::Login).await;
    assert!(matches!(line.ended().await, EndReason::Transport(_)));
    world.call("DELETE", &format!("/devices/{CHANNEL}/1/failure"), None).await;
    let mut line = world.open(Purpose::Login).await;
    line.logged_in().await;
    world.post(&format!("/phones/{CHANNEL}/unlink"), json!({})).await;
    assert_eq!(line.ended().await, EndReason::Unlinked);
    let mut line = world.open(Purpose::Login).await;
    assert_eq!(line.ended().await, EndReason::Unlinked, "and later log-ins are told the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_registered_and_what_cannot_be_sent_is_refused_for_good() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let refused = |event: &SessionEvent| match event {
        SessionEvent::Refused { refused, .. } => Some((**refused).clone()),
        _ => None,
    };
    let nobody = Address::parse("15550009999@s.whatsapp.net").unwrap();
    line.send_to(nobody, "3EB0A1", Content::Text { text: "hello".into() }).await;
    assert_eq!(line.until(refused).await.kind, RefusedKind::Recipient);
    let poll = Content::Poll { name: "?".into(), options: vec!["a".into()], selectable_count: 1 };
    line.send_to(friend(), "3EB0A2", poll).await;
    let unsupported = line.until(refused).await;
    assert_eq!((unsupported.kind, unsupported.text.as_str()), (RefusedKind::Unsupported, "messages.poll"));
}
