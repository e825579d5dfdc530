//! The bodies that create and change a webhook endpoint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::CallError;
use crate::event::EventName;
use crate::field::{Body, Change, Fields, Judged, rule};
use crate::id::ChannelId;
use crate::issue::{IssueCode, Violation};
use crate::payload::ChatTypeFilter;
use crate::target::{LONGEST_URL, TargetPolicy, judge_url};
use crate::webhook::headers::{StaticHeaders, static_headers};

/// Maximum number of endpoints per account in a cluster whose format has no quotas.
pub const MOST_ENDPOINTS: u32 = 50;

/// Maximum total bytes of the URLs of an account's endpoints, all of which an event carries; 50 of the longest fit.
pub const MOST_URL_BYTES: usize = 128 << 10;

/// Subscribes to all events, present and future.
const EVERY_EVENT: &str = "*";

/// The error for an endpoint beyond [`MOST_ENDPOINTS`].
pub fn too_many_endpoints() -> CallError {
    let message = format!("an account has at most {MOST_ENDPOINTS} webhook endpoints; delete one first");
    Violation::new(IssueCode::TooMany, message).at(&[])
}

/// The error for a URL that takes the account beyond [`MOST_URL_BYTES`].
pub fn urls_too_long() -> CallError {
    let message = format!("makes the URLs of the account's endpoints longer than {MOST_URL_BYTES} bytes together");
    Violation::new(IssueCode::TooLong, message).at(&["url"])
}

/// The events that an endpoint gets. Serialised as the interface's list of names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
#[schemars(with = "Vec<String>")]
pub enum EventFilter {
    Every,
    Only(Vec<EventName>),
}

impl EventFilter {
    pub fn includes(&self, name: EventName) -> bool {
        match self {
            Self::Every => true,
            Self::Only(names) => names.contains(&name),
        }
    }

    /// Parses `events`: 1 to 25 names, with duplicates removed, or `*` alone.
    fn read(fields: &Fields<'_>, required: bool) -> Option<Self> {
        const KEY: &str = "events";
        let names = || {
            json!({
                "type": "array",
                "items": rule::wants(known_event),
                "minItems": 1,
                "maxItems": EventName::ALL.len(),
                "if": { "contains": { "const": EVERY_EVENT } },
                "then": { "maxItems": 1 },
            })
        };
        let list = if required {
            fields.required_list(KEY, EventName::ALL.len(), known_event)
        } else {
            fields.list(KEY, EventName::ALL.len(), known_event)
        };
        fields.tell(KEY, names);
        Self::from_words(list?).map_err(|violation| fields.refuse(KEY, violation)).ok()
    }

    /// Each `None` stands for `*`.
    fn from_words(words: Vec<Option<EventName>>) -> Judged<Self> {
        if words.iter().all(Option::is_none) {
            return Ok(Self::Every);
        }
        let mut names = Vec::new();
        for word in words {
            let both = || Violation::new(IssueCode::Conflict, "give only *, or the names of events");
            let name = word.ok_or_else(both)?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(Self::Only(names))
    }
}

fn known_event(value: &Value) -> Judged<Option<EventName>> {
    let words = || [EventName::WORDS, &[EVERY_EVENT]].concat();
    let text = rule::string(value, || json!({ "enum": words() }))?;
    if text == EVERY_EVENT {
        return Ok(None);
    }
    let unknown = || Violation::new(IssueCode::Enum, "must be an event name such as message.received, or only *");
    EventName::parse(text).map(Some).ok_or_else(unknown)
}

impl From<EventFilter> for Vec<String> {
    fn from(filter: EventFilter) -> Self {
        match filter {
            EventFilter::Every => vec![EVERY_EVENT.to_owned()],
            EventFilter::Only(names) => names.iter().map(|name| name.as_str().to_owned()).collect(),
        }
    }
}

impl TryFrom<Vec<String>> for EventFilter {
    type Error = Violation;

