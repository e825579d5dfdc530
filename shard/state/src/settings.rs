//! A channel's settings as its shard stores them: in a row that exists in every status, also before the first pairing.
//! Changes are compare-and-set on the time of the last change.

use bytes::Bytes;
use machine::View;
use model::field::Change;
use model::id::ChannelId;
use model::settings::{Settings, SettingsChange};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::keys;
use crate::projection::{Kind, entity};
use crate::records::decode;

/// The settings row. There is none until the first change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SettingsRow {
    pub settings: Settings,
    /// The proxy's URL with its password, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Bytes>,
    /// The call that made the last change, and whether it changed the proxy: a repeat of it gets the same response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_by: Option<(Uuid, bool)>,
}

impl SettingsRow {
    /// The stored settings of a channel, or the defaults.
    pub fn of(view: &dyn View, channel: ChannelId) -> Self {
        let row = view.get(&keys::projected(channel, Kind::Settings, ""));
        row.map(|row| decode(&row)).unwrap_or_default()
    }

    /// The time of the last change; the default time if there was none.
    pub fn version(&self) -> Timestamp {
        self.settings.updated_at
    }
}

entity!(SettingsRow, Settings, |_row| String::new());

/// A change of settings, as requested from the owner.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeSettings {
    /// The version that the caller has seen, if only that one may be changed.
    pub expect: Option<Timestamp>,
    pub to: NewSettings,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NewSettings {
    /// Some settings change; the others stay.
    Patched { change: Box<SettingsChange>, proxy: Change<Option<SealedProxy>> },
    /// Resets all settings.
    Defaults,
}

/// A proxy whose URL is sealed for transport.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SealedProxy {
    pub shown: String,
    /// `None` if the caller gave the URL in its shown form, and so means the stored proxy.
    pub sealed: Option<Bytes>,
}

/// Settings after a change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Changed {
    pub settings: Box<Settings>,
    /// Whether the proxy has changed; the change takes effect with the next connection.
    pub proxy: bool,
}

/// The purpose (associated data) of a channel's sealed proxy.
pub fn proxy_purpose(channel: ChannelId) -> String {
    format!("channel-proxy/{channel}")
}
