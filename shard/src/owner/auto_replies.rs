//! What a channel does by itself if its settings ask for it: reject calls, and send read receipts.

use std::time::Duration;

use model::address::Address;
use model::id::{MessageId, RequestId};
use model::message::Content;
use model::time::Timestamp;
use network::operation::calls::CallOperation;
use network::operation::chats::ChatOperation;
use tokio::sync::oneshot;

use super::channel::{Batch, Channel, OnCommit};
use crate::call::{Send, SendBody};
use crate::records::MessageRow;

/// A call does not ring any more when its offer is older than this.
const RINGS_FOR: Duration = Duration::from_secs(120);

impl Channel {
    /// Tells the sender of a message that it was read (`mark_read_on_receive`).
    pub(super) fn read_at_once(&self, batch: &mut Batch, row: &MessageRow) {
        if !self.settings.settings.mark_read_on_receive || matches!(row.content, Content::Reaction { .. }) {
            return;
        }
        let read = ChatOperation::Read {
            chat: row.chat.clone(),
            messages: vec![row.message_id.clone()],
            participant: row.participant.clone(),
        };
        batch.on_commit.push(OnCommit::Operate(Box::new(read.into())));
    }

    /// Rejects a call, and sends the text of the settings to the caller. Both may be repeated when the call is reported
    /// again: the network rejects a call once, and the message id is derived from the call.
    pub(super) fn turn_away(&mut self, batch: &mut Batch, call: &str, from: &Address, alone: bool, at: Timestamp) {
        let settings = &self.settings.settings;
        if !settings.reject_calls || Timestamp::now().since(at) > RINGS_FOR {
            return;
        }
        let text = settings.reject_call_message.clone().filter(|text| alone && !text.is_empty());
        let reject = CallOperation::Reject { call_id: call.to_owned(), from: Some(from.clone()) };
        batch.on_commit.push(OnCommit::Operate(Box::new(reject.into())));
        let Some(text) = text else { return };
        let send = Send {
            message_id: MessageId::derived(&self.owner.deployment_key, self.row.id, &format!("rejected call {call}")),
            to: self.best_address(batch, from),
            body: SendBody::Content(Content::Text { text }),
            media_room: None,
            around: Box::default(),
            client_ref: None,
        };
        // Nobody waits for it: events report the outcome, as for any send.
        let (reply, _) = oneshot::channel();
        self.accept_send(batch, send, RequestId::mint(), reply);
    }
}
