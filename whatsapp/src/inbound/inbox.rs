//! Items on their way to the owner, in order; at most [`EVENT_WINDOW`] of them unacknowledged.
//!
//! An item is kept in one of two ways: as a row (`x/`), which is durable before the network's acknowledgement can leave and goes
//! when the owner has acknowledged it; or by the network itself, while the durability hook waits for the owner.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use model::id::MessageId;
use model::time::Timestamp;
use network::driver::{AuthError, EVENT_WINDOW, InboundItem, InboundKind, ItemId, SessionEvent};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use whatsapp_rust::Client;

use super::groups;
use crate::line::Line;
use crate::state::keys;
use crate::state::log::{Class, StateLog, Write};
use crate::state::rows::{pack, unpack};

/// Items that may wait for the owner before the session stops reading.
const MOST_WAITING: usize = 512;

/// How long it then waits.
const ROOM_WITHIN: Duration = Duration::from_secs(60);

pub struct Inbox {
    log: Arc<StateLog>,
    window: Arc<Semaphore>,
    items: Mutex<Items>,
    more: Notify,
    less: Notify,
    /// The owner takes items from the log-in on.
    open: Notify,
}

#[derive(Default)]
struct Items {
    next_row: u64,
    waiting: VecDeque<Waiting>,
    /// Receipts of a group's members that came before it is known whether their message is accepted; after that they are counted.
    early: Vec<(MessageId, Item)>,
    /// No receipt is early any more.
    is_settled: bool,
    out: HashMap<ItemId, Out>,
}

enum Waiting {
    Item(Box<Item>),
    /// What is said behind the items before it.
    Event(SessionEvent),
}

struct Item {
    item: InboundItem,
    kept: Kept,
}

enum Kept {
    Row(u64),
    /// By the network; told when the owner has it.
    Network(oneshot::Sender<()>),
}

impl Items {
    fn take(&mut self, item: Item, knows: impl Fn(&MessageId) -> bool) {
        if let InboundKind::Receipt(receipt) = &item.item.kind
            && receipt.participant.is_some()
            && !self.is_settled
            && !knows(&receipt.message_id)
        {
            self.early.push((receipt.message_id.clone(), item));
            return;
        }
        self.waiting.push_back(Waiting::Item(Box::new(item)));
    }

    fn release(&mut self, is_known: impl Fn(&MessageId) -> bool) {
        let (known, early) = std::mem::take(&mut self.early).into_iter().partition(|(id, _)| is_known(id));
        self.early = early;
        let known: Vec<(MessageId, Item)> = known;
        self.waiting.extend(known.into_iter().map(|(_, item)| Waiting::Item(Box::new(item))));
    }

    fn has_room(&self) -> bool {
        self.waiting.len() + self.early.len() < MOST_WAITING
    }

    fn knows(&self, id: &ItemId) -> bool {
        let waits = |waiting: &Waiting| matches!(waiting, Waiting::Item(waiting) if waiting.item.id == *id);
        self.out.contains_key(id) || self.waiting.iter().any(waits)
    }
}

struct Out {
    kept: Kept,
    _room: OwnedSemaphorePermit,
}

impl Inbox {
    pub fn new(log: Arc<StateLog>) -> Self {
        let window = Arc::new(Semaphore::new(EVENT_WINDOW));
        Self { log, window, items: Mutex::default(), more: Notify::new(), less: Notify::new(), open: Notify::new() }
    }

