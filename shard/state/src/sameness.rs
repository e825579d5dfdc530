//! Detects repeats of inbound messages. Two messages are the same if chat, author *and* id are equal: the author
//! chooses the id, so by the id alone anybody could make another author's message look like a repeat.
//!
//! The index leads from an id to the first message that has it, as in every release. From format 3 on, further messages
//! with the same id are indexed beside it as *namesakes*, by chat and author. Pure; the state machine and its owner
//! follow the same rules.

use machine::{State, View, scan_all};
use model::address::Address;
use model::id::{ChannelId, MessageId};
use traffic::item::InboundMessage;

use crate::keys;
use crate::keys::Direction;
use crate::records::{LidRow, MessagePointer, MessageRow, decode};

/// How many namesakes are examined to find a successor of the first message. Replicas have to find the same one.
const MOST_NAMESAKES: usize = 16;

/// How many messages with an id are examined in a chat for one that still exists, if no author is given: any member of
/// a group can send any number of messages with the same id.
const MOST_OF_ANYBODY: usize = 1_024;

/// Pointers that are read at a time.
const CHUNK: usize = 64;

/// The stored message that is the same as an inbound one.
///
/// # Errors
/// The key under which to index the message, if there is none.
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

/// Whether two messages with one id are the same. The address of an author, and of a direct chat with it, may have been
/// resolved in between.
pub fn is_same(view: &dyn View, one: &MessageRow, other: &MessageRow) -> bool {
    let names = names_of(view, other);
    one.message_id == other.message_id
        && chat_of(one) == chat_of(other)
        && names_of(view, one).iter().any(|name| names.contains(name))
}

/// Whether a stored message has the author and chat of an inbound one, whatever its id.
fn is_of(view: &dyn View, row: &MessageRow, message: &InboundMessage) -> bool {
    let names = names_of(view, row);
    let mut told = [Some(&message.from), message.from_phone.as_ref()].into_iter().flatten();
    let chat = (message.chat != message.from).then_some(&message.chat);
    told.any(|name| names.contains(name)) && chat_of(row) == chat
}

/// The stored message that an inbound one may repeat.
pub fn known(view: &dyn View, channel: ChannelId, message: &InboundMessage) -> Option<MessageRow> {
    let is_direct = message.chat == message.from;
    let of_author = |author: &Address| {
        let chat = if is_direct { author } else { &message.chat };
        in_chat(view, channel, &message.id, chat, Some(author)).filter(|row| is_of(view, row, message))
    };
    [Some(&message.from), message.from_phone.as_ref()].into_iter().flatten().find_map(of_author)
}

/// The inbound message of a chat with an id, and with an author if one is given. It is looked up by chat and author,
/// however many others have the id; without an author, the first one found in a group.
pub fn in_chat(
    view: &dyn View,
    channel: ChannelId,
    id: &MessageId,
    chat: &Address,
    author: Option<&Address>,
) -> Option<MessageRow> {
    let first: MessagePointer = read(view, &keys::message_id(channel, Direction::Inbound, id))?;
    let chats = names(view, channel, vec![chat.clone()]);
    let authors = author.map(|author| names(view, channel, vec![author.clone()]));
    let is_one_of = |row: &MessageRow, wanted: &[Address]| names_of(view, row).iter().any(|name| wanted.contains(name));
    let is_wanted = |row: &MessageRow| {
        let is_there = chat_of(row).map_or_else(|| is_one_of(row, &chats), |group| chats.contains(group));
        row.message_id == *id && is_there && authors.as_ref().is_none_or(|authors| is_one_of(row, authors))
    };
    let direct = chats.iter().map(|name| keys::namesake(channel, id, None, name));
    let of_author = authors.iter().flatten().map(|name| keys::namesake(channel, id, Some(chat), name));
    let noted = direct.chain(of_author).filter_map(|key| read::<MessagePointer>(view, &key));
    let noted_in_chat = || scanned(view, keys::namesakes_in(channel, id, chat)).take(MOST_OF_ANYBODY);
    let of_anybody = authors.is_none().then(noted_in_chat);
    // An author may be indexed under an address that nothing leads to any more, so the first few are searched.
    let few = pointers(view, channel, id).take(MOST_NAMESAKES + 1);
    let all = [first].into_iter().chain(noted).chain(of_anybody.into_iter().flatten()).chain(few);
    all.filter_map(|pointer| row_at(view, channel, &pointer)).find(is_wanted)
}

/// The first few inbound messages with an id, the first one first.
pub fn all(view: &dyn View, channel: ChannelId, id: &MessageId) -> Vec<MessageRow> {
    let rows = pointers(view, channel, id).filter_map(|pointer| row_at(view, channel, &pointer));
    rows.filter(|row| row.message_id == *id).take(MOST_NAMESAKES + 1).collect()
}

/// The pointers of the inbound messages with an id, the first one first. They are read lazily in chunks, however many
/// there are. Messages with a longer id may be among them, so the caller has to compare the ids of the rows.
pub fn pointers<'a>(
    view: &'a dyn View,
    channel: ChannelId,
    id: &MessageId,
) -> impl Iterator<Item = MessagePointer> + use<'a> {
    let first: Option<MessagePointer> = read(view, &keys::message_id(channel, Direction::Inbound, id));
    // Without a first message there are no namesakes: pointers found there belong to longer ids.
    let others = first.is_some().then(|| scanned(view, keys::namesakes(channel, id)));
    first.into_iter().chain(others.into_iter().flatten())
}

/// The pointers of a range of keys.
fn scanned<'a>(view: &'a dyn View, range: keys::Range) -> impl Iterator<Item = MessagePointer> + use<'a> {
    scan_all(view, range, CHUNK).map(|(_, pointer)| decode(&pointer))
}

/// Removes a message from the index. If it was the first with its id, a namesake replaces it, as lookups begin there.
pub fn delete(state: &mut dyn State, row: &MessageRow) {
    let first = keys::message_id(row.channel, Direction::Inbound, &row.message_id);
    let is_own = |pointer: Option<MessagePointer>| pointer.is_some_and(|pointer| pointer.row == row.id);
    if is_own(read(&*state, &first)) {
        state.delete(&first);
        let mut others = state.scan_range(keys::namesakes(row.channel, &row.message_id), MOST_NAMESAKES).into_iter();
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

/// The chat, unless it follows from the author, as in a direct chat.
fn chat_of(row: &MessageRow) -> Option<&Address> {
    let is_direct = [Some(&row.from), row.from_lid.as_ref(), row.from_phone.as_ref()].contains(&Some(&row.chat));
    (!is_direct).then_some(&row.chat)
}

/// The address by which an author is indexed: a LID stays the same, while the phone address may become known later.
fn author_of(row: &MessageRow) -> &Address {
    row.from_lid.as_ref().unwrap_or(&row.from)
}

/// All known addresses of an author.
fn names_of(view: &dyn View, row: &MessageRow) -> Vec<Address> {
    let told = [Some(&row.from), row.from_lid.as_ref(), row.from_phone.as_ref()];
    names(view, row.channel, told.into_iter().flatten().cloned().collect())
}

/// The given addresses of a person, and those that have become known since.
fn names(view: &dyn View, channel: ChannelId, mut names: Vec<Address>) -> Vec<Address> {
    let learned = names.iter().filter_map(|name| {
        if name.is_lid() {
            read::<LidRow>(view, &keys::lid(channel, name.local())).map(|row| row.phone)
        } else {
            read::<Address>(view, &keys::lid_of(channel, name.local()))
        }
    });
    let learned: Vec<Address> = learned.collect();
    names.extend(learned);
    names
}
