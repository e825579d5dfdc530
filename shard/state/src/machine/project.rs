//! What the network told of a channel's world: the owner has compared it with what stood there, so that it is written as
//! it comes.
//!
//! To compare is not enough where a notice comes again because its acknowledgement was lost: one whose change another has
//! undone meanwhile, or one that leaves nothing to compare with, would be told of twice. So a channel remembers the last
//! notices that made events, as many as can be without acknowledgement at a time.

use model::event::EventId;
use model::format::Format;
use model::id::ChannelId;
use sha2::{Digest, Sha256};
use traffic::item::EVENT_WINDOW;

use super::Apply;
use crate::command::{NewEvent, ProjectedWrite, Reply};
use crate::keys;

/// How many notices a channel remembers, and in how many bytes each.
pub const NOTICED: usize = EVENT_WINDOW * 2;
const MARK: usize = 8;

impl Apply<'_> {
    pub(super) fn project(&mut self, channel: ChannelId, writes: Vec<ProjectedWrite>, events: Vec<NewEvent>) -> Reply {
        if self.standing(channel).deleted {
            return Reply::ChannelDeleted;
        }
        let notice = events.first().filter(|_| self.format >= Format::THIRD);
        if notice.is_some_and(|first| !self.is_news(channel, &first.id)) {
            return Reply::Unchanged;
        }
        self.write_projected(channel, writes);
        events.into_iter().for_each(|event| self.emit(event, None));
        Reply::Done
    }

    /// Remembers a notice by the id of its first event, which follows from the notice. False for one that is remembered.
    fn is_news(&mut self, channel: ChannelId, event: &EventId) -> bool {
        let key = keys::noticed(channel);
        let mut noticed = self.state.get(&key).unwrap_or_default();
        let mark = &Sha256::digest(event.as_str())[..MARK];
        if noticed.chunks_exact(MARK).any(|known| known == mark) {
            return false;
        }
        noticed.extend_from_slice(mark);
        let excess = noticed.len().saturating_sub(NOTICED * MARK);
        self.state.put(&key, &noticed[excess..]);
        true
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