    /// Takes up what an earlier session left.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn take_up(&self) -> Result<(), AuthError> {
        for name in self.log.names(keys::INBOX) {
            let Some(row) = self.log.get(&name)? else { continue };
            let Some(number) = keys::number_of(&name) else { continue };
            let item = unpack(&row).map_err(|error| AuthError::Unreadable(error.to_string()))?;
            let mut items = self.items.lock();
            items.next_row = items.next_row.max(number + 1);
            items.take(Item { item, kept: Kept::Row(number) }, |_| false);
        }
        self.more.notify_one();
        Ok(())
    }

    /// Keeps an item as a row; one without an id is named by its row. One that waits already, or is not acknowledged, is kept once.
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn keep(&self, id: Option<ItemId>, at: Timestamp, kind: InboundKind) -> Result<(), AuthError> {
        self.keep_known(id, at, kind, |_| true)
    }

    /// As [`keep`](Self::keep), of what may be about a message of the channel's: whether this session knows that message.
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn keep_known(
        &self,
        id: Option<ItemId>,
        at: Timestamp,
        kind: InboundKind,
        knows: impl Fn(&MessageId) -> bool,
    ) -> Result<(), AuthError> {
        let mut items = self.items.lock();
        if id.as_ref().is_some_and(|id| items.knows(id)) {
            return Ok(());
        }
        let number = items.next_row;
        let item = InboundItem { id: id.unwrap_or_else(|| ItemId(keys::inbox(number))), at, kind };
        let row = pack(&item).map_err(|error| AuthError::Unreadable(error.to_string()))?;
        self.log.append(Class::Wire, [Write::put(keys::inbox(number), row)])?;
        items.next_row += 1;
        items.take(Item { item, kept: Kept::Row(number) }, knows);
        self.more.notify_one();
        Ok(())
    }

    /// A message is accepted, which has been told: what came early about it follows.
    pub fn accepted(&self, id: &MessageId) {
        self.items.lock().release(|early| early == id);
        self.more.notify_one();
    }

    /// What is not accepted by now was so before this session.
    pub fn settle(&self) {
        let mut items = self.items.lock();
        items.is_settled = true;
        items.release(|_| true);
        self.more.notify_one();
    }

    /// Hands on an item that the network keeps. Resolves when the owner has it, or with an error when that will not be.
    pub fn pass_on(&self, item: InboundItem) -> oneshot::Receiver<()> {
        let (done, taken) = oneshot::channel();
        self.items.lock().waiting.push_back(Waiting::Item(Box::new(Item { item, kept: Kept::Network(done) })));
        self.more.notify_one();
        taken
    }

    /// Reports behind all items that wait now.
    pub fn tell_behind(&self, event: SessionEvent) {
        self.items.lock().waiting.push_back(Waiting::Event(event));
        self.more.notify_one();
    }

    /// The owner has it. One that this session did not report is nothing.
    ///
    /// # Errors
    /// The log is poisoned: the row stays, and the item is reported again.
    pub fn acknowledge(&self, id: &ItemId) -> Result<(), AuthError> {
        let out = self.items.lock().out.remove(id);
        match out.map(|out| out.kept) {
            Some(Kept::Row(number)) => self.log.append(Class::Lazy, [Write::delete(keys::inbox(number))]),
            Some(Kept::Network(done)) => {
                // The hook may have given up waiting.
                let _ = done.send(());
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Waits until there is room; false when there is none for long.
    pub async fn has_room(&self) -> bool {
        let room = async {
            loop {
                let less = self.less.notified();
                if self.items.lock().has_room() {
                    return;
                }
                less.await;
            }
        };
        tokio::time::timeout(ROOM_WITHIN, room).await.is_ok()
    }

    pub fn open(&self) {
        self.open.notify_one();
    }

    /// Reports what waits, one after the other, from the log-in on.
    pub async fn pump(&self, line: &Line, client: &Client) {
        self.open.notified().await;
        loop {
            let Ok(room) = Arc::clone(&self.window).acquire_owned().await else { return };
            let waiting = loop {
                let more = self.more.notified();
                if let Some(waiting) = self.items.lock().waiting.pop_front() {
                    break waiting;
                }
                more.await;
            };
            self.less.notify_one();
            let Item { mut item, kept } = match waiting {
                Waiting::Item(item) => *item,
                Waiting::Event(event) => {
                    line.report(event);
                    continue;
                }
            };
            groups::complete(client, &mut item).await;
            self.items.lock().out.insert(item.id.clone(), Out { kept, _room: room });
            line.report(SessionEvent::Inbound(Box::new(item)));
        }
    }
}
