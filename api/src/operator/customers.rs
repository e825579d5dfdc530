//! Customers: `/v1/admin/customers`.

use std::sync::Arc;

use futures::future::try_join_all;
use model::customer::{ChangeCustomer, CreateCustomer, Quota};
use model::error::CallError;
use model::field::Change;
use model::id::CustomerId;
use model::limit::BucketRule;
use model::page::{Cursor, DEFAULT_LIMIT, ListId};
use model::time::Timestamp;
use raft::directory::Ended;
use raft::directory::command::{Command, CustomerChange, Reply as Updated};
use raft::directory::records::CustomerRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::audit::Target;
use crate::failure::of_kind;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::{OperatorCall, RequestContext};
use crate::resources::{AccountView, IssuedKey, NewKey, delete_with_keys, new_customer};
use crate::route::{DELETE, GET, PATCH, POST, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/customers", list)
            .doc("list_customers", "List customers, the newest first")
            .query(asked)
            .page::<CustomerView>(),
        Route::operator(POST, "/v1/admin/customers", create)
            .doc("create_customer", "Create a customer with its first key")
            .body(CreateCustomer::parse, json!({ "name": "Acme", "plan": { "channel_limit": 5 } }))
            .created::<CreatedView>(),
        Route::operator(GET, "/v1/admin/customers/{id}", show)
            .doc("get_customer", "Get a customer")
            .ok::<CustomerView>(),
        Route::operator(PATCH, "/v1/admin/customers/{id}", patch)
            .doc("update_customer", "Change a customer, its plan or its limits")
            .body(ChangeCustomer::parse, json!({ "plan": { "overdue_since": null } }))
            .ok::<CustomerView>(),
        Route::operator(DELETE, "/v1/admin/customers/{id}", delete)
            .doc("delete_customer", "Delete a customer")
            .accepted::<CustomerView>(),
    ]
}

