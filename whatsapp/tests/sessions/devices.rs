//! Other devices: of somebody whom the channel writes with, and of its own account. Each is a session of its own here, or a client
//! that is the library and nothing else.

use buffa::MessageField;
use model::address::Address;
use model::id::MessageId;
use model::media::MediaKind;
use model::message::{ContactCard, Content, MessageKey, Quoted, Surroundings};
use network::driver::{InboundKind, InboundMessage, Outbound, Purpose, SessionEvent};
use serde_json::{Value, json};
use wacore::download::{Downloadable, MediaType};
use wacore::poll::{PollVoteCiphertext, compute_option_hash};
use wacore::types::events::Event;
use wacore_binary::Jid;
use waproto::whatsapp as wa;
use waproto::whatsapp::message;
use waproto::whatsapp::message::protocol_message::Type;
use whatsapp_rust::send::RevokeType;
use whatsapp_rust::upload::UploadOptions;

use crate::client::TestClient;
use crate::control::Control;
use crate::groups::make;
use crate::media::{content, download, upload};
use crate::world::{CHANNEL, FRIEND, Line, World, friend, until};

const BYTES: &[u8] = b"the same bytes";

fn channel() -> Address {
    Address::parse(&format!("{CHANNEL}@s.whatsapp.net")).unwrap()
}

fn jid(address: &Address) -> Jid {
    address.as_str().parse().unwrap()
}

/// Links another device, with a state of its own, to a phone.
async fn link(world: &mut World, phone: &str) -> Line {
    let of_the_channel = std::mem::take(&mut world.store);
    let (mut line, raw) = world.begin_pairing().await;
    world.post(&format!("/phones/{phone}/link"), json!({ "raw": raw })).await;
    line.until(|event| matches!(event, SessionEvent::LoggedIn(_)).then_some(())).await;
    world.store = of_the_channel;
    line
}

/// Links a client that is the library and nothing else to a phone.
async fn library(world: &World, phone: &str) -> TestClient {
    let mut client = TestClient::new(world.net.chat_address()).await;
    client.pair(&Control { address: world.net.control_address() }, phone).await;
    client
}

fn text(text: &str) -> Content {
    Content::Text { text: text.into() }
}

/// Reads until a text of somebody else comes. What a former owner has read may come again before it.
async fn reads(line: &mut Line, text: &str) {
    while line.message().await.1 != text {}
}

/// Reads until something comes that another device of the same account has sent to somebody.
async fn sees(line: &mut Line, to: &Address, said: &Content) {
    line.until(|event| match event {
        SessionEvent::Inbound(item) => match &item.kind {
            InboundKind::OwnMessage(message) => (message.chat == *to && message.content == *said).then_some(()),
            _ => None,
        },
        _ => None,
    })
    .await;
}

/// Reads until a message comes, and says whether it is the channel's own.
async fn of_id(line: &mut Line, id: &str) -> (bool, InboundMessage) {
    line.until(|event| match event {
        SessionEvent::Inbound(item) => match &item.kind {
            InboundKind::Message(message) if message.id.as_str() == id => Some((false, message.clone())),
            InboundKind::OwnMessage(message) if message.id.as_str() == id => Some((true, message.clone())),
            _ => None,
        },
        _ => None,
    })
    .await
}

