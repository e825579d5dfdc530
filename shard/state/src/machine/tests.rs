//! Tests of the shard's state machine without Raft: its rules, repeated commands, and invariants in any order.

#![allow(clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;
use machine::{Machine, MemoryState, Position, State, View};
use model::address::{Address, Suffixes};
use model::event::{EventId, EventName};
use model::id::{ChannelId, CustomerId, DeliveryId, EndpointId, MessageId, RowId};
use model::message::{Content, MessageKey, Quoted, Surroundings};
use model::status::{Reason, Status};
use model::time::Timestamp;
use model::webhook::DeliveryState;
use proptest::prelude::*;
use traffic::item::{AuthWrite, ReceiptStatus};

use super::*;
use crate::command::{Batch, BatchReply, NewDelivery};
use crate::history::{MessageStatus, Source};
use crate::records::{Failure, MessageRow, MessageState, OutboxEntry};
use crate::retention::Expire;

mod deliveries;
mod outbox;
mod repeats;
mod usage;

pub(super) const CHANNEL: ChannelId = ChannelId(uuid::Uuid::from_u128(1));
pub(super) const CUSTOMER: CustomerId = CustomerId(uuid::Uuid::from_u128(2));
pub(super) const ENDPOINT: EndpointId = EndpointId(uuid::Uuid::from_u128(3));

/// A machine with its state, driven as Raft would.
pub(super) struct Rig {
    machine: ShardMachine,
    state: MemoryState,
    index: u64,
    /// The format of the cluster.
    format: Format,
}

impl Default for Rig {
    fn default() -> Self {
        Self { machine: ShardMachine, state: MemoryState::new(), index: 0, format: Format::LATEST }
    }
}

impl Rig {
    fn apply(&mut self, term: u64, epoch: u64, commands: Vec<Command>) -> BatchReply {
        self.index += 1;
        let batch = Batch { version: self.format, epoch, node: 1, commands };
        let entry = msgpack::to_vec_named(&batch).unwrap();
        let reply = self.machine.apply(Position { term, index: self.index }, &entry, &mut self.state).unwrap();
        msgpack::from_slice(&reply).unwrap()
    }

