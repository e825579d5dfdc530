//! Groups: rows of [`Group`], updated by notices.

use std::collections::{HashMap, HashSet};

use model::address::Address;
use model::error::CallError;
use model::group::{Group, GroupParticipant, Rank};
use model::payload::{GroupCreated, GroupMembers, GroupUpdated, MembersReason, Payload};
use traffic::notice::GroupNews;
use traffic::operation::groups::{GroupAnswer, GroupOperation};
use traffic::operation::{Refused, RefusedKind};

use super::{Context, EmittedEvent, NOT_FOUND, Rows, Synced, chats, contacts, entity, no_op_if};

pub const AREA: &str = "groups";

/// The most members of a group that are stored: more than the network's largest group has, and few enough that its row
/// fits into one log entry with an event.
const MOST_MEMBERS: usize = 5_000;

entity!(Group, Group, |row| row.id.to_string());

pub fn check(operation: &GroupOperation, rows: &Rows<'_>, context: &Context<'_>) -> Result<(), CallError> {
    let known = |id: &Address| rows.find::<Group>("group", id.as_str());
    match operation {
        GroupOperation::Change { group, changes } => {
            no_op_if(known(group)?.change(changes.clone()).is_empty(), "the group is as it should be already")
        }
        GroupOperation::Leave { group } => match rows.get::<Group>(group.as_str()) {
            Some(known) if known.participants.iter().any(|member| context.is_own(&member.id)) => Ok(()),
            Some(_) => Err(CallError::no_op("the channel is not in the group")),
            // A group's chat remains after the channel has left the group.
            None if chats::one(group, rows, context.at).is_some() => {
                Err(CallError::no_op("the channel has left the group already"))
            }
            None => Err(CallError::not_found("group", group.as_str())),
        },
        GroupOperation::SetPicture { group, .. }
        | GroupOperation::Participants { group, .. }
        | GroupOperation::Invite { group }
        | GroupOperation::RevokeInvite { group }
        | GroupOperation::JoinRequests { group }
        | GroupOperation::DecideRequests { group, .. } => known(group).map(drop),
        _ => Ok(()),
    }
}

pub fn refusal(operation: &GroupOperation, refused: &Refused) -> Option<CallError> {
    let conflict = refused.kind == RefusedKind::Conflict;
    match (operation, refused.code) {
        (GroupOperation::Show { group }, NOT_FOUND) => Some(CallError::not_found("group", group.as_str())),
        (GroupOperation::Preview { invite_code } | GroupOperation::Join { invite_code }, NOT_FOUND) => {
            Some(CallError::not_found("group_invite", invite_code))
        }
        (GroupOperation::SetPicture { picture: None, .. }, _) if conflict => {
            Some(CallError::no_op("the group has no picture"))
        }
        (GroupOperation::Join { .. }, _) if conflict => Some(CallError::no_op("the channel is in the group already")),
        _ => None,
    }
}

pub fn absorb(operation: &GroupOperation, answer: &GroupAnswer, rows: &mut Rows<'_>, context: &Context<'_>) {
    match (operation, answer) {
        (GroupOperation::List, GroupAnswer::Groups(groups)) => {
            let groups: Vec<Group> = groups.iter().map(|group| seen(group, rows, context)).collect();
            rows.replace_all(&groups);
            groups.iter().for_each(|group| make_known(group, rows, context));
            rows.put(&Synced { area: AREA.to_owned() });
        }
        (GroupOperation::Show { .. }, GroupAnswer::Group(group)) => {
            let group = seen(group, rows, context);
            rows.put(&group);
            make_known(&group, rows, context);
        }
        (
            GroupOperation::Invite { group } | GroupOperation::RevokeInvite { group },
            GroupAnswer::Invite { invite_code },
        ) => {
            if let Some(mut group) = rows.get::<Group>(group.as_str()) {
                group.invite_code = Some(invite_code.clone());
                rows.put(&group);
            }
        }
        _ => {}
    }
}

/// The best addresses of all members, each looked up once.
fn best_of_members(group: &Group, context: &Context<'_>) -> Vec<Address> {
    group.participants.iter().map(|member| context.best(&member.id)).collect()
}

/// Removes members beyond [`MOST_MEMBERS`], but not the channel itself.
fn cut_members(group: &mut Group, context: &Context<'_>) {
    let mut beyond = group.participants.iter().skip(MOST_MEMBERS);
    if let Some(place) = beyond.position(|member| context.is_own(&member.id)) {
        group.participants.swap(MOST_MEMBERS - 1, MOST_MEMBERS + place);
    }
    group.participants.truncate(MOST_MEMBERS);
}

