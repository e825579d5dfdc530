//! Contents of messages: converted to the gateway's send body, and built from the control API's.

use buffa::MessageField;
use model::id::MessageId;
use network::simulator::answers::writing::{GivenContact, GivenKey, PhoneBody};
use network::simulator::answers::{ControlError, PhoneMessage};
use serde_json::{Map, Value, json};
use wacore::poll::{compute_option_hash, encrypt_poll_vote_with_secret};
use waproto::whatsapp as wa;
use waproto::whatsapp::message;

use super::attachment::compose_media;
use super::{Chat, Phone};
use crate::control::{Refused, invalid};
use crate::media::Files;
use crate::number::{Naming, Number};

/// A message as an inbox row, without its id and parties.
pub fn says(message: &wa::Message) -> Map<String, Value> {
    let (mut said, context) = said(message);
    if let Some(context) = context {
        surroundings(&mut said, context);
    }
    match said {
        Value::Object(mut said) => {
            said.retain(|_, value| !value.is_null());
            said
        }
        _ => Map::new(),
    }
}

/// Whether a message has content for people, unlike keys and other protocol messages.
pub fn is_for_people(message: &wa::Message) -> bool {
    use message::protocol_message::Type;
    if wacore::messages::is_sender_key_distribution_only(&mut message.clone()) {
        return false;
    }
    match message.protocol_message.as_option().map(|protocol| protocol.r#type) {
        None => true,
        Some(kind) => matches!(kind, Some(Type::REVOKE | Type::MESSAGE_EDIT)),
    }
}

/// The text of a text message.
pub fn text(message: &wa::Message) -> Option<&str> {
    let extended = message.extended_text_message.as_option().and_then(|extended| extended.text.as_deref());
    message.conversation.as_deref().or(extended)
}

fn said(message: &wa::Message) -> (Value, Option<&wa::ContextInfo>) {
    if let Some(extended) = message.extended_text_message.as_option() {
        let mut said = json!({ "type": "text", "text": extended.text });
        if extended.title.is_some() || extended.description.is_some() {
            said["link_preview"] =
                json!({ "url": extended.matched_text, "title": extended.title, "description": extended.description });
        }
        return (said, extended.context_info.as_option());
    }
    if let Some(text) = &message.conversation {
        return (json!({ "type": "text", "text": text }), None);
    }
    if let Some(reaction) = message.reaction_message.as_option() {
        let said = json!({ "type": "reaction", "message_key": key(&reaction.key), "emoji": reaction.text });
        return (said, None);
    }
    if let Some(protocol) = message.protocol_message.as_option() {
        return (protocol_said(protocol), None);
    }
    if let Some(location) = message.location_message.as_option() {
        let said = json!({
            "type": "location",
            "latitude": location.degrees_latitude,
            "longitude": location.degrees_longitude,
            "name": location.name,
            "address": location.address,
            "live": location.is_live.unwrap_or(false),
        });
        return (said, location.context_info.as_option());
    }
    if let Some(contact) = message.contact_message.as_option() {
        let said = json!({ "type": "contact", "contacts": [shown_contact(contact)] });
        return (said, contact.context_info.as_option());
    }
    if let Some(contacts) = message.contacts_array_message.as_option() {
        let shown: Vec<Value> = contacts.contacts.iter().map(shown_contact).collect();
        return (json!({ "type": "contact", "contacts": shown }), contacts.context_info.as_option());
    }
    let polls = [&message.poll_creation_message, &message.poll_creation_message_v3];
    if let Some(poll) = polls.into_iter().find_map(|poll| poll.as_option()) {
        let options: Vec<&str> = poll.options.iter().filter_map(|option| option.option_name.as_deref()).collect();
        let said = json!({
            "type": "poll",
            "name": poll.name,
            "options": options,
            "selectable_count": poll.selectable_options_count,
        });
        return (said, poll.context_info.as_option());
    }
    if let Some(pin) = message.pin_in_chat_message.as_option() {
        let unpins = pin.r#type == Some(message::pin_in_chat_message::Type::UNPIN_FOR_ALL);
        return (json!({ "type": if unpins { "unpin" } else { "pin" }, "message_key": key(&pin.key) }), None);
    }
    media_said(message)
}

