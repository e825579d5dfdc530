//! Descriptions of fields that have none at their type: fields of bodies, which parsers read, and fields whose name
//! many types share. A field of only a few responses or events has a doc comment at its type instead.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Texts by `operation.field` or `Type.field`, and by `field` for all others of that name. A doc comment on a type's
/// field, or on the type of a field that the document inlines, takes precedence.
const TEXTS: &[(&str, &str)] = &[
    ("about", "About text of the profile."),
    ("update_privacy.about", "Who sees the about text."),
    ("action", "The action to perform."),
    ("actor", "Who performed the action."),
    ("add_product_ids", "Ids of products to add."),
    ("address", "The address, as text."),
    ("always_online", "Whether the channel shows as available all the time."),
    ("announce", "Whether only admins may send."),
    ("archived", "Whether the chat is archived."),
    ("at_once", "Number of moves that run at a time."),
    ("auto_download_max_bytes", "Size in bytes above which received media is not fetched at once."),
    ("auto_download_media", "Whether received media is fetched at once."),
    ("auto_download_types", "Types of received media that are fetched at once."),
    ("background_color", "Background colour as `#RRGGBB`."),
    ("began_at", "Start; `null` while it waits."),
    ("body", "Content of the message: a type and its fields."),
    ("burst", "Size of the token bucket: number of requests that may come at once."),
    ("call_add", "Who may call."),
    ("caption", "Text below the media."),
    ("cart_enabled", "Whether customers can gather products in a cart."),
    ("category", "Category of the business."),
    ("create_ticket.category", "Subject area of the ticket."),
    ("channel", "The rate limit of each channel."),
    ("channel_id", "Id of the channel, if there is one."),
    (
        "create_api_key.channel_id",
        "The channel that the key is bound to; without it, the key is for all channels of the account.",
    ),
    (
        "create_webhook_endpoint.channel_id",
        "The channel whose events it receives; without it, those of all channels of the account.",
    ),
    ("channel_limit", "Maximum number of channels; `null` for none."),
    ("channels", "Number of channels."),
    ("chat", "The chat after the change."),
    ("chat_id", "The conversation: the other person's address, or the group's."),
    ("chat_type_filter", "Kind of chats whose events are sent."),
    ("clear_picture", "`true` removes the picture."),
    ("client_ref", "The caller's own reference, which the response and `message.sent` repeat."),
    ("close", "Closing time as `HH:MM`, on the next day if not after `open`; only with the mode `specific`."),
    ("code", "Stable code, for programs."),
    ("color", "Number of the colour."),
    ("confirm", "Name of the account, as a confirmation."),
    ("contacts", "The contacts."),
    ("convert", "Whether to convert the audio to Opus."),
    ("count", "Total number."),
    ("created_at", "Time of creation."),
    ("created_by", "Address of the creator."),
    ("currency", "The currency, by its ISO 4217 code."),
    ("current_password", "Current password of the member."),
    ("customer", "The rate limit of the account."),
    ("customer_id", "Id of the account."),
    ("data", "The rows."),
    ("day", "The day of the week."),
    ("days", "Each day at most once; a day that is missing is closed."),
    ("default_ephemeral", "Seconds after which messages of new chats disappear; `0` for never."),
    ("delete_chat", "Whether to hide the chat, too, until the next message."),
    ("description", "Description; empty or `null` for none."),
    ("device_name", "Name under which the phone lists this device from the next pairing on."),
    ("direction", "Whether it was received or sent."),
    (
        "MediaUpload.direction",
        "Origin: uploaded (`upload`), received (`inbound`), or fetched for one send (`outbound`).",
    ),
    ("display_name", "Name under which the phone lists this device."),
    ("dry_run", "Whether to count the deliveries only."),
    ("duration", "Seconds for which the message stays pinned."),
    ("email", "The e-mail address."),
    ("email_verified", "Whether the address is confirmed."),
    ("emit_device_sent", "Whether messages that are sent from the phone itself cause events."),
    ("emoji", "Emoji; empty to remove the reaction."),
    ("enabled", "Whether it is enabled."),
    ("ended_at", "End; `null` if it has not ended."),
    ("endpoint_id", "Id of the webhook endpoint, if there is one."),
    (
        "TestResult.endpoint_id",
        "Endpoint that was tested, or the only one with the tested URL; `null` for none or several.",
    ),
    ("endpoints", "Webhook endpoints."),
    ("ephemeral", "Seconds after which messages disappear; `0` for never."),
    ("ephemeral_expiration", "Seconds after which the message disappears; `0` for never."),
    ("error", "Details of the error, if there was one."),
    ("event", "Name of the event."),
    ("events", "Names of the events."),
    ("expires_at", "Time of expiry, if there is one."),
    ("expires_in_seconds", "Seconds for which it is valid."),
    ("file", "The bytes of the file."),
    ("filename", "Name of the file."),
    ("font", "Number of the font in the network."),
    ("force", "Whether to drain the node even if another one does not answer or is drained."),
    ("from", "Author, buyer or caller: the phone address if known, otherwise the linked-device address."),
    ("reject_call.from", "Address of the caller, from `call.offered`."),
    ("CartUpdatedData.from", "Owner of the cart: the phone address if known, otherwise the linked-device address."),
    ("from_me", "Whether the channel is the author."),
    ("gif", "Whether the video plays in a loop and without sound."),
    ("group_add", "Who may add the account to groups."),
    ("group_id", "Address of the group, if there is one."),
    ("group_ids", "Addresses of the groups to add."),
    ("headers", "Headers: names and values."),
    ("hidden", "Whether the product is left out of the catalog."),
    ("history_retention_days", "Days for which messages are kept; `null` for the deployment's default."),
    ("hours", "The opening hours."),
    ("id", "Id."),
    ("ignore_broadcasts", "Whether to ignore broadcast lists."),
    ("ignore_groups", "Whether to ignore groups."),
    ("ignore_newsletters", "Whether to ignore newsletters."),
    ("ignore_stories", "Whether to ignore others' stories."),
    ("image_url", "URL of the picture."),
    ("image_urls", "URLs of the pictures, the main one first."),
    ("invite_code", "Invite code, or the whole link."),
    ("is_blocked", "Whether the channel has blocked the contact."),
    ("is_group", "Whether the conversation is a group."),
    ("issue_scoped_key", "Whether to also create an API key that is bound to the channel."),
    ("join_approval_mode", "Whether admins approve who joins."),
    ("keys", "API keys that are not revoked."),
    ("kind", "Kind."),
    ("label_ids", "Ids of all labels that the chat is to have."),
    ("labels", "Labels per channel."),
    ("last_seen", "Who sees when the account was last online."),
    ("latitude", "Degrees north."),
    ("lid", "Linked-device address, if known."),
    ("limits", "Limits of request rates and storage."),
    ("link_preview", "Whether to show a preview of the first link in the text, or the preview itself."),
    ("longitude", "Degrees east."),
    ("mark_read_on_receive", "Whether read receipts are sent when messages are received."),
    ("max", "Longest pause in milliseconds."),
    ("media", "The media, if there is any."),
    ("media_bytes", "Bytes of media received and sent."),
    ("create_customer.media_bytes", "Maximum bytes of stored media; `null` for the default."),
    ("update_customer.media_bytes", "Maximum bytes of stored media; `null` for the default."),
    ("media_retention_days", "Days for which media is kept; `null` for the deployment's default."),
    ("media_url", "URL of the file, on the web or in this gateway's media."),
    ("member_add_groups", "Whether every member may add groups."),
    ("member_add_mode", "Whether every member may add others."),
    ("mentions", "Members of the group to mention, or only `all`."),
    ("message", "Explanation, for people."),
    ("answer_ticket.message", "Text of the answer."),
    ("create_ticket.message", "Text of the first message, which describes the problem."),
    ("message_bytes", "Approximate bytes of messages and webhook deliveries on disk."),
    ("message_id", "Id of the message in the network."),
    ("message_ids", "Ids of the messages in the network; absent for all unread messages."),
    ("message_key", "Message that this one refers to, if there is one."),
    ("metadata", "Free-form keys and values, at most 4 KiB of JSON."),
    ("mime_type", "The MIME type, such as `image/png`."),
    ("min", "Shortest pause in milliseconds."),
    ("mode", "Whether the business is open all day, at the given hours, or by appointment."),
    ("muted", "Whether the newsletter is muted."),
    ("muted_until", "Future time until which the chat is muted, in Unix seconds; `0` for ever, `null` to unmute it."),
    ("name", "Name."),
    ("new_password", "New password of the member."),
    ("next_cursor", "The `cursor` of the next page; `null` at the end."),
    ("node_id", "Id of the node."),
    ("nodes", "The nodes."),
    ("number", "Sequence number."),
    ("online", "Who sees whether the account is online."),
    ("open", "Opening time as `HH:MM`; only with the mode `specific`."),
    ("options", "Options to choose from, all different."),
    ("outcome", "Outcome of the action or attempt."),
    ("overdue_since", "Time since which a payment is overdue; `null` if none is."),
    ("participant", "Author of the message; only in groups."),
    ("participants", "The members."),
    ("passphrase", "Passphrase that encrypts the bundle; an import needs it."),
    ("password", "Password of the member."),
    ("phone_number", "Phone number as digits."),
    ("phones", "Phone numbers as digits."),
    ("picture_url", "URL of the picture; `null` for none."),
    ("pinned", "Whether it is pinned."),
    ("plan", "Plan of the account."),
    ("presence", "The presence, such as `typing`."),
    ("presence_on_connect", "Presence that is shown when the channel connects."),
    ("price_amount", "The price, in thousandths of the currency's unit."),
    ("priority", "Priority of the ticket."),
    ("product_id", "Id of the product."),
    ("product_ids", "Ids of the products."),
    ("profile_photo", "Who sees the picture of the profile."),
    ("proxy_url", "Proxy of the channel's connections, its password shown as `***`; `null` for none."),
    ("ptt", "Whether the audio is a voice note."),
    ("ptv", "Whether the video is a round video note."),
    ("quoted", "Message that this one replies to."),
    ("raw", "The content of the QR code."),
    ("reactions", "Reactions that are allowed."),
    ("read_receipts", "Who gets read receipts."),
    ("reason", "Reason, if there is one."),
    ("recipients", "Addresses that can see the story; absent to let the account's privacy settings decide."),
    ("refill_per_second", "Number of tokens that are added per second."),
    ("refresh_token", "Token to exchange for new tokens; it works once."),
    ("reject_call_message", "Message that is sent to a rejected caller."),
    ("reject_calls", "Whether calls are rejected."),
    ("remote_jid", "Address of the chat that contains the message."),
    ("remove_product_ids", "Ids of products to remove."),
    ("request_id", "`X-Request-Id` of the request."),
    ("restrict", "Whether only admins may edit the group's data."),
    ("retailer_id", "The seller's own number of the product."),
    ("role", "Role of the member, which determines the permissions."),
    ("scopes", "Scopes of the key, such as `messages.read`; an empty list grants everything."),
    ("selectable_count", "Number of options that one may choose, at most all of them."),
    (
        "send_delay_ms",
        "Pause between two sends, chosen at random from `min` to `max`, which is not below `min`; `null` for no pause.",
    ),
    ("shard", "Number of the shard."),
    ("signing_secret", "Secret that signs deliveries; `null` for the account's default secret."),
    ("simulate_typing", "Whether typing is shown before a text is sent."),
    ("since", "Start of the period, inclusive."),
    ("state", "State."),
    ("states", "States of the deliveries; `exhausted` by default."),
    ("status", "Status."),
    ("storage", "Storage limits of the account."),
    ("store_bodies", "Whether the content of messages is stored."),
    ("subject", "The subject."),
    ("create_ticket.subject", "The subject."),
    ("sync_full_history", "Whether to request the full history from the phone at the next pairing."),
    ("text", "The text."),
    ("text_color", "Text colour as `#RRGGBB`."),
    ("ticket", "Value of the query parameter `ticket`; it works once."),
    ("tickets_open", "Tickets that are neither solved nor closed."),
    ("timezone", "Time zone by its IANA name, such as `Europe/Berlin`."),
    ("title", "Title."),
    ("to", "Address of the recipient, or the digits of a phone number."),
    ("take_backup.to", "Folder, or `s3://BUCKET/PREFIX`."),
    ("token", "The token."),
    ("total", "Total number."),
    ("trial_ends_at", "End of the trial; `null` for none."),
    ("type", "Type."),
    ("unread", "Whether the chat has unread messages or is marked as unread."),
    ("until", "End of the period, exclusive; absent for the present time."),
    ("updated_at", "Time of the last change."),
    ("set_password.token", "Token of the invitation or e-mail, which begins with `zpw_`."),
    ("url", "The URL."),
    ("vcard", "The vCard; by default, one is created from the name and the numbers."),
    ("view_once", "Whether the media can be viewed only once."),
    ("websites", "Websites of the business."),
    ("weight", "Share of the shards, relative to the other nodes."),
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
        assert_eq!(shape["properties"]["caption"]["description"], "Text below the media.");
    }
}
