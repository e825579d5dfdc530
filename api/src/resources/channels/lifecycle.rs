//! The lifecycle calls. Each is one trigger of the status machine, run by the channel's owner.

use std::time::Duration;

use model::error::{CallError, ErrorCode};
use model::field::{Body, rule};
use model::id::CustomerId;
use model::scope::Scopes;
use model::status::Trigger;
use shard::call::request::{GetStatus, Lifecycle};
use shard::shares::{Share, Shares};
use tokio::time::{Instant, sleep, timeout_at};

use super::view::ChannelView;
use crate::audit::Target;
use crate::query::Query;
use crate::reply::{Outcome, Reply};
use crate::request_context::ChannelCall;
use crate::resources::attempts::{self, Attempt};

pub async fn connect(call: &mut ChannelCall) -> Outcome {
    run(call, Trigger::Connect).await
}

pub async fn disconnect(call: &mut ChannelCall) -> Outcome {
    run(call, Trigger::Disconnect).await
}

pub async fn restart(call: &mut ChannelCall) -> Outcome {
    run(call, Trigger::Restart).await
}

pub async fn logout(call: &mut ChannelCall) -> Outcome {
    run(call, Trigger::Logout).await
}

pub async fn disable(call: &mut ChannelCall) -> Outcome {
    require_account_wide(call)?;
    let reason = parse_reason(&call.optional_object().await?)?;
    let outcome = run(call, Trigger::Disable).await?;
    let mut entry = call.audited("channel.disabled", target(call));
    entry.details.extend(reason.map(|reason| ("reason".to_owned(), reason)));
    call.record(entry).await;
    Ok(outcome)
}

pub async fn enable(call: &mut ChannelCall) -> Outcome {
    require_account_wide(call)?;
    let counted = [Attempt::EntryBy(call.customer_id())];
    attempts::count(call, &counted).await?;
    let outcome = run(call, Trigger::Enable).await;
    if outcome.is_err() {
        attempts::give_back(call, &counted).await;
        return outcome;
    }
    call.record(call.audited("channel.enabled", target(call))).await;
    outcome
}

/// Reads `{ "reason"?: string <= 255 }`.
///
/// # Errors
/// `invalid_request`.
pub fn parse_reason(body: &Body) -> Result<Option<String>, CallError> {
    body.read(|fields| Some(fields.optional("reason", rule::text(0..=255))))
}

/// The longest `wait` of a request, in seconds.
const LONGEST_WAIT: usize = 30;

/// How often a waiting request polls the channel.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// How long the response is held until the status is stable.
pub fn waits(query: &Query<'_>) -> Duration {
    Duration::from_secs(query.number("wait", 1, LONGEST_WAIT).unwrap_or(0) as u64)
}

/// Takes a permit to hold a response, and returns how long to hold it: without a permit, not at all.
fn hold(places: &Shares, account: CustomerId, wait: Duration) -> (Option<Share>, Duration) {
    let place = if wait.is_zero() { None } else { places.try_take(account) };
    let held = if place.is_some() { wait } else { Duration::ZERO };
    (place, held)
}

async fn run(call: &mut ChannelCall, trigger: Trigger) -> Outcome {
    let wait = call.asked(waits)?;
    let asked = call.ask(Lifecycle { trigger, by_operator: false }).await;
    let mut live = asked.map_err(|error| match error.code {
        // The owner knows that only an operator may do this, but not the caller's scopes.
        ErrorCode::InsufficientScope => {
            CallError::insufficient_scope(&["operator".to_owned()], &granted(&call.caller.scopes))
        }
        _ => error,
    })?;
    let (_place, held) = hold(&call.app.held_answers, call.customer_id(), wait);
    let until = Instant::now() + held;
    while !live.status.lasts() && Instant::now() + LOOK_AGAIN < until {
        sleep(LOOK_AGAIN).await;
        match timeout_at(until, call.ask(GetStatus)).await {
            Ok(Ok(now)) => live = now,
            // The channel was deleted, so its status will never be stable.
            Ok(Err(error)) if error.code == ErrorCode::ChannelNotFound => break,
            // The trigger has already run, so a failure to poll is no failure of the request.
            Ok(Err(_)) | Err(_) => {}
        }
    }
    Ok(Reply::accepted(&ChannelView::new(&call.channel, Some(&live))))
}

/// Disabling and enabling are for administrators; a key that is bound to a channel is refused.
fn require_account_wide(call: &ChannelCall) -> Result<(), CallError> {
    match call.bound_channel() {
        None => Ok(()),
        Some(_) => Err(CallError::insufficient_scope(&["account".to_owned()], &granted(&call.caller.scopes))),
    }
}

fn granted(scopes: &Scopes) -> Vec<String> {
    if scopes.as_slice().is_empty() { vec!["*".to_owned()] } else { scopes.to_strings() }
}

fn target(call: &ChannelCall) -> Target {
    Target::new("channel", call.channel.id, &call.channel.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_answers_of_an_account_are_held_and_the_next_one_is_given_at_once() {
        const WAIT: Duration = Duration::from_secs(30);
        let (places, loud, quiet) = (Shares::new(9, 2), CustomerId::random(), CustomerId::random());
        let mut held = vec![hold(&places, loud, WAIT), hold(&places, loud, WAIT)];
        assert!(held.iter().all(|(place, held)| place.is_some() && *held == WAIT));
        assert_eq!(hold(&places, loud, WAIT).1, Duration::ZERO);
        assert_eq!(hold(&places, quiet, WAIT).1, WAIT);
        held.pop();
        assert!(hold(&places, loud, Duration::ZERO).0.is_none(), "whoever does not wait takes no place");
        assert_eq!(hold(&places, loud, WAIT).1, WAIT);
    }
}
