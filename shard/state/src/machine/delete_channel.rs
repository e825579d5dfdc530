//! Wipes a deleted channel in steps.

use bytes::Bytes;
use model::id::{ChannelId, CustomerId};

use super::Apply;
use crate::command::Reply;
use crate::keys;
use crate::media;
use crate::records::{ChannelRow, encode};

/// The most keys that one `DeleteChannel` deletes, so that a long history does not stall the log.
pub const DELETED_AT_ONCE: usize = 500;

impl Apply<'_> {
    pub(super) fn delete_channel(&mut self, channel: ChannelId, customer: CustomerId) -> Reply {
        let mut row = self.channel(channel, customer);
        if !row.deleted {
            row = ChannelRow { deleted: true, version: row.version + 1, ..ChannelRow::new(channel, customer) };
        }
        // Each step continues where the previous one ended: a scan from the beginning would pass the tombstones of all
        // keys that are deleted already.
        let mut begun = row.wiped_upto.take().unwrap_or_default();
        let mut ranges = keys::everything_of(channel);
        ranges.sort_unstable();
        let mut left = DELETED_AT_ONCE;
        left -= media::apply::delete_of_channel(self.state, channel, left);
        for (from, to) in ranges {
            if left == 0 {
                break;
            }
            let found = self.state.scan(&from.max(begun.to_vec()), &to, left);
            found.iter().for_each(|(key, _)| self.state.delete(key));
            left -= found.len();
            if let Some((last, _)) = found.into_iter().next_back() {
                begun = Bytes::from(last);
            }
        }
        row.wiped = left > 0;
        row.wiped_upto = (!row.wiped).then_some(begun);
        self.state.put(&keys::channel(channel), &encode(&row));
        if row.wiped { Reply::Done } else { Reply::More }
    }
}
