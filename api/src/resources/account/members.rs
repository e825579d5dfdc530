//! Members of an account, managed by its owners and admins: invitations, roles, removals.

use std::sync::Arc;

use model::error::{CallError, ErrorCode as E};
use model::field::{Body, Change, rule};
use model::id::UserId;
use model::member::Role;
use model::scope::Access;
use model::time::Timestamp;
use raft::directory::command::{Command, Reply as Updated};
use raft::directory::users::{PasswordHash, UserChange, UserCommand, UserRecord};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::auth::password_token::INVITATION_LIFE;
use crate::auth::session::new_member;
use crate::failure::{self, of_kind};
use crate::reply::{List, Outcome, Reply, view_of};
use crate::request_context::AccountCall;
use crate::resources::attempts::{self, Attempt};
use crate::resources::{Link, email};
use crate::route::{DELETE, GET, PATCH, POST, Route};

pub fn routes() -> Vec<Route> {
    // All of these routes require a dashboard session.
    let routes = [
        Route::account(GET, "/v1/account/members", list)
            .doc("list_members", "List the account's members")
            .list::<Member>(),
        Route::account(POST, "/v1/account/members", invite)
            .doc("invite_member", "Invite a person to the account")
            .about(
                "For owners and admins; only owners can invite an owner. An e-mail is sent to the address, or, if the \
                 deployment sends no mail, the response has the token to give to the invited person. The token works \
                 once, within seven days.",
            )
            .body(parse_invitation, json!({ "email": "ben@example.com", "role": "member" }))
            .created::<InvitedMember>(),
        Route::account(POST, "/v1/account/members/{user_id}/invitation", invite_again)
            .doc("invite_member_again", "Repeat an invitation that is not accepted yet")
            .about("The previous token is no longer valid.")
            .ok::<InvitedMember>()
            .errors(&[E::NoOp]),
        Route::account(PATCH, "/v1/account/members/{user_id}", patch)
            .doc("update_member", "Change a member's role")
            .about("For owners and admins, except for their own role; only owners can appoint or change an owner.")
            .body(parse_change, json!({ "role": "viewer" }))
            .ok::<Member>(),
        Route::account(DELETE, "/v1/account/members/{user_id}", delete)
            .doc("remove_member", "Remove a member, or an invitation")
            .about(
                "For owners and admins; only owners can remove an owner, and everybody may leave. The member's \
                 sessions end at once.",
            )
            .no_content()
            .errors(&[E::BadRequest]),
    ];
    routes.map(Route::session).into()
}

#[derive(Serialize, JsonSchema)]
struct Member {
    id: UserId,
    email: String,
    role: Role,
    /// `active`, or `invited` while the member has not chosen a password.
    #[schemars(extend("enum" = ["active", "invited"]))]
    status: &'static str,
    created_at: Timestamp,
    /// Time of the member's last login; `null` before the first.
    last_login_at: Option<Timestamp>,
}

impl From<&UserRecord> for Member {
    fn from(user: &UserRecord) -> Self {
        view_of!(
            user => id, email, role, created_at, last_login_at;
            status: if user.is_invited() { "invited" } else { "active" }
        )
    }
}

#[derive(Serialize, JsonSchema)]
struct InvitedMember {
    #[serde(flatten)]
    member: Member,
    /// How the invited person chooses a password.
    invitation: Invitation,
}

/// How an invited person chooses a password.
#[derive(Serialize, JsonSchema)]
struct Invitation {
    /// Whether an e-mail is sent to the address. If so, `token` and `url` are `null`: only the e-mail contains them.
    mailed: bool,
    /// Token for `PUT /v1/auth/password/reset`; `null` if an e-mail is sent.
    token: Option<String>,
    /// Page on which to choose a password; `null` if an e-mail is sent, or the deployment has no such page.
    url: Option<String>,
    /// When it expires.
    expires_at: Timestamp,
}

async fn list(call: &mut AccountCall) -> Outcome {
    let users = call
        .directory()
        .read(|state| state.users.of_customer(call.customer_id()).map(|user| Member::from(&**user)).collect());
    Ok(Reply::ok(&List::whole(users)))
}

fn parse_invitation(body: &Body) -> Result<(String, Role), CallError> {
    body.read(|fields| {
        let email = fields.required("email", email);
        email.zip(fields.required("role", rule::one_of(Role::WORDS, Role::parse)))
    })
}

/// Invites a member, who exists at once, without a password: its role can be changed, and it counts towards the limit.
async fn invite(call: &mut AccountCall) -> Outcome {
    let (email, role) = parse_invitation(&call.object().await?)?;
    require_over(call, role)?;
    let taken = call.directory().read(|state| state.users.with_email(&email).is_some());
    count(call, &email).await?;
    if taken {
        return Err(failure::email_taken());
    }
    let user = new_member(call.customer_id(), email, PasswordHash::unset(rand::random()), role, call.now);
    let entry = call.audited("member.invited", user.audit_target());
    call.update(Command::Users(UserCommand::Create(user.clone())), vec![entry]).await?;
    Ok(Reply::created(&invited(call, &user)?).uncached())
}

