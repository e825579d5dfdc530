//! Communities: rows of [`KnownCommunity`], kept up to date by notices (supplement 13). Their members are those of the
//! announcement group, which is a row of its own.

use model::address::Address;
use model::community::KnownCommunity;
use model::error::ApiError;
use model::group::Group;
use network::operation::Refused;
use network::operation::communities::{CommunityAnswer, CommunityOperation};

use super::{CONFLICT, Context, Entity, Kind, NOT_FOUND, Rows, Synced};

pub const AREA: &str = "communities";

impl Entity for KnownCommunity {
    const KIND: Kind = Kind::Community;

    fn id(&self) -> String {
        self.community.id.to_string()
    }
}

pub fn check(operation: &CommunityOperation, rows: &Rows<'_>) -> Result<(), ApiError> {
    let known = |id: &Address| rows.get::<KnownCommunity>(id.as_str()).ok_or_else(|| not_found(id));
    let no_group = |group: &Address| ApiError::not_found("group", group.as_str());
    let check_group = |group: &Address| if rows.has::<Group>(group.as_str()) { Ok(()) } else { Err(no_group(group)) };
    match operation {
        CommunityOperation::List | CommunityOperation::Show { .. } => Ok(()),
        CommunityOperation::Create { groups, .. } => groups.iter().try_for_each(check_group),
        CommunityOperation::Change { community, changes } => {
            if changes.hold_for(&known(community)?.community) {
                return Err(ApiError::no_op("the community is as it should be already"));
            }
            Ok(())
        }
        CommunityOperation::AddGroup { community, group } => match known(community)?.group(group) {
            Some(_) => Err(ApiError::no_op("the group is in the community already")),
            None => check_group(group),
        },
        CommunityOperation::RemoveGroup { community, group } => match known(community)?.group(group) {
            Some(_) => Ok(()),
            None => Err(ApiError::no_op("the group is not in the community")),
        },
        CommunityOperation::JoinGroup { community, group } => match known(community)?.group(group) {
            Some(known) if known.joined => Err(ApiError::no_op("the channel is in the group already")),
            Some(_) => Ok(()),
            None => Err(no_group(group)),
        },
        CommunityOperation::Deactivate { community }
        | CommunityOperation::CreateGroup { community, .. }
        | CommunityOperation::Participants { community, .. }
        | CommunityOperation::Invite { community }
        | CommunityOperation::RevokeInvite { community } => known(community).map(drop),
    }
}

fn not_found(id: &Address) -> ApiError {
    ApiError::not_found("community", id.as_str())
}

pub fn refusal(operation: &CommunityOperation, refused: &Refused) -> Option<ApiError> {
    match (operation, refused.code) {
        (CommunityOperation::Show { community }, NOT_FOUND) => Some(not_found(community)),
        (CommunityOperation::JoinGroup { .. }, CONFLICT) => {
            Some(ApiError::no_op("the channel is in the group already"))
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

/// A community as it is stored: its creator by the best address.
fn seen(known: &KnownCommunity, context: &Context<'_>) -> KnownCommunity {
    let mut known = known.clone();
    known.community.created_by = known.community.created_by.map(|creator| context.best(&creator));
    known
}

/// No event tells of communities; those of their groups do.
pub fn take(id: &Address, now: Option<&KnownCommunity>, rows: &mut Rows<'_>, context: &Context<'_>) {
    match now {
        Some(known) => rows.put(&seen(known, context)),
        None => rows.remove::<KnownCommunity>(id.as_str()),
    }
}
