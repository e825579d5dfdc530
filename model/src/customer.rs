//! A customer's plan and limits, as the operator sets them (supplement 25 and 31, row 14).

use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::field::{Body, Change, Fields, rule};
use crate::issue::Issues;
use crate::limit::BucketRule;
use crate::time::Timestamp;

/// What a customer has agreed to, and whether it is behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub name: String,
    /// The most channels; `None` for no cap.
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
    /// Why sends, stories, presence and new channels are refused now; reads keep working (interface 4.2, rule 8).
    pub fn blocks(&self, now: Timestamp) -> Option<ApiError> {
        if let Some(since) = self.overdue_since.filter(|since| *since <= now) {
            return Some(ApiError::payment_overdue(since));
        }
        self.trial_ends_at.filter(|end| *end <= now).map(ApiError::trial_expired)
    }

    /// Why a channel more is refused, when the customer has `current` channels.
    pub fn refuses_channel(&self, current: u32) -> Option<ApiError> {
        let limit = self.channel_limit?;
        (current >= limit).then(|| ApiError::plan_channel_limit(limit, current))
    }

    /// `plan.status` of the account (supplement 25).
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

/// Buckets that differ from the deployment's defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub customer: Option<BucketRule>,
    pub channel: Option<BucketRule>,
}

/// The body of the operator's create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateCustomer {
    pub name: String,
    pub email: Option<String>,
    pub plan: Plan,
    pub limits: Limits,
}

impl CreateCustomer {
    pub fn parse(body: &Body) -> Result<Self, ApiError> {
        let issues = Issues::new();
        let fields = Fields::new(body, &issues);
        let name = fields.required("name", rule::text(1..=120));
        let change = ChangeCustomer::read(&fields);
        issues.finish(|| {
            let mut created = Self { name: name?, email: None, plan: Plan::default(), limits: Limits::default() };
            change.apply(&mut created.name, &mut created.email, &mut created.plan, &mut created.limits);
            Some(created)
        })
    }
}

/// The body of the operator's patch: each named field replaces the old one.
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
}

impl ChangeCustomer {
    pub fn parse(body: &Body) -> Result<Self, ApiError> {
        let issues = Issues::new();
        let fields = Fields::patch(body, &issues);
        let change = Self { name: fields.optional("name", rule::text(1..=120)).into(), ..Self::read(&fields) };
        issues.finish(|| Some(change))
    }

    /// All but the name, which a create requires and a patch does not.
    fn read(fields: &Fields<'_>) -> Self {
        let mut change = Self { email: fields.nullable("email", rule::text(3..=254)).into(), ..Self::default() };
        if let Some(plan) = fields.object("plan") {
            change.plan_name = plan.optional("name", rule::text(1..=64)).into();
            let limit = plan.nullable("channel_limit", rule::integer(0..=u64::from(u32::MAX)));
            // In range, by its rule.
            change.channel_limit = limit.map(|limit| limit.and_then(|limit| u32::try_from(limit).ok())).into();
            change.trial_ends_at = plan.nullable("trial_ends_at", rule::time).into();
            change.overdue_since = plan.nullable("overdue_since", rule::time).into();
        }
        if let Some(limits) = fields.object("limits") {
            change.customer_bucket = read_bucket(&limits, "customer").into();
            change.channel_bucket = read_bucket(&limits, "channel").into();
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
    }
}

/// `null` takes an override back. Bursts and rates up to a million keep the arithmetic of buckets far from overflow.
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
    use crate::error::ErrorCode;
    use serde_json::{Value, json};

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
        assert!(Plan::default().refuses_channel(u32::MAX).is_none());
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
        ];
        for (body, path, code) in cases {
            let details = CreateCustomer::parse(&object(body)).unwrap_err().details.unwrap();
            assert_eq!((&details[0]["path"], &details[0]["code"]), (&path, &json!(code)));
        }
        assert!(ChangeCustomer::parse(&Body::default()).is_err());
    }
}