fn protocol_said(protocol: &message::ProtocolMessage) -> Value {
    use message::protocol_message::Type;
    match protocol.r#type {
        Some(Type::REVOKE) => json!({ "type": "delete", "message_key": key(&protocol.key) }),
        Some(Type::MESSAGE_EDIT) => {
            let text = protocol.edited_message.as_option().and_then(text);
            json!({ "type": "edit", "message_key": key(&protocol.key), "text": text })
        }
        _ => json!({ "type": "unknown", "raw_type": "protocolMessage" }),
    }
}

fn media_said(message: &wa::Message) -> (Value, Option<&wa::ContextInfo>) {
    if let Some(image) = message.image_message.as_option() {
        let media = media(image.mimetype.as_deref(), image.file_length, image.file_sha256.as_deref(), None);
        return (json!({ "type": "image", "caption": image.caption, "media": media }), image.context_info.as_option());
    }
    let videos = [(&message.video_message, false), (&message.ptv_message, true)];
    if let Some((video, note)) = videos.into_iter().find_map(|(video, note)| Some((video.as_option()?, note))) {
        let media = media(video.mimetype.as_deref(), video.file_length, video.file_sha256.as_deref(), None);
        let gif = video.gif_playback.unwrap_or(false);
        let said = json!({ "type": "video", "caption": video.caption, "gif": gif, "ptv": note, "media": media });
        return (said, video.context_info.as_option());
    }
    if let Some(audio) = message.audio_message.as_option() {
        let media = media(audio.mimetype.as_deref(), audio.file_length, audio.file_sha256.as_deref(), None);
        let said = json!({ "type": "audio", "ptt": audio.ptt.unwrap_or(false), "media": media });
        return (said, audio.context_info.as_option());
    }
    if let Some(document) = message.document_message.as_option() {
        let name = document.file_name.as_deref();
        let media = media(document.mimetype.as_deref(), document.file_length, document.file_sha256.as_deref(), name);
        let said = json!({ "type": "document", "caption": document.caption, "filename": name, "media": media });
        return (said, document.context_info.as_option());
    }
    if let Some(sticker) = message.sticker_message.as_option() {
        let media = media(sticker.mimetype.as_deref(), sticker.file_length, sticker.file_sha256.as_deref(), None);
        return (json!({ "type": "sticker", "media": media }), sticker.context_info.as_option());
    }
    (json!({ "type": "unknown" }), None)
}

fn media(mime_type: Option<&str>, size: Option<u64>, sha256: Option<&[u8]>, filename: Option<&str>) -> Value {
    json!({ "mime_type": mime_type, "size": size, "sha256": sha256.map(hex::encode), "filename": filename })
}

fn key(key: &MessageField<wa::MessageKey>) -> Value {
    let Some(key) = key.as_option() else { return Value::Null };
    let mut said = json!({ "id": key.id, "from_me": key.from_me.unwrap_or(false), "remote_jid": key.remote_jid });
    if let Some(author) = &key.participant {
        said["participant"] = json!(author);
    }
    said
}

fn shown_contact(contact: &message::ContactMessage) -> Value {
    json!({ "name": contact.display_name, "vcard": contact.vcard })
}

fn surroundings(said: &mut Value, context: &wa::ContextInfo) {
    if let Some(id) = &context.stanza_id {
        let text = context.quoted_message.as_option().and_then(text);
        said["quoted"] = json!({ "message_id": id, "from": context.participant, "text": text });
    }
    if !context.mentioned_jid.is_empty() {
        said["mentions"] = json!(context.mentioned_jid);
    }
    if context.non_jid_mentions.is_some_and(|count| count > 0) {
        said["mentions_all"] = json!(true);
    }
    if context.is_forwarded.unwrap_or(false) {
        said["forwarded"] = json!(true);
    }
    if let Some(seconds) = context.expiration {
        said["ephemeral_expiration"] = json!(seconds);
    }
}

