//! Groups (interface 2.7, supplement 12).

use model::address::{Address, Suffixes};
use model::error::ApiError;
use model::field::{Body, Fields, rule};
use model::group::{Group, GroupChanges, ParticipantAction, ParticipantResult};
use model::issue::{Fault, IssueCode, Issues};
use network::operation::groups::{GroupAnswer, GroupOperation};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use shard::projection::read::Filter;

use crate::exchange::ChannelCall;
use crate::failure;
use crate::projection::{check_people, read_refresh};
use crate::reply::{List, Outcome, Reply};
use crate::route::Route;

/// Members that one call may name.
pub const MOST_NAMED: usize = 256;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/channels/{id}/groups").channel(list),
        Route::post("/v1/channels/{id}/groups").channel(create),
        Route::post("/v1/channels/{id}/groups/join").channel(join),
        Route::get("/v1/channels/{id}/groups/invite/{invite_code}").channel(preview),
        Route::get("/v1/channels/{id}/groups/{group_id}").channel(show),
        Route::put("/v1/channels/{id}/groups/{group_id}/subject").channel(set_subject),
        Route::put("/v1/channels/{id}/groups/{group_id}/description").channel(set_description),
        Route::put("/v1/channels/{id}/groups/{group_id}/picture").channel(set_picture),
        Route::delete("/v1/channels/{id}/groups/{group_id}/picture").channel(remove_picture),
        Route::patch("/v1/channels/{id}/groups/{group_id}/settings").channel(change_settings),
        Route::post("/v1/channels/{id}/groups/{group_id}/participants").channel(change_participants),
        Route::get("/v1/channels/{id}/groups/{group_id}/invite").channel(invite),
        Route::delete("/v1/channels/{id}/groups/{group_id}/invite").channel(revoke_invite),
        Route::post("/v1/channels/{id}/groups/{group_id}/leave").channel(leave),
        Route::get("/v1/channels/{id}/groups/{group_id}/join-requests").channel(join_requests),
        Route::post("/v1/channels/{id}/groups/{group_id}/join-requests").channel(decide_requests),
    ]
}

/// The group that the path names.
pub fn group_id(call: &ChannelCall) -> Result<Address, ApiError> {
    call.address("group_id", "group")
}

/// The group as the projection has it.
pub async fn found(call: &mut ChannelCall, id: &Address) -> Result<Group, ApiError> {
    call.find::<Group>(id.as_str()).await?.ok_or_else(|| ApiError::not_found("group", id.as_str()))
}

async fn list(call: &mut ChannelCall) -> Outcome {
    let query = call.query();
    let refresh = read_refresh(&query);
    let participants = query.flag("participants").unwrap_or(true);
    let page = call.page::<Group>(&query);
    query.finish(())?;
    if refresh {
        call.operate(GroupOperation::List).await?;
    }
    let mut groups = call.page_of::<Group>(Filter::All, page).await?;
    if !participants {
        groups.data.iter_mut().for_each(|group| group.participants.clear());
    }
    Ok(Reply::ok(&groups))
}

async fn show(call: &mut ChannelCall) -> Outcome {
    let query = call.query();
    let refresh = read_refresh(&query);
    query.finish(())?;
    let id = group_id(call)?;
    if refresh {
        call.operate(GroupOperation::Show { group: id.clone() }).await?;
    }
    Ok(Reply::ok(&found(call, &id).await?))
}

/// The body of a new group.
struct CreateGroup {
    subject: String,
    participants: Vec<Address>,
}

impl CreateGroup {
    fn parse(body: &Body, call: &ChannelCall) -> Result<Self, ApiError> {
        let issues = Issues::new();
        let fields = Fields::new(body, &issues);
        let subject = fields.required("subject", rule::text(1..=100));
        let address = rule::address(&call.app.config.suffixes);
        let participants = fields.required_list("participants", MOST_NAMED, address);
        issues.finish(|| Some(Self { subject: subject?, participants: participants? }))
    }
}

