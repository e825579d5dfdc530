//! Groups of a phone, with the request and response bodies of the gateway's own routes. A phone's actions run the same
//! code as a client's stanzas.

use hyper::StatusCode;
use model::group::{
    Group as ShownGroup, GroupChanges, GroupParticipant, JoinStatus, Joined, ParticipantAction, ParticipantResult,
    ParticipantStatus, Rank as ShownRank,
};
use network::simulator::answers::ControlError;
use serde::{Deserialize, Serialize};
use serde_json::json;
use wacore_binary::{Jid, JidExt, Node};

use super::http::{Call, Outcome, done, ok, shown};
use super::{Refused, invalid, number};
use crate::groups::{Group, GroupRefusal, Rank};
use crate::number::{Number, address};
use crate::stanza::{element, empty, jid, parent, text};
use crate::state::State;

#[derive(Deserialize)]
struct NewGroup {
    subject: String,
    #[serde(default)]
    participants: Vec<String>,
}

#[derive(Serialize)]
struct Created {
    #[serde(flatten)]
    group: ShownGroup,
    participants_result: Vec<ParticipantResult>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Approve,
    Reject,
}

impl From<GroupRefusal> for Refused {
    fn from(refusal: GroupRefusal) -> Self {
        let text = format!("the network refuses with {}: {}", refusal.code, refusal.text);
        if refusal.code == 404 { ControlError::NotFound(text).into() } else { ControlError::Invalid(text).into() }
    }
}

/// Parses a group's address.
fn named(text: &str) -> Result<Jid, Refused> {
    let jid = text.parse::<Jid>().ok().filter(Jid::is_group);
    jid.ok_or_else(|| invalid(format!("{text:?} is no address of a group, such as 120363000000000001@g.us")))
}

/// All routes under `/phones/{n}/groups`.
pub(super) fn route(state: &mut State, call: &Call, phone: Number, rest: &[&str]) -> Outcome {
    state.account(phone)?;
    match (call.method.as_str(), rest) {
        ("GET", []) => {
            let groups = state.groups.values().filter(|group| group.members.contains_key(&phone));
            let groups: Vec<ShownGroup> = groups.map(|group| show(group, phone)).collect();
            ok(&json!({ "total": groups.len(), "data": groups }))
        }
        ("POST", []) => create(state, call, phone),
        ("POST", ["join"]) => {
            let invite_code: String = call.field("invite_code")?;
            let invite = element("invite").attr("code", invite_code.as_str()).build();
            let answered = state.ask_of_groups(phone, None, false, &invite)?;
            let joined = answered.iter().find(|node| node.tag == "group");
            match joined.and_then(|node| node.attrs.get("jid")).and_then(wacore_binary::NodeValue::to_jid) {
                Some(jid) => ok(&Joined { id: address(&jid), status: JoinStatus::Joined }),
                None => {
                    let group = state.groups.values().find(|group| group.invite == invite_code);
                    let id = group.map(|group| address(&group.jid)).ok_or_else(|| invalid("the group is gone"))?;
                    ok(&Joined { id, status: JoinStatus::PendingApproval })
                }
            }
        }
        (method, [group, rest @ ..]) => of_group(state, call, phone, &named(group)?, (method, rest)),
        _ => Err(super::http::nothing_here(call)),
    }
}

fn create(state: &mut State, call: &Call, phone: Number) -> Outcome {
    let NewGroup { subject, participants } = call.body()?;
    let asked = people(&participants)?;
    let create = element("create").attr("subject", subject).children(asked.iter().map(participant)).build();
    let answered = state.ask_of_groups(phone, None, false, &create)?;
    let jid = answered.first().and_then(|group| group.attrs.get("id")).map(|id| Jid::group(id.as_str().into_owned()));
    let jid = jid.ok_or_else(|| invalid("the group was not made"))?;
    let results = results(answered.first());
    let group = show(state.group(&jid)?, phone);
    let result = |number: &Number| {
        let refused = results.iter().find(|(refused, code)| refused == number && code.is_some());
        outcome(*number, refused.and_then(|(_, code)| *code))
    };
    let participants_result = asked.iter().map(result).collect();
    shown(StatusCode::CREATED, &Created { group, participants_result })
}

fn of_group(state: &mut State, call: &Call, phone: Number, group: &Jid, (method, rest): (&str, &[&str])) -> Outcome {
    match (method, rest) {
        ("GET", []) => {
            state.group(group)?.check(phone, false)?;
            ok(&show(state.group(group)?, phone))
        }
        ("PUT", ["subject" | "description"]) | ("PATCH", ["settings"]) => {
            for change in changes(state.group(group)?, call.body()?) {
                state.ask_of_groups(phone, Some(group), false, &change)?;
            }
            ok(&show(state.group(group)?, phone))
        }
        ("POST", ["participants"]) => {
            let action: ParticipantAction = call.field("action")?;
            let participants: Vec<String> = call.field("participants")?;
            let asked = parent(action.as_str(), people(&participants)?.iter().map(participant));
            let answered = state.ask_of_groups(phone, Some(group), false, &asked)?;
            participants_answer(answered.first())
        }
        ("PUT", ["picture"]) => {
            let found = state.group(group)?;
            found.check(phone, found.locked)?;
            let picture = state.keep_picture(call.body.clone());
            let url = state.picture_url(picture.id);
            state.group_mut(group)?.picture = Some(picture);
            ok(&json!({ "picture_url": url }))
        }
        ("GET", ["invite"]) => invite(state, phone, group, true),
        ("DELETE", ["invite"]) => invite(state, phone, group, false),
        ("GET", ["join-requests"]) => {
            let found = state.group(group)?;
            found.check(phone, true)?;
            let requests = found.requests.iter();
            let requests: Vec<_> =
                requests.map(|(number, at)| json!({ "id": number.address(), "requested_at": at })).collect();
            ok(&json!({ "total": requests.len(), "data": requests }))
        }
        ("POST", ["join-requests"]) => {
            let participants: Vec<String> = call.field("participants")?;
            let tag = if call.field::<Decision>("action")? == Decision::Approve { "approve" } else { "reject" };
            let decided = parent(tag, people(&participants)?.iter().map(participant));
            let asked = parent("membership_requests_action", [decided]);
            let answered = state.ask_of_groups(phone, Some(group), false, &asked)?;
            participants_answer(answered.first().and_then(|action| action.children()?.first()))
        }
        ("POST", ["leave"]) => {
            let leave = parent("leave", [element("group").attr("id", group.clone()).build()]);
            state.ask_of_groups(phone, None, false, &leave)?;
            done()
        }
        _ => Err(super::http::nothing_here(call)),
    }
}

