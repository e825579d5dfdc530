//! Tests of expiry: which rows are deleted, which are kept, and that a repeated step is harmless.

#![allow(clippy::unwrap_used, reason = "tests")]

use model::event::EventName;
use model::id::DeliveryId;
use model::message::Content;
use model::status::Status;
use model::time::Timestamp;
use traffic::item::ReceiptStatus;

use super::tests::{CHANNEL, CUSTOMER, ENDPOINT, Rig, accept, event, moved, row, settle};
use super::*;
use crate::deliveries::command::{DeliveryCommand, Next};
use crate::records::{MessageRow, OutboxEntry};
use crate::retention::Expire;

fn messages(rows: &[&MessageRow]) -> Command {
    let rows = rows.iter().map(|row| (row.occurred_at, row.id)).collect();
    Command::Expire(Expire::Messages { channel: CHANNEL, rows })
}

fn sent(rig: &mut Rig, id: &str) -> MessageRow {
    let sent = row(id, Direction::Outbound);
    rig.run(accept(&sent));
    rig.run(settle(&sent.message_id, Verdict::Accepted { recipients: Some(2) }).0);
    rig.run(Command::Receipt {
        channel: CHANNEL,
        message: sent.message_id.clone(),
        status: ReceiptStatus::Read,
        participant: Some(sent.to.clone()),
        at: Timestamp(300),
        event: event(EventName::MessageStatus).0,
    });
    sent
}

#[test]
fn a_message_goes_with_all_that_belongs_to_it() {
    let mut rig = Rig::connected();
    let old = sent(&mut rig, "A");
    assert_eq!(rig.run(messages(&[&old])), Reply::Done);
    for range in [
        keys::messages(CHANNEL, None, None),
        keys::receipts_of(CHANNEL, old.id),
        keys::message_deliveries(CHANNEL, old.id),
    ] {
        assert_eq!(rig.count(range), 0);
    }
    assert!(rig.get(&keys::message_state(CHANNEL, old.id)).is_none());
    assert!(rig.get(&keys::message_id(CHANNEL, Direction::Outbound, &old.message_id)).is_none());
    assert_eq!(rig.run(messages(&[&old])), Reply::Done);
}

#[test]
fn a_send_that_still_waits_in_the_outbox_never_expires() {
    let mut rig = Rig::connected();
    let waiting = row("A", Direction::Outbound);
    rig.run(accept(&waiting));
    rig.run(messages(&[&waiting]));
    assert_eq!(rig.count(keys::messages(CHANNEL, None, None)), 1);
    assert_eq!(rig.run(accept(&waiting)), Reply::Unchanged, "it is still known");
    rig.run(settle(&waiting.message_id, Verdict::Accepted { recipients: None }).0);
    rig.run(messages(&[&waiting]));
    assert_eq!(rig.count(keys::messages(CHANNEL, None, None)), 0);
}

#[test]
fn a_message_without_its_body_still_takes_receipts_and_drops_repeats() {
    let mut rig = Rig::connected();
    let kept = row("A", Direction::Outbound);
    rig.run(accept(&kept));
    rig.run(settle(&kept.message_id, Verdict::Accepted { recipients: None }).0);
    let bodies = Command::Expire(Expire::Bodies { channel: CHANNEL, rows: vec![(kept.occurred_at, kept.id)] });
    for _ in 0..2 {
        assert_eq!(rig.run(bodies.clone()), Reply::Done);
    }
    let stored: MessageRow = decode(&rig.get(&keys::message(CHANNEL, kept.occurred_at, kept.id)).unwrap());
    assert_eq!(stored.content, Content::Text { text: String::new() });
    assert!(crate::history::is_withheld(&stored) && !crate::history::is_withheld(&kept));
    assert_eq!(stored.to, kept.to);
    assert_eq!(rig.run(accept(&kept)), Reply::Unchanged);
    let receipt = Command::Receipt {
        channel: CHANNEL,
        message: kept.message_id.clone(),
        status: ReceiptStatus::Delivered,
        participant: None,
        at: Timestamp(300),
        event: event(EventName::MessageStatus).0,
    };
    assert_eq!(rig.run(receipt), Reply::Done);
}

#[test]
fn a_send_that_waits_is_given_to_the_network_whole_though_its_row_loses_its_body() {
    let mut rig = Rig::connected();
    let waiting = row("A", Direction::Outbound);
    let Command::AcceptSend { customer, message, media, projected, room, .. } = accept(&waiting) else {
        panic!("a send")
    };
    rig.run(Command::AcceptSend { customer, message, outbox: Bytes::new(), media, projected, room });
    let entry = |rig: &Rig| decode::<OutboxEntry>(&rig.view().scan_range(keys::outbox_of(CHANNEL), 2)[0].1);
    assert_eq!(entry(&rig), OutboxEntry::stored(waiting.message_id.clone()));
    assert_eq!(entry(&rig).outbound(&waiting), waiting.outbound());

    let bodies = Command::Expire(Expire::Bodies { channel: CHANNEL, rows: vec![(waiting.occurred_at, waiting.id)] });
    for _ in 0..2 {
        assert_eq!(rig.run(bodies.clone()), Reply::Done);
    }
    let stored: MessageRow = decode(&rig.get(&keys::message(CHANNEL, waiting.occurred_at, waiting.id)).unwrap());
    assert!(crate::history::is_withheld(&stored));
    assert_eq!(entry(&rig).outbound(&stored), waiting.outbound());

    rig.run(settle(&waiting.message_id, Verdict::Accepted { recipients: None }).0);
    rig.run(bodies);
    assert_eq!(rig.count(keys::outbox_of(CHANNEL)), 0);
}

