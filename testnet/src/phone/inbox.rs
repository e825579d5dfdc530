//! Messages that a phone has read, in the form of the gateway's send body.

use std::collections::HashMap;

use model::id::MessageId;
use model::time::Timestamp;
use network::simulator::answers::{InboxQuery, InboxRow, List};
use serde_json::{Map, Value};
use wacore_binary::Jid;
use waproto::whatsapp as wa;

use super::content::says;
use super::{Arrival, Chat};
use crate::ledger::limit;
use crate::number::{Naming, Number, address};

/// Maximum number of messages in an inbox; later ones are counted but not stored.
const MAX_MESSAGES: usize = 200_000;

pub struct Item {
    pub id: String,
    pub from: Number,
    /// Whether the sender used the phone's number or LID.
    pub naming: Naming,
    pub group: Option<Jid>,
    says: Map<String, Value>,
    pub message: wa::Message,
    copies: u32,
    first_at: Timestamp,
    pub read: bool,
}

impl Item {
    pub fn chat(&self) -> Chat {
        self.group.clone().map_or(Chat::With(self.from), Chat::Group)
    }
}

#[derive(Default)]
pub struct Inbox {
    items: Vec<Item>,
    places: HashMap<(Number, String), usize>,
}

impl Inbox {
    /// Stores a message and returns whether it is new; `intact` says whether its media could be decrypted.
    pub fn take(&mut self, arrival: &Arrival, message: &wa::Message, intact: Option<bool>) -> bool {
        let Arrival { id, naming, group, at, .. } = arrival;
        let from = arrival.from.number;
        if let Some(place) = self.places.get(&(from, id.to_owned())) {
            self.items[*place].copies += 1;
            return false;
        }
        if self.items.len() < MAX_MESSAGES {
            self.places.insert((from, id.to_owned()), self.items.len());
            let mut says = says(message);
            if let (Some(intact), Some(media)) = (intact, says.get_mut("media")) {
                media["intact"] = intact.into();
            }
            self.items.push(Item {
                id: id.clone(),
                from,
                naming: *naming,
                group: group.clone(),
                says,
                message: message.clone(),
                copies: 1,
                first_at: *at,
                read: false,
            });
        }
        true
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The message with an id, from any author.
    pub fn by_id(&self, id: &str) -> Option<&Item> {
        self.items.iter().rev().find(|item| item.id == id)
    }

    pub fn item_mut(&mut self, from: Number, id: &str) -> Option<&mut Item> {
        let place = *self.places.get(&(from, id.to_owned()))?;
        self.items.get_mut(place)
    }

    /// Marks the unread messages of a chat as read; returns id, author and naming of each.
    pub fn read_all(&mut self, chat: &Chat) -> Vec<(String, Number, Naming)> {
        let unread = self.items.iter_mut().filter(|item| !item.read && item.chat() == *chat);
        unread
            .map(|item| {
                item.read = true;
                (item.id.clone(), item.from, item.naming)
            })
            .collect()
    }

    pub fn rows(&self, owner: Number, query: &InboxQuery) -> List<InboxRow> {
        let from = query.from.as_deref().map(Number::of_text);
        let found = self
            .items
            .iter()
            .filter(|item| from.is_none_or(|from| from == Some(item.from)))
            .filter(|item| query.id.as_ref().is_none_or(|id| *id == item.id));
        let all: Vec<&Item> = found.collect();
        let start = query
            .after
            .as_ref()
            .map_or(0, |after| all.iter().position(|item| item.id == *after).map_or(all.len(), |place| place + 1));
        let data = all[start..].iter().take(limit(query.limit)).map(|item| InboxRow {
            id: MessageId(item.id.clone()),
            from: item.from.address(),
            to: item.group.as_ref().map_or_else(|| owner.address(), address),
            says: item.says.clone(),
            copies: item.copies,
            first_at: item.first_at,
        });
        List { data: data.collect(), total: all.len() }
    }
}
