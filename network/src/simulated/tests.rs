//! Tests the driver against the simulator's server over TCP on loopback.

#![allow(clippy::unwrap_used, reason = "tests")]

mod media;
mod recall;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use model::address::Address;
use model::id::{ChannelId, Epoch, MessageId};
use model::message::Content;
use tokio::sync::mpsc;

use super::*;
use crate::driver::{
    AuthStore, AuthWrite, EVENT_WINDOW, InboundItem, InboundKind, ItemId, Outbound, PairCodeError, QueuedEvent,
    ReceiptStatus, SessionError,
};
use crate::fence::Fence;
use crate::simulator::Simulator;
use crate::simulator::answers::{
    InboxQuery, LedgerQuery, LinkBy, LoginEnd, LoginsQuery, PhoneMessage, PhoneSettings, RegisterPhone, SessionsQuery,
};
use crate::simulator::faults::FaultsChange;

const CHANNEL: &str = "15550000001";
const FRIEND: &str = "15550000002";
const SOON: Duration = Duration::from_secs(10);

/// The in-memory store of one channel.
#[derive(Default)]
struct MemoryStore {
    values: Mutex<HashMap<String, Vec<u8>>>,
    refuse: AtomicBool,
}

#[async_trait]
impl AuthStore for MemoryStore {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, AuthError> {
        Ok(self.values.lock().get(key).cloned())
    }

    fn keys(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let values = self.values.lock();
        let mut names: Vec<String> = values.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
        names.sort();
        names.into_iter().filter(|name| after.is_none_or(|after| name.as_str() > after)).take(limit).collect()
    }

    async fn commit(&self, batch: Vec<AuthWrite>) -> Result<(), AuthError> {
        if self.refuse.load(Ordering::Acquire) {
            return Err(AuthError::Unavailable("no quorum".into()));
        }
        for write in batch {
            let mut values = self.values.lock();
            match write.value {
                Some(value) => values.insert(write.key, value),
                None => values.remove(&write.key),
            };
        }
        Ok(())
    }
}

struct World {
    simulator: Simulator,
    store: Arc<MemoryStore>,
}

/// A session and its events.
struct Line {
    session: Arc<dyn Session>,
    events: mpsc::Receiver<QueuedEvent>,
}

impl World {
    async fn new() -> Self {
        let simulator =
            Simulator::start("127.0.0.1:0".parse().unwrap(), "127.0.0.1:1".parse().unwrap(), 1.0).await.unwrap();
        let world = Self { simulator, store: Arc::default() };
        for number in [CHANNEL, FRIEND] {
            world.register(number, PhoneSettings::default());
        }
        world
    }

    fn register(&self, number: &str, settings: PhoneSettings) {
        self.simulator.register(&RegisterPhone { number: number.into(), settings }).unwrap();
    }

    fn network(&self, node: NodeId) -> SimulatedNetwork {
        SimulatedNetwork::new(self.simulator.network_address().to_string(), node)
    }

    async fn try_open(
        &self,
        network: &SimulatedNetwork,
        fence: &Fence,
        purpose: Purpose,
        capacity: usize,
    ) -> Result<Line, OpenError> {
        let (sender, events) = mpsc::channel(capacity);
        let open = OpenSession {
            channel: ChannelId::random(),
            node: 1,
            fence: fence.clone(),
            purpose,
            proxy: None,
            auth: Arc::clone(&self.store) as Arc<dyn AuthStore>,
            events: sender,
        };
        network.open(open).await.map(|session| Line { session, events })
    }

    async fn open(&self, network: &SimulatedNetwork, fence: &Fence, purpose: Purpose) -> Line {
        self.try_open(network, fence, purpose, 4 * EVENT_WINDOW).await.unwrap()
    }

    /// Pairs the channel and returns its first session, logged in.
    async fn pair(&self, network: &SimulatedNetwork, fence: &Fence) -> Line {
        let mut line =
            self.open(network, fence, Purpose::Pair { device_name: "Gateway".into(), full_history: false }).await;
        let raw = line.qr().await;
        self.simulator.link(CHANNEL, LinkBy::Raw(raw)).await.unwrap();
        assert!(matches!(line.next().await, SessionEvent::Paired(who) if who.phone_number == CHANNEL));
        assert!(matches!(line.next().await, SessionEvent::LoggedIn(who) if who.lid.is_some()));
        line
    }

    async fn login(&self, network: &SimulatedNetwork, fence: &Fence) -> Line {
        let mut line = self.open(network, fence, Purpose::Login).await;
        assert!(matches!(line.next().await, SessionEvent::LoggedIn(_)));
        line
    }