#[test]
fn a_row_is_stored_without_the_names_of_its_fields_and_read_with_and_without_them() {
    let stored = row("A", Direction::Outbound);
    let (listed, named) = (stored.encode(), crate::records::encode(&stored));
    assert!(listed.len() + 150 < named.len(), "{} and {}", listed.len(), named.len());
    assert_eq!((decode::<MessageRow>(&listed), decode::<MessageRow>(&named)), (stored.clone(), stored));
}

#[test]
fn a_channel_that_moves_without_end_keeps_a_bounded_number_of_its_moves() {
    let mut rig = Rig::default();
    for version in 0..1_500 {
        rig.run(moved(version, if version % 2 == 0 { Status::Connected } else { Status::Reconnecting }));
    }
    let (from, to) = keys::status_changes(CHANNEL, None);
    let kept = rig.count((from.clone(), to.clone()));
    assert!((1_000..1_064).contains(&kept), "{kept}");
    let newest = rig.view().scan_back(&from, &to, 1);
    assert_eq!(keys::version_of_change(&newest[0].0), 1_500);
}

#[test]
fn a_delivery_goes_when_it_has_ended_and_its_event_with_the_last_one() {
    let mut rig = Rig::connected();
    let (mut new, first) = event(EventName::ChannelStatus);
    let second = crate::command::NewDelivery { id: DeliveryId::new(), ..new.deliveries[0].clone() };
    new.deliveries.push(second.clone());
    let event_key = keys::event(new.id.as_str());
    rig.run(Command::Emit(new));
    let expire = |id| Command::Expire(Expire::Deliveries { endpoint: ENDPOINT, deliveries: vec![id] });
    let end = |id| {
        Command::Delivery(DeliveryCommand::Attempted {
            endpoint: ENDPOINT,
            delivery: id,
            due: Timestamp(50),
            attempt: None,
            next: Next::Exhausted,
            noted: false,
        })
    };
    rig.run(expire(first));
    assert!(rig.get(&keys::delivery(ENDPOINT, first)).is_some(), "it is still to be attempted");
    for (id, left) in [(first, true), (second.id, false)] {
        assert_eq!(rig.run(end(id)), Reply::Done);
        for _ in 0..2 {
            rig.run(expire(id));
        }
        assert!(rig.get(&keys::delivery(ENDPOINT, id)).is_none());
        assert_eq!(rig.get(&event_key).is_some(), left);
    }
    assert_eq!(rig.count(keys::customer_endpoints()), 1);
    rig.run(Command::Expire(Expire::Endpoint { customer: CUSTOMER, endpoint: ENDPOINT }));
    assert_eq!(rig.count(keys::customer_endpoints()), 0);
}

#[test]
fn the_row_of_a_deleted_channel_goes_once_the_channel_is_wiped() {
    let mut rig = Rig::connected();
    let expire = Command::Expire(Expire::Channels { channels: vec![CHANNEL] });
    rig.run(expire.clone());
    assert!(rig.get(&keys::channel(CHANNEL)).is_some(), "it lives");
    for n in 0..=super::delete_channel::DELETED_AT_ONCE {
        rig.run(accept(&row(&format!("M{n}"), Direction::Outbound)));
    }
    let delete = Command::DeleteChannel { channel: CHANNEL, customer: CUSTOMER };
    assert_eq!(rig.run(delete.clone()), Reply::More);
    rig.run(expire.clone());
    assert!(rig.get(&keys::channel(CHANNEL)).is_some(), "it is still to be wiped");
    while rig.run(delete.clone()) == Reply::More {}
    rig.run(expire);
    assert!(rig.get(&keys::channel(CHANNEL)).is_none());
}

#[test]
fn a_lid_expires_both_ways_unless_the_number_is_anothers_by_now() {
    use model::address::Address;
    let mut rig = Rig::connected();
    let [first, second] = ["25", "26"].map(Address::lid);
    let phone = Address::parse("1555@s.example").unwrap();
    for lid in [&first, &second] {
        let event = event(EventName::ContactResolved).0;
        let (lid, phone) = (lid.clone(), phone.clone());
        rig.run(Command::LearnLid { channel: CHANNEL, lid, phone, at: Timestamp(1), event });
    }
    let expire = |lid: &Address| Command::Expire(Expire::Lids { channel: CHANNEL, lids: vec![lid.clone()] });
    for _ in 0..2 {
        assert_eq!(rig.run(expire(&first)), Reply::Done);
    }
    assert!(rig.get(&keys::lid(CHANNEL, "25")).is_none() && rig.get(&keys::lid_of(CHANNEL, "1555")).is_some());
    rig.run(expire(&second));
    assert!(rig.get(&keys::lid(CHANNEL, "26")).is_none() && rig.get(&keys::lid_of(CHANNEL, "1555")).is_none());
}
