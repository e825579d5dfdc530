//! Settings are changed by compare-and-set: an owner that has not seen the last change changes nothing.

use bytes::Bytes;
use model::id::{ChannelId, CustomerId};
use model::time::Timestamp;

use super::Apply;
use crate::command::Reply;
use crate::keys;
use crate::projection::Kind;
use crate::records::encode;
use crate::settings::SettingsRow;

impl Apply<'_> {
    pub(super) fn change_settings(
        &mut self,
        id: ChannelId,
        customer: CustomerId,
        expect: Timestamp,
        row: &Bytes,
    ) -> Reply {
        let channel = self.channel(id, customer);
        if channel.deleted {
            return Reply::ChannelDeleted;
        }
        if SettingsRow::of(self.state, id).version() != expect {
            return Reply::LostRace;
        }
        // Without the channel's row, its settings would not be found when the channel is deleted.
        let channel_key = keys::channel(id);
        if self.state.get(&channel_key).is_none() {
            self.state.put(&channel_key, &encode(&channel));
        }
        self.state.put(&keys::projected(id, Kind::Settings, ""), row);
        Reply::Done
    }
}
