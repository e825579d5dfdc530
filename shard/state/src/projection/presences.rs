//! Presence: rows of [`PresenceState`], which notices report, and of [`Watched`], the channel's subscriptions.

use std::time::Duration;

use model::address::{Address, AddressKind, Undeliverable};
use model::error::CallError;
use model::payload::{Payload, PresenceUpdated};
use model::presence::{PresenceState, PresentMember, Seen};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use traffic::notice::PresenceNews;
use traffic::operation::presence::{PresenceAnswer, PresenceOperation};
use traffic::operation::{Refused, RefusedKind};

use super::contacts::ContactRow;
use super::{Context, EmittedEvent, Rows, entity, no_op_if};

/// How long a subscription is kept after its last use, and the most that are kept, the most recently used ones.
const KEPT: Duration = Duration::from_secs(24 * 3600);
const MOST_WATCHED: usize = 500;

/// A subscription that was used within this time needs no renewal.
const FRESH: Duration = Duration::from_secs(3600);

/// How long a person counts as typing or recording.
const PASSING: Duration = Duration::from_secs(25);

/// The most members of a group whose presence is kept, those reported last: each change rewrites the row of all.
const MOST_PRESENT: usize = 64;

/// A subscription to a contact's presence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    pub id: Address,
    pub used_at: Timestamp,
}

impl Watched {
    fn is_kept(&self, now: Timestamp) -> bool {
        now.since(self.used_at) < KEPT
    }
}

entity!(Watched, Watched, |row| row.id.to_string());
entity!(PresenceState, Presence, |row| row.id.to_string());

/// A subscription that has not expired.
fn watched(contact: &Address, rows: &Rows<'_>, context: &Context<'_>) -> Option<Watched> {
    rows.get::<Watched>(context.best(contact).as_str()).filter(|watched| watched.is_kept(context.at))
}

pub fn check(operation: &PresenceOperation, rows: &Rows<'_>, context: &Context<'_>) -> Result<(), CallError> {
    match operation {
        PresenceOperation::Show { .. } => Ok(()),
        PresenceOperation::Subscribe { contacts } => {
            let fresh = |contact| {
                watched(contact, rows, context).is_some_and(|watched| context.at.since(watched.used_at) < FRESH)
            };
            no_op_if(contacts.iter().all(fresh), "the channel is subscribed already")
        }
        PresenceOperation::Unsubscribe { contact } => {
            no_op_if(watched(contact, rows, context).is_none(), "the channel is not subscribed")
        }
    }
}

pub fn refusal(operation: &PresenceOperation, refused: &Refused) -> Option<CallError> {
    match operation {
        PresenceOperation::Show { to: Some(to), .. } if refused.kind == RefusedKind::Recipient => {
            Some(CallError::undeliverable_recipient(to.as_str(), Undeliverable::NotRegistered))
        }
        _ => None,
    }
}

/// The result of an operation while the network cannot be asked: a subscription without a session has ended anyway.
pub fn alone(operation: &PresenceOperation) -> Option<PresenceAnswer> {
    matches!(operation, PresenceOperation::Unsubscribe { .. }).then_some(PresenceAnswer::Done)
}

pub fn absorb(operation: &PresenceOperation, rows: &mut Rows<'_>, context: &Context<'_>) {
    match operation {
        PresenceOperation::Show { .. } => {}
        PresenceOperation::Subscribe { contacts } => {
            for contact in contacts {
                let id = context.best(contact);
                // A new session renews all subscriptions together, which does not count as a use of any.
                if !watched(&id, rows, context)
                    .is_some_and(|watched| contacts.len() > 1 || context.at.since(watched.used_at) < FRESH)
                {
                    rows.put(&Watched { id, used_at: context.at });
                }
            }
            let mut all = rows.all::<Watched>();
            all.sort_by_key(|watched| std::cmp::Reverse(watched.used_at));
            let kept = all.iter().take(MOST_WATCHED).take_while(|watched| watched.is_kept(context.at)).count();
            all.iter().skip(kept).for_each(|gone| rows.remove::<Watched>(gone.id.as_str()));
        }
        PresenceOperation::Unsubscribe { contact } => rows.remove::<Watched>(context.best(contact).as_str()),
    }
}

/// The subscriptions that a new session has to repeat.
pub fn to_resume(rows: &Rows<'_>, now: Timestamp) -> Option<PresenceOperation> {
    let kept = rows.all::<Watched>().into_iter().filter(|watched| watched.is_kept(now));
    let contacts: Vec<Address> = kept.map(|watched| watched.id).collect();
    (!contacts.is_empty()).then_some(PresenceOperation::Subscribe { contacts })
}

