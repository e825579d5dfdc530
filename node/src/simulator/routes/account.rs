//! Account settings and presence of a phone, with the request and response bodies of the gateway's own routes.

use model::presence::Presence;
use network::operation::account::{
    BlacklistAnswer, BlacklistOperation, PrivacyAnswer, PrivacyOperation, ProfileAnswer, ProfileOperation,
};
use network::operation::presence::PresenceOperation;
use network::simulator::answers::ControlError;
use serde::Deserialize;

use super::call::{Answer, Call, DELETE, GET, Outcome, PATCH, POST, PUT, Route};

pub const ROUTES: &[Route] = &[
    (GET, "blacklist", |call| run_blacklist(call, BlacklistOperation::List)),
    (PUT, "blacklist/{contact}", |call| {
        run_blacklist(call, BlacklistOperation::Block { contact: call.address("contact")? })
    }),
    (DELETE, "blacklist/{contact}", |call| {
        run_blacklist(call, BlacklistOperation::Unblock { contact: call.address("contact")? })
    }),
    (POST, "presence", show_presence),
    (GET, "profile", |call| run_profile(call, ProfileOperation::Show)),
    (PATCH, "profile", change_profile),
    (GET, "privacy", |call| run_privacy(call, PrivacyOperation::Show)),
    (PATCH, "privacy", |call| run_privacy(call, PrivacyOperation::Change(call.body()?))),
];

fn run_blacklist(call: &Call, operation: BlacklistOperation) -> Outcome {
    match call.simulator.operate(&call.phone, operation)? {
        BlacklistAnswer::Done => Answer::done(),
        BlacklistAnswer::Blocked(blocked) => Answer::list(&blocked),
    }
}

/// `to` may be left out for presence that concerns the whole account.
fn show_presence(call: &Call) -> Outcome {
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

#[derive(Deserialize)]
struct ChangeProfile {
    name: Option<String>,
    about: Option<String>,
}

fn change_profile(call: &Call) -> Outcome {
    let ChangeProfile { name, about } = call.body()?;
    if let Some(name) = name {
        run_profile(call, ProfileOperation::SetName { name })?;
    }
    if let Some(about) = about {
        run_profile(call, ProfileOperation::SetAbout { about })?;
    }
    Answer::done()
}

fn run_privacy(call: &Call, operation: PrivacyOperation) -> Outcome {
    match call.simulator.operate(&call.phone, operation)? {
        PrivacyAnswer::Done => Answer::done(),
        PrivacyAnswer::Privacy(privacy) => Answer::ok(&privacy),
    }
}
