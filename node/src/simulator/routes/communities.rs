//! Communities of a phone, with the bodies and answers of the gateway's own routes.

use model::address::{Address, Suffixes};
use model::community::CommunityChanges;
use model::group::GroupInvite;
use network::operation::communities::{CommunityAnswer, CommunityOperation};
use network::simulator::answers::ControlError;
use salvo::http::StatusCode;
use salvo::prelude::Router;
use serde::Deserialize;
use serde_json::json;

use super::call::{Answer, Call, Outcome, Routes};
use super::groups::{NewGroup, group, people};

pub fn routes(routes: &Routes<'_>) -> Router {
    let group = Router::with_path("{group}")
        .push(Router::new().put(routes.to(add_group)).delete(routes.to(remove_group)))
        .push(Router::with_path("join").post(routes.to(join_group)));
    let groups = Router::with_path("groups")
        .push(Router::new().get(routes.to(list_groups)).post(routes.to(create_group)))
        .push(group);
    let community = Router::with_path("{community}")
        .push(Router::new().get(routes.to(show)).patch(routes.to(change)).delete(routes.to(deactivate)))
        .push(Router::with_path("participants").post(routes.to(change_participants)))
        .push(Router::with_path("invite").get(routes.to(invite)).delete(routes.to(revoke_invite)))
        .push(groups);
    Router::with_path("communities").push(Router::new().get(routes.to(list)).post(routes.to(create))).push(community)
}

/// The address in the path.
fn community(call: &Call) -> Result<Address, ControlError> {
    call.simulator.address(call.param("community"))
}

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

fn list(call: Call) -> Outcome {
    run(&call, CommunityOperation::List)
}

#[derive(Deserialize)]
struct NewCommunity {
    subject: String,
    description: Option<String>,
    #[serde(default)]
    group_ids: Vec<String>,
}

fn create(call: Call) -> Outcome {
    let NewCommunity { subject, description, group_ids } = call.body()?;
    let groups = people(&call, &group_ids)?;
    match call.simulator.operate(&call.phone, CommunityOperation::Create { subject, description, groups })? {
        CommunityAnswer::Community(known) => Answer::json(StatusCode::CREATED, &known.community),
        _ => Answer::done(),
    }
}

fn show(call: Call) -> Outcome {
    run(&call, CommunityOperation::Show { community: community(&call)? })
}

fn change(call: Call) -> Outcome {
    let changes: CommunityChanges = call.body()?;
    run(&call, CommunityOperation::Change { community: community(&call)?, changes })?;
    show(call)
}

fn deactivate(call: Call) -> Outcome {
    run(&call, CommunityOperation::Deactivate { community: community(&call)? })
}

fn list_groups(call: Call) -> Outcome {
    match call.simulator.operate(&call.phone, CommunityOperation::Show { community: community(&call)? })? {
        CommunityAnswer::Community(known) => Answer::list(&known.groups),
        _ => Answer::done(),
    }
}

fn create_group(call: Call) -> Outcome {
    let NewGroup { subject, participants } = call.body()?;
    let participants = people(&call, &participants)?;
    run(&call, CommunityOperation::CreateGroup { community: community(&call)?, subject, participants })
}

fn add_group(call: Call) -> Outcome {
    run(&call, CommunityOperation::AddGroup { community: community(&call)?, group: group(&call)? })
}

fn remove_group(call: Call) -> Outcome {
    run(&call, CommunityOperation::RemoveGroup { community: community(&call)?, group: group(&call)? })
}

fn join_group(call: Call) -> Outcome {
    run(&call, CommunityOperation::JoinGroup { community: community(&call)?, group: group(&call)? })
}

fn change_participants(call: Call) -> Outcome {
    let (action, participants) = (call.field("action")?, people(&call, &call.field::<Vec<String>>("participants")?)?);
    run(&call, CommunityOperation::Participants { community: community(&call)?, action, participants })
}

fn invite(call: Call) -> Outcome {
    run(&call, CommunityOperation::Invite { community: community(&call)? })
}

fn revoke_invite(call: Call) -> Outcome {
    run(&call, CommunityOperation::RevokeInvite { community: community(&call)? })
}
