//! The rules of the network, tried on the engine alone: time and chance are the test's.

#![allow(clippy::unwrap_used, reason = "tests")]

mod contents;
mod gatherings;

use std::collections::HashMap;

use bytes::Bytes;
use model::address::Address;
use model::id::MessageId;
use model::message::{Content, MessageKey, Surroundings};
use model::time::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::driver::{InboundItem, InboundKind, ItemId, Outbound, ReceiptStatus};
use crate::simulator::answers::{InboxQuery, LedgerQuery, LinkBy, LoginRow, LoginsQuery, PhoneSettings, SessionsQuery};
use crate::simulator::faults::{FaultsChange, RefuseLogins, RefusePairing, Switch};

const CHANNEL: &str = "15550000001";
const FRIEND: &str = "15550000002";

/// An engine, its clock, and what it said to each session.
struct World {
    engine: Engine,
    now: Timestamp,
    heard: HashMap<SessionId, Vec<SessionFrame>>,
    disconnected: Vec<ConnectionId>,
    links: HashMap<Ticket, Result<u32, ControlError>>,
    sessions: u64,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            engine: Engine::new([7; 32], 1.0),
            now: Timestamp(1_700_000_000_000),
            heard: HashMap::new(),
            disconnected: Vec::new(),
            links: HashMap::new(),
            sessions: 0,
        };
        for (connection, node) in [(1, 1), (2, 2)] {
            world.frame(connection, NodeFrame::Hello { version: WIRE_VERSION, node });
        }
        world.register(CHANNEL, PhoneSettings::default());
        world.register(FRIEND, PhoneSettings::default());
        world
    }

    fn register(&mut self, number: &str, settings: PhoneSettings) {
        let now = self.now;
        self.call(|engine| engine.register(now, number_of(number), &settings));
    }

    fn frame(&mut self, connection: ConnectionId, frame: NodeFrame) {
        let now = self.now;
        self.call(|engine| engine.frame(now, connection, frame));
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Engine) -> T) -> T {
        let result = call(&mut self.engine);
        for effect in self.engine.take_effects() {
            match effect {
                Effect::Send { connection, frame: NetworkFrame::Session { session, frame } } => {
                    self.heard.entry(SessionId { connection, number: session }).or_default().push(frame);
                }
                Effect::Send { .. } => {}
                Effect::Disconnect { connection } => self.disconnected.push(connection),
                Effect::Linked { ticket, outcome } => {
                    self.links.insert(ticket, outcome);
                }
            }
        }
        result
    }

    fn pass(&mut self, milliseconds: i64) {
        self.now = Timestamp(self.now.0 + milliseconds);
        let now = self.now;
        self.call(|engine| engine.advance(now));
    }

    /// What a session was told since it was last asked.
    fn take(&mut self, session: SessionId) -> Vec<SessionFrame> {
        self.heard.remove(&session).unwrap_or_default()
    }

    fn number_session(&mut self, connection: ConnectionId) -> SessionId {
        self.sessions += 1;
        SessionId { connection, number: self.sessions }
    }

    fn start_pairing(&mut self, connection: ConnectionId) -> SessionId {
        let session = self.number_session(connection);
        self.frame(connection, NodeFrame::Pair { session: session.number, epoch: 1, device_name: "Gateway".into() });
        session
    }

    fn raw(&mut self, session: SessionId) -> String {
        match self.take(session).pop() {
            Some(SessionFrame::Qr { raw, .. }) => raw,
            other => panic!("no QR text but {other:?}"),
        }
    }

    fn link(&mut self, number: &str, by: LinkBy, ticket: Ticket) -> Result<(), ControlError> {
        let now = self.now;
        self.call(|engine| engine.link(now, number_of(number), &by, ticket))
    }

    /// Pairs a channel with a phone and returns the credentials; the session is closed again.
    fn pair(&mut self, number: &str) -> Bytes {
        let session = self.start_pairing(1);
        let raw = self.raw(session);
        self.link(number, LinkBy::Raw(raw), 1).unwrap();
        let credentials = match self.take(session).pop() {
            Some(SessionFrame::Credentials { credentials, .. }) => credentials,
            other => panic!("no credentials but {other:?}"),
        };
        self.frame(1, NodeFrame::Stored { session: session.number });
        assert_eq!(self.take(session), [SessionFrame::Linked]);
        self.frame(1, NodeFrame::Close { session: session.number });
        credentials
    }

    fn login(&mut self, connection: ConnectionId, epoch: Epoch, credentials: &Bytes) -> SessionId {
        let session = self.number_session(connection);
        let credentials = credentials.clone();
        self.frame(connection, NodeFrame::Login { session: session.number, epoch, credentials });
        session
    }

    fn send(&mut self, session: SessionId, id: &str, to: &str) {
        let message = Outbound {
            id: MessageId(id.into()),
            to: Address::parse(to).unwrap(),
            content: text("hello"),
            around: Surroundings::default(),
        };
        self.frame(session.connection, NodeFrame::send(session.number, message));
    }

    fn phone_sends(&mut self, from: &str, to: &str, count: u32) -> Vec<MessageId> {
        let now = self.now;
        let body = serde_json::json!({ "to": to, "type": "text", "text": "hi", "count": count });
        let message = serde_json::from_value(body).unwrap();
        self.call(|engine| engine.phone_write(now, number_of(from), &message, None)).unwrap()
    }

    fn acknowledge(&mut self, session: SessionId, item: &ItemId) {
        self.frame(session.connection, NodeFrame::Acknowledge { session: session.number, item: item.clone() });
    }

    fn faults(&mut self, change: FaultsChange) {
        let now = self.now;
        self.call(|engine| engine.change_faults(now, change)).unwrap();
    }

    fn stats(&self) -> Stats {
        self.engine.stats()
    }

    fn logins(&self) -> Vec<LoginRow> {
        self.engine.logins(&LoginsQuery::default()).unwrap().data
    }

    fn inbox_ids(&self, number: &str) -> Vec<String> {
        let query = InboxQuery { limit: Some(10_000), ..Default::default() };
        let inbox = self.engine.inbox(number_of(number), &query).unwrap();
        inbox.data.into_iter().map(|row| row.id.0).collect()
    }
}

