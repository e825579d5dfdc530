//! The names of events.

use schemars::JsonSchema;

/// Declares the names that an endpoint can subscribe to.
macro_rules! event_names {
    ($($name:ident $text:literal $about:literal,)*) => {
        crate::words! {
            /// The names of events.
            #[derive(PartialOrd, Ord, JsonSchema)]
            EventName { $($name = $text,)* }
        }

        impl EventName {
            /// What has happened when it is told of.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$name => $about,)*
                }
            }
        }
    };
}

event_names! {
    MessageReceived "message.received" "Somebody wrote to the channel, in a chat of two, a group or a newsletter.",
    MessageSent "message.sent" "The network has accepted a message of the channel, sent by a call or by the phone itself.",
    MessageReaction "message.reaction" "Somebody reacted to a message, or took the reaction back.",
    MessageStatus "message.status" "A sent message has come further: to the network, to a recipient, before its eyes; or it failed.",
    ChannelConnected "channel.connected" "The channel is connected and can send.",
    ChannelDisconnected "channel.disconnected" "The channel has lost its connection, or gave it up.",
    ChannelStatus "channel.status" "The status of the channel has changed.",
    QrUpdated "qr.updated" "There is a new QR code to pair the channel with. Mostly for pages that show it.",
    GroupCreated "group.created" "The channel is in a group from now on: it made it, joined it or was added.",
    GroupUpdated "group.updated" "The subject, the description or settings of a group have changed.",
    GroupParticipantAdded "group.participant_added" "Somebody came into a group.",
    GroupParticipantRemoved "group.participant_removed" "Somebody left a group or was removed.",
    GroupAdminPromoted "group.admin_promoted" "Members of a group have become admins.",
    GroupAdminDemoted "group.admin_demoted" "Admins of a group are plain members again.",
    ChatUpdated "chat.updated" "Flags of a chat have changed: unread, muted, disappearing messages, labels; or it was cleared or deleted.",
    ChatArchived "chat.archived" "A chat went into the archive, or came out of it.",
    ChatPinned "chat.pinned" "A chat was pinned to the top, or is no more.",
    PresenceUpdated "presence.updated" "Somebody whose presence is subscribed to is there, away, typing or recording.",
    OrderPlaced "order.placed" "Somebody has ordered from the channel's catalog.",
    OrderCancelled "order.cancelled" "An order was cancelled.",
    CartUpdated "cart.updated" "Somebody's cart has changed.",
    StoryViewed "story.viewed" "Somebody has seen a story of the channel for the first time.",
    CallOffered "call.offered" "Somebody calls the channel.",
    CallTerminated "call.terminated" "A call is over for the channel.",
    ContactResolved "contact.resolved" "The phone number behind a LID has become known.",
}
