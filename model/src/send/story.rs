//! The body of a story.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::media::{self, MediaSend};
use super::schema::bear;
use super::{LONGEST_CAPTION, LONGEST_CLIENT_REF};
use crate::address::{Address, Suffixes};
use crate::error::CallError;
use crate::field::{Body, Fields, Judged, rule};
use crate::issue::{IssueCode, Violation};
use crate::media::Media;
use crate::message::Content;
use crate::story::StoryStyle;

/// Longest text of a story, in Unicode scalar values.
const LONGEST_TEXT: usize = 700;

/// Maximum number of explicit recipients.
const MOST_RECIPIENTS: usize = 5_000;

/// The highest font number of the network.
const LAST_FONT: u64 = 9;

const TYPES: &[&str] = &["text", "image", "video", "audio"];

/// A well-formed story.
#[derive(Clone, Debug, PartialEq)]
pub struct StoryRequest {
    pub says: StoryContent,
    pub style: StoryStyle,
    /// Explicit recipients, without duplicates.
    pub recipients: Option<Vec<Address>>,
    pub client_ref: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StoryContent {
    Ready(Content),
    /// Media must be fetched first.
    Media(MediaSend),
}

impl StoryRequest {
    /// Parses the body of a story.
    ///
    /// # Errors
    /// `invalid_request` with all violations.
    pub fn parse(body: &Body, suffixes: &Suffixes) -> Result<Self, CallError> {
        body.read(|fields| {
            let known = |word: &str| TYPES.iter().copied().find(|known| *known == word);
            let kind = fields.required("type", rule::one_of(TYPES, known));
            Self::read(kind.unwrap_or_default(), fields, suffixes)
        })
    }

    /// Reads the fields of a type; without a known type, those that all types share.
    fn read(kind: &str, fields: &Fields<'_>, suffixes: &Suffixes) -> Option<Self> {
        let client_ref = fields.optional("client_ref", rule::text(0..=LONGEST_CLIENT_REF));
        let recipients = fields.list("recipients", MOST_RECIPIENTS, rule::address(suffixes)).map(once_each);
        let media = Media::of_type("");
        let (says, style) = match kind {
            "text" => (read_text(fields), read_style(fields, true)),
            "audio" => (read_media(fields, Content::Audio { media }), read_style(fields, false)),
            "image" => {
                let said = media::said(kind, fields);
                (said.and_then(|(image, _)| read_media(fields, image)), StoryStyle::default())
            }
            "video" => {
                let caption = fields.optional("caption", rule::text(0..=LONGEST_CAPTION));
                let video = Content::Video { media, caption, gif: false, note: false };
                (read_media(fields, video), StoryStyle::default())
            }
            _ => (None, StoryStyle::default()),
        };
        Some(Self { says: says?, style, recipients, client_ref })
    }

    /// The JSON Schema of the bodies, one per type, recorded from the parser.
    pub fn schema() -> Value {
        let suffixes = Suffixes::simulated();
        let shape = |kind: &&str| {
            let mut shape = Body::outline(|body| body.read(|fields| Self::read(kind, fields, &suffixes)));
            bear(&mut shape, kind, &suffixes);
            shape
        };
        json!({ "oneOf": TYPES.iter().map(shape).collect::<Vec<Value>>() })
    }
}

fn read_text(fields: &Fields<'_>) -> Option<StoryContent> {
    let text = fields.required("text", rule::text(1..=LONGEST_TEXT))?;
    Some(StoryContent::Ready(Content::Text { text }))
}

fn read_media(fields: &Fields<'_>, mut said: Content) -> Option<StoryContent> {
    let url = fields.required("media_url", rule::web_url);
    let mime_type = fields.required("mime_type", rule::text(1..=255));
    if let Some(media) = said.media_mut() {
        media.mime_type = mime_type?;
    }
    Some(StoryContent::Media(MediaSend { url: url?, said, convert: false }))
}

fn read_style(fields: &Fields<'_>, text: bool) -> StoryStyle {
    let background_color = fields.optional("background_color", color);
    if !text {
        return StoryStyle { background_color, ..StoryStyle::default() };
    }
    let font = fields.optional("font", rule::integer(0..=LAST_FONT)).and_then(|font| u8::try_from(font).ok());
    StoryStyle { background_color, text_color: fields.optional("text_color", color), font }
}

/// `#RRGGBB`
fn color(value: &Value) -> Judged<String> {
    let text = rule::string(value, || json!({ "maxLength": 7, "pattern": "^#[0-9A-Fa-f]{6}$" }))?;
    let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6);
    if digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        return Ok(text.to_owned());
    }
    Err(Violation::new(IssueCode::Format, "must be a colour such as #1E6E4F"))
}

