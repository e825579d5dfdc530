//! A channel's settings, in the same shape stored and shown, and the patch that changes them.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::address::{Address, AddressKind, Suffixes};
use crate::error::CallError;
use crate::field::{Body, Change, Fields, Judged, rule};
use crate::issue::{IssueCode, Violation};
use crate::media::{LARGEST_MEDIA, MediaKind};
use crate::message::Content;
use crate::target::{LONGEST_URL, Proxy, TargetPolicy, judge_proxy};
use crate::time::Timestamp;

/// Longest delay between two sends, in milliseconds.
const LONGEST_DELAY_MS: u64 = 60_000;

/// Declares the settings that are stored as given, with name, type and default, and the struct that changes them.
macro_rules! settings {
    ($($(#[$about:meta])* $field:ident: $type:ty = $default:expr;)*) => {
        /// Settings of a channel. Every field is always present.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct Settings {
            $($(#[$about])* pub $field: $type,)*
            /// Proxy of the channel's sessions from the next connection on, password shown as `***`; `null` for none.
            pub proxy_url: Option<String>,
            /// Time of the last change of the settings; the value for `If-Match`.
            pub updated_at: Timestamp,
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($field: $default,)* proxy_url: None, updated_at: Timestamp::default() }
            }
        }

        /// A change to settings. The proxy is not part of it, because its password is sealed before it leaves the node.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct SettingsChange {
            $(pub $field: Change<$type>,)*
        }

        impl SettingsChange {
            pub fn apply(self, settings: &mut Settings) {
                $(self.$field.apply(&mut settings.$field);)*
            }
        }
    };
}

settings! {
    /// Whether calls are rejected.
    reject_calls: bool = false;
    /// Message that is sent to a rejected caller; `null` for none.
    reject_call_message: Option<String> = None;
    /// Whether messages in groups are only acknowledged: not stored, and without events.
    ignore_groups: bool = false;
    ignore_stories: bool = true;
    ignore_newsletters: bool = true;
    ignore_broadcasts: bool = true;
    /// Whether read receipts are sent as soon as messages are received.
    mark_read_on_receive: bool = false;
    presence_on_connect: ConnectPresence = ConnectPresence::Unavailable;
    /// Whether the channel is shown as available while it is connected.
    always_online: bool = false;
    /// Whether media is fetched when it is received, and not only on request.
    auto_download_media: bool = true;
    auto_download_types: BTreeSet<MediaKind> = MediaKind::ALL.into_iter().collect();
    auto_download_max_bytes: u64 = LARGEST_MEDIA;
    /// Days for which media is kept; `null` for the deployment's default.
    media_retention_days: Option<u32> = None;
    /// Days for which messages are kept; `0` stores nothing, `null` is the deployment's default.
    history_retention_days: Option<u32> = None;
    /// Whether messages are stored with their bodies, and not only as metadata.
    store_bodies: bool = true;
    /// Whether the phone is asked for all of its history at the next pairing.
    sync_full_history: bool = false;
    /// Whether `message.sent` is also sent for messages that the channel's own phone sent.
    emit_device_sent: bool = false;
    /// Pause between two sends in milliseconds, chosen at random for each; `null` for none.
    send_delay_ms: Option<SendDelay> = None;
    /// Whether typing is shown in the chat before a text is sent.
    simulate_typing: bool = false;
    /// Whether texts show a preview of their first link unless the send says otherwise.
    link_preview: bool = true;
    /// The name of the linked device on the phone, from the next pairing on.
    device_name: String = "Gateway".to_owned();
}

crate::words! {
    /// The presence that the channel shows when it has connected.
    #[derive(JsonSchema)]
    ConnectPresence {
        Available = "available",
        Unavailable = "unavailable",
        /// No presence is sent.
        None = "none",
    }
}

/// The bounds of the pause between two sends, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SendDelay {
    pub min: u32,
    pub max: u32,
}

impl Settings {
    /// Whether messages in this conversation are ignored.
    pub fn ignores(&self, chat: &Address, suffixes: &Suffixes) -> bool {
        match chat.kind(suffixes) {
            AddressKind::Group => self.ignore_groups,
            AddressKind::Newsletter => self.ignore_newsletters,
            _ if chat.is_stories() => self.ignore_stories,
            _ if chat.is_broadcast() => self.ignore_broadcasts,
            AddressKind::Phone | AddressKind::Lid | AddressKind::Unknown => false,
        }
    }

    /// Whether to fetch a message's media when it is received. Media of unknown size is fetched.
    pub fn downloads(&self, content: &Content) -> bool {
        let size = content.media().and_then(|media| media.size_bytes);
        self.auto_download_media
            && content.media_kind().is_none_or(|kind| self.auto_download_types.contains(&kind))
            && size.is_none_or(|size| size <= self.auto_download_max_bytes)
    }
}

/// The body of a patch.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingsPatch {
    pub change: SettingsChange,
    pub proxy: Change<Option<Proxy>>,
}