    pub(super) fn run(&mut self, command: Command) -> Reply {
        match self.apply(1, 1, vec![command]) {
            BatchReply::Replies(mut replies, _) => replies.pop().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.state.get(key)
    }

    pub(super) fn view(&self) -> &dyn View {
        &self.state
    }

    pub(super) fn connected() -> Self {
        let mut rig = Self::default();
        assert_eq!(rig.run(moved(0, Status::Connected)), Reply::Done);
        rig
    }

    pub(super) fn count(&self, range: keys::Range) -> usize {
        self.state.scan(&range.0, &range.1, usize::MAX).len()
    }

    fn delivery(&self, id: DeliveryId) -> DeliveryRow {
        decode(&self.state.get(&keys::delivery(ENDPOINT, id)).unwrap())
    }

    pub(super) fn status_of(&self, row: &MessageRow) -> MessageStatus {
        MessageState::read(&self.state, row).status
    }
}

pub(super) fn moved(expect: u64, to: Status) -> Command {
    Command::Move(Move {
        channel: CHANNEL,
        customer: CUSTOMER,
        expect,
        to,
        reason: Reason::User,
        at: Timestamp(10),
        wipe_credentials: to == Status::LoggedOut,
        identity: None,
        disabled_by_operator: false,
        moved_by: None,
        events: Vec::new(),
        details: None,
    })
}

#[test]
fn credentials_go_in_portions_and_what_can_log_in_goes_with_the_move() {
    let mut rig = Rig::connected();
    let write = |key: String| AuthWrite { key, value: Some(vec![1; 100]) };
    for portion in (0..1200).collect::<Vec<_>>().chunks(100) {
        let writes = portion.iter().map(|number| write(format!("key/{number}"))).collect();
        assert_eq!(rig.run(Command::Auth { channel: CHANNEL, customer: CUSTOMER, writes }), Reply::Done);
    }
    let writes = vec![write(CREDENTIALS.into())];
    assert_eq!(rig.run(Command::Auth { channel: CHANNEL, customer: CUSTOMER, writes }), Reply::Done);
    let mut portions = Vec::new();
    loop {
        let writes = credentials_to_thin(rig.view(), CHANNEL);
        if writes.is_empty() {
            break;
        }
        portions.push(writes.len());
        assert_eq!(rig.run(Command::Auth { channel: CHANNEL, customer: CUSTOMER, writes }), Reply::Done);
    }
    assert_eq!((portions.iter().sum::<usize>() + rig.count(keys::auth_of(CHANNEL)), portions.len()), (1201, 2));
    assert!(portions.iter().all(|portion| *portion <= CREDENTIALS_AT_ONCE), "{portions:?}");
    assert!(rig.get(&keys::auth(CHANNEL, CREDENTIALS)).is_some());
    assert_eq!(rig.run(moved(1, Status::LoggedOut)), Reply::Done);
    assert_eq!(rig.count(keys::auth_of(CHANNEL)), 0);
}

pub(crate) fn row(id: &str, direction: Direction) -> MessageRow {
    let peer = Suffixes::simulated().phone_address("15551230000");
    MessageRow {
        id: RowId::new(),
        message_id: MessageId(id.into()),
        channel: CHANNEL,
        direction,
        source: Source::Api,
        chat: peer.clone(),
        is_group: false,
        from: peer.clone(),
        from_resolved: true,
        from_lid: None,
        from_phone: None,
        to: peer,
        participant: None,
        push_name: None,
        content: Content::Text { text: "hi".into() },
        around: Default::default(),
        client_ref: None,
        request_id: None,
        correlation_id: "cor".into(),
        occurred_at: Timestamp(100),
        created_at: Timestamp(100),
    }
}

pub(super) fn accept(row: &MessageRow) -> Command {
    let entry = OutboxEntry::whole(row);
    Command::AcceptSend {
        customer: CUSTOMER,
        message: NewMessage::of(row),
        outbox: Bytes::from(encode(&entry)),
        media: None,
        projected: Vec::new(),
        room: None,
    }
}

/// An event with one delivery.
pub(super) fn event(name: EventName) -> (NewEvent, DeliveryId) {
    let delivery = DeliveryId::new();
    let event = NewEvent {
        id: EventId::mint(Timestamp(1), *delivery.as_bytes().last_chunk().unwrap()),
        name,
        channel: CHANNEL,
        customer: CUSTOMER,
        message: None,
        correlation_id: None,
        chat: None,
        body: Bytes::from_static(b"{}"),
        at: Timestamp(50),
        deliveries: vec![NewDelivery { id: delivery, endpoint: ENDPOINT, url: "https://example.com".into() }],
        streamed: None,
        outdated: false,
    };
    (event, delivery)
}

pub(super) fn settle(id: &MessageId, verdict: Verdict) -> (Command, DeliveryId) {
    let (event, delivery) = event(EventName::MessageSent);
    let settle = Command::Settle {
        channel: CHANNEL,
        message: id.clone(),
        verdict,
        at: Timestamp(200),
        events: vec![event],
        projected: Vec::new(),
    };
    (settle, delivery)
}

#[test]
fn a_watched_event_waits_for_its_home_once_and_what_follows_from_it_is_told_once() {
    let mut rig = Rig::connected();
    let relayed = |rig: &Rig, home| -> Vec<EventId> {
        crate::stream::ring::relayed(&rig.state, home, 0).into_iter().map(|(_, event)| event.id).collect()
    };
    let watched = Some(Streamed { home: 7, chat: model::payload::ChatType::None });
    let (wanted, delivery) = event(EventName::ChannelStatus);
    let wanted = NewEvent { streamed: watched, ..wanted };
    let (unwanted, _) = event(EventName::QrUpdated);
    let unwanted = NewEvent { streamed: watched, deliveries: Vec::new(), ..unwanted };
    let (unwatched, _) = event(EventName::QrUpdated);
    let expected = [wanted.id.clone(), unwanted.id.clone()];
    let both = vec![Command::Emit(wanted.clone()), Command::Emit(unwanted)];
    let job = Job { endpoint: ENDPOINT, delivery, due: wanted.at, chat: wanted.chat.clone() };
    let effects = vec![Effect::Relayed(7), Effect::Deliver(job)];
    assert_eq!(rig.apply(1, 1, both), BatchReply::Replies(vec![Reply::Done, Reply::Done], effects));
    rig.run(Command::Emit(unwatched));
    assert_eq!(rig.apply(1, 1, vec![Command::Emit(wanted)]), BatchReply::Replies(vec![Reply::Done], Vec::new()));
    assert_eq!(relayed(&rig, 7), expected);
    assert!(relayed(&rig, 6).is_empty());
    let upto = crate::stream::ring::relayed(&rig.state, 7, 0)[0].0;
    assert_eq!(rig.run(Command::Release { home: 7, upto }), Reply::Done);
    assert_eq!(relayed(&rig, 7), expected[1..]);
}

#[test]
fn an_owner_of_the_past_changes_nothing() {
    let mut rig = Rig::connected();
    let before = rig.state.clone();
    let send = accept(&row("A", Direction::Outbound));
    assert_eq!(rig.apply(2, 1, vec![send]), BatchReply::Fenced);
    assert_eq!(rig.state, before);
}

#[test]
fn the_same_send_again_is_one_send() {
    let mut rig = Rig::connected();
    let first = row("A", Direction::Outbound);
    // The second try of the call has another row id, and the same message id.
    let again = row("A", Direction::Outbound);
    assert_eq!(rig.run(accept(&first)), Reply::Done);
    assert_eq!(rig.run(accept(&again)), Reply::Unchanged);
    assert_eq!(rig.count(keys::outbox_of(CHANNEL)), 1);
    assert_eq!(rig.count(keys::messages(CHANNEL, None, None)), 1);
}

#[test]
fn the_short_commands_of_a_send_do_what_the_long_ones_do() {
    let row = row("A", Direction::Outbound);
    let (Command::AcceptSend { customer, message, .. }, (heard, _)) = (accept(&row), event(EventName::MessageSent))
    else {
        panic!("it is a send")
    };
    let long =
        Command::AcceptSend { customer, message, outbox: Bytes::new(), media: None, projected: Vec::new(), room: None };
    let short = Command::Send { message: NewMessage::of(&row), projected: Vec::new() };
    let target = MessageKey { id: row.message_id.clone(), from_me: true, remote_jid: row.chat.clone() };
    let reaction = Content::Reaction { target, emoji: "!".to_owned() };
    for (content, is_said) in [(row.content.clone(), true), (Content::Catalog, true), (reaction, false)] {
        assert_eq!(content.target().is_none(), is_said);
        let quoted = Quoted { message_id: row.message_id.clone(), from: row.from.clone(), text: None };
        let around = Surroundings { quoted: Some(quoted), ..Surroundings::default() };
        let sent = Command::Send {
            message: NewMessage::of(&MessageRow { content, around, ..row.clone() }),
            projected: Vec::new(),
        };
        let read: Command = msgpack::from_slice(&msgpack::to_vec(&sent).unwrap()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{sent:?}"));
        assert!(matches!(read, Command::Send { message, .. } if message.chat.is_some() == is_said));
    }
    let unwanted = NewEvent { deliveries: Vec::new(), body: Bytes::new(), ..heard.clone() };
    let settle = |events, recipients| Command::Settle {
        channel: CHANNEL,
        message: row.message_id.clone(),
        verdict: Verdict::Accepted { recipients },
        at: Timestamp(200),
        events,
        projected: Vec::new(),
    };
    let is_short = |settle: Command, format| matches!(settle.shortened(format), Command::Sent { .. });
    assert!(!is_short(settle(vec![unwanted.clone()], None), Format::SECOND));
    assert!(!is_short(settle(vec![unwanted.clone()], Some(3)), Format::THIRD));
    assert!(!is_short(settle(vec![heard], None), Format::THIRD));
    let settle = settle(vec![unwanted], None);
    let sent = settle.clone().shortened(Format::THIRD);
    assert!(matches!(sent, Command::Sent { .. }));
    let (mut one, mut other) = (Rig::connected(), Rig::connected());
    for (long, short) in [(long, short), (settle, sent)] {
        for expected in [Reply::Done, Reply::Unchanged] {
            assert_eq!(one.run(long.clone()), expected);
            assert_eq!(other.run(short.clone()), expected);
            assert_eq!(one.state, other.state);
        }
    }
    assert_eq!(other.status_of(&row), MessageStatus::Sent);
}

#[test]
fn a_status_that_takes_no_sends_refuses_them() {
    for (status, expected) in [
        (Status::Qr, Reply::Refused(Status::Qr)),
        (Status::StoppedByUser, Reply::Refused(Status::StoppedByUser)),
        (Status::Reconnecting, Reply::Done),
    ] {
        let mut rig = Rig::default();
        rig.run(moved(0, status));
        assert_eq!(rig.run(accept(&row("A", Direction::Outbound))), expected);
    }
}

#[test]
fn the_offline_queue_is_bounded() {
    let mut rig = Rig::default();
    rig.run(moved(0, Status::Reconnecting));
    for n in 0..OFFLINE_QUEUE {
        assert_eq!(rig.run(accept(&row(&format!("M{n}"), Direction::Outbound))), Reply::Done);
    }
    assert_eq!(rig.run(accept(&row("one more", Direction::Outbound))), Reply::QueueFull);
}

#[test]
fn a_verdict_counts_once_and_ends_the_outbox_entry() {
    let mut rig = Rig::connected();
    let sent = row("A", Direction::Outbound);
    rig.run(accept(&sent));
    let (first, delivery) = settle(&sent.message_id, Verdict::Accepted { recipients: None });
    let (second, other) = settle(&sent.message_id, Verdict::Accepted { recipients: None });
    assert_eq!(rig.run(first), Reply::Done);
    assert_eq!(rig.run(second), Reply::Unchanged);
    assert_eq!(rig.status_of(&sent), MessageStatus::Sent);
    assert_eq!(rig.count(keys::outbox_of(CHANNEL)), 0);
    assert_eq!(rig.delivery(delivery).state, DeliveryState::Pending);
    assert!(rig.state.get(&keys::delivery(ENDPOINT, other)).is_none());
}

#[test]
fn receipts_move_a_message_forward_only() {
    let mut rig = Rig::connected();
    let sent = row("A", Direction::Outbound);
    rig.run(accept(&sent));
    rig.run(settle(&sent.message_id, Verdict::Accepted { recipients: None }).0);
    let receipt = |status| Command::Receipt {
        channel: CHANNEL,
        message: sent.message_id.clone(),
        status,
        participant: None,
        at: Timestamp(300),
        event: event(EventName::MessageStatus).0,
    };
    assert_eq!(rig.run(receipt(ReceiptStatus::Read)), Reply::Done);
    assert_eq!(rig.run(receipt(ReceiptStatus::Delivered)), Reply::Unchanged);
    assert_eq!(rig.run(receipt(ReceiptStatus::Read)), Reply::Unchanged);
    assert_eq!(rig.status_of(&sent), MessageStatus::Read);
}

#[test]
fn an_inbound_message_that_comes_again_makes_no_second_event() {
    let mut rig = Rig::connected();
    let receive = |row: &MessageRow| {
        let (event, delivery) = event(EventName::MessageReceived);
        (Command::Receive { customer: CUSTOMER, message: NewMessage::of(row), event }, delivery)
    };
    let (first, delivery) = receive(&row("A", Direction::Inbound));
    let (again, other) = receive(&row("A", Direction::Inbound));
    assert_eq!(rig.run(first), Reply::Done);
    assert_eq!(rig.run(again), Reply::Unchanged);
    assert_eq!(rig.delivery(delivery).event, EventName::MessageReceived);
    assert!(rig.state.get(&keys::delivery(ENDPOINT, other)).is_none());
}

#[test]
fn a_lid_is_learned_once() {
    let mut rig = Rig::connected();
    let learn = || Command::LearnLid {
        channel: CHANNEL,
        lid: Address::lid("251556368777322"),
        phone: Suffixes::simulated().phone_address("15551230000"),
        at: Timestamp(1),
        event: event(EventName::ContactResolved).0,
    };
    assert_eq!(rig.run(learn()), Reply::Done);
    assert_eq!(rig.run(learn()), Reply::Unchanged);
}

#[test]
fn a_move_that_lost_a_race_changes_nothing() {
    let mut rig = Rig::connected();
    assert_eq!(rig.run(moved(0, Status::Failed)), Reply::LostRace);
    assert_eq!(rig.run(moved(1, Status::Failed)), Reply::Done);
}

#[test]
fn credentials_are_noted_and_wiped_with_the_move_that_says_so() {
    let mut rig = Rig::connected();
    let write = |value: Option<&[u8]>| Command::Auth {
        channel: CHANNEL,
        customer: CUSTOMER,
        writes: vec![AuthWrite { key: CREDENTIALS.into(), value: value.map(<[u8]>::to_vec) }],
    };
    rig.run(write(Some(b"sealed")));
    let channel = |rig: &Rig| decode::<ChannelRow>(&rig.state.get(&keys::channel(CHANNEL)).unwrap());
    assert!(channel(&rig).credentials);
    assert_eq!(rig.run(moved(1, Status::LoggedOut)), Reply::Done);
    assert!(!channel(&rig).credentials);
    assert_eq!(rig.count(keys::auth_of(CHANNEL)), 0);
}

#[test]
fn a_deleted_channel_is_wiped_but_for_its_deliveries_and_stays_gone() {
    let mut rig = Rig::connected();
    for n in 0..super::delete_channel::DELETED_AT_ONCE * 2 {
        rig.run(accept(&row(&format!("M{n}"), Direction::Outbound)));
    }
    let (new, delivery) = event(EventName::ChannelStatus);
    rig.run(Command::Emit(new));
    let delete = Command::DeleteChannel { channel: CHANNEL, customer: CUSTOMER };
    let mut rounds = 0;
    while rig.run(delete.clone()) == Reply::More {
        rounds += 1;
    }
    assert!(rounds > 1);
    assert!(decode::<ChannelRow>(&rig.state.get(&keys::channel(CHANNEL)).unwrap()).wiped);
    for range in keys::everything_of(CHANNEL) {
        assert_eq!(rig.count(range), 0);
    }
    assert_eq!(rig.delivery(delivery).channel, CHANNEL);
    assert_eq!(rig.run(accept(&row("late", Direction::Outbound))), Reply::ChannelDeleted);
    assert_eq!(rig.run(moved(3, Status::Qr)), Reply::ChannelDeleted);
}

/// Commands that may come in any order, also twice.
fn happenings() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((0_u8..5, 0_u8..6), 0..80)
}

proptest! {
    #[test]
    fn every_taken_send_is_in_the_outbox_or_has_a_verdict(happenings in happenings()) {
        let mut rig = Rig::connected();
        let rows: Vec<MessageRow> = (0..6).map(|n| row(&format!("M{n}"), Direction::Outbound)).collect();
        let mut taken = std::collections::BTreeSet::new();
        for (what, which) in happenings {
            let sent = &rows[usize::from(which)];
            let command = match what {
                0 | 1 => {
                    taken.insert(which);
                    accept(sent)
                }
                2 => settle(&sent.message_id, Verdict::Accepted { recipients: None }).0,
                3 => {
                    settle(&sent.message_id, Verdict::Failed(Failure::new("other", "no"))).0
                }
                _ => Command::Receipt {
                    channel: CHANNEL,
                    message: sent.message_id.clone(),
                    status: ReceiptStatus::Delivered,
                    participant: None,
                    at: Timestamp(300),
                    event: event(EventName::MessageStatus).0,
                },
            };
            rig.run(command);
        }
        let (from, to) = keys::outbox_of(CHANNEL);
        let waiting: Vec<MessageId> = rig
            .state
            .scan(&from, &to, usize::MAX)
            .iter()
            .map(|(_, entry)| decode::<OutboxEntry>(entry).id().unwrap().clone())
            .collect();
        for which in taken {
            let sent = &rows[usize::from(which)];
            let settled = rig.status_of(sent) != MessageStatus::Queued;
            prop_assert!(settled || waiting.contains(&sent.message_id));
        }
        prop_assert_eq!(rig.count(keys::messages(CHANNEL, None, None)) , {
            let mut known = 0;
            for sent in &rows {
                let key = keys::message_id(CHANNEL, Direction::Outbound, &sent.message_id);
                known += usize::from(rig.state.get(&key).is_some());
            }
            known
        });
    }

    #[test]
    fn replicas_that_apply_the_same_entries_are_equal(happenings in happenings()) {
        let rows: Vec<MessageRow> = (0..6).map(|n| row(&format!("M{n}"), Direction::Outbound)).collect();
        let commands: Vec<Command> = happenings
            .iter()
            .map(|(what, which)| {
                let sent = &rows[usize::from(*which)];
                if *what < 3 { accept(sent) } else { settle(&sent.message_id, Verdict::Accepted { recipients: None }).0 }
            })
            .collect();
        let mut replicas = [Rig::connected(), Rig::connected()];
        for rig in &mut replicas {
            for command in &commands {
                rig.run(command.clone());
            }
        }
        prop_assert_eq!(&replicas[0].state, &replicas[1].state);
    }

    #[test]
    fn bytes_that_are_no_batch_are_refused_and_change_nothing(entry in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut rig = Rig::connected();
        let before = rig.state.clone();
        let applied = rig.machine.apply(Position { term: 1, index: 99 }, &entry, &mut rig.state as &mut dyn State);
        prop_assert!(applied.is_err());
        prop_assert_eq!(rig.state, before);
    }
}

#[test]
fn what_the_phone_wrote_is_a_sent_message_once() {
    let mut rig = Rig::connected();
    let written = MessageRow { source: Source::Device, ..row("A", Direction::Outbound) };
    let own = |row: &MessageRow| {
        let (event, delivery) = event(EventName::MessageSent);
        let message = NewMessage::of(row);
        (Command::ReceiveOwn { customer: CUSTOMER, message, events: vec![event] }, delivery)
    };
    let (first, delivery) = own(&written);
    assert_eq!(rig.run(first), Reply::Done);
    assert_eq!(rig.delivery(delivery).state, DeliveryState::Pending);
    assert_eq!(rig.status_of(&written), MessageStatus::Sent);
    assert_eq!(rig.run(own(&written).0), Reply::Unchanged);
    assert_eq!(rig.count(keys::messages(CHANNEL, None, None)), 1);
    // Receipts advance it like any other message.
    let receipt = Command::Receipt {
        channel: CHANNEL,
        message: written.message_id.clone(),
        status: ReceiptStatus::Delivered,
        participant: None,
        at: Timestamp(300),
        event: event(EventName::MessageStatus).0,
    };
    assert_eq!(rig.run(receipt), Reply::Done);
    assert_eq!(rig.status_of(&written), MessageStatus::Delivered);
    // An echo of a send from here is not new.
    let sent = row("B", Direction::Outbound);
    assert_eq!(rig.run(accept(&sent)), Reply::Done);
    assert_eq!(rig.run(own(&sent).0), Reply::Unchanged);
}

#[test]
fn what_the_phone_wrote_and_could_not_be_read_is_what_it_said_once_it_can_be() {
    let content = Content::Undecryptable { reason: model::message::UndecryptableReason::Waiting };
    let unread = MessageRow { source: Source::Device, content, ..row("A", Direction::Outbound) };
    // The readable message comes with its own row.
    let read = MessageRow { occurred_at: Timestamp(101), source: Source::Device, ..row("A", Direction::Outbound) };
    let own = |row: &MessageRow| {
        let (event, delivery) = event(EventName::MessageSent);
        (Command::ReceiveOwn { customer: CUSTOMER, message: NewMessage::of(row), events: vec![event] }, delivery)
    };
    let mut rig = Rig { format: Format::SECOND, ..Rig::connected() };
    assert_eq!(rig.run(own(&unread).0), Reply::Done);
    assert_eq!(rig.run(own(&read).0), Reply::Unchanged, "as in former releases");
    rig.format = Format::THIRD;
    let (comes_again, delivery) = own(&read);
    assert_eq!(rig.run(comes_again), Reply::Done);
    assert_eq!(rig.delivery(delivery).state, DeliveryState::Pending);
    let stored: MessageRow = decode(&rig.get(&keys::message(CHANNEL, unread.occurred_at, unread.id)).unwrap());
    assert_eq!(stored, MessageRow { content: read.content.clone(), ..unread.clone() });
    assert_eq!(rig.count(keys::messages(CHANNEL, None, None)), 1);
    // Neither of the two changes anything when it is repeated.
    assert_eq!(rig.run(own(&read).0), Reply::Unchanged);
    assert_eq!(rig.run(own(&unread).0), Reply::Unchanged);
}

#[test]
fn a_recovered_message_takes_the_place_of_the_undecryptable_one_once() {
    let mut rig = Rig::connected();
    let reason = model::message::UndecryptableReason::Waiting;
    let unread = MessageRow { content: Content::Undecryptable { reason }, ..row("A", Direction::Inbound) };
    let read = MessageRow { content: Content::Text { text: "hi".into() }, ..unread.clone() };
    let recover = |row: &MessageRow| {
        let (event, delivery) = event(EventName::MessageReceived);
        (Command::Recover { customer: CUSTOMER, message: NewMessage::of(row), event }, delivery)
    };
    let (first, _) = event(EventName::MessageReceived);
    let receive = Command::Receive { customer: CUSTOMER, message: NewMessage::of(&unread), event: first };
    assert_eq!(rig.run(receive.clone()), Reply::Done);
    let (recovered, delivery) = recover(&read);
    assert_eq!(rig.run(recovered), Reply::Done);
    assert_eq!(rig.delivery(delivery).state, DeliveryState::Pending);
    let stored: MessageRow = decode(&rig.state.get(&keys::message(CHANNEL, unread.occurred_at, unread.id)).unwrap());
    assert_eq!(stored.content, read.content);
    assert_eq!(rig.count(keys::messages(CHANNEL, None, None)), 1);
    // Neither of the two changes anything when it is repeated.
    assert_eq!(rig.run(recover(&read).0), Reply::Unchanged);
    assert_eq!(rig.run(receive), Reply::Unchanged);
    // If the undecryptable message is deleted, the content is stored as a new message.
    assert_eq!(rig.run(recover(&row("B", Direction::Inbound)).0), Reply::Done);
    assert_eq!(rig.count(keys::messages(CHANNEL, None, None)), 2);
}
