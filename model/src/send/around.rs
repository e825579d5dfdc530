//! The context of a send: quote, mentions, preview, disappearing.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::target;
use crate::address::{Address, AddressKind, Suffixes};
use crate::field::{Fields, rule};
use crate::issue::{IssueCode, Violation};
use crate::message::{LinkPreview, MessageKey};

/// Maximum number of mentions in a message: the maximum size of a group.
const MOST_MENTIONS: usize = 1024;

/// Mentions all members of the group.
const ALL: &str = "all";

const PREVIEW: &str = "link_preview";

/// Longest timer of disappearing messages: a year, in seconds.
const LONGEST_EXPIRATION: u64 = 366 * 24 * 3600;

/// The context of a message, as requested. The author and text of the quoted message are filled in from the channel's
/// store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SendAround {
    pub quoted: Option<MessageKey>,
    pub mentions: Vec<Address>,
    pub mentions_all: bool,
    pub preview: PreviewMode,
    /// Seconds.
    pub ephemeral_expiration: Option<u32>,
}

/// Whether a text has a preview of its first link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum PreviewMode {
    /// As the channel's settings say.
    #[default]
    Usual,
    Off,
    Shown(LinkPreview),
}

/// Reads the fields that apply to the type; others are ignored.
pub fn read(kind: &str, fields: &Fields<'_>, to: Option<AddressKind>, suffixes: &Suffixes) -> SendAround {
    let quoted = target::read_optional_key(fields, "quoted", suffixes);
    let mut around = SendAround { quoted, ..SendAround::default() };
    if matches!(kind, "text" | "image" | "video" | "document") && fields.has("mentions") {
        read_mentions(fields, to, suffixes, &mut around);
    }
    if kind == "text" {
        around.preview = read_preview(fields);
    }
    let expiration = fields.optional("ephemeral_expiration", rule::integer(0..=LONGEST_EXPIRATION));
    around.ephemeral_expiration = expiration.and_then(|seconds| u32::try_from(seconds).ok()).filter(|s| *s > 0);
    around
}

fn read_mentions(fields: &Fields<'_>, to: Option<AddressKind>, suffixes: &Suffixes, around: &mut SendAround) {
    const KEY: &str = "mentions";
    // `None` stands for all members.
    let one = |value: &Value| if value == ALL { Ok(None) } else { rule::address(suffixes)(value).map(Some) };
    let one = rule::described(|| json!({ "pattern": "^(all|[0-9]{3,}|[A-Za-z0-9_-]+@[A-Za-z0-9_.-]+)$" }), one);
    let item = rule::wants(&one);
    let mentioned = fields.list(KEY, MOST_MENTIONS, one);
    fields.tell(KEY, || {
        json!({
            "type": "array",
            "items": item,
            "minItems": 1,
            "maxItems": MOST_MENTIONS,
            "if": { "contains": { "const": ALL } },
            "then": { "maxItems": 1 },
        })
    });
    let Some(mentioned) = mentioned else { return };
    if to.is_some_and(|to| to != AddressKind::Group) {
        fields.refuse(KEY, Violation::new(IssueCode::Conflict, "mentions are possible only in a group"));
    }
    if mentioned.len() > 1 && mentioned.contains(&None) {
        fields.refuse(KEY, Violation::new(IssueCode::Conflict, "name members or \"all\", not both"));
    }
    around.mentions_all = mentioned.contains(&None);
    around.mentions = mentioned.into_iter().flatten().collect();
}

/// Reads the preview of the first link: the link and what the caller provides. Nothing is fetched.
fn read_preview(fields: &Fields<'_>) -> PreviewMode {
    fields.tell(PREVIEW, || {
        let text = |longest: usize| json!({ "type": "string", "maxLength": longest });
        let shown = json!({
            "type": "object",
            "properties": {
                "title": text(255),
                "description": text(1024),
                "image_url": rule::wants(rule::web_url),
            },
        });
        json!({ "anyOf": [{ "type": "boolean" }, shown] })
    });
    fields.between(|| {
        let any = json!({ "properties": { PREVIEW: { "type": "boolean" } } });
        let linked = json!({ "properties": { "text": { "pattern": "https?://[A-Za-z0-9]" } } });
        json!({ "dependentSchemas": { PREVIEW: { "anyOf": [any, linked] } } })
    });
    let preview = match fields.get(PREVIEW) {
        None => return PreviewMode::Usual,
        Some(wanted) => read_own_preview(fields, wanted),
    };
    preview.map_or(PreviewMode::Off, PreviewMode::Shown)
}

fn read_own_preview(fields: &Fields<'_>, wanted: &Value) -> Option<LinkPreview> {
    let text = fields.get("text").and_then(Value::as_str).unwrap_or_default();
    match wanted {
        Value::Bool(false) => None,
        // A text without a link has no preview.
        Value::Bool(true) => bare_preview(text),
        Value::Object(_) => {
            let given = fields.object(PREVIEW)?;
            let title = given.optional("title", rule::text(0..=255));
            let description = given.optional("description", rule::text(0..=1024));
            let image_url = given.optional("image_url", rule::web_url);
            let bare = bare_preview(text);
            if bare.is_none() {
                fields.refuse(PREVIEW, Violation::new(IssueCode::Conflict, "the text contains no link"));
            }
            Some(LinkPreview { title, description, image_url, ..bare? })
        }
        _ => {
            fields.refuse(PREVIEW, rule::wrong_type("true, false or an object"));
            None
        }
    }
}

/// A preview of the text's first link without title, description and image.
pub fn bare_preview(text: &str) -> Option<LinkPreview> {
    let url = first_link(text)?.to_owned();
    Some(LinkPreview { url, title: None, description: None, image_url: None })
}

/// The first `http` or `https` link in a text, without trailing punctuation.
fn first_link(text: &str) -> Option<&str> {
    let mut words = text.split(char::is_whitespace);
    words.find_map(|word| {
        let begin = word.find("http://").into_iter().chain(word.find("https://")).min()?;
        let link = word[begin..].trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '>', '"', '\'']);
        let host = link.split_once("://").is_some_and(|(_, rest)| !rest.is_empty());
        host.then_some(link)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_link_of_a_text_is_found_without_its_punctuation() {
        let table = [
            ("see https://example.com/a?b=1.", Some("https://example.com/a?b=1")),
            ("(http://example.com)", Some("http://example.com")),
            ("a\nhttps://a.example, https://b.example", Some("https://a.example")),
            ("https:// nothing", None),
            ("ftp://example.com and example.com", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(first_link(text), expected, "{text}");
        }
    }
}
