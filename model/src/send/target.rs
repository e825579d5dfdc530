//! Actions on an existing message: reaction, edit, delete, pin, star.

use serde_json::{Value, json};

use super::{LONGEST_EMOJI, LONGEST_TEXT};
use crate::address::{AddressKind, Suffixes};
use crate::field::{Fields, Judged, rule};
use crate::id::MessageId;
use crate::issue::{IssueCode, Violation};
use crate::message::{Content, MessageKey};

/// Permitted durations of a pin, in seconds: a day, a week, 30 days.
const PIN_DURATIONS: [u32; 3] = [86_400, 604_800, 2_592_000];

/// Default duration of a pin; the network's own clients suggest it.
const DEFAULT_PIN_DURATION: u32 = 604_800;

/// Reads a type that refers to its target by `message_key`.
type Reader = fn(&Fields<'_>, &Suffixes) -> Option<Content>;

/// The reader of a type that has a target message instead of `to`.
pub fn reader(kind: &str) -> Option<Reader> {
    Some(match kind {
        "reaction" => |fields, suffixes| {
            let target = read_target(fields, suffixes);
            // An empty emoji removes the reaction.
            let emoji = fields.required("emoji", rule::text(0..=LONGEST_EMOJI));
            Some(Content::Reaction { target: target?, emoji: emoji? })
        },
        "edit" => |fields, suffixes| {
            let target = read_target(fields, suffixes);
            let text = fields.required("text", rule::text(1..=LONGEST_TEXT));
            if target.as_ref().is_some_and(|target| !target.from_me) {
                not_mine(fields, "only a message of the channel's own can be edited");
            }
            Some(Content::Edit { target: target?, text: text? })
        },
        "delete" => |fields, suffixes| {
            let target = read_target(fields, suffixes)?;
            let by_admin = !target.from_me;
            let direct = matches!(target.remote_jid.kind(suffixes), AddressKind::Phone | AddressKind::Lid);
            if by_admin && direct {
                not_mine(fields, "a message of another's can be deleted in a group only");
            }
            Some(Content::Delete { target, by_admin })
        },
        "pin" => |fields, suffixes| {
            let target = read_target(fields, suffixes);
            let duration = if fields.has("duration") {
                fields.optional("duration", pin_duration)
            } else {
                Some(DEFAULT_PIN_DURATION)
            };
            Some(Content::Pin { target: target?, duration_seconds: duration? })
        },
        "unpin" => |fields, suffixes| Some(Content::Unpin { target: read_target(fields, suffixes)? }),
        "star" => |fields, suffixes| Some(Content::Star { target: read_target(fields, suffixes)? }),
        "unstar" => |fields, suffixes| Some(Content::Unstar { target: read_target(fields, suffixes)? }),
        _ => return None,
    })
}

fn read_target(fields: &Fields<'_>, suffixes: &Suffixes) -> Option<MessageKey> {
    read_key(fields, "message_key", suffixes)
}

/// Reads a required MessageKey.
pub fn read_key(fields: &Fields<'_>, name: &str, suffixes: &Suffixes) -> Option<MessageKey> {
    key_of(&fields.required_object(name)?, suffixes)
}

/// Reads an optional MessageKey.
pub fn read_optional_key(fields: &Fields<'_>, name: &str, suffixes: &Suffixes) -> Option<MessageKey> {
    key_of(&fields.object(name)?, suffixes)
}

fn key_of(key: &Fields<'_>, suffixes: &Suffixes) -> Option<MessageKey> {
    let id = key.required("id", rule::text(1..=LONGEST_ID));
    let from_me = key.required("from_me", rule::boolean);
    let remote_jid = key.required("remote_jid", rule::address(suffixes));
    Some(MessageKey { id: MessageId(id?), from_me: from_me?, remote_jid: remote_jid? })
}

/// Longest accepted message id, in characters: far longer than the network's, short enough for a store key.
const LONGEST_ID: usize = 255;

fn not_mine(fields: &Fields<'_>, why: &str) {
    if let Some(key) = fields.object("message_key") {
        key.refuse("from_me", Violation::new(IssueCode::Conflict, why));
    }
}

fn pin_duration(value: &Value) -> Judged<u32> {
    let wants = || json!({ "enum": PIN_DURATIONS });
    let seconds = rule::described(wants, rule::integer(0..=u64::from(u32::MAX)))(value)?;
    let known = PIN_DURATIONS.into_iter().find(|known| u64::from(*known) == seconds);
    known.ok_or_else(|| Violation::new(IssueCode::Enum, "must be 86400, 604800 or 2592000"))
}