fn number_of(text: &str) -> Number {
    Number::parse(text).unwrap()
}

fn text(text: &str) -> Content {
    Content::Text { text: text.into() }
}

fn friend() -> String {
    format!("{FRIEND}@s.example")
}

fn items(frames: &[SessionFrame]) -> Vec<InboundItem> {
    let inbound = frames.iter().filter_map(|frame| match frame {
        SessionFrame::Inbound(item) => Some((**item).clone()),
        _ => None,
    });
    inbound.collect()
}

fn statuses(frames: &[SessionFrame]) -> Vec<ReceiptStatus> {
    let receipts = items(frames).into_iter().filter_map(|item| match item.kind {
        InboundKind::Receipt(receipt) => Some(receipt.status),
        _ => None,
    });
    receipts.collect()
}

fn ended(frames: &[SessionFrame]) -> Option<EndReason> {
    match frames.last() {
        Some(SessionFrame::Ended(reason)) => Some(reason.clone()),
        _ => None,
    }
}

#[test]
fn six_qr_texts_rotate_and_then_the_session_ends() {
    let mut world = World::new();
    let session = world.start_pairing(1);
    let started = world.now;
    let mut shown = Vec::new();
    for _ in 0..1_600 {
        world.pass(100);
        shown.extend(world.take(session));
    }
    let last = shown.pop();
    assert_eq!(last, Some(SessionFrame::QrTimeout));
    let lives: Vec<_> = shown
        .iter()
        .map(|frame| match frame {
            SessionFrame::Qr { expires_at, sequence, .. } => (*sequence, expires_at.0 - started.0),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lives, [(1, 60_000), (2, 80_000), (3, 100_000), (4, 120_000), (5, 140_000), (6, 160_000)]);
    world.frame(1, NodeFrame::Close { session: session.number });
    assert_eq!(world.stats().late_writes, 0);
}

#[test]
fn a_qr_text_that_has_rotated_away_links_nothing() {
    let mut world = World::new();
    let session = world.start_pairing(1);
    let raw = world.raw(session);
    world.pass(60_000);
    assert!(world.link(FRIEND, LinkBy::Raw(raw), 1).is_err());
    let raw = world.raw(session);
    assert!(world.link(FRIEND, LinkBy::Raw(raw), 2).is_ok());
}

#[test]
fn qr_times_are_scaled() {
    let mut world = World::new();
    world.faults(FaultsChange { qr_time_scale: Some(0.01), ..Default::default() });
    let session = world.start_pairing(1);
    world.pass(1_600);
    assert_eq!(world.take(session).pop(), Some(SessionFrame::QrTimeout));
}

#[test]
fn a_device_exists_only_once_its_credentials_are_stored() {
    let mut world = World::new();
    let session = world.start_pairing(1);
    let raw = world.raw(session);
    world.link(CHANNEL, LinkBy::Raw(raw), 9).unwrap();
    let credentials = match world.take(session).pop() {
        Some(SessionFrame::Credentials { credentials, .. }) => credentials,
        other => panic!("{other:?}"),
    };
    assert!(world.links.is_empty());
    assert!(world.engine.phone(number_of(CHANNEL)).unwrap().devices.is_empty());
    let early = world.login(2, 5, &credentials);
    assert_eq!(ended(&world.take(early)), Some(EndReason::Invalidated));

    world.frame(1, NodeFrame::Stored { session: session.number });
    assert_eq!(world.links.get(&9), Some(&Ok(1)));
    assert_eq!(world.engine.phone(number_of(CHANNEL)).unwrap().devices.len(), 1);
    world.frame(1, NodeFrame::Login { session: session.number, epoch: 1, credentials });
    assert!(matches!(world.take(session)[..], [SessionFrame::Linked, SessionFrame::LoggedIn(_)]));
}

#[test]
fn a_link_fails_when_the_session_ends_before_the_credentials_are_stored() {
    let mut world = World::new();
    let session = world.start_pairing(1);
    let raw = world.raw(session);
    world.link(CHANNEL, LinkBy::Raw(raw.clone()), 9).unwrap();
    assert!(world.link(CHANNEL, LinkBy::Raw(raw), 10).is_err());
    let now = world.now;
    world.call(|engine| engine.disconnected(now, 1));
    assert!(world.links.get(&9).unwrap().is_err());
}

#[test]
fn a_pair_code_links_its_own_number_while_it_lives() {
    let mut world = World::new();
    let session = world.start_pairing(1);
    world.pass(100_000);
    world.take(session);
    world.frame(1, NodeFrame::PairCode { session: session.number, phone: CHANNEL.into() });
    let code = match world.take(session).pop() {
        Some(SessionFrame::PairCode(code)) => code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code.expires_at, Timestamp(world.now.0 + 160_000));
    let shape: String = code.code.chars().map(|c| if c.is_ascii_digit() { '9' } else { 'A' }).collect();
    assert_eq!(shape, "AAAAA9999", "{}", code.code);
    assert_eq!(code.code.as_bytes()[4], b'-');
    assert!(world.link(FRIEND, LinkBy::PairCode(code.code.clone()), 1).is_err());
    // The QR texts are used up after 160 s; the code keeps the session open for as long as it lives.
    world.pass(159_000);
    assert!(world.link(CHANNEL, LinkBy::PairCode(code.code.to_lowercase()), 2).is_ok());
}

#[test]
fn a_session_ends_with_its_pair_code() {
    let mut world = World::new();
    let session = world.start_pairing(1);
    world.pass(100_000);
    world.frame(1, NodeFrame::PairCode { session: session.number, phone: CHANNEL.into() });
    world.pass(160_000);
    assert_eq!(world.take(session).pop(), Some(SessionFrame::QrTimeout));
}

#[test]
fn pairing_is_refused_as_the_faults_say() {
    let mut world = World::new();
    world.faults(FaultsChange { refuse_pairing: Some(Switch::On(RefusePairing::Code)), ..Default::default() });
    let session = world.start_pairing(1);
    let raw = world.raw(session);
    world.frame(1, NodeFrame::PairCode { session: session.number, phone: CHANNEL.into() });
    assert!(matches!(world.take(session)[..], [SessionFrame::PairCodeRefused { code: 400, .. }]));
    world.faults(FaultsChange { refuse_pairing: Some(Switch::On(RefusePairing::DeviceLimit)), ..Default::default() });
    assert!(world.link(CHANNEL, LinkBy::Raw(raw), 1).is_err());
    assert!(matches!(world.take(session)[..], [SessionFrame::PairingRefused { .. }]));
}

#[test]
fn a_higher_epoch_fences_the_live_session_and_late_writes_are_dropped() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let old = world.login(1, 5, &credentials);
    let new = world.login(2, 6, &credentials);
    assert_eq!(ended(&world.take(old)), Some(EndReason::Fenced));
    world.send(old, "LATE", &friend());
    assert_eq!(world.stats().late_writes, 1);
    assert!(world.inbox_ids(FRIEND).is_empty());
    world.send(new, "GOOD", &friend());
    assert_eq!(world.inbox_ids(FRIEND), ["GOOD"]);
    assert_eq!((world.stats().fenced, world.stats().conflicts, world.stats().sessions), (1, 0, 1));
    let logins = world.logins();
    assert_eq!((logins[0].end, logins[0].node, logins[0].epoch), (Some(LoginEnd::Fenced), 1, 5));
    assert_eq!((logins[1].end, logins[1].node, logins[1].epoch), (None, 2, 6));
}

