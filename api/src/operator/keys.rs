//! `GET /v1/admin/keys`: the API keys of all customers, and when each was last used. Never a secret.

use std::cmp::Reverse;
use std::sync::Arc;

use model::error::ApiError;
use model::id::{CustomerId, KeyId};
use model::page::{Cursor, DEFAULT_LIMIT, ListId};
use model::time::Timestamp;
use raft::directory::records::KeyRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exchange::OperatorCall;
use crate::openapi::Doc;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::resources::ApiKeyView;
use crate::route::Route;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/keys").operator(list).doc(
            Doc::new("list_all_keys", "List the API keys of all customers, the newest first")
                .query(|query| Asked::read(query))
                .page::<OwnedKey>(),
        ),
    ]
}

/// A key and whose it is.
#[derive(Serialize, JsonSchema)]
struct OwnedKey {
    #[serde(flatten)]
    key: ApiKeyView,
    /// `null` when the account's data is removed.
    customer_name: Option<String>,
}

/// The last key of a page.
#[derive(Serialize, Deserialize)]
struct KeyCursor {
    created_at: Timestamp,
    id: KeyId,
}

impl Cursor for KeyCursor {
    const KIND: &'static str = "admin-keys.1";
}

struct Asked {
    limit: usize,
    customer: Option<CustomerId>,
    with_revoked: bool,
    after: Option<(Timestamp, KeyId)>,
}

impl Asked {
    fn read(query: Query<'_>) -> Result<Self, ApiError> {
        let asked = Self {
            limit: query.limit().unwrap_or(DEFAULT_LIMIT),
            customer: query.id("customer_id"),
            with_revoked: query.flag("include_revoked").unwrap_or(false),
            after: query.cursor::<KeyCursor>(ListId::only()).map(|cursor| (cursor.created_at, cursor.id)),
        };
        query.finish(asked)
    }

    fn wants(&self, key: &KeyRecord) -> bool {
        self.customer.is_none_or(|customer| key.customer_id == customer)
            && (self.with_revoked || key.revoked_at.is_none())
            && self.after.is_none_or(|after| place(key) < after)
    }
}

fn place(key: &KeyRecord) -> (Timestamp, KeyId) {
    (key.created_at, key.id)
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let asked = Asked::read(call.query())?;
    let now = call.now;
    let (rows, next) = call.cluster().directory().read(|state| {
        let mut keys: Vec<&Arc<KeyRecord>> = state.keys.values().filter(|key| asked.wants(key)).collect();
        keys.sort_by_key(|key| Reverse(place(key)));
        let more = keys.len() > asked.limit;
        keys.truncate(asked.limit);
        let last = keys.last().filter(|_| more);
        let next = last.map(|key| KeyCursor { created_at: key.created_at, id: key.id }.encode(ListId::only()));
        let row = |key: &Arc<KeyRecord>| OwnedKey {
            key: ApiKeyView::new(key, now),
            customer_name: state.customers.get(&key.customer_id).map(|customer| customer.name.clone()),
        };
        (keys.into_iter().map(row).collect(), next)
    });
    Ok(Reply::ok(&List::page(rows, next)))
}