    fn try_from(words: Vec<String>) -> Result<Self, Self::Error> {
        let judged: Result<Vec<_>, _> = words.into_iter().map(|word| known_event(&Value::String(word))).collect();
        Self::from_words(judged?)
    }
}

/// The body that creates an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateEndpoint {
    pub url: String,
    pub events: EventFilter,
    /// `None`: the endpoint serves all channels of the account.
    pub channel_id: Option<ChannelId>,
    /// `None`: deliveries are signed with the customer's default secret.
    pub signing_secret: Option<String>,
    pub enabled: bool,
    pub chat_type_filter: ChatTypeFilter,
    pub headers: StaticHeaders,
}

impl CreateEndpoint {
    /// Checks the text of the URL; the addresses of a host name are checked at each attempt.
    pub fn parse(body: &Body, policy: &TargetPolicy) -> Result<Self, CallError> {
        body.read(|fields| {
            let url = fields.required("url", url_rule(policy));
            let events = EventFilter::read(fields, true);
            let channel_id = fields.nullable("channel_id", rule::uuid).flatten();
            let signing_secret = fields.nullable("signing_secret", secret_rule()).flatten();
            let enabled = fields.optional("enabled", rule::boolean);
            let chat_type_filter = fields.optional("chat_type_filter", chat_type_rule());
            let headers = fields.nullable("headers", static_headers).flatten();
            Some(Self {
                url: url?,
                events: events?,
                channel_id,
                signing_secret,
                enabled: enabled.unwrap_or(true),
                chat_type_filter: chat_type_filter.unwrap_or_default(),
                headers: headers.unwrap_or_default(),
            })
        })
    }
}

/// The body of a patch. `channel_id` cannot be changed; the field is ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeEndpoint {
    pub url: Change<String>,
    pub events: Change<EventFilter>,
    /// `To(None)` restores the customer's default secret.
    pub signing_secret: Change<Option<String>>,
    pub enabled: Change<bool>,
    pub chat_type_filter: Change<ChatTypeFilter>,
    /// Replaces all headers; an empty list removes them.
    pub headers: Change<StaticHeaders>,
}

impl ChangeEndpoint {
    pub fn parse(body: &Body, policy: &TargetPolicy) -> Result<Self, CallError> {
        body.read_patch(|fields| {
            Some(Self {
                url: fields.optional("url", url_rule(policy)).into(),
                events: EventFilter::read(fields, false).into(),
                signing_secret: fields.nullable("signing_secret", secret_rule()).into(),
                enabled: fields.optional("enabled", rule::boolean).into(),
                chat_type_filter: fields.optional("chat_type_filter", chat_type_rule()).into(),
                headers: fields.nullable("headers", static_headers).map(Option::unwrap_or_default).into(),
            })
        })
    }
}

/// Parses `{ url }`, the body of a probe.
pub fn parse_probe(body: &Body, policy: &TargetPolicy) -> Result<String, CallError> {
    body.read(|fields| fields.required("url", url_rule(policy)))
}

/// A URL that the gateway may call, stored as given; each attempt parses it again.
fn url_rule(policy: &TargetPolicy) -> impl Fn(&Value) -> Judged<String> {
    move |value| {
        let scheme = if policy.allow_http { "[Hh][Tt][Tt][Pp][Ss]?" } else { "[Hh][Tt][Tt][Pp][Ss]" };
        let wants = || json!({ "format": "uri", "pattern": format!("^{scheme}://"), "maxLength": LONGEST_URL });
        let text = rule::string(value, wants)?;
        judge_url(text, policy)?;
        Ok(text.to_owned())
    }
}

fn secret_rule() -> impl Fn(&Value) -> Judged<String> {
    rule::text(16..=255)
}