#[test]
fn the_same_or_a_lower_epoch_is_a_conflict_and_the_new_session_lives() {
    for epoch in [5, 4] {
        let mut world = World::new();
        let credentials = world.pair(CHANNEL);
        let old = world.login(1, 5, &credentials);
        let new = world.login(2, epoch, &credentials);
        assert_eq!(ended(&world.take(old)), Some(EndReason::Replaced));
        assert_eq!((world.stats().fenced, world.stats().conflicts), (0, 1));
        let sessions = world.engine.sessions(&SessionsQuery::default()).unwrap();
        assert_eq!((sessions.data[0].node, sessions.data[0].epoch, sessions.total), (2, epoch, 1));
        world.send(new, "GOOD", &friend());
        assert_eq!(world.inbox_ids(FRIEND), ["GOOD"]);
    }
}

#[test]
fn a_foreign_copy_of_the_device_is_one_conflict_and_then_gone() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let old = world.login(1, 5, &credentials);
    let now = world.now;
    world.call(|engine| engine.replace(now, number_of(CHANNEL))).unwrap();
    assert_eq!(ended(&world.take(old)), Some(EndReason::Replaced));
    world.login(1, 5, &credentials);
    assert_eq!((world.stats().conflicts, world.stats().sessions), (1, 1));
}

