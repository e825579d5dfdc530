//! A customer's plan and limits, which the operator sets.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::{CallError, ErrorCode};
use crate::field::{Body, Change, Fields, rule};
use crate::limit::BucketRule;
use crate::time::Timestamp;

/// Channel limit of an account whose plan sets none: every node holds all channels in memory.
pub const MOST_CHANNELS: u32 = 250_000;

/// What a customer has subscribed to, and whether payment is overdue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub name: String,
    /// Maximum number of channels; `None` if the plan sets no limit besides [`MOST_CHANNELS`].
    pub channel_limit: Option<u32>,
    pub trial_ends_at: Option<Timestamp>,
    pub overdue_since: Option<Timestamp>,
}

impl Default for Plan {
    fn default() -> Self {
        Self { name: "self_hosted".into(), channel_limit: None, trial_ends_at: None, overdue_since: None }
    }
}

impl Plan {
    /// Why sends, stories, presence and new channels are refused at `now`. Reads keep working.
    pub fn blocks(&self, now: Timestamp) -> Option<CallError> {
        if let Some(since) = self.overdue_since.filter(|since| *since <= now) {
            return Some(CallError::payment_overdue(since));
        }
        self.trial_ends_at.filter(|end| *end <= now).map(CallError::trial_expired)
    }

    /// The effective channel limit.
    pub fn most_channels(&self) -> u32 {
        self.channel_limit.unwrap_or(MOST_CHANNELS)
    }

    /// Why another channel is refused when the customer has `current` channels.
    pub fn refuses_channel(&self, current: u32) -> Option<CallError> {
        let limit = self.most_channels();
        (current >= limit).then(|| CallError::plan_channel_limit(limit, current))
    }

    /// The plan's status, shown as `plan.status` of an account.
    pub fn status(&self, now: Timestamp) -> &'static str {
        if self.overdue_since.is_some_and(|since| since <= now) {
            "past_due"
        } else if self.trial_ends_at.is_some() {
            "trial"
        } else if self.name == Self::default().name {
            "self_hosted"
        } else {
            "active"
        }
    }
}

/// Rate limits and quotas that override the defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub customer: Option<BucketRule>,
    pub channel: Option<BucketRule>,
    /// Omitted while all quotas are default: nodes of a release that does not know the field may be members then.
    #[serde(default, skip_serializing_if = "StorageLimits::is_default")]
    pub storage: StorageLimits,
}

crate::words! {
    /// The quotas of a plan, besides rate limits: how much an account may store.
    Quota {
        /// Bytes of stored media. The same bytes in two rows count twice; replicas of them count once.
        MediaBytes = "media_bytes",
        /// Approximate bytes on disk of messages and webhook deliveries; measured, not counted.
        MessageBytes = "message_bytes",
        /// API keys that are not revoked.
        Keys = "keys",
        /// Labels of one channel.
        Labels = "labels",
        Endpoints = "endpoints",
        /// Tickets that are neither solved nor closed.
        TicketsOpen = "tickets_open",
    }
}

impl CallError {
    /// A quota of the plan is used up; the operator can raise it.
    pub fn plan_limit(quota: Quota, limit: u64, used: u64) -> Self {
        let message = format!("the plan allows {limit} {}; {used} are in use", quota.noun());
        Self::new(ErrorCode::PlanLimit, message)
            .with_details(json!({ "quota": quota.as_str(), "limit": limit, "used": used }))
    }
}

