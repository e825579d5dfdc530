//! Size limits for what a network may deliver, for every driver. Oversized values are truncated if they stay
//! meaningful, and dropped otherwise; nothing oversized gets past this module.

use std::iter;

use model::address::{Address, LONGEST_ADDRESS};
use model::business::{Collection, Product};
use model::id::MessageId;
use model::label::{KnownLabel, Labelled};
use model::msgpack;
use model::time::Timestamp;
use serde::Serialize;

use crate::item::{Identity, InboundItem, InboundKind, InboundMessage, MOST_SYNCED, SyncedPart};
use crate::notice::{BusinessNews, CallNews, GroupNews, LabelNews, News, Notice, PresenceNews, StoryNews};

/// Largest notice as stored, in bytes. A group of the maximum size with all its members takes half of it.
const LARGEST_NOTICE: usize = 256 * 1024;

/// Longest push name, in bytes.
const LONGEST_PUSH_NAME: usize = 255;

/// Longest id of a call, product, order, label and the like, and longest token of an order, in bytes. Such ids become
/// row keys.
const LONGEST_ID: usize = 255;

/// The result of applying the bounds to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Nothing exceeded its bounds.
    Whole,
    /// A part exceeded its bounds and was truncated or dropped.
    Cut,
    /// The item cannot be stored: acknowledge and drop it. The reason is a label for metrics.
    Beyond(&'static str),
}

impl InboundItem {
    /// Applies the bounds to an item.
    pub fn fit(&mut self) -> Fit {
        match &mut self.kind {
            InboundKind::Message(message) | InboundKind::OwnMessage(message) => message.fit(),
            InboundKind::Receipt(receipt) => {
                let addresses = [Some(&receipt.chat), receipt.participant.as_ref()];
                beyond_if(!may_be_kept(&receipt.message_id) || any_too_long(addresses), "address")
            }
            InboundKind::LidDisclosed { lid, phone } => {
                beyond_if(any_too_long([Some(&*lid), Some(&*phone)]), "address")
            }
            InboundKind::Notice(notice) => notice.fit(self.at),
            InboundKind::Synced(part) => part.fit(),
        }
    }
}

fn beyond_if(is_beyond: bool, reason: &'static str) -> Fit {
    if is_beyond { Fit::Beyond(reason) } else { Fit::Whole }
}

fn cut_if(is_cut: bool) -> Fit {
    if is_cut { Fit::Cut } else { Fit::Whole }
}

/// Drops an address that is too long; returns whether it was.
fn drop_too_long(address: &mut Option<Address>) -> bool {
    address.take_if(|address| address.is_too_long()).is_some()
}

fn any_too_long<'a>(addresses: impl IntoIterator<Item = Option<&'a Address>>) -> bool {
    addresses.into_iter().flatten().any(Address::is_too_long)
}

/// Whether the id can be part of a row key: keys delimit ids by control characters, which no network uses in ids.
fn may_be_kept(id: &MessageId) -> bool {
    !id.is_too_long() && !id.as_str().contains(char::is_control)
}

/// Truncates a push name; returns whether it was too long.
fn cut_push_name(name: &mut Option<String>) -> bool {
    let Some(name) = name.as_mut().filter(|name| name.len() > LONGEST_PUSH_NAME) else { return false };
    name.truncate(name.floor_char_boundary(LONGEST_PUSH_NAME));
    true
}

impl Identity {
    /// Applies the bounds to a channel's identity.
    pub fn fit(&mut self) -> Fit {
        if self.phone_number.len() > LONGEST_ADDRESS {
            return Fit::Beyond("address");
        }
        cut_if(cut_push_name(&mut self.push_name) | drop_too_long(&mut self.lid))
    }
}

impl InboundMessage {
    fn fit(&mut self) -> Fit {
        if !may_be_kept(&self.id) || any_too_long([Some(&self.chat), Some(&self.from), Some(&self.to)]) {
            return Fit::Beyond("address");
        }
        let cut = self.content.cut() | self.around.cut() | cut_push_name(&mut self.push_name);
        cut_if(cut | drop_too_long(&mut self.from_phone))
    }
}

impl SyncedPart {
    /// Drops entries whose address is too long. A part with too many entries or too many bytes is refused.
    fn fit(&mut self) -> Fit {
        if self.chats.len() + self.people.len() > MOST_SYNCED || stored_bytes(self) > LARGEST_NOTICE {
            return Fit::Beyond("size");
        }
        let before = self.chats.len() + self.people.len();
        self.chats.retain(|chat| !chat.id.is_too_long());
        self.people.retain(|person| !any_too_long([Some(&person.id), person.lid.as_ref()]));
        cut_if(self.chats.len() + self.people.len() < before)
    }
}