#[test]
fn ends_are_recorded_as_closed_or_lost() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let closed = world.login(1, 5, &credentials);
    world.frame(1, NodeFrame::Close { session: closed.number });
    assert_eq!(world.take(closed).pop(), Some(SessionFrame::Closed));
    let cut = world.login(1, 5, &credentials);
    world.frame(1, NodeFrame::Reset { session: cut.number });
    world.login(1, 5, &credentials);
    let now = world.now;
    world.call(|engine| engine.disconnected(now, 1));
    let ends: Vec<_> = world.logins().into_iter().map(|login| login.end).collect();
    assert_eq!(ends, [Some(LoginEnd::Closed), Some(LoginEnd::Lost), Some(LoginEnd::Lost)]);
    assert_eq!(world.stats().conflicts, 0);
}

#[test]
fn a_node_that_connects_again_has_lost_its_older_connection() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    world.login(1, 5, &credentials);
    world.frame(3, NodeFrame::Hello { version: WIRE_VERSION, node: 1 });
    assert_eq!(world.disconnected, [1]);
    world.login(3, 5, &credentials);
    assert_eq!(world.stats().conflicts, 0);
}

#[test]
fn logins_are_refused_for_their_reasons() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let refusals =
        [(RefuseLogins::Version, EndReason::ClientOutdated), (RefuseLogins::Banned, EndReason::Banned { until: None })];
    for (fault, reason) in refusals {
        world.faults(FaultsChange { refuse_logins: Some(Switch::On(fault)), ..Default::default() });
        let session = world.login(1, 5, &credentials);
        assert_eq!(ended(&world.take(session)), Some(reason));
    }
    world.faults(FaultsChange { refuse_logins: Some(Switch::Off(false)), ..Default::default() });
    let forged = world.login(1, 5, &Bytes::from_static(b"forged"));
    assert_eq!(ended(&world.take(forged)), Some(EndReason::Invalidated));

    let now = world.now;
    let until = Some(Timestamp(now.0 + 1_000));
    let live = world.login(1, 5, &credentials);
    world.call(|engine| engine.ban(now, number_of(CHANNEL), until)).unwrap();
    assert_eq!(ended(&world.take(live)), Some(EndReason::Banned { until }));
    world.pass(1_000);
    let live = world.login(1, 5, &credentials);
    let now = world.now;
    world.call(|engine| engine.unlink(now, number_of(CHANNEL), None)).unwrap();
    assert_eq!(ended(&world.take(live)), Some(EndReason::Unlinked));
    let later = world.login(1, 5, &credentials);
    assert_eq!(ended(&world.take(later)), Some(EndReason::Unlinked));

    let credentials = world.pair(CHANNEL);
    let live = world.login(1, 5, &credentials);
    world.call(|engine| engine.invalidate(now, number_of(CHANNEL))).unwrap();
    assert_eq!(ended(&world.take(live)), Some(EndReason::Invalidated));
    world.call(|engine| engine.delete_phone(now, number_of(CHANNEL))).unwrap();
    let later = world.login(1, 5, &credentials);
    assert_eq!(ended(&world.take(later)), Some(EndReason::Invalidated));
}