async fn invite_again(call: &mut AccountCall) -> Outcome {
    let user = find(call)?;
    require_over(call, user.role)?;
    if !user.is_invited() {
        return Err(CallError::no_op("the member has chosen a password already"));
    }
    count(call, &user.email).await?;
    let change = UserChange { password: Change::To(PasswordHash::unset(rand::random())), ..UserChange::default() };
    let answer = update(call, &user, change, "member.invited").await?;
    let Updated::User(user) = answer else { return Err(failure::unexpected(&answer)) };
    Ok(Reply::ok(&invited(call, &user)?).uncached())
}

/// Counts the account's invitations, and e-mails to an address.
async fn count(call: &AccountCall, email: &str) -> Result<(), CallError> {
    let mut counted = vec![Attempt::InviteBy(call.customer_id())];
    if call.app.auth.mail.reaches_people() {
        counted.push(Attempt::MailTo(email.to_owned()));
    }
    attempts::count(call, &counted).await
}

/// Sends the invitation by e-mail, or returns what it would have said.
fn invited(call: &AccountCall, user: &UserRecord) -> Result<InvitedMember, CallError> {
    let link = Link::of(call, user, call.now.plus(INVITATION_LIFE))?;
    let mailed = call.app.auth.mail.reaches_people();
    let expires_at = link.expires_at;
    let invitation = if mailed {
        let inviter = call.caller.actor().email.unwrap_or_default();
        let base_url = &call.app.config.base_url;
        call.app.auth.mail.invite(base_url, &user.email, &inviter, &link.in_words(base_url));
        Invitation { mailed, token: None, url: None, expires_at }
    } else {
        Invitation { mailed, token: Some(link.token), url: link.url, expires_at }
    };
    Ok(InvitedMember { member: Member::from(user), invitation })
}

/// Reads `{ "role" }`.
fn parse_change(body: &Body) -> Result<Role, CallError> {
    body.read(|fields| fields.required("role", rule::one_of(Role::WORDS, Role::parse)))
}

/// Changes a member's role, which takes effect with the member's next request.
async fn patch(call: &mut AccountCall) -> Outcome {
    let role = parse_change(&call.object().await?)?;
    let user = find(call)?;
    require_over(call, user.role.max(role))?;
    if is_self(call, &user) {
        return Err(CallError::bad_request("another owner or admin changes your role"));
    }
    attempts::count(call, &[Attempt::EntryBy(call.customer_id())]).await?;
    let change = UserChange { role: Change::To(role), ..UserChange::default() };
    let answer = update(call, &user, change, "member.updated").await?;
    of_kind!(answer, Updated::User(user) => Reply::ok(&Member::from(&user)))
}

async fn delete(call: &mut AccountCall) -> Outcome {
    let user = find(call)?;
    if !is_self(call, &user) {
        require_over(call, user.role)?;
    }
    let entry = call.audited("member.deleted", user.audit_target());
    let command = UserCommand::Delete { customer: user.customer_id, id: user.id };
    call.update(keeping_an_owner(&user, command), vec![entry]).await?;
    Ok(Reply::no_content())
}

async fn update(call: &AccountCall, user: &UserRecord, change: UserChange, action: &str) -> Result<Updated, CallError> {
    let entry = call.audited(action, user.audit_target());
    let command = UserCommand::Update { customer: user.customer_id, id: user.id, change };
    call.update(keeping_an_owner(user, command), vec![entry]).await
}

/// Has the directory refuse a command that would leave the account without an owner, even when two owners remove each
/// other. Other members get the plain command, which older releases understand, too.
fn keeping_an_owner(user: &UserRecord, command: UserCommand) -> Command {
    Command::Users(if user.role == Role::Owner { UserCommand::KeepOwner(Box::new(command)) } else { command })
}

/// Owners and admins manage members; only owners manage owners.
fn require_over(call: &AccountCall, role: Role) -> Result<(), CallError> {
    call.caller.require_account(Access::Write)?;
    if role < Role::Owner || call.caller.require_session()?.role == Role::Owner {
        return Ok(());
    }
    Err(CallError::insufficient_scope(&["owner".to_owned()], &call.caller.scopes.to_strings()))
}

fn is_self(call: &AccountCall, user: &UserRecord) -> bool {
    call.caller.session().is_some_and(|session| session.subject == user.id.to_string())
}

/// The member of the caller's account that the path names.
fn find(call: &AccountCall) -> Result<Arc<UserRecord>, CallError> {
    let user = call.known("user_id", |state, id: UserId| state.users.user(id).cloned());
    let own = user.filter(|user| user.customer_id == call.customer_id());
    own.ok_or_else(|| CallError::not_found("member", call.parameter("user_id")))
}
