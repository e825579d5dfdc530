//! Descriptions of fields that have none at their type: fields of bodies, which parsers read, and fields whose name
//! many types share. A field of only a few responses or events has a doc comment at its type instead.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Texts by `operation.field` or `Type.field`, and by `field` for all others of that name. A doc comment on a type's
/// field, or on the type of a field that the document inlines, takes precedence.
const TEXTS: &[(&str, &str)] = &[
    ("about", "The about text of the profile."),
    ("action", "The action to perform."),
    ("actor", "Who did it."),
    ("add_product_ids", "Products to add."),
    ("address", "The address, as text."),
    ("always_online", "Whether the channel shows as available all the time."),
    ("announce", "Whether only admins may send."),
    ("archived", "Whether the chat is archived."),
    ("at_once", "How many moves run at a time."),
    ("auto_download_max_bytes", "Media above this size is not fetched when it is received."),
    ("auto_download_media", "Whether media is fetched when it is received."),
    ("auto_download_types", "The types of media that are fetched when they are received."),
    ("background_color", "`#RRGGBB`"),
    ("began_at", "When it began; null while it waits."),
    ("body", "What is sent: a type and its fields."),
    ("burst", "The size of the token bucket: how many requests may come at once."),
    ("call_add", "Who may call."),
    ("caption", "The text below it."),
    ("cart_enabled", "Whether customers can gather products in a cart."),
    ("category", "What kind of business it is."),
    ("create_ticket.category", "What the ticket is about."),
    ("channel", "The rate limit of each channel."),
    ("channel_id", "The channel."),
    (
        "create_api_key.channel_id",
        "The channel that the key is bound to; without it, the key is for all channels of the account.",
    ),
    (
        "create_webhook_endpoint.channel_id",
        "The channel whose events it receives; without it, those of all channels of the account.",
    ),
    ("channel_limit", "The maximum number of channels; null for no limit."),
    ("channels", "Its channels."),
    ("chat", "The chat after the change."),
    ("chat_id", "The conversation: the other person's address, or the group's."),
    ("chat_type_filter", "The kind of chats whose events are sent."),
    ("clear_picture", "`true` removes the picture."),
    ("client_ref", "The caller's own reference, which is returned in the response and in `message.sent`."),
    ("close", "`HH:MM`; a time that is not after `open` is on the next day."),
    ("code", "A stable code, for programs."),
    ("color", "Its colour, by number."),
    ("confirm", "The account's name, as a confirmation."),
    ("contacts", "The contacts."),
    ("convert", "Whether to convert the audio to Opus."),
    ("count", "How many there are in total."),
    ("created_at", "When it was created."),
    ("created_by", "Who created it."),
    ("currency", "The currency, by its ISO 4217 code."),
    ("current_password", "The member's current password."),
    ("customer", "The rate limit of the account."),
    ("customer_id", "The account."),
    ("data", "The rows."),
    ("day", "The day of the week."),
    ("days", "Each day at most once; a day that is missing is closed."),
    ("default_ephemeral", "Seconds after which messages of new chats disappear; 0 for never."),
    ("delete_chat", "Whether the chat is deleted as well, until the next message."),
    ("description", "The description; empty or null for none."),
    ("device_name", "The name under which the phone lists this device, from the next pairing on."),
    ("direction", "Whether it was received or sent."),
    ("display_name", "The name under which the phone lists this device."),
    ("dry_run", "Whether to only count them."),
    ("duration", "Seconds for which it stays pinned."),
    ("email", "The e-mail address."),
    ("email_verified", "Whether the address is confirmed."),
    ("emit_device_sent", "Whether messages that are sent from the phone itself cause events."),
    ("emoji", "The emoji; an empty text removes the reaction."),
    ("enabled", "Whether it is on."),
    ("ended_at", "When it ended; null while it has not."),
    ("endpoint_id", "The webhook endpoint."),
    ("endpoints", "Webhook endpoints."),
    ("ephemeral", "Seconds after which messages disappear; 0 for never."),
    ("ephemeral_expiration", "Seconds after which it disappears; 0 for never."),
    ("error", "What went wrong."),
    ("event", "The event's name."),
    ("events", "The names of events."),
    ("expires_at", "When it expires."),
    ("expires_in_seconds", "For how many seconds it is valid."),
    ("file", "The bytes of the file."),
    ("filename", "The name of the file."),
    ("font", "Which of the network's fonts, by number."),
    ("force", "Drain it even if another node does not answer or is drained."),
    ("from", "Who wrote it: the phone address when it is known, otherwise the linked-device address."),
    ("reject_call.from", "Who calls, from `call.offered`."),
    ("CartUpdatedData.from", "Whose cart it is."),
    ("from_me", "Whether the channel itself wrote it."),
    ("gif", "Whether it plays in a loop and without sound."),
    ("group_add", "Who may add the account to groups."),
    ("group_id", "The group; null where there is none."),
    ("group_ids", "The groups to add."),
    ("headers", "Names and values of headers."),
    ("hidden", "Whether it is left out of the catalog."),
    ("history_retention_days", "Days for which messages are kept; null for the deployment's default."),
    ("hours", "The opening hours."),
    ("id", "Its id."),
    ("ignore_broadcasts", "Whether to ignore broadcast lists."),
    ("ignore_groups", "Whether to ignore groups."),
    ("ignore_newsletters", "Whether to ignore newsletters."),
    ("ignore_stories", "Whether to ignore others' stories."),
    ("image_url", "The URL of its picture."),
    ("image_urls", "The URLs of its pictures, the main one first."),
    ("invite_code", "The invite code; the whole link is accepted, too."),
    ("is_blocked", "Whether the channel has blocked it."),
    ("is_group", "Whether the conversation is a group."),
    ("issue_scoped_key", "Whether to create an API key, too, that is bound to the channel."),
    ("join_approval_mode", "Whether admins approve who joins."),
    ("keys", "API keys that are not revoked."),
    ("kind", "What kind it is."),
    ("label_ids", "All labels that it is to have."),
    ("labels", "Labels of one channel."),
    ("last_seen", "Who sees when the account was last online."),
    ("latitude", "Degrees north."),
    ("lid", "The linked-device address, where it is known."),
    ("limits", "Its rate limits."),
    ("link_preview", "Whether to show a preview of the first link in the text, or the preview itself."),
    ("longitude", "Degrees east."),
    ("mark_read_on_receive", "Whether read receipts are sent when messages are received."),
    ("max", "The longest, in milliseconds."),
    ("media", "The media, if there is any."),
    ("media_bytes", "Bytes of media, in and out."),
    ("create_customer.media_bytes", "How many bytes of media may be stored; null for the default."),
    ("update_customer.media_bytes", "How many bytes of media may be stored; null for the default."),
    ("media_retention_days", "Days for which media is kept; null for the deployment's default."),
    ("media_url", "The URL of the file, on the web or in this gateway's media."),
    ("member_add_groups", "Whether every member may add groups."),
    ("member_add_mode", "Whether every member may add others."),
    ("mentions", "Members of the group who are mentioned, or only `all`."),
    ("message", "An explanation, for people."),
    ("answer_ticket.message", "The answer."),
    ("create_ticket.message", "The first message: what the problem is."),
    ("message_bytes", "Approximate bytes of messages and webhook deliveries on disk."),
    ("message_id", "The message, by its id in the network."),
    ("message_ids", "The messages, by their ids in the network; without them, all unread messages."),
    ("message_key", "The message that it refers to."),
    ("metadata", "Free-form keys and values, at most 4 KiB of JSON."),
    ("mime_type", "The MIME type, such as `image/png`."),
    ("min", "The shortest, in milliseconds."),
    ("mode", "Whether, and when, it is open on that day."),
    ("muted", "Whether it is muted."),
    ("muted_until", "`null`: not muted; 0: for ever; else Unix seconds in the future."),
    ("name", "Its name."),
    ("new_password", "The member's new password."),
    ("next_cursor", "The `cursor` of the next page; null at the end."),
    ("node_id", "The node."),
    ("nodes", "The nodes."),
    ("number", "Its number."),
    ("online", "Who sees whether the account is online."),
    ("open", "`HH:MM`, with the mode `specific` alone."),
    ("options", "What can be chosen; each differs from the others."),
    ("outcome", "How it ended."),
    ("overdue_since", "Since when a payment is overdue."),
    ("participant", "In a group, who wrote it."),
    ("participants", "The members."),
    ("passphrase", "The passphrase that encrypts the bundle; an import needs it."),
    ("password", "The member's password."),
    ("phone_number", "The phone number, as digits."),
    ("phones", "Phone numbers, as digits."),
    ("picture_url", "The URL of the picture; null for none."),
    ("pinned", "Whether it is pinned."),
    ("plan", "What the account may use."),
    ("presence", "The presence, such as `typing`."),
    ("presence_on_connect", "The presence that is shown when the channel connects."),
    ("price_amount", "The price, in thousandths of the currency's unit."),
    ("priority", "The priority."),
    ("product_id", "The product."),
    ("product_ids", "The products."),
    ("profile_photo", "Who sees the picture."),
    ("proxy_url", "The proxy of the channel's connections, its password shown as `***`; null for none."),
    ("ptt", "Whether it is a voice note."),
    ("ptv", "Whether it is a round video note."),
    ("quoted", "The message that this one replies to."),
    ("raw", "The content of the QR code."),
    ("reactions", "Which reactions are allowed."),
    ("read_receipts", "Who gets read receipts."),
    ("reason", "Why."),
    ("recipients", "Who can see it; without them, the account's privacy settings decide."),
    ("refill_per_second", "Tokens that are added per second."),
    ("refresh_token", "The token with which to get the next tokens; it works once."),
    ("reject_call_message", "The message that is sent to a rejected caller."),
    ("reject_calls", "Whether calls are rejected."),
    ("remote_jid", "The conversation that holds the message."),
    ("remove_product_ids", "Products to remove."),
    ("request_id", "The `X-Request-Id` of the call."),
    ("restrict", "Whether only admins may edit the group's data."),
    ("retailer_id", "The seller's own number of it."),
    ("role", "What the member may do."),
    ("scopes", "What it grants, such as `messages.read`; an empty list grants everything."),
    ("selectable_count", "How many options one may choose, at most as many as there are."),
    (
        "send_delay_ms",
        "The pause between two sends, chosen at random from `min` to `max`; `max` is not below `min`. Null for no pause.",
    ),
    ("shard", "The shard that holds the channel."),
    ("signing_secret", "The secret that signs deliveries; null for the account's default secret."),
    ("simulate_typing", "Whether typing is shown before a text is sent."),
    ("since", "From this time on."),
    ("state", "Its state."),
    ("states", "Only those in these states."),
    ("status", "The status."),
    ("storage", "How much the account may store."),
    ("store_bodies", "Whether the content of messages is stored."),
    ("subject", "The subject."),
    ("create_ticket.subject", "The subject."),
    ("sync_full_history", "Whether the phone is asked for all its history at the next pairing."),
    ("text", "The text."),
    ("text_color", "`#RRGGBB`"),
    ("ticket", "The value for `?ticket=`; it works once."),
    ("tickets_open", "Tickets that are neither solved nor closed."),
    ("timezone", "By its name in the IANA database, such as `Europe/Berlin`."),
    ("title", "Its title."),
    ("to", "The recipient: an address, or the digits of a number."),
    ("take_backup.to", "The folder, or `s3://BUCKET/PREFIX`."),
    ("token", "The token."),
    ("total", "How many there are in total."),
    ("trial_ends_at", "When the trial ends."),
    ("type", "What kind it is."),
    ("unread", "Whether it has unread messages, or is marked as unread."),
    ("until", "Until this time, exclusive; without it, until now."),
    ("updated_at", "When it last changed."),
    ("set_password.token", "The token of the invitation or of the message, which begins with `zpw_`."),
    ("url", "The URL."),
    ("vcard", "The vCard; without it, one is created from the name and the numbers."),
    ("view_once", "Whether it can be viewed only once."),
    ("websites", "Its websites."),
    ("weight", "Its share of the shards, relative to the other nodes."),
];

