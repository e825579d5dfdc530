//! `/v1/admin/keys`: the API keys of all customers, without their secrets: listing with last use, and revocation.

use std::cmp::Reverse;
use std::sync::Arc;

use model::error::{CallError, ErrorCode};
use model::id::{CustomerId, KeyId};
use model::page::{Cursor, DEFAULT_LIMIT, ListId};
use model::time::Timestamp;
use raft::directory::command::Command;
use raft::directory::records::KeyRecord;
use raft::directory::state::DirectoryState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::audit::Target;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::resources::ApiKeyView;
use crate::route::{DELETE, GET, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/keys", list)
            .doc("list_all_keys", "List the API keys of all customers, the newest first")
            .query(KeyParameters::read)
            .page::<OwnedKey>(),
        Route::operator(DELETE, "/v1/admin/keys/{id}", revoke)
            .doc("revoke_any_key", "Revoke an API key, by its id or its prefix")
            .about("Once this call has returned, no node accepts the key.")
            .ok::<OwnedKey>()
            .errors(&[ErrorCode::BadRequest, ErrorCode::NoOp]),
    ]
}

/// An API key with its account.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct OwnedKey {
    #[serde(flatten)]
    pub key: ApiKeyView,
    /// Name of the account; `null` once the account's data is removed.
    pub customer_name: Option<String>,
}

impl OwnedKey {
    fn of(key: &KeyRecord, state: &DirectoryState, now: Timestamp) -> Self {
        let customer_name = state.customers.get(&key.customer_id).map(|customer| customer.name.clone());
        Self { key: ApiKeyView::new(key, now), customer_name }
    }
}

model::cursor! {
    /// The last key of a page.
    KeyCursor("admin-keys.1") { created_at: Timestamp, id: KeyId }
}

struct KeyParameters {
    limit: usize,
    customer: Option<CustomerId>,
    with_revoked: bool,
    after: Option<(Timestamp, KeyId)>,
}

impl KeyParameters {
    fn read(query: &Query<'_>) -> Self {
        Self {
            limit: query.limit().unwrap_or(DEFAULT_LIMIT),
            customer: query.id("customer_id"),
            with_revoked: query.flag("include_revoked").unwrap_or(false),
            after: query.cursor::<KeyCursor>(ListId::only()).map(|cursor| (cursor.created_at, cursor.id)),
        }
    }

    fn wants(&self, key: &KeyRecord, state: &DirectoryState) -> bool {
        self.customer.is_none_or(|customer| key.customer_id == customer)
            && (self.with_revoked || state.ended_at(key).is_none())
            && self.after.is_none_or(|after| place(key) < after)
    }
}

fn place(key: &KeyRecord) -> (Timestamp, KeyId) {
    (key.created_at, key.id)
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let asked = call.asked(KeyParameters::read)?;
    let now = call.now;
    let page = call.directory().read(|state| {
        let wanted = state.keys.values().filter(|key| asked.wants(key, state));
        let mut keys: Vec<&Arc<KeyRecord>> = wanted.collect();
        keys.sort_by_key(|key| Reverse(place(key)));
        let cursor =
            |key: &&Arc<KeyRecord>| KeyCursor { created_at: key.created_at, id: key.id }.encode(ListId::only());
        List::first(keys, asked.limit, cursor).map(|key| OwnedKey::of(&state.as_ended(key.clone()), state, now))
    });
    Ok(Reply::ok(&page))
}

async fn revoke(call: &mut OperatorCall) -> Outcome {
    let key = named(call)?;
    let entry = call.audited(key.customer_id, "key.revoked", Target::new("api_key", key.id, key.name.as_str()));
    call.update(Command::RevokeKey { customer: key.customer_id, id: key.id }, vec![entry]).await?;
    let revoked = KeyRecord { revoked_at: Some(call.now), ..(*key).clone() };
    Ok(Reply::ok(&call.directory().read(|state| OwnedKey::of(&revoked, state, call.now))))
}

/// The key that the path names, by its id, or by its prefix if that is unique.
fn named(call: &OperatorCall) -> Result<Arc<KeyRecord>, CallError> {
    let (id, text): (Option<KeyId>, &str) = (call.id("id"), call.parameter("id"));
    let found: Vec<Arc<KeyRecord>> = call.directory().read(|state| match id {
        Some(id) => state.keys.get(&id).cloned().into_iter().collect(),
        None => state.keys_with_prefix(text).cloned().collect(),
    });
    match found.as_slice() {
        [key] => Ok(Arc::clone(key)),
        [] => Err(CallError::not_found("api_key", text)),
        _ => Err(CallError::bad_request("several keys have this prefix: name the key by its id")),
    }
}
