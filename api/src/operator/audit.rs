//! `GET /v1/admin/audit-log`: the audit log of all customers.

use model::id::CustomerId;
use model::page::ListId;
use raft::directory::records::AuditEntry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::resources::audit_log::{AuditParameters, AuditView, page};
use crate::route::{GET, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/audit-log", list)
            .doc("list_whole_audit_log", "List the audit log of all customers, the newest first")
            .about("Failed attempts with unknown keys belong to no customer.")
            .query(asked)
            .page::<OwnedEntry>(),
    ]
}

/// An audit log entry with its account.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct OwnedEntry {
    #[serde(flatten)]
    pub entry: AuditView,
    /// The account that the entry belongs to; `null` if none is known.
    pub customer_id: Option<CustomerId>,
}

impl From<AuditEntry> for OwnedEntry {
    fn from(entry: AuditEntry) -> Self {
        Self { customer_id: entry.customer_id, entry: entry.into() }
    }
}

/// Reads the customer if only one is asked about, and the page.
fn asked(query: &Query<'_>) -> (Option<CustomerId>, AuditParameters) {
    (query.id("customer_id"), AuditParameters::of(query, ListId::only()))
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let (customer, asked) = call.asked(asked)?;
    let customers = match customer {
        Some(customer) => vec![Some(customer)],
        None => {
            let all = call.directory().read(|state| state.customers.keys().copied().collect::<Vec<_>>());
            all.into_iter().map(Some).chain([None]).collect()
        }
    };
    let (entries, next) = page(&call.app, customers, asked, ListId::only()).await?;
    Ok(Reply::ok(&List::page(entries.into_iter().map(OwnedEntry::from).collect(), next)))
}
