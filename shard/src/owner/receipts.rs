//! Receipts: how far a sent message got.

use model::address::Address;
use model::payload::{AckStatus, Payload};
use model::time::Timestamp;
use network::driver::{Receipt, ReceiptStatus};

use super::channel::{Batch, Channel};
use super::sends::{about, status_payload};
use crate::command::Command;

impl Channel {
    /// Adds a receipt to the turn.
    pub fn take_receipt(&mut self, batch: &mut Batch, receipt: Receipt, at: Timestamp) {
        // A receipt proves the acceptance that got lost on its way.
        self.settle_accepted(batch, &receipt.message_id, at, None);
        // Its row is gone with the history.
        let Some(row) = self.stored_message(&receipt.message_id) else { return };
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
}