/// An account with its present limits.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Customer")]
pub struct CustomerView {
    #[serde(flatten)]
    pub account: AccountView,
    pub limits: CustomerLimits,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct CustomerLimits {
    pub customer: BucketRule,
    pub channel: BucketRule,
    // Release 0.2.0 does not send this field.
    #[serde(default)]
    #[schemars(!default)]
    pub storage: StorageLimits,
}

/// Storage limits of the account's plan.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
pub struct StorageLimits {
    /// Bytes of stored media.
    pub media_bytes: u64,
    pub message_bytes: u64,
    pub keys: u64,
    pub labels: u64,
    pub endpoints: u64,
    pub tickets_open: u64,
}

/// The new account, and its first API key.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CreatedCustomer")]
pub struct CreatedView {
    #[serde(flatten)]
    pub customer: CustomerView,
    /// The first key of the account; its secret is shown once.
    pub api_key: IssuedKey,
}

impl CustomerView {
    async fn of(ctx: &RequestContext, customer: &CustomerRecord) -> Result<Self, CallError> {
        let limit = |quota| customer.limits.storage.limit(quota);
        let storage = StorageLimits {
            media_bytes: limit(Quota::MediaBytes),
            message_bytes: limit(Quota::MessageBytes),
            keys: limit(Quota::Keys),
            labels: limit(Quota::Labels),
            endpoints: limit(Quota::Endpoints),
            tickets_open: limit(Quota::TicketsOpen),
        };
        let (per_customer, per_channel) = (ctx.app.customer_rule(customer), ctx.app.channel_rule(customer));
        let limits = CustomerLimits { customer: per_customer, channel: per_channel, storage };
        Ok(Self { account: AccountView::of(ctx, customer).await?, limits })
    }
}

model::cursor! {
    /// The last customer of a page.
    CustomerCursor("customers.1") { created_at: Timestamp, id: CustomerId }
}

/// Reads the page size, and where the previous page ended.
fn asked(query: &Query<'_>) -> (usize, Option<(Timestamp, CustomerId)>) {
    let limit = query.limit().unwrap_or(DEFAULT_LIMIT);
    (limit, query.cursor::<CustomerCursor>(ListId::only()).map(|cursor| (cursor.created_at, cursor.id)))
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let (limit, after) = call.asked(asked)?;
    let place = |customer: &CustomerRecord| (customer.created_at, customer.id);
    let mut customers: Vec<Arc<CustomerRecord>> = call.directory().read(|state| {
        let live = state.customers.values().filter(|customer| customer.deleted_at.is_none());
        live.filter(|customer| after.is_none_or(|after| place(customer) < after)).cloned().collect()
    });
    customers.sort_by_key(|customer| std::cmp::Reverse(place(customer)));
    let List { data, next_cursor } = List::first(customers, limit, |customer| {
        CustomerCursor { created_at: customer.created_at, id: customer.id }.encode(ListId::only())
    });
    let data = try_join_all(data.iter().map(|customer| CustomerView::of(call, customer))).await?;
    Ok(Reply::ok(&List { data, next_cursor }))
}

async fn create(call: &mut OperatorCall) -> Outcome {
    let CreateCustomer { name, email, plan, limits } = CreateCustomer::parse(&call.object().await?)?;
    let id = CustomerId::new();
    let customer = CustomerRecord { plan, limits, ..new_customer(call, id, name, email)? };
    let (record, secret) = NewKey::first_of(id).generate(call.now);
    let entry = call.audited(id, "key.issued", Target::new("api_key", record.id, record.name.as_str()));
    call.update(Command::CreateCustomer { customer: Box::new(customer.clone()), key: record.clone() }, vec![entry])
        .await?;
    let created = CreatedView {
        customer: CustomerView::of(call, &customer).await?,
        api_key: IssuedKey::new(&record, &secret, call.now),
    };
    Ok(Reply::created(&created).uncached())
}

async fn show(call: &mut OperatorCall) -> Outcome {
    let customer = find(call)?;
    Ok(Reply::ok(&CustomerView::of(call, &customer).await?))
}

async fn patch(call: &mut OperatorCall) -> Outcome {
    let asked = ChangeCustomer::parse(&call.object().await?)?;
    let known = find(call)?;
    let (mut name, mut email) = (known.name.clone(), known.email.clone());
    let (mut plan, mut limits) = (known.plan.clone(), known.limits);
    asked.apply(&mut name, &mut email, &mut plan, &mut limits);
    // Only changed fields are proposed, so that a concurrent change by another operator stays.
    let change = CustomerChange {
        name: changed(&known.name, name),
        email: changed(&known.email, email),
        timezone: Change::Keep,
        plan: changed(&known.plan, plan),
        limits: changed(&known.limits, limits),
    };
    let fields = [
        ("name", change.name.is_keep()),
        ("email", change.email.is_keep()),
        ("plan", change.plan.is_keep()),
        ("limits", change.limits.is_keep()),
    ];
    let fields: Vec<&str> = fields.into_iter().filter(|(_, is_kept)| !is_kept).map(|(field, _)| field).collect();
    let mut entry = call.audited(known.id, "customer.updated", Target::new("customer", known.id, known.name.as_str()));
    entry.details.insert("changed".to_owned(), fields.join(", "));
    let audit = if fields.is_empty() { Vec::new() } else { vec![entry] };
    let answer = call.update(Command::UpdateCustomer { id: known.id, change }, audit).await?;
    of_kind!(answer, Updated::Customer(customer) => Reply::ok(&CustomerView::of(call, &customer).await?))
}

fn changed<T: PartialEq>(old: &T, new: T) -> Change<T> {
    if *old == new { Change::Keep } else { Change::To(new) }
}

/// Deletes a customer. Keys and channels end at once (owners notice the deletion); data goes after the grace period.
async fn delete(call: &mut OperatorCall) -> Outcome {
    let known = find(call)?;
    let entry = call.audited(known.id, "customer.deleted", Target::new("customer", known.id, known.name.as_str()));
    delete_with_keys(call, Command::DeleteCustomer { id: known.id }, entry, known.id, Ended::Customer(known.id))
        .await?;
    let deleted = CustomerRecord { deleted_at: Some(call.now), ..(*known).clone() };
    Ok(Reply::accepted(&CustomerView::of(call, &deleted).await?))
}

pub(super) fn find(call: &OperatorCall) -> Result<Arc<CustomerRecord>, CallError> {
    let known = call.known("id", |state, id: CustomerId| state.customers.get(&id).cloned());
    let live = known.filter(|customer| customer.deleted_at.is_none());
    live.ok_or_else(|| CallError::not_found("customer", call.parameter("id")))
}
