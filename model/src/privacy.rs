//! What an account shows to whom.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

crate::words! {
    /// To whom something is shown. `contact_blacklist`: to the contacts but for some that the phone keeps.
    #[derive(JsonSchema)]
    #[schemars(inline)]
    Audience { All = "all", Contacts = "contacts", ContactBlacklist = "contact_blacklist", None = "none", }

    /// Who sees that the account is there.
    #[derive(JsonSchema)]
    #[schemars(inline)]
    OnlineAudience { All = "all", MatchLastSeen = "match_last_seen", }

    #[derive(JsonSchema)]
    #[schemars(inline)]
    ReadReceipts { All = "all", None = "none", }

    /// Who may call.
    #[derive(JsonSchema)]
    #[schemars(inline)]
    Callers { All = "all", Known = "known", }
}

/// The privacy settings of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Privacy {
    pub last_seen: Audience,
    pub online: OnlineAudience,
    pub profile_photo: Audience,
    pub about: Audience,
    pub read_receipts: ReadReceipts,
    pub group_add: Audience,
    pub call_add: Callers,
    /// Seconds after which messages of new chats disappear; 0 for never.
    pub default_ephemeral: u32,
}

impl Default for Privacy {
    /// As the network has it for a new account.
    fn default() -> Self {
        Self {
            last_seen: Audience::All,
            online: OnlineAudience::All,
            profile_photo: Audience::All,
            about: Audience::All,
            read_receipts: ReadReceipts::All,
            group_add: Audience::All,
            call_add: Callers::All,
            default_ephemeral: 0,
        }
    }
}

/// Settings that are to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrivacyChanges {
    pub last_seen: Option<Audience>,
    pub online: Option<OnlineAudience>,
    pub profile_photo: Option<Audience>,
    pub about: Option<Audience>,
    pub read_receipts: Option<ReadReceipts>,
    pub group_add: Option<Audience>,
    pub call_add: Option<Callers>,
    pub default_ephemeral: Option<u32>,
}

impl Privacy {
    /// The settings once the changes are made.
    pub fn with(self, changes: PrivacyChanges) -> Self {
        Self {
            last_seen: changes.last_seen.unwrap_or(self.last_seen),
            online: changes.online.unwrap_or(self.online),
            profile_photo: changes.profile_photo.unwrap_or(self.profile_photo),
            about: changes.about.unwrap_or(self.about),
            read_receipts: changes.read_receipts.unwrap_or(self.read_receipts),
            group_add: changes.group_add.unwrap_or(self.group_add),
            call_add: changes.call_add.unwrap_or(self.call_add),
            default_ephemeral: changes.default_ephemeral.unwrap_or(self.default_ephemeral),
        }
    }

    /// Who sees that the account is there: with `match_last_seen`, whoever sees when it last was.
    pub fn online_audience(&self) -> Audience {
        match self.online {
            OnlineAudience::All => Audience::All,
            OnlineAudience::MatchLastSeen => self.last_seen,
        }
    }
}

impl Audience {
    /// Whether somebody belongs to it who is, or is not, a contact.
    pub fn includes(self, is_contact: bool) -> bool {
        match self {
            Self::All => true,
            Self::Contacts | Self::ContactBlacklist => is_contact,
            Self::None => false,
        }
    }
}
