//! Communities, which contain groups.

use model::address::{Address, Suffixes};
use model::community::{Community, CommunityChanges, KnownCommunity, SubGroup};
use model::error::{CallError, ErrorCode};
use model::field::{Body, rule};
use model::group::{Group, GroupInvite, GroupParticipant, Joined};
use model::page::ListId;
use network::operation::communities::{CommunityAnswer, CommunityOperation};
use serde_json::json;
use shard::call::read::Filter;

use super::groups::{MOST_NAMED, ParticipantsResult, REFUSALS, found, group_id, parse_participants};
use crate::failure::of_kind;
use crate::projection::{Page, check_people, read_refresh, read_rest};
use crate::reply::{List, Outcome, Reply};
use crate::request_context::ChannelCall;
use crate::route::{DELETE, GET, PATCH, POST, PUT, Route};

/// The most groups that a new community may take in.
const MOST_GROUPS: usize = 50;

pub fn routes() -> Vec<Route> {
    let routes = [
        Route::channel(GET, "/v1/channels/{id}/communities", list)
            .doc("list_communities", "List communities")
            .query(|query| (read_refresh(query), read_rest(query)))
            .list_or_page::<Community>(),
        Route::channel(POST, "/v1/channels/{id}/communities", create)
            .doc("create_community", "Create a community")
            .addressed_body(parse_create, json!({ "subject": "Neighbours" }))
            .created::<Community>(),
        Route::channel(GET, "/v1/channels/{id}/communities/{community_id}", show)
            .doc("get_community", "Show a community")
            .query(read_refresh)
            .ok::<Community>(),
        Route::channel(PATCH, "/v1/channels/{id}/communities/{community_id}", change)
            .doc("update_community", "Change a community")
            .body(parse_changes, json!({ "subject": "Neighbours" }))
            .ok::<Community>()
            .errors(&[ErrorCode::NoOp]),
        Route::channel(DELETE, "/v1/channels/{id}/communities/{community_id}", deactivate)
            .doc("deactivate_community", "Deactivate a community; its groups remain")
            .no_content(),
        Route::channel(POST, "/v1/channels/{id}/communities/{community_id}/groups", create_group)
            .doc("create_community_group", "Create a group in a community")
            .addressed_body(parse_create_group, json!({ "subject": "Tools", "participants": ["15550001002"] }))
            .created::<Group>()
            .errors(&[ErrorCode::UndeliverableRecipient]),
        Route::channel(PUT, "/v1/channels/{id}/communities/{community_id}/groups/{group_id}", add_group)
            .doc("add_community_group", "Add a group to a community")
            .ok::<SubGroup>()
            .errors(&[ErrorCode::NoOp]),
        Route::channel(DELETE, "/v1/channels/{id}/communities/{community_id}/groups/{group_id}", remove_group)
            .doc("remove_community_group", "Remove a group from a community")
            .no_content()
            .errors(&[ErrorCode::NoOp]),
        Route::channel(POST, "/v1/channels/{id}/communities/{community_id}/groups/{group_id}/join", join_group)
            .doc("join_community_group", "Join a group of a community")
            .ok::<Joined>()
            .errors(&[ErrorCode::NoOp]),
        Route::channel(POST, "/v1/channels/{id}/communities/{community_id}/participants", change_participants)
            .doc("update_community_participants", "Add, remove, promote or demote members of a community")
            .addressed_body(parse_participants, json!({ "action": "add", "participants": ["15550001002"] }))
            .ok::<ParticipantsResult>(),
        Route::channel(GET, "/v1/channels/{id}/communities/{community_id}/invite", invite)
            .doc("get_community_invite", "Show a community's invite")
            .ok::<GroupInvite>(),
        Route::channel(DELETE, "/v1/channels/{id}/communities/{community_id}/invite", revoke_invite)
            .doc("revoke_community_invite", "Replace a community's invite")
            .ok::<GroupInvite>(),
    ];
    // These routes only read the projection.
    let known = [
        Route::channel(GET, "/v1/channels/{id}/communities/{community_id}/groups", list_groups)
            .doc("list_community_groups", "List the groups of a community")
            .list::<SubGroup>(),
        Route::channel(GET, "/v1/channels/{id}/communities/{community_id}/participants", list_participants)
            .doc("list_community_participants", "List the members of a community")
            .query(|query| Page::read(query, ListId::only()))
            .page::<GroupParticipant>(),
    ];
    known.into_iter().chain(routes.map(|route| route.errors(REFUSALS))).collect()
}

/// The community that the path names.
fn community_id(call: &ChannelCall) -> Result<Address, CallError> {
    call.address("community_id", "community")
}

/// Reads a community from the projection.
async fn found_community(call: &mut ChannelCall, id: &Address) -> Result<KnownCommunity, CallError> {
    call.find::<KnownCommunity>(id.as_str()).await?.ok_or_else(|| CallError::not_found("community", id.as_str()))
}

async fn shown(call: &mut ChannelCall, id: &Address) -> Outcome {
    Ok(Reply::ok(&found_community(call, id).await?.community))
}

async fn list(call: &mut ChannelCall) -> Outcome {
    let (refresh, page) = call.asked(|query| (read_refresh(query), call.rest::<KnownCommunity>(query)))?;
    call.refresh(refresh, CommunityOperation::List).await?;
    let known = call.page_of::<KnownCommunity>(Filter::All, page).await?;
    Ok(Reply::ok(&known.map(|known| known.community)))
}

