//! The path of a send at the owner: check, resolve, commit, write; then the network's verdict.

use bytes::Bytes;
use model::address::{Address, AddressKind, Undeliverable};
use model::error::CallError;
use model::event::EventName;
use model::format::Format;
use model::id::{MessageId, RequestId, RowId};
use model::message::Content;
use model::payload::{
    AckStatus, Chat, MessageSent, MessageStatus as StatusPayload, Payload, SendError, SendSource, Sender,
};
use model::status::{OnSend, Status};
use model::time::Timestamp;
use network::operation::{Refused, RefusedKind};
use raft::failpoint::{self, Point};
use raft::machine::View;
use tokio::sync::oneshot;

use super::channel::{Batch, Channel, OnCommit, Worked};
use super::compose::Composed;
use super::events::{self, About};
use super::inbound::reaction_payload;
use super::outbox::{Entry, SendVerdict};
use super::outbox_bytes::Charge;
use crate::call::{Send, Sent, SentStatus};
use crate::command::{Command, NewEvent, NewMessage, ProjectedWrite, Verdict};
use crate::figures;
use crate::history::{Direction, MessageStatus, Source, is_withheld, withhold};
use crate::keys;
use crate::machine::OFFLINE_QUEUE;
use crate::media::record::MediaRow;
use crate::projection::{Projected, Rows, stories};
use crate::records::{Failure, LidRow, MessageRow, MessageState, OutboxEntry, decode, encode};
use crate::trace::{self, Kind, Place};

/// Failure code of a message that its recipient cannot receive.
const UNDELIVERABLE: &str = "undeliverable_recipient";

/// Failure code of a message that the driver cannot send.
const NOT_IMPLEMENTED: &str = "not_implemented";

/// Events that the network's acceptance of a send may emit.
const OF_ACCEPTANCE: [EventName; 3] = [EventName::MessageSent, EventName::MessageStatus, EventName::MessageReaction];

/// How many characters of the network's reason for a refusal are kept.
const LONGEST_REASON: usize = 1024;

impl Channel {
    /// Adds a send to the batch, or answers at once if it cannot be accepted.
    pub fn accept_send(
        &mut self,
        batch: &mut Batch,
        send: Send,
        request_id: RequestId,
        reply: oneshot::Sender<Result<Worked, CallError>>,
    ) {
        match self.row_of(&send, request_id) {
            Err(error) => drop(reply.send(self.refused_or_sent_before(send, error))),
            Ok((row, mut media)) => {
                if let Some(media) = &mut media {
                    media.counted = self.owner.node.media.counts();
                }
                // If the row holds the whole message, a second copy would only make the log longer.
                let is_stored = self.keep().bodies && self.owner.node.directory.format() >= Format::THIRD;
                let outbox = if is_stored { Bytes::new() } else { Bytes::from(encode(&OutboxEntry::whole(&row))) };
                let message = self.new_message(&row);
                let bytes = message.row.len() + outbox.len();
                let Some(charge) = self.owner.node.outbox_bytes.of(self.row.customer).try_take(bytes) else {
                    return drop(reply.send(self.refused_or_sent_before(send, CallError::worker_at_capacity())));
                };
                let mut rows = Rows::new(&self.owner.reader, self.row.id, &mut batch.projected);
                stories::sent(&row.message_id, &row.content, &mut rows, row.created_at);
                let projected = rows.into_writes();
                let customer = self.row.customer;
                let room = send.media_room.filter(|_| media.is_some()).map(|room| *room);
                let accept = match media {
                    None if is_stored => Command::Send { message, projected },
                    media => Command::AcceptSend { customer, message, outbox, media, projected, room },
                };
                batch.on_commit.push(OnCommit::Send {
                    command: batch.commands.len(),
                    row: Box::new(row),
                    client_ref: send.client_ref,
                    room,
                    charge,
                    reply,
                });
                batch.commands.push(accept);
            }
        }
    }

