//! When two messages that came in are the same: when chat, author *and* id are. An id is its author's to choose, so
//! that by the id alone anybody could have somebody else's message taken for a repeat.
//!
//! The index of messages leads from an id to the first message that bears it, as it did in every release. From the third format
//! on, others that bear the same id stand beside it as *namesakes*, by chat and author. Pure; the rules hold for the state
//! machine and for what its owner looks up.

use machine::{State, View};
use model::address::Address;
use model::id::{ChannelId, MessageId};
use traffic::item::InboundMessage;

use crate::keys;
use crate::keys::Direction;
use crate::records::{LidRow, MessagePointer, MessageRow, decode};

/// How many messages of one id are looked up.
const MOST_NAMESAKES: usize = 16;

/// The stored message that is the same as one that came in.
///
/// # Errors
/// The key under which it is to be noted, when there is none.
pub fn find(view: &dyn View, row: &MessageRow) -> Result<MessagePointer, Vec<u8>> {
    let first = keys::message_id(row.channel, Direction::Inbound, &row.message_id);
    let Some(pointer) = read::<MessagePointer>(view, &first) else { return Err(first) };
    let stored = row_at(view, row.channel, &pointer);
    if stored.is_none_or(|stored| is_same(view, &stored, row)) {
        return Ok(pointer);
    }
    let namesake = |author: &Address| keys::namesake(row.channel, &row.message_id, chat_of(row), author);
    let known = names_of(view, row).iter().find_map(|name| read(view, &namesake(name)));
    known.ok_or_else(|| namesake(author_of(row)))
}

/// Whether two messages of one id are the same. The address of an author, and with it that of a direct chat, may have been
/// resolved in between.
pub fn is_same(view: &dyn View, one: &MessageRow, other: &MessageRow) -> bool {
    let names = names_of(view, other);
    one.message_id == other.message_id
        && chat_of(one) == chat_of(other)
        && names_of(view, one).iter().any(|name| names.contains(name))
}

/// Whether a stored message may be the one that comes in: its author's and its chat's, whatever its id.
pub fn is_of(view: &dyn View, row: &MessageRow, message: &InboundMessage) -> bool {
    let names = names_of(view, row);
    let mut told = [Some(&message.from), message.from_phone.as_ref()].into_iter().flatten();
    let chat = (message.chat != message.from).then_some(&message.chat);
    told.any(|name| names.contains(name)) && chat_of(row) == chat
}

/// The messages that came in under an id, the first one first.
pub fn all(view: &dyn View, channel: ChannelId, id: &MessageId) -> Vec<MessageRow> {
    let first = view.get(&keys::message_id(channel, Direction::Inbound, id));
    let Some(first) = first else { return Vec::new() };
    let (from, to) = keys::namesakes(channel, id);
    let others = view.scan(&from, &to, MOST_NAMESAKES).into_iter().map(|(_, pointer)| pointer);
    let rows = [first].into_iter().chain(others).filter_map(|pointer| row_at(view, channel, &decode(&pointer)));
    rows.filter(|row| row.message_id == *id).collect()
}

/// Takes a message out of the index. Where it was the first of its id, a namesake takes its place: what is not in that
/// place is not looked for.
pub fn forget(state: &mut dyn State, row: &MessageRow) {
    let first = keys::message_id(row.channel, Direction::Inbound, &row.message_id);
    let is_own = |pointer: Option<MessagePointer>| pointer.is_some_and(|pointer| pointer.row == row.id);
    if is_own(read(&*state, &first)) {
        state.delete(&first);
        let (from, to) = keys::namesakes(row.channel, &row.message_id);
        let mut others = state.scan(&from, &to, MOST_NAMESAKES).into_iter();
        let of_id = |pointer: &[u8]| {
            row_at(&*state, row.channel, &decode(pointer)).is_some_and(|other| other.message_id == row.message_id)
        };
        if let Some((key, pointer)) = others.find(|(_, pointer)| of_id(pointer)) {
            state.put(&first, &pointer);
            state.delete(&key);
        }
        return;
    }
    for name in names_of(&*state, row) {
        let key = keys::namesake(row.channel, &row.message_id, chat_of(row), &name);
        if is_own(read(&*state, &key)) {
            state.delete(&key);
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(view: &dyn View, key: &[u8]) -> Option<T> {
    view.get(key).map(|value| decode(&value))
}

fn row_at(view: &dyn View, channel: ChannelId, pointer: &MessagePointer) -> Option<MessageRow> {
    read(view, &keys::message(channel, pointer.occurred_at, pointer.row))
}

/// The conversation, where it does not follow from who wrote.
fn chat_of(row: &MessageRow) -> Option<&Address> {
    let is_direct = [Some(&row.from), row.from_lid.as_ref(), row.from_phone.as_ref()].contains(&Some(&row.chat));
    (!is_direct).then_some(&row.chat)
}

/// The name of an author that is kept: a LID stays, a phone address may become known later.
fn author_of(row: &MessageRow) -> &Address {
    row.from_lid.as_ref().unwrap_or(&row.from)
}

/// All addresses that are known of an author.
fn names_of(view: &dyn View, row: &MessageRow) -> Vec<Address> {
    let told = [Some(&row.from), row.from_lid.as_ref(), row.from_phone.as_ref()];
    let mut names: Vec<Address> = told.into_iter().flatten().cloned().collect();
    let learned = names.iter().filter_map(|name| {
        if name.is_lid() {
            read::<LidRow>(view, &keys::lid(row.channel, name.local())).map(|row| row.phone)
        } else {
            read::<Address>(view, &keys::lid_of(row.channel, name.local()))
        }
    });
    let learned: Vec<Address> = learned.collect();
    names.extend(learned);
    names
}