    fn friend_writes(&self, count: u32) -> Vec<MessageId> {
        let body = serde_json::json!({ "to": CHANNEL, "type": "text", "text": "hi", "count": count });
        let message: PhoneMessage = serde_json::from_value(body).unwrap();
        self.simulator.send(FRIEND, &message).unwrap()
    }

    fn ends(&self) -> Vec<Option<LoginEnd>> {
        let logins = self.simulator.look(|engine| engine.logins(&LoginsQuery::default())).unwrap();
        logins.data.into_iter().map(|login| login.end).collect()
    }

    fn live_sessions(&self) -> usize {
        self.simulator.look(|engine| engine.sessions(&SessionsQuery::default())).unwrap().total
    }
}

impl Line {
    async fn next(&mut self) -> SessionEvent {
        self.try_next().await.expect("the session says something")
    }

    /// The next event; `None` when the session has ended.
    async fn try_next(&mut self) -> Option<SessionEvent> {
        tokio::time::timeout(SOON, self.events.recv()).await.expect("an event in time").map(|event| *event)
    }

    async fn qr(&mut self) -> String {
        match self.next().await {
            SessionEvent::Qr { raw, .. } => raw.into(),
            other => panic!("no QR text but {other:?}"),
        }
    }

    async fn inbound(&mut self) -> InboundItem {
        match self.next().await {
            SessionEvent::Inbound(item) => *item,
            other => panic!("nothing inbound but {other:?}"),
        }
    }

    async fn ended(&mut self) -> EndReason {
        match self.next().await {
            SessionEvent::Ended(reason) => reason,
            other => panic!("no end but {other:?}"),
        }
    }

    async fn send(&self, id: &str) -> Result<(), SessionError> {
        let to = Address::parse(&format!("{FRIEND}@s.example")).unwrap();
        let message = Outbound {
            id: MessageId(id.into()),
            to,
            content: Content::Text { text: "hello".into() },
            around: Default::default(),
        };
        self.session.send(message).await
    }
}

fn fence(epoch: Epoch) -> Fence {
    Fence::new(epoch, Instant::now() + Duration::from_secs(600))
}

