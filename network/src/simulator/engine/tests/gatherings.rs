//! Groups and newsletters: who sends, receives and acknowledges.

use model::group::{Group, GroupChanges, ParticipantAction, ParticipantStatus, Rank};
use serde_json::json;

use super::contents::{key, messages};
use super::*;
use crate::driver::Receipt;
use crate::operation::Area;
use crate::operation::groups::{GroupAnswer, GroupOperation};
use crate::operation::newsletters::{NewsletterAnswer, NewsletterOperation};

const THIRD: &str = "15550000003";
const STRANGER: &str = "15550000004";

impl World {
    /// Runs a group operation as a phone.
    fn groups(&mut self, by: &str, operation: GroupOperation) -> Result<GroupAnswer, ControlError> {
        let now = self.now;
        let answer = self.call(|engine| engine.phone_operation(now, number_of(by), operation.into()));
        answer.map(|answer| GroupOperation::answer(answer).unwrap())
    }

    /// Runs a newsletter operation as a phone.
    fn newsletters(&mut self, by: &str, operation: NewsletterOperation) -> Result<NewsletterAnswer, ControlError> {
        let now = self.now;
        let answer = self.call(|engine| engine.phone_operation(now, number_of(by), operation.into()));
        answer.map(|answer| NewsletterOperation::answer(answer).unwrap())
    }

    /// A group of channel, friend and a third member, created by the friend.
    fn group(&mut self) -> Address {
        self.register(THIRD, PhoneSettings::default());
        self.register(STRANGER, PhoneSettings::default());
        let participants = vec![address_of(CHANNEL), address_of(THIRD), address_of("19999999999")];
        let create = GroupOperation::Create { subject: "Friends".into(), participants };
        let GroupAnswer::Created { group, participants_result } = self.groups(FRIEND, create).unwrap() else {
            panic!("a group was made")
        };
        let outcomes: Vec<_> = participants_result.into_iter().map(|result| result.status).collect();
        assert_eq!(outcomes, [ParticipantStatus::Ok, ParticipantStatus::Ok, ParticipantStatus::NotFound]);
        group.id
    }

    fn shown_group(&mut self, viewer: &str, id: &Address) -> Result<Group, ControlError> {
        match self.groups(viewer, GroupOperation::Show { group: id.clone() })? {
            GroupAnswer::Group(group) => Ok(group),
            other => panic!("{other:?}"),
        }
    }

    fn change(&mut self, by: &str, group: &Address, changes: GroupChanges) -> Result<GroupAnswer, ControlError> {
        self.groups(by, GroupOperation::Change { group: group.clone(), changes })
    }
}

fn address_of(number: &str) -> Address {
    Address::parse(&format!("{number}@s.example")).unwrap()
}

fn receipts(frames: &[SessionFrame]) -> Vec<Receipt> {
    let receipts = items(frames).into_iter().filter_map(|item| match item.kind {
        InboundKind::Receipt(receipt) => Some(receipt),
        _ => None,
    });
    receipts.collect()
}

#[test]
fn a_group_message_reaches_every_member_and_each_acknowledges_it() {
    let mut world = World::new();
    let session = world.logged_in();
    let group = world.group().to_string();
    world.register(THIRD, PhoneSettings { hide_number: Some(true), ..Default::default() });
    assert_eq!(world.try_send(session, "A", &group, text("all")), Ok(()));
    assert_eq!((world.inbox_ids(FRIEND), world.inbox_ids(THIRD)), (vec!["A".into()], vec!["A".to_owned()]));
    assert!(world.inbox_ids(CHANNEL).is_empty());
    let now = world.now;
    world.call(|engine| engine.open_chat(now, number_of(THIRD), &group)).unwrap();
    let (lid, phone) = (number_of(THIRD).lid(), Address::parse(&friend()).unwrap());
    let expected =
        [(phone, ReceiptStatus::Delivered), (lid.clone(), ReceiptStatus::Delivered), (lid, ReceiptStatus::Read)];
    let heard = receipts(&world.take(session));
    assert!(heard.iter().all(|receipt| receipt.chat.as_str() == group));
    let heard: Vec<_> = heard.into_iter().map(|receipt| (receipt.participant.unwrap(), receipt.status)).collect();
    assert_eq!(heard, expected);
}

#[test]
fn a_channel_in_a_group_hears_the_members_by_the_names_they_show() {
    let mut world = World::new();
    let session = world.logged_in();
    let id = world.group();
    let group = id.to_string();
    world.register(THIRD, PhoneSettings { hide_number: Some(true), ..Default::default() });
    world.take(session);
    world.write(THIRD, json!({ "to": group, "type": "text", "text": "hi" }));
    world.write(FRIEND, json!({ "to": group, "type": "text", "text": "hi" }));
    let heard = messages(&world.take(session));
    let lid = number_of(THIRD).lid();
    assert_eq!((heard[0].from.as_str(), heard[1].from.as_str()), (lid.as_str(), friend().as_str()));
    for message in &heard {
        assert_eq!((message.chat.as_str(), message.to.as_str()), (group.as_str(), group.as_str()));
    }
    let members = world.shown_group(CHANNEL, &id).unwrap().participants;
    let ranks: Vec<_> = members.iter().map(|member| (member.id.as_str(), member.rank)).collect();
    let channel = format!("{CHANNEL}@s.example");
    assert_eq!(
        ranks,
        [(friend().as_str(), Rank::Creator), (channel.as_str(), Rank::Member), (lid.as_str(), Rank::Member)]
    );
}