fn invite(state: &mut State, phone: Number, group: &Jid, gets: bool) -> Outcome {
    let answered = state.ask_of_groups(phone, Some(group), gets, &empty("invite"))?;
    let code = answered.first().and_then(|invite| invite.attrs.get("code")).map(|code| code.as_str().into_owned());
    ok(&json!({ "invite_code": code }))
}

/// The stanzas that change a group.
fn changes(group: &Group, changes: GroupChanges) -> Vec<Node> {
    let GroupChanges { subject, description, announce, restrict, member_add_mode, join_approval_mode, ephemeral } =
        changes;
    let mut asked = Vec::new();
    asked.extend(subject.map(|subject| element("subject").string_content(subject).build()));
    asked.extend(description.map(|text| {
        let mut description = element("description").attr("id", crate::groups::mint_invite());
        if let Some(before) = &group.description {
            description = description.attr("prev", before.id.as_str());
        }
        if text.is_empty() {
            return description.attr("delete", "true").build();
        }
        description.children([element("body").string_content(text).build()]).build()
    }));
    asked.extend(announce.map(|on| empty(if on { "announcement" } else { "not_announcement" })));
    asked.extend(restrict.map(|on| empty(if on { "locked" } else { "unlocked" })));
    asked.extend(member_add_mode.map(|all| {
        element("member_add_mode").string_content(if all { "all_member_add" } else { "admin_add" }).build()
    }));
    asked.extend(join_approval_mode.map(|on| {
        let join = element("group_join").attr("state", if on { "on" } else { "off" }).build();
        parent("membership_approval_mode", [join])
    }));
    asked.extend(ephemeral.map(|seconds| match seconds {
        0 => empty("not_ephemeral"),
        seconds => element("ephemeral").attr("expiration", seconds).build(),
    }));
    asked
}

fn people(texts: &[String]) -> Result<Vec<Number>, Refused> {
    texts.iter().map(|text| number(text)).collect()
}

fn participant(number: &Number) -> Node {
    element("participant").attr("jid", number.pn()).build()
}

/// The participants of a response, and the error code of each refused one.
fn results(answered: Option<&Node>) -> Vec<(Number, Option<u16>)> {
    let children = answered.and_then(Node::children).unwrap_or_default();
    let participants = children.iter().filter(|child| child.tag == "participant").filter_map(|child| {
        let child = child.as_node_ref();
        let number = jid(&child, "jid").and_then(|jid| Number::of_jid(&jid))?;
        Some((number, text(&child, "error").and_then(|code| code.parse().ok())))
    });
    participants.collect()
}

fn participants_answer(answered: Option<&Node>) -> Outcome {
    let results: Vec<ParticipantResult> =
        results(answered).into_iter().map(|(number, code)| outcome(number, code)).collect();
    ok(&json!({ "participants": results }))
}

fn outcome(number: Number, code: Option<u16>) -> ParticipantResult {
    let status = match code {
        None => ParticipantStatus::Ok,
        Some(404) => ParticipantStatus::NotFound,
        Some(403) => ParticipantStatus::NotAuthorized,
        Some(409) => ParticipantStatus::AlreadyMember,
        Some(_) => ParticipantStatus::Failed,
    };
    ParticipantResult { id: number.address(), status, message: None, invite_code: None }
}

fn show(group: &Group, to: Number) -> ShownGroup {
    let rank = |rank: Rank| match rank {
        Rank::Member => ShownRank::Member,
        Rank::Admin => ShownRank::Admin,
        Rank::Creator => ShownRank::Creator,
    };
    ShownGroup {
        id: address(&group.jid),
        subject: group.subject.clone(),
        description: group.description.as_ref().map(|description| description.text.clone()),
        created_at: Some(group.created_at.unix_seconds()),
        created_by: Some(group.created_by.address()),
        participants: group
            .members
            .iter()
            .map(|(number, of)| GroupParticipant { id: number.address(), rank: rank(*of) })
            .collect(),
        invite_code: group.is_admin(to).then(|| group.invite.clone()),
        announce: group.announcement,
        restrict: group.locked,
        ephemeral: group.ephemeral_seconds.unwrap_or(0),
        member_add_mode: !group.admin_add,
        join_approval_mode: group.approval,
    }
}
