//! Webhook endpoints: the receivers of the account's events.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::error::{CallError, ErrorCode as E};
use model::field::Change;
use model::id::{ChannelId, CustomerId, EndpointId};
use model::payload::ChatTypeFilter;
use model::scope::Access;
use model::time::Timestamp;
use model::webhook::{ChangeEndpoint, CreateEndpoint, EventFilter, StaticHeaders};
use raft::directory::command::{Command, EndpointChange, Reply as Updated, SealedHeaders};
use raft::directory::health::EndpointHealth;
use raft::directory::records::{DisabledReason, EndpointRecord};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use shard::secrets::{headers_purpose, secret_purpose};
use shard::webhook::material::Material;

use crate::audit::Target;
use crate::caller::Caller;
use crate::failure::{self, of_kind};
use crate::reply::{List, Outcome, Reply, view_of};
use crate::request_context::AccountCall;
use crate::resources::attempts::{self, Attempt};
use crate::route::{DELETE, GET, PATCH, POST, Route};

/// Replaces values that must not be shown.
const MASK: &str = "***";

pub fn routes() -> Vec<Route> {
    vec![
        Route::account(GET, "/v1/webhook-endpoints", list)
            .doc("list_webhook_endpoints", "List webhook endpoints")
            .list::<WebhookEndpoint>(),
        Route::account(POST, "/v1/webhook-endpoints", create)
            .doc("create_webhook_endpoint", "Create a webhook endpoint")
            .about("Without `channel_id` it gets the events of all channels. `events` are names, or only `*`.")
            .body_here(
                |body, here| CreateEndpoint::parse(body, here.target_policy),
                json!({ "url": "https://example.com/hook", "events": ["message.received", "message.status"] }),
            )
            .created::<CreatedWebhookEndpoint>()
            .errors(&[E::ChannelNotFound, E::ChannelAccessDenied, E::ChannelScopedKey, E::PlanLimit]),
        Route::account(GET, "/v1/webhook-endpoints/{id}", show)
            .doc("get_webhook_endpoint", "Get a webhook endpoint")
            .ok::<WebhookEndpoint>(),
        Route::account(PATCH, "/v1/webhook-endpoints/{id}", patch)
            .doc("update_webhook_endpoint", "Change a webhook endpoint")
            .about("`signing_secret: null` returns to the account's default secret.")
            .body_here(
                |body, here| ChangeEndpoint::parse(body, here.target_policy),
                json!({ "events": ["*"], "enabled": true }),
            )
            .ok::<WebhookEndpoint>(),
        Route::account(DELETE, "/v1/webhook-endpoints/{id}", delete)
            .doc("delete_webhook_endpoint", "Delete a webhook endpoint")
            .no_content(),
        Route::account(GET, "/v1/webhook-endpoints/{id}/signing-secret", signing_secret)
            .doc("get_signing_secret", "Get the secret that signs an endpoint's deliveries")
            .about(
                "Each call is recorded in the audit log. Keys that are bound to a channel, and members who are neither \
                 `admin` nor `owner`, cannot get the account's default secret.",
            )
            .ok::<SigningSecret>()
            .errors(&[E::ChannelScopedKey]),
    ]
}