/// Nothing that the network checks was wrong.
async fn assert_sound(world: &World) -> Value {
    let crypto = world.get("/crypto").await;
    for list in ["key_reuse", "prekey_conflicts", "prekey_unknown_rows", "body_conflicts", "foreign_acks", "two_live"] {
        assert_eq!(crypto[list], json!([]), "{list} of {crypto}");
    }
    assert_eq!(crypto["undecryptable"], json!(0), "{crypto}");
    crypto
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_of_both_sides_that_are_linked_meanwhile_read_everything_and_are_read() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    line.send("3EB0A1", "to the phone").await;
    line.accepted("3EB0A1").await;
    let mut theirs = link(&mut world, FRIEND).await;
    let mut ours = link(&mut world, CHANNEL).await;
    let group = make(&mut line, &[FRIEND]).await;
    // The owner that knew the devices' names, and the next one.
    for round in 0..2 {
        for (place, to) in [friend(), group.clone()].into_iter().enumerate() {
            let id = format!("3EB0B{round}{place}");
            line.send_to(to.clone(), &id, text(&id)).await;
            line.accepted(&id).await;
            reads(&mut theirs, &id).await;
            sees(&mut ours, &to, &text(&id)).await;
        }
        for (place, to) in [channel(), group.clone()].into_iter().enumerate() {
            let id = format!("3EB0C{round}{place}");
            theirs.send_to(to.clone(), &id, text(&id)).await;
            theirs.accepted(&id).await;
            reads(&mut line, &id).await;
            reads(&mut ours, &id).await;
        }
        let id = format!("3EB0D{round}");
        ours.send_to(friend(), &id, text(&id)).await;
        ours.accepted(&id).await;
        sees(&mut line, &friend(), &text(&id)).await;
        reads(&mut theirs, &id).await;
        if round == 0 {
            line = world.take_over(line).await;
        }
    }
    // All that the channel's account wrote: to the phone, to both places in each round, and by its other device.
    until("the phone reads it", async || (world.inbox().await.len() == 7).then_some(())).await;
    let crypto = assert_sound(&world).await;
    assert_eq!(crypto["retry_receipts"], json!(0), "{crypto}");
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_that_are_linked_while_the_channel_is_away_read_what_it_writes_at_once() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let group = make(&mut line, &[FRIEND]).await;
    // From here on the devices of both sides are known, and who has the group's key.
    for (id, to) in [("3EB0A1", friend()), ("3EB0A2", group.clone())] {
        line.send_to(to, id, text(id)).await;
        line.accepted(id).await;
    }
    line.session.drain().await;
    let (theirs, ours) = (library(&world, FRIEND).await, library(&world, CHANNEL).await);
    let mut line = world.open(Purpose::Login).await;
    line.logged_in().await;
    for (id, to) in [("3EB0B1", friend()), ("3EB0B2", group)] {
        line.send_to(to, id, text(id)).await;
        line.accepted(id).await;
        for device in [&theirs, &ours] {
            assert_eq!(device.message(id).await, id);
        }
    }
    assert_sound(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_account_s_phone_does_with_what_the_channel_wrote_comes_as_the_channel_s_own() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let group = make(&mut line, &[FRIEND]).await;
    let write = async |body: Value| world.post(&format!("/phones/{CHANNEL}/messages"), body).await;
    for (place, chat) in [friend(), group].into_iter().enumerate() {
        let (first, poll) = (format!("3EB0A{place}"), format!("3EB0B{place}"));
        let options = vec!["you".to_owned(), "me".to_owned()];
        let asked = Content::Poll { name: "Who?".into(), options, selectable_count: 1 };
        for (id, content) in [(&first, text("said")), (&poll, asked)] {
            line.send_to(chat.clone(), id, content).await;
            line.accepted(id).await;
        }
        let target = |id: &str| MessageKey { id: MessageId(id.into()), from_me: true, remote_jid: chat.clone() };
        write(json!({ "type": "reaction", "to": chat, "emoji": "👍", "message_key": { "id": first } })).await;
        sees(&mut line, &chat, &Content::Reaction { target: target(&first), emoji: "👍".into() }).await;
        write(json!({ "type": "poll_vote", "to": chat, "selected": ["me"], "message_key": { "id": poll } })).await;
        sees(&mut line, &chat, &Content::PollVote { target: target(&poll), selected: vec!["me".into()] }).await;
        write(json!({ "type": "delete", "to": chat, "message_key": { "id": first } })).await;
        sees(&mut line, &chat, &Content::Delete { target: target(&first), by_admin: false }).await;
    }
    assert_sound(&world).await;
}

/// What a message of the library's says.
fn says(message: &wa::Message) -> Value {
    let about = |key: &MessageField<wa::MessageKey>| key.as_option().and_then(|key| key.id.clone());
    if let Some(text) = message.extended_text_message.as_option() {
        let context = text.context_info.as_option();
        let quoted = context.and_then(|context| context.stanza_id.clone());
        let mentions = context.map(|context| context.mentioned_jid.clone());
        return json!({ "text": text.text, "quoted": quoted, "mentions": mentions });
    }
    if let Some(location) = message.location_message.as_option() {
        return json!({ "location": [location.degrees_latitude, location.degrees_longitude], "name": location.name });
    }
    if let Some(contact) = message.contact_message.as_option() {
        return json!({ "contact": contact.display_name, "vcard": contact.vcard });
    }
    if let Some(reaction) = message.reaction_message.as_option() {
        return json!({ "reaction": reaction.text, "about": about(&reaction.key) });
    }
    if let Some(protocol) = message.protocol_message.as_option() {
        let edited = protocol.edited_message.as_option().and_then(|edited| edited.conversation.clone());
        let deletes = protocol.r#type == Some(Type::REVOKE);
        return json!({ "edited": edited, "deletes": deletes, "about": about(&protocol.key) });
    }
    if let Some(poll) = message.poll_creation_message_v3.as_option() {
        let options: Vec<_> = poll.options.iter().map(|option| option.option_name.clone()).collect();
        return json!({ "poll": poll.name, "options": options });
    }
    json!({ "text": message.conversation })
}

/// What the channel sends about a text of its own, and what is read of it.
fn about_a_text(chat: &Address, id: &str) -> Vec<(Content, Surroundings, Value)> {
    let target = || MessageKey { id: MessageId(id.into()), from_me: true, remote_jid: chat.clone() };
    let quoted = Quoted { message_id: MessageId(id.into()), from: channel(), text: Some("said".into()) };
    let around = Surroundings { quoted: Some(quoted), mentions: vec![friend()], ..Surroundings::default() };
    let (name, address) = (Some("Here".to_owned()), None);
    let location = Content::Location { latitude: 47.5, longitude: 8.25, name, address, live: false };
    let vcard = "BEGIN:VCARD\nVERSION:3.0\nFN:Ann\nEND:VCARD";
    let contacts = vec![ContactCard { name: "Ann".into(), vcard: vcard.into(), phones: Vec::new() }];
    let plain = Surroundings::default;
    vec![
        (text("because"), around, json!({ "text": "because", "quoted": id, "mentions": [friend()] })),
        (location, plain(), json!({ "location": [47.5, 8.25], "name": "Here" })),
        (Content::Contact { contacts }, plain(), json!({ "contact": "Ann", "vcard": vcard })),
        (Content::Reaction { target: target(), emoji: "👍".into() }, plain(), json!({ "reaction": "👍", "about": id })),
        (
            Content::Edit { target: target(), text: "mended".into() },
            plain(),
            json!({ "edited": "mended", "deletes": false, "about": id }),
        ),
        (
            Content::Delete { target: target(), by_admin: false },
            plain(),
            json!({ "edited": null, "deletes": true, "about": id }),
        ),
    ]
}

/// What votes on a poll are opened with, as a device has it.
async fn secret_of(device: &TestClient, poll: &str) -> Vec<u8> {
    let message = device.content(poll).await;
    message.message_context_info.as_option().and_then(|context| context.message_secret.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_channel_sends_the_library_reads_on_devices_of_both_sides_and_votes_are_read_everywhere() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let (theirs, ours) = (library(&world, FRIEND).await, library(&world, CHANNEL).await);
    let group = make(&mut line, &[FRIEND]).await;
    // Each chat as the channel's side and as the other one names it.
    for (place, (chat, to_them)) in [(friend(), channel()), (group.clone(), group)].into_iter().enumerate() {
        let first = format!("3EB0A{place}");
        line.send_to(chat.clone(), &first, text("said")).await;
        line.accepted(&first).await;
        for device in [&theirs, &ours] {
            assert_eq!(device.message(&first).await, "said");
        }
        for (n, (content, around, wanted)) in about_a_text(&chat, &first).into_iter().enumerate() {
            let (id, to) = (format!("3EB0B{place}{n}"), chat.clone());
            line.session.send(Outbound { id: MessageId(id.clone()), to, content, around }).await.unwrap();
            line.accepted(&id).await;
            for device in [&theirs, &ours] {
                assert_eq!(says(device.content(&id).await.as_ref()), wanted);
            }
        }
        for (n, kind) in [MediaKind::Image, MediaKind::Document].into_iter().enumerate() {
            let id = format!("3EB0C{place}{n}");
            let handle = upload(&line, kind, BYTES).await;
            line.send_to(chat.clone(), &id, content(kind, handle)).await;
            line.accepted(&id).await;
            for device in [&theirs, &ours] {
                let message = device.content(&id).await;
                let media: &dyn Downloadable = match kind {
                    MediaKind::Image => message.image_message.as_option().unwrap(),
                    _ => message.document_message.as_option().unwrap(),
                };
                assert_eq!(device.client.download(media).await.unwrap(), BYTES);
            }
        }
        let poll = format!("3EB0D{place}");
        let options = vec!["now".to_owned(), "later".to_owned()];
        let asked = Content::Poll { name: "When?".into(), options: options.clone(), selectable_count: 1 };
        line.send_to(chat.clone(), &poll, asked).await;
        line.accepted(&poll).await;
        let secret = secret_of(&theirs, &poll).await;
        assert_eq!(secret_of(&ours, &poll).await, secret);
        assert_eq!(says(ours.content(&poll).await.as_ref()), json!({ "poll": "When?", "options": options }));
        let (creator, voters) = (jid(&channel()), [(&theirs, friend(), &to_them), (&ours, channel(), &chat)]);
        for ((device, voter, to), selected) in voters.into_iter().zip(options) {
            let selection = [selected.clone()];
            let polls = device.client.polls();
            let vote = Box::pin(polls.vote(jid(to), &poll, &creator, &secret, &selection)).await.unwrap().message_id;
            let (is_own, told) = of_id(&mut line, &vote).await;
            assert_eq!(is_own, voter == channel());
            let Content::PollVote { target, selected: named } = told.content else { panic!("{:?}", told.content) };
            assert_eq!((target.id.as_str(), target.from_me, named), (poll.as_str(), true, selection.to_vec()));
            let other = if is_own { &theirs } else { &ours };
            let read = other.content(&vote).await;
            let sealed = read.poll_update_message.as_option().unwrap().vote.as_option().unwrap();
            let (payload, iv) = (sealed.enc_payload.as_deref().unwrap(), sealed.enc_iv.as_deref().unwrap());
            let sealed = PollVoteCiphertext { enc_payload: payload, enc_iv: iv };
            let opened = other.client.polls().decrypt_vote(sealed, &secret, &poll, &creator, &jid(&voter)).await;
            assert_eq!(opened.unwrap(), [compute_option_hash(&selected).to_vec()]);
        }
        // What the other device of the account gets is of the account, and in the chat that it went to.
        let source = |event: &Event| {
            let said = event.messages().find(|said| said.info.id == poll.as_str())?;
            Some((said.info.source.is_from_me, said.info.source.chat.to_string()))
        };
        assert_eq!(ours.event("the poll", source).await, (true, chat.to_string()));
    }
    assert_sound(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_library_sends_on_another_device_of_the_account_comes_as_the_channel_s_own() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let ours = library(&world, CHANNEL).await;
    let group = make(&mut line, &[FRIEND]).await;
    let write = async |body: Value| {
        let ids = world.post(&format!("/phones/{FRIEND}/messages"), body).await;
        ids["ids"][0].as_str().unwrap().to_owned()
    };
    for (chat, to_us) in [(friend(), channel()), (group.clone(), group)] {
        let (to, in_group) = (jid(&chat), chat == to_us);
        let target = |id: &str, from_me| MessageKey { id: MessageId(id.into()), from_me, remote_jid: chat.clone() };
        let said = |text: &str| wa::Message { conversation: Some(text.into()), ..Default::default() };

        let sent = ours.client.send_message(to.clone(), said("said")).await.unwrap().message_id;
        let (is_own, told) = of_id(&mut line, &sent).await;
        assert_eq!((is_own, told.chat, told.from, told.content), (true, chat.clone(), channel(), text("said")));

        let theirs = write(json!({ "type": "text", "to": to_us, "text": "of the phone" })).await;
        assert_eq!(of_id(&mut line, &theirs).await.1.content, text("of the phone"));
        let key = wa::MessageKey {
            remote_jid: Some(to.to_string()),
            from_me: Some(false),
            id: Some(theirs.clone()),
            participant: in_group.then(|| friend().to_string()),
        };
        Box::pin(ours.client.send_reaction(to.clone(), key, "👍")).await.unwrap();
        sees(&mut line, &chat, &Content::Reaction { target: target(&theirs, false), emoji: "👍".into() }).await;
        Box::pin(ours.client.edit_message(to.clone(), sent.clone(), said("mended"))).await.unwrap();
        sees(&mut line, &chat, &Content::Edit { target: target(&sent, true), text: "mended".into() }).await;
        Box::pin(ours.client.revoke_message(to.clone(), sent.clone(), RevokeType::Sender)).await.unwrap();
        sees(&mut line, &chat, &Content::Delete { target: target(&sent, true), by_admin: false }).await;

        let up = ours.client.upload(BYTES.to_vec(), MediaType::Image, UploadOptions::default()).await.unwrap();
        let image = message::ImageMessage {
            mimetype: Some("image/png".into()),
            direct_path: Some(up.direct_path),
            media_key: Some(up.media_key.to_vec()),
            file_sha256: Some(up.file_sha256.to_vec()),
            file_enc_sha256: Some(up.file_enc_sha256.to_vec()),
            file_length: Some(up.file_length),
            ..Default::default()
        };
        let image = wa::Message { image_message: MessageField::some(image), ..Default::default() };
        let sent = ours.client.send_message(to.clone(), image).await.unwrap().message_id;
        let (is_own, told) = of_id(&mut line, &sent).await;
        assert_eq!((is_own, told.content.media_kind()), (true, Some(MediaKind::Image)));
        let handle = told.content.media().and_then(|media| media.handle.clone()).unwrap();
        assert_eq!(download(&line, &handle).await.unwrap(), BYTES);

        // A poll of somebody, in which that device votes, and one of its own, in which somebody does.
        let options = ["you".to_owned(), "me".to_owned()];
        let poll = write(json!({ "type": "poll", "to": to_us, "name": "Who?", "options": options })).await;
        of_id(&mut line, &poll).await;
        let (creator, secret) = (jid(&friend()), secret_of(&ours, &poll).await);
        let polls = ours.client.polls();
        Box::pin(polls.vote(to.clone(), &poll, &creator, &secret, &options[..1])).await.unwrap();
        let selected = options[..1].to_vec();
        sees(&mut line, &chat, &Content::PollVote { target: target(&poll, false), selected }).await;
        let poll = Box::pin(polls.create(to.clone(), "And?", &options, 1)).await.unwrap().0.message_id;
        let (is_own, told) = of_id(&mut line, &poll).await;
        assert!(is_own && matches!(told.content, Content::Poll { .. }), "{told:?}");
        let inbox = format!("/phones/{FRIEND}/inbox?id={poll}");
        until("the phone has it", async || (world.get(&inbox).await["total"] == json!(1)).then_some(())).await;
        let vote = json!({ "type": "poll_vote", "to": to_us, "selected": ["me"], "message_key": { "id": poll } });
        let vote = write(vote).await;
        let (is_own, told) = of_id(&mut line, &vote).await;
        assert!(!is_own, "{told:?}");
        let Content::PollVote { target, selected } = told.content else { panic!("{:?}", told.content) };
        assert_eq!((target.id.as_str(), target.from_me, selected), (poll.as_str(), true, vec!["me".to_owned()]));
    }
    assert_sound(&world).await;
}
