//! Groups: members, settings and invites.

use model::address::{Address, Suffixes};
use model::error::{CallError, ErrorCode};
use model::field::{Body, rule};
use model::group::{
    Group, GroupChanges, GroupInvite, GroupPreview, JoinRequest, Joined, ParticipantAction, ParticipantResult,
};
use model::issue::{IssueCode, Violation};
use model::page::ListId;
use model::target::LONGEST_URL;
use network::operation::groups::{GroupAnswer, GroupOperation};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use shard::call::read::Filter;

use super::media::{FETCHED, parse_source, picture_content};
use crate::failure::of_kind;
use crate::projection::{Page, check_people, read_refresh};
use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::ChannelCall;
use crate::route::{DELETE, GET, PATCH, POST, PUT, Route};

/// Error codes of every call that asks the network.
pub const REFUSALS: &[ErrorCode] =
    &[ErrorCode::NotFound, ErrorCode::NotConnected, ErrorCode::ChannelUnavailable, ErrorCode::Other];

/// The most members that one call may name.
pub const MOST_NAMED: usize = 256;

pub fn routes() -> Vec<Route> {
    let routes = [
        Route::channel(GET, "/v1/channels/{id}/groups", list)
            .doc("list_groups", "List groups")
            .query(|query| (Page::read(query, ListId::only()), read_flags(query)))
            .page::<Group>(),
        Route::channel(POST, "/v1/channels/{id}/groups", create)
            .doc("create_group", "Create a group")
            .addressed_body(parse_create, json!({ "subject": "Friends", "participants": ["15550001002"] }))
            .created::<CreatedGroup>()
            .errors(&[ErrorCode::UndeliverableRecipient]),
        Route::channel(POST, "/v1/channels/{id}/groups/join", join)
            .doc("join_group", "Join a group by its invite")
            .body(parse_join, json!({ "invite_code": "AbCdEfGhIjKlMnOpQrStUv" }))
            .ok::<Joined>()
            .errors(&[ErrorCode::NoOp]),
        Route::channel(GET, "/v1/channels/{id}/groups/invite/{invite_code}", preview)
            .doc("preview_group_invite", "Show the group of an invite")
            .ok::<GroupPreview>(),
        Route::channel(GET, "/v1/channels/{id}/groups/{group_id}", show)
            .doc("get_group", "Show a group")
            .query(read_refresh)
            .ok::<Group>(),
        Route::channel(PUT, "/v1/channels/{id}/groups/{group_id}/subject", set_subject)
            .doc("set_group_subject", "Change a group's subject")
            .body(parse_subject, json!({ "subject": "Family" }))
            .ok::<Group>()
            .errors(&[ErrorCode::NoOp]),
        Route::channel(PUT, "/v1/channels/{id}/groups/{group_id}/description", set_description)
            .doc("set_group_description", "Change a group's description, or clear it")
            .body(parse_description, json!({ "description": "All of us" }))
            .ok::<Group>()
            .errors(&[ErrorCode::NoOp]),
        Route::channel(PUT, "/v1/channels/{id}/groups/{group_id}/picture", set_picture)
            .doc("set_group_picture", "Set a group's picture")
            .about("The body names the picture, or is the picture itself.")
            .body(parse_source, json!({ "picture_url": "https://example.com/a.png" }))
            .content_body(picture_content())
            .ok::<GroupPicture>()
            .errors(FETCHED),
        Route::channel(DELETE, "/v1/channels/{id}/groups/{group_id}/picture", remove_picture)
            .doc("remove_group_picture", "Remove a group's picture")
            .no_content()
            .errors(&[ErrorCode::NoOp]),
        Route::channel(PATCH, "/v1/channels/{id}/groups/{group_id}/settings", change_settings)
            .doc("update_group_settings", "Change a group's settings")
            .body(parse_settings, json!({ "announce": true, "ephemeral": 86400 }))
            .ok::<Group>()
            .errors(&[ErrorCode::NoOp]),
        Route::channel(POST, "/v1/channels/{id}/groups/{group_id}/participants", change_participants)
            .doc("update_group_participants", "Add, remove, promote or demote members of a group")
            .addressed_body(parse_participants, json!({ "action": "add", "participants": ["15550001002"] }))
            .ok::<ParticipantsResult>(),
        Route::channel(GET, "/v1/channels/{id}/groups/{group_id}/invite", invite)
            .doc("get_group_invite", "Show a group's invite")
            .ok::<GroupInvite>(),
        Route::channel(DELETE, "/v1/channels/{id}/groups/{group_id}/invite", revoke_invite)
            .doc("revoke_group_invite", "Replace a group's invite")
            .ok::<GroupInvite>(),
        Route::channel(POST, "/v1/channels/{id}/groups/{group_id}/leave", leave)
            .doc("leave_group", "Leave a group")
            .no_content()
            .errors(&[ErrorCode::NoOp]),
        Route::channel(GET, "/v1/channels/{id}/groups/{group_id}/join-requests", join_requests)
            .doc("list_group_join_requests", "List the requests to join a group")
            .list::<JoinRequest>(),
        Route::channel(POST, "/v1/channels/{id}/groups/{group_id}/join-requests", decide_requests)
            .doc("decide_group_join_requests", "Accept or reject requests to join a group")
            .addressed_body(parse_decision, json!({ "action": "approve", "participants": ["15550001002"] }))
            .ok::<ParticipantsResult>(),
    ];
    routes.map(|route| route.errors(REFUSALS)).into()
}

