//! What messages say, in both directions.

use model::address::Address;
use model::id::MessageId;
use model::message::{ContactCard, Content, MessageKey, Quoted, Surroundings};
use model::time::Timestamp;
use network::driver::{InboundKind, InboundMessage, Outbound, SessionEvent};
use serde_json::{Value, json};

use crate::world::{CHANNEL, FRIEND, Line, World, friend, until};

fn key(id: &str, from_me: bool) -> MessageKey {
    MessageKey { id: MessageId(id.into()), from_me, remote_jid: friend() }
}

fn text(text: &str) -> Content {
    Content::Text { text: text.into() }
}

fn card(name: &str) -> ContactCard {
    let vcard = format!("BEGIN:VCARD\nVERSION:3.0\nFN:{name}\nTEL;type=CELL;waid=4912345:+4912345\nEND:VCARD");
    ContactCard { name: name.into(), vcard, phones: vec!["4912345".into()] }
}

/// Each content under an id of its own, and what the phone then reads of it.
fn all() -> Vec<(Outbound, Value)> {
    let said_at = Some(Timestamp(1_700_000_000_000));
    let plain = Surroundings { said_at, ..Surroundings::default() };
    let quoted = Quoted { message_id: MessageId("3EB0T0".into()), from: friend(), text: Some("what?".into()) };
    let other = Address::parse("15550000003@s.whatsapp.net").unwrap();
    let around = Surroundings {
        quoted: Some(quoted),
        mentions: vec![other.clone()],
        forwarded: true,
        ..Surroundings::default()
    };
    let poll = Content::Poll { name: "When?".into(), options: vec!["now".into(), "later".into()], selectable_count: 1 };
    let location = Content::Location {
        latitude: 47.5,
        longitude: 8.25,
        name: Some("Here".into()),
        address: Some("1 Street".into()),
        live: false,
    };
    let contents = [
        (text("first"), plain.clone(), json!({ "type": "text", "text": "first" })),
        (
            text("because"),
            around,
            json!({
                "type": "text",
                "text": "because",
                "quoted": { "message_id": "3EB0T0", "from": friend(), "text": "what?" },
                "mentions": [other],
                "forwarded": true,
            }),
        ),
        (
            Content::Reaction { target: key("3EB0C00", true), emoji: "👍".into() },
            plain.clone(),
            json!({ "type": "reaction", "emoji": "👍", "message_key": { "id": "3EB0C00", "from_me": true } }),
        ),
        (
            Content::Edit { target: key("3EB0C00", true), text: "first, mended".into() },
            plain.clone(),
            json!({ "type": "edit", "text": "first, mended", "message_key": { "id": "3EB0C00" } }),
        ),
        (
            Content::Delete { target: key("3EB0C01", true), by_admin: false },
            plain.clone(),
            json!({ "type": "delete", "message_key": { "id": "3EB0C01" } }),
        ),
        (
            location,
            plain.clone(),
            json!({ "type": "location", "latitude": 47.5, "longitude": 8.25, "name": "Here", "address": "1 Street" }),
        ),
        (
            Content::Contact { contacts: vec![card("Ann")] },
            plain.clone(),
            json!({ "type": "contact", "contacts": [{ "name": "Ann", "vcard": card("Ann").vcard }] }),
        ),
        (
            Content::Contact { contacts: vec![card("Ann"), card("Ben")] },
            plain.clone(),
            json!({ "type": "contact", "contacts": [{ "name": "Ann" }, { "name": "Ben" }] }),
        ),
        (
            poll,
            plain.clone(),
            json!({ "type": "poll", "name": "When?", "options": ["now", "later"], "selectable_count": 1 }),
        ),
        (
            Content::Pin { target: key("3EB0C00", true), duration_seconds: 86_400 },
            plain.clone(),
            json!({ "type": "pin", "message_key": { "id": "3EB0C00" } }),
        ),
        (
            Content::Unpin { target: key("3EB0C00", true) },
            plain,
            json!({ "type": "unpin", "message_key": { "id": "3EB0C00" } }),
        ),
    ];
    let numbered = contents.into_iter().enumerate().map(|(n, (content, around, read))| {
        let id = MessageId(format!("3EB0C{n:02}"));
        (Outbound { id, to: friend(), content, around }, read)
    });
    numbered.collect()
}

/// Whether something says all of what is wanted.
fn says(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(name, wanted)| found.get(name).is_some_and(|found| says(wanted, found)))
        }
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(wanted, found)| says(wanted, found))
        }
        _ => wanted == found,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_reads_each_content_and_the_same_when_the_next_owner_sends_it_again() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    // Repeats reach the phone, which compares what each copy says.
    let (status, _) = world.call("PUT", "/faults", Some(json!({ "dedup": false }))).await;
    assert_eq!(status, 200);
    for (message, _) in all() {
        let id = message.id.to_string();
        line.session.send(message).await.unwrap();
        line.accepted(&id).await;
    }
    let mut line = world.take_over(line).await;
    for (message, _) in all() {
        let id = message.id.to_string();
        line.session.send(message).await.unwrap();
        line.accepted(&id).await;
    }
    let rows = until("the phone has each twice", async || {
        let inbox = world.get(&format!("/phones/{FRIEND}/inbox?limit=1000")).await;
        let rows = inbox["data"].as_array().unwrap().clone();
        (rows.len() == all().len() && rows.iter().all(|row| row["copies"] == 2)).then_some(rows)
    })
    .await;
    for ((message, wanted), row) in all().iter().zip(&rows) {
        assert_eq!(row["id"], json!(message.id));
        assert!(says(wanted, row), "{wanted} is read as {row}");
    }
    world.assert_clean().await;
}

