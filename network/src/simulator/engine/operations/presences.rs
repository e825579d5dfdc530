//! Presence: what an account shows, and whose devices are notified.
//!
//! Presence is transient: a device that is offline is not told later.

use model::address::Address;
use model::presence::Presence;
use model::privacy::Audience;
use model::time::Timestamp;

use crate::notice::{News, Notice, PresenceNews};
use crate::operation::presence::{PresenceAnswer, PresenceOperation};
use crate::simulator::answers::PresenceRow;
use crate::simulator::engine::Engine;
use crate::simulator::engine::message::Chat;
use crate::simulator::engine::rules::Allowed;
use crate::simulator::engine::subscriber::Kept;
use crate::simulator::number::Number;

/// Maximum number of presences that a phone remembers.
const REMEMBERED: usize = 100;

impl Engine {
    /// A subscription belongs to the device's session; a phone's ends at once.
    pub(super) fn presence_operation(
        &mut self,
        by: Number,
        device: Option<u32>,
        operation: PresenceOperation,
    ) -> Allowed<PresenceAnswer> {
        let device = device.and_then(|device| self.subscribers.get(&by)?.device(device));
        let session = device.and_then(|device| device.live);
        match operation {
            PresenceOperation::Show { presence, .. } if presence.is_of_account() => {
                self.set_presence(by, presence);
            }
            PresenceOperation::Show { to, presence } => {
                if let Some(chat) = to.map(|to| self.chat_of(&to)).transpose()? {
                    self.write_in(by, chat, presence);
                }
            }
            PresenceOperation::Subscribe { contacts } => {
                for contact in contacts {
                    // A number that is no longer registered shows nothing.
                    let Ok(number) = self.registered(&contact) else { continue };
                    if let (Some(session), Some(subscriber)) = (session, self.subscribers.get_mut(&number)) {
                        subscriber.account.watchers.retain(|(watcher, _)| *watcher != by);
                        subscriber.account.watchers.push((by, session));
                    }
                    self.show_presence(number, by);
                }
            }
            PresenceOperation::Unsubscribe { contact } => {
                if let Some(subscriber) =
                    self.registered(&contact).ok().and_then(|number| self.subscribers.get_mut(&number))
                {
                    subscriber.account.watchers.retain(|(watcher, _)| *watcher != by);
                }
            }
        }
        Ok(PresenceAnswer::Done)
    }

    fn set_presence(&mut self, by: Number, presence: Presence) {
        let Some(subscriber) = self.subscribers.get_mut(&by) else { return };
        subscriber.presence = presence;
        subscriber.account.has_shown = true;
        if presence == Presence::Unavailable {
            subscriber.account.last_seen_at = Some(self.now);
        }
        let watchers = subscriber.account.watchers.clone();
        for (watcher, session) in watchers {
            if self.live(session).is_some_and(|live| live.number == watcher) {
                self.show_presence(by, watcher);
            } else if let Some(subscriber) = self.subscribers.get_mut(&by) {
                subscriber.account.watchers.retain(|(_, ended)| *ended != session);
            }
        }
    }

    /// Notifies a watcher of a presence, as far as privacy settings permit.
    fn show_presence(&mut self, of: Number, to: Number) {
        let Some(subscriber) = self.subscribers.get(&of).filter(|subscriber| subscriber.account.has_shown) else {
            return;
        };
        let (presence, last_seen_at) = (subscriber.presence, subscriber.account.last_seen_at);
        if !self.shows(of, to, |privacy| privacy.online_audience()) {
            return;
        }
        let last_seen_at =
            last_seen_at.filter(|_| self.shows(of, to, |privacy| privacy.last_seen)).map(Timestamp::unix_seconds);
        let chat = self.name_of(of, to);
        self.tell_presence(of, to, chat, PresenceNews { participant: None, presence, last_seen_at });
    }

    /// Shows everyone in a chat who is typing.
    fn write_in(&mut self, by: Number, chat: Chat, presence: Presence) {
        match chat {
            Chat::Direct(peer) => {
                let chat = self.name_of(by, peer);
                let news = PresenceNews { participant: None, presence, last_seen_at: None };
                if self.shows(peer, by, |_| Audience::All) {
                    self.tell_presence(by, peer, chat, news);
                }
            }
            Chat::Group(group) => {
                let members = self.groups.get(group).map(|group| group.members().to_vec()).unwrap_or_default();
                for member in members.into_iter().map(|member| member.number).filter(|member| *member != by) {
                    let participant = Some(self.name_of(by, member));
                    let news = PresenceNews { participant, presence, last_seen_at: None };
                    self.tell_presence(by, member, group.address(&self.suffixes), news);
                }
            }
            Chat::Newsletter(_) => {}
        }
    }

    fn tell_presence(&mut self, of: Number, to: Number, chat: Address, news: PresenceNews) {
        let from = self.name_of(of, to);
        let Some(subscriber) = self.subscribers.get_mut(&to) else { return };
        subscriber.presences.truncate(REMEMBERED - 1);
        subscriber.presences.push_front(PresenceRow { from, presence: news.presence, at: self.now });
        let live = subscriber.linked().filter(|device| device.live.is_some());
        let devices: Vec<u32> = live.map(|device| device.id).collect();
        for device in devices {
            let news = News::Presence { chat: chat.clone(), news: news.clone() };
            self.keep(to, device, Kept::Notice { at: self.now, notice: Box::new(Notice { actor: None, news }) });
        }
    }
}