#[test]
fn a_delayed_login_is_judged_when_it_is_due() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    world.faults(FaultsChange { login_delay_ms: Some(500), ..Default::default() });
    let session = world.login(1, 5, &credentials);
    assert_eq!(world.take(session), []);
    world.pass(500);
    assert!(matches!(world.take(session)[..], [SessionFrame::LoggedIn(_)]));
    let gone = world.login(1, 6, &credentials);
    world.frame(1, NodeFrame::Reset { session: gone.number });
    world.pass(500);
    assert_eq!((world.stats().logins, world.stats().fenced), (1, 0));
}

#[test]
fn a_send_is_accepted_then_delivered_then_read() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.take(session);
    world.send(session, "A", &friend());
    let frames = world.take(session);
    assert!(matches!(&frames[0], SessionFrame::Accepted { id, .. } if id.as_str() == "A"), "{frames:?}");
    assert_eq!(statuses(&frames), [ReceiptStatus::Delivered]);
    let now = world.now;
    world.call(|engine| engine.open_chat(now, number_of(FRIEND), CHANNEL)).unwrap();
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Read]);
    world.call(|engine| engine.open_chat(now, number_of(FRIEND), CHANNEL)).unwrap();
    assert_eq!(statuses(&world.take(session)), []);
}

#[test]
fn a_phone_with_read_receipts_off_never_tells_that_it_read() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    let settings = PhoneSettings { read_receipts: Some(false), auto_read_ms: Some(Some(0)), ..Default::default() };
    world.register(FRIEND, settings);
    world.send(session, "A", &friend());
    world.pass(10);
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Delivered]);
}

#[test]
fn a_phone_reads_by_itself_after_its_time() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.register(FRIEND, PhoneSettings { auto_read_ms: Some(Some(200)), ..Default::default() });
    world.send(session, "A", &friend());
    world.pass(199);
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Delivered]);
    world.pass(1);
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Read]);
}

#[test]
fn a_phone_that_was_away_gets_its_messages_when_it_comes_back() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.register(FRIEND, PhoneSettings { online: Some(false), ..Default::default() });
    world.send(session, "A", &friend());
    world.send(session, "B", &friend());
    assert_eq!(statuses(&world.take(session)), []);
    assert!(world.inbox_ids(FRIEND).is_empty());
    world.register(FRIEND, PhoneSettings { online: Some(true), ..Default::default() });
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Delivered; 2]);
    assert_eq!(world.inbox_ids(FRIEND), ["A", "B"]);
}

#[test]
fn a_send_to_nobody_is_refused() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    let nobody = [
        ("19999999999@s.example", 479),
        ("123456789012345@lid", 479),
        ("1555@elsewhere", 479),
        ("120363@g.example", 404),
        ("120363@n.example", 404),
    ];
    for (to, expected) in nobody {
        world.take(session);
        world.send(session, "A", to);
        let heard = world.take(session);
        assert!(matches!(heard[..], [SessionFrame::Refused { code, .. }] if code == expected), "{to}: {heard:?}");
    }
    assert_eq!((world.stats().refused, world.stats().accepted), (5, 0));
}

#[test]
fn a_lid_reaches_its_subscriber() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    let lid = number_of(FRIEND).lid();
    world.send(session, "A", lid.as_str());
    let row = &world.engine.accepted(&LedgerQuery::default()).data[0];
    assert_eq!((&row.to, row.seq, row.raw_copies, row.node, row.epoch), (&lid, 1, 1, 1, 5));
    assert_eq!(world.inbox_ids(FRIEND), ["A"]);
}

