//! Presence: what the channel shows of itself, and what it sees of others.

use model::address::{Address, AddressKind, Suffixes, Undeliverable};
use model::error::{CallError, ErrorCode as E};
use model::field::{Body, rule};
use model::presence::{Presence, PresenceState};
use network::operation::presence::PresenceOperation;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use shard::call::read::Read;

use crate::reply::{Outcome, Reply};
use crate::request_context::ChannelCall;
use crate::route::{DELETE, GET, POST, Route};

pub fn routes() -> Vec<Route> {
    let of_network = &[E::NotConnected, E::ChannelUnavailable, E::Other, E::UndeliverableRecipient];
    vec![
        Route::channel(POST, "/v1/channels/{id}/presences", show)
            .plan_blocks()
            .doc("send_presence", "Show a presence")
            .about(
                "`available` and `unavailable` apply to the account, regardless of `to`. `typing` and `recording` last \
                 about 25 s at the receiver; `paused` ends them.",
            )
            .addressed_body(ShowPresence::parse, json!({ "to": "15551234567", "presence": "typing" }))
            .accepted::<ShowPresence>()
            .errors(of_network),
        Route::channel(GET, "/v1/channels/{id}/presences/{contact_id}", state)
            .doc("get_presence", "Get the known presence of a contact")
            .ok::<PresenceState>(),
        Route::channel(POST, "/v1/channels/{id}/presences/{contact_id}/subscription", subscribe)
            .doc("subscribe_presence", "Subscribe to a contact's presence")
            .about("A subscription is kept for 24 hours after its last use; a channel has at most 500.")
            .no_content()
            .errors(of_network)
            .errors(&[E::NoOp]),
        Route::channel(DELETE, "/v1/channels/{id}/presences/{contact_id}/subscription", unsubscribe)
            .doc("unsubscribe_presence", "End the subscription to a contact's presence")
            .no_content()
            .errors(&[E::NoOp]),
    ]
}

/// A presence shown to a chat.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Presence")]
struct ShowPresence {
    to: Address,
    presence: Presence,
}

impl ShowPresence {
    fn parse(body: &Body, suffixes: &Suffixes) -> Result<Self, CallError> {
        body.read(|fields| {
            let to = fields.required("to", rule::address(suffixes));
            let presence = fields.required("presence", rule::one_of(Presence::WORDS, Presence::parse));
            Some(Self { to: to?, presence: presence? })
        })
    }
}

async fn show(call: &mut ChannelCall) -> Outcome {
    let shown = ShowPresence::parse(&call.object().await?, &call.app.config.suffixes)?;
    call.can_operate().await?;
    let refuse = |reason| CallError::undeliverable_recipient(shown.to.as_str(), reason);
    if shown.to.check_recipient(&call.app.config.suffixes).map_err(refuse)? == AddressKind::Newsletter {
        return Err(refuse(Undeliverable::UnknownSuffix));
    }
    call.operate(PresenceOperation::Show { to: Some(shown.to.clone()), presence: shown.presence }).await?;
    Ok(Reply::accepted(&shown))
}

async fn state(call: &mut ChannelCall) -> Outcome {
    let contact = call.contact()?;
    let state = call.read_one::<PresenceState>(Read::Presence(contact.clone())).await?;
    Ok(Reply::ok(&state.ok_or_else(|| CallError::contact_not_found(contact.as_str()))?))
}

async fn subscribe(call: &mut ChannelCall) -> Outcome {
    let contact = call.person().await?;
    call.done(PresenceOperation::Subscribe { contacts: vec![contact] }).await
}

async fn unsubscribe(call: &mut ChannelCall) -> Outcome {
    call.done(PresenceOperation::Unsubscribe { contact: call.contact()? }).await
}
