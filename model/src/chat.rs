//! Chats as the interface shows them: flags, and no messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::field::Change;
use crate::time::Timestamp;

/// A chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chat {
    pub id: Address,
    pub pinned: bool,
    pub archived: bool,
    /// Time until which the chat is muted, in Unix seconds; `0` for ever, `null` if it is not muted.
    pub muted_until: Option<i64>,
    pub unread: bool,
    /// Seconds after which messages disappear; `0` for never.
    pub ephemeral_expiration: u32,
    /// Time of the last message in Unix seconds; `null` if there is none.
    pub last_message_at: Option<i64>,
}

/// Permitted timers of disappearing messages, in seconds; 0 for never.
pub const EPHEMERAL: &[u32] = &[0, 86_400, 604_800, 7_776_000];

/// The flags of a chat that an account syncs across its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatFlags {
    pub pinned: bool,
    pub archived: bool,
    /// As in [`Chat::muted_until`].
    pub muted_until: Option<i64>,
    /// Marked as unread by hand, regardless of what was read.
    pub marked_unread: bool,
    pub ephemeral_expiration: u32,
}

/// A change to a chat, requested or reported: the fields that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatChanges {
    pub pinned: Option<bool>,
    pub archived: Option<bool>,
    pub muted_until: Change<Option<i64>>,
    /// `false` marks all messages as read; `true` only sets the mark.
    pub unread: Option<bool>,
    pub ephemeral_expiration: Option<u32>,
}

impl ChatFlags {
    /// Applies the changes that are set. Archiving unpins the chat; `unread: false` is left to reading it.
    pub fn apply(&mut self, changes: &ChatChanges) {
        self.pinned = changes.pinned.unwrap_or(self.pinned);
        if let Some(archived) = changes.archived {
            self.archived = archived;
            self.pinned &= !archived;
        }
        changes.muted_until.apply(&mut self.muted_until);
        self.marked_unread |= changes.unread == Some(true);
        self.ephemeral_expiration = changes.ephemeral_expiration.unwrap_or(self.ephemeral_expiration);
    }
}

/// A chat as the network reports it in a sync of all chats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncedChat {
    pub id: Address,
    pub flags: ChatFlags,
    pub last_message_at: Option<Timestamp>,
    /// Whether the chat has unread messages.
    pub unread: bool,
}

crate::words! {
    /// The kind of conversation, derived from its address.
    ChatKind {
        Direct = "direct",
        Group = "group",
        Newsletter = "newsletter",
    }

    /// Sort order of a list of chats.
    #[derive(Default)]
    ChatSort {
        /// Chats with the latest message first.
        #[default]
        LastMessageAt = "last_message_at",
        Id = "id",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archiving_unpins_and_what_is_not_named_stays() {
        let mut flags = ChatFlags { pinned: true, muted_until: Some(0), ..ChatFlags::default() };
        flags.apply(&ChatChanges { archived: Some(true), ..ChatChanges::default() });
        assert_eq!(flags, ChatFlags { archived: true, muted_until: Some(0), ..ChatFlags::default() });
        flags.apply(&ChatChanges { muted_until: Change::To(None), unread: Some(true), ..ChatChanges::default() });
        assert_eq!((flags.muted_until, flags.marked_unread, flags.archived), (None, true, true));
    }
}
