//! Groups and newsletters of a phone, with the bodies and answers of the gateway's own routes (supplement 12 and 14).

use network::simulator::answers::gatherings::{
    GroupSettings, NewGroup, NewNewsletter, ParticipantResult, ParticipantsChange, ShownGroup,
};
use salvo::http::StatusCode;
use salvo::prelude::Router;
use serde::Serialize;
use serde_json::json;

use super::call::{Answer, Call, Outcome, Routes};

pub fn groups(routes: &Routes<'_>) -> Router {
    let group = Router::with_path("{group}")
        .push(Router::new().get(routes.to(show_group)))
        .push(Router::with_path("participants").post(routes.to(change_participants)))
        .push(Router::with_path("settings").patch(routes.to(change_group)))
        .push(Router::with_path("leave").post(routes.to(leave_group)));
    Router::with_path("groups")
        .push(Router::new().get(routes.to(list_groups)).post(routes.to(create_group)))
        .push(group)
}

pub fn newsletters(routes: &Routes<'_>) -> Router {
    let admin = Router::with_path("admins/{contact}").post(routes.to(add_admin)).delete(routes.to(remove_admin));
    let newsletter = Router::with_path("{newsletter}")
        .push(Router::new().get(routes.to(show_newsletter)))
        .push(Router::with_path("subscription").post(routes.to(subscribe)).delete(routes.to(unsubscribe)))
        .push(admin);
    Router::with_path("newsletters")
        .push(Router::new().get(routes.to(list_newsletters)).post(routes.to(create_newsletter)))
        .push(newsletter)
}

/// A group that was just made.
#[derive(Serialize)]
struct CreatedGroup {
    #[serde(flatten)]
    group: ShownGroup,
    participants_result: Vec<ParticipantResult>,
}

async fn create_group(call: Call) -> Outcome {
    let (group, participants_result) = call.simulator.create_group(&call.phone, &call.body::<NewGroup>()?)?;
    Answer::json(StatusCode::CREATED, &CreatedGroup { group, participants_result })
}

async fn list_groups(call: Call) -> Outcome {
    let groups = call.simulator.groups(&call.phone)?;
    Answer::ok(&json!({ "total": groups.len(), "data": groups }))
}

async fn show_group(call: Call) -> Outcome {
    Answer::ok(&call.simulator.group(&call.phone, call.param("group"))?)
}

async fn change_participants(call: Call) -> Outcome {
    let body: ParticipantsChange = call.body()?;
    let results = call.simulator.change_participants(&call.phone, call.param("group"), &body)?;
    Answer::ok(&json!({ "participants": results }))
}

async fn change_group(call: Call) -> Outcome {
    let settings: GroupSettings = call.body()?;
    Answer::ok(&call.simulator.change_group(&call.phone, call.param("group"), settings)?)
}

async fn leave_group(call: Call) -> Outcome {
    call.simulator.leave_group(&call.phone, call.param("group"))?;
    Answer::done()
}

async fn create_newsletter(call: Call) -> Outcome {
    let newsletter = call.simulator.create_newsletter(&call.phone, &call.body::<NewNewsletter>()?)?;
    Answer::json(StatusCode::CREATED, &newsletter)
}

async fn list_newsletters(call: Call) -> Outcome {
    let newsletters = call.simulator.newsletters(&call.phone)?;
    Answer::ok(&json!({ "total": newsletters.len(), "data": newsletters }))
}

async fn show_newsletter(call: Call) -> Outcome {
    Answer::ok(&call.simulator.newsletter(&call.phone, call.param("newsletter"))?)
}

async fn subscribe(call: Call) -> Outcome {
    Answer::ok(&call.simulator.subscribe(&call.phone, call.param("newsletter"), true)?)
}

async fn unsubscribe(call: Call) -> Outcome {
    call.simulator.subscribe(&call.phone, call.param("newsletter"), false)?;
    Answer::done()
}

async fn add_admin(call: Call) -> Outcome {
    call.simulator.set_newsletter_admin(&call.phone, call.param("newsletter"), call.param("contact"), true)?;
    Answer::done()
}

async fn remove_admin(call: Call) -> Outcome {
    call.simulator.set_newsletter_admin(&call.phone, call.param("newsletter"), call.param("contact"), false)?;
    Answer::done()
}