/// The group that the path names.
pub fn group_id(call: &ChannelCall) -> Result<Address, CallError> {
    call.address("group_id", "group")
}

/// Reads the group from the projection.
pub async fn found(call: &mut ChannelCall, id: &Address) -> Result<Group, CallError> {
    call.find::<Group>(id.as_str()).await?.ok_or_else(|| CallError::not_found("group", id.as_str()))
}

/// Reads whether to ask the network first, and whether to show members.
fn read_flags(query: &Query<'_>) -> (bool, bool) {
    (read_refresh(query), query.flag("participants").unwrap_or(true))
}

async fn list(call: &mut ChannelCall) -> Outcome {
    let (page, (refresh, participants)) = call.asked(|query| (call.page::<Group>(query), read_flags(query)))?;
    call.refresh(refresh, GroupOperation::List).await?;
    let mut groups = call.page_of::<Group>(Filter::All, page).await?;
    if !participants {
        groups.data.iter_mut().for_each(|group| group.participants.clear());
    }
    Ok(Reply::ok(&groups))
}

async fn show(call: &mut ChannelCall) -> Outcome {
    let refresh = call.asked(read_refresh)?;
    let id = group_id(call)?;
    call.refresh(refresh, GroupOperation::Show { group: id.clone() }).await?;
    Ok(Reply::ok(&found(call, &id).await?))
}

/// Parses the body of a new group: its subject, and its first members.
fn parse_create(body: &Body, suffixes: &Suffixes) -> Result<(String, Vec<Address>), CallError> {
    body.read(|fields| {
        let subject = fields.required("subject", rule::text(1..=100));
        subject.zip(fields.required_list_or_empty("participants", MOST_NAMED, rule::address(suffixes)))
    })
}

/// The new group, and the result for each requested participant.
#[derive(Serialize, JsonSchema)]
struct CreatedGroup {
    #[serde(flatten)]
    group: Group,
    /// Result for each requested participant.
    participants_result: Vec<ParticipantResult>,
}

async fn create(call: &mut ChannelCall) -> Outcome {
    let (subject, participants) = parse_create(&call.object().await?, call.suffixes())?;
    check_people(call, &participants).await?;
    let answer = call.operate(GroupOperation::Create { subject, participants }).await?;
    of_kind!(answer, GroupAnswer::Created { group, participants_result } => Reply::created(&CreatedGroup {
        group: found(call, &group.id).await?,
        participants_result: ParticipantsResult::of(participants_result).participants,
    }))
}

/// Changes fields of a group, and returns it.
async fn change(call: &mut ChannelCall, changes: GroupChanges) -> Outcome {
    let id = group_id(call)?;
    call.operate(GroupOperation::Change { group: id.clone(), changes }).await?;
    Ok(Reply::ok(&found(call, &id).await?))
}