/// A group as stored: with the members' best addresses, and the invite code that was fetched before.
fn seen(group: &Group, rows: &Rows<'_>, context: &Context<'_>) -> Group {
    let mut group = group.clone();
    for member in &mut group.participants {
        member.id = context.best(&member.id);
    }
    cut_members(&mut group, context);
    group.created_by = group.created_by.map(|creator| context.best(&creator));
    let fetched = || rows.get::<Group>(group.id.as_str()).and_then(|known| known.invite_code);
    group.invite_code = group.invite_code.clone().or_else(fetched);
    keep_invite_to_admins(&mut group, context);
    group
}

/// Removes the invite code of a group in which the channel is not an admin.
fn keep_invite_to_admins(group: &mut Group, context: &Context<'_>) {
    if group.participants.iter().any(|member| !member.rank.is_admin() && context.is_own(&member.id)) {
        group.invite_code = None;
    }
}

/// Makes a chat of a group, and contacts of its members.
fn make_known(group: &Group, rows: &mut Rows<'_>, context: &Context<'_>) {
    chats::of_group(group, rows);
    contacts::of_group(group, rows, context);
}

pub fn take(
    id: &Address,
    news: &GroupNews,
    actor: Option<Address>,
    rows: &mut Rows<'_>,
    context: &Context<'_>,
) -> Vec<EmittedEvent> {
    let timestamp = context.at.unix_seconds();
    let known = rows.get::<Group>(id.as_str());
    let mut of_chat = Vec::new();
    let payload = match (news, known) {
        (GroupNews::Entered { group, origin }, None) => {
            let group = seen(group, rows, context);
            rows.put(&group);
            make_known(&group, rows, context);
            Some(Payload::GroupCreated(Box::new(GroupCreated { group, origin: *origin, actor, timestamp })))
        }
        (GroupNews::Entered { group, .. }, Some(_)) => {
            rows.put(&seen(group, rows, context));
            None
        }
        // A group that is not known yet is fetched completely.
        (_, None) => None,
        (GroupNews::Changed(changes), Some(mut group)) => {
            let changes = group.change(changes.clone());
            rows.put(&group);
            of_chat = chats::of_changed_group(&group, rows, context);
            let updated = GroupUpdated { group_id: id.clone(), changes, actor, timestamp };
            (!updated.changes.is_empty()).then_some(Payload::GroupUpdated(updated))
        }
        (news, Some(group)) => {
            let members = |participants: Vec<Address>, reason| {
                (!participants.is_empty()).then(|| GroupMembers {
                    group_id: id.clone(),
                    participants,
                    actor,
                    reason,
                    timestamp,
                })
            };
            match news {
                GroupNews::Added { participants, reason } => {
                    let added = add(group, participants, rows, context);
                    members(added, Some(MembersReason::Added(*reason))).map(Payload::GroupParticipantAdded)
                }
                GroupNews::Removed { participants, reason } => {
                    let removed = remove(group, participants, rows, context);
                    members(removed, Some(MembersReason::Removed(*reason))).map(Payload::GroupParticipantRemoved)
                }
                GroupNews::Promoted { participants } => {
                    let promoted = rank(group, participants, Rank::Admin, rows, context);
                    members(promoted, None).map(Payload::GroupAdminPromoted)
                }
                GroupNews::Demoted { participants } => {
                    let demoted = rank(group, participants, Rank::Member, rows, context);
                    members(demoted, None).map(Payload::GroupAdminDemoted)
                }
                GroupNews::Entered { .. } | GroupNews::Changed(_) => None,
            }
        }
    };
    let of_group = payload.map(|payload| EmittedEvent { payload, chat: Some(id.clone()) });
    of_group.into_iter().chain(of_chat).collect()
}

/// Adds those who are not in the group, and returns them, whether or not the row has space for all of them.
fn add(mut group: Group, named: &[Address], rows: &mut Rows<'_>, context: &Context<'_>) -> Vec<Address> {
    let members: HashSet<Address> = best_of_members(&group, context).into_iter().collect();
    let mut named = context.best_all(named);
    named.retain(|address| !members.contains(address));
    let added = named.iter().map(|address| GroupParticipant { id: address.clone(), rank: Rank::Member });
    group.participants.extend(added);
    cut_members(&mut group, context);
    rows.put(&group);
    named
}

/// Removes those who are in the group, and returns them; removes the group itself if the channel is one of them.
fn remove(mut group: Group, named: &[Address], rows: &mut Rows<'_>, context: &Context<'_>) -> Vec<Address> {
    let members = best_of_members(&group, context);
    let known: HashSet<&Address> = members.iter().collect();
    let mut named = context.best_all(named);
    named.retain(|address| known.contains(address));
    let gone: HashSet<Address> = named.iter().cloned().collect();
    let mut best = members.iter();
    group.participants.retain(|_| best.next().is_none_or(|member| !gone.contains(member)));
    if named.iter().any(|address| context.is_own(address)) {
        rows.remove::<Group>(group.id.as_str());
    } else {
        rows.put(&group);
    }
    named
}

