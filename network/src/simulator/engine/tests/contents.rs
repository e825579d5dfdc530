//! Every type of message in both directions: content, addressing, and refusals.

use model::message::{Quoted, TYPE_NAMES};
use serde_json::{Value, json};

use super::*;
use crate::driver::InboundMessage;
use crate::simulator::answers::InboxRow;
use crate::simulator::bytes;

impl World {
    /// A phone sends a message; returns the ids or the refusal.
    pub(super) fn try_write(&mut self, from: &str, body: Value) -> Result<Vec<MessageId>, ControlError> {
        let message = serde_json::from_value(body).unwrap();
        let media = bytes::prepare(&message)?;
        let now = self.now;
        self.call(|engine| engine.phone_write(now, number_of(from), &message, media))
    }

    pub(super) fn write(&mut self, from: &str, body: Value) -> String {
        self.try_write(from, body).unwrap().remove(0).0
    }

    /// A channel sends a message; returns the immediate answer.
    pub(super) fn try_send(&mut self, session: SessionId, id: &str, to: &str, content: Content) -> Result<(), u16> {
        self.take(session);
        let (id, to) = (MessageId(id.into()), Address::parse(to).unwrap());
        let message = Outbound { id, to, content, around: Surroundings::default() };
        self.frame(session.connection, NodeFrame::send(session.number, message));
        match self.heard.get(&session).and_then(|heard| heard.first()) {
            Some(SessionFrame::Accepted { .. }) => Ok(()),
            Some(SessionFrame::Refused { code, .. }) => Err(*code),
            other => panic!("no answer but {other:?}"),
        }
    }

    pub(super) fn inbox(&self, number: &str) -> Vec<InboxRow> {
        self.engine.inbox(number_of(number), &InboxQuery::default()).unwrap().data
    }

    pub(super) fn logged_in(&mut self) -> SessionId {
        let credentials = self.pair(CHANNEL);
        self.login(1, 5, &credentials)
    }
}

pub(super) fn messages(frames: &[SessionFrame]) -> Vec<InboundMessage> {
    let inbound = items(frames).into_iter().filter_map(|item| match item.kind {
        InboundKind::Message(message) => Some(message),
        _ => None,
    });
    inbound.collect()
}

fn own_messages(frames: &[SessionFrame]) -> Vec<InboundMessage> {
    let inbound = items(frames).into_iter().filter_map(|item| match item.kind {
        InboundKind::OwnMessage(message) => Some(message),
        _ => None,
    });
    inbound.collect()
}

pub(super) fn key(id: &str, from_me: bool, chat: &str) -> MessageKey {
    MessageKey { id: MessageId(id.into()), from_me, remote_jid: Address::parse(chat).unwrap() }
}

fn channel() -> String {
    format!("{CHANNEL}@s.example")
}

#[test]
fn a_phone_may_choose_an_id_that_another_has_used_and_none_of_its_own() {
    let mut world = World::new();
    let session = world.logged_in();
    let other = "15550001009";
    world.register(other, PhoneSettings::default());
    let chosen = json!({ "to": CHANNEL, "type": "text", "text": "hi", "message_id": "3EB0CHOSEN" });
    for phone in [FRIEND, other] {
        assert_eq!(world.write(phone, chosen.clone()), "3EB0CHOSEN");
    }
    let ids: Vec<String> = messages(&world.take(session)).into_iter().map(|message| message.id.0).collect();
    assert_eq!(ids, ["3EB0CHOSEN", "3EB0CHOSEN"]);
    assert!(world.try_write(FRIEND, chosen).is_err());
}

