//! Requests about groups.

use model::address::Address;
use model::group::{
    AddedReason, Group, GroupChanges, GroupOrigin, GroupPreview, JoinRequest, JoinStatus, Joined, ParticipantAction,
    ParticipantResult, ParticipantStatus, RemovedReason,
};
use network::notice::{GroupNews, News};
use network::operation::groups::{GroupAnswer, GroupOperation};
use network::operation::picture::Picture;
use network::operation::{Refused, RefusedKind};
use wacore_binary::{Jid, JidExt};
use whatsapp_rust::features::{
    GroupCreateOptions, GroupDescription, GroupError, GroupMetadata, GroupParticipantOptions, GroupSubject,
    JoinGroupResult, MemberAddMode, MembershipApprovalMode, ParticipantChangeResponse, PreviousDescription,
};

use super::{Answered, Asked, Before, CONFLICT, Outcome, jid, outcome};
use crate::inbound::groups::{creator, renew, shown, whole, with_add_modes};
use crate::inbound::message::address;

/// The address that answers for all groups.
const ALL_GROUPS: &str = "g.us";

/// How far the network's clock may be behind.
const CLOCKS_DIFFER: std::time::Duration = std::time::Duration::from_secs(60);

impl Asked<'_> {
    pub(super) async fn groups(&self, operation: GroupOperation) -> Answered<GroupAnswer> {
        let groups = self.client.groups();
        match operation {
            GroupOperation::List => {
                let (mine, modes) =
                    with_add_modes(self.client, ALL_GROUPS, groups.get_participating()).await.map_err(outcome)?;
                Ok(GroupAnswer::Groups(mine.values().filter_map(|group| shown(group, &modes)).collect()))
            }
            GroupOperation::Show { group } => self.show_group(&jid(&group)?).await.map(GroupAnswer::Group),
            GroupOperation::Create { subject, participants } => self.create_group(&subject, participants).await,
            GroupOperation::Change { group, changes } => {
                let at = jid(&group)?;
                self.change_group(&group, &at, changes).await?;
                self.show_group(&at).await.map(GroupAnswer::Group)
            }
            GroupOperation::SetPicture { group, picture } => self.set_group_picture(&jid(&group)?, picture).await,
            GroupOperation::Participants { group, action, participants } => {
                self.change_participants(group, action, participants).await.map(GroupAnswer::Participants)
            }
            GroupOperation::Leave { group } => {
                match groups.leave(jid(&group)?).await.map_err(outcome) {
                    Err(Outcome::Refused(refused)) if self.is_again() && matches!(refused.code, 403 | 404) => {}
                    left => left?,
                }
                let participants = self.own.phone().cloned().into_iter().collect();
                self.tell_of(0, group, GroupNews::Removed { participants, reason: RemovedReason::Left });
                Ok(GroupAnswer::Done)
            }
            GroupOperation::Invite { group } => self.invite(&group, false).await,
            // Revoked again on a retry, too: it cannot be seen whether the present code was made for this request, and
            // nobody was told that code.
            GroupOperation::RevokeInvite { group } => self.invite(&group, true).await,
            GroupOperation::Preview { invite_code } => {
                let shown = groups.get_invite_info(&invite_code).await.map_err(outcome)?;
                preview(&shown).map(GroupAnswer::Preview)
            }
            GroupOperation::Join { invite_code } => self.join_group(&invite_code).await.map(GroupAnswer::Joined),
            GroupOperation::JoinRequests { group } => {
                let waiting = groups.get_membership_requests(jid(&group)?).await.map_err(outcome)?;
                let shown = waiting.into_iter().filter_map(|request| {
                    Some(JoinRequest {
                        id: address(&request.jid)?,
                        lid: address(&request.jid).filter(|_| request.jid.is_lid()),
                        requested_at: request.request_time.and_then(|at| at.try_into().ok()).unwrap_or_default(),
                    })
                });
                Ok(GroupAnswer::JoinRequests(shown.collect()))
            }
            GroupOperation::DecideRequests { group, approve, participants } => {
                let (at, named) = (jid(&group)?, jids(&participants)?);
                let decided = if approve {
                    groups.approve_membership_requests(&at, &named).await
                } else {
                    groups.reject_membership_requests(&at, &named).await
                };
                // On a retry, people who no longer wait were decided on by the first attempt.
                let is_done = |code: u16| self.is_again() && code == 404;
                let results = results(&participants, &named, &decided.map_err(outcome)?, is_done);
                let let_in = done(&results);
                if approve && !let_in.is_empty() {
                    // Reported before the renewal, which may fail without a retry. If there is one, the same item id
                    // marks the repeat.
                    let news = GroupNews::Added { participants: let_in, reason: AddedReason::Approved };
                    self.tell_of(0, group, news);
                    self.renew(&at).await?;
                }
                Ok(GroupAnswer::Participants(results))
            }
        }
    }

    fn tell_of(&self, part: u8, group: Address, news: GroupNews) {
        self.tell(part, News::Group { group, news });
    }

    /// Queries the group's members again. If that gets no answer, the request has none: the next message queries the
    /// members first, and the next session begins without cached groups.
    async fn renew(&self, group: &Jid) -> Answered<()> {
        renew(self.client, group).await.map_err(|_| Outcome::Open)
    }

    async fn show_group(&self, group: &Jid) -> Answered<Group> {
        whole(self.client, group).await.map_err(outcome)?.ok_or_else(nameless)
    }

    /// Sets or removes a group's picture. The network makes the preview.
    async fn set_group_picture(&self, group: &Jid, picture: Option<Picture>) -> Answered<GroupAnswer> {
        let groups = self.client.groups();
        let there = async || self.client.contacts().get_profile_picture(group, false).await.map_err(outcome);
        let Some(picture) = picture else {
            if there().await?.is_some() {
                groups.remove_profile_picture(group).await.map_err(outcome)?;
            } else if !self.is_again() {
                let refused = Refused::new(CONFLICT, "the group has no picture");
                return Err(Outcome::Refused(refused.of(RefusedKind::Conflict)));
            }
            return Ok(GroupAnswer::Picture { picture_url: None });
        };
        groups.set_profile_picture(group, picture.full.to_vec()).await.map_err(outcome)?;
        let unshown = || Outcome::Refused(Refused::new(0, "the picture is set, and the network does not show it yet"));
        let picture_url = there().await?.ok_or_else(unshown)?.url;
        Ok(GroupAnswer::Picture { picture_url: Some(picture_url) })
    }

    async fn create_group(&self, subject: &str, participants: Vec<Address>) -> Answered<GroupAnswer> {
        let named = jids(&participants)?;
        let made = match self.made_before(subject).await? {
            Some(made) => made,
            None => {
                let options = GroupCreateOptions {
                    participants: named.iter().map(|named| GroupParticipantOptions::new(named.clone())).collect(),
                    ..GroupCreateOptions::builder().subject(subject).build()
                };
                self.client.groups().create_group(options).await.map_err(outcome)?.metadata
            }
        };
        let group = self.show_group(&made.id).await?;
        let results = participants.iter().zip(&named).map(|(asked, named)| {
            let told = made.participants.iter().find(|told| is_same(named, &told.jid, told.phone_number.as_ref()));
            let id = told.and_then(|told| address(told.phone_number.as_ref().unwrap_or(&told.jid)));
            let is_in = id.is_some_and(|id| group.participants.iter().any(|member| member.id == id));
            let status = if is_in { ParticipantStatus::Ok } else { ParticipantStatus::Failed };
            ParticipantResult { id: asked.clone(), status, message: None, invite_code: None }
        });
        let participants_result = results.collect();
        let entered = GroupNews::Entered { group: Box::new(group.clone()), origin: GroupOrigin::Created };
        self.tell_of(0, group.id.clone(), entered);
        Ok(GroupAnswer::Created { group, participants_result })
    }

    /// The group that an earlier session created for this request.
    async fn made_before(&self, subject: &str) -> Answered<Option<GroupMetadata>> {
        let Before::Asked(at) = self.before else { return Ok(None) };
        let not_before = at.minus(CLOCKS_DIFFER).unix_seconds();
        let mine = self.client.groups().get_participating().await.map_err(outcome)?;
        let made = mine.into_values().find(|group| {
            let creator = group.creator_pn.as_ref().or(group.creator.as_ref()).and_then(address);
            group.subject == subject
                && creator.is_some_and(|creator| self.own.is(&creator))
                && group.creation_time.and_then(|time| i64::try_from(time).ok()) >= Some(not_before)
        });
        Ok(made)
    }

    /// Sends one request for each change, in order. The first refusal ends this; changes made until then are reported.
    async fn change_group(&self, group: &Address, at: &Jid, changes: GroupChanges) -> Answered<()> {
        let mut done = GroupChanges::default();
        let asked = self.change_one_by_one(at, changes, &mut done).await;
        if !done.is_empty() {
            self.tell_of(0, group.clone(), GroupNews::Changed(done));
        }
        asked
    }

    async fn change_one_by_one(&self, at: &Jid, changes: GroupChanges, done: &mut GroupChanges) -> Answered<()> {
        let groups = self.client.groups();
        let GroupChanges { subject, description, announce, restrict, member_add_mode, join_approval_mode, ephemeral } =
            changes;
        if let Some(subject) = subject {
            let asked = GroupSubject::new(subject.as_str()).map_err(|error| wrong(&error))?;
            groups.set_subject(at, asked).await.map_err(outcome)?;
            done.subject = Some(subject);
        }
        if let Some(text) = description {
            let asked = Some(text.as_str()).filter(|text| !text.is_empty()).map(GroupDescription::new);
            let asked = asked.transpose().map_err(|error| wrong(&error))?;
            match groups.set_description(at, asked, PreviousDescription::Resolve).await {
                Err(GroupError::DescriptionConflict) => {
                    let refused = Refused::new(CONFLICT, "the description was changed elsewhere");
                    return Err(Outcome::Refused(refused.of(RefusedKind::Conflict)));
                }
                set => set.map_err(outcome)?,
            }
            done.description = Some(text);
        }
        if let Some(on) = announce {
            groups.set_announce(at, on).await.map_err(outcome)?;
            done.announce = Some(on);
        }
        if let Some(on) = restrict {
            groups.set_locked(at, on).await.map_err(outcome)?;
            done.restrict = Some(on);
        }
        if let Some(all) = member_add_mode {
            let mode = if all { MemberAddMode::AllMemberAdd } else { MemberAddMode::AdminAdd };
            groups.set_member_add_mode(at, mode).await.map_err(outcome)?;
            done.member_add_mode = Some(all);
        }
        if let Some(on) = join_approval_mode {
            let mode = if on { MembershipApprovalMode::On } else { MembershipApprovalMode::Off };
            groups.set_membership_approval(at, mode).await.map_err(outcome)?;
            done.join_approval_mode = Some(on);
        }
        if let Some(seconds) = ephemeral {
            groups.set_ephemeral(at, seconds).await.map_err(outcome)?;
            done.ephemeral = Some(seconds);
        }
        Ok(())
    }

    async fn change_participants(
        &self,
        group: Address,
        action: ParticipantAction,
        participants: Vec<Address>,
    ) -> Answered<Vec<ParticipantResult>> {
        let (groups, at, named) = (self.client.groups(), jid(&group)?, jids(&participants)?);
        let answered = match action {
            ParticipantAction::Add => groups.add_participants(at, &named).await,
            ParticipantAction::Remove => groups.remove_participants(at, &named).await,
            ParticipantAction::Promote => groups.promote_participants(at, &named).await,
            ParticipantAction::Demote => groups.demote_participants(at, &named).await,
        };
        // On a retry, a state that exists already was reached by the first attempt.
        let is_done = |code: u16| match action {
            ParticipantAction::Add => self.is_again() && matches!(code, 408 | 409),
            ParticipantAction::Remove => self.is_again() && code == 404,
            ParticipantAction::Promote | ParticipantAction::Demote => false,
        };
        let mut results = results(&participants, &named, &answered.map_err(outcome)?, is_done);
        if action != ParticipantAction::Add {
            // Somebody whom the network does not find is not a member.
            let unknown = results.iter_mut().filter(|result| result.status == ParticipantStatus::NotFound);
            unknown.for_each(|result| result.status = ParticipantStatus::NotMember);
        }
        let participants = done(&results);
        if !participants.is_empty() {
            let news = match action {
                ParticipantAction::Add => GroupNews::Added { participants, reason: AddedReason::Added },
                ParticipantAction::Remove => GroupNews::Removed { participants, reason: RemovedReason::Removed },
                ParticipantAction::Promote => GroupNews::Promoted { participants },
                ParticipantAction::Demote => GroupNews::Demoted { participants },
            };
            self.tell_of(0, group, news);
        }
        Ok(results)
    }

    async fn invite(&self, group: &Address, renew: bool) -> Answered<GroupAnswer> {
        let link = self.client.groups().get_invite_link(jid(group)?, renew).await.map_err(outcome)?;
        let invite_code = link.rsplit('/').next().unwrap_or(&link).to_owned();
        Ok(GroupAnswer::Invite { invite_code })
    }

    async fn join_group(&self, invite_code: &str) -> Answered<Joined> {
        let groups = self.client.groups();
        let group = match groups.join_with_invite_code(invite_code).await.map_err(outcome) {
            Ok(JoinGroupResult::Joined(group)) => group,
            Ok(JoinGroupResult::PendingApproval(group)) => {
                // The network may return another name of the group.
                let id = match address(&group) {
                    Some(id) if group.is_group() => id,
                    _ => preview(&groups.get_invite_info(invite_code).await.map_err(outcome)?)?.id,
                };
                return Ok(Joined { id, status: JoinStatus::PendingApproval });
            }
            Err(Outcome::Refused(refused)) if self.is_again() && refused.code == CONFLICT => {
                groups.get_invite_info(invite_code).await.map_err(outcome)?.id
            }
            Err(outcome) => return Err(outcome),
        };
        self.renew(&group).await?;
        let group = self.show_group(&group).await?;
        let id = group.id.clone();
        self.tell_of(0, id.clone(), GroupNews::Entered { group: Box::new(group), origin: GroupOrigin::Joined });
        Ok(Joined { id, status: JoinStatus::Joined })
    }
}