/// A group that was just made, and how it went for each who was named.
#[derive(Serialize)]
struct Created {
    #[serde(flatten)]
    group: Group,
    participants_result: Vec<ParticipantResult>,
}

async fn create(call: &mut ChannelCall) -> Outcome {
    let body = call.object().await?;
    let CreateGroup { subject, participants } = CreateGroup::parse(&body, call)?;
    check_people(call, &participants)?;
    match call.operate(GroupOperation::Create { subject, participants }).await? {
        GroupAnswer::Created { group, participants_result } => {
            let group = found(call, &group.id).await?;
            Ok(Reply::created(&Created { group, participants_result }))
        }
        _ => Err(failure::unexpected_answer()),
    }
}

/// Changes fields of a group and shows it.
async fn change(call: &mut ChannelCall, changes: GroupChanges) -> Outcome {
    let id = group_id(call)?;
    call.operate(GroupOperation::Change { group: id.clone(), changes }).await?;
    Ok(Reply::ok(&found(call, &id).await?))
}

/// Reads a body of one field.
fn parse_one<T>(body: &Body, field: &str, rule: impl FnOnce(&Value) -> Result<T, Fault>) -> Result<T, ApiError> {
    let issues = Issues::new();
    let value = Fields::new(body, &issues).required(field, rule);
    issues.finish(|| value)
}

async fn set_subject(call: &mut ChannelCall) -> Outcome {
    let body = call.object().await?;
    let subject = parse_one(&body, "subject", rule::text(1..=100))?;
    change(call, GroupChanges { subject: Some(subject), ..GroupChanges::default() }).await
}

async fn set_description(call: &mut ChannelCall) -> Outcome {
    let body = call.object().await?;
    let description = parse_one(&body, "description", rule::text(0..=2048))?;
    change(call, GroupChanges { description: Some(description), ..GroupChanges::default() }).await
}

/// `{ "picture_url": URI }`
#[derive(Serialize)]
struct ShownPicture {
    picture_url: String,
}

async fn set_picture(call: &mut ChannelCall) -> Outcome {
    let picture = Some(call.picture().await?);
    let group = group_id(call)?;
    match call.operate(GroupOperation::SetPicture { group, picture }).await? {
        GroupAnswer::Picture { picture_url: Some(picture_url) } => Ok(Reply::ok(&ShownPicture { picture_url })),
        _ => Err(failure::unexpected_answer()),
    }
}

async fn remove_picture(call: &mut ChannelCall) -> Outcome {
    let group = group_id(call)?;
    call.operate(GroupOperation::SetPicture { group, picture: None }).await?;
    Ok(Reply::no_content())
}

/// Reads the settings body (interface 2.7).
fn parse_settings(body: &Body) -> Result<GroupChanges, ApiError> {
    let issues = Issues::new();
    let fields = Fields::patch(body, &issues);
    let changes = GroupChanges {
        announce: fields.optional("announce", rule::boolean),
        restrict: fields.optional("restrict", rule::boolean),
        member_add_mode: fields.optional("member_add_mode", rule::boolean),
        join_approval_mode: fields.optional("join_approval_mode", rule::boolean),
        ephemeral: fields.optional("ephemeral", rule::integer(0..=u64::from(u32::MAX))).map(|seconds| seconds as u32),
        ..GroupChanges::default()
    };
    issues.finish(|| Some(changes))
}

async fn change_settings(call: &mut ChannelCall) -> Outcome {
    let body = call.object().await?;
    let changes = parse_settings(&body)?;
    change(call, changes).await
}

/// How an action went for each who was named.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ParticipantsResult")]
pub struct Results {
    pub participants: Vec<ParticipantResult>,
}

fn results(answer: GroupAnswer) -> Outcome {
    match answer {
        GroupAnswer::Participants(participants) => Ok(Reply::ok(&Results { participants })),
        _ => Err(failure::unexpected_answer()),
    }
}