/// Changes the rank of those who have another one, and returns them.
fn rank(mut group: Group, named: &[Address], rank: Rank, rows: &mut Rows<'_>, context: &Context<'_>) -> Vec<Address> {
    let members = best_of_members(&group, context);
    // Of two members with the same address the first counts.
    let places: HashMap<&Address, usize> =
        members.iter().enumerate().rev().map(|(place, member)| (member, place)).collect();
    let mut changed = Vec::new();
    for address in context.best_all(named) {
        let Some(place) = places.get(&address) else { continue };
        let member = &mut group.participants[*place];
        if member.rank.is_admin() != rank.is_admin() {
            member.rank = rank;
            changed.push(address);
        }
    }
    keep_invite_to_admins(&mut group, context);
    rows.put(&group);
    changed
}

#[cfg(test)]
pub mod tests {
    use model::error::ErrorCode;
    use model::group::{AddedReason, GroupChanges, GroupOrigin, RemovedReason};
    use model::payload::ChatField;
    use model::time::Timestamp;

    use super::*;
    use crate::projection::fixture::{Projection, address};

    const GROUP: &str = "120363@g.example";
    const OWN: &str = "1000@s.example";
    const ANN: &str = "1555@s.example";
    const ANNS_LID: &str = "25@lid";
    const BEN: &str = "1666@s.example";

    pub fn group(id: &str, members: &[&str]) -> Group {
        let participants = members.iter().map(|id| GroupParticipant { id: address(id), rank: Rank::Member }).collect();
        Group {
            id: address(id),
            subject: "Friends".to_owned(),
            description: None,
            created_at: None,
            created_by: None,
            participants,
            invite_code: None,
            announce: false,
            restrict: false,
            ephemeral: 0,
            member_add_mode: false,
            join_approval_mode: false,
        }
    }

    /// The channel and Ann are in a group.
    fn joined() -> Projection {
        let mut projection = Projection::new().owning(OWN).knowing(ANNS_LID, ANN);
        let group = Box::new(group(GROUP, &[OWN, ANNS_LID]));
        assert_eq!(told(&mut projection, GroupNews::Entered { group, origin: GroupOrigin::Added }).len(), 1);
        projection
    }

    fn told(projection: &mut Projection, news: GroupNews) -> Vec<Payload> {
        let told = projection.at(Timestamp(0), |rows, context| take(&address(GROUP), &news, None, rows, context));
        told.into_iter().map(|told| told.payload).collect()
    }

