//! Login, refresh and logout.

use std::sync::Arc;

use model::error::{CallError, ErrorCode};
use model::field::{Body, rule};
use model::session_token::RefreshToken;
use raft::directory::UpdateError;
use raft::directory::command::{Command, Rejection, Reply as Updated};
use raft::directory::users::{PasswordHash, SessionRecord, UserCommand, UserRecord};
use subtle::ConstantTimeEq;

use super::attempts::{self, Attempt};
use crate::audit::{Suspect, Target};
use crate::auth::session::{self, TokensView};
use crate::failure::{self, of_kind};
use crate::pipeline::{Address, caller, fresh_directory};
use crate::reply::{Outcome, Reply};
use crate::request_context::RequestContext;

/// The longest text that is taken for a password at a login: what is longer is none.
pub const LONGEST_PASSWORD: usize = 1024;

/// The longest text that is looked at as a refresh token: an access token in its place is refused as a wrong token.
const LONGEST_TOKEN: usize = 8 * 1024;

/// A member's address and password.
pub fn parse_login(body: &Body) -> Result<(String, String), CallError> {
    body.read(|fields| {
        let email = fields.required("email", super::known_email);
        email.zip(fields.required("password", rule::text(1..=LONGEST_PASSWORD)))
    })
}

/// Answers a wrong password and an unknown address alike, and after the same work.
///
/// Wrong passwords are counted by address and member, so that the right one is let in from any address that has not
/// failed; right ones by member alone.
pub async fn login(ctx: &mut RequestContext) -> Outcome {
    Ok(Reply::ok(&log_in(ctx).await?).uncached())
}

/// The member of an account that was not deleted.
pub fn with_email(ctx: &RequestContext, email: &str) -> Option<Arc<UserRecord>> {
    ctx.directory().read(|state| {
        let user = state.users.with_email(email)?;
        let customer = state.customers.get(&user.customer_id)?;
        customer.deleted_at.is_none().then(|| user.clone())
    })
}

/// Whether a password is that of the hash. What was counted before is given back where it could not be tried.
pub async fn is_password(
    ctx: &RequestContext,
    counted: &[Attempt],
    password: String,
    hash: Option<PasswordHash>,
) -> Result<bool, CallError> {
    let same = ctx.app.auth.passwords.verify(ctx.client.ip, password, hash).await;
    if same.is_err() {
        attempts::give_back(ctx, counted).await;
    }
    same
}

/// The tokens of a login; for the console, too.
///
/// # Errors
/// Those of the route.
pub async fn log_in(ctx: &mut RequestContext) -> Result<TokensView, CallError> {
    let (email, password) = parse_login(&ctx.object().await?)?;
    let ip = ctx.client.ip;
    let failures = [Attempt::LoginFrom(ip), Attempt::LoginFromAs(ip, email.clone())];
    attempts::count(ctx, &failures).await?;
    fresh_directory(ctx).await?;
    let known = with_email(ctx, &email);
    let same = is_password(ctx, &failures, password, known.as_ref().map(|user| user.password.clone())).await?;
    let Some(user) = known.as_ref().filter(|_| same) else {
        let suspect = known.map_or(Suspect::Unknown(None), |user| suspect(&user));
        ctx.note_failure(suspect, ErrorCode::AuthInvalid);
        return Err(CallError::new(ErrorCode::AuthInvalid, "the e-mail address or the password is wrong"));
    };
    let [from, from_as] = failures;
    attempts::give_back(ctx, &[from]).await;
    // Whoever logs in too often goes on paying with its own attempts, so that its hashes end, too.
    attempts::count(ctx, &[Attempt::Login(email)]).await?;
    attempts::give_back(ctx, &[from_as]).await;

    let (session, token) = session::open(user, ctx.now);
    let tokens = TokensView::issue(&ctx.app.auth.keys(ctx.cluster())?.access.present, user, &session, &token, ctx.now)?;
    let entry = ctx.login_entry(user.customer_id, "auth.login", user.audit_actor(), target(&session, user));
    ctx.update(Command::Users(UserCommand::OpenSession(session)), vec![entry]).await?;
    Ok(tokens)
}

/// Reads `{ "refresh_token" }`.
pub fn parse_refresh(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required("refresh_token", rule::text(1..=LONGEST_TOKEN)))
}

/// Exchanges a refresh token for the next one. A token that was exchanged before is in two hands, and nobody can tell
/// whose are the right ones: its session ends.
pub async fn refresh(ctx: &mut RequestContext) -> Outcome {
    let text = parse_refresh(&ctx.object().await?)?;
    Ok(Reply::ok(&exchange_token(ctx, &text).await?).uncached())
}