async fn of_id(line: &mut Line, id: &str) -> InboundMessage {
    line.until(|event| match event {
        SessionEvent::Inbound(item) => match &item.kind {
            InboundKind::Message(message) if message.id.as_str() == id => Some(message.clone()),
            _ => None,
        },
        _ => None,
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_phone_writes_comes_as_what_it_is() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    line.send("3EB0A1", "of the channel").await;
    line.accepted("3EB0A1").await;
    until("the phone has it", async || (world.inbox().await.len() == 1).then_some(())).await;
    let write = async |body: Value| {
        let mut body = body;
        body["to"] = json!(CHANNEL);
        let ids = world.post(&format!("/phones/{FRIEND}/messages"), body).await;
        ids["ids"][0].as_str().unwrap().to_owned()
    };
    let theirs = write(json!({ "type": "text", "text": "of the phone" })).await;
    assert_eq!(of_id(&mut line, &theirs).await.content, text("of the phone"));
    let about = |id: &str, from_me| json!({ "id": id, "from_me": from_me });

    // The phone's own word for whose a message is turns into the channel's.
    let id = write(json!({ "type": "reaction", "emoji": "👍", "message_key": about("3EB0A1", false) })).await;
    let wanted = Content::Reaction { target: key("3EB0A1", true), emoji: "👍".into() };
    assert_eq!(of_id(&mut line, &id).await.content, wanted);
    let id = write(json!({ "type": "reaction", "emoji": "", "message_key": about(&theirs, true) })).await;
    let wanted = Content::Reaction { target: key(&theirs, false), emoji: String::new() };
    assert_eq!(of_id(&mut line, &id).await.content, wanted);
    let id = write(json!({ "type": "edit", "text": "mended", "message_key": about(&theirs, true) })).await;
    let wanted = Content::Edit { target: key(&theirs, false), text: "mended".into() };
    assert_eq!(of_id(&mut line, &id).await.content, wanted);
    let id = write(json!({ "type": "pin", "duration_seconds": 86_400, "message_key": about("3EB0A1", false) })).await;
    let pinned = of_id(&mut line, &id).await.content;
    assert!(matches!(&pinned, Content::Pin { target, .. } if *target == key("3EB0A1", true)), "{pinned:?}");
    let id = write(json!({ "type": "delete", "message_key": about(&theirs, true) })).await;
    let wanted = Content::Delete { target: key(&theirs, false), by_admin: false };
    assert_eq!(of_id(&mut line, &id).await.content, wanted);

    let id = write(json!({ "type": "text", "text": "yes", "quoted": about("3EB0A1", false), "forwarded": true })).await;
    let answered = of_id(&mut line, &id).await;
    let channel = Address::parse(&format!("{CHANNEL}@s.whatsapp.net")).unwrap();
    let quoted = answered.around.quoted.unwrap();
    assert_eq!((quoted.message_id.as_str(), quoted.from), ("3EB0A1", channel));
    assert!(answered.around.forwarded);
    let id = write(json!({ "type": "location", "latitude": 1.5, "longitude": 2.5, "name": "There" })).await;
    let there = of_id(&mut line, &id).await.content;
    assert!(
        matches!(&there, Content::Location { latitude: 1.5, name: Some(name), .. } if name == "There"),
        "{there:?}"
    );
    let id = write(json!({ "type": "contact", "contacts": [{ "name": "Ann", "phones": ["4912345"] }] })).await;
    let Content::Contact { contacts } = of_id(&mut line, &id).await.content else { panic!("no contact") };
    assert_eq!((contacts[0].name.as_str(), &contacts[0].phones[..]), ("Ann", &["4912345".to_owned()][..]));
    let poll = json!({ "type": "poll", "name": "When?", "options": ["now", "later"], "selectable_count": 1 });
    let id = write(poll).await;
    let wanted =
        Content::Poll { name: "When?".into(), options: vec!["now".into(), "later".into()], selectable_count: 1 };
    assert_eq!(of_id(&mut line, &id).await.content, wanted);
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn votes_are_opened_by_the_next_owner_too_under_either_name_of_the_channel() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let options = vec!["now".to_owned(), "later".to_owned()];
    let poll = Content::Poll { name: "When?".into(), options: options.clone(), selectable_count: 1 };
    line.send_to(friend(), "3EB0A1", poll).await;
    line.accepted("3EB0A1").await;
    let lid = Address::parse(world.get(&format!("/phones/{FRIEND}")).await["lid"].as_str().unwrap()).unwrap();
    let poll = Content::Poll { name: "Again?".into(), options, selectable_count: 1 };
    line.send_to(lid, "3EB0A2", poll).await;
    line.accepted("3EB0A2").await;
    until("the phone has both", async || (world.inbox().await.len() == 2).then_some(())).await;
    let theirs = json!({ "to": CHANNEL, "type": "poll", "name": "Who?", "options": ["you", "me"] });
    let ids = world.post(&format!("/phones/{FRIEND}/messages"), theirs).await;
    let theirs = ids["ids"][0].as_str().unwrap().to_owned();
    of_id(&mut line, &theirs).await;
    let mut line = world.take_over(line).await;
    for (poll, from_me, selected) in
        [("3EB0A1", true, "now"), ("3EB0A2", true, "later"), (theirs.as_str(), false, "me")]
    {
        let vote = json!({
            "to": CHANNEL, "type": "poll_vote", "selected": [selected], "message_key": { "id": poll },
        });
        let ids = world.post(&format!("/phones/{FRIEND}/messages"), vote).await;
        let said = of_id(&mut line, ids["ids"][0].as_str().unwrap()).await.content;
        let Content::PollVote { target, selected: named } = said else { panic!("{said:?}") };
        assert_eq!((target.id.as_str(), target.from_me, named), (poll, from_me, vec![selected.to_owned()]));
    }
    world.assert_clean().await;
}