/// How the friend is shown to the channel in a new message.
fn sender_of_next(world: &mut World, session: SessionId) -> (Address, Option<Address>) {
    world.phone_sends(FRIEND, CHANNEL, 1);
    match items(&world.take(session)).pop().unwrap().kind {
        InboundKind::Message(message) => (message.from, message.from_phone),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hidden_number_shows_its_lid_alone_until_it_is_disclosed() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.register(FRIEND, PhoneSettings { hide_number: Some(true), ..Default::default() });
    let lid = number_of(FRIEND).lid();
    let phone = Address::parse(&friend()).unwrap();
    world.take(session);
    assert_eq!(sender_of_next(&mut world, session), (lid.clone(), None));
    let now = world.now;
    for _ in 0..2 {
        world.call(|engine| engine.disclose(now, number_of(FRIEND), CHANNEL)).unwrap();
    }
    let disclosed: Vec<_> = items(&world.take(session)).into_iter().map(|item| item.kind).collect();
    assert_eq!(disclosed, [InboundKind::LidDisclosed { lid: lid.clone(), phone: phone.clone() }]);
    assert_eq!(sender_of_next(&mut world, session), (lid, Some(phone.clone())));
    world.register(FRIEND, PhoneSettings { hide_number: Some(false), ..Default::default() });
    assert_eq!(sender_of_next(&mut world, session), (phone, None));
}

#[test]
fn with_dedup_off_every_copy_reaches_the_phone() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.faults(FaultsChange { dedup: Some(false), ..Default::default() });
    for _ in 0..3 {
        world.send(session, "A", &friend());
    }
    let inbox = world.engine.inbox(number_of(FRIEND), &InboxQuery::default()).unwrap();
    assert_eq!((inbox.total, inbox.data[0].copies), (1, 3));
    assert_eq!(world.engine.accepted(&LedgerQuery::default()).data[0].raw_copies, 3);
    let stats = world.stats();
    assert_eq!((stats.accepted, stats.raw_sends, stats.duplicates_dropped, stats.delivered), (1, 3, 0, 1));
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Delivered]);
}

#[test]
fn lost_sends_and_lost_acceptances_look_the_same_to_the_sender() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.register(FRIEND, PhoneSettings { online: Some(false), ..Default::default() });
    world.take(session);
    world.faults(FaultsChange { drop_before_accept_pct: Some(100.0), ..Default::default() });
    world.send(session, "A", &friend());
    assert_eq!((world.take(session), world.stats().raw_sends, world.stats().accepted), (vec![], 0, 0));
    world.faults(FaultsChange {
        drop_before_accept_pct: Some(0.0),
        drop_after_accept_pct: Some(100.0),
        ..Default::default()
    });
    world.send(session, "A", &friend());
    assert_eq!((world.take(session), world.stats().raw_sends, world.stats().accepted), (vec![], 1, 1));
    let now = world.now;
    world.call(|engine| engine.clear_faults(now));
    world.send(session, "A", &friend());
    assert!(matches!(world.take(session)[..], [SessionFrame::Accepted { .. }]));
    assert_eq!((world.stats().accepted, world.stats().duplicates_dropped), (1, 1));
}

#[test]
fn delayed_acceptances_keep_their_order_and_outlive_the_session() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    let delays = FaultsChange { accept_delay_ms: Some(100), accept_jitter_ms: Some(900), ..Default::default() };
    world.faults(delays);
    let ids: Vec<String> = (0..50).map(|n| format!("M{n}")).collect();
    for id in &ids {
        world.send(session, id, &friend());
        world.pass(5);
    }
    world.frame(1, NodeFrame::Reset { session: session.number });
    world.pass(5_000);
    assert_eq!(world.inbox_ids(FRIEND), ids);
    let again = world.login(1, 5, &credentials);
    world.send(again, "M0", &friend());
    world.pass(5_000);
    assert_eq!(world.stats().duplicates_dropped, 1);
}

#[test]
fn acknowledgements_held_back_make_items_come_again() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.faults(FaultsChange { hold_inbound_acks: Some(true), ..Default::default() });
    world.phone_sends(FRIEND, CHANNEL, 3);
    let first = items(&world.take(session));
    first.iter().for_each(|item| world.acknowledge(session, &item.id));
    let session = world.login(2, 6, &credentials);
    assert_eq!(items(&world.take(session)), first);
    assert_eq!(world.stats().redelivered, 3);
    first.iter().for_each(|item| world.acknowledge(session, &item.id));
    let now = world.now;
    world.call(|engine| engine.clear_faults(now));
    let session = world.login(1, 7, &credentials);
    assert_eq!(items(&world.take(session)), []);
}

#[test]
fn a_node_that_is_cut_stays_out_until_the_fault_ends() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    world.login(1, 5, &credentials);
    world.faults(FaultsChange { cut_node: Some(vec![1]), ..Default::default() });
    assert_eq!(world.logins()[0].end, Some(LoginEnd::Lost));
    world.frame(3, NodeFrame::Hello { version: WIRE_VERSION, node: 1 });
    assert_eq!(world.disconnected, [1, 3]);
    let now = world.now;
    world.call(|engine| engine.clear_faults(now));
    world.frame(4, NodeFrame::Hello { version: WIRE_VERSION, node: 1 });
    let session = world.login(4, 5, &credentials);
    assert!(matches!(world.take(session)[..], [SessionFrame::LoggedIn(_)]));
}

