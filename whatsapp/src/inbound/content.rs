//! Reads the content of the library's messages.

use buffa::Message as _;
use model::address::Address;
use model::id::MessageId;
use model::media::{Media, MediaKind};
use model::message::{ContactCard, Content, MessageKey, Quoted, Surroundings};
use wacore::proto_helpers::MessageExt;
use wacore::types::message::MessageInfo;
use wacore_binary::{Jid, JidExt};
use waproto::whatsapp as wa;
use waproto::whatsapp::message;

use super::message::{Own, address, without_device};
use crate::media::{CameWith, Handle, Told};
use crate::state::backend::Backend;

/// Wrappers around a message that are removed, in addition to those that the library removes.
const MOST_WRAPPINGS: usize = 4;

/// The name of content that this release does not decode, by the field that has it.
macro_rules! unknown {
    ($message:expr; $($field:ident => $name:literal),* $(,)?) => {
        None$(.or_else(|| $message.$field.is_set().then_some($name)))*
    };
}

/// The media of one of the library's messages; all kinds name these fields alike.
macro_rules! media {
    ($message:expr, $kind:expr) => {
        Told {
            url: &$message.url,
            direct_path: &$message.direct_path,
            key: &$message.media_key,
            sha256: &$message.file_sha256,
            sealed_sha256: &$message.file_enc_sha256,
            length: $message.file_length,
            key_at: $message.media_key_timestamp,
            mime_type: &$message.mimetype,
        }
        .media($kind)
    };
}

/// Reads a received message.
pub struct Reader<'a> {
    pub info: &'a MessageInfo,
    pub own: &'a Own,
    pub backend: &'a Backend,
}

type Said<'a> = (Content, Option<&'a wa::ContextInfo>);

