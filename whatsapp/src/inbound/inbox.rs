//! Queue of items for the owner, in order; at most [`EVENT_WINDOW`] of them are unacknowledged.
//!
//! An item is kept in one of two ways: as a row (`x/`), which is durable before the network's acknowledgement can leave
//! and is deleted when the owner has acknowledged the item; or by the network, while the durability hook waits for the
//! owner.
//!
//! A message that cannot be decrypted is kept at once and reported a little later: its author is asked for it again,
//! and usually sends it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::MessageId;
use model::message::{Content, UndecryptableReason};
use model::time::Timestamp;
use network::bounds::Fit;
use network::driver::{AuthError, EVENT_WINDOW, InboundItem, InboundKind, InboundMessage, ItemId, SessionEvent};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use whatsapp_rust::Client;

use super::groups;
use crate::line::Line;
use crate::state::keys;
use crate::state::log::{Class, LARGEST_ROW, StateLog, Write};
use crate::state::rows::{pack, unpack};
use crate::telemetry::InboxRows;

/// Items that may wait for the owner before the session stops reading.
const MOST_WAITING: usize = 512;

/// The same limit for receipts that came before the acceptance of their message, for messages that may come again
/// readable, and while the network is queried for an incomplete item: the session has to read on to get what these wait
/// for.
const MOST_AHEAD: usize = 4_096;

/// How long the session waits for room before it ends.
const ROOM_WITHIN: Duration = Duration::from_secs(60);

/// How long an undecryptable message may take to come again before it is reported.
const READ_WITHIN: Duration = Duration::from_secs(10);

pub struct Inbox {
    log: Arc<StateLog>,
    window: Arc<Semaphore>,
    items: Mutex<Items>,
    more: Notify,
    less: Notify,
    /// Notified at the login; items are reported from then on.
    open: Notify,
}

#[derive(Default)]
struct Items {
    next_row: u64,
    waiting: VecDeque<Waiting>,
    /// Receipts of group members whose message is not known to be accepted; they are reported once it is.
    early: Vec<(MessageId, Item)>,
    /// Whether no receipt counts as early any more.
    is_settled: bool,
    /// Whether items are reported, which begins at the login.
    is_open: bool,
    /// Whether the network is being queried for the next item.
    is_asking: bool,
    /// Undecryptable messages, and when each is reported.
    unread: VecDeque<(Instant, Item)>,
    out: HashMap<ItemId, Out>,
    rows: InboxRows,
}

enum Waiting {
    Item(Box<Item>),
    /// An event that is reported after the items before it.
    Event(SessionEvent),
}

struct Item {
    item: InboundItem,
    kept: Kept,
}

enum Kept {
    Row(u64),
    /// By the network. The senders are notified when the owner has the item, one for each time that it came.
    Network(Vec<oneshot::Sender<()>>),
}

