//! Persistence: a snapshot of the state that is cheap to take, and the records in which it is stored.
//!
//! Messages are shared by all their holders, and shared again after reading: each is stored once, under a number,
//! before the first record that refers to it. Connections, sessions, pairings, calls, answers to operations, faults and
//! counters belong to the process and are not stored.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::msgpack;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::business::Businesses;
use super::communities::Communities;
use super::groups::Groups;
use super::ledger::{Ledger, Row, Rows};
use super::media::{MediaStore, StoredMedia};
use super::message::Message;
use super::newsletters::Newsletters;
use super::pictures::Pictures;
use super::sessions::LoginRecord;
use super::stories::Stories;
use super::subscriber::Subscriber;
use super::subscribers::Subscribers;
use super::{Engine, Later};
use crate::simulator::answers::LoginEnd;

/// Upper bounds for the numbers that a killed process may have assigned after its last snapshot: to inbound items, and
/// to groups and the like.
const LOST_ITEMS: u64 = 1_000_000_000;
const LOST_NAMES: u64 = 10_000;

/// Number of logins per record.
const LOGINS: usize = 4_096;

/// Record types.
const MESSAGE: u8 = 1;
const SUBSCRIBER: u8 = 2;
const ACCEPTED: u8 = 3;
const LOGGED_IN: u8 = 4;
const REST: u8 = 5;

/// Why records cannot be read as a state.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    #[error("record {0} cannot be read: {1}")]
    Unreadable(usize, String),
    #[error("it ends before its last record")]
    Unfinished,
}

/// A copy of the state at one moment.
pub struct Snapshot {
    subscribers: Subscribers,
    accepted: Rows,
    logins: Vec<LoginRecord>,
    rest: Rest,
    /// All messages of a state that was read. Empty in a copy, whose messages are found through their holders.
    messages: Vec<Arc<Message>>,
    /// The contents of separate files by name; a name is never reused for other contents.
    pub files: Vec<(String, Bytes)>,
}

/// The remaining, small parts of the state.
#[derive(Serialize, Deserialize)]
struct Rest {
    item_tag: String,
    items: u64,
    groups: Groups,
    communities: Communities,
    newsletters: Newsletters,
    businesses: Businesses,
    stories: Stories,
    media: StoredMedia,
    pictures: Pictures,
}

/// Assigns numbers to messages while a snapshot is written.
#[derive(Default)]
struct Numbers {
    /// Numbers by address, which is stable because the snapshot holds all messages until it is written.
    known: HashMap<*const Message, u32>,
    /// Records of messages that are not written yet.
    new: Vec<Vec<u8>>,
}

thread_local! {
    static NUMBERS: RefCell<Numbers> = RefCell::default();
    static MESSAGES: RefCell<Vec<Arc<Message>>> = const { RefCell::new(Vec::new()) };
}

/// The number of a message, while a snapshot is written on this thread.
pub fn number_of(message: &Arc<Message>) -> io::Result<u32> {
    if let Some(number) = NUMBERS.with_borrow(|numbers| numbers.known.get(&Arc::as_ptr(message)).copied()) {
        return Ok(number);
    }
    // Encoding the message assigns a number to its older target first.
    let record = encoded(MESSAGE, &**message)?;
    NUMBERS.with_borrow_mut(|numbers| {
        let number = u32::try_from(numbers.known.len()).map_err(io::Error::other)?;
        numbers.known.insert(Arc::as_ptr(message), number);
        numbers.new.push(record);
        Ok(number)
    })
}

/// The message with a number, while a snapshot is read on this thread.
pub fn message_of(number: u32) -> io::Result<Arc<Message>> {
    let message = MESSAGES.with_borrow(|messages| messages.get(number as usize).cloned());
    message.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("there is no message {number}")))
}

fn encoded(kind: u8, value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut record = vec![kind];
    msgpack::append_named(&mut record, value).map_err(io::Error::other)?;
    Ok(record)
}

