//! Operations on calls, and their notices.

use std::time::Duration;

use model::call::CallEnd;
use model::time::Timestamp;
use rand::RngExt;

use crate::notice::{CallNews, News, Notice};
use crate::operation::calls::{CallAnswer, CallOperation};
use crate::simulator::answers::calls::{NewCall, ShownCall};
use crate::simulator::engine::calls::{Call, NO_SUCH_CALL, Party};
use crate::simulator::engine::message::Chat;
use crate::simulator::engine::rules::{Allowed, BAD_REQUEST, FORBIDDEN, Refusal};
use crate::simulator::engine::subscriber::{Device, Kept};
use crate::simulator::engine::{ControlError, Engine, Later};
use crate::simulator::number::Number;

/// How long a call rings if nobody answers.
const RING_MS: u64 = 45_000;

impl Engine {
    /// `device` is the requesting device; `None` for the phone.
    pub(super) fn call_operation(
        &mut self,
        by: Number,
        device: Option<u32>,
        operation: CallOperation,
    ) -> Allowed<CallAnswer> {
        let CallOperation::Reject { call_id, from } = operation;
        let call = self.calls.get_mut(&call_id)?;
        let caller = from.map(|from| Number::of_address(&from, &self.suffixes));
        if caller.is_some_and(|caller| caller != Some(call.from)) {
            return Err(NO_SUCH_CALL);
        }
        call.reject(by)?;
        self.tell_call_end(by, &call_id, CallEnd::Rejected, device, None);
        Ok(CallAnswer::Done)
    }

    /// A phone calls another one, or all members of a group.
    ///
    /// # Errors
    /// There is nobody to call.
    pub fn begin_call(&mut self, now: Timestamp, from: Number, new: &NewCall) -> Result<String, ControlError> {
        self.acting(now, from)?;
        let (group, called) = match self.chat_of(&self.parse_address(&new.to)?)? {
            Chat::Direct(to) if to == from => return Err(Refusal::new(BAD_REQUEST, "nobody calls oneself").into()),
            Chat::Direct(to) => (None, vec![to]),
            Chat::Group(id) => {
                let group = self.groups.get(id).filter(|group| group.rank_of(from).is_some());
                let members = group.map(|group| group.members().iter().map(|member| member.number));
                let members = members.ok_or(Refusal::new(FORBIDDEN, "not a member of the group"))?;
                (Some(id), members.filter(|member| *member != from).collect())
            }
            Chat::Newsletter(_) => return Err(Refusal::new(BAD_REQUEST, "nobody calls a newsletter").into()),
        };
        let id = format!("{:032X}", self.rng.random::<u128>());
        self.calls.begin(now, id.clone(), from, new.video, group, &called);
        for number in called {
            self.tell_call(number, Some(from), &id, |engine, device| CallNews::Offered {
                from: engine.name_of(from, number),
                is_video: new.video,
                group: group.map(|group| group.address(&engine.suffixes)),
                offline: device.live.is_none(),
            });
        }
        let rings = Duration::from_millis(new.ring_ms.unwrap_or(RING_MS));
        self.timers.push(now.plus(rings), Later::CallTimeout { id: id.clone() });
        Ok(id)
    }

    /// Ends a call that nobody answered in time.
    pub(in crate::simulator::engine) fn call_timeout(&mut self, id: &str) {
        let Ok(call) = self.calls.get_mut(id) else { return };
        if call.accepted_at.is_none() {
            let ringing = call.ringing();
            call.end(CallEnd::Timeout);
            for number in ringing {
                self.tell_call_end(number, id, CallEnd::Timeout, None, None);
            }
        }
    }

    /// A phone accepts a ringing call: its devices stop ringing.
    pub fn accept_call(&mut self, now: Timestamp, number: Number, id: &str) -> Result<(), ControlError> {
        self.acting(now, number)?;
        self.calls.get_mut(id)?.accept(now, number)?;
        self.tell_call_end(number, id, CallEnd::AcceptedElsewhere, None, None);
        Ok(())
    }

    /// A phone rejects a ringing call, hangs up, or cancels its own call.
    pub fn hang_up(&mut self, now: Timestamp, number: Number, id: &str) -> Result<(), ControlError> {
        self.acting(now, number)?;
        let call = self.calls.get_mut(id)?;
        match call.party(number) {
            Some(Party::Ringing) => {
                call.reject(number)?;
                self.tell_call_end(number, id, CallEnd::Rejected, None, None);
                Ok(())
            }
            party if (party == Some(Party::Speaking) || call.from == number) && !call.is_over() => {
                let spoken = call.accepted_at.map(|at| u32::try_from(now.since(at).as_secs()).unwrap_or(u32::MAX));
                let why = if spoken.is_some() { CallEnd::Ended } else { CallEnd::Cancelled };
                let ringing = call.ringing();
                call.end(why);
                for number in ringing {
                    self.tell_call_end(number, id, why, None, spoken);
                }
                Ok(())
            }
            _ => Err(NO_SUCH_CALL.into()),
        }
    }

    /// The calls that a phone made or received.
    pub fn phone_calls(&self, number: Number) -> Result<Vec<ShownCall>, ControlError> {
        self.subscriber(number)?;
        let show = |call: &Call| ShownCall {
            id: call.id.clone(),
            from: self.suffixes.phone_address(&call.from.to_string()),
            video: call.video,
            group: call.group.map(|group| group.address(&self.suffixes)),
            offered_at: call.offered_at,
            ringing: call.ringing().iter().map(|number| self.suffixes.phone_address(&number.to_string())).collect(),
            over: call.is_over(),
        };
        Ok(self.calls.of(number).map(show).collect())
    }

    /// Notifies the devices of a called party that the call is over; `here` is the device that rejected it.
    fn tell_call_end(&mut self, whom: Number, id: &str, reason: CallEnd, here: Option<u32>, spoken: Option<u32>) {
        self.tell_call(whom, None, id, |_, device| CallNews::Over {
            reason,
            here: here == Some(device.id),
            duration_seconds: spoken,
        });
    }

    /// Notifies all devices of a called party.
    fn tell_call(&mut self, whom: Number, actor: Option<Number>, id: &str, news: impl Fn(&Self, &Device) -> CallNews) {
        let Some(subscriber) = self.subscribers.get(&whom) else { return };
        let told: Vec<(u32, CallNews)> = subscriber.linked().map(|device| (device.id, news(self, device))).collect();
        let actor = actor.map(|actor| self.name_of(actor, whom));
        for (device, news) in told {
            let notice = Notice { actor: actor.clone(), news: News::Call { call: id.to_owned(), news } };
            self.keep(whom, device, Kept::Notice { at: self.now, notice: Box::new(notice) });
        }
    }
}
