//! Notices of groups, and queries about them.

use std::collections::HashMap;
use std::time::Duration;

use model::address::Address;
use model::group::{AddedReason, Group, GroupChanges, GroupOrigin, GroupParticipant, Rank, RemovedReason};
use network::driver::{InboundItem, InboundKind, ItemId};
use network::notice::{GroupNews, News, Notice};
use wacore::stanza::groups::{GroupNotificationAction as Action, GroupParticipantInfo};
use wacore::types::events::GroupUpdate;
use wacore_binary::{Jid, NodeRef};
use whatsapp_rust::cache::Freshness;
use whatsapp_rust::features::{GroupError, GroupMetadata, GroupParticipant as Member, MemberAddMode};
use whatsapp_rust::{Client, ErrorChainExt, NodeFilter};

use super::best;
use super::message::{Own, address};

/// How long, and how often, a group that the channel has entered is queried. Later items wait for it.
const ASKED_FOR: Duration = Duration::from_secs(20);
const ASKED_EVERY: Duration = Duration::from_millis(500);

/// How long it may take to see the raw answer of a query that has returned.
const SEEN_WITHIN: Duration = Duration::from_millis(100);

/// The item of a group update; `None` if the gateway has no name for the change.
pub fn item(update: &GroupUpdate, own: &Own) -> Option<(Option<ItemId>, InboundKind)> {
    let group = address(&update.group_jid)?;
    let actor = update.participant.as_ref().and_then(|actor| best(actor, update.participant_pn.as_ref()));
    let news = news(&update.action, &group, actor.as_ref(), own)?;
    // The network's own number, so that a repeated notice has the same id.
    let id = update.notification_id.as_ref().map(|id| ItemId(format!("g/{group}/{id}/{}", update.action_index)));
    Some((id, InboundKind::Notice(Box::new(Notice { actor, news: News::Group { group, news } }))))
}

fn news(action: &Action, group: &Address, actor: Option<&Address>, own: &Own) -> Option<GroupNews> {
    let changed = |changes: GroupChanges| Some(GroupNews::Changed(changes));
    let usual = GroupChanges::default();
    match action {
        Action::Create { .. } => {
            let is_own = actor.is_some_and(|actor| own.is(actor));
            Some(entered(group, if is_own { GroupOrigin::Created } else { GroupOrigin::Added }))
        }
        Action::Add { participants, reason } => {
            let participants = named(participants);
            let by_invite = reason.as_deref() == Some("invite");
            if participants.iter().any(|added| own.is(added)) {
                return Some(entered(group, if by_invite { GroupOrigin::Joined } else { GroupOrigin::Added }));
            }
            let reason = if by_invite { AddedReason::InviteLink } else { AddedReason::Added };
            Some(GroupNews::Added { participants, reason })
        }
        Action::Remove { participants, .. } => {
            let participants = named(participants);
            let by_themselves = participants.len() == 1 && participants.first() == actor;
            let reason = if by_themselves { RemovedReason::Left } else { RemovedReason::Removed };
            Some(GroupNews::Removed { participants, reason })
        }
        Action::Delete { .. } => {
            let participants = own.phone().cloned().into_iter().collect();
            Some(GroupNews::Removed { participants, reason: RemovedReason::Removed })
        }
        Action::Promote { participants } => Some(GroupNews::Promoted { participants: named(participants) }),
        Action::Demote { participants } => Some(GroupNews::Demoted { participants: named(participants) }),
        Action::Subject { subject, .. } => changed(GroupChanges { subject: Some(subject.clone()), ..usual }),
        Action::Description { description, .. } => {
            changed(GroupChanges { description: Some(description.clone().unwrap_or_default()), ..usual })
        }
        Action::Locked { .. } => changed(GroupChanges { restrict: Some(true), ..usual }),
        Action::Unlocked => changed(GroupChanges { restrict: Some(false), ..usual }),
        Action::Announce => changed(GroupChanges { announce: Some(true), ..usual }),
        Action::NotAnnounce => changed(GroupChanges { announce: Some(false), ..usual }),
        Action::Ephemeral { expiration, .. } => changed(GroupChanges { ephemeral: Some(*expiration), ..usual }),
        Action::MembershipApprovalMode { enabled } => {
            changed(GroupChanges { join_approval_mode: Some(*enabled), ..usual })
        }
        Action::MemberAddMode { mode } => {
            changed(GroupChanges { member_add_mode: Some(mode == "all_member_add"), ..usual })
        }
        _ => None,
    }
}

fn named(participants: &[GroupParticipantInfo]) -> Vec<Address> {
    let named = |one: &GroupParticipantInfo| best(&one.jid, one.phone_number.as_ref());
    participants.iter().filter_map(named).collect()
}

/// The notice that the channel has entered a group, of which nothing else is known yet.
fn entered(group: &Address, origin: GroupOrigin) -> GroupNews {
    let bare = Group {
        id: group.clone(),
        subject: String::new(),
        description: None,
        created_at: None,
        created_by: None,
        participants: Vec::new(),
        invite_code: None,
        announce: false,
        restrict: false,
        ephemeral: 0,
        member_add_mode: false,
        join_approval_mode: false,
    };
    GroupNews::Entered { group: Box::new(bare), origin }
}

