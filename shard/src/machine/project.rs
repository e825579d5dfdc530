//! What the network told of a channel's world: the owner has compared it with what stood there, so that it is written as
//! it comes.

use model::id::{ChannelId, CustomerId};

use super::Apply;
use crate::command::{NewEvent, ProjectedWrite, Reply};
use crate::keys;

impl Apply<'_> {
    pub(super) fn project(
        &mut self,
        channel: ChannelId,
        customer: CustomerId,
        writes: Vec<ProjectedWrite>,
        events: Vec<NewEvent>,
    ) -> Reply {
        if self.channel(channel, customer).forgotten {
            return Reply::Forgotten;
        }
        self.write_projected(channel, writes);
        events.into_iter().for_each(|event| self.emit(event, None));
        Reply::Done
    }

    pub(super) fn write_projected(&mut self, channel: ChannelId, writes: Vec<ProjectedWrite>) {
        for ProjectedWrite { kind, id, row } in writes {
            let key = keys::projected(channel, kind, &id);
            match row {
                Some(row) => self.state.put(&key, &row),
                None => self.state.delete(&key),
            }
        }
    }
}