impl SettingsPatch {
    /// `most_media_days` is the deployment's media retention; `policy` restricts the hosts of proxies.
    ///
    /// # Errors
    /// `invalid_request` with all violations.
    pub fn parse(body: &Body, most_media_days: u64, policy: &TargetPolicy) -> Result<Self, CallError> {
        body.read_patch(|fields| {
            let flag = |key| fields.optional(key, rule::boolean).into();
            let days = |key, range| {
                let days = fields.nullable(key, rule::integer(range));
                days.map(|days| days.and_then(|days| u32::try_from(days).ok())).into()
            };
            let download_type = rule::one_of(MediaKind::WORDS, MediaKind::parse);
            let types = fields.list_or_empty("auto_download_types", MediaKind::ALL.len(), download_type);
            let change = SettingsChange {
                reject_calls: flag("reject_calls"),
                reject_call_message: fields.nullable("reject_call_message", rule::text(0..=1024)).into(),
                ignore_groups: flag("ignore_groups"),
                ignore_stories: flag("ignore_stories"),
                ignore_newsletters: flag("ignore_newsletters"),
                ignore_broadcasts: flag("ignore_broadcasts"),
                mark_read_on_receive: flag("mark_read_on_receive"),
                presence_on_connect: fields
                    .optional("presence_on_connect", rule::one_of(ConnectPresence::WORDS, ConnectPresence::parse))
                    .into(),
                always_online: flag("always_online"),
                auto_download_media: flag("auto_download_media"),
                auto_download_types: types.map(BTreeSet::from_iter).into(),
                auto_download_max_bytes: fields
                    .optional("auto_download_max_bytes", rule::integer(0..=LARGEST_MEDIA))
                    .into(),
                media_retention_days: days("media_retention_days", 1..=most_media_days.clamp(1, 365)),
                history_retention_days: days("history_retention_days", 0..=365),
                store_bodies: flag("store_bodies"),
                sync_full_history: flag("sync_full_history"),
                emit_device_sent: flag("emit_device_sent"),
                send_delay_ms: read_delay(fields).into(),
                simulate_typing: flag("simulate_typing"),
                link_preview: flag("link_preview"),
                device_name: fields.optional("device_name", rule::text(1..=32)).into(),
            };
            let proxy = fields.nullable("proxy_url", proxy(policy)).into();
            Some(Self { change, proxy })
        })
    }
}

fn read_delay(fields: &Fields<'_>) -> Option<Option<SendDelay>> {
    let Some(given) = fields.nullable_object("send_delay_ms")? else { return Some(None) };
    let bound = |key| given.required(key, rule::integer(0..=LONGEST_DELAY_MS)).and_then(|ms| u32::try_from(ms).ok());
    let (min, max) = (bound("min"), bound("max"));
    let (min, max) = (min?, max?);
    if max < min {
        given.refuse("max", Violation::new(IssueCode::Conflict, "must not be below min"));
        return None;
    }
    Some(Some(SendDelay { min, max }))
}

/// The pattern of URLs that [`judge_proxy`] accepts, as far as a regular expression can tell.
const PROXY: &str = r"^(https?|socks5)://([^\s/?#@]+@)?(([A-Za-z0-9-]+\.)+[A-Za-z]+|([0-9]{1,3}\.){3}[0-9]{1,3}|\[[0-9A-Fa-f:.]+\]|localhost)(:[0-9]{1,5})?/?$";