fn nameless() -> Outcome {
    Outcome::Refused(Refused::new(0, "the network names the group in a way that is not known"))
}

fn wrong(error: &anyhow::Error) -> Outcome {
    Outcome::Refused(Refused::new(400, error.to_string()))
}

fn jids(addresses: &[Address]) -> Answered<Vec<Jid>> {
    addresses.iter().map(jid).collect()
}

fn preview(group: &GroupMetadata) -> Answered<GroupPreview> {
    let members = u32::try_from(group.participants.len()).unwrap_or(u32::MAX);
    Ok(GroupPreview {
        id: address(&group.id).ok_or_else(nameless)?,
        subject: group.subject.clone(),
        description: group.description.clone().filter(|text| !text.is_empty()),
        created_at: group.creation_time.and_then(|at| at.try_into().ok()),
        created_by: creator(group),
        size: group.size.unwrap_or(members),
        announce: group.is_announcement,
        join_approval_mode: group.membership_approval,
    })
}

/// Whether a participant of the request is a participant of the answer.
fn is_same(named: &Jid, told: &Jid, phone: Option<&Jid>) -> bool {
    [Some(told), phone].into_iter().flatten().any(|told| told.user == named.user && told.server == named.server)
}

fn results(
    asked: &[Address],
    named: &[Jid],
    answered: &[ParticipantChangeResponse],
    is_done: impl Fn(u16) -> bool,
) -> Vec<ParticipantResult> {
    let mut taken = vec![false; answered.len()];
    let result = |(asked, named): (&Address, &Jid)| {
        let of_one =
            |(_, told): &(usize, &ParticipantChangeResponse)| is_same(named, &told.jid, told.phone_number.as_ref());
        // A participant named twice may have two answers.
        let next = answered.iter().enumerate().filter(of_one).find(|(place, _)| !taken[*place]);
        let told = next.or_else(|| answered.iter().enumerate().find(of_one)).map(|(place, told)| {
            taken[place] = true;
            told
        });
        let status = match told {
            Some(told) if told.add_request.is_some() => ParticipantStatus::InviteRequired,
            Some(told) => match told.error.as_deref().map(|code| code.parse().unwrap_or(0)) {
                None => ParticipantStatus::Ok,
                Some(code) if is_done(code) => ParticipantStatus::Ok,
                Some(code) => status(code),
            },
            // Without any entries the network means success for all; a single missing entry is a failure.
            None if answered.is_empty() => ParticipantStatus::Ok,
            None => ParticipantStatus::Failed,
        };
        let invite_code = told.and_then(|told| told.add_request.as_ref()).map(|request| request.code.to_string());
        ParticipantResult { id: asked.clone(), status, message: None, invite_code }
    };
    asked.iter().zip(named).map(result).collect()
}

fn status(code: u16) -> ParticipantStatus {
    match code {
        200 => ParticipantStatus::Ok,
        401 => ParticipantStatus::Blocked,
        403 => ParticipantStatus::NotAuthorized,
        404 => ParticipantStatus::NotFound,
        408 | CONFLICT => ParticipantStatus::AlreadyMember,
        429 => ParticipantStatus::RateLimited,
        _ => ParticipantStatus::Failed,
    }
}

/// The participants with status `ok`.
fn done(results: &[ParticipantResult]) -> Vec<Address> {
    let well = results.iter().filter(|result| result.status == ParticipantStatus::Ok);
    well.map(|result| result.id.clone()).collect()
}
