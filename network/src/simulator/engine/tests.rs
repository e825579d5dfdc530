//! Tests of the network's rules on the bare engine, with controlled time and randomness.

#![allow(clippy::unwrap_used, reason = "tests")]

mod contents;
mod gatherings;
mod kept;
mod logins;
mod pairing;
mod promises;
mod traffic;

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

/// An engine, its clock, and the frames that it sent to each session.
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
            engine: Engine::new([7; 32], "http://control.example".into(), 1.0),
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

    /// The frames sent to a session since the last call.
    fn take(&mut self, session: SessionId) -> Vec<SessionFrame> {
        self.heard.remove(&session).unwrap_or_default()
    }

    fn number_session(&mut self, connection: ConnectionId) -> SessionId {
        self.sessions += 1;
        SessionId { connection, number: self.sessions }
    }

    fn start_pairing(&mut self, connection: ConnectionId) -> SessionId {
        let session = self.number_session(connection);
        self.frame(
            connection,
            NodeFrame::Pair { session: session.number, epoch: 1, device_name: "Gateway".into(), full_history: false },
        );
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

    /// Pairs a channel with a phone, closes the session, and returns the credentials.
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
