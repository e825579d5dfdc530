//! Builds the library's messages from the gateway's.

use buffa::MessageField;
use model::address::Address;
use model::media::Media;
use model::message::{ContactCard, Content, MessageKey, Surroundings};
use wacore_binary::{Jid, JidExt};
use waproto::whatsapp as wa;
use waproto::whatsapp::message;

use super::feature;
use crate::media::Handle;

/// Builds a message with a content to a recipient. The result is the same whoever sends it, as is `secret`.
///
/// # Errors
/// The name of the feature that this release cannot send.
pub fn build(to: &Jid, content: &Content, around: &Surroundings, secret: [u8; 32]) -> Result<wa::Message, String> {
    let context = context(around);
    let said_at = around.said_at.map(|at| at.0);
    let target = |target| MessageField::some(key(to, target, around));
    let mut message = wa::Message::default();
    match content {
        Content::Text { text } => text_message(&mut message, text, around, context),
        Content::Reaction { target: to, emoji } => {
            message.reaction_message = MessageField::some(message::ReactionMessage {
                key: target(to),
                text: Some(emoji.clone()),
                sender_timestamp_ms: said_at,
                ..Default::default()
            });
        }
        Content::Edit { target: of, text } => {
            let mut edited = wa::Message::default();
            text_message(&mut edited, text, around, context);
            message.protocol_message = MessageField::some(message::ProtocolMessage {
                key: target(of),
                r#type: Some(message::protocol_message::Type::MESSAGE_EDIT),
                edited_message: MessageField::some(edited),
                timestamp_ms: said_at,
                ..Default::default()
            });
        }
        Content::Delete { target: of, .. } => {
            message.protocol_message = MessageField::some(message::ProtocolMessage {
                key: target(of),
                r#type: Some(message::protocol_message::Type::REVOKE),
                ..Default::default()
            });
        }
        Content::Location { latitude, longitude, name, address, .. } => {
            message.location_message = MessageField::some(message::LocationMessage {
                degrees_latitude: Some(*latitude),
                degrees_longitude: Some(*longitude),
                name: name.clone(),
                address: address.clone(),
                context_info: context,
                ..Default::default()
            });
        }
        Content::Contact { contacts } => match contacts.as_slice() {
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
        Content::Poll { name, options, selectable_count } => {
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
        }
        Content::Pin { target: of, duration_seconds } => {
            pin(&mut message, target(of), message::pin_in_chat_message::Type::PIN_FOR_ALL, said_at);
            let kept = wa::MessageContextInfo {
                message_add_on_duration_in_secs: Some(*duration_seconds),
                ..Default::default()
            };
            message.message_context_info = MessageField::some(kept);
        }
        Content::Unpin { target: of } => {
            pin(&mut message, target(of), message::pin_in_chat_message::Type::UNPIN_FOR_ALL, said_at);
        }
        other => media(&mut message, other, context)?,
    }
    let known = message.message_context_info.take().unwrap_or_default();
    let known = wa::MessageContextInfo { message_secret: Some(secret.to_vec()), ..known };
    message.message_context_info = MessageField::some(known);
    Ok(message)
}

fn text_message(message: &mut wa::Message, text: &str, around: &Surroundings, context: MessageField<wa::ContextInfo>) {
    let preview = around.link_preview.as_ref();
    if context.is_unset() && preview.is_none() {
        message.conversation = Some(text.to_owned());
        return;
    }
    message.extended_text_message = MessageField::some(message::ExtendedTextMessage {
        text: Some(text.to_owned()),
        matched_text: preview.map(|preview| preview.url.clone()),
        title: preview.and_then(|preview| preview.title.clone()),
        description: preview.and_then(|preview| preview.description.clone()),
        context_info: context,
        ..Default::default()
    });
}

/// Builds a media message; all kinds share the fields that say where the bytes are.
macro_rules! with_media {
    ($message:ident, $media:expr, $handle:expr, $context:expr; $($field:ident: $value:expr),* $(,)?) => {
        message::$message {
            url: Some($handle.url.clone()),
            direct_path: Some($handle.direct_path.clone()),
            media_key: Some($handle.key.clone()),
            file_sha256: Some($handle.sha256.clone()),
            file_enc_sha256: Some($handle.sealed_sha256.clone()),
            file_length: Some($handle.length),
            media_key_timestamp: $handle.key_at,
            mimetype: Some($media.mime_type.clone()),
            context_info: $context,
            $($field: $value,)*
            ..Default::default()
        }
    };
}

fn media(message: &mut wa::Message, content: &Content, context: MessageField<wa::ContextInfo>) -> Result<(), String> {
    let kind = content.media_kind().ok_or_else(|| feature(content))?;
    let handle = content.media().and_then(|media| media.handle.as_ref()).and_then(Handle::read);
    let Some(handle) = handle.filter(|handle| handle.kind == kind) else {
        return Err(format!("{}.of_another_network", feature(content)));
    };
    let once = |media: &Media| media.view_once.then_some(true);
    match content {
        Content::Image { media, caption } => {
            message.image_message = MessageField::some(with_media!(ImageMessage, media, handle, context;
                caption: caption.clone(),
                width: media.width,
                height: media.height,
                view_once: once(media),
            ));
        }
        Content::Video { media, caption, gif, note } => {
            let video = MessageField::some(with_media!(VideoMessage, media, handle, context;
                caption: caption.clone(),
                width: media.width,
                height: media.height,
                seconds: media.duration_seconds,
                gif_playback: gif.then_some(true),
                view_once: once(media),
            ));
            if *note {
                message.ptv_message = video;
            } else {
                message.video_message = video;
            }
        }
        Content::Audio { media } => {
            message.audio_message = MessageField::some(with_media!(AudioMessage, media, handle, context;
                seconds: media.duration_seconds,
                ptt: media.voice.then_some(true),
                view_once: once(media),
            ));
        }
        Content::Document { media, caption } => {
            message.document_message = MessageField::some(with_media!(DocumentMessage, media, handle, context;
                caption: caption.clone(),
                file_name: media.filename.clone(),
                title: media.filename.clone(),
            ));
        }
        Content::Sticker { media, animated } => {
            message.sticker_message = MessageField::some(with_media!(StickerMessage, media, handle, context;
                width: media.width,
                height: media.height,
                is_animated: animated.then_some(true),
            ));
        }
        other => return Err(feature(other)),
    }
    Ok(())
}

fn pin(
    message: &mut wa::Message,
    key: MessageField<wa::MessageKey>,
    kind: message::pin_in_chat_message::Type,
    said_at: Option<i64>,
) {
    message.pin_in_chat_message =
        MessageField::some(message::PinInChatMessage { key, r#type: Some(kind), sender_timestamp_ms: said_at });
}

fn card(contact: &ContactCard) -> message::ContactMessage {
    message::ContactMessage {
        display_name: Some(contact.name.clone()),
        vcard: Some(contact.vcard.clone()),
        ..Default::default()
    }
}

/// The key of a message in the chat that this message goes to. In a group it names an author other than the channel.
fn key(to: &Jid, target: &MessageKey, around: &Surroundings) -> wa::MessageKey {
    let author = around.target_author.as_ref().filter(|_| to.is_group() && !target.from_me);
    wa::MessageKey {
        remote_jid: Some(to.to_string()),
        from_me: Some(target.from_me),
        id: Some(target.id.to_string()),
        participant: author.map(Address::to_string),
    }
}

/// The context of a message: quote, mentions and such. Unset when there is none.
fn context(around: &Surroundings) -> MessageField<wa::ContextInfo> {
    let Surroundings { quoted, mentions, mentions_all, forwarded, ephemeral_expiration, .. } = around;
    let mentions_some = *mentions_all || !mentions.is_empty();
    if quoted.is_none() && !mentions_some && !forwarded && ephemeral_expiration.is_none() {
        return MessageField::default();
    }
    let mut context = wa::ContextInfo {
        mentioned_jid: mentions.iter().map(Address::to_string).collect(),
        non_jid_mentions: mentions_all.then_some(1),
        is_forwarded: forwarded.then_some(true),
        forwarding_score: forwarded.then_some(1),
        expiration: *ephemeral_expiration,
        ..Default::default()
    };
    if let Some(quoted) = quoted {
        context.stanza_id = Some(quoted.message_id.to_string());
        context.participant = Some(quoted.from.to_string());
        // Recipients usually have the quoted message; for those who do not, a quote other than text shows as empty.
        let text = Some(quoted.text.clone().unwrap_or_default());
        context.quoted_message = MessageField::some(wa::Message { conversation: text, ..Default::default() });
    }
    MessageField::some(context)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::id::MessageId;
    use model::message::Quoted;
    use model::time::Timestamp;

    use super::*;

    const FRIEND: &str = "15550000002@s.whatsapp.net";
    const GROUP: &str = "120363000000000001@g.us";

    fn built(to: &str, content: &Content, around: &Surroundings) -> wa::Message {
        build(&to.parse().unwrap(), content, around, [7; 32]).unwrap()
    }

    fn target(from_me: bool) -> MessageKey {
        MessageKey { id: MessageId("3EB0A1".into()), from_me, remote_jid: Address::parse(GROUP).unwrap() }
    }

    #[test]
    fn a_text_is_a_conversation_until_something_surrounds_it_and_always_bears_its_secret() {
        let text = Content::Text { text: "hello".into() };
        let plain = built(FRIEND, &text, &Surroundings::default());
        assert_eq!(plain.conversation.as_deref(), Some("hello"));
        let secret = plain.message_context_info.as_option().unwrap().message_secret.clone();
        assert_eq!(secret, Some(vec![7; 32]));
        let friend = Address::parse(FRIEND).unwrap();
        let quoted = Quoted { message_id: MessageId("3EB0A0".into()), from: friend.clone(), text: Some("who?".into()) };
        let around = Surroundings {
            forwarded: true,
            quoted: Some(quoted),
            mentions: vec![friend],
            mentions_all: true,
            ephemeral_expiration: Some(60),
            ..Surroundings::default()
        };
        let extended = built(FRIEND, &text, &around);
        let body = extended.extended_text_message.as_option().unwrap();
        assert_eq!((body.text.as_deref(), &extended.conversation), (Some("hello"), &None));
        let context = body.context_info.as_option().unwrap();
        assert_eq!((context.is_forwarded, context.expiration), (Some(true), Some(60)));
        assert_eq!((context.stanza_id.as_deref(), context.participant.as_deref()), (Some("3EB0A0"), Some(FRIEND)));
        assert_eq!(context.quoted_message.as_option().unwrap().conversation.as_deref(), Some("who?"));
        assert_eq!(
            (context.mentioned_jid.as_slice(), context.non_jid_mentions),
            ([FRIEND.to_owned()].as_slice(), Some(1))
        );
    }

    #[test]
    fn a_message_in_a_group_is_named_with_its_author_unless_that_is_the_channel() {
        let author = Address::parse(FRIEND).ok();
        let around = Surroundings { target_author: author, said_at: Some(Timestamp(5)), ..Surroundings::default() };
        let react = |to, from_me| {
            let content = Content::Reaction { target: target(from_me), emoji: "👍".into() };
            let reaction = built(to, &content, &around).reaction_message.as_option().unwrap().clone();
            assert_eq!(reaction.sender_timestamp_ms, Some(5));
            let key = reaction.key.as_option().unwrap();
            (key.remote_jid.clone().unwrap(), key.from_me, key.participant.clone())
        };
        assert_eq!(react(GROUP, false), (GROUP.to_owned(), Some(false), Some(FRIEND.to_owned())));
        assert_eq!(react(GROUP, true), (GROUP.to_owned(), Some(true), None));
        assert_eq!(react(FRIEND, false), (FRIEND.to_owned(), Some(false), None));
    }

    #[test]
    fn what_cannot_be_sent_is_named() {
        let to: Jid = FRIEND.parse().unwrap();
        let refused = |content: &Content, around: &Surroundings| build(&to, content, around, [0; 32]).unwrap_err();
        assert_eq!(refused(&Content::Star { target: target(true) }, &Surroundings::default()), "messages.star");
    }
}
