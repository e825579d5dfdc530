//! Chats: the account's state of each ([`ChatRow`]), and the times of the last messages, which commands of messages
//! write ([`LastInbound`], [`LastOutbound`]). A chat is shown from all three.
//!
//! So a message costs its chat only one more small row in its own log entry, and no read.

use std::collections::BTreeMap;

use model::address::{Address, AddressKind};
use model::chat::{Chat, ChatChanges, ChatFlags, ChatKind, ChatSort, SyncedChat};
use model::error::CallError;
use model::group::Group;
use model::id::MessageId;
use model::payload::{ChatArchived, ChatField, ChatPinned, ChatUpdated, Payload};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use traffic::notice::ChatNews;
use traffic::operation::chats::{ChatAnswer, ChatOperation};
use traffic::operation::{Refused, RefusedKind};

use super::{Context, EmittedEvent, NOT_FOUND, Rows, Synced, entity, labels, no_op_if};
use crate::keys::Direction;

pub const AREA: &str = "chats";

/// The account's state of a chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatRow {
    pub id: Address,
    pub flags: ChatFlags,
    /// Messages up to this time are read.
    pub read_upto: Option<Timestamp>,
    /// When the last message was sent or received, as the network reported at a pairing.
    pub synced_at: Option<Timestamp>,
    pub cleared_at: Option<Timestamp>,
    /// The chat is hidden until a later message.
    pub deleted_at: Option<Timestamp>,
}

impl ChatRow {
    fn new(id: Address) -> Self {
        Self { id, flags: ChatFlags::default(), read_upto: None, synced_at: None, cleared_at: None, deleted_at: None }
    }

    /// Merges another row of the same chat into this one.
    fn with(self, other: Self) -> Self {
        Self {
            flags: if self.flags == ChatFlags::default() { other.flags } else { self.flags },
            read_upto: self.read_upto.max(other.read_upto),
            synced_at: self.synced_at.max(other.synced_at),
            cleared_at: self.cleared_at.max(other.cleared_at),
            deleted_at: self.deleted_at.max(other.deleted_at),
            id: self.id,
        }
    }
}

entity!(ChatRow, Chat, |row| row.id.to_string());

/// When a chat last received a message. The message's own command overwrites it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastInbound {
    pub chat: Address,
    pub at: Timestamp,
}

/// When the channel last wrote to the chat, by the API or on the phone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastOutbound {
    pub chat: Address,
    pub at: Timestamp,
}

entity!(LastInbound, LastInbound, |row| row.chat.to_string());
entity!(LastOutbound, LastOutbound, |row| row.chat.to_string());

/// Everything that is known of a chat.
struct Known {
    row: ChatRow,
    inbound: Option<Timestamp>,
    outbound: Option<Timestamp>,
}

impl Known {
    fn new(id: Address) -> Self {
        Self { row: ChatRow::new(id), inbound: None, outbound: None }
    }

    fn find(id: &Address, rows: &Rows<'_>) -> Option<Self> {
        let row = rows.get::<ChatRow>(id.as_str());
        let inbound = rows.get::<LastInbound>(id.as_str()).map(|last| last.at);
        let outbound = rows.get::<LastOutbound>(id.as_str()).map(|last| last.at);
        let unknown = row.is_none() && inbound.is_none() && outbound.is_none();
        (!unknown).then(|| Self { row: row.unwrap_or_else(|| ChatRow::new(id.clone())), inbound, outbound })
    }

    /// As [`Self::find`], for a chat that is not deleted.
    fn shown(id: &Address, rows: &Rows<'_>) -> Result<Self, CallError> {
        Self::find(id, rows).filter(Self::is_shown).ok_or_else(|| CallError::chat_not_found(id.as_str()))
    }

    fn last_message_at(&self) -> Option<Timestamp> {
        self.inbound.max(self.outbound).max(self.row.synced_at)
    }

    fn is_shown(&self) -> bool {
        self.row.deleted_at.is_none_or(|deleted_at| self.last_message_at() > Some(deleted_at))
    }

    fn is_unread(&self) -> bool {
        self.row.flags.marked_unread || self.inbound > self.row.read_upto
    }