impl Quota {
    /// The noun in the message "the plan allows 50 ...".
    pub fn noun(self) -> &'static str {
        match self {
            Self::MediaBytes => "bytes of media",
            Self::MessageBytes => "bytes of messages",
            Self::Keys => "API keys",
            Self::Labels => "labels of a channel",
            Self::Endpoints => "webhook endpoints",
            Self::TicketsOpen => "open tickets",
        }
    }

    /// The default of a quota, and the highest value that an operator may set. Every event makes a delivery for each
    /// endpoint that subscribes to it, all in one log entry: hence the low limit of endpoints.
    fn usual_and_highest(self) -> (u64, u64) {
        match self {
            Self::MediaBytes => (5 * 1024 * 1024 * 1024, (1 << 53) - 1),
            Self::MessageBytes => (10 * 1024 * 1024 * 1024, (1 << 53) - 1),
            Self::Keys => (1_000, 1_000_000),
            Self::Labels => (500, 10_000),
            Self::Endpoints => (50, 250),
            Self::TicketsOpen => (100, 100_000),
        }
    }
}

/// Quotas that the operator has set for one account; `None` means the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageLimits {
    pub media_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_bytes: Option<u64>,
    pub keys: Option<u64>,
    pub labels: Option<u64>,
    pub endpoints: Option<u64>,
    pub tickets_open: Option<u64>,
}

impl StorageLimits {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The effective limit of a quota.
    pub fn limit(&self, quota: Quota) -> u64 {
        let mut set = *self;
        set.of(quota).unwrap_or(quota.usual_and_highest().0)
    }

    fn of(&mut self, quota: Quota) -> &mut Option<u64> {
        match quota {
            Quota::MediaBytes => &mut self.media_bytes,
            Quota::MessageBytes => &mut self.message_bytes,
            Quota::Keys => &mut self.keys,
            Quota::Labels => &mut self.labels,
            Quota::Endpoints => &mut self.endpoints,
            Quota::TicketsOpen => &mut self.tickets_open,
        }
    }
}

/// Body of the operator's call that creates a customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateCustomer {
    pub name: String,
    pub email: Option<String>,
    pub plan: Plan,
    pub limits: Limits,
}

impl CreateCustomer {
    pub fn parse(body: &Body) -> Result<Self, CallError> {
        body.read(|fields| {
            let name = fields.required("name", rule::text(1..=120));
            let change = ChangeCustomer::read(fields);
            let mut created = Self { name: name?, email: None, plan: Plan::default(), limits: Limits::default() };
            change.apply(&mut created.name, &mut created.email, &mut created.plan, &mut created.limits);
            Some(created)
        })
    }
}

/// Body of the operator's patch: each given field replaces the old value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCustomer {
    name: Change<String>,
    email: Change<Option<String>>,
    plan_name: Change<String>,
    channel_limit: Change<Option<u32>>,
    trial_ends_at: Change<Option<Timestamp>>,
    overdue_since: Change<Option<Timestamp>>,
    customer_bucket: Change<Option<BucketRule>>,
    channel_bucket: Change<Option<BucketRule>>,
    /// The given quotas and their limits; `None` restores the default.
    storage: Vec<(Quota, Option<u64>)>,
}

impl ChangeCustomer {
    pub fn parse(body: &Body) -> Result<Self, CallError> {
        body.read_patch(|fields| {
            Some(Self { name: fields.optional("name", rule::text(1..=120)).into(), ..Self::read(fields) })
        })
    }

    /// Reads all fields but the name, which is required to create and optional to patch.
    fn read(fields: &Fields<'_>) -> Self {
        let mut change = Self { email: fields.nullable("email", rule::text(3..=254)).into(), ..Self::default() };
        if let Some(plan) = fields.object("plan") {
            change.plan_name = plan.optional("name", rule::text(1..=64)).into();
            let limit = plan.nullable("channel_limit", rule::integer(0..=u64::from(u32::MAX)));
            // The rule has checked that the number fits the type.
            change.channel_limit = limit.map(|limit| limit.and_then(|limit| u32::try_from(limit).ok())).into();
            change.trial_ends_at = plan.nullable("trial_ends_at", rule::time).into();
            change.overdue_since = plan.nullable("overdue_since", rule::time).into();
        }
        if let Some(limits) = fields.object("limits") {
            change.customer_bucket = read_bucket(&limits, "customer").into();
            change.channel_bucket = read_bucket(&limits, "channel").into();
            if let Some(storage) = limits.object("storage") {
                let read = |quota: Quota| {
                    let rule = rule::integer(0..=quota.usual_and_highest().1);
                    storage.nullable(quota.as_str(), rule).map(|limit| (quota, limit))
                };
                change.storage = Quota::ALL.into_iter().filter_map(read).collect();
            }
        }
        change
    }

