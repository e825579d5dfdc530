//! Tests of what is counted, and that it is counted once.

use std::time::Duration;

use model::id::MediaId;
use model::media::{MediaState, Sha256Hex};

use super::deliveries::attempt;
use super::*;
use crate::deliveries::command::{DeliveryCommand, Next};
use crate::media::record::{MediaDirection, MediaRow, StoredBytes};
use crate::records::AttemptTrigger;
use crate::usage::{Counts, Hour, UsageRow};

impl Rig {
    /// The sum over all hours of the channel.
    fn used(&self) -> UsageRow {
        let (from, to) = keys::usage_of(CUSTOMER, Hour(0), Hour(u32::MAX));
        let mut used = UsageRow::default();
        self.state.scan(&from, &to, usize::MAX).iter().for_each(|(_, row)| used.add(&decode(row)));
        used
    }

    fn retrying(&self) -> Option<i64> {
        self.state.get(&keys::retrying(CUSTOMER, CHANNEL)).map(|count| decode(&count))
    }

    fn attempted_at(&mut self, delivery: DeliveryId, due: i64, trigger: AttemptTrigger, next: Next) {
        let (due, attempt) = (Timestamp(due), Some(attempt(trigger)));
        let command = DeliveryCommand::Attempted { endpoint: ENDPOINT, delivery, due, attempt, next, noted: false };
        self.run(Command::Delivery(command));
    }
}

#[test]
fn sends_and_messages_count_once_however_often_they_come() {
    let mut rig = Rig::connected();
    let (taken, refused, received) =
        (row("A", Direction::Outbound), row("B", Direction::Outbound), row("C", Direction::Inbound));
    let failed = Failure::new("other", "no");
    let receive = || Command::Receive {
        customer: CUSTOMER,
        message: NewMessage::of(&received),
        event: event(EventName::MessageReceived).0,
    };
    for _ in 0..2 {
        let (accepted, _) = settle(&taken.message_id, Verdict::Accepted { recipients: None });
        let (failed, _) = settle(&refused.message_id, Verdict::Failed(failed.clone()));
        rig.apply(1, 1, vec![accept(&taken), accept(&refused), accepted, failed, receive()]);
    }
    let used = rig.used();
    assert_eq!(used.counts, Counts { sent: 1, failed: 1, received: 1, ..Counts::default() });
    assert_eq!(used.sends.quantile(1.0), Some(1), "a send that was accepted before it was made took no time");
    assert_eq!(rig.count(keys::usages()), 1, "they fell into one hour");
}

#[test]
fn what_an_owner_of_the_past_proposes_counts_nothing() {
    let mut rig = Rig::connected();
    let sent = row("A", Direction::Outbound);
    rig.run(accept(&sent));
    let (settled, _) = settle(&sent.message_id, Verdict::Accepted { recipients: None });
    assert_eq!(rig.apply(2, 1, vec![settled]), BatchReply::Fenced);
    assert_eq!(rig.used(), UsageRow::default());
}

#[test]
fn the_bytes_of_messages_count_when_they_first_are_here() {
    let mut rig = Rig::connected();
    let stored =
        |size| StoredBytes { sha256: Sha256Hex("ab".repeat(32)), size, width: None, height: None, mime_type: None };
    let media = |direction| {
        MediaRow::new(
            MediaId::new(),
            CUSTOMER,
            CHANNEL,
            direction,
            "image/png",
            Timestamp(100),
            Duration::from_secs(60),
        )
    };
    let uploaded = media(MediaDirection::Upload).with_bytes(stored(7));
    let pending = media(MediaDirection::Inbound);
    let ready = Command::Media(MediaCommand::Ready {
        channel: CHANNEL,
        id: pending.id,
        stored: stored(100),
        expires_at: Some(Timestamp(200_000)),
    });
    let sent = row("A", Direction::Outbound);
    let Command::AcceptSend { customer, message, outbox, .. } = accept(&sent) else { panic!("it is a send") };
    let bytes = media(MediaDirection::Outbound).with_bytes(stored(20));
    let send = Command::AcceptSend {
        customer,
        message,
        outbox,
        media: Some(Box::new(bytes)),
        projected: Vec::new(),
        room: None,
    };
    rig.run(Command::Media(MediaCommand::Add(Box::new(uploaded))));
    rig.run(Command::Media(MediaCommand::Add(Box::new(pending.clone()))));
    assert_eq!(rig.used().counts.media_bytes, 0, "neither belongs to a message whose bytes are here");
    for command in [&ready, &send] {
        rig.run(command.clone());
        rig.run(command.clone());
    }
    assert_eq!(rig.used().counts.media_bytes, 120);
    let gone = MediaRow { state: MediaState::Gone, ..pending };
    rig.state.put(&keys::media(CHANNEL, gone.id), &encode(&gone));
    assert_eq!(rig.run(ready), Reply::Done, "they are fetched anew");
    assert_eq!(rig.used().counts.media_bytes, 120);
}

#[test]
fn a_delivery_counts_when_it_first_ends_so() {
    let mut rig = Rig::connected();
    let ended = |rig: &Rig| (rig.used().counts.delivered, rig.used().counts.exhausted);
    let redeliver = |rig: &mut Rig, delivery, at| {
        rig.run(Command::Delivery(DeliveryCommand::Redeliver { endpoint: ENDPOINT, delivery, at: Timestamp(at) }))
    };
    let (new, delivery) = event(EventName::ChannelStatus);
    rig.run(Command::Emit(new));
    rig.attempted_at(delivery, 50, AttemptTrigger::Scheduled, Next::Retry(Timestamp(100)));
    assert_eq!((ended(&rig), rig.retrying()), ((0, 0), Some(1)));
    rig.attempted_at(delivery, 100, AttemptTrigger::Scheduled, Next::Exhausted);
    rig.attempted_at(delivery, 100, AttemptTrigger::Scheduled, Next::Exhausted);
    assert_eq!((ended(&rig), rig.retrying()), ((0, 1), None));

    redeliver(&mut rig, delivery, 200);
    assert_eq!(rig.retrying(), Some(1));
    rig.attempted_at(delivery, 200, AttemptTrigger::Manual, Next::AsBefore);
    assert_eq!((ended(&rig), rig.retrying()), ((0, 1), None));
    redeliver(&mut rig, delivery, 300);
    rig.attempted_at(delivery, 300, AttemptTrigger::Manual, Next::Delivered);
    redeliver(&mut rig, delivery, 400);
    rig.attempted_at(delivery, 400, AttemptTrigger::Manual, Next::Delivered);
    assert_eq!(ended(&rig), (1, 1));
    assert_eq!(rig.used().webhooks.quantile(0.5), Some(1));
}

#[test]
fn a_deleted_channel_leaves_what_was_used_and_time_takes_it() {
    let mut rig = Rig::connected();
    let sent = row("A", Direction::Outbound);
    rig.run(accept(&sent));
    rig.run(settle(&sent.message_id, Verdict::Accepted { recipients: None }).0);
    while rig.run(Command::DeleteChannel { channel: CHANNEL, customer: CUSTOMER }) == Reply::More {}
    assert_eq!(rig.used().counts.sent, 1);
    let rows = vec![(CUSTOMER, Hour(0), CHANNEL)];
    assert_eq!(rig.run(Command::Expire(Expire::Usage { rows })), Reply::Done);
    assert_eq!(rig.count(keys::usages()), 0);
}