    /// The chat as shown at a time, as a mute may have expired.
    fn show(&self, now: Timestamp) -> Chat {
        let ChatFlags { pinned, archived, muted_until, marked_unread: _, ephemeral_expiration } = self.row.flags;
        Chat {
            id: self.row.id.clone(),
            pinned,
            archived,
            muted_until: muted_until.filter(|until| *until == 0 || *until > now.unix_seconds()),
            unread: self.is_unread(),
            ephemeral_expiration,
            last_message_at: self.last_message_at().map(Timestamp::unix_seconds),
        }
    }

    fn read(&mut self, upto: Timestamp) {
        self.row.flags.marked_unread = false;
        self.row.read_upto = self.row.read_upto.max(Some(upto));
    }

    fn change(&mut self, changes: &ChatChanges) {
        self.row.flags.apply(changes);
        if changes.unread == Some(false) {
            self.row.flags.marked_unread = false;
            self.row.read_upto = self.row.read_upto.max(self.inbound);
        }
    }
}

pub fn check(operation: &ChatOperation, rows: &Rows<'_>, context: &Context<'_>) -> Result<(), CallError> {
    match operation {
        ChatOperation::List => Ok(()),
        ChatOperation::Change { chat, changes } => {
            let mut known = Known::shown(&context.best(chat), rows)?;
            let before = known.show(context.at);
            known.change(changes);
            no_op_if(known.show(context.at) == before, "the chat is as it should be already")
        }
        ChatOperation::Clear { chat, .. } => Known::shown(&context.best(chat), rows).map(drop),
        ChatOperation::Read { chat, messages, participant } => {
            let known = Known::shown(&context.best(chat), rows)?;
            let times = messages.iter().map(|id| received_at(&known.row.id, id, participant.as_ref(), context));
            let last = times.collect::<Result<Vec<_>, _>>()?.into_iter().max();
            let all_read = match last {
                Some(last) => known.row.read_upto >= Some(last) && !known.row.flags.marked_unread,
                None => !known.is_unread(),
            };
            no_op_if(all_read, "everything is read already")
        }
    }
}

/// The time at which a message to mark as read was received.
fn received_at(
    chat: &Address,
    id: &MessageId,
    participant: Option<&Address>,
    context: &Context<'_>,
) -> Result<Timestamp, CallError> {
    let found = (context.stored)(Direction::Inbound, id, chat, participant);
    found.map(|message| message.occurred_at).ok_or_else(|| CallError::message_not_found(id.as_str()))
}

/// Whether the account's state was changed elsewhere at the same time, so that the patch has to be made again.
pub fn is_overtaken(operation: &ChatOperation, refused: &Refused) -> bool {
    matches!(operation, ChatOperation::Change { .. }) && refused.kind == RefusedKind::Conflict
}

pub fn refusal(operation: &ChatOperation, refused: &Refused) -> Option<CallError> {
    if is_overtaken(operation, refused) {
        return Some(CallError::concurrent_modification("chat"));
    }
    match operation {
        ChatOperation::Read { messages, .. } if refused.code == NOT_FOUND => {
            messages.first().map(|id| CallError::message_not_found(id.as_str()))
        }
        _ => None,
    }
}

pub fn absorb(operation: &ChatOperation, answer: &ChatAnswer, rows: &mut Rows<'_>, context: &Context<'_>) {
    if let (ChatOperation::List, ChatAnswer::Chats(chats)) = (operation, answer) {
        chats.iter().for_each(|chat| synced(chat, rows, context));
        rows.put(&Synced { area: AREA.to_owned() });
    }
}

pub fn synced(chat: &SyncedChat, rows: &mut Rows<'_>, context: &Context<'_>) {
    let id = context.best(&chat.id);
    let mut known = Known::find(&id, rows).unwrap_or_else(|| Known::new(id));
    known.row.flags = chat.flags.clone();
    known.row.synced_at = known.row.synced_at.max(chat.last_message_at);
    match chat.last_message_at {
        Some(last) if !chat.unread => known.row.read_upto = known.row.read_upto.max(Some(last)),
        _ => known.row.flags.marked_unread |= chat.unread && !known.is_unread(),
    }
    rows.put(&known.row);
}

