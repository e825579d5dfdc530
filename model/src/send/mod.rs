//! The body of a send: two accepted shapes, parsed into one normal form.
//!
//! Only what the body alone shows is validated here. Whether `to` can be reached, whether a referenced message exists,
//! and what is behind a URL is checked elsewhere.
//!
//! - [`content`]: content without media; [`media`]: content with media, which is still to be fetched.
//! - [`target`]: actions on an existing message. [`around`]: quotes, mentions and the like.

mod around;
mod content;
mod media;
mod schema;
mod story;
mod target;

pub use self::around::{PreviewMode, SendAround, bare_preview};
pub use self::content::{MOST_CONTACT_BYTES, MOST_CONTACTS};
pub use self::media::MediaSend;
pub use self::schema::schema;
pub use self::story::{StoryContent, StoryRequest};
use crate::address::{Address, AddressKind, Suffixes};
use crate::error::CallError;
use crate::field::{Body, Fields, rule};
use crate::issue::{IssueCode, Issues, Violation};
use crate::message::{Content, MessageKey, SEND_TYPES};

/// Longest text of a message, in Unicode scalar values.
pub const LONGEST_TEXT: usize = 4096;

/// Longest caption, in Unicode scalar values.
pub const LONGEST_CAPTION: usize = 1024;

/// Longest `client_ref`, in Unicode scalar values.
pub const LONGEST_CLIENT_REF: usize = 128;

/// Longest emoji of a reaction, in Unicode scalar values.
pub const LONGEST_EMOJI: usize = 8;

/// A well-formed send. Whether `to` can be reached is checked by the channel's owner.
#[derive(Clone, Debug, PartialEq)]
pub struct SendRequest {
    /// The recipient; for types without `to`, the chat of the target message.
    pub to: Address,
    pub content: SendContent,
    pub around: SendAround,
    pub client_ref: Option<String>,
}

/// The content to send.
#[derive(Clone, Debug, PartialEq)]
pub enum SendContent {
    /// Complete content.
    Ready(Content),
    /// Media must be fetched first; [`MediaSend::content`] then yields the content.
    Media(MediaSend),
    /// The content of a message that this channel has stored.
    Forward(MessageKey),
}

impl SendContent {
    pub fn ready(&self) -> Option<&Content> {
        match self {
            Self::Ready(content) => Some(content),
            Self::Media(_) | Self::Forward(_) => None,
        }
    }
}

impl SendRequest {
    /// Parses the flat or the nested shape. `to` is at the top level in both, the fields of the type are beside `type`,
    /// and `client_ref` may be at either level of the nested shape.
    ///
    /// # Errors
    /// `invalid_request` with all violations.
    pub fn parse(body: &Body, suffixes: &Suffixes) -> Result<Self, CallError> {
        let issues = Issues::new();
        let top = Fields::new(body, &issues);
        let inner = nested_fields(&top).map_err(|violation| violation.at(&["type"]))?;
        let client_ref = read_client_ref(&top, inner.as_ref());
        let fields = inner.unwrap_or_else(|| top.clone());
        let known = |word: &str| SEND_TYPES.iter().copied().find(|known| *known == word);
        let Some(kind) = fields.required("type", rule::one_of(SEND_TYPES, known)) else {
            return Err(issues.into_error());
        };

        let read = Parts::read(kind, &top, &fields, suffixes);
        issues.finish(|| Some(Self { to: read.to?, content: read.content?, around: read.around, client_ref }))
    }
}

/// The parsed parts of a type. A missing or invalid part has an issue.
struct Parts {
    to: Option<Address>,
    content: Option<SendContent>,
    around: SendAround,
}

impl Parts {
    /// Reads `to` at the top level, and the fields of the type beside `type`.
    fn read(kind: &str, top: &Fields<'_>, fields: &Fields<'_>, suffixes: &Suffixes) -> Self {
        if let Some(read) = target::reader(kind) {
            // The recipient is the chat of the target message; an additional `to` is ignored.
            let content = read(fields, suffixes);
            let to = content.as_ref().and_then(|content| content.target()).map(|target| target.remote_jid.clone());
            return Self { to, content: content.map(SendContent::Ready), around: SendAround::default() };
        }
        let content = match kind {
            "forward" => target::read_key(fields, "message_key", suffixes).map(SendContent::Forward),
            _ => match media::said(kind, fields) {
                Some(said) => media::read(said, fields).map(SendContent::Media),
                None => content::read(kind, fields).map(SendContent::Ready),
            },
        };
        let to = top.required("to", rule::address(suffixes));
        let to_kind = to.as_ref().map(|to| to.kind(suffixes));
        if let Some(SendContent::Media(media)) = &content
            && media.said.media().is_some_and(|media| media.view_once)
            && to_kind == Some(AddressKind::Newsletter)
        {
            let why = "what is sent to a newsletter cannot be view_once";
            fields.refuse("view_once", Violation::new(IssueCode::Conflict, why));
        }
        let around = around::read(kind, fields, to_kind, suffixes);
        Self { to, content, around }
    }
}

/// The fields in `body` if the request has the nested shape.
fn nested_fields<'a>(top: &Fields<'a>) -> Result<Option<Fields<'a>>, Violation> {
    let nested = top.get("body").is_some_and(|body| body.get("type").is_some());
    if nested && top.has("type") {
        return Err(Violation::new(IssueCode::Conflict, "give the type at the top or inside body, not both"));
    }
    Ok(if nested { top.object("body") } else { None })
}

/// The caller's reference. In the nested shape it may be at the top level or inside `body`, but not in both.
fn read_client_ref(top: &Fields<'_>, inner: Option<&Fields<'_>>) -> Option<String> {
    const KEY: &str = "client_ref";
    let level = match inner {
        Some(inner) if inner.has(KEY) && top.has(KEY) => {
            inner.refuse(
                KEY,
                Violation::new(IssueCode::Conflict, "give client_ref at the top or inside body, not both"),
            );
            return None;
        }
        Some(inner) if inner.has(KEY) => inner,
        _ => top,
    };
    level.optional(KEY, rule::text(0..=LONGEST_CLIENT_REF))
}

#[cfg(test)]
mod tests;