/// Waits until a condition holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_pairs_sends_and_receives() {
    let world = World::new().await;
    let network = world.network(1);
    let mut line = world.pair(&network, &fence(1)).await;
    assert!(world.store.values.lock().contains_key(CREDENTIALS));

    line.send("A").await.unwrap();
    assert!(matches!(line.next().await, SessionEvent::Accepted { id, .. } if id.as_str() == "A"));
    match line.inbound().await.kind {
        InboundKind::Receipt(receipt) => {
            assert_eq!((receipt.message_id.as_str(), receipt.status), ("A", ReceiptStatus::Delivered));
        }
        other => panic!("{other:?}"),
    }
    let inbox = world.simulator.inbox(FRIEND, &InboxQuery::default()).unwrap();
    assert_eq!((inbox.total, inbox.data[0].copies), (1, 1));
    assert_eq!(inbox.data[0].from.as_str(), format!("{CHANNEL}@s.example"));
    let ledger = world.simulator.look(|engine| engine.accepted(&LedgerQuery::default()));
    assert_eq!(ledger.data[0].node, 1);

    let ids = world.friend_writes(1);
    match line.inbound().await.kind {
        InboundKind::Message(message) => assert_eq!(message.id, ids[0]),
        other => panic!("{other:?}"),
    }
    world.simulator.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pair_code_is_asked_for_and_typed() {
    let world = World::new().await;
    let network = world.network(1);
    let mut line =
        world.open(&network, &fence(1), Purpose::Pair { device_name: "Gateway".into(), full_history: false }).await;
    line.qr().await;
    let refused = line.session.pair_code("19999999999", "Gateway").await;
    assert!(matches!(refused, Err(PairCodeError::Refused { code: 404, .. })), "{refused:?}");
    let code = line.session.pair_code(CHANNEL, "Gateway").await.unwrap();
    world.simulator.link(CHANNEL, LinkBy::PairCode(code.code)).await.unwrap();
    assert!(matches!(line.next().await, SessionEvent::Paired(_)));
    assert!(matches!(line.next().await, SessionEvent::LoggedIn(_)));
    assert!(matches!(line.session.pair_code(CHANNEL, "Gateway").await, Err(PairCodeError::NotPairing)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pairing_that_cannot_be_stored_links_no_device() {
    let world = World::new().await;
    let network = world.network(1);
    world.store.refuse.store(true, Ordering::Release);
    let mut line =
        world.open(&network, &fence(1), Purpose::Pair { device_name: "Gateway".into(), full_history: false }).await;
    let raw = line.qr().await;
    assert!(world.simulator.link(CHANNEL, LinkBy::Raw(raw)).await.is_err());
    assert!(matches!(line.ended().await, EndReason::Transport(_)));
    assert!(world.simulator.phone(CHANNEL).unwrap().devices.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_before_the_login_and_without_credentials_there_is_none() {
    let world = World::new().await;
    let network = world.network(1);
    let mut line =
        world.open(&network, &fence(1), Purpose::Pair { device_name: "Gateway".into(), full_history: false }).await;
    line.qr().await;
    assert!(matches!(line.send("A").await, Err(SessionError::NotLoggedIn)));
    let mut line = world.open(&network, &fence(1), Purpose::Login).await;
    assert!(matches!(line.ended().await, EndReason::AuthState(_)));
    assert!(matches!(line.send("A").await, Err(SessionError::Ended)));
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_credentials_are_refused() {
    let world = World::new().await;
    world.store.values.lock().insert(CREDENTIALS.into(), vec![1, 2, 3]);
    let network = world.network(1);
    let mut line = world.open(&network, &fence(1), Purpose::Login).await;
    assert_eq!(line.ended().await, EndReason::Invalidated);
}

#[tokio::test(flavor = "multi_thread")]
async fn items_come_again_in_order_until_they_are_acknowledged() {
    let world = World::new().await;
    let network = world.network(1);
    let line = world.pair(&network, &fence(1)).await;
    line.session.drain().await;
    let ids = world.friend_writes(2 * EVENT_WINDOW as u32);

    let mut line = world.login(&network, &fence(1)).await;
    let mut first = Vec::new();
    for _ in 0..EVENT_WINDOW {
        first.push(line.inbound().await);
    }
    line.session.acknowledge(first[0].id.clone()).await.unwrap();
    // One acknowledgement makes room for exactly one more item.
    let next = line.inbound().await;
    assert!(matches!(next.kind, InboundKind::Message(message) if message.id == ids[EVENT_WINDOW]));
    line.session.drain().await;
    assert!(line.try_next().await.is_none());

    let mut line = world.login(&network, &fence(1)).await;
    let mut seen = Vec::new();
    while seen.len() < ids.len() - 1 {
        let item = line.inbound().await;
        line.session.acknowledge(item.id.clone()).await.unwrap();
        seen.push(item);
    }
    assert_eq!(seen[..EVENT_WINDOW - 1], first[1..]);
    let order = seen.into_iter().map(|item| match item.kind {
        InboundKind::Message(message) => message.id,
        other => panic!("{other:?}"),
    });
    assert_eq!(order.collect::<Vec<_>>(), ids[1..]);
    assert_eq!(world.simulator.stats().redelivered, EVENT_WINDOW as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_follows_the_close_of_a_session() {
    let world = World::new().await;
    let network = world.network(1);
    world.pair(&network, &fence(1)).await.session.drain().await;
    for _ in 0..100 {
        let line = world.login(&network, &fence(1)).await;
        let talkers = (0..3).map(|_| {
            let session = line.session.clone();
            tokio::spawn(async move { while session.acknowledge(ItemId("none".into())).await.is_ok() {} })
        });
        let talkers: Vec<_> = talkers.collect();
        tokio::task::yield_now().await;
        line.session.drain().await;
        for talker in talkers {
            talker.await.unwrap();
        }
    }
    // Once this login is answered, everything queued behind the last close has arrived.
    world.login(&network, &fence(1)).await;
    assert_eq!(world.simulator.stats().late_writes, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_owner_fences_the_older_one() {
    let world = World::new().await;
    let (old, new) = (world.network(1), world.network(2));
    let mut stale = world.pair(&old, &fence(1)).await;
    let line = world.login(&new, &fence(2)).await;
    assert_eq!(stale.ended().await, EndReason::Fenced);
    assert!(stale.try_next().await.is_none());
    assert!(matches!(stale.send("A").await, Err(SessionError::Ended)));
    line.send("B").await.unwrap();
    until("B is accepted", || world.simulator.stats().accepted == 1).await;
    assert_eq!(world.ends(), [Some(LoginEnd::Fenced), None]);
    assert_eq!((world.simulator.stats().conflicts, world.simulator.stats().late_writes), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_owners_of_one_epoch_are_a_conflict() {
    let world = World::new().await;
    let (old, new) = (world.network(1), world.network(2));
    let mut stale = world.pair(&old, &fence(3)).await;
    let _line = world.login(&new, &fence(3)).await;
    assert_eq!(stale.ended().await, EndReason::Replaced);
    assert_eq!(world.simulator.stats().conflicts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_cut_when_their_fence_passes_and_others_live_on() {
    let world = World::new().await;
    let network = world.network(1);
    let (passing, lasting) = (fence(1), fence(1));
    let mut line = world.pair(&network, &passing).await;
    let mut other =
        world.open(&network, &lasting, Purpose::Pair { device_name: "Other".into(), full_history: false }).await;
    other.qr().await;
    let revoked = Instant::now();
    passing.revoke();
    assert!(matches!(line.send("A").await, Err(SessionError::Fenced | SessionError::Ended)));
    assert_eq!(line.ended().await, EndReason::Fenced);
    let cut_after = revoked.elapsed();
    assert!(cut_after < Duration::from_millis(500), "cut after {cut_after:?}");
    until("the network knows", || world.ends() == [Some(LoginEnd::Lost)]).await;
    assert!(other.session.pair_code(FRIEND, "Other").await.is_ok());
    assert!(matches!(
        world.try_open(&network, &passing, Purpose::Login, 256).await.map(|_| ()),
        Err(OpenError::Fenced)
    ));
    assert_eq!(world.simulator.stats().raw_sends, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_refused_once_is_over_even_when_its_fence_moves_on() {
    let world = World::new().await;
    let network = world.network(1);
    drop(world.pair(&network, &fence(1)).await);
    let short = Fence::new(2, Instant::now() + Duration::from_secs(2));
    let mut line = world.login(&network, &short).await;
    until("the fence passes", || !short.is_live()).await;
    let lost = line.send("A").await;
    short.extend(Instant::now() + Duration::from_secs(600));
    assert!(lost.is_err());
    // Otherwise later messages would overtake the lost one.
    assert_eq!(line.ended().await, EndReason::Fenced);
    assert!(line.send("B").await.is_err());
    let line = world.login(&network, &short).await;
    line.send("A").await.unwrap();
    until("it arrives", || world.simulator.stats().raw_sends == 1).await;
    assert_eq!(world.simulator.stats().conflicts, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_session_says_nothing_more() {
    let world = World::new().await;
    let network = world.network(1);
    let mut line = world.pair(&network, &fence(1)).await;
    line.session.kill();
    assert!(matches!(line.send("A").await, Err(SessionError::Ended)));
    world.friend_writes(3);
    assert!(line.try_next().await.is_none());
    until("the network knows", || world.ends() == [Some(LoginEnd::Lost)]).await;
    assert_eq!(world.simulator.stats().late_writes, 0);
    // The same owner may log in again at once, and unacknowledged items are still there.
    let mut line = world.login(&network, &fence(1)).await;
    line.inbound().await;
    assert_eq!(world.simulator.stats().conflicts, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_session_writes_nothing_that_was_queued() {
    let world = World::new().await;
    let network = world.network(1);
    for round in 1..=20 {
        let line = if round == 1 {
            world.pair(&network, &fence(round)).await
        } else {
            world.login(&network, &fence(round)).await
        };
        let line = Arc::new(line);
        let before = world.simulator.stats().raw_sends;
        let writer = {
            let line = Arc::clone(&line);
            tokio::spawn(async move { while line.send(&MessageId::mint(rand::random()).0).await.is_ok() {} })
        };
        until("it sends", || world.simulator.stats().raw_sends > before + 10).await;
        line.session.kill();
        writer.await.unwrap();
    }
    until("all sessions are over", || world.live_sessions() == 0).await;
    assert_eq!(world.simulator.stats().late_writes, 0);
    assert_eq!(world.simulator.stats().conflicts, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_session_is_over() {
    let world = World::new().await;
    let network = world.network(1);
    drop(world.pair(&network, &fence(1)).await);
    until("the network knows", || world.ends() == [Some(LoginEnd::Lost)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_session_has_flushed_and_is_closed_in_order() {
    let world = World::new().await;
    let network = world.network(1);
    let line = world.pair(&network, &fence(1)).await;
    for n in 0..100 {
        line.send(&format!("M{n}")).await.unwrap();
    }
    line.session.drain().await;
    assert_eq!(world.simulator.stats().accepted, 100);
    assert_eq!(world.ends(), [Some(LoginEnd::Closed)]);
    let ledger = world.simulator.look(|engine| engine.accepted(&LedgerQuery::default())).data;
    let ids: Vec<_> = ledger.iter().map(|row| row.id.as_str().to_owned()).collect();
    assert_eq!(ids, (0..100).map(|n| format!("M{n}")).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logout_unlinks_the_device() {
    let world = World::new().await;
    let network = world.network(1);
    let mut line = world.pair(&network, &fence(1)).await;
    line.session.logout().await.unwrap();
    assert_eq!(line.ended().await, EndReason::Unlinked);
    assert!(world.simulator.phone(CHANNEL).unwrap().devices.is_empty());
    let mut line = world.open(&network, &fence(1), Purpose::Login).await;
    assert_eq!(line.ended().await, EndReason::Unlinked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_ends_all_sessions_and_the_next_one_connects_again() {
    let world = World::new().await;
    let network = world.network(1);
    let mut line = world.pair(&network, &fence(1)).await;
    let cut = FaultsChange { cut_node: Some(vec![1]), ..Default::default() };
    world.simulator.act(|engine, now| engine.change_faults(now, cut)).unwrap();
    assert!(matches!(line.ended().await, EndReason::Transport(_)));
    assert!(matches!(
        world.try_open(&network, &fence(1), Purpose::Login, 256).await.map(|_| ()),
        Err(OpenError::Unreachable(_))
    ));
    world.simulator.act(|engine, now| engine.clear_faults(now));
    let deadline = Instant::now() + SOON;
    let mut line = loop {
        match world.try_open(&network, &fence(1), Purpose::Login, 256).await {
            Ok(line) => break line,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(matches!(line.next().await, SessionEvent::LoggedIn(_)));
    assert_eq!(world.ends(), [Some(LoginEnd::Lost), None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_writes_a_whole_outbox_before_it_reads_hears_every_answer_in_order() {
    let world = World::new().await;
    let network = world.network(1);
    world.pair(&network, &fence(1)).await.session.drain().await;
    world.register(FRIEND, PhoneSettings { online: Some(false), ..Default::default() });
    let mut line = world.try_open(&network, &fence(1), Purpose::Login, 8).await.unwrap();
    assert!(matches!(line.next().await, SessionEvent::LoggedIn(_)));
    let ids: Vec<String> = (0..1_000).map(|n| format!("M{n}")).collect();
    for id in &ids {
        line.send(id).await.unwrap();
    }
    until("all are accepted", || world.simulator.stats().accepted == 1_000).await;
    for id in &ids {
        assert!(matches!(line.next().await, SessionEvent::Accepted { id: accepted, .. } if accepted.as_str() == id));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_never_reads_loses_its_session_and_slows_nobody() {
    let world = World::new().await;
    let network = world.network(1);
    world.pair(&network, &fence(1)).await.session.drain().await;
    let mut line = world.try_open(&network, &fence(1), Purpose::Login, 8).await.unwrap();
    assert!(matches!(line.next().await, SessionEvent::LoggedIn(_)));
    let mut sent = 0;
    while line.send(&format!("M{sent}")).await.is_ok() {
        sent += 1;
    }
    until("the session is cut", || world.ends() == [Some(LoginEnd::Closed), Some(LoginEnd::Lost)]).await;
    let mut last = None;
    while let Some(event) = line.try_next().await {
        last = Some(event);
    }
    assert!(matches!(last, Some(SessionEvent::Ended(EndReason::Transport(_)))), "{last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_session_reports_nothing_of_what_waits_for_room() {
    let world = World::new().await;
    let network = world.network(1);
    world.pair(&network, &fence(1)).await.session.drain().await;
    let mut line = world.try_open(&network, &fence(1), Purpose::Login, 8).await.unwrap();
    assert!(matches!(line.next().await, SessionEvent::LoggedIn(_)));
    for n in 0..100 {
        line.send(&format!("M{n}")).await.unwrap();
    }
    until("all are accepted", || world.simulator.stats().accepted == 100).await;
    until("the queue is full", || line.events.len() == 8).await;
    line.session.kill();
    let mut heard = 0;
    while line.try_next().await.is_some() {
        heard += 1;
    }
    assert_eq!(heard, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_is_not_there_is_unreachable() {
    let world = World::new().await;
    let network = world.network(1);
    world.pair(&network, &fence(1)).await.session.drain().await;
    world.simulator.shutdown().await;
    until("the connection is noticed to be gone", || network.shared.alive().is_none()).await;
    let refused = world.try_open(&network, &fence(1), Purpose::Login, 256).await.map(|_| ());
    assert!(matches!(refused, Err(OpenError::Unreachable(_))), "{refused:?}");
}