impl Notice {
    /// A truncated state would be a different state: an oversized notice is dropped. `at` is the notice's time.
    fn fit(&mut self, at: Timestamp) -> Fit {
        if let News::Business(news) = &mut self.news
            && let BusinessNews::OrderPlaced(order) = &mut **news
        {
            // Clamp the time: an order before 1970 has no known time, and one later than its notice would sort first
            // and never expire.
            order.placed_at = order.placed_at.min(at.unix_seconds()).max(0);
        }
        let Named { addresses, messages, ids } = Named::by(&self.news);
        let is_long = addresses.into_iter().chain(&self.actor).any(Address::is_too_long);
        if is_long || !messages.into_iter().all(may_be_kept) {
            return Fit::Beyond("address");
        }
        let long_id = ids.into_iter().any(|id| id.len() > LONGEST_ID);
        beyond_if(long_id || stored_bytes(self) > LARGEST_NOTICE, "size")
    }
}

/// The names that a piece of news contains, by their bounds.
#[derive(Default)]
struct Named<'a> {
    /// Addresses of conversations and contacts.
    addresses: Vec<&'a Address>,
    messages: Vec<&'a MessageId>,
    /// Other ids, made by the network.
    ids: Vec<&'a String>,
}

impl<'a> Named<'a> {
    fn by(news: &'a News) -> Self {
        let mut named = Self::default();
        match news {
            News::Group { group, news } => {
                named.addresses.push(group);
                match news {
                    GroupNews::Entered { group, .. } => {
                        named.addresses.extend(group.participants.iter().map(|member| &member.id));
                    }
                    GroupNews::Changed(_) => {}
                    GroupNews::Added { participants, .. }
                    | GroupNews::Removed { participants, .. }
                    | GroupNews::Promoted { participants }
                    | GroupNews::Demoted { participants } => named.addresses.extend(participants),
                }
            }
            News::Call { call, news } => {
                named.ids.push(call);
                if let CallNews::Offered { from, group, .. } = news {
                    named.addresses.extend(iter::once(from).chain(group));
                }
            }
            News::Chat { chat: about, .. }
            | News::Contact { contact: about, .. }
            | News::Community { community: about, .. }
            | News::Newsletter { newsletter: about, .. }
            | News::Unblocked { contact: about } => named.addresses.push(about),
            News::Presence { chat, news: PresenceNews { participant, .. } } => {
                named.addresses.extend(iter::once(chat).chain(participant));
            }
            News::Blocked(blocked) => named.addresses.extend(iter::once(&blocked.id).chain(&blocked.lid)),
            News::Story { story, news } => {
                named.messages.push(story);
                if let StoryNews::Viewed { viewer } = news {
                    named.addresses.push(viewer);
                }
            }
            News::Business(news) => named.business(news),
            News::Labels(news) => named.labels(news),
            News::Profile(_) | News::Privacy(_) => {}
        }
        named
    }

    fn business(&mut self, news: &'a BusinessNews) {
        match news {
            BusinessNews::Account(None) | BusinessNews::Profile(_) => {}
            BusinessNews::Account(Some(state)) => {
                self.ids.extend(state.products.iter().flat_map(ids_of_product));
                self.ids.extend(state.collections.iter().map(|collection| &collection.id));
            }
            BusinessNews::Product(product) => self.ids.extend(ids_of_product(product)),
            BusinessNews::ProductGone { product: id }
            | BusinessNews::Collection(Collection { id, .. })
            | BusinessNews::CollectionGone { collection: id }
            | BusinessNews::OrderMoved { order: id, .. } => self.ids.push(id),
            BusinessNews::OrderPlaced(order) => {
                self.addresses.extend(iter::once(&order.from).chain(&order.from_phone));
                self.messages.push(&order.message_id);
                self.ids.extend(iter::once(&order.id).chain(&order.token));
                self.ids.extend(order.items.iter().map(|item| &item.product_id));
            }
            BusinessNews::Cart { cart, items, .. } => {
                self.ids.extend(cart.iter().chain(items.iter().map(|item| &item.product_id)));
            }
        }
    }

