//! A channel's settings as its shard keeps them: a row that works in every status, also before the first pairing.
//! Changes are compare-and-set on the time of the last one.

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

/// The row. There is none while nothing was ever changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SettingsRow {
    pub settings: Settings,
    /// The proxy's URL with its password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Bytes>,
    /// The call that made the last change, and whether it gave another proxy, so that a repeat of it answers as the first
    /// did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_by: Option<(Uuid, bool)>,
}

impl SettingsRow {
    /// What is stored of a channel.
    pub fn of(view: &dyn View, channel: ChannelId) -> Self {
        let row = view.get(&keys::projected(channel, Kind::Settings, ""));
        row.map(|row| decode(&row)).unwrap_or_default()
    }

    /// What the last change made; the default time while there was none.
    pub fn version(&self) -> Timestamp {
        self.settings.updated_at
    }
}

entity!(SettingsRow, Settings, |_row| String::new());

/// What the owner is asked to do with settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeSettings {
    /// The version that the caller has seen, if only that one is to be changed.
    pub expect: Option<Timestamp>,
    pub to: NewSettings,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NewSettings {
    /// Some settings change; the others stay.
    Patched { change: Box<SettingsChange>, proxy: Change<Option<SealedProxy>> },
    /// As if nothing had ever been changed.
    Defaults,
}

/// A proxy that may travel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SealedProxy {
    pub shown: String,
    /// `None`: it was given as it is shown, and is the one that is there.
    pub sealed: Option<Bytes>,
}

/// Settings after a change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Changed {
    pub settings: Box<Settings>,
    /// The proxy is another one, from the next connection on.
    pub proxy: bool,
}

/// What a channel's proxy is sealed for.
pub fn proxy_purpose(channel: ChannelId) -> String {
    format!("channel-proxy/{channel}")
}
