//! API keys: issuing, listing, renaming, revoking.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::api_key::ApiKey;
use model::error::{CallError, ErrorCode as E};
use model::field::{Body, Fields, Judged, rule};
use model::id::{ChannelId, CustomerId, KeyId};
use model::issue::{IssueCode, Violation};
use model::page::{Cursor, ListId};
use model::scope::{Scope, Scopes, missing};
use model::time::Timestamp;
use raft::directory::command::{Command, Reply as Updated};
use raft::directory::records::{AuditEntry, KeyOrigin, KeyRecord};
use raft::directory::{Ended, PORTION};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::audit::Target;
use crate::failure::of_kind;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply, view_of};
use crate::request_context::{AccountCall, RequestContext};
use crate::resources::attempts::{self, Attempt};
use crate::route::{DELETE, GET, PATCH, POST, Route};

/// How far in the future a key may expire. Five years have at most two leap days.
const LONGEST_LIFE: Duration = Duration::from_secs((5 * 365 + 2) * 24 * 3600);

/// How long a deletion waits for what ends with it.
const REST_PATIENCE: Duration = Duration::from_secs(10);

/// The most scopes in a body: each of the 21 resources with read and write, and room for wildcards.
const MOST_SCOPES: usize = 128;

pub fn routes() -> Vec<Route> {
    vec![
        Route::account(POST, "/v1/api-keys", create)
            .doc("create_api_key", "Issue an API key")
            .about(
                "The secret is shown only in this response. The key cannot have a scope, a channel or a lifetime \
                 beyond those of the key that creates it: without `expires_at` it expires when that one does.",
            )
            .body(
                |body| CreateKey::parse(body, Timestamp(0)),
                json!({ "name": "reader", "scopes": ["messages.read", "media.*"] }),
            )
            .created::<IssuedKey>()
            .errors(&[E::ChannelNotFound, E::ChannelAccessDenied, E::ChannelScopedKey, E::PlanLimit]),
        Route::account(GET, "/v1/api-keys", list)
            .doc("list_api_keys", "List API keys")
            .query(|query| asked(query, ListId::only()))
            .list_or_page::<ApiKeyView>(),
        Route::account(GET, "/v1/api-keys/{id}", show).doc("get_api_key", "Get an API key").ok::<ApiKeyView>(),
        Route::account(PATCH, "/v1/api-keys/{id}", patch)
            .doc("rename_api_key", "Rename an API key")
            .body(parse_rename, json!({ "name": "reader of the dashboard" }))
            .ok::<ApiKeyView>(),
        Route::account(DELETE, "/v1/api-keys/{id}", revoke)
            .doc("revoke_api_key", "Revoke an API key")
            .about("Once this call has returned, no node accepts the key.")
            .no_content()
            .errors(&[E::NoOp]),
    ]
}

/// An API key without its secret.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ApiKey")]
pub struct ApiKeyView {
    pub id: KeyId,
    pub customer_id: CustomerId,
    pub name: String,
    /// The first 12 characters of the key, safe to show.
    pub prefix: String,
    /// The channel that the key is bound to; `null` for all channels of the account.
    pub channel_id: Option<ChannelId>,
    pub scopes: Vec<String>,
    #[schemars(extend("enum" = ["active", "expired", "revoked"]))]
    pub status: Cow<'static, str>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// Time of the last use, within five minutes; `null` if there was none.
    pub last_used_at: Option<Timestamp>,
    /// Time when the key was revoked; `null` if it was not.
    pub revoked_at: Option<Timestamp>,
    /// How the key was created.
    pub created_by: KeyOrigin,
    /// The key that created this one; `null` if none did.
    pub created_by_key_id: Option<KeyId>,
}

impl ApiKeyView {
    pub fn new(record: &KeyRecord, now: Timestamp) -> Self {
        let status = match record.revoked_at {
            Some(_) => "revoked",
            None if record.expires_at.is_some_and(|end| end <= now) => "expired",
            None => "active",
        };
        view_of!(
            record => id, customer_id, name, prefix, channel_id, scopes, created_at, expires_at, last_used_at, revoked_at,
            created_by, created_by_key_id; status: status.into()
        )
    }
}

/// An API key with its secret, shown only in the response that creates it.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct IssuedKey {
    #[serde(flatten)]
    pub key: ApiKeyView,
    /// The whole key; it is shown only once.
    pub secret: String,
}

impl IssuedKey {
    pub fn new(record: &KeyRecord, secret: &ApiKey, now: Timestamp) -> Self {
        Self { key: ApiKeyView::new(record, now), secret: secret.reveal().to_owned() }
    }
}

