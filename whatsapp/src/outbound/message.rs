//! The gateway's messages as the library's.

use buffa::MessageField;
use model::message::{Content, Surroundings};
use waproto::whatsapp as wa;

use super::feature;

/// The message of a content. `secret` is the same whoever sends it again.
///
/// # Errors
/// The feature that this release cannot send.
pub fn build(content: &Content, around: &Surroundings, secret: [u8; 32]) -> Result<wa::Message, String> {
    let mut message = match content {
        Content::Text { text } => text_message(text, around)?,
        other => return Err(feature(other)),
    };
    let context = wa::MessageContextInfo { message_secret: Some(secret.to_vec()), ..Default::default() };
    message.message_context_info = MessageField::some(context);
    Ok(message)
}

fn text_message(text: &str, around: &Surroundings) -> Result<wa::Message, String> {
    let Surroundings { quoted, mentions, mentions_all, forwarded, link_preview, .. } = around;
    if quoted.is_some() {
        return Err("messages.text.quoted".to_owned());
    }
    if *mentions_all {
        return Err("messages.text.mentions_all".to_owned());
    }
    if mentions.is_empty() && !forwarded && link_preview.is_none() {
        return Ok(wa::Message { conversation: Some(text.to_owned()), ..Default::default() });
    }
    let context = wa::ContextInfo {
        mentioned_jid: mentions.iter().map(|mentioned| mentioned.as_str().to_owned()).collect(),
        is_forwarded: forwarded.then_some(true),
        forwarding_score: forwarded.then_some(1),
        ..Default::default()
    };
    let extended = wa::message::ExtendedTextMessage {
        text: Some(text.to_owned()),
        matched_text: link_preview.as_ref().map(|preview| preview.url.clone()),
        title: link_preview.as_ref().and_then(|preview| preview.title.clone()),
        description: link_preview.as_ref().and_then(|preview| preview.description.clone()),
        context_info: MessageField::some(context),
        ..Default::default()
    };
    Ok(wa::Message { extended_text_message: MessageField::some(extended), ..Default::default() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_conversation_until_something_surrounds_it_and_always_bears_its_secret() {
        let text = Content::Text { text: "hello".into() };
        let plain = build(&text, &Surroundings::default(), [7; 32]).unwrap();
        assert_eq!(plain.conversation.as_deref(), Some("hello"));
        let secret = plain.message_context_info.as_option().unwrap().message_secret.clone();
        assert_eq!(secret, Some(vec![7; 32]));
        let forwarded = Surroundings { forwarded: true, ..Surroundings::default() };
        let extended = build(&text, &forwarded, [7; 32]).unwrap();
        let body = extended.extended_text_message.as_option().unwrap();
        assert_eq!((body.text.as_deref(), &extended.conversation), (Some("hello"), &None));
        assert_eq!(body.context_info.as_option().unwrap().is_forwarded, Some(true));
        let poll = Content::Poll { name: "?".into(), options: Vec::new(), selectable_count: 1 };
        assert_eq!(build(&poll, &Surroundings::default(), [0; 32]).unwrap_err(), "messages.poll");
    }
}
