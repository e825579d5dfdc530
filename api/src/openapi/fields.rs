//! What fields mean where no type says so: those of bodies, which parsers read, and those whose name many types share.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Texts by `Type.field` or `operation.field`, and by `field` for all others that bear it.
const TEXTS: &[(&str, &str)] = &[
    ("about", "What the person says of itself."),
    ("action", "What is to be done."),
    ("actor", "Who did it."),
    ("add_product_ids", "Products to put in."),
    ("address", "Where it is, as text."),
    ("always_online", "Whether the channel shows as available all the time."),
    ("announce", "Whether only admins send."),
    ("archived", "Whether the chat is in the archive."),
    ("at", "When it happened."),
    ("at_once", "How many moves run at a time."),
    ("auto_download_max_bytes", "Media above this size is not fetched as it comes in."),
    ("auto_download_media", "Whether media is fetched as it comes in."),
    ("auto_download_types", "Of which types media is fetched as it comes in."),
    ("background_color", "`#RRGGBB`"),
    ("began_at", "When it began; null while it waits."),
    ("body", "What is sent: a type and its fields."),
    ("MessageReceivedData.body", "What was written: a type and its fields."),
    ("burst", "Tokens in a full bucket."),
    ("call_add", "Who may call."),
    ("caption", "The text below it."),
    ("cart_enabled", "Whether customers can gather products in a cart."),
    ("category", "What kind of business it is."),
    ("create_ticket.category", "What the ticket is about."),
    ("channel", "The bucket of a channel."),
    ("channel_id", "The channel."),
    ("create_api_key.channel_id", "The channel that the key is bound to; without it, all of the account."),
    ("create_webhook_endpoint.channel_id", "The channel whose events it hears; without it, all of the account."),
    ("channel_limit", "The most channels; null for no limit."),
    ("channels", "Its channels."),
    ("chat", "The chat as it is then."),
    ("chat_id", "The conversation: the other person's address, or the group's."),
    ("chat_type_filter", "Of which kind of chats events are wanted."),
    ("clear_picture", "True takes the picture away."),
    ("client_ref", "The caller's own label, which comes back in the answer and in `message.sent`."),
    ("close", "`HH:MM`; not after `open`, it is of the next day."),
    ("code", "A stable word to match on."),
    ("PairCode.code", "What is typed into the phone."),
    ("color", "Its colour, by number."),
    ("components", "The parts of the service."),
    ("confirm", "The account's name."),
    ("contacts", "The people."),
    ("content", "What else there is of the type: a location, contacts, a poll, an order, receipts."),
    ("convert", "Whether the sound is to be converted to Opus."),
    ("count", "How many there are in all."),
    ("created_at", "When it was made."),
    ("created_by", "Who made it."),
    ("currency", "By its code in ISO 4217."),
    ("current_password", "The password that the member has."),
    ("customer", "The bucket of the account."),
    ("customer_id", "The account."),
    ("data", "The rows."),
    ("date", "The day, of UTC."),
    ("day", "The day of the week."),
    ("days", "Each day once; one that is missing is closed."),
    ("default_ephemeral", "Seconds after which messages of new chats disappear; 0 for never."),
    ("delete_chat", "Whether the chat goes as well, until the next message."),
    ("description", "A text about it; empty or null for none."),
    ("details", "Facts that go with it."),
    ("device_name", "What the phone shows of this device, from the next pairing on."),
    ("direction", "Whether it came in or went out."),
    ("display_name", "What the phone shows of this device."),
    ("dry_run", "Whether they are only counted."),
    ("duration", "Seconds for which it stays pinned."),
    ("duration_seconds", "How long it plays."),
    ("email", "The e-mail address."),
    ("email_verified", "Whether the address is confirmed."),
    ("emit_device_sent", "Whether what the phone itself sends makes events."),
    ("emoji", "The emoji; an empty text takes the reaction back."),
    ("enabled", "Whether it is on."),
    ("ended_at", "When it ended; null while it has not."),
    ("endpoint_id", "The webhook endpoint."),
    ("endpoints", "Webhook endpoints."),
    ("ephemeral", "Seconds after which messages disappear; 0 for never."),
    ("ephemeral_expiration", "Seconds after which it disappears; 0 for never."),
    ("epoch", "The term of the owner's leadership, which fences what an earlier one does."),
    ("error", "What went wrong."),
    ("event", "The event's name."),
    ("event_id", "The event's id, the same in each attempt."),
    ("events", "The names of events."),
    ("expires_at", "When it ends."),
    ("expires_in_seconds", "For how many seconds it can be used."),
    ("file", "The bytes."),
    ("filename", "The name of the file."),
    ("font", "Which of the network's fonts, by number."),
    ("force", "Drain it although another node that should be there is away."),
    ("from", "Who wrote it: the phone address when it is known, otherwise the linked-device address."),
    ("Move.from", "The replicas before."),
    ("StatusChange.from", "The status before."),
    ("reject_call.from", "Who calls, from `call.offered`."),
    ("CartUpdatedData.from", "Whose cart it is."),
    ("from_me", "Whether the channel itself wrote it."),
    ("from_phone", "The phone address, where it is known."),
    ("gif", "Whether it plays in a loop and without sound."),
    ("group_add", "Who may add the account to groups."),
    ("group_id", "The group; null where there is none."),
    ("group_ids", "Groups that it takes in."),
    ("headers", "Names and values of headers."),
    ("height", "Pixels."),
    ("hidden", "Whether it is left out of the catalog."),
    ("history_retention_days", "Days for which messages are kept; null for the deployment's."),
    ("hours", "When it is open."),
    ("id", "Its id."),
    ("ignore_broadcasts", "Whether nothing is to be known of broadcast lists."),
    ("ignore_groups", "Whether nothing is to be known of groups."),
    ("ignore_newsletters", "Whether nothing is to be known of newsletters."),
    ("ignore_stories", "Whether nothing is to be known of others' stories."),
    ("image_url", "Where its picture is."),
    ("image_urls", "Where its pictures are, the main one first."),
    ("invite_code", "The code; the whole link is taken, too."),
    ("is_blocked", "Whether the channel has blocked it."),
    ("is_business", "Whether it is a business account."),
    ("is_group", "Whether the conversation is a group."),
    ("issue_scoped_key", "Whether a key that is bound to the channel is issued with it."),
    ("items", "What it holds."),
    ("join_approval_mode", "Whether admins approve who joins."),
    ("keys", "API keys that are not revoked."),
    ("kind", "What kind it is."),
    ("label_ids", "All labels that it shall bear."),
    ("labels", "Labels of one channel."),
    ("last_seen", "Who sees when the account was last online."),
    ("latitude", "Degrees north."),
    ("lid", "The linked-device address, where it is known."),
    ("limit", "The bucket's capacity."),
    ("limits", "Its buckets."),
    ("ReceivedBody.link_preview", "What the first link of the text leads to."),
    ("link_preview", "Whether a text shows what its first link leads to, or what it shows."),
    ("longitude", "Degrees east."),
    ("mark_read_on_receive", "Whether read receipts are sent as messages come in."),
    ("matched", "How many it is about."),
    ("max", "The longest, in milliseconds."),
    ("media", "The media, where it has some."),
    ("media_bytes", "Bytes of media, in and out."),
    ("create_customer.media_bytes", "Bytes of media that are kept; null for the default."),
    ("update_customer.media_bytes", "Bytes of media that are kept; null for the default."),
    ("media_retention_days", "Days for which media is kept; null for the deployment's."),
    ("media_url", "Where the bytes are: on the web, or in this gateway's media."),
    ("member_add_groups", "Whether members may bring groups in."),
    ("member_add_mode", "Whether every member may add others."),
    ("mentions", "Members of the group who are mentioned, or `all` alone."),
    ("message", "For people."),
    ("MessageView.message", "What was written."),
    ("answer_ticket.message", "The answer."),
    ("create_ticket.message", "What is the matter."),
    ("message_bytes", "Bytes that messages and webhook deliveries take on disk, about."),
    ("message_id", "The message, by its id in the network."),
    ("message_ids", "The messages, by their ids in the network; without them all that is unread."),
    ("message_key", "Which message it is about."),
    ("metadata", "Free-form keys and values, at most 4 KiB of JSON."),
    ("mime_type", "Such as `image/png`."),
    ("min", "The shortest, in milliseconds."),
    ("mode", "How it is open on that day."),
    ("muted", "Whether it is muted."),
    ("muted_until", "`null`: not muted; 0: for ever; else Unix seconds in the future."),
    ("name", "Its name."),
    ("ReceivedBody.name", "What it is called, or asks."),
    ("new_password", "The password that takes its place."),
    ("next_attempt_at", "When it is attempted next."),
    ("next_cursor", "The `cursor` of the next page; null at the end."),
    ("node_id", "The node."),
    ("nodes", "The nodes."),
    ("note", "What the buyer wrote."),
    ("number", "Its number."),
    ("occurred_at", "When it happened, as the network says."),
    ("ok", "Whether the receiver took it."),
    ("online", "Who sees whether the account is online."),
    ("open", "`HH:MM`, with the mode `specific` alone."),
    ("options", "What can be chosen; each differs from the others."),
    ("order", "The order."),
    ("outcome", "How it ended."),
    ("overdue_since", "Since when a payment is overdue."),
    ("participant", "In a group, who wrote it."),
    ("participants", "The members."),
    ("passphrase", "What the bundle is sealed with; whoever imports it has to know it."),
    ("password", "The member's password."),
    ("phone_jid", "The phone address."),
    ("phone_number", "The digits of the number."),
    ("phones", "The digits of numbers."),
    ("picture_url", "Where the picture is; null for none."),
    ("pinned", "Whether it is pinned."),
    ("plan", "What the account may use."),
    ("presence", "What is shown of it."),
    ("presence_on_connect", "What is shown when the channel connects."),
    ("price_amount", "In thousandths of the currency's unit."),
    ("priority", "How much it matters."),
    ("product_id", "The product."),
    ("product_ids", "The products."),
    ("profile_photo", "Who sees the picture."),
    ("proxy_url", "The proxy of the channel's connections, its password shown as `***`; null for none."),
    ("ptt", "Whether it is a voice note."),
    ("ptv", "Whether it is a round video note."),
    ("push_name", "The name that the sender gives itself."),
    ("quoted", "The message that this one answers."),
    ("raw", "The text of the code."),
    ("reactions", "Which reactions are allowed."),
    ("read_receipts", "Who is told what was read."),
    ("reason", "Why."),
    ("ReceivedBody.reason", "Why it cannot be read yet."),
    ("ChannelStatusData.reason", "What moved it."),
    ("CallTerminatedData.reason", "How it ended."),
    ("recipients", "Who sees it; without them the account's privacy settings say so."),
    ("refill_per_second", "Tokens that come back in a second."),
    ("refresh_token", "What gets the next tokens; it works once."),
    ("reject_call_message", "What a caller who was rejected is written."),
    ("reject_calls", "Whether calls are rejected."),
    ("remote_jid", "The conversation that holds the message."),
    ("remove_product_ids", "Products to take out."),
    ("request_id", "The `X-Request-Id` of the call."),
    ("restrict", "Whether only admins change the group's data."),
    ("retailer_id", "The seller's own number of it."),
    ("revoked_at", "When it was revoked."),
    ("role", "What the member may do."),
    ("scopes", "What it grants, such as `messages.read`; an empty list grants everything."),
    ("selectable_count", "How many options one may choose, at most as many as there are."),
    ("send_delay_ms", "The pause between two sends, drawn between `min` and `max`, which is not below; null for none."),
    ("sha256", "Of the bytes, in hex digits."),
    ("shard", "The shard that holds the channel."),
    ("signing_secret", "What signs deliveries; null for the account's default secret."),
    ("simulate_typing", "Whether typing is shown before a text is sent."),
    ("since", "From when on."),
    ("size", "How many are in it."),
    ("size_bytes", "Bytes, where that is known."),
    ("state", "Its state."),
    ("states", "In which states."),
    ("status", "How it is."),
    ("SentMessage.status", "`sent` when the network has accepted it, `queued` when that is still to come."),
    ("ChannelStatusData.status", "The status from now on."),
    ("MessageStatusData.status", "How far the message has come."),
    ("storage", "What the plan allows the account to keep."),
    ("store_bodies", "Whether what messages say is kept."),
    ("story_id", "The story."),
    ("subject", "What it is called."),
    ("create_ticket.subject", "What it is about."),
    ("sync_full_history", "Whether the phone is asked for all its history at the next pairing."),
    ("target", "What it was done to."),
    ("text", "The text."),
    ("ReceivedBody.text", "The text, as it is now."),
    ("text_color", "`#RRGGBB`"),
    ("ticket", "What stands in `?ticket=`; it works once."),
    ("tickets_open", "Tickets that are neither solved nor closed."),
    ("timestamp", "Unix seconds."),
    ("timezone", "By its name in the IANA database, such as `Europe/Berlin`."),
    ("title", "Its title."),
    ("to", "Who gets it: an address, or the digits of a number."),
    ("take_backup.to", "The folder, or `s3://BUCKET/PREFIX`."),
    ("token", "The token."),
    ("total", "How many there are in all."),
    ("total_amount", "In thousandths of the currency's unit."),
    ("trial_ends_at", "When the trial ends."),
    ("type", "What kind it is."),
    ("unread", "Whether something in it is unread, or it is marked so."),
    ("until", "Until when, that moment not included; without it until now."),
    ("updated_at", "When it last changed."),
    ("set_password.token", "The token of the invitation or of the message, which begins with `zpw_`."),
    ("url", "Where it is."),
    ("used", "Slots that are used."),
    ("vcard", "As a vCard; without it one is made of the name and the numbers."),
    ("version", "Of the release."),
    ("view_once", "Whether it can be looked at once only."),
    ("voice", "Whether it is a voice note."),
    ("websites", "Its websites."),
    ("weight", "Its part of the shards, against those of others."),
    ("width", "Pixels."),
    ("window", "What the figures are of."),
];

/// The texts, for looking up.
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

    /// Learns what the shapes of a type say of fields that have no text here: what is sent bears the names of what comes in.
    pub fn learn(&mut self, schema: &Value) {
        let shapes = schema["oneOf"].as_array().into_iter().flatten();
        let fields = shapes.filter_map(|shape| shape["properties"].as_object()).flatten();
        for (name, field) in fields {
            if let Some(text) = field["description"].as_str() {
                self.0.entry(Cow::Owned(name.clone())).or_insert_with(|| Cow::Owned(text.to_owned()));
            }
        }
    }

    /// Describes the fields of a schema, and of what is inside it, that have no description yet. `owner` is the type's
    /// name, or the operation's that takes the body.
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
