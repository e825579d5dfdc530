//! Tests of repeated inbound messages, and of messages that only look repeated.

use traffic::item::InboundMessage;

use super::*;
use crate::command::ProjectedWrite;
use crate::machine::project::NOTICED;
use crate::projection::Kind;
use crate::sameness;

fn from(author: &str, id: &str) -> MessageRow {
    let author = Address::parse(author).unwrap();
    MessageRow {
        chat: author.clone(),
        from: author.clone(),
        from_resolved: !author.is_lid(),
        from_lid: author.is_lid().then(|| author.clone()),
        from_phone: (!author.is_lid()).then_some(author),
        ..row(id, Direction::Inbound)
    }
}

fn receive(rig: &mut Rig, row: &MessageRow) -> Reply {
    let (event, _) = event(EventName::MessageReceived);
    rig.run(Command::Receive { customer: CUSTOMER, message: NewMessage::of(row), event })
}

/// The same message, repeated by the network: with its own row id.
fn again(row: &MessageRow) -> MessageRow {
    MessageRow { id: RowId::new(), ..row.clone() }
}

fn texts(rig: &Rig, id: &str) -> usize {
    sameness::all(rig.view(), CHANNEL, &MessageId(id.into())).len()
}

#[test]
fn a_message_is_a_repeat_only_where_chat_author_and_id_are_the_same() {
    let mut rig = Rig::connected();
    let group = Address::parse("120363025246125486@g.example").unwrap();
    let own = from("1555@s.example", "A");
    let in_group = MessageRow { chat: group, is_group: true, ..own.clone() };
    let strangers = from("1666@s.example", "A");
    for message in [&strangers, &own, &in_group] {
        assert_eq!(receive(&mut rig, message), Reply::Done);
    }
    for message in [&in_group, &own, &strangers] {
        assert_eq!(receive(&mut rig, &again(message)), Reply::Unchanged);
    }
    assert_eq!(texts(&rig, "A"), 3);
}

#[test]
fn before_the_third_format_the_id_alone_tells_a_repeat_and_what_is_stored_then_is_known_after_it() {
    let mut rig = Rig { format: Format::SECOND, ..Rig::connected() };
    let (first, other) = (from("1666@s.example", "A"), from("1555@s.example", "A"));
    assert_eq!(receive(&mut rig, &first), Reply::Done);
    assert_eq!(receive(&mut rig, &other), Reply::Unchanged);
    rig.format = Format::THIRD;
    assert_eq!(receive(&mut rig, &again(&first)), Reply::Unchanged);
    assert_eq!(receive(&mut rig, &other), Reply::Done);
    assert_eq!(receive(&mut rig, &again(&other)), Reply::Unchanged);
}

#[test]
fn a_repeat_is_known_after_its_authors_phone_number_became_known() {
    let mut rig = Rig::connected();
    let (lid, phone) = (Address::parse("25@lid").unwrap(), Address::parse("1555@s.example").unwrap());
    let strangers = from("1666@s.example", "B");
    let (first, second) = (from("25@lid", "A"), from("25@lid", "B"));
    for message in [&first, &strangers, &second] {
        assert_eq!(receive(&mut rig, message), Reply::Done);
    }
    let (event, _) = event(EventName::ContactResolved);
    rig.run(Command::LearnLid { channel: CHANNEL, lid: lid.clone(), phone: phone.clone(), at: Timestamp(1), event });
    for id in ["A", "B"] {
        let resolved = MessageRow { from_lid: Some(lid.clone()), ..from("1555@s.example", id) };
        assert_eq!(receive(&mut rig, &resolved), Reply::Unchanged, "{id}");
        assert_eq!(receive(&mut rig, &from("1555@s.example", id)), Reply::Unchanged, "{id} by the phone number alone");
    }
}

#[test]
fn a_stranger_does_not_say_what_an_undecryptable_message_was() {
    let mut rig = Rig::connected();
    let unread = MessageRow {
        content: Content::Undecryptable { reason: model::message::UndecryptableReason::Waiting },
        ..from("1555@s.example", "A")
    };
    assert_eq!(receive(&mut rig, &unread), Reply::Done);
    let recover = |row: &MessageRow| {
        let row = MessageRow { id: unread.id, occurred_at: unread.occurred_at, ..row.clone() };
        let (event, _) = event(EventName::MessageReceived);
        Command::Recover { customer: CUSTOMER, message: NewMessage::of(&row), event }
    };
    let strangers = MessageRow { id: RowId::new(), ..from("1666@s.example", "A") };
    let (event, _) = event(EventName::MessageReceived);
    let forged = Command::Recover { customer: CUSTOMER, message: NewMessage::of(&strangers), event };
    assert_eq!(rig.run(forged), Reply::Done);
    let stored =
        |rig: &Rig| -> MessageRow { decode(&rig.get(&keys::message(CHANNEL, unread.occurred_at, unread.id)).unwrap()) };
    assert_eq!(stored(&rig), unread);
    let text = from("1555@s.example", "A");
    assert_eq!(rig.run(recover(&text)), Reply::Done);
    assert_eq!(stored(&rig).content, text.content);
}

