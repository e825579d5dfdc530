//! The account, its members, usage and audit log. For unrestricted keys and dashboard sessions.

pub mod audit_log;
mod members;
mod sessions;
mod usage;
mod view;

use model::customer::{Limits, Plan};
use model::error::CallError;
use model::field::{Body, Change, Judged, rule};
use model::id::CustomerId;
use model::issue::{IssueCode, Violation};
use model::member::Role;
use model::page::ListId;
use raft::directory::Ended;
use raft::directory::command::{Command, CustomerChange, Reply as Updated};
use raft::directory::records::CustomerRecord;
use serde_json::{Value, json};

use crate::audit::Target;
use crate::failure::of_kind;
use crate::reply::{Outcome, Reply};
use crate::request_context::{AccountCall, RequestContext};
use crate::resources::attempts::{self, Attempt};
use crate::resources::delete_with_keys;
use crate::route::{DELETE, GET, PATCH, Route};

pub use view::AccountView;

/// All routes refuse keys that are bound to a channel.
pub fn routes() -> Vec<Route> {
    let mut routes = own_routes();
    routes.extend(members::routes());
    routes.extend(sessions::routes());
    routes.into_iter().map(Route::multi_channel).collect()
}

fn own_routes() -> Vec<Route> {
    vec![
        Route::account(GET, "/v1/account", show).doc("get_account", "Get the account").ok::<AccountView>(),
        Route::account(PATCH, "/v1/account", patch)
            .doc("update_account", "Change the account's name or time zone")
            .body(parse_change, json!({ "name": "Acme", "timezone": "Europe/Berlin" }))
            .ok::<AccountView>(),
        Route::account(DELETE, "/v1/account", delete)
            .session()
            .doc("delete_account", "Delete the account")
            .about("For its owner. Keys, sessions and channels end at once; the data is deleted after a grace period.")
            .body(|body| require_confirmation(body, "Acme"), json!({ "confirm": "Acme" }))
            .accepted::<AccountView>(),
        Route::account(GET, "/v1/account/usage", usage::show).also(usage::described),
        Route::account(GET, "/v1/account/audit-log", audit_log::list)
            .doc("list_audit_log", "List the account's audit log, the newest first")
            .query(|query| audit_log::AuditParameters::of(query, ListId::only()))
            .page::<audit_log::AuditView>(),
    ]
}

/// A new account on the default plan, with its own data key.
///
/// # Errors
/// As [`Cluster::new_data_key`](shard::cluster::Cluster::new_data_key).
pub fn new_customer(
    ctx: &RequestContext,
    id: CustomerId,
    name: String,
    email: Option<String>,
) -> Result<CustomerRecord, CallError> {
    Ok(CustomerRecord {
        id,
        name,
        email,
        timezone: "UTC".to_owned(),
        plan: Plan::default(),
        limits: Limits::default(),
        data_key: ctx.cluster().new_data_key(id)?,
        former_data_key: None,
        created_at: ctx.now,
        deleted_at: None,
    })
}

async fn show(call: &mut AccountCall) -> Outcome {
    let customer = &call.caller.customer;
    Ok(Reply::ok(&AccountView::of(call, customer).await?.with_storage(call, customer).await))
}

/// Reads `{ "name"?, "timezone"? }`.
fn parse_change(body: &Body) -> Result<CustomerChange, CallError> {
    body.read_patch(|fields| {
        let name = fields.optional("name", rule::text(1..=120)).into();
        let timezone = fields.optional("timezone", timezone).into();
        Some(CustomerChange { name, timezone, ..CustomerChange::default() })
    })
}

/// Validates a name of the IANA time zone database.
fn timezone(value: &Value) -> Judged<String> {
    let names = || chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name().replace('+', "\\+")).collect::<Vec<_>>();
    let text = rule::string(value, || json!({ "maxLength": 64, "pattern": format!("^({})$", names().join("|")) }))?;
    let known = text.parse::<chrono_tz::Tz>().map_err(|_| {
        Violation::new(IssueCode::Format, "must be a time zone of the IANA database such as Europe/Berlin")
    })?;
    Ok(known.name().to_owned())
}

async fn patch(call: &mut AccountCall) -> Outcome {
    let change = parse_change(&call.object().await?)?;
    let id = call.customer_id();
    let named = if let Change::To(name) = &change.name { name.clone() } else { call.caller.customer.name.clone() };
    attempts::count(call, &[Attempt::EntryBy(id)]).await?;
    let entry = call.audited("account.updated", Target::new("account", id, named));
    let answer = call.update(Command::UpdateCustomer { id, change }, vec![entry]).await?;
    of_kind!(answer, Updated::Customer(customer) =>
        Reply::ok(&AccountView::of(call, &customer).await?.with_storage(call, &customer).await))
}

/// Reads `{ "confirm": name }`, which must name the account.
fn require_confirmation(body: &Body, account: &str) -> Result<(), CallError> {
    body.read(|fields| {
        fields.required("confirm", |value| match rule::text(1..=120)(value)? {
            name if name == account => Ok(()),
            _ => Err(Violation::new(IssueCode::Conflict, "must be the name of the account")),
        })
    })
}

/// Deletes the account as operators do: keys, sessions and channels end at once, data goes after the grace period.
async fn delete(call: &mut AccountCall) -> Outcome {
    if call.caller.require_session()?.role != Role::Owner {
        return Err(CallError::insufficient_scope(&["owner".to_owned()], &call.caller.scopes.to_strings()));
    }
    let body = call.object().await?;
    require_confirmation(&body, &call.caller.customer.name)?;
    let customer = &call.caller.customer;
    let entry = call.audited("account.deleted", Target::new("account", customer.id, customer.name.as_str()));
    let command = Command::DeleteCustomer { id: customer.id };
    delete_with_keys(call, command, entry, customer.id, Ended::Customer(customer.id)).await?;
    let deleted = CustomerRecord { deleted_at: Some(call.now), ..(**customer).clone() };
    Ok(Reply::accepted(&AccountView::of(call, &deleted).await?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn an_account_changes_by_name_and_time_zone() {
        let parse = |body: Value| parse_change(&Body::try_from(body).unwrap());
        let change = parse(json!({ "timezone": "Europe/Berlin" })).unwrap();
        assert!(change.name.is_keep() && matches!(change.timezone, Change::To(zone) if zone == "Europe/Berlin"));
        let table = [
            (json!({}), json!([]), "empty"),
            (json!({ "name": "" }), json!(["name"]), "too_short"),
            (json!({ "timezone": "Mars/Olympus" }), json!(["timezone"]), "format"),
            (json!({ "timezone": null }), json!(["timezone"]), "type"),
        ];
        for (body, path, code) in table {
            let details = parse(body.clone()).err().unwrap().details.unwrap();
            assert_eq!((&details[0]["path"], &details[0]["code"]), (&path, &json!(code)), "{body}");
        }
    }
}
