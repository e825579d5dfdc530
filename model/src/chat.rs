//! Chats as the interface shows them: flags, and no messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::field::Change;
use crate::time::Timestamp;

/// A chat as the interface shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chat {
    pub id: Address,
    pub pinned: bool,
    pub archived: bool,
    /// `null`: not muted; 0: for ever; else Unix seconds.
    pub muted_until: Option<i64>,
    pub unread: bool,
    /// Seconds after which messages disappear; 0 for never.
    pub ephemeral_expiration: u32,
    /// Unix seconds.
    pub last_message_at: Option<i64>,
}

/// What disappearing messages may be set to, in seconds; 0 for never.
pub const EPHEMERAL: &[u32] = &[0, 86_400, 604_800, 7_776_000];

/// What an account keeps of a chat, on all its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatFlags {
    pub pinned: bool,
    pub archived: bool,
    /// As in [`Chat`].
    pub muted_until: Option<i64>,
    /// Marked by hand, whatever was read.
    pub marked_unread: bool,
    pub ephemeral_expiration: u32,
}

/// Fields of a chat that are to change, or did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatChanges {
    pub pinned: Option<bool>,
    pub archived: Option<bool>,
    pub muted_until: Change<Option<i64>>,
    /// `false` reads all that is unread; `true` only marks.
    pub unread: Option<bool>,
    pub ephemeral_expiration: Option<u32>,
}

impl ChatFlags {
    /// Takes over what differs, but for a mark that goes by reading. Who archives a chat unpins it.
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

/// A chat as the network knows it when it is asked for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncedChat {
    pub id: Address,
    pub flags: ChatFlags,
    pub last_message_at: Option<Timestamp>,
    /// Whether something in it was not read.
    pub unread: bool,
}

crate::words! {
    /// Which conversation it is, by its address.
    ChatKind {
        Direct = "direct",
        Group = "group",
        Newsletter = "newsletter",
    }

    /// The order of a list of chats.
    #[derive(Default)]
    ChatSort {
        /// The chat with the latest message first.
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
