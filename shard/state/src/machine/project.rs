//! Applies notices of the network: the owner has compared them with the stored rows, so the rows are written as given.
//!
//! The comparison does not detect every notice that is repeated because its acknowledgement was lost: if another notice
//! has undone its change in between, or if it leaves no row to compare with, its event would be emitted twice. So a
//! channel remembers the last notices that made events, at least as many as can be unacknowledged at a time.

use model::event::EventId;
use model::format::Format;
use model::id::ChannelId;
use sha2::{Digest, Sha256};
use traffic::item::EVENT_WINDOW;

use super::Apply;
use crate::command::{NewEvent, ProjectedWrite, Reply};
use crate::keys;

/// The number of notices that a channel remembers, and the bytes of each.
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

    /// Remembers a notice by the id of its first event, which is derived from it. False if it is remembered already.
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