/// The tokens that follow a refresh token; for the console, too.
///
/// # Errors
/// Those of the route.
pub async fn exchange_token(ctx: &RequestContext, text: &str) -> Result<TokensView, CallError> {
    fresh_directory(ctx).await?;
    let refused = |ctx: &RequestContext, suspect: Suspect, error: CallError| {
        ctx.note_failure(suspect, error.code);
        Err(error)
    };
    let found = RefreshToken::parse(text).and_then(|token| Some((find(ctx, &token)?, token)));
    let Some(((session, user), token)) = found else {
        return refused(ctx, Suspect::Unknown(None), CallError::auth_invalid());
    };
    if let Some(revoked_at) = session.revoked_at {
        return refused(ctx, suspect(&user), CallError::auth_revoked(revoked_at));
    }
    if session.expires_at <= ctx.now {
        return refused(ctx, suspect(&user), CallError::auth_expired(session.expires_at));
    }
    attempts::count(ctx, &[Attempt::RefreshOf(session.id)]).await?;
    let next = token.next(rand::random());
    let expires_at = session::refreshed_until(&session, ctx.now);
    let rotate = UserCommand::RotateSession { id: session.id, from: token.hash(), to: next.hash(), expires_at };
    let rotated = if bool::from(session.token.ct_eq(&token.hash())) {
        ctx.try_update(Command::Users(rotate), Vec::new()).await
    } else {
        Err(UpdateError::Rejected(Rejection::SessionMoved))
    };
    match rotated {
        Ok(_) => TokensView::issue(&ctx.app.auth.keys(ctx.cluster())?.access.present, &user, &session, &next, ctx.now),
        Err(UpdateError::Rejected(Rejection::SessionMoved)) => {
            let entry =
                ctx.login_entry(user.customer_id, "auth.token_reused", user.audit_actor(), target(&session, &user));
            let revoke = Command::Users(UserCommand::RevokeSession { id: session.id });
            let ended = of_kind!(ctx.update(revoke, vec![entry]).await?, Updated::Session(session) => session)?;
            refused(ctx, suspect(&user), CallError::auth_revoked(ended.revoked_at.unwrap_or(ctx.now)))
        }
        Err(error) => Err(failure::of_update(error)),
    }
}

/// Ends the session of a refresh token, be it the newest one or not; one that belongs to no session ends nothing.
///
/// # Errors
/// 503 while no leader answers.
pub async fn end_session(ctx: &RequestContext, text: &str) -> Result<(), CallError> {
    fresh_directory(ctx).await?;
    let found = RefreshToken::parse(text).and_then(|token| find(ctx, &token));
    let Some((session, user)) = found.filter(|(session, _)| session.revoked_at.is_none()) else { return Ok(()) };
    let entry = ctx.login_entry(user.customer_id, "auth.logout", user.audit_actor(), target(&session, &user));
    let revoke = Command::Users(UserCommand::RevokeSession { id: session.id });
    ctx.update(revoke, vec![entry]).await.map(drop)
}

/// The session of a token that is, or once was, one of its tokens.
fn find(ctx: &RequestContext, token: &RefreshToken) -> Option<(Arc<SessionRecord>, Arc<UserRecord>)> {
    ctx.directory().read(|state| {
        let session = state.users.session(token.session())?;
        let same_family = bool::from(session.family.ct_eq(&token.family_hash()));
        let user = state.users.user(session.user_id)?;
        same_family.then(|| (session.clone(), user.clone()))
    })
}

/// Once this has answered, no node accepts a token of the session.
pub async fn logout(ctx: &mut RequestContext) -> Outcome {
    let caller = caller(ctx, Address::Any).await?;
    let Some(id) = caller.require_session()?.id else {
        return Err(CallError::bad_request("this session is of another issuer; log out there"));
    };
    let target = Target::new("session", id, caller.actor().email.unwrap_or_default());
    let entry = ctx.login_entry(caller.customer.id, "auth.logout", caller.actor(), target);
    ctx.update(Command::Users(UserCommand::RevokeSession { id }), vec![entry]).await?;
    Ok(Reply::no_content())
}

pub fn suspect(user: &UserRecord) -> Suspect {
    Suspect::Member { customer: user.customer_id, subject: user.id.to_string(), email: user.email.clone() }
}

fn target(session: &SessionRecord, user: &UserRecord) -> Target {
    Target::new("session", session.id, user.email.as_str())
}