pub fn take(chat: &Address, news: &PresenceNews, rows: &mut Rows<'_>, context: &Context<'_>) -> Vec<EmittedEvent> {
    let chat_id = context.best(chat);
    let participant = news.participant.as_ref().map(|participant| context.best(participant));
    let known = rows.get::<PresenceState>(chat_id.as_str());
    let mut state = known.unwrap_or_else(|| PresenceState::unknown(chat_id.clone()));
    // A report that is older than the stored one is out of date.
    if state.updated_at > Some(context.at) {
        return Vec::new();
    }
    let before = state.clone();
    state.updated_at = Some(context.at);
    match &participant {
        Some(participant) => {
            let passed = has_passed(&before, context.at);
            let stays = |member: &PresentMember| member.id != *participant && !(passed && member.presence.is_passing());
            state.participants.retain(stays);
            state.participants.push(PresentMember { id: participant.clone(), presence: news.presence });
            let excess = state.participants.len().saturating_sub(MOST_PRESENT);
            state.participants.drain(..excess);
        }
        None => {
            state.presence = news.presence.into();
            state.last_seen_at = news.last_seen_at.or(state.last_seen_at);
        }
    }
    if state == before {
        return Vec::new();
    }
    rows.put(&state);
    let id = participant.clone().unwrap_or_else(|| chat_id.clone());
    let updated = PresenceUpdated {
        id,
        chat_id: chat_id.clone(),
        presence: news.presence,
        last_seen_at: news.last_seen_at,
        participant,
        is_group: chat_id.kind(context.suffixes) == AddressKind::Group,
    };
    vec![EmittedEvent { payload: Payload::PresenceUpdated(updated), chat: Some(chat_id) }]
}

/// Moves the presence and the subscription of a LID to the phone address, after that became known.
pub fn resolved(lid: &Address, phone: &Address, rows: &mut Rows<'_>) {
    if let Some(watched) = rows.get::<Watched>(lid.as_str()) {
        rows.remove::<Watched>(lid.as_str());
        let known = rows.get::<Watched>(phone.as_str()).map(|known| known.used_at);
        rows.put(&Watched { id: phone.clone(), used_at: watched.used_at.max(known.unwrap_or_default()) });
    }
    if let Some(state) = rows.get::<PresenceState>(lid.as_str()) {
        rows.remove::<PresenceState>(lid.as_str());
        let known = rows.get::<PresenceState>(phone.as_str());
        if known.is_none_or(|known| known.updated_at < state.updated_at) {
            rows.put(&PresenceState { id: phone.clone(), ..state });
        }
    }
}

/// Whether a person who was typing or recording when the state was reported no longer counts as that.
fn has_passed(state: &PresenceState, now: Timestamp) -> bool {
    state.updated_at.is_none_or(|at| now.since(at) >= PASSING)
}

/// The last known presence of a person; `None` if the person is unknown.
pub fn now(id: &Address, rows: &Rows<'_>, now: Timestamp) -> Option<PresenceState> {
    let state = rows.get::<PresenceState>(id.as_str());
    let known = || rows.has::<ContactRow>(id.as_str()) || rows.has::<Watched>(id.as_str());
    let mut state = state.or_else(|| known().then(|| PresenceState::unknown(id.clone())))?;
    let passed = has_passed(&state, now);
    // A person who was typing or recording was available.
    if passed && matches!(state.presence, Seen::Typing | Seen::Recording) {
        state.presence = Seen::Available;
    }
    if passed {
        state.participants.retain(|member| !member.presence.is_passing());
    }
    Some(state)
}

#[cfg(test)]
mod tests {
    use model::presence::Presence;

    use super::*;
    use crate::projection::fixture::{Projection, address};

