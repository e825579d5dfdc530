//! The names of events.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares the names that an endpoint can subscribe to.
macro_rules! event_names {
    ($($name:ident $text:literal,)*) => {
        /// The event names of interface 6.2.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum EventName {
            $(#[serde(rename = $text)] $name,)*
        }

        impl EventName {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

event_names! {
    MessageReceived "message.received",
    MessageSent "message.sent",
    MessageReaction "message.reaction",
    MessageStatus "message.status",
    ChannelConnected "channel.connected",
    ChannelDisconnected "channel.disconnected",
    ChannelStatus "channel.status",
    QrUpdated "qr.updated",
    GroupCreated "group.created",
    GroupUpdated "group.updated",
    GroupParticipantAdded "group.participant_added",
    GroupParticipantRemoved "group.participant_removed",
    GroupAdminPromoted "group.admin_promoted",
    GroupAdminDemoted "group.admin_demoted",
    ChatUpdated "chat.updated",
    ChatArchived "chat.archived",
    ChatPinned "chat.pinned",
    PresenceUpdated "presence.updated",
    OrderPlaced "order.placed",
    OrderCancelled "order.cancelled",
    CartUpdated "cart.updated",
    StoryViewed "story.viewed",
    CallOffered "call.offered",
    CallTerminated "call.terminated",
    ContactResolved "contact.resolved",
}

impl EventName {
    /// The names as text.
    pub fn words() -> Vec<&'static str> {
        Self::ALL.iter().map(|name| name.as_str()).collect()
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|name| name.as_str() == text)
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