    fn labels(&mut self, news: &'a LabelNews) {
        match news {
            LabelNews::All(state) => {
                self.ids.extend(state.labels.iter().map(|label| &label.id));
                for borne in &state.borne {
                    self.labelled(&borne.by);
                    self.ids.extend(&borne.labels);
                }
            }
            LabelNews::Label(KnownLabel { id, .. }) | LabelNews::Gone { label: id } => self.ids.push(id),
            LabelNews::Moved { on, put, taken } => {
                self.labelled(on);
                self.ids.extend(put.iter().chain(taken));
            }
        }
    }

    fn labelled(&mut self, on: &'a Labelled) {
        self.addresses.push(&on.chat);
        self.messages.extend(&on.message);
    }
}

fn ids_of_product(product: &Product) -> impl Iterator<Item = &String> {
    iter::once(&product.id).chain(&product.collection_ids)
}

/// The stored size of a value, computed by serializing it.
fn stored_bytes(value: &impl Serialize) -> usize {
    // A value that cannot be serialized has no place in a log.
    msgpack::to_vec_named(value).map_or(usize::MAX, |bytes| bytes.len())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::business::{Order, OrderStatus};
    use model::message::{Content, Surroundings};
    use model::profile::ChannelProfile;

    use super::*;
    use crate::item::{ItemId, Receipt, ReceiptStatus};
    use model::chat::{ChatFlags, SyncedChat};

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
    fn a_part_of_what_was_before_has_a_number_and_names_that_can_be_kept() {
        let chats = |count: usize, bytes| {
            let chat =
                SyncedChat { id: address(bytes), flags: ChatFlags::default(), last_message_at: None, unread: false };
            item(InboundKind::Synced(Box::new(SyncedPart { chats: vec![chat; count], people: Vec::new() })))
        };
        assert_eq!((chats(MOST_SYNCED, 128).fit(), chats(MOST_SYNCED + 1, 9).fit()), (Fit::Whole, Fit::Beyond("size")));
        let mut unnamed = chats(2, 129);
        assert_eq!(unnamed.fit(), Fit::Cut);
        assert_eq!(unnamed, chats(0, 9));
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
        let gone = |bytes| News::Labels(LabelNews::Gone { label: "1".repeat(bytes) });
        assert_eq!((told(gone(LONGEST_ID)), told(gone(LONGEST_ID + 1))), (Fit::Whole, Fit::Beyond("size")));
        let posted = |id: &str| News::Story { story: MessageId(id.into()), news: StoryNews::Posted };
        assert_eq!((told(posted("A ")), told(posted("A\0"))), (Fit::Whole, Fit::Beyond("address")));
    }

    #[test]
    fn an_order_has_ids_that_can_be_kept_and_a_time_that_there_was() {
        let placed = |id: usize, token: usize, placed_at| Notice {
            actor: None,
            news: News::Business(Box::new(BusinessNews::OrderPlaced(Box::new(Order {
                id: "1".repeat(id),
                token: Some("t".repeat(token)),
                from: address(20),
                from_phone: None,
                status: OrderStatus::Placed,
                note: None,
                currency: "EUR".into(),
                subtotal_amount: 1,
                tax_amount: None,
                total_amount: 1,
                items: Vec::new(),
                message_id: MessageId("A".into()),
                placed_at,
            })))),
        };
        let told = Timestamp(7_999);
        assert_eq!(placed(255, 255, 0).fit(told), Fit::Whole);
        let too_long = [placed(256, 1, 0).fit(told), placed(1, 256, 0).fit(told)];
        assert_eq!(too_long, [Fit::Beyond("size"), Fit::Beyond("size")]);
        for (said, kept) in [(-1, 0), (7, 7), (8, 7), (i64::MAX, 7)] {
            let mut order = placed(1, 1, said);
            assert_eq!((order.fit(told), order), (Fit::Whole, placed(1, 1, kept)));
        }
    }

    #[test]
    fn who_a_channel_is_has_a_name_that_can_be_kept() {
        let identity = |phone: usize, lid: Option<usize>, name: usize| Identity {
            phone_number: "1".repeat(phone),
            lid: lid.map(address),
            push_name: Some("n".repeat(name)),
        };
        let mut most = identity(128, Some(128), 255);
        assert_eq!((most.fit(), most), (Fit::Whole, identity(128, Some(128), 255)));
        let mut named = identity(1, Some(129), 256);
        assert_eq!((named.fit(), named), (Fit::Cut, identity(1, None, 255)));
        let mut wide = Identity { push_name: Some("ü".repeat(128)), ..identity(1, None, 0) };
        assert_eq!((wide.fit(), wide.push_name), (Fit::Cut, Some("ü".repeat(127))));
        assert_eq!(identity(129, None, 1).fit(), Fit::Beyond("address"));
    }
}