impl Items {
    fn take(&mut self, item: Item, knows: impl Fn(&MessageId) -> bool) {
        if matches!(item.kept, Kept::Row(_)) {
            self.rows.came();
        }
        if let InboundKind::Receipt(receipt) = &item.item.kind
            && receipt.participant.is_some()
            && !self.is_settled
            && !knows(&receipt.message_id)
        {
            self.early.push((receipt.message_id.clone(), item));
            return;
        }
        if may_come_again(&item.item) {
            self.unread.push_back((Instant::now() + READ_WITHIN, item));
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

    /// The next item or event to report, or when to look again.
    fn next(&mut self, now: Instant) -> Result<Waiting, Option<Instant>> {
        while self.unread.front().is_some_and(|(due, _)| *due <= now) {
            let told = self.unread.pop_front().map(|(_, item)| Waiting::Item(Box::new(item)));
            self.waiting.extend(told);
        }
        self.waiting.pop_front().ok_or_else(|| self.unread.front().map(|(due, _)| *due))
    }

    /// Drops the undecryptable copies of a message that has now come readable, and returns the deletes of their rows.
    fn was_read(&mut self, item: &InboundItem) -> Vec<Write> {
        let mut rows = Vec::new();
        let Some(message) = message_of(item) else { return rows };
        if may_come_again(item) {
            return rows;
        }
        self.unread.retain(|(_, item)| {
            let Some(unread) = message_of(&item.item) else { return true };
            let is_read = (&unread.id, &unread.chat, &unread.from) == (&message.id, &message.chat, &message.from);
            if let (true, Kept::Row(number)) = (is_read, &item.kept) {
                rows.push(Write::delete(keys::inbox(*number)));
            }
            !is_read
        });
        rows.iter().for_each(|_| self.rows.went());
        rows
    }

    /// How a waiting or unacknowledged item is kept.
    fn on_its_way(&mut self, id: &ItemId) -> Option<&mut Kept> {
        let waiting = self.waiting.iter_mut().find_map(|waiting| match waiting {
            Waiting::Item(item) if item.item.id == *id => Some(&mut item.kept),
            _ => None,
        });
        self.out.get_mut(id).map(|out| &mut out.kept).or(waiting)
    }

    /// Before the login there is always room: earlier items stay until the network's answer to the login is read.
    fn has_room(&self) -> bool {
        let most = if self.is_asking { MOST_AHEAD } else { MOST_WAITING };
        !self.is_open || (self.waiting.len() < most && self.early.len() + self.unread.len() < MOST_AHEAD)
    }

    fn knows(&self, id: &ItemId) -> bool {
        let waits = |waiting: &Waiting| matches!(waiting, Waiting::Item(waiting) if waiting.item.id == *id);
        self.out.contains_key(id) || self.waiting.iter().any(waits)
    }
}

/// The message of an item, from somebody else or from another device of the account.
fn message_of(item: &InboundItem) -> Option<&InboundMessage> {
    match &item.kind {
        InboundKind::Message(message) | InboundKind::OwnMessage(message) => Some(message),
        _ => None,
    }
}

/// Whether the author is asked to send this message again.
fn may_come_again(item: &InboundItem) -> bool {
    let waits = Content::Undecryptable { reason: UndecryptableReason::Waiting };
    message_of(item).is_some_and(|message| message.content == waits)
}

/// Encodes an item as its row, cut to the owner's bounds if no batch could carry it; `None` if still too large.
fn row(item: &mut InboundItem) -> Result<Option<Vec<u8>>, AuthError> {
    let packed = |item: &InboundItem| pack(item).map_err(|error| AuthError::Unreadable(error.to_string()));
    let whole = packed(item)?;
    if whole.len() <= LARGEST_ROW {
        return Ok(Some(whole));
    }
    if matches!(item.fit(), Fit::Beyond(_)) {
        return Ok(None);
    }
    Ok(Some(packed(item)?).filter(|row| row.len() <= LARGEST_ROW))
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

    /// Loads the items that an earlier session left.
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

    /// Keeps an item as a row, whose name is the default id. An item that waits or is unacknowledged is not kept twice.
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn keep(&self, id: Option<ItemId>, at: Timestamp, kind: InboundKind) -> Result<(), AuthError> {
        self.keep_known(id, at, kind, |_| true)
    }

    /// Like [`keep`](Self::keep), for an item that may be about a message of the channel; `knows` says whether that
    /// message was accepted in this session.
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
        let mut item = InboundItem { id: id.unwrap_or_else(|| ItemId(keys::inbox(number))), at, kind };
        let Some(row) = row(&mut item)? else {
            tracing::warn!("an item from the network is too large to be stored, and is left out");
            return Ok(());
        };
        self.log.append(Class::Wire, [Write::put(keys::inbox(number), row)])?;
        items.next_row += 1;
        // The readable copy may also come here, from the channel's own phone.
        self.log.append(Class::Lazy, items.was_read(&item))?;
        items.take(Item { item, kept: Kept::Row(number) }, knows);
        self.more.notify_one();
        Ok(())
    }

    /// Releases the early receipts of a message whose acceptance has been reported.
    pub fn accepted(&self, id: &MessageId) {
        self.items.lock().release(|early| early == id);
        self.more.notify_one();
    }

    /// Releases all early receipts: messages that are not accepted by now were accepted in an earlier session.
    pub fn settle(&self) {
        let mut items = self.items.lock();
        items.is_settled = true;
        items.release(|_| true);
        self.more.notify_one();
    }

    /// Queues an item that the network keeps. The receiver resolves when the owner has the item, or with an error if it
    /// never will. To the owner, messages with the same chat, author and id are one; if an author reuses an id, the
    /// second message waits for the first.
    pub fn pass_on(&self, item: InboundItem) -> oneshot::Receiver<()> {
        let (done, taken) = oneshot::channel();
        let mut items = self.items.lock();
        // If the log is poisoned, the next session reports the undecryptable copy after the message itself.
        let _ = self.log.append(Class::Lazy, items.was_read(&item));
        if let Some(Kept::Network(others)) = items.on_its_way(&item.id) {
            others.push(done);
            return taken;
        }
        items.waiting.push_back(Waiting::Item(Box::new(Item { item, kept: Kept::Network(vec![done]) })));
        self.more.notify_one();
        taken
    }

    /// Reports an event after all items that wait now.
    pub fn tell_behind(&self, event: SessionEvent) {
        self.items.lock().waiting.push_back(Waiting::Event(event));
        self.more.notify_one();
    }

    /// Handles the owner's acknowledgement. Ignores items that this session did not report.
    ///
    /// # Errors
    /// The log is poisoned; the row stays, and the item is reported again.
    pub fn acknowledge(&self, id: &ItemId) -> Result<(), AuthError> {
        let out = self.items.lock().out.remove(id);
        match out.map(|out| out.kept) {
            Some(Kept::Row(number)) => {
                self.items.lock().rows.went();
                self.log.append(Class::Lazy, [Write::delete(keys::inbox(number))])
            }
            Some(Kept::Network(waiting)) => {
                for done in waiting {
                    // The hook may have stopped waiting.
                    let _ = done.send(());
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Waits until there is room; `false` if there is none for [`ROOM_WITHIN`].
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

    /// Whether items wait for the owner.
    pub fn is_behind(&self) -> bool {
        !self.items.lock().waiting.is_empty()
    }

    /// Starts reporting, after the login. Undecryptable messages of an earlier session may come again from now on.
    pub fn open(&self) {
        let due = Instant::now() + READ_WITHIN;
        {
            let mut items = self.items.lock();
            items.is_open = true;
            items.unread.iter_mut().for_each(|(told_at, _)| *told_at = due);
        }
        self.open.notify_one();
    }

    /// Reports items and events in order, from the login on.
    pub async fn pump(&self, line: &Line, client: &Client) {
        self.open.notified().await;
        loop {
            let Ok(room) = Arc::clone(&self.window).acquire_owned().await else { return };
            let waiting = loop {
                let more = self.more.notified();
                let next = self.items.lock().next(Instant::now());
                match next {
                    Ok(waiting) => break waiting,
                    Err(None) => more.await,
                    Err(Some(due)) => {
                        tokio::select! {
                            () = more => {}
                            () = tokio::time::sleep_until(due.into()) => {}
                        }
                    }
                }
            };
            // Set before the notification: whoever waits for room checks it, and has to read the query's answer.
            self.items.lock().is_asking = matches!(waiting, Waiting::Item(_));
            self.less.notify_one();
            let Item { mut item, kept } = match waiting {
                Waiting::Item(item) => *item,
                Waiting::Event(event) => {
                    line.report(event);
                    continue;
                }
            };
            groups::complete(client, &mut item).await;
            {
                let mut items = self.items.lock();
                items.is_asking = false;
                items.out.insert(item.id.clone(), Out { kept, _room: room });
            }
            line.report(SessionEvent::Inbound(Box::new(item)));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
pub(super) mod tests {
    use async_trait::async_trait;
    use model::address::Address;
    use model::message::Surroundings;
    use network::driver::{AuthStore, AuthWrite};

    use super::*;

    /// A store that holds nothing.
    pub struct Nowhere;

    #[async_trait]
    impl AuthStore for Nowhere {
        fn get(&self, _: &str) -> Result<Option<Vec<u8>>, AuthError> {
            Ok(None)
        }

        fn keys(&self, _: &str, _: Option<&str>, _: usize) -> Vec<String> {
            Vec::new()
        }

        async fn commit(&self, _: Vec<AuthWrite>) -> Result<(), AuthError> {
            Ok(())
        }
    }

    fn message(id: &str, content: Content) -> InboundItem {
        let friend = Address::parse("15550000002@s.whatsapp.net").unwrap();
        let kind = InboundKind::Message(InboundMessage {
            id: MessageId(id.into()),
            chat: friend.clone(),
            from: friend,
            from_phone: None,
            to: Address::parse("15550000001@s.whatsapp.net").unwrap(),
            push_name: None,
            content,
            around: Surroundings::default(),
        });
        InboundItem { id: ItemId(format!("m/{id}")), at: Timestamp(1), kind }
    }

    fn text(text: &str) -> Content {
        Content::Text { text: text.into() }
    }

    fn names(items: &mut Items, now: Instant) -> Vec<String> {
        let mut names = Vec::new();
        while let Ok(Waiting::Item(item)) = items.next(now) {
            names.push(item.item.id.0);
        }
        names
    }

    #[test]
    fn what_cannot_be_read_is_told_of_only_where_it_does_not_come_again() {
        let mut items = Items::default();
        let unread = |id| message(id, Content::Undecryptable { reason: UndecryptableReason::Waiting });
        let lost = message("lost", Content::Undecryptable { reason: UndecryptableReason::Expired });
        for (number, item) in [unread("A"), unread("B"), lost].into_iter().enumerate() {
            items.take(Item { item, kept: Kept::Row(number as u64) }, |_| true);
        }
        let now = Instant::now();
        assert_eq!(names(&mut items, now), ["m/lost"]);
        assert!(matches!(items.next(now), Err(Some(due)) if due > now));
        assert!(items.was_read(&unread("A")).is_empty(), "it has not come yet");
        let rows: Vec<String> =
            items.was_read(&message("A", text("again"))).into_iter().map(|write| write.key).collect();
        assert_eq!(rows, [keys::inbox(0)]);
        assert_eq!(names(&mut items, now + READ_WITHIN + Duration::from_secs(1)), ["m/B"]);
        assert!(matches!(items.next(now), Err(None)));
    }

    #[test]
    fn what_another_device_of_the_account_wrote_is_told_of_only_once_it_is_read() {
        let own = |content| {
            let item = message("A", content);
            let kind = match item.kind {
                InboundKind::Message(message) => InboundKind::OwnMessage(message),
                other => other,
            };
            InboundItem { kind, ..item }
        };
        let mut items = Items::default();
        let unread = own(Content::Undecryptable { reason: UndecryptableReason::Waiting });
        items.take(Item { item: unread, kept: Kept::Row(0) }, |_| true);
        let now = Instant::now();
        assert!(names(&mut items, now).is_empty(), "it may come again");
        assert_eq!(items.was_read(&own(text("again"))).len(), 1);
        assert!(names(&mut items, now + READ_WITHIN + Duration::from_secs(1)).is_empty());
    }

    #[test]
    fn what_an_earlier_session_could_not_read_has_its_time_from_the_log_in_on() {
        let store: Arc<dyn AuthStore> = Arc::new(Nowhere);
        let inbox = Inbox::new(StateLog::new(store));
        let unread = message("A", Content::Undecryptable { reason: UndecryptableReason::Waiting });
        let taken_up = Instant::now();
        inbox.items.lock().unread.push_back((taken_up, Item { item: unread, kept: Kept::Row(1) }));
        inbox.open();
        let mut items = inbox.items.lock();
        assert!(matches!(items.next(Instant::now()), Err(Some(due)) if due >= taken_up + READ_WITHIN));
        assert!(items.next(Instant::now() + READ_WITHIN).is_ok());
    }

    #[test]
    fn a_session_reads_on_before_its_log_in_and_while_it_asks_however_much_waits() {
        let mut items = Items::default();
        for number in 0..MOST_WAITING {
            let item = message(&number.to_string(), text("of an earlier session"));
            items.take(Item { item, kept: Kept::Row(number as u64) }, |_| true);
        }
        assert!(items.has_room(), "the owner takes them from the log-in on, whose answer has to be read");
        items.is_open = true;
        assert!(!items.has_room());
        items.is_asking = true;
        assert!(items.has_room(), "what the first one lacks is to be read");
        let unread = |number: usize| {
            let waits = Content::Undecryptable { reason: UndecryptableReason::Waiting };
            Item { item: message(&number.to_string(), waits), kept: Kept::Row(number as u64) }
        };
        let mut items = Items { is_open: true, ..Items::default() };
        (0..MOST_WAITING).for_each(|number| items.take(unread(number), |_| true));
        assert!(items.has_room(), "they may come again");
    }

    #[tokio::test]
    async fn two_messages_that_their_author_named_alike_are_acknowledged_as_one() {
        let store: Arc<dyn AuthStore> = Arc::new(Nowhere);
        let inbox = Inbox::new(StateLog::new(store));
        let taken = ["first", "second", "third"].map(|words| inbox.pass_on(message("A", text(words))));
        let waiting = inbox.items.lock().waiting.pop_front();
        let Some(Waiting::Item(item)) = waiting else { panic!("nothing is reported") };
        let Item { item, kept } = *item;
        assert_eq!(item, message("A", text("first")));
        let room = Arc::clone(&inbox.window).acquire_owned().await.unwrap();
        inbox.items.lock().out.insert(item.id.clone(), Out { kept, _room: room });
        let late = inbox.pass_on(message("A", text("fourth")));
        assert!(inbox.items.lock().waiting.is_empty());
        inbox.acknowledge(&item.id).unwrap();
        for taken in taken.into_iter().chain([late]) {
            taken.await.unwrap();
        }
    }

    #[test]
    fn what_no_batch_can_carry_is_cut_or_left_out() {
        let mut long = message("A", text(&"x".repeat(1 << 20)));
        let kept = row(&mut long).unwrap().unwrap();
        assert!(kept.len() <= LARGEST_ROW, "{}", kept.len());
        let mut endless = message("A", text("x"));
        if let InboundKind::Message(message) = &mut endless.kind {
            message.id = MessageId("A".repeat(1 << 20));
        }
        assert_eq!(row(&mut endless).unwrap(), None);
        let mut usual = message("A", text("x"));
        let before = usual.clone();
        assert!(row(&mut usual).unwrap().is_some());
        assert_eq!(usual, before);
    }
}