/// A webhook endpoint without its secret.
#[derive(Serialize, JsonSchema)]
struct WebhookEndpoint {
    id: EndpointId,
    customer_id: CustomerId,
    /// The channel whose events the endpoint receives; `null` for all channels of the account.
    channel_id: Option<ChannelId>,
    url: String,
    events: EventFilter,
    enabled: bool,
    /// Whether the endpoint has a signing secret of its own.
    has_custom_signing_secret: bool,
    chat_type_filter: ChatTypeFilter,
    /// Why the gateway disabled the endpoint; `null` if it did not.
    disabled_reason: Option<DisabledReason>,
    /// Custom headers of deliveries: names, with masked values.
    headers: BTreeMap<String, &'static str>,
    /// Time of the first failure since the last success; `null` if there was none.
    failing_since: Option<Timestamp>,
    /// Time of the last successful delivery; `null` if there was none.
    last_success_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl WebhookEndpoint {
    fn new(record: &EndpointRecord) -> Self {
        view_of!(
            record => id, customer_id, channel_id, url, events, enabled, chat_type_filter, disabled_reason, created_at,
            updated_at;
            has_custom_signing_secret: record.secret.is_some(),
            headers: record.header_names.iter().map(|name| (name.clone(), MASK)).collect(),
            failing_since: record.health.failing_since,
            last_success_at: record.health.last_success_at
        )
    }
}

/// The new endpoint. Only this response contains the secret that was given.
#[derive(Serialize, JsonSchema)]
struct CreatedWebhookEndpoint {
    #[serde(flatten)]
    endpoint: WebhookEndpoint,
    signing_secret: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct SigningSecret {
    signing_secret: String,
    /// Whether the secret is the account's default secret.
    is_default: bool,
}

async fn list(call: &mut AccountCall) -> Outcome {
    let endpoints = call.directory().read(|state| state.endpoints_of(call.customer_id()));
    let seen = endpoints.iter().filter(|endpoint| call.reaches(endpoint.channel_id));
    Ok(Reply::ok(&List::whole(seen.map(|endpoint| WebhookEndpoint::new(endpoint)).collect())))
}

async fn create(call: &mut AccountCall) -> Outcome {
    let asked = CreateEndpoint::parse(&call.object().await?, &call.app.config.target_policy)?;
    call.may_bind_to(asked.channel_id)?;
    let id = EndpointId::new();
    judge_urls(call, None, &asked.url)?;
    let headers = seal_headers(call, id, &asked.headers)?;
    let endpoint = EndpointRecord {
        id,
        customer_id: call.customer_id(),
        channel_id: asked.channel_id,
        url: asked.url,
        events: asked.events,
        enabled: asked.enabled,
        secret: asked.signing_secret.as_deref().map(|secret| seal(call, id, secret)).transpose()?,
        chat_type_filter: asked.chat_type_filter,
        disabled_reason: None,
        header_names: headers.names,
        sealed_headers: headers.sealed,
        health: EndpointHealth::default(),
        created_at: call.now,
        updated_at: call.now,
    };
    attempts::count(call, &[Attempt::EntryBy(call.customer_id())]).await?;
    let entry = call.audited("webhook.created", target(&endpoint));
    call.update(Command::CreateEndpoint(endpoint.clone()), vec![entry]).await?;
    let created =
        CreatedWebhookEndpoint { endpoint: WebhookEndpoint::new(&endpoint), signing_secret: asked.signing_secret };
    Ok(Reply::created(&created).uncached())
}

async fn show(call: &mut AccountCall) -> Outcome {
    Ok(Reply::ok(&WebhookEndpoint::new(&*find(call)?)))
}

async fn patch(call: &mut AccountCall) -> Outcome {
    // The body is validated before the resource is looked up.
    let asked = ChangeEndpoint::parse(&call.object().await?, &call.app.config.target_policy)?;
    let endpoint = find(call)?;
    if let Change::To(url) = &asked.url {
        judge_urls(call, Some(&endpoint), url)?;
    }
    let sealed = |text: Option<String>| text.map(|text| seal(call, endpoint.id, &text)).transpose();
    let secret = asked.signing_secret.try_map(sealed)?;
    let changes_secret = !secret.is_keep();
    let headers = asked.headers.try_map(|headers| seal_headers(call, endpoint.id, &headers))?;
    let change = EndpointChange {
        url: asked.url,
        events: asked.events,
        secret,
        enabled: asked.enabled,
        chat_type_filter: asked.chat_type_filter,
        headers,
    };
    if changes_secret {
        attempts::count(call, &[Attempt::EntryBy(call.customer_id())]).await?;
    }
    let entry = changes_secret.then(|| call.audited("webhook.secret_changed", target(&endpoint)));
    let command = Command::UpdateEndpoint { customer: call.customer_id(), id: endpoint.id, change };
    let answer = call.update(command, entry.into_iter().collect()).await?;
    of_kind!(answer, Updated::Endpoint(endpoint) => Reply::ok(&WebhookEndpoint::new(&endpoint)))
}

/// Refuses what the directory would refuse, by this node's copy. An older format's directory checks no URLs itself.
fn judge_urls(call: &AccountCall, before: Option<&EndpointRecord>, url: &str) -> Result<(), CallError> {
    let judged = call.directory().read(|state| state.judge_urls(call.customer_id(), before, url));
    judged.map_err(failure::of_rejection)
}

/// Deletes an endpoint. Its queued deliveries keep their schedule, and fail because the endpoint is missing.
async fn delete(call: &mut AccountCall) -> Outcome {
    let endpoint = find(call)?;
    let entry = call.audited("webhook.deleted", target(&endpoint));
    call.update(Command::DeleteEndpoint { customer: call.customer_id(), id: endpoint.id }, vec![entry]).await?;
    Ok(Reply::no_content())
}

/// Shows the signing secret, after an audit entry about the read was written.
async fn signing_secret(call: &mut AccountCall) -> Outcome {
    let endpoint = find(call)?;
    if endpoint.secret.is_none() {
        may_read_default_secret(&call.caller)?;
    }
    let cluster = call.cluster();
    let material = Material::open(cluster.directory(), cluster.secrets(), &endpoint, call.now)
        .map_err(|error| failure::internal("a signing secret cannot be opened", &error))?;
    // The first secret is the one that stays after a rotation.
    let signing_secret = material.secrets.into_iter().next().unwrap_or_default();
    let view = SigningSecret { signing_secret, is_default: endpoint.secret.is_none() };
    attempts::count(call, &[Attempt::EntryBy(call.customer_id())]).await?;
    let entry = call.audited("webhook.secret_read", target(&endpoint));
    call.update(Command::Audit, vec![entry]).await?;
    Ok(Reply::ok(&view).uncached())
}

/// Checks access to the default secret, which signs the deliveries of all channels of the account.
fn may_read_default_secret(caller: &Caller) -> Result<(), CallError> {
    match caller.bound_channel() {
        Some(bound) => Err(CallError::channel_scoped_key(bound)),
        None if caller.session().is_some() => caller.require_account(Access::Write),
        None => Ok(()),
    }
}

/// The endpoint that the path names, if the key may see it. A bound key does not see endpoints for the whole account.
pub fn find(call: &AccountCall) -> Result<Arc<EndpointRecord>, CallError> {
    let endpoint = call.known("id", |state, id: EndpointId| state.endpoints.get(&id).cloned());
    let own = endpoint.filter(|endpoint| endpoint.customer_id == call.customer_id());
    own.filter(|endpoint| call.reaches(endpoint.channel_id)).ok_or_else(CallError::webhook_endpoint_not_found)
}

fn seal(call: &AccountCall, endpoint: EndpointId, secret: &str) -> Result<Vec<u8>, CallError> {
    let purpose = secret_purpose(endpoint);
    let sealed = call.cluster().secrets().seal(&call.caller.customer, &purpose, secret.as_bytes());
    sealed.map_err(|error| failure::internal("a signing secret cannot be encrypted", &error))
}

/// Seals headers like secrets, since their values may be credentials.
fn seal_headers(call: &AccountCall, endpoint: EndpointId, headers: &StaticHeaders) -> Result<SealedHeaders, CallError> {
    if headers.is_empty() {
        return Ok(SealedHeaders::default());
    }
    let text = serde_json::to_vec(headers).map_err(|error| failure::internal("headers cannot be written", &error))?;
    let sealed = call.cluster().secrets().seal(&call.caller.customer, &headers_purpose(endpoint), &text);
    let sealed = sealed.map_err(|error| failure::internal("headers cannot be encrypted", &error))?;
    Ok(SealedHeaders { names: headers.iter().map(|(name, _)| name.clone()).collect(), sealed: Some(sealed) })
}

fn target(endpoint: &EndpointRecord) -> Target {
    Target::new("webhook_endpoint", endpoint.id, endpoint.url.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{Credential, Session};
    use crate::resources::test_caller;
    use model::member::Role;

    #[test]
    fn the_default_secret_is_for_account_wide_keys_and_administrators() {
        let code = |caller: &Caller| may_read_default_secret(caller).err().map(|error| error.code);
        assert_eq!(code(&test_caller(&["webhooks.read"], None)), None);
        assert_eq!(code(&test_caller(&[], Some(ChannelId::new()))), Some(E::ChannelScopedKey));
        let roles = [
            (Role::Viewer, Some(E::InsufficientScope)),
            (Role::Member, Some(E::InsufficientScope)),
            (Role::Admin, None),
            (Role::Owner, None),
        ];
        for (role, expected) in roles {
            let session = Session {
                id: None,
                subject: "u1".into(),
                email: "a@b.c".into(),
                role,
                expires_at: Timestamp(i64::MAX),
            };
            let caller =
                Caller { credential: Credential::Session(session), scopes: role.scopes(), ..test_caller(&[], None) };
            assert_eq!(code(&caller), expected, "{role:?}");
        }
    }
}