#[test]
fn a_nack_refuses_new_sends_and_never_one_that_was_accepted() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.send(session, "A", &friend());
    let nack = crate::simulator::faults::Nack { code: 463, pct: 100.0 };
    world.faults(FaultsChange { nack: Some(Some(nack)), ..Default::default() });
    world.take(session);
    world.send(session, "A", &friend());
    assert!(matches!(world.take(session)[..], [SessionFrame::Accepted { .. }]));
    world.send(session, "B", &friend());
    assert!(matches!(world.take(session)[..], [SessionFrame::Refused { code: 463, .. }]));
}

#[test]
fn a_reset_forgets_everything() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    world.login(1, 5, &credentials);
    let now = world.now;
    world.call(|engine| engine.reset(now));
    assert_eq!(world.disconnected, [1, 2]);
    assert_eq!(world.stats(), Stats::default());
    assert!(world.engine.phone(number_of(CHANNEL)).is_err());
    world.frame(5, NodeFrame::Hello { version: WIRE_VERSION, node: 1 });
    let session = world.login(5, 6, &credentials);
    assert_eq!(ended(&world.take(session)), Some(EndReason::Invalidated));
}

#[test]
fn the_inbox_and_the_ledger_are_paged() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    for n in 0..5 {
        world.send(session, &format!("M{n}"), &friend());
    }
    let query = InboxQuery { after: Some("M1".into()), limit: Some(2), ..Default::default() };
    let page = world.engine.inbox(number_of(FRIEND), &query).unwrap();
    assert_eq!(page.data.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["M2", "M3"]);
    assert_eq!(page.total, 5);
    let one = InboxQuery { id: Some("M4".into()), from: Some(CHANNEL.into()), ..Default::default() };
    assert_eq!(world.engine.inbox(number_of(FRIEND), &one).unwrap().total, 1);
    let page = world.engine.accepted(&LedgerQuery { since_seq: Some(3), limit: None });
    assert_eq!(page.data.iter().map(|row| row.seq).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(page.total, 5);
    let shown = serde_json::to_value(&world.engine.inbox(number_of(FRIEND), &one).unwrap().data[0]).unwrap();
    assert_eq!(shown["type"], "text");
    assert_eq!(shown["text"], "hello");
}