fn once_each(mut addresses: Vec<Address>) -> Vec<Address> {
    let mut seen = BTreeSet::new();
    addresses.retain(|address| seen.insert(address.clone()));
    addresses
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn parse(body: Value) -> Result<StoryRequest, CallError> {
        StoryRequest::parse(&body.try_into().unwrap(), &Suffixes::simulated())
    }

    #[test]
    fn each_rule_of_a_story_is_named() {
        let url = "https://example.com/a.png";
        let table = [
            (json!({}), json!(["type"]), "required"),
            (json!({ "type": "sticker" }), json!(["type"]), "enum"),
            (json!({ "type": "text" }), json!(["text"]), "required"),
            (json!({ "type": "text", "text": "" }), json!(["text"]), "too_short"),
            (json!({ "type": "text", "text": "x".repeat(701) }), json!(["text"]), "too_long"),
            (json!({ "type": "text", "text": "x", "font": 10 }), json!(["font"]), "too_big"),
            (json!({ "type": "text", "text": "x", "background_color": "red" }), json!(["background_color"]), "format"),
            (json!({ "type": "text", "text": "x", "text_color": "#12345G" }), json!(["text_color"]), "format"),
            (json!({ "type": "text", "text": "x", "recipients": [] }), json!(["recipients"]), "empty"),
            (json!({ "type": "text", "text": "x", "recipients": ["+1"] }), json!(["recipients", 0]), "too_short"),
            (json!({ "type": "image", "mime_type": "image/png" }), json!(["media_url"]), "required"),
            (json!({ "type": "video", "media_url": url }), json!(["mime_type"]), "required"),
            (
                json!({ "type": "image", "media_url": url, "mime_type": "image/png", "caption": "x".repeat(1025) }),
                json!(["caption"]),
                "too_long",
            ),
            (
                json!({ "type": "audio", "media_url": url, "mime_type": "audio/ogg", "background_color": "#1" }),
                json!(["background_color"]),
                "format",
            ),
        ];
        for (body, path, code) in table {
            let details = parse(body.clone()).unwrap_err().details.unwrap();
            assert_eq!((&details[0]["path"], &details[0]["code"]), (&path, &json!(code)), "{body}");
        }
        let many: Vec<String> = (0..5001).map(|n| format!("1555{n:07}")).collect();
        let refused = parse(json!({ "type": "text", "text": "x", "recipients": many })).unwrap_err();
        assert_eq!(refused.details.unwrap()[0]["code"], "too_many");
    }

    #[test]
    fn each_shape_takes_what_its_type_reads() {
        let schema = StoryRequest::schema();
        let table = [
            ("text", "background_color client_ref font recipients text text_color type", json!(["text", "type"])),
            (
                "image",
                "caption client_ref media_url mime_type recipients type",
                json!(["media_url", "mime_type", "type"]),
            ),
            (
                "video",
                "caption client_ref media_url mime_type recipients type",
                json!(["media_url", "mime_type", "type"]),
            ),
            (
                "audio",
                "background_color client_ref media_url mime_type recipients type",
                json!(["media_url", "mime_type", "type"]),
            ),
        ];
        let shapes = schema["oneOf"].as_array().unwrap();
        assert_eq!(shapes.len(), table.len());
        for (shape, (kind, fields, required)) in shapes.iter().zip(table) {
            let properties = shape["properties"].as_object().unwrap();
            let mut named: Vec<&str> = properties.keys().map(String::as_str).collect();
            named.sort_unstable();
            assert_eq!((&properties["type"]["const"], named.join(" ")), (&json!(kind), fields.to_owned()));
            assert_eq!(shape["required"], required, "{kind}");
        }
    }

    #[test]
    fn a_recipient_who_is_named_twice_counts_once() {
        let named = ["15551234567", "15551234567@s.example", "15557654321"];
        let story = parse(json!({ "type": "text", "text": "x", "recipients": named })).unwrap();
        assert_eq!(story.recipients.unwrap().len(), 2);
    }
}