fn proxy(policy: &TargetPolicy) -> impl Fn(&Value) -> Judged<Proxy> {
    move |value| {
        let text =
            rule::described(|| json!({ "format": "uri", "pattern": PROXY }), rule::text(1..=LONGEST_URL))(value)?;
        let text = text.as_str();
        judge_proxy(text, policy).map_err(Violation::from)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::media::Media;

    fn parse(body: Value) -> Result<SettingsPatch, CallError> {
        SettingsPatch::parse(&Body::try_from(body).unwrap(), 14, &TargetPolicy::strict())
    }

    #[test]
    fn the_defaults_are_those_of_the_interface() {
        let expected = json!({
            "reject_calls": false, "reject_call_message": null, "ignore_groups": false, "ignore_stories": true,
            "ignore_newsletters": true, "ignore_broadcasts": true, "mark_read_on_receive": false,
            "presence_on_connect": "unavailable", "always_online": false, "auto_download_media": true,
            "auto_download_types": ["image", "video", "audio", "document", "sticker"],
            "auto_download_max_bytes": 26_214_400, "media_retention_days": null, "history_retention_days": null,
            "store_bodies": true, "sync_full_history": false, "emit_device_sent": false, "send_delay_ms": null,
            "simulate_typing": false, "link_preview": true, "device_name": "Gateway", "proxy_url": null,
            "updated_at": "1970-01-01T00:00:00.000Z",
        });
        assert_eq!(serde_json::to_value(Settings::default()).unwrap(), expected);
    }

    #[test]
    fn what_was_stored_before_a_setting_came_to_be_has_its_default() {
        let settings: Settings = serde_json::from_value(json!({ "reject_calls": true })).unwrap();
        assert_eq!(settings, Settings { reject_calls: true, ..Settings::default() });
    }

    #[test]
    fn each_bound_is_told_by_name() {
        let table = [
            (json!({}), "[] empty"),
            (json!({ "reject_calls": "yes" }), "[reject_calls] type"),
            (json!({ "reject_call_message": "x".repeat(1025) }), "[reject_call_message] too_long"),
            (json!({ "presence_on_connect": "away" }), "[presence_on_connect] enum"),
            (json!({ "auto_download_types": ["image", "story"] }), "[auto_download_types,1] enum"),
            (json!({ "auto_download_max_bytes": 26_214_401 }), "[auto_download_max_bytes] too_big"),
            (json!({ "media_retention_days": 0 }), "[media_retention_days] too_small"),
            (json!({ "media_retention_days": 15 }), "[media_retention_days] too_big"),
            (json!({ "history_retention_days": 366 }), "[history_retention_days] too_big"),
            (json!({ "store_bodies": null }), "[store_bodies] type"),
            (json!({ "send_delay_ms": 5 }), "[send_delay_ms] type"),
            (json!({ "send_delay_ms": { "min": 5 } }), "[send_delay_ms,max] required"),
            (json!({ "send_delay_ms": { "min": 5, "max": 4 } }), "[send_delay_ms,max] conflict"),
            (json!({ "send_delay_ms": { "min": 0, "max": 60_001 } }), "[send_delay_ms,max] too_big"),
            (json!({ "device_name": "" }), "[device_name] too_short"),
            (json!({ "device_name": "x".repeat(33) }), "[device_name] too_long"),
            (json!({ "proxy_url": "ftp://example.com" }), "[proxy_url] url_scheme"),
            (json!({ "proxy_url": "socks5://10.0.0.1:1080" }), "[proxy_url] url_blocked"),
            (json!({ "proxy_url": "http://example.com/path" }), "[proxy_url] format"),
        ];
        for (body, expected) in table {
            let details = parse(body.clone()).unwrap_err().details.unwrap();
            let found = format!("{} {}", details[0]["path"], details[0]["code"]).replace('"', "");
            assert_eq!(found, expected, "{body}");
        }
    }

    #[test]
    fn a_patch_changes_what_it_names_and_nothing_else() {
        let body = json!({
            "send_delay_ms": { "min": 100, "max": 200 }, "auto_download_types": ["video", "image", "video"],
            "reject_call_message": "later", "history_retention_days": 0,
        });
        let mut settings = Settings { reject_calls: true, ..Settings::default() };
        parse(body).unwrap().change.apply(&mut settings);
        let expected = Settings {
            reject_calls: true,
            reject_call_message: Some("later".into()),
            auto_download_types: [MediaKind::Image, MediaKind::Video].into(),
            history_retention_days: Some(0),
            send_delay_ms: Some(SendDelay { min: 100, max: 200 }),
            ..Settings::default()
        };
        assert_eq!(settings, expected);
        parse(json!({ "send_delay_ms": null })).unwrap().change.apply(&mut settings);
        assert_eq!(settings.send_delay_ms, None);
    }

    #[test]
    fn each_kind_of_conversation_is_ignored_by_its_own_setting() {
        let none = Settings {
            ignore_stories: false,
            ignore_newsletters: false,
            ignore_broadcasts: false,
            ..Settings::default()
        };
        let table = [
            ("1203@g.example", Settings { ignore_groups: true, ..none.clone() }),
            ("1203@n.example", Settings { ignore_newsletters: true, ..none.clone() }),
            ("status@broadcast", Settings { ignore_stories: true, ..none.clone() }),
            ("17000@broadcast", Settings { ignore_broadcasts: true, ..none.clone() }),
        ];
        let ignored =
            |settings: &Settings, chat: &str| settings.ignores(&Address::parse(chat).unwrap(), &Suffixes::simulated());
        for (chat, _) in &table {
            let ignoring: Vec<bool> = table.iter().map(|(_, settings)| ignored(settings, chat)).collect();
            let expected: Vec<bool> = table.iter().map(|(other, _)| other == chat).collect();
            assert_eq!((ignoring, ignored(&none, chat)), (expected, false), "{chat}");
        }
        let all = Settings { ignore_groups: true, ..Settings::default() };
        assert!(!ignored(&all, "15551234567@s.example") && !ignored(&all, "25@lid"));
    }

    #[test]
    fn media_is_fetched_as_it_comes_by_type_and_size() {
        let picture =
            |size_bytes| Content::Image { media: Media { size_bytes, ..Media::of_type("image/png") }, caption: None };
        let settings = Settings { auto_download_max_bytes: 10, ..Settings::default() };
        assert!(settings.downloads(&picture(Some(10))) && settings.downloads(&picture(None)));
        assert!(!settings.downloads(&picture(Some(11))));
        let settings = Settings { auto_download_types: [MediaKind::Audio].into(), ..Settings::default() };
        assert!(!settings.downloads(&picture(Some(1))));
        assert!(settings.downloads(&Content::Audio { media: Media::of_type("audio/ogg") }));
        let settings = Settings { auto_download_media: false, ..Settings::default() };
        assert!(!settings.downloads(&picture(Some(1))));
    }
}
