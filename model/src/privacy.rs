//! Privacy settings: what an account shows to whom.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

crate::words! {
    /// An audience; `contact_blacklist` are the contacts except those in a list on the phone.
    #[derive(Default, JsonSchema)]
    #[schemars(inline)]
    Audience { #[default] All = "all", Contacts = "contacts", ContactBlacklist = "contact_blacklist", None = "none", }

    /// Who sees that the account is online; `match_last_seen` is the audience of `last_seen`.
    #[derive(Default, JsonSchema)]
    #[schemars(inline)]
    OnlineAudience { #[default] All = "all", MatchLastSeen = "match_last_seen", }

    #[derive(Default, JsonSchema)]
    #[schemars(inline)]
    ReadReceipts { #[default] All = "all", None = "none", }

    /// Who may call the account.
    #[derive(Default, JsonSchema)]
    #[schemars(inline)]
    Callers { #[default] All = "all", Known = "known", }
}

/// Declares the settings, with the network's defaults for a new account, and the struct that changes some of them.
macro_rules! settings {
    ($($(#[$about:meta])* $setting:ident: $type:ty,)+) => {
        /// The privacy settings of an account.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub struct Privacy {
            $($(#[$about])* pub $setting: $type,)+
        }

        /// A change to privacy settings: the fields that are set.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct PrivacyChanges {
            $(pub $setting: Option<$type>,)+
        }

        impl Privacy {
            /// The settings with the changes applied.
            pub fn with(self, changes: PrivacyChanges) -> Self {
                Self { $($setting: changes.$setting.unwrap_or(self.$setting),)+ }
            }
        }
    };
}

settings! {
    /// Who sees when the account was last online; `contact_blacklist`: contacts except those in a list on the phone.
    last_seen: Audience,
    online: OnlineAudience,
    /// Who sees the picture; `contact_blacklist`: contacts except those in a list on the phone.
    profile_photo: Audience,
    /// Who sees the about text; `contact_blacklist`: contacts except those in a list on the phone.
    about: Audience,
    read_receipts: ReadReceipts,
    /// Who may add the account to groups; `contact_blacklist`: contacts except those in a list on the phone.
    group_add: Audience,
    call_add: Callers,
    /// Seconds after which messages of new chats disappear; `0` for never.
    default_ephemeral: u32,
}

impl Privacy {
    /// Who sees whether the account is online; with `match_last_seen`, those who see when it was last online.
    pub fn online_audience(&self) -> Audience {
        match self.online {
            OnlineAudience::All => Audience::All,
            OnlineAudience::MatchLastSeen => self.last_seen,
        }
    }
}

impl Audience {
    /// Whether the audience includes a person, given whether that person is a contact.
    pub fn includes(self, is_contact: bool) -> bool {
        match self {
            Self::All => true,
            Self::Contacts | Self::ContactBlacklist => is_contact,
            Self::None => false,
        }
    }
}
