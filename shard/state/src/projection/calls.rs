//! Calls: a row of each call that the channel was recently offered.

use std::cmp::Reverse;
use std::time::Duration;

use model::address::Address;
use model::call::CallEnd;
use model::error::CallError;
use model::payload::{CallOffered, CallTerminated, Payload};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use traffic::notice::CallNews;
use traffic::operation::Refused;
use traffic::operation::calls::CallOperation;

use super::{Context, EmittedEvent, Rows, entity};

/// How long a call can be rejected after it was offered.
const KNOWN_FOR: Duration = Duration::from_secs(120);

/// After this time, nothing more is reported of a call.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The most calls that a channel stores: anybody can offer any number, and each offer reads all of them.
const MOST_KNOWN: usize = 256;

/// The most calls that are read: earlier releases stored any number.
const MOST_LOOKED_AT: usize = 2 * MOST_KNOWN;

/// The network's codes for an unknown call, and for one that no longer rings.
const GONE: [u16; 2] = [404, 409];

/// A call that was offered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownCall {
    pub id: String,
    /// The caller's address, as the network gave it.
    pub from: Address,
    pub group: Option<Address>,
    pub offered_at: Timestamp,
    pub over: Option<CallEnd>,
}

entity!(KnownCall, Call, |row| row.id.clone());

pub fn check(operation: &CallOperation, rows: &Rows<'_>, context: &Context<'_>) -> Result<(), CallError> {
    let CallOperation::Reject { call_id, from } = operation;
    let named = |call: &KnownCall| from.as_ref().is_none_or(|from| context.best(from) == context.best(&call.from));
    match (rows.get::<KnownCall>(call_id), from) {
        (Some(call), _) if call.over.is_some() || !named(&call) => Err(CallError::not_found("call", call_id)),
        (Some(_), Some(_)) => Ok(()),
        (Some(call), None) if context.at.since(call.offered_at) <= KNOWN_FOR => Ok(()),
        // The network may know a call that is not stored here.
        (None, Some(_)) => Ok(()),
        (_, None) => Err(CallError::not_found("call", call_id)),
    }
}

pub fn refusal(operation: &CallOperation, refused: &Refused) -> Option<CallError> {
    let CallOperation::Reject { call_id, .. } = operation;
    GONE.contains(&refused.code).then(|| CallError::not_found("call", call_id))
}

pub fn take(id: &str, news: &CallNews, rows: &mut Rows<'_>, context: &Context<'_>) -> Vec<EmittedEvent> {
    let timestamp = context.at.unix_seconds();
    let known = rows.get::<KnownCall>(id);
    let told = match (news, known) {
        (CallNews::Offered { from, is_video, group, offline }, None) => {
            make_room(rows, context.at);
            let call = KnownCall {
                id: id.to_owned(),
                from: from.clone(),
                group: group.clone(),
                offered_at: context.at,
                over: None,
            };
            rows.put(&call);
            let offered = Payload::CallOffered(CallOffered {
                call_id: id.to_owned(),
                sender: context.sender(from),
                is_video: *is_video,
                is_group: group.is_some(),
                group_id: group.clone(),
                offline: *offline,
                timestamp,
            });
            Some(EmittedEvent { payload: offered, chat: Some(call.chat(context)) })
        }
        (CallNews::Over { reason, here, duration_seconds }, Some(mut call)) if call.over.is_none() => {
            call.over = Some(*reason);
            rows.put(&call);
            let terminated = Payload::CallTerminated(CallTerminated {
                call_id: id.to_owned(),
                sender: context.sender(&call.from),
                reason: *reason,
                rejected_by_gateway: *here,
                duration_seconds: *duration_seconds,
                timestamp,
                is_group: call.group.is_some(),
            });
            Some(EmittedEvent { payload: terminated, chat: Some(call.chat(context)) })
        }
        // A repeat, or the end of a call that is not stored here.
        _ => None,
    };
    told.into_iter().collect()
}

impl KnownCall {
    fn chat(&self, context: &Context<'_>) -> Address {
        self.group.clone().unwrap_or_else(|| context.best(&self.from))
    }
}

/// Drops calls of which nothing more will be reported or asked, and the oldest ones if one more would be too many.
fn make_room(rows: &mut Rows<'_>, now: Timestamp) {
    let mut calls = rows.under::<KnownCall>("", MOST_LOOKED_AT);
    calls.sort_by_key(|call| Reverse(call.offered_at));
    let mut kept = 0;
    for call in calls {
        let lasts = if call.over.is_some() { KNOWN_FOR } else { LONGEST };
        if kept < MOST_KNOWN - 1 && now.since(call.offered_at) <= lasts {
            kept += 1;
        } else {
            rows.remove::<KnownCall>(&call.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use model::error::ErrorCode;

    use super::*;
    use crate::projection::fixture::{Projection, address};

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1000)
    }

    #[test]
    fn a_call_is_known_for_two_minutes_and_over_once() {
        let mut projection = Projection::new().knowing("25@lid", "1555@s.example");
        let told = |projection: &mut Projection, call: &str, news: CallNews, seconds| {
            projection.at(at(seconds), |rows, context| take(call, &news, rows, context).len())
        };
        let offered = |is_video| CallNews::Offered { from: address("25@lid"), is_video, group: None, offline: false };
        assert_eq!(told(&mut projection, "A", offered(true), 1000), 1);
        assert_eq!(told(&mut projection, "A", offered(true), 1000), 0);

        let reject = |projection: &mut Projection, from: Option<&str>, seconds| {
            let operation = CallOperation::Reject { call_id: "A".into(), from: from.map(address) };
            projection
                .at(at(seconds), |rows, context| check(&operation, rows, context))
                .map_err(|error| error.code)
                .err()
        };
        assert_eq!(reject(&mut projection, None, 1120), None);
        assert_eq!(reject(&mut projection, None, 1121), Some(ErrorCode::NotFound));
        // The caller may be named by either address.
        assert_eq!(reject(&mut projection, Some("1555@s.example"), 1121), None);
        assert_eq!(reject(&mut projection, Some("1666@s.example"), 1121), Some(ErrorCode::NotFound));

        let over = || CallNews::Over { reason: CallEnd::Cancelled, here: false, duration_seconds: None };
        assert_eq!(told(&mut projection, "A", over(), 1010), 1);
        assert_eq!(told(&mut projection, "A", over(), 1010), 0);
        assert_eq!(reject(&mut projection, None, 1011), Some(ErrorCode::NotFound));

        projection.at(at(1200), |rows, context| {
            take("B", &offered(false), rows, context);
            assert!(!rows.has::<KnownCall>("A"));
        });
    }

    #[test]
    fn so_many_calls_are_known_and_the_oldest_makes_room() {
        let mut projection = Projection::new();
        let mut known = |calls: std::ops::Range<usize>| {
            for n in calls {
                let news =
                    CallNews::Offered { from: address("1555@s.example"), is_video: false, group: None, offline: false };
                projection.at(at(n as i64), |rows, context| take(&format!("{n:04}"), &news, rows, context));
            }
            projection.at(at(0), |rows, _| (rows.all::<KnownCall>().len(), rows.has::<KnownCall>("0000")))
        };
        assert_eq!(known(0..MOST_KNOWN), (MOST_KNOWN, true));
        assert_eq!(known(MOST_KNOWN..MOST_KNOWN + 1), (MOST_KNOWN, false));
    }
}
