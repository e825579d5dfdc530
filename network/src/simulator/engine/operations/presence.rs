//! How subscribers show themselves: available or not to everybody, typing to those in a chat.

use model::time::Timestamp;

use crate::operation::presence::{PresenceAnswer, PresenceOperation};
use crate::simulator::answers::PresenceRow;
use crate::simulator::engine::Engine;
use crate::simulator::engine::message::Chat;
use crate::simulator::engine::rules::Refusal;
use crate::simulator::number::Number;

/// How many presences a phone remembers to have seen.
const REMEMBERED: usize = 100;

impl Engine {
    pub(super) fn presence_operation(
        &mut self,
        now: Timestamp,
        by: Number,
        operation: PresenceOperation,
    ) -> Result<PresenceAnswer, Refusal> {
        let PresenceOperation::Show { presence, to } = operation;
        if presence.is_of_account() {
            if let Some(subscriber) = self.subscribers.get_mut(&by) {
                subscriber.presence = presence;
            }
            return Ok(PresenceAnswer::Done);
        }
        let whom = match to.map(|to| self.chat_of(&to)).transpose()? {
            Some(Chat::Direct(peer)) => vec![peer],
            Some(Chat::Group(group)) => {
                let members = self.groups.get(group).map(|group| group.members()).unwrap_or_default();
                members.iter().map(|member| member.number).filter(|member| *member != by).collect()
            }
            Some(Chat::Newsletter(_)) | None => Vec::new(),
        };
        for whom in whom {
            let from = self.shown(by, whom).address(by, &self.suffixes);
            if let Some(subscriber) = self.subscribers.get_mut(&whom) {
                subscriber.presences.truncate(REMEMBERED - 1);
                subscriber.presences.push_front(PresenceRow { from, presence, at: now });
            }
        }
        Ok(PresenceAnswer::Done)
    }
}