impl Snapshot {
    /// Passes all records to `write`, in the order in which they must be read.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn write(&self, write: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        NUMBERS.set(Numbers::default());
        let written = self.write_numbered(write);
        NUMBERS.set(Numbers::default());
        written
    }

    fn write_numbered(&self, mut write: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut put = |record: io::Result<Vec<u8>>| -> io::Result<()> {
            let record = record?;
            for message in NUMBERS.with_borrow_mut(|numbers| std::mem::take(&mut numbers.new)) {
                write(&message)?;
            }
            write(&record)
        };
        for rows in self.accepted.chunks() {
            put(encoded(ACCEPTED, rows))?;
        }
        for subscriber in self.subscribers.values() {
            put(encoded(SUBSCRIBER, subscriber))?;
        }
        for logins in self.logins.chunks(LOGINS) {
            put(encoded(LOGGED_IN, &logins))?;
        }
        put(encoded(REST, &self.rest))
    }

    /// Reads the records of [`Snapshot::write`]; `files` holds the contents of the separate files.
    ///
    /// # Errors
    /// A record is unreadable or missing.
    pub fn read<'a>(
        records: impl Iterator<Item = &'a [u8]>,
        files: HashMap<String, Bytes>,
    ) -> Result<Self, StoredError> {
        MESSAGES.set(Vec::new());
        let (mut subscribers, mut accepted, mut logins) = (Subscribers::default(), Rows::default(), Vec::new());
        let mut rest = None;
        for (index, record) in records.enumerate() {
            let unreadable = |reason: String| StoredError::Unreadable(index + 1, reason);
            let (kind, value) = record.split_first().ok_or_else(|| unreadable("it is empty".into()))?;
            match *kind {
                MESSAGE => {
                    let message: Message = decoded(value).map_err(unreadable)?;
                    MESSAGES.with_borrow_mut(|messages| messages.push(Arc::new(message)));
                }
                SUBSCRIBER => subscribers.insert(decoded::<Subscriber>(value).map_err(unreadable)?),
                ACCEPTED => accepted.extend(decoded::<Vec<Row>>(value).map_err(unreadable)?),
                LOGGED_IN => logins.extend(decoded::<Vec<LoginRecord>>(value).map_err(unreadable)?),
                REST => rest = Some(decoded::<Rest>(value).map_err(unreadable)?),
                other => return Err(unreadable(format!("{other} is no kind of record"))),
            }
        }
        let rest = rest.ok_or(StoredError::Unfinished)?;
        let mut messages = MESSAGES.take();
        // Among messages with the same id, the last one takes precedence.
        messages.sort_by_key(|message| message.at);
        Ok(Self { subscribers, accepted, logins, rest, messages, files: files.into_iter().collect() })
    }
}

fn decoded<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, String> {
    msgpack::from_slice(bytes).map_err(|error| error.to_string())
}

impl Engine {
    /// A copy of the state that is persisted.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            subscribers: self.subscribers.clone(),
            accepted: self.ledger.copy(),
            logins: self.logins.clone(),
            rest: Rest {
                item_tag: self.item_tag.clone(),
                items: self.items,
                groups: self.groups.clone(),
                communities: self.communities.clone(),
                newsletters: self.newsletters.clone(),
                businesses: self.businesses.clone(),
                stories: self.stories.clone(),
                media: self.media.stored(),
                pictures: self.pictures.clone(),
            },
            messages: Vec::new(),
            files: self.media.files().chain(self.pictures.files()).collect(),
        }
    }

    /// Restores a stored state. If the process that stored it did not shut down in order, it may have assigned further
    /// numbers and names; those are skipped, so that no node mistakes a new item for one that it has seen.
    ///
    /// No session survives. The epochs of past logins stay on record, but the next login of a device is judged as its
    /// first.
    pub fn restore(&mut self, now: Timestamp, snapshot: Snapshot, ended_in_order: bool) {
        let Snapshot { mut subscribers, accepted, mut logins, rest, messages, files } = snapshot;
        for message in &messages {
            self.messages.insert(message);
        }
        let numbers: Vec<_> = subscribers.values().map(|subscriber| subscriber.number).collect();
        for number in numbers {
            let Some(subscriber) = subscribers.get_mut(&number) else { continue };
            subscriber.begin_anew();
            if let Some(delay) = subscriber.auto_read_ms {
                let due = now.plus(Duration::from_millis(delay.into()));
                for position in subscriber.unread() {
                    self.timers.push(due, Later::AutoRead { number, position });
                }
            }
        }
        for login in logins.iter_mut().filter(|login| login.end.is_none()) {
            login.end = Some((now, LoginEnd::Lost));
        }
        self.subscribers = subscribers;
        self.ledger = Ledger::restore(accepted);
        self.logins = logins;
        let Rest { item_tag, items, groups, communities, newsletters, businesses, stories, media, pictures } = rest;
        let files: HashMap<String, Bytes> = files.into_iter().collect();
        (self.item_tag, self.items) = (item_tag, items);
        (self.groups, self.communities, self.newsletters) = (groups, communities, newsletters);
        (self.businesses, self.stories, self.pictures) = (businesses, stories, pictures);
        self.media = MediaStore::restore(media, &files);
        self.pictures.restore(&files);
        if !ended_in_order {
            self.items += LOST_ITEMS;
            self.groups.leave_out(LOST_NAMES);
            self.communities.leave_out(LOST_NAMES);
            self.newsletters.leave_out(LOST_NAMES);
            self.businesses.leave_out(LOST_NAMES);
        }
    }
}
