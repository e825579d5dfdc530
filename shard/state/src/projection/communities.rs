//! Communities: rows of [`KnownCommunity`], updated by notices. Their members are in the row of the announcement group.

use model::address::Address;
use model::community::KnownCommunity;
use model::error::CallError;
use model::group::Group;
use traffic::operation::communities::{CommunityAnswer, CommunityOperation};
use traffic::operation::{Refused, RefusedKind};

use super::{Context, NOT_FOUND, Rows, Synced, entity, no_op_if};

pub const AREA: &str = "communities";

entity!(KnownCommunity, Community, |row| row.community.id.to_string());

pub fn check(operation: &CommunityOperation, rows: &Rows<'_>) -> Result<(), CallError> {
    let known = |id: &Address| rows.find::<KnownCommunity>("community", id.as_str());
    let check_group = |group: &Address| rows.find::<Group>("group", group.as_str()).map(drop);
    match operation {
        CommunityOperation::List | CommunityOperation::Show { .. } => Ok(()),
        CommunityOperation::Create { groups, .. } => groups.iter().try_for_each(check_group),
        CommunityOperation::Change { community, changes } => {
            no_op_if(changes.hold_for(&known(community)?.community), "the community is as it should be already")
        }
        CommunityOperation::AddGroup { community, group } => match known(community)?.group(group) {
            Some(_) => Err(CallError::no_op("the group is in the community already")),
            None => check_group(group),
        },
        CommunityOperation::RemoveGroup { community, group } => {
            no_op_if(known(community)?.group(group).is_none(), "the group is not in the community")
        }
        CommunityOperation::JoinGroup { community, group } => match known(community)?.group(group) {
            Some(known) if known.joined => Err(CallError::no_op("the channel is in the group already")),
            Some(_) => Ok(()),
            None => Err(CallError::not_found("group", group.as_str())),
        },
        CommunityOperation::Deactivate { community }
        | CommunityOperation::CreateGroup { community, .. }
        | CommunityOperation::Participants { community, .. }
        | CommunityOperation::Invite { community }
        | CommunityOperation::RevokeInvite { community } => known(community).map(drop),
    }
}

pub fn refusal(operation: &CommunityOperation, refused: &Refused) -> Option<CallError> {
    match (operation, refused.code) {
        (CommunityOperation::Show { community }, NOT_FOUND) => {
            Some(CallError::not_found("community", community.as_str()))
        }
        (CommunityOperation::JoinGroup { .. }, _) if refused.kind == RefusedKind::Conflict => {
            Some(CallError::no_op("the channel is in the group already"))
        }
        _ => None,
    }
}

pub fn absorb(operation: &CommunityOperation, answer: &CommunityAnswer, rows: &mut Rows<'_>, context: &Context<'_>) {
    match (operation, answer) {
        (CommunityOperation::List, CommunityAnswer::Communities(communities)) => {
            let communities: Vec<KnownCommunity> = communities.iter().map(|known| seen(known, context)).collect();
            rows.replace_all(&communities);
            rows.put(&Synced { area: AREA.to_owned() });
        }
        (CommunityOperation::Show { .. }, CommunityAnswer::Community(community)) => rows.put(&seen(community, context)),
        _ => {}
    }
}

/// A community as stored: with its creator's best address.
fn seen(known: &KnownCommunity, context: &Context<'_>) -> KnownCommunity {
    let mut known = known.clone();
    known.community.created_by = known.community.created_by.map(|creator| context.best(&creator));
    known
}

/// There are no events for communities, only for their groups.
pub fn take(id: &Address, now: Option<&KnownCommunity>, rows: &mut Rows<'_>, context: &Context<'_>) {
    match now {
        Some(known) => rows.put(&seen(known, context)),
        None => rows.remove::<KnownCommunity>(id.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use model::community::{Community, CommunityChanges, SubGroup};
    use model::error::ErrorCode;
    use model::time::Timestamp;

    use super::*;
    use crate::projection::fixture::{Projection, address};
    use crate::projection::groups::tests::group;

    const COMMUNITY: &str = "1@g.example";
    const OTHER: &str = "2@g.example";
    const JOINED: &str = "3@g.example";
    const OPEN: &str = "4@g.example";
    /// A group of the channel that is in no community.
    const ALONE: &str = "5@g.example";

    fn community() -> KnownCommunity {
        let sub_group = |id: &str, joined| SubGroup {
            id: address(id),
            subject: "Part".to_owned(),
            is_announcement: false,
            joined,
            participant_count: None,
        };
        KnownCommunity {
            community: Community {
                id: address(COMMUNITY),
                subject: "Town".to_owned(),
                description: None,
                created_at: None,
                created_by: Some(address("25@lid")),
                announcement_group_id: None,
                group_count: 2,
                participant_count: None,
                member_add_groups: false,
                join_approval_mode: false,
            },
            groups: vec![sub_group(JOINED, true), sub_group(OPEN, false)],
        }
    }

    #[test]
    fn what_is_not_there_or_so_already_is_not_asked_of_the_network() {
        use ErrorCode::{NoOp, NotFound};
        let change = |id: &str, subject: &str| CommunityOperation::Change {
            community: address(id),
            changes: CommunityChanges { subject: Some(subject.to_owned()), ..CommunityChanges::default() },
        };
        let add = |group: &str| CommunityOperation::AddGroup { community: address(COMMUNITY), group: address(group) };
        let remove =
            |group: &str| CommunityOperation::RemoveGroup { community: address(COMMUNITY), group: address(group) };
        let join = |group: &str| CommunityOperation::JoinGroup { community: address(COMMUNITY), group: address(group) };
        let create = |group: &str| CommunityOperation::Create {
            subject: "New".to_owned(),
            description: None,
            groups: vec![address(group)],
        };
        let table = [
            (change(COMMUNITY, "City"), None),
            (change(COMMUNITY, "Town"), Some(NoOp)),
            (change(OTHER, "Town"), Some(NotFound)),
            (create(ALONE), None),
            (create(OTHER), Some(NotFound)),
            (add(ALONE), None),
            (add(OPEN), Some(NoOp)),
            (add(OTHER), Some(NotFound)),
            (remove(OPEN), None),
            (remove(ALONE), Some(NoOp)),
            (join(OPEN), None),
            (join(JOINED), Some(NoOp)),
            (join(ALONE), Some(NotFound)),
            (CommunityOperation::Deactivate { community: address(OTHER) }, Some(NotFound)),
        ];
        Projection::new().knowing("25@lid", "1555@s.example").at(Timestamp(0), |rows, context| {
            rows.put(&group(ALONE, &[]));
            take(&address(COMMUNITY), Some(&community()), rows, context);
            for (operation, code) in table {
                let refused = check(&operation, rows).map_err(|error| error.code).err();
                assert_eq!(refused, code, "{operation:?}");
            }
            let known: Option<KnownCommunity> = rows.get(COMMUNITY);
            let creator = known.and_then(|known| known.community.created_by);
            assert_eq!(creator, Some(address("1555@s.example")));
            take(&address(COMMUNITY), None, rows, context);
            assert!(!rows.has::<KnownCommunity>(COMMUNITY));
        });
    }
}