fn parse_subject(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required("subject", rule::text(1..=100)))
}

async fn set_subject(call: &mut ChannelCall) -> Outcome {
    let subject = parse_subject(&call.object().await?)?;
    change(call, GroupChanges { subject: Some(subject), ..GroupChanges::default() }).await
}

fn parse_description(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required("description", rule::text(0..=2048)))
}

async fn set_description(call: &mut ChannelCall) -> Outcome {
    let description = parse_description(&call.object().await?)?;
    change(call, GroupChanges { description: Some(description), ..GroupChanges::default() }).await
}

/// The picture of a group.
#[derive(Serialize, JsonSchema)]
struct GroupPicture {
    picture_url: String,
}

async fn set_picture(call: &mut ChannelCall) -> Outcome {
    let picture = Some(call.picture().await?);
    let group = group_id(call)?;
    let answer = call.operate(GroupOperation::SetPicture { group, picture }).await?;
    of_kind!(answer, GroupAnswer::Picture { picture_url: Some(picture_url) } =>
        Reply::ok(&GroupPicture { picture_url }))
}

async fn remove_picture(call: &mut ChannelCall) -> Outcome {
    call.done(GroupOperation::SetPicture { group: group_id(call)?, picture: None }).await
}

/// Reads the settings that a patch changes.
fn parse_settings(body: &Body) -> Result<GroupChanges, CallError> {
    body.read_patch(|fields| {
        Some(GroupChanges {
            announce: fields.optional("announce", rule::boolean),
            restrict: fields.optional("restrict", rule::boolean),
            member_add_mode: fields.optional("member_add_mode", rule::boolean),
            join_approval_mode: fields.optional("join_approval_mode", rule::boolean),
            ephemeral: fields
                .optional("ephemeral", rule::integer(0..=u64::from(u32::MAX)))
                .map(|seconds| seconds as u32),
            ..GroupChanges::default()
        })
    })
}

async fn change_settings(call: &mut ChannelCall) -> Outcome {
    let changes = parse_settings(&call.object().await?)?;
    change(call, changes).await
}

/// Results of an action, one for each requested participant.
#[derive(Serialize, JsonSchema)]
pub struct ParticipantsResult {
    participants: Vec<ParticipantResult>,
}

impl ParticipantsResult {
    pub fn of(participants: Vec<ParticipantResult>) -> Self {
        Self { participants: participants.into_iter().map(ParticipantResult::explained).collect() }
    }
}

fn results(answer: GroupAnswer) -> Outcome {
    of_kind!(answer, GroupAnswer::Participants(participants) => Reply::ok(&ParticipantsResult::of(participants)))
}

/// Reads `{ "action", "participants" }` with this rule for the action.
fn parse_action<T>(
    body: &Body,
    suffixes: &Suffixes,
    action: impl FnOnce(&Value) -> Result<T, Violation>,
) -> Result<(T, Vec<Address>), CallError> {
    body.read(|fields| {
        let action = fields.required("action", action);
        action.zip(fields.required_list("participants", MOST_NAMED, rule::address(suffixes)))
    })
}

/// Reads the action on participants, and the participants.
pub fn parse_participants(body: &Body, suffixes: &Suffixes) -> Result<(ParticipantAction, Vec<Address>), CallError> {
    parse_action(body, suffixes, rule::one_of(ParticipantAction::WORDS, ParticipantAction::parse))
}

async fn change_participants(call: &mut ChannelCall) -> Outcome {
    let (action, participants) = parse_participants(&call.object().await?, call.suffixes())?;
    let group = group_id(call)?;
    results(call.operate(GroupOperation::Participants { group, action, participants }).await?)
}

async fn invite(call: &mut ChannelCall) -> Outcome {
    let group = group_id(call)?;
    invited(call, GroupOperation::Invite { group }).await
}

async fn revoke_invite(call: &mut ChannelCall) -> Outcome {
    let group = group_id(call)?;
    invited(call, GroupOperation::RevokeInvite { group }).await
}