/// The texts by their keys.
pub struct Texts(BTreeMap<Cow<'static, str>, Cow<'static, str>>);

impl Default for Texts {
    fn default() -> Self {
        Self(TEXTS.iter().map(|(field, text)| (Cow::Borrowed(*field), Cow::Borrowed(*text))).collect())
    }
}

impl Texts {
    fn find(&self, owner: &str, field: &str) -> Option<&str> {
        self.0.get(format!("{owner}.{field}").as_str()).or_else(|| self.0.get(field)).map(|text| &**text)
    }

    /// Adds the descriptions in a type's shapes for fields without a text: sent and received content share names.
    pub fn learn(&mut self, schema: &Value) {
        let shapes = schema["oneOf"].as_array().into_iter().flatten();
        let fields = shapes.filter_map(|shape| shape["properties"].as_object()).flatten();
        for (name, field) in fields {
            if let Some(text) = field["description"].as_str() {
                self.0.entry(Cow::Owned(name.clone())).or_insert_with(|| Cow::Owned(text.to_owned()));
            }
        }
    }

    /// Describes the fields of a schema, and nested ones, that have no description yet. `owner` is the name of the
    /// type, or of the operation that takes the body.
    pub fn describe(&self, owner: &str, schema: &mut Value) {
        if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            for (name, field) in fields {
                self.describe(owner, field);
                if let (Value::Object(field), Some(text)) = (field, self.find(owner, name)) {
                    field.entry("description").or_insert_with(|| json!(text));
                }
            }
        }
        if let Some(items) = schema.get_mut("items") {
            self.describe(owner, items);
        }
        for shapes in ["anyOf", "oneOf", "allOf"] {
            for shape in schema.get_mut(shapes).and_then(Value::as_array_mut).into_iter().flatten() {
                self.describe(owner, shape);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_type_says_of_a_field_holds_where_no_text_does() {
        let mut texts = Texts::default();
        texts.learn(&json!({ "oneOf": [{ "properties": {
            "style": { "description": "How it is set." },
            "caption": { "description": "Something else." },
        } }] }));
        let mut shape = json!({ "properties": { "style": {}, "caption": {} } });
        texts.describe("SendImage", &mut shape);
        assert_eq!(shape["properties"]["style"]["description"], "How it is set.");
        assert_eq!(shape["properties"]["caption"]["description"], "The text below it.");
    }
}