/// What may happen, in any order.
#[derive(Clone, Debug)]
enum Deed {
    Login { connection: ConnectionId, epoch: Epoch },
    Close { session: usize },
    Reset { session: usize },
    Send { session: usize, id: u8 },
    Inbound,
    Acknowledge { session: usize, items: usize },
    Lose { connection: ConnectionId },
    Pass { milliseconds: i64 },
    Delays { milliseconds: u64 },
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let session = 0..8_usize;
    let deed = prop_oneof![
        3 => (1..=2_u64, 1..6_u64).prop_map(|(connection, epoch)| Deed::Login { connection, epoch }),
        1 => session.clone().prop_map(|session| Deed::Close { session }),
        1 => session.clone().prop_map(|session| Deed::Reset { session }),
        6 => (session.clone(), 0..20_u8).prop_map(|(session, id)| Deed::Send { session, id }),
        4 => Just(Deed::Inbound),
        4 => (session, 1..5_usize).prop_map(|(session, items)| Deed::Acknowledge { session, items }),
        1 => (1..=2_u64).prop_map(|connection| Deed::Lose { connection }),
        3 => (1..400_i64).prop_map(|milliseconds| Deed::Pass { milliseconds }),
        1 => (0..300_u64).prop_map(|milliseconds| Deed::Delays { milliseconds }),
    ];
    proptest::collection::vec(deed, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever nodes do: one live session a device, no message twice, nothing inbound lost or out of order.
    #[test]
    fn the_network_keeps_its_promises(deeds in deeds()) {
        let mut world = World::new();
        let credentials = world.pair(CHANNEL);
        let mut opened: Vec<SessionId> = Vec::new();
        let mut sent: Vec<String> = Vec::new();
        let mut acknowledged: Vec<ItemId> = Vec::new();
        for deed in deeds {
            let pick = |index: usize| (!opened.is_empty()).then(|| opened[opened.len() - 1 - index % opened.len()]);
            match deed {
                Deed::Login { connection, epoch } => opened.push(world.login(connection, epoch, &credentials)),
                Deed::Close { session } => if let Some(id) = pick(session) {
                    world.frame(id.connection, NodeFrame::Close { session: id.number });
                },
                Deed::Reset { session } => if let Some(id) = pick(session) {
                    world.frame(id.connection, NodeFrame::Reset { session: id.number });
                },
                Deed::Send { session, id } => if let Some(session) = pick(session) {
                    world.send(session, &format!("M{id}"), &friend());
                },
                Deed::Inbound => sent.extend(world.phone_sends(FRIEND, CHANNEL, 1).into_iter().map(|id| id.0)),
                Deed::Acknowledge { session, items: count } => if let Some(session) = pick(session) {
                    let seen = items(world.heard.get(&session).map_or(&[][..], |heard| &heard[..]));
                    let live = world.engine.live(session).is_some();
                    let open: Vec<_> = seen.into_iter().filter(|item| !acknowledged.contains(&item.id)).collect();
                    for item in open.into_iter().take(count) {
                        world.acknowledge(session, &item.id);
                        if live {
                            acknowledged.push(item.id);
                        }
                    }
                },
                Deed::Lose { connection } => {
                    let now = world.now;
                    world.call(|engine| engine.disconnected(now, connection));
                    world.frame(connection, NodeFrame::Hello { version: WIRE_VERSION, node: connection });
                }
                Deed::Pass { milliseconds } => world.pass(milliseconds),
                Deed::Delays { milliseconds } => world.faults(FaultsChange {
                    accept_delay_ms: Some(milliseconds),
                    accept_jitter_ms: Some(milliseconds),
                    login_delay_ms: Some(milliseconds),
                    ..Default::default()
                }),
            }
            let live = opened.iter().filter(|session| world.engine.live(**session).is_some()).count();
            prop_assert!(live <= 1, "{live} sessions of one device");
            prop_assert_eq!(world.stats().sessions, live as u64);
            let unended = world.logins().iter().filter(|login| login.end.is_none()).count();
            prop_assert_eq!(unended, live);
        }
        world.pass(10_000);
        let mut inbox = world.inbox_ids(FRIEND);
        let rows = world.engine.accepted(&LedgerQuery { since_seq: None, limit: Some(10_000) });
        let copies: u64 = rows.data.iter().map(|row| u64::from(row.raw_copies)).sum();
        prop_assert_eq!(copies, world.stats().raw_sends);
        prop_assert_eq!(inbox.len(), rows.total);
        inbox.sort_unstable();
        inbox.dedup();
        prop_assert_eq!(inbox.len(), rows.total);

        // A last login gets, in order, every message that was not acknowledged.
        let now = world.now;
        world.call(|engine| engine.clear_faults(now));
        let mut known: HashMap<ItemId, String> = HashMap::new();
        for item in world.heard.values().flat_map(|heard| items(heard)) {
            if let InboundKind::Message(message) = item.kind {
                known.insert(item.id, message.id.0);
            }
        }
        let gone: Vec<&String> = acknowledged.iter().filter_map(|item| known.get(item)).collect();
        let expected: Vec<String> = sent.iter().filter(|id| !gone.contains(id)).cloned().collect();
        let last = world.login(1, 100, &credentials);
        let mut received = Vec::new();
        loop {
            let batch = items(&world.take(last));
            if batch.is_empty() {
                break;
            }
            for item in batch {
                world.acknowledge(last, &item.id);
                if let InboundKind::Message(message) = item.kind {
                    received.push(message.id.0);
                }
            }
        }
        prop_assert_eq!(received, expected);
    }

    /// The engine takes any frame in any state without falling over.
    #[test]
    fn no_frame_upsets_the_engine(frames in proptest::collection::vec((1..4_u64, 0..9_u8, 0..4_u64), 1..60)) {
        let mut world = World::new();
        let credentials = world.pair(CHANNEL);
        for (connection, kind, session) in frames {
            let frame = match kind {
                0 => NodeFrame::Hello { version: WIRE_VERSION, node: connection },
                1 => NodeFrame::Login { session, epoch: session, credentials: credentials.clone() },
                2 => NodeFrame::Pair { session, epoch: 1, device_name: String::new() },
                3 => NodeFrame::PairCode { session, phone: CHANNEL.into() },
                4 => NodeFrame::Stored { session },
                5 => NodeFrame::Acknowledge { session, item: ItemId(format!("x-{session}")) },
                6 => NodeFrame::Logout { session },
                7 => NodeFrame::Close { session },
                _ => NodeFrame::Reset { session },
            };
            world.frame(connection, frame);
            world.pass(1_000);
        }
        let live = world.engine.sessions(&SessionsQuery::default()).unwrap().total;
        prop_assert_eq!(world.stats().sessions, live as u64);
    }
}