#[test]
fn a_phone_writes_every_type_and_the_channel_reads_it() {
    let mut world = World::new();
    let session = world.logged_in();
    let first = world.write(FRIEND, json!({ "to": CHANNEL, "type": "text", "text": "hi" }));
    let poll = json!({ "to": CHANNEL, "type": "poll", "name": "?", "options": ["a", "b"] });
    let poll = world.write(FRIEND, poll);
    let target = json!({ "id": first });
    let bodies = [
        json!({ "type": "image", "media": { "size": 100 }, "caption": "c" }),
        json!({ "type": "video", "media": { "size": 100 } }),
        json!({ "type": "audio", "media": { "size": 100 }, "ptt": true }),
        json!({ "type": "document", "media": { "base64": "aGk=", "filename": "hi.txt" } }),
        json!({ "type": "sticker", "media": { "size": 100 } }),
        json!({ "type": "reaction", "message_key": target, "emoji": "👍" }),
        json!({ "type": "edit", "message_key": target, "text": "hello" }),
        json!({ "type": "delete", "message_key": target }),
        json!({ "type": "location", "latitude": 1.5, "longitude": 2.5 }),
        json!({ "type": "contact", "contacts": [{ "name": "Ann", "phones": ["15551"] }] }),
        json!({ "type": "pin", "message_key": target }),
        json!({ "type": "unpin", "message_key": target }),
        json!({ "type": "poll_vote", "message_key": { "id": poll }, "selected": ["a"] }),
        json!({ "type": "button_reply", "id": "1", "title": "One" }),
        json!({ "type": "list_reply", "id": "1", "title": "One" }),
        json!({ "type": "order", "order_id": "1" }),
        json!({ "type": "event", "name": "Party", "start_at": 1 }),
        json!({ "type": "undecryptable", "reason": "no_session" }),
        json!({ "type": "unknown", "raw_type": "new" }),
    ];
    world.take(session);
    for mut body in bodies {
        let name = body["type"].as_str().unwrap().to_owned();
        assert!(TYPE_NAMES.contains(&name.as_str()));
        body["to"] = json!(CHANNEL);
        let id = world.write(FRIEND, body);
        let heard = items(&world.take(session)).remove(0);
        world.acknowledge(session, &heard.id);
        let InboundKind::Message(message) = heard.kind else { panic!("{name}: {heard:?}") };
        assert_eq!((message.id.0, message.content.type_name()), (id, name.as_str()));
        if let Some(target) = message.content.target() {
            assert!(!target.from_me && target.remote_jid.as_str() == friend(), "{name}: {target:?}");
        }
    }
    let voice = world.inbox(CHANNEL).into_iter().find(|row| row.says["type"] == "audio").unwrap();
    assert_eq!(voice.says["media"]["voice"], true);
}

#[test]
fn what_the_phone_of_a_channel_writes_reaches_the_channel_as_its_own() {
    let mut world = World::new();
    let session = world.logged_in();
    world.send(session, "A", &friend());
    world.take(session);
    world.write(CHANNEL, json!({ "to": FRIEND, "type": "text", "text": "by hand" }));
    let reaction = json!({ "type": "reaction", "message_key": { "id": "A" }, "emoji": "👍" });
    world.write(CHANNEL, reaction);
    let own = own_messages(&world.take(session));
    assert_eq!(own[0].content, text("by hand"));
    for message in &own {
        assert_eq!((message.from.as_str(), message.chat.as_str()), (channel().as_str(), friend().as_str()));
    }
    assert_eq!(own[1].content.target(), Some(&key("A", true, &friend())));
    assert_eq!(world.inbox(FRIEND).len(), 3);
}

#[test]
fn a_target_is_named_as_each_side_sees_it() {
    let mut world = World::new();
    let session = world.logged_in();
    world.register(FRIEND, PhoneSettings { hide_number: Some(true), ..Default::default() });
    world.send(session, "A", &friend());
    let now = world.now;
    world.take(session);
    world.call(|engine| engine.react(now, number_of(FRIEND), "A", "❤")).unwrap();
    let heard = messages(&world.take(session));
    let lid = number_of(FRIEND).lid();
    let expected = Content::Reaction { target: key("A", true, lid.as_str()), emoji: "❤".into() };
    assert_eq!((&heard[0].content, &heard[0].chat), (&expected, &lid));

    // The channel replies to the LID, and the phone sees its own message referenced.
    let reaction = Content::Reaction { target: key(&heard[0].id.0, false, lid.as_str()), emoji: "x".into() };
    assert_eq!(world.try_send(session, "B", lid.as_str(), reaction), Err(400), "not to a reaction");
    let hers = world.write(FRIEND, json!({ "to": CHANNEL, "type": "text", "text": "hi" }));
    let reaction = Content::Reaction { target: key(&hers, false, lid.as_str()), emoji: "x".into() };
    assert_eq!(world.try_send(session, "C", lid.as_str(), reaction), Ok(()));
    let row = world.inbox(FRIEND).pop().unwrap();
    assert_eq!(row.says["message_key"], json!({ "id": hers, "from_me": true, "remote_jid": channel() }));
    assert_eq!(row.says["emoji"], "x");
}

