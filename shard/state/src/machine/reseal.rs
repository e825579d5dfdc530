//! Resealed values are written by compare-and-set: a value that was written in between uses the present key already.

use model::id::ChannelId;

use super::Apply;
use crate::command::{Reply, Resealed};
use crate::keys;
use crate::projection::Kind;
use crate::records::encode;
use crate::settings::SettingsRow;

impl Apply<'_> {
    pub(super) fn reseal(&mut self, channel: ChannelId, auth: Vec<Resealed>, proxy: Option<Resealed>) -> Reply {
        for Resealed { name, was, sealed } in auth {
            let key = keys::auth(channel, &name);
            if self.state.get(&key).is_some_and(|present| present.starts_with(&was)) {
                self.state.put(&key, &sealed);
            }
        }
        if let Some(Resealed { was, sealed, .. }) = proxy {
            let row = SettingsRow::of(self.state, channel);
            if row.proxy.as_ref().is_some_and(|present| present.starts_with(&was)) {
                let row = SettingsRow { proxy: Some(sealed), ..row };
                self.state.put(&keys::projected(channel, Kind::Settings, ""), &encode(&row));
            }
        }
        Reply::Done
    }
}
