//! Bounds on what is stored of a message.
//!
//! Every text, list and name of an inbound message has a bound and is truncated to it. A message that refers to another
//! by an id that is too long becomes one of unknown type. Without stored bodies (`store_bodies`), the content is
//! withheld.
//!
//! A whole message stays below half a MiB in any case, so that one log entry can hold it together with its event.

use crate::address::Address;
use crate::id::MessageId;
use crate::media::Media;
use crate::message::{ContactCard, Content, LinkPreview, Quoted, Surroundings};
use crate::send::{MOST_CONTACT_BYTES, MOST_CONTACTS};
use crate::story::Story;
use crate::target::LONGEST_URL;

/// Longest inbound text or caption, in Unicode scalar values, as are the bounds below unless they say otherwise.
const LONGEST_TEXT: usize = 65_536;

/// Longest message id, in bytes.
const LONGEST_ID: usize = 255;

/// Longest text of a quoted message.
const LONGEST_QUOTE: usize = 4_096;

/// Longest name of a person, file, type or thing.
const LONGEST_NAME: usize = 255;

/// Longest title, place or description.
const LONGEST_TITLE: usize = 1_024;

/// Longest handle by which the network identifies media, in bytes.
const LONGEST_HANDLE: usize = 4_096;

/// Longest emoji: some consist of a dozen scalar values.
const LONGEST_EMOJI: usize = 64;

const MOST_MENTIONS: usize = 1_024;
const MOST_OPTIONS: usize = 64;
const MOST_PHONES: usize = 20;
const LONGEST_PHONE: usize = 32;

impl MessageId {
    /// Whether the id is longer than any id that is stored.
    pub fn is_too_long(&self) -> bool {
        self.0.len() > LONGEST_ID
    }
}

/// Truncates values, and records whether anything was cut.
#[derive(Default)]
struct Scissors {
    cut: bool,
}

impl Scissors {
    fn text(&mut self, text: &mut String, longest: usize) {
        // Fast path: most texts are far shorter, in bytes even, than their bound.
        if text.len() <= longest {
            return;
        }
        if let Some((end, _)) = text.char_indices().nth(longest) {
            text.truncate(end);
            self.cut = true;
        }
    }

    fn optional(&mut self, text: &mut Option<String>, longest: usize) {
        if let Some(text) = text {
            self.text(text, longest);
        }
    }

    fn list<T>(&mut self, list: &mut Vec<T>, most: usize) {
        if list.len() > most {
            list.truncate(most);
            self.cut = true;
        }
    }

    /// Drops a value that would be meaningless, or mean something else, if it were truncated.
    fn drop_if<T>(&mut self, value: &mut Option<T>, is_beyond: impl FnOnce(&T) -> bool) {
        if value.as_ref().is_some_and(is_beyond) {
            *value = None;
            self.cut = true;
        }
    }

    fn media(&mut self, media: &mut Media) {
        self.text(&mut media.mime_type, LONGEST_NAME);
        self.optional(&mut media.filename, LONGEST_NAME);
        self.drop_if(&mut media.handle, |handle| handle.0.len() > LONGEST_HANDLE);
        self.drop_if(&mut media.sha256, |sha256| sha256.0.len() != 64);
    }

    fn cards(&mut self, cards: &mut Vec<ContactCard>) {
        self.list(cards, MOST_CONTACTS);
        let mut together = 0;
        for card in cards.iter_mut() {
            self.text(&mut card.name, LONGEST_NAME);
            self.list(&mut card.phones, MOST_PHONES);
            card.phones.iter_mut().for_each(|phone| self.text(phone, LONGEST_PHONE));
            if together + card.bytes() > MOST_CONTACT_BYTES {
                // Half a vCard is useless; name and numbers carry most of its information.
                card.vcard.clear();
                self.cut = true;
            }
            together += card.bytes();
        }
    }
}