async fn invited(call: &mut ChannelCall, operation: GroupOperation) -> Outcome {
    let answer = call.operate(operation).await?;
    of_kind!(answer, GroupAnswer::Invite { invite_code } => Reply::ok(&GroupInvite::of(invite_code, call.suffixes())))
}

async fn preview(call: &mut ChannelCall) -> Outcome {
    let invite_code = invite_in_path(call)?;
    let answer = call.operate(GroupOperation::Preview { invite_code }).await?;
    of_kind!(answer, GroupAnswer::Preview(preview) => Reply::ok(&preview))
}

/// Validates an invite code, or the whole URL that ends in it. Phones add a query to shared URLs.
fn invite_code(value: &Value) -> Result<String, Violation> {
    let wants = || json!({ "pattern": "^([^/?#]*/)*[^/?#]{1,64}/?([?#][\\s\\S]*)?$" });
    code_of(&rule::described(wants, rule::text(1..=LONGEST_URL))(value)?)
}

/// The invite code of the path, which may be a whole URL, too.
pub fn invite_in_path(call: &ChannelCall) -> Result<String, CallError> {
    code_of(call.parameter("invite_code")).map_err(|violation| violation.at(&["invite_code"]))
}

fn code_of(text: &str) -> Result<String, Violation> {
    let url = text.split(['?', '#']).next().unwrap_or_default();
    let code = url.strip_suffix('/').unwrap_or(url).rsplit('/').next().unwrap_or_default();
    match code.chars().count() {
        0 => Err(Violation::new(IssueCode::Format, "must be an invite code, or the URL that ends in it")),
        1..=64 => Ok(code.to_owned()),
        _ => Err(Violation::new(IssueCode::TooLong, "at most 64 characters")),
    }
}

fn parse_join(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required("invite_code", invite_code))
}

async fn join(call: &mut ChannelCall) -> Outcome {
    let invite_code = parse_join(&call.object().await?)?;
    let answer = call.operate(GroupOperation::Join { invite_code }).await?;
    of_kind!(answer, GroupAnswer::Joined(joined) => Reply::ok(&joined))
}

async fn leave(call: &mut ChannelCall) -> Outcome {
    call.done(GroupOperation::Leave { group: group_id(call)? }).await
}

async fn join_requests(call: &mut ChannelCall) -> Outcome {
    let group = group_id(call)?;
    let answer = call.operate(GroupOperation::JoinRequests { group }).await?;
    of_kind!(answer, GroupAnswer::JoinRequests(requests) => Reply::ok(&List::whole(requests)))
}

/// Reads a decision about join requests: whether to approve, and for whom.
fn parse_decision(body: &Body, suffixes: &Suffixes) -> Result<(bool, Vec<Address>), CallError> {
    let words = rule::one_of(&["approve", "reject"], |word| match word {
        "approve" => Some(true),
        "reject" => Some(false),
        _ => None,
    });
    parse_action(body, suffixes, words)
}

async fn decide_requests(call: &mut ChannelCall) -> Outcome {
    let (approve, participants) = parse_decision(&call.object().await?, call.suffixes())?;
    let group = group_id(call)?;
    results(call.operate(GroupOperation::DecideRequests { group, approve, participants }).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invite_is_a_code_or_what_people_copy_from_their_phones() {
        let code = "jzV9yGH26lEpIbLkNkcfyC";
        let forms = ["", "chat.g.example/", "https://chat.g.example/", "https://chat.g.example/invite/"];
        for form in forms {
            for end in ["", "/", "?mode=ac_t", "/?mode=a/b", "#top"] {
                assert_eq!(code_of(&format!("{form}{code}{end}")).as_deref(), Ok(code), "{form} {end}");
            }
        }
        for nothing in ["", "/", "https://chat.g.example//", "?mode=ac_t", "#"] {
            assert_eq!(code_of(nothing).map_err(|violation| violation.code), Err(IssueCode::Format), "{nothing}");
        }
        let long = "x".repeat(65);
        assert_eq!(code_of(&long).map_err(|violation| violation.code), Err(IssueCode::TooLong));
    }
}
