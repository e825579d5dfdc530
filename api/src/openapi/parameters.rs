//! Path parameters: schemas, descriptions and bounds.

use model::address::{LONGEST_ADDRESS, MAX_DIGITS};
use model::error::ErrorCode;
use model::field::rule::{ADDRESS_OR_DIGITS, LONGEST_UUID};
use model::issue::{IssueCode, Violation};
use model::target::LONGEST_URL;
use serde_json::{Value, json};

/// The JSON Schema and the description of a path parameter; `None` for an undescribed name.
///
/// A value that violates the schema is a missing resource.
pub fn of_path(path: &str, name: &str) -> Option<(Value, &'static str)> {
    let uuid = || json!({ "type": "string", "format": "uuid", "maxLength": LONGEST_UUID });
    let address =
        |pattern: &str| json!({ "type": "string", "minLength": 3, "maxLength": LONGEST_ADDRESS, "pattern": pattern });
    let of_network = || address("^[A-Za-z0-9_-]+@[A-Za-z0-9_.-]+$");
    let person = || address(ADDRESS_OR_DIGITS);
    let text_of = |longest: usize, pattern: &str| json!({ "type": "string", "minLength": 1, "maxLength": longest, "pattern": pattern });
    let text = || text_of(255, "^[A-Za-z0-9_.=-]+$");
    Some(match name {
        "id" if path.starts_with("/v1/channels/") || path.starts_with("/v1/admin/channels/") => {
            (uuid(), "Id of the channel")
        }
        "id" if path.starts_with("/v1/admin/nodes/") => {
            (json!({ "type": "integer", "minimum": 1, "maximum": u64::MAX }), "Id of the node")
        }
        "id" if path.starts_with("/v1/admin/keys/") => {
            (text_of(LONGEST_UUID, "^[A-Za-z0-9_-]+$"), "Id or prefix of the API key")
        }
        "id" if path.starts_with("/v1/admin/customers/") => (uuid(), "Id of the customer"),
        "id" if path.starts_with("/v1/webhook-endpoints/") || path.starts_with("/v1/admin/webhook-endpoints/") => {
            (uuid(), "Id of the webhook endpoint")
        }
        "id" if path.starts_with("/v1/api-keys/") => (uuid(), "Id of the API key"),
        "id" if path.starts_with("/v1/admin/backup/jobs/") => (uuid(), "Id of the backup"),
        "id" if path.starts_with("/v1/support/") || path.starts_with("/v1/admin/support/") => {
            (uuid(), "Id of the ticket")
        }
        "shard" => (json!({ "type": "integer", "minimum": 1, "maximum": 1024 }), "Number of the shard"),
        "group" => (
            json!({ "type": "integer", "minimum": 0, "maximum": 1024 }),
            "Number of the Raft group; 0 is the directory",
        ),
        "sha256" => (text_of(64, "^[0-9a-f]{64}$"), "SHA-256 of the bytes"),
        "delivery_id" => (uuid(), "Id of the webhook delivery"),
        "media_id" => (uuid(), "Id of the media"),
        "user_id" => (uuid(), "Id of the member"),
        "session_id" => (uuid(), "Id of the session"),
        "message_id" => (text(), "Id of the message in the network"),
        "asset" => (json!({ "type": "string", "enum": ["page.css", "page.js", "notice.txt"] }), "Name of the file"),
        "token" => (text_of(512, "^[A-Za-z0-9_.=-]+$"), "Token of a media link"),
        "contact_id" => (person(), "Address of the contact, or the digits of its number"),
        "chat_id" => (person(), "Address of the chat, or the digits of a contact's number"),
        "group_id" => (of_network(), "Address of the group"),
        "community_id" => (of_network(), "Address of the community"),
        "newsletter_id" => (of_network(), "Address of the newsletter"),
        "lid" => (person(), "Linked-device address, or its digits"),
        "digits" => (text_of(MAX_DIGITS, "^[0-9]{3,15}$"), "Digits of the phone number"),
        "server_id" => {
            (json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }), "Number of the message in the newsletter")
        }
        "invite_code" => (
            text_of(LONGEST_URL, "^(https?://[A-Za-z0-9.-]+/)?[A-Za-z0-9_.=-]{1,64}$"),
            "Invite code, or the whole URL that ends in it, percent-encoded",
        ),
        "call_id" => (text(), "Id of the call"),
        "story_id" => (text(), "Id of the story"),
        "label_id" => (text(), "Id of the label"),
        "product_id" => (text(), "Id of the product"),
        "collection_id" => (text(), "Id of the collection"),
        "order_id" => (text(), "Id of the order"),
        _ => return None,
    })
}

/// The error code when a path parameter names nothing, even if it is no valid id. `None` for a parameter whose routes
/// differ in that, and for a channel of the account, whose code comes with the kind of the route.
pub fn missing(path: &str, name: &str) -> Option<ErrorCode> {
    Some(match name {
        "id" if path.starts_with("/v1/channels/") => return None,
        "id" if path.starts_with("/v1/admin/channels/") => ErrorCode::ChannelNotFound,
        "id" if path.contains("/webhook-endpoints/") => ErrorCode::WebhookEndpointNotFound,
        "contact_id" | "lid" | "digits" => ErrorCode::ContactNotFound,
        "chat_id" => ErrorCode::ChatNotFound,
        "server_id" => ErrorCode::MessageNotFound,
        "message_id" | "call_id" => return None,
        _ => ErrorCode::NotFound,
    })
}

/// The names of a path's parameters.
pub fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// Refuses values that are longer than documented, except UUIDs, which then name nothing, and tokens of links.
pub fn judge(path: &str, name: &str, text: &str) -> Result<(), Violation> {
    match longest(path, name) {
        Some(longest) if text.chars().count() as u64 > longest => {
            Err(Violation::new(IssueCode::TooLong, format!("at most {longest} characters")))
        }
        _ => Ok(()),
    }
}

/// Whether [`judge`] bounds any parameter of the path.
pub fn has_bounds(path: &str) -> bool {
    names(path).any(|name| longest(path, name).is_some())
}

/// The most characters of a value that [`judge`] bounds.
fn longest(path: &str, name: &str) -> Option<u64> {
    // Checked first, because this runs for every request, and building a schema takes as long as reading some bodies.
    if matches!(name, "id" | "token") {
        return None;
    }
    let (schema, _) = of_path(path, name)?;
    schema.get("maxLength").and_then(Value::as_u64).filter(|_| schema.get("format").is_none())
}