/// Queries a group that the channel has entered. Later items wait for it, so that their group is known. If the channel
/// has left it again, the notice stays without members, and the notice of the leave follows.
pub async fn complete(client: &Client, item: &mut InboundItem) {
    let InboundKind::Notice(notice) = &mut item.kind else { return };
    let News::Group { news: GroupNews::Entered { group, .. }, .. } = &mut notice.news else { return };
    if !group.participants.is_empty() {
        return;
    }
    let Ok(jid) = group.id.as_str().parse::<Jid>() else { return };
    let asked = async {
        loop {
            let known = async {
                renew(client, &jid).await?;
                whole(client, &jid).await
            };
            match known.await {
                Ok(Some(now)) => return **group = now,
                Ok(None) => return,
                Err(error) if error.server_rejection().is_some_and(|rejection| rejection.code < 500) => return,
                Err(error) => tracing::debug!(%error, group = %group.id, "a new group is not known yet"),
            }
            tokio::time::sleep(ASKED_EVERY).await;
        }
    };
    if tokio::time::timeout(ASKED_FOR, asked).await.is_err() {
        tracing::warn!(%jid, "a new group could not be fetched; it is fetched when somebody asks for it");
    }
}

/// Queries a group's members again. The library caches them, but does not learn of members whom the channel itself
/// admitted, nor of changes while it was out of the group; a member missing in the cache could not read messages.
///
/// # Errors
/// The network refuses or cannot be reached.
pub async fn renew(client: &Client, group: &Jid) -> Result<(), GroupError> {
    Box::pin(client.groups().query_info_with_freshness(group, Freshness::Refresh)).await.map(drop)
}

/// The current state of a group; `None` if the gateway has no name for it.
///
/// # Errors
/// The network refuses or cannot be reached.
pub async fn whole(client: &Client, group: &Jid) -> Result<Option<Group>, GroupError> {
    let groups = client.groups();
    let (known, modes) = with_add_modes(client, &group.to_string(), groups.get_metadata(group)).await?;
    Ok(shown(&known, &modes))
}

/// Whether all members of a group may add others, keyed by the user part of the group's address.
pub type AddModes = HashMap<String, bool>;

/// Runs a query of groups, and reads from the raw answer who may add members: the network encodes that as bytes, and
/// the library only reads text. `from` is the sender of the answer.
///
/// # Errors
/// Those of the query.
pub async fn with_add_modes<T, E>(
    client: &Client,
    from: &str,
    asked: impl Future<Output = Result<T, E>>,
) -> Result<(T, AddModes), E> {
    let answer = client.wait_for_node(NodeFilter::tag("iq").attr("type", "result").attr("from", from));
    let asked = asked.await?;
    let answer = tokio::time::timeout(SEEN_WITHIN, answer).await;
    let modes = answer.ok().and_then(Result::ok).map(|answer| add_modes(answer.get())).unwrap_or_default();
    Ok((asked, modes))
}

fn add_modes(answer: &NodeRef<'_>) -> AddModes {
    let groups = answer.get_optional_child("groups").map_or_else(|| answer.children(), NodeRef::children);
    let groups = groups.unwrap_or_default().iter().filter(|child| child.tag == "group");
    let mode = |group: &NodeRef<'_>| {
        let id = group.get_attr("id")?.as_str().split('@').next()?.to_owned();
        let mode = group.get_optional_child("member_add_mode")?.content_as_string()?;
        Some((id, mode == "all_member_add"))
    };
    groups.filter_map(mode).collect()
}

pub fn shown(group: &GroupMetadata, modes: &AddModes) -> Option<Group> {
    // A group without a mode has the default of new groups.
    let says = || group.member_add_mode.as_ref().is_none_or(|mode| *mode == MemberAddMode::AllMemberAdd);
    let member = |member: &Member| {
        let rank = match (member.is_super_admin(), member.is_admin()) {
            (true, _) => Rank::Creator,
            (false, true) => Rank::Admin,
            (false, false) => Rank::Member,
        };
        Some(GroupParticipant { id: address(member.phone_number.as_ref().unwrap_or(&member.jid))?, rank })
    };
    Some(Group {
        id: address(&group.id)?,
        subject: group.subject.clone(),
        description: group.description.clone().filter(|text| !text.is_empty()),
        created_at: group.creation_time.and_then(|at| at.try_into().ok()),
        created_by: creator(group),
        participants: group.participants.iter().filter_map(member).collect(),
        invite_code: None,
        announce: group.is_announcement,
        restrict: group.is_locked,
        ephemeral: group.ephemeral.as_ref().and_then(|ephemeral| ephemeral.expiration).unwrap_or(0),
        member_add_mode: modes.get(group.id.user.as_str()).copied().unwrap_or_else(says),
        join_approval_mode: group.membership_approval,
    })
}

pub fn creator(group: &GroupMetadata) -> Option<Address> {
    group.creator_pn.as_ref().or(group.creator.as_ref()).and_then(address)
}
