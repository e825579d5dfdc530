//! Requests of devices and phones other than sends, by area, and the notices that they cause.
//!
//! A phone does through the control API what a device does through its session: both end in [`Engine::perform`].
//! Everyone whom a change concerns gets a notice, including the devices of its author.

mod account;
mod business;
mod calls;
mod chats;
mod communities;
mod contacts;
mod groups;
mod labels;
mod newsletters;
mod presences;

use model::time::Timestamp;
use uuid::Uuid;

use super::rules::{Allowed, Refusal};
use super::subscriber::Kept;
use super::{ControlError, Engine, SessionId};
use crate::notice::{News, Notice};
use crate::operation::{Answer, Operation, Refused};
use crate::simulator::number::Number;
use crate::wire::SessionFrame;

/// Maximum number of remembered answers, by which a repeated request takes effect once.
const REMEMBERED: usize = 10_000;

impl Engine {
    /// Handles an operation of a device.
    pub(in crate::simulator) fn operate(&mut self, session: SessionId, id: Uuid, operation: Operation) {
        let Some(live) = self.live_or_late(session) else { return };
        let asked = (live.number, id);
        let result = match self.answered.get(&asked) {
            Some(answer) => answer.clone(),
            None => {
                // Showing a presence is idempotent, so its answer need not be remembered.
                let is_remembered = !matches!(operation, Operation::Presence(_));
                let result = self.perform(live.number, Some(live.device), operation);
                let result = result.map(Box::new).map_err(Refused::from);
                if is_remembered {
                    if self.answered.len() >= REMEMBERED {
                        self.answered.clear();
                    }
                    self.answered.insert(asked, result.clone());
                }
                result
            }
        };
        if self.faults.mute_operations {
            return;
        }
        // The answer must follow the notices that the operation caused, and those that wait before them.
        let behind = self.items;
        if let Some(device) = self.subscribers.device_mut(live.number, live.device) {
            device.answers.push_back((behind, SessionFrame::Operated { id, result }));
            self.pump(live.number, live.device);
        }
    }

    /// Runs an operation as a phone.
    ///
    /// # Errors
    /// An unknown phone, or a refusal by the network.
    pub fn phone_operation(
        &mut self,
        now: Timestamp,
        number: Number,
        operation: Operation,
    ) -> Result<Answer, ControlError> {
        self.acting(now, number)?;
        Ok(self.perform(number, None, operation)?)
    }

    /// `device` is the requesting device; `None` for the phone.
    fn perform(&mut self, by: Number, device: Option<u32>, operation: Operation) -> Allowed<Answer> {
        let answer = match operation {
            Operation::Business(operation) => self.business_operation(by, operation).map(Answer::from),
            Operation::Calls(operation) => self.call_operation(by, device, operation).map(Answer::from),
            Operation::Groups(operation) => self.group_operation(by, operation).map(Answer::from),
            Operation::Chats(operation) => self.chat_operation(by, operation).map(Answer::from),
            Operation::Contacts(operation) => self.contact_operation(by, operation).map(Answer::from),
            Operation::Communities(operation) => self.community_operation(by, operation).map(Answer::from),
            Operation::Newsletters(operation) => self.newsletter_operation(by, operation).map(Answer::from),
            Operation::Blacklist(operation) => self.blacklist_operation(by, operation).map(Answer::from),
            Operation::Presence(operation) => self.presence_operation(by, device, operation).map(Answer::from),
            Operation::Profile(operation) => self.profile_operation(by, operation).map(Answer::from),
            Operation::Privacy(operation) => self.privacy_operation(by, operation).map(Answer::from),
            Operation::Labels(operation) => self.label_operation(by, operation).map(Answer::from),
        };
        self.settle_communities();
        answer
    }

    /// Notifies all devices of a subscriber of a change.
    pub(in crate::simulator::engine) fn notify(&mut self, whom: Number, actor: Option<Number>, news: News) {
        let actor = actor.map(|actor| self.name_of(actor, whom));
        for device in self.subscribers.linked_devices(whom) {
            let notice = Box::new(Notice { actor: actor.clone(), news: news.clone() });
            self.keep(whom, device, Kept::Notice { at: self.now, notice });
        }
    }
}

fn count(things: usize) -> u32 {
    u32::try_from(things).unwrap_or(u32::MAX)
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code, refusal.text)
    }
}