/// The properties of a key to issue.
pub struct NewKey {
    pub customer: CustomerId,
    pub name: String,
    pub channel: Option<ChannelId>,
    pub scopes: Vec<String>,
    pub expires_at: Option<Timestamp>,
    pub origin: KeyOrigin,
    pub minted_by: Option<KeyId>,
}

impl NewKey {
    /// The unrestricted first key of a new customer.
    pub fn first_of(customer: CustomerId) -> Self {
        Self {
            customer,
            name: "First key".to_owned(),
            channel: None,
            scopes: Vec::new(),
            expires_at: None,
            origin: KeyOrigin::Signup,
            minted_by: None,
        }
    }

    /// Generates the secret, and the record, which holds only its hash.
    pub fn generate(self, now: Timestamp) -> (KeyRecord, ApiKey) {
        let secret = ApiKey::generate(rand::random());
        let record = KeyRecord {
            id: KeyId::new(),
            customer_id: self.customer,
            name: self.name,
            prefix: secret.prefix().to_string(),
            hash: *secret.hash().as_bytes(),
            channel_id: self.channel,
            scopes: self.scopes,
            created_at: now,
            expires_at: self.expires_at,
            last_used_at: None,
            revoked_at: None,
            created_by: self.origin,
            created_by_key_id: self.minted_by,
        };
        (record, secret)
    }
}

/// The body of a creation.
struct CreateKey {
    name: String,
    channel_id: Option<ChannelId>,
    scopes: Scopes,
    expires_at: Option<Timestamp>,
}

impl CreateKey {
    fn parse(body: &Body, now: Timestamp) -> Result<Self, CallError> {
        body.read(|fields| {
            let name = fields.required("name", rule::text(1..=120));
            let channel_id = fields.nullable("channel_id", rule::uuid).flatten();
            let scopes = read_scopes(fields);
            let expires_at = fields.nullable("expires_at", expiry_rule(now)).flatten();
            Some(Self { name: name?, channel_id, scopes: Scopes::new(scopes?), expires_at })
        })
    }
}

/// Reads `{ "name" }`.
fn parse_rename(body: &Body) -> Result<String, CallError> {
    body.read_patch(|fields| fields.required("name", rule::text(1..=120)))
}

/// Reads the scopes. An absent or empty list is the unrestricted grant.
fn read_scopes(fields: &Fields<'_>) -> Option<Vec<Scope>> {
    if fields.has("scopes") { fields.list_or_empty("scopes", MOST_SCOPES, Scope::rule) } else { Some(Vec::new()) }
}

fn expiry_rule(now: Timestamp) -> impl Fn(&Value) -> Judged<Timestamp> {
    move |value| {
        let end = rule::time(value)?;
        if end <= now {
            return Err(Violation::new(IssueCode::TooSmall, "must lie in the future"));
        }
        if end > now.plus(LONGEST_LIFE) {
            return Err(Violation::new(IssueCode::TooBig, "must lie within 5 years"));
        }
        Ok(end)
    }
}

/// The expiry of a key that asks for `asked`, created by a key that expires at `latest`. Without this bound, an
/// expiring key could leave one behind that does not expire.
fn within(asked: Option<Timestamp>, latest: Option<Timestamp>) -> Result<Option<Timestamp>, CallError> {
    let (Some(end), Some(latest)) = (asked, latest) else { return Ok(asked.or(latest)) };
    if end <= latest {
        return Ok(Some(end));
    }
    let message = format!("must lie no later than the end of the key that makes it, {latest}");
    Err(Violation::new(IssueCode::TooBig, message).at(&["expires_at"]))
}

async fn create(call: &mut AccountCall) -> Outcome {
    let asked = CreateKey::parse(&call.object().await?, call.now)?;
    let expires_at = within(asked.expires_at, call.caller.latest_expiry())?;
    call.may_bind_to(asked.channel_id)?;
    // A key cannot mint more than its own scopes.
    let lacking = missing(&asked.scopes, &call.caller.scopes);
    if !lacking.is_empty() {
        return Err(CallError::insufficient_scope(&lacking, &call.caller.scopes.to_strings()));
    }
    let key = NewKey {
        customer: call.customer_id(),
        name: asked.name,
        channel: asked.channel_id,
        scopes: asked.scopes.to_strings(),
        expires_at,
        origin: call.caller.key_origin(),
        minted_by: call.caller.key_id(),
    };
    let (record, secret) = key.generate(call.now);
    let entry = call.audited("key.issued", target(&record));
    attempts::count(call, &[Attempt::KeyBy(call.customer_id())]).await?;
    call.update(Command::CreateKey(record.clone()), vec![entry]).await?;
    Ok(Reply::created(&IssuedKey::new(&record, &secret, call.now)).uncached())
}