impl Reader<'_> {
    /// The content and context of a message; `None` for messages of the protocol itself, such as those that carry keys.
    pub fn read(&self, message: &wa::Message) -> Option<(Content, Surroundings)> {
        let is_once = message.is_view_once();
        let (mut content, context) = self.said(base(message))?;
        if let Some(media) = content.media_mut() {
            media.view_once = is_once;
            let handle = media.handle.as_ref().and_then(Handle::read);
            media.handle = handle.and_then(|handle| Handle { message: Some(self.came_with()), ..handle }.named());
        }
        let mut around = context.map(|context| self.around(context)).unwrap_or_default();
        around.ephemeral_expiration = self.info.ephemeral_expiration.or(around.ephemeral_expiration);
        Some((content, around))
    }

    fn said<'a>(&self, message: &'a wa::Message) -> Option<Said<'a>> {
        if let Some(text) = &message.conversation {
            return Some((Content::Text { text: text.clone() }, None));
        }
        if let Some(text) = message.extended_text_message.as_option() {
            let content = Content::Text { text: text.text.clone().unwrap_or_default() };
            return Some((content, text.context_info.as_option()));
        }
        if let Some(protocol) = message.protocol_message.as_option() {
            return self.protocol(protocol).map(|content| (content, None));
        }
        if let Some(reaction) = message.reaction_message.as_option() {
            let target = self.key(reaction.key.as_option()?)?;
            return Some((Content::Reaction { target, emoji: reaction.text.clone().unwrap_or_default() }, None));
        }
        if let Some(pin) = message.pin_in_chat_message.as_option() {
            let target = self.key(pin.key.as_option()?)?;
            let unpins = pin.r#type == Some(message::pin_in_chat_message::Type::UNPIN_FOR_ALL);
            let kept = message.message_context_info.as_option();
            let duration_seconds = kept.and_then(|kept| kept.message_add_on_duration_in_secs).unwrap_or_default();
            let content = if unpins { Content::Unpin { target } } else { Content::Pin { target, duration_seconds } };
            return Some((content, None));
        }
        if let Some(vote) = message.poll_update_message.as_option().and_then(|update| self.vote(update)) {
            return Some((vote, None));
        }
        media(message).or_else(|| plain(message)).or_else(|| answer(message)).or_else(|| {
            let raw_type = unknown(message);
            raw_type.map(|raw_type| (Content::Unknown { raw_type: raw_type.to_owned() }, None))
        })
    }

    fn protocol(&self, protocol: &message::ProtocolMessage) -> Option<Content> {
        use message::protocol_message::Type;
        let target = || self.key(protocol.key.as_option()?);
        match protocol.r#type? {
            Type::REVOKE => {
                let by_admin = self.is_group() && protocol.key.as_option()?.from_me != Some(true);
                Some(Content::Delete { target: target()?, by_admin })
            }
            Type::MESSAGE_EDIT => {
                let edited = protocol.edited_message.as_option()?.get_base_message();
                let text = edited.text_content().or_else(|| edited.get_caption()).unwrap_or_default();
                Some(Content::Edit { target: target()?, text: text.to_owned() })
            }
            _ => None,
        }
    }

    fn came_with(&self) -> CameWith {
        let source = &self.info.source;
        CameWith {
            chat: without_device(&source.chat),
            id: self.info.id.to_string(),
            from_me: source.is_from_me,
            author: self.is_group().then(|| without_device(&source.sender)),
        }
    }

    fn is_group(&self) -> bool {
        self.info.source.is_group || self.info.source.chat.is_group()
    }

    /// The key of a message of this chat. A key says `from_me` as its author sees it; this turns it to the channel's
    /// view.
    pub(super) fn key(&self, key: &wa::MessageKey) -> Option<MessageKey> {
        let source = &self.info.source;
        let says_own = key.from_me.unwrap_or_default();
        let author = key.participant.as_deref().and_then(|author| author.parse::<Jid>().ok());
        let from_me = match author.and_then(|author| address(&author)).filter(|_| !says_own) {
            Some(author) => self.own.is(&author),
            // A message in a direct chat is of one side or the other.
            None if !self.is_group() => says_own == source.is_from_me,
            None => says_own && source.is_from_me,
        };
        Some(MessageKey { id: MessageId(key.id.clone()?), from_me, remote_jid: address(&source.chat)? })
    }

    fn around(&self, context: &wa::ContextInfo) -> Surroundings {
        let named = |text: &String| text.parse::<Jid>().ok().and_then(|jid| address(&jid));
        let author = || context.participant.as_ref().and_then(named).or_else(|| address(&self.info.source.sender));
        let quoted = context.stanza_id.as_ref().and_then(|id| {
            let said = context.quoted_message.as_option().map(MessageExt::get_base_message);
            let text = said.and_then(|said| said.text_content().or_else(|| said.get_caption()));
            let text = text.filter(|text| !text.is_empty()).map(|text| Quoted::excerpt(text.to_owned()));
            Some(Quoted { message_id: MessageId(id.clone()), from: author()?, text })
        });
        Surroundings {
            quoted,
            mentions: context.mentioned_jid.iter().filter_map(named).collect::<Vec<Address>>(),
            forwarded: context.is_forwarded.unwrap_or_default(),
            ephemeral_expiration: context.expiration.filter(|seconds| *seconds > 0),
            mentions_all: context.non_jid_mentions.is_some_and(|count| count > 0),
            ..Surroundings::default()
        }
    }
}

/// Unwraps a message: removes the wrappers that the library knows, then others that surround usual messages.
fn base(message: &wa::Message) -> &wa::Message {
    let mut inner = message.get_base_message();
    for _ in 0..MOST_WRAPPINGS {
        let wrappings = [
            &inner.group_mentioned_message,
            &inner.lottie_sticker_message,
            &inner.associated_child_message,
            &inner.poll_creation_message_v4,
            &inner.question_message,
        ];
        let within = wrappings.into_iter().find_map(|wrapping| wrapping.as_option()?.message.as_option());
        let Some(within) = within else { break };
        inner = within.get_base_message();
    }
    inner
}

