//! The phone addresses behind LIDs: indexed in both directions, with one event when an address becomes known.

use model::address::Address;
use model::id::ChannelId;
use model::time::Timestamp;

use super::Apply;
use crate::command::{NewEvent, Reply};
use crate::keys;
use crate::projection::Entity;
use crate::projection::chats::{LastInbound, LastOutbound};
use crate::records::{LidRow, encode};

impl Apply<'_> {
    pub(super) fn learn_lid(
        &mut self,
        channel: ChannelId,
        lid: &Address,
        phone: Address,
        at: Timestamp,
        event: NewEvent,
    ) -> Reply {
        let key = keys::lid(channel, lid.local());
        let known: Option<LidRow> = self.read(&key);
        if known.as_ref().is_some_and(|known| known.phone == phone) {
            return Reply::Unchanged;
        }
        if let Some(known) = known {
            self.state.delete(&keys::lid_of(channel, known.phone.local()));
        }
        self.state.put(&keys::lid_of(channel, phone.local()), &encode(lid));
        // Messages of the chat under the LID belong to the chat under the phone address from now on.
        self.move_last(channel, lid, |last: &LastInbound| LastInbound { chat: phone.clone(), ..*last }, |last| last.at);
        self.move_last(
            channel,
            lid,
            |last: &LastOutbound| LastOutbound { chat: phone.clone(), ..*last },
            |last| last.at,
        );
        self.state.put(&key, &encode(&LidRow { phone, first_seen_at: at }));
        self.emit(event, None);
        Reply::Done
    }

    fn move_last<E: Entity>(
        &mut self,
        channel: ChannelId,
        lid: &Address,
        moved: impl Fn(&E) -> E,
        at: impl Fn(&E) -> Timestamp,
    ) {
        let key = keys::projected(channel, E::KIND, lid.as_str());
        let Some(last) = self.read::<E>(&key) else { return };
        self.state.delete(&key);
        let moved = moved(&last);
        let there: Option<E> = self.read(&keys::projected(channel, E::KIND, &moved.id()));
        if there.is_none_or(|there| at(&there) < at(&moved)) {
            self.put_projected(channel, &moved);
        }
    }
}