    /// The members that the only event names.
    fn named(projection: &mut Projection, news: GroupNews) -> Vec<Address> {
        match &told(projection, news)[..] {
            [
                Payload::GroupParticipantAdded(members)
                | Payload::GroupParticipantRemoved(members)
                | Payload::GroupAdminPromoted(members)
                | Payload::GroupAdminDemoted(members),
            ] => members.participants.clone(),
            [] => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_change_is_told_once_and_names_those_whom_it_changed() {
        let mut projection = joined();
        let both = || vec![address(ANN), address(BEN)];
        let added = || GroupNews::Added { participants: both(), reason: AddedReason::Added };
        assert_eq!(named(&mut projection, added()), [address(BEN)]);
        assert!(named(&mut projection, added()).is_empty());
        let promoted = || GroupNews::Promoted { participants: vec![address(ANNS_LID)] };
        assert_eq!(named(&mut projection, promoted()), [address(ANN)]);
        assert!(named(&mut projection, promoted()).is_empty());
        assert_eq!(named(&mut projection, GroupNews::Demoted { participants: both() }), [address(ANN)]);
        let removed = || GroupNews::Removed { participants: vec![address(BEN)], reason: RemovedReason::Left };
        assert_eq!(named(&mut projection, removed()), [address(BEN)]);
        assert!(named(&mut projection, removed()).is_empty());

        let subject = || GroupChanges { subject: Some("Others".to_owned()), ..GroupChanges::default() };
        assert_eq!(told(&mut projection, GroupNews::Changed(subject())).len(), 1);
        assert!(told(&mut projection, GroupNews::Changed(subject())).is_empty());
    }

    #[test]
    fn a_chat_tells_when_its_group_keeps_messages_for_another_time() {
        let mut projection = joined();
        let kept = || GroupNews::Changed(GroupChanges { ephemeral: Some(86_400), ..GroupChanges::default() });
        match &told(&mut projection, kept())[..] {
            [Payload::GroupUpdated(_), Payload::ChatUpdated(updated)] => {
                assert_eq!(updated.changed, [ChatField::EphemeralExpiration]);
                assert_eq!(updated.chat.ephemeral_expiration, 86_400);
            }
            other => panic!("{other:?}"),
        }
        assert!(told(&mut projection, kept()).is_empty());
    }

    #[test]
    fn a_group_is_gone_with_the_channel_and_unknown_ones_are_not_told_of() {
        let mut projection = joined();
        let leave = GroupOperation::Leave { group: address(GROUP) };
        let code = |projection: &mut Projection| {
            projection.at(Timestamp(0), |rows, context| check(&leave, rows, context)).map_err(|error| error.code).err()
        };
        assert_eq!(code(&mut projection), None);
        let removed = || GroupNews::Removed { participants: vec![address(OWN)], reason: RemovedReason::Removed };
        assert_eq!(named(&mut projection, removed()), [address(OWN)]);
        // The group's chat still exists.
        assert_eq!(code(&mut projection), Some(ErrorCode::NoOp));
        assert!(told(&mut projection, removed()).is_empty());
    }

    #[test]
    fn a_row_holds_so_many_members_and_the_channel_among_them() {
        let others: Vec<String> = (0..MOST_MEMBERS).map(|n| format!("{n:05}@s.example")).collect();
        let members: Vec<&str> = others.iter().map(String::as_str).chain([OWN]).collect();
        let mut projection = Projection::new().owning(OWN);
        let group = Box::new(group(GROUP, &members));
        assert_eq!(told(&mut projection, GroupNews::Entered { group, origin: GroupOrigin::Added }).len(), 1);
        let kept = |projection: &mut Projection| {
            let group: Option<Group> = projection.at(Timestamp(0), |rows, _| rows.get(GROUP));
            let members = group.map(|group| group.participants).unwrap_or_default();
            (members.len(), members.last().map(|member| member.id.clone()))
        };
        assert_eq!(kept(&mut projection), (MOST_MEMBERS, Some(address(OWN))));
        let removed = GroupNews::Removed { participants: vec![address(&others[0])], reason: RemovedReason::Left };
        assert_eq!(named(&mut projection, removed), [address(&others[0])]);
        let added = |who| GroupNews::Added { participants: vec![address(who)], reason: AddedReason::Added };
        assert_eq!(named(&mut projection, added(ANN)), [address(ANN)]);
        assert_eq!(kept(&mut projection), (MOST_MEMBERS, Some(address(ANN))));
        assert_eq!(named(&mut projection, added(BEN)), [address(BEN)]);
        assert_eq!(kept(&mut projection), (MOST_MEMBERS, Some(address(ANN))));
    }

    #[test]
    fn a_fetched_invite_code_outlives_a_refresh() {
        let mut projection = joined();
        projection.at(Timestamp(0), |rows, context| {
            let invite = GroupOperation::Invite { group: address(GROUP) };
            absorb(&invite, &GroupAnswer::Invite { invite_code: "ABC".to_owned() }, rows, context);
            let mut led = group(GROUP, &[OWN, ANNS_LID]);
            led.participants[0].rank = Rank::Admin;
            absorb(&GroupOperation::List, &GroupAnswer::Groups(vec![led]), rows, context);
            let known: Option<Group> = rows.get(GROUP);
            let seen = known.map(|known| (known.invite_code, known.participants[1].id.clone()));
            assert_eq!(seen, Some((Some("ABC".to_owned()), address(ANN))));
            absorb(&GroupOperation::List, &GroupAnswer::Groups(Vec::new()), rows, context);
            assert!(!rows.has::<Group>(GROUP));
        });
    }

    #[test]
    fn an_invite_code_is_removed_once_the_channel_is_no_admin() {
        let mut projection = joined();
        let own = || vec![address(OWN)];
        let code = |projection: &mut Projection| {
            projection.at(Timestamp(0), |rows, _| rows.get::<Group>(GROUP)).and_then(|known| known.invite_code)
        };
        let fetch = |projection: &mut Projection| {
            projection.at(Timestamp(0), |rows, context| {
                let invite = GroupOperation::Invite { group: address(GROUP) };
                absorb(&invite, &GroupAnswer::Invite { invite_code: "ABC".to_owned() }, rows, context);
            });
            code(projection)
        };
        assert_eq!(named(&mut projection, GroupNews::Promoted { participants: own() }), own());
        assert_eq!(fetch(&mut projection).as_deref(), Some("ABC"));
        assert_eq!(named(&mut projection, GroupNews::Demoted { participants: own() }), own());
        assert_eq!(code(&mut projection), None);

        // A refresh finds the same.
        assert_eq!(named(&mut projection, GroupNews::Promoted { participants: own() }), own());
        fetch(&mut projection);
        projection.at(Timestamp(0), |rows, context| {
            let show = GroupOperation::Show { group: address(GROUP) };
            let answer = GroupAnswer::Group(group(GROUP, &[OWN, ANNS_LID]));
            absorb(&show, &answer, rows, context);
        });
        assert_eq!(code(&mut projection), None);
    }
}
