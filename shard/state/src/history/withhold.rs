//! What is left of a message whose body is not kept (`store_bodies`): who, when, to whom, of which type, and what became of it.

use model::media::Media;
use model::message::Content;

use crate::records::MessageRow;

/// Takes the body out of a row. Once more changes nothing.
pub fn withhold(row: &mut MessageRow) {
    empty(&mut row.content);
    row.around.link_preview = None;
    if let Some(quoted) = &mut row.around.quoted {
        quoted.text = None;
    }
}

/// Whether a row has no body that could be taken out of it.
pub fn is_withheld(row: &MessageRow) -> bool {
    let mut emptied = row.clone();
    withhold(&mut emptied);
    emptied == *row
}

/// Whether a content that says something by its fields has lost them: it is not shown as if they were zero.
pub fn holds_nothing(content: &Content) -> bool {
    match content {
        Content::Location { latitude, longitude, name: None, address: None, .. } => {
            *latitude == 0.0 && *longitude == 0.0
        }
        Content::Contact { contacts } => contacts.is_empty(),
        Content::Poll { name, .. } | Content::Event { name, .. } => name.is_empty(),
        Content::ButtonReply { id, title } | Content::ListReply { id, title } => id.is_empty() && title.is_empty(),
        Content::Product { product_id } => product_id.is_empty(),
        _ => false,
    }
}

/// Leaves of a content its type and the message that it is about.
fn empty(content: &mut Content) {
    match content {
        Content::Text { text } | Content::Edit { text, .. } => text.clear(),
        Content::Image { media, caption } | Content::Document { media, caption } => {
            empty_media(media);
            *caption = None;
        }
        Content::Video { media, caption, .. } => {
            empty_media(media);
            *caption = None;
        }
        Content::Audio { media } | Content::Sticker { media, .. } => empty_media(media),
        Content::Reaction { emoji, .. } => emoji.clear(),
        Content::Location { latitude, longitude, name, address, .. } => {
            (*latitude, *longitude) = (0.0, 0.0);
            (*name, *address) = (None, None);
        }
        Content::Story(story) => {
            empty(&mut story.says);
            story.recipients = None;
        }
        Content::Contact { contacts } => contacts.clear(),
        Content::Poll { name, options, .. } => {
            name.clear();
            options.clear();
        }
        Content::PollVote { selected, .. } => selected.clear(),
        Content::ButtonReply { id, title } | Content::ListReply { id, title } => {
            id.clear();
            title.clear();
        }
        Content::Product { product_id } => product_id.clear(),
        Content::Order { token, .. } => token.clear(),
        Content::Event { name, location, .. } => {
            name.clear();
            *location = None;
        }
        Content::Delete { .. }
        | Content::Pin { .. }
        | Content::Unpin { .. }
        | Content::Star { .. }
        | Content::Unstar { .. }
        | Content::Catalog
        | Content::StoryDelete { .. }
        | Content::Undecryptable { .. }
        | Content::Unknown { .. } => {}
    }
}

/// Leaves the kind and the size: nothing leads to the bytes.
fn empty_media(media: &mut Media) {
    let kept = Media {
        size_bytes: media.size_bytes,
        voice: media.voice,
        view_once: media.view_once,
        ..Media::of_type(&media.mime_type)
    };
    *media = kept;
}
