//! Tests of receipts of a group's members, in any order and repeated.

#![allow(clippy::unwrap_used, reason = "tests")]

use model::address::{Address, Suffixes};
use model::event::EventName;
use model::time::Timestamp;
use proptest::prelude::*;
use traffic::item::ReceiptStatus;

use super::tests::{CHANNEL, CUSTOMER, Rig, accept, event, row, settle};
use super::*;
use crate::history::{MessageStatus, Source};
use crate::records::{MOST_RECEIPTS, MessageRow};

const STEPS: [ReceiptStatus; 3] = [ReceiptStatus::Delivered, ReceiptStatus::Read, ReceiptStatus::Played];

fn member(n: u32) -> Address {
    Suffixes::simulated().phone_address(&format!("1555{n:07}"))
}

fn receipt(message: &MessageId, from: u32, status: ReceiptStatus, at: i64) -> Command {
    Command::Receipt {
        channel: CHANNEL,
        message: message.clone(),
        status,
        participant: Some(member(from)),
        at: Timestamp(at),
        event: event(EventName::MessageStatus).0,
    }
}

/// A message that was sent to a group with this many other members.
fn sent_to(members: Option<u32>) -> (Rig, crate::records::MessageRow) {
    let mut rig = Rig::connected();
    let sent = row("A", Direction::Outbound);
    rig.run(accept(&sent));
    rig.run(settle(&sent.message_id, Verdict::Accepted { recipients: members }).0);
    (rig, sent)
}

#[test]
fn a_message_to_a_group_is_as_far_as_its_last_member() {
    use ReceiptStatus::{Delivered, Played, Read};
    let (mut rig, sent) = sent_to(Some(2));
    let id = &sent.message_id;
    for (from, status, expected) in [
        (1, Read, MessageStatus::Sent),
        (2, Delivered, MessageStatus::Delivered),
        (2, Played, MessageStatus::Read),
        (1, Played, MessageStatus::Played),
    ] {
        assert_eq!(rig.run(receipt(id, from, status, 300)), Reply::Done);
        assert_eq!(rig.status_of(&sent), expected, "after {status:?} of member {from}");
        assert_eq!(rig.run(receipt(id, from, status, 301)), Reply::Unchanged);
        assert_eq!(rig.run(receipt(id, from, Delivered, 302)), Reply::Unchanged);
    }
    assert_eq!(rig.count(keys::receipts_of(CHANNEL, sent.id)), 2);
}

#[test]
fn a_group_whose_size_the_network_did_not_tell_stays_sent() {
    let (mut rig, sent) = sent_to(None);
    assert_eq!(rig.run(receipt(&sent.message_id, 1, ReceiptStatus::Read, 300)), Reply::Done);
    assert_eq!(rig.status_of(&sent), MessageStatus::Sent);
    assert_eq!(rig.count(keys::receipts_of(CHANNEL, sent.id)), 1);
}

#[test]
fn what_the_phone_wrote_to_a_group_stays_sent_whatever_a_member_says() {
    let mut rig = Rig::connected();
    let written = MessageRow { source: Source::Device, is_group: true, ..row("A", Direction::Outbound) };
    let message = NewMessage::of(&written);
    rig.run(Command::ReceiveOwn { customer: CUSTOMER, message, events: Vec::new() });
    assert_eq!(rig.run(receipt(&written.message_id, 1, ReceiptStatus::Delivered, 300)), Reply::Done);
    assert_eq!(rig.status_of(&written), MessageStatus::Sent);
}

#[test]
fn the_receipts_of_one_message_are_bounded() {
    let (mut rig, sent) = sent_to(Some(MOST_RECEIPTS + 1));
    for from in 0..MOST_RECEIPTS {
        rig.run(receipt(&sent.message_id, from, ReceiptStatus::Delivered, 300));
    }
    let one_more = receipt(&sent.message_id, MOST_RECEIPTS, ReceiptStatus::Delivered, 300);
    assert_eq!(rig.run(one_more.clone()), Reply::Done);
    assert_eq!(rig.run(one_more), Reply::Unchanged);
    assert_eq!(rig.count(keys::receipts_of(CHANNEL, sent.id)), MOST_RECEIPTS as usize);
    // The receipts of a member that is recorded still advance.
    assert_eq!(rig.run(receipt(&sent.message_id, 0, ReceiptStatus::Read, 301)), Reply::Done);
}

proptest! {
    #[test]
    fn the_status_is_the_lowest_of_all_members(
        members in 1_u32..5,
        heard in prop::collection::vec((0_u32..5, 0_usize..3), 0..40),
    ) {
        let (mut rig, sent) = sent_to(Some(members));
        let mut furthest = vec![None; members as usize];
        for (from, step) in heard {
            let from = from % members;
            let known: &mut Option<usize> = &mut furthest[from as usize];
            let news = known.is_none_or(|known| known < step);
            let reply = rig.run(receipt(&sent.message_id, from, STEPS[step], 300));
            prop_assert_eq!(reply == Reply::Done, news);
            *known = (*known).max(Some(step));
        }
        let lowest = furthest.into_iter().min().flatten();
        let expected = match lowest {
            None => MessageStatus::Sent,
            Some(0) => MessageStatus::Delivered,
            Some(1) => MessageStatus::Read,
            Some(_) => MessageStatus::Played,
        };
        prop_assert_eq!(rig.status_of(&sent), expected);
    }
}
