//! What a phone settles for its account, and the presence that it shows, with the bodies of the gateway's own routes.

use model::address::Address;
use model::presence::Presence;
use model::privacy::PrivacyChanges;
use network::operation::account::{
    BlacklistAnswer, BlacklistOperation, PrivacyAnswer, PrivacyOperation, ProfileAnswer, ProfileOperation,
};
use network::operation::presence::PresenceOperation;
use network::simulator::answers::ControlError;
use salvo::prelude::Router;
use serde::Deserialize;

use super::call::{Answer, Call, Outcome, Routes};

pub fn blacklist(routes: &Routes<'_>) -> Router {
    let contact = Router::with_path("{contact}").put(routes.to(block)).delete(routes.to(unblock));
    Router::with_path("blacklist").push(Router::new().get(routes.to(list_blocked))).push(contact)
}

pub fn presence(routes: &Routes<'_>) -> Router {
    Router::with_path("presence").post(routes.to(show_presence))
}

pub fn profile(routes: &Routes<'_>) -> Router {
    Router::with_path("profile").get(routes.to(show_profile)).patch(routes.to(change_profile))
}

pub fn privacy(routes: &Routes<'_>) -> Router {
    Router::with_path("privacy").get(routes.to(show_privacy)).patch(routes.to(change_privacy))
}

fn contact(call: &Call) -> Result<Address, ControlError> {
    call.simulator.address(call.param("contact"))
}

fn run_blacklist(call: &Call, operation: BlacklistOperation) -> Outcome {
    match call.simulator.operate(&call.phone, operation)? {
        BlacklistAnswer::Done => Answer::done(),
        BlacklistAnswer::Blocked(blocked) => Answer::list(&blocked),
    }
}

fn list_blocked(call: Call) -> Outcome {
    run_blacklist(&call, BlacklistOperation::List)
}

fn block(call: Call) -> Outcome {
    run_blacklist(&call, BlacklistOperation::Block { contact: contact(&call)? })
}

fn unblock(call: Call) -> Outcome {
    run_blacklist(&call, BlacklistOperation::Unblock { contact: contact(&call)? })
}

/// Without `to` for what is the account's anyway.
fn show_presence(call: Call) -> Outcome {
    let (presence, to): (Presence, Option<String>) = (call.field("presence")?, call.field("to")?);
    let to = to.map(|to| call.simulator.address(&to)).transpose()?;
    if to.is_none() && !presence.is_of_account() {
        return Err(ControlError::Invalid("to is missing".into()));
    }
    call.simulator.operate(&call.phone, PresenceOperation::Show { presence, to })?;
    Answer::done()
}

fn run_profile(call: &Call, operation: ProfileOperation) -> Outcome {
    match call.simulator.operate(&call.phone, operation)? {
        ProfileAnswer::Done => Answer::done(),
        ProfileAnswer::Profile(profile) => Answer::ok(&profile),
    }
}

fn show_profile(call: Call) -> Outcome {
    run_profile(&call, ProfileOperation::Show)
}

#[derive(Deserialize)]
struct ChangeProfile {
    name: Option<String>,
    about: Option<String>,
}

fn change_profile(call: Call) -> Outcome {
    let ChangeProfile { name, about } = call.body()?;
    if let Some(name) = name {
        run_profile(&call, ProfileOperation::SetName { name })?;
    }
    if let Some(about) = about {
        run_profile(&call, ProfileOperation::SetAbout { about })?;
    }
    Answer::done()
}

fn run_privacy(call: &Call, operation: PrivacyOperation) -> Outcome {
    match call.simulator.operate(&call.phone, operation)? {
        PrivacyAnswer::Done => Answer::done(),
        PrivacyAnswer::Privacy(privacy) => Answer::ok(&privacy),
    }
}

fn show_privacy(call: Call) -> Outcome {
    run_privacy(&call, PrivacyOperation::Show)
}

fn change_privacy(call: Call) -> Outcome {
    let changes: PrivacyChanges = call.body()?;
    run_privacy(&call, PrivacyOperation::Change(changes))
}