    const PEER: &str = "1555@s.example";
    const GROUP: &str = "120363@g.example";

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1000)
    }

    fn told(projection: &mut Projection, chat: &str, who: Option<&str>, presence: Presence, seconds: i64) -> usize {
        let news = PresenceNews { participant: who.map(address), presence, last_seen_at: None };
        projection.at(at(seconds), |rows, context| take(&address(chat), &news, rows, context).len())
    }

    fn shown(projection: &mut Projection, chat: &str, seconds: i64) -> PresenceState {
        let state = projection.at(at(seconds), |rows, _| now(&address(chat), rows, at(seconds)));
        state.unwrap_or_else(|| PresenceState::unknown(address(chat)))
    }

    #[test]
    fn nobody_writes_for_longer_than_25_seconds() {
        let mut projection = Projection::new();
        assert_eq!(told(&mut projection, PEER, None, Presence::Typing, 100), 1);
        assert_eq!(told(&mut projection, PEER, None, Presence::Typing, 100), 0, "told again");
        assert_eq!(told(&mut projection, PEER, None, Presence::Available, 99), 0, "overtaken");
        assert_eq!(shown(&mut projection, PEER, 124).presence, Seen::Typing);
        assert_eq!(shown(&mut projection, PEER, 125).presence, Seen::Available);
        assert_eq!(told(&mut projection, GROUP, Some(PEER), Presence::Recording, 100), 1);
        assert_eq!(shown(&mut projection, GROUP, 124).participants.len(), 1);
        assert!(shown(&mut projection, GROUP, 125).participants.is_empty());
    }

    #[test]
    fn so_many_members_of_a_group_are_kept_and_those_who_wrote_before_are_not() {
        let mut projection = Projection::new();
        let member = |n: usize| format!("{n:04}@s.example");
        let mut tell = |members: std::ops::RangeInclusive<usize>, presence, seconds| {
            for n in members {
                assert_eq!(told(&mut projection, GROUP, Some(&member(n)), presence, seconds), 1);
            }
            let stored = projection.at(at(seconds), |rows, _| rows.get::<PresenceState>(GROUP));
            let participants = stored.map(|state| state.participants).unwrap_or_default();
            (participants.len(), participants.first().map(|first| first.id.to_string()))
        };
        assert_eq!(tell(1..=MOST_PRESENT, Presence::Typing, 100), (MOST_PRESENT, Some(member(1))));
        assert_eq!(tell(0..=0, Presence::Typing, 100), (MOST_PRESENT, Some(member(2))));
        assert_eq!(tell(1..=1, Presence::Available, 124), (MOST_PRESENT, Some(member(3))));
        assert_eq!(tell(2..=2, Presence::Typing, 149), (2, Some(member(1))));
    }

    #[test]
    fn a_subscription_is_renewed_by_use_and_ends_a_day_after_the_last() {
        let mut projection = Projection::new();
        let one = || PresenceOperation::Subscribe { contacts: vec![address(PEER)] };
        let end = || PresenceOperation::Unsubscribe { contact: address(PEER) };
        let mut is_no_op = |operation: PresenceOperation, seconds: i64| {
            projection.at(at(seconds), |rows, context| {
                let checked = check(&operation, rows, context);
                if checked.is_ok() {
                    absorb(&operation, rows, context);
                }
                checked.is_err()
            })
        };
        assert!(is_no_op(end(), 0));
        assert!(!is_no_op(one(), 0));
        assert!(is_no_op(one(), 3599));
        assert!(!is_no_op(one(), 3600));
        let day = 24 * 3600;
        assert!(is_no_op(end(), 3600 + day));
        assert!(!is_no_op(one(), 3600 + day) && !is_no_op(end(), 3600 + day) && is_no_op(end(), 3600 + day));
    }

    #[test]
    fn the_subscription_that_was_used_longest_ago_makes_room_and_the_rest_are_resumed() {
        let mut projection = Projection::new();
        let mut subscribe = |contacts: std::ops::RangeInclusive<usize>, seconds: i64| {
            let contacts = contacts.map(|n| address(&format!("{n:04}@s.example"))).collect();
            let subscribe = PresenceOperation::Subscribe { contacts };
            projection.at(at(seconds), |rows, context| absorb(&subscribe, rows, context));
        };
        subscribe(0..=0, 0);
        subscribe(1..=MOST_WATCHED, 1);
        let resumed = projection.at(at(1), |rows, _| to_resume(rows, at(1)));
        let Some(PresenceOperation::Subscribe { contacts }) = resumed else { panic!("{resumed:?}") };
        assert_eq!((contacts.len(), contacts.contains(&address("0000@s.example"))), (MOST_WATCHED, false));
        assert_eq!(projection.at(at(1), |rows, _| to_resume(rows, at(2 * 24 * 3600))), None);
    }

    #[test]
    fn a_subscription_goes_on_under_the_phone_address() {
        let mut projection = Projection::new();
        let subscribe = PresenceOperation::Subscribe { contacts: vec![address("25@lid")] };
        projection.at(at(0), |rows, context| absorb(&subscribe, rows, context));
        told(&mut projection, "25@lid", None, Presence::Unavailable, 5);
        projection.at(at(10), |rows, _| resolved(&address("25@lid"), &address(PEER), rows));
        assert_eq!(shown(&mut projection, PEER, 10).presence, Seen::Unavailable);
        let end = PresenceOperation::Unsubscribe { contact: address(PEER) };
        assert!(projection.at(at(10), |rows, context| check(&end, rows, context)).is_ok());
        assert!(projection.at(at(10), |rows, _| now(&address("25@lid"), rows, at(10))).is_none());
    }
}