    /// Applies the change to the parts of a customer's record.
    pub fn apply(self, name: &mut String, email: &mut Option<String>, plan: &mut Plan, limits: &mut Limits) {
        self.name.apply(name);
        self.email.apply(email);
        self.plan_name.apply(&mut plan.name);
        self.channel_limit.apply(&mut plan.channel_limit);
        self.trial_ends_at.apply(&mut plan.trial_ends_at);
        self.overdue_since.apply(&mut plan.overdue_since);
        self.customer_bucket.apply(&mut limits.customer);
        self.channel_bucket.apply(&mut limits.channel);
        self.storage.into_iter().for_each(|(quota, limit)| *limits.storage.of(quota) = limit);
    }
}

/// `null` removes an override. Bursts and rates of at most a million keep the arithmetic of buckets far from overflow.
fn read_bucket(limits: &Fields<'_>, key: &str) -> Option<Option<BucketRule>> {
    let Some(bucket) = limits.nullable_object(key)? else { return Some(None) };
    let number = |key| bucket.required(key, rule::integer(1..=1_000_000)).and_then(|n| u32::try_from(n).ok());
    let (burst, refill_per_second) = (number("burst"), number("refill_per_second"));
    Some(Some(BucketRule { burst: burst?, refill_per_second: refill_per_second? }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use serde_json::Value;

    fn object(value: Value) -> Body {
        Body::try_from(value).unwrap()
    }

    #[test]
    fn a_plan_blocks_from_the_moment_it_names() {
        let now = Timestamp(1000);
        let at = |millis| Some(Timestamp(millis));
        let table = [
            (None, None, None, "self_hosted"),
            (at(1001), None, None, "trial"),
            (at(1000), None, Some(ErrorCode::TrialExpired), "trial"),
            (None, at(1001), None, "self_hosted"),
            (None, at(999), Some(ErrorCode::PaymentOverdue), "past_due"),
            (at(1), at(1), Some(ErrorCode::PaymentOverdue), "past_due"),
        ];
        for (trial_ends_at, overdue_since, code, status) in table {
            let plan = Plan { trial_ends_at, overdue_since, ..Plan::default() };
            assert_eq!(plan.blocks(now).map(|error| error.code), code);
            assert_eq!(plan.status(now), status);
        }
    }

    #[test]
    fn the_channel_limit_counts_what_is_there() {
        let plan = Plan { channel_limit: Some(2), ..Plan::default() };
        assert!(plan.refuses_channel(1).is_none());
        assert_eq!(plan.refuses_channel(2).unwrap().code, ErrorCode::PlanChannelLimit);
        assert!(Plan::default().refuses_channel(MOST_CHANNELS - 1).is_none());
        assert!(Plan::default().refuses_channel(MOST_CHANNELS).is_some());
        let more = Plan { channel_limit: Some(MOST_CHANNELS + 1), ..Plan::default() };
        assert!(more.refuses_channel(MOST_CHANNELS).is_none());
    }

    #[test]
    fn a_customer_is_created_and_changed() {
        let created = CreateCustomer::parse(&object(json!({
            "name": "Acme",
            "plan": { "channel_limit": 5, "trial_ends_at": "2026-01-01T00:00:00.000Z" },
            "limits": { "channel": { "burst": 600, "refill_per_second": 80 } },
        })))
        .unwrap();
        assert_eq!(created.plan.channel_limit, Some(5));
        assert_eq!(created.limits.channel, Some(BucketRule { burst: 600, refill_per_second: 80 }));
        let CreateCustomer { mut name, mut email, mut plan, mut limits } = created;
        let change = ChangeCustomer::parse(&object(json!({
            "email": "ops@acme.example",
            "plan": { "trial_ends_at": null },
            "limits": { "channel": null },
        })))
        .unwrap();
        change.apply(&mut name, &mut email, &mut plan, &mut limits);
        assert_eq!((name.as_str(), email.as_deref()), ("Acme", Some("ops@acme.example")));
        assert_eq!((plan.channel_limit, plan.trial_ends_at), (Some(5), None));
        assert_eq!(limits, Limits::default());
    }

    #[test]
    fn a_quota_is_raised_and_taken_back_to_its_default_while_others_stay() {
        let mut limits = Limits::default();
        let mut patch = |storage: Value| {
            let change = ChangeCustomer::parse(&object(json!({ "limits": { "storage": storage } }))).unwrap();
            change.apply(&mut String::new(), &mut None, &mut Plan::default(), &mut limits);
            Quota::ALL.map(|quota| limits.storage.limit(quota))
        };
        assert_eq!(patch(json!({ "keys": 2_000, "endpoints": 60 })), [5 << 30, 10 << 30, 2_000, 500, 60, 100]);
        assert_eq!(patch(json!({ "keys": null, "tickets_open": 0 })), [5 << 30, 10 << 30, 1_000, 500, 60, 0]);
        patch(json!({ "endpoints": null, "tickets_open": null }));
        assert!(limits.storage.is_default());
    }

    #[test]
    fn limits_without_quotas_of_their_own_are_written_as_before_there_were_any() {
        #[derive(Serialize, Deserialize, Debug, PartialEq)]
        struct Before {
            customer: Option<BucketRule>,
            channel: Option<BucketRule>,
        }
        let before = serde_json::to_value(Before { customer: None, channel: None }).unwrap();
        assert_eq!(serde_json::to_value(Limits::default()).unwrap(), before);
        assert_eq!(serde_json::from_value::<Limits>(before).unwrap(), Limits::default());
        let of_media = StorageLimits { media_bytes: Some(1), ..StorageLimits::default() };
        let written = serde_json::to_value(of_media).unwrap();
        assert!(written.get("message_bytes").is_none(), "{written}");
        assert_eq!(serde_json::from_value::<StorageLimits>(written).unwrap(), of_media);
    }

    #[test]
    fn wrong_bodies_name_their_fields() {
        let cases = [
            (json!({}), json!(["name"]), "required"),
            (json!({ "name": "" }), json!(["name"]), "too_short"),
            (json!({ "name": "x", "plan": [] }), json!(["plan"]), "type"),
            (json!({ "name": "x", "plan": { "channel_limit": -1 } }), json!(["plan", "channel_limit"]), "too_small"),
            (json!({ "name": "x", "plan": { "overdue_since": 5 } }), json!(["plan", "overdue_since"]), "type"),
            (
                json!({ "name": "x", "limits": { "customer": { "burst": 9 } } }),
                json!(["limits", "customer", "refill_per_second"]),
                "required",
            ),
            (
                json!({ "name": "x", "limits": { "storage": { "endpoints": 251 } } }),
                json!(["limits", "storage", "endpoints"]),
                "too_big",
            ),
            (
                json!({ "name": "x", "limits": { "storage": { "keys": -1 } } }),
                json!(["limits", "storage", "keys"]),
                "too_small",
            ),
        ];
        for (body, path, code) in cases {
            let details = CreateCustomer::parse(&object(body)).unwrap_err().details.unwrap();
            assert_eq!((&details[0]["path"], &details[0]["code"]), (&path, &json!(code)));
        }
        assert!(ChangeCustomer::parse(&Body::default()).is_err());
    }
}
