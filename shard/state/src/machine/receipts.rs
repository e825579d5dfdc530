//! The status of a sent message: the network's verdict, then receipts. A message to a group has the status that the
//! last of its members has reached.

use model::address::Address;
use model::id::{ChannelId, MessageId, RowId};
use model::time::Timestamp;
use traffic::item::ReceiptStatus;

use super::Apply;
use crate::command::{NewEvent, Reply, Verdict};
use crate::history::{Direction, MessageStatus};
use crate::keys;
use crate::records::{GroupProgress, MOST_RECEIPTS, MessagePointer, MessageState, ReceiptRow, encode};

impl Apply<'_> {
    /// Writes the verdict on a queued message.
    pub(super) fn settle_row(&mut self, channel: ChannelId, row: RowId, verdict: Verdict, at: Timestamp) {
        let key = keys::message_state(channel, row);
        let known: Option<MessageState> = self.read(&key);
        let (status, error, recipients) = match verdict {
            Verdict::Accepted { recipients } => (MessageStatus::Sent, None, recipients),
            Verdict::Failed(error) => (MessageStatus::Failed, Some(error), None),
        };
        if known.is_some_and(|known| known.status >= status) {
            return;
        }
        let group = recipients.map(|members| GroupProgress { members: Some(members), ..GroupProgress::default() });
        self.state.put(&key, &encode(&MessageState { status, status_at: at, error, group }));
    }

    pub(super) fn receipt(
        &mut self,
        channel: ChannelId,
        message: &MessageId,
        status: ReceiptStatus,
        member: Option<Address>,
        at: Timestamp,
        event: NewEvent,
    ) -> Reply {
        let pointer_key = keys::message_id(channel, Direction::Outbound, message);
        let Some(pointer) = self.read::<MessagePointer>(&pointer_key) else { return Reply::Unchanged };
        let news = match member {
            Some(member) => self.member_receipt(channel, &pointer, ReceiptRow { member, status, at }, &event),
            None => self.advance(channel, pointer.row, status_of(status), at),
        };
        if !news {
            return Reply::Unchanged;
        }
        self.emit(event, Some(pointer.row));
        Reply::Done
    }

    /// Advances the status of a message. Returns whether it changed.
    fn advance(&mut self, channel: ChannelId, row: RowId, status: MessageStatus, at: Timestamp) -> bool {
        let key = keys::message_state(channel, row);
        let known: Option<MessageState> = self.read(&key);
        if known.as_ref().is_some_and(|known| known.status >= status) {
            return false;
        }
        let group = known.and_then(|known| known.group);
        self.state.put(&key, &encode(&MessageState { status, status_at: at, error: None, group }));
        true
    }

    /// Records a member's receipt, and advances the message if that member was the last. Returns whether it is new.
    fn member_receipt(
        &mut self,
        channel: ChannelId,
        pointer: &MessagePointer,
        receipt: ReceiptRow,
        event: &NewEvent,
    ) -> bool {
        let receipt_key = keys::receipt(channel, pointer.row, &receipt.member);
        let known = self.read::<ReceiptRow>(&receipt_key).map(|known| known.status);
        if known.is_some_and(|known| known >= receipt.status) {
            return false;
        }
        let state_key = keys::message_state(channel, pointer.row);
        let mut state = self.read::<MessageState>(&state_key).unwrap_or(MessageState {
            status: MessageStatus::Queued,
            status_at: pointer.occurred_at,
            error: None,
            group: None,
        });
        let progress = state.group.get_or_insert_default();
        if known.is_none() && progress.delivered >= MOST_RECEIPTS {
            // There is no space to record this member: its repeats are detected by their events, while these exist.
            return self.state.get(&keys::event(event.id.as_str())).is_none();
        }
        progress.count(known, receipt.status);
        if let Some(reached) = progress.reached_by_all()
            && reached > state.status
        {
            (state.status, state.status_at) = (reached, receipt.at);
        }
        self.state.put(&state_key, &encode(&state));
        self.state.put(&receipt_key, &encode(&receipt));
        true
    }
}

impl GroupProgress {
    fn count(&mut self, before: Option<ReceiptStatus>, now: ReceiptStatus) {
        let steps = [
            (ReceiptStatus::Delivered, &mut self.delivered),
            (ReceiptStatus::Read, &mut self.read),
            (ReceiptStatus::Played, &mut self.played),
        ];
        for (step, members) in steps {
            if step <= now && before.is_none_or(|before| before < step) {
                *members += 1;
            }
        }
    }

    /// The furthest status that every member has reached. `None` if the members are unknown, or there are none.
    fn reached_by_all(&self) -> Option<MessageStatus> {
        let members = self.members.filter(|members| *members > 0)?;
        let steps = [
            (self.played, MessageStatus::Played),
            (self.read, MessageStatus::Read),
            (self.delivered, MessageStatus::Delivered),
        ];
        steps.into_iter().find(|(count, _)| *count >= members).map(|(_, status)| status)
    }
}

fn status_of(status: ReceiptStatus) -> MessageStatus {
    match status {
        ReceiptStatus::Delivered => MessageStatus::Delivered,
        ReceiptStatus::Read => MessageStatus::Read,
        ReceiptStatus::Played => MessageStatus::Played,
    }
}