fn chat_type_rule() -> impl Fn(&Value) -> Judged<ChatTypeFilter> {
    rule::one_of(ChatTypeFilter::WORDS, ChatTypeFilter::parse)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn object(value: Value) -> Body {
        Body::try_from(value).unwrap()
    }

    fn create(body: Value) -> Result<CreateEndpoint, CallError> {
        CreateEndpoint::parse(&object(body), &TargetPolicy::strict())
    }

    #[test]
    fn a_short_body_gets_the_defaults() {
        let created = create(json!({ "url": "https://good.com/hook", "events": ["message.sent"] })).unwrap();
        assert_eq!(
            created,
            CreateEndpoint {
                url: "https://good.com/hook".into(),
                events: EventFilter::Only(vec![EventName::MessageSent]),
                channel_id: None,
                signing_secret: None,
                enabled: true,
                chat_type_filter: ChatTypeFilter::All,
                headers: Vec::new(),
            }
        );
    }

    #[test]
    fn every_rule_has_its_issue() {
        let good = |key: &str, value: Value| {
            let mut body = json!({ "url": "https://good.com/", "events": ["*"] });
            body[key] = value;
            body
        };
        let table = [
            (json!({ "events": ["*"] }), json!(["url"]), "required"),
            (json!({ "url": "https://good.com/" }), json!(["events"]), "required"),
            (good("url", json!(5)), json!(["url"]), "type"),
            (good("url", json!("http://good.com/")), json!(["url"]), "url_scheme"),
            (good("url", json!("https://10.0.0.1/")), json!(["url"]), "url_blocked"),
            (good("url", json!("good")), json!(["url"]), "format"),
            (good("url", json!("https://good.com/#x")), json!(["url"]), "format"),
            (good("url", json!(format!("https://good.com/{}", "x".repeat(2048)))), json!(["url"]), "too_long"),
            (good("events", json!("*")), json!(["events"]), "type"),
            (good("events", json!([])), json!(["events"]), "empty"),
            (good("events", json!(vec!["message.sent"; 26])), json!(["events"]), "too_many"),
            (good("events", json!(["message.sent", "message.lost"])), json!(["events", 1]), "enum"),
            (good("events", json!(["webhook.test"])), json!(["events", 0]), "enum"),
            (good("events", json!([7])), json!(["events", 0]), "type"),
            (good("events", json!(["*", "message.sent"])), json!(["events"]), "conflict"),
            (good("channel_id", json!("7")), json!(["channel_id"]), "format"),
            (good("signing_secret", json!("x".repeat(15))), json!(["signing_secret"]), "too_short"),
            (good("signing_secret", json!("x".repeat(256))), json!(["signing_secret"]), "too_long"),
            (good("enabled", json!("yes")), json!(["enabled"]), "type"),
            (good("chat_type_filter", json!("some")), json!(["chat_type_filter"]), "enum"),
        ];
        for (body, path, code) in table {
            let details = create(body.clone()).unwrap_err().details.unwrap();
            assert_eq!((&details[0]["path"], &details[0]["code"]), (&path, &json!(code)), "{body}");
            assert_eq!(details.as_array().unwrap().len(), 1, "{body}");
        }
    }

    #[test]
    fn repeated_names_are_folded_and_the_star_is_kept() {
        let filter = |events: Value| create(json!({ "url": "https://good.com/", "events": events })).unwrap().events;
        let some = filter(json!(["qr.updated", "message.sent", "qr.updated"]));
        assert_eq!(serde_json::to_value(&some).unwrap(), json!(["qr.updated", "message.sent"]));
        assert!(some.includes(EventName::QrUpdated) && !some.includes(EventName::MessageReceived));
        let every = filter(json!(["*"]));
        assert_eq!(serde_json::to_value(&every).unwrap(), json!(["*"]));
        assert!(EventName::ALL.iter().all(|name| every.includes(*name)));
        for filter in [some, every] {
            let text = serde_json::to_string(&filter).unwrap();
            assert_eq!(serde_json::from_str::<EventFilter>(&text).unwrap(), filter);
        }
    }

    #[test]
    fn a_patch_tells_null_from_left_out() {
        let patch = |body: Value| ChangeEndpoint::parse(&object(body), &TargetPolicy::strict());
        let change = patch(json!({ "signing_secret": null, "enabled": false })).unwrap();
        assert_eq!(change.signing_secret, Change::To(None));
        assert_eq!(change.enabled, Change::To(false));
        assert!(change.url.is_keep() && change.events.is_keep() && change.chat_type_filter.is_keep());
        assert!(patch(json!({ "enabled": null })).is_err());
        assert_eq!(patch(json!({})).unwrap_err().details.unwrap()[0]["code"], "empty");
        let ignored = patch(json!({ "channel_id": "7f2c1a52-7d3e-4a55-9a42-0d6f0b1c2d3e" })).unwrap();
        assert_eq!(ignored, ChangeEndpoint::default());
    }
}
