//! Groups of a phone, with the bodies and answers of the gateway's own routes.

use model::address::{Address, Suffixes};
use model::group::{Group, GroupChanges, GroupInvite, ParticipantResult};
use network::operation::groups::{GroupAnswer, GroupOperation};
use network::simulator::answers::ControlError;
use salvo::http::StatusCode;
use salvo::prelude::Router;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::call::{Answer, Call, Outcome, Routes};

pub fn routes(routes: &Routes<'_>) -> Router {
    let group = Router::with_path("{group}")
        .push(Router::new().get(routes.to(show)))
        .push(Router::with_path("subject").put(routes.to(change)))
        .push(Router::with_path("description").put(routes.to(change)))
        .push(Router::with_path("settings").patch(routes.to(change)))
        .push(Router::with_path("picture").put(routes.to(set_picture)).delete(routes.to(remove_picture)))
        .push(Router::with_path("participants").post(routes.to(change_participants)))
        .push(Router::with_path("invite").get(routes.to(invite)).delete(routes.to(revoke_invite)))
        .push(Router::with_path("join-requests").get(routes.to(join_requests)).post(routes.to(decide_requests)))
        .push(Router::with_path("leave").post(routes.to(leave)));
    Router::with_path("groups")
        .push(Router::new().get(routes.to(list)).post(routes.to(create)))
        .push(Router::with_path("join").post(routes.to(join)))
        .push(Router::with_path("invite/{code}").get(routes.to(preview)))
        .push(group)
}

/// The address in the path.
pub fn group(call: &Call) -> Result<Address, ControlError> {
    call.simulator.address(call.param("group"))
}

pub fn people(call: &Call, named: &[String]) -> Result<Vec<Address>, ControlError> {
    named.iter().map(|text| call.simulator.address(text)).collect()
}

fn answer(answer: GroupAnswer) -> Outcome {
    match answer {
        GroupAnswer::Done => Answer::done(),
        GroupAnswer::Groups(groups) => Answer::list(&groups),
        GroupAnswer::Group(group) => Answer::ok(&group),
        GroupAnswer::Created { group, participants_result } => {
            Answer::json(StatusCode::CREATED, &Created { group, participants_result })
        }
        GroupAnswer::Picture { picture_url: Some(picture_url) } => Answer::ok(&json!({ "picture_url": picture_url })),
        GroupAnswer::Picture { picture_url: None } => Answer::done(),
        GroupAnswer::Participants(results) => Answer::ok(&json!({ "participants": results })),
        GroupAnswer::Invite { invite_code } => Answer::ok(&GroupInvite::of(invite_code, &Suffixes::simulated())),
        GroupAnswer::Preview(preview) => Answer::ok(&preview),
        GroupAnswer::Joined(joined) => Answer::ok(&joined),
        GroupAnswer::JoinRequests(requests) => Answer::list(&requests),
    }
}

fn run(call: &Call, operation: GroupOperation) -> Outcome {
    answer(call.simulator.operate(&call.phone, operation)?)
}

/// A group that was just made.
#[derive(Serialize)]
struct Created {
    #[serde(flatten)]
    group: Group,
    participants_result: Vec<ParticipantResult>,
}

#[derive(Deserialize)]
pub struct NewGroup {
    pub subject: String,
    #[serde(default)]
    pub participants: Vec<String>,
}

fn list(call: Call) -> Outcome {
    run(&call, GroupOperation::List)
}

fn create(call: Call) -> Outcome {
    let NewGroup { subject, participants } = call.body()?;
    let participants = people(&call, &participants)?;
    run(&call, GroupOperation::Create { subject, participants })
}

fn show(call: Call) -> Outcome {
    run(&call, GroupOperation::Show { group: group(&call)? })
}

fn change(call: Call) -> Outcome {
    let changes: GroupChanges = call.body()?;
    run(&call, GroupOperation::Change { group: group(&call)?, changes })
}

fn set_picture(call: Call) -> Outcome {
    let picture = Some(call.picture()?);
    run(&call, GroupOperation::SetPicture { group: group(&call)?, picture })
}

fn remove_picture(call: Call) -> Outcome {
    run(&call, GroupOperation::SetPicture { group: group(&call)?, picture: None })
}

fn change_participants(call: Call) -> Outcome {
    let (action, participants) = (call.field("action")?, people(&call, &call.field::<Vec<String>>("participants")?)?);
    run(&call, GroupOperation::Participants { group: group(&call)?, action, participants })
}

fn invite(call: Call) -> Outcome {
    run(&call, GroupOperation::Invite { group: group(&call)? })
}

fn revoke_invite(call: Call) -> Outcome {
    run(&call, GroupOperation::RevokeInvite { group: group(&call)? })
}

fn join_requests(call: Call) -> Outcome {
    run(&call, GroupOperation::JoinRequests { group: group(&call)? })
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Approve,
    Reject,
}

fn decide_requests(call: Call) -> Outcome {
    let approve = call.field::<Decision>("action")? == Decision::Approve;
    let participants = people(&call, &call.field::<Vec<String>>("participants")?)?;
    run(&call, GroupOperation::DecideRequests { group: group(&call)?, approve, participants })
}

fn leave(call: Call) -> Outcome {
    run(&call, GroupOperation::Leave { group: group(&call)? })
}

fn join(call: Call) -> Outcome {
    run(&call, GroupOperation::Join { invite_code: call.field("invite_code")? })
}

fn preview(call: Call) -> Outcome {
    run(&call, GroupOperation::Preview { invite_code: call.param("code").to_owned() })
}