    /// Refuses a send, unless an earlier call has brought it: that call, or a later one, may be the reason.
    pub fn refused_or_sent_before(&mut self, send: Send, error: CallError) -> Result<Worked, CallError> {
        let stored = self.stored_message(&send.message_id);
        stored.map_or(Err(error), |row| self.sent_before(row, send.client_ref))
    }

    /// A message as it is stored: without its body if the channel keeps none, or, for messages from the network or the
    /// phone, if the account's quota is used up. An accepted send is not cut by the quota, since its outbox entry may
    /// rely on the row.
    pub fn new_message(&self, row: &MessageRow) -> NewMessage {
        let has_room = || row.source == Source::Api || self.owner.over_message_bytes(self.row.customer).is_none();
        if self.keep().bodies && has_room() {
            return NewMessage::of(row);
        }
        let mut envelope = row.clone();
        withhold(&mut envelope);
        NewMessage::of(&envelope)
    }

    /// Checks whether a send to this address, or a story, would be accepted now.
    pub fn check_send(&self, to: Option<&Address>) -> Result<(), CallError> {
        self.check_status()?;
        if let Some(full) = self.owner.over_message_bytes(self.row.customer) {
            return Err(full);
        }
        to.map_or(Ok(()), |to| self.resolve(to).map(drop))
    }

    fn check_status(&self) -> Result<(), CallError> {
        if matches!(self.row.status.on_send(), OnSend::NotConnected | OnSend::Unavailable) {
            return Err(self.refuse_send(self.row.status));
        }
        if self.owner.lacks_room() {
            metrics::counter!("gateway_refused_for_room_total", "what" => "send").increment(1);
            return Err(CallError::storage_full());
        }
        Ok(())
    }

    fn row_of(&self, send: &Send, request_id: RequestId) -> Result<(MessageRow, Option<Box<MediaRow>>), CallError> {
        self.check_status()?;
        // Also while connected: a network that accepts nothing must not let the queue grow without bound.
        if self.outbox.len() >= OFFLINE_QUEUE {
            return Err(CallError::worker_at_capacity());
        }
        let to = if send.body.is_story() { Address::stories() } else { self.resolve(&send.to)? };
        let Composed { mut content, around, media } = self.compose(send)?;
        self.aim_story(&mut content)?;
        if let Some(target) = content.target_mut() {
            target.remote_jid.clone_from(&to);
        }
        let suffixes = &self.owner.node.suffixes;
        let own = self.own_address();
        let now = Timestamp::now();
        let row = MessageRow {
            id: RowId::new(),
            message_id: send.message_id.clone(),
            channel: self.row.id,
            direction: Direction::Outbound,
            source: Source::Api,
            chat: to.clone(),
            is_group: to.kind(suffixes) == AddressKind::Group,
            from: own.clone(),
            from_resolved: true,
            from_lid: None,
            from_phone: Some(own),
            to,
            participant: None,
            push_name: self.row.push_name.clone(),
            content,
            around,
            client_ref: send.client_ref.clone(),
            correlation_id: request_id.0.clone(),
            request_id: Some(request_id.0),
            occurred_at: now,
            created_at: now,
        };
        match self.owner.over_message_bytes(self.row.customer) {
            // A message without a body, such as a deletion, takes next to no space.
            Some(full) if !is_withheld(&row) => Err(full),
            _ => Ok((row, media)),
        }
    }

