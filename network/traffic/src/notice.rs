//! What the network tells a channel beside messages: changes that others made, or the channel's own phone, or the
//! channel itself. Each is kept until it is acknowledged, as messages are. A new area is an enum here and a variant of
//! [`News`].

use model::address::Address;
use model::blacklist::Blocked;
use model::business::{BusinessProfile, CartItem, Collection, Order, OrderStatus, Product};
use model::call::CallEnd;
use model::chat::ChatChanges;
use model::community::KnownCommunity;
use model::group::{AddedReason, Group, GroupChanges, GroupOrigin, RemovedReason};
use model::id::MessageId;
use model::label::{KnownLabel, Labelled};
use model::newsletter::Newsletter;
use model::presence::Presence;
use model::privacy::Privacy;
use model::profile::ChannelProfile;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::operation::business::BusinessState;
use crate::operation::labels::LabelState;

/// Something changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Who did it, when the network tells.
    pub actor: Option<Address>,
    pub news: News,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum News {
    /// Of a group.
    Group { group: Address, news: GroupNews },
    /// Of a call.
    Call { call: String, news: CallNews },
    /// Of a chat.
    Chat { chat: Address, news: ChatNews },
    /// Of somebody in the address book.
    Contact { contact: Address, news: ContactNews },
    /// A community as it is now; `None` when the channel is not in it any more, or it has ended.
    Community { community: Address, now: Option<Box<KnownCommunity>> },
    /// A newsletter as it is now; `None` when the channel neither publishes nor reads it any more, or it has ended.
    Newsletter { newsletter: Address, now: Option<Box<Newsletter>> },
    /// Of a story of the channel.
    Story { story: MessageId, news: StoryNews },
    /// Of the account's business.
    Business(Box<BusinessNews>),
    /// Of the presence of somebody who is subscribed to.
    Presence { chat: Address, news: PresenceNews },
    /// Somebody is on the block list from now on.
    Blocked(Blocked),
    /// Somebody is taken off it.
    Unblocked { contact: Address },
    /// The profile as it is now.
    Profile(ChannelProfile),
    /// The settings as they are now.
    Privacy(Privacy),
    /// Of labels, and of what bears them.
    Labels(LabelNews),
}

/// What became of a group that the channel is in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum GroupNews {
    /// The channel is in it from now on.
    Entered { group: Box<Group>, origin: GroupOrigin },
    /// Subject, description or settings.
    Changed(GroupChanges),
    /// Members that are new.
    Added { participants: Vec<Address>, reason: AddedReason },
    /// The channel itself may be among them.
    Removed { participants: Vec<Address>, reason: RemovedReason },
    /// Members that are admins from now on.
    Promoted { participants: Vec<Address> },
    /// Admins that are members from now on.
    Demoted { participants: Vec<Address> },
}

/// What became of a call to the channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CallNews {
    Offered {
        from: Address,
        is_video: bool,
        /// Whose members are called.
        group: Option<Address>,
        /// The channel was away.
        offline: bool,
    },
    Over {
        reason: CallEnd,
        /// This device of the number rejected the call.
        here: bool,
        duration_seconds: Option<u32>,
    },
}

/// What the account did to one of its chats, on whichever device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ChatNews {
    /// Its flags.
    Changed(ChatChanges),
    /// Everything that came until then is read.
    Read { upto: Timestamp },
    /// Its messages are gone, and with `deleted` the chat itself.
    Cleared { deleted: bool },
}

/// Somebody's presence, or what a member does in a group. Told at once or not at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PresenceNews {
    /// In a group: who it is.
    pub participant: Option<Address>,
    pub presence: Presence,
    /// Unix seconds; where it is shown.
    pub last_seen_at: Option<i64>,
}

/// What the account did about somebody, or somebody made known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ContactNews {
    /// In the address book.
    Saved { name: Option<String> },
}
/// What became of a story of the channel's account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum StoryNews {
    /// By the channel, or by its own phone.
    Posted,
    /// It was taken back.
    Deleted,
    /// For the first time by this one.
    Viewed { viewer: Address },
}

/// What became of the channel's business account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BusinessNews {
    /// The account became a business, or is none any more.
    Account(Option<Box<BusinessState>>),
    /// The profile as it is now.
    Profile(Box<BusinessProfile>),
    /// New, or changed.
    Product(Box<Product>),
    /// A product was deleted.
    ProductGone { product: String },
    /// New, or changed.
    Collection(Collection),
    /// A collection was deleted.
    CollectionGone { collection: String },
    /// Somebody has ordered.
    OrderPlaced(Box<Order>),
    /// An order has another status.
    OrderMoved { order: String, status: OrderStatus, reason: Option<String> },
    /// Somebody's cart holds this now.
    Cart { cart: Option<String>, items: Vec<CartItem>, total_amount: Option<u64>, currency: String },
}

/// What became of the labels of the channel's business account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LabelNews {
    /// The account became a business, or is none any more: all of its labels.
    All(LabelState),
    /// New, or changed.
    Label(KnownLabel),
    /// Nothing bears it any more.
    Gone { label: String },
    /// Something bears other labels than before.
    Moved { on: Labelled, put: Vec<String>, taken: Vec<String> },
}