#[test]
fn messages_of_one_id_expire_one_by_one_and_what_is_left_is_still_known() {
    let mut rig = Rig::connected();
    let rows: Vec<MessageRow> = ["1@s.example", "2@s.example", "3@s.example"].map(|author| from(author, "A")).into();
    rows.iter().for_each(|row| assert_eq!(receive(&mut rig, row), Reply::Done));
    for (gone, row) in rows.iter().enumerate() {
        let rows_of_step = vec![(row.occurred_at, row.id)];
        rig.run(Command::Expire(Expire::Messages { channel: CHANNEL, rows: rows_of_step }));
        assert_eq!(texts(&rig, "A"), rows.len() - gone - 1);
        for left in &rows[gone + 1..] {
            assert_eq!(receive(&mut rig, &again(left)), Reply::Unchanged, "after {gone}");
        }
    }
    assert_eq!(rig.count(keys::namesakes(CHANNEL, &MessageId("A".into()))), 0);
    assert_eq!(receive(&mut rig, &rows[0]), Reply::Done);
}

#[test]
fn each_of_many_messages_of_one_id_is_found_by_its_chat_and_author() {
    let mut rig = Rig::connected();
    let (id, group) = (MessageId("A".into()), Address::parse("120363025246125486@g.example").unwrap());
    let of_author = |n: usize| {
        let direct = from(&format!("15550{n:02}@s.example"), "A");
        let in_group = MessageRow { id: RowId::new(), chat: group.clone(), is_group: true, ..direct.clone() };
        [direct, in_group]
    };
    let rows: Vec<MessageRow> = (0..20).flat_map(of_author).collect();
    rows.iter().for_each(|row| assert_eq!(receive(&mut rig, row), Reply::Done));
    assert_eq!(sameness::pointers(rig.view(), CHANNEL, &id).count(), rows.len());
    let found = |chat: &Address, author: Option<&Address>| {
        sameness::in_chat(rig.view(), CHANNEL, &id, chat, author).map(|found| found.id)
    };
    for row in &rows {
        assert_eq!(found(&row.chat, Some(&row.from)), Some(row.id));
        let comes_again = InboundMessage {
            id: id.clone(),
            chat: row.chat.clone(),
            from: row.from.clone(),
            from_phone: None,
            to: row.to.clone(),
            push_name: None,
            content: row.content.clone(),
            around: Default::default(),
        };
        assert_eq!(sameness::known(rig.view(), CHANNEL, &comes_again).map(|known| known.id), Some(row.id));
    }
    let direct = rows.iter().filter(|row| !row.is_group);
    direct.for_each(|row| assert_eq!(found(&row.chat, None), Some(row.id)));
    assert!(rows.iter().any(|row| row.is_group && found(&group, None) == Some(row.id)));
    let nobody = Address::parse("1666@s.example").unwrap();
    assert_eq!((found(&nobody, None), found(&group, Some(&nobody))), (None, None));
}

#[test]
fn a_message_among_many_of_its_id_is_found_under_its_authors_phone_number_once_that_is_known() {
    let mut rig = Rig::connected();
    let (lid, phone) = (Address::parse("25@lid").unwrap(), Address::parse("1555@s.example").unwrap());
    for n in 0..20 {
        // Their keys sort before the key of the wanted one.
        assert_eq!(receive(&mut rig, &from(&format!("10{n:02}@s.example"), "A")), Reply::Done);
    }
    let wanted = from("25@lid", "A");
    assert_eq!(receive(&mut rig, &wanted), Reply::Done);
    let found = |rig: &Rig| sameness::in_chat(rig.view(), CHANNEL, &wanted.message_id, &phone, None).map(|row| row.id);
    assert_eq!(found(&rig), None);
    let (event, _) = event(EventName::ContactResolved);
    rig.run(Command::LearnLid { channel: CHANNEL, lid, phone: phone.clone(), at: Timestamp(1), event });
    assert_eq!(found(&rig), Some(wanted.id));
}

fn notice(id: &EventId, text: &str) -> Command {
    let (event, _) = event(EventName::CartUpdated);
    // Only a stream receives it.
    let streamed = Some(Streamed { home: 7, chat: model::payload::ChatType::None });
    let event = NewEvent { id: id.clone(), deliveries: Vec::new(), streamed, ..event };
    let write = ProjectedWrite { kind: Kind::Chat, id: "chat".into(), row: Some(Bytes::from(text.to_owned())) };
    Command::Project { channel: CHANNEL, customer: CUSTOMER, writes: vec![write], events: vec![event] }
}

#[test]
fn a_notice_that_comes_again_changes_nothing_and_is_told_once_though_another_has_undone_it() {
    let mut rig = Rig::connected();
    let ids: Vec<EventId> = (0..NOTICED + 1).map(|n| EventId::mint(Timestamp(n as i64), [0; 10])).collect();
    let relayed = |rig: &Rig| crate::stream::ring::relayed(&rig.state, 7, 0).len();
    let stored = |rig: &Rig| rig.get(&keys::projected(CHANNEL, Kind::Chat, "chat"));
    assert_eq!(rig.run(notice(&ids[0], "done")), Reply::Done);
    assert_eq!(rig.run(notice(&ids[1], "undone")), Reply::Done);
    for (id, text) in [(&ids[0], "done"), (&ids[1], "undone")] {
        assert_eq!(rig.run(notice(id, text)), Reply::Unchanged);
    }
    assert_eq!((relayed(&rig), stored(&rig)), (2, Some(b"undone".to_vec())));
    // As many notices are remembered as can be repeated, and a margin; one more evicts the oldest.
    ids[2..NOTICED].iter().for_each(|id| assert_eq!(rig.run(notice(id, "")), Reply::Done));
    assert_eq!(rig.run(notice(&ids[0], "")), Reply::Unchanged);
    assert_eq!(rig.run(notice(&ids[NOTICED], "")), Reply::Done);
    assert_eq!(rig.run(notice(&ids[1], "")), Reply::Unchanged);
    assert_eq!(rig.run(notice(&ids[0], "")), Reply::Done);
}