/// The name of content that this release does not decode; `None` for a message without visible content.
fn unknown(message: &wa::Message) -> Option<&'static str> {
    let named = unknown!(message;
        poll_update_message => "pollUpdateMessage",
        product_message => "productMessage",
        group_invite_message => "groupInviteMessage",
        interactive_message => "interactiveMessage",
        interactive_response_message => "interactiveResponseMessage",
        template_message => "templateMessage",
        buttons_message => "buttonsMessage",
        buttons_response_message => "buttonsResponseMessage",
        list_message => "listMessage",
        album_message => "albumMessage",
        sticker_pack_message => "stickerPackMessage",
        keep_in_chat_message => "keepInChatMessage",
        request_phone_number_message => "requestPhoneNumberMessage",
        send_payment_message => "sendPaymentMessage",
        request_payment_message => "requestPaymentMessage",
        payment_invite_message => "paymentInviteMessage",
        poll_result_snapshot_message => "pollResultSnapshotMessage",
        enc_event_response_message => "encEventResponseMessage",
        enc_reaction_message => "encReactionMessage",
        enc_comment_message => "encCommentMessage",
        secret_encrypted_message => "secretEncryptedMessage",
        newsletter_admin_invite_message => "newsletterAdminInviteMessage",
    );
    named.or_else(|| {
        let mut bare = message.clone();
        bare.message_context_info.take();
        bare.sender_key_distribution_message.take();
        (!bare.encode_to_vec().is_empty()).then_some("unknown")
    })
}

fn media(message: &wa::Message) -> Option<Said<'_>> {
    if let Some(image) = message.image_message.as_option() {
        let media = Media { width: image.width, height: image.height, ..media!(image, MediaKind::Image) };
        return Some((Content::Image { media, caption: image.caption.clone() }, image.context_info.as_option()));
    }
    let videos = [(&message.video_message, false), (&message.ptv_message, true)];
    if let Some((video, note)) = videos.into_iter().find_map(|(video, note)| Some((video.as_option()?, note))) {
        let media = media!(video, MediaKind::Video);
        let media = Media { width: video.width, height: video.height, duration_seconds: video.seconds, ..media };
        let gif = video.gif_playback.unwrap_or_default();
        let content = Content::Video { media, caption: video.caption.clone(), gif, note };
        return Some((content, video.context_info.as_option()));
    }
    if let Some(audio) = message.audio_message.as_option() {
        let media = media!(audio, MediaKind::Audio);
        let media = Media { voice: audio.ptt.unwrap_or_default(), duration_seconds: audio.seconds, ..media };
        return Some((Content::Audio { media }, audio.context_info.as_option()));
    }
    if let Some(document) = message.document_message.as_option() {
        let media = Media { filename: document.file_name.clone(), ..media!(document, MediaKind::Document) };
        let content = Content::Document { media, caption: document.caption.clone() };
        return Some((content, document.context_info.as_option()));
    }
    let sticker = message.sticker_message.as_option()?;
    let media = Media { width: sticker.width, height: sticker.height, ..media!(sticker, MediaKind::Sticker) };
    let content = Content::Sticker { media, animated: sticker.is_animated.unwrap_or_default() };
    Some((content, sticker.context_info.as_option()))
}

fn plain(message: &wa::Message) -> Option<Said<'_>> {
    if let Some(location) = message.location_message.as_option() {
        let content = Content::Location {
            latitude: location.degrees_latitude.unwrap_or_default(),
            longitude: location.degrees_longitude.unwrap_or_default(),
            name: location.name.clone(),
            address: location.address.clone(),
            live: location.is_live.unwrap_or_default(),
        };
        return Some((content, location.context_info.as_option()));
    }
    if let Some(location) = message.live_location_message.as_option() {
        let content = Content::Location {
            latitude: location.degrees_latitude.unwrap_or_default(),
            longitude: location.degrees_longitude.unwrap_or_default(),
            name: None,
            address: None,
            live: true,
        };
        return Some((content, location.context_info.as_option()));
    }
    if let Some(contact) = message.contact_message.as_option() {
        return Some((Content::Contact { contacts: vec![card(contact)] }, contact.context_info.as_option()));
    }
    if let Some(contacts) = message.contacts_array_message.as_option() {
        let shown = contacts.contacts.iter().map(card).collect();
        return Some((Content::Contact { contacts: shown }, contacts.context_info.as_option()));
    }
    let polls = [&message.poll_creation_message, &message.poll_creation_message_v2, &message.poll_creation_message_v3];
    if let Some(poll) = polls.into_iter().find_map(|poll| poll.as_option()) {
        let content = Content::Poll {
            name: poll.name.clone().unwrap_or_default(),
            options: poll.options.iter().filter_map(|option| option.option_name.clone()).collect(),
            selectable_count: poll.selectable_options_count.unwrap_or_default().try_into().unwrap_or(u8::MAX),
        };
        return Some((content, poll.context_info.as_option()));
    }
    if let Some(order) = message.order_message.as_option() {
        let content = Content::Order {
            order_id: order.order_id.clone()?,
            token: order.token.clone().unwrap_or_default(),
            item_count: order.item_count.and_then(|count| count.try_into().ok()).unwrap_or_default(),
            total_amount: order.total_amount1000.unwrap_or_default(),
            currency: order.total_currency_code.clone().unwrap_or_default(),
        };
        return Some((content, order.context_info.as_option()));
    }
    let event = message.event_message.as_option()?;
    let content = Content::Event {
        name: event.name.clone().unwrap_or_default(),
        start_at: event.start_time.unwrap_or_default(),
        end_at: event.end_time,
        location: event.location.as_option().and_then(|location| location.name.clone()),
    };
    Some((content, event.context_info.as_option()))
}

