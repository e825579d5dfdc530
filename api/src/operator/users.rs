//! Members of customers: `/v1/admin/customers/{id}/users`. On premises nobody signs up, so the operator creates the
//! first member, and helps members who cannot log in.

use std::sync::Arc;

use model::error::CallError;
use model::field::{Body, Change, rule};
use model::id::{CustomerId, UserId};
use model::member::Role;
use model::time::Timestamp;
use raft::directory::command::{Command, Reply as Updated};
use raft::directory::users::{UserChange, UserCommand, UserRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::customers;
use crate::auth::session::new_member;
use crate::failure::of_kind;
use crate::reply::{List, Outcome, Reply, view_of};
use crate::request_context::OperatorCall;
use crate::resources::{email, new_password};
use crate::route::{DELETE, GET, PATCH, POST, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/customers/{id}/users", list)
            .doc("list_users", "List a customer's members")
            .list::<UserView>(),
        Route::operator(POST, "/v1/admin/customers/{id}/users", create)
            .doc("create_user", "Create a member of a customer")
            .body(parse_create, json!({ "email": "ann@example.com", "password": "correct horse battery" }))
            .created::<UserView>(),
        Route::operator(PATCH, "/v1/admin/customers/{id}/users/{user_id}", patch)
            .doc("update_user", "Change a member's role or password")
            .body(parse_patch, json!({ "role": "admin" }))
            .ok::<UserView>(),
        Route::operator(DELETE, "/v1/admin/customers/{id}/users/{user_id}", delete)
            .doc("delete_user", "Remove a member")
            .no_content(),
    ]
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "User")]
pub struct UserView {
    pub id: UserId,
    pub customer_id: CustomerId,
    pub email: String,
    pub role: Role,
    pub email_verified: bool,
    pub created_at: Timestamp,
    /// Time of the member's last login; `null` before the first.
    pub last_login_at: Option<Timestamp>,
}

impl From<&UserRecord> for UserView {
    fn from(user: &UserRecord) -> Self {
        view_of!(user => id, customer_id, email, role, email_verified, created_at, last_login_at)
    }
}

/// Parses the body of a creation. Members that an operator creates are confirmed by default.
fn parse_create(body: &Body) -> Result<(String, String, Role, bool), CallError> {
    body.read(|fields| {
        let email = fields.required("email", email);
        let password = fields.required("password", new_password);
        let role = fields.optional("role", rule::one_of(Role::WORDS, Role::parse)).unwrap_or(Role::Owner);
        let email_verified = fields.optional("email_verified", rule::boolean).unwrap_or(true);
        Some((email?, password?, role, email_verified))
    })
}

/// The role, whether the address is confirmed, and the new password before hashing.
type Patch = (Change<Role>, Change<bool>, Option<String>);

fn parse_patch(body: &Body) -> Result<Patch, CallError> {
    body.read_patch(|fields| {
        let role = fields.optional("role", rule::one_of(Role::WORDS, Role::parse));
        let email_verified = fields.optional("email_verified", rule::boolean);
        Some((role.into(), email_verified.into(), fields.optional("password", new_password)))
    })
}

async fn list(call: &mut OperatorCall) -> Outcome {
    let customer = customer(call)?;
    let users = call
        .directory()
        .read(|state| state.users.of_customer(customer).map(|user| UserView::from(&**user)).collect::<Vec<_>>());
    Ok(Reply::ok(&List::whole(users)))
}

async fn create(call: &mut OperatorCall) -> Outcome {
    let (email, password, role, email_verified) = parse_create(&call.object().await?)?;
    let customer_id = customer(call)?;
    let password = call.app.auth.passwords.hash(call.client.ip, password).await?;
    let user = UserRecord { email_verified, ..new_member(customer_id, email, password, role, call.now) };
    let entry = call.audited(customer_id, "member.created", user.audit_target());
    call.update(Command::Users(UserCommand::Create(user.clone())), vec![entry]).await?;
    Ok(Reply::created(&UserView::from(&user)))
}

/// Changes a member. A role takes effect with the member's next request; a new password ends the member's sessions.
async fn patch(call: &mut OperatorCall) -> Outcome {
    let (role, email_verified, password) = parse_patch(&call.object().await?)?;
    let user = find(call)?;
    let password = match password {
        Some(password) => Change::To(call.app.auth.passwords.hash(call.client.ip, password).await?),
        None => Change::Keep,
    };
    let change = UserChange { role, password, email_verified };
    let entry = call.audited(user.customer_id, "member.updated", user.audit_target());
    let command = UserCommand::Update { customer: user.customer_id, id: user.id, change };
    let answer = call.update(Command::Users(command), vec![entry]).await?;
    of_kind!(answer, Updated::User(user) => Reply::ok(&UserView::from(&user)))
}

async fn delete(call: &mut OperatorCall) -> Outcome {
    let user = find(call)?;
    let entry = call.audited(user.customer_id, "member.deleted", user.audit_target());
    let command = UserCommand::Delete { customer: user.customer_id, id: user.id };
    call.update(Command::Users(command), vec![entry]).await?;
    Ok(Reply::no_content())
}

/// The live customer that the path names.
fn customer(call: &OperatorCall) -> Result<CustomerId, CallError> {
    Ok(customers::find(call)?.id)
}

fn find(call: &OperatorCall) -> Result<Arc<UserRecord>, CallError> {
    let customer = customer(call)?;
    let user = call.known("user_id", |state, id: UserId| state.users.user(id).cloned());
    let own = user.filter(|user| user.customer_id == customer);
    own.ok_or_else(|| CallError::not_found("member", call.parameter("user_id")))
}
