//! Communities of a phone, with the request and response bodies of the gateway's own routes.

use model::address::Suffixes;
use model::group::GroupInvite;
use network::operation::communities::{CommunityAnswer, CommunityOperation};
use salvo::http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::call::{Answer, Call, DELETE, GET, Outcome, PATCH, POST, PUT, Route};
use super::groups::NewGroup;

pub const ROUTES: &[Route] = &[
    (GET, "communities", |call| run(call, CommunityOperation::List)),
    (POST, "communities", create),
    (GET, "communities/{community}", show),
    (PATCH, "communities/{community}", |call| {
        let changes = call.body()?;
        run(call, CommunityOperation::Change { community: call.address("community")?, changes })?;
        show(call)
    }),
    (DELETE, "communities/{community}", |call| {
        run(call, CommunityOperation::Deactivate { community: call.address("community")? })
    }),
    (POST, "communities/{community}/participants", |call| {
        let (action, participants) = (call.field("action")?, call.addresses("participants")?);
        run(call, CommunityOperation::Participants { community: call.address("community")?, action, participants })
    }),
    (GET, "communities/{community}/invite", |call| {
        run(call, CommunityOperation::Invite { community: call.address("community")? })
    }),
    (DELETE, "communities/{community}/invite", |call| {
        run(call, CommunityOperation::RevokeInvite { community: call.address("community")? })
    }),
    (GET, "communities/{community}/groups", list_groups),
    (POST, "communities/{community}/groups", |call| {
        let NewGroup { subject, participants } = call.body()?;
        let participants = call.named(&participants)?;
        run(call, CommunityOperation::CreateGroup { community: call.address("community")?, subject, participants })
    }),
    (PUT, "communities/{community}/groups/{group}", |call| {
        let (community, group) = (call.address("community")?, call.address("group")?);
        run(call, CommunityOperation::AddGroup { community, group })
    }),
    (DELETE, "communities/{community}/groups/{group}", |call| {
        let (community, group) = (call.address("community")?, call.address("group")?);
        run(call, CommunityOperation::RemoveGroup { community, group })
    }),
    (POST, "communities/{community}/groups/{group}/join", |call| {
        let (community, group) = (call.address("community")?, call.address("group")?);
        run(call, CommunityOperation::JoinGroup { community, group })
    }),
];

fn run(call: &Call, operation: CommunityOperation) -> Outcome {
    match call.simulator.operate(&call.phone, operation)? {
        CommunityAnswer::Done => Answer::done(),
        CommunityAnswer::Communities(known) => Answer::list(known.iter().map(|known| &known.community)),
        CommunityAnswer::Community(known) => Answer::ok(&known.community),
        CommunityAnswer::CreatedGroup(group) => Answer::json(StatusCode::CREATED, &group),
        CommunityAnswer::Participants(results) => Answer::ok(&json!({ "participants": results })),
        CommunityAnswer::Joined(joined) => Answer::ok(&joined),
        CommunityAnswer::Invite { invite_code } => Answer::ok(&GroupInvite::of(invite_code, &Suffixes::simulated())),
    }
}

#[derive(Deserialize)]
struct NewCommunity {
    subject: String,
    description: Option<String>,
    #[serde(default)]
    group_ids: Vec<String>,
}

fn create(call: &Call) -> Outcome {
    let NewCommunity { subject, description, group_ids } = call.body()?;
    let groups = call.named(&group_ids)?;
    match call.simulator.operate(&call.phone, CommunityOperation::Create { subject, description, groups })? {
        CommunityAnswer::Community(known) => Answer::json(StatusCode::CREATED, &known.community),
        _ => Answer::done(),
    }
}

fn show(call: &Call) -> Outcome {
    run(call, CommunityOperation::Show { community: call.address("community")? })
}

fn list_groups(call: &Call) -> Outcome {
    match call.simulator.operate(&call.phone, CommunityOperation::Show { community: call.address("community")? })? {
        CommunityAnswer::Community(known) => Answer::list(&known.groups),
        _ => Answer::done(),
    }
}
