//! News from the network other than messages: changes made by others, by the channel's own phone, or by the channel
//! itself. The network keeps a notice until it is acknowledged, like a message. To add an area, add an enum here and a
//! variant of [`News`].

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

/// A change, and who made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Who made the change, if the network tells.
    pub actor: Option<Address>,
    pub news: News,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum News {
    /// A group changed.
    Group { group: Address, news: GroupNews },
    /// A call changed.
    Call { call: String, news: CallNews },
    /// A chat changed.
    Chat { chat: Address, news: ChatNews },
    /// A contact in the address book changed.
    Contact { contact: Address, news: ContactNews },
    /// The current state of a community; `None` if the channel is no longer in it, or it was dissolved.
    Community { community: Address, now: Option<Box<KnownCommunity>> },
    /// The current state of a newsletter; `None` if the channel no longer publishes or follows it, or it was deleted.
    Newsletter { newsletter: Address, now: Option<Box<Newsletter>> },
    /// A story of the channel changed.
    Story { story: MessageId, news: StoryNews },
    /// The account's business changed.
    Business(Box<BusinessNews>),
    /// The presence of a subscribed contact changed.
    Presence { chat: Address, news: PresenceNews },
    /// A contact was added to the block list.
    Blocked(Blocked),
    /// A contact was removed from the block list.
    Unblocked { contact: Address },
    /// The current profile.
    Profile(ChannelProfile),
    /// The current settings.
    Privacy(Privacy),
    /// Labels, or the chats and messages that they are on, changed.
    Labels(LabelNews),
}

/// A change in a group that the channel is in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum GroupNews {
    /// The channel joined the group.
    Entered { group: Box<Group>, origin: GroupOrigin },
    /// Subject, description or settings changed.
    Changed(GroupChanges),
    /// New members.
    Added { participants: Vec<Address>, reason: AddedReason },
    /// Removed members, possibly the channel itself.
    Removed { participants: Vec<Address>, reason: RemovedReason },
    /// Members that became admins.
    Promoted { participants: Vec<Address> },
    /// Admins that became plain members.
    Demoted { participants: Vec<Address> },
}

/// A change in a call to the channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CallNews {
    Offered {
        from: Address,
        is_video: bool,
        /// The group whose members are called.
        group: Option<Address>,
        /// Whether the channel was offline when the call was offered.
        offline: bool,
    },
    Over {
        reason: CallEnd,
        /// Whether this device of the number rejected the call.
        here: bool,
        duration_seconds: Option<u32>,
    },
}

/// What the account did to one of its chats, on any device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ChatNews {
    /// Its flags changed.
    Changed(ChatChanges),
    /// All messages up to this time were read.
    Read { upto: Timestamp },
    /// Its messages were deleted and, with `deleted`, the chat itself.
    Cleared { deleted: bool },
}

/// The presence of a contact, or of a member in a group. Delivered at once or not at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PresenceNews {
    /// In a group, the member.
    pub participant: Option<Address>,
    pub presence: Presence,
    /// Unix seconds, if the contact shows it.
    pub last_seen_at: Option<i64>,
}

/// A change to a contact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ContactNews {
    /// The contact's name in the address book.
    Saved { name: Option<String> },
}
/// A change to a story of the channel's account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum StoryNews {
    /// Posted by the channel or by its phone.
    Posted,
    /// The story was deleted.
    Deleted,
    /// Viewed by this contact for the first time.
    Viewed { viewer: Address },
}

/// A change to the channel's business account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BusinessNews {
    /// The account became a business, or ceased to be one (`None`).
    Account(Option<Box<BusinessState>>),
    /// The current profile.
    Profile(Box<BusinessProfile>),
    /// A new or changed product.
    Product(Box<Product>),
    /// A product was deleted.
    ProductGone { product: String },
    /// A new or changed collection.
    Collection(Collection),
    /// A collection was deleted.
    CollectionGone { collection: String },
    /// A contact placed an order.
    OrderPlaced(Box<Order>),
    /// The status of an order changed.
    OrderMoved { order: String, status: OrderStatus, reason: Option<String> },
    /// The current contents of a contact's cart.
    Cart { cart: Option<String>, items: Vec<CartItem>, total_amount: Option<u64>, currency: String },
}

/// A change to the labels of the channel's business account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LabelNews {
    /// All labels, sent when the account became a business or ceased to be one.
    All(LabelState),
    /// A new or changed label.
    Label(KnownLabel),
    /// A label was deleted.
    Gone { label: String },
    /// The labels of a chat or a message changed.
    Moved { on: Labelled, put: Vec<String>, taken: Vec<String> },
}
