//! `POST /v1/channels`.

use model::error::CallError;
use model::field::{Body, rule};
use model::id::ChannelId;
use model::scope::{Access, Resource};
use raft::directory::command::Command;
use raft::directory::records::{ChannelRecord, KeyOrigin};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::view::ChannelView;
use crate::audit::Target;
use crate::caller::Caller;
use crate::reply::{Outcome, Reply};
use crate::request_context::AccountCall;
use crate::resources::attempts::{self, Attempt};
use crate::resources::{IssuedKey, NewKey};

/// The new channel, and its own API key if requested.
#[derive(Serialize, JsonSchema)]
pub struct CreatedChannel {
    #[serde(flatten)]
    channel: ChannelView,
    /// API key bound to the channel, with its secret, which is shown only once; absent unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    scoped_key: Option<IssuedKey>,
}

/// Parses the body: name, metadata, and whether a key is issued.
pub fn parse_create(body: &Body) -> Result<(String, Map<String, Value>, bool), CallError> {
    body.read(|fields| {
        let name = fields.required("name", rule::text(1..=120));
        let metadata = fields.optional("metadata", rule::metadata).unwrap_or_default();
        let issue_scoped_key = fields.optional("issue_scoped_key", rule::boolean).unwrap_or(false);
        Some((name?, metadata, issue_scoped_key))
    })
}

pub async fn create(call: &mut AccountCall) -> Outcome {
    let current = call.directory().read(|state| state.channel_count(call.customer_id()));
    let plan = &call.caller.customer.plan;
    if let Some(refused) = plan.refuses_channel(u32::try_from(current).unwrap_or(u32::MAX)) {
        return Err(refused);
    }

    let (name, metadata, issue_scoped_key) = parse_create(&call.object().await?)?;
    if issue_scoped_key {
        may_mint(&call.caller)?;
        attempts::count(call, &[Attempt::KeyBy(call.customer_id())]).await?;
    }

    let channel = ChannelRecord {
        id: ChannelId::new(),
        customer_id: call.customer_id(),
        name: name.clone(),
        metadata: Value::Object(metadata).to_string(),
        created_at: call.now,
        updated_at: call.now,
        deleted_at: None,
    };
    let mut audit = vec![call.audited("channel.created", Target::new("channel", channel.id, name.as_str()))];
    // The key gets the scopes of the caller, so that a restricted caller cannot mint an unrestricted key.
    let key = issue_scoped_key.then(|| {
        NewKey {
            customer: call.customer_id(),
            name: key_name(&name),
            channel: Some(channel.id),
            scopes: call.caller.scopes.to_strings(),
            expires_at: call.caller.latest_expiry(),
            origin: KeyOrigin::ChannelCreate,
            minted_by: call.caller.key_id(),
        }
        .generate(call.now)
    });
    if let Some((record, _)) = &key {
        audit.push(call.audited("key.issued", Target::new("api_key", record.id, record.name.as_str())));
    }
    let scoped_key = key.as_ref().map(|(record, _)| record.clone());
    call.update(Command::CreateChannel { channel: channel.clone(), scoped_key }, audit).await?;
    let scoped_key = key.map(|(record, secret)| IssuedKey::new(&record, &secret, call.now));
    Ok(Reply::created(&CreatedChannel { channel: ChannelView::new(&channel, None), scoped_key }).uncached())
}

/// Refuses callers that may not create keys: they get none with a channel either.
fn may_mint(caller: &Caller) -> Result<(), CallError> {
    caller.scopes.require(Resource::Keys, Access::Write)
}

/// The name of the channel's key: the channel's name, truncated to fit, with a suffix.
fn key_name(channel: &str) -> String {
    const SUFFIX: &str = " (channel key)";
    let room = 120 - SUFFIX.len();
    channel.chars().take(room).collect::<String>() + SUFFIX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::test_caller;

    #[test]
    fn a_key_of_a_channel_needs_the_right_to_make_keys() {
        let table = [
            (&[][..], true),
            (&["*"][..], true),
            (&["channels.*", "keys.write"][..], true),
            (&["channels.*"][..], false),
            (&["channels.*", "keys.read"][..], false),
        ];
        for (scopes, allowed) in table {
            assert_eq!(may_mint(&test_caller(scopes, None)).is_ok(), allowed, "{scopes:?}");
        }
    }

    #[test]
    fn a_key_bears_its_channels_name_within_120_characters() {
        assert_eq!(key_name("Sales"), "Sales (channel key)");
        assert_eq!(key_name(&"ä".repeat(120)).chars().count(), 120);
    }
}