#[test]
fn who_may_not_send_to_a_group_is_told_so() {
    let mut world = World::new();
    let session = world.logged_in();
    let id = world.group();
    let group = id.to_string();
    let announce = GroupChanges { announce: Some(true), ..Default::default() };
    assert!(world.change(CHANNEL, &id, announce.clone()).is_err());
    assert!(world.change(FRIEND, &id, announce).is_ok() && world.shown_group(THIRD, &id).unwrap().announce);
    assert_eq!(world.try_send(session, "A", &group, text("x")), Err(403));
    let promote = |by: &str, world: &mut World| {
        let (group, participants) = (id.clone(), vec![address_of(CHANNEL)]);
        world.groups(by, GroupOperation::Participants { group, action: ParticipantAction::Promote, participants })
    };
    assert!(promote(CHANNEL, &mut world).is_err());
    assert!(promote(FRIEND, &mut world).is_ok());
    assert_eq!(world.try_send(session, "B", &group, text("x")), Ok(()));
    let refused = world.try_write(THIRD, json!({ "to": group, "type": "text", "text": "x" }));
    assert!(matches!(refused, Err(ControlError::Invalid(_))), "{refused:?}");

    world.groups(CHANNEL, GroupOperation::Leave { group: id.clone() }).unwrap();
    assert_eq!(world.try_send(session, "C", &group, text("x")), Err(403));
    assert!(matches!(world.shown_group(CHANNEL, &id), Err(ControlError::NotFound(_))));
    assert_eq!(world.groups(CHANNEL, GroupOperation::List).unwrap(), GroupAnswer::Groups(Vec::new()));
    assert!(world.try_write(STRANGER, json!({ "to": group, "type": "text", "text": "x" })).is_err());
}

#[test]
fn an_admin_deletes_what_others_wrote_in_a_group() {
    let mut world = World::new();
    let session = world.logged_in();
    let group = world.group().to_string();
    let theirs = world.write(THIRD, json!({ "to": group, "type": "text", "text": "spam" }));
    let delete = Content::Delete { target: key(&theirs, false, &group), by_admin: false };
    assert_eq!(world.try_send(session, "A", &group, delete), Err(403));
    world.take(session);
    world.write(FRIEND, json!({ "type": "delete", "message_key": { "id": theirs } }));
    let deleted = messages(&world.take(session)).pop().unwrap();
    assert_eq!(deleted.content, Content::Delete { target: key(&theirs, false, &group), by_admin: true });
}

#[test]
fn a_newsletter_reaches_its_subscribers_from_its_admins_alone() {
    let mut world = World::new();
    let session = world.logged_in();
    let create = NewsletterOperation::Create { name: "News".into(), description: None, picture: None };
    let NewsletterAnswer::Newsletter(made) = world.newsletters(FRIEND, create).unwrap() else { panic!("it was made") };
    let (newsletter, id) = (made.id.clone(), made.id.to_string());
    world.newsletters(CHANNEL, NewsletterOperation::Subscribe { newsletter: newsletter.clone() }).unwrap();
    world.take(session);
    world.write(FRIEND, json!({ "to": id, "type": "text", "text": "today" }));
    let heard = messages(&world.take(session)).pop().unwrap();
    assert_eq!((heard.from.as_str(), heard.chat.as_str()), (id.as_str(), id.as_str()));
    assert_eq!(world.try_send(session, "A", &id, text("me too")), Err(403));
    let whom = address_of(CHANNEL);
    world.newsletters(FRIEND, NewsletterOperation::InviteAdmin { newsletter: newsletter.clone(), whom }).unwrap();
    assert_eq!(world.try_send(session, "A2", &id, text("me too")), Err(403));
    world.newsletters(CHANNEL, NewsletterOperation::AcceptAdmin { newsletter: newsletter.clone() }).unwrap();
    assert_eq!(world.try_send(session, "B", &id, text("me too")), Ok(()));
    assert_eq!(world.inbox_ids(FRIEND), ["B"]);
    assert!(receipts(&world.take(session)).is_empty(), "newsletters give no receipts");
    world.newsletters(CHANNEL, NewsletterOperation::Unsubscribe { newsletter }).unwrap();
    world.write(FRIEND, json!({ "to": id, "type": "text", "text": "tomorrow" }));
    assert!(messages(&world.take(session)).is_empty());
}
