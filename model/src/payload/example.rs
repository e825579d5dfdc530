//! An example of each event, built from the real event types.

use crate::address::Address;
use crate::business::{CartItem, Order, OrderItem, OrderStatus};
use crate::call::CallEnd;
use crate::chat::Chat as ShownChat;
use crate::group::{AddedReason, Group, GroupChanges, GroupOrigin, GroupParticipant, Rank, RemovedReason};
use crate::id::{ChannelId, MessageId};
use crate::media::{MediaRef, MediaState, Sha256Hex};
use crate::message::MessageKey;
use crate::presence::Presence;
use crate::status::{DisconnectReason, Reason, Status};
use crate::time::Timestamp;

use super::*;

/// 2026-01-01T00:00:02.118Z, in milliseconds.
pub(crate) const NOW: Timestamp = Timestamp(1_767_225_602_118);

/// The time of all examples, in Unix seconds.
const SECONDS: i64 = 1_767_225_602;

const MESSAGE: &str = "3EB0A1B2C3D4E5F60718293A4B5C6D7E8F901234";

pub(crate) fn channel() -> ChannelId {
    ChannelId(uuid::Uuid::from_u128(0x7f2c_1a52_7d3e_4a55_9a42_0d6f_0b1c_2d3e))
}

fn address(text: &str) -> Address {
    Address::parse(text).expect("the examples' addresses are well formed")
}

/// The channel's own address.
fn own() -> Address {
    address("15559990000@s.example")
}

fn ana() -> Address {
    address("15550001111@s.example")
}

fn ana_as_lid() -> Address {
    address("251556368777322@lid")
}

fn ben() -> Address {
    address("15550002222@s.example")
}

fn friends() -> Address {
    address("120363025246125486@g.example")
}

fn message() -> MessageId {
    MessageId(MESSAGE.to_owned())
}

fn with_ana() -> Chat {
    Chat { chat_id: ana(), is_group: false, participant: None }
}