impl Content {
    /// Truncates the content to its bounds. Returns whether anything was cut.
    pub fn cut(&mut self) -> bool {
        if self.target().is_some_and(|target| target.id.is_too_long()) {
            *self = Self::Unknown { raw_type: self.type_name().to_owned() };
            return true;
        }
        let mut scissors = Scissors::default();
        match self {
            Self::Text { text } | Self::Edit { text, .. } => scissors.text(text, LONGEST_TEXT),
            Self::Image { media, caption } | Self::Video { media, caption, .. } | Self::Document { media, caption } => {
                scissors.media(media);
                scissors.optional(caption, LONGEST_TEXT);
            }
            Self::Audio { media } | Self::Sticker { media, .. } => scissors.media(media),
            Self::Reaction { emoji, .. } => scissors.text(emoji, LONGEST_EMOJI),
            Self::Location { name, address, .. } => {
                scissors.optional(name, LONGEST_TITLE);
                scissors.optional(address, LONGEST_TITLE);
            }
            Self::Contact { contacts } => scissors.cards(contacts),
            Self::Poll { name, options, .. } => {
                scissors.text(name, LONGEST_TITLE);
                scissors.list(options, MOST_OPTIONS);
                options.iter_mut().for_each(|option| scissors.text(option, LONGEST_NAME));
            }
            Self::PollVote { selected, .. } => {
                scissors.list(selected, MOST_OPTIONS);
                selected.iter_mut().for_each(|option| scissors.text(option, LONGEST_NAME));
            }
            Self::Product { product_id } => scissors.text(product_id, LONGEST_NAME),
            Self::ButtonReply { id, title } | Self::ListReply { id, title } => {
                scissors.text(id, LONGEST_NAME);
                scissors.text(title, LONGEST_TITLE);
            }
            Self::Order { order_id, token, currency, .. } => {
                [order_id, token, currency].into_iter().for_each(|text| scissors.text(text, LONGEST_NAME));
            }
            Self::Event { name, location, .. } => {
                scissors.text(name, LONGEST_TITLE);
                scissors.optional(location, LONGEST_TITLE);
            }
            Self::Unknown { raw_type } => scissors.text(raw_type, LONGEST_NAME),
            Self::Story(story) => return cut_story(story),
            Self::StoryDelete { .. }
            | Self::Delete { .. }
            | Self::Pin { .. }
            | Self::Unpin { .. }
            | Self::Star { .. }
            | Self::Unstar { .. }
            | Self::Catalog
            | Self::Undecryptable { .. } => {}
        }
        scissors.cut
    }

    /// Removes the content's data; its type and its target message remain.
    pub fn withhold(&mut self) {
        match self {
            Self::Text { text } | Self::Edit { text, .. } => text.clear(),
            Self::Image { media, caption } | Self::Video { media, caption, .. } | Self::Document { media, caption } => {
                empty_media(media);
                *caption = None;
            }
            Self::Audio { media } | Self::Sticker { media, .. } => empty_media(media),
            Self::Reaction { emoji, .. } => emoji.clear(),
            Self::Location { latitude, longitude, name, address, .. } => {
                (*latitude, *longitude) = (0.0, 0.0);
                (*name, *address) = (None, None);
            }
            Self::Story(story) => {
                story.says.withhold();
                story.recipients = None;
            }
            Self::Contact { contacts } => contacts.clear(),
            Self::Poll { name, options, .. } => {
                name.clear();
                options.clear();
            }
            Self::PollVote { selected, .. } => selected.clear(),
            Self::ButtonReply { id, title } | Self::ListReply { id, title } => {
                id.clear();
                title.clear();
            }
            Self::Product { product_id } => product_id.clear(),
            Self::Order { token, .. } => token.clear(),
            Self::Event { name, location, .. } => {
                name.clear();
                *location = None;
            }
            Self::Delete { .. }
            | Self::Pin { .. }
            | Self::Unpin { .. }
            | Self::Star { .. }
            | Self::Unstar { .. }
            | Self::Catalog
            | Self::StoryDelete { .. }
            | Self::Undecryptable { .. }
            | Self::Unknown { .. } => {}
        }
    }