    /// Resolves the audience of a story to phone addresses, and checks that a story to be deleted exists.
    fn aim_story(&self, content: &mut Content) -> Result<(), CallError> {
        match content {
            Content::Story(story) => {
                for recipient in story.recipients.iter_mut().flatten() {
                    *recipient = self.resolve(recipient)?;
                }
                Ok(())
            }
            Content::StoryDelete { story } => {
                let mut batch = Projected::default();
                let rows = Rows::new(&self.owner.reader, self.row.id, &mut batch);
                stories::find(story, &rows, Timestamp::now()).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// The projection's writes that follow from the network's verdict on a send.
    fn settled_story(&self, row: &MessageRow, accepted: bool) -> Vec<ProjectedWrite> {
        let mut batch = Projected::default();
        let mut rows = Rows::new(&self.owner.reader, self.row.id, &mut batch);
        stories::settled(&row.message_id, &row.content, accepted, &mut rows);
        rows.into_writes()
    }

    /// The address that a send goes to; a LID is replaced by its phone address.
    fn resolve(&self, to: &Address) -> Result<Address, CallError> {
        let undeliverable = |reason| CallError::undeliverable_recipient(to.as_str(), reason);
        match to.check_recipient(&self.owner.node.suffixes).map_err(undeliverable)? {
            AddressKind::Lid => self.phone_behind(to).ok_or_else(|| undeliverable(Undeliverable::UnknownLid)),
            _ => Ok(to.clone()),
        }
    }

    /// The channel's own address; a placeholder while it has no number.
    pub fn own_address(&self) -> Address {
        self.owner.node.suffixes.phone_address(self.row.phone_number.as_deref().unwrap_or("0"))
    }

    /// The phone address of a LID, if it is known.
    pub fn phone_behind(&self, lid: &Address) -> Option<Address> {
        let row = self.owner.reader.get(&keys::lid(self.row.id, lid.local()))?;
        Some(decode::<LidRow>(&row).phone)
    }

    /// The LID of a phone address, if it is known.
    pub fn lid_behind(&self, phone: &Address) -> Option<Address> {
        let lid = self.owner.reader.get(&keys::lid_of(self.row.id, phone.local()))?;
        Some(decode(&lid))
    }

    pub fn refuse_send(&self, status: Status) -> CallError {
        if self.row.deleted {
            CallError::channel_not_found()
        } else if status.is_terminal() {
            CallError::channel_unavailable(status, self.row.reason)
        } else {
            CallError::not_connected(status)
        }
    }

    /// Adds a committed send to the outbox.
    pub fn sent(&mut self, row: MessageRow, client_ref: Option<String>, charge: Charge) -> Worked {
        let sent =
            Sent { message_id: row.message_id.clone(), client_ref, status: SentStatus::Queued, to: row.to.clone() };
        let id = row.message_id.clone();
        self.outbox.push(row, false, charge);
        // Only a connected channel can get a verdict soon; other callers need not wait.
        let verdict = if self.row.status == Status::Connected { self.outbox.wait_for(&id) } else { None };
        Worked::Accepted(sent, verdict)
    }

    /// Answers a send that was committed for an earlier call whose answer was lost.
    ///
    /// # Errors
    /// The refusal that the first call would have got.
    pub fn sent_before(&mut self, row: MessageRow, client_ref: Option<String>) -> Result<Worked, CallError> {
        let mut sent = Sent { message_id: row.message_id.clone(), client_ref, status: SentStatus::Queued, to: row.to };
        if self.outbox.contains(&row.message_id) {
            let connected = self.row.status == Status::Connected;
            let verdict = if connected { self.outbox.wait_for(&row.message_id) } else { None };
            return Ok(Worked::Accepted(sent, verdict));
        }
        if let Some(stored) = self.stored_message(&row.message_id) {
            let state = MessageState::read(&self.owner.shown(), &stored);
            match (state.status, state.error) {
                (MessageStatus::Queued, _) => {}
                (MessageStatus::Failed, Some(failure)) => return Err(refusal_of(&stored.to, &failure)),
                _ => sent.status = SentStatus::Sent,
            }
        }
        Ok(Worked::Accepted(sent, None))
    }

    /// The network accepted a message. In a group, each of the `recipients` will acknowledge it.
    pub fn settle_accepted(&mut self, batch: &mut Batch, id: &MessageId, at: Timestamp, recipients: Option<u32>) {
        let Some(mut entry) = self.outbox.take(id) else { return };
        failpoint::reach(Point::OutcomeBeforeCommit);
        batch.settled.push(self.owner.settling.begin(self.row.id, entry.row.id, at));
        entry.answer(SendVerdict::Accepted);
        let row = &entry.row;
        let now = Timestamp::now();
        crate::telemetry::sent(row.content.type_name(), now.since(row.created_at));
        figures::sent(now.since(row.created_at));
        if let Some(span) = trace::begin(&row.correlation_id, Place::Within, Kind::Client, || "send".to_owned()) {
            let span = span.since(row.created_at).with("gateway.message_id", id.as_str());
            span.with("gateway.channel_id", self.row.id.to_string()).end();
        }
        let projected = self.settled_story(row, true);
        let (customer, directory) = (self.row.customer, &self.owner.node.directory);
        let is_short = recipients.is_none()
            && projected.is_empty()
            && !matches!(row.content, Content::StoryDelete { .. })
            && directory.format() >= Format::THIRD
            && events::are_unheard(directory, customer, self.row.id, &OF_ACCEPTANCE);
        if is_short {
            // Has the same effect as the events below when nobody subscribes to them, without making them.
            let (channel, message) = (self.row.id, id.clone());
            return batch.commands.push(Command::Sent { customer, channel, message, at, heard_at: now });
        }
        let sent = status_payload(row, AckStatus::Sent, at, None);
        let payloads = match &row.content {
            // A story belongs to no chat; the end of its deletion shows in the story itself.
            Content::Story(_) => vec![sent],
            Content::StoryDelete { .. } => Vec::new(),
            _ => vec![sent_payload(row, SendSource::Api, at), sent],
        };
        let reaction = reaction_payload(row, Sender::phone(row.from.clone()), true, at);
        let events = payloads.into_iter().chain(reaction).map(|payload| self.event(payload, about(row), now));
        // The first event is always logged, since it is also counted; the others only if somebody wants them.
        let events = events.enumerate().filter(|(place, event)| *place == 0 || event.is_wanted());
        let events: Vec<NewEvent> = events.map(|(_, event)| event).collect();
        let settle = Command::Settle {
            channel: self.row.id,
            message: id.clone(),
            verdict: Verdict::Accepted { recipients },
            at,
            events,
            projected,
        };
        batch.commands.push(settle.shortened(self.owner.node.directory.format()));
    }

    /// The network refused a message permanently.
    pub fn settle_refused(&mut self, batch: &mut Batch, id: &MessageId, refused: Refused) {
        let code = match refused.kind {
            RefusedKind::Recipient => UNDELIVERABLE,
            RefusedKind::Unsupported => NOT_IMPLEMENTED,
            _ => "other",
        };
        let text: String = refused.text.chars().take(LONGEST_REASON).collect();
        let message = format!("the network refused: {} {text}", refused.code);
        // The failure's code carries the kind, since older releases read these rows too.
        let stored = refused.clone().of(RefusedKind::Other);
        let failure = Failure { refused: Some(stored), ..Failure::new(code, &message) };
        let Some(failed) = self.failed(id, &failure) else { return };
        batch.commands.push(failed);
        if let Some(caller) = self.outbox.take(id).and_then(Entry::into_caller) {
            batch.on_commit.push(OnCommit::Refuse(caller, SendVerdict::Refused(refused)));
        }
    }

    /// The command that fails a queued send; `None` if it is not queued (any more).
    pub fn failed(&self, id: &MessageId, failure: &Failure) -> Option<Command> {
        Some(self.failed_row(&self.outbox.get(id)?.row, failure))
    }

    /// The command that fails the send of a stored message.
    pub fn failed_row(&self, row: &MessageRow, failure: &Failure) -> Command {
        let now = Timestamp::now();
        metrics::counter!("gateway_sends_total", "type" => row.content.type_name(), "outcome" => "failed").increment(1);
        figures::send_failed();
        let error = SendError { code: failure.code.clone(), message: failure.message.clone() };
        let failed = status_payload(row, AckStatus::Failed, now, Some(error));
        let is_told = !matches!(row.content, Content::StoryDelete { .. });
        Command::Settle {
            channel: self.row.id,
            message: row.message_id.clone(),
            verdict: Verdict::Failed(failure.clone()),
            at: now,
            events: is_told.then(|| self.event(failed, about(row), now)).into_iter().collect(),
            projected: self.settled_story(row, false),
        }
    }
}

/// The error for the caller of a failed send.
fn refusal_of(to: &Address, failure: &Failure) -> CallError {
    let kind = match failure.code.as_str() {
        UNDELIVERABLE => RefusedKind::Recipient,
        NOT_IMPLEMENTED => RefusedKind::Unsupported,
        _ => RefusedKind::Other,
    };
    match failure.refused.clone() {
        Some(refused) => refusal(to, &refused.of(kind)),
        None => CallError::upstream_refused(0, &failure.message),
    }
}

/// The error for the caller of a send that the network refused.
pub fn refusal(to: &Address, refused: &Refused) -> CallError {
    match refused.kind {
        RefusedKind::Recipient => CallError::undeliverable_recipient(to.as_str(), Undeliverable::NotRegistered),
        RefusedKind::Unsupported => CallError::not_on_this_network(&refused.text),
        _ => CallError::upstream_refused(u32::from(refused.code), &refused.text),
    }
}

/// What an event about a stored message refers to.
pub fn about(row: &MessageRow) -> About {
    About {
        message: Some(row.message_id.clone()),
        correlation_id: Some(row.correlation_id.clone()),
        chat: Some(row.chat.clone()),
    }
}

pub fn chat_of(row: &MessageRow) -> Chat {
    Chat { chat_id: row.chat.clone(), is_group: row.is_group, participant: row.participant.clone() }
}

/// `message.sent` of a message that the network accepted.
pub fn sent_payload(row: &MessageRow, source: SendSource, at: Timestamp) -> Payload {
    Payload::MessageSent(MessageSent {
        message_id: row.message_id.clone(),
        client_ref: row.client_ref.clone(),
        to: row.to.clone(),
        chat: chat_of(row),
        message_type: row.content.type_name(),
        source,
        sent_at: at,
    })
}

/// `message.status` of a message that this channel sent.
pub fn status_payload(row: &MessageRow, status: AckStatus, at: Timestamp, error: Option<SendError>) -> Payload {
    Payload::MessageStatus(StatusPayload {
        message_id: row.message_id.clone(),
        to: row.to.clone(),
        status,
        is_group: row.is_group,
        timestamp: at.unix_seconds(),
        participant: None,
        client_ref: row.client_ref.clone(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use model::address::Suffixes;
    use model::error::ErrorCode;
    use serde_json::json;

    use super::*;

    #[test]
    fn who_repeats_a_refused_send_is_told_what_the_first_caller_was() {
        let to = Suffixes::simulated().phone_address("15551230000");
        let told = |refused: Option<(u16, &str)>, code: &str| {
            let refused = refused.map(|(code, text)| Refused::new(code, text));
            let error = refusal_of(&to, &Failure { refused, ..Failure::new(code, "gone") });
            (error.code, error.details.unwrap_or_default())
        };
        let not_registered = json!({ "to": to, "reason": "not_registered" });
        assert_eq!(told(Some((479, "bad")), UNDELIVERABLE), (ErrorCode::UndeliverableRecipient, not_registered));
        let refused = json!({ "upstream_code": 403, "upstream_text": "only admins" });
        assert_eq!(told(Some((403, "only admins")), "other"), (ErrorCode::Other, refused));
        let given_up = json!({ "upstream_code": 0, "upstream_text": "gone" });
        let unsupported = json!({ "feature": "messages.catalog", "network": "whatsapp" });
        let told_so = told(Some((0, "messages.catalog")), NOT_IMPLEMENTED);
        assert_eq!(told_so, (ErrorCode::NotImplemented, unsupported));
        assert_eq!(told(None, "other"), (ErrorCode::Other, given_up));
    }
}
