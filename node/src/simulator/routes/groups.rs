//! Groups of a phone, with the request and response bodies of the gateway's own routes.

use model::address::Suffixes;
use model::group::{Group, GroupInvite, ParticipantResult};
use network::operation::groups::{GroupAnswer, GroupOperation};
use salvo::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::call::{Answer, Call, DELETE, GET, Outcome, PATCH, POST, PUT, Route};

pub const ROUTES: &[Route] = &[
    (GET, "groups", |call| run(call, GroupOperation::List)),
    (POST, "groups", |call| {
        let NewGroup { subject, participants } = call.body()?;
        let participants = call.named(&participants)?;
        run(call, GroupOperation::Create { subject, participants })
    }),
    (POST, "groups/join", |call| run(call, GroupOperation::Join { invite_code: call.field("invite_code")? })),
    (GET, "groups/invite/{code}", |call| {
        run(call, GroupOperation::Preview { invite_code: call.param("code").to_owned() })
    }),
    (GET, "groups/{group}", |call| run(call, GroupOperation::Show { group: call.address("group")? })),
    (PUT, "groups/{group}/subject", change),
    (PUT, "groups/{group}/description", change),
    (PATCH, "groups/{group}/settings", change),
    (PUT, "groups/{group}/picture", |call| {
        let picture = Some(call.picture()?);
        run(call, GroupOperation::SetPicture { group: call.address("group")?, picture })
    }),
    (DELETE, "groups/{group}/picture", |call| {
        run(call, GroupOperation::SetPicture { group: call.address("group")?, picture: None })
    }),
    (POST, "groups/{group}/participants", |call| {
        let (action, participants) = (call.field("action")?, call.addresses("participants")?);
        run(call, GroupOperation::Participants { group: call.address("group")?, action, participants })
    }),
    (GET, "groups/{group}/invite", |call| run(call, GroupOperation::Invite { group: call.address("group")? })),
    (DELETE, "groups/{group}/invite", |call| run(call, GroupOperation::RevokeInvite { group: call.address("group")? })),
    (GET, "groups/{group}/join-requests", |call| {
        run(call, GroupOperation::JoinRequests { group: call.address("group")? })
    }),
    (POST, "groups/{group}/join-requests", |call| {
        let approve = call.field::<Decision>("action")? == Decision::Approve;
        let participants = call.addresses("participants")?;
        run(call, GroupOperation::DecideRequests { group: call.address("group")?, approve, participants })
    }),
    (POST, "groups/{group}/leave", |call| run(call, GroupOperation::Leave { group: call.address("group")? })),
];

fn run(call: &Call, operation: GroupOperation) -> Outcome {
    match call.simulator.operate(&call.phone, operation)? {
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

/// A newly created group.
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

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Approve,
    Reject,
}

fn change(call: &Call) -> Outcome {
    let changes = call.body()?;
    run(call, GroupOperation::Change { group: call.address("group")?, changes })
}
