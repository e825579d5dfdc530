//! Operations on an account's chats, and their notices.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::address::Address;
use model::chat::{ChatChanges, ChatFlags, SyncedChat};
use model::field::Change;
use model::group::GroupChanges;
use model::id::MessageId;
use model::time::Timestamp;

use crate::driver::ReceiptStatus;
use crate::notice::{ChatNews, News};
use crate::operation::chats::{ChatAnswer, ChatOperation};
use crate::operation::groups::GroupOperation;
use crate::simulator::engine::Engine;
use crate::simulator::engine::message::{Chat, Message};
use crate::simulator::engine::rules::{Allowed, CONFLICT, FORBIDDEN, NOT_FOUND, Refusal};
use crate::simulator::number::Number;

const PIN_LIMIT: Refusal = Refusal::new(FORBIDDEN, "pin_limit");
const OVERTAKEN: Refusal = Refusal::new(CONFLICT, "another device changed the account's state");
pub(super) const NO_SUCH_MESSAGE: Refusal = Refusal::new(NOT_FOUND, "there is no such message in the chat");

impl Engine {
    pub(super) fn chat_operation(&mut self, by: Number, operation: ChatOperation) -> Allowed<ChatAnswer> {
        match operation {
            ChatOperation::List => return Ok(ChatAnswer::Chats(self.chats_of(by))),
            ChatOperation::Change { chat, changes } => {
                if self.faults.conflicting_patches > 0 {
                    self.faults.conflicting_patches -= 1;
                    return Err(OVERTAKEN);
                }
                self.change_chat(by, &chat, changes)?;
            }
            ChatOperation::Clear { chat, delete } => {
                let chat = self.chat_of(&chat)?;
                let subscriber = self.subscribers.get_mut(&by).ok_or(NO_SUCH_MESSAGE)?;
                subscriber.read_all_in(chat);
                if delete {
                    subscriber.account.set_flags(chat, ChatFlags::default());
                    if let Ok(business) = self.business(by) {
                        business.labels.remove_chat(chat);
                    }
                }
                self.tell_of_chat(by, chat, ChatNews::Cleared { deleted: delete });
            }
            ChatOperation::Read { chat, messages, .. } if messages.is_empty() => {
                let chat = self.chat_of(&chat)?;
                self.read_chat(by, chat);
            }
            ChatOperation::Read { chat, messages, .. } => {
                let chat = self.chat_of(&chat)?;
                self.read_messages(by, chat, &messages)?;
            }
        }
        Ok(ChatAnswer::Done)
    }

    /// All chats with messages or flags, and all groups of the account.
    fn chats_of(&self, by: Number) -> Vec<SyncedChat> {
        let Some(subscriber) = self.subscribers.get(&by) else { return Vec::new() };
        let chat = |message: &Message| message.chat_for(by);
        let inbox = subscriber.inbox().map(|entry| (chat(&entry.message), Some((entry.message.at, !entry.read))));
        let waiting = subscriber.waiting.iter().map(|(message, _)| (chat(message), Some((message.at, true))));
        let flagged = subscriber.account.chats.keys().map(|chat| (*chat, None));
        let groups = self.groups.of(by).map(|group| (Chat::Group(group.id), None));
        let mut found: BTreeMap<Address, SyncedChat> = BTreeMap::new();
        for (chat, message) in inbox.chain(waiting).chain(flagged).chain(groups) {
            let id = self.chat_as_seen(by, chat);
            let entry = found.entry(id.clone()).or_insert_with(|| {
                let flags = self.flags_of(by, chat);
                SyncedChat { id, unread: flags.marked_unread, flags, last_message_at: None }
            });
            if let Some((at, unread)) = message {
                entry.last_message_at = entry.last_message_at.max(Some(at));
                entry.unread |= unread;
            }
        }
        found.into_values().collect()
    }

    /// The flags of a chat. The timer of disappearing messages in a group is the group's.
    fn flags_of(&self, by: Number, chat: Chat) -> ChatFlags {
        let flags = self.subscribers.get(&by).map(|subscriber| subscriber.account.flags(chat)).unwrap_or_default();
        match chat {
            Chat::Group(group) => {
                let ephemeral = self.groups.get(group).map_or(0, |group| group.ephemeral);
                ChatFlags { ephemeral_expiration: ephemeral, ..flags }
            }
            Chat::Direct(_) | Chat::Newsletter(_) => flags,
        }
    }