/// Builds the message that a phone should send.
pub(crate) fn compose(
    me: Number,
    phone: &Phone,
    files: &mut Files,
    to: &Chat,
    body: &PhoneMessage,
) -> Result<wa::Message, Refused> {
    let context = context(phone, to, body)?;
    if let Some(message) = compose_media(files, body, context.clone())? {
        return Ok(message);
    }
    let target = || {
        let key = body.message_key.as_ref().ok_or_else(|| invalid("message_key is missing"))?;
        target_key(phone, to, key)
    };
    let mut message = wa::Message::default();
    match &body.body {
        PhoneBody::Text { text } => match context.into_option() {
            None => message.conversation = Some(text.clone()),
            context => {
                message.extended_text_message = MessageField::some(message::ExtendedTextMessage {
                    text: Some(text.clone()),
                    context_info: context.map(MessageField::some).unwrap_or_default(),
                    ..Default::default()
                });
            }
        },
        PhoneBody::Reaction { emoji } => return Ok(reaction(target()?, emoji)),
        PhoneBody::Edit { text } => {
            let edited = wa::Message { conversation: Some(text.clone()), ..Default::default() };
            message.protocol_message = MessageField::some(message::ProtocolMessage {
                key: MessageField::some(target()?),
                r#type: Some(message::protocol_message::Type::MESSAGE_EDIT),
                edited_message: MessageField::some(edited),
                timestamp_ms: Some(model::time::Timestamp::now().0),
                ..Default::default()
            });
        }
        PhoneBody::Delete => {
            message.protocol_message = MessageField::some(message::ProtocolMessage {
                key: MessageField::some(target()?),
                r#type: Some(message::protocol_message::Type::REVOKE),
                ..Default::default()
            });
        }
        PhoneBody::Location { latitude, longitude, name, address, live } => {
            message.location_message = MessageField::some(message::LocationMessage {
                degrees_latitude: Some(*latitude),
                degrees_longitude: Some(*longitude),
                name: name.clone(),
                address: address.clone(),
                is_live: Some(*live),
                context_info: context,
                ..Default::default()
            });
        }
        PhoneBody::Contact { contacts } => match contacts.as_slice() {
            [contact] => {
                let contact = message::ContactMessage { context_info: context, ..card(contact) };
                message.contact_message = MessageField::some(contact);
            }
            contacts => {
                message.contacts_array_message = MessageField::some(message::ContactsArrayMessage {
                    display_name: Some(format!("{} contacts", contacts.len())),
                    contacts: contacts.iter().map(card).collect(),
                    context_info: context,
                });
            }
        },
        PhoneBody::Poll { name, options, selectable_count } => {
            let option = |name: &String| message::poll_creation_message::Option {
                option_name: Some(name.clone()),
                ..Default::default()
            };
            message.poll_creation_message_v3 = MessageField::some(message::PollCreationMessage {
                name: Some(name.clone()),
                options: options.iter().map(option).collect(),
                selectable_options_count: Some(u32::from(*selectable_count)),
                context_info: context,
                ..Default::default()
            });
            message.message_context_info = MessageField::some(wa::MessageContextInfo {
                message_secret: Some(rand::random::<[u8; 32]>().to_vec()),
                ..Default::default()
            });
        }
        PhoneBody::PollVote { selected } => {
            let key = body.message_key.as_ref().ok_or_else(|| invalid("message_key is missing"))?;
            message.poll_update_message = MessageField::some(vote((me, phone), target()?, key, selected)?);
        }
        PhoneBody::Pin { .. } | PhoneBody::Unpin => {
            use message::pin_in_chat_message::Type;
            let unpins = matches!(body.body, PhoneBody::Unpin);
            message.pin_in_chat_message = MessageField::some(message::PinInChatMessage {
                key: MessageField::some(target()?),
                r#type: Some(if unpins { Type::UNPIN_FOR_ALL } else { Type::PIN_FOR_ALL }),
                sender_timestamp_ms: Some(model::time::Timestamp::now().0),
            });
        }
        other => return Err(Refused::Unsupported(format!("messages like {other:?}"))),
    }
    Ok(message)
}

