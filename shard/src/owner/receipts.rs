//! Receipts: how far a sent message got.

use model::address::Address;
use model::group::Group;
use model::id::MessageId;
use model::payload::{AckStatus, Payload};
use model::time::Timestamp;
use network::driver::{Receipt, ReceiptStatus};

use super::channel::{Batch, Channel};
use super::sends::{about, status_payload};
use crate::command::Command;
use crate::projection::Rows;

impl Channel {
    /// Adds a receipt to the batch.
    pub fn take_receipt(&mut self, batch: &mut Batch, receipt: Receipt, at: Timestamp) {
        // A receipt proves the acceptance if that was lost on its way.
        let recipients = self.recipients_of(batch, &receipt.message_id);
        self.settle_accepted(batch, &receipt.message_id, at, recipients);
        // The message's row may have been deleted with the history.
        let Some(row) = self.stored_message(&receipt.message_id) else { return };
        if !is_of(row.is_group, &receipt) {
            return;
        }
        let status = match receipt.status {
            ReceiptStatus::Delivered => AckStatus::Delivered,
            ReceiptStatus::Read => AckStatus::Read,
            ReceiptStatus::Played => AckStatus::Played,
        };
        let mut payload = status_payload(&row, status, at, None);
        if let Payload::MessageStatus(data) = &mut payload {
            data.participant = receipt.participant.as_ref().map(|member| self.best_address(batch, member));
        }
        let member = receipt.participant.as_ref().map_or("", Address::as_str);
        let told_apart = format!("{}{member}", status.as_str());
        let event =
            self.network_event(receipt.message_id.as_str(), &told_apart, at, payload, about(&row), Timestamp::now());
        batch.commands.push(Command::Receipt {
            channel: self.row.id,
            message: receipt.message_id,
            status: receipt.status,
            participant: receipt.participant,
            at,
            event,
        });
    }

    /// The number of other members of the group that an unacknowledged send goes to, as far as the group is known here.
    fn recipients_of(&self, batch: &mut Batch, id: &MessageId) -> Option<u32> {
        let row = &self.outbox.get(id)?.row;
        let rows = Rows::new(&self.owner.reader, self.row.id, &mut batch.projected);
        let group = rows.get::<Group>(row.chat.as_str())?;
        u32::try_from(group.participants.len()).ok()?.checked_sub(1)
    }
}

/// Whether a receipt can be of such a message. Members of a group know the ids of its messages, but none speaks for all
/// of them, as the recipient of a direct message does.
fn is_of(group: bool, receipt: &Receipt) -> bool {
    !group || receipt.participant.is_some()
}

#[cfg(test)]
mod tests {
    use model::address::Suffixes;
    use model::id::MessageId;

    use super::*;

    #[test]
    fn nobody_says_alone_how_far_a_message_to_a_group_came() {
        let member = Suffixes::simulated().phone_address("15551230000");
        let receipt = |participant| Receipt {
            message_id: MessageId("A".to_owned()),
            chat: member.clone(),
            participant,
            status: ReceiptStatus::Read,
        };
        assert!(!is_of(true, &receipt(None)) && is_of(true, &receipt(Some(member.clone()))));
        assert!(is_of(false, &receipt(None)));
    }
}