    /// Whether a content that consists of fields has lost them to [`withhold`](Self::withhold). Such a content must not
    /// be shown with zero values nor sent again. Media needs no such check: it lacks its handle.
    pub fn holds_nothing(&self) -> bool {
        match self {
            Self::Text { text } => text.is_empty(),
            Self::Location { latitude, longitude, name: None, address: None, .. } => {
                *latitude == 0.0 && *longitude == 0.0
            }
            Self::Contact { contacts } => contacts.is_empty(),
            Self::Poll { name, .. } | Self::Event { name, .. } => name.is_empty(),
            Self::ButtonReply { id, title } | Self::ListReply { id, title } => id.is_empty() && title.is_empty(),
            Self::Product { product_id } => product_id.is_empty(),
            _ => false,
        }
    }
}

/// Keeps the media's type and size, but no handle to its bytes.
fn empty_media(media: &mut Media) {
    let kept = Media {
        size_bytes: media.size_bytes,
        voice: media.voice,
        view_once: media.view_once,
        ..Media::of_type(&media.mime_type)
    };
    *media = kept;
}

/// Truncates a story. A list of recipients that is too long is dropped: the gateway does not need it.
fn cut_story(story: &mut Story) -> bool {
    let mut scissors = Scissors::default();
    scissors.drop_if(&mut story.recipients, |recipients| recipients.len() > MOST_MENTIONS);
    for colour in [&mut story.style.background_color, &mut story.style.text_color] {
        scissors.optional(colour, LONGEST_NAME);
    }
    // A story inside a story is invalid; no network sends one.
    if story.says.is_story() {
        story.says = Content::Unknown { raw_type: "story".to_owned() };
        return true;
    }
    story.says.cut() || scissors.cut
}

impl Surroundings {
    /// Truncates the fields to their bounds. Returns whether anything was cut.
    pub fn cut(&mut self) -> bool {
        let mut scissors = Scissors::default();
        let is_beyond = |quoted: &Quoted| quoted.message_id.is_too_long() || quoted.from.is_too_long();
        scissors.drop_if(&mut self.quoted, is_beyond);
        if let Some(quoted) = &mut self.quoted {
            scissors.optional(&mut quoted.text, LONGEST_QUOTE);
        }
        scissors.list(&mut self.mentions, MOST_MENTIONS);
        let before = self.mentions.len();
        self.mentions.retain(|address: &Address| !address.is_too_long());
        scissors.cut |= self.mentions.len() < before;
        let is_long = |url: &str| url.chars().count() > LONGEST_URL;
        scissors.drop_if(&mut self.link_preview, |preview: &LinkPreview| is_long(&preview.url));
        if let Some(preview) = &mut self.link_preview {
            scissors.optional(&mut preview.title, LONGEST_TITLE);
            scissors.optional(&mut preview.description, LONGEST_TITLE);
            scissors.drop_if(&mut preview.image_url, |url| is_long(url));
        }
        scissors.cut
    }
}

