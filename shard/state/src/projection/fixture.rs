//! A channel's projection in memory, for the tests of the areas.

use machine::MemoryState;
use model::address::{Address, Suffixes};
use model::id::{ChannelId, MessageId};
use model::time::Timestamp;

use super::{Context, Projected, Rows};
use crate::keys::Direction;
use crate::records::MessageRow;

pub struct Projection {
    stored: MemoryState,
    turn: Projected,
    channel: ChannelId,
    suffixes: Suffixes,
    own: Vec<Address>,
    lids: Vec<(Address, Address)>,
    messages: Vec<MessageRow>,
    /// The limit of every quota.
    pub allowed: u64,
}

impl Projection {
    pub fn new() -> Self {
        Self {
            stored: MemoryState::new(),
            turn: Projected::default(),
            channel: ChannelId::random(),
            suffixes: Suffixes::simulated(),
            own: Vec::new(),
            lids: Vec::new(),
            messages: Vec::new(),
            allowed: u64::MAX,
        }
    }

    /// Sets the channel's own address.
    pub fn owning(mut self, own: &str) -> Self {
        self.own.push(address(own));
        self
    }

    /// Makes the phone address behind a LID known.
    pub fn knowing(mut self, lid: &str, phone: &str) -> Self {
        self.lids.push((address(lid), address(phone)));
        self
    }

    /// Stores a message.
    pub fn storing(mut self, message: MessageRow) -> Self {
        self.messages.push(message);
        self
    }

    /// Runs `work` on the rows as of a time; a later call reads what an earlier one wrote.
    pub fn at<T>(&mut self, at: Timestamp, work: impl FnOnce(&mut Rows<'_>, &Context<'_>) -> T) -> T {
        let (lids, messages, allowed) = (&self.lids, &self.messages, self.allowed);
        let phone_behind =
            |wanted: &Address| lids.iter().find(|(lid, _)| lid == wanted).map(|(_, phone)| phone.clone());
        let lid_behind = |wanted: &Address| lids.iter().find(|(_, phone)| phone == wanted).map(|(lid, _)| lid.clone());
        let best = |address: &Address| phone_behind(address).unwrap_or_else(|| address.clone());
        let stored = |direction: Direction, id: &MessageId, chat: &Address, author: Option<&Address>| {
            let mut of_id =
                messages.iter().filter(|message| message.direction == direction && message.message_id == *id);
            let found = of_id.find(|message| {
                best(&message.chat) == best(chat) && author.is_none_or(|author| best(&message.from) == best(author))
            });
            found.cloned()
        };
        let context = Context {
            suffixes: &self.suffixes,
            own: &self.own,
            phone_behind: &phone_behind,
            lid_behind: &lid_behind,
            stored: &stored,
            allowed: &|_| allowed,
            at,
        };
        work(&mut Rows::new(&self.stored, self.channel, &mut self.turn), &context)
    }
}

pub fn address(text: &str) -> Address {
    Address::parse(text).expect("an address")
}
