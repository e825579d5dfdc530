//! Calls that ring and end.
//!
//! Pure state; the requests are in [`super::operations`].

use std::collections::BTreeMap;

use model::call::CallEnd;
use model::time::Timestamp;

use super::groups::GroupId;
use super::rules::{Allowed, CONFLICT, NOT_FOUND, Refusal};
use crate::simulator::number::Number;

/// Maximum number of remembered calls; the oldest ended ones are dropped first.
const REMEMBERED: usize = 10_000;

pub const NO_SUCH_CALL: Refusal = Refusal::new(NOT_FOUND, "no-such-call");
const NOT_RINGING: Refusal = Refusal::new(CONFLICT, "not-ringing");

#[derive(Debug)]
pub struct Call {
    pub id: String,
    pub from: Number,
    pub video: bool,
    pub group: Option<GroupId>,
    pub offered_at: Timestamp,
    /// When the first called party accepted.
    pub accepted_at: Option<Timestamp>,
    parties: Vec<(Number, Party)>,
}

/// The state of one called party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    Ringing,
    Speaking,
    Over(CallEnd),
}

impl Call {
    pub fn ringing(&self) -> Vec<Number> {
        let ringing = self.parties.iter().filter(|(_, party)| *party == Party::Ringing);
        ringing.map(|(number, _)| *number).collect()
    }

    pub fn party(&self, number: Number) -> Option<Party> {
        self.parties.iter().find(|(called, _)| *called == number).map(|(_, party)| *party)
    }

    /// A party whose phone rings accepts the call.
    pub fn accept(&mut self, now: Timestamp, number: Number) -> Allowed<()> {
        *self.ringing_at(number)? = Party::Speaking;
        self.accepted_at.get_or_insert(now);
        Ok(())
    }

    pub fn reject(&mut self, number: Number) -> Allowed<()> {
        *self.ringing_at(number)? = Party::Over(CallEnd::Rejected);
        Ok(())
    }

    fn ringing_at(&mut self, number: Number) -> Allowed<&mut Party> {
        let party = self.parties.iter_mut().find(|(called, _)| *called == number).ok_or(NO_SUCH_CALL)?;
        if party.1 == Party::Ringing { Ok(&mut party.1) } else { Err(NOT_RINGING) }
    }

    /// Ends the call for all parties that have not ended it.
    pub fn end(&mut self, why: CallEnd) {
        for (_, party) in self.parties.iter_mut().filter(|(_, party)| !matches!(party, Party::Over(_))) {
            *party = Party::Over(why);
        }
    }

    /// Whether no party is ringing or speaking any more.
    pub fn is_over(&self) -> bool {
        self.parties.iter().all(|(_, party)| matches!(party, Party::Over(_)))
    }
}

/// All calls, in the order of their start.
#[derive(Debug, Default)]
pub struct Calls {
    calls: BTreeMap<u64, Call>,
    begun: u64,
}

impl Calls {
    /// Starts a call that rings at each of `called`.
    pub fn begin(
        &mut self,
        now: Timestamp,
        id: String,
        from: Number,
        video: bool,
        group: Option<GroupId>,
        called: &[Number],
    ) {
        while self.calls.len() >= REMEMBERED {
            let over = self.calls.iter().find(|(_, call)| call.is_over()).or(self.calls.iter().next());
            let Some(place) = over.map(|(place, _)| *place) else { break };
            self.calls.remove(&place);
        }
        let parties = called.iter().map(|number| (*number, Party::Ringing)).collect();
        self.begun += 1;
        self.calls.insert(self.begun, Call { id, from, video, group, offered_at: now, accepted_at: None, parties });
    }

    pub fn get_mut(&mut self, id: &str) -> Allowed<&mut Call> {
        self.calls.values_mut().rev().find(|call| call.id == id).ok_or(NO_SUCH_CALL)
    }

    /// The calls that a number made or received.
    pub fn of(&self, number: Number) -> impl Iterator<Item = &Call> {
        self.calls.values().filter(move |call| call.from == number || call.party(number).is_some())
    }
}