impl Quoted {
    /// The part of a text that is repeated where it is quoted.
    pub fn excerpt(mut text: String) -> String {
        Scissors::default().text(&mut text, LONGEST_QUOTE);
        text
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::message::MessageKey;

    fn address(length: usize) -> Address {
        serde_json::from_value(format!("{}@x", "1".repeat(length - 2)).into()).unwrap()
    }

    fn card(vcard: usize) -> ContactCard {
        ContactCard { name: "Ann".into(), vcard: "v".repeat(vcard), phones: vec!["1555".into()] }
    }

    #[test]
    fn a_text_is_kept_up_to_its_bound_and_cut_beyond() {
        for letter in ["x", "ä", "👍"] {
            let mut whole = Content::Text { text: letter.repeat(LONGEST_TEXT) };
            let before = whole.clone();
            assert!(!whole.cut());
            assert_eq!(whole, before);
            let mut long = Content::Text { text: letter.repeat(LONGEST_TEXT + 1) };
            assert!(long.cut());
            assert_eq!(long, before);
        }
    }

    #[test]
    fn what_is_withheld_holds_nothing() {
        let mut contents = [
            Content::Text { text: "hello".into() },
            Content::Location { latitude: 1.0, longitude: 0.0, name: None, address: None, live: false },
            Content::Contact { contacts: vec![card(1)] },
            Content::Poll { name: "Lunch?".into(), options: vec!["Pizza".into()], selectable_count: 1 },
            Content::Product { product_id: "p".into() },
        ];
        for content in &mut contents {
            assert!(!content.holds_nothing(), "{}", content.type_name());
            content.withhold();
            assert!(content.holds_nothing(), "{}", content.type_name());
        }
    }

    #[test]
    fn cards_are_twenty_and_their_vcards_128_kib_together() {
        let of = |cards: Vec<ContactCard>| Content::Contact { contacts: cards };
        let beside = card(0).bytes();
        let each = (MOST_CONTACT_BYTES - 20 * beside) / 20;
        let mut all = of(vec![card(each); 20]);
        assert!(!all.cut());
        let mut more = of(vec![card(each); 21]);
        assert!(more.cut());
        assert_eq!(more, all);
        let mut large = of(vec![card(MOST_CONTACT_BYTES - beside), card(1)]);
        assert!(large.cut());
        assert_eq!(large, of(vec![card(MOST_CONTACT_BYTES - beside), card(0)]));
    }

    #[test]
    fn what_names_something_by_too_long_an_id_is_not_guessed() {
        let key = |length| MessageKey { id: MessageId("A".repeat(length)), from_me: true, remote_jid: address(20) };
        let mut known = Content::Unpin { target: key(LONGEST_ID) };
        assert!(!known.cut());
        let mut unknown = Content::Unpin { target: key(LONGEST_ID + 1) };
        assert!(unknown.cut());
        assert_eq!(unknown, Content::Unknown { raw_type: "unpin".into() });
    }

    #[test]
    fn what_stands_around_a_message_is_bounded() {
        let quoted = |from, text: usize| {
            Some(Quoted { message_id: MessageId("A".into()), from: address(from), text: Some("x".repeat(text)) })
        };
        let around = |from, text, mentions, of| Surroundings {
            quoted: quoted(from, text),
            mentions: vec![address(of); mentions],
            ..Surroundings::default()
        };
        let mut whole = around(128, LONGEST_QUOTE, MOST_MENTIONS, 128);
        assert!(!whole.clone().cut());
        let mut long = around(128, LONGEST_QUOTE + 1, MOST_MENTIONS + 1, 128);
        assert!(long.cut());
        assert_eq!(long, whole);
        assert!(around(129, 1, 0, 9).cut() && around(9, 1, 1, 129).cut());
        whole.link_preview =
            Some(LinkPreview { url: "x".repeat(LONGEST_URL + 1), title: None, description: None, image_url: None });
        assert!(whole.cut());
        assert_eq!(whole.link_preview, None);
    }

    /// The bounds add up so that a message fits into one log entry with its event and its context.
    #[test]
    fn the_largest_message_of_each_type_stays_below_half_a_mib() {
        let wide = |length: usize| "👍".repeat(length);
        let media = || Media { filename: Some(wide(300)), ..Media::of_type(&wide(300)) };
        let mut contents = vec![
            Content::Text { text: wide(100_000) },
            Content::Image { media: media(), caption: Some(wide(100_000)) },
            Content::Poll { name: wide(5_000), options: vec![wide(1_000); 200], selectable_count: 1 },
            Content::Contact { contacts: vec![card(64 * 1024); 64] },
            Content::ButtonReply { id: wide(10_000), title: wide(100_000) },
        ];
        for content in &mut contents {
            content.cut();
            let mut around = Surroundings {
                quoted: Some(Quoted {
                    message_id: MessageId("A".repeat(255)),
                    from: address(128),
                    text: Some(wide(100_000)),
                }),
                mentions: vec![address(128); 5_000],
                ..Surroundings::default()
            };
            around.cut();
            let bytes = serde_json::to_vec(&(&content, &around)).unwrap().len();
            assert!(bytes < 512 * 1024, "{}: {bytes}", content.type_name());
        }
    }
}