/// Parses the body of a new community: subject, description, and groups that it takes in.
fn parse_create(body: &Body, suffixes: &Suffixes) -> Result<(String, Option<String>, Vec<Address>), CallError> {
    body.read(|fields| {
        let subject = fields.required("subject", rule::text(1..=100));
        let description = fields.optional("description", rule::text(0..=2048));
        let groups = fields.list_or_empty("group_ids", MOST_GROUPS, rule::address(suffixes)).unwrap_or_default();
        Some((subject?, description, groups))
    })
}

async fn create(call: &mut ChannelCall) -> Outcome {
    let (subject, description, groups) = parse_create(&call.object().await?, call.suffixes())?;
    let answer = call.operate(CommunityOperation::Create { subject, description, groups }).await?;
    of_kind!(answer, CommunityAnswer::Community(made) =>
        Reply::created(&found_community(call, &made.community.id).await?.community))
}

async fn show(call: &mut ChannelCall) -> Outcome {
    let refresh = call.asked(read_refresh)?;
    let community = community_id(call)?;
    call.refresh(refresh, CommunityOperation::Show { community: community.clone() }).await?;
    shown(call, &community).await
}

/// Parses the body of a change.
fn parse_changes(body: &Body) -> Result<CommunityChanges, CallError> {
    body.read_patch(|fields| {
        Some(CommunityChanges {
            subject: fields.optional("subject", rule::text(1..=100)),
            description: fields.optional("description", rule::text(0..=2048)),
            member_add_groups: fields.optional("member_add_groups", rule::boolean),
            join_approval_mode: fields.optional("join_approval_mode", rule::boolean),
        })
    })
}

async fn change(call: &mut ChannelCall) -> Outcome {
    let changes = parse_changes(&call.object().await?)?;
    let community = community_id(call)?;
    call.operate(CommunityOperation::Change { community: community.clone(), changes }).await?;
    shown(call, &community).await
}

async fn deactivate(call: &mut ChannelCall) -> Outcome {
    call.done(CommunityOperation::Deactivate { community: community_id(call)? }).await
}

async fn list_groups(call: &mut ChannelCall) -> Outcome {
    let id = community_id(call)?;
    Ok(Reply::ok(&List::whole(found_community(call, &id).await?.groups)))
}

/// Parses the body of a new group in a community: its subject, and its first members.
fn parse_create_group(body: &Body, suffixes: &Suffixes) -> Result<(String, Vec<Address>), CallError> {
    body.read(|fields| {
        let subject = fields.required("subject", rule::text(1..=100));
        let participants = fields.list_or_empty("participants", MOST_NAMED, rule::address(suffixes));
        Some((subject?, participants.unwrap_or_default()))
    })
}

async fn create_group(call: &mut ChannelCall) -> Outcome {
    let (subject, participants) = parse_create_group(&call.object().await?, call.suffixes())?;
    check_people(call, &participants).await?;
    let community = community_id(call)?;
    let answer = call.operate(CommunityOperation::CreateGroup { community, subject, participants }).await?;
    of_kind!(answer, CommunityAnswer::CreatedGroup(group) => Reply::created(&found(call, &group.id).await?))
}

async fn add_group(call: &mut ChannelCall) -> Outcome {
    let (community, group) = (community_id(call)?, group_id(call)?);
    call.operate(CommunityOperation::AddGroup { community: community.clone(), group: group.clone() }).await?;
    let known = found_community(call, &community).await?;
    let group = known.group(&group).ok_or_else(|| CallError::not_found("group", group.as_str()))?;
    Ok(Reply::ok(group))
}

async fn remove_group(call: &mut ChannelCall) -> Outcome {
    let (community, group) = (community_id(call)?, group_id(call)?);
    call.done(CommunityOperation::RemoveGroup { community, group }).await
}

async fn join_group(call: &mut ChannelCall) -> Outcome {
    let (community, group) = (community_id(call)?, group_id(call)?);
    let answer = call.operate(CommunityOperation::JoinGroup { community, group }).await?;
    of_kind!(answer, CommunityAnswer::Joined(joined) => Reply::ok(&joined))
}

async fn list_participants(call: &mut ChannelCall) -> Outcome {
    let within = call.parameter("community_id");
    let page = call.asked(|query| call.page_within::<KnownCommunity>(query, within))?;
    let id = community_id(call)?;
    // The members of a community are the members of its announcement group.
    let announcement = found_community(call, &id).await?.community.announcement_group_id;
    let group = match announcement {
        Some(announcement) => call.find::<Group>(announcement.as_str()).await?,
        None => None,
    };
    let participants = group.map(|group| group.participants).unwrap_or_default();
    Ok(Reply::ok(&page.of(participants, |participant| participant.id.to_string())))
}

async fn change_participants(call: &mut ChannelCall) -> Outcome {
    let (action, participants) = parse_participants(&call.object().await?, call.suffixes())?;
    let community = community_id(call)?;
    let answer = call.operate(CommunityOperation::Participants { community, action, participants }).await?;
    of_kind!(answer, CommunityAnswer::Participants(participants) => Reply::ok(&ParticipantsResult::of(participants)))
}

async fn invite(call: &mut ChannelCall) -> Outcome {
    let community = community_id(call)?;
    invited(call, CommunityOperation::Invite { community }).await
}

async fn revoke_invite(call: &mut ChannelCall) -> Outcome {
    let community = community_id(call)?;
    invited(call, CommunityOperation::RevokeInvite { community }).await
}

async fn invited(call: &mut ChannelCall, operation: CommunityOperation) -> Outcome {
    let answer = call.operate(operation).await?;
    of_kind!(answer, CommunityAnswer::Invite { invite_code } =>
        Reply::ok(&GroupInvite::of(invite_code, call.suffixes())))
}
