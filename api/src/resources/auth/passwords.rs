//! Passwords that members choose: to change one, to replace a forgotten one, or first after an invitation.

use std::sync::Arc;

use model::error::{CallError, ErrorCode};
use model::field::{Body, Change, rule};
use model::id::UserId;
use model::issue::{IssueCode, Violation};
use model::time::Timestamp;
use raft::directory::command::Command;
use raft::directory::users::{UserChange, UserCommand, UserRecord};

use super::attempts::{self, Attempt};
use super::sign_in::{LONGEST_PASSWORD, is_password, suspect, with_email};
use super::sign_up::{Nothing, parse_email};
use crate::app::App;
use crate::audit::Suspect;
use crate::auth::password_token::{LONGEST, PasswordToken, RESET_LIFE};
use crate::pipeline::fresh_directory;
use crate::reply::{Outcome, Reply};
use crate::request_context::{AccountCall, RequestContext};

/// What a member needs to choose a password.
pub struct Link {
    pub token: String,
    /// URL of the page for it, if there is one.
    pub url: Option<String>,
    pub expires_at: Timestamp,
}

impl Link {
    /// # Errors
    /// `auth_backend_unavailable` while the node cannot open the deployment's keys.
    pub fn of(ctx: &RequestContext, user: &UserRecord, expires_at: Timestamp) -> Result<Self, CallError> {
        let key = &ctx.app.auth.keys(ctx.cluster())?.password;
        let token = key.seal(&PasswordToken::of(user, expires_at), rand::random());
        Ok(Self { url: page(&ctx.app, &token), token, expires_at })
    }

    /// The link as text for an e-mail.
    pub fn in_words(&self, base_url: &str) -> String {
        match &self.url {
            Some(url) => format!("Open this page to choose a password:\n\n{url}\n"),
            None => format!(
                "Choose a password with this token:\n\n{token}\n\nas in\n\ncurl -X PUT {base_url}/v1/auth/password/reset \
                 -H 'Content-Type: application/json' -d '{{\"token\":\"{token}\",\"password\":\"...\"}}'\n",
                token = self.token,
            ),
        }
    }
}

/// The URL of the configured page, or of the console's with the token in the fragment, which stays in the browser.
fn page(app: &App, token: &str) -> Option<String> {
    let configured = app.auth.config.password_url.as_ref().map(|url| url.replace("{token}", token));
    let of_console =
        || app.config.console.customers.then(|| format!("{}/console#set-password={token}", app.config.base_url));
    configured.or_else(of_console)
}

/// Parses the member's current password, and the new one.
pub fn parse_change(body: &Body) -> Result<(String, String), CallError> {
    body.read(|fields| {
        let current = fields.required("current_password", rule::text(1..=LONGEST_PASSWORD));
        current.zip(fields.required("new_password", super::new_password))
    })
}

/// Requires the current password, so that an unattended session is not enough to lock its member out. Wrong guesses are
/// counted like failed logins.
pub async fn change(call: &mut AccountCall) -> Outcome {
    let (current, new) = parse_change(&call.object().await?)?;
    let session = call.caller.require_session()?;
    let id: Option<UserId> = session.id.and_then(|_| session.subject.parse().ok());
    let Some(user) = id.and_then(|id| find(call, id)) else {
        return Err(CallError::bad_request("this session is of another issuer; change the password there"));
    };
    let ip = call.client.ip;
    let failures = [Attempt::LoginFrom(ip), Attempt::LoginFromAs(ip, user.email.clone())];
    attempts::count(call, &failures).await?;
    if !is_password(call, &failures, current, Some(user.password.clone())).await? {
        call.note_failure(suspect(&user), ErrorCode::AuthInvalid);
        return Err(Violation::new(IssueCode::Conflict, "is not the member's password").at(&["current_password"]));
    }
    attempts::give_back(call, &failures).await;
    attempts::count(call, &[Attempt::EntryBy(user.customer_id)]).await?;
    let password = call.app.auth.passwords.hash(ip, new).await?;
    let change = UserChange { password: Change::To(password), ..UserChange::default() };
    let entry = call.audited("member.password_changed", user.audit_target());
    let command = UserCommand::Update { customer: user.customer_id, id: user.id, change };
    call.update(Command::Users(command), vec![entry]).await?;
    Ok(Reply::no_content())
}

/// Sends a token for a new password. Nothing is stored, and the response is the same for any address. Invited members
/// who have not joined yet can use it too.
pub async fn ask_for_reset(ctx: &mut RequestContext) -> Outcome {
    if !ctx.app.auth.mail.goes_anywhere() {
        return Err(CallError::route_not_found());
    }
    let email = parse_email(&ctx.object().await?)?;
    attempts::count(ctx, &[Attempt::MailFrom(ctx.client.ip), Attempt::MailTo(email.clone())]).await?;
    fresh_directory(ctx).await?;
    if let Some(user) = with_email(ctx, &email) {
        let link = Link::of(ctx, &user, ctx.now.plus(RESET_LIFE))?;
        let base_url = &ctx.app.config.base_url;
        ctx.app.auth.mail.reset_password(base_url, &user.email, &link.in_words(base_url));
    }
    Ok(Reply::accepted(&Nothing {}))
}

/// Parses a token for a password, and the password.
pub fn parse_set(body: &Body) -> Result<(String, String), CallError> {
    body.read(|fields| {
        let token = fields.required("token", rule::text(1..=LONGEST));
        token.zip(fields.required("password", super::new_password))
    })
}

/// Sets a password. The holder of the token reads the member's mail, or received the token from the inviting member, so
/// the address counts as confirmed. The token is void once the password has changed; if two requests use it at the same
/// time, the later password stays.
pub async fn set(ctx: &mut RequestContext) -> Outcome {
    let (token, password) = parse_set(&ctx.object().await?)?;
    fresh_directory(ctx).await?;
    let token = ctx.app.auth.keys(ctx.cluster())?.password.open(&token);
    let found = token.and_then(|token| Some((find(ctx, token.user).filter(|user| token.fits(user))?, token)));
    let Some((user, token)) = found else {
        ctx.note_failure(Suspect::Unknown(None), ErrorCode::AuthInvalid);
        let advice = "the token was used, or another one took its place; ask for another";
        return Err(CallError::new(ErrorCode::AuthInvalid, advice));
    };
    if token.expires_at <= ctx.now {
        return Err(CallError::auth_expired(token.expires_at));
    }
    let password = ctx.app.auth.passwords.hash(ctx.client.ip, password).await?;
    let action = if user.is_invited() { "member.joined" } else { "member.password_reset" };
    let entry = ctx.audit_entry(user.customer_id, action, user.audit_actor(), user.audit_target());
    let change =
        UserChange { password: Change::To(password), email_verified: Change::To(true), ..UserChange::default() };
    let command = UserCommand::Update { customer: user.customer_id, id: user.id, change };
    ctx.update(Command::Users(command), vec![entry]).await?;
    Ok(Reply::no_content())
}

fn find(ctx: &RequestContext, id: UserId) -> Option<Arc<UserRecord>> {
    ctx.directory().read(|state| state.users.user(id).cloned())
}