async fn list(call: &mut AccountCall) -> Outcome {
    let of = call.list(None, false);
    let (with_revoked, after) = call.asked(|query| asked(query, of))?;
    let keys: Vec<Arc<KeyRecord>> = call.directory().read(|state| {
        let keys = state.keys_of(call.customer_id()).into_iter();
        keys.map(|key| state.as_ended(key)).collect()
    });
    let seen = keys.iter().filter(|key| call.reaches(key.channel_id) && (with_revoked || key.revoked_at.is_none()));
    let rest = seen.filter(|key| after.is_none_or(|after| (key.created_at, key.id) < after));
    let views = rest.map(|key| ApiKeyView::new(key, call.now)).collect();
    let cursor = |key: &ApiKeyView| KeyCursor { created_at: key.created_at, id: key.id }.encode(of);
    Ok(Reply::ok(&List::cut(views, cursor)))
}

model::cursor! {
    /// The last key of a response that could not hold all.
    KeyCursor("keys.1") { created_at: Timestamp, id: KeyId }
}

/// Reads whether to show revoked keys, and where the previous response ended.
fn asked(query: &Query<'_>, list: ListId) -> (bool, Option<(Timestamp, KeyId)>) {
    let after = query.cursor::<KeyCursor>(list).map(|cursor| (cursor.created_at, cursor.id));
    (query.flag("include_revoked").unwrap_or(false), after)
}

async fn show(call: &mut AccountCall) -> Outcome {
    Ok(Reply::ok(&ApiKeyView::new(&*find(call)?, call.now)))
}

async fn patch(call: &mut AccountCall) -> Outcome {
    let name = parse_rename(&call.object().await?)?;
    let key = find(call)?;
    let command = Command::RenameKey { customer: call.customer_id(), id: key.id, name };
    of_kind!(call.update(command, Vec::new()).await?, Updated::Key(key) => Reply::ok(&ApiKeyView::new(&key, call.now)))
}

/// Revokes a key. Once this has returned, no node accepts the key (docs/design/directory.md).
async fn revoke(call: &mut AccountCall) -> Outcome {
    let key = find(call)?;
    let entry = call.audited("key.revoked", target(&key));
    call.update(Command::RevokeKey { customer: call.customer_id(), id: key.id }, vec![entry]).await?;
    Ok(Reply::no_content())
}

/// Deletes a channel or an account with its keys, and writes an audit entry for each key. When there are more keys than
/// a portion, they stop working with the deletion, and their records and entries follow in portions. If this node fails
/// meanwhile, the directory's leader continues.
pub async fn delete_with_keys(
    ctx: &RequestContext,
    command: Command,
    entry: AuditEntry,
    customer: CustomerId,
    ended: Ended,
) -> Result<(), CallError> {
    // Every revocation gets an audit entry.
    let keys = ctx.directory().read(|state| state.keys_of(customer));
    let ending = keys.iter().filter(|key| key.revoked_at.is_none() && ended.includes(key));
    let revoked = ending.map(|key| ctx.audit_entry(customer, "key.revoked", entry.actor.clone(), target(key)));
    let mut audit: Vec<AuditEntry> = revoked.collect();
    let many = audit.len() > PORTION;
    if many {
        audit.clear();
    }
    audit.push(entry);
    ctx.update(command, audit).await?;
    let directory = ctx.directory();
    if (many || directory.read(|state| state.is_ending(ended)))
        && let Err(error) = directory.finish_deletion(ended, Instant::now() + REST_PATIENCE).await
    {
        tracing::info!(?ended, %error, "the directory's leader completes the deletion");
    }
    Ok(())
}

/// The key that the path names, if the calling key may see it.
fn find(call: &AccountCall) -> Result<Arc<KeyRecord>, CallError> {
    let key = call.known("id", |state, id: KeyId| state.keys.get(&id).map(|key| state.as_ended(key.clone())));
    let own = key.filter(|key| key.customer_id == call.customer_id() && call.reaches(key.channel_id));
    own.ok_or_else(|| CallError::not_found("api_key", call.parameter("id")))
}

