//! What a network may deliver: bounds that hold for every driver. What is beyond is cut where its sense survives that,
//! and left out where it does not; nothing of any size gets behind them.

use model::address::Address;
use model::page::ByteCount;
use serde::Serialize;

use crate::item::{InboundItem, InboundKind, InboundMessage};
use crate::notice::{CallNews, GroupNews, News, Notice, PresenceNews, StoryNews};

/// The largest notice, as it would be stored. A group of the network's largest, with all its members, has half of it.
const LARGEST_NOTICE: usize = 256 * 1024;

/// The longest name by which somebody calls itself, in bytes.
const LONGEST_PUSH_NAME: usize = 255;

/// The longest name of a call, in bytes.
const LONGEST_CALL: usize = 255;

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It is as it came.
    Whole,
    /// A part of what it says was beyond its bounds, and is cut off.
    Cut,
    /// It cannot be kept: it is to be acknowledged and forgotten. The reason is a word for metrics.
    Beyond(&'static str),
}

impl InboundItem {
    /// Brings an item into its bounds.
    pub fn fit(&mut self) -> Fit {
        match &mut self.kind {
            InboundKind::Message(message) | InboundKind::OwnMessage(message) => message.fit(),
            InboundKind::Receipt(receipt) => {
                let addresses = [Some(&receipt.chat), receipt.participant.as_ref()];
                beyond_if(receipt.message_id.is_too_long() || any_too_long(addresses), "address")
            }
            InboundKind::LidDisclosed { lid, phone } => {
                beyond_if(any_too_long([Some(&*lid), Some(&*phone)]), "address")
            }
            InboundKind::Notice(notice) => notice.fit(),
        }
    }
}

fn beyond_if(is_beyond: bool, reason: &'static str) -> Fit {
    if is_beyond { Fit::Beyond(reason) } else { Fit::Whole }
}

fn any_too_long<'a>(addresses: impl IntoIterator<Item = Option<&'a Address>>) -> bool {
    addresses.into_iter().flatten().any(Address::is_too_long)
}

impl InboundMessage {
    fn fit(&mut self) -> Fit {
        if self.id.is_too_long() || any_too_long([Some(&self.chat), Some(&self.from), Some(&self.to)]) {
            return Fit::Beyond("address");
        }
        let mut cut = self.content.cut() | self.around.cut();
        if self.from_phone.as_ref().is_some_and(Address::is_too_long) {
            self.from_phone = None;
            cut = true;
        }
        if let Some(name) = self.push_name.as_mut().filter(|name| name.len() > LONGEST_PUSH_NAME) {
            name.truncate(name.floor_char_boundary(LONGEST_PUSH_NAME));
            cut = true;
        }
        if cut { Fit::Cut } else { Fit::Whole }
    }
}

impl Notice {
    /// A part of a state would be another state: what is too large is left out as a whole.
    fn fit(&self) -> Fit {
        let about = self.news.about();
        if any_too_long([self.actor.as_ref(), about]) || self.news.people().any(Address::is_too_long) {
            return Fit::Beyond("address");
        }
        let long_name = match &self.news {
            News::Call { call, .. } => call.len() > LONGEST_CALL,
            News::Story { story, .. } => story.is_too_long(),
            _ => false,
        };
        beyond_if(long_name || stored_bytes(self) > LARGEST_NOTICE, "size")
    }
}

impl News {
    /// Which conversation, person or place it is about.
    fn about(&self) -> Option<&Address> {
        match self {
            Self::Group { group: about, .. }
            | Self::Chat { chat: about, .. }
            | Self::Contact { contact: about, .. }
            | Self::Community { community: about, .. }
            | Self::Newsletter { newsletter: about, .. }
            | Self::Presence { chat: about, .. }
            | Self::Unblocked { contact: about } => Some(about),
            Self::Blocked(blocked) => Some(&blocked.id),
            Self::Call { .. }
            | Self::Story { .. }
            | Self::Business(_)
            | Self::Profile(_)
            | Self::Privacy(_)
            | Self::Labels(_) => None,
        }
    }