/// Reads `{ "action", "participants" }`, where the action is one of some words.
fn parse_action<T>(
    body: &Body,
    suffixes: &Suffixes,
    action: impl FnOnce(&Value) -> Result<T, Fault>,
) -> Result<(T, Vec<Address>), ApiError> {
    let issues = Issues::new();
    let fields = Fields::new(body, &issues);
    let action = fields.required("action", action);
    let participants = fields.required_list("participants", MOST_NAMED, rule::address(suffixes));
    issues.finish(|| Some((action?, participants?)))
}

/// Reads what is done to participants, and to whom.
pub fn parse_participants(body: &Body, suffixes: &Suffixes) -> Result<(ParticipantAction, Vec<Address>), ApiError> {
    parse_action(body, suffixes, rule::one_of(ParticipantAction::WORDS, ParticipantAction::parse))
}

async fn change_participants(call: &mut ChannelCall) -> Outcome {
    let body = call.object().await?;
    let (action, participants) = parse_participants(&body, call.suffixes())?;
    let group = group_id(call)?;
    results(call.operate(GroupOperation::Participants { group, action, participants }).await?)
}

/// An invite as the interface shows it (interface 2.7).
#[derive(Serialize, JsonSchema)]
pub struct GroupInvite {
    invite_url: String,
    invite_code: String,
}

impl GroupInvite {
    pub fn of(invite_code: String, suffixes: &Suffixes) -> Self {
        Self { invite_url: format!("https://chat.{}/{invite_code}", suffixes.group), invite_code }
    }
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
    match call.operate(operation).await? {
        GroupAnswer::Invite { invite_code } => Ok(Reply::ok(&GroupInvite::of(invite_code, call.suffixes()))),
        _ => Err(failure::unexpected_answer()),
    }
}

async fn preview(call: &mut ChannelCall) -> Outcome {
    let invite_code = call.parameter("invite_code").to_owned();
    match call.operate(GroupOperation::Preview { invite_code }).await? {
        GroupAnswer::Preview(preview) => Ok(Reply::ok(&preview)),
        _ => Err(failure::unexpected_answer()),
    }
}

/// An invite code, or the whole URL that ends in it.
fn invite_code(value: &Value) -> Result<String, Fault> {
    let text = rule::text(1..=2048)(value)?;
    let code = text.rsplit('/').next().unwrap_or_default();
    match code.chars().count() {
        0 => Err(Fault::new(IssueCode::Format, "must be an invite code, or the URL that ends in it")),
        1..=64 => Ok(code.to_owned()),
        _ => Err(Fault::new(IssueCode::TooLong, "at most 64 characters")),
    }
}

async fn join(call: &mut ChannelCall) -> Outcome {
    let body = call.object().await?;
    let invite_code = parse_one(&body, "invite_code", invite_code)?;
    match call.operate(GroupOperation::Join { invite_code }).await? {
        GroupAnswer::Joined(joined) => Ok(Reply::ok(&joined)),
        _ => Err(failure::unexpected_answer()),
    }
}

async fn leave(call: &mut ChannelCall) -> Outcome {
    let group = group_id(call)?;
    call.operate(GroupOperation::Leave { group }).await?;
    Ok(Reply::no_content())
}

async fn join_requests(call: &mut ChannelCall) -> Outcome {
    let group = group_id(call)?;
    match call.operate(GroupOperation::JoinRequests { group }).await? {
        GroupAnswer::JoinRequests(requests) => Ok(Reply::ok(&List::whole(requests))),
        _ => Err(failure::unexpected_answer()),
    }
}

/// Reads who is let in, or turned away.
fn parse_decision(body: &Body, suffixes: &Suffixes) -> Result<(bool, Vec<Address>), ApiError> {
    let words = rule::one_of(&["approve", "reject"], |word| match word {
        "approve" => Some(true),
        "reject" => Some(false),
        _ => None,
    });
    parse_action(body, suffixes, words)
}

async fn decide_requests(call: &mut ChannelCall) -> Outcome {
    let body = call.object().await?;
    let (approve, participants) = parse_decision(&body, call.suffixes())?;
    let group = group_id(call)?;
    results(call.operate(GroupOperation::DecideRequests { group, approve, participants }).await?)
}