pub fn take(chat: &Address, news: &ChatNews, rows: &mut Rows<'_>, context: &Context<'_>) -> Vec<EmittedEvent> {
    let id = context.best(chat);
    let known = Known::find(&id, rows);
    let mut known = match (known, news) {
        (Some(known), _) => known,
        (None, ChatNews::Changed(_)) => Known::new(id),
        // A chat of which nothing is known has nothing to mark as read or to clear.
        (None, ChatNews::Read { .. } | ChatNews::Cleared { .. }) => return Vec::new(),
    };
    let before = known.show(context.at);
    let mut changed = Vec::new();
    match news {
        ChatNews::Changed(changes) => known.change(changes),
        ChatNews::Read { upto } => known.read(*upto),
        ChatNews::Cleared { .. } if known.row.cleared_at >= Some(context.at) => return Vec::new(),
        ChatNews::Cleared { deleted } => {
            known.read(context.at);
            known.row.cleared_at = Some(context.at);
            if *deleted {
                // The ephemeral expiration of a group belongs to the group, not to the chat.
                let is_group = known.row.id.kind(context.suffixes) == AddressKind::Group;
                let ephemeral_expiration = if is_group { before.ephemeral_expiration } else { 0 };
                known.row.flags = ChatFlags { ephemeral_expiration, ..ChatFlags::default() };
                known.row.deleted_at = Some(context.at);
            }
            changed.push(if *deleted { ChatField::Deleted } else { ChatField::Cleared });
            if *deleted && labels::remove_chat(&known.row.id, rows) {
                changed.push(ChatField::Labels);
            }
        }
    }
    rows.put(&known.row);
    tell(&before, known.show(context.at), changed, context)
}

/// The events for the differences between two states of a chat.
fn tell(before: &Chat, after: Chat, mut changed: Vec<ChatField>, context: &Context<'_>) -> Vec<EmittedEvent> {
    let is_group = after.id.kind(context.suffixes) == AddressKind::Group;
    let timestamp = context.at.unix_seconds();
    let chat_id = after.id.clone();
    let fields = [
        (ChatField::Unread, before.unread != after.unread),
        (ChatField::MutedUntil, before.muted_until != after.muted_until),
        (ChatField::EphemeralExpiration, before.ephemeral_expiration != after.ephemeral_expiration),
    ];
    changed.extend(fields.into_iter().filter(|(_, differs)| *differs).map(|(field, _)| field));
    let (pinned, archived) = (after.pinned, after.archived);
    let pinned = (before.pinned != pinned)
        .then(|| Payload::ChatPinned(ChatPinned { chat_id: chat_id.clone(), pinned, timestamp, is_group }));
    let archived = (before.archived != archived)
        .then(|| Payload::ChatArchived(ChatArchived { chat_id: chat_id.clone(), archived, timestamp, is_group }));
    let updated = (!changed.is_empty()).then_some(Payload::ChatUpdated(ChatUpdated {
        chat: after,
        changed,
        timestamp,
        is_group,
    }));
    let payloads = [pinned, archived, updated].into_iter().flatten();
    payloads.map(|payload| EmittedEvent { payload, chat: Some(chat_id.clone()) }).collect()
}

/// The labels of a chat, or of messages in it, have changed. A chat that was unknown becomes known.
pub fn labelled(id: Address, rows: &mut Rows<'_>, context: &Context<'_>) -> Vec<EmittedEvent> {
    let known = Known::find(&id, rows).unwrap_or_else(|| {
        let new = Known::new(id);
        rows.put(&new.row);
        new
    });
    let shown = known.show(context.at);
    tell(&shown, shown.clone(), vec![ChatField::Labels], context)
}

/// Makes a chat of a group that the channel is in; the ephemeral expiration is the group's.
pub fn of_group(group: &Group, rows: &mut Rows<'_>) {
    let row = rows.get::<ChatRow>(group.id.as_str());
    let mut row = row.unwrap_or_else(|| ChatRow::new(group.id.clone()));
    row.flags.ephemeral_expiration = group.ephemeral;
    rows.put(&row);
}

/// As [`of_group`], and emits events if the ephemeral expiration of a shown chat changes.
pub fn of_changed_group(group: &Group, rows: &mut Rows<'_>, context: &Context<'_>) -> Vec<EmittedEvent> {
    let before = one(&group.id, rows, context.at);
    of_group(group, rows);
    let Some(before) = before else { return Vec::new() };
    let after = Chat { ephemeral_expiration: group.ephemeral, ..before.clone() };
    tell(&before, after, Vec::new(), context)
}