fn answer(message: &wa::Message) -> Option<Said<'_>> {
    if let Some(reply) = message.template_button_reply_message.as_option() {
        let content = Content::ButtonReply {
            id: reply.selected_id.clone().unwrap_or_default(),
            title: reply.selected_display_text.clone().unwrap_or_default(),
        };
        return Some((content, reply.context_info.as_option()));
    }
    let reply = message.list_response_message.as_option()?;
    let row = reply.single_select_reply.as_option();
    let content = Content::ListReply {
        id: row.and_then(|row| row.selected_row_id.clone()).unwrap_or_default(),
        title: reply.title.clone().unwrap_or_default(),
    };
    Some((content, reply.context_info.as_option()))
}

/// A contact card, with the phone numbers in its vCard.
fn card(contact: &message::ContactMessage) -> ContactCard {
    let vcard = contact.vcard.clone().unwrap_or_default();
    let phones = vcard.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_phone = name.rsplit('.').next().is_some_and(|name| name.to_ascii_uppercase().starts_with("TEL"));
        let digits: String = value.chars().filter(char::is_ascii_digit).collect();
        (is_phone && !digits.is_empty()).then_some(digits)
    });
    ContactCard { name: contact.display_name.clone().unwrap_or_default(), phones: phones.collect(), vcard }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use buffa::MessageField;

    use super::*;

    fn wrapped(message: wa::Message) -> MessageField<message::FutureProofMessage> {
        MessageField::some(message::FutureProofMessage { message: MessageField::some(message) })
    }

    #[test]
    fn what_is_wrapped_is_read_and_no_more_than_a_few_wrappings_are_taken_off() {
        let said = || wa::Message { conversation: Some("hello, group".into()), ..Default::default() };
        let mentioned = wa::Message { group_mentioned_message: wrapped(said()), ..Default::default() };
        assert_eq!(base(&mentioned).conversation.as_deref(), Some("hello, group"));
        let child = wa::Message { associated_child_message: wrapped(mentioned), ..Default::default() };
        assert_eq!(base(&child).conversation.as_deref(), Some("hello, group"));
        let deep = (0..100)
            .fold(said(), |within, _| wa::Message { associated_child_message: wrapped(within), ..Default::default() });
        assert_eq!(base(&deep).conversation, None);
    }

    #[test]
    fn content_of_any_kind_has_a_name_and_what_says_nothing_has_none() {
        let album = wa::Message { album_message: MessageField::some(Default::default()), ..Default::default() };
        assert_eq!(unknown(&album), Some("albumMessage"));
        let call = wa::Message { call: MessageField::some(Default::default()), ..Default::default() };
        assert_eq!(unknown(&call), Some("unknown"));
        let silent = wa::Message {
            message_context_info: MessageField::some(wa::MessageContextInfo::default()),
            ..Default::default()
        };
        assert_eq!((unknown(&silent), unknown(&wa::Message::default())), (None, None));
    }
}