#[test]
fn what_is_not_ones_own_is_not_edited_and_what_is_unknown_not_touched() {
    let mut world = World::new();
    let session = world.logged_in();
    let hers = world.write(FRIEND, json!({ "to": CHANNEL, "type": "text", "text": "hi" }));
    let location = json!({ "to": FRIEND, "type": "location", "latitude": 1, "longitude": 1 });
    world.send(session, "A", &friend());
    let place = world.write(CHANNEL, location);
    let edit = |id: &str| Content::Edit { target: key(id, true, &friend()), text: "x".into() };
    let delete = |id: &str| Content::Delete { target: key(id, true, &friend()), by_admin: true };
    let react = |id: &str| Content::Reaction { target: key(id, false, &friend()), emoji: "x".into() };
    let cases = [
        (edit("A"), Ok(())),
        (edit(&hers), Err(403)),
        (edit(&place), Err(400)),
        (edit("nothing"), Err(404)),
        (delete(&hers), Err(403)),
        (react("nothing"), Err(404)),
        (react(&hers), Ok(())),
        (Content::Star { target: key(&hers, false, &friend()) }, Ok(())),
        (Content::PollVote { target: key(&hers, false, &friend()), selected: vec![] }, Err(400)),
        (Content::Unknown { raw_type: "x".into() }, Err(400)),
    ];
    for (n, (content, expected)) in cases.into_iter().enumerate() {
        let name = format!("{content:?}");
        assert_eq!(world.try_send(session, &format!("T{n}"), &friend(), content), expected, "{name}");
    }
    // A star is private to the channel: its phone shows it, the friend receives nothing.
    let types = |rows: Vec<InboxRow>| rows.into_iter().map(|row| row.says["type"].clone()).collect::<Vec<_>>();
    assert_eq!(types(world.inbox(CHANNEL)), ["text", "star"]);
    assert_eq!(types(world.inbox(FRIEND)), ["text", "location", "edit", "reaction"]);

    world.pass(15 * 60_000 + 1);
    assert_eq!(world.try_send(session, "L1", &friend(), edit("A")), Err(410));
    assert_eq!(world.try_send(session, "L2", &friend(), delete("A")), Ok(()));
    let refused = world.try_write(FRIEND, json!({ "type": "edit", "message_key": { "id": "A" }, "text": "x" }));
    assert!(matches!(refused, Err(ControlError::Invalid(_))), "{refused:?}");
    let unknown = world.try_write(FRIEND, json!({ "type": "delete", "message_key": { "id": "nothing" } }));
    assert!(matches!(unknown, Err(ControlError::NotFound(_))), "{unknown:?}");
}

#[test]
fn an_edit_changes_no_row_and_is_one() {
    let mut world = World::new();
    let session = world.logged_in();
    world.send(session, "A", &friend());
    let edit = Content::Edit { target: key("A", true, &friend()), text: "better".into() };
    world.try_send(session, "B", &friend(), edit).unwrap();
    let rows = world.inbox(FRIEND);
    assert_eq!((&rows[0].says["text"], &rows[1].says["text"]), (&json!("hello"), &json!("better")));
    assert_eq!(rows[1].says["message_key"]["id"], "A");
    assert_eq!(rows[1].says["message_key"]["from_me"], false);
}