/// A vote, encrypted with the poll's secret and the addresses of the poll's author and the voter.
fn vote(
    (me, phone): (Number, &Phone),
    key: wa::MessageKey,
    poll: &GivenKey,
    selected: &[String],
) -> Result<message::PollUpdateMessage, Refused> {
    let MessageId(id) = &poll.id;
    let theirs = phone.inbox.by_id(id);
    let message = theirs.map(|item| &item.message).or_else(|| phone.written(id));
    let context = message.and_then(|message| message.message_context_info.as_option());
    let secret = context.and_then(|context| context.message_secret.as_deref());
    let secret = secret.ok_or_else(|| invalid(format!("{id} is no poll that can be voted on")))?;
    let naming = theirs.map_or(Naming::Number, |item| item.naming);
    let named = |number: Number| number.device(0).jid(naming).to_non_ad().to_string();
    let author = named(theirs.map_or(me, |item| item.from));
    let hashes: Vec<Vec<u8>> = selected.iter().map(|name| compute_option_hash(name).to_vec()).collect();
    let sealed = encrypt_poll_vote_with_secret(&hashes, secret, id, &author, &named(me));
    let (payload, iv) = sealed.map_err(|error| invalid(format!("the vote: {error}")))?;
    Ok(message::PollUpdateMessage {
        poll_creation_message_key: MessageField::some(key),
        vote: MessageField::some(message::PollEncValue { enc_payload: Some(payload), enc_iv: Some(iv.to_vec()) }),
        sender_timestamp_ms: Some(model::time::Timestamp::now().0),
        ..Default::default()
    })
}

/// A reaction; an empty emoji removes it.
pub(crate) fn reaction(key: wa::MessageKey, emoji: &str) -> wa::Message {
    let reaction = message::ReactionMessage {
        key: MessageField::some(key),
        text: Some(emoji.to_owned()),
        sender_timestamp_ms: Some(model::time::Timestamp::now().0),
        ..Default::default()
    };
    wa::Message { reaction_message: MessageField::some(reaction), ..Default::default() }
}

fn card(contact: &GivenContact) -> message::ContactMessage {
    let made = || {
        let phones: String =
            contact.phones.iter().map(|phone| format!("TEL;type=CELL;waid={phone}:+{phone}\n")).collect();
        format!("BEGIN:VCARD\nVERSION:3.0\nFN:{}\n{phones}END:VCARD", contact.name)
    };
    message::ContactMessage {
        display_name: Some(contact.name.clone()),
        vcard: Some(contact.vcard.clone().unwrap_or_else(made)),
        ..Default::default()
    }
}

/// The key of a message in a phone's chat.
pub(crate) fn target_key(phone: &Phone, chat: &Chat, key: &GivenKey) -> Result<wa::MessageKey, Refused> {
    let MessageId(id) = &key.id;
    if phone.chat_of(id).as_ref() != Some(chat) {
        let text = format!("there is no message {id} in the chat with {}", chat.jid());
        return Err(ControlError::NotFound(text).into());
    }
    let author = phone.inbox.by_id(id).map(|item| item.from);
    let in_group = matches!(chat, Chat::Group(_));
    Ok(wa::MessageKey {
        remote_jid: Some(chat.jid().to_string()),
        from_me: Some(author.is_none()),
        id: Some(id.clone()),
        participant: author.filter(|_| in_group).map(|author| author.pn().to_string()),
    })
}

fn context(phone: &Phone, to: &Chat, body: &PhoneMessage) -> Result<MessageField<wa::ContextInfo>, Refused> {
    let mut context = wa::ContextInfo::default();
    let mut any = false;
    if let Some(quoted) = &body.quoted {
        context.stanza_id = target_key(phone, to, quoted)?.id;
        let theirs = phone.inbox.by_id(&quoted.id.0);
        // The author of the quoted message; the phone itself need not be named to the recipients.
        context.participant = theirs.map(|item| item.from.pn().to_string());
        let message = theirs.map(|item| &item.message).or_else(|| phone.written(&quoted.id.0));
        context.quoted_message = message.cloned().map(MessageField::some).unwrap_or_default();
        any = true;
    }
    for mention in &body.mentions {
        any = true;
        if mention == "all" {
            context.non_jid_mentions = Some(1);
            continue;
        }
        let number = Number::of_text(mention).ok_or_else(|| invalid(format!("{mention:?} is no number")))?;
        context.mentioned_jid.push(number.pn().to_string());
    }
    if body.forwarded {
        context.is_forwarded = Some(true);
        context.forwarding_score = Some(1);
        any = true;
    }
    if let Some(seconds) = body.ephemeral_expiration {
        context.expiration = Some(seconds);
        any = true;
    }
    Ok(if any { MessageField::some(context) } else { MessageField::none() })
}