    /// Changes one field after the other. After a refusal, the earlier changes stay.
    fn change_chat(&mut self, by: Number, address: &Address, changes: ChatChanges) -> Allowed<()> {
        let chat = self.chat_of(address)?;
        let ChatChanges { pinned, archived, muted_until, unread, ephemeral_expiration } = changes;
        if let Some(pinned) = pinned {
            let account = self.subscribers.get(&by).map(|subscriber| &subscriber.account);
            let pins = pinned && account.is_some_and(|account| !account.flags(chat).pinned);
            if pins && account.is_some_and(|account| !account.may_pin()) {
                return Err(PIN_LIMIT);
            }
            self.patch(by, chat, ChatChanges { pinned: Some(pinned), ..ChatChanges::default() });
        }
        if let Some(archived) = archived {
            let pinned = archived.then_some(false);
            self.patch(by, chat, ChatChanges { archived: Some(archived), pinned, ..ChatChanges::default() });
        }
        if let Change::To(muted_until) = muted_until {
            let muted_until = Change::To(muted_until);
            self.patch(by, chat, ChatChanges { muted_until, ..ChatChanges::default() });
        }
        match unread {
            Some(true) => self.patch(by, chat, ChatChanges { unread, ..ChatChanges::default() }),
            Some(false) => self.read_chat(by, chat),
            None => {}
        }
        if let Some(seconds) = ephemeral_expiration {
            self.set_ephemeral(by, chat, address, seconds)?;
        }
        Ok(())
    }

    /// Changes flags of the account and notifies its devices.
    fn patch(&mut self, by: Number, chat: Chat, changes: ChatChanges) {
        let Some(subscriber) = self.subscribers.get_mut(&by) else { return };
        let before = subscriber.account.flags(chat);
        let mut after = before.clone();
        after.apply(&changes);
        if after != before {
            subscriber.account.set_flags(chat, after);
            self.tell_of_chat(by, chat, ChatNews::Changed(changes));
        }
    }

    /// Sets the timer of disappearing messages, which both sides of a conversation share.
    fn set_ephemeral(&mut self, by: Number, chat: Chat, address: &Address, seconds: u32) -> Allowed<()> {
        let changes = ChatChanges { ephemeral_expiration: Some(seconds), ..ChatChanges::default() };
        match chat {
            Chat::Direct(peer) => {
                self.patch(by, chat, changes.clone());
                self.patch(peer, Chat::Direct(by), changes);
                Ok(())
            }
            Chat::Group(_) => {
                let changes = GroupChanges { ephemeral: Some(seconds), ..GroupChanges::default() };
                self.group_operation(by, GroupOperation::Change { group: address.clone(), changes }).map(drop)
            }
            Chat::Newsletter(_) => Err(Refusal::new(FORBIDDEN, "messages of a newsletter do not disappear")),
        }
    }

    /// Marks a chat as read; its authors and the account's devices are notified.
    pub(in crate::simulator::engine) fn read_chat(&mut self, by: Number, chat: Chat) {
        let Some(subscriber) = self.subscribers.get_mut(&by) else { return };
        let unread = subscriber.read_all_in(chat);
        self.acknowledge_reading(by, unread);
        self.unmark(by, chat, self.now);
    }

    fn read_messages(&mut self, by: Number, chat: Chat, messages: &[MessageId]) -> Allowed<()> {
        let found = messages.iter().map(|id| {
            let message = self.messages.find(id.as_str(), by, chat).filter(|message| message.from != by);
            message.cloned().ok_or(NO_SUCH_MESSAGE)
        });
        let found: Vec<Arc<Message>> = found.collect::<Result<_, _>>()?;
        let upto = found.iter().map(|message| message.at).max().unwrap_or(self.now);
        if let Some(subscriber) = self.subscribers.get_mut(&by) {
            for message in &found {
                if let Some(entry) = subscriber.received(message) {
                    entry.read = true;
                }
            }
        }
        self.acknowledge_reading(by, found);
        self.unmark(by, chat, upto);
        Ok(())
    }

    pub(in crate::simulator::engine) fn acknowledge_reading(&mut self, by: Number, messages: Vec<Arc<Message>>) {
        let receipts = self.subscribers.get(&by).is_some_and(|subscriber| subscriber.read_receipts);
        for message in messages {
            // Reading a newsletter's message counts as a view.
            if let Chat::Newsletter(newsletter) = message.chat
                && let Ok(newsletter) = self.newsletters.get_mut(newsletter)
            {
                newsletter.view(&message, by);
            }
            if receipts {
                self.receipt(message, ReceiptStatus::Read, by);
            }
        }
    }

    fn unmark(&mut self, by: Number, chat: Chat, upto: Timestamp) {
        if let Some(subscriber) = self.subscribers.get_mut(&by) {
            let flags = ChatFlags { marked_unread: false, ..subscriber.account.flags(chat) };
            subscriber.account.set_flags(chat, flags);
        }
        self.tell_of_chat(by, chat, ChatNews::Read { upto });
    }

    fn tell_of_chat(&mut self, by: Number, chat: Chat, news: ChatNews) {
        let chat = self.chat_as_seen(by, chat);
        self.notify(by, Some(by), News::Chat { chat, news });
    }
}