fn picture() -> MediaRef {
    MediaRef {
        id: Some(crate::id::MediaId(uuid::Uuid::from_u128(0x0197_c0de_5eed_7000_a000_c0ff_ee00_0001))),
        url: Some("https://gateway.example.com/v1/media/eyJ2IjoxfQ.c2lnbmF0dXJl".to_owned()),
        mime_type: "image/jpeg".to_owned(),
        size_bytes: Some(245_632),
        filename: None,
        sha256: Some(Sha256Hex("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned())),
        width: Some(1280),
        height: Some(960),
        duration_seconds: None,
        voice: false,
        view_once: false,
        state: MediaState::Ready,
        expires_at: Some(NOW.plus(std::time::Duration::from_secs(14 * 86_400))),
    }
}

fn group() -> Group {
    let member = |id, rank| GroupParticipant { id, rank };
    Group {
        id: friends(),
        subject: "Friends".to_owned(),
        description: None,
        created_at: Some(SECONDS),
        created_by: Some(own()),
        participants: vec![member(own(), Rank::Creator), member(ana(), Rank::Member)],
        invite_code: None,
        announce: false,
        restrict: false,
        ephemeral: 0,
        member_add_mode: true,
        join_approval_mode: false,
    }
}

fn members(reason: Option<MembersReason>) -> GroupMembers {
    GroupMembers { group_id: friends(), participants: vec![ben()], actor: Some(ana()), reason, timestamp: SECONDS }
}

fn order() -> Order {
    Order {
        id: "712309".to_owned(),
        token: Some("AR6xBKbXZn0Xwmu76Ksyd7rnxI+Rx87HfinVlW4lwXa6JA==".to_owned()),
        from: ana(),
        from_phone: Some(ana()),
        status: OrderStatus::Placed,
        note: Some("No sugar".to_owned()),
        currency: "EUR".to_owned(),
        subtotal_amount: 9000,
        tax_amount: None,
        total_amount: 9000,
        items: vec![OrderItem {
            product_id: "8412".to_owned(),
            name: "Tea".to_owned(),
            quantity: 2,
            price_amount: 4500,
            currency: "EUR".to_owned(),
            image_url: None,
        }],
        message_id: message(),
        placed_at: SECONDS,
    }
}

impl Payload {
    pub(crate) fn example(name: EventName) -> Self {
        let sender = Sender::phone(ana());
        match name {
            EventName::MessageReceived => Self::MessageReceived(Box::new(MessageReceived {
                message_id: message(),
                sender: Sender::resolved(ana_as_lid(), ana()),
                to: own(),
                chat: with_ana(),
                push_name: Some("Ana".to_owned()),
                body: ReceivedBody::Image { media: picture(), caption: Some("the receipt".to_owned()) },
                quoted: None,
                mentions: Vec::new(),
                mentions_all: false,
                forwarded: false,
                is_view_once: false,
                ephemeral_expiration: None,
                recovered: false,
                received_at: NOW,
                timestamp: SECONDS - 1,
                truncated: false,
            })),
            EventName::MessageSent => Self::MessageSent(MessageSent {
                message_id: message(),
                client_ref: Some("order-17".to_owned()),
                to: ana(),
                chat: with_ana(),
                message_type: "text",
                source: SendSource::Api,
                sent_at: NOW,
            }),
            EventName::MessageReaction => Self::MessageReaction(MessageReaction {
                sender,
                chat: with_ana(),
                message_id: MessageId("3EB0F00D".to_owned()),
                message_key: MessageKey { id: message(), from_me: true, remote_jid: ana() },
                emoji: "👍".to_owned(),
                from_me: false,
                timestamp: SECONDS,
            }),
            EventName::MessageStatus => Self::MessageStatus(MessageStatus {
                message_id: message(),
                to: ana(),
                status: AckStatus::Delivered,
                is_group: false,
                timestamp: SECONDS,
                participant: None,
                client_ref: Some("order-17".to_owned()),
                error: None,
            }),
            EventName::ChannelConnected => Self::ChannelConnected(ChannelConnected {
                phone_number: "15559990000".to_owned(),
                lid: Some(address("98765432101234@lid")),
                push_name: Some("Sales".to_owned()),
                connected_at: NOW,
            }),
            EventName::ChannelDisconnected => Self::ChannelDisconnected(ChannelDisconnected {
                reason: DisconnectReason::Network,
                will_retry: true,
                next_retry_at: Some(NOW.plus(std::time::Duration::from_secs(2))),
            }),
            EventName::ChannelStatus => Self::ChannelStatus(ChannelStatus {
                previous_status: Status::Connecting,
                status: Status::Connected,
                reason: Reason::LoginOk,
                changed_at: NOW,
                details: None,
            }),
            EventName::QrUpdated => Self::QrUpdated(QrUpdated {
                // The smallest possible PNG instead of several kilobytes.
                qr: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5ErkJggg=="
                    .to_owned(),
                raw: "2@aGVsbG8sIHBob25l,c2NhbiBtZQ==,bm93,MQ==".to_owned(),
                expires_at: NOW.plus(std::time::Duration::from_secs(20)),
                sequence: 1,
            }),
            EventName::GroupCreated => Self::GroupCreated(Box::new(GroupCreated {
                group: group(),
                origin: GroupOrigin::Created,
                actor: Some(own()),
                timestamp: SECONDS,
            })),
            EventName::GroupUpdated => Self::GroupUpdated(GroupUpdated {
                group_id: friends(),
                changes: GroupChanges { subject: Some("Family".to_owned()), ..GroupChanges::default() },
                actor: Some(ana()),
                timestamp: SECONDS,
            }),
            EventName::GroupParticipantAdded => {
                Self::GroupParticipantAdded(members(Some(MembersReason::Added(AddedReason::Added))))
            }
            EventName::GroupParticipantRemoved => {
                Self::GroupParticipantRemoved(members(Some(MembersReason::Removed(RemovedReason::Removed))))
            }
            EventName::GroupAdminPromoted => Self::GroupAdminPromoted(members(None)),
            EventName::GroupAdminDemoted => Self::GroupAdminDemoted(members(None)),
            EventName::ChatUpdated => Self::ChatUpdated(ChatUpdated {
                chat: ShownChat {
                    id: ana(),
                    pinned: false,
                    archived: false,
                    muted_until: Some(0),
                    unread: false,
                    ephemeral_expiration: 0,
                    last_message_at: Some(SECONDS - 60),
                },
                changed: vec![ChatField::MutedUntil],
                timestamp: SECONDS,
                is_group: false,
            }),
            EventName::ChatArchived => Self::ChatArchived(ChatArchived {
                chat_id: ana(),
                archived: true,
                timestamp: SECONDS,
                is_group: false,
            }),
            EventName::ChatPinned => {
                Self::ChatPinned(ChatPinned { chat_id: ana(), pinned: true, timestamp: SECONDS, is_group: false })
            }
            EventName::PresenceUpdated => Self::PresenceUpdated(PresenceUpdated {
                id: ana(),
                chat_id: ana(),
                presence: Presence::Typing,
                last_seen_at: None,
                participant: None,
                is_group: false,
            }),
            EventName::OrderPlaced => Self::OrderPlaced(Box::new(OrderPlaced {
                order: order(),
                sender,
                message_id: message(),
                timestamp: SECONDS,
            })),
            EventName::OrderCancelled => Self::OrderCancelled(OrderCancelled {
                order_id: order().id,
                sender,
                reason: Some("Too late".to_owned()),
                timestamp: SECONDS,
            }),
            EventName::CartUpdated => Self::CartUpdated(CartUpdated {
                sender,
                cart_id: Some("55120".to_owned()),
                items: vec![CartItem {
                    product_id: "8412".to_owned(),
                    name: Some("Tea".to_owned()),
                    quantity: 3,
                    price_amount: 4500,
                    currency: "EUR".to_owned(),
                }],
                total_amount: Some(13_500),
                currency: "EUR".to_owned(),
                timestamp: SECONDS,
            }),
            EventName::StoryViewed => Self::StoryViewed(StoryViewed {
                story_id: message(),
                viewer: ana(),
                viewer_phone: Some(ana()),
                viewed_at: SECONDS,
            }),
            EventName::CallOffered => Self::CallOffered(CallOffered {
                call_id: "5F0E8C6D1B2A3948".to_owned(),
                sender,
                is_video: false,
                is_group: false,
                group_id: None,
                offline: false,
                timestamp: SECONDS,
            }),
            EventName::CallTerminated => Self::CallTerminated(CallTerminated {
                call_id: "5F0E8C6D1B2A3948".to_owned(),
                sender,
                reason: CallEnd::Timeout,
                rejected_by_gateway: false,
                duration_seconds: None,
                timestamp: SECONDS,
                is_group: false,
            }),
            EventName::ContactResolved => Self::ContactResolved(ContactResolved {
                channel_id: channel(),
                lid: ana_as_lid(),
                phone_jid: ana(),
                first_seen_at: NOW,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventId};

    #[test]
    fn each_event_has_an_example_under_its_name_and_an_id_of_its_own() {
        let examples: Vec<Event> = EventName::ALL.iter().map(|name| Event::example(*name)).collect();
        for (name, example) in EventName::ALL.iter().zip(&examples) {
            assert_eq!(example.name(), *name);
        }
        let ids: std::collections::BTreeSet<&EventId> = examples.iter().map(|example| &example.id).collect();
        assert_eq!(ids.len(), 25);
    }
}