/// Moves the chat to the phone address after the one behind its LID became known, as its messages are.
pub fn resolved(lid: &Address, phone: &Address, rows: &mut Rows<'_>) {
    let Some(row) = rows.get::<ChatRow>(lid.as_str()) else { return };
    rows.remove::<ChatRow>(lid.as_str());
    let row = match rows.get::<ChatRow>(phone.as_str()) {
        Some(there) => there.with(row),
        None => ChatRow { id: phone.clone(), ..row },
    };
    rows.put(&row);
}

/// Filters of a list of chats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatFilter {
    pub archived: Option<bool>,
    pub pinned: Option<bool>,
    pub unread: Option<bool>,
    pub muted: Option<bool>,
    pub kind: Option<ChatKind>,
}

/// A chat of a list, with the time by which it is sorted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedChat {
    pub chat: Chat,
    pub at: Option<Timestamp>,
}

/// The position at which a page ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatPlace {
    pub id: String,
    pub at: Option<Timestamp>,
}

/// A query for a page of a channel's chats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatPage {
    pub filter: ChatFilter,
    pub sort: ChatSort,
    pub after: Option<ChatPlace>,
    pub limit: usize,
}

/// One chat; `None` if it is unknown or deleted.
pub fn one(id: &Address, rows: &Rows<'_>, now: Timestamp) -> Option<Chat> {
    Known::find(id, rows).filter(Known::is_shown).map(|known| known.show(now))
}

impl ChatPage {
    /// Reads all chats: their order depends on rows that are not sorted by it.
    pub fn read(
        &self,
        rows: &Rows<'_>,
        kind_of: impl Fn(&Address) -> Option<ChatKind>,
        now: Timestamp,
    ) -> Vec<ListedChat> {
        let mut all: BTreeMap<Address, Known> = BTreeMap::new();
        for row in rows.all::<ChatRow>() {
            all.insert(row.id.clone(), Known { row, inbound: None, outbound: None });
        }
        for LastInbound { chat, at } in rows.all() {
            all.entry(chat.clone()).or_insert_with(|| Known::new(chat)).inbound = Some(at);
        }
        for LastOutbound { chat, at } in rows.all() {
            all.entry(chat.clone()).or_insert_with(|| Known::new(chat)).outbound = Some(at);
        }
        let shown = all.into_values().filter(Known::is_shown);
        let listed = shown.map(|known| ListedChat { chat: known.show(now), at: known.last_message_at() });
        let is_of_kind = |chat: &Chat| self.filter.kind.is_none_or(|kind| kind_of(&chat.id) == Some(kind));
        let mut listed: Vec<ListedChat> = listed
            .filter(|listed| self.filter.passes(&listed.chat) && is_of_kind(&listed.chat))
            .filter(|listed| self.after.as_ref().is_none_or(|after| self.key(listed) > self.key_of(after)))
            .collect();
        listed.sort_by(|a, b| self.key(a).cmp(&self.key(b)));
        listed.truncate(self.limit);
        listed
    }

    /// The sort key of a list: latest first, and chats without messages last.
    fn key<'a>(&self, listed: &'a ListedChat) -> (std::cmp::Reverse<Option<Timestamp>>, &'a str) {
        let at = if self.sort == ChatSort::Id { None } else { listed.at };
        (std::cmp::Reverse(at), listed.chat.id.as_str())
    }

    fn key_of<'a>(&self, place: &'a ChatPlace) -> (std::cmp::Reverse<Option<Timestamp>>, &'a str) {
        let at = if self.sort == ChatSort::Id { None } else { place.at };
        (std::cmp::Reverse(at), &place.id)
    }
}

impl ChatFilter {
    fn passes(&self, chat: &Chat) -> bool {
        let is = |wanted: Option<bool>, is: bool| wanted.is_none_or(|wanted| wanted == is);
        is(self.archived, chat.archived)
            && is(self.pinned, chat.pinned)
            && is(self.unread, chat.unread)
            && is(self.muted, chat.muted_until.is_some())
    }
}

#[cfg(test)]
#[path = "chats_tests.rs"]
mod tests;