    /// Whom it names beside.
    fn people(&self) -> Box<dyn Iterator<Item = &Address> + '_> {
        match self {
            Self::Group { news, .. } => match news {
                GroupNews::Entered { group, .. } => Box::new(group.participants.iter().map(|member| &member.id)),
                GroupNews::Changed(_) => Box::new(std::iter::empty()),
                GroupNews::Added { participants, .. }
                | GroupNews::Removed { participants, .. }
                | GroupNews::Promoted { participants }
                | GroupNews::Demoted { participants } => Box::new(participants.iter()),
            },
            Self::Call { news: CallNews::Offered { from, group, .. }, .. } => {
                Box::new(std::iter::once(from).chain(group))
            }
            Self::Presence { news: PresenceNews { participant, .. }, .. } => Box::new(participant.iter()),
            Self::Story { news: StoryNews::Viewed { viewer }, .. } => Box::new(std::iter::once(viewer)),
            _ => Box::new(std::iter::empty()),
        }
    }
}

/// How large something is where it is stored. Nothing is kept of the bytes.
fn stored_bytes(value: &impl Serialize) -> usize {
    let mut counted = ByteCount::default();
    // A sink that takes everything refuses nothing; what cannot be written at all has no place in a log.
    if rmp_serde::encode::write_named(&mut counted, value).is_ok() { counted.0 } else { usize::MAX }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::id::MessageId;
    use model::message::{Content, Surroundings};
    use model::profile::ChannelProfile;
    use model::time::Timestamp;

    use super::*;
    use crate::item::{ItemId, Receipt, ReceiptStatus};

    fn address(bytes: usize) -> Address {
        serde_json::from_value(format!("{}@x", "1".repeat(bytes - 2)).into()).unwrap()
    }

    fn item(kind: InboundKind) -> InboundItem {
        InboundItem { id: ItemId("1".into()), at: Timestamp(0), kind }
    }

    fn message(text: usize, from: usize, name: usize) -> InboundItem {
        item(InboundKind::Message(InboundMessage {
            id: MessageId("3EB0A1".into()),
            chat: address(from),
            from: address(from),
            from_phone: None,
            to: address(20),
            push_name: Some("n".repeat(name)),
            content: Content::Text { text: "x".repeat(text) },
            around: Surroundings::default(),
        }))
    }

    #[test]
    fn a_message_is_cut_to_its_bounds_and_refused_where_its_author_cannot_be_named() {
        assert_eq!(message(65_536, 128, 255).fit(), Fit::Whole);
        for (mut beyond, within) in
            [(message(65_537, 128, 1), message(65_536, 128, 1)), (message(1, 9, 256), message(1, 9, 255))]
        {
            assert_eq!(beyond.fit(), Fit::Cut);
            assert_eq!(beyond, within);
        }
        assert_eq!(message(1, 129, 1).fit(), Fit::Beyond("address"));
    }

    #[test]
    fn what_names_nobody_by_too_long_a_name_is_taken() {
        let receipt = |id: usize, chat| {
            let message_id = MessageId("A".repeat(id));
            let status = ReceiptStatus::Read;
            item(InboundKind::Receipt(Receipt { message_id, chat: address(chat), participant: None, status })).fit()
        };
        assert_eq!(receipt(255, 128), Fit::Whole);
        assert_eq!((receipt(256, 9), receipt(9, 129)), (Fit::Beyond("address"), Fit::Beyond("address")));
        let disclosed = |lid, phone| item(InboundKind::LidDisclosed { lid: address(lid), phone: address(phone) }).fit();
        assert_eq!(disclosed(128, 128), Fit::Whole);
        assert_eq!((disclosed(129, 9), disclosed(9, 129)), (Fit::Beyond("address"), Fit::Beyond("address")));
    }

    #[test]
    fn a_notice_is_taken_whole_or_not_at_all() {
        let told = |news| item(InboundKind::Notice(Box::new(Notice { actor: None, news }))).fit();
        let profile = |about: usize| {
            News::Profile(ChannelProfile { name: None, about: Some("x".repeat(about)), picture_url: None })
        };
        assert_eq!(told(profile(LARGEST_NOTICE - 200)), Fit::Whole);
        assert_eq!(told(profile(LARGEST_NOTICE)), Fit::Beyond("size"));
        let viewed = |viewer| News::Story { story: MessageId("A".into()), news: StoryNews::Viewed { viewer } };
        assert_eq!(told(viewed(address(128))), Fit::Whole);
        assert_eq!(told(viewed(address(129))), Fit::Beyond("address"));
        assert_eq!(told(News::Unblocked { contact: address(129) }), Fit::Beyond("address"));
    }
}