fn target(key: &KeyRecord) -> Target {
    Target::new("api_key", key.id, key.name.as_str())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
pub mod tests {
    use super::*;

    use crate::caller::{Caller, Credential};
    use model::customer::{Limits, Plan};
    use model::seal::{DataKey, MasterKey};
    use raft::directory::records::CustomerRecord;

    const NOW: Timestamp = Timestamp(1_767_225_600_000);

    /// A key, for tests of this crate.
    pub fn test_key(
        customer: CustomerId,
        scopes: &[&str],
        channel: Option<ChannelId>,
        now: Timestamp,
    ) -> (KeyRecord, ApiKey) {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        NewKey {
            customer,
            name: "k".into(),
            channel,
            scopes,
            expires_at: None,
            origin: KeyOrigin::ApiKey,
            minted_by: None,
        }
        .generate(now)
    }

    /// A caller, for tests of this crate.
    pub fn test_caller(scopes: &[&str], channel: Option<ChannelId>) -> Caller {
        let id = CustomerId::new();
        let (key, _) = test_key(id, scopes, channel, NOW);
        let customer = CustomerRecord {
            id,
            name: "Acme".into(),
            email: None,
            timezone: "UTC".into(),
            plan: Plan::default(),
            limits: Limits::default(),
            data_key: MasterKey::new([7; 32]).wrap(&DataKey::new([8; 32]), id, [9; 24]),
            former_data_key: None,
            created_at: NOW,
            deleted_at: None,
        };
        let scopes = Scopes::new(scopes.iter().map(|scope| Scope::parse(scope).unwrap()));
        Caller { credential: Credential::Key(Arc::new(key)), customer: Arc::new(customer), scopes }
    }

    fn parse(body: Value) -> Result<CreateKey, CallError> {
        CreateKey::parse(&Body::try_from(body).unwrap(), NOW)
    }

    #[test]
    fn wrong_bodies_name_their_fields() {
        let table = [
            (json!({}), json!(["name"]), "required"),
            (json!({ "name": "" }), json!(["name"]), "too_short"),
            (json!({ "name": "k", "channel_id": "7" }), json!(["channel_id"]), "format"),
            (json!({ "name": "k", "scopes": "*" }), json!(["scopes"]), "type"),
            (json!({ "name": "k", "scopes": ["messages"] }), json!(["scopes", 0]), "enum"),
            (json!({ "name": "k", "expires_at": "soon" }), json!(["expires_at"]), "format"),
            (json!({ "name": "k", "expires_at": "2025-12-31T00:00:00Z" }), json!(["expires_at"]), "too_small"),
            (json!({ "name": "k", "expires_at": "2031-01-04T00:00:00Z" }), json!(["expires_at"]), "too_big"),
        ];
        for (body, path, code) in table {
            let details = parse(body.clone()).err().unwrap().details.unwrap();
            assert_eq!((&details[0]["path"], &details[0]["code"]), (&path, &json!(code)), "{body}");
        }
    }

    #[test]
    fn no_scopes_and_an_empty_list_are_unrestricted() {
        for body in [json!({ "name": "k" }), json!({ "name": "k", "scopes": [] })] {
            assert!(parse(body).unwrap().scopes.is_unrestricted());
        }
    }

    #[test]
    fn a_key_ends_no_later_than_the_key_that_makes_it() {
        let (soon, late) = (Timestamp(NOW.0 + 30_000), Timestamp(NOW.0 + 30_001));
        let table = [
            (None, None, Ok(None)),
            (Some(late), None, Ok(Some(late))),
            (None, Some(soon), Ok(Some(soon))),
            (Some(NOW), Some(soon), Ok(Some(NOW))),
            (Some(soon), Some(soon), Ok(Some(soon))),
            (Some(late), Some(soon), Err("too_big")),
        ];
        for (asked, latest, expected) in table {
            let judged = within(asked, latest).map_err(|error| error.details.unwrap()[0]["code"].clone());
            assert_eq!(judged, expected.map_err(|code| json!(code)), "{asked:?} of {latest:?}");
        }
    }

    #[test]
    fn a_new_key_is_known_by_its_hash_alone() {
        let (record, secret) = test_key(CustomerId::new(), &[], None, NOW);
        let record = KeyRecord { expires_at: Some(Timestamp(NOW.0 + 1)), ..record };
        assert_eq!(&record.hash, secret.hash().as_bytes());
        assert_eq!(record.prefix, secret.reveal()[..12]);
        let status = |now| ApiKeyView::new(&record, now).status;
        assert_eq!((&*status(NOW), &*status(Timestamp(NOW.0 + 1))), ("active", "expired"));
        let issued = serde_json::to_value(IssuedKey::new(&record, &secret, NOW)).unwrap();
        assert_eq!(issued["secret"], secret.reveal());
        assert!(issued.get("hash").is_none());
    }
}