#[test]
fn what_could_not_be_read_comes_again_under_its_id() {
    let mut world = World::new();
    let session = world.logged_in();
    let id = world.write(FRIEND, json!({ "to": CHANNEL, "type": "undecryptable" }));
    let again = json!({ "to": CHANNEL, "type": "text", "text": "now", "recovers": id });
    assert_eq!(world.write(FRIEND, again.clone()), id);
    let heard = messages(&world.take(session));
    assert_eq!((&heard[0].id, heard[0].around.recovered), (&heard[1].id, false));
    assert!(heard[1].around.recovered && heard[1].content == text("now"));
    assert!(world.try_write(FRIEND, again).is_err(), "once only");
}

#[test]
fn what_stands_around_a_message_travels_with_it() {
    let mut world = World::new();
    let session = world.logged_in();
    world.register(FRIEND, PhoneSettings { hide_number: Some(true), ..Default::default() });
    let question = world.write(FRIEND, json!({ "to": CHANNEL, "type": "text", "text": "why?" }));
    let quote = json!({ "to": CHANNEL, "type": "text", "text": "see https://example.com/a", "quoted": { "id": question },
        "mentions": ["all", CHANNEL], "forwarded": true, "ephemeral_expiration": 60, "link_preview": true });
    world.write(FRIEND, quote);
    let around = messages(&world.take(session)).pop().unwrap().around;
    let quoted = around.quoted.unwrap();
    let lid = number_of(FRIEND).lid();
    assert_eq!((quoted.message_id.0.as_str(), &quoted.from, quoted.text.as_deref()), (&*question, &lid, Some("why?")));
    assert_eq!((around.mentions.len(), around.mentions_all, around.forwarded), (1, true, true));
    assert_eq!(around.ephemeral_expiration, Some(60));
    assert_eq!(around.link_preview.unwrap().url, "https://example.com/a");

    // In the other direction, the author of the quoted message is the phone itself.
    let quoted = Some(Quoted { message_id: MessageId(question), from: lid.clone(), text: Some("why?".into()) });
    let around = Surroundings { quoted, ..Default::default() };
    let message = Outbound { id: MessageId("A".into()), to: lid, content: text("because"), around };
    world.frame(session.connection, NodeFrame::send(session.number, message));
    let row = world.inbox(FRIEND).pop().unwrap();
    assert_eq!(row.says["quoted"]["from"], friend());
}

#[test]
fn a_message_names_media_that_the_network_has() {
    let mut world = World::new();
    let session = world.logged_in();
    let now = world.now;
    let stored = world.call(|engine| engine.finish_upload(now, session, [1; 32], Bytes::from_static(b"abc"))).unwrap();
    let media =
        |handle| model::media::Media { handle, size_bytes: Some(3), ..model::media::Media::of_type("image/png") };
    let image = |handle| Content::Image { media: media(handle), caption: Some("c".into()) };
    assert_eq!(world.try_send(session, "A", &friend(), image(None)), Err(404));
    assert_eq!(world.try_send(session, "B", &friend(), image(Some(stored.handle.clone()))), Ok(()));
    let row = world.inbox(FRIEND).pop().unwrap();
    assert_eq!((&row.says["caption"], &row.says["media"]["size"]), (&json!("c"), &json!(3)));
    world.pass(14 * 24 * 3_600_000);
    assert_eq!(world.try_send(session, "C", &friend(), image(Some(stored.handle))), Err(404));
}

#[test]
fn sounds_and_videos_are_played_once() {
    let mut world = World::new();
    let session = world.logged_in();
    let now = world.now;
    let stored = world.call(|engine| engine.finish_upload(now, session, [1; 32], Bytes::from_static(b"abc"))).unwrap();
    let media = model::media::Media { handle: Some(stored.handle), ..model::media::Media::of_type("audio/ogg") };
    world.try_send(session, "A", &friend(), Content::Audio { media }).unwrap();
    world.send(session, "B", &friend());
    world.take(session);
    let mut play = |id: &str| world.call(|engine| engine.play(now, number_of(FRIEND), id));
    play("A").unwrap();
    play("A").unwrap();
    assert!(matches!(play("B"), Err(ControlError::Invalid(_))));
    assert!(matches!(play("C"), Err(ControlError::NotFound(_))));
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Played]);
}
